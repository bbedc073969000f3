/* SPDX-License-Identifier: Apache-2.0 */
/** The calls of libcuda that the code in backends/gpu/runtime makes, and the meaning of its errors. */
#include "backends/cuda/cuda.h"

static const struct cuda_device *cuda_of(const struct yokei_rt *rt) { return (const struct cuda_device *)rt; }
static const struct cuda_library *cu_of(const struct yokei_rt *rt) { return cuda_of(rt)->cu; }
static CUdeviceptr at(const void *address) { return (CUdeviceptr)(uintptr_t)address; }

/* ---- memory ---- */

static int mem_alloc(const struct yokei_rt *rt, void **address, size_t bytes)
{
    CUdeviceptr found = 0;
    const CUresult error = cu_of(rt)->cuMemAlloc_v2(&found, bytes);
    *address = (void *)(uintptr_t)found;
    return error;
}

static int mem_free(const struct yokei_rt *rt, void *address) { return cu_of(rt)->cuMemFree_v2(at(address)); }

static int mem_info(const struct yokei_rt *rt, size_t *free_bytes, size_t *total)
{
    return cu_of(rt)->cuMemGetInfo_v2(free_bytes, total);
}

static int mem_range(const struct yokei_rt *rt, const void *address, void **base, size_t *bytes)
{
    CUdeviceptr found = 0;
    const CUresult error = cu_of(rt)->cuMemGetAddressRange_v2(&found, bytes, at(address));
    *base = (void *)(uintptr_t)found;
    return error;
}

