/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints of divided models. They must have every tensor whole, to the last bit, whether a pipeline stage
 * holds it, or only all ranks together. If a run resumes in its own layout, it must give the same bits as a
 * run that did not stop. In another layout it must give the same losses.
 */
#include "tests/ranks/ranks.h"

#include <ftw.h>
#include <math.h>
#include <sys/stat.h>
#include "train/checkpoint/dealing.h"

enum { BATCH = 4, T = 32, SEED = 5, MOST_RANKS = 4 };

struct layout {
    const char *name;
    int n_ranks, pipeline;
    int64_t shares[MOST_RANKS];
    int zero;
    int64_t zero_shares[MOST_RANKS]; /* if the first is 0, none are given */
    bool like_next;                  /* the next layout must give the same bits as this one */
};
static const struct layout layouts[] = {
    { "two stages", 2, 2, { 4 } },
    { "two replicas, 3:1", 2, 1, { 3, 1 }, .like_next = true },
    { "two replicas, 3:1, moments divided", 2, 1, { 3, 1 }, .zero = 1, .like_next = true },
    { "two replicas, 3:1, moments whole", 2, 1, { 3, 1 } },
    { "three replicas, moments divided 2:1:5", 3, 1, { 1, 1, 2 }, .zero = 1, .zero_shares = { 2, 1, 5 } },
    { "two stages of two replicas, 1:3", 4, 2, { 1, 3 }, .like_next = true },
    { "two stages of two replicas, 1:3, moments divided", 4, 2, { 1, 3 }, .zero = 1 },
    { "four stages", 4, 4, { 4 } },
};

struct subject {
    yoke_device *device;
    yoke_model *model;
    yoke_trainer *trainer;
    yoke_comm *comm, *control;
    int64_t first, count;
};
static struct yoke_gpt2_config config = { sizeof config, 4, 4, 32, 32, 256, 1e-5, 0.02 };
static char dir[256];

static yoke_status open_subject(const struct layout *l, MPI_Comm ranks, struct subject *s)
{
    struct yoke_trainer_config c = YOKE_TRAINER_CONFIG_INIT;
    struct yoke_comm_config on_device = YOKE_COMM_CONFIG_INIT, on_host = YOKE_COMM_CONFIG_INIT;
    memset(s, 0, sizeof *s);
    on_host.name = "control";
    YOKE_TRY(yoke_device_open("host", NULL, &s->device));
    YOKE_TRY(yoke_comm_create(ranks, s->device, &on_device, &s->comm));
    YOKE_TRY(yoke_comm_create(ranks, NULL, &on_host, &s->control));
    c.precision = YOKE_BF16;
    c.batch = BATCH;
    c.micro_batch = 1;
    c.sequence = T;
    c.shares = l->shares;
    c.pipeline = l->pipeline;
    c.zero = l->zero;
    c.zero_shares = l->zero_shares[0] ? l->zero_shares : NULL;
    c.bucket_bytes = 32 << 10;
    c.seed = SEED;
    c.clip = 1;
    c.comm = s->comm;
    c.control = s->control;
    YOKE_TRY(yoke_model_gpt2(&config, &s->model));
    YOKE_TRY(yoke_trainer_create(s->model, s->device, &c, &s->trainer));
    yoke_trainer_range(s->trainer, &s->first, &s->count);
    return YOKE_OK;
}

static void close_subject(struct subject *s)
{
    yoke_trainer_destroy(s->trainer);
    yoke_model_destroy(s->model);
    yoke_comm_destroy(s->control);
    yoke_comm_destroy(s->comm);
    yoke_device_close(s->device);
}

static yoke_status train(struct subject *s, int from, int to, double *losses)
{
    int32_t tokens[BATCH * T], targets[BATCH * T];
    struct yoke_step_result result;
    for (int step = from; step <= to; step++) {
        struct yokei_philox_key key = yokei_philox_named((uint64_t)step, "tokens");
        for (int i = 0; i < BATCH * T; i++) {
            tokens[i] = (int32_t)(20 * yokei_uniform(key, (uint64_t)i));
            targets[i] = (tokens[i] + 1) % 20;
        }
        YOKE_TRY(
            yoke_trainer_backward(s->trainer, tokens + s->first * T, targets + s->first * T, 0, &result));
        YOKE_TRY(yoke_trainer_apply(s->trainer, 1e-2, &result));
        losses[step] = result.loss;
    }
    return YOKE_OK;
}

