/* SPDX-License-Identifier: Apache-2.0 */
/**
 * yoke run: start a verb on several ranks. It calls nothing of MPI: it makes the run directory, starts MPICH's mpiexec,
 * which starts one agent per rank (rank.c), and watches the ranks' records (supervise.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/job_dir.h"
#include "cli/supervise.h"
#include "core/base/base.h"

/* The verb that the words begin with; *words_out its length. Programs of the user's (with a slash) have none. */
static yoke_status find_verb(const struct cli_context *context, const struct cli_verb **verb_out, int *words_out)
{
    char both[160];
    const char *names[64];
    size_t n = 0;
    const char *first = context->words[0];
    yokei_text(both, sizeof both, "%s %s", first, context->n_words > 1 ? context->words[1] : "");
    for (const struct cli_verb *v = cli_verb_table; v->name; v++) {
        *words_out = strchr(v->name, ' ') ? 2 : 1;
        if (v->ranks && n + 1 < YOKE_COUNT(names)) names[n++] = v->name;
        if (strcmp(v->name, *words_out == 2 ? both : first)) continue;
        if (!v->ranks) return yoke_fail(YOKE_EINVAL, "yoke %s works as one process; run it without yoke run", v->name);
        *verb_out = v;
        return YOKE_OK;
    }
    names[n] = NULL;
    const char *nearest = yokei_nearest(strncmp(first, "bench", 5) ? first : both, names);
    return yoke_fail(YOKE_EINVAL, "yoke run: unknown verb '%s'%s%s%s; a program of your own is given with a path, such as ./%s", first,
                     nearest ? " (did you mean '" : "", nearest ? nearest : "", nearest ? "'?)" : "", first);
}

/* Read the verb's options here first: an error then is said before anything starts, and once. `folder` gets the verb's own
 * --run-dir, "" without one: the job's records belong there too. */
static yoke_status check_verb(const struct cli_context *context, const struct cli_verb **verb_out, bool *help_out, char *folder,
                              size_t folder_bytes)
{
    int n = 0, n_words;
    *verb_out = NULL;
    *help_out = false;
    if (!context->n_words) return yoke_fail(YOKE_EINVAL, "yoke run: which verb? For example: yoke run -n 2 -- train; see yoke run --help");
    if (strchr(context->words[0], '/')) {
        if (!access(context->words[0], X_OK)) return YOKE_OK;
        return yoke_fail(YOKE_EINVAL, "%s: cannot be started: %s", context->words[0], strerror(errno));
    }
    YOKE_TRY(find_verb(context, verb_out, &n));
    char name[128], *saved = context->words[n - 1], **words;
    struct cli_options *options;
    yokei_text(name, sizeof name, "yoke %s", (*verb_out)->name);
    context->words[n - 1] = name;
    yoke_status status = cli_options_resolve((*verb_out)->bit, context->n_words - n + 1, context->words + n - 1, &options, &n_words, &words);
    context->words[n - 1] = saved;
    if (status) return status;
    *help_out = cli_flag(options, "help");
    if (cli_option_find((*verb_out)->bit, "run-dir") && cli_text(options, "run-dir"))
        yokei_text(folder, folder_bytes, "%s", cli_text(options, "run-dir"));
    cli_options_free(options);
    free(words);
    return YOKE_OK;
}

