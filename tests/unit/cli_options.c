/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of options: precedence, types and ranges, files with line and column, and packing. Needs no MPI.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "core/base/base.h"

static struct cli_options *options;
static int n_words;
static char **words;

static yoke_status resolve(uint32_t verb, ...)
{
    char *argv[32] = { "yoke verb" };
    int argc = 1;
    va_list args;
    va_start(args, verb);
    for (char *a; (a = va_arg(args, char *));) argv[argc++] = a;
    va_end(args);
    cli_options_free(options);
    free(words);
    options = NULL;
    words = NULL;
    return cli_options_resolve(verb, argc, argv, &options, &n_words, &words);
}

static char path[] = "/tmp/yoke-cli-options-XXXXXX";

static void write_file(const char *text)
{
    FILE *to = fopen(path, "w");
    assert_non_null(to);
    fputs(text, to);
    assert_int_equal(fclose(to), 0);
}

static void assert_says(const char *part)
{
    if (!strstr(yoke_last_error(), part)) fail_msg("\"%s\" does not say \"%s\"", yoke_last_error(), part);
}

static void test_defaults_and_line(void **state)
{
    (void)state;
    assert_int_equal(resolve(CLI_BENCH_GEMM, NULL), YOKE_OK);
    assert_string_equal(cli_text(options, "device"), "host");
    assert_false(cli_is_set(options, "device"));
    assert_string_equal(cli_origin(options, "device"), "default");
    assert_int_equal(cli_int(options, "repeats"), 9);
    assert_null(cli_text(options, "threads"));
    assert_int_equal(
        resolve(CLI_BENCH_GEMM, "--device=opencl:0", "--format", "csv", "--size", "64,128", NULL), YOKE_OK);
    assert_string_equal(cli_text(options, "device"), "opencl:0");
    assert_true(cli_is_set(options, "device"));
    assert_string_equal(cli_text(options, "format"), "csv");
    assert_false(cli_flag(options, "json"));
    assert_int_equal(cli_list_count(options, "size"), 2);
    char item[16];
    assert_string_equal(cli_list_item(options, "size", 1, item, sizeof item), "128");
    assert_int_equal(resolve(CLI_BENCH_GEMM, "--json", "--format", "json", NULL), YOKE_OK);
    assert_true(cli_flag(options, "json"));
    assert_int_equal(resolve(CLI_BENCH_GEMM, "--json", "--format", "md", NULL), YOKE_EINVAL);
}

static void test_units_and_ranges(void **state)
{
    (void)state;
    assert_int_equal(resolve(CLI_RUN, "-n4", "--grace", "500ms", "--", "train", "--steps", "3", NULL),
                     YOKE_OK);
    assert_int_equal(cli_int(options, "ranks"), 4);
    assert_true(cli_real(options, "grace") == 0.5);
    assert_int_equal(n_words, 3);
    assert_string_equal(words[1], "--steps");
    assert_int_equal(resolve(CLI_RUN, "--grace", "2m", "train", "--unknown-here", NULL), YOKE_OK);
    assert_true(cli_real(options, "grace") == 120);
    assert_int_equal(n_words, 2);
    assert_int_equal(resolve(CLI_TRAIN, "--steps", "2k", "--bucket-bytes", "4MiB", NULL), YOKE_OK);
    assert_int_equal(cli_int(options, "steps"), 2000);
    assert_int_equal(cli_bytes(options, "bucket-bytes"), 4 << 20);
    static const char *const wrong[] = {
        "0", "2000", "x", "1.5", "-1", "", "nan", "1e400", "0x10", " 4", "4 "
    };
    for (size_t i = 0; i < YOKE_COUNT(wrong); i++) {
        assert_int_equal(resolve(CLI_RUN, "-n", wrong[i], "train", NULL), YOKE_EINVAL);
        assert_says("option --ranks");
    }
    assert_int_equal(resolve(CLI_RUN, "--grace", "5 parsec", "train", NULL), YOKE_EINVAL);
}

