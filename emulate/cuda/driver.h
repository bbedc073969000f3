/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the stand-in driver share. One lock protects everything but the bytes of device memory.
 * A function of the driver interface takes the lock with emulate_enter or emulate_enter_plain, and gives it
 * back with emulate_leave. All functions below are called with the lock held, unless their comment says
 * otherwise.
 */
#ifndef EMULATE_CUDA_DRIVER_H
#define EMULATE_CUDA_DRIVER_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "emulate/cuda/api.h"
#include "emulate/cuda/emulate.h"
#include "emulate/cuda/order.h"
#include "emulate/cuda/ptx.h"

#define MOST_DEVICES 16

/* ---- settings.c: the environment ---- */
enum failure {
    FAIL_MEMORY,
    FAIL_ADDRESS,
    FAIL_TIMEOUT,
    FAIL_ECC,
    FAIL_LOST,
    FAIL_BUSY,
    FAIL_LOCK,
    FAIL_REGISTER,
    FAIL_LT_CREATE,
    FAIL_LT_HEURISTIC,
    FAIL_LT_MATMUL,
    FAIL_VALUE,
    N_FAILURES
};

struct settings {
    int capability; /* 90 for 9.0 */
    int devices;
    uint64_t memory; /* bytes of each device */
    int multiprocessors;
    uint64_t seed;
    int channels;          /* hardware channels of each device, 1 to 32 */
    uint64_t channel_seed; /* which streams share a channel */
    int hold_s;            /* how long a channel may hold a command up; 0: without a limit */
    int wait_s;            /* how long calls that may wait for the whole device wait; 0: they do not */
    uint32_t delay_us;     /* the longest random delay before a command; 0: none */
    const char *share;     /* the file by which processes share the devices; NULL: they do not */
    int newest_ptx;        /* 87 for PTX 8.7; 0: any */
    int bias;              /* enum emulate_bias */
    uint64_t instructions; /* the most that the threads of one block execute together; 0: no limit */
    int n_visible;         /* of CUDA_VISIBLE_DEVICES; -1: not set */
    int visible[MOST_DEVICES];
    uint64_t fail_at[N_FAILURES]; /* from 1; 0: never */
};
extern struct settings emulate_settings;

/* Read the environment. On an error print one line to stderr and return a CUresult. */
CUresult emulate_settings_read(void);
/* Count one event of this kind. true if YOKE_EMULATE_FAIL asks for the failure at this count. */
bool emulate_fails(enum failure failure);
/* The same, for a failure that stays: true at this count and at all later ones. */
bool emulate_fails_from(enum failure failure);
/* The channel of a stream with this number. It depends on the seed of the mapping alone. */
struct CUctx_st;
int emulate_channel_of(const struct CUctx_st *context, unsigned long long stream);
/* A number that depends on the seed, a and b alone. */
uint64_t emulate_random(uint64_t a, uint64_t b);

/* ---- models.c ---- */
struct device_model {
    int capability;
    int multiprocessors;
    int shared_per_multiprocessor, shared_most; /* bytes; shared_most is the most that a block can ask for */
    int threads_per_multiprocessor, blocks_per_multiprocessor;
    int l2_bytes, bus_bits, clock_khz, memory_clock_khz;
};
/* The model of a capability; an unknown one gets the newest that is not newer. */
const struct device_model *emulate_model(int capability);

/* ---- zones.c ---- */
struct block { /* an allocation */
    struct block *next;
    uint64_t first, end; /* with the red zones */
    uint64_t address, bytes;
    unsigned long long id;
    const struct CUctx_st *owner; /* of pinned memory: the context that was current */
    bool is_reserved;             /* addresses that are not counted as memory */
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
    struct CUctx_st *context;
};

struct CUctx_st { /* the primary context of a device, and the device */
    int ordinal;
    int references;
    unsigned flags;
    bool active;
    bool ending;        /* waits for values in memory end now */
    volatile bool stop; /* running kernels end now */
    CUresult lost;      /* the error that each later call returns; CUDA_SUCCESS: none */
    struct CUstream_st *legacy;
    struct command *value_waits; /* the waits for values that have not ended, of all streams */
    uint64_t n_commands;         /* submitted so far */
    struct CUstream_st *streams; /* all, also the legacy stream and destroyed ones with commands left */
    int n_threads;
    unsigned long long n_streams;
    struct order order;

