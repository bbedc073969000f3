/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What flight records tell afterwards, or from outside while the ranks run: what became of each rank, whom it waits for,
 * and who is to blame. Works on copies (yokei_flight_read) of records that may be damaged. Knows neither MPI nor devices.
 */
#ifndef COLLECTIVES_POSTMORTEM_H
#define COLLECTIVES_POSTMORTEM_H

#include "collectives/flight.h"

/** What became of a rank: by its own word, by its agent's, and where it ran on this host by its process. */
enum yokei_fate {
    YOKEI_FATE_MISSING, /* no record that could be read */
    YOKEI_FATE_RUNNING,
    YOKEI_FATE_STOPPED, /* by a signal or a debugger */
    YOKEI_FATE_ENDED,   /* in order */
    YOKEI_FATE_FAILED,  /* it said why */
    YOKEI_FATE_DEAD,    /* by a signal or with a code, says its agent, and no word of its own */
    YOKEI_FATE_KILLED,  /* by its agent, because another failed or the launcher was gone */
    YOKEI_FATE_GONE,    /* its process is, and nothing says how */
    YOKEI_FATE_UNKNOWN, /* it ran on another host, without an agent that saw its end */
    YOKEI_N_FATES
};
enum yokei_fate yokei_fate(const struct yokei_flight_file *file);
const char *yokei_fate_name(enum yokei_fate fate); /* "running" */

/** What names the rank to blame, from the surest to the least sure. */
enum yokei_evidence {
    YOKEI_EVIDENCE_NONE,
    YOKEI_EVIDENCE_AGENT,   /* its agent saw how it ended, before any other */
    YOKEI_EVIDENCE_WITNESS, /* another rank saw its process end, before any other */
    YOKEI_EVIDENCE_STOPPED, /* it is stopped */
    YOKEI_EVIDENCE_ERROR,   /* an error that a rank recorded names it */
    YOKEI_EVIDENCE_GONE,    /* of all ranks its process alone is gone */
    YOKEI_EVIDENCE_WAITED,  /* the ranks that wait, wait for it in the end: a guess when several are gone */
    YOKEI_N_EVIDENCES
};
const char *yokei_evidence_name(enum yokei_evidence evidence); /* "witness" */

struct yokei_blame {
    enum yokei_evidence evidence;
    int rank;         /* -1: nobody is to blame, or it cannot be said who */
    int by;           /* the rank whose record says so, -1: no one's alone */
    int n_candidates; /* > 1: it may have been any of these, candidates[r] true; `rank` is the likeliest */
};

/** Without which ranks of the job others went on, after these had failed: yoke_comm_shrink. */
struct yokei_lost {
    uint64_t bits[YOKEI_FLIGHT_RANKS / 64];
};
void yokei_find_lost(const struct yokei_flight_file *const files[], int n, struct yokei_lost *lost_out);
static inline bool yokei_was_lost(const struct yokei_lost *lost, int r)
{
    return r >= 0 && r < YOKEI_FLIGHT_RANKS && (lost->bits[r / 64] >> (r % 64) & 1);
}

/**
 * Who is to blame for how the job ended, those without whom it went on left aside, among files[0..n) (NULL where there is none),
 * whose fates are fates[0..n)? Writes candidates_out[0..n).
 * Times of different hosts are compared by their clocks; nothing but the choice between two causes depends on that.
 */
struct yokei_blame yokei_blame(const struct yokei_flight_file *const files[], const enum yokei_fate fates[], int n, bool candidates_out[]);

/**
 * Whom rank r waits for inside a collective, as a rank of the job; -1: nobody. A wait that the other rank has satisfied
 * since, by going on to a later operation of the communicator, is none.
 */
int yokei_rank_waits_for(const struct yokei_flight_file *const files[], int n, int r);

/** The time `ns` of a record's host as nanoseconds since 1970, by that host's clock. */
static inline uint64_t yokei_wall_ns(const struct yokei_flight_file *file, uint64_t ns) { return ns + (uint64_t)file->clock_offset_ns; }
/** The last time that the rank wrote anything. */
uint64_t yokei_last_activity(const struct yokei_flight_file *file);
/** The nth newest operation (0: the newest), NULL when there is none, or the entry is damaged. */
const struct yokei_flight_entry *yokei_flight_operation(const struct yokei_flight_file *file, uint64_t nth);
/** The communicator that an entry names, NULL when it was one of too many. */
const struct yokei_flight_comm *yokei_flight_comm_of(const struct yokei_flight_file *file, uint32_t uid);

#endif