static int pinned_alloc(const struct yokei_rt *rt, enum yokei_rt_pinned kind, size_t bytes, void **host,
                        void **address)
{
    CUdeviceptr found = 0;
    (void)kind; /* all pinned memory is coherent */
    CUresult error = cu_of(rt)->cuMemHostAlloc(host, bytes,
                                               CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    if (!error) error = cu_of(rt)->cuMemHostGetDevicePointer_v2(&found, *host, 0);
    *address = (void *)(uintptr_t)found;
    return error;
}

static int pinned_free(const struct yokei_rt *rt, void *host) { return cu_of(rt)->cuMemFreeHost(host); }

static int host_lock(const struct yokei_rt *rt, void *memory, size_t bytes)
{
    return cu_of(rt)->cuMemHostRegister_v2(memory, bytes, CU_MEMHOSTREGISTER_PORTABLE);
}

static int host_unlock(const struct yokei_rt *rt, void *memory)
{
    return cu_of(rt)->cuMemHostUnregister(memory);
}

/*
 * An attribute of an address. For an address that CUDA does not know, the call gives 0 and no error. So a
 * tool that reports the errors of the driver, such as compute-sanitizer, has nothing to report.
 */
static CUresult pointer_attribute(const struct yokei_rt *rt, CUpointer_attribute attribute,
                                  const void *address, void *value)
{
    return cu_of(rt)->cuPointerGetAttributes(1, &attribute, &value, at(address));
}

static enum yokei_rt_place place(const struct yokei_rt *rt, const void *address)
{
    unsigned type = 0;
    if (pointer_attribute(rt, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address, &type)) return YOKEI_RT_NOWHERE;
    return type == CU_MEMORYTYPE_HOST     ? YOKEI_RT_ON_HOST
           : type == CU_MEMORYTYPE_DEVICE ? YOKEI_RT_ON_DEVICE
                                          : YOKEI_RT_NOWHERE;
}

static bool is_of_other(const struct yokei_rt *rt, const void *address)
{
    CUcontext context = NULL;
    return !pointer_attribute(rt, CU_POINTER_ATTRIBUTE_CONTEXT, address, &context) && context
           && context != cuda_of(rt)->context;
}

/* ---- commands of a queue ---- */

static int copy_in(const struct yokei_rt *rt, void *to, const void *from, size_t bytes, void *queue)
{
    return cu_of(rt)->cuMemcpyHtoDAsync_v2(at(to), from, bytes, queue);
}

static int copy_out(const struct yokei_rt *rt, void *to, const void *from, size_t bytes, void *queue)
{
    return cu_of(rt)->cuMemcpyDtoHAsync_v2(to, at(from), bytes, queue);
}

static int copy_on(const struct yokei_rt *rt, void *to, const void *from, size_t bytes, void *queue)
{
    return cu_of(rt)->cuMemcpyDtoDAsync_v2(at(to), at(from), bytes, queue);
}

static int fill(const struct yokei_rt *rt, void *to, uint8_t byte, size_t bytes, void *queue)
{
    return cu_of(rt)->cuMemsetD8Async(at(to), byte, bytes, queue);
}

/* cuStreamWriteValue32_v2 has no flag that leaves its fence out (cuda.h of CUDA 13). */
static int write_word(const struct yokei_rt *rt, void *word, uint32_t number, void *queue)
{
    return cu_of(rt)->cuStreamWriteValue32_v2(queue, at(word), number, CU_STREAM_WRITE_VALUE_DEFAULT);
}

static int fill_word(const struct yokei_rt *rt, void *word, uint32_t number, void *queue)
{
    return cu_of(rt)->cuMemsetD32Async(at(word), number, 1, queue);
}

static int call_host(const struct yokei_rt *rt, void *queue, void (*function)(void *), void *argument)
{
    return cu_of(rt)->cuLaunchHostFunc(queue, function, argument);
}

static int launch(const struct yokei_rt *rt, void *kernel, const struct yokei_gpu_grid *grid, void *queue,
                  void **parameters)
{
    return cu_of(rt)->cuLaunchKernel(kernel, (unsigned)grid->groups[0], (unsigned)grid->groups[1],
                                     (unsigned)grid->groups[2], (unsigned)grid->group, 1, 1, 0, queue,
                                     parameters, NULL);
}

/* ---- queues and events ---- */

static int queue_create(const struct yokei_rt *rt, void **queue)
{
    CUstream made = NULL;
    const CUresult error = cu_of(rt)->cuStreamCreate(&made, CU_STREAM_NON_BLOCKING);
    *queue = made;
    return error;
}

static int queue_destroy(const struct yokei_rt *rt, void *queue)
{
    return cu_of(rt)->cuStreamDestroy_v2(queue);
}

static int queue_is_other(const struct yokei_rt *rt, void *queue, bool *other)
{
    CUcontext context = NULL;
    const CUresult error = cu_of(rt)->cuStreamGetCtx(queue, &context);
    *other = context != cuda_of(rt)->context;
    return error;
}

static int event_create(const struct yokei_rt *rt, enum yokei_rt_event kind, void **event)
{
    static const unsigned flags[] = { [YOKEI_RT_ORDERS] = CU_EVENT_DISABLE_TIMING,
                                      [YOKEI_RT_TIMED] = 0,
                                      [YOKEI_RT_SLEEPS] = CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC };
    CUevent made = NULL;
    const CUresult error = cu_of(rt)->cuEventCreate(&made, flags[kind]);
    *event = made;
    return error;
}

static int event_destroy(const struct yokei_rt *rt, void *event)
{
    return cu_of(rt)->cuEventDestroy_v2(event);
}

static int event_record(const struct yokei_rt *rt, void *event, void *queue)
{
    return cu_of(rt)->cuEventRecord(event, queue);
}

static int event_query(const struct yokei_rt *rt, void *event) { return cu_of(rt)->cuEventQuery(event); }

static int event_sync(const struct yokei_rt *rt, void *event) { return cu_of(rt)->cuEventSynchronize(event); }

static int event_wait(const struct yokei_rt *rt, void *queue, void *event)
{
    return cu_of(rt)->cuStreamWaitEvent(queue, event, 0);
}

static int event_elapsed(const struct yokei_rt *rt, float *milliseconds, void *from, void *to)
{
    if (!cu_of(rt)->cuEventElapsedTime) return CUDA_ERROR_NOT_SUPPORTED;
    return cu_of(rt)->cuEventElapsedTime(milliseconds, from, to);
}

/* ---- modules ---- */

static int kernel(const struct yokei_rt *rt, void *module, const char *name, void **kernel_out)
{
    CUfunction found = NULL;
    CUresult error = cu_of(rt)->cuModuleGetFunction(&found, module, name);
    /*
     * Otherwise the driver loads the kernel at its first launch, which may have to wait for the device.
     * Drivers without this function load it in cuModuleGetFunction.
     */
    if (!error && cu_of(rt)->cuFuncLoad) error = cu_of(rt)->cuFuncLoad(found);
    *kernel_out = found;
    return error;
}

static int module_unload(const struct yokei_rt *rt, void *module)
{
    return cu_of(rt)->cuModuleUnload(module);
}

/* ---- the context ---- */

static int set_current(const struct yokei_rt *rt) { return cu_of(rt)->cuCtxSetCurrent(cuda_of(rt)->context); }

static int set_none(const struct yokei_rt *rt) { return cu_of(rt)->cuCtxSetCurrent(NULL); }

static int get_current(const struct yokei_rt *rt, bool *is_current)
{
    CUcontext current = NULL;
    const CUresult error = cu_of(rt)->cuCtxGetCurrent(&current);
    *is_current = current == cuda_of(rt)->context;
    return error;
}

static int push_current(const struct yokei_rt *rt)
{
    return cu_of(rt)->cuCtxPushCurrent_v2(cuda_of(rt)->context);
}

static int pop_current(const struct yokei_rt *rt)
{
    CUcontext context;
    return cu_of(rt)->cuCtxPopCurrent_v2(&context);
}

/* ---- errors ---- */

static const char *error_name(const struct yokei_rt *rt, int error)
{
    return yokei_cuda_error_name(cu_of(rt), error);
}

static const char *error_text(const struct yokei_rt *rt, int error)
{
    const char *text = NULL;
    return !cu_of(rt)->cuGetErrorString(error, &text) && text ? text : "no text";
}

bool yokei_cuda_is_fatal(CUresult error)
{
    switch (error) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_TENSOR_MEMORY_LEAK:
    case CUDA_ERROR_MPS_CLIENT_TERMINATED:
    case CUDA_ERROR_EXTERNAL_DEVICE:
    case CUDA_ERROR_UNKNOWN: return true;
    default: return false;
    }
}

