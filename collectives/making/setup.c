/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data that ranks exchange when a communicator is made: identity, configuration, and what they can share.
 * Every later decision follows from what all ranks know. Waiting here does not block inside MPI either.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "collectives/making/making.h"
#include "collectives/call/internal.h"
#include "collectives/choice/costs.h"
#include "collectives/choice/shares.h"
#include "collectives/engine/engine.h"
#include "collectives/faults/roll.h"
#include "collectives/faults/witness.h"
#include "collectives/transport/mpi.h"
#include "collectives/transport/shm.h"
#include "collectives/transport/transport.h"

/*
 * The way by which the ranks exchange data: MPI's communicator of the process set, or a communicator of Yoke.
 * All memory that the exchange needs is allocated before the first rank waits for another.
 */
struct meeting {
    yoke_comm *parent;  /* NULL: MPI's communicator */
    const int *members; /* [size] ranks of the parent */
    /* room for a process set; NULL: the set is there, or comes from parent */
    struct yokei_process_set *fresh;
    char *room; /* room for the data of all ranks that take part, and over MPI for this rank's data */
    struct yokei_peer_info *all; /* [width] what the ranks send about themselves */
    char *mine, *sees;           /* [width], [width width] what this rank sees, and what all ranks see */
};

/* Allocate the memory for a meeting of `width` ranks. */
static yoke_status open_meeting(struct meeting *at, int n)
{
    const size_t width = (size_t)n;
    at->room = malloc((width + 1) * YOKE_MAX(sizeof *at->all, width));
    at->all = malloc(width * sizeof *at->all);
    at->mine = calloc(width, 1);
    at->sees = malloc(width * width);
    return at->room && at->all && at->mine && at->sees
               ? YOKE_OK
               : yoke_fail(YOKE_ENOMEM, "no memory for what %d ranks tell each other", n);
}

static void close_meeting(struct meeting *at)
{
    free(at->fresh);
    free(at->room);
    free(at->all);
    free(at->mine);
    free(at->sees);
}

/*
 * Wait for a non-blocking collective of MPI, until all ranks have called it, or one has died or been stopped.
 * comm NULL: this rank has not read its configuration, and waits as long as the default says.
 */
static yoke_status finish_request(const yoke_comm *comm, const char *name, MPI_Comm among,
                                  MPI_Request *request, int code, const char *call)
{
    char what[96];
    yokei_text(what, sizeof what, "yoke_comm_create: communicator \"%s\"", name);
    return yokei_mpi_finish(request, code,
                            &(struct yokei_mpi_wait){ .comm = among,
                                                      .what = what,
                                                      .call = call,
                                                      .timeout_ms = comm ? comm->settings.timeout_ms
                                                                         : YOKEI_DEFAULT_TIMEOUT_MS });
}

/*
 * Let all ranks know whether each of them has the memory for the exchange. If one has not, all ranks fail.
 * This step itself needs no memory of Yoke. MPI may still use the words after an error, so each of the first
 * 15 errors takes a row of its own. Later errors share the last row.
 */
static yoke_status can_all_meet(const yoke_comm *comm, const char *name, MPI_Comm mpi_comm, yoke_status mine)
{
    enum { ROWS = 16 };
    static int64_t rows[ROWS][2];
    static int row;
    int64_t *words = rows[row];
    int rank = 0, size = 0;
    struct yokei_error text;
    MPI_Request request = MPI_REQUEST_NULL;
    PMPI_Comm_rank(mpi_comm, &rank);
    PMPI_Comm_size(mpi_comm, &size);
    yokei_error_save(&text);
    words[0] = mine ? (int64_t)(size - rank) << 32 | (int64_t)mine : 0; /* the first rank has the largest */
    const int code = PMPI_Iallreduce(&words[0], &words[1], 1, MPI_INT64_T, MPI_MAX, mpi_comm, &request);
    const yoke_status status = finish_request(comm, name, mpi_comm, &request, code, "MPI_Iallreduce");
    if (status) {
        row = YOKE_MIN(row + 1, ROWS - 1);
        return status;
    }
    yokei_error_restore(&text);
    if (mine || !words[1]) return mine;
    const yoke_status his = (yoke_status)(words[1] & 0xffffffff);
    return yoke_fail(his, "yoke_comm_create: rank %d of communicator \"%s\" cannot take part: %s",
                     size - (int)(words[1] >> 32), name, yoke_status_text(his));
}

