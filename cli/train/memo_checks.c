/* SPDX-License-Identifier: Apache-2.0 */
/* The drawn timeline of a design memo, and the commands by which a reader checks the memo. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/train/memo.h"
#include "cli/train/memo_measured.h"
#include "core/base/base.h"

enum { MOST_DRAWN = 8, WIDTH = 100 };

/* ---- the timeline ---- */

/* The times of a stage, in milliseconds. The drawing has the numbers of the text. */
static yoke_status round_costs(const struct yokei_stage_costs *x, int stage, struct cli_memo_timeline *t)
{
    struct yokei_stage_costs *c = &t->costs[stage];
    yokei_text(t->text[stage], sizeof t->text[stage], "%.6g,%.6g,%.6g,%.6g+%.6g,%.6g", 1e3 * x->F, 1e3 * x->B,
               1e3 * x->W, 1e3 * x->latency, 1e3 * x->transfer, 1e3 * x->R);
    return sscanf(t->text[stage], "%lf,%lf,%lf,%lf+%lf,%lf", &c->F, &c->B, &c->W, &c->latency, &c->transfer,
                  &c->R)
                   == 6
               ? YOKE_OK
               : yoke_fail(YOKE_EINTERNAL, "memo: the costs %s", t->text[stage]);
}

static int drawn_micro_batches(const struct yokei_layout *l, const struct yokei_prediction *p)
{
    const int64_t n = p->shares[0] / l->micro_batch;
    if (l->chunks > 1) return (int)YOKE_MIN(n, (int64_t)YOKE_MAX(MOST_DRAWN / l->pipeline, 1) * l->pipeline);
    return (int)YOKE_MIN(n, (int64_t)YOKE_MAX(MOST_DRAWN, l->pipeline));
}

/* Simulate the schedule with this number of micro-batches. */
static yoke_status simulate(const struct yokei_layout *l, const struct cli_memo_timeline *t,
                            int64_t n_micro_batches, struct cli_schedule *s)
{
    s->kind = yokei_pipeline_names[l->schedule];
    s->width = WIDTH;
    s->shape = (struct yokei_pipeline){ .kind = l->schedule,
                                        .n_stages = l->pipeline,
                                        .n_chunks = l->chunks,
                                        .n_micro_batches = (int)n_micro_batches,
                                        .recompute = t->recompute };
    YOKE_TRY(yokei_schedule_pipeline(&s->shape, &s->schedule));
    YOKE_TRY(yokei_costs_stages(l->pipeline, l->chunks, t->costs, true, &s->costs));
    return yokei_simulate(&s->schedule, &s->costs, &s->simulated);
}

static void free_schedule(struct cli_schedule *s)
{
    yokei_schedule_free(&s->schedule);
    yokei_costs_free(&s->costs);
    yokei_simulated_free(&s->simulated);
}

/* Why the drawing has another bubble than the step. */
static yoke_status put_bubbles(const struct yokei_ranked *best, const struct cli_memo_timeline *t, FILE *to)
{
    const struct yokei_layout *l = &best->layout;
    const int64_t n = best->prediction.shares[0] / l->micro_batch;
    struct cli_schedule whole = { 0 };
    yoke_status status = simulate(l, t, n, &whole);
    if (!status)
        fprintf(
            to,
            "\nWith all %lld micro-batches (--microbatches %lld) the bubble of these stages is %.2f %%. The "
            "bubble of *Choice*, %.1f %%, is the mean of the stages of all replicas, which may have other "
            "devices, shares and links%s.\n",
            (long long)n, (long long)n, 100 * whole.simulated.bubble, 100 * best->prediction.bubble,
            l->recompute ? ". There recomputation counts as work" : "");
    free_schedule(&whole);
    return status;
}

yoke_status cli_memo_timeline(const struct cli_searched *x, const struct yokei_search_config *config,
                              FILE *to, struct cli_memo_timeline *t)
{
    const struct yokei_ranked *best = &x->result->best[0];
    const struct yokei_layout *l = &best->layout;
    struct yokei_stage_costs stages[YOKEI_MOST_CUTS];
    yokei_predictor *predictor;
    YOKE_TRY(yokei_predictor_create(&config->predict, &predictor));
    yoke_status status = yokei_predict_stages(predictor, l, stages);
    yokei_predictor_destroy(predictor);
    for (int stage = 0; stage < l->pipeline && !status; stage++) {
        t->recompute[stage] = l->recompute > 0;
        status = round_costs(&stages[stage], stage, t);
    }
    YOKE_TRY(status);
    YOKE_TRY(simulate(l, t, drawn_micro_batches(l, &best->prediction), &t->drawn));
    fprintf(
        to,
        "\nThe passes of the first replica's stages, in ms, for %d of its %lld micro-batches, with the messages "
        "between the stages, and without the sums and the optimizer:\n\n```\n",
        t->drawn.shape.n_micro_batches, (long long)(best->prediction.shares[0] / l->micro_batch));
    YOKE_TRY(cli_schedule_ascii(&t->drawn, to));
    fputs("```\n", to);
    return put_bubbles(best, t, to);
}

