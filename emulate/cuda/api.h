/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The part of NVIDIA's driver interface that the stand-in driver has, as CUDA 12 and 13 declare it. Names
 * are the literal symbols of libcuda.so.1, such as cuMemAlloc_v2. The header needs no CUDA toolkit. A test
 * includes cuda.h before this header, and then the compiler compares each prototype and each value with
 * NVIDIA's.
 *
 * Source: CUDA Driver API reference, docs.nvidia.com/cuda/cuda-driver-api.
 */
#ifndef EMULATE_CUDA_API_H
#define EMULATE_CUDA_API_H

#include <stddef.h>
#include <stdint.h>

/* Name, value, and the text of cuGetErrorString. */
#define EMULATE_ERRORS(X)                                                                            \
    X(CUDA_SUCCESS, 0, "no error")                                                                   \
    X(CUDA_ERROR_INVALID_VALUE, 1, "invalid argument")                                               \
    X(CUDA_ERROR_OUT_OF_MEMORY, 2, "out of memory")                                                  \
    X(CUDA_ERROR_NOT_INITIALIZED, 3, "initialization error")                                         \
    X(CUDA_ERROR_DEINITIALIZED, 4, "driver shutting down")                                           \
    X(CUDA_ERROR_STUB_LIBRARY, 34, "CUDA driver is a stub library")                                  \
    X(CUDA_ERROR_DEVICE_UNAVAILABLE, 46, "CUDA-capable device(s) is/are busy or unavailable")        \
    X(CUDA_ERROR_NO_DEVICE, 100, "no CUDA-capable device is detected")                               \
    X(CUDA_ERROR_INVALID_DEVICE, 101, "invalid device ordinal")                                      \
    X(CUDA_ERROR_INVALID_IMAGE, 200, "device kernel image is invalid")                               \
    X(CUDA_ERROR_INVALID_CONTEXT, 201, "invalid device context")                                     \
    X(CUDA_ERROR_NO_BINARY_FOR_GPU, 209, "no kernel image is available for execution on the device") \
    X(CUDA_ERROR_ECC_UNCORRECTABLE, 214, "uncorrectable ECC error encountered")                      \
    X(CUDA_ERROR_INVALID_PTX, 218, "a PTX JIT compilation failed")                                   \
    X(CUDA_ERROR_JIT_COMPILER_NOT_FOUND, 221, "PTX JIT compiler library not found")                  \
    X(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, 222,                                                       \
      "the provided PTX was compiled with an unsupported toolchain.")                                \
    X(CUDA_ERROR_OPERATING_SYSTEM, 304, "OS call failed or operation not supported on this OS")      \
    X(CUDA_ERROR_INVALID_HANDLE, 400, "invalid resource handle")                                     \
    X(CUDA_ERROR_NOT_FOUND, 500, "named symbol not found")                                           \
    X(CUDA_ERROR_NOT_READY, 600, "device not ready")                                                 \
    X(CUDA_ERROR_ILLEGAL_ADDRESS, 700, "an illegal memory access was encountered")                   \
    X(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, 701, "too many resources requested for launch")            \
    X(CUDA_ERROR_LAUNCH_TIMEOUT, 702, "the launch timed out and was terminated")                     \
    X(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, 708, "cannot set while device is active in this process")   \
    X(CUDA_ERROR_CONTEXT_IS_DESTROYED, 709, "context is destroyed")                                  \
    X(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, 712,                                                \
      "part or all of the requested memory range is already mapped")                                 \
    X(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, 713,                                                    \
      "pointer does not correspond to a registered memory region")                                   \
    X(CUDA_ERROR_MISALIGNED_ADDRESS, 716, "misaligned address")                                      \
    X(CUDA_ERROR_LAUNCH_FAILED, 719, "unspecified launch failure")                                   \
    X(CUDA_ERROR_NOT_PERMITTED, 800, "operation not permitted")                                      \
    X(CUDA_ERROR_NOT_SUPPORTED, 801, "operation not supported")                                      \
    X(CUDA_ERROR_UNKNOWN, 999, "unknown error")

