/* SPDX-License-Identifier: Apache-2.0 */
/*
 * all_reduce and reduce_scatter. The data are such that every order of summation gives the exact result.
 * Counts are around the number of ranks, primes, and large ones. Every type and reduction is tested, in
 * place, and with uneven slices. One test has rounding, and compares with its bound. Each test runs over
 * shared memory and over MPI, with both algorithms, and with small chunks and the default.
 */
#include <math.h>

#include "tests/ranks/ranks.h"

static const yoke_dtype dtypes[] = { YOKE_F32, YOKE_F16, YOKE_BF16, YOKE_F64, YOKE_I32 };

/*
 * Element i of rank r is a function of (PLACE(i) + 13 r) modulo period(op). So all expected values of an
 * operation are in a table of `period` entries. For sums, small integers, so that sums of 8 ranks are exact
 * in every type. For prod, 1 or 2. For avg, multiples of the number of ranks.
 */
#define PLACE(i) ((i)*7 + (i) / 64)
enum { LONGEST_PERIOD = 61 };

static unsigned period(yoke_reduction op)
{
    switch (op) {
    case YOKE_PROD: return 3;
    case YOKE_AVG: return 4;
    case YOKE_SUM: return 17;
    default: return LONGEST_PERIOD;
    }
}

static double value(yoke_reduction op, int r, unsigned place)
{
    const unsigned rest = (place + (unsigned)r * 13) % period(op);
    switch (op) {
    case YOKE_PROD: return rest == 0 ? 2 : 1;
    case YOKE_AVG: return (double)rest * ranks_size;
    case YOKE_SUM: return (double)rest - 8;
    default: return (double)rest - 30;
    }
}

static double expected(yoke_reduction op, unsigned place)
{
    double result = value(op, 0, place);
    for (int r = 1; r < ranks_size; r++) {
        const double x = value(op, r, place);
        switch (op) {
        case YOKE_SUM:
        case YOKE_AVG: result += x; break;
        case YOKE_PROD: result *= x; break;
        case YOKE_MIN: result = x < result ? x : result; break;
        default: result = x > result ? x : result; break;
        }
    }
    return op == YOKE_AVG ? result / ranks_size : result;
}

/* An element of any type. */
union cell {
    uint16_t two;
    uint32_t four;
    uint64_t eight;
};

/* Elements 0 to count - 1 of this rank. */
static void fill(char *to, size_t count, yoke_dtype dtype, yoke_reduction op)
{
    union cell table[LONGEST_PERIOD];
    const unsigned m = period(op);
    for (unsigned k = 0; k < m; k++) yokei_store(dtype, &table[k], 0, value(op, ranks_rank, k));
    for (size_t i = 0; i < count; i++) {
        const union cell *one = &table[(uint32_t)PLACE(i) % m];
        switch (yoke_dtype_bytes(dtype)) {
        case 2: ((uint16_t *)to)[i] = one->two; break;
        case 4: ((uint32_t *)to)[i] = one->four; break;
        default: ((uint64_t *)to)[i] = one->eight; break;
        }
    }
}

/*
 * The first element of `got` that is not as expected; count if there is none. got[0] is element `first` of
 * the result. An element with other bits than those of the table may still be equal, as -0 is.
 */
static size_t first_wrong(const char *got, size_t first, size_t count, yoke_dtype dtype, yoke_reduction op)
{
    union cell table[LONGEST_PERIOD];
    const unsigned m = period(op);
    for (unsigned k = 0; k < m; k++) yokei_store(dtype, &table[k], 0, expected(op, k));
    for (size_t i = 0; i < count; i++) {
        const unsigned k = (uint32_t)PLACE(first + i) % m;
        bool same;
        switch (yoke_dtype_bytes(dtype)) {
        case 2: same = ((const uint16_t *)got)[i] == table[k].two; break;
        case 4: same = ((const uint32_t *)got)[i] == table[k].four; break;
        default: same = ((const uint64_t *)got)[i] == table[k].eight; break;
        }
        if (!same && yokei_load(dtype, got, (int64_t)i) != expected(op, k)) return i;
    }
    return count;
}

