/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA's calls for memory, copies and fills. */
#include <string.h>

#include "emulate/cuda/cuda.h"

CUresult cuMemGetInfo_v2(size_t *free_out, size_t *total_out)
{
    return emulate_call_free_memory(free_out, total_out);
}

CUresult cuMemAlloc_v2(CUdeviceptr *address_out, size_t bytes)
{
    uint64_t address;
    const CUresult result = emulate_call_device_take("cuMemAlloc", bytes, address_out ? &address : NULL);
    if (!result) *address_out = address;
    return result;
}

CUresult cuMemFree_v2(CUdeviceptr address) { return emulate_call_device_give("cuMemFree", address); }

CUresult cuMemHostAlloc(void **memory_out, size_t bytes, unsigned int flags)
{
    return emulate_call_pinned_take("cuMemHostAlloc", flags & ~7u ? 0 : bytes, true, memory_out);
}

CUresult cuMemFreeHost(void *memory) { return emulate_call_pinned_give("cuMemFreeHost", memory); }

CUresult cuMemHostRegister_v2(void *memory, size_t bytes, unsigned int flags)
{
    return emulate_call_register("cuMemHostRegister", memory, flags & ~15u ? 0 : bytes);
}

CUresult cuMemHostUnregister(void *memory) { return emulate_call_unregister("cuMemHostUnregister", memory); }

/* ---- what a pointer is ---- */

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *address_out, void *memory, unsigned int flags)
{
    struct pointer pointer;
    const CUresult result = emulate_call_host_pointer("cuMemHostGetDevicePointer",
                                                      address_out && !flags ? memory : NULL, &pointer);
    if (!result) *address_out = pointer.device_address;
    return result;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base_out, size_t *bytes_out, CUdeviceptr address)
{
    uint64_t base, bytes;
    const CUresult result = emulate_call_range(address, &base, &bytes);
    if (!result && base_out) *base_out = base;
    if (!result && bytes_out) *bytes_out = bytes;
    return result;
}

static CUresult describe(CUpointer_attribute attribute, CUdeviceptr address, const struct pointer *pointer,
                         void *value_out)
{
    struct context *owner = pointer->owner;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: *(CUcontext *)value_out = owner; break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)value_out = owner ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)value_out = pointer->device_address;
        return pointer->device_address ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (owner) return CUDA_ERROR_INVALID_VALUE;
        *(void **)value_out = (void *)(uintptr_t)address;
        break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: *(unsigned long long *)value_out = pointer->id; break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: *(unsigned *)value_out = 0; break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int *)value_out = owner ? owner->ordinal : 0; break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: *(CUdeviceptr *)value_out = pointer->base; break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *(size_t *)value_out = pointer->bytes; break;
    case CU_POINTER_ATTRIBUTE_MAPPED: *(unsigned *)value_out = 1; break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

static size_t bytes_of(CUpointer_attribute attribute)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: return 8;
    default: return 4;
    }
}

CUresult cuPointerGetAttribute(void *value_out, CUpointer_attribute attribute, CUdeviceptr address)
{
    struct pointer pointer;
    const CUresult result = emulate_call_pointer(address, &pointer);
    if (result) return result;
    return value_out ? describe(attribute, address, &pointer, value_out) : CUDA_ERROR_INVALID_VALUE;
}

/* Unlike the call above, this call gives 0 for what it does not know, and no error. */
CUresult cuPointerGetAttributes(unsigned n, CUpointer_attribute *attributes, void **values_out,
                                CUdeviceptr address)
{
    struct pointer pointer;
    const CUresult result = emulate_call_pointer(address, &pointer);
    const bool unknown = result == CUDA_ERROR_INVALID_VALUE;
    if (!n || !attributes || !values_out) return CUDA_ERROR_INVALID_VALUE;
    if (result && !unknown) return result;
    for (unsigned i = 0; i < n; i++) {
        if (!values_out[i]) return CUDA_ERROR_INVALID_VALUE;
        memset(values_out[i], 0, bytes_of(attributes[i]));
        if (!unknown) describe(attributes[i], address, &pointer, values_out[i]);
    }
    return CUDA_SUCCESS;
}

/* ---- copies ---- */

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return emulate_call_copy(stream, to, from, bytes, 0);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    return emulate_call_copy(stream, to, (CUdeviceptr)(uintptr_t)from, bytes, COPY_TO_DEVICE);
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return emulate_call_copy(stream, (CUdeviceptr)(uintptr_t)to, from, bytes, COPY_FROM_DEVICE);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return emulate_call_copy(stream, to, from, bytes, COPY_TO_DEVICE | COPY_FROM_DEVICE);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
    return emulate_call_copy(NULL, to, (CUdeviceptr)(uintptr_t)from, bytes, COPY_TO_DEVICE | COPY_WAITS);
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
    return emulate_call_copy(NULL, (CUdeviceptr)(uintptr_t)to, from, bytes, COPY_FROM_DEVICE | COPY_WAITS);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t n, CUstream stream)
{
    return emulate_call_fill(stream, to, value, 1, n);
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t n, CUstream stream)
{
    return emulate_call_fill(stream, to, value, 4, n);
}
