/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Going on without failed ranks (yoke_comm_shrink). MPI does not say which ranks are left, so these ranks
 * agree without MPI:
 *   1. Each rank writes a post: which ranks it would leave out, and how the other ranks find its part of the
 *      new communicator.
 *   2. Each rank joins the other ranks' lists to its own, and adds ranks that were found dead meanwhile. A
 *      rank that sees the posts of all ranks that it would not leave out makes a proposal. The first proposal
 *      is the decision.
 *   3. All ranks do what the decision says. It cannot change. It does not matter if the proposing rank or
 *      another chosen rank has died since. All have agreed on the same ranks, and find the dead one in the
 *      new communicator.
 * No leader is needed, and no particular rank is needed to decide, because any living rank may propose.
 *
 * If all ranks share memory, the posts lie in the old communicator's segments, which exist as long as any
 * process has them mapped. The proposal is a compare-and-swap of one word. Otherwise the posts are files in
 * the run directory (shrink_files.c).
 */
#include <string.h>
#include <time.h>

#include "collectives/choice/costs.h"
#include "collectives/choice/shares.h"
#include "collectives/engine/engine.h"
#include "collectives/faults/verdict.h"
#include "collectives/making/making.h"
#include "collectives/making/shrink_files.h"
#include "collectives/transport/inject.h"
#include "collectives/transport/shm.h"
#include "collectives/transport/transport.h"

struct ranks {
    uint64_t bits[YOKEI_MOST_SHRUNK / 64];
};

/* A call of yoke_comm_shrink. */
struct agreement {
    yoke_comm *comm; /* the old communicator */
    uint32_t number; /* number among its calls of yoke_comm_shrink */
    /* [size] copies of the posts in files; NULL: the posts lie in shared memory */
    struct yokei_shrink_post *copies;
    bool is_in_files; /* the posts lie in files */
    bool any_gone;    /* this rank has seen that a rank is gone */
    int winner;
};

static bool has(const struct ranks *set, int r) { return set->bits[r / 64] >> (r % 64) & 1; }
static void add_rank(struct ranks *set, int r) { set->bits[r / 64] |= (uint64_t)1 << (r % 64); }

static struct yokei_shrink_post *post_at(const struct agreement *a, int r)
{
    return a->copies ? &a->copies[r] : yokei_shm_shrink_at(a->comm, r, a->number);
}

static bool is_out(const struct yokei_shrink_post *post, int r)
{
    return atomic_load_explicit(&post->without[r / 64], memory_order_relaxed) >> (r % 64) & 1;
}

static void leave_out(struct yokei_shrink_post *post, int r)
{
    atomic_fetch_or(&post->without[r / 64], (uint64_t)1 << (r % 64));
}

static bool has_come(const struct agreement *a, int r)
{
    struct yokei_shrink_post *post = post_at(a, r);
    if (atomic_load_explicit(&post->number, memory_order_acquire) == a->number) return true;
    return a->copies && yokei_shrink_read(a->comm, r, a->number, post);
}

/*
 * Write this rank's post. shrunk is NULL if this rank could not make its part of the new communicator
 * (`status`). The lock is held.
 */
static yoke_status write_post(struct agreement *a, const int without[], int n_without, yoke_comm *shrunk,
                              yoke_status status)
{
    const yoke_comm *comm = a->comm;
    struct yokei_shrink_post own = { 0 }; /* this rank may have no memory for copies of all posts */
    struct yokei_shrink_post *post = a->is_in_files && !a->copies ? &own : post_at(a, comm->rank);
    const yoke_status error = (yoke_status)atomic_load(&comm->failure.error);
    for (size_t i = 0; i < YOKE_COUNT(post->without); i++) atomic_store(&post->without[i], 0);
    for (int i = 0; i < n_without; i++) leave_out(post, without[i]);
    post->accused = -1;
    for (int r = 0; r < comm->size; r++)
        if ((error == YOKE_EDEAD || error == YOKE_ETIMEOUT) && r != comm->rank
            && comm->peers[r].info.world_rank == comm->failure.culprit)
            post->accused = r;
    yokei_describe_self(shrunk, &post->info, status);
    atomic_store_explicit(&post->number, a->number, memory_order_release);
    return a->is_in_files ? yokei_shrink_write(comm, post) : YOKE_OK;
}

