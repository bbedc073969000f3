/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the ranks divide the sums of long data. Shares are small integers that all ranks agree on when a
 * communicator is made. They are given by the user, or are the ranks' speeds (speeds.c). The bounds of all
 * slices follow from them in integer arithmetic, the same on all ranks.
 */
#include <stdio.h>
#include <string.h>

#include "collectives/choice/shares.h"

enum { MOST_SHARE = 1000, FINEST = 256 };

/* ---- the text ---- */

static yoke_status refuse(const char *text, const char *at, const char *why)
{
    return yoke_fail(
        YOKE_ECONFIG,
        "shares \"%.80s\": at \"%.40s\": %s; wanted whole numbers from 0 to %d, such as 3:1:1:1 or 3:1*3, or equal, or auto",
        text, at, why, MOST_SHARE);
}

/* Read a number, or N*K. Returns where the next one begins; NULL: the text is not valid. */
static const char *read_one(const char *at, long *share_out, long *times_out)
{
    char *end;
    if (*at < '0' || *at > '9') return NULL;
    *share_out = strtol(at, &end, 10);
    *times_out = 1;
    if (*end == '*') {
        if (end[1] < '0' || end[1] > '9') return NULL;
        *times_out = strtol(end + 1, &end, 10);
    }
    if (*share_out > MOST_SHARE || *times_out < 1 || (*end && *end != ':' && *end != ',')) return NULL;
    return end;
}

static yoke_status read_list(struct yokei_shares *s, const char *text, const char *list, int n)
{
    uint64_t sum = 0;
    int r = 0;
    for (const char *at = list; at; at = *at ? at + 1 : NULL) {
        long share = 0, times = 0;
        const char *end = read_one(at, &share, &times);
        if (!end) return refuse(text, at, "this is no share");
        if (times > n - r)
            return yoke_fail(YOKE_ECONFIG, "shares \"%.80s\": these are more than one for each of %d ranks%s",
                             text, n, s->of_the_job ? " of the job" : "");
        for (; times > 0; times--) s->wanted[r++] = (uint32_t)share;
        sum += (uint64_t)share;
        at = end;
    }
    if (r < n)
        return yoke_fail(YOKE_ECONFIG, "shares \"%.80s\": %d for %d ranks%s; give one for each", text, r, n,
                         s->of_the_job ? " of the job" : "");
    return sum ? YOKE_OK : refuse(text, list, "all are 0, so nobody would sum");
}

yoke_status yokei_shares_read(yoke_comm *comm, const char *text)
{
    static const char measured[] = "measured:";
    struct yokei_shares *s = &comm->shares;
    s->of_the_job = !text || !*text;
    if (s->of_the_job) text = getenv("YOKE_SUM_SHARES");
    if (!text || !*text || !strcmp(text, "auto")) return YOKE_OK;
    const int n = s->of_the_job ? yokei_process.n_world : comm->size;
    s->wanted = calloc((size_t)n, sizeof *s->wanted);
    if (!s->wanted) return yoke_fail(YOKE_ENOMEM, "no memory for the shares of %d ranks", n);
    s->n_wanted = n;
    if (!strcmp(text, "equal")) {
        for (int r = 0; r < n; r++) s->wanted[r] = 1;
        return YOKE_OK;
    }
    s->wanted_as_speeds = !strncmp(text, measured, sizeof measured - 1);
    return read_list(s, text, text + (s->wanted_as_speeds ? sizeof measured - 1 : 0), n);
}

uint32_t yokei_shares_hash(const yoke_comm *comm)
{
    const struct yokei_shares *s = &comm->shares;
    if (!s->wanted) return 0;
    return YOKE_MAX(yokei_hash32(s->wanted, (size_t)s->n_wanted * sizeof *s->wanted,
                                 1u + 2 * s->of_the_job + s->wanted_as_speeds),
                    1u);
}

void yokei_shares_text(const yoke_comm *comm, char *text_out, size_t bytes)
{
    const struct yokei_shares *s = &comm->shares;
    size_t used = 0;
    int n;
    yokei_text(text_out, bytes, "%s", s->source == YOKEI_SHARES_MEASURED ? "measured:" : "");
    for (int r = 0; r < comm->size; r += n) {
        char one[32];
        for (n = 1; r + n < comm->size && s->of[r + n] == s->of[r];) n++;
        if (n < 3) n = 1;
        if (n > 1)
            yokei_text(one, sizeof one, "%s%u*%d", r ? ":" : "", s->of[r], n);
        else
            yokei_text(one, sizeof one, "%s%u", r ? ":" : "", s->of[r]);
        used = strlen(text_out);
        if (used + strlen(one) >= bytes) {
            text_out[0] = '\0';
            return;
        }
        yokei_text(text_out + used, bytes - used, "%s", one);
    }
}

/* ---- the slices ---- */

static void add_up(const uint32_t *shares, int n, uint32_t *before_out)
{
    before_out[0] = 0;
    for (int i = 0; i < n; i++) before_out[i + 1] = before_out[i] + shares[i];
}

/*
 * Slices from speeds, for the algorithm `slices`, in which a rank does more than its sums. A part is an n-th
 * of the data. Each of n ranks reads and writes 4 (n - 1) parts to publish and take data. All sums together
 * read and write n (n + 2) parts. All ranks finish at the same time T = (sums + k fixed) / (sum of their
 * speeds), where k ranks sum. A rank that has not finished its publishing and taking by then sums nothing.
 */
