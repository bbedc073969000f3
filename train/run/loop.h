/* SPDX-License-Identifier: Apache-2.0 */
/** A whole training run, as the command does it: data, shares, steps, files, validation and a sample. */
#ifndef TRAIN_RUN_LOOP_H
#define TRAIN_RUN_LOOP_H

#include <signal.h>
#include <yoke/train.h>
#include "parallel/mesh.h"
#include "train/exchange/weights_file.h"
#include "train/exchange/companions.h"
#include "train/text/bpe.h"
#include "train/run/metrics.h"
#include "train/files/plan.h"
#include "train/text/tokens.h"
#include "train/timeline/timeline.h"

/** What a person who watches is told after each step. */
struct yokei_training_progress {
    int64_t step, tokens;
    double loss, learning_rate, tokens_per_second;
    double seconds, seconds_left; /* since the first step; left: NaN where unknown */
    int64_t n_ranks;
    const struct yokei_metrics_rank *ranks;
};

/** Where the devices' peaks come from, that a step's work is held against. */
enum yokei_peak { YOKEI_PEAK_OFF, YOKEI_PEAK_MEASURED, YOKEI_PEAK_GIVEN };

struct yokei_training {
    struct yokei_plan plan;      /* with ranks: a replay, or shares that the user chose; without: measured */
    bool replay;                 /* the plan was read: its data, devices and progress bind */
    const char *plan_path;       /* for messages of a replay */
    const char *tokens;          /* text, or llm.c's .bin */
    bool tokens_are_llmc;
    const char *tokenizer;       /* tokenizer.json, or its folder, of text or of the tokens; NULL: text is bytes */
    double validation_share;     /* of the tokens; 0: default */
    int64_t validation_tokens;   /* at most so many are evaluated */
    int64_t evaluate_every;      /* steps; 0: only at the end */
    int64_t micro_batch;         /* 0: the whole share */
    uint64_t memory_limit;       /* 0: what the device has free */
    const char *init, *dump_gradients; /* NULL: not wanted */
    const char *model_file;      /* the config.json that the model was made by, or its folder; NULL: a model by name, or a plan's */
    const char *export_to;       /* folder for model.safetensors and what goes with it at the end; NULL: none */
    const char *save;            /* folder for checkpoints, one at the end included; NULL: none */
    int64_t save_every;          /* steps; 0: not by steps */
    double save_every_seconds;   /* of rank 0's clock; 0: not by time */
    int64_t keep;                /* newest checkpoints that are kept; 0: all */
    const char *resume;          /* a checkpoint's folder whose plan is `plan`; NULL: a new run */
    const volatile sig_atomic_t *stop; /* not 0: save at the end of the step, and end; NULL: never */
    enum yokei_peak peak;
    double peak_flops;           /* of each device, per second, where given */
    enum yoke_overlap overlap;   /* as struct yoke_trainer_config has it */
    const char *trace;           /* file for a trace of some steps; NULL: none */
    int64_t trace_steps;
    const char *run_dir;         /* plan.json and metrics.jsonl go there; NULL: they are not written */
    const char *prompt;
    int64_t sample_tokens;       /* 0: no sample */
    double temperature;
    int64_t top_k;
    yoke_device *device;
    bool verbose;                /* the whole table of memory, not one line of it */
    yoke_comm *comm, *control;   /* NULL: alone */
    void *context;
    void (*progress)(void *context, const struct yokei_training_progress *progress); /* rank 0; may be NULL */
    void (*note)(void *context, const char *text);                                   /* rank 0; may be NULL */
    void (*busy)(void *context, const char *text); /* rank 0: what takes long begins, or "": it is over; may be NULL */
};

struct yokei_training_result {
    bool leads;                  /* this rank is the first that works: what is told of the run, it tells */
    bool chose_shares;           /* by what was measured before the run */
    int64_t steps;               /* done, those before a resumed checkpoint included */
    int64_t tokens;              /* of this process's steps */
    double seconds;              /* of these steps */
    int64_t saved_step;          /* of the newest checkpoint that was written; -1: none */
    double loss, validation_loss, baseline_loss; /* NaN: none */
    int64_t validation_tokens;
    int64_t validation_bytes;    /* that these tokens stand for; 0: unknown, or bytes are the tokens */
    double first_loss;
    bool bytes;                  /* losses are nats per byte */
    char *sample;                /* rank 0; free() it; NULL: none */
    size_t sample_bytes;
    double word_share;           /* of the sample's words of three letters or more, that occur in the text */
    int64_t n_words;
    struct yoke_memory_report memory; /* of this rank; of all: training.plan.memory */
    struct yokei_trace_summary trace; /* rank 0; n_steps 0: none */
};

/**
 * Run. Collective over t->comm; results are the same on all ranks but for the sample. t->plan is completed (shares,
 * progress). YOKE_EPREEMPTED: t->stop was set on some rank, and a checkpoint was saved. Errors: YOKE_ECONFIG, YOKE_EDATA, YOKE_ENOMEM, YOKE_ENUMERIC, YOKE_EIO, those of the devices and of comm.h.
 */
