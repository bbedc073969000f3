/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every wait ends. A rank that makes no progress looks at its peers every few milliseconds. It reads their
 * agents' words and their own records, less often for ranks on another host, and their answers to probes. The
 * verdicts are:
 *   dead     the agent, or /proc, says that the process ended; known at once
 *   stopped  the agent, or /proc, says that the process is stopped; a verdict after one second, in which it
 *            may be continued
 *   silent   the rank's agent, on another host, has given no sign of life for stall_ms
 *   stuck    the rank is in the call, or a thread of it is blocked in another call, and neither it nor the
 *            ranks that it waits for made a step for stall_ms, or for timeout_ms if the rank waits for its
 *            own device, or for a rank of another communicator
 *   late     the rank lives, but has not called; a warning after stall_ms, an error after timeout_ms. It may
 *            have other transfers in flight, which run concurrently with its threads
 * A rank that reaches a verdict reports it to all other ranks, so that all name the same rank.
 */
#include <stdio.h>
#include <string.h>
#include <signal.h>

#include "collectives/faults/verdict.h"

#include "collectives/faults/call_check.h"
#include "collectives/faults/far.h"
#include "collectives/faults/report.h"
#include "collectives/transport/transport.h"

static const uint64_t MS = 1000000;
static const uint64_t WATCH_EVERY = 2, COMPARE_AFTER = 10, PROC_AFTER = 50, PROC_EVERY = 50,
                      PROBE_AFTER = 100, PROBE_EVERY = 500, DEAD_GRACE = 10, AWAY = 200,
                      FOREIGN_FAILURE_AFTER = 1000, BROKEN_GRACE = 2000, LOOK_COUNTS_FOR = 100,
                      FAR_AFTER = 20, FAR_EVERY = 50, NETWORK_AFTER = 100, PUBLISH_AFTER = 1000,
                      PUBLISH_EVERY = 1000, BEAT_GRACE = 1000;
/* how many records of ranks on other hosts are looked at together, besides the rank that is waited for */
enum { FAR_AT_ONCE = 4 };

/* "all_reduce #17 of communicator "world", step 5 of rank 0": what this rank was doing. */
static void here_text(const yoke_comm *comm, const struct yokei_op *op, char *text, size_t bytes)
{
    yokei_text(text, bytes, "%s #%u of communicator \"%s\", step %u of rank %d", yokei_kind_name(op->kind),
               op->transfers ? op->transfers[0].header.sequence : op->header.sequence, comm->name,
               op->n_steps, comm->rank);
}

/* "rank 2 (host alpha, pid 123)" */
static void rank_text(const yoke_comm *comm, int rank, char *text, size_t bytes)
{
    const struct yokei_peer_info *info = &comm->peers[rank].info;
    if (info->world_rank == rank)
        yokei_text(text, bytes, "rank %d (host %s, pid %d)", rank, info->host, info->pid);
    else
        yokei_text(text, bytes, "rank %d (rank %d of the job, host %s, pid %d)", rank, info->world_rank,
                   info->host, info->pid);
}

/* "; it was in all_reduce #3 of ...": what a rank did, by its record. */
static void peer_did_text(yoke_comm *comm, int rank, char *text, size_t bytes)
{
    const struct yokei_flight_file *file = yokei_record_of(comm, rank, yokei_now_ns());
    text[0] = '\0';
    if (!file) return;
    char what[512];
    yokei_flight_describe(file, comm->peers[rank].flight != NULL, what, sizeof what);
    yokei_text(text, bytes, "; it was %s", what);
}

static bool blame_peer(yoke_comm *comm, const struct yokei_op *op, yoke_status status, int rank,
                       const char *what)
{
    char here[160], who[192], did[600];
    here_text(comm, op, here, sizeof here);
    rank_text(comm, rank, who, sizeof who);
    peer_did_text(comm, rank, did, sizeof did);
    yokei_comm_fail(comm, status, comm->peers[rank].info.world_rank, "%s: %s %s%s", here, who, what, did);
    return true;
}

