/* SPDX-License-Identifier: Apache-2.0 */
/** Compilation ahead of time: the programs of a device that need not be here are written to a folder. */
#include <stdlib.h>

#include "backends/gpu/families.h"

/** Whether an op that was asked for uses the program, and all of the program's types were asked for. */
static bool is_selected(const struct yokei_ahead *ahead, const struct yokei_gpu_program *program)
{
    static const yoke_dtype types[] = { YOKE_F32, YOKE_F16, YOKE_BF16 };
    bool any = false;
    for (int op = 0; op < YOKE_N_OPS; op++)
        any |= ahead->op[op] && yokei_gpu_program_serves(program, (enum yoke_op_id)op);
    for (size_t i = 0; i < YOKE_COUNT(types); i++)
        any &= ahead->dtype[types[i]] || !yokei_gpu_program_has_type(program, types[i]);
    return any;
}

/** The bytes of the program's entry if it is in the folder and whole. 0: it must be compiled. */
static size_t bytes_there(const yoke_device *device, const struct yokei_gpu_cache_key *key)
{
    struct yokei_gpu_cached list[YOKEI_GPU_MAX_CACHED];
    void *binary;
    size_t bytes = 0;
    uint64_t kernels;
    if (!yokei_gpu_cache_find(device, key, list)) return 0;
    const yoke_status status = yokei_gpu_cache_read(key, &list[0], &binary, &bytes, &kernels);
    if (status) {
        yokei_gpu_cache_refuse(device, &list[0], status);
        return 0;
    }
    free(binary);
    return bytes;
}

static yoke_status make_program(yoke_device *device, const struct yokei_gpu_source *source,
                                struct yokei_ahead *ahead)
{
    const struct yokei_gpu_cache_key key = yokei_gpu_cache_key(device, source);
    void *binary = NULL;
    size_t bytes = bytes_there(device, &key);
    if (bytes) {
        ahead->n_there++;
        ahead->bytes += bytes;
        return YOKE_OK;
    }
    YOKE_TRY(yokei_gpu(device)->driver->compile(device, source, &binary, &bytes));
    yoke_status status = yokei_gpu_cache_store(device, &key, binary, bytes, UINT64_MAX, &bytes);
    free(binary);
    if (status) return status;
    ahead->n_compiled++;
    ahead->bytes += bytes;
    return YOKE_OK;
}

yoke_status yokei_gpu_ahead(yoke_device *device, struct yokei_ahead *ahead)
{
    const struct yokei_gpu_device *gpu = yokei_gpu(device);
    struct yokei_gpu_program program;
    struct yokei_gpu_source source;
    ahead->n_programs = 0;
    for (int i = 0; yokei_gpu_catalog(i, gpu->is_cpu, gpu->warp, &program); i++)
        ahead->n_programs += yokei_gpu_offers(gpu, &program) && is_selected(ahead, &program);
    for (int i = 0; yokei_gpu_catalog(i, gpu->is_cpu, gpu->warp, &program); i++) {
        if (!yokei_gpu_offers(gpu, &program) || !is_selected(ahead, &program)) continue;
        YOKE_TRY(
            yokei_gpu_source_make(&program, gpu->driver->language, gpu->is_cpu, gpu->warp, false, &source));
        if (ahead->progress) ahead->progress(ahead, program.family);
        const yoke_status status = make_program(device, &source, ahead);
        yokei_gpu_source_free(&source);
        if (status) return status;
    }
    return YOKE_OK;
}
