/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of files of yoke bench kernels, gathered by operation and device. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/devices.h"
#include "core/base/base.h"

double device_share(const struct device_column *column, const struct device_work *work)
{
    return !column->emulated && work->seconds > 0 && work->limit > 0 ? 100 * work->limit / work->seconds
                                                                     : NAN;
}

double device_row_share(const struct device_column *column, const struct compare_kernel *k)
{
    return !column->emulated && k && k->seconds > 0 && k->limit > 0 ? 100 * k->limit / k->seconds : NAN;
}

bool device_row_is_right(const struct compare_kernel *k)
{
    return k && k->checked && k->checked[0] && !(k->reason && k->reason[0]);
}

int device_by_value(const void *a, const void *b)
{
    const struct device_ranked *x = a, *y = b;
    if (x->value != y->value) return x->value < y->value ? -1 : 1;
    return (x->op > y->op) - (x->op < y->op);
}

static size_t count_rows(const struct devices *d)
{
    size_t n = 0;
    for (int c = 0; c < d->n_columns; c++)
        if (d->columns[c].kernels) n += (size_t)d->columns[c].kernels->kernels.n_rows;
    return n;
}

static char *key_of(const struct compare_kernel *k, bool by_size)
{
    char *key = NULL;
    const int length = by_size ? asprintf(&key, "%s\n%s\n%s\n%s", k->op, k->dtype, k->size, k->dims)
                               : asprintf(&key, "%s\n%s", k->op, k->dtype);
    return length < 0 ? NULL : key;
}

/* The bytes that a call moves; 0: not known. */
static double bytes_of(const struct compare_kernel *k) { return k->bytes_per_s * k->seconds; }

static void add_row(struct device_work *w, const struct compare_kernel *k)
{
    const bool timed = k->seconds > 0 && k->limit > 0;
    if (!w->row) w->error = NAN;
    if (!w->row || (timed && bytes_of(k) > bytes_of(w->row))) w->row = k;
    w->n_sizes++;
    if (timed) w->seconds += k->seconds, w->limit += k->limit;
    if (device_row_is_right(k)) w->error = fmax(w->error, k->error);
    if (k->counts.size) {
        w->instructions += (double)k->counts.instructions;
        w->bytes += (double)k->counts.bytes_loaded + (double)k->counts.bytes_stored;
        w->least_bytes += k->counts.least_bytes;
    }
    if (!k->reason || !k->reason[0]) return;
    const bool wrong = !strncmp(k->reason, "WRONG", 5);
    if (!w->reason || (wrong && !w->n_wrong)) w->reason = k->reason;
    w->n_wrong += wrong;
}

/* The groups are known. Add each row to its group, and in a table by size the first of equal rows. */
static yoke_status fill(const struct devices *d, bool by_size, const int64_t *groups, struct device_ops *out)
{
    const size_t n = (size_t)out->n * (size_t)d->n_columns;
    size_t at = 0;
    out->ops = calloc((size_t)out->n, sizeof *out->ops);
    out->work = calloc(n, sizeof *out->work);
    if (!out->ops || !out->work) return yoke_fail(YOKE_ENOMEM, "yoke report: no memory for the operations");
    for (int c = 0; c < d->n_columns; c++) {
        const struct device_file *file = d->columns[c].kernels;
        for (int64_t i = 0; file && i < file->kernels.n_rows; i++, at++) {
            const struct compare_kernel *k = &file->kernels.rows[i];
            struct device_op *op = &out->ops[groups[at]];
            struct device_work *w = &out->work[groups[at] * d->n_columns + c];
            if (!op->first) *op = (struct device_op){ k->op, k->dtype, k, w - c };
            if (!by_size || !w->row) add_row(w, k);
        }
    }
    return YOKE_OK;
}

yoke_status device_ops_read(const struct devices *d, bool by_size, struct device_ops *out)
{
    const size_t n = count_rows(d);
    char **keys = calloc(n ? n : 1, sizeof *keys);
    int64_t *groups = calloc(n ? n : 1, sizeof *groups);
    size_t at = 0;
    yoke_status status = YOKE_OK;
    *out = (struct device_ops){ .n = 0 };
    for (int c = 0; c < d->n_columns && keys; c++) {
        const struct device_file *file = d->columns[c].kernels;
        for (int64_t i = 0; file && i < file->kernels.n_rows; i++)
            keys[at++] = key_of(&file->kernels.rows[i], by_size);
    }
    out->n = keys && groups ? device_group(keys, n, groups) : -1;
    if (out->n < 0)
        status = yoke_fail(YOKE_ENOMEM, "yoke report: no memory for %zu rows", n);
    else if (out->n)
        status = fill(d, by_size, groups, out);
    device_keys_free(keys, n);
    free(groups);
    if (status) device_ops_free(out);
    return status;
}

void device_ops_free(struct device_ops *ops)
{
    free(ops->ops);
    free(ops->work);
    *ops = (struct device_ops){ .n = 0 };
}
