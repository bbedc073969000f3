/* SPDX-License-Identifier: Apache-2.0 */
/** A communicator and the process that it belongs to: what both know, how a communicator is made, and how it ends. */
#ifndef COLLECTIVES_COMM_H
#define COLLECTIVES_COMM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <yoke/comm.h>

#include "collectives/flight.h"
#include "collectives/message.h"
#include "collectives/operation.h"
#include "collectives/roll.h"
#include "collectives/sum.h"
#include "core/base/base.h"

/** Memory that all ranks see; base[r] is rank r's part as this rank sees it, NULL where it does not. */
struct yokei_allocation {
    struct yokei_allocation *next;
    uint32_t id;
    size_t bytes;
    char **base;
};

/** A rank of the communicator, as seen from here. */
struct yokei_peer {
    struct yokei_peer_info info;
    const struct yokei_flight_file *flight; /* NULL: on another host */
    const struct yokei_transport *transport, *beneath; /* the second is what transport/inject.c lies around, else the same */
    uint32_t sent[YOKEI_LANES + 1], received[YOKEI_LANES + 1]; /* messages, per lane */
    void *segment;                           /* its shared slots, mapped; NULL: none */
    uint32_t taken[YOKEI_LANES + 1];         /* messages read from there, per lane */
    uint32_t pair_sent, pair_received;       /* sequence numbers of send and recv */
    const struct yokei_flight_file *far;     /* of a rank on another host with whom the run directory is shared: what its record said; NULL: unknown */
    uint64_t far_ns;                         /* when that was read */
    struct yokei_beats beats;                /* of its agent there */
    uint64_t suspect_ns;                     /* since when it looks stopped or dead */
    char suspect_state;
    /* What it answered last, when it is on another host. */
    uint64_t view_ns;
    int32_t view_waits_for, view_state;
    uint32_t view_sequence;
    uint64_t view_moved_ns;                  /* by its clock: only that it changes matters */
    /* Where it stood when it was seen last, since when, and when that was. */
    struct { uint64_t place, since_ns, looked_ns; } stand;
};

/** Which ranks see each other's memory: the same on all ranks. Hosts are numbered by their lowest rank. */
struct yokei_hosts {
    int n;                   /* 0: the ranks form no such groups, because some see others that do not see each other */
    int least, most;         /* ranks on a host */
    bool in_order;           /* host by host the ranks follow each other */
    int *of, *at;            /* [size] a rank's host, and its place on it */
    int *first, *ranks;      /* the ranks of host h are ranks[first[h]..first[h + 1]), ascending */
};

/** What the parts of collectives take: the worst of all ranks, all of them at work at once. 0: not measured. */
struct yokei_costs {
    double sync_us;       /* until each rank has seen an announcement of every other, through shared memory */
    double shared_gbps;   /* bytes that a rank puts down, sums and picks up there, 1e9 per second, while they fit the caches */
    double long_gbps;     /* and when they do not */
    double sum_gbps;      /* bytes of operands summed in the caches */
    double message_us;    /* a small message from one rank to another */
    double message_gbps;  /* bytes from each rank to the next, all at once */
    double oneshot_bytes; /* up to which one shot is not slower than slices */
};

/** How the ranks divide the sums of long data: shares.c. Slice j of n has before[j + 1] - before[j] parts of before[n]. */
struct yokei_shares {
    enum yokei_shares_source { YOKEI_SHARES_EQUAL, YOKEI_SHARES_MEASURED, YOKEI_SHARES_GIVEN } source;
    uint32_t *of;             /* [size] what was given, or the speeds */
    uint32_t *plain;          /* [size + 1] slices as they are given, or by the speeds; */
    uint32_t *shown;          /* by the speeds and what else a rank does in slices; */
    uint32_t *columns;        /* [hosts.least + 1] and in the hierarchy; all 0: its columns would sum nothing */
    /* What the configuration says, until the ranks are known. */
    uint32_t *wanted;         /* [n_wanted]; NULL: nothing */
    int n_wanted;
    bool of_the_job;          /* by rank of the job, not of the communicator */
    bool wanted_as_speeds;
};

/** Sends and receives of one set of processes: one duplicate of MPI's communicator serves all of Yoke's over it. */
struct yokei_process_set {
    struct yokei_process_set *next;
    MPI_Comm mpi;
    uint32_t next_context;
    int n_comms;
};

