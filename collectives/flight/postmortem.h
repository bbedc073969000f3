/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Conclusions from flight records after a job, or from outside while the ranks run: what became of each rank,
 * for which rank it waits, and which rank is to blame. The functions work on copies (yokei_flight_read) of
 * records that may be damaged. They know neither MPI nor devices.
 */
#ifndef COLLECTIVES_FLIGHT_POSTMORTEM_H
#define COLLECTIVES_FLIGHT_POSTMORTEM_H

#include "collectives/flight/flight.h"

/**
 * What became of a rank. The sources are its own record, its agent's word, and, if it ran on this host, its
 * process.
 */
enum yokei_fate {
    YOKEI_FATE_MISSING, /* there is no readable record */
    YOKEI_FATE_RUNNING,
    YOKEI_FATE_STOPPED, /* stopped by a signal or a debugger */
    YOKEI_FATE_ENDED,   /* ended normally */
    YOKEI_FATE_FAILED,  /* recorded an error */
    /* ended by a signal or with a code, as its agent says, without an error of its own in the record */
    YOKEI_FATE_DEAD,
    YOKEI_FATE_KILLED,  /* ended by its agent, because another rank failed or the launcher was gone */
    YOKEI_FATE_GONE,    /* its process is gone, and nothing says how it ended */
    YOKEI_FATE_UNKNOWN, /* it ran on another host, and no agent saw its end */
    YOKEI_N_FATES
};
enum yokei_fate yokei_fate(const struct yokei_flight_file *file);
const char *yokei_fate_name(enum yokei_fate fate); /* "running" */

/** The evidence against the rank to blame, from the surest to the least sure. */
enum yokei_evidence {
    YOKEI_EVIDENCE_NONE,
    YOKEI_EVIDENCE_AGENT,   /* its agent saw how it ended, before any other rank ended */
    YOKEI_EVIDENCE_WITNESS, /* another rank saw its process end, before any other process */
    YOKEI_EVIDENCE_STOPPED, /* the rank is stopped */
    YOKEI_EVIDENCE_ERROR,   /* an error that a rank recorded names it */
    YOKEI_EVIDENCE_GONE,    /* its process is the only one that is gone */
    YOKEI_EVIDENCE_WAITED,  /* the ranks that wait, wait for it in the end; a guess if several are gone */
    YOKEI_N_EVIDENCES
};
const char *yokei_evidence_name(enum yokei_evidence evidence); /* "witness" */

struct yokei_blame {
    enum yokei_evidence evidence;
    int rank;         /* -1: no rank is to blame, or it is unknown which one */
    int by;           /* the rank whose record says so; -1: no single one */
    int n_candidates; /* > 1: each rank with candidates[r] true may be the one, and `rank` is the likeliest */
};

/** The ranks of the job that failed and without which others went on by yoke_comm_shrink. */
struct yokei_lost {
    uint64_t bits[YOKEI_FLIGHT_RANKS / 64];
};
void yokei_find_lost(const struct yokei_flight_file *const files[], int n, struct yokei_lost *lost_out);
static inline bool yokei_was_lost(const struct yokei_lost *lost, int r)
{
    return r >= 0 && r < YOKEI_FLIGHT_RANKS && (lost->bits[r / 64] >> (r % 64) & 1);
}

/**
 * The rank to blame for how the job ended. files[0..n) are the records (NULL: none), and fates[0..n) the
 * ranks' fates. Ranks without which the job went on are left out. Writes candidates_out[0..n).
 * Times of different hosts are compared by their own clocks. Only the choice between two causes depends on
 * this.
 */
struct yokei_blame yokei_blame(const struct yokei_flight_file *const files[], const enum yokei_fate fates[],
                               int n, bool candidates_out[]);

/**
 * The rank of the job for which rank r waits inside a collective; -1: none. A wait does not count if the
 * other rank has satisfied it since, by going on to a later operation of the communicator.
 */
int yokei_rank_waits_for(const struct yokei_flight_file *const files[], int n, int r);

/** The time `ns` of a record's host as nanoseconds since 1970, by that host's clock. */
static inline uint64_t yokei_wall_ns(const struct yokei_flight_file *file, uint64_t ns)
{
    return ns + (uint64_t)file->clock_offset_ns;
}
/** When the rank last wrote anything. */
uint64_t yokei_last_activity(const struct yokei_flight_file *file);
/** The nth newest operation (0: the newest). NULL: there is none, or the entry is damaged. */
const struct yokei_flight_entry *yokei_flight_operation(const struct yokei_flight_file *file, uint64_t nth);
/** The communicator that an entry names. NULL: the record has no room for it any more. */
const struct yokei_flight_comm *yokei_flight_comm_of(const struct yokei_flight_file *file, uint32_t uid);

#endif
