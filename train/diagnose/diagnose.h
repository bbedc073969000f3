/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Why a step takes as long as it does. Facts about a run go in, and causes come out, the most expensive one
 * first. Nothing here reads a file. A cause is found by taking it away: the step is simulated without it, and
 * the difference is what it costs. If the remedy takes the cause away, this is also its predicted gain.
 *
 *   rows (yokei_facts_row) and a timeline's costs -> struct yokei_facts -> yokei_diagnose -> causes
 */
#ifndef TRAIN_DIAGNOSE_DIAGNOSE_H
#define TRAIN_DIAGNOSE_DIAGNOSE_H

#include <math.h>

#include "parallel/simulate.h"
#include "train/run/step_parts.h"

/** The causes: C(id, name). */
#define YOKEI_CAUSES(C)                           \
    C(SLOW_DEVICE, "slow device")                 \
    C(SLOW_LINK, "slow link")                     \
    C(SHARES, "uneven shares")                    \
    C(MICRO_BATCHES, "too few micro-batches")     \
    C(SMALL_BUCKETS, "small buckets or messages") \
    C(OVERSUBSCRIBED, "more ranks than cores")    \
    C(PAGING, "paging")                           \
    C(NEIGHBOUR, "noisy neighbour")               \
    C(DATA, "late data")                          \
    C(CHECKPOINT, "checkpoint stalls")            \
    C(COMPILATION, "compilation")                 \
    C(OVERLAP, "lost overlap")
#define YOKEI_CAUSE_ID(id, name) YOKEI_CAUSE_##id,
enum yokei_cause_kind { YOKEI_CAUSES(YOKEI_CAUSE_ID) YOKEI_N_CAUSES };
#undef YOKEI_CAUSE_ID
extern const char *const yokei_diagnose_cause_names[YOKEI_N_CAUSES];

/** What is known of a rank. Times are means of the steady steps, in seconds. NaN: unknown. */
struct yokei_facts_rank {
    char device[32], host[64];
    int d, s, t; /* its place on the mesh */
    /* what it computes in a step, in a unit that is the same for all ranks */
    double work;
    int threads; /* host threads with which it computes; 0: unknown */
    int cores;   /* hardware threads of its host; 0: unknown */
    double parts[YOKEI_N_STEP_PARTS];
    double busy, processor, queued, preemptions, faults, compile;
    double fault_seconds; /* by how much a step is longer for each major fault, from the steps' differences */
};

struct yokei_facts {
    int n_ranks;
    struct yokei_facts_rank *rank;
    int64_t n_rows, n_warm, n_steady; /* rows of metrics, those of the warm-up, and those that were used */
    double step;                      /* mean seconds of a steady step */
    double noise;                     /* standard error of `step`, relative to it */
    double warm_extra;                /* seconds by which the steps of the warm-up were longer */
    double compile_all;               /* seconds of compilation in all steps, on the rank with most */
    double compile_before;            /* the same before the first step, which no step's time has */
    double paged;                     /* seconds of a step that go with major faults; NaN: unknown */
    int64_t n_saves;                  /* rows whose step came after a save */
    double save_seconds;              /* of one save, on the slowest rank */
    double tokens_per_second;
    /* the division of the work */
    int data, pipeline, tensor, chunks;
    enum yokei_pipeline_kind kind;
    int64_t samples, micro_batch; /* largest share of a replica, and sequences of a micro-batch; 0: unknown */
    const int64_t *blocks;        /* [pipeline] blocks of each stage; NULL: unknown */
    const int64_t *shares;        /* [data] sequences of each replica; NULL: unknown */
    double bucket_bytes;          /* 0: unknown */
    bool has_own_schedule;
    bool no_stage_peers; /* the work of different stages is not known in one unit */
    bool knows_latency;  /* costs->agree is the seconds of the smallest exchange */
    double least_rate;   /* bytes per second: a link without a peer is slow only below it; 0: at any rate */
    bool cannot_overlap; /* the cores that compute must also do the sums */
    /*
     * What a timeline says: the costs of the actions (train/timeline/costs.c), the actions, and the bytes of
     * the sums [lines][n_sums] and of a message to the next stage [lines]. NULL: there was no timeline.
     */
    const struct yokei_costs *costs;
    const struct yokei_schedule *schedule;
    const double *sum_bytes, *hop_bytes;
};

