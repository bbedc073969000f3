/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Find a change with which a run fits that does not fit now. Each row of a table below is a kind of change to
 * the configuration, and each further step of a row changes more. The rows are in the order of their cost. A
 * change is accepted only if it was planned for all ranks and all ranks fit. No need is estimated.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/base.h"
#include "train/trainer/memory.h"

static double mib(double bytes) { return bytes / 1048576.0; }

enum { MOST_WORDS = 1024 };

/* The state of the search. */
struct remedy {
    const struct yokei_memory_run *run;
    struct yoke_trainer_config c; /* the configuration of the current step */
    int n_planned;                /* the number of ranks for this configuration */
    /* [n_ranks] bytes needed with the step before; at step 1, bytes needed by the original run */
    double *need;
    bool *is_short;              /* [mesh.pipeline] whether a rank of the stage lacks memory */
    int64_t *blocks, n_blocks;   /* [mesh.pipeline * chunks] blocks of virtual stages; memory for the steps */
    char recompute[MOST_WORDS];  /* memory for the text of c.recompute */
    char what[MOST_WORDS + 256]; /* the change in words, with the options */
};

static const char *kind_of(const struct yoke_trainer_config *c)
{
    return c->schedule        ? "one of your own"
           : c->pipeline_kind ? c->pipeline_kind
                              : yokei_pipeline_names[yokei_pipeline_default(c->chunks)];
}

/*
 * The recomputation of a stage: its word in the list of words separated by commas, or the one word for all
 * stages.
 */
static void word_of_stage(const struct yoke_trainer_config *c, int stage, char *out, size_t bytes)
{
    const char *at = c->recompute ? c->recompute : "none";
    if (strchr(at, ','))
        for (int s = 0; s < stage && strchr(at, ','); s++) at = strchr(at, ',') + 1;
    yokei_text(out, bytes, "%.*s", (int)strcspn(at, ","), at);
}

/* ---- rows: each function returns whether it has this step, and sets r->c and r->what ---- */

/* This change keeps the same bits and adds no work. */
static bool divide_states(struct remedy *r, int step)
{
    if (step > 1 || r->run->config->zero || r->run->mesh->data == 1) return false;
    r->c.zero = 1;
    r->c.zero_shares = NULL;
    yokei_text(r->what, sizeof r->what,
               "divide the optimizer's moments and masters over the replicas (--zero 1)");
    return true;
}

static bool smaller_micro_batch(struct remedy *r, int step)
{
    int64_t most = 1;
    for (int i = 0; i < r->run->n_ranks; i++) most = YOKE_MAX(most, r->run->ranks[i].micro_batch);
    if (step > 40 || most >> step < 1) return false;
    r->c.micro_batch = most >> step;
    yokei_text(r->what, sizeof r->what,
               "lower the micro-batch from %lld to %lld sequences (--micro-batch %lld)", (long long)most,
               (long long)r->c.micro_batch, (long long)r->c.micro_batch);
    return true;
}

/*
 * Choose 1f1b. Its bubble is as long as GPipe's, and it holds at most as many micro-batches as there are
 * stages.
 */
static bool fewer_alive(struct remedy *r, int step)
{
    const char *kind = kind_of(r->run->config);
    if (step > 1 || r->run->mesh->pipeline == 1 || !strcmp(kind, "1f1b") || !strcmp(kind, "naive"))
        return false;
    r->c.pipeline_kind = "1f1b";
    const bool chunks = r->run->mesh->chunks > 1;
    if (chunks) r->c.chunks = 1, r->c.stage_blocks = NULL;
    yokei_text(r->what, sizeof r->what,
               "hold fewer micro-batches at once by the schedule 1f1b (--schedule 1f1b%s, now %s)",
               chunks ? " --chunks 1" : "", kind);
    return true;
}

/*
 * Step 1 recomputes the attention of the stages that lack memory. Step 2 recomputes everything in these
 * stages.
 */
