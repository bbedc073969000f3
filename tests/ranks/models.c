/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same numbers on every mesh, for other models than mesh.c's: a GPT-2 with dropout, a Llama with dropout,
 * a Llama with a tied head, and models of kinds with Llama's layers. The gates (tolerances) of yoke parity
 * compare each with one host rank. The layouts divide heads, words, rows, stages and sequences. Neither the
 * elements that dropout drops nor a K/V head's result may depend on the layout or on the rank that computes
 * the head. The test is also built with planted bugs. In models_planted each rank counts its own rows from 0,
 * so dropout differs by layout. In models_planted_heads the gradient of a K/V head that several ranks hold is
 * not summed over these ranks.
 */
#include "train/models/model_files.h"

static int family;
static yoke_status choose(struct yokei_model_config *out);
#define PARITY_MODEL choose
#include "tests/ranks/parity.h"

enum { DROPPING, LLAMA, TIED, QWEN2, MISTRAL, N_FAMILIES };

static yoke_status choose(struct yokei_model_config *out)
{
    static const char *const names[N_FAMILIES] = { "nano", "llama-nano", "llama-nano", "qwen2-nano",
                                                   "mistral-nano" };
    YOKE_TRY(yokei_model_named(names[family], out));
    if (family == DROPPING)
        out->gpt2.attn_pdrop = 0.1, out->gpt2.resid_pdrop = 0.2, out->gpt2.embd_pdrop = 0.1;
    if (family == LLAMA) out->llama.attention_dropout = 0.1;
    if (family == TIED) out->llama.tie_word_embeddings = true;
    return YOKE_OK;
}

#ifdef PLANT_ROWS
#include "train/layers/layers.h"
yoke_status yokei_drop_rows(const yoke_layer *layer, const struct yoke_layer_call *call, const char *what,
                            float p, const struct yokei_rows *r, const void *x, const void *residual, void *y)
{
    return YOKE_CALL(call, dropout, .dtype = call->shape->dtype, .N = r->n_own, .C = r->C,
                     .T = call->shape->T, .p = p, .key = yokei_drop_key(layer, call, what),
                     .sample_start = call->pass->sample_offset, .x = x, .ldx = r->C, .residual = residual,
                     .ldresidual = r->C, .y = y, .ldy = r->C);
}

int main(void)
{
    struct tried t;
    ranks_start();
    if (ranks_check(!try_layouts("tp=2 micro-batch=3 sequence-parallel\n", "host", 1, 0, &t),
                    "a layout is tried")) {
        ranks_check(t.n == 1 && t.results[0].gradient.ratio > 10,
                    "rows counted from each rank's first are noticed: %.0f gates",
                    t.results[0].gradient.ratio);
        free_tried(&t);
    }
    return ranks_end();
}
#elif defined PLANT_HEADS
#include <dlfcn.h>
#include "train/trainer/trainer.h"

/*
 * Sum only some of the parameters that all tensor ranks hold: K and V of heads whose group is divided among
 * ranks are left out.
 */
yoke_status yokei_zero_sum(yoke_trainer *t, int parameter, yoke_comm *comm, yoke_stream *stream)
{
    typedef yoke_status sum_function(yoke_trainer *, int, yoke_comm *, yoke_stream *);
    const char *name = t->plan.parameters.item[parameter].name;
    if (strstr(name, "k_proj") || strstr(name, "v_proj")) return YOKE_OK;
    return ((sum_function *)(uintptr_t)dlsym(RTLD_NEXT, "yokei_zero_sum"))(t, parameter, comm, stream);
}

int main(void)
{
    struct tried t;
    ranks_start();
    family = LLAMA;
    if (ranks_check(!try_layouts("tp=4 micro-batch=8\n", "host", 1, 0, &t), "a layout is tried")) {
        const struct yokei_parity_worst *w = &t.results[0].gradient;
        ranks_check(t.n == 1 && w->ratio > 10 && strstr(w->where, "_proj"),
                    "a K/V head's gradient that its holders do not sum is noticed: %.0f gates, %s", w->ratio,
                    w->where);
        free_tried(&t);
    }
    return ranks_end();
}
#else

/*
 * There are four heads and two K/V heads. Four ranks, and shares of 3:1, divide the groups of heads; two
 * equal ranks do not.
 */
static const char both[] = "tp=2 micro-batch=4\n"
                           "tp=2 micro-batch=3 tensor-shares=3:1 sequence-parallel precision=f32,bf16\n"
                           "tp=4 micro-batch=8 recompute=full\n"
                           "pp=2 micro-batch=2 schedule=zb-h1 recompute=attention\n"
                           "pp=2 tp=2 micro-batch=4 sequence-parallel\n"
                           "pp=2 tp=1,3 micro-batch=4\n"
                           "dp=2 tp=2 shares=5:3 tensor-shares=1:3 micro-batch=2 zero=1\n";
static const char tied[] =
    "pp=2 micro-batch=2\npp=2 tp=2 micro-batch=4 sequence-parallel\npp=2 tp=1,3 micro-batch=4\n";
/* What the biases of divided heads and of shared K/V heads add. */
static const char others[] = "tp=2 micro-batch=4 recompute=full\n"
                             "pp=2 tp=1,3 micro-batch=4 precision=f32,bf16\n"
                             "dp=2 tp=2 tensor-shares=3:1 sequence-parallel micro-batch=3 zero=1\n";
static const char mixed[] =
    "tp=2 tensor-shares=1:3 micro-batch=4 from=0\ndp=2 shares=3:5 micro-batch=4 from=0 precision=f32,bf16\n";

int main(void)
{
    ranks_start();
    if (ranks_rank == 0) printf("# seed %d\n", SEED);
    const bool opencl = ranks_all(ranks_has_device("opencl:0"));
    ranks_check(ranks_size == 4, "there are 4 ranks");
    for (family = 0; family < N_FAMILIES && ranks_size == 4; family++) {
        check_layouts(family == TIED ? tied : family < TIED ? both : others, "host", soak_steps(10));
        if (opencl && family < TIED)
            check_layouts(mixed, ranks_rank == 1 ? "opencl:0" : "host", soak_steps(10));
    }
    return ranks_end();
}
#endif
