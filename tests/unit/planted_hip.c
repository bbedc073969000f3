/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Planted errors that the stand-in libamdhip64 and its executor must find and name: one TAP line for each row
 * of the table below, which emulate/hip/README.md repeats. Each error is made in code of Yoke, in the text of
 * a kernel or in a call of the HIP backend, or in the machine code that the compiler has made. Each case also
 * runs without its error, and must then pass. The driver reads its variables once, so each case runs in a
 * process of its own. With a NAME as its argument, the program plants only this error. Some cases compile for
 * seconds, or need another compiler, and run only with YOKE_SOAK.
 */
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/hip/hip.h"
#include "core/base/base.h"
#include "emulate/gpu/emulate.h"

#define PLANTED_SPEC "hip:0"
#define PLANTED_EMULATE "hip:gfx90a"
#define PLANTED_COMPILER "ompile"
#define PLANTED_README "emulate/hip/README.md"
#define PLANTED_LATER(plant) (!getenv("YOKE_SOAK") && (plant)->is_later)

#include "tests/unit/planted_set.h"

/* The calls of the HIP backend, which a case may replace. */
static struct yokei_rt_calls *calls(struct set *s)
{
    static struct yokei_rt_calls own;
    struct yokei_rt *rt = (struct yokei_rt *)(uintptr_t)yokei_rt(s->device);
    if (rt->calls != &own) {
        own = *rt->calls;
        rt->calls = &own;
    }
    return &own;
}

#include "tests/unit/planted_memory.h"

/* ---- numbers ---- */

enum { MANY = 200 };

/* A layer norm whose weights and biases are the first row of x. rstd is one divided by the deviation. */
static yoke_status find_means(const struct plant *plant, float eps, const float x[MANY * C],
                              float y[MANY * C], float rstd[MANY])
{
    float *at_x, *at_y, *at_mean, *at_rstd;
    struct set s;
    YOKE_TRY(open_set(plant, &s));
    YOKE_TRY(yoke_alloc(s.device, MANY * C * sizeof *x, (void **)&at_x));
    YOKE_TRY(yoke_alloc(s.device, MANY * C * sizeof *x, (void **)&at_y));
    YOKE_TRY(yoke_alloc(s.device, MANY * sizeof *rstd, (void **)&at_mean));
    YOKE_TRY(yoke_alloc(s.device, MANY * sizeof *rstd, (void **)&at_rstd));
    YOKE_TRY(yoke_variant_force(s.device, "layernorm_forward", plant->variant));
    YOKE_TRY(yoke_copy_to_device(s.first, at_x, x, MANY * C * sizeof *x));
    YOKE_TRY(yoke_layernorm_forward(s.first,
                                    &YOKE_ARGS(layernorm_forward, .dtype = YOKE_F32, .N = MANY, .C = C,
                                               .x = at_x, .ldx = C, .gamma = at_x, .beta = at_x, .y = at_y,
                                               .ldy = C, .mean = at_mean, .rstd = at_rstd, .eps = eps)));
    YOKE_TRY(yoke_copy_to_host(s.first, y, at_y, MANY * C * sizeof *y));
    YOKE_TRY(yoke_copy_to_host(s.first, rstd, at_rstd, MANY * sizeof *rstd));
    return yoke_stream_sync(s.first);
}

/*
 * Rows of +a and -a, whose variance is a * a. So 1 / sqrt(a * a + eps) is the same float wherever square
 * roots and quotients are correctly rounded. The numbers a are multiples of `unit`.
 */
static yoke_status find_roots(const struct plant *plant, float unit, float eps)
{
    static float x[MANY * C], y[MANY * C], rstd[MANY];
    for (int i = 0; i < MANY * C; i++) x[i] = (i % 2 ? -1.0f : 1.0f) * (float)(1 + i / C) * unit;
    YOKE_TRY(find_means(plant, eps, x, y, rstd));
    for (int i = 0; i < MANY; i++) {
        const float wanted = 1.0f / sqrtf(x[i * C] * x[i * C] + eps);
        if (rstd[i] != wanted)
            return yoke_fail(YOKE_EINTERNAL, "rstd[%d] is %.9g instead of %.9g", i, (double)rstd[i],
                             (double)wanted);
    }
    return YOKE_OK;
}

