/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uneven slices. Whatever the ranks' shares are, a sum in the order of the ranks must have the same bits as
 * with equal shares. This is tested with every algorithm, type and reduction, with counts around the number
 * of ranks and primes, and with random shares, some of them zero. The test also checks how the ring uses
 * shares, which calls refuse which shares, YOKE_SUM_SHARES, what split and shrink inherit, and
 * YOKE_REPRODUCIBLE.
 *   tests/ranks/shares [SETS [SEED]]
 */
#include "tests/ranks/ranks.h"

enum { SWAP_BYTES = 64 << 10 };    /* as in collectives/choice.c */
enum { MOST = 70000, GUARD = 16 }; /* elements */
static const char MODEL[] =
    "sync_us=1,shared_gbps=10,long_gbps=5,sum_gbps=10,message_us=50,message_gbps=1,oneshot_bytes=64";
static const yoke_dtype dtypes[] = { YOKE_F32, YOKE_BF16, YOKE_F64, YOKE_I32 };

static struct {
    char *send, *recv, *other;
} mine;

static const struct way {
    const char *name, *algorithm;
    bool no_shared, in_common;
    int least_hosts, most_hosts;
    size_t chunk;
    enum yoke_reproducible reproducible;
    enum yoke_accum accum;
} ways[] = {
    { "the library's choice, shape", NULL, false, false, 1, 99, 0, YOKE_REPRODUCIBLE_SHAPE, YOKE_ACCUM_F32 },
    { "slices", "slices", false, false, 1, 1, 0, YOKE_REPRODUCIBLE_RUN, YOKE_ACCUM_F32 },
    { "memory in common", NULL, false, true, 1, 99, 0, YOKE_REPRODUCIBLE_SHAPE, YOKE_ACCUM_F32 },
    { "memory in common, but for the result of one rank", "direct", false, true, 1, 1, 0,
      YOKE_REPRODUCIBLE_SHAPE, YOKE_ACCUM_F32 },
    { "messages, shape", NULL, true, false, 1, 99, 0, YOKE_REPRODUCIBLE_SHAPE, YOKE_ACCUM_F32 },
    { "exchange, chunks of 1984 bytes", "exchange", true, false, 1, 99, 1984, YOKE_REPRODUCIBLE_RUN,
      YOKE_ACCUM_NATIVE },
    { "hierarchy, shape, chunks of 4 KiB", "hierarchy", false, false, 1, 99, 4096, YOKE_REPRODUCIBLE_SHAPE,
      YOKE_ACCUM_F32 },
    { "hierarchy, chunks of 320 bytes", "hierarchy", false, false, 1, 99, 320, YOKE_REPRODUCIBLE_SHAPE,
      YOKE_ACCUM_NATIVE },
    /*
     * Sums that hosts swap are added in the order of the hosts, wherever the slice lies. Long sums are
     * swapped only between two hosts.
     */
    { "hierarchy", "hierarchy", false, false, 2, 99, 0, YOKE_REPRODUCIBLE_RUN, YOKE_ACCUM_F32 },
    { "hierarchy, chunks of 640 bytes", "hierarchy", false, false, 2, 99, 640, YOKE_REPRODUCIBLE_RUN,
      YOKE_ACCUM_NATIVE },
};

static yoke_status make(const struct way *way, const char *shares, yoke_comm **comm)
{
    struct yoke_comm_config config = YOKE_COMM_CONFIG_INIT;
    config.costs = MODEL;
    config.algorithm = way->algorithm;
    config.no_shared = way->no_shared;
    config.chunk_bytes = way->chunk;
    config.reproducible = way->reproducible;
    config.accum = way->accum;
    config.shares = shares;
    return yoke_comm_create(ranks_world, NULL, &config, comm);
}

static int n_hosts(void)
{
    int n = 0;
    for (int r = 0; r < ranks_size; r++) {
        int first = 1;
        for (int q = 0; q < r; q++) first &= !ranks_same_host(q, r);
        n += first;
    }
    return n;
}

