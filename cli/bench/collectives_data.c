/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collectives that are measured: their data, the place of the data, the right results, and the statistics
 * of times.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench/collectives.h"
#include "core/base/base.h"
#include "core/base/times.h"

const struct bench_facts bench_facts[BENCH_N_KINDS] = {
    [BENCH_ALL_REDUCE] = { "all_reduce", .reduces = true, .can_be_in_place = true },
    [BENCH_REDUCE_SCATTER] = { "reduce_scatter", .reduces = true, .has_slices = true,
                               .can_be_in_place = true },
    [BENCH_ALL_GATHER] = { "all_gather", .has_slices = true, .can_be_in_place = true },
    [BENCH_BROADCAST] = { "broadcast", .has_root = true, .can_be_in_place = true },
    [BENCH_REDUCE] = { "reduce", .reduces = true, .has_root = true, .can_be_in_place = true },
    [BENCH_ALL_TO_ALL] = { "all_to_all", .has_slices = true },
    [BENCH_GATHER] = { "gather", .has_root = true, .has_slices = true, .can_be_in_place = true },
    [BENCH_SCATTER] = { "scatter", .has_root = true, .has_slices = true, .can_be_in_place = true },
    [BENCH_SENDRECV] = { .name = "sendrecv" },
    [BENCH_BARRIER] = { .name = "barrier" },
};

enum bench_kind bench_kind_of(const char *name)
{
    int kind = 0;
    while (kind < BENCH_N_KINDS && strcmp(name, bench_facts[kind].name) != 0) kind++;
    return (enum bench_kind)kind;
}

/* ---- sizes ---- */

void bench_case_size(struct bench_case *c, uint64_t bytes)
{
    const size_t unit = yoke_dtype_bytes(c->dtype) * (bench_facts[c->kind].has_slices ? (size_t)c->size : 1);
    c->count = c->kind == BENCH_BARRIER ? 0 : YOKE_MAX((size_t)bytes / unit, (size_t)1);
    c->bytes = c->count * unit;
}

double bench_bus_factor(const struct bench_case *c)
{
    const double p = c->size;
    switch (c->kind) {
    case BENCH_ALL_REDUCE: return 2 * (p - 1) / p;
    case BENCH_REDUCE_SCATTER:
    case BENCH_ALL_GATHER:
    case BENCH_ALL_TO_ALL:
    case BENCH_GATHER:
    case BENCH_SCATTER: return (p - 1) / p;
    case BENCH_BARRIER: return 0;
    default: return 1;
    }
}

double bench_touched_bytes(const struct bench_case *c)
{
    const double n = (double)c->bytes, p = c->size;
    switch (c->kind) {
    case BENCH_REDUCE_SCATTER: return n + n / p;
    case BENCH_ALL_GATHER: return n / p + (c->in_place ? n * (p - 1) / p : n);
    case BENCH_BROADCAST: return n / p + (c->in_place ? n * (p - 1) / p : n);
    case BENCH_REDUCE: return n + n / p;
    case BENCH_GATHER:
    case BENCH_SCATTER: return c->in_place ? 2 * n / p * (p - 1) / p : 2 * n / p;
    case BENCH_BARRIER: return 0;
    default: return 2 * n;
    }
}

double bench_crossing_bytes(const struct bench_case *c, const int host_of[])
{
    const double n = (double)c->bytes, p = c->size;
    int n_hosts = 0;
    double most = 0;
    for (int r = 0; r < c->size; r++) n_hosts = host_of[r] >= n_hosts ? host_of[r] + 1 : n_hosts;
    for (int h = 0; h < n_hosts; h++) {
        double here = 0, neighbours = 0; /* ranks on this host; ranks that send to another host */
        for (int r = 0; r < c->size; r++) {
            here += host_of[r] == h;
            neighbours += host_of[r] == h && host_of[(r + 1) % c->size] != h;
        }
        const double others = (p - here) / p; /* share of the slices that other hosts have */
        const bool has_root = bench_facts[c->kind].has_root && host_of[c->root] == h;
        double bytes = n; /* for broadcast and reduce */
        if (c->kind == BENCH_ALL_REDUCE) bytes = 2 * n * (n_hosts - 1) / n_hosts;
        if (c->kind == BENCH_REDUCE_SCATTER || c->kind == BENCH_ALL_GATHER) bytes = n * others;
        if (c->kind == BENCH_ALL_TO_ALL) bytes = n * here * others;
        if (c->kind == BENCH_GATHER || c->kind == BENCH_SCATTER) bytes = n * (has_root ? others : 1 - others);
        if (c->kind == BENCH_SENDRECV) bytes = n * neighbours;
        most = bytes > most ? bytes : most;
    }
    return n_hosts > 1 ? most : 0;
}

