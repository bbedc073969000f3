/* SPDX-License-Identifier: Apache-2.0 */
/* What the line of progress says: of this process, its children, the libraries, other ranks. */
#include "tests/unit/test.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/options/progress_said.h"
#include "core/base/busy.h"

static struct cli_said *said;
static int n_cleared;

static void note_clearing(void) { n_cleared++; }

/* Run `work` in a child process. Returns the status of waitpid. */
static int in_child(void (*work)(void))
{
    int status = 0;
    const pid_t pid = fork();
    if (pid == 0) {
        work();
        _exit(0);
    }
    assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
    return status;
}

static void nobody_watches(void **state)
{
    (void)state;
    assert_false(cli_progress_is_watched());
    cli_progress_begin("work");
    cli_progress_now("part");
    cli_progress_at(1, 2);
    cli_progress_pause();
    cli_progress_end();
    yokei_busy_begin("compiling");
    yokei_busy_end();
    setenv("YOKE_PROGRESS", "/proc/self/exe:1", 1); /* no memory of a job */
    cli_said_join(1);
    unsetenv("YOKE_PROGRESS");
    yokei_busy_begin("compiling");
    yokei_busy_end();
    assert_int_equal(n_cleared, 0);
}

static void watch(void **state)
{
    (void)state;
    cli_progress_share_with_ranks();
    assert_non_null(said = cli_said_open(true, note_clearing));
    assert_true(cli_progress_is_watched() && !cli_progress_is_parents());
    cli_progress_begin("verify %s", "host");
    cli_progress_at(3, 9);
    cli_progress_now("gemm");
    assert_string_equal(said->what, "verify host");
    assert_string_equal(said->now, "gemm");
    assert_true(said->done == 3 && said->total == 9 && said->is_begun && !said->is_paused);
    cli_progress_pause();
    assert_true(said->is_paused && n_cleared == 1);
    cli_progress_share(0.5);
    assert_true(!said->is_paused && said->done == 0.5 && said->total < 0);
    const unsigned number = said->number;
    cli_progress_begin("another");
    assert_true(said->number == number + 1 && said->total == 0 && !said->now[0]);
    cli_progress_end();
    assert_true(!said->is_begun && n_cleared == 2);
    char longest[2000];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    cli_progress_begin("%s", longest);
    cli_progress_now("%s", longest);
    assert_true(strlen(said->what) == sizeof said->what - 1 && strlen(said->now) == sizeof said->now - 1);
}

static void say_in_child(void)
{
    if (!cli_progress_is_parents()) _exit(1);
    cli_progress_now("said by a child");
    cli_progress_share(0.25);
    cli_progress_begin("not this");
    cli_progress_pause();
    cli_progress_end();
    yokei_busy_begin("compiling %s", "norm");
    yokei_busy_at(1, 4);
}

static void children_say_what_they_do(void **state)
{
    (void)state;
    const int before = n_cleared;
    cli_progress_begin("verify");
    cli_progress_pause();
    assert_int_equal(in_child(say_in_child), 0);
    assert_string_equal(said->what, "verify");
    assert_string_equal(said->now, "said by a child");
    assert_true(said->done == 0.25 && said->is_begun && said->is_paused); /* the parent prints its results */
    assert_string_equal(said->busy, "compiling norm");
    assert_true(said->n_busy == 1 && said->busy_share == 0.25 && kill(said->busy_process, 0));
    cli_progress_resume();
    assert_true(!said->is_paused && n_cleared == before + 1);
}

static void die_with_the_lock(void)
{
    cli_said_lock(said);
    raise(SIGKILL);
}

static void a_killed_child_keeps_no_lock(void **state)
{
    (void)state;
    assert_true(WIFSIGNALED(in_child(die_with_the_lock)));
    cli_progress_now("goes on");
    assert_string_equal(said->now, "goes on");
}

static void the_libraries_say_what_takes_long(void **state)
{
    (void)state;
    cli_progress_end();
    const int before = n_cleared;
    yokei_busy_begin("checking %s", "a");
    yokei_busy_begin("inside");
    assert_string_equal(said->busy, "checking a");
    yokei_busy_at(1, 2);
    assert_true(said->busy_share == 0.5);
    yokei_busy_at(1, 0); /* nothing of nothing */
    yokei_busy_end();
    assert_true(said->n_busy == 1 && n_cleared == before);
    yokei_busy_end();
    assert_true(said->n_busy == 0 && n_cleared == before + 1); /* no work was begun, so the line goes */
    yokei_busy_end();
    assert_int_equal(said->n_busy, 0);
}

/* Rank 1 is another program in truth, and finds the memory by the variable, as here. */
static void be_rank_1(void)
{
    cli_said_join(1);
    yokei_busy_begin("compiling gemm");
    yokei_busy_at(3, 4);
    kill(getpid(), SIGSTOP);
    yokei_busy_end();
}

static void other_ranks_say_what_they_do(void **state)
{
    (void)state;
    int status;
    const pid_t pid = fork();
    if (pid == 0) {
        be_rank_1();
        _exit(0);
    }
    assert_true(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
    assert_string_equal(said->busy, "rank 1: compiling gemm");
    assert_true(said->busy_rank == 1 && said->busy_share == 0.75 && said->busy_process == pid);
    yokei_busy_begin("own work"); /* comes first */
    assert_string_equal(said->busy, "own work");
    kill(pid, SIGCONT);
    assert_true(waitpid(pid, &status, 0) == pid && status == 0);
    assert_true(said->n_busy == 1 && said->busy_rank == 0);
    yokei_busy_end();
}

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void a_million_calls_cost_little(void **state)
{
    (void)state;
    const double begun = cpu_seconds();
    for (int i = 0; i < 1000000; i++) cli_progress_at(i, 1e6);
    assert_true(said->done == 999999);
    assert_true(cpu_seconds() - begun < 0.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_watches),
        cmocka_unit_test(watch),
        cmocka_unit_test(children_say_what_they_do),
        cmocka_unit_test(a_killed_child_keeps_no_lock),
        cmocka_unit_test(the_libraries_say_what_takes_long),
        cmocka_unit_test(a_million_calls_cost_little),
        cmocka_unit_test(other_ranks_say_what_they_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
