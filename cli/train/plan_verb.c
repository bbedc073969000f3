/* SPDX-License-Identifier: Apache-2.0 */
/* yoke plan: lay out a training run of many ranks without starting the ranks. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/train/plan_search.h"
#include "cli/train/plan_source.h"
#include "cli/train/search_choices.h"
#include "core/base/base.h"
#include "train/run/forecast.h"
#include "cli/options/json_values.h"

enum { MOST_DEVICES = 64 };

/* The devices of the ranks in turn. A device that is named twice is opened once. */
struct devices {
    int n, n_opened;
    yoke_device *of[MOST_DEVICES], *opened[MOST_DEVICES];
};

static yoke_status open_devices(const struct cli_options *o, int n_ranks, struct devices *d)
{
    char name[64];
    const int n_named = cli_list_count(o, "devices");
    if (n_named > n_ranks)
        return yoke_fail(
            YOKE_EINVAL,
            "yoke plan: --devices names %d devices for %d ranks; raise --ranks or shorten the list", n_named,
            n_ranks);
    d->n = YOKE_MAX(n_named, 1);
    if (d->n > MOST_DEVICES)
        return yoke_fail(YOKE_EINVAL,
                         "yoke plan: --devices has %d entries; at most %d are taken, and repeated", d->n,
                         MOST_DEVICES);
    for (int i = 0; i < d->n; i++) {
        yokei_text(name, sizeof name, "host");
        if (cli_list_count(o, "devices")) cli_list_item(o, "devices", i, name, sizeof name);
        for (int j = 0; j < d->n_opened && !d->of[i]; j++)
            if (!strcmp(yoke_device_info(d->opened[j])->spec, name)) d->of[i] = d->opened[j];
        if (d->of[i]) continue;
        YOKE_TRY(yoke_device_open(name, NULL, &d->opened[d->n_opened]));
        d->of[i] = d->opened[d->n_opened++];
    }
    return YOKE_OK;
}

static yoke_status read_forecast_costs(const char *text, struct yokei_forecast_costs *costs)
{
    double x[4] = { 1, 1, 1, 0 };
    int n = 0;
    for (const char *at = text; at && *at; n++) {
        char *end;
        const double value = strtod(at, &end);
        if (end == at || n == 4 || !(value >= 0) || !isfinite(value) || (*end && *end != ',')) {
            n = 0;
            break;
        }
        x[n] = value;
        at = *end ? end + 1 : end;
    }
    if (text && (n < 3 || !(x[0] + x[1] + x[2] > 0)))
        return yoke_fail(
            YOKE_EINVAL,
            "yoke plan: --costs %s: write F,B,W[,HOP], times that are not all 0, such as 18.5,18,9.3,0.6",
            text);
    *costs = (struct yokei_forecast_costs){ x[0], x[1], x[2], x[3] };
    return YOKE_OK;
}

/* ---- what is shown ---- */

static double sum_over_ranks(const struct yokei_forecast *f, size_t offset)
{
    double sum = 0;
    for (int r = 0; r < f->n_ranks; r++)
        sum += *(const double *)(const void *)((const char *)&f->rank[r] + offset);
    return sum;
}
#define SUM(f, member) sum_over_ranks(f, offsetof(struct yokei_forecast_rank, member))

static yoke_status forecast_json(const struct yokei_training *t, const struct yokei_forecast *f)
{
    json_t *ranks = json_array(), *widths = json_array();
    for (int s = 0; s < f->mesh.pipeline; s++)
        json_array_append_new(widths, json_integer(yokei_mesh_width(&f->mesh, s)));
    for (int r = 0; r < f->n_ranks; r++) {
        const struct yokei_forecast_rank *k = &f->rank[r];
        const struct yokei_memory_rank *m = &f->memory[r];
        json_array_append_new(
            ranks,
            json_pack("{s:i, s:s, s:i, s:i, s:i, s:s, s:i, s:I, s:I, s:I, s:i, s:f, s:f, s:o, s:I}", "rank",
                      r, "device", m->device, "stage", k->at.s, "replica", k->at.d, "tensor", k->at.t,
                      "layers", k->layers, "n_layers", k->n_layers, "parameters", (json_int_t)k->n_elements,
                      "samples", (json_int_t)k->samples, "micro_batch", (json_int_t)k->micro_batch,
                      "micro_batches", k->n_micro_batches, "flops", k->flops, "recomputed_flops",
                      k->recomputed, "memory", cli_memory_json(&m->report), "have", (json_int_t)m->have));
    }
    json_t *root = json_pack(
        "{s:i, s:i, s:{s:i, s:i, s:o, s:i}, s:s, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:b, s:o, s:o}", "schema",
        1, "n_ranks", f->n_ranks, "mesh", "dp", f->mesh.data, "pp", f->mesh.pipeline, "tp", widths, "chunks",
        f->mesh.chunks, "schedule", f->schedule, "batch", (json_int_t)t->plan.batch, "sequence",
        (json_int_t)t->plan.sequence, "parameters", (json_int_t)f->n_elements, "model_flops", f->model_flops,
        "flops", SUM(f, flops), "recomputed_flops", SUM(f, recomputed), "bubble", f->bubble, "fits",
        (int)f->fits, "why", f->fits ? json_null() : cli_json_text(f->why), "ranks", ranks);
    return cli_json_print(root, "yoke plan");
}

