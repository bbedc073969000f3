/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The part of HIP's runtime interface that the stand-in libamdhip64 has, as HIP 5, 6 and 7 declare it. The
 * header needs no ROCm. A test includes hip_runtime_api.h before this header, and then the compiler compares
 * each prototype and each value with HIP's.
 *
 * Source: HIP Runtime API Reference, rocm.docs.amd.com/projects/HIP.
 */
#ifndef EMULATE_HIP_API_H
#define EMULATE_HIP_API_H

#include <stddef.h>
#include <stdint.h>

/* Name, value, and the text of hipGetErrorString. */
#define EMULATE_HIP_ERRORS(X)                                                                            \
    X(hipSuccess, 0, "no error")                                                                         \
    X(hipErrorInvalidValue, 1, "invalid argument")                                                       \
    X(hipErrorOutOfMemory, 2, "out of memory")                                                           \
    X(hipErrorNotInitialized, 3, "initialization error")                                                 \
    X(hipErrorNoDevice, 100, "no ROCm-capable device is detected")                                       \
    X(hipErrorInvalidDevice, 101, "invalid device ordinal")                                              \
    X(hipErrorInvalidImage, 200, "device kernel image is invalid")                                       \
    X(hipErrorInvalidContext, 201, "invalid device context")                                             \
    X(hipErrorNoBinaryForGpu, 209, "no kernel image is available for execution on the device")           \
    X(hipErrorECCNotCorrectable, 214, "uncorrectable ECC error encountered")                             \
    X(hipErrorInvalidHandle, 400, "invalid resource handle")                                             \
    X(hipErrorIllegalState, 401, "the operation cannot be performed in the present state")               \
    X(hipErrorNotFound, 500, "named symbol not found")                                                   \
    X(hipErrorNotReady, 600, "device not ready")                                                         \
    X(hipErrorIllegalAddress, 700, "an illegal memory access was encountered")                           \
    X(hipErrorLaunchOutOfResources, 701, "too many resources requested for launch")                      \
    X(hipErrorLaunchTimeOut, 702, "the launch timed out and was terminated")                             \
    X(hipErrorContextIsDestroyed, 709, "context is destroyed")                                           \
    X(hipErrorHostMemoryAlreadyRegistered, 712,                                                          \
      "part or all of the requested memory range is already mapped")                                     \
    X(hipErrorHostMemoryNotRegistered, 713, "pointer does not correspond to a registered memory region") \
    X(hipErrorLaunchFailure, 719, "unspecified launch failure")                                          \
    X(hipErrorNotSupported, 801, "operation not supported")                                              \
    X(hipErrorUnknown, 999, "unknown error")

