/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shapes at which ops are measured. They are those of GPT-2 "micro" (256 channels, 4 heads, 64 positions,
 * 8 sequences) and of GPT-2 124M (768, 12, 1024; one sequence if arithmetic limits the op, eight if memory
 * does), and smaller ones.
 */
#include "conform/problem.h"
#include "core/base/base.h"

#include <string.h>

/* clang-format off */
#define END { 0 }
/* clang-format on */

static const struct conform_sizes of_gemm = { { "M", "N", "K", "batch", "ta", "tb" },
                                              { { "tiny forward", { 64, 64, 64, 1 } },
                                                { "row forward", { 1, 1024, 256, 1 } },
                                                { "batch forward", { 64, 64, 64, 32 } },
                                                { "micro forward", { 512, 1024, 256, 1 } },
                                                { "micro input", { 512, 256, 1024, 1, 0, 1 } },
                                                { "micro weight", { 256, 1024, 512, 1, 1, 0 } },
                                                { "124m forward", { 1024, 3072, 768, 1 } },
                                                { "124m input", { 1024, 768, 3072, 1, 0, 1 } },
                                                { "124m weight", { 768, 3072, 1024, 1, 1, 0 } },
                                                END },
                                              .least = { 16, 0, 0, 1 } };
static const struct conform_sizes of_rows = {
    { "N", "C" },
    { { "tiny", { 32, 64 } }, { "micro", { 512, 256 } }, { "124m", { 8192, 768 } }, END },
    .least = { 16 },
    .sums = true
};
static const struct conform_sizes of_elements = {
    { "n" },
    { { "tiny", { 4096 } }, { "micro", { 524288 } }, { "124m", { 6291456 } }, END },
    .least = { 4096 }
};
static const struct conform_sizes of_sums = {
    { "n" },
    { { "tiny", { 4096 } }, { "micro", { 1048576 } }, { "124m", { 6553600 } }, END },
    .least = { 4096 },
    .sums = true
};
static const struct conform_sizes of_parameters = {
    { "n" },
    { { "tiny", { 4096 } }, { "micro", { 1048576 } }, { "124m", { 6553600 } }, END },
    .least = { 4096 }
};
static const struct conform_sizes of_gated = {
    { "N", "F" },
    { { "tiny", { 32, 172 } }, { "micro", { 512, 688 } }, { "124m", { 4096, 2048 } }, END },
    .least = { 16 }
};
static const struct conform_sizes of_dropout = {
    { "N", "C" },
    { { "tiny", { 32, 64 } }, { "micro", { 512, 256 } }, { "124m", { 8192, 768 } }, END },
    .least = { 16 }
};
static const struct conform_sizes of_attention = { { "B", "T", "H", "G", "D" },
                                                   { { "tiny", { 2, 16, 2, 1, 32 } },
                                                     { "micro", { 8, 64, 4, 1, 64 } },
                                                     { "long", { 2, 256, 6, 1, 64 } },
                                                     { "124m", { 1, 1024, 12, 1, 64 } },
                                                     END },
                                                   .least = { 1, 128, 1, 0, 0 },
                                                   .sums = true };
static const struct conform_sizes of_embedding = { { "B", "T", "C", "V" },
                                                   { { "tiny", { 1, 32, 64, 256 } },
                                                     { "micro", { 8, 64, 256, 256 } },
                                                     { "124m", { 8, 1024, 768, 50257 } },
                                                     END },
                                                   .least = { 1, 64, 0, 256 } };
static const struct conform_sizes of_embedding_sums = { { "B", "T", "C", "V" },
                                                        { { "tiny", { 1, 32, 64, 256 } },
                                                          { "micro", { 8, 64, 256, 256 } },
                                                          { "124m", { 8, 1024, 768, 50257 } },
                                                          END },
                                                        .least = { 1, 64, 0, 256 },
                                                        .sums = true };
static const struct conform_sizes of_loss = {
    { "N", "V" },
    { { "tiny", { 32, 256 } }, { "micro", { 512, 256 } }, { "124m", { 256, 50257 } }, END },
    .least = { 4 },
    .sums = true
};
static const struct conform_sizes of_join = {
    { "P", "N" },
    { { "tiny", { 2, 32 } }, { "micro", { 2, 512 } }, { "124m", { 4, 8192 } }, END },
    .least = { 0, 32 },
    .sums = true
};
static const struct conform_sizes of_rope = {
    { "B", "T", "H", "D" },
    { { "tiny", { 1, 32, 2, 32 } }, { "micro", { 8, 64, 4, 64 } }, { "124m", { 8, 1024, 12, 64 } }, END },
    .least = { 1, 16 }
};

#define SIZES_gemm of_gemm
#define SIZES_bias_backward of_rows
#define SIZES_layernorm_forward of_rows
#define SIZES_layernorm_backward of_rows
#define SIZES_rmsnorm_forward of_rows
#define SIZES_rmsnorm_backward of_rows
#define SIZES_gelu_forward of_elements
#define SIZES_gelu_backward of_elements
#define SIZES_gelu_erf_forward of_elements
#define SIZES_gelu_erf_backward of_elements
#define SIZES_swiglu_forward of_gated
#define SIZES_swiglu_backward of_gated
#define SIZES_attention_forward of_attention
#define SIZES_attention_backward of_attention
#define SIZES_embed_forward of_embedding
#define SIZES_embed_backward of_embedding_sums
#define SIZES_xent_forward of_loss
#define SIZES_xent_backward of_loss
#define SIZES_xent_join of_join
#define SIZES_adamw of_parameters
#define SIZES_grad_norm of_sums
#define SIZES_cast of_elements
#define SIZES_add of_elements
#define SIZES_scale of_elements
#define SIZES_dropout of_dropout
#define SIZES_rope of_rope

#define SIZES(op) [YOKE_OP_##op] = &SIZES_##op,
const struct conform_sizes *conform_sizes_of(enum yoke_op_id op)
{
    static const struct conform_sizes *const all[YOKE_N_OPS] = { YOKE_ALL_OPS(SIZES) };
    return all[op];
}

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
