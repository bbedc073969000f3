/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shapes at which ops are measured. They are those of GPT-2 "micro" (256 channels, 4 heads, 64 positions,
 * 8 sequences) and of GPT-2 124M (768, 12, 1024; one sequence if arithmetic limits the op, eight if memory
 * does), and smaller ones.
 */
#include "conform/trial.h"
#include "core/base/base.h"

#include <string.h>

const struct conform_sizes conform_rows_sizes = {
    { "N", "C" },
    { { "tiny", { 32, 64 } }, { "micro", { 512, 256 } }, { "124m", { 8192, 768 } } },
    .least = { 16 },
    .sums = true
};
const struct conform_sizes conform_elements_sizes = {
    { "n" }, { { "tiny", { 4096 } }, { "micro", { 524288 } }, { "124m", { 6291456 } } }, .least = { 4096 }
};

const struct conform_sizes *conform_sizes_of(enum yoke_op_id op) { return conform_row_of(op)->sizes; }

void conform_dims_text(enum yoke_op_id op, const int64_t dims[CONFORM_MAX_DIMS], char *out, size_t bytes)
{
    const struct conform_sizes *s = conform_sizes_of(op);
    out[0] = 0;
    for (int i = 0; s->dims[i]; i++) {
        const size_t used = strlen(out);
        if (dims[i] > 1 || i < 2)
            yokei_text(out + used, bytes - used, "%s%s %lld", used ? " " : "", s->dims[i],
                       (long long)dims[i]);
        /* A flag: ta, tb. */
        else if (dims[i] == 1 && s->dims[i][0] == 't')
            yokei_text(out + used, bytes - used, " %s", s->dims[i]);
    }
}
