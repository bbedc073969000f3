/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Jobs with planted causes. A job is a mesh, a schedule and costs, drawn at random, and the causes that were
 * planted into it. Each of its steps is simulated with noise, and the result has the form that a real run
 * has: rows of metrics, and the costs of a timeline of three steps. Nothing here knows how the diagnosis
 * works, or from which size on it names a cause.
 */
#ifndef TESTS_UNIT_DIAGNOSE_JOBS_H
#define TESTS_UNIT_DIAGNOSE_JOBS_H

#include "train/diagnose/diagnose.h"

enum { MOST_RANKS = 32 };

struct job {
    uint64_t random;
    struct yokei_facts facts; /* what the diagnosis is told */
    double
        cost[2]; /* the part of a healthy step that each planted cause costs, by simulation without noise */
};

/**
 * Make a job with n_causes causes (0: a healthy one). Each cause costs between 8 and 45 % of a healthy step.
 * False: this mesh cannot have the cause; take another seed.
 */
bool job_make(uint64_t seed, const enum yokei_cause_kind *causes, int n_causes, struct job *job_out);
void job_free(struct job *job);

#endif
