/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A simulator of pipeline schedules. It computes when each action begins and ends, how long the stages wait,
 * and how much memory they hold at most. parallel/schedule.h explains the names of the actions.
 *
 * Each stage computes in the order of its list. When all computation that is listed before a receive is done,
 * the receive is posted. The same holds for a send, which can leave then. Messages of one kind between two
 * neighbours keep their order. F waits for its RA, and B for its RG. REDUCEs run beside computation, in their
 * own order. At TIED the first and the last stage wait for each other, and at AGREE all stages do.
 * With several replicas the schedule has one line for each stage of each replica. At a REDUCE all replicas of
 * a stage wait for each other.
 */
#ifndef PARALLEL_SIMULATE_H
#define PARALLEL_SIMULATE_H

#include "parallel/schedule.h"

/**
 * Costs of one chunk of one stage, per micro-batch. Times are in seconds. Sizes may have any unit, the same
 * in all costs.
 */
struct yokei_chunk_costs {
    double F, B, W, R;
    /* memory that F leaves (or R, if there is one): the part that B frees, and the part that W frees */
    double until_b, until_w;
    double input; /* if there is an R: memory that F leaves until W */
};

/** The link from a stage to the next one. Both directions have the same costs. */
struct yokei_hop {
    double latency; /* seconds; the latencies of several messages overlap */
    /* size of a message, and rate; the link carries one message at a time. bytes 0: no time */
    double bytes, bytes_per_second;
};

/** Costs of a line once per step, besides its passes, in seconds. */
struct yokei_step_costs {
    double begin; /* before anything else: setting gradients to 0 */
    double norms; /* between the line's last sum and AGREE */
    double step;  /* STEP */
};

/** Costs of a bucket's sum over the replicas. */
struct yokei_sum_costs {
    double seconds; /* time of the sum once the last replica has reached it */
    /*
     * The bucket's gradients are complete this many seconds before the end of the pass that is listed before
     * the sum.
     */
    double early;
};

struct yokei_costs {
    int n_stages, n_chunks;
    int n_replicas; /* 0 means 1. Line r * n_stages + s of the schedule is stage s of replica r */
    struct yokei_chunk_costs *chunk; /* [lines][n_chunks] */
    struct yokei_hop *hop; /* [lines] the link to the next stage; the last stage's leads to the first */
    /* Seconds of a REDUCE (used if `sum` is NULL), of TIED, and of STEP (used if `once` is NULL). */
    double reduce, tied, step;
    int n_sums;
    struct yokei_sum_costs *sum;   /* [lines][n_sums] for each bucket, or NULL */
    struct yokei_step_costs *once; /* [lines], or NULL */
    double agree;                  /* seconds that AGREE takes once all lines have reached it */
    /* A send begins when its receive is posted, and the next computation begins after the send's end. */
    bool waits_for_receiver;
    /* a send begins when its receive is posted, but computation does not wait for the send */
    bool receiver_takes;
    bool sums_block; /* nothing is computed during a REDUCE */
};

struct yokei_span {
    double start, end;
};

struct yokei_stage_times {
    /* [actions of the stage]; the start of a receive is the time at which it is posted */
    struct yokei_span *span;
    double first, last;  /* begin of the first pass, and end of the last pass (F B W R) */
    double busy, useful; /* seconds in F B W R, and seconds in F B W */
    double idle;         /* 1 - busy / longest span of all stages */
    double peak;         /* most memory that the stage holds at once, in the unit of the costs */
};

/** What the simulator computes for a schedule. */
struct yokei_simulated {
    int n_stages;                    /* number of lines */
    struct yokei_stage_times *stage; /* [n_stages] */
    double longest;                  /* longest time of a stage from `first` to `last` */
    /*
     * Mean of (longest - useful) / longest over the stages; for equal stages (longest - m (F + B + W)) /
     * longest.
     */
    double bubble;
    double total; /* end of the last action of all stages */
};

/**
 * Make the costs of equal stages. F, B and W are the times of a stage for a micro-batch; each chunk takes its
 * part of them. R costs the same as F. From F to W a micro-batch holds 1 unit of memory on a stage. If there
 * is an R, it holds 0 until R. Free the costs with yokei_costs_free.
 */
yoke_status yokei_costs_equal(int n_stages, int n_chunks, double F, double B, double W, double latency,
                              struct yokei_costs *costs_out);
/** The seconds of a stage for a micro-batch, and of a message to the next stage. */
struct yokei_stage_costs {
    double F, B, W, R;
    double latency, transfer; /* of a message; the link carries one message at a time for `transfer` */
};
/**
 * Make the costs of stages with these times. Each chunk takes its part of them. receiver_takes: as in struct
 * yokei_costs. The memory is that of yokei_costs_equal. Free the costs with yokei_costs_free.
 */
yoke_status yokei_costs_stages(int n_stages, int n_chunks, const struct yokei_stage_costs *stages,
                               bool receiver_takes, struct yokei_costs *costs_out);
void yokei_costs_free(struct yokei_costs *costs);

/**
 * Simulate a schedule, which has one line per stage of each replica. Free the result with
 * yokei_simulated_free. YOKE_ECONFIG: a message has no sender or no receiver, or comes in another order than
 * its receiver expects. The error text names both ends. YOKE_ECONFIG also if the stages deadlock. Then the
 * error text says what each stage waits for.
 */
yoke_status yokei_simulate(const struct yokei_schedule *schedule, const struct yokei_costs *costs,
                           struct yokei_simulated *simulated_out);
void yokei_simulated_free(struct yokei_simulated *simulated);

#endif
