/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Flight records. Each rank has one small mapped file in the run directory. The file says which rank it is,
 * what the rank is doing, for which rank it waits, and what its last 1,024 operations were. It also has what
 * the rank's agent knows of the rank. The file outlives a SIGKILL.
 *
 * Three kinds of processes use the file, so this header knows neither MPI nor devices:
 *   the agent (`yoke rank`)  creates the file, starts the rank, and writes `agent` when the rank stops,
 *                            goes on or ends;
 *   the rank (libyoke-comm)  creates the file too if there is no agent, and writes everything else;
 *   peers and `yoke run`     only read: peers while they wait, `yoke run` (the supervisor) at the end.
 * Every word that is read while it may be written is atomic and has one writer. Texts are written before the
 * state that makes them valid.
 * Times are CLOCK_MONOTONIC nanoseconds of the writing host, which is one clock for all ranks of a host. To
 * compare hosts add `clock_offset_ns`, which is CLOCK_REALTIME - CLOCK_MONOTONIC when the file was made.
 */
#ifndef COLLECTIVES_FLIGHT_FLIGHT_H
#define COLLECTIVES_FLIGHT_FLIGHT_H

#include <stdatomic.h>
#include <yoke/algorithms.h>
#include <yoke/base.h>

#define YOKEI_FLIGHT_MAGIC 0x346c66656b6f79ull /* "yokefl4": the digit is the version of the format */
#define YOKEI_FLIGHT_ENTRIES 1024
#define YOKEI_FLIGHT_COMMS 32
#define YOKEI_FLIGHT_RANKS 1024      /* most ranks of a job that a record can mark as lost */
#define YOKEI_LIFE_ENDED 0x40000000u /* FUTEX_OWNER_DIED */

/** The state of a rank, as its agent sees it. */
enum yokei_agent_state {
    YOKEI_AGENT_NONE,
    YOKEI_AGENT_ALIVE,
    YOKEI_AGENT_STOPPED,
    YOKEI_AGENT_DEAD, /* it ended, and its agent did not end it */
    /* its agent ended it, because it was asked to, or because the launcher or yoke run was gone */
    YOKEI_AGENT_ENDED,
    /* its agent was killed, and the rank ended with it; the agent's parent process writes this */
    YOKEI_AGENT_LOST,
    /* Never written. A reader on another host concludes it when the agent's beats stand still. */
    YOKEI_AGENT_SILENT,
};

/** The state of a rank, as the rank itself says. */
enum yokei_rank_state {
    YOKEI_RANK_UNBORN = 0, /* the file was made, and the rank has written nothing yet */
    YOKEI_RANK_OUTSIDE,    /* it runs the caller's code */
    YOKEI_RANK_INSIDE,     /* it is in a collective: see comm, sequence, step, waits_for */
    YOKEI_RANK_BUSY,       /* it is in a long phase that it announced: see busy */
    YOKEI_RANK_FAILED,     /* it returned an error: see status and error */
    YOKEI_RANK_LEFT,       /* it destroyed its last communicator without an error */
    YOKEI_RANK_MEETING,  /* it makes the communicator `comm_name`, and waits for the other ranks inside MPI */
    YOKEI_RANK_STARTING, /* it is in MPI's start, which waits for the other ranks */
};

/** How far the program's own MPI_Finalize is. LEFT: it did not return, and the process was ended. */
enum yokei_finalizing { YOKEI_FINALIZE_NONE, YOKEI_FINALIZE_CALLED, YOKEI_FINALIZE_LEFT };

/** What a rank waits for in a collective, if it does not wait for another rank. */
enum yokei_waits_for {
    YOKEI_WAITS_FOR_NONE = -1,
    YOKEI_WAITS_FOR_DEVICE = -2, /* copies from or to the memory of its own device */
};

/** A communicator that the rank was in. Entries name it by `uid`, and name ranks by their numbers in it. */
struct yokei_flight_comm {
    uint32_t uid;
    int32_t rank, size; /* this rank's number in the communicator, and the communicator's size */
    char name[32];
};

