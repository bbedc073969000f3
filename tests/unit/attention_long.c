/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention of 8,192 positions on every backend. Sampled rows and keys, computed in f64, must be within the
 * op's bounds. There must never be a T x T matrix in memory: scratch memory grows no faster than T, and
 * neither the device's account of memory nor the process grows by more than `can` said. With YOKE_SOAK=1 the
 * test adds more heads, no mask, and more channels on the reference backend.
 */
#include "tests/unit/test.h"

#include <math.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/conform/attention_sample.h"
#include "core/base/base.h"

enum { LONG = 8192, N_SAMPLES = 12 };

struct shape {
    yoke_dtype dtype;
    int64_t T, H, Hkv, D;
    bool causal;
};

struct bench {
    yoke_device *device;
    yoke_stream *stream;
    struct shape s;
    size_t wide, narrow, lse; /* bytes of [T, H, D], [T, Hkv, D] and lse */
    char *memory, *copy; /* q, k, v, o, dO, dq, dk, dv, lse on the device; the same in the host's memory */
    size_t scratch;
};

static size_t bytes_of(const struct bench *b) { return 4 * b->wide + 4 * b->narrow + b->lse; }

static struct yoke_attention_forward_args forward_of(const struct bench *b, char *base)
{
    const struct shape *s = &b->s;
    char *k = base + b->wide, *v = k + b->narrow, *o = v + b->narrow,
         *lse = base + 4 * b->wide + 4 * b->narrow;
    return YOKE_ARGS(attention_forward, .dtype = s->dtype, .causal = s->causal, .B = 1, .T = s->T, .H = s->H,
                     .Hkv = s->Hkv, .D = s->D, .scale = 1 / sqrtf((float)s->D), .q = base, .ldq = s->H * s->D,
                     .k = k, .ldk = s->Hkv * s->D, .v = v, .ldv = s->Hkv * s->D, .o = o, .ldo = s->H * s->D,
                     .lse = lse);
}

static struct yoke_attention_backward_args backward_of(const struct bench *b, char *base)
{
    const struct yoke_attention_forward_args f = forward_of(b, base);
    char *d_o = (char *)f.o + b->wide, *dq = d_o + b->wide, *dk = dq + b->wide, *dv = dk + b->narrow;
    return YOKE_ARGS(attention_backward, .dtype = f.dtype, .causal = f.causal, .B = 1, .T = f.T, .H = f.H,
                     .Hkv = f.Hkv, .D = f.D, .scale = f.scale, .q = f.q, .ldq = f.ldq, .k = f.k, .ldk = f.ldk,
                     .v = f.v, .ldv = f.ldv, .o = f.o, .ldo = f.ldo, .d_o = d_o, .lddo = f.ldo, .lse = f.lse,
                     .dq = dq, .lddq = f.ldq, .dk = dk, .lddk = f.ldk, .dv = dv, .lddv = f.ldv);
}

static size_t scratch_of(yoke_device *device, struct shape s)
{
    struct bench b = { .s = s };
    struct yoke_cost forward = { .size = sizeof forward }, backward = { .size = sizeof backward };
    const struct yoke_attention_forward_args f = forward_of(&b, NULL);
    const struct yoke_attention_backward_args g = backward_of(&b, NULL);
    assert_ok(yoke_attention_forward_can(device, &f, &forward));
    assert_ok(yoke_attention_backward_can(device, &g, &backward));
    return forward.scratch_bytes > backward.scratch_bytes ? forward.scratch_bytes : backward.scratch_bytes;
}

static void draw(struct bench *b)
{
    const struct yokei_philox_key key = yokei_philox_named(5, "attention");
    const size_t element = yoke_dtype_bytes(b->s.dtype), n = bytes_of(b) / element;
    memset(b->copy, 0, bytes_of(b));
    for (size_t i = 0; i < n - b->lse / element; i++) {
        const float x = (float)(4 * yokei_uniform(key, i) - 2);
        yoke_convert(YOKE_F32, &x, b->s.dtype, b->copy + i * element, 1);
    }
}