static bool recompute(struct remedy *r, int step)
{
    const int n = r->run->mesh->pipeline;
    const char *to = step == 1 ? "attention" : "full";
    bool changes = false;
    r->recompute[0] = 0;
    if (step > 2 || (size_t)n * 10 > sizeof r->recompute) return false;
    for (int s = 0; s < n; s++) {
        char now[16];
        const size_t at = strlen(r->recompute);
        word_of_stage(r->run->config, s, now, sizeof now);
        const bool more = r->is_short[s] && strcmp(now, "full") != 0 && strcmp(now, to) != 0;
        changes |= more;
        yokei_text(r->recompute + at, sizeof r->recompute - at, "%s%s", s ? "," : "", more ? to : now);
    }
    r->c.recompute = r->recompute;
    yokei_text(r->what, sizeof r->what, "compute %s again instead of keeping it (--recompute %s)",
               step == 1 ? "attention" : "what passes leave behind", r->recompute);
    return changes
           || step == 1; /* a step without a change fits no better, so the search goes to the next step */
}

/* The free memory of a stage: the least free memory of its ranks. */
static double room_of_stage(const struct remedy *r, int stage)
{
    const struct yokei_mesh *m = r->run->mesh;
    double least = INFINITY;
    for (int i = 0; i < r->run->n_ranks; i++)
        if (yokei_mesh_at(m, i).s == stage) least = fmin(least, (double)r->run->ranks[i].have - r->need[i]);
    return least;
}

/* The virtual stage of a stage with the most blocks, or with the fewest. */
static int virtual_of(const struct remedy *r, int stage, bool most)
{
    const struct yokei_mesh *m = r->run->mesh;
    int found = stage;
    for (int v = stage; v < m->pipeline * m->chunks; v += m->pipeline)
        if (most ? r->blocks[v] > r->blocks[found] : r->blocks[v] < r->blocks[found]) found = v;
    return found;
}

/* Each step moves one block from the stage with the least free memory to the stage with the most. */
static bool move_blocks(struct remedy *r, int step)
{
    const struct yokei_mesh *m = r->run->mesh;
    const int n = m->pipeline * m->chunks;
    if (m->pipeline == 1 || step > r->n_blocks) return false;
    for (int v = 0; step == 1 && v < n; v++)
        r->blocks[v] = r->run->config->stage_blocks ? r->run->config->stage_blocks[v]
                                                    : r->n_blocks / n + (v < r->n_blocks % n);
    int from = 0, to = 0;
    for (int s = 1; s < m->pipeline; s++) {
        if (room_of_stage(r, s) < room_of_stage(r, from)) from = s;
        if (room_of_stage(r, s) > room_of_stage(r, to)) to = s;
    }
    const int giver = virtual_of(r, from, true);
    if (from == to || r->blocks[giver] < 2) return false;
    r->blocks[giver]--;
    r->blocks[virtual_of(r, to, false)]++;
    r->c.stage_blocks = r->blocks;
    yokei_text(r->what, sizeof r->what, "give stage %d fewer blocks (--layers ", from);
    for (int v = 0; v < n; v++) {
        const size_t at = strlen(r->what);
        yokei_text(r->what + at, sizeof r->what - at, "%lld%s", (long long)r->blocks[v],
                   v + 1 < n ? "," : ")");
    }
    return true;
}

static bool half_precision(struct remedy *r, int step)
{
    if (step > 1 || r->run->config->precision != YOKE_F32) return false;
    r->c.precision = YOKE_BF16;
    yokei_text(r->what, sizeof r->what, "keep activations and matrices in 16 bits (--precision bf16)");
    return true;
}

/*
 * Adapt recomputation and shares to another mesh. Each new stage recomputes as the stage that it comes from.
 * Replicas are equal.
 */
static void remesh(struct remedy *r, int pipeline_times, int data)
{
    const struct yokei_mesh *m = r->run->mesh;
    r->c.stage_blocks = NULL;
    r->c.shares = r->c.zero_shares = NULL;
    r->c.data = data;
    /* the next line raises it to the largest one now; as an upper limit it changes none */
    r->c.micro_batch = 1;
    for (int i = 0; i < r->run->n_ranks; i++)
        r->c.micro_batch = YOKE_MAX(r->c.micro_batch, r->run->ranks[i].micro_batch);
    if (!r->run->config->recompute || !strchr(r->run->config->recompute, ',')) return;
    r->recompute[0] = 0;
    for (int s = 0; s < m->pipeline * pipeline_times && strlen(r->recompute) + 16 < sizeof r->recompute;
         s++) {
        char word[16];
        const size_t at = strlen(r->recompute);
        word_of_stage(r->run->config, s / pipeline_times, word, sizeof word);
        yokei_text(r->recompute + at, sizeof r->recompute - at, "%s%s", s ? "," : "", word);
    }
    r->c.recompute = r->recompute;
}

