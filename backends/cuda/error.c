/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Errors of the driver. Some errors of a kernel, such as an access outside of memory, make the whole context
 * unusable. All later calls on the context then return the same error.
 */
#include <stdio.h>
#include <string.h>

#include "backends/cuda/cuda.h"

const char *yokei_cuda_error_name(const struct cuda_library *cu, CUresult error)
{
    const char *name = NULL;
    return cu->cuGetErrorName && !cu->cuGetErrorName(error, &name) && name ? name : "an unlisted error";
}

bool yokei_cuda_is_fatal(CUresult error)
{
    switch (error) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_TENSOR_MEMORY_LEAK:
    case CUDA_ERROR_MPS_CLIENT_TERMINATED:
    case CUDA_ERROR_EXTERNAL_DEVICE:
    case CUDA_ERROR_UNKNOWN: return true;
    default: return false;
    }
}

/** What a user can look at, for errors whose text by the driver does not say it. */
static const char *advice(CUresult error)
{
    switch (error) {
    case CUDA_ERROR_UNKNOWN:
        return "The driver names no cause. The lines 'NVRM: Xid' of dmesg, and nvidia-smi, say whether the GPU "
               "has failed or is gone. ";
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
        return "This is an error of the hardware: see nvidia-smi -q, and the lines 'NVRM: Xid' of dmesg. ";
    case CUDA_ERROR_MPS_CLIENT_TERMINATED:
        return "NVIDIA's service MPS has ended this process, perhaps because another client of the GPU failed. ";
    default: return "";
    }
}

/** The op of the stream's first group of commands that has not ended, or NULL if all have. */
static const char *unfinished(const struct cuda_stream *s)
{
    const uint32_t done = atomic_load(cuda_word(s->done)), group = atomic_load(&s->group);
    if (done == group) return NULL;
    if (group - done > CUDA_FOLLOWED) return "one of many commands";
    return atomic_load(&s->ops[(done + 1) % CUDA_FOLLOWED]);
}

/** List the ops that may have failed: the first one of each stream that had not ended. */
static void suspects(const struct cuda_device *dev, char *text, size_t bytes)
{
    text[0] = '\0';
    for (const struct cuda_stream *s = dev->streams; s; s = s->next) {
        const char *op = unfinished(s);
        const size_t n = strlen(text);
        if (op && !strstr(text, op)) yokei_text(text + n, bytes - n, "%s%s", n ? " or " : "", op);
    }
}

static void die(struct cuda_device *dev, const char *spec, const char *call, CUresult error)
{
    char ops[400];
    const char *text = NULL;
    pthread_mutex_lock(&dev->lock);
    if (!dev->dead[0]) {
        suspects(dev, ops, sizeof ops);
        if (dev->cu->cuGetErrorString(error, &text) || !text) text = "no text";
        if (dev->cu->last_fault && *dev->cu->last_fault()) text = dev->cu->last_fault();
        yokei_text(
            dev->dead, sizeof dev->dead,
            "%s: %s%sfailed on the device: %s (%d): %s. %sThe CUDA context is lost: start the process again",
            spec, ops[0] ? ops : call, ops[0] ? ", issued earlier, " : " ",
            yokei_cuda_error_name(dev->cu, error), error, text, advice(error));
        atomic_store(&dev->is_dead, true);
    }
    pthread_mutex_unlock(&dev->lock);
}

yoke_status yokei_cuda_fail(const yoke_device *device, const char *call, CUresult error)
{
    struct cuda_device *dev = cuda_device(device);
    const char *text = NULL;
    if (yokei_cuda_is_fatal(error)) {
        die(dev, device->info.spec, call, error);
        return yoke_fail(YOKE_EBACKEND, "%s", dev->dead);
    }
    if (dev->cu->cuGetErrorString(error, &text) || !text) text = "no text";
    return yokei_gpu_call_failed(device, error == CUDA_ERROR_OUT_OF_MEMORY ? YOKE_ENOMEM : YOKE_EBACKEND,
                                 call, yokei_cuda_error_name(dev->cu, error), (int)error, text);
}
