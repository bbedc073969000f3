/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The benchmark of collectives. It must notice a wrong element in any place, and print no speed in a line
 * that has one.
 */
#include "tests/unit/test.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "cli/bench/collectives.h"
#include "core/base/base.h"

enum { RANKS = 4, BYTES = 100000, ROOM = BYTES + RANKS * 8 + BENCH_GUARD };

static char send[RANKS][ROOM], recv[RANKS][ROOM];

/* The call done by hand, in float64: what a right implementation leaves in every rank's buffers. */
static void perform(struct bench_case c, enum bench_data data)
{
    static char before[RANKS][ROOM];
    struct bench_places at[RANKS], in[RANKS];
    const size_t bytes = yoke_dtype_bytes(c.dtype), n = c.count;
    for (int r = 0; r < RANKS; r++) {
        c.rank = r;
        bench_fill(&c, data, send[r], recv[r]);
        at[r] = bench_places(&c, send[r], recv[r]);
        in[r] = at[r];
        memcpy(before[r], at[r].input, at[r].n_input * bytes);
        in[r].input = before[r];
    }
    for (int r = 0; r < RANKS; r++)
        for (size_t i = 0; i < at[r].n_result; i++) {
            char *to = at[r].result + i * bytes;
            const size_t piece = i / n, within = i % n;
            switch (c.kind) {
            case BENCH_ALL_GATHER:
            case BENCH_GATHER: memcpy(to, in[piece].input + within * bytes, bytes); break;
            case BENCH_ALL_TO_ALL:
                memcpy(to, in[piece].input + ((size_t)r * n + within) * bytes, bytes);
                break;
            case BENCH_BROADCAST: memcpy(to, in[c.root].input + i * bytes, bytes); break;
            case BENCH_SCATTER: memcpy(to, in[c.root].input + ((size_t)r * n + i) * bytes, bytes); break;
            case BENCH_SENDRECV: memcpy(to, in[(r + RANKS - 1) % RANKS].input + i * bytes, bytes); break;
            default: {
                const size_t from = (c.kind == BENCH_REDUCE_SCATTER ? (size_t)r * n : 0) + i;
                double sum = 0;
                for (int s = 0; s < RANKS; s++) sum += yokei_load(c.dtype, in[s].input, (int64_t)from);
                yokei_store(c.dtype, to, 0, sum);
            }
            }
        }
}

static struct bench_verdict verdict_of(struct bench_case c, enum bench_data data, int rank)
{
    struct bench_verdict verdict = { 0 };
    c.rank = rank;
    bench_verify(&c, data, recv[rank], &verdict);
    return verdict;
}

/* Planted at the beginning, in the middle, at the end, and just behind the result. */
static void plant_everywhere(const struct bench_case *original)
{
    for (int r = 0; r < RANKS; r++) {
        struct bench_case c = *original;
        c.rank = r;
        const struct bench_places at = bench_places(&c, send[r], recv[r]);
        const size_t bytes = yoke_dtype_bytes(c.dtype), places[] = { 0, at.n_result / 2, at.n_result - 1 };
        for (size_t i = 0; at.n_result && i < YOKE_COUNT(places); i++) {
            char *element = at.result + places[i] * bytes;
            element[0] ^= 1;
            assert_int_equal(verdict_of(c, BENCH_EXACT, r).n_wrong, 1);
            element[0] ^= 1;
        }
        recv[r][c.bytes] ^= 1;
        if (c.in_place || at.n_result * bytes == c.bytes)
            assert_int_equal(verdict_of(c, BENCH_EXACT, r).n_wrong, 1);
        recv[r][c.bytes] ^= 1;
        assert_int_equal(verdict_of(c, BENCH_EXACT, r).n_wrong, 0);
    }
}

static void every_wrong_element_is_seen(void **state)
{
    static const yoke_dtype dtypes[] = { YOKE_F32, YOKE_BF16, YOKE_I64, YOKE_U8 };
    (void)state;
    for (int kind = 0; kind < BENCH_BARRIER; kind++)
        for (size_t d = 0; d < YOKE_COUNT(dtypes); d++)
            for (int in_place = 0; in_place <= bench_facts[kind].can_be_in_place; in_place++) {
                struct bench_case c = { .kind = (enum bench_kind)kind,
                                        .dtype = dtypes[d],
                                        .reduction = YOKE_SUM,
                                        .root = 2,
                                        .size = RANKS,
                                        .in_place = in_place };
                bench_case_size(&c, BYTES);
                perform(c, BENCH_EXACT);
                for (int r = 0; r < RANKS; r++) assert_int_equal(verdict_of(c, BENCH_EXACT, r).n_wrong, 0);
                plant_everywhere(&c);
            }
}

