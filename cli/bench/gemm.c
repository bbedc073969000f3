/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yoke bench gemm: matrix products through yoke_gemm, and through known libraries beside it. The sides are
 * measured in turn.
 */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench/gemm.h"
#include "cli/cli.h"
#include "cli/libraries/libraries.h"
#include "core/base/base.h"
#include "core/base/times.h"

#define MAX_SIDES 3
#define MAX_REPEATS 1000
#define LEAST_SECONDS 0.01 /* one sample repeats a small product until it takes this long */

/* ---- Yoke's own side ---- */

struct ours {
    yoke_device *device;
    yoke_stream *stream;
    const struct gemm_problem *problem;
    struct yoke_gemm_args args;
    void *memory[3];
    size_t bytes[3];
};

static bool ours_failed(char *reason, size_t bytes)
{
    yokei_text(reason, bytes, "%s", yoke_last_error());
    return false;
}

static bool ours_prepare(struct gemm_side *side, const struct gemm_problem *p, char *reason, size_t bytes)
{
    struct ours *s = side->state;
    size_t size = yoke_dtype_bytes(p->dtype);
    void *data[3] = { p->a, p->b, NULL };
    struct yoke_cost cost = { .size = sizeof cost };
    s->problem = p;
    s->bytes[0] = (size_t)(p->M * p->K) * size, s->bytes[1] = (size_t)(p->K * p->N) * size,
    s->bytes[2] = (size_t)(p->M * p->N) * size;
    for (int i = 0; i < 3; i++) {
        if (yoke_alloc(s->device, s->bytes[i], &s->memory[i])) return ours_failed(reason, bytes);
        if (data[i] && yoke_copy_to_device(s->stream, s->memory[i], data[i], s->bytes[i]))
            return ours_failed(reason, bytes);
    }
    s->args = YOKE_ARGS(gemm, .dtype = p->dtype, .out_dtype = p->dtype, .M = p->M, .N = p->N, .K = p->K,
                        .batch = 1, .a = s->memory[0], .lda = p->K, .b = s->memory[1], .ldb = p->N,
                        .c = s->memory[2], .ldc = p->N, .alpha = 1);
    if (yoke_gemm_can(s->device, &s->args, &cost) || yoke_stream_reserve(s->stream, cost.scratch_bytes)
        || yoke_stream_sync(s->stream))
        return ours_failed(reason, bytes);
    return true;
}

static bool ours_run(struct gemm_side *side)
{
    struct ours *s = side->state;
    return !yoke_gemm(s->stream, &s->args) && !yoke_stream_sync(s->stream);
}

static bool ours_fetch(struct gemm_side *side)
{
    struct ours *s = side->state;
    return !yoke_copy_to_host(s->stream, s->problem->c, s->memory[2], s->bytes[2])
           && !yoke_stream_sync(s->stream);
}

static void ours_release(struct gemm_side *side)
{
    struct ours *s = side->state;
    yoke_stream_sync(s->stream);
    for (int i = 0; i < 3; i++) {
        yoke_free(s->device, s->memory[i]);
        s->memory[i] = NULL;
    }
}

/* ---- measuring ---- */

/* One line of the table. */
struct row {
    const char *side;
    yoke_dtype dtype;
    int64_t M, N, K;
    int threads;
    double seconds; /* median; 0: no speed */
    double least, most;
    double rate, limit; /* operations per second */
    double ratio;       /* |error| / bound of the check */
    double beside;      /* Yoke's speed divided by this row's */
    char note[200];     /* why there is no speed */
};

static bool time_once(struct gemm_side *side, int n, double *seconds_out)
{
    uint64_t start = yokei_now_ns();
    for (int i = 0; i < n; i++)
        if (!side->run(side)) return false;
    *seconds_out = (double)(yokei_now_ns() - start) * 1e-9 / n;
    return true;
}

/* Prepare one side, run it, check its result, and find how many runs make a sample. */
static bool admit_side(struct gemm_side *side, const struct gemm_problem *p, struct row *row, int *n_runs_out)
{
    double seconds;
    memset(p->c, 0xff, (size_t)(p->M * p->N) * yoke_dtype_bytes(p->dtype)); /* NaN in every type */
    if (!side->prepare(side, p, row->note, sizeof row->note)) return false;
    if (!side->run(side) || !side->fetch(side)) {
        yokei_text(row->note, sizeof row->note, "failed: %s", yoke_last_error());
        return false;
    }
    if (!cli_gemm_check(p, &row->ratio)) {
        yokei_text(row->note, sizeof row->note, "WRONG: error is %.3g times its bound", row->ratio);
        return false;
    }
    if (!time_once(side, 1, &seconds)) return false;
    *n_runs_out = (int)fmin(10000, fmax(1, ceil(LEAST_SECONDS / fmax(seconds, 1e-7))));
    return true;
}

