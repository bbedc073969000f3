/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The internals of the trainer, shared by its files: plan_rank.c, trainer.c (create), step.c, replicas.c,
 * weights.c.
 */
#ifndef TRAIN_TRAINER_TRAINER_H
#define TRAIN_TRAINER_TRAINER_H

#include <stdatomic.h>

#include "core/base/base.h"
#include "core/base/exact.h"
#include "parallel/mesh.h"
#include "parallel/program.h"
#include "train/models/model.h"
#include "train/trainer/counted.h"
#include "train/trainer/usage.h"

/**
 * A tie is a pair of ranks of a replica that hold overlapping rows of a tied parameter. `first` is the place
 * of one rank in the first stage, `last` the place of the other in the last stage.
 */
struct yokei_tie {
    int first, last;
};

/**
 * Elements [at, at + n) of one of this rank's parameters. The rank sums their gradients with the other rank
 * of a tie.
 */
struct yokei_tied_piece {
    int tie, parameter;
    int64_t at, n;
};

/** All decisions that are made before anything is allocated. */
struct yokei_trainer_plan {
    int rank, n_ranks;
    struct yokei_mesh mesh;
    struct yoke_place place;
    /* [mesh.pipeline] ranks of each stage, as in the mesh; NULL: all stages have the same number of ranks */
    int *widths;
    int n_tensor_shares;
    /* [mesh.tensor]; if stages have different widths, the shares of all stages one after the other; NULL:
     * equal */
    int64_t *tensor_shares;
    struct yokei_chunk *chunk; /* [mesh.chunks] the layers of this rank */
    bool *held, *recomputed;   /* [n_layers] */
    /* sequences of each replica, and the index of its first sequence in the global batch */
    int64_t *shares, *first;
    int *n_micro_batches; /* [mesh.data] micro-batches of each replica */
    int64_t micro_batch;  /* sequences in a micro-batch of this rank's replica */
    int64_t *zero_shares; /* [mesh.data] the proportions in which buckets are cut into the replicas' slices */
    struct yokei_parameters logical; /* parameters of the whole model, not divided; the same on all ranks */
    struct yokei_parameters parameters;
    /* [parameters.n] whether this rank adds the parameter's norm to the total norm, so that each element of
     * the model counts once */
    bool *counted;
    /* [parameters.n] whether the first and the last stage both hold it; whether the model has a tied
     * parameter */
    bool *tied, has_tied;
    /* [n_ties] used if these two stages have different widths; the same on all ranks */
    struct yokei_tie *ties;
    int n_ties;
    struct yokei_tied_piece *tied_piece; /* [n_tied_pieces] the pieces of this rank, ordered by tie */
    int n_tied_pieces;
    int *stage_of;          /* [n_layers] */
    int *n_buckets;         /* [mesh.pipeline] buckets that each stage sums over its replicas */
    bool *stage_recomputes; /* [mesh.pipeline] */
    struct yokei_state state;
    struct yokei_job train_job, evaluate_job, logits_job;
    struct yokei_program train, evaluate, logits;
    size_t scratch_bytes, arena_bytes;
    struct yoke_memory_report report;
    /* a tree of the segment lengths that other plans chose (segment.c); NULL: there is none */
    void **segments;
    /*
     * A tree of counts (counted.h). If it is set and the schedule is a generated one, the plan has counts in
     * place of programs, so it cannot run. NULL: the plan has programs.
     */
    void **count_tree;
    const struct yokei_counted *counts; /* the tree owns them */
    struct yokei_counted_once once;
};

/** The loss scale. It is dynamic in fp16 and fixed in the other precisions. */
struct yokei_loss_scale {
    double scale, first;
    bool dynamic;
    int64_t interval, good_steps;
    int skipped;   /* skipped steps in a row */
    bool any_good; /* at least one step had finite gradients */
};
void yokei_loss_scale_init(struct yokei_loss_scale *s, yoke_dtype precision, double first, int64_t interval);
/** Update the scale after a step. YOKE_ENUMERIC if too many steps overflow in a row. */
yoke_status yokei_loss_scale_update(struct yokei_loss_scale *s, bool overflow, int64_t step);

