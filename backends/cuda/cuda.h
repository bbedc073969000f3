/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The CUDA driver: the declarations that its files share. libcuda, libnvrtc and libcublasLt are opened at run
 * time, and no symbol of them is linked.
 */
#ifndef BACKENDS_CUDA_CUDA_H
#define BACKENDS_CUDA_CUDA_H

#include "backends/cuda/api.h"
#include "backends/cuda/cublaslt_api.h"
#include "backends/gpu/driver.h"
#include "backends/gpu/staging.h"

/* ---- library.c: libcuda.so.1 ---- */
struct cuda_library {
#define CUDA_SLOT(result, name, parameters) result(*name) parameters;
    YOKEI_CUDA_FUNCTIONS(CUDA_SLOT)
    int version;     /* the newest CUDA version that the driver knows: 13000 is 13.0 */
    char path[1024]; /* the name under which the library was opened */
    bool emulated;   /* Yoke's own stand-in, which executes PTX on the CPU (YOKE_EMULATE) */
    YOKEI_CUDA_NEWER_FUNCTIONS(CUDA_SLOT) /* NULL in older drivers */
    /* The stand-in's text about the last fault of a kernel. NULL in NVIDIA's library. */
    const char *(*last_fault)(void);
    /*
     * The stand-in's counts of the kernels of this name (NULL: all). Returns the launches. The result has the
     * members of struct yokei_counts behind the first. NULL in NVIDIA's library.
     */
    uint64_t (*counts)(const char *kernel, uint64_t counts_out[10]);
    /* The number of calls of the driver, which the stand-in counts. NULL in NVIDIA's library. */
    uint64_t (*calls)(void);
    /* The stand-in's functions for what memory may be used for. NULL in NVIDIA's library. */
    struct cuda_annotations {
        int (*annotate)(uint64_t address, size_t bytes, int state);
        int (*annotate_async)(uint64_t address, size_t bytes, int state, CUstream stream);
        int (*begin)(uint64_t address, size_t bytes, int streams, const char *name, CUstream stream);
        int (*end)(uint64_t address, size_t bytes, CUstream stream);
        int (*name)(uint64_t address, size_t bytes, const char *name);
        int (*stack_depth)(void);
        void (*leak)(const char *text);
    } say;
};
/**
 * The driver, which is opened and initialised once per process. NULL if there is none. `reason` then has one
 * line with the cause and what the user can do. A process that was forked after the driver was initialised
 * cannot use CUDA, and also gets NULL.
 */
const struct cuda_library *yokei_cuda_library(char *reason, size_t bytes);
/** Whether this process was forked from one that had initialised the driver. */
bool yokei_cuda_is_forked(void);
/** The text of YOKE_EMULATE behind "cuda:", such as "9.0", or NULL if CUDA is not emulated. */
const char *yokei_cuda_emulation(void);
/** The file that yokei_cuda_library opens: "libcuda.so.1", or the path of the stand-in. */
void yokei_cuda_driver_file(char *path, size_t bytes);
/** The line that explains why cuInit or cuDeviceGetCount failed on this machine. */
void yokei_cuda_explain(CUresult error, char *reason, size_t bytes);

/* ---- folders.c: where the toolkit's libraries are ---- */
/**
 * The folders in which NVRTC and cuBLASLt are looked for, in order. "" is the loader's own path. Returns
 * their number. Each entry is allocated with malloc. The caller frees the entries.
 */
int yokei_cuda_folders(char *folders[], int capacity);
/** A name of a library, and the major version of CUDA that it stands for. */
struct cuda_file {
    const char *name;
    int major;
};
/** Open the library `name` in `folder` ("": by the loader). If this fails, `why` says why. */
typedef bool cuda_open_file(const char *folder, const char *name, char *why, size_t bytes);
/**
 * Open the library `name` in `folder` ("": by the loader), and resolve all symbols. Writes its path. NULL on
 * failure, and then `why` says why.
 */
void *yokei_cuda_open_file(const char *folder, const char *name, char path[1024],
                           const struct yokei_symbol *symbols, size_t n_symbols, char *why, size_t bytes);
