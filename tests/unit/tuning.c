/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tuning files: what they may contain, which devices they apply to, which of several files is used, and the
 * answers that come from them.
 */
#include "tests/unit/folder.h"

#include "core/backend.h"
#include "core/base/base.h"
#include "core/tune.h"
#include <sys/stat.h>

static char logged[4096];

static void keep_log(void *context, yoke_log_level level, const char *text)
{
    (void)context, (void)level;
    const size_t used = strlen(logged);
    snprintf(logged + used, sizeof logged - used, "%s\n", text);
}

/* Use no tuning file of this machine's user, and none of this source tree. */
static int set_up(void **state)
{
    if (make_test_folder(state)) return -1;
    setenv("XDG_CONFIG_HOME", test_folder, 1);
    setenv("YOKE_DATA_DIR", test_folder, 1);
    unsetenv("YOKE_TUNE_FILE");
    logged[0] = 0;
    yoke_log_set(keep_log, NULL, YOKE_LOG_WARN);
    return 0;
}

static void write_to(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static yoke_device *open_host(const char *tune_file)
{
    struct yoke_device_config config = YOKE_DEVICE_CONFIG_INIT;
    yoke_device *device = NULL;
    config.tune_file = tune_file;
    assert_ok(yoke_device_open("host", &config, &device));
    return device;
}

/* A host has at least the instruction set that every CPU of its kind has, which is listed last. */
static const char *last_variant(const yoke_device *device, const char *op)
{
    const char *name = NULL, *next;
    for (int i = 0; (next = yoke_variant_name(device, op, i)); i++) name = next;
    assert_non_null(name);
    return name;
}

static void wrong_files(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } wrong[] = {
        { "", "empty" },
        { "# nothing\n\n", "empty" },
        { "hello\n", ":1: no tuning file" },
        { "yoke-tune x host *\n", ":1: no tuning file" },
        { "yoke-tune 7 host *\n", ":1: a tuning file of version 7, this Yoke reads version 1" },
        { "yoke-tune 1 opencl *\n", "made for opencl *, this device is host" },
        { "yoke-tune 1 host Some other CPU\n", "made for host Some other CPU" },
        { "yoke-tune 1 host *\nmatch features nonsense*\n",
          ":2: made for devices whose features is like 'nonsense*'" },
        { "yoke-tune 1 host *\nmatch colour *\n", ":2: write 'match name|driver|features" },
        { "yoke-tune 1 host *\nmatch features\n", ":2: " },
        { "yoke-tune 1 host *\n\ngemm f32 0\n", ":3: a line is 'op dtype" },
        { "yoke-tune 1 host *\ngemm f32 0 generic more\n", ":2: a line is" },
        { "yoke-tune 1 host *\ngemm f32 -1 generic\n", ":2: a line is" },
        { "yoke-tune 1 host *\ngemm f32 nan generic\n", ":2: a line is" },
        { "yoke-tune 1 host *\ngemm f32 12x generic\n", ":2: a line is" },
        { "yoke-tune 1 host *\ngemm f32 1, generic\n", ":2: a line is" },
        { "yoke-tune 1 host *\ngemm f32 1,-2 generic\n", ":2: a line is" },
        { "yoke-tune 1 host *\ngelu_foward f32 0 generic\n", "did you mean 'gelu_forward'" },
        { "yoke-tune 1 host *\ngemm f33 0 generic\n", "f33" },
        { "yoke-tune 1 host *\ngemm f32 0 tile99\n", "has no variant 'tile99' of gemm; run yoke tune again" },
    };
    struct yoke_device_config config = YOKE_DEVICE_CONFIG_INIT;
    for (size_t i = 0; i < YOKE_COUNT(wrong); i++) {
        yoke_device *device = NULL;
        config.tune_file = in_folder("wrong.tune");
        write_to(config.tune_file, wrong[i].text);
        assert_fails(YOKE_ECONFIG, wrong[i].words, yoke_device_open("host", &config, &device));
        assert_null(device);
    }
    yoke_device *device = NULL;
    config.tune_file = in_folder("missing.tune");
    assert_fails(YOKE_ECONFIG, "missing.tune", yoke_device_open("host", &config, &device));
}

