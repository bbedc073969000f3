/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Speeds of a device from the rows of `yoke bench kernels`.
 *
 * A row has the time t of one op with f FLOPs and b bytes. Memory limits the classes OTHER and OPTIMIZER,
 * so their time is s + b / w. 1 / w is the median of the slopes between all pairs of rows of which one
 * moves twice as many bytes (Theil 1950, Sen 1968), and s is the median of t - b / w of the half with fewer
 * bytes. Both are medians because some rows of a busy machine take many times as long, and because ops of a
 * class are not equally fast.
 *
 * In the classes GEMM and ATTENTION the rows that arithmetic limits, as the benchmark says, give the rates
 * f / (t - s). s is that of the class OTHER, and at most half of t. Rows of about the same work (a factor
 * of 2) form a group with the median of their rates. Neighbours whose rates do not ascend become one group.
 * s and w of the class OTHER hold for these two classes too.
 *
 * yoke bench cluster also has rows of ops in training steps, and their number in these steps. They replace
 * rows of less or about the same work that were repeated alone. In the end the speeds of each class are
 * multiplied by a factor, so that the ops of the steps take their measured time together.
 *
 * AdamW is measured in f32 alone, because its masters are f32 in every precision. So the class OPTIMIZER
 * has the rows of f32 in every precision.
 */
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "core/base/times.h"
#include "train/files/json.h"
#include "train/search/cluster_file.h"

enum { MOST_ROWS = 4000 };
struct row {
    char op[48], dtype[8], limited_by[16];
    double seconds;                  /* 0: the row has no time */
    double flops_per_s, bytes_per_s; /* work and traffic of one op, divided by `seconds` */
    double count; /* of such ops in a second of measured training steps; 0: it was repeated alone */
};
struct peaks {
    double of[YOKEI_N_SPEED_TYPES];
};
struct file {
    int64_t schema, n_rows;
    bool emulated;
    struct peaks peaks;
    struct row *rows;
};

static const char *const types[] = { "f32", "f16", "bf16" };

#define ROW(member) offsetof(struct row, member), sizeof(((struct row *)0)->member)
static const struct yokei_json_field row_fields[] = {
    { "op", YOKEI_JSON_TEXT, ROW(op), true },
    { "dtype", YOKEI_JSON_TEXT, ROW(dtype), true },
    { "limited_by", YOKEI_JSON_TEXT, ROW(limited_by) },
    { "seconds", YOKEI_JSON_F64, ROW(seconds), false, 1e-12, 1e9 },
    { "flop_per_s", YOKEI_JSON_F64, ROW(flops_per_s), false, 0, 1e18 },
    { "bytes_per_s", YOKEI_JSON_F64, ROW(bytes_per_s), false, 0, 1e18 },
    { 0 },
};
static const struct yokei_json_schema row_schema = { row_fields, sizeof(struct row), true, YOKE_ECONFIG };
#define PEAK(type) offsetof(struct peaks, of) + (type) * sizeof(double), sizeof(double), false, 0, 1e18
static const struct yokei_json_field peak_fields[] = {
    { "f32", YOKEI_JSON_F64, PEAK(YOKEI_SPEED_F32) },
    { "f16", YOKEI_JSON_F64, PEAK(YOKEI_SPEED_F16) },
    { "bf16", YOKEI_JSON_F64, PEAK(YOKEI_SPEED_BF16) },
    { 0 },
};
static const struct yokei_json_schema peak_schema = { peak_fields, sizeof(struct peaks), true, YOKE_ECONFIG };
#define FILE_(member) offsetof(struct file, member), sizeof(((struct file *)0)->member)
static const struct yokei_json_field file_fields[] = {
    { "schema", YOKEI_JSON_I64, FILE_(schema), true, 1, 1 },
    { "emulated", YOKEI_JSON_BOOL, FILE_(emulated) },
    { "peak_flop_per_s", YOKEI_JSON_OBJECT, FILE_(peaks), .schema = &peak_schema },
    { "rows", YOKEI_JSON_ARRAY, FILE_(rows), true, 0, MOST_ROWS, .schema = &row_schema,
      .count_offset = offsetof(struct file, n_rows) },
    { 0 },
};
static const struct yokei_json_schema file_schema = { file_fields, sizeof(struct file), true, YOKE_ECONFIG };

