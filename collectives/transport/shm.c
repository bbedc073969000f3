/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between ranks of one host through shared memory. Each rank owns a segment that its peers map. The
 * segment has send slots for each lane, and a mailbox for each peer and lane that says which slot holds the
 * next message. A receiver reads the message in the slot. So a sum reads the peer's slot and writes this
 * rank's own slot, and no message is copied.
 *
 * The segment is a memfd that peers open through the owner's entry in /proc, so nothing is left behind,
 * however the processes end. Its mode is 0600, and a process that maps it checks the owner and the nonce. Its
 * pages are allocated before it is used. So too little memory is found at that point, and messages then go
 * over MPI.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "collectives/transport/shm.h"
#include "collectives/transport/transport.h"

/* Both sides change fields of a line together, and different cache lines are never changed together. */
struct mailbox {
    _Alignas(64) _Atomic uint32_t posted; /* number of messages ever put here */
    uint32_t slot[YOKEI_SLOTS], bytes[YOKEI_SLOTS];
};
struct flag {
    _Alignas(64) _Atomic uint32_t full; /* set by the owner, cleared by the reader */
};

struct yokei_segment {
    _Alignas(64) uint64_t nonce;
    uint64_t bytes;
    /* The owner's bell: a wake-up counter. `sleeps` threads of the owner sleep on `rung`. A rank that gives
       it a message or a free slot rings: it adds to `rung` and wakes the owner. */
    _Alignas(64) _Atomic uint32_t rung;
    _Atomic uint32_t sleeps;
    /* The message of the first peer that found this communicator failed. 0: none, 1: it is being written,
       2: readable. */
    _Atomic uint32_t alarm;
    struct yokei_control report;
    struct yokei_shrink_post shrinks[2];
    _Atomic uint64_t decision; /* decision of the last shrink; rank 0's counts, even if rank 0 is gone */
    /* Then follow the posts and counters, struct mailbox [size][YOKEI_LANES + 1], struct flag [YOKEI_LANES
       + size][YOKEI_SLOTS], the memory of oneshot and slices, and the slots. Devices copy from and to all but
       the slots. */
};

static size_t up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

struct yokei_offsets yokei_shm_offsets(int room, size_t chunk_bytes)
{
    const size_t size = (size_t)room;
    struct yokei_offsets l = { .slot_bytes = up(sizeof(struct yokei_header) + chunk_bytes, 4096),
                               .pair_slot_bytes = up(sizeof(struct yokei_header) + YOKEI_PAIR_CHUNK, 4096) };
    l.posts = sizeof(struct yokei_segment);
    l.counters = l.posts + 2 * sizeof(struct yokei_post);
    l.mailboxes = l.counters + YOKEI_CROSS_LANES * sizeof(struct yokei_counters);
    l.flags = l.mailboxes + size * (YOKEI_LANES + 1) * sizeof(struct mailbox);
    l.oneshot = up(l.flags + (YOKEI_LANES + size) * YOKEI_SLOTS * sizeof(struct flag), 4096);
    l.stages = l.oneshot + 2 * (YOKEI_ONESHOT_BYTES + YOKEI_GAP_BYTES);
    l.slots = l.stages + (size_t)YOKEI_CROSS_LANES * 2 * (YOKEI_STAGE_BYTES + YOKEI_GAP_BYTES);
    l.pair_slots = l.slots + YOKEI_LANES * YOKEI_SLOTS * l.slot_bytes;
    l.bytes = l.pair_slots + size * YOKEI_SLOTS * l.pair_slot_bytes;
    return l;
}

static char *segment_of(const yoke_comm *comm, int r)
{
    return r == comm->rank ? (char *)comm->memory.segment : comm->peers[r].segment;
}

struct yokei_post *yokei_shm_post_at(const yoke_comm *comm, int r, uint32_t number)
{
    return (struct yokei_post *)(void *)(segment_of(comm, r) + comm->memory.offsets.posts) + number % 2;
}

struct yokei_shrink_post *yokei_shm_shrink_at(const yoke_comm *comm, int r, uint32_t number)
{
    return &((struct yokei_segment *)(void *)segment_of(comm, r))->shrinks[number % 2];
}

