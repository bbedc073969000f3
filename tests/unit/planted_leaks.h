/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A part of planted_cuda.c, with its types and functions: what the backend does not give back, contexts that
 * it does not pop, and copies that leave their slot of pinned memory or their stage in registered memory.
 */
#ifndef TESTS_UNIT_PLANTED_LEAKS_H
#define TESTS_UNIT_PLANTED_LEAKS_H

static CUresult forget_event(CUevent event)
{
    (void)event;
    return CUDA_SUCCESS;
}

static CUresult forget_module(CUmodule module)
{
    (void)module;
    return CUDA_SUCCESS;
}

static CUresult forget_context(CUdevice device)
{
    (void)device;
    return CUDA_SUCCESS;
}

static yoke_status close_set(const struct set *s)
{
    YOKE_TRY(yoke_free(s->device, s->x));
    YOKE_TRY(yoke_free(s->device, s->y));
    YOKE_TRY(yoke_event_destroy(s->event));
    YOKE_TRY(yoke_stream_destroy(s->first));
    YOKE_TRY(yoke_stream_destroy(s->second));
    return yoke_device_close(s->device);
}

enum leak { LEAK_SLOT, LEAK_EVENT, LEAK_MODULE, LEAK_CONTEXT };

/* Use a device, and close it with all that it has. */
static yoke_status leak(const struct plant *plant, enum leak what)
{
    struct set s;
    YOKE_TRY(open_set(plant, &s));
    struct cuda_library *cu = calls(&s);
    YOKE_TRY(write_x(&s, s.first));
    YOKE_TRY(norm(&s, s.first));
    YOKE_TRY(yoke_stream_sync(s.first));
    if (is_planted && what == LEAK_SLOT) yokei_rt_stream(s.first)->slot[0].host = NULL;
    if (is_planted && what == LEAK_EVENT) cu->cuEventDestroy_v2 = forget_event;
    if (is_planted && what == LEAK_MODULE) cu->cuModuleUnload = forget_module;
    if (is_planted && what == LEAK_CONTEXT) cu->cuDevicePrimaryCtxRelease_v2 = forget_context;
    YOKE_TRY(close_set(&s));
    if (what == LEAK_CONTEXT) exit(0); /* the driver looks for contexts at the end of a process */
    return YOKE_OK;
}

static yoke_status run_leaked_slot(const struct plant *plant) { return leak(plant, LEAK_SLOT); }
static yoke_status run_leaked_event(const struct plant *plant) { return leak(plant, LEAK_EVENT); }
static yoke_status run_leaked_module(const struct plant *plant) { return leak(plant, LEAK_MODULE); }
static yoke_status run_leaked_context(const struct plant *plant) { return leak(plant, LEAK_CONTEXT); }

/* A call fails, and does not leave the context. The next call of the thread finds it. */
static yoke_status run_not_popped(const struct plant *plant)
{
    struct set s;
    YOKE_TRY(open_set(plant, &s));
    if (is_planted) YOKE_TRY(yokei_rt_enter(s.device));
    YOKE_TRY(write_x(&s, s.first));
    YOKE_TRY(yoke_stream_sync(s.first));
    return close_set(&s);
}

/* A stream's slot begins in the last page of the slot of another stream. */
static yoke_status overlap(const struct plant *plant, bool to_device)
{
    enum { BYTES = 16384 };
    static char host[BYTES];
    struct set s;
    void *memory;
    YOKE_TRY(open_set(plant, &s));
    YOKE_TRY(yoke_alloc(s.device, BYTES, &memory));
    YOKE_TRY(yoke_fill(s.second, memory, 0, BYTES));
    if (is_planted) yokei_rt_stream(s.second)->staging.slot[0] -= 8192;
    YOKE_TRY(to_device ? yoke_copy_to_device(s.second, memory, host, BYTES)
                       : yoke_copy_to_host(s.second, host, memory, BYTES));
    YOKE_TRY(yoke_stream_sync(s.second));
    YOKE_TRY(yoke_free(s.device, memory));
    return close_set(&s);
}

static yoke_status run_overlap_in(const struct plant *plant) { return overlap(plant, true); }
static yoke_status run_overlap_out(const struct plant *plant) { return overlap(plant, false); }

/* ---- stages in registered memory ---- */

enum stage_error { STAGE_LEAKS, STAGE_LEAVES_EARLY, STAGE_OVERLAPS, STAGE_OVERLAPS_BY_HOST };
enum { STAGE = 65536, STAGE_GAP = 4096 };

static CUresult forget_unregister(void *memory)
{
    (void)memory;
    return CUDA_SUCCESS;
}

/*
 * Copy to the first of two stages in shared memory that is page-locked. The page behind each is forbidden, as
 * it is in the memory of a communicator.
 */
static yoke_status use_stages(const struct plant *plant, enum stage_error what)
{
    struct set s;
    void *source;
    YOKE_TRY(open_set(plant, &s));
    YOKE_TRY(yoke_alloc(s.device, 2 * STAGE, &source));
    YOKE_TRY(yoke_fill(s.first, source, 1, 2 * STAGE));
    char *stages = mmap(NULL, 2 * (STAGE + STAGE_GAP), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                        0);
    if (stages == MAP_FAILED) return yoke_fail(YOKE_ENOMEM, "no stages");
    YOKE_TRY(yokei_pin(s.device, stages, 2 * (STAGE + STAGE_GAP), "two stages"));
    for (int i = 1; i <= 2; i++)
        YOKE_TRY(yokei_annotate(s.device, NULL,
                                &(struct yokei_annotation){ stages + i * STAGE + (i - 1) * STAGE_GAP,
                                                            STAGE_GAP, YOKEI_MEMORY_FORBIDDEN, NULL, 0 }));
    if (is_planted && what == STAGE_LEAKS) calls(&s)->cuMemHostUnregister = forget_unregister;
    if (is_planted && what == STAGE_LEAVES_EARLY) YOKE_TRY(hold(&s, s.first));
    const bool is_long = is_planted && what == STAGE_OVERLAPS;
    YOKE_TRY(yoke_copy_to_host(s.first, stages, source, is_long ? STAGE + 4 : STAGE));
    if (is_planted && what == STAGE_LEAVES_EARLY) {
        yokei_unpin(s.device, stages);
        open_gate();
    }
    YOKE_TRY(yoke_stream_sync(s.first));
    memset(stages, 2, is_planted && what == STAGE_OVERLAPS_BY_HOST ? STAGE + 4 : STAGE);
    yokei_unpin(s.device, stages);
    if (!is_planted) memset(stages, 3, 2 * (STAGE + STAGE_GAP)); /* nothing is forbidden any more */
    munmap(stages, 2 * (STAGE + STAGE_GAP));
    YOKE_TRY(yoke_free(s.device, source));
    return close_set(&s);
}

static yoke_status run_stage_leaks(const struct plant *plant) { return use_stages(plant, STAGE_LEAKS); }
static yoke_status run_stage_early(const struct plant *plant)
{
    return use_stages(plant, STAGE_LEAVES_EARLY);
}
static yoke_status run_stage_over(const struct plant *plant) { return use_stages(plant, STAGE_OVERLAPS); }
static yoke_status run_stage_host(const struct plant *plant)
{
    return use_stages(plant, STAGE_OVERLAPS_BY_HOST);
}

#endif
