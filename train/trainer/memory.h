/* SPDX-License-Identifier: Apache-2.0 */
/** Memory of the ranks of a run: what each takes by part, whether all fit, and what would make them fit. */
#ifndef TRAIN_TRAINER_MEMORY_H
#define TRAIN_TRAINER_MEMORY_H

#include "train/trainer/trainer.h"

/** What one rank takes, and has. */
struct yokei_memory_rank {
    struct yoke_memory_report report;
    char device[32];
    uint64_t have;       /* bytes: its limit, or what is free */
    uint64_t taken;      /* of its memory by communicators of the run already: no part of `have`, unless that is a limit */
    bool is_limited;     /* `have` was given, for what the rank alone allocates on its device */
    bool host_visible;   /* the device's memory is the host's */
    uint64_t pool;       /* ranks of one number take from one memory */
    int64_t micro_batch;
    size_t divided, undivided; /* of moments and masters where replicas divide them: this rank's part, and all of it */
};

/** The parts of a report in their order, for tables and files; ended by a row without a name. */
struct yokei_memory_part {
    const char *name, *title; /* as a key, and as the head of a column */
    size_t offset;            /* of a size_t */
};
extern const struct yokei_memory_part yokei_memory_parts[];
static inline size_t yokei_memory_part_of(const struct yoke_memory_report *report, const struct yokei_memory_part *part)
{
    return *(const size_t *)(const void *)((const char *)report + part->offset);
}

/** Host memory that the trainer takes for itself, and a caller for a batch. */
size_t yokei_memory_of_host(const struct yoke_trainer_config *config, const struct yokei_trainer_plan *plan);
/** Fill in what this rank knows of itself. config->memory_limit 0: what is free. */
yoke_status yokei_memory_of_rank(const struct yoke_trainer_config *config, yoke_device *device, const struct yokei_trainer_plan *plan,
                                 struct yokei_memory_rank *rank_out);
/** That of all ranks [plan->n_ranks]. Collective. */
yoke_status yokei_memory_gather(const struct yoke_trainer_config *config, yoke_device *device, const struct yokei_trainer_plan *plan,
                                struct yokei_memory_rank *ranks_out);
/** What counts against `have` of a rank that would have this report. */
double yokei_memory_need(const struct yokei_memory_rank *rank, const struct yoke_memory_report *report);
/**
 * Bytes by which the rank that lacks most is short when rank r needs need[r]; 0 or less: all fit. *rank_out is that rank, of those that
 * share a memory the one that needs most. `needs_out`, where not NULL: what it, or all that share its memory, need together.
 */
double yokei_memory_shortage(const struct yokei_memory_rank *ranks, const double *need, int n_ranks, int *rank_out, double *needs_out);
/** YOKE_OK, or on all ranks alike YOKE_ENOMEM with the cheapest change that fits. Collective where that is looked for. */
yoke_status yokei_memory_check(const yoke_model *model, yoke_device *device, const struct yoke_trainer_config *config,
                               const struct yokei_trainer_plan *plan, const struct yokei_memory_rank *ranks);
/** A table, a line for each run of ranks that take the same. */
/** In one line: what the rank that needs most needs, and how much all do. */
void yokei_memory_line(const struct yokei_memory_rank *ranks, int n_ranks, void (*line)(void *context, const char *text), void *context);
void yokei_memory_table(const struct yokei_memory_rank *ranks, int n_ranks, void (*line)(void *context, const char *text), void *context);

/* ---- replicas.c ---- */
/**
 * Slices by free memory: of ranks that were planned with equal ones, whether some lack memory while others have more, and then the shares
 * [mesh->data] in proportion to what each replica can take beside its other memory, the least of its ranks.
 */
yoke_status yokei_zero_choose(const struct yokei_mesh *mesh, const struct yokei_memory_rank *ranks, int64_t *shares_out, bool *uneven_out);

/* ---- remedy.c: what would make a run fit ---- */

/**
 * need_out[r] = the most that a rank r' = r, r + n, r + 2n, ... of n_planned would need with this configuration, n being the number of
 * ranks of the run; INFINITY where it cannot be planned. config->micro_batch is a cap; 0: as it is.
 */
typedef yoke_status (*yokei_memory_ask)(void *context, const struct yoke_trainer_config *config, int n_planned, double *need_out);
/** One answer of it: rank r of n_planned on this device. */
double yokei_memory_asked(const yoke_model *model, yoke_device *device, const struct yoke_trainer_config *config,
                          const struct yokei_memory_rank *ranks, int n_ranks, const struct yokei_mesh *mesh, int r, int n_planned);
struct yokei_memory_run {
    const yoke_model *model;
    const struct yoke_trainer_config *config; /* shares included */
    const struct yokei_mesh *mesh;
    const struct yokei_memory_rank *ranks;    /* [n_ranks] */
    int n_ranks;
};
/** The error of a run that does not fit: who lacks how much, and the first of all remedies, in the order of their cost, that fits on all ranks. */
yoke_status yokei_memory_refuse(const struct yokei_memory_run *run, yokei_memory_ask ask, void *context);

#endif
