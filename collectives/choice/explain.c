/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reason for an operation's algorithm and for its groups of ranks. What differs between algorithms is in
 * their own files.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "collectives/choice/choice.h"

#include "collectives/algorithms/algorithms.h"
#include "collectives/algorithms/hierarchy.h"
#include "collectives/choice/costs.h"
#include "collectives/choice/shares.h"

static void add_text(char *text, size_t bytes, const char *format, ...) YOKE_PRINTF(3, 4);
static void add_text(char *text, size_t bytes, const char *format, ...)
{
    const size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, bytes - used, format, args);
    va_end(args);
}

static bool is_grouped(const struct yokei_op *op)
{
    return yokei_algorithm_reach(yokei_algorithm_id(op->algorithm)) == YOKE_REACH_ACROSS_HOSTS;
}

/* Describe the slices that the ranks' shares give in this call. */
static void explain_shares(const struct yokei_op *op, char *text, size_t bytes)
{
    const yoke_comm *comm = op->comm;
    const struct yokei_shares *s = &comm->shares;
    const bool given = s->source == YOKEI_SHARES_GIVEN;
    const size_t used = strlen(text);
    const unsigned id = yokei_algorithm_id(op->algorithm);
    const bool in_columns = is_grouped(op);
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
    const int n = in_columns ? op->hosts->least : comm->size;
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

/* List the ranks of each group: "nvidia 0-3+8, host 4-7". */
static void list_groups(const struct yokei_op *op, char *text, size_t bytes)
{
    const struct yokei_hosts *h = op->hosts;
    text[0] = '\0';
    for (int g = 0; g < h->n; g++) {
        if (g) add_text(text, bytes, ", ");
        if (h->are_islands) add_text(text, bytes, "%s ", op->comm->peers[yokei_rank_on(h, g, 0)].info.island);
        for (int i = 0, n; i < yokei_host_size(h, g); i += n) {
            const int first = yokei_rank_on(h, g, i);
            for (n = 1; i + n < yokei_host_size(h, g) && yokei_rank_on(h, g, i + n) == first + n;) n++;
            add_text(text, bytes, n > 1 ? "%s%d-%d" : "%s%d", i ? "+" : "", first, first + n - 1);
        }
    }
}

/* Why a call does not run by vendor, although the configuration says so. */
static const char *why_not_by_vendor(const struct yokei_op *op)
{
    const yoke_comm *comm = op->comm;
    if (!comm->hosts.n) return "the ranks form no groups by memory";
    if (comm->islands.n == comm->hosts.n) return "each host has one vendor";
    if (comm->islands.most < 2) return "each island has one rank";
    if (yokei_reduces(op) && op->reproducible)
        return "reproducible=shape, and the order of the sum would change";
    return "the hierarchy does not serve this call";
}

/* How the ranks are grouped, and the reason, if there was a choice. */
static void explain_grouping(const struct yokei_op *op, char *text, size_t bytes)
{
    const yoke_comm *comm = op->comm;
    const bool by_island = op->hosts->are_islands;
    const char *kind = comm->settings.labels ? "label" : "vendor";
    switch (comm->settings.island) {
    case YOKE_ISLAND_VENDOR:
        if (by_island)
            add_text(text, bytes, "; by %s: the configuration says so", kind);
        else
            add_text(text, bytes, "; not by %s: %s", kind, why_not_by_vendor(op));
        return;
    case YOKE_ISLAND_HOST: add_text(text, bytes, "; the configuration allows only groups by host"); return;
    case YOKE_ISLAND_OFF: add_text(text, bytes, "; the configuration allows no groups"); return;
    case YOKE_ISLAND_AUTO: break;
    }
    if (!yokei_has_islands(comm)) return;
    if (!yokei_grouping_is_free(op))
        add_text(text, bytes,
                 "; not by %s: it would change the order of the sum, which no measurement may decide", kind);
    else if (op->island_us > 0)
        add_text(text, bytes, "; %sby %s, for which the model predicts %.1f us, and %.1f us without",
                 by_island ? "" : "not ", kind, op->island_us, op->host_us);
    else
        add_text(text, bytes,
                 "; not by %s: the model has no figures, or the hierarchy does not serve this call", kind);
}

static void describe_groups(const struct yokei_op *op, struct yoke_comm_choice *out)
{
    const bool grouped = is_grouped(op),
               one = op->crossing == YOKEI_CROSS_LEADERS || op->crossing == YOKEI_CROSS_EACH;
    yokei_text(out->grouping, sizeof out->grouping, "%s",
               !grouped                    ? "none"
               : !op->hosts->are_islands   ? "host"
               : op->comm->settings.labels ? "labels"
                                           : "vendor");
    if (!grouped) return;
    list_groups(op, out->islands, sizeof out->islands);
    out->n_islands = op->hosts->n;
    out->n_columns = one ? 1 : op->crossing == YOKEI_CROSS_PARTS ? op->hosts->most : op->hosts->least;
    out->bridge_bytes = yokei_bridge_bytes(op);
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
        .predicted_us = yokei_predict(op)
    };
    yokei_text(choice_out->algorithm, sizeof choice_out->algorithm, "%s", yokei_algorithm_name(id));
    explain_algorithm(op, choice_out->why, sizeof choice_out->why);
    if (op->size > 1) explain_grouping(op, choice_out->why, sizeof choice_out->why);
    describe_groups(op, choice_out);
    explain_shares(op, choice_out->why, sizeof choice_out->why);
    explain_copies(op->comm, choice_out->why, sizeof choice_out->why);
    yokei_shares_text(op->comm, choice_out->shares, sizeof choice_out->shares);
    yokei_costs_text(&op->comm->costs, choice_out->costs, sizeof choice_out->costs);
}