/* The state of a peer on this host without an agent, by /proc: dead, stopped, or alive. */
static enum yokei_agent_state proc_verdict(const struct yokei_peer *peer)
{
    uint64_t start = 0;
    const char state = yokei_process_state(peer->info.pid, &start);
    if (!state || state == 'Z' || state == 'X' || start != peer->info.start_time) return YOKEI_AGENT_DEAD;
    return state == 'T' || state == 't' ? YOKEI_AGENT_STOPPED : YOKEI_AGENT_ALIVE;
}

/* Whether neither a rank on another host nor its agent has published any life for stall_ms. */
static bool is_silent(const yoke_comm *comm, struct yokei_peer *peer, const struct yokei_flight_file *file,
                      uint64_t now)
{
    return !peer->flight
           && yokei_beats_stand(&peer->watch.beats, file, now)
                  > (uint64_t)comm->settings.stall_ms * MS + BEAT_GRACE * MS;
}

bool yokei_is_gone(yoke_comm *comm, int rank)
{
    struct yokei_peer *peer = &comm->peers[rank];
    const uint64_t now = yokei_now_ns();
    const struct yokei_flight_file *file = yokei_record_of(comm, rank, now);
    if (!file) return false;
    const struct yokei_agent_verdict verdict = yokei_flight_agent(file);
    if (peer->flight && verdict.state == YOKEI_AGENT_NONE) return proc_verdict(peer) == YOKEI_AGENT_DEAD;
    return yokei_agent_gone(verdict.state) || is_silent(comm, peer, file, now);
}

bool yokei_is_lost(yoke_comm *comm, int rank)
{
    struct yokei_peer *peer = &comm->peers[rank];
    const uint64_t now = yokei_now_ns();
    if (yokei_is_gone(comm, rank)) return true;
    const struct yokei_flight_file *file = yokei_record_of(comm, rank, now);
    struct yokei_agent_verdict verdict = { 0 };
    if (file) verdict = yokei_flight_agent(file);
    if (verdict.state == YOKEI_AGENT_NONE && peer->flight) verdict.state = proc_verdict(peer);
    if (verdict.state != YOKEI_AGENT_STOPPED)
        peer->watch.suspect_ns = 0;
    else if (!peer->watch.suspect_ns)
        peer->watch.suspect_ns = now;
    return peer->watch.suspect_ns
           && yokei_stopped_for_long(&verdict, now - peer->watch.suspect_ns, peer->flight != NULL);
}

/* Fail with the peer's own error, because it is nearer to the cause than the fact that the peer ended. */
static bool take_over(yoke_comm *comm, int rank)
{
    const struct yokei_flight_file *file = yokei_record_of(comm, rank, yokei_now_ns());
    if (!file) return false;
    char text[sizeof file->error];
    memcpy(text, file->error, sizeof text);
    text[sizeof text - 1] = '\0';
    yokei_comm_fail_as(comm, (yoke_status)atomic_load(&file->status), atomic_load(&file->culprit), text,
                       YOKEI_FAIL_REPORT);
    return true;
}

/* Read a peer's record: whether it failed, ended, or was stopped. Returns true if the communicator failed. */
static bool look_at_peer(yoke_comm *comm, struct yokei_op *op, int rank, bool look_at_proc, uint64_t now)
{
    struct yokei_peer *peer = &comm->peers[rank];
    const struct yokei_flight_file *file = yokei_record_of(comm, rank, now);
    if (!file) return false;
    /* The peer failed in another communicator, and has done nothing since. It will not come here any more,
       unless it is about to leave that communicator for this one. */
    if (atomic_load_explicit(&file->state, memory_order_acquire) != YOKEI_RANK_FAILED)
        peer->watch.failed_ns = 0;
    else if (!peer->watch.failed_ns)
        peer->watch.failed_ns = now;
    if (peer->watch.failed_ns
        && now - YOKE_MAX(peer->watch.failed_ns, op->progress_ns) > FOREIGN_FAILURE_AFTER * MS
        && !(comm->shrunk_from && atomic_load(&file->comm) == comm->shrunk_from))
        return take_over(comm, rank);
    struct yokei_agent_verdict verdict = yokei_flight_agent(file);
    if (verdict.state == YOKEI_AGENT_NONE && peer->flight) {
        if (look_at_proc) peer->watch.suspect_state = (char)proc_verdict(peer);
        verdict.state = (enum yokei_agent_state)peer->watch.suspect_state;
    }
    if (!yokei_agent_gone(verdict.state) && is_silent(comm, peer, file, now))
        verdict.state = YOKEI_AGENT_SILENT;
    const bool gone = yokei_agent_gone(verdict.state);
    if (!gone && verdict.state != YOKEI_AGENT_STOPPED) {
        peer->watch.suspect_ns = 0;
        return false;
    }
    /* Data that a dead rank sent before may still be on its way, and a stopped rank may be continued. */
    if (!peer->watch.suspect_ns) peer->watch.suspect_ns = now;
    const uint64_t quiet_since = YOKE_MAX(peer->watch.suspect_ns, op->progress_ns);
    if (gone) {
        if (now - quiet_since < DEAD_GRACE * MS) return false;
        if (verdict.pid && !verdict.signal && atomic_load(&file->status)) return take_over(comm, rank);
        char how[128] = "died (its process is gone)";
        if (verdict.pid) yokei_agent_verdict_text(&verdict, how, sizeof how);
        return blame_peer(comm, op, YOKE_EDEAD, rank, how);
    }
    if (!yokei_stopped_for_long(&verdict, now - quiet_since, peer->flight != NULL)) return false;
    char how[128] = "was stopped (SIGSTOP or a debugger)";
    if (verdict.pid) yokei_agent_verdict_text(&verdict, how, sizeof how);
    return blame_peer(comm, op, YOKE_EDEAD, rank, how);
}