static enum yokei_rt_meaning meaning(int error)
{
    switch (error) {
    case CUDA_ERROR_OUT_OF_MEMORY: return YOKEI_RT_NO_MEMORY;
    case CUDA_ERROR_INVALID_VALUE: return YOKEI_RT_BAD_VALUE;
    case CUDA_ERROR_NOT_READY: return YOKEI_RT_NOT_READY;
    case CUDA_ERROR_NOT_SUPPORTED: return YOKEI_RT_NOT_SUPPORTED;
    default: return yokei_cuda_is_fatal(error) ? YOKEI_RT_FATAL : YOKEI_RT_OTHER;
    }
}

/** What a user can look at, for errors whose text by the driver does not say it. */
static const char *error_advice(int error)
{
    switch (error) {
    case CUDA_ERROR_UNKNOWN:
        return "The driver names no cause. The lines 'NVRM: Xid' of dmesg, and nvidia-smi, say whether the GPU "
               "has failed or is gone. ";
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
        return "This is an error of the hardware: see nvidia-smi -q, and the lines 'NVRM: Xid' of dmesg. ";
    case CUDA_ERROR_MPS_CLIENT_TERMINATED:
        return "NVIDIA's service MPS has ended this process, perhaps because another client of the GPU failed. ";
    default: return "";
    }
}

/* clang-format off */
#define NAMED(slot, call) .slot = slot, .names.slot = call
const struct yokei_rt_calls yokei_cuda_calls = {
    .name = "CUDA",
    .blocking = "CUDA_LAUNCH_BLOCKING",
    NAMED(mem_alloc, "cuMemAlloc"), NAMED(mem_free, "cuMemFree"), NAMED(mem_info, "cuMemGetInfo"),
    NAMED(mem_range, "cuMemGetAddressRange"), NAMED(pinned_alloc, "cuMemHostAlloc"),
    NAMED(pinned_free, "cuMemFreeHost"), NAMED(host_lock, "cuMemHostRegister"),
    NAMED(host_unlock, "cuMemHostUnregister"), NAMED(copy_in, "cuMemcpyHtoDAsync"),
    NAMED(copy_out, "cuMemcpyDtoHAsync"), NAMED(copy_on, "cuMemcpyDtoDAsync"), NAMED(fill, "cuMemsetD8Async"),
    NAMED(call_host, "cuLaunchHostFunc"), NAMED(queue_create, "cuStreamCreate"),
    NAMED(queue_is_other, "cuStreamGetCtx"), NAMED(event_create, "cuEventCreate"),
    NAMED(event_record, "cuEventRecord"), NAMED(event_sync, "cuEventSynchronize"),
    NAMED(event_wait, "cuStreamWaitEvent"), NAMED(event_elapsed, "cuEventElapsedTime"),
    NAMED(kernel, "cuModuleGetFunction"), NAMED(launch, "cuLaunchKernel"),
    .queue_destroy = queue_destroy, .event_destroy = event_destroy, .event_query = event_query,
    .write_word = write_word, .fill_word = fill_word, .module_unload = module_unload,
    .set_current = set_current, .set_none = set_none, .get_current = get_current,
    .push_current = push_current, .pop_current = pop_current,
    .error_name = error_name, .error_text = error_text, .error_advice = error_advice, .meaning = meaning,
    .place = place, .is_of_other = is_of_other, .load = yokei_cuda_load,
};
/* clang-format on */
