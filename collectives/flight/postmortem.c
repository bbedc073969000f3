/* SPDX-License-Identifier: Apache-2.0 */
/* Conclusions from flight records: see postmortem.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdlib.h>
#include <string.h>

#include "collectives/flight/postmortem.h"
#include "core/base/base.h"

static const char *const fate_names[YOKEI_N_FATES] = { "missing", "running", "stopped", "ended",  "failed",
                                                       "dead",    "killed",  "gone",    "unknown" };
static const char *const evidence_names[YOKEI_N_EVIDENCES] = { "none",  "agent", "witness", "stopped",
                                                               "error", "gone",  "waited" };

const char *yokei_fate_name(enum yokei_fate fate)
{
    return (unsigned)fate < YOKEI_N_FATES ? fate_names[fate] : "?";
}
const char *yokei_evidence_name(enum yokei_evidence e)
{
    return (unsigned)e < YOKEI_N_EVIDENCES ? evidence_names[e] : "?";
}

/* ---- fates ---- */

/*
 * The rank's fate by its process, which can only be looked at on its own host. A process that started at
 * another time is a later one with the same number.
 */
static enum yokei_fate fate_by_process(const struct yokei_flight_file *file, int agents_pid)
{
    uint64_t start = 0;
    const uint64_t started = file->pid ? file->start_time : atomic_load(&file->rank_start);
    if (file->host_id != yokei_host_id()) return YOKEI_FATE_UNKNOWN;
    const char state = yokei_process_state(file->pid ? file->pid : agents_pid, &start);
    if (!state || state == 'Z' || state == 'X' || start != started) return YOKEI_FATE_GONE;
    return state == 'T' || state == 't' ? YOKEI_FATE_STOPPED : YOKEI_FATE_RUNNING;
}

enum yokei_fate yokei_fate(const struct yokei_flight_file *file)
{
    if (!file) return YOKEI_FATE_MISSING;
    const struct yokei_agent_verdict agent = yokei_flight_agent(file);
    const uint32_t state = atomic_load(&file->state);
    if (state == YOKEI_RANK_FAILED) return YOKEI_FATE_FAILED;
    if (agent.state == YOKEI_AGENT_DEAD || agent.state == YOKEI_AGENT_LOST) {
        const bool badly = agent.signal || agent.exit_code || state == YOKEI_RANK_INSIDE;
        /* It had recorded its error, and may have destroyed the communicator since. So its end tells
           nothing new. */
        if (badly && atomic_load(&file->status)) return YOKEI_FATE_FAILED;
        return badly ? YOKEI_FATE_DEAD : YOKEI_FATE_ENDED;
    }
    if (agent.state == YOKEI_AGENT_ENDED) return YOKEI_FATE_KILLED;
    if (state == YOKEI_RANK_LEFT) return YOKEI_FATE_ENDED;
    if (atomic_load(&file->life) & YOKEI_LIFE_ENDED) return YOKEI_FATE_GONE;
    const enum yokei_fate fate = fate_by_process(file, agent.pid);
    return fate == YOKEI_FATE_UNKNOWN && agent.state == YOKEI_AGENT_STOPPED ? YOKEI_FATE_STOPPED : fate;
}

/* ---- who waits for whom ---- */

const struct yokei_flight_entry *yokei_flight_operation(const struct yokei_flight_file *file, uint64_t nth)
{
    const uint64_t n = atomic_load(&file->n_operations);
    if (nth >= n || nth >= YOKEI_FLIGHT_ENTRIES) return NULL;
    const struct yokei_flight_entry *entry = &file->entries[(n - 1 - nth) % YOKEI_FLIGHT_ENTRIES];
    const uint32_t state = atomic_load(&entry->state);
    const bool times = state == 1 ? !entry->end_ns : entry->end_ns >= entry->start_ns;
    return (state == 1 || state == 2) && times && entry->start_ns && entry->kind < YOKEI_N_KINDS ? entry
                                                                                                 : NULL;
}

const struct yokei_flight_comm *yokei_flight_comm_of(const struct yokei_flight_file *file, uint32_t uid)
{
    const uint32_t n = YOKE_MIN(atomic_load(&file->n_comms), YOKEI_FLIGHT_COMMS);
    for (uint32_t i = 0; i < n; i++)
        if (file->comms[i].uid == uid) return &file->comms[i];
    return NULL;
}

