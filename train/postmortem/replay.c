/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps of a run are repeated by the trainer itself, on one rank, with a black box of its own that samples
 * every step. The two boxes are then compared. Each replay is a process of its own with a time limit. So a
 * device that hangs, or a program that dies, ends the replay and not the post-mortem.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <math.h>
#include <omp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/base.h"
#include "train/exchange/weights_file.h"
#include "train/models/model_files.h"
#include "train/postmortem/inside.h"
#include "train/run/loop.h"
#include "train/trainer/trainer.h"

/* ---- a process of its own ---- */

static void in_child(struct yokei_postmortem_work *w, int end)
{
    (void)end; /* it is closed when the process ends */
    const int nothing = yokei_open_to_write("/dev/null", 0);
    if (nothing >= 0) {
        dup2(nothing, STDOUT_FILENO);
        dup2(nothing, STDERR_FILENO);
    }
    w->shared->status = w->run(w);
    yokei_text(w->shared->why, sizeof w->shared->why, "%s", w->shared->status ? yoke_last_error() : "");
    w->shared->has_ended = true;
    _exit(0);
}

/* Wait until the process ends, or kill it. */
static bool await(pid_t child, int end, double seconds)
{
    const uint64_t begun = yokei_now_ns();
    bool in_time = false;
    for (double left; !in_time && (left = seconds - yokei_seconds_since(begun)) > 0;) {
        struct pollfd wait = { .fd = end, .events = POLLIN };
        in_time = poll(&wait, 1, (int)fmin(left * 1e3 + 1, 1e6)) > 0;
    }
    if (!in_time) kill(child, SIGKILL);
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR) continue;
    return in_time;
}

bool yokei_postmortem_apart(struct yokei_postmortem_work *w, double seconds, char *why, size_t bytes)
{
    int end[2];
    if (pipe2(end, O_CLOEXEC)) {
        yokei_text(why, bytes, "no pipe: %s", strerror(errno));
        return false;
    }
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) in_child(w, end[1]);
    close(end[1]);
    const bool in_time = child > 0 && await(child, end[0], seconds);
    close(end[0]);
    if (child < 0)
        yokei_text(why, bytes, "no process: %s", strerror(errno));
    else if (!in_time)
        yokei_text(why, bytes, "it took longer than %.0f s", seconds);
    else if (!w->shared->has_ended)
        yokei_text(why, bytes, "its process died");
    return in_time && w->shared->has_ended;
}