static void look_who_is_gone(struct agreement *a)
{
    for (int r = 0; r < a->comm->size; r++) {
        if (r == a->comm->rank || !yokei_is_lost(a->comm, r)) continue;
        leave_out(post_at(a, a->comm->rank), r);
        a->any_gone = true;
    }
}

/*
 * Whether living ranks of the hosts of `from` and `to` accuse each other. Then the link between the two hosts
 * is broken.
 */
static bool is_link(const struct agreement *a, int from, int to)
{
    const struct yokei_hosts *h = &a->comm->hosts;
    if (!h->n || h->of[from] == h->of[to]) return false;
    for (int r = 0; r < a->comm->size; r++) {
        const int accused = h->of[r] == h->of[to] && has_come(a, r) ? post_at(a, r)->accused : -1;
        if (accused >= 0 && accused < a->comm->size && h->of[accused] == h->of[from]) return true;
    }
    return false;
}

/*
 * The consequence of rank r's accusation. An accused rank that has not come is left out.
 * An accused rank that has come was wrongly called stuck, if another rank is gone for which it had to wait.
 * If no rank is gone, the accusation must be true, or the next communicator would fail like this one. If a
 * link between hosts is broken, the side of the lower rank stays.
 */
static void judge_accused(const struct agreement *a, int r, struct ranks *out)
{
    const int accused = post_at(a, r)->accused;
    if (accused < 0 || accused >= a->comm->size || accused == r) return;
    if (has_come(a, accused) && a->any_gone) return;
    add_rank(out, accused);
    const bool link = has_come(a, accused) && is_link(a, r, accused);
    for (int other = 0; other < a->comm->size && link; other++)
        if (a->comm->hosts.of[other] == a->comm->hosts.of[accused]) add_rank(out, other);
}

/*
 * Collect the ranks that all posts would leave out. Returns the first rank that is still awaited; -1: all
 * have come. The post of a rank that is left out does not count.
 */
static int gather_posts(const struct agreement *a, struct ranks *out)
{
    const yoke_comm *comm = a->comm;
    memset(out, 0, sizeof *out);
    for (int turn = 0; turn < 2; turn++) /* first the ranks that are gone, then the accused ranks */
        for (int r = 0; r < comm->size; r++) {
            if (has(out, r) || !has_come(a, r)) continue;
            const struct yokei_shrink_post *post = post_at(a, r);
            for (size_t i = 0; i < YOKE_COUNT(out->bits) && !turn; i++)
                out->bits[i] |= atomic_load(&post->without[i]);
            if (turn) judge_accused(a, r, out);
        }
    for (int r = 0; r < comm->size; r++)
        if (!has(out, r) && !has_come(a, r)) return r;
    return -1;
}

/* Propose to leave out these ranks. From here on this rank's post is for the readers of the decision. */
static yoke_status propose(const struct agreement *a, const struct ranks *out)
{
    for (int r = 0; r < a->comm->size; r++)
        if (has(out, r)) leave_out(post_at(a, a->comm->rank), r);
    if (a->copies) return yokei_shrink_propose(a->comm, a->number, a->copies);
    _Atomic uint64_t *word = yokei_shm_decision_at(a->comm);
    uint64_t seen = atomic_load(word);
    if (seen >> 32 != a->number)
        atomic_compare_exchange_strong(word, &seen,
                                       (uint64_t)a->number << 32 | (uint32_t)(a->comm->rank + 1));
    return YOKE_OK;
}

static bool is_decided(struct agreement *a)
{
    if (a->copies) return yokei_shrink_decided(a->comm, a->number, a->copies, &a->winner);
    const uint64_t seen = atomic_load(yokei_shm_decision_at(a->comm));
    a->winner = (int)(uint32_t)seen - 1;
    return seen >> 32 == a->number;
}

