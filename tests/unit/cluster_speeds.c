/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers with units, and the speeds of a device from a file of yoke bench kernels. */
#include "tests/unit/test.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/base.h"
#include "tests/unit/folder.h"
#include "train/search/cluster_file.h"
#include "train/search/units.h"

static struct yokei_cluster cluster, other;

/* ---- numbers with units ---- */

static const struct {
    enum yokei_quantity quantity;
    const char *text;
    double value;
    const char *written;
} good_units[] = {
    { YOKEI_MEMORY, "80GiB", 80.0 * (1 << 30), "80GiB" },
    { YOKEI_MEMORY, "1536 MiB", 1536.0 * (1 << 20), "1.5GiB" },
    { YOKEI_MEMORY, "1000000007B", 1000000007, "1000000007B" },
    { YOKEI_BANDWIDTH, "400Gbit/s", 50e9, "50GB/s" },
    { YOKEI_BANDWIDTH, "3.35TB/s", 3.35e12, "3.35TB/s" },
    { YOKEI_BANDWIDTH, "25GB/s", 25e9, "25GB/s" },
    { YOKEI_BANDWIDTH, "1e3MB/s", 1e9, "1GB/s" },
    { YOKEI_SECONDS, "2us", 2e-6, "2us" },
    { YOKEI_SECONDS, "0.3 \xc2\xb5s", 3e-7, "300ns" },
    { YOKEI_SECONDS, "0ns", 0, "0s" },
    { YOKEI_RATE, "990TFLOP/s", 990e12, "990TFLOP/s" },
    { YOKEI_RATE, "0.1PFLOP/s", 1e14, "100TFLOP/s" },
    { YOKEI_WORK, "16GFLOP", 16e9, "16GFLOP" },
    { YOKEI_PRICE, "2.10/h", 2.10, "2.1/h" },
};
static const struct {
    enum yokei_quantity quantity;
    const char *text, *words;
} bad_units[] = {
    { YOKEI_MEMORY, "80", "has no unit; write 80GiB" },
    { YOKEI_MEMORY, "80GB", "write 80GiB" },
    { YOKEI_MEMORY, "80 MB", "write 80MiB" },
    { YOKEI_MEMORY, "80gib", "did you mean 80GiB?" },
    { YOKEI_MEMORY, "-80GiB", "is negative" },
    { YOKEI_MEMORY, "GiB", "is no number" },
    { YOKEI_MEMORY, "0x50GiB", "unknown unit 'x50GiB'" },
    { YOKEI_MEMORY, "nan", "is no number" },
    { YOKEI_MEMORY, "inf", "is no number" },
    { YOKEI_MEMORY, "80  GiB", "unknown unit" },
    { YOKEI_MEMORY, "1e999GiB", "cannot be right" },
    { YOKEI_MEMORY, "1e99999999999999999999999GiB", "cannot be right" },
    { YOKEI_BANDWIDTH, "1e99999999999999999999TB/s", "is too large" },
    { YOKEI_MEMORY, "80MiB", "must be from 100MiB to 1TiB" },
    { YOKEI_BANDWIDTH, "400Gbps", "write 400Gbit/s" },
    { YOKEI_BANDWIDTH, "400Gb/s", "write 400Gbit/s" },
    { YOKEI_BANDWIDTH, "25GB", "write 25GB/s" },
    { YOKEI_BANDWIDTH, "25", "has no unit" },
    { YOKEI_RATE, "990TFLOPS", "write 990TFLOP/s" },
    { YOKEI_RATE, "990", "has no unit; write 990TFLOP/s" },
    { YOKEI_SECONDS, "2", "has no unit; write 2us" },
    { YOKEI_SECONDS, "2parsecs", "the units are s, ms, us, ns" },
    { YOKEI_PRICE, "2.10", "write 2.10/h" },
    { YOKEI_PRICE, "$2.10/h", "is no number" },
    { YOKEI_WORK, "1GFLOP/s", "write 1GFLOP" },
};

static void units(void **state)
{
    (void)state;
    static const double range[] = { 100.0 * (1 << 20), 1024.0 * (1 << 30) };
    char text[256];
    double x;
    for (size_t i = 0; i < YOKE_COUNT(good_units); i++) {
        if (!yokei_unit_read(good_units[i].quantity, good_units[i].text, NULL, &x, text, sizeof text))
            fail_msg("%s %s", good_units[i].text, text);
        if (x != good_units[i].value)
            fail_msg("%s is %.17g, not %.17g", good_units[i].text, x, good_units[i].value);
        yokei_unit_write(good_units[i].quantity, x, text, sizeof text);
        assert_string_equal(text, good_units[i].written);
    }
    for (size_t i = 0; i < YOKE_COUNT(bad_units); i++) {
        x = -7;
        assert_false(yokei_unit_read(bad_units[i].quantity, bad_units[i].text,
                                     bad_units[i].quantity == YOKEI_MEMORY ? range : NULL, &x, text,
                                     sizeof text));
        if (!strstr(text, bad_units[i].words))
            fail_msg("%s: '%s', not '%s'", bad_units[i].text, text, bad_units[i].words);
        assert_true(x == -7);
    }
}

