/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Declarations of the parts of HIP that Yoke uses. They replace hip_runtime_api.h, so that no part of ROCm is
 * needed to build Yoke. They fit the libraries of the major versions 5, 6 and 7 (see versions.c for what
 * differs). tests/unit/hip_api checks them against HIP's header, where it is installed.
 *
 * Source: HIP documentation, rocm.docs.amd.com/projects/HIP, and hip_runtime_api.h of HIP 5.2, 6.4 and 7.0.
 */
#ifndef BACKENDS_HIP_API_H
#define BACKENDS_HIP_API_H

#include <stddef.h>
#include <stdint.h>

/* The errors that Yoke tells apart, and flags: X(name, value). The values are those of all versions. */
/* clang-format off */
#define YOKEI_HIP_VALUES(X)                                                                                  \
    X(hipSuccess, 0)                                                                                         \
    X(hipErrorInvalidValue, 1)                                                                               \
    X(hipErrorOutOfMemory, 2)                                                                                \
    X(hipErrorInsufficientDriver, 35)                                                                        \
    X(hipErrorNoDevice, 100)                                                                                 \
    X(hipErrorInvalidDevice, 101)                                                                            \
    X(hipErrorInvalidImage, 200)                                                                             \
    X(hipErrorNoBinaryForGpu, 209)                                                                           \
    X(hipErrorECCNotCorrectable, 214)                                                                        \
    X(hipErrorInvalidKernelFile, 218)                                                                        \
    X(hipErrorSharedObjectInitFailed, 303)                                                                   \
    X(hipErrorNotReady, 600)                                                                                 \
    X(hipErrorIllegalAddress, 700)                                                                           \
    X(hipErrorLaunchTimeOut, 702)                                                                            \
    X(hipErrorContextIsDestroyed, 709)                                                                       \
    X(hipErrorAssert, 710)                                                                                   \
    X(hipErrorLaunchFailure, 719)                                                                            \
    X(hipErrorNotSupported, 801)                                                                             \
    X(hipErrorUnknown, 999)                                                                                  \
    X(hipMemcpyHostToDevice, 1)                                                                              \
    X(hipMemcpyDeviceToHost, 2)                                                                              \
    X(hipMemcpyDeviceToDevice, 3)                                                                            \
    X(hipStreamNonBlocking, 1)                                                                               \
    X(hipEventBlockingSync, 1)                                                                               \
    X(hipEventDisableTiming, 2)                                                                              \
    X(hipHostMallocPortable, 1)                                                                              \
    X(hipHostMallocMapped, 2)                                                                                \
    X(hipHostMallocCoherent, 0x40000000)                                                                     \
    X(hipHostRegisterPortable, 1)                                                                            \
    X(hipHostRegisterMapped, 2)
/* Values that need 32 bits without a sign: X(name, value). */
#define YOKEI_HIP_WIDE_VALUES(X)                                                                             \
    X(hipEventReleaseToSystem, 0x80000000u)                                                                  \
    X(hipHostMallocNonCoherent, 0x80000000u)
/* clang-format on */

/* The test of this header includes HIP's header first, and defines this macro. */
#ifndef YOKEI_HIP_API_LISTS
typedef int hipError_t, hipDevice_t;
typedef struct ihipStream_t *hipStream_t;
typedef struct ihipEvent_t *hipEvent_t;
typedef struct ihipModule_t *hipModule_t;
typedef struct ihipModuleSymbol_t *hipFunction_t;
typedef void *hipDeviceptr_t;
typedef void (*hipHostFn_t)(void *argument);
typedef void (*hipStreamCallback_t)(hipStream_t stream, hipError_t error, void *argument);
/* Enumerations of HIP's. They are passed as an int is. */
typedef int hipMemcpyKind, hipDeviceAttribute_t;
enum {
#define YOKEI_HIP_VALUE(name, value) name = value,
    YOKEI_HIP_VALUES(YOKEI_HIP_VALUE)
#undef YOKEI_HIP_VALUE
};
#define hipEventReleaseToSystem 0x80000000u
#define hipHostMallocNonCoherent 0x80000000u
/**
 * The beginning of hipPointerAttribute_t, which is the same in all versions. The values of `type` are not:
 * see versions.c. `room` is for members that newer versions add.
 */
struct hip_pointer {
    int type, device;
    void *device_pointer, *host_pointer;
    int is_managed;
    unsigned flags;
    char room[64];
};
typedef struct hip_pointer hipPointerAttribute_t;
#define HIP_PROPERTIES void /* hipDeviceProp_t */
#endif

