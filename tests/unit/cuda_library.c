/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of the CUDA backend that need no device: the names of the driver's functions, where the libraries
 * are looked for, the architecture that is compiled for, the reasons why there is no device, and the format
 * of a program's binary.
 */
#include "tests/unit/test.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/cuda/cuda.h"
#include "backends/gpu/blob.h"
#include "tests/unit/folder.h"

/* The stub libcuda.so of a toolkit, or "". */
static void find_stub(char *path, size_t bytes)
{
    const char *roots[] = { getenv("CUDA_HOME"), getenv("CUDA_PATH"), "/usr/local/cuda", "/opt/cuda" };
    for (size_t i = 0; i < YOKE_COUNT(roots); i++) {
        yokei_text(path, bytes, "%s/lib64/stubs/libcuda.so", roots[i] ? roots[i] : "");
        if (roots[i] && !access(path, R_OK)) return;
    }
    path[0] = '\0';
}

/* Every function that the backend looks up is one of NVIDIA's, under this very name. */
static void symbols(void **state)
{
    char path[1024];
    (void)state;
    find_stub(path, sizeof path);
    if (!path[0]) {
        print_message("no CUDA toolkit is installed, so there is no stub of libcuda.so\n");
        skip();
    }
    void *stub = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(stub);
    static const char *const names[] = {
#define NAME(result, name, parameters) #name,
        YOKEI_CUDA_FUNCTIONS(NAME) YOKEI_CUDA_NEWER_FUNCTIONS(NAME)
#undef NAME
    };
    for (size_t i = 0; i < YOKE_COUNT(names); i++)
        if (!dlsym(stub, names[i])) fail_msg("%s has no symbol %s", path, names[i]);
    assert_null(dlsym(stub, "cuMemAlloc_v99"));
    dlclose(stub);
}

static void architectures(void **state)
{
    static const struct {
        int cc;
        bool ptx_only;
        const char *option; /* NULL: none */
    } rows[] = {
        { 90, false, "--gpu-architecture=sm_90" },        { 90, true, "--gpu-architecture=compute_90" },
        { 75, false, "--gpu-architecture=sm_75" },        { 89, false, "--gpu-architecture=compute_80" },
        { 129, false, "--gpu-architecture=compute_120" }, { 70, false, NULL },
    };
    const struct cuda_nvrtc nvrtc = { .n_architectures = 4, .architectures = { 120, 75, 80, 90 } };
    (void)state;
    for (size_t i = 0; i < YOKE_COUNT(rows); i++) {
        char option[48] = "none";
        assert_true(yokei_cuda_architecture(&nvrtc, rows[i].cc, rows[i].ptx_only, option, sizeof option)
                    == (rows[i].option != NULL));
        if (rows[i].option) assert_string_equal(option, rows[i].option);
    }
}

/* Which binaries a device takes, and in which order, with NVRTC 13.0 and without. */
static void makers(void **state)
{
    static const struct cuda_nvrtc nvrtc = { .major = 13,
                                             .n_architectures = 4,
                                             .architectures = { 75, 80, 90, 120 } };
    static const struct cuda_library cuda12 = { .version = 12040 };
    static const struct {
        int cc;
        bool has_nvrtc, ptx_only;
        const char *own;       /* maker of the device's own NVRTC */
        const char *makers[4]; /* the best first; those behind "-" are not taken */
    } rows[] = {
        { 90, false, false, "", { "sm_90-nvrtc12.4", "sm_80-nvrtc12.8", "sm_90-nvrtc13.0", "-" } },
        { 89, false, false, "", { "sm_80-nvrtc12.4", "compute_80-nvrtc12.4", "-", "sm_90-nvrtc12.4" } },
        { 90, false, false, "", { "-", "sm_90-nvrtc", "opencl", "sm_90-nvrtc12.4.bin" } },
        { 90,
          true,
          false,
          "sm_90-nvrtc13.0",
          { "sm_90-nvrtc13.0", "sm_90-nvrtc12.4", "-", "compute_90-nvrtc13.0" } },
        { 90, true, false, "sm_90-nvrtc13.0", { "-", "sm_80-nvrtc13.0", "sm_100-nvrtc13.0", "" } },
        { 90,
          true,
          true,
          "compute_90-nvrtc13.0",
          { "sm_90-nvrtc13.0", "sm_90-nvrtc12.9", "-", "sm_80-nvrtc13.0" } },
        { 103,
          true,
          false,
          "compute_90-nvrtc13.0",
          { "compute_90-nvrtc13.0", "-", "sm_80-nvrtc13.0", "sm_120-nvrtc13.0" } },
    };
    (void)state;
    for (size_t i = 0; i < YOKE_COUNT(rows); i++) {
        struct cuda_device dev = { .cu = &cuda12, .cc = rows[i].cc, .ptx_only = rows[i].ptx_only };
        yoke_device device = { .impl = &dev };
        char own[YOKEI_GPU_MAKER];
        bool taken = true;
        int last = INT_MAX;
        if (rows[i].has_nvrtc) dev.nvrtc = &nvrtc;
        yokei_cuda_maker(&device, own, sizeof own);
        assert_string_equal(own, rows[i].own);
        for (int j = 0; j < 4; j++) {
            const char *maker = rows[i].makers[j];
            if (!strcmp(maker, "-")) {
                taken = false;
                continue;
            }
            const int rank = yokei_cuda_suits(&device, maker);
            if (taken ? rank <= 0 || rank > last : rank != 0)
                fail_msg("row %zu: %s has rank %d behind %d", i, maker, rank, last);
            last = rank;
        }
    }
}

