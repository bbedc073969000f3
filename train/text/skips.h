/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Samples on which a run never trains, by their numbers in the run (yokei_tokens_sample). The other samples
 * keep their numbers and their order. A step reads the next `batch` samples that are not skipped.
 */
#ifndef TRAIN_TEXT_SKIPS_H
#define TRAIN_TEXT_SKIPS_H

#include <yoke/base.h>

enum {
    YOKEI_SKIPS_MOST = 64,    /* ranges */
    YOKEI_SKIPS_BYTES = 2112, /* of the text of so many ranges */
};
#define YOKEI_SKIPS_LAST 999999999999999 /* the largest number that can be skipped */

/** Ranges in rising order. Between two ranges there is at least one sample that is not skipped. */
struct yokei_skips {
    int n;
    int64_t first[YOKEI_SKIPS_MOST], last[YOKEI_SKIPS_MOST];
};

/**
 * Read "7", "3-9" or "3-9,20-31,7" in any order; "": no ranges. `what` names the text in messages.
 * YOKE_ECONFIG: it is no such list, a range ends before it begins, a number is above YOKEI_SKIPS_LAST, or
 * there are more than YOKEI_SKIPS_MOST ranges.
 */
yoke_status yokei_skips_parse(const char *what, const char *text, struct yokei_skips *skips_out);
/** Add a range. Ranges that touch each other become one. YOKE_ECONFIG as above. */
yoke_status yokei_skips_add(const char *what, struct yokei_skips *skips, int64_t first, int64_t last);
/** The ranges as text: rising, each as "7" or "3-9". */
void yokei_skips_text(const struct yokei_skips *skips, char text_out[YOKEI_SKIPS_BYTES]);
/** The number of the i-th sample, counted from 0, of the samples from `first` on that are not skipped. */
int64_t yokei_skips_nth(const struct yokei_skips *skips, int64_t first, int64_t i);
/** How many of the samples 0 to `end` - 1 are skipped. */
int64_t yokei_skips_below(const struct yokei_skips *skips, int64_t end);

#endif
