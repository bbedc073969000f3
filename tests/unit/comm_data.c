/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random calls of all collectives with data, replayed for all ranks in one process: up to 12 hosts of up to 4
 * ranks, with islands, shares, small chunks, fewer cores than ranks, and device memory that the host does not
 * see. All data must be right. Each way to cross between hosts must occur. YOKE_SOAK=1 makes 20 times as many
 * calls with a new seed. comm_steps.c checks the steps without data.
 *   tests/unit/comm_data [SEED]
 */
#include "tests/unit/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "collectives/algorithms/algorithms.h"
#include "collectives/choice/shares.h"
#include "collectives/replay/replay.h"

enum {
    MOST_HOSTS = 12,
    MOST_ON_HOST = 4,
    MOST = MOST_HOSTS * MOST_ON_HOST,
    MODELS = 130,
    CALLS = 8,
    GUARD = 64
};

static uint64_t state, seed = 20240607;
static bool seed_is_given;

static uint32_t draw(uint32_t below)
{
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (uint32_t)(state >> 32) % below;
}

/* ---- ranks ---- */

struct layout {
    int size, n_hosts, host_of[MOST];
    char labels[MOST][2], shares[8 * MOST];
    const char *island_of[MOST];
    struct yoke_comm_config config;
    bool staged;
    int n_cores;
};

static void draw_shares(struct layout *l)
{
    const bool measured = draw(2);
    strcpy(l->shares, measured ? "measured:" : "");
    for (int q = 0; q < l->size; q++) {
        const uint32_t share = measured ? 1 + draw(16) : q == l->size - 1 ? 1 : draw(4);
        sprintf(l->shares + strlen(l->shares), "%s%u", q ? ":" : "", share);
    }
    l->config.shares = l->shares;
}

static void draw_layout(struct layout *l)
{
    *l = (struct layout){ .staged = !draw(4), .n_cores = !draw(3), .config = YOKE_COMM_CONFIG_INIT };
    const int n_hosts = draw(8) ? 1 + (int)draw(MOST_HOSTS) : 1, even = (int)draw(3);
    l->n_hosts = n_hosts;
    for (int h = 0; h < n_hosts; h++) {
        const int n = even ? even : 1 + (int)draw(MOST_ON_HOST);
        for (int i = 0; i < n; i++) l->host_of[l->size++] = h;
    }
    if (l->size == 1) l->host_of[l->size++] = 0;
    if (!draw(3)) /* ranks of hosts in no order */
        for (int q = l->size - 1; q > 0; q--) {
            const int p = (int)draw((uint32_t)q + 1), host = l->host_of[q];
            l->host_of[q] = l->host_of[p];
            l->host_of[p] = host;
        }
    const uint32_t n_labels = 1 + draw(3);
    for (int q = 0; q < l->size; q++) {
        l->labels[q][0] = (char)('a' + draw(n_labels));
        l->island_of[q] = l->labels[q];
    }
    static const size_t chunks[] = { 0, 64, 64, 256, 1024 };
    l->config.island = (enum yoke_island)draw(YOKE_ISLAND_OFF + 1);
    if (l->config.island == YOKE_ISLAND_OFF && draw(2)) l->config.island = YOKE_ISLAND_VENDOR;
    l->config.reproducible = draw(3) ? YOKE_REPRODUCIBLE_RUN : YOKE_REPRODUCIBLE_SHAPE;
    l->config.accum = draw(3) ? YOKE_ACCUM_F32 : YOKE_ACCUM_NATIVE;
    l->config.chunk_bytes = chunks[draw(YOKE_COUNT(chunks))];
    if (!draw(3)) draw_shares(l);
}

/* ---- values ---- */

/* Whether the call sums values whose sum depends on the order, and whether some values are NaN. */
struct values {
    bool rounds, has_nan;
    size_t salt; /* differs between calls, so that data of an earlier call is wrong */
};

static bool is_float(yoke_dtype dtype) { return dtype <= YOKE_F64; }

