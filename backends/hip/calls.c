/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The calls of libamdhip64 that the code in backends/gpu/runtime makes, and the meaning of HIP's errors.
 *
 * HIP has a current device for each thread, and no stack of contexts. A call makes the device current, and
 * afterwards the thread's own one again.
 *
 * The slots of copies are not coherent, so the GPU may cache them. What the GPU has written is visible to
 * the host behind an event with hipEventReleaseToSystem. All events of Yoke have this flag, because memory of
 * the caller may be non-coherent, too. HIP does not document that a function which a queue calls sees what
 * the queue has written. So a queue records an event before such a function reads a slot
 * (`slots_are_cached`). What a function writes is visible to the commands behind it, because HIP puts
 * barriers with fences of system scope around the function.
 *
 * The words of queues are coherent. The host reads a word while its queue runs, and after an error, when no
 * call synchronises any more.
 */
#include <stdlib.h>

#include "backends/hip/hip.h"

static const struct hip_device *hip_of(const struct yokei_rt *rt) { return (const struct hip_device *)rt; }
static const struct hip_library *lib_of(const struct yokei_rt *rt) { return hip_of(rt)->hip; }

/*
 * HIP keeps the last error of each thread. Another library of the thread, such as PyTorch, may ask for it
 * after a call of its own, and shall not find an error that Yoke has already handled.
 */
static int handled(const struct yokei_rt *rt, hipError_t error)
{
    if (error && !yokei_hip_is_fatal(error)) lib_of(rt)->hipGetLastError();
    return error;
}

/* ---- memory ---- */

static int mem_alloc(const struct yokei_rt *rt, void **address, size_t bytes)
{
    return handled(rt, lib_of(rt)->hipMalloc(address, bytes));
}

static int mem_free(const struct yokei_rt *rt, void *address) { return lib_of(rt)->hipFree(address); }

static int mem_info(const struct yokei_rt *rt, size_t *free_bytes, size_t *total)
{
    return lib_of(rt)->hipMemGetInfo(free_bytes, total);
}

static int mem_range(const struct yokei_rt *rt, const void *address, void **base, size_t *bytes)
{
    return lib_of(rt)->hipMemGetAddressRange(base, bytes, (void *)(uintptr_t)address);
}

static int pinned_alloc(const struct yokei_rt *rt, enum yokei_rt_pinned kind, size_t bytes, void **host,
                        void **address)
{
    /* hipHostMallocMapped makes memory coherent. HIP maps all pinned memory without this flag, too. */
    const unsigned flags = kind == YOKEI_RT_SLOTS ? hipHostMallocNonCoherent
                                                  : hipHostMallocMapped | hipHostMallocCoherent;
    const hipError_t error = lib_of(rt)->hipHostMalloc(host, bytes, hipHostMallocPortable | flags);
    *address = *host; /* the same on all GPUs of ROCm */
    return error || !lib_of(rt)->hipHostGetDevicePointer
               ? error
               : lib_of(rt)->hipHostGetDevicePointer(address, *host, 0);
}

static int pinned_free(const struct yokei_rt *rt, void *host) { return lib_of(rt)->hipHostFree(host); }

static int host_lock(const struct yokei_rt *rt, void *memory, size_t bytes)
{
    return handled(rt, lib_of(rt)->hipHostRegister(memory, bytes,
                                                   hipHostRegisterPortable | hipHostRegisterMapped));
}

static int host_unlock(const struct yokei_rt *rt, void *memory)
{
    return lib_of(rt)->hipHostUnregister(memory);
}

/* What the library knows of an address. False: nothing. */
static bool attributes_of(const struct yokei_rt *rt, const void *address, hipPointerAttribute_t *out)
{
    *out = (hipPointerAttribute_t){ .type = -1 };
    return !handled(rt, lib_of(rt)->hipPointerGetAttributes(out, address));
}

static enum yokei_rt_place place(const struct yokei_rt *rt, const void *address)
{
    const struct hip_version *numbers = lib_of(rt)->numbers;
    hipPointerAttribute_t found;
    if (!attributes_of(rt, address, &found)) return YOKEI_RT_NOWHERE;
    return found.type == numbers->on_host     ? YOKEI_RT_ON_HOST
           : found.type == numbers->on_device ? YOKEI_RT_ON_DEVICE
                                              : YOKEI_RT_NOWHERE;
}

static bool is_of_other(const struct yokei_rt *rt, const void *address)
{
    hipPointerAttribute_t found;
    return attributes_of(rt, address, &found) && found.device != hip_of(rt)->id;
}

/* ---- commands of a queue ---- */

static int copy_in(const struct yokei_rt *rt, void *to, const void *from, size_t bytes, void *queue)
{
    return lib_of(rt)->hipMemcpyAsync(to, from, bytes, hipMemcpyHostToDevice, queue);
}

static int copy_out(const struct yokei_rt *rt, void *to, const void *from, size_t bytes, void *queue)
{
    return lib_of(rt)->hipMemcpyAsync(to, from, bytes, hipMemcpyDeviceToHost, queue);
}

