/* SPDX-License-Identifier: Apache-2.0 */
/** yoke compare OLD.json NEW.json: the operations of two files of yoke bench kernels, side by side. */
#ifndef CLI_COMPARE_KERNELS_H
#define CLI_COMPARE_KERNELS_H

#include "cli/compare/compare.h"
#include "cli/devices/bits.h"

/** What the kernels of one call do, counted on an emulated device. */
struct compare_counts {
    size_t size; /* 0: the row has no counts */
    int64_t launches, instructions, bytes_loaded, bytes_stored;
    double least_bytes; /* that any kernel must move; 0: not known */
};

/** A row of a file, as far as comparisons and reports read it. */
struct compare_kernel {
    char op[48], dtype[8], size[160], dims[160], variant[64];
    char *reason;                   /* why there is no speed, or NULL */
    double seconds, limit;          /* 0: none */
    double flop_per_s, bytes_per_s; /* 0: none */
    char limited_by[16];            /* memory or arithmetic; "": not known */
    char *checked;                  /* how the results were checked; NULL: not */
    double error; /* the largest error of the results, relative to its bound, if they were checked */
    struct compare_counts counts;
};

/** The measured limits of arithmetic by type, in operations per second. 0: not measured. */
struct compare_peaks {
    double f32, f16, bf16, f64;
};

/** A file of yoke bench kernels. */
struct compare_file {
    int64_t schema;
    char version[64], device[64];
    bool emulated;
    struct compare_peaks peaks;
    struct compare_kernel *rows;
    int64_t n_rows;
};

enum compare_bits { COMPARE_BITS_UNKNOWN, COMPARE_BITS_EQUAL, COMPARE_BITS_DIFFER };

/** A row that both files have. */
struct compare_pair {
    const struct compare_kernel *side[2];
    double share[2];     /* of the device's own limit; NaN: not known */
    double time_ratio;   /* old time / new time; NaN if one of them is missing or is no time */
    double share_ratio;  /* new share / old share; NaN */
    double instructions; /* old / new, of counts; NaN */
    double bytes;        /* old / new, of counts; NaN */
    double lost;         /* seconds of a call that the lower share costs; 0: none */
    double held;         /* the ratio that the threshold means; NaN: none, 0: the new device has no speed */
    enum compare_bits bits;
    int n_cases, n_differ; /* cases of --bits that were compared */
};

struct compare_table {
    const struct compare_request *request;
    struct compare_file files[2];
    struct bits bits[2]; /* sorted */
    struct compare_pair *pairs;
    int n_pairs, n_only[2];             /* rows that only one file has */
    int n_held, n_below, n_bits_differ; /* n_bits_differ: pairs whose variants have one name */
    const struct compare_pair *worst;   /* the lowest ratio of those that are held */
    char advice[512];                   /* what to look at first */
    bool times, counts;                 /* what can be compared */
};

/* ---- kernels.c, also for yoke report ---- */
/** Read a file of yoke bench kernels. YOKE_EDATA. The caller calls compare_file_free() after success. */
yoke_status compare_file_read(const char *path, struct compare_file *file_out);
void compare_file_free(struct compare_file *file);
/** The first row of a file with the op, type and size of `key`; NULL. */
const struct compare_kernel *compare_file_row(const struct compare_file *file,
                                              const struct compare_kernel *key);

/* ---- kernels_text.c ---- */
void compare_kernels_text(const struct compare_table *table, FILE *to);
yoke_status compare_kernels_json(const struct compare_table *table, FILE *to);

#endif
