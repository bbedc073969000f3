/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yoke bench collectives, and bench allreduce as its short name. Every line is checked first. Then the sides
 * are timed in turn, so that all see the same state of the machine. The sides are Yoke, MPI's own call, a
 * variant of Yoke if one is asked for, and the limit.
 */
#include "cli/bench/collectives.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/bench/triad.h"
#include "collectives/faults/roll.h"
#include "core/base/base.h"
#include "core/base/times.h"

enum { MOST_LIST = 16 };

struct bench {
    int rank, size, repeats;
    double budget;                                              /* seconds for each line and side */
    int n_lines, n_done;                                        /* of the table */
    bool one_host, rivals, shared, native, explains, places[2]; /* places: measure out of place, in place */
    const char *spec, *beside;
    enum bench_kind kinds[MOST_LIST];
    yoke_dtype dtypes[MOST_LIST];
    yoke_reduction ops[MOST_LIST];
    int n_kinds, n_dtypes, n_ops;
    uint64_t least, most, factor;
    yoke_comm *control; /* the benchmark's own communicator, for barriers and for agreeing on times */
    struct bench_yoke yoke, other; /* the side that is measured; the variant beside it */
    char *send, *recv;             /* host copies of the buffers, for checking; also MPI's buffers */
    float *triad;
    int *host_of;     /* [size] number of each rank's host */
    double link_rate; /* bytes per second of a host's link, in each direction */
    double *times[4];
};

/* ---- the sides that take turns ---- */

enum side { YOKE_SIDE, BESIDE_SIDE, MPI_SIDE, LIMIT_SIDE, N_SIDES };

static struct bench_case beside_case(const struct bench *b, const struct bench_case *c)
{
    struct bench_case result = *c;
    if (strcmp(b->beside, "f32") != 0) return result;
    result.dtype = YOKE_F32; /* as many bytes, in another type */
    bench_case_size(&result, c->bytes);
    return result;
}

/*
 * Memory of a device that the host does not see is copied out and in again. The slower one of the two
 * directions is the limit.
 */
static yoke_status copy_out_or_in(struct bench *b, const struct bench_case *c, bool out)
{
    if (out)
        YOKE_TRY(yoke_copy_to_host(b->yoke.stream, b->recv, b->yoke.recv, c->bytes));
    else
        YOKE_TRY(yoke_copy_to_device(b->yoke.stream, b->yoke.send, b->send, c->bytes));
    return yoke_stream_sync(b->yoke.stream);
}

static yoke_status call_side(struct bench *b, enum side side, const struct bench_case *c)
{
    switch (side) {
    case YOKE_SIDE: return bench_yoke_call(&b->yoke, c);
    case BESIDE_SIDE: return bench_yoke_call(b->other.comm ? &b->other : &b->yoke, c);
    case MPI_SIDE:
        if (!bench_mpi_call(c, b->send, b->recv, MPI_COMM_WORLD)) return YOKE_OK;
        return yoke_fail(YOKE_EBACKEND, "MPI's %s failed", bench_facts[c->kind].name);
    default: bench_triad(b->triad, bench_touched_bytes(c)); return YOKE_OK;
    }
}

/*
 * Seconds per call on this rank, of `n` calls back to back. So it does not matter that ranks leave the
 * barrier at different times.
 */
static yoke_status time_side(struct bench *b, enum side side, const struct bench_case *c, int n,
                             double *seconds_out)
{
    YOKE_TRY(yoke_barrier(b->control, NULL));
    if (side == LIMIT_SIDE && b->yoke.device && !yoke_device_info(b->yoke.device)->host_visible) {
        double way[2];
        for (int out = 0; out < 2; out++) {
            const double begin = yokei_now();
            for (int i = 0; i < n; i++) YOKE_TRY(copy_out_or_in(b, c, out));
            way[out] = (yokei_now() - begin) / n;
        }
        *seconds_out = fmax(way[0], way[1]);
        return YOKE_OK;
    }
    const double begin = yokei_now();
    for (int i = 0; i < n; i++) YOKE_TRY(call_side(b, side, c));
    /*
     * Without this barrier, ranks that share a core would work on memory one after the other, and each would
     * measure itself alone.
     */
    if (side == LIMIT_SIDE) YOKE_TRY(yoke_barrier(b->control, NULL));
    *seconds_out = (yokei_now() - begin) / n;
    return YOKE_OK;
}

