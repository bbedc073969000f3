/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The backend interface. The author of a backend needs to read this file only.
 *
 * A backend is one `const struct yoke_backend`: a probe, tables for devices, memory, streams and events, and
 * an entry for each op (an operation on device memory, such as gemm). core/ checks the arguments (types,
 * shapes, NULL pointers, aliases) first, so a backend trusts them. Devices, streams and events are structs of
 * core with a pointer `impl` for the backend. A backend includes only include/, core/base/ and this header.
 */
#ifndef CORE_BACKEND_H
#define CORE_BACKEND_H

#include <stdatomic.h>
#include <yoke/yoke.h>
#include "core/base/base.h"

#define YOKE_BACKEND_ABI 3

/* ---- ops; include/yoke/ops/families.h lists the families, and a family's header lists its ops ---- */
#define YOKE_OP_ID(op) YOKE_OP_##op,
enum yoke_op_id { YOKE_ALL_OPS(YOKE_OP_ID) YOKE_N_OPS };
#undef YOKE_OP_ID

/** The name of each op, such as "layernorm_forward", by op id. Defined in core/names.c. */
extern const char *const yokei_op_names[YOKE_N_OPS];

/**
 * One call of an op. core makes this record from the arguments after it has checked them. For each op, the
 * file core/ops/<family>.c says which types, which size and which work a call has.
 */
struct yokei_call {
    enum yoke_op_id op;
    const void *args; /* struct yoke_<op>_args */
    /*
     * The types of the tensors in memory; `second` is f32 if there is only one. Tuning files choose a
     * variant by `dtype`, size and edge.
     */
    yoke_dtype dtype, second;
    double size;         /* number of elements that the op goes through; M N K batch for gemm */
    double edge;         /* the least of M, N and K for gemm, T for attention, 0 for all other ops */
    double flops, bytes; /* the work; include/yoke/ops/common.h says how it is counted */
};

/**
 * One op of a backend. core refuses types that the device does not store (struct yoke_device_info), so a
 * backend need not check types.
 *  - can: NULL if the device offers every call of these types and shapes, and none needs scratch memory.
 *    Otherwise `can` looks at types and shapes only. If the device does not offer the call, `can` fails with
 *    YOKE_EUNSUPPORTED and gives the reason in the error text. If the call needs scratch memory, `can` writes
 *    the number of bytes to *scratch_bytes_out, which core has set to 0.
 *  - run: issue the op to the stream.
 */
struct yoke_op {
    yoke_status (*can)(const yoke_device *device, const struct yokei_call *call, size_t *scratch_bytes_out);
    yoke_status (*run)(yoke_stream *stream, const struct yokei_call *call);
};

/*
 * A backend has one file per family. Below the functions of each op, the file has the op's entry:
 *     const struct yoke_op reference_add = { .run = reference_add_run };
 * Two macros that are given to YOKE_ALL_OPS declare all entries, and collect them in struct yoke_backend:
 *     #define DECLARE(op) YOKE_DECLARE_OP(reference_##op)
 *     #define ENTRY(op) [YOKE_OP_##op] = &reference_##op,
 *     .ops = { YOKE_ALL_OPS(ENTRY) }
 * The library does not link if an entry is missing, because the declaration makes the symbol a hidden one.
 */
#define YOKE_DECLARE_OP(entry) extern __attribute__((visibility("hidden"))) const struct yoke_op entry;

/** The result of a probe. A probe runs in a child process, so it may crash or hang without harm. */
struct yoke_probe {
    int n_devices;
    char reason
        [YOKE_REASON_BYTES]; /* the reason why there is no device, and what the user can do to get one */
    struct yoke_device_info devices[YOKE_MAX_DEVICES];
};

/**
 * Compilation ahead of time (core/open): the programs to make for one kind of device, and what was done.
 */
struct yokei_ahead {
    const char *spec;   /* the kind of device, such as "cuda:sm_90" */
    const char *folder; /* it is made if it does not exist */
    int driver_version; /* the newest CUDA version of the nodes' driver: 12040 is 12.4; 0: any */
    bool op[YOKE_N_OPS];
    bool dtype[YOKE_N_DTYPES]; /* only programs all of whose types are selected */
    /* Called before each program, with the name of its family. May be NULL. */
    void (*progress)(const struct yokei_ahead *ahead, const char *family);
    int n_programs, n_compiled, n_there; /* selected, compiled now, and already in the folder */
    uint64_t bytes;                      /* of all of them */
    char compiler[256];                  /* version and path */
};