/**
 * Call `open` for the files in all folders until one succeeds. The files begin with the newest. Those whose
 * major version the driver knows come first. If none opens, `why` says why the most telling one failed.
 */
bool yokei_cuda_open_newest(const struct cuda_file files[], int n_files, int driver_major,
                            cuda_open_file *open, char *why, size_t bytes);

/* ---- nvrtc.c: the compiler ---- */
#define CUDA_MAX_ARCHITECTURES 64
struct cuda_nvrtc {
#define NVRTC_SLOT(result, name, parameters) result(*name) parameters;
    YOKEI_NVRTC_FUNCTIONS(NVRTC_SLOT)
    int major, minor;
    char path[1024];
    int n_architectures, architectures[CUDA_MAX_ARCHITECTURES]; /* 75, 80, ..., as NVRTC lists them */
};
/**
 * NVRTC, which is opened once per process. If YOKE_NVRTC is set, it names the library, and "off" means none.
 * Otherwise the newest installed version is taken whose major version the driver (`driver_version`) knows, or
 * else the newest of all. NULL if there is none, with the cause and the fix in `reason`.
 */
const struct cuda_nvrtc *yokei_cuda_nvrtc(int driver_version, char *reason, size_t bytes);
/**
 * The package that `pip install` gets to have an NVRTC that is not newer than CUDA `version` (12040 is 12.4),
 * in quotes for the shell. Returns `text`.
 */
const char *yokei_cuda_nvrtc_package(int version, char text[48]);
/**
 * The architecture option for a device of compute capability `cc` (90 is 9.0), such as
 * "--gpu-architecture=sm_90". If NVRTC does not know the device, the option is compute_ and the highest
 * architecture below it. Returns false if NVRTC supports only newer devices.
 */
bool yokei_cuda_architecture(const struct cuda_nvrtc *nvrtc, int cc, bool ptx_only, char *option,
                             size_t bytes);

/* ---- cublaslt.c: the library of matrix products ---- */
struct cuda_cublaslt {
#define CUBLASLT_SLOT(result, name, parameters) result(*name) parameters;
    YOKEI_CUBLASLT_FUNCTIONS(CUBLASLT_SLOT)
    char version_text[24]; /* "13.1.0" */
    char path[1024];
};
/**
 * cuBLASLt, which is opened once per process. Its version is chosen as that of NVRTC. If the driver is the
 * stand-in, only the stand-in's own cuBLASLt is taken. NULL if there is none, with the reason.
 */
const struct cuda_cublaslt *yokei_cuda_cublaslt(const struct cuda_library *cu, char *reason, size_t bytes);
/**
 * Make the handle of an opened device, or write to dev->lt_reason why matrix products are Yoke's own. The
 * context is current. This function never fails, because a device works without the library.
 */
void yokei_cuda_cublaslt_attach(yoke_device *device);
/** Release the handle and what belongs to it. The context is current, unless it is lost (`entered` false). */
void yokei_cuda_cublaslt_detach(yoke_device *device, bool entered);
/** For `yoke info`: the library, its version and its file, or why there is none. */
void yokei_cuda_cublaslt_text(const yoke_device *device, char *text, size_t bytes);

/* ---- products.c: the products of cuBLASLt ---- */
struct cuda_device;
struct cuda_products; /* the algorithms that were chosen, by product */
struct cuda_products *yokei_cuda_products_create(void);
void yokei_cuda_products_destroy(const struct cuda_cublaslt *lt, struct cuda_products *products);
extern const struct yokei_gpu_products yokei_cuda_products;
/** The slots products_used and product_set of struct yoke_device_extras. */
void yokei_cuda_products_used(const yoke_device *device, yokei_product_function *each, void *context);
yoke_status yokei_cuda_product_set(yoke_device *device, const char *product, const char *algorithm);

/* ---- bias.c: where an algorithm of cuBLASLt rounds ---- */
struct cuda_algorithm;
/**
 * Try whether an algorithm adds an f32 bias to a 16-bit product in f32, before the only rounding. NULL if so,
 * else the reason why Yoke does not use its epilogue. The context is current. The call waits for the trial.
 */
