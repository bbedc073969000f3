/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A complete backend that computes nothing. Copy it to start a backend for new hardware. docs/BACKENDS.md ("A
 * backend of another kind") says how a copy becomes a real backend, step by step.
 *
 * The device has memory of its own that the host cannot address, so data comes and goes by copies. In this
 * file, memory of the process stands in for it. A stream runs each call at once, so a call has ended when it
 * returns. Every operation fails with YOKE_EUNSUPPORTED. The library does not contain this backend:
 * tests/unit/null_backend.c links it and finds it in the registry.
 */
#include <stdlib.h>
#include <string.h>

#include "core/backend.h"

/* ---- devices ---- */

/* The description that `yoke info` prints. A real backend asks its driver. */
static void describe(struct yoke_device_info *info)
{
    *info = (struct yoke_device_info){ .size = sizeof *info };
    yokei_text(info->spec, sizeof info->spec, "null:0");
    yokei_text(info->backend, sizeof info->backend, "null");
    yokei_text(info->name, sizeof info->name, "a device without operations");
    yokei_text(info->driver, sizeof info->driver, "yoke %s", yoke_version());
    yokei_text(info->vendor, sizeof info->vendor, "other");
    info->memory_bytes = info->max_alloc_bytes = (uint64_t)1 << 20;
    info->compute_units = 1;
    info->host_visible = false;
    info->storage = 1u << YOKE_F32 | 1u << YOKE_F16
                    | 1u << YOKE_BF16; /* types that operations may read and write */
    info->arithmetic = 1u << YOKE_F32; /* types that operations compute in */
}

/*
 * This function runs in a child process, so a driver may crash or hang in it. Without a device it sets
 * n_devices to 0 and fills `reason`.
 */
static void probe(struct yoke_probe *out)
{
    out->n_devices = 1;
    out->reason[0] = '\0';
    describe(&out->devices[0]);
}

/* A real backend loads the vendor's library here, by dlopen, and keeps its handles in device->impl. */
static yoke_status device_open(yoke_device *device, int index, const struct yoke_native *native)
{
    (void)native; /* always NULL, because memory_ops has no `wrap` */
    if (index != 0)
        return yoke_fail(YOKE_ENODEV, "null device %d: there is only one; open \"null:0\"", index);
    describe(&device->info);
    return YOKE_OK;
}

static yoke_status device_memory(const yoke_device *device, uint64_t *free_out, uint64_t *total_out)
{
    *total_out = device->info.memory_bytes;
    *free_out = *total_out - atomic_load(&device->allocated);
    return YOKE_OK;
}

static const struct yoke_device_ops device_ops = { .open = device_open, .memory = device_memory };

/* ---- memory ---- */

/* In front of every allocation, so that a release knows its size. */
enum { ALIGNMENT = 64 };
struct header {
    size_t bytes;
};

static yoke_status memory_alloc(yoke_device *device, size_t bytes, void **address_out)
{
    uint64_t available, total;
    void *block = NULL;
    YOKE_TRY(device_memory(device, &available, &total));
    if (bytes > available || posix_memalign(&block, ALIGNMENT, bytes + ALIGNMENT))
        return yoke_fail(YOKE_ENOMEM, "device %s: cannot allocate %zu bytes, %llu are available",
                         device->info.spec, bytes, (unsigned long long)available);
    ((struct header *)block)->bytes = bytes;
    yokei_account(device, (int64_t)bytes);
    *address_out = (char *)block + ALIGNMENT;
    return YOKE_OK;
}

static void memory_free(yoke_device *device, void *address)
{
    struct header *block = (struct header *)((char *)address - ALIGNMENT);
    yokei_account(device, -(int64_t)block->bytes);
    free(block);
}

/* NULL: the host cannot address the memory. The collectives then stage it through buffers of the host. */
static void *memory_host_ptr(const yoke_device *device, const void *address)
{
    (void)device, (void)address;
    return NULL;
}

static const struct yoke_memory_ops memory_ops = { .alloc = memory_alloc,
                                                   .free = memory_free,
                                                   .host_ptr = memory_host_ptr };

/* ---- streams ---- */

/*
 * A real backend starts the copy and returns. One of the two addresses is the host's, unless `kind` is
 * YOKE_COPY_ON_DEVICE.
 */
static yoke_status stream_copy(yoke_stream *stream, enum yoke_copy_kind kind, void *target,
                               const void *source, size_t bytes)
{
    (void)stream, (void)kind;
    memmove(target, source, bytes);
    return YOKE_OK;
}

static yoke_status stream_fill(yoke_stream *stream, void *target, uint8_t byte, size_t bytes)
{
    (void)stream;
    memset(target, byte, bytes);
    return YOKE_OK;
}

/*
 * Streams for calls that end before they return. A device with queues fills all functions of struct
 * yoke_stream_ops and of struct yoke_event_ops itself.
 */
static const struct yoke_stream_ops stream_ops = YOKEI_EAGER_STREAM_OPS(stream_copy, stream_fill);

/*
 * Member `ops` has no entry, so core refuses every operation. A copy begins with an entry such as
 *     .ops = { [YOKE_OP_add] = &mine_add },
 */
extern const struct yoke_backend yokei_backend_null;
const struct yoke_backend yokei_backend_null = {
    .abi = YOKE_BACKEND_ABI,
    .size = sizeof(struct yoke_backend),
    .name = "null",
    .summary = "a backend to be copied: it offers no operation",
    .probe = probe,
    .device = &device_ops,
    .memory = &memory_ops,
    .stream = &stream_ops,
    .event = &yokei_eager_event_ops,
};