struct buffers {
    char *send, *recv;
};

static int all_reduce_is_exact(yoke_comm *comm, struct buffers *b, size_t count, yoke_dtype dtype,
                               yoke_reduction op, int in_place)
{
    const size_t bytes = yoke_dtype_bytes(dtype);
    char *recv = in_place ? b->send : b->recv;
    memset(b->recv, 0x5a, (count + 1) * bytes);
    fill(b->send, count, dtype, op);
    char after[8];
    memcpy(after, recv + count * bytes, bytes);
    RANKS_TRY(yoke_all_reduce(b->send, recv, count, dtype, op, comm, NULL));
    const size_t i = first_wrong(recv, 0, count, dtype, op);
    if (i < count) {
        fprintf(stderr, "# rank %d: %s %s count %zu: element %zu is %g, not %g\n", ranks_rank,
                yoke_dtype_name(dtype), yoke_reduction_name(op), count, i,
                yokei_load(dtype, recv, (int64_t)i), expected(op, (unsigned)(PLACE(i) % period(op))));
        return 0;
    }
    return !memcmp(after, recv + count * bytes, bytes); /* nothing is written after the end */
}

/*
 * Types and reductions: with YOKE_SOAK every pair, else a part of them, which is 1/`part`. Each turn and each
 * number of ranks takes another part.
 */
static int all_types(yoke_comm *comm, struct buffers *b, size_t count, int part, int turn)
{
    int ok = 1;
    if (getenv("YOKE_SOAK")) part = 1;
    for (size_t d = 0; d < YOKE_COUNT(dtypes); d++)
        for (int op = 0; op < YOKE_N_REDUCTIONS; op++)
            if (!(op == YOKE_AVG && dtypes[d] == YOKE_I32) && ((int)d + op + turn + ranks_size) % part == 0)
                ok &= all_reduce_is_exact(comm, b, count, dtypes[d], (yoke_reduction)op,
                                          (int)(count + (size_t)op) % 2);
    return ok;
}

/* counts[r] for uneven slices, some of them empty. */
static size_t uneven(size_t counts[], size_t most)
{
    size_t total = 0;
    for (int r = 0; r < ranks_size; r++)
        total += counts[r] = r % 3 == 1 ? 0 : most / (size_t)(r + 1) + (size_t)r;
    return total;
}

static int reduce_scatter_is_exact(yoke_comm *comm, struct buffers *b, size_t most, yoke_dtype dtype,
                                   int even, int in_place)
{
    size_t counts[64], before = 0;
    size_t total = uneven(counts, most);
    if (even) {
        for (int r = 0; r < ranks_size; r++) counts[r] = most;
        total = most * (size_t)ranks_size;
    }
    for (int r = 0; r < ranks_rank; r++) before += counts[r];
    const size_t mine = counts[ranks_rank], bytes = yoke_dtype_bytes(dtype);
    fill(b->send, total, dtype, YOKE_SUM);
    char *recv = in_place ? b->send + before * bytes : b->recv;
    if (even)
        RANKS_TRY(yoke_reduce_scatter(b->send, recv, most, dtype, YOKE_SUM, comm, NULL));
    else
        RANKS_TRY(yoke_reduce_scatter_v(b->send, recv, counts, dtype, YOKE_SUM, comm, NULL));
    return first_wrong(recv, before, mine, dtype, YOKE_SUM) == mine;
}

/* Deterministic noise for the tests of rounding: numbers from -1 to 1 with full mantissas. */
static float noise(int r, size_t i)
{
    uint32_t x = (uint32_t)i * 2654435761u + (uint32_t)r * 40503u + 12345u;
    x ^= x >> 15, x *= 2246822519u, x ^= x >> 13, x *= 3266489917u, x ^= x >> 16;
    return (float)(int32_t)x * 0x1p-31f;
}

