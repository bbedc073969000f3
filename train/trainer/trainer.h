/* SPDX-License-Identifier: Apache-2.0 */
/** The trainer's inside, shared by its files: plan.c, trainer.c (create), step.c, replicas.c, weights.c. */
#ifndef TRAIN_TRAINER_TRAINER_H
#define TRAIN_TRAINER_TRAINER_H

#include <stdatomic.h>

#include "core/base/exact.h"
#include "parallel/mesh.h"
#include "parallel/program.h"
#include "train/models/model.h"

/** Two ranks of a replica whose rows of a tied parameter overlap: their places in the first and in the last stage. */
struct yokei_tie {
    int first, last;
};

/** Elements [at, at + n) of one of this rank's parameters, which it sums with the other rank of a tie. */
struct yokei_tied_piece {
    int tie, parameter;
    int64_t at, n;
};

/** Everything that is known before anything is allocated. */
struct yokei_trainer_plan {
    int rank, n_ranks;
    struct yokei_mesh mesh;
    struct yoke_place place;
    int *widths;                  /* [mesh.pipeline] the mesh's; NULL: stages are equally wide */
    int n_tensor_shares;
    int64_t *tensor_shares;       /* [mesh.tensor], of unequal widths those of all stages one after the other; NULL: equal */
    struct yokei_chunk *chunk;    /* [mesh.chunks] layers of this rank */
    bool *held, *recomputed;      /* [n_layers] */
    int64_t *shares, *first;      /* sequences of each replica, and where they begin in the global batch */
    int *n_micro_batches;         /* of each replica */
    int64_t micro_batch;          /* of this rank's replica */
    int64_t *zero_shares;         /* [mesh.data] in which buckets are cut into the replicas' slices */
    struct yokei_parameters logical; /* of the whole model, unsharded: the same on all ranks */
    struct yokei_parameters parameters;
    bool *counted;                /* [parameters.n] whose norm this rank adds to the whole one's: each element of the model once */
    bool *tied, has_tied;         /* [parameters.n] that the first and the last stage both hold; whether the model has such */
    struct yokei_tie *ties;       /* [n_ties] where these stages have different widths; the same on all ranks */
    int n_ties;
    struct yokei_tied_piece *tied_piece; /* [n_tied_pieces] of this rank, tie after tie */
    int n_tied_pieces;
    int *stage_of;                /* [n_layers] */
    int *n_buckets;               /* [mesh.pipeline] that each stage sums over its replicas */
    bool *stage_recomputes;       /* [mesh.pipeline] */
    struct yokei_state state;
    struct yokei_job train_job, evaluate_job, logits_job;
    struct yokei_program train, evaluate, logits;
    size_t scratch_bytes, arena_bytes;
    struct yoke_memory_report report;
};

/** fp16's dynamic loss scale; fixed in the other precisions. */
struct yokei_loss_scale {
    double scale, first;
    bool dynamic;
    int64_t interval, good_steps;
    int skipped; /* in a row */
    bool any_good; /* a step was finite */
};
void yokei_loss_scale_init(struct yokei_loss_scale *s, yoke_dtype precision, double first, int64_t interval);
/** After a step. YOKE_ENUMERIC when steps keep overflowing. */
yoke_status yokei_loss_scale_update(struct yokei_loss_scale *s, bool overflow, int64_t step);

/** Communicators of the groups that a rank of a mesh belongs to; NULL: a group of one, or the trainer's own is it. */
struct yokei_groups {
    yoke_comm *data, *tensor, *tied;
    yoke_comm **ties;                 /* [n_ties] as the plan has them; NULL in it: of other ranks */
    int n_ties;
    yoke_comm *next[2], *previous[2]; /* with the neighbouring stages: activations, gradients. The earlier stage's ranks come first */
    bool earlier_is_next;             /* which of the two was made first */
    struct yoke_tensor_group tensor_group;
};

struct yokei_memory_rank; /* memory.h */

enum { YOKEI_SAID = 9 + YOKEI_EXACT_LIMBS }; /* numbers that a rank tells at an agreement */

