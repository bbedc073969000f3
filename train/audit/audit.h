/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The audit: a check, between two steps, that replicas still compute and hold the same.
 *
 * (a) State. Ranks that hold the same elements of a weight or of a moment hold the same bits: replicas, ranks
 * of a tensor group, and the stages that share a tied parameter. Slices that one replica alone keeps (ZeRO-1)
 * have no copy, so nothing compares them.
 * (b) Arithmetic. All replicas run one common micro-batch forward and backward, with the same dropout. The
 * gradients of each parameter must then be equal within the gate of train/parity/gates.h.
 *
 * An audit changes no bit of the run. It writes only memory whose content ends with a step: gradients,
 * tokens, losses and activations. All its memory is allocated when it is created.
 */
#ifndef TRAIN_AUDIT_AUDIT_H
#define TRAIN_AUDIT_AUDIT_H

#include "train/trainer/trainer.h"

struct yokei_audit;

struct yokei_audit_result {
    /*
     * The largest difference of the gradients of two replicas, relative to what the gate allows; at most 1
     * passes. NaN: the gradients overflowed at this loss scale, so nothing was compared.
     */
    double ratio;
    double seconds;
};

/**
 * Prepare audits. Collective over the trainer's ranks. The trainer must outlive the audit. YOKE_ECONFIG if
 * there is one replica; YOKE_EUNSUPPORTED in f64; YOKE_ENOMEM.
 */
yoke_status yokei_audit_create(yoke_trainer *trainer, struct yokei_audit **audit_out);
/** NULL is allowed. */
void yokei_audit_free(struct yokei_audit *audit);
/**
 * The sequences of the common micro-batch. The caller writes their tokens and targets, the same on all ranks.
 */
int64_t yokei_audit_batch(struct yokei_audit *audit, int32_t **tokens_out, int32_t **targets_out);
/**
 * Run an audit after a step. Collective. YOKE_ENUMERIC on all ranks if ranks differ; the message names the
 * ranks, their devices and the parameter. *result_out is filled in this case, too.
 */
yoke_status yokei_audit_run(struct yokei_audit *audit, struct yokei_audit_result *result_out);

/* ---- shared by audit.c, state.c, judge.c and replay.c ---- */

/** One tensor that a rank holds. Entries with the same key have the same elements of the same tensor. */
struct yokei_audit_entry {
    uint64_t key, hash;
    uint32_t rank, tensor; /* tensor: index of the logical parameter * YOKEI_AUDIT_KINDS + kind */
};
enum { YOKEI_AUDIT_KINDS = 4 };

struct yokei_audit {
    yoke_trainer *t;
    int64_t n_sequences;
    struct yokei_job job;
    struct yokei_program program;
    yoke_event **event;
    int n_events;
    int32_t *tokens, *targets;
    void *gathered; /* on the device: a piece of a gradient of each replica */
    void *host;     /* the same in host memory; also a piece of a tensor that is hashed */
    int64_t piece;  /* elements of a piece */
    int *logical;   /* [parameters of this rank] the indices of the same parameters in the whole model */
    /*
     * for each parameter of the whole model and each replica: sums of squares of this rank; and of all ranks
     */
    struct yokei_gate_squares *mine, *all;
    double *ratios;                            /* [replicas][replicas] */
    int *worst;                                /* [replicas][replicas] the parameter with this ratio */
    bool *differs;                             /* [replicas] */
    int64_t n_entries;                         /* the most entries of any rank */
    struct yokei_audit_entry *entry, *entries; /* [n_entries]; [ranks][n_entries] */
};

/** The number of entries of this rank. */
int64_t yokei_audit_count(const struct yokei_audit *audit);
/** Compare the state of all ranks by hash. Collective. */
yoke_status yokei_audit_state(struct yokei_audit *audit);
/**
 * How far the gradients of this rank are from those that a host device computes in this process, relative to
 * the gate. NaN: the host could not compute them. Local. The replica must be one rank.
 */
double yokei_audit_replay(struct yokei_audit *audit);
/** Judge the sums of squares of all ranks. */
yoke_status yokei_audit_judge(struct yokei_audit *audit, double *ratio_out);

#endif