static void print_line(void *context, const char *text) { fprintf(context, "%s\n", text); }

/*
 * Whether two ranks do the same work at neighbouring places. Equal replicas then share a line, so that there
 * are as few lines as stages.
 */
static bool do_the_same(const struct yokei_forecast *f, int a, int b)
{
    const struct yokei_forecast_rank *x = &f->rank[a], *y = &f->rank[b];
    return x->at.s == y->at.s && x->samples == y->samples && x->micro_batch == y->micro_batch
           && x->n_elements == y->n_elements && !strcmp(f->memory[a].device, f->memory[b].device);
}

static void show_places(const struct yokei_forecast *f)
{
    printf("%-12s %-9s %5s %9s %7s %10s %11s  %s\n", "places", "device", "stage", "replica", "tensor",
           "sequences", "micro-batch", "layers");
    for (int r = 0, end; r < f->n_ranks; r = end) {
        const struct yokei_forecast_rank *k = &f->rank[r];
        char who[48], replicas[32], tensors[32];
        for (end = r + 1; end < f->n_ranks && do_the_same(f, r, end);) end++;
        const struct yokei_forecast_rank *last = &f->rank[end - 1];
        if (end == r + 1)
            yokei_text(who, sizeof who, "rank %d", r);
        else
            yokei_text(who, sizeof who, "ranks %d-%d", r, end - 1);
        if (last->at.d > k->at.d)
            yokei_text(replicas, sizeof replicas, "%d-%d", k->at.d, last->at.d);
        else
            yokei_text(replicas, sizeof replicas, "%d", k->at.d);
        const int width = yokei_mesh_width(&f->mesh, k->at.s);
        const bool several = last->at.d > k->at.d;
        if (end > r + 1 && width > 1)
            yokei_text(tensors, sizeof tensors, "%d-%d", several ? 0 : k->at.t,
                       several ? width - 1 : last->at.t);
        else
            yokei_text(tensors, sizeof tensors, "%d", k->at.t);
        printf("%-12s %-9s %5d %9s %7s %10lld %5lld x %-3d  %s\n", who, f->memory[r].device, k->at.s,
               replicas, tensors, (long long)k->samples, (long long)k->micro_batch, k->n_micro_batches,
               k->layers);
    }
}

static void show_forecast(const struct yokei_training *t, const struct yokei_forecast *f)
{
    const double flops = SUM(f, flops), recomputed = SUM(f, recomputed);
    printf("mesh             %d rank%s: dp %d x pp %d x tp ", f->n_ranks, f->n_ranks > 1 ? "s" : "",
           f->mesh.data, f->mesh.pipeline);
    for (int s = 0; s < (f->mesh.widths ? f->mesh.pipeline : 1); s++)
        printf("%s%d", s ? "," : "", yokei_mesh_width(&f->mesh, s));
    if (f->mesh.pipeline > 1) printf(", schedule %s", f->schedule);
    if (f->mesh.chunks > 1) printf(" of %d chunks", f->mesh.chunks);
    printf("\nbatch            %lld sequences of %lld tokens\n", (long long)t->plan.batch,
           (long long)t->plan.sequence);
    printf("parameters       %lld\n", (long long)f->n_elements);
    printf("work of a step   %.4g model FLOPs; the ranks' operations come to %.4g", f->model_flops, flops);
    if (recomputed > 0) printf(", %.1f %% of it computed again", 100 * recomputed / flops);
    printf("\nbubble           %.2f %%: the idle fraction by the simulator\n\n", 100 * f->bubble);
    show_places(f);
    printf("\n");
    yokei_memory_table(f->memory, f->n_ranks, print_line, stdout);
    printf("\n");
    if (f->fits)
        printf("fits             yes\n");
    else
        printf("fits             no\n");
}

/* ---- the verb ---- */

/* The limit that the user gave holds for each rank. The free memory of a device changes all the time. */
static void note_limit(struct yokei_training *t)
{
    for (int64_t r = 0; r < t->plan.n_ranks && t->memory_limit; r++)
        t->plan.ranks[r].memory_limit = (int64_t)YOKE_MIN(t->memory_limit, (uint64_t)1e15);
}

