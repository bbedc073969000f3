/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks whether a file is a valid timeline of RANKS ranks and STEPS steps, and prints what it found:
 *   tests/ranks/timeline_check FILE RANKS STEPS
 */
#include "tests/unit/timeline_check.h"

int main(int argc, char **argv)
{
    struct timeline_facts facts;
    if (argc != 4) return fputs("timeline_check FILE RANKS STEPS\n", stderr), 99;
    int bad = check_timeline(argv[1], &facts);
    if (!bad && facts.n_processes != 2 * atoi(argv[2]))
        bad = timeline_problem(&facts, "another number of processes than two per rank", argv[2]);
    if (!bad && facts.n_steps != atoi(argv[3]))
        bad = timeline_problem(&facts, "another number of steps", argv[3]);
    if (!bad && (facts.n_counters == 0 || (atoi(argv[2]) > 1 && facts.n_arrows == 0)))
        bad = timeline_problem(&facts, "no counters or no arrows", argv[1]);
    /*
     * A check of plausibility, not of speed. On a machine with other work a measured step may be much longer.
     */
    if (!bad && (facts.simulated > 3 * facts.measured || facts.simulated < 0.001 * facts.measured))
        bad = timeline_problem(&facts, "the simulated step is far off", argv[1]);
    if (bad) return printf("%s\n", facts.problem), 1;
    printf("%d measured, %d simulated, %d arrows, %d counters; %.3f ms measured, %.3f ms simulated\n",
           facts.n_measured, facts.n_simulated, facts.n_arrows, facts.n_counters, 1e3 * facts.measured,
           1e3 * facts.simulated);
    return 0;
}
