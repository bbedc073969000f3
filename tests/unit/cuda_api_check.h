/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares backends/cuda/api.h with NVIDIA's headers. tests/unit/cuda_api compiles this text where a CUDA
 * toolkit is installed. A prototype that differs from NVIDIA's is an error of the compiler.
 */
#include <cuda.h>
#include <nvrtc.h>

#define YOKEI_CUDA_API_LISTS
#include "backends/cuda/api.h"

#define PROTOTYPE(result, name, parameters) result name parameters;
#define VALUE(name, value) _Static_assert(name == value, #name " has another value");
YOKEI_CUDA_FUNCTIONS(PROTOTYPE)
#if CUDA_VERSION >= 12040
YOKEI_CUDA_NEWER_FUNCTIONS(PROTOTYPE)
#endif
YOKEI_NVRTC_FUNCTIONS(PROTOTYPE)
YOKEI_CUDA_VALUES(VALUE)
