/* SPDX-License-Identifier: Apache-2.0 */
/**
 * plan.json: everything of a run that was chosen by measurement or by default, so that the run can be
 * repeated bit for bit. The schema is in plan.c. train/files/json.h refuses unknown keys and wrong types and
 * ranges.
 */
#ifndef TRAIN_PLAN_RUN_PLAN_H
#define TRAIN_PLAN_RUN_PLAN_H

#include "train/files/json.h"
#include "train/models/model_files.h"
#include "train/text/skips.h"

#define YOKEI_PLAN_VERSION 1
#define YOKEI_ANY_DATA "any" /* the data_hash of a plan that was made without data */

struct yokei_plan_rank {
    char device[32];     /* "opencl:0" */
    double share;        /* share of the measured speed, in (0, 1]; informative, because `samples` decides */
    int64_t samples;     /* sequences of each step's batch; 0: the rank is left out of the run */
    int64_t micro_batch; /* sequences of one pass through the model */
    /* host threads with which the rank computes; sums of a host device may depend on this number */
    int64_t threads;
    /* the rank as the job was started, because a plan lists ranks as they are placed on the mesh; -1:
     * unknown, same as here */
    int64_t job_rank;
    /* seconds that the rank computes in a step: predicted from measurements before the run, and measured in
     * the run; 0: unknown */
    double predicted_seconds, measured_seconds;
    /* bytes that the rank may allocate: a limit that was given, or the memory that was free; 0: unknown */
    int64_t memory_limit;
};
/* in a run with a time budget, `permille` of the budget were spent from this step on */
struct yokei_plan_progress {
    int64_t step, permille;
};

/* a matrix product of a vendor's library, and the algorithm that runs it (core/base/base.h) */
struct yokei_plan_product {
    int64_t rank;
    char product[192], algorithm[128];
};

struct yokei_plan {
    int64_t version;
    struct yokei_model_config model;
    char precision[8]; /* "fp32", "bf16" or "fp16" */
    uint64_t seed;
    int64_t batch;      /* sequences of one optimizer step, over all ranks */
    int64_t sequence;   /* tokens of one sequence */
    char data_hash[24]; /* yokei_tokens_hash of the tokens as 16 hexadecimal digits, or YOKEI_ANY_DATA */
    /* the part of the tokens, at their end, on which the run does not train; the hash does not cover it */
    double validation_share;
    char skip_samples
        [YOKEI_SKIPS_BYTES]; /* samples on which the run never trains, as yokei_skips_text writes them */
    /*
     * algorithm for the sum of gradients: one of YOKE_ALGORITHMS; "auto": by size, and the same in every run
     */
    char all_reduce[32];
    int64_t bucket_bytes;  /* size of the gradients' buckets */
    int64_t chunk_bytes;   /* size of a chunk in the pipelines of collectives */
    char comm_costs[256];  /* measured cost model of the collectives; "": none */
    char comm_shares[256]; /* the ranks' shares of their sums, given or measured; "": none */
    struct yokei_plan_rank *ranks;
    int64_t n_ranks;
    char left_out[1024]; /* devices that yoke run --devices auto left out: "opencl:0,host"; "": none */
    /*
     * The mesh, in the terms of struct yoke_trainer_config. `samples` of a rank are the samples of its
     * replica.
     */
    int64_t data, pipeline, tensor, chunks;
    /* ranks of each stage, if stages have different numbers: "2,1"; "": all stages have `tensor` ranks */
    char stage_tensor[256];
    char schedule[32];   /* a kind of schedule: "1f1b"; "": default */
    char *schedule_text; /* instead of `schedule`: the lines of the user's own schedule; NULL: none */
    char layers[256];    /* blocks of each virtual stage: "3,5"; "": equal */
    char recompute[256];
    int64_t sequence_parallel; /* 0, 1 */
    char tensor_shares[256];   /* "3:1"; "": equal */
    int64_t zero;              /* 0 or 1; 1: optimizer states are divided over the replicas */
    /* the replicas' slices of these states: "3:1"; "": equal, or by free memory with zero 1 */
    char zero_shares[2048];
    /* how layers, tensor_shares and samples were chosen if not given: "auto", "equal"; "": unknown */
    char balance[8];
    char placement[8]; /* order of the ranks on the mesh: "host", "rank"; "": same as "rank" */
    double predicted_step_seconds, measured_step_seconds; /* seconds of a whole step; 0: unknown */
    /* The optimizer, and the length of the run: a number of steps, or a time budget. */
    double learning_rate, min_learning_rate /* at most learning_rate */, weight_decay, beta1, beta2, clip;
    double loss_scale; /* the initial loss scale; 0: by precision */
    int64_t warmup;    /* steps until the full learning rate is reached */
    int64_t steps;     /* 0: the run ends when budget_seconds are spent */
    double budget_seconds;
    struct yoke_memory_report *memory; /* planned memory of each rank; informative */
    int64_t n_memory;
    /* the products of the ranks' devices, so that a replay adds in the same order */
    struct yokei_plan_product *products;
    int64_t n_products;
    /* recorded progress, written at the end of the run, so that a replay takes the same steps */
    struct yokei_plan_progress *progress;
    int64_t n_progress;
};
/**
 * Initial values of a plan that is made from options. A plan that is read from a file must have every key
 * that decides the run's numbers.
 */
