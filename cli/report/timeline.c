/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/timeline.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/report.h"
#include "core/base/base.h"

#define LONGEST_FILE ((size_t)1 << 30)
enum { MOST_RANKS = 100000, MOST_STEPS = 4096, MOST_LANES = 32 };
enum { MEASURED, SIMULATED };

#define KIND(id, name, ...) { name, __VA_ARGS__ },
const struct lane_kind report_work_kinds[REPORT_N_WORK_KINDS] = { REPORT_WORK_KINDS(KIND) };

/* ---- reading ---- */

/* An event that is a box. */
struct event {
    int64_t rank, step;
    int which; /* MEASURED, SIMULATED */
    bool computes;
    double begin, end; /* seconds */
    const char *name;
};

struct reader {
    struct report_timeline *t;
    json_t *root;
    struct {
        int64_t step;
        double begin, end;
    } * steps; /* [t->n_steps] */
    double simulated_begin;
};

static double number_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static bool is_time(double x) { return isfinite(x) && fabs(x) < 1e15; }

enum event_kind { EVENT_BOX, EVENT_DAMAGED, EVENT_OTHER };

/* The event as a box. It is damaged if it should be a box, but has no place or no time. */
static enum event_kind event_of(const struct report_timeline *t, const json_t *e, struct event *out)
{
    const char *phase = json_string_value(json_object_get(e, "ph")),
               *group = json_string_value(json_object_get(e, "cat")),
               *name = json_string_value(json_object_get(e, "name"));
    const json_t *pid = json_object_get(e, "pid"), *tid = json_object_get(e, "tid"),
                 *step = json_object_get(json_object_get(e, "args"), "step");
    if (!phase || strcmp(phase, "X") != 0) return EVENT_OTHER;
    const double begin = number_of(e, "ts"), length = number_of(e, "dur");
    *out = (struct event){ json_integer_value(pid),
                           json_integer_value(step),
                           group && !strcmp(group, "simulated") ? SIMULATED : MEASURED,
                           json_integer_value(tid) == 1,
                           begin * 1e-6,
                           (begin + length) * 1e-6,
                           name ? name : "" };
    /* The simulated ranks come behind the measured ones. */
    if (out->which == SIMULATED) out->rank = out->rank >= t->n_ranks ? out->rank - t->n_ranks : -1;
    return name && group && json_is_integer(pid) && json_is_integer(step) && is_time(begin) && is_time(length)
                   && length >= 0 && out->rank >= 0 && out->rank < t->n_ranks
               ? EVENT_BOX
               : EVENT_DAMAGED;
}

static enum report_work_kind kind_of(const struct event *e)
{
    static const struct {
        const char *name;
        enum report_work_kind kind;
    } passes[] = {
        { "F ", REPORT_WORK_F }, { "B ", REPORT_WORK_B }, { "W ", REPORT_WORK_W }, { "R ", REPORT_WORK_R }
    };
    if (!e->computes) return REPORT_WORK_MESSAGE;
    for (size_t i = 0; i < YOKE_COUNT(passes); i++)
        if (!strncmp(e->name, passes[i].name, 2)) return passes[i].kind;
    return REPORT_WORK_OTHER;
}

/* The begin and the end of each measured step, and the number of damaged events. */
static yoke_status find_steps(struct reader *r, const json_t *events)
{
    size_t i;
    const json_t *json;
    struct event e;
    r->steps = malloc(MOST_STEPS * sizeof *r->steps);
    if (!r->steps) return yoke_fail(YOKE_ENOMEM, "yoke report: no memory for a timeline");
    r->simulated_begin = INFINITY;
    int64_t at = 0;
    json_array_foreach(events, i, json)
    {
        const enum event_kind kind = event_of(r->t, json, &e);
        r->t->n_damaged += kind == EVENT_DAMAGED;
        if (kind != EVENT_BOX) continue;
        if (e.which == SIMULATED) {
            r->simulated_begin = fmin(r->simulated_begin, e.begin);
            continue;
        }
        if (at >= r->t->n_steps || r->steps[at].step != e.step)
            for (at = 0; at < r->t->n_steps && r->steps[at].step != e.step;) at++;
        if (at == MOST_STEPS) continue;
        if (at == r->t->n_steps) {
            r->steps[at].step = e.step;
            r->steps[at].begin = INFINITY;
            r->steps[at].end = -INFINITY;
            r->t->n_steps++;
        }
        r->steps[at].begin = fmin(r->steps[at].begin, e.begin);
        r->steps[at].end = fmax(r->steps[at].end, e.end);
    }
    return YOKE_OK;
}

