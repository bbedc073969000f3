/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The CUDA driver: the declarations that its files share. libcuda and libnvrtc are opened at run time, and no
 * symbol of them is linked.
 */
#ifndef BACKENDS_CUDA_CUDA_H
#define BACKENDS_CUDA_CUDA_H

#include "backends/cuda/api.h"
#include "backends/gpu/driver.h"

/* ---- library.c: libcuda.so.1 ---- */
struct cuda_library {
#define CUDA_SLOT(result, name, parameters) result(*name) parameters;
    YOKEI_CUDA_FUNCTIONS(CUDA_SLOT)
    int version;     /* the newest CUDA version that the driver knows: 13000 is 13.0 */
    char path[1024]; /* the name under which the library was opened */
    bool emulated;   /* Yoke's own stand-in, which executes PTX on the CPU (YOKE_EMULATE) */
    /* The stand-in's text about the last fault of a kernel. NULL in NVIDIA's library. */
    const char *(*last_fault)(void);
    /* The stand-in's functions for what memory may be used for. NULL in NVIDIA's library. */
    struct cuda_annotations {
        int (*annotate)(uint64_t address, size_t bytes, int state);
        int (*annotate_async)(uint64_t address, size_t bytes, int state, CUstream stream);
        int (*begin)(uint64_t address, size_t bytes, int streams, const char *name, CUstream stream);
        int (*end)(uint64_t address, size_t bytes, CUstream stream);
        int (*name)(uint64_t address, size_t bytes, const char *name);
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
 * NVRTC, which is opened once per process. Of the versions that are installed, the newest one whose major
 * version the driver (`driver_version`) knows is taken, else the newest of all. NULL if there is none, with
 * the cause and the fix in `reason`.
 */
const struct cuda_nvrtc *yokei_cuda_nvrtc(int driver_version, char *reason, size_t bytes);
/**
 * The folders in which NVRTC is looked for, in order. "" is the loader's own path. Returns their number. Each
 * entry is allocated with malloc. The caller frees the entries.
 */
int yokei_cuda_nvrtc_folders(char *folders[], int capacity);
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

/* ---- the objects ---- */

/** Four bytes of pinned host memory that streams of the device can write and wait for. */
struct cuda_word {
    _Atomic uint32_t *host;
    CUdeviceptr at; /* the device's address of the same word */
};
struct cuda_words; /* blocks of words, in words.c */

struct cuda_device {
    struct yokei_gpu_device gpu; /* the first member, see driver.h */
    const struct cuda_library *cu;
    const struct cuda_nvrtc *nvrtc;
    CUdevice id;
    CUcontext context;
    bool is_foreign;           /* the caller owns the context */
    bool ptx_only;             /* nothing executes machine code, because the driver is the stand-in */
    int cc;                    /* compute capability: 90 is 9.0 */
    int64_t most_groups[3];    /* largest grid */
    struct yokei_live owned;   /* allocations of cuMemAlloc */
    struct yokei_live foreign; /* addresses from yoke_buffer_wrap */
    atomic_bool said_ptx;      /* the line about PTX instead of machine code was logged */
    pthread_mutex_t lock;      /* protects the fields below */
    struct cuda_words *words;
    struct cuda_stream *streams; /* all streams of the device */
    char dead[1024];             /* the error that made the context unusable; "" while it is usable */
    atomic_bool is_dead;
};
static inline struct cuda_device *cuda_device(const yoke_device *device) { return device->impl; }

/* The most groups of commands of a stream that are followed. */
#define CUDA_FOLLOWED 4096

struct cuda_stream {
    struct cuda_stream *next; /* in the device's list */
    CUstream queue;
    bool is_foreign; /* the caller created the queue */
    CUevent synced;  /* for waits of the host; it has CU_EVENT_BLOCKING_SYNC */
    void *slot;      /* pinned memory for staged copies */
    /*
     * Commands in a row that belong to one op form a group. Group g is ops[g % CUDA_FOLLOWED]. Behind each
     * group the queue writes g to `done`. So after an error, which makes all calls fail, the host still sees
     * which op had not ended.
     */
    struct cuda_word done;
    _Atomic uint32_t group; /* the newest group; it was not written to `done` yet unless `marked` is true */
    bool marked;
    _Atomic(const char *) ops[CUDA_FOLLOWED];
};
static inline struct cuda_stream *cuda_stream(const yoke_stream *stream) { return stream->impl; }

/* ---- device.c ---- */
/**
 * Make the device's context current on this thread. Fails if the device is dead. Each call that succeeds is
 * followed by yokei_cuda_leave on the same thread.
 */
yoke_status yokei_cuda_enter(const yoke_device *device);
void yokei_cuda_leave(const yoke_device *device);

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

/* ---- words.c ---- */
yoke_status yokei_cuda_words_create(yoke_device *device);
void yokei_cuda_words_destroy(yoke_device *device);
/** Take a word. It keeps the value that its last owner left. The context is current. */
yoke_status yokei_cuda_word_take(yoke_device *device, struct cuda_word *word_out);
void yokei_cuda_word_give(yoke_device *device, struct cuda_word word);

/* ---- stream.c ---- */
extern const struct yoke_stream_ops yokei_cuda_stream_ops;
/** Call this before a command of stream->last_op is issued. The context is current. */
yoke_status yokei_cuda_command(yoke_stream *stream);
/** Let the queue write the newest group to `done` behind the work that it has so far. */
yoke_status yokei_cuda_mark(yoke_stream *stream);

/* ---- memory.c, event.c, program.c ---- */
extern const struct yoke_memory_ops yokei_cuda_memory_ops;
yoke_status yokei_cuda_event_create(yoke_event *event);
void yokei_cuda_event_destroy(yoke_event *event);
yoke_status yokei_cuda_event_record(yoke_event *event, yoke_stream *stream);
yoke_status yokei_cuda_event_arm(yoke_event *event);
yoke_status yokei_cuda_event_signal(yoke_event *event);
yoke_status yokei_cuda_event_query(yoke_event *event, bool *complete_out);
yoke_status yokei_cuda_event_wait(yoke_stream *stream, yoke_event *event);
extern const struct yokei_gpu_driver yokei_cuda_driver;

#endif
