/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Files that a process writes through a shared mapping. What was written stays in the file, also if the
 * process is killed.
 */
#ifndef CORE_BASE_MAP_SHARED_H
#define CORE_BASE_MAP_SHARED_H

#include <yoke/base.h>

/**
 * Open a file of a run directory for reading and writing. A link is refused. A file that `flags` (O_CREAT,
 * O_EXCL) creates has mode 0600. -1: errno has the reason.
 */
int yokei_open_shared(const char *path, int flags);
/**
 * Reserve `bytes` bytes of the file behind `fd`, and map them for reading and writing. A full disk is an
 * error of this call, so a later write raises no SIGBUS. `what` ("flight record") and `path` are for error
 * texts. The mapping is remembered (yokei_mapped_add) as far as there is host memory for that. YOKE_EIO.
 */
yoke_status yokei_map_shared(int fd, size_t bytes, const char *what, const char *path, void **memory_out);
/** Unmap; NULL is allowed. */
void yokei_unmap_shared(const void *memory, size_t bytes);

#endif