/* Other constants of the interface that are the same in all versions: name, value. */
#define EMULATE_HIP_VALUES(X)                                    \
    X(hipMemcpyHostToHost, 0)                                    \
    X(hipMemcpyHostToDevice, 1)                                  \
    X(hipMemcpyDeviceToHost, 2)                                  \
    X(hipMemcpyDeviceToDevice, 3)                                \
    X(hipMemcpyDefault, 4)                                       \
    X(HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 0)               \
    X(HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, 1)                   \
    X(HIP_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, 2)                    \
    X(HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, 3)                    \
    X(HIP_FUNC_ATTRIBUTE_NUM_REGS, 4)                            \
    X(HIP_FUNC_ATTRIBUTE_PTX_VERSION, 5)                         \
    X(HIP_FUNC_ATTRIBUTE_BINARY_VERSION, 6)                      \
    X(HIP_FUNC_ATTRIBUTE_CACHE_MODE_CA, 7)                       \
    X(HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 8)       \
    X(HIP_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 9)    \
    X(hipDeviceAttributeEccEnabled, 0)                           \
    X(hipDeviceAttributeAsyncEngineCount, 2)                     \
    X(hipDeviceAttributeCanMapHostMemory, 3)                     \
    X(hipDeviceAttributeClockRate, 5)                            \
    X(hipDeviceAttributeComputeMode, 6)                          \
    X(hipDeviceAttributeConcurrentKernels, 8)                    \
    X(hipDeviceAttributeIntegrated, 16)                          \
    X(hipDeviceAttributeL2CacheSize, 19)                         \
    X(hipDeviceAttributeComputeCapabilityMajor, 23)              \
    X(hipDeviceAttributeMaxBlockDimX, 26)                        \
    X(hipDeviceAttributeMaxBlockDimY, 27)                        \
    X(hipDeviceAttributeMaxBlockDimZ, 28)                        \
    X(hipDeviceAttributeMaxGridDimX, 29)                         \
    X(hipDeviceAttributeMaxGridDimY, 30)                         \
    X(hipDeviceAttributeMaxGridDimZ, 31)                         \
    X(hipDeviceAttributeMaxThreadsPerBlock, 56)                  \
    X(hipDeviceAttributeMaxThreadsPerMultiProcessor, 57)         \
    X(hipDeviceAttributeMemoryBusWidth, 59)                      \
    X(hipDeviceAttributeMemoryClockRate, 60)                     \
    X(hipDeviceAttributeComputeCapabilityMinor, 61)              \
    X(hipDeviceAttributeMultiprocessorCount, 63)                 \
    X(hipDeviceAttributePciBusId, 67)                            \
    X(hipDeviceAttributePciDeviceId, 68)                         \
    X(hipDeviceAttributePciDomainID, 69)                         \
    X(hipDeviceAttributeMaxRegistersPerBlock, 71)                \
    X(hipDeviceAttributeMaxRegistersPerMultiprocessor, 72)       \
    X(hipDeviceAttributeMaxSharedMemoryPerBlock, 74)             \
    X(hipDeviceAttributeTotalConstantMemory, 83)                 \
    X(hipDeviceAttributeTotalGlobalMem, 84)                      \
    X(hipDeviceAttributeUnifiedAddressing, 85)                   \
    X(hipDeviceAttributeWarpSize, 87)                            \
    X(hipDeviceAttributeMaxSharedMemoryPerMultiprocessor, 10002) \
    X(hipDeviceAttributeIsLargeBar, 10011)                       \
    X(hipDeviceAttributeCanUseStreamWaitValue, 10013)            \
    X(hipDeviceAttributePhysicalMultiProcessorCount, 10015)      \
    X(hipDeviceAttributeFineGrainSupport, 10016)

/* Values that HIP's header has as macros: name, value. */
#define EMULATE_HIP_MACROS(X)                \
    X(hipStreamNonBlocking, 0x1)             \
    X(hipEventBlockingSync, 0x1)             \
    X(hipEventDisableTiming, 0x2)            \
    X(hipEventInterprocess, 0x4)             \
    X(hipEventReleaseToDevice, 0x40000000u)  \
    X(hipEventReleaseToSystem, 0x80000000u)  \
    X(hipHostMallocPortable, 0x1)            \
    X(hipHostMallocMapped, 0x2)              \
    X(hipHostMallocWriteCombined, 0x4)       \
    X(hipHostMallocNumaUser, 0x20000000u)    \
    X(hipHostMallocCoherent, 0x40000000u)    \
    X(hipHostMallocNonCoherent, 0x80000000u) \
    X(hipStreamWaitValueGte, 0x0)            \
    X(hipStreamWaitValueEq, 0x1)             \
    X(hipStreamWaitValueAnd, 0x2)            \
    X(hipStreamWaitValueNor, 0x3)

