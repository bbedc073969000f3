/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yoke schedule show. Every format must show what the simulator computed, drawings must keep to their
 * columns, and --when must describe moments correctly.
 */
#include "tests/unit/test.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/cli.h"
#include "core/base/base.h"
#include "parallel/schedule.h"

static char folder[64], output[96], input[96];

static int begin(void **unused)
{
    (void)unused;
    strcpy(folder, "/dev/shm/schedule-test.XXXXXX");
    if (!mkdtemp(folder) && !mkdtemp(strcpy(folder, "/tmp/schedule-test.XXXXXX"))) return -1;
    snprintf(output, sizeof output, "%s/out", folder);
    snprintf(input, sizeof input, "%s/in", folder);
    return 0;
}

static int end(void **unused)
{
    (void)unused;
    unlink(output);
    unlink(input);
    return rmdir(folder);
}

/* Run the verb with the words, separated by '|'. */
static yoke_status show(const char *line)
{
    char words[512], *argv[32] = { "yoke schedule show", "--output", output };
    struct cli_context context = { .size = 1 };
    struct cli_options *options;
    int argc = 3;
    snprintf(words, sizeof words, "%s", line);
    for (char *word = strtok(words, "|"); word; word = strtok(NULL, "|")) argv[argc++] = word;
    YOKE_TRY(cli_options_resolve(CLI_SCHEDULE_SHOW, argc, argv, &options, &context.n_words, &context.words));
    context.options = options;
    const yoke_status status = cli_schedule_show(&context);
    free(context.words);
    cli_options_free(options);
    return status;
}

static char *text_of(const char *line)
{
    void *data;
    size_t bytes;
    assert_ok(show(line));
    assert_ok(yokei_file_read(output, 1 << 20, &data, &bytes));
    char *text = realloc(data, bytes + 1);
    text[bytes] = '\0';
    return text;
}

static void expect(const char *line, const char *part)
{
    char *text = text_of(line);
    if (!strstr(text, part)) fail_msg("%s:\n%s\ndoes not contain\n%s", line, text, part);
    free(text);
}

static void drawings(void **state)
{
    (void)state;
    expect(
        "--kind=gpipe|--stages=2|--microbatches=2",
        "gpipe: 2 stages, 2 micro-batches\n\nS1 F1 F2 .........B1 W1 B2 W2\nS2 ...F1 F2 B1 W1 B2 W2 ......\n   0");
    expect("--kind=naive|--stages=3|--microbatches=1",
           "S1 F1 ..................B1 W1\nS2 ...F1 .........B1 W1 ......\nS3 ......F1 B1 W1 ............\n");
    expect("--kind=1f1b|--stages=2|--microbatches=2",
           "S1 F1 F2 ......B1 W1 ...B2 W2\nS2 ...F1 B1 W1 F2 B2 W2 ......\n");
    expect("--kind=zb-h1|--stages=2|--microbatches=2", "S1 F1 F2 ...B1 W1 B2 W2\nS2 ...F1 B1 F2 B2 W1 W2\n");
    expect("--kind=interleaved|--stages=2|--microbatches=2",
           "2 stages of 2 chunks (a, b, ...), 2 micro-batches\n\nS1 F1a F2a F1b F2b ........B1b W1b ");
    expect("--kind=gpipe|--stages=2|--microbatches=2|--recompute=S1", "S1 F1 F2 R1 ");
    expect("--kind=gpipe|--stages=1|--microbatches=3|--costs=1,2,1",
           "S1 F1 B1--- W1 F2 B2--- W2 F3 B3--- W3\n");
    expect("--kind=1f1b|--stages=4|--microbatches=8", "bubble 27.27%: the mean idle fraction");
    expect("--kind=naive|--stages=8|--microbatches=4", "S8           12  87.5%   1\n");
    expect("--kind=gpipe|--stages=4|--microbatches=40", "Capital letters are micro-batches 1, 3");
}

/* No line is longer than was asked for, whatever is drawn. */
static void widths(void **state)
{
    (void)state;
    enum { KINDS = YOKEI_N_PIPELINES };
    for (int i = 0; i < KINDS * 3 * 3; i++) {
        const int stages[] = { 2, 4, 12 }, widths[] = { 40, 73, 100 }, p = stages[i / KINDS % 3],
                  width = widths[i / (3 * KINDS)];
        char line[256];
        snprintf(line, sizeof line,
                 "--kind=%s|--stages=%d|--microbatches=%d|--costs=3.7,4.1,2.2,0.3|--width=%d",
                 yokei_pipeline_names[i % KINDS], p, 3 * p, width);
        char *text = text_of(line), *rows = strstr(text, "\n\n") + 2, *stop = strstr(text, "stage      busy");
        assert_non_null(stop);
        while (rows < stop) {
            const int length = (int)strcspn(rows, "\n");
            if (length > width && strncmp(rows, "Capital letters", 15))
                fail_msg("%s: a row of %d columns: %.*s", line, length, length, rows);
            rows += length + 1;
        }
        free(text);
    }
}