static void packages(void **state)
{
    static const struct {
        int version;
        const char *package;
    } rows[] = {
        { 11080, "'nvidia-cuda-nvrtc-cu11<11.9'" },  { 12000, "'nvidia-cuda-nvrtc-cu12<12.1'" },
        { 12090, "'nvidia-cuda-nvrtc-cu12<12.10'" }, { 13000, "'nvidia-cuda-nvrtc==13.0.*'" },
        { 13020, "'nvidia-cuda-nvrtc==13.2.*'" },    { 14010, "'nvidia-cuda-nvrtc==13.*'" },
    };
    char text[48];
    (void)state;
    for (size_t i = 0; i < YOKE_COUNT(rows); i++)
        assert_string_equal(yokei_cuda_nvrtc_package(rows[i].version, text), rows[i].package);
}

static int find(char *const list[], int n, const char *folder)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(list[i], folder)) return i;
    return -1;
}

/* The toolkit that a variable names comes first, then the loader's path, then a Python environment. */
static void folders(void **state)
{
    char *list[64], path[4096], toolkit[4096], package[4096];
    (void)state;
    yokei_text(toolkit, sizeof toolkit, "%s/toolkit/lib64", test_folder);
    yokei_text(package, sizeof package, "%s/venv/lib/python3.11/site-packages/nvidia/cuda_nvrtc/lib",
               test_folder);
    assert_ok(yokei_make_folder(toolkit));
    assert_ok(yokei_make_folder(package));
    yokei_text(path, sizeof path, "%s/toolkit", test_folder);
    setenv("CUDA_HOME", path, 1);
    setenv("CUDA_PATH", path, 1);
    yokei_text(path, sizeof path, "%s/venv", test_folder);
    setenv("VIRTUAL_ENV", path, 1);
    unsetenv("CONDA_PREFIX");
    int n = yokei_cuda_folders(list, YOKE_COUNT(list));
    assert_true(n >= 3);
    assert_string_equal(list[0], toolkit);
    assert_string_equal(list[1], ""); /* CUDA_PATH is the same folder, which is listed once */
    assert_true(find(list, n, package) > 1);
    for (int i = 0; i < n; i++) free(list[i]);
    unsetenv("CUDA_HOME");
    unsetenv("CUDA_PATH");
    unsetenv("VIRTUAL_ENV");
    n = yokei_cuda_folders(list, YOKE_COUNT(list));
    assert_true(find(list, n, toolkit) < 0 && find(list, n, package) < 0 && find(list, n, "") == 0);
    for (int i = 0; i < n; i++) free(list[i]);
    n = yokei_cuda_folders(list, 1);
    assert_int_equal(n, 1);
    free(list[0]);
}

/* The reason that a probe gives. The probe runs in a child process, so each call loads the library anew. */
static const char *reason(void)
{
    static struct yoke_backend_report reports[8];
    int n = 0;
    assert_ok(yoke_discover(reports, 8, &n));
    for (int i = 0; i < n; i++)
        if (!strcmp(reports[i].name, "cuda"))
            return reports[i].n_devices ? "it has devices" : reports[i].reason;
    fail_msg("the library has no backend cuda");
    return "";
}

#define ASSERT_HAS(text, words)                                                          \
    do {                                                                                 \
        const char *text_ = (text);                                                      \
        if (!strstr(text_, words)) fail_msg("'%s' does not contain '%s'", text_, words); \
    } while (0)

/* The stand-in's file, as a link to `target`. Then the reason of the probe. */
static const char *reason_with(const char *target)
{
    char path[4096];
    yokei_text(path, sizeof path, "%s/emulate/cuda", test_folder);
    assert_ok(yokei_make_folder(path));
    yokei_text(path, sizeof path, "%s/emulate/cuda/libcuda-emulated.so.1", test_folder);
    unlink(path);
    assert_int_equal(symlink(target, path), 0);
    return reason();
}

