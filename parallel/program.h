/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The step program: what one rank does in one step, as a flat list, lowered once from layers, schedule and shares.
 * Each instruction names the buffers that it touches; from first and last touch every buffer gets its place, so memory is
 * known exactly before anything runs. The interpreter, the planner of memory and the profile all read this list.
 */
#ifndef PARALLEL_PROGRAM_H
#define PARALLEL_PROGRAM_H

#include "parallel/observer.h"
#include "parallel/parameters.h"
#include "parallel/record.h"
#include "parallel/schedule.h"
#include "parallel/state.h"

enum yokei_instruction_kind {
    YOKEI_ZERO,            /* gradients = 0 */
    YOKEI_FORWARD,         /* the three calls of a layer for a micro-batch */
    YOKEI_BACKWARD_INPUT,
    YOKEI_BACKWARD_WEIGHT,
    YOKEI_SEND_ACTIVATION, /* to the next stage, from the last one to the first where there are chunks */
    YOKEI_RECEIVE_ACTIVATION,
    YOKEI_SEND_GRADIENT,   /* to the stage before */
    YOKEI_RECEIVE_GRADIENT,
    YOKEI_TIED,            /* sum the gradients of parameters that first and last stage share */
    YOKEI_REPLICATED,      /* make gradients of what all ranks of a tensor group hold the same on all */
    YOKEI_REDUCE,          /* sum a bucket over the replicas */
    YOKEI_NORMS,           /* sums of squares and non-finite elements of the gradients in the own slices */
    YOKEI_AGREE,           /* what the ranks tell each other at the end of a step */
    YOKEI_STEP,            /* AdamW on what a bucket keeps here */
    YOKEI_GATHER,          /* the weights of a bucket from the replicas that stepped them */
    YOKEI_N_INSTRUCTIONS
};
extern const char *const yokei_instruction_names[YOKEI_N_INSTRUCTIONS];

/** Whether it is a message between stages; such an instruction always records an event, by which one can wait until it is over. */
static inline bool yokei_is_message(enum yokei_instruction_kind kind) { return kind >= YOKEI_SEND_ACTIVATION && kind <= YOKEI_RECEIVE_GRADIENT; }
/** Whether it may go on while the list does: messages, and sums of buckets, which always record an event too. */
static inline bool yokei_goes_on(enum yokei_instruction_kind kind) { return yokei_is_message(kind) || kind == YOKEI_REDUCE; }

/* Each neighbour and direction has a stream: a message that waits for its receiver holds up nothing else. */
enum yokei_stream {
    YOKEI_COMPUTE,
    YOKEI_COMMUNICATION,
    YOKEI_SENDS_ACTIVATIONS,
    YOKEI_RECEIVES_ACTIVATIONS,
    YOKEI_SENDS_GRADIENTS,
    YOKEI_RECEIVES_GRADIENTS,
    YOKEI_N_STREAMS
};

struct yokei_instruction {
    enum yokei_instruction_kind kind;
    int layer, micro_batch, chunk; /* of a layer's call */
    int bucket;                    /* of REDUCE, STEP and GATHER */
    enum yokei_stream stream;
    int wait[YOKEI_N_STREAMS];     /* events of other streams that are waited for before; -1: none */
    int record;                    /* event recorded after; -1: none */
    bool recomputes;               /* a forward pass that only fills the stash again */
    uint32_t fresh;                /* gradients that W writes rather than adds to, as bits of the layer's parameters */
    int x, y, dy, dx, stash[YOKE_N_STASHES], workspace; /* buffers; -1: none */
    int first_op, n_ops;           /* what it issues, in program->planner.ops */
};

/** What a buffer is: the output of a layer or its gradient; what a call leaves for a later one; what a call needs for itself. */
enum yokei_buffer_kind { YOKEI_BUFFER_BOUNDARY, YOKEI_BUFFER_STASH, YOKEI_BUFFER_WORKSPACE, YOKEI_N_BUFFER_KINDS };

/** A buffer that lives from instruction `first` to `last`, both included. */
struct yokei_buffer {
    size_t bytes;
    int first, last;
    size_t offset;  /* behind the state */
    bool is_received; /* its own kind of memory: to write there no rank waits until a message of its own was taken */
    enum yokei_buffer_kind kind;
};

struct yokei_micro_batch {
    int64_t first; /* sequence of the rank's share */
    int64_t B;
};

/** Bytes of the rank's allocation. */
struct yokei_piece {
    size_t offset, bytes;
};

struct yokei_program {
    enum yoke_mode mode;
    yoke_dtype dtype;
    int64_t T;
    int n_micro_batches;
    struct yokei_micro_batch *micro_batch;
    int n, capacity;
    struct yokei_instruction *instruction;
    int n_buffers, buffer_capacity;
    struct yokei_buffer *buffer;
    int n_zeroed;            /* what ZERO zeroes: gradients that no W writes whole */
    struct yokei_piece *zeroed;
    int n_events;
    int agree;               /* index of AGREE; n where there is none */
    size_t bytes;            /* of all buffers, placed */
    yoke_observer planner;   /* ops of all instructions, and the scratch that they want */
};