/* Small whole numbers, whose sums and products are exact in every type, or numbers that round. */
static double value(const struct yokei_replay_call *call, const struct values *v, int rank, size_t element)
{
    const size_t r = (size_t)rank, i = element + v->salt;
    if (v->has_nan && i % 97 == 13 && r == i % 5) return (double)NAN;
    if (v->rounds) return sin((double)(i * 31 + r * 17 + 1)) * (r % 3 ? 1 : 300);
    switch (call->reduction) {
    case YOKE_PROD: return (i + 3 * r) % 11 ? 1 : 2;
    case YOKE_MIN:
    case YOKE_MAX: return (double)(1 + (i * 7 + r * 29) % 101);
    default: return (double)((i * 7 + r * 5) % 3);
    }
}

static void store(yoke_dtype dtype, void *array, size_t i, double x)
{
    char *at = (char *)array + i * yoke_dtype_bytes(dtype);
    const int64_t n = is_float(dtype) ? 0 : (int64_t)x;
    switch (dtype) {
    case YOKE_I32: memcpy(at, &(int32_t){ (int32_t)n }, 4); return;
    case YOKE_I64: memcpy(at, &n, 8); return;
    case YOKE_I8: memcpy(at, &(int8_t){ (int8_t)n }, 1); return;
    case YOKE_U8: memcpy(at, &(uint8_t){ (uint8_t)n }, 1); return;
    case YOKE_F64: memcpy(at, &x, 8); return;
    default: yoke_convert(YOKE_F32, &(float){ (float)x }, dtype, at, 1);
    }
}

static double load(yoke_dtype dtype, const void *array, size_t i)
{
    const char *at = (const char *)array + i * yoke_dtype_bytes(dtype);
    double x;
    yoke_convert(dtype, at, YOKE_F64, &x, 1);
    return x;
}

static double reduce(yoke_reduction reduction, bool narrow, double a, double b)
{
    if (isnan(a) || isnan(b)) return (double)NAN;
    const double x = reduction == YOKE_MIN    ? fmin(a, b)
                     : reduction == YOKE_MAX  ? fmax(a, b)
                     : reduction == YOKE_PROD ? a * b
                                              : a + b;
    return narrow ? (double)(float)x : x;
}

/* ---- a call's buffers ---- */

struct buffers {
    int size;
    size_t slices[MOST + 1], total;
    size_t n_send[MOST], n_recv[MOST], first[MOST]; /* first: where recv begins in the expected whole */
    void *send[MOST], *recv[MOST], *expected;
};

static bool has_root(enum yokei_kind kind)
{
    return kind == YOKEI_REDUCE || kind == YOKEI_BROADCAST || kind == YOKEI_GATHER || kind == YOKEI_SCATTER;
}

static bool reduces(enum yokei_kind kind)
{
    return kind == YOKEI_ALL_REDUCE || kind == YOKEI_REDUCE || kind == YOKEI_REDUCE_SCATTER;
}

static bool has_slices(enum yokei_kind kind)
{
    return kind == YOKEI_REDUCE_SCATTER || kind == YOKEI_ALL_GATHER || kind == YOKEI_GATHER
           || kind == YOKEI_SCATTER || kind == YOKEI_ALL_TO_ALL;
}

static void *allocate(const struct yokei_replay_call *call, size_t n)
{
    const size_t bytes = n * yoke_dtype_bytes(call->dtype);
    char *memory = malloc(bytes + GUARD);
    assert_non_null(memory);
    memset(memory, 0xa5, bytes + GUARD);
    return memory;
}

static void set_lengths(const struct yokei_replay_call *call, struct buffers *b)
{
    const bool sliced = has_slices(call->kind);
    b->slices[0] = 0;
    for (int q = 0; q < b->size; q++)
        b->slices[q + 1] = b->slices[q] + (!sliced ? 0 : call->counts ? call->counts[q] : call->count);
    b->total = sliced ? b->slices[b->size] : call->count;
    for (int q = 0; q < b->size; q++) {
        const size_t own = b->slices[q + 1] - b->slices[q];
        const bool at_end = !has_root(call->kind) || q == call->root, /* has the whole data */
            gathers = call->kind == YOKEI_ALL_GATHER || call->kind == YOKEI_GATHER,
                   scatters = call->kind == YOKEI_REDUCE_SCATTER || call->kind == YOKEI_SCATTER;
        b->n_send[q] = gathers ? own : at_end || call->kind == YOKEI_REDUCE ? b->total : 0;
        b->n_recv[q] = scatters ? own : at_end || call->kind == YOKEI_BROADCAST ? b->total : 0;
        b->first[q] = scatters ? b->slices[q] : 0;
    }
}