/** One operation in the record. `state` is written last. */
struct yokei_flight_entry {
    uint64_t start_ns, end_ns; /* end_ns 0: in flight */
    uint64_t count;
    uint32_t sequence;    /* number of the operation within its communicator, from 1 */
    uint32_t comm;        /* uid of the communicator, equal on all of its ranks */
    uint32_t hash;        /* hash of all calls of the communicator before this one */
    uint32_t counts_hash; /* hash of the counts per rank */
    int32_t root;         /* root or peer; -1: none */
    int32_t step;         /* number of steps done */
    uint8_t kind, dtype, reduction, algorithm;
    uint32_t status;           /* yoke_status at the operation's end */
    _Atomic uint32_t state;    /* 0 empty, 1 in flight, 2 ended */
    _Atomic int32_t waits_for; /* the rank of the job for which it waited last, or enum yokei_waits_for */
};
_Static_assert(sizeof(struct yokei_flight_entry) == 64, "an entry is one line of the cache");

struct yokei_flight_file {
    /* Written at creation, before `magic`. */
    _Atomic uint64_t magic;
    uint32_t bytes, n_entries;
    int32_t rank;
    _Atomic uint32_t n_blocked; /* written by the rank: how many of its threads wait in a call */
    int64_t clock_offset_ns;    /* CLOCK_REALTIME - CLOCK_MONOTONIC */
    /* yokei_host_id of the host that made the file, because two hosts may have the same name */
    uint64_t host_id;
    /* Written by the agent in one word, so that it changes as a whole: state | signal << 8 | exit code <<
       16 | pid << 32. */
    _Atomic uint64_t agent;
    _Atomic uint64_t agent_ns; /* when `agent` was written */
    /* Written by the agent before `agent`: the time at which its rank started, as `start_time` below. */
    _Atomic uint64_t rank_start;
    /* The agent's beats: the agent adds to this count as long as it lives, if there are other hosts. 0: it
       does not. */
    _Atomic uint64_t agent_beats;
    /* Written by the agent: its rank waits for the launcher's answer, as MPI does while it starts and ends.
     */
    _Atomic uint32_t at_launcher;
    /* Written by the rank: enum yokei_finalizing, for a call of MPI_Finalize by the program itself. */
    _Atomic uint32_t finalizing;
    /* Written by the rank, before `state` leaves UNBORN: which rank it is. */
    char host[64];
    /* A random number of the rank. A peer that reads the same number shares memory with it. */
    uint64_t nonce;
    /* field 22 of /proc/PID/stat, which tells a process from a later one with the same number */
    uint64_t start_time;
    int32_t pid, n_ranks;
    /*
     * For jobs without agents: the rank's witness (witness.c), a thread that sees which other rank of the
     * host ends first.
     * `life` is 0 if there is no witness, else the witness thread's id. The kernel sets YOKEI_LIFE_ENDED in
     * it if the process ends without having set `life` to 0. `first_gone` is the rank that ended so first;
     * -1: the witness saw none. Peers look at `life` while they wait, so it lies apart from what changes with
     * each operation.
     */
    _Atomic uint32_t life;
    _Atomic int32_t first_gone;
    _Atomic uint64_t first_gone_ns;
    char device[32]; /* device of its first communicator; "host" without a device */
    /* Number of communicators that were ever ready for use. comms[(n - 1) % YOKEI_FLIGHT_COMMS] is the
       newest. */
    _Atomic uint32_t n_comms;
    struct yokei_flight_comm comms[YOKEI_FLIGHT_COMMS];
    /* Written by the rank: what it is doing. */
    _Atomic uint32_t state; /* enum yokei_rank_state */
    /* The rank of the job for which it waits in a collective, or enum yokei_waits_for. If a thread waits in a
       call, this is the wait of that call. */
    _Atomic int32_t waits_for;
    _Atomic uint32_t comm, sequence, kind, step;
    _Atomic uint64_t heartbeat_ns; /* when it last looked after its collectives */
    _Atomic uint64_t
        progress_ns; /* when a step was last done, or the network was last seen to carry something */
    _Atomic uint64_t network_ns; /* when this rank's own connections last carried something while it waited */
    _Atomic uint32_t status;     /* yoke_status, if the state is FAILED */
    _Atomic int32_t culprit;     /* the rank of the job that the error names; -1: none */
    /* How often the rank went on without failed ranks. Written after `lost`, and after `state` has left
       FAILED. */
    _Atomic uint32_t n_shrinks;
    _Atomic uint64_t lost[YOKEI_FLIGHT_RANKS / 64]; /* bit r: it went on without rank r of the job */
    char comm_name[32];
    char busy[64];
    char error[1024];
    _Atomic uint64_t
        n_operations; /* Number of operations ever begun. entries[(n - 1) % n_entries] is the newest. */
    struct yokei_flight_entry entries[YOKEI_FLIGHT_ENTRIES];
};

