/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Properties of the host backend that conformance does not check. Results must not depend on the number of
 * threads. The table of oneDNN's matrix products must have a limit. Scratch memory that is too small must be
 * refused. Everything must work without oneDNN.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "tests/unit/test.h"

#include "backends/host/host.h"

#include <dlfcn.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* One op on arrays of in-memory data; sizes are large enough for several threads, and ragged. */
enum {
    ROWS = 203,
    COLUMNS = 301,
    HEADS = 6,
    KV_HEADS = 3,
    HEAD = 20,
    TIME = 97,
    VOCABULARY = 50,
    ELEMENTS = 130001,
    N_IN = 5,
    N_OUT = 4
};
static void *in[N_IN]; /* ELEMENTS of the type under test; 2 to 4 f32 */
static int32_t tokens[ROWS];

struct outputs {
    float *array[N_OUT]; /* ELEMENTS each */
};

static void *allocate(size_t bytes)
{
    void *p = calloc(1, bytes);
    assert_non_null(p);
    return p;
}

static void fill(void *target, yoke_dtype dtype, bool positive)
{
    float *x = allocate(ELEMENTS * sizeof *x);
    uint32_t seed = 12345;
    for (int i = 0; i < ELEMENTS; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(seed >> 8) / (float)(1 << 24) + 0.01f;
        if (!positive && seed & 64) x[i] = -x[i];
    }
    yoke_convert(YOKE_F32, x, dtype, target, ELEMENTS);
    free(x);
}

typedef yoke_status issue(yoke_device *device, yoke_stream *stream, struct yoke_cost *cost, yoke_dtype dtype,
                          const struct outputs *o);

#define ISSUE(op, ...)                                                                              \
    static yoke_status issue_##op(yoke_device *device, yoke_stream *stream, struct yoke_cost *cost, \
                                  yoke_dtype dtype, const struct outputs *o)                        \
    {                                                                                               \
        const struct yoke_##op##_args args = { .size = sizeof args, __VA_ARGS__ };                  \
        return stream ? yoke_##op(stream, &args) : yoke_##op##_can(device, &args, cost);            \
    }
ISSUE(gemm, .dtype = dtype, .out_dtype = YOKE_F32, .M = ROWS, .N = COLUMNS, .K = 311, .batch = 1,
      .trans_b = true, .a = in[0], .lda = 311, .b = in[1], .ldb = 311, .c = o->array[0], .ldc = COLUMNS,
      .alpha = 0.5f, .beta = 2)
ISSUE(bias_backward, .dtype = dtype, .N = ROWS, .C = COLUMNS, .dy = in[0], .ld = COLUMNS,
      .dbias = o->array[0])
ISSUE(layernorm_backward, .dtype = dtype, .N = ROWS, .C = COLUMNS, .dy = in[0], .lddy = COLUMNS, .x = in[1],
      .ldx = COLUMNS, .gamma = in[2], .mean = in[3], .rstd = in[4], .dx = o->array[0], .lddx = COLUMNS,
      .dgamma = o->array[1], .dbeta = o->array[2])
ISSUE(gelu_backward, .dtype = dtype, .n = ELEMENTS, .x = in[0], .dy = in[1], .dx = o->array[0])
ISSUE(embed_backward, .dtype = dtype, .N = ROWS, .T = ROWS / 7, .C = COLUMNS, .V = VOCABULARY,
      .tokens = tokens, .dy = in[0], .dwte = o->array[0], .dwpe = o->array[1])
ISSUE(xent_forward, .dtype = dtype, .N = ROWS, .V = COLUMNS, .logits = in[0], .ld = COLUMNS,
      .targets = tokens, .lse = o->array[0], .losses = o->array[1])
ISSUE(xent_join, .dtype = dtype, .P = 3, .N = ELEMENTS / 3, .lse_parts = in[3], .ld = ELEMENTS / 3,
      .lse = o->array[0])
