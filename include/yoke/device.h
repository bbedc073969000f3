/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Yoke, devices: discovery, memory, streams, events.
 *
 * A device is named by a spec: "reference", "host", "opencl:0" (a missing index is 0).
 * Device memory is a `void *` address on every backend, and pointer arithmetic on it is legal; whether the host may
 * read it is answered by yoke_host_ptr(). A device may be used from any thread, a stream from one thread at a time.
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

#define YOKE_MAX_DEVICES 16 /* devices listed per backend */

/** What is known of a device without opening it. */
struct yoke_device_info {
    size_t size;
    char spec[32];          /* "opencl:0" */
    char backend[16];       /* "opencl" */
    int index;              /* 0 */
    char name[128];         /* as the vendor writes it */
    char driver[160];       /* driver, platform and compiler versions */
    uint64_t memory_bytes;  /* total memory of the device */
    uint64_t max_alloc_bytes;
    int compute_units;      /* cores, multiprocessors, … */
    bool host_visible;      /* the host sees this device's memory: nothing is staged */
    uint32_t storage;       /* bit (1u << dtype): types that kernels load and store */
    uint32_t arithmetic;    /* bit (1u << dtype): types that the device computes in natively */
    char features[256];     /* what was chosen at run time: "avx512 bf16", "svm-fine", … */
};
#define YOKE_DEVICE_INFO_INIT YOKE_SIZED(yoke_device_info)

/** One backend: its devices, or why it has none. */
struct yoke_backend_report {
    size_t size;
    char name[16];
    char reason[256]; /* "" when devices were found */
    int n_devices;
    struct yoke_device_info devices[YOKE_MAX_DEVICES];
};
#define YOKE_BACKEND_REPORT_INIT YOKE_SIZED(yoke_backend_report)

/**
 * Look for the devices of every backend, each in a child process of its own (two vendors' compilers in one process
 * can abort it; a driver that crashes or hangs is reported as the reason, after at most 20 s).
 * Writes at most `capacity` reports and their number. Blocks. Errors: YOKE_EINVAL, YOKE_ENOMEM (no process).
 */
yoke_status yoke_discover(struct yoke_backend_report *reports_out, int capacity, int *n_reports_out);

/** How a device is opened. Zero means the default everywhere. */
struct yoke_device_config {
    size_t size;
    int n_threads;          /* host: OpenMP threads of the calling thread's teams; 0 = as OpenMP was set up, at most the cores of the process */
    const char *cache_dir;  /* compiled programs; default $YOKE_CACHE_DIR, $XDG_CACHE_HOME/yoke, $HOME/.cache/yoke */
    const char *tune_file;  /* chosen variants (docs/TUNING.md); default $YOKE_TUNE_FILE, the user's, the one shipped for such devices; "off": none */
    uint64_t cache_bytes;   /* most that cache_dir may hold, what was not used for longest goes first; default $YOKE_CACHE_BYTES, 1 GiB */
};
#define YOKE_DEVICE_CONFIG_INIT YOKE_SIZED(yoke_device_config)

/**
 * Open the device called `spec`; config may be NULL.
 * Errors: YOKE_ENODEV (the text says why, and lists what this process knows of), YOKE_EINVAL, YOKE_EBACKEND.
 */
yoke_status yoke_device_open(const char *spec, const struct yoke_device_config *config, yoke_device **device_out);
/**
 * Close. YOKE_EBUSY while streams, events or allocations live. YOKE_EINVAL for what is no open device. So do yoke_stream_destroy and
 * yoke_event_destroy with what is no such object, or was destroyed already: it is looked up by its address, and not touched.
 */
yoke_status yoke_device_close(yoke_device *device);
/** The device's description; valid while it is open. */
const struct yoke_device_info *yoke_device_info(const yoke_device *device);
/** Free and total bytes of device memory now. */
yoke_status yoke_device_memory(const yoke_device *device, uint64_t *free_out, uint64_t *total_out);

/** Bytes of device memory that this library holds on the device now, and the most that it ever held. */
yoke_status yoke_device_allocated(const yoke_device *device, uint64_t *now_out, uint64_t *peak_out);

/** Foreign objects of one vendor: (cl_context, cl_device_id, cl_command_queue) or (CUcontext, CUdevice, CUstream). */
struct yoke_native {
    size_t size;
    void *context;
    void *device;
    void *queue;
};
#define YOKE_NATIVE_INIT YOKE_SIZED(yoke_native)
/** A device on a context that another framework owns; the context must outlive it. YOKE_EUNSUPPORTED where it means nothing. */
yoke_status yoke_device_wrap(const char *backend, const struct yoke_native *native,
                             const struct yoke_device_config *config, yoke_device **device_out);
