/* SPDX-License-Identifier: Apache-2.0 */
/* The lock, handles, primary contexts, and which context is current. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulate/cuda/driver.h"

enum { DEEPEST = 64, N_BUCKETS = 1024 };

struct CUctx_st emulate_contexts[MOST_DEVICES];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t progress; /* made by set_up_context, because its clock is not the default */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool forked;
static struct object *buckets[N_BUCKETS];
static __thread struct CUctx_st *stack[DEEPEST];
static __thread int depth;
static __thread bool in_callback;

/* The threads do not exist in a child process; like NVIDIA's driver, ours cannot be used there. */
static void after_fork(void) { forked = true; }

static void set_up_context(void)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&progress, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_atfork(NULL, NULL, after_fork);
}

void emulate_lock(void)
{
    pthread_once(&once, set_up_context);
    pthread_mutex_lock(&lock);
}

bool emulate_try_lock(void) { return !pthread_mutex_trylock(&lock); }

void emulate_unlock(void) { pthread_mutex_unlock(&lock); }

void emulate_progress(void) { pthread_cond_broadcast(&progress); }

void emulate_wait_progress(uint32_t most_us)
{
    if (!most_us) {
        pthread_cond_wait(&progress, &lock);
        return;
    }
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)most_us * 1000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&progress, &lock, &until);
}

void emulate_wait_work(pthread_cond_t *work) { pthread_cond_wait(work, &lock); }

void emulate_set_in_callback(bool inside) { in_callback = inside; }

CUresult emulate_leave(CUresult result)
{
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult emulate_enter_plain(void)
{
    if (forked) return CUDA_ERROR_NOT_INITIALIZED;
    if (in_callback) return CUDA_ERROR_NOT_PERMITTED;
    emulate_lock();
    return emulate_ready ? CUDA_SUCCESS : emulate_leave(CUDA_ERROR_NOT_INITIALIZED);
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

/* ---- handles ---- */

static struct object **bucket_of(const void *handle)
{
    return &buckets[((uintptr_t)handle >> 4) * 0x9e3779b97f4a7c15ull >> 54];
}

void emulate_object_add(struct object *object, enum kind kind, struct CUctx_st *context)
{
    struct object **bucket = bucket_of(object);
    object->kind = kind;
    object->context = context;
    object->next = *bucket;
    *bucket = object;
}

void emulate_object_remove(struct object *object)
{
    struct object **at = bucket_of(object);
    while (*at != object) at = &(*at)->next;
    *at = object->next;
}

bool emulate_object_is(const void *handle, enum kind kind)
{
    for (const struct object *o = *bucket_of(handle); o; o = o->next)
        if (o == handle) return o->kind == kind;
    return false;
}

struct object *emulate_object_any(const struct CUctx_st *context, enum kind kind)
{
    for (int i = 0; i < N_BUCKETS; i++)
        for (struct object *o = buckets[i]; o; o = o->next)
            if (o->context == context && o->kind == kind) return o;
    return NULL;
}

void emulate_objects(const struct CUctx_st *context, void (*visit)(struct object *))
{
    for (int i = 0; i < N_BUCKETS; i++)
        for (struct object *o = buckets[i]; o; o = o->next)
            if (o->context == context) visit(o);
}

/* ---- primary contexts ---- */

static CUresult device_of(CUdevice device, struct CUctx_st **context_out)
{
    const CUresult result = emulate_enter_plain();
    if (result) return result;
    if (device < 0 || device >= emulate_settings.n_visible) {
        emulate_unlock();
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *context_out = &emulate_contexts[device];
    return CUDA_SUCCESS;
}

static CUresult activate(struct CUctx_st *context)
{
    const struct device_model *model = emulate_model(emulate_settings.capability);
    context->ordinal = (int)(context - emulate_contexts);
    context->limits = (struct ptx_limits){
        .grid = { 2147483647, 65535, 65535 },
        .block = { 1024, 1024, 64 },
        .threads = 1024,
        .shared_bytes = (uint32_t)model->shared_most,
        .compute_capability = (uint32_t)emulate_settings.capability,
    };
    CUresult result = emulate_memory_open(context);
    if (result) return result;
    context->ending = context->stop = false;
    result = emulate_stream_new(context, 0, &context->legacy);
    context->active = !result;
    return result;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context_out, CUdevice device)
{
    struct CUctx_st *context;
    CUresult result = device_of(device, &context);
    if (result) return result;
    if (!context_out) return emulate_leave(CUDA_ERROR_INVALID_VALUE);
    /* A device that failed stays so until the process ends. */
    if (context->lost) return emulate_leave(context->lost);
    if (!context->active) result = activate(context);
    if (result) return emulate_leave(result);
    context->references++;
    *context_out = context;
    return emulate_leave(CUDA_SUCCESS);
}

static CUresult deactivate(struct CUctx_st *context)
{
    context->ending = true;
    emulate_progress();
    const CUresult result = emulate_context_wait(context, false);
    emulate_streams_end(context);
    if (!result && emulate_log_is_set()) emulate_report_leaks(context);
    emulate_modules_end(context);
    static const enum kind kinds[] = { KIND_STREAM, KIND_EVENT };
    for (int i = 0; i < 2; i++) {
        for (struct object *object; (object = emulate_object_any(context, kinds[i]));) {
            if (kinds[i] == KIND_EVENT) emulate_mark_drop(((struct CUevent_st *)object)->last);
            emulate_object_remove(object);
            free(object);
        }
    }
    emulate_memory_close(context);
    context->active = false;
    context->references = 0;
    context->legacy = NULL;
    return result;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    struct CUctx_st *context;
    CUresult result = device_of(device, &context);
    if (result) return result;
    if (!context->active) return emulate_leave(CUDA_ERROR_INVALID_CONTEXT);
    if (--context->references == 0) result = deactivate(context);
    return emulate_leave(result);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    struct CUctx_st *context;
    CUresult result = device_of(device, &context);
    if (result) return result;
    if (context->active) result = deactivate(context);
    return emulate_leave(result);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags_out, int *active_out)
{
    struct CUctx_st *context;
    const CUresult result = device_of(device, &context);
    if (result) return result;
    if (!flags_out || !active_out) return emulate_leave(CUDA_ERROR_INVALID_VALUE);
    *flags_out = context->flags;
    *active_out = context->active;
    return emulate_leave(CUDA_SUCCESS);
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags)
{
    struct CUctx_st *context;
    const CUresult result = device_of(device, &context);
    if (result) return result;
    /* At most one of the ways to wait: spin 1, yield 2, block 4. */
    const unsigned schedule = flags & 7;
    if (flags & ~(unsigned)CU_CTX_FLAGS_MASK || (schedule & (schedule - 1)))
        return emulate_leave(CUDA_ERROR_INVALID_VALUE);
    context->flags = flags;
    return emulate_leave(CUDA_SUCCESS);
}

/* ---- the current context ---- */

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

CUresult cuCtxSynchronize(void)
{
    struct CUctx_st *context;
    const CUresult result = emulate_enter(&context);
    return result ? result : emulate_leave(emulate_context_wait(context, false));
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
