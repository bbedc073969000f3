/* SPDX-License-Identifier: Apache-2.0 */
/**
 * yoke bench cluster: the devices of a job's ranks and the links between them, measured while all ranks work,
 * and written as a cluster file. cluster_ops.c measures the ops of one rank one by one, cluster_steps.c in
 * training steps. cluster_links.c measures the links, and cluster_text.c writes the results.
 */
#ifndef CLI_BENCH_CLUSTER_H
#define CLI_BENCH_CLUSTER_H

#include <stdio.h>
#include <yoke/comm.h>
#include <yoke/device.h>

#include "cli/cli.h"
#include "train/search/measured.h"

/** The most rows of ops in the training steps of a precision. */
enum { BENCH_STEP_OPS = 512 };

struct bench_cluster {
    const struct cli_context *context;
    yoke_device *device;
    yoke_stream *stream;
    yoke_comm *comm, *control; /* over the device's memory, as a training has it, and over the host's */
    bool dtype[YOKE_N_DTYPES]; /* the types to measure */
    int n_types;
    double budget; /* seconds for the ops */
    int n_ops;     /* of a rank: those that are measured one by one, and BENCH_STEP_OPS for each type */
    struct yokei_measured_rank *rank;   /* [size] */
    struct yokei_op_time *op;           /* [size * n_ops] */
    struct yokei_measured_place *place; /* [size] */
    struct yokei_cluster *cluster;
    struct yokei_measured_link link[YOKEI_MOST_LINKS];
    double tolerance; /* that was used */
    double seconds;   /* that everything took */
};

/* ---- cluster_ops.c ---- */
/** The number of ops that the types in b->dtype select. It is the same on all ranks. */
int bench_cluster_count(const struct bench_cluster *b);
/**
 * Measure these ops of this rank's device within `budget` seconds. Each op is measured while the other ranks
 * measure the same op. An op that the device does not have gets 0 seconds. Collective.
 */
yoke_status bench_cluster_ops(const struct bench_cluster *b, double budget, struct yokei_op_time *op_out);

/* ---- cluster_steps.c ---- */
/**
 * Measure the ops of training steps into op_out [types * BENCH_STEP_OPS], and rank_out->slowdown, within
 * `budget` seconds. Unused rows have 0 seconds. Collective.
 */
yoke_status bench_cluster_steps(const struct bench_cluster *b, double budget, struct yokei_op_time *op_out,
                                struct yokei_measured_rank *rank_out);

/* ---- cluster_links.c ---- */
/** Measure the links of b->cluster, which yokei_measured_links has made. Collective. */
yoke_status bench_cluster_links(const struct bench_cluster *b);

/* ---- cluster_text.c ---- */
/** The cluster file with comments that say what was measured. The caller frees the text with free(). */
yoke_status bench_cluster_file(const struct bench_cluster *b, char **text_out);
yoke_status bench_cluster_json(const struct bench_cluster *b);
/** Lines for a person, on stderr. */
void bench_cluster_show(const struct bench_cluster *b);

#endif