/* Numbers whose sums and products round in every order. Different orders give different results. */
static void fill(yoke_dtype dtype, yoke_reduction op, char *data, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const uint64_t place[2] = { i, (uint64_t)ranks_rank };
        const double x = (double)(yokei_hash(place, sizeof place, 7) >> 40) / (1 << 23) - 1;
        yokei_store(dtype, data, (int64_t)i, dtype == YOKE_I32 ? x * 1e6 : op == YOKE_PROD ? 1 + x / 4 : x);
    }
}

static int differs(const char *what, const char *a, const char *b, size_t count, yoke_dtype dtype,
                   yoke_reduction op)
{
    const size_t bytes = yoke_dtype_bytes(dtype);
    if (!memcmp(a, b, count * bytes)) return 0;
    size_t at = 0;
    while (!memcmp(a + at * bytes, b + at * bytes, bytes)) at++;
    fprintf(stderr, "# rank %d: %s of %zu %s, %s: element %zu is %g with equal shares and %g with these\n",
            ranks_rank, what, count, yoke_dtype_name(dtype), yoke_reduction_name(op), at,
            yokei_load(dtype, a, (int64_t)at), yokei_load(dtype, b, (int64_t)at));
    return 1;
}

struct pair {
    yoke_comm *equal, *uneven;
    char *send[2], *recv[2];
}; /* the two communicators, and their buffers */

/* Make one call on both communicators, sometimes in place. */
static int same_bits(const struct pair *p, size_t count, yoke_dtype dtype, yoke_reduction op)
{
    const size_t bytes = yoke_dtype_bytes(dtype);
    const int in_place = draw(4) == 0, root = (int)draw((uint32_t)ranks_size);
    for (int side = 0; side < 2; side++) {
        char *recv = in_place ? p->send[side] : p->recv[side];
        memset(p->recv[side], 0x5a, (count + 1) * bytes);
        memset(p->send[side], 0x5a, (count + 1) * bytes);
        fill(dtype, op, p->send[side], count);
        RANKS_TRY(yoke_all_reduce(p->send[side], recv, count, dtype, op, side ? p->uneven : p->equal, NULL));
        for (size_t i = 0; i < bytes; i++)
            if (recv[count * bytes + i] != 0x5a) return 0; /* the call has written after the end */
        memcpy(side ? mine.other : mine.send, recv, count * bytes);
    }
    if (differs("all_reduce", mine.send, mine.other, count, dtype, op)) return 0;
    for (int side = 0; side < 2; side++) {
        fill(dtype, op, p->send[side], count);
        RANKS_TRY(yoke_reduce(p->send[side], p->recv[side], count, dtype, op, root,
                              side ? p->uneven : p->equal, NULL));
    }
    return ranks_rank != root || !differs("reduce", p->recv[0], p->recv[1], count, dtype, op);
}

/* Draw shares such as "3:0:1", the same on all ranks. */
static void draw_shares(char *text, size_t bytes, bool zeros)
{
    int sum = 0, used = 0;
    for (int r = 0; r < ranks_size; r++) {
        const int last = r == ranks_size - 1,
                  share = draw(3) == 0 && zeros && !(last && !sum) ? 0 : 1 + (int)draw(draw(4) ? 8 : 1000);
        sum += share;
        used += snprintf(text + used, bytes - (size_t)used, "%s%d", r ? ":" : "", share);
    }
}

static yoke_status open_pair(const struct way *way, const char *shares, struct pair *p)
{
    YOKE_TRY(make(way, "equal", &p->equal));
    YOKE_TRY(make(way, shares, &p->uneven));
    for (int side = 0; side < 2; side++) {
        yoke_comm *comm = side ? p->uneven : p->equal;
        if (way->in_common)
            YOKE_TRY(yoke_comm_alloc(comm, (MOST + GUARD) * 8, (void **)&p->send[side]));
        else
            p->send[side] = malloc((MOST + GUARD) * 8);
        const bool is_own = !way->in_common || (way->algorithm && ranks_rank == ranks_size - 1);
        if (way->in_common) YOKE_TRY(yoke_comm_alloc(comm, (MOST + GUARD) * 8, (void **)&p->recv[side]));
        if (is_own) p->recv[side] = malloc((MOST + GUARD) * 8);
    }
    return YOKE_OK;
}