/*
 * Step 1 uses twice as many stages or tensor ranks and half the replicas. Steps 2 and 3 use twice and four
 * times as many ranks.
 */
static bool divide_more(struct remedy *r, int step, bool stages)
{
    const struct yokei_mesh *m = r->run->mesh;
    const int times = step == 1 ? 2 : 1 << (step - 1), data = step == 1 ? m->data / 2 : m->data;
    if (step > 3 || m->widths) return false; /* the user chose stages of different widths for these ranks */
    r->n_planned = step == 1 ? r->run->n_ranks : r->run->n_ranks * times;
    /* an odd number of replicas has no half, so the product does not match and the mesh is refused */
    remesh(r, stages ? times : 1, step == 1 && m->data % 2 ? m->data : data);
    r->c.pipeline = m->pipeline * (stages ? times : 1);
    r->c.tensor = m->tensor * (stages ? 1 : times);
    if (!stages) r->c.tensor_shares = NULL; /* the shares are for another number of ranks */
    if (!stages && m->tensor * times > YOKE_MAX_TENSOR) return false;
    yokei_text(r->what, sizeof r->what, "divide the %s over more ranks (--pp %d --tp %d --dp %d%s",
               stages ? "layers" : "layers' tensors", r->c.pipeline, r->c.tensor, r->c.data,
               step == 1 ? ")" : "");
    const size_t at = strlen(r->what);
    if (step > 1)
        yokei_text(r->what + at, sizeof r->what - at,
                   " on %d ranks, the added ones with as much memory of their own)", r->n_planned);
    if (!stages && r->run->config->tensor_shares)
        yokei_text(r->what + strlen(r->what), sizeof r->what - strlen(r->what), ", with equal tensor shares");
    return true;
}

static bool more_stages(struct remedy *r, int step) { return divide_more(r, step, true); }
static bool more_tensor_ranks(struct remedy *r, int step) { return divide_more(r, step, false); }

/* Combine all changes that change neither ranks nor devices. */
static bool all_together(struct remedy *r, int step)
{
    const struct yokei_mesh *m = r->run->mesh;
    const char *kind = kind_of(r->run->config);
    const bool narrower = r->run->config->precision == YOKE_F32,
               another = m->pipeline > 1 && m->chunks == 1 && strcmp(kind, "1f1b") && strcmp(kind, "naive");
    if (step > 2 || (step == 2 && !narrower)) return false;
    r->c.micro_batch = 1;
    r->c.recompute = "full";
    if (another) r->c.pipeline_kind = "1f1b";
    if (m->data > 1) r->c.zero = 1;
    if (step == 2) r->c.precision = YOKE_BF16;
    yokei_text(r->what, sizeof r->what,
               "give up speed for memory wherever it can be done (--micro-batch 1 --recompute full%s%s%s)",
               another ? " --schedule 1f1b" : "", m->data > 1 ? " --zero 1" : "",
               step == 2 ? " --precision bf16" : "");
    return true;
}

/*
 * Changes that add no arithmetic come first. Then come changes that add arithmetic, may leave devices idle,
 * or round. Changes that need other devices come last.
 */
static const struct {
    bool (*change)(struct remedy *r, int step);
    bool needs_all; /* a step reads what all ranks need with the step before */
} rows[] = {
    { divide_states, false }, { smaller_micro_batch, false }, { fewer_alive, false },
    { recompute, false },     { move_blocks, true },          { half_precision, false },
    { all_together, false },  { more_stages, false },         { more_tensor_ranks, false },
};

/* ---- the search ---- */