static void test_unknown_words(void **state)
{
    (void)state;
    assert_int_equal(resolve(CLI_BENCH_GEMM, "--devise", "host", NULL), YOKE_EINVAL);
    assert_says("unknown option --devise (did you mean --device?)");
    assert_int_equal(resolve(CLI_BENCH_GEMM, "--dev", "host", NULL), YOKE_EINVAL); /* no abbreviations */
    assert_int_equal(resolve(CLI_BENCH_GEMM, "-x", NULL), YOKE_EINVAL);
    assert_int_equal(resolve(CLI_BENCH_GEMM, "--device", NULL), YOKE_EINVAL);
    assert_says("needs a value");
    assert_int_equal(resolve(CLI_BENCH_GEMM, "gemm", NULL), YOKE_EINVAL);
    assert_says("what is 'gemm'?");
    assert_int_equal(resolve(CLI_BENCH_GEMM, "--format", "jsn", NULL), YOKE_EINVAL);
    assert_says("did you mean json?");
    assert_int_equal(resolve(CLI_BENCH_GEMM, "--dtype", "f32,f61", NULL), YOKE_EINVAL);
    assert_says("'f61' is not a value for dtype; choose from f32|bf16|f16; did you mean f16?");
    assert_int_equal(resolve(CLI_BENCH_GEMM, "--size", "1,,2", NULL), YOKE_EINVAL);
    assert_int_equal(resolve(CLI_TRAIN, "--precision", "fp16", NULL), YOKE_EINVAL);
    assert_says("choose from f32|bf16|f16");
    assert_int_equal(resolve(CLI_SCHEDULE_SHOW, "-o", "svg", NULL), YOKE_OK); /* a file, not a format */
    assert_string_equal(cli_text(options, "output"), "svg");
    assert_string_equal(cli_text(options, "format"), "ascii");
}

/* The command line is read once. Help is found in spite of an error, but not in a value or behind "--". */
static void test_line(void **state)
{
    (void)state;
    static const struct {
        char *words[5];
        char help;
        yoke_status status;
        int n_given, n_words;
    } cases[] = {
        { { "--steps", "3", "-v" }, 0, YOKE_OK, 2, 0 },
        { { "--help" }, 'h', YOKE_OK, 1, 0 },
        { { "-h", "--help-all" }, 'a', YOKE_OK, 2, 0 },
        { { "--help-all", "--help" }, 'a', YOKE_OK, 2, 0 },
        { { "--stepz", "--help" }, 'h', YOKE_EINVAL, 1, 0 },
        { { "--help=no", "--help-all=off" }, 0, YOKE_OK, 2, 0 },
        { { "--help=yes" }, 'h', YOKE_OK, 1, 0 },
        { { "--prompt", "--help" }, 0, YOKE_OK, 1, 0 },
        { { "--prompt=" }, 0, YOKE_OK, 1, 0 },
        { { "--", "--help" }, 0, YOKE_EINVAL, 0, 1 },
        { { "-" }, 0, YOKE_EINVAL, 0, 1 },
        { { "-vv" }, 0, YOKE_EINVAL, 0, 0 },
        { { "---o", "x" }, 0, YOKE_EINVAL, 0, 1 },
    };
    for (size_t i = 0; i < YOKE_COUNT(cases); i++) {
        char *argv[6] = { "yoke train" };
        int argc = 1;
        while (argc < 6 && cases[i].words[argc - 1]) argv[argc] = cases[i].words[argc - 1], argc++;
        struct cli_line line;
        cli_line_read(CLI_TRAIN, argc, argv, &line);
        if (line.help != cases[i].help || line.status != cases[i].status || line.n_given != cases[i].n_given
            || line.n_words != cases[i].n_words)
            fail_msg("case %zu: help %d, status %d, %d options, %d words", i, line.help, line.status,
                     line.n_given, line.n_words);
        assert_true(!line.status || line.error[0]);
        cli_line_free(&line);
    }
}

static void test_precedence(void **state)
{
    (void)state;
    write_file("repeats: 3\nformat: csv\nthreads: 7\n");
    assert_int_equal(resolve(CLI_BENCH_GEMM, "-c", path, NULL), YOKE_OK);
    assert_int_equal(cli_int(options, "repeats"), 3);
    setenv("YOKE_REPEATS", "4", 1);
    assert_int_equal(resolve(CLI_BENCH_GEMM, "-c", path, NULL), YOKE_OK);
    assert_int_equal(cli_int(options, "repeats"), 4);
    assert_string_equal(cli_origin(options, "repeats"), "YOKE_REPEATS");
    assert_int_equal(resolve(CLI_BENCH_GEMM, "--repeats", "5", "-c", path, NULL), YOKE_OK);
    assert_int_equal(cli_int(options, "repeats"), 5);
    assert_int_equal(cli_int(options, "threads"), 7);
    setenv("YOKE_REPEATS", "many", 1);
    assert_int_equal(resolve(CLI_BENCH_GEMM, NULL), YOKE_EINVAL);
    assert_says("YOKE_REPEATS: 'many'");
    unsetenv("YOKE_REPEATS");
}