struct bench_places bench_places(const struct bench_case *c, char *send, char *recv)
{
    const size_t bytes = yoke_dtype_bytes(c->dtype), n = c->count, all = n * (size_t)c->size,
                 own = n * (size_t)c->rank * bytes;
    const bool is_root = c->rank == c->root;
    char *from = c->in_place ? recv : send;
    switch (c->kind) {
    case BENCH_ALL_REDUCE: return (struct bench_places){ from, recv, from, recv, n, n };
    case BENCH_REDUCE:
        return (struct bench_places){ from, is_root ? recv : NULL, from, recv, n, is_root ? n : 0 };
    case BENCH_REDUCE_SCATTER: {
        char *to = c->in_place ? recv + own : recv;
        return (struct bench_places){ from, to, from, to, all, n };
    }
    case BENCH_ALL_GATHER:
        if (c->in_place) from += own;
        return (struct bench_places){ from, recv, from, recv, n, all };
    case BENCH_BROADCAST:
        return (struct bench_places){ is_root ? from : NULL, recv, from, recv, is_root ? n : 0, n };
    case BENCH_GATHER:
        from = !is_root ? send : c->in_place ? recv + own : send;
        return (struct bench_places){ from, is_root ? recv : NULL, from, recv, n, is_root ? all : 0 };
    case BENCH_SCATTER: {
        char *to = c->in_place && is_root ? recv + own : recv;
        return (struct bench_places){ is_root ? from : NULL, to, from, to, is_root ? all : 0, n };
    }
    case BENCH_ALL_TO_ALL: return (struct bench_places){ send, recv, send, recv, all, all };
    case BENCH_SENDRECV: return (struct bench_places){ send, recv, send, recv, n, n };
    default: return (struct bench_places){ 0 };
    }
}

/* ---- data ---- */

/*
 * The data repeats after PERIOD elements. One period is computed, and the rest is compared with it. The
 * factor 45 of PERIOD divides no chunk's size.
 */
enum { PERIOD = 64 * 9 * 5 * 2, MARK = 0x5a };

static bool is_floating(yoke_dtype dtype) { return yokei_unit_roundoff(dtype) > 0; }

bool bench_has_rounding(const struct bench_case *c)
{
    const bool rounds = c->reduction == YOKE_SUM || c->reduction == YOKE_AVG || c->reduction == YOKE_PROD;
    return bench_facts[c->kind].reduces && is_floating(c->dtype) && rounds;
}

static double exact_value(const struct bench_case *c, int rank, size_t i)
{
    const size_t mixed = i * 7 + (size_t)rank * 13 + i / 64;
    const bool narrow = c->dtype == YOKE_I8
                        || c->dtype == YOKE_U8; /* sums of many ranks must fit into the type */
    const int range = narrow ? 3 : 9, below = c->dtype == YOKE_U8 ? 0 : range / 2;
    if (!bench_facts[c->kind].reduces) return (double)(mixed % 9);
    if (c->reduction == YOKE_PROD) return mixed % 5 == 0 && rank < 6 ? 2 : 1;
    if (c->reduction == YOKE_AVG) return (double)(mixed % 2 * (size_t)c->size);
    return (double)(mixed % (size_t)range) - below;
}

