/* SPDX-License-Identifier: Apache-2.0 */
/** Programs, kernels and launches in CUDA. compile.c makes the binaries that are loaded here. */
#include "backends/cuda/cuda.h"
#include "backends/gpu/blob.h"
#include "backends/gpu/module.h"

/* ---- loading ---- */

/** Whether PTX may still load where machine code gave this error. */
static bool is_refusal(CUresult error)
{
    return error == CUDA_ERROR_NO_BINARY_FOR_GPU || error == CUDA_ERROR_INVALID_IMAGE
           || error == CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
}

/** The error of a program that does not load. The status says whether the program's bytes are bad. */
static yoke_status not_loaded(const yoke_device *device, const char *what, CUresult error)
{
    const yoke_status status = yokei_cuda_fail(device, what, error);
    switch (error) {
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_INVALID_PTX: return YOKE_EDATA;
    case CUDA_ERROR_NO_BINARY_FOR_GPU: return YOKE_EUNSUPPORTED;
    default: return status;
    }
}

static yoke_status ptx_refused(const yoke_device *device, CUresult error, const char *log)
{
    const struct cuda_device *dev = cuda_device(device);
    char package[48];
    if (error != CUDA_ERROR_UNSUPPORTED_PTX_VERSION) {
        /* after an earlier fault the driver refuses everything, and has nothing to say about this text */
        const yoke_status status = not_loaded(device, "loading PTX", error);
        return log[0] ? yoke_fail_context(status, "%s", log) : status;
    }
    if (!dev->nvrtc)
        return yoke_fail(
            YOKE_EUNSUPPORTED,
            "%s: the driver knows CUDA %d.%d and does not take this program, which a newer NVRTC has compiled. "
            "Install a newer driver, or make the programs by yoke compile --driver %d.%d",
            device->info.spec, dev->cu->version / 1000, dev->cu->version % 1000 / 10, dev->cu->version / 1000,
            dev->cu->version % 1000 / 10);
    return yoke_fail(
        YOKE_EUNSUPPORTED,
        "%s: the driver knows CUDA %d.%d and does not take programs of NVRTC %d.%d (%s). Install a newer "
        "driver, or an NVRTC that is not newer than the driver's CUDA: pip install %s",
        device->info.spec, dev->cu->version / 1000, dev->cu->version % 1000 / 10, dev->nvrtc->major,
        dev->nvrtc->minor, dev->nvrtc->path, yokei_cuda_nvrtc_package(dev->cu->version, package));
}

static yoke_status load_ptx(const yoke_device *device, const char *ptx, CUmodule *module_out)
{
    const struct cuda_device *dev = cuda_device(device);
    char log[2048] = "";
    CUjit_option options[] = { CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES };
    void *values[] = { log, (void *)(uintptr_t)(sizeof log - 1) };
    const CUresult error = dev->cu->cuModuleLoadDataEx(module_out, ptx, YOKE_COUNT(options), options, values);
    return error ? ptx_refused(device, error, log) : YOKE_OK;
}

/** Load machine code, or PTX where the driver refuses the machine code. The context is current. */
static yoke_status load_module(const yoke_device *device, const void *binary, size_t bytes,
                               CUmodule *module_out)
{
    struct cuda_device *dev = cuda_device(device);
    struct yokei_gpu_part parts[YOKEI_GPU_BLOB_PARTS];
    YOKE_TRY(yokei_gpu_blob_open(binary, bytes, parts));
    const struct yokei_gpu_part *code = &parts[YOKEI_GPU_MACHINE_CODE], *ptx = &parts[YOKEI_GPU_INTERMEDIATE];
    if (code->bytes) {
        const CUresult error = dev->cu->cuModuleLoadDataEx(module_out, code->data, 0, NULL, NULL);
        if (!error) return YOKE_OK;
        if (!is_refusal(error) || !ptx->bytes)
            return not_loaded(device, "loading a program's machine code", error);
        char compiler[32] = "another compiler";
        if (dev->nvrtc)
            yokei_text(compiler, sizeof compiler, "NVRTC %d.%d", dev->nvrtc->major, dev->nvrtc->minor);
        if (!atomic_exchange(&dev->said_ptx, true))
            yoke_log(YOKE_LOG_INFO,
                     "%s: the driver refuses machine code of %s (%s); it compiles the PTX instead",
                     device->info.spec, compiler, yokei_cuda_error_name(dev->cu, error));
    }
    if (!ptx->bytes || ((const char *)ptx->data)[ptx->bytes - 1])
        return yoke_fail(YOKE_EDATA, "%s: a program's binary has no PTX", device->info.spec);
    return load_ptx(device, ptx->data, module_out);
}

