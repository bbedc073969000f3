/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yoke schedule show and yoke schedule check: make or read pipeline schedules, check them, simulate them, and
 * print them.
 */
#include "cli/show/schedule.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "core/base/base.h"

#define LONGEST_FILE ((size_t)1 << 28)

static void schedule_free(struct cli_schedule *s)
{
    yokei_schedule_free(&s->schedule);
    yokei_costs_free(&s->costs);
    yokei_simulated_free(&s->simulated);
    free(s->buckets);
    free(s->recompute);
}

static yoke_status make_room_for_stages(struct cli_schedule *s, int n_stages)
{
    s->shape.n_stages = n_stages;
    s->buckets = calloc((size_t)n_stages, sizeof *s->buckets);
    s->recompute = calloc((size_t)n_stages, sizeof *s->recompute);
    s->shape.n_buckets = s->buckets;
    return s->buckets && s->recompute
               ? YOKE_OK
               : yoke_fail(YOKE_ENOMEM, "yoke schedule: no memory for %d stages", n_stages);
}

/* Read a file's text, with a zero byte behind it. */
static yoke_status read_text_file(const char *path, char **text_out)
{
    void *data;
    size_t bytes;
    YOKE_TRY(yokei_file_read_as(path, YOKE_ECONFIG, LONGEST_FILE, &data, &bytes));
    char *text = realloc(data, bytes + 1);
    if (!text) {
        free(data);
        return yoke_fail(YOKE_ENOMEM, "%s: no memory for %zu bytes", path, bytes);
    }
    text[bytes] = '\0';
    const size_t length = strlen(text);
    if (length < bytes) {
        free(text);
        return yoke_fail(YOKE_ECONFIG, "%s: byte %zu is 0: this is no text", path, length);
    }
    *text_out = text;
    return YOKE_OK;
}

/* ---- a schedule from a file ---- */

/* The shape that the actions of the file have, unless the options give another. */
static yoke_status shape_of_file(const struct cli_options *o, struct cli_schedule *s)
{
    struct yokei_pipeline *shape = &s->shape;
    YOKE_TRY(make_room_for_stages(s, s->schedule.n_ranks));
    shape->n_chunks = 1;
    for (int stage = 0; stage < shape->n_stages; stage++)
        for (int i = 0; i < s->schedule.rank[stage].n; i++) {
            const struct yokei_action *a = &s->schedule.rank[stage].action[i];
            if (a->kind == YOKEI_ACTION_REDUCE) s->buckets[stage] = YOKE_MAX(s->buckets[stage], a->index + 1);
            if (a->kind == YOKEI_ACTION_TIED) shape->tied = true;
            if (!yokei_action_has_micro_batch(a->kind)) continue;
            shape->n_micro_batches = YOKE_MAX(shape->n_micro_batches, a->index + 1);
            shape->n_chunks = YOKE_MAX(shape->n_chunks, a->chunk + 1);
        }
    if (cli_is_set(o, "stages") && cli_int(o, "stages") != shape->n_stages)
        return yoke_fail(YOKE_ECONFIG, "%s: it has %d lines, but there are %d stages: one line per stage",
                         s->kind, shape->n_stages, (int)cli_int(o, "stages"));
    if (cli_is_set(o, "microbatches")) shape->n_micro_batches = (int)cli_int(o, "microbatches");
    if (cli_is_set(o, "chunks")) shape->n_chunks = (int)cli_int(o, "chunks");
    if (cli_is_set(o, "tied")) shape->tied = cli_flag(o, "tied");
    for (int stage = 0; cli_is_set(o, "buckets") && stage < shape->n_stages; stage++)
        s->buckets[stage] = (int)cli_int(o, "buckets");
    return YOKE_OK;
}

static yoke_status read_schedule(const struct cli_options *o, const char *path, struct cli_schedule *s)
{
    char *text;
    s->kind = path;
    YOKE_TRY(read_text_file(path, &text));
    yoke_status status = yokei_schedule_parse(text, path, &s->schedule);
    free(text);
    if (!status) status = shape_of_file(o, s);
    if (!status) status = yokei_schedule_check(&s->schedule, &s->shape);
    if (status == YOKE_ECONFIG && !strstr(yoke_last_error(), path))
        return yoke_fail(status, "%s: %s", path, yoke_last_error());
    return status;
}

/* ---- a schedule that is made ---- */

/*
 * Read "full,none,…", which has a word for each stage, as yoke train takes it. False: it is something else.
 */
static bool read_words(const char *text, int n, bool *recompute)
{
    for (int i = 0; i < n; i++) {
        const size_t length = strcspn(text, ",");
        recompute[i] = length == 4 && !strncmp(text, "full", 4);
        if (!recompute[i] && (length != 4 || strncmp(text, "none", 4) != 0)) return false;
        text += length;
        if (*text != (i + 1 < n ? ',' : 0)) return false;
        text += i + 1 < n;
    }
    return true;
}

