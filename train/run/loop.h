/* SPDX-License-Identifier: Apache-2.0 */
/** A whole training run of the command `yoke train`: data, shares, steps, files, validation and a sample. */
#ifndef TRAIN_RUN_LOOP_H
#define TRAIN_RUN_LOOP_H

#include <signal.h>
#include <yoke/train.h>
#include "parallel/mesh.h"
#include "train/exchange/weights_file.h"
#include "train/exchange/companions.h"
#include "train/text/bpe.h"
#include "train/run/metrics.h"
#include "train/plan/run_plan.h"
#include "train/text/tokens.h"
#include "train/timeline/timeline.h"
#include "train/audit/audit.h"

/** The numbers that the user sees after each step. */
struct yokei_training_progress {
    int64_t step, tokens;
    double loss, learning_rate, tokens_per_second;
    double seconds, seconds_left; /* seconds since the first step; estimated seconds left, NaN if unknown */
    int64_t n_ranks;
    const struct yokei_metrics_rank *ranks;
};

/**
 * Where the peak speeds of the devices come from. The work of a step is divided by the peak (model FLOPs
 * utilization, MFU).
 */
enum yokei_peak { YOKEI_PEAK_OFF, YOKEI_PEAK_MEASURED, YOKEI_PEAK_GIVEN };

struct yokei_training {
    /* with ranks: a replay, or shares that the user chose; without ranks: shares are measured */
    struct yokei_plan plan;
    bool replay;           /* the plan was read from a file, so its data, devices and progress are binding */
    const char *plan_path; /* for messages of a replay */
    const char *tokens;    /* path of a text file, or of an llm.c .bin file */
    bool tokens_are_llmc;
    /* tokenizer.json of the text or of the tokens, or its folder; NULL: each byte of the text is a token */
    const char *tokenizer;
    int64_t validation_tokens;         /* the most tokens that a validation evaluates */
    int64_t evaluate_every;            /* steps between evaluations; 0: only at the end */
    int64_t micro_batch;               /* 0: the default that yoke_trainer_config (yoke/train.h) states */
    uint64_t memory_limit;             /* bytes; 0: the free memory of the device */
    int64_t audit_every;               /* steps between audits; 0: none */
    int64_t black_box_every;           /* steps between samples of the black box; 0: no black box */
    const char *init, *dump_gradients; /* NULL: not wanted */
    /* the config.json (or its folder) from which the model was made; NULL: a model by name, or the plan's
     * model */
    const char *model_file;
    /* folder for model.safetensors and its companion files, written at the end; NULL: none */
    const char *export_to;
    const char *save;          /* folder for checkpoints, including one at the end; NULL: none */
    int64_t save_every;        /* steps between checkpoints; 0: not by steps */
    double save_every_seconds; /* seconds between checkpoints, by rank 0's clock; 0: not by time */
    int64_t keep;              /* how many of the newest checkpoints are kept; 0: all */
    const char *resume;        /* folder of a checkpoint whose plan is in `plan`; NULL: a new run */
    const volatile sig_atomic_t
        *stop; /* if not 0: save at the end of the step, then end; NULL: the run is never stopped */
    enum yokei_peak peak;
    double peak_flops;         /* operations per second of each device, for YOKEI_PEAK_GIVEN */
    enum yoke_overlap overlap; /* as struct yoke_trainer_config has it */
    const char *timeline;      /* file for a timeline of some steps; NULL: none */
    int64_t timeline_steps;
    const char *tensorboard;        /* folder for event files; NULL: none */
    int64_t tensorboard_histograms; /* steps between histograms of gradients; 0: none */
    const char *metrics_file;       /* file with metrics for Prometheus; NULL: none */
    const char *run_dir;            /* folder for plan.json and metrics.jsonl; NULL: they are not written */
    const char *prompt;
    int64_t sample_tokens; /* 0: no sample */
    double temperature;
    int64_t top_k;
    yoke_device *device;
    bool verbose;              /* print the memory and the processing units of every rank */
    yoke_comm *comm, *control; /* NULL: this rank is alone */
    void *context;
    void (*progress)(void *context,
                     const struct yokei_training_progress *progress); /* called on rank 0; may be NULL */
    void (*note)(void *context, const char *text);                    /* called on rank 0; may be NULL */
    /* called on rank 0 when something that takes long begins, and with "" when it ends; may be NULL */
    void (*busy)(void *context, const char *text);
};

