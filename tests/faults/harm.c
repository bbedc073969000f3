/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Harm a job at random moments and see what `yoke run` makes of it:
 *   harm YOKE VICTIM kill|stop|agent|holder|proxy|launcher|supervisor TRIALS [SEED]
 * Each trial starts VICTIM on a few ranks under `yoke run`, harms one process, and asserts: the exit code, that the right
 * rank is named and in one line, that all ends in time, and that neither a process nor a file in /dev/shm is left.
 * Prints TAP.
 */
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/job_dir.h"

#define MAX_RANKS 8
#define LIMIT_SECONDS 40.0 /* far above what is promised: a loaded machine is no failure, a hang is */

struct trial {
    const char *yoke, *victim, *harm;
    int n_ranks, at_rank;
    double delay; /* after all ranks said who they are */
    pid_t job, pids[MAX_RANKS];
    int out, err;
    char text[8192]; /* stderr */
    int code;        /* as waitpid gives it */
    double seconds;  /* from the harm to the end */
    char tag[64];    /* in the environment of all its processes */
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint32_t state = 1;
static uint32_t draw(uint32_t below) /* xorshift32: the seed is printed, so a trial can be repeated */
{
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state % below;
}

static void start(struct trial *t)
{
    int out[2], err[2];
    char n[16];
    snprintf(n, sizeof n, "%d", t->n_ranks);
    if (pipe(out) || pipe(err)) exit(99);
    t->job = fork();
    if (t->job == 0) {
        setenv("HARM_TEST_TAG", t->tag, 1);
        setenv("YOKE_STALL_MS", "1000", 1); /* a rank stopped while MPI starts is given up after that */
        dup2(out[1], 1);
        dup2(err[1], 2);
        close(out[0]);
        close(err[0]);
        execl(t->yoke, t->yoke, "run", "-n", n, "--grace", "10s", "--", t->victim, (char *)NULL);
        _exit(127);
    }
    close(out[1]);
    close(err[1]);
    t->out = out[0];
    t->err = err[0];
}

/* Read "rank R pid P" of all ranks; false when the job ends or takes too long before. */
static bool meet(struct trial *t)
{
    char text[4096];
    size_t used = 0;
    double until = now() + LIMIT_SECONDS;
    while (now() < until && used + 1 < sizeof text) {
        struct pollfd wait = { .fd = t->out, .events = POLLIN };
        if (poll(&wait, 1, 100) != 1) continue;
        ssize_t n = read(t->out, text + used, sizeof text - 1 - used);
        if (n <= 0) return false;
        used += (size_t)n;
        text[used] = 0;
        int seen = 0, rank, pid;
        for (const char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
            if (sscanf(line, "rank %d pid %d", &rank, &pid) != 2 || rank < 0 || rank >= t->n_ranks) continue;
            t->pids[rank] = pid;
            seen++;
        }
        if (seen == t->n_ranks) return true;
    }
    return false;
}

static pid_t parent_of(pid_t pid)
{
    char path[64], text[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *from = fopen(path, "r");
    if (!from) return -1;
    char *got = fgets(text, sizeof text, from);
    fclose(from);
    const char *after = got ? strrchr(text, ')') : NULL;
    int parent = -1;
    if (after) sscanf(after + 1, " %*c %d", &parent);
    return parent;
}

/* The program yoke is a script of libtool's in the build folder, but it ends in exec: the process is the same. */
static pid_t target(const struct trial *t)
{
    pid_t rank = t->pids[t->at_rank];
    if (!strcmp(t->harm, "agent")) return parent_of(rank);
    const pid_t holder = parent_of(parent_of(rank)); /* what the launcher's proxy on this host started */
    if (!strcmp(t->harm, "holder")) return holder;
    if (!strcmp(t->harm, "proxy")) return parent_of(holder);
    if (!strcmp(t->harm, "launcher")) return parent_of(parent_of(holder));
    if (!strcmp(t->harm, "supervisor")) return t->job;
    return rank;
}

static void read_errors(struct trial *t, double until)
{
    size_t used = 0;
    while (used + 1 < sizeof t->text && now() < until) {
        struct pollfd wait = { .fd = t->err, .events = POLLIN };
        if (poll(&wait, 1, 100) != 1) continue;
        ssize_t n = read(t->err, t->text + used, sizeof t->text - 1 - used);
        if (n <= 0) break;
        used += (size_t)n;
    }
    t->text[used] = 0;
}

/* Processes that carry the trial's tag, zombies left out: in a container nobody may collect them. */
static int left_over(const struct trial *t, bool end_them)
{
    DIR *dir = opendir("/proc");
    int n = 0;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char path[300], text[65536];
        int pid = atoi(e->d_name);
        if (pid <= 0 || pid == getpid()) continue;
        snprintf(path, sizeof path, "/proc/%d/environ", pid);
        int fd = open(path, O_RDONLY);
        if (fd < 0) continue;
        ssize_t length = read(fd, text, sizeof text - 1); /* a zombie's is empty */
        close(fd);
        if (length <= 0 || !memmem(text, (size_t)length, t->tag, strlen(t->tag))) continue;
        n++;
        if (end_them) kill(pid, SIGKILL);
    }
    if (dir) closedir(dir);
    return n;
}

/* Files of shared memory that no process holds: those of other jobs on this machine are held by their ranks. */
static int shared_files(void)
{
    DIR *dir = opendir("/dev/shm");
    int n = 0;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char path[300];
        if (!strstr(e->d_name, "mpich") && !strstr(e->d_name, "ucx") && !strstr(e->d_name, "yoke")) continue;
        snprintf(path, sizeof path, "/dev/shm/%s", e->d_name);
        n += !cli_shared_memory_in_use(path);
    }
    if (dir) closedir(dir);
    return n;
}

