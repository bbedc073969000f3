/* SPDX-License-Identifier: Apache-2.0 */
/* HIP's calls for memory, copies and fills. */
#include "emulate/hip/hip.h"

static uint64_t address_of(const void *pointer) { return (uint64_t)(uintptr_t)pointer; }

hipError_t hipMemGetInfo(size_t *free_out, size_t *total_out)
{
    return hip_result(emulate_call_free_memory(free_out, total_out));
}

hipError_t hipMalloc(void **address_out, size_t bytes)
{
    uint64_t address;
    if (address_out && !bytes) { /* this is no error in HIP */
        *address_out = NULL;
        return hip_result(EMULATE_OK);
    }
    const enum emulate_error error = emulate_call_device_take("hipMalloc", bytes,
                                                              address_out ? &address : NULL);
    if (!error) *address_out = (void *)(uintptr_t)address;
    return hip_result(error);
}

hipError_t hipFree(void *address)
{
    return hip_result(emulate_call_device_give("hipFree", address_of(address)));
}

/*
 * Without a flag memory is coherent. With flags it is coherent if one of them asks for this, or maps the
 * memory, unless a flag asks for the contrary. Otherwise HIP_HOST_COHERENT decides, which is 0 by default.
 */
static bool is_coherent(unsigned flags)
{
    if (flags & hipHostMallocNonCoherent) return false;
    return !flags || flags & (hipHostMallocCoherent | hipHostMallocMapped | hipHostMallocNumaUser);
}

hipError_t hipHostMalloc(void **memory_out, size_t bytes, unsigned int flags)
{
    const unsigned known = hipHostMallocPortable | hipHostMallocMapped | hipHostMallocWriteCombined
                           | hipHostMallocNumaUser | hipHostMallocCoherent | hipHostMallocNonCoherent;
    const unsigned both = hipHostMallocCoherent | hipHostMallocNonCoherent;
    if (flags & ~known || (flags & both) == both) return hip_result(EMULATE_INVALID_VALUE);
    return hip_result(emulate_call_pinned_take("hipHostMalloc", bytes, is_coherent(flags), memory_out));
}

hipError_t hipHostFree(void *memory)
{
    return hip_result(memory ? emulate_call_pinned_give("hipHostFree", memory) : EMULATE_OK);
}

hipError_t hipHostRegister(void *memory, size_t bytes, unsigned int flags)
{
    return hip_result(emulate_call_register("hipHostRegister", memory, flags & ~15u ? 0 : bytes));
}

hipError_t hipHostUnregister(void *memory)
{
    return hip_result(emulate_call_unregister("hipHostUnregister", memory));
}

/* ---- what a pointer is ---- */

hipError_t hipHostGetDevicePointer(void **address_out, void *memory, unsigned int flags)
{
    struct pointer pointer;
    const enum emulate_error error = emulate_call_host_pointer(
        "hipHostGetDevicePointer", address_out && !flags ? memory : NULL, &pointer);
    if (!error) *address_out = (void *)(uintptr_t)pointer.device_address;
    return hip_result(error);
}

hipError_t hipMemGetAddressRange(hipDeviceptr_t *base_out, size_t *bytes_out, hipDeviceptr_t address)
{
    uint64_t base, bytes;
    const enum emulate_error error = emulate_call_range(address_of(address), &base, &bytes);
    if (!error && base_out) *base_out = (hipDeviceptr_t)(uintptr_t)base;
    if (!error && bytes_out) *bytes_out = bytes;
    return hip_result(error);
}

