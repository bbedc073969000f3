/* SPDX-License-Identifier: Apache-2.0 */
/** What the operating system says of the time of a rank, with two system calls per step. */
#ifndef TRAIN_TRAINER_USAGE_H
#define TRAIN_TRAINER_USAGE_H

#include <stdbool.h>

/** The values of struct yoke_rank_report of the same names. NaN: the system does not tell. */
struct yokei_usage_values {
    double processor_seconds, queued_seconds, preemptions, major_faults, compile_seconds;
};
struct yokei_usage {
    bool has_file;
    int file; /* /proc/thread-self/schedstat */
    struct yokei_usage_values before;
};

/** Begin to count. The thread that calls this function is the one whose `queued_seconds` are counted. */
void yokei_usage_begin(struct yokei_usage *usage);
/** What was used since the last call, or since yokei_usage_begin. */
void yokei_usage_take(struct yokei_usage *usage, struct yokei_usage_values *values_out);
void yokei_usage_end(struct yokei_usage *usage);

#endif
