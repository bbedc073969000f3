/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles every device program with NVRTC, down to machine code. */
#include "tests/unit/rtc.h"

int main(void)
{
    static const char *const libraries[] = { "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2",
                                             "libnvrtc.so", NULL };
    static const struct rtc_target targets[] = { { "sm_75", "--gpu-architecture=sm_75", 32 },
                                                 { "sm_80", "--gpu-architecture=sm_80", 32 },
                                                 { "sm_90", "--gpu-architecture=sm_90", 32 },
                                                 { NULL, NULL, 0 } };
    static const char *const options[] = { "--std=c++14",      "--fmad=false", "--prec-div=true",
                                           "--prec-sqrt=true", "--ftz=false",  NULL };
    static const struct rtc_compiler nvrtc = { "NVRTC", "nvrtc", libraries, YOKEI_GPU_CUDA,
                                               targets, options, 17 };
    return rtc_main(&nvrtc);
}