const char *yokei_cuda_bias_refused(const struct cuda_device *dev, yoke_dtype dtype, bool trans_a,
                                    bool trans_b, const struct cuda_algorithm *fields);

/* ---- algorithm.c: the fields of an algorithm of cuBLASLt ---- */
/** Everything that describes an algorithm. The numbers are those of NVIDIA's enumerations. */
struct cuda_algorithm {
    uint32_t algo, tile, stages, splitk, reduction, swizzle, custom, inner, cluster;
};
/** Write the fields as "algo=1,tile=2,...". yokei_cuda_algorithm_parse reads this form, in this order. */
void yokei_cuda_algorithm_text(const struct cuda_algorithm *fields, char *text, size_t bytes);
bool yokei_cuda_algorithm_parse(const char *text, struct cuda_algorithm *fields_out);
/** The fields of an algorithm of the library. */
cublasStatus_t yokei_cuda_algorithm_read(const struct cuda_cublaslt *lt, const cublasLtMatmulAlgo_t *algo,
                                         struct cuda_algorithm *fields_out);
/** The algorithm that has these fields, for products of this type. The library has not checked it yet. */
cublasStatus_t yokei_cuda_algorithm_make(const struct cuda_cublaslt *lt, cublasLtHandle_t handle,
                                         const struct cuda_algorithm *fields, cudaDataType_t in,
                                         cudaDataType_t out, cublasLtMatmulAlgo_t *algo_out);
/** The implementations that keep Yoke's contract for inputs of this type: CUBLASLT_NUMERICAL_IMPL_FLAGS_*. */
uint64_t yokei_cuda_algorithm_flags(yoke_dtype dtype);
/**
 * NULL if an algorithm computes as docs/NUMERICS.md says: sums in f32, partial sums in f32, the same bits in
 * every run. Otherwise the reason why Yoke does not use it.
 */
const char *yokei_cuda_algorithm_refused(const struct cuda_cublaslt *lt, const cublasLtMatmulAlgo_t *algo,
                                         const struct cuda_algorithm *fields, yoke_dtype dtype);

/* ---- preset.c: algorithms that a caller has chosen for single products ---- */
struct cuda_preset;
/** Put an algorithm in front of the list. The caller frees the list with yokei_cuda_presets_free. */
yoke_status yokei_cuda_preset_add(const yoke_device *device, struct cuda_preset **list, const char *product,
                                  const char *algorithm);
/** The algorithm that was chosen last for this product, or NULL. */
const struct cuda_algorithm *yokei_cuda_preset_of(const struct cuda_preset *list, const char *product);
void yokei_cuda_presets_free(struct cuda_preset *list);

/* ---- compile.c: programs, and the kinds of binaries ---- */
/**
 * What decides a program's binary besides the program and its maker: the options of the compiler in
 * compile.c. Change the number when these options change.
 */
#define CUDA_IDENTITY "cuda|2"
/** The slots compile, maker and suits of struct yokei_gpu_driver. */
yoke_status yokei_cuda_compile(const yoke_device *device, const struct yokei_gpu_source *source,
                               void **blob_out, size_t *bytes_out);
void yokei_cuda_maker(const yoke_device *device, char *text, size_t bytes);
int yokei_cuda_suits(const yoke_device *device, const char *text);
/** Whether binaries of this maker run on devices of compute capability *cc, an int. */
bool yokei_cuda_maker_runs(const void *cc, const char *text);

/* ---- ahead.c: yoke compile ---- */
/** The slot ahead of struct yoke_device_extras: `target` is an architecture, such as "sm_90". */
yoke_status yokei_cuda_ahead(yoke_device *device, const char *target, struct yokei_ahead *ahead);

/* ---- the objects ---- */

/**
 * Pinned host memory in pieces: words of four bytes, which queues write, and slots of
 * YOKEI_GPU_SLOT_BYTES, through which a stream copies pageable memory.
 */