static int count(const char *text, const char *word)
{
    int n = 0;
    for (const char *p = text; (p = strstr(p, word)); p += strlen(word)) n++;
    return n;
}

/* What is wrong with how the trial ended; NULL when nothing is. */
static const char *judge(struct trial *t, int shared_before)
{
    static char why[256];
    char name[64];
    bool supervisor = !strcmp(t->harm, "supervisor");
    double until = now() + 5;
    while (left_over(t, false) && now() < until) usleep(20000);
    int left = left_over(t, true);
    snprintf(name, sizeof name, "rank %d (", t->at_rank);
    if (left) return snprintf(why, sizeof why, "%d processes are left", left), why;
    for (until = now() + 2; shared_files() > shared_before && now() < until;) usleep(50000);
    if (shared_files() > shared_before) return "files are left in /dev/shm";
    if (supervisor) return NULL; /* it was killed: there is nobody to say anything */
    if (!WIFEXITED(t->code) || WEXITSTATUS(t->code) != 16)
        return snprintf(why, sizeof why, "exit code %d, wanted 16", WIFEXITED(t->code) ? WEXITSTATUS(t->code) : -1), why;
    if (count(t->text, "yoke: error:") != 1) return "not exactly one error";
    if (!strcmp(t->harm, "launcher") || !strcmp(t->harm, "proxy") || !strcmp(t->harm, "holder")) return strstr(t->text, "the launcher") ? NULL : "the launcher is not named";
    if (!strstr(t->text, name)) return "the rank is not named";
    if (!strcmp(t->harm, "kill") && !strstr(t->text, "signal 9")) return "the signal is not named";
    if (!strcmp(t->harm, "stop") && !strstr(t->text, "stopped")) return "that it was stopped is not said";
    return NULL;
}

static void run(struct trial *t, int number)
{
    int shared_before = shared_files();
    snprintf(t->tag, sizeof t->tag, "harm-%d-%d-%ld", (int)getpid(), number, (long)time(NULL));
    start(t);
    bool met = meet(t);
    usleep((useconds_t)(t->delay * 1e6));
    pid_t whom = met ? target(t) : -1;
    double begin = now();
    if (whom > 1) kill(whom, strcmp(t->harm, "stop") ? SIGKILL : SIGSTOP);
    read_errors(t, begin + LIMIT_SECONDS);
    t->seconds = now() - begin;
    bool late = t->seconds >= LIMIT_SECONDS;
    if (late) kill(t->job, SIGKILL);
    waitpid(t->job, &t->code, 0);
    const char *why = !met ? "the ranks did not start" : whom <= 1 ? "the process to harm was not found" : judge(t, shared_before);
    if (late) why = "it did not end in time";
    printf("%s %d - %s rank %d of %d after %.0f ms: %.2f s%s%s\n", why ? "not ok" : "ok", number, t->harm, t->at_rank, t->n_ranks, t->delay * 1e3,
           t->seconds, why ? ", " : "", why ? why : "");
    if (why) printf("# code %d, stderr: %s\n", t->code, t->text);
    fflush(stdout);
    close(t->out);
    close(t->err);
}

int main(int argc, char **argv)
{
    if (argc < 5) return 99;
    int trials = atoi(argv[4]);
    state = argc > 5 ? (uint32_t)atol(argv[5]) : (uint32_t)time(NULL) | 1;
    printf("# %s: seed %u\n1..%d\n", argv[3], state, trials);
    for (int i = 1; i <= trials; i++) {
        struct trial t = { .yoke = argv[1], .victim = argv[2], .harm = argv[3] };
        t.n_ranks = 2 + (int)draw(3);
        t.at_rank = (int)draw((uint32_t)t.n_ranks);
        t.delay = draw(4) ? 0.1 + 1e-3 * draw(600) : 1e-3 * draw(80); /* a quarter of them while MPI starts */
        run(&t, i);
    }
    return 0;
}
