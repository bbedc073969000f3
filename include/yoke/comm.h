/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Yoke, collectives over MPI, between any mix of devices. The only header that includes mpi.h.
 *
 * Argument order is NCCL's. Every rank issues the collectives of one communicator in the same order with matching
 * arguments: this is checked, and a mismatch is the same error on all ranks. Buffers are host memory when the
 * communicator was created without a device, else that device's memory. A NULL stream blocks until the result is there;
 * with a stream the call returns at once and the result is ordered with the stream's other work.
 * No call waits for ever: see timeout_ms and stall_ms. All ranks end with the same bits.
 *
 * Threads. Where MPI has threads (MPI_THREAD_MULTIPLE, which yoke_mpi_start asks for), calls may come from any thread. Elsewhere all of
 * them come from the thread that made the first communicator, except yoke_comm_abort, yoke_comm_error, yoke_comm_busy, rank, size and host,
 * which may always come from any thread.
 * A communicator runs its calls in the order in which they come, and that order must be the same on all ranks: so one thread at a
 * time uses a communicator, and threads that work at the same time have one each. These go on side by side; inside the library they take
 * turns at one lock of the process, so threads add order and overlap, not speed.
 * yoke_comm_create is called by one thread of the process at a time, for the same communicator on all ranks; the process's other
 * communicators stand still until all ranks have called it. yoke_comm_split, shrink, alloc and free are collectives like others.
 * yoke_comm_destroy comes when no other thread uses the communicator any more, also not for yoke_comm_abort.
 * yoke_group_start begins a group of the calling thread; calls of other threads are not part of it. Asynchronous operations are carried
 * on by a thread of the library, in which all signals are blocked and which ends with the last communicator.
 */
#ifndef YOKE_COMM_H
#define YOKE_COMM_H

#include <mpi.h>
#include <yoke/algorithms.h>
#include <yoke/base.h>
#include <yoke/device.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct yoke_comm yoke_comm;

typedef enum yoke_reduction { YOKE_SUM, YOKE_AVG, YOKE_MIN, YOKE_MAX, YOKE_PROD, YOKE_N_REDUCTIONS } yoke_reduction;
const char *yoke_reduction_name(yoke_reduction op);

enum yoke_accum {
    YOKE_ACCUM_F32 = 0, /* 16-bit data is summed in f32 across all ranks and rounded once */
    YOKE_ACCUM_NATIVE,  /* rounded to the data's type at each hop: fewer bytes on the wire */
};
enum yoke_reproducible {
    YOKE_REPRODUCIBLE_RUN = 0, /* the same bits on all ranks, and in each run of the same program on the same machines */
    YOKE_REPRODUCIBLE_SHAPE,   /* each element is ((x0 + x1) + x2) + …, rounded once: the same bits whatever the count, its
                                  place, the chunks, the number of hosts, and the devices; accum is f32 then */
};
enum yoke_check {
    YOKE_CHECK_HEADER = 0, /* every message says which call it belongs to and is numbered; both under a checksum: calls that
                              differ, and messages that are lost, doubled or damaged in these 64 bytes, are errors */
    YOKE_CHECK_OFF,        /* none of it: for measurements */
    YOKE_CHECK_FULL,       /* the data of messages is under the checksum too: for memory or networks that are in doubt */
};
enum yoke_wait { YOKE_WAIT_AUTO = 0, YOKE_WAIT_SPIN, YOKE_WAIT_YIELD, YOKE_WAIT_SLEEP };

#define YOKE_NO_TIMEOUT ((int64_t)1 << 41) /* milliseconds: 70 years */

/** Zero means the default everywhere. Compared between the ranks at creation. */
struct yoke_comm_config {
    size_t size;
    const char *name;      /* for messages; default "world" */
    enum yoke_accum accum;
    enum yoke_wait wait;
    int64_t timeout_ms;    /* a rank that is alive but has not called; default 600000, YOKE_TIMEOUT_MS. YOKE_NO_TIMEOUT: it may take as long as it
                              likes, whatever the variable says, and no warning comes; only a rank that died, was stopped or is stuck ends the wait */
    int64_t stall_ms;      /* a rank that entered and makes no progress; default 10000, YOKE_STALL_MS */
    size_t chunk_bytes;    /* of the pipelines; default chosen by size, YOKE_CHUNK_BYTES */
    const char *algorithm; /* of all_reduce: one of YOKE_ALGORITHMS that can be named, or "auto": by size; NULL: YOKE_ALGORITHM, else "auto".
                              hierarchy is what ranks on several hosts use that share memory on some of them; elsewhere it is as if none were named */
    enum yoke_reproducible reproducible; /* YOKE_REPRODUCIBLE=off|shape, where it is set, counts instead of this */
    const char *costs;     /* the cost model, as yoke_comm_explain gives it; NULL: YOKE_COSTS, else measured at creation */
    enum yoke_check check; /* default YOKE_CHECK=off|header|full, else header */
    bool no_shared;        /* messages over MPI also between ranks that could share memory; YOKE_NO_SHARED=1 */
    const char *shares;    /* of the sums of long data, see "Shares of the ranks"; NULL: YOKE_SUM_SHARES, else measured with the costs */
};
#define YOKE_COMM_CONFIG_INIT YOKE_SIZED(yoke_comm_config)

