/* SPDX-License-Identifier: Apache-2.0 */
/**
 * yoke trace: read the flight records of a run into memory, order them by one clock, and print them. A
 * flight record is the file in which a rank notes its latest operations.
 */
#ifndef CLI_SHOW_TRACE_H
#define CLI_SHOW_TRACE_H

#include <stdio.h>
#include <yoke/base.h>

#include "collectives/flight/postmortem.h"

/** Waiting times of a rank in the operations that can be compared between ranks. */
struct cli_trace_share {
    int n_operations,
        n_last; /* operations that all ranks recorded; how many of them this rank entered last */
    /* seconds that it waited for the last rank; seconds that others waited for it when it was last */
    double waited, caused;
};

struct cli_trace {
    const char *folder;
    int n;                            /* number of ranks of the job */
    struct yokei_flight_file **files; /* [n] copies of the records, NULL: missing or unreadable */
    char (*problems)[512];  /* [n] why the record could not be read, "": it is missing, or it was read */
    enum yokei_fate *fates; /* [n] what became of each rank */
    /* [n] nanoseconds to add to a record's times, to get nanoseconds since 1970; one offset per host */
    uint64_t *to_wall;
    uint64_t origin;                /* the earliest time of any operation, in nanoseconds since 1970 */
    uint64_t end;                   /* the last sign of life of any rank; the present time if a rank runs */
    struct cli_trace_share *shares; /* [n] waiting times */
    struct yokei_lost lost;         /* the ranks without which the others continued */
    struct yokei_blame blame;
    bool *candidates; /* [n] the ranks that may be to blame */
    int last;         /* number of operations to show per rank */
};

/** Convert a time of rank r's record to seconds since the origin. */
static inline double cli_trace_seconds(const struct cli_trace *t, int r, uint64_t ns)
{
    return (double)(int64_t)(ns + t->to_wall[r] - t->origin) * 1e-9;
}

/* ---- trace.c, also for yoke report ---- */
/**
 * Read all flight records of a folder, and find out what became of the ranks. A record that cannot be read is
 * noted in the problems. YOKE_EDATA: there is no readable record; then n is 0 if there is no record at all.
 * YOKE_ENOMEM. The caller calls cli_trace_free() also after an error.
 */
yoke_status cli_trace_read(const char *folder, struct cli_trace *trace_out);
void cli_trace_free(struct cli_trace *trace);

/* ---- trace_words.c ---- */
/**
 * The job's rank that is rank `member` of a communicator, by the records of the communicator's members. -1:
 * no record has it.
 */
int cli_trace_member(const struct cli_trace *t, uint32_t comm, int member);
/** The name of an entry's communicator, "?" if it is not known. */
const char *cli_trace_comm_name(const struct yokei_flight_file *file, uint32_t comm);
/** The bytes of an operation's data; 0 if the data type is not known. */
double cli_trace_bytes(const struct yokei_flight_entry *entry);
/** Write a rank's name, such as "rank 2 (host a, pid 4711, opencl:0)". */
void cli_trace_who(const struct cli_trace *t, int r, char *out, size_t bytes);
/** Write what became of a rank, for people, such as "killed by signal 9 (Killed)". */
void cli_trace_fate_text(const struct cli_trace *t, int r, char *out, size_t bytes);
/** The rank that rank r waits for, or waited for when it failed. -1: none. */
int cli_trace_waits_for(const struct cli_trace *t, int r);
/**
 * Write what a rank does, or did last, such as "in all_reduce #17 of "world", step 3, for 0.002 s". ""
 * without a record.
 */
void cli_trace_doing(const struct cli_trace *t, int r, char *out, size_t bytes);
/** Write one sentence that says which rank is to blame, and why. */
void cli_trace_blame_text(const struct cli_trace *t, char *out, size_t bytes);

/* ---- trace_text.c, trace_json.c ---- */
void cli_trace_text(const struct cli_trace *t, FILE *to);
yoke_status cli_trace_json(const struct cli_trace *t, FILE *to);
void cli_trace_chrome(const struct cli_trace *t, FILE *to);

#endif
