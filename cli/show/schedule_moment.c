/* SPDX-License-Identifier: Apache-2.0 */
/* The actions of all stages at one moment of a schedule. */
#include "cli/show/schedule.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"

/* Sums of the same costs in another order differ by at most this much. */
static double tolerance(const struct cli_schedule *s) { return 1e-9 * (s->simulated.total + 1); }

void cli_schedule_moment_of(const struct cli_schedule *s, int stage, struct cli_moment *out)
{
    const struct yokei_actions *list = &s->schedule.rank[stage];
    const double now = s->moment + tolerance(s);
    *out = (struct cli_moment){ -1, -1, -1, false };
    for (int i = 0; i < list->n; i++) {
        const struct yokei_span *span = &s->simulated.stage[stage].span[i];
        if (!cli_is_work(&list->action[i])) continue;
        if (span->end <= now) {
            out->finished = i;
        } else if (span->start <= now) {
            out->doing = i;
            out->starts = fabs(span->start - s->moment) <= tolerance(s);
        } else {
            out->next = i;
            return;
        }
    }
}

/* ---- asking ---- */

static yoke_status bad_phrase(const char *text, const char *why)
{
    return yoke_fail(
        YOKE_EINVAL,
        "yoke schedule show: --when \"%s\": %s; write \"S3 finished F1\" or \"S3 starts B2\", stages and micro-batches counted from "
        "1, with a letter for the chunk where there are several (F1a)",
        text, why);
}

/* Read "F1", "B12" or "W1b": a kind of work, a micro-batch, a chunk. */
static bool parse_work(const struct cli_schedule *s, const char *word, struct yokei_action *out)
{
    static const char letters[] = "FBWR"; /* in the order of enum yokei_action_kind */
    const char *letter = *word ? strchr(letters, toupper((unsigned char)*word)) : NULL;
    if (!letter || !isdigit((unsigned char)word[1])) return false;
    char *end;
    const long m = strtol(word + 1, &end, 10);
    long chunk = 0;
    if (*end == '.')
        chunk = strtol(end + 1, &end, 10) - 1;
    else if (isalpha((unsigned char)*end))
        chunk = tolower((unsigned char)*end++) - 'a';
    *out = (struct yokei_action){ (enum yokei_action_kind)(letter - letters), (int)m - 1, (int)chunk };
    return !*end && m >= 1 && m <= s->shape.n_micro_batches && chunk >= 0 && chunk < s->shape.n_chunks;
}

yoke_status cli_schedule_parse_when(struct cli_schedule *s, const char *text)
{
    char stage_word[16], verb[16], work[32], more[2];
    struct yokei_action a;
    if (sscanf(text, " %15s %15s %31s %1s", stage_word, verb, work, more) != 3)
        return bad_phrase(text, "it has not three words");
    char *end;
    const long stage = toupper((unsigned char)stage_word[0]) == 'S' && isdigit((unsigned char)stage_word[1])
                           ? strtol(stage_word + 1, &end, 10)
                           : 0;
    if (stage < 1 || stage > s->shape.n_stages || *end) return bad_phrase(text, "there is no such stage");
    const bool finished = !strcmp(verb, "finished") || !strcmp(verb, "finishes"),
               starts = !strcmp(verb, "starts") || !strcmp(verb, "started");
    if (!finished && !starts) return bad_phrase(text, "a stage has finished or starts something");
    if (!parse_work(s, work, &a)) return bad_phrase(text, "there is no such work");
    const struct yokei_actions *list = &s->schedule.rank[stage - 1];
    for (int i = 0; i < list->n; i++) {
        const struct yokei_action *b = &list->action[i];
        if (b->kind != a.kind || b->index != a.index || b->chunk != a.chunk) continue;
        const struct yokei_span *span = &s->simulated.stage[stage - 1].span[i];
        s->moment = finished ? span->end : span->start;
        s->moment_text = text;
        return YOKE_OK;
    }
    return bad_phrase(text, "the stage does no such work");
}

/* ---- answering ---- */

/* Say why the action has not begun: its input is not there, or (between two actions) it begins at once. */
static void write_wait(const struct cli_schedule *s, int stage, int next, char *out, size_t bytes)
{
    const struct yokei_action *a = &s->schedule.rank[stage].action[next];
    const int p = s->shape.n_stages, place = a->chunk * p + stage;
    char label[48];
    cli_action_label(s, a, label, sizeof label);
    if (a->kind == YOKEI_ACTION_F && place > 0)
        yokei_text(out, bytes, "waits for the input of %s from S%d", label, (stage + p - 1) % p + 1);
    else if (a->kind == YOKEI_ACTION_B && place < p * s->shape.n_chunks - 1)
        yokei_text(out, bytes, "waits for the gradient of %s from S%d", label, (stage + 1) % p + 1);
    else
        yokei_text(out, bytes, "waits to begin %s", label);
}

static void stage_text(const struct cli_schedule *s, int stage, char *out, size_t bytes)
{
    const struct yokei_actions *list = &s->schedule.rank[stage];
    const struct yokei_span *span = s->simulated.stage[stage].span;
    struct cli_moment m;
    char done[96] = "has finished nothing yet", now[160] = "has no work left", label[48], since[32],
         until[32];
    cli_schedule_moment_of(s, stage, &m);
    if (m.finished >= 0)
        yokei_text(done, sizeof done, "has finished %s",
                   cli_action_label(s, &list->action[m.finished], label, sizeof label));
    if (m.doing >= 0) {
        cli_action_label(s, &list->action[m.doing], label, sizeof label);
        if (m.starts)
            yokei_text(now, sizeof now, "starts %s", label);
        else
            yokei_text(now, sizeof now, "works on %s from %s to %s", label,
                       cli_time_text(span[m.doing].start, since, sizeof since),
                       cli_time_text(span[m.doing].end, until, sizeof until));
    } else if (m.next >= 0) {
        write_wait(s, stage, m.next, now, sizeof now);
    }
    yokei_text(out, bytes, "S%d %s, %s", stage + 1, done, now);
}

void cli_schedule_moment_text(const struct cli_schedule *s, FILE *to)
{
    char text[400], time[32];
    cli_time_text(s->moment, time, sizeof time);
    if (s->moment_text)
        fprintf(to, "When %s (time %s):\n", s->moment_text, time);
    else
        fprintf(to, "At time %s:\n", time);
    for (int stage = 0; stage < s->shape.n_stages; stage++) {
        stage_text(s, stage, text, sizeof text);
        fprintf(to, "  %s\n", text);
    }
}