static yoke_status run_roots(const struct plant *plant) { return find_roots(plant, 0x1p-7f, 1e-5f); }

/* Variances from 2^-140 on. The remainders of their roots are too small for a float. */
static yoke_status run_small_roots(const struct plant *plant)
{
    return find_roots(plant, 0x1p-70f, 0x1p-149f);
}

/* Rows of 0, 1, 2 and so on. Each lane of a team adds numbers of its own, and needs the sum of all. */
static yoke_status run_lanes(const struct plant *plant)
{
    static float x[MANY * C], y[MANY * C], rstd[MANY];
    for (int i = 0; i < MANY * C; i++) x[i] = (float)(i % C);
    YOKE_TRY(find_means(plant, 1e-5f, x, y, rstd));
    for (int i = 0; i < MANY * C; i++) {
        const float wanted = (x[i] - (C - 1) * 0.5f) * rstd[0] * x[i] + x[i];
        if (!(fabsf(y[i] - wanted) <= 1e-2f))
            return yoke_fail(YOKE_EINTERNAL, "y[%d, %d] is %g instead of %g", i / C, i % C, (double)y[i],
                             (double)wanted);
    }
    return YOKE_OK;
}

/* Products of -0 by 2, which are -0 in each type. */
static yoke_status run_zeros(const struct plant *plant)
{
    enum { ZEROS = 100 };
    static uint16_t x[ZEROS], y[ZEROS];
    struct set s;
    void *at;
    for (int i = 0; i < ZEROS; i++) x[i] = 0x8000;
    setenv("YOKE_EMULATE", "hip:gfx942", 1); /* clang compiles, which merges them */
    YOKE_TRY(open_set(plant, &s));
    YOKE_TRY(yoke_alloc(s.device, sizeof x, &at));
    YOKE_TRY(yoke_variant_force(s.device, "scale", plant->variant));
    YOKE_TRY(yoke_copy_to_device(s.first, at, x, sizeof x));
    YOKE_TRY(
        yoke_scale(s.first, &YOKE_ARGS(scale, .dtype = YOKE_F16, .n = ZEROS, .alpha = 2, .x = at, .y = at)));
    YOKE_TRY(yoke_copy_to_host(s.first, y, at, sizeof y));
    YOKE_TRY(yoke_stream_sync(s.first));
    for (int i = 0; i < ZEROS; i++)
        if (y[i] != 0x8000)
            return yoke_fail(YOKE_EINTERNAL, "y[%d] has the bits 0x%04x instead of 0x8000", i, y[i]);
    return YOKE_OK;
}

/* ---- kernels ---- */

/* A product whose tiles lie in LDS. */
static yoke_status run_tiles(const struct plant *plant)
{
    enum { SIDE = 70 };
    struct set s;
    float *a, *c;
    YOKE_TRY(open_set(plant, &s));
    YOKE_TRY(yoke_alloc(s.device, SIDE * SIDE * sizeof *a, (void **)&a));
    YOKE_TRY(yoke_alloc(s.device, SIDE * SIDE * sizeof *c, (void **)&c));
    YOKE_TRY(yoke_variant_force(s.device, "gemm", plant->variant));
    YOKE_TRY(yoke_fill(s.first, a, 0, SIDE * SIDE * sizeof *a));
    YOKE_TRY(yoke_gemm(s.first, &YOKE_ARGS(gemm, .dtype = YOKE_F32, .out_dtype = YOKE_F32, .batch = 1,
                                           .M = SIDE, .N = SIDE, .K = SIDE, .alpha = 1, .a = a, .lda = SIDE,
                                           .b = a, .ldb = SIDE, .c = c, .ldc = SIDE)));
    return yoke_stream_sync(s.first);
}

/* Old compilers wait for LDS in front of each barrier, also without a fence. For gfx942 clang compiles. */
static yoke_status run_fence(const struct plant *plant)
{
    setenv("YOKE_EMULATE", "hip:gfx942", 1);
    return run_tiles(plant);
}