/* Find the set of these processes. NULL: there is none yet. */
static struct yokei_process_set *find_set(MPI_Comm mpi_comm)
{
    struct yokei_process_set *set = yokei_process.sets;
    for (int result = MPI_UNEQUAL; set; set = set->next) {
        PMPI_Comm_compare(mpi_comm, set->mpi, &result);
        if (result == MPI_IDENT || result == MPI_CONGRUENT) break;
    }
    return set;
}

/* Let the communicator use the set of these processes, which is made if there is none. */
static yoke_status join_set(yoke_comm *comm, MPI_Comm mpi_comm, struct meeting *at)
{
    struct yokei_process *p = &yokei_process;
    comm->set = find_set(mpi_comm);
    if (comm->set) {
        comm->set->n_comms++;
        return YOKE_OK;
    }
    struct yokei_process_set *set = at->fresh;
    at->fresh = NULL;
    MPI_Request request = MPI_REQUEST_NULL;
    const int code = PMPI_Comm_idup(mpi_comm, &set->mpi, &request);
    const yoke_status status = finish_request(comm, comm->name, mpi_comm, &request, code, "MPI_Comm_idup");
    if (status) {
        yokei_keep(set);
        return status;
    }
    PMPI_Comm_set_errhandler(set->mpi, MPI_ERRORS_RETURN);
    set->n_comms = 1;
    set->next = p->sets;
    p->sets = set;
    comm->set = set;
    return YOKE_OK;
}

static void leave_set(yoke_comm *comm)
{
    struct yokei_process_set **place = &yokei_process.sets, *set = comm->set;
    comm->set = NULL;
    if (!set || --set->n_comms) return;
    while (*place != set) place = &(*place)->next;
    *place = set->next;
    if (!yokei_process.faulted && !yokei_process.copied_from) PMPI_Comm_free(&set->mpi);
    free(set);
}

void yokei_describe_self(yoke_comm *comm, struct yokei_peer_info *info, yoke_status status)
{
    const struct yokei_process *p = &yokei_process;
    if (!comm) {
        *info = (struct yokei_peer_info){ .world_rank = p->world_rank, .status = status };
        yokei_text(info->reason, sizeof info->reason, "%s", status ? yoke_last_error() : "");
        return;
    }
    *info = (struct yokei_peer_info){
        .nonce = p->nonce,
        .start_time = p->start_time,
        .pid = getpid(),
        .world_rank = p->world_rank,
        .flight_fd = p->flight_fd,
        .segment_fd = comm->memory.segment_fd,
        .segment_nonce = comm->memory.segment_nonce,
        .next_context = comm->set->next_context,
        .status = status,
        .version = YOKE_VERSION_MAJOR << 16 | YOKE_VERSION_MINOR,
        .accum = comm->settings.accum,
        .reproducible = comm->settings.reproducible,
        .check = comm->settings.check,
        .staged = comm->device && !yoke_device_info(comm->device)->host_visible,
        .algorithm = comm->settings.forced_algorithm,
        .timeout_ms = comm->settings.timeout_ms,
        .stall_ms = comm->settings.stall_ms,
        .chunk_bytes = comm->settings.chunk_is_forced ? comm->settings.chunk_bytes : 0,
        .n_cores = p->n_cores,
        .n_threads = yokei_own_threads(comm),
    };
    char costs[256];
    yokei_costs_text(&comm->costs, costs, sizeof costs);
    if (comm->settings.costs_given) info->costs = yokei_hash32(costs, strlen(costs), 1);
    info->shares = yokei_shares_hash(comm);
    info->grouping = comm->settings.island;
    info->labels = comm->settings.labels;
    yokei_text(info->island, sizeof info->island, "%s", yokei_islands_own(comm));
    const uint64_t mixed[2] = { p->nonce, yokei_now_ns() };
    info->draw = yokei_hash32(mixed, sizeof mixed, 0);
    cpu_set_t cores;
    if (!sched_getaffinity(0, sizeof cores, &cores))
        memcpy(info->cores, &cores, YOKE_MIN(sizeof cores, sizeof info->cores));
    memcpy(info->host, p->host, sizeof info->host);
    info->host_id = yokei_host_id();
    memcpy(info->name, comm->name, sizeof info->name);
    yokei_text(info->reason, sizeof info->reason, "%s", status ? yoke_last_error() : comm->memory.no_segment);
}

