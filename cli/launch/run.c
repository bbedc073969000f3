/* SPDX-License-Identifier: Apache-2.0 */
/**
 * yoke run: start a verb on several ranks. This process never calls MPI. It makes the run directory. It
 * starts one agent per rank (spawn.c), or lets MPICH's mpiexec do that (hydra.c). An agent is the process
 * that starts one rank and monitors it. Then yoke run monitors the ranks' records (supervise.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "collectives/flight/mpi_limits.h"
#include "cli/cli.h"
#include "cli/launch/cores.h"
#include "cli/launch/hold.h"
#include "cli/launch/job_dir.h"
#include "cli/launch/launch.h"
#include "cli/launch/look.h"
#include "cli/launch/shared_memory.h"
#include "cli/launch/supervise.h"
#include "cli/launch/verdict.h"
#include "core/base/base.h"

/*
 * Read the verb's options here first, so that an error is printed once and before anything starts. `folder`
 * is set to the verb's own --run-dir, or to "". The job's records belong into that folder too.
 */
static yoke_status check_verb(const struct cli_context *context, const struct cli_verb **verb_out,
                              int *help_out, char *folder, size_t folder_bytes)
{
    int n = 0, n_words;
    *verb_out = NULL;
    *help_out = 0;
    if (!context->n_words)
        return yoke_fail(YOKE_EINVAL,
                         "yoke run: which verb? For example: yoke run -n 2 -- train; see yoke run --help");
    if (strchr(context->words[0], '/')) {
        if (!access(context->words[0], X_OK)) return YOKE_OK;
        return yoke_fail(YOKE_EINVAL, "%s: cannot be started: %s", context->words[0], strerror(errno));
    }
    YOKE_TRY(cli_verb_of_words(context, verb_out, &n));
    char name[128], *saved = context->words[n - 1], **words;
    struct cli_options *options;
    yokei_text(name, sizeof name, "yoke %s", (*verb_out)->name);
    context->words[n - 1] = name;
    yoke_status status = cli_options_resolve((*verb_out)->bit, context->n_words - n + 1,
                                             context->words + n - 1, &options, &n_words, &words);
    context->words[n - 1] = saved;
    if (status) return status;
    *help_out = cli_flag(options, "help-all") ? 2 : cli_flag(options, "help"); /* 2: with all options */
    if (cli_option_find((*verb_out)->bit, "run-dir") && cli_text(options, "run-dir"))
        yokei_text(folder, folder_bytes, "%s", cli_text(options, "run-dir"));
    /* the rank would use the device of --devices, and the verb's option would be ignored */
    if (cli_text(context->options, "devices") && cli_option_find((*verb_out)->bit, "device")
        && !strncmp(cli_origin(options, "device"), "option ", 7))
        status = yoke_fail(
            YOKE_EINVAL,
            "yoke run: --devices %s and the verb's --device %s are both given: leave one of them out",
            cli_text(context->options, "devices"), cli_text(options, "device"));
    cli_options_free(options);
    free(words);
    return status;
}

/*
 * The lock on the folder to which the run writes. The folder is the named one, a dated one under runs/ for
 * training, or else a temporary one.
 */
static struct cli_hold run_dir;

static yoke_status make_folder(const struct cli_context *context, const struct cli_verb *verb,
                               const char *verbs_own, struct cli_job *job)
{
    const char *given = cli_text(context->options, "run-dir"), *hosts = cli_text(context->options, "hosts");
    char path[2048];
    if (!given && verbs_own[0]) given = verbs_own;
    bool dated = (verb && verb->bit == CLI_TRAIN) || hosts; /* because /tmp is not shared between hosts */
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
            if (errno != EEXIST)
                return yoke_fail(YOKE_EIO, "%s: cannot make the run directory: %s", path, strerror(errno));
            yokei_text(path, sizeof path, "runs/%s-%d", date, i);
        }
    } else {
        const char *folder = getenv("TMPDIR");
        yokei_text(path, sizeof path, "%s/yoke-run-XXXXXX", folder && *folder ? folder : "/tmp");
        if (!mkdtemp(path))
            return yoke_fail(YOKE_EIO, "%s: cannot make the run directory: %s", path, strerror(errno));
        job->temporary = true;
    }
    char *whole = realpath(path, NULL);
    if (!whole) return yoke_fail(YOKE_EIO, "%s: %s", path, strerror(errno));
    /* before anything in the folder is touched */
    const yoke_status held = cli_hold(whole, "job", "run directory", "--run-dir", &run_dir);
    if (held) {
        free(whole);
        return held;
    }
    yokei_text(job->folder, sizeof job->folder, "%s", whole);
    free(whole);
    cli_job_dir_clean(job->folder, job->n_ranks,
                      true); /* files that an earlier, killed run left in a named folder */
    return YOKE_OK;
}

/*
 * Write the list of devices to job->devices, and the lines of --devices auto to `lines`. *n_out is the number
 * of devices; 0: none is named, and each rank has the verb's own device.
 */