/* Each thread has a long array of its own. */
static yoke_status run_deep(const struct plant *plant)
{
    setenv("YOKE_EMULATE", "hip:gfx942", 1); /* hipRTC of ROCm 5.2 does not know this limit */
    return run_kernel(plant);
}

/* In waves of 32 lanes a team of 64 lanes adds its numbers in LDS. */
static yoke_status run_race(const struct plant *plant)
{
    setenv("YOKE_EMULATE", "hip:gfx1100", 1);
    return run_kernel(plant);
}

/* ---- the order of memory within a wave ---- */

/*
 * A kernel in place of scale. The first of 32 lanes writes two numbers to local memory, one after the other,
 * and all read both. Without a fence the compiler may let the other lanes read before the first lane has
 * written, or take the second number from the first read.
 */
static const char two_numbers[] =
    "YK_KERNEL(scale)(float alpha, YK_PTR(const yk_t, x), YK_PTR(yk_t, y), yk_long n, "
    "yk_long per_team)\n"
    "{\n"
    "    YK_AT(yk_t, y);\n"
    "    YK_LOCAL float s[32];\n"
    "    const int t = yk_thread(), w = t / 32;\n"
    "    if (t % 32 == 0) s[w] = alpha;\n"
    "    YK_SYNC_WARP();\n"
    "    const float first = s[w];\n"
    "    YK_SYNC_WARP();\n"
    "    if (t % 32 == 0) s[w] = first + 1;\n"
    "    YK_SYNC_WARP();\n"
    "    const float second = s[w];\n"
    "    if (t < n) y[t] = 10 * first + second;\n"
    "}\n";
static const struct yokei_gpu_driver *driver_below;

static yoke_status build_two_numbers(yoke_device *device, const struct yokei_gpu_source *source,
                                     void **program_out)
{
    struct yokei_gpu_source other = *source;
    other.text = (char *)(uintptr_t)two_numbers;
    return driver_below->build(device, &other, program_out);
}

static yoke_status run_wave(const struct plant *plant)
{
    static struct yokei_gpu_driver other;
    static float y[32];
    struct set s;
    setenv("YOKE_EMULATE", "hip:gfx942", 1); /* clang compiles */
    YOKE_TRY(open_set(plant, &s));
    driver_below = yokei_gpu(s.device)->driver;
    other = *driver_below;
    other.build = build_two_numbers;
    yokei_gpu(s.device)->driver = &other;
    s.device->cache_dir[0] = '\0';
    YOKE_TRY(write_x(&s, s.first));
    YOKE_TRY(yoke_variant_force(s.device, "scale", plant->variant));
    YOKE_TRY(
        yoke_scale(s.first, &YOKE_ARGS(scale, .dtype = YOKE_F32, .n = 32, .alpha = 4, .x = s.x, .y = s.y)));
    YOKE_TRY(yoke_copy_to_host(s.first, y, s.y, sizeof y));
    YOKE_TRY(yoke_stream_sync(s.first));
    for (int i = 0; i < 32; i++)
        if (y[i] != 45)
            return yoke_fail(YOKE_EINTERNAL, "lane %d has read %g instead of 5", i, (double)y[i] - 40);
    return YOKE_OK;
}

/* Replace each s_waitcnt of the machine code by an s_nop. In CDNA 2 these are the words 0xbf8cXXXX. */
static __typeof__(yokei_hip_load) *load_sound;

static yoke_status load_without_waits(const yoke_device *device, const void *binary, size_t bytes,
                                      void **module_out)
{
    const uint32_t nop = 0xbf800000u;
    uint32_t word;
    char *copy = malloc(bytes);
    if (!copy) return yoke_fail(YOKE_ENOMEM, "no memory");
    memcpy(copy, binary, bytes);
    for (size_t i = 0; i + 4 <= bytes; i += 4) {
        memcpy(&word, copy + i, 4);
        if (word >> 16 == 0xbf8c) memcpy(copy + i, &nop, 4);
    }
    const yoke_status status = load_sound(device, copy, bytes, module_out);
    free(copy);
    return status;
}

