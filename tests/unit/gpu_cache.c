/* SPDX-License-Identifier: Apache-2.0 */
/* The cache of compiled programs: hits, every kind of damage, keys, and work without a cache. */
#include "tests/unit/folder.h"
#include "tests/unit/gpu_test.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

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

/** Read the program's entry of the first folder, or discard it with a line in the log. */
static yoke_status read_entry(const yoke_device *device, const struct yokei_gpu_cache_key *key,
                              void **binary_out, size_t *bytes_out, uint64_t *kernels_out)
{
    struct yokei_gpu_cached list[YOKEI_GPU_MAX_CACHED];
    if (!yokei_gpu_cache_find(device, key, list)) return YOKE_ENODEV;
    const yoke_status status = yokei_gpu_cache_read(key, list, binary_out, bytes_out, kernels_out);
    if (status) yokei_gpu_cache_refuse(device, list, status);
    return status;
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
    } cases[] = { { 0, false, "magic" },       { 8, false, "format" },    { 20, false, "key" },
                  { 48, false, "truncated" },  { 56, false, "checksum" }, { 5000, false, "checksum" },
                  { 4000, true, "truncated" }, { 17, true, "shorter" },   { 0, true, "shorter" } };
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
    uint64_t kernels;
    memcpy(key.text, strrchr(path, '-') + 1, 32);
    key.text[32] = '\0';
    assert_ok(read_entry(device, &key, &binary, &bytes, &kernels));
    for (size_t i = 0; i < YOKE_COUNT(cases); i++) {
        damage(path, cases[i].offset, cases[i].cut);
        logged[0] = '\0';
        assert_int_equal(read_entry(device, &key, &read, &n, &kernels), YOKE_EDATA);
        if (!strstr(logged, cases[i].words) || !strstr(logged, path))
            fail_msg("damage at %ld: the log says '%s', not '%s' and the path", cases[i].offset, logged,
                     cases[i].words);
        assert_int_equal(access(path, F_OK), -1); /* discarded */
        yokei_gpu_cache_write(device, &key, binary, bytes, kernels);
        assert_ok(read_entry(device, &key, &read, &n, &kernels));
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
    yoke_stream *stream;
    float x[3] = { 1, 2, 3 }, z[3] = { 0 };
    assert_ok(yoke_stream_create(device, &stream));
    const struct yokei_call call = { .op = YOKE_OP_add, .dtype = YOKE_F32, .size = 3 };
    struct yokei_gpu_program program = yokei_gpu_team_program(device, &call, "elementwise");
    const struct yokei_gpu_device *gpu = yokei_gpu(device);
    struct yokei_gpu_source source;
    assert_ok(yokei_gpu_source_make(&program, YOKEI_GPU_OPENCL, gpu->is_cpu, gpu->warp, false, &source));
    struct yokei_gpu_cache_key key = yokei_gpu_cache_key(device, &source);
    static const char junk[] = "this is no program";
    void *read;
    size_t bytes;
    uint64_t kernels;
    yokei_gpu_cache_write(device, &key, junk, sizeof junk, 5);
    assert_ok(read_entry(device, &key, &read, &bytes, &kernels));
    assert_int_equal(bytes, sizeof junk);
    assert_int_equal(kernels, 5);
    assert_memory_equal(read, junk, sizeof junk);
    free(read);
    yoke_log_set(keep_log, NULL, YOKE_LOG_WARN);
    assert_ok(gpu_add(stream, x, x, z, 3));
    assert_true(z[0] == 2 && z[1] == 4 && z[2] == 6);
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
    assert_ok(yoke_stream_destroy(stream));
    assert_ok(yoke_device_close(device));
}

