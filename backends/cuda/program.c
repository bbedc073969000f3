/* SPDX-License-Identifier: Apache-2.0 */
/** Loading of programs in CUDA. compile.c makes the binaries that are loaded here. */
#include "backends/cuda/cuda.h"
#include "backends/gpu/blob.h"
#include "backends/gpu/module.h"

/** Whether PTX may still load where machine code gave this error. */
static bool is_refusal(CUresult error)
{
    return error == CUDA_ERROR_NO_BINARY_FOR_GPU || error == CUDA_ERROR_INVALID_IMAGE
           || error == CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
}

/** The error of a program that does not load. The status says whether the program's bytes are bad. */
static yoke_status not_loaded(const yoke_device *device, const char *what, CUresult error)
{
    const yoke_status status = yokei_rt_fail(device, what, error);
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

yoke_status yokei_cuda_load(const yoke_device *device, const void *binary, size_t bytes, void **module_out)
{
    CUmodule module = NULL;
    const yoke_status status = load_module(device, binary, bytes, &module);
    *module_out = module;
    return status;
}

const struct yokei_gpu_driver yokei_cuda_driver = {
    .name = "cuda",
    .compiler = "NVRTC",
    .language = YOKEI_GPU_CUDA,
    .build = yokei_gpu_module_build,
    .load = yokei_gpu_module_load,
    .binary = yokei_gpu_module_binary,
    .release = yokei_gpu_module_release,
    .kernel = yokei_rt_kernel,
    .release_kernel = yokei_rt_release_kernel,
    .launch = yokei_rt_launch,
    .maker = yokei_cuda_maker,
    .suits = yokei_cuda_suits,
    .compile = yokei_cuda_compile,
    .open_module = yokei_rt_open_module,
    .close_module = yokei_rt_close_module,
};
