/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Yoke's collectives over MPI, between any mix of devices. Only this header includes mpi.h.
 *
 * The arguments are in NCCL's order. Every rank issues the collectives of one communicator in the same order
 * and with matching arguments. Yoke checks this, and a mismatch is the same error on all ranks.
 * If a communicator was created without a device, its buffers are host memory. Otherwise they are memory of
 * the communicator's device.
 * With a NULL stream a call blocks until the result is there. With a stream the call returns at once, and the
 * result is ordered with the stream's other work. On a foreign CUDA queue (yoke_stream_wrap) the call waits
 * for the queue's work so far, and returns when the result is there.
 * No call waits for ever: see timeout_ms and stall_ms. All ranks end with the same bits.
 * If one rank alone has no memory for its part of a call, the communicator fails on all ranks with
 * YOKE_ENOMEM, and the text names that rank.
 *
 * Threads. Calls may come from any thread if MPI offers MPI_THREAD_MULTIPLE, which yoke_mpi_start asks for.
 * Otherwise all calls must come from the thread that made the first communicator. Only yoke_comm_abort,
 * yoke_comm_error, yoke_comm_busy, yoke_comm_rank, yoke_comm_size and yoke_comm_host may always come from any
 * thread.
 * A communicator runs its calls in the order in which they come, and this order must be the same on all
 * ranks. So only one thread at a time uses a communicator, and threads that work at the same time have one
 * communicator each. These communicators run side by side. Inside the library the threads take turns at one
 * lock of the process, so threads add order and overlap, but no speed.
 * One thread of the process at a time calls yoke_comm_create, for the same communicator on all ranks. The
 * process's other communicators stand still until all ranks have called it. yoke_comm_split, shrink, alloc
 * and free are collectives like any other.
 * Call yoke_comm_destroy when no other thread uses the communicator any more, not even for yoke_comm_abort.
 * yoke_group_start begins a group of the calling thread. Calls of other threads are not part of the group.
 * A thread of the library carries asynchronous operations on. All signals are blocked in this thread, and it
 * ends with the last communicator.
 *
 * Signals. The library installs no signal handler. It maps the flight records of the folder YOKE_RUN_DIR into
 * memory. If another program shortens such a file, the next access raises SIGBUS, as for every mapped file.
 *
 * fork. A process that a rank makes by fork is no rank. MPI and all communicators belong to the rank, so in
 * the new process every call returns YOKE_EINVAL with a text that names both processes. It touches nothing
 * that ranks share, so the job goes on. yoke_comm_rank, yoke_comm_size and yoke_comm_host still answer.
 * yoke_comm_destroy and yoke_mpi_stop succeed: the first frees memory of this process only, the second does
 * nothing. A group that the rank had begun does not exist in the new process. Like device.h, this holds for
 * fork, but not for _Fork and the raw system call clone.
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

typedef enum yoke_reduction {
    YOKE_SUM,
    YOKE_AVG,
    YOKE_MIN,
    YOKE_MAX,
    YOKE_PROD,
    YOKE_N_REDUCTIONS
} yoke_reduction;
const char *yoke_reduction_name(yoke_reduction op);

enum yoke_accum {
    YOKE_ACCUM_F32 = 0, /* 16-bit data is summed in f32 across all ranks and rounded once */
    YOKE_ACCUM_NATIVE,  /* each hop rounds to the data's type, so fewer bytes go on the wire */
};
enum yoke_reproducible {
    /* the same bits on all ranks, and in each run of the same program on the same machines */
    YOKE_REPRODUCIBLE_RUN = 0,
    /* Each element is ((x0 + x1) + x2) + ..., rounded once. Its bits do not depend on the count, the
       element's place, the chunks, the number of hosts or the devices. accum is then f32. */
    YOKE_REPRODUCIBLE_SHAPE,
};
enum yoke_check {
    /* Every message has a header of 64 bytes with its call, its number and a checksum of the header. Calls
       that differ are errors. So are messages that are lost, doubled, or damaged in the header. */
    YOKE_CHECK_HEADER = 0,
    YOKE_CHECK_OFF, /* no checks, for measurements */
    /* The checksum covers the messages' data too. Use this if memory or networks are in doubt. */
    YOKE_CHECK_FULL,
};
enum yoke_wait { YOKE_WAIT_AUTO = 0, YOKE_WAIT_SPIN, YOKE_WAIT_YIELD, YOKE_WAIT_SLEEP };
/** How the algorithm `hierarchy` groups the ranks, see "Islands" below. */
enum yoke_island {
    YOKE_ISLAND_AUTO = 0, /* by host; by vendor where the cost model says that this is faster */
    YOKE_ISLAND_VENDOR,   /* ranks that share memory and have devices of one vendor, or one label */
    YOKE_ISLAND_HOST,     /* ranks that share memory */
    YOKE_ISLAND_OFF,      /* no groups: a flat algorithm */
};

