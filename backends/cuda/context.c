/* SPDX-License-Identifier: Apache-2.0 */
/** Each call of the backend makes the device's context current, and then restores the thread's own. */
#include "backends/cuda/cuda.h"

yoke_status yokei_cuda_enter(const yoke_device *device)
{
    const struct cuda_device *dev = cuda_device(device);
    if (atomic_load(&dev->is_dead)) return yoke_fail(YOKE_EBACKEND, "%s", dev->dead);
    const CUresult error = dev->cu->cuCtxPushCurrent_v2(dev->context);
    return error ? yokei_cuda_fail(device, "cuCtxPushCurrent", error) : YOKE_OK;
}

void yokei_cuda_leave(const yoke_device *device)
{
    CUcontext context;
    cuda_device(device)->cu->cuCtxPopCurrent_v2(&context);
}
