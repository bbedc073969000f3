/* SPDX-License-Identifier: Apache-2.0 */
/* The names of what stops a kernel. */
#include "emulate/gpu/kernel.h"

const char *kernel_error_name(enum kernel_error error)
{
    static const char *const names[] = {
        [KERNEL_OK] = "no error",
        [KERNEL_SYNTAX] = "a program that cannot be read",
        [KERNEL_TARGET] = "a program for another device",
        [KERNEL_LIMIT] = "a launch beyond the limits of the device",
        [KERNEL_OUT_OF_BOUNDS] = "an access outside the memory",
        [KERNEL_MISALIGNED] = "a misaligned access",
        [KERNEL_UNINITIALISED] = "a read of memory that was never written",
        [KERNEL_SHARED_RACE] = "a race in shared memory",
        [KERNEL_GLOBAL_RACE] = "a race in global memory",
        [KERNEL_DIVERGENCE] = "a barrier or shuffle that not all threads reach",
        [KERNEL_ARITHMETIC] = "an integer division by zero",
        [KERNEL_TRAP] = "a trap",
        [KERNEL_TIMEOUT] = "too many instructions",
        [KERNEL_NO_MEMORY] = "not enough memory",
        [KERNEL_UNWAITED] = "a register that was read before its load was waited for",
    };
    return (size_t)error < sizeof names / sizeof *names ? names[error] : "an unknown error";
}
