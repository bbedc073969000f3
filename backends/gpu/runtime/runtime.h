/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What the drivers of CUDA and HIP share: streams, events, copies, pinned memory, device memory, launches,
 * errors, and the products of a vendor's library.
 *
 * The vendor's folder provides a `struct yokei_rt_calls`. It has a thin function for each call of the
 * vendor's library that the code of this folder makes. A call returns the vendor's error, an int, and 0 means
 * success. Queues, events, modules and kernels are the vendor's own objects, which are pointers here.
 * device->impl begins with a struct yokei_rt.
 */
#ifndef BACKENDS_GPU_RUNTIME_RUNTIME_H
#define BACKENDS_GPU_RUNTIME_RUNTIME_H

#include "backends/gpu/driver.h"
#include "backends/gpu/staging.h"

struct yokei_rt;

/* ---- the calls of the vendor's library ---- */

/**
 * Pinned host memory in pieces: words of four bytes, which queues write, and slots of
 * YOKEI_GPU_SLOT_BYTES, through which a stream copies pageable memory.
 */
enum yokei_rt_pinned { YOKEI_RT_WORDS, YOKEI_RT_SLOTS, YOKEI_RT_N_PINNED };

/** Events that order queues, events that also have a time, and events for which the host sleeps. */
enum yokei_rt_event { YOKEI_RT_ORDERS, YOKEI_RT_TIMED, YOKEI_RT_SLEEPS };

/** Where memory lies. NOWHERE: the vendor's library does not know the address. */
enum yokei_rt_place { YOKEI_RT_NOWHERE, YOKEI_RT_ON_HOST, YOKEI_RT_ON_DEVICE };

/** What an error means. FATAL: no call on the context succeeds any more. */
enum yokei_rt_meaning {
    YOKEI_RT_OTHER,
    YOKEI_RT_FATAL,
    YOKEI_RT_NO_MEMORY,
    YOKEI_RT_BAD_VALUE,
    YOKEI_RT_NOT_READY,
    YOKEI_RT_NOT_SUPPORTED
};

/** The calls whose failures are reported by the vendor's own name of the call: F(slot, parameters). */
/* clang-format off */
#define YOKEI_RT_NAMED_CALLS(F)                                                                              \
    F(mem_alloc, (const struct yokei_rt *rt, void **address, size_t bytes))                                  \
    F(mem_free, (const struct yokei_rt *rt, void *address))                                                  \
    F(mem_info, (const struct yokei_rt *rt, size_t *free_bytes, size_t *total))                              \
    F(mem_range, (const struct yokei_rt *rt, const void *address, void **base, size_t *bytes))               \
    F(pinned_alloc, (const struct yokei_rt *rt, enum yokei_rt_pinned kind, size_t bytes, void **host,        \
                     void **at))                                                                             \
    F(pinned_free, (const struct yokei_rt *rt, void *host))                                                  \
    F(host_lock, (const struct yokei_rt *rt, void *memory, size_t bytes))                                    \
    F(host_unlock, (const struct yokei_rt *rt, void *memory))                                                \
    F(copy_in, (const struct yokei_rt *rt, void *to, const void *from, size_t bytes, void *queue))           \
    F(copy_out, (const struct yokei_rt *rt, void *to, const void *from, size_t bytes, void *queue))          \
    F(copy_on, (const struct yokei_rt *rt, void *to, const void *from, size_t bytes, void *queue))           \
    F(fill, (const struct yokei_rt *rt, void *to, uint8_t byte, size_t bytes, void *queue))                  \
    F(call_host, (const struct yokei_rt *rt, void *queue, void (*function)(void *), void *argument))         \
    F(queue_create, (const struct yokei_rt *rt, void **queue))                                               \
    F(queue_is_other, (const struct yokei_rt *rt, void *queue, bool *other)) /* of another context */        \
    F(event_create, (const struct yokei_rt *rt, enum yokei_rt_event kind, void **event))                     \
    F(event_record, (const struct yokei_rt *rt, void *event, void *queue))                                   \
    F(event_sync, (const struct yokei_rt *rt, void *event))                                                  \
    F(event_wait, (const struct yokei_rt *rt, void *queue, void *event))                                     \
    F(event_elapsed, (const struct yokei_rt *rt, float *milliseconds, void *from, void *to))                 \
    F(kernel, (const struct yokei_rt *rt, void *module, const char *name, void **kernel))                    \
    F(launch, (const struct yokei_rt *rt, void *kernel, const struct yokei_gpu_grid *grid, void *queue,      \
               void **parameters))

