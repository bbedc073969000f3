/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares backends/cuda/cublaslt_api.h with NVIDIA's header. tests/unit/cuda_api compiles this text where a
 * CUDA toolkit with cuBLAS is installed. A prototype that differs from NVIDIA's is an error of the compiler.
 */
#include <cublasLt.h>

#define YOKEI_CUDA_API_LISTS
#include "backends/cuda/cublaslt_api.h"

#define PROTOTYPE(result, name, parameters) result name parameters;
#define VALUE(name, value) _Static_assert(name == value, #name " has another value");
YOKEI_CUBLASLT_FUNCTIONS(PROTOTYPE)
YOKEI_CUBLASLT_VALUES(VALUE)
_Static_assert(sizeof(cublasLtMatmulAlgo_t) == 64, "the algorithm has another size");
_Static_assert(sizeof(cublasLtMatmulHeuristicResult_t) == 96, "the result has another size");
_Static_assert(offsetof(cublasLtMatmulHeuristicResult_t, state) == 72, "the result has another layout");