/* Read "none", "full", a word for each stage, or "S1,S3". */
static yoke_status read_recompute(const struct cli_options *o, struct cli_schedule *s)
{
    const char *text = cli_text(o, "recompute");
    const int n = s->shape.n_stages;
    if (!strcmp(text, "none")) return YOKE_OK;
    const bool is_words = read_words(text, n, s->recompute);
    for (int i = 0; i < n && !is_words; i++) s->recompute[i] = !strcmp(text, "full");
    for (const char *at = text; !is_words && strcmp(text, "full");) {
        char *end = NULL;
        const long stage = toupper((unsigned char)at[0]) == 'S' && isdigit((unsigned char)at[1])
                               ? strtol(at + 1, &end, 10)
                               : 0;
        if (stage < 1 || stage > n || (*end && *end != ','))
            return yoke_fail(
                YOKE_EINVAL,
                "yoke schedule show: --recompute %s: write none, full, one of these words for each stage, or stages such as S1,S%d",
                text, n);
        s->recompute[stage - 1] = true;
        if (!*end) break;
        at = end + 1;
    }
    s->shape.recompute = s->recompute;
    return YOKE_OK;
}

static yoke_status make_schedule(const struct cli_options *o, struct cli_schedule *s)
{
    s->kind = cli_text(o, "kind");
    YOKE_TRY(yokei_pipeline_named(s->kind, 1, &s->shape.kind));
    YOKE_TRY(make_room_for_stages(s, cli_is_set(o, "stages") ? (int)cli_int(o, "stages") : 4));
    s->shape.n_micro_batches = cli_is_set(o, "microbatches") ? (int)cli_int(o, "microbatches") : 8;
    s->shape.n_chunks = cli_is_set(o, "chunks") ? (int)cli_int(o, "chunks")
                        : yokei_pipeline_has_chunks(s->shape.kind) && s->shape.n_stages > 1 ? 2
                                                                                            : 1;
    s->shape.tied = cli_flag(o, "tied");
    for (int stage = 0; stage < s->shape.n_stages; stage++) s->buckets[stage] = (int)cli_int(o, "buckets");
    YOKE_TRY(read_recompute(o, s));
    if ((double)s->shape.n_stages * s->shape.n_micro_batches * s->shape.n_chunks > 5e5)
        return yoke_fail(
            YOKE_EINVAL,
            "yoke schedule show: %d stages, %d micro-batches and %d chunks are more than is shown: their product may be 500000",
            s->shape.n_stages, s->shape.n_micro_batches, s->shape.n_chunks);
    return yokei_schedule_pipeline(&s->shape, &s->schedule);
}

/* ---- costs ---- */

/* Read a number that is not negative. NULL: there is none. */
static const char *number(const char *text, double *out)
{
    char *end;
    *out = strtod(text, &end);
    if (end == text || !isfinite(*out) || *out < 0 || *out > 1e12) return NULL;
    return end + strspn(end, " \t\r");
}

/* Read F,B,W[,HOP[,R]], the costs of one stage. HOP is a latency, or LATENCY+TRANSFER. */
static bool read_costs(const char *text, int most, struct yokei_stage_costs *out)
{
    double x[5] = { 0 };
    int n = 0;
    *out = (struct yokei_stage_costs){ .R = 0 };
    for (;; text++) {
        if (n == most || !(text = number(text, &x[n++]))) return false;
        if (n == 4 && *text == '+' && !(text = number(text + 1, &out->transfer))) return false;
        if (!*text) break;
        if (*text != ',') return false;
    }
    if (n < 3 || x[0] + x[1] + x[2] <= 0) return false;
    out->F = x[0], out->B = x[1], out->W = x[2], out->latency = x[3], out->R = n == 5 ? x[4] : x[0];
    return true;
}

static yoke_status read_costs_file(const char *path, const struct cli_schedule *s,
                                   struct yokei_stage_costs *costs)
{
    char *text;
    yoke_status status = YOKE_OK;
    int stage = 0, number = 1;
    YOKE_TRY(read_text_file(path, &text));
    for (char *line = text, *next; line && !status; line = next, number++) {
        next = strchr(line, '\n');
        if (next) *next++ = '\0';
        line += strspn(line, " \t\r");
        if (!*line || *line == '#') continue;
        if (stage == s->shape.n_stages)
            status = yoke_fail(YOKE_ECONFIG, "%s:%d: a line more than there are stages (%d)", path, number,
                               stage);
        else if (!read_costs(line, 5, &costs[stage++]))
            status = yoke_fail(
                YOKE_ECONFIG,
                "%s:%d: \"%.60s\": write F,B,W[,HOP[,R]] of the stage, times that are not all 0, such as 18.5,18,9.3,0.6",
                path, number, line);
    }
    if (!status && stage < s->shape.n_stages)
        status = yoke_fail(YOKE_ECONFIG, "%s: %d lines of costs, but there are %d stages: one line per stage",
                           path, stage, s->shape.n_stages);
    free(text);
    return status;
}

