/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A short run of yoke bench collectives. Every collective runs and is checked on several ranks. The JSON must
 * say what was measured.
 *   tests/ranks/bench_command YOKE RANKS      prints TAP
 */
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define ALL "all_reduce,reduce_scatter,all_gather,broadcast,reduce,all_to_all,gather,scatter,sendrecv,barrier"

static const char *yoke;
static int ranks, n_tests, n_bad;

static void check(bool ok, const char *what)
{
    printf("%sok %d - %s\n", ok ? "" : "not ", ++n_tests, what);
    n_bad += !ok;
}

static json_t *rows_of(const char *environment, const char *options, int wanted)
{
    char command[1024];
    json_error_t error;
    snprintf(command, sizeof command, "%s %s run -n %d -- %s --repeats 3 --budget-seconds 0.02 --json",
             environment, yoke, ranks, options);
    FILE *out = popen(command, "r");
    json_t *all = out ? json_loadf(out, 0, &error) : NULL;
    const int ended = out ? pclose(out) : -1, code = WIFEXITED(ended) ? WEXITSTATUS(ended) : -1;
    if (!all || code != wanted) printf("# %s: exit code %d, %s\n", command, code, all ? "JSON" : error.text);
    json_t *rows = json_incref(json_object_get(all, "rows"));
    if (code != wanted || json_integer_value(json_object_get(all, "ranks")) != ranks) {
        json_decref(rows);
        rows = NULL;
    }
    json_decref(all);
    return rows;
}

static double number(const json_t *row, const char *name)
{
    return json_number_value(json_object_get(row, name));
}
static bool is(const json_t *row, const char *name, const char *text)
{
    const char *value = json_string_value(json_object_get(row, name));
    return value && !strcmp(value, text);
}

/* Check one line: no wrong element, a time, and bandwidths that follow from it. */
static bool makes_sense(const json_t *row)
{
    const double seconds = number(row, "seconds"), bytes = number(row, "bytes"),
                 algbw = number(row, "algbw_bytes_per_s");
    const bool reduces = is(row, "collective", "all_reduce") || is(row, "collective", "reduce")
                         || is(row, "collective", "reduce_scatter");
    const bool whole = is(row, "dtype", "i32");
    bool ok = json_is_integer(json_object_get(row, "wrong")) && number(row, "wrong") == 0 && seconds > 0
              && seconds < 60 && number(row, "p99_seconds") >= seconds;
    ok = ok && (bytes > 0) != is(row, "collective", "barrier") && algbw >= bytes / seconds * 0.999
         && algbw <= bytes / seconds * 1.001;
    ok = ok && (number(row, "limit_seconds") > 0) == (bytes >= 65536); /* on one host */
    ok = ok && json_is_real(json_object_get(row, "max_ulp")) == (reduces && !whole);
    ok = ok && is(row, "reduction", reduces ? "sum" : "none");
    if (!ok) {
        printf("# ");
        json_dumpf(row, stdout, JSON_COMPACT);
        printf("\n");
    }
    return ok;
}

static int count(const json_t *rows, const char *collective, int in_place)
{
    int n = 0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        n += is(row, "collective", collective)
             && json_is_true(json_object_get(row, "in_place")) == (bool)in_place;
    }
    return n;
}

/* Two sizes of two types. */
static void every_collective(void)
{
    char options[512], names[] = ALL, *save = NULL;
    snprintf(options, sizeof options,
             "bench collectives --collectives " ALL
             " --dtype bf16,i32 --min-bytes 8 --max-bytes 64K --factor 8192 --rivals %s",
             ranks == 2 ? "on" : "off");
    json_t *rows = rows_of("", options, 0);
    bool ok = json_array_size(rows) > 0, beside = true;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        ok &= makes_sense(row);
        /* MPI cannot add bf16. */
        const bool offered = ranks == 2 && (is(row, "reduction", "none") || is(row, "dtype", "i32"));
        beside &= (number(row, "mpi_seconds") > 0) == offered && (number(row, "times_mpi") > 0) == offered;
    }
    check(ok, "every line is right, and its figures agree");
    check(beside, ranks == 2 ? "MPI stands beside what it offers" : "no rival unless asked for");
    for (char *name = strtok_r(names, ",", &save); name; name = strtok_r(NULL, ",", &save)) {
        const bool once = !strcmp(name, "all_to_all") || !strcmp(name, "sendrecv"),
                   barrier = !strcmp(name, "barrier");
        check(count(rows, name, 0) == (barrier ? 1 : 4) && count(rows, name, 1) == (once || barrier ? 0 : 4),
              name);
    }
    json_decref(rows);
}

