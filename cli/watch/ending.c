/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the run has ended, and how. Only files of the run say so: its locks, which a run removes when it
 * ends by itself, and its flight records. That no row comes says nothing.
 */
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/show/trace.h"
#include "cli/watch/watch.h"
#include "core/base/base.h"

enum { EXIT_STOPPED = 75, PAUSE = 5, LONGEST_PAUSE = 60 };
/* Records of an earlier job in the same folder are older than the rows by more than clocks differ. */
static const double OLD_RECORDS = 600;

/* ---- flight records ---- */

enum records { RECORDS_NONE, RECORDS_RUNNING, RECORDS_ENDED, RECORDS_STOPPED, RECORDS_FAILED };

/* Whether the records are of the job that wrote the last row, by the time of both on the file server. */
static bool is_of_this_job(const struct watch_follower *f, const struct cli_trace *t)
{
    char path[4200];
    struct stat rows;
    yokei_text(path, sizeof path, "%s/metrics.jsonl", f->folder);
    uint64_t last = t->end;
    for (int r = 0; r < t->n; r++)
        if (t->files[r]) last = YOKE_MAX(last, atomic_load(&t->files[r]->agent_ns) + t->to_wall[r]);
    if (stat(path, &rows)) return true;
    return (double)last * 1e-9 > (double)rows.st_mtim.tv_sec - OLD_RECORDS;
}

/* What the fates of the ranks say together. *stopped_out: a rank that is stopped by a signal; -1: none. */
static enum records judge_ranks(const struct cli_trace *t, int *stopped_out)
{
    bool runs = false, failed = false, asked = false;
    *stopped_out = -1;
    for (int r = 0; r < t->n; r++) {
        const enum yokei_fate fate = t->fates[r];
        const bool is_stop = t->files[r] && yokei_flight_agent(t->files[r]).exit_code == EXIT_STOPPED;
        runs = runs || fate == YOKEI_FATE_RUNNING || fate == YOKEI_FATE_STOPPED || fate == YOKEI_FATE_UNKNOWN;
        asked = asked || is_stop;
        failed = failed
                 || (!is_stop
                     && (fate == YOKEI_FATE_FAILED || fate == YOKEI_FATE_DEAD || fate == YOKEI_FATE_KILLED
                         || fate == YOKEI_FATE_GONE));
        if (fate == YOKEI_FATE_STOPPED && *stopped_out < 0) *stopped_out = r;
    }
    return runs ? RECORDS_RUNNING : failed ? RECORDS_FAILED : asked ? RECORDS_STOPPED : RECORDS_ENDED;
}

/* Which rank is to blame, or, if no rank failed first, what became of the ranks. */
static void failure_text(const struct cli_trace *t, char *out, size_t bytes)
{
    char who[256], fate[160];
    int first = -1, n = 0;
    cli_trace_blame_text(t, out, bytes);
    for (int r = 0; r < t->n; r++) {
        if (t->fates[r] != YOKEI_FATE_KILLED && t->fates[r] != YOKEI_FATE_GONE) continue;
        if (!n++) first = r;
    }
    if (t->blame.evidence != YOKEI_EVIDENCE_NONE || first < 0) return;
    cli_trace_who(t, first, who, sizeof who);
    cli_trace_fate_text(t, first, fate, sizeof fate);
    yokei_text(out, bytes, "%d of its %d ranks were ended from outside; the first of them: %s: %s", n, t->n,
               who, fate);
}

/* An event, unless it is the last one that the records caused. */
static void note(struct watch_follower *f, struct watch_ending *e, const char *text)
{
    if (!strcmp(e->noted, text)) return;
    yokei_text(e->noted, sizeof e->noted, "%s", text);
    watch_event_add(&f->history, "%s", text);
}

static enum records look_at_records(struct watch_follower *f, struct watch_ending *e, yoke_status *error_out)
{
    struct cli_trace t = { .folder = f->folder };
    enum records records = RECORDS_NONE;
    int stopped;
    char who[256], text[sizeof e->noted];
    *error_out = YOKE_EDEAD;
    if (!cli_trace_read(f->folder, &t) && is_of_this_job(f, &t)) {
        records = judge_ranks(&t, &stopped);
        failure_text(&t, e->text, sizeof e->text);
        const struct yokei_flight_file *to_blame = t.blame.rank >= 0 ? t.files[t.blame.rank] : NULL;
        if (to_blame && t.fates[t.blame.rank] == YOKEI_FATE_FAILED)
            *error_out = (yoke_status)atomic_load(&to_blame->status);
        if (records == RECORDS_RUNNING && stopped >= 0) {
            cli_trace_who(&t, stopped, who, sizeof who);
            yokei_text(text, sizeof text, "%s is stopped by a signal", who);
            note(f, e, text);
        } else if (records == RECORDS_FAILED)
            note(f, e, e->text);
    }
    cli_trace_free(&t);
    return records;
}