struct yoke_trainer {
    struct yoke_trainer_config config;  /* defaults filled in; shares and schedule are not looked at any more */
    yoke_model *model;
    yoke_device *device;
    struct yokei_trainer_plan plan;
    yoke_stream *stream[YOKEI_N_STREAMS];
    yoke_event **event;
    int n_events;
    void *base;                         /* the one allocation */
    yoke_observer profiler;
    bool profiling;
    struct yokei_groups groups;
    struct yokei_memory_rank *memory;   /* [n_ranks] */
    struct yokei_loss_scale loss_scale;
    int64_t step, optimizer_step;       /* backward passes, and AdamW steps that were taken */
    double gradient_scale;              /* loss scale that the gradients at hand carry */
    /* the step in hand */
    struct yokei_machine machine;
    uint64_t begun_ns;
    double clock;
    struct yoke_step_result result;
    struct yoke_rank_report *reports;
    double *said;                       /* [ranks][YOKEI_SAID] of an agreement */
    void *host_losses, *host_norms;     /* wide */
    yoke_event *between;                /* of a call that another one follows on the same communicator: nobody waits for it */
    bool *sums_in_order;                /* [buckets] whether all_reduce has the bits of reduce_scatter; NULL: one replica */
    bool ready;                         /* a backward whose apply is due */
    atomic_bool asked_to_stop;          /* to be said at the next agreement */
    /* what is seen of the step: timing.c */
    struct yokei_record record;         /* of the training program */
    bool overlaps;                      /* sums of buckets go on beside the passes although streams run at once what they are given */
    struct yoke_tensor_group timed;     /* groups.tensor_group, with a look at the clock */
    struct yokei_step_times times;      /* of the step in hand, or (queued streams) of the last one that was synchronised */
    double norms_seconds;               /* of that one */
    uint64_t passed_ns, fetched_ns;     /* when the last pass was seen to be over, and the gradients' norms */
    double slow;                        /* YOKE_SLOW, a test aid; 1: none */
};

/* ---- timing.c ---- */
/** Once the groups are made. */
yoke_status yokei_timing_create(struct yoke_trainer *trainer);
/**
 * From the next step on: streams are synchronised around all that computes where they do not run at once what they are given, so that
 * the record of the step is exact; such steps are slower there. Elsewhere records always are.
 */
void yokei_trainer_exact(yoke_trainer *trainer, bool exact);
/** The last step's record; what was not over is looked at again. */
yoke_status yokei_trainer_record(yoke_trainer *trainer, const struct yokei_record **record_out);
/** The step in hand up to its agreement. */
yoke_status yokei_timing_measure(struct yoke_trainer *trainer, struct yokei_step_times *times_out);
/**
 * Arithmetic operations of this rank's products and attentions in a step: F, B and W of every layer, without what is recomputed,
 * causal attention for the scores that count (half of them).
 */
double yokei_trainer_flops(const struct yoke_trainer *trainer);
/** Operations and bytes of one instruction, as its ops state them. */
struct yoke_cost yokei_instruction_cost(const struct yokei_program *program, const struct yokei_instruction *instruction);

/* ---- ranks.c: the only file of the trainer that talks to other ranks ---- */
/** Make the groups of the mesh. Collective; blocks. */
yoke_status yokei_groups_create(const struct yoke_trainer_config *config, const struct yokei_trainer_plan *plan, struct yokei_groups *groups_out);
void yokei_groups_destroy(struct yokei_groups *groups);
/** What all communicators of a run take of this rank's host, those of config and of the mesh; those that config has not yet too. */
yoke_status yokei_groups_footprint(const struct yoke_trainer_config *config, const struct yokei_trainer_plan *plan, bool is_staged,
                                   size_t *shared_out, size_t *private_out);
/** What the communicators of config have taken already; 0: there are none. */
size_t yokei_ranks_taken(const struct yoke_trainer_config *config);
/** The error of the first communicator of the groups, or of the trainer's own, that has failed. */
yoke_status yokei_groups_error(const struct yokei_groups *groups, const struct yoke_trainer_config *config);
/** What a message between stages carries, of n_rows rows of a micro-batch: this rank's own, `columns` elements each. */
struct yokei_message {
    enum yokei_instruction_kind kind;
    void *data;
    int64_t n_rows, columns;
    yoke_dtype dtype;
    bool is_cut; /* stages with several ranks hold own rows each (sequence parallelism) */
};
/** Send or receive it, in order with `stream`; stream NULL: begun at once, and over when `done` is complete. */
yoke_status yokei_groups_message(const struct yokei_groups *groups, const struct yokei_mesh *mesh, const struct yokei_message *message,
                                 yoke_stream *stream, yoke_event *done);
