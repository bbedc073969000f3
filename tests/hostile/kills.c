/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kills and stops ranks of a small training run, in all phases of its life: start, creation of communicators,
 * steps, saves, and end.
 *   kills YOKE KILLS STOPS [SEED]
 * Each trial starts `yoke run -n 3 (or 4) -- train`, waits until the run reaches a phase, and then waits for
 * a random part of the phase. Then it kills (SIGKILL) or stops (SIGSTOP) a random rank. It checks that
 * - the exit code is 16;
 * - there is one error, which names the rank and says whether it was killed or stopped;
 * - no process and no file in /dev/shm is left;
 * - the complete checkpoints are still complete;
 * - in some trials, --resume goes on to the same bits as a run without a fault.
 * Trials in which the rank had ended before the signal are counted separately. The test prints the times from
 * kill(2) to the name of the rank, to the end of the other ranks, and to the end of `yoke run`.
 * The rank must be named and the job must have ended within 0.5 s for a kill, and within 2 s for a stop.
 * These bounds hold if YOKE_SOAK is set and the machine is quiet. Otherwise the bounds are much longer, so
 * that a busy machine is not a failure, but a wait for a time limit is. KILLS_BOUNDS="0.5 2" sets the two
 * bounds. KILLS_PHASE=0 .. 4 harms only in this phase (0: start-up). Prints TAP.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collectives/flight/flight.h"
#include "core/base/base.h"
#include "core/base/times.h"
#include "tests/faults/processes.h"
#include "tests/faults/shared_files.h"

enum { MOST_RANKS = 4, STEPS = 6, SAVE_EVERY = 2, MOST_WORDS = 40 };
static const double LIMIT = 200, CLEAN_LIMIT = 60;

enum phase { STARTING, SETTING_UP, STEPPING, SAVING, REPORTING, N_PHASES };
static const char *const phase_names[] = { "start-up", "set-up", "steps", "saves", "report" };

/* A run of yoke: its folder (flight records, metrics), its checkpoints, its process, and its output. */
struct job {
    int n_ranks;
    char run[300], save[300], tag[64];
    pid_t pid;
    int err, code;
    char text[8192];
    size_t used;
    const struct yokei_flight_file *files[MOST_RANKS];
};

struct trial {
    enum phase phase;
    int signal, rank,
        after; /* after: number of saves that must be complete before the save in which the rank is harmed */
    /* In seconds. delay: from the begin of the phase; the others: from the signal, -1: it did not happen. */
    double delay, named, others, ended;
    bool apart; /* the rank had ended before the signal */
    int n_saved;
};

static char work[200];
static const char *yoke;
/* Seconds of each phase of a run without faults, by number of ranks; 0: not measured. */
static double reference[MOST_RANKS + 1][N_PHASES];
static int n_tests, n_failed, n_resumed;

static uint32_t state = 1;
static uint32_t draw(uint32_t below)
{
    state ^= state << 13, state ^= state >> 17, state ^= state << 5;
    return state % below;
}

static double draw_part(void) { return draw(10000) * 1e-4; }

/* ---- running yoke ---- */

/*
 * Start a command. Its stderr is read from *err_out; if err_out is NULL, stderr goes to this process's
 * stderr.
 */
static pid_t start(char *const words[], const char *tag, int *err_out)
{
    int fds[2] = { -1, -1 };
    if (err_out && pipe2(fds, O_CLOEXEC)) return -1;
    const pid_t pid = fork();
    if (pid == 0) {
        const int null = open("/dev/null", O_RDWR);
        dup2(null, 0), dup2(null, 1), dup2(err_out ? fds[1] : null, 2);
        setenv("KILLS_TAG", tag, 1);
        execv(words[0], words);
        _exit(127);
    }
    if (!err_out) return pid;
    close(fds[1]);
    *err_out = fds[0];
    fcntl(fds[0], F_SETFL, O_NONBLOCK);
    return pid;
}

