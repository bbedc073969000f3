/* SPDX-License-Identifier: Apache-2.0 */
/** Programs, kernels and launches in OpenCL. */
#include <stdlib.h>
#include <string.h>

#include "backends/opencl/opencl.h"

static yoke_status opencl_compile_failure(yoke_device *device, cl_program program, const char *name,
                                          cl_int error)
{
    const struct opencl_device *ocl = opencl_device(device);
    size_t bytes = 0;
    ocl->cl->clGetProgramBuildInfo(program, ocl->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &bytes);
    char *log = calloc(1, bytes + 1);
    if (log && bytes)
        ocl->cl->clGetProgramBuildInfo(program, ocl->id, CL_PROGRAM_BUILD_LOG, bytes, log, NULL);
    const char *folder = ocl->pocl_cache; /* an error of writing there is not in the log */
    yoke_status status = yoke_fail(YOKE_ECOMPILE, "%s: program %s does not compile: %s%s%s%s\n%s",
                                   device->info.spec, name, yokei_opencl_error_name(error),
                                   folder ? " (PoCL compiles in its folder " : "", folder ? folder : "",
                                   folder ? ")" : "", log ? log : "");
    free(log);
    return status;
}

/* `definition` is an option for the compiler, or "". */
static yoke_status build_program(yoke_device *device, cl_program program, const char *name,
                                 const char *definition, void **program_out)
{
    const struct opencl_device *ocl = opencl_device(device);
    const yoke_status writable = yokei_opencl_pocl_writable(device);
    if (writable) {
        ocl->cl->clReleaseProgram(program);
        return writable;
    }
    char options[160];
    yokei_text(options, sizeof options, "-cl-std=CL1.2%s%s",
               ocl->exact_division ? " -cl-fp32-correctly-rounded-divide-sqrt" : "", definition);
    cl_int error = ocl->cl->clBuildProgram(program, 1, &ocl->id, options, NULL, NULL);
    if (error) {
        yoke_status status = opencl_compile_failure(device, program, name, error);
        ocl->cl->clReleaseProgram(program);
        return status;
    }
    *program_out = program;
    return YOKE_OK;
}

/*
 * Whether the driver knows what compilers of CPUs have beside OpenCL. The part of the driver behind the
 * compiler may not. Oclgrind is such a driver. It makes no kernel that prefetches, and computes a wrong "or"
 * of the lanes of a vector. So a driver that makes no kernel with a prefetch gets kernels in plain OpenCL.
 */
static bool knows_builtins(yoke_device *device)
{
    static const char text[] = "#ifdef __has_builtin\n"
                               "#if __has_builtin(__builtin_prefetch)\n"
                               "#define BRING(p) __builtin_prefetch((const char *)(ulong)(p))\n"
                               "#endif\n"
                               "#endif\n"
                               "#ifndef BRING\n"
                               "#define BRING(p)\n"
                               "#endif\n"
                               "__kernel void yoke_tries_builtins(__global int *p) { BRING(p); p[0] = 1; }\n";
    struct opencl_device *ocl = opencl_device(device);
    const struct opencl_library *cl = ocl->cl;
    int known = atomic_load(&ocl->builtins);
    if (known) return known == OPENCL_YES;
    const char *strings[] = { text };
    cl_int error;
    cl_program program = cl->clCreateProgramWithSource(ocl->context, 1, strings, NULL, &error);
    if (error) return true;
    error = cl->clBuildProgram(program, 1, &ocl->id, "-cl-std=CL1.2", NULL, NULL);
    cl_kernel kernel = error ? NULL : cl->clCreateKernel(program, "yoke_tries_builtins", &error);
    if (kernel) cl->clReleaseKernel(kernel);
    cl->clReleaseProgram(program);
    atomic_store(&ocl->builtins, error ? OPENCL_NO : OPENCL_YES);
    return !error;
}

