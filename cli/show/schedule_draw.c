/* SPDX-License-Identifier: Apache-2.0 */
/* A schedule as JSON, and as a picture (SVG). */
#include <jansson.h>
#include <string.h>

#include "cli/show/schedule.h"
#include "core/base/base.h"

/* ---- JSON; the manual promises the field names, and numbers count from 0 ---- */

static json_t *action_or_null(const struct yokei_actions *list, int i)
{
    char word[48];
    return i >= 0 ? json_string(yokei_action_text(&list->action[i], word, sizeof word)) : json_null();
}

static json_t *stage_json(const struct cli_schedule *s, int stage)
{
    const struct yokei_stage_times *x = &s->simulated.stage[stage];
    json_t *actions = json_array();
    for (int i = 0; i < s->schedule.rank[stage].n; i++)
        json_array_append_new(actions, json_pack("{s:o, s:f, s:f}", "action",
                                                 action_or_null(&s->schedule.rank[stage], i), "start",
                                                 x->span[i].start, "end", x->span[i].end));
    return json_pack("{s:i, s:f, s:f, s:f, s:o}", "stage", stage, "busy", x->busy, "idle", x->idle,
                     "peak_held", x->peak, "actions", actions);
}

static json_t *moment_json(const struct cli_schedule *s)
{
    json_t *stages = json_array();
    for (int stage = 0; stage < s->shape.n_stages; stage++) {
        const struct yokei_actions *list = &s->schedule.rank[stage];
        const struct yokei_span *span = s->simulated.stage[stage].span;
        struct cli_moment m;
        cli_schedule_moment_of(s, stage, &m);
        json_array_append_new(
            stages, json_pack("{s:i, s:o, s:o, s:o, s:o, s:o}", "stage", stage, "finished",
                              action_or_null(list, m.finished), "doing", action_or_null(list, m.doing),
                              "since", m.doing >= 0 ? json_real(span[m.doing].start) : json_null(), "until",
                              m.doing >= 0 ? json_real(span[m.doing].end) : json_null(), "next",
                              action_or_null(list, m.next)));
    }
    return json_pack("{s:f, s:o}", "time", s->moment, "stage", stages);
}

yoke_status cli_schedule_json(const struct cli_schedule *s, FILE *to)
{
    json_t *stages = json_array();
    for (int stage = 0; stage < s->shape.n_stages; stage++)
        json_array_append_new(stages, stage_json(s, stage));
    json_t *kind = json_string(s->kind); /* NULL if a file's name is not UTF-8 */
    json_t *root = json_pack("{s:i, s:o, s:i, s:i, s:i, s:f, s:f, s:f, s:o}", "schema", 1, "kind",
                             kind ? kind : json_null(), "stages", s->shape.n_stages, "chunks",
                             s->shape.n_chunks, "microbatches", s->shape.n_micro_batches, "total",
                             s->simulated.total, "longest_span", s->simulated.longest, "bubble",
                             s->simulated.bubble, "stage", stages);
    if (!root) return yoke_fail(YOKE_ENOMEM, "yoke schedule: no memory for its JSON");
    json_object_set_new(root, "moment", s->has_moment ? moment_json(s) : json_null());
    const int failed = json_dumpf(root, to, JSON_INDENT(1) | JSON_REAL_PRECISION(15));
    fputc('\n', to);
    json_decref(root);
    return failed ? yoke_fail(YOKE_EIO, "yoke schedule: the JSON could not be written") : YOKE_OK;
}

/* ---- SVG that needs no style sheet, no font and no script ---- */

enum { LEFT = 46, TOP = 34, ROW = 26, BAR = 22, WIDE = 1000 };

static const char *fill_of(const struct yokei_action *a)
{
    switch (a->kind) {
    case YOKEI_ACTION_F: return a->index % 2 ? "#8fb8de" : "#b3d1ee";
    case YOKEI_ACTION_B: return a->index % 2 ? "#e3b27f" : "#f2cda3";
    case YOKEI_ACTION_W: return a->index % 2 ? "#9ccc9c" : "#bfe3bf";
    default: return "#d0bfe8";
    }
}

static void quoted(const char *text, FILE *to)
{
    for (; *text; text++) {
        if (*text == '<')
            fputs("&lt;", to);
        else if (*text == '&')
            fputs("&amp;", to);
        else if (*text == '>')
            fputs("&gt;", to);
        else
            fputc((unsigned char)*text < ' ' ? '?' : *text, to);
    }
}

static void svg_stage(const struct cli_schedule *s, int stage, double scale, FILE *to)
{
    const int y = TOP + stage * ROW;
    fprintf(
        to,
        "<text x=\"8\" y=\"%d\">S%d</text>\n<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"#f0f0f0\"/>\n",
        y + 15, stage + 1, LEFT, y, WIDE, BAR);
    for (int i = 0; i < s->schedule.rank[stage].n; i++) {
        const struct yokei_action *a = &s->schedule.rank[stage].action[i];
        const struct yokei_span *span = &s->simulated.stage[stage].span[i];
        const double x = LEFT + span->start * scale, width = (span->end - span->start) * scale;
        char label[48];
        if (!cli_is_work(a) || width <= 0) continue;
        cli_action_label(s, a, label, sizeof label);
        fprintf(
            to,
            "<rect x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\" fill=\"%s\" stroke=\"#ffffff\" stroke-width=\"0.5\">"
            "<title>%s from %g to %g</title></rect>\n",
            x, y, width, BAR, fill_of(a), label, span->start, span->end);
        if (width > 8.0 * (int)strlen(label))
            fprintf(to, "<text x=\"%.2f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", x + width / 2, y + 15,
                    label);
    }
}

void cli_schedule_svg(const struct cli_schedule *s, FILE *to)
{
    const int n = s->shape.n_stages, height = TOP + n * ROW + 48;
    double end = 0;
    for (int stage = 0; stage < n; stage++) end = YOKE_MAX(end, s->simulated.stage[stage].last);
    const double scale = end > 0 ? WIDE / end : 0;
    fprintf(
        to,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"12\">\n"
        "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n<text x=\"8\" y=\"20\" font-size=\"14\">",
        LEFT + WIDE + 12, height, LEFT + WIDE + 12, height);
    quoted(s->kind, to);
    fprintf(to, ": %d stages, %d micro-batches, bubble %.2f%% (idle fraction, mean over the stages)</text>\n",
            n, s->shape.n_micro_batches, 100 * s->simulated.bubble);
    for (int stage = 0; stage < n; stage++) svg_stage(s, stage, scale, to);
    if (s->has_moment && s->moment <= end)
        fprintf(to, "<line x1=\"%.2f\" y1=\"%d\" x2=\"%.2f\" y2=\"%d\" stroke=\"#c00000\"/>\n",
                LEFT + s->moment * scale, TOP - 4, LEFT + s->moment * scale, TOP + n * ROW);
    const int y = TOP + n * ROW + 16;
    fprintf(to, "<text x=\"%d\" y=\"%d\">0</text>\n<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%g</text>\n",
            LEFT, y, LEFT + WIDE, y, end);
    fprintf(
        to,
        "<text x=\"%d\" y=\"%d\">F forward, B gradient of the input, W gradient of the weights, R forward again; grey is idle</text>\n</svg>\n",
        LEFT, y + 18);
}
