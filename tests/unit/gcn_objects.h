/* SPDX-License-Identifier: Apache-2.0 */
/** The code objects of tests/unit/gcn/objects.txt. */
#ifndef TESTS_UNIT_GCN_OBJECTS_H
#define TESTS_UNIT_GCN_OBJECTS_H

#include "tests/unit/test.h"

#include <stdlib.h>

/** A code object, to be freed. */
struct bytes {
    unsigned char *data;
    size_t n;
};

static inline struct bytes object_of(const char *name)
{
    const char *top = getenv("top_srcdir");
    char path[1024], line[256], word[64], hex[65];
    snprintf(path, sizeof path, "%s/tests/unit/gcn/objects.txt", top ? top : ".");
    FILE *file = fopen(path, "r");
    if (!file) fail_msg("%s cannot be opened", path);
    struct bytes bytes = { NULL, 0 };
    bool is_it = false;
    while (file && fgets(line, sizeof line, file)) {
        unsigned long n;
        if (sscanf(line, "object %63s %lu", word, &n) == 2) {
            is_it = !strcmp(word, name);
            if (is_it) bytes = (struct bytes){ calloc(1, n), n };
        } else if (is_it && sscanf(line, "%lx %64s", &n, hex) == 2) {
            for (size_t i = 0; hex[2 * i] && n + i < bytes.n; i++) {
                unsigned byte;
                assert_int_equal(1, sscanf(hex + 2 * i, "%2x", &byte));
                bytes.data[n + i] = (unsigned char)byte;
            }
        }
    }
    if (file) fclose(file);
    assert_non_null(bytes.data);
    return bytes;
}

#endif
