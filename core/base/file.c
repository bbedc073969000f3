/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files, written so that they are there complete or not at all. */
#include "core/base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

yoke_status yokei_file_read(const char *path, size_t limit, void **data_out, size_t *bytes_out)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return yoke_fail(YOKE_EIO, "cannot open '%s': %s", path, strerror(errno));
    struct stat st;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
        close(fd);
        return yoke_fail(YOKE_EIO, "cannot read '%s': not a regular file", path);
    }
    if ((uint64_t)st.st_size > limit) {
        close(fd);
        return yoke_fail(YOKE_EIO, "cannot read '%s': %lld bytes, at most %zu are accepted", path, (long long)st.st_size, limit);
    }
    const size_t bytes = (size_t)st.st_size;
    char *data = malloc(bytes + 1); /* a final 0, so that text can be parsed in place */
    if (!data) {
        close(fd);
        return yoke_fail(YOKE_ENOMEM, "cannot read '%s': no memory for %zu bytes", path, bytes);
    }
    size_t done = 0;
    while (done < bytes) {
        const ssize_t got = read(fd, data + done, bytes - done);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) {
            const char *why = got < 0 ? strerror(errno) : "it became shorter while being read";
            yoke_status status = yoke_fail(YOKE_EIO, "cannot read '%s' at byte %zu: %s", path, done, why);
            free(data);
            close(fd);
            return status;
        }
        done += (size_t)got;
    }
    close(fd);
    data[bytes] = 0;
    *data_out = data;
    *bytes_out = bytes;
    return YOKE_OK;
}

static void sync_folder_of(const char *path)
{
    char copy[PATH_MAX];
    yokei_text(copy, sizeof copy, "%s", path);
    (void)yokei_disk_sync_folder(dirname(copy)); /* the file itself is safe */
}

yoke_status yokei_file_write(const char *path, const void *data, size_t bytes)
{
    char temporary[PATH_MAX];
    const int n = snprintf(temporary, sizeof temporary, "%s.tmp.%ld", path, (long)getpid());
    if (n < 0 || (size_t)n >= sizeof temporary) return yoke_fail(YOKE_EIO, "cannot write '%s': the name is too long", path);
    const int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0) return yoke_fail(YOKE_EIO, "cannot create '%s': %s", temporary, strerror(errno));
    bool good = yokei_disk_write(fd, data, bytes) && yokei_disk_sync(fd) == 0;
    int why = errno;
    if (close(fd) && good) good = false, why = errno;
    if (good && yokei_disk_rename(temporary, path)) good = false, why = errno;
    if (!good) {
        unlink(temporary);
        return yoke_fail(YOKE_EIO, "cannot write '%s' (%zu bytes): %s; what was there before is unchanged", path, bytes,
                         strerror(why));
    }
    sync_folder_of(path);
    return YOKE_OK;
}

yoke_status yokei_make_folder(const char *path)
{
    char part[PATH_MAX];
    if (strlen(path) >= sizeof part) return yoke_fail(YOKE_EIO, "cannot make folder '%s': the name is too long", path);
    yokei_text(part, sizeof part, "%s", path);
    for (char *p = part + 1;; p++) {
        if (*p && *p != '/') continue;
        const char end = *p;
        *p = 0;
        struct stat st;
        if (mkdir(part, 0777) && (errno != EEXIST || stat(part, &st) || !S_ISDIR(st.st_mode)))
            return yoke_fail(YOKE_EIO, "cannot make folder '%s': %s", part, errno == EEXIST ? "a file is in the way" : strerror(errno));
        *p = end;
        if (!end) return YOKE_OK;
    }
}

bool yokei_is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

int yokei_file_reserve(int fd, size_t bytes)
{
    const struct timespec now = { 0 };
    sigset_t limit, was;
    sigemptyset(&limit);
    sigaddset(&limit, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &limit, &was);
    const int error = posix_fallocate(fd, 0, (off_t)bytes);
    if (error == EFBIG && !sigismember(&was, SIGXFSZ)) sigtimedwait(&limit, NULL, &now);
    pthread_sigmask(SIG_SETMASK, &was, NULL);
    return error;
}

uint64_t yokei_hash(const void *data, size_t bytes, uint64_t seed) { return XXH3_64bits_withSeed(data, bytes, seed); }
