/* SPDX-License-Identifier: Apache-2.0 */
/** yoke bench kernels: the limits of a device (kernels_limits.c), and the lines (kernels.c, kernels_table.c). */
#ifndef CLI_BENCH_KERNELS_H
#define CLI_BENCH_KERNELS_H

#include "cli/bench/sides.h"

/** What no op of a device can be faster than. */
struct bench_peaks {
    yoke_device *device;
    yoke_stream *stream;
    int threads;
    bool on_cpu;        /* memory that the host sees: its own vector units and triads are the limit */
    double flops[YOKE_N_DTYPES]; /* operations per second; 0: not measured */
    void *memory[2];    /* of the triad (one), or of the copy */
    size_t bytes;       /* of each */
};
/** Peaks of the types that were selected; memory for kernels_side of bench_peaks_move. Blocks for a fraction of a second for each type. */
yoke_status bench_peaks_open(yoke_device *device, yoke_stream *stream, int threads, const bool dtypes[YOKE_N_DTYPES], struct bench_peaks *out);
void bench_peaks_close(struct bench_peaks *peaks);

/** Moving `bytes` of memory as fast as it goes, for kernels_measure: the context. */
struct bench_move {
    struct bench_peaks *peaks;
    double bytes;
    bool around; /* on a CPU: with stores that go around the caches */
};
yoke_status bench_peaks_move(void *move, int n);
/** Bytes that one such call really moves: fewer where `bytes` are more than there is memory for. */
double bench_peaks_moved(const struct bench_move *move);

/** One line. */
struct bench_kernel_row {
    enum yoke_op_id op;
    yoke_dtype dtype;
    const struct conform_size *size;
    const char *variant;    /* that ran; "" where the op has none */
    double seconds;         /* median; 0: no speed */
    double least, most;
    double flops, bytes;    /* of the op, as its `can` states */
    double limit;           /* seconds that no implementation goes below; 0: not known */
    bool by_bytes;          /* it is the memory's, not the arithmetic's */
    double ratio;           /* error / bound at `checked` */
    int64_t checked[CONFORM_MAX_DIMS]; /* the shape that was held to the reference */
    char note[200];         /* why there is no speed */
};

struct bench_kernel_table {
    const char *format;     /* md, csv, json */
    const char *device;
    bool begun;
    void *rows;             /* json_t */
};
void bench_kernel_table_begin(struct bench_kernel_table *table);
void bench_kernel_table_row(struct bench_kernel_table *table, const struct bench_kernel_row *row);
void bench_kernel_table_end(struct bench_kernel_table *table, const struct bench_peaks *peaks, bool print);

#endif
