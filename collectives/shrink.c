/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Going on without ranks that failed. MPI is of no use then, so the ranks that are left agree through the shared memory of the
 * old communicator, which is there as long as anybody has it mapped:
 *   1. Each writes down whom it would leave out, and how its part of the new communicator is to be found.
 *   2. Each joins to its own what the others wrote, and who was found dead meanwhile. Who sees that all it would not leave out
 *      have come, proposes: it puts its number into one word, if that is still free (compare and swap).
 *   3. All do what the word's owner wrote. It cannot change: who is chosen writes no more. That the owner may have died since, or
 *      another of the chosen, does not matter: all have agreed on the same ranks, and find the dead one in the new communicator.
 */
#include <string.h>

#include "collectives/internal.h"

static bool is_out(const struct yokei_shrink_post *post, int r)
{
    return atomic_load_explicit(&post->without[r / 64], memory_order_relaxed) >> (r % 64) & 1;
}

static void leave_out(struct yokei_shrink_post *post, int r) { atomic_fetch_or(&post->without[r / 64], (uint64_t)1 << (r % 64)); }

static bool has_come(const yoke_comm *comm, int r, uint32_t number)
{
    return atomic_load_explicit(&yokei_shm_shrink_at(comm, r, number)->number, memory_order_acquire) == number;
}

/* Whom this rank would leave out from the start. */
static void begin_post(const yoke_comm *comm, struct yokei_shrink_post *post, const int without[], int n_without)
{
    const yoke_status error = (yoke_status)atomic_load(&comm->error);
    for (size_t i = 0; i < YOKE_COUNT(post->without); i++) atomic_store(&post->without[i], 0);
    for (int i = 0; i < n_without; i++) leave_out(post, without[i]);
    for (int r = 0; r < comm->size; r++)
        if ((error == YOKE_EDEAD || error == YOKE_ETIMEOUT) && r != comm->rank && comm->peers[r].info.world_rank == comm->culprit)
            leave_out(post, r);
}

/* Learn from the others and from the kernel; the first rank that is awaited still, -1: all have come. */
static int gather_words(const yoke_comm *comm, struct yokei_shrink_post *post, uint32_t number, bool look_at_proc)
{
    for (int r = 0; r < comm->size; r++) {
        if (r == comm->rank) continue;
        if (!is_out(post, r) && look_at_proc && yokei_is_gone(&comm->peers[r])) leave_out(post, r);
        if (is_out(post, r) || !has_come(comm, r, number)) continue;
        const struct yokei_shrink_post *other = yokei_shm_shrink_at(comm, r, number);
        for (size_t i = 0; i < YOKE_COUNT(post->without); i++) atomic_fetch_or(&post->without[i], atomic_load(&other->without[i]));
    }
    for (int r = 0; r < comm->size; r++)
        if (r != comm->rank && !is_out(post, r) && !has_come(comm, r, number)) return r;
    return -1;
}

/* The rank whose word counts, or an error. No lock is held: nothing here changes but this rank's own word. */
static yoke_status decide(const yoke_comm *comm, struct yokei_shrink_post *post, uint32_t number, int *winner_out)
{
    static const uint64_t LOOK_EVERY_NS = 5000000;
    _Atomic uint64_t *word = yokei_shm_decision_at(comm);
    const uint64_t begin = yokei_now_ns();
    uint64_t looked = 0;
    struct yokei_wait wait;
    yokei_wait_init(&wait, YOKEI_WAIT_SLEEP, 1, 1);
    for (;;) {
        uint64_t seen = atomic_load(word);
        if (seen >> 32 == number) {
            *winner_out = (int)(uint32_t)seen - 1;
            return YOKE_OK;
        }
        const uint64_t now = yokei_now_ns();
        const bool look = now - looked > LOOK_EVERY_NS;
        const int awaited = gather_words(comm, post, number, look);
        if (look) looked = now;
        if (awaited < 0 && !is_out(post, comm->rank)) {
            atomic_compare_exchange_strong(word, &seen, (uint64_t)number << 32 | (uint32_t)(comm->rank + 1));
            continue;
        }
        if (now - begin > (uint64_t)comm->timeout_ms * 1000000)
            return yoke_fail(YOKE_ETIMEOUT, "rank %d (host %s, pid %d) of communicator \"%s\" lives and has not called for %.1f s (timeout_ms %lld)",
                             YOKE_MAX(awaited, 0), comm->peers[YOKE_MAX(awaited, 0)].info.host, comm->peers[YOKE_MAX(awaited, 0)].info.pid,
                             comm->name, (double)(now - begin) * 1e-9, (long long)comm->timeout_ms);
        yokei_wait_idle(&wait);
    }
}

/* The new communicator's members are known: fill it in as its creation would have. The lock is held. */
static yoke_status fill_in(yoke_comm *comm, const yoke_comm *old, uint32_t number, int winner)
{
    const struct yokei_shrink_post *word = yokei_shm_shrink_at(old, winner, number);
    comm->size = 0;
    for (int r = 0; r < old->size; r++) {
        if (is_out(word, r)) continue;
        if (r == old->rank) comm->rank = comm->size;
        comm->peers[comm->size].info = yokei_shm_shrink_at(old, r, number)->info;
        comm->set_rank[comm->size++] = old->set_rank[r];
    }
    YOKE_TRY(yokei_agree(comm));
    yokei_hosts_one(comm);
    return YOKE_OK;
}

