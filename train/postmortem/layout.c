/* SPDX-License-Identifier: Apache-2.0 */
/* Replays in the layout of the run: the order that the job's ranks read, and what each rank does. */
#include "train/postmortem/layout.h"

#include <omp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "train/postmortem/inside.h"

/* ---- the order ---- */

/* clang-format off */
#define TEXT(member) \
    { #member, YOKEI_JSON_STRING, offsetof(struct yokei_replay_order, member), sizeof(char *), true }
/* clang-format on */
static const struct yokei_json_field fields[] = {
    TEXT(plan),
    TEXT(checkpoint),
    TEXT(init),
    TEXT(data),
    TEXT(tokenizer),
    TEXT(skip_samples),
    TEXT(folder),
    TEXT(save),
    { "is_llmc", YOKEI_JSON_BOOL, offsetof(struct yokei_replay_order, is_llmc), 0, true },
    { "last", YOKEI_JSON_I64, offsetof(struct yokei_replay_order, last), 0, true, 1, 9e15 },
    { 0 },
};
static const struct yokei_json_schema schema = { fields, sizeof(struct yokei_replay_order), false,
                                                 YOKE_EDATA };

yoke_status yokei_replay_order_write(const char *path, const struct yokei_replay_order *order)
{
    return yokei_json_write(path, &schema, order);
}

yoke_status yokei_replay_order_read(const char *path, struct yokei_replay_order *order_out)
{
    *order_out = (struct yokei_replay_order){ 0 };
    return yokei_json_read(path, &schema, order_out);
}

void yokei_replay_order_free(struct yokei_replay_order *order) { yokei_json_free(&schema, order); }

/* ---- a rank ---- */

static const char *or_null(const char *text) { return text && *text ? text : NULL; }

static void set_threads(const struct yokei_plan *plan, int job_rank)
{
    for (int64_t r = 0; r < plan->n_ranks; r++) {
        const int64_t own = plan->ranks[r].job_rank >= 0 ? plan->ranks[r].job_rank : r;
        if (own == job_rank && plan->ranks[r].threads > 0)
            omp_set_num_threads((int)YOKE_MIN(plan->ranks[r].threads, (int64_t)1024));
    }
}

yoke_status yokei_replay_prepare(const struct yokei_replay_order *order, int job_rank, char *checkpoint,
                                 size_t bytes, struct yokei_training *t)
{
    struct yokei_plan saved = YOKEI_PLAN_INIT;
    int64_t first = 0;
    bool was_replay;
    *t = (struct yokei_training){ .plan = YOKEI_PLAN_INIT, .tokens = order->data };
    YOKE_TRY(yokei_plan_read(order->plan, &t->plan));
    if (or_null(order->checkpoint)) {
        YOKE_TRY(yokei_run_resume_plan(order->checkpoint, checkpoint, bytes, &saved, &first, &was_replay));
        yokei_plan_free(&saved);
        t->resume = checkpoint;
    } else
        t->init = or_null(order->init);
    /* The plan decides devices and products. It decides the progress of a run with a budget of time, too. */
    t->replay = true;
    t->plan_path = order->plan;
    if (order->skip_samples)
        yokei_text(t->plan.skip_samples, sizeof t->plan.skip_samples, "%s", order->skip_samples);
    t->tokens_are_llmc = order->is_llmc;
    t->tokenizer = or_null(order->tokenizer);
    t->validation_tokens = t->plan.sequence;
    t->black_box_every = 1;
    t->run_dir = order->folder;
    t->save = or_null(order->save);
    set_threads(&t->plan, job_rank);
    yokei_replay_end_behind(t, first, order->last);
    return YOKE_OK;
}

yoke_status yokei_replay_run(struct yokei_training *t)
{
    struct yokei_training_result result = { 0 };
    const yoke_status status = yokei_training_run(t, &result);
    if (!status) free(result.sample);
    return status;
}

/* ---- the job ---- */

bool yokei_postmortem_has_layout(const struct yokei_postmortem *p)
{
    return p->config->run_job && p->has_plan && p->plan.n_ranks > 1 && p->boxes->n > 1;
}

/* The devices in the order of the job. A plan lists the ranks in the order of the mesh. */
static bool list_devices(const struct yokei_plan *plan, char *text, size_t bytes, char *why, size_t why_bytes)
{
    text[0] = 0;
    for (int64_t job_rank = 0; job_rank < plan->n_ranks; job_rank++) {
        int64_t at = -1;
        for (int64_t r = 0; r < plan->n_ranks; r++)
            if ((plan->ranks[r].job_rank >= 0 ? plan->ranks[r].job_rank : r) == job_rank) at = r;
        const size_t used = strlen(text);
        if (at < 0 || !plan->ranks[at].device[0] || used + 40 > bytes) {
            yokei_text(why, why_bytes, "the plan does not name the device of rank %lld of the job",
                       (long long)job_rank);
            return false;
        }
        yokei_text(text + used, bytes - used, "%s%s", used ? "," : "", plan->ranks[at].device);
    }
    return true;
}

bool yokei_postmortem_run_layout(struct yokei_postmortem *p, const struct yokei_postmortem_order *o,
                                 const char *folder, char *why, size_t bytes)
{
    const struct yokei_postmortem_config *c = p->config;
    char plan[4200], path[4200], save[4200] = "";
    char *devices = malloc((size_t)p->plan.n_ranks * 40 + 40);
    if (!devices) {
        yokei_text(why, bytes, "no host memory");
        return false;
    }
    yokei_text(plan, sizeof plan, "%s/plan.json", c->run);
    yokei_text(path, sizeof path, "%s/order.json", folder);
    if (o->beside) yokei_postmortem_save_folder(folder, save, sizeof save);
    const struct yokei_replay_order order = { .plan = plan,
                                              .checkpoint = (char *)(uintptr_t)o->start->checkpoint,
                                              .init = (char *)(uintptr_t)c->init,
                                              .data = (char *)(uintptr_t)p->data,
                                              .tokenizer = (char *)(uintptr_t)c->tokenizer,
                                              .skip_samples = (char *)(uintptr_t)p->head->skip_samples,
                                              .folder = (char *)(uintptr_t)folder,
                                              .save = save,
                                              .is_llmc = c->is_llmc,
                                              .last = o->last };
    const struct yokei_postmortem_job job = { .n_ranks = (int)p->plan.n_ranks,
                                              .devices = devices,
                                              .folder = folder,
                                              .order = path,
                                              .seconds = c->seconds };
    bool ok = list_devices(&p->plan, devices, (size_t)p->plan.n_ranks * 40 + 40, why, bytes);
    if (ok && yokei_replay_order_write(path, &order)) {
        yokei_text(why, bytes, "%s", yoke_last_error());
        ok = false;
    }
    ok = ok && c->run_job(c->context, &job, why, bytes);
    free(devices);
    return ok;
}