static yoke_status choose_devices(const struct cli_context *context, const struct cli_verb *verb,
                                  const char *launcher, struct cli_job *job, char *lines, size_t bytes,
                                  int *n_out)
{
    const char *text = cli_text(context->options, "devices");
    const int n = cli_list_count(context->options, "devices"),
              n_ranks = (int)cli_int(context->options, "ranks");
    char item[64];
    bool any_auto = false;
    for (int i = 0; i < n; i++)
        any_auto = any_auto
                   || !strcmp(cli_list_item(context->options, "devices", i, item, sizeof item), "auto");
    if (any_auto && n > 1)
        return yoke_fail(YOKE_EINVAL, "yoke run: --devices %s: auto means all devices, so it stands alone",
                         text);
    *n_out = n;
    if (n && !any_auto) {
        if (strlen(text) >= sizeof job->devices)
            return yoke_fail(YOKE_EINVAL, "yoke run: --devices has %zu characters; at most %zu are taken",
                             strlen(text), sizeof job->devices - 1);
        yokei_text(job->devices, sizeof job->devices, "%s", text);
    }
    if (!any_auto) return YOKE_OK;
    YOKE_TRY(cli_look_planned(context, verb, n_ranks, job->devices, sizeof job->devices, n_out));
    if (*n_out) return YOKE_OK;
    return cli_look_at_hosts(context, launcher, n_ranks, job, lines, bytes, n_out);
}

static yoke_status make_ranks(const struct cli_context *context, const struct cli_verb *verb,
                              const char *launcher, struct cli_job *job, char *lines, size_t bytes)
{
    int n_devices;
    YOKE_TRY(choose_devices(context, verb, launcher, job, lines, bytes, &n_devices));
    job->n_ranks = (int)cli_int(context->options, "ranks");
    if (!job->n_ranks) job->n_ranks = YOKE_MAX(1, n_devices);
    if (n_devices > job->n_ranks)
        return yoke_fail(YOKE_EINVAL,
                         "yoke run: --devices names %d devices for %d ranks; raise -n or shorten the list",
                         n_devices, job->n_ranks);
    job->grace = cli_real(context->options, "grace");
    job->start_seconds = cli_real(context->options, "start-seconds");
    job->lost_agent = -1;
    job->ranks = calloc((size_t)job->n_ranks, sizeof *job->ranks);
    if (!job->ranks) return yoke_fail(YOKE_ENOMEM, "no memory for %d ranks", job->n_ranks);
    for (int r = 0; r < job->n_ranks; r++) {
        job->ranks[r].agent_fd = job->ranks[r].rank_fd = job->ranks[r].ended_at = -1;
        if (n_devices) cli_device_of_rank(job->devices, r, job->ranks[r].device, sizeof job->ranks[r].device);
    }
    return YOKE_OK;
}

static void set_environment(const struct cli_context *context, const struct cli_job *job)
{
    char text[256];
    uint64_t start = 0;
    setenv("YOKE_RUN_DIR", job->folder, 1);
    yokei_text(text, sizeof text, "%d", job->n_ranks);
    setenv("YOKE_EXPECT_SIZE", text, 1);
    yokei_process_state(getpid(), &start);
    yokei_text(text, sizeof text, "%d %llu %llx", (int)getpid(), (unsigned long long)start,
               (unsigned long long)yokei_host_id());
    setenv("YOKE_SUPERVISOR", text, 1);
    cli_pass_terminals_to_ranks();
    setenv("YOKE_BIND", cli_text(context->options, "bind"), 1);
    if (job->devices[0])
        setenv("YOKE_DEVICES", job->devices, 1);
    else
        unsetenv("YOKE_DEVICES");
    if (job->left_out[0])
        setenv("YOKE_LEFT_OUT", job->left_out, 1);
    else
        unsetenv("YOKE_LEFT_OUT");
}

/*
 * Block the signals that the launcher would act on. It kills its ranks at once on SIGTERM, which a scheduler
 * sends to all processes.
 */
static void block_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    for (const int *s = (const int[]){ SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGTSTP, SIGCHLD, 0 }; *s;
         s++)
        sigaddset(&set, *s);
    sigprocmask(SIG_BLOCK, &set, NULL);
}

/*
 * Choose the launcher: "" for yoke run itself, else mpiexec's name. If ranks go to several hosts, mpiexec
 * starts them. The hosts come from --hosts, from a file of hosts, or from a scheduler's list, which mpiexec
 * reads by itself.
 */