/* The noise of rank r as the type keeps it. */
static double kept_noise(yoke_dtype dtype, int r, size_t i)
{
    union cell one;
    yokei_store(dtype, &one, 0, noise(r, i));
    return yokei_load(dtype, &one, 0);
}

/*
 * What is expected of sums of noise in one type, computed at the first use. Every communicator is compared
 * with it.
 */
enum { ROUNDED = 5003, IN_ORDER = 48000 };
static const yoke_reduction order_ops[] = { YOKE_SUM, YOKE_AVG, YOKE_PROD };
static struct sums {
    bool known;
    double sum[ROUNDED], magnitude[ROUNDED];              /* (5003): exact, of all ranks */
    union cell mine[IN_ORDER];                            /* (48000) of the type: this rank's */
    union cell in_order[YOKE_COUNT(order_ops)][IN_ORDER]; /* (3, 48000) of the type: results */
} sums_of[YOKE_N_DTYPES];

static const struct sums *sums(yoke_dtype dtype)
{
    struct sums *s = &sums_of[dtype];
    if (s->known) return s;
    s->known = true;
    for (size_t i = 0; i < IN_ORDER; i++) {
        float narrow[YOKE_COUNT(order_ops)] = { 0 };
        double wide[YOKE_COUNT(order_ops)] = { 0 }, sum = 0, magnitude = 0;
        for (int r = 0; r < ranks_size; r++) {
            const double one = kept_noise(dtype, r, i);
            sum += one;
            magnitude += fabs(one);
            for (size_t o = 0; o < YOKE_COUNT(order_ops); o++) {
                const bool times = order_ops[o] == YOKE_PROD;
                narrow[o] = r ? (times ? narrow[o] * (float)one : narrow[o] + (float)one) : (float)one;
                wide[o] = r ? (times ? wide[o] * one : wide[o] + one) : one;
            }
        }
        if (i < ROUNDED) s->sum[i] = sum, s->magnitude[i] = magnitude;
        yokei_store(dtype, s->mine, (int64_t)i, noise(ranks_rank, i));
        for (size_t o = 0; o < YOKE_COUNT(order_ops); o++) {
            if (order_ops[o] == YOKE_AVG) narrow[o] /= (float)ranks_size, wide[o] /= ranks_size;
            yokei_store(dtype, s->in_order[o], (int64_t)i, dtype == YOKE_F64 ? wide[o] : (double)narrow[o]);
        }
    }
    return s;
}

/*
 * The results of all ranks must have the same bits, and differ from the exact sum by no more than the bound
 * in include/yoke/comm.h.
 */
static int rounds_as_promised(yoke_comm *comm, struct buffers *b, yoke_dtype dtype, enum yoke_accum accum)
{
    const struct sums *exact = sums(dtype);
    const size_t bytes = ROUNDED * yoke_dtype_bytes(dtype);
    memcpy(b->send, exact->mine, bytes);
    RANKS_TRY(yoke_all_reduce(b->send, b->recv, ROUNDED, dtype, YOKE_SUM, comm, NULL));
    const int narrow = dtype == YOKE_F16 || dtype == YOKE_BF16;
    const double u = yokei_unit_roundoff(dtype), n = ranks_size - 1, u32 = 0x1p-24,
                 tiny = yokei_underflow(dtype);
    int ok = 1;
    for (size_t i = 0; i < ROUNDED && ok; i++) {
        const double sum = exact->sum[i], magnitude = exact->magnitude[i];
        const double error = fabs(yokei_load(dtype, b->recv, (int64_t)i) - sum);
        double bound = n * u / (1 - n * u) * magnitude;
        if (narrow && accum == YOKE_ACCUM_F32)
            bound = 1.01 * n * u32 * magnitude + u * (fabs(sum) + n * u32 * magnitude) + tiny;
        if (narrow && accum == YOKE_ACCUM_NATIVE) bound = n * u * magnitude * (1 + n * u) + n * tiny;
        ok = error <= bound;
        if (!ok)
            fprintf(stderr, "# rank %d: element %zu of %s: error %g, bound %g\n", ranks_rank, i,
                    yoke_dtype_name(dtype), error, bound);
    }
    const uint64_t hash = yokei_hash(b->recv, bytes, 1);
    uint64_t first = hash;
    PMPI_Bcast(&first, 8, MPI_BYTE, 0, ranks_world);
    return ok && first == hash;
}

