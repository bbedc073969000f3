/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiles every device program with hipRTC. This is a process of its own, because PoCL's LLVM and AMD's LLVM
 * cannot be used in one process.
 */
#include "tests/unit/rtc.h"

int main(void)
{
    /* before ROCm 6 the functions live in the runtime's library */
    static const char *const libraries[] = { "libhiprtc.so.6",   "libhiprtc.so.5", "libamdhip64.so.6",
                                             "libamdhip64.so.5", "libamdhip64.so", NULL };
    static const struct rtc_target targets[] = { { "gfx90a", "--offload-arch=gfx90a", 64 },
                                                 { "gfx1030", "--offload-arch=gfx1030", 32 },
                                                 { NULL, NULL, 0 } };
    static const char *const options[] = { "-std=c++14", "-O3", "-ffp-contract=off", NULL };
    static const struct rtc_compiler hiprtc = { "hipRTC", "hiprtc", libraries, YOKEI_GPU_HIP,
                                                targets,  options,  41 };
    return rtc_main(&hiprtc);
}