static yoke_status shrink_too_late(const struct agreement *a, int awaited, uint64_t waited_ns)
{
    const struct yokei_peer_info *info = &a->comm->peers[YOKE_MAX(awaited, 0)].info;
    return yoke_fail(
        YOKE_ETIMEOUT,
        "rank %d (host %s, pid %d) of communicator \"%s\" lives and has not called for %.1f s (timeout_ms %lld)",
        YOKE_MAX(awaited, 0), info->host, info->pid, a->comm->name, (double)waited_ns * 1e-9,
        (long long)a->comm->settings.timeout_ms);
}

/* Look once. The lock is held if ranks of other hosts are looked at, because their records are read again. */
static yoke_status look_once(struct agreement *a, bool at_processes, int *awaited_out)
{
    struct ranks out;
    if (a->copies) pthread_mutex_lock(&yokei_process.lock);
    if (at_processes) look_who_is_gone(a);
    *awaited_out = gather_posts(a, &out);
    const yoke_status status = *awaited_out < 0 && at_processes && !has(&out, a->comm->rank)
                                   ? propose(a, &out)
                                   : YOKE_OK;
    if (a->copies) pthread_mutex_unlock(&yokei_process.lock);
    return status;
}

/* Work until there is a decision or an error. */
static yoke_status wait_for_decision(struct agreement *a)
{
    static const uint64_t LOOK_EVERY_NS = 5000000;
    const uint64_t begin = yokei_now_ns();
    uint64_t looked = 0;
    struct yokei_wait wait;
    yokei_wait_init(&wait, YOKEI_WAIT_SLEEP, 1, 1);
    while (!is_decided(a)) {
        const uint64_t now = yokei_now_ns();
        const bool at_processes = now - looked > LOOK_EVERY_NS;
        int awaited = -1;
        YOKE_TRY(look_once(a, at_processes, &awaited));
        if (at_processes) looked = now;
        if (now - begin > (uint64_t)a->comm->settings.timeout_ms * 1000000)
            return shrink_too_late(a, awaited, now - begin);
        yokei_wait_idle(&wait);
        if (a->copies)
            nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL); /* each look asks the file server */
    }
    return YOKE_OK;
}

/*
 * The new communicator's members are known. Fill it in as its creation would have done. old_rank[r] is the
 * old rank of the new rank r. The lock is held.
 */
static yoke_status fill_in(yoke_comm *comm, const struct agreement *a, int old_rank[])
{
    const yoke_comm *old = a->comm;
    comm->size = 0;
    for (int r = 0; r < old->size; r++) {
        if (is_out(post_at(a, a->winner), r)) continue;
        if (r == old->rank) comm->rank = comm->size;
        comm->peers[comm->size].info = post_at(a, r)->info;
        old_rank[comm->size] = r;
        comm->set_rank[comm->size++] = old->set_rank[r];
    }
    return yokei_agree(comm);
}

/* Ranks that shared memory share memory again. `sees` is room for [size size]. */
static void find_hosts(yoke_comm *comm, const yoke_comm *old, const int old_rank[], char *sees)
{
    const size_t size = (size_t)comm->size;
    const struct yokei_hosts *h = &old->hosts;
    for (size_t x = 0; x < size; x++)
        for (size_t y = 0; y < size; y++)
            sees[x * size + y] = x == y || (h->n && h->of[old_rank[x]] == h->of[old_rank[y]]);
    yokei_hosts_find(comm, sees, size, 1);
}

/*
 * Map the other ranks' parts. A rank that is already gone makes the new communicator fail, and not this call,
 * because other ranks may have passed this point. Returns that rank; -1: none is gone.
 */
static int map_members(yoke_comm *comm, const yoke_comm *old, const int old_rank[])
{
    int gone = -1;
    for (int r = 0; r < comm->size; r++) {
        struct yokei_peer *peer = &comm->peers[r];
        const bool shares = comm->hosts.n && comm->hosts.of[r] == comm->hosts.of[comm->rank];
        peer->transport = peer->beneath = shares ? &yokei_shm_transport : &yokei_mpi_transport;
        if (r == comm->rank || old->peers[old_rank[r]].flight) yokei_map_record(comm, r);
        if (r != comm->rank && shares && (!peer->flight || !yokei_shm_map(comm, r)) && gone < 0) gone = r;
    }
    yokei_count_host(comm);
    return gone;
}

