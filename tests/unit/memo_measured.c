/* SPDX-License-Identifier: Apache-2.0 */
/* The measured devices in a memo. Its command writes a file from which the same cluster is read. */
#include "tests/unit/test.h"

#include <stdlib.h>
#include <unistd.h>

#include "cli/train/memo_measured.h"
#include "core/base/base.h"
#include "tests/unit/folder.h"
#include "train/search/cluster_file.h"

static struct yokei_cluster measured = {
    .name = "2 ranks of one's machine",
    .n_kinds = 2,
    .n_links = 1,
    .n_hosts = 1,
    .link = { { "among-host", 3.3e9 / 7, 1.7e-6 } },
    .host = { { .name = "here",
                .n = 1,
                .n_lists = 2,
                .devices = { { 0, 2, 0 }, { 1, 1, -1 } },
                .inner = 0,
                .n_links = 1 } },
};

static void fill(void)
{
    for (int k = 0; k < 2; k++) {
        struct yokei_device_kind *kind = &measured.kind[k];
        yokei_text(kind->name, sizeof kind->name, "%s", k ? "opencl-0" : "host");
        yokei_text(kind->device, sizeof kind->device, "%s", k ? "opencl:0" : "host");
        kind->memory = UINT64_C(1234567891);
        kind->sharers = 2 - k;
        for (int class = 0; class < YOKEI_N_CLASSES; class ++) {
            struct yokei_speed *s = &kind->speed[YOKEI_SPEED_F32][class];
            s->n_points = class <= YOKEI_CLASS_ATTENTION;
            s->point[0].rate = 1e11 / (3 + class);
            s->bytes_per_second = 1e10 / (7 + k);
            s->seconds = 1e-6 / 3;
        }
    }
    measured.between[0][0] = -1;
}

static void test_command(void **state)
{
    (void)state;
    char *command = NULL, *before, *after, *begin, *end;
    size_t bytes;
    struct yokei_cluster *again = malloc(sizeof *again);
    FILE *to = open_memstream(&command, &bytes);
    assert_ok(cli_memo_cluster_command(&measured, to));
    fclose(to);
    begin = strstr(command, "\n```\n");
    end = begin ? strstr(begin + 5, "```") : NULL;
    assert_non_null(end);
    *end = 0;
    assert_int_equal(chdir(test_folder), 0);
    assert_int_equal(system(begin + 5), 0);
    assert_ok(yokei_cluster_read(CLI_MEMO_CLUSTER, again));
    assert_ok(yokei_cluster_text(&measured, &before));
    assert_ok(yokei_cluster_text(again, &after));
    assert_string_equal(before, after);
    free(before);
    free(after);
    free(command);
    free(again);
}

static void test_tables(void **state)
{
    (void)state;
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    cli_memo_measured(&measured, YOKE_F32, 21.25, to);
    fclose(to);
    assert_non_null(strstr(text, "in 21.2 s"));
    assert_non_null(strstr(text, "| host | 2 | 33.33 | 25 | 1.429 |\n"));
    assert_non_null(strstr(text, "| opencl-0 | 1 | 33.33 | 25 | 1.25 |\n"));
    assert_non_null(strstr(text, "| among-host | 0.4714 | 1.7 |\n"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_command, make_test_folder, remove_test_folder),
        cmocka_unit_test(test_tables),
    };
    fill();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