/*
 * Exchange by MPI, through separate memory. After an error the request is abandoned, and MPI may still read
 * and write that memory.
 */
static yoke_status exchange_over_mpi(const yoke_comm *comm, struct meeting *at, const void *mine, void *all,
                                     size_t bytes)
{
    const size_t n = (size_t)comm->size;
    MPI_Request request = MPI_REQUEST_NULL;
    char *room = at->room;
    memcpy(room + n * bytes, mine, bytes);
    const int code = PMPI_Iallgather(room + n * bytes, (int)bytes, MPI_BYTE, room, (int)bytes, MPI_BYTE,
                                     comm->set->mpi, &request);
    const yoke_status status = finish_request(comm, comm->name, comm->set->mpi, &request, code,
                                              "MPI_Iallgather");
    if (status) {
        yokei_keep(room);
        at->room = NULL;
        return status;
    }
    memcpy(all, room, n * bytes);
    return YOKE_OK;
}

/*
 * all[r] = the data of rank r. comm is NULL on ranks of the parent that are no members. They send nothing,
 * and their `all` is not read.
 */
static yoke_status exchange(yoke_comm *comm, struct meeting *at, const void *mine, void *all, size_t bytes)
{
    if (!at->parent) return exchange_over_mpi(comm, at, mine, all, bytes);
    pthread_mutex_unlock(&yokei_process.lock);
    const yoke_status status = yokei_gather_on_host(at->parent, mine, at->room, bytes);
    pthread_mutex_lock(&yokei_process.lock);
    for (int r = 0; comm && r < comm->size && !status; r++)
        memcpy((char *)all + (size_t)r * bytes, at->room + (size_t)at->members[r] * bytes, bytes);
    return status;
}

/* The first difference between rank r's configuration and rank 0's. The text is the same on every rank. */
static yoke_status compare(const yoke_comm *comm, int r)
{
    const struct yokei_peer_info *a = &comm->peers[0].info, *b = &comm->peers[r].info;
    const struct {
        const char *what;
        long long a, b;
    } fields[] = {
        { "version", a->version, b->version },
        { "accum", a->accum, b->accum },
        { "reproducible", a->reproducible, b->reproducible },
        { "check", a->check, b->check },
        { "algorithm", a->algorithm, b->algorithm },
        { "timeout_ms", a->timeout_ms, b->timeout_ms },
        { "stall_ms", a->stall_ms, b->stall_ms },
        { "costs (as a hash)", a->costs, b->costs },
        { "shares (as a hash)", a->shares, b->shares },
        { "island_of (as a hash)", a->labels, b->labels },
        { "chunk_bytes", (long long)a->chunk_bytes, (long long)b->chunk_bytes },
    };
    if (strcmp(a->name, b->name))
        return yoke_fail(YOKE_EMISMATCH,
                         "yoke_comm_create: rank 0 names the communicator \"%s\", rank %d \"%s\"", a->name, r,
                         b->name);
    if (a->grouping != b->grouping)
        return yoke_fail(
            YOKE_EMISMATCH,
            "yoke_comm_create: communicator \"%s\": island is %s on rank 0 and %s on rank %d; all ranks need "
            "the same configuration",
            comm->name, yokei_island_name(a->grouping), yokei_island_name(b->grouping), r);
    for (size_t i = 0; i < YOKE_COUNT(fields); i++)
        if (fields[i].a != fields[i].b)
            return yoke_fail(YOKE_EMISMATCH,
                             "yoke_comm_create: communicator \"%s\": %s is %lld on rank 0 and %lld on rank "
                             "%d; all ranks need the same configuration",
                             comm->name, fields[i].what, fields[i].a, fields[i].b, r);
    return YOKE_OK;
}