/* Where the run writes: the named folder, a dated one under runs/ for training, else a temporary one. */
static yoke_status make_folder(const struct cli_context *context, const struct cli_verb *verb, const char *verbs_own, struct cli_job *job)
{
    const char *given = cli_text(context->options, "run-dir"), *hosts = cli_text(context->options, "hosts");
    char path[2048];
    if (!given && verbs_own[0]) given = verbs_own;
    bool dated = (verb && verb->bit == CLI_TRAIN) || hosts; /* /tmp is not shared between hosts */
    if (given) {
        yokei_text(path, sizeof path, "%s", given);
        YOKE_TRY(yokei_make_folder(path));
    } else if (dated) {
        char date[64];
        time_t t = time(NULL);
        struct tm tm;
        strftime(date, sizeof date, "%Y%m%d-%H%M%S", localtime_r(&t, &tm));
        YOKE_TRY(yokei_make_folder("runs"));
        yokei_text(path, sizeof path, "runs/%s", date);
        for (int i = 2; mkdir(path, 0777); i++) {
            if (errno != EEXIST) return yoke_fail(YOKE_EIO, "%s: cannot make the run directory: %s", path, strerror(errno));
            yokei_text(path, sizeof path, "runs/%s-%d", date, i);
        }
    } else {
        const char *folder = getenv("TMPDIR");
        yokei_text(path, sizeof path, "%s/yoke-run-XXXXXX", folder && *folder ? folder : "/tmp");
        if (!mkdtemp(path)) return yoke_fail(YOKE_EIO, "%s: cannot make the run directory: %s", path, strerror(errno));
        job->temporary = true;
    }
    char *whole = realpath(path, NULL);
    if (!whole) return yoke_fail(YOKE_EIO, "%s: %s", path, strerror(errno));
    yokei_text(job->folder, sizeof job->folder, "%s", whole);
    free(whole);
    cli_job_dir_clean(job->folder, job->n_ranks, true); /* what an earlier run that was killed left in a named folder */
    return YOKE_OK;
}

static yoke_status make_ranks(const struct cli_context *context, struct cli_job *job)
{
    int n_devices = cli_list_count(context->options, "devices");
    job->n_ranks = (int)cli_int(context->options, "ranks");
    if (!job->n_ranks) job->n_ranks = YOKE_MAX(1, n_devices);
    if (n_devices > job->n_ranks)
        return yoke_fail(YOKE_EINVAL, "yoke run: --devices names %d devices for %d ranks; raise -n or shorten the list", n_devices, job->n_ranks);
    job->grace = cli_real(context->options, "grace");
    job->start_seconds = cli_real(context->options, "start-seconds");
    job->lost_agent = -1;
    job->ranks = calloc((size_t)job->n_ranks, sizeof *job->ranks);
    if (!job->ranks) return yoke_fail(YOKE_ENOMEM, "no memory for %d ranks", job->n_ranks);
    for (int r = 0; r < job->n_ranks; r++) {
        job->ranks[r].agent_fd = job->ranks[r].rank_fd = job->ranks[r].ended_at = -1;
        if (n_devices) cli_list_item(context->options, "devices", r % n_devices, job->ranks[r].device, sizeof job->ranks[r].device);
    }
    return YOKE_OK;
}

static void set_environment(const struct cli_context *context, const struct cli_job *job)
{
    char text[256];
    uint64_t start = 0;
    const char *devices = cli_text(context->options, "devices");
    setenv("YOKE_RUN_DIR", job->folder, 1);
    yokei_text(text, sizeof text, "%d", job->n_ranks);
    setenv("YOKE_EXPECT_SIZE", text, 1);
    yokei_process_state(getpid(), &start);
    yokei_text(text, sizeof text, "%d %llu %llx", (int)getpid(), (unsigned long long)start, (unsigned long long)yokei_host_id());
    setenv("YOKE_SUPERVISOR", text, 1);
    setenv("YOKE_TERMINAL", cli_on_terminal() ? "yes" : "no", 1);
    setenv("YOKE_BIND", cli_text(context->options, "bind"), 1);
    if (devices) setenv("YOKE_DEVICES", devices, 1);
    else unsetenv("YOKE_DEVICES");
}

/* Block what the launcher would take for itself: it kills its ranks at once on SIGTERM, which a scheduler sends to all. */
static void block_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    for (const int *s = (const int[]){ SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGTSTP, SIGCHLD, 0 }; *s; s++) sigaddset(&set, *s);
    sigprocmask(SIG_BLOCK, &set, NULL);
}