/**
 * The communicators of the groups to which a rank of the mesh belongs. NULL means that the group has one
 * rank, or that it is the trainer's own communicator.
 */
struct yokei_groups {
    yoke_comm *data, *tensor, *tied;
    yoke_comm **ties; /* [n_ties] in the plan's order; an entry is NULL if the tie belongs to other ranks */
    int n_ties;
    /*
     * with the next and previous stage: [0] activations, [1] gradients. Ranks of the earlier stage come first
     */
    yoke_comm *next[2], *previous[2];
    bool earlier_is_next; /* which of the two communicators was created first */
    struct yoke_tensor_group tensor_group;
};

struct yokei_memory_rank; /* memory.h */
struct yokei_step_facts;  /* facts.h */

enum { YOKEI_REPORT = 16 + YOKEI_EXACT_LIMBS }; /* doubles that a rank sends at an agreement */

struct yoke_trainer {
    /* defaults are filled in; shares and schedule are not used after creation */
    struct yoke_trainer_config config;
    struct yokei_maker maker; /* the process that created the trainer */
    yoke_model *model;
    yoke_device *device;
    struct yokei_trainer_plan plan;
    yoke_stream *stream[YOKEI_N_STREAMS];
    yoke_event **event;
    int n_events;
    void *base; /* the single allocation */
    yoke_observer profiler;
    bool profiling;
    struct yokei_groups groups;
    struct yokei_memory_rank *memory; /* [n_ranks] */
    struct yokei_loss_scale loss_scale;
    int64_t step, optimizer_step; /* backward passes so far, and AdamW steps that were not skipped */
    double gradient_scale;        /* the loss scale of the current gradients */
    /* the current step */
    struct yokei_machine machine;
    uint64_t begun_ns;
    double clock;
    double data_seconds, checkpoint_seconds, compiled_seconds; /* noted since the last step */
    struct yokei_usage usage;
    struct yoke_step_result result;
    struct yoke_rank_report *reports;
    double *gathered;               /* [ranks][YOKEI_REPORT] the numbers of all ranks at an agreement */
    void *host_losses, *host_norms; /* wide */
    /* event of a call that is followed by another call on the same communicator; no thread waits for this
     * event */
    yoke_event *between;
    /* [buckets] whether all_reduce gives the same bits as reduce_scatter; NULL: one replica */
    bool *sums_in_order;
    bool ready;                /* a backward was run and its apply was not */
    atomic_bool asked_to_stop; /* to be sent at the next agreement */
    /* measurements of the step: timing.c */
    struct yokei_record record; /* times of the training program */
    /* sums of buckets overlap with the passes although streams run each call before it returns */
    bool overlaps;
    struct yoke_tensor_group timed; /* groups.tensor_group with time measurement */
    /* times of the current step; with queued streams, of the last step that was synchronised */
    struct yokei_step_times times;
    double norms_seconds; /* seconds of the gradients' norms in the same step as `times` */
    /* when the end of the last pass was observed, and when the gradients' norms arrived */
    uint64_t passed_ns, fetched_ns;
    double slow;                    /* YOKE_SLOW, a test aid; 1: no slowdown */
    struct yokei_step_facts *facts; /* facts.h; NULL: none are collected */
};

/* ---- step.c: the parts of a pass that audits share ---- */
/** Prepare trainer->machine for a program. Sums over the replicas are not set. */
void yokei_step_set_up(struct yoke_trainer *trainer, const struct yokei_job *job,
                       const struct yokei_program *program);
/** Copy n tokens and targets to the device. */
yoke_status yokei_step_load(struct yoke_trainer *trainer, const int32_t *tokens, const int32_t *targets,
                            int64_t n);
/**
 * Wait for all messages of the machine's program. Until then receivers may still read the memory of a
 * message. This memory must not be written, and the events must not be reused.
 */