/* Map the record of a rank that seems to be on this host. It is on this host if the record has its nonce. */
void yokei_map_record(yoke_comm *comm, int r)
{
    const struct yokei_process *p = &yokei_process;
    struct yokei_peer *peer = &comm->peers[r];
    if (r == comm->rank) {
        peer->flight = p->flight;
        return;
    }
    if (peer->info.host_id != comm->peers[comm->rank].info.host_id) return;
    const struct yokei_flight_file *file;
    const yoke_status status = peer->info.flight_fd >= 0
                                   ? yokei_flight_open_memory(peer->info.pid, peer->info.flight_fd, &file)
                                   : yokei_flight_open(p->run_dir, peer->info.world_rank, &file);
    if (status) return;
    if (file->nonce != peer->info.nonce || file->pid != peer->info.pid) {
        yokei_flight_close(file);
        return;
    }
    peer->flight = file;
    yokei_witness_add(peer->info.world_rank);
}

enum { SEES_RECORD = 1, SEES_SLOTS = 2 };

/*
 * Pairs of ranks that see each other's slots send through them. sees[a * width + b] is what rank a sees of
 * rank b.
 */
static void choose_transports(yoke_comm *comm, const char *mine, const char *sees, size_t width)
{
    const size_t size = (size_t)comm->size, rank = (size_t)comm->rank;
    yokei_hosts_find(comm, sees, width, SEES_SLOTS);
    for (size_t r = 0; r < size; r++) {
        struct yokei_peer *peer = &comm->peers[r];
        const int both = sees[r * width + rank] & mine[r];
        peer->transport = peer->beneath = both & SEES_SLOTS ? &yokei_shm_transport : &yokei_mpi_transport;
        /* If only one of two ranks saw the other's record, no report would reach the other. */
        if (r != rank && peer->flight && !(both & SEES_RECORD)) {
            yokei_flight_close(peer->flight);
            peer->flight = NULL;
        }
    }
}

static yoke_status check_tags(const yoke_comm *comm)
{
    int *most = NULL, found = 0;
    PMPI_Comm_get_attr(comm->set->mpi, MPI_TAG_UB, &most, &found);
    if (found && most && comm->context >= (uint32_t)*most / YOKEI_LANE_KINDS - 1)
        return yoke_fail(YOKE_ENOMEM,
                         "yoke_comm_create: all %d communicators that MPI has tags for were used",
                         *most / YOKEI_LANE_KINDS);
    return YOKE_OK;
}

/* Conclusions from what all ranks have sent, by the same rules on each rank. */
yoke_status yokei_agree(yoke_comm *comm)
{
    for (int r = 0; r < comm->size; r++) {
        const struct yokei_peer_info *info = &comm->peers[r].info;
        if (info->status && r != comm->rank)
            return yoke_fail((yoke_status)info->status, "yoke_comm_create: rank %d: %s", r, info->reason);
        if (info->status) return (yoke_status)info->status;
    }
    for (int r = 1; r < comm->size; r++) YOKE_TRY(compare(comm, r));
    for (int r = 0; r < comm->size; r++) comm->any_staged |= comm->peers[r].info.staged != 0;
    comm->context = 0;
    for (int r = 0; r < comm->size; r++)
        comm->context = YOKE_MAX(comm->context, comm->peers[r].info.next_context);
    comm->set->next_context = comm->context + 1;
    comm->uid = comm->peers[0].info.draw;
    return check_tags(comm);
}

static int local_ranks(const yoke_comm *comm)
{
    int n = 0;
    for (int r = 0; r < comm->size; r++) n += comm->peers[r].flight != NULL;
    /* hydra's number for the whole job, of which this communicator may be a part */
    const char *launched = getenv("MPI_LOCALNRANKS");
    return YOKE_MAX(n, launched ? atoi(launched) : 0);
}

/*
 * Number of processors that the ranks of this host may use together. Each rank may be bound to its own
 * processor.
 */
static int shared_cores(const yoke_comm *comm)
{
    int n = 0;
    for (size_t word = 0; word < YOKE_COUNT(comm->peers[0].info.cores); word++) {
        uint64_t any = 0;
        for (int r = 0; r < comm->size; r++)
            if (comm->peers[r].flight) any |= comm->peers[r].info.cores[word];
        n += __builtin_popcountll(any);
    }
    return YOKE_MAX(n, 1);
}

