/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which ranks the supervisor ends after a failure, and when. The rest of the supervisor is replaced by
 * functions of this file, which keep the orders to the agents.
 */
#include "tests/unit/test.h"

#include "cli/launch/end_ranks.h"
#include "cli/launch/pmi.h"
#include "cli/launch/verdict.h"
#include "core/base/base.h"

enum { N = 3 };
static struct cli_rank_watch ranks[N];
static struct cli_job job;
static int ordered[N]; /* orders to end each rank */
static int aborter;    /* the rank that called MPI_Abort; -1: none */

void cli_order_all(struct cli_job *j, enum cli_command command, int argument)
{
    (void)j;
    if (command == CLI_COMMAND_KILL) ordered[argument]++;
}
void cli_report_death(const struct cli_job *j, int r) { (void)j, (void)r; }
int cli_aborted_rank(const struct cli_job *j) { return (void)j, aborter; }
bool cli_pmi_waits(const struct cli_pmi *pmi, int r) { return (void)pmi, r != aborter; }
bool cli_pmi_aborts(const struct cli_pmi *pmi, int r, int *code_out)
{
    (void)pmi;
    *code_out = 0;
    return r == aborter;
}

/* Three ranks of a job that we launch ourselves run, and none has sent a report. */
static int set_up(void **state)
{
    (void)state;
    static char server; /* not used but as a sign that we are the launcher */
    memset(ordered, 0, sizeof ordered);
    memset(ranks, 0, sizeof ranks);
    for (int r = 0; r < N; r++) ranks[r].ended_at = -1;
    job = (struct cli_job){ .n_ranks = N, .ranks = ranks, .grace = 10, .pmi = (struct cli_pmi *)&server };
    aborter = -1;
    return 0;
}

/* A rank that MPI_Abort ends is not one that we end: it is the culprit, however late its agent is. */
static void an_aborted_rank_is_left_to_its_agent(void **state)
{
    (void)state;
    aborter = 1;
    cli_end_aborted(&job);
    assert_true(ranks[1].aborted);
    cli_end_the_rest(&job, 9);
    assert_false(ranks[1].killed);
    assert_int_equal(ordered[1], 0);
    assert_true(ranks[0].killed && ranks[2].killed);
    assert_int_equal(ordered[0], 1);
    assert_int_equal(ordered[2], 1);
}

static void an_aborted_rank_is_ended_when_the_time_is_up(void **state)
{
    (void)state;
    aborter = 1;
    cli_end_aborted(&job);
    cli_end_the_rest(&job, 10.5);
    assert_true(ranks[1].killed);
    assert_int_equal(ordered[1], 1);
}

/* A rank that runs none of Yoke's code cannot notice a failure, so it gets a tenth of a second. */
static void a_blind_rank_is_ended_soon(void **state)
{
    (void)state;
    ranks[2].ended_at = 0; /* the failure */
    cli_end_the_rest(&job, 0.05);
    assert_false(ranks[0].killed || ranks[1].killed);
    cli_end_the_rest(&job, 0.2);
    assert_true(ranks[0].killed && ranks[1].killed);
    cli_end_the_rest(&job, 0.3);
    assert_int_equal(ordered[0], 1);
    assert_int_equal(ordered[2], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(an_aborted_rank_is_left_to_its_agent, set_up),
        cmocka_unit_test_setup(an_aborted_rank_is_ended_when_the_time_is_up, set_up),
        cmocka_unit_test_setup(a_blind_rank_is_ended_soon, set_up),
    };
    return cmocka_run_group_tests_name("ends of ranks", tests, NULL, NULL);
}
