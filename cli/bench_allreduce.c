/* SPDX-License-Identifier: Apache-2.0 */
/* yoke bench allreduce: yoke_all_reduce with MPI_Allreduce beside it, measured in turn, sums checked first. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yoke/comm.h>

#include "cli/cli.h"
#include "core/base/base.h"

#define LEAST_SECONDS 0.02 /* one sample repeats a small operation until it takes so long */
#define MOST_SECONDS 1.0   /* of all samples of one side: a slow side is measured less often */
#define COPY_BYTES (32u << 20)
#define MAX_REPEATS 1000

/* The buffers of one size, and the communicator. */
struct bench {
    yoke_comm *comm;
    yoke_device *device; /* NULL: host memory */
    yoke_stream *stream;
    int rank, size;
    size_t count;
    yoke_dtype dtype;
    yoke_reduction op;
    void *send, *recv;           /* of the communicator */
    void *host_send, *host_recv; /* the same when they lie on the host */
    double limit;                /* bytes per second that a rank copies while all do */
};

struct row {
    size_t bytes, count;
    double seconds, mpi_seconds; /* medians of the slowest rank; 0: not measured */
    int64_t n_wrong;
    const char *note;
};

/* Small whole numbers, so that every sum is exact in every type: at most 8 values of at most 7, and ranks beyond give 0. */
static double value(int rank, size_t i) { return rank < 8 ? (double)((i * 5 + (size_t)rank * 3) % 8) : 0; }

static double wanted(const struct bench *b, size_t i)
{
    double sum = 0, least = value(0, i), most = least;
    for (int r = 0; r < b->size; r++) {
        double x = value(r, i);
        sum += x;
        least = fmin(least, x);
        most = fmax(most, x);
    }
    if (b->op == YOKE_MIN) return least;
    if (b->op == YOKE_MAX) return most;
    return sum;
}

static double load(const struct bench *b, const void *array, size_t i)
{
    return b->dtype == YOKE_I32 ? ((const int32_t *)array)[i] : yokei_load(b->dtype, array, (int64_t)i);
}

static void fill(struct bench *b)
{
    for (size_t i = 0; i < b->count; i++) {
        if (b->dtype == YOKE_I32) ((int32_t *)b->host_send)[i] = (int32_t)value(b->rank, i);
        else yokei_store(b->dtype, b->host_send, (int64_t)i, value(b->rank, i));
    }
    memset(b->host_recv, 0xff, b->count * yoke_dtype_bytes(b->dtype));
}

static int64_t count_wrong(const struct bench *b)
{
    int64_t n = 0;
    for (size_t i = 0; i < b->count; i++) n += load(b, b->host_recv, i) != wanted(b, i);
    return n;
}

/* The greatest value of all ranks. */
static yoke_status agree(struct bench *b, double mine, double *out)
{
    yoke_comm *comm = b->comm;
    float *place = NULL, x = (float)mine; /* enough for times, and a device need not store f64 */
    if (!b->device) {
        YOKE_TRY(yoke_all_reduce(&x, &x, 1, YOKE_F32, YOKE_MAX, comm, NULL));
        *out = (double)x;
        return YOKE_OK;
    }
    YOKE_TRY(yoke_alloc(b->device, sizeof x, (void **)&place));
    yoke_status status = yoke_copy_to_device(b->stream, place, &x, sizeof x);
    if (!status) status = yoke_stream_sync(b->stream);
    if (!status) status = yoke_all_reduce(place, place, 1, YOKE_F32, YOKE_MAX, comm, NULL);
    if (!status) status = yoke_copy_to_host(b->stream, &x, place, sizeof x);
    if (!status) status = yoke_stream_sync(b->stream);
    yoke_free(b->device, place);
    *out = (double)x;
    return status;
}

static yoke_status reduce_ours(struct bench *b) { return yoke_all_reduce(b->send, b->recv, b->count, b->dtype, b->op, b->comm, NULL); }

static MPI_Datatype mpi_type(yoke_dtype dtype)
{
    return dtype == YOKE_F32 ? MPI_FLOAT : dtype == YOKE_F64 ? MPI_DOUBLE : dtype == YOKE_I32 ? MPI_INT32_T : MPI_DATATYPE_NULL;
}

