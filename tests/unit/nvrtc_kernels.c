/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles every device program with NVRTC, down to machine code. */
#include "backends/cuda/cuda.h"
#include "tests/unit/rtc.h"

int main(void)
{
    char reason[256];
    const struct cuda_nvrtc *found = yokei_cuda_nvrtc(99000, reason,
                                                      sizeof reason); /* where the backend finds it */
    const char *const libraries[] = { found ? found->path : "libnvrtc.so", NULL };
    static const struct rtc_target targets[] = { { "sm_75", "--gpu-architecture=sm_75", 32 },
                                                 { "sm_80", "--gpu-architecture=sm_80", 32 },
                                                 { "sm_90", "--gpu-architecture=sm_90", 32 },
                                                 { NULL, NULL, 0 } };
    static const char *const options[] = { "--std=c++14",      "--fmad=false", "--prec-div=true",
                                           "--prec-sqrt=true", "--ftz=false",  NULL };
    const struct rtc_compiler nvrtc = { "NVRTC", "nvrtc", libraries, YOKEI_GPU_CUDA, targets, options, 17 };
    return rtc_main(&nvrtc);
}
