/* SPDX-License-Identifier: Apache-2.0 */
/* Files of yoke bench gemm: matrix products of Yoke and of other libraries, beside the limit. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/devices.h"
#include "core/base/base.h"

enum { MOST_BARS = 16, MOST_PARTS = 7 };

/* The file, and for each whole row the number of its product and of its library, in the order of the rows. */
struct products {
    const struct device_file *file;
    const json_t *rows;
    int64_t *product, *library; /* [n] */
    int64_t n, n_products, n_libraries;
};

static bool is_whole(const json_t *row)
{
    return device_text(row, "library")[0] && device_text(row, "dtype")[0] && device_number(row, "M") > 0
           && device_number(row, "N") > 0 && device_number(row, "K") > 0;
}

static double share_of(const json_t *row)
{
    const double share = 100 * device_number(row, "flop_per_s") / device_number(row, "limit_flop_per_s");
    return share > 0 ? share : NAN;
}

void device_products_check(struct device_file *file)
{
    const json_t *rows = json_object_get(file->root, "rows"), *row;
    size_t i, n = 0;
    json_array_foreach(rows, i, row) n += !is_whole(row);
    if (n)
        yokei_text(file->problem, sizeof file->problem,
                   "%s: %zu of %zu rows lack library, dtype, M, N or K, and are left out", file->path, n, i);
}

/* The product of a row in words: "f32 128 x 128 x 128". */
static void name_of(const json_t *row, char *out, size_t bytes)
{
    yokei_text(out, bytes, "%.8s %.15g x %.15g x %.15g", device_text(row, "dtype"), device_number(row, "M"),
               device_number(row, "N"), device_number(row, "K"));
}

static yoke_status read_products(const struct device_file *file, struct products *out)
{
    const json_t *row;
    size_t i, n = 0;
    *out = (struct products){ .file = file, .rows = json_object_get(file->root, "rows") };
    const size_t most = json_array_size(out->rows) + 1;
    char **products = calloc(most, sizeof *products), **libraries = calloc(most, sizeof *libraries),
         name[120];
    out->product = calloc(most, sizeof *out->product);
    out->library = calloc(most, sizeof *out->library);
    json_array_foreach(out->rows, i, row)
    {
        if (!is_whole(row) || !products || !libraries) continue;
        name_of(row, name, sizeof name);
        products[n] = strdup(name);
        libraries[n++] = strdup(device_text(row, "library"));
    }
    const bool has_room = products && libraries && out->product && out->library;
    out->n = (int64_t)n;
    out->n_products = has_room ? device_group(products, n, out->product) : -1;
    out->n_libraries = has_room ? device_group(libraries, n, out->library) : -1;
    device_keys_free(products, n);
    device_keys_free(libraries, n);
    return out->n_products < 0 || out->n_libraries < 0
               ? yoke_fail(YOKE_ENOMEM, "yoke report: no memory for %zu rows", n)
               : YOKE_OK;
}

static void free_products(struct products *p)
{
    free(p->product);
    free(p->library);
}

/* ---- the finding ---- */

/* How fast Yoke is beside one library; the text stays empty if there is no product of both. */
static void compare_library(const struct products *p, int64_t library, char *out, size_t bytes)
{
    const json_t *row;
    const char *name = "";
    size_t i;
    int64_t at = 0;
    double least = NAN, most = NAN;
    out[0] = '\0';
    json_array_foreach(p->rows, i, row)
    {
        if (!is_whole(row) || p->library[at++] != library) continue;
        const double times = device_number(row, "yoke_times_as_fast");
        name = device_text(row, "library");
        if (times > 0) least = fmin(least, times), most = fmax(most, times);
    }
    if (isfinite(least) && strcmp(name, "yoke"))
        yokei_text(out, bytes, "%.3g to %.3g times as fast as %.40s", least, most, name);
}

/* "On host, Yoke multiplies 0.98 to 1.13 times as fast as oneDNN." */
static void find_title(const struct products *p, char *title, size_t bytes)
{
    char text[160];
    int n = 0;
    yokei_text(title, bytes, "On %.60s, Yoke multiplies", device_text(p->file->root, "device"));
    for (int64_t l = 0; l < YOKE_MIN(p->n_libraries, MOST_PARTS); l++) {
        const size_t used = strlen(title);
        compare_library(p, l, text, sizeof text);
        if (text[0]) yokei_text(title + used, bytes - used, "%s%s", n++ ? ", and " : " ", text);
    }
    const size_t used = strlen(title);
    yokei_text(title + used, bytes - used, n ? "." : " without another library beside it.");
}

