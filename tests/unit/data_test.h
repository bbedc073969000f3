/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of train/data share: a folder of their own, and files with given bytes in it. */
#ifndef TESTS_UNIT_DATA_TEST_H
#define TESTS_UNIT_DATA_TEST_H

#include "tests/unit/test.h"

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/base.h"

static char test_folder[256];

static inline int make_test_folder(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(test_folder, sizeof test_folder, "%s/yoke-data.XXXXXX", tmp ? tmp : "/tmp");
    return mkdtemp(test_folder) ? 0 : -1;
}

static inline int n_files_in_folder(void)
{
    DIR *folder = opendir(test_folder);
    int n = -2; /* . and .. */
    while (folder && readdir(folder)) n++;
    if (folder) closedir(folder);
    return n;
}

static inline int remove_test_folder(void **state)
{
    (void)state;
    DIR *folder = opendir(test_folder);
    char path[600];
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        snprintf(path, sizeof path, "%s/%s", test_folder, entry->d_name);
        if (entry->d_name[0] != '.') unlink(path);
    }
    if (folder) closedir(folder);
    return rmdir(test_folder);
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

static inline const char *put_file(const char *name, const void *data, size_t bytes)
{
    const char *path = in_folder(name);
    unlink(path); /* ext4 writes a file that is cut to nothing and filled anew to the disk at once */
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
    return path;
}

static inline const char *put_text(const char *name, const char *text) { return put_file(name, text, strlen(text)); }

#endif