enum cuda_pinned { CUDA_WORDS, CUDA_SLOTS, CUDA_N_PINNED };
struct cuda_piece {
    void *host;     /* NULL: no piece */
    CUdeviceptr at; /* the device's address of the same memory */
};
struct cuda_block; /* of pieces, in pinned.c */
struct cuda_pin;   /* memory of a caller that is page-locked, in pinned.c */
static inline _Atomic uint32_t *cuda_word(struct cuda_piece piece) { return piece.host; }

struct cuda_device {
    struct yokei_gpu_device gpu;    /* the first member, see driver.h */
    const struct cuda_library *cu;  /* NULL if the device only compiles */
    const struct cuda_nvrtc *nvrtc; /* NULL: there is none, and all programs come from the cache */
    const struct cuda_cublaslt *lt; /* NULL: gpu.products is NULL too, and lt_reason says why */
    cublasLtHandle_t lt_handle;
    struct cuda_products *products;
    char lt_reason[YOKE_REASON_BYTES];
    char f32_reason[256]; /* why the library may not multiply f32; "": it may */
    CUdevice id;
    CUcontext context;
    bool is_foreign;           /* the caller owns the context */
    bool ptx_only;             /* nothing executes machine code, because the driver is the stand-in */
    int cc;                    /* compute capability: 90 is 9.0 */
    struct yokei_live owned;   /* allocations of cuMemAlloc */
    struct yokei_live foreign; /* addresses from yoke_buffer_wrap */
    atomic_bool said_ptx;      /* the line about PTX instead of machine code was logged */
    pthread_mutex_t lock;      /* protects the fields below */
    struct cuda_block *pinned[CUDA_N_PINNED];
    struct cuda_pin *pins;
    struct cuda_stream *streams; /* all streams of the device */
    char dead[1024];             /* the error that made the context unusable; "" while it is usable */
    atomic_bool no_value_writes; /* the driver has no value operations for this device */
    uint32_t mark_every;         /* a queue writes its progress behind so many groups of commands */
    uint64_t serial;             /* another number for each device that this process opens; not 0 */
    atomic_bool is_dead;
};
static inline struct cuda_device *cuda_device(const yoke_device *device) { return device->impl; }

/* The most groups of commands of a stream that are followed. */
#define CUDA_FOLLOWED 4096
/* A queue writes its progress behind so many groups of commands, and before the host waits for it. */
#define CUDA_MARK_EVERY 8

struct cuda_stream {
    struct cuda_stream *next; /* in the device's list */
    CUstream queue;
    bool is_foreign; /* the caller created the queue */
    CUevent synced;  /* for waits of the host; it has CU_EVENT_BLOCKING_SYNC */
    /* For copies of pageable memory: see backends/gpu/staging.h. host_queue and marks are NULL before the
       first long copy. */
    struct cuda_piece slot[YOKEI_GPU_SLOTS];
    struct yokei_gpu_staging staging;
    CUstream host_queue;
    CUevent marks[YOKEI_GPU_MARKS];
    /*
     * Commands in a row that belong to one op form a group. Group g is ops[g % CUDA_FOLLOWED]. Behind each
     * dev->mark_every groups the queue writes the number of the last one to `done`. So after an error, which
     * makes all calls fail, the host still sees which few ops had not ended.
     */
    struct cuda_piece done;
    _Atomic uint32_t group; /* the newest group */
    uint32_t marked;        /* the newest group whose write to `done` was issued */
    uint32_t recorded;      /* the newest group behind which an event stands; it gets no more commands */
    _Atomic uint32_t ended; /* the newest group that an event has shown to have ended */
    uint64_t serial;        /* another number for each stream of the process */
    _Atomic(const char *) ops[CUDA_FOLLOWED];
};
static inline struct cuda_stream *cuda_stream(const yoke_stream *stream) { return stream->impl; }

/** The later one of two numbers of groups, which may have wrapped around. */
static inline uint32_t cuda_later(uint32_t a, uint32_t b) { return (int32_t)(a - b) > 0 ? a : b; }