static void test_files(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } wrong[] = {
        { "repeats: 3\n  devise: host\n", ":2:" },
        { "repeats: 3\ndevise: host\n", ":2:1: unknown key 'devise' (did you mean device?)" },
        { "\n\n  bench gemm:\n    repeets: 3\n", ":4:5: unknown key 'repeets' (did you mean repeats?)" },
        { "train:\n  stebs: 3\n", ":2:3: unknown key 'stebs' (did you mean steps?)" },
        { "repeats: 3\nrepeats: 4\n", ":2:1: key 'repeats' was already given in line 1" },
        { "repeats: none\n", ":1:10: 'none' is not a value for repeats" },
        { "repeats: 0\n", ":1:10: 0 is out of range" },
        { "repeats:\n", "repeats has no value" },
        { "repeats: [1, 2]\n", ":1:10: repeats takes one value, not a list" },
        { "repeats: {a: 1}\n", ":1:10: repeats takes a value, not a mapping" },
        { "ranks: 2\n", ":1:1: key 'ranks' is an option of yoke run, not of yoke bench gemm" },
        { "config: other.yaml\n", "cannot name another" },
        { "help: yes\n", "unknown key 'help'" },
        { "- repeats\n", ":1:1: expected 'key: value' lines" },
        { "repeats: 'a\n", "not valid YAML" },
        { "repeats: 1\n---\nrepeats: 2\n", "a second YAML document" },
        { "train: 3\n", "'train' is a verb" },
        { "size: [1, [2]]\n", "plain values" },
        { "? [a]\n: b\n", "a key must be the name of an option" },
    };
    for (size_t i = 0; i < YOKE_COUNT(wrong); i++) {
        write_file(wrong[i].text);
        assert_int_equal(resolve(CLI_BENCH_GEMM, "-c", path, NULL), YOKE_ECONFIG);
        assert_says(path);
        assert_says(wrong[i].says);
    }
    write_file("trace: steps.json\n"); /* an option of train, and a verb */
    assert_int_equal(resolve(CLI_TRAIN, "-c", path, NULL), YOKE_OK);
    assert_string_equal(cli_text(options, "trace"), "steps.json");
    write_file("trace:\n  last: 3\n");
    assert_int_equal(resolve(CLI_TRAIN, "-c", path, NULL), YOKE_OK);
    assert_null(cli_text(options, "trace"));
    assert_int_equal(resolve(CLI_BENCH_GEMM, "-c", "/nonesuch/file.yaml", NULL), YOKE_ECONFIG);
    assert_says("/nonesuch/file.yaml");
}

static void test_good_files(void **state)
{
    (void)state;
    write_file(
        "# a job\nsize: [64, 128x2x3]\nbench gemm:\n  repeats: 2\nrun:\n  ranks: 3\ntrain: { steps: 10 }\n");
    assert_int_equal(resolve(CLI_BENCH_GEMM, "-c", path, NULL), YOKE_OK);
    assert_string_equal(cli_text(options, "size"), "64,128x2x3");
    assert_int_equal(cli_int(options, "repeats"), 2);
    char where[128];
    snprintf(where, sizeof where, "%s:4:12", path);
    assert_string_equal(cli_origin(options, "repeats"), where);
    write_file("");
    assert_int_equal(resolve(CLI_BENCH_GEMM, "-c", path, NULL), YOKE_OK);
}

static void test_packing(void **state)
{
    (void)state;
    void *data;
    size_t bytes;
    struct cli_options *other;
    assert_int_equal(resolve(CLI_BENCH_GEMM, "--repeats", "5", "--json", NULL), YOKE_OK);
    assert_int_equal(cli_options_pack(options, &data, &bytes), YOKE_OK);
    assert_int_equal(cli_options_unpack(data, bytes, &other), YOKE_OK);
    assert_int_equal(cli_int(other, "repeats"), 5);
    assert_true(cli_flag(other, "json"));
    assert_string_equal(cli_origin(other, "repeats"), "option --repeats");
    assert_string_equal(cli_text(other, "device"), "host");
    cli_options_free(other);
    for (size_t cut = 0; cut < bytes; cut++) /* a block that is cut off must never be read beyond its end */
        if (!cli_options_unpack(data, cut, &other)) cli_options_free(other);
    free(data);
}

/*
 * Check the table itself: names can be written in all three places, no verb has a name twice, and defaults
 * pass their checks.
 */