static void moments(void **state)
{
    (void)state;
    /* When S3 has handed micro-batch 1 on, S1 has done three and begins its fourth. */
    expect(
        "--kind=gpipe|--stages=4|--microbatches=8|--when=S3 finished F1",
        "When S3 finished F1 (time 3):\n  S1 has finished F3, starts F4\n  S2 has finished F2, starts F3\n  S3 has finished F1, starts F2\n"
        "  S4 has finished nothing yet, starts F1\n");
    expect("--kind=gpipe|--stages=4|--microbatches=8|--at=3.5",
           "At time 3.5:\n  S1 has finished F3, works on F4 from 3 to 4\n");
    expect("--kind=1f1b|--stages=4|--microbatches=8|--when=S3 finished F1",
           "S1 has finished F3, starts F4\n");
    expect("--kind=1f1b|--stages=4|--microbatches=8|--at=5",
           "S1 has finished F4, waits for the gradient of B1 from S2\n");
    expect("--kind=1f1b|--stages=4|--microbatches=8|--at=0",
           "S2 has finished nothing yet, waits for the input of F1 from S1\n");
    expect("--kind=1f1b|--stages=4|--microbatches=8|--at=33", "S1 has finished W8, has no work left\n");
    expect("--kind=gpipe|--stages=2|--microbatches=2|--when=S2 starts B1",
           "^\n\nWhen S2 starts B1 (time 3):\n  S1 has finished F2, waits for the gradient of B1 from S2\n");
    expect("--kind=interleaved|--stages=2|--microbatches=2|--when=S1 finished F2b",
           "S2 has finished F1b, starts B1b\n");
    static const char *const wrong[] = { "S3",
                                         "S5 finished F1",
                                         "S0 finished F1",
                                         "S1 finished F9",
                                         "S1 finished F0",
                                         "S1 ate F1",
                                         "S1 finished X1",
                                         "S1 finished F1 F2",
                                         "S1 finished F1b",
                                         "S1 finished R1",
                                         "S1x finished F1",
                                         "S1 finished F1.2" };
    for (size_t i = 0; i < YOKE_COUNT(wrong); i++) {
        char line[256];
        snprintf(line, sizeof line, "--stages=4|--when=%s", wrong[i]);
        assert_fails(YOKE_EINVAL, "write \"S3 finished F1\"", show(line));
    }
}

static json_t *json_of(const char *line)
{
    json_error_t error;
    char *text = text_of(line);
    json_t *root = json_loads(text, 0, &error);
    if (!root) fail_msg("%s: line %d: %s", line, error.line, error.text);
    free(text);
    return root;
}

static void json(void **state)
{
    (void)state;
    json_t *root = json_of("--format|json|--kind=gpipe|--stages=4|--microbatches=8|--when=S3 finished F1");
    double total, bubble, time, start, until;
    int microbatches;
    const char *finished, *doing, *action;
    assert_int_equal(json_unpack(root, "{s:f, s:f, s:i, s:{s:f, s:[{s:s, s:s, s:f}]}}", "total", &total,
                                 "bubble", &bubble, "microbatches", &microbatches, "moment", "time", &time,
                                 "stage", "finished", &finished, "doing", &doing, "until", &until),
                     0);
    assert_true(total == 33 && microbatches == 8 && bubble > 0.2727 && bubble < 0.2728 && time == 3
                && until == 4);
    assert_string_equal(finished, "F2"); /* counted from 0 */
    assert_string_equal(doing, "F3");
    assert_int_equal(json_unpack(root, "{s:[{}, {s:[{s:s, s:f}]}]}", "stage", "actions", "action", &action,
                                 "start", &start),
                     0);
    assert_string_equal(action, "RA0");
    assert_true(start == 0);
    json_decref(root);
    root = json_of("--json|--stages=2");
    assert_true(json_is_null(json_object_get(root, "moment")));
    json_decref(root);
}

/* The tags of the drawing are well-formed: every tag that is opened is closed, in the right order. */
/* A link is busy for the transfer of a message. A receiver that works takes its message only afterwards. */
static void messages(void **state)
{
    (void)state;
    static const struct {
        const char *more;
        double total;
    } rows[] = { { "", 12 }, { "|--receiver-takes", 13.5 } };
    for (int i = 0; i < 2; i++) {
        char line[256];
        double total;
        assert_ok(yokei_file_write(input, "1,1,1,0.5+1\n1,1,1\n", 18));
        snprintf(line, sizeof line, "--json|--kind=1f1b|--stages=2|--microbatches=2|--costs-file=%s%s", input,
                 rows[i].more);
        json_t *root = json_of(line);
        assert_int_equal(json_unpack(root, "{s:f}", "total", &total), 0);
        assert_true(fabs(total - rows[i].total) < 1e-12);
        json_decref(root);
    }
    assert_fails(YOKE_EINVAL, "write F,B,W[,HOP]", show("--costs=1,1,1,0.5+"));
    assert_fails(YOKE_EINVAL, "write F,B,W[,HOP]", show("--costs=1+1,1,1"));
}

