/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Declarations of the parts of the CUDA driver API and of NVRTC that Yoke uses. They replace cuda.h and
 * nvrtc.h, so that no part of CUDA is needed to build Yoke.
 *
 * The names of the functions are those of the symbols in the libraries. cuda.h renames cuMemAlloc to
 * cuMemAlloc_v2, for example, and the symbol cuMemAlloc has an older form with sizes of 32 bits.
 * tests/unit/cuda_api checks these declarations against the toolkit's headers, where these are installed.
 *
 * Source: CUDA Driver API, docs.nvidia.com/cuda/cuda-driver-api; NVRTC, docs.nvidia.com/cuda/nvrtc.
 */
#ifndef BACKENDS_CUDA_API_H
#define BACKENDS_CUDA_API_H

#include <stddef.h>
#include <stdint.h>

/* The errors that Yoke tells apart, and other constants: X(name, value). */
/* clang-format off */
#define YOKEI_CUDA_VALUES(X)                                                                                 \
    X(CUDA_SUCCESS, 0)                                                                                       \
    X(CUDA_ERROR_INVALID_VALUE, 1)                                                                           \
    X(CUDA_ERROR_OUT_OF_MEMORY, 2)                                                                           \
    X(CUDA_ERROR_STUB_LIBRARY, 34)                                                                           \
    X(CUDA_ERROR_DEVICE_UNAVAILABLE, 46)                                                                     \
    X(CUDA_ERROR_NO_DEVICE, 100)                                                                             \
    X(CUDA_ERROR_INVALID_IMAGE, 200)                                                                         \
    X(CUDA_ERROR_NO_BINARY_FOR_GPU, 209)                                                                     \
    X(CUDA_ERROR_ECC_UNCORRECTABLE, 214)                                                                     \
    X(CUDA_ERROR_INVALID_PTX, 218)                                                                           \
    X(CUDA_ERROR_NVLINK_UNCORRECTABLE, 220)                                                                  \
    X(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, 222)                                                               \
    X(CUDA_ERROR_CONTAINED, 226)                                                                             \
    X(CUDA_ERROR_NOT_READY, 600)                                                                             \
    X(CUDA_ERROR_ILLEGAL_ADDRESS, 700)                                                                       \
    X(CUDA_ERROR_LAUNCH_TIMEOUT, 702)                                                                        \
    X(CUDA_ERROR_CONTEXT_IS_DESTROYED, 709)                                                                  \
    X(CUDA_ERROR_ASSERT, 710)                                                                                \
    X(CUDA_ERROR_HARDWARE_STACK_ERROR, 714)                                                                  \
    X(CUDA_ERROR_ILLEGAL_INSTRUCTION, 715)                                                                   \
    X(CUDA_ERROR_MISALIGNED_ADDRESS, 716)                                                                    \
    X(CUDA_ERROR_INVALID_ADDRESS_SPACE, 717)                                                                 \
    X(CUDA_ERROR_INVALID_PC, 718)                                                                            \
    X(CUDA_ERROR_LAUNCH_FAILED, 719)                                                                         \
    X(CUDA_ERROR_TENSOR_MEMORY_LEAK, 721)                                                                    \
    X(CUDA_ERROR_NOT_SUPPORTED, 801)                                                                         \
    X(CUDA_ERROR_SYSTEM_NOT_READY, 802)                                                                      \
    X(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, 803)                                                                \
    X(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, 804)                                                        \
    X(CUDA_ERROR_MPS_CLIENT_TERMINATED, 810)                                                                 \
    X(CUDA_ERROR_EXTERNAL_DEVICE, 911)                                                                       \
    X(CUDA_ERROR_UNKNOWN, 999)                                                                               \
    X(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1)                                                          \
    X(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 5)                                                                 \
    X(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 6)                                                                 \
    X(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 7)                                                                 \
    X(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 8)                                                    \
    X(CU_DEVICE_ATTRIBUTE_WARP_SIZE, 10)                                                                     \
    X(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 16)                                                          \
    X(CU_DEVICE_ATTRIBUTE_INTEGRATED, 18)                                                                    \
    X(CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, 20)                                                                  \
    X(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 33)                                                                    \
    X(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 34)                                                                 \
    X(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, 50)                                                                 \
    X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75)                                                      \
    X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76)                                                      \
    X(CU_COMPUTEMODE_PROHIBITED, 2)                                                                          \
    X(CU_COMPUTEMODE_EXCLUSIVE_PROCESS, 3)                                                                   \
    X(CU_POINTER_ATTRIBUTE_CONTEXT, 1)                                                                       \
    X(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 2)                                                                   \
    X(CU_MEMORYTYPE_HOST, 1)                                                                                 \
    X(CU_MEMORYTYPE_DEVICE, 2)                                                                               \
    X(CU_JIT_ERROR_LOG_BUFFER, 5)                                                                            \
    X(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, 6)                                                                 \
    X(CU_STREAM_NON_BLOCKING, 1)                                                                             \
    X(CU_EVENT_BLOCKING_SYNC, 1)                                                                             \
    X(CU_EVENT_DISABLE_TIMING, 2)                                                                            \
    X(CU_STREAM_WAIT_VALUE_GEQ, 0) /* until (int32_t)(*address - value) >= 0 */                              \
    X(CU_STREAM_WRITE_VALUE_DEFAULT, 0) /* the stream's earlier writes are visible before the value is */    \
    X(CU_MEMHOSTALLOC_PORTABLE, 1)                                                                           \
    X(CU_MEMHOSTALLOC_DEVICEMAP, 2)                                                                          \
    X(CU_MEMHOSTREGISTER_PORTABLE, 1)
