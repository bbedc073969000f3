/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The links of a cluster. The ranks that use a link together form a group, and all groups of a kind work at
 * the same time. Each group exchanges messages in a ring, as pipeline stages do, and sums, as replicas do,
 * both in the memory of the ranks' devices. The planner has one latency, one rate and one wait for both:
 *
 *   latency    the longer one of two times: of a message of 64 bytes, and of each of the 2 (n - 1) steps of a
 *              small sum
 *   wait       what such a sum takes besides between two products in a stream, as tensor ranks have it. It
 *              waits for the work before it, and the device waits for the sum.
 *   bandwidth  the lower one of two rates: bytes / time of a long message, and the bytes that each rank sends
 *              in a sum in a ring, 2 (n - 1) / n of the data, / time of the sum
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench/cluster.h"
#include "cli/bench/collectives.h"
#include "conform/problem.h"
#include "core/base/base.h"
#include "core/base/times.h"

enum { SMALL = 64, LEAST_LONG = 64 << 10, MOST_LONG = 8 << 20, SAMPLES = 7 };

/* A group of ranks that measures together. */
struct group {
    struct bench_yoke side;
    yoke_comm *control;
    int n, rank;
    double sample; /* seconds of a sample */
    struct conform_problem *product;
    yoke_stream *stream; /* of the product */
};

static yoke_status time_calls(const struct group *g, const struct bench_case *c, int n, double *seconds_out)
{
    YOKE_TRY(yoke_barrier(g->control, NULL));
    const double begin = yokei_now();
    for (int i = 0; i < n; i++) YOKE_TRY(bench_yoke_call(&g->side, c));
    *seconds_out = (yokei_now() - begin) / n;
    return yoke_all_reduce(seconds_out, seconds_out, 1, YOKE_F64, YOKE_MAX, g->control, NULL);
}

/* The median time of a call, on the slowest rank. */
static yoke_status measure(const struct group *g, enum bench_kind kind, size_t bytes, double *seconds_out)
{
    struct bench_case c = { .kind = kind,
                            .dtype = YOKE_F32,
                            .reduction = YOKE_SUM,
                            .rank = g->rank,
                            .size = g->n,
                            .in_place = kind == BENCH_ALL_REDUCE };
    double times[SAMPLES], one;
    bench_case_size(&c, bytes);
    for (int i = 0; i < 2; i++) YOKE_TRY(time_calls(g, &c, 1, &one));
    const int n = (int)fmin(1000, fmax(1, ceil(g->sample / fmax(one, 1e-9))));
    const int samples = one > 0.2 ? 3 : SAMPLES;
    for (int i = 0; i < samples; i++) YOKE_TRY(time_calls(g, &c, n, &times[i]));
    *seconds_out = yokei_median(times, samples);
    return YOKE_OK;
}

/* The rate of long calls. The size grows until a call takes long enough, so a slow link takes no minutes. */
static yoke_status measure_rate(const struct group *g, enum bench_kind kind, double part, double small,
                                double *rate_out)
{
    double seconds = 0;
    size_t bytes = LEAST_LONG;
    for (;; bytes *= 4) {
        YOKE_TRY(measure(g, kind, bytes, &seconds));
        if (4 * bytes > MOST_LONG || seconds > 0.1) break;
    }
    *rate_out = part * (double)bytes / fmax(seconds - small, seconds / 2);
    return YOKE_OK;
}

/* The time of n products in the stream, each with a sum behind it, on the slowest rank. */
static yoke_status time_products(const struct group *g, bool with_sums, int n, double *seconds_out)
{
    YOKE_TRY(yoke_barrier(g->control, NULL));
    const double begin = yokei_now();
    for (int i = 0; i < n; i++) {
        YOKE_TRY(conform_problem_run(g->product));
        if (with_sums)
            YOKE_TRY(yoke_all_reduce(g->side.recv, g->side.recv, SMALL / sizeof(float), YOKE_F32, YOKE_SUM,
                                     g->side.comm, g->stream));
    }
    YOKE_TRY(yoke_stream_sync(g->stream));
    *seconds_out = (yokei_now() - begin) / n;
    return yoke_all_reduce(seconds_out, seconds_out, 1, YOKE_F64, YOKE_MAX, g->control, NULL);
}

/* The time that a small sum adds to the work of a stream. */
static yoke_status measure_sum_between(const struct group *g, double *seconds_out)
{
    double with[SAMPLES], without[SAMPLES], one;
    for (int i = 0; i < 2; i++) YOKE_TRY(time_products(g, true, 1, &one));
    /* longer than the pauses of a rank whose time is limited */
    const int n = (int)fmin(1000, fmax(8, ceil(8 * g->sample / fmax(one, 1e-9))));
    for (int i = 0; i < SAMPLES; i++) {
        YOKE_TRY(time_products(g, true, n, &with[i]));
        YOKE_TRY(time_products(g, false, n, &without[i]));
    }
    *seconds_out = fmax(yokei_median(with, SAMPLES) - yokei_median(without, SAMPLES), 0);
    return YOKE_OK;
}