yoke_status yokei_training_run(struct yokei_training *t, struct yokei_training_result *result_out);

/* ---- shared by the files of a run ---- */

/** All ranks of the job in the order in which they are placed; arrays are [n_ranks]. place.c fills it. */
struct yokei_run_job {
    yoke_comm *comm, *control;        /* of all, in that order; the training's own, unless they are `ordered` */
    yoke_comm *ordered[2], *working[2]; /* made here, of all and of those that work; NULL: not needed */
    yoke_comm *end;                   /* of all: where they meet at the end, if some are left out */
    int rank, n_ranks;
    int *rank_of, *host_of;           /* the job's own rank, and the host, of each */
};

/** The run at work. */
struct yokei_run_state {
    struct yokei_training *t;
    struct yokei_tokens *tokens;
    struct yokei_bpe *bpe;            /* NULL: tokens are bytes, or known by their ids alone */
    struct yokei_companions companions; /* rank 0, where something is saved or exported */
    yoke_model *model;
    yoke_trainer *trainer;
    struct yoke_trainer_config config;
    /* Of the job's ranks, as they are placed on the mesh, some may be left out of the run. What follows is of those that are not. */
    yoke_comm *comm, *control;
    int rank, n_ranks;                /* rank -1: this one is left out */
    struct yokei_mesh mesh;
    struct yokei_run_job job;
    int *placed;                      /* [n_ranks] index among the job's placed ranks: in the plan */
    int64_t *shares, *threads;        /* of each rank: sequences of its replica */
    int64_t *replica_shares;          /* [mesh.data] */
    int *widths;                      /* [mesh.pipeline] of the plan; NULL: all stages alike */
    int64_t *stage_blocks, *tensor_shares; /* of the plan; NULL: equal */
    int64_t *zero_shares;             /* of the plan; NULL: equal, or by free memory */
    struct yokei_metrics *metrics;
    struct yokei_metrics_rank *ranks; /* devices and speeds, for metrics and the one who watches */
    int32_t *inputs, *targets;        /* of this rank's share of a step */
    uint64_t begun_ns;
    int64_t tokens_seen;
    int64_t first_step;               /* steps done before this process */
    double seconds_before;            /* of the run's clock, before this process */
    int64_t next_sample;              /* of the training data: the first of the next step */
    int64_t saved_step;               /* of the newest checkpoint; -1: none */
    double saved_clock;               /* when it was written */
    double validation_loss;           /* the newest; NaN: none since the last row */
    double *peaks, *flops;            /* of each rank: operations per second at best (NaN: not known), and of the model in a step */
    struct yokei_tracer *tracer;      /* NULL: nothing is traced */
    bool chose_shares;
    double *compute_sum, step_sum;    /* seconds of the steps that count for the balance, of each rank and in all */
    int64_t n_counted;
};

/** Whether several ranks hold the model together. */
static inline bool yokei_run_is_divided(const struct yokei_run_state *s) { return s->mesh.data < s->n_ranks; }
/** Whether it takes all ranks to put whole tensors together: parts of the model, or slices of masters and moments. */
static inline bool yokei_run_is_spread(const struct yokei_run_state *s) { return yokei_run_is_divided(s) || (s->config.zero && s->mesh.data > 1); }
/** Tell rank 0's user something. */
void yokei_run_note(const struct yokei_run_state *s, const char *format, ...) YOKE_PRINTF(2, 3);
/** Tell who watches what takes long from now on; "": nothing does. */
void yokei_run_busy(const struct yokei_run_state *s, const char *text);

/* place.c */
/** Until more is known all ranks work, in the job's order. */
void yokei_run_begin_ranks(struct yokei_run_state *s);
/** The mesh over the ranks in the job's order. YOKE_ECONFIG. Local. */
yoke_status yokei_run_lay_mesh(struct yokei_run_state *s);
/** The same, and devices of all ranks into s->ranks; their order by t->plan.placement, and their places on the mesh. Collective. YOKE_ECONFIG. */
yoke_status yokei_run_place(struct yokei_run_state *s);
/** Go on without the ranks whose s->shares are 0, which get s->rank -1; *any_out: whether there are such. Collective. */
yoke_status yokei_run_leave_out(struct yokei_run_state *s, bool *any_out);
/**
 * Where ranks are left out, all of the job meet here when the run ended with `mine`: those wait until then, as long as it takes, and take the
 * others' status over. Another end than YOKE_OK or YOKE_EPREEMPTED they hear of as everybody does who waits. Collective.
 */
yoke_status yokei_run_meet(const struct yokei_run_state *s, yoke_status mine);
/** Destroy the communicators that were made here. Collective. */
void yokei_run_end_ranks(struct yokei_run_state *s);

/* measure.c */
/** What one rank's device takes for the model's own layers, at the run's micro-batch, all ranks at once. A rank with a part of each
 * layer's tensors takes that part of it. */