ISSUE(adamw, .dtype = YOKE_F32, .copy_dtype = dtype, .n = ELEMENTS, .w = o->array[0], .m = o->array[1],
      .v = o->array[2], .grad = in[3], .copy = o->array[3], .lr = 0.1f, .beta1 = 0.9f, .beta2 = 0.95f,
      .eps = 1e-8f, .weight_decay = 0.1f, .grad_scale = 1, .step = 1)
ISSUE(grad_norm, .dtype = dtype, .n = ELEMENTS, .grad = in[0], .scale = 0.3f, .out = o->array[0])
#define SHAPE \
    .dtype = dtype, .causal = true, .B = 2, .T = TIME, .H = HEADS, .Hkv = KV_HEADS, .D = HEAD, .scale = 0.2f
#define QKV \
    .q = in[0], .ldq = HEADS * HEAD, .k = in[1], .ldk = KV_HEADS * HEAD, .v = in[1], .ldv = KV_HEADS * HEAD
ISSUE(attention_forward, SHAPE, QKV, .o = o->array[0], .ldo = HEADS * HEAD, .lse = o->array[1])
ISSUE(attention_backward, SHAPE, QKV, .o = in[0], .ldo = HEADS * HEAD, .d_o = in[0], .lddo = HEADS * HEAD,
      .lse = in[2], .dq = o->array[0], .lddq = HEADS * HEAD, .dk = o->array[1], .lddk = KV_HEADS * HEAD,
      .dv = o->array[2], .lddv = KV_HEADS * HEAD)

/* So many keys that threads share a head: three heads are too few for two threads, or for five. */
enum { LONG_TIME = 1021 };
static yoke_status long_backward(yoke_device *device, yoke_stream *stream, struct yoke_cost *cost,
                                 yoke_dtype dtype, const struct outputs *o, bool causal)
{
    const struct yoke_attention_backward_args args = YOKE_ARGS(
        attention_backward, .dtype = dtype, .causal = causal, .B = 1, .T = LONG_TIME, .H = HEADS,
        .Hkv = KV_HEADS, .D = HEAD, .scale = 0.2f, .p = 0.1f, .key = 5, QKV, .o = in[0], .ldo = HEADS * HEAD,
        .d_o = in[0], .lddo = HEADS * HEAD, .lse = in[2], .dq = o->array[0], .lddq = HEADS * HEAD,
        .dk = o->array[1], .lddk = KV_HEADS * HEAD, .dv = o->array[2], .lddv = KV_HEADS * HEAD);
    return stream ? yoke_attention_backward(stream, &args) : yoke_attention_backward_can(device, &args, cost);
}
static yoke_status issue_long_backward(yoke_device *device, yoke_stream *stream, struct yoke_cost *cost,
                                       yoke_dtype dtype, const struct outputs *o)
{
    return long_backward(device, stream, cost, dtype, o, true);
}
static yoke_status issue_long_unmasked(yoke_device *device, yoke_stream *stream, struct yoke_cost *cost,
                                       yoke_dtype dtype, const struct outputs *o)
{
    return long_backward(device, stream, cost, dtype, o, false);
}

/* Fewer heads than threads, and too few keys to share. */
static yoke_status issue_one_head(yoke_device *device, yoke_stream *stream, struct yoke_cost *cost,
                                  yoke_dtype dtype, const struct outputs *o)
{
    const struct yoke_attention_backward_args args = YOKE_ARGS(
        attention_backward, .dtype = dtype, .causal = true, .B = 1, .T = TIME, .H = 1, .Hkv = 1, .D = HEAD,
        .scale = 0.2f, QKV, .o = in[0], .ldo = HEAD, .d_o = in[0], .lddo = HEAD, .lse = in[2],
        .dq = o->array[0], .lddq = HEAD, .dk = o->array[1], .lddk = HEAD, .dv = o->array[2], .lddv = HEAD);
    return stream ? yoke_attention_backward(stream, &args) : yoke_attention_backward_can(device, &args, cost);
}

