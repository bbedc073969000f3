/* SPDX-License-Identifier: Apache-2.0 */
/* Flight records: written, read by others, wrong files refused; verdicts and who is to blame. */
#include "tests/unit/test.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collectives/flight.h"
#include "core/base/base.h"

static char folder[] = "/tmp/yoke-flight.XXXXXX";

static int make_folder(void **unused)
{
    (void)unused;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **unused)
{
    (void)unused;
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static void is_shared_and_private(void **unused)
{
    (void)unused;
    struct yokei_flight_file *mine, *again;
    const struct yokei_flight_file *theirs;
    struct stat st;
    char path[128], name[32];
    assert_ok(yokei_flight_create(folder, 3, true, &mine));
    assert_ok(yokei_flight_open(folder, 3, &theirs));
    yokei_flight_set_agent(mine, YOKEI_AGENT_STOPPED, 4711, SIGSTOP, 0);
    struct yokei_agent_verdict verdict = yokei_flight_agent(theirs);
    assert_int_equal(verdict.state, YOKEI_AGENT_STOPPED);
    assert_int_equal(verdict.pid, 4711);
    assert_int_equal(verdict.signal, SIGSTOP);
    yokei_flight_set_agent(mine, YOKEI_AGENT_DEAD, 4711, 0, 16);
    assert_int_equal(yokei_flight_agent(theirs).exit_code, 16);
    /* The rank opens what its agent made, and keeps it. */
    assert_ok(yokei_flight_create(folder, 3, false, &again));
    assert_int_equal(yokei_flight_agent(again).state, YOKEI_AGENT_DEAD);
    yokei_flight_close(again);
    assert_ok(yokei_flight_create(folder, 3, true, &again));
    assert_int_equal(yokei_flight_agent(again).state, YOKEI_AGENT_NONE);
    yokei_flight_name(3, name, sizeof name);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    yokei_flight_close(again);
    yokei_flight_close(theirs);
    yokei_flight_close(mine);
}

static void wrong_files_are_refused(void **unused)
{
    (void)unused;
    const struct yokei_flight_file *file;
    struct yokei_flight_file *made;
    char path[128], zeros[sizeof(struct yokei_flight_file)] = { 0 };
    assert_fails(YOKE_EIO, "cannot be opened", yokei_flight_open(folder, 99, &file));
    assert_fails(YOKE_EIO, "cannot be created", yokei_flight_create("/no/such/folder", 0, true, &made));
    snprintf(path, sizeof path, "%s/flight-00007.bin", folder);
    assert_ok(yokei_file_write(path, "short", 5));
    assert_fails(YOKE_EDATA, "shorter", yokei_flight_open(folder, 7, &file));
    assert_ok(yokei_file_write(path, zeros, sizeof zeros));
    assert_fails(YOKE_EDATA, "not a flight record", yokei_flight_open(folder, 7, &file));
    snprintf(path, sizeof path, "%s/flight-00008.bin", folder);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    assert_fails(YOKE_EIO, NULL, yokei_flight_open(folder, 8, &file));
    assert_fails(YOKE_EIO, NULL, yokei_flight_create(folder, 8, false, &made));
}

static void outlives_a_killed_process(void **unused)
{
    (void)unused;
    struct yokei_flight_file *file;
    int fd;
    assert_ok(yokei_flight_create_memory(5, &fd, &file));
    const pid_t child = fork();
    if (child == 0) {
        atomic_store(&file->n_operations, 12);
        raise(SIGKILL);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    const struct yokei_flight_file *seen;
    assert_ok(yokei_flight_open_memory(getpid(), fd, &seen));
    assert_int_equal(atomic_load(&seen->n_operations), 12);
    assert_int_equal(seen->rank, 5);
    yokei_flight_close(seen);
    yokei_flight_close(file);
    close(fd);
}

/* Four ranks: waits_for[r] -1 means outside collectives. */
static int culprit(const int waits_for[4], int from, int dead)
{
    struct yokei_flight_file *files[4];
    const struct yokei_flight_file *read_only[4];
    int fds[4];
    for (int r = 0; r < 4; r++) {
        assert_ok(yokei_flight_create_memory(r, &fds[r], &files[r]));
        atomic_store(&files[r]->waits_for, waits_for[r]);
        atomic_store(&files[r]->progress_ns, 1000 + 10 * (uint64_t)((r + 2) % 4)); /* rank 2's is the oldest */
        atomic_store(&files[r]->state, waits_for[r] < 0 ? YOKEI_RANK_OUTSIDE : YOKEI_RANK_INSIDE);
        if (r == dead) yokei_flight_set_agent(files[r], YOKEI_AGENT_DEAD, 1, SIGSEGV, 0);
        read_only[r] = files[r];
    }
    const int rank = yokei_flight_culprit(read_only, 4, from);
    for (int r = 0; r < 4; r++) {
        yokei_flight_close(files[r]);
        close(fds[r]);
    }
    return rank;
}

static void the_chain_ends_at_the_culprit(void **unused)
{
    (void)unused;
    assert_int_equal(culprit((const int[]){ 1, 2, 3, -1 }, 0, -1), 3);  /* rank 3 has not called */
    assert_int_equal(culprit((const int[]){ 1, 2, 3, -1 }, -1, -1), 3);
    assert_int_equal(culprit((const int[]){ 1, 2, 3, 0 }, 0, -1), 2);   /* a circle: who stood still first */
    assert_int_equal(culprit((const int[]){ 1, 2, 3, -1 }, 0, 1), 1);   /* a dead rank, whoever waits */
}

static void processes(void **unused)
{
    (void)unused;
    uint64_t start = 0, again = 0;
    assert_int_equal(yokei_process_state(getpid(), &start), 'R');
    yokei_process_state(getpid(), &again);
    assert_true(start > 0 && start == again);
    const pid_t child = fork();
    if (child == 0) {
        raise(SIGSTOP);
        _exit(0);
    }
    int status;
    waitpid(child, &status, WUNTRACED);
    assert_int_equal(yokei_process_state(child, NULL), 'T');
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    assert_int_equal(yokei_process_state(child, NULL), 0);
}

static void texts(void **unused)
{
    (void)unused;
    struct yokei_flight_file *file;
    char text[512];
    int fd;
    assert_ok(yokei_flight_create_memory(0, &fd, &file));
    yokei_flight_describe(file, text, sizeof text);
    assert_string_equal(text, "before its first collective");
    atomic_store(&file->kind, YOKEI_BROADCAST);
    atomic_store(&file->sequence, 17);
    atomic_store(&file->step, 3);
    atomic_store(&file->waits_for, 2);
    atomic_store(&file->progress_ns, yokei_now_ns());
    strcpy(file->comm_name, "world");
    atomic_store(&file->state, YOKEI_RANK_INSIDE);
    yokei_flight_describe(file, text, sizeof text);
    assert_non_null(strstr(text, "in broadcast #17 of \"world\", step 3, waiting for rank 2"));
    const struct yokei_agent_verdict killed = { .state = YOKEI_AGENT_DEAD, .signal = SIGKILL };
    yokei_agent_verdict_text(&killed, text, sizeof text);
    assert_non_null(strstr(text, "died by signal 9"));
    assert_string_equal(yokei_kind_name(YOKEI_N_KINDS), "?");
    yokei_flight_close(file);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_shared_and_private),
        cmocka_unit_test(wrong_files_are_refused),
        cmocka_unit_test(outlives_a_killed_process),
        cmocka_unit_test(the_chain_ends_at_the_culprit),
        cmocka_unit_test(processes),
        cmocka_unit_test(texts),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