struct yokei_layer_times {
    double before, block, after; /* seconds per sequence and step (F, B, W, and R where its stage recomputes): of all layers before the blocks, of one block, of all behind */
    double element;              /* seconds per parameter and step: gradient norm and AdamW */
};
/** times_out [n_ranks]. Collective. YOKE_ENOMEM, on all ranks alike: a device has too little memory for a micro-batch of one sequence. */
yoke_status yokei_run_measure(struct yokei_run_state *s, int64_t micro_batch, struct yokei_layer_times *times_out);
/** Seconds of an all_reduce of n f32 over each stage's used replicas, the slowest's. Collective. */
yoke_status yokei_run_measure_sums(const struct yokei_run_state *s, const bool *used, int64_t n, double *seconds_out);
/** What each rank computed in a step of the run, and how long a step took, into the plan: means of all steps but the first. */
void yokei_run_note_balance(struct yokei_run_state *s);

/* balance.c */
/** Place the ranks, choose what t->plan leaves open, write it down there, and leave out who gets nothing. Collective. */
yoke_status yokei_run_balance(struct yokei_run_state *s);
/** The same without ranks or measurements, s->ranks [n_ranks] having the devices' names: shares as planned, else equal. */
yoke_status yokei_run_balance_planned(struct yokei_run_state *s);
struct yoke_trainer_config yokei_run_trainer_config(const struct yokei_run_state *s);

/* optimizer_shards.c */
/** Shares of optimizer states into a plan. YOKE_ECONFIG: too many, and not equal. */
yoke_status yokei_run_write_zero(struct yokei_plan *plan, const int64_t *shares, int n);
/** How the trainer divides them, likewise; and a word to the user. */
yoke_status yokei_run_note_zero(struct yokei_run_state *s);

/* rate.c */
/** Thousandths of the run that are over before `step` (from 1); `seconds`: rank 0's clock, for a time budget. */
int64_t yokei_rate_permille(const struct yokei_plan *plan, bool replay, int64_t step, double seconds);
/** Linear warm-up over the first steps, times a cosine from the full rate to the least one. */
double yokei_rate(const struct yokei_plan *plan, int64_t step, int64_t permille);

/* checkpoints.c */
/** The checkpoint that `path` means, the plan of its run, its step, and whether the run replays a plan. YOKE_EDATA. */
yoke_status yokei_run_resume_plan(const char *path, char *folder_out, size_t bytes, struct yokei_plan *plan_out, int64_t *step_out, bool *replay_out);
/** Refuse a folder with checkpoints of later steps than this run begins with: they would count as newer. Collective. YOKE_ECONFIG. */
yoke_status yokei_run_check_save(struct yokei_run_state *s);
/** Weights, moments, loss scale, step and position in the data as t->resume has them. Collective. YOKE_EDATA, YOKE_EMISMATCH. */
yoke_status yokei_run_restore(struct yokei_run_state *s);
/** Whether to save behind `step`; `clock` is rank 0's, so all ranks say the same. */
bool yokei_run_save_is_due(const struct yokei_run_state *s, int64_t step, double clock);
/** Save, unless that step is saved. Collective. A disk that is full or fails is a warning, unless `must`: then YOKE_EIO. */
yoke_status yokei_run_save(struct yokei_run_state *s, int64_t step, double clock, bool must);

/* corpus.c */
/** The run's tokens, and its tokenizer if it has one: a file's, or a text's. */
yoke_status yokei_run_open_tokens(struct yokei_run_state *s, const struct yokei_tokens_config *config);
/** On rank 0 what goes into checkpoints and exports beside the weights. Collective. */
yoke_status yokei_run_find_companions(struct yokei_run_state *s);
/** Of the first n_tokens that a validation predicts; 0 without a tokenizer. */
yoke_status yokei_run_validation_bytes(const struct yokei_run_state *s, int64_t n_tokens, int64_t *bytes_out);

/* evaluate.c */
/** Validation loss over all ranks; NaN where the data has no such part. */
yoke_status yokei_run_validate(struct yokei_run_state *s, double *loss_out, int64_t *n_tokens_out);
/** The yardstick and the sample, on rank 0; files that were asked for. */
yoke_status yokei_run_finish(struct yokei_run_state *s, struct yokei_training_result *result);

/* telemetry.c */
/** Every rank's peak and work per step, and what the steps of queued streams are made of. Trains: weights are to be drawn after it. Collective. */
yoke_status yokei_run_look(struct yokei_run_state *s);
/** The tracer, where one is wanted; once the first step is known. */
yoke_status yokei_run_begin_trace(struct yokei_run_state *s);
/** Collect and write the trace, as soon as its steps are there, or at the end of the run with what there is. Collective. */
yoke_status yokei_run_trace(struct yokei_run_state *s, bool is_end);

/* report.c */
/** What each rank takes, into the plan, and a table to who watches. */
yoke_status yokei_run_memory(struct yokei_run_state *s);
/** A row of metrics, and a call of t->progress. */
yoke_status yokei_run_report(struct yokei_run_state *s, const struct yoke_step_result *step, double learning_rate,
                             double seconds);

#endif