static void fail_by_gone(yoke_comm *comm, int gone)
{
    const struct yokei_peer_info *info = &comm->peers[gone].info;
    yokei_comm_fail(
        comm, YOKE_EDEAD, info->world_rank,
        "communicator \"%s\": rank %d (rank %d of the job, host %s, pid %d) died while the communicator was made",
        comm->name, gone, info->world_rank, info->host, info->pid);
    yokei_settle_failure(comm);
}

/*
 * The rank goes on, so its record does not count as failed any more. The record names the ranks that were
 * left out because they failed.
 */
static void record(const struct agreement *a)
{
    yoke_comm *old = a->comm;
    struct yokei_flight_file *file = yokei_process.flight;
    bool any = false;
    for (int r = 0; r < old->size && old->size > 1; r++) {
        const int world = old->peers[r].info.world_rank;
        if (!is_out(post_at(a, a->winner), r) || world < 0 || world >= YOKEI_FLIGHT_RANKS) continue;
        if (!atomic_load(&old->failure.error) && !yokei_is_gone(old, r))
            continue; /* left out by agreement, without a failure */
        atomic_fetch_or(&file->lost[world / 64], (uint64_t)1 << (world % 64));
        any = true;
    }
    if (atomic_load(&file->state) == YOKEI_RANK_FAILED && atomic_load(&file->comm) == old->uid) {
        atomic_store(&file->status, YOKE_OK);
        atomic_store_explicit(&file->state, YOKEI_RANK_OUTSIDE, memory_order_release);
    }
    if (any) atomic_fetch_add(&file->n_shrinks, 1);
    if (a->copies) yokei_flight_publish(file);
}

static yoke_status check(const yoke_comm *comm, const int without[], int n_without)
{
    if (n_without < 0 || (n_without && !without))
        return yoke_fail(YOKE_EINVAL, "%d ranks to leave out, and no list of them", n_without);
    for (int i = 0; i < n_without; i++) {
        if (without[i] < 0 || without[i] >= comm->size)
            return yoke_fail(YOKE_EINVAL, "rank %d is not in communicator \"%s\" of %d ranks", without[i],
                             comm->name, comm->size);
        if (without[i] == comm->rank)
            return yoke_fail(YOKE_EINVAL, "rank %d cannot leave itself out: it need not call", comm->rank);
    }
    if (comm->size > YOKEI_MOST_SHRUNK)
        return yoke_fail(YOKE_EUNSUPPORTED, "communicator \"%s\" has %d ranks, more than %d", comm->name,
                         comm->size, YOKEI_MOST_SHRUNK);
    return YOKE_OK;
}

/* Choose where the posts lie. The lock is held. */
static yoke_status open_agreement(struct agreement *a)
{
    const yoke_comm *comm = a->comm;
    if (comm->size == 1 || comm->all_shared) return YOKE_OK;
    if (!yokei_shrink_has_folder(a->comm))
        return yoke_fail(
            YOKE_EUNSUPPORTED,
            "not all ranks of communicator \"%s\" share memory, and they see no run directory in common: start the job by "
            "yoke run, with a --run-dir that all hosts share",
            comm->name);
    a->is_in_files = true;
    const size_t bytes = (size_t)comm->size * sizeof a->copies[0];
    a->copies = aligned_alloc(_Alignof(struct yokei_shrink_post), bytes);
    if (!a->copies) return yoke_fail(YOKE_ENOMEM, "no memory for %d ranks", comm->size);
    memset(a->copies, 0, bytes);
    return YOKE_OK;
}

/*
 * Agree with other ranks. The lock is held, except while waiting. *gone_out is a member that was found dead
 * after the decision; -1: none.
 */