static yoke_status cuda_open_module(yoke_device *device, const void *binary, size_t bytes, void **handle_out)
{
    CUmodule module = NULL;
    YOKE_TRY(yokei_cuda_enter(device));
    const yoke_status status = load_module(device, binary, bytes, &module);
    yokei_cuda_leave(device);
    *handle_out = module;
    return status;
}

static void cuda_close_module(yoke_device *device, void *module)
{
    if (yokei_cuda_enter(device)) return;
    cuda_device(device)->cu->cuModuleUnload(module);
    yokei_cuda_leave(device);
}

/* ---- kernels ---- */

static yoke_status cuda_kernel(yoke_device *device, void *handle, const char *name, void **kernel_out)
{
    const struct yokei_gpu_module *program = handle;
    CUfunction function = NULL;
    YOKE_TRY(yokei_cuda_enter(device));
    const struct cuda_library *cu = cuda_device(device)->cu;
    CUresult error = cu->cuModuleGetFunction(&function, program->handle, name);
    /*
     * Otherwise the driver loads the kernel at its first launch, which may have to wait for the device.
     * Drivers without this function load it in cuModuleGetFunction.
     */
    if (!error && cu->cuFuncLoad) error = cu->cuFuncLoad(function);
    yoke_status status = YOKE_OK;
    if (error)
        status = yoke_fail_context(yokei_cuda_fail(device, "cuModuleGetFunction", error), "kernel %s", name);
    yokei_cuda_leave(device);
    *kernel_out = function;
    return status;
}

/** A function belongs to its module. */
static void cuda_release_kernel(yoke_device *device, void *function)
{
    (void)device;
    (void)function;
}

static yoke_status issue_launch(yoke_stream *stream, CUfunction function, const struct yokei_gpu_grid *grid,
                                void **parameters)
{
    YOKE_TRY(yokei_cuda_command(stream));
    const CUresult error = cuda_device(stream->device)
                               ->cu->cuLaunchKernel(function, (unsigned)grid->groups[0],
                                                    (unsigned)grid->groups[1], (unsigned)grid->groups[2],
                                                    (unsigned)grid->group, 1, 1, 0,
                                                    cuda_stream(stream)->queue, parameters, NULL);
    if (!error) return YOKE_OK;
    return yoke_fail_context(yokei_cuda_fail(stream->device, "cuLaunchKernel", error), "%s",
                             yokei_stream_op(stream));
}

static yoke_status cuda_launch(yoke_stream *stream, void *function, const struct yokei_gpu_grid *grid,
                               const struct yokei_gpu_arg *args, int n_args)
{
    void *parameters[YOKEI_GPU_MAX_ARGS];
    /*
     * all members of the union begin at its address, and the driver reads as many bytes as the kernel's type
     * has
     */
    for (int i = 0; i < n_args; i++) parameters[i] = (void *)(uintptr_t)&args[i].value;
    YOKE_TRY(yokei_cuda_enter(stream->device));
    const yoke_status status = issue_launch(stream, function, grid, parameters);
    yokei_cuda_leave(stream->device);
    return status;
}

const struct yokei_gpu_driver yokei_cuda_driver = {
    .name = "cuda",
    .language = YOKEI_GPU_CUDA,
    .build = yokei_gpu_module_build,
    .load = yokei_gpu_module_load,
    .binary = yokei_gpu_module_binary,
    .release = yokei_gpu_module_release,
    .kernel = cuda_kernel,
    .release_kernel = cuda_release_kernel,
    .launch = cuda_launch,
    .maker = yokei_cuda_maker,
    .suits = yokei_cuda_suits,
    .compile = yokei_cuda_compile,
    .open_module = cuda_open_module,
    .close_module = cuda_close_module,
};