static yoke_status run_waits(const struct plant *plant)
{
    struct set s;
    YOKE_TRY(open_set(plant, &s));
    load_sound = calls(&s)->load;
    if (is_planted) calls(&s)->load = load_without_waits;
    YOKE_TRY(write_x(&s, s.first));
    YOKE_TRY(norm(&s, s.first));
    return yoke_stream_sync(s.first);
}

/* The program of another processor comes from the cache. */
static yoke_status run_cache(const struct plant *plant)
{
    struct set s;
    setenv("YOKE_EMULATE", "hip:gfx942", 1);
    YOKE_TRY(open_set(plant, &s));
    if (is_planted) snprintf(hip_device(s.device)->arch, HIP_ARCH, "gfx90a:sramecc+:xnack-");
    YOKE_TRY(write_x(&s, s.first));
    YOKE_TRY(norm(&s, s.first));
    return yoke_stream_sync(s.first);
}

/* ---- calls that are left out, or made wrongly ---- */

static __typeof__(((struct yokei_rt_calls *)0)->launch) launch_sound;

static int launch_swapped(const struct yokei_rt *rt, void *kernel, const struct yokei_gpu_grid *grid,
                          void *queue, void **parameters)
{
    void *const first = parameters[0];
    parameters[0] = parameters[1];
    parameters[1] = first;
    return launch_sound(rt, kernel, grid, queue, parameters);
}

static void *other_queue;

static int launch_elsewhere(const struct yokei_rt *rt, void *kernel, const struct yokei_gpu_grid *grid,
                            void *queue, void **parameters)
{
    (void)queue;
    return launch_sound(rt, kernel, grid, other_queue, parameters);
}

static yoke_status run_argument(const struct plant *plant)
{
    struct set s;
    YOKE_TRY(open_set(plant, &s));
    launch_sound = calls(&s)->launch;
    if (is_planted) calls(&s)->launch = launch_swapped;
    YOKE_TRY(write_x(&s, s.first));
    YOKE_TRY(norm(&s, s.first));
    return yoke_stream_sync(s.first);
}

static yoke_status run_elsewhere(const struct plant *plant)
{
    struct set s;
    YOKE_TRY(open_set(plant, &s));
    launch_sound = calls(&s)->launch;
    other_queue = yokei_rt_stream(s.second)->queue;
    if (is_planted) calls(&s)->launch = launch_elsewhere;
    YOKE_TRY(hold(&s, s.first));
    YOKE_TRY(write_x(&s, s.first));
    YOKE_TRY(norm(&s, s.first));
    if (is_planted) YOKE_TRY(yoke_stream_sync(s.second));
    open_gate();
    return yoke_stream_sync(s.first);
}

static int do_not_wait(const struct yokei_rt *rt, void *queue, void *event)
{
    (void)rt, (void)queue, (void)event;
    return 0;
}

/* x has old values, which the second stream could read. */
static yoke_status run_no_wait(const struct plant *plant)
{
    struct set s;
    YOKE_TRY(open_set(plant, &s));
    YOKE_TRY(write_x(&s, s.first));
    YOKE_TRY(yoke_stream_sync(s.first));
    if (is_planted) calls(&s)->event_wait = do_not_wait;
    YOKE_TRY(write_x(&s, s.first));
    YOKE_TRY(yoke_event_record(s.event, s.first));
    YOKE_TRY(yoke_stream_wait(s.second, s.event));
    YOKE_TRY(norm(&s, s.second));
    YOKE_TRY(yoke_stream_sync(s.second));
    return yoke_stream_sync(s.first);
}

/* y is freed while the stream still writes it. */
static yoke_status run_freed(const struct plant *plant)
{
    struct set s;
    YOKE_TRY(open_set(plant, &s));
    YOKE_TRY(write_x(&s, s.first));
    if (is_planted) YOKE_TRY(hold(&s, s.first));
    YOKE_TRY(norm(&s, s.first));
    if (!is_planted) YOKE_TRY(yoke_stream_sync(s.first));
    YOKE_TRY(yoke_free(s.device, s.y));
    open_gate();
    return yoke_stream_sync(s.first);
}

static int do_not_sync(const struct yokei_rt *rt, void *event)
{
    (void)rt, (void)event;
    return 0;
}

static void *open_later(void *nothing)
{
    usleep(100000);
    open_gate();
    return nothing;
}