/*
 * A NaN in any rank's data must win. -0 is less than +0. Infinities of both signs give NaN. All ranks get the
 * same bits. Without YOKE_SOAK every second reduction is tried; each turn tries other ones.
 */
static int specials(yoke_comm *comm, struct buffers *b, yoke_dtype dtype, int turn)
{
    enum { N = 64 };
    const int part = getenv("YOKE_SOAK") ? 1 : 2;
    for (int op = 0; op < YOKE_N_REDUCTIONS; op++) {
        if ((op + turn) % part) continue;
        for (int i = 0; i < N; i++) {
            const int mine = i % ranks_size == ranks_rank;
            const double x = i < 16   ? (mine ? NAN : 1.0)
                             : i < 32 ? (mine ? -0.0 : 0.0)
                             : i < 48 ? (mine ? INFINITY : -INFINITY)
                                      : (mine ? 1.0 : 1.0);
            yokei_store(dtype, b->send, i, x);
        }
        RANKS_TRY(yoke_all_reduce(b->send, b->recv, N, dtype, (yoke_reduction)op, comm, NULL));
        for (int i = 0; i < N; i++) {
            const double got = yokei_load(dtype, b->recv, i);
            int ok = 1;
            if (i < 16)
                ok = isnan(got);
            else if (i < 32 && op == YOKE_MIN)
                ok = got == 0 && signbit(got);
            else if (i < 32 && op == YOKE_MAX)
                ok = got == 0 && (ranks_size == 1 || !signbit(got));
            else if (i >= 32 && i < 48 && ranks_size > 1 && (op == YOKE_SUM || op == YOKE_AVG))
                ok = isnan(got);
            else if (i >= 32 && i < 48 && op == YOKE_MAX)
                ok = got == INFINITY;
            if (!ok) {
                fprintf(stderr, "# rank %d: %s %s: element %d is %g\n", ranks_rank, yoke_dtype_name(dtype),
                        yoke_reduction_name((yoke_reduction)op), i, got);
                return 0;
            }
        }
        uint64_t hash = yokei_hash(b->recv, N * yoke_dtype_bytes(dtype), 1), first = hash;
        PMPI_Bcast(&first, 8, MPI_BYTE, 0, ranks_world);
        if (first != hash) return 0;
    }
    return 1;
}

/*
 * With the option reproducible, every part of any buffer must be, bit for bit, the sum in the order of the
 * ranks, rounded once.
 */
static int is_in_order(yoke_comm *comm, struct buffers *b, size_t count, yoke_dtype dtype, size_t o)
{
    const size_t bytes = yoke_dtype_bytes(dtype);
    const struct sums *known = sums(dtype);
    size_t counts[64], before = 0;
    for (int r = 0; r < ranks_size; r++)
        counts[r] = count / (size_t)ranks_size + ((size_t)r < count % (size_t)ranks_size);
    for (int r = 0; r < ranks_rank; r++) before += counts[r];
    memcpy(b->send, known->mine, count * bytes);
    RANKS_TRY(yoke_all_reduce(b->send, b->recv, count, dtype, order_ops[o], comm, NULL));
    char *slice = b->recv + (count + 8) * bytes;
    RANKS_TRY(yoke_reduce_scatter_v(b->send, slice, counts, dtype, order_ops[o], comm, NULL));
    const char *want = (const char *)known->in_order[o];
    for (size_t i = 0; i < count; i++) {
        const bool mine = i >= before && i < before + counts[ranks_rank];
        if (memcmp(want + i * bytes, b->recv + i * bytes, bytes)
            || (mine && memcmp(want + i * bytes, slice + (i - before) * bytes, bytes))) {
            fprintf(stderr, "# rank %d: element %zu of %zu %s, %s, is not in order\n", ranks_rank, i, count,
                    yoke_dtype_name(dtype), yoke_reduction_name(order_ops[o]));
            return 0;
        }
    }
    return 1;
}