static void add_up_with_copies(const uint32_t *speeds, int n, uint32_t *before_out)
{
    const uint64_t fixed = 4 * ((uint64_t)n - 1), sums = (uint64_t)n * ((uint64_t)n + 2);
    uint64_t least = 0, rate, work, widest = 1; /* a rank sums if its speed exceeds `least` */
    for (bool again = true; again;) {
        rate = work = 0;
        for (int i = 0; i < n; i++)
            if (speeds[i] > least) rate += speeds[i], work += fixed;
        work += sums;
        again = false;
        for (int i = 0; i < n; i++)
            if (speeds[i] > least && speeds[i] * work <= fixed * rate) least = speeds[i], again = true;
    }
    for (int i = 0; i < n; i++)
        if (speeds[i] > least) widest = YOKE_MAX(widest, speeds[i] * work - fixed * rate);
    before_out[0] = 0;
    for (int i = 0; i < n; i++) {
        const uint64_t w = speeds[i] > least
                               ? YOKE_MAX((speeds[i] * work - fixed * rate) * FINEST / widest, (uint64_t)1)
                               : 0;
        before_out[i + 1] = before_out[i] + (uint32_t)w;
    }
}

static void slices_of(const struct yokei_shares *s, const uint32_t *shares, int n, uint32_t *before_out)
{
    if (s->source == YOKEI_SHARES_MEASURED)
        add_up_with_copies(shares, n, before_out);
    else
        add_up(shares, n, before_out);
}

/* The slices of the columns of these groups. A column is as slow as its slowest rank. */
static void find_columns(const struct yokei_shares *s, const struct yokei_hosts *h, uint32_t *room,
                         uint32_t *columns_out)
{
    const int n = h->n ? h->least : 1;
    for (int c = 0; c < n; c++) {
        room[c] = h->n ? s->of[yokei_rank_on(h, 0, c)] : 1;
        for (int host = 1; host < h->n; host++) room[c] = YOKE_MIN(room[c], s->of[yokei_rank_on(h, host, c)]);
    }
    uint32_t most = 0;
    for (int c = 0; c < n; c++) most = YOKE_MAX(most, room[c]);
    if (most)
        slices_of(s, room, n, columns_out);
    else
        add_up(room, n, columns_out);
}

static bool are_equal(const uint32_t *shares, int n)
{
    for (int r = 1; r < n; r++)
        if (shares[r] != shares[0]) return false;
    return true;
}

/*
 * Compute the slices from s->of and s->source. All shares may be 0, if the ranks that would sum are in
 * another communicator. Then all ranks get equal shares.
 */
static void divide(yoke_comm *comm)
{
    struct yokei_shares *s = &comm->shares;
    const int n = comm->size;
    if (are_equal(s->of, n)) {
        for (int r = 0; r < n; r++) s->of[r] = 1;
        s->source = YOKEI_SHARES_EQUAL;
        return;
    }
    /* s->plain is not in use yet, and serves as room */
    find_columns(s, &comm->hosts, s->plain, s->columns);
    find_columns(s, &comm->islands, s->plain, s->island_columns);
    add_up(s->of, n, s->plain);
    slices_of(s, s->of, n, s->staged);
}

void yokei_shares_settle(yoke_comm *comm, const uint32_t speeds[])
{
    struct yokei_shares *s = &comm->shares;
    s->source = s->wanted ? s->wanted_as_speeds ? YOKEI_SHARES_MEASURED : YOKEI_SHARES_GIVEN
                          : YOKEI_SHARES_MEASURED;
    for (int r = 0; r < comm->size; r++)
        s->of[r] = s->wanted ? s->wanted[s->of_the_job ? comm->peers[r].info.world_rank : r]
                   : speeds  ? speeds[r]
                             : 1;
    divide(comm);
}

void yokei_shares_inherit(yoke_comm *comm, const yoke_comm *parent)
{
    struct yokei_shares *s = &comm->shares;
    if (s->wanted && !s->of_the_job) {
        yokei_shares_settle(comm, NULL);
        return;
    }
    s->source = parent->shares.source;
    for (int r = 0; r < comm->size; r++) {
        int q = 0;
        while (q < parent->size - 1 && parent->set_rank[q] != comm->set_rank[r]) q++;
        s->of[r] = parent->shares.of[q];
    }
    divide(comm);
}

yoke_status yokei_shares_begin(yoke_comm *comm)
{
    const size_t size = (size_t)comm->size;
    uint32_t *room = calloc(5 * size + 4, sizeof *room);
    if (!room) return yoke_fail(YOKE_ENOMEM, "yoke_comm_create: no memory for %zu ranks", size);
    comm->shares = (struct yokei_shares){ .of = room,
                                          .plain = room + size,
                                          .staged = room + 2 * size + 1,
                                          .columns = room + 3 * size + 2,
                                          .island_columns = room + 4 * size + 3 };
    for (size_t r = 0; r < size; r++) room[r] = 1;
    return YOKE_OK;
}

void yokei_shares_end(yoke_comm *comm)
{
    free(comm->shares.of);
    free(comm->shares.wanted);
    comm->shares = (struct yokei_shares){ 0 };
}
