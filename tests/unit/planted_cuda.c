/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Planted errors that the stand-in CUDA driver must find and name: one TAP line for each row of the table
 * below, which emulate/cuda/README.md repeats. Each error is made in code of Yoke: in the text of a kernel
 * that NVRTC compiles, in a call of the CUDA backend to the driver, or in a layer of a training step. Each
 * case also runs without its error, and must then pass. The driver reads its variables once, so each case
 * runs in a process of its own. With a NAME as its argument, the program plants only this error.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/cuda/cuda.h"
#include "core/base/base.h"
#include "emulate/cuda/emulate.h"
#include "train/trainer/trainer.h"

#define PLANTED_SPEC "cuda:0"
#define PLANTED_EMULATE "cuda:9.0"
#define PLANTED_COMPILER "NVRTC"
#define PLANTED_README "emulate/cuda/README.md"
#define PLANTED_LATER(plant) false

#include "tests/unit/planted_set.h"

/* The calls of the CUDA backend to the driver, which a case may replace. */
static struct cuda_library *calls(const struct set *s)
{
    return (struct cuda_library *)(uintptr_t)cuda_device(s->device)->cu;
}

/* ---- errors of the host: calls to the driver that are left out, or made wrongly ---- */

static CUresult forget_wait(CUstream stream, CUevent event, unsigned flags)
{
    (void)stream, (void)event, (void)flags;
    return CUDA_SUCCESS;
}

static yoke_status run_event(const struct plant *plant)
{
    struct set s;
    YOKE_TRY(open_set(plant, &s));
    if (is_planted) calls(&s)->cuStreamWaitEvent = forget_wait;
    YOKE_TRY(hold(&s, s.first));
    YOKE_TRY(write_x(&s, s.first));
    YOKE_TRY(yoke_event_record(s.event, s.first));
    YOKE_TRY(yoke_stream_wait(s.second, s.event));
    YOKE_TRY(norm(&s, s.second));
    if (is_planted) YOKE_TRY(yoke_stream_sync(s.second)); /* the second stream is quicker */
    open_gate();
    return yoke_stream_sync(s.second);
}

/* The same where x has old values, which the second stream could read. */
static yoke_status run_old_values(const struct plant *plant)
{
    struct set s;
    YOKE_TRY(open_set(plant, &s));
    YOKE_TRY(write_x(&s, s.first));
    YOKE_TRY(yoke_stream_sync(s.first));
    if (is_planted) calls(&s)->cuStreamWaitEvent = forget_wait;
    YOKE_TRY(write_x(&s, s.first));
    YOKE_TRY(yoke_event_record(s.event, s.first));
    YOKE_TRY(yoke_stream_wait(s.second, s.event));
    YOKE_TRY(norm(&s, s.second));
    YOKE_TRY(yoke_stream_sync(s.second));
    return yoke_stream_sync(s.first);
}

static CUresult forget_sync(CUevent event)
{
    (void)event;
    return CUDA_SUCCESS;
}

/* A larger scratch memory: yoke_stream_reserve frees the old one behind a wait. */
static yoke_status run_free(const struct plant *plant)
{
    struct set s;
    struct yoke_cost cost = YOKE_COST_INIT;
    YOKE_TRY(open_set(plant, &s));
    const struct yoke_bias_backward_args args = YOKE_ARGS(bias_backward, .dtype = YOKE_F32, .N = ROWS, .C = C,
                                                          .dy = s.x, .ld = C, .dbias = s.y);
    CUresult (*const sync)(CUevent) = calls(&s)->cuEventSynchronize;
    YOKE_TRY(write_x(&s, s.first));
    YOKE_TRY(yoke_fill(s.first, s.y, 0, N * sizeof *s.y));
    YOKE_TRY(yoke_bias_backward_can(s.device, &args, &cost));
    YOKE_TRY(yoke_stream_reserve(s.first, cost.scratch_bytes));
    if (is_planted) YOKE_TRY(hold(&s, s.first));
    YOKE_TRY(yoke_bias_backward(s.first, &args));
    if (is_planted) calls(&s)->cuEventSynchronize = forget_sync;
    YOKE_TRY(yoke_stream_reserve(s.first, 4096 + cost.scratch_bytes));
    calls(&s)->cuEventSynchronize = sync;
    open_gate();
    return yoke_stream_sync(s.first);
}

static void *same_address(const yoke_device *device, const void *address)
{
    (void)device;
    return (void *)(uintptr_t)address;
}