/* A slice in another one's place, and a result that was never written. */
static void misplaced_and_missing(void **state)
{
    struct bench_case c = { .kind = BENCH_ALL_GATHER, .dtype = YOKE_F32, .size = RANKS };
    (void)state;
    bench_case_size(&c, 65536);
    perform(c, BENCH_EXACT);
    memcpy(recv[0], recv[0] + c.count * 4, c.count * 4);
    assert_true(verdict_of(c, BENCH_EXACT, 0).n_wrong > c.count / 2);
    bench_fill(&c, BENCH_EXACT, send[0], recv[0]);
    assert_int_equal(verdict_of(c, BENCH_EXACT, 0).n_wrong, RANKS * c.count);
    assert_int_equal(bench_kind_of("all_gather"), BENCH_ALL_GATHER);
    assert_int_equal(bench_kind_of("all_gathers"), BENCH_N_KINDS);
}

static void ulps(void **state)
{
    static const yoke_dtype dtypes[] = { YOKE_F32, YOKE_F16, YOKE_BF16, YOKE_F64 };
    (void)state;
    for (size_t d = 0; d < YOKE_COUNT(dtypes); d++) {
        struct bench_case c = {
            .kind = BENCH_ALL_REDUCE, .dtype = dtypes[d], .reduction = YOKE_SUM, .size = RANKS
        };
        const size_t bytes = yoke_dtype_bytes(c.dtype);
        bench_case_size(&c, BYTES);
        perform(c, BENCH_ROUNDING);
        const struct bench_verdict right = verdict_of(c, BENCH_ROUNDING, 0);
        assert_int_equal(right.n_wrong, 0);
        assert_true(right.max_ulp <= 0.5 && (right.max_ulp > 0.4 || c.dtype == YOKE_F64)); /* rounded once */
        /* Six units off in the last element is beyond four roundings in any type. */
        char *last = recv[0] + (c.count - 1) * bytes;
        last[0] = (char)((last[0] & 0x7f) < 64 ? last[0] + 6 : last[0] - 6);
        const struct bench_verdict wrong = verdict_of(c, BENCH_ROUNDING, 0);
        assert_int_equal(wrong.n_wrong, 1);
        assert_true(wrong.max_ulp > 5 && wrong.max_ulp < 7);
        yokei_store(c.dtype, last, 0, NAN);
        assert_true(verdict_of(c, BENCH_ROUNDING, 0).n_wrong == 1);
    }
    struct bench_case c = { .kind = BENCH_ALL_REDUCE, .dtype = YOKE_I32, .reduction = YOKE_SUM };
    assert_false(bench_has_rounding(&c));
    c.dtype = YOKE_F32, c.reduction = YOKE_MAX;
    assert_false(bench_has_rounding(&c));
}

/* Print one row of a table, and return the printed text. */
static char *printed_with(const char *format, const struct bench_row *row, bool choices)
{
    char *text = NULL;
    size_t bytes;
    struct bench_table table = { .format = format,
                                 .mpi = true,
                                 .choices = choices,
                                 .beside = "unchecked",
                                 .to = open_memstream(&text, &bytes) };
    bench_table_begin(&table);
    bench_table_row(&table, row);
    bench_table_end(&table, RANKS, true);
    fclose(table.to);
    return text;
}

static char *printed(const char *format, const struct bench_row *row)
{
    return printed_with(format, row, false);
}

/* Every line of a table has as many columns. */
static bool is_even(const char *text, char between)
{
    int first = -1, n = 0;
    for (; *text; text++) {
        n += *text == between;
        if (*text != '\n') continue;
        if (first >= 0 && n != first) return false;
        first = n;
        n = 0;
    }
    return first > 0;
}

