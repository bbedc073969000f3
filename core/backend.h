/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The backend interface: all that the author of a backend reads.
 *
 * A backend is one `const struct yoke_backend`: a probe, tables for devices, memory, streams and events, and one typed
 * table per op family. core/ checks arguments (shapes, strides, nulls, aliases) before it calls an op, so a backend
 * trusts them. A device's objects are structs of core's with an `impl` pointer that belongs to the backend.
 * A backend sees include/, core/base/ and this header, nothing else of the project.
 */
#ifndef CORE_BACKEND_H
#define CORE_BACKEND_H

#include <stdatomic.h>
#include <yoke/yoke.h>
#include "core/base/base.h"

#define YOKE_BACKEND_ABI 1

/* ---- the ops of all families, each listed once in its family's header ---- */
#define YOKE_ALL_OPS(OP) \
    YOKE_GEMM_OPS(OP)    \
    YOKE_NORM_OPS(OP)    \
    YOKE_ACT_OPS(OP)     \
    YOKE_ATTENTION_OPS(OP) \
    YOKE_EMBED_OPS(OP)   \
    YOKE_LOSS_OPS(OP)    \
    YOKE_OPTIM_OPS(OP)   \
    YOKE_CAST_OPS(OP)    \
    YOKE_ELEMENTWISE_OPS(OP) \
    YOKE_ROPE_OPS(OP)

#define YOKE_OP_ID(op) YOKE_OP_##op,
enum yoke_op_id { YOKE_ALL_OPS(YOKE_OP_ID) YOKE_N_OPS };
#undef YOKE_OP_ID

/** "layernorm_forward", … for op ids in range. Defined in core/ops/names.c. */
extern const char *const yokei_op_names[YOKE_N_OPS];

/**
 * One op of a backend. `can` looks at types and shapes only and fills cost->scratch_bytes, flops and bytes; what is not
 * offered is YOKE_EUNSUPPORTED with the reason in the error text. `run` issues the op to the stream.
 */