static int run(char *const words[])
{
    int code = 0;
    const pid_t pid = start(words, "none", NULL);
    return pid > 0 && waitpid(pid, &code, 0) == pid && WIFEXITED(code) ? WEXITSTATUS(code) : -1;
}

/*
 * Start a training run on n_ranks ranks. `from`: the checkpoint from which it resumes, or NULL. Shares are
 * equal, so that all such runs have the same bits.
 */
static void start_training(struct job *j, int n_ranks, const char *name, const char *from)
{
    static int number;
    char n[8], shares[16], text[220], every[8], steps[8];
    j->n_ranks = n_ranks;
    j->used = 0;
    j->code = -1;
    snprintf(j->run, sizeof j->run, "%s/run-%s", work, name);
    snprintf(j->save, sizeof j->save, "%s/save-%s", work, name);
    snprintf(j->tag, sizeof j->tag, "kills-%d-%d-%lld", (int)getpid(), ++number, (long long)yokei_now_ns());
    snprintf(n, sizeof n, "%d", n_ranks);
    snprintf(shares, sizeof shares, "%s", n_ranks == 3 ? "4:4:4" : "3:3:3:3");
    snprintf(text, sizeof text, "%s/text", work);
    snprintf(every, sizeof every, "%d", SAVE_EVERY);
    snprintf(steps, sizeof steps, "%d", STEPS);
    char *words[MOST_WORDS] = { (char *)(uintptr_t)yoke,
                                "run",
                                "-n",
                                n,
                                "--devices",
                                "host",
                                "--bind",
                                "none",
                                "--",
                                "train",
                                "--run-dir",
                                j->run,
                                "--save",
                                j->save,
                                "--text",
                                text,
                                "--sample",
                                "0",
                                "--validation-tokens",
                                "100" };
    int at = 20;
    if (from)
        words[at++] = "--resume", words[at++] = (char *)(uintptr_t)from;
    else {
        char *more[] = { "--model", "nano",     "--batch", "12",           "--sequence", "8",      "--steps",
                         steps,     "--shares", shares,    "--save-every", every,        "--keep", "9" };
        memcpy(words + at, more, sizeof more);
    }
    j->pid = start(words, j->tag, &j->err);
}

static void read_errors(struct job *j)
{
    ssize_t n;
    while (j->used + 1 < sizeof j->text
           && (n = read(j->err, j->text + j->used, sizeof j->text - 1 - j->used)) > 0)
        j->used += (size_t)n;
    j->text[j->used] = '\0';
}

/* Whether the job's own process has ended. */
static bool has_ended(struct job *j)
{
    int code;
    if (j->pid <= 0) return true;
    if (waitpid(j->pid, &code, WNOHANG) != j->pid) return false;
    j->code = WIFEXITED(code) ? WEXITSTATUS(code) : 128 + WTERMSIG(code);
    j->pid = -1;
    read_errors(j);
    return true;
}

static void end_job(struct job *j)
{
    if (j->pid > 0) kill(j->pid, SIGKILL), waitpid(j->pid, NULL, 0);
    j->pid = -1;
    close(j->err);
    for (int r = 0; r < MOST_RANKS; r++) yokei_flight_close(j->files[r]);
    memset(j->files, 0, sizeof j->files);
}

/* ---- how far a run has come ---- */

static const struct yokei_flight_file *record(struct job *j, int r)
{
    if (!j->files[r]) yokei_flight_open(j->run, r, &j->files[r]);
    return j->files[r];
}

/* The process id of the rank, as its agent noted; 0: not started yet. */
static int pid_of(struct job *j, int r) { return record(j, r) ? yokei_flight_agent(j->files[r]).pid : 0; }

static int lines_of(const char *folder, const char *name)
{
    char path[600], text[4096];
    int n = 0;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    const int fd = open(path, O_RDONLY);
    for (ssize_t got; fd >= 0 && (got = read(fd, text, sizeof text)) > 0;)
        for (ssize_t i = 0; i < got; i++) n += text[i] == '\n';
    if (fd >= 0) close(fd);
    return n;
}

