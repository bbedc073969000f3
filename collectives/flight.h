/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Flight records: one small mapped file per rank in the run directory. It says who a rank is, what it is doing, whom it
 * waits for, and its last 1,024 operations; and it carries the verdict of the rank's agent. It outlives a SIGKILL.
 *
 * Three kinds of processes use it, so this header knows neither MPI nor devices:
 *   the agent  (`yoke rank`)  creates the file, starts the rank, and writes `agent` when the rank stops, goes on or ends;
 *   the rank   (libyoke-comm) creates it too when there is no agent, and writes everything else;
 *   peers and the supervisor (`yoke run`) only read: peers while they wait, the supervisor at the end.
 * Every word that is read while it may be written is atomic and has one writer. Texts are written before the state that
 * makes them valid. Times are CLOCK_MONOTONIC nanoseconds of the writing host: one clock for all ranks of a host. To compare
 * hosts add `clock_offset_ns`, with which their CLOCK_REALTIME differed when the file was made.
 */
#ifndef COLLECTIVES_FLIGHT_H
#define COLLECTIVES_FLIGHT_H

#include <stdatomic.h>
#include <yoke/algorithms.h>
#include <yoke/base.h>

#define YOKEI_FLIGHT_MAGIC 0x336c66656b6f79ull /* "yokefl3": the digit is the version of the layout, and changes with it */
#define YOKEI_FLIGHT_ENTRIES 1024
#define YOKEI_FLIGHT_COMMS 32
#define YOKEI_FLIGHT_RANKS 1024 /* of a job, that a record can name as lost */
#define YOKEI_LIFE_ENDED 0x40000000u /* FUTEX_OWNER_DIED */

/** The agent's word on its rank. */
enum yokei_agent_state {
    YOKEI_AGENT_NONE,
    YOKEI_AGENT_ALIVE,
    YOKEI_AGENT_STOPPED,
    YOKEI_AGENT_DEAD,  /* it ended, and not by us */
    YOKEI_AGENT_ENDED, /* the agent ended it: as ordered, or because the launcher or yoke run was gone */
    YOKEI_AGENT_LOST,  /* the agent was killed, and the rank ended with it: said by the agent's holder */
    YOKEI_AGENT_SILENT, /* never written: what a reader on another host concludes from an agent that counts on no more */
};

/** The rank's word on itself. */
enum yokei_rank_state {
    YOKEI_RANK_UNBORN = 0, /* the file was made, the rank has not said anything yet */
    YOKEI_RANK_OUTSIDE,    /* runs the caller's code */
    YOKEI_RANK_INSIDE,     /* in a collective: see comm, sequence, step, waits_for */
    YOKEI_RANK_BUSY,       /* in a long phase that it announced: see busy */
    YOKEI_RANK_FAILED,     /* returned an error: see status and error */
    YOKEI_RANK_LEFT,       /* destroyed its last communicator in order */
    YOKEI_RANK_MEETING,    /* makes the communicator `comm_name`: waits for the others inside MPI */
    YOKEI_RANK_STARTING,   /* in MPI's start, which waits for the others */
};

/** LEFT: it did not return, and the process was ended. */
enum yokei_finalizing { YOKEI_FINALIZE_NONE, YOKEI_FINALIZE_CALLED, YOKEI_FINALIZE_LEFT };

/** A communicator that the rank was in: entries name it by `uid`, and its ranks by their numbers in it. */
struct yokei_flight_comm {
    uint32_t uid;
    int32_t rank, size; /* of this rank, in it */
    char name[32];
};