/* clang-format off */
#define YOKEI_PLAN_INIT { .version = YOKEI_PLAN_VERSION, .precision = "fp32", \
        .data_hash = YOKEI_ANY_DATA, .validation_share = 0.05, .all_reduce = "auto", .learning_rate = 1e-3, \
                          .min_learning_rate = 1e-4, .weight_decay = 0.1, .beta1 = 0.9, .beta2 = 0.95, \
        .clip = 1, \
                          .warmup = 20, .steps = 1000 }
/* clang-format on */

/** The plan's model. It points into the plan. */
static inline struct yokei_model yokei_plan_model(const struct yokei_plan *plan)
{
    return yokei_model_of(&plan->model);
}
/**
 * The fields above, for files that contain a plan. After reading with this schema, the caller must still call
 * yokei_plan_check.
 */
extern const struct yokei_json_schema yokei_plan_schema;
/**
 * Read and check a plan. The checks are:
 *   - the version is right, and all types, ranges and words are valid;
 *   - each key that decides the run's numbers is there, and there is no unknown key;
 *   - the model's shape is valid, and sequence <= n_positions;
 *   - the samples of the replicas add up to batch, and micro_batch <= samples;
 *   - the number of ranks is a multiple of a replica's ranks, and lists have the lengths of the layout.
 * Measured and predicted values are informative and may be missing. Errors: YOKE_ECONFIG (missing, not JSON,
 * or a wrong value; with file, path in it, and reason).
 */
yoke_status yokei_plan_read(const char *path, struct yokei_plan *plan_out);
/** The same checks for a plan in memory. `where` is put in front of the message. YOKE_ECONFIG. */
yoke_status yokei_plan_check(const struct yokei_plan *plan, const char *where);
yoke_status yokei_plan_write(const char *path, const struct yokei_plan *plan);
void yokei_plan_free(struct yokei_plan *plan);
/**
 * Parse n whole numbers of at least 1, separated by commas or colons. *out is NULL if the text is empty;
 * otherwise the caller calls free(). `what` is for messages.
 */
yoke_status yokei_plan_numbers(const char *what, const char *text, int n, int64_t **out);
/**
 * The number of ranks of each stage; NULL: all stages have the same. The caller calls free(). YOKE_ECONFIG.
 */
yoke_status yokei_plan_widths(const struct yokei_plan *plan, int **widths_out);
/**
 * YOKE_ECONFIG if the plan has left out `device`, which rank `rank` is about to get work on. The caller asks
 * wherever work is dealt.
 */
yoke_status yokei_plan_check_device(const struct yokei_plan *plan, int64_t rank, const char *device,
                                    const char *where);
/** Make the plan usable for other ranks: forget the ranks and their shares. */
void yokei_plan_forget_ranks(struct yokei_plan *plan);

#endif