static MPI_Op mpi_op(yoke_reduction op)
{
    return op == YOKE_SUM ? MPI_SUM : op == YOKE_MIN ? MPI_MIN : op == YOKE_MAX ? MPI_MAX : MPI_OP_NULL;
}

/* MPI's own, which waits inside MPI: that is what is compared. */
static yoke_status reduce_mpi(struct bench *b)
{
    if (PMPI_Allreduce(b->host_send, b->host_recv, (int)b->count, mpi_type(b->dtype), mpi_op(b->op), MPI_COMM_WORLD))
        return yoke_fail(YOKE_EBACKEND, "MPI_Allreduce failed");
    return YOKE_OK;
}

/* Seconds per call of the slowest rank, all starting together. */
static yoke_status time_calls(struct bench *b, yoke_status (*call)(struct bench *), int n, double *seconds_out)
{
    YOKE_TRY(yoke_barrier(b->comm, NULL));
    uint64_t start = yokei_now_ns();
    for (int i = 0; i < n; i++) YOKE_TRY(call(b));
    return agree(b, (double)(yokei_now_ns() - start) * 1e-9 / n, seconds_out);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int runs_for(double seconds) { return (int)fmin(1000, fmax(1, ceil(LEAST_SECONDS / fmax(seconds, 1e-7)))); }

static yoke_status measure(struct bench *b, int repeats, struct row *row)
{
    static double ours[MAX_REPEATS], theirs[MAX_REPEATS];
    bool mpi = mpi_type(b->dtype) != MPI_DATATYPE_NULL && mpi_op(b->op) != MPI_OP_NULL;
    double once, mpi_once = 0, wrong;
    YOKE_TRY(reduce_ours(b)); /* warms up, and is checked */
    if (b->device) {
        YOKE_TRY(yoke_copy_to_host(b->stream, b->host_recv, b->recv, b->count * yoke_dtype_bytes(b->dtype)));
        YOKE_TRY(yoke_stream_sync(b->stream));
    }
    YOKE_TRY(agree(b, (double)count_wrong(b), &wrong));
    row->n_wrong = (int64_t)wrong;
    if (row->n_wrong) return YOKE_OK; /* a wrong result has no speed */
    YOKE_TRY(time_calls(b, reduce_ours, 1, &once));
    if (mpi) YOKE_TRY(time_calls(b, reduce_mpi, 1, &mpi_once)); /* once to warm up */
    if (mpi) YOKE_TRY(time_calls(b, reduce_mpi, 1, &mpi_once));
    int n = runs_for(once), n_mpi = runs_for(mpi_once), mpi_repeats = mpi ? repeats : 0;
    /* All ranks agree on the times, so they agree on the counts. */
    if (n_mpi * mpi_once * repeats > MOST_SECONDS) mpi_repeats = (int)fmax(3, MOST_SECONDS / (n_mpi * mpi_once));
    if (n * once * repeats > MOST_SECONDS) repeats = (int)fmax(3, MOST_SECONDS / (n * once));
    if (!mpi) mpi_repeats = 0;
    for (int r = 0; r < YOKE_MAX(repeats, mpi_repeats); r++) {
        if (r < repeats) YOKE_TRY(time_calls(b, reduce_ours, n, &ours[r]));
        if (r < mpi_repeats) YOKE_TRY(time_calls(b, reduce_mpi, n_mpi, &theirs[r]));
    }
    qsort(ours, (size_t)repeats, sizeof *ours, by_value);
    row->seconds = ours[repeats / 2];
    if (!mpi_repeats) return YOKE_OK;
    qsort(theirs, (size_t)mpi_repeats, sizeof *theirs, by_value);
    row->mpi_seconds = theirs[mpi_repeats / 2];
    return YOKE_OK;
}

/* What a rank copies in its own memory while all others do too: no all-reduce on one host moves bytes faster. */
static yoke_status measure_limit(struct bench *b)
{
    char *from = malloc(COPY_BYTES), *to = malloc(COPY_BYTES);
    double best = 0;
    yoke_status status = from && to ? YOKE_OK : yoke_fail(YOKE_ENOMEM, "no memory for the measurement of copies");
    if (!status) memset(from, 1, COPY_BYTES), memset(to, 2, COPY_BYTES);
    for (int i = 0; i < 5 && !status; i++) {
        double seconds;
        status = yoke_barrier(b->comm, NULL);
        uint64_t start = yokei_now_ns();
        memcpy(to, from, COPY_BYTES);
        if (!status) status = agree(b, (double)(yokei_now_ns() - start) * 1e-9, &seconds);
        if (!status) best = fmax(best, COPY_BYTES / seconds);
    }
    free(from);
    free(to);
    b->limit = best;
    return status;
}

static void drop_buffers(struct bench *b)
{
    if (b->device) {
        yoke_free(b->device, b->send);
        yoke_free(b->device, b->recv);
    }
    free(b->host_send);
    free(b->host_recv);
    b->send = b->recv = b->host_send = b->host_recv = NULL;
}

static yoke_status make_buffers(struct bench *b)
{
    size_t bytes = YOKE_MAX(b->count * yoke_dtype_bytes(b->dtype), 64);
    b->send = b->host_send = malloc(bytes);
    b->recv = b->host_recv = malloc(bytes);
    if (!b->host_send || !b->host_recv) return yoke_fail(YOKE_ENOMEM, "no memory for %zu bytes twice", bytes);
    fill(b);
    if (!b->device) return YOKE_OK;
    b->send = b->recv = NULL;
    YOKE_TRY(yoke_alloc(b->device, bytes, &b->send));
    YOKE_TRY(yoke_alloc(b->device, bytes, &b->recv));
    YOKE_TRY(yoke_copy_to_device(b->stream, b->send, b->host_send, bytes));
    return yoke_stream_sync(b->stream);
}

/* ---- printing, on rank 0 ---- */

static void print_row(const struct bench *b, const char *format, const struct row *r, bool *begun, json_t *rows)
{
    double bytes = (double)r->bytes, algorithm = r->seconds > 0 ? bytes / r->seconds : 0;
    double bus = algorithm * 2 * (b->size - 1) / b->size, ratio = r->seconds > 0 ? r->mpi_seconds / r->seconds : 0;
    const char *type = yoke_dtype_name(b->dtype), *op = yoke_reduction_name(b->op);
    double percent = b->limit > 0 ? 100 * bus / b->limit : 0;
    char mpi[32] = "-", beside[32] = "-"; /* MPI knows no 16-bit types */
    if (r->mpi_seconds > 0) {
        yokei_text(mpi, sizeof mpi, "%.5g", r->mpi_seconds * 1e6);
        yokei_text(beside, sizeof beside, "%.4g", ratio);
    }
    if (!strcmp(format, "json")) {
        json_array_append_new(rows, json_pack("{s:I, s:I, s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:I}", "bytes", (json_int_t)r->bytes, "count",
                                              (json_int_t)r->count, "dtype", type, "reduction", op, "seconds", r->seconds, "algbw", algorithm,
                                              "busbw", bus, "percent_of_copy", percent, "mpi_seconds", r->mpi_seconds, "n_wrong",
                                              (json_int_t)r->n_wrong));
        return;
    }
    bool csv = !strcmp(format, "csv");
    if (!*begun && csv) puts("bytes,count,dtype,reduction,us,algbw_gbs,busbw_gbs,percent_of_copy,wrong,mpi_us,mpi_over_yoke");
    if (!*begun && !csv)
        printf("| %11s | %10s | %-5s | %-5s | %10s | %8s | %8s | %6s | %6s | %11s | %8s |\n"
               "|------------:|-----------:|-------|-------|-----------:|---------:|---------:|-------:|-------:|------------:|---------:|\n",
               "bytes", "count", "type", "op", "time us", "algbw", "busbw", "%limit", "#wrong", "MPI us", "MPI/yoke");
    *begun = true;
    if (r->n_wrong)
        printf(csv ? "%zu,%zu,%s,%s,,,,,%lld,,\n" : "| %11zu | %10zu | %-5s | %-5s | WRONG: %lld elements\n", r->bytes, r->count, type, op,
               (long long)r->n_wrong);
    else
        printf(csv ? "%zu,%zu,%s,%s,%.6g,%.6g,%.6g,%.3g,0,%s,%s\n"
                   : "| %11zu | %10zu | %-5s | %-5s | %10.5g | %8.4g | %8.4g | %6.3g |      0 | %11s | %8s |\n",
               r->bytes, r->count, type, op, r->seconds * 1e6, algorithm * 1e-9, bus * 1e-9, percent, mpi, beside);
    fflush(stdout);
}

static yoke_status all_sizes(const struct cli_context *context, struct bench *b, const char *format, json_t *rows, bool *wrong_out)
{
    const struct cli_options *o = context->options;
    bool begun = false;
    for (int d = 0; d < cli_list_count(o, "dtypes"); d++) {
        char text[64];
        YOKE_TRY(yoke_dtype_parse(cli_list_item(o, "dtypes", d, text, sizeof text), &b->dtype));
        for (int i = 0; i < cli_list_count(o, "sizes"); i++) {
            uint64_t bytes = 0;
            YOKE_TRY(cli_parse_bytes("sizes", cli_list_item(o, "sizes", i, text, sizeof text), &bytes));
            b->count = (size_t)bytes / yoke_dtype_bytes(b->dtype);
            struct row row = { .bytes = b->count * yoke_dtype_bytes(b->dtype), .count = b->count };
            if (context->rank == 0) cli_progress("all-reduce of %s %s ...", text, yoke_dtype_name(b->dtype));
            yoke_status status = make_buffers(b);
            if (!status) status = measure(b, (int)cli_int(o, "repeats"), &row);
            if (status) return status; /* operations may be in flight: the buffers stay */
            drop_buffers(b);
            if (row.n_wrong) *wrong_out = true;
            if (context->rank) continue;
            cli_progress("%s", "");
            print_row(b, format, &row, &begun, rows);
        }
    }
    return YOKE_OK;
}

static yoke_status open_comm(const struct cli_context *context, struct bench *b)
{
    static const char *const ops[] = { [YOKE_SUM] = "sum", [YOKE_AVG] = "", [YOKE_MIN] = "min", [YOKE_MAX] = "max" };
    const struct cli_options *o = context->options;
    const char *device = context->device ? context->device : cli_text(o, "device");
    struct yoke_comm_config config = YOKE_COMM_CONFIG_INIT;
    config.algorithm = cli_text(o, "algorithm");
    config.accum = !strcmp(cli_text(o, "accum"), "native") ? YOKE_ACCUM_NATIVE : YOKE_ACCUM_F32;
    b->op = YOKE_SUM;
    for (int i = 0; i < (int)YOKE_COUNT(ops); i++)
        if (!strcmp(ops[i], cli_text(o, "reduction"))) b->op = (yoke_reduction)i;
    if (strcmp(device, "host")) {
        YOKE_TRY(yoke_device_open(device, NULL, &b->device));
        YOKE_TRY(yoke_stream_create(b->device, &b->stream));
    }
    YOKE_TRY(yoke_comm_create(MPI_COMM_WORLD, b->device, &config, &b->comm));
    b->rank = yoke_comm_rank(b->comm);
    b->size = yoke_comm_size(b->comm);
    return YOKE_OK;
}

yoke_status cli_bench_allreduce(const struct cli_context *context)
{
    const struct cli_options *o = context->options;
    const char *format = cli_flag(o, "json") ? "json" : cli_text(o, "output");
    struct bench b = { .size = 1 };
    json_t *rows = json_array();
    bool wrong = false;
    yoke_status status = open_comm(context, &b);
    if (!status) status = measure_limit(&b);
    if (!status) status = all_sizes(context, &b, format, rows, &wrong);
    if (!status && context->rank == 0 && !strcmp(format, "json")) {
        json_t *root = json_pack("{s:i, s:s, s:i, s:f, s:O}", "schema", 1, "version", yoke_version(), "ranks", b.size, "copy_bytes_per_s", b.limit,
                                 "rows", rows);
        json_dumpf(root, stdout, JSON_INDENT(2));
        putchar('\n');
        json_decref(root);
    } else if (!status && context->rank == 0) {
        cli_note("%d ranks; medians, the slowest rank counts; bandwidths in GB/s; the limit is %.1f GB/s, a rank's copies while all copy", b.size,
                 b.limit * 1e-9);
    }
    json_decref(rows);
    if (status) return status; /* a communicator that failed is left as it is */
    YOKE_TRY(yoke_comm_destroy(b.comm));
    if (b.device) {
        yoke_stream_destroy(b.stream);
        yoke_device_close(b.device);
    }
    if (wrong) return yoke_fail(YOKE_ENUMERIC, "an all-reduce gave wrong sums, see the lines that say WRONG");
    return YOKE_OK;
}
