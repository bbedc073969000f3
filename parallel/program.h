/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The step program: the list of instructions that one rank runs in one step. It is made once from the layers,
 * the schedule and the shares. Each instruction names the buffers that it uses. A buffer lives from its first
 * to its last use, so every buffer gets its address before anything runs, and the need for memory is known
 * exactly. The interpreter, the planner of memory and the profile all read this list.
 *
 * F is a forward pass, B the gradient of a layer's input, W the gradient of its weights, and R a forward pass
 * that is repeated to recompute activations. A stash is what one of these calls leaves in memory for a later
 * one.
 */
#ifndef PARALLEL_PROGRAM_H
#define PARALLEL_PROGRAM_H

#include "parallel/observer.h"
#include "parallel/parameters.h"
#include "parallel/record.h"
#include "parallel/schedule.h"
#include "parallel/state.h"

enum yokei_instruction_kind {
    YOKEI_ZERO,    /* set gradients to 0 */
    YOKEI_FORWARD, /* these three are the calls of a layer for a micro-batch */
    YOKEI_BACKWARD_INPUT,
    YOKEI_BACKWARD_WEIGHT,
    YOKEI_SEND_ACTIVATION, /* to the next stage; with chunks, the last stage sends to the first */
    YOKEI_RECEIVE_ACTIVATION,
    YOKEI_SEND_GRADIENT, /* to the previous stage */
    YOKEI_RECEIVE_GRADIENT,
    YOKEI_TIED, /* sum the gradients of parameters that the first and the last stage share */
    /* for parameters that all ranks of a tensor group hold: make their gradients equal on these ranks */
    YOKEI_REPLICATED,
    YOKEI_REDUCE, /* sum the gradients of a bucket over the replicas */
    /* sums of squares, and counts of non-finite elements, of the gradients in this rank's slices */
    YOKEI_NORMS,
    YOKEI_AGREE,  /* exchange loss, norm, overflow and times between all ranks at the end of a step */
    YOKEI_STEP,   /* AdamW on the part of a bucket whose moments this rank keeps */
    YOKEI_GATHER, /* all-gather the weights of a bucket from the replicas that updated them */
    YOKEI_N_INSTRUCTIONS
};
extern const char *const yokei_instruction_names[YOKEI_N_INSTRUCTIONS];

/**
 * Whether the instruction is a message between stages. A message always records an event, with which others
 * wait for its end.
 */
static inline bool yokei_is_message(enum yokei_instruction_kind kind)
{
    return kind >= YOKEI_SEND_ACTIVATION && kind <= YOKEI_RECEIVE_GRADIENT;
}
/**
 * Whether the instruction may run on while later ones begin: messages and sums of buckets. A sum always
 * records an event, too.
 */
static inline bool yokei_goes_on(enum yokei_instruction_kind kind)
{
    return yokei_is_message(kind) || kind == YOKEI_REDUCE;
}

/*
 * Each neighbour and direction has a stream of its own, so a message that waits for its receiver delays
 * nothing else.
 */
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
    int layer, micro_batch, chunk; /* for the calls of a layer */
    int bucket;                    /* for REDUCE, STEP and GATHER */
    enum yokei_stream stream;
    /* for each other stream: the event to wait for before the instruction; -1: none */
    int wait[YOKEI_N_STREAMS];
    int record;      /* the event to record after the instruction; -1: none */
    bool recomputes; /* the instruction is an R: a forward pass that only fills the stash again */
    uint32_t fresh;  /* bit p: W overwrites the gradient of the layer's parameter p instead of adding to it */
    int x, y, dy, dx, stash[YOKE_N_STASHES], workspace; /* indices of buffers; -1: none */
    int first_op, n_ops; /* the ops that the instruction issues, in program->planner.ops */
};

/**
 * BOUNDARY: a layer's output, or the gradient of it. STASH: what a call leaves for a later call. WORKSPACE:
 * used within one call.
 */
enum yokei_buffer_kind {
    YOKEI_BUFFER_BOUNDARY,
    YOKEI_BUFFER_STASH,
    YOKEI_BUFFER_WORKSPACE,
    YOKEI_N_BUFFER_KINDS
};

/** A buffer that lives from instruction `first` to `last`, both included. */
struct yokei_buffer {
    size_t bytes;
    int first, last;
    size_t offset; /* from the end of the state (see parallel/state.h) */
    /*
     * Filled by a receive. Such a buffer never shares memory with a sent one, so no receive waits until
     * another rank takes a message.
     */
    bool is_received;
    enum yokei_buffer_kind kind;
    /* the last instruction of each stream that uses the buffer; -1: none does. Filled by order.c */
    int last_on[YOKEI_N_STREAMS];
};

struct yokei_micro_batch {
    int64_t first; /* index of the first sequence within the rank's share */
    int64_t B;     /* number of sequences */
};