static yoke_status opencl_build(yoke_device *device, const struct yokei_gpu_source *source,
                                void **program_out)
{
    const struct opencl_device *ocl = opencl_device(device);
    const char *strings[] = { source->options, source->prelude, source->text };
    cl_int error;
    cl_program program = ocl->cl->clCreateProgramWithSource(ocl->context, 3, strings, NULL, &error);
    if (error) return yokei_opencl_fail(device, "clCreateProgramWithSource", error);
    const bool builtins = !ocl->gpu.is_cpu || knows_builtins(device);
    return build_program(device, program, source->name, builtins ? "" : " -DYK_NO_BUILTINS", program_out);
}

static yoke_status opencl_load(yoke_device *device, const void *binary, size_t bytes, void **program_out)
{
    const struct opencl_device *ocl = opencl_device(device);
    const unsigned char *data = binary;
    cl_int error, state = CL_SUCCESS;
    cl_program program = ocl->cl->clCreateProgramWithBinary(ocl->context, 1, &ocl->id, &bytes, &data, &state,
                                                            &error);
    if (error) {
        const yoke_status status = yokei_opencl_fail(device, "clCreateProgramWithBinary", error);
        return error == CL_INVALID_BINARY || state == CL_INVALID_BINARY ? YOKE_EDATA : status;
    }
    const yoke_status status = build_program(device, program, "from the cache", "", program_out);
    return status == YOKE_ECOMPILE ? YOKE_EDATA : status;
}

/**
 * The index of our device among the devices of a program. A program has one binary per device of its context.
 */
static cl_int binary_index(const struct opencl_device *ocl, cl_program program, cl_uint *n_out,
                           cl_uint *index_out)
{
    cl_device_id devices[64];
    size_t bytes = 0;
    cl_int error = ocl->cl->clGetProgramInfo(program, CL_PROGRAM_DEVICES, sizeof devices, devices, &bytes);
    *n_out = (cl_uint)(bytes / sizeof *devices);
    for (cl_uint i = 0; !error && i < *n_out; i++)
        if (devices[i] == ocl->id) {
            *index_out = i;
            return CL_SUCCESS;
        }
    return error ? error : CL_INVALID_DEVICE;
}

static yoke_status opencl_binary(yoke_device *device, void *program, void **binary_out, size_t *bytes_out)
{
    const struct opencl_device *ocl = opencl_device(device);
    cl_uint n, index;
    size_t sizes[64] = { 0 };
    unsigned char *binaries[64] = { NULL };
    cl_int error = binary_index(ocl, program, &n, &index);
    if (!error)
        error = ocl->cl->clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, n * sizeof *sizes, sizes, NULL);
    if (error) return yokei_opencl_fail(device, "clGetProgramInfo", error);
    *binary_out = NULL;
    *bytes_out = 0;
    if (!sizes[index]) return YOKE_OK;
    unsigned char *data = malloc(sizes[index]);
    if (!data) return yokei_gpu_no_host_memory(device, "a program's binary");
    binaries[index] = data;
    error = ocl->cl->clGetProgramInfo(program, CL_PROGRAM_BINARIES, n * sizeof *binaries, binaries, NULL);
    if (error) {
        free(data);
        return yokei_opencl_fail(device, "clGetProgramInfo", error);
    }
    *binary_out = data;
    *bytes_out = sizes[index];
    return YOKE_OK;
}

static void opencl_release(yoke_device *device, void *program)
{
    opencl_device(device)->cl->clReleaseProgram(program);
}

static yoke_status opencl_kernel(yoke_device *device, void *program, const char *name, void **kernel_out)
{
    cl_int error;
    YOKE_TRY(yokei_opencl_pocl_writable(device)); /* the kernel is compiled when it is launched */
    cl_kernel k = opencl_device(device)->cl->clCreateKernel(program, name, &error);
    if (error)
        return yoke_fail_context(yokei_opencl_fail(device, "clCreateKernel", error), "kernel %s", name);
    *kernel_out = k;
    return YOKE_OK;
}

static void opencl_release_kernel(yoke_device *device, void *k)
{
    opencl_device(device)->cl->clReleaseKernel(k);
}

