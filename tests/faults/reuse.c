/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Process numbers that come back: reuse YOKE
 *
 * A rank ends while its job goes on. Then a process that has nothing to do with the job gets the rank's
 * number, as happens within minutes on a machine that starts many processes. No signal of the job may reach
 * that process. The test asks the kernel for the number (clone3 with set_tid, since Linux 5.5), which takes
 * the privilege CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN. Prints TAP.
 */
#include <dirent.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "core/base/times.h"
#include "tests/faults/processes.h"

#define LIMIT_SECONDS 200.0 /* it only ends a wait that would never end */

static const char *yoke;
static char folder[256];

/* ---- the bystander ---- */

/*
 * Start a process with this number, in a process group and a session of its own. Returns 0 and sets
 * *process_out, or the reason: EEXIST if the number is not free, EPERM or ENOSYS if nobody may ask for it.
 */
static int start_bystander(pid_t number, pid_t *process_out)
{
    int ready[2];
    char byte;
    if (pipe2(ready, O_CLOEXEC)) exit(99);
    const struct clone_args how = { .exit_signal = SIGCHLD,
                                    .set_tid = (uint64_t)(uintptr_t)&number,
                                    .set_tid_size = 1 };
    const long pid = syscall(SYS_clone3, &how, sizeof how);
    const int reason = errno;
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setsid();
        if (write(ready[1], "", 1) != 1) _exit(1);
        for (;;) pause();
    }
    close(ready[1]);
    if (pid > 0 && read(ready[0], &byte, 1) != 1) exit(99);
    close(ready[0]);
    *process_out = (pid_t)pid;
    return pid > 0 ? 0 : reason;
}

/* Start it as soon as the number is free. */
static pid_t await_number(pid_t number)
{
    pid_t bystander = -1;
    int reason = EEXIST;
    for (const double until = yokei_now() + LIMIT_SECONDS; reason == EEXIST && yokei_now() < until;
         usleep(1000))
        reason = start_bystander(number, &bystander);
    return reason ? -1 : bystander;
}

/* End it. Returns whether it had lived until now. */
static bool end_bystander(pid_t bystander)
{
    const bool lives = !child_has_ended(bystander);
    kill(bystander, SIGKILL);
    waitpid(bystander, NULL, 0);
    return lives;
}

/* Why the kernel gives nobody the number that is asked for; 0: it does. */
static int may_not(void)
{
    pid_t bystander;
    const pid_t number = fork_or_exit();
    if (number == 0) _exit(0);
    waitpid(number, NULL, 0);
    const int reason = start_bystander(number, &bystander);
    if (!reason) end_bystander(bystander);
    return reason == EEXIST ? 0 : reason; /* another process was faster */
}

/* ---- the job ---- */

/* Rank 1 ends at once if `leaves`. Rank 0 goes on until there is the file `go`. */
static pid_t start_job(bool leaves)
{
    static const char script[] =
        "echo $$ $PPID >$FOLDER/new-$PMI_RANK; mv $FOLDER/new-$PMI_RANK $FOLDER/rank-$PMI_RANK; "
        "[ $PMI_RANK$LEAVES = 1yes ] && exit 0; while [ ! -e $FOLDER/go ]; do sleep 0.02; done";
    const pid_t job = fork_or_exit();
    if (job) return job;
    char path[300];
    setenv("FOLDER", folder, 1);
    setenv("LEAVES", leaves ? "yes" : "", 1);
    snprintf(path, sizeof path, "%s/out", folder);
    const int out = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    dup2(out, 1);
    dup2(out, 2);
    execl(yoke, yoke, "run", "-n", "2", "--", "/bin/sh", "-c", script, (char *)NULL);
    _exit(127);
}

/* The process numbers of a rank and of its agent. Returns false if the job ends before. */
static bool meet(pid_t job, int rank, pid_t *rank_out, pid_t *agent_out)
{
    char path[300];
    int pid, agent;
    snprintf(path, sizeof path, "%s/rank-%d", folder, rank);
    for (const double until = yokei_now() + LIMIT_SECONDS; yokei_now() < until && !child_has_ended(job);
         usleep(1000)) {
        FILE *from = fopen(path, "r");
        const bool known = from && fscanf(from, "%d %d", &pid, &agent) == 2;
        if (from) fclose(from);
        *rank_out = pid;
        *agent_out = agent;
        if (known) return true;
    }
    return false;
}

