/* SPDX-License-Identifier: Apache-2.0 */
/* Writing files: a file must be there whole, or not at all. */
#include "tests/unit/folder.h"

#include "core/base/base.h"
#include <fcntl.h>
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
    /* SIGXFSZ would end the process. The library prevents this signal. */
    assert_true(signal(SIGXFSZ, SIG_DFL) != SIG_ERR);
    setrlimit(RLIMIT_FSIZE, &small);
    const yoke_status status = yokei_file_write(in_folder("b"), big, sizeof big);
    setrlimit(RLIMIT_FSIZE, &old);
    sigset_t waiting;
    assert_int_equal(sigpending(&waiting), 0);
    assert_false(sigismember(&waiting, SIGXFSZ));
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

static void holds(const char *path, const char *text)
{
    void *data;
    size_t bytes;
    assert_ok(yokei_file_read(path, 1 << 20, &data, &bytes));
    assert_string_equal(data, text);
    free(data);
}

static void write_text(const char *path, const char *text)
{
    assert_ok(yokei_file_write(path, text, strlen(text)));
}

static void links_are_followed(void **state)
{
    (void)state;
    struct stat before, after, link;
    assert_ok(yokei_make_folder(in_folder("far")));
    write_text(in_folder("far/file"), "old");
    assert_int_equal(chmod(in_folder("far/file"), 0640), 0);
    assert_int_equal(symlink("far/file", in_folder("link")), 0);
    assert_int_equal(symlink("link", in_folder("chain")), 0);
    assert_int_equal(symlink("far/new", in_folder("dangling")), 0);
    assert_int_equal(symlink("round", in_folder("round")), 0);
    assert_int_equal(stat(in_folder("far/file"), &before), 0);
    const int n = n_files_in_folder();
    write_text(in_folder("chain"), "new");
    holds(in_folder("far/file"), "new");
    assert_int_equal(stat(in_folder("far/file"), &after), 0);
    assert_int_equal(after.st_mode, before.st_mode);
    assert_int_equal(after.st_uid, before.st_uid);
    assert_int_not_equal(after.st_ino, before.st_ino); /* replaced whole */
    write_text(in_folder("dangling"), "made");
    holds(in_folder("far/new"), "made");
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(lstat(in_folder(((const char *[]){ "link", "chain", "dangling" })[i]), &link), 0);
        assert_true(S_ISLNK(link.st_mode));
    }
    assert_fails(YOKE_EIO, "round: cannot be written", yokei_file_write(in_folder("round"), "", 0));
    assert_fails(YOKE_EIO, "it is a folder", yokei_file_write(in_folder("far"), "", 0));
    assert_fails(YOKE_EIO, "no such folder", yokei_file_write(in_folder("no/file"), "", 0));
    assert_fails(YOKE_EIO, "the name is empty", yokei_file_write("", "", 0));
    assert_int_equal(n_files_in_folder(), n);
    /* A name of the greatest length has no room for that of a temporary file. */
    char longest[256] = "";
    memset(longest, 'n', 255);
    write_text(in_folder(longest), "long");
    holds(in_folder(longest), "long");
}

static void abandoned_output_changes_nothing(void **state)
{
    (void)state;
    struct yokei_output *output;
    write_text(in_folder("kept"), "kept");
    const int n = n_files_in_folder();
    assert_ok(yokei_output_open(in_folder("kept"), &output));
    assert_true(yokei_write_all(yokei_output_fd(output), "half", 4));
    assert_int_equal(n_files_in_folder(), n + 1);
    yokei_output_abandon(output);
    assert_int_equal(n_files_in_folder(), n);
    holds(in_folder("kept"), "kept");
}