_Atomic uint64_t *yokei_shm_decision_at(const yoke_comm *comm)
{
    return &((struct yokei_segment *)(void *)segment_of(comm, 0))->decision;
}

_Atomic uint32_t *yokei_shm_counter_at(const yoke_comm *comm, int r, const struct yokei_lane *lane,
                                       enum yokei_counter counter, uint32_t until)
{
    if (counter == YOKEI_POSTED) return &yokei_shm_post_at(comm, r, until)->number;
    return &((struct yokei_counters *)(void *)(segment_of(comm, r) + comm->memory.offsets.counters))[lane->id]
                .at[counter];
}

char *yokei_shm_oneshot_at(const yoke_comm *comm, int r, uint32_t number)
{
    return segment_of(comm, r) + comm->memory.offsets.oneshot
           + number % 2 * (YOKEI_ONESHOT_BYTES + YOKEI_GAP_BYTES);
}

/*
 * The answer is the same in all operations of a communicator. Otherwise a lane's stage could become part of
 * another lane's stage while a rank still reads it.
 */
bool yokei_has_wide_stages(const yoke_comm *comm)
{
    return comm->all_shared && !comm->any_staged && comm->n_on_host > comm->n_cores;
}

size_t yokei_stage_bytes(const yoke_comm *comm)
{
    return yokei_has_wide_stages(comm) ? YOKEI_WIDE_STAGE_BYTES : YOKEI_STAGE_BYTES;
}

char *yokei_shm_stage_at(const yoke_comm *comm, int r, const struct yokei_lane *lane, int part)
{
    return segment_of(comm, r) + comm->memory.offsets.stages
           + ((size_t)lane->id * 2 + (size_t)part) * (yokei_stage_bytes(comm) + YOKEI_GAP_BYTES);
}

char *yokei_shm_copied(const yoke_comm *comm, int r, size_t *bytes_out)
{
    *bytes_out = comm->memory.offsets.slots;
    return segment_of(comm, r);
}

size_t yokei_shm_gap_at(const yoke_comm *comm, int i)
{
    const struct yokei_offsets *l = &comm->memory.offsets;
    if (i < 2) return l->oneshot + (size_t)i * YOKEI_GAP_BYTES + (size_t)(i + 1) * YOKEI_ONESHOT_BYTES;
    const size_t stage = yokei_stage_bytes(comm), n = (size_t)i - 2;
    const size_t at = l->stages + n * YOKEI_GAP_BYTES + (n + 1) * stage;
    return at + YOKEI_GAP_BYTES <= l->slots ? at : 0;
}

/* Slots and flags of one lane lie together. The lane of send and recv has its own slots for each peer. */
static struct flag *flag_at(const yoke_comm *comm, void *segment, int lane, int to, uint32_t slot)
{
    struct flag *flags = (struct flag *)((char *)segment + comm->memory.offsets.flags);
    return &flags[(lane == YOKEI_LANE_PAIR ? YOKEI_LANES + to : lane) * YOKEI_SLOTS + (int)slot];
}

static char *slot_at(const yoke_comm *comm, void *segment, int lane, int to, uint32_t slot)
{
    const struct yokei_offsets *l = &comm->memory.offsets;
    if (lane == YOKEI_LANE_PAIR)
        return (char *)segment + l->pair_slots + ((size_t)to * YOKEI_SLOTS + slot) * l->pair_slot_bytes;
    return (char *)segment + l->slots + ((size_t)lane * YOKEI_SLOTS + slot) * l->slot_bytes;
}

static struct mailbox *mailbox_at(const yoke_comm *comm, void *segment, int lane, int to)
{
    return (struct mailbox *)((char *)segment + comm->memory.offsets.mailboxes) + to * (YOKEI_LANES + 1)
           + lane;
}

/*
 * Call this after a fence. Then there are two cases: the owner's last look, after it set `sleeps`, saw the
 * data, or this function sees `sleeps`.
 */
