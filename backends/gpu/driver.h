/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The interface of a kernel-launching driver (OpenCL, CUDA, HIP), and the services that the shared code in
 * this folder builds on it.
 *
 * A driver folder provides a `const struct yoke_backend` and one struct yokei_gpu_driver, which compiles
 * programs, looks up kernels, and launches them. The op tables of the backend are those of families.h. The
 * tables for devices, memory and streams (copies, fills, events, addresses: see core/backend.h) are the
 * driver's own. device->impl begins with a struct yokei_gpu_device, which `open` fills.
 *
 * Yoke's kernels (*.yk) are written once, in a dialect of C. A prelude of macros makes the dialect valid
 * OpenCL C, CUDA or HIP.
 */
#ifndef BACKENDS_GPU_DRIVER_H
#define BACKENDS_GPU_DRIVER_H

#include <pthread.h>

#include "core/backend.h"
#include "core/base/base.h"

/** The language as which the dialect is compiled. It decides which prelude is used. */
enum yokei_gpu_language { YOKEI_GPU_OPENCL, YOKEI_GPU_CUDA, YOKEI_GPU_HIP };

/**
 * A program before compilation. The compiler gets the options, the prelude and the text, in this order. All
 * are NUL-terminated.
 */
struct yokei_gpu_source {
    /* "norm", for messages; the text's #line directive names backends/gpu/kernels/norm.yk */
    const char *name;
    const char *prelude; /* the prelude of the language, then common.yk; it comes behind the options */
    const char *options; /* lines with "#define", one per option */
    const char *text;    /* the .yk file, behind a #line directive */
};

/** One kernel argument: a device address, or a scalar of 4 or 8 bytes. */
enum yokei_gpu_arg_kind { YOKEI_GPU_POINTER, YOKEI_GPU_4_BYTES, YOKEI_GPU_8_BYTES };
struct yokei_gpu_arg {
    enum yokei_gpu_arg_kind kind;
    union {
        const void *pointer; /* a device address, anywhere inside an allocation, or NULL */
        int32_t i32;
        float f32;
        int64_t i64;
    } value;
};

/** The most arguments that a kernel may have. */
#define YOKEI_GPU_MAX_ARGS 40

/** The size of a launch: x, y and z groups, each of `group` work-items (threads). */
struct yokei_gpu_grid {
    int64_t groups[3];
    int group;
};

/**
 * The driver. Programs and kernels are opaque objects of the driver. Any thread may call any of these
 * functions. When `launch` is called, the kernel's lock is held, so arguments that are set on a kernel object
 * belong to one launch. If core can hold back streams of the device (core/held.h),
 * `launch` is also called without this lock. The driver of such a device must pass the arguments with the
 * launch.
 */
struct yokei_gpu_driver {
    const char *name; /* "opencl" */
    /* What compiles programs ahead of time, such as "NVRTC". NULL if nothing does. */
    const char *compiler;
    enum yokei_gpu_language language;

    /* Compile a program. If this fails, the error text contains the compiler's log (YOKE_ECOMPILE). */
    yoke_status (*build)(yoke_device *device, const struct yokei_gpu_source *source, void **program_out);
    /*
     * Make a program from a binary that `binary` returned, in this or an earlier process. Fails with
     * YOKE_EDATA if the vendor's library says that the bytes are no program. Fails with YOKE_EUNSUPPORTED if
     * they are a program that this device or this driver does not take. All other errors say nothing about
     * the binary.
     */
    yoke_status (*load)(yoke_device *device, const void *binary, size_t bytes, void **program_out);
    /*
     * Get the program's binary, allocated with malloc. A driver that has no binaries returns NULL and 0
     * bytes, and then nothing is cached.
     */
    yoke_status (*binary)(yoke_device *device, void *program, void **binary_out, size_t *bytes_out);
    void (*release)(yoke_device *device, void *program);
    yoke_status (*kernel)(yoke_device *device, void *program, const char *name, void **kernel_out);
    void (*release_kernel)(yoke_device *device, void *kernel);
    yoke_status (*launch)(yoke_stream *stream, void *kernel, const struct yokei_gpu_grid *grid,
                          const struct yokei_gpu_arg *args, int n_args);
    /*
     * Whether these arguments need programs that take (buffer, offset) pairs for addresses (YK_OFFSETS).
     * NULL: never.
     */
    bool (*offsets)(const yoke_device *device, const struct yokei_gpu_arg *args, int n_args);
    /*
     * Whether commands of the stream may wait for an event that the host has not signalled yet. NULL for a
     * driver without late_binaries.
     */
    bool (*awaits_host)(yoke_stream *stream);

