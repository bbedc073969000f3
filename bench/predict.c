/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long it takes to predict the step of one more layout: a Llama with 8 billion parameters on 256 devices,
 * batch 512. Each row is one layout, predicted after those above it by the same predictor. A row checks that
 * the parts of the step add up to the step, and that the step is at least the work of the slowest stage.
 * Processor time, without the model's creation.
 */
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/base.h"
#include "train/search/predict.h"

static double processor_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A cluster of 32 hosts with 8 devices each, of about the speed of an H100. */
static void make_cluster(struct yokei_cluster *c)
{
    static const struct yokei_speed gemm = { 1, { { 0, 6e14 } }, 2.5e12, 5e-6 },
                                    attention = { 1, { { 0, 3e14 } }, 2.5e12, 5e-6 },
                                    other = { 0, { { 0, 0 } }, 2.5e12, 5e-6 };
    *c = (struct yokei_cluster){ .name = "bench", .n_kinds = 1, .n_links = 2, .n_hosts = 1 };
    struct yokei_device_kind *k = &c->kind[0];
    yokei_text(k->name, sizeof k->name, "gpu");
    k->memory = UINT64_C(80) << 30;
    for (int type = 0; type < YOKEI_N_SPEED_TYPES; type++) {
        k->speed[type][YOKEI_CLASS_GEMM] = gemm;
        k->speed[type][YOKEI_CLASS_ATTENTION] = attention;
        k->speed[type][YOKEI_CLASS_OPTIMIZER] = k->speed[type][YOKEI_CLASS_OTHER] = other;
    }
    c->link[0] = (struct yokei_link){ "inside", 300e9, 3e-6 };
    c->link[1] = (struct yokei_link){ "between", 50e9, 10e-6 };
    c->host[0] = (struct yokei_cluster_host){
        .name = "node", .n = 32, .n_lists = 1, .n_links = 8, .inner = -1
    };
    c->host[0].devices[0] = (struct yokei_host_devices){ 0, 8, 0 };
    c->between[0][0] = 1;
}

/* Blocks as equal as possible. */
static void cut(struct yokei_layout *l, int n_blocks)
{
    const int n = l->pipeline * l->chunks;
    for (int i = 0; i < n; i++) l->blocks[i] = (int16_t)(n_blocks / n + (i < n_blocks % n));
}

static int predict(yokei_predictor *p, struct yokei_layout l, double *most)
{
    struct yokei_prediction x;
    cut(&l, 32);
    const double begun = processor_seconds();
    const yoke_status status = yokei_predict(p, &l, &x);
    const double seconds = processor_seconds() - begun;
    if (status) {
        fprintf(stderr, "bench/predict: %s\n", yoke_last_error());
        return 1;
    }
    const struct yokei_step_split *s = &x.split;
    const double sum = s->arithmetic + s->recomputation + s->tensor + s->bubble + s->exposed_sums
                       + s->optimizer;
    if (!(fabs(sum - x.step_seconds) <= 1e-9 * x.step_seconds) || s->arithmetic <= 0 || s->bubble < -1e-9) {
        fprintf(stderr, "bench/predict: the parts of the step do not add up\n");
        return 1;
    }
    printf(
        "dp %-3d pp %-2d tp %d %-11s %d, %-9s zero %d, micro-batch %-2lld %8.1f ms  step %.3f s, bubble %4.1f %%, %s\n",
        l.data, l.pipeline, l.tensor, l.pipeline > 1 ? yokei_pipeline_names[l.schedule] : "-", l.chunks,
        yokei_recompute_words[l.recompute], l.zero, (long long)l.micro_batch, 1e3 * seconds, x.step_seconds,
        100 * x.bubble, x.fits ? "fits" : "does not fit");
    *most = fmax(*most, seconds);
    yokei_prediction_free(&x);
    return 0;
}