void yokei_ranks(const struct yoke_trainer_config *config, int *rank_out, int *n_ranks_out);
/** all[r * n ...] = rank r's values, over host memory. */
yoke_status yokei_ranks_gather(const struct yoke_trainer_config *config, const double *mine, int n, double *all);
/** YOKE_EMISMATCH, "ranks 0 and r <what>", unless the hash (its upper 52 bits) is the same on all ranks, or, given a mesh, on all replicas. */
yoke_status yokei_ranks_agree(const struct yoke_trainer_config *config, uint64_t hash, const struct yokei_mesh *mesh, const char *what);
/** Sum gradients in place over the ranks of `comm`, in order with `stream`. */
yoke_status yokei_ranks_sum(yoke_comm *comm, void *gradients, int64_t n, yoke_dtype dtype, yoke_stream *stream);
/** own = this rank's slice of the sum of all ranks' `all`, in place there: all + counts before it; the rest of `all` is as it was. */
yoke_status yokei_ranks_sum_slices(yoke_comm *comm, void *all, void *own, const size_t counts[], yoke_dtype dtype, yoke_stream *stream);
/** all = the ranks' slices; `own` is this rank's place in it. */
yoke_status yokei_ranks_gather_slices(yoke_comm *comm, void *all, void *own, const size_t counts[], yoke_dtype dtype, yoke_stream *stream);
/** Whether n elements are summed in the order of the ranks, whole and by slices, of which the longest has so many. Local; the same on all. */
yoke_status yokei_ranks_sums_in_order(yoke_comm *comm, int64_t n, int64_t longest, yoke_dtype dtype, bool *in_order_out);
/** The same, but beside what is computed; `done` says when it is over. For devices whose streams run at once. */
yoke_status yokei_ranks_sum_beside(yoke_comm *comm, void *gradients, int64_t n, yoke_dtype dtype, yoke_event *done);
yoke_status yokei_ranks_sum_slices_beside(yoke_comm *comm, void *all, void *own, const size_t counts[], yoke_dtype dtype, yoke_event *done);
yoke_status yokei_ranks_gather_slices_beside(yoke_comm *comm, void *all, void *own, const size_t counts[], yoke_dtype dtype, yoke_event *done);
/** Whether sums among the ranks of `comm` go through their host's memory alone. All say the same. */
yoke_status yokei_ranks_stay_on_host(yoke_comm *comm, bool *stay_out);
/** Rank 0 gets n numbers of rank `from` into `his`, in pieces; the other ranks do nothing. Blocks. */
yoke_status yokei_ranks_hand_over(const struct yoke_trainer_config *config, int from, const double *mine, size_t n, double *his);
/**
 * Called by rank 0 and `peer`, each with an origin of its clock: on rank 0, what is to be added to peer's seconds since its origin to
 * have rank 0's since its own, and how far off that may be (0 where they have one clock: is_shared). Blocks.
 */
yoke_status yokei_ranks_clock(const struct yoke_trainer_config *config, int peer, uint64_t origin_ns, bool is_shared, double *offset_out,
                              double *error_out);
/**
 * The collectives of layers over the ranks of `comm`, of at most YOKE_MAX_TENSOR ranks, which must outlive it. The order of sums is that
 * of the ranks where the communicator is YOKE_REPRODUCIBLE_SHAPE; else it may depend on the count, but bits are the same on all ranks.
 */
struct yoke_tensor_group yokei_ranks_tensor(yoke_comm *comm);