yoke_status yokei_step_drain(struct yoke_trainer *trainer);
/** The index of the training program's instruction after the last call of a layer and the last message. */
int yokei_step_end_of_compute(const struct yokei_program *program);

/* ---- timing.c ---- */
/** Prepare the time measurement. Call it after the groups are created. */
yoke_status yokei_timing_create(struct yoke_trainer *trainer);
/**
 * Make the record exact from the next step on. Where streams do not run each call before it returns, streams
 * are then synchronised before and after all computation, and these steps are slower. Elsewhere records are
 * always exact.
 */
void yokei_trainer_exact(yoke_trainer *trainer, bool exact);
/**
 * Add seconds in which this rank read data or saved checkpoints. The next step reports the sums to all ranks,
 * and sets them to 0.
 */
void yokei_trainer_note(yoke_trainer *trainer, double data_seconds, double checkpoint_seconds);
/** Add seconds in which this rank compiled before its first step. The next step reports them, too. */
void yokei_trainer_note_compiled(yoke_trainer *trainer, double seconds);
/** The last step's record. Instructions that were not complete before are checked again. */
yoke_status yokei_trainer_record(yoke_trainer *trainer, const struct yokei_record **record_out);
/** The times of the current step up to its agreement. */
yoke_status yokei_timing_measure(struct yoke_trainer *trainer, struct yokei_step_times *times_out);
/**
 * The arithmetic operations of this rank's matrix products and attentions in a step: F, B and W of every
 * layer. Recomputation does not count. Causal attention counts only the scores that are not masked (half of
 * them).
 */
double yokei_trainer_flops(const struct yoke_trainer *trainer);
/** The operations and bytes of one instruction, as stated by its ops. */
struct yoke_cost yokei_instruction_cost(const struct yokei_program *program,
                                        const struct yokei_instruction *instruction);

/* ---- ranks.c: the only file of the trainer that communicates with other ranks ---- */
/** Create the communicators of the mesh. Collective; blocks. */
yoke_status yokei_groups_create(const struct yoke_trainer_config *config,
                                const struct yokei_trainer_plan *plan, struct yokei_groups *groups_out);
void yokei_groups_destroy(struct yokei_groups *groups);
/**
 * The host memory that all communicators of a run need on this rank's host: the communicators of config and
 * of the mesh. Communicators that config does not have yet are included.
 */
yoke_status yokei_groups_footprint(const struct yoke_trainer_config *config,
                                   const struct yokei_trainer_plan *plan, bool is_staged, size_t *shared_out,
                                   size_t *private_out);
/** The bytes that the communicators of config have already allocated; 0: there are no communicators. */
size_t yokei_ranks_taken(const struct yoke_trainer_config *config);
/** Let the communicators of the groups fail with this reason. Not collective. */
void yokei_groups_revoke(struct yokei_groups *groups, const char *why);
/** The error of the first communicator that failed, among the groups and the trainer's own communicators. */
yoke_status yokei_groups_error(const struct yokei_groups *groups, const struct yoke_trainer_config *config);
/**
 * A message between stages. It carries this rank's own part of n_rows rows of a micro-batch, with `columns`
 * elements per row.
 */
struct yokei_message {
    enum yokei_instruction_kind kind;
    void *data;
    int64_t n_rows, columns;
    yoke_dtype dtype;
    bool is_cut; /* each rank of a stage with several ranks holds its own rows (sequence parallelism) */
};
/**
 * Send or receive a message in order with `stream`. If `stream` is NULL, the message starts at once,
 * asynchronously, and signals `done` on completion.
 */
yoke_status yokei_groups_message(const struct yokei_groups *groups, const struct yokei_mesh *mesh,
                                 const struct yokei_message *message, yoke_stream *stream, yoke_event *done);
void yokei_ranks(const struct yoke_trainer_config *config, int *rank_out, int *n_ranks_out);
/** Set all[r * n ...] to the values of rank r, over host memory. */
yoke_status yokei_ranks_gather(const struct yoke_trainer_config *config, const double *mine, int n,
                               double *all);
