/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The core of the stand-in drivers, without any vendor's interface. emulate/cuda and emulate/hip each link it
 * into a library of their own, with the vendor's entry points. An entry point checks its arguments as the
 * vendor's interface says, calls the functions below, and returns their error in the vendor's numbers.
 *
 * One lock protects everything but the bytes of device memory. An entry point takes the lock with
 * emulate_enter or emulate_enter_plain, and gives it back with emulate_leave. All functions below are called
 * with the lock held, unless their comment says otherwise.
 */
#ifndef EMULATE_GPU_DRIVER_H
#define EMULATE_GPU_DRIVER_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "emulate/gpu/emulate.h"
#include "emulate/gpu/errors.h"
#include "emulate/gpu/kernel.h"
#include "emulate/gpu/order.h"

#define MOST_DEVICES 16

/* ---- the vendor ---- */
struct function;
enum { MOST_FAILURES = 32 };

/* What a library adds to the core. Each library defines one. */
struct vendor {
    const char *word;               /* of its devices: "cuda" in cuda:0 and in YOKE_EMULATE=cuda:9.0 */
    const char *library;            /* in messages: "CUDA driver" */
    const char *maker;              /* who makes the real one, in messages: "NVIDIA's driver" */
    const char *wanted;             /* the form of its part of YOKE_EMULATE */
    const char *share_suffix;       /* what the name of the file YOKE_EMULATE_SHARE gets */
    enum emulate_error bad_program; /* of a program that the executor cannot read */
    uint64_t instruction_bytes;     /* of an instruction of machine code, about */
    const char *const *failures;    /* its own failures of YOKE_EMULATE_FAIL; NULL ends the list */
    bool is_lazy;                   /* the first call of any function initialises the driver */
    bool ends_with_process;         /* no call ends a context, so the end of a process is no leak of it */
    /* Read the target behind the word, such as "9.0". False: it is none. */
    bool (*read_target)(const char *target);
    /* Read the vendor's own variables. False after a line that says why. */
    bool (*read_variables)(void);
    /* The context of the calling thread. */
    enum emulate_error (*current)(struct context **context_out);
    /* Fill the limits of a device, and what else its model says. */
    void (*describe)(struct context *context);
    /* Whether a device runs this kernel. Otherwise an error with a text. */
    enum emulate_error (*check_kernel)(const struct kernel_info *info, char *text, size_t text_bytes);
    /* Whether a launch of the function may ask for so many bytes of dynamic shared memory. */
    enum emulate_error (*check_shared)(const struct function *function, uint32_t dynamic_bytes);
    /* Print what else was left over when a context ends. Returns the number. May be NULL. */
    int (*report_leaks)(const struct context *context);
    const char *(*error_name)(enum emulate_error error); /* NULL: unknown */
};
extern const struct vendor emulate_vendor;
/* The executor of the library's programs. */
extern const struct kernel_executor *const emulate_executor;

/* ---- settings.c: the environment ---- */
enum failure {
    FAIL_MEMORY,
    FAIL_ADDRESS,
    FAIL_TIMEOUT,
    FAIL_ECC,
    FAIL_LOST,
    FAIL_LOCK,
    FAIL_REGISTER,
    FAIL_VALUE,
    FAIL_VENDOR /* the first of the vendor's own */
};

struct settings {
    int devices;
    uint64_t memory; /* bytes of each device */
    int multiprocessors;
    uint64_t seed;
    int channels;          /* hardware channels of each device */
    uint64_t channel_seed; /* which streams share a channel */
    int hold_s;            /* how long a channel may hold a command up; 0: without a limit */
    int wait_s;            /* how long calls that may wait for the whole device wait; 0: they do not */
    uint32_t delay_us;     /* the longest random delay before a command; 0: none */
    const char *share;     /* the file by which processes share the devices; NULL: they do not */
    uint64_t instructions; /* the most that the threads of one block execute together; 0: no limit */
    int n_visible;         /* the devices that the program sees; -1: all */
    int visible[MOST_DEVICES];
    uint64_t fail_at[MOST_FAILURES]; /* from 1; 0: never */
};
extern struct settings emulate_settings;