/* A stream is destroyed while it has work. Its slots may belong to another stream afterwards. */
static yoke_status run_destroyed(const struct plant *plant)
{
    struct set s;
    pthread_t thread;
    YOKE_TRY(open_set(plant, &s));
    if (is_planted) calls(&s)->event_sync = do_not_sync;
    YOKE_TRY(hold(&s, s.first));
    YOKE_TRY(write_x(&s, s.first));
    if (pthread_create(&thread, NULL, open_later, NULL)) return yoke_fail(YOKE_ENOMEM, "no thread");
    const yoke_status status = yoke_stream_destroy(s.first);
    const bool has_waited = atomic_load(&is_open);
    pthread_join(thread, NULL);
    if (!has_waited) return yoke_fail(YOKE_EINTERNAL, "the stream was destroyed before its work had ended");
    return status;
}

static hipError_t do_not_call(hipStream_t stream, hipStreamCallback_t function, void *argument,
                              unsigned flags)
{
    (void)stream, (void)function, (void)argument, (void)flags;
    return hipSuccess;
}

/* A long copy of pageable memory with a HIP that has no hipLaunchHostFunc. */
static yoke_status run_old_callbacks(const struct plant *plant)
{
    enum { LONG = 3 << 20 };
    struct set s;
    void *at;
    char *memory = malloc(LONG);
    if (!memory) return yoke_fail(YOKE_ENOMEM, "no memory");
    YOKE_TRY(open_set(plant, &s));
    struct hip_library *hip = (struct hip_library *)(uintptr_t)hip_device(s.device)->hip;
    hip->hipLaunchHostFunc = NULL;
    if (is_planted) hip->hipStreamAddCallback = do_not_call;
    YOKE_TRY(yoke_alloc(s.device, LONG, &at));
    YOKE_TRY(yoke_fill(s.first, at, 0, LONG));
    for (int i = 0; i < LONG; i++) memory[i] = (char)(i % 101);
    YOKE_TRY(yoke_copy_to_device(s.first, at, memory, LONG));
    YOKE_TRY(yoke_stream_sync(s.first));
    memset(memory, 0, LONG);
    YOKE_TRY(yoke_copy_to_host(s.first, memory, at, LONG));
    YOKE_TRY(yoke_stream_sync(s.first));
    for (int i = 0; i < LONG; i++)
        if (memory[i] != i % 101) return yoke_fail(YOKE_EINTERNAL, "byte %d is %d", i, memory[i]);
    free(memory);
    return YOKE_OK;
}

static int query_event(const struct yokei_rt *rt, void *event)
{
    return ((const struct hip_device *)rt)->hip->hipEventQuery(event);
}

/* An event that has not ended, and a version of HIP that keeps this as the last error of the thread. */
static yoke_status run_last_error(const struct plant *plant)
{
    struct set s;
    bool is_complete = true;
    setenv("YOKE_EMULATE_HIP", "5.2", 1);
    YOKE_TRY(open_set(plant, &s));
    if (is_planted) calls(&s)->event_query = query_event;
    YOKE_TRY(hold(&s, s.first));
    YOKE_TRY(yoke_event_record(s.event, s.first));
    YOKE_TRY(yoke_event_query(s.event, &is_complete));
    const hipError_t last = hip_device(s.device)->hip->hipGetLastError();
    open_gate();
    YOKE_TRY(yoke_stream_sync(s.first));
    if (is_complete) return yoke_fail(YOKE_EINTERNAL, "the event has ended too early");
    return last ? yoke_fail(YOKE_EINTERNAL, "the thread's last error is %d", last) : YOKE_OK;
}

static hipError_t misplaced_properties(void *properties, int device)
{
    (void)device;
    strcpy((char *)properties + 1160 - 4, "gfx90a"); /* 4 bytes before the place in HIP 6 */
    return hipSuccess;
}

/* The name of the architecture lies at a wrong place of the properties. */
static yoke_status run_layout(const struct plant *plant)
{
    struct set s;
    char reason[YOKE_REASON_BYTES];
    struct hip_library *hip = (struct hip_library *)(uintptr_t)yokei_hip_library(reason, sizeof reason);
    if (!hip) return yoke_fail(YOKE_ENODEV, "%s", reason);
    if (is_planted) hip->hipGetDeviceProperties = hip->hipGetDevicePropertiesR0600 = misplaced_properties;
    return open_set(plant, &s);
}