#define YOKE_NO_TIMEOUT ((int64_t)1 << 41) /* milliseconds: 70 years */

/**
 * Zero means the default in every field. The ranks compare their configurations when the communicator is
 * made.
 */
struct yoke_comm_config {
    size_t size;
    const char *name; /* name in messages to the user; default "world" */
    enum yoke_accum accum;
    enum yoke_wait wait;
    /* How long a rank that is alive may take to make the call; default YOKE_TIMEOUT_MS, else 600000. With
       YOKE_NO_TIMEOUT it may take as long as it likes, whatever the variable says, and no warning comes.
       Then only a rank that died, was stopped or is stuck ends the wait. */
    int64_t timeout_ms;
    /* how long a rank inside a call may make no progress; default YOKE_STALL_MS, else 10000 */
    int64_t stall_ms;
    size_t chunk_bytes; /* bytes of a pipeline's chunk; default YOKE_CHUNK_BYTES, else chosen by size */
    /* Algorithm of all_reduce: a name from YOKE_ALGORITHMS that can be named, or "auto" (chosen by size).
       NULL: YOKE_ALGORITHM, else "auto". "hierarchy" has an effect if the ranks are on several hosts, and
       some of them share memory. Otherwise it counts as "auto". */
    const char *algorithm;
    enum yoke_reproducible reproducible; /* YOKE_REPRODUCIBLE=run|shape, if set, overrides this field */
    /* the cost model in the form of yoke_comm_explain; NULL: YOKE_COSTS, else measured at creation */
    const char *costs;
    enum yoke_check check; /* default YOKE_CHECK=off|header|full, else header */
    bool no_shared; /* send messages over MPI also between ranks that could share memory; YOKE_NO_SHARED=1 */
    /* Shares of the ranks in the sums of long data, see "Shares of the ranks". NULL: YOKE_SUM_SHARES, else
       measured with the costs. */
    const char *shares;
    enum yoke_island island; /* default YOKE_ISLAND=auto|vendor|host|off, else auto; see "Islands" */
    const char *island_of;   /* labels of islands, see "Islands"; NULL: YOKE_ISLAND_OF */
};
#define YOKE_COMM_CONFIG_INIT YOKE_SIZED(yoke_comm_config)

/**
 * Shares of the ranks. In all_reduce and reduce, data may be too long for the one-shot algorithm. Then each
 * rank sums one slice, and all ranks wait for the slowest. So a rank that sums slowly gets a shorter slice.
 * The text has one of these forms:
 *   "3:1:1:1"           A whole number from 0 to 1000 for each rank of the communicator. N*K stands for K
 *                       ranks of N, as in "3:1*3". Rank r sums slices of share[r] / sum of the shares. A rank
 *                       with 0 sums nothing, but its data is part of the sum and it gets the result. Not all
 *                       numbers may be 0. Commas may stand for the colons.
 *   "equal"             1 for each rank
 *   "measured:16:8"     Speeds of the ranks, as yoke_comm_explain gives them after a measurement. The slices
 *                       are such that all ranks finish at the same time. What a rank does besides its sums
 *                       counts too.
 *   "auto"              measured, whatever YOKE_SUM_SHARES says
 * YOKE_SUM_SHARES has a number for each rank of the job, and each communicator uses the numbers of its
 * members. A communicator made by split or shrink does the same with its parent's shares. If the costs are
 * given and the shares are not, the shares are equal.
 *
 * Measured speeds are the bytes that each rank sums per second while all ranks sum, in sixteenths of the
 * fastest. A stretch of half a millisecond or more in which the rank's core does something else does not
 * count. During such a stretch all ranks stand still, whatever the shares are. Ranks of one host that may run
 * on the same processors count as equal, because what slows one of them down now soon runs beside another
 * one. Differences of less than a fifth also count as equal.
 *
 * Shares change no bits where elements are added in the order of the ranks: in slices, direct, exchange, and
 * in the hierarchy except over a ring of hosts. In a ring the slice decides at which rank an element's sum
 * begins. So a ring does not use measured shares, which may differ from run to run, but it does use given
 * shares. Slices begin at multiples of 16 elements (direct: 64). In the hierarchy, ranks in the same place of
 * their hosts have one slice together, and the slowest of these ranks decides its length. If the shares leave
 * no such group of ranks that sums, the call goes by messages.
 */

