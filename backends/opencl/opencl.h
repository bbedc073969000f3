/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The OpenCL driver: the declarations that its files share. libOpenCL is opened at run time, and no symbol of
 * it is linked.
 */
#ifndef BACKENDS_OPENCL_OPENCL_H
#define BACKENDS_OPENCL_OPENCL_H

#define CL_TARGET_OPENCL_VERSION 200
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <CL/cl_ext.h>

#include "backends/gpu/driver.h"

/* ---- library.c ---- */
/* clang-format off */
#define OPENCL_FUNCTIONS(F) \
    F(clGetPlatformIDs) F(clGetPlatformInfo) F(clGetDeviceIDs) F(clGetDeviceInfo) F(clCreateContext) \
    F(clRetainContext) \
    F(clReleaseContext) F(clCreateCommandQueue) F(clRetainCommandQueue) F(clReleaseCommandQueue) \
    F(clGetCommandQueueInfo) F(clCreateBuffer) F(clRetainMemObject) F(clReleaseMemObject) \
    F(clGetMemObjectInfo) \
    F(clCreateProgramWithSource) F(clCreateProgramWithBinary) F(clBuildProgram) F(clReleaseProgram) \
    F(clGetProgramInfo) \
    F(clGetProgramBuildInfo) F(clCreateKernel) F(clReleaseKernel) F(clSetKernelArg) \
    F(clEnqueueNDRangeKernel) \
    F(clEnqueueReadBuffer) F(clEnqueueWriteBuffer) F(clEnqueueCopyBuffer) F(clEnqueueFillBuffer) \
    F(clEnqueueMarkerWithWaitList) F(clEnqueueBarrierWithWaitList) F(clGetEventInfo) F(clReleaseEvent) \
    F(clRetainEvent) \
    F(clCreateUserEvent) F(clSetUserEventStatus) F(clSetEventCallback) F(clFlush) F(clFinish)
/* clang-format on */
/* Functions of OpenCL 2.0. Old loaders lack them, and devices then have no shared virtual memory. */
/* clang-format off */
#define OPENCL_SVM_FUNCTIONS(F) \
    F(clSVMAlloc) F(clSVMFree) F(clSetKernelArgSVMPointer) F(clEnqueueSVMMemcpy) F(clEnqueueSVMMemFill)
/* clang-format on */

struct opencl_library {
#define OPENCL_SLOT(name) __typeof__(name) *name;
    OPENCL_FUNCTIONS(OPENCL_SLOT)
    OPENCL_SVM_FUNCTIONS(OPENCL_SLOT)
#undef OPENCL_SLOT
    bool has_svm;
};

/** The library, which is opened once per process. NULL if there is none, with the cause in `reason`. */
const struct opencl_library *yokei_opencl_library(char *reason, size_t bytes);

/** YOKE_ENODEV in a process that was forked from the one that opened the library. */
yoke_status yokei_opencl_check_process(int index);

/** The name of an error code: "CL_OUT_OF_RESOURCES", … */
const char *yokei_opencl_error_name(cl_int error);
/** Record that `call` failed, with the status that fits the error code. */
yoke_status yokei_opencl_fail(const yoke_device *device, const char *call, cl_int error);

/* ---- addresses.c: a reserved range of addresses, for device memory that has none of its own ---- */
struct opencl_allocation {
    uintptr_t start;
    size_t bytes;
    cl_mem buffer; /* NULL: the memory is shared virtual memory, and its address is real */
    bool foreign;
};
struct opencl_addresses {
    pthread_rwlock_t lock;
    struct opencl_allocation *table; /* sorted by start */
    int n, capacity;
    uintptr_t range; /* a range of addresses at which nothing is mapped; 0 until the first one is needed */
    size_t range_bytes;
};
void yokei_opencl_addresses_create(struct opencl_addresses *addresses);
void yokei_opencl_addresses_destroy(struct opencl_addresses *addresses);
/** Add an allocation. A `buffer` gets an address in the range. Shared virtual memory has its own address. */
yoke_status yokei_opencl_addresses_add(struct opencl_addresses *addresses,
                                       struct opencl_allocation allocation, void **address_out);
