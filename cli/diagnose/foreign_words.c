/* SPDX-License-Identifier: Apache-2.0 */
/* The causes in the words of a program that is not Yoke: no option of yoke train makes their changes. */
#include <math.h>
#include <string.h>

#include "cli/diagnose/foreign.h"
#include "core/base/base.h"

/* Why a rank is slow: its kernels, or the time between them. */
static void slow_device(const struct yokei_facts *f, struct yokei_cause *c)
{
    const struct yokei_facts_rank *k = &f->rank[c->rank];
    double least = INFINITY;
    for (int r = 0; r < f->n_ranks; r++) least = fmin(least, f->rank[r].parts[YOKEI_STEP_OTHER]);
    const double idle = k->parts[YOKEI_STEP_OTHER] - least;
    const bool host = !strcmp(k->device, "host"), late = idle > 0.5 * c->seconds;
    const size_t used = strlen(c->evidence);
    char *end = strstr(c->evidence, "; no core");
    const size_t at = end ? (size_t)(end - c->evidence) : used;
    if (late)
        yokei_text(c->evidence + at, sizeof c->evidence - at,
                   "; %.4g ms more than on the quickest rank lie between its %s", 1e3 * idle,
                   host ? "operators" : "kernels");
    else
        yokei_text(c->evidence + at, sizeof c->evidence - at, "; its %s themselves take longer",
                   host ? "operators" : "kernels");
    yokei_text(
        c->remedy, sizeof c->remedy, "%s",
        late ? "look at the host of this rank: a program that sleeps, waits or takes its cores, and what the "
               "training does there alone (logging, evaluation)"
        : host
            ? "look at the processes beside this rank (top), and at its clock; a busy core looks the same here"
            : "look at the clock, the temperature and the power limit of this device, and whether its batch "
              "is larger than that of its peers");
}

static void remedy_of(const struct foreign_job *j, struct yokei_cause *c)
{
    const struct yokei_facts *f = &j->run->facts;
    const char *remedy = NULL;
    switch (c->kind) {
    case YOKEI_CAUSE_SLOW_DEVICE:
        if (c->rank >= 0) slow_device(f, c);
        break;
    case YOKEI_CAUSE_SLOW_LINK:
        remedy =
            "look at this link's cable, port and rate (nccl-tests, iperf3); fewer bytes help too (bf16, gradient "
            "accumulation)";
        break;
    case YOKEI_CAUSE_SHARES:
        remedy = f->pipeline > 1 ? "divide the layers so that the stages take equally long"
                                 : "divide the batch so that the ranks take equally long";
        yokei_text(
            c->evidence, sizeof c->evidence,
            "the ranks do different work: by the names and shapes of their kernels in the ratio %s would be even",
            c->list);
        break;
    case YOKEI_CAUSE_MICRO_BATCHES:
        remedy = "divide the batch into more micro-batches (n_microbatches, gradient accumulation steps)";
        break;
    case YOKEI_CAUSE_SMALL_BUCKETS:
        remedy = f->pipeline > 1
                     ? "divide the batch into fewer micro-batches"
                     : "sum larger buckets (bucket_cap_mb of DistributedDataParallel, reduce_bucket_size of "
                       "DeepSpeed)";
        break;
    case YOKEI_CAUSE_DATA:
        yokei_text(c->evidence, sizeof c->evidence, "rank %d waits %.4g ms of a step for its data loader",
                   c->rank >= 0 ? c->rank : 0, 1e3 * c->seconds);
        remedy =
            "load ahead in more processes (num_workers, prefetch_factor, pin_memory of DataLoader), from a local disk";
        break;
    case YOKEI_CAUSE_CHECKPOINT: remedy = "save less often, or beside the training (dcp.async_save)"; break;
    case YOKEI_CAUSE_COMPILATION:
        remedy =
            "keep what was compiled (TORCHINDUCTOR_CACHE_DIR), and keep shapes equal so that nothing is compiled again";
        break;
    case YOKEI_CAUSE_OVERLAP:
        remedy =
            "let the sums run beside the backward pass: DistributedDataParallel with smaller buckets, or "
            "overlap_grad_reduce of Megatron and overlap_comm of DeepSpeed";
        break;
    default: break;
    }
    if (remedy) yokei_text(c->remedy, sizeof c->remedy, "%s", remedy);
    c->change = YOKEI_CHANGE_NONE;
}

void foreign_words(struct foreign_job *j)
{
    for (int i = 0; i < j->run->found.n; i++) remedy_of(j, &j->run->found.cause[i]);
}