static yoke_status measure_group(const struct group *g, struct yokei_link *link)
{
    double message, sum, between, rate, sum_rate;
    YOKE_TRY(measure(g, BENCH_SENDRECV, SMALL, &message));
    YOKE_TRY(measure(g, BENCH_ALL_REDUCE, SMALL, &sum));
    YOKE_TRY(measure_sum_between(g, &between));
    YOKE_TRY(measure_rate(g, BENCH_SENDRECV, 1, message, &rate));
    YOKE_TRY(measure_rate(g, BENCH_ALL_REDUCE, 2.0 * (g->n - 1) / g->n, sum, &sum_rate));
    yoke_log(YOKE_LOG_INFO,
             "%s: messages %.4g us and %.4g GB/s, sums %.4g us and %.4g GB/s, %.4g us between products",
             link->name, message * 1e6, rate * 1e-9, sum * 1e6, sum_rate * 1e-9, between * 1e6);
    link->seconds = fmax(message, sum / (2.0 * (g->n - 1)));
    link->wait = fmax(between - 2.0 * (g->n - 1) * link->seconds, 0);
    link->bytes_per_second = fmin(rate, sum_rate);
    return YOKE_OK;
}

/* ---- groups ---- */

static bool is_first_on_host(const struct bench_cluster *b, int rank)
{
    for (int r = 0; r < rank; r++)
        if (b->rank[r].host == b->rank[rank].host) return false;
    return true;
}

/* The first rank of the first host of an entry, or of its second host. -1: there is none. */
static int leader_of(const struct bench_cluster *b, int entry, int number)
{
    for (int r = 0; r < b->context->size; r++)
        if (b->place[r].entry == entry && is_first_on_host(b, r) && !number--) return r;
    return -1;
}

/* The color of this rank's group for a link. YOKE_NO_COLOR: this rank does not use the link. */
static int color_of(const struct bench_cluster *b, int link)
{
    const struct yokei_measured_link *l = &b->link[link];
    const int me = b->context->rank;
    const struct yokei_measured_place *at = &b->place[me];
    const struct yokei_cluster_host *h = &b->cluster->host[at->entry];
    const int host = b->rank[me].host;
    if (l->path == YOKEI_IN_LIST)
        return at->kind == l->kind && h->devices[at->list].n > 1 ? host : YOKE_NO_COLOR;
    if (l->path == YOKEI_IN_HOST)
        return h->n_lists > 1 && (l->a < 0 || l->a == at->entry) ? host : YOKE_NO_COLOR;
    if (l->a < 0) return is_first_on_host(b, me) ? 0 : YOKE_NO_COLOR;
    return me == leader_of(b, l->a, 0) || me == leader_of(b, l->b, l->a == l->b) ? 0 : YOKE_NO_COLOR;
}

static yoke_status open_product(const struct bench_cluster *b, struct group *g)
{
    static const int64_t dims[CONFORM_MAX_DIMS] = { 256, 256, 256, 1 };
    struct yoke_cost cost;
    g->stream = b->stream;
    YOKE_TRY(conform_problem_open(b->device, b->stream, YOKE_OP_gemm, YOKE_F32, dims, &g->product));
    return conform_problem_ready(g->product, &cost);
}

static yoke_status open_group(const struct bench_cluster *b, int color, struct group *g)
{
    const struct yoke_device_info *info = yoke_device_info(b->device);
    *g = (struct group){ .side = { .device = b->device }, .sample = fmin(5e-3, b->budget / 1000) };
    YOKE_TRY(yoke_comm_split(b->comm, color, b->context->rank, NULL, &g->side.comm));
    YOKE_TRY(yoke_comm_split(b->control, color, b->context->rank, NULL, &g->control));
    if (!g->side.comm) return YOKE_OK;
    g->n = yoke_comm_size(g->side.comm), g->rank = yoke_comm_rank(g->side.comm);
    yoke_status status = yoke_alloc(b->device, MOST_LONG, (void **)&g->side.send);
    if (!status) status = yoke_alloc(b->device, MOST_LONG, (void **)&g->side.recv);
    /* zeros, so that sums in place stay finite */
    if (!status) status = yoke_fill(b->stream, g->side.send, 0, MOST_LONG);
    if (!status) status = yoke_fill(b->stream, g->side.recv, 0, MOST_LONG);
    if (!status) status = open_product(b, g);
    if (!status) status = yoke_stream_sync(b->stream);
    return status ? yoke_fail_context(status, "%s: memory for messages of %d bytes", info->spec, MOST_LONG)
                  : YOKE_OK;
}

static yoke_status close_group(const struct bench_cluster *b, struct group *g)
{
    if (!g->side.comm) return YOKE_OK;
    conform_problem_close(g->product);
    YOKE_TRY(yoke_comm_destroy(g->side.comm));
    YOKE_TRY(yoke_comm_destroy(g->control));
    YOKE_TRY(yoke_free(b->device, g->side.send));
    return yoke_free(b->device, g->side.recv);
}

yoke_status bench_cluster_links(const struct bench_cluster *b)
{
    for (int i = 0; i < b->cluster->n_links; i++) {
        struct yokei_link *link = &b->cluster->link[i];
        struct group g;
        double found[3] = { 0, 0, 0 }; /* the longest latency, the longest time of a byte, the longest wait */
        cli_progress_now("link %s", link->name);
        cli_progress_at(i, b->cluster->n_links);
        YOKE_TRY(open_group(b, color_of(b, i), &g));
        if (g.side.comm && g.n > 1) {
            YOKE_TRY(measure_group(&g, link));
            found[0] = link->seconds, found[1] = 1 / link->bytes_per_second, found[2] = link->wait;
        }
        YOKE_TRY(yoke_all_reduce(found, found, 3, YOKE_F64, YOKE_MAX, b->control, NULL));
        link->seconds = found[0], link->bytes_per_second = 1 / found[1], link->wait = found[2];
        YOKE_TRY(close_group(b, &g));
    }
    return YOKE_OK;
}