static void pipes(void **state)
{
    (void)state;
    char text[8] = "";
    void *data;
    size_t bytes;
    struct stat st;
    struct yokei_output *output;
    const char *path = in_folder("pipe");
    assert_int_equal(mkfifo(path, 0600), 0);
    alarm(60); /* a call that waits for the other end ends the test */
    assert_fails(YOKE_ECONFIG, "pipe: is a pipe, not a file",
                 yokei_file_read_as(path, YOKE_ECONFIG, 100, &data, &bytes));
    const int reader = open(path, O_RDONLY | O_NONBLOCK);
    write_text(path, "through");
    assert_int_equal(read(reader, text, 7), 7);
    assert_string_equal(text, "through");
    /* If the reader of a pipe goes away, this is an error, and no signal ends the process. */
    assert_true(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
    assert_ok(yokei_output_open(path, &output));
    assert_true(yokei_write_all(yokei_output_fd(output), "in vain", 7));
    close(reader);
    assert_fails(YOKE_EIO, "Broken pipe", yokei_output_commit(output));
    alarm(0);
    assert_int_equal(lstat(path, &st), 0);
    assert_true(S_ISFIFO(st.st_mode));
}

/* Write to an open file by the name of its descriptor. The text goes to the descriptor's position, or behind
 * the text that others append. */
static void descriptors(void **state)
{
    (void)state;
    char name[64];
    write_text(in_folder("open"), "0123456789");
    int fd = open(in_folder("open"), O_RDWR);
    assert_int_equal(lseek(fd, 3, SEEK_SET), 3);
    snprintf(name, sizeof name, "/dev/fd/%d", fd);
    write_text(name, "abc");
    holds(in_folder("open"), "012abc6789");
    assert_int_equal(symlink(name, in_folder("to-descriptor")), 0);
    write_text(in_folder("to-descriptor"), "d");
    holds(in_folder("open"), "012abcd789");
    close(fd);
    fd = open(in_folder("open"), O_WRONLY | O_APPEND);
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    write_text(name, "!");
    holds(in_folder("open"), "012abcd789!");
    close(fd);
    assert_fails(YOKE_EIO, "Bad file descriptor", yokei_file_write(name, "", 0));
}

/* Write as a user who may not make files in the folder. */
static void closed_folders(void **state)
{
    (void)state;
    struct stat before, after;
    const char *folder = in_folder("closed"), *file = in_folder("closed/file");
    assert_int_equal(chmod(test_folder, 0755), 0);
    assert_ok(yokei_make_folder(folder));
    write_text(file, "a long text that was there");
    assert_int_equal(chmod(file, 0666), 0);
    assert_int_equal(chmod(folder, 0555), 0);
    assert_int_equal(stat(file, &before), 0);
    const bool is_root = geteuid() == 0;
    /* Access asks as the real user, who is root; an open asks as this one. */
    if (is_root && (seteuid(65534) || access(file, F_OK))) {
        assert_int_equal(seteuid(0), 0);
        skip();
    }
    const int probe = open(file, O_RDONLY);
    if (probe < 0) {
        assert_int_equal(is_root ? seteuid(0) : 0, 0);
        skip(); /* the way to the folder is closed to him too */
    }
    close(probe);
    const yoke_status status = yokei_file_write(file, "short", 5),
                      fresh = yokei_file_write(in_folder("closed/new"), "", 0);
    assert_int_equal(is_root ? seteuid(0) : 0, 0);
    assert_int_equal(status, YOKE_OK);
    assert_int_equal(fresh, YOKE_EIO);
    holds(file, "short");
    assert_int_equal(stat(file, &after), 0);
    assert_int_equal(after.st_ino, before.st_ino);
    assert_int_equal(chmod(folder, 0755), 0);
}

/* If the path is wrong, the error is the one that the caller gave. If the machine lacks something, it is not.
 */
static void whose_fault(void **state)
{
    (void)state;
    void *data;
    size_t bytes;
    struct rlimit old, none;
    assert_int_equal(symlink("loop", in_folder("loop")), 0);
    write_text(in_folder("text"), "text");
    assert_fails(YOKE_ECONFIG, "none: cannot be opened: No such file",
                 yokei_file_read_as(in_folder("none"), YOKE_ECONFIG, 9, &data, &bytes));
    assert_fails(YOKE_EDATA, "loop: cannot be opened",
                 yokei_file_read_as(in_folder("loop"), YOKE_EDATA, 9, &data, &bytes));
    assert_fails(YOKE_EDATA, "is a device", yokei_file_read_as("/dev/null", YOKE_EDATA, 9, &data, &bytes));
    assert_fails(YOKE_EDATA, "at most 3",
                 yokei_file_read_as(in_folder("text"), YOKE_EDATA, 3, &data, &bytes));
    getrlimit(RLIMIT_NOFILE, &old);
    none = old;
    none.rlim_cur = 3;
    setrlimit(RLIMIT_NOFILE, &none);
    const yoke_status status = yokei_file_read_as(in_folder("text"), YOKE_ECONFIG, 9, &data, &bytes);
    setrlimit(RLIMIT_NOFILE, &old);
    assert_int_equal(status, YOKE_EIO);
    assert_non_null(strstr(yoke_last_error(), "the limit of this process is 3 (ulimit -n)"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(write_and_read),
        cmocka_unit_test(a_failed_write_changes_nothing),
        cmocka_unit_test(folders),
        cmocka_unit_test(links_are_followed),
        cmocka_unit_test(abandoned_output_changes_nothing),
        cmocka_unit_test(pipes),
        cmocka_unit_test(descriptors),
        cmocka_unit_test(closed_folders),
        cmocka_unit_test(whose_fault),
    };
    return cmocka_run_group_tests_name("file", tests, make_test_folder, remove_test_folder);
}
