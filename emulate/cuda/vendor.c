/* SPDX-License-Identifier: Apache-2.0 */
/* What the stand-in CUDA driver adds to the core: its settings, and the limits of its devices. */
#include <stdlib.h>
#include <string.h>

#include "emulate/cuda/cuda.h"
#include "emulate/cuda/emulate.h"
#include "emulate/cuda/ptx.h"

struct cuda_settings cuda_settings;

/* The core's errors have CUDA's numbers, so an entry point returns them as they are. */
#define SAME(name, number) _Static_assert(CUDA_ERROR_##name == (number), #name);
EMULATE_CODES(SAME)
#undef SAME

static bool read_target(const char *target)
{
    cuda_settings = (struct cuda_settings){ 0 };
    if (!emulate_read_version(target, &cuda_settings.capability)) return false;
    emulate_settings.multiprocessors = cuda_model(cuda_settings.capability)->multiprocessors;
    return true;
}

static bool read_bias(int *out)
{
    static const char *const words[] = { "refused", "once", "twice", "short" };
    const char *text = getenv("YOKE_EMULATE_BIAS");
    if (!text || !*text) return true;
    for (int i = 0; i < 4; i++) {
        *out = i;
        if (!strcmp(text, words[i])) return true;
    }
    return emulate_refuse("YOKE_EMULATE_BIAS", text, "refused, once, twice or short");
}

static bool read_variables(void)
{
    uint64_t channels = 8;
    const char *ptx = getenv("YOKE_EMULATE_PTX");
    if (!emulate_read_variable("CUDA_DEVICE_MAX_CONNECTIONS", 1, 32, "a number from 1 to 32", &channels)
        || !read_bias(&cuda_settings.bias))
        return false;
    if (ptx && *ptx && !emulate_read_version(ptx, &cuda_settings.newest_ptx))
        return emulate_refuse("YOKE_EMULATE_PTX", ptx, "a version of PTX, such as 8.7");
    emulate_settings.channels = (int)channels;
    /* As NVIDIA's driver: devices in this order, up to the first one that does not exist. */
    emulate_select_devices(getenv("CUDA_VISIBLE_DEVICES"));
    return true;
}

int yoke_emulate_bias(void) { return cuda_settings.bias; }

static void describe(struct context *context)
{
    const struct device_model *model = cuda_model(cuda_settings.capability);
    context->limits = (struct kernel_limits){
        .grid = { 2147483647, 65535, 65535 },
        .block = { 1024, 1024, 64 },
        .threads = 1024,
        .shared_bytes = (uint32_t)model->shared_most,
        .target = (uint32_t)cuda_settings.capability,
    };
    context->resident_threads = (uint64_t)emulate_settings.multiprocessors
                                * (uint64_t)model->threads_per_multiprocessor;
}

/* In the order of enum cuda_failure. */
static const char *const failures[] = { "device-busy", "cublaslt-create", "cublaslt-heuristic",
                                        "cublaslt-matmul", NULL };

const struct kernel_executor *const emulate_executor = &ptx_executor;

const struct vendor emulate_vendor = { .word = "cuda",
                                       .library = "CUDA driver",
                                       .maker = "NVIDIA's driver",
                                       .wanted = "cuda:MAJOR.MINOR, such as cuda:9.0",
                                       .share_suffix = "",
                                       .bad_program = EMULATE_INVALID_PTX,
                                       .instruction_bytes = 16,
                                       .failures = failures,
                                       .read_target = read_target,
                                       .read_variables = read_variables,
                                       .current = cuda_current,
                                       .describe = describe,
                                       .check_kernel = cuda_check_kernel,
                                       .check_shared = cuda_check_shared,
                                       .report_leaks = cuda_report_stack,
                                       .error_name = cuda_error_name };