int main(void)
{
    static const struct yokei_layout layouts[] = {
        { 4, 8, 8, 1, YOKEI_PIPELINE_1F1B, 0, 1, false, 1, 1, { 0 }, false, { 0 } },
        { 4, 8, 8, 1, YOKEI_PIPELINE_ZB_H1, 0, 1, false, 1, 1, { 0 }, false, { 0 } },
        { 4, 8, 8, 1, YOKEI_PIPELINE_GPIPE, 2, 1, true, 1, 1, { 0 }, false, { 0 } },
        { 4, 8, 8, 2, YOKEI_PIPELINE_INTERLEAVED, 0, 1, true, 1, 1, { 0 }, false, { 0 } },
        { 1, 32, 8, 1, YOKEI_PIPELINE_1F1B, 0, 0, false, 1, 1, { 0 }, false, { 0 } },
        { 1, 32, 8, 1, YOKEI_PIPELINE_ZB_H1, 0, 0, false, 1, 1, { 0 }, false, { 0 } },
        { 2, 16, 8, 1, YOKEI_PIPELINE_1F1B, 1, 0, true, 1, 1, { 0 }, false, { 0 } },
        { 2, 16, 8, 2, YOKEI_PIPELINE_INTERLEAVED, 2, 0, false, 1, 1, { 0 }, false, { 0 } },
        { 8, 4, 8, 1, YOKEI_PIPELINE_1F1B, 0, 1, true, 2, 1, { 0 }, true, { 0 } },
        { 8, 16, 2, 1, YOKEI_PIPELINE_1F1B, 2, 1, false, 1, 1, { 0 }, false, { 0 } },
        { 8, 32, 1, 1, YOKEI_PIPELINE_1F1B, 0, 1, false, 1, 1, { 0 }, false, { 0 } },
        { 32, 8, 1, 1, YOKEI_PIPELINE_ZB_H1, 0, 1, false, 1, 1, { 0 }, false, { 0 } },
        { 32, 1, 8, 1, YOKEI_PIPELINE_1F1B, 0, 0, false, 1, 1, { 0 }, false, { 0 } },
        { 128, 1, 2, 1, YOKEI_PIPELINE_1F1B, 2, 1, true, 2, 1, { 0 }, false, { 0 } },
        { 256, 1, 1, 1, YOKEI_PIPELINE_1F1B, 2, 1, false, 1, 1, { 0 }, false, { 0 } },
        { 64, 2, 2, 1, YOKEI_PIPELINE_1F1B, 0, 1, true, 1, 1, { 0 }, true, { 0 } },
    };
    struct yoke_llama_config model = YOKE_LLAMA_CONFIG_INIT;
    model.num_hidden_layers = 32, model.num_attention_heads = 32, model.num_key_value_heads = 8;
    model.hidden_size = 4096, model.intermediate_size = 14336, model.vocab_size = 128256;
    model.max_position_embeddings = 8192, model.rope_theta = 500000;
    struct yokei_cluster *cluster = malloc(sizeof *cluster);
    struct yokei_predict_config config = {
        .cluster = cluster, .precision = YOKE_BF16, .batch = 512, .sequence = 2048
    };
    yoke_model *llama;
    yokei_predictor *p;
    double most = 0;
    int failed = 0;
    /* keep freed memory, as yoke plan --search does */
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    if (!cluster) return 1;
    make_cluster(cluster);
    if (yokei_cluster_check(cluster) || yoke_device_open("host", NULL, &config.device)
        || yoke_model_llama(&model, &llama)) {
        fprintf(stderr, "bench/predict: %s\n", yoke_last_error());
        return 1;
    }
    config.model = llama;
    if (yokei_predictor_create(&config, &p)) return 1;
    for (size_t i = 0; i < YOKE_COUNT(layouts) && !failed; i++) failed = predict(p, layouts[i], &most);
    printf("longest %.3f s (goal: 0.2 s for each further layout): %s\n", most,
           most <= 0.2 ? "met" : "missed");
    yokei_predictor_destroy(p);
    yoke_model_destroy(llama);
    yoke_device_close(config.device);
    free(cluster);
    return failed;
}
