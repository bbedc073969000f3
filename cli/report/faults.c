/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/faults.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <yoke/comm.h>

#include "cli/report/lanes.h"
#include "core/base/base.h"

enum { MOST_LANES = 32, LAST_OF_RANK = 8, LAST_EVENTS = 20 };

/* ---- reading ---- */

static bool is_fault(enum yokei_fate fate)
{
    return fate == YOKEI_FATE_FAILED || fate == YOKEI_FATE_DEAD || fate == YOKEI_FATE_KILLED
           || fate == YOKEI_FATE_GONE || fate == YOKEI_FATE_STOPPED;
}

yoke_status report_faults_read(const char *folder, struct report_faults *out)
{
    *out = (struct report_faults){ .are_there = false };
    const yoke_status status = cli_trace_read(folder, &out->trace);
    const struct cli_trace *t = &out->trace;
    if (status == YOKE_ENOMEM) return status;
    out->are_there = !status;
    if (status && t->n > 0) yokei_text(out->problem, sizeof out->problem, "%s", yoke_last_error());
    for (int r = 0; r < t->n && t->problems; r++) {
        if (!t->problems[r][0]) continue;
        if (!out->n_unreadable++) yokei_text(out->problem, sizeof out->problem, "%s", t->problems[r]);
    }
    for (int r = 0; r < t->n && !status; r++)
        out->failed = out->failed || is_fault(t->fates[r]) || yokei_was_lost(&t->lost, r);
    return YOKE_OK;
}

void report_faults_free(struct report_faults *faults) { cli_trace_free(&faults->trace); }

void report_faults_text(const struct report_faults *f, char *out, size_t bytes)
{
    const struct cli_trace *t = &f->trace;
    int n_ended = 0, n_running = 0;
    if (f->failed) {
        cli_trace_blame_text(t, out, bytes);
        return;
    }
    for (int r = 0; r < t->n; r++) {
        n_ended += t->fates[r] == YOKEI_FATE_ENDED;
        n_running += t->fates[r] == YOKEI_FATE_RUNNING;
    }
    if (n_running)
        yokei_text(out, bytes, "no rank has failed: %d of %d ranks still run", n_running, t->n);
    else if (n_ended == t->n)
        yokei_text(out, bytes, "no rank failed: all %d ranks ended in order", t->n);
    else
        yokei_text(out, bytes, "no rank is known to have failed: %d of %d ranks ended in order", n_ended,
                   t->n);
}

/* ---- the chart: the last operations of each rank ---- */

#define FAULT_KINDS(K)                               \
    K(DONE, "operation that ended", 0, 15, 50, 0)    \
    K(FAILED, "operation that failed", 3, 0, 100, 0) \
    K(OPEN, "operation that did not end", 1, 40, 60, 0)
#define FAULT_KIND(id, ...) FAULT_##id,
#define FAULT_ROW(id, name, ...) { name, __VA_ARGS__ },
enum fault_kind { FAULT_KINDS(FAULT_KIND) N_FAULT_KINDS };
static const struct lane_kind fault_kinds[N_FAULT_KINDS] = { FAULT_KINDS(FAULT_ROW) };

static double end_of(const struct cli_trace *t, int r, const struct yokei_flight_entry *e)
{
    const uint64_t end = e->end_ns ? e->end_ns : YOKE_MAX(yokei_last_activity(t->files[r]), e->start_ns);
    return cli_trace_seconds(t, r, end);
}

static bool has_fault(const struct cli_trace *t, int r)
{
    return t->files[r] && (r == t->blame.rank || is_fault(t->fates[r]));
}

/*
 * Choose at most MOST_LANES ranks, and write them in ascending order. The ranks that failed, or that are to
 * blame, are preferred. The other ranks get the lanes that are left.
 */
static int choose(const struct cli_trace *t, int64_t *chosen)
{
    int n = 0, n_faults = 0;
    for (int r = 0; r < t->n; r++) n_faults += has_fault(t, r);
    int left = YOKE_MAX(MOST_LANES - n_faults, 0);
    for (int r = 0; r < t->n && n < MOST_LANES; r++) {
        if (!t->files[r] || (!has_fault(t, r) && left-- <= 0)) continue;
        chosen[n++] = r;
    }
    return n;
}

/* The time from which on the chart shows all ranks: when the earliest of their last operations began. */
static double chart_begin(const struct cli_trace *t, const int64_t *chosen, int n)
{
    double begin = INFINITY;
    for (int i = 0; i < n; i++)
        for (uint64_t k = 0; k < LAST_OF_RANK; k++) {
            const struct yokei_flight_entry *e = yokei_flight_operation(t->files[chosen[i]], k);
            if (e) begin = fmin(begin, cli_trace_seconds(t, (int)chosen[i], e->start_ns));
        }
    return begin;
}