/* ---- leaks ---- */

static int keep_event(const struct yokei_rt *rt, void *event)
{
    (void)rt, (void)event;
    return 0;
}

static __typeof__(((struct yokei_rt_calls *)0)->event_destroy) destroy_event;

static int destroy_event_twice(const struct yokei_rt *rt, void *event)
{
    destroy_event(rt, event);
    return destroy_event(rt, event);
}

static int keep_locked(const struct yokei_rt *rt, void *memory)
{
    (void)rt, (void)memory;
    return 0;
}

static int keep_queue(const struct yokei_rt *rt, void *queue)
{
    (void)rt, (void)queue;
    return 0;
}

static int keep_module(const struct yokei_rt *rt, void *module)
{
    (void)rt, (void)module;
    return 0;
}

/* Use a device, and close it with all that it has. The driver looks for leaks at the end of a process. */
static yoke_status run_leaks(const struct plant *plant)
{
    static char stage[8192];
    struct set s;
    YOKE_TRY(open_set(plant, &s));
    YOKE_TRY(write_x(&s, s.first));
    YOKE_TRY(norm(&s, s.first));
    YOKE_TRY(yoke_stream_sync(s.first));
    destroy_event = calls(&s)->event_destroy;
    if (is_planted && strstr(plant->name, "leaked event")) calls(&s)->event_destroy = keep_event;
    if (is_planted && strstr(plant->name, "twice")) calls(&s)->event_destroy = destroy_event_twice;
    if (is_planted && strstr(plant->name, "module")) calls(&s)->module_unload = keep_module;
    if (is_planted && strstr(plant->name, "page lock")) calls(&s)->host_unlock = keep_locked;
    if (is_planted && strstr(plant->name, "leaked stream")) calls(&s)->queue_destroy = keep_queue;
    YOKE_TRY(yokei_rt_pin(s.device, stage, sizeof stage));
    yokei_rt_unpin(s.device, stage);
    YOKE_TRY(yoke_free(s.device, s.x));
    YOKE_TRY(yoke_free(s.device, s.y));
    YOKE_TRY(yoke_event_destroy(s.event));
    YOKE_TRY(yoke_stream_destroy(s.first));
    YOKE_TRY(yoke_stream_destroy(s.second));
    YOKE_TRY(yoke_device_close(s.device));
    exit(0);
}

/* ---- the table ---- */

