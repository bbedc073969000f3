/* SPDX-License-Identifier: Apache-2.0 */
/* The lock, and all that it protects from its beginning: the contexts and the handles. */
#include "emulate/gpu/driver.h"

enum { N_BUCKETS = 1024 };

struct context emulate_contexts[MOST_DEVICES];
bool emulate_ready;
uint64_t emulate_n_calls;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t progress; /* made by set_up_context, because its clock is not the default */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool forked;
static struct object *buckets[N_BUCKETS];
static __thread bool in_callback;

/* The threads do not exist in a child process; like the vendors' drivers, ours cannot be used there. */
static void after_fork(void) { forked = true; }

bool emulate_was_forked(void) { return forked; }

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

enum emulate_error emulate_leave(enum emulate_error result)
{
    pthread_mutex_unlock(&lock);
    return result;
}

enum emulate_error emulate_enter_plain(void)
{
    if (forked) return EMULATE_NOT_INITIALIZED;
    if (in_callback) return EMULATE_NOT_PERMITTED;
    emulate_lock();
    emulate_n_calls++;
    if (emulate_ready) return EMULATE_OK;
    const enum emulate_error result = emulate_vendor.is_lazy ? emulate_init() : EMULATE_NOT_INITIALIZED;
    return result ? emulate_leave(result) : EMULATE_OK;
}

/* ---- handles ---- */

static struct object **bucket_of(const void *handle)
{
    return &buckets[((uintptr_t)handle >> 4) * 0x9e3779b97f4a7c15ull >> 54];
}

void emulate_object_add(struct object *object, enum kind kind, struct context *context)
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

struct object *emulate_object_any(const struct context *context, enum kind kind)
{
    for (int i = 0; i < N_BUCKETS; i++)
        for (struct object *o = buckets[i]; o; o = o->next)
            if (o->context == context && o->kind == kind) return o;
    return NULL;
}

void emulate_objects(const struct context *context, void (*visit)(struct object *))
{
    for (int i = 0; i < N_BUCKETS; i++)
        for (struct object *o = buckets[i]; o; o = o->next)
            if (o->context == context) visit(o);
}