/* Other constants of the interface: name, value. */
#define EMULATE_VALUES(X)                                    \
    X(CU_CTX_FLAGS_MASK, 0xFF)                               \
    X(CU_STREAM_NON_BLOCKING, 1)                             \
    X(CU_EVENT_BLOCKING_SYNC, 1)                             \
    X(CU_EVENT_DISABLE_TIMING, 2)                            \
    X(CU_EVENT_INTERPROCESS, 4)                              \
    X(CU_STREAM_WAIT_VALUE_GEQ, 0)                           \
    X(CU_STREAM_WAIT_VALUE_EQ, 1)                            \
    X(CU_STREAM_WAIT_VALUE_AND, 2)                           \
    X(CU_STREAM_WAIT_VALUE_NOR, 3)                           \
    X(CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER, 1)            \
    X(CU_MEMORYTYPE_HOST, 1)                                 \
    X(CU_MEMORYTYPE_DEVICE, 2)                               \
    X(CU_POINTER_ATTRIBUTE_CONTEXT, 1)                       \
    X(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 2)                   \
    X(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, 3)                \
    X(CU_POINTER_ATTRIBUTE_HOST_POINTER, 4)                  \
    X(CU_POINTER_ATTRIBUTE_BUFFER_ID, 7)                     \
    X(CU_POINTER_ATTRIBUTE_IS_MANAGED, 8)                    \
    X(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, 9)                \
    X(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, 11)             \
    X(CU_POINTER_ATTRIBUTE_RANGE_SIZE, 12)                   \
    X(CU_POINTER_ATTRIBUTE_MAPPED, 13)                       \
    X(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 0)            \
    X(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, 1)                \
    X(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, 2)                 \
    X(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, 3)                 \
    X(CU_FUNC_ATTRIBUTE_NUM_REGS, 4)                         \
    X(CU_FUNC_ATTRIBUTE_PTX_VERSION, 5)                      \
    X(CU_FUNC_ATTRIBUTE_BINARY_VERSION, 6)                   \
    X(CU_FUNC_ATTRIBUTE_CACHE_MODE_CA, 7)                    \
    X(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 8)    \
    X(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 9) \
    X(CU_JIT_INFO_LOG_BUFFER, 3)                             \
    X(CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, 4)                  \
    X(CU_JIT_ERROR_LOG_BUFFER, 5)                            \
    X(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, 6)                 \
    X(CU_GET_PROC_ADDRESS_SUCCESS, 0)                        \
    X(CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND, 1)               \
    X(CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT, 2)

#ifndef __cuda_cuda_h__ /* NVIDIA's own header comes first in the test that compares the two */
enum {
#define EMULATE_ERROR_VALUE(name, value, text) name = value,
#define EMULATE_VALUE(name, value) name = value,
    EMULATE_ERRORS(EMULATE_ERROR_VALUE) EMULATE_VALUES(EMULATE_VALUE)
#undef EMULATE_ERROR_VALUE
#undef EMULATE_VALUE
};
#define CU_MEMHOSTALLOC_PORTABLE 1
#define CU_MEMHOSTALLOC_DEVICEMAP 2
#define CU_MEMHOSTALLOC_WRITECOMBINED 4
#define CU_MEMHOSTREGISTER_PORTABLE 1
#define CU_MEMHOSTREGISTER_DEVICEMAP 2
#define CU_MEMHOSTREGISTER_READ_ONLY 8
#define CU_LAUNCH_PARAM_END ((void *)0)
#define CU_LAUNCH_PARAM_BUFFER_POINTER ((void *)1)
#define CU_LAUNCH_PARAM_BUFFER_SIZE ((void *)2)
#define CU_STREAM_LEGACY ((CUstream)0x1)
#define CU_STREAM_PER_THREAD ((CUstream)0x2)
/*
 * An enum of NVIDIA's interface is passed as an int is; ours are ints, so that a value beyond the enum
 * can be refused.
 */
