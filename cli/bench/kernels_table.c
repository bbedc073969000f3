/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of yoke bench kernels, as Markdown, CSV or JSON. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/bench/kernels.h"
#include "core/base/base.h"

void bench_kernel_table_begin(struct bench_kernel_table *t) { t->rows = json_array(); }

static double share_of_limit(const struct bench_kernel_row *r)
{
    return r->seconds > 0 ? 100 * r->limit / r->seconds : 0;
}

static void json_kernel(struct bench_kernel_table *t, const struct bench_kernel_row *r, const char *dims,
                        const char *checked)
{
    json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:s}", "op", yokei_op_names[r->op], "dtype",
                          yoke_dtype_name(r->dtype), "size", r->size->name, "dims", dims, "variant",
                          r->variant);
    if (r->algorithm[0]) json_object_set_new(o, "algorithm", json_string(r->algorithm));
    if (r->seconds > 0) {
        json_object_update_new(o, json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:s}", "seconds", r->seconds,
                                            "least", r->least, "most", r->most, "flop_per_s",
                                            r->flops / r->seconds, "bytes_per_s", r->bytes / r->seconds,
                                            "limit_seconds", r->limit, "limited_by",
                                            r->by_bytes ? "memory" : "arithmetic"));
    } else
        json_object_set_new(o, "reason", json_string(r->note));
    if (checked[0] && isfinite(r->ratio)) json_object_set_new(o, "error_over_bound", json_real(r->ratio));
    if (checked[0]) json_object_set_new(o, "checked", json_string(checked));
    json_array_append_new(t->rows, o);
}

static void csv_kernel(const struct bench_kernel_table *t, const struct bench_kernel_row *r, const char *dims,
                       const char *checked)
{
    if (!t->begun)
        fputs(
            "device,op,dtype,size,dims,variant,us,least_us,most_us,gflops,gbytes_per_s,percent_of_limit,limited_by,error_over_bound,checked,note\n",
            t->to);
    fprintf(t->to, "%s,%s,%s,%s,%s,%s,", t->device, yokei_op_names[r->op], yoke_dtype_name(r->dtype),
            r->size->name, dims, r->variant);
    if (r->seconds > 0)
        fprintf(t->to, "%.6g,%.6g,%.6g,%.6g,%.6g,%.4g,%s,%.4g,%s,\n", r->seconds * 1e6, r->least * 1e6,
                r->most * 1e6, r->flops / r->seconds * 1e-9, r->bytes / r->seconds * 1e-9, share_of_limit(r),
                r->by_bytes ? "memory" : "arithmetic", r->ratio, checked);
    else
        fprintf(t->to, ",,,,,,,,%s,\"%s\"\n", checked, r->note);
}

static void md_kernel(const struct bench_kernel_table *t, const struct bench_kernel_row *r, const char *dims,
                      const char *checked)
{
    if (!t->begun)
        fprintf(
            t->to,
            "| %-18s | %-4s | %-44s | %-10s | %10s | %8s | %7s | %6s | %-3s | %11s |\n"
            "|--------------------|------|----------------------------------------------|------------|-----------:|---------:|--------:|-------:|-----|"
            "------------:|\n",
            "op", "type", "size", "variant", "us", "GFLOP/s", "GB/s", "%limit", "by", "error/bound");
    char size[160], mark[8] = "";
    yokei_text(size, sizeof size, "%s: %s", r->size->name, dims);
    if (strcmp(dims, checked))
        yokei_text(mark, sizeof mark, "*"); /* compared with the reference at a shorter shape */
    fprintf(t->to, "| %-18s | %-4s | %-44s | %-10s |", yokei_op_names[r->op], yoke_dtype_name(r->dtype), size,
            r->variant);
    if (r->seconds > 0)
        fprintf(t->to, " %10.4g | %8.4g | %7.4g | %6.0f | %-3s | %10.2g%1s |\n", r->seconds * 1e6,
                r->flops / r->seconds * 1e-9, r->bytes / r->seconds * 1e-9, share_of_limit(r),
                r->by_bytes ? "mem" : "alu", r->ratio, mark);
    else
        fprintf(t->to, " %s |\n", r->note);
}

void bench_kernel_table_row(struct bench_kernel_table *t, const struct bench_kernel_row *r)
{
    char dims[128], checked[128] = "";
    conform_dims_text(r->op, r->size->dim, dims, sizeof dims);
    if (r->checked[0]) conform_dims_text(r->op, r->checked, checked, sizeof checked);
    if (!strcmp(t->format, "json"))
        json_kernel(t, r, dims, checked);
    else
        (!strcmp(t->format, "csv") ? csv_kernel : md_kernel)(t, r, dims, checked);
    t->begun = true;
    fflush(t->to);
}

void bench_kernel_table_end(struct bench_kernel_table *t, const struct bench_peaks *p, bool print)
{
    json_t *flops = json_object();
    for (int d = 0; d < YOKE_N_DTYPES; d++)
        if (p->flops[d] > 0)
            json_object_set_new(flops, yoke_dtype_name((yoke_dtype)d), json_real(p->flops[d]));
    if (print && !strcmp(t->format, "json")) {
        json_t *root = json_pack("{s:i, s:s, s:s, s:i, s:O, s:O}", "schema", 1, "version", yoke_version(),
                                 "device", t->device, "threads", p->threads, "peak_flop_per_s", flops, "rows",
                                 t->rows);
        json_dumpf(root, t->to, JSON_INDENT(2));
        fputc('\n', t->to);
        json_decref(root);
    } else if (print) {
        char peaks[256] = "";
        for (int d = 0; d < YOKE_N_DTYPES; d++)
            if (p->flops[d] > 0) {
                const size_t at = strlen(peaks);
                yokei_text(peaks + at, sizeof peaks - at, " %s %.4g GFLOP/s", yoke_dtype_name((yoke_dtype)d),
                           p->flops[d] * 1e-9);
            }
        cli_note(
            "%s: %s, %d thread(s). Medians, with the operation and its limit in turn. Peak:%s. A * marks a result "
            "that was compared with the reference at a shape with fewer rows",
            t->device, yoke_device_info(p->device)->name, p->threads, peaks);
    }
    json_decref(flops);
    json_decref(t->rows);
}
