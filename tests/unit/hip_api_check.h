/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares backends/hip/api.h with HIP's header. tests/unit/hip_api compiles this text where the header is
 * installed. A prototype that differs from HIP's is an error of the compiler.
 */
#define __HIP_PLATFORM_AMD__ 1
#include <hip/hip_runtime_api.h>
#include <hip/hip_version.h>

#define YOKEI_HIP_API_LISTS
#define HIP_PROPERTIES hipDeviceProp_t
#include "backends/hip/api.h"

#define PROTOTYPE(result, name, parameters) result name parameters;
#define VALUE(name, value) _Static_assert(name == value, #name " has another value");
YOKEI_HIP_FUNCTIONS(PROTOTYPE)
#if HIP_VERSION_MAJOR < 6
#undef hipGetDevicePropertiesR0600
#endif
YOKEI_HIP_NEWER_FUNCTIONS(PROTOTYPE)
YOKEI_HIP_VALUES(VALUE)
YOKEI_HIP_WIDE_VALUES(VALUE)

/* The numbers of versions.c, for the version of this header. */
VALUE(hipDeviceAttributeMaxThreadsPerBlock, 56)
VALUE(hipDeviceAttributeMaxGridDimX, 29)
VALUE(hipDeviceAttributeMaxGridDimY, 30)
VALUE(hipDeviceAttributeMaxGridDimZ, 31)
VALUE(hipDeviceAttributeMaxSharedMemoryPerBlock, 74)
VALUE(hipDeviceAttributeWarpSize, 87)
VALUE(hipDeviceAttributeMultiprocessorCount, 63)
VALUE(hipDeviceAttributeIntegrated, 16)
VALUE(hipMemoryTypeHost, (HIP_VERSION_MAJOR < 6 ? 0 : 1))
VALUE(hipMemoryTypeDevice, (HIP_VERSION_MAJOR < 6 ? 1 : 2))
#if HIP_VERSION_MAJOR < 6
_Static_assert(offsetof(hipDeviceProp_t, gcnArchName) == 396, "the layout of HIP 5");
#else
_Static_assert(offsetof(hipDeviceProp_t, gcnArchName) == 1160, "the layout of HIP 6");
#endif
_Static_assert(sizeof(hipDeviceProp_t) <= 4096, "the buffer of versions.c");
_Static_assert(offsetof(hipPointerAttribute_t, device) == 4, "struct hip_pointer");