/* The records are read only if something is wrong, and more and more rarely. */
static bool may_look(const struct watch_follower *f, struct watch_ending *e)
{
    if (!f->has_records) return false;
    if (e->looked_ns && yokei_seconds_since(e->looked_ns) < e->pause) return false;
    e->pause = e->looked_ns ? fmin(2 * e->pause, LONGEST_PAUSE) : PAUSE;
    e->looked_ns = yokei_now_ns();
    return true;
}

/* ---- conclusions ---- */

static void set(struct watch_ending *e, enum watch_fate fate, bool is_over, const char *text)
{
    e->fate = fate;
    e->is_over = is_over;
    yokei_text(e->text, sizeof e->text, "%s", text);
}

/* No process has the folder any more. */
static void conclude_ended(struct watch_follower *f, struct watch_ending *e)
{
    char text[256];
    yoke_status error;
    const long long step = (long long)f->history.last.step;
    if (f->has_records && !may_look(f, e)) return;
    const enum records records = f->has_records ? look_at_records(f, e, &error) : RECORDS_NONE;
    if (records == RECORDS_RUNNING)
        set(e, WATCH_RUNNING, false, "running, by its flight records");
    else if (records == RECORDS_FAILED) {
        e->fate = WATCH_FAILED;
        e->is_over = true;
        e->status = error;
    } else if (records == RECORDS_STOPPED) {
        yokei_text(text, sizeof text, "asked to stop, and saved behind step %lld", step);
        set(e, WATCH_STOPPED, true, text);
    } else if (watch_all_steps(f)
               || (f->has_plan && f->plan.budget_seconds > 0
                   && f->history.last.seconds >= f->plan.budget_seconds))
        set(e, WATCH_FINISHED, true, "finished");
    else {
        yokei_text(text, sizeof text,
                   "ended behind step %lld, before its last step; its files do not say why", step);
        set(e, WATCH_ENDED, true, text);
    }
}

/* A lock is there, but no row has come for long. A killed run leaves its locks behind. */
static void conclude_quiet(struct watch_follower *f, struct watch_ending *e)
{
    char text[512];
    yoke_status error;
    /* without the lock of yoke run, the records may be those of an earlier job */
    if (f->has_job_lock && may_look(f, e)) {
        const enum records records = look_at_records(f, e, &error);
        if (records == RECORDS_FAILED) {
            e->fate = WATCH_FAILED;
            e->is_over = true;
            e->status = error;
            return;
        }
    }
    if (f->is_impatient) {
        yokei_text(text, sizeof text, "not ended, by its files%s%s%s", f->holder[0] ? " (" : "", f->holder,
                   f->holder[0] ? ")" : "");
        set(e, WATCH_RUNNING, false, text);
        return;
    }
    yokei_text(text, sizeof text, "%s for %.0f s%s%s%s",
               watch_all_steps(f) ? "all steps are done, and nothing new came" : "no new step",
               watch_quiet_seconds(f), f->holder[0] ? " (" : "", f->holder, f->holder[0] ? ")" : "");
    set(e, WATCH_QUIET, false, text);
}

void watch_conclude(struct watch_follower *f, struct watch_ending *e)
{
    char text[512];
    const bool is_locked = f->has_train_lock || f->has_job_lock,
               is_quiet = f->is_impatient || watch_quiet_seconds(f) >= watch_quiet_limit(f);
    if (e->is_over) return;
    if (f->grown_ns > e->looked_ns) e->looked_ns = 0;
    if (!f->is_there && f->was_there) {
        set(e, WATCH_DELETED, true, "the run directory is gone");
        e->status = YOKE_EDATA;
    } else if (!f->is_there) {
        yokei_text(text, sizeof text, "waiting, because %s is not there yet", f->folder);
        set(e, WATCH_WAITING, false, text);
    } else if (!f->history.n_rows && (is_locked || !f->has_records)) {
        yokei_text(text, sizeof text, "waiting for its first step%s%s%s", f->holder[0] ? " (" : "", f->holder,
                   f->holder[0] ? ")" : "");
        set(e, WATCH_WAITING, false, text);
    } else if (f->behind) {
        yokei_text(text, sizeof text, "reading the steps so far: %.0f %%", 100 * f->share_read);
        set(e, WATCH_RUNNING, false, text);
    } else if (!is_locked && !f->damaged_ns
               && (f->is_impatient || !f->has_grown || watch_quiet_seconds(f) >= 1))
        conclude_ended(f, e);
    else if (is_quiet)
        conclude_quiet(f, e);
    else
        set(e, WATCH_RUNNING, false, watch_all_steps(f) ? "all steps are done; the run ends" : "running");
}
