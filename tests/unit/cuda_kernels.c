/* SPDX-License-Identifier: Apache-2.0 */
/* Programs and launches of the CUDA backend, on the stand-in driver. tests/conform looks at their numbers. */
#include "tests/unit/cuda_test.h"

#include <pthread.h>

#include "backends/gpu/launch.h"
#include "tests/unit/folder.h"

enum { N = 1000 };

/** Compute z = 2 x + y on N floats by two ops. Returns false with yoke_last_error, or with a wrong number. */
static bool computes(yoke_device *device, float seed)
{
    yoke_stream *stream;
    float *d, x[N], y[N], z[N];
    for (int i = 0; i < N; i++) x[i] = seed + (float)i, y[i] = 0.5f * (float)i;
    if (yoke_stream_create(device, &stream)) return false;
    yoke_status status = yoke_alloc(device, 2 * sizeof x, (void **)&d);
    if (!status) status = yoke_copy_to_device(stream, d, x, sizeof x);
    if (!status) status = yoke_copy_to_device(stream, d + N, y, sizeof y);
    if (!status)
        status = yoke_scale(stream, &YOKE_ARGS(scale, .dtype = YOKE_F32, .n = N, .alpha = 2, .x = d, .y = d));
    if (!status)
        status = yoke_add(stream, &YOKE_ARGS(add, .dtype = YOKE_F32, .n = N, .x = d, .y = d + N, .z = d));
    if (!status) status = yoke_copy_to_host(stream, z, d, sizeof z);
    if (!status) status = yoke_stream_sync(stream);
    bool right = !status;
    for (int i = 0; i < N && right; i++) right = z[i] == 2 * x[i] + y[i];
    if (d) yoke_free(device, d);
    yoke_stream_destroy(stream);
    return right;
}

static int n_lines;
static void count_line(void *context, yoke_log_level level, const char *text)
{
    (void)context, (void)level;
    n_lines += strstr(text, "refuses machine code of NVRTC") != NULL;
}

/*
 * Programs are compiled once, and then loaded from the cache. If the device gets machine code, which the
 * stand-in refuses, it gets PTX next, and the log has one line for all programs.
 */
static void cache_and_fallback(void **state)
{
    (void)state;
    for (int ptx_only = 1; ptx_only >= 0; ptx_only--) {
        n_lines = 0;
        yoke_log_set(count_line, NULL, YOKE_LOG_INFO);
        for (int round = 0; round < 2; round++) {
            struct yoke_device_config config = YOKE_DEVICE_CONFIG_INIT;
            config.cache_dir = in_folder(ptx_only ? "ptx" : "both");
            yoke_device *device = cuda_open_with(&config);
            if (!device) skip();
            cuda_device(device)->ptx_only = ptx_only;
            assert_true(computes(device, 1));
            assert_int_equal(yokei_gpu_counts(device).compiled, round ? 0 : 1);
            assert_int_equal(yokei_gpu_counts(device).loaded, round ? 1 : 0);
            assert_ok(yoke_variant_force(device, "add", "l1w1"));
            assert_true(computes(device, 2)); /* a second program */
            assert_int_equal(n_lines, ptx_only ? 0 : round + 1);
            assert_ok(yoke_device_close(device));
        }
        yoke_log_set(NULL, NULL, YOKE_LOG_WARN);
    }
}

static void limits(void **state)
{
    (void)state;
    CUDA_OPEN(device);
    const struct yokei_gpu_device *gpu = yokei_gpu(device);
    assert_true(!gpu->is_cpu && gpu->warp == 32 && gpu->max_group == 1024 && gpu->local_bytes == 48 << 10);
    assert_true(gpu->compute_units == yoke_device_info(device)->compute_units && gpu->compute_units > 0);
    /* attention's tiles would take gigabytes of private memory */
    assert_string_equal(yoke_variant_name(device, "attention_forward", 0), "team");
    assert_string_equal(yoke_variant_name(device, "attention_forward", 1), "mma");
    assert_null(yoke_variant_name(device, "attention_forward", 2));
    assert_string_equal(yoke_variant_name(device, "layernorm_forward", 2), "l32w1");
    const struct yokei_gpu_program program = { .family = "elementwise", .L = 32, .W = 4, .G = 4 };
    yoke_stream *stream;
    assert_ok(yoke_stream_create(device, &stream));
    stream->last_op = "scale";
    const int64_t sizes[][3] = { { 1, 65536, 1 }, { 1, 1, 65536 }, { (int64_t)1 << 31, 1, 1 } };
    for (int i = 0; i < 3; i++) {
        const char *const words[] = {
            "scale needs 65536 groups in dimension y, and the device has at most 65535",
            "65536 groups in dimension z", "2147483648 groups in dimension x"
        };
        assert_fails(YOKE_EUNSUPPORTED, words[i],
                     yokei_gpu_launch(stream, &program, "scale", sizes[i][0], sizes[i][1], sizes[i][2],
                                      YOKEI_GPU_ARGS(ARG_I(0))));
    }
    assert_fails(YOKE_EBACKEND, "kernel nothing",
                 yokei_gpu_launch(stream, &program, "nothing", 1, 1, 1, YOKEI_GPU_ARGS(ARG_I(0))));
    assert_ok(yoke_stream_destroy(stream));
    assert_ok(yoke_device_close(device));
}

