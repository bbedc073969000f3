/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that the ranks of a run need and have. The ranks exchange these numbers before anything is
 * allocated.
 */
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/base.h"
#include "train/trainer/memory.h"

#define PART(member) offsetof(struct yoke_memory_report, member)
const struct yokei_memory_part yokei_memory_parts[] = {
    { "weights", "weights", PART(weights) },
    { "gradients", "grads", PART(gradients) },
    { "optimizer", "optim", PART(optimizer) },
    { "activations", "activ", PART(activations) },
    { "stash", "(stash", PART(stash) },
    { "boundaries", "bounds", PART(boundaries) },
    { "received", "recvd", PART(received) },
    { "layer_workspace", "work", PART(layer_workspace) },
    { "unused", "unused)", PART(unused) },
    { "workspace", "data", PART(workspace) },
    { "scratch", "scratch", PART(scratch) },
    { "total", "DEVICE", PART(total) },
    { "staging_shared", "shared", PART(staging_shared) },
    { "staging", "staging", PART(staging) },
    { "host", "host", PART(host) },
    { NULL, NULL, 0 },
};

yoke_status yokei_memory_of_rank(const struct yoke_trainer_config *config, yoke_device *device,
                                 const struct yokei_planned *planned, struct yokei_memory_rank *out)
{
    const struct yoke_device_info *info = yoke_device_info(device);
    uint64_t available = 0, total = 0;
    *out = (struct yokei_memory_rank){ .report = planned->report,
                                       .is_limited = config->memory_limit > 0,
                                       .host_visible = info->host_visible,
                                       .micro_batch = planned->micro_batch,
                                       .divided = planned->divided,
                                       .undivided = planned->undivided };
    memcpy(out->device, info->spec, YOKE_MIN(sizeof out->device, sizeof info->spec));
    YOKE_TRY(yoke_device_memory(device, &available, &total));
    if (info->host_visible && !out->is_limited) out->taken = yokei_ranks_taken(config);
    out->have = out->is_limited ? config->memory_limit : available;
    out->pool = yokei_host_id();
    if (!info->host_visible) out->pool = yokei_hash(info->spec, strlen(info->spec), out->pool);
    out->pool >>= 12; /* so that it is exact as a double */
    return YOKE_OK;
}

/* The values are sent as doubles. Sizes are below 2^53, and the device's name is copied byte by byte. */
enum {
    N_PARTS = YOKE_COUNT(yokei_memory_parts) - 1,
    HAVE = N_PARTS,
    TAKEN,
    LIMITED,
    VISIBLE,
    POOL,
    MICRO_BATCH,
    DIVIDED,
    UNDIVIDED,
    DEVICE,
    N_PACKED = DEVICE + 4
};
_Static_assert(sizeof(((struct yokei_memory_rank *)0)->device) == 4 * sizeof(double),
               "a device's name goes into four doubles");

static void pack(const struct yokei_memory_rank *rank, double packed[N_PACKED])
{
    for (int i = 0; i < N_PARTS; i++)
        packed[i] = (double)yokei_memory_part_of(&rank->report, &yokei_memory_parts[i]);
    packed[HAVE] = (double)rank->have;
    packed[TAKEN] = (double)rank->taken;
    packed[LIMITED] = rank->is_limited;
    packed[VISIBLE] = rank->host_visible;
    packed[POOL] = (double)rank->pool;
    packed[MICRO_BATCH] = (double)rank->micro_batch;
    packed[DIVIDED] = (double)rank->divided;
    packed[UNDIVIDED] = (double)rank->undivided;
    memcpy(&packed[DEVICE], rank->device, sizeof rank->device);
}

static void unpack(const double packed[N_PACKED], struct yokei_memory_rank *rank)
{
    *rank = (struct yokei_memory_rank){ .report.size = sizeof rank->report,
                                        .have = (uint64_t)packed[HAVE],
                                        .taken = (uint64_t)packed[TAKEN],
                                        .is_limited = packed[LIMITED] != 0,
                                        .host_visible = packed[VISIBLE] != 0,
                                        .pool = (uint64_t)packed[POOL],
                                        .micro_batch = (int64_t)packed[MICRO_BATCH],
                                        .divided = (size_t)packed[DIVIDED],
                                        .undivided = (size_t)packed[UNDIVIDED] };
    for (int i = 0; i < N_PARTS; i++)
        *(size_t *)(void *)((char *)&rank->report + yokei_memory_parts[i].offset) = (size_t)packed[i];
    memcpy(rank->device, &packed[DEVICE], sizeof rank->device);
    rank->device[sizeof rank->device - 1] = 0;
}

yoke_status yokei_memory_gather(const struct yoke_trainer_config *config, yoke_device *device,
                                const struct yokei_trainer_plan *plan, struct yokei_memory_rank *ranks_out)
{
    struct yokei_memory_rank mine = { .report = plan->report };
    double packed[N_PACKED], *all = calloc((size_t)plan->n_ranks * N_PACKED, sizeof *all);
    if (!all) return yoke_fail(YOKE_ENOMEM, "trainer: no host memory for %d ranks", plan->n_ranks);
    struct yokei_planned planned;
    yokei_planned_of(plan, &planned);
    const yoke_status own = yokei_memory_of_rank(config, device, &planned, &mine);
    pack(&mine,
         packed); /* a rank whose own values failed takes part too, because the other ranks wait for it */
    yoke_status status = plan->n_ranks > 1 ? yokei_ranks_gather(config, packed, N_PACKED, all) : YOKE_OK;
    if (plan->n_ranks == 1) memcpy(all, packed, sizeof packed);
    for (int r = 0; r < plan->n_ranks && !status; r++) unpack(all + (size_t)r * N_PACKED, &ranks_out[r]);
    free(all);
    YOKE_TRY(status);
    return yokei_ranks_all_well(config, own);
}

