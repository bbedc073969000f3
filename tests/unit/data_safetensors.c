/* SPDX-License-Identifier: Apache-2.0 */
/*
 * safetensors. Files that are written must read back as the same bits, in pieces of any size. A write that
 * fails must leave nothing behind.
 */
#include "tests/unit/data_test.h"
#include "tests/unit/safetensors_save.h"

#include <math.h>
#include <sys/resource.h>
#include <signal.h>

#include "train/files/safetensors.h"

static const float floats[6] = { 1, -2, 0.5f, 3e38f, -0.0f, 1e-40f };
static const uint16_t halves[3] = { 0x3f80, 0x7fc1, 0x0001 };
static const int64_t longs[2] = { -1, INT64_MAX };
static const uint8_t bytes3[3] = { 0, 127, 255 };

static const struct yokei_tensor four[] = {
    { .name = "b", .dtype = YOKE_BF16, .n_dims = 1, .shape = { 3 }, .data = halves },
    { .name = "a.weight", .dtype = YOKE_F32, .n_dims = 2, .shape = { 2, 3 }, .data = floats },
    { .name = "\"quoted\\\" \xc3\xa9", .dtype = YOKE_U8, .n_dims = 3, .shape = { 1, 3, 1 }, .data = bytes3 },
    { .name = "c", .dtype = YOKE_I64, .n_dims = 1, .shape = { 2 }, .data = longs },
    { .name = "empty", .dtype = YOKE_F32, .n_dims = 2, .shape = { 0, 5 }, .data = floats },
    { .name = "scalar", .dtype = YOKE_F64, .n_dims = 0, .data = longs },
};
static const struct yokei_metadata note[] = { { "format", "pt" }, { "step", "12" } };

static void check_four(const char *path)
{
    struct yokei_safetensors *file;
    assert_ok(yokei_safetensors_open(path, 0, &file));
    assert_int_equal(yokei_safetensors_count(file), YOKE_COUNT(four));
    for (size_t i = 0; i < YOKE_COUNT(four); i++) {
        const struct yokei_tensor *got = yokei_safetensors_find(file, four[i].name);
        assert_non_null(got);
        assert_int_equal(got->dtype, four[i].dtype);
        assert_int_equal(got->n_dims, four[i].n_dims);
        assert_memory_equal(got->shape, four[i].shape, sizeof got->shape);
        if (got->bytes) assert_memory_equal(got->data, four[i].data, got->bytes);
    }
    for (size_t i = 1; i < yokei_safetensors_count(file); i++)
        assert_true(strcmp(yokei_safetensors_at(file, i - 1)->name, yokei_safetensors_at(file, i)->name) < 0);
    assert_null(yokei_safetensors_at(file, YOKE_COUNT(four)));
    yokei_safetensors_close(file);
}

/* The header is JSON on one line, after eight bytes with its length. */
static void check_note(const char *path)
{
    char header[4096] = "";
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_true(fread(header, 1, sizeof header - 1, file) > 8);
    fclose(file);
    assert_non_null(strstr(header + 8, "\"format\":\"pt\""));
    assert_non_null(strstr(header + 8, "\"step\":\"12\""));
}

static void what_is_written_reads_back(void **state)
{
    (void)state;
    assert_ok(save_safetensors(in_folder("one.safetensors"), four, YOKE_COUNT(four), note, 2));
    check_four(in_folder("one.safetensors"));
    check_note(in_folder("one.safetensors"));
    assert_ok(save_safetensors(in_folder("one.safetensors"), four, YOKE_COUNT(four), note,
                               2)); /* over the old one */
    check_four(in_folder("one.safetensors"));
    assert_ok(save_safetensors(in_folder("none.safetensors"), NULL, 0, NULL, 0));
    struct yokei_safetensors *file;
    assert_ok(yokei_safetensors_open(in_folder("none.safetensors"), 0, &file));
    assert_int_equal(yokei_safetensors_count(file), 0);
    assert_null(yokei_safetensors_find(file, "a"));
    yokei_safetensors_close(file);
}

