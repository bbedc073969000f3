/* SPDX-License-Identifier: Apache-2.0 */
/** Vendors' libraries in the folders where they may be. */
#ifndef BACKENDS_GPU_RUNTIME_FOLDERS_H
#define BACKENDS_GPU_RUNTIME_FOLDERS_H

#include <yoke/device.h>
#include "core/base/base.h"

/** A list of folders, while it is made. "" is the loader's own path. Each entry is allocated with malloc. */
struct yokei_folders {
    char **list;
    int n, capacity;
};
/** Add a folder, if it is not in the list. */
void yokei_folders_add(struct yokei_folders *folders, const char *folder);
/** Add the folders that match `tail` under `base`, such as the lib folders of all NVIDIA packages. */
void yokei_folders_match(struct yokei_folders *folders, const char *base, const char *tail);

/** List the folders of a vendor, in order. Returns their number. The caller frees the entries. */
typedef int yokei_list_folders(char *folders[], int capacity);
/** A name of a library, and the major version of the driver that it stands for. */
struct yokei_library_file {
    const char *name;
    int major;
};
/** Open the library `name` in `folder` ("": by the loader). If this fails, `why` says why. */
typedef bool yokei_open_file(const char *folder, const char *name, char *why, size_t bytes);
/**
 * Open the library `name` in `folder` ("": by the loader), and resolve all symbols. Writes its path. NULL on
 * failure, and then `why` says why.
 */
void *yokei_folders_open_file(const char *folder, const char *name, char path[1024],
                              const struct yokei_symbol *symbols, size_t n_symbols, char *why, size_t bytes);
/**
 * Call `open` for the files in all folders until one succeeds. The files begin with the newest. Those whose
 * major version the driver knows come first. If none opens, `why` says why the most telling one failed.
 */
bool yokei_folders_open_newest(yokei_list_folders *list, const struct yokei_library_file files[], int n_files,
                               int driver_major, yokei_open_file *open, char *why, size_t bytes);

#endif