/** One operation of the record; `state` is written last. */
struct yokei_flight_entry {
    uint64_t start_ns, end_ns; /* end_ns 0: in flight */
    uint64_t count;
    uint32_t sequence;         /* the communicator's number of this operation, from 1 */
    uint32_t comm;             /* which communicator: equal on all of its ranks */
    uint32_t hash;             /* of all the communicator's calls before this one */
    uint32_t counts_hash;      /* of the counts per rank */
    int32_t root;              /* root or peer, -1 when there is none */
    int32_t step;              /* steps done */
    uint8_t kind, dtype, reduction, algorithm;
    uint32_t status;           /* yoke_status at its end */
    _Atomic uint32_t state;    /* 0 empty, 1 in flight, 2 ended */
    _Atomic int32_t waits_for; /* the rank of the job that it waited for last, -1: none */
};
_Static_assert(sizeof(struct yokei_flight_entry) == 64, "an entry is one line of the cache");

struct yokei_flight_file {
    /* Written at creation, before `magic`. */
    _Atomic uint64_t magic;
    uint32_t bytes, n_entries;
    int32_t rank;
    uint32_t spare;
    int64_t clock_offset_ns; /* CLOCK_REALTIME - CLOCK_MONOTONIC */
    uint64_t host_id;        /* yokei_host_id of where it was made: two hosts may have one name */
    /* The agent's: one word, so that it changes as a whole. state | signal << 8 | exit code << 16 | pid << 32. */
    _Atomic uint64_t agent;
    _Atomic uint64_t agent_ns; /* when that was written */
    _Atomic uint64_t agent_beats; /* counted on by the agent as long as it lives, where there are other hosts; 0: it does not */
    _Atomic uint32_t at_launcher; /* the agent's: its rank waits for the launcher's answer, as MPI does while it starts and ends */
    _Atomic uint32_t finalizing;  /* enum yokei_finalizing: the rank's, of a call of MPI_Finalize that is the program's own */
    /* The rank's: who it is, written before `state` leaves UNBORN. */
    char host[64];
    uint64_t nonce;      /* drawn by the rank; a peer that reads the same number shares memory with it */
    uint64_t start_time; /* field 22 of /proc/PID/stat: tells a process from a later one of the same number */
    int32_t pid, n_ranks;
    /*
     * The rank's witness (witness.c), where there are no agents. `life`: 0 none, else its thread's id, until the kernel sets
     * YOKEI_LIFE_ENDED because the process ended otherwise than in order. first_gone: whose did so first, -1: none that it saw. Peers
     * look at `life` while they wait, so it lies apart from what changes with each operation.
     */
    _Atomic uint32_t life;
    _Atomic int32_t first_gone;
    _Atomic uint64_t first_gone_ns;
    char device[32];     /* of its first communicator, "host" without one */
    _Atomic uint32_t n_comms; /* communicators that were ready for use ever; comms[(n - 1) % YOKEI_FLIGHT_COMMS] is the newest */
    struct yokei_flight_comm comms[YOKEI_FLIGHT_COMMS];
    /* The rank's: what it is doing. */
    _Atomic uint32_t state;        /* enum yokei_rank_state */
    _Atomic int32_t waits_for;     /* the rank of the job it waits for in a collective, -1: none */
    _Atomic uint32_t comm, sequence, kind, step;
    _Atomic uint64_t heartbeat_ns; /* last time that it looked after its collectives */
    _Atomic uint64_t progress_ns;  /* last time that a step was done, or that the network was seen to carry something */
    _Atomic uint64_t network_ns;   /* last time that this rank's own connections carried something while it waited */
    _Atomic uint32_t status;       /* yoke_status of FAILED */
    _Atomic int32_t culprit;       /* the rank of the job that the error names, -1: none */
    _Atomic uint32_t n_shrinks;    /* how often it went on without ranks that had failed; written after `lost`, and after `state` left FAILED */
    _Atomic uint64_t lost[YOKEI_FLIGHT_RANKS / 64]; /* bit r: without rank r of the job */
    char comm_name[32];
    char busy[64];
    char error[1024];
    _Atomic uint64_t n_operations; /* operations begun ever; entries[(n - 1) % n_entries] is the newest */
    struct yokei_flight_entry entries[YOKEI_FLIGHT_ENTRIES];
};