/**
 * Shares of the ranks. In all_reduce and reduce of data that is too long for one shot each rank sums one slice, and all wait for the
 * slowest; so a rank whose sums are slow gets a shorter one. The text is one of
 *   "3:1:1:1"           a whole number from 0 to 1000 for each rank of the communicator; N*K stands for K ranks of N: "3:1*3". Rank r sums
 *                       slices of share[r] / sum of the shares; with 0 it sums nothing, and shows and takes its data as ever. Not all 0.
 *   "equal"             1 for each
 *   "measured:16:8"     speeds of the ranks, as yoke_comm_explain gives them after a measurement: slices are such that all are done at one
 *                       time, with what a rank does beside its sums
 *   "auto"              measured, whatever YOKE_SUM_SHARES says
 * YOKE_SUM_SHARES has a number for each rank of the job, and each communicator uses those of its members; so does one that is made by split or
 * shrink, of its parent's. Where the costs are given and the shares are not, they are equal.
 *
 * Measured: bytes that a rank sums per second while all do, in sixteenths of the fastest; without the stretches of half a millisecond
 * and more in which its core does something else, because all ranks stand still then, whatever the shares. Ranks of one host that may
 * run on the same processors count as equal, since what slows one of them down now is beside another one soon; so do differences of
 * less than a fifth.
 *
 * Where elements are added in the order of the ranks (slices, direct, exchange; the hierarchy, except over a ring of hosts) shares change
 * no bits. In a ring the slice decides where an element's sum begins: there measured shares are not used, because they may differ from
 * run to run, and given ones are. Slices begin at multiples of 16 elements (direct: 64). In the hierarchy ranks in the same place of their
 * hosts have a slice in common; it goes by the slowest of them. If these leave nobody who sums, all goes by messages.
 */

/**
 * Start MPI in a process that has not started it itself, with threads where MPI offers them, and with UCX_POSIX_DIR set where
 * /dev/shm is too small for it; *world_out gets a
 * communicator for yoke_comm_create. `yoke run` says how many ranks it started (YOKE_EXPECT_SIZE): fewer means that
 * another MPI's launcher started this program, and is YOKE_ECONFIG. Sets UCX_RNDV_THRESH=512k before MPI starts, unless it is set
 * or the host has an RDMA adapter: over tcp, messages that are sent without asking first are faster.
 * yoke_mpi_stop ends MPI, whoever started it, unless a collective failed: then MPI may not be finalised, and it does
 * nothing. Collective. Between hosts that MPICH's launcher serves it says good-bye to the launcher itself, since MPI_Finalize does
 * not always return there; the program calls nothing of MPI after it. Else, where MPI has threads, it waits for MPI_Finalize for
 * 3 s and then goes on without it, with a warning: the process ends by _exit then, after its output is flushed, with the code that
 * main returned or exit was given. Errors: YOKE_EDEAD, and a rank's own error, where that rank died, was stopped or ended with a code before
 * the others had ended: they do not wait for it.
 */
yoke_status yoke_mpi_start(MPI_Comm *world_out);
yoke_status yoke_mpi_stop(void);

/**
 * A communicator over the ranks of `mpi_comm`. Collective; waits for the others, but not blocked inside MPI.
 * device NULL: host buffers. config NULL: defaults. Errors: YOKE_EMISMATCH (the ranks' configurations differ), YOKE_ENOMEM, YOKE_EDEAD (a rank
 * died or was stopped; as soon as in collectives, where the ranks' records can be seen: under yoke run, or with YOKE_RUN_DIR),
 * YOKE_ETIMEOUT (a rank that lives has not called within timeout_ms). After the last two MPI is not finalised any more. Where a rank fails in the
 * last steps, others may have come past them: then the communicator is made, and its next call has the error.
 */
yoke_status yoke_comm_create(MPI_Comm mpi_comm, yoke_device *device, const struct yoke_comm_config *config,
                             yoke_comm **comm_out);