double yokei_memory_need(const struct yokei_memory_rank *rank, const struct yoke_memory_report *report)
{
    const size_t on_host = report->staging_shared + report->staging + report->host;
    return (double)(report->total + (!rank->is_limited && rank->host_visible ? on_host : 0));
}

static double need_of(const struct yokei_memory_rank *ranks, const double *need, int r)
{
    return need ? need[r] : yokei_memory_need(&ranks[r], &ranks[r].report);
}

/*
 * The shortage of rank r, together with the ranks that share its memory. *sum_out is the need of these ranks.
 * *is_most_out is true if r is the first of them with the largest need.
 */
static double shortage_at(const struct yokei_memory_rank *ranks, const double *need, int n_ranks, int r,
                          double *sum_out, bool *is_most_out)
{
    const double own = need_of(ranks, need, r);
    double have = (double)ranks[r].have, taken = (double)ranks[r].taken;
    *sum_out = own;
    *is_most_out = true;
    for (int o = 0; o < n_ranks && !ranks[r].is_limited; o++) {
        if (o == r || ranks[o].is_limited || ranks[o].pool != ranks[r].pool) continue;
        const double other = need_of(ranks, need, o);
        *sum_out += other;
        taken += (double)ranks[o].taken;
        /* the ranks measured their free memory at different times */
        have = fmin(have, (double)ranks[o].have);
        *is_most_out = *is_most_out && (other < own || (other == own && o > r));
    }
    return *sum_out - have - taken;
}

double yokei_memory_shortage(const struct yokei_memory_rank *ranks, const double *need, int n_ranks,
                             int *rank_out, double *needs_out)
{
    double worst = -INFINITY;
    for (int r = 0; r < n_ranks; r++) {
        double sum;
        bool is_most;
        const double lacks = shortage_at(ranks, need, n_ranks, r, &sum, &is_most);
        if (!is_most || !(lacks > worst)) continue;
        worst = lacks;
        *rank_out = r;
        if (needs_out) *needs_out = sum;
    }
    return worst;
}

double yokei_memory_shortage_at(const struct yokei_memory_rank *ranks, const double *need, int n_ranks, int r)
{
    double sum;
    bool is_most;
    return shortage_at(ranks, need, n_ranks, r, &sum, &is_most);
}

/* ---- the table ---- */

static double mib(size_t bytes) { return (double)bytes / 1048576.0; }

static bool are_alike(const struct yokei_memory_rank *a, const struct yokei_memory_rank *b)
{
    bool alike = !strcmp(a->device, b->device);
    for (const struct yokei_memory_part *p = yokei_memory_parts; p->name; p++)
        alike = alike && yokei_memory_part_of(&a->report, p) == yokei_memory_part_of(&b->report, p);
    return alike;
}

void yokei_memory_line(const struct yokei_memory_rank *ranks, int n_ranks,
                       void (*line)(void *context, const char *text), void *context)
{
    char text[160];
    size_t sum = 0;
    int most = 0;
    for (int r = 0; r < n_ranks; r++) {
        sum += ranks[r].report.total;
        if (ranks[r].report.total > ranks[most].report.total) most = r;
    }
    if (n_ranks == 1)
        yokei_text(text, sizeof text, "memory %.1f MiB on %s (--verbose: by part)", mib(sum),
                   ranks[0].device);
    else
        yokei_text(text, sizeof text, "memory %.1f MiB, most on rank %d (%s): %.1f MiB (--verbose: by part)",
                   mib(sum), most, ranks[most].device, mib(ranks[most].report.total));
    line(context, text);
}

void yokei_memory_table(const struct yokei_memory_rank *ranks, int n_ranks,
                        void (*line)(void *context, const char *text), void *context)
{
    char text[512], who[48];
    yokei_text(text, sizeof text, "%-12s %-9s", "memory, MiB", "device");
    for (const struct yokei_memory_part *p = yokei_memory_parts; p->name; p++) {
        const size_t at = strlen(text);
        yokei_text(text + at, sizeof text - at, " %8s", p->title);
    }
    line(context, text);
    for (int r = 0, end; r < n_ranks; r = end) {
        for (end = r + 1; end < n_ranks && are_alike(&ranks[r], &ranks[end]);) end++;
        if (end == r + 1)
            yokei_text(who, sizeof who, "rank %d", r);
        else
            yokei_text(who, sizeof who, "ranks %d-%d", r, end - 1);
        yokei_text(text, sizeof text, "%-12s %-9s", who, ranks[r].device);
        for (const struct yokei_memory_part *p = yokei_memory_parts; p->name; p++) {
            const size_t at = strlen(text);
            yokei_text(text + at, sizeof text - at, " %8.2f", mib(yokei_memory_part_of(&ranks[r].report, p)));
        }
        line(context, text);
    }
}
