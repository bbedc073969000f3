/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checkpoints of a run: when to save one, the state that it holds besides tensors, and how a run
 * continues from one.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "train/checkpoint/dealing.h"
#include "train/run/loop.h"

yoke_status yokei_run_resume_plan(const char *path, char *folder_out, size_t bytes,
                                  struct yokei_plan *plan_out, int64_t *step_out, bool *replay_out)
{
    struct yokei_manifest m;
    YOKE_TRY(yokei_checkpoint_locate(path, folder_out, bytes));
    YOKE_TRY(yokei_manifest_read(folder_out, &m));
    *replay_out = m.replay;
    *step_out = m.step;
    *plan_out = m.plan;
    memset(&m.plan, 0, sizeof m.plan); /* the caller owns its lists now */
    yokei_manifest_free(&m);
    return YOKE_OK;
}

yoke_status yokei_run_check_save(struct yokei_run_state *s)
{
    const char *dir = s->t->save;
    if (!dir) return YOKE_OK;
    int64_t newest = s->rank == 0 ? yokei_checkpoint_newest(dir) : -1;
    yoke_status status = YOKE_OK;
    if (newest > s->first_step)
        status = yoke_fail(
            YOKE_ECONFIG,
            "%s holds a checkpoint of step %lld, and this run begins behind step %lld: go on from it with --resume %s, or "
            "save to another folder",
            dir, (long long)newest, (long long)s->first_step, dir);
    return yokei_ranks_all_well(&s->config, status);
}

/* A resume may skip more samples. The checkpoint may have trained on some of them already. */
static void note_skips(const struct yokei_run_state *s, const struct yokei_manifest *m)
{
    struct yokei_skips then;
    if (yokei_skips_parse("skip_samples", m->plan.skip_samples, &then)) return;
    const int64_t late = yokei_skips_below(&s->skips, s->next_sample)
                         - yokei_skips_below(&then, s->next_sample);
    if (late > 0)
        yokei_run_note(
            s,
            "%lld of the samples to skip come before sample %lld, so the checkpoint has trained on "
            "them: to be without them, resume from an earlier one",
            (long long)late, (long long)s->next_sample);
}

static yoke_status restore(struct yokei_run_state *s, const struct yokei_checkpoint *c)
{
    const struct yokei_manifest *m = &c->manifest;
    uint64_t hash = strtoull(m->xxh3, NULL, 16);
    YOKE_TRY(yokei_ranks_agree(&s->config, hash, NULL,
                               "resume from different checkpoints: give all hosts the same folder"));
    yokei_ranks_busy(&s->config, "reading a checkpoint");
    yokei_run_busy(s, "reading a checkpoint");
    YOKE_TRY(yokei_checkpoint_load(c, s->trainer));
    yokei_trainer_restore(s->trainer, m->step, m->optimizer_step, m->loss_scale, m->good_steps,
                          (int)m->skipped_steps);
    s->first_step = m->step;
    s->next_sample = m->data_next_sample;
    s->tokens_seen = m->tokens;
    s->seconds_before = s->saved_clock = m->seconds;
    note_skips(s, m);
    yokei_run_note(s, "going on behind step %lld of %s", (long long)m->step, c->path);
    return YOKE_OK;
}

yoke_status yokei_run_restore(struct yokei_run_state *s)
{
    struct yokei_checkpoint *c = NULL;
    yokei_ranks_busy(&s->config, "checking a checkpoint");
    yokei_run_busy(s, "checking a checkpoint");
    YOKE_TRY(yokei_ranks_all_well(&s->config, yokei_checkpoint_open(s->t->resume, 0, &c)));
    yoke_status status = restore(s, c);
    yokei_checkpoint_close(c);
    return status;
}

bool yokei_run_save_is_due(const struct yokei_run_state *s, int64_t step, double clock)
{
    const struct yokei_training *t = s->t;
    if (!t->save || s->saved_step == step) return false;
    return (t->save_every > 0 && step % t->save_every == 0)
           || (t->save_every_seconds > 0 && clock - s->saved_clock >= t->save_every_seconds);
}

static yoke_status save(struct yokei_run_state *s, int64_t step, double clock)
{
    const struct yokei_training *t = s->t;
    const yoke_trainer *trainer = s->trainer;
    struct yokei_dealing dealing;
    struct yokei_manifest m = { .format = YOKEI_MANIFEST_FORMAT,
                                .version = YOKEI_MANIFEST_VERSION,
                                .step = step,
                                .optimizer_step = trainer->optimizer_step,
                                .tokens = s->tokens_seen,
                                .seconds = clock,
                                .data_order = YOKEI_DATA_ORDER,
                                .data_next_sample = s->next_sample,
                                .seed = trainer->config.seed,
                                .loss_scale = trainer->loss_scale.scale,
                                .good_steps = trainer->loss_scale.good_steps,
                                .skipped_steps = trainer->loss_scale.skipped,
                                .replay = t->replay,
                                .plan = t->plan };
    yokei_text(m.yoke, sizeof m.yoke, "%s", yoke_version());
    YOKE_TRY(yokei_dealing_create(s->trainer, &dealing));
    yokei_ranks_busy(&s->config, "writing a checkpoint");
    yokei_run_busy(s, "writing a checkpoint");
    struct yokei_save what = { .dir = t->save,
                               .keep = t->keep,
                               .rank = s->rank,
                               .items = dealing.items,
                               .n_items = dealing.n_items,
                               .companions = &s->companions,
                               .manifest = &m,
                               .context = &dealing,
                               .get = yokei_dealing_get,
                               .agree = yokei_dealing_agree };
    yoke_status status = yokei_checkpoint_save(&what);
    memset(&m.plan, 0, sizeof m.plan); /* the run owns it */
    yokei_manifest_free(&m);
    yokei_dealing_free(&dealing);
    return status;
}

yoke_status yokei_run_save(struct yokei_run_state *s, int64_t step, double clock, bool must)
{
    if (!s->t->save || s->saved_step == step) return YOKE_OK;
    s->saved_clock = clock;
    /* a checkpoint says with the hash of the tokens what the weights were trained on */
    YOKE_TRY(yokei_tokens_unchanged(s->tokens, s->tokens_hash));
    yoke_status status = save(s, step, clock);
    if (status == YOKE_EIO && !must) {
        yoke_log(YOKE_LOG_WARN, "step %lld was not saved, and training goes on: %s", (long long)step,
                 yoke_last_error());
        return YOKE_OK;
    }
    if (status) return yoke_fail_context(status, "step %lld was not saved", (long long)step);
    s->saved_step = step;
    return YOKE_OK;
}