/* The compiler's log comes back, with the name and the line of the text. */
static void compile_error(void **state)
{
    (void)state;
    CUDA_OPEN(device);
    const struct yokei_gpu_source source = { "norm", "\n", "#define A 1\n",
                                             "#line 7 \"backends/gpu/kernels/norm.yk\"\nnonsense here;\n" };
    void *program;
    assert_fails(YOKE_ECOMPILE, "norm.yk(7): error", yokei_cuda_driver.build(device, &source, &program));
    const char broken[40] = "no blob at all";
    assert_fails(YOKE_EDATA, "does not begin",
                 yokei_cuda_driver.load(device, broken, sizeof broken, &program));
    assert_ok(yoke_device_close(device));
}

struct worker {
    pthread_t thread;
    yoke_device *device;
    int number;
    bool right;
};

static void *work(void *argument)
{
    struct worker *w = argument;
    w->right = true;
    for (int i = 0; i < 5 && w->right; i++) w->right = computes(w->device, (float)(10 * w->number + i));
    return NULL;
}

/* Threads use the same kernels at the same time. */
static void threads(void **state)
{
    (void)state;
    CUDA_OPEN(device);
    struct worker workers[3];
    for (int i = 0; i < 3; i++) {
        workers[i] = (struct worker){ .device = device, .number = i };
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(workers[i].thread, NULL);
        assert_true(workers[i].right);
    }
    assert_int_equal(yokei_gpu_counts(device).compiled, 1);
    assert_ok(yoke_device_close(device));
}

/* ---- each in a child process, because the stand-in reads its variables once ---- */

static const char *newer(void)
{
    yoke_device *device = cuda_open();
    if (!device) return "skip: no NVRTC";
    WANT(cuda_device(device)->cc == 99);
    WANT(computes(device, 3));
    cuda_device(device)->ptx_only =
        false; /* there is no machine code for a device that NVRTC does not know */
    WANT(!yoke_variant_force(device, "add", "l1w1") && computes(device, 4));
    return NULL;
}

static const char *older(void)
{
    yoke_device *device;
    char reason[256];
    if (!yokei_cuda_nvrtc(13000, reason, sizeof reason)) return "skip: no NVRTC";
    WANT(yoke_device_open("cuda:0", NULL, &device) == YOKE_ENODEV);
    WANT(strstr(yoke_last_error(), "supports only devices newer than this one of 3.0"));
    WANT(strstr(yoke_last_error(), "pip install 'nvidia-cuda-nvrtc-cu12<"));
    return NULL;
}

static const char *old_driver(void)
{
    yoke_device *device = cuda_open();
    if (!device) return "skip: no NVRTC";
    WANT(!computes(device, 5));
    WANT(strstr(yoke_last_error(), "does not take programs of NVRTC"));
    WANT(strstr(yoke_last_error(), "pip install 'nvidia-cuda-nvrtc"));
    return NULL;
}

