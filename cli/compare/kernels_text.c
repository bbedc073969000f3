/* SPDX-License-Identifier: Apache-2.0 */
/* The comparison of two files of yoke bench kernels, as a table and as JSON. */
#include <string.h>

#include "cli/compare/kernels.h"
#include "core/base/base.h"

enum { WORDS = 32 };

static const char *bits_word(const struct compare_pair *p, char out[WORDS])
{
    if (p->bits == COMPARE_BITS_UNKNOWN)
        yokei_text(out, WORDS, "-");
    else if (p->bits == COMPARE_BITS_EQUAL)
        yokei_text(out, WORDS, "equal");
    else
        yokei_text(out, WORDS, "%d/%d differ", p->n_differ, p->n_cases);
    return out;
}

/* A number, or "-" if there is none. */
static const char *number(double x, const char *unit, char out[WORDS])
{
    if (isfinite(x) && x > 0)
        yokei_text(out, WORDS, "%.4g%s", x, unit);
    else
        yokei_text(out, WORDS, "-");
    return out;
}

static const char *variants(const struct compare_pair *p, char *out, size_t bytes)
{
    const char *a = p->side[0]->variant[0] ? p->side[0]->variant : "-",
               *b = p->side[1]->variant[0] ? p->side[1]->variant : "-";
    yokei_text(out, bytes, strcmp(a, b) ? "%s > %s" : "%s", a, b);
    return out;
}

static void put_row(const struct compare_table *t, const struct compare_pair *p, FILE *to)
{
    const struct compare_kernel *old = p->side[0], *new = p->side[1];
    char size[200], words[160], a[WORDS], b[WORDS], c[WORDS], d[WORDS], e[WORDS], f[WORDS], g[WORDS];
    yokei_text(size, sizeof size, "%s: %s", old->size, old->dims);
    fprintf(to, "| %-18s | %-4s | %-44s | %-24s |", old->op, old->dtype, size,
            variants(p, words, sizeof words));
    if (t->times)
        fprintf(to, " %10s | %10s | %8s | %8s | %8s | %8s |", number(old->seconds * 1e6, "", a),
                number(new->seconds * 1e6, "", b), number(p->time_ratio, "", c),
                number(100 * p->share[0], "", d), number(100 * p->share[1], "", e),
                number(p->share_ratio, "", f));
    else if (t->counts)
        fprintf(to, " %12s | %12s |", number(p->instructions, "", a), number(p->bytes, "", b));
    fprintf(to, " %-14s |", bits_word(p, g));
    for (int i = 0; i < 2; i++)
        if (p->side[i]->reason) fprintf(to, " %s: %s", i ? "new" : "old", p->side[i]->reason);
    fputc('\n', to);
}

static void put_head(const struct compare_table *t, FILE *to)
{
    fprintf(to, "| %-18s | %-4s | %-44s | %-24s |", "op", "type", "size", "variant, old > new");
    if (t->times)
        fprintf(to, " %10s | %10s | %8s | %8s | %8s | %8s |", "old us", "new us", "old/new", "old %lim",
                "new %lim", "new/old");
    else if (t->counts)
        fprintf(to, " %12s | %12s |", "instr old/new", "bytes old/new");
    fprintf(to, " %-14s |\n|--------------------|------|----------------------------------------------",
            "bits");
    fputs(t->times ? "|--------------------------|-----------:|-----------:|---------:|---------:|---------:"
                     "|---------:|----------------|\n"
          : t->counts ? "|--------------------------|-------------:|-------------:|----------------|\n"
                      : "|--------------------------|----------------|\n",
          to);
}

void compare_kernels_text(const struct compare_table *t, FILE *to)
{
    for (int i = 0; i < 2; i++)
        fprintf(to, "%s  %s: %s%s, %s\n", i ? "new" : "old", t->request->paths[i], t->files[i].device,
                t->files[i].emulated ? " (emulated)" : "", t->files[i].version);
    if (t->counts)
        fputs("Both devices are emulated. Their times are no times, so the counted work is compared.\n", to);
    else if (!t->times)
        fprintf(to, "The %s device is emulated. Its times are no times, so no times are compared.\n",
                t->files[0].emulated ? "old" : "new");
    fputc('\n', to);
    put_head(t, to);
    for (int i = 0; i < t->n_pairs; i++) put_row(t, &t->pairs[i], to);
    fprintf(to, "\n%d operations compared; %d only in the old file, %d only in the new file", t->n_pairs,
            t->n_only[0], t->n_only[1]);
    if (t->request->threshold > 0)
        fprintf(to, "; %d of %d below %g", t->n_below, t->n_held, t->request->threshold);
    fprintf(to, "\nlook first at: %s\n",
            t->advice[0] ? t->advice
            : t->times   ? "nothing; no operation has a lower share of its device's limit"
            : t->counts  ? "nothing; no operation does more work"
                         : "nothing; without times only variants and bits are compared");
}

/* ---- JSON ---- */

static json_t *json_side(const struct compare_table *t, const struct compare_pair *p, int i)
{
    const struct compare_kernel *k = p->side[i];
    json_t *o = json_pack("{s:o, s:o, s:o}", "variant", cli_json_text(k->variant), "seconds",
                          k->seconds > 0 && !t->files[i].emulated ? json_real(k->seconds) : json_null(),
                          "share_of_limit", cli_json_real(t->files[i].emulated ? NAN : p->share[i]));
    if (o && k->reason) json_object_set_new(o, "reason", cli_json_text(k->reason));
    return o;
}

static json_t *json_pair(const struct compare_table *t, const struct compare_pair *p)
{
    static const char *const words[] = { NULL, "equal", "differ" };
    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:i}", "op",
                     p->side[0]->op, "dtype", p->side[0]->dtype, "size", cli_json_text(p->side[0]->size),
                     "dims", cli_json_text(p->side[0]->dims), "old", json_side(t, p, 0), "new",
                     json_side(t, p, 1), "time_ratio", cli_json_real(p->time_ratio), "share_ratio",
                     cli_json_real(p->share_ratio), "instructions_ratio", cli_json_real(p->instructions),
                     "bytes_ratio", cli_json_real(p->bytes), "bits", cli_json_text(words[p->bits]), "cases",
                     p->n_cases, "cases_differ", p->n_differ);
}

static json_t *json_file(const struct compare_table *t, int i)
{
    return json_pack("{s:o, s:s, s:s, s:b, s:i}", "file", cli_json_text(t->request->paths[i]), "device",
                     t->files[i].device, "version", t->files[i].version, "emulated", t->files[i].emulated,
                     "rows_only_here", t->n_only[i]);
}

yoke_status compare_kernels_json(const struct compare_table *t, FILE *to)
{
    json_t *rows = json_array();
    for (int i = 0; i < t->n_pairs; i++) json_array_append_new(rows, json_pair(t, &t->pairs[i]));
    return compare_put_json(
        json_pack("{s:i, s:s, s:o, s:o, s:s, s:o, s:i, s:i, s:o, s:o}", "schema", 1, "kind", "kernels", "old",
                  json_file(t, 0), "new", json_file(t, 1), "compared",
                  t->times    ? "times"
                  : t->counts ? "counts"
                              : "bits",
                  "threshold", t->request->threshold > 0 ? json_real(t->request->threshold) : json_null(),
                  "held", t->n_held, "below", t->n_below, "look_first",
                  t->advice[0] ? cli_json_text(t->advice) : json_null(), "rows", rows),
        to);
}