uint64_t yokei_last_activity(const struct yokei_flight_file *file)
{
    const struct yokei_flight_entry *newest = yokei_flight_operation(file, 0);
    uint64_t last = YOKE_MAX(atomic_load(&file->heartbeat_ns), atomic_load(&file->progress_ns));
    if (newest) last = YOKE_MAX(last, YOKE_MAX(newest->start_ns, newest->end_ns));
    return last;
}

/* Whether a rank has finished its part of this operation, so that no other rank waits for it there. */
static bool has_passed(const struct yokei_flight_file *file, uint32_t comm, uint32_t sequence)
{
    const struct yokei_flight_entry *entry;
    for (uint64_t i = 0; i < YOKEI_FLIGHT_ENTRIES; i++) {
        if (!(entry = yokei_flight_operation(file, i)) || entry->comm != comm
            || entry->algorithm == YOKEI_PAIRS)
            continue;
        return entry->sequence > sequence || (entry->sequence == sequence && atomic_load(&entry->state) == 2);
    }
    return false;
}

int yokei_rank_waits_for(const struct yokei_flight_file *const files[], int n, int r)
{
    if (!files[r] || atomic_load(&files[r]->state) != YOKEI_RANK_INSIDE) return -1;
    const int other = atomic_load(&files[r]->waits_for);
    if (other < 0 || other >= n || other == r) return -1;
    const struct yokei_flight_entry *newest = yokei_flight_operation(files[r], 0);
    const bool is_pair = newest
                         && newest->algorithm
                                == YOKEI_PAIRS; /* their sequence numbers are counted separately */
    if (files[other] && !is_pair
        && has_passed(files[other], atomic_load(&files[r]->comm), atomic_load(&files[r]->sequence)))
        return -1;
    return other;
}

/*
 * The rank at the end of the chain of waits from r. In a circle it is the rank that has made no step for the
 * longest time. It is r if r waits for no rank.
 */
static int last_of_chain(const struct yokei_flight_file *const files[], int n, int r)
{
    int at = r, oldest = r;
    for (int hops = 0; hops < n; hops++) {
        const int next = yokei_rank_waits_for(files, n, at);
        if (next < 0) return at;
        if (atomic_load(&files[at]->progress_ns) < atomic_load(&files[oldest]->progress_ns)) oldest = at;
        at = next;
    }
    return oldest;
}

/* ---- who is to blame ---- */

struct records {
    const struct yokei_flight_file *const *files;
    const enum yokei_fate *fates;
    int n;
};

/*
 * The first rank whose death its agent saw. Ranks that ended with a code before their first collective come
 * last, because another rank caused their end.
 */
static int first_dead(const struct records *all, uint64_t *when_out)
{
    int found = -1;
    bool early = false;
    uint64_t when = 0;
    for (int r = 0; r < all->n; r++) {
        const struct yokei_flight_file *file = all->files[r];
        if (all->fates[r] != YOKEI_FATE_DEAD) continue;
        const bool at_start = !yokei_flight_agent(file).signal && !atomic_load(&file->n_operations);
        const uint64_t then = yokei_wall_ns(file, atomic_load(&file->agent_ns));
        if (found >= 0 && (at_start > early || (at_start == early && then >= when))) continue;
        found = r;
        early = at_start;
        when = then;
    }
    *when_out = when;
    return found;
}

/* The earliest end of a rank that another rank saw, if the rank that ended recorded nothing. */
static int first_seen(const struct records *all, int *by_out, uint64_t *when_out)
{
    int found = -1;
    for (int r = 0; r < all->n; r++) {
        if (!all->files[r]) continue;
        const int gone = atomic_load(&all->files[r]->first_gone);
        if (gone < 0 || gone >= all->n || gone == r) continue;
        if (all->fates[gone] != YOKEI_FATE_GONE && all->fates[gone] != YOKEI_FATE_UNKNOWN
            && all->fates[gone] != YOKEI_FATE_MISSING)
            continue;
        const uint64_t when = yokei_wall_ns(all->files[r], atomic_load(&all->files[r]->first_gone_ns));
        if (found >= 0 && when >= *when_out) continue;
        found = gone;
        *by_out = r;
        *when_out = when;
    }
    return found;
}

static bool is_consequence(uint32_t status) { return status == YOKE_EDEAD || status == YOKE_EABORTED; }