/*
 * The values are positive, so that nothing cancels. The error in units in the last place then comes from the
 * roundings alone.
 */
static double rough_value(const struct bench_case *c, int rank, size_t i)
{
    uint64_t x = ((uint64_t)rank * PERIOD + i + 1) * 0x9e3779b97f4a7c15ull;
    char stored[8];
    x = (x ^ x >> 31) * 0xbf58476d1ce4e5b9ull;
    const double drawn = (double)((x ^ x >> 29) >> 11) * 0x1p-53;
    yokei_store(c->dtype, stored, 0, c->reduction == YOKE_PROD ? 0.9 + 0.2 * drawn : 0.5 + drawn);
    return yokei_load(c->dtype, stored, 0);
}

static double value(const struct bench_case *c, enum bench_data data, int rank, size_t i)
{
    return data == BENCH_EXACT ? exact_value(c, rank, i % PERIOD) : rough_value(c, rank, i % PERIOD);
}

static double folded(const struct bench_case *c, enum bench_data data, size_t i)
{
    double result = value(c, data, 0, i);
    for (int r = 1; r < c->size; r++) {
        const double x = value(c, data, r, i);
        switch (c->reduction) {
        case YOKE_PROD: result *= x; break;
        case YOKE_MIN: result = x < result ? x : result; break;
        case YOKE_MAX: result = x > result ? x : result; break;
        default: result += x; break;
        }
    }
    return c->reduction == YOKE_AVG ? result / c->size : result;
}

/*
 * One period of the data of rank r, from element `first`. If r < 0, it is the data of the reduction over all
 * ranks.
 */
struct pattern {
    double value[PERIOD];
    char stored[PERIOD * 8];
};

static void pattern(const struct bench_case *c, enum bench_data data, int r, size_t first,
                    struct pattern *out)
{
    for (size_t i = 0; i < PERIOD; i++) {
        out->value[i] = r < 0 ? folded(c, data, first + i) : value(c, data, r, first + i);
        yokei_store(c->dtype, out->stored, (int64_t)i, out->value[i]);
    }
}

void bench_fill(const struct bench_case *c, enum bench_data data, char *send, char *recv)
{
    static struct pattern p;
    const struct bench_places at = bench_places(c, send, recv);
    const size_t bytes = yoke_dtype_bytes(c->dtype);
    memset(send, MARK, c->bytes + BENCH_GUARD);
    memset(recv, MARK, c->bytes + BENCH_GUARD);
    if (!at.n_input) return;
    pattern(c, data, c->rank, 0, &p);
    for (size_t i = 0; i < at.n_input; i += PERIOD)
        memcpy(at.input + i * bytes, p.stored, YOKE_MIN(at.n_input - i, (size_t)PERIOD) * bytes);
}

void bench_fill_neutral(const struct bench_case *c, char *send, char *recv)
{
    const size_t n = c->bytes / yoke_dtype_bytes(c->dtype);
    memset(send, 0, c->bytes);
    memset(recv, 0, c->bytes);
    if (bench_facts[c->kind].reduces && c->reduction == YOKE_PROD)
        for (size_t i = 0; i < n; i++)
            yokei_store(c->dtype, send, (int64_t)i, 1), yokei_store(c->dtype, recv, (int64_t)i, 1);
}

/* ---- the check ---- */

/* The distance from `x` to the next number of the type. */
static double last_place(yoke_dtype dtype, double x)
{
    int exponent;
    frexp(x, &exponent);
    return fmax(ldexp(yokei_unit_roundoff(dtype), exponent), 2 * yokei_underflow(dtype));
}

/*
 * The bound in units in the last place. A sum makes p - 1 roundings of at most u |ref| each, and u |ref| is
 * at most one unit. An average makes one more rounding.
 */
static double ulp_bound(const struct bench_case *c)
{
    const bool once = (c->dtype == YOKE_F16 || c->dtype == YOKE_BF16) && !c->native;
    return once ? 0.5 + c->size * 0x1p-12 : c->size;
}