static void end_job(pid_t job)
{
    char path[300];
    snprintf(path, sizeof path, "%s/go", folder);
    close(open(path, O_WRONLY | O_CREAT, 0600));
    for (const double until = yokei_now() + LIMIT_SECONDS; !child_has_ended(job) && yokei_now() < until;)
        usleep(5000);
    kill(job, SIGKILL);
    waitpid(job, NULL, 0);
}

static void empty_folder(void)
{
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && (e = readdir(dir));)
        if (e->d_name[0] != '.') unlinkat(dirfd(dir), e->d_name, 0);
    if (dir) closedir(dir);
}

/* ---- the trials: each returns what is wrong, or NULL ---- */

/* The agent of a rank that has ended looks after the job until the job's end. */
static const char *rank_that_leaves(void)
{
    pid_t rank, agent;
    const pid_t job = start_job(true);
    if (!meet(job, 1, &rank, &agent)) return "the ranks did not start";
    const pid_t bystander = await_number(rank);
    end_job(job);
    if (bystander < 0) return "the number did not become free";
    return end_bystander(bystander) ? NULL : "it was killed";
}

/* Then the agent is killed, and the process that had started the agent ends what the rank had started. */
static const char *agent_that_is_lost(void)
{
    pid_t rank, agent;
    const pid_t job = start_job(true);
    if (!meet(job, 1, &rank, &agent)) return "the ranks did not start";
    const int process = hold_process(agent);
    const pid_t bystander = await_number(rank);
    signal_held(process, SIGKILL);
    let_go_of(process);
    end_job(job);
    if (bystander < 0) return "the number did not become free";
    return end_bystander(bystander) ? NULL : "it was killed";
}

/* Whether a rank has ended, and if it is a child of this process wait for it. */
static bool is_over(pid_t rank)
{
    const char state = yokei_process_state(rank, NULL);
    return !state || state == 'Z' || waitpid(rank, NULL, WNOHANG) == rank;
}

/*
 * The agent is killed while yoke run is stopped, as on a machine that swaps. The rank ends with its agent.
 * Until yoke run goes on, the number stays the rank's, or nothing is sent to it.
 */
static const char *supervisor_that_is_late(void)
{
    pid_t rank, agent, bystander = -1;
    const pid_t job = start_job(false);
    if (!meet(job, 1, &rank, &agent)) return "the ranks did not start";
    const int process = hold_process(agent);
    kill(job, SIGSTOP);
    waitpid(job, NULL, WUNTRACED);
    signal_held(process, SIGKILL);
    let_go_of(process);
    const double until = yokei_now() + LIMIT_SECONDS;
    while (!is_over(rank) && yokei_now() < until) usleep(1000);
    waitpid(rank, NULL, WNOHANG);
    const int reason = start_bystander(rank, &bystander);
    kill(job, SIGCONT);
    end_job(job);
    if (reason == EEXIST) return NULL;
    if (reason) return strerror(reason);
    return end_bystander(bystander) ? NULL : "it was killed";
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name, *launcher;
        const char *(*run)(void);
    } trials[] = {
        { "a rank that ends before the others", "own", rank_that_leaves },
        { "a rank that ends before the others, under mpiexec", "hydra", rank_that_leaves },
        { "a rank that ends, and later its agent is killed", "own", agent_that_is_lost },
        { "a rank that ends, and later its agent is killed, under mpiexec", "hydra", agent_that_is_lost },
        { "a rank that ends with its agent while yoke run is stopped", "own", supervisor_that_is_late },
    };
    const int n = (int)(sizeof trials / sizeof trials[0]);
    int bad = 0;
    if (argc < 2) return 99;
    yoke = argv[1];
    const int reason = may_not();
    if (reason) {
        printf(
            "ok 1 - process numbers that come back # SKIP the kernel gives no chosen number (%s); this takes Linux 5.5 "
            "and CAP_CHECKPOINT_RESTORE, which root has\n1..1\n",
            strerror(reason));
        return 0;
    }
    make_folder(folder, sizeof folder, "yoke-reuse");
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* what nobody else waits for comes here, whatever process 1 does */
    printf("1..%d\n", n);
    for (int i = 0; i < n; i++) {
        setenv("YOKE_LAUNCHER", trials[i].launcher, 1);
        const char *why = trials[i].run();
        printf("%sok %d - %s: the next process with its number lives%s%s\n", why ? "not " : "", i + 1,
               trials[i].name, why ? "; " : "", why ? why : "");
        fflush(stdout);
        bad += why != NULL;
        empty_folder();
    }
    rmdir(folder);
    return bad != 0;
}
