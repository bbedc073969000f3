/* SPDX-License-Identifier: Apache-2.0 */
/* Start yoke look on the hosts of a job, and read what each host has chosen. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/launch/cores.h"
#include "cli/launch/look.h"
#include "cli/launch/watch.h"
#include "core/base/base.h"

enum { MOST_HOSTS = 256 };

/* One host of the job. */
struct host {
    char name[64]; /* "" for this host alone */
    int limit;     /* ranks that it is to get; 0: as many as it takes */
    struct cli_auto_device *devices;
    int n;
    yoke_status status;
    char error[2048];
};

struct hosts {
    int n;
    struct host *of;
};

static void free_hosts(struct hosts *h)
{
    for (int i = 0; i < h->n; i++) free(h->of[i].devices);
    free(h->of);
}

/* Read "a:2,b" of --hosts. Without numbers each host gets an equal block of n_ranks, as by mpiexec. */
static yoke_status list_hosts(const struct cli_options *o, const char *launcher, int n_ranks, struct hosts *h)
{
    const int n = cli_list_count(o, "hosts");
    char item[128];
    if (*launcher && !n)
        return yoke_fail(YOKE_EINVAL, "yoke run: --devices auto looks at every host, and cannot read the "
                                      "scheduler's list of them: name the hosts by --hosts");
    if (n > MOST_HOSTS) return yoke_fail(YOKE_EINVAL, "yoke run: at most %d hosts are looked at", MOST_HOSTS);
    h->of = calloc((size_t)YOKE_MAX(n, 1), sizeof *h->of);
    if (!h->of) return yoke_fail(YOKE_ENOMEM, "no memory for %d hosts", n);
    h->n = YOKE_MAX(n, 1);
    h->of[0].limit = n ? 0 : n_ranks;
    for (int i = 0, left = n_ranks; i < n; i++) {
        cli_list_item(o, "hosts", i, item, sizeof item);
        const char *colon = strchr(item, ':');
        yokei_text(h->of[i].name, sizeof h->of[i].name, "%.*s", (int)strcspn(item, ":"), item);
        const int block = YOKE_MIN(left, (n_ranks + n - 1) / n);
        h->of[i].limit = colon ? atoi(colon + 1) : block;
        left -= h->of[i].limit;
        if ((colon || n_ranks) && h->of[i].limit < 1)
            return yoke_fail(YOKE_EINVAL, "yoke run: --hosts: no rank is left for %s", item);
    }
    for (int i = 0; i < h->n; i++) {
        h->of[i].devices = calloc(CLI_AUTO_DEVICES, sizeof *h->of[i].devices);
        if (!h->of[i].devices) return yoke_fail(YOKE_ENOMEM, "no memory for the list of devices");
    }
    return YOKE_OK;
}

/* The command line: [mpiexec -prepend-rank -ppn 1 -n HOSTS -hosts a,b] yoke look -- VERB... */
static char **command_of(const struct cli_context *context, const char *launcher, const struct hosts *h,
                         char *self, char *names, size_t bytes, char *count)
{
    char **line = calloc((size_t)context->n_words + 16, sizeof *line);
    int n = 0;
    if (!line) return NULL;
    names[0] = '\0';
    for (int i = 0; i < h->n; i++) {
        const size_t used = strlen(names);
        yokei_text(names + used, bytes - used, "%s%s", i ? "," : "", h->of[i].name);
    }
    if (*launcher) {
        yokei_text(count, 16, "%d", h->n);
        line[n++] = (char *)launcher;
        line[n++] = "-prepend-rank";
        line[n++] = "-ppn", line[n++] = "1";
        line[n++] = "-n", line[n++] = count;
        line[n++] = "-hosts", line[n++] = names;
    }
    line[n++] = self, line[n++] = "look", line[n++] = "--";
    for (int i = 0; i < context->n_words; i++) line[n++] = context->words[i];
    return line;
}

