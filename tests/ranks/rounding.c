/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices that round AdamW differently: here the odd ranks' AdamW changes the last bit of every weight. Where
 * such devices are replicas, each weight must be stepped by one of them, so that all ranks keep the same
 * bits. Where ranks hold the same weights and are no replicas, the trainer must refuse. Prints TAP; 2 or 4
 * ranks.
 */
#include "tests/ranks/ranks.h"

#include <dlfcn.h>
#include "train/trainer/trainer.h"

enum { BATCH = 4, T = 16, STEPS = 3 };
static const struct yoke_gpt2_config model_config = { sizeof model_config, 2, 4, 32, T, 61, 1e-5, 0.02 };

static bool rounds_differently;

typedef yoke_status adamw_function(yoke_stream *, const struct yoke_adamw_args *);

/* Replaces the library's function. The devices are of kind host, so the memory can be written here. */
yoke_status yoke_adamw(yoke_stream *stream, const struct yoke_adamw_args *args)
{
    YOKE_TRY(((adamw_function *)(uintptr_t)dlsym(RTLD_NEXT, "yoke_adamw"))(stream, args));
    if (!rounds_differently || ranks_rank % 2 == 0) return YOKE_OK;
    YOKE_TRY(yoke_stream_sync(stream));
    for (int64_t i = 0; i < args->n; i++) ((uint32_t *)args->w)[i] ^= 1;
    return YOKE_OK;
}

struct subject {
    yoke_device *device;
    yoke_model *model;
    yoke_trainer *trainer;
    yoke_comm *comm, *control;
};

static yoke_status open_all(struct subject *s)
{
    struct yoke_comm_config on_host = YOKE_COMM_CONFIG_INIT;
    on_host.name = "control";
    memset(s, 0, sizeof *s);
    YOKE_TRY(yoke_device_open("host", NULL, &s->device));
    YOKE_TRY(yoke_comm_create(ranks_world, s->device, NULL, &s->comm));
    YOKE_TRY(yoke_comm_create(ranks_world, NULL, &on_host, &s->control));
    return yoke_model_gpt2(&model_config, &s->model);
}

static void close_all(struct subject *s)
{
    if (s->trainer) yoke_trainer_destroy(s->trainer);
    if (s->model) yoke_model_destroy(s->model);
    if (s->control) yoke_comm_destroy(s->control);
    if (s->comm) yoke_comm_destroy(s->comm);
    if (s->device) yoke_device_close(s->device);
}

static yoke_status create(struct subject *s, int pipeline, int tensor, int zero)
{
    struct yoke_trainer_config c = YOKE_TRAINER_CONFIG_INIT;
    c.precision = YOKE_F32;
    c.batch = BATCH;
    c.sequence = T;
    c.pipeline = pipeline;
    c.tensor = tensor;
    c.zero = zero;
    c.comm = s->comm;
    c.control = s->control;
    return yoke_trainer_create(s->model, s->device, &c, &s->trainer);
}

static yoke_status train(struct subject *s)
{
    int32_t tokens[BATCH * T], targets[BATCH * T];
    int64_t first, count;
    yoke_trainer_range(s->trainer, &first, &count);
    for (int step = 0; step < STEPS; step++) {
        struct yoke_step_result result = YOKE_STEP_RESULT_INIT;
        for (int64_t i = 0; i < count * T; i++) {
            const int64_t at = first * T + i + 977 * step;
            tokens[i] = (int32_t)(at * at % 61);
            targets[i] = (int32_t)((at + 1) * (at + 1) % 61);
        }
        YOKE_TRY(yoke_trainer_backward(s->trainer, tokens, targets, 0, &result));
        YOKE_TRY(yoke_trainer_apply(s->trainer, 1e-3, &result));
    }
    return YOKE_OK;
}

/* Whether all ranks have the bits of rank 0 in the weights that their layers get. */
static bool weights_agree(struct subject *s)
{
    uint64_t hash = 0;
    bool good = true;
    const struct yokei_parameters *all_of = &s->trainer->plan.parameters;
    for (int p = 0; good && p < all_of->n; p++) {
        const size_t n = (size_t)yokei_local_count(&all_of->item[p]);
        float *values = malloc(n * sizeof *values);
        good = values && !yokei_trainer_get_working(s->trainer, p, values);
        if (good) hash = yokei_hash(values, n * sizeof *values, hash);
        free(values);
    }
    double mine = good ? (double)(hash >> 12) : -1 - ranks_rank, all[16];
    if (yokei_ranks_gather(&s->trainer->config, &mine, 1, all)) return false;
    for (int r = 0; r < ranks_size; r++) good = good && all[r] == all[0];
    return good;
}

/* Whether the replicas' weights agree after some steps, and whether slices have owners as expected. */
static bool replicas_agree(int zero, bool differs)
{
    struct subject s;
    rounds_differently = differs;
    yoke_status status = open_all(&s);
    if (!status) status = create(&s, 1, 1, zero);
    bool good = !status && s.trainer->plan.state.is_divided == (zero || differs);
    if (!status) status = train(&s);
    good = !status && weights_agree(&s) && good;
    if (status) printf("# rank %d: %s\n", ranks_rank, yoke_last_error());
    close_all(&s);
    return good;
}

/* Whether the trainer refuses this mesh, in words that name both ranks. */
static bool refuses(int pipeline, int tensor, const char *words)
{
    struct subject s;
    rounds_differently = true;
    yoke_status status = open_all(&s);
    if (!status) status = create(&s, pipeline, tensor, 0);
    const bool good = status == YOKE_ECONFIG && strstr(yoke_last_error(), words) && !s.trainer;
    if (!good) printf("# rank %d: status %d, %s\n", ranks_rank, (int)status, yoke_last_error());
    close_all(&s);
    return good;
}

/* Whether the same mesh trains on devices that round alike. */
static bool trains(int pipeline, int tensor)
{
    struct subject s;
    rounds_differently = false;
    yoke_status status = open_all(&s);
    if (!status) status = create(&s, pipeline, tensor, 0);
    const bool good = !status && !s.trainer->plan.state.is_divided;
    if (!status) status = train(&s);
    if (status) printf("# rank %d: %s\n", ranks_rank, yoke_last_error());
    close_all(&s);
    return good && !status;
}

int main(void)
{
    ranks_start();
    ranks_check(replicas_agree(0, false), "replicas that round alike keep their own states");
    ranks_check(replicas_agree(0, true), "replicas that round differently: slices have owners");
    ranks_check(replicas_agree(1, true), "the same with zero 1 as asked");
    ranks_check(trains(1, 2), "ranks that share tensors and round alike train");
    ranks_check(refuses(1, 2, "ranks 0 and 1 hold the same weights (they share tensors)"),
                "ranks that share tensors must round alike");
    ranks_check(trains(2, 1), "stages that round alike train");
    ranks_check(refuses(2, 1, "the first and the last stage share a tensor"),
                "stages with a tied embedding must round alike");
    return ranks_end();
}
