/* SPDX-License-Identifier: Apache-2.0 */
/**
 * core/base: functions that every other folder may use. Several of Yoke's own libraries share these
 * functions, but they are no public interface. So their names begin with yokei_, and the version script
 * exports them under YOKE_PRIVATE and the exact version.
 */
#ifndef CORE_BASE_BASE_H
#define CORE_BASE_BASE_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <yoke/base.h>

#define YOKE_COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define YOKE_MIN(a, b) ((a) < (b) ? (a) : (b))
#define YOKE_MAX(a, b) ((a) > (b) ? (a) : (b))
/** Whether all n numbers are equal. */
static inline bool yokei_all_equal(const int64_t *list, int n)
{
    for (int i = 1; i < n; i++)
        if (list[i] != list[0]) return false;
    return true;
}

/* ---- status.c: more about errors than yoke/base.h has ---- */
/** A saved copy of this thread's error text. Use it around calls whose failure is no error of the caller. */
struct yokei_error {
    char text[4096];
};
void yokei_error_save(struct yokei_error *out);
void yokei_error_restore(const struct yokei_error *saved);

/* ---- dtype.c: conversions of single values, which docs/NUMERICS.md relies on ---- */
static inline uint32_t yokei_f32_bits(float x)
{
    union {
        float f;
        uint32_t u;
    } v = { .f = x };
    return v.u;
}
static inline float yokei_bits_f32(uint32_t u)
{
    union {
        float f;
        uint32_t u;
    } v = { .u = u };
    return v.f;
}

