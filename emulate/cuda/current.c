/* SPDX-License-Identifier: Apache-2.0 */
/* Which context is current. */
#include <stdio.h>

#include "emulate/cuda/driver.h"

enum { DEEPEST = 64 };

static __thread struct CUctx_st *stack[DEEPEST];
static __thread int depth;
static pthread_key_t ending; /* has a value on threads that have pushed a context */
static pthread_once_t ending_once = PTHREAD_ONCE_INIT;

/*
 * At the end of a thread. The main thread ends with its process, and is looked at when contexts end. The lock
 * shows ThreadSanitizer that the thread uses its variables before another thread frees their memory.
 */
static void thread_ends(void *unused)
{
    (void)unused;
    if (emulate_was_forked()) return;
    emulate_lock();
    const int n = depth;
    emulate_unlock();
    if (!n) return;
    emulate_print("a thread ends with %d contexts on its stack, which it did not pop", n);
    emulate_leaks_found();
}

static void make_key(void) { pthread_key_create(&ending, thread_ends); }

int yoke_emulate_stack_depth(void) { return depth; }

int emulate_stack_count(const struct CUctx_st *context)
{
    int n = 0;
    for (int i = 0; i < depth; i++) n += stack[i] == context;
    return n;
}

CUresult emulate_enter(struct CUctx_st **context_out)
{
    const CUresult result = emulate_enter_plain();
    if (result) return result;
    struct CUctx_st *context = depth ? stack[depth - 1] : NULL;
    if (!context) return emulate_leave(CUDA_ERROR_INVALID_CONTEXT);
    if (!context->active) return emulate_leave(CUDA_ERROR_CONTEXT_IS_DESTROYED);
    if (emulate_fails(FAIL_LOST))
        emulate_lose(context, CUDA_ERROR_UNKNOWN,
                     "the device is lost, as YOKE_EMULATE_FAIL=device-lost asks");
    if (context->lost) return emulate_leave(context->lost);
    *context_out = context;
    return CUDA_SUCCESS;
}

CUresult emulate_enter_uncounted(struct CUctx_st **context_out)
{
    const CUresult result = emulate_enter(context_out);
    if (!result) emulate_n_calls--;
    return result;
}

void emulate_lose(struct CUctx_st *context, CUresult error, const char *text)
{
    if (context->lost) return;
    context->lost = error;
    context->stop = true;
    char line[1400];
    snprintf(line, sizeof line, "cuda:%d: %s: %s", context->ordinal, emulate_error_name(error), text);
    emulate_keep_fault(line);
    emulate_print("%s", line);
    emulate_progress();
}

static bool is_context(CUcontext context)
{
    for (int i = 0; i < emulate_settings.n_visible; i++)
        if (context == &emulate_contexts[i]) return context->active;
    return false;
}

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    const CUresult result = emulate_enter_plain();
    if (result) return result;
    if (!is_context(context)) return emulate_leave(CUDA_ERROR_INVALID_CONTEXT);
    if (depth == DEEPEST) return emulate_leave(CUDA_ERROR_OUT_OF_MEMORY);
    stack[depth++] = context;
    pthread_once(&ending_once, make_key);
    pthread_setspecific(ending, &depth);
    return emulate_leave(CUDA_SUCCESS);
}

CUresult cuCtxPopCurrent_v2(CUcontext *context_out)
{
    const CUresult result = emulate_enter_plain();
    if (result) return result;
    if (!depth) return emulate_leave(CUDA_ERROR_INVALID_CONTEXT);
    depth--;
    if (context_out) *context_out = stack[depth];
    return emulate_leave(CUDA_SUCCESS);
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    const CUresult result = emulate_enter_plain();
    if (result) return result;
    if (!context) {
        depth -= depth > 0;
        return emulate_leave(CUDA_SUCCESS);
    }
    if (!is_context(context)) return emulate_leave(CUDA_ERROR_INVALID_CONTEXT);
    if (!depth) depth = 1;
    stack[depth - 1] = context;
    return emulate_leave(CUDA_SUCCESS);
}

CUresult cuCtxGetCurrent(CUcontext *context_out)
{
    const CUresult result = emulate_enter_plain();
    if (result) return result;
    if (context_out) *context_out = depth ? stack[depth - 1] : NULL;
    return emulate_leave(context_out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuCtxGetDevice(CUdevice *device_out)
{
    const CUresult result = emulate_enter_plain();
    if (result) return result;
    if (!depth) return emulate_leave(CUDA_ERROR_INVALID_CONTEXT);
    if (!device_out) return emulate_leave(CUDA_ERROR_INVALID_VALUE);
    *device_out = (CUdevice)(stack[depth - 1] - emulate_contexts);
    return emulate_leave(CUDA_SUCCESS);
}

CUresult cuCtxGetStreamPriorityRange(int *least_out, int *greatest_out)
{
    struct CUctx_st *context;
    const CUresult result = emulate_enter(&context);
    if (result) return result;
    if (least_out) *least_out = 0;
    if (greatest_out) *greatest_out = -5;
    return emulate_leave(CUDA_SUCCESS);
}