struct yokei_training_result {
    bool leads; /* this rank is the first rank that works, so this rank prints the messages of the run */
    bool chose_shares;  /* the shares were chosen by measurements before the run */
    int64_t steps;      /* steps done, including the steps before a resumed checkpoint */
    int64_t tokens;     /* tokens of the steps of this process */
    double seconds;     /* seconds of the steps of this process */
    int64_t saved_step; /* step of the newest checkpoint that was written; -1: none */
    double loss, validation_loss, baseline_loss; /* NaN: none */
    int64_t validation_tokens;
    /* bytes that the validation tokens stand for; 0: unknown, or tokens are bytes */
    int64_t validation_bytes;
    double first_loss;
    bool bytes;   /* tokens are bytes, so losses are nats per byte */
    char *sample; /* on rank 0, to be freed with free(); NULL: none */
    size_t sample_bytes;
    double word_share; /* the share of the sample's words (of three letters or more) that occur in the text */
    int64_t n_words;
    /* this rank's memory; training.plan.memory has the memory of all ranks */
    struct yoke_memory_report memory;
    struct yokei_timeline_summary timeline; /* on rank 0; n_steps 0: no timeline */
};

/**
 * Run. Collective over t->comm. The results are the same on all ranks except for the sample. t->plan is
 * completed with shares and progress. YOKE_EPREEMPTED: t->stop was set on some rank, and a checkpoint was
 * saved. Errors: YOKE_ECONFIG, YOKE_EDATA, YOKE_ENOMEM, YOKE_ENUMERIC, YOKE_EIO, those of the devices and of
 * comm.h.
 */
yoke_status yokei_training_run(struct yokei_training *t, struct yokei_training_result *result_out);

/* ---- shared by the files of a run ---- */

/**
 * All ranks of the job, in the order in which they are placed on the mesh. Arrays are [n_ranks].
 * place_ranks.c fills it.
 */
struct yokei_run_job {
    /* communicators of all ranks in that order: the ones in struct yokei_training, or `ordered` */
    yoke_comm *comm, *control;
    /* created by place_ranks.c; `ordered` has all ranks, `working` the ranks that are not left out; NULL: not
     * needed */
    yoke_comm *ordered[2], *working[2];
    yoke_comm *end; /* communicator of all ranks, on which they meet at the end if some ranks are left out */
    int rank, n_ranks;
    int *rank_of, *host_of; /* each rank's number as the job was started, and its host */
};