/** Whether the rank of this record went on without rank r of the job after r had failed. */
static inline bool yokei_flight_lost(const struct yokei_flight_file *file, int r)
{
    return r >= 0 && r < YOKEI_FLIGHT_RANKS && atomic_load(&file->lost[r / 64]) >> (r % 64) & 1;
}

/**
 * Whether the rank waits for the other ranks before anything was done. It is inside MPI's start, where no
 * error from other ranks reaches it, or it makes its first communicator.
 */
static inline bool yokei_flight_starting(const struct yokei_flight_file *file)
{
    const uint32_t state = atomic_load(&file->state);
    return state == YOKEI_RANK_STARTING || (state == YOKEI_RANK_MEETING && !atomic_load(&file->n_comms))
           || (state == YOKEI_RANK_UNBORN && atomic_load(&file->at_launcher));
}

/** The parts of `agent`, unpacked. */
struct yokei_agent_verdict {
    enum yokei_agent_state state;
    int pid;         /* process number of the rank */
    int signal;      /* the signal that stopped or killed the rank; 0: none */
    int exit_code;   /* exit code, if the rank ended by itself */
    uint64_t age_ns; /* time since the agent wrote it */
};

/**
 * Kinds of operations. The function gives a kind's name ("all_reduce"), for messages, records and the
 * command.
 */
enum yokei_kind {
    YOKEI_ALL_REDUCE,
    YOKEI_REDUCE_SCATTER,
    YOKEI_ALL_GATHER,
    YOKEI_BROADCAST,
    YOKEI_SEND,
    YOKEI_RECV,
    YOKEI_BARRIER,
    YOKEI_GROUP,
    YOKEI_DESTROY,
    YOKEI_REDUCE,
    YOKEI_ALL_TO_ALL,
    YOKEI_GATHER,
    YOKEI_SCATTER,
    YOKEI_N_KINDS
};
const char *yokei_kind_name(unsigned kind);

/** The numbers and names of the algorithms ("ring"): YOKE_ALGORITHMS of yoke/algorithms.h. */
#define YOKEI_ALGORITHM_ID(ID, name, can_be_named, in_rank_order, reach) YOKEI_##ID,
enum yokei_algorithm_id { YOKE_ALGORITHMS(YOKEI_ALGORITHM_ID) YOKEI_N_ALGORITHMS };
#undef YOKEI_ALGORITHM_ID
const char *yokei_algorithm_name(unsigned id);

/** The name of a rank's file inside the run directory: "flight-00003.bin". */
void yokei_flight_name(int rank, char *name_out, size_t bytes);

/**
 * Create the file of `rank` in `folder` (mode 0600), and map it. If the agent or an earlier start made the
 * file, it is opened for writing. `fresh` begins a new file. An old file then stays valid for the processes
 * that have mapped it. The agent passes true for each start of its rank. A rank without an agent passes true
 * when it starts.
 * Errors: YOKE_EIO with path and reason. A full disk is found here, not by a later page fault.
 */
yoke_status yokei_flight_create(const char *folder, int rank, bool fresh,
                                struct yokei_flight_file **file_out);
/** Remove the files of rank `first` and of the ranks after it, up to the first that is missing. */
void yokei_flight_drop(const char *folder, int first);
/**
 * Map the file of another rank for reading. YOKE_EDATA: the file is missing or no flight record. YOKE_EIO: it
 * cannot be mapped.
 */