/**
 * Islands. An island is a group of ranks that first combine their data among themselves. Only the combined
 * data goes to other islands, so each byte crosses once in each direction. The ranks of an island share
 * memory. There are two groupings:
 *   host    All ranks that share memory are one island.
 *   vendor  The ranks of a host whose devices have the same vendor are one island: yoke_device_info.vendor,
 *           and "host" for ranks without a device.
 * With labels, the label of a rank takes the place of its vendor. `island_of` has a label of at most 15
 * letters for each rank of the communicator, and YOKE_ISLAND_OF for each rank of the job: "0,0,1,1",
 * "left*2,right*2" (the same with names). Use labels for a fabric that the library cannot see, such as two
 * groups of GPUs of one host. A communicator made by split or shrink uses the labels of its members.
 *
 * With YOKE_ISLAND_VENDOR a call runs by these islands if there are at least two of them, one of them has two
 * ranks or more, and `hierarchy` serves the call. Otherwise it runs as with YOKE_ISLAND_HOST.
 * With YOKE_ISLAND_AUTO the grouping is `vendor` if the cost model predicts less time for it. Only calls
 * whose bits do not depend on the grouping have this choice: calls without a reduction; reductions of
 * integers; min and max; and all sums if `reproducible` is shape.
 * With reproducible=shape no grouping may change the order of a sum. So all_reduce and reduce of long data
 * run by islands only if the ranks are numbered island by island, and reduce_scatter of long data never does.
 */

/**
 * Start MPI in a process that has not started it, with threads if MPI offers them. *world_out gets a
 * communicator for yoke_comm_create. Collective.
 * Environment: sets UCX_POSIX_DIR if /dev/shm is too small for UCX. Sets UCX_RNDV_THRESH=512k before MPI
 * starts, unless it is set or the host has an RDMA adapter. Over tcp, messages are faster if they are sent
 * without asking the receiver first.
 * `yoke run` says how many ranks it started (YOKE_EXPECT_SIZE). Fewer ranks mean that the launcher of another
 * MPI started this program, which is YOKE_ECONFIG.
 *
 * yoke_mpi_stop ends MPI, whoever started it. Collective. If a collective failed, MPI may not be finalised,
 * and yoke_mpi_stop does nothing.
 * Between hosts that MPICH's launcher serves, yoke_mpi_stop ends the connection to the launcher itself,
 * because MPI_Finalize does not always return there. The program must call nothing of MPI after it.
 * In other cases, where MPI has threads, it waits 3 s for MPI_Finalize. Then it warns and goes on without it.
 * In that case the process ends by _exit after its output is flushed, with the code that main returned or
 * that was given to exit.
 * Errors: YOKE_EDEAD or a rank's own error, if that rank died, was stopped, or ended with a code before the
 *         other ranks had ended. The other ranks do not wait for it.
 */
yoke_status yoke_mpi_start(MPI_Comm *world_out);
yoke_status yoke_mpi_stop(void);

/**
 * A communicator over the ranks of `mpi_comm`. Collective. The call waits for the other ranks, but does not
 * block inside MPI.
 * device NULL: host buffers. config NULL: defaults.
 * A rank's death is found as fast as in collectives if the ranks' records can be seen: under yoke run, or
 * with YOKE_RUN_DIR. After YOKE_EDEAD or YOKE_ETIMEOUT MPI is not finalised any more. If a rank fails in the
 * last steps, other ranks may already have passed them. Then they get a communicator, and its next call
 * returns the error.
 * Errors: YOKE_EMISMATCH (the ranks' configurations differ), YOKE_ENOMEM, YOKE_EDEAD (a rank died or was
 *         stopped), YOKE_ETIMEOUT (a living rank has not called within timeout_ms)
 */