static yoke_status close_pair(const struct way *way, struct pair *p)
{
    for (int side = 0; side < 2; side++) {
        if (!way->in_common) free(p->send[side]);
        if (!way->in_common || (way->algorithm && ranks_rank == ranks_size - 1)) free(p->recv[side]);
    }
    YOKE_TRY(yoke_comm_destroy(p->equal));
    return yoke_comm_destroy(p->uneven);
}

/* Whether a long sum of this communicator has uneven slices, according to its explanation. */
static int is_uneven(yoke_comm *comm, const char *why)
{
    struct yoke_comm_choice choice;
    RANKS_TRY(yoke_comm_explain(comm, "all_reduce", MOST, YOKE_F32, YOKE_SUM, &choice));
    if (!strstr(choice.why, why))
        fprintf(stderr, "# rank %d: \"%s\" has no \"%s\"\n", ranks_rank, choice.why, why);
    return strstr(choice.why, why) != NULL;
}

static int try_way(const struct way *way, const char *shares)
{
    const size_t p = (size_t)ranks_size,
                 counts[] = { 0, 1, p - 1, p, p + 1, 16 * p - 1, 127, 1009, 20011, 65521 };
    struct pair pair = { 0 };
    int ok = 1;
    RANKS_TRY(open_pair(way, shares, &pair));
    for (size_t c = 0; c < YOKE_COUNT(counts); c++)
        for (size_t d = 0; d < YOKE_COUNT(dtypes); d++)
            for (int op = 0; op < YOKE_N_REDUCTIONS; op++) {
                if (way->least_hosts == 2 && n_hosts() > 2 && counts[c] * 8 > SWAP_BYTES) continue;
                if (counts[c] > 20000 && draw(8)) continue; /* only some of the long counts */
                if (op == YOKE_AVG && dtypes[d] == YOKE_I32) continue;
                ok &= same_bits(&pair, counts[c], dtypes[d], (yoke_reduction)op);
            }
    RANKS_TRY(close_pair(way, &pair));
    return ok;
}

/* ---- the ring ---- */

/*
 * The ring. Given shares must change its slices, and measured shares must not. In both cases all ranks must
 * end with the same bits, and exact sums must be exact.
 */
static int the_ring(void)
{
    static const struct way ring = { .algorithm = "ring", .no_shared = true };
    char given[64] = "5", measured[64] = "measured:16";
    yoke_comm *comm[3];
    static float result[3][50021];
    const size_t count = YOKE_COUNT(result[0]);
    for (int r = 1; r < ranks_size; r++) strcat(given, ":2"), strcat(measured, ":4");
    RANKS_TRY(make(&ring, "equal", &comm[0]) || make(&ring, measured, &comm[1])
              || make(&ring, given, &comm[2]));
    int ok = is_uneven(comm[1], "measured speeds do not count") && is_uneven(comm[2], "by the shares given");
    for (int i = 0; i < 3; i++) {
        fill(YOKE_F32, YOKE_SUM, (char *)result[i], count);
        RANKS_TRY(yoke_all_reduce(result[i], result[i], count, YOKE_F32, YOKE_SUM, comm[i], NULL));
        uint64_t hash = yokei_hash(result[i], sizeof result[i], 1), first = hash;
        PMPI_Bcast(&first, 8, MPI_BYTE, 0, ranks_world);
        ok = ok && first == hash;
    }
    ok = ok && !memcmp(result[0], result[1], sizeof result[0]);
    /* With two ranks a + b equals b + a, so only more ranks can show another order. */
    if (ranks_size > 2) ok = ok && memcmp(result[0], result[2], sizeof result[0]) != 0;
    for (size_t i = 0; i < count; i++) result[0][i] = (float)((i + (size_t)ranks_rank) % 100);
    RANKS_TRY(yoke_all_reduce(result[0], result[0], count, YOKE_F32, YOKE_SUM, comm[2], NULL));
    for (size_t i = 0; i < count; i++) {
        float want = 0;
        for (int r = 0; r < ranks_size; r++) want += (float)((i + (size_t)r) % 100);
        ok = ok && result[0][i] == want;
    }
    for (int i = 0; i < 3; i++) RANKS_TRY(yoke_comm_destroy(comm[i]));
    return ok;
}