    struct zone zone;
    struct ptx_memory memory; /* state and touched are NULL before the first retain */
    struct ptx_limits limits;
    uint64_t small_bytes, large_bytes, module_bytes, local_bytes;
};
extern struct CUctx_st emulate_contexts[MOST_DEVICES];
extern bool emulate_ready;       /* cuInit has succeeded in this process */
extern uint64_t emulate_n_calls; /* see yoke_emulate_calls */

/* Take the lock if the driver is initialised. */
CUresult emulate_enter_plain(void);
/* Give the lock back. Returns `result`. */
CUresult emulate_leave(CUresult result);
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
/* This thread runs a function of cuLaunchHostFunc, which may not call the driver. */
void emulate_set_in_callback(bool inside);

void emulate_object_add(struct object *object, enum kind kind, struct CUctx_st *context);
void emulate_object_remove(struct object *object);
/* Is this a handle of this kind? It may be any pointer. */
bool emulate_object_is(const void *handle, enum kind kind);
/* Any object of a context, of this kind; NULL: none. */
struct object *emulate_object_any(const struct CUctx_st *context, enum kind kind);
/* Call `visit` for each object of the context. `visit` may remove no object. */
void emulate_objects(const struct CUctx_st *context, void (*visit)(struct object *));

/* ---- current.c ---- */
/* Take the lock if there is a current context, and its device has not failed. */
CUresult emulate_enter(struct CUctx_st **context_out);
/* The same for functions that CUDA does not have. */
CUresult emulate_enter_uncounted(struct CUctx_st **context_out);
/* How often the context is on this thread's stack. */
int emulate_stack_count(const struct CUctx_st *context);
/* The context is lost: each later call returns `error`. `text` says why, and is printed. */
void emulate_lose(struct CUctx_st *context, CUresult error, const char *text);

/* ---- zones.c ---- */
#define EMULATE_HOST_BYTES (16ull << 30)
#define EMULATE_PAGE 4096ull
#define EMULATE_DEVICE_PAGE (2ull << 20) /* the unit in which a GPU hands out memory */
static inline uint64_t emulate_round_up(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}
/* Reserve the addresses of all devices. */
CUresult emulate_memory_reserve(void);
/* Reserve addresses for anything. NULL, with a line that says why: it failed. */
void *emulate_reserve(uint64_t bytes, int protection);
struct block *emulate_block_of(const struct zone *zone, uint64_t address);
/* The context in whose memory this address lies; NULL: it is no device memory. */
struct CUctx_st *emulate_context_of(uint64_t address);
extern struct zone emulate_host_zone; /* pinned memory */
extern unsigned char *emulate_data;   /* the bytes of the address a are emulate_data[a - emulate_base] */
extern uint64_t emulate_base, emulate_bytes;
struct block *emulate_zone_take(struct zone *zone, uint64_t bytes, uint64_t align, uint64_t red);
void emulate_zone_give(struct zone *zone, struct block *block);
/* Set the state of the bytes [from, to) of a device. */
void emulate_set_state(const struct CUctx_st *context, uint64_t from, uint64_t to, enum ptx_byte state);
/* For all devices: pinned memory is defined, or it is outside again. */
void emulate_host_state(const struct block *block, enum ptx_byte state);
/* Map pinned memory. False without memory. */
bool emulate_pinned_open(const struct block *block);
/* Forbid whole pages inside pinned memory to the devices and to the host. */
CUresult emulate_pinned_forbid(uint64_t address, uint64_t bytes);
/* The states of pinned memory for the first device that has states; NULL: none has. */
const unsigned char *emulate_pinned_guard(uint64_t address);
/* Make pinned memory addresses again that nobody may touch. */
void emulate_pinned_close(const struct block *block);
/* Undo the second mapping of registered memory. */
void emulate_window_close(struct block *window);