/* A call's time is that of its slowest rank. */
static yoke_status slowest(struct bench *b, double *times, int n)
{
    return yoke_all_reduce(times, times, (size_t)n, YOKE_F64, YOKE_MAX, b->control, NULL);
}

/* ---- checking ---- */

static yoke_status check_yoke(struct bench *b, const struct bench_yoke *side, const struct bench_case *c,
                              struct bench_verdict *verdict)
{
    for (int data = BENCH_EXACT; data <= (bench_has_rounding(c) ? BENCH_ROUNDING : BENCH_EXACT); data++) {
        bench_fill(c, (enum bench_data)data, b->send, b->recv);
        YOKE_TRY(bench_yoke_put(side, c, b->send, b->recv));
        YOKE_TRY(bench_yoke_call(side, c));
        YOKE_TRY(bench_yoke_get(side, c, b->recv));
        bench_verify(c, (enum bench_data)data, b->recv, verdict);
    }
    return YOKE_OK;
}

/* Combine the verdicts of all ranks: the sum of the wrong elements, and the largest distance. */
static yoke_status agree_on_verdict(struct bench *b, struct bench_verdict *verdict)
{
    double wrong = (double)verdict->n_wrong;
    YOKE_TRY(yoke_all_reduce(&wrong, &wrong, 1, YOKE_F64, YOKE_SUM, b->control, NULL));
    YOKE_TRY(yoke_all_reduce(&verdict->max_ulp, &verdict->max_ulp, 1, YOKE_F64, YOKE_MAX, b->control, NULL));
    verdict->n_wrong = (uint64_t)wrong;
    return YOKE_OK;
}

/* Whether MPI's own result is right. A rival with wrong results gets no speed either. */
static yoke_status check_mpi(struct bench *b, const struct bench_case *c, bool *right_out)
{
    struct bench_verdict verdict = { 0 };
    bench_fill(c, BENCH_EXACT, b->send, b->recv);
    YOKE_TRY(call_side(b, MPI_SIDE, c));
    bench_mpi_settle(c, b->recv);
    bench_verify(c, BENCH_EXACT, b->recv, &verdict);
    YOKE_TRY(agree_on_verdict(b, &verdict));
    *right_out = verdict.n_wrong == 0;
    return YOKE_OK;
}

/* ---- measuring one line ---- */

struct turn {
    bool in;
    struct bench_case c;
    struct bench_turns turns;
};

/*
 * Decide how often to call, from the time of a call. The first call gives a rough time, and a few more give a
 * better one.
 */
static yoke_status fit_turn(struct bench *b, enum side side, struct turn *t)
{
    double seconds = 0;
    YOKE_TRY(time_side(b, side, &t->c, 1, &seconds));
    YOKE_TRY(slowest(b, &seconds, 1));
    b->times[side][0] = seconds; /* the only time, if there is time for one call only */
    const int n = bench_probe(seconds, b->budget);
    if (n) YOKE_TRY(time_side(b, side, &t->c, n, &seconds));
    if (n) YOKE_TRY(slowest(b, &seconds, 1));
    bench_turns_fit(seconds, b->budget, b->repeats, &t->turns);
    return YOKE_OK;
}

static yoke_status take_turns(struct bench *b, struct turn turns[N_SIDES], struct bench_speed speeds[N_SIDES])
{
    bool more = true;
    for (int i = 0; more; i++) {
        more = false;
        for (int s = 0; s < N_SIDES; s++) {
            struct turn *t = &turns[s];
            if (!t->in || i >= t->turns.n_samples) continue;
            double warming;
            if (t->turns.n_warming) YOKE_TRY(time_side(b, (enum side)s, &t->c, t->turns.n_warming, &warming));
            if (t->turns.n_samples > 1 || t->turns.n_calls > 1)
                YOKE_TRY(time_side(b, (enum side)s, &t->c, t->turns.n_calls, &b->times[s][i]));
            more |= i + 1 < t->turns.n_samples;
        }
    }
    for (int s = 0; s < N_SIDES; s++) {
        if (!turns[s].in) continue;
        YOKE_TRY(slowest(b, b->times[s], turns[s].turns.n_samples));
        speeds[s] = bench_summary(b->times[s], turns[s].turns.n_samples);
    }
    return YOKE_OK;
}

static bool sums_up(const struct bench_case *c)
{
    return c->in_place && bench_facts[c->kind].reduces
           && (c->reduction == YOKE_SUM || c->reduction == YOKE_PROD);
}