static const struct {
    const char *name;
    issue *issue;
    bool has_scratch;
} ops[] = {
    { "gemm", issue_gemm, true },
    { "bias_backward", issue_bias_backward, true },
    { "layernorm_backward", issue_layernorm_backward, true },
    { "gelu_backward", issue_gelu_backward, false },
    { "embed_backward", issue_embed_backward, true },
    { "xent_forward", issue_xent_forward, false },
    { "xent_join", issue_xent_join, false },
    { "adamw", issue_adamw, false },
    { "grad_norm", issue_grad_norm, true },
    { "attention_forward", issue_attention_forward, true },
    { "attention_backward", issue_attention_backward, true },
    { "attention_backward of one head", issue_one_head, true },
    { "attention_backward of chunks", issue_long_backward, true },
    { "attention_backward of chunks, unmasked", issue_long_unmasked, true },
};

static void open_with(int n_threads, yoke_device **device, yoke_stream **stream)
{
    struct yoke_device_config config = YOKE_DEVICE_CONFIG_INIT;
    config.n_threads = n_threads;
    assert_ok(yoke_device_open("host", &config, device));
    assert_ok(yoke_stream_create(*device, stream));
}

static void close_both(yoke_device *device, yoke_stream *stream)
{
    assert_ok(yoke_stream_destroy(stream));
    assert_ok(yoke_device_close(device));
}

/* oneDNN may cut a sum by threads; the project's own kernels may not. */
static void force_own_gemm(yoke_device *device)
{
    const char *name = yoke_variant_name(device, "gemm", 0);
    if (!strcmp(name, "onednn")) name = yoke_variant_name(device, "gemm", 1);
    assert_ok(yoke_variant_force(device, "gemm", name));
}

static struct outputs run_with(int n_threads, issue *issue_op, yoke_dtype dtype)
{
    yoke_device *device;
    yoke_stream *stream;
    struct outputs o;
    struct yoke_cost cost = { .size = sizeof cost };
    open_with(n_threads, &device, &stream);
    force_own_gemm(device);
    for (int i = 0; i < N_OUT; i++) fill(o.array[i] = allocate(ELEMENTS * sizeof(float)), YOKE_F32, true);
    assert_ok(issue_op(device, NULL, &cost, dtype, &o));
    assert_ok(yoke_stream_reserve(stream, cost.scratch_bytes));
    assert_ok(issue_op(device, stream, NULL, dtype, &o));
    close_both(device, stream);
    return o;
}

static void threads_change_no_bit(void **state)
{
    (void)state;
    static const yoke_dtype dtypes[] = { YOKE_F32, YOKE_BF16 };
    for (size_t t = 0; t < 2; t++) {
        fill(in[0], dtypes[t], false);
        fill(in[1], dtypes[t], false);
        for (size_t i = 0; i < YOKE_COUNT(ops); i++) {
            struct outputs one = run_with(1, ops[i].issue, dtypes[t]);
            for (int n = 2; n <= 5; n += 3) {
                struct outputs many = run_with(n, ops[i].issue, dtypes[t]);
                for (int j = 0; j < N_OUT; j++) {
                    if (memcmp(one.array[j], many.array[j], ELEMENTS * sizeof(float)))
                        fail_msg("%s %s: output %d differs between 1 and %d threads", ops[i].name,
                                 yoke_dtype_name(dtypes[t]), j, n);
                    free(many.array[j]);
                }
            }
            for (int j = 0; j < N_OUT; j++) free(one.array[j]);
        }
    }
}

