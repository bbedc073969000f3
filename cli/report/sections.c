/* SPDX-License-Identifier: Apache-2.0 */
/* The sections that the pages of one run and of two runs have: times, memory, and what is missing. */
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

#include "cli/report/report.h"
#include "cli/report/svg.h"
#include "core/base/base.h"

enum { LABEL = 64, MOST_BARS = 32 };

static void label_of(int64_t rank, const char *device, char out[LABEL])
{
    yokei_text(out, LABEL, "rank %" PRId64 " %s", rank, device);
}

/* ---- time ---- */

void report_waiting_text(const struct report_run *r, char *out, size_t bytes)
{
    int64_t rank = -1;
    int part = 0;
    for (int64_t i = 0; i < r->n_ranks; i++)
        for (int p = 1; p < YOKEI_N_STEP_PARTS; p++) {
            const double share = report_share(&r->ranks[i], p);
            if (isnan(share) || (rank >= 0 && share <= report_share(&r->ranks[rank], part))) continue;
            rank = i, part = p;
        }
    if (rank < 0 || r->lacks_parts) {
        yokei_text(out, bytes,
                   "metrics.jsonl lacks times of the ranks, so their time is not wholly divided into parts.");
        return;
    }
    yokei_text(out, bytes,
               "Rank %" PRId64
               " (%s) computes for %.1f %% of its time; its largest other part is \"%s\" with %.1f %%.",
               rank, r->ranks[rank].device, 100 * report_share(&r->ranks[rank], YOKEI_STEP_COMPUTE),
               part == YOKEI_STEP_OTHER ? "all else" : yokei_step_part_names[part],
               100 * report_share(&r->ranks[rank], part));
}

static void shares_row(struct report_page *page, const char *rank, const char *device, const double *parts)
{
    report_row_begin(page);
    report_cell(page, rank);
    report_cell(page, device);
    for (int p = 0; p < YOKEI_N_STEP_PARTS; p++) report_number(page, parts[p], "%.4g");
    report_row_end(page);
}

static void shares_table(struct report_page *page, const struct report_run *r, const int64_t *chosen, int n)
{
    const char *heads[2 + YOKEI_N_STEP_PARTS] = { "rank", "device" };
    double mean[YOKEI_N_STEP_PARTS] = { 0 };
    char text[48];
    for (int p = 0; p < YOKEI_N_STEP_PARTS; p++) heads[2 + p] = yokei_step_part_names[p];
    report_paragraph(page, "The seconds of each rank by part:");
    report_table_begin(page, heads, (int)YOKE_COUNT(heads));
    for (int i = 0; i < n; i++) {
        yokei_text(text, sizeof text, "%" PRId64, chosen[i]);
        shares_row(page, text, r->ranks[chosen[i]].device, r->ranks[chosen[i]].parts);
    }
    for (int64_t i = 0; i < r->n_ranks; i++)
        for (int p = 0; p < YOKEI_N_STEP_PARTS; p++) mean[p] += r->ranks[i].parts[p] / (double)r->n_ranks;
    yokei_text(text, sizeof text, "mean of all %" PRId64, r->n_ranks);
    if (r->n_ranks > 1) shares_row(page, text, "", mean);
    report_table_end(page);
}

void report_shares(struct report_page *page, const struct report_run *r)
{
    char title[256], labels[MOST_BARS][LABEL];
    double shares[MOST_BARS][YOKEI_N_STEP_PARTS], *keys;
    struct svg_bar bars[MOST_BARS];
    int64_t chosen[REPORT_MOST_RANKS];
    if (!r->n_divided || !(keys = calloc((size_t)r->n_ranks, sizeof *keys))) return;
    for (int64_t i = 0; i < r->n_ranks; i++) keys[i] = r->ranks[i].parts[YOKEI_STEP_COMPUTE];
    const int n = report_choose(keys, r->n_ranks, MOST_BARS, chosen);
    free(keys);
    report_heading(page, "Time of each rank");
    report_waiting_text(r, title, sizeof title);
    for (int i = 0; i < n; i++) {
        const struct report_rank *rank = &r->ranks[chosen[i]];
        label_of(chosen[i], rank->device, labels[i]);
        for (int p = 0; p < YOKEI_N_STEP_PARTS; p++) shares[i][p] = 100 * report_share(rank, p);
        bars[i] = (struct svg_bar){ labels[i], shares[i], NAN };
    }
    report_chosen_text(page, n, r->n_ranks, "that compute");
    svg_bars(page, &(struct svg_bars){ .title = title,
                                       .unit = "% of the rank's time",
                                       .names = yokei_step_part_names,
                                       .n_parts = YOKEI_N_STEP_PARTS,
                                       .bars = bars,
                                       .n_bars = n,
                                       .most = 100 });
    shares_table(page, r, chosen, n);
    report_list_begin(page);
    for (int p = 0; p < YOKEI_N_STEP_PARTS; p++)
        report_item(page, "%s: %s", yokei_step_part_names[p], yokei_step_part_words[p]);
    report_list_end(page);
}

