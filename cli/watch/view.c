/* SPDX-License-Identifier: Apache-2.0 */
/* The view of a run: what stands on which line, and what is left out where there is little room. */
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "cli/watch/watch.h"
#include "core/base/base.h"

enum { REAL = 32, UNLIMITED = 1 << 20, TALLEST_CURVE = 6, CURVE_SHARE = 8, TALL = 30 };

/* ---- words ---- */

static const char *real(double value, const char *format, char out[REAL])
{
    if (isfinite(value))
        snprintf(out, REAL, format, value);
    else
        yokei_text(out, REAL, "-");
    return out;
}

/* Tokens per second: five digits or more, and no exponent as long as a column of 9 has room. */
static const char *rate(double value, char out[REAL])
{
    return real(value, value >= 1e5 && value < 1e9 ? "%.0f" : "%.5g", out);
}

const char *watch_time(double seconds, char out[32])
{
    if (!isfinite(seconds) || seconds < 0 || seconds > 1e10) {
        yokei_text(out, 32, "unknown time");
        return out;
    }
    const int64_t s = (int64_t)(seconds + 0.5), days = s / 86400;
    if (days)
        yokei_text(out, 32, "%" PRId64 " d %02d:%02d:%02d", days, (int)(s / 3600 % 24), (int)(s / 60 % 60),
                   (int)(s % 60));
    else if (s >= 3600)
        yokei_text(out, 32, "%d:%02d:%02d", (int)(s / 3600), (int)(s / 60 % 60), (int)(s % 60));
    else
        yokei_text(out, 32, "%d:%02d", (int)(s / 60), (int)(s % 60));
    return out;
}

static void add(char *out, size_t bytes, const char *format, ...) YOKE_PRINTF(3, 4);
static void add(char *out, size_t bytes, const char *format, ...)
{
    const size_t used = strlen(out);
    va_list args;
    va_start(args, format);
    vsnprintf(out + used, bytes - used, format, args);
    va_end(args);
}

/* "step 12 of 200, 6.0 %, 0:31 left" */
static void progress_text(const struct watch_follower *f, char *out, size_t bytes)
{
    const struct watch_history *h = &f->history;
    char time[32];
    yokei_text(out, bytes, "step %" PRId64, h->last.step);
    if (f->has_plan && f->plan.steps > 0)
        add(out, bytes, " of %" PRId64 ", %.1f %%", f->plan.steps,
            100 * (double)h->last.step / (double)f->plan.steps);
    else if (f->has_plan && f->plan.budget_seconds > 0)
        add(out, bytes, ", %.1f %% of the time", fmin(100, 100 * h->last.seconds / f->plan.budget_seconds));
    if (!watch_all_steps(f)) add(out, bytes, ", %s left", watch_time(watch_seconds_left(f), time));
}

void watch_log_line(const struct watch_follower *f, char *out, size_t bytes)
{
    const struct watch_history *h = &f->history;
    char a[REAL], b[REAL];
    int64_t n;
    progress_text(f, out, bytes);
    add(out, bytes, ", loss %s (smoothed %s)", real(h->last.loss, "%.6g", a),
        real(watch_smoothed(h, &n), "%.6g", b));
    if (isfinite(h->validation_loss))
        add(out, bytes, ", validation loss %.6g at step %" PRId64, h->validation_loss, h->validation_step);
    add(out, bytes, ", %s tokens/s", rate(h->last.tokens_per_second, a));
    if (isfinite(h->last.mfu)) add(out, bytes, ", mfu %.3g %%", 100 * h->last.mfu);
    if (f->is_emulated) add(out, bytes, " (emulated, so no times)");
}

/* ---- the top ---- */

static void put_head(struct watch_view *view, const struct watch_follower *f, const struct watch_ending *e)
{
    const bool alarm = e->fate == WATCH_QUIET || e->fate == WATCH_FAILED || e->fate == WATCH_DELETED;
    char text[4400];
    yokei_text(text, sizeof text, "%s: %s%s", f->folder, e->fate == WATCH_FAILED ? "failed: " : "", e->text);
    watch_put_flow(view, alarm ? WATCH_ALARM : WATCH_BOLD, text);
    if (f->problem[0]) watch_put_flow(view, WATCH_ALARM, f->problem);
    if (f->plan_problem[0] && f->history.n_rows) watch_put_flow(view, WATCH_ALARM, f->plan_problem);
}

static void put_progress(struct watch_view *view, const struct watch_follower *f)
{
    char text[256], time[32];
    progress_text(f, text, sizeof text);
    add(text, sizeof text, ", %s so far", watch_time(f->history.last.seconds, time));
    watch_put_flow(view, WATCH_PLAIN, text);
}