/*
 * Pass the launcher's output on, up to its own words about a process that ended badly, which begin with an empty line: the
 * verdict says that better. A process of its own, so that a reader who pauses does not hold up the watch.
 */
static void relay(int from)
{
    static const char banner[] = "\n===================================================================================\n"
                                 "=   BAD TERMINATION OF ONE";
    char buffer[1 << 16];
    size_t matched = 0; /* bytes of the banner that were read and are held back */
    bool line_start = true;
    ssize_t n;
    while ((n = read(from, buffer, sizeof buffer)) > 0) {
        for (ssize_t i = 0; i < n && banner[matched]; i++) {
            if (matched && buffer[i] != banner[matched]) {
                fwrite(banner, 1, matched, stdout);
                line_start = banner[matched - 1] == '\n';
                matched = 0;
            }
            if (buffer[i] == banner[matched] && (matched || line_start)) {
                matched++;
                continue;
            }
            putchar(buffer[i]);
            line_start = buffer[i] == '\n';
        }
        fflush(stdout);
        /* After the banner read on to the end, so that the launcher never meets a closed pipe. */
    }
    if (banner[matched]) fwrite(banner, 1, matched, stdout);
    fflush(stdout);
    _exit(0);
}

/* Start the relay; *to_out is where the launcher shall write. */
static yoke_status start_relay(struct cli_job *job, int *to_out)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC)) return yoke_fail(YOKE_EINTERNAL, "pipe: %s", strerror(errno));
    pid_t parent = getpid();
    fflush(NULL);
    job->relay = fork();
    if (job->relay == 0) {
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(fds[1]);
        if (getppid() == parent) relay(fds[0]);
        _exit(1);
    }
    close(fds[0]);
    if (job->relay < 0) {
        close(fds[1]);
        return yoke_fail(YOKE_ENOMEM, "no process for the ranks' output: %s", strerror(errno));
    }
    *to_out = fds[1];
    return YOKE_OK;
}

static yoke_status start_launcher(const struct cli_context *context, struct cli_job *job, int output)
{
    const char *launcher = getenv("YOKE_LAUNCHER"), *hosts = cli_text(context->options, "hosts");
    char self[4096], count[16], each[16];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0) return yoke_fail(YOKE_EIO, "/proc/self/exe: %s: yoke run finds itself and its ranks by /proc: mount -t proc proc /proc", strerror(errno));
    self[length] = 0;
    yokei_text(count, sizeof count, "%d", job->n_ranks);
    char **line = calloc((size_t)context->n_words + 16, sizeof *line);
    int n = 0, failure[2];
    if (!line) return yoke_fail(YOKE_ENOMEM, "no memory for the launcher's command line");
    if (pipe2(failure, O_CLOEXEC)) {
        free(line);
        return yoke_fail(YOKE_EINTERNAL, "pipe: %s", strerror(errno));
    }
    line[n++] = (char *)(launcher && *launcher ? launcher : "mpiexec.mpich"); /* plain mpiexec may be Open MPI's */
    line[n++] = "-n", line[n++] = count;
    if (hosts) line[n++] = "-hosts", line[n++] = (char *)hosts;
    if (hosts && !strchr(hosts, ':')) {
        /* Neighbours in rank on one host: the launcher would deal them out in turn, and every message would leave its host. */
        const int n_hosts = cli_list_count(context->options, "hosts");
        yokei_text(each, sizeof each, "%d", (job->n_ranks + n_hosts - 1) / n_hosts);
        line[n++] = "-ppn", line[n++] = each;
    }
    line[n++] = self, line[n++] = "rank", line[n++] = "--";
    for (int i = 0; i < context->n_words; i++) line[n++] = context->words[i];
    pid_t parent = getpid();
    job->launcher = fork();
    if (job->launcher == 0) {
        setpgid(0, 0); /* a terminal's SIGINT is for us alone */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int null = open("/dev/null", O_RDONLY);
        if (null > 0) dup2(null, 0);
        dup2(output, 1);
        if (getppid() == parent) execvp(line[0], line);
        int reason = errno;
        (void)!write(failure[1], &reason, sizeof reason);
        _exit(127);
    }
    free(line);
    close(failure[1]);
    int reason = 0;
    ssize_t got = job->launcher > 0 ? read(failure[0], &reason, sizeof reason) : 0;
    close(failure[0]);
    if (job->launcher < 0) return yoke_fail(YOKE_ENOMEM, "no process for the launcher: %s", strerror(errno));
    if (got == (ssize_t)sizeof reason)
        return yoke_fail(YOKE_ENODEV, "%s: cannot be started: %s; install MPICH (apt-get install mpich)",
                         launcher && *launcher ? launcher : "mpiexec.mpich", strerror(reason));
    setpgid(job->launcher, job->launcher);
    return YOKE_OK;
}