typedef int CUresult, CUdevice_attribute, CUpointer_attribute, CUfunction_attribute, CUjit_option;
typedef int CUdriverProcAddressQueryResult;
typedef uint32_t cuuint32_t;
typedef uint64_t cuuint64_t;
typedef unsigned long long CUdeviceptr;
typedef int CUdevice;
typedef struct context *CUcontext;
typedef struct module *CUmodule;
typedef struct function *CUfunction;
typedef struct stream *CUstream;
typedef struct event *CUevent;
typedef struct CUuuid_st {
    char bytes[16];
} CUuuid;
typedef void (*CUhostFn)(void *user_data);
#endif

/*
 * Every function: the name without a version, the CUDA version (1000 * major + 10 * minor) from which
 * cuGetProcAddress gives the function for this name, and the symbol.
 */
#define EMULATE_CALLS(X)                                                \
    X(cuInit, 2000, cuInit)                                             \
    X(cuDriverGetVersion, 2020, cuDriverGetVersion)                     \
    X(cuGetErrorName, 6000, cuGetErrorName)                             \
    X(cuGetErrorString, 6000, cuGetErrorString)                         \
    X(cuGetProcAddress, 12000, cuGetProcAddress_v2)                     \
    X(cuDeviceGetCount, 2000, cuDeviceGetCount)                         \
    X(cuDeviceGet, 2000, cuDeviceGet)                                   \
    X(cuDeviceGetName, 2000, cuDeviceGetName)                           \
    X(cuDeviceGetUuid, 11040, cuDeviceGetUuid_v2)                       \
    X(cuDeviceTotalMem, 3020, cuDeviceTotalMem_v2)                      \
    X(cuDeviceGetAttribute, 2000, cuDeviceGetAttribute)                 \
    X(cuDeviceGetPCIBusId, 4010, cuDeviceGetPCIBusId)                   \
    X(cuDeviceCanAccessPeer, 4000, cuDeviceCanAccessPeer)               \
    X(cuDevicePrimaryCtxRetain, 7000, cuDevicePrimaryCtxRetain)         \
    X(cuDevicePrimaryCtxRelease, 11000, cuDevicePrimaryCtxRelease_v2)   \
    X(cuDevicePrimaryCtxGetState, 7000, cuDevicePrimaryCtxGetState)     \
    X(cuDevicePrimaryCtxSetFlags, 11000, cuDevicePrimaryCtxSetFlags_v2) \
    X(cuDevicePrimaryCtxReset, 11000, cuDevicePrimaryCtxReset_v2)       \
    X(cuCtxPushCurrent, 4000, cuCtxPushCurrent_v2)                      \
    X(cuCtxPopCurrent, 4000, cuCtxPopCurrent_v2)                        \
    X(cuCtxSetCurrent, 4000, cuCtxSetCurrent)                           \
    X(cuCtxGetCurrent, 4000, cuCtxGetCurrent)                           \
    X(cuCtxGetDevice, 2000, cuCtxGetDevice)                             \
    X(cuCtxSynchronize, 2000, cuCtxSynchronize)                         \
    X(cuCtxGetStreamPriorityRange, 5050, cuCtxGetStreamPriorityRange)   \
    X(cuMemGetInfo, 3020, cuMemGetInfo_v2)                              \
    X(cuMemAlloc, 3020, cuMemAlloc_v2)                                  \
    X(cuMemFree, 3020, cuMemFree_v2)                                    \
    X(cuMemHostAlloc, 2020, cuMemHostAlloc)                             \
    X(cuMemFreeHost, 2000, cuMemFreeHost)                               \
    X(cuMemHostRegister, 6050, cuMemHostRegister_v2)                    \
    X(cuMemHostUnregister, 4000, cuMemHostUnregister)                   \
    X(cuMemHostGetDevicePointer, 3020, cuMemHostGetDevicePointer_v2)    \
    X(cuPointerGetAttribute, 4000, cuPointerGetAttribute)               \
    X(cuPointerGetAttributes, 7000, cuPointerGetAttributes)             \
    X(cuMemGetAddressRange, 3020, cuMemGetAddressRange_v2)              \
    X(cuMemcpyAsync, 4000, cuMemcpyAsync)                               \
    X(cuMemcpyHtoDAsync, 3020, cuMemcpyHtoDAsync_v2)                    \
    X(cuMemcpyDtoHAsync, 3020, cuMemcpyDtoHAsync_v2)                    \
    X(cuMemcpyDtoDAsync, 3020, cuMemcpyDtoDAsync_v2)                    \
    X(cuMemcpyHtoD, 3020, cuMemcpyHtoD_v2)                              \
    X(cuMemcpyDtoH, 3020, cuMemcpyDtoH_v2)                              \
    X(cuMemsetD8Async, 3020, cuMemsetD8Async)                           \
    X(cuMemsetD32Async, 3020, cuMemsetD32Async)                         \
    X(cuStreamCreate, 2000, cuStreamCreate)                             \
    X(cuStreamCreateWithPriority, 5050, cuStreamCreateWithPriority)     \
    X(cuStreamDestroy, 4000, cuStreamDestroy_v2)                        \
    X(cuStreamSynchronize, 2000, cuStreamSynchronize)                   \
    X(cuStreamQuery, 2000, cuStreamQuery)                               \
    X(cuStreamWaitEvent, 3020, cuStreamWaitEvent)                       \
    X(cuStreamWaitValue32, 11070, cuStreamWaitValue32_v2)               \
    X(cuStreamWriteValue32, 11070, cuStreamWriteValue32_v2)             \
    X(cuStreamGetCtx, 9020, cuStreamGetCtx)                             \
    X(cuStreamGetFlags, 5050, cuStreamGetFlags)                         \
    X(cuLaunchHostFunc, 10000, cuLaunchHostFunc)                        \
    X(cuEventCreate, 2000, cuEventCreate)                               \
    X(cuEventRecord, 2000, cuEventRecord)                               \
    X(cuEventQuery, 2000, cuEventQuery)                                 \
    X(cuEventSynchronize, 2000, cuEventSynchronize)                     \
    X(cuEventElapsedTime, 2000, cuEventElapsedTime)                     \
    X(cuEventElapsedTime, 12080, cuEventElapsedTime_v2)                 \
    X(cuEventDestroy, 4000, cuEventDestroy_v2)                          \
    X(cuModuleLoadData, 2000, cuModuleLoadData)                         \
    X(cuModuleLoadDataEx, 2010, cuModuleLoadDataEx)                     \
    X(cuModuleUnload, 2000, cuModuleUnload)                             \
    X(cuModuleGetFunction, 2000, cuModuleGetFunction)                   \
    X(cuFuncLoad, 12040, cuFuncLoad)                                    \
    X(cuFuncGetAttribute, 2020, cuFuncGetAttribute)                     \
    X(cuFuncSetAttribute, 9000, cuFuncSetAttribute)                     \
    X(cuLaunchKernel, 4000, cuLaunchKernel)                             \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050, cuOccupancyMaxActiveBlocksPerMultiprocessor)