static bool is_of(const struct row *row, int class, int type)
{
    return row->seconds > 0 && yokei_op_class_of(row->op) == class && !strcmp(row->dtype, types[type]);
}

enum which { BYTES, ARITHMETIC, FLOPS }; /* ARITHMETIC: FLOPs of the rows that arithmetic limits */

static double work_of(const struct row *row, enum which which)
{
    return (which == BYTES ? row->bytes_per_s : row->flops_per_s) * row->seconds;
}

/* Twice the most work of a class's ops in training steps; 0: it has none. */
static double most_of_steps(const struct file *file, int class, int type, enum which which)
{
    double most = 0;
    for (int64_t i = 0; i < file->n_rows; i++) {
        if (is_of(&file->rows[i], class, type) && file->rows[i].count > 0)
            most = fmax(most, 2 * work_of(&file->rows[i], which));
    }
    return most;
}

/* Ops of a class, by their bytes or their FLOPs, in ascending order. */
struct points {
    int n;
    struct {
        double work, seconds;
    } * point;
    double *scratch; /* room for a number of each pair of points */
};

static void points_free(struct points *p)
{
    free(p->point);
    free(p->scratch);
}

static int by_work(const void *a, const void *b) { return yokei_by_value(a, b); } /* `work` comes first */

static yoke_status points_of(const struct file *file, int class, int type, enum which which,
                             struct points *out)
{
    const double most = most_of_steps(file, class, type, which);
    int n = 0;
    for (int64_t i = 0; i < file->n_rows; i++) n += is_of(&file->rows[i], class, type);
    *out = (struct points){ .point = calloc((size_t)n + 1, sizeof *out->point),
                            .scratch = calloc((size_t)n * (size_t)n / 2 + 1, sizeof *out->scratch) };
    if (!out->point || !out->scratch) {
        points_free(out);
        return yoke_fail(YOKE_ENOMEM, "no memory for the speeds of a device");
    }
    for (int64_t i = 0; i < file->n_rows; i++) {
        const struct row *row = &file->rows[i];
        const double work = work_of(row, which);
        if (!is_of(row, class, type) || work < 1) continue;
        if (!(row->count > 0) && work < most) continue;
        if (which == ARITHMETIC && strcmp(row->limited_by, "arithmetic") != 0) continue;
        out->point[out->n].work = work, out->point[out->n++].seconds = row->seconds;
    }
    qsort(out->point, (size_t)out->n, sizeof *out->point, by_work);
    return YOKE_OK;
}

/* Set bandwidth and latency of a class from its points. */
static void fit_line(const struct points *p, struct yokei_speed *s)
{
    int n = 0, half = (p->n + 1) / 2;
    double per_byte, latency = 0;
    for (int i = 0; i < p->n; i++)
        for (int j = 0; j < i; j++)
            if (p->point[i].work >= 2 * p->point[j].work)
                p->scratch[n++] = (p->point[i].seconds - p->point[j].seconds)
                                  / (p->point[i].work - p->point[j].work);
    per_byte = yokei_median(p->scratch, n);
    if (per_byte > 0) {
        for (int i = 0; i < half; i++) p->scratch[i] = p->point[i].seconds - p->point[i].work * per_byte;
        latency = fmax(yokei_median(p->scratch, half), 0);
    } else { /* all sizes are about the same, or the larger ones are not slower */
        for (int i = 0; i < p->n; i++) p->scratch[i] = p->point[i].seconds / p->point[i].work;
        per_byte = yokei_median(p->scratch, p->n);
    }
    s->seconds = latency;
    s->bytes_per_second = 1 / per_byte;
}

/* Points [begin, end) of about the same work. */
struct group {
    int begin, end;
    double rate;
};

static void set_rate(const struct points *p, double latency, struct group *g)
{
    for (int i = g->begin; i < g->end; i++)
        p->scratch[i - g->begin] = p->point[i].work
                                   / fmax(p->point[i].seconds - latency, p->point[i].seconds / 2);
    g->rate = yokei_median(p->scratch, g->end - g->begin);
}

/* Add group i + 1 to group i. */
static void join(const struct points *p, double latency, struct group *group, int *n, int i)
{
    group[i].end = group[i + 1].end;
    memmove(&group[i + 1], &group[i + 2], (size_t)(*n - i - 2) * sizeof *group);
    --*n;
    set_rate(p, latency, &group[i]);
}

