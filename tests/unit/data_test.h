/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers for the tests of train/files and train/text: write files with given bytes in the test's folder. */
#ifndef TESTS_UNIT_DATA_TEST_H
#define TESTS_UNIT_DATA_TEST_H

#include "core/base/base.h"
#include "tests/unit/folder.h"

static inline const char *put_file(const char *name, const void *data, size_t bytes)
{
    const char *path = in_folder(name);
    unlink(path); /* because ext4 immediately writes a file to the disk if it is truncated and filled again */
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
    return path;
}

static inline const char *put_text(const char *name, const char *text)
{
    return put_file(name, text, strlen(text));
}

#endif
