/* SPDX-License-Identifier: Apache-2.0 */
/** What a communicator has for finding faults. The files of faults/ own these parts of struct yoke_comm. */
#ifndef COLLECTIVES_FAULTS_PART_H
#define COLLECTIVES_FAULTS_PART_H

#include "collectives/flight/flight.h"
#include "collectives/operation/message.h"

/** The calls so far, for the call check: call_check.c. */
struct yokei_calls {
    uint32_t sequence, history;               /* number of the last call, and a hash of all calls */
    struct yokei_header recent[YOKEI_RECENT]; /* the latest calls; the index is the sequence number */
};

/** When a waiting rank last looked at what: verdict.c, far.c. */
struct yokei_watch {
    uint64_t watched_ns, proc_ns;
    uint64_t far_ns, network_ns; /* when other hosts' records were last looked at, and when the network was */
    int next_far;                /* the rank whose record on another host is looked at next */
    uint64_t published_ns;       /* when this rank's record was last sent to the other hosts */
};

/** What this rank knows of another rank's state: verdict.c, far.c. */
struct yokei_peer_watch {
    /* Of a rank on another host that shares the run directory: the last copy of its record. NULL: unknown. */
    const struct yokei_flight_file *far;
    uint64_t far_ns;          /* when that copy was read */
    struct yokei_beats beats; /* the beats of the rank's agent on the other host */
    uint64_t suspect_ns;      /* since when the rank looks stopped or dead; 0: it does not */
    uint64_t failed_ns;       /* since when its record says that it failed; 0: it does not */
    char suspect_state;
    /* The rank's last answer to a probe, if it is on another host. */
    uint64_t view_ns;
    int32_t view_waits_for, view_state;
    uint32_t view_sequence;
    uint64_t view_moved_ns; /* by the clock of the other host, so only a change means something */
    /* A hash of how far the rank had come when it was last seen, since when the hash has not changed, and
       when the rank was last looked at. */
    struct {
        uint64_t place, since_ns, looked_ns;
    } stand;
};

#endif