void cli_memo_timeline_free(struct cli_memo_timeline *t) { free_schedule(&t->drawn); }

/* ---- the commands ---- */

static void put_options(FILE *to, const struct cli_options *o, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!cli_is_set(o, names[i])) continue;
        fprintf(to, " --%s ", names[i]);
        cli_put_word(cli_text(o, names[i]), to);
    }
}

yoke_status cli_memo_search_command(const struct cli_options *o, const struct cli_searched *x,
                                    const char *title, FILE *to)
{
    static const char *const names[] = { "cluster",         "model",
                                         "precision",       "batch",
                                         "sequence",        "memory-limit",
                                         "bucket-bytes",    "largest-bubble",
                                         "steps",           "goal-tokens",
                                         "goal-time",       "failure-rate",
                                         "checkpoint-time", "checkpoint-bandwidth",
                                         "restart-time",    "advice" };
    const bool measured = x->measured_seconds > 0;
    if (measured) YOKE_TRY(cli_memo_cluster_command(x->unlimited, to));
    fprintf(to, "\n%s:\n\n```\nyoke plan --search%s", title, measured ? " --cluster " CLI_MEMO_CLUSTER : "");
    put_options(to, o, names, YOKE_COUNT(names));
    fputs("\n```\n", to);
    return YOKE_OK;
}

void cli_memo_layout_command(const struct cli_options *o, const struct yokei_ranked *x, FILE *to)
{
    static const char *const names[] = { "model", "sequence", "bucket-bytes" };
    const struct yokei_layout *l = &x->layout;
    const struct yokei_prediction *p = &x->prediction;
    uint64_t most = 0;
    for (int i = 0; i < p->n_memory; i++) most = YOKE_MAX(most, p->memory[i].have);
    fprintf(to, "```\nyoke plan -n %d", p->n_ranks);
    put_options(to, o, names, YOKE_COUNT(names));
    fprintf(to, " --precision %s --batch %lld", yoke_dtype_name(x->precision), (long long)x->batch);
    fprintf(to, " --dp %d --pp %d --tp %d --micro-batch %lld", l->data, l->pipeline, l->tensor,
            (long long)l->micro_batch);
    for (int d = 0; d < p->n_shares && l->data > 1; d++)
        fprintf(to, "%s%lld", d ? ":" : " --shares ", (long long)p->shares[d]);
    if (l->pipeline > 1) {
        fprintf(to, " --schedule %s", yokei_pipeline_names[l->schedule]);
        if (l->chunks > 1) fprintf(to, " --chunks %d", l->chunks);
        for (int i = 0; i < l->pipeline * l->chunks; i++)
            fprintf(to, "%s%d", i ? "," : " --layers ", l->blocks[i]);
    }
    if (l->recompute) fprintf(to, " --recompute %s", yokei_recompute_words[l->recompute]);
    if (l->zero) fputs(" --zero 1", to);
    if (l->sequence_parallel) fputs(" --sequence-parallel", to);
    fprintf(to, " --memory-limit %llu\n```\n", (unsigned long long)most);
}

/* yoke plan makes each rank's program anew. */
static void memory_command(const struct cli_options *o, const struct cli_searched *x, FILE *to)
{
    const struct yokei_layout *l = &x->result->best[0].layout;
    fprintf(
        to,
        "\nThe memory of each rank (column DEVICE), which yoke plan computes from the layout alone. The stages "
        "follow one another in the order of the ranks, with %d ranks each:\n\n",
        l->data * l->tensor);
    cli_memo_layout_command(o, &x->result->best[0], to);
}

