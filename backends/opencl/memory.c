/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Device memory: fine-grained shared virtual memory if the device has it, else buffers with reserved
 * addresses.
 */
#include "backends/opencl/opencl.h"

static yoke_status opencl_no_memory(const yoke_device *device, size_t bytes, cl_int error)
{
    return yoke_fail(YOKE_ENOMEM,
                     "%s: cannot allocate %zu bytes: %zu of %llu are in use, at most %llu at once (%s)",
                     device->info.spec, bytes, atomic_load(&device->allocated),
                     (unsigned long long)device->info.memory_bytes,
                     (unsigned long long)device->info.max_alloc_bytes, yokei_opencl_error_name(error));
}

static void release_allocation(const struct opencl_device *ocl, const struct opencl_allocation *allocation)
{
    if (allocation->buffer)
        ocl->cl->clReleaseMemObject(allocation->buffer);
    else
        ocl->cl->clSVMFree(ocl->context, (void *)allocation->start);
}

static yoke_status opencl_alloc(yoke_device *device, size_t bytes, void **address_out)
{
    struct opencl_device *ocl = opencl_device(device);
    struct opencl_allocation allocation = { .bytes = bytes ? bytes : 1 };
    cl_int error = CL_MEM_OBJECT_ALLOCATION_FAILURE;
    if (allocation.bytes > device->info.max_alloc_bytes)
        return opencl_no_memory(device, bytes, CL_INVALID_BUFFER_SIZE);
    if (ocl->svm) {
        allocation.start = (uintptr_t)ocl->cl->clSVMAlloc(
            ocl->context, CL_MEM_READ_WRITE | CL_MEM_SVM_FINE_GRAIN_BUFFER, allocation.bytes, 0);
        if (!allocation.start) return opencl_no_memory(device, bytes, error);
    } else {
        allocation.buffer = ocl->cl->clCreateBuffer(ocl->context, CL_MEM_READ_WRITE, allocation.bytes, NULL,
                                                    &error);
        if (!allocation.buffer) return opencl_no_memory(device, bytes, error);
    }
    yoke_status status = yokei_opencl_addresses_add(&ocl->addresses, allocation, address_out);
    if (status)
        release_allocation(ocl, &allocation);
    else
        yokei_account(device, (int64_t)allocation.bytes);
    return status;
}

static void opencl_free(yoke_device *device, void *address)
{
    struct opencl_device *ocl = opencl_device(device);
    struct opencl_allocation allocation;
    if (!yokei_opencl_addresses_remove(&ocl->addresses, address, &allocation)) {
        yokei_gpu_log_bad_free(device, address);
        return;
    }
    release_allocation(ocl, &allocation);
    if (!allocation.foreign) yokei_account(device, -(int64_t)allocation.bytes);
}

static yoke_status opencl_wrap(yoke_device *device, void *native_buffer, size_t bytes, void **address_out)
{
    struct opencl_device *ocl = opencl_device(device);
    struct opencl_allocation allocation = { .bytes = bytes, .buffer = native_buffer, .foreign = true };
    size_t size = 0;
    cl_context context = NULL;
    cl_int error = ocl->cl->clGetMemObjectInfo(allocation.buffer, CL_MEM_SIZE, sizeof size, &size, NULL);
    if (!error)
        error = ocl->cl->clGetMemObjectInfo(allocation.buffer, CL_MEM_CONTEXT, sizeof context, &context,
                                            NULL);
    if (error) return yokei_opencl_fail(device, "clGetMemObjectInfo", error);
    if (context != ocl->context) return yokei_gpu_refuse_context(device, "cl_mem");
    if (bytes > size) return yokei_gpu_refuse_size(device, "cl_mem", size, bytes);
    YOKE_TRY(yokei_opencl_addresses_add(&ocl->addresses, allocation, address_out));
    /* Yoke's address may outlive the other framework's own reference */
    ocl->cl->clRetainMemObject(allocation.buffer);
    return YOKE_OK;
}

static void *opencl_host_ptr(const yoke_device *device, const void *address)
{
    const struct opencl_device *ocl = opencl_device(device);
    bool seen = ocl->svm && ocl->unified && !yokei_opencl_in_range(&ocl->addresses, address);
    return seen ? (void *)(uintptr_t)address : NULL;
}

const struct yoke_memory_ops yokei_opencl_memory_ops = {
    .alloc = opencl_alloc, .free = opencl_free, .wrap = opencl_wrap, .host_ptr = opencl_host_ptr
};