static void svg(void **state)
{
    (void)state;
    char *text = text_of("--format|svg|--kind=zb-h1|--stages=3|--microbatches=5|--recompute=full|--at=2"),
         open[64][16];
    int depth = 0, n_rectangles = 0;
    for (char *tag = strchr(text, '<'); tag; tag = strchr(tag + 1, '<')) {
        const char *close = strchr(tag, '>');
        char name[16] = "";
        assert_non_null(close);
        if (tag[1] == '/') {
            sscanf(tag + 2, "%15[a-z]", name);
            assert_true(depth > 0);
            assert_string_equal(open[--depth], name);
        } else if (close[-1] != '/') {
            sscanf(tag + 1, "%15[a-z]", open[depth]);
            n_rectangles += !strcmp(open[depth], "rect");
            assert_true(++depth < 64);
        }
    }
    assert_int_equal(depth, 0);
    assert_int_equal(n_rectangles, 3 * 5 * 4); /* F, R, B, W of five micro-batches on three stages */
    assert_null(strstr(text, "href"));
    assert_null(strstr(text, "url("));
    free(text);
}

static void write_input(const char *text) { assert_ok(yokei_file_write(input, text, strlen(text))); }

static void files(void **state)
{
    (void)state;
    char line[256],
        *made = text_of(
            "--format|csv|--kind=1f1b|--stages=2|--microbatches=3|--buckets=2|--tied|--recompute=S2");
    assert_string_equal(
        made,
        "F0,SA0,F1,SA1,RG0,B0,W0,F2,SA2,RG1,B1,W1,RG2,B2,W2,REDUCE0,REDUCE1,TIED,AGREE,STEP\n"
        "RA0,F0,R0,B0,W0,SG0,RA1,F1,R1,B1,W1,SG1,RA2,F2,R2,B2,W2,SG2,REDUCE0,REDUCE1,TIED,AGREE,STEP\n");
    write_input(made);
    snprintf(line, sizeof line, "--format|csv|--file=%s", input);
    char *again = text_of(line);
    assert_string_equal(made, again);
    free(made), free(again);
    snprintf(line, sizeof line, "--file=%s|--microbatches=4", input);
    assert_fails(YOKE_ECONFIG, "REDUCE0 comes before F3", show(line));
    snprintf(line, sizeof line, "--file=%s|--kind=gpipe", input);
    assert_fails(YOKE_EINVAL, "--kind says how to make a schedule", show(line));
    write_input("F0,B0,W0,AGREE\n");
    snprintf(line, sizeof line, "--file=%s", input);
    assert_fails(YOKE_ECONFIG, "does not end in AGREE,STEP", show(line));
    assert_non_null(strstr(yoke_last_error(), input)); /* and the file is named */

    /* A slow second stage, and its message: F 1, 0.5 on the way, F 4. */
    write_input("# F,B,W,HOP\n1,1,1,0.5\n\n4,1,1,0,7\n");
    snprintf(line, sizeof line, "--kind=gpipe|--stages=2|--microbatches=1|--costs-file=%s|--at=1.2", input);
    expect(line, "S2 has finished nothing yet, waits for the input of F1 from S1");
    snprintf(line, sizeof line,
             "--kind=gpipe|--stages=2|--microbatches=1|--recompute=S2|--costs-file=%s|--when=S2 starts B1",
             input);
    expect(line, "When S2 starts B1 (time 12.5)");
    static const struct {
        const char *text, *words;
    } wrong[] = {
        { "1,1,1\n", "1 lines of costs, but there are 2 stages" },
        { "1,1,1\n1,1\n", ":2: \"1,1\"" },
        { "1,1,1\n1,1,1\n1,1,1", ":3: a line more" },
        { "1,1,x\n", ":1: " },
        { "1,1,-1\n", ":1: " },
        { "1,1,nan\n", ":1: " },
        { "0,0,0\n", "not all 0" },
        { "1,1,1,1,1,1\n", ":1: " },
    };
    for (size_t i = 0; i < YOKE_COUNT(wrong); i++) {
        write_input(wrong[i].text);
        snprintf(line, sizeof line, "--stages=2|--costs-file=%s", input);
        assert_fails(YOKE_ECONFIG, wrong[i].words, show(line));
    }
    assert_fails(YOKE_EINVAL, "--costs 1,2: write F,B,W", show("--costs=1,2"));
    assert_fails(YOKE_EINVAL, "exclude each other", show("--at=1|--when=S1 finished F1"));
    assert_fails(YOKE_EINVAL, "--recompute S5: write none, full", show("--stages=4|--recompute=S5"));
    assert_fails(YOKE_EINVAL, "--recompute S1,: write none, full", show("--stages=4|--recompute=S1,"));
    assert_fails(YOKE_ECONFIG, "set 8 or 12", show("--kind=interleaved|--stages=4|--microbatches=9"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drawings), cmocka_unit_test(widths),   cmocka_unit_test(moments),
        cmocka_unit_test(json),     cmocka_unit_test(messages), cmocka_unit_test(svg),
        cmocka_unit_test(files),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
