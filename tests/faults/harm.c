/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Harms a job at random moments, and checks how `yoke run` reports it:
 *   harm YOKE VICTIM kill|stop|agent|holder|proxy|launcher|supervisor TRIALS [SEED]
 *   with_hosts N -- harm YOKE VICTIM the same|link|host TRIALS [SEED]
 * With with_hosts the ranks are on N hosts. `link` cuts a link between hosts, and `host` kills a host. Each
 * trial starts VICTIM on a few ranks under `yoke run`, and harms one process. It checks that
 * - the exit code is right;
 * - one line names the right rank, and the other ranks say the same if they can;
 * - everything ends in time;
 * - no process and no file in /dev/shm is left.
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
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/times.h"
#include "tests/faults/processes.h"
#include "tests/faults/shared_files.h"

#define MAX_RANKS 8
#define MAX_HOSTS 3
/* far above the documented limits, so that a busy machine is no failure, but a hang is */
#define LIMIT_SECONDS 200.0

struct trial {
    const char *yoke, *victim, *harm;
    int n_ranks, at_rank, n_hosts; /* n_hosts 0: this host */
    double delay;                  /* seconds from the time when all ranks have printed their process ids */
    pid_t job, pids[MAX_RANKS];
    int out, err;
    char text[8192]; /* stderr */
    int code;        /* exit status, as from waitpid */
    double seconds;  /* seconds from the harm to the end */
    double harmed,
        noticed;      /* time of the harm; seconds until the last of the other ranks returned an error */
    bool begun;       /* all ranks were in their collectives */
    char tag[64];     /* a tag in the environment of all processes of the trial */
    char folder[256]; /* the run directory, for several hosts */
};

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
    t->job = fork_or_exit();
    if (t->job == 0) {
        setenv("HARM_TEST_TAG", t->tag, 1);
        setenv("YOKE_STALL_MS", "1000", 1); /* MPI's start gives up a stopped rank after this time */
        if (t->n_hosts) setenv("VICTIM_FOLDER", t->folder, 1);
        dup2(out[1], 1);
        dup2(err[1], 2);
        close(out[0]);
        close(err[0]);
        if (t->n_hosts)
            execl(t->yoke, t->yoke, "run", "-n", n, "--grace", "10s", "--hosts",
                  t->n_hosts == 2 ? "host1,host2" : "host1,host2,host3", "--run-dir", t->folder, "--",
                  t->victim, (char *)NULL);
        execl(t->yoke, t->yoke, "run", "-n", n, "--grace", "10s", "--", t->victim, (char *)NULL);
        _exit(127);
    }
    close(out[1]);
    close(err[1]);
    t->out = out[0];
    t->err = err[0];
}