/** Counts of kernels. An access of a warp touches sectors of 32 bytes, and banks of shared memory. */
struct yokei_counts {
    uint64_t launches;
    uint64_t instructions, warp_instructions; /* of threads, and of warps */
    uint64_t bytes_loaded, bytes_stored;      /* of global memory, as the threads asked for them */
    uint64_t sectors_loaded, sectors_stored;  /* of 32 bytes, for each instruction of a warp */
    uint64_t shared_accesses, bank_conflicts; /* instructions of warps, and passes beyond the first */
    uint64_t barriers;                        /* of blocks */
    uint64_t warps;                           /* in all blocks of all launches */
    uint64_t calls;                           /* calls of the driver's functions, launches and all others */
};

struct yoke_device_ops {
    /*
     * Fill device->info and device->impl. `native` is NULL, or the objects that the caller gave to
     * yoke_device_wrap. It is NULL if the backend has no memory->wrap.
     */
    yoke_status (*open)(yoke_device *device, int index, const struct yoke_native *native);
    void (*close)(yoke_device *device); /* NULL: there is nothing to do */
    yoke_status (*memory)(const yoke_device *device, uint64_t *free_out, uint64_t *total_out);
    /*
     * The name of variant `index` of an op on this device, or NULL past the last one. If this slot is NULL,
     * no op has variants.
     */
    const char *(*variant)(const yoke_device *device, enum yoke_op_id op, int index);
    const struct yoke_device_extras *extras; /* what few backends have. NULL: nothing of it */
};

/** What few backends have. Each slot may be NULL. */
struct yoke_device_extras {
    /* What is known about this variant: YOKEI_VARIANT_* flags. NULL: nothing. */
    unsigned (*facts)(const yoke_device *device, enum yoke_op_id op, int index);
    /*
     * Whether `detail` may stand behind the name of this variant and a colon, as in "cublaslt:algo=1,...".
     * NULL: no detail may.
     */
    bool (*detail)(const yoke_device *device, enum yoke_op_id op, int index, const char *detail);
    /*
     * The algorithm that the library chose for the last call of this op, in the form of a detail. "" if no
     * library ran. NULL: no variant has algorithms.
     */
    void (*algorithm)(const yoke_device *device, enum yoke_op_id op, char *text, size_t bytes);
    /*
     * What finished kernels have done since the process began, for an emulated device. Returns false if this
     * device does not count. NULL: no device of the backend counts.
     */
    bool (*counts)(const yoke_device *device, struct yokei_counts *out);
    /*
     * Call `each` for each product for which Yoke has chosen an algorithm of a vendor's library, whether or
     * not the product has run. The texts are the product and the algorithm. NULL: no library multiplies.
     */
    void (*products_used)(const yoke_device *device, yokei_product_function *each, void *context);
    /*
     * From now on this product runs by this algorithm, if the library offers it. The texts are those of
     * products_used. NULL if products_used is NULL.
     */
    yoke_status (*product_set)(yoke_device *device, const char *product, const char *algorithm);
    /* One line for `yoke info`: the library of matrix products, or why there is none. NULL: no line. */
    void (*products)(const yoke_device *device, char *text, size_t bytes);
    /* One line for `yoke info`: the device's clock and temperature now. "": unknown. NULL: no line. */
    void (*sensors)(const yoke_device *device, char *text, size_t bytes);
    /*
     * Compile programs for devices of the kind `target`, the text of the spec behind the colon, such as
     * "sm_90". The device need not exist. `device` is not open: it has only its backend, its spec and its
     * folder. NULL: the backend has no programs that can be compiled ahead of time.
     */
    yoke_status (*ahead)(yoke_device *device, const char *target, struct yokei_ahead *ahead);
    /*
     * Take note of what may be done with bytes of an allocation. Called only if device->annotates is true.
     * `stream` NULL: at once. NULL: no device of the backend checks accesses to memory.
     */
    yoke_status (*annotate)(yoke_device *device, yoke_stream *stream,
                            const struct yokei_annotation *annotation);
    /*
     * Page-lock host memory. The memory consists of whole pages. The device then copies from and to this
     * memory without help of the host. If the driver refuses, copies still work, but pass through memory of
     * the backend. `unpin` undoes `pin`, after all copies that use the memory have ended. NULL: no device of
     * the backend needs page-locked memory.
     */
    yoke_status (*pin)(yoke_device *device, void *memory, size_t bytes);
    void (*unpin)(yoke_device *device, void *memory);
};