static void a_wrong_line_has_no_speed(void **state)
{
    static const char *const formats[] = { "md", "csv", "json" }, *const limits[] = { " 50 |", ",50,",
                                                                                      "limit_seconds" };
    struct bench_row row = {
        .c = { .kind = BENCH_ALL_REDUCE, .dtype = YOKE_F32, .reduction = YOKE_SUM, .size = RANKS },
        .yoke = { 9, 123e-6, 456e-6, 99e-6 },
        .mpi = { 9, 321e-6, 654e-6, 1e-6 },
        .beside = { 9, 231e-6, 1, 1 },
        .beside_elements = 1,
        .limit = 61.5e-6
    };
    (void)state;
    bench_case_size(&row.c, 4096);
    perform(row.c, BENCH_EXACT);
    for (int planted = 0; planted < 2; planted++) {
        if (planted) recv[1][400] ^= 1;
        row.verdict = verdict_of(row.c, BENCH_EXACT, 1);
        assert_int_equal(row.verdict.n_wrong, planted);
        for (size_t f = 0; f < YOKE_COUNT(formats); f++) {
            char *text = printed(formats[f], &row);
            const bool json = !strcmp(formats[f], "json");
            assert_int_equal(strstr(text, json ? "\"seconds\"" : "123") != NULL, !planted);
            assert_int_equal(strstr(text, json ? "mpi_seconds" : "321") != NULL, !planted);
            assert_int_equal(strstr(text, json ? "beside_seconds" : "231") != NULL, !planted);
            assert_int_equal(strstr(text, limits[f]) != NULL, !planted);
            if (json) assert_true(strstr(text, planted ? "\"wrong\": 1" : "\"wrong\": 0") != NULL);
            free(text);
        }
    }
}

/* A row has as many columns as the title. It shows what the choice says. */
static void a_choice_stands_in_the_line(void **state)
{
    struct bench_row row = { .c = { .kind = BENCH_BARRIER, .size = RANKS },
                             .yoke = { 9, 123e-6, 456e-6, 99e-6 } };
    (void)state;
    for (int has_choice = 0; has_choice < 2; has_choice++) {
        if (has_choice)
            row.choice = (struct yoke_comm_choice){ .algorithm = "ring",
                                                    .chunk_bytes = 65536,
                                                    .n_lanes = 8,
                                                    .predicted_us = 77.5,
                                                    .why = "long, so; they say",
                                                    .grouping = "island",
                                                    .islands = "0-1, 2-3",
                                                    .n_islands = 2,
                                                    .n_columns = 2,
                                                    .bridge_bytes = 4096 };
        for (int shown = 0; shown < 2; shown++) {
            char *md = printed_with("md", &row, shown), *csv = printed_with("csv", &row, shown);
            assert_int_equal(strstr(md, "| predicted us | why |") != NULL, shown);
            assert_int_equal(
                strstr(md, "| ring          |      65536 |     8 |         77.5 | long, so; they say; "
                           "islands 0-1, 2-3; columns 2; 4096 bytes cross |")
                    != NULL,
                shown && has_choice);
            assert_int_equal(strstr(csv,
                                    ",algorithm,chunk_bytes,lanes,predicted_us,why,grouping,islands,columns,"
                                    "bridge_bytes\n")
                                 != NULL,
                             shown);
            assert_int_equal(
                strstr(csv, ",ring,65536,8,77.5,\"long, so; they say\",island,\"0-1, 2-3\",2,4096\n") != NULL,
                shown && has_choice);
            assert_true(is_even(md, '|')
                        && (is_even(csv, ',') || has_choice)); /* the reason has a comma, in quotes */
            free(md);
            free(csv);
        }
        char *json = printed_with("json", &row, true);
        assert_int_equal(strstr(json, "\"plan\": {") != NULL
                             && strstr(json, "\"algorithm\": \"ring\"") != NULL,
                         has_choice);
        free(json);
    }
}