/* Before version 6 the types of memory had other numbers, and other memory was an error. */
hipError_t hipPointerGetAttributes(hipPointerAttribute_t *attributes_out, const void *address)
{
    enum { OLD_HOST = 0, OLD_DEVICE = 1, UNREGISTERED = 0, HOST = 1, DEVICE = 2 };
    const bool is_old = hip_settings.major < 6;
    struct pointer pointer;
    if (!attributes_out) return hip_result(EMULATE_INVALID_VALUE);
    const enum emulate_error error = emulate_call_pointer(address_of(address), &pointer);
    if (error && (error != EMULATE_INVALID_VALUE || is_old)) return hip_result(error);
    *attributes_out = (hipPointerAttribute_t){ .type = UNREGISTERED };
    if (error) return hip_result(EMULATE_OK);
    const bool is_device = pointer.owner != NULL;
    attributes_out->type = is_old ? (is_device ? OLD_DEVICE : OLD_HOST) : is_device ? DEVICE : HOST;
    attributes_out->device = is_device ? pointer.owner->ordinal : 0;
    attributes_out->devicePointer = (void *)(uintptr_t)pointer.device_address;
    attributes_out->hostPointer = is_device ? NULL : (void *)(uintptr_t)address_of(address);
    return hip_result(EMULATE_OK);
}

/* ---- copies ---- */

/* hipMemcpyDefault and a copy between host memory say nothing of the two sides. */
static hipError_t copy_kind(void *to, const void *from, size_t bytes, hipMemcpyKind kind, hipStream_t stream,
                            unsigned flags)
{
    static const unsigned sides[] = { [hipMemcpyHostToDevice] = COPY_TO_DEVICE,
                                      [hipMemcpyDeviceToHost] = COPY_FROM_DEVICE,
                                      [hipMemcpyDeviceToDevice] = COPY_TO_DEVICE | COPY_FROM_DEVICE,
                                      [hipMemcpyDefault] = 0 };
    if ((int)kind < 0 || kind > hipMemcpyDefault) return hip_result(EMULATE_INVALID_VALUE);
    return hip_result(
        emulate_call_copy(stream, address_of(to), address_of(from), bytes, sides[kind] | flags));
}

hipError_t hipMemcpy(void *to, const void *from, size_t bytes, hipMemcpyKind kind)
{
    return copy_kind(to, from, bytes, kind, NULL, COPY_WAITS);
}

hipError_t hipMemcpyAsync(void *to, const void *from, size_t bytes, hipMemcpyKind kind, hipStream_t stream)
{
    return copy_kind(to, from, bytes, kind, stream, 0);
}

hipError_t hipMemcpyHtoD(hipDeviceptr_t to, void *from, size_t bytes)
{
    return copy_kind(to, from, bytes, hipMemcpyHostToDevice, NULL, COPY_WAITS);
}

hipError_t hipMemcpyDtoH(void *to, hipDeviceptr_t from, size_t bytes)
{
    return copy_kind(to, from, bytes, hipMemcpyDeviceToHost, NULL, COPY_WAITS);
}

hipError_t hipMemcpyHtoDAsync(hipDeviceptr_t to, void *from, size_t bytes, hipStream_t stream)
{
    return copy_kind(to, from, bytes, hipMemcpyHostToDevice, stream, 0);
}

hipError_t hipMemcpyDtoHAsync(void *to, hipDeviceptr_t from, size_t bytes, hipStream_t stream)
{
    return copy_kind(to, from, bytes, hipMemcpyDeviceToHost, stream, 0);
}

hipError_t hipMemcpyDtoDAsync(hipDeviceptr_t to, hipDeviceptr_t from, size_t bytes, hipStream_t stream)
{
    return copy_kind(to, from, bytes, hipMemcpyDeviceToDevice, stream, 0);
}

hipError_t hipMemsetAsync(void *to, int value, size_t bytes, hipStream_t stream)
{
    return hip_result(emulate_call_fill(stream, address_of(to), (unsigned char)value, 1, bytes));
}

hipError_t hipMemsetD8Async(hipDeviceptr_t to, unsigned char value, size_t n, hipStream_t stream)
{
    return hip_result(emulate_call_fill(stream, address_of(to), value, 1, n));
}

hipError_t hipMemsetD32Async(hipDeviceptr_t to, int value, size_t n, hipStream_t stream)
{
    return hip_result(emulate_call_fill(stream, address_of(to), (uint32_t)value, 4, n));
}