/** Collective, unless the communicator has failed: then it returns at once and touches no MPI. YOKE_EINVAL: destroyed already, or none. */
yoke_status yoke_comm_destroy(yoke_comm *comm);
/**
 * New communicators of ranks of this one, each of those that gave the same `color` >= 0, in the order of `key`, and of rank
 * where keys are equal; YOKE_NO_COLOR: in none, and *comm_out is NULL. Over the same device. config NULL: as this one's, and
 * the color is added to the name. Collective over all ranks of `comm`, through its own collectives: nothing blocks inside MPI.
 * Errors: YOKE_EINVAL, YOKE_EMISMATCH (configurations differ within a color), YOKE_ENOMEM, and those of `comm`.
 */
#define YOKE_NO_COLOR (-1)
yoke_status yoke_comm_split(yoke_comm *comm, int color, int key, const struct yoke_comm_config *config, yoke_comm **comm_out);
/**
 * A new communicator without ranks that failed: those whose processes are gone, the one that the error of `comm` names as
 * dead, stopped, stuck or late, and without[0..n_without). The rest keep their order. Called by all that remain, at any time
 * after the failure; also on a communicator that works, then ranks that are left out need not call. Calls nothing of MPI, and
 * waits for at most timeout_ms for the others. `comm` is still to be destroyed. Who dies meanwhile fails the new one: shrink that.
 * A rank that the error names and that calls all the same stays where another is gone, for which it may have waited itself.
 * Over several hosts the ranks agree by files in the run directory, which all of them must see, as under yoke run; it is never decided
 * twice, whatever is lost on the way. Then messages go on over MPI between those that are left.
 * Errors: YOKE_EDEAD (this rank was left out), YOKE_ETIMEOUT (a rank lives and does not call), YOKE_ENOMEM, YOKE_EIO (of these files),
 *         YOKE_EUNSUPPORTED (ranks that share neither memory nor a run directory, or more than 1,024 ranks), on all that called alike.
 */
yoke_status yoke_comm_shrink(yoke_comm *comm, const int without[], int n_without, yoke_comm **comm_out);
/** End all operations in flight on all ranks with YOKE_EABORTED, in bounded time. From any thread. */
yoke_status yoke_comm_abort(yoke_comm *comm, const char *reason);
int yoke_comm_rank(const yoke_comm *comm);
int yoke_comm_size(const yoke_comm *comm);
/**
 * The host of a rank, counted from 0 in the order of the hosts' lowest ranks: ranks of one host see each other's memory, or, where none
 * does (YOKE_NO_SHARED), run under one boot of one system with the same YOKE_HOST_ID. The same on all ranks; -1: no such rank. Local.
 */
int yoke_comm_host(const yoke_comm *comm, int rank);
/** YOKE_OK while the communicator works, else its sticky error (and the thread's error text is set to it). */
yoke_status yoke_comm_error(yoke_comm *comm);
/** Mark this rank as busy outside collectives (compiling, saving): nobody calls it stuck. Ends at the next collective. */
yoke_status yoke_comm_busy(yoke_comm *comm, const char *what);

/**
 * What a call with these arguments would do, from facts that all ranks share: no communication. `collective` is the call's name
 * without yoke_ ("all_reduce"), `count` its argument of that name (of the _v forms the longest). reduction is looked at where the
 * call has one. Errors: YOKE_EINVAL.
 */
struct yoke_comm_plan {
    size_t size;         /* set by yoke_comm_explain */
    char algorithm[32];
    size_t chunk_bytes;  /* of the data that a rank works on in one piece */
    int n_lanes;         /* chunks in flight */
    double predicted_us; /* by the cost model: for ranks that come together, each on a core of its own, in memory that the host sees; 0: the
                            model has no figures for it, as of messages between ranks that share memory */
    char why[384];
    char costs[256];     /* the model: "sync_us=0.25,...", fit for the configuration and YOKE_COSTS */
    char shares[256];    /* of the ranks, fit for the configuration; "": too long for this field */
};
#define YOKE_COMM_PLAN_INIT YOKE_SIZED(yoke_comm_plan)
yoke_status yoke_comm_explain(yoke_comm *comm, const char *collective, size_t count, yoke_dtype dtype, yoke_reduction reduction,
                              struct yoke_comm_plan *plan_out);

/** A communicator that is not made yet, for yoke_comm_memory_plan. Zero means the default. */
struct yoke_comm_shape {
    size_t size;
    int n_ranks;
    size_t chunk_bytes;      /* as in the configuration, YOKE_CHUNK_BYTES included */
    bool no_shared;          /* likewise */
    bool is_far;             /* not all of the ranks see each other's memory: they are on several hosts */
    bool is_staged;          /* over a device whose memory the host does not see */
    int n_sends, n_receives; /* other ranks that this one gives data by yoke_send, and takes it from by yoke_recv */
};
#define YOKE_COMM_SHAPE_INIT { sizeof(struct yoke_comm_shape), 1, 0, false, false, false, 0, 0 }