/** A value of a rank; 0 if it is unknown or below 0. */
static inline double yokei_facts_known(double value) { return isfinite(value) && value > 0 ? value : 0; }
/** The seconds of a part of the step, mean of the ranks. */
static inline double yokei_facts_mean(const struct yokei_facts *f, enum yokei_step_part part)
{
    double sum = 0;
    for (int r = 0; r < f->n_ranks; r++) sum += f->rank[r].parts[part] / f->n_ranks;
    return sum;
}

/** The change that takes a cause away, as far as Yoke can make it. */
enum yokei_change_kind {
    YOKEI_CHANGE_NONE, /* the text says why */
    YOKEI_CHANGE_MICRO_BATCH,
    YOKEI_CHANGE_BUCKET_BYTES,
    YOKEI_CHANGE_OVERLAP, /* and value: bucket bytes; 0: unchanged */
    YOKEI_CHANGE_SHARES,  /* of the replicas: `list` */
    YOKEI_CHANGE_LAYERS,  /* of the stages: `list` */
    YOKEI_CHANGE_TENSOR_SHARES,
    YOKEI_CHANGE_SAVE_EVERY, /* value: this many times the steps */
    YOKEI_CHANGE_THREADS,    /* value: host threads of each rank */
};
struct yokei_cause {
    enum yokei_cause_kind kind;
    double seconds;  /* of a step, beyond the causes before it */
    double gain;     /* predicted seconds that the change gains; if it takes the cause away, `seconds` */
    double score;    /* 0 to 1: how well the evidence fits */
    int rank, other; /* the rank; with a link, its other end; -1: no single one */
    char evidence[400], remedy[320];
    enum yokei_change_kind change;
    double value;
    char list[256]; /* "9:7" */
};
struct yokei_diagnosis {
    int n;
    struct yokei_cause cause[YOKEI_N_CAUSES];
    double step;      /* seconds of a steady step, and its part of all compilation */
    double modelled;  /* the same by the model, from which gains are taken; NaN: there is no model */
    double threshold; /* seconds below which no cause is named */
};

/** Find the causes. The facts are unchanged. YOKE_ENOMEM; YOKE_ECONFIG: the schedule cannot be simulated. */
yoke_status yokei_diagnose(const struct yokei_facts *facts, struct yokei_diagnosis *diagnosis_out);

/* ---- rows.c: facts from rows ---- */
struct yokei_facts_rows;
/** `has_pipeline` is for the division of the steps. */
yoke_status yokei_facts_begin(bool has_pipeline, struct yokei_facts_rows **rows_out);
/** Add a row. It is a visitor of yokei_metrics_read; `context` is the struct yokei_facts_rows. */
yoke_status yokei_facts_row(void *context, const struct yokei_metrics_row *row);
/**
 * Write ranks, steps and times into the facts, whose other members stay. facts->rank is new; the caller frees
 * it with free(). YOKE_EDATA: there is no step whose time is known.
 */
yoke_status yokei_facts_end(struct yokei_facts_rows *rows, struct yokei_facts *facts);
void yokei_facts_free(struct yokei_facts_rows *rows);

/* ---- limit.c ---- */
/** Two runs of the same model on different numbers of ranks: what more ranks can give. */
struct yokei_limit {
    bool is_known;
    double ideal, got;  /* ratio of the ranks, and of the tokens per second */
    double exposed;     /* seconds of a step of the larger run that are no computing, mean of the ranks */
    double by_division; /* the speed-up that the divisions of both runs explain */
    double most;        /* the speed-up over the smaller run that no number of ranks exceeds; INFINITY */
};
void yokei_limit_of(const struct yokei_facts *smaller, const struct yokei_facts *larger,
                    struct yokei_limit *limit_out);

#endif