/** All functions of libamdhip64 that Yoke calls: F(result, name, parameters). All are in HIP 5.2. */
/* clang-format off */
#define YOKEI_HIP_FUNCTIONS(F)                                                                               \
    F(hipError_t, hipInit, (unsigned flags))                                                                 \
    F(hipError_t, hipRuntimeGetVersion, (int *version))                                                      \
    F(const char *, hipGetErrorName, (hipError_t error))                                                     \
    F(const char *, hipGetErrorString, (hipError_t error))                                                   \
    F(hipError_t, hipGetLastError, (void))                                                                   \
    F(hipError_t, hipGetDeviceCount, (int *count))                                                           \
    F(hipError_t, hipSetDevice, (int device))                                                                \
    F(hipError_t, hipGetDevice, (int *device))                                                               \
    F(hipError_t, hipDeviceGetName, (char *name, int bytes, hipDevice_t device))                             \
    F(hipError_t, hipDeviceTotalMem, (size_t *bytes, hipDevice_t device))                                    \
    F(hipError_t, hipDeviceGetAttribute, (int *value, hipDeviceAttribute_t attribute, int device))           \
    F(hipError_t, hipMemGetInfo, (size_t *free_bytes, size_t *total))                                        \
    F(hipError_t, hipMalloc, (void **address, size_t bytes))                                                 \
    F(hipError_t, hipFree, (void *address))                                                                  \
    F(hipError_t, hipHostMalloc, (void **address, size_t bytes, unsigned flags))                             \
    F(hipError_t, hipHostFree, (void *address))                                                              \
    F(hipError_t, hipHostRegister, (void *address, size_t bytes, unsigned flags))                            \
    F(hipError_t, hipHostUnregister, (void *address))                                                        \
    F(hipError_t, hipPointerGetAttributes, (hipPointerAttribute_t *attributes, const void *address))         \
    F(hipError_t, hipMemGetAddressRange, (hipDeviceptr_t *base, size_t *bytes, hipDeviceptr_t address))      \
    F(hipError_t, hipMemcpyAsync,                                                                            \
      (void *to, const void *from, size_t bytes, hipMemcpyKind kind, hipStream_t stream))                    \
    F(hipError_t, hipMemsetAsync, (void *to, int byte, size_t bytes, hipStream_t stream))                    \
    F(hipError_t, hipMemsetD32Async, (hipDeviceptr_t to, int value, size_t n, hipStream_t stream))           \
    F(hipError_t, hipStreamCreateWithFlags, (hipStream_t * stream, unsigned flags))                          \
    F(hipError_t, hipStreamDestroy, (hipStream_t stream))                                                    \
    F(hipError_t, hipStreamWaitEvent, (hipStream_t stream, hipEvent_t event, unsigned flags))                \
    F(hipError_t, hipStreamAddCallback,                                                                      \
      (hipStream_t stream, hipStreamCallback_t function, void *argument, unsigned flags))                    \
    F(hipError_t, hipEventCreateWithFlags, (hipEvent_t * event, unsigned flags))                             \
    F(hipError_t, hipEventDestroy, (hipEvent_t event))                                                       \
    F(hipError_t, hipEventRecord, (hipEvent_t event, hipStream_t stream))                                    \
    F(hipError_t, hipEventQuery, (hipEvent_t event))                                                         \
    F(hipError_t, hipEventSynchronize, (hipEvent_t event))                                                   \
    F(hipError_t, hipEventElapsedTime, (float *milliseconds, hipEvent_t from, hipEvent_t to))                \
    F(hipError_t, hipModuleLoadData, (hipModule_t * module, const void *image))                              \
    F(hipError_t, hipModuleUnload, (hipModule_t module))                                                     \
    F(hipError_t, hipModuleGetFunction, (hipFunction_t * function, hipModule_t module, const char *name))    \
    F(hipError_t, hipModuleLaunchKernel,                                                                     \
      (hipFunction_t function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,          \
       unsigned block_y, unsigned block_z, unsigned shared_bytes, hipStream_t stream, void **parameters,     \
       void **extra))

/**
 * Functions that Yoke calls if the library has them. hipGetDeviceProperties has the layout of HIP 5 in all
 * versions, and hipGetDevicePropertiesR0600 that of HIP 6. The struct is not declared here: see versions.c.
 */
#define YOKEI_HIP_NEWER_FUNCTIONS(F)                                                                         \
    F(hipError_t, hipGetDeviceProperties, (HIP_PROPERTIES * properties, int device))                         \
    F(hipError_t, hipGetDevicePropertiesR0600, (HIP_PROPERTIES * properties, int device))                    \
    F(hipError_t, hipHostGetDevicePointer, (void **address, void *host, unsigned flags))                     \
    F(hipError_t, hipStreamGetDevice, (hipStream_t stream, hipDevice_t *device))                             \
    F(hipError_t, hipStreamWriteValue32, (hipStream_t stream, void *at, uint32_t value, unsigned flags))     \
    F(hipError_t, hipLaunchHostFunc, (hipStream_t stream, hipHostFn_t function, void *argument))             \
    F(hipError_t, hipDeviceGetPCIBusId, (char *id, int bytes, int device))
/* clang-format on */

#endif