/** Host memory of a communicator on one rank, in bytes. */
struct yoke_comm_memory {
    size_t size;
    size_t shared;        /* this rank's part of what the ranks of its host see: whole from the start. It maps the others' parts, too */
    size_t private_bytes; /* what it works with besides: bookkeeping, buffers of messages over MPI, staging of device memory */
    size_t reserved;      /* address space of buffers that nothing touches while the ranks share memory */
    bool is_far;          /* some messages go over MPI */
};
#define YOKE_COMM_MEMORY_INIT YOKE_SIZED(yoke_comm_memory)
/**
 * What a communicator takes on each of its ranks, without making it: exactly what is mapped and allocated then, private_bytes and reserved
 * together. The lists that operations keep of their calls (some KiB) and memory of yoke_comm_alloc come to it, and what MPI itself takes.
 * Errors: YOKE_EINVAL (no ranks, a negative number), YOKE_ECONFIG (YOKE_CHUNK_BYTES, YOKE_NO_SHARED).
 */
yoke_status yoke_comm_memory_plan(const struct yoke_comm_shape *shape, struct yoke_comm_memory *memory_out);
/** What this one has taken so far. */
yoke_status yoke_comm_memory(const yoke_comm *comm, struct yoke_comm_memory *memory_out);

/**
 * Memory of this rank that the other ranks of its host see too: collectives whose buffers all lie in such memory copy
 * nothing aside. Collective, with the same size on all ranks; free is called by all ranks in the same place among the
 * communicator's collectives, and destroying the communicator frees what is left. Where ranks do not share memory it is
 * memory as any other. Owned by the communicator, page-aligned, zeroed.
 * Errors: YOKE_ENOMEM, YOKE_EMISMATCH (sizes), YOKE_EUNSUPPORTED (a communicator of a device), on all ranks alike. yoke_comm_free:
 * YOKE_EINVAL for an address that was freed already, lies inside such memory, or is other memory; nothing is touched then.
 */
yoke_status yoke_comm_alloc(yoke_comm *comm, size_t bytes, void **memory_out);
yoke_status yoke_comm_free(yoke_comm *comm, void *memory);

/**
 * recv[i] = op over all ranks of send[i]. In place: send == recv.
 * Types:  all; avg not of integers, whose sums and products wrap around. Rounds: see yoke_accum; avg is the sum / p, in f32 (f64 of
 *         f64): exact where the average is.
 * Errors: YOKE_EINVAL, YOKE_EUNSUPPORTED, YOKE_EMISMATCH, YOKE_EDATA (see yoke_check), YOKE_ETIMEOUT, YOKE_EDEAD, YOKE_EABORTED
 * Bound:  f32: gamma(p - 1) sum |x|; 16-bit with accum f32: u |ref| more; native: (p - 1) u sum |x|
 */
yoke_status yoke_all_reduce(const void *send, void *recv, size_t count, yoke_dtype dtype, yoke_reduction op,
                            yoke_comm *comm, yoke_stream *stream);
/** recv[0..recv_count) = slice `rank` of the reduction of send[0..size * recv_count). In place: recv == send + rank * recv_count. */
yoke_status yoke_reduce_scatter(const void *send, void *recv, size_t recv_count, yoke_dtype dtype, yoke_reduction op,
                                yoke_comm *comm, yoke_stream *stream);
/** recv[r * send_count ...] = rank r's send. In place: send == recv + rank * send_count. */
yoke_status yoke_all_gather(const void *send, void *recv, size_t send_count, yoke_dtype dtype, yoke_comm *comm,
                            yoke_stream *stream);
/** recv = root's send on every rank. In place: send == recv; send is looked at on the root only. */
yoke_status yoke_broadcast(const void *send, void *recv, size_t count, yoke_dtype dtype, int root, yoke_comm *comm,
                           yoke_stream *stream);
/** Slices of explicit element counts, one per rank, all ranks passing the same counts (uneven shards, 0 too). In place at the rank's own slice. */
yoke_status yoke_reduce_scatter_v(const void *send, void *recv, const size_t counts[], yoke_dtype dtype,
                                  yoke_reduction op, yoke_comm *comm, yoke_stream *stream);
yoke_status yoke_all_gather_v(const void *send, void *recv, const size_t counts[], yoke_dtype dtype, yoke_comm *comm,
                              yoke_stream *stream);