static void measure_sides(struct gemm_side *sides, int n_sides, const struct gemm_problem *p, int repeats,
                          struct row *rows)
{
    static double samples[MAX_SIDES][MAX_REPEATS];
    int n_runs[MAX_SIDES];
    bool in[MAX_SIDES];
    for (int s = 0; s < n_sides; s++) in[s] = admit_side(&sides[s], p, &rows[s], &n_runs[s]);
    for (int r = 0; r < repeats; r++)
        for (int s = 0; s < n_sides; s++)
            if (in[s] && !time_once(&sides[s], n_runs[s], &samples[s][r])) {
                yokei_text(rows[s].note, sizeof rows[s].note, "failed: %s", yoke_last_error());
                in[s] = false;
            }
    for (int s = 0; s < n_sides; s++) {
        sides[s].release(&sides[s]);
        if (!in[s]) continue;
        qsort(samples[s], (size_t)repeats, sizeof samples[s][0], yokei_by_value);
        rows[s].seconds = samples[s][repeats / 2];
        rows[s].least = samples[s][0];
        rows[s].most = samples[s][repeats - 1];
        rows[s].rate = p->flops / rows[s].seconds;
    }
    for (int s = 0; s < n_sides; s++)
        if (rows[s].seconds > 0 && rows[0].seconds > 0) rows[s].beside = rows[s].seconds / rows[0].seconds;
}

/* ---- printing ---- */

struct table {
    const char *format;
    json_t *rows;
    const char *device;
    bool begun;
};

static void share_text(const struct row *r, char *out, size_t bytes)
{
    if (r->limit > 0)
        yokei_text(out, bytes, "%.0f", 100 * r->rate / r->limit);
    else
        yokei_text(out, bytes, "-");
}

static void print_row(struct table *t, const struct row *r)
{
    char percent[16];
    share_text(r, percent, sizeof percent);
    if (!strcmp(t->format, "json")) {
        json_t *o = json_pack("{s:s, s:s, s:I, s:I, s:I, s:i}", "library", r->side, "dtype",
                              yoke_dtype_name(r->dtype), "M", (json_int_t)r->M, "N", (json_int_t)r->N, "K",
                              (json_int_t)r->K, "threads", r->threads);
        if (r->seconds > 0)
            json_object_update_new(o, json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "seconds", r->seconds,
                                                "least", r->least, "most", r->most, "flop_per_s", r->rate,
                                                "limit_flop_per_s", r->limit, "yoke_times_as_fast", r->beside,
                                                "error_over_bound", r->ratio));
        else
            json_object_set_new(o, "reason", json_string(r->note));
        json_array_append_new(t->rows, o);
        return;
    }
    bool csv = !strcmp(t->format, "csv");
    if (!t->begun && csv)
        puts(
            "device,library,dtype,M,N,K,threads,ms,least_ms,most_ms,gflops,percent_of_limit,yoke_times_as_fast,error_over_bound,note");
    if (!t->begun && !csv)
        printf(
            "| %-9s | %-5s | %5s | %5s | %5s | %9s | %8s | %6s | %8s | %11s |\n"
            "|-----------|-------|------:|------:|------:|----------:|---------:|-------:|---------:|------------:|\n",
            "library", "dtype", "M", "N", "K", "ms", "GFLOP/s", "%limit", "yoke is", "error/bound");
    t->begun = true;
    if (csv && r->seconds > 0)
        printf("%s,%s,%s,%" PRId64 ",%" PRId64 ",%" PRId64 ",%d,%.6g,%.6g,%.6g,%.6g,%s,%.4g,%.4g,\n",
               t->device, r->side, yoke_dtype_name(r->dtype), r->M, r->N, r->K, r->threads, r->seconds * 1e3,
               r->least * 1e3, r->most * 1e3, r->rate * 1e-9, percent, r->beside, r->ratio);
    else if (csv)
        printf("%s,%s,%s,%" PRId64 ",%" PRId64 ",%" PRId64 ",%d,,,,,,,,\"%s\"\n", t->device, r->side,
               yoke_dtype_name(r->dtype), r->M, r->N, r->K, r->threads, r->note);
    else if (r->seconds > 0)
        printf("| %-9s | %-5s | %5" PRId64 " | %5" PRId64 " | %5" PRId64
               " | %9.4g | %8.4g | %6s | %7.2fx | %11.2g |\n",
               r->side, yoke_dtype_name(r->dtype), r->M, r->N, r->K, r->seconds * 1e3, r->rate * 1e-9,
               percent, r->beside, r->ratio);
    else
        printf("| %-9s | %-5s | %5" PRId64 " | %5" PRId64 " | %5" PRId64 " | %s |\n", r->side,
               yoke_dtype_name(r->dtype), r->M, r->N, r->K, r->note);
    fflush(stdout);
}

