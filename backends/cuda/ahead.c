/* SPDX-License-Identifier: Apache-2.0 */
/** yoke compile: programs for an architecture, without a device and without a driver. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/cuda.h"

static yoke_status find_compiler(const struct yokei_ahead *ahead, const struct cuda_nvrtc **nvrtc_out)
{
    char reason[YOKE_REASON_BYTES], package[48];
    const int any = 99000, version = ahead->driver_version;
    const struct cuda_nvrtc *nvrtc = *nvrtc_out = yokei_cuda_nvrtc(version ? version : any, reason,
                                                                   sizeof reason);
    if (!nvrtc) return yoke_fail(YOKE_ENODEV, "%s: %s", ahead->spec, reason);
    if (version && nvrtc->major > version / 1000)
        return yoke_fail(
            YOKE_ENODEV,
            "%s: a driver of CUDA %d.%d does not take programs of NVRTC %d.%d (%s), which is the "
            "oldest NVRTC here: pip install %s",
            ahead->spec, version / 1000, version % 1000 / 10, nvrtc->major, nvrtc->minor, nvrtc->path,
            yokei_cuda_nvrtc_package(version, package));
    return YOKE_OK;
}

static yoke_status parse_target(const char *target, const struct yokei_ahead *ahead,
                                const struct cuda_nvrtc *nvrtc, int *cc_out)
{
    char known[512] = "";
    int used = 0, cc = 0;
    if (sscanf(target, "sm_%4d%n", &cc, &used) != 1 || target[used] || cc <= 0)
        return yoke_fail(
            YOKE_EINVAL,
            "device '%s': behind cuda: stands an architecture, such as sm_90 for compute capability "
            "9.0. yoke info prints it on a machine with the GPU",
            ahead->spec);
    for (int i = 0; i < nvrtc->n_architectures; i++) {
        const size_t n = strlen(known);
        if (nvrtc->architectures[i] == cc) {
            *cc_out = cc;
            return YOKE_OK;
        }
        yokei_text(known + n, sizeof known - n, "%ssm_%d", i ? ", " : "", nvrtc->architectures[i]);
    }
    return yoke_fail(
        YOKE_EINVAL,
        "device '%s': NVRTC %d.%d (%s) does not know sm_%d. It knows %s. A GPU also runs programs of "
        "an older architecture",
        ahead->spec, nvrtc->major, nvrtc->minor, nvrtc->path, cc, known);
}

yoke_status yokei_cuda_ahead(yoke_device *device, const char *target, struct yokei_ahead *ahead)
{
    const struct cuda_nvrtc *nvrtc;
    int cc;
    YOKE_TRY(find_compiler(ahead, &nvrtc));
    YOKE_TRY(parse_target(target, ahead, nvrtc, &cc));
    struct cuda_device *dev = calloc(1, sizeof *dev);
    if (!dev) return yoke_fail(YOKE_ENOMEM, "%s: no host memory", ahead->spec);
    dev->nvrtc = nvrtc;
    dev->cc = cc;
    /* every NVIDIA GPU has these sizes; the number of multiprocessors only selects among the programs */
    dev->rt.gpu.driver = &yokei_cuda_driver;
    dev->rt.gpu.vector_floats = 1;
    dev->rt.gpu.warp = 32;
    dev->rt.gpu.max_group = 1024;
    dev->rt.gpu.local_bytes = 48 << 10;
    dev->rt.gpu.reserves_private = true;
    dev->rt.gpu.multiplies_squares = cc >= 80;
    yokei_text(dev->rt.gpu.identity, sizeof dev->rt.gpu.identity, "%s", CUDA_IDENTITY);
    device->impl = dev;
    yokei_text(ahead->compiler, sizeof ahead->compiler, "NVRTC %d.%d (%s)", nvrtc->major, nvrtc->minor,
               nvrtc->path);
    const yoke_status status = yokei_gpu_ahead(device, ahead);
    free(dev);
    device->impl = NULL;
    return status;
}