static void pieces_of_any_size_make_the_same_file(void **state)
{
    (void)state;
    for (size_t piece = 1; piece <= 24; piece++) {
        struct yokei_safetensors_writer *writer;
        assert_ok(yokei_safetensors_create(in_folder("pieces.safetensors"), four, YOKE_COUNT(four), note, 2,
                                           &writer));
        for (size_t i = 0; i < YOKE_COUNT(four); i++) {
            size_t bytes = yoke_dtype_bytes(four[i].dtype);
            for (int d = 0; d < four[i].n_dims; d++) bytes *= (size_t)four[i].shape[d];
            for (size_t at = 0; at < bytes; at += piece)
                assert_ok(yokei_safetensors_write(writer, (const char *)four[i].data + at,
                                                  YOKE_MIN(piece, bytes - at)));
        }
        assert_fails(YOKE_EINVAL, NULL, yokei_safetensors_write(writer, floats, 1));
        assert_ok(yokei_safetensors_commit(writer));
        check_four(in_folder("pieces.safetensors"));
    }
}

static void tensors_are_converted_on_load(void **state)
{
    (void)state;
    struct yokei_safetensors *file;
    float f[6];
    uint16_t h[6];
    double d[6];
    assert_ok(save_safetensors(in_folder("one.safetensors"), four, YOKE_COUNT(four), NULL, 0));
    assert_ok(yokei_safetensors_open(in_folder("one.safetensors"), 0, &file));
    const struct yokei_tensor *weight = yokei_safetensors_find(file, "a.weight");
    assert_ok(yokei_tensor_copy(weight, 6, YOKE_F32, f));
    assert_memory_equal(f, floats, sizeof f);
    assert_ok(yokei_tensor_copy(weight, 6, YOKE_BF16, h));
    assert_ok(yokei_tensor_copy(weight, 6, YOKE_F64, d));
    for (int i = 0; i < 6; i++) {
        assert_int_equal(h[i], yokei_f32_to_bf16(floats[i]));
        assert_true(d[i] == (double)floats[i]);
    }
    /* A finite weight that f32 cannot hold is refused when a model is loaded, instead of being infinite. */
    static const double large[2] = { INFINITY, 1e300 };
    struct yokei_tensor t = { .name = "t", .dtype = YOKE_F64, .bytes = 16, .data = large, .file = "f" };
    assert_ok(yokei_tensor_copy(&t, 1, YOKE_F32, f));
    assert_true(isinf(f[0]));
    assert_fails(YOKE_EDATA, "f: element 1 of tensor t is 1e+300, more than f32 can hold",
                 yokei_tensor_copy(&t, 2, YOKE_F32, f));
    f[0] = 42;
    assert_string_equal(yokei_safetensors_nearest(file, "a.weigth"), "a.weight");
    assert_fails(YOKE_EDATA, "is I64", yokei_tensor_copy(yokei_safetensors_find(file, "c"), 2, YOKE_F32, f));
    assert_true(f[0] == 42);
    assert_fails(YOKE_EINVAL, NULL, yokei_tensor_copy(yokei_safetensors_find(file, "c"), 3, YOKE_I64, d));
    yokei_safetensors_close(file);
}