struct yokei_postmortem_shared *yokei_postmortem_share(void)
{
    void *memory = mmap(NULL, sizeof(struct yokei_postmortem_shared), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* ---- a replay ---- */

/*
 * Whether the replay repeats the run as it was: the same layout, devices of the same names, the same
 * precision. Then the bits must be the same, unless a device of that name is another one now: see compare.c.
 */
static bool is_exact(const struct yokei_postmortem *p, const struct yokei_postmortem_order *o)
{
    if (o->in_f32 || o->rate != 1) return false;
    return !o->device || (p->boxes->n == 1 && !strcmp(o->device, p->head->device));
}

static void lay_on_one_rank(struct yokei_plan *plan)
{
    yokei_plan_forget_ranks(plan);
    free(plan->schedule_text);
    plan->schedule_text = NULL;
    plan->data = plan->pipeline = plan->tensor = plan->chunks = 1;
    plan->sequence_parallel = plan->zero = 0;
    char *const texts[] = { plan->stage_tensor,  plan->schedule,    plan->layers,     plan->recompute,
                            plan->tensor_shares, plan->zero_shares, plan->comm_costs, plan->comm_shares };
    for (size_t i = 0; i < YOKE_COUNT(texts); i++) texts[i][0] = 0;
}

static yoke_status take_plan(const struct yokei_postmortem_work *w, struct yokei_training *t,
                             char *checkpoint, size_t bytes)
{
    const struct yokei_postmortem_order *o = w->order;
    char path[4200];
    int64_t step;
    if (o->start->checkpoint[0]) {
        YOKE_TRY(yokei_run_resume_plan(o->start->checkpoint, checkpoint, bytes, &t->plan, &step, &t->replay));
        t->resume = t->plan_path = checkpoint;
    } else {
        yokei_text(path, sizeof path, "%s/plan.json", w->p->config->run);
        YOKE_TRY(yokei_plan_read(path, &t->plan));
        t->init = w->p->config->init;
        t->plan_path = "plan.json";
    }
    t->replay = t->replay || t->plan.budget_seconds > 0;
    if (o->start->checkpoint[0] && w->p->has_plan) t->plan.steps = w->p->plan.steps; /* of the later start */
    yokei_text(t->plan.skip_samples, sizeof t->plan.skip_samples, "%s", w->p->head->skip_samples);
    if (o->in_f32) yokei_text(t->plan.precision, sizeof t->plan.precision, "f32");
    t->plan.learning_rate *= o->rate;
    t->plan.min_learning_rate *= o->rate;
    if (t->plan.n_ranks == 1 && t->plan.ranks[0].threads > 0)
        omp_set_num_threads((int)YOKE_MIN(t->plan.ranks[0].threads, (int64_t)1024));
    if (!is_exact(w->p, o) || t->plan.n_ranks != 1) lay_on_one_rank(&t->plan);
    return YOKE_OK;
}

static yoke_status replay(struct yokei_postmortem_work *w)
{
    const struct yokei_postmortem_config *c = w->p->config;
    struct yokei_training t = { .plan = YOKEI_PLAN_INIT,
                                .tokens = w->p->data,
                                .tokens_are_llmc = c->is_llmc };
    struct yokei_training_result result;
    char checkpoint[4096], save[4200];
    YOKE_TRY(take_plan(w, &t, checkpoint, sizeof checkpoint));
    t.tokenizer = c->tokenizer;
    t.micro_batch = w->p->boxes->n == 1 ? w->p->head->micro_batch : 0;
    t.validation_tokens = t.plan.sequence;
    t.black_box_every = 1;
    t.run_dir = w->folder;
    yokei_postmortem_save_folder(w->folder, save, sizeof save);
    if (w->order->beside) t.save = save;
    yokei_replay_end_behind(&t, w->order->start->step, w->order->last);
    YOKE_TRY(yoke_device_open(w->order->device, NULL, &t.device));
    return yokei_training_run(&t, &result);
}

/* ---- the losses of samples ---- */

static yoke_status load(const struct yokei_postmortem_work *w, yoke_trainer *trainer)
{
    const struct yokei_postmortem_start *start = w->order->start;
    const char *from = start->checkpoint[0] ? start->checkpoint : w->p->config->init;
    return from ? yokei_weights_load(trainer, yokei_plan_model(&w->p->plan), from) : YOKE_OK;
}

yoke_status yokei_postmortem_open_trainer(const struct yokei_postmortem_work *w, int64_t batch,
                                          yoke_trainer **trainer_out)
{
    const struct yokei_plan *plan = &w->p->plan;
    struct yoke_trainer_config c = YOKE_TRAINER_CONFIG_INIT;
    yoke_device *device = NULL;
    yoke_model *model = NULL;
    YOKE_TRY(yoke_dtype_parse(plan->precision, &c.precision));
    c.batch = batch;
    c.micro_batch = 1;
    c.sequence = plan->sequence;
    c.seed = plan->seed;
    YOKE_TRY(yoke_device_open(w->order->device, NULL, &device));
    YOKE_TRY(yokei_model_create(yokei_plan_model(plan), &model));
    YOKE_TRY(yoke_trainer_create(model, device, &c, trainer_out));
    return load(w, *trainer_out);
}

/*
 * The loss per token of the worst part of a sample, because a sample may be damaged in part. Targets below 0
 * are ignored.
 */
static yoke_status worst_part(yoke_trainer *trainer, const int32_t *inputs, const int32_t *targets, int64_t T,
                              int32_t *some, double *worst_out)
{
    enum { PARTS = 4 };
    *worst_out = 0;
    for (int64_t part = 0; part < PARTS; part++) {
        const int64_t begin = T * part / PARTS, end = T * (part + 1) / PARTS;
        double sum;
        if (begin == end) continue;
        for (int64_t i = 0; i < T; i++) some[i] = i >= begin && i < end ? targets[i] : -1;
        YOKE_TRY(yoke_trainer_evaluate(trainer, inputs, some, 1, &sum));
        if (!(sum / (double)(end - begin) <= *worst_out)) *worst_out = sum / (double)(end - begin);
    }
    return YOKE_OK;
}

/* The process ends after this, and with it all that was opened. */
static yoke_status probe(struct yokei_postmortem_work *w)
{
    const int64_t T = w->p->plan.sequence;
    yoke_trainer *trainer;
    int32_t *inputs = malloc(3 * (size_t)T * sizeof *inputs);
    YOKE_TRY(inputs ? YOKE_OK : yoke_fail(YOKE_ENOMEM, "no host memory"));
    YOKE_TRY(yokei_postmortem_open_trainer(w, 1, &trainer));
    for (int i = 0; i < w->n; i++) {
        YOKE_TRY(yokei_tokens_sample(w->p->tokens, w->p->plan.seed, w->samples[i], T, inputs, inputs + T));
        YOKE_TRY(worst_part(trainer, inputs, inputs + T, T, inputs + 2 * T, &w->shared->losses[i]));
    }
    return YOKE_OK;
}

/* Targets below 0 are ignored. So only the samples of one rank count. */
static yoke_status compute_loss(struct yokei_postmortem_work *w)
{
    const struct yokei_plan *plan = &w->p->plan;
    const int64_t T = plan->sequence, n = plan->batch * T;
    struct yoke_step_result result = YOKE_STEP_RESULT_INIT;
    yoke_trainer *trainer;
    int32_t *inputs = malloc(2 * (size_t)n * sizeof *inputs), *targets = inputs + n;
    YOKE_TRY(inputs ? YOKE_OK : yoke_fail(YOKE_ENOMEM, "no host memory"));
    YOKE_TRY(yokei_postmortem_open_trainer(w, plan->batch, &trainer));
    yokei_trainer_restore(trainer, w->step, w->step, trainer->loss_scale.scale, 0, 0);
    for (int64_t i = 0; i < plan->batch; i++)
        YOKE_TRY(yokei_tokens_sample(w->p->tokens, plan->seed, yokei_box_sample(w->p->head, w->batch, i), T,
                                     inputs + i * T, targets + i * T));
    for (int64_t i = 0; i < n; i++)
        if (i / T < w->first || i / T >= w->first + w->count) targets[i] = -1;
    YOKE_TRY(yoke_trainer_backward(trainer, inputs, targets, 0, &result));
    w->shared->losses[0] = result.loss * (double)n;
    return YOKE_OK;
}

double yokei_postmortem_loss(struct yokei_postmortem *p, const struct yokei_postmortem_start *start,
                             int64_t step, int64_t batch, int64_t first, int64_t count)
{
    const struct yokei_postmortem_order order = { .start = start, .device = "host", .rate = 1 };
    struct yokei_postmortem_work w = { .run = compute_loss,
                                       .p = p,
                                       .order = &order,
                                       .step = step,
                                       .batch = batch,
                                       .first = first,
                                       .count = count,
                                       .shared = yokei_postmortem_share() };
    char why[320];
    if (!w.shared) return NAN;
    const bool ok = yokei_postmortem_apart(&w, p->config->seconds, why, sizeof why) && !w.shared->status;
    const double loss = ok ? w.shared->losses[0] : NAN;
    munmap(w.shared, sizeof *w.shared);
    return loss;
}

bool yokei_postmortem_probe(struct yokei_postmortem *p, const struct yokei_postmortem_start *start,
                            const char *device, const int64_t *samples, int n, double *losses_out, char *why,
                            size_t bytes)
{
    const struct yokei_postmortem_order order = { .start = start, .device = device, .rate = 1 };
    struct yokei_postmortem_work w = {
        .run = probe, .p = p, .order = &order, .samples = samples, .n = n, .shared = yokei_postmortem_share()
    };
    if (!w.shared || n > YOKEI_POSTMORTEM_SAMPLES) {
        yokei_text(why, bytes, "no host memory");
        return false;
    }
    bool ok = yokei_postmortem_apart(&w, p->config->seconds, why, bytes);
    if (ok && w.shared->status) {
        yokei_text(why, bytes, "%s", w.shared->why);
        ok = false;
    }
    for (int i = 0; i < n && ok; i++) losses_out[i] = w.shared->losses[i];
    munmap(w.shared, sizeof *w.shared);
    return ok;
}

/* ---- replays ---- */

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *place)
{
    (void)info, (void)kind, (void)place;
    return remove(path) && errno != ENOENT ? 1 : 0;
}

/* The folder of a replay has its black boxes, and may have a checkpoint. */
static void remove_folder(const char *folder) { nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS); }