/* What a rank does, as far as this rank can see. */
struct wait {
    bool inside; /* it is in a call of this communicator, or a thread of it is blocked in another call */
    bool is_elsewhere;  /* that other call is on another communicator */
    int next;           /* the rank of this communicator for which it waits; -1: none */
    const char *excuse; /* the reason why it may stand for timeout_ms, and not only for stall_ms; or NULL */
};

/* The device may have other work first, or may be compiling. */
static const char at_device[] = "it waits for its device";
/* The ranks of that communicator judge the rank for which it waits, which may only be late. */
static const char elsewhere[] = "it waits for a rank of another communicator";

static const struct wait not_inside = { .next = -1 };

/* A wait inside a call for a rank of the job, or for what enum yokei_waits_for says. */
static struct wait wait_for(const yoke_comm *comm, bool is_elsewhere, int world)
{
    struct wait w = { true, is_elsewhere, -1, NULL };
    for (int r = 0; r < comm->size && world >= 0 && w.next < 0; r++)
        if (comm->peers[r].info.world_rank == world) w.next = r;
    if (world == YOKEI_WAITS_FOR_DEVICE) w.excuse = at_device;
    if (world >= 0 && w.next < 0) w.excuse = elsewhere;
    return w;
}

/* The operation of this communicator that a rank of this host has in flight. NULL: none. */
static const struct yokei_flight_entry *in_flight(const yoke_comm *comm, const struct yokei_flight_file *file)
{
    const uint64_t n = atomic_load_explicit(&file->n_operations, memory_order_acquire);
    for (uint64_t back = 1; back <= n && back <= YOKEI_RECENT; back++) {
        const struct yokei_flight_entry *e = &file->entries[(n - back) % YOKEI_FLIGHT_ENTRIES];
        if (atomic_load_explicit(&e->state, memory_order_acquire) == 1 && e->comm == comm->uid) return e;
    }
    return NULL;
}

/* What a rank of this host does, by its record. */
static struct wait wait_here(const yoke_comm *comm, const struct yokei_flight_file *file, bool is_elsewhere)
{
    /* A communicator runs its calls one after another. So a rank with a call in flight makes no other. */
    const struct yokei_flight_entry *e = is_elsewhere ? NULL : in_flight(comm, file);
    if (e) return wait_for(comm, false, atomic_load(&e->waits_for));
    /* Transfers on other communicators may run concurrently with the rank's threads. Then it may still
       call. */
    const bool is_blocked = atomic_load(&file->n_blocked) && atomic_load(&file->state) == YOKEI_RANK_INSIDE;
    return is_blocked ? wait_for(comm, true, atomic_load(&file->waits_for)) : not_inside;
}

