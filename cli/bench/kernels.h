/* SPDX-License-Identifier: Apache-2.0 */
/**
 * yoke bench kernels: the limits of a device (kernels_limits.c), and the lines of the table (kernels.c,
 * kernels_table.c).
 */
#ifndef CLI_BENCH_KERNELS_H
#define CLI_BENCH_KERNELS_H

#include "cli/bench/sides.h"
#include "core/tune.h"

/** The speeds that operations of a device are compared with. A triad is the loop a = b + 3 c over arrays. */
struct bench_peaks {
    yoke_device *device;
    yoke_stream *stream;
    int threads;
    bool on_cpu;                 /* the host sees the device's memory, so triads give the limit of memory */
    double flops[YOKE_N_DTYPES]; /* the peaks, in operations per second; 0: not measured */
    void *memory[2];             /* the triad's memory (one block), or both blocks of the copy */
    size_t bytes;                /* bytes of each block */
};
/**
 * Measure the peaks of the selected types, and allocate the memory that bench_peaks_move needs. Blocks for a
 * fraction of a second for each type.
 */
yoke_status bench_peaks_open(yoke_device *device, yoke_stream *stream, int threads,
                             const bool dtypes[YOKE_N_DTYPES], struct bench_peaks *out);
void bench_peaks_close(struct bench_peaks *peaks);

/**
 * The context of bench_peaks_move, a kernels_side for kernels_measure that moves `bytes` of memory as fast as
 * possible.
 */
struct bench_move {
    struct bench_peaks *peaks;
    double bytes;
    bool around; /* on a CPU: the stores are non-temporal, so they bypass the caches */
};
yoke_status bench_peaks_move(void *move, int n);
/**
 * The bytes that one call of bench_peaks_move really moves. They are fewer than `bytes` if there is not
 * enough memory.
 */
double bench_peaks_moved(const struct bench_move *move);

/** One line of the table. */
struct bench_kernel_row {
    enum yoke_op_id op;
    yoke_dtype dtype;
    const struct conform_size *size;
    const char *variant; /* the variant (implementation) that ran; "" if the operation has no variants */
    char algorithm[YOKEI_DETAIL_BYTES]; /* of the library that ran, as a tuning file names it; or "" */
    double seconds;                     /* median; 0: no speed */
    double least, most;
    double flops, bytes; /* operations and bytes of one call, as the operation's `can` function states them */
    double limit;        /* seconds; no implementation can be faster; 0: not known */
    bool by_bytes;       /* the limit comes from the memory, not from the arithmetic */
    double ratio;        /* error / bound at `checked` */
    int64_t checked[CONFORM_MAX_DIMS]; /* the shape that was compared with the reference */
    char note[200];                    /* why there is no speed */
};

/** For emulated devices: what the kernels of one call do, counted. */
struct bench_prediction {
    struct yokei_counts counts;
    double least_bytes; /* the least that one call must move, as the operation's `can` function states it */
};

struct bench_kernel_table {
    const char *format; /* md, csv, json */
    const char *device;
    FILE *to; /* where the table is written */
    bool begun;
    void *rows; /* json_t */
};
void bench_kernel_table_begin(struct bench_kernel_table *table);
void bench_kernel_table_row(struct bench_kernel_table *table, const struct bench_kernel_row *row);
void bench_kernel_table_end(struct bench_kernel_table *table, const struct bench_peaks *peaks, bool print);

/* ---- kernels_predict.c: the table of an emulated device, with counts and without times ---- */
/** The row's counts are not printed if it has a note. */
void bench_predict_row(struct bench_kernel_table *table, const struct bench_kernel_row *row,
                       const struct bench_prediction *prediction);
void bench_predict_end(struct bench_kernel_table *table, const char *device_name, bool print);

#endif
