/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the ranks' devices compute the same bits in AdamW. Ranks that hold the same weights step them with
 * the same gradients, so these weights stay the same only if the devices round alike. The operations and
 * their order are the same on all devices, but some devices do not round divisions and square roots
 * correctly. A trial shows this, and then the device corrects them by fma.
 */
#include <math.h>
#include <stdlib.h>
#include "core/base/base.h"
#include "train/trainer/trainer.h"

enum { ELEMENTS = 2048, STEPS = 2, N_ARRAYS = 4, BYTES = ELEMENTS * sizeof(float) };

/* A number with 24 random bits and an exponent from `least` to `most`. It is the same on all hosts. */
static float draw(uint64_t *state, int least, int most)
{
    *state = yokei_hash(state, sizeof *state, 1);
    const int exponent = least + (int)((*state >> 32) % (unsigned)(most - least + 1));
    return ldexpf((float)(0x800000 + (*state & 0x7fffff)), exponent - 23);
}

/*
 * Weights, first and second moments, gradients. Every second weight is 0, so that no bit of the step is lost
 * when it is subtracted from the weight.
 */
static void fill(float *values)
{
    uint64_t state = 0;
    for (int i = 0; i < ELEMENTS; i++) {
        const float sign = i & 2 ? -1.0f : 1.0f;
        values[i] = i & 1 ? draw(&state, -8, 1) : 0;
        values[ELEMENTS + i] = sign * draw(&state, -20, -2);
        values[2 * ELEMENTS + i] = draw(&state, -40, -4);
        values[3 * ELEMENTS + i] = draw(&state, -20, -2);
    }
}

static const float beta1 = 0.9f, beta2 = 0.95f, lr = 3e-4f, weight_decay = 0.1f, eps = 1e-8f,
                   grad_scale = 1.0f / 3;
enum { FIRST_STEP = 2 };

/* The bits of all devices that round correctly, as C does. The operations have the order of the kernels. */
static void step_here(float *values)
{
    const float decay = lr * weight_decay;
    for (int s = 0; s < STEPS; s++) {
        const float correct1 = (float)(1.0 - pow((double)beta1, FIRST_STEP + s)),
                    correct2 = (float)(1.0 - pow((double)beta2, FIRST_STEP + s));
        for (int i = 0; i < ELEMENTS; i++) {
            float *w = &values[i], *m = &values[ELEMENTS + i], *v = &values[2 * ELEMENTS + i];
            const float g = values[3 * ELEMENTS + i] * grad_scale;
            *m = *m * beta1 + g * (1.0f - beta1);
            *v = *v * beta2 + g * g * (1.0f - beta2);
            *w = *w - *w * decay - *m / correct1 / (sqrtf(*v / correct2) + eps) * lr;
        }
    }
}

/* The copy has the precision of the training, so that no other program is compiled than the training's. */
static yoke_status step_on(yoke_stream *stream, yoke_dtype precision, float *values, void *there)
{
    YOKE_TRY(yoke_copy_to_device(stream, there, values, N_ARRAYS * BYTES));
    for (int s = 0; s < STEPS; s++)
        YOKE_TRY(yoke_adamw(
            stream,
            &YOKE_ARGS(adamw, .dtype = YOKE_F32, .copy_dtype = precision, .n = ELEMENTS, .w = there,
                       .m = yoke_at(there, BYTES), .v = yoke_at(there, 2 * BYTES),
                       .grad = yoke_at(there, 3 * BYTES),
                       .copy = precision == YOKE_F32 ? NULL : yoke_at(there, N_ARRAYS * BYTES), .lr = lr,
                       .beta1 = beta1, .beta2 = beta2, .eps = eps, .weight_decay = weight_decay,
                       .grad_scale = grad_scale, .step = FIRST_STEP + s)));
    YOKE_TRY(yoke_copy_to_host(stream, values, there, (N_ARRAYS - 1) * BYTES));
    return yoke_stream_sync(stream);
}

/* 52 bits are exact in a double */
static double hash_of(const float *values)
{
    return (double)(yokei_hash(values, (N_ARRAYS - 1) * BYTES, 0) >> 12);
}