/** The other calls. */
#define YOKEI_RT_OTHER_CALLS(F)                                                                              \
    F(queue_destroy, (const struct yokei_rt *rt, void *queue))                                               \
    F(event_destroy, (const struct yokei_rt *rt, void *event))                                               \
    F(event_query, (const struct yokei_rt *rt, void *event))                                                 \
    F(write_word, (const struct yokei_rt *rt, void *at, uint32_t number, void *queue))                       \
    F(fill_word, (const struct yokei_rt *rt, void *at, uint32_t number, void *queue))                        \
    F(module_unload, (const struct yokei_rt *rt, void *module))                                              \
    F(set_current, (const struct yokei_rt *rt))                                                              \
    F(set_none, (const struct yokei_rt *rt))  /* no context is current on this thread any more */            \
    F(get_current, (const struct yokei_rt *rt, bool *is_current))                                            \
    F(push_current, (const struct yokei_rt *rt))                                                             \
    F(pop_current, (const struct yokei_rt *rt)) /* undo push_current on the same thread */
/* clang-format on */

struct yokei_rt_calls {
#define YOKEI_RT_SLOT(slot, parameters) int(*slot) parameters;
    YOKEI_RT_NAMED_CALLS(YOKEI_RT_SLOT)
    YOKEI_RT_OTHER_CALLS(YOKEI_RT_SLOT)
#undef YOKEI_RT_SLOT
    struct {
#define YOKEI_RT_NAME(slot, parameters) const char *slot;
        YOKEI_RT_NAMED_CALLS(YOKEI_RT_NAME)
#undef YOKEI_RT_NAME
    } names;
    const char *name;      /* "CUDA" */
    bool slots_are_cached; /* the host sees what a device has written to a slot only behind an event */
    /* with this variable set to 1, the vendor's library ends each launch before the next one */
    const char *blocking;
    const char *(*error_name)(const struct yokei_rt *rt, int error);
    const char *(*error_text)(const struct yokei_rt *rt, int error);
    const char *(*error_advice)(int error); /* what a user can look at; it ends with a space, or is "" */
    enum yokei_rt_meaning (*meaning)(int error);
    enum yokei_rt_place (*place)(const struct yokei_rt *rt, const void *address);
    bool (*is_of_other)(const struct yokei_rt *rt, const void *address); /* memory of another context */
    /* Load a binary of the vendor's compiler. The context is current. `load` in driver.h has the errors. */
    yoke_status (*load)(const yoke_device *device, const void *binary, size_t bytes, void **module_out);
};

/* ---- stand_in.c: drivers that execute kernels on the CPU, for tests ---- */
/**
 * What a stand-in driver has beyond the vendor's interface (emulate/gpu/emulate.h). All slots are NULL in a
 * vendor's own library. Errors are the vendor's.
 */
struct yokei_stand_in {
    /* The text about the last fault of a kernel. */
    const char *(*last_fault)(void);
    /*
     * The counts of the kernels of this name (NULL: all). Returns the launches. The result has the members of
     * struct yokei_counts behind the first.
     */
    uint64_t (*counts)(const char *kernel, uint64_t counts_out[10]);
    /* The number of calls of the driver. */
    uint64_t (*calls)(void);
    /* What memory may be used for. All of these are there, or none. */
    int (*annotate)(uint64_t address, size_t bytes, int state);
    int (*annotate_async)(uint64_t address, size_t bytes, int state, void *queue);
    int (*begin)(uint64_t address, size_t bytes, int streams, const char *name, void *queue);
    int (*end)(uint64_t address, size_t bytes, void *queue);
    int (*label)(uint64_t address, size_t bytes, const char *name);
    /* The depth of this thread's stack of contexts; a line for the list of leaks. Both are there, or none. */
    int (*stack_depth)(void);
    void (*leak)(const char *text);
};
/** Look the functions up in the stand-in's library, which is open. */
void yokei_stand_in_load(const char *path, struct yokei_stand_in *out);
/**
 * The path of a library of the stand-in for `vendor` ("cuda"): in the build tree beside libyoke, or where it
 * is installed. $YOKE_DATA_DIR comes before both.
 */
void yokei_stand_in_path(const char *vendor, const char *file, char *path, size_t bytes);
/** The slots counts and annotate of struct yoke_device_extras. */
bool yokei_rt_counts(const yoke_device *device, struct yokei_counts *out);
yoke_status yokei_rt_annotate(yoke_device *device, yoke_stream *stream, const struct yokei_annotation *note);

/* ---- the objects ---- */

struct yokei_rt_piece {
    void *host; /* NULL: no piece */
    void *at;   /* the device's address of the same memory */
};
struct yokei_rt_block; /* of pieces, in pinned.c */
struct yokei_rt_pin;   /* memory of a caller that is page-locked, in pinned.c */
static inline _Atomic uint32_t *yokei_rt_word(struct yokei_rt_piece piece) { return piece.host; }