/* A vendor's library runs this variant, so no program is compiled for it. */
#define YOKEI_VARIANT_LIBRARY 1u
/*
 * With 16-bit inputs, this variant adds by matrix units that cut sums off instead of rounding them to the
 * nearest number. Its products have an error bound of their own (include/yoke/ops/gemm.h).
 */
#define YOKEI_VARIANT_CUTS 2u
/* With f16 inputs, this variant takes subnormal f16 numbers for zeros, also in its result. */
#define YOKEI_VARIANT_FLUSHES 4u

struct yoke_memory_ops {
    yoke_status (*alloc)(yoke_device *device, size_t bytes, void **address_out);
    void (*free)(yoke_device *device, void *address);
    yoke_status (*wrap)(yoke_device *device, void *native_buffer, size_t bytes,
                        void **address_out); /* NULL: unsupported */
    /* NULL if the host cannot see it */
    void *(*host_ptr)(const yoke_device *device, const void *address);
};

enum yoke_copy_kind { YOKE_COPY_ON_DEVICE, YOKE_COPY_TO_DEVICE, YOKE_COPY_TO_HOST };

struct yoke_stream_ops {
    yoke_status (*create)(yoke_stream *stream, const struct yoke_native *native);
    void (*destroy)(yoke_stream *stream);
    yoke_status (*sync)(yoke_stream *stream);
    yoke_status (*flush)(yoke_stream *stream);
    yoke_status (*copy)(yoke_stream *stream, enum yoke_copy_kind kind, void *target, const void *source,
                        size_t bytes);
    yoke_status (*fill)(yoke_stream *stream, void *target, uint8_t byte, size_t bytes);
};

struct yoke_event_ops {
    yoke_status (*create)(yoke_event *event);
    void (*destroy)(yoke_event *event);
    yoke_status (*record)(yoke_event *event, yoke_stream *stream);
    /*
     * `arm` sets a new state that the host completes. `signal` may be called from any thread. Both are NULL
     * if the backend's queues must not wait for the host. core then keeps the commands of a stream that waits
     * for an armed event until the signal (core/held.h). The other functions are then called for recorded
     * events alone.
     */
    yoke_status (*arm)(yoke_event *event);
    yoke_status (*signal)(yoke_event *event);
    yoke_status (*query)(yoke_event *event, bool *complete_out);
    yoke_status (*wait)(yoke_stream *stream, yoke_event *event);
    /*
     * The seconds from one event to another event. Both events have `timed` set, and are complete. NULL:
     * events have no times.
     */
    yoke_status (*seconds)(const yoke_event *from, const yoke_event *to, double *seconds_out);
};

struct yoke_backend {
    uint32_t abi;  /* YOKE_BACKEND_ABI */
    uint32_t size; /* sizeof *this */
    const char *name;
    const char *summary; /* one line of text for `yoke info` */
    void (*probe)(struct yoke_probe *out);
    const struct yoke_device_ops *device;
    const struct yoke_memory_ops *memory;
    const struct yoke_stream_ops *stream;
    const struct yoke_event_ops *event;
    const struct yoke_op *ops[YOKE_N_OPS]; /* NULL: the backend does not have the op */
};

struct yoke_device {
    const struct yoke_backend *backend;
    void *impl;
    struct yoke_device_info info;
    char cache_dir[2048];          /* folders, separated by colons; "" when caching is off */
    uint64_t cache_bytes;          /* the most bytes that the first folder of cache_dir may hold */
    int n_threads;                 /* 0: the number that OpenMP is set up for */
    bool annotates;                /* set by `open`: the device checks accesses by extras->annotate */
    bool corrects;                 /* AdamW corrects divisions and roots, see yokei_correct_rounding */
    bool loads_programs;           /* set by `open`: programs take memory of the device, see `is_dry` */
    bool prepares;                 /* see yokei_prepare_programs */
    atomic_bool said_no_pins;      /* the log has said that the driver page-locks no memory */
    struct yokei_maker maker;      /* the process that opened the device */
    atomic_int n_children;         /* number of streams, events and allocations */
    struct yokei_live allocations; /* the addresses of the allocations and of wrapped buffers */
    /* bytes that are allocated now, and the most that ever were (for memory reports) */
    atomic_size_t allocated;
    atomic_size_t allocated_peak;
    struct yokei_holding
        *holding; /* the streams that the process holds back (core/held.h); NULL: it holds none */
    struct yokei_tuning *tuning; /* the tuned variants, and the forced ones; see core/tune.c */
};

