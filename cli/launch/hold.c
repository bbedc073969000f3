/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/launch/hold.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/base.h"

/* Whether the locked file still has its name. The last owner may have removed it between open and flock. */
static bool has_its_name(int fd, const char *path)
{
    struct stat mine, named;
    return !fstat(fd, &mine) && !stat(path, &named) && mine.st_dev == named.st_dev
           && mine.st_ino == named.st_ino;
}

/* Fail with the text that the lock's holder wrote into the file. The holder may not have written it yet. */
static yoke_status refuse_holder(int fd, const char *folder, const char *what, const char *option)
{
    char text[256] = "";
    const ssize_t n = pread(fd, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = 0;
    text[strcspn(text, "\n")] = 0;
    return yoke_fail(YOKE_ECONFIG,
                     "%s: another job uses this %s (%s): wait until it has ended, or give another with %s",
                     folder, what, *text ? text : "it has just begun", option);
}

static void sign(int fd)
{
    char host[64] = "?", date[32], text[256];
    const time_t now = time(NULL);
    struct tm local;
    gethostname(host, sizeof host - 1);
    strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S", localtime_r(&now, &local));
    const int n = snprintf(text, sizeof text, "process %ld on %s, since %s\n", (long)getpid(), host, date);
    if (ftruncate(fd, 0) || pwrite(fd, text, (size_t)n, 0) != n)
        yoke_log(YOKE_LOG_DEBUG, "a lock's file cannot be written: %s", strerror(errno));
}

yoke_status cli_hold(const char *folder, const char *name, const char *what, const char *option,
                     struct cli_hold *hold_out)
{
    struct cli_hold hold = { .fd = -1 };
    yokei_text(hold.path, sizeof hold.path, "%s/%s.lock", folder, name);
    for (;;) {
        hold.fd = open(hold.path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (hold.fd < 0)
            return yoke_fail(YOKE_EIO, "%s: cannot be made: %s; give another %s with %s", hold.path,
                             strerror(errno), what, option);
        if (flock(hold.fd, LOCK_EX | LOCK_NB)) {
            const int reason = errno;
            const yoke_status status = reason == EWOULDBLOCK ? refuse_holder(hold.fd, folder, what, option)
                                                             : YOKE_OK;
            if (status) {
                close(hold.fd);
                return status;
            }
            yoke_log(
                YOKE_LOG_WARN,
                "%s: its file system has no locks (%s): another job that writes to it would not be noticed",
                folder, strerror(reason));
            break;
        }
        if (has_its_name(hold.fd, hold.path)) break;
        close(hold.fd);
    }
    sign(hold.fd);
    *hold_out = hold;
    return YOKE_OK;
}

void cli_let_go(struct cli_hold *hold)
{
    if (!hold->path[0]) return;
    /* while the lock is held, so that the next process to open the name makes a new file */
    unlink(hold->path);
    close(hold->fd);
    hold->path[0] = 0;
}