/* ---- memory ---- */

#define MEMORY_PARTS(P)       \
    P(weights, "weights")     \
    P(gradients, "gradients") \
    P(optimizer, "optimizer") P(activations, "activations") P(workspace, "batch") P(scratch, "scratch")
#define NAME(member, name) name,
#define OFFSET(member, name) offsetof(struct yoke_memory_report, member),
static const char *const memory_names[] = { MEMORY_PARTS(NAME) };
static const size_t memory_offsets[] = { MEMORY_PARTS(OFFSET) };
enum { N_MEMORY = YOKE_COUNT(memory_names) };

static double memory_of(const struct yoke_memory_report *report, int part)
{
    return (double)*(const size_t *)(const void *)((const char *)report + memory_offsets[part]);
}

static double limit_of(const struct yokei_plan *plan, int64_t rank)
{
    const int64_t limit = rank < plan->n_ranks ? plan->ranks[rank].memory_limit : 0;
    return limit > 0 ? (double)limit : NAN;
}

static const char *device_of(const struct yokei_plan *plan, int64_t rank)
{
    return rank < plan->n_ranks ? plan->ranks[rank].device : "";
}

static void memory_table(struct report_page *page, const struct yokei_plan *plan, const int64_t *chosen,
                         int n)
{
    const char *heads[5 + N_MEMORY] = { "rank", "device" };
    for (int p = 0; p < N_MEMORY; p++) heads[2 + p] = memory_names[p];
    heads[2 + N_MEMORY] = "all", heads[3 + N_MEMORY] = "limit", heads[4 + N_MEMORY] = "% of the limit";
    report_paragraph(page, "The memory in MiB (2^20 bytes):");
    report_table_begin(page, heads, (int)YOKE_COUNT(heads));
    for (int k = 0; k < n; k++) {
        const int64_t i = chosen[k];
        const double total = (double)plan->memory[i].total;
        report_row_begin(page);
        report_number(page, (double)i, "%.0f");
        report_cell(page, device_of(plan, i));
        for (int p = 0; p < N_MEMORY; p++)
            report_number(page, memory_of(&plan->memory[i], p) / 0x1p20, "%.4g");
        report_number(page, total / 0x1p20, "%.4g");
        report_number(page, limit_of(plan, i) / 0x1p20, "%.6g");
        report_number(page, 100 * total / limit_of(plan, i), "%.3g");
        report_row_end(page);
    }
    report_table_end(page);
}

/* A limit far above the need has no mark, because it would make the bars too short to read. */
static bool is_marked(const struct yokei_plan *plan, int64_t rank, int64_t largest)
{
    return limit_of(plan, rank) <= 4 * (double)plan->memory[largest].total;
}

/* Say what the marks are, and where the limits are that have no mark. */
static void memory_limits(struct report_page *page, const struct yokei_plan *plan, const int64_t *chosen,
                          int n, int64_t largest)
{
    int n_limits = 0, n_marked = 0;
    for (int k = 0; k < n; k++) {
        n_limits += !isnan(limit_of(plan, chosen[k]));
        n_marked += is_marked(plan, chosen[k], largest);
    }
    if (n_limits)
        report_paragraph(page, "%s: the memory that was given, or that was free at the start.%s",
                         n_marked ? "A black or white mark is the limit of a rank"
                                  : "The table below also has the limit of each rank",
                         n_marked < n_limits ? " The chart does not show limits above four times the largest "
                                               "need."
                                             : "");
}