static void what_cannot_be_written_is_refused(void **state)
{
    (void)state;
    int before = n_files_in_folder();
    const char *path = in_folder("refused.safetensors");
    struct yokei_tensor bad[2] = { four[1], four[1] };
    assert_fails(YOKE_EINVAL, "twice", save_safetensors(path, bad, 2, NULL, 0));
    static const char *const names[] = { "", "__metadata__", "a\nb", "\xff\xfe" };
    for (size_t i = 0; i < YOKE_COUNT(names); i++) {
        bad[0].name = names[i];
        assert_fails(YOKE_EINVAL, "cannot be written", save_safetensors(path, bad, 1, NULL, 0));
    }
    assert_fails(YOKE_EINVAL, ": it is not UTF-8", save_safetensors(path, bad, 1, NULL, 0));
    bad[0] = four[1];
    bad[0].shape[0] = INT64_MAX;
    assert_fails(YOKE_EINVAL, "overflows", save_safetensors(path, bad, 1, NULL, 0));
    bad[0] = four[1];
    bad[0].n_dims = 9;
    assert_fails(YOKE_EINVAL, "it has 9 dimensions", save_safetensors(path, bad, 1, NULL, 0));
    static const struct {
        struct yokei_metadata metadata;
        const char *why;
    } wrong[] = { { { "yoke.xxh3.x", "1" }, "are for checksums" },
                  { { "\xff", "1" }, "its key is not UTF-8" },
                  { { "a", "\xff" }, "its value is not UTF-8" } };
    for (size_t i = 0; i < YOKE_COUNT(wrong); i++)
        assert_fails(YOKE_EINVAL, wrong[i].why,
                     save_safetensors(path, four, YOKE_COUNT(four), &wrong[i].metadata, 1));
    struct yokei_safetensors_writer *writer;
    assert_ok(yokei_safetensors_create(path, four, YOKE_COUNT(four), NULL, 0, &writer));
    assert_fails(YOKE_EINVAL, "still waits for 6 bytes", yokei_safetensors_commit(writer));
    assert_ok(yokei_safetensors_create(path, four, YOKE_COUNT(four), NULL, 0, &writer));
    yokei_safetensors_abandon(writer);
    assert_fails(YOKE_EIO, "there is no such folder",
                 save_safetensors(in_folder("no/where.safetensors"), four, 1, NULL, 0));
    assert_int_equal(n_files_in_folder(), before);
}

/*
 * A full disk, simulated by a limit on the size of files. The old file must stay, and nothing may be left of
 * the new one.
 */
static void a_full_disk_leaves_the_old_file(void **state)
{
    (void)state;
    const char *path = in_folder("full.safetensors");
    assert_ok(save_safetensors(path, four, YOKE_COUNT(four), note, 2));
    int before = n_files_in_folder();
    enum { N = 100000 };
    float *big = calloc(N, sizeof *big);
    const struct yokei_tensor large = {
        .name = "big", .dtype = YOKE_F32, .n_dims = 1, .shape = { N }, .data = big
    };
    struct rlimit old, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 100000;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    yoke_status status = save_safetensors(path, &large, 1, NULL, 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, handler);
    assert_int_equal(status, YOKE_EIO);
    assert_non_null(strstr(yoke_last_error(), "cannot be written at byte offset"));
    assert_int_equal(n_files_in_folder(), before);
    check_four(path);
    free(big);
}

static void shards_are_joined_by_their_index(void **state)
{
    (void)state;
    struct yokei_safetensors *file;
    assert_ok(save_safetensors(in_folder("model-00001-of-00002.safetensors"), four, 2, NULL, 0));
    assert_ok(save_safetensors(in_folder("model-00002-of-00002.safetensors"), four + 3, 1, NULL, 0));
    put_text(
        "model.safetensors.index.json",
        "{\"metadata\": {\"total_size\": 46}, \"weight_map\": {\"b\": \"model-00001-of-00002.safetensors\","
        " \"a.weight\": \"model-00001-of-00002.safetensors\", \"c\": \"model-00002-of-00002.safetensors\"}}");
    assert_ok(yokei_safetensors_open(test_folder, 0, &file)); /* the folder stands for its index */
    assert_int_equal(yokei_safetensors_count(file), 3);
    assert_memory_equal(yokei_safetensors_find(file, "c")->data, longs, sizeof longs);
    assert_memory_equal(yokei_safetensors_find(file, "a.weight")->data, floats, sizeof floats);
    yokei_safetensors_close(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_reads_back),
        cmocka_unit_test(pieces_of_any_size_make_the_same_file),
        cmocka_unit_test(tensors_are_converted_on_load),
        cmocka_unit_test(what_cannot_be_written_is_refused),
        cmocka_unit_test(a_full_disk_leaves_the_old_file),
        cmocka_unit_test(shards_are_joined_by_their_index),
    };
    return cmocka_run_group_tests_name("data_safetensors", tests, make_test_folder, remove_test_folder);
}
