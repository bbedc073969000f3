/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kills a rank of a job that was started by a bare mpiexec, without `yoke run`, at a random moment. The
 * launcher then kills the other ranks at once, and only the flight records are left. (A flight record is a
 * file in which a rank notes what it does.) `yoke trace` must name the killed rank and what it did.
 *   bare YOKE VICTIM TRIALS [SEED]
 * In half of the trials rank 0 computes while the others wait for it, whichever rank is killed. A trial fails
 * if `yoke trace` names another rank, or if the killed rank is not among the candidates. If no other rank
 * sees the end before it is killed itself, there are several candidates. This may happen in at most a quarter
 * of the trials. Prints TAP.
 */
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collectives/flight/flight.h"
#include "core/base/base.h"
#include "core/base/times.h"
#include "tests/faults/processes.h"

enum { MOST_RANKS = 4 };
#define LIMIT_SECONDS 300.0

struct trial {
    const char *yoke, *victim, *ms;
    char folder[256];
    int n_ranks, at_rank, pids[MOST_RANKS];
    pid_t job;
    uint64_t started[MOST_RANKS]; /* when the ranks started, which tells them from later processes */
};

static uint32_t state = 1;
static uint32_t draw(uint32_t below)
{
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state % below;
}

static void start(struct trial *t)
{
    char n[16];
    const char *mpiexec = getenv("MPIEXEC");
    snprintf(n, sizeof n, "%d", t->n_ranks);
    t->job = fork_or_exit();
    if (t->job) return;
    setenv("YOKE_RUN_DIR", t->folder, 1);
    setenv("UCX_TLS", "posix,sysv,self", 0);
    const int null = open("/dev/null", O_RDWR);
    dup2(null, 0), dup2(null, 1), dup2(null, 2);
    setpgid(0, 0);
    execlp(mpiexec ? mpiexec : "mpiexec.mpich", "mpiexec", "-n", n, t->victim, "-1", t->ms, (char *)NULL);
    _exit(127);
}

/* All ranks have done some operations; their process ids are in their records. */
static bool are_busy(struct trial *t)
{
    for (const double until = yokei_now() + LIMIT_SECONDS; yokei_now() < until; usleep(5000)) {
        int n = 0;
        for (int r = 0; r < t->n_ranks; r++) {
            char path[300], name[32];
            struct yokei_flight_file *file;
            yokei_flight_name(r, name, sizeof name);
            snprintf(path, sizeof path, "%s/%s", t->folder, name);
            if (yokei_flight_read(path, &file)) continue;
            t->pids[r] = file->pid;
            t->started[r] = file->start_time;
            /* The rank's own operations, not those of its start. */
            n += atomic_load(&file->n_comms) && atomic_load(&file->n_operations) > 10;
            free(file);
        }
        if (n == t->n_ranks) return true;
    }
    return false;
}

static bool end_job(const struct trial *t)
{
    for (const double until = yokei_now() + LIMIT_SECONDS; yokei_now() < until; usleep(5000))
        if (waitpid(t->job, NULL, WNOHANG) == t->job) return true;
    kill(-t->job, SIGKILL);
    waitpid(t->job, NULL, 0);
    return false;
}

static json_t *ask(const struct trial *t)
{
    char command[512];
    snprintf(command, sizeof command, "%s trace --json %s", t->yoke, t->folder);
    FILE *from = popen(command, "r");
    json_t *root = from ? json_loadf(from, 0, NULL) : NULL;
    const int code = from ? pclose(from) : -1;
    if (!code) return root;
    json_decref(root);
    return NULL;
}

/* What is wrong with the answer; NULL: nothing. *sure_out: the answer names only one rank. */
static const char *judge(const struct trial *t, const json_t *root, bool *sure_out, const char **text_out)
{
    const json_t *culprit = json_object_get(root, "culprit"),
                 *candidates = json_object_get(culprit, "candidates");
    const json_t *named = json_object_get(culprit, "rank");
    bool among = false;
    *text_out = json_string_value(json_object_get(culprit, "text"));
    if (!*text_out || !json_is_array(candidates)) return "there is no answer";
    for (size_t i = 0; i < json_array_size(candidates); i++)
        among |= json_integer_value(json_array_get(candidates, i)) == t->at_rank;
    *sure_out = json_array_size(candidates) == 1;
    if (!among) return "the rank is not named";
    if (*sure_out && (!json_is_integer(named) || json_integer_value(named) != t->at_rank))
        return "another rank is named";
    /*
     * If several ranks are candidates and no rank waited, all were between two collectives. Then there is no
     * rank to be named.
     */
    if (!*sure_out && !strstr(*text_out, "likeliest")) return NULL;
    return strstr(*text_out, "all_reduce #") ? NULL : "the collective is not named";
}

static bool run(struct trial *t, int number)
{
    const char *why = NULL, *text = "";
    bool sure = false;
    make_folder(t->folder, sizeof t->folder, "yoke-bare");
    start(t);
    const bool busy = are_busy(t);
    usleep(draw(100000));
    if (!busy)
        why = "the ranks did not start";
    else
        signal_started(t->pids[t->at_rank], t->started[t->at_rank], SIGKILL);
    if (!end_job(t) && !why) why = "the launcher did not end";
    json_t *root = why ? NULL : ask(t);
    if (!why) why = root ? judge(t, root, &sure, &text) : "yoke trace failed";
    printf("%sok %d - rank %d of %d killed%s: %s%s%s\n", why ? "not " : "", number, t->at_rank, t->n_ranks,
           t->ms ? " while rank 0 computes much" : "", sure ? "named" : "among the candidates",
           why ? "; " : "", why ? why : "");
    if (why || !sure) printf("# %s\n", text);
    fflush(stdout);
    json_decref(root);
    char command[300];
    snprintf(command, sizeof command, "rm -rf %s", t->folder);
    if (system(command)) exit(99);
    return sure && !why;
}

int main(int argc, char **argv)
{
    if (argc < 4) return 99;
    const int trials = atoi(argv[3]);
    int n_sure = 0;
    state = argc > 4 ? (uint32_t)atol(argv[4]) : (uint32_t)yokei_now_ns() | 1;
    printf("# bare: seed %u\n1..%d\n", state, trials + 1);
    for (int i = 1; i <= trials; i++) {
        struct trial t = { .yoke = argv[1], .victim = argv[2], .ms = i % 2 ? NULL : "5" };
        t.n_ranks = 2 + (int)draw(MOST_RANKS - 1);
        t.at_rank = (int)draw((uint32_t)t.n_ranks);
        n_sure += run(&t, i);
    }
    printf("%sok %d - %d of %d named for certain\n", 4 * n_sure >= 3 * trials ? "" : "not ", trials + 1,
           n_sure, trials);
    return 4 * n_sure < 3 * trials;
}
