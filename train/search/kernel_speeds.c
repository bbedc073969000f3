/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Speeds of a device from the rows of `yoke bench kernels`.
 *
 * A row has the time t of one op with f FLOPs and b bytes. The classes OTHER and OPTIMIZER are limited by
 * memory, so their time is s + b / w. s and w have the least sum of squared relative errors over the rows of
 * the class. In the classes GEMM and ATTENTION the rows that arithmetic limits, as the benchmark says, give
 * the rates f / (t - s). s is that of the class OTHER, and at most half of t. Rows of about the same
 * work (a factor of 2) are put together, and then all neighbours whose rates do not ascend. s and w of the
 * class OTHER hold for these two classes too.
 *
 * AdamW is measured in f32 alone, because its masters are f32 in every precision. So the class OPTIMIZER has
 * the rows of f32 in every precision.
 */
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "train/files/json.h"
#include "train/search/cluster_file.h"

struct row {
    char op[48], dtype[8], limited_by[16];
    double seconds;                  /* 0: the row has no time */
    double flops_per_s, bytes_per_s; /* work and traffic of one op, divided by `seconds` */
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
    { "rows", YOKEI_JSON_ARRAY, FILE_(rows), true, 0, 1e5, .schema = &row_schema,
      .count_offset = offsetof(struct file, n_rows) },
    { 0 },
};
static const struct yokei_json_schema file_schema = { file_fields, sizeof(struct file), true, YOKE_ECONFIG };

static bool is_of(const struct row *row, int class, int type)
{
    return row->seconds > 0 && yokei_op_class_of(row->op) == class && !strcmp(row->dtype, types[type]);
}

/* Set bandwidth and latency of a class from its rows. Returns the number of rows. */
static int fit_traffic(const struct file *file, int class, int type, struct yokei_speed *s)
{
    double xx = 0, xy = 0, yy = 0, x = 0, y = 0;
    int n = 0;
    for (int64_t i = 0; i < file->n_rows; i++) {
        const struct row *row = &file->rows[i];
        if (!is_of(row, class, type) || row->bytes_per_s <= 0) continue;
        /* the relative error of the row is latency * a + seconds_per_byte * b - 1 */
        const double a = 1 / row->seconds, b = row->bytes_per_s;
        xx += a * a, xy += a * b, yy += b * b, x += a, y += b, n++;
    }
    if (!n) return 0;
    const double determinant = xx * yy - xy * xy;
    double latency = 0, seconds_per_byte = y / yy;
    if (n > 1 && determinant > 1e-9 * xx * yy) {
        const double l = (x * yy - y * xy) / determinant, per_byte = (y * xx - x * xy) / determinant;
        if (l >= 0 && per_byte > 0) latency = l, seconds_per_byte = per_byte;
    }
    s->seconds = latency;
    s->bytes_per_second = 1 / seconds_per_byte;
    return n;
}

/* Ops of about the same work: the least work of one, and the sums of all. */
struct group {
    double work, flops, seconds;
};

static int by_work(const void *a, const void *b)
{
    const double x = ((const struct group *)a)->work, y = ((const struct group *)b)->work;
    return (x > y) - (x < y);
}

static double rate_of(const struct group *g) { return g->flops / g->seconds; }

/* Add group i + 1 to group i. */
static void join(struct group *group, int *n, int i)
{
    group[i].flops += group[i + 1].flops;
    group[i].seconds += group[i + 1].seconds;
    memmove(&group[i + 1], &group[i + 2], (size_t)(*n - i - 2) * sizeof *group);
    --*n;
}

static void join_groups(struct group *group, int *n)
{
    for (int i = 0; i + 1 < *n;)
        if (group[i + 1].work <= 2 * group[i].work)
            join(group, n, i);
        else
            i++;
    for (int i = 0; i + 1 < *n;)
        if (rate_of(&group[i + 1]) < rate_of(&group[i])) {
            join(group, n, i);
            if (i) i--;
        } else
            i++;
    while (*n > YOKEI_MOST_POINTS) { /* the two neighbours whose rates differ least */
        int least = 0;
        for (int i = 1; i + 1 < *n; i++)
            if (rate_of(&group[i + 1]) / rate_of(&group[i])
                < rate_of(&group[least + 1]) / rate_of(&group[least]))
                least = i;
        join(group, n, least);
    }
}

/* Set the rates of a class from its rows. s->seconds is known. *n_rows_out is the number of rows. */
static yoke_status fit_rates(const struct file *file, int class, int type, struct yokei_speed *s,
                             int *n_rows_out)
{
    struct group *group = calloc((size_t)file->n_rows + 1, sizeof *group);
    int n = 0;
    if (!group) return yoke_fail(YOKE_ENOMEM, "no memory for the speeds of a device");
    for (int only = 1; only >= 0 && !n; only--) /* rows that arithmetic limits; if there is none, all rows */
        for (int64_t i = 0; i < file->n_rows; i++) {
            const struct row *row = &file->rows[i];
            const double flops = row->flops_per_s * row->seconds;
            if (!is_of(row, class, type) || flops <= 0) continue;
            if (only && strcmp(row->limited_by, "arithmetic") != 0) continue;
            group[n++] = (struct group){ flops, flops, fmax(row->seconds - s->seconds, row->seconds / 2) };
        }
    *n_rows_out = n;
    qsort(group, (size_t)n, sizeof *group, by_work);
    join_groups(group, &n);
    s->n_points = n;
    for (int i = 0; i < n; i++) s->point[i].work = group[i].work, s->point[i].rate = rate_of(&group[i]);
    free(group);
    return YOKE_OK;
}

static yoke_status lacks(const char *path, int class, int type)
{
    return yoke_fail(
        YOKE_ECONFIG,
        "%s: it has no time of an op of class %s in %s; measure all ops (yoke bench kernels without "
        "--op)",
        path, yokei_op_class_names[class], types[type]);
}

static yoke_status fit_type(const char *path, const struct file *file, int type, struct yokei_speed *speed)
{
    static const int computing[] = { YOKEI_CLASS_GEMM, YOKEI_CLASS_ATTENTION };
    struct yokei_speed *other = &speed[YOKEI_CLASS_OTHER];
    int n;
    if (!fit_traffic(file, YOKEI_CLASS_OTHER, type, other)) return lacks(path, YOKEI_CLASS_OTHER, type);
    if (!fit_traffic(file, YOKEI_CLASS_OPTIMIZER, YOKEI_SPEED_F32, &speed[YOKEI_CLASS_OPTIMIZER]))
        return lacks(path, YOKEI_CLASS_OPTIMIZER, YOKEI_SPEED_F32);
    for (size_t i = 0; i < YOKE_COUNT(computing); i++) {
        struct yokei_speed *s = &speed[computing[i]];
        s->seconds = other->seconds, s->bytes_per_second = other->bytes_per_second;
        YOKE_TRY(fit_rates(file, computing[i], type, s, &n));
        if (!n) return lacks(path, computing[i], type);
    }
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

yoke_status yokei_kernel_speeds(const char *path, struct yokei_device_kind *kind)
{
    struct file file = { 0 };
    struct yokei_device_kind fitted = *kind;
    YOKE_TRY(yokei_json_read(path, &file_schema, &file));
    memset(fitted.speed, 0, sizeof fitted.speed);
    memset(fitted.peak, 0, sizeof fitted.peak);
    const yoke_status status = fit(path, &file, &fitted);
    yokei_json_free(&file_schema, &file);
    if (!status) *kind = fitted;
    return status;
}