/* Read the environment. On an error print one line to stderr. */
enum emulate_error emulate_settings_read(void);
/* Say that the value of a variable cannot be read. Returns false. */
bool emulate_refuse(const char *variable, const char *value, const char *wanted);
/* A whole number with no sign, from `least` to `most`. *end is what stands behind it. */
bool emulate_read_number(const char *text, uint64_t least, uint64_t most, const char **end, uint64_t *out);
/* Read a variable that is a number; `out` keeps its value where the variable is not set. */
bool emulate_read_variable(const char *variable, uint64_t least, uint64_t most, const char *wanted,
                           uint64_t *out);
/* "9.0" is 90. */
bool emulate_read_version(const char *text, int *out);
/*
 * Keep those of the visible devices that a list such as "1,0" names, in its order, up to the first one that
 * does not exist. NULL keeps all.
 */
void emulate_select_devices(const char *list);
/* The UUID of a device, which begins with these 8 characters; all processes of a host see the same one. */
void emulate_device_uuid(const char begin[8], int device, char uuid_out[16]);
/* Count one event of this kind. true if YOKE_EMULATE_FAIL asks for the failure at this count. */
bool emulate_fails(int failure);
/* The same, for a failure that stays: true at this count and at all later ones. */
bool emulate_fails_from(int failure);
/* The channel of a stream with this number. It depends on the seed of the mapping alone. */
int emulate_channel_of(const struct context *context, unsigned long long stream);
/* A number that depends on the seed, a and b alone. */
uint64_t emulate_random(uint64_t a, uint64_t b);

/* ---- zones.c ---- */
struct block { /* an allocation */
    struct block *next;
    uint64_t first, end; /* with the red zones */
    uint64_t address, bytes;
    unsigned long long id;
    const struct context *owner; /* of pinned memory: the context that was current */
    bool is_reserved;            /* addresses that are not counted as memory */
    unsigned char *shadow;       /* of pinned memory that is not coherent, see apart.c; NULL: other memory */
};

struct zone { /* a range of addresses, for one device or for pinned host memory */
    uint64_t begin, end, cursor;
    struct block *blocks; /* in the order of addresses */
};

/* ---- lock.c ---- */
enum kind { KIND_STREAM, KIND_EVENT, KIND_MODULE, KIND_FUNCTION };
struct object { /* the beginning of everything that a handle names */
    enum kind kind;
    struct object *next;
    struct context *context;
};

struct context { /* the primary context of a device, and the device */
    int ordinal;
    int references;
    unsigned flags;
    bool active;
    bool ending;             /* waits for values in memory end now */
    volatile bool stop;      /* running kernels end now */
    enum emulate_error lost; /* the error that each later call returns; EMULATE_OK: none */
    struct stream *legacy;
    struct command *value_waits; /* the waits for values that have not ended, of all streams */
    uint64_t n_commands;         /* submitted so far */
    struct stream *streams;      /* all, also the legacy stream and destroyed ones with commands left */
    int n_threads;
    unsigned long long n_streams;
    struct order order;

    struct zone zone;
    struct kernel_memory memory; /* state and touched are NULL before the context is first opened */
    struct kernel_limits limits;
    uint64_t resident_threads; /* the most threads that run on the device at a time */
    uint64_t small_bytes, large_bytes, module_bytes, local_bytes;
};
extern struct context emulate_contexts[MOST_DEVICES];
extern bool emulate_ready;       /* emulate_init has succeeded in this process */
extern uint64_t emulate_n_calls; /* see yoke_emulate_calls */

/* Take the lock if the driver is initialised, or can be. */
enum emulate_error emulate_enter_plain(void);
/* Give the lock back. Returns `result`. */
enum emulate_error emulate_leave(enum emulate_error result);
void emulate_lock(void);
void emulate_unlock(void);
bool emulate_try_lock(void);
/* Sleep until something has completed, or for at most `most_us` microseconds where it is not 0. */
void emulate_wait_progress(uint32_t most_us);
/* Sleep until a stream's thread has work. */
void emulate_wait_work(pthread_cond_t *work);
/* This process was forked from one that had initialised the driver. Needs no lock. */
bool emulate_was_forked(void);
/* Wake all that sleep in emulate_wait_progress. */
void emulate_progress(void);
/* This thread runs a function of the program in a stream, which may not call the driver. */
void emulate_set_in_callback(bool inside);

