/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The compiled programs of a device. A program is built or loaded at its first use, and kept until the device
 * closes.
 */
#include <stdlib.h>
#include <string.h>

#include "backends/gpu/launch.h"
#include "core/base/busy.h"

struct kernel {
    struct kernel *next;
    void *handle;
    uint64_t bit; /* bit in the set of launched kernels of its entry */
    char name[48];
};

struct entry {
    struct entry *next;
    struct yokei_gpu_program program;
    bool offsets;
    /* held while the program is built, and while a kernel's arguments are set and launched */
    pthread_mutex_t lock;
    void *handle; /* NULL until the program is built */
    /*
     * sets of kernels: those that this device launched, and those that the binary in the cache has compiled
     */
    uint64_t launched, cached;
    struct yokei_gpu_cache_key key;
    struct kernel *kernels;
};

#define N_BUCKETS 127

struct yokei_gpu_programs {
    pthread_mutex_t lock; /* protects the table and the counts */
    struct entry *buckets[N_BUCKETS];
    struct yokei_gpu_counts counts;
};

yoke_status yokei_gpu_programs_create(yoke_device *device)
{
    struct yokei_gpu_programs *programs = calloc(1, sizeof *programs);
    if (!programs) return yokei_gpu_no_host_memory(device, "the program table");
    pthread_mutex_init(&programs->lock, NULL);
    yokei_gpu(device)->programs = programs;
    return YOKE_OK;
}

/** Put a program into the cache. The entry's lock is held, or no other thread uses the entry. */
static void save(yoke_device *device, struct entry *entry, uint64_t kernels)
{
    void *binary = NULL;
    size_t bytes = 0;
    if (!device->cache_dir[0] || yokei_gpu(device)->driver->binary(device, entry->handle, &binary, &bytes)
        || !bytes)
        return;
    yokei_gpu_cache_write(device, &entry->key, binary, bytes, kernels);
    entry->cached = kernels;
    free(binary);
}

static void entry_destroy(yoke_device *device, struct entry *entry)
{
    const struct yokei_gpu_driver *driver = yokei_gpu(device)->driver;
    if (entry->handle && yokei_gpu(device)->late_binaries && (entry->launched & ~entry->cached))
        save(device, entry, entry->launched | entry->cached);
    while (entry->kernels) {
        struct kernel *kernel = entry->kernels;
        entry->kernels = kernel->next;
        driver->release_kernel(device, kernel->handle);
        free(kernel);
    }
    if (entry->handle) driver->release(device, entry->handle);
    pthread_mutex_destroy(&entry->lock);
    free(entry);
}

void yokei_gpu_programs_destroy(yoke_device *device)
{
    struct yokei_gpu_programs *programs = yokei_gpu(device)->programs;
    if (!programs) return;
    for (int i = 0; i < N_BUCKETS; i++)
        while (programs->buckets[i]) {
            struct entry *entry = programs->buckets[i];
            programs->buckets[i] = entry->next;
            entry_destroy(device, entry);
        }
    pthread_mutex_destroy(&programs->lock);
    free(programs);
    yokei_gpu(device)->programs = NULL;
}

struct yokei_gpu_counts yokei_gpu_counts(const yoke_device *device)
{
    struct yokei_gpu_programs *programs = yokei_gpu(device)->programs;
    pthread_mutex_lock(&programs->lock);
    struct yokei_gpu_counts counts = programs->counts;
    pthread_mutex_unlock(&programs->lock);
    return counts;
}

static void count_program(yoke_device *device, int compiled, int loaded)
{
    struct yokei_gpu_programs *programs = yokei_gpu(device)->programs;
    pthread_mutex_lock(&programs->lock);
    programs->counts.compiled += compiled;
    programs->counts.loaded += loaded;
    pthread_mutex_unlock(&programs->lock);
}

static bool same_program(const struct yokei_gpu_program *a, const struct yokei_gpu_program *b)
{
    if (a->dtype != b->dtype || a->out_dtype != b->out_dtype || a->L != b->L || a->W != b->W || a->G != b->G)
        return false;
    if (a->family != b->family && strcmp(a->family, b->family) != 0) return false;
    for (int i = 0; i < YOKEI_GPU_MAX_DEFINES; i++) {
        const struct yokei_gpu_define *x = &a->defines[i], *y = &b->defines[i];
        if (!x->name || !y->name) return x->name == y->name;
        if (x->value != y->value || (x->name != y->name && strcmp(x->name, y->name) != 0)) return false;
    }
    return true;
}

