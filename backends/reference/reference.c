/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/reference/reference.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- device ---- */

static uint64_t pages_bytes(int name)
{
    const long pages = sysconf(name), bytes = sysconf(_SC_PAGESIZE);
    return pages > 0 && bytes > 0 ? (uint64_t)pages * (uint64_t)bytes : 0;
}

static void describe(struct yoke_device_info *info)
{
    *info = (struct yoke_device_info){ .size = sizeof *info };
    yokei_text(info->spec, sizeof info->spec, "reference");
    yokei_text(info->backend, sizeof info->backend, "reference");
    yokei_text(info->name, sizeof info->name, "float64 oracle in plain C");
    yokei_text(info->driver, sizeof info->driver, "yoke %s", yoke_version());
    yokei_text(info->features, sizeof info->features, "f64 storage");
    info->memory_bytes = pages_bytes(_SC_PHYS_PAGES);
    info->max_alloc_bytes = info->memory_bytes;
    info->compute_units = 1;
    info->host_visible = true;
    info->storage = 1u << YOKE_F32 | 1u << YOKE_F16 | 1u << YOKE_BF16 | 1u << YOKE_F64;
    info->arithmetic = 1u << YOKE_F64;
}

static void reference_probe(struct yoke_probe *out)
{
    out->n_devices = 1;
    out->reason[0] = '\0';
    describe(&out->devices[0]);
}

static yoke_status device_open(yoke_device *device, int index, const struct yoke_native *native)
{
    if (native)
        return yoke_fail(YOKE_EUNSUPPORTED, "reference device: it has no foreign context to wrap; open \"reference\" instead");
    if (index != 0)
        return yoke_fail(YOKE_ENODEV, "reference device %d: there is only one; open \"reference\"", index);
    describe(&device->info);
    device->impl = NULL;
    return YOKE_OK;
}

static void device_close(yoke_device *device)
{
    (void)device;
}

static yoke_status device_memory(const yoke_device *device, uint64_t *free_out, uint64_t *total_out)
{
    (void)device;
    *free_out = pages_bytes(_SC_AVPHYS_PAGES);
    *total_out = pages_bytes(_SC_PHYS_PAGES);
    return YOKE_OK;
}

static const struct yoke_device_ops device_ops = {
    .open = device_open,
    .close = device_close,
    .memory = device_memory,
    .variant = NULL,
};

/* ---- memory ---- */

static yoke_status memory_alloc(yoke_device *device, size_t bytes, void **address_out)
{
    (void)device;
    void *address;
    if (posix_memalign(&address, 64, bytes ? bytes : 1))
        return yoke_fail(YOKE_ENOMEM, "reference device: cannot allocate %zu bytes, %llu bytes of memory are free; "
                                      "use smaller shapes or batches",
                         bytes, (unsigned long long)pages_bytes(_SC_AVPHYS_PAGES));
    *address_out = address;
    return YOKE_OK;
}

static void memory_free(yoke_device *device, void *address)
{
    (void)device;
    free(address);
}

static void *memory_host_ptr(const yoke_device *device, const void *address)
{
    (void)device;
    return (void *)(uintptr_t)address;
}

static const struct yoke_memory_ops memory_ops = {
    .alloc = memory_alloc,
    .free = memory_free,
    .wrap = NULL,
    .host_ptr = memory_host_ptr,
};

/* ---- streams: what is issued has ended when the call returns ---- */

static yoke_status stream_create(yoke_stream *stream, const struct yoke_native *native)
{
    if (native) return yoke_fail(YOKE_EUNSUPPORTED, "reference device: it has no foreign queues to wrap");
    stream->impl = NULL;
    return YOKE_OK;
}

static void stream_destroy(yoke_stream *stream)
{
    (void)stream;
}

static yoke_status stream_nothing_to_wait_for(yoke_stream *stream)
{
    (void)stream;
    return YOKE_OK;
}