/** A stream on a foreign queue (native->queue). Destroying it leaves the queue alone. */
yoke_status yoke_stream_wrap(yoke_device *device, const struct yoke_native *native, yoke_stream **stream_out);
/** An address for a foreign buffer (a cl_mem; elsewhere the pointer itself). Release with yoke_free: the buffer stays. */
yoke_status yoke_buffer_wrap(yoke_device *device, void *native_buffer, size_t bytes, void **address_out);

/** `bytes` of device memory, aligned to 64 or better; 0 bytes give a unique address too. YOKE_ENOMEM says need and have. */
yoke_status yoke_alloc(yoke_device *device, size_t bytes, void **address_out);
/**
 * Free what yoke_alloc or yoke_buffer_wrap gave; NULL is allowed. The caller has synchronised the streams that use it.
 * Errors: YOKE_EINVAL for an address that was freed already, lies inside an allocation (the text names its address), belongs to another
 * device, or never came from either; nothing is touched then. From any thread. An allocation may get the address of an earlier one:
 * freeing the old pointer then frees the new allocation.
 */
yoke_status yoke_free(yoke_device *device, void *address);
/** The host's pointer to the same memory, or NULL where the host cannot see it. `address` may point inside an allocation. */
void *yoke_host_ptr(const yoke_device *device, const void *address);

/** A stream: what is issued to it runs in order. */
yoke_status yoke_stream_create(yoke_device *device, yoke_stream **stream_out);
/** Waits for the stream's work, then destroys it. */
yoke_status yoke_stream_destroy(yoke_stream *stream);
yoke_device *yoke_stream_device(const yoke_stream *stream);
/** Block until all work has ended. An asynchronous error surfaces here, with the op that failed. */
yoke_status yoke_stream_sync(yoke_stream *stream);
/** Hand what was issued to the device without waiting. */
yoke_status yoke_stream_flush(yoke_stream *stream);
/**
 * Give the stream at least `bytes` of scratch (never shrinks). Ops allocate nothing: an op whose `can` states a larger
 * scratch than the stream has fails with YOKE_ENOMEM. Synchronises the stream when it must grow.
 */
yoke_status yoke_stream_reserve(yoke_stream *stream, size_t bytes);

/** Copies in stream order. Host memory must stay valid until the stream has been synchronised. */
yoke_status yoke_copy(yoke_stream *stream, void *target, const void *source, size_t bytes);
yoke_status yoke_copy_to_device(yoke_stream *stream, void *target, const void *host_source, size_t bytes);
yoke_status yoke_copy_to_host(yoke_stream *stream, void *host_target, const void *source, size_t bytes);
/** Set `bytes` bytes to `byte`. */
yoke_status yoke_fill(yoke_stream *stream, void *target, uint8_t byte, size_t bytes);

/**
 * Events. A fresh event is complete. yoke_event_record: complete when the stream's work so far is.
 * yoke_event_arm + yoke_event_signal: completed by the host, from any thread (a collective's progress thread, say).
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
/** Work issued to `stream` from now on waits for the event. Host streams run at once, so there this blocks the caller. */
yoke_status yoke_stream_wait(yoke_stream *stream, yoke_event *event);

/** What an op would cost on a device, as its `can` answers. */
struct yoke_cost {
    size_t size;
    size_t scratch_bytes; /* of the stream's scratch */
    double flops;         /* arithmetic operations */
    double bytes;         /* least bytes moved */
};
#define YOKE_COST_INIT YOKE_SIZED(yoke_cost)

/**
 * Variants: several ways in which a device can run one op (an instruction set, a tile size, a library).
 * yoke_variant_name: the name of variant `index` of `op` ("layernorm_forward"), NULL past the last.
 * yoke_variant_force: run `op` by that variant only (NULL: as tuned). For tests, `yoke tune` and `yoke verify`; call it
 * while no stream of the device runs. YOKE_EINVAL for a name that is not offered.
 */
const char *yoke_variant_name(const yoke_device *device, const char *op, int index);
yoke_status yoke_variant_force(yoke_device *device, const char *op, const char *variant);

#ifdef __cplusplus
}
#endif
#endif