#ifndef HIP_INCLUDE_HIP_HIP_RUNTIME_API_H /* HIP's own header comes first in the test that compares the two */
enum {
#define EMULATE_HIP_ERROR_VALUE(name, value, text) name = value,
#define EMULATE_HIP_VALUE(name, value) name = value,
    EMULATE_HIP_ERRORS(EMULATE_HIP_ERROR_VALUE) EMULATE_HIP_VALUES(EMULATE_HIP_VALUE)
#undef EMULATE_HIP_ERROR_VALUE
#undef EMULATE_HIP_VALUE
};
#define hipStreamNonBlocking 0x1
#define hipEventBlockingSync 0x1
#define hipEventDisableTiming 0x2
#define hipEventInterprocess 0x4
#define hipEventReleaseToDevice 0x40000000u
#define hipEventReleaseToSystem 0x80000000u
#define hipHostMallocPortable 0x1
#define hipHostMallocMapped 0x2
#define hipHostMallocWriteCombined 0x4
#define hipHostMallocNumaUser 0x20000000u
#define hipHostMallocCoherent 0x40000000u
#define hipHostMallocNonCoherent 0x80000000u
#define hipStreamWaitValueGte 0x0
#define hipStreamWaitValueEq 0x1
#define hipStreamWaitValueAnd 0x2
#define hipStreamWaitValueNor 0x3
#define HIP_LAUNCH_PARAM_BUFFER_POINTER ((void *)1)
#define HIP_LAUNCH_PARAM_BUFFER_SIZE ((void *)2)
#define HIP_LAUNCH_PARAM_END ((void *)3)
/*
 * An enum of HIP's interface is passed as an int is; ours are ints, so that a value beyond the enum can be
 * refused.
 */
typedef int hipError_t, hipDevice_t, hipMemcpyKind, hipDeviceAttribute_t, hipFunction_attribute;
typedef void *hipDeviceptr_t;
typedef struct stream *hipStream_t;
typedef struct event *hipEvent_t;
typedef struct module *hipModule_t;
typedef struct function *hipFunction_t;
typedef void (*hipHostFn_t)(void *user_data);
typedef void (*hipStreamCallback_t)(hipStream_t stream, hipError_t status, void *user_data);
typedef struct hipUUID_t {
    char bytes[16];
} hipUUID;
/* What hipPointerGetAttributes fills. HIP 6 has other values of the type, see memory.c. */
typedef struct hipPointerAttribute_t {
    int type, device;
    void *devicePointer, *hostPointer;
    int isManaged;
    unsigned allocationFlags;
} hipPointerAttribute_t;
typedef struct hipDeviceProp_t hipDeviceProp_t; /* two layouts, see device.c */
#endif

hipError_t hipInit(unsigned int flags);
hipError_t hipDriverGetVersion(int *version_out);
hipError_t hipRuntimeGetVersion(int *version_out);
const char *hipGetErrorName(hipError_t error);
const char *hipGetErrorString(hipError_t error);
hipError_t hipGetLastError(void);
hipError_t hipPeekAtLastError(void);

hipError_t hipGetDeviceCount(int *count_out);
hipError_t hipSetDevice(int device);
hipError_t hipGetDevice(int *device_out);
hipError_t hipDeviceGet(hipDevice_t *device_out, int ordinal);
hipError_t hipDeviceGetName(char *name_out, int bytes, hipDevice_t device);
hipError_t hipDeviceGetUuid(hipUUID *uuid_out, hipDevice_t device);
hipError_t hipDeviceTotalMem(size_t *bytes_out, hipDevice_t device);
hipError_t hipDeviceGetAttribute(int *value_out, hipDeviceAttribute_t attribute, int device);
hipError_t hipDeviceGetPCIBusId(char *id_out, int bytes, int device);
hipError_t hipDeviceCanAccessPeer(int *can_out, int device, int peer);
hipError_t hipGetDeviceProperties(hipDeviceProp_t *properties_out, int device);
hipError_t hipDeviceSynchronize(void);
hipError_t hipDeviceReset(void);
hipError_t hipDeviceGetStreamPriorityRange(int *least_out, int *greatest_out);

