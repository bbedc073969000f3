/* SPDX-License-Identifier: Apache-2.0 */
/* The page about devices: read the files, put the files of one device into one column, write the sections. */
#include "cli/report/devices.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/base.h"
#include "train/files/json.h"

/* ---- reading ---- */

static bool begins_with(const char *path, char first)
{
    int fd;
    size_t bytes;
    char got = 0;
    if (yokei_file_open(path, YOKE_EDATA, &fd, &bytes)) return false;
    const bool is = read(fd, &got, 1) == 1 && got == first;
    close(fd);
    return is;
}

/* What a JSON document is, by the keys that only this kind has. */
static enum device_file_kind kind_of(const json_t *root)
{
    const json_t *rows = json_object_get(root, "rows");
    if (json_is_array(json_object_get(root, "lines")) && json_is_object(json_object_get(root, "device")))
        return DEVICE_VERIFY;
    if (json_is_string(json_object_get(root, "kind")) && json_is_object(json_object_get(root, "old"))
        && json_is_object(json_object_get(root, "new")))
        return DEVICE_COMPARISON;
    if (json_is_array(rows) && json_is_integer(json_object_get(root, "ranks"))) return DEVICE_COLLECTIVES;
    if (json_is_string(json_object_get(json_array_get(rows, 0), "library"))) return DEVICE_PRODUCTS;
    if (rows && json_object_get(root, "device")) return DEVICE_KERNELS;
    return DEVICE_UNREADABLE;
}

static yoke_status read_bits(struct device_file *file)
{
    YOKE_TRY(bits_read(file->path, &file->bits));
    bits_sort(&file->bits);
    file->kind = DEVICE_BITS;
    file->n_rows = (size_t)file->bits.n;
    return YOKE_OK;
}

static yoke_status read_file(struct device_file *file)
{
    if (begins_with(file->path, '#')) return read_bits(file);
    YOKE_TRY(yokei_json_load(file->path, YOKE_EDATA, &file->root));
    const enum device_file_kind kind = kind_of(file->root);
    if (kind == DEVICE_UNREADABLE)
        return yoke_fail(
            YOKE_EDATA,
            "%s: it is no run directory, and no JSON file of yoke bench kernels, bench gemm, bench "
            "collectives, verify or compare",
            file->path);
    if (kind == DEVICE_KERNELS) {
        json_decref(file->root);
        file->root = NULL;
        YOKE_TRY(compare_file_read(file->path, &file->kernels));
        file->version = file->kernels.version;
        file->n_rows = (size_t)file->kernels.n_rows;
    } else {
        const json_t *list = json_object_get(file->root, kind == DEVICE_VERIFY ? "lines" : "rows"),
                     *version = json_object_get(file->root, "version");
        file->version = json_string_value(version);
        file->n_rows = json_array_size(list);
    }
    file->kind = kind;
    if (kind == DEVICE_VERIFY) device_verify_check(file);
    if (kind == DEVICE_COLLECTIVES) device_collectives_check(file);
    if (kind == DEVICE_PRODUCTS) device_products_check(file);
    if (kind == DEVICE_COMPARISON) device_compared_check(file);
    return YOKE_OK;
}

static void close_file(struct device_file *file)
{
    if (file->kind == DEVICE_KERNELS) compare_file_free(&file->kernels);
    bits_free(&file->bits);
    json_decref(file->root);
}

/* ---- columns ---- */

/* The name of a file's device, as yoke info lists it. False: the file is about no single device. */
static bool device_of(const struct device_file *file, char *spec, size_t bytes, bool *emulated)
{
    const json_t *device = json_object_get(file->root, "device");
    switch (file->kind) {
    case DEVICE_KERNELS:
        yokei_text(spec, bytes, "%s", file->kernels.device);
        *emulated = file->kernels.emulated;
        return true;
    case DEVICE_VERIFY:
        yokei_text(spec, bytes, "%s", device_text(device, "spec"));
        *emulated = strstr(device_text(device, "name"), "emulated")
                    || strstr(device_text(device, "features"), "emulated");
        return true;
    case DEVICE_BITS:
        yokei_text(spec, bytes, "%.*s", (int)YOKE_MIN(strcspn(file->bits.device, " "), 200),
                   file->bits.device);
        *emulated = strstr(file->bits.device, "emulated") != NULL;
        return true;
    default: return false;
    }
}

