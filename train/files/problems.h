/* SPDX-License-Identifier: Apache-2.0 */
/** All that is wrong with some files, so that it is said at once. */
#ifndef TRAIN_FILES_PROBLEMS_H
#define TRAIN_FILES_PROBLEMS_H

#include <yoke/base.h>

/** One line each in `text`, as many as there is room for. */
struct yokei_problems {
    int n;
    size_t used;
    char text[3500];
};
void yokei_problem(struct yokei_problems *p, const char *format, ...) YOKE_PRINTF(2, 3);
/** YOKE_OK, or YOKE_EDATA: "<path>: <the problem>", or "<path>: n problems:" and a line for each. */
yoke_status yokei_problems_end(const struct yokei_problems *p, const char *path);

#endif