yoke_status yoke_comm_create(MPI_Comm mpi_comm, yoke_device *device, const struct yoke_comm_config *config,
                             yoke_comm **comm_out);
/**
 * Collective, unless the communicator has failed. Then the call returns at once and touches no MPI.
 * YOKE_EINVAL: `comm` was destroyed already, or is no communicator.
 */
yoke_status yoke_comm_destroy(yoke_comm *comm);
/**
 * Split `comm` into new communicators, as MPI_Comm_split does: one for each `color` >= 0. Its ranks are in
 * the order of `key`, and in the order of their old ranks if keys are equal. With YOKE_NO_COLOR the rank is
 * in no new communicator, and *comm_out is NULL.
 * The new communicators use the same device. config NULL: the configuration of `comm`, with the color added
 * to the name.
 * Collective over all ranks of `comm`, through its own collectives, so nothing blocks inside MPI.
 * Errors: YOKE_EINVAL, YOKE_EMISMATCH (configurations differ within a color), YOKE_ENOMEM, and the errors of
 *         `comm`
 */
#define YOKE_NO_COLOR (-1)
yoke_status yoke_comm_split(yoke_comm *comm, int color, int key, const struct yoke_comm_config *config,
                            yoke_comm **comm_out);
/**
 * A new communicator without the ranks that failed. Three kinds of ranks are left out: ranks whose processes
 * are gone, the rank that the error of `comm` names as dead, stopped, stuck or late, and
 * without[0..n_without). The other ranks keep their order.
 * All remaining ranks call this, at any time after the failure. It also works on a communicator that has not
 * failed. Then the ranks that are left out need not call.
 * The call uses nothing of MPI, and waits at most timeout_ms for the other ranks. `comm` must still be
 * destroyed. If a rank dies meanwhile, the new communicator fails, and can be shrunk too. A rank that the
 * error names, but that calls all the same, stays if another rank is gone for which it may have waited
 * itself.
 * Over several hosts the ranks agree by files in the run directory, which all of them must see, as under yoke
 * run. There is only one decision, even if files or ranks are lost on the way. Afterwards the remaining ranks
 * exchange messages over MPI as before.
 * All ranks that called get the same error.
 * Errors: YOKE_EDEAD (this rank was left out), YOKE_ETIMEOUT (a rank lives and does not call), YOKE_ENOMEM,
 *         YOKE_EIO (the files of several hosts), YOKE_EUNSUPPORTED (the ranks share neither memory nor a run
 *         directory, or are more than 1,024)
 */
yoke_status yoke_comm_shrink(yoke_comm *comm, const int without[], int n_without, yoke_comm **comm_out);
/**
 * End all operations in flight on all ranks with YOKE_EABORTED, in bounded time. Any thread may call this.
 */
yoke_status yoke_comm_abort(yoke_comm *comm, const char *reason);
int yoke_comm_rank(const yoke_comm *comm);
int yoke_comm_size(const yoke_comm *comm);
/**
 * The host of a rank. Hosts are counted from 0 in the order of their lowest ranks. The ranks of one host see
 * each other's memory. If no rank sees another's (YOKE_NO_SHARED), they run under one boot of one system with
 * the same YOKE_HOST_ID. The number is the same on all ranks; -1: there is no such rank. Not a collective.
 */
int yoke_comm_host(const yoke_comm *comm, int rank);
/**
 * YOKE_OK while the communicator works, else its sticky error. The thread's error text is then set to that
 * error.
 */
yoke_status yoke_comm_error(yoke_comm *comm);
/**
 * Mark this rank as busy outside collectives (compiling, saving), so that no rank reports it as stuck. The
 * mark ends at the next collective.
 */
yoke_status yoke_comm_busy(yoke_comm *comm, const char *what);