void emulate_object_add(struct object *object, enum kind kind, struct context *context);
void emulate_object_remove(struct object *object);
/* Is this a handle of this kind? It may be any pointer. */
bool emulate_object_is(const void *handle, enum kind kind);
/* Any object of a context, of this kind; NULL: none. */
struct object *emulate_object_any(const struct context *context, enum kind kind);
/* Call `visit` for each object of the context. `visit` may remove no object. */
void emulate_objects(const struct context *context, void (*visit)(struct object *));

/* ---- context.c ---- */
/*
 * Read the environment and reserve the memory, if this has not been done. Where any call does this, a failure
 * stays.
 */
enum emulate_error emulate_init(void);
/* Take the lock if there is a current context, and its device has not failed. */
enum emulate_error emulate_enter(struct context **context_out);
/* The same for functions that the vendor does not have. */
enum emulate_error emulate_enter_uncounted(struct context **context_out);
/* Make a context that can be used. */
enum emulate_error emulate_context_open(struct context *context);
/* Wait for all work, report the leaks, and free all that the context has. */
enum emulate_error emulate_context_close(struct context *context);
/* The context is lost: each later call returns `error`. `text` says why, and is printed. */
void emulate_lose(struct context *context, enum emulate_error error, const char *text);

/* ---- zones.c ---- */
#define EMULATE_HOST_BYTES (16ull << 30)
#define EMULATE_PAGE 4096ull
#define EMULATE_DEVICE_PAGE (2ull << 20) /* the unit in which a GPU hands out memory */
static inline uint64_t emulate_round_up(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}
/* Reserve the addresses of all devices. */
enum emulate_error emulate_memory_reserve(void);
/* Reserve addresses for anything. NULL, with a line that says why: it failed. */
void *emulate_reserve(uint64_t bytes, int protection);
struct block *emulate_block_of(const struct zone *zone, uint64_t address);
/* The context in whose memory this address lies; NULL: it is no device memory. */
struct context *emulate_context_of(uint64_t address);
extern struct zone emulate_host_zone; /* pinned memory */
extern unsigned char *emulate_data;   /* the bytes of the address a are emulate_data[a - emulate_base] */
extern uint64_t emulate_base, emulate_bytes;
struct block *emulate_zone_take(struct zone *zone, uint64_t bytes, uint64_t align, uint64_t red);
void emulate_zone_give(struct zone *zone, struct block *block);
/* Set the state of the bytes [from, to) of a device. */
void emulate_set_state(const struct context *context, uint64_t from, uint64_t to, enum byte_state state);
/* For all devices: pinned memory is defined, or it is outside again. */
void emulate_host_state(const struct block *block, enum byte_state state);
/* Map pinned memory. False without memory. */
bool emulate_pinned_open(const struct block *block);
/* Forbid whole pages inside pinned memory to the devices and to the host. */
enum emulate_error emulate_pinned_forbid(uint64_t address, uint64_t bytes);
/* The states of pinned memory for the first device that has states; NULL: none has. */
const unsigned char *emulate_pinned_guard(uint64_t address);
/* Make pinned memory addresses again that nobody may touch. */
void emulate_pinned_close(const struct block *block);
/* Undo the second mapping of registered memory. */
void emulate_window_close(struct block *window);

/* ---- memory.c ---- */
/* Make the states of a device, when its context is first opened. */
enum emulate_error emulate_memory_open(struct context *context);
/* Free all memory of a device. */
void emulate_memory_close(struct context *context);
uint64_t emulate_memory_used(const struct context *context);
/* The bytes that are free, beside what other processes use. */
uint64_t emulate_memory_free(const struct context *context);
/*
 * Allocate and free memory. `call` is the vendor's name of the call. The context of freed device memory may
 * be another one than the current one.
 */
