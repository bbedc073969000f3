/* SPDX-License-Identifier: Apache-2.0 */
/* Which context is current. */
#include "emulate/cuda/cuda.h"
#include "emulate/cuda/emulate.h"

enum { DEEPEST = 64 };

static __thread struct context *stack[DEEPEST];
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

int cuda_report_stack(const struct context *context)
{
    int n = 0;
    /* a program may release a context that it has made current; the tests of Yoke's backend may not */
    for (int i = 0; i < depth && emulate_leaks_are_errors(); i++) n += stack[i] == context;
    if (n)
        emulate_print("cuda:%d: not popped: the context is %d times on the stack of the thread that ends it",
                      context->ordinal, n);
    return n;
}

enum emulate_error cuda_current(struct context **context_out)
{
    *context_out = depth ? stack[depth - 1] : NULL;
    if (!*context_out) return EMULATE_INVALID_CONTEXT;
    return (*context_out)->active ? EMULATE_OK : EMULATE_CONTEXT_IS_DESTROYED;
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
    if (!is_context(context)) return emulate_leave(EMULATE_INVALID_CONTEXT);
    if (depth == DEEPEST) return emulate_leave(EMULATE_OUT_OF_MEMORY);
    stack[depth++] = context;
    pthread_once(&ending_once, make_key);
    pthread_setspecific(ending, &depth);
    return emulate_leave(EMULATE_OK);
}

CUresult cuCtxPopCurrent_v2(CUcontext *context_out)
{
    const CUresult result = emulate_enter_plain();
    if (result) return result;
    if (!depth) return emulate_leave(EMULATE_INVALID_CONTEXT);
    depth--;
    if (context_out) *context_out = stack[depth];
    return emulate_leave(EMULATE_OK);
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    const CUresult result = emulate_enter_plain();
    if (result) return result;
    if (!context) {
        depth -= depth > 0;
        return emulate_leave(EMULATE_OK);
    }
    if (!is_context(context)) return emulate_leave(EMULATE_INVALID_CONTEXT);
    if (!depth) depth = 1;
    stack[depth - 1] = context;
    return emulate_leave(EMULATE_OK);
}

CUresult cuCtxGetCurrent(CUcontext *context_out)
{
    const CUresult result = emulate_enter_plain();
    if (result) return result;
    if (context_out) *context_out = depth ? stack[depth - 1] : NULL;
    return emulate_leave(context_out ? EMULATE_OK : EMULATE_INVALID_VALUE);
}

CUresult cuCtxGetDevice(CUdevice *device_out)
{
    const CUresult result = emulate_enter_plain();
    if (result) return result;
    if (!depth) return emulate_leave(EMULATE_INVALID_CONTEXT);
    if (!device_out) return emulate_leave(EMULATE_INVALID_VALUE);
    *device_out = (CUdevice)(stack[depth - 1] - emulate_contexts);
    return emulate_leave(EMULATE_OK);
}

CUresult cuCtxGetStreamPriorityRange(int *least_out, int *greatest_out)
{
    struct context *context;
    const CUresult result = emulate_enter(&context);
    if (result) return result;
    if (least_out) *least_out = 0;
    if (greatest_out) *greatest_out = -5;
    return emulate_leave(EMULATE_OK);
}
