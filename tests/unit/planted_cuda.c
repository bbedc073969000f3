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

enum { ROWS = 5, C = 96, N = ROWS * C };

struct plant {
    const char *name;
    yoke_status (*run)(const struct plant *plant);
    /* in the prelude of each kernel: replace `find`, which must occur once, by `by` */
    const char *variant, *find, *by;
    const char *text, *also; /* what the error must say; `also` may be NULL */
};

_Static_assert((int)YOKEI_MEMORY_UNDEFINED == (int)YOKE_EMULATE_UNDEFINED
                   && (int)YOKEI_MEMORY_DEFINED == (int)YOKE_EMULATE_DEFINED
                   && (int)YOKEI_MEMORY_FORBIDDEN == (int)YOKE_EMULATE_FORBIDDEN,
               "the states have the numbers of the stand-in");

static bool is_planted; /* the error is in */

/* ---- tensors and an op ---- */

struct set {
    yoke_device *device;
    yoke_stream *first, *second;
    yoke_event *event;
    float *x, *y; /* [ROWS, C] on the device, by the names x and y */
};

static const struct yokei_gpu_driver *sound_driver;
static const struct plant *changing;

/* Compile the text with its error. The file norm.yk ends behind layernorm_forward, to be compiled sooner. */
static yoke_status build(yoke_device *device, const struct yokei_gpu_source *source, void **program_out)
{
    static const char next[] = "YK_KERNEL(layernorm_backward)";
    struct yokei_gpu_source wrong = *source;
    const char *at = strstr(source->prelude, changing->find), *cut = strstr(source->text, next);
    if (!at || strstr(at + 1, changing->find))
        return yoke_fail(YOKE_EINTERNAL, "'%s' does not stand once in the prelude; adapt the table",
                         changing->find);
    if (cut && changing->variant[1] != '1') cut = strstr(cut + 1, next);
    const bool is_norm = cut != NULL;
    if (is_norm != !strcmp(source->name, "norm"))
        return yoke_fail(YOKE_EINTERNAL, "norm.yk has changed; adapt where its text is cut");
    char *prelude = NULL, *text = NULL;
    if (asprintf(&prelude, "%.*s%s%s", (int)(at - source->prelude), source->prelude, changing->by,
                 at + strlen(changing->find))
            < 0
        || (is_norm && asprintf(&text, "%.*s\n#endif\n", (int)(cut - source->text), source->text) < 0)) {
        free(prelude);
        return yoke_fail(YOKE_ENOMEM, "no memory");
    }
    wrong.prelude = prelude;
    if (is_norm) wrong.text = text;
    const yoke_status status = sound_driver->build(device, &wrong, program_out);
    free(prelude);
    free(text);
    return status;
}

static yoke_status named(yoke_device *device, const char *name, float **out)
{
    YOKE_TRY(yoke_alloc(device, N * sizeof **out, (void **)out));
    return yokei_annotate(device, NULL,
                          &(struct yokei_annotation){ *out, N * sizeof **out, YOKEI_MEMORY_AS_IS, name, 0 });
}

static yoke_status open_set(const struct plant *plant, struct set *s)
{
    static struct yokei_gpu_driver wrong;
    YOKE_TRY(yoke_device_open("cuda:0", NULL, &s->device));
    if (plant->find && is_planted) {
        changing = plant;
        sound_driver = yokei_gpu(s->device)->driver;
        wrong = *sound_driver;
        wrong.build = build;
        yokei_gpu(s->device)->driver = &wrong;
        s->device->cache_dir[0] = '\0'; /* so that no wrong program stays in the cache */
    }
    YOKE_TRY(yoke_stream_create(s->device, &s->first));
    YOKE_TRY(yoke_stream_create(s->device, &s->second));
    YOKE_TRY(yoke_event_create(s->device, &s->event));
    YOKE_TRY(named(s->device, "x", &s->x));
    return named(s->device, "y", &s->y);
}