/* Plan the run that the options describe. Nothing is printed. */
static yoke_status plan_options(const struct cli_context *context, struct yokei_training *t,
                                struct devices *devices, struct yokei_forecast *f)
{
    const struct cli_options *o = context->options;
    struct yokei_forecast_costs costs;
    struct cli_context ranks = *context;
    /* as for yoke run */
    ranks.size = cli_is_set(o, "ranks") ? (int)cli_int(o, "ranks")
                                        : YOKE_MAX(1, cli_list_count(o, "devices"));
    cli_progress_begin("plan for %d rank%s", ranks.size, ranks.size > 1 ? "s" : "");
    YOKE_TRY(read_forecast_costs(cli_text(o, "costs"), &costs));
    YOKE_TRY(cli_plan_from_options(&ranks, t));
    t->memory_limit = cli_bytes(o, "memory-limit");
    cli_progress_now("opening the devices");
    YOKE_TRY(open_devices(o, ranks.size, devices));
    cli_progress_now("simulating a step");
    YOKE_TRY(yokei_forecast(t, ranks.size, devices->of, devices->n, &costs, f));
    cli_progress_end();
    note_limit(t);
    return YOKE_OK;
}

static yoke_status plan_run(const struct cli_context *context, struct yokei_training *t,
                            struct devices *devices, struct yokei_forecast *f)
{
    const struct cli_options *o = context->options;
    YOKE_TRY(plan_options(context, t, devices, f));
    if (cli_text(o, "output")) YOKE_TRY(yokei_plan_write(cli_text(o, "output"), &t->plan));
    if (cli_flag(o, "json"))
        YOKE_TRY(forecast_json(t, f));
    else
        show_forecast(t, f);
    return f->fits ? YOKE_OK : yoke_fail(YOKE_ENOMEM, "%s", f->why);
}

/* Close the devices. An error of before stays the error. */
static yoke_status close_devices(const struct devices *devices, yoke_status status)
{
    char text[4096];
    yokei_text(text, sizeof text, "%s", status ? yoke_last_error() : "");
    for (int i = 0; i < devices->n_opened; i++) {
        const yoke_status closed = yoke_device_close(devices->opened[i]);
        if (closed && !status)
            status = closed;
        else if (status)
            yoke_fail(status, "%s", text);
    }
    return status;
}

yoke_status cli_plan_of_config(const char *path, struct yokei_plan *plan_out, char *why_out, size_t bytes)
{
    char verb[] = "yoke plan", option[] = "--config", *file = strdup(path),
         *argv[] = { verb, option, file, NULL };
    struct yokei_training t = { .plan = YOKEI_PLAN_INIT };
    struct devices devices = { 0 };
    struct yokei_forecast f = { 0 };
    struct cli_context context = { .size = 1 };
    struct cli_options *options = NULL;
    yoke_status status = file ? cli_options_resolve(CLI_PLAN, 3, argv, &options, &context.n_words,
                                                    &context.words)
                              : yoke_fail(YOKE_ENOMEM, "%s: no memory for its name", path);
    context.options = options;
    if (!status) status = plan_options(&context, &t, &devices, &f);
    status = close_devices(&devices, status);
    yokei_text(why_out, bytes, "%s", !status && !f.fits ? f.why : "");
    yokei_forecast_free(&f);
    if (status)
        yokei_plan_free(&t.plan);
    else
        *plan_out = t.plan;
    cli_options_free(options);
    free(context.words);
    free(file);
    return status;
}

yoke_status cli_plan(const struct cli_context *context)
{
    if (cli_flag(context->options, "search")) return cli_plan_search(context);
    if (cli_text(context->options, "cluster")) return cli_plan_predict(context);
    static const char *const of_search[] = { "memo",         "goal-tokens",     "goal-time",
                                             "failure-rate", "checkpoint-time", "checkpoint-bandwidth",
                                             "restart-time", "advice" };
    for (size_t i = 0; i < YOKE_COUNT(of_search); i++)
        if (cli_is_set(context->options, of_search[i]))
            return yoke_fail(YOKE_EINVAL,
                             "yoke plan: --%s is for --search and --cluster: add one, or leave --%s out",
                             of_search[i], of_search[i]);
    struct cli_choices choices;
    YOKE_TRY(cli_choices_read(context->options, &choices));
    if (choices.n > 1)
        return yoke_fail(YOKE_EINVAL,
                         "yoke plan: --%s has several values, among which only --search chooses: add it, or "
                         "leave one value",
                         choices.n_batches > 1 ? "batch" : "precision");
    struct yokei_training t = { .plan = YOKEI_PLAN_INIT };
    struct devices devices = { 0 };
    struct yokei_forecast f = { 0 };
    const yoke_status status = close_devices(&devices, plan_run(context, &t, &devices, &f));
    yokei_forecast_free(&f);
    yokei_plan_free(&t.plan);
    return status;
}