/** All that the process has once. */
struct yokei_process {
    pthread_mutex_t lock;     /* of everything below, of every communicator, and of all calls of MPI */
    struct yokei_process_set *sets;
    yoke_comm *comms;
    int n_comms;
    bool faulted;             /* an operation failed: MPI is not finalised any more */
    bool left;                /* MPI's launcher was told that this rank is done: neither is it finalised then */
    bool any_thread;          /* MPI_THREAD_MULTIPLE */
    bool is_witness;          /* the record is in a folder, and there is no agent */
    pthread_t main_thread;    /* that made the first communicator */
    struct yokei_flight_file *flight;
    int flight_fd, world_rank, n_world;
    uint64_t nonce, start_time;
    char host[64], run_dir[4096];
    uint64_t l3_bytes;
    int n_cores;              /* of this host, that the job is known to use */
    /* The progress thread, for asynchronous operations. */
    pthread_t thread;
    pthread_cond_t wake;
    bool thread_runs, thread_ends;
    int n_async;              /* operations that it looks after */
};
extern struct yokei_process yokei_process;

struct yoke_comm {
    struct yoke_comm *next;
    struct yokei_process_set *set;
    uint32_t context;         /* its part of the tags of the process set */
    uint32_t uid;             /* a number that rank 0 drew: tells it from all others, in messages and records */
    int rank, size;
    int room;                 /* entries of the arrays below, at least `size`; the layout of shared memory goes by it */
    int *set_rank;            /* [size] rank of the process set */
    char name[32];
    yoke_device *device;      /* NULL: host memory */
    yoke_stream *out_stream, *in_stream; /* of staged copies from and to the device: both directions at once */
    enum yoke_accum accum;
    enum yoke_reproducible reproducible;
    enum yoke_wait wait_policy;
    struct yokei_wait wait;
    int64_t timeout_ms, stall_ms;
    size_t chunk_bytes;       /* of a message's data, at most; a multiple of 64 */
    bool chunk_is_forced;
    int forced_algorithm;     /* -1: chosen by size */
    bool no_shared;
    enum yoke_check check;
    bool all_shared;           /* every pair of ranks shares slots */
    struct yokei_hosts hosts;
    const int *local;          /* [n_local] the ranks whose memory this one sees, itself included; alone, where hosts.n is 0 */
    int n_local;
    bool any_staged;           /* some rank's device memory is not seen by its host */
    uint32_t n_shared;         /* collectives through shared memory so far */
    uint32_t n_shrinks;        /* calls of yoke_comm_shrink so far */
    uint32_t shrunk_from;      /* uid of the communicator that this one was made from without failed ranks, 0: of none */
    struct yokei_layout { size_t mailboxes, flags, slots, pair_slots, posts, counters, oneshot, stages, bytes, slot_bytes, pair_slot_bytes; } layout;
    const void **inputs;       /* [size] room for a sum's operands */
    void **outputs;            /* [size] and for its results */
    struct yokei_costs costs;
    bool costs_given;          /* by the configuration, not measured */
    struct yokei_shares shares;
    struct yokei_allocation *allocations;
    uint32_t n_allocations, n_freed; /* ever */
    int n_on_host;             /* ranks of the job */
    int n_cores;               /* that the communicator's ranks of this host may run on together */
    struct yokei_peer *peers; /* [size] */
    struct yokei_lane lanes[YOKEI_LANES], **pair_send, **pair_recv; /* [size], made when first used */
    struct yokei_lane *lane_list[YOKEI_LANES];
    struct yokei_op *queue, **queue_end, *free_ops;
    uint32_t sequence, history;
    struct yokei_header recent[YOKEI_RECENT]; /* of the calls begun, by sequence */
    struct yokei_segment *segment; /* this rank's shared slots */
    int segment_fd;
    char no_segment[128];     /* why there is none */
    uint64_t segment_nonce;
    struct yokei_mpi_control *control;
    struct yokei_inject *inject; /* NULL: messages are left alone */
    atomic_int error;         /* yoke_status, sticky */
    char error_text[1024];
    int culprit;              /* rank of the job that the error names */
    uint64_t broken_ns;       /* when MPI reported an error; 0: it did not */
    char broken_text[512];
    bool untold;              /* it failed by a thread that may not call MPI: the others are told later */
    uint64_t watched_ns, proc_ns;
    uint64_t far_ns, network_ns; /* when other hosts' records, and the network, were last looked at */
    int next_far;              /* whose record on another host is looked at next */
    uint64_t published_ns;     /* when this rank's record was sent to the other hosts */
    uint32_t n_polls;
    bool watch_soon;          /* its waiter sleeps between two looks */
};