static unsigned bucket_of(const struct yokei_gpu_program *program, bool offsets)
{
    unsigned h = (unsigned)program->family[0] * 31u + (unsigned)program->family[1];
    h = h * 31u + (unsigned)program->dtype * 8u + (unsigned)program->out_dtype;
    h = h * 31u + (unsigned)program->L + (unsigned)program->W * 3u + (unsigned)program->G * 7u + offsets;
    for (int i = 0; i < YOKEI_GPU_MAX_DEFINES && program->defines[i].name; i++)
        h = h * 31u + (unsigned)program->defines[i].value;
    return h % N_BUCKETS;
}

/**
 * Find the entry of a program, built or not. A new entry is put in front of its bucket. NULL if there is no
 * host memory.
 */
static struct entry *find_entry(yoke_device *device, const struct yokei_gpu_program *program, bool offsets)
{
    struct yokei_gpu_programs *programs = yokei_gpu(device)->programs;
    struct entry **bucket = &programs->buckets[bucket_of(program, offsets)];
    pthread_mutex_lock(&programs->lock);
    struct entry *entry = *bucket;
    while (entry && !(entry->offsets == offsets && same_program(&entry->program, program)))
        entry = entry->next;
    if (!entry && (entry = calloc(1, sizeof *entry))) {
        entry->program = *program;
        entry->offsets = offsets;
        pthread_mutex_init(&entry->lock, NULL);
        entry->next = *bucket;
        *bucket = entry;
    }
    pthread_mutex_unlock(&programs->lock);
    return entry;
}

/** Read an entry and give it to the driver. Fails with YOKE_EDATA if the bytes of the file are bad. */
static yoke_status load_one(yoke_device *device, struct entry *entry, const struct yokei_gpu_cached *cached)
{
    void *binary = NULL;
    size_t bytes = 0;
    YOKE_TRY(yokei_gpu_cache_read(&entry->key, cached, &binary, &bytes, &entry->cached));
    const yoke_status status = yokei_gpu(device)->driver->load(device, binary, bytes, &entry->handle);
    free(binary);
    return status;
}

/**
 * Load a program from the cache on disk. n_out gets the number of entries that were there, and *refused_out
 * the last one that did not load. Fails with the driver's error if this error says nothing about a file: a
 * device that is lost refuses all programs, and would also refuse a program that is compiled now.
 */
static yoke_status load_cached(yoke_device *device, struct entry *entry, int *n_out,
                               struct yokei_gpu_cached *refused_out)
{
    struct yokei_gpu_cached list[YOKEI_GPU_MAX_CACHED];
    *n_out = yokei_gpu_cache_find(device, &entry->key, list);
    for (int i = 0; i < *n_out; i++) {
        const yoke_status status = load_one(device, entry, &list[i]);
        if (!status) {
            count_program(device, 0, 1);
            yoke_log(YOKE_LOG_DEBUG, "%s: loaded %s", device->info.spec, list[i].path);
            return YOKE_OK;
        }
        entry->cached = 0;
        *refused_out = list[i];
        if (status != YOKE_EDATA && status != YOKE_EUNSUPPORTED && status != YOKE_EIO) return status;
        yokei_gpu_cache_refuse(device, &list[i], status);
    }
    return YOKE_OK;
}

/** The error of a program that no cache has, on a machine without a compiler. */
static yoke_status missing(const yoke_device *device, const struct yokei_gpu_program *program, const char *op,
                           int n_refused, const struct yokei_gpu_cached *refused)
{
    const struct yokei_gpu_device *gpu = yokei_gpu(device);
    char damaged[YOKEI_GPU_PATH + 80] = "";
    if (n_refused)
        yokei_text(damaged, sizeof damaged, " in a form that can be used (%s was refused)", refused->path);
    return yoke_fail(
        YOKE_ECOMPILE,
        "%s: %s needs the program %s (%s, L=%d W=%d G=%d), which is not among the compiled programs of this "
        "version of Yoke in %s%s. `yoke compile --device %s --op %s -o FOLDER` makes it on a machine with "
        "%s; then put FOLDER into YOKE_CACHE_DIR. Or compile here: %s",
        device->info.spec, op ? op : program->family, program->family, yoke_dtype_name(program->dtype),
        program->L, program->W, program->G, device->cache_dir, damaged, gpu->ahead, op ? op : program->family,
        gpu->driver->compiler, gpu->no_compiler);
}

/**
 * Load a program from the cache on disk, or else compile it and put it there. The entry's lock is held. `op`
 * is for the text of an error.
 */
