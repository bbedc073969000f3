/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines of yoke bench kernels for an emulated device: counts of the kernels' instructions and memory
 * accesses. They are those of the same kernels on a GPU. No times, because an emulated device's times say
 * nothing about a GPU.
 */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cli/bench/kernels.h"
#include "core/base/base.h"

/* The columns that are computed from the counts. */
struct columns {
    double bytes, over_least, over_bytes, conflicts, instructions;
};

static double over(double a, double b) { return b > 0 ? a / b : 0; }

static struct columns columns_of(const struct bench_prediction *p)
{
    const struct yokei_counts *c = &p->counts;
    const double bytes = (double)(c->bytes_loaded + c->bytes_stored),
                 sectors = 32 * (double)(c->sectors_loaded + c->sectors_stored);
    return (struct columns){ bytes, over(bytes, p->least_bytes), over(sectors, bytes),
                             over((double)c->bank_conflicts, (double)c->shared_accesses),
                             over((double)c->instructions, p->least_bytes) };
}

static void json_prediction(struct bench_kernel_table *t, const struct bench_kernel_row *r,
                            const struct bench_prediction *p, const char *dims)
{
    const struct yokei_counts *c = &p->counts;
    json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:s}", "op", yokei_op_names[r->op], "dtype",
                          yoke_dtype_name(r->dtype), "size", r->size->name, "dims", dims, "variant",
                          r->variant);
    if (r->note[0]) {
        json_object_set_new(o, "reason", json_string(r->note));
    } else {
        const struct {
            const char *key;
            uint64_t value;
        } counts[] = { { "launches", c->launches },
                       { "instructions", c->instructions },
                       { "warp_instructions", c->warp_instructions },
                       { "bytes_loaded", c->bytes_loaded },
                       { "bytes_stored", c->bytes_stored },
                       { "sectors_loaded", c->sectors_loaded },
                       { "sectors_stored", c->sectors_stored },
                       { "shared_accesses", c->shared_accesses },
                       { "bank_conflicts", c->bank_conflicts },
                       { "barriers", c->barriers },
                       { "warps", c->warps } };
        json_t *predicted = json_object();
        for (size_t i = 0; i < YOKE_COUNT(counts); i++)
            json_object_set_new(predicted, counts[i].key, json_integer((json_int_t)counts[i].value));
        json_object_set_new(predicted, "least_bytes", json_real(p->least_bytes));
        json_object_set_new(o, "predicted", predicted);
    }
    json_array_append_new(t->rows, o);
}

static void csv_prediction(struct bench_kernel_table *t, const struct bench_kernel_row *r,
                           const struct bench_prediction *p, const char *dims)
{
    const struct yokei_counts *c = &p->counts;
    if (!t->begun)
        fputs(
            "device,op,dtype,size,dims,variant,launches,instructions,warp_instructions,bytes_loaded,bytes_stored,"
            "sectors_loaded,sectors_stored,shared_accesses,bank_conflicts,barriers,warps,least_bytes,note\n",
            t->to);
    fprintf(t->to, "%s,%s,%s,%s,%s,%s,", t->device, yokei_op_names[r->op], yoke_dtype_name(r->dtype),
            r->size->name, dims, r->variant);
    if (r->note[0])
        fprintf(t->to, ",,,,,,,,,,,,\"%s\"\n", r->note);
    else
        fprintf(t->to, "%llu,%llu,%llu,%llu,%llu,%llu,%llu,%llu,%llu,%llu,%llu,%.17g,\n",
                (unsigned long long)c->launches, (unsigned long long)c->instructions,
                (unsigned long long)c->warp_instructions, (unsigned long long)c->bytes_loaded,
                (unsigned long long)c->bytes_stored, (unsigned long long)c->sectors_loaded,
                (unsigned long long)c->sectors_stored, (unsigned long long)c->shared_accesses,
                (unsigned long long)c->bank_conflicts, (unsigned long long)c->barriers,
                (unsigned long long)c->warps, p->least_bytes);
}

static void md_prediction(struct bench_kernel_table *t, const struct bench_kernel_row *r,
                          const struct bench_prediction *p, const char *dims)
{
    const struct columns k = columns_of(p);
    char size[160];
    if (!t->begun)
        fprintf(
            t->to,
            "| %-18s | %-4s | %-44s | %-10s | %8s | %10s | %10s | %10s | %12s | %9s | %8s |\n"
            "|--------------------|------|----------------------------------------------|------------|---------:|-----------:|-----------:|-----------:|"
            "-------------:|----------:|---------:|\n",
            "op", "type", "size", "variant", "launches", "instr/byte", "bytes", "bytes/least",
            "sectors/bytes", "conflicts", "warps");
    yokei_text(size, sizeof size, "%s: %s", r->size->name, dims);
    fprintf(t->to, "| %-18s | %-4s | %-44s | %-10s |", yokei_op_names[r->op], yoke_dtype_name(r->dtype), size,
            r->variant);
    if (r->note[0])
        fprintf(t->to, " %s |\n", r->note);
    else
        fprintf(t->to, " %8llu | %10.4g | %10.4g | %11.4g | %13.4g | %9.3g | %8llu |\n",
                (unsigned long long)p->counts.launches, k.instructions, k.bytes, k.over_least, k.over_bytes,
                k.conflicts, (unsigned long long)p->counts.warps);
}

void bench_predict_row(struct bench_kernel_table *t, const struct bench_kernel_row *r,
                       const struct bench_prediction *p)
{
    char dims[128];
    conform_dims_text(r->op, r->size->dim, dims, sizeof dims);
    (!strcmp(t->format, "json")  ? json_prediction
     : !strcmp(t->format, "csv") ? csv_prediction
                                 : md_prediction)(t, r, p, dims);
    t->begun = true;
    fflush(t->to);
}

void bench_predict_end(struct bench_kernel_table *t, const char *device_name, bool print)
{
    if (print && !strcmp(t->format, "json")) {
        json_t *root = json_pack("{s:i, s:s, s:s, s:b, s:O}", "schema", 1, "version", yoke_version(),
                                 "device", t->device, "emulated", 1, "rows", t->rows);
        json_dumpf(root, t->to, JSON_INDENT(2));
        fputc('\n', t->to);
        json_decref(root);
    } else if (print) {
        cli_note("%s: %s. Predicted: counts of what the kernels do, and no times", t->device, device_name);
    }
    json_decref(t->rows);
}
