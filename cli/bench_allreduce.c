/* SPDX-License-Identifier: Apache-2.0 */
/* yoke bench allreduce: all-reduce by size with MPI_Allreduce beside it, taken in turn, in the columns of nccl-tests. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yoke/comm.h>

#include "cli/cli.h"
#include "core/base/base.h"

/* One line of the table. Times in seconds, of the slowest rank of each call. */
struct row {
    size_t bytes, count;
    yoke_dtype dtype;
    double median, p99, mpi_median, limit; /* 0: there is none */
    uint64_t n_wrong;
};

struct bench {
    yoke_comm *comm;     /* of host memory, for the benchmark's own numbers */
    yoke_comm *data;     /* what is measured: the same, or the device's */
    yoke_device *device; /* NULL: host memory */
    yoke_stream *stream;
    yoke_reduction reduction;
    int size, rank, repeats;
    bool one_host, shared;
    char *send, *recv;   /* of the device */
    char *host, *host_2; /* of the host, for MPI and for checking */
    double *times, *mpi_times;
};

/* ---- data whose reduction is exact in every order ---- */

static double value(yoke_reduction op, int size, int rank, size_t i)
{
    const size_t mixed = i * 7 + (size_t)rank * 13 + i / 64;
    if (op == YOKE_PROD) return mixed % 5 == 0 && rank < 8 ? 2 : 1;
    if (op == YOKE_AVG) return (double)(mixed % 2 * (size_t)size);
    return (double)(mixed % 9) - 4;
}

static double expected(const struct bench *b, size_t i)
{
    double result = value(b->reduction, b->size, 0, i);
    for (int r = 1; r < b->size; r++) {
        const double x = value(b->reduction, b->size, r, i);
        switch (b->reduction) {
        case YOKE_PROD: result *= x; break;
        case YOKE_MIN: result = x < result ? x : result; break;
        case YOKE_MAX: result = x > result ? x : result; break;
        default: result += x; break;
        }
    }
    return b->reduction == YOKE_AVG ? result / b->size : result;
}

/* The pattern has a period, so one period is computed and the rest compared with it. */
enum { PERIOD = 64 * 9 * 5 * 2 };

static uint64_t count_wrong(const struct bench *b, const struct row *row, const char *data)
{
    const size_t bytes = yoke_dtype_bytes(row->dtype), period = YOKE_MIN(row->count, (size_t)PERIOD);
    uint64_t n_wrong = 0;
    for (size_t i = 0; i < period; i++) {
        char right[8];
        yokei_store(row->dtype, right, 0, expected(b, i));
        n_wrong += memcmp(right, data + i * bytes, bytes) != 0;
    }
    for (size_t i = period; i < row->count; i++) n_wrong += memcmp(data + i * bytes, data + (i - PERIOD) * bytes, bytes) != 0;
    return n_wrong;
}

/* ---- buffers on the host or the device ---- */

static yoke_status put(const struct bench *b, char *target, const char *source, size_t bytes)
{
    if (b->device) {
        YOKE_TRY(yoke_copy_to_device(b->stream, target, source, bytes));
        return yoke_stream_sync(b->stream);
    }
    memcpy(target, source, bytes);
    return YOKE_OK;
}

static yoke_status get(const struct bench *b, char *target, const char *source, size_t bytes)
{
    if (b->device) {
        YOKE_TRY(yoke_copy_to_host(b->stream, target, source, bytes));
        return yoke_stream_sync(b->stream);
    }
    memcpy(target, source, bytes);
    return YOKE_OK;
}

static yoke_status allocate(struct bench *b, size_t bytes)
{
    b->host = malloc(bytes);
    b->host_2 = malloc(bytes);
    b->times = malloc((size_t)b->repeats * sizeof *b->times);
    b->mpi_times = malloc((size_t)b->repeats * sizeof *b->mpi_times);
    if (!b->host || !b->host_2 || !b->times || !b->mpi_times)
        return yoke_fail(YOKE_ENOMEM, "no memory for two buffers of %zu bytes: lower --max-bytes", bytes);
    if (b->device) {
        YOKE_TRY(yoke_alloc(b->device, bytes, (void **)&b->send));
        return yoke_alloc(b->device, bytes, (void **)&b->recv);
    }
    if (b->shared) {
        YOKE_TRY(yoke_comm_alloc(b->comm, bytes, (void **)&b->send));
        return yoke_comm_alloc(b->comm, bytes, (void **)&b->recv);
    }
    b->send = malloc(bytes);
    b->recv = malloc(bytes);
    if (!b->send || !b->recv) return yoke_fail(YOKE_ENOMEM, "no memory for two buffers of %zu bytes: lower --max-bytes", bytes);
    return YOKE_OK;
}