/* The step whose time is nearest to the median; the first one of equals. */
static int64_t choose_step(const struct reader *r)
{
    int64_t best = 0;
    double *lengths = malloc((size_t)r->t->n_steps * sizeof *lengths);
    double wanted = r->t->median[MEASURED];
    for (int64_t i = 0; i < r->t->n_steps && lengths; i++) lengths[i] = r->steps[i].end - r->steps[i].begin;
    if (lengths && !isfinite(wanted)) wanted = report_median(lengths, (size_t)r->t->n_steps);
    for (int64_t i = 1; i < r->t->n_steps && lengths; i++)
        if (fabs(lengths[i] - wanted) < fabs(lengths[best] - wanted)) best = i;
    free(lengths);
    return best;
}

static yoke_status add_boxes(struct reader *r, const json_t *events)
{
    struct report_timeline *t = r->t;
    const int64_t at = t->n_steps ? choose_step(r) : -1;
    const double begin = at >= 0 ? r->steps[at].begin : 0;
    size_t i;
    const json_t *json;
    struct event e;
    if (at >= 0) t->step = r->steps[at].step, t->seconds[MEASURED] = r->steps[at].end - begin;
    json_array_foreach(events, i, json)
    {
        if (event_of(t, json, &e) != EVENT_BOX || (e.which == MEASURED && e.step != t->step)) continue;
        const double origin = e.which == MEASURED ? begin : r->simulated_begin;
        struct lane_box box = { 1e3 * (e.begin - origin), 1e3 * (e.end - origin), (int)kind_of(&e), 1, "" };
        yokei_text(box.text, sizeof box.text, "%s", e.name);
        if (e.which == SIMULATED) t->seconds[SIMULATED] = fmax(t->seconds[SIMULATED], e.end - origin);
        YOKE_TRY(lane_add(&t->ranks[e.rank].lanes[e.which], &box));
    }
    for (int64_t k = 0; k < t->n_ranks; k++)
        for (int w = 0; w < 2; w++)
            t->ranks[k].busy[w] = 1e-3 * lane_busy(&t->ranks[k].lanes[w], report_work_kinds, 0);
    return YOKE_OK;
}

/* The names of the ranks, from the events that name processes. */
static void name_ranks(struct report_timeline *t, const json_t *events)
{
    size_t i;
    const json_t *json;
    for (int r = 0; r < t->n_ranks; r++) yokei_text(t->ranks[r].name, sizeof t->ranks[r].name, "rank %d", r);
    json_array_foreach(events, i, json)
    {
        const char *event = json_string_value(json_object_get(json, "name")),
                   *name = json_string_value(json_object_get(json_object_get(json, "args"), "name"));
        const json_int_t rank = json_integer_value(json_object_get(json, "pid"));
        if (event && name && !strcmp(event, "process_name") && rank >= 0 && rank < t->n_ranks)
            yokei_text(t->ranks[rank].name, sizeof t->ranks[rank].name, "%s", name);
    }
}

static yoke_status refuse(struct report_timeline *t, const char *why)
{
    yokei_text(t->problem, sizeof t->problem, "%s: %s", t->path, why);
    return YOKE_OK;
}

static yoke_status read_tree(struct reader *r)
{
    struct report_timeline *t = r->t;
    const json_t *other = json_object_get(r->root, "otherData"),
                 *events = json_object_get(r->root, "traceEvents");
    const size_t n_ranks = json_array_size(json_object_get(other, "clocks"));
    if (!json_is_array(events) || !n_ranks || n_ranks > MOST_RANKS)
        return refuse(t, "this is no timeline of yoke train --trace");
    t->n_ranks = (int)n_ranks;
    t->ranks = calloc(n_ranks, sizeof *t->ranks);
    if (!t->ranks) return yoke_fail(YOKE_ENOMEM, "yoke report: no memory for %zu ranks", n_ranks);
    static const char *const medians[2] = { "measured_seconds", "simulated_seconds" }, *const bubbles[2] = {
        "bubble_measured", "bubble_simulated"
    };
    for (int w = 0; w < 2; w++) {
        t->median[w] = number_of(other, medians[w]);
        t->bubble[w] = number_of(other, bubbles[w]);
    }
    name_ranks(t, events);
    YOKE_TRY(find_steps(r, events));
    if (!t->n_steps && !isfinite(r->simulated_begin)) return refuse(t, "it has no instructions of a step");
    return add_boxes(r, events);
}