static long most_resident_kib(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

/* Compare some rows and keys: the first, the last, the ones beside the borders of blocks, and some between
 * them. */
static double worst_of(const struct bench *b)
{
    const struct yoke_attention_backward_args a = backward_of(b, b->copy);
    double worst = 0;
    for (int64_t i = 0; i < N_SAMPLES; i++) {
        const int64_t T = b->s.T, t = i < 3 ? (int64_t[]){ 0, T - 1, T - 64 }[i] : i * T / N_SAMPLES + i;
        worst = fmax(worst, attention_sample_row(&a, 0, i % b->s.H, t));
        worst = fmax(worst, attention_sample_key(&a, 0, i % b->s.Hkv, t));
    }
    return worst;
}

static struct bench bench_of(yoke_device *device, struct shape s)
{
    const size_t element = yoke_dtype_bytes(s.dtype);
    return (struct bench){ .device = device,
                           .s = s,
                           .wide = (size_t)(s.T * s.H * s.D) * element,
                           .narrow = (size_t)(s.T * s.Hkv * s.D) * element,
                           .lse = (size_t)(s.T * s.H) * sizeof(float),
                           .scratch = scratch_of(device, s) };
}

static yoke_status forward(const struct bench *b)
{
    const struct yoke_attention_forward_args args = forward_of(b, b->memory);
    YOKE_TRY(yoke_attention_forward(b->stream, &args));
    return yoke_stream_sync(b->stream);
}

static yoke_status backward(const struct bench *b)
{
    const struct yoke_attention_backward_args args = backward_of(b, b->memory);
    YOKE_TRY(yoke_attention_backward(b->stream, &args));
    return yoke_stream_sync(b->stream);
}

/* Run both ops on memory of any content. The driver compiles and stores their programs. */
static yoke_status compile(yoke_device *device, struct shape s)
{
    struct bench b = bench_of(device, s);
    YOKE_TRY(yoke_stream_create(device, &b.stream));
    YOKE_TRY(yoke_alloc(device, bytes_of(&b), (void **)&b.memory));
    YOKE_TRY(yoke_stream_reserve(b.stream, b.scratch));
    YOKE_TRY(forward(&b));
    YOKE_TRY(backward(&b));
    YOKE_TRY(yoke_free(device, b.memory));
    return yoke_stream_destroy(b.stream);
}

static void hold(yoke_device *device, struct shape s)
{
    const size_t element = yoke_dtype_bytes(s.dtype);
    struct bench b = bench_of(device, s);
    uint64_t before, now, peak;
    b.copy = malloc(bytes_of(&b));
    assert_non_null(b.copy);
    draw(&b);
    assert_ok(yoke_device_allocated(device, &before, &peak));
    assert_ok(yoke_stream_create(device, &b.stream));
    assert_ok(yoke_alloc(device, bytes_of(&b), (void **)&b.memory));
    assert_ok(yoke_copy_to_device(b.stream, b.memory, b.copy, bytes_of(&b)));
    assert_ok(yoke_stream_reserve(b.stream, b.scratch));
    const long resident = most_resident_kib();
    const uint64_t begun = yokei_now_ns();
    assert_ok(forward(&b));
    const uint64_t middle = yokei_now_ns();
    assert_ok(backward(&b));
    assert_ok(yoke_copy_to_host(b.stream, b.copy, b.memory, bytes_of(&b)));
    assert_ok(yoke_stream_sync(b.stream));
    const double mib = 1.0 / (1 << 20), grown = (double)(most_resident_kib() - resident) / 1024;
    assert_ok(yoke_device_allocated(device, &now, &peak));
    const double worst = worst_of(&b);
    printf(
        "# %s %s T %d H %d/%d D %d%s: bound %.2g, scratch %.1f MiB, T x T %.0f MiB, grown by %.1f MiB, %.2f + %.2f s\n",
        yoke_device_info(device)->spec, yoke_dtype_name(s.dtype), (int)s.T, (int)s.H, (int)s.Hkv, (int)s.D,
        s.causal ? " causal" : "", worst, (double)b.scratch * mib,
        (double)(s.T * s.T) * (double)element * mib, grown, 1e-9 * (double)(middle - begun),
        1e-9 * (double)(yokei_now_ns() - middle));
    assert_true(worst <= 1 && worst > 0); /* some rounding there is in every type */
    assert_true((double)b.scratch < 0.5 * (double)(s.T * s.T) * (double)element);
    assert_true(now - before <= bytes_of(&b) + b.scratch
                                    + 65536); /* the stream's scratch and the arrays, rounded to pages */
    assert_true(grown < (double)b.scratch * mib + 48); /* code, and what a driver keeps for its threads */
    assert_ok(yoke_free(device, b.memory));
    assert_ok(yoke_stream_destroy(b.stream));
    free(b.copy);
}

/* Twice the length may take twice the scratch. */
static void grows_by_length(yoke_device *device, struct shape s)
{
    size_t last = 0;
    for (s.T = 1024; s.T <= LONG; s.T *= 2) {
        const size_t scratch = scratch_of(device, s);
        if (last) assert_true(scratch <= 2 * last + 65536);
        last = scratch;
    }
}

static void run(const char *spec, const struct shape *shapes, int n)
{
    yoke_device *device;
    if (yoke_device_open(spec, NULL, &device)) {
        print_message("no device: %s\n", yoke_last_error());
        skip();
    }
    for (int i = 0; i < n; i++) {
        grows_by_length(device, shapes[i]);
        hold(device, shapes[i]);
    }
    assert_ok(yoke_device_close(device));
}

/* The first three in `make check`, all of them in the soak. */
static const struct shape shapes[] = {
    { YOKE_BF16, LONG, 2, 1, 64, true },     { YOKE_F32, LONG, 1, 1, 64, true },
    { YOKE_F16, LONG, 1, 1, 40, true },      { YOKE_BF16, LONG, 8, 2, 64, true },
    { YOKE_F32, LONG, 4, 2, 128, true },     { YOKE_F16, LONG, 4, 1, 64, true },
    { YOKE_BF16, LONG, 2, 2, 64, false },    { YOKE_F32, LONG, 2, 1, 64, false },
    { YOKE_F16, LONG - 3, 2, 1, 72, false }, { YOKE_BF16, LONG - 1, 3, 1, 24, true },
};
static int n_shapes(void) { return getenv("YOKE_SOAK") ? (int)YOKE_COUNT(shapes) : 3; }

/*
 * Let a process of its own compile the programs of an OpenCL device. A compiler takes over 100 MiB, which
 * would hide what the ops take. PoCL keeps compiled programs in files, and this process then loads them.
 */
static void compile_elsewhere(const char *spec)
{
    const pid_t child = fork();
    if (child == 0) {
        yoke_device *device;
        yoke_status status = yoke_device_open(spec, NULL, &device);
        for (int i = 0; !status && i < n_shapes(); i++) status = compile(device, shapes[i]);
        if (status) printf("# compiling for %s: %s\n", spec, yoke_last_error());
        fflush(stdout);
        _exit(0);
    }
    if (child > 0) waitpid(child, NULL, 0);
}

static void on_host(void **state)
{
    (void)state;
    run("host", shapes, n_shapes());
}

static void on_opencl(void **state)
{
    (void)state;
    run("opencl:0", shapes, n_shapes());
}

/* The oracle itself, one channel at a time: heads of few channels. */
static void on_reference(void **state)
{
    const bool soak = getenv("YOKE_SOAK") != NULL;
    const int64_t D = soak ? 8 : 2;
    const struct shape few[] = { { YOKE_F32, LONG, 1, 1, D, true },
                                 { YOKE_BF16, LONG, 1, 1, D, true },
                                 { YOKE_F16, LONG, 2, 1, D, true } };
    (void)state;
    run("reference", few, soak ? 3 : 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(on_host), cmocka_unit_test(on_opencl),
                                        cmocka_unit_test(on_reference) };
    compile_elsewhere("opencl:0");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