/** The state of a run. */
struct yokei_run_state {
    struct yokei_training *t;
    struct yokei_tokens *tokens;
    struct yokei_skips skips;           /* samples that no step reads */
    uint64_t tokens_hash;               /* of all tokens, when the run began */
    int64_t epoch;                      /* the epoch of the newest sample that was read */
    struct yokei_bpe *bpe;              /* NULL: tokens are bytes, or only their ids are known */
    struct yokei_companions companions; /* on rank 0, if something is saved or exported */
    yoke_model *model;
    yoke_trainer *trainer;
    struct yoke_trainer_config config;
    /*
     * Some of the job's ranks may be left out of the run. The fields that follow are for the ranks that work,
     * in the order of their places on the mesh.
     */
    yoke_comm *comm, *control;
    int rank, n_ranks; /* rank -1: this rank is left out */
    struct yokei_mesh mesh;
    struct yokei_run_job job;
    int *placed;               /* [n_ranks] index of each rank among the job's placed ranks, as in the plan */
    int64_t *shares, *threads; /* for each rank, the sequences of its replica and its host threads */
    int64_t *replica_shares;   /* [mesh.data] sequences of each replica */
    /* [mesh.pipeline] ranks of each stage, from the plan; NULL: all stages have the same number */
    int *widths;
    int64_t *stage_blocks, *tensor_shares; /* from the plan; NULL: equal */
    int64_t *zero_shares;                  /* from the plan; NULL: equal, or by free memory */
    struct yokei_metrics *metrics;
    struct yokei_dashboards *dashboards; /* NULL: none */
    struct yokei_metrics_rank *ranks;    /* devices and speeds of the ranks, for metrics and progress */
    int32_t *inputs, *targets;           /* inputs and targets of this rank's share of a step */
    uint64_t begun_ns;
    double compiled_before; /* seconds of compilation in this process before the run */
    int64_t tokens_seen;
    int64_t first_step;     /* steps that were done before this process started */
    double seconds_before;  /* seconds of the run's clock before this process started */
    int64_t next_sample;    /* number of the first sample of the next step; it may be one that is skipped */
    int64_t saved_step;     /* step of the newest checkpoint; -1: none */
    double saved_clock;     /* the clock when the newest checkpoint was written */
    double validation_loss; /* the newest validation loss; NaN: none since the last row of metrics */
    struct yokei_audit *audit;         /* NULL: no audits */
    struct yokei_audit_result audited; /* NaN: no audit since the last row of metrics */
    struct yokei_run_box *box;         /* black_box.h; NULL: no black box */
    /* each rank's peak operations per second (NaN: unknown), and its operations of the model in a step */
    double *peaks, *flops;
    struct yokei_collector *collector; /* NULL: no timeline */
    bool chose_shares;
    /* rank of the job whose device is emulated, the lowest one; -1: none. Its times are not used */
    int emulated_rank;
    /* seconds of the steps that count for the times in the plan: for each rank, and for the whole step */
    double *compute_sum, step_sum;
    int64_t n_counted;
};

/** Whether several ranks together hold one copy of the model. */
static inline bool yokei_run_is_divided(const struct yokei_run_state *s) { return s->mesh.data < s->n_ranks; }
/**
 * Whether all ranks are needed to assemble whole tensors. Either the model is divided, or masters and moments
 * are divided into slices.
 */
static inline bool yokei_run_is_spread(const struct yokei_run_state *s)
{
    return yokei_run_is_divided(s) || (s->config.zero && s->mesh.data > 1);
}
/** Show a message to the user of rank 0. */
void yokei_run_note(const struct yokei_run_state *s, const char *format, ...) YOKE_PRINTF(2, 3);
/** Tell the user that something that takes long begins now; "": nothing is running. */
void yokei_run_busy(const struct yokei_run_state *s, const char *text);

/* place_ranks.c */
/** At first all ranks work, in the job's order. */
void yokei_run_begin_ranks(struct yokei_run_state *s);
/** Lay the mesh over the ranks in the job's order. YOKE_ECONFIG. Local. */
yoke_status yokei_run_lay_mesh(struct yokei_run_state *s);
/**
 * Gather the devices of all ranks in s->ranks, order the ranks by t->plan.placement, and lay the mesh over
 * the ranks in this order. Collective. YOKE_ECONFIG.
 */
yoke_status yokei_run_place(struct yokei_run_state *s);
/**
 * Continue without the ranks whose s->shares are 0. These ranks get s->rank -1. *any_out says whether there
 * are such ranks. Collective.
 */
yoke_status yokei_run_leave_out(struct yokei_run_state *s, bool *any_out);
/**
 * Let all ranks of the job meet at the end of the run, if some ranks were left out. `mine` is the status with
 * which this rank ended. A rank that was left out waits here, without a time limit, and takes over the status
 * of the ranks that worked. If the status is not YOKE_OK or YOKE_EPREEMPTED, waiting ranks learn of the
 * failure as in any other wait. Collective.
 */
yoke_status yokei_run_meet(const struct yokei_run_state *s, yoke_status mine);
/** Destroy the communicators that place_ranks.c created. Collective. */
void yokei_run_end_ranks(struct yokei_run_state *s);