/* The data to send; half of the calls that may be in place are. */
static void fill(struct yokei_replay_call *call, const struct values *v, struct buffers *b)
{
    const bool may = call->kind == YOKEI_ALL_REDUCE || call->kind == YOKEI_REDUCE
                     || call->kind == YOKEI_BROADCAST;
    const bool in_place = may && draw(2);
    set_lengths(call, b);
    for (int q = 0; q < b->size; q++) {
        b->send[q] = b->n_send[q] ? allocate(call, b->n_send[q]) : NULL;
        for (size_t i = 0; i < b->n_send[q]; i++) store(call->dtype, b->send[q], i, value(call, v, q, i));
        b->recv[q] = in_place && b->n_send[q] && b->n_recv[q] ? b->send[q] : allocate(call, b->n_recv[q]);
    }
    b->expected = allocate(call, b->total);
    call->send = (const void *const *)b->send;
    call->recv = (void *const *)b->recv;
}

static void release(struct buffers *b)
{
    for (int q = 0; q < b->size; q++) {
        if (b->recv[q] != b->send[q]) free(b->recv[q]);
        free(b->send[q]);
    }
    free(b->expected);
}

/* ---- what is right ---- */

/* Element i of the sum, in the order of the ranks, rounded once. */
static double sum_of(const struct yokei_replay_call *call, const struct values *v, int size, size_t i)
{
    const bool narrow = is_float(call->dtype) && call->dtype != YOKE_F64;
    double sum = 0;
    for (int r = 0; r < size; r++) {
        double x = value(call, v, r, i);
        if (narrow) {
            char rounded[8];
            store(call->dtype, rounded, 0, x);
            x = load(call->dtype, rounded, 0);
        }
        sum = r ? reduce(call->reduction, narrow, sum, x) : x;
    }
    if (call->reduction != YOKE_AVG) return sum;
    return narrow ? (double)((float)sum / (float)size) : sum / size;
}

/* The whole data that ranks receive, or that their slices are of. In all_to_all it is rank p's. */
static void expect(const struct yokei_replay_call *call, const struct values *v, struct buffers *b, int p)
{
    for (int q = 0; has_slices(call->kind) && !reduces(call->kind) && q < b->size; q++)
        for (size_t i = b->slices[q]; i < b->slices[q + 1]; i++) {
            const size_t k = i - b->slices[q];
            const double x = call->kind == YOKEI_SCATTER      ? value(call, v, call->root, i)
                             : call->kind == YOKEI_ALL_TO_ALL ? value(call, v, q, b->slices[p] + k)
                                                              : value(call, v, q, k);
            store(call->dtype, b->expected, i, x);
        }
    for (size_t i = 0; reduces(call->kind) && i < b->total; i++)
        store(call->dtype, b->expected, i, sum_of(call, v, b->size, i));
    for (size_t i = 0; call->kind == YOKEI_BROADCAST && i < b->total; i++)
        store(call->dtype, b->expected, i, value(call, v, call->root, i));
}

/* How far element i of a sum that adds in another order may be from the expected one. */
static double bound(const struct yokei_replay_call *call, const struct values *v, int size, size_t i)
{
    const double u = call->dtype == YOKE_BF16  ? 1 / 256.
                     : call->dtype == YOKE_F16 ? 1 / 2048.
                     : call->dtype == YOKE_F32 ? 1 / 16777216.
                                               : 1e-16;
    double magnitude = 0;
    for (int r = 0; r < size; r++) magnitude += fabs(value(call, v, r, i));
    return (size + 3) * 2 * u * magnitude / (call->reduction == YOKE_AVG ? size : 1);
}

