/* SPDX-License-Identifier: Apache-2.0 */
/* yoke bench cluster: all ranks measure their devices at the same time, and rank 0 writes a cluster file. */
#include "cli/bench/cluster.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/base.h"
#include "core/base/emulated.h"
#include "core/base/times.h"

static const double STEPS_PART = 0.6; /* of the time for ops */

static yoke_status allocate(struct bench_cluster *b)
{
    const size_t n = (size_t)b->context->size;
    b->rank = calloc(n, sizeof *b->rank);
    b->op = calloc(n * (size_t)b->n_ops, sizeof *b->op);
    b->place = calloc(n, sizeof *b->place);
    b->cluster = calloc(1, sizeof *b->cluster);
    if (!b->rank || !b->op || !b->place || !b->cluster)
        return yoke_fail(YOKE_ENOMEM, "no memory for the measurements of %zu ranks", n);
    return YOKE_OK;
}

static void release(struct bench_cluster *b)
{
    free(b->rank);
    free(b->op);
    free(b->place);
    free(b->cluster);
}

/* Send this rank's entry of a list to all ranks. */
static yoke_status share(const struct bench_cluster *b, void *list, size_t bytes)
{
    char *mine = (char *)list + (size_t)b->context->rank * bytes;
    return yoke_all_gather(mine, list, bytes, YOKE_U8, b->control, NULL);
}

/* What this rank says of itself. */
static yoke_status describe(const struct bench_cluster *b)
{
    const struct yoke_device_info *info = yoke_device_info(b->device);
    struct yokei_measured_rank *me = &b->rank[b->context->rank];
    struct yokei_topology topology;
    YOKE_TRY(yokei_topology(&topology));
    me->host = yoke_comm_host(b->control, b->context->rank);
    me->threads = YOKE_MIN(omp_get_max_threads(), topology.n_cores); /* as in the host backend */
    me->slowdown = 1;
    YOKE_TRY(yoke_device_memory(b->device, &me->memory, NULL));
    me->pool = yokei_host_id();
    if (!info->host_visible) me->pool = yokei_hash(info->spec, strlen(info->spec), me->pool);
    if (gethostname(me->host_name, sizeof me->host_name - 1)) me->host_name[0] = '\0';
    yokei_text(me->device, sizeof me->device, "%s", info->spec);
    yokei_text(me->name, sizeof me->name, "%s%s", info->name,
               yokei_is_emulated(info->features) ? " emulated" : "");
    return YOKE_OK;
}

/* All ranks refuse together. */
static yoke_status refuse_emulated(const struct bench_cluster *b)
{
    for (int r = 0; r < b->context->size; r++)
        if (yokei_is_emulated(b->rank[r].name))
            return yoke_fail(
                YOKE_EUNSUPPORTED,
                "yoke bench cluster: the device %s of rank %d is emulated, and its times say nothing about a "
                "GPU: leave it out, or write a cluster file with the device's published speeds",
                b->rank[r].device, r);
    return YOKE_OK;
}

/* ---- the measurements ---- */

static yoke_status open_ranks(struct bench_cluster *b)
{
    struct yoke_comm_config config = YOKE_COMM_CONFIG_INIT;
    const struct cli_context *context = b->context;
    const char *spec = context->device ? context->device : cli_text(context->options, "device");
    cli_progress_now("opening the devices");
    YOKE_TRY(yoke_device_open(spec, NULL, &b->device));
    YOKE_TRY(yoke_stream_create(b->device, &b->stream));
    config.name = "devices";
    YOKE_TRY(yoke_comm_create(MPI_COMM_WORLD, b->device, &config, &b->comm));
    YOKE_TRY(yoke_comm_error(b->comm)); /* a rank may have failed in the last steps of the creation */
    config.name = "control";
    return yoke_comm_create(MPI_COMM_WORLD, NULL, &config, &b->control);
}

static yoke_status close_ranks(struct bench_cluster *b)
{
    YOKE_TRY(yoke_comm_destroy(b->comm));
    YOKE_TRY(yoke_comm_destroy(b->control));
    YOKE_TRY(yoke_stream_destroy(b->stream));
    return yoke_device_close(b->device);
}

