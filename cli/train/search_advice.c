/* SPDX-License-Identifier: Apache-2.0 */
/* The advice of yoke plan --search, as text and as JSON. */
#include "cli/train/search_advice.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/options/progress.h"
#include "core/base/base.h"

static const double COUNTS = 1e-3; /* a smaller change of the step is none */

static bool begin(void *context, const char *text)
{
    (void)context;
    cli_progress_begin("search with %s", text);
    return true;
}

yoke_status cli_advice_make(const struct cli_searched *x, const struct yokei_search_config *config,
                            const struct yokei_cluster *unlimited, double seconds, struct yokei_advice *out)
{
    if (seconds <= 0 || !x->result->is_complete) return YOKE_OK;
    const yoke_status status = yokei_advise(
        &(struct yokei_advice_config){
            .search = config, .unlimited = unlimited, .seconds = seconds, .begin = begin },
        x->result, out);
    cli_progress_end();
    return status;
}

void cli_advice_gain(const struct yokei_change *c, double step, char *out, size_t bytes)
{
    if (!c->fits)
        yokei_text(out, bytes, "no layout was found");
    else if (step - c->step_seconds < COUNTS * step)
        yokei_text(out, bytes, "%s", c->is_proved ? "no gain" : "no gain was found");
    else
        yokei_text(out, bytes, "%s%.1f %% less", c->is_proved ? "" : "at least ",
                   100 * (1 - c->step_seconds / step));
}

void cli_advice_binding(const struct yokei_advice *a, double step, char *out, size_t bytes)
{
    const struct yokei_change *c = yokei_advice_first(a, YOKEI_CHANGE_LIMIT);
    char gain[64];
    if (c && step - c->step_seconds >= COUNTS * step) {
        cli_advice_gain(c, step, gain, sizeof gain);
        yokei_text(out, bytes, "With %s a step takes %.4g s (%s), so this limit binds.", c->text,
                   c->step_seconds, gain);
        return;
    }
    bool proved = true;
    for (int i = 0; i < a->n; i++)
        proved = proved && (a->change[i].kind != YOKEI_CHANGE_LIMIT || a->change[i].is_proved);
    yokei_text(
        out, bytes,
        "No limit of memory or of the bubble %s: relaxing it gains nothing. The speed of devices and links "
        "limits the step.",
        proved ? "binds" : "was found to bind");
}

void cli_advice_show(const struct cli_searched *x)
{
    const struct yokei_advice *a = x->advice;
    if (!a->n || !x->result->n_best) return;
    const double step = x->result->best[0].prediction.step_seconds;
    char text[256];
    cli_advice_binding(a, step, text, sizeof text);
    printf("\nadvice: the search again, with one change\n%9s %9s %9s  %-22s %s\n", "step s", "per hour", "",
           "time of a step", "change");
    for (int i = 0; i < a->n; i++) {
        const struct yokei_change *c = &a->change[i];
        char gain[64], seconds[32] = "-", price[32] = "-";
        cli_advice_gain(c, step, gain, sizeof gain);
        if (c->fits) yokei_text(seconds, sizeof seconds, "%.4g", c->step_seconds);
        if (c->fits && c->price_per_hour > 0) yokei_text(price, sizeof price, "%.4g", c->price_per_hour);
        printf("%9s %9s %9s  %-22s %s\n", seconds, price,
               c->kind == YOKEI_CHANGE_LIMIT ? "limit" : "hardware", gain, c->text);
    }
    printf("%s\n", text);
    const struct yokei_change *best = yokei_advice_first(a, YOKEI_CHANGE_HARDWARE);
    if (best && step - best->step_seconds >= COUNTS * step)
        printf("Of these changes of the hardware, %s helps most.\n", best->text);
    if (!a->is_complete) printf("Interrupted: not all changes were tried.\n");
}

json_t *cli_advice_json(const struct cli_searched *x)
{
    const struct yokei_advice *a = x->advice;
    json_t *list = json_array();
    const double step = x->result->n_best ? x->result->best[0].prediction.step_seconds : NAN;
    for (int i = 0; i < a->n; i++) {
        const struct yokei_change *c = &a->change[i];
        char layout[256] = "";
        if (c->fits) cli_layout_text(x->cluster, &c->layout, layout, sizeof layout);
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:b, s:b, s:o, s:o, s:o, s:s}", "kind",
                            c->kind == YOKEI_CHANGE_LIMIT ? "limit" : "hardware", "change", c->text, "fits",
                            (int)c->fits, "proved", (int)c->is_proved, "step_seconds",
                            c->fits ? json_real(c->step_seconds) : json_null(), "gain",
                            c->fits && isfinite(step) ? json_real(1 - c->step_seconds / step) : json_null(),
                            "price_per_hour", c->fits ? json_real(c->price_per_hour) : json_null(), "layout",
                            layout));
    }
    return list;
}

void cli_advice_allowing(const struct cli_searched *x, const char *what, const char *otherwise, char *out,
                         size_t bytes)
{
    const struct yokei_advice *a = x->advice;
    char layout[256];
    if (!a->n) {
        yokei_text(out, bytes, "%s", otherwise);
        return;
    }
    cli_layout_text(x->cluster, &a->change[0].layout, layout, sizeof layout);
    yokei_text(out, bytes, "the cheapest change with which a layout %s is %s (then %s %s, in %.4g s a step)",
               what, a->change[0].text, layout, what, a->change[0].step_seconds);
    for (int i = 1; i < a->n && i < 4; i++)
        yokei_text(out + strlen(out), bytes - strlen(out), "%s%s", i == 1 ? "; or else " : "; or ",
                   a->change[i].text);
}