void device_products_result(struct report_page *page, const struct devices *d)
{
    for (int f = 0; f < d->n_files; f++) {
        struct products p;
        char title[800];
        if (d->files[f].kind != DEVICE_PRODUCTS) continue;
        if (!read_products(&d->files[f], &p)) {
            find_title(&p, title, sizeof title);
            report_item(page, "%s", title);
        }
        free_products(&p);
    }
}

/* ---- chart and table ---- */

static void put_chart(struct report_page *page, const struct products *p)
{
    struct svg_bar bars[MOST_BARS];
    char labels[MOST_BARS][120], title[800];
    double shares[MOST_BARS][MOST_PARTS], most = 100;
    const char *names[MOST_PARTS] = { "" };
    const int n_bars = (int)YOKE_MIN(p->n_products, MOST_BARS),
              n_parts = (int)YOKE_MIN(p->n_libraries, MOST_PARTS);
    const json_t *row;
    size_t i;
    int64_t at = 0;
    for (int b = 0; b < n_bars; b++) {
        for (int l = 0; l < n_parts; l++) shares[b][l] = NAN;
        bars[b] = (struct svg_bar){ labels[b], shares[b], 100 };
    }
    json_array_foreach(p->rows, i, row)
    {
        if (!is_whole(row)) continue;
        const int64_t b = p->product[at], l = p->library[at];
        at++;
        if (l < n_parts) names[l] = device_text(row, "library");
        if (b >= n_bars || l >= n_parts) continue;
        name_of(row, labels[b], sizeof labels[b]);
        shares[b][l] = share_of(row);
        most = fmax(most, shares[b][l]);
    }
    find_title(p, title, sizeof title);
    svg_bars(page, &(struct svg_bars){ .title = title,
                                       .unit = "% of the limit of arithmetic",
                                       .names = names,
                                       .n_parts = n_parts,
                                       .bars = bars,
                                       .n_bars = n_bars,
                                       .beside = true,
                                       .most = fmin(most, 200) });
    if (p->n_products > n_bars)
        report_paragraph(page, "The chart has the first %d products. The table has all %" PRId64 ".", n_bars,
                         p->n_products);
}

static void put_table(struct report_page *page, const struct products *p)
{
    static const char *const heads[] = {
        "product, M x N x K",     "library",       "us",     "GFLOP/s", "% of the limit",
        "Yoke is, times as fast", "error / bound", "threads"
    };
    const json_t *row;
    size_t i;
    report_table_begin(page, heads, (int)YOKE_COUNT(heads));
    json_array_foreach(p->rows, i, row)
    {
        const char *reason = device_text(row, "reason");
        char *library = NULL, name[120];
        if (!is_whole(row) || i >= DEVICE_MOST_ROWS) continue;
        name_of(row, name, sizeof name);
        if (asprintf(&library, "%s%s%s", device_text(row, "library"), reason[0] ? ": " : "", reason) < 0)
            continue;
        report_row_begin(page);
        report_cell(page, name);
        report_cell(page, library);
        free(library);
        report_number(page, 1e6 * device_number(row, "seconds"), "%.5g");
        report_number(page, 1e-9 * device_number(row, "flop_per_s"), "%.4g");
        report_number(page, share_of(row), "%.3g");
        report_number(page, device_number(row, "yoke_times_as_fast"), "%.3g");
        report_number(page, device_number(row, "error_over_bound"), "%.3g");
        report_number(page, device_number(row, "threads"), "%.15g");
        report_row_end(page);
    }
    report_table_end(page);
    if (i > DEVICE_MOST_ROWS) report_paragraph(page, "%zu more rows are not shown.", i - DEVICE_MOST_ROWS);
}

yoke_status device_products(struct report_page *page, const struct devices *d)
{
    yoke_status status = YOKE_OK;
    for (int f = 0; f < d->n_files && !status; f++) {
        struct products p;
        char title[500];
        if (d->files[f].kind != DEVICE_PRODUCTS) continue;
        status = read_products(&d->files[f], &p);
        if (!status && p.n) {
            yokei_text(title, sizeof title, "Matrix products on %.60s: %.300s",
                       device_text(p.file->root, "device"), p.file->path);
            report_heading(page, title);
            put_chart(page, &p);
            put_table(page, &p);
        }
        free_products(&p);
    }
    return status;
}
