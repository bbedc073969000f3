/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The memory of all ranks of a run: the bytes of each rank by part, whether all ranks fit, and which change
 * would make them fit.
 */
#ifndef TRAIN_TRAINER_MEMORY_H
#define TRAIN_TRAINER_MEMORY_H

#include "train/trainer/planned.h"

/** The memory that one rank needs, and the memory that it has. */
struct yokei_memory_rank {
    struct yoke_memory_report report;
    char device[32];
    uint64_t have; /* bytes: the rank's limit, or its free memory */
    /* The bytes that the run's communicators have already allocated from this rank's memory. `have` does not
     * include these bytes, unless `have` is a limit. */
    uint64_t taken;
    bool is_limited; /* `have` is a given limit for the bytes that this rank alone allocates on its device */
    bool host_visible; /* the host can access the device's memory */
    uint64_t pool;     /* ranks with the same number allocate from the same memory */
    int64_t micro_batch;
    /* bytes of moments and masters, if replicas divide them: this rank's part, and the whole */
    size_t divided, undivided;
};

/** The parts of a report in their order, for tables and files. The last row has no name. */
struct yokei_memory_part {
    const char *name, *title; /* the key in a file, and the heading of a column */
    size_t offset;            /* offset of a size_t in struct yoke_memory_report */
};
extern const struct yokei_memory_part yokei_memory_parts[];
static inline size_t yokei_memory_part_of(const struct yoke_memory_report *report,
                                          const struct yokei_memory_part *part)
{
    return *(const size_t *)(const void *)((const char *)report + part->offset);
}

/** Fill in this rank's own values. With config->memory_limit 0, `have` is the free memory. */
yoke_status yokei_memory_of_rank(const struct yoke_trainer_config *config, yoke_device *device,
                                 const struct yokei_planned *planned, struct yokei_memory_rank *rank_out);
/** Gather the memory of all ranks [plan->n_ranks]. Collective. */
yoke_status yokei_memory_gather(const struct yoke_trainer_config *config, yoke_device *device,
                                const struct yokei_trainer_plan *plan, struct yokei_memory_rank *ranks_out);
/** The bytes that would count against the rank's `have` if this were the rank's report. */
double yokei_memory_need(const struct yokei_memory_rank *rank, const struct yoke_memory_report *report);
/**
 * The number of bytes that the rank with the largest shortage lacks, if each rank r needs need[r]. If `need`
 * is NULL, the need of each rank is that of its report. If the result is 0 or less, all ranks fit. *rank_out
 * is that rank. Among ranks that share a memory, it is the rank with the largest need. `needs_out` may be
 * NULL. Otherwise *needs_out is the need of that rank, or of all ranks that share its memory together.
 */
double yokei_memory_shortage(const struct yokei_memory_rank *ranks, const double *need, int n_ranks,
                             int *rank_out, double *needs_out);
/** The shortage of rank r, together with the ranks that share its memory. */
double yokei_memory_shortage_at(const struct yokei_memory_rank *ranks, const double *need, int n_ranks,
                                int r);
/**
 * YOKE_OK if all ranks fit. Otherwise all ranks return YOKE_ENOMEM with the cheapest change that fits. The
 * search for this change is collective.
 */
yoke_status yokei_memory_check(const yoke_model *model, yoke_device *device,
                               const struct yoke_trainer_config *config,
                               const struct yokei_trainer_plan *plan, const struct yokei_memory_rank *ranks);
/** One line: the largest need of a rank, and the need of all ranks together. */
void yokei_memory_line(const struct yokei_memory_rank *ranks, int n_ranks,
                       void (*line)(void *context, const char *text), void *context);
/** The table has one row for each run of consecutive ranks with the same numbers. */
void yokei_memory_table(const struct yokei_memory_rank *ranks, int n_ranks,
                        void (*line)(void *context, const char *text), void *context);

/* ---- replicas.c ---- */
/**
 * Choose the slices by free memory. The ranks were planned with equal slices. *uneven_out is true if some
 * ranks lack memory while other ranks have more. If so, shares_out [mesh->data] are in proportion to the
 * bytes that each replica has left after its other memory. The rank with the least memory counts for its
 * replica.
 */
yoke_status yokei_zero_choose(const struct yokei_mesh *mesh, const struct yokei_memory_rank *ranks,
                              int64_t *shares_out, bool *uneven_out);

/* ---- remedy.c: changes with which a run fits ---- */

/**
 * Set need_out[r] to the largest need among the ranks r, r + n, r + 2n, ... of n_planned ranks with this
 * configuration. n is the number of ranks of the run. need_out[r] is INFINITY if such a rank cannot be
 * planned. config->micro_batch is an upper limit; 0 means unchanged. If `enough` is finite, the function may
 * return as soon as the shortage is at least `enough`. The needs that it has computed then have this
 * shortage, and the others are 0.
 */
typedef yoke_status (*yokei_memory_ask)(void *context, const struct yoke_trainer_config *config,
                                        int n_planned, double enough, double *need_out);
struct yokei_memory_run {
    const yoke_model *model;
    const struct yoke_trainer_config *config; /* includes the shares */
    const struct yokei_mesh *mesh;
    const struct yokei_memory_rank *ranks; /* [n_ranks] */
    int n_ranks;
    struct yokei_planned_ranks *planned; /* the ranks that were planned; yokei_memory_asked adds to them */
};
/** One result of a yokei_memory_ask: the need of rank r of n_planned ranks on this device. */
double yokei_memory_asked(const struct yokei_memory_run *run, yoke_device *device,
                          const struct yoke_trainer_config *config, int r, int n_planned);
/**
 * The error of a run that does not fit. It names the ranks that lack memory, and how much. It also names the
 * first remedy, in the order of their cost, with which all ranks fit.
 */
yoke_status yokei_memory_refuse(const struct yokei_memory_run *run, yokei_memory_ask ask, void *context);

#endif
