/* SPDX-License-Identifier: Apache-2.0 */
#include "core/backend.h"

#define NAME(op) #op,
const char *const yokei_op_names[YOKE_N_OPS] = { YOKE_ALL_OPS(NAME) };
