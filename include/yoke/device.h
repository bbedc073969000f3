/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Yoke, devices: discovery, memory, streams, and events.
 *
 * A device is named by a spec: "reference", "host", "opencl:0". A missing index is 0.
 * On every backend, device memory is a `void *` address, and pointer arithmetic on it is legal.
 * yoke_host_ptr() says whether the host may read the memory. Any thread may use a device. Only one thread at
 * a time may use a stream.
 *
 * fork. A process that was made by fork may open devices and compute, also if its parent has computed. The
 * parent's devices do not work in it, nor do their streams, events and addresses: every call on them returns
 * YOKE_EINVAL with a text that names both processes, and yoke_host_ptr and yoke_variant_name return NULL.
 * yoke_device_info and yoke_stream_device still answer. yoke_free, yoke_event_destroy, yoke_stream_destroy
 * and yoke_device_close succeed. They free memory of this process and call no driver; what belongs to a
 * driver stays until the process ends. The parent notices nothing of all this. Three rules:
 *  - OpenCL and CUDA devices can be opened in the child only if the parent had opened none of the same
 *    backend. Otherwise yoke_device_open returns YOKE_ENODEV. If the parent has called OpenCL without this
 *    library, the library does not know it.
 *  - At the fork, no other thread may be inside a call of this library. Its locks would stay held in the
 *    child. Threads that the library itself has started are no problem.
 *  - Do not fork inside a parallel region of OpenMP. In the child yoke_device_open("host") then returns
 *    YOKE_ENODEV.
 * Before each fork the library releases the OpenMP team of the forking thread (omp_pause_resource_all),
 * because a child of GCC's OpenMP would wait for the team's threads for ever. The next parallel region makes
 * a new team, and the team's threadprivate variables begin anew. This concerns fork only. posix_spawn, vfork
 * and system do not release the team. The raw system call clone and _Fork are not noticed, so do not use
 * devices after them.
 *
 * Spinning. Between two operations the threads of GCC's OpenMP spin for 5 to 14 ms. If other processes use
 * the same cores, this can make operations ten times as slow. Then set OMP_WAIT_POLICY=passive before the
 * program starts (docs/TUNING.md). OpenMP reads the variable when it is loaded, so main() cannot set it. The
 * first yoke_device_open that finds such cores logs a warning.
 */
#ifndef YOKE_DEVICE_H
#define YOKE_DEVICE_H

#include <yoke/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct yoke_device yoke_device;
typedef struct yoke_stream yoke_stream;
typedef struct yoke_event yoke_event;

#define YOKE_MAX_DEVICES 16    /* most devices that are listed per backend */
#define YOKE_REASON_BYTES 1024 /* room for a text that may contain a path, with its final NUL */

/** The facts about a device that are known without opening it. */
struct yoke_device_info {
    size_t size;
    char spec[32];         /* "opencl:0" */
    char backend[16];      /* "opencl" */
    int index;             /* 0 */
    char name[128];        /* the name that the vendor gives the device */
    char driver[160];      /* versions of the driver, the platform and the compiler */
    uint64_t memory_bytes; /* total memory of the device */
    uint64_t max_alloc_bytes;
    int compute_units;   /* cores, multiprocessors, … */
    bool host_visible;   /* the host sees this device's memory, so no data is staged */
    uint32_t storage;    /* bit (1u << dtype) is set for each type that kernels load and store */
    uint32_t arithmetic; /* bit (1u << dtype) is set for each type that the device computes in natively */
    char features[256];  /* the features that were chosen at run time: "avx512 bf16", "svm-fine", … */
    char vendor[16];     /* "nvidia", "amd", "intel" or "other"; "host": the host's CPU, by any backend */
};
#define YOKE_DEVICE_INFO_INIT YOKE_SIZED(yoke_device_info)

/** The devices of one backend, or the reason why it has none. */
struct yoke_backend_report {
    size_t size;
    char name[16];
    char reason[YOKE_REASON_BYTES]; /* "" if devices were found */
    int n_devices;
    struct yoke_device_info devices[YOKE_MAX_DEVICES];
};
#define YOKE_BACKEND_REPORT_INIT YOKE_SIZED(yoke_backend_report)

/**
 * Look for the devices of every backend. Each backend is probed in a child process of its own, because two
 * vendors' compilers in one process can abort it. If a driver crashes, or hangs for 20 s, the report gives
 * this as the reason. The function blocks.
 * Writes: at most `capacity` reports, and the number of reports. Errors: YOKE_EINVAL, YOKE_ENOMEM (no process
 *         could be started).
 */