static yoke_status build_entry(yoke_device *device, struct entry *entry, const char *op)
{
    const struct yokei_gpu_device *gpu = yokei_gpu(device);
    const struct yokei_gpu_driver *driver = gpu->driver;
    struct yokei_gpu_source source;
    struct yokei_gpu_cached refused;
    YOKE_TRY(yokei_gpu_source_make(&entry->program, driver->language, gpu->is_cpu, gpu->warp, entry->offsets,
                                   &source));
    entry->key = yokei_gpu_cache_key(device, &source);
    int n_refused = 0;
    yoke_status status = load_cached(device, entry, &n_refused, &refused);
    if (!status && !entry->handle && gpu->no_compiler[0]) {
        status = missing(device, &entry->program, op, n_refused, &refused);
    } else if (!status && !entry->handle) {
        uint64_t start = yokei_now_ns();
        yokei_busy_begin("compiling %s for %s (kept for the next start)", source.name, device->info.spec);
        status = driver->build(device, &source, &entry->handle);
        yokei_busy_end();
        yokei_compiled_add(yokei_seconds_since(start));
        if (status == YOKE_OK) {
            count_program(device, 1, 0);
            if (!gpu->late_binaries) save(device, entry, UINT64_MAX);
            yoke_log(YOKE_LOG_DEBUG, "%s: compiled %s (%s, L=%d W=%d) in %.0f ms", device->info.spec,
                     source.name, yoke_dtype_name(entry->program.dtype), entry->program.L, entry->program.W,
                     (double)(yokei_now_ns() - start) * 1e-6);
        }
    }
    yokei_gpu_source_free(&source);
    return status;
}

/*
 * The bit of a kernel. `large`: PoCL compiles a kernel once for grids below 2^16 and once for larger ones.
 * The bit comes from a hash, so a new kernel may have the bit of another one. The new kernel is then compiled
 * again in each process.
 */
static uint64_t bit_of(const struct kernel *kernel, bool large)
{
    return large ? kernel->bit << 1 | kernel->bit >> 63 : kernel->bit;
}

static yoke_status find_kernel(yoke_device *device, struct entry *entry, const char *name,
                               struct kernel **kernel_out)
{
    struct kernel *kernel = entry->kernels;
    while (kernel && strcmp(kernel->name, name) != 0) kernel = kernel->next;
    if (!kernel) {
        kernel = calloc(1, sizeof *kernel);
        if (!kernel) return yoke_fail(YOKE_ENOMEM, "kernel %s: no host memory", name);
        yoke_status status = yokei_gpu(device)->driver->kernel(device, entry->handle, name, &kernel->handle);
        if (status) {
            free(kernel);
            return status;
        }
        yokei_text(kernel->name, sizeof kernel->name, "%s", name);
        kernel->bit = (uint64_t)1 << (yokei_hash(name, strlen(name), 0) & 63);
        kernel->next = entry->kernels;
        entry->kernels = kernel;
    }
    *kernel_out = kernel;
    return YOKE_OK;
}

static yoke_status check_grid(const yoke_stream *stream, const struct yokei_gpu_grid *grid)
{
    const struct yokei_gpu_device *gpu = yokei_gpu(stream->device);
    for (int i = 0; i < 3; i++) {
        const long long groups = grid->groups[i], most = gpu->most_groups[i];
        if (most && groups > most)
            return yoke_fail(
                YOKE_EUNSUPPORTED,
                "%s: %s needs %lld groups in dimension %c, and the device has at most %lld: divide the call",
                stream->device->info.spec, stream->last_op, groups, "xyz"[i], most);
    }
    if (gpu->most_threads && grid->groups[0] > gpu->most_threads / grid->group)
        return yoke_fail(
            YOKE_EUNSUPPORTED,
            "%s: %s needs %lld groups of %d threads, and the device has at most %lld threads: divide the call",
            stream->device->info.spec, stream->last_op, (long long)grid->groups[0], grid->group,
            (long long)gpu->most_threads);
    if (grid->group > gpu->max_group)
        return yoke_fail(YOKE_EUNSUPPORTED,
                         "%s: %s needs groups of %d threads, and the device has at most %d",
                         stream->device->info.spec, stream->last_op, grid->group, gpu->max_group);
    return YOKE_OK;
}

/* A launch of a stream that is held. Its kernel was looked up when the op was issued. */
struct held_launch {
    void *kernel;
    struct yokei_gpu_grid grid;
    int n_args;
    struct yokei_gpu_arg args[];
};