/**
 * What a call with these arguments would do. The answer comes from facts that all ranks share, without
 * communication. `collective` is the call's name without yoke_ ("all_reduce"). `count` is the call's argument
 * of that name, and for a _v call the longest slice. `reduction` is ignored if the call has none.
 * Errors: YOKE_EINVAL
 */
struct yoke_comm_choice {
    size_t size; /* set by yoke_comm_explain */
    char algorithm[32];
    /* facts of the algorithm, from its line of YOKE_ALGORITHMS (yoke/algorithms.h) */
    bool in_rank_order;
    enum yoke_reach reach;
    size_t chunk_bytes; /* bytes of the data that a rank works on in one piece */
    int n_lanes;        /* number of chunks in flight */
    /* Time by the cost model. It holds for ranks that call together, each on a core of its own, with data in
       memory that the host sees. 0: the model has no figures, as for messages between ranks that share
       memory. */
    double predicted_us;
    char why[640];
    /* the model, "sync_us=0.25,...", in the form that the configuration and YOKE_COSTS accept */
    char costs[256];
    /* the ranks' shares in the form that the configuration accepts; "": too long for this field */
    char shares[256];
    char grouping[16];   /* the islands by which the call runs: "host", "vendor", "labels", or "none" */
    char islands[160];   /* their ranks, "nvidia 0-3, host 4"; cut off if there are many */
    int n_islands;       /* 0: none */
    int n_columns;       /* ranks of each island that exchange data with other islands */
    double bridge_bytes; /* bytes of data that all islands together send to other islands in this call */
};
#define YOKE_COMM_CHOICE_INIT YOKE_SIZED(yoke_comm_choice)
yoke_status yoke_comm_explain(yoke_comm *comm, const char *collective, size_t count, yoke_dtype dtype,
                              yoke_reduction reduction, struct yoke_comm_choice *choice_out);
/**
 * Bytes of data that this rank has sent so far to ranks of other islands, whatever the algorithm. Headers of
 * messages do not count. The islands are those of the grouping `vendor`. 0 for a NULL communicator.
 */
uint64_t yoke_comm_bridged(const yoke_comm *comm);

/** A communicator that is not made yet, for yoke_comm_shape_memory. Zero means the default. */
struct yoke_comm_shape {
    size_t size;
    int n_ranks;
    size_t chunk_bytes; /* as in the configuration, YOKE_CHUNK_BYTES included */
    bool no_shared;     /* as in the configuration, YOKE_NO_SHARED included */
    bool is_far;        /* Some ranks do not see each other's memory, because they are on several hosts. */
    bool is_staged;     /* the device's memory is not visible to the host */
    /* number of ranks to which this one sends by yoke_send, and from which it receives by yoke_recv */
    int n_sends, n_receives;
};
/* clang-format off */
#define YOKE_COMM_SHAPE_INIT { sizeof(struct yoke_comm_shape), 1, 0, false, false, false, 0, 0 }
/* clang-format on */

/** Host memory of a communicator on one rank, in bytes. */
struct yoke_comm_memory {
    size_t size;
    /* This rank's part of the memory that the ranks of its host share, all of it allocated from the start.
       The rank also maps the other ranks' parts. */
    size_t shared;
    /* private memory: bookkeeping, buffers of messages over MPI, staging of device memory */
    size_t private_bytes;
    size_t reserved; /* address space of buffers that nothing touches while the ranks share memory */
    bool is_far;     /* some messages go over MPI */
};
#define YOKE_COMM_MEMORY_INIT YOKE_SIZED(yoke_comm_memory)
/**
 * The memory that a communicator takes on each of its ranks, without making it. The result is exactly what
 * would be mapped and allocated; it is exact for private_bytes and reserved together. Not included are the
 * lists that operations keep of their calls (some KiB), memory of yoke_comm_alloc, and MPI's own memory.
 * Errors: YOKE_EINVAL (no ranks, a negative number), YOKE_ECONFIG (YOKE_CHUNK_BYTES, YOKE_NO_SHARED)
 */
yoke_status yoke_comm_shape_memory(const struct yoke_comm_shape *shape, struct yoke_comm_memory *memory_out);
/** The memory that this communicator has taken so far. */
yoke_status yoke_comm_memory(const yoke_comm *comm, struct yoke_comm_memory *memory_out);

