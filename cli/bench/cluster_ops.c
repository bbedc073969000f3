/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ops of a rank's device, measured while all ranks work. A barrier comes before each op, and each rank
 * then repeats the op for the same time. So the ranks share cores and memory as in a training step.
 *
 * The time of an op is the first quartile of its samples. A rank that stands still for a part of the time,
 * because its cores are shared or limited, has good samples between the bad ones. cluster_steps.c finds out
 * how much longer the steps of a training are.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench/cluster.h"
#include "conform/problem.h"
#include "core/backend.h"
#include "core/base/base.h"
#include "core/base/times.h"

/*
 * The ops of training steps. All sizes up to the largest one of --size are measured: the tiny ones say how
 * long an op takes that does hardly anything, and the rate of products depends on their size.
 */
static const struct wanted {
    enum yoke_op_id op;
    bool only_f32; /* the optimizer's state is f32 in every precision */
} wanted[] = {
    { YOKE_OP_gemm, false },
    { YOKE_OP_attention_forward, false },
    { YOKE_OP_attention_backward, false },
    { YOKE_OP_adamw, true },
    { YOKE_OP_grad_norm, true },
    { YOKE_OP_layernorm_forward, false },
    { YOKE_OP_layernorm_backward, false },
    { YOKE_OP_rmsnorm_forward, false },
    { YOKE_OP_rmsnorm_backward, false },
    { YOKE_OP_gelu_forward, false },
    { YOKE_OP_gelu_backward, false },
    { YOKE_OP_swiglu_forward, false },
    { YOKE_OP_swiglu_backward, false },
    { YOKE_OP_add, false },
    { YOKE_OP_embed_forward, false },
    { YOKE_OP_embed_backward, false },
    { YOKE_OP_xent_forward, false },
    { YOKE_OP_xent_backward, false },
    { YOKE_OP_rope, false },
};

/* Products with few rows, as small micro-batches have them. They are slower than others with as much work. */
static const struct conform_size few_rows[] = {
    { "64 rows forward", { 64, 1024, 256, 1 } },       { "64 rows input", { 64, 256, 1024, 1, 0, 1 } },
    { "64 rows weight", { 256, 1024, 64, 1, 1, 0 } },  { "128 rows forward", { 128, 1024, 256, 1 } },
    { "128 rows input", { 128, 256, 1024, 1, 0, 1 } }, { "128 rows weight", { 256, 1024, 128, 1, 1, 0 } }
};

/*
 * Attention of short sequences with narrow heads. Its work lies between the tiny size, whose time is mostly
 * that of the launch, and the size of the micro model.
 */
static const struct conform_size narrow_heads[] = { { "1 sequence", { 1, 64, 4, 1, 32 } },
                                                    { "2 sequences", { 2, 64, 6, 3, 32 } },
                                                    { "4 sequences", { 4, 64, 6, 3, 32 } } };

/* The sizes that only this command measures. */
static const struct conform_size *more_sizes(enum yoke_op_id op, int *n_out)
{
    const bool attends = op == YOKE_OP_attention_forward || op == YOKE_OP_attention_backward;
    *n_out = op == YOKE_OP_gemm ? (int)YOKE_COUNT(few_rows) : attends ? (int)YOKE_COUNT(narrow_heads) : 0;
    return attends ? narrow_heads : few_rows;
}

struct item {
    enum yoke_op_id op;
    yoke_dtype dtype;
    const struct conform_size *size;
};

/* Whether --size names the size or a later size of the list. */
static bool is_selected(const struct bench_cluster *b, const struct conform_size *size)
{
    const struct cli_options *o = b->context->options;
    char text[32];
    if (!strncmp(size->name, "row", 3)) return false; /* memory limits this product */
    for (; size->name; size++)
        for (int i = 0; i < cli_list_count(o, "size"); i++) {
            cli_list_item(o, "size", i, text, sizeof text);
            if (!strncmp(size->name, text, strlen(text))) return true;
        }
    return false;
}

static bool is_wanted(const struct wanted *w, yoke_dtype dtype)
{
    return conform_dtypes_of(w->op) & 1u << dtype && (!w->only_f32 || dtype == YOKE_F32);
}

/* The size of an op with this index; NULL: there are fewer. */
static const struct conform_size *size_at(const struct bench_cluster *b, enum yoke_op_id op, int index)
{
    const struct conform_size *size = conform_sizes_of(op)->list;
    for (; size->name; size++)
        if (is_selected(b, size) && !index--) return size;
    int n_more;
    const struct conform_size *more = more_sizes(op, &n_more);
    return index < n_more ? &more[index] : NULL;
}

