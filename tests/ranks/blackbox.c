/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The black boxes of several ranks (train/blackbox/box.h). Healthy layouts have the same bits with the box
 * and without it, and their layers add up to the norm of the whole. Then an infinite gradient, and a NaN in
 * an output, are planted on one rank, and the boxes name layer, tensor and rank. Runs on 4 ranks, and on 8 in
 * `make soak`.
 */
#include "tests/ranks/ranks.h"

#include <dlfcn.h>
#include <ftw.h>
#include <math.h>
#include "train/blackbox/box.h"
#include "train/layers/layers.h"
#include "train/run/loop.h"

enum { STEPS = 4, PLANTED_STEP = 3 };

struct layout {
    const char *name;
    int n_ranks, data, pipeline, tensor, zero;
    const char *precision, *device; /* of odd ranks */
    const char *stages;             /* ranks of each stage, as plan.json has them; NULL: equal */
};
static const struct layout layouts[] = {
    { "dp 2, pp 2", 4, 2, 2, 1, 0, "fp32", "host", NULL },
    { "dp 2, tp 2, ZeRO-1, bf16", 4, 2, 1, 2, 1, "bf16", "host", NULL },
    { "dp 2, pp 2, tp 2", 8, 2, 2, 2, 0, "fp32", "host", NULL },
    { "dp 4, tp 2, ZeRO-1", 8, 4, 1, 2, 1, "fp32", "host", NULL },
    { "stages of two ranks and one", 3, 1, 2, 2, 0, "fp32", "host", "2,1" },
    { "dp 2 with an OpenCL device", 2, 2, 1, 1, 0, "fp32", "opencl:0", NULL },
};

/* ---- planted errors ---- */

enum { NOTHING, GRADIENT, OUTPUT };
static int planted, planted_rank;
static int64_t n_forward, n_backward; /* calls so far */

static int64_t norms; /* layers with a norm on this rank, so many calls make a pass */

static yoke_status plant(const struct yoke_layer_call *call, void *where, float value)
{
    uint16_t half = (uint16_t)(yokei_f32_bits(value) >> 16); /* bf16 */
    const bool wide = call->shape->dtype == YOKE_F32;
    YOKE_TRY(yoke_copy_to_device(call->stream, where, wide ? (const void *)&value : &half, wide ? 4 : 2));
    return yoke_stream_sync(call->stream);
}

static bool is_due(int what, const struct yoke_layer_call *call, int64_t n_calls, int64_t nth)
{
    return planted == what && ranks_rank == planted_rank && call->pass && call->pass->mode == YOKE_TRAIN
           && call->pass->step == PLANTED_STEP && norms && n_calls % norms == nth;
}

typedef yoke_status forward_function(const struct yoke_layer_call *, const struct yokei_norm *, const void *,
                                     const void *, const void *, void *);
/* Replaces the library's function: the output of the second layer with a norm gets a NaN. */
yoke_status yokei_norm_forward(const struct yoke_layer_call *call, const struct yokei_norm *n, const void *x,
                               const void *gamma, const void *beta, void *y)
{
    forward_function *const real = (forward_function *)(uintptr_t)dlsym(RTLD_NEXT, "yokei_norm_forward");
    const int64_t at = call->observer ? 0 : n_forward++;
    YOKE_TRY(real(call, n, x, gamma, beta, y));
    return !call->observer && is_due(OUTPUT, call, at, 1) ? plant(call, y, NAN) : YOKE_OK;
}

typedef yoke_status backward_function(const struct yoke_layer_call *, const struct yokei_norm *, const void *,
                                      const void *, const void *, const void *, void *);
/* The same: the gradient of the input of the second layer with a norm gets an infinity. */
yoke_status yokei_norm_backward_input(const struct yoke_layer_call *call, const struct yokei_norm *n,
                                      const void *dy, const void *x, const void *gamma, const void *dresidual,
                                      void *dx)
{
    backward_function *const real = (backward_function *)(uintptr_t)dlsym(RTLD_NEXT,
                                                                          "yokei_norm_backward_input");
    const int64_t at = call->observer ? 0 : n_backward++;
    YOKE_TRY(real(call, n, dy, x, gamma, dresidual, dx));
    return !call->observer && is_due(GRADIENT, call, at, norms - 2) ? plant(call, dx, INFINITY) : YOKE_OK;
}