/* The drawing of the chosen ranks. */
static void memory_bars(struct report_page *page, const struct yokei_plan *plan, const int64_t *chosen, int n,
                        int64_t largest)
{
    char title[256], labels[MOST_BARS][LABEL], part[64] = "";
    double parts[MOST_BARS][N_MEMORY];
    struct svg_bar bars[MOST_BARS];
    if (!isnan(limit_of(plan, largest)))
        yokei_text(part, sizeof part, ", %.3g %% of its limit",
                   100 * (double)plan->memory[largest].total / limit_of(plan, largest));
    yokei_text(title, sizeof title, "Rank %" PRId64 " (%s) needs the most memory: %.4g MiB%s.", largest,
               device_of(plan, largest), (double)plan->memory[largest].total / 0x1p20, part);
    for (int k = 0; k < n; k++) {
        const int64_t i = chosen[k];
        label_of(i, device_of(plan, i), labels[k]);
        for (int p = 0; p < N_MEMORY; p++) parts[k][p] = memory_of(&plan->memory[i], p) / 0x1p20;
        bars[k] = (struct svg_bar){ labels[k], parts[k],
                                    is_marked(plan, i, largest) ? limit_of(plan, i) / 0x1p20 : NAN };
    }
    svg_bars(page, &(struct svg_bars){ .title = title,
                                       .unit = "MiB",
                                       .names = memory_names,
                                       .n_parts = N_MEMORY,
                                       .bars = bars,
                                       .n_bars = n });
}

void report_memory(struct report_page *page, const struct report_run *r)
{
    const struct yokei_plan *plan = &r->run->plan;
    int64_t largest = 0, chosen[REPORT_MOST_RANKS];
    double *totals;
    if (!r->run->has_plan || !plan->n_memory || !(totals = calloc((size_t)plan->n_memory, sizeof *totals)))
        return;
    for (int64_t i = 0; i < plan->n_memory; i++) {
        totals[i] = (double)plan->memory[i].total;
        if (plan->memory[i].total > plan->memory[largest].total) largest = i;
    }
    const int n = report_choose(totals, plan->n_memory, MOST_BARS, chosen);
    free(totals);
    report_heading(page, "Memory of each rank");
    report_chosen_text(page, n, plan->n_memory, "that need");
    memory_bars(page, plan, chosen, n, largest);
    memory_limits(page, plan, chosen, n, largest);
    memory_table(page, plan, chosen, n);
}

/* ---- what is missing ---- */

void report_missing_item(struct report_page *page, int *n, const char *text)
{
    if (!(*n)++) {
        report_heading(page, "What is missing");
        report_list_begin(page);
    }
    report_item(page, "%s", text);
}

/* An item that names no file. On a page of two runs it says which run lacks it. */
static void missing_of(struct report_page *page, const struct report_run *r, int *n, const char *what)
{
    char text[400];
    yokei_text(text, sizeof text, "%s%s%s", r->side ? r->side : "", r->side ? " run: " : "", what);
    report_missing_item(page, n, text);
}

void report_missing(struct report_page *page, const struct report_run *r, int *n)
{
    const struct compare_run *run = r->run;
    char text[5000];
    if (run->plan_problem[0]) report_missing_item(page, n, run->plan_problem);
    if (run->metrics_problem[0]) report_missing_item(page, n, run->metrics_problem);
    if (run->metrics.cut) {
        yokei_text(
            text, sizeof text,
            "%s/metrics.jsonl: the last line is cut, because the run was killed or still runs; it is left "
            "out",
            run->folder);
        report_missing_item(page, n, text);
    }
    if (run->has_plan && !run->plan.n_memory) missing_of(page, r, n, "plan.json has no memory of the ranks");
    if (run->metrics.n && r->lacks_parts)
        missing_of(
            page, r, n,
            "rows of metrics.jsonl lack busy_seconds, data_seconds or checkpoint_seconds; the part \"other\" "
            "has this time");
    if (run->metrics.n && !r->n_divided)
        missing_of(page, r, n, "metrics.jsonl has no times of ranks, so there is no time by part");
    if (run->metrics.n && isnan(run->validation_loss))
        missing_of(page, r, n, "no validation loss was measured during the run (--evaluate-every)");
    if (run->metrics.n && isnan(report_median(r->mfu, run->metrics.n)))
        missing_of(page, r, n, "no peak of the devices was measured (--peak), so there is no mfu");
}