static yoke_status write_x(struct set *s, yoke_stream *stream)
{
    static float values[N];
    for (int i = 0; i < N; i++) values[i] = (float)(i % 13) - 6;
    return yoke_copy_to_device(stream, s->x, values, sizeof values);
}

/* The calls of the CUDA backend to the driver, which a case may replace. */
static struct cuda_library *calls(const struct set *s)
{
    return (struct cuda_library *)(uintptr_t)cuda_device(s->device)->cu;
}

static atomic_bool is_open;

static void wait_until_open(void *nothing)
{
    (void)nothing;
    while (!atomic_load(&is_open)) usleep(500);
}

/*
 * The stream's work waits in the driver from here on, until the gate is opened. (Yoke itself would keep the
 * later calls in the process.)
 */
static yoke_status hold(struct set *s, yoke_stream *stream)
{
    YOKE_TRY(yokei_rt_enter(s->device));
    const CUresult error = calls(s)->cuLaunchHostFunc(yokei_rt_stream(stream)->queue, wait_until_open, NULL);
    yokei_rt_leave(s->device);
    return error ? yokei_rt_fail(s->device, "cuLaunchHostFunc", error) : YOKE_OK;
}

static void open_gate(void) { atomic_store(&is_open, true); }

static yoke_status norm(struct set *s, yoke_stream *stream)
{
    return yoke_layernorm_forward(stream, &YOKE_ARGS(layernorm_forward, .dtype = YOKE_F32, .N = ROWS, .C = C,
                                                     .x = s->x, .ldx = C, .gamma = s->x, .beta = s->x,
                                                     .y = s->y, .ldy = C, .eps = 1e-5f));
}

static yoke_status add(struct set *s, yoke_stream *stream)
{
    return yoke_add(stream, &YOKE_ARGS(add, .dtype = YOKE_F32, .n = N, .x = s->x, .y = s->y, .z = s->x));
}

/* ---- errors of kernels: an op of rows ---- */

