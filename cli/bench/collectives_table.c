/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines of the benchmark of collectives, as Markdown, CSV or JSON. A line with wrong elements gets no
 * speed.
 */
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "cli/bench/collectives.h"
#include "core/base/base.h"

/* Figures that are computed from a line's times. 0: there is no such figure. */
struct figures {
    double seconds, p99, algbw, busbw, share, mpi, mpi_ratio, beside, beside_ratio;
};

static struct figures figures(const struct bench_row *r)
{
    struct figures f = { 0 };
    if (r->verdict.n_wrong || !r->yoke.n) return f;
    f.seconds = r->yoke.median;
    f.p99 = r->yoke.p99;
    f.algbw = (double)r->c.bytes / f.seconds;
    f.busbw = f.algbw * bench_bus_factor(&r->c);
    f.share = 100 * r->limit / f.seconds;
    f.mpi = r->mpi.median;
    f.mpi_ratio = f.mpi / f.seconds;
    f.beside = r->beside.median;
    f.beside_ratio = r->beside_elements > 0 ? f.beside / f.seconds / r->beside_elements : 0;
    return f;
}

static const char *redop(const struct bench_row *r)
{
    return bench_facts[r->c.kind].reduces ? yoke_reduction_name(r->c.reduction) : "none";
}
static int root(const struct bench_row *r) { return bench_facts[r->c.kind].has_root ? r->c.root : -1; }
static bool counts_ulps(const struct bench_row *r) { return bench_has_rounding(&r->c); }

static void json_collective(struct bench_table *t, const struct bench_row *r, const struct figures *f)
{
    json_t *o = json_pack("{s:s, s:I, s:I, s:s, s:s, s:i, s:b, s:I}", "collective",
                          bench_facts[r->c.kind].name, "bytes", (json_int_t)r->c.bytes, "count",
                          (json_int_t)r->c.count, "dtype", yoke_dtype_name(r->c.dtype), "reduction", redop(r),
                          "root", root(r), "in_place", (int)r->c.in_place, "wrong",
                          (json_int_t)r->verdict.n_wrong);
    const struct {
        const char *name;
        double value;
    } fields[] = {
        { "seconds", f->seconds },
        { "p99_seconds", f->p99 },
        { "algbw_bytes_per_s", f->algbw },
        { "busbw_bytes_per_s", f->busbw },
        { "limit_seconds", f->seconds > 0 ? r->limit : 0 },
        { "mpi_seconds", f->mpi },
        { "times_mpi", f->mpi_ratio },
        { "beside_seconds", f->beside },
        { "times_beside", f->beside_ratio },
    };
    for (size_t i = 0; i < YOKE_COUNT(fields); i++)
        if (fields[i].value > 0) json_object_set_new(o, fields[i].name, json_real(fields[i].value));
    if (f->seconds > 0) json_object_set_new(o, "samples", json_integer(r->yoke.n));
    if (r->choice.algorithm[0]) {
        json_t *choice = json_pack("{s:s, s:I, s:i, s:s}", "algorithm", r->choice.algorithm, "chunk_bytes",
                                   (json_int_t)r->choice.chunk_bytes, "lanes", r->choice.n_lanes, "why",
                                   r->choice.why);
        if (r->choice.predicted_us > 0)
            json_object_set_new(choice, "predicted_seconds", json_real(r->choice.predicted_us * 1e-6));
        json_object_set_new(choice, "grouping", json_string(r->choice.grouping));
        if (r->choice.n_islands)
            json_object_set_new(choice, "islands",
                                json_pack("{s:i, s:s, s:i, s:f}", "count", r->choice.n_islands, "ranks",
                                          r->choice.islands, "columns", r->choice.n_columns, "bridge_bytes",
                                          r->choice.bridge_bytes));
        json_object_set_new(o, "plan", choice);
    }
    if (counts_ulps(r) && isfinite(r->verdict.max_ulp))
        json_object_set_new(o, "max_ulp", json_real(r->verdict.max_ulp));
    json_array_append_new(t->rows, o);
}

static void number_or_dash(double x, const char *format, char *out, size_t bytes)
{
    if (x > 0)
        yokei_text(out, bytes, format, x);
    else
        yokei_text(out, bytes, "-");
}

static void time_text(double seconds, char *out, size_t bytes)
{
    const double us = seconds * 1e6;
    number_or_dash(us, us < 10 ? "%.2f" : "%.1f", out, bytes);
}

static void csv_collective(struct bench_table *t, const struct bench_row *r, const struct figures *f)
{
    const double values[] = { f->seconds * 1e6, f->p99 * 1e6, f->algbw * 1e-9, f->busbw * 1e-9, f->share,
                              f->mpi * 1e6,     f->mpi_ratio, f->beside * 1e6, f->beside_ratio };
    if (!t->begun)
        fprintf(
            t->to,
            "collective,bytes,count,dtype,reduction,root,in_place,wrong,max_ulp,us,p99_us,algbw_GB_s,busbw_GB_s,percent_of_limit,mpi_us,times_mpi,beside_us,"
            "times_beside%s\n",
            t->choices ? ",algorithm,chunk_bytes,lanes,predicted_us,why,grouping,islands,columns,bridge_bytes"
                       : "");
    fprintf(t->to, "%s,%zu,%zu,%s,%s,%d,%s,%llu,", bench_facts[r->c.kind].name, r->c.bytes, r->c.count,
            yoke_dtype_name(r->c.dtype), redop(r), root(r), r->c.in_place ? "yes" : "no",
            (unsigned long long)r->verdict.n_wrong);
    if (counts_ulps(r)) fprintf(t->to, "%.4g", r->verdict.max_ulp);
    for (size_t i = 0; i < YOKE_COUNT(values); i++) fprintf(t->to, values[i] > 0 ? ",%.6g" : ",", values[i]);
    if (t->choices && r->choice.algorithm[0]) {
        fprintf(t->to, ",%s,%zu,%d,", r->choice.algorithm, r->choice.chunk_bytes, r->choice.n_lanes);
        if (r->choice.predicted_us > 0) fprintf(t->to, "%.6g", r->choice.predicted_us);
        fprintf(t->to, ",\"%s\",%s,\"%s\",%d,%.0f", r->choice.why, r->choice.grouping, r->choice.islands,
                r->choice.n_columns, r->choice.bridge_bytes);
    } else if (t->choices)
        fputs(",,,,,,,,,", t->to);
    fputc('\n', t->to);
}