/* Read "rank R pid P" of all ranks. Returns false if the job ends before, or takes too long. */
static bool meet(struct trial *t)
{
    char text[4096];
    size_t used = 0;
    double until = yokei_now() + LIMIT_SECONDS;
    while (yokei_now() < until && used + 1 < sizeof text) {
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

static int has_bytes(int pid, const char *file, const char *bytes, size_t n)
{
    char path[64], found[65536];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, file);
    const int fd = open(path, O_RDONLY);
    const ssize_t length = fd >= 0 ? read(fd, found, sizeof found) : 0; /* the text of a zombie is empty */
    if (fd >= 0) close(fd);
    return length > 0 && memmem(found, (size_t)length, bytes, n) != NULL;
}

static int has_text(int pid, const char *file, const char *text)
{
    return has_bytes(pid, file, text, strlen(text));
}

/*
 * The first process of each host, which takes the host along when it ends. After that its number may be
 * another process's. So the test opens what it needs of the host at the beginning. While the descriptor of
 * the namespace is open, no other namespace has the same number.
 */
static struct {
    pid_t pid;
    int process, names; /* descriptors of the process and of its namespace of process numbers */
} hosts[MAX_HOSTS + 1];

static pid_t host_pid(int host) { return hosts[host].pid; }

static bool open_host(int host)
{
    char path[300];
    int pid = -1;
    snprintf(path, sizeof path, "%s/host%d.pid", getenv("TEST_HOSTS_DIR"), host);
    FILE *from = fopen(path, "r");
    if (!from) return false;
    if (fscanf(from, "%d", &pid) != 1) pid = -1;
    fclose(from);
    hosts[host].pid = pid;
    hosts[host].process = hold_process(pid);
    snprintf(path, sizeof path, "/proc/%d/ns/pid", pid);
    hosts[host].names = open(path, O_RDONLY);
    snprintf(path, sizeof path, "%s/host%d", getenv("TEST_HOSTS_DIR"), host);
    if (hosts[host].process < 0 || hosts[host].names < 0 || !has_text(pid, "cmdline", path)) {
        printf("# host%d has ended already\n", host);
        exit(99);
    }
    return true;
}

/* Whether a process is in a host, and is not the host's first process. */
static int is_in(int pid, int host)
{
    char path[64], first[64];
    struct stat its, the_hosts;
    snprintf(path, sizeof path, "/proc/%d/ns/pid", pid);
    if (stat(path, &its) || fstat(hosts[host].names, &the_hosts) || its.st_ino != the_hosts.st_ino
        || its.st_dev != the_hosts.st_dev)
        return 0;
    snprintf(first, sizeof first, "NSpid:\t%d\t1\n", pid);
    return !has_text(pid, "status", first);
}

/* A process that `wanted` accepts; -1 if there is none. */
static pid_t find(const struct trial *t, int (*wanted)(const struct trial *t, int pid))
{
    DIR *dir = opendir("/proc");
    pid_t found = -1;
    for (struct dirent *e; dir && found < 0 && (e = readdir(dir));)
        if (atoi(e->d_name) > 0 && wanted(t, atoi(e->d_name))) found = atoi(e->d_name);
    if (dir) closedir(dir);
    return found;
}

/*
 * Whether `pid` is the rank to harm. The rank printed its process id as its own host counts. The status of a
 * process has its ids from outside to inside.
 */
static int is_rank(const struct trial *t, int pid)
{
    char numbers[64], rank[32]; /* process ids of different hosts may be equal */
    const int length = snprintf(rank, sizeof rank, "PMI_RANK=%d", t->at_rank) + 1;
    snprintf(numbers, sizeof numbers, "NSpid:\t%d\t%d\n", pid, (int)t->pids[t->at_rank]);
    return has_text(pid, "status", numbers) && has_text(pid, "environ", t->tag)
           && has_bytes(pid, "environ", rank, (size_t)length);
}

static int is_launcher(const struct trial *t, int pid)
{
    return parent_of(pid) == t->job && has_text(pid, "cmdline", "mpiexec");
}

/* Ranks are placed in blocks. */
static int host_of(const struct trial *t, int rank)
{
    return 1 + rank / ((t->n_ranks + t->n_hosts - 1) / t->n_hosts);
}

/*
 * In the build folder the program yoke is a libtool script. But the script ends in exec, so the process is
 * the same.
 */
static pid_t target(const struct trial *t)
{
    if (t->n_hosts && !strcmp(t->harm, "launcher")) return find(t, is_launcher);
    if (!strcmp(t->harm, "host") || !strcmp(t->harm, "link")) return host_pid(host_of(t, t->at_rank));
    pid_t rank = t->n_hosts ? find(t, is_rank) : t->pids[t->at_rank];
    if (rank <= 1 || !has_text(rank, "environ", t->tag)) return -1;
    if (!strcmp(t->harm, "agent")) return parent_of(rank);
    /* the process that the launcher's proxy on this host started */
    const pid_t holder = parent_of(parent_of(rank));
    if (!strcmp(t->harm, "holder")) return holder;
    if (!strcmp(t->harm, "proxy")) return parent_of(holder);
    if (!strcmp(t->harm, "launcher")) return parent_of(parent_of(holder));
    if (!strcmp(t->harm, "supervisor")) return t->job;
    return rank;
}

static void read_errors(struct trial *t, double until)
{
    size_t used = 0;
    while (used + 1 < sizeof t->text && yokei_now() < until) {
        struct pollfd wait = { .fd = t->err, .events = POLLIN };
        if (poll(&wait, 1, 100) != 1) continue;
        ssize_t n = read(t->err, t->text + used, sizeof t->text - 1 - used);
        if (n <= 0) break;
        used += (size_t)n;
    }
    t->text[used] = 0;
}

/* Harm the process. Returns its number; -1: it was not found. */
static pid_t harm(const struct trial *t)
{
    if (!strcmp(t->harm, "link")) return target(t);
    const pid_t whom = target(t);
    const bool host = !strcmp(t->harm, "host");
    const int process = host ? hosts[host_of(t, t->at_rank)].process : hold_process(whom);
    /* Look again: it may have ended before the descriptor was opened. */
    const bool found = process >= 0 && (host || target(t) == whom);
    if (found) signal_held(process, strcmp(t->harm, "stop") ? SIGKILL : SIGSTOP);
    if (!host) let_go_of(process);
    return found ? whom : -1;
}

/*
 * The number of processes that have the trial's tag. Zombies are left out, because in a container it may be
 * that no process reaps them.
 */
static int left_over(const struct trial *t, bool end_them)
{
    DIR *dir = opendir("/proc");
    int n = 0;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        int pid = atoi(e->d_name), theirs = 0;
        if (pid <= 0 || pid == getpid()) continue;
        const int process = hold_process(pid);
        for (int h = 1; h <= t->n_hosts; h++) theirs |= is_in(pid, h) && has_text(pid, "cmdline", "");
        theirs |= has_text(pid, "environ", t->tag);
        if (theirs && end_them) signal_held(process, SIGKILL);
        let_go_of(process);
        n += theirs;
    }
    if (dir) closedir(dir);
    return n;
}