static void try_reproducible(struct buffers *b)
{
    static const struct {
        const char *name, *algorithm;
        bool no_shared;
        size_t chunk;
        enum yoke_accum accum;
    } ways[] = {
        { "shared memory", NULL, false, 0, YOKE_ACCUM_F32 },
        { "slices", "slices", false, 0, YOKE_ACCUM_NATIVE },
        { "MPI", NULL, true, 0, YOKE_ACCUM_F32 },
        { "MPI, chunks of 192 bytes", NULL, true, 192, YOKE_ACCUM_NATIVE },
        { "MPI, chain, chunks of 1 KiB", "chain", true, 1024, YOKE_ACCUM_NATIVE },
        { "hosts, chunks of 1 KiB", NULL, false, 1024, YOKE_ACCUM_NATIVE },
    };
    for (size_t w = 0; w < YOKE_COUNT(ways); w++) {
        struct yoke_comm_config config = YOKE_COMM_CONFIG_INIT;
        config.reproducible = YOKE_REPRODUCIBLE_SHAPE;
        config.algorithm = ways[w].algorithm;
        config.no_shared = ways[w].no_shared;
        config.chunk_bytes = ways[w].chunk;
        config.accum = ways[w].accum;
        yoke_comm *comm;
        if (!ranks_check(!yoke_comm_create(ranks_world, NULL, &config, &comm),
                         "a reproducible communicator, %s", ways[w].name))
            return;
        /* The first and the fourth; in `make soak` all. */
        static const size_t counts[] = { 10, 1009, 1, IN_ORDER, 20011 };
        int ok = 1;
        for (size_t d = 0; d < 4; d++)
            for (size_t c = 0; c < YOKE_COUNT(counts); c += getenv("YOKE_SOAK") ? 1 : 3) {
                /* the long count for every second type, other ones for each way and each number of ranks */
                if (c && !getenv("YOKE_SOAK") && (d + w + (size_t)ranks_size) % 2) continue;
                for (size_t o = 0; o < YOKE_COUNT(order_ops); o++)
                    ok = ok && is_in_order(comm, b, counts[c], dtypes[d], o);
            }
        ranks_check(ok, "every sum, average and product is in the order of the ranks, %s", ways[w].name);
        ranks_check(!yoke_comm_destroy(comm), "destroyed");
    }
    struct yoke_comm_config config = YOKE_COMM_CONFIG_INIT;
    config.reproducible = YOKE_REPRODUCIBLE_SHAPE;
    config.algorithm = "ring";
    yoke_comm *comm;
    ranks_check(yoke_comm_create(ranks_world, NULL, &config, &comm) == YOKE_EINVAL,
                "reproducible by a ring is refused");
}

/* Whether the choice fits the hosts: several hosts, on which some ranks share memory. */
static int is_chosen(yoke_comm *comm, bool no_shared)
{
    struct yoke_comm_choice choice;
    int shares = 0, apart = 0;
    for (int r = 1; r < ranks_size; r++)
        for (int q = 0; q < r; q++) *(ranks_same_host(q, r) ? &shares : &apart) = 1;
    const int wanted = shares && apart && !no_shared;
    for (size_t count = 1; count < 2000000; count *= 41) {
        RANKS_TRY(yoke_comm_explain(comm, "all_reduce", count, YOKE_F32, YOKE_SUM, &choice));
        if ((strcmp(choice.algorithm, "hierarchy") == 0) != wanted) return 0;
        RANKS_TRY(yoke_comm_explain(comm, "all_gather", count, YOKE_F32, YOKE_SUM, &choice));
        if ((strcmp(choice.algorithm, "hierarchy") == 0) != wanted) return 0;
    }
    return 1;
}