/* Map the others' parts. Who is gone already fails the new communicator, and not this call: the others may have come past here. */
static void map_members(yoke_comm *comm)
{
    int gone = -1;
    for (int r = 0; r < comm->size; r++) {
        struct yokei_peer *peer = &comm->peers[r];
        peer->transport = peer->beneath = &yokei_shm_transport;
        yokei_map_record(comm, r);
        if (r != comm->rank && (!peer->flight || !yokei_shm_map(comm, r)) && gone < 0) gone = r;
    }
    yokei_count_host(comm);
    if (gone >= 0)
        yokei_comm_fail(comm, YOKE_EDEAD, comm->peers[gone].info.world_rank,
                        "communicator \"%s\": rank %d (rank %d of the job, host %s, pid %d) died while the communicator was made", comm->name, gone,
                        comm->peers[gone].info.world_rank, comm->peers[gone].info.host, comm->peers[gone].info.pid);
}

/* The rank goes on: its record is no failed one's any more. */
static void record(const yoke_comm *old)
{
    struct yokei_flight_file *file = yokei_process.flight;
    if (atomic_load(&file->state) == YOKEI_RANK_FAILED && atomic_load(&file->comm) == old->uid) {
        atomic_store(&file->status, YOKE_OK);
        atomic_store_explicit(&file->state, YOKEI_RANK_OUTSIDE, memory_order_release);
    }
    atomic_fetch_add(&file->n_shrinks, 1);
}

static yoke_status check(const yoke_comm *comm, const int without[], int n_without)
{
    if (n_without < 0 || (n_without && !without)) return yoke_fail(YOKE_EINVAL, "%d ranks to leave out, and no list of them", n_without);
    for (int i = 0; i < n_without; i++) {
        if (without[i] < 0 || without[i] >= comm->size)
            return yoke_fail(YOKE_EINVAL, "rank %d is not in communicator \"%s\" of %d ranks", without[i], comm->name, comm->size);
        if (without[i] == comm->rank) return yoke_fail(YOKE_EINVAL, "rank %d cannot leave itself out: it need not call", comm->rank);
    }
    if (comm->size > 1 && !comm->all_shared)
        return yoke_fail(YOKE_EUNSUPPORTED, "not all ranks of communicator \"%s\" share memory; start the job again without the failed rank, from its "
                         "last checkpoint", comm->name);
    if (comm->size > YOKEI_MOST_SHRUNK)
        return yoke_fail(YOKE_EUNSUPPORTED, "communicator \"%s\" has %d ranks, more than %d", comm->name, comm->size, YOKEI_MOST_SHRUNK);
    return YOKE_OK;
}

/* The lock is held, but for the wait. */
static yoke_status shrink(yoke_comm *old, const int without[], int n_without, yoke_comm *comm, yoke_status status)
{
    comm->set = old->set;
    comm->set->n_comms++;
    const uint32_t number = ++old->n_shrinks;
    int winner = 0;
    if (old->size == 1) {
        yokei_describe_self(comm, &comm->peers[0].info, status);
        YOKE_TRY(status);
        comm->set_rank[0] = old->set_rank[0];
        YOKE_TRY(yokei_agree(comm));
    } else {
        struct yokei_shrink_post *post = yokei_shm_shrink_at(old, old->rank, number);
        if (!comm->segment && !status) status = yoke_fail(YOKE_ENOMEM, "no shared memory for the new communicator");
        begin_post(old, post, without, n_without);
        yokei_describe_self(comm, &post->info, status);
        atomic_store_explicit(&post->number, number, memory_order_release);
        pthread_mutex_unlock(&yokei_process.lock);
        status = decide(old, post, number, &winner);
        pthread_mutex_lock(&yokei_process.lock);
        YOKE_TRY(status);
        if (is_out(yokei_shm_shrink_at(old, winner, number), old->rank))
            return yoke_fail(YOKE_EDEAD, "the others went on without this rank (%d): they found it dead, stopped, stuck or late, or were told to", old->rank);
        YOKE_TRY(fill_in(comm, old, number, winner));
    }
    map_members(comm);
    return YOKE_OK;
}

yoke_status yoke_comm_shrink(yoke_comm *comm, const int without[], int n_without, yoke_comm **comm_out)
{
    static const char call[] = "yoke_comm_shrink";
    if (!comm || !comm_out) return yoke_fail(YOKE_EINVAL, "%s: a NULL argument", call);
    *comm_out = NULL;
    yoke_status status = check(comm, without, n_without);
    if (status) return yoke_fail_context(status, "%s", call);
    yoke_comm_busy(comm, "shrinking a communicator");
    pthread_mutex_lock(&yokei_process.lock);
    const struct yoke_comm_config config = yokei_comm_config(comm, comm->name);
    yoke_comm *shrunk = NULL;
    status = yokei_comm_new(comm->rank, comm->size, comm->device, &config, &shrunk);
    if (shrunk) {
        /* Before it is entered: what fails in it from here on is its own. */
        status = shrink(comm, without, n_without, shrunk, status);
        if (!status) yokei_costs_inherit(shrunk, comm);
        if (!status) yokei_inject_wrap(shrunk);
        if (!status) record(comm);
        status = yokei_comm_enter(shrunk, status, comm_out);
        if (!status) yokei_comm_record(shrunk);
    }
    pthread_mutex_unlock(&yokei_process.lock);
    return status ? yoke_fail_context(status, "%s", call) : YOKE_OK;
}