/* The item with this index. False: there are fewer items. f32 is always measured, for the optimizer. */
static bool item_at(const struct bench_cluster *b, int index, struct item *out)
{
    for (int d = 0; d < YOKE_N_DTYPES; d++)
        for (size_t i = 0; i < YOKE_COUNT(wanted); i++) {
            if (!b->dtype[d] && !(d == YOKE_F32 && wanted[i].only_f32)) continue;
            const struct conform_size *size;
            for (int k = 0; is_wanted(&wanted[i], (yoke_dtype)d) && (size = size_at(b, wanted[i].op, k)); k++)
                if (!index--) {
                    *out = (struct item){ wanted[i].op, (yoke_dtype)d, size };
                    return true;
                }
        }
    return false;
}

int bench_cluster_count(const struct bench_cluster *b)
{
    struct item item;
    int n = 0;
    while (item_at(b, n, &item)) n++;
    return n;
}

/* ---- the time of one op ---- */

enum { MOST_SAMPLES = 4096, LEAST_SAMPLES = 3 };
static const double SAMPLE = 1e-3;

static yoke_status time_calls(const struct bench_cluster *b, struct conform_problem *problem, int n,
                              double *seconds_out)
{
    const double begin = yokei_now();
    for (int i = 0; i < n; i++) YOKE_TRY(conform_problem_run(problem));
    YOKE_TRY(yoke_stream_sync(b->stream));
    *seconds_out = (yokei_now() - begin) / n;
    return YOKE_OK;
}

/* Repeat an op for `seconds`. Returns the time of a call: the first quartile, or the mean if it is long. */
static yoke_status repeat(const struct bench_cluster *b, struct conform_problem *problem, double seconds,
                          double one, double *seconds_out)
{
    const int n_calls = (int)fmin(10000, fmax(1, ceil(SAMPLE / fmax(one, 1e-8))));
    double *times = malloc(MOST_SAMPLES * sizeof *times);
    yoke_status status = times ? YOKE_OK : yoke_fail(YOKE_ENOMEM, "no memory for %d times", MOST_SAMPLES);
    int n = 0;
    const double begin = yokei_now();
    while (!status && n < MOST_SAMPLES && (n < LEAST_SAMPLES || yokei_now() - begin < seconds))
        status = time_calls(b, problem, n_calls, &times[n++]);
    if (!status) {
        const double mean = (yokei_now() - begin) / n / n_calls;
        yokei_sort(times, n);
        *seconds_out = times[n / 4] > YOKEI_LONG_OP ? mean : times[n / 4];
    }
    free(times);
    return status;
}

/* Prepare an item and run it twice: the first call may compile. *one_out 0: the device has no such op. */
static yoke_status prepare(const struct bench_cluster *b, const struct item *item, struct yokei_op_time *out,
                           struct conform_problem **problem_out, double *one_out)
{
    struct yoke_cost cost;
    double seconds = 0;
    *one_out = 0;
    yoke_status status = conform_problem_open(b->device, b->stream, item->op, item->dtype, item->size->dim,
                                              problem_out);
    if (!status) status = conform_problem_ready(*problem_out, &cost);
    if (!status) {
        out->flops = cost.flops, out->bytes = cost.bytes;
        status = time_calls(b, *problem_out, 1, &seconds);
    }
    if (!status) status = time_calls(b, *problem_out, 1, one_out);
    /* without the largest sizes, the smaller ones still say how fast the device is */
    return status == YOKE_EUNSUPPORTED || status == YOKE_ENOMEM ? YOKE_OK : status;
}

static yoke_status measure_item(const struct bench_cluster *b, const struct item *item, double seconds,
                                struct yokei_op_time *out)
{
    struct conform_problem *problem = NULL;
    double one = 0;
    *out = (struct yokei_op_time){ .seconds = 0 };
    yokei_text(out->op, sizeof out->op, "%s", yokei_op_names[item->op]);
    yokei_text(out->dtype, sizeof out->dtype, "%s", yoke_dtype_name(item->dtype));
    yoke_status status = prepare(b, item, out, &problem, &one);
    if (!status) status = yoke_barrier(b->control, NULL);
    if (!status && one > 0) status = repeat(b, problem, seconds, one, &out->seconds);
    conform_problem_close(problem);
    return status ? yoke_fail_context(status, "%s %s %s", yokei_op_names[item->op],
                                      yoke_dtype_name(item->dtype), item->size->name)
                  : YOKE_OK;
}

yoke_status bench_cluster_ops(const struct bench_cluster *b, double budget, struct yokei_op_time *op_out)
{
    struct item item;
    const int n_ops = bench_cluster_count(b);
    const uint32_t storage = yoke_device_info(b->device)->storage;
    for (int i = 0; item_at(b, i, &item); i++) {
        cli_progress_now("%s %s %s", yokei_op_names[item.op], yoke_dtype_name(item.dtype), item.size->name);
        cli_progress_at(i, n_ops);
        if (item.dtype != YOKE_F32 && !(storage & 1u << item.dtype)) {
            op_out[i] = (struct yokei_op_time){ .seconds = 0 };
            YOKE_TRY(yoke_barrier(b->control, NULL));
            continue;
        }
        YOKE_TRY(measure_item(b, &item, budget / n_ops, &op_out[i]));
    }
    return YOKE_OK;
}
