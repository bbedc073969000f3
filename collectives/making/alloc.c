/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that all ranks of a communicator on one host see. Each rank's part is a memfd. The other ranks map
 * it through its owner's entry in /proc, so nothing is left behind, however the processes end. Collectives on
 * this memory need no copies in other shared memory: see direct.c.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "collectives/call/internal.h"
#include "collectives/engine/engine.h"
#include "collectives/making/making.h"
#include "collectives/transport/allocations.h"

/*
 * The data that a rank sends to the others about its part. The nonce lies in the page behind the part's end.
 */
struct offer {
    int32_t status, fd;
    uint64_t bytes, nonce;
    char reason[192];
};

static size_t mapped_bytes(size_t bytes) { return (bytes + 4095) / 4096 * 4096 + 4096; }
static uint64_t *nonce_at(char *base, size_t bytes)
{
    return (uint64_t *)(void *)(base + mapped_bytes(bytes) - 4096);
}

static void unmap(const yoke_comm *comm, struct yokei_allocation *a)
{
    for (int r = 0; a->base && r < comm->size; r++)
        if (a->base[r]) munmap(a->base[r], mapped_bytes(a->bytes));
    free(a->base);
    free(a);
}

/*
 * Make this rank's part. Its pages are allocated now, so too little memory is an error here and not a signal
 * later.
 */
static yoke_status make_part(struct yokei_allocation *a, int rank, int *fd_out, uint64_t *nonce_out)
{
    const size_t bytes = mapped_bytes(a->bytes);
    const int fd = memfd_create("yoke-shared", MFD_CLOEXEC);
    if (fd < 0) return yoke_fail(YOKE_EIO, "yoke_comm_alloc: memfd_create: %s", strerror(errno));
    int error = fchmod(fd, 0600) ? errno : yokei_file_reserve(fd, bytes);
    char *memory = error ? MAP_FAILED
                         : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (memory == MAP_FAILED) {
        if (!error) error = errno;
        close(fd);
        return yoke_fail(YOKE_ENOMEM, "yoke_comm_alloc: %zu bytes: %s", bytes, strerror(error));
    }
    a->base[rank] = memory;
    *fd_out = fd;
    if (getrandom(nonce_out, sizeof *nonce_out, 0) != sizeof *nonce_out)
        return yoke_fail(YOKE_EIO, "yoke_comm_alloc: no random number: %s", strerror(errno));
    *nonce_at(memory, a->bytes) = *nonce_out;
    return YOKE_OK;
}

static yoke_status map_part(const yoke_comm *comm, struct yokei_allocation *a, int r,
                            const struct offer *offer)
{
    const size_t bytes = mapped_bytes(a->bytes);
    char path[64];
    struct stat st;
    yokei_text(path, sizeof path, "/proc/%d/fd/%d", comm->peers[r].info.pid, offer->fd);
    const int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return yoke_fail(YOKE_EIO, "yoke_comm_alloc: the part of rank %d: %s", r, strerror(errno));
    const bool fits = !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid()
                      && (st.st_mode & 0777) == 0600 && st.st_size == (off_t)bytes;
    char *memory = fits ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0)
                        : MAP_FAILED;
    close(fd);
    if (memory == MAP_FAILED)
        return yoke_fail(YOKE_EIO, "yoke_comm_alloc: the part of rank %d cannot be mapped", r);
    a->base[r] = memory;
    return *nonce_at(memory, a->bytes) == offer->nonce
               ? YOKE_OK
               : yoke_fail(YOKE_EIO, "yoke_comm_alloc: rank %d's part is not its own", r);
}

/* The first error of any rank, which all ranks return. */
static yoke_status agree_on_parts(yoke_comm *comm, struct offer *mine, struct offer *all, yoke_status status)
{
    mine->status = (int32_t)status;
    if (status) yokei_text(mine->reason, sizeof mine->reason, "%s", yoke_last_error());
    YOKE_TRY(yoke_all_gather(mine, all, sizeof *mine, YOKE_U8, comm, NULL));
    for (int r = 0; r < comm->size; r++)
        if (all[r].status)
            return r == comm->rank ? status
                                   : yoke_fail((yoke_status)all[r].status, "rank %d: %s", r, all[r].reason);
    for (int r = 1; r < comm->size; r++)
        if (all[r].bytes != all[0].bytes)
            return yoke_fail(YOKE_EMISMATCH, "yoke_comm_alloc: rank 0 asks for %llu bytes, rank %d for %llu",
                             (unsigned long long)all[0].bytes, r, (unsigned long long)all[r].bytes);
    return YOKE_OK;
}