yoke_status report_timeline_read(const char *path, struct report_timeline *out)
{
    struct reader r = { .t = out };
    void *text;
    size_t bytes;
    json_error_t error;
    *out = (struct report_timeline){ .path = path };
    const yoke_status status = yokei_file_read_as(path, YOKE_EDATA, LONGEST_FILE, &text, &bytes);
    if (status == YOKE_ENOMEM) return status;
    if (status) {
        yokei_text(out->problem, sizeof out->problem, "%s", yoke_last_error());
        return YOKE_OK;
    }
    r.root = json_loadb(text, bytes, 0, &error);
    free(text);
    if (!r.root) {
        yokei_text(out->problem, sizeof out->problem,
                   "%s: it is no JSON at line %d, so it may be torn: %.200s", path, error.line, error.text);
        return YOKE_OK;
    }
    const yoke_status read = read_tree(&r);
    json_decref(r.root);
    free(r.steps);
    return read;
}

void report_timeline_free(struct report_timeline *t)
{
    for (int r = 0; r < t->n_ranks && t->ranks; r++)
        for (int w = 0; w < 2; w++) lane_free(&t->ranks[r].lanes[w]);
    free(t->ranks);
    t->ranks = NULL;
    t->n_ranks = 0;
}

/* ---- the section ---- */

static double idle_share(const struct report_timeline *t, int rank, int which)
{
    return t->seconds[which] > 0 ? fmax(1 - t->ranks[rank].busy[which] / t->seconds[which], 0) : NAN;
}

int report_timeline_idlest(const struct report_timeline *t, int which, double *share_out)
{
    int rank = -1;
    for (int r = 0; r < t->n_ranks && t->seconds[which] > 0; r++)
        if (rank < 0 || idle_share(t, r, which) > idle_share(t, rank, which)) rank = r;
    *share_out = rank < 0 ? NAN : idle_share(t, rank, which);
    return rank;
}

static void title_of(const struct report_timeline *t, char *out, size_t bytes)
{
    double share;
    char took[128], end[400] = "";
    const int which = t->seconds[MEASURED] > 0 ? MEASURED : SIMULATED,
              idlest = report_timeline_idlest(t, which, &share);
    if (which == MEASURED && t->seconds[SIMULATED] > 0)
        yokei_text(took, sizeof took, "Step %" PRId64 " took %.4g ms measured and %.4g ms simulated", t->step,
                   1e3 * t->seconds[MEASURED], 1e3 * t->seconds[SIMULATED]);
    else if (which == MEASURED)
        yokei_text(took, sizeof took, "Step %" PRId64 " took %.4g ms", t->step, 1e3 * t->seconds[MEASURED]);
    else
        yokei_text(took, sizeof took, "The simulated step takes %.4g ms", 1e3 * t->seconds[SIMULATED]);
    if (idlest >= 0)
        yokei_text(end, sizeof end, "; rank %d computes nothing for %.3g %% of it", idlest, 100 * share);
    yokei_text(out, bytes, "%s%s.", took, end);
}

static void put_table(struct report_page *page, const struct report_timeline *t, const int64_t *chosen, int n)
{
    static const char *const heads[] = { "rank",
                                         "place",
                                         "measured: computing, ms",
                                         "measured: idle, %",
                                         "simulated: computing, ms",
                                         "simulated: idle, %" };
    report_table_begin(page, heads, (int)YOKE_COUNT(heads));
    for (int i = 0; i < n; i++) {
        const int r = (int)chosen[i];
        report_row_begin(page);
        report_number(page, r, "%.0f");
        report_cell(page, t->ranks[r].name);
        for (int w = 0; w < 2; w++) {
            report_number(page, t->seconds[w] > 0 ? 1e3 * t->ranks[r].busy[w] : NAN, "%.4g");
            report_number(page, 100 * idle_share(t, r, w), "%.3g");
        }
        report_row_end(page);
    }
    report_table_end(page);
}