static void variants(void)
{
    json_t *rows = rows_of(
        "",
        "bench allreduce --shared --in-place in --no-check --rivals off --max-bytes 4K --reduction prod,min --dtype f64",
        0);
    bool ok = json_array_size(rows) == 8;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        ok &= number(row, "wrong") == 0 && is(row, "collective", "all_reduce")
              && is(row, "reduction", i < 4 ? "prod" : "min") && is(row, "dtype", "f64");
    }
    check(ok, "the short name, shared memory, two reductions, no call check");
    json_decref(rows);
    rows = rows_of(
        "",
        "bench allreduce --reproducible shape --beside run --in-place out --rivals off --min-bytes 4K --max-bytes 4K",
        0);
    const json_t *row = json_array_get(rows, 0);
    ok = json_array_size(rows) == 1 && number(row, "beside_seconds") > 0;
    const double ratio = number(row, "beside_seconds") / number(row, "seconds") / number(row, "times_beside");
    check(ok && ratio > 0.999 && ratio < 1.001, "a variant beside it, of as many elements");
    json_decref(rows);
    char uneven[256];
    snprintf(
        uneven, sizeof uneven,
        "bench allreduce --sum-shares 0:1*%d --beside equal --in-place out --rivals off --min-bytes 256K --max-bytes 256K",
        ranks - 1);
    rows = rows_of("", uneven, 0);
    check(json_array_size(rows) == 1 && number(json_array_get(rows, 0), "wrong") == 0
              && number(json_array_get(rows, 0), "beside_seconds") > 0,
          "rank 0 sums nothing, beside equal shares");
    json_decref(rows);
    rows = rows_of(
        "",
        "bench allreduce --dtype f16 --beside f32 --in-place out --rivals off --min-bytes 4K --max-bytes 4K",
        0);
    row = json_array_get(rows, 0);
    const double twice = number(row, "beside_seconds") / number(row, "seconds") / number(row, "times_beside");
    check(json_array_size(rows) == 1 && twice > 0.499 && twice < 0.501,
          "f32 beside it has half as many elements");
    json_decref(rows);
}

/*
 * The plan of each line must be what a given cost model decides, on the line that was measured. Sends and
 * receives have no plan.
 */
static void plans(void)
{
    static const char environment[] =
        "YOKE_COSTS=sync_us=1,shared_gbps=10,long_gbps=5,sum_gbps=40,message_us=20,message_gbps=0.1,oneshot_bytes=8192";
    static const char *const wanted[] = { "oneshot", "slices" };
    json_t *rows = rows_of(
        environment,
        "bench collectives --explain --collectives all_reduce,sendrecv --in-place out --rivals off --min-bytes 4K --max-bytes 64K "
        "--factor 16",
        0);
    bool ok = json_array_size(rows) == 4;
    for (size_t i = 0; i < 2 && ok; i++) {
        const json_t *row = json_array_get(rows, i), *plan = json_object_get(row, "plan");
        ok = makes_sense(row) && is(plan, "algorithm", wanted[i]) && number(plan, "predicted_seconds") > 0
             && number(plan, "chunk_bytes") > 0 && number(plan, "lanes") >= 1
             && json_string_length(json_object_get(plan, "why")) > 0;
    }
    ok = ok && !json_object_get(json_array_get(rows, 2), "plan")
         && !json_object_get(json_array_get(rows, 3), "plan");
    check(ok, "the plan of each line");
    json_decref(rows);
}

/* A preloaded library damages one element of the longer calls. */
static void a_wrong_result_has_no_speed(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    printf("ok %d - a wrong result has no speed # SKIP nothing is preloaded before the sanitizer\n",
           ++n_tests);
#else
    json_t *rows = rows_of(
        "LD_PRELOAD=tests/ranks/.libs/libwrong.so",
        "bench collectives --collectives all_gather --in-place out --rivals off --min-bytes 64 --max-bytes 4K --factor 64",
        17);
    const json_t *right = json_array_get(rows, 0), *wrong = json_array_get(rows, 1);
    check(json_array_size(rows) == 2 && makes_sense(right) && number(wrong, "wrong") == 1
              && !json_object_get(wrong, "seconds") && !json_object_get(wrong, "algbw_bytes_per_s"),
          "a wrong result has no speed, and the exit code says so");
    json_decref(rows);
#endif
}

int main(int argc, char **argv)
{
    if (argc != 3) return 99;
    yoke = argv[1];
    ranks = atoi(argv[2]);
    every_collective();
    variants();
    plans();
    a_wrong_result_has_no_speed();
    printf("1..%d\n", n_tests);
    return n_bad > 0;
}