static int copy_on(const struct yokei_rt *rt, void *to, const void *from, size_t bytes, void *queue)
{
    return lib_of(rt)->hipMemcpyAsync(to, from, bytes, hipMemcpyDeviceToDevice, queue);
}

static int fill(const struct yokei_rt *rt, void *to, uint8_t byte, size_t bytes, void *queue)
{
    return lib_of(rt)->hipMemsetAsync(to, byte, bytes, queue);
}

static int write_word(const struct yokei_rt *rt, void *word, uint32_t number, void *queue)
{
    const struct hip_library *hip = lib_of(rt);
    return hip->hipStreamWriteValue32 ? handled(rt, hip->hipStreamWriteValue32(queue, word, number, 0))
                                      : hipErrorNotSupported;
}

static int fill_word(const struct yokei_rt *rt, void *word, uint32_t number, void *queue)
{
    return lib_of(rt)->hipMemsetD32Async(word, (int)number, 1, queue);
}

struct call {
    void (*function)(void *);
    void *argument;
};

static void call_back(hipStream_t stream, hipError_t error, void *argument)
{
    struct call *call = argument;
    (void)stream;
    (void)error; /* the data of a failed stream is not used, and the slots stay in order */
    call->function(call->argument);
    free(call);
}

/* Before ROCm 5.3 a queue calls the host only with its stream and error. */
static int call_host(const struct yokei_rt *rt, void *queue, void (*function)(void *), void *argument)
{
    const struct hip_library *hip = lib_of(rt);
    if (hip->hipLaunchHostFunc) return hip->hipLaunchHostFunc(queue, function, argument);
    struct call *call = malloc(sizeof *call);
    if (!call) return hipErrorOutOfMemory;
    *call = (struct call){ function, argument };
    const hipError_t failed = hip->hipStreamAddCallback(queue, call_back, call, 0);
    if (failed) free(call);
    return failed;
}

static int launch(const struct yokei_rt *rt, void *kernel, const struct yokei_gpu_grid *grid, void *queue,
                  void **parameters)
{
    return lib_of(rt)->hipModuleLaunchKernel(kernel, (unsigned)grid->groups[0], (unsigned)grid->groups[1],
                                             (unsigned)grid->groups[2], (unsigned)grid->group, 1, 1, 0, queue,
                                             parameters, NULL);
}

/* ---- queues and events ---- */

static int queue_create(const struct yokei_rt *rt, void **queue)
{
    hipStream_t made = NULL;
    const hipError_t error = lib_of(rt)->hipStreamCreateWithFlags(&made, hipStreamNonBlocking);
    *queue = made;
    return error;
}

static int queue_destroy(const struct yokei_rt *rt, void *queue)
{
    return lib_of(rt)->hipStreamDestroy(queue);
}

/* Libraries without this function cannot tell, and then the caller is trusted. */
static int queue_is_other(const struct yokei_rt *rt, void *queue, bool *other)
{
    int device = hip_of(rt)->id;
    const hipError_t error = lib_of(rt)->hipStreamGetDevice ? lib_of(rt)->hipStreamGetDevice(queue, &device)
                                                            : hipSuccess;
    *other = device != hip_of(rt)->id;
    return error;
}

static int event_create(const struct yokei_rt *rt, enum yokei_rt_event kind, void **event)
{
    static const unsigned flags[] = { [YOKEI_RT_ORDERS] = hipEventDisableTiming,
                                      [YOKEI_RT_TIMED] = 0,
                                      [YOKEI_RT_SLEEPS] = hipEventDisableTiming | hipEventBlockingSync };
    hipEvent_t made = NULL;
    const hipError_t error = lib_of(rt)->hipEventCreateWithFlags(&made,
                                                                 flags[kind] | hipEventReleaseToSystem);
    *event = made;
    return error;
}

static int event_destroy(const struct yokei_rt *rt, void *event)
{
    return lib_of(rt)->hipEventDestroy(event);
}

static int event_record(const struct yokei_rt *rt, void *event, void *queue)
{
    return lib_of(rt)->hipEventRecord(event, queue);
}

/* Versions before 6 also keep hipErrorNotReady. */
static int event_query(const struct yokei_rt *rt, void *event)
{
    return handled(rt, lib_of(rt)->hipEventQuery(event));
}

static int event_sync(const struct yokei_rt *rt, void *event)
{
    return lib_of(rt)->hipEventSynchronize(event);
}

static int event_wait(const struct yokei_rt *rt, void *queue, void *event)
{
    return lib_of(rt)->hipStreamWaitEvent(queue, event, 0);
}

static int event_elapsed(const struct yokei_rt *rt, float *milliseconds, void *from, void *to)
{
    return lib_of(rt)->hipEventElapsedTime(milliseconds, from, to);
}

/* ---- modules ---- */

static int kernel(const struct yokei_rt *rt, void *module, const char *name, void **kernel_out)
{
    hipFunction_t found = NULL;
    const hipError_t error = lib_of(rt)->hipModuleGetFunction(&found, module, name);
    *kernel_out = found;
    return error;
}