yoke_status yokei_flight_open(const char *folder, int rank, const struct yokei_flight_file **file_out);
/**
 * Create and open a record without a run directory. The record lies in memory without a name, so nothing is
 * left behind, however the processes end. Peers map it through the descriptor's entry in /proc/PID/fd. The
 * caller closes fd_out.
 */
yoke_status yokei_flight_create_memory(int rank, int *fd_out, struct yokei_flight_file **file_out);
yoke_status yokei_flight_open_memory(int pid, int fd, const struct yokei_flight_file **file_out);
/**
 * A copy of the record at `path`. The caller frees it with free(). The file may be damaged. All texts of the
 * copy are terminated, and are printable ASCII. Numbers that name something (kinds, types, states) may be out
 * of range; their names are then "?". YOKE_EIO and YOKE_EDATA as above.
 */
yoke_status yokei_flight_read(const char *path, struct yokei_flight_file **copy_out);
/**
 * Copy the present record of a rank on another host, without its list of operations. The first call (*copy
 * NULL) allocates memory for the copy, and yokei_flight_close frees it. Each call reads the file again,
 * because a file mapped on another host does not follow its writer. After YOKE_EIO or YOKE_EDATA the copy is
 * unchanged.
 */
yoke_status yokei_flight_look(const char *folder, int rank, const struct yokei_flight_file **copy);
/**
 * Make what was written so far visible to readers on other hosts. This may take as long as the disk or the
 * file server takes.
 */
void yokei_flight_publish(struct yokei_flight_file *file);
/** Unmap; NULL is allowed. */
void yokei_flight_close(const struct yokei_flight_file *file);

/**
 * Write or read the agent's word: its rank runs (ALIVE), was stopped by `signal`, or is gone (DEAD, ENDED) by
 * `signal` or `exit_code`. With ALIVE the time at which the process `pid` started is recorded too, so the
 * agent must not have waited for it yet.
 */
void yokei_flight_set_agent(struct yokei_flight_file *file, enum yokei_agent_state state, int pid, int signal,
                            int exit_code);
struct yokei_agent_verdict yokei_flight_agent(const struct yokei_flight_file *file);
/** What a reader on another host saw of an agent's beats, by the reader's clock. */
struct yokei_beats {
    uint64_t count, since_ns, looked_ns;
};
/**
 * For how long the beats have stood still, as far as the reader watched them. A reader that did not look for
 * a while begins again. 0: they do not stand still.
 */
uint64_t yokei_beats_stand(struct yokei_beats *beats, const struct yokei_flight_file *file, uint64_t now);
/** Whether a rank with this agent's word is gone for good. */
static inline bool yokei_agent_gone(enum yokei_agent_state state)
{
    return state == YOKEI_AGENT_DEAD || state == YOKEI_AGENT_ENDED || state == YOKEI_AGENT_LOST
           || state == YOKEI_AGENT_SILENT;
}

/**
 * Whether a stopped rank counts as gone. It does one second after it was stopped, if the reader has also seen
 * it stopped for a quarter of a second without a pause. `here`: the agent's clock is the reader's clock.
 */
bool yokei_stopped_for_long(const struct yokei_agent_verdict *verdict, uint64_t seen_ns, bool here);

/** Whether the rank died by a signal or ended with a code, by its agent's word in `folder`. */
bool yokei_flight_ended_badly(const char *folder, int rank, int *signal_out, int *code_out);

/**
 * Describe the agent's word: "died by signal 9 (Killed)", "exited with code 3", "was stopped by signal 19
 * (Stopped (signal))", "was ended by its agent", "runs".
 */
void yokei_agent_verdict_text(const struct yokei_agent_verdict *verdict, char *text_out, size_t bytes);

/**
 * Describe in one line what a rank does or last did: "in all_reduce #17 of \"world\", step 3, waiting for
 * rank 1, last step 2.3 s ago". Times are left out if the record is from another host (`here` false), because
 * its clock is not ours.
 */
void yokei_flight_describe(const struct yokei_flight_file *file, bool here, char *text_out, size_t bytes);

/**
 * The state letter of /proc/PID/stat ('T' stopped, 'Z' ended), and the process's start time. '\0': there is
 * no such process.
 */
char yokei_process_state(int pid, uint64_t *start_time_out);

#endif
