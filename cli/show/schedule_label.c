/* SPDX-License-Identifier: Apache-2.0 */
/* How actions and times are written. */
#include "cli/show/schedule.h"

#include <string.h>

#include "core/base/base.h"

const char *cli_action_label(const struct cli_schedule *s, const struct yokei_action *a, char *out,
                             size_t bytes)
{
    struct yokei_action shown = { a->kind, a->index + 1, 0 };
    yokei_action_text(&shown, out, bytes);
    const size_t used = strlen(out);
    if (s->shape.n_chunks > 26)
        yokei_text(out + used, bytes - used, ".%d", a->chunk + 1);
    else if (s->shape.n_chunks > 1)
        yokei_text(out + used, bytes - used, "%c", 'a' + a->chunk);
    return out;
}

const char *cli_time_text(double time, char *out, size_t bytes)
{
    yokei_text(out, bytes, "%.6g", time);
    return out;
}