static yoke_status measure(struct bench_cluster *b)
{
    const double begin = yokei_now();
    const int me = b->context->rank, size = b->context->size;
    YOKE_TRY(open_ranks(b));
    YOKE_TRY(describe(b));
    YOKE_TRY(share(b, b->rank, sizeof *b->rank));
    YOKE_TRY(refuse_emulated(b));
    struct yokei_op_time *op = b->op + (size_t)me * (size_t)b->n_ops;
    YOKE_TRY(bench_cluster_ops(b, (1 - STEPS_PART) * b->budget, op));
    YOKE_TRY(bench_cluster_steps(b, STEPS_PART * b->budget, op + bench_cluster_count(b), &b->rank[me]));
    YOKE_TRY(share(b, b->rank, sizeof *b->rank));
    YOKE_TRY(share(b, b->op, (size_t)b->n_ops * sizeof *b->op));
    const struct yokei_measured measured = { .n_ranks = size,
                                             .n_ops = b->n_ops,
                                             .rank = b->rank,
                                             .op = b->op,
                                             .tolerance = cli_real(b->context->options, "tolerance") };
    YOKE_TRY(yokei_measured_cluster(&measured, b->cluster, b->place, &b->tolerance));
    yokei_text(b->cluster->name, sizeof b->cluster->name, "%d rank%s", size, size > 1 ? "s" : "");
    yokei_measured_links(b->cluster, b->link);
    YOKE_TRY(bench_cluster_links(b));
    b->seconds = yokei_now() - begin;
    return YOKE_OK;
}

/* ---- results ---- */

static yoke_status write_results(const struct bench_cluster *b)
{
    const struct cli_options *o = b->context->options;
    const char *path = cli_text(o, "output");
    char *text;
    YOKE_TRY(bench_cluster_file(b, &text));
    yoke_status status = path ? yokei_file_write(path, text, strlen(text)) : YOKE_OK;
    if (!path && !cli_flag(o, "json")) fputs(text, stdout);
    free(text);
    if (!status && cli_flag(o, "json")) status = bench_cluster_json(b);
    if (!status) bench_cluster_show(b);
    return status;
}

/* Rank 0 writes. If it cannot, all ranks end with its error. */
static yoke_status report(const struct bench_cluster *b)
{
    struct {
        int32_t status;
        char text[1024];
    } end = { .status = 0 };
    if (!b->context->rank) end.status = (int32_t)write_results(b);
    if (end.status) yokei_text(end.text, sizeof end.text, "%s", yoke_last_error());
    YOKE_TRY(yoke_broadcast(&end, &end, sizeof end, YOKE_U8, 0, b->control, NULL));
    return end.status ? yoke_fail((yoke_status)end.status, "%s", end.text) : YOKE_OK;
}

static yoke_status read_options(struct bench_cluster *b)
{
    const struct cli_options *o = b->context->options;
    char text[32];
    for (int i = 0; i < cli_list_count(o, "dtype"); i++) {
        yoke_dtype dtype;
        YOKE_TRY(yoke_dtype_parse(cli_list_item(o, "dtype", i, text, sizeof text), &dtype));
        b->dtype[dtype] = true;
    }
    if (!cli_list_count(o, "dtype")) b->dtype[YOKE_F32] = b->dtype[YOKE_F16] = b->dtype[YOKE_BF16] = true;
    b->budget = cli_real(o, "budget-seconds");
    b->n_types = 0;
    for (int d = 0; d < YOKE_N_DTYPES; d++) b->n_types += b->dtype[d];
    b->n_ops = bench_cluster_count(b) + b->n_types * BENCH_STEP_OPS;
    return YOKE_OK;
}

yoke_status cli_bench_cluster(const struct cli_context *context)
{
    struct bench_cluster b = { .context = context };
    YOKE_TRY(read_options(&b));
    YOKE_TRY(allocate(&b));
    cli_progress_begin("bench cluster on %d rank%s", context->size, context->size > 1 ? "s" : "");
    yoke_status status = measure(&b);
    cli_progress_end();
    if (!status) status = report(&b);
    if (!status) status = close_ranks(&b); /* after a fault the ranks cannot destroy communicators together */
    release(&b);
    return status;
}