/** Layers [first, end), which a rank runs one after the other. */
struct yokei_chunk {
    int first, end;
};

/** What a program is made from. */
struct yokei_job {
    const yoke_layer *const *layers;
    int n_layers;
    int n_chunks;
    const struct yokei_chunk *chunk; /* of this rank; 0 chunks: all layers are one */
    const bool *recomputed;          /* [n_layers] whose stash R fills again; NULL: none */
    int segment;                     /* layers whose stashes are filled again together, where R comes directly before B; 0: all of a chunk */
    const struct yokei_parameters *parameters;
    const struct yokei_state *state;
    yoke_device *device;
    struct yoke_place place;
    int64_t T;
    int64_t n_sequences, micro_batch; /* the rank's share, cut into micro-batches of at most so many sequences */
};

/** Number of micro-batches of a share. */
int yokei_n_micro_batches(int64_t n_sequences, int64_t micro_batch);
/** A training step by a schedule's actions for this rank. YOKE_EUNSUPPORTED where the device lacks an op, with the layer. */
yoke_status yokei_program_train(const struct yokei_job *job, const struct yokei_actions *actions,
                                struct yokei_program *program_out);
/** Forward passes only, of one micro-batch. */
yoke_status yokei_program_evaluate(const struct yokei_job *job, struct yokei_program *program_out);
void yokei_program_free(struct yokei_program *program);

/* ---- memory.c ---- */
/** Give every buffer an offset, so that buffers whose lives overlap do not; yields the bytes of all. */
yoke_status yokei_place_buffers(struct yokei_buffer *buffers, int n, size_t *bytes_out);
/** A program's bytes by part, at the instruction where most of them live; `received` has a place of its own, `unused` is between the others. */
struct yokei_program_parts {
    size_t of[YOKEI_N_BUFFER_KINDS], received, unused;
};
yoke_status yokei_program_parts(const struct yokei_program *program, struct yokei_program_parts *parts_out);

/* ---- order.c ---- */
/** What each instruction waits for in other streams, from the buffers that it touches; once they are placed. */
yoke_status yokei_order_streams(struct yokei_program *program);

/* ---- interpreter.c ---- */
struct yokei_adamw {
    double learning_rate, beta1, beta2, eps, weight_decay;
    double gradient_scale; /* 1 / loss scale, times the clipping coefficient */
    int64_t step;          /* of the optimizer: skipped steps do not count */
};

/** What a program runs on. */
struct yokei_machine {
    const struct yokei_job *job;
    const struct yokei_program *program;
    yoke_stream *stream[YOKEI_N_STREAMS];
    yoke_event **event;
    void *base;             /* the rank's allocation; while planning an address that nobody reads */
    yoke_observer *observer;
    struct yoke_pass pass;  /* of the step; micro-batch and sample are filled in */
    struct yokei_adamw adamw;
    double slow;            /* more than 1: a test aid, layers' calls take so many times as long, asleep */
    const struct yoke_tensor_group *tensor; /* the ranks that share this rank's layers; NULL: none */
    /* what needs other ranks; NULL: alone */
    yoke_status (*reduce)(void *context, int bucket, yoke_stream *stream, yoke_event *done);
    yoke_status (*gather)(void *context, int bucket, yoke_stream *stream);
    yoke_status (*tied)(void *context, yoke_stream *stream);
    yoke_status (*replicated)(void *context, yoke_stream *stream);
    yoke_status (*agree)(void *context);
    /* one message of a pipeline: to or from the neighbour that the kind of instruction says; n_rows of the micro-batch, `columns` in each */
    yoke_status (*message)(void *context, enum yokei_instruction_kind kind, void *data, int64_t n_rows, int64_t columns, yoke_stream *stream,
                           yoke_event *done);
    bool messages_tell;     /* a message completes its event itself: streams run what they are given at once */
    bool reduces_tell;      /* so does a sum of a bucket, which then goes on beside what is computed */
    struct yokei_record *record; /* when the instructions ran; NULL: nobody wants to know */
    void *context;
};

/** Run instructions [from, to). */
yoke_status yokei_run(const struct yokei_machine *machine, int from, int to);
/** Whether the instruction completes its event itself. */
static inline bool yokei_tells(const struct yokei_machine *k, enum yokei_instruction_kind kind)
{
    return (k->messages_tell && yokei_is_message(kind)) || (k->reduces_tell && kind == YOKEI_REDUCE);
}

/* ---- slow.c: a test aid ---- */
/** What YOKE_SLOW, "RANK:FACTOR,...", says of this rank of the job; 1 where it says nothing. YOKE_ECONFIG. */
yoke_status yokei_slow_factor(double *factor_out);
typedef yoke_status (*yokei_run_function)(const struct yokei_machine *machine, const struct yokei_instruction *instruction);
/** Run a layer's call, then sleep so that it takes machine->slow times as long, without what it waits for others. */
yoke_status yokei_run_slowly(const struct yokei_machine *machine, const struct yokei_instruction *instruction, yokei_run_function run);

#endif
