/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The smallest agent. It does for the tests of the library what `yoke rank` does for users: it keeps the
 * launcher's PMI descriptor open, starts the rank, and writes the rank's state into its flight record (the
 * file in which a rank notes what it does). It exits only when all ranks have ended, because the launcher
 * kills the other agents if one exits without MPI_Finalize.
 *   YOKE_RUN_DIR=DIR mpiexec.mpich -n N tests/ranks/agent PROGRAM [ARGUMENT...]
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <signal.h>

#include "collectives/flight/flight.h"
#include "core/base/base.h"

static int ended(const char *folder, int rank)
{
    const struct yokei_flight_file *file;
    if (yokei_flight_open(folder, rank, &file)) return 0;
    const int dead = yokei_flight_agent(file).state == YOKEI_AGENT_DEAD;
    yokei_flight_close(file);
    return dead;
}

static void wait_for_all(const char *folder, int n)
{
    for (int turn = 0; turn < 12000; turn++) {
        int n_ended = 0;
        for (int r = 0; r < n; r++) n_ended += ended(folder, r);
        if (n_ended == n) return;
        usleep(5000);
    }
}

int main(int argc, char **argv)
{
    const char *folder = getenv("YOKE_RUN_DIR"), *rank = getenv("PMI_RANK"), *size = getenv("PMI_SIZE");
    struct yokei_flight_file *file;
    if (argc < 2 || !folder || !rank || !size || yokei_flight_create(folder, atoi(rank), true, &file)) {
        fprintf(stderr, "agent: needs YOKE_RUN_DIR, mpiexec.mpich and a program: %s\n", yoke_last_error());
        return 2;
    }
    const pid_t agent = getpid(), pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != agent) _exit(127);
        setenv("YOKE_SUPERVISOR", "", 1); /* this agent keeps the flight record */
        execv(argv[1], argv + 1);
        _exit(127);
    }
    yokei_flight_set_agent(file, YOKEI_AGENT_ALIVE, pid, 0, 0);
    int code = 1, status;
    while (waitpid(pid, &status, WUNTRACED | WCONTINUED) == pid) {
        if (WIFSTOPPED(status)) yokei_flight_set_agent(file, YOKEI_AGENT_STOPPED, pid, WSTOPSIG(status), 0);
        if (WIFCONTINUED(status)) yokei_flight_set_agent(file, YOKEI_AGENT_ALIVE, pid, 0, 0);
        if (WIFSIGNALED(status)) {
            yokei_flight_set_agent(file, YOKEI_AGENT_DEAD, pid, WTERMSIG(status), 0);
            break;
        }
        if (WIFEXITED(status)) {
            code = WEXITSTATUS(status);
            yokei_flight_set_agent(file, YOKEI_AGENT_DEAD, pid, 0, code);
            break;
        }
    }
    wait_for_all(folder, atoi(size));
    return code;
}