static void test_table(void **state)
{
    (void)state;
    for (const struct cli_option *o = cli_option_table; o->name; o++) {
        assert_int_equal(strspn(o->name, "abcdefghijklmnopqrstuvwxyz0123456789-"), strlen(o->name));
        assert_non_null(o->help);
        assert_true(o->help[strlen(o->help) - 1] != '.');
        assert_true(o->type != CLI_CHOICE || o->choices);
        for (const struct cli_option *p = o + 1; p->name; p++) {
            if (!(o->verbs & p->verbs)) continue;
            assert_string_not_equal(o->name, p->name);
            assert_true(!o->letter || o->letter != p->letter);
        }
    }
    for (cli_verbs bit = 1; bit < CLI_LIBRARY; bit <<= 1) {
        struct cli_options *defaults;
        assert_int_equal(cli_options_new(bit, &defaults), YOKE_OK);
        cli_options_free(defaults);
    }
}

static char *printed(const char *pieces[], size_t n)
{
    char *text = NULL;
    size_t bytes;
    struct cli_printer printer = { .n = 0 };
    FILE *to = open_memstream(&text, &bytes);
    for (size_t i = 0; i < n; i++) cli_put_printable(&printer, pieces[i], strlen(pieces[i]), i + 1 == n, to);
    fclose(to);
    return text;
}

/* Bytes that come from elsewhere are made printable before a terminal shows them. */
static void test_printable(void **state)
{
    (void)state;
    static const struct {
        const char *text, *shown;
    } cases[] = {
        { "plain, d\303\251j\303\240, \360\237\220\202", "plain, d\303\251j\303\240, \360\237\220\202" },
        { "a\033[2Jb\rc\bd\177e\001", "a\\x1b[2Jb\\x0dc\\x08d\\x7fe\\x01" },
        { "\302\233m", "\\xc2\\x9bm" }, /* a control of one byte in Latin-1 */
        /* Too long, surrogate, too large. */
        { "\377\300\257 \355\240\200 \364\220\200\200",
          "\\xff\\xc0\\xaf \\xed\\xa0\\x80 \\xf4\\x90\\x80\\x80" },
        { "\303", "\\xc3" },
        { "x\342\200\256y", "x\\xe2\\x80\\xaey" }, /* turns the direction */
        { "one\ntwo\tthree", "one\n  two\tthree" },
    };
    for (size_t i = 0; i < YOKE_COUNT(cases); i++) {
        char *shown = cli_printable(cases[i].text);
        assert_string_equal(shown, cases[i].shown);
        free(shown);
    }
    char *shown = printed((const char *[]){ "\303", "\251\342", "\202", "\254!\360\237", "x", "\303" }, 6);
    assert_string_equal(shown, "\303\251\342\202\254!\\xf0\\x9fx\\xc3");
    free(shown);
}

static int start(void **state)
{
    (void)state;
    int fd = mkstemp(path);
    return fd < 0 || close(fd);
}

static int finish(void **state)
{
    (void)state;
    cli_options_free(options);
    free(words);
    return unlink(path);
}

/*
 * An option of several verbs has one syntax. Where a verb takes another one, the reason stands here. The
 * variables of the libraries are no options.
 */
static void one_option_has_one_syntax(void **state)
{
    static const struct {
        const char *name, *why;
    } differ[] = {
        { "bits", "yoke verify writes one file, and yoke compare reads two" },
        { "device", "yoke compile takes architectures, which need no device of this machine" },
        { "dtype", "yoke ckpt convert writes one type" },
        { "precision", "a model has one precision, and yoke parity compares several" },
        { "recompute", "in training only, attention can be recomputed alone" },
    };
    (void)state;
    for (const struct cli_option *a = cli_option_table; a->name; a++)
        for (const struct cli_option *b = a + 1; b->name; b++) {
            bool told = false;
            if (strcmp(a->name, b->name) || a->verbs == CLI_LIBRARY || b->verbs == CLI_LIBRARY) continue;
            for (size_t i = 0; i < YOKE_COUNT(differ); i++) told |= !strcmp(differ[i].name, a->name);
            if (a->type != b->type && !told)
                fail_msg("--%s has another syntax in other verbs (%s; %s)", a->name, a->help, b->help);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults_and_line),
        cmocka_unit_test(test_units_and_ranges),
        cmocka_unit_test(test_unknown_words),
        cmocka_unit_test(test_line),
        cmocka_unit_test(test_precedence),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_good_files),
        cmocka_unit_test(test_packing),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_printable),
        cmocka_unit_test(one_option_has_one_syntax),
    };
    return cmocka_run_group_tests(tests, start, finish);
}
