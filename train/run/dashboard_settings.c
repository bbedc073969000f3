/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of a run as Markdown, for TensorBoard. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "train/files/json.h"
#include "train/run/dashboards.h"
#include "train/trainer/memory.h"

/* A text in a cell of a table. It has no Markdown and no HTML of its own, and it is UTF-8. */
static void put_text(FILE *to, const char *text)
{
    for (size_t n; *text; text += n) {
        n = yokei_character_bytes(text);
        if (!n) {
            fputs("\xef\xbf\xbd", to);
            n = 1;
        } else if (*text == '<' || *text == '>' || *text == '&')
            fputs(*text == '<' ? "&lt;" : *text == '>' ? "&gt;" : "&amp;", to);
        else if (n == 1 && *text < ' ')
            fputc(' ', to);
        else {
            if (strchr("|\\`*_[]", *text)) fputc('\\', to);
            fwrite(text, 1, n, to);
        }
    }
}

static void put_row(FILE *to, const char *name, const char *value)
{
    fputs("| ", to);
    put_text(to, name);
    fputs(" | ", to);
    put_text(to, value);
    fputs(" |\n", to);
}

/* The values of an object, and of the objects in it, as rows. Lists have tables of their own, or none. */
static void put_object(FILE *to, const char *before, json_t *object)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        char name[256], number[64];
        yokei_text(name, sizeof name, "%s%s", before, key);
        if (json_is_object(value)) {
            strncat(name, ".", sizeof name - strlen(name) - 1);
            put_object(to, name, value);
        } else if (json_is_string(value)) {
            if (json_string_length(value)) put_row(to, name, json_string_value(value));
        } else if (json_is_integer(value)) {
            yokei_text(number, sizeof number, "%lld", (long long)json_integer_value(value));
            put_row(to, name, number);
        } else if (json_is_real(value)) {
            yokei_text(number, sizeof number, "%.9g", json_real_value(value));
            put_row(to, name, number);
        } else if (json_is_boolean(value))
            put_row(to, name, json_is_true(value) ? "true" : "false");
    }
}

static void put_ranks(FILE *to, const struct yokei_run_state *s)
{
    const struct yokei_plan *p = &s->t->plan;
    fputs("\n| rank | device | sequences | threads | planned MiB |\n| --- | --- | --- | --- | --- |\n", to);
    for (int r = 0; r < s->n_ranks; r++) {
        fprintf(to, "| %d | ", r);
        put_text(to, s->ranks[r].device);
        fprintf(to, " | %lld | %lld | %.1f |\n", (long long)p->ranks[s->placed[r]].samples,
                (long long)p->ranks[s->placed[r]].threads,
                (double)s->trainer->memory[r].report.total / 1048576.0);
    }
}

yoke_status yokei_dashboards_settings(const struct yokei_run_state *s, char **text_out)
{
    char *plan_text = NULL;
    size_t bytes;
    *text_out = NULL;
    YOKE_TRY(yokei_json_text(&yokei_plan_schema, &s->t->plan, false, true, &plan_text));
    json_t *plan = json_loads(plan_text, 0, NULL);
    free(plan_text);
    FILE *to = open_memstream(text_out, &bytes);
    if (!plan || !to) {
        if (to) fclose(to);
        json_decref(plan);
        free(*text_out);
        return yoke_fail(YOKE_ENOMEM, "train: no host memory for the settings");
    }
    fputs("| setting | value |\n| --- | --- |\n", to);
    put_row(to, "yoke", yoke_version());
    if (s->t->run_dir) put_row(to, "run directory", s->t->run_dir);
    put_object(to, "", plan);
    put_ranks(to, s);
    json_decref(plan);
    if (!fclose(to)) return YOKE_OK;
    free(*text_out);
    return yoke_fail(YOKE_ENOMEM, "train: no host memory for the settings");
}