/** The commands of a stream that wait in the process (core/held.c). */
struct yokei_held {
    struct yokei_held_command *first, **last;
    int n;
    atomic_bool is_held; /* there are commands, or an error */
    yoke_stream *next;   /* in the device's list of streams with commands */
    yoke_status error;   /* of a command that failed when it was submitted, until yoke_stream_sync */
    char *text;          /* the error's text */
};

struct yoke_stream {
    yoke_device *device;
    void *impl;
    bool is_foreign; /* the caller owns the queue, and also issues commands to it without this library */
    /*
     * The stream has no queue. An op on this stream compiles and loads its programs, and submits no command.
     * Only devices with loads_programs have such streams.
     */
    bool is_dry;
    struct yokei_held held;
    void *scratch; /* scratch memory that all ops share; its content is valid within one op */
    size_t scratch_bytes;
    const char *last_op; /* the op of the newest call. See yokei_stream_op */
    yoke_status pending; /* an asynchronous error that has not been reported yet */
};

/** The op whose command is submitted now. The text of an asynchronous error names this op. */
const char *yokei_stream_op(const yoke_stream *stream);

struct yoke_event {
    yoke_device *device;
    void *impl;
    bool timed;                  /* yokei_event_seconds may be called */
    struct yokei_moment *moment; /* the state, if core completes armed events (core/held.c) */
};

/**
 * YOKE_EINVAL in a process that was forked from the one that opened the device. Every public call on a device
 * or on one of its objects asks this first, so no backend is called there.
 */
yoke_status yokei_refuse_device(const char *call, const yoke_device *device);
static inline yoke_status yokei_check_maker(const char *call, const yoke_device *device)
{
    return yokei_made_here(&device->maker) ? YOKE_OK : yokei_refuse_device(call, device);
}

/* ---- services of core for backends ---- */

/**
 * Whether the stream's queue in this process (core/held.h) has commands, or an error of such a command. If
 * so, a backend whose events have no `arm` does not submit a command itself, but calls yokei_hold_call. The
 * result is always false while this thread submits the commands of a queue.
 */
bool yokei_is_held(const yoke_stream *stream);
/**
 * A function that submits a command, such as a launch. Any thread may run it. It must do little else, because
 * all operations of the process wait meanwhile. So an op looks up its programs before the command is queued.
 */
typedef yoke_status yokei_held_call(yoke_stream *stream, const void *data);
/**
 * Append a command to the stream's queue. The call copies its arguments, with the `bytes` bytes of data. If
 * *queued_out is false, the stream is no longer held, and the caller submits the command itself. If an
 * earlier command of the stream failed when it was submitted, its error is returned.
 */
yoke_status yokei_hold_call(yoke_stream *stream, yokei_held_call *run, const void *data, size_t bytes,
                            bool *queued_out);
/** Fill memory within an op, as yoke_fill does. */
yoke_status yokei_stream_fill(yoke_stream *stream, void *target, uint8_t byte, size_t bytes);

/** Write the folders of compiled programs that a device with this configuration uses, see yoke/device.h. */
yoke_status yokei_cache_folders(const struct yoke_device_config *config, char *folders, size_t bytes);
/** Compile programs ahead of time, without a device. Errors: as yoke_device_open, YOKE_EINVAL, YOKE_ECOMPILE,
 * YOKE_EIO. */
yoke_status yokei_ahead_compile(struct yokei_ahead *ahead);

/**
 * The index of the variant that runs the call. It is the forced variant, else the tuned one for this type,
 * size and edge, else `otherwise`. A tuned variant may not offer this very call. The caller must check this,
 * and must run another variant unless the variant is forced.
 */
int yokei_variant(const yoke_device *device, const struct yokei_call *call, int otherwise);
/** Whether yoke_variant_force is in effect. The call then runs by the forced variant, or is refused. */
bool yokei_variant_is_forced(const yoke_device *device, enum yoke_op_id op);
/**
 * The variants, as bits, that the calls of the op would have got without yoke_variant_force since this
 * function was last called.
 */
