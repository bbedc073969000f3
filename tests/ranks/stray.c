/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A test that fails on one rank while the other ranks wait in a collective. Every test of several ranks
 * behaves like this when it fails. tests/ranks/ends starts this program. It checks that all ranks end soon,
 * with a line that names the rank.
 *   stray fails|dies
 */
#include <signal.h>

#include "tests/ranks/ranks.h"

static int one_is_elsewhere(const char *how)
{
    yoke_comm *comm;
    RANKS_TRY(yoke_comm_create(ranks_world, NULL, NULL, &comm));
    if (ranks_rank == 1 && !strcmp(how, "dies")) raise(SIGKILL);
    if (ranks_rank == 1) RANKS_TRY(yoke_fail(YOKE_EDATA, "17 is not 18"));
    if (!strcmp(how, "dies"))
        return 1; /* If a rank dies, the others meet in the check. MPI does not tell them that it died. */
    RANKS_TRY(yoke_barrier(comm, NULL));
    return 1;
}

int main(int argc, char **argv)
{
    ranks_start();
    ranks_check(one_is_elsewhere(argc > 1 ? argv[1] : "fails"), "a step that one rank fails");
    return ranks_end();
}
