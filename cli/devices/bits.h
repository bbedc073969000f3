/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The hashes of a device's results (yoke verify --bits): the text file that holds them, and the comparison of
 * two devices. The file has header lines that begin with "# ", and then a line for each case:
 *   layernorm_backward f32 l1w16 5 0123456789abcdef fedcba9876543210 N 512 C 96
 * op, type, variant (- if the op has none), case, hash of the inputs, hash of the results, the case in words.
 * The lines are in the order of `yoke verify`.
 */
#ifndef CLI_DEVICES_BITS_H
#define CLI_DEVICES_BITS_H

#include "cli/devices/verify.h"

struct bits_line {
    char op[48], dtype[8], variant[64], words[128];
    int case_number;
    uint64_t inputs, results;
};

/** The hashes of one device. It begins as zeros, and ends with bits_free. */
struct bits {
    char device[256]; /* device and driver, in words */
    uint64_t seed;
    struct bits_line *lines;
    int n, capacity;
    bool lacks_memory; /* a line could not be added */
};

/** Add a case. */
void bits_add(struct bits *bits, const struct conform_bits *from);
void bits_free(struct bits *bits);
/** Write the file. `full`: the cases are those of the full sweep. */
yoke_status bits_write(const struct bits *bits, const struct verify *v, const char *path);
/** Read a file. YOKE_EDATA if it is missing or is none that bits_write has written. */
yoke_status bits_read(const char *path, struct bits *bits_out);
/**
 * Compare the hashes of this device with those of the file `path`, and print the first case that differs, how
 * many cases differ, and how many only one of the two has. Errors: YOKE_ENUMERIC if results differ,
 * YOKE_EDATA if the two have other inputs, YOKE_EUNSUPPORTED if they have no case in common.
 */
yoke_status bits_compare(FILE *to, const struct verify *v, const struct bits *here, const char *path,
                         const struct bits *there);

/** The order of lines: by op, type, variant and case. For qsort. */
int bits_by_key(const void *a, const void *b);
void bits_sort(struct bits *bits);
/** The line of sorted hashes that has the key's op, type, variant and case, or NULL. */
const struct bits_line *bits_find(const struct bits *sorted, const struct bits_line *key);

/**
 * Two files with other inputs cannot be compared. Both must have the same seed, and a case that both have
 * must have the same inputs. The lines of `a` are sorted. YOKE_EDATA.
 */
yoke_status bits_check_inputs(const char *path_a, const struct bits *a, const char *path_b,
                              const struct bits *b);

/**
 * Print which operations and types have the same bits in n files, which are held to an error bound, and why.
 * Errors: YOKE_ENUMERIC if results of the same variant differ, YOKE_EDATA if a file cannot be read or has
 * other inputs, YOKE_EUNSUPPORTED if no two files have a case in common.
 */
yoke_status bits_table(FILE *to, const char *const *paths, int n);

#endif