/* A kernel writes behind its allocation. The op that did it is named, also after other ops were issued. */
static const char *outside(void)
{
    yoke_device *device = cuda_open();
    yoke_stream *stream;
    float *d;
    if (!device) return "skip: no NVRTC";
    WANT(!yoke_stream_create(device, &stream) && !yoke_alloc(device, 256, (void **)&d));
    WANT(!yoke_fill(stream, d, 0, 256));
    WANT(!yoke_add(stream, &YOKE_ARGS(add, .dtype = YOKE_F32, .n = 64, .x = d, .y = d, .z = d)));
    WANT(!yoke_scale(stream, &YOKE_ARGS(scale, .dtype = YOKE_F32, .n = 5000, .alpha = 2, .x = d, .y = d)));
    if (!yoke_add(stream, &YOKE_ARGS(add, .dtype = YOKE_F32, .n = 64, .x = d, .y = d, .z = d)))
        WANT(yoke_stream_sync(stream) == YOKE_EBACKEND);
    WANT(
        strstr(yoke_last_error(), "scale, issued earlier, failed on the device: CUDA_ERROR_ILLEGAL_ADDRESS"));
    WANT(strstr(yoke_last_error(), "elementwise.yk:")); /* the stand-in's own text, by the line information */
    return NULL;
}

static char warned[1000];
static void keep_warning(void *context, yoke_log_level level, const char *text)
{
    (void)context, (void)level;
    yokei_text(warned, sizeof warned, "%s", text);
}

/* Use the program of each variant, one after the other, also after an error. Returns the last error. */
static yoke_status use_programs(yoke_device *device)
{
    const char *variant;
    yoke_status last = YOKE_OK;
    yoke_stream *stream;
    float *d;
    YOKE_TRY(yoke_stream_create(device, &stream));
    YOKE_TRY(yoke_alloc(device, N * sizeof *d, (void **)&d));
    YOKE_TRY(yoke_fill(stream, d, 0, N * sizeof *d));
    for (int i = 0; (variant = yoke_variant_name(device, "scale", i)); i++) {
        YOKE_TRY(yoke_variant_force(device, "scale", variant));
        yoke_status status = yoke_scale(stream, &YOKE_ARGS(scale, .dtype = YOKE_F32, .n = N, .alpha = 2,
                                                           .x = d, .y = d));
        if (!status && i) status = yoke_stream_sync(stream);
        if (status) last = status;
    }
    return last;
}

static yoke_device *open_with_cache(void)
{
    struct yoke_device_config config = YOKE_DEVICE_CONFIG_INIT;
    config.cache_dir = in_folder("lost");
    yoke_log_set(keep_warning, NULL, YOKE_LOG_WARN);
    return cuda_open_with(&config);
}

static const char *fill_cache(void)
{
    yoke_device *device = open_with_cache();
    if (!device) return "skip: no NVRTC";
    WANT(!use_programs(device));
    return NULL;
}

/* The second program is loaded when the kernel of the first one has failed. */
static const char *lose_with_cache(void)
{
    yoke_device *device = open_with_cache();
    WANT(use_programs(device) == YOKE_EBACKEND);
    WANT(strstr(yoke_last_error(), "CUDA_ERROR_ILLEGAL_ADDRESS"));
    WANT(yokei_gpu_counts(device).compiled == 0);
    return warned[0] ? warned : NULL;
}

static int n_programs(void)
{
    int n = 0;
    DIR *folder = opendir(in_folder("lost"));
    for (struct dirent *e; folder && (e = readdir(folder));) n += strstr(e->d_name, ".bin") != NULL;
    if (folder) closedir(folder);
    return n;
}

/* After a fault the driver refuses all programs. The files of the cache are not to blame, and stay. */
static void fault_leaves_cache(void **state)
{
    (void)state;
    cuda_in_child("YOKE_SEED", "1", fill_cache);
    const int n = n_programs();
    assert_true(n > 1);
    cuda_in_child("YOKE_EMULATE_FAIL", "illegal-address@1", lose_with_cache);
    assert_int_equal(n_programs(), n);
}

static void in_children(void **state)
{
    (void)state;
    cuda_in_child("YOKE_EMULATE", "cuda:9.9", newer);
    cuda_in_child("YOKE_EMULATE", "cuda:3.0", older);
    cuda_in_child("YOKE_EMULATE_PTX", "7.0", old_driver);
    cuda_in_child("YOKE_SEED", "1", outside);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_children), /* first, see cuda_in_child */
        cmocka_unit_test(fault_leaves_cache),
        cmocka_unit_test(cache_and_fallback),
        cmocka_unit_test(limits),
        cmocka_unit_test(compile_error),
        cmocka_unit_test(threads),
    };
    setenv("YOKE_EMULATE", "cuda:9.0", 1);
    setenv("YOKE_CACHE_DIR", "", 1);
    return cmocka_run_group_tests_name("cuda_kernels", tests, make_test_folder, remove_test_folder);
}