enum emulate_error emulate_device_take(struct context *context, const char *call, size_t bytes,
                                       uint64_t *address_out);
enum emulate_error emulate_device_give(const char *call, uint64_t address);
enum emulate_error emulate_pinned_take(struct context *context, const char *call, size_t bytes,
                                       bool is_coherent, void **memory_out);
enum emulate_error emulate_pinned_give(struct context *context, const char *call, void *memory);

/* What a pointer is. */
struct pointer {
    struct context *owner;   /* whose device memory it is; NULL: memory of the host */
    uint64_t base, bytes;    /* of the allocation, or of the registered memory */
    unsigned long long id;   /* of the allocation */
    uint64_t device_address; /* 0: no device can use it */
    bool is_registered;      /* memory of the program, which was registered */
};
/* False: this is no memory that the driver knows. */
bool emulate_pointer(uint64_t address, struct pointer *out);
/* The same for memory of the host that kernels can use. Otherwise an error. */
enum emulate_error emulate_host_pointer(const char *call, void *memory, struct pointer *out);

/* ---- apart.c: pinned memory that is not coherent ---- */
/* Map such memory, and forget it. False without memory. */
bool emulate_apart_open(struct block *block);
void emulate_apart_close(struct block *block);
/* The devices see what the host has written so far of the bytes that a copy or a kernel reads. */
void emulate_apart_publish_for(const struct command *command);
/* A command of the stream has written some of these bytes. */
void emulate_apart_wrote(const struct stream *stream, const struct kernel_range *ranges, size_t n);
/* The host knows that all before `ended` has ended, and sees what the commands before `released` wrote. */
void emulate_host_sees(struct context *context, const struct order_clock *ended,
                       const struct order_clock *released);

/* ---- registered.c ---- */
enum emulate_error emulate_register(struct context *context, const char *call, void *memory, size_t bytes);
enum emulate_error emulate_unregister(struct context *context, const char *call, void *memory);
/* Has [memory, memory + bytes) been registered, or is it pinned? */
bool emulate_is_pinned(const void *memory, size_t bytes);
/* Is this an address of registered memory? */
bool emulate_registered_holds(uint64_t address);
/* The same as emulate_pointer, for registered memory alone. */
bool emulate_registered_pointer(uint64_t address, struct pointer *out);
/*
 * Where copies find registered memory that has a window. Leaves *place_out as it is for other memory. A range
 * that begins in registered memory and ends behind it is an error.
 */
struct place;
enum emulate_error emulate_registered_place(uint64_t address, size_t bytes, struct place *place_out);
/* Forbid whole pages of registered memory to the devices and to the host. */
enum emulate_error emulate_registered_forbid(uint64_t address, uint64_t bytes);
/* Unregister all memory that was registered in this context. */
void emulate_registered_close(const struct context *context);
/* Call `visit` for all memory that was registered in this context. */
void emulate_registered_visit(const struct context *context, void (*visit)(uint64_t address, uint64_t bytes));

/* ---- share.c: devices that several processes share ---- */
/* Take part, if YOKE_EMULATE_SHARE is set. */
enum emulate_error emulate_share_open(void);
/* Whether what the context uses now fits, beside what other processes use. They hear of it if it fits. */
bool emulate_share_fits(const struct context *context);
/* The context uses less now. */
void emulate_share_update(const struct context *context);
/* The bytes of this device that other processes use. */
uint64_t emulate_share_others(const struct context *context);

/* ---- stream.c ---- */
struct mark { /* a point in a stream: where an event was recorded */
    int references;
    bool done;
    bool releases; /* it makes visible what came before it, see apart.c */
    struct timespec time;
    struct order_clock clock, released; /* of the stream at this point */
};
struct mark *emulate_mark_keep(struct mark *mark);
void emulate_mark_drop(struct mark *mark);

struct event {
    struct object object;
    unsigned flags;    /* the vendor's */
    bool has_no_time;  /* it measures no time */
    bool is_local;     /* the host does not see non-coherent memory by it */
    struct mark *last; /* where it was recorded last; NULL: never */
};