static yoke_status fill_lane(const struct cli_trace *t, int r, double begin, struct lane *lane)
{
    yokei_text(lane->label, sizeof lane->label, "rank %d", r);
    lane->mark = is_fault(t->fates[r]) ? cli_trace_seconds(t, r, yokei_last_activity(t->files[r])) - begin
                                       : NAN;
    for (uint64_t k = YOKEI_FLIGHT_ENTRIES; k-- > 0;) {
        const struct yokei_flight_entry *e = yokei_flight_operation(t->files[r], k);
        if (!e) continue;
        const int waits_for = atomic_load(&e->waits_for);
        char waits[32] = "";
        struct lane_box box = { cli_trace_seconds(t, r, e->start_ns) - begin, end_of(t, r, e) - begin,
                                e->status    ? FAULT_FAILED
                                : !e->end_ns ? FAULT_OPEN
                                             : FAULT_DONE,
                                1, "" };
        if (!(box.end >= 0) || !(box.end >= box.begin)) continue;
        if (waits_for >= 0 && waits_for < t->n)
            yokei_text(waits, sizeof waits, ", waits for rank %d", waits_for);
        yokei_text(box.text, sizeof box.text, "%s #%u%s", yokei_kind_name(e->kind), e->sequence, waits);
        box.begin = fmax(box.begin, 0);
        YOKE_TRY(lane_add(lane, &box));
    }
    return YOKE_OK;
}

static void put_chart(struct report_page *page, const struct report_faults *f, const int64_t *chosen, int n)
{
    const struct cli_trace *t = &f->trace;
    struct lane *lanes = calloc((size_t)YOKE_MAX(n, 1), sizeof *lanes);
    const double begin = chart_begin(t, chosen, n);
    char title[400], unit[64];
    double end = 0;
    int waiting = 0;
    if (!lanes || !isfinite(begin)) {
        free(lanes);
        return;
    }
    for (int i = 0; i < n; i++) {
        if (fill_lane(t, (int)chosen[i], begin, &lanes[i])) break;
        for (size_t b = 0; b < lanes[i].n; b++) end = fmax(end, lanes[i].boxes[b].end);
        if (isfinite(lanes[i].mark)) end = fmax(end, lanes[i].mark);
    }
    for (int r = 0; r < t->n; r++) waiting += cli_trace_waits_for(t, r) >= 0;
    if (t->blame.rank >= 0)
        yokei_text(title, sizeof title,
                   "Rank %d is to blame for the end; %d of %d ranks waited for another rank.", t->blame.rank,
                   waiting, t->n);
    else
        yokei_text(title, sizeof title, "%d of %d ranks waited for another rank at the end.", waiting, t->n);
    yokei_text(unit, sizeof unit, "seconds, from %.6g s of the records on", begin);
    lanes_chart(page, &(struct lanes){ .title = title,
                                       .description = "A row for each rank. A box is an operation of a "
                                                      "communicator. The tables below say which.",
                                       .unit = unit,
                                       .lanes = lanes,
                                       .n = n,
                                       .kinds = fault_kinds,
                                       .n_kinds = N_FAULT_KINDS,
                                       .end = end,
                                       .mark = "the last sign of a rank that failed" });
    for (int i = 0; i < n; i++) lane_free(&lanes[i]);
    free(lanes);
}

/* ---- the tables ---- */

static void put_ranks(struct report_page *page, const struct cli_trace *t, const int64_t *chosen, int n)
{
    static const char *const heads[] = {
        "rank",           "host",         "device",    "what became of it",      "what it did",
        "waits for rank", "last sign, s", "waited, s", "others waited for it, s"
    };
    report_table_begin(page, heads, (int)YOKE_COUNT(heads));
    for (int i = 0; i < n; i++) {
        const int r = (int)chosen[i], waits_for = cli_trace_waits_for(t, r);
        const struct yokei_flight_file *f = t->files[r];
        char fate[160], doing[256];
        cli_trace_fate_text(t, r, fate, sizeof fate);
        cli_trace_doing(t, r, doing, sizeof doing);
        report_row_begin(page);
        report_number(page, r, "%.0f");
        report_cell(page, f->host);
        report_cell(page, f->device);
        report_cell(page, fate);
        report_cell(page, doing);
        report_number(page, waits_for >= 0 ? waits_for : NAN, "%.0f");
        report_number(page, cli_trace_seconds(t, r, yokei_last_activity(f)), "%.6f");
        report_number(page, t->shares[r].waited, "%.6f");
        report_number(page, t->shares[r].caused, "%.6f");
        report_row_end(page);
    }
    report_table_end(page);
}