static bool two_types_in_one(const struct bench *b) { return b->beside && !b->other.comm; }

/*
 * Fill in the data for timing. It is the exact data. If the result is the next call's input, or is read as
 * another type, the data is zeros or ones.
 */
static yoke_status fill_for_timing(struct bench *b, const struct bench_yoke *side, const struct bench_case *c)
{
    bench_fill(c, BENCH_EXACT, b->send, b->recv);
    if (sums_up(c) || two_types_in_one(b)) bench_fill_neutral(c, b->send, b->recv);
    return bench_yoke_put(side, c, b->send, b->recv);
}

static yoke_status measure_line(struct bench *b, struct bench_row *row)
{
    const struct bench_case *c = &row->c;
    struct turn turns[N_SIDES] = { [YOKE_SIDE] = { .in = true, .c = *c } };
    struct bench_speed speeds[N_SIDES] = { 0 };
    YOKE_TRY(check_yoke(b, &b->yoke, c, &row->verdict));
    if (b->beside) {
        turns[BESIDE_SIDE] = (struct turn){ .in = true, .c = beside_case(b, c) };
        row->beside_elements = (double)turns[BESIDE_SIDE].c.count / (double)YOKE_MAX(c->count, (size_t)1);
        if (c->kind == BENCH_BARRIER) row->beside_elements = 1;
        YOKE_TRY(check_yoke(b, b->other.comm ? &b->other : &b->yoke, &turns[BESIDE_SIDE].c, &row->verdict));
    }
    YOKE_TRY(agree_on_verdict(b, &row->verdict));
    if (row->verdict.n_wrong) return YOKE_OK;
    turns[MPI_SIDE].c = bench_mpi_case(c);
    if (b->rivals && bench_mpi_offers(c)) YOKE_TRY(check_mpi(b, &turns[MPI_SIDE].c, &turns[MPI_SIDE].in));
    turns[LIMIT_SIDE] = (struct turn){ .in = b->one_host && c->bytes >= BENCH_LIMIT_LEAST, .c = *c };
    if (b->other.comm) YOKE_TRY(fill_for_timing(b, &b->other, &turns[BESIDE_SIDE].c));
    YOKE_TRY(fill_for_timing(b, &b->yoke, c)); /* MPI's buffers too */
    for (int s = 0; s < N_SIDES; s++)
        if (turns[s].in) YOKE_TRY(fit_turn(b, (enum side)s, &turns[s]));
    YOKE_TRY(take_turns(b, turns, speeds));
    row->yoke = speeds[YOKE_SIDE];
    row->mpi = speeds[MPI_SIDE];
    row->beside = speeds[BESIDE_SIDE];
    row->limit = speeds[LIMIT_SIDE].median;
    if (!b->one_host && c->bytes >= BENCH_LIMIT_LEAST)
        row->limit = bench_crossing_bytes(c, b->host_of) / b->link_rate;
    if (c->in_place || two_types_in_one(b)) return YOKE_OK;
    YOKE_TRY(bench_yoke_get(&b->yoke, c, b->recv)); /* the result that the last of many calls left */
    bench_verify(c, BENCH_EXACT, b->recv, &row->verdict);
    return agree_on_verdict(b, &row->verdict);
}

/* Ask the communicator how it carries out the measured call. It makes no choice for sends and receives. */
static yoke_status explain_row(const struct bench *b, struct bench_row *row)
{
    const struct bench_case *c = &row->c;
    if (!b->explains || c->kind == BENCH_SENDRECV) return YOKE_OK;
    return yoke_comm_explain(b->yoke.comm, bench_facts[c->kind].name, c->count, c->dtype, c->reduction,
                             &row->choice);
}

/* ---- all lines ---- */

static yoke_status all_bytes(struct bench *b, struct bench_case c, struct bench_table *table,
                             uint64_t *n_wrong)
{
    size_t before = 0;
    for (uint64_t bytes = b->least; bytes <= b->most; bytes *= b->factor) {
        struct bench_row row = { .c = c };
        bench_case_size(&row.c, bytes);
        if (bytes > b->least && row.c.bytes == before) continue; /* rounded to the same size, or a barrier */
        before = row.c.bytes;
        if (!table) {
            b->n_lines++;
            continue;
        }
        cli_progress_now("%s %s, %zu bytes", bench_facts[c.kind].name, yoke_dtype_name(c.dtype), row.c.bytes);
        cli_progress_at(b->n_done++, b->n_lines);
        YOKE_TRY(explain_row(b, &row));
        YOKE_TRY(measure_line(b, &row));
        cli_progress_pause();
        if (b->rank == 0) bench_table_row(table, &row);
        *n_wrong += row.verdict.n_wrong;
    }
    return YOKE_OK;
}

