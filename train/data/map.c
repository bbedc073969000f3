/* SPDX-License-Identifier: Apache-2.0 */
#include "train/data/map.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static yoke_status map_descriptor(const char *path, int fd, yoke_status missing, struct yokei_map *map_out)
{
    struct stat info;
    if (fstat(fd, &info)) return yoke_fail(YOKE_EIO, "%s: cannot be examined: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode)) return yoke_fail(missing, "%s: is %s, not a file; name the file itself", path,
                                                 S_ISDIR(info.st_mode) ? "a folder" : "a device or pipe");
    struct yokei_map map = { NULL, (size_t)info.st_size };
    if (map.bytes > 0) {
        void *data = mmap(NULL, map.bytes, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data == MAP_FAILED)
            return yoke_fail(errno == ENOMEM ? YOKE_ENOMEM : YOKE_EIO, "%s: %zu bytes cannot be mapped: %s", path,
                             map.bytes, strerror(errno));
        map.data = data;
    }
    *map_out = map;
    return YOKE_OK;
}

yoke_status yokei_map_open(const char *path, yoke_status missing, struct yokei_map *map_out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe without a writer must not block */
    if (fd < 0) {
        bool absent = errno == ENOENT || errno == ENOTDIR || errno == ENXIO;
        return yoke_fail(absent ? missing : YOKE_EIO, "%s: cannot be opened: %s", path, strerror(errno));
    }
    yoke_status status = map_descriptor(path, fd, missing, map_out);
    close(fd);
    return status;
}

void yokei_map_close(struct yokei_map *map)
{
    if (map->data) munmap((void *)(uintptr_t)map->data, map->bytes);
    map->data = NULL;
    map->bytes = 0;
}
