/* SPDX-License-Identifier: Apache-2.0 */
/* The names of ranges of memory, the newest first. */
#ifndef EMULATE_GPU_LABELS_H
#define EMULATE_GPU_LABELS_H

#include <stdbool.h>
#include <stdint.h>

struct name {
    struct name *next; /* an older one */
    uint64_t address, bytes;
    int users;   /* of a lifetime: the streams that have not ended it yet; 0: it has ended */
    bool begins; /* the name is of a lifetime */
    char text[];
};
extern struct name *emulate_names;

/* NULL without memory. */
struct name *emulate_name_new(uint64_t address, uint64_t bytes, const char *text);
/* The newest name counts. It takes the place of the names that lie in its range. */
void emulate_name_add(struct name *name);

#endif