/* In a process of its own, on one rank. */
static void replay_alone(struct yokei_postmortem *p, const struct yokei_postmortem_order *order,
                         const char *folder, struct yokei_replayed *out)
{
    struct yokei_postmortem_work w = {
        .run = replay, .p = p, .order = order, .folder = folder, .shared = yokei_postmortem_share()
    };
    if (!w.shared) {
        yokei_text(out->why, sizeof out->why, "no host memory: %s", strerror(errno));
        return;
    }
    if (yokei_postmortem_apart(&w, p->config->seconds, out->why, sizeof out->why)) {
        const yoke_status status = w.shared->status;
        if (!status || status == YOKE_EABORTED || status == YOKE_EPREEMPTED || status == YOKE_ENUMERIC)
            yokei_postmortem_compare(p, order, folder, out);
        else
            yokei_text(out->why, sizeof out->why, "%s", w.shared->why);
        if (out->ran && status == YOKE_ENUMERIC && out->failed_step < 0) out->failed_step = order->last;
    }
    munmap(w.shared, sizeof *w.shared);
}

/* In a job. If a rank was lost, the steps before it count. */
static void replay_in_layout(struct yokei_postmortem *p, const struct yokei_postmortem_order *order,
                             const char *folder, struct yokei_replayed *out)
{
    char lost[320] = "";
    const bool ok = yokei_postmortem_run_layout(p, order, folder, lost, sizeof lost);
    yokei_postmortem_compare(p, order, folder, out);
    if (ok) return;
    if (out->ran && out->failed_step < 0 && out->last_step < order->last) {
        out->is_cut = true;
        yokei_postmortem_miss(p->facts, "the replay in the layout of the run behind step %" PRId64 ": %.200s",
                              out->last_step, lost);
    }
    yokei_text(out->why, sizeof out->why, "%s", lost);
}

void yokei_postmortem_replay(struct yokei_postmortem *p, const struct yokei_postmortem_order *order,
                             struct yokei_replayed *out)
{
    const char *temporary = getenv("TMPDIR");
    char folder[4096];
    *out = (struct yokei_replayed){ .is_exact = is_exact(p, order),
                                    .n_ranks = order->device ? 1 : (int)p->plan.n_ranks,
                                    .from = order->start->step,
                                    .off_step = -1,
                                    .failed_step = -1,
                                    .last_loss = NAN };
    yokei_text(out->device, sizeof out->device, "%s", order->device ? order->device : p->head->device);
    yokei_text(out->precision, sizeof out->precision, "%s", order->in_f32 ? "f32" : p->facts->precision);
    yokei_text(folder, sizeof folder, "%s/yoke-postmortem.XXXXXX",
               temporary && *temporary ? temporary : "/tmp");
    if (!mkdtemp(folder)) {
        yokei_text(out->why, sizeof out->why, "no folder for its files: %s", strerror(errno));
        return;
    }
    (order->device ? replay_alone : replay_in_layout)(p, order, folder, out);
    if (order->beside && out->ran) yokei_postmortem_compare_weights(p, order, folder);
    remove_folder(folder);
}