/*
 * The number of checkpoints in the folder that have their final names. *begun_out also counts those that are
 * being written.
 */
static int saved(const char *folder, bool *begun_out)
{
    int n = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        const bool temporary = strstr(e->d_name, ".tmp") != NULL;
        if (strncmp(e->d_name, "step-", 5)) continue;
        *begun_out |= temporary;
        n += !temporary;
    }
    if (dir) closedir(dir);
    return n;
}

static bool has_come(struct job *j, enum phase phase, int rank, int after)
{
    bool begun = false;
    if (phase == STARTING) return pid_of(j, rank) > 0;
    if (phase == SETTING_UP) return record(j, rank) && j->files[rank]->pid > 0;
    if (phase == STEPPING) return lines_of(j->run, "metrics.jsonl") > 0;
    if (phase == SAVING)
        return saved(j->save, &begun) > after || (saved(j->save, &begun) == after && (begun || after));
    return saved(j->save, &begun) >= STEPS / SAVE_EVERY;
}

/*
 * Measure the time of each phase, without a fault. Saves happen between steps; their phase has the time of
 * one save.
 */
static bool measure(struct job *j, double seconds[N_PHASES])
{
    double at[N_PHASES + 1] = { 0 }, first_saved = 0;
    const double until = yokei_now() + LIMIT;
    bool begun;
    for (int p = 0; yokei_now() < until;) {
        while (p < N_PHASES && has_come(j, (enum phase)p, 0, 0)) at[p++] = yokei_now();
        if (!first_saved && saved(j->save, &begun) > 0) first_saved = yokei_now();
        if (has_ended(j)) break;
        usleep(500);
    }
    at[N_PHASES] = yokei_now();
    for (int p = 0; p < N_PHASES; p++) seconds[p] = at[p + 1] - at[p];
    seconds[STEPPING] = at[REPORTING] - at[STEPPING];
    seconds[SAVING] = first_saved - at[SAVING];
    return j->code == 0;
}

/* ---- one trial ---- */

static bool names(const struct job *j, const struct trial *t)
{
    char name[32];
    snprintf(name, sizeof name, "rank %d (host ", t->rank);
    const char *how = t->signal == SIGKILL ? "signal 9" : "stopped", *at = j->text;
    while ((at = strstr(at, name))) {
        const char *end = strchr(at, '\n'), *found = strstr(at, how);
        if (found && (!end || found < end)) return true;
        at++;
    }
    return false;
}

static bool is_gone(int pid)
{
    const char s = yokei_process_state(pid, NULL);
    return !s || s == 'Z' || s == 'X';
}

static bool others_are_gone(const int pids[], int n, int but)
{
    for (int r = 0; r < n; r++) /* A rank whose process is not known yet may be starting. */
        if (r != but && (pids[r] <= 0 || !is_gone(pids[r]))) return false;
    return true;
}

