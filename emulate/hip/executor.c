/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in libamdhip64 executes the machine code of AMD's GPUs. */
#include "emulate/hip/gcn.h"
#include "emulate/hip/gcn_object.h"
#include "emulate/hip/hip.h"

const struct kernel_executor *const emulate_executor = &gcn_executor;

/* HIP does not say how long a program is, so its header is believed, as AMD's runtime does. */
size_t hip_program_bytes(const void *image) { return gcn_object_extent(image, SIZE_MAX); }