static void timeline_command(const struct cli_memo_timeline *t, FILE *to)
{
    const struct cli_schedule *s = &t->drawn;
    fputs(
        "\nThe timeline, from the times of the stages (F, B, W, latency + transfer of a message, R):\n\n```\nprintf '%s\\n'",
        to);
    for (int stage = 0; stage < s->shape.n_stages; stage++) fprintf(to, " %s", t->text[stage]);
    fprintf(
        to,
        " > memo-costs.csv\nyoke schedule show --kind %s --stages %d --microbatches %d --costs-file memo-costs.csv --receiver-takes",
        s->kind, s->shape.n_stages, s->shape.n_micro_batches);
    if (s->shape.n_chunks > 1) fprintf(to, " --chunks %d", s->shape.n_chunks);
    if (t->recompute[0]) fputs(" --recompute full", to);
    fputs("\n```\n", to);
}

/* The formulas of docs/PLANNING.md with this memo's numbers. */
static void goal_command(const struct cli_searched *x, const struct yokei_search_config *config, FILE *to)
{
    const struct yokei_prediction *p = &x->result->best[0].prediction;
    const struct cli_goal *g = x->goal;
    fprintf(to, "\nTokens/s%s, from the step time:\n\n```\nawk 'BEGIN { step = %.9g; printf \"%%.4g tokens/s",
            isfinite(p->utilisation) ? " and MFU" : "", p->step_seconds);
    if (isfinite(p->utilisation)) fputs(", MFU %.1f %%", to);
    fprintf(to, "\\n\", %lld / step", (long long)(x->result->best[0].batch * g->sequence));
    if (isfinite(p->utilisation))
        fprintf(to, ", 100 * %.9g / (step * %.9g)", config->predict.model_flops,
                config->predict.model_flops / (p->step_seconds * p->utilisation));
    fputs(" }'\n```\n", to);
    if (g->failures_per_day <= 0) return;
    struct yokei_goal goal;
    cli_goal_of(g, &x->result->best[0], &goal);
    fprintf(
        to,
        "\nThe interval of checkpoints, the effective time, the hours and the price, by the formulas of "
        "docs/PLANNING.md:\n\n```\n"
        "awk 'BEGIN { step = %.9g; M = 86400 / (%.9g * %d); d = %.9g; R = %.9g; x = d / (2 * M)\n"
        "  t = d < 2 * M ? sqrt(2 * d * M) * (1 + sqrt(x) / 3 + x / 9) - d : M\n"
        "  n = int(t / step + 0.5); if (n < 1) n = 1; t = n * step\n"
        "  e = t / (M * exp(R / M) * (exp((t + d) / M) - 1)); h = %.0f * step / e / 3600\n"
        "  printf \"%%d steps, effective %%.2f %%%%, %%.4g h, price %%.6g\\n\", n, 100 * e, h, h * %.9g }'\n```\n",
        p->step_seconds, g->failures_per_day, p->n_ranks, g->save, g->restart, goal.steps, p->price_per_hour);
}

static void speed_commands(const struct cli_searched *x, FILE *to)
{
    const struct yokei_layout *l = &x->result->best[0].layout;
    bool any = false;
    for (int i = 0; i < l->n_kinds; i++) {
        const struct yokei_device_kind *k = &x->cluster->kind[l->kind[i]];
        if (!k->device[0]) continue;
        fprintf(
            to, "%s",
            any ? ""
                : "\nThe speeds of matrix products of the devices of this machine (without --op and --size: of all operations):\n\n```\n");
        fprintf(to,
                "yoke bench kernels --device %s --op gemm --dtype %s --size micro --budget-seconds 0.02\n",
                k->device, yoke_dtype_name(x->result->best[0].precision));
        any = true;
    }
    if (any)
        fputs("```\n", to);
    else
        fputs(
            "\nThe cluster file names no device of this machine, so its speeds are claims of the file. On a "
            "machine with such a device, `yoke bench kernels --device NAME -o FILE.json` measures them, and "
            "`kernels: FILE.json` in the cluster file takes them.\n",
            to);
}

yoke_status cli_memo_checks(const struct cli_options *o, const struct cli_searched *x,
                            const struct yokei_search_config *config, const struct cli_memo_timeline *t,
                            FILE *to)
{
    fputs("\n## Checks\n\nThese commands compute the numbers of this memo again.\n", to);
    YOKE_TRY(cli_memo_search_command(
        o, x, "The search, with the numbers of *Choice*, *Goal*, *Alternatives*, *Limits* and *Memory*", to));
    memory_command(o, x, to);
    if (t) timeline_command(t, to);
    goal_command(x, config, to);
    speed_commands(x, to);
    return YOKE_OK;
}