/* measure_devices.c */
/**
 * The time that one rank's device needs for the model's own layers at the run's micro-batch, while all ranks
 * measure at the same time. A rank that holds a part of each layer's tensors measures that part.
 */
struct yokei_layer_times {
    /* seconds per sequence and step (F, B, W, and recomputation if the rank's stage recomputes): of all
     * layers before the blocks, of one block, of all layers after the blocks */
    double before, block, after;
    double element; /* seconds per parameter and step for the gradient norm and AdamW */
};
/**
 * Measure; times_out is [n_ranks]. Collective. YOKE_ENOMEM, on all ranks alike, if a device has too little
 * memory for a micro-batch of one sequence.
 */
yoke_status yokei_run_measure(struct yokei_run_state *s, int64_t micro_batch,
                              struct yokei_layer_times *times_out);
/**
 * Seconds of an all_reduce of n f32 elements over the used replicas of each stage; the slowest stage counts.
 * Collective.
 */
yoke_status yokei_run_measure_sums(const struct yokei_run_state *s, const bool *used, int64_t n,
                                   double *seconds_out);
/**
 * Write into the plan how long each rank computed in a step of the run, and how long a step took. Both are
 * means over all steps except the first.
 */
void yokei_run_note_times(struct yokei_run_state *s);

/* divide_work.c */
/**
 * Place the ranks, choose what t->plan leaves open, write the choice into the plan, and leave out the ranks
 * that get no sequences. Collective.
 */
yoke_status yokei_run_divide(struct yokei_run_state *s);
/**
 * The same without other ranks and without measurements. s->ranks [n_ranks] has the names of the devices.
 * Shares are those of the plan, or equal.
 */
yoke_status yokei_run_divide_planned(struct yokei_run_state *s);
struct yoke_trainer_config yokei_run_trainer_config(const struct yokei_run_state *s);

/* optimizer_shards.c */
/**
 * Write the shares of optimizer states into a plan. YOKE_ECONFIG if there are too many and they are not
 * equal.
 */
yoke_status yokei_run_write_zero(struct yokei_plan *plan, const int64_t *shares, int n);
/** Write the trainer's shares of optimizer states into the plan in the same way, and tell the user. */
yoke_status yokei_run_note_zero(struct yokei_run_state *s);

/* learning_rate.c */
/**
 * How many thousandths of the run are over before `step` (counted from 1). `seconds` is rank 0's clock, for a
 * time budget.
 */
int64_t yokei_rate_permille(const struct yokei_plan *plan, bool replay, int64_t step, double seconds);
/**
 * The learning rate: linear warm-up over the first steps, times a cosine from the full rate to the lowest
 * rate.
 */
double yokei_rate(const struct yokei_plan *plan, int64_t step, int64_t permille);

/* checkpoints.c */
/**
 * Find the checkpoint that `path` means. The function returns the plan of its run, its step, and whether the
 * run replays a plan. YOKE_EDATA.
 */
yoke_status yokei_run_resume_plan(const char *path, char *folder_out, size_t bytes,
                                  struct yokei_plan *plan_out, int64_t *step_out, bool *replay_out);
/**
 * Refuse a folder that has checkpoints of later steps than the first step of this run, because those
 * checkpoints would count as newer. Collective. YOKE_ECONFIG.
 */
yoke_status yokei_run_check_save(struct yokei_run_state *s);
/**
 * Restore weights, moments, loss scale, step and position in the data from t->resume. Collective. YOKE_EDATA,
 * YOKE_EMISMATCH.
 */
yoke_status yokei_run_restore(struct yokei_run_state *s);
/** Whether to save after `step`. `clock` is rank 0's clock, so all ranks decide alike. */
bool yokei_run_save_is_due(const struct yokei_run_state *s, int64_t step, double clock);
/**
 * Save a checkpoint unless that step is saved already. Collective. A full or failing disk causes a warning.
 * With `must` it causes YOKE_EIO.
 */
yoke_status yokei_run_save(struct yokei_run_state *s, int64_t step, double clock, bool must);

