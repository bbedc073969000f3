/* SPDX-License-Identifier: Apache-2.0 */
/* The output of yoke trace for people. */
#include <stdlib.h>
#include <string.h>
#include <yoke/comm.h>

#include "cli/show/trace.h"
#include "core/base/base.h"

/*
 * Write "rank 0 waits for rank 1, which waits for rank 2", up to the end of the chain, or once round a
 * circle.
 */
static void chain(const struct cli_trace *t, int from, FILE *to)
{
    int next = cli_trace_waits_for(t, from);
    const bool failed = t->fates[from] == YOKEI_FATE_FAILED;
    if (next < 0) return;
    fprintf(to, "    %s rank %d", failed ? "waited for" : "waits for", next);
    for (int hops = 1; hops < t->n; hops++) {
        next = cli_trace_waits_for(t, next);
        if (next < 0) break;
        fprintf(to, ", which %s rank %d", failed ? "waited for" : "waits for", next);
        if (next == from) break;
    }
    fputc('\n', to);
}

static void operation(const struct cli_trace *t, int r, const struct yokei_flight_entry *e, FILE *to)
{
    const struct yokei_flight_file *f = t->files[r];
    const bool has_data = e->kind != YOKEI_BARRIER && e->kind != YOKEI_DESTROY;
    const bool reduces = e->kind == YOKEI_ALL_REDUCE || e->kind == YOKEI_REDUCE_SCATTER
                         || e->kind == YOKEI_REDUCE;
    const uint64_t end = e->end_ns ? e->end_ns : YOKE_MAX(yokei_last_activity(f), e->start_ns);
    const int waited = atomic_load(&e->waits_for);
    char what[160];
    yokei_text(what, sizeof what, "%s #%u \"%s\"", yokei_kind_name(e->kind), e->sequence,
               cli_trace_comm_name(f, e->comm));
    fprintf(to, "    %12.6f s  %10.6f s%s %-32s %-13s", cli_trace_seconds(t, r, e->start_ns),
            (double)(end - e->start_ns) * 1e-9, e->end_ns ? " " : "+", what,
            yokei_algorithm_name(e->algorithm));
    if (has_data)
        fprintf(to, " %llu x %s%s%s,", (unsigned long long)e->count, yoke_dtype_name((yoke_dtype)e->dtype),
                reduces ? " " : "", reduces ? yoke_reduction_name((yoke_reduction)e->reduction) : "");
    if (e->root >= 0) fprintf(to, " %s %d,", e->algorithm == YOKEI_PAIRS ? "peer" : "root", e->root);
    fprintf(to, " %d steps", e->step);
    if (waited >= 0) fprintf(to, ", %s rank %d", e->end_ns ? "last waited for" : "waits for", waited);
    if (e->status) fprintf(to, ", %s", yoke_status_name((yoke_status)e->status));
    fputc('\n', to);
}

static void rank(const struct cli_trace *t, int r, FILE *to)
{
    const struct cli_trace_share *share = &t->shares[r];
    char who[256], fate[160], doing[256];
    cli_trace_who(t, r, who, sizeof who);
    cli_trace_fate_text(t, r, fate, sizeof fate);
    cli_trace_doing(t, r, doing, sizeof doing);
    fprintf(to, "\n%s: %s%s%s\n", who, fate, doing[0] ? "; " : "", doing);
    if (yokei_was_lost(&t->lost, r)) fprintf(to, "    the others went on without it\n");
    if (t->fates[r] == YOKEI_FATE_FAILED) fprintf(to, "    %s\n", t->files[r]->error);
    chain(t, r, to);
    const int seen = atomic_load(&t->files[r]->first_gone);
    if (seen >= 0 && seen < t->n) fprintf(to, "    saw that the process of rank %d had ended\n", seen);
    if (share->n_operations)
        fprintf(
            to,
            "    came last to %d of %d operations, and the others waited %.6f s for it; it waited %.6f s for others\n",
            share->n_last, share->n_operations, share->caused, share->waited);
    const uint64_t n = YOKE_MIN((uint64_t)t->last, YOKEI_FLIGHT_ENTRIES);
    for (uint64_t i = n; i-- > 0;) {
        const struct yokei_flight_entry *e = yokei_flight_operation(t->files[r], i);
        if (e) operation(t, r, e, to);
    }
}

void cli_trace_text(const struct cli_trace *t, FILE *to)
{
    char blame[4608];
    int n_missing = 0;
    cli_trace_blame_text(t, blame, sizeof blame);
    fprintf(to, "%s: %d ranks\n%s\n", t->folder, t->n, blame);
    for (int r = 0; r < t->n; r++) {
        if (t->files[r])
            rank(t, r, to);
        else
            n_missing++;
    }
    if (!n_missing) return;
    fprintf(to, "\nNo record could be read of rank");
    for (int r = 0; r < t->n; r++) {
        const int first = r;
        if (t->files[r]) continue;
        while (r + 1 < t->n && !t->files[r + 1]) r++;
        fprintf(to, r > first ? " %d-%d" : " %d", first, r);
    }
    fprintf(
        to,
        ": its files were not found or are damaged, or it had not begun; without records its part is not known.\n");
}