static const struct device_file **place_of(struct device_column *column, const struct device_file *file)
{
    return file->kind == DEVICE_KERNELS ? &column->kernels
           : file->kind == DEVICE_BITS  ? &column->bits
                                        : &column->verify;
}

/* Put a file into the first column of its device that has no such file yet, or into a new column. */
static void find_column(struct devices *d, struct device_file *file)
{
    char spec[sizeof d->columns[0].spec];
    bool emulated = false;
    int same = 1, c;
    file->column = -1;
    if (!device_of(file, spec, sizeof spec, &emulated)) return;
    for (c = 0; c < d->n_columns; c++) {
        struct device_column *column = &d->columns[c];
        if (strcmp(column->spec, spec) || column->emulated != emulated) continue;
        if (!*place_of(column, file)) break;
        same++;
    }
    struct device_column *column = &d->columns[c];
    if (c == d->n_columns) {
        char count[16] = "";
        if (same > 1) yokei_text(count, sizeof count, " (%d)", same);
        d->n_columns++;
        yokei_text(column->spec, sizeof column->spec, "%s", spec);
        yokei_text(column->label, sizeof column->label, "%s%s%s", spec[0] ? spec : "a device without a name",
                   emulated ? " (emulated)" : "", count);
        column->emulated = emulated;
    }
    *place_of(column, file) = file;
    file->column = c;
}

/* ---- the page ---- */

/* The title of a page without a column: what the files are about. */
static void title_of_files(const struct devices *d, char *title, size_t bytes)
{
    static const struct {
        enum device_file_kind kind;
        const char *words;
    } kinds[] = { { DEVICE_PRODUCTS, "Matrix products" },
                  { DEVICE_COLLECTIVES, "Collectives" },
                  { DEVICE_COMPARISON, "Comparisons" } };
    title[0] = '\0';
    for (size_t k = 0; k < YOKE_COUNT(kinds); k++) {
        bool has = false;
        for (int f = 0; f < d->n_files; f++) has = has || d->files[f].kind == kinds[k].kind;
        const size_t used = strlen(title);
        if (has) yokei_text(title + used, bytes - used, "%s%s", used ? "; " : "", kinds[k].words);
    }
}

static void put_title(struct report_page *page, const struct devices *d)
{
    enum { MOST = 5 };
    char title[(DEVICE_NAME + 16) * (MOST + 1)];
    if (!d->n_columns) title_of_files(d, title, sizeof title);
    for (int c = 0; c < d->n_columns && c < MOST; c++) {
        const size_t used = c ? strlen(title) : 0;
        yokei_text(title + used, sizeof title - used, "%s%s",
                   !c                      ? (d->n_columns > 1 ? "Devices " : "Device ")
                   : c + 1 == d->n_columns ? " and "
                                           : ", ",
                   d->columns[c].label);
    }
    if (d->n_columns > MOST) {
        const size_t used = strlen(title);
        yokei_text(title + used, sizeof title - used, " and %d others", d->n_columns - MOST);
    }
    report_begin(page, title);
}

static void put_problems(struct report_page *page, const struct devices *d)
{
    bool any = false;
    for (int f = 0; f < d->n_files; f++) {
        if (!d->files[f].problem[0]) continue;
        if (!any) {
            report_heading(page, "What is missing");
            report_list_begin(page);
        }
        any = true;
        report_item(page, "%s", d->files[f].problem);
    }
    if (any) report_list_end(page);
}

