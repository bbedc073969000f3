/* SPDX-License-Identifier: Apache-2.0 */
/** Modules, kernels and launches. The vendor's folder compiles the binaries that are loaded here. */
#include "backends/gpu/module.h"
#include "backends/gpu/runtime/runtime.h"

yoke_status yokei_rt_open_module(yoke_device *device, const void *binary, size_t bytes, void **handle_out)
{
    void *module = NULL;
    YOKE_TRY(yokei_rt_enter(device));
    const yoke_status status = yokei_rt(device)->calls->load(device, binary, bytes, &module);
    yokei_rt_leave(device);
    *handle_out = module;
    return status;
}

void yokei_rt_close_module(yoke_device *device, void *module)
{
    const struct yokei_rt *rt = yokei_rt(device);
    if (yokei_rt_enter(device)) return;
    rt->calls->module_unload(rt, module);
    yokei_rt_leave(device);
}

static yoke_status find_kernel(const yoke_device *device, void *module, const char *name, void **kernel_out)
{
    YOKEI_RT_TRY(device, kernel, module, name, kernel_out);
    return YOKE_OK;
}

yoke_status yokei_rt_kernel(yoke_device *device, void *handle, const char *name, void **kernel_out)
{
    const struct yokei_gpu_module *program = handle;
    YOKE_TRY(yokei_rt_enter(device));
    yoke_status status = find_kernel(device, program->handle, name, kernel_out);
    if (status) status = yoke_fail_context(status, "kernel %s", name);
    yokei_rt_leave(device);
    return status;
}

/** A kernel belongs to its module. */
void yokei_rt_release_kernel(yoke_device *device, void *kernel)
{
    (void)device;
    (void)kernel;
}

static yoke_status issue_launch(yoke_stream *stream, void *kernel, const struct yokei_gpu_grid *grid,
                                void **parameters)
{
    const struct yokei_rt *rt = yokei_rt(stream->device);
    YOKE_TRY(yokei_rt_command(stream));
    const int error = rt->calls->launch(rt, kernel, grid, yokei_rt_stream(stream)->queue, parameters);
    if (!error) return YOKE_OK;
    return yoke_fail_context(yokei_rt_fail(stream->device, rt->calls->names.launch, error), "%s",
                             yokei_stream_op(stream));
}

yoke_status yokei_rt_launch(yoke_stream *stream, void *kernel, const struct yokei_gpu_grid *grid,
                            const struct yokei_gpu_arg *args, int n_args)
{
    void *parameters[YOKEI_GPU_MAX_ARGS];
    /*
     * all members of the union begin at its address, and the driver reads as many bytes as the kernel's type
     * has
     */
    for (int i = 0; i < n_args; i++) parameters[i] = (void *)(uintptr_t)&args[i].value;
    YOKE_TRY(yokei_rt_enter(stream->device));
    const yoke_status status = issue_launch(stream, kernel, grid, parameters);
    yokei_rt_leave(stream->device);
    return status;
}