/** On all ranks each element of host memory from the one rank where it is not 0, bit for bit. Blocks. */
yoke_status yokei_ranks_join_all(const struct yoke_trainer_config *config, float *values, int64_t n);
/** Sums between begin and end go together. */
yoke_status yokei_ranks_group(bool begin);
/** YOKE_OK where `mine` is on all ranks; else, on all alike, the error of the first rank that has one, named. Collective. */
yoke_status yokei_ranks_all_well(const struct yoke_trainer_config *config, yoke_status mine);
/** On `root` out = the ranks' pieces put together, bit for bit: of each element, all ranks but one hold 0. Collective. */
yoke_status yokei_ranks_join(const struct yoke_trainer_config *config, const float *mine, int64_t n, int root, float *out);

/** This rank works on something of its own until its next collective: the others wait without calling it late. */
void yokei_ranks_busy(const struct yoke_trainer_config *config, const char *what);

/* ---- replicas.c: what replicas divide ---- */
/** Refuse what config->zero and its shares cannot be; the plan's shares. */
yoke_status yokei_zero_check(const struct yoke_trainer_config *config, struct yokei_trainer_plan *plan);
/** yokei_zero_choose (memory.h) for the ranks of a plan with equal slices. Collective; the same on all ranks. */
yoke_status yokei_zero_shares(const struct yoke_trainer_config *config, yoke_device *device, const struct yokei_trainer_plan *plan,
                              int64_t *shares_out, bool *uneven_out);
/** How each bucket is summed; once the groups are made. */
yoke_status yokei_zero_begin(struct yoke_trainer *trainer);
/** REDUCE and GATHER of a bucket; the context is the trainer. */
yoke_status yokei_zero_reduce(void *trainer, int bucket, yoke_stream *stream, yoke_event *done);
yoke_status yokei_zero_gather(void *trainer, int bucket, yoke_stream *stream);
/** Sum over `comm`, whose ranks hold the same elements, what this rank has of a parameter's gradient after REDUCE: all, or its slice. */
yoke_status yokei_zero_sum(yoke_trainer *trainer, int parameter, yoke_comm *comm, yoke_stream *stream);

/* ---- weights.c: elements [first, first + n) of what the ranks that share this one's tensors with it hold of a parameter ---- */
/** YOKE_EUNSUPPORTED where this replica keeps a slice only, and the piece is not in it. */
yoke_status yokei_trainer_get_piece(yoke_trainer *trainer, enum yoke_tensor_kind kind, int index, int64_t first, int64_t n, float *out);
/** Weights as layers are given them: rounded to 16 bits where there is a working copy. */
yoke_status yokei_trainer_get_working(yoke_trainer *trainer, int index, float *out);
/** As far as it is kept here; weights also in their working copy. */
yoke_status yokei_trainer_set_piece(yoke_trainer *trainer, enum yoke_tensor_kind kind, int index, int64_t first, int64_t n,
                                    const float *values);
/** As after `step` steps, of which `optimizer_step` were taken; the loss scale as struct yokei_loss_scale has it. */
void yokei_trainer_restore(yoke_trainer *trainer, int64_t step, int64_t optimizer_step, double scale, int64_t good_steps, int skipped);

/* ---- tied.c ---- */
/** The pairs of ranks that share rows of a tied parameter, where the first and the last stage have different widths. */
yoke_status yokei_plan_ties(const yoke_model *model, const struct yoke_trainer_config *c, struct yokei_trainer_plan *plan);
/** Sum the gradients of tied parameters over the stages that hold them, in order with `stream`. */
yoke_status yokei_tied_sum(struct yoke_trainer *trainer, yoke_stream *stream);

/* ---- plan.c ---- */
/** Where the rank at place t of stage s stands. */
struct yoke_place yokei_plan_place(const struct yoke_trainer_config *c, const struct yokei_trainer_plan *plan, int s, int t);
yoke_status yokei_trainer_plan(const yoke_model *model, yoke_device *device, struct yoke_trainer_config *config,
                               struct yokei_trainer_plan *plan_out);
/** As rank `rank` of n_ranks, also without them (config->comm NULL): what it would take; with zero 1 and no shares under equal slices. */
yoke_status yokei_trainer_plan_as(const yoke_model *model, yoke_device *device, struct yoke_trainer_config *config, int rank, int n_ranks,
                                  struct yokei_trainer_plan *plan_out);
void yokei_trainer_plan_free(struct yokei_trainer_plan *plan);

#endif