static yoke_status share(yoke_comm *comm, struct yokei_allocation *a, struct offer *all)
{
    struct offer mine = { .fd = -1, .bytes = a->bytes };
    yoke_status status = agree_on_parts(comm, &mine, all, make_part(a, comm->rank, &mine.fd, &mine.nonce));
    for (int r = 0; r < comm->size && !status && comm->all_shared; r++)
        if (r != comm->rank) status = map_part(comm, a, r, &all[r]);
    /* No rank closes its descriptor before all have mapped it. If one rank could not map a part, all ranks
       fail. */
    const int fd = mine.fd;
    if (!atomic_load(&comm->failure.error)) {
        const yoke_status agreed = agree_on_parts(comm, &mine, all, status);
        if (!status) status = agreed;
    }
    if (fd >= 0) close(fd);
    return status;
}

yoke_status yoke_comm_alloc(yoke_comm *comm, size_t bytes, void **memory_out)
{
    if (!comm || !memory_out)
        return yoke_fail(YOKE_EINVAL, "yoke_comm_alloc: %s is NULL", comm ? "memory_out" : "comm");
    if (!bytes || bytes > SIZE_MAX / 4)
        return yoke_fail(YOKE_EINVAL, "yoke_comm_alloc: %zu bytes: give 1 to %zu", bytes, SIZE_MAX / 4);
    YOKE_TRY(yokei_check_process("yoke_comm_alloc", comm));
    if (comm->device)
        return yoke_fail(
            YOKE_EUNSUPPORTED,
            "yoke_comm_alloc: communicator \"%s\" works on the memory of a device: make one without",
            comm->name);
    struct yokei_allocation *a = calloc(1, sizeof *a);
    struct offer *all = calloc((size_t)comm->size, sizeof *all);
    if (a) a->base = calloc((size_t)comm->size, sizeof *a->base);
    if (!a || !all || !a->base) {
        if (a) free(a->base);
        free(a);
        free(all);
        return yokei_give_up_outside(
            comm, yoke_fail(YOKE_ENOMEM, "yoke_comm_alloc: no memory for the list of %d ranks", comm->size));
    }
    a->bytes = bytes;
    const yoke_status status = share(comm, a, all);
    free(all);
    if (status) {
        unmap(comm, a);
        return status;
    }
    pthread_mutex_lock(&yokei_process.lock);
    a->id = ++comm->memory.n_allocations;
    a->next = comm->memory.allocations;
    comm->memory.allocations = a;
    pthread_mutex_unlock(&yokei_process.lock);
    *memory_out = a->base[comm->rank];
    return YOKE_OK;
}

yoke_status yoke_comm_free(yoke_comm *comm, void *memory)
{
    if (!memory) return YOKE_OK;
    if (!comm) return yoke_fail(YOKE_EINVAL, "yoke_comm_free: no communicator");
    YOKE_TRY(yokei_check_process("yoke_comm_free", comm));
    pthread_mutex_lock(&yokei_process.lock);
    struct yokei_allocation **place = &comm->memory.allocations, *a;
    while (*place && (*place)->base[comm->rank] != memory) place = &(*place)->next;
    a = *place;
    if (a) *place = a->next;
    comm->memory.n_freed += a != NULL;
    uint32_t id = 0;
    uint64_t offset = 0;
    if (!a) yokei_find_allocation(comm, memory, 1, &id, &offset);
    pthread_mutex_unlock(&yokei_process.lock);
    if (id)
        return yoke_fail(
            YOKE_EINVAL,
            "yoke_comm_free: %p lies %llu bytes inside memory of communicator \"%s\" at %p: free that address",
            memory, (unsigned long long)offset, comm->name, (void *)((char *)memory - offset));
    if (!a)
        return yoke_fail(
            YOKE_EINVAL,
            "yoke_comm_free: %p was freed already, or is not what yoke_comm_alloc of communicator \"%s\" gave",
            memory, comm->name);
    /* Other ranks may still work on this rank's part. Each has its own mapping, so the memory exists until
       the last rank unmaps it. */
    unmap(comm, a);
    return YOKE_OK;
}

void yokei_free_allocations(yoke_comm *comm)
{
    for (struct yokei_allocation *a = comm->memory.allocations, *next; a; a = next) {
        next = a->next;
        unmap(comm, a);
    }
    comm->memory.allocations = NULL;
}