/* The relay ends when the launcher's last process has. */
static void end_relay(struct cli_job *job)
{
    for (int i = 0; job->relay > 0 && waitpid(job->relay, NULL, WNOHANG) == 0; i++) {
        if (i == 5000) kill(job->relay, SIGKILL);
        usleep(1000);
    }
    job->relay = 0;
}

static bool any_record(const struct cli_job *job)
{
    for (int r = 0; r < job->n_ranks && job->ranks; r++)
        if (job->ranks[r].record) return true;
    return false;
}

/* The records stay where somebody may look for them: after a failure, and in a folder that was named or is dated. */
static void clean(struct cli_job *job, bool drop_records)
{
    for (int r = 0; r < job->n_ranks && job->ranks; r++) {
        yokei_flight_close(job->ranks[r].record);
        if (job->ranks[r].agent_fd >= 0) close(job->ranks[r].agent_fd);
        if (job->ranks[r].rank_fd >= 0) close(job->ranks[r].rank_fd);
    }
    if (job->folder[0]) {
        cli_job_dir_clean(job->folder, job->n_ranks, drop_records);
        if (job->temporary && drop_records) rmdir(job->folder);
    }
    if (job->ends >= 0) close(job->ends);
    free(job->ranks);
}

yoke_status cli_run(const struct cli_context *context)
{
    struct cli_job job = { .ends = -1 };
    const struct cli_verb *verb;
    bool help;
    char folder[2048] = "";
    YOKE_TRY(check_verb(context, &verb, &help, folder, sizeof folder));
    if (help) {
        cli_help(verb, stdout);
        return YOKE_OK;
    }
    yoke_status status;
    YOKE_TRY_GOTO(make_ranks(context, &job), out);
    YOKE_TRY_GOTO(make_folder(context, verb, folder, &job), out);
    set_environment(context, &job);
    block_signals();
    int output = -1;
    YOKE_TRY_GOTO(start_relay(&job, &output), out);
    status = start_launcher(context, &job, output);
    close(output);
    if (status) goto out;
    time_t start = time(NULL);
    cli_supervise(&job);
    status = cli_verdict(&job);
    if (status) cli_sweep_shared_memory(start); /* an agent that was killed could not */
out:
    end_relay(&job);
    /* Errors that were found before anything ran leave no records worth keeping. */
    clean(&job, !any_record(&job) || job.refused[0] || (job.temporary && (!status || job.interrupted)));
    if (job.interrupted && status && status != YOKE_EPREEMPTED) {
        cli_note("yoke: stopped by %s", job.interrupted == SIGINT ? "SIGINT" : "SIGTERM");
        signal(job.interrupted, SIG_DFL);
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, job.interrupted);
        raise(job.interrupted); /* so that a shell sees how it ended */
        sigprocmask(SIG_UNBLOCK, &set, NULL);
    }
    return status;
}