/* clang-format on */

/* The test of this header includes cuda.h and nvrtc.h first, and defines this macro. */
#ifndef YOKEI_CUDA_API_LISTS
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef void (*CUhostFn)(void *argument);
typedef struct _nvrtcProgram *nvrtcProgram;
/*
 * Enumerations of NVIDIA's. They are passed as an int is, and ints may have values that are not in the list.
 */
typedef int CUresult, CUdevice_attribute, CUpointer_attribute, CUjit_option, nvrtcResult;
enum {
#define YOKEI_CUDA_VALUE(name, value) name = value,
    YOKEI_CUDA_VALUES(YOKEI_CUDA_VALUE)
#undef YOKEI_CUDA_VALUE
};
#endif

/**
 * All functions of libcuda.so.1 that Yoke calls: F(result, name, parameters). The newest is
 * cuStreamWriteValue32_v2, of CUDA 11.7. No queue waits for a value in memory (event.c says why).
 */
/* clang-format off */
#define YOKEI_CUDA_FUNCTIONS(F)                                                                              \
    F(CUresult, cuInit, (unsigned flags))                                                                    \
    F(CUresult, cuDriverGetVersion, (int *version))                                                          \
    F(CUresult, cuGetErrorName, (CUresult error, const char **name))                                         \
    F(CUresult, cuGetErrorString, (CUresult error, const char **text))                                       \
    F(CUresult, cuDeviceGetCount, (int *count))                                                              \
    F(CUresult, cuDeviceGet, (CUdevice *device, int ordinal))                                                \
    F(CUresult, cuDeviceGetName, (char *name, int bytes, CUdevice device))                                   \
    F(CUresult, cuDeviceTotalMem_v2, (size_t *bytes, CUdevice device))                                       \
    F(CUresult, cuDeviceGetAttribute, (int *value, CUdevice_attribute attribute, CUdevice device))           \
    F(CUresult, cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))                            \
    F(CUresult, cuDevicePrimaryCtxRelease_v2, (CUdevice device))                                             \
    F(CUresult, cuCtxPushCurrent_v2, (CUcontext context))                                                    \
    F(CUresult, cuCtxPopCurrent_v2, (CUcontext * context))                                                   \
    F(CUresult, cuCtxGetCurrent, (CUcontext * context))                                                      \
    F(CUresult, cuCtxSetCurrent, (CUcontext context))                                                        \
    F(CUresult, cuCtxGetDevice, (CUdevice * device))                                                         \
    F(CUresult, cuMemGetInfo_v2, (size_t *free_bytes, size_t *total))                                        \
    F(CUresult, cuMemAlloc_v2, (CUdeviceptr * address, size_t bytes))                                        \
    F(CUresult, cuMemFree_v2, (CUdeviceptr address))                                                         \
    F(CUresult, cuMemHostAlloc, (void **address, size_t bytes, unsigned flags))                              \
    F(CUresult, cuMemFreeHost, (void *address))                                                              \
    F(CUresult, cuMemHostRegister_v2, (void *address, size_t bytes, unsigned flags))                         \
    F(CUresult, cuMemHostUnregister, (void *address))                                                        \
    F(CUresult, cuMemHostGetDevicePointer_v2, (CUdeviceptr * address, void *host, unsigned flags))           \
    F(CUresult, cuPointerGetAttributes,                                                                      \
      (unsigned n, CUpointer_attribute *attributes, void **values, CUdeviceptr address))                     \
    F(CUresult, cuMemGetAddressRange_v2, (CUdeviceptr * base, size_t *bytes, CUdeviceptr address))           \
    F(CUresult, cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream))     \
    F(CUresult, cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t bytes, CUstream stream))           \
    F(CUresult, cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))     \
    F(CUresult, cuMemsetD8Async, (CUdeviceptr to, unsigned char byte, size_t bytes, CUstream stream))        \
    F(CUresult, cuMemsetD32Async, (CUdeviceptr to, unsigned value, size_t n, CUstream stream))               \
    F(CUresult, cuStreamCreate, (CUstream * stream, unsigned flags))                                         \
    F(CUresult, cuStreamDestroy_v2, (CUstream stream))                                                       \
    F(CUresult, cuStreamGetCtx, (CUstream stream, CUcontext *context))                                       \
    F(CUresult, cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags))                         \
    F(CUresult, cuStreamWriteValue32_v2, (CUstream stream, CUdeviceptr at, uint32_t value, unsigned flags))  \
    F(CUresult, cuLaunchHostFunc, (CUstream stream, CUhostFn function, void *argument))                      \
    F(CUresult, cuEventCreate, (CUevent * event, unsigned flags))                                            \
    F(CUresult, cuEventDestroy_v2, (CUevent event))                                                          \
    F(CUresult, cuEventRecord, (CUevent event, CUstream stream))                                             \
    F(CUresult, cuEventQuery, (CUevent event))                                                               \
    F(CUresult, cuEventSynchronize, (CUevent event))                                                         \
    F(CUresult, cuModuleLoadDataEx,                                                                          \
      (CUmodule * module, const void *image, unsigned n_options, CUjit_option *options, void **values))      \
    F(CUresult, cuModuleUnload, (CUmodule module))                                                           \
    F(CUresult, cuModuleGetFunction, (CUfunction * function, CUmodule module, const char *name))             \
    F(CUresult, cuLaunchKernel,                                                                              \
      (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,             \
       unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void **parameters,        \
       void **extra))