static yoke_status launch_held(yoke_stream *stream, const void *data)
{
    const struct held_launch *l = data;
    return yokei_gpu(stream->device)->driver->launch(stream, l->kernel, &l->grid, l->args, l->n_args);
}

static yoke_status hold_launch(yoke_stream *stream, void *kernel, const struct yokei_gpu_grid *grid,
                               const struct yokei_gpu_arg *args, int n_args, bool *queued_out)
{
    _Alignas(struct held_launch) char
        room[sizeof(struct held_launch) + YOKEI_GPU_MAX_ARGS * sizeof(struct yokei_gpu_arg)];
    struct held_launch *l = (struct held_launch *)room;
    const size_t bytes = (size_t)n_args * sizeof args[0];
    *l = (struct held_launch){ .kernel = kernel, .grid = *grid, .n_args = n_args };
    memcpy(l->args, args, bytes);
    return yokei_hold_call(stream, launch_held, l, sizeof *l + bytes, queued_out);
}

/* Find the kernel of a launch, and build its program if need be. The entry's lock is held. */
static yoke_status prepare(yoke_stream *stream, struct entry *entry, const char *name,
                           const struct yokei_gpu_grid *grid, struct kernel **kernel_out)
{
    if (!entry->handle) YOKE_TRY(build_entry(stream->device, entry, stream->last_op));
    YOKE_TRY(find_kernel(stream->device, entry, name, kernel_out));
    return check_grid(stream, grid);
}

/*
 * Whether a launch compiles the kernel. PoCL compiles it at its first launch, unless the program came from
 * the cache with it.
 */
static bool launch_compiles(const yoke_stream *stream, const struct entry *entry, uint64_t bit)
{
    return yokei_gpu(stream->device)->late_binaries && !((entry->launched | entry->cached) & bit);
}

yoke_status yokei_gpu_launch(yoke_stream *stream, const struct yokei_gpu_program *program, const char *kernel,
                             int64_t x, int64_t y, int64_t z, const struct yokei_gpu_arg *args, int n_args)
{
    if (x == 0 || y == 0 || z == 0) return YOKE_OK;
    yoke_device *device = stream->device;
    const struct yokei_gpu_driver *driver = yokei_gpu(device)->driver;
    if (n_args > YOKEI_GPU_MAX_ARGS)
        return yoke_fail(YOKE_EINTERNAL, "kernel %s: %d arguments, at most %d", kernel, n_args,
                         YOKEI_GPU_MAX_ARGS);
    const bool held = yokei_is_held(stream) || stream->is_dry,
               offsets = driver->offsets && driver->offsets(device, args, n_args);
    bool queued = false;
    struct entry *entry = find_entry(device, program, offsets);
    if (!entry) return yoke_fail(YOKE_ENOMEM, "program %s: no host memory", program->family);
    struct yokei_gpu_grid grid = { { x, y, z }, program->G * program->L };
    struct kernel *found = NULL;
    pthread_mutex_lock(&entry->lock);
    yoke_status status = prepare(stream, entry, kernel, &grid, &found);
    const uint64_t bit = status ? 0 : bit_of(found, YOKE_MAX(YOKE_MAX(x * grid.group, y), z) > UINT16_MAX);
    const bool compiles = !status && !held && launch_compiles(stream, entry, bit),
               is_free = compiles && !driver->awaits_host(stream);
    const uint64_t start = compiles ? yokei_now_ns() : 0;
    if (compiles)
        yokei_busy_begin("compiling %s for %s (kept for the next start)", kernel, device->info.spec);
    if (!status && !held) status = driver->launch(stream, found->handle, &grid, args, n_args);
    if (!status) entry->launched |= bit;
    pthread_mutex_unlock(&entry->lock);
    if (compiles) {
        /*
         * PoCL compiles beside the caller, so the end of the kernel is awaited. If the kernel waits for the
         * host, it is not awaited, because this thread itself may be the one that signals the event later.
         * The lock is not held, so other threads launch other kernels of the program meanwhile.
         */
        if (!status && is_free) status = yoke_stream_sync(stream);
        yokei_busy_end();
        yokei_compiled_add(yokei_seconds_since(start));
    }
    if (status || !held || stream->is_dry) return status;
    /* Without the lock, because this call may block until another thread has submitted commands. */
    YOKE_TRY(hold_launch(stream, found->handle, &grid, args, n_args, &queued));
    return queued ? YOKE_OK : driver->launch(stream, found->handle, &grid, args, n_args);
}