static yoke_status choose_launcher(const struct cli_context *context, const char **launcher_out)
{
    static const char *const lists[] = { "HYDRA_HOST_FILE", "PBS_NODEFILE", "LSB_HOSTS",
                                         "LSB_MCPU_HOSTS",  "PE_HOSTFILE",  "LOADL_HOSTFILE",
                                         "COBALT_NODEFILE" };
    const char *named = cli_text(context->options, "launcher"), *nodes = getenv("SLURM_JOB_NUM_NODES");
    const bool hosts = cli_text(context->options, "hosts") != NULL;
    bool several = hosts || (nodes && atoi(nodes) > 1);
    for (size_t i = 0; i < YOKE_COUNT(lists); i++) several = several || getenv(lists[i]);
    *launcher_out = named;
    if (!strcmp(named, "auto")) named = several ? "hydra" : "own";
    if (!strcmp(named, "own")) *launcher_out = "";
    if (!strcmp(named, "hydra")) *launcher_out = "mpiexec.mpich"; /* plain mpiexec may be Open MPI's */
    if (!**launcher_out && hosts)
        return yoke_fail(
            YOKE_EINVAL,
            "yoke run: --launcher own starts ranks on this host alone: leave out --hosts, or --launcher");
    return YOKE_OK;
}

static bool any_record(const struct cli_job *job)
{
    for (int r = 0; r < job->n_ranks && job->ranks; r++)
        if (job->ranks[r].record) return true;
    return false;
}

/*
 * Clean the run directory. The records are kept where a user may need them: after a failure, and in a folder
 * that was named or is dated.
 */
static void clean(struct cli_job *job, bool drop_records)
{
    for (int r = 0; r < job->n_ranks && job->ranks; r++) {
        yokei_flight_close(job->ranks[r].record);
        if (job->ranks[r].agent_fd >= 0) close(job->ranks[r].agent_fd);
        if (job->ranks[r].rank_fd >= 0) close(job->ranks[r].rank_fd);
    }
    if (job->folder[0]) {
        cli_job_dir_clean(job->folder, job->n_ranks, drop_records);
        cli_let_go(&run_dir);
        if (job->temporary && drop_records) rmdir(job->folder);
    }
    if (job->ends >= 0) close(job->ends);
    free(job->ranks);
}

void cli_forget_outer_job(void)
{
    const char *folder = getenv("YOKE_RUN_DIR"), *place = getenv("UCX_POSIX_DIR"), *rank = getenv("PMI_RANK");
    char name[64] = "", path[4200];
    if (rank) yokei_flight_name(atoi(rank), name, sizeof name);
    const bool inside = getenv("YOKE_SUPERVISOR") && rank;
    /* this process is not a rank, so it prints its errors */
    for (const char *const *n = (const char *const[]){ "PMI_RANK", "PMI_SIZE", "PMI_FD", NULL }; *n; n++)
        unsetenv(*n);
    if (!inside) return;
    unsetenv("YOKE_DEVICES");
    if (place && strstr(place, "/yoke-job-")) unsetenv("UCX_POSIX_DIR");
    yokei_text(path, sizeof path, "%s/%s", folder ? folder : "", name);
    /* the variable is that job's own, and was not set for this job */
    if (folder && !access(path, F_OK)) unsetenv("YOKE_RUN_DIR");
}

yoke_status cli_run(const struct cli_context *context)
{
    struct cli_job job = { .ends = -1, .lifeline = -1, .shared = -1, .deserter = -1 };
    const struct cli_verb *verb;
    int help;
    char folder[2048] = "", lines[16384] = "";
    YOKE_TRY(check_verb(context, &verb, &help, folder, sizeof folder));
    if (help) {
        cli_help(verb, help == 2, stdout);
        return YOKE_OK;
    }
    const char *launcher;
    yoke_status status;
    bool as_asked = false;
    YOKE_TRY(choose_launcher(context, &launcher));
    YOKE_TRY(yokei_check_file_limit()); /* the ranks have the same limit */
    YOKE_TRY_GOTO(make_ranks(context, verb, launcher, &job, lines, sizeof lines), out);
    YOKE_TRY_GOTO(make_folder(context, verb, folder, &job), out);
    if (lines[0]) YOKE_TRY_GOTO(cli_devices_write(job.folder, lines), out);
    set_environment(context, &job);
    block_signals();
    job.ends = epoll_create1(EPOLL_CLOEXEC);
    YOKE_TRY_GOTO(*launcher ? cli_hydra_start(context, launcher, &job) : cli_spawn_start(context, &job), out);
    cli_supervise(&job);
    if (*launcher) cli_hydra_end(&job); /* the verdict needs the last output of mpiexec */
    status = cli_verdict(&job);
    as_asked = job.interrupted && status && status != YOKE_EPREEMPTED && cli_ended_as_asked(&job);
out:
    if (*launcher)
        cli_hydra_end(&job);
    else
        cli_spawn_end(&job);
    /* An error that was found before anything ran leaves no records worth keeping. */
    clean(&job, !any_record(&job) || job.refused[0] || (job.temporary && (!status || job.interrupted)));
    if (as_asked) {
        cli_note("yoke: stopped by %s", job.interrupted == SIGINT ? "SIGINT" : "SIGTERM");
        signal(job.interrupted, SIG_DFL);
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, job.interrupted);
        raise(job.interrupted); /* so that the shell reports the signal that ended the command */
        sigprocmask(SIG_UNBLOCK, &set, NULL);
    }
    return status;
}