/* Send the signal at the right time, and watch the consequences. */
static void harm(struct job *j, struct trial *t)
{
    bool begun = false;
    int pids[MOST_RANKS] = { 0 };
    const double until = yokei_now() + LIMIT;
    while (!has_come(j, t->phase, t->rank, t->after) && !has_ended(j) && yokei_now() < until) usleep(500);
    for (const double at = yokei_now() + t->delay; yokei_now() < at && !has_ended(j);) usleep(200);
    for (int r = 0; r < j->n_ranks; r++) pids[r] = pid_of(j, r);
    t->n_saved = saved(j->save, &begun);
    t->named = t->others = t->ended = -1;
    const int pid = pids[t->rank];
    t->apart = pid <= 0 || is_gone(pid);
    const double at = yokei_now();
    if (!t->apart) signal_started(pid, atomic_load(&j->files[t->rank]->rank_start), t->signal);
    while (yokei_now() - at < LIMIT) {
        for (int r = 0; r < j->n_ranks; r++) pids[r] = pids[r] > 0 ? pids[r] : pid_of(j, r);
        read_errors(j);
        if (t->named < 0 && names(j, t)) t->named = yokei_now() - at;
        if (t->others < 0 && others_are_gone(pids, j->n_ranks, t->rank)) t->others = yokei_now() - at;
        if (has_ended(j)) {
            t->ended = yokei_now() - at;
            if (t->named < 0 && names(j, t)) t->named = t->ended;
            if (t->others < 0 && others_are_gone(pids, j->n_ranks, t->rank)) t->others = t->ended;
            break;
        }
        usleep(1000);
    }
    /* The rank may have ended between the check and the signal. */
    const struct yokei_agent_verdict last = j->files[t->rank] ? yokei_flight_agent(j->files[t->rank])
                                                              : (struct yokei_agent_verdict){ 0 };
    t->apart |= j->code == 0 && last.state == YOKEI_AGENT_DEAD && !last.signal && !last.exit_code;
}

/* The number of processes that have the tag. It ends them if end_them. */
static int left_over(const char *tag, bool end_them)
{
    char path[64], text[65536];
    int n = 0;
    DIR *dir = opendir("/proc");
    for (struct dirent *e; dir && (e = readdir(dir));) {
        const int pid = atoi(e->d_name);
        if (pid <= 0 || pid == getpid()) continue;
        snprintf(path, sizeof path, "/proc/%d/environ", pid);
        const int process = hold_process(pid), fd = open(path, O_RDONLY);
        const ssize_t got = fd >= 0 ? read(fd, text, sizeof text) : 0;
        if (fd >= 0) close(fd);
        const bool theirs = got > 0 && memmem(text, (size_t)got, tag, strlen(tag));
        if (theirs && end_them) signal_held(process, SIGKILL);
        let_go_of(process);
        n += theirs;
    }
    if (dir) closedir(dir);
    return n;
}

static int count(const char *text, const char *word)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, word)); at++) n++;
    return n;
}

/*
 * Check that the newest checkpoint is complete. If `goes_on`, also check that a run from it ends with the
 * bits of the run without a fault. Returns NULL if both hold, else the reason.
 */
static const char *look_at_saves(const struct job *j, const struct trial *t, const char *name, bool goes_on)
{
    bool begun = false;
    char again[64], reference_save[300];
    const int n = saved(j->save, &begun);
    if (n < t->n_saved) return "a checkpoint that was there is gone";
    if (!n) return NULL;
    if (run((char *[]){ (char *)(uintptr_t)yoke, "ckpt", "verify", (char *)(uintptr_t)j->save, NULL }))
        return "the newest checkpoint is not whole";
    if (!goes_on) return NULL;
    struct job next = { 0 };
    snprintf(again, sizeof again, "%s-again", name);
    start_training(&next, j->n_ranks, again, j->save);
    for (const double until = yokei_now() + LIMIT; !has_ended(&next) && yokei_now() < until;) usleep(5000);
    const int code = next.code;
    end_job(&next);
    if (code) return "it did not go on from its newest checkpoint";
    snprintf(reference_save, sizeof reference_save, "%s/save-reference%d", work, j->n_ranks);
    return run((char *[]){ (char *)(uintptr_t)yoke, "ckpt", "diff", next.save, reference_save, NULL })
               ? "it went on to other bits"
               : NULL;
}

/*
 * The reason why the trial failed; NULL: it passed. shared_before: number of files in /dev/shm before the
 * trial.
 */