static yoke_status start(char *const *line, pid_t *pid_out, FILE **from_out)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC)) return yoke_fail(YOKE_ENOMEM, "pipe: %s", strerror(errno));
    const pid_t parent = getpid();
    fflush(NULL);
    *pid_out = fork();
    if (*pid_out == 0) {
        const int null = open("/dev/null", O_RDONLY);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (null > 0) dup2(null, 0);
        dup2(fds[1], 1);
        if (getppid() == parent) execvp(line[0], line);
        _exit(127);
    }
    close(fds[1]);
    *from_out = *pid_out > 0 ? fdopen(fds[0], "r") : NULL;
    if (*from_out) return YOKE_OK;
    close(fds[0]);
    return yoke_fail(YOKE_ENOMEM, "no process that looks at the devices: %s", strerror(errno));
}

/* The fields of a line between tabs. Returns their number. */
static int split(char *line, char *fields[5])
{
    int n = 0;
    line[strcspn(line, "\n")] = '\0';
    for (char *at = line; at && n < 5; n++) {
        fields[n] = at;
        at = n < 4 ? strchr(at, '\t') : NULL;
        if (at) *at++ = '\0';
    }
    return n;
}

/* Read one line of yoke look. mpiexec puts the number of the host in front, as in "[1] ". */
static void read_line(struct hosts *h, char *line)
{
    int index = 0, taken = 0;
    char *fields[5];
    if (sscanf(line, "[%d] %n", &index, &taken) == 1 && taken) line += taken;
    if (index < 0 || index >= h->n) return;
    struct host *host = &h->of[index];
    const int n = split(line, fields);
    if (n >= 3 && !strcmp(fields[0], "error")) {
        host->status = (yoke_status)atoi(fields[1]);
        yokei_text(host->error, sizeof host->error, "%s", fields[2]);
    }
    if (n < 5 || strcmp(fields[0], "device") != 0 || host->n == CLI_AUTO_DEVICES) return;
    struct cli_auto_device *d = &host->devices[host->n++];
    yokei_text(d->info.spec, sizeof d->info.spec, "%s", fields[1]);
    d->is_taken = fields[2][0] == '1';
    d->speed = strtod(fields[3], NULL);
    yokei_text(d->why, sizeof d->why, "%s", fields[4]);
}

static yoke_status read_choices(const struct cli_context *context, const char *launcher, struct hosts *h)
{
    char self[4096], names[MOST_HOSTS * 65], count[16], *text = NULL;
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    size_t room = 0;
    pid_t pid = -1;
    FILE *from = NULL;
    int code = 0;
    if (length < 0) return yoke_fail(YOKE_EIO, "/proc/self/exe: %s", strerror(errno));
    self[length] = '\0';
    char **line = command_of(context, launcher, h, self, names, sizeof names, count);
    if (!line) return yoke_fail(YOKE_ENOMEM, "no memory for a command line");
    const yoke_status status = start(line, &pid, &from);
    free(line);
    YOKE_TRY(status);
    while (getline(&text, &room, from) > 0) read_line(h, text);
    free(text);
    fclose(from);
    while (pid > 0 && waitpid(pid, &code, 0) < 0 && errno == EINTR) {}
    for (int i = 0; i < h->n; i++) {
        struct host *host = &h->of[i];
        const char *name = host->name[0] ? host->name : "this host";
        if (host->status)
            return yoke_fail(host->status, "%s%s%s", host->name, host->name[0] ? ": " : "", host->error);
        if (!host->n)
            return yoke_fail(YOKE_ENODEV,
                             "--devices auto: %s did not tell its devices (%s %s ended with code %d)", name,
                             *launcher ? launcher : self, "look", WIFEXITED(code) ? WEXITSTATUS(code) : -1);
    }
    return YOKE_OK;
}

/* Append to a list with commas. False: there is no room. */
static bool append(char *list, size_t bytes, const char *item)
{
    const size_t used = strlen(list);
    if (!*item) return true;
    yokei_text(list + used, bytes - used, "%s%s", used ? "," : "", item);
    return strlen(list) == used + (used > 0) + strlen(item);
}

static bool is_in(const char *list, const char *item)
{
    const size_t length = strlen(item);
    for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == length && !strncmp(at, item, length)) return true;
    return false;
}