/* Whether element i of rank q is right, although its bits are not the expected ones. */
static bool is_near(const struct yokei_replay_call *call, const struct values *v, const struct buffers *b,
                    int q, size_t i, bool in_order)
{
    if (!is_float(call->dtype) || !reduces(call->kind)) return false;
    const double got = load(call->dtype, b->recv[q], i),
                 want = load(call->dtype, b->expected, b->first[q] + i);
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
    return v->rounds && !in_order && fabs(got - want) <= bound(call, v, b->size, b->first[q] + i);
}

/* The first wrong element of rank q. n_recv: none is. n_recv + 1: the rank wrote behind its buffer. */
static size_t first_wrong(const struct yokei_replay_call *call, const struct values *v,
                          const struct buffers *b, int q, bool in_order)
{
    const size_t bytes = yoke_dtype_bytes(call->dtype), n = b->n_recv[q];
    const char *got = b->recv[q], *want = (const char *)b->expected + b->first[q] * bytes;
    for (size_t i = 0; memcmp(got, want, n * bytes) && i < n; i++)
        if (memcmp(got + i * bytes, want + i * bytes, bytes) && !is_near(call, v, b, q, i, in_order))
            return i;
    for (size_t i = 0; i < GUARD; i++)
        if (got[n * bytes + i] != (char)0xa5) return n + 1;
    return n;
}

/* ---- a call ---- */

static int n_crossings[YOKEI_CROSS_EACH + 1], n_doublings, n_algorithms[YOKEI_N_ALGORITHMS];

static const enum yokei_kind kinds[] = { YOKEI_ALL_REDUCE, YOKEI_ALL_REDUCE, YOKEI_ALL_REDUCE,
                                         YOKEI_ALL_REDUCE, YOKEI_REDUCE,     YOKEI_BROADCAST,
                                         YOKEI_BARRIER,    YOKEI_ALL_GATHER, YOKEI_REDUCE_SCATTER,
                                         YOKEI_ALL_TO_ALL, YOKEI_GATHER,     YOKEI_SCATTER };

static void draw_call(const struct layout *l, struct yokei_replay_call *call, struct values *v,
                      size_t counts[])
{
    static const uint32_t most[] = { 3, 40, 700, 3000 };
    const uint32_t size = (uint32_t)l->size, n = most[draw(4)];
    *call = (struct yokei_replay_call){ .kind = kinds[draw(YOKE_COUNT(kinds))],
                                        .dtype = (yoke_dtype)draw(YOKE_N_DTYPES),
                                        .reduction = (yoke_reduction)draw(YOKE_N_REDUCTIONS),
                                        .root = (int)draw(size) };
    if (!draw(2)) call->dtype = (yoke_dtype)draw(YOKE_BF16 + 1);
    if (!draw(2)) call->reduction = (yoke_reduction)draw(YOKE_AVG + 1);
    if (!is_float(call->dtype) && call->reduction == YOKE_AVG) call->reduction = YOKE_SUM;
    if (!has_root(call->kind)) call->root = -1;
    call->count = draw(n + 1);
    if (has_slices(call->kind)) {
        call->count = draw(n * 2 / size + 2);
        if (call->kind != YOKEI_ALL_TO_ALL && draw(2)) call->counts = counts;
        for (int q = 0; q < l->size; q++) counts[q] = draw(n * 3 / size + 2);
    }
    if (call->kind == YOKEI_BARRIER) call->count = 0;
    if (call->kind == YOKEI_ALL_REDUCE && l->n_hosts != 2 && l->n_hosts < 8 && !draw(4)) {
        call->count = 16400 + draw(2000); /* long enough for a ring of hosts, and for slices */
        call->dtype = draw(2) ? YOKE_F32 : YOKE_F64;
    }
    const bool adds = call->reduction == YOKE_SUM || call->reduction == YOKE_AVG;
    v->rounds = reduces(call->kind) && is_float(call->dtype) && adds && draw(3);
    v->salt = draw(1000);
    v->has_nan = is_float(call->dtype) && !draw(3);
}