/** Concatenate `bytes` bytes of each rank, over host memory. */
yoke_status yokei_ranks_gather_bytes(const struct yoke_trainer_config *config, const void *mine, size_t bytes,
                                     void *all);
/**
 * YOKE_EMISMATCH with the text "ranks 0 and r <what>" if the hash differs between ranks. Only the upper 52
 * bits are compared. If a mesh is given, the hash may differ within a replica but not between replicas.
 */
yoke_status yokei_ranks_agree(const struct yoke_trainer_config *config, uint64_t hash,
                              const struct yokei_mesh *mesh, const char *what);
/**
 * Whether the sum of n elements is computed in the order of the ranks, both as a whole and by slices.
 * `longest` is the number of elements of the longest slice. Local; the result is the same on all ranks.
 */
yoke_status yokei_ranks_sums_in_order(yoke_comm *comm, int64_t n, int64_t longest, yoke_dtype dtype,
                                      bool *in_order_out);
/**
 * Whether sums among the ranks of `comm` go only through shared memory of one host. All ranks get the same
 * result.
 */
yoke_status yokei_ranks_stay_on_host(yoke_comm *comm, bool *stay_out);
/** Rank 0 receives n numbers of rank `from` into `his`, in pieces. Only these two ranks take part. Blocks. */
yoke_status yokei_ranks_hand_over(const struct yoke_trainer_config *config, int from, const double *mine,
                                  size_t n, double *his);
/**
 * Measure the difference between two clocks. Rank 0 and `peer` call this function, each with the origin of
 * its clock. Rank 0 gets *offset_out, which it adds to the peer's seconds since the peer's origin to get rank
 * 0's seconds since its own origin. *error_out is the possible error of the offset. It is 0 if both ranks use
 * the same clock (is_shared). Blocks.
 */
yoke_status yokei_ranks_clock(const struct yoke_trainer_config *config, int peer, uint64_t origin_ns,
                              bool is_shared, double *offset_out, double *error_out);
/**
 * The collectives of layers over the ranks of `comm`. `comm` has at most YOKE_MAX_TENSOR ranks and must
 * outlive the result. If the communicator is YOKE_REPRODUCIBLE_SHAPE, sums are in the order of the ranks.
 * Otherwise the order may depend on the count, but all ranks get the same bits.
 */
struct yoke_tensor_group yokei_ranks_tensor(yoke_comm *comm);

/**
 * For each element of `values` (host memory), all ranks get the value of the one rank where it is not 0, bit
 * for bit. Blocks.
 */
yoke_status yokei_ranks_join_all(const struct yoke_trainer_config *config, float *values, int64_t n);
/**
 * YOKE_OK if `mine` is YOKE_OK on all ranks. Otherwise all ranks get the error of the first rank that has
 * one; the message names that rank. Collective.
 */
yoke_status yokei_ranks_all_well(const struct yoke_trainer_config *config, yoke_status mine);
/**
 * For a rank that alone has YOKE_ENOMEM and is about to destroy its trainer. The other ranks would wait for
 * it, and so would the destruction of the trainer's communicators. So these communicators and those of its
 * configuration fail. With any other status, and with an error that all ranks have, nothing is done.
 */
void yokei_trainer_revoke(yoke_trainer *trainer, yoke_status status);
/** YOKE_EINVAL in a process that was forked from the one that created the trainer. */
static inline yoke_status yokei_trainer_check(const char *call, const yoke_trainer *t)
{
    if (yokei_made_here(&t->maker)) return YOKE_OK;
    return yokei_refuse_fork(call, &t->maker, "the trainer",
                             "create a trainer in this process, on a device that this process has opened");
}
/**
 * Whether all ranks have the calling thread's last error. It came from yokei_ranks_all_well or
 * yokei_ranks_share.
 */
bool yokei_ranks_alike(void);
/**
 * All ranks have the calling thread's last error, because they found it in the same numbers. Returns
 * `status`. Not collective.
 */