/* ---- what is read, compared and inherited ---- */

static int refusals(void)
{
    static const struct way plain = { .algorithm = NULL };
    static const char *const bad[] = { "three", "1:",  ":1",        "1::1",       "-1:2",  "1001:1", "1*0",
                                       "1*x",   "1;1", "measured:", "measured:x", "0.5:1", "1 :1" };
    char text[64];
    yoke_comm *comm = NULL;
    int ok = 1;
    for (size_t i = 0; i < YOKE_COUNT(bad); i++)
        ok = ok && make(&plain, bad[i], &comm) == YOKE_ECONFIG && strstr(yoke_last_error(), "shares");
    snprintf(text, sizeof text, "0*%d", ranks_size);
    ok = ok && make(&plain, text, &comm) == YOKE_ECONFIG && strstr(yoke_last_error(), "nobody");
    snprintf(text, sizeof text, "1*%d", ranks_size - 1);
    ok = ok && make(&plain, text, &comm) == YOKE_ECONFIG && strstr(yoke_last_error(), "for each");
    snprintf(text, sizeof text, "1*%d", ranks_size + 1);
    ok = ok && make(&plain, text, &comm) == YOKE_ECONFIG
         && strstr(yoke_last_error(), "more than one for each");
    snprintf(text, sizeof text, "%d:1*%d", ranks_rank == 1 ? 3 : 2, ranks_size - 1);
    return ok && make(&plain, text, &comm) == YOKE_EMISMATCH && strstr(yoke_last_error(), "shares");
}

static int has_shares(yoke_comm *comm, const char *text)
{
    struct yoke_comm_choice choice;
    RANKS_TRY(yoke_comm_explain(comm, "all_reduce", MOST, YOKE_F32, YOKE_SUM, &choice));
    if (strcmp(choice.shares, text))
        fprintf(stderr, "# rank %d: shares \"%s\", wanted \"%s\"\n", ranks_rank, choice.shares, text);
    return !strcmp(choice.shares, text);
}

static int sums(yoke_comm *comm)
{
    static float data[60000];
    float want = 0, one = 1;
    for (size_t i = 0; i < YOKE_COUNT(data); i++) data[i] = 1;
    RANKS_TRY(yoke_all_reduce(&one, &want, 1, YOKE_F32, YOKE_SUM, comm, NULL));
    RANKS_TRY(yoke_all_reduce(data, data, YOKE_COUNT(data), YOKE_F32, YOKE_SUM, comm, NULL));
    for (size_t i = 0; i < YOKE_COUNT(data); i++)
        if (data[i] != want) return 0;
    return want == (float)yoke_comm_size(comm);
}

/*
 * The text of the shares 1, 2, 3, … for the ranks of the job with r % modulo == rest. If `backwards`, the
 * last rank comes first.
 */
static void list(char *text, size_t bytes, int modulo, int rest, bool backwards)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < ranks_size; i++) {
        const int r = backwards ? ranks_size - 1 - i : i;
        if (r % modulo != rest) continue;
        snprintf(text + used, bytes - used, "%s%d", used ? ":" : "", r + 1);
        used = strlen(text);
    }
}

/*
 * One share for each rank of the job. Communicators of some of the ranks, in any order, must use the shares
 * of their ranks.
 */
