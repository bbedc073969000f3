/* SPDX-License-Identifier: Apache-2.0 */
/** The sources of device code that the build embeds as strings (see embed.sed and local.mk). */
#ifndef BACKENDS_GPU_TEXTS_H
#define BACKENDS_GPU_TEXTS_H

#include <yoke/ops/families.h>

extern const char yokei_yk_prelude_opencl[];
extern const char yokei_yk_prelude_cuda[];
extern const char yokei_yk_prelude_hip[];
extern const char yokei_yk_prelude_simt[]; /* comes behind the prelude of cuda or hip */
extern const char yokei_yk_prelude_common[];
extern const char yokei_yk_prelude_mma[];  /* matrix units, for programs with YK_MMA, of CUDA only */
extern const char yokei_yk_prelude_tile[]; /* register tiles, for programs with YK_MR */

/**
 * The texts of the kernels. Each family has kernels/<family>.yk. It is followed by <family>_tile.yk,
 * <family>_team.yk and <family>_mma.yk, if they exist. The gradient of a bias has a text of its own.
 */
#define YOKEI_GPU_TEXTS(TEXT)                  \
    YOKE_FAMILIES(YOKEI_GPU_FAMILY_TEXT, TEXT) \
    TEXT(bias) TEXT(attention_tile) TEXT(attention_team) TEXT(attention_mma)
#define YOKEI_GPU_FAMILY_TEXT(family, OPS, TEXT) TEXT(family)
#define YOKEI_GPU_TEXT_DECLARE(name) extern const char yokei_yk_kernels_##name[];
YOKEI_GPU_TEXTS(YOKEI_GPU_TEXT_DECLARE)

#endif
