/* SPDX-License-Identifier: Apache-2.0 */
/**
 * yoke bench collectives. The files are:
 * - collectives_data.c: the collectives, their data, and the check of their results
 * - collectives_sides.c, collectives_mpi.c: the sides, which are Yoke and MPI
 * - collectives_limit.c: the limit that the times are compared with
 * - collectives_table.c: the printed table
 *
 * collectives_data.c and collectives_mpi.c need neither Yoke's communicators nor MPICH.
 * bench/openmpi_collectives.c compiles them with another MPI, so that both MPIs are measured and checked in
 * the same way.
 */
#ifndef CLI_BENCH_COLLECTIVES_H
#define CLI_BENCH_COLLECTIVES_H

#include <stdio.h>
#include <yoke/comm.h>

/* ---- collectives_data.c: the collectives, their data, the check of results, statistics ---- */
enum bench_kind {
    BENCH_ALL_REDUCE,
    BENCH_REDUCE_SCATTER,
    BENCH_ALL_GATHER,
    BENCH_BROADCAST,
    BENCH_REDUCE,
    BENCH_ALL_TO_ALL,
    BENCH_GATHER,
    BENCH_SCATTER,
    BENCH_SENDRECV, /* sends to the right neighbour in a ring, receives from the left neighbour */
    BENCH_BARRIER,
    BENCH_N_KINDS
};
struct bench_facts {
    const char *name;
    bool reduces, has_root, has_slices, can_be_in_place;
};
extern const struct bench_facts bench_facts[BENCH_N_KINDS];
/** The kind with the name `name`, or BENCH_N_KINDS. */
enum bench_kind bench_kind_of(const char *name);

/** One call, from this rank's view. */
struct bench_case {
    enum bench_kind kind;
    yoke_dtype dtype;
    yoke_reduction reduction;
    int root, rank, size;
    bool in_place, native; /* native: 16-bit sums are rounded at each hop */
    size_t count;          /* the count argument of the call */
    size_t bytes;          /* bytes of the larger one of a rank's two buffers */
};
/**
 * Set count and bytes. `bytes` is rounded down to whole elements, or to as many elements in each slice if the
 * collective has slices. The least size is one element, or one element in each slice. A barrier has 0 bytes.
 */
void bench_case_size(struct bench_case *c, uint64_t bytes);
/** The bus bandwidth is the algorithm bandwidth times this factor, as nccl-tests define both. */
double bench_bus_factor(const struct bench_case *c);
/**
 * The bytes of the ranks' buffers that every implementation must read (inputs, once) and write (outputs,
 * once), divided by the number of ranks.
 */
double bench_touched_bytes(const struct bench_case *c);

/**
 * The bytes that every implementation must send or receive over the link of one host. The host is the one
 * with the most bytes in one direction. Hosts are numbered from 0.
 */
double bench_crossing_bytes(const struct bench_case *c, const int host_of[]);

/** Where a call's data lies, for two given buffers of c->bytes. In place, all data lies in `recv`. */
struct bench_places {
    char *send, *recv; /* arguments of the call; NULL if the call does not read them */
    char *input, *result;
    size_t n_input, n_result; /* number of elements; 0: this rank has none */
};
struct bench_places bench_places(const struct bench_case *c, char *send, char *recv);

/**
 * EXACT: small whole numbers, whose result is the same in every order. ROUNDING: fractions, whose result is
 * compared with a float64 result.
 */
enum bench_data { BENCH_EXACT, BENCH_ROUNDING };
bool bench_has_rounding(const struct bench_case *c);

enum { BENCH_GUARD = 64 }; /* bytes behind a buffer that no call may change */
/**
 * Fill host copies of both buffers (c->bytes + BENCH_GUARD each) with this rank's input, and with a mark
 * everywhere else.
 */
void bench_fill(const struct bench_case *c, enum bench_data data, char *send, char *recv);
/** Fill in input that does not change, however often it is reduced in place: zeros, or ones for a product. */
void bench_fill_neutral(const struct bench_case *c, char *send, char *recv);

struct bench_verdict {
    /* elements that are not exact, or further from float64 than their bound; a changed guard counts as one */
    uint64_t n_wrong;
    /* largest distance from the float64 result, in units in the last place of the type at that result */
    double max_ulp;
};
/** Compare the host copy of `recv` after the call with the right result. Add the differences to *verdict. */
void bench_verify(const struct bench_case *c, enum bench_data data, const char *recv,
                  struct bench_verdict *verdict);