static yoke_status save(struct subject *s, int64_t step)
{
    struct yokei_dealing dealing;
    struct yokei_plan_rank rank = { "host", 1, BATCH, BATCH, 1 };
    struct yokei_manifest m = { .format = YOKEI_MANIFEST_FORMAT,
                                .version = 1,
                                .yoke = "test",
                                .step = step,
                                .optimizer_step = step,
                                .data_order = YOKEI_DATA_ORDER,
                                .loss_scale = 1,
                                .plan = YOKEI_PLAN_INIT };
    m.plan.model.gpt2 = config;
    m.plan.batch = BATCH;
    m.plan.sequence = T;
    m.plan.ranks = &rank;
    m.plan.n_ranks = 1;
    YOKE_TRY(yokei_dealing_create(s->trainer, &dealing));
    struct yokei_save what = { .dir = dir,
                               .rank = s->trainer->plan.rank,
                               .items = dealing.items,
                               .n_items = dealing.n_items,
                               .manifest = &m,
                               .context = &dealing,
                               .get = yokei_dealing_get,
                               .agree = yokei_dealing_agree };
    yoke_status status = yokei_checkpoint_save(&what);
    m.plan.ranks = NULL;
    m.plan.n_ranks = 0;
    yokei_manifest_free(&m);
    yokei_dealing_free(&dealing);
    return status;
}

static yoke_status open_checkpoint(int64_t step, struct yokei_checkpoint **c)
{
    char folder[400];
    yokei_checkpoint_path(dir, step, folder, sizeof folder);
    return yokei_checkpoint_open(folder, 0, c);
}

/*
 * Check that every tensor of the checkpoint is what the ranks hold. The trainer puts the ranks' parts
 * together.
 */
static yoke_status holds_all(struct subject *s, int64_t step, bool *same_out)
{
    static const enum yoke_tensor_kind kinds[] = { YOKE_TENSOR_WEIGHT, YOKE_TENSOR_MOMENT1,
                                                   YOKE_TENSOR_MOMENT2 };
    struct yokei_checkpoint *c;
    float *whole = malloc((size_t)256 * 128 * sizeof *whole);
    YOKE_TRY(open_checkpoint(step, &c));
    *same_out = true;
    for (int i = 0; i < yoke_trainer_n_logical(s->trainer); i++)
        for (size_t k = 0; k < YOKE_COUNT(kinds); k++) {
            const struct yokei_tensor *t = yokei_checkpoint_tensor(
                c, yoke_trainer_logical(s->trainer, i)->name, kinds[k]);
            YOKE_TRY(yoke_trainer_get_whole(s->trainer, kinds[k], i, whole));
            *same_out = *same_out && memcmp(whole, t->data, t->bytes) == 0;
        }
    yokei_checkpoint_close(c);
    free(whole);
    return YOKE_OK;
}

static yoke_status load(struct subject *s, int64_t step)
{
    struct yokei_checkpoint *c;
    YOKE_TRY(open_checkpoint(step, &c));
    yoke_status status = yokei_checkpoint_load(c, s->trainer);
    yokei_checkpoint_close(c);
    yokei_trainer_restore(s->trainer, 3, 3, 1, 0, 0);
    return status;
}

struct verdict {
    bool whole, same_bits, close;
};

/*
 * Run three steps and save, then two more. Then run the two steps again from the checkpoint, in this layout
 * and in each other layout.
 */
static yoke_status go_on(const struct layout *l, MPI_Comm ranks, int64_t save_as, int64_t from,
                         const double *reference, double *losses, struct verdict *v)
{
    struct subject s;
    double again[8] = { 0 };
    YOKE_TRY(open_subject(l, ranks, &s));
    if (save_as) {
        YOKE_TRY(train(&s, 1, 3, losses));
        YOKE_TRY(save(&s, save_as));
        YOKE_TRY(holds_all(&s, save_as, &v->whole));
        YOKE_TRY(train(&s, 4, 5, losses));
        close_subject(&s);
        YOKE_TRY(open_subject(l, ranks, &s));
        YOKE_TRY(load(&s, save_as));
        YOKE_TRY(train(&s, 4, 5, again));
        v->same_bits = again[4] == losses[4] && again[5] == losses[5] && again[5] < losses[1];
    } else {
        YOKE_TRY(load(&s, from));
        YOKE_TRY(holds_all(&s, from, &v->whole));
        YOKE_TRY(train(&s, 4, 5, again));
        v->same_bits = again[4] == reference[4] && again[5] == reference[5];
        v->close = fabs(again[4] - reference[4]) < 1e-3 * reference[4]
                   && fabs(again[5] - reference[5]) < 1.2e-3 * reference[5];
    }
    close_subject(&s);
    return YOKE_OK;
}

static yoke_status in_layout(const struct layout *l, int64_t save_as, int64_t from, const double *reference,
                             double *losses, struct verdict *v)
{
    MPI_Comm ranks;
    yoke_status status = YOKE_OK;
    *v = (struct verdict){ true, true, true };
    PMPI_Comm_split(ranks_world, ranks_rank < l->n_ranks ? 0 : MPI_UNDEFINED, ranks_rank, &ranks);
    if (ranks_rank < l->n_ranks) status = go_on(l, ranks, save_as, from, reference, losses, v);
    if (status) printf("# rank %d, %s: %s\n", ranks_rank, l->name, yoke_last_error());
    if (ranks != MPI_COMM_NULL) PMPI_Comm_free(&ranks);
    return status;
}

/*
 * Make one matrix look as if it were divided by columns, unevenly. The saved matrix must be the ranks'
 * columns side by side, with the bits of -0 and of a NaN. Each rank must get its own columns back.
 */