/* Random values of all sizes are written so that they read back as the same bits. */
static void random_units(void **state)
{
    (void)state;
    char text[256];
    double x;
    const struct yokei_philox_key key = yokei_philox_named(1, "units");
    for (uint64_t i = 0; i < 3000; i++) {
        const double value = exp(40 * yokei_uniform(key, 2 * i) - 20);
        const enum yokei_quantity q = (enum yokei_quantity)(i % 6);
        yokei_unit_write(q, value, text, sizeof text);
        char why[256];
        if (!yokei_unit_read(q, text, NULL, &x, why, sizeof why) || x != value)
            fail_msg("%.17g is written as %s and read as %.17g", value, text, x);
    }
}

static char *replaced(const char *text, const char *old, const char *new)
{
    const char *at = strstr(text, old);
    const size_t bytes = strlen(text) + strlen(new) + 1;
    char *result = malloc(bytes);
    if (!at || !result) fail_msg("the text has no '%s'", old);
    yokei_text(result, bytes, "%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
    return result;
}

/* ---- files of yoke bench kernels ---- */

static const char kernels_head[] =
    "{\"schema\": 1, \"device\": \"opencl:0\", \"peak_flop_per_s\": {\"f32\": 5e12}, \"rows\": [";

/* A row of an op that takes so long. */
static void add_row(char *text, size_t bytes, const char *op, const char *by, double seconds, double flops,
                    double traffic)
{
    const size_t at = strlen(text);
    yokei_text(text + at, bytes - at,
               "%s{\"op\": \"%s\", \"dtype\": \"f32\", \"limited_by\": \"%s\", \"seconds\": %.17g, "
               "\"flop_per_s\": %.17g, \"bytes_per_s\": %.17g}",
               at > sizeof kernels_head ? ", " : "", op, by, seconds, flops / seconds, traffic / seconds);
}

static void near(double a, double b)
{
    if (fabs(a / b - 1) > 1e-9) fail_msg("%.12g, not %.12g", a, b);
}

/* Rows of a device of 20 us for each op, 500 GB/s, and 1 to 4 TFLOP/s; and a cluster file that names them. */
static char kernels_text[4096];

static void make_kernels(void)
{
    char *const text = kernels_text, yaml[512];
    yokei_text(text, sizeof kernels_text, "%s", kernels_head);
    static const struct {
        const char *op;
        double flops, rate;
    } computing[] = { { "gemm", 1e8, 1e12 },
                      { "gemm", 1.5e8, 1e12 },
                      { "gemm", 1e10, 4e12 },
                      { "gemm", 5e10, 3e12 },
                      { "attention_forward", 2e9, 2e12 },
                      { "attention_backward", 2.5e9, 2e12 } };
    for (size_t i = 0; i < YOKE_COUNT(computing); i++)
        add_row(text, sizeof kernels_text, computing[i].op, "arithmetic",
                2e-5 + computing[i].flops / computing[i].rate, computing[i].flops, 1);
    add_row(text, sizeof kernels_text, "gemm", "memory", 1e-3, 1e6, 1e6); /* no rate */
    add_row(text, sizeof kernels_text, "layernorm_forward", "memory", 2e-5 + 1e7 / 5e11, 1e7, 1e7);
    add_row(text, sizeof kernels_text, "cast", "memory", 2e-5 + 3e8 / 5e11, 1e8, 3e8);
    add_row(text, sizeof kernels_text, "gelu_forward", "memory", 2e-5 + 1e9 / 5e11, 1e8, 1e9);
    add_row(text, sizeof kernels_text, "adamw", "memory", 1e9 / 4e11, 1e8, 1e9);
    const size_t at = strlen(text);
    yokei_text(text + at, sizeof kernels_text - at, "]}");
    assert_ok(yokei_file_write(in_folder("k.json"), text, strlen(text)));
    yokei_text(
        yaml, sizeof yaml,
        "devices: { d: { memory: 1GiB, kernels: k.json } }\nhosts: { h: { devices: [{ device: d }] } }\n");
    assert_ok(yokei_file_write(in_folder("c.yaml"), yaml, strlen(yaml)));
}

/* The speeds from which the times of the rows were made are found again. */
static void kernels(void **state)
{
    (void)state;
    make_kernels();
    assert_ok(yokei_cluster_read(in_folder("c.yaml"), &cluster));
    const struct yokei_device_kind *k = &cluster.kind[0];
    const struct yokei_speed *s = k->speed[YOKEI_SPEED_F32];
    near(s[YOKEI_CLASS_OTHER].seconds, 2e-5);
    near(s[YOKEI_CLASS_OTHER].bytes_per_second, 5e11);
    near(s[YOKEI_CLASS_OPTIMIZER].bytes_per_second, 4e11);
    assert_true(s[YOKEI_CLASS_OPTIMIZER].seconds == 0);
    /* The largest product is slower than the one before it, so the two have the median of their rates. */
    assert_int_equal(s[YOKEI_CLASS_GEMM].n_points, 2);
    near(s[YOKEI_CLASS_GEMM].point[0].work, 1e8);
    near(s[YOKEI_CLASS_GEMM].point[0].rate, 1e12);
    near(s[YOKEI_CLASS_GEMM].point[1].work, 1e10);
    near(s[YOKEI_CLASS_GEMM].point[1].rate, 3.5e12);
    near(s[YOKEI_CLASS_GEMM].seconds, 2e-5);
    assert_int_equal(s[YOKEI_CLASS_ATTENTION].n_points, 1);
    near(s[YOKEI_CLASS_ATTENTION].point[0].rate, 2e12);
    near(yokei_op_seconds(&s[YOKEI_CLASS_GEMM], 1.5e8, 1), 2e-5 + 1.5e8 / 1e12);
    assert_true(k->peak[YOKEI_SPEED_F32] == 5e12
                && k->speed[YOKEI_SPEED_BF16][YOKEI_CLASS_GEMM].n_points == 0);
}

/* Files that say too little are refused at the place that names them. */
static void poor_files_of_kernels(void **state)
{
    (void)state;
    char place[500], text[300];
    make_kernels();
    static const struct {
        const char *old, *new, *words;
    } wrong[] = {
        { "\"adamw\"", "\"cast\"", "no time of an op of class optimizer in f32" },
        { "\"attention_forward\"", "\"gemm\"", NULL }, /* the other row of attention is enough */
        { "\"schema\": 1", "\"schema\": 2", "schema is 2" },
        { "\"rows\": [", "\"rows\": [[", "k.json" },
        { "\"schema\": 1", "\"schema\": 1, \"emulated\": true", "the device was emulated" },
        { "\"dtype\": \"f32\"", "\"dtype\": 32", "dtype" },
    };
    for (size_t i = 0; i < YOKE_COUNT(wrong); i++) {
        char *changed = replaced(kernels_text, wrong[i].old, wrong[i].new);
        assert_ok(yokei_file_write(in_folder("k.json"), changed, strlen(changed)));
        free(changed);
        if (!wrong[i].words) {
            assert_ok(yokei_cluster_read(in_folder("c.yaml"), &other));
            continue;
        }
        assert_fails(YOKE_ECONFIG, wrong[i].words, yokei_cluster_read(in_folder("c.yaml"), &other));
        yokei_text(place, sizeof place, "%s:1:40: device d: kernels", in_folder("c.yaml"));
        if (strncmp(yoke_last_error(), place, strlen(place)))
            fail_msg("%s, not %s", yoke_last_error(), place);
    }
    yokei_text(text, sizeof text, "%s]}", kernels_head);
    assert_ok(yokei_file_write(in_folder("k.json"), text, strlen(text)));
    assert_fails(YOKE_ECONFIG, "no time of a matrix product",
                 yokei_cluster_read(in_folder("c.yaml"), &other));
    assert_int_equal(unlink(in_folder("k.json")), 0);
    assert_int_equal(rename(in_folder("c.yaml"), in_folder("%s%n%s.yaml")), 0); /* a name is no format */
    assert_fails(YOKE_ECONFIG, "%s%n%s.yaml:1:40: ", yokei_cluster_read(in_folder("%s%n%s.yaml"), &other));
    assert_int_equal(rename(in_folder("%s%n%s.yaml"), in_folder("c.yaml")), 0);
    assert_fails(YOKE_ECONFIG, "k.json", yokei_cluster_read(in_folder("c.yaml"), &other));
}

/* The example of docs/PLANNING.md. */
static void example_of_page(void **state)
{
    (void)state;
    make_kernels();
    const char *top = getenv("top_srcdir");
    char path[400];
    void *page;
    size_t bytes;
    yokei_text(path, sizeof path, "%s/docs/PLANNING.md", top ? top : "..");
    assert_ok(yokei_file_read(path, 1 << 20, &page, &bytes));
    const char *begin = strstr(page, "```yaml\n");
    assert_non_null(begin);
    begin += 8;
    const char *end = strstr(begin, "```");
    assert_non_null(end);
    assert_ok(yokei_file_write(in_folder("cpu.json"), kernels_text, strlen(kernels_text)));
    assert_ok(yokei_file_write(in_folder("page.yaml"), begin, (size_t)(end - begin)));
    assert_ok(yokei_cluster_read(in_folder("page.yaml"), &other));
    assert_int_equal(yokei_cluster_devices(&other, -1), 36);
    free(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(units),           cmocka_unit_test(random_units),
        cmocka_unit_test(kernels),         cmocka_unit_test(poor_files_of_kernels),
        cmocka_unit_test(example_of_page),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