struct bench_speed {
    int n;                     /* 0: not measured */
    double median, p99, least; /* seconds */
};
/**
 * Compute the statistics of `times`, which this function sorts. The 99th percentile is the smallest time that
 * 99 % of the samples do not exceed.
 */
struct bench_speed bench_summary(double *times, int n);

/**
 * A turn of a side. First come calls that are not timed, which bring the caches to the state that the side's
 * own calls leave. Then come the calls of one sample.
 */
struct bench_turns {
    int n_warming, n_calls, n_samples;
};
/**
 * Decide how often a call that takes `seconds` is repeated. A sample has as many calls as fit into 2 ms, but
 * at least 1 and at most 10,000. All turns together take `budget` seconds. If the calls are too long for
 * that, there are still up to 3 samples. At most 5 calls, and at most 25 ms, of a turn are not timed.
 */
void bench_turns_fit(double seconds, double budget, int most_samples, struct bench_turns *turns_out);
/**
 * How many calls to measure before bench_turns_fit. The first call after a pause may take far longer than the
 * next one. 0: further calls would take too long, so bench_turns_fit gets the first call's time.
 */
int bench_probe(double seconds, double budget);

/* ---- collectives_mpi.c: the same call, made with the MPI that the program is linked with ---- */
bool bench_mpi_offers(const struct bench_case *c);
/** The case as MPI is called. MPI's broadcast works only in place. */
struct bench_case bench_mpi_case(const struct bench_case *c);
/** Blocks inside MPI. Returns MPI's error code. */
int bench_mpi_call(const struct bench_case *c, char *send, char *recv, MPI_Comm comm);
/**
 * Move the result of MPI's in-place reduce_scatter. MPI leaves the slice at the beginning of the buffer.
 * bench_verify expects it at the slice's own place.
 */
void bench_mpi_settle(const struct bench_case *c, char *recv);

/* ---- collectives_sides.c: a communicator of Yoke, with buffers ---- */
struct bench_yoke {
    yoke_comm *comm;
    yoke_device *device; /* NULL: host memory */
    yoke_stream *stream;
    bool shared;
    char *send, *recv; /* in the device's memory */
};
/** Collective. `bytes` is the size of each buffer, without the guard. */
yoke_status bench_yoke_open(struct bench_yoke *side, const char *spec, const struct yoke_comm_config *config,
                            bool shared, size_t bytes);
yoke_status bench_yoke_close(struct bench_yoke *side);
yoke_status bench_yoke_call(const struct bench_yoke *side, const struct bench_case *c);
/** Fill both buffers from host copies, and copy the buffer `recv` back into a host copy. */
yoke_status bench_yoke_put(const struct bench_yoke *side, const struct bench_case *c, const char *send,
                           const char *recv);
yoke_status bench_yoke_get(const struct bench_yoke *side, const struct bench_case *c, char *recv);

/* ---- collectives_limit.c ---- */
enum { BENCH_LIMIT_LEAST = 64 << 10 }; /* bytes; below this size latency decides, and no limit is given */
/**
 * Measure the bytes per second that a host's link carries in each direction, with both directions in use. All
 * hosts exchange messages with their neighbours in a ring. The rate is measured with one rank of each host,
 * and with as many ranks of each host as the smallest host has. The faster rate counts. Collective over MPI.
 */
yoke_status bench_links(MPI_Comm comm, yoke_comm *control, const int host_of[], double *rate_out);

/* ---- collectives_table.c ---- */
struct bench_row {
    struct bench_case c;
    struct bench_verdict verdict;
    struct bench_speed yoke, mpi, beside;
    double beside_elements; /* elements per call of `beside`, divided by the row's elements per call */
    double limit;           /* seconds; 0: no limit */
    struct yoke_comm_choice choice; /* for the table that shows choices; algorithm "": none */
};
struct bench_table {
    const char *format; /* md, csv, json */
    const char *beside; /* name of Yoke's variant that is measured beside (--beside), or NULL */
    bool mpi, choices, begun;
    FILE *to;
    void *rows; /* json_t */
};
void bench_table_begin(struct bench_table *table);
/** Print one line. A row with wrong elements gets no speed. */
void bench_table_row(struct bench_table *table, const struct bench_row *row);
void bench_table_end(struct bench_table *table, int ranks, bool print);

#endif