/* ---- memory.c, registered.c ---- */
/* Make the states of a device, at its first retain. */
CUresult emulate_memory_open(struct CUctx_st *context);
/* Free all memory of a device. */
void emulate_memory_close(struct CUctx_st *context);
uint64_t emulate_memory_used(const struct CUctx_st *context);
/* Has [memory, memory + bytes) been registered, or is it pinned? */
bool emulate_is_pinned(const void *memory, size_t bytes);
/* Is this an address of registered memory? */
bool emulate_registered_holds(uint64_t address);
/*
 * Where copies find registered memory that has a window. Leaves *place_out as it is for other memory. A range
 * that begins in registered memory and ends behind it is an error.
 */
struct place;
CUresult emulate_registered_place(CUdeviceptr address, size_t bytes, struct place *place_out);
/* Forbid whole pages of registered memory to the devices and to the host. */
CUresult emulate_registered_forbid(uint64_t address, uint64_t bytes);
/* Unregister all memory that was registered in this context. */
void emulate_registered_close(const struct CUctx_st *context);
/* Call `visit` for all memory that was registered in this context. */
void emulate_registered_visit(const struct CUctx_st *context,
                              void (*visit)(uint64_t address, uint64_t bytes));

/* ---- share.c: devices that several processes share ---- */
/* Take part, if YOKE_EMULATE_SHARE is set. */
CUresult emulate_share_open(void);
/* Whether what the context uses now fits, beside what other processes use. They hear of it if it fits. */
bool emulate_share_fits(const struct CUctx_st *context);
/* The context uses less now. */
void emulate_share_update(const struct CUctx_st *context);
/* The bytes of this device that other processes use. */
uint64_t emulate_share_others(const struct CUctx_st *context);

/* ---- stream.c ---- */
struct mark { /* a point in a stream: one call of cuEventRecord */
    int references;
    bool done;
    struct timespec time;
    struct order_clock clock;
};
struct mark *emulate_mark_keep(struct mark *mark);
void emulate_mark_drop(struct mark *mark);

struct CUevent_st {
    struct object object;
    unsigned flags;
    struct mark *last; /* of the newest cuEventRecord; NULL: never recorded */
};

struct place { /* bytes that a copy reads or writes */
    unsigned char *data;
    unsigned char *state;       /* NULL: host memory, all of it is defined */
    const unsigned char *guard; /* of pinned memory: where its red zones are; NULL: it has none */
    uint64_t address;
};

struct launch {
    uint64_t last_blocks; /* run only so many blocks, the last ones; 0: all */
    struct CUfunc_st *function;
    uint32_t grid[3], block[3], shared_bytes;
};

struct command {
    struct command *next;
    struct CUstream_st *stream;
    uint64_t sequence;
    uint64_t number;           /* in the order of submission to the context, from 1 */
    struct command *next_wait; /* in the context's list of waits for values */
    bool waits_for_value;
    struct order_clock host;         /* what the host had seen when it submitted this command */
    struct ptx_footprint *footprint; /* for `run`: the bytes that a kernel or a library touches */
    struct ptx_range touched[2];     /* the same for a copy or a fill */
    int n_touched;
    /* Called without the lock. An error loses the context; `text` says why. NULL: nothing to do. */
    CUresult (*run)(struct command *command, char *text, size_t text_bytes);
    void (*drop)(struct command *command); /* called at the end, with the lock; may be NULL */
    struct after {
        struct CUstream_st *stream;
        uint64_t sequence;
    } * after; /* what must have completed in other streams */
    int n_after;
    struct mark *wait, *set;
    CUresult injected; /* a failure that YOKE_EMULATE_FAIL asks for */
    void *owned;       /* freed at the end */
    struct place to, from;
    size_t bytes;
    uint32_t value;
    unsigned value_bytes, flags;
    CUhostFn function;
    void *user_data;
    struct launch launch;
    struct foreign { /* work of a library, see emulate.h */
        int (*run)(void *user, char *text, size_t text_bytes);
        void (*release)(void *user);
        struct tally *tally;
    } foreign;
};

struct CUstream_st {
    struct object object;
    struct CUstream_st *next; /* in the context */
    unsigned long long number;
    int channel; /* the hardware channel to which the stream is mapped */
    int slot;    /* in the clocks; -1: none */
    struct order_clock clock;
    unsigned flags;
    int references; /* of commands in other streams, and of callers that wait */
    bool destroyed, has_thread;
    uint64_t submitted, completed; /* sequence numbers */
    struct command *first, **last;
    pthread_cond_t work;
};