struct place { /* bytes that a copy reads or writes */
    unsigned char *data;
    unsigned char *state;       /* NULL: host memory, all of it is defined */
    const unsigned char *guard; /* of pinned memory: where its red zones are; NULL: it has none */
    uint64_t address;
};

struct launch {
    uint64_t last_blocks; /* run only so many blocks, the last ones; 0: all. emulate_launch sets it */
    struct function *function;
    uint32_t grid[3], block[3], shared_bytes;
};

struct command {
    struct command *next;
    struct stream *stream;
    uint64_t sequence;
    uint64_t number;           /* in the order of submission to the context, from 1 */
    struct command *next_wait; /* in the context's list of waits for values */
    bool waits_for_value;
    struct order_clock host;            /* what the host had seen when it submitted this command */
    struct kernel_footprint *footprint; /* for `run`: the bytes that a kernel or a library touches */
    struct kernel_range touched[2];     /* the same for a copy or a fill */
    int n_touched;
    /* Called without the lock. An error loses the context; `text` says why. NULL: nothing to do. */
    enum emulate_error (*run)(struct command *command, char *text, size_t text_bytes);
    void (*drop)(struct command *command); /* called at the end, with the lock; may be NULL */
    struct after {
        struct stream *stream;
        uint64_t sequence;
    } * after; /* what must have completed in other streams */
    int n_after;
    struct mark *wait, *set;
    enum emulate_error injected; /* a failure that YOKE_EMULATE_FAIL asks for */
    void *owned;                 /* freed at the end */
    struct place to, from;
    size_t bytes;
    uint32_t value;
    unsigned value_bytes;
    int comparison; /* enum comparison */
    bool has_fence; /* of the write of a value: it says that all before it has ended */
    void (*function)(void *user_data);
    void *user_data;
    struct launch launch;
    struct foreign { /* work of a library, see emulate.h */
        int (*run)(void *user, char *text, size_t text_bytes);
        void (*release)(void *user);
        struct tally *tally;
    } foreign;
};

struct stream {
    struct object object;
    struct stream *next; /* in the context */
    unsigned long long number;
    int channel;                 /* the hardware channel to which the stream is mapped */
    int slot;                    /* in the clocks; -1: none */
    struct order_clock clock;    /* the newest command that has begun, and what comes before it */
    struct order_clock ended;    /* the same for the newest command that has ended */
    struct order_clock released; /* the commands whose bytes the host can see, see apart.c */
    unsigned flags;              /* the vendor's */
    bool blocking;               /* ordered with the legacy stream */
    int references;              /* of commands in other streams, and of callers that wait */
    bool destroyed, has_thread;
    uint64_t submitted, completed; /* sequence numbers */
    struct command *first, **last;
    pthread_cond_t work;
};

/* The stream of a handle. NULL is the context's legacy stream. */
enum emulate_error emulate_stream_of(struct context *context, void *handle, struct stream **stream_out);
/* The same, and the context of the stream, which must not be lost. */
enum emulate_error emulate_stream_enter(void *handle, struct context **context_out,
                                        struct stream **stream_out);
/* Make a stream; emulate_stream_create also makes it a handle. */
enum emulate_error emulate_stream_new(struct context *context, unsigned flags, bool blocking,
                                      struct stream **stream_out);
enum emulate_error emulate_stream_create(struct context *context, unsigned flags, bool blocking,
                                         struct stream **stream_out);
/* The commands that wait still run. */
void emulate_stream_destroy(struct stream *stream);
/* EMULATE_OK if the stream has completed everything, or EMULATE_NOT_READY. */
enum emulate_error emulate_stream_query(struct stream *stream);
/* Sleep until the stream is done; the legacy stream: until all blocking streams are. */
enum emulate_error emulate_stream_synchronize(struct stream *stream);
/* Queue a call of a function of the program. `owned` is freed at the end; it may be NULL. */
enum emulate_error emulate_stream_call(struct stream *stream, void (*function)(void *user_data),
                                       void *user_data, void *owned);
