/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The arithmetic of a run's goal: failures, checkpoints, time, price and utilisation. All functions are pure.
 * Times are in seconds, and a rate of failures may be 0, which is a mean time of INFINITY between failures.
 */
#ifndef TRAIN_SEARCH_GOAL_H
#define TRAIN_SEARCH_GOAL_H

#include <yoke/base.h>

/**
 * The mean time between failures of a job that uses n hosts, if each host fails `per_day` times a day on
 * average. Failures are independent, and one of them stops the job. INFINITY if per_day is 0.
 */
double yokei_time_between_failures(double per_day, int n);

/**
 * The time of training between two checkpoints, without the time of the checkpoint, that loses least time.
 * `save` is the time of a checkpoint, during which nobody trains. `between` is the mean time between
 * failures.
 *
 * Young 1974, "A first order approximation to the optimum checkpoint interval", Commun. ACM 17(9):
 *     sqrt(2 save between)
 * Daly 2006, "A higher order estimate of the optimum checkpoint interval for restart dumps", Future
 * Generation Computer Systems 22(3), first order:
 *     sqrt(2 save between) - save, for save < between / 2; otherwise `between`
 * and of higher order (equation 37), with x = save / (2 between):
 *     sqrt(2 save between) (1 + sqrt(x) / 3 + x / 9) - save, for save < 2 between; otherwise `between`
 *
 * The planner uses the last one. All are INFINITY if `between` is INFINITY.
 */
double yokei_interval_young(double save, double between);
double yokei_interval_daly_first(double save, double between);
double yokei_interval_daly(double save, double between);

/**
 * The effective training time: the expected share of the time that trains, if failures are a Poisson
 * process. (Some papers call it goodput, which is the rate of a link here.) The rest is spent on checkpoints,
 * on restarts, and on steps that were lost and are repeated. `restart` is the time from a failure until the
 * run goes on from its checkpoint; failures may come during it too.
 *     interval / (between e^(restart / between) (e^((interval + save) / between) - 1))
 * Source: the cost function of Daly 2006. It is exact if failures may also come during a checkpoint or a
 * restart (Bougeret et al. 2011, "Checkpointing strategies for parallel jobs", SC11).
 */
double yokei_effective_time(double interval, double save, double restart, double between);

/** Model FLOPs utilisation (MFU): FLOPs of the model in a step, of those that the devices could do. */
double yokei_utilisation(double model_flops, double step_seconds, double peak_flops_of_all);

struct yokei_goal_config {
    double step_seconds;    /* above 0 */
    double tokens_per_step; /* above 0 */
    double price_per_hour;  /* of all devices and hosts in use; 0: unknown */
    double between;         /* mean time between failures of the job, above 0; INFINITY: none is expected */
    double save, restart;   /* seconds of a checkpoint, and of a restart */
    /* The goal: a number of tokens, or if that is 0, as many tokens as fit into these hours. */
    double tokens, hours;
};

struct yokei_goal {
    int64_t checkpoint_steps; /* steps between two checkpoints, by Daly's formula; 0: only one at the end */
    double interval;          /* seconds of these steps; INFINITY: only one checkpoint, at the end */
    double effective_time;    /* at this interval */
    double failures;          /* that are expected in these hours */
    double steps, tokens, hours, price;
};

/** The whole number of steps for the goal, and its time and price. The last checkpoint is at its end. */
void yokei_goal_compute(const struct yokei_goal_config *config, struct yokei_goal *goal_out);

#endif
