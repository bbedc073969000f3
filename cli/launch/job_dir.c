/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a run directory that only a running job needs. */
#include "cli/launch/job_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "collectives/flight/flight.h"
#include "core/base/base.h"

/*
 * Write the file as a whole or not at all. The file is not synced, because it is not needed after a crash of
 * the machine.
 */
static yoke_status put_file(const char *folder, const char *name, const char *text)
{
    char path[4096], temporary[4160];
    yokei_text(path, sizeof path, "%s/%s", folder, name);
    yokei_text(temporary, sizeof temporary, "%s.%ld", path, (long)getpid());
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    int reason = errno;
    if (fd >= 0) close(fd);
    if (!written || rename(temporary, path)) {
        if (written) reason = errno;
        unlink(temporary);
        return yoke_fail(YOKE_EIO, "%s: cannot write: %s", path, strerror(reason));
    }
    return YOKE_OK;
}

static bool get(const char *folder, const char *name, char *text_out, size_t bytes)
{
    char path[4096];
    yokei_text(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t n = read(fd, text_out, bytes - 1);
    close(fd);
    if (n <= 0) return false;
    text_out[n] = 0;
    return true;
}

yoke_status cli_order_write(const char *folder, int number, enum cli_command command, int argument)
{
    char name[32], text[64];
    yokei_text(name, sizeof name, "order-%d", number);
    yokei_text(text, sizeof text, "%d %d\n", (int)command, argument);
    return put_file(folder, name, text);
}

bool cli_order_read(const char *folder, int number, enum cli_command *command_out, int *argument_out)
{
    char name[32], text[64];
    int command, argument;
    yokei_text(name, sizeof name, "order-%d", number + 1);
    if (!get(folder, name, text, sizeof text) || sscanf(text, "%d %d", &command, &argument) != 2)
        return false;
    *command_out = (enum cli_command)command;
    *argument_out = argument;
    return true;
}

void cli_refuse(const char *folder, const char *text)
{
    char path[4096], temporary[4160], name[64];
    /* an agent on another host may have the same process id */
    yokei_text(name, sizeof name, "refused.%llx.%ld", (unsigned long long)yokei_host_id(), (long)getpid());
    if (put_file(folder, name, text)) return;
    yokei_text(path, sizeof path, "%s/refused", folder);
    yokei_text(temporary, sizeof temporary, "%s/%s", folder, name);
    (void)!link(temporary, path); /* fails if another agent was first */
    unlink(temporary);
}

bool cli_refused(const char *folder, char *text_out, size_t bytes)
{
    return get(folder, "refused", text_out, bytes);
}

yoke_status cli_agent_write(const char *folder, int rank)
{
    char name[32], host[64] = "", text[160];
    uint64_t start = 0;
    gethostname(host, sizeof host - 1);
    yokei_process_state(getpid(), &start);
    yokei_text(name, sizeof name, "agent-%05d", rank);
    yokei_text(text, sizeof text, "%ld %llu %llx %s\n", (long)getpid(), (unsigned long long)start,
               (unsigned long long)yokei_host_id(), host);
    return put_file(folder, name, text);
}

bool cli_agent_read(const char *folder, int rank, int *pid_out, uint64_t *start_out, bool *here_out,
                    char *host_out, size_t bytes)
{
    char name[32], host[64], text[160];
    int pid;
    unsigned long long start, id;
    yokei_text(name, sizeof name, "agent-%05d", rank);
    if (!get(folder, name, text, sizeof text)
        || sscanf(text, "%d %llu %llx %63s", &pid, &start, &id, host) != 4)
        return false;
    *pid_out = pid;
    *start_out = start;
    *here_out = id == yokei_host_id();
    yokei_text(host_out, bytes, "%s", host);
    return true;
}

yoke_status cli_devices_write(const char *folder, const char *text)
{
    return put_file(folder, "devices", text);
}

static void cores_name(char *name, size_t bytes)
{
    yokei_text(name, bytes, "cores-%llx", (unsigned long long)yokei_host_id());
}

yoke_status cli_cores_write(const char *folder, const char *text)
{
    char name[32];
    cores_name(name, sizeof name);
    return put_file(folder, name, text);
}

bool cli_cores_read(const char *folder, char *text_out, size_t bytes)
{
    char name[32];
    cores_name(name, sizeof name);
    return get(folder, name, text_out, bytes);
}

static void drop_file(const char *folder, const char *name)
{
    char path[4096];
    yokei_text(path, sizeof path, "%s/%s", folder, name);
    unlink(path);
}

/*
 * Remove files of which there may be any number. shrink-*: the agreements of ranks that continued without
 * others (collectives/shrink_files.c). cores-*: a file of each host.
 */
static void drop_all(const char *folder, const char *beginning)
{
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && (e = readdir(dir));)
        if (!strncmp(e->d_name, beginning, strlen(beginning))) drop_file(folder, e->d_name);
    if (dir) closedir(dir);
}

void cli_job_dir_clean(const char *folder, int n_ranks, bool records)
{
    char name[64];
    drop_file(folder, "refused");
    drop_all(folder, "shrink-");
    if (records) {
        drop_all(folder, "cores-");
        drop_file(folder, "devices");
    }
    for (int i = 1; i < 1000; i++) {
        char text[64];
        yokei_text(name, sizeof name, "order-%d", i);
        if (!get(folder, name, text, sizeof text)) break;
        drop_file(folder, name);
    }
    for (int r = 0; r < n_ranks; r++) {
        yokei_text(name, sizeof name, "agent-%05d", r);
        drop_file(folder, name);
        if (!records) continue;
        yokei_flight_name(r, name, sizeof name);
        drop_file(folder, name);
    }
}
