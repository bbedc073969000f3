/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yoke bench kernels: every operation of a device is checked and timed. Its time stands beside the limit of
 * its arithmetic and its memory.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench/kernels.h"
#include "cli/libraries/libraries.h"
#include "core/base/base.h"
#include "core/backend.h"
#include "core/tune.h"

struct bench {
    const struct cli_context *context;
    yoke_device *device;
    yoke_stream *stream;
    struct kernels_selection selection;
    struct bench_peaks peaks;
    struct bench_kernel_table table;
    bool predicts; /* the device is emulated: its work is counted, and nothing is timed */
    int n_rows, n_all, n_wrong;
};

static yoke_status run_op(void *context, int n)
{
    struct {
        struct conform_problem *problem;
        yoke_stream *stream;
    } *call = context;
    for (int i = 0; i < n; i++) YOKE_TRY(conform_problem_run(call->problem));
    return yoke_stream_sync(call->stream);
}

/*
 * Measure the operation in turn with the limit of its memory. On a CPU there are two ways to move as many
 * bytes, else one.
 */
static yoke_status measure_problem(struct bench *b, struct conform_problem *problem,
                                   struct bench_kernel_row *row)
{
    static double times[3][KERNELS_MOST_ROUNDS];
    struct {
        struct conform_problem *problem;
        yoke_stream *stream;
    } call = { problem, b->stream };
    struct bench_move moves[2] = { { &b->peaks, row->bytes, false }, { &b->peaks, row->bytes, true } };
    struct kernels_side sides[3] = { { .run = run_op, .context = &call, .times = times[0] },
                                     { .run = bench_peaks_move, .context = &moves[0], .times = times[1] },
                                     { .run = bench_peaks_move, .context = &moves[1], .times = times[2] } };
    const int n_sides = b->peaks.on_cpu ? 3 : 2;
    int rounds;
    YOKE_TRY(kernels_measure(sides, n_sides, cli_real(b->context->options, "budget-seconds"), &rounds));
    row->seconds = sides[0].median;
    row->least = INFINITY, row->most = 0;
    for (int r = 0; r < rounds; r++)
        row->least = fmin(row->least, times[0][r]), row->most = fmax(row->most, times[0][r]);
    double move = INFINITY;
    for (int s = 1; s < n_sides; s++) {
        const double moved = bench_peaks_moved(&moves[s - 1]);
        if (moved > 0) move = fmin(move, sides[s].median * row->bytes / moved);
    }
    /* An operation that is not a product computes in f32, whatever type it stores. */
    const bool is_product = row->op == YOKE_OP_gemm || row->op == YOKE_OP_attention_forward
                            || row->op == YOKE_OP_attention_backward;
    const double peak = b->peaks.flops[is_product ? row->dtype : YOKE_F32],
                 compute = peak > 0 ? row->flops / peak : 0;
    row->limit = fmax(isfinite(move) ? move : 0, compute);
    row->by_bytes = isfinite(move) && move >= compute;
    return YOKE_OK;
}

/*
 * Ask whether the device offers the operation, and check the result. *in_out is false if the row has a reason
 * instead of a speed.
 */
static yoke_status admit_problem(struct bench *b, struct conform_problem *problem,
                                 struct bench_kernel_row *row, bool *in_out)
{
    struct yoke_cost cost;
    struct conform_line line;
    double size, edge;
    *in_out = false;
    yoke_status status = conform_problem_ready(problem, &cost);
    if (status == YOKE_EUNSUPPORTED) {
        yokei_text(row->note, sizeof row->note, "not offered: %s", yoke_last_error());
        return YOKE_OK;
    }
    YOKE_TRY(status);
    row->flops = cost.flops, row->bytes = cost.bytes;
    YOKE_TRY(conform_problem_check(b->device, b->stream, row->op, row->dtype, row->size->dim, &line,
                                   row->checked));
    row->ratio = line.ratio;
    row->variant = yokei_variant_used(b->device, row->op, &size, &edge);
    if (line.verdict == CONFORM_FAIL) {
        yokei_text(row->note, sizeof row->note, "WRONG: %s", line.reason);
        b->n_wrong++;
        return YOKE_OK;
    }
    *in_out = true;
    return conform_problem_ready(problem,
                                 &cost); /* the shape of the check may have asked for less scratch memory */
}

/* Count what one call does. The device is emulated. */
static yoke_status predict(struct bench *b, struct conform_problem *problem, struct bench_kernel_row *row,
                           struct bench_prediction *out)
{
    const struct yoke_device_extras *extras = b->device->backend->device->extras;
    struct yokei_counts before, after;
    uint64_t a[sizeof before / sizeof(uint64_t)], z[YOKE_COUNT(a)];
    extras->counts(b->device, &before);
    YOKE_TRY(conform_problem_run(problem));
    YOKE_TRY(yoke_stream_sync(b->stream));
    extras->counts(b->device, &after);
    memcpy(a, &before, sizeof a);
    memcpy(z, &after, sizeof z);
    for (size_t i = 0; i < YOKE_COUNT(z); i++) z[i] -= a[i];
    memcpy(&out->counts, z, sizeof z);
    out->least_bytes = row->bytes;
    if (yokei_variant_facts(b->device, row->op) & YOKEI_VARIANT_LIBRARY)
        yokei_text(row->note, sizeof row->note, "a vendor's library runs this, whose work is not counted");
    return YOKE_OK;
}