/* is_elsewhere: the rank is waited for on another communicator, so calls on this one do not matter. */
static struct wait wait_of(yoke_comm *comm, int rank, bool is_elsewhere, uint64_t now)
{
    const struct yokei_peer *peer = &comm->peers[rank];
    const struct yokei_flight_file *file = yokei_record_of(comm, rank, now);
    if (peer->flight) return wait_here(comm, file, is_elsewhere);
    if (peer->watch.view_ns && now - peer->watch.view_ns <= 4 * PROBE_EVERY * MS) {
        struct wait w = { peer->watch.view_state == YOKEI_RANK_INSIDE, false, -1, NULL };
        if (w.inside) w.next = YOKE_MAX(peer->watch.view_waits_for, -1);
        if (w.inside && peer->watch.view_waits_for == YOKEI_WAITS_FOR_DEVICE) w.excuse = at_device;
        return w;
    }
    /* It does not answer. Its record may be a little old, so it counts only for this very call. */
    if (!file || atomic_load(&file->state) != YOKEI_RANK_INSIDE || atomic_load(&file->comm) != comm->uid
        || atomic_load(&file->sequence) != comm->work.queue->header.sequence)
        return not_inside;
    return wait_for(comm, false, atomic_load(&file->waits_for));
}

/*
 * For how long a rank was seen to make no step and no use of the network. Time in which this rank did not
 * look does not count, because then this rank itself stood still.
 */
static uint64_t stands_for(yoke_comm *comm, int rank, uint64_t now)
{
    struct yokei_peer *peer = &comm->peers[rank];
    const struct yokei_flight_file *file = yokei_record_of(comm, rank, now);
    /* A record of another host and its answers both arrive now and then, so either may be the newer one. */
    const uint64_t place[] = { file ? atomic_load(&file->progress_ns) : 0,
                               file ? atomic_load(&file->sequence) : 0, file ? atomic_load(&file->step) : 0,
                               peer->flight ? 0 : peer->watch.view_moved_ns,
                               peer->flight ? 0 : peer->watch.view_sequence };
    const uint64_t hash = yokei_hash(place, sizeof place, 0), away = now - peer->watch.stand.looked_ns;
    if (hash != peer->watch.stand.place || !peer->watch.stand.looked_ns)
        peer->watch.stand.since_ns = now;
    else if (away > LOOK_COUNTS_FOR * MS)
        peer->watch.stand.since_ns += away - LOOK_COUNTS_FOR * MS;
    peer->watch.stand.place = hash;
    peer->watch.stand.looked_ns = now;
    return now - peer->watch.stand.since_ns;
}

/*
 * Follow the chain of waits to its end. *stands_out is how long no rank of the chain has moved. In a circle
 * the end is the rank for which this rank waits. But if a rank waits on another communicator for this rank,
 * and no thread of this rank is blocked, the end is this rank itself, which may still make that call.
 */
static int chain_end(yoke_comm *comm, int from, uint64_t now, struct wait *wait_out, uint64_t *stands_out)
{
    int at = from;
    struct wait of_from = not_inside;
    bool is_elsewhere = false;
    *stands_out = UINT64_MAX;
    for (int hops = 0; hops < comm->size; hops++) {
        *wait_out = wait_of(comm, at, is_elsewhere, now);
        *stands_out = YOKE_MIN(*stands_out, stands_for(comm, at, now));
        if (at == from) of_from = *wait_out;
        const int next = wait_out->next;
        is_elsewhere |= wait_out->is_elsewhere;
        if (next < 0 || next == at || next >= comm->size) return at;
        if (next == comm->rank && is_elsewhere && !atomic_load(&yokei_process.n_blocked)) {
            *wait_out = not_inside;
            return next;
        }
        if (next == comm->rank && is_elsewhere)
            *stands_out = YOKE_MIN(*stands_out, stands_for(comm, next, now)); /* it may have begun just now */
        if (next == comm->rank) break;
        at = next;
    }
    *wait_out = of_from;
    return from;
}

/*
 * The rank that this rank waits for has already done its part of the call. So its message is lost, or only
 * that rank can push it. It does push while it is inside another call of this communicator. In shared memory
 * there is nothing to push.
 */
