/* SPDX-License-Identifier: Apache-2.0 */
/* yoke compare OLD.json NEW.json: read two files of yoke bench kernels, and compare their rows. */
#include "cli/compare/kernels.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "train/files/json.h"

/* ---- reading ---- */

#define COUNT(key)                                                                                    \
    {                                                                                                 \
#key, YOKEI_JSON_I64, offsetof(struct compare_counts, key), sizeof(int64_t), true, 0, 9.2e18, \
    }
static const struct yokei_json_field COUNT_FIELDS[] = {
    COUNT(launches),
    COUNT(instructions),
    COUNT(bytes_loaded),
    COUNT(bytes_stored),
    { "least_bytes", YOKEI_JSON_F64, offsetof(struct compare_counts, least_bytes), sizeof(double), false, 0,
      1e300 },
    { 0 },
};
static const struct yokei_json_schema COUNT_SCHEMA = { COUNT_FIELDS, sizeof(struct compare_counts), true,
                                                       YOKE_EDATA };
#define ROW(member) offsetof(struct compare_kernel, member), sizeof(((struct compare_kernel *)0)->member)
static const struct yokei_json_field ROW_FIELDS[] = {
    { "op", YOKEI_JSON_TEXT, ROW(op), true },
    { "dtype", YOKEI_JSON_TEXT, ROW(dtype), true },
    { "size", YOKEI_JSON_TEXT, ROW(size), true },
    { "dims", YOKEI_JSON_TEXT, ROW(dims), true },
    { "variant", YOKEI_JSON_TEXT, ROW(variant), true },
    { "reason", YOKEI_JSON_STRING, ROW(reason) },
    { "seconds", YOKEI_JSON_F64, ROW(seconds), false, 1e-12, 1e9 },
    { "limit_seconds", YOKEI_JSON_F64, ROW(limit), false, 0, 1e9 },
    { "flop_per_s", YOKEI_JSON_F64, ROW(flop_per_s), false, 0, 1e300 },
    { "bytes_per_s", YOKEI_JSON_F64, ROW(bytes_per_s), false, 0, 1e300 },
    { "limited_by", YOKEI_JSON_TEXT, ROW(limited_by) },
    { "checked", YOKEI_JSON_STRING, ROW(checked) },
    { "error_over_bound", YOKEI_JSON_F64, ROW(error), false, 0, 1e300 },
    { "predicted", YOKEI_JSON_OBJECT, ROW(counts), .schema = &COUNT_SCHEMA, .sized = true },
    { 0 },
};
static const struct yokei_json_schema ROW_SCHEMA = { ROW_FIELDS, sizeof(struct compare_kernel), true,
                                                     YOKE_EDATA };
#define PEAK(type)                                                                                    \
    {                                                                                                 \
#type, YOKEI_JSON_F64, offsetof(struct compare_peaks, type), sizeof(double), false, 0, 1e300, \
    }
static const struct yokei_json_field PEAK_FIELDS[] = { PEAK(f32), PEAK(f16), PEAK(bf16), PEAK(f64), { 0 } };
static const struct yokei_json_schema PEAK_SCHEMA = { PEAK_FIELDS, sizeof(struct compare_peaks), true,
                                                      YOKE_EDATA };
#define FILE_(member) offsetof(struct compare_file, member), sizeof(((struct compare_file *)0)->member)
static const struct yokei_json_field FILE_FIELDS[] = {
    { "schema", YOKEI_JSON_I64, FILE_(schema), true, 1, 1 },
    { "version", YOKEI_JSON_TEXT, FILE_(version), true },
    { "device", YOKEI_JSON_TEXT, FILE_(device), true },
    { "emulated", YOKEI_JSON_BOOL, FILE_(emulated) },
    { "peak_flop_per_s", YOKEI_JSON_OBJECT, FILE_(peaks), .schema = &PEAK_SCHEMA },
    { "rows", YOKEI_JSON_ARRAY, FILE_(rows), true, 0, 1e6, .schema = &ROW_SCHEMA,
      .count_offset = offsetof(struct compare_file, n_rows) },
    { 0 },
};
static const struct yokei_json_schema FILE_SCHEMA = { FILE_FIELDS, sizeof(struct compare_file), true,
                                                      YOKE_EDATA };

yoke_status compare_file_read(const char *path, struct compare_file *file_out)
{
    YOKE_TRY(compare_as_data(yokei_json_read(path, &FILE_SCHEMA, file_out)));
    if (file_out->n_rows) return YOKE_OK;
    compare_file_free(file_out);
    return yoke_fail(YOKE_EDATA, "%s: it has no row", path);
}

void compare_file_free(struct compare_file *file) { yokei_json_free(&FILE_SCHEMA, file); }