/* As the collectives do: what the host can see is read in place, all else is copied. */
static yoke_status run_host_read(const struct plant *plant)
{
    static struct yoke_backend backend;
    static struct yoke_memory_ops memory;
    static float values[N];
    volatile float sum = 0;
    struct set s;
    YOKE_TRY(open_set(plant, &s));
    memory = *s.device->backend->memory;
    backend = *s.device->backend;
    if (is_planted) memory.host_ptr = same_address;
    backend.memory = &memory;
    s.device->backend = &backend;
    YOKE_TRY(write_x(&s, s.first));
    YOKE_TRY(yoke_stream_sync(s.first));
    const float *from = yoke_host_ptr(s.device, s.x);
    if (!from) {
        YOKE_TRY(yoke_copy_to_host(s.first, values, s.x, sizeof values));
        YOKE_TRY(yoke_stream_sync(s.first));
        from = values;
    }
    for (int i = 0; i < N; i++) sum = sum + from[i];
    return YOKE_OK;
}

static __typeof__(((struct cuda_library *)0)->cuLaunchKernel) launch_kernel;
static CUstream other_queue;

static CUresult launch_elsewhere(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                 unsigned by, unsigned bz, unsigned shared, CUstream stream,
                                 void **parameters, void **extra)
{
    (void)stream;
    return launch_kernel(f, gx, gy, gz, bx, by, bz, shared, other_queue, parameters, extra);
}

static yoke_status run_stream(const struct plant *plant)
{
    struct set s;
    YOKE_TRY(open_set(plant, &s));
    launch_kernel = calls(&s)->cuLaunchKernel;
    other_queue = yokei_rt_stream(s.second)->queue;
    if (is_planted) calls(&s)->cuLaunchKernel = launch_elsewhere;
    YOKE_TRY(hold(&s, s.first));
    YOKE_TRY(write_x(&s, s.first));
    YOKE_TRY(norm(&s, s.first));
    if (is_planted) YOKE_TRY(yoke_stream_sync(s.second));
    open_gate();
    return yoke_stream_sync(s.first);
}

/* The driver refuses a grid without blocks, and nobody looks at what it says. */
static CUresult launch_unheard(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                               unsigned bz, unsigned shared, CUstream stream, void **parameters, void **extra)
{
    (void)gx;
    (void)launch_kernel(f, 0, gy, gz, bx, by, bz, shared, stream, parameters, extra);
    return CUDA_SUCCESS;
}

static yoke_status run_unheard(const struct plant *plant)
{
    struct set s;
    YOKE_TRY(open_set(plant, &s));
    YOKE_TRY(write_x(&s, s.first));
    launch_kernel = calls(&s)->cuLaunchKernel;
    if (is_planted) calls(&s)->cuLaunchKernel = launch_unheard;
    YOKE_TRY(norm(&s, s.first));
    calls(&s)->cuLaunchKernel = launch_kernel;
    YOKE_TRY(add(&s, s.first));
    return yoke_stream_sync(s.first);
}

/* The loader gets the backend's list of functions, in which one stands without its version. */
static yoke_status run_symbol(const struct plant *plant)
{
    static struct cuda_library library;
/* clang-format off */
#define SYMBOL(result, name, parameters) { #name, &library.name },
    /* clang-format on */
    static struct yokei_symbol symbols[] = { YOKEI_CUDA_FUNCTIONS(SYMBOL) };
#undef SYMBOL
    struct set s;
    char path[1024], why[512];
    const char *const names[] = { path, NULL };
    YOKE_TRY(open_set(plant, &s));
    yokei_cuda_driver_file(path, sizeof path);
    for (size_t i = 0; i < YOKE_COUNT(symbols) && is_planted; i++)
        if (!strcmp(symbols[i].name, "cuMemAlloc_v2")) symbols[i].name = "cuMemAlloc";
    if (!yokei_dl_open(names, symbols, YOKE_COUNT(symbols), why, sizeof why))
        return yoke_fail(YOKE_EBACKEND, "%s", why);
    return library.cuMemAlloc_v2 == calls(&s)->cuMemAlloc_v2
               ? YOKE_OK
               : yoke_fail(YOKE_EBACKEND, "another cuMemAlloc_v2 was found");
}

#include "tests/unit/planted_leaks.h"

#include "tests/unit/planted_step.h"

/* ---- the table ---- */