yoke_status yokei_ranks_share(yoke_status status);
/**
 * This rank alone has an error and will not take part in the next calls of the other ranks. It aborts the
 * communicators of config with its last error, so that the other ranks get this error. Not collective.
 * Returns `mine`, with its text.
 */
yoke_status yokei_ranks_revoke(const struct yoke_trainer_config *config, yoke_status mine);
/**
 * On `root`, combine the ranks' pieces into `out`, bit for bit. For each element, all ranks but one hold 0.
 * Collective.
 */
yoke_status yokei_ranks_join(const struct yoke_trainer_config *config, const float *mine, int64_t n, int root,
                             float *out);

/** Sum n counts over all ranks into `sum` of rank 0 (host memory). Collective. */
yoke_status yokei_ranks_count(const struct yoke_trainer_config *config, const int64_t *mine, int64_t n,
                              int64_t *sum);

/**
 * Sum what this rank holds of a parameter's gradient after REDUCE (the whole, or its slice) over `comm`. The
 * ranks of `comm` hold the same elements.
 */
yoke_status yokei_zero_sum(yoke_trainer *trainer, int parameter, yoke_comm *comm, yoke_stream *stream);

/** This rank is busy until its next collective. The other ranks then wait without reporting it as late. */
void yokei_ranks_busy(const struct yoke_trainer_config *config, const char *what);

/* ---- rounding.c: whether AdamW has the same bits on all ranks ---- */
/**
 * Run AdamW on test data. If the result is not that of correctly rounded divisions and roots, let the device
 * correct them (yokei_correct_rounding), and try again. *hash_out gets a hash of what the device computes
 * then. Blocks.
 */
yoke_status yokei_rounding_try(yoke_device *device, yoke_dtype precision, double *hash_out);
/**
 * Run AdamW on test data on all ranks' devices, and compare the bits. With *differs_out each slice of the
 * weights needs one owner (config->zero = 1). YOKE_ECONFIG if ranks that are not replicas of each other hold
 * the same weights and get different bits; all ranks get this error. Collective.
 */
yoke_status yokei_rounding_compare(const struct yoke_trainer_config *config, yoke_device *device,
                                   const struct yokei_trainer_plan *plan, bool *differs_out);

/* ---- replicas.c: division of gradients and optimizer states among replicas ---- */
/**
 * Call yokei_zero_choose (memory.h) for the ranks of a plan with equal slices. Collective. All ranks get the
 * same result.
 */
yoke_status yokei_zero_shares(const struct yoke_trainer_config *config, yoke_device *device,
                              const struct yokei_trainer_plan *plan, int64_t *shares_out, bool *uneven_out);
/** Decide how each bucket is summed. Call it after the groups are created. */
yoke_status yokei_zero_begin(struct yoke_trainer *trainer);
/** REDUCE and GATHER of a bucket. The context is the trainer. */
yoke_status yokei_zero_reduce(void *trainer, int bucket, yoke_stream *stream, yoke_event *done);
yoke_status yokei_zero_gather(void *trainer, int bucket, yoke_stream *stream);
/** Concatenate n wide elements of each replica, from this offset, in `all` (device memory). */
yoke_status yokei_replicas_collect(struct yoke_trainer *trainer, size_t offset, int64_t n, void *all,
                                   yoke_stream *stream);

/*
 * ---- weights.c: a piece is elements [first, first + n) of the parameter's part on this rank's tensor place
 * ----
 */
/** YOKE_EUNSUPPORTED if this replica keeps only a slice, and the piece is not in this slice. */
yoke_status yokei_trainer_get_piece(yoke_trainer *trainer, enum yoke_tensor_kind kind, int index,
                                    int64_t first, int64_t n, float *out);
/** The weights that layers get. They are rounded to 16 bits if there is a working copy. */
yoke_status yokei_trainer_get_working(yoke_trainer *trainer, int index, float *out);
/** Set the part of the piece that this rank keeps. For weights the working copy is set too. */
yoke_status yokei_trainer_set_piece(yoke_trainer *trainer, enum yoke_tensor_kind kind, int index,
                                    int64_t first, int64_t n, const float *values);
