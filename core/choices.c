/* SPDX-License-Identifier: Apache-2.0 */
/* See core/base/choices.h. */
#include <string.h>

#include "core/base/base.h"
#include "core/base/choices.h"
#include "core/tune.h"

/* Append a line, if there is room for all of it. */
static void put(char *out, size_t bytes, const char *line)
{
    const size_t used = strlen(out);
    if (used + strlen(line) + 2 > bytes) return;
    yokei_text(out + used, bytes - used, "%s\n", line);
}

void yokei_choices_text(const struct yoke_device *device, char *out, size_t bytes)
{
    static const char *const kinds[] = { [YOKEI_TUNING_RULES] = "rules",
                                         [YOKEI_TUNING_GIVEN] = "given",
                                         [YOKEI_TUNING_USER] = "user",
                                         [YOKEI_TUNING_SHIPPED] = "shipped" };
    const struct yokei_tuning_source *source = yokei_tuning_source(device);
    char line[1024 + 64], algorithm[YOKEI_DETAIL_BYTES];
    if (!bytes) return;
    out[0] = '\0';
    yokei_text(line, sizeof line, "tuning %s%s%s", kinds[source->kind], source->file[0] ? " " : "",
               source->file);
    put(out, bytes, line);
    for (int op = 0; op < YOKE_N_OPS; op++) {
        double size, edge;
        const char *variant = yokei_variant_used(device, (enum yoke_op_id)op, &size, &edge);
        yokei_algorithm_used(device, (enum yoke_op_id)op, algorithm, sizeof algorithm);
        if (!variant[0] && !algorithm[0]) continue;
        yokei_text(line, sizeof line, "%s %s%s%s", yokei_op_names[op], variant[0] ? variant : "-",
                   algorithm[0] ? " " : "", algorithm);
        put(out, bytes, line);
    }
}
