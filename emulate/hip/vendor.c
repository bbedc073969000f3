/* SPDX-License-Identifier: Apache-2.0 */
/* What the stand-in libamdhip64 adds to the core: its settings, and the limits of its devices. */
#include <stdio.h>
#include <stdlib.h>

#include "emulate/hip/hip.h"

struct hip_settings hip_settings = { .major = 6, .minor = 2 };

static bool find_model(const char *target)
{
    hip_settings = (struct hip_settings){ .model = hip_model(target), .major = 6, .minor = 2 };
    if (!hip_settings.model) return false;
    emulate_settings.multiprocessors = hip_settings.model->compute_units;
    return true;
}

static bool read_version(void)
{
    int version = 10 * hip_settings.major + hip_settings.minor;
    const char *text = getenv("YOKE_EMULATE_HIP");
    if (text && *text && !emulate_read_version(text, &version))
        return emulate_refuse("YOKE_EMULATE_HIP", text, "a version of HIP, such as 6.2");
    hip_settings.major = version / 10;
    hip_settings.minor = version % 10;
    return true;
}

static bool read_environment(void)
{
    uint64_t queues = 4;
    if (!emulate_read_variable("GPU_MAX_HW_QUEUES", 1, 32, "a number from 1 to 32", &queues)
        || !read_version())
        return false;
    emulate_settings.channels = (int)queues;
    /* ROCm's lower layer selects devices first, and HIP selects some of these. */
    emulate_select_devices(getenv("ROCR_VISIBLE_DEVICES"));
    emulate_select_devices(getenv("HIP_VISIBLE_DEVICES"));
    /* Without the kernel's file for computing, ROCm has no devices. */
    hip_settings.kfd = emulate_fails_from(FAIL_NO_KFD) ? 1 : emulate_fails_from(FAIL_NO_PERMISSION) ? 2 : 0;
    if (hip_settings.kfd) emulate_settings.n_visible = 0;
    return true;
}

static void describe_device(struct context *context)
{
    const struct hip_model *model = hip_settings.model;
    context->limits = (struct kernel_limits){
        .grid = { 2147483647, 65535, 65535 },
        .block = { 1024, 1024, 1024 },
        .threads = 1024,
        .shared_bytes = (uint32_t)model->shared_bytes,
        .target = model->target,
    };
    context->resident_threads = (uint64_t)emulate_settings.multiprocessors
                                * (uint64_t)model->threads_per_unit;
}

/* A program for another processor does not load. */
static enum emulate_error check_target(const struct kernel_info *info, char *text, size_t text_bytes)
{
    if (info->target != hip_settings.model->target) {
        snprintf(text, text_bytes, "the kernel %s is for gfx%x, and the device is %s", info->name,
                 info->target, hip_settings.model->name);
        return EMULATE_NO_BINARY_FOR_GPU;
    }
    char place[300] = "";
    if (info->source) snprintf(place, sizeof place, " (%s:%d)", info->source, info->source_line);
    if (info->shared_bytes > (uint32_t)hip_settings.model->shared_bytes) {
        snprintf(text, text_bytes, "the kernel %s%s uses %u bytes of LDS, and a block has at most %d",
                 info->name, place, info->shared_bytes, hip_settings.model->shared_bytes);
        return EMULATE_INVALID_IMAGE;
    }
    if (info->most_local_bytes && info->local_bytes > info->most_local_bytes) {
        snprintf(text, text_bytes,
                 "the kernel %s%s uses %u bytes of scratch memory, and a thread has at most %u", info->name,
                 place, info->local_bytes, info->most_local_bytes);
        return EMULATE_INVALID_IMAGE;
    }
    return EMULATE_OK;
}

/* A block may use all of the LDS without asking for it. */
static enum emulate_error check_lds(const struct function *function, uint32_t dynamic_bytes)
{
    return (uint64_t)function->info.shared_bytes + dynamic_bytes > (uint64_t)hip_settings.model->shared_bytes
               ? EMULATE_LAUNCH_OUT_OF_RESOURCES
               : EMULATE_OK;
}

/* A program looks at the file before it opens ROCm's library, so this is no function of HIP. */
int yoke_emulate_kfd(void)
{
    if (!emulate_enter_plain()) emulate_unlock(); /* the first call reads the settings */
    return hip_settings.kfd;
}

/* The first ones are those of enum hip_failure. */
static const char *const own_failures[] = { "no-kfd",
                                            "no-permission",
                                            "rocblas-create",
                                            "rocblas-gemm",
                                            "hipblaslt-create",
                                            "hipblaslt-heuristic",
                                            "hipblaslt-matmul",
                                            "hipblaslt-version",
                                            "hipblaslt-order",
                                            "hipblaslt-short",
                                            NULL };

const struct vendor emulate_vendor = { .word = "hip",
                                       .library = "libamdhip64",
                                       .maker = "AMD's runtime",
                                       .wanted = "hip:gfx90a, hip:gfx942 or hip:gfx1100",
                                       .share_suffix = ".hip",
                                       .bad_program = EMULATE_INVALID_IMAGE,
                                       .instruction_bytes = 8,
                                       .failures = own_failures,
                                       .is_lazy = true,
                                       .ends_with_process = true,
                                       .read_target = find_model,
                                       .read_variables = read_environment,
                                       .current = hip_current,
                                       .describe = describe_device,
                                       .check_kernel = check_target,
                                       .check_shared = check_lds,
                                       .error_name = hip_error_name };
