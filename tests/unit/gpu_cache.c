/* SPDX-License-Identifier: Apache-2.0 */
/* The cache of compiled programs: hits, damage of every kind, keys, and life without a cache. */
#include "tests/unit/folder.h"
#include "tests/unit/gpu_test.h"

#include <sys/stat.h>

static char logged[4096];

static void keep_log(void *context, yoke_log_level level, const char *text)
{
    (void)context;
    (void)level;
    yokei_text(logged, sizeof logged, "%s", text);
}

/** The one cache file of the folder. */
static void only_file(char *path, size_t bytes)
{
    DIR *dir = opendir(test_folder);
    assert_non_null(dir);
    int n = 0;
    for (struct dirent *e; (e = readdir(dir));)
        if (strstr(e->d_name, ".bin")) {
            yokei_text(path, bytes, "%s/%s", test_folder, e->d_name);
            n++;
        }
    closedir(dir);
    assert_int_equal(n, 1);
}

static int quiet_and_remove_folder(void **state)
{
    yoke_log_set(NULL, NULL, YOKE_LOG_ERROR);
    return remove_test_folder(state);
}

/** Run one op on a device that caches in the folder; how many programs were compiled and loaded. */
static struct yokei_gpu_counts use(const char *cache_dir)
{
    struct yokei_gpu_counts none = { -1, -1 };
    yoke_device *device = gpu_open(NULL, cache_dir);
    if (!device) return none;
    yoke_stream *stream;
    float x[3] = { 1, 2, 3 }, y[3] = { 10, 20, 30 }, z[3] = { 0 };
    assert_ok(yoke_stream_create(device, &stream));
    assert_ok(gpu_add(stream, x, y, z, 3));
    assert_true(z[0] == 11 && z[1] == 22 && z[2] == 33);
    assert_ok(gpu_add(stream, x, y, z, 2)); /* the second use finds it in memory */
    struct yokei_gpu_counts counts = yokei_gpu_counts(device);
    assert_ok(yoke_stream_destroy(stream));
    assert_ok(yoke_device_close(device));
    return counts;
}

#define EXPECT(counts, c, l)                            \
    do {                                                \
        const struct yokei_gpu_counts counts_ = counts; \
        assert_int_equal(counts_.compiled, c);          \
        assert_int_equal(counts_.loaded, l);            \
    } while (0)

static void hits(void **state)
{
    (void)state;
    struct yokei_gpu_counts first = use(test_folder);
    if (first.compiled < 0) skip();
    EXPECT(first, 1, 0);
    EXPECT(use(test_folder), 0, 1);
    char path[512];
    struct stat before, after;
    only_file(path, sizeof path);
    assert_int_equal(stat(path, &before), 0);
    EXPECT(use(test_folder), 0, 1);
    assert_int_equal(stat(path, &after), 0);
    assert_true(before.st_ino == after.st_ino); /* a hit rewrites nothing */
}

/** Overwrite one byte at `offset`, or cut the file there. */
static void damage(const char *path, long offset, bool cut)
{
    if (cut) {
        assert_int_equal(truncate(path, offset), 0);
        return;
    }
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    fseek(file, offset, SEEK_SET);
    int c = fgetc(file);
    fseek(file, offset, SEEK_SET);
    fputc(c ^ 0x5a, file);
    fclose(file);
}

static void damaged(void **state)
{
    (void)state;
    static const struct {
        long offset;
        bool cut;
        const char *words;
    } cases[] = { { 0, false, "magic" }, { 8, false, "format" }, { 20, false, "key" }, { 48, false, "truncated" },
                  { 56, false, "checksum" }, { 5000, false, "checksum" }, { 4000, true, "truncated" },
                  { 17, true, "shorter" }, { 0, true, "shorter" } };
    if (use(test_folder).compiled < 0) skip();
    yoke_log_set(keep_log, NULL, YOKE_LOG_WARN);
    char path[512];
    only_file(path, sizeof path);
    damage(path, 5000, false);
    EXPECT(use(test_folder), 1, 0); /* compiled again, and written anew */
    EXPECT(use(test_folder), 0, 1);

    GPU_OPEN(device, NULL, test_folder);
    struct yokei_gpu_cache_key key;
    void *binary, *read;
    size_t bytes, n;
    memcpy(key.text, strrchr(path, '-') + 1, 32);
    key.text[32] = '\0';
    assert_ok(yokei_gpu_cache_read(device, &key, &binary, &bytes));
    for (size_t i = 0; i < YOKE_COUNT(cases); i++) {
        damage(path, cases[i].offset, cases[i].cut);
        logged[0] = '\0';
        assert_int_equal(yokei_gpu_cache_read(device, &key, &read, &n), YOKE_ENODEV);
        if (!strstr(logged, cases[i].words) || !strstr(logged, path))
            fail_msg("damage at %ld: the log says '%s', not '%s' and the path", cases[i].offset, logged, cases[i].words);
        assert_int_equal(access(path, F_OK), -1); /* discarded */
        yokei_gpu_cache_write(device, &key, binary, bytes);
        assert_ok(yokei_gpu_cache_read(device, &key, &read, &n));
        assert_int_equal(n, bytes);
        assert_memory_equal(read, binary, bytes);
        free(read);
    }
    free(binary);
    assert_ok(yoke_device_close(device));
}

