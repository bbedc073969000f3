/* SPDX-License-Identifier: Apache-2.0 */
/* yoke plan --search without --cluster: a job of yoke bench cluster measures the devices of this machine. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "cli/train/plan_measure.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/base.h"
#include "core/base/times.h"
#include "train/search/cluster_file.h"

enum { MOST_DEVICES = 4096 };

/* What a job is started with. */
struct job {
    char self[4096], ranks[16], devices[MOST_DEVICES], types[16], path[4200];
    const char *words[24];
};

/* ---- the command ---- */

static yoke_status read_devices(const struct cli_options *o, struct job *job)
{
    char name[64];
    for (int i = 0; i < cli_list_count(o, "devices"); i++) {
        const size_t used = strlen(job->devices);
        cli_list_item(o, "devices", i, name, sizeof name);
        if (used + strlen(name) + 2 > sizeof job->devices)
            return yoke_fail(YOKE_EINVAL, "yoke plan: --devices has more than %d letters: shorten the list",
                             MOST_DEVICES);
        yokei_text(job->devices + used, sizeof job->devices - used, "%s%s", used ? "," : "", name);
    }
    return YOKE_OK;
}

/* f32 is always measured, because it is the optimizer's type in every precision. */
static void read_types(const struct cli_options *o, struct job *job)
{
    static const char *const types[] = { "bf16", "f16" };
    char word[16];
    yokei_text(job->types, sizeof job->types, "f32");
    for (size_t t = 0; t < YOKE_COUNT(types); t++)
        for (int i = 0; i < cli_list_count(o, "precision"); i++) {
            const size_t used = strlen(job->types);
            if (strcmp(cli_list_item(o, "precision", i, word, sizeof word), types[t]) != 0) continue;
            yokei_text(job->types + used, sizeof job->types - used, ",%s", types[t]);
            break;
        }
}

static yoke_status make_command(const struct cli_options *o, struct job *job)
{
    const ssize_t length = readlink("/proc/self/exe", job->self, sizeof job->self - 1);
    int n = 0;
    if (length < 0) return yoke_fail(YOKE_EIO, "/proc/self/exe: %s", strerror(errno));
    if (cli_is_set(o, "ranks") && cli_int(o, "ranks") > 1024)
        return yoke_fail(YOKE_EINVAL,
                         "yoke plan: --ranks %lld: at most 1024 ranks are measured; give --cluster FILE",
                         (long long)cli_int(o, "ranks"));
    YOKE_TRY(read_devices(o, job));
    yokei_text(job->ranks, sizeof job->ranks, "%lld", (long long)cli_int(o, "ranks"));
    read_types(o, job);
    job->words[n++] = job->self, job->words[n++] = "run";
    if (cli_is_set(o, "ranks")) job->words[n++] = "-n", job->words[n++] = job->ranks;
    if (job->devices[0]) job->words[n++] = "--devices", job->words[n++] = job->devices;
    if (cli_is_quiet()) job->words[n++] = "--quiet";
    job->words[n++] = "--", job->words[n++] = "bench", job->words[n++] = "cluster";
    /* the variables of these options are meant for other verbs */
    job->words[n++] = "--budget-seconds", job->words[n++] = "12s";
    job->words[n++] = "--dtype", job->words[n++] = job->types;
    if (cli_is_quiet()) job->words[n++] = "--quiet";
    job->words[n++] = "-o", job->words[n++] = job->path;
    return YOKE_OK;
}

/* ---- the job ---- */

static void pass_over(int number) { (void)number; }

/* The status whose exit code the job has ended with. */
static yoke_status status_of(int code)
{
    int status = YOKE_EINVAL;
    while (status < YOKE_N_STATUS && yoke_status_exit_code((yoke_status)status) != code) status++;
    return status < YOKE_N_STATUS ? (yoke_status)status : YOKE_EINTERNAL;
}

/* Run the job. It prints its own errors. SIGINT and SIGTERM end the job, and then this function. */
static yoke_status run_job(const struct job *job)
{
    struct sigaction action = { .sa_handler = pass_over, .sa_flags = SA_RESTART }, before;
    const pid_t parent = getpid();
    int code = 0;
    sigaction(SIGINT, &action, &before);
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        const int null = open("/dev/null", O_RDWR);
        sigaction(SIGINT, &before, NULL);
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (null >= 0) dup2(null, 0), dup2(null, 1);
        if (getppid() == parent) execv(job->self, (char *const *)job->words);
        _exit(127);
    }
    while (pid > 0 && waitpid(pid, &code, 0) < 0 && errno == EINTR) {}
    sigaction(SIGINT, &before, NULL);
    if (pid < 0) return yoke_fail(YOKE_ENOMEM, "no process that measures the devices: %s", strerror(errno));
    if (WIFEXITED(code) && !WEXITSTATUS(code)) return YOKE_OK;
    const int exit_code = WIFEXITED(code) ? WEXITSTATUS(code) : 128 + WTERMSIG(code);
    return yoke_fail(
        status_of(exit_code),
        "yoke plan: the devices of this machine were not measured: the job that measures them ended "
        "with code %d, and has said why",
        exit_code);
}

yoke_status cli_plan_measure(const struct cli_options *o, struct yokei_cluster *cluster_out,
                             double *seconds_out)
{
    struct job *job = calloc(1, sizeof *job);
    char folder[4096];
    const char *tmp = getenv("TMPDIR");
    const double begin = yokei_now();
    if (!job) return yoke_fail(YOKE_ENOMEM, "no memory for a command line");
    yokei_text(folder, sizeof folder, "%s/yoke-plan-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    yoke_status status = make_command(o, job);
    if (!status && !mkdtemp(folder)) {
        free(job);
        return yoke_fail(YOKE_EIO, "%s: %s", folder, strerror(errno));
    }
    if (!status) {
        yokei_text(job->path, sizeof job->path, "%s/cluster.yaml", folder);
        cli_note("measuring the devices of this machine, about 20 s; --cluster FILE uses a file instead");
        status = run_job(job);
        if (!status) status = yokei_cluster_read(job->path, cluster_out);
        unlink(job->path);
        rmdir(folder);
    }
    *seconds_out = yokei_now() - begin;
    if (!status)
        cli_note("measured in %.1f s; to keep the file: yoke run%s%s%s%s -- bench cluster -o FILE",
                 *seconds_out, cli_is_set(o, "ranks") ? " -n " : "", cli_is_set(o, "ranks") ? job->ranks : "",
                 job->devices[0] ? " --devices " : "", job->devices);
    free(job);
    return status;
}
