/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The call check. Every message carries the header of the call that it belongs to, so a rank compares the
 * calls before it uses the data. Each header carries a hash of all calls before it. So a difference in a call
 * that exchanged no message between two ranks is found at their next message.
 */
#include <stdio.h>
#include <string.h>

#include "collectives/faults/call_check.h"
#include "collectives/transport/shm.h"

#define HEADER_MAGIC 0x594b4831u /* "YKH1" */

static const struct yokei_header *recent(const yoke_comm *comm, uint32_t sequence)
{
    const struct yokei_header *header = &comm->calls.recent[sequence % YOKEI_RECENT];
    return sequence && header->sequence == sequence ? header : NULL;
}

void yokei_header_begin(yoke_comm *comm, struct yokei_op *op, unsigned algorithm)
{
    const struct yokei_header *last = recent(comm, comm->calls.sequence);
    struct yokei_header *h = &op->header;
    *h = (struct yokei_header){
        .magic = HEADER_MAGIC,
        .comm = comm->uid,
        .sequence = ++comm->calls.sequence,
        .kind = (uint8_t)op->kind,
        .dtype = (uint8_t)op->dtype,
        .reduction = (uint8_t)op->reduction,
        .algorithm = (uint8_t)algorithm,
        .root = op->root,
        .count = op->count,
        .history = comm->calls.history,
    };
    /* In all_to_all_v each rank has its own counts for the others, so the messages carry the counts of
       pairs. */
    if (op->slices && op->send_slices == op->slices)
        h->counts_hash = yokei_hash32(op->slices, ((size_t)comm->size + 1) * sizeof op->slices[0], 0);
    for (int i = 0; i < op->n_parts; i++)
        h->counts_hash = yokei_hash32(&op->parts[i].count, sizeof op->parts[i].count, h->counts_hash);
    if (last) {
        h->last_count = last->count;
        h->last_root = last->root;
        h->last_kind = last->kind;
        h->last_dtype = last->dtype;
        h->last_reduction = last->reduction;
        h->last_algorithm = last->algorithm;
    }
    comm->calls.recent[h->sequence % YOKEI_RECENT] = *h;
    comm->calls.history = yokei_hash32(h, offsetof(struct yokei_header, last_root), comm->calls.history);
}

void yokei_header_transfer(yoke_comm *comm, struct yokei_transfer *transfer, uint32_t sequence)
{
    /* Both ends write the same header. Sends and receives are not part of the history, because not all
       ranks call them. */
    transfer->header = (struct yokei_header){
        .magic = HEADER_MAGIC,
        .comm = comm->uid,
        .sequence = sequence,
        .kind = YOKEI_SEND,
        .dtype = (uint8_t)transfer->dtype,
        .algorithm = YOKEI_PAIRS,
        .root = -1,
        .count = transfer->count,
    };
}

/* "all_reduce #3 (64 f32, sum)" */
static void call_text(const struct yokei_header *h, char *text, size_t bytes)
{
    char what[64] = "", root[32] = "";
    if (yokei_kind_reduces(h->kind))
        yokei_text(what, sizeof what, ", %s", yoke_reduction_name((yoke_reduction)h->reduction));
    if (h->root >= 0) yokei_text(root, sizeof root, ", root %d", h->root);
    if (h->kind == YOKEI_BARRIER || h->kind == YOKEI_DESTROY)
        yokei_text(text, bytes, "%s #%u", yokei_kind_name(h->kind), h->sequence);
    else
        yokei_text(text, bytes, "%s #%u (%llu %s%s%s)", yokei_kind_name(h->kind), h->sequence,
                   (unsigned long long)h->count, yoke_dtype_name((yoke_dtype)h->dtype), what, root);
}

/* ---- whether a message is whole, and the next one ---- */

/* The receiver is part of the sum. So a message that comes to another rank is found there. */
static uint32_t sum_of(const yoke_comm *comm, const struct yokei_header *header, int to)
{
    const uint32_t sum = yokei_hash32(header, offsetof(struct yokei_header, sum),
                                      HEADER_MAGIC + (uint32_t)to);
    return comm->settings.check == YOKE_CHECK_FULL ? yokei_hash32(header + 1, header->bytes, sum) : sum;
}

/* The rank to which this message was sent; -1: none, because the message is damaged. */
static int receiver_of(const yoke_comm *comm, const struct yokei_header *header)
{
    for (int r = 0; r < comm->size; r++)
        if (sum_of(comm, header, r) == header->sum) return r;
    return -1;
}

