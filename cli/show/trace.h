/* SPDX-License-Identifier: Apache-2.0 */
/** yoke trace: the flight records of a run, read into memory and put on one time line; and what is printed of them. */
#ifndef CLI_SHOW_TRACE_H
#define CLI_SHOW_TRACE_H

#include <stdio.h>
#include <yoke/base.h>

#include "collectives/postmortem.h"

/** How a rank fared in the operations that can be compared between ranks. */
struct cli_trace_share {
    int n_operations, n_last; /* operations that all recorded; in how many of them it was the last to come */
    double waited, caused;    /* seconds: that it waited for the last; that others waited for it when it was the last */
};

struct cli_trace {
    const char *folder;
    int n;                                  /* ranks of the job */
    struct yokei_flight_file **files;       /* [n] copies, NULL: missing or unreadable */
    char (*problems)[512];                  /* [n] why it could not be read, "": it is missing or could be */
    enum yokei_fate *fates;                 /* [n] */
    uint64_t *to_wall;                      /* [n] added to a record's times: nanoseconds since 1970, one offset per host */
    uint64_t origin;                        /* the earliest time of any operation, since 1970 */
    uint64_t end;                           /* the last sign of life of any rank; now, when one runs */
    struct cli_trace_share *shares;         /* [n] */
    struct yokei_lost lost;                 /* without whom it went on */
    struct yokei_blame blame;
    bool *candidates;                       /* [n] */
    int last;                               /* operations to show per rank */
};

/** Seconds since the origin of a time of rank r's record. */
static inline double cli_trace_seconds(const struct cli_trace *t, int r, uint64_t ns)
{
    return (double)(int64_t)(ns + t->to_wall[r] - t->origin) * 1e-9;
}
/** The rank of the job that is `member` of a communicator, by the records of its members; -1: none says so. */
int cli_trace_member(const struct cli_trace *t, uint32_t comm, int member);
/** The name of an entry's communicator, "?" when it is not known. */
const char *cli_trace_comm_name(const struct yokei_flight_file *file, uint32_t comm);
/** Bytes of an operation's data; 0 when its type is not known. */
double cli_trace_bytes(const struct yokei_flight_entry *entry);
/** "rank 2 (host a, pid 4711, opencl:0)" */
void cli_trace_who(const struct cli_trace *t, int r, char *out, size_t bytes);
/** "killed by signal 9 (Killed)": what became of a rank, for people. */
void cli_trace_fate_text(const struct cli_trace *t, int r, char *out, size_t bytes);
/** Whom a rank waits for, or waited for when it failed; -1: nobody. */
int cli_trace_waits_for(const struct cli_trace *t, int r);
/** "in all_reduce #17 of "world", step 3, for 0.002 s": what it does, or did last; "" without a record. */
void cli_trace_doing(const struct cli_trace *t, int r, char *out, size_t bytes);
/** One sentence on who is to blame, and why. */
void cli_trace_blame_text(const struct cli_trace *t, char *out, size_t bytes);

void cli_trace_text(const struct cli_trace *t, FILE *to);
yoke_status cli_trace_json(const struct cli_trace *t, FILE *to);
void cli_trace_chrome(const struct cli_trace *t, FILE *to);

#endif
