/* SPDX-License-Identifier: Apache-2.0 */
/**
 * plan.json: everything of a run that was chosen by measurement or by default, so that the run can be repeated bit for bit.
 * The schema lies in plan.c; unknown keys, types and ranges are refused by train/files/json.h.
 */
#ifndef TRAIN_FILES_PLAN_H
#define TRAIN_FILES_PLAN_H

#include "train/files/json.h"
#include "train/files/model_files.h"

#define YOKEI_PLAN_VERSION 1
#define YOKEI_ANY_DATA "any" /* the data_hash of a plan that was made without data */

struct yokei_plan_rank {
    char device[32];       /* "opencl:0" */
    double share;          /* of the measured speed; informative, the samples are what counts. (0, 1] */
    int64_t samples;       /* sequences of each step's batch; 0: the rank is left out of the run */
    int64_t micro_batch;   /* sequences of one pass */
    int64_t threads;       /* host threads the rank computes with; sums of a host device may depend on it */
    int64_t job_rank;      /* as the job was started; a plan lists ranks as they are placed on the mesh. -1: unknown, as here */
    double predicted_seconds, measured_seconds; /* that it computes in a step: by what was measured before the run, and in the run; 0: unknown */
};
struct yokei_plan_progress { /* of a run with a time budget: from this step on, permille of the budget were spent */
    int64_t step, permille;
};

struct yokei_plan {
    int64_t version;
    struct yoke_gpt2_config model;  /* in a GPT-2's plan; size 0: it is not one */
    struct yoke_llama_config llama; /* in a Llama's */
    char precision[8];      /* fp32 bf16 fp16 */
    uint64_t seed;
    int64_t batch;          /* sequences of one optimizer step, all ranks together */
    int64_t sequence;       /* tokens of one sequence */
    char data_hash[24];     /* yokei_tokens_hash of the tokens, 16 hexadecimal digits; or YOKEI_ANY_DATA */
    char all_reduce[32];    /* algorithm of the gradients' sum: one of YOKE_ALGORITHMS; "auto" by size, the same in every run */
    int64_t bucket_bytes;   /* of the gradients' buckets */
    int64_t chunk_bytes;    /* of the collectives' pipelines */
    char comm_costs[256];   /* the collectives' cost model as it was measured; "" none */
    char comm_shares[256];  /* the ranks' shares of their sums, as they were given or measured; "" none */
    struct yokei_plan_rank *ranks;
    int64_t n_ranks;
    /* the mesh, in the terms of struct yoke_trainer_config; samples of a rank are those of its replica */
    int64_t data, pipeline, tensor, chunks;
    char stage_tensor[256]; /* ranks of each stage where these differ: "2,1"; "" all `tensor` */
    char schedule[32];      /* a kind: "1f1b"; "" by default */
    char *schedule_text;    /* instead: the lines of a schedule of the user's own; NULL: none */
    char layers[256];       /* blocks of each virtual stage: "3,5"; "" equal */
    char recompute[256];
    int64_t sequence_parallel; /* 0, 1 */
    char tensor_shares[256]; /* "3:1"; "" equal */
    int64_t zero;            /* 0, 1: optimizer states are divided over the replicas */
    char zero_shares[2048];  /* the replicas' slices of them: "3:1"; "" equal, with zero 1 by free memory */
    char balance[8];        /* how the three that are not given were chosen: "auto", "equal"; "" unknown */
    char placement[8];      /* order of the ranks on the mesh: "host", "rank"; "" as "rank" */
    double predicted_step_seconds, measured_step_seconds; /* a whole step; 0: unknown */
    /* the optimizer, and how long it runs: steps, or a time budget */
    double learning_rate, min_learning_rate, weight_decay, beta1, beta2, clip;
    double loss_scale;      /* the first one; 0: by precision */
    int64_t warmup;         /* steps until the learning rate is reached */
    int64_t steps;          /* 0: until budget_seconds are spent */
    double budget_seconds;
    struct yoke_memory_report *memory; /* of each rank, as it was planned; informative */
    int64_t n_memory;
    struct yokei_plan_progress *progress; /* as the run went: written at its end, so that a replay steps alike */
    int64_t n_progress;
};
/** Where a plan begins that is made by options. A plan that is read leaves out nothing that decides the run's numbers. */
#define YOKEI_PLAN_INIT { .version = YOKEI_PLAN_VERSION, .precision = "fp32", .data_hash = YOKEI_ANY_DATA, .all_reduce = "auto", .learning_rate = 1e-3, \
                          .min_learning_rate = 1e-4, .weight_decay = 0.1, .beta1 = 0.9, .beta2 = 0.95, .clip = 1, \
                          .warmup = 20, .steps = 1000 }

/** The plan's model, whichever it is; it points into the plan. */
static inline struct yokei_model yokei_plan_model(const struct yokei_plan *plan) { return yokei_model_of(&plan->model, &plan->llama); }
/** The fields above, for files that contain a plan; what is read by it is still to be held to yokei_plan_check. */
extern const struct yokei_json_schema yokei_plan_schema;
/**
 * Read and check: version; that each key is there which decides the run's numbers, and no unknown one; types, ranges and words; the model's
 * shape, sequence <= n_positions, samples of the ranks add up to batch, micro_batch <= samples, replicas make up the ranks, lists have the
 * layout's lengths. What was measured or predicted may be left out: it is informative.
 * Errors: YOKE_ECONFIG (missing, not JSON, or a value: file, path, reason).
 */
yoke_status yokei_plan_read(const char *path, struct yokei_plan *plan_out);
/** The same checks; `where` stands in front of the reason. YOKE_ECONFIG. */
yoke_status yokei_plan_check(const struct yokei_plan *plan, const char *where);
yoke_status yokei_plan_write(const char *path, const struct yokei_plan *plan);
/** One malloc'ed string (to send to the other ranks), and back. */
yoke_status yokei_plan_text(const struct yokei_plan *plan, char **text_out);
yoke_status yokei_plan_parse(const char *where, const char *text, size_t bytes, struct yokei_plan *plan_out);
void yokei_plan_free(struct yokei_plan *plan);
/** Whole numbers of at least 1 between commas or colons, n of them; NULL where the text is empty. `what` is for messages. free() it. */
yoke_status yokei_plan_numbers(const char *what, const char *text, int n, int64_t **out);
/** Ranks of each stage; NULL: all alike. free() it. YOKE_ECONFIG. */
yoke_status yokei_plan_widths(const struct yokei_plan *plan, int **widths_out);
/** The plan for other ranks: their shares are not known. */
void yokei_plan_forget_ranks(struct yokei_plan *plan);

#endif