/** Remove the allocation that begins at `address`. Returns false if there is none. */
bool yokei_opencl_addresses_remove(struct opencl_addresses *addresses, const void *address,
                                   struct opencl_allocation *out);
/**
 * Find the allocation that contains `address` (its end included), and the offset of `address` in it. Returns
 * false if there is none.
 */
bool yokei_opencl_addresses_find(const struct opencl_addresses *addresses, const void *address,
                                 struct opencl_allocation *out, size_t *offset_out);
/** Whether an address lies in the range. It then stands for a buffer. */
static inline bool yokei_opencl_in_range(const struct opencl_addresses *addresses, const void *address)
{
    return (uintptr_t)address - addresses->range < addresses->range_bytes;
}

/* ---- the objects ---- */
enum { OPENCL_YES = 1, OPENCL_NO };
struct opencl_device {
    struct yokei_gpu_device gpu; /* the first member, see driver.h */
    const struct opencl_library *cl;
    cl_device_id id;
    cl_context context;
    bool svm;            /* memory is fine-grained shared virtual memory */
    bool unified;        /* the device and the host share one memory */
    atomic_int builtins; /* whether it knows those of CPUs: OPENCL_YES, OPENCL_NO, or 0 before the trial */
    bool exact_division; /* the compiler has the option -cl-fp32-correctly-rounded-divide-sqrt */
    struct opencl_addresses addresses;
    char *pocl_cache; /* PoCL's folder of compiled programs; NULL: another platform's device */
};
static inline struct opencl_device *opencl_device(const yoke_device *device) { return device->impl; }

struct opencl_pending {
    cl_event event;
    const char *op;
    bool waits; /* for an event of yoke_stream_wait */
};
struct opencl_stream {
    cl_command_queue queue;
    bool is_foreign;                /* the caller created the queue */
    struct opencl_pending *pending; /* commands whose end has not been checked yet, the oldest first */
    int n_pending, capacity;
    const char *failed_op; /* the op of the first asynchronous error that has not been reported */
    cl_int failed;
    cl_event held; /* the newest event of the host for which a command may wait; NULL: none */
};
static inline struct opencl_stream *opencl_stream(const yoke_stream *stream) { return stream->impl; }

/** Note that a command of the stream may wait for this event, which the host will signal: stream.c. */
void yokei_opencl_hold(yoke_stream *stream, cl_event event);

/* ---- pending.c: commands whose end has not been seen yet ---- */
/**
 * Keep a command's event until the end of the command has been seen. The function takes over the caller's
 * reference.
 */
yoke_status yokei_opencl_pend(yoke_stream *stream, cl_event event);
/** Whether a command may still wait for an event that the host signals. */
bool yokei_opencl_awaits_host(yoke_stream *stream);
/** Check the oldest commands. `all`: the queue has been waited for, so all commands have ended. */
void yokei_opencl_reap(yoke_stream *stream, bool all);
/** An asynchronous error of earlier work. It is reported once. */
yoke_status yokei_opencl_pending_error(yoke_stream *stream);

/* ---- pocl.c: PoCL's folder of compiled programs. Both functions do nothing on other platforms ---- */
/**
 * Look through the folder once in a process, and remove files that would end it. One line in the log says so.
 * YOKE_EIO: such a file cannot be removed, or the folder cannot be written.
 */
yoke_status yokei_opencl_pocl_check(const yoke_device *device);
/**
 * YOKE_EIO if the folder cannot be written, or has too little room for a program. PoCL would end the process.
 */
yoke_status yokei_opencl_pocl_writable(const yoke_device *device);

/* ---- memory.c, stream.c, event.c, program.c ---- */
extern const struct yoke_memory_ops yokei_opencl_memory_ops;
extern const struct yoke_stream_ops yokei_opencl_stream_ops;
extern const struct yoke_event_ops yokei_opencl_event_ops;
extern const struct yokei_gpu_driver yokei_opencl_driver;

#endif