#define YOKE_OP_SLOT(op)                                                                                          \
    struct {                                                                                                      \
        yoke_status (*can)(const yoke_device *device, const struct yoke_##op##_args *args, struct yoke_cost *cost); \
        yoke_status (*run)(yoke_stream *stream, const struct yoke_##op##_args *args);                              \
    } op;
struct yoke_gemm_ops { YOKE_GEMM_OPS(YOKE_OP_SLOT) };
struct yoke_norm_ops { YOKE_NORM_OPS(YOKE_OP_SLOT) };
struct yoke_act_ops { YOKE_ACT_OPS(YOKE_OP_SLOT) };
struct yoke_attention_ops { YOKE_ATTENTION_OPS(YOKE_OP_SLOT) };
struct yoke_embed_ops { YOKE_EMBED_OPS(YOKE_OP_SLOT) };
struct yoke_loss_ops { YOKE_LOSS_OPS(YOKE_OP_SLOT) };
struct yoke_optim_ops { YOKE_OPTIM_OPS(YOKE_OP_SLOT) };
struct yoke_cast_ops { YOKE_CAST_OPS(YOKE_OP_SLOT) };
struct yoke_elementwise_ops { YOKE_ELEMENTWISE_OPS(YOKE_OP_SLOT) };
struct yoke_rope_ops { YOKE_ROPE_OPS(YOKE_OP_SLOT) };
#undef YOKE_OP_SLOT

/* A backend's file per family declares its functions and fills its table by these two:
 *   YOKE_NORM_OPS(YOKE_OP_PROTOTYPES_OF_host)    with  #define YOKE_OP_PROTOTYPES_OF_host(op) YOKE_OP_FUNCTIONS(host, op)
 *   const struct yoke_norm_ops host_norm_ops = { YOKE_NORM_OPS(SLOT) };  with  #define SLOT(op) YOKE_OP_ENTRY(host, op) */
#define YOKE_OP_FUNCTIONS(backend, op)                                                                       \
    static yoke_status backend##_##op##_can(const yoke_device *, const struct yoke_##op##_args *, struct yoke_cost *); \
    static yoke_status backend##_##op##_run(yoke_stream *, const struct yoke_##op##_args *);
#define YOKE_OP_ENTRY(backend, op) .op = { backend##_##op##_can, backend##_##op##_run },

/** What a probe found. It runs in a child process: it may crash or hang without harm. */
struct yoke_probe {
    int n_devices;
    char reason[256]; /* why there is none, with what would bring one */
    struct yoke_device_info devices[YOKE_MAX_DEVICES];
};

struct yoke_device_ops {
    /* Fill device->info and device->impl. `native` is NULL, or the foreign objects of yoke_device_wrap. */
    yoke_status (*open)(yoke_device *device, int index, const struct yoke_native *native);
    void (*close)(yoke_device *device);
    yoke_status (*memory)(const yoke_device *device, uint64_t *free_out, uint64_t *total_out);
    /* The name of variant `index` of an op on this device, NULL past the last. NULL slot: no op has variants. */
    const char *(*variant)(const yoke_device *device, enum yoke_op_id op, int index);
};

struct yoke_memory_ops {
    yoke_status (*alloc)(yoke_device *device, size_t bytes, void **address_out);
    void (*free)(yoke_device *device, void *address);
    yoke_status (*wrap)(yoke_device *device, void *native_buffer, size_t bytes, void **address_out); /* NULL: unsupported */
    void *(*host_ptr)(const yoke_device *device, const void *address);                               /* NULL where unseen */
};

enum yoke_copy_kind { YOKE_COPY_ON_DEVICE, YOKE_COPY_TO_DEVICE, YOKE_COPY_TO_HOST };

struct yoke_stream_ops {
    yoke_status (*create)(yoke_stream *stream, const struct yoke_native *native);
    void (*destroy)(yoke_stream *stream);
    yoke_status (*sync)(yoke_stream *stream);
    yoke_status (*flush)(yoke_stream *stream);
    yoke_status (*copy)(yoke_stream *stream, enum yoke_copy_kind kind, void *target, const void *source, size_t bytes);
    yoke_status (*fill)(yoke_stream *stream, void *target, uint8_t byte, size_t bytes);
    yoke_status (*event_create)(yoke_event *event);
    void (*event_destroy)(yoke_event *event);
    yoke_status (*event_record)(yoke_event *event, yoke_stream *stream);
    yoke_status (*event_arm)(yoke_event *event);    /* a fresh host-completed state */
    yoke_status (*event_signal)(yoke_event *event); /* from any thread */
    yoke_status (*event_query)(yoke_event *event, bool *complete_out);
    yoke_status (*event_wait)(yoke_stream *stream, yoke_event *event);
};

struct yoke_backend {
    uint32_t abi;  /* YOKE_BACKEND_ABI */
    uint32_t size; /* sizeof *this */
    const char *name;
    const char *summary; /* one line for `yoke info` */
    void (*probe)(struct yoke_probe *out);
    const struct yoke_device_ops *device;
    const struct yoke_memory_ops *memory;
    const struct yoke_stream_ops *stream;
    const struct yoke_gemm_ops *gemm;
    const struct yoke_norm_ops *norm;
    const struct yoke_act_ops *act;
    const struct yoke_attention_ops *attention;
    const struct yoke_embed_ops *embed;
    const struct yoke_loss_ops *loss;
    const struct yoke_optim_ops *optim;
    const struct yoke_cast_ops *cast;
    const struct yoke_elementwise_ops *elementwise;
    const struct yoke_rope_ops *rope;
};

struct yoke_device {
    const struct yoke_backend *backend;
    void *impl;
    struct yoke_device_info info;
    char cache_dir[512];          /* "" when caching is off */
    uint64_t cache_bytes;         /* most that it may hold */
    int n_threads;                /* 0: as OpenMP was set up */
    atomic_int n_children;        /* streams, events, allocations */
    struct yokei_live allocations; /* their addresses, and wrapped buffers' */
    atomic_size_t allocated;      /* bytes that live now, and the most that ever did (for memory reports) */
    atomic_size_t allocated_peak;
    struct yokei_tuning *tuning;  /* chosen variants, and the forced ones; see core/tune.c */
};

struct yoke_stream {
    yoke_device *device;
    void *impl;
    void *scratch; /* the arena that ops share; valid within one op */
    size_t scratch_bytes;
    const char *last_op; /* names the op in an asynchronous error */
    yoke_status pending; /* an asynchronous error that has not been reported yet */
};

struct yoke_event {
    yoke_device *device;
    void *impl;
};

/* ---- services of core for backends ---- */

/**
 * Index of the variant to run `op` with: the forced one, else the tuned one for this type, size and edge, else `otherwise`.
 * size: gemm's M N K batch, attention's B T H D, of the others the elements. edge: gemm's least of M, N and K, attention's T;
 * yokei_variant, for the others, passes 0. A tuned choice may be one that does not offer this very call: see what is forced.
 */
int yokei_variant_at(const yoke_device *device, enum yoke_op_id op, yoke_dtype dtype, double size, double edge, int otherwise);
int yokei_variant(const yoke_device *device, enum yoke_op_id op, yoke_dtype dtype, double size, int otherwise);
/** Whether yoke_variant_force holds: then the call runs by that variant, or is refused. */
bool yokei_variant_is_forced(const yoke_device *device, enum yoke_op_id op);
/** Both measures of a product. */
#define YOKEI_GEMM_SIZE(a) ((double)(a)->M * (double)(a)->N * (double)(a)->K * (double)(a)->batch)
#define YOKEI_GEMM_EDGE(a) ((double)YOKE_MIN((a)->M, YOKE_MIN((a)->N, (a)->K)))

/** Which K/V head the query heads of attention's arguments read, both counted from the first that is here. */
struct yokei_groups_of_heads {
    int64_t H, group, lead; /* the first K/V head's group began `lead` query heads before */
};
#define YOKEI_GROUPS_OF_HEADS(a) \
    ((struct yokei_groups_of_heads){ (a)->H, (a)->group ? (a)->group : (a)->H / (a)->Hkv, (a)->group ? (a)->head_start % (a)->group : 0 })
static inline int64_t yokei_kv_head(struct yokei_groups_of_heads g, int64_t head) { return (g.lead + head) / g.group; }
/** The first query head that reads K/V head `kv`; that of kv + 1 is the end. */
static inline int64_t yokei_first_head(struct yokei_groups_of_heads g, int64_t kv)
{
    const int64_t head = kv * g.group - g.lead;
    return head < 0 ? 0 : head > g.H ? g.H : head;
}

/** Backends report every allocation (+bytes) and release (-bytes) of device memory, so that memory reports are exact. */
void yokei_account(yoke_device *device, int64_t bytes);

/** For backends that compute on the calling thread: host memory, and streams whose calls have ended when they return. */
extern const struct yoke_memory_ops yokei_host_memory_ops;
extern const struct yoke_stream_ops yokei_eager_stream_ops;
/* The parts of that table, for a backend with copies and fills of its own: YOKEI_EAGER_STREAM_OPS(copy, fill). */
yoke_status yokei_eager_create(yoke_stream *stream, const struct yoke_native *native);
void yokei_eager_destroy(yoke_stream *stream);
yoke_status yokei_eager_nothing(yoke_stream *stream);
yoke_status yokei_eager_event_create(yoke_event *event);
void yokei_eager_event_destroy(yoke_event *event);
yoke_status yokei_eager_event_record(yoke_event *event, yoke_stream *stream);
yoke_status yokei_eager_event_arm(yoke_event *event);
yoke_status yokei_eager_event_signal(yoke_event *event);
yoke_status yokei_eager_event_query(yoke_event *event, bool *complete_out);
yoke_status yokei_eager_event_wait(yoke_stream *stream, yoke_event *event);
#define YOKEI_EAGER_STREAM_OPS(copy_, fill_)                                                                                \
    {                                                                                                                       \
        .create = yokei_eager_create, .destroy = yokei_eager_destroy, .sync = yokei_eager_nothing,                          \
        .flush = yokei_eager_nothing, .copy = copy_, .fill = fill_, .event_create = yokei_eager_event_create,               \
        .event_destroy = yokei_eager_event_destroy, .event_record = yokei_eager_event_record,                               \
        .event_arm = yokei_eager_event_arm, .event_signal = yokei_eager_event_signal,                                       \
        .event_query = yokei_eager_event_query, .event_wait = yokei_eager_event_wait,                                       \
    }
/** Bytes that this process may still take, and all of them; the `memory` of such a backend's device table. */
yoke_status yokei_host_memory(const yoke_device *device, uint64_t *free_out, uint64_t *total_out);

/** The stream's scratch, when it has `bytes`; otherwise YOKE_ENOMEM that says need and have. */
yoke_status yokei_scratch(yoke_stream *stream, enum yoke_op_id op, size_t bytes, void **scratch_out);

#endif
