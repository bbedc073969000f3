/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yoke_comm_shrink between ranks that do not all share memory. They exchange files in the run directory,
 * which outlive every rank and every connection. A rank's post is a file. The decision is one file with all
 * posts that it rests on:
 *   shrink-UID-NUMBER-RANK  a rank's post
 *   shrink-UID-NUMBER       the decision
 * A file is complete when it has its name. Posts get their names by rename. The decision gets its name by
 * link, which fails if there is a decision already. So all ranks read the same decision, on a file server
 * too, and need to ask no other rank for it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "collectives/making/shrink_files.h"
#include "collectives/faults/far.h"

/* Comes before the posts. The checksum covers all that follows it. */
struct head {
    uint64_t magic, sum;
    uint32_t uid, number;
    int32_t rank, n_posts; /* the rank whose post it is, or that proposed the decision */
};
static const uint64_t MAGIC = 0x316b6e6972687379ull; /* "yshrink1" */
enum { PATH_BYTES = 4096 + 64 };

static void name_post(const yoke_comm *comm, uint32_t number, int rank, char path[PATH_BYTES])
{
    yokei_text(path, PATH_BYTES, "%s/shrink-%08x-%u-%d", yokei_process.run_dir, comm->uid, number, rank);
}

static void name_decision(const yoke_comm *comm, uint32_t number, char path[PATH_BYTES])
{
    yokei_text(path, PATH_BYTES, "%s/shrink-%08x-%u", yokei_process.run_dir, comm->uid, number);
}

static uint64_t sum_of(const struct head *head, const struct yokei_shrink_post posts[])
{
    const uint64_t first = yokei_hash(&head->uid, sizeof *head - offsetof(struct head, uid), 0);
    return yokei_hash(posts, (size_t)head->n_posts * sizeof posts[0], first);
}

static bool write_all(int fd, const void *data, size_t bytes)
{
    while (bytes) {
        const ssize_t n = write(fd, data, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        data = (const char *)data + n;
        bytes -= (size_t)n;
    }
    return true;
}

/* Write a file under a temporary name. The caller gives it its name, or removes it. */
static yoke_status write_draft(const yoke_comm *comm, uint32_t number, const struct yokei_shrink_post posts[],
                               int n_posts, const char *path, char draft[PATH_BYTES])
{
    struct head head = {
        .magic = MAGIC, .uid = comm->uid, .number = number, .rank = comm->rank, .n_posts = n_posts
    };
    head.sum = sum_of(&head, posts);
    yokei_text(draft, PATH_BYTES, "%s.%d", path, yokei_process.world_rank);
    const int fd = open(draft, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool written = fd >= 0 && write_all(fd, &head, sizeof head)
                   && write_all(fd, posts, (size_t)n_posts * sizeof posts[0]);
    int error = errno;
    if (fd >= 0 && close(fd) && written)
        error = errno, written = false; /* here a file server reports that it is full */
    if (written) return YOKE_OK;
    unlink(draft);
    return yoke_fail(YOKE_EIO, "%s: cannot be written: %s", draft, strerror(error));
}

/*
 * Read `n_posts` posts of this communicator and number. False: they are not there, or belong to another job.
 */
static bool read_posts(const yoke_comm *comm, uint32_t number, const char *path,
                       struct yokei_shrink_post posts[], int n_posts, int *rank_out)
{
    struct head head;
    const size_t bytes = (size_t)n_posts * sizeof posts[0];
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return false;
    const bool read_them = read(fd, &head, sizeof head) == (ssize_t)sizeof head
                           && pread(fd, posts, bytes, sizeof head) == (ssize_t)bytes;
    close(fd);
    if (!read_them || head.magic != MAGIC || head.uid != comm->uid || head.number != number
        || head.n_posts != n_posts)
        return false;
    *rank_out = head.rank;
    return head.rank >= 0 && head.rank < comm->size && head.sum == sum_of(&head, posts);
}

bool yokei_shrink_has_folder(yoke_comm *comm)
{
    for (int r = 0; r < comm->size; r++)
        if (r != comm->rank && !yokei_record_of(comm, r, yokei_now_ns())) return false;
    return yokei_process.run_dir[0] != '\0';
}

yoke_status yokei_shrink_write(const yoke_comm *comm, const struct yokei_shrink_post *post)
{
    char path[PATH_BYTES], draft[PATH_BYTES];
    const uint32_t number = atomic_load(&post->number);
    name_post(comm, number, comm->rank, path);
    YOKE_TRY(write_draft(comm, number, post, 1, path, draft));
    return rename(draft, path) ? yoke_fail(YOKE_EIO, "%s: cannot be written: %s", path, strerror(errno))
                               : YOKE_OK;
}

bool yokei_shrink_read(const yoke_comm *comm, int r, uint32_t number, struct yokei_shrink_post *post_out)
{
    char path[PATH_BYTES];
    struct yokei_shrink_post post;
    int rank = -1;
    name_post(comm, number, r, path);
    if (!read_posts(comm, number, path, &post, 1, &rank) || rank != r
        || post.info.nonce != comm->peers[r].info.nonce)
        return false;
    *post_out = post;
    return true;
}

yoke_status yokei_shrink_propose(const yoke_comm *comm, uint32_t number,
                                 const struct yokei_shrink_post posts[])
{
    char path[PATH_BYTES], draft[PATH_BYTES];
    name_decision(comm, number, path);
    YOKE_TRY(write_draft(comm, number, posts, comm->size, path, draft));
    /* if a file server's answer was lost, this is EEXIST too; then all ranks read the decision */
    const int failed = link(draft, path), error = errno;
    unlink(draft);
    return failed && error != EEXIST ? yoke_fail(YOKE_EIO, "%s: cannot be made: %s", path, strerror(error))
                                     : YOKE_OK;
}

bool yokei_shrink_decided(const yoke_comm *comm, uint32_t number, struct yokei_shrink_post posts_out[],
                          int *winner_out)
{
    char path[PATH_BYTES];
    name_decision(comm, number, path);
    if (access(path, R_OK)) return false;
    const size_t bytes = (size_t)comm->size * sizeof posts_out[0];
    struct yokei_shrink_post *posts = aligned_alloc(_Alignof(struct yokei_shrink_post), bytes);
    const bool decided = posts && read_posts(comm, number, path, posts, comm->size, winner_out)
                         && posts[*winner_out].info.nonce == comm->peers[*winner_out].info.nonce;
    if (decided) memcpy(posts_out, posts, bytes);
    free(posts);
    return decided;
}