static void small_scratch_is_refused(void **state)
{
    (void)state;
    yoke_device *device;
    yoke_stream *stream;
    struct outputs o;
    open_with(2, &device, &stream);
    force_own_gemm(device);
    for (int i = 0; i < N_OUT; i++) o.array[i] = allocate(ELEMENTS * sizeof(float));
    for (size_t i = 0; i < YOKE_COUNT(ops); i++) {
        struct yoke_cost cost = { .size = sizeof cost };
        assert_ok(ops[i].issue(device, NULL, &cost, YOKE_F32, &o));
        assert_int_equal(cost.scratch_bytes > 0, ops[i].has_scratch);
        if (ops[i].has_scratch)
            assert_fails(YOKE_ENOMEM, "yoke_stream_reserve",
                         ops[i].issue(device, stream, NULL, YOKE_F32, &o));
        else
            assert_ok(ops[i].issue(device, stream, NULL, YOKE_F32, &o));
    }
    for (int i = 0; i < N_OUT; i++) free(o.array[i]);
    close_both(device, stream);
}

/* c = a b for small whole numbers, where every order of the sums is exact. */
static void multiply_and_check(yoke_device *device, yoke_stream *stream, int M, int N, int K)
{
    float *a = allocate((size_t)(M * K) * 4), *b = allocate((size_t)(K * N) * 4),
          *c = allocate((size_t)(M * N) * 4);
    for (int i = 0; i < M * K; i++) a[i] = (float)(i % 7 - 3);
    for (int i = 0; i < K * N; i++) b[i] = (float)(i % 5 - 2);
    const struct yoke_gemm_args g = { .size = sizeof g,
                                      .M = M,
                                      .N = N,
                                      .K = K,
                                      .batch = 1,
                                      .a = a,
                                      .lda = K,
                                      .b = b,
                                      .ldb = N,
                                      .c = c,
                                      .ldc = N,
                                      .alpha = 1 };
    struct yoke_cost cost = { .size = sizeof cost };
    assert_ok(yoke_gemm_can(device, &g, &cost));
    assert_ok(yoke_stream_reserve(stream, cost.scratch_bytes));
    assert_ok(yoke_gemm(stream, &g));
    for (int m = 0; m < M; m++)
        for (int n = 0; n < N; n++) {
            float sum = 0;
            for (int k = 0; k < K; k++) sum += a[m * K + k] * b[k * N + n];
            assert_true(c[m * N + n] == sum);
        }
    free(a);
    free(b);
    free(c);
}

static void products_are_bounded(void **state)
{
    (void)state;
    yoke_device *device;
    yoke_stream *stream;
    int held, evicted;
    open_with(1, &device, &stream);
    if (strcmp(yoke_variant_name(device, "gemm", 0), "onednn")) {
        close_both(device, stream);
        skip();
    }
    assert_ok(yoke_variant_force(device, "gemm", "onednn"));
    for (int i = 1; i <= YOKEI_HOST_PRODUCTS + 30; i++) multiply_and_check(device, stream, i, 5, 3);
    yokei_host_products(device, &held, &evicted);
    assert_int_equal(held, YOKEI_HOST_PRODUCTS);
    assert_int_equal(evicted, 30);
    multiply_and_check(device, stream, 1, 5, 3); /* was evicted: made again */
    yokei_host_products(device, &held, &evicted);
    assert_int_equal(evicted, 31);
    multiply_and_check(device, stream, YOKEI_HOST_PRODUCTS + 30, 5, 3); /* was not */
    yokei_host_products(device, &held, &evicted);
    assert_int_equal(evicted, 31);
    close_both(device, stream);
}

/*
 * The built-in rule for bf16 products, for CPUs that this machine need not have: with and without AVX512-BF16
 * and AMX.
 */
static void amx_products_are_onednn(void **state)
{
    (void)state;
    const struct host_isa avx2 = { .name = "avx2" }, avx512 = { .name = "avx512", .avx512 = true };
    const struct host_isa bf16 = { .name = "avx512bf16", .avx512 = true, .bf16 = true };
    const int64_t sizes[][3] = {
        { 64, 64, 64 }, { 512, 768, 3072 }, { 1024, 1024, 1024 }, { 50257, 768, 512 }, { 7, 5, 3 }
    };
    for (size_t i = 0; i < YOKE_COUNT(sizes); i++) {
        const int64_t M = sizes[i][0], N = sizes[i][1], K = sizes[i][2];
        const struct yoke_gemm_args a = YOKE_ARGS(gemm, .dtype = YOKE_BF16, .out_dtype = YOKE_BF16, .M = M,
                                                  .N = N, .K = K, .lda = K, .ldb = N, .ldc = N);
        assert_true(yokei_host_own_is_faster(&bf16, false, &a));
        assert_false(yokei_host_own_is_faster(&bf16, true, &a));
        assert_false(yokei_host_own_is_faster(&avx512, false, &a));
        assert_false(yokei_host_own_is_faster(&avx2, false, &a));
    }
}