/* ---- the verb ---- */

static yoke_status parse_size(const char *text, struct gemm_problem *p)
{
    int end = 0, n = sscanf(text, "%" SCNd64 "%n", &p->M, &end);
    if (n == 1 && !text[end])
        p->N = p->K = p->M;
    else if (sscanf(text, "%" SCNd64 "x%" SCNd64 "x%" SCNd64 "%n", &p->M, &p->N, &p->K, &end) != 3
             || text[end])
        return yoke_fail(YOKE_EINVAL, "size '%s': write N, or MxNxK, such as 512 or 64x1024x256", text);
    if (p->M < 1 || p->N < 1 || p->K < 1 || p->M > 32768 || p->N > 32768 || p->K > 32768)
        return yoke_fail(YOKE_EINVAL, "size '%s': each dimension is from 1 to 32768", text);
    return YOKE_OK;
}

static yoke_status fill_problem(struct gemm_problem *p)
{
    size_t size = yoke_dtype_bytes(p->dtype);
    p->a = malloc((size_t)(p->M * p->K) * size);
    p->b = malloc((size_t)(p->K * p->N) * size);
    p->c = malloc((size_t)(p->M * p->N) * size);
    if (!p->a || !p->b || !p->c)
        return yoke_fail(YOKE_ENOMEM, "no memory for a product of %" PRId64 "x%" PRId64 "x%" PRId64, p->M,
                         p->N, p->K);
    struct yokei_philox_key a = yokei_philox_named(1, "a"), b = yokei_philox_named(1, "b");
    for (int64_t i = 0; i < p->M * p->K; i++)
        yokei_store(p->dtype, p->a, i, yokei_uniform(a, (uint64_t)i) - 0.5);
    for (int64_t i = 0; i < p->K * p->N; i++)
        yokei_store(p->dtype, p->b, i, yokei_uniform(b, (uint64_t)i) - 0.5);
    return YOKE_OK;
}

/* Yoke's count of the operations holds for all sides. */
static yoke_status count_work(const yoke_device *device, struct gemm_problem *p)
{
    struct yoke_cost cost = { .size = sizeof cost };
    YOKE_TRY(
        yoke_gemm_can(device,
                      &YOKE_ARGS(gemm, .dtype = p->dtype, .out_dtype = p->dtype, .M = p->M, .N = p->N,
                                 .K = p->K, .batch = 1, .lda = p->K, .ldb = p->N, .ldc = p->N, .alpha = 1),
                      &cost));
    p->flops = cost.flops;
    return YOKE_OK;
}

static void drop_problem(struct gemm_problem *p)
{
    free(p->a);
    free(p->b);
    free(p->c);
}

/* The multiplications of the first n products that are to be measured. They say how far the verb is. */
static double work_of_sizes(const struct cli_options *o, int n)
{
    double work = 0;
    char text[64];
    for (int i = 0; i < n; i++) {
        struct gemm_problem p = { 0 };
        if (!parse_size(cli_list_item(o, "size", i, text, sizeof text), &p))
            work += (double)p.M * (double)p.N * (double)p.K;
    }
    return work;
}