static yoke_status read_stage_costs(const struct cli_options *o, const struct cli_schedule *s,
                                    struct yokei_stage_costs *costs)
{
    const char *text = cli_text(o, "costs"), *path = cli_text(o, "costs-file");
    if (text && path)
        return yoke_fail(YOKE_EINVAL, "yoke schedule show: --costs and --costs-file exclude each other");
    if (path) return read_costs_file(path, s, costs);
    for (int stage = 0; stage < s->shape.n_stages; stage++)
        if (!read_costs(text ? text : "1,1,1", 4, &costs[stage]))
            return yoke_fail(
                YOKE_EINVAL,
                "yoke schedule show: --costs %s: write F,B,W[,HOP], times that are not all 0, such as 18.5,18,9.3,0.6",
                text);
    return YOKE_OK;
}

static yoke_status make_costs(const struct cli_options *o, struct cli_schedule *s)
{
    struct yokei_stage_costs *costs = calloc((size_t)s->shape.n_stages, sizeof *costs);
    if (!costs) return yoke_fail(YOKE_ENOMEM, "yoke schedule: no memory for %d stages", s->shape.n_stages);
    yoke_status status = read_stage_costs(o, s, costs);
    if (!status)
        status = yokei_costs_stages(s->shape.n_stages, s->shape.n_chunks, costs,
                                    cli_flag(o, "receiver-takes"), &s->costs);
    free(costs);
    return status;
}

/* ---- the verbs ---- */

static yoke_status print_schedule(const struct cli_schedule *s, const char *format, FILE *to)
{
    if (!strcmp(format, "json")) return cli_schedule_json(s, to);
    if (!strcmp(format, "svg")) {
        cli_schedule_svg(s, to);
    } else if (!strcmp(format, "csv")) {
        char *text;
        YOKE_TRY(yokei_schedule_print(&s->schedule, &text));
        fputs(text, to);
        free(text);
    } else {
        return cli_schedule_ascii(s, to);
    }
    return YOKE_OK;
}

/* A schedule, and the format in which it is printed. */
struct printed_schedule {
    const struct cli_schedule *schedule;
    const char *format;
};

static yoke_status output_schedule(void *context, FILE *to)
{
    const struct printed_schedule *printed = context;
    return print_schedule(printed->schedule, printed->format, to);
}

static yoke_status show_schedule(const struct cli_options *o, struct cli_schedule *s)
{
    const char *path = cli_text(o, "file"), *when = cli_text(o, "when");
    static const char *const made[] = { "kind", "recompute" };
    for (size_t i = 0; path && i < YOKE_COUNT(made); i++)
        if (cli_is_set(o, made[i]))
            return yoke_fail(
                YOKE_EINVAL,
                "yoke schedule show: --%s says how to make a schedule, and --file gives one: leave one of them out",
                made[i]);
    if (when && cli_is_set(o, "at"))
        return yoke_fail(YOKE_EINVAL, "yoke schedule show: --when and --at exclude each other");
    YOKE_TRY(path ? read_schedule(o, path, s) : make_schedule(o, s));
    YOKE_TRY(make_costs(o, s));
    cli_progress_begin("simulating the schedule");
    YOKE_TRY(yokei_simulate(&s->schedule, &s->costs, &s->simulated));
    cli_progress_end();
    s->width = (int)cli_int(o, "width");
    s->has_moment = when || cli_is_set(o, "at");
    s->moment = cli_real(o, "at");
    if (when) YOKE_TRY(cli_schedule_parse_when(s, when));
    struct printed_schedule printed = { s, cli_flag(o, "json") ? "json" : cli_text(o, "format") };
    return cli_write_results(cli_text(o, "output"), output_schedule, &printed);
}

yoke_status cli_schedule_show(const struct cli_context *context)
{
    struct cli_schedule s = { 0 };
    const yoke_status status = show_schedule(context->options, &s);
    schedule_free(&s);
    return status;
}

yoke_status cli_schedule_check(const struct cli_context *context)
{
    struct cli_schedule s = { 0 };
    if (context->n_words != 1)
        return yoke_fail(YOKE_EINVAL,
                         "yoke schedule check: which schedule? Give its file: yoke schedule check mine.csv");
    const yoke_status status = read_schedule(context->options, context->words[0], &s);
    if (!status)
        printf("%s: sound: stages %d, chunks of each %d, micro-batches %d\n", s.kind, s.shape.n_stages,
               s.shape.n_chunks, s.shape.n_micro_batches);
    schedule_free(&s);
    return status;
}
