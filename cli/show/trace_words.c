/* SPDX-License-Identifier: Apache-2.0 */
/* yoke trace: what all formats say of ranks and operations. */
#include "cli/show/trace.h"

#include <string.h>

#include "core/base/base.h"

const char *cli_trace_comm_name(const struct yokei_flight_file *file, uint32_t comm)
{
    const struct yokei_flight_comm *c = yokei_flight_comm_of(file, comm);
    return c ? c->name : "?";
}

int cli_trace_member(const struct cli_trace *t, uint32_t comm, int member)
{
    for (int r = 0; r < t->n; r++) {
        const struct yokei_flight_comm *c = t->files[r] ? yokei_flight_comm_of(t->files[r], comm) : NULL;
        if (c && c->rank == member) return r;
    }
    return -1;
}

double cli_trace_bytes(const struct yokei_flight_entry *entry)
{
    return (double)entry->count * (double)yoke_dtype_bytes((yoke_dtype)entry->dtype);
}

void cli_trace_who(const struct cli_trace *t, int r, char *out, size_t bytes)
{
    const struct yokei_flight_file *f = t->files[r];
    if (f)
        yokei_text(out, bytes, "rank %d (host %s, pid %d%s%s)", r, f->host[0] ? f->host : "unknown", f->pid,
                   f->device[0] ? ", " : "", f->device);
    else
        yokei_text(out, bytes, "rank %d", r);
}

void cli_trace_fate_text(const struct cli_trace *t, int r, char *out, size_t bytes)
{
    const struct yokei_flight_file *f = t->files[r];
    struct yokei_agent_verdict agent;
    switch (t->fates[r]) {
    case YOKEI_FATE_MISSING:
        yokei_text(out, bytes, "%s", t->problems[r][0] ? "unreadable" : "no record");
        return;
    case YOKEI_FATE_FAILED:
        yokei_text(out, bytes, "failed with %s", yoke_status_name((yoke_status)atomic_load(&f->status)));
        return;
    case YOKEI_FATE_DEAD:
        agent = yokei_flight_agent(f);
        yokei_agent_verdict_text(&agent, out, bytes);
        return;
    case YOKEI_FATE_KILLED: yokei_text(out, bytes, "was ended by its agent"); return;
    case YOKEI_FATE_GONE: yokei_text(out, bytes, "its process is gone, without a word"); return;
    case YOKEI_FATE_UNKNOWN: yokei_text(out, bytes, "cannot be seen from this host"); return;
    case YOKEI_FATE_STOPPED: yokei_text(out, bytes, "is stopped"); return;
    case YOKEI_FATE_ENDED: yokei_text(out, bytes, "ended in order"); return;
    default: yokei_text(out, bytes, "runs"); return;
    }
}

/* Write the candidates, such as "ranks 0, 2-5". */
static void list_candidates(const struct cli_trace *t, char *out, size_t bytes)
{
    yokei_text(out, bytes, "ranks ");
    for (int r = 0, any = 0; r < t->n; r++) {
        int end = r;
        if (!t->candidates[r]) continue;
        while (end + 1 < t->n && t->candidates[end + 1]) end++;
        const size_t used = strlen(out);
        yokei_text(out + used, bytes - used, end > r ? "%s%d-%d" : "%s%d", any ? ", " : "", r, end);
        any = 1;
        r = end;
    }
}

/* How many ranks' records say that this rank ended first. */
static int n_witnesses(const struct cli_trace *t, int rank)
{
    int n = 0;
    for (int r = 0; r < t->n; r++) n += t->files[r] && atomic_load(&t->files[r]->first_gone) == rank;
    return n;
}

