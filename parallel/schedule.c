/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedules as lists of actions, and as text. schedule_make.c generates them, and schedule_check.c checks
 * them.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/base.h"
#include "parallel/schedule.h"

const char *const yokei_recompute_words[] = { "none", "attention", "full", NULL };

static const struct {
    const char *name;
    bool numbered;
} kinds[YOKEI_N_ACTIONS] = {
/* clang-format off */
#define KIND(name, numbered) { #name, numbered },
    /* clang-format on */
    YOKEI_ACTIONS(KIND)
#undef KIND
};

void yokei_schedule_free(struct yokei_schedule *schedule)
{
    for (int r = 0; r < schedule->n_ranks; r++) free(schedule->rank[r].action);
    free(schedule->rank);
    memset(schedule, 0, sizeof *schedule);
}

yoke_status yokei_schedule_append(struct yokei_schedule *schedule, enum yokei_action_kind kind, int index,
                                  int chunk)
{
    struct yokei_actions *list = &schedule->rank[schedule->n_ranks - 1];
    if (list->n == list->capacity) {
        int capacity = list->capacity ? 2 * list->capacity : 64;
        struct yokei_action *action = realloc(list->action, (size_t)capacity * sizeof *action);
        if (!action) return yoke_fail(YOKE_ENOMEM, "schedule: no host memory for %d actions", capacity);
        list->action = action;
        list->capacity = capacity;
    }
    list->action[list->n++] = (struct yokei_action){ kind, index, chunk };
    return YOKE_OK;
}

yoke_status yokei_schedule_add_line(struct yokei_schedule *schedule)
{
    struct yokei_actions *rank = realloc(schedule->rank, (size_t)(schedule->n_ranks + 1) * sizeof *rank);
    if (!rank) return yoke_fail(YOKE_ENOMEM, "schedule: no host memory for %d lines", schedule->n_ranks + 1);
    schedule->rank = rank;
    rank[schedule->n_ranks++] = (struct yokei_actions){ 0, 0, NULL };
    return YOKE_OK;
}

/* Parse one word of a line: letters, then a number and ".chunk" if the kind has them. */
static bool parse_word(const char *word, size_t length, struct yokei_action *out)
{
    for (int k = 0; k < YOKEI_N_ACTIONS; k++) {
        size_t n = strlen(kinds[k].name);
        if (length < n || strncmp(word, kinds[k].name, n) != 0) continue;
        if (length == n) {
            *out = (struct yokei_action){ (enum yokei_action_kind)k, 0, 0 };
            if (!kinds[k].numbered) return true;
            continue;
        }
        if (!kinds[k].numbered || !isdigit((unsigned char)word[n])) continue;
        char *end;
        long index = strtol(word + n, &end, 10), chunk = 0;
        if (*end == '.' && isdigit((unsigned char)end[1])
            && yokei_action_has_micro_batch((enum yokei_action_kind)k))
            chunk = strtol(end + 1, &end, 10);
        if (end != word + length || index > 1000000 || chunk > 1000) return false;
        *out = (struct yokei_action){ (enum yokei_action_kind)k, (int)index, (int)chunk };
        return true;
    }
    return false;
}

static yoke_status parse_line(const char *line, size_t length, int number, const char *source,
                              struct yokei_schedule *schedule)
{
    YOKE_TRY(yokei_schedule_add_line(schedule));
    for (size_t at = 0; at <= length;) {
        while (at < length && isspace((unsigned char)line[at])) at++;
        size_t end = at;
        while (end < length && line[end] != ',') end++;
        size_t stop = end;
        while (stop > at && isspace((unsigned char)line[stop - 1])) stop--;
        struct yokei_action a;
        if (!parse_word(line + at, stop - at, &a))
            return yoke_fail(
                YOKE_ECONFIG,
                "%s:%d:%zu: \"%.*s\" is no action: write F, B, W, R, SA, RA, SG or RG with the micro-batch, F0 or F0.1 (in chunk 1), "
                "REDUCE0 with the bucket, TIED, AGREE or STEP",
                source, number, at + 1, (int)YOKE_MIN(stop - at, (size_t)40), line + at);
        YOKE_TRY(yokei_schedule_append(schedule, a.kind, a.index, a.chunk));
        at = end + 1;
    }
    return YOKE_OK;
}

yoke_status yokei_schedule_parse(const char *text, const char *source, struct yokei_schedule *schedule_out)
{
    yoke_status status = YOKE_OK;
    struct yokei_schedule schedule = { 0, NULL };
    for (int number = 1; *text; number++) {
        size_t length = strcspn(text, "\n"), used = length;
        while (used > 0 && isspace((unsigned char)text[used - 1])) used--;
        if (used > 0 && text[0] != '#')
            YOKE_TRY_GOTO(parse_line(text, used, number, source, &schedule), free_schedule);
        text += length + (text[length] == '\n');
    }
    if (schedule.n_ranks == 0) {
        status = yoke_fail(YOKE_ECONFIG, "%s: no schedule in it: one line of actions per rank is needed",
                           source);
        goto free_schedule;
    }
    *schedule_out = schedule;
    return YOKE_OK;
free_schedule:
    yokei_schedule_free(&schedule);
    return status;
}

const char *yokei_action_text(const struct yokei_action *a, char *out, size_t bytes)
{
    yokei_text(out, bytes, "%s", kinds[a->kind].name);
    size_t used = strlen(out);
    if (kinds[a->kind].numbered) yokei_text(out + used, bytes - used, "%d", a->index);
    used = strlen(out);
    if (a->chunk) yokei_text(out + used, bytes - used, ".%d", a->chunk);
    return out;
}

yoke_status yokei_schedule_print(const struct yokei_schedule *schedule, char **text_out)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);
    if (!to) return yoke_fail(YOKE_ENOMEM, "schedule: no host memory to print it");
    for (int r = 0; r < schedule->n_ranks; r++) {
        for (int i = 0; i < schedule->rank[r].n; i++) {
            if (i) fputc(',', to);
            char word[48];
            fputs(yokei_action_text(&schedule->rank[r].action[i], word, sizeof word), to);
        }
        fputc('\n', to);
    }
    if (fclose(to)) {
        free(text);
        return yoke_fail(YOKE_ENOMEM, "schedule: no host memory to print it");
    }
    *text_out = text;
    return YOKE_OK;
}