void yokei_count_host(yoke_comm *comm)
{
    comm->n_on_host = local_ranks(comm);
    comm->n_cores = shared_cores(comm);
    /* The ranks of a part of the job may be bound to a part of its processors. So the largest number that
       any rank knows counts for all. */
    for (int r = 0; r < comm->size; r++)
        if (comm->peers[r].flight) comm->n_cores = YOKE_MAX(comm->n_cores, comm->peers[r].info.n_cores);
    yokei_process.n_cores = YOKE_MAX(yokei_process.n_cores, comm->n_cores);
}

/* First exchange: the identity of each rank. The answers decide, in the same way on all ranks. */
static yoke_status introduce(yoke_comm *comm, struct meeting *at, yoke_status status)
{
    struct yokei_peer_info mine, *const all = at->all;
    struct yokei_error text;
    yokei_describe_self(comm, &mine, status);
    yokei_error_save(&text);
    YOKE_TRY(exchange(comm, at, &mine, all, sizeof mine));
    yokei_error_restore(&text);
    for (int r = 0; comm && r < comm->size; r++) {
        comm->peers[r].info = all[r];
        yokei_roll_note(&all[r]);
        comm->set_rank[r] = at->parent ? at->parent->set_rank[at->members[r]] : r;
    }
    if (!comm) return status;
    YOKE_TRY(yokei_agree(comm));
    for (int r = 0; r < comm->size; r++) yokei_map_record(comm, r);
    yokei_count_host(comm);
    yokei_warn_of_crowd(comm);
    return YOKE_OK;
}

/*
 * Second exchange: what each rank sees of the others. Within a parent, ranks whose own new communicator has
 * failed take part too, because others wait for them.
 */
static yoke_status set_up_comm(yoke_comm *comm, struct meeting *at, yoke_status status)
{
    const size_t width = (size_t)(at->parent ? at->parent->size : comm->size);
    status = introduce(comm, at, status);
    for (int r = 0; comm && r < comm->size && !status; r++)
        if (r != comm->rank && comm->peers[r].flight)
            at->mine[r] = SEES_RECORD | (yokei_shm_map(comm, r) ? SEES_SLOTS : 0);
    if (!status || (at->parent && !atomic_load(&at->parent->failure.error))) {
        struct yokei_error text;
        yokei_error_save(&text);
        const yoke_status second = exchange(comm, at, at->mine, at->sees, width);
        if (!status)
            status = second;
        else
            yokei_error_restore(&text);
    }
    if (comm && !status) choose_transports(comm, at->mine, at->sees, width);
    if (comm) yokei_shm_close_fd(comm);
    return status;
}

yoke_status yokei_setup(yoke_comm *comm, MPI_Comm mpi_comm, const char *name, yoke_status status)
{
    struct yokei_handlers saved;
    struct meeting at = { .parent = NULL };
    yokei_handlers_set(&saved, &mpi_comm);
    yoke_status ready = comm ? open_meeting(&at, comm->size) : status;
    if (!ready && !find_set(mpi_comm) && !(at.fresh = calloc(1, sizeof *at.fresh)))
        ready = yoke_fail(YOKE_ENOMEM, "no memory for a set of processes");
    ready = can_all_meet(comm, name, mpi_comm, ready);
    if (!ready) ready = join_set(comm, mpi_comm, &at);
    if (!ready) ready = set_up_comm(comm, &at, status);
    close_meeting(&at);
    yokei_handlers_restore(&saved);
    return ready;
}

yoke_status yokei_setup_within(yoke_comm *comm, yoke_comm *parent, const int members[], yoke_status status)
{
    struct meeting at = { .parent = parent, .members = members };
    if (comm) {
        comm->set = parent->set;
        comm->set->n_comms++;
    }
    const yoke_status ready = open_meeting(&at, parent->size);
    status = ready ? yokei_give_up(parent, ready) : set_up_comm(comm, &at, status);
    close_meeting(&at);
    return status;
}

void yokei_setup_undo(yoke_comm *comm)
{
    for (int r = 0; r < comm->size && comm->peers; r++)
        if (r != comm->rank)
            yokei_flight_close(comm->peers[r].flight), yokei_flight_close(comm->peers[r].watch.far);
    yokei_hosts_end(comm);
    leave_set(comm);
}