/* A whole entry whose content the vendor's loader refuses. */
static void refused(void **state)
{
    (void)state;
    GPU_OPEN(device, NULL, test_folder);
    struct yokei_gpu_program program = { .family = "elementwise", .dtype = YOKE_F32, .out_dtype = YOKE_F32, .L = 1, .W = 16, .G = 1 };
    const struct yokei_gpu_device *gpu = yokei_gpu(device);
    struct yokei_gpu_source source;
    assert_ok(yokei_gpu_source_make(&program, YOKEI_GPU_OPENCL, gpu->is_cpu, gpu->warp, false, &source));
    struct yokei_gpu_cache_key key = yokei_gpu_cache_key(device, &source);
    static const char junk[] = "this is no program";
    void *read;
    size_t bytes;
    yokei_gpu_cache_write(device, &key, junk, sizeof junk);
    assert_ok(yokei_gpu_cache_read(device, &key, &read, &bytes));
    assert_int_equal(bytes, sizeof junk);
    assert_memory_equal(read, junk, sizeof junk);
    free(read);
    yoke_log_set(keep_log, NULL, YOKE_LOG_WARN);
    assert_ok(yokei_gpu_prepare(device, &program));
    EXPECT(yokei_gpu_counts(device), 1, 0);
    assert_non_null(strstr(logged, "discarding"));

    /* Every part of the program is in its key. */
    struct yokei_gpu_cache_key other;
    program.dtype = YOKE_BF16;
    struct yokei_gpu_source changed;
    assert_ok(yokei_gpu_source_make(&program, YOKEI_GPU_OPENCL, gpu->is_cpu, gpu->warp, false, &changed));
    other = yokei_gpu_cache_key(device, &changed);
    assert_string_not_equal(key.text, other.text);
    yokei_gpu_source_free(&changed);
    ((char *)(uintptr_t)source.text)[40]++;
    other = yokei_gpu_cache_key(device, &source);
    assert_string_not_equal(key.text, other.text);
    ((char *)(uintptr_t)source.text)[40]--;
    yokei_gpu(device)->identity[0]++;
    other = yokei_gpu_cache_key(device, &source);
    assert_string_not_equal(key.text, other.text);
    yokei_gpu_source_free(&source);
    assert_ok(yoke_device_close(device));
}

static void without_cache(void **state)
{
    (void)state;
    struct yokei_gpu_counts counts = use("");
    if (counts.compiled < 0) skip();
    EXPECT(counts, 1, 0);
    yoke_log_set(keep_log, NULL, YOKE_LOG_WARN);
    EXPECT(use("/proc/no such folder/x"), 1, 0); /* a cache that cannot be written costs a line in the log */
    assert_non_null(strstr(logged, "not cached"));
    EXPECT(use("/proc/no such folder/x"), 1, 0);
}

/* Where PoCL's own cache is on, ours stays out of the way. */
static void vendor_cache(void **state)
{
    (void)state;
    GPU_OPEN(device, NULL, test_folder);
    bool pocl = strstr(yoke_device_info(device)->driver, "PoCL") != NULL;
    assert_ok(yoke_device_close(device));
    if (!pocl) skip();
    unsetenv("POCL_KERNEL_CACHE");
    device = gpu_open(NULL, test_folder);
    setenv("POCL_KERNEL_CACHE", "0", 1);
    assert_string_equal(device->cache_dir, "");
    assert_ok(yoke_device_close(device));
    device = gpu_open(NULL, test_folder);
    assert_string_equal(device->cache_dir, test_folder);
    assert_ok(yoke_device_close(device));
}

int main(void)
{
    setenv("POCL_KERNEL_CACHE", "0", 1); /* read by PoCL once, and by us at each open */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(hits, make_test_folder, quiet_and_remove_folder),
        cmocka_unit_test_setup_teardown(damaged, make_test_folder, quiet_and_remove_folder),
        cmocka_unit_test_setup_teardown(refused, make_test_folder, quiet_and_remove_folder),
        cmocka_unit_test_setup_teardown(without_cache, make_test_folder, quiet_and_remove_folder),
        cmocka_unit_test_setup_teardown(vendor_cache, make_test_folder, quiet_and_remove_folder),
    };
    return cmocka_run_group_tests_name("gpu_cache", tests, NULL, NULL);
}