hipError_t hipMemGetInfo(size_t *free_out, size_t *total_out);
hipError_t hipMalloc(void **address_out, size_t bytes);
hipError_t hipFree(void *address);
hipError_t hipHostMalloc(void **memory_out, size_t bytes, unsigned int flags);
hipError_t hipHostFree(void *memory);
hipError_t hipHostRegister(void *memory, size_t bytes, unsigned int flags);
hipError_t hipHostUnregister(void *memory);
hipError_t hipHostGetDevicePointer(void **address_out, void *memory, unsigned int flags);
hipError_t hipPointerGetAttributes(hipPointerAttribute_t *attributes_out, const void *address);
hipError_t hipMemGetAddressRange(hipDeviceptr_t *base_out, size_t *bytes_out, hipDeviceptr_t address);

hipError_t hipMemcpy(void *to, const void *from, size_t bytes, hipMemcpyKind kind);
hipError_t hipMemcpyAsync(void *to, const void *from, size_t bytes, hipMemcpyKind kind, hipStream_t stream);
hipError_t hipMemcpyHtoD(hipDeviceptr_t to, void *from, size_t bytes);
hipError_t hipMemcpyDtoH(void *to, hipDeviceptr_t from, size_t bytes);
hipError_t hipMemcpyHtoDAsync(hipDeviceptr_t to, void *from, size_t bytes, hipStream_t stream);
hipError_t hipMemcpyDtoHAsync(void *to, hipDeviceptr_t from, size_t bytes, hipStream_t stream);
hipError_t hipMemcpyDtoDAsync(hipDeviceptr_t to, hipDeviceptr_t from, size_t bytes, hipStream_t stream);
hipError_t hipMemsetAsync(void *to, int value, size_t bytes, hipStream_t stream);
hipError_t hipMemsetD8Async(hipDeviceptr_t to, unsigned char value, size_t n, hipStream_t stream);
hipError_t hipMemsetD32Async(hipDeviceptr_t to, int value, size_t n, hipStream_t stream);

hipError_t hipStreamCreate(hipStream_t *stream_out);
hipError_t hipStreamCreateWithFlags(hipStream_t *stream_out, unsigned int flags);
hipError_t hipStreamCreateWithPriority(hipStream_t *stream_out, unsigned int flags, int priority);
hipError_t hipStreamDestroy(hipStream_t stream);
hipError_t hipStreamSynchronize(hipStream_t stream);
hipError_t hipStreamQuery(hipStream_t stream);
hipError_t hipStreamGetFlags(hipStream_t stream, unsigned int *flags_out);
hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned int flags);
hipError_t hipStreamWaitValue32(hipStream_t stream, void *address, uint32_t value, unsigned int flags,
                                uint32_t mask);
hipError_t hipStreamWriteValue32(hipStream_t stream, void *address, uint32_t value, unsigned int flags);
hipError_t hipStreamAddCallback(hipStream_t stream, hipStreamCallback_t callback, void *user_data,
                                unsigned int flags);
hipError_t hipLaunchHostFunc(hipStream_t stream, hipHostFn_t function, void *user_data);

hipError_t hipEventCreate(hipEvent_t *event_out);
hipError_t hipEventCreateWithFlags(hipEvent_t *event_out, unsigned int flags);
hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream);
hipError_t hipEventQuery(hipEvent_t event);
hipError_t hipEventSynchronize(hipEvent_t event);
hipError_t hipEventElapsedTime(float *milliseconds_out, hipEvent_t start, hipEvent_t end);
hipError_t hipEventDestroy(hipEvent_t event);

hipError_t hipModuleLoadData(hipModule_t *module_out, const void *image);
hipError_t hipModuleUnload(hipModule_t module);
hipError_t hipModuleGetFunction(hipFunction_t *function_out, hipModule_t module, const char *name);
hipError_t hipFuncGetAttribute(int *value_out, hipFunction_attribute attribute, hipFunction_t function);
hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned int grid_x, unsigned int grid_y,
                                 unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                 unsigned int block_z, unsigned int shared_bytes, hipStream_t stream,
                                 void **parameters, void **extra);

/* The functions of HIP 6 and newer, which older headers do not declare. */
hipError_t hipGetDevicePropertiesR0600(void *properties_out, int device);
hipError_t hipStreamGetDevice(hipStream_t stream, hipDevice_t *device_out);

#endif