static int answer(const yoke_device *device, enum yoke_op_id op, yoke_dtype dtype, double size, double edge)
{
    const struct yokei_call call = { .op = op, .dtype = dtype, .size = size, .edge = edge };
    return yokei_variant(device, &call, 77);
}

static void answers(void **state)
{
    (void)state;
    yoke_device *device = open_host("off");
    char text[1024], last[64];
    snprintf(last, sizeof last, "%s", last_variant(device, "gemm"));
    const int v = yokei_variant_named(device, YOKE_OP_gemm, last),
              first = yokei_variant_named(device, YOKE_OP_add, yoke_variant_name(device, "add", 0));
    assert_true(v >= 0 && first == 0);
    assert_int_equal(answer(device, YOKE_OP_gemm, YOKE_F32, 1e9, 9),
                     77); /* without a file the rule decides */
    assert_ok(yoke_device_close(device));
    snprintf(
        text, sizeof text,
        "yoke-tune 1 host *   # any host\nmatch features *\n\n"
        "gemm * 100 %s\ngemm f32 1000 default\n gemm f32 0,64 %s # from an edge of 64 on\r\ngemm f32 5e3,64 default\nadd bf16 10 %s\n",
        last, last, last);
    write_to(in_folder("good.tune"), text);
    device = open_host(in_folder("good.tune"));
    assert_int_equal(yokei_tuning_source(device)->kind, YOKEI_TUNING_GIVEN);
    assert_int_equal(yokei_tuning_source(device)->n_choices, 5);
    const struct {
        enum yoke_op_id op;
        yoke_dtype dtype;
        double size, edge;
        int wanted;
    } calls[] = {
        { YOKE_OP_gemm, YOKE_F16, 99, 0, 77 },    { YOKE_OP_gemm, YOKE_F16, 100, 0, v },
        { YOKE_OP_gemm, YOKE_F16, 1e12, 1e4, v }, { YOKE_OP_gemm, YOKE_F32, 100, 63, v },
        { YOKE_OP_gemm, YOKE_F32, 1000, 63, 77 }, { YOKE_OP_gemm, YOKE_F32, 1000, 64, v },
        { YOKE_OP_gemm, YOKE_F32, 5000, 64, 77 }, { YOKE_OP_gemm, YOKE_F32, 0, 64, v },
        { YOKE_OP_add, YOKE_F32, 100, 0, 77 },    { YOKE_OP_scale, YOKE_BF16, 100, 0, 77 },
    };
    for (size_t i = 0; i < YOKE_COUNT(calls); i++)
        assert_int_equal(answer(device, calls[i].op, calls[i].dtype, calls[i].size, calls[i].edge),
                         calls[i].wanted);
    assert_int_equal(answer(device, YOKE_OP_add, YOKE_BF16, 10, 0),
                     yokei_variant_named(device, YOKE_OP_add, last));
    double size, edge;
    assert_string_equal(yokei_variant_used(device, YOKE_OP_add, &size, &edge), last);
    assert_true(size == 10 && edge == 0);
    /* A forced variant has precedence over any file. */
    assert_ok(yoke_variant_force(device, "gemm", yoke_variant_name(device, "gemm", 0)));
    assert_int_equal(answer(device, YOKE_OP_gemm, YOKE_F16, 1e12, 0), 0);
    assert_true(yokei_variant_is_forced(device, YOKE_OP_gemm));
    assert_ok(yoke_variant_force(device, "gemm", NULL));
    assert_int_equal(answer(device, YOKE_OP_gemm, YOKE_F16, 1e12, 0), v);
    assert_ok(yoke_device_close(device));
}