uint64_t yokei_variants_unforced(const yoke_device *device, enum yoke_op_id op);
/** The detail that the chosen or forced variant of the call has behind its name, or "". */
const char *yokei_variant_detail(const yoke_device *device, const struct yokei_call *call);
/** A backend calls this function if another variant runs than yokei_variant has answered. */
void yokei_variant_ran(const yoke_device *device, enum yoke_op_id op, int variant);
/** What is known about the variant by which the op's last call ran: YOKEI_VARIANT_* flags. */
unsigned yokei_variant_facts(const yoke_device *device, enum yoke_op_id op);

/**
 * RMSNorm is LayerNorm with the mean taken as 0, and without beta. These are the arguments of LayerNorm that
 * have beta, mean and dbeta NULL, for backends that run both by the same code.
 */
struct yoke_layernorm_forward_args yokei_rmsnorm_forward_as_layernorm(
    const struct yoke_rmsnorm_forward_args *a);
struct yoke_layernorm_backward_args yokei_rmsnorm_backward_as_layernorm(
    const struct yoke_rmsnorm_backward_args *a);

/**
 * Which K/V head each query head of attention's arguments reads. Both kinds of heads are counted from the
 * first one that these arguments contain.
 */
struct yokei_groups_of_heads {
    int64_t H, group,
        lead; /* number of query heads of the first K/V head's group that lie before the first one here */
};
#define YOKEI_GROUPS_OF_HEADS(a)                                                          \
    ((struct yokei_groups_of_heads){ (a)->H, (a)->group ? (a)->group : (a)->H / (a)->Hkv, \
                                     (a)->group ? (a)->head_start % (a)->group : 0 })
static inline int64_t yokei_kv_head(struct yokei_groups_of_heads g, int64_t head)
{
    return (g.lead + head) / g.group;
}
/** The first query head that reads K/V head `kv`. The heads of `kv` end before the first one of kv + 1. */
static inline int64_t yokei_first_head(struct yokei_groups_of_heads g, int64_t kv)
{
    const int64_t head = kv * g.group - g.lead;
    return head < 0 ? 0 : head > g.H ? g.H : head;
}

/**
 * Backends report every allocation (+bytes) and every release (-bytes) of device memory, so that memory
 * reports are exact.
 */
void yokei_account(yoke_device *device, int64_t bytes);

/**
 * Tables for backends that compute on the calling thread: host memory, and eager streams. When a call on an
 * eager stream returns, its work has ended.
 */
extern const struct yoke_memory_ops yokei_host_memory_ops;
extern const struct yoke_stream_ops yokei_eager_stream_ops;
extern const struct yoke_event_ops yokei_eager_event_ops;
/*
 * The functions in yokei_eager_stream_ops, for a backend with copies and fills of its own:
 * YOKEI_EAGER_STREAM_OPS(copy, fill).
 */
yoke_status yokei_eager_create(yoke_stream *stream, const struct yoke_native *native);
void yokei_eager_destroy(yoke_stream *stream);
yoke_status yokei_eager_nothing(yoke_stream *stream);
#define YOKEI_EAGER_STREAM_OPS(copy_, fill_)                                                       \
    {                                                                                              \
        .create = yokei_eager_create, .destroy = yokei_eager_destroy, .sync = yokei_eager_nothing, \
        .flush = yokei_eager_nothing, .copy = copy_, .fill = fill_,                                \
    }
/**
 * The bytes that this process may still take, and the total. Backends that compute on the calling thread use
 * this function as `memory` in their device table.
 */
yoke_status yokei_host_memory(const yoke_device *device, uint64_t *free_out, uint64_t *total_out);

/**
 * The stream's scratch, if it has at least `bytes` bytes. Otherwise YOKE_ENOMEM, whose text says how much is
 * needed and how much there is.
 */
yoke_status yokei_scratch(yoke_stream *stream, enum yoke_op_id op, size_t bytes, void **scratch_out);
/** The error alone, if the stream has fewer bytes of scratch. */
yoke_status yokei_check_scratch(const yoke_stream *stream, enum yoke_op_id op, size_t bytes);

/**
 * Measure how many bytes per second copies inside the device read and write, as the limit of its memory. On a
 * device with memory of its own the copies are larger than its caches. The call blocks.
 */
yoke_status yokei_copy_rate(yoke_device *device, double *bytes_per_second_out);

#endif
