/* SPDX-License-Identifier: Apache-2.0 */
/* Files: whole or not at all. */
#include "tests/unit/folder.h"

#include "core/base/base.h"
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static void write_and_read(void **state)
{
    (void)state;
    void *data;
    size_t bytes;
    assert_ok(yokei_file_write(in_folder("a"), "hello", 5));
    assert_ok(yokei_file_write(in_folder("a"), "other", 5));
    assert_ok(yokei_file_read(in_folder("a"), 100, &data, &bytes));
    assert_int_equal(bytes, 5);
    assert_string_equal(data, "other"); /* the reader's final 0 is there */
    free(data);
    assert_fails(YOKE_EIO, "at most 4", yokei_file_read(in_folder("a"), 4, &data, &bytes));
    assert_fails(YOKE_EIO, "No such file", yokei_file_read(in_folder("absent"), 4, &data, &bytes));
    assert_fails(YOKE_EIO, "is a folder", yokei_file_read(test_folder, 1 << 20, &data, &bytes));
    assert_int_equal(n_files_in_folder(), 1); /* no temporary names are left */
}

/* A write that the system refuses half-way leaves the old content and no rest. */
static void a_failed_write_changes_nothing(void **state)
{
    (void)state;
    static char big[1 << 16];
    void *data;
    size_t bytes;
    assert_ok(yokei_file_write(in_folder("b"), "keep me", 7));
    const int before = n_files_in_folder();
    struct rlimit old, small;
    getrlimit(RLIMIT_FSIZE, &old);
    small = old;
    small.rlim_cur = 1000;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    const yoke_status status = yokei_file_write(in_folder("b"), big, sizeof big);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(status, YOKE_EIO);
    assert_non_null(strstr(yoke_last_error(), "unchanged"));
    assert_ok(yokei_file_read(in_folder("b"), 100, &data, &bytes));
    assert_string_equal(data, "keep me");
    free(data);
    assert_int_equal(n_files_in_folder(), before);
}

static void folders(void **state)
{
    (void)state;
    struct stat st;
    assert_ok(yokei_make_folder(in_folder("x/y/z")));
    assert_ok(yokei_make_folder(in_folder("x/y/z")));
    assert_int_equal(stat(in_folder("x/y/z"), &st), 0);
    assert_ok(yokei_file_write(in_folder("x/file"), "", 0));
    assert_fails(YOKE_EIO, "a file is in the way", yokei_make_folder(in_folder("x/file/y")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(write_and_read),
        cmocka_unit_test(a_failed_write_changes_nothing),
        cmocka_unit_test(folders),
    };
    return cmocka_run_group_tests_name("file", tests, make_test_folder, remove_test_folder);
}