static void statistics(void **state)
{
    double times[200];
    struct bench_turns turns;
    (void)state;
    for (int i = 0; i < 200; i++) times[i] = 200 - i;
    const struct bench_speed many = bench_summary(times, 200);
    assert_true(many.n == 200 && many.least == 1 && many.median == 101 && many.p99 == 198);
    times[0] = 3, times[1] = 1, times[2] = 2;
    const struct bench_speed few = bench_summary(times, 3);
    assert_true(few.median == 2 && few.p99 == 3 && few.least == 1);
    assert_int_equal(bench_summary(times, 0).n, 0);
    bench_turns_fit(1e-6, 1, 25, &turns); /* 2000 calls are a sample, and all samples fit */
    assert_true(turns.n_calls >= 1999 && turns.n_calls <= 2000 && turns.n_samples == 25
                && turns.n_warming == 5);
    bench_turns_fit(0.1, 0.5, 25, &turns);
    assert_true(turns.n_calls == 1 && (turns.n_samples == 4 || turns.n_samples == 5) && turns.n_warming == 0);
    bench_turns_fit(0.4, 0.5, 25, &turns);
    assert_true(turns.n_calls == 1 && turns.n_samples == 3);
    bench_turns_fit(30, 0.5, 25, &turns); /* a rival that takes longer than the budget is asked once */
    assert_true(turns.n_calls == 1 && turns.n_samples == 1);
    bench_turns_fit(0.01, 0.5, 25, &turns); /* the calls that warm up are part of the budget */
    assert_true(turns.n_calls == 1 && turns.n_warming == 2 && turns.n_samples == 16);
    bench_turns_fit(0.4, 0.5, 2, &turns);
    assert_int_equal(turns.n_samples, 2);
}

static void bytes_and_factors(void **state)
{
    struct bench_case c = { .kind = BENCH_ALL_REDUCE, .dtype = YOKE_F32, .size = 4 };
    (void)state;
    bench_case_size(&c, 1 << 20);
    assert_true(c.count == 1 << 18 && bench_bus_factor(&c) == 1.5 && bench_touched_bytes(&c) == 2 << 20);
    c.kind = BENCH_ALL_GATHER;
    bench_case_size(&c, 1 << 20);
    assert_true(c.count == 1 << 16 && c.bytes == 1 << 20 && bench_bus_factor(&c) == 0.75
                && bench_touched_bytes(&c) == 1.25 * (1 << 20));
    c.in_place = true;
    assert_true(bench_touched_bytes(&c) == 1 << 20);
    bench_case_size(&c, 5); /* up to one element per slice */
    assert_true(c.count == 1 && c.bytes == 16);
    c.kind = BENCH_BARRIER;
    bench_case_size(&c, 100);
    assert_true(c.count == 0 && c.bytes == 0 && bench_touched_bytes(&c) == 0);
}

/* There are 6 ranks on three hosts, which have 3, 1 and 2 of them. n is 6 MB, and a slice is 1 MB. */
static void bytes_between_hosts(void **state)
{
    static const int host_of[] = { 0, 0, 1, 2, 2, 0 }, one[] = { 0, 0, 0, 0, 0, 0 };
    static const struct {
        enum bench_kind kind;
        int root;
        double wanted;
    } rows[] = {
        { BENCH_ALL_REDUCE, 0, 8e6 }, /* 2n (H - 1) / H */
        { BENCH_BROADCAST, 0, 6e6 },      { BENCH_REDUCE, 3, 6e6 }, { BENCH_ALL_GATHER, 0, 5e6 },
        { BENCH_REDUCE_SCATTER, 0, 5e6 }, /* all but the slice of the lone rank */
        { BENCH_ALL_TO_ALL, 0, 9e6 },     /* three ranks' slices for three others */
        { BENCH_GATHER, 0, 3e6 },         { BENCH_GATHER, 2, 5e6 }, { BENCH_SCATTER, 3, 4e6 },
        { BENCH_SENDRECV, 0, 6e6 },       { BENCH_BARRIER, 0, 0 },
    };
    (void)state;
    for (size_t i = 0; i < YOKE_COUNT(rows); i++) {
        struct bench_case c = { .kind = rows[i].kind, .root = rows[i].root, .dtype = YOKE_F32, .size = 6 };
        bench_case_size(&c, 6000000);
        assert_true(fabs(bench_crossing_bytes(&c, host_of) - rows[i].wanted) < 1);
        assert_true(bench_crossing_bytes(&c, one) == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_wrong_element_is_seen),
        cmocka_unit_test(misplaced_and_missing),
        cmocka_unit_test(ulps),
        cmocka_unit_test(a_wrong_line_has_no_speed),
        cmocka_unit_test(statistics),
        cmocka_unit_test(bytes_and_factors),
        cmocka_unit_test(bytes_between_hosts),
        cmocka_unit_test(a_choice_stands_in_the_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