static yoke_status all_products(const struct cli_context *context, struct gemm_side *sides, int n_sides,
                                int threads, yoke_device *device, struct table *table, bool *wrong_out)
{
    const struct cli_options *o = context->options;
    const int n_sizes = cli_list_count(o, "size"), n_types = cli_list_count(o, "dtype");
    for (int d = 0; d < n_types; d++) {
        char text[64];
        struct gemm_problem p = { 0 };
        yoke_dtype_parse(cli_list_item(o, "dtype", d, text, sizeof text), &p.dtype);
        double limit = 0;
        cli_progress_now("the peak of the device in %s", text);
        cli_progress_share((double)d / n_types);
        const yoke_status measured = yoke_gemm_peak(device, p.dtype, &limit, NULL);
        if (measured && measured != YOKE_EUNSUPPORTED) return measured;
        for (int i = 0; i < n_sizes; i++) {
            struct row rows[MAX_SIDES] = { 0 };
            YOKE_TRY(parse_size(cli_list_item(o, "size", i, text, sizeof text), &p));
            YOKE_TRY(count_work(device, &p));
            yoke_status status = fill_problem(&p);
            cli_progress_now("%s %s", yoke_dtype_name(p.dtype), text);
            cli_progress_share((d + work_of_sizes(o, i) / work_of_sizes(o, n_sizes)) / n_types);
            for (int s = 0; s < n_sides; s++)
                rows[s] = (struct row){ .side = sides[s].name,
                                        .dtype = p.dtype,
                                        .M = p.M,
                                        .N = p.N,
                                        .K = p.K,
                                        .threads = threads,
                                        .limit = limit };
            if (!status) measure_sides(sides, n_sides, &p, (int)cli_int(o, "repeats"), rows);
            drop_problem(&p);
            if (status) return status;
            cli_progress_pause();
            for (int s = 0; s < n_sides; s++) print_row(table, &rows[s]);
            if (rows[0].ratio > 1) *wrong_out = true;
        }
    }
    return YOKE_OK;
}

static yoke_status compare_sides(const struct cli_context *context, yoke_device *device, int threads,
                                 struct table *table, bool *wrong_out)
{
    const struct yoke_device_info *info = yoke_device_info(device);
    struct ours ours = { .device = device };
    struct gemm_side sides[MAX_SIDES] = { { .name = "yoke",
                                            .prepare = ours_prepare,
                                            .run = ours_run,
                                            .fetch = ours_fetch,
                                            .release = ours_release,
                                            .state = &ours } };
    int n_sides = 1;
    bool opencl = !strcmp(info->backend, "opencl");
    if (opencl) sides[n_sides++] = cli_side_clblast(info->index);
    if (!strcmp(info->backend, "host")) {
        sides[n_sides++] = cli_side_onednn;
        sides[n_sides++] = cli_side_openblas;
    }
    YOKE_TRY(yoke_stream_create(device, &ours.stream));
    cli_progress_begin("bench gemm on %s", info->spec);
    yoke_status status = all_products(context, sides, n_sides, threads, device, table, wrong_out);
    cli_progress_end();
    if (!status && strcmp(table->format, "json"))
        cli_note("%s: %s, %d threads. Medians of %d measurements, with the sides in turn%s%s", info->spec,
                 info->name, threads, (int)cli_int(context->options, "repeats"),
                 sides[1].version[0] ? "; " : "", sides[1].version);
    yoke_stream_destroy(ours.stream);
    return status;
}

yoke_status cli_bench_gemm(const struct cli_context *context)
{
    const struct cli_options *o = context->options;
    struct yokei_topology topology;
    YOKE_TRY(yokei_topology(&topology));
    struct gemm_problem probe;
    for (int i = 0; i < cli_list_count(o, "size"); i++) {
        char text[64];
        YOKE_TRY(parse_size(cli_list_item(o, "size", i, text, sizeof text), &probe));
    }
    int threads = cli_is_set(o, "threads") ? (int)cli_int(o, "threads") : topology.n_cores;
    cli_with_threads(threads);
    struct table table = { .format = cli_flag(o, "json") ? "json" : cli_text(o, "format"),
                           .rows = json_array(),
                           .device = cli_text(o, "device") };
    yoke_device *device;
    bool wrong = false;
    YOKE_TRY(yoke_device_open(table.device, NULL, &device));
    yoke_status status = compare_sides(context, device, threads, &table, &wrong);
    yoke_device_close(device);
    if (!status && !strcmp(table.format, "json")) {
        json_t *root = json_pack("{s:i, s:s, s:s, s:O}", "schema", 1, "version", yoke_version(), "device",
                                 table.device, "rows", table.rows);
        json_dumpf(root, stdout, JSON_INDENT(2));
        putchar('\n');
        json_decref(root);
    }
    json_decref(table.rows);
    if (!status && wrong)
        return yoke_fail(
            YOKE_ENUMERIC,
            "%s: a product is wrong, see the lines that say WRONG; yoke verify --op gemm finds the case",
            table.device);
    return status;
}
