/* SPDX-License-Identifier: Apache-2.0 */
#include "train/files/map.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/base.h"

static yoke_status map_descriptor(const char *path, int fd, size_t bytes, struct yokei_map *map_out)
{
    struct yokei_map map = { NULL, bytes };
    if (bytes > 0) {
        void *data = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data == MAP_FAILED)
            return yoke_fail(errno == ENOMEM ? YOKE_ENOMEM : YOKE_EIO, "%s: %zu bytes cannot be mapped: %s",
                             path, bytes, strerror(errno));
        const yoke_status status = yokei_mapped_add(data, bytes, path, fd);
        if (status) {
            munmap(data, bytes);
            return status;
        }
        map.data = data;
    }
    *map_out = map;
    return YOKE_OK;
}

yoke_status yokei_map_open(const char *path, yoke_status wrong, struct yokei_map *map_out)
{
    int fd;
    size_t bytes;
    YOKE_TRY(yokei_file_open(path, wrong, &fd, &bytes));
    const yoke_status status = map_descriptor(path, fd, bytes, map_out);
    close(fd);
    return status;
}

void yokei_map_close(struct yokei_map *map)
{
    if (map->data) yokei_mapped_remove(map->data);
    if (map->data) munmap((void *)(uintptr_t)map->data, map->bytes);
    map->data = NULL;
    map->bytes = 0;
}