static void count_call(const struct yokei_op *op)
{
    n_algorithms[yokei_algorithm_id(op->algorithm)]++;
    if (op->algorithm != &yokei_hierarchy) return;
    n_crossings[op->crossing]++;
    n_doublings += op->crossing == YOKEI_CROSS_LEADERS && yokei_reduces(op) && op->hosts->n >= 8
                   && !op->reproducible;
}

static void check_call(struct yokei_model *model, const struct layout *l, int number)
{
    struct yokei_replay_call call;
    struct values v;
    struct yokei_replayed r;
    struct buffers b = { .size = l->size };
    size_t counts[MOST];
    draw_call(l, &call, &v, counts);
    fill(&call, &v, &b);
    if (yokei_replay_call(model, &call, NULL, &r)) fail_msg("%s", yoke_last_error());
    char text[256];
    yokei_text(text, sizeof text, "seed %llu, call %d: %s of %zu %s, %s, %d ranks in %d groups, %s (%d)%s",
               (unsigned long long)seed, number, yokei_kind_name(call.kind), b.total,
               yoke_dtype_name(call.dtype), yoke_reduction_name(call.reduction), l->size, r.op->hosts->n,
               r.algorithm, (int)r.op->crossing, l->staged ? ", staged" : "");
    if (r.trouble[0]) fail_msg("%s: %s", text, r.trouble);
    if (call.kind != YOKEI_ALL_TO_ALL) expect(&call, &v, &b, 0);
    for (int q = 0; q < l->size; q++) {
        if (call.kind == YOKEI_ALL_TO_ALL) expect(&call, &v, &b, q);
        const size_t wrong = first_wrong(&call, &v, &b, q, l->config.reproducible == YOKE_REPRODUCIBLE_SHAPE);
        if (wrong > b.n_recv[q]) fail_msg("%s: rank %d wrote behind its buffer", text, q);
        if (wrong < b.n_recv[q]) fail_msg("%s: element %zu of rank %d is wrong", text, wrong, q);
        if (call.kind == YOKEI_ALL_REDUCE
            && memcmp(b.recv[q], b.recv[0], b.total * yoke_dtype_bytes(call.dtype)))
            fail_msg("%s: ranks 0 and %d have other bits", text, q);
    }
    count_call(r.op);
    release(&b);
}

static void random_calls(void **unused)
{
    (void)unused;
    const bool soak = getenv("YOKE_SOAK") != NULL;
    state = seed * 0x9e3779b97f4a7c15ull | 1;
    for (int m = 0; m < MODELS * (soak ? 20 : 1); m++) {
        struct layout l;
        struct yokei_model *model;
        draw_layout(&l);
        const struct yokei_ranks ranks = { .size = l.size,
                                           .host_of = l.host_of,
                                           .island_of = l.island_of,
                                           .staged = l.staged,
                                           .n_cores = l.n_cores,
                                           .config = &l.config };
        if (yokei_model_begin(&ranks, &model)) fail_msg("%s", yoke_last_error());
        for (int c = 0; c < CALLS; c++) check_call(model, &l, m * CALLS + c);
        yokei_model_end(model);
    }
    for (int c = 0; c <= YOKEI_CROSS_EACH; c++) print_message("# crossing %d: %d calls\n", c, n_crossings[c]);
    if (seed_is_given) return; /* another sample of calls need not have all algorithms */
    for (int c = 0; c <= YOKEI_CROSS_EACH; c++) assert_true(n_crossings[c] >= 5);
    assert_true(n_doublings >= 5);
    static const enum yokei_algorithm_id others[] = { YOKEI_ONESHOT,  YOKEI_SLICES,       YOKEI_RING,
                                                      YOKEI_DOUBLING, YOKEI_EXCHANGE,     YOKEI_CHAIN,
                                                      YOKEI_LINEAR,   YOKEI_DISSEMINATION };
    for (size_t a = 0; a < YOKE_COUNT(others); a++) assert_true(n_algorithms[others[a]] > 0);
}

int main(int n, char **arguments)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(random_calls) };
    if (getenv("YOKE_SOAK")) seed = (uint64_t)time(NULL);
    seed_is_given = n > 1;
    if (seed_is_given) seed = strtoull(arguments[1], NULL, 10);
    printf("# seed %llu\n", (unsigned long long)seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