/* The first error. An error that is a cause comes before an error that reports another rank's failure. */
static int first_error(const struct records *all, uint64_t *when_out)
{
    int found = -1;
    for (int r = 0; r < all->n; r++) {
        if (all->fates[r] != YOKEI_FATE_FAILED) continue;
        const bool later = found >= 0
                           && yokei_wall_ns(all->files[r], atomic_load(&all->files[r]->heartbeat_ns))
                                  >= *when_out;
        const bool echo = is_consequence(atomic_load(&all->files[r]->status));
        const bool best_is_echo = found >= 0 && is_consequence(atomic_load(&all->files[found]->status));
        if (found >= 0 && (echo > best_is_echo || (echo == best_is_echo && later))) continue;
        found = r;
        *when_out = yokei_wall_ns(all->files[r], atomic_load(&all->files[r]->heartbeat_ns));
    }
    return found;
}

/*
 * A rank's call with this sequence number on the communicator (0: its newest call). NULL: it made none, or
 * too long ago.
 */
static const struct yokei_flight_entry *call_of(const struct yokei_flight_file *file, uint32_t comm,
                                                uint32_t sequence)
{
    const struct yokei_flight_entry *entry;
    for (uint64_t i = 0; file && i < YOKEI_FLIGHT_ENTRIES && i < atomic_load(&file->n_operations); i++)
        if ((entry = yokei_flight_operation(file, i)) && entry->comm == comm
            && entry->algorithm != YOKEI_PAIRS && (!sequence || entry->sequence == sequence))
            return entry;
    return NULL;
}

static bool same_call(const struct yokei_flight_entry *a, const struct yokei_flight_entry *b)
{
    return a->kind == b->kind && a->dtype == b->dtype && a->reduction == b->reduction && a->root == b->root
           && a->count == b->count && a->counts_hash == b->counts_hash;
}

/*
 * If calls differ, each of the ranks may be the first to find it, and then names another rank. So look for
 * the one rank whose call differs from all others; -1: there is none.
 */
static int odd_one_of(const struct records *all, uint32_t comm, uint32_t sequence)
{
    int odd = -1;
    const struct yokei_flight_entry *a, *b;
    for (int r = 0; r < all->n; r++) {
        int alike = 0, others = 0;
        if (!(a = call_of(all->files[r], comm, sequence))) continue;
        for (int q = 0; q < all->n; q++) {
            if (q == r || !(b = call_of(all->files[q], comm, sequence))) continue;
            others++;
            alike += same_call(a, b);
        }
        if (others < 2 || alike == others - 1)
            continue; /* one of only two ranks, or one of the ranks that agree */
        if (alike || odd >= 0) return -1;
        odd = r;
    }
    return odd;
}

/* Find the differing rank in the first of the last few calls that has one. */
static int odd_one(const struct records *all, uint32_t comm)
{
    static const uint32_t CALLS = 4;
    uint32_t last = UINT32_MAX;
    int odd = -1;
    const struct yokei_flight_entry *newest;
    for (int r = 0; r < all->n; r++) /* the last call that all ranks made */
        if ((newest = call_of(all->files[r], comm, 0))) last = YOKE_MIN(last, newest->sequence);
    for (uint32_t s = last > CALLS ? last - CALLS + 1 : 1; s <= last && last != UINT32_MAX && odd < 0; s++)
        odd = odd_one_of(all, comm, s);
    return odd;
}

/*
 * The rank that a recorded error names in the end. A rank that reports another rank's fault is not to blame
 * for it.
 */
static int named_by(const struct records *all, int failed)
{
    int at = failed;
    if (atomic_load(&all->files[failed]->status) == YOKE_EMISMATCH) {
        const int odd = odd_one(all, atomic_load(&all->files[failed]->comm));
        if (odd >= 0) return odd;
    }
    for (int hops = 0; hops < all->n; hops++) {
        if (all->fates[at] != YOKEI_FATE_FAILED) return at;
        const int next = atomic_load(&all->files[at]->culprit);
        if (next == at || next < 0 || next >= all->n) return at;
        at = next;
    }
    return atomic_load(&all->files[failed]->culprit); /* a circle, in which each rank names another */
}

/*
 * The rank at the end of the chain of waits that begins at the rank without a step for the longest time; -1:
 * no rank waits.
 */
static int most_waited_for(const struct records *all)
{
    int from = -1;
    for (int r = 0; r < all->n; r++) {
        if (yokei_rank_waits_for(all->files, all->n, r) < 0) continue;
        if (from < 0
            || atomic_load(&all->files[r]->progress_ns) < atomic_load(&all->files[from]->progress_ns))
            from = r;
    }
    return from < 0 ? -1 : last_of_chain(all->files, all->n, from);
}

