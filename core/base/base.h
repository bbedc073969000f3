/* SPDX-License-Identifier: Apache-2.0 */
/**
 * core/base: what every other folder may use. Functions that several of Yoke's own libraries share, but that are no
 * public interface, are called yokei_*; the version script puts them under YOKE_PRIVATE and the exact version.
 */
#ifndef CORE_BASE_BASE_H
#define CORE_BASE_BASE_H

#include <pthread.h>
#include <yoke/base.h>

#define YOKE_COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define YOKE_MIN(a, b) ((a) < (b) ? (a) : (b))
#define YOKE_MAX(a, b) ((a) > (b) ? (a) : (b))

/* ---- status.c, beside what yoke/base.h has ---- */
/** The error text of this thread, kept over calls whose failure is no error of their caller. */
struct yokei_error { char text[4096]; };
void yokei_error_save(struct yokei_error *out);
void yokei_error_restore(const struct yokei_error *saved);

/* ---- dtype.c: scalar conversions, the numeric contract's own routines ---- */
static inline uint32_t yokei_f32_bits(float x) { union { float f; uint32_t u; } v = { .f = x }; return v.u; }
static inline float yokei_bits_f32(uint32_t u) { union { float f; uint32_t u; } v = { .u = u }; return v.f; }

/** bf16 by integer round-to-nearest-even; NaN stays NaN (made quiet). */
static inline uint16_t yokei_f32_to_bf16(float x)
{
    uint32_t u = yokei_f32_bits(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((u >> 16) | 0x40u);
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
static inline float yokei_bf16_to_f32(uint16_t h) { return yokei_bits_f32((uint32_t)h << 16); }
uint16_t yokei_f32_to_f16(float x);
float yokei_f16_to_f32(uint16_t h);
/* From f64 directly: rounding through f32 would round twice. */

/** Element `index` of an array of any floating type, as f64; and the store, rounded once. */
double yokei_load(yoke_dtype dtype, const void *array, int64_t index);
void yokei_store(yoke_dtype dtype, void *array, int64_t index, double value);

/** Unit roundoff u (half the distance of 1 to the next number), and half the least subnormal, of a floating type. */
double yokei_unit_roundoff(yoke_dtype dtype);
double yokei_underflow(yoke_dtype dtype);

/* ---- philox.c: counter-based random numbers (Salmon et al. 2011, Philox4x32-10) ---- */
struct yokei_philox_key { uint32_t k[2]; };
/** The four 32-bit words of counter (c0, c1, c2, c3) under a key. */
void yokei_philox(struct yokei_philox_key key, const uint32_t counter[4], uint32_t out[4]);
/** A key from a seed and a name (a parameter's, a layer's): independent streams by name. */
struct yokei_philox_key yokei_philox_named(uint64_t seed, const char *name);
/**
 * What is dropped out with probability p under a key of yoke_random_key(): elements whose word is below `threshold`; the others are
 * multiplied with `scale`.
 */
struct yokei_dropout {
    struct yokei_philox_key key;
    uint32_t threshold;
    float scale;
};
struct yokei_dropout yokei_dropout(float p, uint64_t key);
/** Whether an element is kept. Elementwise: (channel, position, sample, 0); attention: (key, query, sample, head). */
bool yokei_dropout_keeps(const struct yokei_dropout *drop, int64_t column, int64_t row, int64_t sample, int64_t head);
/** Uniform in (0, 1), and standard normal (Box-Muller on the pair that holds `index`), of stream `key` at `index`. */
double yokei_uniform(struct yokei_philox_key key, uint64_t index);
double yokei_normal(struct yokei_philox_key key, uint64_t index);

/* ---- turns.c: angles of rotary embeddings as whole numbers of 2^-64 turns ---- */
/** theta^(-2 / D) in units of 2^-64, for theta above 1. */
uint64_t yokei_turns_ratio(double theta, int64_t D);
/** theta^(-2 i / D) / (2 pi): what position 1 turns by, in the same units. The same bits on every device: products are cut to 64 bits. */
uint64_t yokei_turns(uint64_t ratio, int64_t i);
#define YOKEI_TURNS_RADIAN UINT64_C(0x28be60db9391054a) /* 1 / (2 pi) */

/* ---- file.c: reading ---- */
/**
 * The status where a path that a user named cannot be used: `wrong` where the path is the reason (missing, a folder, a loop of links,
 * not permitted, ...), which is YOKE_ECONFIG for what configures (options, plans, schedules, costs, tuning) and YOKE_EDATA for what is
 * worked on (text, tokens, tokenizers, models, checkpoints, records); YOKE_ENOMEM, or YOKE_EIO, where the machine is. docs/FILES.md.
 */
yoke_status yokei_input_status(int error, yoke_status wrong);
/** Open a regular file for reading; never waits, for a pipe without a writer neither. What is no regular file is `wrong`. */
yoke_status yokei_file_open(const char *path, yoke_status wrong, int *fd_out, size_t *bytes_out);
/** Read a whole file (at most `limit` bytes, else `wrong`), with a 0 behind it; `wrong` as above. free() the result. */
yoke_status yokei_file_read_as(const char *path, yoke_status wrong, size_t limit, void **data_out, size_t *bytes_out);
/** The same of Yoke's own files, which no user names: YOKE_EIO. */
yoke_status yokei_file_read(const char *path, size_t limit, void **data_out, size_t *bytes_out);
/** The text of an error number; of EMFILE with the limit. Valid until the thread's next call. */
const char *yokei_why(int error);
/** Whether something has this name: also a link to nothing, and where that cannot be told, so that reading it says why it cannot be read. */
bool yokei_is_there(const char *path);
/** "a folder", "a pipe", "a device", ...: what a file of this st_mode is. */
const char *yokei_file_kind(unsigned mode);
/** Make a folder and its parents (mode 0777 & ~umask). */
yoke_status yokei_make_folder(const char *path);
/** Whether `path` is a folder. */
bool yokei_is_folder(const char *path);
/** XXH3, 64 bits. */
uint64_t yokei_hash(const void *data, size_t bytes, uint64_t seed);

/* ---- output.c: writing. docs/FILES.md has the rules for users ---- */
/**
 * A file on its way to a path that a user named. What is written to the descriptor reaches the path at the commit, whole; where the
 * commit fails, or never comes, what was there before is unchanged, but where it is written in place.
 *  - A regular file is replaced by rename; its permissions stay, its owner too where that is allowed. Links are followed, and stay.
 *  - In a folder where no file can be made, and where a rename is refused, a file that is there is written in place.
 *  - A pipe, a device and an entry of /proc/PID/fd (/dev/stdout) are never replaced: at the commit the data is written to them.
 * Errors: YOKE_EIO, YOKE_ENOMEM.
 */
struct yokei_output;
yoke_status yokei_output_open(const char *path, struct yokei_output **out);
/** The descriptor; it can be read, and it can seek. */
int yokei_output_fd(const struct yokei_output *output);
/** Both end the object. */
yoke_status yokei_output_commit(struct yokei_output *output);
void yokei_output_abandon(struct yokei_output *output);
/** All of it in one call. */
yoke_status yokei_file_write(const char *path, const void *data, size_t bytes);
/** Open a path for writing to it directly; 10 s is waited for the reader of a pipe. -1 with errno. */
int yokei_open_to_write(const char *path, int flags);

/* ---- disk.c: what changes files that must not be lost; each is a place where a test may kill the process or fill the disk ---- */
/** All of the data, or false with errno. Neither SIGXFSZ nor SIGPIPE comes to the process from it. */
bool yokei_write_all(int fd, const void *data, size_t bytes);
/** Give a file all its room now. 0, or the error: ENOSPC on a full disk, EFBIG past the process's limit (without its signal). */
int yokei_file_reserve(int fd, size_t bytes);
/** yokei_write_all, as a place where a test may strike. */
bool yokei_disk_write(int fd, const void *data, size_t bytes);
/** fsync, rename, and unlink or rmdir: 0, or -1 with errno. */
int yokei_disk_sync(int fd);
int yokei_disk_rename(const char *from, const char *to);
int yokei_disk_remove(const char *path);
/** fsync of a folder. YOKE_EIO; file systems that offer none are passed over. */
yoke_status yokei_disk_sync_folder(const char *path);
/**
 * From here to yokei_disk_unwatch the calls above count, over the whole process, and YOKE_SAVE_FAULT says what happens: kill=K
 * kills the process in the Kth, in the middle of its data where it writes; full=K makes the Kth and all writes that follow in that
 * save fail for want of room, full=0 those of every save. The variable is read here.
 */
void yokei_disk_watch(void);
void yokei_disk_unwatch(void);

/* ---- dl.c: libraries found at run time ---- */
struct yokei_symbol { const char *name; void *slot; }; /* slot: address of the function pointer to fill */
/**
 * Open the first of `names` (NULL-terminated) that loads, and resolve all symbols. On failure nothing is kept, and
 * `reason` (of reason_bytes) says which library or symbol is missing. Returns the handle or NULL.
 */
void *yokei_dl_open(const char *const names[], const struct yokei_symbol *symbols, size_t n_symbols, char *reason,
                    size_t reason_bytes);

/* ---- topology.c: cores of this host (hwloc) ---- */
struct yokei_topology {
    int n_cores, n_processing_units; /* that this process may run on */
    int n_packages, n_numa_nodes;
    uint64_t memory_bytes, l2_bytes, l3_bytes;
    char cpu[128];
};
yoke_status yokei_topology(struct yokei_topology *out);
/** Bind the process to slot `index` of `n_slots` equal shares of the cores it may use; `n_cores_out` gets their number. */
yoke_status yokei_bind(int index, int n_slots, int *n_cores_out);
/** The slot's cores, first..end-1 of n_cores: no two slots differ by more than one core, no two cores by more than one slot. */
void yokei_bind_range(int n_cores, int index, int n_slots, int *first_out, int *end_out);
#define YOKEI_UNIT_WORDS 16 /* processing units of a host that are looked at: 1024 */
/** The processing units that this process may run on: bit u of word u / 64. */
yoke_status yokei_bound_units(uint64_t units_out[YOKEI_UNIT_WORDS]);
/** As yokei_bind, of the cores with these units, whatever this process was bound to: all its threads. */
yoke_status yokei_bind_to_units(const uint64_t units[YOKEI_UNIT_WORDS], int index, int n_slots, int *n_cores_out);

/* ---- host.c ---- */
/**
 * A number that processes have in common when they see each other's process numbers: of this boot of this machine and, in a
 * container, of its namespace. YOKE_HOST_ID is mixed in: ranks with different words count as on different hosts.
 */
uint64_t yokei_host_id(void);

/* ---- wait.c: how to wait politely ---- */
enum yokei_wait_policy { YOKEI_WAIT_AUTO, YOKEI_WAIT_SPIN, YOKEI_WAIT_YIELD, YOKEI_WAIT_SLEEP };
struct yokei_wait {
    enum yokei_wait_policy policy; /* resolved: never AUTO */
    uint64_t n_idle;               /* unsuccessful polls since the last progress */
    uint64_t idle_since_ns;
    uint64_t alone_since_ns;       /* since then no yield has let another process run; 0: the last one did */
};
/** AUTO becomes SPIN where every rank of the host has a core of its own, YIELD where not. */
void yokei_wait_init(struct yokei_wait *wait, enum yokei_wait_policy policy, int n_ranks_on_host, int n_cores);
/** After an unsuccessful poll: spin, yield or sleep a little, longer the longer nothing came. */
void yokei_wait_idle(struct yokei_wait *wait);
/** The same, but where it is time to sleep, so many nanoseconds are returned for the caller to sleep by his own means; else 0. */
uint64_t yokei_wait_turn(struct yokei_wait *wait);
/**
 * Whether yielding is of no use: for some microseconds nobody else took the core, though nothing came. Either the peer runs on
 * another core, or it may not run yet because it has had more than its share; then it is time to sleep.
 */
bool yokei_wait_is_alone(const struct yokei_wait *wait);
/** After a successful poll. */
static inline void yokei_wait_progress(struct yokei_wait *wait) { wait->n_idle = 0; }
/** Monotonic time in nanoseconds. */
uint64_t yokei_now_ns(void);
static inline double yokei_seconds_since(uint64_t begun_ns) { return (double)(yokei_now_ns() - begun_ns) * 1e-9; }

/* ---- limits ---- */
/** Descriptors with which devices' drivers, MPI and the launcher's sockets work: the command raises its limit to that, or says what is missing. */
enum { YOKEI_LEAST_DESCRIPTORS = 64 };

/* ---- pocl.c ---- */
/** Where PoCL keeps its programs, by the variables that it reads; and 0, or the errno why it cannot make that folder: then it has no devices. */
int yokei_pocl_cache(char *folder_out, size_t bytes);
/**
 * Where that is so, and POCL_CACHE_DIR is not set, set it to a folder of this user's own in $TMPDIR, which stays. For programs that have
 * no other thread yet. False: nothing was changed.
 */
bool yokei_pocl_cache_elsewhere(void);

/* ---- text.c ---- */
/** snprintf that always terminates and cuts silently; for names and reasons of fixed size. */
void yokei_text(char *target, size_t bytes, const char *format, ...) YOKE_PRINTF(3, 4);
/** Edit distance, for "did you mean": the entry of `names` (NULL-terminated) nearest to `word`, or NULL when none is near. */
const char *yokei_nearest(const char *word, const char *const names[]);

/* ---- live.c: what is in use, so that what is given back twice, or was never given, is refused without being touched ---- */
struct yokei_live {
    pthread_mutex_t lock;
    void *tree; /* of <search.h> */
};
#define YOKEI_LIVE_INIT { PTHREAD_MUTEX_INITIALIZER, NULL }
enum yokei_live_answer { YOKEI_LIVE_NOT, YOKEI_LIVE_INSIDE, YOKEI_LIVE_IS };
/** From any thread; O(log n). YOKE_ENOMEM; YOKE_EINVAL where the range overlaps one of the list. An empty range takes one byte. */
yoke_status yokei_live_add(struct yokei_live *live, const void *address, size_t bytes);
/**
 * Take the range that begins at `address` out: IS for one caller, whoever else tries. INSIDE: it lies in another, which stays; where that
 * begins and how long it is go to begin_out and bytes_out (both may be NULL).
 */
enum yokei_live_answer yokei_live_remove(struct yokei_live *live, const void *address, const void **begin_out, size_t *bytes_out);
/** Whether a range begins at `address`. */
bool yokei_live_has(struct yokei_live *live, const void *address);
/** The process's objects: devices, streams, events, models, trainers. A new object may have the address of one that was destroyed. */
extern struct yokei_live yokei_objects;
/** Take an object out of that list before it is destroyed; YOKE_EINVAL, which names the call, where it is not in it. */
yoke_status yokei_object_leaves(const char *call, const char *what, const void *object);

/* ---- core/eager.c ---- */
struct yoke_device;
/** Whether the device's streams run what they are given at once, on the calling thread (host, reference). */
bool yokei_is_eager(const struct yoke_device *device);
struct yoke_event;
/** When an event of such a device was completed, by yokei_now_ns; 0: it is not. */
uint64_t yokei_eager_event_ns(const struct yoke_event *event);

#endif
