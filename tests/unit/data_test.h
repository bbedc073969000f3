/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of train/files and train/text share: files with given bytes in a folder of their own. */
#ifndef TESTS_UNIT_DATA_TEST_H
#define TESTS_UNIT_DATA_TEST_H

#include "core/base/base.h"
#include "tests/unit/folder.h"

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