static const struct variant {
    const char *name, *algorithm;
    bool no_shared;
    size_t chunk;
} variants[] = {
    { "shared memory", NULL, false, 0 },
    { "shared memory, slices", "slices", false, 0 },
    { "shared memory, oneshot where it fits", "oneshot", false, 0 },
    { "shared memory, ring, chunks of 256 bytes", "ring", false, 256 },
    { "hosts that share memory inside, chunks of 192 bytes", "hierarchy", false, 192 },
    { "MPI, chain", "chain", true, 0 },
    { "MPI, exchange, chunks of 512 bytes", "exchange", true, 512 },
    { "MPI, ring", "ring", true, 0 },
    { "MPI, doubling, chunks of 4096 bytes", "doubling", true, 4096 },
};

static void try_variant(const struct variant *variant, struct buffers *b)
{
    const size_t p = (size_t)ranks_size, counts[] = { 0, 1, p - 1, p, p + 1, 127, 1009, 20011 };
    struct yoke_comm_config config = YOKE_COMM_CONFIG_INIT;
    config.algorithm = variant->algorithm;
    config.no_shared = variant->no_shared;
    config.chunk_bytes = variant->chunk;
    config.name = "test";
    yoke_comm *comm = NULL, *native = NULL;
    if (!ranks_check(!yoke_comm_create(ranks_world, NULL, &config, &comm), "a communicator over %s",
                     variant->name))
        return;
    for (size_t c = 0; c < YOKE_COUNT(counts); c++)
        ranks_check(all_types(comm, b, counts[c], counts[c] == 1009 ? 2 : 6, (int)c),
                    "all_reduce of %zu, %s, over %s", counts[c],
                    getenv("YOKE_SOAK") ? "every type and reduction" : "types and reductions", variant->name);
    if (!variant->algorithm)
        ranks_check(is_chosen(comm, variant->no_shared), "planned by the hosts, over %s", variant->name);
    int ok = 1;
    for (size_t d = 0; d < YOKE_COUNT(dtypes); d++)
        for (int i = 0; i < 4; i++)
            ok &= reduce_scatter_is_exact(comm, b, 3 + 1000 * d, dtypes[d], i & 1, i & 2);
    ranks_check(ok, "reduce_scatter, even and uneven, in place and not, over %s", variant->name);
    ok = 1;
    for (size_t d = 0; d < 4; d++) ok &= rounds_as_promised(comm, b, dtypes[d], YOKE_ACCUM_F32);
    ranks_check(ok, "sums that round, accum f32: bound and equal bits, over %s", variant->name);
    ok = 1;
    for (size_t d = 0; d < 4; d++)
        ok &= specials(comm, b, dtypes[d], (int)(d + (size_t)ranks_size + (size_t)(variant - variants)));
    ranks_check(ok, "NaN, infinities and zeros of both signs, over %s", variant->name);
    config.accum = YOKE_ACCUM_NATIVE;
    if (!ranks_check(!yoke_comm_create(ranks_world, NULL, &config, &native),
                     "a second communicator, accum native"))
        return;
    ok = 1;
    for (size_t d = 0; d < 4; d++) ok &= rounds_as_promised(native, b, dtypes[d], YOKE_ACCUM_NATIVE);
    ranks_check(ok, "sums that round, accum native: bound and equal bits, over %s", variant->name);
    ranks_check(all_types(native, b, 1009, 2, 1), "exact sums, accum native, over %s", variant->name);
    ranks_check(!yoke_comm_destroy(native) && !yoke_comm_destroy(comm), "destroyed");
}

