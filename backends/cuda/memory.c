/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Device memory: cuMemAlloc. The addresses are those of the device, so pointer arithmetic on them is legal.
 */
#include <stdlib.h>

#include "backends/cuda/cuda.h"

static yoke_status cuda_no_memory(const yoke_device *device, size_t bytes)
{
    const struct cuda_device *dev = cuda_device(device);
    size_t left = 0, total = 0;
    dev->cu->cuMemGetInfo_v2(&left, &total);
    return yoke_fail(YOKE_ENOMEM,
                     "%s: cannot allocate %zu bytes: %zu of %zu are free, and this process holds %zu of them",
                     device->info.spec, bytes, left, total, atomic_load(&device->allocated));
}

static yoke_status allocate_on_device(yoke_device *device, size_t bytes, CUdeviceptr *address_out)
{
    struct cuda_device *dev = cuda_device(device);
    const CUresult error = dev->cu->cuMemAlloc_v2(address_out, bytes);
    if (error == CUDA_ERROR_OUT_OF_MEMORY) return cuda_no_memory(device, bytes);
    if (error) return yokei_cuda_fail(device, "cuMemAlloc", error);
    const yoke_status status = yokei_live_add(&dev->owned, (void *)(uintptr_t)*address_out, bytes);
    if (status) dev->cu->cuMemFree_v2(*address_out);
    return status;
}

static yoke_status cuda_alloc(yoke_device *device, size_t bytes, void **address_out)
{
    CUdeviceptr address = 0;
    if (!bytes) bytes = 1;
    YOKE_TRY(yokei_cuda_enter(device));
    const yoke_status status = allocate_on_device(device, bytes, &address);
    yokei_cuda_leave(device);
    if (status) return status;
    yokei_account(device, (int64_t)bytes);
    *address_out = (void *)(uintptr_t)address;
    return YOKE_OK;
}

static void cuda_free(yoke_device *device, void *address)
{
    struct cuda_device *dev = cuda_device(device);
    size_t bytes = 0;
    /* an address that is wrapped twice, or wrapped and owned, was added last to the foreign ones */
    if (yokei_live_remove(&dev->foreign, address, NULL, NULL) == YOKEI_LIVE_IS) return;
    if (yokei_live_remove(&dev->owned, address, NULL, &bytes) != YOKEI_LIVE_IS) {
        yokei_gpu_log_bad_free(device, address);
        return;
    }
    yokei_account(device, -(int64_t)bytes);
    if (yokei_cuda_enter(device)) return; /* the context is lost, and its memory with it */
    const CUresult error = dev->cu->cuMemFree_v2((CUdeviceptr)(uintptr_t)address);
    if (error) {
        struct yokei_error saved;
        yokei_error_save(&saved);
        (void)yokei_cuda_fail(device, "cuMemFree", error);
        yoke_log(YOKE_LOG_ERROR, "%s", yoke_last_error());
        yokei_error_restore(&saved);
    }
    yokei_cuda_leave(device);
}

/** Check that `bytes` bytes at an address are memory of this device that the driver knows. */
static yoke_status check_foreign_buffer(const yoke_device *device, CUdeviceptr address, size_t bytes)
{
    const struct cuda_device *dev = cuda_device(device);
    CUdeviceptr base = 0;
    size_t size = 0;
    int type = 0;
    CUcontext context = NULL;
    if (dev->cu->cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address)
        || type != CU_MEMORYTYPE_DEVICE)
        return yoke_fail(YOKE_EINVAL, "%s: the buffer to wrap, %#llx, is no device memory of CUDA",
                         device->info.spec, address);
    if (!dev->cu->cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, address) && context
        && context != dev->context)
        return yokei_gpu_refuse_context(device, "buffer");
    const CUresult error = dev->cu->cuMemGetAddressRange_v2(&base, &size, address);
    if (error) return yokei_cuda_fail(device, "cuMemGetAddressRange", error);
    const size_t has = (size_t)(base + size - address);
    return bytes > has ? yokei_gpu_refuse_size(device, "buffer", has, bytes) : YOKE_OK;
}

static yoke_status cuda_wrap(yoke_device *device, void *native_buffer, size_t bytes, void **address_out)
{
    YOKE_TRY(yokei_cuda_enter(device));
    const yoke_status status = check_foreign_buffer(device, (CUdeviceptr)(uintptr_t)native_buffer, bytes);
    yokei_cuda_leave(device);
    YOKE_TRY(status);
    YOKE_TRY(yokei_live_add(&cuda_device(device)->foreign, native_buffer, bytes));
    *address_out = native_buffer;
    return YOKE_OK;
}

static void *cuda_host_ptr(const yoke_device *device, const void *address)
{
    (void)device;
    (void)address;
    return NULL;
}

/** Only the stand-in driver checks accesses, so only with the stand-in does core call this function. */
static CUresult annotate(const struct cuda_annotations *say, CUstream queue, bool is_ordered,
                         const struct yokei_annotation *note)
{
    const uint64_t at = (uint64_t)(uintptr_t)note->address;
    const bool is_lifetime = is_ordered && note->streams > 0;
    if (is_lifetime && note->state == YOKEI_MEMORY_UNDEFINED)
        return say->begin(at, note->bytes, note->streams, note->name ? note->name : "a tensor", queue);
    if (is_lifetime && note->state == YOKEI_MEMORY_FORBIDDEN) return say->end(at, note->bytes, queue);
    CUresult error = CUDA_SUCCESS;
    if (note->state != YOKEI_MEMORY_AS_IS)
        error = is_ordered ? say->annotate_async(at, note->bytes, note->state, queue)
                           : say->annotate(at, note->bytes, note->state);
    return error || !note->name ? error : say->name(at, note->bytes, note->name);
}

yoke_status yokei_cuda_annotate(yoke_device *device, yoke_stream *stream, const struct yokei_annotation *note)
{
    YOKE_TRY(yokei_cuda_enter(device));
    yoke_status status = stream ? yokei_cuda_command(stream) : YOKE_OK;
    const CUresult error = status
                               ? CUDA_SUCCESS
                               : annotate(&cuda_device(device)->cu->say,
                                          stream ? cuda_stream(stream)->queue : NULL, stream != NULL, note);
    if (error) status = yokei_cuda_fail(device, "an annotation of memory", error);
    yokei_cuda_leave(device);
    return status;
}

const struct yoke_memory_ops yokei_cuda_memory_ops = {
    .alloc = cuda_alloc, .free = cuda_free, .wrap = cuda_wrap, .host_ptr = cuda_host_ptr
};