void yokei_seal(yoke_comm *comm, struct yokei_lane *lane, int to, struct yokei_header *header)
{
    header->number = ++comm->peers[to].sent[lane->id];
    if (comm->settings.check != YOKE_CHECK_OFF) header->sum = sum_of(comm, header, to);
}

yoke_status yokei_check_seal(yoke_comm *comm, struct yokei_lane *lane, int from,
                             const struct yokei_header *here, const struct yokei_header *there, size_t bytes)
{
    struct yokei_peer *peer = &comm->peers[from];
    if (comm->settings.check == YOKE_CHECK_OFF) return YOKE_OK;
    const uint32_t expected = peer->received[lane->id] + 1;
    const bool complete = bytes >= sizeof *there && bytes - sizeof *there == there->bytes;
    const bool whole = complete && sum_of(comm, there, comm->rank) == there->sum;
    if (whole && there->number == expected) {
        peer->received[lane->id] = expected;
        return YOKE_OK;
    }
    char call[128], what[96];
    call_text(here, call, sizeof call);
    const int meant_for = whole || !complete ? -1 : receiver_of(comm, there);
    if (meant_for >= 0)
        yokei_text(what, sizeof what, "was meant for rank %d", meant_for);
    else if (!whole)
        yokei_text(what, sizeof what, "was damaged on its way");
    else if ((int32_t)(there->number - expected) < 0)
        yokei_text(what, sizeof what, "arrived twice (number %u after %u)", there->number, expected - 1);
    else
        yokei_text(what, sizeof what, "came without the one before it (number %u after %u)", there->number,
                   expected - 1);
    return yokei_comm_fail(
        comm, YOKE_EDATA, peer->info.world_rank,
        "communicator \"%s\": %s: a message of %zu bytes from rank %d (host %s) to rank %d (host %s) %s; memory or network "
        "can not be trusted",
        comm->name, call, bytes, from, peer->info.host, comm->rank, comm->peers[comm->rank].info.host, what);
}

/* ---- whether the calls match ---- */

static void last_call(const struct yokei_header *h, struct yokei_header *last)
{
    *last = (struct yokei_header){ .sequence = h->sequence - 1,
                                   .kind = h->last_kind,
                                   .dtype = h->last_dtype,
                                   .reduction = h->last_reduction,
                                   .root = h->last_root,
                                   .count = h->last_count };
}

/* Name the field that differs, for the error text. */
static const char *difference(const struct yokei_header *a, const struct yokei_header *b)
{
    if (a->sequence != b->sequence) return "order";
    if (a->kind != b->kind) return "collective";
    if (a->dtype != b->dtype) return "type";
    if (a->count != b->count) return "count";
    if (a->reduction != b->reduction) return "reduction";
    if (a->root != b->root) return "root";
    if (a->counts_hash != b->counts_hash)
        return a->kind == YOKEI_ALL_REDUCE ? "counts of the group's calls" : "counts per rank";
    return "algorithm";
}

static yoke_status mismatch(yoke_comm *comm, int other, const struct yokei_header *here,
                            const struct yokei_header *there)
{
    char ours[128], theirs[128];
    struct yokei_header before_here, before_there;
    const char *when = "";
    if (here->sequence == there->sequence && here->history != there->history && here->kind == there->kind
        && here->dtype == there->dtype && here->count == there->count && here->root == there->root) {
        last_call(here, &before_here);
        last_call(there, &before_there);
        here = &before_here;
        there = &before_there;
        when = ", seen at the call after it";
    }
    call_text(here, ours, sizeof ours);
    call_text(there, theirs, sizeof theirs);
    /* Name the lower rank first, so that every rank that finds the mismatch prints the same text. */
    const bool first = comm->rank < other;
    return yokei_comm_fail(
        comm, YOKE_EMISMATCH, comm->peers[other].info.world_rank,
        "communicator \"%s\": calls do not match (%s): rank %d called %s, rank %d called %s%s; every "
        "rank must issue the same collectives with the same arguments in the same order",
        comm->name, difference(here, there), first ? comm->rank : other, first ? ours : theirs,
        first ? other : comm->rank, first ? theirs : ours, when);
}

yoke_status yokei_check(yoke_comm *comm, int from, const struct yokei_header *here,
                        const struct yokei_header *there)
{
    if (!memcmp(here, there, offsetof(struct yokei_header, number))) return YOKE_OK;
    if (there->magic != HEADER_MAGIC)
        return yokei_comm_fail(
            comm, YOKE_EMISMATCH, comm->peers[from].info.world_rank,
            "communicator \"%s\": rank %d sent a message that is none of this version of Yoke's", comm->name,
            from);
    return comm->settings.check == YOKE_CHECK_OFF ? YOKE_OK : mismatch(comm, from, here, there);
}