static void put_files(struct report_page *page, const struct devices *d)
{
    static const char *const heads[] = { "file", "written by", "device", "emulated", "yoke", "rows" };
    static const char *const writers[] = {
        [DEVICE_KERNELS] = "yoke bench kernels", [DEVICE_VERIFY] = "yoke verify",
        [DEVICE_BITS] = "yoke verify --bits",    [DEVICE_COLLECTIVES] = "yoke bench collectives",
        [DEVICE_PRODUCTS] = "yoke bench gemm",   [DEVICE_COMPARISON] = "yoke compare",
        [DEVICE_UNREADABLE] = "not read"
    };
    report_heading(page, "Files");
    report_table_begin(page, heads, (int)YOKE_COUNT(heads));
    for (int f = 0; f < d->n_files; f++) {
        const struct device_file *file = &d->files[f];
        const struct device_column *column = file->column >= 0 ? &d->columns[file->column] : NULL;
        report_row_begin(page);
        report_cell(page, file->path);
        report_cell(page, writers[file->kind]);
        report_cell(page, column                          ? column->label
                          : file->kind == DEVICE_PRODUCTS ? device_text(file->root, "device")
                                                          : "-");
        report_cell(page, !column ? "-" : column->emulated ? "yes" : "no");
        report_cell(page, file->version ? file->version : "-");
        report_number(page, file->kind == DEVICE_UNREADABLE ? NAN : (double)file->n_rows, "%.0f");
        report_row_end(page);
    }
    report_table_end(page);
}

static yoke_status put_page(struct report_page *page, const struct devices *d)
{
    put_title(page, d);
    report_heading(page, "Result");
    report_list_begin(page);
    device_verify_result(page, d);
    device_bits_result(page, d);
    device_kernels_result(page, d);
    device_products_result(page, d);
    device_collectives_result(page, d);
    device_compared_result(page, d);
    report_list_end(page);
    put_problems(page, d);
    put_files(page, d);
    YOKE_TRY(device_kernels(page, d));
    YOKE_TRY(device_rooflines(page, d));
    YOKE_TRY(device_sizes(page, d));
    YOKE_TRY(device_verify(page, d));
    YOKE_TRY(device_bits(page, d));
    YOKE_TRY(device_products(page, d));
    YOKE_TRY(device_collectives(page, d));
    YOKE_TRY(device_compared(page, d));
    report_end(page);
    return YOKE_OK;
}

/* The result as a status: the first problem. */
static yoke_status judge(const struct devices *d, int n_read)
{
    for (int f = 0; f < d->n_files; f++)
        if (d->files[f].problem[0])
            return yoke_fail(YOKE_EDATA, "%s%s", d->files[f].problem,
                             n_read ? "; the report has what could be read" : "");
    return YOKE_OK;
}

yoke_status report_of_devices(struct report_page *page, char *const paths[], int n_paths)
{
    struct devices *d = calloc(1, sizeof *d);
    int n_read = 0;
    yoke_status status = YOKE_OK;
    if (d) d->files = calloc((size_t)n_paths, sizeof *d->files);
    if (!d || !d->files) {
        free(d);
        return yoke_fail(YOKE_ENOMEM, "yoke report: no memory for the files");
    }
    for (int i = 0; i < n_paths && !status; i++) {
        struct device_file *file = &d->files[d->n_files++];
        *file = (struct device_file){ .path = paths[i], .kind = DEVICE_UNREADABLE, .column = -1 };
        status = read_file(file);
        if (status == YOKE_OK) {
            find_column(d, file);
            n_read++;
        } else if (status != YOKE_ENOMEM) {
            yokei_text(file->problem, sizeof file->problem, "%s", yoke_last_error());
            status = YOKE_OK;
        }
    }
    if (!status && n_read) status = put_page(page, d);
    if (!status) status = judge(d, n_read);
    for (int i = 0; i < d->n_files; i++) close_file(&d->files[i]);
    free(d->files);
    free(d);
    return status;
}
