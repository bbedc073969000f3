/* SPDX-License-Identifier: Apache-2.0 */
/** Errors that all drivers report alike. */
#include "backends/gpu/driver.h"

yoke_status yokei_gpu_no_host_memory(const yoke_device *device, const char *what)
{
    return yoke_fail(YOKE_ENOMEM, "%s: no host memory for %s", device->info.spec, what);
}

yoke_status yokei_gpu_call_failed(const yoke_device *device, yoke_status status, const char *call,
                                  const char *name, int error, const char *text)
{
    return yoke_fail(status, "%s: %s failed: %s (%d)%s%s", device->info.spec, call, name, error,
                     text ? ": " : "", text ? text : "");
}

yoke_status yokei_gpu_refuse_copy(const yoke_stream *stream, const void *target, const void *source)
{
    return yoke_fail(
        YOKE_EINVAL,
        "%s: a copy from %p to %p: the device's side is no memory of this device, or ends too early",
        stream->device->info.spec, source, target);
}

yoke_status yokei_gpu_refuse_fill(const yoke_stream *stream, const void *target, size_t bytes)
{
    return yoke_fail(YOKE_EINVAL, "%s: a fill of %zu bytes at %p, which is no memory of this device",
                     stream->device->info.spec, bytes, target);
}

yoke_status yokei_gpu_refuse_context(const yoke_device *device, const char *what)
{
    return yoke_fail(YOKE_EINVAL,
                     "%s: the %s to wrap is of another context; open the device by yoke_device_wrap on it",
                     device->info.spec, what);
}

yoke_status yokei_gpu_refuse_size(const yoke_device *device, const char *what, size_t has, size_t stated)
{
    return yoke_fail(YOKE_EINVAL, "%s: the %s to wrap has %zu bytes, %zu were stated", device->info.spec,
                     what, has, stated);
}

void yokei_gpu_log_bad_free(const yoke_device *device, const void *address)
{
    yoke_log(YOKE_LOG_ERROR, "%s: free of %p, which is no allocation of this device", device->info.spec,
             address);
}