/* ---- context.c ---- */
/**
 * Make the device's context current on this thread. Fails if the device is dead. Each call that succeeds is
 * followed by yokei_cuda_leave on the same thread.
 */
yoke_status yokei_cuda_enter(const yoke_device *device);
void yokei_cuda_leave(const yoke_device *device);
/** The device closes: on a thread where its context was left current, no context is current any more. */
void yokei_cuda_forget(const yoke_device *device);

/* ---- error.c ---- */
/** The name of an error by the driver: "CUDA_ERROR_OUT_OF_MEMORY", and its number if it has no name. */
const char *yokei_cuda_error_name(const struct cuda_library *cu, CUresult error);
/**
 * Record that `call` failed, with the status that fits the error. If the error is one after which the context
 * is unusable, the text names the op that had not ended, and the device is dead from then on.
 */
yoke_status yokei_cuda_fail(const yoke_device *device, const char *call, CUresult error);
/** Whether no call on a context succeeds any more after this error. */
bool yokei_cuda_is_fatal(CUresult error);

/* ---- pinned.c ---- */
yoke_status yokei_cuda_pinned_create(yoke_device *device);
void yokei_cuda_pinned_destroy(yoke_device *device);
/**
 * Take a piece. A word keeps the value that its last owner left. The context is current. While a piece is
 * free, this function does not wait for the device.
 */
yoke_status yokei_cuda_pinned_take(yoke_device *device, enum cuda_pinned kind, struct cuda_piece *piece_out);
void yokei_cuda_pinned_give(yoke_device *device, enum cuda_pinned kind, struct cuda_piece piece);

/** Page-lock memory of the caller, or undo it: the slots pin and unpin of struct yoke_device_extras. */
yoke_status yokei_cuda_pin(yoke_device *device, void *memory, size_t bytes);
void yokei_cuda_unpin(yoke_device *device, void *memory);
/** Whether all of this memory lies in memory that yokei_cuda_pin has page-locked. */
bool yokei_cuda_has_pin(struct cuda_device *dev, const void *memory, size_t bytes);

/* ---- copy.c: copies and fills ---- */
/** Take the slots of a new stream, and give back all that its copies use. The context is current. */
yoke_status yokei_cuda_copies_begin(yoke_device *device, struct cuda_stream *s);
void yokei_cuda_copies_end(yoke_device *device, struct cuda_stream *s);
/** The queue of the driver behind whose work all work of the stream is done. The context is current. */
yoke_status yokei_cuda_end(yoke_stream *stream, CUstream *queue_out);
yoke_status yokei_cuda_copy(yoke_stream *stream, enum yoke_copy_kind kind, void *target, const void *source,
                            size_t bytes);
yoke_status yokei_cuda_fill(yoke_stream *stream, void *target, uint8_t byte, size_t bytes);

/* ---- groups.c: which op the commands of a queue belong to ---- */
/** Call this before a command of yokei_stream_op is issued. The context is current. */
yoke_status yokei_cuda_command(yoke_stream *stream);
/** Let the queue write the newest group to `done` behind the work that it has so far. */
yoke_status yokei_cuda_mark(yoke_stream *stream);
/** CUDA_MARK_EVERY, or 1 if the user asks by CUDA_LAUNCH_BLOCKING for exact errors. */
uint32_t yokei_cuda_mark_every(void);
/** The groups of this stream up to `group` have ended. Nothing happens if the stream was destroyed. */
void yokei_cuda_ended(yoke_device *device, uint64_t stream_serial, uint32_t group);

/* ---- memory.c, stream.c, event.c, program.c ---- */
extern const struct yoke_memory_ops yokei_cuda_memory_ops;
extern const struct yoke_stream_ops yokei_cuda_stream_ops;
extern const struct yoke_event_ops yokei_cuda_event_ops;
yoke_status yokei_cuda_annotate(yoke_device *device, yoke_stream *stream,
                                const struct yokei_annotation *note);
extern const struct yokei_gpu_driver yokei_cuda_driver;

#endif