static void put_line(char *lines, size_t bytes, const struct host *host, const struct cli_auto_device *d)
{
    char text[1024];
    const size_t used = strlen(lines);
    yokei_text(text, sizeof text, "%s%s%-9s %s: %s", host->name, host->name[0] ? " " : "", d->info.spec,
               d->is_taken ? "taken" : "left out", d->why);
    cli_note("%s", text);
    yokei_text(lines + used, bytes - used, "%s\n", text);
}

/* Check a host's number of ranks, and add its devices to the job's. */
static yoke_status add_host(struct host *host, struct cli_job *job, char *lines, size_t bytes, int *n_out)
{
    char list[1024], entry[96] = "";
    const int found = cli_auto_count(host->devices, host->n);
    cli_auto_list(host->devices, host->n, true, list, sizeof list);
    if (host->limit > found)
        return yoke_fail(YOKE_EINVAL,
                         "yoke run: --devices auto takes %d device%s (%s)%s%s, for %d ranks: ask for fewer "
                         "ranks, or name a list of devices, which is repeated",
                         found, found == 1 ? "" : "s", list, host->name[0] ? " on " : "", host->name,
                         host->limit);
    if (host->limit) cli_auto_limit(host->devices, host->n, host->limit);
    for (int i = 0; i < host->n; i++) put_line(lines, bytes, host, &host->devices[i]);
    const int n = cli_auto_count(host->devices, host->n);
    cli_auto_list(host->devices, host->n, true, list, sizeof list);
    if (host->name[0]) yokei_text(entry, sizeof entry, "%s:%d", host->name, n);
    *n_out += n;
    if (append(job->devices, sizeof job->devices, list) && append(job->hosts, sizeof job->hosts, entry))
        return YOKE_OK;
    return yoke_fail(YOKE_EINVAL, "yoke run: the list of the hosts' devices is too long");
}

/* What no rank has: a device that one host leaves out may be another host's. */
static void list_left_out(const struct hosts *h, struct cli_job *job)
{
    for (int i = 0; i < h->n; i++)
        for (int k = 0; k < h->of[i].n; k++) {
            const struct cli_auto_device *d = &h->of[i].devices[k];
            if (!d->is_taken && !is_in(job->devices, d->info.spec) && !is_in(job->left_out, d->info.spec))
                append(job->left_out, sizeof job->left_out, d->info.spec);
        }
}

yoke_status cli_look_at_hosts(const struct cli_context *context, const char *launcher, int n_ranks,
                              struct cli_job *job, char *lines, size_t bytes, int *n_out)
{
    struct hosts h = { 0 };
    *n_out = 0;
    lines[0] = '\0';
    yoke_status status = list_hosts(context->options, launcher, n_ranks, &h);
    if (!status) status = read_choices(context, launcher, &h);
    for (int i = 0; i < h.n && !status; i++) status = add_host(&h.of[i], job, lines, bytes, n_out);
    if (!status) list_left_out(&h, job);
    if (!status && n_ranks && n_ranks != *n_out)
        status = yoke_fail(YOKE_EINVAL, "yoke run: --hosts has %d ranks, and -n asks for %d", *n_out,
                           n_ranks);
    free_hosts(&h);
    return status;
}

yoke_status cli_look_for_one(const struct cli_context *context, char *spec, size_t bytes)
{
    struct job_of_one {
        struct host host;
        struct hosts all;
    } one = { .all = { .n = 1 } };
    char devices[1024], lines[16384] = "";
    int n_planned;
    one.all.of = &one.host;
    YOKE_TRY(cli_look_planned(context, cli_verb_of(CLI_TRAIN), 0, devices, sizeof devices, &n_planned));
    if (n_planned) {
        cli_device_of_rank(devices, 0, spec, bytes);
        return YOKE_OK;
    }
    one.host.devices = calloc(CLI_AUTO_DEVICES, sizeof *one.host.devices);
    if (!one.host.devices) return yoke_fail(YOKE_ENOMEM, "no memory for the list of devices");
    const yoke_status status = read_choices(context, "", &one.all);
    if (!status) {
        cli_auto_limit(one.host.devices, one.host.n, 1);
        for (int i = 0; i < one.host.n; i++) put_line(lines, sizeof lines, &one.host, &one.host.devices[i]);
        yokei_text(spec, bytes, "%s", one.host.devices[0].info.spec);
    }
    free(one.host.devices);
    return status;
}