static yoke_status stream_copy(yoke_stream *stream, enum yoke_copy_kind kind, void *target, const void *source, size_t bytes)
{
    (void)stream, (void)kind;
    if (bytes) memmove(target, source, bytes);
    return YOKE_OK;
}

static yoke_status stream_fill(yoke_stream *stream, void *target, uint8_t byte, size_t bytes)
{
    (void)stream;
    if (bytes) memset(target, byte, bytes);
    return YOKE_OK;
}

/* An event is incomplete only between arm and signal: all that a stream could record has ended already. */
struct event {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool complete;
};

static yoke_status event_create(yoke_event *event)
{
    struct event *e = malloc(sizeof *e);
    if (!e) return yoke_fail(YOKE_ENOMEM, "reference device: no memory for an event (%zu bytes)", sizeof *e);
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->changed, NULL);
    e->complete = true;
    event->impl = e;
    return YOKE_OK;
}

static void event_destroy(yoke_event *event)
{
    struct event *e = event->impl;
    pthread_cond_destroy(&e->changed);
    pthread_mutex_destroy(&e->lock);
    free(e);
}

static yoke_status event_set(yoke_event *event, bool complete)
{
    struct event *e = event->impl;
    pthread_mutex_lock(&e->lock);
    e->complete = complete;
    if (complete) pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
    return YOKE_OK;
}

static yoke_status event_record(yoke_event *event, yoke_stream *stream)
{
    (void)stream;
    return event_set(event, true);
}

static yoke_status event_arm(yoke_event *event)
{
    return event_set(event, false);
}

static yoke_status event_signal(yoke_event *event)
{
    return event_set(event, true);
}

static yoke_status event_query(yoke_event *event, bool *complete_out)
{
    struct event *e = event->impl;
    pthread_mutex_lock(&e->lock);
    *complete_out = e->complete;
    pthread_mutex_unlock(&e->lock);
    return YOKE_OK;
}

static yoke_status event_wait(yoke_stream *stream, yoke_event *event)
{
    (void)stream;
    struct event *e = event->impl;
    pthread_mutex_lock(&e->lock);
    while (!e->complete) pthread_cond_wait(&e->changed, &e->lock);
    pthread_mutex_unlock(&e->lock);
    return YOKE_OK;
}

static const struct yoke_stream_ops stream_ops = {
    .create = stream_create,
    .destroy = stream_destroy,
    .sync = stream_nothing_to_wait_for,
    .flush = stream_nothing_to_wait_for,
    .copy = stream_copy,
    .fill = stream_fill,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_arm = event_arm,
    .event_signal = event_signal,
    .event_query = event_query,
    .event_wait = event_wait,
};

/* ---- shared by the families ---- */

yoke_status reference_check(enum yoke_op_id op, const char *field, yoke_dtype dtype)
{
    if (dtype == YOKE_F32 || dtype == YOKE_F16 || dtype == YOKE_BF16 || dtype == YOKE_F64) return YOKE_OK;
    return yoke_fail(YOKE_EUNSUPPORTED, "%s: %s = %s is not offered on the reference device; use f32, f16, bf16 or f64",
                     yokei_op_names[op], field, yoke_dtype_name(dtype));
}

extern const struct yoke_backend yokei_backend_reference;
const struct yoke_backend yokei_backend_reference = {
    .abi = YOKE_BACKEND_ABI,
    .size = sizeof(struct yoke_backend),
    .name = "reference",
    .summary = "the oracle: every op in plain C with float64 arithmetic, also for f64 data; slow",
    .probe = reference_probe,
    .device = &device_ops,
    .memory = &memory_ops,
    .stream = &stream_ops,
    .gemm = &reference_gemm_ops,
    .norm = &reference_norm_ops,
    .act = &reference_act_ops,
    .attention = &reference_attention_ops,
    .embed = &reference_embed_ops,
    .loss = &reference_loss_ops,
    .optim = &reference_optim_ops,
    .cast = &reference_cast_ops,
    .elementwise = &reference_elementwise_ops,
};
