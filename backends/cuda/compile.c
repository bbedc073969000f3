/* SPDX-License-Identifier: Apache-2.0 */
/**
 * NVRTC compiles a program to machine code (cubin) and to PTX, for an open device or ahead of time. Only the
 * text, the options below, the architecture and the version of NVRTC decide what comes out. So a binary runs
 * on every device of its architecture, and its PTX on every newer one.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/cuda.h"
#include "backends/gpu/blob.h"

/* ---- compilation ---- */

static yoke_status nvrtc_fail(const yoke_device *device, const char *call, nvrtcResult error)
{
    return yokei_gpu_call_failed(device, YOKE_EBACKEND, call,
                                 cuda_device(device)->nvrtc->nvrtcGetErrorString(error), (int)error, NULL);
}

static yoke_status nvrtc_failure(const yoke_device *device, nvrtcProgram program, const char *name,
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
    if (!data) return yokei_gpu_no_host_memory(device, "a program");
    error = get(program, data);
    if (error) {
        free(data);
        return nvrtc_fail(device, "getting a compiled program", error);
    }
    *part_out = (struct yokei_gpu_part){ data, bytes };
    return YOKE_OK;
}

static yoke_status get_blob(const yoke_device *device, nvrtcProgram compiled, bool machine_code,
                            void **blob_out, size_t *bytes_out)
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
    if (!status) status = yokei_gpu_blob_make(parts, blob_out, bytes_out);
    for (int i = 0; i < YOKEI_GPU_BLOB_PARTS; i++) free((void *)(uintptr_t)parts[i].data);
    return status;
}

static yoke_status compile(const yoke_device *device, const struct yokei_gpu_source *source, const char *text,
                           void **blob_out, size_t *bytes_out)
{
    const struct cuda_device *dev = cuda_device(device);
    char architecture[48];
    if (!dev->nvrtc) return yoke_fail(YOKE_ECOMPILE, "%s: %s", device->info.spec, dev->rt.gpu.no_compiler);
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
    const yoke_status status = error ? nvrtc_failure(device, compiled, source->name, error)
                                     : get_blob(device, compiled, strstr(architecture, "=sm_") != NULL,
                                                blob_out, bytes_out);
    dev->nvrtc->nvrtcDestroyProgram(&compiled);
    return status;
}

yoke_status yokei_cuda_compile(const yoke_device *device, const struct yokei_gpu_source *source,
                               void **blob_out, size_t *bytes_out)
{
    const size_t n[] = { strlen(source->options), strlen(source->prelude), strlen(source->text) };
    char *text = malloc(n[0] + n[1] + n[2] + 1);
    if (!text) return yokei_gpu_no_host_memory(device, "a program");
    memcpy(text, source->options, n[0]);
    memcpy(text + n[0], source->prelude, n[1]);
    memcpy(text + n[0] + n[1], source->text, n[2] + 1);
    const yoke_status status = compile(device, source, text, blob_out, bytes_out);
    free(text);
    return status;
}

/* ---- makers: the architecture and the compiler of a binary, such as "sm_90-nvrtc13.0" ---- */

struct maker {
    int architecture, major, minor;
    bool machine_code; /* besides the PTX */
};

static bool parse_maker(const char *text, struct maker *out)
{
    int used = 0;
    *out = (struct maker){ .machine_code = !strncmp(text, "sm_", 3) };
    const char *const form = out->machine_code ? "sm_%4d-nvrtc%3d.%2d%n" : "compute_%4d-nvrtc%3d.%2d%n";
    return sscanf(text, form, &out->architecture, &out->major, &out->minor, &used) == 3 && !text[used]
           && out->architecture > 0;
}

bool yokei_cuda_maker_runs(const void *cc, const char *text)
{
    struct maker maker;
    return parse_maker(text, &maker) && maker.architecture <= *(const int *)cc;
}

void yokei_cuda_maker(const yoke_device *device, char *text, size_t bytes)
{
    const struct cuda_device *dev = cuda_device(device);
    char option[48];
    text[0] = '\0';
    if (dev->nvrtc && yokei_cuda_architecture(dev->nvrtc, dev->cc, dev->ptx_only, option, sizeof option))
        yokei_text(text, bytes, "%s-nvrtc%d.%d", strchr(option, '=') + 1, dev->nvrtc->major,
                   dev->nvrtc->minor);
}

int yokei_cuda_suits(const yoke_device *device, const char *text)
{
    const struct cuda_device *dev = cuda_device(device);
    struct maker maker, own;
    char name[YOKEI_GPU_MAKER];
    if (!parse_maker(text, &maker) || maker.architecture > dev->cc) return 0;
    yokei_cuda_maker(device, name, sizeof name);
    if (parse_maker(name, &own)) {
        if (maker.architecture != own.architecture || (own.machine_code && !maker.machine_code)) return 0;
        if (maker.major == own.major && maker.minor == own.minor) return INT_MAX;
    }
    /* first what the driver knows, then what is nearest to the device, then what the newest NVRTC made */
    const bool known = !dev->cu || maker.major <= dev->cu->version / 1000;
    return 1
           + (known << 29 | maker.architecture << 16 | maker.machine_code << 15 | maker.major << 7
              | maker.minor);
}