static int of_the_job(void)
{
    static const struct way plain = { .algorithm = NULL };
    char text[256], part[256];
    yoke_comm *world = NULL, *half = NULL, *own = NULL, *made = NULL;
    MPI_Comm mpi;
    int ok = 1;
    list(text, sizeof text, 1, 0, false);
    setenv("YOKE_SUM_SHARES", text, 1);
    RANKS_TRY(make(&plain, NULL, &world));
    ok = has_shares(world, text) && sums(world);
    list(part, sizeof part, 2, ranks_rank % 2, true);
    if (!strchr(part, ':')) strcpy(part, "1"); /* a rank alone */
    RANKS_TRY(yoke_comm_split(world, ranks_rank % 2, -ranks_rank, NULL, &half));
    ok = ok && has_shares(half, part) && sums(half);
    MPI_Comm_split(ranks_world, ranks_rank % 2, -ranks_rank, &mpi);
    struct yoke_comm_config config = YOKE_COMM_CONFIG_INIT;
    config.costs = MODEL;
    RANKS_TRY(yoke_comm_create(mpi, NULL, &config, &own));
    ok = ok && has_shares(own, part);
    RANKS_TRY(make(&plain, "equal", &made));
    snprintf(part, sizeof part, ranks_size == 2 ? "1:1" : "1*%d", ranks_size);
    ok = ok && has_shares(made, part);
    setenv("YOKE_SUM_SHARES", "1:2:3:4:5:6:7:8:9", 1);
    yoke_comm *none = NULL;
    ok = ok && make(&plain, NULL, &none) == YOKE_ECONFIG && strstr(yoke_last_error(), "of the job");
    unsetenv("YOKE_SUM_SHARES");
    RANKS_TRY(yoke_comm_destroy(made) || yoke_comm_destroy(own) || yoke_comm_destroy(half)
              || yoke_comm_destroy(world));
    MPI_Comm_free(&mpi);
    return ok;
}

/*
 * A part in which all members have share 0, because the ranks that sum are elsewhere. Then all its members
 * sum. Also a part without the last rank.
 */
static int inherited(void)
{
    static const struct way plain = { .algorithm = NULL };
    char text[256] = "1", zeros[256];
    yoke_comm *world = NULL, *part = NULL, *less = NULL;
    const int last = ranks_size - 1;
    for (int r = 1; r < ranks_size; r++) strcat(text, ":0");
    RANKS_TRY(make(&plain, text, &world));
    RANKS_TRY(yoke_comm_split(world, ranks_rank > 0, 0, NULL, &part));
    snprintf(zeros, sizeof zeros, ranks_rank == 0 || last == 1 ? "1" : last == 2 ? "1:1" : "1*%d", last);
    int ok = has_shares(part, zeros) && sums(part) && sums(world);
    RANKS_TRY(yoke_comm_destroy(part));
    if (n_hosts() == 1 && ranks_size > 2) {
        list(text, sizeof text, 1, 0, false);
        RANKS_TRY(yoke_comm_destroy(world) || make(&plain, text, &world));
        if (ranks_rank < last) {
            text[strlen(text) - 2] = '\0';
            RANKS_TRY(yoke_comm_shrink(world, &last, 1, &less));
            ok = ok && has_shares(less, text) && sums(less);
            RANKS_TRY(yoke_comm_destroy(less));
        }
    }
    RANKS_TRY(yoke_comm_destroy(world));
    return ok;
}

/*
 * If the kernel may put ranks on each other's processors, they count as equal, however busy the machine is.
 * Nothing is measured for them.
 */