#define OTHER "float other = memory[yk_thread() ^ (distance)]"
#define ROWS_OF(n) "yk_min_long(" n ", r + (per_team))"
/* clang-format off */
static const struct plant plants[] = {
    { "missing barrier", run_tiles, "team64", "__builtin_amdgcn_s_barrier();", "",
      "of shared memory that were never written", "gemm_team", true },
    { "wave size assumed 32", run_lanes, "l64w1", "((lane ^ (unsigned)distance) << 2)",
      "(((lane ^ (unsigned)distance) & 31u) << 2)", "y[0, ", " instead of " },
    { "bare v_sqrt", run_roots, "l1w1", "#define YK_SQRT(x) yk_root(x)",
      "#define YK_SQRT(x) __builtin_amdgcn_sqrtf(x)", "] is ", " instead of " },
    { "root without scaling", run_small_roots, "l1w1", "const int small = x < 0x1p-96f;", "const int small = 0;",
      "] is ", " instead of " },
    { "missing wave fence", run_wave, "l1w1",
      "(__builtin_amdgcn_fence(__ATOMIC_ACQ_REL, \"wavefront\"), __builtin_amdgcn_wave_barrier())", "((void)0)",
      "scale: thread (1,0,0)", "of shared memory that were never written" },
    { "merged conversion to f16", run_zeros, "l1w1", "asm(\"\" : \"+v\"(x));", "",
      "has the bits 0x0000", " instead of 0x8000" },
    { "race between blocks", run_kernel, "l32w1", "(yk_group(0) * YK_G + YK_THREAD / YK_L)",
      "(YK_THREAD / YK_L)", "wrote in the same launch", "(y + 0, byte 0", true },
    { "off by one", run_kernel, "l32w1", ROWS_OF("N"), ROWS_OF("N + 1"), "(0 bytes behind the end of x", NULL, true },
    { "uninitialised read", run_kernel, "l1w1", "{ yk_store1_##S(p, i, v); }",
      "{ if (i + 1 < n) yk_store1_##S(p, i, v); }", "(y + 368, byte 368 of the 1920 bytes",
      "that were never written", true },
    { "missing s_waitcnt", run_waits, NULL, NULL, NULL, "layernorm_forward: ", "wait" },
    { "wrong argument offset", run_argument, NULL, NULL, NULL, "layernorm_forward: ", "outside all allocations" },
    { "wrong stream", run_elsewhere, NULL, NULL, NULL, "layernorm_forward: thread", "(x + " },
    { "missing event wait", run_no_wait, NULL, NULL, NULL, "a race between streams: ",
      "and nothing orders the two commands. Stream " },
    { "freed too early", run_freed, NULL, NULL, NULL, "that were freed", "layernorm_forward" },
    { "stream destroyed early", run_destroyed, NULL, NULL, NULL, "was destroyed before its work had ended", NULL },
    { "callback not called", run_old_callbacks, NULL, NULL, NULL, "byte ", " is 0" },
    { "last error kept", run_last_error, NULL, NULL, NULL, "the thread's last error is 600", NULL },
    { "coherent memory assumed", run_coherent, NULL, NULL, NULL, "the host has read old bytes", NULL },
    { "no event before a slot is read", run_short_slots, NULL, NULL, NULL, "a slot had an old byte: byte 0 is 0", NULL },
    { "events of slots for the device alone", run_long_slots, NULL, NULL, NULL, "a slot had an old byte: ", NULL },
    { "coherent slots", run_coherent_slots, NULL, NULL, NULL, "the slots are coherent", NULL },
    { "memory written after the launch", run_late_write, NULL, NULL, NULL, "the kernel has read an old number: 1", NULL },
    { "leaked event", run_leaks, NULL, NULL, NULL, "not destroyed: an event", NULL },
    { "event destroyed twice", run_leaks, NULL, NULL, NULL, "is no event, or it was destroyed before", NULL },
    { "leaked page lock", run_leaks, NULL, NULL, NULL, "not unregistered: 8192 bytes", NULL },
    { "leaked stream", run_leaks, NULL, NULL, NULL, "not destroyed: a stream", NULL },
    { "leaked module", run_leaks, NULL, NULL, NULL, "not destroyed: a module", NULL },
    { "race in LDS", run_race, "l64w1", OTHER ";     \\\n    yk_barrier()", OTHER,
      "of shared memory that", "with no barrier between them", true },
    { "barrier without a fence", run_fence, "team64", "__builtin_amdgcn_fence(__ATOMIC_RELEASE, \"workgroup\");", "",
      "its access of LDS", "was not waited for" },
    { "too much LDS", run_fence, "team64", "YK_FN void yk_barrier()\n{",
      "YK_FN void yk_barrier()\n{\n    YK_LOCAL float waste[20000];\n    waste[YK_THREAD] = 1;\n"
      "    asm volatile(\"\" ::\"v\"(waste[YK_THREAD * 7]));",
      "local memory (", " exceeds limit (65536) in 'gemm_team'", true },
    { "too much scratch memory", run_deep, "l1w1", "const int small = x < 0x1p-96f;",
      "float waste[40000];\n    for (int i = 0; i < (int)x; i++) waste[(i * 17) % 40000] = x;\n"
      "    const int small = x < waste[(int)x % 40000];",
      "norm.yk:", ") exceeds limit (131056) in function 'layernorm_forward'" },
    { "wrong layout of hipDeviceProp_t", run_layout, NULL, NULL, NULL, "does not tell the architecture", NULL },
    { "program of another processor", run_cache, NULL, NULL, NULL, "gfx942", "gfx90a", true },
};
/* clang-format on */

#include "tests/unit/planted_run.h"