/* "Rank 0 waits for rank 1, which waits for rank 2", for each rank that waits. A circle ends at its begin. */
static void put_chains(struct report_page *page, const struct cli_trace *t, const int64_t *chosen, int n)
{
    bool any = false;
    for (int i = 0; i < n; i++) {
        char text[512];
        int at = (int)chosen[i], next = cli_trace_waits_for(t, at);
        if (next < 0) continue;
        if (!any) report_list_begin(page);
        any = true;
        yokei_text(text, sizeof text, "Rank %d waits for rank %d", at, next);
        for (int hops = 1; hops < 8 && hops < t->n; hops++) {
            const size_t used = strlen(text);
            next = cli_trace_waits_for(t, next);
            if (next < 0) break;
            yokei_text(text + used, sizeof text - used, ", which waits for rank %d", next);
            if (next == at) break;
        }
        report_item(page, "%s.", text);
    }
    if (any) report_list_end(page);
}

static void put_errors(struct report_page *page, const struct cli_trace *t, const int64_t *chosen, int n)
{
    bool any = false;
    for (int i = 0; i < n; i++) {
        if (t->fates[chosen[i]] != YOKEI_FATE_FAILED) continue;
        if (!any) report_list_begin(page);
        any = true;
        report_item(page, "Rank %" PRId64 ": %.1023s", chosen[i], t->files[chosen[i]]->error);
    }
    if (any) report_list_end(page);
}

struct last {
    int rank;
    const struct yokei_flight_entry *entry;
    double begin;
};

static int by_begin(const void *a, const void *b)
{
    const struct last *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? 1 : -1;
    return x->rank - y->rank;
}

static void put_events(struct report_page *page, const struct cli_trace *t, const int64_t *chosen, int n)
{
    static const char *const heads[] = { "began, s", "rank",       "operation", "communicator",   "algorithm",
                                         "took, s",  "steps done", "bytes",     "waits for rank", "result" };
    struct last *last = calloc((size_t)n * LAST_OF_RANK, sizeof *last);
    int count = 0;
    for (int i = 0; i < n && last; i++)
        for (uint64_t k = 0; k < LAST_OF_RANK; k++) {
            const int r = (int)chosen[i];
            const struct yokei_flight_entry *e = yokei_flight_operation(t->files[r], k);
            if (e) last[count++] = (struct last){ r, e, cli_trace_seconds(t, r, e->start_ns) };
        }
    if (!count) {
        free(last);
        return;
    }
    qsort(last, (size_t)count, sizeof *last, by_begin);
    report_paragraph(page, "The last operations, the newest first:");
    report_table_begin(page, heads, (int)YOKE_COUNT(heads));
    for (int i = 0; i < YOKE_MIN(count, LAST_EVENTS); i++) {
        const struct yokei_flight_entry *e = last[i].entry;
        const int r = last[i].rank, waits_for = atomic_load(&e->waits_for);
        char name[96];
        yokei_text(name, sizeof name, "%s #%u", yokei_kind_name(e->kind), e->sequence);
        report_row_begin(page);
        report_number(page, last[i].begin, "%.6f");
        report_number(page, r, "%.0f");
        report_cell(page, name);
        report_cell(page, cli_trace_comm_name(t->files[r], e->comm));
        report_cell(page, yokei_algorithm_name(e->algorithm));
        report_number(page, end_of(t, r, e) - last[i].begin, "%.6f");
        report_number(page, e->step, "%.0f");
        report_number(page, cli_trace_bytes(e), "%.0f");
        report_number(page, waits_for >= 0 && waits_for < t->n ? waits_for : NAN, "%.0f");
        report_cell(page, e->status    ? yoke_status_name((yoke_status)e->status)
                          : !e->end_ns ? "not ended"
                                       : "ended");
        report_row_end(page);
    }
    report_table_end(page);
    free(last);
}

void report_faults_section(struct report_page *page, const struct report_faults *f, int64_t n_ranks)
{
    const struct cli_trace *t = &f->trace;
    char text[4700];
    int64_t chosen[MOST_LANES];
    if (!f->are_there && n_ranks < 2) return;
    report_heading(page, "Faults");
    if (!f->are_there) {
        report_paragraph(page,
                         "There is no flight record to read, so it is not known whether a rank failed.");
        return;
    }
    report_faults_text(f, text, sizeof text);
    report_paragraph(page, "By the flight records, %s.", text);
    if (!f->failed) return;
    const int n = choose(t, chosen);
    int n_there = 0;
    for (int r = 0; r < t->n; r++) n_there += t->files[r] != NULL;
    if (n < n_there)
        report_paragraph(page,
                         "The page shows %d of %d ranks: first those that failed. The others are left out.",
                         n, n_there);
    put_chains(page, t, chosen, n);
    put_errors(page, t, chosen, n);
    put_chart(page, f, chosen, n);
    put_ranks(page, t, chosen, n);
    put_events(page, t, chosen, n);
    report_paragraph(page, "All times begin with the first operation in the records. yoke trace shows more.");
}
