/* SPDX-License-Identifier: Apache-2.0 */
/* The words behind `yoke run`: a verb and its options, or a program of the user's. */
#include <stdlib.h>
#include <string.h>

#include "cli/launch/look.h"
#include "core/base/base.h"

yoke_status cli_verb_of_words(const struct cli_context *context, const struct cli_verb **verb_out,
                              int *words_out)
{
    char both[160];
    const char *names[64];
    size_t n = 0;
    const char *first = context->words[0];
    yokei_text(both, sizeof both, "%s %s", first, context->n_words > 1 ? context->words[1] : "");
    for (const struct cli_verb *v = cli_verb_table; v->name; v++) {
        *words_out = strchr(v->name, ' ') ? 2 : 1;
        if (v->ranks && n + 1 < YOKE_COUNT(names)) names[n++] = v->name;
        if (strcmp(v->name, *words_out == 2 ? both : first)) continue;
        if (!v->ranks)
            return yoke_fail(YOKE_EINVAL, "yoke %s works as one process; run it without yoke run", v->name);
        *verb_out = v;
        return YOKE_OK;
    }
    names[n] = NULL;
    const char *nearest = yokei_nearest(strncmp(first, "bench", 5) ? first : both, names);
    return yoke_fail(
        YOKE_EINVAL,
        "yoke run: unknown verb '%s'%s%s%s; a program of your own is given with a path, such as ./%s", first,
        nearest ? " (did you mean '" : "", nearest ? nearest : "", nearest ? "'?)" : "", first);
}

yoke_status cli_look_options(const struct cli_context *context, const struct cli_verb *verb,
                             struct cli_options **out)
{
    char name[] = "yoke train", *only[] = { name, NULL }, **words;
    const bool trains = verb && verb->bit == CLI_TRAIN;
    char *saved = context->words[0];
    int n_words;
    if (trains) context->words[0] = name;
    const yoke_status status = cli_options_resolve(CLI_TRAIN, trains ? context->n_words : 1,
                                                   trains ? context->words : only, out, &n_words, &words);
    context->words[0] = saved;
    if (!status) free(words);
    return status;
}
