/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which files in /dev/shm the last process of a job removes, and which it leaves: those that a process has
 * open or mapped, those of other users, and those that have other names or are no files.
 */
#include "tests/unit/test.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/launch/shared_memory.h"

/* Make a file of MPICH's name with `bytes` zeros. */
static int make_file(char *path_out, size_t bytes)
{
    strcpy(path_out, "/dev/shm/mpich_shar_tmpXXXXXX");
    const int fd = mkstemp(path_out);
    assert_true(fd >= 0);
    assert_return_code(ftruncate(fd, (off_t)bytes), 0);
    return fd;
}

static bool exists(const char *path)
{
    struct stat st;
    return !lstat(path, &st);
}

/* A job of one process begins and ends on this host. */
static void end_a_job(void)
{
    char path[64] = "/dev/shm/yoke-job-0123456789abcdef";
    const int fd = cli_shared_folder_open(path);
    assert_true(fd >= 0);
    cli_shared_folder_close(fd, path);
    assert_false(exists(path));
}

enum use { OPEN, OPEN_TO_READ, MAPPED, MAPPED_TO_READ };

/* Start a process that uses the file until it is killed. */
static pid_t start_user(const char *path, enum use use)
{
    int ready[2];
    char byte;
    assert_return_code(pipe(ready), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0); /* to kill(), -1 means all processes */
    if (pid == 0) {
        const bool reads = use == OPEN_TO_READ || use == MAPPED_TO_READ;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        const int fd = open(path, reads ? O_RDONLY : O_RDWR);
        if (fd < 0) _exit(1);
        if (use >= MAPPED) {
            if (mmap(NULL, 4096, reads ? PROT_READ : PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED)
                _exit(1);
            close(fd);
        }
        if (write(ready[1], "", 1) != 1) _exit(1);
        for (;;) pause();
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

static void a_file_stays_until_nobody_uses_it(void **state)
{
    (void)state;
    for (int use = OPEN; use <= MAPPED_TO_READ; use++) {
        char path[64];
        close(make_file(path, 4096));
        const pid_t pid = start_user(path, (enum use)use);
        end_a_job();
        assert_true(exists(path));
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        end_a_job();
        assert_false(exists(path));
    }
}

/* The user of the file is in another container: it has another /proc, where only that user is seen. */
static void a_user_that_cannot_be_seen_counts(void **state)
{
    (void)state;
    char path[64];
    if (geteuid()) skip();
    close(make_file(path, 4096));
    const pid_t pid = start_user(path, MAPPED);
    const pid_t looker = fork();
    if (looker == 0) {
        char folder[] = "/dev/shm/yoke-job-fedcba9876543210";
        if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL)
            || mount("tmpfs", "/proc", "tmpfs", 0, NULL))
            _exit(77);
        if (cli_shared_memory_in_use(path)) _exit(1); /* /proc is empty */
        cli_shared_folder_close(cli_shared_folder_open(folder), folder);
        _exit(exists(path) ? 0 : 2);
    }
    int code = 0;
    assert_int_equal(waitpid(looker, &code, 0), looker);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_true(WIFEXITED(code));
    if (WEXITSTATUS(code) == 77) {
        unlink(path);
        skip(); /* this container allows no mounts */
    }
    assert_int_equal(WEXITSTATUS(code), 0);
    end_a_job();
    assert_false(exists(path));
}

static void other_files_stay(void **state)
{
    (void)state;
    char foreign[64], other[] = "/dev/shm/not-mpich_shar_tmpXXXXXX", link[64], folder[64];
    const int fd = mkstemp(other);
    assert_true(fd >= 0);
    close(fd);
    snprintf(link, sizeof link, "/dev/shm/mpich_shar_tmplink%d", (int)getpid());
    snprintf(folder, sizeof folder, "/dev/shm/mpich_shar_tmpdir%d", (int)getpid());
    assert_return_code(symlink(other, link), 0);
    assert_return_code(mkdir(folder, 0700), 0);
    close(make_file(foreign, 4096));
    const bool root = !geteuid();
    if (root) assert_return_code(chown(foreign, 12345, 12345), 0);
    end_a_job();
    assert_true(exists(other) && exists(link) && exists(folder));
    assert_int_equal(exists(foreign), root);
    unlink(other), unlink(link), rmdir(folder), unlink(foreign);
}

/* Each of several processes asks for the lease of the same files at the same time. None waits, or dies. */
static void several_jobs_may_end_at_once(void **state)
{
    (void)state;
    enum { JOBS = 6, ROUNDS = 40 };
    for (int round = 0; round < ROUNDS; round++) {
        char paths[4][64], folder[64];
        pid_t pids[JOBS];
        for (int i = 0; i < 4; i++) close(make_file(paths[i], 4096));
        for (int j = 0; j < JOBS; j++) {
            pids[j] = fork();
            if (pids[j]) continue;
            snprintf(folder, sizeof folder, "/dev/shm/yoke-job-%016x", 0xabc00000u + (unsigned)j);
            alarm(20);
            cli_shared_folder_close(cli_shared_folder_open(folder), folder);
            _exit(0);
        }
        for (int j = 0; j < JOBS; j++) {
            int code = -1;
            assert_int_equal(waitpid(pids[j], &code, 0), pids[j]);
            assert_int_equal(code, 0);
        }
        end_a_job(); /* the others wait for each other, but not for long */
        for (int i = 0; i < 4; i++) assert_false(exists(paths[i]));
    }
}

/* The folder is gone, because the last process came while the rank of a killed agent still had its memory. */
static void a_late_file_is_removed_without_a_folder(void **state)
{
    (void)state;
    char path[64];
    const char *supervisor = getenv("YOKE_SUPERVISOR");
    assert_null(supervisor);
    unsetenv("UCX_POSIX_DIR"); /* an earlier test opened a folder, which sets it */
    setenv("YOKE_SUPERVISOR", "1 2 3", 1);
    close(make_file(path, 4096));
    cli_shared_folder_drop(1);
    unsetenv("YOKE_SUPERVISOR");
    assert_false(exists(path));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_stays_until_nobody_uses_it),
        cmocka_unit_test(a_user_that_cannot_be_seen_counts),
        cmocka_unit_test(other_files_stay),
        cmocka_unit_test(several_jobs_may_end_at_once),
        cmocka_unit_test(a_late_file_is_removed_without_a_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
