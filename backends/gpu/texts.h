/* SPDX-License-Identifier: Apache-2.0 */
/** The device texts that the build embeds as strings (see embed.sed and local.mk). */
#ifndef BACKENDS_GPU_TEXTS_H
#define BACKENDS_GPU_TEXTS_H

extern const char yokei_yk_prelude_opencl[];
extern const char yokei_yk_prelude_cuda[];
extern const char yokei_yk_prelude_hip[];
extern const char yokei_yk_prelude_simt[]; /* behind cuda and hip */
extern const char yokei_yk_prelude_common[];
extern const char yokei_yk_prelude_tile[];   /* register tiles: programs with YK_MR */

/** The families' texts. Behind kernels/<family>.yk stand <family>_tile.yk and <family>_team.yk, where there are such. */
#define YOKEI_GPU_TEXTS(TEXT) \
    TEXT(norm) TEXT(act) TEXT(embed) TEXT(loss) TEXT(optim) TEXT(cast) TEXT(elementwise) TEXT(rope) TEXT(bias) \
    TEXT(gemm) TEXT(attention) TEXT(attention_tile) TEXT(attention_team)
#define YOKEI_GPU_TEXT_DECLARE(name) extern const char yokei_yk_kernels_##name[];
YOKEI_GPU_TEXTS(YOKEI_GPU_TEXT_DECLARE)


#endif