/* Folders behind the first one are read, and nothing in them is changed, whoever may write there. */
static void several_folders(void **state)
{
    (void)state;
    char list[1200], path[512], copy[600];
    const char *const shared = in_folder("shared");
    char own[512], other[512];
    yokei_text(other, sizeof other, "%s", shared);
    yokei_text(own, sizeof own, "%s", in_folder("own"));
    if (use(other).compiled < 0) skip();
    yokei_text(list, sizeof list, "%s:%s", own, other);
    EXPECT(use(list), 0, 1);
    assert_int_equal(access(own, F_OK), -1); /* nothing had to be written */
    yokei_text(list, sizeof list, ":%s", other);
    EXPECT(use(list), 0, 1);
    DIR *dir = opendir(other);
    for (struct dirent *e; (e = readdir(dir));)
        if (strstr(e->d_name, ".bin")) yokei_text(path, sizeof path, "%s/%s", other, e->d_name);
    closedir(dir);
    const struct timespec long_ago[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };
    struct stat st;
    assert_int_equal(utimensat(AT_FDCWD, path, long_ago, 0), 0);
    EXPECT(use(list), 0, 1);
    assert_true(!stat(path, &st) && st.st_mtim.tv_sec == 1000);
    yoke_log_set(keep_log, NULL, YOKE_LOG_WARN);
    damage(path, 5000, false);
    yokei_text(list, sizeof list, "%s:%s", own, other);
    EXPECT(use(list), 1, 0);
    if (!strstr(logged, "not using") || !strstr(logged, path)) fail_msg("the log says '%s'", logged);
    assert_int_equal(access(path, F_OK), 0);
    EXPECT(use(list), 0, 1); /* from the first folder */
    yokei_text(copy, sizeof copy, "%s%s", own, strrchr(path, '/'));
    assert_int_equal(access(copy, F_OK), 0);
    char *longer = malloc(4001);
    memset(longer, 'x', 4000);
    longer[4000] = 0;
    yoke_device *device;
    struct yoke_device_config config = YOKE_DEVICE_CONFIG_INIT;
    config.cache_dir = longer;
    assert_fails(YOKE_ECONFIG, "cache_dir: 4000 characters", yoke_device_open("reference", &config, &device));
    free(longer);
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

/* A file as a process leaves it that last used it so many seconds ago. */
static void put_file(const char *name, size_t bytes, time_t age)
{
    FILE *file = fopen(in_folder(name), "w");
    assert_non_null(file);
    assert_int_equal(ftruncate(fileno(file), (off_t)bytes), 0);
    fclose(file);
    const struct timespec then = { .tv_sec = time(NULL) - age }, times[2] = { then, then };
    assert_int_equal(utimensat(AT_FDCWD, in_folder(name), times, 0), 0);
}

static bool is_there(const char *name) { return access(in_folder(name), F_OK) == 0; }

/*
 * If the folder holds more than it may, the file that was not used for the longest time is removed. Files
 * that are not the cache's stay.
 */
static void limit(void **state)
{
    (void)state;
    static const char oldest[] = "opencl-00000000000000000000000000000001.bin",
                      old[] = "cuda-00000000000000000000000000000002.bin",
                      young[] = "opencl-00000000000000000000000000000003.bin", foreign[] = "opencl-notes.bin",
                      dead[] = "opencl-00000000000000000000000000000004.bin.tmp.77",
                      alive[] = "opencl-00000000000000000000000000000005.bin.tmp.78",
                      written[] = "opencl-00000000000000000000000000000006.bin",
                      maker[] = "cuda-00000000000000000000000000000008-sm_90-nvrtc13.0.bin";
    GPU_OPEN(device, NULL, test_folder);
    assert_int_equal(device->cache_bytes, 1 << 30);
    put_file(oldest, 100000, 3000);
    put_file(old, 100000, 2000);
    put_file(young, 100000, 1000);
    put_file(foreign, 500000, 9000);
    put_file(maker, 0, 9000);
    put_file(dead, 100000, 7200);
    put_file(alive, 100000, 60);
    struct yokei_gpu_cache_key key;
    memcpy(key.text, "00000000000000000000000000000006", 33);
    static char data[50000];
    device->cache_bytes = 600000; /* 550,000 are there with the new one */
    yokei_gpu_cache_write(device, &key, data, sizeof data, 0);
    assert_true(is_there(oldest) && is_there(old) && is_there(young) && is_there(dead) && is_there(alive)
                && is_there(written));
    /* so 360,000 bytes may stay: the file of the writer that died is removed first, then the oldest file */
    device->cache_bytes = 400000;
    yokei_gpu_cache_write(device, &key, data, sizeof data, 0);
    assert_false(is_there(dead) || is_there(oldest) || is_there(maker));
    assert_true(is_there(old) && is_there(young) && is_there(alive) && is_there(foreign)
                && is_there(written));
    device->cache_bytes =
        1; /* the file that was just written stays, and the file that another process is writing */
    yokei_gpu_cache_write(device, &key, data, sizeof data, 0);
    assert_false(is_there(old) || is_there(young));
    assert_true(is_there(alive) && is_there(foreign) && is_there(written));

    /* A hit is a use. */
    device->cache_bytes = 150000;
    put_file(alive, 0, 60);
    const struct timespec long_ago[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };
    assert_int_equal(utimensat(AT_FDCWD, in_folder(written), long_ago, 0), 0);
    put_file(young, 60000, 1000);
    void *read;
    size_t bytes;
    uint64_t kernels;
    assert_ok(read_entry(device, &key, &read, &bytes, &kernels));
    free(read);
    key.text[31] = '7';
    yokei_gpu_cache_write(device, &key, data, sizeof data, 0);
    assert_true(is_there(written));
    assert_false(is_there(young));
    assert_ok(yoke_device_close(device));
}

static void limit_from_environment(void **state)
{
    (void)state;
    static const char *const bad[] = { "0", "many", "1G", "-1", "99999999999999999999999" };
    struct yoke_device_config config = YOKE_DEVICE_CONFIG_INIT;
    yoke_device *device;
    setenv("YOKE_CACHE_BYTES", "123456", 1);
    assert_ok(yoke_device_open("reference", NULL, &device));
    assert_int_equal(device->cache_bytes, 123456);
    assert_ok(yoke_device_close(device));
    config.cache_bytes = 77;
    assert_ok(yoke_device_open("reference", &config, &device));
    assert_int_equal(device->cache_bytes, 77);
    assert_ok(yoke_device_close(device));
    for (size_t i = 0; i < YOKE_COUNT(bad); i++) {
        setenv("YOKE_CACHE_BYTES", bad[i], 1);
        assert_int_equal(yoke_device_open("reference", NULL, &device), YOKE_ECONFIG);
        assert_non_null(strstr(yoke_last_error(), "YOKE_CACHE_BYTES"));
    }
    unsetenv("YOKE_CACHE_BYTES");
}

/*
 * A device that compiles kernels at their first launch saves programs when it closes. It saves them again if
 * another kernel was launched.
 */
static void saved_at_close(void **state)
{
    (void)state;
    GPU_OPEN(device, NULL, test_folder);
    if (!yokei_gpu(device)->late_binaries) {
        assert_ok(yoke_device_close(device));
        skip();
    }
    yoke_stream *stream;
    float x[3] = { 1, 2, 3 }, y[3] = { 10, 20, 30 }, z[3];
    assert_ok(yoke_stream_create(device, &stream));
    assert_ok(gpu_add(stream, x, y, z, 3));
    assert_int_equal(n_files_in_folder(), 0);
    assert_ok(yoke_stream_destroy(stream));
    assert_ok(yoke_device_close(device));
    assert_int_equal(n_files_in_folder(), 1);
    char path[512];
    struct stat first, second;
    only_file(path, sizeof path);
    assert_int_equal(stat(path, &first), 0);

    device = gpu_open(NULL, test_folder);
    assert_ok(yoke_stream_create(device, &stream));
    void *memory;
    assert_ok(yoke_alloc(device, sizeof z, &memory));
    assert_ok(yoke_copy_to_device(stream, memory, x, sizeof x));
    const struct yoke_scale_args args = YOKE_ARGS(scale, .dtype = YOKE_F32, .n = 3, .x = memory, .y = memory,
                                                  .alpha = 2);
    assert_ok(yoke_scale(stream, &args));
    assert_ok(yoke_copy_to_host(stream, z, memory, sizeof z));
    assert_ok(yoke_stream_sync(stream));
    assert_true(z[0] == 2 && z[1] == 4 && z[2] == 6);
    EXPECT(yokei_gpu_counts(device), 0, 1); /* the same program */
    assert_ok(yoke_free(device, memory));
    assert_ok(yoke_stream_destroy(stream));
    assert_ok(yoke_device_close(device));
    assert_int_equal(n_files_in_folder(), 1);
    assert_int_equal(stat(path, &second), 0);
    assert_true(first.st_ino != second.st_ino);
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
        cmocka_unit_test_setup_teardown(several_folders, make_test_folder, quiet_and_remove_folder),
        cmocka_unit_test_setup_teardown(without_cache, make_test_folder, quiet_and_remove_folder),
        cmocka_unit_test_setup_teardown(limit, make_test_folder, quiet_and_remove_folder),
        cmocka_unit_test(limit_from_environment),
        cmocka_unit_test_setup_teardown(saved_at_close, make_test_folder, quiet_and_remove_folder),
        cmocka_unit_test_setup_teardown(vendor_cache, make_test_folder, quiet_and_remove_folder),
    };
    return cmocka_run_group_tests_name("gpu_cache", tests, NULL, NULL);
}
