/* SPDX-License-Identifier: Apache-2.0 */
/* The executor of the stand-in libamdhip64. Tests of the entry points have another one in its place. */
#include "emulate/gpu/driver.h"
#include "emulate/hip/gcn.h"
#include "emulate/hip/gcn_object.h"
#include "emulate/hip/hip.h"

const struct kernel_executor *const emulate_executor = &gcn_executor;

enum { MOST_BYTES = 1 << 28 }; /* of a program: no code object of Yoke is near this */

size_t hip_program_bytes(const void *image) { return gcn_object_extent(image, MOST_BYTES); }