/* ---- a run ---- */

static char folder[256], text_path[300];

static int remove_entry(const char *path, const struct stat *stat, int type, struct FTW *place)
{
    (void)stat, (void)type, (void)place;
    return remove(path);
}

static void make_text(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/yoke-box.XXXXXX", tmp ? tmp : "/tmp");
    if (ranks_rank == 0 && !mkdtemp(folder)) ranks_abandon("no folder");
    PMPI_Bcast(folder, sizeof folder, MPI_CHAR, 0, ranks_world);
    snprintf(text_path, sizeof text_path, "%s/text", folder);
    FILE *f = ranks_rank == 0 ? fopen(text_path, "w") : NULL;
    for (int i = 0; f && i < 300; i++) fprintf(f, "the yoke number %d lets unequal animals pull. ", i % 37);
    if (f) fclose(f);
    ranks_all(1);
}

static yoke_status run(const struct layout *l, yoke_device *device, yoke_comm *comm, yoke_comm *control,
                       int64_t every, struct yokei_training_result *result)
{
    const struct yoke_gpt2_config tiny = { sizeof tiny, 4, 2, 16, 16, 256, 1e-5, 0.02 };
    struct yokei_training t = { .plan = YOKEI_PLAN_INIT };
    t.plan.model.gpt2 = tiny;
    snprintf(t.plan.precision, sizeof t.plan.precision, "%s", l->precision);
    snprintf(t.plan.balance, sizeof t.plan.balance, "equal");
    t.plan.seed = 3;
    t.plan.batch = 8;
    t.plan.sequence = 16;
    t.plan.steps = STEPS;
    t.plan.data = l->data;
    t.plan.pipeline = l->pipeline;
    t.plan.tensor = l->tensor;
    if (l->stages) snprintf(t.plan.stage_tensor, sizeof t.plan.stage_tensor, "%s", l->stages);
    t.plan.chunks = 1;
    t.plan.zero = l->zero;
    t.plan.bucket_bytes = 1 << 16;
    t.tokens = text_path;
    t.validation_tokens = 256;
    t.device = device;
    t.comm = comm;
    t.control = control;
    t.run_dir = folder;
    t.black_box_every = every;
    norms = l->pipeline == 2 ? (ranks_rank < (l->n_ranks + 1) / 2 ? 4 : 5) : 9;
    n_forward = n_backward = 0;
    const yoke_status status = yokei_training_run(&t, result);
    yokei_plan_free(&t.plan);
    return status;
}

/* ---- what the boxes say ---- */

static bool adds_up(const struct yokei_boxes *b, int64_t i)
{
    struct yokei_boxes_total t;
    struct yokei_boxes_layer layer[16];
    double squares = 0;
    yokei_boxes_step(b, i, &t, layer);
    for (int l = 0; l < b->n_model_layers; l++) squares += pow(layer[l].gradient_norm, 2);
    if (!t.is_whole || !(fabs(sqrt(squares) - t.gradient_norm) < 1e-9 * t.gradient_norm)) return false;
    for (int l = 0; l < b->n_model_layers - 1; l++)
        if (t.flags & YOKEI_BOX_SAMPLED && !(layer[l].largest > 0 && layer[l].update_ratio > 0)) return false;
    return true;
}

static bool is_healthy(void)
{
    struct yokei_boxes *b = NULL;
    bool good = !yokei_boxes_read(folder, &b) && b->n == ranks_size && b->n_steps == STEPS;
    for (int64_t i = 0; good && i < STEPS; i++) good = adds_up(b, i);
    for (int r = 0; good && r < b->n; r++)
        good = b->box[r]->status.end == YOKEI_BOX_DONE && !b->box[r]->n_torn;
    yokei_boxes_free(b);
    return good;
}