/**
 * Set the state after `step` steps, of which `optimizer_step` were not skipped. The last three arguments are
 * fields of struct yokei_loss_scale.
 */
void yokei_trainer_restore(yoke_trainer *trainer, int64_t step, int64_t optimizer_step, double scale,
                           int64_t good_steps, int skipped);

/* ---- tied.c ---- */
/**
 * Find the pairs of ranks that share rows of a tied parameter, if the first and the last stage have different
 * widths.
 */
yoke_status yokei_plan_ties(const yoke_model *model, const struct yoke_trainer_config *c,
                            struct yokei_trainer_plan *plan);
/** Sum the gradients of tied parameters over the stages that hold them, in order with `stream`. */
yoke_status yokei_tied_sum(struct yoke_trainer *trainer, yoke_stream *stream);

/* ---- plan_schedule.c ---- */
/**
 * Make the schedule, and find the line of this rank's stage. Every rank checks all replicas, so all ranks
 * refuse an error in any of them.
 */
yoke_status yokei_trainer_schedule(const struct yoke_trainer_config *c, const struct yokei_trainer_plan *plan,
                                   struct yokei_schedule *schedule_out, int *own_out);
/**
 * The shape of the pipeline of this rank's replica, and the order of this rank's line, for a generated
 * schedule. The errors are those of yokei_trainer_schedule.
 */
yoke_status yokei_trainer_order(const struct yoke_trainer_config *c, const struct yokei_trainer_plan *plan,
                                struct yokei_pipeline *shape_out, struct yokei_schedule_order *order_out);

/* ---- segment.c ---- */
/**
 * Choose how many layers the rank recomputes together, and set plan->train_job.segment. If plan->segments is
 * set, a length that was chosen for a rank like this one is used again.
 */
yoke_status yokei_choose_segment(const struct yoke_trainer_config *c, const struct yokei_actions *actions,
                                 struct yokei_trainer_plan *plan);
void yokei_segments_free(void **segments);

/* ---- plan_place.c ---- */
/** The place of rank t of stage s on the mesh. */
struct yoke_place yokei_plan_place(const struct yoke_trainer_config *c, const struct yokei_trainer_plan *plan,
                                   int s, int t);
void yokei_trainer_plan_free(struct yokei_trainer_plan *plan);

/* ---- plan_rank.c ---- */
/**
 * The first parts of a plan. The position has the fields mesh, place, widths, tensor_shares, shares, first
 * and micro_batch. The place also has the layers that the stages hold and recompute. Free them with
 * yokei_trainer_plan_free.
 */
yoke_status yokei_trainer_plan_position(const yoke_model *model, struct yoke_trainer_config *config, int rank,
                                        int n_ranks, struct yokei_trainer_plan *plan_out);
yoke_status yokei_trainer_plan_place(const yoke_model *model, struct yoke_trainer_config *config, int rank,
                                     int n_ranks, struct yokei_trainer_plan *plan_out);
/** Plan the rest. The plan has its place. After an error the plan is free. */
yoke_status yokei_trainer_plan_placed(const yoke_model *model, yoke_device *device,
                                      const struct yoke_trainer_config *config,
                                      struct yokei_trainer_plan *plan);
/**
 * Plan as rank `rank` of n_ranks. The other ranks need not exist (config->comm NULL). With zero 1 and no
 * shares, the plan uses equal slices.
 */
yoke_status yokei_trainer_plan_as(const yoke_model *model, yoke_device *device,
                                  struct yoke_trainer_config *config, int rank, int n_ranks,
                                  struct yokei_trainer_plan *plan_out);

/* ---- plan_run.c ---- */
/** Plan this rank of the run. Without shares, zero 1 divides by free memory if equal slices do not fit. */
yoke_status yokei_trainer_plan(const yoke_model *model, yoke_device *device,
                               struct yoke_trainer_config *config, struct yokei_trainer_plan *plan_out);

#endif