yoke_status yoke_discover(struct yoke_backend_report *reports_out, int capacity, int *n_reports_out);

/** The configuration with which a device is opened. Zero means the default in every field. */
struct yoke_device_config {
    size_t size;
    /*
     * The number of OpenMP threads in the calling thread's teams (host backend). 0: the number that OpenMP is
     * set up for, but at most the number of cores that the process may use. During matrix products of oneDNN
     * no thread of the team takes signals. Afterwards the calling thread takes signals again, and the other
     * threads of the team do not.
     */
    int n_threads;
    /*
     * The folder for compiled programs. More folders, separated by colons, are only read: those that `yoke
     * compile` has filled. Default: $YOKE_CACHE_DIR, else $XDG_CACHE_HOME/yoke, else $HOME/.cache/yoke.
     */
    const char *cache_dir;
    /*
     * The file with the chosen variants (docs/TUNING.md). Default: $YOKE_TUNE_FILE, else the user's file,
     * else the file that Yoke ships for this kind of device. "off": no file.
     */
    const char *tune_file;
    /*
     * The most bytes that the first folder of cache_dir may hold. The entries that were not used for the
     * longest time are removed first. Default: $YOKE_CACHE_BYTES, else 1 GiB.
     */
    uint64_t cache_bytes;
};
#define YOKE_DEVICE_CONFIG_INIT YOKE_SIZED(yoke_device_config)

/**
 * Open the device with the spec `spec`. config may be NULL.
 * Errors: YOKE_ENODEV (the text says why, and lists the backends that this library has), YOKE_EINVAL,
 *         YOKE_EBACKEND.
 */
yoke_status yoke_device_open(const char *spec, const struct yoke_device_config *config,
                             yoke_device **device_out);
/**
 * Close a device. YOKE_EBUSY while the device still has streams, events or allocations. YOKE_EINVAL if
 * `device` is not an open device. yoke_stream_destroy and yoke_event_destroy likewise fail with YOKE_EINVAL
 * if the object does not exist or was destroyed already. The object is looked up by its address and is not
 * touched.
 */
yoke_status yoke_device_close(yoke_device *device);
/** The device's description. It is valid while the device is open. */
const struct yoke_device_info *yoke_device_info(const yoke_device *device);
/** The numbers of free and total bytes of device memory now. */
yoke_status yoke_device_memory(const yoke_device *device, uint64_t *free_out, uint64_t *total_out);

/**
 * The bytes of device memory that this library now holds on the device, and the most bytes that it ever held.
 */
yoke_status yoke_device_allocated(const yoke_device *device, uint64_t *now_out, uint64_t *peak_out);

/**
 * Objects of a vendor's own library: (cl_context, cl_device_id, cl_command_queue) or (CUcontext, CUdevice,
 * CUstream).
 */
struct yoke_native {
    size_t size;
    void *context;
    void *device;
    void *queue;
};
#define YOKE_NATIVE_INIT YOKE_SIZED(yoke_native)
/**
 * Open a device on a context that another framework owns. The context must outlive the device.
 * YOKE_EUNSUPPORTED if the backend has no contexts to wrap.
 */
yoke_status yoke_device_wrap(const char *backend, const struct yoke_native *native,
                             const struct yoke_device_config *config, yoke_device **device_out);
/**
 * Create a stream on another framework's queue (native->queue). Destroying the stream does not destroy the
 * queue.
 */
yoke_status yoke_stream_wrap(yoke_device *device, const struct yoke_native *native, yoke_stream **stream_out);
/**
 * Get a device address for another framework's buffer: a cl_mem in OpenCL, else a pointer, whose address
 * stays the same. Release the address with yoke_free. The buffer itself is not freed.
 */
yoke_status yoke_buffer_wrap(yoke_device *device, void *native_buffer, size_t bytes, void **address_out);

/**
 * Allocate `bytes` bytes of device memory, aligned to 64 bytes or better. 0 bytes give a unique address too.
 * The text of YOKE_ENOMEM says how much is needed and how much is available.
 */
yoke_status yoke_alloc(yoke_device *device, size_t bytes, void **address_out);
/**
 * Free an address from yoke_alloc or yoke_buffer_wrap. NULL is allowed. Before the call, the caller has
 * synchronised the streams that use the memory. Any thread may call this function.
 * Errors: YOKE_EINVAL if the address was freed already, lies inside an allocation (the text gives the address
 *         of that allocation), belongs to another device, or did not come from either function. Nothing is
 *         touched then.
 * A new allocation may get the address of an earlier one. Freeing the old pointer then frees the new
 * allocation.
 */