/* A command with the fields zero; NULL without memory. */
struct command *emulate_command_new(void);
/* Queue a command. The stream frees it, also if this function fails. */
enum emulate_error emulate_submit(struct stream *stream, struct command *command);
/* Sleep until the stream has completed what was submitted so far, then return the context's error, if any. */
enum emulate_error emulate_stream_wait(struct stream *stream);
/*
 * Sleep until all streams of the context have; blocking: only those that are ordered with the legacy
 * stream.
 */
enum emulate_error emulate_context_wait(struct context *context, bool blocking);
/*
 * `call` is one that the vendor's driver may let wait for all work of the device. If YOKE_EMULATE_WAIT is
 * set, it does. If the work does not end in this time, the context is lost. Returns the context's error, if
 * any.
 */
enum emulate_error emulate_may_wait(struct context *context, const char *call);
/* End all threads of a context and free its streams. */
void emulate_streams_end(struct context *context);

/* ---- channel.c ---- */
/* A wait for a value was submitted, or it has ended. */
void emulate_value_wait_add(struct context *context, struct command *command);
void emulate_value_wait_remove(struct context *context, const struct command *command);
/*
 * Sleep while an earlier wait for a value, of another stream, holds up the command in its channel. If this
 * takes longer than the limit of YOKE_EMULATE_HOLD, the context is lost.
 */
void emulate_channel_pass(const struct command *command);

/* ---- copy.c ---- */
/* Where `bytes` bytes lie that a caller names by a device address. */
enum emulate_error emulate_place(uint64_t address, size_t bytes, bool device_only, struct place *place_out);
/* The first byte that is not allocated or that is forbidden; `bytes` if there is none. */
size_t emulate_first_bad(const unsigned char *state, size_t bytes);

/*
 * Queue a copy or a fill. A side of a copy that the caller calls device memory must be some. A fill has n
 * values of 1 or 4 bytes.
 */
enum copy_flags { COPY_TO_DEVICE = 1, COPY_FROM_DEVICE = 2, COPY_WAITS = 4 };
enum emulate_error emulate_copy(struct stream *stream, uint64_t to, uint64_t from, size_t bytes,
                                unsigned flags);
enum emulate_error emulate_fill(struct stream *stream, uint64_t to, uint32_t value, unsigned value_bytes,
                                size_t n);

/* ---- event.c ---- */
enum emulate_error emulate_event_create(struct context *context, unsigned flags, bool has_no_time,
                                        struct event **event_out);
/* Take the lock of the current context, if the event is one and its context is not lost. */
enum emulate_error emulate_event_enter(void *event, struct context **context_out);
void emulate_event_destroy(struct event *event);
enum emulate_error emulate_event_record(struct event *event, struct stream *stream);
enum emulate_error emulate_event_query(struct event *event);
enum emulate_error emulate_event_synchronize(struct event *event);
enum emulate_error emulate_event_elapsed(float *milliseconds_out, struct event *start, void *end);
/* The stream's later commands wait for the newest record of the event. */
enum emulate_error emulate_stream_wait_event(struct stream *stream, struct event *event);
/* Queue a wait for a 32-bit value in memory, or the write of one. */
enum comparison { WAIT_GEQ, WAIT_EQ, WAIT_AND, WAIT_NOR };
enum emulate_error emulate_wait_value(struct stream *stream, uint64_t address, uint32_t value,
                                      enum comparison comparison);
enum emulate_error emulate_write_value(struct stream *stream, uint64_t address, uint32_t value,
                                       bool has_fence);

/* ---- tally.c ---- */
struct tally { /* the counts of all kernels of one name */
    struct tally *next;
    uint64_t launches;
    struct kernel_counts counts;
    char name[];
};
/* The counts of all kernels of this name; NULL without memory. */
struct tally *emulate_tally_of(const char *name);
/* Add the counts of one launch. */
void emulate_tally_add(struct tally *tally, const struct kernel_counts *counts);

