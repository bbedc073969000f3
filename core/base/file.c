/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that are read whole. This file has the one function that opens a path of the user, and the one table
 * of statuses for its errors.
 */
#include "core/base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

/* strerror; if no descriptor is left, the text also has the limit. */
const char *yokei_why(int error)
{
    static _Thread_local char text[160];
    struct rlimit limit;
    if (error != EMFILE || getrlimit(RLIMIT_NOFILE, &limit)) return strerror(error);
    yokei_text(text, sizeof text, "%s: the limit of this process is %llu (ulimit -n); raise it",
               strerror(error), (unsigned long long)limit.rlim_cur);
    return text;
}

yoke_status yokei_input_status(int error, yoke_status wrong)
{
    switch (error) {
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
    case EACCES:
    case EPERM:
    case ENXIO:
    case ENODEV:
    case EINVAL: return wrong;
    case ENOMEM: return YOKE_ENOMEM;
    default: return YOKE_EIO; /* EMFILE, ENFILE, EIO, ESTALE, ... */
    }
}

const char *yokei_file_kind(unsigned mode)
{
    return S_ISDIR(mode)                    ? "a folder"
           : S_ISFIFO(mode)                 ? "a pipe"
           : S_ISCHR(mode) || S_ISBLK(mode) ? "a device"
           : S_ISSOCK(mode)                 ? "a socket"
           : S_ISREG(mode)                  ? "a file"
                                            : "no file";
}

static yoke_status need_regular(const char *path, yoke_status wrong, const struct stat *st)
{
    if (S_ISREG(st->st_mode)) return YOKE_OK;
    return yoke_fail(wrong, "%s: is %s, not a file; %s", path, yokei_file_kind(st->st_mode),
                     S_ISFIFO(st->st_mode) ? "write what comes through it to a file, and name that file"
                                           : "name the file itself");
}

yoke_status yokei_file_open(const char *path, yoke_status wrong, int *fd_out, size_t *bytes_out)
{
    struct stat st;
    /*
     * Check the file before opening it, because opening alone makes some devices act. Check it again
     * afterwards, because the path may name another file by then.
     */
    if (stat(path, &st))
        return yoke_fail(yokei_input_status(errno, wrong), "%s: cannot be opened: %s", path,
                         yokei_why(errno));
    YOKE_TRY(need_regular(path, wrong, &st));
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return yoke_fail(yokei_input_status(errno, wrong), "%s: cannot be opened: %s", path,
                         yokei_why(errno));
    const yoke_status status = fstat(fd, &st)
                                   ? yoke_fail(YOKE_EIO, "%s: cannot be examined: %s", path, strerror(errno))
                                   : need_regular(path, wrong, &st);
    if (status) {
        close(fd);
        return status;
    }
    *fd_out = fd;
    *bytes_out = (size_t)st.st_size;
    return YOKE_OK;
}

static yoke_status read_all(const char *path, int fd, char *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        const ssize_t got = read(fd, data + done, bytes - done);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0)
            return yoke_fail(YOKE_EIO, "%s: cannot be read at byte %zu: %s", path, done, strerror(errno));
        if (got == 0)
            return yoke_fail(YOKE_EIO, "%s: became shorter while being read, at byte %zu", path, done);
        done += (size_t)got;
    }
    return YOKE_OK;
}

yoke_status yokei_file_read_as(const char *path, yoke_status wrong, size_t limit, void **data_out,
                               size_t *bytes_out)
{
    int fd;
    size_t bytes;
    char *data = NULL;
    YOKE_TRY(yokei_file_open(path, wrong, &fd, &bytes));
    yoke_status status = YOKE_OK;
    if (bytes > limit)
        status = yoke_fail(wrong, "%s: has %zu bytes; at most %zu are accepted", path, bytes, limit);
    else if (!(data = malloc(bytes + 1)))
        status = yoke_fail(YOKE_ENOMEM, "%s: no memory for its %zu bytes", path, bytes);
    else
        status = read_all(path, fd, data, bytes);
    close(fd);
    if (status) {
        free(data);
        return status;
    }
    data[bytes] = 0; /* so that text can be parsed in place */
    *data_out = data;
    *bytes_out = bytes;
    return YOKE_OK;
}

yoke_status yokei_file_read(const char *path, size_t limit, void **data_out, size_t *bytes_out)
{
    return yokei_file_read_as(path, YOKE_EIO, limit, data_out, bytes_out);
}

yoke_status yokei_make_folder(const char *path)
{
    char part[PATH_MAX];
    if (strlen(path) >= sizeof part)
        return yoke_fail(YOKE_EIO, "cannot make folder '%s': the name is too long", path);
    yokei_text(part, sizeof part, "%s", path);
    for (char *p = part + 1;; p++) {
        if (*p && *p != '/') continue;
        const char end = *p;
        *p = 0;
        struct stat st;
        if (mkdir(part, 0777) && (errno != EEXIST || stat(part, &st) || !S_ISDIR(st.st_mode)))
            return yoke_fail(YOKE_EIO, "cannot make folder '%s': %s", part,
                             errno == EEXIST ? "a file is in the way" : strerror(errno));
        *p = end;
        if (!end) return YOKE_OK;
    }
}

bool yokei_is_there(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

bool yokei_is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

uint64_t yokei_hash(const void *data, size_t bytes, uint64_t seed)
{
    return XXH3_64bits_withSeed(data, bytes, seed);
}