static void wake_owner(struct yokei_segment *segment)
{
    if (!atomic_load_explicit(&segment->sleeps, memory_order_relaxed)) return;
    atomic_fetch_add(&segment->rung, 1);
    syscall(SYS_futex, &segment->rung, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void ring_owner(struct yokei_segment *segment)
{
    atomic_thread_fence(memory_order_seq_cst);
    wake_owner(segment);
}

void yokei_shm_ring_all(const yoke_comm *comm)
{
    atomic_thread_fence(memory_order_seq_cst);
    for (int i = 0; i < comm->hosts.n_local; i++)
        if (comm->hosts.local[i] != comm->rank) wake_owner(comm->peers[comm->hosts.local[i]].segment);
}

bool yokei_shm_alarm(yoke_comm *comm, int r, const struct yokei_control *message)
{
    struct yokei_segment *segment = comm->peers[r].segment;
    if (!segment || comm->peers[r].beneath != &yokei_shm_transport) return false;
    uint32_t nothing = 0;
    if (atomic_compare_exchange_strong(&segment->alarm, &nothing, 1)) {
        segment->report = *message;
        atomic_store_explicit(&segment->alarm, 2, memory_order_release);
    }
    ring_owner(segment);
    return true;
}

const struct yokei_control *yokei_shm_alarmed(const yoke_comm *comm)
{
    const struct yokei_segment *segment = comm->memory.segment;
    return segment && atomic_load_explicit(&segment->alarm, memory_order_acquire) == 2 ? &segment->report
                                                                                       : NULL;
}

uint32_t yokei_shm_sleep_begin(yoke_comm *comm)
{
    const uint32_t rung = atomic_load(&comm->memory.segment->rung);
    atomic_fetch_add(&comm->memory.segment->sleeps, 1);
    atomic_thread_fence(memory_order_seq_cst);
    return rung;
}

void yokei_shm_sleep_end(yoke_comm *comm, uint32_t rung, uint64_t ns)
{
    const struct timespec most = { .tv_sec = 0, .tv_nsec = (long)ns };
    if (ns) syscall(SYS_futex, &comm->memory.segment->rung, FUTEX_WAIT, rung, &most, NULL, 0);
    atomic_fetch_sub(&comm->memory.segment->sleeps, 1);
}

static yoke_status shm_reserve(yoke_comm *comm, struct yokei_lane *lane, int to, void **room_out)
{
    const uint32_t slot = lane->shm_at;
    const bool full = atomic_load_explicit(&flag_at(comm, comm->memory.segment, lane->id, to, slot)->full,
                                           memory_order_acquire);
    *room_out = full ? NULL : slot_at(comm, comm->memory.segment, lane->id, to, slot);
    return YOKE_OK;
}

static yoke_status shm_post(yoke_comm *comm, struct yokei_lane *lane, int to, size_t bytes)
{
    struct mailbox *mailbox = mailbox_at(comm, comm->memory.segment, lane->id, to);
    const uint32_t slot = lane->shm_at, posted = atomic_load_explicit(&mailbox->posted, memory_order_relaxed);
    atomic_store_explicit(&flag_at(comm, comm->memory.segment, lane->id, to, slot)->full, 1,
                          memory_order_relaxed);
    mailbox->slot[posted % YOKEI_SLOTS] = slot;
    mailbox->bytes[posted % YOKEI_SLOTS] = (uint32_t)bytes;
    atomic_store_explicit(&mailbox->posted, posted + 1, memory_order_release);
    lane->shm_at = (slot + 1) % YOKEI_SLOTS;
    ring_owner(comm->peers[to].segment);
    return YOKE_OK;
}

static yoke_status shm_poll(yoke_comm *comm, struct yokei_lane *lane, int from, const void **message_out,
                            size_t *bytes_out)
{
    const struct yokei_peer *peer = &comm->peers[from];
    struct mailbox *mailbox = mailbox_at(comm, peer->segment, lane->id, comm->rank);
    const uint32_t taken = peer->taken[lane->id];
    *message_out = NULL;
    if (atomic_load_explicit(&mailbox->posted, memory_order_acquire) == taken) return YOKE_OK;
    const uint32_t slot = mailbox->slot[taken % YOKEI_SLOTS];
    if (slot >= YOKEI_SLOTS)
        return yokei_comm_fail(comm, YOKE_EINTERNAL, peer->info.world_rank,
                               "communicator \"%s\": rank %d's shared memory is damaged", comm->name, from);
    *message_out = slot_at(comm, peer->segment, lane->id, comm->rank, slot);
    *bytes_out = mailbox->bytes[taken % YOKEI_SLOTS];
    return YOKE_OK;
}

static void shm_release(yoke_comm *comm, struct yokei_lane *lane, int from)
{
    struct yokei_peer *peer = &comm->peers[from];
    const uint32_t taken = peer->taken[lane->id]++;
    const uint32_t slot = mailbox_at(comm, peer->segment, lane->id, comm->rank)->slot[taken % YOKEI_SLOTS];
    atomic_store_explicit(&flag_at(comm, peer->segment, lane->id, comm->rank, slot)->full, 0,
                          memory_order_release);
    ring_owner(peer->segment);
}

/* A message in shared memory needs no push. */
static yoke_status shm_drained(yoke_comm *comm, struct yokei_lane *lane, bool *drained_out)
{
    (void)comm, (void)lane;
    *drained_out = true;
    return YOKE_OK;
}

const struct yokei_transport yokei_shm_transport = { "shm",    shm_reserve, shm_post,
                                                     shm_poll, shm_release, shm_drained };

yoke_status yokei_shm_create(yoke_comm *comm)
{
    const struct yokei_offsets l = comm->memory.offsets = yokei_shm_offsets(comm->room,
                                                                            comm->settings.chunk_bytes);
    int fd = memfd_create("yoke-slots", MFD_CLOEXEC);
    if (fd < 0) return yoke_fail(YOKE_EIO, "shared memory: memfd_create: %s", strerror(errno));
    int error = fchmod(fd, 0600) ? errno : yokei_file_reserve(fd, l.bytes);
    void *memory = error ? MAP_FAILED : mmap(NULL, l.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    uint64_t nonce;
    if (memory == MAP_FAILED || getrandom(&nonce, sizeof nonce, 0) != sizeof nonce) {
        if (!error) error = errno;
        if (memory != MAP_FAILED) munmap(memory, l.bytes);
        close(fd);
        return yoke_fail(YOKE_ENOMEM, "shared memory: %zu bytes: %s", l.bytes, strerror(error));
    }
    comm->memory.segment = memory;
    comm->memory.segment->nonce = comm->memory.segment_nonce = nonce;
    comm->memory.segment->bytes = l.bytes;
    comm->memory.segment_fd = fd;
    return YOKE_OK;
}

bool yokei_shm_map(yoke_comm *comm, int r)
{
    struct yokei_peer *peer = &comm->peers[r];
    const size_t bytes = comm->memory.offsets.bytes;
    if (!comm->memory.segment || peer->info.segment_fd < 0) return false;
    char path[64];
    yokei_text(path, sizeof path, "/proc/%d/fd/%d", peer->info.pid, peer->info.segment_fd);
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return false;
    struct stat st;
    void *memory = MAP_FAILED;
    if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & 0777) == 0600
        && st.st_size == (off_t)bytes)
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (memory == MAP_FAILED) return false;
    const struct yokei_segment *segment = memory;
    if (segment->nonce == peer->info.segment_nonce && segment->bytes == bytes) {
        peer->segment = memory;
        return true;
    }
    munmap(memory, bytes);
    return false;
}

void yokei_shm_close_fd(yoke_comm *comm)
{
    if (comm->memory.segment_fd >= 0) close(comm->memory.segment_fd);
    comm->memory.segment_fd = -1;
}

void yokei_shm_destroy(yoke_comm *comm)
{
    const size_t bytes = comm->memory.offsets.bytes;
    for (int r = 0; r < comm->size && comm->peers; r++)
        if (comm->peers[r].segment) munmap(comm->peers[r].segment, bytes);
    if (comm->memory.segment) munmap(comm->memory.segment, bytes);
    comm->memory.segment = NULL;
    yokei_shm_close_fd(comm);
}
