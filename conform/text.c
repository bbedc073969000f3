/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a line of results as text, and the command that repeats it. */
#include "conform/conform.h"
#include "core/base/base.h"

#include <stdlib.h>
#include <string.h>

/* Put a compiler's message on one line. */
static void flatten(char *text)
{
    for (char *p = text; *p; p++)
        if (*p == '\n' || *p == '\r' || *p == '\t') *p = ' ';
}

void conform_text(const struct conform_line *line, char *text, size_t bytes)
{
    char name[160], at[64] = "", numbers[200] = "";
    const char *verdict = conform_verdict_name(line->verdict);
    yokei_text(name, sizeof name, "%s %s %s%s%s", line->op, yoke_dtype_name(line->dtype), line->variant,
               line->variant[0] ? " " : "", line->device);
    if (line->worst_index[0]) yokei_text(at, sizeof at, "%lld,", (long long)line->worst_index[0]);
    yokei_text(at + strlen(at), sizeof at - strlen(at), "%lld,%lld", (long long)line->worst_index[1],
               (long long)line->worst_index[2]);
    if (line->has_element)
        yokei_text(numbers, sizeof numbers, "  worst %s[%s] got %.9g wanted %.9g bound %.3g",
                   line->worst_output, at, line->got, line->wanted, line->bound);
    if (line->verdict != CONFORM_FAIL && line->n_cases == 0) {
        yokei_text(text, bytes, "%-44s %s  %s", name, verdict, line->reason);
    } else if (line->verdict == CONFORM_PASS) {
        yokei_text(text, bytes, "%-44s %3d cases  bound %.2f  ulp %.3g  worst %s[%s] (%s)  %s", name,
                   line->n_cases, line->ratio, line->ulp, line->worst_output, at, line->worst_case, verdict);
    } else {
        yokei_text(text, bytes, "%-44s %3d cases  bound %.2f  ulp %.3g%s (case %d: %s, seed %llu)  %s: %s",
                   name, line->n_cases, line->ratio, line->ulp, numbers, line->case_number, line->worst_case,
                   (unsigned long long)line->seed, verdict, line->reason);
    }
    flatten(text);
}

/* Append " --name word". The word is quoted for a shell if it must be. */
static void append(char *text, size_t bytes, const char *option, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.,:/=+-";
    const char *quote = word[strspn(word, plain)] || !*word ? "'" : "";
    const size_t used = strlen(text);
    yokei_text(text + used, bytes - used, " --%s %s%s%s", option, quote, word, quote);
}

void conform_command(const struct conform_line *line, char *text, size_t bytes)
{
    char number[32];
    const bool gradient = !strcmp(line->variant, "gradient");
    yokei_text(text, bytes, "yoke verify");
    const char *emulated = getenv("YOKE_EMULATE");
    if (emulated && *emulated && (!strncmp(line->device, "cuda", 4) || !strncmp(line->device, "hip", 3)))
        append(text, bytes, "emulate", emulated);
    append(text, bytes, "device", line->device);
    append(text, bytes, "op", line->op);
    if (!gradient) append(text, bytes, "dtype", yoke_dtype_name(line->dtype));
    if (!gradient && line->variant[0]) append(text, bytes, "variant", line->variant);
    yokei_text(number, sizeof number, "%llu", (unsigned long long)line->seed);
    append(text, bytes, "seed", number);
    yokei_text(number, sizeof number, "%d", line->case_number);
    if (!gradient && line->case_number) append(text, bytes, "case", number);
}