    /*
     * The next three are NULL for a driver whose binaries run only on the very device and driver that made
     * them. The identity in struct yokei_gpu_device then names both.
     *
     * Write what this device's own compiler makes, such as "sm_90-nvrtc13.0", or "" if it has no compiler.
     * The text is a part of a file name.
     */
    void (*maker)(const yoke_device *device, char *text, size_t bytes);
    /*
     * How well binaries of this maker suit the device. 0: they do not run, or the device's own compiler makes
     * better ones. A binary with a greater number is tried before the others.
     */
    int (*suits)(const yoke_device *device, const char *maker);
    /* Compile a program without loading it. The binary is allocated with malloc. */
    yoke_status (*compile)(const yoke_device *device, const struct yokei_gpu_source *source,
                           void **binary_out, size_t *bytes_out);
    /*
     * For a driver with `compile` whose build, load, binary and release are those of module.h: load what
     * `compile` made onto the device, and unload it.
     */
    yoke_status (*open_module)(yoke_device *device, const void *binary, size_t bytes, void **handle_out);
    void (*close_module)(yoke_device *device, void *handle);
};

struct yokei_gpu_programs; /* the table of compiled programs, in programs.c */

/** How the library multiplies a product. Only the driver uses `index` and `serial`. */
struct yokei_gpu_product {
    size_t workspace_bytes;
    int index;
    uint64_t serial;
};

/**
 * A vendor's library of matrix products, such as cuBLASLt. gemm_library.c calls it with products whose
 * epilogue is YOKE_EPILOGUE_NONE, or YOKE_EPILOGUE_BIAS unless adds_no_bias is set. M, N and K are not 0.
 * `variant` is an index of `names`, and `detail` stands behind the variant's name ("": nothing).
 */
struct yokei_gpu_products {
    const char *const *names; /* the variants of gemm, ended by NULL */
    bool adds_no_bias;        /* the library has no product with a bias, so Yoke's kernel adds it */
    /*
     * Find how the product runs. YOKE_EUNSUPPORTED, with the reason, if the library does not run it. NULL
     * pointers count as aligned.
     */
    yoke_status (*find)(const yoke_device *device, const struct yoke_gemm_args *args, int variant,
                        const char *detail, struct yokei_gpu_product *product_out);
    /*
     * Run a product as `find` has found for the same arguments. Other addresses are allowed if they have the
     * same alignment.
     */
    yoke_status (*run)(yoke_stream *stream, const struct yoke_gemm_args *args, int variant,
                       const char *detail, const struct yokei_gpu_product *product, void *workspace);
    bool (*detail)(const char *detail);
    /* The algorithm of the last call of `find` or `run` that succeeded, in the form of a detail. */
    void (*algorithm)(const yoke_device *device, char *text, size_t bytes);
};

/**
 * The shared part of every kernel-launching device. It is the first member of the struct that device->impl
 * points to.
 */
struct yokei_gpu_device {
    const struct yokei_gpu_driver *driver;
    /*
     * work-items run one after the other on a core, so a team (work-items that share a row) has one lane with
     * wide vectors
     */
    bool is_cpu;
    /* the vector width, in floats, that the device prefers; it decides which register tile fits */
    int vector_floats;
    int warp; /* number of lanes that can shuffle; 1: the lanes of a team exchange data in local memory */
    int compute_units;
    int max_group;          /* most work-items of a group */
    int64_t most_groups[3]; /* the largest grid; 0: without a limit */
    int64_t most_threads;   /* most work-items along x, of all groups; 0: without a limit */
    size_t local_bytes;     /* bytes of local (shared) memory of a group */
    /*
     * a part of the cache's key: all that decides what a program becomes, except the program itself and its
     * maker. It has the versions of device, driver, platform and compiler if the driver has no makers.
     */
    char identity[768];
    /* Why programs cannot be compiled here, and the fix. "": they can be compiled. */
    char no_compiler[YOKE_REASON_BYTES];
    char ahead[48]; /* how `yoke compile --device` calls devices of this kind, such as "cuda:sm_90" */
    /*
     * The driver reserves the private memory of a kernel for all work-items that can run at a time. Kernels
     * whose work-items have large private arrays then take gigabytes of the device, and are not offered.
     */
    bool reserves_private;
    /* Has the matrix units of prelude/mma.yk, which multiply squares of 16 x 16 elements of f16 or bf16. */
    bool multiplies_squares;
    /* Matrix units take subnormal f16 numbers for zeros (AMD's MI200). */
    bool flushes_f16;
    /* Kernels are compiled at their first launch, so a binary is complete only when the device closes. */
    bool late_binaries;
    atomic_bool said_not_cached; /* the line about programs that cannot be written to the cache was logged */
    struct yokei_gpu_programs *programs;
    const struct yokei_gpu_products *products; /* NULL: no library multiplies matrices */
};

static inline struct yokei_gpu_device *yokei_gpu(const yoke_device *device) { return device->impl; }

/**
 * A driver's `open` calls yokei_gpu_programs_create after it has filled the fields above. Its `close` calls
 * yokei_gpu_programs_destroy.
 */
yoke_status yokei_gpu_programs_create(yoke_device *device);
void yokei_gpu_programs_destroy(yoke_device *device);