static bool opencl_offsets(const yoke_device *device, const struct yokei_gpu_arg *args, int n_args)
{
    const struct opencl_device *ocl = opencl_device(device);
    if (!ocl->svm) return true;
    for (int i = 0; i < n_args; i++) /* a foreign cl_mem, although the device uses shared virtual memory */
        if (args[i].kind == YOKEI_GPU_POINTER
            && yokei_opencl_in_range(&ocl->addresses, args[i].value.pointer))
            return true;
    return false;
}

/** Set one address as the kernel's next parameter, or as a (buffer, offset) pair if `pairs` is true. */
static yoke_status set_pointer(const yoke_device *device, cl_kernel k, bool pairs, const void *address,
                               cl_uint *index)
{
    const struct opencl_device *ocl = opencl_device(device);
    struct opencl_allocation allocation = { 0 };
    size_t offset = 0;
    cl_int error;
    if (address && (!ocl->svm || yokei_opencl_in_range(&ocl->addresses, address))
        && !yokei_opencl_addresses_find(&ocl->addresses, address, &allocation, &offset))
        return yoke_fail(YOKE_EINVAL, "argument %u: %p is no memory of this device", *index, address);
    if (address && !allocation.buffer)
        error = ocl->cl->clSetKernelArgSVMPointer(k, (*index)++, address);
    else
        error = ocl->cl->clSetKernelArg(k, (*index)++, sizeof(cl_mem), address ? &allocation.buffer : NULL);
    if (!error && pairs) {
        cl_ulong wide = offset;
        error = ocl->cl->clSetKernelArg(k, (*index)++, sizeof wide, &wide);
    }
    return error ? yokei_opencl_fail(device, "setting an address as kernel argument", error) : YOKE_OK;
}

static yoke_status opencl_launch(yoke_stream *stream, void *k, const struct yokei_gpu_grid *grid,
                                 const struct yokei_gpu_arg *args, int n_args)
{
    const yoke_device *device = stream->device;
    const struct opencl_device *ocl = opencl_device(device);
    YOKE_TRY(yokei_opencl_pending_error(stream));
    bool pairs = opencl_offsets(device, args, n_args);
    cl_uint index = 0;
    for (int i = 0; i < n_args; i++) {
        if (args[i].kind == YOKEI_GPU_POINTER) {
            YOKE_TRY(set_pointer(device, k, pairs, args[i].value.pointer, &index));
            continue;
        }
        cl_int error = ocl->cl->clSetKernelArg(k, index++, args[i].kind == YOKEI_GPU_4_BYTES ? 4 : 8,
                                               &args[i].value);
        if (error)
            return yoke_fail_context(yokei_opencl_fail(device, "clSetKernelArg", error), "argument %d", i);
    }
    size_t group[3] = { (size_t)grid->group, 1, 1 };
    size_t global[3] = { (size_t)grid->groups[0] * group[0], (size_t)grid->groups[1],
                         (size_t)grid->groups[2] };
    cl_uint dimensions = global[2] > 1 ? 3 : global[1] > 1 ? 2 : 1;
    cl_event event = NULL;
    cl_int error = ocl->cl->clEnqueueNDRangeKernel(opencl_stream(stream)->queue, k, dimensions, NULL, global,
                                                   group, 0, NULL, &event);
    if (error)
        return yoke_fail_context(yokei_opencl_fail(device, "clEnqueueNDRangeKernel", error), "%s",
                                 stream->last_op);
    return yokei_opencl_pend(stream, event);
}

const struct yokei_gpu_driver yokei_opencl_driver = {
    .name = "opencl",
    .language = YOKEI_GPU_OPENCL,
    .build = opencl_build,
    .load = opencl_load,
    .binary = opencl_binary,
    .release = opencl_release,
    .kernel = opencl_kernel,
    .release_kernel = opencl_release_kernel,
    .launch = opencl_launch,
    .offsets = opencl_offsets,
    .awaits_host = yokei_opencl_awaits_host,
};
