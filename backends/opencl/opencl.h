/* SPDX-License-Identifier: Apache-2.0 */
/** The OpenCL driver: what its files share. libOpenCL is opened at run time; no symbol of it is linked. */
#ifndef BACKENDS_OPENCL_OPENCL_H
#define BACKENDS_OPENCL_OPENCL_H

#define CL_TARGET_OPENCL_VERSION 200
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>

#include "backends/gpu/driver.h"

/* ---- library.c ---- */
#define OPENCL_FUNCTIONS(F)                                                                                            \
    F(clGetPlatformIDs) F(clGetPlatformInfo) F(clGetDeviceIDs) F(clGetDeviceInfo) F(clCreateContext) F(clRetainContext)  \
    F(clReleaseContext) F(clCreateCommandQueue) F(clRetainCommandQueue) F(clReleaseCommandQueue)                        \
    F(clGetCommandQueueInfo) F(clCreateBuffer) F(clRetainMemObject) F(clReleaseMemObject) F(clGetMemObjectInfo)         \
    F(clCreateProgramWithSource) F(clCreateProgramWithBinary) F(clBuildProgram) F(clReleaseProgram) F(clGetProgramInfo) \
    F(clGetProgramBuildInfo) F(clCreateKernel) F(clReleaseKernel) F(clSetKernelArg) F(clEnqueueNDRangeKernel)           \
    F(clEnqueueReadBuffer) F(clEnqueueWriteBuffer) F(clEnqueueCopyBuffer) F(clEnqueueFillBuffer)                        \
    F(clEnqueueMarkerWithWaitList) F(clEnqueueBarrierWithWaitList) F(clGetEventInfo) F(clReleaseEvent) F(clRetainEvent) \
    F(clCreateUserEvent) F(clSetUserEventStatus) F(clFlush) F(clFinish)
/* Of version 2.0: absent in old loaders, then devices have no shared virtual memory. */
#define OPENCL_SVM_FUNCTIONS(F) \
    F(clSVMAlloc) F(clSVMFree) F(clSetKernelArgSVMPointer) F(clEnqueueSVMMemcpy) F(clEnqueueSVMMemFill)

struct opencl_library {
#define OPENCL_SLOT(name) __typeof__(name) *name;
    OPENCL_FUNCTIONS(OPENCL_SLOT)
    OPENCL_SVM_FUNCTIONS(OPENCL_SLOT)
#undef OPENCL_SLOT
    bool has_svm;
};

/** The library, opened once per process; NULL, with why in `reason`, where there is none. */
const struct opencl_library *yokei_opencl_library(char *reason, size_t bytes);

/** "CL_OUT_OF_RESOURCES", … */
const char *yokei_opencl_error_name(cl_int error);
/** Record that `call` failed, by the status that fits the error code. */
yoke_status yokei_opencl_fail(const yoke_device *device, const char *call, cl_int error);

/* ---- addresses.c: device memory without addresses of its own, mapped into a reserved range ---- */
struct opencl_allocation {
    uintptr_t start;
    size_t bytes;
    cl_mem buffer; /* NULL: shared virtual memory, its address is real */
    bool foreign;
};
struct opencl_addresses {
    pthread_rwlock_t lock;
    struct opencl_allocation *table; /* sorted by start */
    int n, capacity;
    uintptr_t range;    /* of addresses that nothing is mapped at; 0 until the first is needed */
    size_t range_bytes;
};
void yokei_opencl_addresses_create(struct opencl_addresses *addresses);
void yokei_opencl_addresses_destroy(struct opencl_addresses *addresses);
/** Enter an allocation. A `buffer` gets an address in the range; shared virtual memory comes with its own. */
yoke_status yokei_opencl_addresses_add(struct opencl_addresses *addresses, struct opencl_allocation allocation, void **address_out);
/** Take out what begins at `address`; false when nothing does. */
bool yokei_opencl_addresses_remove(struct opencl_addresses *addresses, const void *address, struct opencl_allocation *out);
/** The allocation that `address` lies in (its end included), and how far inside; false when it lies in none. */
bool yokei_opencl_addresses_find(const struct opencl_addresses *addresses, const void *address,
                                 struct opencl_allocation *out, size_t *offset_out);
/** Whether an address lies in the range, so that it stands for a buffer. */
static inline bool yokei_opencl_in_range(const struct opencl_addresses *addresses, const void *address)
{
    return (uintptr_t)address - addresses->range < addresses->range_bytes;
}

/* ---- the objects ---- */
struct opencl_device {
    struct yokei_gpu_device gpu; /* first: see driver.h */
    const struct opencl_library *cl;
    cl_device_id id;
    cl_context context;
    bool svm;                    /* memory is shared virtual memory, fine-grained */
    bool unified;                /* device and host share one memory */
    bool exact_division;         /* the compiler knows -cl-fp32-correctly-rounded-divide-sqrt */
    struct opencl_addresses addresses;
};
static inline struct opencl_device *opencl_device(const yoke_device *device) { return device->impl; }

struct opencl_pending {
    cl_event event;
    const char *op;
};
struct opencl_stream {
    cl_command_queue queue;
    bool is_foreign; /* the caller made the queue */
    struct opencl_pending *pending; /* commands whose end has not been looked at, oldest first */
    int n_pending, capacity;
    const char *failed_op;          /* of the first asynchronous error that has not been reported */
    cl_int failed;
};
static inline struct opencl_stream *opencl_stream(const yoke_stream *stream) { return stream->impl; }

/* ---- stream.c ---- */
extern const struct yoke_stream_ops yokei_opencl_stream_ops;
/** Keep a command's event until its end has been seen. Takes the reference. */
yoke_status yokei_opencl_pend(yoke_stream *stream, cl_event event);
/** An asynchronous error of earlier work, reported once. */
yoke_status yokei_opencl_pending_error(yoke_stream *stream);

/* ---- memory.c, event.c, program.c ---- */
extern const struct yoke_memory_ops yokei_opencl_memory_ops;
yoke_status yokei_opencl_event_create(yoke_event *event);
void yokei_opencl_event_destroy(yoke_event *event);
yoke_status yokei_opencl_event_record(yoke_event *event, yoke_stream *stream);
yoke_status yokei_opencl_event_arm(yoke_event *event);
yoke_status yokei_opencl_event_signal(yoke_event *event);
yoke_status yokei_opencl_event_query(yoke_event *event, bool *complete_out);
yoke_status yokei_opencl_event_wait(yoke_stream *stream, yoke_event *event);
extern const struct yokei_gpu_driver yokei_opencl_driver;

#endif