/** A piece of the rank's allocation. */
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
    int n_zeroed;
    /* [n_zeroed] the memory that ZERO sets to 0: gradients that no W overwrites completely */
    struct yokei_piece *zeroed;
    int n_events;
    int output;            /* evaluation: the buffer with the last layer's output; -1: this rank has none */
    int agree;             /* index of AGREE; n if there is none */
    size_t bytes;          /* memory that all buffers need together, once they are placed */
    bool is_counted;       /* the program cannot run: see yokei_program_count_train */
    int64_t n_issued;      /* the number of ops that all instructions issue together */
    yoke_observer planner; /* the ops of all instructions, and the scratch memory that they need */
};

/** A chunk: layers [first, end), which a rank runs one after the other. */
struct yokei_chunk {
    int first, end;
};

/** The input from which a program is made. */
struct yokei_job {
    const yoke_layer *const *layers;
    int n_layers;
    int n_chunks;
    /* [n_chunks] this rank's chunks; if n_chunks is 0, all layers are one chunk */
    const struct yokei_chunk *chunk;
    const bool *recomputed; /* [n_layers] whether R fills the layer's stash again; NULL: no layer's */
    /*
     * Number of layers whose stashes are filled again together, if R comes directly before B; 0: the whole
     * chunk.
     */
    int segment;
    const struct yokei_parameters *parameters;
    const struct yokei_state *state;
    yoke_device *device;
    struct yoke_place place;
    int64_t T;
    /* sequences of this rank's share, and the largest number of sequences in a micro-batch */
    int64_t n_sequences, micro_batch;
};

/** The number of micro-batches in a share of n_sequences. */
int yokei_n_micro_batches(int64_t n_sequences, int64_t micro_batch);
/**
 * Make the program of a training step from a schedule's actions for this rank. Free it with
 * yokei_program_free. YOKE_EUNSUPPORTED if the device lacks an op; the error text names the layer.
 */
yoke_status yokei_program_train(const struct yokei_job *job, const struct yokei_actions *actions,
                                struct yokei_program *program_out);
/** The member `bytes` that the program of a training step has. It costs less than the whole program. */
yoke_status yokei_program_train_bytes(const struct yokei_job *job, const struct yokei_actions *actions,
                                      size_t *bytes_out);
/**
 * Make a program whose memory and ops are only counted, which is faster. It has the passes and messages of
 * `actions`, up to the first action that is no pass and no message. No instruction waits for events. The ops
 * of calls that issue the same ops stand in the planner's list once. Without the instructions that follow
 * (REDUCE to STEP), the program does not depend on the buckets of the state.
 */
yoke_status yokei_program_count_train(const struct yokei_job *job, const struct yokei_actions *actions,
                                      struct yokei_program *program_out);
/** Make a program of forward passes only, for each micro-batch of the share. */
yoke_status yokei_program_evaluate(const struct yokei_job *job, struct yokei_program *program_out);
/** The same, but the program is only counted. */
yoke_status yokei_program_count_evaluate(const struct yokei_job *job, struct yokei_program *program_out);
/**
 * Count the ops that a training step issues once: those of ZERO, of NORMS, and of the STEP of each bucket, in
 * this order of instructions. Free the program with yokei_program_free, also after an error.
 */
yoke_status yokei_program_once(const struct yokei_job *job, struct yokei_program *program_out);
void yokei_program_free(struct yokei_program *program);

/* ---- list_ops.c ---- */
/**
 * Find out which ops each instruction issues, what they cost, and whether the device offers them. The
 * member is_counted decides whether each instruction has a list of its own.
 */
yoke_status yokei_list_ops(const struct yokei_job *job, struct yokei_program *program);
/**
 * Mark each W that overwrites a gradient, and list the memory that must be set to 0. A counted program gets
 * only the marks.
 */
yoke_status yokei_note_zeroed(const struct yokei_job *job, struct yokei_program *program);

/* ---- place_buffers.c ---- */
/**
 * Give every buffer an offset. Buffers that live at the same time do not overlap, and `red_zone` bytes behind
 * each buffer belong to none. *bytes_out: memory for all of them.
 */
yoke_status yokei_place_buffers(struct yokei_buffer *buffers, int n, size_t red_zone, size_t *bytes_out);
/**
 * A program's memory by part, in bytes. `of` is the state at the instruction where the live buffers need most
 * memory. `received` is the separate memory for received messages. `unused` is the rest: memory that no live
 * buffer uses there.
 */
struct yokei_program_parts {
    size_t of[YOKEI_N_BUFFER_KINDS], received, unused;
};
yoke_status yokei_program_parts(const struct yokei_program *program, struct yokei_program_parts *parts_out);

/* ---- order.c ---- */
/**
 * Set the events of other streams that each instruction waits for, from the buffers that it uses. The buffers
 * must be placed.
 */
