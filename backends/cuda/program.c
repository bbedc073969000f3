/* SPDX-License-Identifier: Apache-2.0 */
/** Programs, kernels and launches in CUDA. NVRTC compiles a program to machine code (cubin) and to PTX. */
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/cuda.h"
#include "backends/gpu/blob.h"

struct cuda_program {
    CUmodule module;
    void *blob; /* machine code and PTX, see blob.h */
    size_t bytes;
};

/* ---- compilation ---- */

static yoke_status nvrtc_fail(const yoke_device *device, const char *call, nvrtcResult error)
{
    return yoke_fail(YOKE_EBACKEND, "%s: %s failed: %s (%d)", device->info.spec, call,
                     cuda_device(device)->nvrtc->nvrtcGetErrorString(error), error);
}

static yoke_status compile_failure(const yoke_device *device, nvrtcProgram program, const char *name,
                                   nvrtcResult error)
{
    const struct cuda_nvrtc *nvrtc = cuda_device(device)->nvrtc;
    size_t bytes = 0;
    nvrtc->nvrtcGetProgramLogSize(program, &bytes);
    char *log = calloc(1, bytes + 1);
    if (log && bytes) nvrtc->nvrtcGetProgramLog(program, log);
    yoke_status status = yoke_fail(YOKE_ECOMPILE, "%s: program %s does not compile: %s\n%s",
                                   device->info.spec, name, nvrtc->nvrtcGetErrorString(error),
                                   log ? log : "");
    free(log);
    return status;
}

/** Get one part of a compiled program, allocated with malloc. 0 bytes: the compiler made no such part. */
static yoke_status get_part(const yoke_device *device, nvrtcProgram program,
                            nvrtcResult (*get_size)(nvrtcProgram, size_t *),
                            nvrtcResult (*get)(nvrtcProgram, char *), struct yokei_gpu_part *part_out)
{
    size_t bytes = 0;
    nvrtcResult error = get_size(program, &bytes);
    *part_out = (struct yokei_gpu_part){ NULL, 0 };
    if (error) return nvrtc_fail(device, "getting the size of a compiled program", error);
    if (!bytes) return YOKE_OK;
    char *data = malloc(bytes);
    if (!data) return yoke_fail(YOKE_ENOMEM, "%s: no host memory for a program", device->info.spec);
    error = get(program, data);
    if (error) {
        free(data);
        return nvrtc_fail(device, "getting a compiled program", error);
    }
    *part_out = (struct yokei_gpu_part){ data, bytes };
    return YOKE_OK;
}

static yoke_status get_blob(const yoke_device *device, nvrtcProgram compiled, bool machine_code,
                            struct cuda_program *program)
{
    const struct cuda_nvrtc *nvrtc = cuda_device(device)->nvrtc;
    struct yokei_gpu_part parts[YOKEI_GPU_BLOB_PARTS] = { { NULL, 0 } };
    yoke_status status = YOKE_OK;
    if (machine_code)
        status = get_part(device, compiled, nvrtc->nvrtcGetCUBINSize, nvrtc->nvrtcGetCUBIN,
                          &parts[YOKEI_GPU_MACHINE_CODE]);
    if (!status)
        status = get_part(device, compiled, nvrtc->nvrtcGetPTXSize, nvrtc->nvrtcGetPTX,
                          &parts[YOKEI_GPU_INTERMEDIATE]);
    if (!status) status = yokei_gpu_blob_make(parts, &program->blob, &program->bytes);
    for (int i = 0; i < YOKEI_GPU_BLOB_PARTS; i++) free((void *)(uintptr_t)parts[i].data);
    return status;
}

static yoke_status compile(const yoke_device *device, const struct yokei_gpu_source *source, const char *text,
                           struct cuda_program *program)
{
    const struct cuda_device *dev = cuda_device(device);
    char architecture[48];
    if (!yokei_cuda_architecture(dev->nvrtc, dev->cc, dev->ptx_only, architecture, sizeof architecture))
        return yoke_fail(YOKE_EBACKEND, "%s: NVRTC %d.%d has no architecture for a device of %d.%d",
                         device->info.spec, dev->nvrtc->major, dev->nvrtc->minor, dev->cc / 10, dev->cc % 10);
    /* IEEE arithmetic, as the error bounds of the operations need it; no product is contracted with a sum */
    const char *const options[] = { architecture,       "--std=c++14", "--fmad=false", "--prec-div=true",
                                    "--prec-sqrt=true", "--ftz=false", "-lineinfo" };
    nvrtcProgram compiled = NULL;
    nvrtcResult error = dev->nvrtc->nvrtcCreateProgram(&compiled, text, source->name, 0, NULL, NULL);
    if (error) return nvrtc_fail(device, "nvrtcCreateProgram", error);
    error = dev->nvrtc->nvrtcCompileProgram(compiled, YOKE_COUNT(options), options);
    const yoke_status status = error ? compile_failure(device, compiled, source->name, error)
                                     : get_blob(device, compiled, strstr(architecture, "=sm_") != NULL,
                                                program);
    dev->nvrtc->nvrtcDestroyProgram(&compiled);
    return status;
}

