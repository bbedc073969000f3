/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Keys of ranks. A key is a string of bytes with everything on which some part of a rank's plan depends.
 * Ranks with equal keys have equal parts, so this part is planned once.
 */
#ifndef TRAIN_TRAINER_KEY_H
#define TRAIN_TRAINER_KEY_H

#include "parallel/program.h"

/** All fields 0: the empty key. */
struct yokei_key {
    unsigned char *bytes;
    size_t n, capacity;
    bool failed; /* there was no memory for a part of the key */
};
void yokei_key_put(struct yokei_key *key, const void *data, size_t bytes);
void yokei_key_number(struct yokei_key *key, int64_t number);
void yokei_key_text(struct yokei_key *key, const char *text); /* NULL: no text */
/**
 * Put each run of equal numbers as its length and the number. Hundreds of replicas often have equal shares.
 * NULL: no list.
 */
void yokei_key_list(struct yokei_key *key, const int64_t *list, int n);
/**
 * Put the layers of the job's chunks, with the extents and the sizes that they have at `place` for every
 * micro-batch: the full ones, a smaller last one, and one sequence. YOKE_ECONFIG: a layer cannot run there.
 */
yoke_status yokei_key_layers(struct yokei_key *key, const struct yokei_job *job,
                             const struct yoke_place *place, yoke_dtype dtype);
/** Give back the memory that the key does not use, because it will be kept. */
void yokei_key_trim(struct yokei_key *key);
/** The order of keys: below 0, 0 or above 0. */
int yokei_key_compare(const struct yokei_key *a, const struct yokei_key *b);
void yokei_key_free(struct yokei_key *key);

#endif
