/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time of an operation by the cost model, and the reason for its algorithm. What differs between
 * algorithms is in their own files. The rates were measured with all ranks at work, so nothing is divided by
 * the number of cores.
 */
#include <string.h>

#include "collectives/choice/choice.h"

#include "collectives/algorithms/algorithms.h"
#include "collectives/choice/costs.h"
#include "collectives/choice/shares.h"

/* Seconds per 1e9 bytes are nanoseconds per byte. The result is in microseconds. */
static double at_rate(double bytes, double gbps) { return gbps > 0 ? bytes / (gbps * 1e3) : 0; }

static double predict(const struct yokei_op *op)
{
    const yoke_comm *comm = op->comm;
    const struct yokei_costs *c = &comm->costs;
    const bool on_host = yokei_algorithm_reach(yokei_algorithm_id(op->algorithm)) == YOKE_REACH_ON_HOST;
    const bool slices = op->kind == YOKEI_ALL_GATHER || op->kind == YOKEI_GATHER;
    const double p = comm->size,
                 all = (double)op->count * (double)yoke_dtype_bytes(on_host ? op->dtype : op->wire);
    struct yokei_effort effort = { .all = all, .own = all / (slices ? p : 1), .steps = p - 1 };
    if (comm->size == 1 || (on_host ? c->shared_gbps : c->message_gbps) <= 0) return 0; /* not measured */
    effort.sent = effort.own;
    effort.summed = yokei_reduces(op) ? 2 * effort.own : 0;
    if (op->algorithm->effort) op->algorithm->effort(op, &effort);
    return effort.steps * c->message_us + effort.syncs * c->sync_us + at_rate(effort.sent, c->message_gbps)
           + at_rate(effort.touched, yokei_is_long(op) ? c->long_gbps : c->shared_gbps)
           + at_rate(effort.summed, c->sum_gbps);
}

/* Describe the slices that the ranks' shares give in this call. */
static void explain_shares(const struct yokei_op *op, char *text, size_t bytes)
{
    const yoke_comm *comm = op->comm;
    const struct yokei_shares *s = &comm->shares;
    const bool given = s->source == YOKEI_SHARES_GIVEN;
    const size_t used = strlen(text);
    const unsigned id = yokei_algorithm_id(op->algorithm);
    const bool in_columns = yokei_algorithm_reach(id) == YOKE_REACH_ACROSS_HOSTS;
    const bool in_ring = in_columns ? op->crossing == YOKEI_CROSS_RING
                                    : op->algorithm->by_slices && !yokei_algorithm_adds_in_rank_order(id);
    if (s->source == YOKEI_SHARES_EQUAL || comm->size == 1) return;
    if (!op->before) {
        if (op->kind == YOKEI_ALL_REDUCE && !given && in_ring)
            yokei_text(
                text + used, bytes - used,
                "; equal slices: in a ring they decide the order of the sums, so measured speeds do not count");
        return;
    }
    const uint32_t *before = op->algorithm->in_allocations ? op->before_plain : op->before;
    const int n = in_columns ? comm->hosts.least : comm->size;
    uint32_t least = UINT32_MAX, most = 0;
    for (int j = 0; j < n; j++) {
        least = YOKE_MIN(least, before[j + 1] - before[j]);
        most = YOKE_MAX(most, before[j + 1] - before[j]);
    }
    yokei_text(text + used, bytes - used, "; %s sum slices of %.0f%% to %.0f%%, by %s",
               in_columns ? "columns" : "ranks", 100.0 * least / before[n], 100.0 * most / before[n],
               given ? "the shares given" : "measured speeds");
}

static void explain_algorithm(const struct yokei_op *op, char *text, size_t bytes)
{
    const yoke_comm *comm = op->comm;
    const unsigned id = yokei_algorithm_id(op->algorithm);
    const bool was_named = op->kind == YOKEI_ALL_REDUCE && comm->settings.forced_algorithm >= 0
                           && (unsigned)comm->settings.forced_algorithm == id;
    const bool was_chosen = op->algorithm->why
                            && (op->kind == YOKEI_ALL_REDUCE || yokei_algorithm_adds_in_rank_order(id));
    const char *why = was_chosen ? op->algorithm->why : "; the way of this collective";
    if (comm->size == 1) {
        yokei_text(text, bytes, "there is one rank");
        return;
    }
    if (op->algorithm->explain) {
        op->algorithm->explain(op, text, bytes);
        why = "";
    } else {
        yokei_text(text, bytes, "%s",
                   comm->all_shared ? "messages through shared memory"
                                    : "not all ranks share memory: messages");
    }
    const size_t used = strlen(text);
    yokei_text(text + used, bytes - used, "%s", was_named ? "; the configuration names it" : why);
}

static void explain_copies(const yoke_comm *comm, char *text, size_t bytes)
{
    size_t at = strlen(text);
    if (!comm->any_staged || comm->size == 1) return;
    yokei_text(text + at, bytes - at, "; copies from and to devices, in up to %d pieces at once, come on top",
               YOKEI_LANES);
    at = strlen(text);
    if (comm->staging.refused[0])
        yokei_text(text + at, bytes - at, "; they pass through other memory: %s", comm->staging.refused);
}

void yokei_explain_choice(const struct yokei_op *op, struct yoke_comm_choice *choice_out)
{
    const unsigned id = yokei_algorithm_id(op->algorithm);
    *choice_out = (struct yoke_comm_choice){
        .size = sizeof *choice_out,
        .in_rank_order = yokei_algorithm_adds_in_rank_order(id),
        .reach = yokei_algorithm_reach(id),
        .chunk_bytes = YOKE_MIN(op->chunk ? op->chunk : op->count, op->count) * yoke_dtype_bytes(op->dtype),
        .n_lanes = op->n_lanes,
        .predicted_us = predict(op)
    };
    yokei_text(choice_out->algorithm, sizeof choice_out->algorithm, "%s", yokei_algorithm_name(id));
    explain_algorithm(op, choice_out->why, sizeof choice_out->why);
    explain_shares(op, choice_out->why, sizeof choice_out->why);
    explain_copies(op->comm, choice_out->why, sizeof choice_out->why);
    yokei_shares_text(op->comm, choice_out->shares, sizeof choice_out->shares);
    yokei_costs_text(&op->comm->costs, choice_out->costs, sizeof choice_out->costs);
}