/* Measure all lines. Without a table, only count them. */
static yoke_status all_lines(struct bench *b, struct bench_table *table, uint64_t *n_wrong)
{
    for (int k = 0; k < b->n_kinds; k++) {
        const struct bench_facts *facts = &bench_facts[b->kinds[k]];
        for (int d = 0; d < (b->kinds[k] == BENCH_BARRIER ? 1 : b->n_dtypes); d++)
            for (int o = 0; o < (facts->reduces ? b->n_ops : 1); o++)
                for (int in_place = 0; in_place < 2; in_place++) {
                    const struct bench_case c = { .kind = b->kinds[k],
                                                  .dtype = b->dtypes[d],
                                                  .reduction = b->ops[o],
                                                  .rank = b->rank,
                                                  .size = b->size,
                                                  .in_place = in_place,
                                                  .native = b->native };
                    /* A collective that has no in-place form is measured once. */
                    if (facts->can_be_in_place ? b->places[in_place] : !in_place)
                        YOKE_TRY(all_bytes(b, c, table, n_wrong));
                }
    }
    return YOKE_OK;
}

/* ---- setting up ---- */

/* Find which ranks are on one host. The limit is another one if the ranks are on several hosts. */
static yoke_status look_at_hosts(struct bench *b)
{
    const uint64_t mine = yokei_host_id();
    uint64_t *all = malloc((size_t)b->size * sizeof mine);
    int n_hosts = 0;
    b->host_of = malloc((size_t)b->size * sizeof b->host_of[0]);
    if (!all || !b->host_of) {
        free(all);
        return yoke_fail(YOKE_ENOMEM, "no memory for %d ranks", b->size);
    }
    const yoke_status status = yoke_all_gather(&mine, all, sizeof mine, YOKE_U8, b->control, NULL);
    for (int r = 0; r < b->size && !status; r++) {
        int first = 0;
        while (all[first] != all[r]) first++;
        b->host_of[r] = first < r ? b->host_of[first] : n_hosts++;
    }
    b->one_host = n_hosts == 1;
    free(all);
    return status;
}

static yoke_status allocate_bench(struct bench *b)
{
    struct bench_case largest = { .kind = BENCH_ALL_TO_ALL, .dtype = YOKE_F64, .size = b->size };
    bench_case_size(&largest, b->most);
    const size_t bytes = YOKE_MAX((size_t)b->most, largest.bytes) + BENCH_GUARD;
    b->send = malloc(bytes);
    b->recv = malloc(bytes);
    b->triad = aligned_alloc(64, (2 * bytes + 63) / 64 * 64);
    bool ok = b->send && b->recv && b->triad;
    for (int s = 0; s < N_SIDES; s++) ok = (b->times[s] = malloc((size_t)b->repeats * sizeof(double))) && ok;
    if (!ok) return yoke_fail(YOKE_ENOMEM, "no memory for buffers of %zu bytes: lower --max-bytes", bytes);
    /* Not zeros, because some processors write and keep zeros faster than other data. */
    for (size_t i = 0; i < 2 * bytes / sizeof(float); i++)
        b->triad[i] = 1 + (float)(i * 2654435761u >> 20 & 0xfff) * 0x1p-12f;
    return YOKE_OK;
}

static void drop_bench(struct bench *b)
{
    free(b->send);
    free(b->recv);
    free(b->triad);
    free(b->host_of);
    for (int s = 0; s < N_SIDES; s++) free(b->times[s]);
}

static void read_config(const struct cli_options *o, struct yoke_comm_config *config)
{
    static const char *const waits[] = { "auto", "spin", "yield", "sleep" };
    *config = (struct yoke_comm_config)YOKE_COMM_CONFIG_INIT;
    config->name = "bench";
    config->accum = !strcmp(cli_text(o, "accum"), "native") ? YOKE_ACCUM_NATIVE : YOKE_ACCUM_F32;
    config->reproducible = !strcmp(cli_text(o, "reproducible"), "shape") ? YOKE_REPRODUCIBLE_SHAPE
                                                                         : YOKE_REPRODUCIBLE_RUN;
    config->shares = cli_text(o, "sum-shares");
    config->check = cli_flag(o, "no-check") ? YOKE_CHECK_OFF : YOKE_CHECK_HEADER;
    for (size_t i = 0; i < YOKE_COUNT(waits); i++)
        if (!strcmp(cli_text(o, "wait"), waits[i])) config->wait = (enum yoke_wait)i;
}