/**
 * Memory of this rank that the other ranks of its host also see. If all buffers of a collective lie in such
 * memory, no data is copied into other shared memory first. If ranks do not share memory, this is ordinary
 * memory. The communicator owns it. It is page-aligned and zeroed.
 * Collective, with the same size on all ranks. All ranks call yoke_comm_free in the same place among the
 * communicator's collectives. Destroying the communicator frees what is left.
 * All ranks get the same error.
 * Errors: YOKE_ENOMEM, YOKE_EMISMATCH (sizes), YOKE_EUNSUPPORTED (the communicator has a device).
 *         yoke_comm_free: YOKE_EINVAL if the address was freed already, lies inside such memory, or is other
 *         memory. Then nothing is freed.
 */
yoke_status yoke_comm_alloc(yoke_comm *comm, size_t bytes, void **memory_out);
yoke_status yoke_comm_free(yoke_comm *comm, void *memory);

/**
 * recv[i] = op over all ranks of send[i]. In place: send == recv.
 * Types:  all; avg not for integers. Integer sums and products wrap around.
 * Rounds: see yoke_accum. avg is the sum / p, in f32 (in f64 for f64). It is exact if the average can be
 *         represented.
 * Errors: YOKE_EINVAL, YOKE_EUNSUPPORTED, YOKE_EMISMATCH, YOKE_EDATA (see yoke_check), YOKE_ETIMEOUT,
 *         YOKE_EDEAD, YOKE_EABORTED
 * Bound:  f32: gamma(p - 1) sum |x|; 16-bit with accum f32: u |ref| more; native: (p - 1) u sum |x|
 */
yoke_status yoke_all_reduce(const void *send, void *recv, size_t count, yoke_dtype dtype, yoke_reduction op,
                            yoke_comm *comm, yoke_stream *stream);
/**
 * recv[0..recv_count) = slice `rank` of the reduction of send[0..size * recv_count). In place: recv == send +
 * rank * recv_count.
 */
yoke_status yoke_reduce_scatter(const void *send, void *recv, size_t recv_count, yoke_dtype dtype,
                                yoke_reduction op, yoke_comm *comm, yoke_stream *stream);
/** recv[r * send_count ...] = rank r's send. In place: send == recv + rank * send_count. */
yoke_status yoke_all_gather(const void *send, void *recv, size_t send_count, yoke_dtype dtype,
                            yoke_comm *comm, yoke_stream *stream);
/** recv = root's send on every rank. In place: send == recv. Only the root reads send. */
yoke_status yoke_broadcast(const void *send, void *recv, size_t count, yoke_dtype dtype, int root,
                           yoke_comm *comm, yoke_stream *stream);
/**
 * Like reduce_scatter and all_gather, but slice r has counts[r] elements, which may be 0. All ranks pass the
 * same counts. In place: the other buffer is the rank's own slice.
 */
yoke_status yoke_reduce_scatter_v(const void *send, void *recv, const size_t counts[], yoke_dtype dtype,
                                  yoke_reduction op, yoke_comm *comm, yoke_stream *stream);
yoke_status yoke_all_gather_v(const void *send, void *recv, const size_t counts[], yoke_dtype dtype,
                              yoke_comm *comm, yoke_stream *stream);
/** recv on the root = op over all ranks of send. Only the root's recv is used. Otherwise as yoke_all_reduce.
 */
yoke_status yoke_reduce(const void *send, void *recv, size_t count, yoke_dtype dtype, yoke_reduction op,
                        int root, yoke_comm *comm, yoke_stream *stream);
/** recv[r * count ...] on the root = rank r's send. In place on the root: send == recv + root * count. */
yoke_status yoke_gather(const void *send, void *recv, size_t count, yoke_dtype dtype, int root,
                        yoke_comm *comm, yoke_stream *stream);
/** recv = the root's send[rank * count ...]. In place on the root: recv == send + root * count. */
yoke_status yoke_scatter(const void *send, void *recv, size_t count, yoke_dtype dtype, int root,
                         yoke_comm *comm, yoke_stream *stream);
/** Like gather and scatter, with an element count for each rank. All ranks pass the same counts. */
yoke_status yoke_gather_v(const void *send, void *recv, const size_t counts[], yoke_dtype dtype, int root,
                          yoke_comm *comm, yoke_stream *stream);
