/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What a pipeline schedule takes: when each action begins and ends, how long stages wait, and how much they hold at most.
 *
 * Each stage computes in the order of its list. A receive is posted when everything that computes before it in the list is
 * done, a send can leave then, and the messages of one kind between two neighbours keep their order. F waits for its RA, B for its RG.
 * REDUCEs run beside computation in an order of their own; TIED is where the first and the last stage meet, AGREE where all do.
 * With several replicas the schedule has a line for each stage of each: they meet at every REDUCE, too.
 */
#ifndef PARALLEL_SIMULATE_H
#define PARALLEL_SIMULATE_H

#include "parallel/schedule.h"

/** One chunk of one stage, per micro-batch. Times in seconds, sizes in any one unit. */
struct yokei_chunk_costs {
    double F, B, W, R;
    double until_b, until_w; /* what F, or R where there is one, leaves behind: until B is done, until W is done */
    double input;            /* what F leaves until W where R makes the rest again */
};

/** From a stage to the next one and back, each way alike. */
struct yokei_hop {
    double latency;                 /* seconds; messages overlap in it */
    double bytes, bytes_per_second; /* of a message; the channel carries one at a time. bytes 0: at once */
};

/** What a line does once per step beside its passes. Seconds. */
struct yokei_step_costs {
    double begin; /* before anything else: gradients = 0 */
    double norms; /* between its last sum and AGREE */
    double step;  /* STEP */
};

/** A bucket's sum over the replicas. */
struct yokei_sum_costs {
    double seconds; /* from when the last replica comes to it */
    double early;   /* so long before the end of the pass that is listed before it its gradients are complete */
};

struct yokei_costs {
    int n_stages, n_chunks;
    int n_replicas;                  /* 0: 1. Line r * n_stages + s of the schedule is stage s of replica r */
    struct yokei_chunk_costs *chunk; /* [lines][n_chunks] */
    struct yokei_hop *hop;           /* [lines]: to the next stage, of the last one to the first */
    double reduce, tied, step;       /* seconds: a bucket, TIED, STEP; the first and the last where the next two are NULL */
    int n_sums;
    struct yokei_sum_costs *sum;     /* [lines][n_sums] of each bucket, or NULL */
    struct yokei_step_costs *once;   /* [lines], or NULL */
    double agree;                    /* seconds that AGREE takes once all are there */
    bool waits_for_receiver;         /* a send begins when its receive is posted, and the next computation after its end */
    bool receiver_takes;             /* data moves when its receive is posted, but nobody who computes waits for that */
    bool sums_block;                 /* nothing is computed during a REDUCE */
};

struct yokei_span {
    double start, end;
};

struct yokei_stage_times {
    struct yokei_span *span; /* [actions of the stage]; a receive's start is when it is posted */
    double first, last;      /* begin of the first, end of the last of F B W R */
    double busy, useful;     /* seconds of F B W R; the same without R */
    double idle;             /* 1 - busy / longest span of all stages */
    double peak;             /* most that it holds at once, in the unit of the costs */
};

struct yokei_timeline {
    int n_stages;                    /* lines */
    struct yokei_stage_times *stage;
    double longest; /* longest span of a stage, first to last */
    double bubble;  /* (longest - useful) / longest, mean over the stages: with equal stages (cost - m (F + B + W)) / cost */
    double total;   /* end of everything */
};

/**
 * Costs of equal stages: so much for a stage's F, B and W of a micro-batch, divided by its chunks; R costs what F does. A micro-batch
 * takes 1 on a stage from F to W, 0 while it waits for R. yokei_costs_free() them.
 */
yoke_status yokei_costs_equal(int n_stages, int n_chunks, double F, double B, double W, double latency, struct yokei_costs *costs_out);
void yokei_costs_free(struct yokei_costs *costs);

/**
 * Run a schedule, a line per stage of each replica. YOKE_ECONFIG: a message that nobody sends or receives, or that comes in another order than it is
 * expected in (both ends are named); or nobody can go on (each stage is named, with what it waits for).
 */
yoke_status yokei_simulate(const struct yokei_schedule *schedule, const struct yokei_costs *costs, struct yokei_timeline *timeline_out);
void yokei_timeline_free(struct yokei_timeline *timeline);

#endif