/* The hash of what the device computes in some steps. */
static yoke_status hash_on(yoke_device *device, yoke_dtype precision, float *values, double *hash_out)
{
    yoke_stream *stream = NULL;
    void *there = NULL;
    yoke_status status;
    fill(values);
    YOKE_TRY_GOTO(yoke_stream_create(device, &stream), out);
    status = yoke_alloc(device, (N_ARRAYS + 1) * BYTES, &there);
    if (status) YOKE_TRY_GOTO(yoke_fail_context(status, "trainer: the comparison of AdamW's rounding"), out);
    YOKE_TRY_GOTO(step_on(stream, precision, values, there), out);
    *hash_out = hash_of(values);
    status = YOKE_OK;
out:
    if (there) yoke_free(device, there);
    if (stream) yoke_stream_destroy(stream);
    return status;
}

yoke_status yokei_rounding_try(yoke_device *device, yoke_dtype precision, double *hash_out)
{
    float *values = malloc(N_ARRAYS * BYTES);
    if (!values) return yoke_fail(YOKE_ENOMEM, "trainer: no host memory to compare AdamW");
    fill(values);
    step_here(values);
    const double right = hash_of(values);
    yoke_status status = hash_on(device, precision, values, hash_out);
    if (!status && *hash_out != right) {
        double corrected = 0;
        yokei_correct_rounding(device, true);
        status = hash_on(device, precision, values, &corrected);
        if (!status && corrected == right)
            yoke_log(YOKE_LOG_INFO,
                     "%s: the device does not round divisions and roots correctly; AdamW corrects them",
                     yoke_device_info(device)->spec);
        else
            yokei_correct_rounding(device, false);
        if (corrected == right) *hash_out = right;
    }
    free(values);
    return status;
}

/*
 * The stage that holds the same weights as stage s, with s itself. Ranks of a tensor group hold some weights
 * all; the first and the last stage may hold tied ones. -1: only replicas hold the weights of s.
 */
static int shared_stage(const struct yokei_trainer_plan *p, int s)
{
    const bool is_tied = p->has_tied && p->mesh.pipeline > 1 && (s == 0 || s == p->mesh.pipeline - 1);
    if (is_tied) return 0;
    return yokei_mesh_width(&p->mesh, s) > 1 ? s : -1;
}

/*
 * A slice of the replicas has one owner, which steps it for all replicas. Weights that the ranks of a tensor
 * group hold, or two stages, have no owner, so these ranks must round alike.
 */
static yoke_status judge(const struct yokei_trainer_plan *p, const double *hashes)
{
    for (int r = 0; r < p->n_ranks; r++) {
        const struct yokei_mesh at = yokei_mesh_at(&p->mesh, r);
        const int stage = shared_stage(p, at.s);
        const int like = stage < 0 ? r : yokei_mesh_rank(&p->mesh, 0, stage, 0);
        if (hashes[r] == hashes[like]) continue;
        return yokei_ranks_share(yoke_fail(
            YOKE_ECONFIG,
            "ranks %d and %d hold the same weights (%s), but their devices round AdamW differently, so these weights would "
            "become different: give these ranks devices of one kind, or let such devices differ by replica only (--dp)",
            like, r,
            yokei_mesh_width(&p->mesh, at.s) > 1 ? "they share tensors"
                                                 : "the first and the last stage share a tensor"));
    }
    return YOKE_OK;
}

yoke_status yokei_rounding_compare(const struct yoke_trainer_config *config, yoke_device *device,
                                   const struct yokei_trainer_plan *plan, bool *differs_out)
{
    double mine = 0;
    *differs_out = false;
    if (config->precision == YOKE_F64) return YOKE_OK;
    if (plan->n_ranks == 1) return yokei_rounding_try(device, config->precision, &mine);
    YOKE_TRY(yokei_ranks_all_well(config, yokei_rounding_try(device, config->precision, &mine)));
    double *all = calloc((size_t)plan->n_ranks, sizeof *all);
    if (!all)
        return yokei_ranks_revoke(config, yoke_fail(YOKE_ENOMEM, "trainer: no host memory to compare AdamW"));
    yoke_status status = yokei_ranks_gather(config, &mine, 1, all);
    for (int r = 1; r < plan->n_ranks && !status; r++) *differs_out |= all[r] != all[0];
    if (!status && *differs_out) status = judge(plan, all);
    free(all);
    return status;
}
