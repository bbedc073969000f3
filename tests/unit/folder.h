/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A temporary folder for a test. The set-up of the test or of its group makes it, and the tear-down removes
 * it.
 */
#ifndef TESTS_UNIT_FOLDER_H
#define TESTS_UNIT_FOLDER_H

#include "tests/unit/test.h"

#include <dirent.h>
#include <ftw.h>
#include <stdlib.h>
#include <unistd.h>

static char test_folder[256];

static inline int make_test_folder(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(test_folder, sizeof test_folder, "%s/yoke-test.XXXXXX", tmp ? tmp : "/tmp");
    return mkdtemp(test_folder) ? 0 : -1;
}

static inline int remove_entry(const char *path, const struct stat *stat, int type, struct FTW *place)
{
    (void)stat, (void)type, (void)place;
    return remove(path);
}

static inline int remove_test_folder(void **state)
{
    (void)state;
    return nftw(test_folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/*
 * The number of files in the folder. Files that begin with a dot count too, because an interrupted write
 * leaves such files.
 */
static inline int n_files_in_folder(void)
{
    DIR *folder = opendir(test_folder);
    int n = -2; /* . and .. */
    while (folder && readdir(folder)) n++;
    if (folder) closedir(folder);
    return n;
}

/* The path of `name` in the test's folder; valid until the fourth call after this one. */
static inline const char *in_folder(const char *name)
{
    static char paths[4][600];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", test_folder, name);
    return path;
}

#endif