CUresult cuInit(unsigned int flags);
CUresult cuDriverGetVersion(int *version_out);
CUresult cuGetErrorName(CUresult error, const char **name_out);
CUresult cuGetErrorString(CUresult error, const char **text_out);
CUresult cuGetProcAddress_v2(const char *symbol, void **function_out, int cuda_version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status_out);

CUresult cuDeviceGetCount(int *count_out);
CUresult cuDeviceGet(CUdevice *device_out, int ordinal);
CUresult cuDeviceGetName(char *name_out, int bytes, CUdevice device);
CUresult cuDeviceGetUuid_v2(CUuuid *uuid_out, CUdevice device);
CUresult cuDeviceTotalMem_v2(size_t *bytes_out, CUdevice device);
CUresult cuDeviceGetAttribute(int *value_out, CUdevice_attribute attribute, CUdevice device);
CUresult cuDeviceGetPCIBusId(char *id_out, int bytes, CUdevice device);
CUresult cuDeviceCanAccessPeer(int *can_out, CUdevice device, CUdevice peer);

CUresult cuDevicePrimaryCtxRetain(CUcontext *context_out, CUdevice device);
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device);
CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags_out, int *active_out);
CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags);
CUresult cuDevicePrimaryCtxReset_v2(CUdevice device);
CUresult cuCtxPushCurrent_v2(CUcontext context);
CUresult cuCtxPopCurrent_v2(CUcontext *context_out);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuCtxGetCurrent(CUcontext *context_out);
CUresult cuCtxGetDevice(CUdevice *device_out);
CUresult cuCtxSynchronize(void);
CUresult cuCtxGetStreamPriorityRange(int *least_out, int *greatest_out);