/** The functions for the driver's slots in struct yoke_device_ops and struct yoke_device_extras. */
const char *yokei_gpu_variant_name(const yoke_device *device, enum yoke_op_id op, int index);
unsigned yokei_gpu_variant_facts(const yoke_device *device, enum yoke_op_id op, int index);
bool yokei_gpu_variant_detail(const yoke_device *device, enum yoke_op_id op, int index, const char *detail);
void yokei_gpu_algorithm(const yoke_device *device, enum yoke_op_id op, char *text, size_t bytes);

/* ---- errors.c: errors that all drivers report alike ---- */
yoke_status yokei_gpu_no_host_memory(const yoke_device *device, const char *what);
/** `call` failed with this error of the vendor's. `text` explains the error, or is NULL. */
yoke_status yokei_gpu_call_failed(const yoke_device *device, yoke_status status, const char *call,
                                  const char *name, int error, const char *text);
/** The device's side of a copy, or the target of a fill, is no memory of the device. */
yoke_status yokei_gpu_refuse_copy(const yoke_stream *stream, const void *target, const void *source);
yoke_status yokei_gpu_refuse_fill(const yoke_stream *stream, const void *target, size_t bytes);
/** An object that the caller wants to wrap is of another context, or has fewer bytes than stated. */
yoke_status yokei_gpu_refuse_context(const yoke_device *device, const char *what);
yoke_status yokei_gpu_refuse_size(const yoke_device *device, const char *what, size_t has, size_t stated);
/** The backend was told to free an address that is no allocation of the device. */
void yokei_gpu_log_bad_free(const yoke_device *device, const void *address);

/* ---- cache.c: compiled binaries on disk, in the folders of device->cache_dir ---- */

/* Bytes of a path of the cache, and of the text of a maker (see struct yokei_gpu_driver). */
#define YOKEI_GPU_PATH 2304
#define YOKEI_GPU_MAKER 48

/**
 * The key of a program in the cache: a hash of its strings and of the device's identity, as 32 hexadecimal
 * digits.
 */
struct yokei_gpu_cache_key {
    char text[33];
};
struct yokei_gpu_cache_key yokei_gpu_cache_key(const yoke_device *device,
                                               const struct yokei_gpu_source *source);

/** An entry of the cache: a file with a binary of a program. */
struct yokei_gpu_cached {
    char path[YOKEI_GPU_PATH], maker[YOKEI_GPU_MAKER];
    int rank;      /* how well it suits the device */
    bool is_first; /* it is in the first folder, where it may be changed and removed */
};
#define YOKEI_GPU_MAX_CACHED 8
/** List the entries of a program, the most suitable one first. Returns their number. */
int yokei_gpu_cache_find(const yoke_device *device, const struct yokei_gpu_cache_key *key,
                         struct yokei_gpu_cached list_out[YOKEI_GPU_MAX_CACHED]);
/**
 * Read an entry, and mark it as the one used last. `kernels` is the value that was written with the entry:
 * the set of the kernels that its binary has compiled. Fails with the reason if the entry is damaged.
 */
yoke_status yokei_gpu_cache_read(const struct yokei_gpu_cache_key *key, const struct yokei_gpu_cached *entry,
                                 void **binary_out, size_t *bytes_out, uint64_t *kernels_out);
/**
 * Log that an entry is not used, with the last error, whose status this is. If the status is YOKE_EDATA, the
 * bytes of the file are bad, and the file is removed if it may be. With another status the file stays.
 */
void yokei_gpu_cache_refuse(const yoke_device *device, const struct yokei_gpu_cached *entry,
                            yoke_status status);
/**
 * Write an entry to the first folder, for the device's own maker. While the folder holds more than
 * device->cache_bytes, the entries that were not used for the longest time are removed. Several processes may
 * call this function at the same time. `stored` gets the bytes of the file, or 0 if caching is off.
 */
yoke_status yokei_gpu_cache_store(const yoke_device *device, const struct yokei_gpu_cache_key *key,
                                  const void *binary, size_t bytes, uint64_t kernels, size_t *stored_out);
/** The same. The first failure is logged, and all are ignored, because a cache may always be missing. */
void yokei_gpu_cache_write(yoke_device *device, const struct yokei_gpu_cache_key *key, const void *binary,
                           size_t bytes, uint64_t kernels);
/** Whether one of these folders has an entry of this driver whose maker is usable. */
bool yokei_gpu_cache_has(const char *folders, const char *driver,
                         bool (*usable)(const void *context, const char *maker), const void *context);

/* ---- ahead.c: yoke compile ---- */
/** Compile the selected programs for a device that only compiles, and write them to the first folder. */
yoke_status yokei_gpu_ahead(yoke_device *device, struct yokei_ahead *ahead);

/** The number of programs that this device compiled, and the number that it loaded from disk. */
struct yokei_gpu_counts {
    int compiled, loaded;
};
struct yokei_gpu_counts yokei_gpu_counts(const yoke_device *device);

#endif