/* Set the rates of a class from its points. s->seconds is known. */
static void fit_rates(const struct points *p, struct yokei_speed *s)
{
    struct group group[128]; /* each has twice the work of the one before, and a row at most 1e27 FLOPs */
    int n = 0;
    for (int i = 0; i < p->n; i++) {
        if (!n || p->point[i].work > 2 * p->point[group[n - 1].begin].work) group[n++].begin = i;
        group[n - 1].end = i + 1;
    }
    for (int i = 0; i < n; i++) set_rate(p, s->seconds, &group[i]);
    for (int i = 0; i + 1 < n;)
        if (group[i + 1].rate < group[i].rate) {
            join(p, s->seconds, group, &n, i);
            if (i) i--;
        } else
            i++;
    while (n > YOKEI_MOST_POINTS) { /* join the two neighbours whose rates differ least */
        int least = 0;
        for (int i = 1; i + 1 < n; i++)
            if (group[i + 1].rate / group[i].rate < group[least + 1].rate / group[least].rate) least = i;
        join(p, s->seconds, group, &n, least);
    }
    s->n_points = n;
    for (int i = 0; i < n; i++)
        s->point[i].work = p->point[group[i].begin].work, s->point[i].rate = group[i].rate;
}

static yoke_status lacks(const char *path, int class, int type)
{
    return yoke_fail(
        YOKE_ECONFIG,
        "%s: it has no time of an op of class %s in %s; measure all ops (yoke bench kernels without "
        "--op)",
        path, yokei_op_class_names[class], types[type]);
}

/* Fit the line of a class, if `computes` is not set, or its rates. YOKE_ECONFIG: there is no row. */
static yoke_status fit_class(const char *path, const struct file *file, int class, int type, bool computes,
                             struct yokei_speed *s)
{
    struct points points;
    YOKE_TRY(points_of(file, class, type, computes ? ARITHMETIC : BYTES, &points));
    if (!points.n && computes) {
        points_free(&points);
        YOKE_TRY(points_of(file, class, type, FLOPS, &points));
    }
    if (points.n) (computes ? fit_rates : fit_line)(&points, s);
    points_free(&points);
    return points.n ? YOKE_OK : lacks(path, class, type);
}

/* Make the speeds of a class such that its ops in training steps take the measured time together. */
static void match_steps(const struct file *file, int class, int type, struct yokei_speed *s)
{
    double measured = 0, fitted = 0;
    for (int64_t i = 0; i < file->n_rows; i++) {
        const struct row *row = &file->rows[i];
        if (!is_of(row, class, type)) continue;
        measured += row->count * row->seconds;
        fitted += row->count * yokei_op_seconds(s, work_of(row, FLOPS), work_of(row, BYTES));
    }
    if (!(measured > 0 && fitted > 0)) return;
    s->seconds *= measured / fitted, s->bytes_per_second *= fitted / measured;
    for (int i = 0; i < s->n_points; i++) s->point[i].rate *= fitted / measured;
}

static yoke_status fit_type(const char *path, const struct file *file, int type, struct yokei_speed *speed)
{
    static const int computing[] = { YOKEI_CLASS_GEMM, YOKEI_CLASS_ATTENTION };
    const struct yokei_speed *other = &speed[YOKEI_CLASS_OTHER];
    YOKE_TRY(fit_class(path, file, YOKEI_CLASS_OTHER, type, false, &speed[YOKEI_CLASS_OTHER]));
    YOKE_TRY(
        fit_class(path, file, YOKEI_CLASS_OPTIMIZER, YOKEI_SPEED_F32, false, &speed[YOKEI_CLASS_OPTIMIZER]));
    for (size_t i = 0; i < YOKE_COUNT(computing); i++) {
        struct yokei_speed *s = &speed[computing[i]];
        s->seconds = other->seconds, s->bytes_per_second = other->bytes_per_second;
        YOKE_TRY(fit_class(path, file, computing[i], type, true, s));
        match_steps(file, computing[i], type, s);
    }
    match_steps(file, YOKEI_CLASS_OTHER, type, &speed[YOKEI_CLASS_OTHER]);
    match_steps(file, YOKEI_CLASS_OPTIMIZER, YOKEI_SPEED_F32, &speed[YOKEI_CLASS_OPTIMIZER]);
    return YOKE_OK;
}

