/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The page about devices: files of yoke bench kernels, bench gemm, verify, bench collectives and compare, in
 * any mix. Files of one device stand in one column. The sections are:
 * - kernels.c: the share of each device's own limit, by operation and by size
 * - roofline.c: the rates beside the measured limits
 * - verify.c: passed and failed operations; verify_bits.c: equal and different bits
 * - products.c: matrix products beside other libraries
 * - collectives.c: times by size
 * - compared.c: results of yoke compare
 */
#ifndef CLI_REPORT_DEVICES_H
#define CLI_REPORT_DEVICES_H

#include "cli/compare/kernels.h"
#include "cli/report/report.h"
#include "cli/report/svg.h"

enum device_file_kind {
    DEVICE_KERNELS,
    DEVICE_VERIFY,
    DEVICE_BITS,
    DEVICE_COLLECTIVES,
    DEVICE_PRODUCTS,
    DEVICE_COMPARISON,
    DEVICE_UNREADABLE,
};

struct device_file {
    const char *path;
    enum device_file_kind kind;
    char problem[1200];          /* why it was not read, or not wholly; "": no problem */
    struct compare_file kernels; /* KERNELS */
    struct bits bits;            /* BITS, sorted */
    json_t *root;                /* VERIFY, COLLECTIVES, PRODUCTS, COMPARISON */
    const char *version;         /* of Yoke; NULL: the file does not say it */
    size_t n_rows;
    int column; /* of its device; -1: none */
};

enum { DEVICE_MOST_FILES = REPORT_MOST_FILES, DEVICE_NAME = 96, DEVICE_MOST_ROWS = 4000 };

/** A column of the page: a device, with at most one file of each kind. */
struct device_column {
    char spec[64], label[DEVICE_NAME]; /* such as "cuda:0 (emulated)"; the second one is "host (2)" */
    bool emulated;
    const struct device_file *kernels, *verify, *bits; /* NULL: none */
};

struct devices {
    struct device_file *files; /* [n_files] */
    int n_files;
    struct device_column columns[DEVICE_MOST_FILES];
    int n_columns;
};

/* ---- values.c: values of JSON that may be missing or of another type ---- */
/** A text; "" if there is none. */
const char *device_text(const json_t *object, const char *key);
/** A number; NaN if there is none. */
double device_number(const json_t *object, const char *key);
/**
 * Number equal keys alike, from 0, in the order in which they first appear. group_out: [n]. Returns the
 * number of groups, or -1 if there is no memory. A NULL key means that there was no memory for it.
 */
int64_t device_group(char *const keys[], size_t n, int64_t *group_out);
void device_keys_free(char **keys, size_t n);
/** A whole number with all of its digits; "unknown" for NaN. */
const char *device_count(double count, char out[REPORT_REAL]);
/** A time in us, ms or s. */
const char *device_seconds(double seconds, char out[REPORT_REAL]);

/* ---- ops.c ---- */
/** Operations of one name and type in all sizes, or in one size. */
struct device_op {
    const char *op, *dtype;
    const struct compare_kernel *first; /* a row of it */
    struct device_work *on;             /* [n_columns] */
};
/** What one column's file says of a device_op. */
struct device_work {
    const struct compare_kernel
        *row;              /* NULL: the file has none. Of several rows the one with the most bytes */
    double seconds, limit; /* sums of the rows with a speed; 0: none */
    double error;          /* the largest error relative to its bound; NaN: not checked */
    double instructions, bytes, least_bytes; /* sums of the counts */
    const char *reason;                      /* of the first row without a speed or counts; NULL */
    int n_sizes, n_wrong;
};
struct device_ops {
    struct device_op *ops;
    struct device_work *work;
    int64_t n;
};
/** Read the rows of all files of kernels, by operation and type, and also by size if by_size. YOKE_ENOMEM. */
yoke_status device_ops_read(const struct devices *devices, bool by_size, struct device_ops *ops_out);
void device_ops_free(struct device_ops *ops);
/** The share of the device's own limit in percent; NaN: not known. An emulated device has no times. */
double device_share(const struct device_column *column, const struct device_work *work);
/** The share of one row. */
double device_row_share(const struct device_column *column, const struct compare_kernel *row);
/** Whether a row was checked and found right. Otherwise the file may have no error of it. */
bool device_row_is_right(const struct compare_kernel *row);

/** An operation with a value, and the order of these for qsort: by value, then as in the files. */
struct device_ranked {
    const struct device_op *op;
    double value;
};
int device_by_value(const void *a, const void *b);

/** Say in file->problem which rows are damaged and are left out. */
void device_verify_check(struct device_file *file);
void device_collectives_check(struct device_file *file);
void device_products_check(struct device_file *file);
void device_compared_check(struct device_file *file);

/** One or more items of the result. */
void device_kernels_result(struct report_page *page, const struct devices *devices);
void device_verify_result(struct report_page *page, const struct devices *devices);
void device_bits_result(struct report_page *page, const struct devices *devices);
void device_products_result(struct report_page *page, const struct devices *devices);
void device_collectives_result(struct report_page *page, const struct devices *devices);
void device_compared_result(struct report_page *page, const struct devices *devices);
/** The sections. They write nothing if the files have none of it. YOKE_ENOMEM. */
yoke_status device_kernels(struct report_page *page, const struct devices *devices);
yoke_status device_rooflines(struct report_page *page, const struct devices *devices);
yoke_status device_sizes(struct report_page *page, const struct devices *devices);
yoke_status device_verify(struct report_page *page, const struct devices *devices);
yoke_status device_bits(struct report_page *page, const struct devices *devices);
yoke_status device_products(struct report_page *page, const struct devices *devices);
yoke_status device_collectives(struct report_page *page, const struct devices *devices);
yoke_status device_compared(struct report_page *page, const struct devices *devices);

#endif