static yoke_status read_side(struct compare_table *t, int side)
{
    const yoke_status status = compare_file_read(t->request->paths[side], &t->files[side]);
    if (status)
        return yoke_fail_context(status,
                                 "yoke compare needs files that yoke bench kernels -o FILE.json has written");
    if (!t->request->bits[side]) return YOKE_OK;
    YOKE_TRY(bits_read(t->request->bits[side], &t->bits[side]));
    bits_sort(&t->bits[side]);
    return YOKE_OK;
}

/* "gelu_forward f32 (tiny: n 64)" */
static const char *name_of(const struct compare_kernel *k, char *out, size_t bytes)
{
    yokei_text(out, bytes, "%s %s (%s: %s)", k->op, k->dtype, k->size, k->dims);
    return out;
}

/* ---- one pair ---- */

static bool same_row(const struct compare_kernel *a, const struct compare_kernel *b)
{
    return !strcmp(a->op, b->op) && !strcmp(a->dtype, b->dtype) && !strcmp(a->size, b->size)
           && !strcmp(a->dims, b->dims);
}

const struct compare_kernel *compare_file_row(const struct compare_file *file,
                                              const struct compare_kernel *key)
{
    for (int64_t i = 0; i < file->n_rows; i++)
        if (same_row(&file->rows[i], key)) return &file->rows[i];
    return NULL;
}

/*
 * Compare the cases of --bits of the two variants that ran. The variants may have other names on the two
 * devices. A case whose inputs depend on the variant is left out.
 */
static void compare_bits(const struct compare_table *t, struct compare_pair *p)
{
    for (int i = 0; i < t->bits[0].n; i++) {
        const struct bits_line *line = &t->bits[0].lines[i];
        if (strcmp(line->op, p->side[0]->op) || strcmp(line->dtype, p->side[0]->dtype)
            || strcmp(line->variant, p->side[0]->variant))
            continue;
        struct bits_line key = *line;
        yokei_text(key.variant, sizeof key.variant, "%s", p->side[1]->variant);
        const struct bits_line *other = bits_find(&t->bits[1], &key);
        if (!other || other->inputs != line->inputs) continue;
        p->n_cases++;
        p->n_differ += other->results != line->results;
    }
    if (p->n_cases) p->bits = p->n_differ ? COMPARE_BITS_DIFFER : COMPARE_BITS_EQUAL;
}

static double ratio(double a, double b) { return a > 0 && b > 0 ? a / b : NAN; }

static void compare_pair(const struct compare_table *t, struct compare_pair *p)
{
    const struct compare_kernel *old = p->side[0], *new = p->side[1];
    const struct compare_counts *a = &old->counts, *b = &new->counts;
    for (int i = 0; i < 2; i++) p->share[i] = ratio(p->side[i]->limit, p->side[i]->seconds);
    p->time_ratio = t->times ? ratio(old->seconds, new->seconds) : NAN;
    p->share_ratio = t->times ? ratio(p->share[1], p->share[0]) : NAN;
    p->instructions = p->bytes = NAN;
    if (t->counts && a->size && b->size) {
        p->instructions = ratio((double)a->instructions, (double)b->instructions);
        p->bytes = ratio((double)(a->bytes_loaded + a->bytes_stored),
                         (double)(b->bytes_loaded + b->bytes_stored));
    }
    if (p->share_ratio < 1) p->lost = new->seconds - new->limit / p->share[0];
    p->held = t->counts ? fmin(p->instructions, p->bytes)
                        : (t->request->by_share ? p->share_ratio : p->time_ratio);
    const bool had = t->counts ? a->size > 0 : old->seconds > 0,
               has = t->counts ? b->size > 0 : new->seconds > 0;
    if ((t->times || t->counts) && had && !has) p->held = 0;
    compare_bits(t, p);
}

/* ---- all of them ---- */

static yoke_status compare_rows(struct compare_table *t)
{
    const double threshold = t->request->threshold;
    t->pairs = calloc((size_t)t->files[0].n_rows, sizeof *t->pairs);
    if (!t->pairs)
        return yoke_fail(YOKE_ENOMEM, "yoke compare: no memory for %lld rows", (long long)t->files[0].n_rows);
    for (int64_t i = 0; i < t->files[0].n_rows; i++) {
        const struct compare_kernel *old = &t->files[0].rows[i], *new = compare_file_row(&t->files[1], old);
        if (compare_file_row(&t->files[0], old) != old) continue; /* a size that was asked for twice */
        if (!new) {
            t->n_only[0]++;
            continue;
        }
        struct compare_pair *p = &t->pairs[t->n_pairs++];
        *p = (struct compare_pair){ .side = { old, new } };
        compare_pair(t, p);
        t->n_bits_differ += p->bits == COMPARE_BITS_DIFFER && !strcmp(old->variant, new->variant);
        if (isnan(p->held)) continue;
        t->n_held++;
        t->n_below += threshold > 0 && p->held < threshold;
        if (!t->worst || p->held < t->worst->held) t->worst = p;
    }
    for (int64_t i = 0; i < t->files[1].n_rows; i++)
        t->n_only[1] += !compare_file_row(&t->files[0], &t->files[1].rows[i]);
    return t->n_pairs ? YOKE_OK
                      : yoke_fail(YOKE_EUNSUPPORTED,
                                  "%s and %s have no op, type and size in common, so nothing was compared; "
                                  "give both the same --op, --dtype and --size",
                                  t->request->paths[0], t->request->paths[1]);
}