/* ---- module.c ---- */
struct module {
    struct object object;
    void *program;              /* of the executor */
    struct function *functions; /* those that were asked for */
    int references;             /* of launches, and one until it is unloaded */
    uint64_t bytes;
};
struct function {
    struct object object;
    struct function *next; /* of the module */
    struct module *module;
    const void *kernel; /* of the executor */
    struct kernel_info info;
    int dynamic_shared; /* the vendor's: the most that a launch may ask for */
    bool loaded;        /* by a call of the vendor or by the first launch */
    struct tally *tally;
};
/*
 * Load a program of n bytes. The lock is given back meanwhile, because large programs take a while. An error
 * has a text.
 */
enum emulate_error emulate_module_load(struct context *context, const char *call, const void *bytes, size_t n,
                                       struct module **module_out, char *text, size_t text_bytes);
enum emulate_error emulate_module_unload(struct context *context, const char *call, void *module);
/* A kernel of the module by its name. */
enum emulate_error emulate_module_function(void *module, const char *name, struct function **function_out);
/* Load the kernel itself, which a program may do before the first launch. */
enum emulate_error emulate_function_load(struct function *function, const char *call);
/* Give a reference back; the last one frees the module and its functions. */
void emulate_module_put(struct module *module);
/* Unload all modules of a context. */
void emulate_modules_end(struct context *context);

/* ---- launch.c ---- */
/* Check grid and blocks against the limits of the device and of the kernel. */
enum emulate_error emulate_launch_check(const struct context *context, const struct launch *launch);
/*
 * The parameter block, from an array with the address of each parameter, or from a block of n bytes. The
 * caller frees it. NULL with *result_out.
 */
void *emulate_launch_gather(const struct function *function, void **parameters,
                            enum emulate_error *result_out);
void *emulate_launch_copy(const struct function *function, const void *block, size_t n,
                          enum emulate_error *result_out);
/*
 * Load the kernel, and take the memory for its local memory. Do this between the check and the launch.
 */
enum emulate_error emulate_launch_prepare(struct function *function);
/* The failure that YOKE_EMULATE_FAIL asks for at this launch; EMULATE_OK: none. */
enum emulate_error emulate_launch_failure(void);
/* Queue a launch that has been checked. `block` belongs to this function. */
enum emulate_error emulate_launch(struct stream *stream, const struct launch *launch, void *block);

/* ---- log.c ---- */
/* Print one line to the file YOKE_EMULATE_LOG, else to stderr. Needs no lock. */
void emulate_print(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool emulate_log_is_set(void);
void emulate_keep_fault(const char *text);

/* ---- report.c ---- */
enum { EMULATE_LEAK_EXIT = 86 }; /* the exit code of a process with leaks */
/* When SIGSEGV ends the program at an address of device memory, print a line with its name. */
void emulate_watch_host(void);
/* Is YOKE_EMULATE_LEAKS set? */
bool emulate_leaks_are_errors(void);
/* Print what a program did not free, if YOKE_EMULATE_LOG or YOKE_EMULATE_LEAKS is set. Returns the number. */
int emulate_report_leaks(struct context *context);
/*
 * A call that destroys an object ended with this error. A vendor's own library may crash if the object was
 * destroyed before, so this ends the process as a leak does.
 */
enum emulate_error emulate_no_object(enum emulate_error error, const char *what, const void *handle);
/* A leak was printed. If YOKE_EMULATE_LEAKS is set, the process ends here. */
void emulate_leaks_found(void);
/* Look for leaks at the end of the process, if YOKE_EMULATE_LEAKS is set. */
void emulate_watch_exit(void);

/* ---- labels.c ---- */
/* The newest name of an address, or NULL. */
const char *emulate_plain_name(uint64_t address);
/* The name of an address for messages, and where in its allocation it lies. */
void emulate_describe(uint64_t address, char *text, size_t bytes);
/* The same. Takes the lock itself. The result belongs to the thread. */
const char *emulate_name_of(void *context, uint64_t address);
/* Forget the names in a range. */
void emulate_names_remove(uint64_t address, uint64_t bytes);
/* A block was freed: its addresses are named so for a while. */
void emulate_remember_freed(const struct block *block);

#endif