/** A device. It is the first member of the vendor's struct. */
struct yokei_rt {
    struct yokei_gpu_device gpu; /* the first member, see driver.h */
    const struct yokei_rt_calls *calls;
    const struct yokei_stand_in *stand_in; /* never NULL on an open device */
    struct yokei_products *products;       /* of the vendor's library; NULL: it multiplies nothing */
    bool is_foreign;                       /* the caller owns the context */
    struct yokei_live owned;               /* allocations */
    struct yokei_live foreign;             /* addresses from yoke_buffer_wrap */
    pthread_mutex_t lock;                  /* protects the fields below */
    struct yokei_rt_block *pinned[YOKEI_RT_N_PINNED];
    struct yokei_rt_pin *pins;
    struct yokei_rt_stream *streams; /* all streams of the device */
    char dead[1024];                 /* the error that made the context unusable; "" while it is usable */
    atomic_bool no_value_writes;     /* the driver has no value operations for this device */
    uint32_t mark_every;             /* a queue writes its progress behind so many groups of commands */
    uint64_t serial;                 /* another number for each device that this process opens; not 0 */
    atomic_bool is_dead;
};
static inline struct yokei_rt *yokei_rt(const yoke_device *device) { return device->impl; }

/* The most groups of commands of a stream that are followed. */
#define YOKEI_RT_FOLLOWED 4096
/* A queue writes its progress behind so many groups of commands, and before the host waits for it. */
#define YOKEI_RT_MARK_EVERY 8

struct yokei_rt_stream {
    struct yokei_rt_stream *next; /* in the device's list */
    void *queue;
    bool is_foreign; /* the caller created the queue */
    void *synced;    /* an event, for waits of the host */
    /* For copies of pageable memory: see backends/gpu/staging.h. host_queue and marks are NULL before the
       first long copy. */
    struct yokei_rt_piece slot[YOKEI_GPU_SLOTS];
    struct yokei_gpu_staging staging;
    void *host_queue;
    void *marks[YOKEI_GPU_MARKS];
    /*
     * Commands in a row that belong to one op form a group. Group g is ops[g % YOKEI_RT_FOLLOWED]. Behind
     * each rt->mark_every groups the queue writes the number of the last one to `done`. So after an error,
     * which makes all calls fail, the host still sees which few ops had not ended.
     */
    struct yokei_rt_piece done;
    _Atomic uint32_t group; /* the newest group */
    uint32_t marked;        /* the newest group whose write to `done` was issued */
    uint32_t recorded;      /* the newest group behind which an event stands; it gets no more commands */
    _Atomic uint32_t ended; /* the newest group that an event has shown to have ended */
    uint64_t serial;        /* another number for each stream of the process */
    _Atomic(const char *) ops[YOKEI_RT_FOLLOWED];
};
static inline struct yokei_rt_stream *yokei_rt_stream(const yoke_stream *stream) { return stream->impl; }

/** The later one of two numbers of groups, which may have wrapped around. */
static inline uint32_t yokei_rt_later(uint32_t a, uint32_t b) { return (int32_t)(a - b) > 0 ? a : b; }

/* ---- device.c ---- */
/** Set the fields of a new device that need no call of the vendor's library. */
void yokei_rt_begin(struct yokei_rt *rt, const struct yokei_rt_calls *calls,
                    const struct yokei_stand_in *stand_in);
/**
 * Give back what a device has: its programs, the vendor's objects by `detach`, and its pinned memory.
 * `detach` may be NULL; `entered` is false if the context is lost. With has_context false there is only a
 * lock.
 */
void yokei_rt_end(yoke_device *device, bool has_context, void (*detach)(yoke_device *device, bool entered));
/** The slot memory of struct yoke_device_ops. */
yoke_status yokei_rt_memory(const yoke_device *device, uint64_t *free_out, uint64_t *total_out);
/** What a process has found of a vendor's devices. A child that it forks cannot use them. */
struct yokei_rt_known {
    struct yoke_probe list;
    atomic_bool is_known;
    pthread_mutex_t lock;
    pid_t process; /* the one that initialised the vendor's library; 0: none */
};
/** Whether this process was forked from one that had initialised the vendor's library. */
bool yokei_rt_is_forked(const struct yokei_rt_known *known);
/** The reason why a forked process has no device. `vendor`: "CUDA". */
void yokei_rt_explain_fork(const struct yokei_rt_known *known, const char *vendor, char *reason,
                           size_t bytes);
/** Keep the list that `list` makes, if there is none yet. Call this when a device opens. */
void yokei_rt_keep_list(struct yokei_rt_known *known,
                        void (*list)(const char *folders, struct yoke_probe *out), const char *folders);