/** Whether the rank whose record it is went on without rank r of the job, after that one had failed. */
static inline bool yokei_flight_lost(const struct yokei_flight_file *file, int r)
{
    return r >= 0 && r < YOKEI_FLIGHT_RANKS && atomic_load(&file->lost[r / 64]) >> (r % 64) & 1;
}

/** Whether the rank waits for the others before anything was done: inside MPI's start, where no verdict reaches it, or for its first communicator. */
static inline bool yokei_flight_starting(const struct yokei_flight_file *file)
{
    const uint32_t state = atomic_load(&file->state);
    return state == YOKEI_RANK_STARTING || (state == YOKEI_RANK_MEETING && !atomic_load(&file->n_comms)) || (state == YOKEI_RANK_UNBORN && atomic_load(&file->at_launcher));
}

/** What an agent's word means. */
struct yokei_agent_verdict {
    enum yokei_agent_state state;
    int pid;         /* of the rank */
    int signal;      /* that stopped or killed it, 0: none */
    int exit_code;   /* when it ended by itself */
    uint64_t age_ns; /* since it was written */
};

/** Names of kinds of operations ("all_reduce"), shared by messages, records and the command. */
enum yokei_kind {
    YOKEI_ALL_REDUCE, YOKEI_REDUCE_SCATTER, YOKEI_ALL_GATHER, YOKEI_BROADCAST, YOKEI_SEND, YOKEI_RECV, YOKEI_BARRIER,
    YOKEI_GROUP, YOKEI_DESTROY, YOKEI_REDUCE, YOKEI_ALL_TO_ALL, YOKEI_GATHER, YOKEI_SCATTER, YOKEI_N_KINDS
};
const char *yokei_kind_name(unsigned kind);

/** The numbers and names of the algorithms ("ring"): YOKE_ALGORITHMS of yoke/algorithms.h. */
#define YOKEI_ALGORITHM_ID(ID, name, can_be_named, in_rank_order, reach) YOKEI_##ID,
enum yokei_algorithm_id { YOKE_ALGORITHMS(YOKEI_ALGORITHM_ID) YOKEI_N_ALGORITHMS };
#undef YOKEI_ALGORITHM_ID
const char *yokei_algorithm_name(unsigned id);

/** "flight-00003.bin": the file of a rank of the job, inside the run directory. */
void yokei_flight_name(int rank, char *name_out, size_t bytes);

/**
 * Create the file of `rank` in `folder` (mode 0600), or open it for writing where the agent or an earlier start made
 * it, and map it. `fresh` begins a new file, and leaves one that was there to those who have mapped it: the agent passes
 * true for each start of its rank; the rank does where it has no agent, when it starts.
 * Errors: YOKE_EIO with path and reason (a full disk is found here, not at a later page fault).
 */
yoke_status yokei_flight_create(const char *folder, int rank, bool fresh, struct yokei_flight_file **file_out);
/** Remove the files of rank `first` and of those after it, up to the first that is missing. */
void yokei_flight_drop(const char *folder, int first);
/** Map the file of another rank for reading. YOKE_EDATA when it is missing or no flight record, YOKE_EIO when it cannot be mapped. */
yoke_status yokei_flight_open(const char *folder, int rank, const struct yokei_flight_file **file_out);
/**
 * The same without a run directory: the record lies in memory that has no name, so nothing is left behind however the
 * processes end. Peers map it by the descriptor's entry in /proc/PID/fd. The caller closes fd_out.
 */
yoke_status yokei_flight_create_memory(int rank, int *fd_out, struct yokei_flight_file **file_out);
yoke_status yokei_flight_open_memory(int pid, int fd, const struct yokei_flight_file **file_out);
/**
 * A copy of the record at `path` for reading at leisure, free() it. The file may be damaged: all texts of the copy end and
 * are printable ASCII, and numbers that name something (kinds, types, states) may be out of range, for which the functions
 * of names give "?". YOKE_EIO, YOKE_EDATA as above.
 */