/* ---- process.c: the process's own state, creation of its flight record ---- */
yoke_status yokei_process_begin(void);
void yokei_process_end(void); /* when the last communicator is gone */
/** Start the progress thread, if it does not run, and wake it. The lock is held. */
yoke_status yokei_thread_start(void);
/** End it, if it runs. The lock is not held. */
void yokei_thread_end(void);
/** yoke_all_gather of bytes in host memory, whatever the communicator's device. The lock is not held. */
yoke_status yokei_gather_on_host(yoke_comm *comm, const void *mine, void *all, size_t bytes);
/** yoke_all_reduce of host memory in place, likewise. */
yoke_status yokei_reduce_on_host(yoke_comm *comm, void *data, size_t count, yoke_dtype dtype, yoke_reduction op);
/** The barrier of yoke_comm_destroy. */
yoke_status yokei_final_barrier(yoke_comm *comm);

/* ---- comm.c ---- */
/** chunk_bytes and no_shared of a configuration, or of YOKE_CHUNK_BYTES and YOKE_NO_SHARED; *chunk_out 0: neither says. YOKE_ECONFIG, YOKE_EINVAL. */
yoke_status yokei_read_messages(size_t chunk_bytes, bool no_shared, size_t *chunk_out, bool *no_shared_out);
/** As given, or the default; a multiple of 64. */
size_t yokei_chunk_bytes(size_t given);
/** A communicator that nobody else knows of yet. With an error *comm_out may be set: the others still have to hear of it. */
yoke_status yokei_comm_new(int rank, int size, yoke_device *device, const struct yoke_comm_config *config, yoke_comm **comm_out);
/** Put it into use, or with an error take it back. The lock is held. */
yoke_status yokei_comm_enter(yoke_comm *comm, yoke_status status, yoke_comm **comm_out);
/** For who reads the flight record: its name, and this rank's number in it. From then on it is the caller's. */
void yokei_comm_record(const yoke_comm *comm);
/** Whether yoke_mpi_stop did without MPI_Finalize, or gave up waiting for it. */
bool yokei_finalize_was_left(void);
/** What a communicator made from this one inherits. */
struct yoke_comm_config yokei_comm_config(const yoke_comm *comm, const char *name);

/* ---- setup.c: what the ranks tell each other when a communicator is made ---- */
/** Collective. `status` is what this rank came to so far: all ranks fail when one has. */
yoke_status yokei_setup(yoke_comm *comm, MPI_Comm mpi_comm, yoke_status status);
/**
 * The same over a communicator that works: members[r] is the rank there of rank r here. All of parent's ranks call; comm is NULL
 * for one that is to be in no new communicator.
 */
yoke_status yokei_setup_within(yoke_comm *comm, yoke_comm *parent, const int members[], yoke_status status);
/** What this rank tells the others, and what they have told: fills in peer r and maps its record. */
void yokei_describe_self(yoke_comm *comm, struct yokei_peer_info *info, yoke_status status);
void yokei_map_record(yoke_comm *comm, int r);
/** From what all have told: whether the communicator can be, and its number and uid; the same on all ranks. */
yoke_status yokei_agree(yoke_comm *comm);
/** Known of all ranks now: how many share this host, and its processors. */
void yokei_count_host(yoke_comm *comm);
/** Leave the process set and unmap the peers. */
void yokei_setup_undo(yoke_comm *comm);

/* ---- crowd.c ---- */
/** Threads that compute for this rank on the host, while it uses the communicator's device. */
int yokei_own_threads(const yoke_comm *comm);
/** Once, on the job's first rank: warn where its host's ranks have more threads than cores and nobody has bound them. */
void yokei_warn_of_crowd(const yoke_comm *comm);

/* ---- hosts.c ---- */
yoke_status yokei_hosts_begin(yoke_comm *comm); /* room for them; until more is known, the rank is alone */
void yokei_hosts_end(yoke_comm *comm);
/** Group the ranks: a sees b's segment where sees[a * width + b] has `bit`. The same input on all ranks. */
void yokei_hosts_find(yoke_comm *comm, const char *sees, size_t width, int bit);
/** All ranks are on one host. */
void yokei_hosts_one(yoke_comm *comm);

/* ---- check.c ---- */
uint32_t yokei_hash32(const void *data, size_t bytes, uint32_t seed);

/* ---- costs.c: the cost model ---- */
yoke_status yokei_costs_read(const char *text, struct yokei_costs *costs);
void yokei_costs_text(const struct yokei_costs *costs, char *text_out, size_t bytes);
/** Measure them with all ranks, or remember. Collective; the lock is not held. */
yoke_status yokei_costs_begin(yoke_comm *comm);
/** Those of a communicator made from another. */
void yokei_costs_inherit(yoke_comm *comm, const yoke_comm *parent);