static int module_unload(const struct yokei_rt *rt, void *module)
{
    return lib_of(rt)->hipModuleUnload(module);
}

/* ---- the current device ---- */

/* The device of this thread before the last push_current. */
static _Thread_local int before;

static int set_current(const struct yokei_rt *rt) { return lib_of(rt)->hipSetDevice(hip_of(rt)->id); }

/* A thread always has a device. */
static int set_none(const struct yokei_rt *rt)
{
    (void)rt;
    return hipSuccess;
}

static int get_current(const struct yokei_rt *rt, bool *is_current)
{
    int device = -1;
    const hipError_t error = lib_of(rt)->hipGetDevice(&device);
    *is_current = device == hip_of(rt)->id;
    return error;
}

static int push_current(const struct yokei_rt *rt)
{
    const hipError_t error = lib_of(rt)->hipGetDevice(&before);
    return error ? error : lib_of(rt)->hipSetDevice(hip_of(rt)->id);
}

static int pop_current(const struct yokei_rt *rt) { return lib_of(rt)->hipSetDevice(before); }

/* ---- errors ---- */

static const char *error_name(const struct yokei_rt *rt, int error)
{
    const char *name = lib_of(rt)->hipGetErrorName(error);
    return name ? name : "an unlisted error";
}

static const char *error_text(const struct yokei_rt *rt, int error)
{
    const char *text = lib_of(rt)->hipGetErrorString(error);
    return text ? text : "no text";
}

bool yokei_hip_is_fatal(hipError_t error)
{
    switch (error) {
    case hipErrorECCNotCorrectable:
    case hipErrorIllegalAddress:
    case hipErrorLaunchTimeOut:
    case hipErrorContextIsDestroyed:
    case hipErrorAssert:
    case hipErrorLaunchFailure:
    case hipErrorUnknown: return true;
    default: return false;
    }
}

static enum yokei_rt_meaning meaning(int error)
{
    switch (error) {
    case hipErrorOutOfMemory: return YOKEI_RT_NO_MEMORY;
    case hipErrorInvalidValue: return YOKEI_RT_BAD_VALUE;
    case hipErrorNotReady: return YOKEI_RT_NOT_READY;
    case hipErrorNotSupported: return YOKEI_RT_NOT_SUPPORTED;
    default: return yokei_hip_is_fatal(error) ? YOKEI_RT_FATAL : YOKEI_RT_OTHER;
    }
}

static const char *error_advice(int error)
{
    switch (error) {
    case hipErrorUnknown:
        return "HIP names no cause. The lines of amdgpu in dmesg, and rocm-smi, say whether the GPU has failed "
               "or was reset. ";
    case hipErrorECCNotCorrectable:
        return "This is an error of the hardware: see rocm-smi --showrasinfo, and the lines of amdgpu in dmesg. ";
    default: return "";
    }
}

/* clang-format off */
#define NAMED(slot, call) .slot = slot, .names.slot = call
const struct yokei_rt_calls yokei_hip_calls = {
    .name = "HIP",
    .slots_are_cached = true,
    .blocking = "HIP_LAUNCH_BLOCKING",
    NAMED(mem_alloc, "hipMalloc"), NAMED(mem_free, "hipFree"), NAMED(mem_info, "hipMemGetInfo"),
    NAMED(mem_range, "hipMemGetAddressRange"), NAMED(pinned_alloc, "hipHostMalloc"),
    NAMED(pinned_free, "hipHostFree"), NAMED(host_lock, "hipHostRegister"),
    NAMED(host_unlock, "hipHostUnregister"), NAMED(copy_in, "hipMemcpyAsync"),
    NAMED(copy_out, "hipMemcpyAsync"), NAMED(copy_on, "hipMemcpyAsync"), NAMED(fill, "hipMemsetAsync"),
    NAMED(call_host, "hipLaunchHostFunc"), NAMED(queue_create, "hipStreamCreateWithFlags"),
    NAMED(queue_is_other, "hipStreamGetDevice"), NAMED(event_create, "hipEventCreateWithFlags"),
    NAMED(event_record, "hipEventRecord"), NAMED(event_sync, "hipEventSynchronize"),
    NAMED(event_wait, "hipStreamWaitEvent"), NAMED(event_elapsed, "hipEventElapsedTime"),
    NAMED(kernel, "hipModuleGetFunction"), NAMED(launch, "hipModuleLaunchKernel"),
    .queue_destroy = queue_destroy, .event_destroy = event_destroy, .event_query = event_query,
    .write_word = write_word, .fill_word = fill_word, .module_unload = module_unload,
    .set_current = set_current, .set_none = set_none, .get_current = get_current,
    .push_current = push_current, .pop_current = pop_current,
    .error_name = error_name, .error_text = error_text, .error_advice = error_advice, .meaning = meaning,
    .place = place, .is_of_other = is_of_other, .load = yokei_hip_load,
};
/* clang-format on */