#define OTHER "        other = memory[yk_thread() ^ (distance)];       \\\n"
#define ROWS_OF(n) "yk_min_long(" n ", r + (per_team))"
#define NOT_WRITTEN(of) of " of the 1920 bytes", "that were never written"
/* clang-format off */
static const struct plant plants[] = {
    { "missing barrier", run_kernel, "l64w1", OTHER "        yk_barrier();                                   \\\n    }", OTHER "    }",
      "of shared memory that", "with no barrier between them" },
    { "race between blocks", run_kernel, "l32w1", "(yk_group(0) * YK_G + YK_THREAD / YK_L)",
      "(YK_THREAD / YK_L)", "wrote in the same launch", "(y + 0, byte 0" },
    { "race in a block", run_kernel, "l32w1", "(yk_group(0) * YK_G + YK_THREAD / YK_L)",
      "(yk_group(0) * YK_G + YK_THREAD / YK_L / 2 * 2)",
      "of the same block wrote, with no barrier between them", "(y + 0, byte 0" },
    { "off by one", run_kernel, "l32w1", ROWS_OF("N"), ROWS_OF("N + 1"),
      "(0 bytes behind the end of x", "reads 16 bytes" },
    { "uninitialised read", run_kernel, "l1w1", "{ yk_store1_##S(p, i, v); }",
      "{ if (i + 1 < n) yk_store1_##S(p, i, v); }", NOT_WRITTEN("(y + 368, byte 368") },
    { "neighbour's tensor", run_neighbour, NULL, NULL, NULL,
      "(0 bytes behind the end of y of h.0.mlp, micro-batch 0", "writes 16 bytes" },
    { "neighbour's tensor in a stash", run_field, NULL, NULL, NULL,
      "(what F leaves for B of h.0.mlp, micro-batch 0 + 2048", "writes 16 bytes" },
    { "read after lifetime", run_ended, NULL, NULL, NULL,
      "(dx of ln_f, micro-batch 0, which has ended, + 0", " reads " },
    { "missing event wait", run_event, NULL, NULL, NULL, NOT_WRITTEN("(x + 0, byte 0") },
    { "missing event wait, old values", run_old_values, NULL, NULL, NULL,
      "a race between streams: ", "and nothing orders the two commands. Stream " },
    { "freed too early", run_free, NULL, NULL, NULL, "that were freed", "bias_backward" },
    { "host read of device memory", run_host_read, NULL, NULL, NULL,
      "the host touches device memory", "(x + 0, byte 0" },
    { "wrong stream", run_stream, NULL, NULL, NULL, NOT_WRITTEN("(x + 0, byte 0") },
    { "dropped error code", run_unheard, NULL, NULL, NULL, NOT_WRITTEN("(y + 0, byte 0") },
    { "wrong symbol version", run_symbol, NULL, NULL, NULL, "has no symbol cuMemAlloc:", NULL },
    { "misaligned vector", run_kernel, "l32w1", "if (exists) t.part[j] = ((const yk_floats4 *)(p + i))[j];",
      "if (exists) t.part[j] = ((const yk_floats4 *)(p + i + 1))[j];",
      "reads 16 bytes", "at an address that is no multiple of the size" },
    { "wrong warp mask", run_kernel, "l32w1", "0xffffffffu, x", "0xfffffffeu, x",
      "is not in the mask 0xfffffffe of its own instruction", NULL },
    { "leaked staging slot", run_leaked_slot, NULL, NULL, NULL, "not freed: ", ", staging slots" },
    { "leaked event", run_leaked_event, NULL, NULL, NULL, "not destroyed: an event", NULL },
    { "leaked module", run_leaked_module, NULL, NULL, NULL, "not destroyed: a module", NULL },
    { "leaked context", run_leaked_context, NULL, NULL, NULL, "not released: the primary context", NULL },
    { "context not popped", run_not_popped, NULL, NULL, NULL,
      "an earlier call of the CUDA backend has not popped its context", NULL },
    { "overlapping slots, to the device", run_overlap_in, NULL, NULL, NULL,
      "the host touches a red zone between pieces of pinned memory", "staging slots" },
    { "overlapping slots, to the host", run_overlap_out, NULL, NULL, NULL,
      "a copy to of 16384 bytes", "staging slots" },
    { "leaked registration", run_stage_leaks, NULL, NULL, NULL,
      "not unregistered: 139264 bytes of the host's memory at ", ", two stages" },
    { "unregistered too early", run_stage_early, NULL, NULL, NULL,
      "a copy to of 65536 bytes", "touches memory that is not allocated" },
    { "overlapping stages", run_stage_over, NULL, NULL, NULL,
      "a copy to of 65540 bytes", "touches memory that it may not touch" },
    { "overlapping stages, by the host", run_stage_host, NULL, NULL, NULL,
      "the host touches a red zone between pieces of pinned memory", "two stages + 65536" },
};
/* clang-format on */

#include "tests/unit/planted_run.h"