static yoke_status run_kernel(const struct plant *plant)
{
    struct set s;
    YOKE_TRY(open_set(plant, &s));
    YOKE_TRY(yoke_variant_force(s.device, "layernorm_forward", plant->variant));
    YOKE_TRY(write_x(&s, s.first));
    YOKE_TRY(norm(&s, s.first));
    if (strstr(plant->text, "of the 1920 bytes")) YOKE_TRY(add(&s, s.first)); /* it reads all of y */
    return yoke_stream_sync(s.first);
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

#define OTHER "float other = memory[yk_thread() ^ (distance)]"
#define ROWS_OF(n) "yk_min_long(" n ", r + (per_team))"
#define NOT_WRITTEN(of) of " of the 1920 bytes", "that were never written"
/* clang-format off */
static const struct plant plants[] = {
    { "missing barrier", run_kernel, "l64w1", OTHER ";     \\\n    yk_barrier()", OTHER,
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
    { "misaligned vector", run_kernel, "l32w1", "if (even) return yk_evenn_f32(p, i);",
      "if (even) return yk_evenn_f32(p + 1, i);",
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

/* ---- running ---- */

static char log_path[64];

static void be_child(const struct plant *plant, int end)
{
    setenv("YOKE_EMULATE", "cuda:9.0", 1);
    setenv("YOKE_EMULATE_LOG", log_path, 1);
    setenv("YOKE_EMULATE_LEAKS", "fatal", 1);
    signal(SIGSEGV, SIG_DFL); /* a sanitizer would catch it */
    const yoke_status status = plant->run(plant);
    dprintf(end, "%s", status ? yoke_last_error() : "");
    fflush(stdout);
    _exit(status == YOKE_OK ? 0 : status == YOKE_ENODEV ? 2 : 1);
}

static void append_log(char *text, size_t bytes)
{
    const size_t used = strlen(text);
    FILE *log = fopen(log_path, "r");
    text[used + (log ? fread(text + used, 1, bytes - used - 1, log) : 0)] = '\0';
    if (log) fclose(log);
    for (char *at = text; *at; at++)
        if (*at == '\n') *at = ' ';
}

/* Run a case in a child. Returns its status of waitpid, and what it and the driver have said. */
static int run(const struct plant *plant, bool planted, char *text, size_t bytes)
{
    int ends[2], status = -1;
    size_t used = 0;
    text[0] = '\0';
    if (pipe(ends)) return -1;
    unlink(log_path);
    fflush(stdout);
    const pid_t child = fork();
    if (!child) {
        is_planted = planted;
        be_child(plant, ends[1]);
    }
    close(ends[1]);
    for (ssize_t n; used < bytes - 1 && (n = read(ends[0], text + used, bytes - 1 - used)) > 0;)
        used += (size_t)n;
    text[used] = '\0';
    close(ends[0]);
    if (child > 0) waitpid(child, &status, 0);
    append_log(text, bytes);
    unlink(log_path);
    return status;
}

enum { SKIPPED = -1 };

/*
 * One TAP line. Returns 0 if the error was found by its name, and the same case without it passed. Without
 * NVRTC there is no device, and nothing can be planted.
 */
static int judge(const struct plant *plant, int number)
{
    static char found[4000], sound[4000];
    const int without = run(plant, false, sound, sizeof sound);
    if (WIFEXITED(without) && WEXITSTATUS(without) == 2 && strstr(sound, "NVRTC")) {
        printf("ok %d - planted errors of CUDA # SKIP %.200s\n", number, sound);
        return SKIPPED;
    }
    const int with = run(plant, true, found, sizeof found);
    const bool says = strstr(found, plant->text) && (!plant->also || strstr(found, plant->also)),
               good = !without && with && says;
    printf("%sok %d - caught: %s\n# %.900s\n", good ? "" : "not ", number, plant->name, found);
    if (without) printf("# without the error the case fails, too (0x%x): %.900s\n", (unsigned)without, sound);
    if (!with) printf("# nothing was found\n");
    if (with && !says)
        printf("# the text lacks '%s' or '%s'\n", plant->text, plant->also ? plant->also : plant->text);
    fflush(stdout);
    return !good;
}

/* emulate/cuda/README.md has a table with the same errors in the same order. */
static int compare_table(int number)
{
    const char *top = getenv("top_srcdir");
    char path[1024], line[1024];
    size_t i = 0;
    bool same = true;
    snprintf(path, sizeof path, "%s/emulate/cuda/README.md", top ? top : ".");
    FILE *readme = fopen(path, "r");
    bool inside = false;
    while (readme && fgets(line, sizeof line, readme)) {
        inside = !strncmp(line, "| error |", 9) || (inside && line[0] == '|');
        if (!inside || !strncmp(line, "| error |", 9) || line[1] == '-') continue;
        const size_t n = i < YOKE_COUNT(plants) ? strlen(plants[i].name) : 0;
        same = same && n && !strncmp(line + 2, plants[i].name, n) && !strncmp(line + 2 + n, " | ", 3);
        i++;
    }
    if (readme) fclose(readme);
    same = same && i == YOKE_COUNT(plants);
    printf("%sok %d - the table of emulate/cuda/README.md lists these %zu errors\n", same ? "" : "not ",
           number, YOKE_COUNT(plants));
    return !same;
}

int main(int argc, char **argv)
{
    int bad = 0, n = 0;
    snprintf(log_path, sizeof log_path, "/tmp/yoke-planted.%d", (int)getpid());
    for (size_t i = 0; i < YOKE_COUNT(plants); i++)
        if (bad != SKIPPED && (argc < 2 || !strcmp(argv[1], plants[i].name))) {
            const int wrong = judge(&plants[i], ++n);
            bad = wrong == SKIPPED ? SKIPPED : bad + wrong;
        }
    if (n && argc < 2 && bad != SKIPPED) bad += compare_table(++n);
    if (!n) printf("not ok 1 - no planted error is called '%s'\n", argv[1]);
    printf("1..%d\n", n ? n : 1);
    return bad > 0 || !n;
}