static const char *judge(const struct job *j, const struct trial *t, double bound, int shared_before)
{
    static char why[128];
    const double until = yokei_now() + CLEAN_LIMIT;
    while (left_over(j->tag, false) && yokei_now() < until) usleep(20000);
    const int left = left_over(j->tag, true);
    if (left) return snprintf(why, sizeof why, "%d processes are left", left), why;
    /* Another job may be between two states. */
    while (count_shared_files("/dev/shm", false) > shared_before && yokei_now() < until) usleep(50000);
    if (count_shared_files("/dev/shm", true) > shared_before) return "files are left in /dev/shm";
    if (t->ended < 0) return "it did not end";
    if (t->apart)
        return j->code == 0 || j->code == 16 ? NULL : "it ended badly though the rank had ended before";
    if (j->code != 16) return snprintf(why, sizeof why, "exit code %d, wanted 16", j->code), why;
    if (count(j->text, "yoke: error:") != 1) return "not exactly one error";
    if (t->named < 0) return "the rank is not named";
    if (t->named > bound) return "it was named too late";
    if (t->ended > bound) return "the job ended too late";
    return NULL;
}

static void remove_tree(const char *path)
{
    run((char *[]){ "/bin/rm", "-rf", (char *)(uintptr_t)path, NULL });
}

static void say(bool ok, const char *format, ...) YOKE_PRINTF(2, 3);
static void say(bool ok, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    printf("%sok %d - ", ok ? "" : "not ", ++n_tests);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
    n_failed += !ok;
}

static void show_errors(const struct job *j)
{
    printf("# exit code %d, stderr: ", j->code);
    for (const char *c = j->text; *c; c++) {
        putchar(*c);
        if (*c == '\n' && c[1]) printf("# ");
    }
    if (j->used && j->text[j->used - 1] != '\n') putchar('\n');
}

static bool try_once(struct trial *t, int number, double bound)
{
    struct job j = { 0 };
    char name[32];
    const int n_ranks = draw(4) || !reference[4][STARTING] ? 3 : 4;
    const double part = draw_part();
    t->rank = (int)draw((uint32_t)n_ranks);
    t->delay = part * 1.02 * reference[n_ranks][t->phase];
    snprintf(name, sizeof name, "%d", number);
    const int shared_before = count_shared_files("/dev/shm", false);
    start_training(&j, n_ranks, name, NULL);
    harm(&j, t);
    const char *why = judge(&j, t, bound, shared_before);
    bool begun = false;
    const int n_saved = saved(j.save, &begun);
    const bool goes_on = !why && !t->apart && n_saved > 0 && n_saved < STEPS / SAVE_EVERY
                         && 5 * n_resumed <= number;
    n_resumed += goes_on;
    if (!why) why = look_at_saves(&j, t, name, goes_on);
    say(!why,
        "rank %d of %d %s at %.2f of %s%s: named after %.3f s, the others gone after %.3f s, the end after %.3f s; %d saved%s%s%s",
        t->rank, n_ranks, t->signal == SIGKILL ? "killed" : "stopped", part, phase_names[t->phase],
        t->apart ? ", when it had ended" : "", t->named, t->others, t->ended, t->n_saved,
        goes_on ? ", resumed to the same bits" : "", why ? "; " : "", why ? why : "");
    if (why) show_errors(&j);
    end_job(&j);
    remove_tree(j.run);
    remove_tree(j.save);
    char again[320];
    snprintf(again, sizeof again, "%s-again", j.run), remove_tree(again);
    snprintf(again, sizeof again, "%s-again", j.save), remove_tree(again);
    return !why;
}

/* ---- what it came to ---- */

static void summarise(const struct trial *trials, int n, int signal, int phase)
{
    double *named = calloc((size_t)n + 1, sizeof *named), *ended = calloc((size_t)n + 1, sizeof *ended);
    int used = 0, apart = 0;
    for (int i = 0; i < n && named && ended; i++) {
        if (trials[i].signal != signal || (phase >= 0 && (int)trials[i].phase != phase)) continue;
        apart += trials[i].apart;
        if (trials[i].apart || trials[i].named < 0) continue;
        named[used] = trials[i].named;
        ended[used++] = trials[i].ended;
    }
    if (used) {
        yokei_sort(named, used);
        yokei_sort(ended, used);
        printf(
            "# %s in %-8s: %3d trials, %d apart; named after %.3f s (median), %.3f s (most); the end after %.3f s, %.3f s\n",
            signal == SIGKILL ? "killed " : "stopped", phase < 0 ? "all" : phase_names[phase], used, apart,
            named[used / 2], named[used - 1], ended[used / 2], ended[used - 1]);
    }
    free(named);
    free(ended);
}

