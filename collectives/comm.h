/* SPDX-License-Identifier: Apache-2.0 */
/** The data of a communicator and of its process. The functions that make a communicator and end it. */
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

/**
 * Memory of yoke_comm_alloc. base[r] is rank r's part at the address where this rank sees it. NULL: this rank
 * does not see it.
 */
struct yokei_allocation {
    struct yokei_allocation *next;
    uint32_t id;
    size_t bytes;
    char **base;
};

/** A rank of the communicator, as this rank sees it. */
struct yokei_peer {
    struct yokei_peer_info info;
    const struct yokei_flight_file *flight; /* the rank's flight record; NULL: on another host */
    /* `beneath` is the transport that transport/inject.c wraps, else the same as `transport` */
    const struct yokei_transport *transport, *beneath;
    uint32_t sent[YOKEI_LANES + 1], received[YOKEI_LANES + 1]; /* number of messages, per lane */
    void *segment;                     /* the rank's shared slots, mapped; NULL: none */
    uint32_t taken[YOKEI_LANES + 1];   /* number of messages read from the slots, per lane */
    uint32_t pair_sent, pair_received; /* sequence numbers of send and recv */
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

/** The ranks grouped by shared memory. The same on all ranks. Hosts are numbered by their lowest rank. */
struct yokei_hosts {
    int n; /* 0: there are no such groups, because some rank sees two ranks that do not see each other */
    int least, most;    /* the smallest and the largest number of ranks on a host */
    bool in_order;      /* the ranks are numbered host by host */
    int *of, *at;       /* [size] a rank's host, and the rank's place on its host */
    int *first, *ranks; /* the ranks of host h are ranks[first[h]..first[h + 1]), ascending */
};

/**
 * The cost model: times and rates of the parts of collectives. Each value is the worst of all ranks while all
 * ranks work. 0: not measured.
 */
struct yokei_costs {
    /* time until each rank has seen an announcement of every other rank through shared memory */
    double sync_us;
    /* Bytes that a rank copies to shared memory, sums and copies from there, in 1e9 per second, while the
       data fits the caches. */
    double shared_gbps;
    double long_gbps;     /* the same rate for data that does not fit the caches */
    double sum_gbps;      /* bytes of operands summed in the caches */
    double message_us;    /* time of a small message from one rank to another */
    double message_gbps;  /* bytes from each rank to the next, while all ranks send */
    double oneshot_bytes; /* largest size at which the one-shot algorithm is not slower than slices */
};

/**
 * How the ranks divide the sums of long data: shares.c. `plain`, `shown` and `columns` give slices as running
 * sums, like `before` elsewhere: slice j of n has before[j + 1] - before[j] of before[n] parts.
 */
struct yokei_shares {
    enum yokei_shares_source { YOKEI_SHARES_EQUAL, YOKEI_SHARES_MEASURED, YOKEI_SHARES_GIVEN } source;
    uint32_t *of;    /* [size] the given shares, or the speeds */
    uint32_t *plain; /* [size + 1] the slices as given, or by the speeds alone */
    /* [size + 1] the slices by the speeds and by what else a rank does in the algorithm `slices` */
    uint32_t *shown;
    /* [hosts.least + 1] the slices of the hierarchy's columns (hierarchy.c); all 0: no column would sum
       anything */
    uint32_t *columns;
    /* What the configuration says, until the ranks are known. */
    uint32_t *wanted; /* [n_wanted]; NULL: the configuration says nothing */
    int n_wanted;
    bool of_the_job; /* the numbers are for the ranks of the job, not of the communicator */
    bool wanted_as_speeds;
};

/**
 * A set of processes. One duplicate of MPI's communicator serves all of Yoke's communicators over this set.
 */
struct yokei_process_set {
    struct yokei_process_set *next;
    MPI_Comm mpi;
    uint32_t next_context;
    int n_comms;
};

/** How long a rank waits for a living rank, if the configuration does not say. */
enum { YOKEI_DEFAULT_TIMEOUT_MS = 600000 };

/** The data that the process has once. */
struct yokei_process {
    pthread_mutex_t lock; /* protects everything below, every communicator, and all calls of MPI */
    struct yokei_process_set *sets;
    yoke_comm *comms;
    int n_comms;
    bool faulted;    /* an operation failed, so MPI is not finalised any more */
    bool left;       /* MPI's launcher was told that this rank is done; then too MPI is not finalised */
    bool any_thread; /* MPI_THREAD_MULTIPLE */
    /* the record is in a folder and there is no agent, so this process runs a witness (witness.c) */
    bool is_witness;
    pthread_t main_thread; /* the thread that made the first communicator */
    struct yokei_flight_file *flight;
    int flight_fd, world_rank, n_world;
    uint64_t nonce, start_time;
    char host[64], run_dir[4096];
    uint64_t l3_bytes;
    int n_cores; /* cores of this host that the job is known to use */
    /* The progress thread, which carries asynchronous operations on. */
    pthread_t thread;
    pthread_cond_t wake;
    bool thread_runs, thread_ends;
    /* In a process that was forked from one with MPI: that one, whose communicators this memory is a copy of.
       0: this process is no such copy. */
    int copied_from;
    int n_async;          /* operations that the progress thread looks after */
    atomic_int n_blocked; /* threads that wait in a call until their operations have ended */
};
extern struct yokei_process yokei_process;

struct yoke_comm {
    struct yoke_comm *next;
    struct yokei_process_set *set;
    uint32_t context; /* selects this communicator's part of the process set's tags */
    uint32_t uid;     /* A number that rank 0 drew. It identifies the communicator in messages and records. */
    int rank, size;
    /* Number of entries of the arrays below, at least `size`. The offsets in shared memory follow from it. */
    int room;
    int *set_rank; /* [size] a rank's number in the process set */
    char name[32];
    yoke_device *device; /* NULL: host memory */
    yoke_stream *out_stream,
        *in_stream; /* for staged copies from and to the device, so that both directions run at once */
    enum yoke_accum accum;
    enum yoke_reproducible reproducible;
    enum yoke_wait wait_policy;
    struct yokei_wait wait;
    int64_t timeout_ms, stall_ms;
    size_t chunk_bytes; /* most bytes of data in a message; a multiple of 64 */
    bool chunk_is_forced;
    int forced_algorithm; /* -1: chosen by size */
    bool no_shared;
    enum yoke_check check;
    bool all_shared; /* every pair of ranks shares slots */
    struct yokei_hosts hosts;
    /* [n_local] The ranks whose memory this rank sees, itself included. Only this rank if hosts.n is 0. */
    const int *local;
    int n_local;
    bool any_staged;      /* a host does not see the device memory of one of its ranks */
    uint32_t n_shared;    /* collectives through shared memory so far */
    uint32_t n_shrinks;   /* calls of yoke_comm_shrink so far */
    uint32_t shrunk_from; /* uid of the communicator from which yoke_comm_shrink made this one; 0: none */
    struct yokei_offsets {
        size_t mailboxes, flags, slots, pair_slots, posts, counters, oneshot, stages, bytes, slot_bytes,
            pair_slot_bytes;
    } offsets;           /* of the parts of a rank's shared memory */
    const void **inputs; /* [size] room for a sum's operands */
    void **outputs;      /* [size] room for a sum's results */
    struct yokei_costs costs;
    bool costs_given; /* the configuration gave the costs; they were not measured */
    struct yokei_shares shares;
    struct yokei_allocation *allocations;
    uint32_t n_allocations, n_freed; /* number ever allocated, and ever freed */
    int n_on_host;                   /* ranks of the job on this host */
    int n_cores; /* cores on which the communicator's ranks of this host may run, taken together */
    struct yokei_peer *peers; /* [size] */
    /* pair_send, pair_recv: [size] lanes for send and recv; each is made when first used */
    struct yokei_lane lanes[YOKEI_LANES], **pair_send, **pair_recv;
    struct yokei_lane *lane_list[YOKEI_LANES];
    struct yokei_op *queue, **queue_end, *free_ops;
    uint32_t sequence, history;
    struct yokei_header recent[YOKEI_RECENT]; /* the latest calls; the index is the call's sequence number */
    struct yokei_segment *segment;            /* this rank's shared slots */
    int segment_fd;
    char no_segment[128]; /* why this rank has no segment */
    uint64_t segment_nonce;
    struct yokei_mpi_control *control;
    struct yokei_inject *inject; /* injects faults for tests; NULL: no faults */
    atomic_int error;            /* yoke_status, sticky */
    char error_text[1024];
    int culprit;        /* rank of the job that the error names */
    uint64_t broken_ns; /* when MPI reported an error; 0: it reported none */
    char broken_text[512];
    bool untold; /* It failed in a thread that may not call MPI. The other ranks are told later. */
    uint64_t watched_ns, proc_ns;
    uint64_t far_ns, network_ns; /* when other hosts' records were last looked at, and when the network was */
    int next_far;                /* the rank whose record on another host is looked at next */
    uint64_t published_ns;       /* when this rank's record was last sent to the other hosts */
    uint32_t n_polls;
    bool watch_soon;      /* the thread that waits for this communicator sleeps between two looks */
    atomic_int n_awaited; /* operations for whose end a thread waits in a call */
};

/* ---- process.c: the process's own state, creation of its flight record ---- */
yoke_status yokei_check_mpi(void); /* YOKE_EINVAL if MPI is not initialised */
/**
 * YOKE_EINVAL in a process that was forked from the one that started MPI, and made the communicator. Every
 * public call asks this before it touches anything. comm NULL: the call makes or uses no communicator.
 */
yoke_status yokei_check_process(const char *call, const yoke_comm *comm);
yoke_status yokei_process_begin(void);
void yokei_process_end(void); /* call this when the last communicator is gone */
/** Start the progress thread if it does not run, and wake it. The lock is held. */
yoke_status yokei_thread_start(void);
/** End the progress thread if it runs. The lock is not held. */
void yokei_thread_end(void);
/**
 * Like yoke_all_gather, for bytes in host memory, whatever the communicator's device is. The lock is not
 * held.
 */
yoke_status yokei_gather_on_host(yoke_comm *comm, const void *mine, void *all, size_t bytes);
/** Like yoke_all_reduce in place, for host memory. The lock is not held. */
yoke_status yokei_reduce_on_host(yoke_comm *comm, void *data, size_t count, yoke_dtype dtype,
                                 yoke_reduction op);
/** The barrier of yoke_comm_destroy. */
yoke_status yokei_final_barrier(yoke_comm *comm);

/* ---- comm.c ---- */
/**
 * Read chunk_bytes and no_shared of a configuration, or YOKE_CHUNK_BYTES and YOKE_NO_SHARED. *chunk_out is 0
 * if neither gives the chunk. YOKE_ECONFIG, YOKE_EINVAL.
 */
yoke_status yokei_read_messages(size_t chunk_bytes, bool no_shared, size_t *chunk_out, bool *no_shared_out);
/** The chunk as given, or the default, as a multiple of 64. */
size_t yokei_chunk_bytes(size_t given);
/**
 * Create a communicator that the other ranks do not know yet. If this function fails, *comm_out may still be
 * set, because the caller must still tell the other ranks of the failure.
 */
yoke_status yokei_comm_new(int rank, int size, yoke_device *device, const struct yoke_comm_config *config,
                           yoke_comm **comm_out);
/** Put the communicator into use, or destroy it if `status` is an error. The lock is held. */
yoke_status yokei_comm_enter(yoke_comm *comm, yoke_status status, yoke_comm **comm_out);
/**
 * Write the communicator's name and this rank's number to the flight record. From then on the communicator is
 * the caller's.
 */
void yokei_comm_record(const yoke_comm *comm);
/** The configuration that a communicator made from this one inherits. */
struct yoke_comm_config yokei_comm_config(const yoke_comm *comm, const char *name);
/**
 * If *value is 0, read the environment variable into it: a whole number of at least `least`. An unset
 * variable leaves 0. YOKE_ECONFIG if the text is not such a number.
 */
yoke_status yokei_read_number(const char *variable, int64_t least, int64_t *value);

/* ---- start_stop.c ---- */
/** Whether yoke_mpi_stop did not call MPI_Finalize, or gave up waiting for it. */
bool yokei_finalize_was_left(void);

/* ---- setup.c: what the ranks tell each other when a communicator is made ---- */
/**
 * Exchange the peers' data. Collective. `status` is this rank's result so far. If one rank has an error, all
 * ranks fail. comm is NULL for a rank that could not make its part; then `status` says why. `name` is the
 * name of the communicator.
 */
yoke_status yokei_setup(yoke_comm *comm, MPI_Comm mpi_comm, const char *name, yoke_status status);
/**
 * The same exchange over a communicator that works. members[r] is the rank in `parent` of rank r of `comm`.
 * All ranks of parent call. comm is NULL for a rank that will be in no new communicator, or that could not
 * make its part (`status`).
 */
yoke_status yokei_setup_within(yoke_comm *comm, yoke_comm *parent, const int members[], yoke_status status);
/**
 * The data that this rank tells the others. comm NULL: only `status` and the reason for it. The second
 * function maps the record of rank r, from what rank r has told.
 */
void yokei_describe_self(yoke_comm *comm, struct yokei_peer_info *info, yoke_status status);
void yokei_map_record(yoke_comm *comm, int r);
/**
 * From what all ranks have told: check that they agree, and set the communicator's context and uid. The
 * result is the same on all ranks.
 */
yoke_status yokei_agree(yoke_comm *comm);
/** All ranks are known now: count the ranks on this host and their processors. */
void yokei_count_host(yoke_comm *comm);
/** Leave the process set and unmap the peers. */
void yokei_setup_undo(yoke_comm *comm);

/* ---- crowd.c ---- */
/** Number of threads that compute for this rank on the host while it uses the communicator's device. */
int yokei_own_threads(const yoke_comm *comm);
/**
 * On the job's first rank, once: warn if the ranks of its host have more threads than cores and are not bound
 * to cores.
 */
void yokei_warn_of_crowd(const yoke_comm *comm);

/* ---- hosts.c ---- */
yoke_status yokei_hosts_begin(yoke_comm *comm); /* allocates the arrays; at first each rank is alone */
void yokei_hosts_end(yoke_comm *comm);
/**
 * Group the ranks by shared memory: rank a sees b's segment if sees[a * width + b] has `bit`. All ranks pass
 * the same input.
 */
void yokei_hosts_find(yoke_comm *comm, const char *sees, size_t width, int bit);
/** All ranks are on one host. */
void yokei_hosts_one(yoke_comm *comm);

/* ---- call_check.c ---- */
uint32_t yokei_hash32(const void *data, size_t bytes, uint32_t seed);

/* ---- costs.c: the cost model ---- */
yoke_status yokei_costs_read(const char *text, struct yokei_costs *costs);
void yokei_costs_text(const struct yokei_costs *costs, char *text_out, size_t bytes);
/** Measure the costs with all ranks, or use an earlier measurement. Collective. The lock is not held. */
yoke_status yokei_costs_begin(yoke_comm *comm);
/**
 * All ranks hear whether each of them has the memory for a measurement. YOKE_ENOMEM names the first rank that
 * has not. *any_out (may be NULL): before, whether something holds on this rank; after, whether it holds on
 * any rank. Collective. The lock is not held.
 */
yoke_status yokei_all_have_room(yoke_comm *comm, bool has_room, bool *any_out);
/** Copy the costs of the communicator from which this one was made. */
void yokei_costs_inherit(yoke_comm *comm, const yoke_comm *parent);

/* ---- shares.c: how the ranks divide sums ---- */
yoke_status yokei_shares_begin(yoke_comm *comm); /* allocates the arrays; at first the shares are equal */
void yokei_shares_end(yoke_comm *comm);
/** Read the shares from the configuration's text, else from YOKE_SUM_SHARES. */
yoke_status yokei_shares_read(yoke_comm *comm, const char *text);
/** A hash of the shares that were read; 0: none were. */
uint32_t yokei_shares_hash(const yoke_comm *comm);
/**
 * Compute the slices once the ranks and hosts are known. They follow the shares that were read, else the
 * speeds in sixteenths. With speeds NULL they are equal. The lock is held.
 */
void yokei_shares_settle(yoke_comm *comm, const uint32_t speeds[]);
/**
 * Take the shares that the configuration gives, else the shares that the members had in `parent`. The lock is
 * held.
 */
void yokei_shares_inherit(yoke_comm *comm, const yoke_comm *parent);
/** The shares in the form of the configuration; "" if the text is too long. */
void yokei_shares_text(const yoke_comm *comm, char *text_out, size_t bytes);
/**
 * Where slice j of n begins in `length` elements, at a multiple of `unit`. j == n: where the last slice ends.
 * before NULL: equal slices.
 */
size_t yokei_slice_begin(const uint32_t *before, int n, size_t length, size_t unit, int j);

/* ---- speeds.c: how fast each rank sums ---- */
enum { YOKEI_PROBE_BYTES = 64 << 10 };
/**
 * Sum once, as in the measurements of speeds and costs: the first half of data [2 YOKEI_PROBE_BYTES] += the
 * second half, in f32.
 */
void yokei_sum_once(float *data);
/**
 * Measure how fast each rank sums. speeds_out[r] is in sixteenths of the fastest rank's speed, the same on
 * all ranks. Collective. The lock is not held.
 */
yoke_status yokei_speeds_measure(yoke_comm *comm, uint32_t speeds_out[]);
/**
 * Convert bytes per second to sixteenths. same[r] is the first rank of r's group, and the ranks of a group
 * get the mean of their rates.
 */
void yokei_speeds_compare(double rates[], const int same[], int n, uint32_t speeds_out[]);

/* ---- alloc.c ---- */
/** Where a buffer lies in memory of yoke_comm_alloc; id 0: elsewhere. The lock is held. */
void yokei_find_allocation(const yoke_comm *comm, const void *address, size_t bytes, uint32_t *id_out,
                           uint64_t *offset_out);
/** The same place in rank r's part, at the address where this rank sees it. */
char *yokei_in_allocation(const yoke_comm *comm, int r, uint32_t id, uint64_t offset, size_t bytes);
void yokei_free_allocations(yoke_comm *comm);

/* ---- footprint.c: bytes of the buffers that communicators hold outside shared memory ---- */
void yokei_hold(size_t bytes);
void yokei_let_go(size_t bytes);
/** The sum over all communicators of the process. Buffers that are left to MPI after an error still count. */
size_t yokei_held(void);

/* ---- shrink_files.c: yoke_comm_shrink by files, between ranks that do not all share memory ---- */
/**
 * Whether this rank can read the records of all other ranks, which means that they share a run directory. The
 * lock is held.
 */
bool yokei_shrink_has_folder(yoke_comm *comm);
/** Write this rank's post for the other ranks to read, once for each shrink number. YOKE_EIO. */
yoke_status yokei_shrink_say(const yoke_comm *comm, const struct yokei_shrink_post *post);
/** Read the post of rank r. If rank r has written it, post_out->number is `number`. */
bool yokei_shrink_hear(const yoke_comm *comm, int r, uint32_t number, struct yokei_shrink_post *post_out);
/**
 * Propose posts[0..size) as the decision. This rank's own post says which ranks are left out. The proposal
 * becomes the decision if there is none yet. YOKE_EIO.
 */
yoke_status yokei_shrink_propose(const yoke_comm *comm, uint32_t number,
                                 const struct yokei_shrink_post posts[]);
/**
 * Read the decision, if there is one: posts_out[0..size) as the deciding rank saw them, and the number of
 * that rank.
 */
bool yokei_shrink_decided(const yoke_comm *comm, uint32_t number, struct yokei_shrink_post posts_out[],
                          int *winner_out);

/* ---- roll.c, beside what roll.h has ---- */
/** Note what a rank has told of itself, so that its process can be watched if it has no agent. */
void yokei_roll_note(const struct yokei_peer_info *info);

/* ---- leave.c ---- */
/**
 * End MPI without MPI_Finalize when all ranks have come here. This is for several hosts under MPICH's
 * launcher. *left_out false: the caller must call MPI_Finalize. The errors are those of yokei_roll_look.
 */
yoke_status yokei_leave_launcher(bool *left_out);

/* ---- finalize.c ---- */
/**
 * Under yoke run: make sure that the process ends if the program's own MPI_Finalize does not return. That can
 * happen if a rank died, or between hosts. One call is enough.
 */
void yokei_finalize_watch(void);
/** yoke_mpi_stop calls MPI_Finalize, and watches the call itself. */
void yokei_finalize_is_ours(void);

#endif
