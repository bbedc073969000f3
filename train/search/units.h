/* SPDX-License-Identifier: Apache-2.0 */
/** Numbers with units, as people write them in cluster files: "80GiB", "400Gbit/s", "2us", "2.10/h". */
#ifndef TRAIN_SEARCH_UNITS_H
#define TRAIN_SEARCH_UNITS_H

#include <yoke/base.h>

enum yokei_quantity {
    YOKEI_MEMORY,    /* bytes; binary units alone: 80GiB */
    YOKEI_BANDWIDTH, /* bytes per second; decimal units of bits or bytes: 400Gbit/s, 3.35TB/s */
    YOKEI_SECONDS,   /* 2us, 4ns, 1ms */
    YOKEI_RATE,      /* FLOP per second: 990TFLOP/s */
    YOKEI_WORK,      /* FLOP: 10GFLOP */
    YOKEI_PRICE      /* per hour, in any currency: 2.10/h */
};

/**
 * Read a number with its unit. There may be one blank between them. `range` (NULL: none) are the least and
 * the most value. On failure `why` says what is wrong and what to write, such as "has no unit; write 80GiB",
 * and the value is not written. A decimal number is rounded once.
 */
bool yokei_unit_read(enum yokei_quantity quantity, const char *text, const double range[2], double *value_out,
                     char *why, size_t why_bytes);
/** Write a short text that yokei_unit_read reads as exactly this value, which is finite and at least 0. */
void yokei_unit_write(enum yokei_quantity quantity, double value, char *text, size_t bytes);

#endif
