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

/*
 * The ops of the stream's first groups that may not have ended, at most `most`, in the order of the queue.
 * The failed one is among the first dev->mark_every, because behind these the queue would have written its
 * progress. Returns their number.
 */
static int unfinished(const struct cuda_stream *s, const char *ops[], int most)
{
    const uint32_t group = atomic_load(&s->group),
                   done = cuda_later(atomic_load(cuda_word(s->done)), atomic_load(&s->ended));
    int n = 0;
    if (group - done > CUDA_FOLLOWED) {
        ops[n++] = "one of many commands";
        return n;
    }
    for (uint32_t g = done; g != group && n < most;) ops[n++] = atomic_load(&s->ops[++g % CUDA_FOLLOWED]);
    return n;
}

/* Whether the text lists this op already. The names are divided by " or ". */
static bool lists(const char *text, const char *op)
{
    const size_t n = strlen(op);
    for (const char *at = text; (at = strstr(at, op)); at++)
        if ((at == text || at[-1] == ' ') && (!at[n] || at[n] == ' ')) return true;
    return false;
}

/** List the ops that may have failed, those of each stream that may not have ended. Returns their number. */
static int suspects(const struct cuda_device *dev, char *text, size_t bytes)
{
    const char *ops[CUDA_MARK_EVERY];
    int listed = 0;
    text[0] = '\0';
    for (const struct cuda_stream *s = dev->streams; s; s = s->next) {
        const int n = unfinished(s, ops, (int)dev->mark_every);
        for (int i = 0; i < n; i++) {
            const size_t used = strlen(text);
            if (lists(text, ops[i])) continue;
            yokei_text(text + used, bytes - used, "%s%s", used ? " or " : "", ops[i]);
            listed++;
        }
    }
    return listed;
}

static void die(struct cuda_device *dev, const char *spec, const char *call, CUresult error)
{
    char ops[400];
    const char *text = NULL;
    pthread_mutex_lock(&dev->lock);
    if (!dev->dead[0]) {
        const int n = suspects(dev, ops, sizeof ops);
        if (dev->cu->cuGetErrorString(error, &text) || !text) text = "no text";
        if (dev->cu->last_fault && *dev->cu->last_fault()) text = dev->cu->last_fault();
        yokei_text(
            dev->dead, sizeof dev->dead,
            "%s: %s%sfailed on the device: %s (%d): %s. %s%sThe CUDA context is lost: start the process again",
            spec, n ? ops : call, n ? ", issued earlier, " : " ", yokei_cuda_error_name(dev->cu, error),
            error, text, advice(error),
            n > 1 && dev->mark_every > 1
                ? "With CUDA_LAUNCH_BLOCKING=1 the error names the one op that failed. "
                : "");
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