static yoke_status open_sides(struct bench *b, const struct cli_options *o)
{
    struct yoke_comm_config config, control = YOKE_COMM_CONFIG_INIT;
    struct bench_case largest = { .kind = BENCH_ALL_TO_ALL, .dtype = YOKE_F64, .size = b->size };
    bench_case_size(&largest, b->most);
    const size_t bytes = YOKE_MAX((size_t)b->most, largest.bytes);
    control.name = "bench-control";
    YOKE_TRY(yoke_comm_create(MPI_COMM_WORLD, NULL, &control, &b->control));
    read_config(o, &config);
    YOKE_TRY(bench_yoke_open(&b->yoke, b->spec, &config, b->shared, bytes));
    if (!b->beside || !strcmp(b->beside, "f32")) return YOKE_OK;
    config.name = "bench-beside";
    if (!strcmp(b->beside, "unchecked")) config.check = YOKE_CHECK_OFF;
    if (!strcmp(b->beside, "run")) config.reproducible = YOKE_REPRODUCIBLE_RUN;
    if (!strcmp(b->beside, "equal")) config.shares = "equal";
    const bool private = !strcmp(b->beside, "host");
    return bench_yoke_open(&b->other, private ? "host" : b->spec, &config, b->shared && !private, bytes);
}

static yoke_status explain_choice(const struct bench *b)
{
    struct yoke_comm_choice choice;
    YOKE_TRY(yoke_comm_explain(b->yoke.comm, "all_reduce", b->most, YOKE_U8, YOKE_MAX, &choice));
    if (b->rank) return YOKE_OK;
    if (b->one_host)
        cli_note(
            "%d ranks on one host. A sample takes the time of the slowest rank, and the medians of the samples "
            "are shown. The sides are measured in turn, after calls that warm up the caches. Rates are in GB/s. "
            "%%limit is the share of the rate at which all ranks at once work on memory",
            b->size);
    else
        cli_note(
            "%d ranks. A sample takes the time of the slowest rank, and the medians of the samples are shown. "
            "The sides are measured in turn, after calls that warm up the caches. Rates are in GB/s. %%limit is "
            "the share of the %.4g MB/s that the link of a host carried in each direction, in MPI's messages",
            b->size, b->link_rate * 1e-6);
    if (b->explains) cli_say("cost model %s; shares of the sums %s", choice.costs, choice.shares);
    const char *sums = strstr(choice.why, " sum slices ");
    if (sums) cli_note("the ranks divide the work of long sums %s: %s", choice.shares, sums + 1);
    return YOKE_OK;
}

static yoke_status run_lines(struct bench *b, const struct cli_options *o)
{
    struct bench_table table = { .format = cli_flag(o, "json") ? "json" : cli_text(o, "format"),
                                 .beside = b->beside,
                                 .mpi = b->rivals,
                                 .choices = b->explains,
                                 .to = stdout };
    uint64_t n_wrong = 0;
    bench_table_begin(&table);
    yoke_status status = open_sides(b, o);
    if (!status) status = look_at_hosts(b);
    if (!status) status = allocate_bench(b);
    yokei_guard_begin("yoke bench: MPI's own collectives");
    if (!status && !b->one_host) status = bench_links(MPI_COMM_WORLD, b->control, b->host_of, &b->link_rate);
    all_lines(b, NULL, NULL);
    cli_progress_begin("bench %s on %d rank%s",
                       cli_options_verb(o) == CLI_BENCH_ALLREDUCE ? "allreduce" : "collectives", b->size,
                       b->size > 1 ? "s" : "");
    if (!status) status = all_lines(b, &table, &n_wrong);
    cli_progress_end();
    yokei_guard_end();
    drop_bench(b);
    bench_table_end(&table, b->size, !status && b->rank == 0);
    if (status) return status; /* after a fault the ranks cannot destroy the communicators together */
    YOKE_TRY(explain_choice(b));
    YOKE_TRY(bench_yoke_close(&b->other));
    YOKE_TRY(bench_yoke_close(&b->yoke));
    YOKE_TRY(yoke_comm_destroy(b->control));
    if (!n_wrong) return YOKE_OK;
    return yoke_fail(YOKE_ENUMERIC, "%llu wrong elements: see the column #wrong",
                     (unsigned long long)n_wrong);
}

