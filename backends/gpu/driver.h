/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What a kernel-launching driver (OpenCL, CUDA, HIP) offers, and what the shared code in this folder makes of it.
 *
 * A driver folder provides a `const struct yoke_backend` whose op tables are those of families.h, its own device, memory
 * and stream tables (copies, fills, events, addresses: see core/backend.h), and one struct yokei_gpu_driver: compile,
 * look up, launch. device->impl of such a backend begins with a struct yokei_gpu_device, which `open` fills.
 */
#ifndef BACKENDS_GPU_DRIVER_H
#define BACKENDS_GPU_DRIVER_H

#include <pthread.h>

#include "core/backend.h"
#include "core/base/base.h"

/** The language that the dialect is compiled as; picks the prelude. */
enum yokei_gpu_language { YOKEI_GPU_OPENCL, YOKEI_GPU_CUDA, YOKEI_GPU_HIP };

/** A program before compilation: options, prelude, text, in this order. All are NUL-terminated. */
struct yokei_gpu_source {
    const char *name;    /* "norm", for messages; the text's #line names backends/gpu/kernels/norm.yk */
    const char *prelude; /* the language's part, then common.yk; to be put behind the options */
    const char *options; /* "#define" lines, one per option */
    const char *text;    /* the .yk file, behind a #line */
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

/** Most arguments of a kernel. */
#define YOKEI_GPU_MAX_ARGS 40

/** What is launched: groups x, y, z of `group` work-items (threads) each. */
struct yokei_gpu_grid {
    int64_t groups[3];
    int group;
};

/**
 * The driver. Programs and kernels are its own opaque objects. All functions may be called from any thread; `launch`
 * is called with the kernel's lock held, so that arguments set on a kernel object belong to one launch.
 */
struct yokei_gpu_driver {
    const char *name; /* "opencl" */
    enum yokei_gpu_language language;

    /* Compile; the compiler's log goes into the error text (YOKE_ECOMPILE). */
    yoke_status (*build)(yoke_device *device, const struct yokei_gpu_source *source, void **program_out);
    /* From a binary that `binary` gave in this or an earlier process. Fails when the vendor refuses it. */
    yoke_status (*load)(yoke_device *device, const void *binary, size_t bytes, void **program_out);
    /* The program's binary, malloc'ed; a driver with none gives NULL and 0 bytes, and nothing is cached. */
    yoke_status (*binary)(yoke_device *device, void *program, void **binary_out, size_t *bytes_out);
    void (*release)(yoke_device *device, void *program);
    yoke_status (*kernel)(yoke_device *device, void *program, const char *name, void **kernel_out);
    void (*release_kernel)(yoke_device *device, void *kernel);
    yoke_status (*launch)(yoke_stream *stream, void *kernel, const struct yokei_gpu_grid *grid,
                          const struct yokei_gpu_arg *args, int n_args);
    /* Whether these arguments need programs with (buffer, offset) pairs (YK_OFFSETS). NULL: never. */
    bool (*offsets)(const yoke_device *device, const struct yokei_gpu_arg *args, int n_args);
};

struct yokei_gpu_programs; /* the table of compiled programs: programs.c */

/** The shared part of every kernel-launching device; the first member of what device->impl points to. */
struct yokei_gpu_device {
    const struct yokei_gpu_driver *driver;
    bool is_cpu;              /* work-items run one after the other on cores: teams of one lane with wide vectors */
    int vector_floats;        /* floats that the device's vectors hold by preference: which register tile fits */
    int warp;                 /* lanes that can shuffle; 1: teams meet in local memory */
    int compute_units;
    int max_group;            /* most work-items of a group */
    size_t local_bytes;       /* local (shared) memory of a group */
    char identity[768];       /* device, driver, platform and compiler versions: part of the cache's key */
    bool late_binaries;       /* a kernel is compiled when it is first launched: binaries are whole when the device closes, not before */
    struct yokei_gpu_programs *programs;
};

static inline struct yokei_gpu_device *yokei_gpu(const yoke_device *device) { return device->impl; }

/** Called by a driver's open, after it has filled the fields above, and by its close. */
yoke_status yokei_gpu_programs_create(yoke_device *device);
void yokei_gpu_programs_destroy(yoke_device *device);

/** The driver's slot yoke_device_ops.variant. */
const char *yokei_gpu_variant_name(const yoke_device *device, enum yoke_op_id op, int index);

/* ---- cache.c: binaries on disk, in device->cache_dir ---- */

/** The key of a program: hash of its strings and of the device's identity, 32 hex digits. */
struct yokei_gpu_cache_key { char text[33]; };
struct yokei_gpu_cache_key yokei_gpu_cache_key(const yoke_device *device, const struct yokei_gpu_source *source);
/**
 * Read an entry, which makes it the one used last. Absent, or damaged (then removed, with a line in the log): YOKE_ENODEV, which
 * is no error to show. `kernels` is what was written with it: a set of which kernels its binary has compiled.
 */
yoke_status yokei_gpu_cache_read(const yoke_device *device, const struct yokei_gpu_cache_key *key, void **binary_out,
                                 size_t *bytes_out, uint64_t *kernels_out);
/**
 * Write an entry, and remove those that were not used for longest while the folder holds more than device->cache_bytes. What
 * goes wrong is logged and forgotten: a cache may always be missing. Processes may do all this at once.
 */
void yokei_gpu_cache_write(const yoke_device *device, const struct yokei_gpu_cache_key *key, const void *binary,
                           size_t bytes, uint64_t kernels);
/** Remove an entry that the vendor's loader refused. */
void yokei_gpu_cache_discard(const yoke_device *device, const struct yokei_gpu_cache_key *key, const char *why);

/** How many programs this device compiled, and how many it took from disk. */
struct yokei_gpu_counts { int compiled, loaded; };
struct yokei_gpu_counts yokei_gpu_counts(const yoke_device *device);

#endif