/** recv on the root = op over all ranks of send; recv is looked at on the root only. Else as yoke_all_reduce. */
yoke_status yoke_reduce(const void *send, void *recv, size_t count, yoke_dtype dtype, yoke_reduction op, int root,
                        yoke_comm *comm, yoke_stream *stream);
/** recv[r * count ...] on the root = rank r's send. In place on the root: send == recv + root * count. */
yoke_status yoke_gather(const void *send, void *recv, size_t count, yoke_dtype dtype, int root, yoke_comm *comm,
                        yoke_stream *stream);
/** recv = the root's send[rank * count ...]. In place on the root: recv == send + root * count. */
yoke_status yoke_scatter(const void *send, void *recv, size_t count, yoke_dtype dtype, int root, yoke_comm *comm,
                         yoke_stream *stream);
/** The same with an element count per rank, all ranks passing the same counts. */
yoke_status yoke_gather_v(const void *send, void *recv, const size_t counts[], yoke_dtype dtype, int root,
                          yoke_comm *comm, yoke_stream *stream);
yoke_status yoke_scatter_v(const void *send, void *recv, const size_t counts[], yoke_dtype dtype, int root,
                           yoke_comm *comm, yoke_stream *stream);
/** recv[r * count ...] = what rank r has in send[rank * count ...]. Not in place. */
yoke_status yoke_all_to_all(const void *send, void *recv, size_t count, yoke_dtype dtype, yoke_comm *comm,
                            yoke_stream *stream);
/**
 * The same with counts of this rank's own: send_counts[r] elements go to rank r and recv_counts[r] come from it, slices
 * one after another in both buffers. What rank a sends to b must be what b receives from a: checked pair by pair.
 */
yoke_status yoke_all_to_all_v(const void *send, const size_t send_counts[], void *recv, const size_t recv_counts[],
                              yoke_dtype dtype, yoke_comm *comm, yoke_stream *stream);
/** Point to point. Opposing sends and receives need a group. */
yoke_status yoke_send(const void *send, size_t count, yoke_dtype dtype, int peer, yoke_comm *comm, yoke_stream *stream);
yoke_status yoke_recv(void *recv, size_t count, yoke_dtype dtype, int peer, yoke_comm *comm, yoke_stream *stream);
/**
 * The same without a stream, for devices whose streams run at once what they are given (host): the data must be there when it is called,
 * which returns at once, and `done` (of the communicator's device) is complete when the data was taken, or has arrived, or the
 * communicator has failed, which its next call says. One event per call in flight. A communicator's operations run one after another, so
 * opposing transfers need one for each direction. Not in a group. Where MPI has no threads (MPI_THREAD_MULTIPLE) they block.
 */
yoke_status yoke_isend(const void *send, size_t count, yoke_dtype dtype, int peer, yoke_comm *comm, yoke_event *done);
yoke_status yoke_irecv(void *recv, size_t count, yoke_dtype dtype, int peer, yoke_comm *comm, yoke_event *done);
/** What goes to, or comes from, one peer. A plain value. */
struct yoke_piece {
    void *data;
    size_t count;
    int peer;
};
/** The same with several pieces at once, n >= 1: `done` is complete when all of them are over. Pieces of one peer go in their order. */
yoke_status yoke_isend_pieces(const struct yoke_piece pieces[], int n, yoke_dtype dtype, yoke_comm *comm, yoke_event *done);
yoke_status yoke_irecv_pieces(const struct yoke_piece pieces[], int n, yoke_dtype dtype, yoke_comm *comm, yoke_event *done);
/** Sums and gathers in the same way: begun at once, they go on beside what the caller computes; the buffers are in use until `done`. */
yoke_status yoke_iall_reduce(const void *send, void *recv, size_t count, yoke_dtype dtype, yoke_reduction op, yoke_comm *comm,
                             yoke_event *done);
yoke_status yoke_ireduce_scatter_v(const void *send, void *recv, const size_t counts[], yoke_dtype dtype, yoke_reduction op, yoke_comm *comm,
                                   yoke_event *done);
yoke_status yoke_iall_gather_v(const void *send, void *recv, const size_t counts[], yoke_dtype dtype, yoke_comm *comm, yoke_event *done);
/**
 * Between start and end, calls on any communicator are collected and then progressed together. Small sums (up to 16 KiB) of one
 * communicator, type and reduction that follow each other run as one collective, and count as one where calls are numbered.
 */
yoke_status yoke_group_start(void);
yoke_status yoke_group_end(void);
/** Returns when every rank has called. */
yoke_status yoke_barrier(yoke_comm *comm, yoke_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