/** Functions that Yoke calls if the driver has them. cuFuncLoad is of CUDA 12.4. */
#define YOKEI_CUDA_NEWER_FUNCTIONS(F)                                                                        \
    F(CUresult, cuFuncLoad, (CUfunction function))                                                           \
    F(CUresult, cuEventElapsedTime, (float *milliseconds, CUevent from, CUevent to))

/**
 * All functions of libnvrtc that Yoke calls. The newest are nvrtcGetSupportedArchs and nvrtcGetCUBIN, of
 * 11.2.
 */
#define YOKEI_NVRTC_FUNCTIONS(F)                                                                             \
    F(nvrtcResult, nvrtcVersion, (int *major, int *minor))                                                   \
    F(const char *, nvrtcGetErrorString, (nvrtcResult error))                                                \
    F(nvrtcResult, nvrtcGetNumSupportedArchs, (int *n))                                                      \
    F(nvrtcResult, nvrtcGetSupportedArchs, (int *architectures))                                             \
    F(nvrtcResult, nvrtcCreateProgram,                                                                       \
      (nvrtcProgram * program, const char *text, const char *name, int n_headers,                            \
       const char *const *headers, const char *const *header_names))                                         \
    F(nvrtcResult, nvrtcCompileProgram, (nvrtcProgram program, int n_options, const char *const *options))   \
    F(nvrtcResult, nvrtcGetProgramLogSize, (nvrtcProgram program, size_t *bytes))                            \
    F(nvrtcResult, nvrtcGetProgramLog, (nvrtcProgram program, char *log))                                    \
    F(nvrtcResult, nvrtcGetPTXSize, (nvrtcProgram program, size_t *bytes))                                   \
    F(nvrtcResult, nvrtcGetPTX, (nvrtcProgram program, char *ptx))                                           \
    F(nvrtcResult, nvrtcGetCUBINSize, (nvrtcProgram program, size_t *bytes))                                 \
    F(nvrtcResult, nvrtcGetCUBIN, (nvrtcProgram program, char *cubin))                                       \
    F(nvrtcResult, nvrtcDestroyProgram, (nvrtcProgram * program))
/* clang-format on */

#endif