/* Whether the kernel lists this flag of the CPU. */
static bool cpu_has(const char *flag)
{
    char line[8192], word[64];
    bool has = false;
    FILE *f = fopen("/proc/cpuinfo", "r");
    assert_non_null(f);
    snprintf(word, sizeof word, " %s ", flag);
    while (!has && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = ' ';
        has = !strncmp(line, "flags", 5) && strstr(line, word);
    }
    fclose(f);
    return has;
}

static void features_name_amx(void **state)
{
    (void)state;
    yoke_device *device;
    yoke_stream *stream;
    open_with(1, &device, &stream);
    const char *features = yoke_device_info(device)->features;
    const bool expected = cpu_has("amx_bf16") && strstr(features, "onednn") && !getenv("DNNL_MAX_CPU_ISA");
    assert_int_equal(strstr(features, " amx") != NULL, expected);
    close_both(device, stream);
}

/* Run this program anew with the word `part` and one more variable, and expect it to succeed. */
static void expect_child(const char *part, const char *variable, const char *value)
{
    char program[4096];
    const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    assert_true(n > 0);
    program[n] = 0;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        setenv(variable, value, 1);
        dup2(STDERR_FILENO, STDOUT_FILENO); /* the child's TAP is not ours */
        execl(program, program, part, (char *)NULL);
        _exit(127);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static int threads_now(void)
{
    char line[256];
    int n = -1;
    FILE *f = fopen("/proc/self/status", "r");
    assert_non_null(f);
    while (n < 0 && fgets(line, sizeof line, f)) sscanf(line, "Threads: %d", &n);
    fclose(f);
    return n;
}

/* In a process whose OMP_NUM_THREADS asks for more threads than there are cores. */
static void check_threads_are_bounded(void **state)
{
    (void)state;
    yoke_device *device;
    yoke_stream *stream;
    const int before = threads_now();
    open_with(0, &device, &stream);
    struct outputs o = run_with(0, issue_gelu_backward, YOKE_F32);
    for (int i = 0; i < N_OUT; i++) free(o.array[i]);
    multiply_and_check(device, stream, 70, 130, 300);
    const int cores = yoke_device_info(device)->compute_units, now = threads_now();
    print_message("%d core(s), %d thread(s) before, %d now\n", cores, before, now);
    assert_in_range(now, 1, before - 1 + cores);
    close_both(device, stream);
}

static void threads_are_bounded(void **state)
{
    (void)state;
    expect_child("threads-are-bounded", "OMP_NUM_THREADS", "20000");
}

/* In a process where libdnnl.so.2 is another library. */
static void check_without_onednn(void **state)
{
    (void)state;
    yoke_device *device;
    yoke_stream *stream;
    open_with(2, &device, &stream);
    assert_non_null(strstr(yoke_device_info(device)->driver, "no oneDNN"));
    assert_string_not_equal(yoke_variant_name(device, "gemm", 0), "onednn");
    multiply_and_check(device, stream, 70, 130, 300);
    close_both(device, stream);
}

static void works_without_onednn(void **state)
{
    (void)state;
    Dl_info libc;
    char folder[] = "/tmp/yoke-host-XXXXXX", link[64];
    assert_true(dladdr(dlsym(RTLD_DEFAULT, "getpid"), &libc) != 0);
    assert_non_null(mkdtemp(folder));
    snprintf(link, sizeof link, "%s/libdnnl.so.2", folder);
    assert_int_equal(symlink(libc.dli_fname, link), 0);
    const char *before = getenv("LD_LIBRARY_PATH");
    char path[8192];
    snprintf(path, sizeof path, "%s%s%s", folder, before ? ":" : "", before ? before : "");
    expect_child("without-onednn", "LD_LIBRARY_PATH", path);
    unlink(link);
    rmdir(folder);
}

/* ---- the warning that threads spin on shared cores ---- */

static void crowd_is_decided(void **state)
{
    (void)state;
    static const struct {
        struct yokei_host_load load;
        bool crowded;
    } cases[] = {
        { { 2, 2, 2, 0, 1000, 0 }, false },             /* a quiet machine */
        { { 4, 8, 8, 4, 1000, 0 }, false },             /* busy, but each thread has a processing unit */
        { { 4, 8, 8, 5, 1000, 0 }, true },              /* one thread too many */
        { { 1, 2, 2, 9, 1000, 90000000 }, false },      /* one thread has no team that spins */
        { { 2, 64, 2, 70, 1000, 0 }, false },           /* bound to two units: the others may run elsewhere */
        { { 2, 64, 2, 0, 30000000, 9999999 }, false },  /* a wait as short as at the start of any process */
        { { 2, 64, 2, 0, 30000000, 10000000 }, true },  /* a quarter of the time */
        { { 2, 64, 2, 0, 31000000, 10000000 }, false }, /* less than a quarter */
        { { 2, 2, 2, 0, 30000000, 10000000 }, true },
    };
    for (size_t i = 0; i < YOKE_COUNT(cases); i++)
        if (yokei_host_is_crowded(&cases[i].load) != cases[i].crowded) fail_msg("case %zu", i);
}

static int n_spin_lines;
static void count_spin_lines(void *context, yoke_log_level level, const char *text)
{
    (void)context;
    n_spin_lines += level == YOKE_LOG_WARN && strstr(text, "OMP_WAIT_POLICY=passive") != NULL;
}

/* The lines that opening the host device twice logs. */
static int spin_lines(int n_threads)
{
    struct yoke_device_config config = YOKE_DEVICE_CONFIG_INIT;
    config.n_threads = n_threads;
    n_spin_lines = 0;
    yoke_log_set(count_spin_lines, NULL, YOKE_LOG_WARN);
    for (int i = 0; i < 2; i++) {
        yoke_device *device;
        assert_ok(yoke_device_open("host", &config, &device));
        assert_ok(yoke_device_close(device));
    }
    yoke_log_set(NULL, NULL, YOKE_LOG_WARN);
    return n_spin_lines;
}

enum { MOST_BUSY = 1024 };

static void stop_busy(const pid_t *busy, int n)
{
    for (int i = 0; i < n; i++) kill(busy[i], SIGKILL), waitpid(busy[i], NULL, 0);
}

/* A few more busy processes than processing units, on the units of this process. */
static int start_busy(pid_t *busy, int n)
{
    fflush(NULL);
    for (int i = 0; i < n; i++) {
        busy[i] = fork();
        if (busy[i] < 0) return i;
        if (!busy[i]) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (volatile unsigned spins = 0;; spins = spins + 1) {}
        }
    }
    return n;
}