static void why_text(const struct cli_trace *t, char *out, size_t bytes)
{
    const struct yokei_blame *b = &t->blame;
    char who[256] = "", fate[160] = "", list[512];
    bool runs = false;
    for (int r = 0; r < t->n; r++) runs |= t->fates[r] == YOKEI_FATE_RUNNING;
    if (b->rank >= 0) cli_trace_who(t, b->rank, who, sizeof who);
    if (b->rank >= 0) cli_trace_fate_text(t, b->rank, fate, sizeof fate);
    list_candidates(t, list, sizeof list);
    switch (b->evidence) {
    case YOKEI_EVIDENCE_AGENT: yokei_text(out, bytes, "%s %s", who, fate); return;
    case YOKEI_EVIDENCE_STOPPED: yokei_text(out, bytes, "%s is stopped", who); return;
    case YOKEI_EVIDENCE_GONE:
        yokei_text(out, bytes, "%s died: its process is gone, and no other's is", who);
        return;
    case YOKEI_EVIDENCE_WITNESS:
        yokei_text(out, bytes, "%s died: its process was the first to end, as %d of the others saw", who,
                   n_witnesses(t, b->rank));
        return;
    case YOKEI_EVIDENCE_ERROR:
        yokei_text(out, bytes, "%s%s%s, says rank %d: %s", who, b->by == b->rank ? " " : ": ",
                   b->by == b->rank ? "failed" : fate, b->by, t->files[b->by]->error);
        return;
    case YOKEI_EVIDENCE_WAITED:
        if (t->blame.n_candidates > 1)
            yokei_text(
                out, bytes,
                "one of %s died first, and the records cannot tell which; likeliest %s, for which the others waited",
                list, who);
        else
            yokei_text(out, bytes, "nobody failed; the others wait for %s, which %s", who, fate);
        return;
    default: break;
    }
    if (b->n_candidates > 1)
        yokei_text(out, bytes, "one of %s died first, and the records cannot tell which", list);
    else
        yokei_text(out, bytes, "%s", runs ? "nobody failed, and nobody waits" : "nobody failed");
}

int cli_trace_waits_for(const struct cli_trace *t, int r)
{
    const int now = yokei_rank_waits_for((const struct yokei_flight_file *const *)t->files, t->n, r);
    if (now >= 0 || t->fates[r] != YOKEI_FATE_FAILED) return now;
    const struct yokei_flight_entry *e = yokei_flight_operation(t->files[r], 0);
    const int then = e && e->status ? atomic_load(&e->waits_for) : -1;
    return then < t->n && then != r ? then : -1;
}

void cli_trace_doing(const struct cli_trace *t, int r, char *out, size_t bytes)
{
    const struct yokei_flight_file *f = t->files[r];
    const struct yokei_flight_entry *e = f ? yokei_flight_operation(f, 0) : NULL;
    const uint32_t state = f ? atomic_load(&f->state) : YOKEI_RANK_UNBORN;
    char name[128] = "";
    if (e)
        yokei_text(name, sizeof name, "%s #%u of \"%s\"", yokei_kind_name(e->kind), e->sequence,
                   cli_trace_comm_name(f, e->comm));
    const double since = e ? cli_trace_seconds(t, r, t->end - t->to_wall[r])
                                 - cli_trace_seconds(t, r, YOKE_MAX(e->start_ns, e->end_ns))
                           : 0;
    out[0] = '\0';
    if (!f) return;
    if (state == YOKEI_RANK_BUSY)
        yokei_text(out, bytes, "busy: %s", f->busy);
    else if (!e)
        yokei_text(out, bytes, "before its first operation");
    else if (atomic_load(&e->state) == 1)
        yokei_text(out, bytes, "in %s, step %d, for %.6f s", name, e->step, since);
    else if (e->status)
        yokei_text(out, bytes, "in %s, step %d, when it failed", name, e->step);
    else if (state == YOKEI_RANK_LEFT)
        yokei_text(out, bytes, "after %s, its last", name);
    else
        yokei_text(out, bytes, "outside collectives for %.6f s, after %s", since, name);
}

/*
 * Write which ranks were lost before the failure, such as "the job went on without rank 1 (host a, pid 4711,
 * host), which died by signal 9 (Killed); after that ".
 */
static void lost_text(const struct cli_trace *t, char *out, size_t bytes)
{
    int n = 0;
    out[0] = '\0';
    for (int r = 0; r < t->n; r++) {
        char who[256], fate[160];
        const size_t used = strlen(out);
        if (!yokei_was_lost(&t->lost, r)) continue;
        cli_trace_who(t, r, who, sizeof who);
        cli_trace_fate_text(t, r, fate, sizeof fate);
        if (n < 4)
            yokei_text(out + used, bytes - used, "%s%s, which %s",
                       n ? "; without " : "the job went on without ", who, fate);
        else if (n == 4)
            yokei_text(out + used, bytes - used, "; and without others, see below");
        n++;
    }
    const size_t used = strlen(out);
    if (n) yokei_text(out + used, bytes - used, "; after that ");
}

void cli_trace_blame_text(const struct cli_trace *t, char *out, size_t bytes)
{
    char lost[2048], why[2048], doing[256] = "";
    lost_text(t, lost, sizeof lost);
    why_text(t, why, sizeof why);
    if (t->blame.rank >= 0) cli_trace_doing(t, t->blame.rank, doing, sizeof doing);
    yokei_text(out, bytes, "%s%s%s%s", lost, why, doing[0] ? "; it was " : "", doing);
}