yoke_status yokei_check_probe(yoke_comm *comm, int from, const struct yokei_header *there)
{
    const struct yokei_header *here = recent(comm, there->sequence);
    return here && there->kind != YOKEI_SEND && there->comm == comm->uid
               ? yokei_check(comm, from, here, there)
               : YOKE_OK;
}

/*
 * The record's entry of call `sequence` of the communicator, as a header. False: the entry is not there, or
 * not any more.
 */
static bool recorded_call(const yoke_comm *comm, const struct yokei_flight_file *file, uint32_t sequence,
                          struct yokei_header *out)
{
    const uint64_t n = atomic_load_explicit(&file->n_operations, memory_order_acquire);
    for (uint64_t back = 1; back <= n && back <= YOKEI_RECENT; back++) {
        const struct yokei_flight_entry *entry = &file->entries[(n - back) % YOKEI_FLIGHT_ENTRIES];
        const struct yokei_flight_entry e = *entry;
        if (e.comm != comm->uid || e.sequence != sequence || e.algorithm == YOKEI_PAIRS) continue;
        *out = (struct yokei_header){ .magic = HEADER_MAGIC,
                                      .comm = e.comm,
                                      .sequence = e.sequence,
                                      .kind = e.kind,
                                      .dtype = e.dtype,
                                      .reduction = e.reduction,
                                      .algorithm = e.algorithm,
                                      .root = e.root,
                                      .counts_hash = e.counts_hash,
                                      .count = e.count,
                                      .history = e.hash };
        return atomic_load_explicit(&entry->state, memory_order_acquire) != 0;
    }
    return false;
}

bool yokei_has_done(const yoke_comm *comm, int other, uint32_t sequence)
{
    const struct yokei_peer *peer = &comm->peers[other];
    if (!sequence) return false;
    if (!peer->flight) {
        /* Use the rank's answer or its record, because there is no answer if the link is cut. */
        const struct yokei_flight_file *far = peer->watch.far;
        const bool ours = far && atomic_load(&far->comm) == comm->uid && atomic_load(&far->kind) != YOKEI_SEND
                          && atomic_load(&far->kind) != YOKEI_RECV;
        const int32_t ahead = (int32_t)(peer->watch.view_sequence - sequence),
                      written = ours ? (int32_t)(atomic_load(&far->sequence) - sequence) : -1;
        return (peer->watch.view_ns && peer->watch.view_sequence
                && (ahead > 0 || (!ahead && peer->watch.view_state == YOKEI_RANK_OUTSIDE)))
               || written > 0 || (!written && atomic_load(&far->state) == YOKEI_RANK_OUTSIDE);
    }
    const uint64_t n = atomic_load_explicit(&peer->flight->n_operations, memory_order_acquire);
    for (uint64_t back = 1; back <= n && back <= YOKEI_RECENT; back++) {
        const struct yokei_flight_entry *e = &peer->flight->entries[(n - back) % YOKEI_FLIGHT_ENTRIES];
        const uint32_t state = atomic_load_explicit(&e->state, memory_order_acquire);
        if (!state || e->comm != comm->uid || e->algorithm == YOKEI_PAIRS) continue;
        const int32_t ahead = (int32_t)(e->sequence - sequence);
        return ahead > 0 || (!ahead && state == 2); /* only the state of the newest call is known */
    }
    return false;
}

yoke_status yokei_check_record(yoke_comm *comm, int other)
{
    const struct yokei_flight_file *file = comm->peers[other].flight;
    if (comm->settings.check == YOKE_CHECK_OFF) return YOKE_OK;
    const uint32_t newest = comm->calls.sequence;
    for (uint32_t s = newest > YOKEI_RECENT / 2 ? newest - YOKEI_RECENT / 2 : 1; s <= newest; s++) {
        const struct yokei_header *here = recent(comm, s);
        struct yokei_header there;
        if (here && recorded_call(comm, file, s, &there)
            && memcmp(here, &there, offsetof(struct yokei_header, history)))
            return mismatch(comm, other, here, &there);
    }
    return YOKE_OK;
}

yoke_status yokei_check_post(yoke_comm *comm, const struct yokei_op *op, int other)
{
    const struct yokei_post *post = yokei_shm_post_at(comm, other, op->number);
    if (post->history == op->history || comm->settings.check == YOKE_CHECK_OFF) return YOKE_OK;
    return yokei_check(comm, other, &op->header, &post->header);
}