static double load(void)
{
    double one = 0;
    return getloadavg(&one, 1) == 1 ? one : 0;
}

static bool prepare(bool four)
{
    char path[300], line[200] = "the yoke lets unequal animals pull one load.\n";
    snprintf(work, sizeof work, "%s/yoke-kills.XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(work)) return false;
    snprintf(path, sizeof path, "%s/text", work);
    FILE *text = fopen(path, "w");
    for (int i = 0; text && i < 200; i++) fprintf(text, "%d:%d %s", i / 30, i % 30, line);
    if (!text || fclose(text)) return false;
    setenv("YOKE_PEAK", "off", 1);
    setenv("OMP_NUM_THREADS", "1", 1);
    for (int n = 3; n <= (four ? 4 : 3); n++) {
        struct job j = { 0 };
        char name[32];
        snprintf(name, sizeof name, "reference%d", n);
        start_training(&j, n, name, NULL);
        const bool ok = measure(&j, reference[n]);
        say(ok,
            "a run of %d ranks without a fault: start-up %.2f s, set-up %.2f s, steps %.2f s, a save %.2f s, report %.2f s; load %.1f",
            n, reference[n][STARTING], reference[n][SETTING_UP], reference[n][STEPPING], reference[n][SAVING],
            reference[n][REPORTING], load());
        if (!ok) show_errors(&j);
        end_job(&j);
        if (!ok) return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    if (argc < 4) return 99;
    const int n_kills = atoi(argv[2]), n = n_kills + atoi(argv[3]);
    const char *bounds = getenv("KILLS_BOUNDS"), *only = getenv("KILLS_PHASE");
    const bool strict = getenv("YOKE_SOAK") && load() < 1;
    double bound[2] = { strict ? 0.5 : 100, strict ? 2 : 100 };
    if (bounds && sscanf(bounds, "%lf %lf", &bound[0], &bound[1]) != 2) return 99;
    yoke = argv[1];
    /* Whoever waits for a time limit exceeds the bound. */
    setenv("YOKE_TIMEOUT_MS", "600000", 1);
    setenv("YOKE_STALL_MS", "600000", 1);
    have_own_shared_memory();
    state = argc > 4 ? (uint32_t)atol(argv[4]) : (uint32_t)yokei_now_ns() | 1;
    printf("# seed %u; a killed rank is to be named within %.1f s, a stopped one within %.1f s; load %.1f\n",
           state, bound[0], bound[1], load());
    struct trial *trials = calloc((size_t)n + 1, sizeof *trials);
    int done[2] = { 0 }; /* numbers of kills and of stops, made in turn so that both have the same load */
    if (trials && prepare(n > 20))
        for (int i = 0; i < n; i++) {
            const bool stops = done[0] == n_kills || (i % 2 && done[1] < n - n_kills);
            trials[i].signal = stops ? SIGSTOP : SIGKILL;
            trials[i].phase = only && *only ? (enum phase)(atoi(only) % N_PHASES)
                                            : (enum phase)(done[stops] % N_PHASES);
            trials[i].after = done[stops]++ < N_PHASES ? 1 : (int)draw(STEPS / SAVE_EVERY);
            try_once(&trials[i], i + 1, bound[stops]);
        }
    for (int phase = -1; phase < N_PHASES && trials; phase++)
        summarise(trials, n, SIGKILL, phase), summarise(trials, n, SIGSTOP, phase);
    printf("# load at the end %.1f\n1..%d\n", load(), n_tests);
    if (work[0]) remove_tree(work);
    free(trials);
    return n_failed || !trials;
}