yoke_status yoke_scatter_v(const void *send, void *recv, const size_t counts[], yoke_dtype dtype, int root,
                           yoke_comm *comm, yoke_stream *stream);
/** recv[r * count ...] = rank r's send[rank * count ...]. Not in place. */
yoke_status yoke_all_to_all(const void *send, void *recv, size_t count, yoke_dtype dtype, yoke_comm *comm,
                            yoke_stream *stream);
/**
 * Like all_to_all, with this rank's own counts. send_counts[r] elements go to rank r, and recv_counts[r]
 * elements come from rank r. The slices follow one another in both buffers. The count that rank a sends to
 * rank b must be the count that b receives from a. This is checked for each pair.
 */
yoke_status yoke_all_to_all_v(const void *send, const size_t send_counts[], void *recv,
                              const size_t recv_counts[], yoke_dtype dtype, yoke_comm *comm,
                              yoke_stream *stream);
/**
 * Point to point. Two ranks that send to each other must each put the send and the receive into one group.
 */
yoke_status yoke_send(const void *send, size_t count, yoke_dtype dtype, int peer, yoke_comm *comm,
                      yoke_stream *stream);
yoke_status yoke_recv(void *recv, size_t count, yoke_dtype dtype, int peer, yoke_comm *comm,
                      yoke_stream *stream);
/**
 * Like yoke_send and yoke_recv without a stream, for devices whose streams run their work at once (host). The
 * data must be there at the call, which returns at once. `done` is an event of the communicator's device. It
 * completes when the data was taken, when the data has arrived, or when the communicator has failed. In the
 * last case the communicator's next call returns the error.
 * Use one event for each call in flight. A communicator's operations run one after another, so transfers in
 * opposite directions need a communicator for each direction. Not in a group. If MPI has no threads
 * (MPI_THREAD_MULTIPLE), the calls block.
 */
yoke_status yoke_isend(const void *send, size_t count, yoke_dtype dtype, int peer, yoke_comm *comm,
                       yoke_event *done);
yoke_status yoke_irecv(void *recv, size_t count, yoke_dtype dtype, int peer, yoke_comm *comm,
                       yoke_event *done);
/** The data that goes to, or comes from, one peer. A plain value. */
struct yoke_piece {
    void *data;
    size_t count;
    int peer;
};
/**
 * Like yoke_isend and yoke_irecv, with several pieces in one call, n >= 1. `done` completes when all pieces
 * are done. Pieces of one peer go in the order in which they are given.
 */
yoke_status yoke_isend_pieces(const struct yoke_piece pieces[], int n, yoke_dtype dtype, yoke_comm *comm,
                              yoke_event *done);
yoke_status yoke_irecv_pieces(const struct yoke_piece pieces[], int n, yoke_dtype dtype, yoke_comm *comm,
                              yoke_event *done);
/**
 * Sums and gathers in the same way. They begin at once and run beside what the caller computes. The buffers
 * are in use until `done` completes.
 */
yoke_status yoke_iall_reduce(const void *send, void *recv, size_t count, yoke_dtype dtype, yoke_reduction op,
                             yoke_comm *comm, yoke_event *done);
yoke_status yoke_ireduce_scatter_v(const void *send, void *recv, const size_t counts[], yoke_dtype dtype,
                                   yoke_reduction op, yoke_comm *comm, yoke_event *done);
yoke_status yoke_iall_gather_v(const void *send, void *recv, const size_t counts[], yoke_dtype dtype,
                               yoke_comm *comm, yoke_event *done);
/**
 * Calls on any communicator between start and end are collected, and then run together. Small sums (up to 16
 * KiB) that follow each other, on one communicator and of one type and one reduction, run as one collective.
 * They count as one call where calls are numbered.
 * If a communicator of the group has failed, yoke_group_end returns its error. The calls on the other
 * communicators still run, and their results are there. If a call's arguments are wrong, no call of the group
 * runs.
 */
yoke_status yoke_group_start(void);
yoke_status yoke_group_end(void);
/** Returns when every rank has called it. */
yoke_status yoke_barrier(yoke_comm *comm, yoke_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
