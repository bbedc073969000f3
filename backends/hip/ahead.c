/* SPDX-License-Identifier: Apache-2.0 */
/** yoke compile: programs for an architecture, without a device and without a driver. */
#include <stdlib.h>
#include <string.h>

#include "backends/hip/hip.h"
#include "backends/hip/options.h"

int yokei_hip_wavefront(const char *arch)
{
    /* gfx9 with two more characters is GCN or CDNA; RDNA begins at gfx1010 */
    return strcspn(arch, ":") == 6 && !strncmp(arch, "gfx9", 4) ? 64 : 32;
}

static yoke_status check_target(const char *target, const struct yokei_ahead *ahead)
{
    char processor[16], emulation[32];
    yokei_text(processor, sizeof processor, "%.*s", (int)YOKE_MIN(strcspn(target, ":"), sizeof processor - 1),
               target);
    yokei_text(emulation, sizeof emulation, "hip:%s", processor);
    if (!yokei_is_emulation(emulation) || strlen(target) >= HIP_ARCH)
        return yoke_fail(
            YOKE_EINVAL,
            "device '%s': behind hip: stands an architecture, such as gfx942 or gfx90a:sramecc+:xnack-. yoke "
            "info prints it on a machine with the GPU",
            ahead->spec);
    if (ahead->driver_version)
        return yoke_fail(YOKE_EINVAL, "device '%s': only programs of CUDA depend on the version of a driver",
                         ahead->spec);
    return YOKE_OK;
}

yoke_status yokei_hip_ahead(yoke_device *device, const char *target, struct yokei_ahead *ahead)
{
    char reason[YOKE_REASON_BYTES];
    YOKE_TRY(check_target(target, ahead));
    struct hip_device *dev = calloc(1, sizeof *dev);
    if (!dev) return yoke_fail(YOKE_ENOMEM, "%s: no host memory", ahead->spec);
    /* no folder, so that what is found of compilers leaves no file beside the programs */
    if (!yokei_hip_compiler(target, "", &dev->compiler, reason, sizeof reason)) {
        free(dev);
        return yoke_fail(YOKE_ENODEV, "%s: %s", ahead->spec, reason);
    }
    yokei_text(dev->arch, sizeof dev->arch, "%s", target);
    dev->rt.gpu.driver = &yokei_hip_driver;
    dev->rt.gpu.vector_floats = 1;
    dev->rt.gpu.warp = yokei_hip_wavefront(target);
    dev->rt.gpu.max_group = 1024; /* of all AMD GPUs, as the local memory */
    dev->rt.gpu.local_bytes = 64 << 10;
    dev->rt.gpu.reserves_private = true;
    yokei_text(dev->rt.gpu.identity, sizeof dev->rt.gpu.identity, "%s", HIP_IDENTITY);
    device->impl = dev;
    yokei_hip_compiler_text(&dev->compiler, ahead->compiler, sizeof ahead->compiler);
    const yoke_status status = yokei_gpu_ahead(device, ahead);
    free(dev);
    device->impl = NULL;
    return status;
}