static struct yokei_blame blame_of(enum yokei_evidence evidence, int rank, int by, bool candidates[])
{
    candidates[rank] = true;
    return (struct yokei_blame){ .evidence = evidence, .rank = rank, .by = by, .n_candidates = 1 };
}

/*
 * If several ranks are gone, or their fate is unknown, all of them are candidates. The likeliest is the one
 * for which the others wait.
 */
static struct yokei_blame guess(const struct records *all, bool candidates[])
{
    struct yokei_blame blame = { .rank = -1, .by = -1 };
    int last = -1;
    for (int r = 0; r < all->n; r++) {
        candidates[r] = all->fates[r] == YOKEI_FATE_GONE || all->fates[r] == YOKEI_FATE_UNKNOWN;
        blame.n_candidates += candidates[r];
        if (candidates[r]) last = r;
    }
    const int waited_for = most_waited_for(all);
    if (blame.n_candidates == 1 && all->fates[last] == YOKEI_FATE_GONE)
        return blame_of(YOKEI_EVIDENCE_GONE, last, -1, candidates);
    if (waited_for >= 0 && (candidates[waited_for] || !blame.n_candidates)) {
        blame.rank = waited_for;
        blame.evidence = YOKEI_EVIDENCE_WAITED;
        if (!blame.n_candidates) candidates[waited_for] = true, blame.n_candidates = 1;
    }
    return blame;
}

void yokei_find_lost(const struct yokei_flight_file *const files[], int n, struct yokei_lost *lost_out)
{
    *lost_out = (struct yokei_lost){ 0 };
    for (int r = 0; r < n; r++)
        for (size_t i = 0; files[r] && atomic_load(&files[r]->n_shrinks) && i < YOKE_COUNT(lost_out->bits);
             i++)
            lost_out->bits[i] |= atomic_load(&files[r]->lost[i]);
}

/* The rank to blame if no rank went on without others. */
static struct yokei_blame blame_one(const struct records *of, bool candidates_out[])
{
    const struct records all = *of;
    const struct yokei_flight_file *const *files = all.files;
    const enum yokei_fate *fates = all.fates;
    const int n = all.n;
    uint64_t seen_at = 0, failed_at = 0, dead_at = 0;
    int by = -1;
    memset(candidates_out, 0, (size_t)n * sizeof candidates_out[0]);
    const int dead = first_dead(&all, &dead_at), seen = first_seen(&all, &by, &seen_at),
              failed = first_error(&all, &failed_at);
    /* A rank that ended with a code and recorded no error, after another rank had recorded one, may have
       ended because of that error. */
    const bool left_later = dead >= 0 && failed >= 0 && !yokei_flight_agent(files[dead]).signal
                            && failed_at < dead_at;
    if (dead >= 0 && !left_later) return blame_of(YOKEI_EVIDENCE_AGENT, dead, -1, candidates_out);
    const bool cause = failed >= 0 && !is_consequence(atomic_load(&files[failed]->status));
    if (seen >= 0 && !(cause && failed_at < seen_at))
        return blame_of(YOKEI_EVIDENCE_WITNESS, seen, by, candidates_out);
    for (int r = 0; r < n && failed < 0; r++)
        if (fates[r] == YOKEI_FATE_STOPPED) return blame_of(YOKEI_EVIDENCE_STOPPED, r, -1, candidates_out);
    if (failed >= 0) return blame_of(YOKEI_EVIDENCE_ERROR, named_by(&all, failed), failed, candidates_out);
    return guess(&all, candidates_out);
}

struct yokei_blame yokei_blame(const struct yokei_flight_file *const files[], const enum yokei_fate fates[],
                               int n, bool candidates_out[])
{
    /* A rank without which others went on is not the cause of anything later. It counts as ended normally. */
    enum yokei_fate *counted = malloc((size_t)YOKE_MAX(n, 1) * sizeof *counted);
    struct yokei_lost lost;
    yokei_find_lost(files, n, &lost);
    for (int r = 0; r < n && counted; r++)
        counted[r] = yokei_was_lost(&lost, r) ? YOKEI_FATE_ENDED : fates[r];
    const struct yokei_blame blame = blame_one(&(struct records){ files, counted ? counted : fates, n },
                                               candidates_out);
    free(counted);
    return blame;
}