yoke_status yoke_free(yoke_device *device, void *address);
/**
 * The host's pointer to the same memory, or NULL if the host cannot see the memory. `address` may point
 * inside an allocation.
 */
void *yoke_host_ptr(const yoke_device *device, const void *address);

/** Create a stream. The work that is issued to a stream runs in order. */
yoke_status yoke_stream_create(yoke_device *device, yoke_stream **stream_out);
/** Wait for the stream's work, then destroy the stream. */
yoke_status yoke_stream_destroy(yoke_stream *stream);
yoke_device *yoke_stream_device(const yoke_stream *stream);
/**
 * Block until all work of the stream has ended. This call reports an asynchronous error, with the name of the
 * op that failed.
 */
yoke_status yoke_stream_sync(yoke_stream *stream);
/** Hand the issued work to the device, without waiting for its end. */
yoke_status yoke_stream_flush(yoke_stream *stream);
/**
 * Give the stream at least `bytes` bytes of scratch memory. The scratch never shrinks. Ops allocate nothing:
 * if an op's `can` states a larger scratch than the stream has, the op fails with YOKE_ENOMEM. This call
 * synchronises the stream if the scratch must grow.
 */
yoke_status yoke_stream_reserve(yoke_stream *stream, size_t bytes);

/** Copy in stream order. Host memory must stay valid until the stream has been synchronised. */
yoke_status yoke_copy(yoke_stream *stream, void *target, const void *source, size_t bytes);
yoke_status yoke_copy_to_device(yoke_stream *stream, void *target, const void *host_source, size_t bytes);
yoke_status yoke_copy_to_host(yoke_stream *stream, void *host_target, const void *source, size_t bytes);
/** Set `bytes` bytes to `byte`. */
yoke_status yoke_fill(yoke_stream *stream, void *target, uint8_t byte, size_t bytes);

/**
 * Events. A new event is complete.
 *  - yoke_event_record: the event becomes complete when the work that the stream has so far is complete.
 *  - yoke_event_arm, then yoke_event_signal: the host completes the event, from any thread (for example a
 *    collective's progress thread).
 */
yoke_status yoke_event_create(yoke_device *device, yoke_event **event_out);
yoke_status yoke_event_destroy(yoke_event *event);
yoke_status yoke_event_record(yoke_event *event, yoke_stream *stream);
yoke_status yoke_event_arm(yoke_event *event);
yoke_status yoke_event_signal(yoke_event *event);
/** Whether the event is complete. Never blocks. */
yoke_status yoke_event_query(yoke_event *event, bool *complete_out);
/** Block the calling thread until the event is complete. */
yoke_status yoke_event_sync(yoke_event *event);
/**
 * All work that is issued to `stream` from now on waits for the event. Streams of the host backend run work
 * at once, so there this call blocks the caller.
 * On a CUDA device no queue of the driver waits for the host. The process keeps the commands behind an armed
 * event in a queue of 1024 commands, and yoke_event_signal submits them. A call that finds no room blocks. If
 * a command fails when it is submitted, the next call on the stream reports the error, with the name of the
 * command, and so do all calls up to and including yoke_stream_sync. The commands behind it are not executed.
 * If the stream is a foreign queue (yoke_stream_wrap), this call blocks until the event is signalled.
 */
yoke_status yoke_stream_wait(yoke_stream *stream, yoke_event *event);

/**
 * The cost of an op on a device, as the op's `can` states it. yoke/ops/common.h says how operations and bytes
 * are counted.
 */
struct yoke_cost {
    size_t size;
    size_t scratch_bytes; /* bytes that the op needs of the stream's scratch */
    double flops;         /* arithmetic operations */
    double bytes;         /* least number of bytes moved: each operand once */
};
#define YOKE_COST_INIT YOKE_SIZED(yoke_cost)

/**
 * Variants: a device may have several ways to run one op (an instruction set, a tile size, a library).
 * yoke_variant_name gives the name of variant `index` of `op` (such as "layernorm_forward"), or NULL past the
 * last one.
 * yoke_variant_force makes `op` run by this variant only. NULL restores the tuned choice. This function is
 * for tests, `yoke tune` and `yoke verify`. Call it only while no stream of the device runs. YOKE_EINVAL for
 * a name that is not offered.
 */
const char *yoke_variant_name(const yoke_device *device, const char *op, int index);
yoke_status yoke_variant_force(yoke_device *device, const char *op, const char *variant);

#ifdef __cplusplus
}
#endif
#endif