yoke_status yokei_order_streams(struct yokei_program *program);
enum { YOKEI_N_OPERANDS = 5 + YOKE_N_STASHES };
/** List the buffers that an instruction uses. Returns their number. */
int yokei_operands(const struct yokei_instruction *instruction, int list[YOKEI_N_OPERANDS]);

/* ---- interpreter.c ---- */
struct yokei_adamw {
    double learning_rate, beta1, beta2, eps, weight_decay;
    double gradient_scale; /* 1 / loss scale, times the clipping coefficient */
    int64_t step;          /* the optimizer's number of the step; skipped steps do not count */
};

/** The environment in which a program runs. */
struct yokei_machine {
    const struct yokei_job *job;
    const struct yokei_program *program;
    yoke_stream *stream[YOKEI_N_STREAMS];
    yoke_event **event;
    void *base; /* the rank's allocation; while planning, an address that nothing reads */
    yoke_observer *observer;
    struct yoke_pass pass; /* the step's; the interpreter fills in micro-batch, chunk and sample */
    struct yokei_adamw adamw;
    /* a test aid: if more than 1, a layer's calls take that many times as long, because the rank sleeps */
    double slow;
    /* the ranks that share the tensors of this rank's layers; NULL: none */
    const struct yoke_tensor_group *tensor;
    /* operations that need other ranks; NULL: there are none */
    yoke_status (*reduce)(void *context, int bucket, yoke_stream *stream, yoke_event *done);
    yoke_status (*gather)(void *context, int bucket, yoke_stream *stream);
    yoke_status (*tied)(void *context, yoke_stream *stream);
    yoke_status (*replicated)(void *context, yoke_stream *stream);
    yoke_status (*agree)(void *context);
    /*
     * One message of a pipeline. `kind` says which neighbour sends or receives it. data [n_rows, columns]:
     * rows of the micro-batch.
     */
    yoke_status (*message)(void *context, enum yokei_instruction_kind kind, void *data, int64_t n_rows,
                           int64_t columns, yoke_stream *stream, yoke_event *done);
    /*
     * Called after each F that is no recomputation and has an output, with the call of the layer. It may wait
     * for the stream. NULL: nothing is called.
     */
    yoke_status (*after)(void *context, const struct yokei_instruction *instruction,
                         const struct yoke_layer_call *call);
    /*
     * A message signals its event itself, because the streams run each op within the call that issues it.
     */
    bool messages_signal;
    bool reduces_signal;         /* a sum of a bucket signals its event itself, too, and is asynchronous */
    struct yokei_record *record; /* gets the times of the instructions; NULL: the times are not recorded */
    void *context;
};

/* ---- annotate.c: for devices that check memory accesses (yokei_annotates); nothing on all others ---- */
/**
 * Forbid the rank's allocation, except for the arrays of the state, and give these arrays and the parameters'
 * tensors names. No command of the device uses the allocation yet.
 */
yoke_status yokei_annotate_arena(yoke_device *device, void *base, size_t bytes,
                                 const struct yokei_parameters *parameters, const struct yokei_state *state);
/** The content of these arrays ends, and the step writes them again. `arrays` is a set of bits. */
enum { YOKEI_CLEAR_GRADIENTS = 1, YOKEI_CLEAR_NORMS = 2, YOKEI_CLEAR_BATCH = 4 };
yoke_status yokei_annotate_clear(yoke_stream *stream, const void *base, const struct yokei_state *state,
                                 unsigned arrays);
/** Begin the lifetimes of the buffers whose first use is this instruction. Its stream has waited already. */
yoke_status yokei_annotate_begin(const struct yokei_machine *machine, int instruction);
/** End the lifetimes of the buffers that the instruction's stream does not use any more. */
yoke_status yokei_annotate_end(const struct yokei_machine *machine, int instruction);
/** End the lifetime of an evaluation's output, which the caller has read. */
yoke_status yokei_annotate_read(const struct yokei_machine *machine);

/** Run instructions [from, to). */
yoke_status yokei_run(const struct yokei_machine *machine, int from, int to);
/** Whether the instruction signals its event itself. */
static inline bool yokei_signals(const struct yokei_machine *k, enum yokei_instruction_kind kind)
{
    return (k->messages_signal && yokei_is_message(kind)) || (k->reduces_signal && kind == YOKEI_REDUCE);
}

/* ---- slow.c: a test aid ---- */
/**
 * The factor that the variable YOKE_SLOW ("RANK:FACTOR,...") has for this rank of the job. 1 if it does not
 * name the rank. YOKE_ECONFIG if the variable cannot be read.
 */
yoke_status yokei_slow_factor(double *factor_out);
typedef yoke_status (*yokei_run_function)(const struct yokei_machine *machine,
                                          const struct yokei_instruction *instruction);
/**
 * Run a layer's call, then sleep so that it takes machine->slow times as long. Time spent waiting for other
 * ranks does not count.
 */
yoke_status yokei_run_slowly(const struct yokei_machine *machine, const struct yokei_instruction *instruction,
                             yokei_run_function run);

#endif