/* ---- shares.c: how the ranks divide sums ---- */
yoke_status yokei_shares_begin(yoke_comm *comm); /* room for them; equal ones */
void yokei_shares_end(yoke_comm *comm);
/** From the configuration, else from YOKE_SUM_SHARES. */
yoke_status yokei_shares_read(yoke_comm *comm, const char *text);
/** A hash of what was read; 0: nothing. */
uint32_t yokei_shares_hash(const yoke_comm *comm);
/** Once the ranks and hosts are known: what was read, else the speeds in sixteenths, else (NULL) equal ones. The lock is held. */
void yokei_shares_settle(yoke_comm *comm, const uint32_t speeds[]);
/** What the configuration says, else those of the members in `parent`. The lock is held. */
void yokei_shares_inherit(yoke_comm *comm, const yoke_comm *parent);
/** In the form of the configuration; "" where that is too long. */
void yokei_shares_text(const yoke_comm *comm, char *text_out, size_t bytes);
/** Where slice j of n begins in `length` elements, at a multiple of `unit`; j == n: where the last ends. before NULL: equal ones. */
size_t yokei_slice_begin(const uint32_t *before, int n, size_t length, size_t unit, int j);

/* ---- speeds.c: how fast each rank sums ---- */
enum { YOKEI_PROBE_BYTES = 64 << 10 };
/** data [2 YOKEI_PROBE_BYTES]: its first half += the second, f32; what speeds and costs are measured by. */
void yokei_sum_once(float *data);
/** speeds_out[r]: sixteenths of the fastest rank's sums per second; the same on all ranks. Collective; the lock is not held. */
yoke_status yokei_speeds_measure(yoke_comm *comm, uint32_t speeds_out[]);
/** From bytes per second to that; ranks of which same[r], the first such, is the same get the mean of theirs. */
void yokei_speeds_compare(double rates[], const int same[], int n, uint32_t speeds_out[]);

/* ---- alloc.c ---- */
/** Where a buffer lies in shared memory; id 0: nowhere. The lock is held. */
void yokei_find_allocation(const yoke_comm *comm, const void *address, size_t bytes, uint32_t *id_out, uint64_t *offset_out);
/** The same place in rank r's part, as this rank sees it. */
char *yokei_in_allocation(const yoke_comm *comm, int r, uint32_t id, uint64_t offset, size_t bytes);
void yokei_free_allocations(yoke_comm *comm);

/* ---- footprint.c: the buffers that communicators hold outside shared memory, as they are taken and given back ---- */
void yokei_hold(size_t bytes);
void yokei_let_go(size_t bytes);
/** Of all communicators of the process; what an error leaves to MPI counts on. */
size_t yokei_held(void);

/* ---- shrink_files.c: where ranks meet that shrink a communicator and do not all share memory ---- */
/** Whether this rank can read the records of all others: then they have a run directory in common. The lock is held. */
bool yokei_shrink_has_folder(yoke_comm *comm);
/** Tell all the others this rank's word: once for each number. YOKE_EIO. */
yoke_status yokei_shrink_say(const yoke_comm *comm, const struct yokei_shrink_post *post);
/** Read the word of rank r, if it has said it: then post_out->number is `number`. */
bool yokei_shrink_hear(const yoke_comm *comm, int r, uint32_t number, struct yokei_shrink_post *post_out);
/** Propose what posts[0..size) say, this rank's word being the one that counts. It becomes the decision if there is none. YOKE_EIO. */
yoke_status yokei_shrink_propose(const yoke_comm *comm, uint32_t number, const struct yokei_shrink_post posts[]);
/** The decision, if there is one: posts_out[0..size) as who proposed it saw them, and who that is. */
bool yokei_shrink_decided(const yoke_comm *comm, uint32_t number, struct yokei_shrink_post posts_out[], int *winner_out);

/* ---- roll.c, beside what roll.h has ---- */
/** What a rank has told of itself: so that it can be seen where it has no agent. */
void yokei_roll_note(const struct yokei_peer_info *info);

/* ---- leave.c ---- */
/**
 * End MPI without MPI_Finalize, where several hosts take part and the launcher is MPICH's: when all ranks have come here.
 * *left_out false: MPI_Finalize is to be called. The errors of yokei_roll_look.
 */
yoke_status yokei_leave_launcher(bool *left_out);

/* ---- finalize.c ---- */
/** See to it, under yoke run, that the process ends when the program's own MPI_Finalize does not: a rank died, or between hosts. Once is enough. */
void yokei_finalize_watch(void);
/** MPI_Finalize is called by yoke_mpi_stop, which looks after it itself. */
void yokei_finalize_is_ours(void);

#endif