static int shared_files(const struct trial *t, bool show)
{
    char path[64];
    int n = count_shared_files("/dev/shm", show);
    for (int h = 1; h <= t->n_hosts; h++) {
        struct pollfd ended = { .fd = hosts[h].process, .events = POLLIN };
        if (poll(&ended, 1, 0)) continue; /* its files went with it */
        snprintf(path, sizeof path, "/proc/%d/root/dev/shm", (int)host_pid(h));
        n += count_shared_files(path, show);
    }
    return n;
}

static int count(const char *text, const char *word)
{
    int n = 0;
    for (const char *p = text; (p = strstr(p, word)); p += strlen(word)) n++;
    return n;
}

/* Read the file that rank r left. Returns false if there is none. */
static int word_of(const struct trial *t, const char *name, int r, double *when_out, char *text, size_t bytes)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s-%d", t->folder, name, r);
    FILE *from = fopen(path, "r");
    if (!from) return 0;
    text[0] = 0;
    const int n = fscanf(from, "%lf ", when_out);
    if (n == 1 && !fgets(text, (int)bytes, from)) text[0] = 0;
    fclose(from);
    return n == 1;
}

static void wait_until_begun(const struct trial *t)
{
    double when;
    char text[8];
    const double until = yokei_now() + LIMIT_SECONDS;
    for (int r = 0; r < t->n_ranks && yokei_now() < until; r++)
        while (!word_of(t, "begun", r, &when, text, sizeof text) && yokei_now() < until) usleep(5000);
}

/*
 * Check the other ranks, if they were in a collective: each must have returned in time an error that names
 * the rank and the call.
 */
static const char *judge_others(struct trial *t)
{
    static char why[1400];
    const bool cut = !strcmp(t->harm, "link") || !strcmp(t->harm, "host");
    /* The times that are promised are checked in the soak, on a quiet machine. Here only a hang is found. */
    const double limit = !getenv("YOKE_SOAK") ? 100 : !strcmp(t->harm, "kill") ? 8 : 16;
    char name[64], text[1024];
    snprintf(name, sizeof name, "rank %d (host ", t->at_rank);
    for (int r = 0; r < t->n_ranks; r++) {
        double when = 0;
        if (r == t->at_rank || (!strcmp(t->harm, "host") && host_of(t, r) == host_of(t, t->at_rank)))
            continue;
        if (!word_of(t, "said", r, &when, text, sizeof text))
            return snprintf(why, sizeof why, "rank %d said nothing", r), why;
        t->noticed = when - t->harmed > t->noticed ? when - t->harmed : t->noticed;
        if (!strstr(text, cut ? " (host host" : name) || !strstr(text, "all_reduce #"))
            return snprintf(why, sizeof why, "rank %d said: %s", r, text), why;
    }
    return t->noticed > limit ? "the others noticed too late" : NULL;
}

static void remove_folder(const char *folder)
{
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && (e = readdir(dir));)
        if (e->d_name[0] != '.') unlinkat(dirfd(dir), e->d_name, 0);
    if (dir) closedir(dir);
    rmdir(folder);
}

/* What is wrong with the end of the trial; NULL: nothing. */
static const char *judge(struct trial *t, int shared_before)
{
    static char why[256];
    char name[64];
    bool supervisor = !strcmp(t->harm, "supervisor");
    double until = yokei_now() + 60;
    while (left_over(t, false) && yokei_now() < until) usleep(20000);
    int left = left_over(t, true);
    snprintf(name, sizeof name, "rank %d (", t->at_rank);
    if (left) return snprintf(why, sizeof why, "%d processes are left", left), why;
    for (until = yokei_now() + 60; shared_files(t, false) > shared_before && yokei_now() < until;)
        usleep(50000);
    if (shared_files(t, true) > shared_before) return "files are left in /dev/shm";
    if (supervisor) return NULL; /* the supervisor was killed, so no process can report anything */
    const bool cut = !strcmp(t->harm, "link") || !strcmp(t->harm, "host");
    const char *others = t->begun && (cut || !strcmp(t->harm, "kill") || !strcmp(t->harm, "stop"))
                             ? judge_others(t)
                             : NULL;
    if (others) return others;
    if (cut && WIFEXITED(t->code) && (WEXITSTATUS(t->code) == 15 || WEXITSTATUS(t->code) == 16)
        && count(t->text, "yoke: error:") == 1)
        return NULL;
    if (!WIFEXITED(t->code) || WEXITSTATUS(t->code) != 16)
        return snprintf(why, sizeof why, "exit code %d, wanted 16",
                        WIFEXITED(t->code) ? WEXITSTATUS(t->code) : -1),
               why;
    if (count(t->text, "yoke: error:") != 1) return "not exactly one error";
    if (!strcmp(t->harm, "launcher") || !strcmp(t->harm, "proxy") || !strcmp(t->harm, "holder"))
        return strstr(t->text, "the launcher") ? NULL : "the launcher is not named";
    if (!strstr(t->text, name)) return "the rank is not named";
    if (!strcmp(t->harm, "kill") && !strstr(t->text, "signal 9")) return "the signal is not named";
    if (!strcmp(t->harm, "stop") && !strstr(t->text, "stopped")) return "that it was stopped is not said";
    return NULL;
}