/* ---- the verbs ---- */

static yoke_reduction reduction_of(const char *name)
{
    int op = 0;
    while (op < YOKE_N_REDUCTIONS && strcmp(name, yoke_reduction_name((yoke_reduction)op)) != 0) op++;
    return (yoke_reduction)op;
}

static yoke_status read_lists(struct bench *b, const struct cli_options *o, const char *only)
{
    char text[32];
    b->kinds[0] = BENCH_ALL_REDUCE;
    b->n_kinds = 1;
    if (!only) b->n_kinds = cli_list_count(o, "collectives");
    b->n_dtypes = cli_list_count(o, "dtype");
    b->n_ops = cli_list_count(o, "reduction");
    if (b->n_kinds > MOST_LIST || b->n_dtypes > MOST_LIST || b->n_ops > MOST_LIST)
        return yoke_fail(YOKE_EINVAL, "lists have at most %d entries", MOST_LIST);
    for (int i = 0; i < b->n_kinds; i++)
        b->kinds[i] = bench_kind_of(only ? only : cli_list_item(o, "collectives", i, text, sizeof text));
    for (int i = 0; i < b->n_dtypes; i++)
        YOKE_TRY(yoke_dtype_parse(cli_list_item(o, "dtype", i, text, sizeof text), &b->dtypes[i]));
    for (int i = 0; i < b->n_ops; i++)
        b->ops[i] = reduction_of(cli_list_item(o, "reduction", i, text, sizeof text));
    for (int d = 0; d < b->n_dtypes; d++)
        for (int i = 0; i < b->n_ops; i++)
            if (b->ops[i] == YOKE_AVG && yokei_unit_roundoff(b->dtypes[d]) <= 0)
                return yoke_fail(YOKE_EINVAL, "there is no avg of %s: leave one out",
                                 yoke_dtype_name(b->dtypes[d]));
    for (int i = 0; i < b->n_kinds; i++)
        if (b->kinds[i] == BENCH_SENDRECV && b->size == 1)
            return yoke_fail(YOKE_EINVAL, "sendrecv needs two ranks: yoke run -n 2 -- bench collectives ...");
    return YOKE_OK;
}

static yoke_status read_options(struct bench *b, const struct cli_context *context, const char *only)
{
    const struct cli_options *o = context->options;
    const char *places = cli_text(o, "in-place");
    b->size = context->size;
    b->rank = context->rank;
    YOKE_TRY(read_lists(b, o, only));
    b->least = cli_bytes(o, "min-bytes");
    b->most = cli_bytes(o, "max-bytes");
    b->factor = (uint64_t)cli_int(o, "factor");
    b->repeats = (int)cli_int(o, "repeats");
    b->budget = cli_real(o, "budget-seconds");
    b->rivals = !strcmp(cli_text(o, "rivals"), "on");
    b->places[0] = strcmp(places, "in") != 0;
    b->places[1] = strcmp(places, "out") != 0;
    b->native = !strcmp(cli_text(o, "accum"), "native");
    b->spec = context->device ? context->device : cli_text(o, "device");
    b->beside = cli_text(o, "beside");
    b->shared = cli_flag(o, "shared");
    b->explains = cli_flag(o, "explain");
    if (b->least > b->most)
        return yoke_fail(YOKE_EINVAL, "--min-bytes %llu is more than --max-bytes %llu",
                         (unsigned long long)b->least, (unsigned long long)b->most);
    if (b->shared && strcmp(b->spec, "host") != 0)
        return yoke_fail(YOKE_EINVAL, "--shared is host memory: leave out --device");
    return YOKE_OK;
}

static yoke_status bench(const struct cli_context *context, const char *only)
{
    struct bench b = { 0 };
    YOKE_TRY(read_options(&b, context, only));
    return run_lines(&b, context->options);
}

yoke_status cli_bench_collectives(const struct cli_context *context) { return bench(context, NULL); }

yoke_status cli_bench_allreduce(const struct cli_context *context) { return bench(context, "all_reduce"); }