static bool judge_lost(yoke_comm *comm, struct yokei_op *op, uint64_t now)
{
    const int rank = op->waits_for;
    if (rank < 0 || !yokei_has_done(comm, rank, op->header.sequence)) {
        op->lost_ns = 0;
        return false;
    }
    /* The rank may have come late, and its messages may still be on their way. */
    if (!op->lost_ns || op->lost_ns < op->progress_ns) op->lost_ns = now;
    const uint64_t idle = now - op->lost_ns;
    const struct yokei_peer *peer = &comm->peers[rank];
    const struct yokei_flight_file *file = peer->flight ? peer->flight : peer->watch.far;
    const bool inside = (file && atomic_load(&file->state) == YOKEI_RANK_INSIDE
                         && atomic_load(&file->comm) == comm->uid)
                        || (!peer->flight && peer->watch.view_state == YOKEI_RANK_INSIDE);
    const bool pushed = inside || peer->beneath == &yokei_shm_transport;
    char what[256], who[192], here[160];
    yokei_text(
        what, sizeof what,
        "has done its part of this call, but rank %d waits for a message between the two since %.1f s (%s %lld)",
        comm->rank, (double)idle * 1e-9, pushed ? "stall_ms" : "timeout_ms",
        (long long)(pushed ? comm->settings.stall_ms : comm->settings.timeout_ms));
    if (idle > (uint64_t)(pushed ? comm->settings.stall_ms : comm->settings.timeout_ms) * MS)
        return blame_peer(comm, op, YOKE_ETIMEOUT, rank, what);
    if (op->warned) return true;
    op->warned = true;
    here_text(comm, op, here, sizeof here);
    rank_text(comm, rank, who, sizeof who);
    yoke_log(YOKE_LOG_WARN, "%s: %s %s", here, who, what);
    return true;
}

/*
 * Nothing has moved for long, and no rank is known to be dead. Find the rank that delays the call, and decide
 * whether that is an error yet.
 */
static void judge_call(yoke_comm *comm, struct yokei_op *op, uint64_t now)
{
    const uint64_t idle = now - op->progress_ns, stall = (uint64_t)comm->settings.stall_ms * MS;
    if (idle < COMPARE_AFTER * MS) return;
    struct wait wait = { true, false, -1, op->waits_for == YOKEI_WAITS_FOR_DEVICE ? at_device : NULL };
    uint64_t seen = 0;
    const int rank = op->waits_for >= 0 ? chain_end(comm, op->waits_for, now, &wait, &seen) : comm->rank;
    if (rank == comm->rank) seen = stands_for(comm, rank, now);
    const uint64_t timeout = (uint64_t)comm->settings.timeout_ms * MS; /* may be shorter than `stall` */
    /* A slow network that carries data delays nobody. This holds until timeout_ms, in which a late rank
       would have to call. */
    const bool carries = op->network_ns && now - op->network_ns < stall && idle < timeout;
    if (idle < YOKE_MIN(stall, timeout) || (!carries && judge_lost(comm, op, now))) return;
    const struct yokei_flight_file *file = yokei_record_of(comm, rank, now);
    char what[256], who[192], here[160], did[600];
    if (wait.inside) {
        if (seen + COMPARE_AFTER * MS < (wait.excuse ? timeout : stall) || carries) return;
        yokei_text(what, sizeof what, "is stuck: no step for %.1f s (%s%s %lld)", (double)seen * 1e-9,
                   wait.excuse ? wait.excuse : "stall_ms", wait.excuse ? "; timeout_ms" : "",
                   (long long)(wait.excuse ? comm->settings.timeout_ms : comm->settings.stall_ms));
        blame_peer(comm, op, YOKE_ETIMEOUT, rank, what);
        return;
    }
    const bool busy = file && atomic_load(&file->state) == YOKEI_RANK_BUSY;
    if (idle > timeout) {
        yokei_text(what, sizeof what, "has not called for %.1f s (timeout_ms %lld)", (double)idle * 1e-9,
                   (long long)comm->settings.timeout_ms);
        blame_peer(comm, op, YOKE_ETIMEOUT, rank, what);
        return;
    }
    if (busy || op->warned || comm->settings.timeout_ms >= YOKE_NO_TIMEOUT) return;
    op->warned = true;
    here_text(comm, op, here, sizeof here);
    rank_text(comm, rank, who, sizeof who);
    peer_did_text(comm, rank, did, sizeof did);
    yoke_log(YOKE_LOG_WARN, "%s: %s is late, waiting for it since %.1f s%s", here, who, (double)idle * 1e-9,
             did);
}