/* In a process whose environment has none of the variables. */
static void check_spinning_is_told(void **state)
{
    (void)state;
    static pid_t busy[MOST_BUSY];
    const long units = sysconf(_SC_NPROCESSORS_ONLN);
    struct yokei_host_load load;
    if (units + 2 > MOST_BUSY) skip();
    unsetenv("OMP_WAIT_POLICY"), unsetenv("GOMP_SPINCOUNT"), unsetenv("KMP_BLOCKTIME");
    const int n = start_busy(busy, (int)units + 2);
    yokei_host_read_load(2, &load);
    const bool sees = load.n_allowed == units && load.n_others >= units;
    const int alone = spin_lines(1); /* no team */
    setenv("OMP_WAIT_POLICY", "active", 1);
    const int chosen = spin_lines(2); /* the user has decided */
    unsetenv("OMP_WAIT_POLICY");
    const int told = spin_lines(2), again = spin_lines(2);
    stop_busy(busy, n);
    assert_int_equal(alone, 0);
    assert_int_equal(chosen, 0);
    if (!sees && !told) {
        print_message("/proc/loadavg shows %ld runnable threads beside %d busy ones\n", load.n_others, n);
        skip();
    }
    assert_int_equal(told, 1);
    assert_int_equal(again, 0);
}