static yoke_status begin(const struct yokei_memory_run *run, const double *need, struct remedy *r)
{
    const struct yokei_mesh *m = run->mesh;
    const int per_block = YOKE_MAX(run->model->per_block, 1);
    *r = (struct remedy){
        .run = run, .n_blocks = (run->model->n_layers - run->model->before - run->model->after) / per_block
    };
    r->need = malloc((size_t)run->n_ranks * sizeof *r->need);
    r->is_short = calloc((size_t)m->pipeline, sizeof *r->is_short);
    r->blocks = calloc((size_t)(m->pipeline * m->chunks), sizeof *r->blocks);
    if (!need || !r->need || !r->is_short || !r->blocks)
        return yoke_fail(YOKE_ENOMEM, "trainer: no host memory for %d ranks", run->n_ranks);
    bool any = false;
    for (int i = 0; i < run->n_ranks; i++)
        if (need[i] > (double)run->ranks[i].have) any = r->is_short[yokei_mesh_at(m, i).s] = true;
    /* each rank would fit alone, but the ranks of one memory do not fit together */
    for (int s = 0; s < m->pipeline && !any; s++) r->is_short[s] = true;
    return YOKE_OK;
}

/*
 * Find the first change that fits, or else the change with the smallest shortage. *least_out is the shortage
 * with the change in `what`. `need` is what the ranks need with it.
 */
static yoke_status search(struct remedy *r, yokei_memory_ask ask, void *context, const double *now,
                          double *need, char *what, size_t bytes, double *least_out)
{
    const struct yokei_memory_run *run = r->run;
    const size_t list = (size_t)run->n_ranks * sizeof *need;
    *least_out = INFINITY;
    for (size_t row = 0; row < YOKE_COUNT(rows); row++) {
        memcpy(r->need, now, list);
        for (int step = 1;; step++) {
            int culprit;
            r->c = *run->config;
            r->c.micro_batch = 0;
            r->c.schedule = NULL;
            r->n_planned = run->n_ranks;
            if (!rows[row].change(r, step)) break;
            YOKE_TRY(ask(context, &r->c, r->n_planned, rows[row].needs_all ? INFINITY : *least_out, r->need));
            const double lacks = yokei_memory_shortage(run->ranks, r->need, run->n_ranks, &culprit, NULL);
            if (!(lacks < *least_out)) continue;
            *least_out = lacks;
            memcpy(need, r->need, list);
            yokei_text(what, bytes, "%s", r->what);
            if (lacks <= 0) return YOKE_OK;
        }
    }
    return YOKE_OK;
}

static int ranks_of_pool(const struct yokei_memory_run *run, int rank)
{
    int n = 0;
    for (int r = 0; r < run->n_ranks && !run->ranks[rank].is_limited; r++)
        n += r != rank && !run->ranks[r].is_limited && run->ranks[r].pool == run->ranks[rank].pool;
    return n;
}

/* Report which ranks lack memory, and for which parts they need it. */
static void report_need(const struct yokei_memory_run *run, int rank, double lacks, double sum, char *out,
                        size_t bytes)
{
    const struct yoke_memory_report *p = &run->ranks[rank].report;
    const int others = ranks_of_pool(run, rank);
    char together[96] = "", on_host[96] = "";
    if (others)
        yokei_text(together, sizeof together, "; with the %d other rank%s of its memory %.1f MiB", others,
                   others > 1 ? "s" : "", mib(sum));
    if (yokei_memory_need(&run->ranks[rank], p) > (double)p->total)
        yokei_text(on_host, sizeof on_host, ", staging %.1f, host %.1f",
                   mib((double)p->staging_shared + (double)p->staging), mib((double)p->host));
    yokei_text(
        out, bytes,
        "rank %d on %s: training needs %.1f MiB (weights %.1f, gradients %.1f, optimizer %.1f, activations %.1f: stash %.1f, "
        "boundaries %.1f, received %.1f, workspace %.1f; a step's data %.1f, scratch %.1f%s)%s, but there are %.1f MiB",
        rank, run->ranks[rank].device, mib(yokei_memory_need(&run->ranks[rank], p)), mib((double)p->weights),
        mib((double)p->gradients), mib((double)p->optimizer), mib((double)p->activations),
        mib((double)p->stash), mib((double)p->boundaries), mib((double)p->received),
        mib((double)p->layer_workspace), mib((double)p->workspace), mib((double)p->scratch), on_host,
        together, mib(sum - lacks));
}