/* The pair with the most of something; NULL: no pair has any of it. */
static const struct compare_pair *most(const struct compare_table *t,
                                       double (*of)(const struct compare_pair *))
{
    const struct compare_pair *found = NULL;
    for (int i = 0; i < t->n_pairs; i++) {
        const struct compare_pair *p = &t->pairs[i];
        if (of(p) > (found ? of(found) : 0)) found = p;
    }
    return found;
}

static double wrong_bits(const struct compare_pair *p)
{
    return strcmp(p->side[0]->variant, p->side[1]->variant) ? 0 : p->n_differ;
}

static double no_speed(const struct compare_pair *p) { return p->held == 0; }

static double lost(const struct compare_pair *p) { return p->lost; }

static double more_work(const struct compare_pair *p)
{
    const double least = fmin(p->instructions, p->bytes);
    return least > 0 && least < 1 ? 1 / least : 0;
}

/* Wrong bits come first, then an operation that the new device does not run, then the time that is lost. */
static void advise(struct compare_table *t)
{
    char name[300];
    const struct compare_pair *p;
    if ((p = most(t, wrong_bits)))
        yokei_text(t->advice, sizeof t->advice,
                   "%s: its variant %s has other bits on the new device in %d of %d cases",
                   name_of(p->side[0], name, sizeof name),
                   p->side[0]->variant[0] ? p->side[0]->variant : "(it has only one)", p->n_differ,
                   p->n_cases);
    else if ((p = most(t, no_speed)))
        yokei_text(t->advice, sizeof t->advice, "%s: the new device does not run it (%s)",
                   name_of(p->side[0], name, sizeof name),
                   p->side[1]->reason ? p->side[1]->reason : "without a reason");
    else if ((p = most(t, lost)))
        yokei_text(t->advice, sizeof t->advice,
                   "%s: its share of the device's limit fell from %.5g %% to %.3g %%, which costs %.4g us a "
                   "call, the most of all operations",
                   name_of(p->side[0], name, sizeof name), 100 * p->share[0], 100 * p->share[1],
                   p->lost * 1e6);
    else if ((p = most(t, more_work)))
        yokei_text(
            t->advice, sizeof t->advice,
            "%s: it does the most additional work, %.3g times the instructions and %.3g times the bytes",
            name_of(p->side[0], name, sizeof name), 1 / p->instructions, 1 / p->bytes);
}

/* The result of the comparison as a status. A wrong result is worse than a slow one. */
static yoke_status judge(const struct compare_table *t)
{
    const struct compare_request *r = t->request;
    char name[300];
    if (t->n_bits_differ)
        return yoke_fail(YOKE_ENUMERIC, "%s and %s: %d operations have other bits in the same variant; %s",
                         r->bits[0], r->bits[1], t->n_bits_differ, t->advice);
    if (!(r->threshold > 0)) return YOKE_OK;
    if (!t->n_held)
        return yoke_fail(YOKE_EUNSUPPORTED,
                         "yoke compare: there is no ratio that --threshold %g could hold for%s", r->threshold,
                         t->files[0].emulated != t->files[1].emulated
                             ? ", because one device is emulated, and "
                               "its times are no times"
                             : "");
    if (!t->n_below) return YOKE_OK;
    return yoke_fail(YOKE_EREGRESSED, "%d of %d operations are below %g, the lowest is %s with %.3g%s",
                     t->n_below, t->n_held, r->threshold, name_of(t->worst->side[0], name, sizeof name),
                     t->worst->held, t->worst->held > 0 ? "" : ", because the new device does not run it");
}

yoke_status compare_kernels(const struct compare_request *request, FILE *to)
{
    struct compare_table t = { .request = request };
    yoke_status status = YOKE_OK;
    for (int i = 0; i < 2 && !status; i++) status = read_side(&t, i);
    if (!status && request->bits[0])
        status = bits_check_inputs(request->bits[0], &t.bits[0], request->bits[1], &t.bits[1]);
    if (!status) {
        t.counts = t.files[0].emulated && t.files[1].emulated;
        t.times = !t.files[0].emulated && !t.files[1].emulated;
        status = compare_rows(&t);
    }
    if (!status) {
        advise(&t);
        if (request->json)
            status = compare_kernels_json(&t, to);
        else
            compare_kernels_text(&t, to);
    }
    if (!status) status = judge(&t);
    free(t.pairs);
    for (int i = 0; i < 2; i++) {
        yokei_json_free(&FILE_SCHEMA, &t.files[i]);
        bits_free(&t.bits[i]);
    }
    return status;
}