static yoke_status fit(const char *path, const struct file *file, struct yokei_device_kind *kind)
{
    bool any = false;
    if (file->emulated)
        return yoke_fail(YOKE_ECONFIG,
                         "%s: it has no times, because the device was emulated; give the device 'speeds'",
                         path);
    for (int type = 0; type < YOKEI_N_SPEED_TYPES; type++) {
        int64_t i = 0;
        while (i < file->n_rows && !is_of(&file->rows[i], YOKEI_CLASS_GEMM, type)) i++;
        if (i == file->n_rows) continue;
        any = true;
        YOKE_TRY(fit_type(path, file, type, kind->speed[type]));
        const struct yokei_speed *gemm = &kind->speed[type][YOKEI_CLASS_GEMM];
        kind->peak[type] = fmax(file->peaks.of[type], gemm->point[gemm->n_points - 1].rate);
    }
    return any ? YOKE_OK
               : yoke_fail(
                   YOKE_ECONFIG,
                   "%s: it has no time of a matrix product (gemm); measure all ops (yoke bench kernels "
                   "without --op)",
                   path);
}

static yoke_status fit_kind(const char *path, const struct file *file, struct yokei_device_kind *kind)
{
    struct yokei_device_kind fitted = *kind;
    memset(fitted.speed, 0, sizeof fitted.speed);
    memset(fitted.peak, 0, sizeof fitted.peak);
    YOKE_TRY(fit(path, file, &fitted));
    *kind = fitted;
    return YOKE_OK;
}

yoke_status yokei_kernel_speeds(const char *path, struct yokei_device_kind *kind)
{
    struct file file = { 0 };
    YOKE_TRY(yokei_json_read(path, &file_schema, &file));
    const yoke_status status = fit_kind(path, &file, kind);
    yokei_json_free(&file_schema, &file);
    return status;
}

/*
 * Find the products that arithmetic limits. They are compared with the fastest product, and with the op of
 * class OTHER that moves its bytes fastest. The fitted bandwidth would be too low for products whose data
 * stays in a cache.
 */
static yoke_status judge_products(const char *what, const struct file *file, int type)
{
    double fastest = 0, bandwidth = 0;
    int64_t i = 0;
    while (i < file->n_rows && !is_of(&file->rows[i], YOKEI_CLASS_GEMM, type)) i++;
    if (i == file->n_rows) return YOKE_OK;
    for (i = 0; i < file->n_rows; i++) {
        if (is_of(&file->rows[i], YOKEI_CLASS_GEMM, type)) fastest = fmax(fastest, file->rows[i].flops_per_s);
        if (is_of(&file->rows[i], YOKEI_CLASS_OTHER, type))
            bandwidth = fmax(bandwidth, file->rows[i].bytes_per_s);
    }
    if (!(bandwidth > 0)) return lacks(what, YOKEI_CLASS_OTHER, type);
    for (i = 0; i < file->n_rows; i++) {
        struct row *row = &file->rows[i];
        const bool computes = row->flops_per_s / fastest >= row->bytes_per_s / bandwidth;
        if (!strcmp(row->dtype, types[type]))
            yokei_text(row->limited_by, sizeof row->limited_by, "%s", computes ? "arithmetic" : "memory");
    }
    return YOKE_OK;
}

yoke_status yokei_kernel_fit(const char *what, const struct yokei_op_time *times, int n,
                             struct yokei_device_kind *kind)
{
    struct file file = { .n_rows = n, .rows = calloc((size_t)n + 1, sizeof *file.rows) };
    yoke_status status = file.rows ? YOKE_OK : yoke_fail(YOKE_ENOMEM, "no memory for the speeds of a device");
    for (int i = 0; i < n && !status; i++) {
        struct row *row = &file.rows[i];
        memcpy(row->op, times[i].op, sizeof row->op);
        memcpy(row->dtype, times[i].dtype, sizeof row->dtype);
        row->seconds = times[i].seconds, row->count = times[i].count;
        if (row->seconds <= 0) continue;
        row->flops_per_s = times[i].flops / row->seconds, row->bytes_per_s = times[i].bytes / row->seconds;
    }
    for (int type = 0; type < YOKEI_N_SPEED_TYPES && !status; type++)
        status = judge_products(what, &file, type);
    if (!status) status = fit_kind(what, &file, kind);
    free(file.rows);
    return status;
}
