/* SPDX-License-Identifier: Apache-2.0 */
/** The sources of device code that the build embeds as strings (see embed.sed and local.mk). */
#ifndef BACKENDS_GPU_TEXTS_H
#define BACKENDS_GPU_TEXTS_H

extern const char yokei_yk_prelude_opencl[];
extern const char yokei_yk_prelude_cuda[];
extern const char yokei_yk_prelude_hip[];
extern const char yokei_yk_prelude_simt[]; /* comes behind the prelude of cuda or hip */
extern const char yokei_yk_prelude_common[];
extern const char yokei_yk_prelude_tile[]; /* register tiles, for programs with YK_MR */

/**
 * The texts of the families. kernels/<family>.yk is followed by <family>_tile.yk and <family>_team.yk, if
 * they exist.
 */
/* clang-format off */
#define YOKEI_GPU_TEXTS(TEXT) \
    TEXT(norm) TEXT(act) TEXT(embed) TEXT(loss) TEXT(optim) TEXT(cast) TEXT(elementwise) TEXT(rope) \
    TEXT(bias) \
    TEXT(gemm) TEXT(attention) TEXT(attention_tile) TEXT(attention_team)
/* clang-format on */
#define YOKEI_GPU_TEXT_DECLARE(name) extern const char yokei_yk_kernels_##name[];
YOKEI_GPU_TEXTS(YOKEI_GPU_TEXT_DECLARE)

#endif
