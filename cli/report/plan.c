/* SPDX-License-Identifier: Apache-2.0 */
/* The page of a plan: what yoke plan, or a run, has planned. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cli/report/planned.h"
#include "cli/report/record.h"
#include "cli/report/report.h"
#include "cli/train/plan_source.h"
#include "core/base/base.h"

static void say_layout(struct report_page *page, const struct yokei_plan *p)
{
    int64_t n_used = 0;
    char left_out[96] = "", length[96];
    for (int64_t r = 0; r < p->n_ranks; r++) n_used += p->ranks[r].samples > 0;
    if (n_used < p->n_ranks)
        yokei_text(left_out, sizeof left_out, "; %" PRId64 " of %" PRId64 " ranks get no work",
                   p->n_ranks - n_used, p->n_ranks);
    report_item(page,
                "The step is divided among %" PRId64 " ranks: dp %" PRId64 " (replicas), pp %" PRId64
                " (pipeline stages), tp %s%.0" PRId64 " (ranks for the tensors of a stage)%s.",
                n_used, YOKE_MAX(p->data, 1), YOKE_MAX(p->pipeline, 1), p->stage_tensor,
                p->stage_tensor[0] ? 0 : YOKE_MAX(p->tensor, 1), left_out);
    if (p->steps)
        yokei_text(length, sizeof length, "%" PRId64 " steps", p->steps);
    else
        yokei_text(length, sizeof length, "%.6g s", p->budget_seconds);
    report_item(page, "A step has %" PRId64 " sequences of %" PRId64 " tokens in %s. The run takes %s.",
                p->batch, p->sequence, p->precision, length);
}

static void say_memory(struct report_page *page, const struct compare_run *run)
{
    const struct yokei_plan *p = &run->plan;
    int64_t largest = 0, n_above = 0, n_limits = 0;
    if (!p->n_memory) return;
    for (int64_t r = 0; r < p->n_memory; r++) {
        const int64_t limit = r < p->n_ranks ? p->ranks[r].memory_limit : 0;
        if (p->memory[r].total > p->memory[largest].total) largest = r;
        n_limits += limit > 0;
        n_above += limit > 0 && (double)p->memory[r].total > (double)limit;
    }
    report_item(page, "Rank %" PRId64 " needs the most memory, %.5g MiB. All ranks need %.5g MiB.", largest,
                (double)p->memory[largest].total / 0x1p20, run->memory / 0x1p20);
    if (n_above)
        report_item(page, "%" PRId64 " ranks need more memory than their limit.", n_above);
    else if (n_limits == p->n_memory)
        report_item(page, "Each rank needs less memory than its limit.");
}

static void put_page(struct report_page *page, const struct report_run *r, const char *path, const char *why)
{
    const struct yokei_plan *p = &r->run->plan;
    const struct report_record none = { NULL, "" };
    char title[4300];
    int n = 0;
    yokei_text(title, sizeof title, "Plan %s", path);
    report_begin(page, title);
    report_heading(page, "Result");
    report_list_begin(page);
    say_layout(page, p);
    if (p->predicted_step_seconds > 0)
        report_item(page, "A step is predicted to take %.5g s.", p->predicted_step_seconds);
    if (p->measured_step_seconds > 0)
        report_item(page, "A step took %.5g s in the run of this plan.", p->measured_step_seconds);
    say_memory(page, r->run);
    if (why[0]) report_item(page, "The run does not fit into memory: %s", why);
    report_list_end(page);
    report_memory(page, r);
    report_schedule_section(page, p);
    report_planned_section(page, p);
    report_start_section(page, p, path);
    report_environment_section(page, r, &none);
    if (!p->n_memory) report_missing_item(page, &n, "the plan has no memory of the ranks");
    if (!(p->predicted_step_seconds > 0))
        report_missing_item(page, &n,
                            "the plan has no predicted time of a step, because nothing was measured for it");
    if (n) report_list_end(page);
    report_end(page);
}

static void show_plan(struct report_page *page, struct compare_run *run, const char *path, const char *why)
{
    const struct report_run r = { .run = run, .last_seconds = NAN };
    run->has_plan = true;
    for (int64_t i = 0; i < run->plan.n_memory; i++) run->memory += (double)run->plan.memory[i].total;
    put_page(page, &r, path, why);
    compare_run_free(run);
}

yoke_status report_of_plan(struct report_page *page, const char *path)
{
    struct compare_run run = { .folder = path, .plan = YOKEI_PLAN_INIT };
    const yoke_status status = yokei_plan_read(path, &run.plan);
    if (status)
        return yoke_fail(status == YOKE_ECONFIG ? YOKE_EDATA : status, "%s; there is no plan to show",
                         yoke_last_error());
    show_plan(page, &run, path, "");
    return YOKE_OK;
}

yoke_status report_of_config(struct report_page *page, const char *path)
{
    struct compare_run run = { .folder = path };
    char why[4096];
    YOKE_TRY(cli_plan_of_config(path, &run.plan, why, sizeof why));
    show_plan(page, &run, path, why);
    return YOKE_OK;
}