static yoke_status agree_with_others(struct agreement *a, const int without[], int n_without, yoke_comm *comm,
                                     yoke_status status, int *gone_out)
{
    yoke_comm *old = a->comm;
    const size_t size = (size_t)old->size;
    int *old_rank = calloc(size, sizeof *old_rank);
    char *sees = malloc(size * size);
    if (!status && old->all_shared && !comm->memory.segment)
        status = yoke_fail(YOKE_ENOMEM, "no shared memory for the new communicator");
    const bool has_room = old_rank && sees && comm && (a->copies || !a->is_in_files);
    if (!has_room && !status) status = yoke_fail(YOKE_ENOMEM, "no memory for %d ranks", old->size);
    /* The other ranks wait for this rank's post. If it says that this rank has no memory, all ranks fail. */
    yoke_status agreed = write_post(a, without, n_without, comm, status);
    if (!has_room) {
        free(old_rank);
        free(sees);
        return status;
    }
    pthread_mutex_unlock(&yokei_process.lock);
    if (!agreed) agreed = wait_for_decision(a);
    pthread_mutex_lock(&yokei_process.lock);
    if (!agreed && is_out(post_at(a, a->winner), old->rank))
        agreed = yoke_fail(
            YOKE_EDEAD,
            "the others went on without this rank (%d): they found it dead, stopped, stuck or late, or were told to",
            old->rank);
    if (!agreed) agreed = fill_in(comm, a, old_rank);
    if (!agreed) find_hosts(comm, old, old_rank, sees);
    if (!agreed) *gone_out = map_members(comm, old, old_rank);
    free(old_rank);
    free(sees);
    return agreed ? agreed : status;
}

/* Go on as the only rank. The lock is held. */
static yoke_status stay_alone(const yoke_comm *old, yoke_comm *comm, yoke_status status)
{
    yokei_describe_self(comm, &comm->peers[0].info, status);
    YOKE_TRY(status);
    comm->set_rank[0] = old->set_rank[0];
    YOKE_TRY(yokei_agree(comm));
    yokei_hosts_one(comm);
    comm->peers[0].transport = comm->peers[0].beneath = &yokei_shm_transport;
    yokei_map_record(comm, 0);
    yokei_count_host(comm);
    return YOKE_OK;
}

/* The lock is held. */
static yoke_status shrink(struct agreement *a, const int without[], int n_without, yoke_comm **comm_out)
{
    yoke_comm *old = a->comm, *comm = NULL;
    const struct yoke_comm_config config = yokei_comm_config(old, old->name);
    int gone = -1;
    const yoke_status opened = open_agreement(a);
    if (opened && !a->is_in_files) return opened;
    yoke_status status = yokei_comm_new(old->rank, old->size, old->device, &config, &comm);
    if (opened && !status) status = opened;
    if (!comm && old->size == 1) return status;
    if (comm) {
        comm->set = old->set;
        comm->set->n_comms++;
        comm->shrunk_from = old->uid;
        yokei_islands_inherit(comm, old);
    }
    a->number = ++old->n_shrinks;
    status = old->size == 1 ? stay_alone(old, comm, status)
                            : agree_with_others(a, without, n_without, comm, status, &gone);
    if (!status) yokei_costs_inherit(comm, old);
    if (!status) yokei_shares_inherit(comm, old);
    if (!status) yokei_inject_wrap(comm);
    if (!status && old->size > 1) record(a);
    if (!comm) return status;
    YOKE_TRY(yokei_comm_enter(comm, status, comm_out));
    yokei_comm_record(comm);
    if (gone >= 0) fail_by_gone(comm, gone);
    return YOKE_OK;
}

yoke_status yoke_comm_shrink(yoke_comm *comm, const int without[], int n_without, yoke_comm **comm_out)
{
    static const char call[] = "yoke_comm_shrink";
    if (!comm || !comm_out) return yoke_fail(YOKE_EINVAL, "%s: a NULL argument", call);
    YOKE_TRY(yokei_check_process(call, comm));
    *comm_out = NULL;
    yoke_status status = check(comm, without, n_without);
    if (status) return yoke_fail_context(status, "%s", call);
    yoke_comm_busy(comm, "shrinking a communicator");
    struct agreement a = { .comm = comm };
    pthread_mutex_lock(&yokei_process.lock);
    status = shrink(&a, without, n_without, comm_out);
    pthread_mutex_unlock(&yokei_process.lock);
    free(a.copies);
    if (!status) status = yokei_comm_equip(comm_out);
    return status ? yoke_fail_context(status, "%s", call) : YOKE_OK;
}