static yoke_status bench_row(struct bench *b, enum yoke_op_id op, yoke_dtype dtype,
                             const struct conform_size *size)
{
    struct bench_kernel_row row = { .op = op, .dtype = dtype, .size = size, .variant = "" };
    struct bench_prediction prediction = { .least_bytes = 0 };
    struct conform_problem *problem;
    bool in;
    double asked, edge;
    cli_progress_now("%s %s %s", yokei_op_names[op], yoke_dtype_name(dtype), size->name);
    cli_progress_at(b->n_rows, b->n_all);
    YOKE_TRY(conform_problem_open(b->device, b->stream, op, dtype, size->dim, &problem));
    yoke_status status = admit_problem(b, problem, &row, &in);
    if (!status && in && b->predicts)
        status = predict(b, problem, &row, &prediction);
    else if (!status && in)
        status = measure_problem(b, problem, &row);
    if (!status && in) row.variant = yokei_variant_used(b->device, op, &asked, &edge);
    if (!status && in) yokei_algorithm_used(b->device, op, row.algorithm, sizeof row.algorithm);
    conform_problem_close(problem);
    if (b->table.to == stdout) cli_progress_pause();
    if (status)
        return yoke_fail_context(status, "%s %s %s", yokei_op_names[op], yoke_dtype_name(dtype), size->name);
    if (b->predicts)
        bench_predict_row(&b->table, &row, &prediction);
    else
        bench_kernel_table_row(&b->table, &row);
    b->n_rows++;
    return YOKE_OK;
}

/* Measure all rows, or, with `only_count`, count them. */
static yoke_status all_rows(struct bench *b, bool only_count)
{
    for (int op = 0; op < YOKE_N_OPS; op++)
        for (int d = 0; d < YOKE_N_DTYPES; d++) {
            struct conform_size sizes[CONFORM_MAX_SIZES];
            if (!kernels_selected(&b->selection, (enum yoke_op_id)op, (yoke_dtype)d)) continue;
            /* an emulated device would take hours for the sizes of real models */
            const int n = kernels_sizes(b->context->options, (enum yoke_op_id)op, b->predicts ? "tiny" : "",
                                        "tiny", sizes);
            if (only_count) b->n_all += n;
            for (int i = 0; i < n && !only_count; i++)
                YOKE_TRY(bench_row(b, (enum yoke_op_id)op, (yoke_dtype)d, &sizes[i]));
        }
    return YOKE_OK;
}

static yoke_status predict_device(struct bench *b)
{
    YOKE_TRY(yoke_stream_create(b->device, &b->stream));
    bench_kernel_table_begin(&b->table);
    const yoke_status status = all_rows(b, false);
    bench_predict_end(&b->table, yoke_device_info(b->device)->name, !status);
    yoke_stream_destroy(b->stream);
    return status;
}

static yoke_status bench_device(struct bench *b, int threads)
{
    yoke_status status;
    YOKE_TRY(yoke_stream_create(b->device, &b->stream));
    cli_progress_now("the limits of the device");
    bool types[YOKE_N_DTYPES];
    memcpy(types, b->selection.dtype, sizeof types);
    types[YOKE_F32] = true;
    YOKE_TRY_GOTO(bench_peaks_open(b->device, b->stream, threads, types, &b->peaks), destroy_stream);
    cli_progress_pause();
    bench_kernel_table_begin(&b->table);
    status = all_rows(b, false);
    bench_kernel_table_end(&b->table, &b->peaks, !status);
    bench_peaks_close(&b->peaks);
destroy_stream:
    yoke_stream_destroy(b->stream);
    return status;
}

/* The format: that of --format, or JSON if the file of --output has a name that ends in .json. */
static const char *format_of(const struct cli_options *o)
{
    const char *path = cli_text(o, "output"), *end = path ? strrchr(path, '.') : NULL;
    const bool named = end && !strcmp(end, ".json") && !cli_is_set(o, "format");
    return cli_flag(o, "json") || named ? "json" : cli_text(o, "format");
}

static yoke_status bench_to(void *with, FILE *to)
{
    const struct cli_context *context = with;
    const struct cli_options *o = context->options;
    struct bench b = {
        .context = context,
        .table = { .format = format_of(o), .device = cli_text(o, "device"), .to = to },
    };
    struct yokei_topology topology;
    YOKE_TRY(yokei_topology(&topology));
    YOKE_TRY(kernels_select(o, &b.selection));
    YOKE_TRY(kernels_check_sizes(o, &b.selection));
    const int threads = cli_is_set(o, "threads") ? (int)cli_int(o, "threads") : topology.n_cores;
    if (strncmp(b.table.device, "host", 4))
        cli_with_sleeping_threads(threads); /* the triads beside it run in OpenMP's threads */
    else
        cli_with_threads(threads);
    YOKE_TRY(yoke_device_open(b.table.device, NULL, &b.device));
    struct yokei_counts counts;
    const struct yoke_device_extras *extras = b.device->backend->device->extras;
    b.predicts = extras && extras->counts && extras->counts(b.device, &counts);
    cli_progress_begin("bench kernels on %s", b.table.device);
    all_rows(&b, true);
    const yoke_status status = b.predicts ? predict_device(&b) : bench_device(&b, threads);
    cli_progress_end();
    yoke_device_close(b.device);
    if (status) return status;
    if (b.n_wrong)
        return yoke_fail(
            YOKE_ENUMERIC,
            "%s: %d of %d lines are wrong, see those that say WRONG; yoke verify --device %s finds the case",
            b.table.device, b.n_wrong, b.n_rows, b.table.device);
    if (!b.n_rows)
        return yoke_fail(YOKE_EUNSUPPORTED,
                         "%s: nothing was measured: no op that was asked for has this type and size",
                         b.table.device);
    return YOKE_OK;
}

yoke_status cli_bench_kernels(const struct cli_context *context)
{
    return cli_write_results(cli_text(context->options, "output"), bench_to, (void *)context);
}