static void verify_exact(const struct bench_case *c, const struct pattern *p, const char *got, size_t n,
                         struct bench_verdict *verdict)
{
    const size_t bytes = yoke_dtype_bytes(c->dtype);
    for (size_t i = 0; i < n; i += PERIOD) {
        const size_t m = YOKE_MIN(n - i, (size_t)PERIOD);
        if (!memcmp(got + i * bytes, p->stored, m * bytes)) continue;
        for (size_t j = 0; j < m; j++)
            verdict->n_wrong += memcmp(got + (i + j) * bytes, p->stored + j * bytes, bytes) != 0;
    }
}

static void verify_rounding(const struct bench_case *c, const struct pattern *p, const char *got, size_t n,
                            struct bench_verdict *verdict)
{
    static double unit[PERIOD];
    const double most = ulp_bound(c);
    for (size_t i = 0; i < PERIOD; i++) unit[i] = last_place(c->dtype, p->value[i]);
    for (size_t i = 0, j = 0; i < n; i++, j = j + 1 < PERIOD ? j + 1 : 0) {
        double error = fabs(yokei_load(c->dtype, got, (int64_t)i) - p->value[j]) / unit[j];
        if (isnan(error)) error = INFINITY;
        verdict->max_ulp = fmax(verdict->max_ulp, error);
        verdict->n_wrong += error > most;
    }
}

void bench_verify(const struct bench_case *c, enum bench_data data, const char *recv,
                  struct bench_verdict *verdict)
{
    static struct pattern p;
    const struct bench_places at = bench_places(c, NULL, (char *)recv);
    const size_t bytes = yoke_dtype_bytes(c->dtype), n = c->count;
    const char *behind = c->in_place || !at.n_result ? recv + c->bytes : at.result + at.n_result * bytes;
    /* There is one piece per source, or one reduced piece. */
    const bool gathers = c->kind == BENCH_ALL_GATHER || c->kind == BENCH_GATHER,
               exchanges = c->kind == BENCH_ALL_TO_ALL;
    const int n_pieces = !at.n_result ? 0 : gathers || exchanges ? c->size : 1;
    for (int i = 0; i < n_pieces; i++) {
        const bool slice = exchanges || c->kind == BENCH_REDUCE_SCATTER || c->kind == BENCH_SCATTER;
        const int left = (c->rank + c->size - 1) % c->size;
        const int source = bench_facts[c->kind].reduces ? -1
                           : gathers || exchanges       ? i
                           : c->kind == BENCH_SENDRECV  ? left
                                                        : c->root;
        pattern(c, data, source, slice ? n * (size_t)c->rank : 0, &p);
        (data == BENCH_EXACT ? verify_exact : verify_rounding)(c, &p, at.result + (size_t)i * n * bytes, n,
                                                               verdict);
    }
    for (int i = 0; i < BENCH_GUARD; i++)
        if (behind[i] != MARK) {
            verdict->n_wrong++;
            break;
        }
}

/* ---- times ---- */

struct bench_speed bench_summary(double *times, int n)
{
    if (n < 1) return (struct bench_speed){ 0 };
    yokei_sort(times, n);
    return (struct bench_speed){ n, times[n / 2], times[(n * 99 + 99) / 100 - 1], times[0] };
}

int bench_probe(double seconds, double budget) { return seconds * 16 < budget ? 16 : 0; }

void bench_turns_fit(double seconds, double budget, int most_samples, struct bench_turns *turns_out)
{
    const double least = 2e-3, most_warming = 25e-3, call = fmax(seconds, 1e-9), n = least / call;
    const int n_calls = n < 1 ? 1 : n > 10000 ? 10000 : (int)n, n_warming = (int)fmin(most_warming / call, 5);
    const double samples = budget / ((n_calls + n_warming) * call);
    *turns_out = (struct bench_turns){
        .n_warming = n_warming,
        .n_calls = n_calls,
        .n_samples = samples < 1              ? 1
                     : samples < 3            ? YOKE_MIN(3, most_samples)
                     : samples > most_samples ? most_samples
                                              : (int)samples,
    };
}