static yoke_status divided(MPI_Comm ranks, bool *good_out)
{
    static const struct layout two = { "", 2, 1, { 2, 2 } };
    struct subject s;
    struct yokei_checkpoint *c;
    YOKE_TRY(open_subject(&two, ranks, &s));
    struct yokei_trainer_plan *p = &s.trainer->plan;
    const int i = yokei_parameter_find(&p->parameters, "h.1.mlp.c_fc.weight"); /* [32, 128] */
    const int64_t begin = p->rank ? 40 : 0, end = p->rank ? 128 : 40, width = end - begin;
    struct yoke_parameter *divided = &p->parameters.item[i];
    divided->shard[1].n = 1;
    divided->shard[1].range[0].begin = begin;
    divided->shard[1].range[0].end = end;
    p->state.slot[i].n = 32 * width;
    float *mine = malloc((size_t)(32 * width) * sizeof *mine),
          *back = malloc((size_t)(32 * width) * sizeof *back);
    for (int64_t k = 0; k < 32 * width; k++) {
        const int64_t at = k / width * 128 + begin + k % width;
        mine[k] = at == 500 ? -0.0f : at == 501 ? yokei_bits_f32(0x7fc12345u) : (float)at * 0.25f - 300;
    }
    YOKE_TRY(yoke_trainer_set(s.trainer, YOKE_TENSOR_WEIGHT, i, mine));
    YOKE_TRY(save(&s, 100));
    YOKE_TRY(open_checkpoint(100, &c));
    const struct yokei_tensor *t = yokei_checkpoint_tensor(c, divided->name, YOKE_TENSOR_WEIGHT);
    bool good = t && t->n_dims == 2 && t->shape[1] == 128;
    for (int64_t at = 0; at < 32 * 128 && good; at++) {
        const float want = at == 500   ? -0.0f
                           : at == 501 ? yokei_bits_f32(0x7fc12345u)
                                       : (float)at * 0.25f - 300;
        good = memcmp((const char *)t->data + 4 * at, &want, 4) == 0;
    }
    memset(back, 0, (size_t)(32 * width) * sizeof *back);
    YOKE_TRY(yoke_trainer_set(s.trainer, YOKE_TENSOR_WEIGHT, i, back));
    YOKE_TRY(yokei_checkpoint_load(c, s.trainer));
    YOKE_TRY(yoke_trainer_get(s.trainer, YOKE_TENSOR_WEIGHT, i, back));
    *good_out = good && memcmp(mine, back, (size_t)(32 * width) * sizeof *back) == 0;
    yokei_checkpoint_close(c);
    free(mine);
    free(back);
    close_subject(&s);
    return YOKE_OK;
}

static int remove_entry(const char *path, const struct stat *stat, int type, struct FTW *place)
{
    (void)stat, (void)type, (void)place;
    return remove(path);
}

int main(void)
{
    double losses[YOKE_COUNT(layouts)][8];
    struct verdict v;
    MPI_Comm ranks;
    bool good = true;
    ranks_start();
    const char *tmp = getenv("TMPDIR");
    if (ranks_rank == 0) {
        snprintf(dir, sizeof dir, "%s/yoke-ranks-ckpt.XXXXXX", tmp ? tmp : "/tmp");
        if (!mkdtemp(dir)) return 99;
    }
    PMPI_Bcast(dir, sizeof dir, MPI_CHAR, 0, ranks_world);
    for (size_t i = 0; i < YOKE_COUNT(layouts); i++) {
        yoke_status status = in_layout(&layouts[i], 10 + (int64_t)i, 0, NULL, losses[i], &v);
        ranks_check(!status && v.whole, "%s: saved whole, bit for bit", layouts[i].name);
        ranks_check(!status && v.same_bits, "%s: goes on bit for bit", layouts[i].name);
    }
    PMPI_Bcast(losses, (int)(sizeof losses / sizeof(double)), MPI_DOUBLE, 0, ranks_world);
    for (size_t i = 0; i < YOKE_COUNT(layouts); i++) {
        const size_t from = (i + 1) % YOKE_COUNT(layouts);
        yoke_status status = in_layout(&layouts[i], 0, 10 + (int64_t)from, losses[from], NULL, &v);
        ranks_check(!status && v.whole, "%s holds what %s saved, bit for bit", layouts[i].name,
                    layouts[from].name);
        ranks_check(!status && v.close && (v.same_bits || !layouts[i].like_next), "%s goes on from %s%s",
                    layouts[i].name, layouts[from].name, layouts[i].like_next ? ", bit for bit" : "");
    }
    PMPI_Comm_split(ranks_world, ranks_rank < 2 ? 0 : MPI_UNDEFINED, ranks_rank, &ranks);
    yoke_status status = ranks_rank < 2 ? divided(ranks, &good) : YOKE_OK;
    if (status) printf("# rank %d: %s\n", ranks_rank, yoke_last_error());
    if (ranks != MPI_COMM_NULL) PMPI_Comm_free(&ranks);
    ranks_check(!status && good, "a matrix that two ranks hold columns of");
    if (ranks_rank == 0) nftw(dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    return ranks_end();
}