static void reasons(void **state)
{
    char stub[1024];
    (void)state;
    setenv("YOKE_DATA_DIR", test_folder, 1);
    setenv("YOKE_EMULATE", "cuda:9", 1);
    ASSERT_HAS(reason(), "YOKE_EMULATE is 'cuda:9'; behind cuda: stands a compute capability");
    setenv("YOKE_EMULATE", "cuda:9.0", 1);
    ASSERT_HAS(reason_with("/nowhere/libcuda.so"), "the stand-in driver does not load");
    ASSERT_HAS(reason_with("libm.so.6"), "does not load");
    ASSERT_HAS(reason_with("/etc/passwd"), "does not load");
    find_stub(stub, sizeof stub);
    if (stub[0]) ASSERT_HAS(reason_with(stub), "is the toolkit's stub, not a driver");
    /* A library that has none of the functions. */
    Dl_info math;
    assert_true(dladdr((void *)(uintptr_t)&dlopen, &math) != 0);
    ASSERT_HAS(reason_with(math.dli_fname), "too old: ");
    unsetenv("YOKE_EMULATE");
    unsetenv("YOKE_DATA_DIR");
}

/* What the driver's errors become, with the fix. */
static void explanations(void **state)
{
    static const struct {
        CUresult error;
        const char *words;
    } rows[] = {
        { CUDA_ERROR_NO_DEVICE, "CUDA_VISIBLE_DEVICES='7' hides all devices; unset it" },
        { CUDA_ERROR_STUB_LIBRARY, "stub" },
        { CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "reboot" },
        { CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, "LD_LIBRARY_PATH" },
        { CUDA_ERROR_SYSTEM_NOT_READY, "fabric manager" },
        { 999, "cuInit failed" },
    };
    char text[256];
    (void)state;
    setenv("CUDA_VISIBLE_DEVICES", "7", 1);
    for (size_t i = 0; i < YOKE_COUNT(rows); i++) {
        yokei_cuda_explain(rows[i].error, text, sizeof text);
        ASSERT_HAS(text, rows[i].words);
    }
    unsetenv("CUDA_VISIBLE_DEVICES");
    yokei_cuda_explain(CUDA_ERROR_NO_DEVICE, text, sizeof text);
    assert_null(strstr(text, "CUDA_VISIBLE_DEVICES"));
    assert_true(strlen(text) > 20);
    static const CUresult fatal[] = { CUDA_ERROR_ILLEGAL_ADDRESS, 226, 721, 810, 999 };
    for (size_t i = 0; i < YOKE_COUNT(fatal); i++) assert_true(yokei_cuda_is_fatal(fatal[i]));
    assert_false(yokei_cuda_is_fatal(CUDA_ERROR_OUT_OF_MEMORY));
}

/* A blob of random parts comes back as it was; a blob that is cut off anywhere is refused. */
static void blobs(void **state)
{
    static unsigned char data[YOKEI_GPU_BLOB_PARTS][300];
    uint32_t random = 2026;
    (void)state;
    print_message("seed %u\n", random);
    for (int round = 0; round < 40; round++) {
        struct yokei_gpu_part parts[YOKEI_GPU_BLOB_PARTS], back[YOKEI_GPU_BLOB_PARTS];
        void *blob;
        size_t bytes, last = 0;
        for (int i = 0; i < YOKEI_GPU_BLOB_PARTS; i++) {
            random = random * 1664525u + 1013904223u;
            parts[i] = (struct yokei_gpu_part){ data[i],
                                                (random >> 8) % (sizeof data[i] + 1) * (random >> 30 != 0) };
            for (size_t j = 0; j < sizeof data[i]; j++) data[i][j] = (unsigned char)(random + j * 7);
        }
        assert_ok(yokei_gpu_blob_make(parts, &blob, &bytes));
        assert_ok(yokei_gpu_blob_open(blob, bytes, back));
        for (int i = 0; i < YOKEI_GPU_BLOB_PARTS; i++) {
            assert_int_equal(back[i].bytes, parts[i].bytes);
            assert_memory_equal(back[i].data, parts[i].data, parts[i].bytes);
            assert_int_equal((uintptr_t)back[i].data % 16, 0);
            if (parts[i].bytes) last = (size_t)((const char *)back[i].data - (char *)blob) + parts[i].bytes;
        }
        for (size_t cut = 0; cut < last; cut += 13)
            assert_fails(YOKE_EDATA, "the program's binary", yokei_gpu_blob_open(blob, cut, back));
        ((char *)blob)[0] ^= 1;
        assert_fails(YOKE_EDATA, "does not begin", yokei_gpu_blob_open(blob, bytes, back));
        free(blob);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(symbols),      cmocka_unit_test(architectures), cmocka_unit_test(makers),
        cmocka_unit_test(packages),     cmocka_unit_test(folders),       cmocka_unit_test(reasons),
        cmocka_unit_test(explanations), cmocka_unit_test(blobs),
    };
    unsetenv("YOKE_EMULATE");
    return cmocka_run_group_tests_name("cuda_library", tests, make_test_folder, remove_test_folder);
}