/** f32 to bf16, rounded to nearest even in integer arithmetic. NaN stays NaN (made quiet). */
static inline uint16_t yokei_f32_to_bf16(float x)
{
    uint32_t u = yokei_f32_bits(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((u >> 16) | 0x40u);
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
static inline float yokei_bf16_to_f32(uint16_t h) { return yokei_bits_f32((uint32_t)h << 16); }
uint16_t yokei_f32_to_f16(float x);
float yokei_f16_to_f32(uint16_t h);
/* Conversions from f64 are direct, because a conversion through f32 would round twice. */

/**
 * yokei_load gives element `index` of an array of any floating type, as f64. yokei_store stores an element,
 * rounded once.
 */
double yokei_load(yoke_dtype dtype, const void *array, int64_t index);
void yokei_store(yoke_dtype dtype, void *array, int64_t index, double value);

/**
 * yokei_unit_roundoff: the unit roundoff u of a floating type, which is half the distance from 1 to the next
 * number. yokei_underflow: half of its least subnormal.
 */
double yokei_unit_roundoff(yoke_dtype dtype);
double yokei_underflow(yoke_dtype dtype);

/* ---- philox.c: counter-based random numbers (Salmon et al. 2011, Philox4x32-10) ---- */
struct yokei_philox_key {
    uint32_t k[2];
};
/** Compute the four 32-bit words at counter (c0, c1, c2, c3) under a key. */
void yokei_philox(struct yokei_philox_key key, const uint32_t counter[4], uint32_t out[4]);
/**
 * Make a key from a seed and a name (of a parameter or a layer). Different names give independent streams of
 * random numbers.
 */
struct yokei_philox_key yokei_philox_named(uint64_t seed, const char *name);
/**
 * Dropout with probability p under a key of yoke_random_key(). Elements whose random word is below
 * `threshold` are dropped. All others are multiplied with `scale`.
 */
struct yokei_dropout {
    struct yokei_philox_key key;
    uint32_t threshold;
    float scale;
};
struct yokei_dropout yokei_dropout(float p, uint64_t key);
/**
 * Whether an element is kept. The four numbers are (channel, position, sample, 0) for elementwise dropout,
 * and (key, query, sample, head) for attention.
 */
bool yokei_dropout_keeps(const struct yokei_dropout *drop, int64_t column, int64_t row, int64_t sample,
                         int64_t head);
/**
 * Random number `index` of the stream `key`: uniform in (0, 1), or standard normal (Box-Muller on the pair
 * that contains `index`).
 */
double yokei_uniform(struct yokei_philox_key key, uint64_t index);
double yokei_normal(struct yokei_philox_key key, uint64_t index);

/* ---- turns.c: angles of rotary embeddings as whole numbers of 2^-64 turns ---- */
/** theta^(-2 / D) in units of 2^-64, for theta above 1. */
uint64_t yokei_turns_ratio(double theta, int64_t D);
/**
 * theta^(-2 i / D) / (2 pi), which is the angle of position 1, in units of 2^-64 turns. Every device gets the
 * same bits, because products are cut to 64 bits.
 */
uint64_t yokei_turns(uint64_t ratio, int64_t i);
#define YOKEI_TURNS_RADIAN UINT64_C(0x28be60db9391054a) /* 1 / (2 pi) */

/* ---- file.c: reading ---- */
/**
 * The status of an error on a path that the user named. docs/FILES.md describes the rules.
 *  - `wrong`, if the path is the reason (missing, a folder, a loop of links, not permitted, ...). `wrong` is
 *    YOKE_ECONFIG for files that configure (options, plans, schedules, costs, tuning). It is YOKE_EDATA for
 *    files with data (text, tokens, tokenizers, models, checkpoints, records).
 *  - YOKE_ENOMEM or YOKE_EIO, if the machine is the reason.
 */
yoke_status yokei_input_status(int error, yoke_status wrong);
/**
 * Open a regular file for reading. If it is not a regular file, the status is `wrong`. The function never
 * waits, not even for a pipe without a writer.
 */
yoke_status yokei_file_open(const char *path, yoke_status wrong, int *fd_out, size_t *bytes_out);
/**
 * Read a whole file, and put a 0 byte behind it. If the file has more than `limit` bytes, the status is
 * `wrong`; for the other errors see yokei_input_status. The caller frees the result with free().
 */
yoke_status yokei_file_read_as(const char *path, yoke_status wrong, size_t limit, void **data_out,
                               size_t *bytes_out);
/** Read one of Yoke's own files, which no user names. All errors are YOKE_EIO. */
yoke_status yokei_file_read(const char *path, size_t limit, void **data_out, size_t *bytes_out);
/**
 * The text of an error number. For EMFILE the text includes the limit. It is valid until the thread's next
 * call.
 */
const char *yokei_why(int error);
/**
 * Whether a file of any kind has this name. True for a link to nothing too, and true if the question cannot
 * be answered. A later read then reports why the file cannot be read.
 */
bool yokei_is_there(const char *path);
/** The kind of a file with this st_mode: "a folder", "a pipe", "a device", ... */
const char *yokei_file_kind(unsigned mode);
/** Make a folder and its parents (mode 0777 & ~umask). */
yoke_status yokei_make_folder(const char *path);
/** Whether `path` is a folder. */
bool yokei_is_folder(const char *path);
/** The hash XXH3, 64 bits. */
uint64_t yokei_hash(const void *data, size_t bytes, uint64_t seed);

/* ---- mapped.c: files that are mapped into memory ---- */
/**
 * Remember a mapping of a file, until yokei_mapped_remove. If another process shortens the file, a read
 * behind its new end raises SIGBUS. yokei_mapped_at then tells which file it was. The library installs no
 * handler. The command has one (cli/launch/lost_file.c). `fd` is the file's descriptor. YOKE_ENOMEM.
 */
yoke_status yokei_mapped_add(const void *memory, size_t bytes, const char *path, int fd);
/** Forget the mapping. Call it before munmap. */
void yokei_mapped_remove(const void *memory);

enum yokei_lost_fate {
    YOKEI_LOST_SHORTER,    /* the file has fewer bytes now */
    YOKEI_LOST_REPLACED,   /* the path names another file now, or none */
    YOKEI_LOST_UNREADABLE, /* the file has its length, so its disk or its file system failed */
};
struct yokei_lost_file {
    const char *path;
    enum yokei_lost_fate fate;
    size_t had, has; /* bytes at the time of the mapping, and now (0 if the file was replaced) */
};
/** The mapped file at `address`. False: there is none. A signal handler may call this function. */
bool yokei_mapped_at(const void *address, struct yokei_lost_file *out);

/* ---- output.c: writing files. docs/FILES.md has the rules for users ---- */
/**
 * An output file for a path that a user named. The data is written to a descriptor. yokei_output_commit then
 * puts all of the data at the path. If the commit fails, or never comes, the old content of the path is
 * unchanged, except where a file is written in place.
 *  - A regular file is replaced by rename. The new file has the old one's permissions, and its owner too if
 *    that is allowed. Links are followed, and stay.
 *  - An existing file is written in place if its folder allows no new file, or if the rename is refused.
 *  - A pipe, a device and an entry of /proc/PID/fd (/dev/stdout) are never replaced. At the commit, the data
 *    is written to them.
 * Errors: YOKE_EIO, YOKE_ENOMEM.
 */
struct yokei_output;
yoke_status yokei_output_open(const char *path, struct yokei_output **out);
/** The descriptor of the output. It can be read, and it can seek. */
int yokei_output_fd(const struct yokei_output *output);
/** Commit or abandon the output. Both functions destroy the object. */
yoke_status yokei_output_commit(struct yokei_output *output);
void yokei_output_abandon(struct yokei_output *output);
/** Write a whole output file in one call. */
yoke_status yokei_file_write(const char *path, const void *data, size_t bytes);
/**
 * The same for a file that is soon written again. Another process sees the old or the new text, and no part
 * of it. But nothing is synchronised, so the text may be lost if the machine fails.
 */
yoke_status yokei_file_publish(const char *path, const void *data, size_t bytes);
/**
 * Open a path to write to it directly. For a pipe, the function waits up to 10 s for a reader. Returns -1
 * with errno on failure.
 */
int yokei_open_to_write(const char *path, int flags);

/* ---- disk.c: changes to files that must not be lost; at each call a test may inject a fault ---- */
/**
 * Write all of the data. Returns false with errno on failure. The process gets neither SIGXFSZ nor SIGPIPE
 * from this call.
 */
bool yokei_write_all(int fd, const void *data, size_t bytes);
/**
 * Reserve all disk space of a file now. Returns 0 or the error: ENOSPC on a full disk, EFBIG past the
 * process's limit (without its signal).
 */
int yokei_file_reserve(int fd, size_t bytes);
/** yokei_write_all, but a test may inject a fault here. */
bool yokei_disk_write(int fd, const void *data, size_t bytes);
/** fsync; rename; unlink or rmdir. Each returns 0, or -1 with errno. A test may inject a fault here. */
int yokei_disk_sync(int fd);
int yokei_disk_rename(const char *from, const char *to);
int yokei_disk_remove(const char *path);
/** fsync of a folder. YOKE_EIO on failure. A file system that does not offer it is no error. */
yoke_status yokei_disk_sync_folder(const char *path);
/**
 * Inject faults, for tests. From yokei_disk_watch to yokei_disk_unwatch, the calls of the functions
 * yokei_disk_* above are counted, over the whole process. The environment variable YOKE_SAVE_FAULT, which
 * yokei_disk_watch reads, says what happens:
 *  - kill=K: the process is killed in call K. If the call writes, the process is killed in the middle of its
 *    data.
 *  - full=K: call K fails because the disk is full, and so do all later calls of this save.
 *  - full=0: all calls of every save fail because the disk is full.
 * Removing a file works on a full disk too.
 */
void yokei_disk_watch(void);
void yokei_disk_unwatch(void);

/* ---- signals.c ---- */
/**
 * From here to yokei_signals_release, no handler of a signal runs on this thread. A signal that arrives
 * waits, or another thread takes it. The signals of faults, such as SIGSEGV and SIGABRT, are not held. A
 * thread that is created in between holds the same signals for its whole life.
 */
void yokei_signals_hold(sigset_t *was_out);
void yokei_signals_release(const sigset_t *was);
/** pthread_create of a thread that takes no signals, because they are for the program's own threads. */
int yokei_thread_without_signals(pthread_t *thread_out, void *(*run)(void *), void *context);
/**
 * Declare that the calling thread runs only Yoke's code. It is a thread of the library, or a thread of the
 * program `yoke`. A backend may then keep the state that a driver has for this thread, such as CUDA's current
 * context, between two calls. The declaration holds until the thread ends.
 */
void yokei_thread_set_own(void);
bool yokei_thread_is_own(void);

/* ---- dl.c: libraries that are found at run time ---- */
struct yokei_symbol {
    const char *name;
    void *slot;
}; /* slot: the address of the function pointer to fill */
/**
 * Open the first of `names` (NULL-terminated) that loads, and resolve all symbols. Returns the handle, or
 * NULL on failure. On failure no library stays open, and `reason` (of reason_bytes bytes) says which library
 * or symbol is missing.
 */
void *yokei_dl_open(const char *const names[], const struct yokei_symbol *symbols, size_t n_symbols,
                    char *reason, size_t reason_bytes);

/* ---- topology.c: the cores of this host (hwloc) ---- */
struct yokei_topology {
    int n_cores, n_processing_units; /* those that this process may run on */
    int n_packages, n_numa_nodes;
    uint64_t memory_bytes, l2_bytes, l3_bytes;
    char cpu[128];
};
yoke_status yokei_topology(struct yokei_topology *out);
/**
 * Bind the process to share `index` of `n_slots` equal shares of the cores that it may use. `n_cores_out`
 * gets the number of cores in the share.
 */
yoke_status yokei_bind(int index, int n_slots, int *n_cores_out);
/**
 * The cores of share `index`: first to end - 1, of n_cores. The sizes of two shares differ by at most one
 * core. If there are more shares than cores, the numbers of shares per core differ by at most one.
 */
void yokei_bind_range(int n_cores, int index, int n_slots, int *first_out, int *end_out);
#define YOKEI_UNIT_WORDS 16 /* 64 processing units per word, so 1024 of a host are looked at */
/** The processing units that this process may run on. Unit u is bit u % 64 of word u / 64. */
yoke_status yokei_bound_units(uint64_t units_out[YOKEI_UNIT_WORDS]);
/**
 * As yokei_bind, but the shares are of the cores with these units, whatever cores this process was bound to
 * before. All threads of the process are bound.
 */
yoke_status yokei_bind_to_units(const uint64_t units[YOKEI_UNIT_WORDS], int index, int n_slots,
                                int *n_cores_out);

/* ---- host.c ---- */
/**
 * A number that two processes have in common if they see each other's process ids. It is made from this boot
 * of this machine and, in a container, from the container's namespace. YOKE_HOST_ID is mixed in: ranks with
 * different values of it count as ranks on different hosts.
 */
uint64_t yokei_host_id(void);

/* ---- wait.c: how to wait without taking the core from other processes ---- */
enum yokei_wait_policy { YOKEI_WAIT_AUTO, YOKEI_WAIT_SPIN, YOKEI_WAIT_YIELD, YOKEI_WAIT_SLEEP };
struct yokei_wait {
    enum yokei_wait_policy policy; /* the resolved policy, never AUTO */
    uint64_t n_idle;               /* unsuccessful polls since the last progress */
    uint64_t idle_since_ns;
    /* time since which no yield has let another process run; 0: the last yield did */
    uint64_t alone_since_ns;
};
/** AUTO becomes SPIN if every rank of the host has a core of its own, else YIELD. */
void yokei_wait_init(struct yokei_wait *wait, enum yokei_wait_policy policy, int n_ranks_on_host,
                     int n_cores);
/**
 * Call this after an unsuccessful poll. It spins, yields or sleeps a little. The longer no poll succeeds, the
 * longer it waits.
 */
void yokei_wait_idle(struct yokei_wait *wait);
/**
 * As yokei_wait_idle, but this function does not sleep. If it is time to sleep, it returns the number of
 * nanoseconds, and the caller sleeps by its own means. Otherwise it returns 0.
 */
uint64_t yokei_wait_turn(struct yokei_wait *wait);
/**
 * Whether yielding is of no use. For some microseconds no other process took the core, although no poll
 * succeeded. Either the peer runs on another core, or the peer may not run yet because it has had more than
 * its share of the CPU. It is then time to sleep.
 */
bool yokei_wait_is_alone(const struct yokei_wait *wait);
/** Call this after a successful poll. */
static inline void yokei_wait_progress(struct yokei_wait *wait) { wait->n_idle = 0; }
/** Monotonic time in nanoseconds. */
uint64_t yokei_now_ns(void);
/** Seconds between two of these times; 0 if `to` is not later. */
static inline double yokei_seconds_between(uint64_t from, uint64_t to)
{
    return to > from ? (double)(to - from) * 1e-9 : 0;
}
static inline double yokei_seconds_since(uint64_t begun_ns)
{
    return (double)(yokei_now_ns() - begun_ns) * 1e-9;
}

/* ---- limits ---- */
/**
 * The number of descriptors that the drivers of devices, MPI and the launcher's sockets need. The command
 * raises its limit to this number, or says what is missing.
 */
enum { YOKEI_LEAST_DESCRIPTORS = 64 };

/* ---- pocl.c ---- */
/**
 * The folder in which PoCL (an OpenCL implementation for CPUs) keeps its compiled programs, from the
 * variables that PoCL reads. Returns 0, or the errno that says why PoCL cannot make the folder. PoCL then has
 * no devices.
 */
int yokei_pocl_cache(char *folder_out, size_t bytes);
/**
 * Why PoCL cannot write `folder`, as errno; 0: it can, or it can make the folder. ENOSPC: there is less room
 * than PoCL needs to compile a program.
 */
int yokei_pocl_cannot_write(const char *folder);
/** PoCL needs about 0.4 MB to compile one of Yoke's programs. Several ranks may compile at the same time. */
enum { YOKEI_POCL_LEAST_BYTES = 2 << 20 };
/**
 * If PoCL cannot write its folder, set POCL_CACHE_DIR to a folder of this user in $TMPDIR. The folder stays.
 * Call this only in programs that have no other thread yet. Returns false if nothing was changed.
 */
bool yokei_pocl_cache_elsewhere(void);

/* ---- text.c ---- */
/** snprintf that always terminates the text, and cuts it silently. For names and reasons of fixed size. */
void yokei_text(char *target, size_t bytes, const char *format, ...) YOKE_PRINTF(3, 4);
/**
 * Whether a text is a value of YOKE_EMULATE: "cuda:" and a compute capability, or "hip:" and a processor, or
 * both, such as "cuda:9.0,hip:gfx942".
 */
bool yokei_is_emulation(const char *text);
/**
 * Whether YOKE_EMULATE has a part for `vendor` ("cuda" or "hip"). The text behind its colon is written, such
 * as "9.0", whether or not it is right.
 */
bool yokei_emulated(const char *vendor, char *text_out, size_t bytes);
/**
 * Find the entry of `names` (NULL-terminated) with the least edit distance to `word`, for "did you mean".
 * NULL if no entry is near.
 */
const char *yokei_nearest(const char *word, const char *const names[]);

/* ---- live.c: a list of the objects in use, to refuse the release of an object that is not in use ---- */
/* A list begins with all bytes 0. */
struct yokei_live {
    void *tree; /* a tree of <search.h> */
};
enum yokei_live_answer { YOKEI_LIVE_NOT, YOKEI_LIVE_INSIDE, YOKEI_LIVE_IS };
/**
 * Add a range. Any thread may call this; O(log n). YOKE_ENOMEM; YOKE_EINVAL if the range overlaps one in the
 * list. An empty range takes one byte.
 */
yoke_status yokei_live_add(struct yokei_live *live, const void *address, size_t bytes);
/**
 * Remove the range that begins at `address`. Returns
 *  - YOKEI_LIVE_IS if the range was removed. If several threads try, exactly one gets this answer.
 *  - YOKEI_LIVE_INSIDE if `address` lies inside a range but not at its start. The range stays in the list.
 *  - YOKEI_LIVE_NOT if `address` lies in no range.
 * The start and the length of a range that was found go to begin_out and bytes_out. Both may be NULL.
 */
enum yokei_live_answer yokei_live_remove(struct yokei_live *live, const void *address, const void **begin_out,
                                         size_t *bytes_out);
/** Whether a range in the list begins at `address`. */
bool yokei_live_has(struct yokei_live *live, const void *address);
/**
 * The objects of this process: devices, streams, events, models, trainers. A new object may have the address
 * of one that was destroyed.
 */
extern struct yokei_live yokei_objects;
/**
 * Remove an object from yokei_objects before it is destroyed. YOKE_EINVAL if the object is not in the list;
 * the text names the call.
 */
yoke_status yokei_object_leaves(const char *call, const char *what, const void *object);
/** Between these two calls no other thread is inside a list. For fork.c. */
void yokei_live_hold(void);
void yokei_live_release(void);

/* ---- fork.c: the process that made an object ---- */
/**
 * The number of calls of fork between the process that loaded this library and this process. An object that a
 * process can see was made by it or by one of its ancestors. So the number tells whether this process made
 * the object. Only fork counts, not a process that a raw system call (clone) or _Fork has made.
 */
extern atomic_uint yokei_forks;
struct yokei_maker {
    unsigned forks;
    int pid; /* for the text of errors */
};
struct yokei_maker yokei_this_process(void);
/** Whether this process made the object. This costs one load, so every call may ask. */
static inline bool yokei_made_here(const struct yokei_maker *maker)
{
    return maker->forks == atomic_load_explicit(&yokei_forks, memory_order_relaxed);
}
/** Make the error YOKE_EINVAL of a call on an object of an ancestor. `instead` says what the user can do. */
yoke_status yokei_refuse_fork(const char *call, const struct yokei_maker *maker, const char *what,
                              const char *instead);
/** For fork.c: in a child process, the log's lock is free. */
void yokei_log_reset(void);

/* ---- core/eager.c ---- */
struct yoke_device;
/**
 * Whether the device's streams are eager: they run each call at once, on the calling thread (host,
 * reference).
 */
bool yokei_is_eager(const struct yoke_device *device);
struct yoke_stream;
/**
 * Whether yoke_stream_wait for an armed event blocks the caller, because the stream is a foreign queue, whose
 * commands cannot be held back.
 */
bool yokei_stream_blocks(const struct yoke_stream *stream);
/**
 * Block while the process holds back as many commands of the stream as it may. Events are recorded and waited
 * for without this limit. The caller holds no lock that yoke_event_signal may need. NULL: nothing to do.
 */
void yokei_stream_room(struct yoke_stream *stream);
struct yoke_event;
/**
 * The time at which an event of an eager device was completed, by yokei_now_ns. 0: the event is not complete.
 */
uint64_t yokei_eager_event_ns(const struct yoke_event *event);
/**
 * With `corrects` true, AdamW rounds divisions and square roots correctly from now on, also if the device's
 * own instructions do not. A backend may ignore this.
 */
void yokei_correct_rounding(struct yoke_device *device, bool corrects);
/* The texts that name a product and an algorithm of a vendor's library have at most so many bytes. */
enum { YOKEI_PRODUCT_BYTES = 192, YOKEI_ALGORITHM_BYTES = 128 };
typedef void yokei_product_function(void *context, const char *product, const char *algorithm);
/** Call `each` for each matrix product that a vendor's library was asked for, with its algorithm. */
void yokei_products_used(const struct yoke_device *device, yokei_product_function *each, void *context);
/**
 * Let a product run by this algorithm instead of the algorithm that the library prefers. Both texts come from
 * yokei_products_used, perhaps in another process. If the library does not offer the algorithm, the log says
 * so, and the preferred algorithm runs. A device without such a library ignores the call. Errors:
 * YOKE_ENOMEM, YOKE_ECONFIG.
 */
yoke_status yokei_product_set(struct yoke_device *device, const char *product, const char *algorithm);
/**
 * With `prepares` true, yoke_<op>_can also compiles and loads the programs of the op, if programs take memory
 * of the device. So the programs are no longer part of the free memory that the device reports. This may take
 * seconds for each program. If a program fails, yoke_<op>_can returns its error. A call with false ends this.
 */
void yokei_prepare_programs(struct yoke_device *device, bool prepares);
/** Whether the device measures the time between two events. */
bool yokei_times_events(const struct yoke_device *device);
/** Create an event whose time is measured, on a device that measures times. Destroy: yoke_event_destroy. */
yoke_status yokei_timed_event_create(struct yoke_device *device, struct yoke_event **event_out);
/**
 * The seconds from one event to another event of the same device. Both events were created by
 * yokei_timed_event_create. They have been recorded and are complete. YOKE_EUNSUPPORTED if the driver has no
 * such times.
 */
yoke_status yokei_event_seconds(const struct yoke_event *from, const struct yoke_event *to,
                                double *seconds_out);

/* ---- core/memory.c: what a device that checks memory accesses is told ---- */
enum yokei_memory_state {
    YOKEI_MEMORY_AS_IS, /* the state does not change */
    /* the numbers are those of emulate/cuda/emulate.h */
    YOKEI_MEMORY_UNDEFINED = 1, /* may be written; a read before the first write is an error */
    YOKEI_MEMORY_DEFINED = 2,
    YOKEI_MEMORY_FORBIDDEN = 3, /* each access is an error */
};
/** What may be done with these bytes of one allocation from now on, and their name. */
struct yokei_annotation {
    const void *address;
    size_t bytes;
    enum yokei_memory_state state;
    const char *name; /* for the text of an error, such as "h.0.mlp, y"; NULL: the name does not change */
    /*
     * With UNDEFINED and a stream: a lifetime begins, in which so many streams use the bytes. With FORBIDDEN
     * and 1: the last use in this stream is over. The bytes become forbidden when the last of the streams has
     * come so far. 0: the bytes have no lifetime.
     */
    int streams;
};
/** The bytes that stay free behind each tensor of a device that checks accesses. A multiple of 64. */
enum { YOKEI_RED_ZONE = 256 };
struct yoke_stream;
/** Whether the device checks each access to its memory, and so wants annotations. No real device does. */
bool yokei_annotates(const struct yoke_device *device);
/** YOKEI_RED_ZONE for a device that checks accesses, 0 for all others. */
size_t yokei_red_zone(const struct yoke_device *device);
/**
 * Tell the device. With a stream the annotation takes its turn behind the commands that the stream has
 * already; with NULL it takes effect at once. Does nothing on a device that does not check accesses.
 */
yoke_status yokei_annotate(struct yoke_device *device, struct yoke_stream *stream,
                           const struct yokei_annotation *annotation);

/* ---- core/pin.c: page-locked host memory ---- */
/** Whether copies from and to host memory are faster if yokei_pin has page-locked the memory. */
bool yokei_pins(const struct yoke_device *device);
/**
 * Page-lock host memory. The memory consists of whole pages. A driver may refuse, for example if it must not
 * lock more memory. Copies then still work, but cost more time of the host. The first refusal of a device is
 * logged. `name` is for messages. The memory counts as an object of the device until yokei_unpin.
 */
yoke_status yokei_pin(struct yoke_device *device, void *memory, size_t bytes, const char *name);
/** Undo yokei_pin. All copies that use the memory must have ended. Keeps the thread's error text. */
void yokei_unpin(struct yoke_device *device, void *memory);

#endif
