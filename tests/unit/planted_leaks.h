/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A part of planted_cuda.c, with its types and functions: what the backend does not give back, contexts that
 * it does not pop, and copies that leave their slot of pinned memory.
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
    if (is_planted && what == LEAK_SLOT) cuda_stream(s.first)->slot.host = NULL;
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
    if (is_planted) YOKE_TRY(yokei_cuda_enter(s.device));
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
    struct cuda_piece *slot = &cuda_stream(s.second)->slot;
    if (is_planted) slot->host = (char *)slot->host - 8192, slot->at -= 8192;
    YOKE_TRY(to_device ? yoke_copy_to_device(s.second, memory, host, BYTES)
                       : yoke_copy_to_host(s.second, host, memory, BYTES));
    YOKE_TRY(yoke_stream_sync(s.second));
    YOKE_TRY(yoke_free(s.device, memory));
    return close_set(&s);
}

static yoke_status run_overlap_in(const struct plant *plant) { return overlap(plant, true); }
static yoke_status run_overlap_out(const struct plant *plant) { return overlap(plant, false); }

#endif