static void put_medians(struct report_page *page, const struct report_timeline *t)
{
    static const char *const heads[] = { "", "measured", "simulated" };
    report_table_begin(page, heads, (int)YOKE_COUNT(heads));
    const struct {
        const char *name;
        const double *values;
        double factor;
    } rows[] = { { "the shown step, ms", t->seconds, 1e3 },
                 { "median of the steps, ms", t->median, 1e3 },
                 { "bubble, %", t->bubble, 100 } };
    for (size_t i = 0; i < YOKE_COUNT(rows); i++) {
        report_row_begin(page);
        report_cell(page, rows[i].name);
        for (int w = 0; w < 2; w++)
            report_number(page, t->seconds[w] > 0 ? rows[i].factor * rows[i].values[w] : NAN, "%.4g");
        report_row_end(page);
    }
    report_table_end(page);
}

/* The chart. Its lanes have the boxes of the ranks, which are merged there if they are too many. */
static void put_chart(struct report_page *page, struct report_timeline *t, const int64_t *chosen, int n)
{
    static const char *const headings[2] = { "measured", "simulated" };
    struct lane *lanes = calloc((size_t)n * 2, sizeof *lanes);
    char title[600], description[800];
    int k = 0;
    if (!lanes) return;
    for (int w = 0; w < 2; w++)
        for (int i = 0; i < n && t->seconds[w] > 0; i++, k++) {
            lanes[k] = t->ranks[chosen[i]].lanes[w];
            lanes[k].mark = NAN;
            yokei_text(lanes[k].label, sizeof lanes[k].label, "rank %" PRId64, chosen[i]);
            if (!i) yokei_text(lanes[k].heading, sizeof lanes[k].heading, "%s", headings[w]);
        }
    title_of(t, title, sizeof title);
    yokei_text(
        description, sizeof description,
        "A row for each rank, first measured, then simulated. A box is an instruction. The file has %" PRId64
        " steps; the shown one took the time nearest to their median. The table below has the times.",
        t->n_steps);
    const int64_t n_merged = lanes_chart(
        page, &(struct lanes){ .title = title,
                               .description = description,
                               .unit = "milliseconds",
                               .lanes = lanes,
                               .n = k,
                               .kinds = report_work_kinds,
                               .n_kinds = REPORT_N_WORK_KINDS,
                               .end = 1e3 * fmax(t->seconds[MEASURED], t->seconds[SIMULATED]) });
    if (n_merged)
        report_paragraph(page,
                         "The chart has fewer boxes than there are instructions: %" PRId64
                         " instructions were merged with others that begin at about the same time.",
                         n_merged);
    free(lanes);
}

void report_timeline_damage(struct report_page *page, const struct report_timeline *t)
{
    if (t->n_damaged)
        report_paragraph(page,
                         "%" PRId64
                         " events of the timeline have no place, no time or a negative length. They are "
                         "left out.",
                         t->n_damaged);
}

void report_timeline_section(struct report_page *page, struct report_timeline *t)
{
    int64_t chosen[MOST_LANES];
    double *busy;
    if (t->problem[0] || !t->n_ranks || !(busy = calloc((size_t)t->n_ranks, sizeof *busy))) return;
    for (int r = 0; r < t->n_ranks; r++)
        busy[r] = t->ranks[r].busy[t->seconds[MEASURED] > 0 ? MEASURED : SIMULATED];
    const int n = report_choose(busy, t->n_ranks, MOST_LANES, chosen);
    free(busy);
    report_heading(page, "One step of all ranks");
    report_chosen_text(page, n, t->n_ranks, "that compute");
    put_chart(page, t, chosen, n);
    put_medians(page, t);
    put_table(page, t, chosen, n);
    report_paragraph(page, "A rank is idle while its computation does nothing, whatever it waits for.");
}

/* ---- the page of a timeline alone ---- */

yoke_status report_of_timeline(struct report_page *page, const char *path)
{
    struct report_timeline t;
    char title[4300];
    yoke_status status = report_timeline_read(path, &t);
    if (!status && t.problem[0]) status = yoke_fail(YOKE_EDATA, "%s; there is nothing to show", t.problem);
    if (!status) {
        yokei_text(title, sizeof title, "Timeline %s", path);
        report_begin(page, title);
        report_timeline_damage(page, &t);
        report_timeline_section(page, &t);
        report_end(page);
    }
    report_timeline_free(&t);
    return status;
}