yoke_status yokei_flight_read(const char *path, struct yokei_flight_file **copy_out);
/**
 * What the record of a rank of another host says now, its list of operations left out: a copy, in memory that the first call
 * makes (*copy NULL) and yokei_flight_close frees. Read anew at each call, because a file that is mapped on another host
 * does not follow its writer. YOKE_EIO, YOKE_EDATA: the copy is as it was.
 */
yoke_status yokei_flight_look(const char *folder, int rank, const struct yokei_flight_file **copy);
/** Let readers on other hosts see what was written so far. May take as long as the disk or the file server does. */
void yokei_flight_publish(struct yokei_flight_file *file);
/** Unmap; NULL is allowed. */
void yokei_flight_close(const struct yokei_flight_file *file);

/** The agent's word: its rank runs (ALIVE), was stopped by `signal`, or is gone (DEAD, ENDED) by `signal` or `exit_code`. */
void yokei_flight_set_agent(struct yokei_flight_file *file, enum yokei_agent_state state, int pid, int signal,
                            int exit_code);
struct yokei_agent_verdict yokei_flight_agent(const struct yokei_flight_file *file);
/** A reader's watch over the beats of an agent on another host, by the reader's own clock. */
struct yokei_beats {
    uint64_t count, since_ns, looked_ns;
};
/** For how long they have stood still, as far as that was watched: who did not look for a while begins anew. 0: they do not. */
uint64_t yokei_beats_stand(struct yokei_beats *beats, const struct yokei_flight_file *file, uint64_t now);
/** Whether a rank of which that was said is gone for good. */
static inline bool yokei_agent_gone(enum yokei_agent_state state) 
{
    return state == YOKEI_AGENT_DEAD || state == YOKEI_AGENT_ENDED || state == YOKEI_AGENT_LOST || state == YOKEI_AGENT_SILENT;
}

/**
 * Whether a rank that its agent calls stopped counts as gone: a second after it was stopped, and a quarter of one after the reader saw it so, who looked
 * all the time. `here`: the agent's clock is the reader's.
 */
bool yokei_stopped_for_long(const struct yokei_agent_verdict *verdict, uint64_t seen_ns, bool here);

/** Whether the rank died by a signal, or ended with a code, by its agent's word in that folder. */
bool yokei_flight_ended_badly(const char *folder, int rank, int *signal_out, int *code_out);

/** "died by signal 9 (Killed)", "exited with code 3", "was stopped by signal 19 (Stopped (signal))", "was ended", "runs". */
void yokei_agent_verdict_text(const struct yokei_agent_verdict *verdict, char *text_out, size_t bytes);

/**
 * One line on what a rank does or last did: "in all_reduce #17 of \"world\", step 3, waits for rank 1 since 2.3 s". Without the
 * times where the record is another host's (`here` false): its clock is not ours.
 */
void yokei_flight_describe(const struct yokei_flight_file *file, bool here, char *text_out, size_t bytes);

/**
 * Where /dev/shm is too small for MPI's messages between so many ranks, is read-only, or is not there: let them go through files in $TMPDIR
 * instead, in this process's environment, and say so in note_out (else empty). To be called before MPI starts. YOKE_EIO and YOKE_ENOMEM where
 * MPI cannot start, also for want of descriptors or of a thread: it would end by a bus error, a segmentation fault or an abort.
 */
yoke_status yokei_make_room(int ranks_on_host, char *note_out, size_t bytes);
/** YOKE_EIO where the files of this process may not be as large as MPI's in memory: no rank can start, nor keep its record. */
yoke_status yokei_check_file_limit(void);

/** The state letter of /proc/PID/stat ('T' stopped, 'Z' ended) and its start time; '\0' when there is no such process. */
char yokei_process_state(int pid, uint64_t *start_time_out);

#endif