/* Calls that must be refused before any message is sent. */
static void refusals(struct buffers *b)
{
    yoke_comm *comm;
    if (!ranks_check(!yoke_comm_create(ranks_world, NULL, NULL, &comm), "a communicator")) return;
    ranks_check(yoke_all_reduce(b->send, b->recv, 4, YOKE_I32, YOKE_AVG, comm, NULL) == YOKE_EUNSUPPORTED,
                "avg of i32 is refused");
    ranks_check(yoke_all_reduce(b->send, b->recv, 4, YOKE_U8, YOKE_AVG, comm, NULL) == YOKE_EUNSUPPORTED,
                "avg of u8 is refused");
    ranks_check(yoke_all_reduce(b->send, b->send + 4, 4, YOKE_F32, YOKE_SUM, comm, NULL) == YOKE_EINVAL,
                "overlap is refused");
    ranks_check(yoke_all_reduce(NULL, b->recv, 4, YOKE_F32, YOKE_SUM, comm, NULL) == YOKE_EINVAL,
                "NULL is refused");
    ranks_check(yoke_all_reduce(b->send + 1, b->recv, 4, YOKE_F32, YOKE_SUM, comm, NULL) == YOKE_EINVAL,
                "misalignment is refused");
    ranks_check(yoke_broadcast(b->send, b->recv, 4, YOKE_F32, ranks_size, comm, NULL) == YOKE_EINVAL,
                "a root that is not there is refused");
    ranks_check(!yoke_all_reduce(NULL, NULL, 0, YOKE_F32, YOKE_SUM, comm, NULL), "count 0 needs no buffers");
    ranks_check(all_reduce_is_exact(comm, b, 100, YOKE_F32, YOKE_SUM, 0), "the communicator still works");
    ranks_check(!yoke_comm_destroy(comm), "destroyed");
    struct yoke_comm_config config = YOKE_COMM_CONFIG_INIT;
    config.timeout_ms = 1000 + ranks_rank;
    const yoke_status expected_status = ranks_size == 1 ? YOKE_OK : YOKE_EMISMATCH;
    const yoke_status got = yoke_comm_create(ranks_world, NULL, &config, &comm);
    ranks_check(got == expected_status, "different configurations are refused on every rank");
    if (!got) yoke_comm_destroy(comm);
    config.timeout_ms = 0;
    config.algorithm = ranks_rank == ranks_size - 1 ? "rign" : "ring";
    ranks_check(yoke_comm_create(ranks_world, NULL, &config, &comm) == YOKE_ECONFIG,
                "one rank's wrong configuration fails all");
}

int main(int argc, char **argv)
{
    const size_t longest = argc > 1 ? (size_t)atol(argv[1]) : 0; /* one more sum, long and in f32 */
    const size_t room = YOKE_MAX(longest, 200000) * 4 + 64;
    struct buffers b = { malloc(room), malloc(room) };
    ranks_start();
    for (size_t v = 0; v < YOKE_COUNT(variants); v++) try_variant(&variants[v], &b);
    try_reproducible(&b);
    refusals(&b);
    if (longest) {
        yoke_comm *comm;
        if (ranks_check(!yoke_comm_create(ranks_world, NULL, NULL, &comm), "a communicator")) {
            ranks_check(all_reduce_is_exact(comm, &b, longest, YOKE_F32, YOKE_SUM, 0),
                        "all_reduce of %zu f32", longest);
            ranks_check(all_reduce_is_exact(comm, &b, longest / 2, YOKE_BF16, YOKE_SUM, 1),
                        "all_reduce of %zu bf16, in place", longest / 2);
            ranks_check(!yoke_comm_destroy(comm), "destroyed");
        }
    }
    free(b.send);
    free(b.recv);
    return ranks_end();
}
