/* SPDX-License-Identifier: Apache-2.0 */
/** A file that is mapped for reading. */
#ifndef TRAIN_FILES_MAP_H
#define TRAIN_FILES_MAP_H

#include <yoke/base.h>

struct yokei_map {
    const unsigned char *data; /* NULL for an empty file */
    size_t bytes;
};

/**
 * Map a regular file. `wrong` has the same meaning as in yokei_file_open(). If another process shortens the
 * file later, a read behind its new end raises SIGBUS; yokei_mapped_at() then names the file.
 */
yoke_status yokei_map_open(const char *path, yoke_status wrong, struct yokei_map *map_out);
void yokei_map_close(struct yokei_map *map);

#endif
