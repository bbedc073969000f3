/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that a user names for output. A file is written whole or not at all, and never replaces a device, a
 * pipe or a link.
 */
#include "core/base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum place { REPLACED, IN_PLACE, DIRECT };
struct yokei_output {
    enum place place;
    int fd;     /* the descriptor that the caller writes to: the temporary file, or a file without a name */
    int target; /* the descriptor that the data is copied to at the commit; -1: the file is renamed */
    bool exists;
    bool is_short_lived;      /* nothing is synchronised */
    struct stat before;       /* the status of the existing file */
    char path[PATH_MAX];      /* as the user named it, for messages */
    char real[PATH_MAX];      /* the path after following all links */
    char temporary[PATH_MAX]; /* "": none */
};

static yoke_status refuse(const struct yokei_output *o, const char *why)
{
    return yoke_fail(YOKE_EIO, "%s: cannot be written: %s", o->path, why);
}

static yoke_status failed(const struct yokei_output *o, int error)
{
    return yoke_fail(YOKE_EIO, "%s: cannot be written: %s%s", o->path,
                     error == ENOENT ? "there is no such folder" : yokei_why(error),
                     o->exists && o->place == REPLACED ? "; what was there before is unchanged" : "");
}

/* ---- the file at the path ---- */

/* Split a path: its folder goes to `folder`, and the start of its last name is returned. */
static const char *split(const char *path, char folder[PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    yokei_text(folder, PATH_MAX, "%.*s", slash ? (int)YOKE_MAX(slash - path, 1) : 1, slash ? path : ".");
    return slash ? slash + 1 : path;
}

/* Whether a folder is a process's table of descriptors. own_out: whether it is the table of this process. */
static bool is_descriptor_table(const char *folder, bool *own_out)
{
    char real[PATH_MAX], self[32] = "";
    int pid, task, end = 0;
    if (!realpath(folder, real)) return false;
    if (sscanf(real, "/proc/%d/fd%n", &pid, &end) != 1 || !end || real[end]) {
        end = 0;
        if (sscanf(real, "/proc/%d/task/%d/fd%n", &pid, &task, &end) != 2 || !end || real[end]) return false;
    }
    const ssize_t n = readlink("/proc/self", self,
                               sizeof self - 1); /* the number by which /proc knows this process */
    *own_out = n > 0 && atoi(self) == pid;
    return true;
}

int yokei_open_to_write(const char *path, int flags)
{
    const struct timespec moment = { 0, 10 * 1000 * 1000 };
    const uint64_t end = yokei_now_ns() + UINT64_C(10000000000);
    int fd;
    /* Opening a pipe waits for its reader, but not for ever. */
    while ((fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY | flags, 0666)) < 0
           && (errno == EINTR || errno == ENXIO)) {
        struct stat st;
        const int error = errno;
        if (error == ENXIO && (yokei_now_ns() > end || stat(path, &st) || !S_ISFIFO(st.st_mode)))
            return errno = error, -1;
        nanosleep(&moment, NULL);
    }
    if (fd >= 0) (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    return fd;
}

static yoke_status open_descriptor(struct yokei_output *o, const char *name, bool is_own)
{
    char *end;
    const long number = strtol(name, &end, 10);
    o->place = DIRECT;
    if (is_own && end != name && !*end && number >= 0 && number <= INT_MAX) {
        /* text that was printed before comes before the data that is written now */
        if (number == STDOUT_FILENO) (void)fflush(stdout);
        o->target = fcntl((int)number, F_DUPFD_CLOEXEC,
                          0); /* it keeps its position in the file, and O_APPEND */
    } else {
        o->target = open(o->real, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    }
    return o->target < 0 ? failed(o, errno) : YOKE_OK;
}

static yoke_status open_other(struct yokei_output *o)
{
    if (S_ISDIR(o->before.st_mode)) return refuse(o, "it is a folder; name a file in it");
    o->place = DIRECT;
    o->target = yokei_open_to_write(o->real, 0);
    if (o->target < 0 && errno == ENXIO && S_ISFIFO(o->before.st_mode))
        return refuse(o, "it is a pipe that nobody reads");
    return o->target < 0 ? failed(o, errno) : YOKE_OK;
}

/*
 * Follow the links one by one, until the path is no link. `real` is this path. If it is an existing file that
 * is not regular, `target` is open.
 */
static yoke_status resolve(struct yokei_output *o)
{
    enum { MOST_LINKS = 40 };
    char folder[PATH_MAX], link[PATH_MAX], next[2 * PATH_MAX];
    bool is_own;
    yokei_text(o->real, sizeof o->real, "%s", o->path);
    for (int i = 0; i < MOST_LINKS; i++) {
        const char *name = split(o->real, folder);
        if (!*name) return refuse(o, "the path ends with a slash; name a file");
        if (is_descriptor_table(folder, &is_own)) return open_descriptor(o, name, is_own);
        o->exists = lstat(o->real, &o->before) == 0;
        if (!o->exists) return errno == ENOENT ? YOKE_OK : failed(o, errno);
        if (S_ISREG(o->before.st_mode)) return YOKE_OK;
        if (!S_ISLNK(o->before.st_mode)) return open_other(o);
        const ssize_t n = readlink(o->real, link, sizeof link - 1);
        if (n < 0) return failed(o, errno);
        link[n] = 0;
        if (link[0] == '/')
            yokei_text(next, sizeof next, "%s", link);
        else
            yokei_text(next, sizeof next, "%s/%s", folder, link);
        if (strlen(next) >= sizeof o->real) return failed(o, ENAMETOOLONG);
        yokei_text(o->real, sizeof o->real, "%s", next);
    }
    o->exists = false;
    return failed(o, ELOOP);
}

/* ---- where the data is kept until the commit ---- */

/* Make a unique name. The process id alone is not unique if containers share a folder. */
static int open_temporary(struct yokei_output *o)
{
    char folder[PATH_MAX], text[2 * PATH_MAX];
    const char *name = split(o->real, folder);
    uint32_t random = 0;
    int fd = -1;
    for (int i = 0; i < 100 && fd < 0; i++) {
        if (getrandom(&random, sizeof random, GRND_NONBLOCK) < 0) random = (uint32_t)yokei_now_ns();
        yokei_text(text, sizeof text, "%s/%.200s.tmp.%ld-%08x", folder, name, (long)getpid(), random);
        if (strlen(text) >= sizeof o->temporary) return errno = ENAMETOOLONG, -1;
        fd = open(text, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (fd < 0 && errno != EEXIST) return -1;
    }
    if (fd >= 0) yokei_text(o->temporary, sizeof o->temporary, "%s", text);
    return fd;
}

static int open_unnamed(void)
{
    const char *folder = getenv("TMPDIR");
    const int fd = open(folder && *folder ? folder : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    return fd >= 0 ? fd : memfd_create("yoke-output", MFD_CLOEXEC);
}

/* Whether the folder refuses a rename or a new file. The file itself may still be writable. */
static bool is_refused(int error)
{
    return error == EACCES || error == EPERM || error == EROFS || error == EBUSY || error == EXDEV;
}

static yoke_status open_regular(struct yokei_output *o)
{
    if (o->exists && faccessat(AT_FDCWD, o->real, W_OK, AT_EACCESS)) return failed(o, errno);
    o->fd = open_temporary(o);
    if (o->fd < 0 && !(o->exists && is_refused(errno))) return failed(o, errno);
    if (o->fd < 0) {
        o->place = IN_PLACE;
        o->target = open(o->real, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        return o->target < 0 ? failed(o, errno) : YOKE_OK;
    }
    if (!o->exists) return YOKE_OK;
    struct stat mine;
    const bool other = fstat(o->fd, &mine) || mine.st_uid != o->before.st_uid
                       || mine.st_gid != o->before.st_gid;
    if (other && fchown(o->fd, o->before.st_uid, o->before.st_gid))
        (void)!fchown(o->fd, (uid_t)-1, o->before.st_gid);
    if (fchmod(o->fd, o->before.st_mode & 07777)) return failed(o, errno);
    return YOKE_OK;
}

yoke_status yokei_output_open(const char *path, struct yokei_output **out)
{
    struct yokei_output *o = calloc(1, sizeof *o);
    if (!o) return yoke_fail(YOKE_ENOMEM, "%s: no memory to write it", path);
    o->fd = o->target = -1;
    yokei_text(o->path, sizeof o->path, "%s", path);
    yoke_status status = strlen(path) >= sizeof o->path ? failed(o, ENAMETOOLONG)
                         : *path                        ? resolve(o)
                                                        : refuse(o, "the name is empty");
    if (!status && o->place == REPLACED) status = open_regular(o);
    if (!status && o->fd < 0 && (o->fd = open_unnamed()) < 0) status = failed(o, errno);
    if (status)
        yokei_output_abandon(o);
    else
        *out = o;
    return status;
}

int yokei_output_fd(const struct yokei_output *o) { return o->fd; }

void yokei_output_abandon(struct yokei_output *o)
{
    if (!o) return;
    if (o->fd >= 0) close(o->fd);
    if (o->target >= 0) close(o->target);
    if (o->temporary[0]) unlink(o->temporary);
    free(o);
}

/* ---- the commit ---- */

/* Copy from the descriptor that the caller wrote to the open target. */
static int copy(const struct yokei_output *o)
{
    enum { PIECE = 1 << 20 };
    char *piece = malloc(PIECE);
    ssize_t n = 0;
    off_t at = 0;
    if (!piece) return ENOMEM;
    while ((n = pread(o->fd, piece, PIECE, at)) > 0 && yokei_disk_write(o->target, piece, (size_t)n)) at += n;
    const int error = n ? errno : 0;
    free(piece);
    return error;
}

/*
 * Replace the content of an existing file. If the disk has no room for more than the old size, the file stays
 * as it is.
 */
static int copy_in_place(struct yokei_output *o, bool *unchanged_out)
{
    struct stat st;
    *unchanged_out = true;
    if (fstat(o->fd, &st)) return errno;
    const int room = st.st_size > o->before.st_size ? yokei_file_reserve(o->target, (size_t)st.st_size) : 0;
    if (room == ENOSPC || room == EFBIG || room == EDQUOT) {
        if (ftruncate(o->target, o->before.st_size)) *unchanged_out = false;
        return room;
    }
    *unchanged_out = false;
    const int error = copy(o);
    return error ? error : ftruncate(o->target, st.st_size) || yokei_disk_sync(o->target) ? errno : 0;
}

static yoke_status commit_copy(struct yokei_output *o)
{
    bool unchanged = false;
    const int error = o->place == DIRECT ? copy(o) : copy_in_place(o, &unchanged);
    if (!error && o->place == DIRECT && fsync(o->target) && errno != EINVAL && errno != EROFS
        && errno != ENOTSUP)
        return failed(o, errno);
    if (!error || o->place == DIRECT) return error ? failed(o, error) : YOKE_OK;
    return yoke_fail(
        YOKE_EIO,
        "%s: cannot be written in place, as its folder takes no new file: %s; what was there before is %s",
        o->path, yokei_why(error), unchanged ? "unchanged" : "lost");
}

static yoke_status commit_rename(struct yokei_output *o)
{
    char folder[PATH_MAX];
    if (!o->is_short_lived && yokei_disk_sync(o->fd)) return failed(o, errno);
    if (yokei_disk_rename(o->temporary, o->real)) {
        if (!o->exists || !is_refused(errno)) return failed(o, errno);
        /*
         * The file is a mount point, or it belongs to another user in a folder such as /tmp. It cannot be
         * renamed.
         */
        o->place = IN_PLACE;
        o->target = open(o->real, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        return o->target < 0 ? failed(o, errno) : commit_copy(o);
    }
    o->temporary[0] = 0;
    if (o->is_short_lived) return YOKE_OK;
    split(o->real, folder);
    (void)yokei_disk_sync_folder(folder); /* the file itself is already safe */
    return YOKE_OK;
}

yoke_status yokei_output_commit(struct yokei_output *o)
{
    yoke_status status = o->place == REPLACED ? commit_rename(o) : commit_copy(o);
    int *last = o->target >= 0 ? &o->target : &o->fd;
    if (close(*last) && !status) status = failed(o, errno);
    *last = -1;
    yokei_output_abandon(o);
    return status;
}

static yoke_status write_whole(const char *path, const void *data, size_t bytes, bool is_short_lived)
{
    struct yokei_output *o;
    YOKE_TRY(yokei_output_open(path, &o));
    o->is_short_lived = is_short_lived;
    if (yokei_disk_write(o->fd, data, bytes)) return yokei_output_commit(o);
    const yoke_status status = failed(o, errno);
    yokei_output_abandon(o);
    return status;
}

yoke_status yokei_file_write(const char *path, const void *data, size_t bytes)
{
    return write_whole(path, data, bytes, false);
}

yoke_status yokei_file_publish(const char *path, const void *data, size_t bytes)
{
    return write_whole(path, data, bytes, true);
}