static void drop(struct bench *b)
{
    if (b->device) {
        yoke_free(b->device, b->send);
        yoke_free(b->device, b->recv);
    } else if (b->shared) {
        yoke_comm_free(b->comm, b->send);
        yoke_comm_free(b->comm, b->recv);
    } else {
        free(b->send);
        free(b->recv);
    }
    free(b->host);
    free(b->host_2);
    free(b->times);
    free(b->mpi_times);
}

/* ---- measuring ---- */

#define LEAST_SAMPLE_SECONDS 2e-3

static double now(void) { return (double)yokei_now_ns() * 1e-9; }

static MPI_Datatype mpi_type(yoke_dtype dtype)
{
    return dtype == YOKE_F32 ? MPI_FLOAT : dtype == YOKE_F64 ? MPI_DOUBLE : dtype == YOKE_I32 ? MPI_INT32_T : MPI_DATATYPE_NULL;
}

static MPI_Op mpi_op(yoke_reduction op)
{
    return op == YOKE_SUM ? MPI_SUM : op == YOKE_MIN ? MPI_MIN : op == YOKE_MAX ? MPI_MAX : op == YOKE_PROD ? MPI_PROD : MPI_OP_NULL;
}

/* Out of place and in place, before anything is timed; the number of wrong elements on all ranks. */
static yoke_status check(struct bench *b, struct row *row)
{
    const size_t bytes = yoke_dtype_bytes(row->dtype);
    double wrong = 0, all = 0;
    for (size_t i = 0; i < YOKE_MIN(row->count, (size_t)PERIOD); i++)
        yokei_store(row->dtype, b->host, (int64_t)i, value(b->reduction, b->size, b->rank, i));
    /* The period of every rank's data divides PERIOD: i / 64 comes back modulo 9, 5 and 2 after it. */
    for (size_t i = PERIOD; i < row->count; i++) memcpy(b->host + i * bytes, b->host + (i - PERIOD) * bytes, bytes);
    YOKE_TRY(put(b, b->send, b->host, row->bytes));
    YOKE_TRY(yoke_all_reduce(b->send, b->recv, row->count, row->dtype, b->reduction, b->data, NULL));
    YOKE_TRY(get(b, b->host_2, b->recv, row->bytes));
    wrong += (double)count_wrong(b, row, b->host_2);
    YOKE_TRY(put(b, b->recv, b->host, row->bytes));
    YOKE_TRY(yoke_all_reduce(b->recv, b->recv, row->count, row->dtype, b->reduction, b->data, NULL));
    YOKE_TRY(get(b, b->host_2, b->recv, row->bytes));
    wrong += (double)count_wrong(b, row, b->host_2);
    YOKE_TRY(yoke_all_reduce(&wrong, &all, 1, YOKE_F64, YOKE_SUM, b->comm, NULL));
    row->n_wrong = (uint64_t)all;
    return YOKE_OK;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The slowest rank's time of each call, sorted. */
static yoke_status slowest(struct bench *b, double *times, int n)
{
    YOKE_TRY(yoke_all_reduce(times, times, (size_t)n, YOKE_F64, YOKE_MAX, b->comm, NULL));
    qsort(times, (size_t)n, sizeof *times, by_value);
    return YOKE_OK;
}

/* The least time that the bytes need: on one host, all ranks reading n and writing n bytes of memory at once; between
 * hosts, the ring's bytes at the rate at which all ranks exchange with their neighbours. */
static yoke_status measure_limit(struct bench *b, struct row *row)
{
    enum { TURNS = 5 };
    double times[TURNS];
    for (int i = 0; i < TURNS; i++) {
        YOKE_TRY(yoke_barrier(b->comm, NULL));
        const double begin = now();
        if (b->one_host) {
            memcpy(b->host_2, b->host, row->bytes);
        } else {
            YOKE_TRY(yoke_group_start());
            YOKE_TRY(yoke_send(b->send, row->bytes, YOKE_U8, (b->rank + 1) % b->size, b->data, NULL));
            YOKE_TRY(yoke_recv(b->recv, row->bytes, YOKE_U8, (b->rank + b->size - 1) % b->size, b->data, NULL));
            YOKE_TRY(yoke_group_end());
        }
        times[i] = now() - begin;
    }
    YOKE_TRY(slowest(b, times, TURNS));
    row->limit = times[0] * (b->one_host ? 1 : 2.0 * (b->size - 1) / b->size);
    return YOKE_OK;
}

/* One side's call, `n` times back to back; seconds per call on this rank. */
static yoke_status time_ours(struct bench *b, const struct row *row, int n, double *seconds_out)
{
    YOKE_TRY(yoke_barrier(b->comm, NULL));
    const double begin = now();
    for (int i = 0; i < n; i++)
        YOKE_TRY(yoke_all_reduce(b->send, b->recv, row->count, row->dtype, b->reduction, b->data, NULL));
    *seconds_out = (now() - begin) / n;
    return YOKE_OK;
}

static yoke_status time_mpi(struct bench *b, const struct row *row, int n, double *seconds_out)
{
    YOKE_TRY(yoke_barrier(b->comm, NULL));
    const double begin = now();
    for (int i = 0; i < n; i++)
        if (PMPI_Allreduce(b->host, b->host_2, (int)row->count, mpi_type(row->dtype), mpi_op(b->reduction), MPI_COMM_WORLD))
            return yoke_fail(YOKE_EBACKEND, "MPI_Allreduce failed");
    *seconds_out = (now() - begin) / n;
    return YOKE_OK;
}

/* How many calls make a sample: short ones are repeated, so that leaving the barrier at different times does not count. */
static yoke_status calls_per_sample(struct bench *b, double seconds, int *n_out)
{
    YOKE_TRY(slowest(b, &seconds, 1));
    const double n = LEAST_SAMPLE_SECONDS / seconds;
    *n_out = n < 1 ? 1 : n > 1000 ? 1000 : (int)n;
    return YOKE_OK;
}

static yoke_status measure(struct bench *b, struct row *row)
{
    const bool beside = mpi_type(row->dtype) != MPI_DATATYPE_NULL && mpi_op(b->reduction) != MPI_OP_NULL;
    int n_ours = 1, n_mpi = 1;
    double first = 0;
    YOKE_TRY(check(b, row));
    if (row->n_wrong) return YOKE_OK;
    if (row->bytes >= 1 << 20) YOKE_TRY(measure_limit(b, row));
    YOKE_TRY(time_ours(b, row, 3, &first)); /* not counted */
    YOKE_TRY(calls_per_sample(b, first, &n_ours));
    if (beside) {
        YOKE_TRY(time_mpi(b, row, 1, &first));
        YOKE_TRY(calls_per_sample(b, first, &n_mpi));
    }
    for (int i = 0; i < b->repeats; i++) {
        YOKE_TRY(time_ours(b, row, n_ours, &b->times[i]));
        if (beside) YOKE_TRY(time_mpi(b, row, n_mpi, &b->mpi_times[i]));
    }
    YOKE_TRY(slowest(b, b->times, b->repeats));
    row->median = b->times[b->repeats / 2];
    row->p99 = b->times[YOKE_MIN(b->repeats - 1, b->repeats * 99 / 100)];
    if (!beside) return YOKE_OK;
    YOKE_TRY(slowest(b, b->mpi_times, b->repeats));
    row->mpi_median = b->mpi_times[b->repeats / 2];
    return YOKE_OK;
}

/* ---- printing, by rank 0 ---- */

struct table {
    const char *format;
    json_t *rows;
    bool begun;
};

static void number(double x, const char *format, char *out, size_t bytes)
{
    if (x > 0) yokei_text(out, bytes, format, x);
    else yokei_text(out, bytes, "-");
}

static void print_row(struct table *t, const struct bench *b, const struct row *r)
{
    const double algbw = r->median > 0 ? (double)r->bytes / r->median * 1e-9 : 0, busbw = algbw * 2 * (b->size - 1) / b->size;
    const double share = r->median > 0 ? 100 * r->limit / r->median : 0, faster = r->median > 0 ? r->mpi_median / r->median : 0;
    const char *type = yoke_dtype_name(r->dtype), *op = yoke_reduction_name(b->reduction);
    if (!strcmp(t->format, "json")) {
        json_array_append_new(t->rows, json_pack("{s:I, s:I, s:s, s:s, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I}", "bytes", (json_int_t)r->bytes,
                                                 "count", (json_int_t)r->count, "dtype", type, "reduction", op, "ranks", b->size, "seconds", r->median,
                                                 "p99_seconds", r->p99, "algbw_bytes_per_s", algbw * 1e9, "busbw_bytes_per_s", busbw * 1e9,
                                                 "limit_seconds", r->limit, "mpi_seconds", r->mpi_median, "yoke_times_as_fast", faster, "wrong",
                                                 (json_int_t)r->n_wrong));
        return;
    }
    const bool csv = !strcmp(t->format, "csv");
    char c[7][24];
    number(r->median * 1e6, csv ? "%.6g" : "%.1f", c[0], sizeof c[0]);
    number(r->p99 * 1e6, csv ? "%.6g" : "%.1f", c[1], sizeof c[1]);
    number(algbw, "%.3f", c[2], sizeof c[2]);
    number(busbw, "%.3f", c[3], sizeof c[3]);
    number(share, "%.0f", c[4], sizeof c[4]);
    number(r->mpi_median * 1e6, csv ? "%.6g" : "%.1f", c[5], sizeof c[5]);
    number(faster, "%.2f", c[6], sizeof c[6]);
    if (!t->begun && csv) puts("bytes,count,dtype,reduction,ranks,us,p99_us,algbw_GB_s,busbw_GB_s,percent_of_limit,wrong,mpi_us,yoke_times_as_fast");
    if (!t->begun && !csv)
        printf("| %10s | %9s | %-4s | %-5s | %10s | %10s | %7s | %7s | %6s | %6s | %10s | %8s |\n"
               "|-----------:|----------:|------|-------|-----------:|-----------:|--------:|--------:|-------:|-------:|-----------:|---------:|\n",
               "size B", "count", "type", "redop", "time us", "p99 us", "algbw", "busbw", "%limit", "#wrong", "MPI us", "yoke is");
    t->begun = true;
    if (csv)
        printf("%zu,%zu,%s,%s,%d,%s,%s,%s,%s,%s,%llu,%s,%s\n", r->bytes, r->count, type, op, b->size, c[0], c[1], c[2], c[3], c[4],
               (unsigned long long)r->n_wrong, c[5], c[6]);
    else
        printf("| %10zu | %9zu | %-4s | %-5s | %10s | %10s | %7s | %7s | %6s | %6llu | %10s | %7s%s |\n", r->bytes, r->count, type, op, c[0], c[1],
               c[2], c[3], c[4], (unsigned long long)r->n_wrong, c[5], c[6], faster > 0 ? "x" : " ");
    fflush(stdout);
}

/* ---- the verb ---- */

static yoke_status all_sizes(const struct cli_context *context, struct bench *b, struct table *table, uint64_t *n_wrong_out)
{
    const struct cli_options *o = context->options;
    const uint64_t least = cli_bytes(o, "min-bytes"), most = cli_bytes(o, "max-bytes"), factor = (uint64_t)cli_int(o, "factor");
    for (int d = 0; d < cli_list_count(o, "dtypes"); d++) {
        char text[16];
        yoke_dtype dtype;
        YOKE_TRY(yoke_dtype_parse(cli_list_item(o, "dtypes", d, text, sizeof text), &dtype));
        for (uint64_t bytes = least; bytes <= most; bytes *= factor) {
            struct row row = { .dtype = dtype, .count = bytes / yoke_dtype_bytes(dtype) };
            row.bytes = row.count * yoke_dtype_bytes(dtype);
            if (b->rank == 0) cli_progress("%s, %zu bytes ...", yoke_dtype_name(dtype), row.bytes);
            YOKE_TRY(measure(b, &row));
            if (b->rank == 0) cli_progress("%s", "");
            if (b->rank == 0) print_row(table, b, &row);
            *n_wrong_out += row.n_wrong;
        }
    }
    return YOKE_OK;
}

/* Whether all ranks are on one host: the limit is another then. */
static yoke_status look_at_hosts(struct bench *b)
{
    char mine[64] = "", *all = malloc((size_t)b->size * sizeof mine);
    if (!all) return yoke_fail(YOKE_ENOMEM, "no memory for %d ranks", b->size);
    gethostname(mine, sizeof mine - 1);
    const yoke_status status = yoke_all_gather(mine, all, sizeof mine, YOKE_U8, b->comm, NULL);
    b->one_host = true;
    for (int r = 0; r < b->size && !status; r++) b->one_host &= !memcmp(all, all + (size_t)r * sizeof mine, sizeof mine);
    free(all);
    return status;
}

static yoke_status run(const struct cli_context *context, struct bench *b)
{
    const struct cli_options *o = context->options;
    struct table table = { .format = cli_flag(o, "json") ? "json" : cli_text(o, "output"), .rows = json_array() };
    uint64_t n_wrong = 0;
    yoke_status status = look_at_hosts(b);
    if (!status) status = allocate(b, (size_t)cli_bytes(o, "max-bytes"));
    if (!status) status = all_sizes(context, b, &table, &n_wrong);
    drop(b);
    if (!status && b->rank == 0 && !strcmp(table.format, "json")) {
        json_t *root = json_pack("{s:i, s:s, s:i, s:O}", "schema", 1, "version", yoke_version(), "ranks", b->size, "rows", table.rows);
        json_dumpf(root, stdout, JSON_INDENT(2));
        putchar('\n');
        json_decref(root);
    } else if (!status && b->rank == 0) {
        cli_note("%d ranks, medians of %d samples of the slowest rank, sides in turn, short calls back to back; GB/s; %%limit: of the time in which %s", b->size, b->repeats,
                 b->one_host ? "all ranks copy as many bytes in memory" : "neighbours exchange the ring's bytes");
    }
    json_decref(table.rows);
    if (!status && n_wrong) return yoke_fail(YOKE_ENUMERIC, "all-reduce: %llu wrong elements", (unsigned long long)n_wrong);
    return status;
}

static yoke_status read_options(const struct cli_context *context, struct bench *b)
{
    const struct cli_options *o = context->options;
    const char *name = cli_text(o, "reduction");
    for (b->reduction = YOKE_SUM; b->reduction < YOKE_N_REDUCTIONS; b->reduction++)
        if (!strcmp(name, yoke_reduction_name(b->reduction))) break;
    if (cli_bytes(o, "min-bytes") > cli_bytes(o, "max-bytes"))
        return yoke_fail(YOKE_EINVAL, "--min-bytes %llu is more than --max-bytes %llu", (unsigned long long)cli_bytes(o, "min-bytes"),
                         (unsigned long long)cli_bytes(o, "max-bytes"));
    b->repeats = (int)cli_int(o, "repeats");
    b->shared = cli_flag(o, "shared");
    if (b->shared && strcmp(context->device ? context->device : cli_text(o, "device"), "host") != 0)
        return yoke_fail(YOKE_EINVAL, "--shared is host memory: leave out --device");
    b->size = context->size;
    b->rank = context->rank;
    return YOKE_OK;
}

yoke_status cli_bench_allreduce(const struct cli_context *context)
{
    struct bench b = { 0 };
    const char *spec = context->device ? context->device : cli_text(context->options, "device");
    YOKE_TRY(read_options(context, &b));
    YOKE_TRY(yoke_comm_create(MPI_COMM_WORLD, NULL, NULL, &b.comm));
    b.data = b.comm;
    if (strcmp(spec, "host") != 0) {
        struct yoke_comm_config config = YOKE_COMM_CONFIG_INIT;
        config.name = "bench";
        YOKE_TRY(yoke_device_open(spec, NULL, &b.device));
        YOKE_TRY(yoke_stream_create(b.device, &b.stream));
        YOKE_TRY(yoke_comm_create(MPI_COMM_WORLD, b.device, &config, &b.data));
    }
    const yoke_status status = run(context, &b);
    if (status && status != YOKE_ENUMERIC) return status; /* after a fault nothing can be taken down together */
    if (b.device) {
        YOKE_TRY(yoke_comm_destroy(b.data));
        YOKE_TRY(yoke_stream_destroy(b.stream));
        YOKE_TRY(yoke_device_close(b.device));
    }
    YOKE_TRY(yoke_comm_destroy(b.comm));
    return status ? yoke_fail(status, "all-reduce: wrong elements, see the column #wrong") : YOKE_OK;
}