static void put_losses(struct watch_view *view, const struct watch_history *h)
{
    char text[256], a[REAL], b[REAL];
    int64_t n;
    const double smooth = watch_smoothed(h, &n);
    yokei_text(text, sizeof text, "loss %s, smoothed %s (%" PRId64 " step%s)", real(h->last.loss, "%.6g", a),
               real(smooth, "%.6g", b), n, n == 1 ? "" : "s");
    if (isfinite(h->validation_loss))
        add(text, sizeof text, ", validation loss %.6g at step %" PRId64, h->validation_loss,
            h->validation_step);
    watch_put_flow(view, WATCH_PLAIN, text);
}

/* The scale of the curve. */
static void put_extremes(struct watch_view *view, const struct watch_history *h)
{
    double least = NAN, largest = NAN;
    for (int i = 0; i < h->n_buckets; i++) {
        if (!h->buckets[i].n_losses) continue;
        least = fmin(least, h->buckets[i].least), largest = fmax(largest, h->buckets[i].largest);
    }
    char text[200];
    yokei_text(text, sizeof text, "largest loss %.6g, least %.6g, %" PRId64 " step%s", largest, least,
               h->n_rows, h->n_rows == 1 ? "" : "s");
    if (isfinite(least)) watch_put_flow(view, WATCH_PLAIN, text);
}

static void put_speed(struct watch_view *view, const struct watch_history *h, bool is_emulated)
{
    char text[400], a[REAL], b[REAL], c[REAL], d[REAL];
    yokei_text(text, sizeof text, "%s tokens/s, mfu %s%s, %s s a step, learning rate %s, skipped %" PRId64,
               rate(h->last.tokens_per_second, a), real(100 * h->last.mfu, "%.3g", b),
               isfinite(h->last.mfu) ? " %" : "", real(watch_step_seconds(h), "%.3g", c),
               real(h->last.learning_rate, "%.4g", d), h->n_skipped);
    watch_put_flow(view, WATCH_PLAIN, text);
    if (is_emulated) watch_put_flow(view, WATCH_PLAIN, "devices are emulated, so these times are no times");
}

/* ---- ranks ---- */

static const char *const part_heads[YOKEI_N_STEP_PARTS] = {
    [YOKEI_STEP_COMPUTE] = "comp", [YOKEI_STEP_EXPOSED] = "comm", [YOKEI_STEP_BUBBLE] = "bubl",
    [YOKEI_STEP_WAIT] = "wait",    [YOKEI_STEP_DATA] = "data",    [YOKEI_STEP_CHECKPOINT] = "ckpt",
    [YOKEI_STEP_OTHER] = "othr"
};

/* The tables have more columns from these widths on. */
enum { DEVICE = 12, WITH_DEVICE = 52, WITH_SPEED = 62, WITH_PARTS = 76 };

static void put_rank_head(struct watch_view *view)
{
    char text[200] = "rank";
    if (view->columns >= WITH_DEVICE) add(text, sizeof text, " %-*s", DEVICE, "device");
    for (int p = 0; p < YOKEI_N_STEP_PARTS; p++) add(text, sizeof text, " %4s", part_heads[p]);
    if (view->columns >= WITH_SPEED) add(text, sizeof text, "  tokens/s");
    watch_put(view, WATCH_BOLD, "%s", text);
}

static void put_rank(struct watch_view *view, const struct watch_history *h, int64_t r)
{
    const struct watch_rank *rank = &h->ranks[r];
    char text[300], number[REAL];
    yokei_text(text, sizeof text, "%4" PRId64, r);
    if (view->columns >= WITH_DEVICE) add(text, sizeof text, " %-*.*s", DEVICE, DEVICE, rank->device);
    for (int p = 0; p < YOKEI_N_STEP_PARTS; p++)
        add(text, sizeof text, " %4s", real(100 * watch_share(rank, p), "%.0f", number));
    if (view->columns >= WITH_SPEED) add(text, sizeof text, " %9s", rate(rank->tokens_per_second, number));
    watch_put(view, WATCH_PLAIN, "%s", text);
}

/* Rows for a table with a head: as many as there is room for. The last one says how many are left out. */
static int64_t rows_of(int64_t n, int64_t room)
{
    if (n + 1 <= room) return n;
    return YOKE_MAX((int64_t)0, room - 2);
}

static void put_ranks(struct watch_view *view, const struct watch_history *h, int64_t room)
{
    const int64_t n = rows_of(h->n_ranks, room);
    if (!h->n_ranks || room < 3) return;
    put_rank_head(view);
    for (int64_t r = 0; r < n; r++) put_rank(view, h, r);
    if (n < h->n_ranks)
        watch_put(view, WATCH_PLAIN, "and %" PRId64 " more rank%s", h->n_ranks - n,
                  h->n_ranks - n == 1 ? "" : "s");
}

/* ---- memory ---- */

static const struct memory_part {
    const char *head;
    size_t offset;
} memory_parts[] = { { "weights", offsetof(struct yoke_memory_report, weights) },
                     { "grads", offsetof(struct yoke_memory_report, gradients) },
                     { "optim", offsetof(struct yoke_memory_report, optimizer) },
                     { "activ", offsetof(struct yoke_memory_report, activations) },
                     { "batch", offsetof(struct yoke_memory_report, workspace) },
                     { "scratch", offsetof(struct yoke_memory_report, scratch) } };