/* The size and the edge of calls, by which lines of a file apply. Each backend gets them from core. */
static void sizes_of_calls(void **state)
{
    (void)state;
    yoke_device *device = open_host("off");
    double size, edge;
#define SIZE_OF(op, wanted_size, wanted_edge, ...)                               \
    assert_ok(yoke_##op##_can(device, &YOKE_ARGS(op, __VA_ARGS__), NULL));       \
    assert_true(yokei_variant_used(device, YOKE_OP_##op, &size, &edge)[0] != 0); \
    assert_true(size == (wanted_size) && edge == (wanted_edge))
    SIZE_OF(gemm, 2 * 3 * 4 * 5, 3, .M = 3, .N = 4, .K = 5, .batch = 2, .alpha = 1, .lda = 5, .ldb = 4,
            .ldc = 4, .stride_c = 12);
    SIZE_OF(attention_forward, 2 * 7 * 3 * 8, 7, .B = 2, .T = 7, .H = 3, .Hkv = 3, .D = 8, .scale = 1,
            .ldq = 24, .ldk = 24, .ldv = 24, .ldo = 24);
    SIZE_OF(xent_forward, 3 * 11, 0, .N = 3, .V = 11, .ld = 11);
    SIZE_OF(xent_join, 4 * 5, 0, .P = 4, .N = 5, .ld = 5);
    SIZE_OF(rmsnorm_backward, 3 * 8, 0, .N = 3, .C = 8, .lddy = 8, .ldx = 8);
    SIZE_OF(cast, 9, 0, .from = YOKE_F32, .to = YOKE_BF16, .n = 9);
#undef SIZE_OF
    assert_ok(yoke_device_close(device));
}

/* A file chooses oneDNN for all products. f16, which oneDNN lacks, must still run. */
static void a_choice_that_is_not_offered(void **state)
{
    (void)state;
    uint16_t a[64 * 64] = { 0 }, c[64 * 64];
    yoke_stream *stream;
    struct yoke_cost cost = { .size = sizeof cost };
    struct yoke_gemm_args args = YOKE_ARGS(gemm, .dtype = YOKE_F16, .out_dtype = YOKE_F16, .M = 64, .N = 64,
                                           .K = 64, .batch = 1, .a = a, .lda = 64, .b = a, .ldb = 64, .c = c,
                                           .ldc = 64, .alpha = 1);
    yoke_device *device = open_host("off");
    const bool has = !strcmp(yoke_variant_name(device, "gemm", 0), "onednn");
    assert_ok(yoke_device_close(device));
    if (!has) skip();
    write_to(in_folder("library.tune"), "yoke-tune 1 host *\ngemm * 0 onednn\n");
    device = open_host(in_folder("library.tune"));
    assert_ok(yoke_stream_create(device, &stream));
    assert_ok(yoke_gemm_can(device, &args, &cost));
    assert_ok(yoke_stream_reserve(stream, cost.scratch_bytes));
    assert_ok(yoke_gemm(stream, &args));
    assert_ok(yoke_stream_sync(stream));
    assert_int_equal(c[77], 0);
    assert_ok(yoke_stream_destroy(stream));
    assert_ok(yoke_device_close(device));
}

/* Open the device without a file name, and return the file from which its choices come. */
static struct yokei_tuning_source source_now(void)
{
    logged[0] = 0;
    yoke_device *device = open_host(NULL);
    const struct yokei_tuning_source source = *yokei_tuning_source(device);
    assert_ok(yoke_device_close(device));
    return source;
}

/* After precedence has written the files: a named file has precedence over all; "off" names none. */
static void named_files(void)
{
    char list[1400];
    setenv("YOKE_TUNE_FILE", in_folder("tuning/host-c.tune"), 1);
    assert_int_equal(source_now().kind, YOKEI_TUNING_GIVEN);
    snprintf(list, sizeof list, "%s:%s", in_folder("tuning/host-c.tune"), in_folder("missing.tune"));
    setenv("YOKE_TUNE_FILE", list, 1);
    assert_non_null(strstr(source_now().file, "/host-c.tune"));
    write_to(in_folder("other.tune"), "yoke-tune 1 opencl *\n");
    snprintf(list, sizeof list, "%s:%s", in_folder("other.tune"), in_folder("tuning/host-c.tune"));
    setenv("YOKE_TUNE_FILE", list, 1);
    /* a file of another backend is for other ranks */
    assert_non_null(strstr(source_now().file, "/host-c.tune"));
    setenv("YOKE_TUNE_FILE", in_folder("other.tune"), 1);
    assert_int_equal(source_now().kind, YOKEI_TUNING_SHIPPED);
    yoke_device *none = NULL;
    setenv("YOKE_TUNE_FILE", in_folder("tuning/host-a.tune"), 1);
    assert_fails(YOKE_ECONFIG, "made for host no such CPU", yoke_device_open("host", NULL, &none));
    setenv("YOKE_TUNE_FILE", in_folder("missing.tune"), 1);
    assert_fails(YOKE_ECONFIG, "missing.tune", yoke_device_open("host", NULL, &none));
    setenv("YOKE_TUNE_FILE", "off", 1);
    assert_int_equal(source_now().kind, YOKEI_TUNING_RULES);
    setenv("YOKE_TUNE_FILE", "", 1);
    assert_int_equal(source_now().kind, YOKEI_TUNING_SHIPPED);
}

static void precedence(void **state)
{
    (void)state;
    char user[1024], folder[600], text[400], last[64];
    yoke_device *device = open_host("off");
    yokei_tuning_user_file(device, user, sizeof user);
    snprintf(last, sizeof last, "%s", last_variant(device, "gemm"));
    assert_ok(yoke_device_close(device));
    assert_int_equal(strncmp(user, test_folder, strlen(test_folder)), 0);
    assert_non_null(strstr(user, "/yoke/tuning/host-"));
    assert_null(strpbrk(strrchr(user, '/') + 1, " ()@\\"));
    assert_int_equal(source_now().kind, YOKEI_TUNING_RULES);

    /* among the shipped files, the first by name that matches is used */
    snprintf(folder, sizeof folder, "%s/tuning", test_folder);
    assert_ok(yokei_make_folder(folder));
    snprintf(text, sizeof text, "yoke-tune 1 host *\ngemm f32 0 %s\n", last);
    write_to(in_folder("tuning/host-a.tune"), "yoke-tune 1 host no such CPU\n");
    write_to(in_folder("tuning/host-b.txt"), text);
    write_to(in_folder("tuning/opencl-a.tune"), text);
    assert_int_equal(source_now().kind, YOKEI_TUNING_RULES);
    assert_string_equal(logged, "");
    write_to(in_folder("tuning/host-c.tune"), text);
    write_to(in_folder("tuning/host-d.tune"), "yoke-tune 1 host *\n");
    struct yokei_tuning_source source = source_now();
    assert_int_equal(source.kind, YOKEI_TUNING_SHIPPED);
    assert_non_null(strstr(source.file, "host-c.tune"));
    assert_int_equal(source.n_choices, 1);

    /* the user's file has precedence; a broken one is reported and left out */
    *strrchr(user, '/') = 0;
    assert_ok(yokei_make_folder(user));
    user[strlen(user)] = '/';
    write_to(user, "yoke-tune 1 host *\ngemm f32 0 tile99\nadd f32 0 default\n");
    source = source_now();
    assert_int_equal(source.kind, YOKEI_TUNING_USER);
    assert_int_equal(source.n_choices, 1);
    assert_int_equal(source.n_skipped, 1);
    assert_non_null(strstr(logged, "1 of 2 lines"));
    write_to(user, "yoke-tune 1 host *\ngemm f32 zero default\n");
    assert_int_equal(source_now().kind, YOKEI_TUNING_SHIPPED);
    assert_non_null(strstr(logged, "the tuning file is left out"));
    named_files();
    unsetenv("YOKE_TUNE_FILE");
}

static void heads(void **state)
{
    (void)state;
    char head[2048], text[4096];
    yoke_device *device = open_host("off");
    struct yoke_device_info *info = &device->info;
    snprintf(info->name, sizeof info->name, "CPU [8*x] a\\b ? #1");
    assert_ok(yokei_tuning_head(device, NULL, head, sizeof head));
    struct yokei_tuning tuning = { .n = 0 };
    snprintf(text, sizeof text, "%s", head);
    assert_ok(yokei_tuning_parse(device, &tuning, "head", text, true));
    assert_false(tuning.source.other_variants);
    assert_non_null(strstr(tuning.source.made, yoke_version()));
    snprintf(info->name, sizeof info->name,
             "CPU [8*x] a\\b ! #1"); /* a name that the pattern must not take */
    snprintf(text, sizeof text, "%s", head);
    assert_fails(YOKE_ENODEV, "made for host", yokei_tuning_parse(device, &tuning, "head", text, true));

    const char *const matches[] = { "features=*", "name=CPU *", NULL },
                      *const other[] = { "features=nonsense", NULL }, *const bad[] = { "colour=*", NULL };
    assert_ok(yokei_tuning_head(device, matches, head, sizeof head));
    snprintf(info->name, sizeof info->name, "CPU of another kind");
    snprintf(text, sizeof text, "%s", head);
    assert_ok(yokei_tuning_parse(device, &tuning, "head", text, true));
    assert_fails(YOKE_EINVAL, "does not match", yokei_tuning_head(device, other, head, sizeof head));
    assert_fails(YOKE_EINVAL, "write name=PATTERN", yokei_tuning_head(device, bad, head, sizeof head));

    snprintf(text, sizeof text, "yoke-tune 1 host *\nmade 0.0.1 0123456789abcdef some driver\n");
    assert_ok(yokei_tuning_parse(device, &tuning, "older", text, true));
    assert_true(tuning.source.other_variants);
    assert_ok(yoke_device_close(device));
}

/*
 * The files that come with Yoke must be valid, and the one for CPUs with PoCL must be found for such a
 * device.
 */
static void shipped(void **state)
{
    (void)state;
    yoke_device *device = NULL;
    unsetenv("YOKE_DATA_DIR");
    logged[0] = 0;
    if (yoke_device_open("opencl:0", NULL, &device)) skip();
    const struct yoke_device_info *info = yoke_device_info(device);
    const struct yokei_tuning_source source = *yokei_tuning_source(device);
    const bool known = strstr(info->driver, "PoCL") && !strncmp(info->features, "cpu ", 4)
                       && strstr(info->features, "vector=16");
    assert_ok(yoke_device_close(device));
    setenv("YOKE_DATA_DIR", test_folder, 1);
    assert_string_equal(logged, "");
    if (!known) skip();
    assert_int_equal(source.kind, YOKEI_TUNING_SHIPPED);
    assert_non_null(strstr(source.file, "/core/tuning/opencl-"));
    assert_true(source.n_choices > 0 && source.n_skipped == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(wrong_files, set_up, remove_test_folder),
        cmocka_unit_test_setup_teardown(answers, set_up, remove_test_folder),
        cmocka_unit_test_setup_teardown(sizes_of_calls, set_up, remove_test_folder),
        cmocka_unit_test_setup_teardown(a_choice_that_is_not_offered, set_up, remove_test_folder),
        cmocka_unit_test_setup_teardown(precedence, set_up, remove_test_folder),
        cmocka_unit_test_setup_teardown(heads, set_up, remove_test_folder),
        cmocka_unit_test_setup_teardown(shipped, set_up, remove_test_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