static void run(struct trial *t, int number)
{
    int shared_before = shared_files(t, false);
    if (t->n_hosts) make_folder(t->folder, sizeof t->folder, "yoke-harm");
    snprintf(t->tag, sizeof t->tag, "harm-%d-%d-%ld", (int)getpid(), number, (long)time(NULL));
    start(t);
    bool met = meet(t);
    t->begun = t->n_hosts && t->delay >= 0.1;
    if (met && t->begun) wait_until_begun(t);
    usleep((useconds_t)(t->delay * 1e6));
    double begin = t->harmed = yokei_now();
    const bool cut = !strcmp(t->harm, "link") || !strcmp(t->harm, "host");
    char link[64];
    snprintf(link, sizeof link, "ip link set h%d ", t->n_hosts ? host_of(t, t->at_rank) : 0);
    const bool down = !cut || !system(strcat(link, "down"));
    pid_t whom = met && down ? harm(t) : -1;
    read_errors(t, begin + LIMIT_SECONDS);
    t->seconds = yokei_now() - begin;
    bool late = t->seconds >= LIMIT_SECONDS;
    if (late) kill(t->job, SIGKILL);
    waitpid(t->job, &t->code, 0);
    snprintf(link, sizeof link, "ip link set h%d up", t->n_hosts ? host_of(t, t->at_rank) : 0);
    if (!strcmp(t->harm, "link") && system(link)) whom = -1;
    const char *why = !met        ? "the ranks did not start"
                      : whom <= 1 ? "the process to harm was not found"
                                  : judge(t, shared_before);
    if (late) why = "it did not end in time";
    char noticed[64] = "";
    if (t->begun && t->noticed > 0)
        snprintf(noticed, sizeof noticed, ", the last of the others knew after %.2f s", t->noticed);
    printf("%s %d - %s rank %d of %d%s after %.0f ms: %.2f s%s%s%s\n", why ? "not ok" : "ok", number, t->harm,
           t->at_rank, t->n_ranks, t->n_hosts ? " on several hosts" : "", t->delay * 1e3, t->seconds, noticed,
           why ? ", " : "", why ? why : "");
    if (why) printf("# code %d, stderr: %s\n", t->code, t->text);
    fflush(stdout);
    close(t->out);
    close(t->err);
    if (t->n_hosts) remove_folder(t->folder);
}

int main(int argc, char **argv)
{
    if (argc < 5) return 99;
    if (!getenv("TEST_HOSTS_DIR")) have_own_shared_memory();
    int trials = atoi(argv[4]), n_hosts = 0;
    while (getenv("TEST_HOSTS_DIR") && n_hosts < MAX_HOSTS && open_host(n_hosts + 1)) n_hosts++;
    state = argc > 5 ? (uint32_t)atol(argv[5]) : (uint32_t)time(NULL) | 1;
    printf("# %s: seed %u\n1..%d\n", argv[3], state, trials);
    for (int i = 1; i <= trials; i++) {
        struct trial t = { .yoke = argv[1], .victim = argv[2], .harm = argv[3] };
        t.n_hosts = n_hosts;
        t.n_ranks = (t.n_hosts ? t.n_hosts : 2) + (int)draw(3);
        t.at_rank = (int)draw((uint32_t)t.n_ranks);
        t.delay = draw(4) ? 0.1 + 1e-3 * draw(600)
                          : 1e-3 * draw(80); /* a quarter of the trials harm the job while MPI starts */
        /*
         * A link that breaks while MPI starts is waited for --start-seconds long; tests/hosts/cut tests this.
         */
        if (!strcmp(t.harm, "link")) t.delay += 1;
        run(&t, i);
    }
    return 0;
}