static void put_memory_of(struct watch_view *view, const struct yokei_plan *plan, int64_t r)
{
    const struct yoke_memory_report *m = &plan->memory[r];
    const int64_t limit = r < plan->n_ranks ? plan->ranks[r].memory_limit : 0;
    char text[300], number[REAL];
    yokei_text(text, sizeof text, "%4" PRId64, r);
    for (size_t p = 0; p < YOKE_COUNT(memory_parts) && view->columns >= WITH_PARTS; p++) {
        size_t bytes;
        memcpy(&bytes, (const char *)m + memory_parts[p].offset, sizeof bytes);
        add(text, sizeof text, " %7s", real((double)bytes / 0x1p20, "%.4g", number));
    }
    add(text, sizeof text, " %8s", real((double)m->total / 0x1p20, "%.5g", number));
    add(text, sizeof text, " %8s", real(limit > 0 ? (double)limit / 0x1p20 : NAN, "%.5g", number));
    add(text, sizeof text, " %5s",
        real(limit > 0 ? 100 * (double)m->total / (double)limit : NAN, "%.0f", number));
    watch_put(view, WATCH_PLAIN, "%s", text);
}

static void put_memory(struct watch_view *view, const struct watch_follower *f, int64_t room)
{
    const struct yokei_plan *plan = &f->plan;
    const int64_t n = rows_of(plan->n_memory, room);
    char text[200] = "rank";
    if (!f->has_plan || !plan->n_memory || room < 3) return;
    for (size_t p = 0; p < YOKE_COUNT(memory_parts) && view->columns >= WITH_PARTS; p++)
        add(text, sizeof text, " %7s", memory_parts[p].head);
    add(text, sizeof text, " %8s %8s %5s", "MiB", "limit", "%");
    watch_put(view, WATCH_BOLD, "%s", text);
    for (int64_t r = 0; r < n; r++) put_memory_of(view, plan, r);
    if (n < plan->n_memory)
        watch_put(view, WATCH_PLAIN, "and %" PRId64 " more rank%s", plan->n_memory - n,
                  plan->n_memory - n == 1 ? "" : "s");
}

/* ---- the whole view ---- */

static void put_events(struct watch_view *view, const struct watch_history *h, int64_t room)
{
    const int64_t most = YOKE_MIN(h->n_events, (int64_t)WATCH_EVENTS), n = YOKE_MIN(most, room);
    for (int64_t i = h->n_events - n; i < h->n_events; i++)
        watch_put(view, WATCH_PLAIN, "%s", h->events[i % WATCH_EVENTS].text);
}

static int64_t room_in(const struct watch_view *view)
{
    return (view->rows ? view->rows : UNLIMITED) - view->n;
}

/* An empty line between two parts, where the window is tall. */
static void put_gap(struct watch_view *view)
{
    if (!view->rows || view->rows >= TALL) watch_put(view, WATCH_PLAIN, "%s", "");
}

/*
 * The room that is left is divided: three events, the table of the times, the table of the memory, more
 * events. If there is too little for both tables, each of them has a half.
 */
static void put_tables(struct watch_view *view, const struct watch_follower *f)
{
    const struct watch_history *h = &f->history;
    const int64_t events = YOKE_MIN(h->n_events, (int64_t)3) + (view->rows && view->rows < TALL ? 0 : 3),
                  n_memory = f->has_plan ? f->plan.n_memory : 0, room = room_in(view) - events,
                  half = YOKE_MAX((room + 1) / 2, (int64_t)3);
    put_gap(view);
    put_ranks(view, h, n_memory && room < h->n_ranks + n_memory + 2 ? half : room);
    if (n_memory) put_gap(view);
    put_memory(view, f, room_in(view) - events);
    if (h->n_events) put_gap(view);
    put_events(view, h, room_in(view));
}

yoke_status watch_view_make(struct watch_view *view, const struct watch_follower *f,
                            const struct watch_ending *e)
{
    const struct watch_history *h = &f->history;
    const int curve = view->rows ? YOKE_MAX(1, YOKE_MIN(TALLEST_CURVE, view->rows / CURVE_SHARE)) : 4;
    put_head(view, f, e);
    if (h->n_rows) {
        put_progress(view, f);
        put_losses(view, h);
        watch_put_curve(view, h, curve);
        put_extremes(view, h);
        put_speed(view, h, f->is_emulated);
        put_tables(view, f);
    } else
        put_events(view, h, UNLIMITED);
    while (view->rows && view->n > view->rows) free(view->lines[--view->n].text);
    return view->no_memory ? yoke_fail(YOKE_ENOMEM, "yoke watch: no memory for the view") : YOKE_OK;
}