static int measured(void)
{
    yoke_comm *comm = NULL, *again = NULL;
    struct yoke_comm_choice choice;
    char all[64][sizeof choice.shares];
    RANKS_TRY(yoke_comm_create(ranks_world, NULL, NULL, &comm));
    RANKS_TRY(yoke_comm_explain(comm, "all_reduce", MOST, YOKE_F32, YOKE_SUM, &choice));
    RANKS_TRY(yoke_all_gather(choice.shares, all, sizeof choice.shares, YOKE_U8, comm, NULL));
    int ok = sums(comm) && !strstr(choice.shares, "measured");
    for (int r = 0; r < ranks_size; r++) ok = ok && !strcmp(all[r], choice.shares);
    struct yoke_comm_config config = YOKE_COMM_CONFIG_INIT;
    config.shares = choice.shares; /* the shares from the explanation can be given */
    RANKS_TRY(yoke_comm_create(ranks_world, NULL, &config, &again));
    ok = ok && has_shares(again, choice.shares);
    RANKS_TRY(yoke_comm_destroy(again) || yoke_comm_destroy(comm));
    return ok;
}

/* YOKE_REPRODUCIBLE counts, whatever the configuration says. */
static int reproducible_by_variable(void)
{
    static const struct {
        const char *variable, *config_algorithm;
        enum yoke_reproducible config;
        const char *runs;
    } cases[] = {
        { "shape", NULL, YOKE_REPRODUCIBLE_RUN, "exchange" },
        { "run", NULL, YOKE_REPRODUCIBLE_SHAPE, "ring" },
        { "run", "ring", YOKE_REPRODUCIBLE_SHAPE, "ring" },
        { "", NULL, YOKE_REPRODUCIBLE_SHAPE, "exchange" },
        { "shape", "ring", YOKE_REPRODUCIBLE_RUN, NULL },
        { "off", NULL, YOKE_REPRODUCIBLE_RUN, NULL },
    };
    int ok = 1;
    for (size_t i = 0; i < YOKE_COUNT(cases); i++) {
        const struct way way = { .algorithm = cases[i].config_algorithm,
                                 .no_shared = true,
                                 .reproducible = cases[i].config };
        yoke_comm *comm = NULL;
        struct yoke_comm_choice choice;
        setenv("YOKE_REPRODUCIBLE", cases[i].variable, 1);
        const yoke_status status = make(&way, "equal", &comm);
        unsetenv("YOKE_REPRODUCIBLE");
        ok = ok && (cases[i].runs != NULL) == (status == YOKE_OK);
        if (status) continue;
        RANKS_TRY(yoke_comm_explain(comm, "all_reduce", MOST, YOKE_F32, YOKE_SUM, &choice));
        ok = ok && cases[i].runs && !strcmp(choice.algorithm, cases[i].runs);
        RANKS_TRY(yoke_comm_destroy(comm));
    }
    return ok;
}

int main(int argc, char **argv)
{
    const int n_sets = argc > 1 ? atoi(argv[1]) : 2;
    ranks_start();
    begin_drawing(argc > 2 ? argv[2] : NULL);
    mine.send = malloc((MOST + GUARD) * 8);
    mine.other = malloc((MOST + GUARD) * 8);
    for (size_t w = 0; w < YOKE_COUNT(ways); w++) {
        /* Otherwise something else would run, such as a ring. */
        if (n_hosts() < ways[w].least_hosts || n_hosts() > ways[w].most_hosts) continue;
        for (int s = 0; s < n_sets; s++) {
            char shares[256];
            draw_shares(shares, sizeof shares,
                        ways[w].least_hosts < 2); /* if no column sums, a ring runs, too */
            ranks_check(try_way(&ways[w], shares), "shares %s give the same bits as equal ones: %s", shares,
                        ways[w].name);
        }
    }
    ranks_check(the_ring(), "a ring goes by given shares and not by measured ones");
    ranks_check(refusals(), "bad shares are refused, and different ones");
    ranks_check(of_the_job(), "YOKE_SUM_SHARES are those of the job's ranks");
    ranks_check(inherited(), "split and shrink inherit their members' shares");
    ranks_check(measured(), "ranks that may run on the same processors are alike");
    ranks_check(reproducible_by_variable(), "YOKE_REPRODUCIBLE counts");
    free(mine.send);
    free(mine.other);
    return ranks_end();
}