/** Answer a probe of a forked process with the list. False: this process can ask the library itself. */
bool yokei_rt_probe_forked(const struct yokei_rt_known *known, struct yoke_probe *out);

/* ---- context.c ---- */
/**
 * Make the device's context current on this thread. Fails if the device is dead. Each call that succeeds is
 * followed by yokei_rt_leave on the same thread.
 */
yoke_status yokei_rt_enter(const yoke_device *device);
void yokei_rt_leave(const yoke_device *device);
/** The device closes: on a thread where its context was left current, no context is current any more. */
void yokei_rt_forget(const yoke_device *device);

/* ---- life.c ---- */
/**
 * Record that `call` failed, with the status that fits the error. If the error is one after which the context
 * is unusable, the text names the op that had not ended, and the device is dead from then on.
 */
yoke_status yokei_rt_fail(const yoke_device *device, const char *call, int error);
/** Make a call of the vendor's library, whose context is current. If it fails, return its error. */
#define YOKEI_RT_TRY(device, slot, ...)                                           \
    do {                                                                          \
        const struct yokei_rt *rt_ = yokei_rt(device);                            \
        const int error_ = rt_->calls->slot(rt_, __VA_ARGS__);                    \
        if (error_) return yokei_rt_fail(device, rt_->calls->names.slot, error_); \
    } while (0)

/* ---- pinned.c ---- */
yoke_status yokei_rt_pinned_create(yoke_device *device);
void yokei_rt_pinned_destroy(yoke_device *device);
/**
 * Take a piece. A word keeps the value that its last owner left. The context is current. While a piece is
 * free, this function does not wait for the device.
 */
yoke_status yokei_rt_pinned_take(yoke_device *device, enum yokei_rt_pinned kind,
                                 struct yokei_rt_piece *piece_out);
void yokei_rt_pinned_give(yoke_device *device, enum yokei_rt_pinned kind, struct yokei_rt_piece piece);

/** Page-lock memory of the caller, or undo it: the slots pin and unpin of struct yoke_device_extras. */
yoke_status yokei_rt_pin(yoke_device *device, void *memory, size_t bytes);
void yokei_rt_unpin(yoke_device *device, void *memory);
/** Whether all of this memory lies in memory that yokei_rt_pin has page-locked. */
bool yokei_rt_has_pin(struct yokei_rt *rt, const void *memory, size_t bytes);

/* ---- copy.c: copies and fills ---- */
/** Take the slots of a new stream, and give back all that its copies use. The context is current. */
yoke_status yokei_rt_copies_begin(yoke_device *device, struct yokei_rt_stream *s);
void yokei_rt_copies_end(yoke_device *device, struct yokei_rt_stream *s);
/** The queue of the driver behind whose work all work of the stream is done. The context is current. */
yoke_status yokei_rt_last_queue(yoke_stream *stream, void **queue_out);
yoke_status yokei_rt_copy(yoke_stream *stream, enum yoke_copy_kind kind, void *target, const void *source,
                          size_t bytes);
yoke_status yokei_rt_fill(yoke_stream *stream, void *target, uint8_t byte, size_t bytes);

/* ---- groups.c: which op the commands of a queue belong to ---- */
/** Call this before a command of yokei_stream_op is issued. The context is current. */
yoke_status yokei_rt_command(yoke_stream *stream);
/** Let the queue write the newest group to `done` behind the work that it has so far. */
yoke_status yokei_rt_mark(yoke_stream *stream);
/** YOKEI_RT_MARK_EVERY, or 1 if the user asks by calls->blocking for exact errors. */
uint32_t yokei_rt_mark_every(const struct yokei_rt_calls *calls);
/** The groups of this stream up to `group` have ended. Nothing happens if the stream was destroyed. */
void yokei_rt_ended(yoke_device *device, uint64_t stream_serial, uint32_t group);

/* ---- memory.c, stream.c, event.c ---- */
extern const struct yoke_memory_ops yokei_rt_memory_ops;
extern const struct yoke_stream_ops yokei_rt_stream_ops;
extern const struct yoke_event_ops yokei_rt_event_ops;

/* ---- launch.c: the slots of struct yokei_gpu_driver ---- */
yoke_status yokei_rt_open_module(yoke_device *device, const void *binary, size_t bytes, void **handle_out);
void yokei_rt_close_module(yoke_device *device, void *module);
yoke_status yokei_rt_kernel(yoke_device *device, void *program, const char *name, void **kernel_out);
void yokei_rt_release_kernel(yoke_device *device, void *kernel);
yoke_status yokei_rt_launch(yoke_stream *stream, void *kernel, const struct yokei_gpu_grid *grid,
                            const struct yokei_gpu_arg *args, int n_args);

#endif