static void md_choice(const struct bench_table *t, const struct bench_row *r)
{
    char predicted[24], islands[256] = "";
    time_text(r->choice.predicted_us * 1e-6, predicted, sizeof predicted);
    if (r->choice.n_islands)
        yokei_text(islands, sizeof islands, "; islands %s; columns %d; %.0f bytes cross", r->choice.islands,
                   r->choice.n_columns, r->choice.bridge_bytes);
    if (t->choices && r->choice.algorithm[0])
        fprintf(t->to, " %-13s | %10zu | %5d | %12s | %s%s |", r->choice.algorithm, r->choice.chunk_bytes,
                r->choice.n_lanes, predicted, r->choice.why, islands);
    else if (t->choices)
        fprintf(t->to, " %-13s | %10s | %5s | %12s | - |", "-", "-", "-", "-");
}

static void md_collective(struct bench_table *t, const struct bench_row *r, const struct figures *f)
{
    static const char rule[] = "--------------------------------";
    const struct {
        const char *title;
        int width;
        bool shown;
    } columns[] = {
        { "time us", 10, true },
        { "p99 us", 10, true },
        { "algbw", 7, true },
        { "busbw", 7, true },
        { "%limit", 6, true },
        { "MPI us", 10, t->mpi },
        { "yoke is", 9, t->mpi },
        { t->beside, 10, t->beside != NULL },
        { "yoke is", 9, t->beside != NULL },
    };
    char cells[YOKE_COUNT(columns)][24], ulp[16] = "-";
    time_text(f->seconds, cells[0], sizeof cells[0]);
    time_text(f->p99, cells[1], sizeof cells[1]);
    number_or_dash(f->algbw * 1e-9, "%.3f", cells[2], sizeof cells[2]);
    number_or_dash(f->busbw * 1e-9, "%.3f", cells[3], sizeof cells[3]);
    number_or_dash(f->share, "%.0f", cells[4], sizeof cells[4]);
    time_text(f->mpi, cells[5], sizeof cells[5]);
    number_or_dash(f->mpi_ratio, "%.2fx", cells[6], sizeof cells[6]);
    time_text(f->beside, cells[7], sizeof cells[7]);
    number_or_dash(f->beside_ratio, "%.2fx", cells[8], sizeof cells[8]);
    if (counts_ulps(r)) yokei_text(ulp, sizeof ulp, "%.3g", r->verdict.max_ulp);
    if (!t->begun) {
        fprintf(t->to, "| %-14s | %10s | %9s | %-4s | %-5s | %4s | %-5s | %6s | %7s |", "collective",
                "size B", "count", "type", "redop", "root", "place", "#wrong", "max ulp");
        for (size_t i = 0; i < YOKE_COUNT(columns); i++)
            if (columns[i].shown) fprintf(t->to, " %*s |", columns[i].width, columns[i].title);
        if (t->choices) fputs(" algorithm     |    chunk B | lanes | predicted us | why |", t->to);
        fputs(
            "\n|----------------|-----------:|----------:|------|-------|-----:|-------|-------:|--------:|",
            t->to);
        for (size_t i = 0; i < YOKE_COUNT(columns); i++)
            if (columns[i].shown) fprintf(t->to, "-%.*s:|", columns[i].width, rule);
        if (t->choices) fputs("---------------|-----------:|------:|-------------:|-----|", t->to);
        fputc('\n', t->to);
    }
    fprintf(t->to, "| %-14s | %10zu | %9zu | %-4s | %-5s | %4d | %-5s | %6llu | %7s |",
            bench_facts[r->c.kind].name, r->c.bytes, r->c.count, yoke_dtype_name(r->c.dtype), redop(r),
            root(r), r->c.in_place ? "in" : "out", (unsigned long long)r->verdict.n_wrong, ulp);
    for (size_t i = 0; i < YOKE_COUNT(columns); i++)
        if (columns[i].shown) fprintf(t->to, " %*s |", columns[i].width, cells[i]);
    md_choice(t, r);
    fputc('\n', t->to);
}

void bench_table_begin(struct bench_table *t) { t->rows = json_array(); }

void bench_table_row(struct bench_table *t, const struct bench_row *row)
{
    const struct figures f = figures(row);
    (!strcmp(t->format, "json")  ? json_collective
     : !strcmp(t->format, "csv") ? csv_collective
                                 : md_collective)(t, row, &f);
    t->begun = true;
    fflush(t->to);
}

void bench_table_end(struct bench_table *t, int ranks, bool print)
{
    if (print && !strcmp(t->format, "json")) {
        json_t *all = json_pack("{s:i, s:s, s:i, s:O}", "schema", 2, "version", yoke_version(), "ranks",
                                ranks, "rows", t->rows);
        if (t->beside) json_object_set_new(all, "beside", json_string(t->beside));
        json_dumpf(all, t->to, JSON_INDENT(2));
        fputc('\n', t->to);
        json_decref(all);
    }
    json_decref(t->rows);
}