/* Whether the last step, or step PLANTED_STEP, names what was planted. */
static bool names(const struct layout *l)
{
    struct yokei_boxes *b = NULL;
    struct yokei_boxes_total t;
    if (yokei_boxes_read(folder, &b) || b->n_steps < PLANTED_STEP) return false;
    yokei_boxes_step(b, PLANTED_STEP - 1, &t, NULL);
    const bool shares = l->tensor > 1, is_first = l->pipeline == 1;
    bool good = t.step == PLANTED_STEP && t.flags & YOKEI_BOX_TRACED && t.is_whole;
    if (planted == OUTPUT) /* the second layer with a norm: of the model, or of the second stage */
        good = good && b->n_steps == PLANTED_STEP && t.flags & YOKEI_BOX_BAD_LOSS && t.bad_layer
               && !strcmp(t.bad_layer, is_first ? "h.0.mlp" : "h.2.mlp")
               && (shares || t.bad_layer_rank == planted_rank);
    else /* its layer below is the first one that gets the gradient */
        good = good && b->n_steps == STEPS && t.flags & YOKEI_BOX_OVERFLOW && t.own_bad_tensor
               && (!strncmp(t.own_bad_tensor, is_first ? "h.0.attn." : "h.2.attn.", 9)
                   || !strncmp(t.own_bad_tensor, is_first ? "h.0.ln_1." : "h.2.ln_1.", 9))
               && (shares || t.own_bad_rank == planted_rank);
    if (!good)
        fprintf(stderr, "# step %lld of %lld, flags %x: %s on rank %d, %s on rank %d\n", (long long)t.step,
                (long long)b->n_steps, t.flags, t.bad_layer ? t.bad_layer : "-", t.bad_layer_rank,
                t.own_bad_tensor ? t.own_bad_tensor : "-", t.own_bad_rank);
    yokei_boxes_free(b);
    return good;
}

static void check(const struct layout *l)
{
    struct yoke_comm_config on_device = YOKE_COMM_CONFIG_INIT, on_host = YOKE_COMM_CONFIG_INIT;
    struct yokei_training_result off = { 0 }, on = { 0 };
    yoke_device *device = NULL;
    yoke_comm *comm = NULL, *control = NULL;
    on_host.name = "control";
    planted = NOTHING;
    yoke_status status = yoke_device_open(ranks_rank % 2 ? l->device : "host", NULL, &device);
    if (!status) status = yoke_comm_create(ranks_world, device, &on_device, &comm);
    if (!status) status = yoke_comm_create(ranks_world, NULL, &on_host, &control);
    if (!status) status = run(l, device, comm, control, 0, &off);
    if (!status) status = run(l, device, comm, control, 2, &on);
    ranks_check(!status && !memcmp(&off.loss, &on.loss, sizeof on.loss)
                    && !memcmp(&off.validation_loss, &on.validation_loss, sizeof on.loss),
                "%s: the same bits with the black box and without it", l->name);
    ranks_check(ranks_rank || is_healthy(), "%s: the layers add up, and all ranks are there", l->name);
    planted_rank = ranks_size - 1; /* in the last stage */
    planted = GRADIENT;
    status = run(l, device, comm, control, 2, &on);
    ranks_check(!status && (ranks_rank || names(l)), "%s: an infinite gradient is named", l->name);
    planted = OUTPUT;
    status = run(l, device, comm, control, 2, &on);
    ranks_check(status == YOKE_ENUMERIC && (ranks_rank || names(l)), "%s: a NaN is named", l->name);
    if (control) yoke_comm_destroy(control);
    if (comm) yoke_comm_destroy(comm);
    if (device) yoke_device_close(device);
}

int main(void)
{
    ranks_start();
    make_text();
    for (size_t i = 0; i < YOKE_COUNT(layouts); i++)
        if (layouts[i].n_ranks == ranks_size) check(&layouts[i]);
    ranks_all(1);
    if (ranks_rank == 0) nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    return ranks_end();
}