static void spinning_is_told(void **state)
{
    (void)state;
    expect_child("spinning-is-told", "OMP_NUM_THREADS", "2");
}

/*
 * In a process that shares its only core with three others. Other processes may run elsewhere, so only the
 * time that the thread has waited tells.
 */
static void check_shared_core_is_told(void **state)
{
    (void)state;
    pid_t busy[3];
    cpu_set_t allowed, one;
    struct yokei_host_load load;
    CPU_ZERO(&one);
    assert_int_equal(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    for (int c = 0; c < CPU_SETSIZE && !CPU_COUNT(&one); c++)
        if (CPU_ISSET(c, &allowed)) CPU_SET(c, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    unsetenv("OMP_WAIT_POLICY"), unsetenv("GOMP_SPINCOUNT"), unsetenv("KMP_BLOCKTIME");
    const int n = start_busy(busy, 3);
    const uint64_t until = yokei_now_ns() + 60 * 1000000000ull;
    do {
        yokei_host_read_load(2, &load);
    } while (!yokei_host_is_crowded(&load) && load.ran_ns + load.waited_ns && yokei_now_ns() < until);
    const int told = spin_lines(2);
    stop_busy(busy, n);
    if (!(load.ran_ns + load.waited_ns)) skip(); /* this kernel does not count */
    assert_int_equal(told, 1);
}

static void shared_core_is_told(void **state)
{
    (void)state;
    expect_child("shared-core-is-told", "OMP_NUM_THREADS", "2");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest without[] = { cmocka_unit_test(check_without_onednn) },
                            bounded[] = { cmocka_unit_test(check_threads_are_bounded) },
                            spinning[] = { cmocka_unit_test(check_spinning_is_told) },
                            sharing[] = { cmocka_unit_test(check_shared_core_is_told) };
    for (int i = 0; i < N_IN; i++) {
        in[i] = malloc(ELEMENTS * sizeof(float));
        if (!in[i]) return 99;
        fill(in[i], YOKE_F32, i >= 2);
    }
    for (int i = 0; i < ROWS; i++) tokens[i] = i * i % (VOCABULARY + 3) - 1; /* some outside the vocabulary */
    if (argc > 1 && !strcmp(argv[1], "without-onednn")) return cmocka_run_group_tests(without, NULL, NULL);
    if (argc > 1 && !strcmp(argv[1], "threads-are-bounded"))
        return cmocka_run_group_tests(bounded, NULL, NULL);
    if (argc > 1 && !strcmp(argv[1], "spinning-is-told")) return cmocka_run_group_tests(spinning, NULL, NULL);
    if (argc > 1 && !strcmp(argv[1], "shared-core-is-told"))
        return cmocka_run_group_tests(sharing, NULL, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_change_no_bit),   cmocka_unit_test(small_scratch_is_refused),
        cmocka_unit_test(products_are_bounded),    cmocka_unit_test(works_without_onednn),
        cmocka_unit_test(amx_products_are_onednn), cmocka_unit_test(features_name_amx),
        cmocka_unit_test(threads_are_bounded),     cmocka_unit_test(crowd_is_decided),
        cmocka_unit_test(spinning_is_told),        cmocka_unit_test(shared_core_is_told),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (int i = 0; i < N_IN; i++) free(in[i]);
    return failed;
}