/* ---- loading ---- */

/** Whether PTX may still load where machine code gave this error. */
static bool is_refusal(CUresult error)
{
    return error == CUDA_ERROR_NO_BINARY_FOR_GPU || error == CUDA_ERROR_INVALID_IMAGE
           || error == CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
}

static yoke_status ptx_refused(const yoke_device *device, CUresult error, const char *log)
{
    const struct cuda_device *dev = cuda_device(device);
    char package[48];
    if (error != CUDA_ERROR_UNSUPPORTED_PTX_VERSION) {
        /* after an earlier fault the driver refuses everything, and has nothing to say about this text */
        const yoke_status status = yokei_cuda_fail(device, "loading PTX", error);
        return log[0] ? yoke_fail_context(status, "%s", log) : status;
    }
    return yoke_fail(
        YOKE_EBACKEND,
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
static yoke_status load_module(const yoke_device *device, struct cuda_program *program)
{
    struct cuda_device *dev = cuda_device(device);
    struct yokei_gpu_part parts[YOKEI_GPU_BLOB_PARTS];
    YOKE_TRY(yokei_gpu_blob_open(program->blob, program->bytes, parts));
    const struct yokei_gpu_part *code = &parts[YOKEI_GPU_MACHINE_CODE], *ptx = &parts[YOKEI_GPU_INTERMEDIATE];
    if (code->bytes) {
        const CUresult error = dev->cu->cuModuleLoadDataEx(&program->module, code->data, 0, NULL, NULL);
        if (!error) return YOKE_OK;
        if (!is_refusal(error) || !ptx->bytes)
            return yokei_cuda_fail(device, "loading a program's machine code", error);
        if (!atomic_exchange(&dev->said_ptx, true))
            yoke_log(YOKE_LOG_INFO,
                     "%s: the driver refuses machine code of NVRTC %d.%d (%s); it compiles the PTX instead",
                     device->info.spec, dev->nvrtc->major, dev->nvrtc->minor,
                     yokei_cuda_error_name(dev->cu, error));
    }
    if (!ptx->bytes || ((const char *)ptx->data)[ptx->bytes - 1])
        return yoke_fail(YOKE_EBACKEND, "%s: a program's binary has no PTX", device->info.spec);
    return load_ptx(device, ptx->data, &program->module);
}

static yoke_status load_program(yoke_device *device, struct cuda_program *program)
{
    YOKE_TRY(yokei_cuda_enter(device));
    const yoke_status status = load_module(device, program);
    yokei_cuda_leave(device);
    return status;
}

/* ---- the driver's functions ---- */

static yoke_status finish(struct cuda_program *program, yoke_status status, void **program_out)
{
    if (status) {
        free(program->blob);
        free(program);
    } else {
        *program_out = program;
    }
    return status;
}

static yoke_status build(yoke_device *device, const struct yokei_gpu_source *source, void **program_out)
{
    const size_t n[] = { strlen(source->options), strlen(source->prelude), strlen(source->text) };
    struct cuda_program *program = calloc(1, sizeof *program);
    char *text = malloc(n[0] + n[1] + n[2] + 1);
    yoke_status status = YOKE_OK;
    if (!program || !text) {
        free(program);
        free(text);
        return yoke_fail(YOKE_ENOMEM, "%s: no host memory for a program", device->info.spec);
    }
    memcpy(text, source->options, n[0]);
    memcpy(text + n[0], source->prelude, n[1]);
    memcpy(text + n[0] + n[1], source->text, n[2] + 1);
    status = compile(device, source, text, program);
    free(text);
    if (!status) status = load_program(device, program);
    return finish(program, status, program_out);
}

static yoke_status load(yoke_device *device, const void *binary, size_t bytes, void **program_out)
{
    struct cuda_program *program = calloc(1, sizeof *program);
    if (!program || !(program->blob = malloc(bytes))) {
        free(program);
        return yoke_fail(YOKE_ENOMEM, "%s: no host memory for a program", device->info.spec);
    }
    memcpy(program->blob, binary, bytes);
    program->bytes = bytes;
    return finish(program, load_program(device, program), program_out);
}

static yoke_status binary(yoke_device *device, void *handle, void **binary_out, size_t *bytes_out)
{
    const struct cuda_program *program = handle;
    void *copy = malloc(program->bytes);
    if (!copy) return yoke_fail(YOKE_ENOMEM, "%s: no host memory for a binary", device->info.spec);
    memcpy(copy, program->blob, program->bytes);
    *binary_out = copy;
    *bytes_out = program->bytes;
    return YOKE_OK;
}

static void release(yoke_device *device, void *handle)
{
    struct cuda_program *program = handle;
    if (!yokei_cuda_enter(device)) {
        cuda_device(device)->cu->cuModuleUnload(program->module);
        yokei_cuda_leave(device);
    }
    free(program->blob);
    free(program);
}

static yoke_status kernel(yoke_device *device, void *handle, const char *name, void **kernel_out)
{
    const struct cuda_program *program = handle;
    CUfunction function = NULL;
    YOKE_TRY(yokei_cuda_enter(device));
    const CUresult error = cuda_device(device)->cu->cuModuleGetFunction(&function, program->module, name);
    yoke_status status = YOKE_OK;
    if (error)
        status = yoke_fail_context(yokei_cuda_fail(device, "cuModuleGetFunction", error), "kernel %s", name);
    yokei_cuda_leave(device);
    *kernel_out = function;
    return status;
}

/** A function belongs to its module. */
static void release_kernel(yoke_device *device, void *function)
{
    (void)device;
    (void)function;
}

static yoke_status check_grid(const yoke_stream *stream, const struct yokei_gpu_grid *grid)
{
    const struct cuda_device *dev = cuda_device(stream->device);
    for (int i = 0; i < 3; i++) {
        const long long groups = grid->groups[i], most = dev->most_groups[i];
        if (groups > most)
            return yoke_fail(
                YOKE_EUNSUPPORTED,
                "%s: %s needs %lld groups in dimension %c, and the device has at most %lld: divide the call",
                stream->device->info.spec, stream->last_op, groups, "xyz"[i], most);
    }
    if (grid->group > dev->gpu.max_group)
        return yoke_fail(YOKE_EUNSUPPORTED,
                         "%s: %s needs groups of %d threads, and the device has at most %d",
                         stream->device->info.spec, stream->last_op, grid->group, dev->gpu.max_group);
    return YOKE_OK;
}

static yoke_status issue(yoke_stream *stream, CUfunction function, const struct yokei_gpu_grid *grid,
                         void **parameters)
{
    YOKE_TRY(yokei_cuda_command(stream));
    const CUresult error = cuda_device(stream->device)
                               ->cu->cuLaunchKernel(function, (unsigned)grid->groups[0],
                                                    (unsigned)grid->groups[1], (unsigned)grid->groups[2],
                                                    (unsigned)grid->group, 1, 1, 0,
                                                    cuda_stream(stream)->queue, parameters, NULL);
    if (!error) return YOKE_OK;
    return yoke_fail_context(yokei_cuda_fail(stream->device, "cuLaunchKernel", error), "%s", stream->last_op);
}

static yoke_status launch(yoke_stream *stream, void *function, const struct yokei_gpu_grid *grid,
                          const struct yokei_gpu_arg *args, int n_args)
{
    void *parameters[YOKEI_GPU_MAX_ARGS];
    YOKE_TRY(check_grid(stream, grid));
    /*
     * all members of the union begin at its address, and the driver reads as many bytes as the kernel's type
     * has
     */
    for (int i = 0; i < n_args; i++) parameters[i] = (void *)(uintptr_t)&args[i].value;
    YOKE_TRY(yokei_cuda_enter(stream->device));
    const yoke_status status = issue(stream, function, grid, parameters);
    yokei_cuda_leave(stream->device);
    return status;
}

const struct yokei_gpu_driver yokei_cuda_driver = {
    .name = "cuda",
    .language = YOKEI_GPU_CUDA,
    .build = build,
    .load = load,
    .binary = binary,
    .release = release,
    .kernel = kernel,
    .release_kernel = release_kernel,
    .launch = launch,
};