CUresult cuMemGetInfo_v2(size_t *free_out, size_t *total_out);
CUresult cuMemAlloc_v2(CUdeviceptr *address_out, size_t bytes);
CUresult cuMemFree_v2(CUdeviceptr address);
CUresult cuMemHostAlloc(void **memory_out, size_t bytes, unsigned int flags);
CUresult cuMemFreeHost(void *memory);
CUresult cuMemHostRegister_v2(void *memory, size_t bytes, unsigned int flags);
CUresult cuMemHostUnregister(void *memory);
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *address_out, void *memory, unsigned int flags);
CUresult cuPointerGetAttribute(void *value_out, CUpointer_attribute attribute, CUdeviceptr address);
CUresult cuPointerGetAttributes(unsigned n, CUpointer_attribute *attributes, void **values_out,
                                CUdeviceptr address);
CUresult cuMemGetAddressRange_v2(CUdeviceptr *base_out, size_t *bytes_out, CUdeviceptr address);

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream);
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream);
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes);
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes);
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t n, CUstream stream);
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t n, CUstream stream);

CUresult cuStreamCreate(CUstream *stream_out, unsigned int flags);
CUresult cuStreamCreateWithPriority(CUstream *stream_out, unsigned int flags, int priority);
CUresult cuStreamDestroy_v2(CUstream stream);
CUresult cuStreamSynchronize(CUstream stream);
CUresult cuStreamQuery(CUstream stream);
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags);
CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags);
CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags);
CUresult cuStreamGetCtx(CUstream stream, CUcontext *context_out);
CUresult cuStreamGetFlags(CUstream stream, unsigned int *flags_out);
CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *user_data);

CUresult cuEventCreate(CUevent *event_out, unsigned int flags);
CUresult cuEventRecord(CUevent event, CUstream stream);
CUresult cuEventQuery(CUevent event);
CUresult cuEventSynchronize(CUevent event);
CUresult cuEventElapsedTime(float *milliseconds_out, CUevent start, CUevent end);
CUresult cuEventElapsedTime_v2(float *milliseconds_out, CUevent start, CUevent end);
CUresult cuEventDestroy_v2(CUevent event);

CUresult cuModuleLoadData(CUmodule *module_out, const void *image);
CUresult cuModuleLoadDataEx(CUmodule *module_out, const void *image, unsigned int n_options,
                            CUjit_option *options, void **values);
CUresult cuModuleUnload(CUmodule module);
CUresult cuModuleGetFunction(CUfunction *function_out, CUmodule module, const char *name);
CUresult cuFuncLoad(CUfunction function);
CUresult cuFuncGetAttribute(int *value_out, CUfunction_attribute attribute, CUfunction function);
CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value);
CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                        unsigned int block_x, unsigned int block_y, unsigned int block_z,
                        unsigned int shared_bytes, CUstream stream, void **parameters, void **extra);
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks_out, CUfunction function, int block_threads,
                                                     size_t dynamic_shared_bytes);

#endif
