/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A part of planted_hip: errors with memory that is not coherent, which a GPU may cache. What HIP promises of
 * such memory stands in emulate/gpu/apart.c.
 */
#ifndef TESTS_UNIT_PLANTED_MEMORY_H
#define TESTS_UNIT_PLANTED_MEMORY_H

#include <dlfcn.h>

static __typeof__(((struct hip_library *)0)->hipEventCreateWithFlags) create_event;
static __typeof__(((struct hip_library *)0)->hipHostMalloc) alloc_sound;
static unsigned char seen;

/* The event releases the GPU's caches to the device alone. */
static hipError_t create_local_event(hipEvent_t *event, unsigned flags)
{
    return create_event(event, (flags & ~hipEventReleaseToSystem) | 0x40000000u);
}

/* The caller's own pinned memory, which is not coherent. The host reads it behind an event. */
static yoke_status run_coherent(const struct plant *plant)
{
    struct set s;
    void *host;
    yoke_event *event;
    YOKE_TRY(open_set(plant, &s));
    struct hip_library *hip = (struct hip_library *)(uintptr_t)hip_device(s.device)->hip;
    create_event = hip->hipEventCreateWithFlags;
    if (is_planted) hip->hipEventCreateWithFlags = create_local_event;
    YOKE_TRY(write_x(&s, s.first));
    YOKE_TRY(yoke_stream_sync(s.first));
    YOKE_TRY(yoke_event_create(s.device, &event));
    if (hip->hipHostMalloc(&host, N * sizeof *s.x, hipHostMallocNonCoherent))
        return yoke_fail(YOKE_ENOMEM, "no memory");
    YOKE_TRY(yoke_copy_to_host(s.first, host, s.x, N * sizeof *s.x));
    YOKE_TRY(yoke_event_record(event, s.first));
    YOKE_TRY(yoke_event_sync(event));
    return *(volatile float *)host == -6 ? YOKE_OK : yoke_fail(YOKE_EINTERNAL, "the host has read old bytes");
}

/*
 * Copies to pageable memory, through the slots. A function of the host reads a slot behind an event, which
 * makes visible what the device has written. A short copy has one queue, and a long one two.
 */
static yoke_status read_slots(const struct plant *plant, size_t n)
{
    struct set s;
    unsigned char *at, *host = calloc(1, n);
    if (!host) return yoke_fail(YOKE_ENOMEM, "no memory");
    YOKE_TRY(open_set(plant, &s));
    struct hip_library *hip = (struct hip_library *)(uintptr_t)hip_device(s.device)->hip;
    create_event = hip->hipEventCreateWithFlags;
    if (is_planted && strstr(plant->name, "device alone")) hip->hipEventCreateWithFlags = create_local_event;
    if (is_planted && strstr(plant->name, "no event")) calls(&s)->slots_are_cached = false;
    YOKE_TRY(yoke_alloc(s.device, n, (void **)&at));
    YOKE_TRY(yoke_fill(s.first, at, 7, n));
    YOKE_TRY(yoke_copy_to_host(s.first, host, at, n));
    YOKE_TRY(yoke_stream_sync(s.first));
    for (size_t i = 0; i < n; i++)
        if (host[i] != 7)
            return yoke_fail(YOKE_EINTERNAL, "a slot had an old byte: byte %zu is %d", i, host[i]);
    free(host);
    return YOKE_OK;
}

static yoke_status run_short_slots(const struct plant *plant) { return read_slots(plant, 1000); }
static yoke_status run_long_slots(const struct plant *plant) { return read_slots(plant, 1000000); }

/* The slots are coherent again, which a GPU does not cache. */
static hipError_t coherent_alloc(void **memory, size_t bytes, unsigned flags)
{
    (void)flags;
    return alloc_sound(memory, bytes, hipHostMallocPortable | hipHostMallocMapped | hipHostMallocCoherent);
}

/* What a function of the host has seen of a slot that the device writes without an event. */
static void look(void *slot) { seen = *(volatile unsigned char *)slot; }

static yoke_status run_coherent_slots(const struct plant *plant)
{
    char reason[YOKE_REASON_BYTES];
    struct set s;
    struct yokei_rt *rt;
    void *at;
    struct hip_library *hip = (struct hip_library *)(uintptr_t)yokei_hip_library(reason, sizeof reason);
    if (!hip) return yoke_fail(YOKE_ENODEV, "%s", reason);
    alloc_sound = hip->hipHostMalloc;
    if (is_planted) hip->hipHostMalloc = coherent_alloc;
    YOKE_TRY(open_set(plant, &s));
    YOKE_TRY(yoke_alloc(s.device, 64, &at));
    YOKE_TRY(yoke_fill(s.first, at, 7, 64));
    rt = yokei_rt(s.device);
    struct yokei_rt_stream *own = yokei_rt_stream(s.first);
    YOKE_TRY(yokei_rt_enter(s.device));
    int error = rt->calls->copy_out(rt, own->slot[0].host, at, 64, own->queue);
    if (!error) error = rt->calls->call_host(rt, own->queue, look, own->slot[0].host);
    yokei_rt_leave(s.device);
    if (error) return yokei_rt_fail(s.device, "a copy to a slot", error);
    YOKE_TRY(yoke_stream_sync(s.first));
    return seen == 7 ? yoke_fail(YOKE_EINTERNAL, "the slots are coherent") : YOKE_OK;
}

/* The host writes what a kernel reads when the kernel was launched, but has not begun. */
static yoke_status run_late_write(const struct plant *plant)
{
    char path[1024];
    float *host, result[N];
    uint32_t *word;
    struct set s;
    YOKE_TRY(open_set(plant, &s));
    const struct hip_library *hip = hip_device(s.device)->hip;
    yokei_stand_in_path("hip", "libamdhip64-emulated.so.6", path, sizeof path);
    void *library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    hipError_t (*wait)(hipStream_t, void *, uint32_t, unsigned, uint32_t) = NULL;
    if (library) *(void **)&wait = dlsym(library, "hipStreamWaitValue32");
    if (!wait || hip->hipHostMalloc((void **)&host, N * sizeof *host, hipHostMallocNonCoherent)
        || hip->hipHostMalloc((void **)&word, sizeof *word, hipHostMallocCoherent))
        return yoke_fail(YOKE_ENOMEM, "no memory");
    for (int i = 0; i < N; i++) host[i] = 1;
    YOKE_TRY(yoke_fill(s.first, s.y, 0, N * sizeof *s.y));
    __atomic_store_n(word, 0, __ATOMIC_SEQ_CST);
    if (wait(yokei_rt_stream(s.first)->queue, word, 1, 1, UINT32_MAX))
        return yoke_fail(YOKE_EINTERNAL, "no wait");
    for (int i = 0; i < N && !is_planted; i++) host[i] = 2;
    YOKE_TRY(yoke_add(s.first, &YOKE_ARGS(add, .dtype = YOKE_F32, .n = N, .x = host, .y = s.y, .z = s.x)));
    for (int i = 0; i < N; i++) host[i] = 2;
    __atomic_store_n(word, 1, __ATOMIC_SEQ_CST);
    YOKE_TRY(yoke_copy_to_host(s.first, result, s.x, sizeof result));
    YOKE_TRY(yoke_stream_sync(s.first));
    for (int i = 0; i < N; i++)
        if (result[i] != 2)
            return yoke_fail(YOKE_EINTERNAL, "the kernel has read an old number: %g", (double)result[i]);
    return YOKE_OK;
}

#endif
