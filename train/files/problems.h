/* SPDX-License-Identifier: Apache-2.0 */
/** A list of all problems with some files, so that one message can report them together. */
#ifndef TRAIN_FILES_PROBLEMS_H
#define TRAIN_FILES_PROBLEMS_H

#include <yoke/base.h>

/** One line per problem in `text`, for as many problems as fit. */
struct yokei_problems {
    int n;
    size_t used;
    char text[3500];
};
void yokei_problem(struct yokei_problems *p, const char *format, ...) YOKE_PRINTF(2, 3);
/**
 * YOKE_OK if there is no problem. Otherwise YOKE_EDATA with "<path>: <the problem>", or with "<path>: n
 * problems:" and a line for each.
 */
yoke_status yokei_problems_end(const struct yokei_problems *p, const char *path);

#endif