yoke_status yokei_memory_refuse(const struct yokei_memory_run *run, yokei_memory_ask ask, void *context)
{
    const size_t n = (size_t)run->n_ranks;
    double *now = calloc(2 * n, sizeof *now), then = 0, sum = 0, least = INFINITY;
    struct remedy r = { 0 };
    int rank = 0;
    char problem[1024], what[sizeof r.what] = "";
    const double lacks = yokei_memory_shortage(run->ranks, NULL, run->n_ranks, &rank, &sum);
    report_need(run, rank, lacks, sum, problem, sizeof problem);
    for (size_t i = 0; i < n && now; i++) now[i] = yokei_memory_need(&run->ranks[i], &run->ranks[i].report);
    /* the ranks search together, so they begin only if all of them have the memory for it */
    yoke_status status = yokei_ranks_all_well(run->config, begin(run, now, &r));
    if (!status) {
        status = search(&r, ask, context, now, now + n, what, sizeof what, &least);
        then = now[n + (size_t)rank];
    }
    free(r.need);
    free(r.is_short);
    free(r.blocks);
    free(now);
    YOKE_TRY(status);
    const char *own = run->config->schedule ? ", without the schedule of your own" : "";
    if (least <= 0)
        yoke_fail(YOKE_ENOMEM, "%s: %s%s: rank %d then needs %.1f MiB, and all fit", problem, what, own, rank,
                  mib(then));
    else if (isinf(least))
        yoke_fail(
            YOKE_ENOMEM,
            "%s: no change that was tried can be planned. Take a smaller model, a shorter sequence, or devices with more memory",
            problem);
    else
        yoke_fail(
            YOKE_ENOMEM,
            "%s: nothing that was tried fits. Nearest comes: %s%s, which still lacks %.1f MiB. Take a smaller model, a shorter "
            "sequence, or devices with more memory",
            problem, what, own, ceil(mib(least) * 10) / 10);
    return yokei_ranks_share(YOKE_ENOMEM);
}

/* ---- a run whose ranks have started ---- */

double yokei_memory_asked(const struct yokei_memory_run *run, yoke_device *device,
                          const struct yoke_trainer_config *config, int r, int n_planned)
{
    struct yokei_planned planned;
    struct yoke_trainer_config c = *config;
    const struct yokei_mesh *mesh = run->mesh;
    const struct yokei_memory_rank *like = &run->ranks[r % run->n_ranks];
    const bool same_mesh = n_planned == run->n_ranks && YOKE_MAX(c.pipeline, 1) == mesh->pipeline
                           && (c.stage_tensor || YOKE_MAX(c.tensor, 1) == mesh->tensor);
    c.comm = c.control = NULL;
    if (same_mesh)
        c.micro_batch = c.micro_batch ? YOKE_MIN(c.micro_batch, like->micro_batch) : like->micro_batch;
    if (yokei_planned_numbers(run->planned, run->model, device, &c, r, n_planned, &planned)) return INFINITY;
    return yokei_memory_need(like, &planned.report);
}

/* Each rank plans for its own place, and for the places of added ranks that would be like it. */
struct own {
    const struct yokei_memory_run *run;
    yoke_device *device;
    int rank;
};

/* All ranks plan at the same time, so an early return would save nothing. `enough` is not used. */
static yoke_status ask_all(void *context, const struct yoke_trainer_config *config, int n_planned,
                           double enough, double *need_out)
{
    (void)enough;
    const struct own *own = context;
    const struct yokei_memory_run *run = own->run;
    double most = 0;
    for (int r = own->rank; r < n_planned; r += run->n_ranks)
        most = fmax(most, yokei_memory_asked(run, own->device, config, r, n_planned));
    need_out[0] = most;
    return run->n_ranks > 1 ? yokei_ranks_gather(run->config, &most, 1, need_out) : YOKE_OK;
}

yoke_status yokei_memory_check(const yoke_model *model, yoke_device *device,
                               const struct yoke_trainer_config *config,
                               const struct yokei_trainer_plan *plan, const struct yokei_memory_rank *ranks)
{
    int rank;
    if (yokei_memory_shortage(ranks, NULL, plan->n_ranks, &rank, NULL) <= 0) return YOKE_OK;
    struct yoke_trainer_config c = *config;
    c.shares = plan->shares;
    struct yokei_planned_ranks planned = { 0 };
    const struct yokei_memory_run run = { model, &c, &plan->mesh, ranks, plan->n_ranks, &planned };
    const yoke_status status = yokei_memory_refuse(&run, ask_all, &(struct own){ &run, device, plan->rank });
    yokei_planned_free(&planned);
    return status;
}