/* The stream of a handle: NULL and CU_STREAM_LEGACY are the context's legacy stream. */
CUresult emulate_stream_of(struct CUctx_st *context, CUstream handle, struct CUstream_st **stream_out);
CUresult emulate_stream_new(struct CUctx_st *context, unsigned flags, struct CUstream_st **stream_out);
/* A command with the fields zero; NULL without memory. */
struct command *emulate_command_new(void);
/* Queue a command. The stream frees it, also if this function fails. */
CUresult emulate_submit(struct CUstream_st *stream, struct command *command);
/* Sleep until the stream has completed what was submitted so far, then return the context's error, if any. */
CUresult emulate_stream_wait(struct CUstream_st *stream);
/*
 * Sleep until all streams of the context have; blocking: only those that are ordered with the legacy
 * stream.
 */
CUresult emulate_context_wait(struct CUctx_st *context, bool blocking);
/*
 * `call` is one that NVIDIA's driver may let wait for all work of the device. If YOKE_EMULATE_WAIT is set, it
 * does. If the work does not end in this time, the context is lost. Returns the context's error, if any.
 */
CUresult emulate_may_wait(struct CUctx_st *context, const char *call);
/* End all threads of a context and free its streams. */
void emulate_streams_end(struct CUctx_st *context);

/* ---- channel.c ---- */
/* A wait for a value was submitted, or it has ended. */
void emulate_value_wait_add(struct CUctx_st *context, struct command *command);
void emulate_value_wait_remove(struct CUctx_st *context, const struct command *command);
/*
 * Sleep while an earlier wait for a value, of another stream, holds up the command in its channel. If this
 * takes longer than the limit of YOKE_EMULATE_HOLD, the context is lost.
 */
void emulate_channel_pass(const struct command *command);

/* ---- copy.c ---- */
/* Where `bytes` bytes lie that a caller names by a device address. */
CUresult emulate_place(CUdeviceptr address, size_t bytes, bool device_only, struct place *place_out);
/* The first byte that is not allocated or that is forbidden; `bytes` if there is none. */
size_t emulate_first_bad(const unsigned char *state, size_t bytes);

/* ---- module.c ---- */
struct tally { /* the counts of all kernels of one name */
    struct tally *next;
    uint64_t launches;
    struct ptx_counts counts;
    char name[];
};
struct CUmod_st {
    struct object object;
    struct ptx_module *parsed;
    struct CUfunc_st *functions; /* those that were asked for */
    int references;              /* of launches, and one until it is unloaded */
    int ptx_version;
    uint64_t bytes;
};
struct CUfunc_st {
    struct object object;
    struct CUfunc_st *next; /* of the module */
    struct CUmod_st *module;
    const struct ptx_kernel *kernel;
    struct ptx_kernel_info info;
    int dynamic_shared;
    bool loaded; /* by cuFuncLoad or by the first launch */
    struct tally *tally;
};
/* The counts of all kernels of this name; NULL without memory. */
struct tally *emulate_tally_of(const char *name);
/* Add the counts of one launch. */
void emulate_tally_add(struct tally *tally, const struct ptx_counts *counts);
/* Give a reference back; the last one frees the module and its functions. */
void emulate_module_put(struct CUmod_st *module);
/* The most dynamic shared memory that a launch of the function may ask for. */
int emulate_dynamic_most(const struct CUfunc_st *function);
/* Unload all modules of a context. */
void emulate_modules_end(struct CUctx_st *context);

/* ---- errors.c ---- */
const char *emulate_error_name(CUresult error); /* NULL: unknown */

/* ---- log.c ---- */
/* Print one line to the file YOKE_EMULATE_LOG, else to stderr. Needs no lock. */
void emulate_print(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool emulate_log_is_set(void);
void emulate_keep_fault(const char *text);

/* ---- report.c ---- */
enum { EMULATE_LEAK_EXIT = 86 }; /* the exit code of a process with leaks */
/* When SIGSEGV ends the program at an address of device memory, print a line with its name. */
void emulate_watch_host(void);
/* Print what a program did not free, if YOKE_EMULATE_LOG or YOKE_EMULATE_LEAKS is set. Returns the number. */
int emulate_report_leaks(struct CUctx_st *context);
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