/* audits.c */
/** Refuse audits of a run without replicas. YOKE_ECONFIG. */
yoke_status yokei_run_check_audit(const struct yokei_run_state *s);
/** Prepare audits, if they are wanted. Collective. */
yoke_status yokei_run_begin_audit(struct yokei_run_state *s);
/**
 * Run an audit after `step` if one is due. s->next_sample is the first sample of the next step. Collective.
 * YOKE_ENUMERIC if ranks differ.
 */
yoke_status yokei_run_audit(struct yokei_run_state *s, int64_t step);

/* encode_text.c */
/** Open the run's tokens (from a token file or a text), and its tokenizer if it has one. */
yoke_status yokei_run_open_tokens(struct yokei_run_state *s, const struct yokei_tokens_config *config);
/**
 * Read, on rank 0, the companion files that go into checkpoints and exports beside the weights. Collective.
 */
yoke_status yokei_run_find_companions(struct yokei_run_state *s);
/** The bytes of the first n_tokens that a validation predicts; 0 without a tokenizer. */
yoke_status yokei_run_validation_bytes(const struct yokei_run_state *s, int64_t n_tokens, int64_t *bytes_out);

/* evaluate.c */
/** Compute the validation loss over all ranks. NaN if the data has no validation part. */
yoke_status yokei_run_validate(struct yokei_run_state *s, double *loss_out, int64_t *n_tokens_out);
/** Compute the baseline loss and the sample on rank 0, and write the requested files. */
yoke_status yokei_run_finish(struct yokei_run_state *s, struct yokei_training_result *result);

/* peaks_and_timeline.c */
/**
 * Measure every rank's peak speed and its work per step. With queued streams, measure also which parts a step
 * has. This function trains, so weights must be drawn after it. Collective.
 */
yoke_status yokei_run_look(struct yokei_run_state *s);
/** Create the collector if a timeline is wanted. Call it when the first step is known. */
yoke_status yokei_run_begin_timeline(struct yokei_run_state *s);
/**
 * Collect and write the timeline when all its steps are recorded. At the end of the run, write the steps that
 * there are. Collective.
 */
yoke_status yokei_run_timeline(struct yokei_run_state *s, bool is_end);

/* products.c */
/** Let the device's library multiply by the algorithms of the plan. */
yoke_status yokei_run_set_products(const struct yokei_run_state *s);
/** Put the algorithms of all ranks into the plan. A step has run. Collective. */
yoke_status yokei_run_note_products(struct yokei_run_state *s);

/* dashboards.c */
/**
 * Open the files for dashboards on rank 0, and prepare histograms on all ranks. Call it when the first step
 * is known. Collective. YOKE_EIO, YOKE_ENOMEM, on all ranks alike. Later problems with the files only cause a
 * warning.
 */
yoke_status yokei_run_begin_dashboards(struct yokei_run_state *s);
/**
 * Write histograms of the gradients if they are due at this step. Call it between the backward pass and the
 * optimizer. Collective. Errors: those of devices and of comm.h.
 */
yoke_status yokei_run_count_gradients(struct yokei_run_state *s, int64_t step, bool overflow);
/** Show a row of metrics. */
void yokei_run_show_row(struct yokei_run_state *s, const struct yokei_metrics_row *row);
/** Show the checkpoint of `step` if it was saved. */
void yokei_run_show_save(struct yokei_run_state *s, int64_t step);
/** Write the rows that wait in memory. Call it before something that may take long. */
void yokei_run_flush_dashboards(struct yokei_run_state *s);
/** Show how the run ended, and close the files. The thread's last error stays. */
void yokei_run_end_dashboards(struct yokei_run_state *s, const struct yokei_training_result *result,
                              yoke_status status);

/* report.c */
/** Write each rank's memory into the plan, and show it to the user as a table. */
yoke_status yokei_run_memory(struct yokei_run_state *s);
/** Write a row of metrics, and call t->progress. */
yoke_status yokei_run_report(struct yokei_run_state *s, const struct yoke_step_result *step,
                             double learning_rate, double seconds);

#endif