static void record_wait(const yoke_comm *comm, const struct yokei_op *op, uint64_t now)
{
    struct yokei_flight_file *file = yokei_process.flight;
    const int rank = op->waits_for >= 0 ? comm->peers[op->waits_for].info.world_rank : op->waits_for;
    if (yokei_records_wait(comm)) atomic_store_explicit(&file->waits_for, rank, memory_order_relaxed);
    atomic_store_explicit(&file->n_blocked, (uint32_t)atomic_load(&yokei_process.n_blocked),
                          memory_order_relaxed);
    atomic_store_explicit(&file->heartbeat_ns, now, memory_order_relaxed);
    atomic_store_explicit(&file->progress_ns, YOKE_MAX(op->progress_ns, op->network_ns),
                          memory_order_relaxed);
}

/*
 * Look at ranks on other hosts: the rank for which this one waits, and some others in turn. Returns true if
 * the communicator failed.
 */
static bool look_far(yoke_comm *comm, struct yokei_op *op, uint64_t now)
{
    const uint64_t idle = now - op->progress_ns;
    if (!yokei_process.run_dir[0] || comm->all_shared) return false;
    if (op->waits_for >= 0 && !comm->peers[op->waits_for].flight
        && look_at_peer(comm, op, op->waits_for, false, now))
        return true;
    if (now - comm->watch.far_ns > FAR_EVERY * MS) {
        comm->watch.far_ns = now;
        for (int i = 0; i < FAR_AT_ONCE; i++) {
            const int rank = yokei_next_far(comm);
            if (rank >= 0 && look_at_peer(comm, op, rank, false, now)) return true;
        }
    }
    if (idle > PUBLISH_AFTER * MS && now - comm->watch.published_ns > PUBLISH_EVERY * MS) {
        comm->watch.published_ns = now;
        yokei_flight_publish(yokei_process.flight);
    }
    return false;
}

void yokei_watch(yoke_comm *comm)
{
    struct yokei_op *op = comm->work.queue;
    const uint64_t now = yokei_now_ns();
    if (!op->begun || now - comm->watch.watched_ns < WATCH_EVERY * MS) return;
    /* This rank itself may have been stopped, together with others. So their state counts only from now
       on. */
    for (int r = 0; r < comm->size && now - comm->watch.watched_ns > AWAY * MS; r++)
        comm->peers[r].watch.suspect_ns = comm->peers[r].watch.failed_ns = 0;
    comm->watch.watched_ns = now;
    if (op->moved) op->progress_ns = now;
    op->moved = false;
    record_wait(comm, op, now);
    yokei_receive_reports(comm);
    if (atomic_load(&comm->failure.error)) return;
    const uint64_t idle = now - op->progress_ns;
    const bool look_at_proc = idle > PROC_AFTER * MS && now - comm->watch.proc_ns > PROC_EVERY * MS;
    if (look_at_proc) comm->watch.proc_ns = now;
    for (int r = 0; r < comm->size; r++)
        if (r != comm->rank && comm->peers[r].flight && look_at_peer(comm, op, r, look_at_proc, now)) return;
    for (int r = 0; r < comm->size && idle > COMPARE_AFTER * MS; r++)
        if (r != comm->rank && comm->peers[r].flight && yokei_check_record(comm, r)) return;
    if (idle > FAR_AFTER * MS && look_far(comm, op, now)) return;
    if (idle > NETWORK_AFTER * MS && !comm->all_shared && now - comm->watch.network_ns > NETWORK_AFTER * MS) {
        comm->watch.network_ns = now;
        if (yokei_network_moved(comm)) op->network_ns = now;
    }
    if (idle > PROBE_AFTER * MS && (!op->probed_ns || now - op->probed_ns > PROBE_EVERY * MS))
        yokei_probe(comm, op, now);
    if (comm->mpi.broken_ns && now - comm->mpi.broken_ns > BROKEN_GRACE * MS) {
        yokei_comm_fail(comm, YOKE_EBACKEND, -1, "communicator \"%s\": %s", comm->name,
                        comm->mpi.broken_text);
        return;
    }
    judge_call(comm, op, now);
}
