/* SPDX-License-Identifier: Apache-2.0 */
/**
 * yoke bench collectives: what is measured (collectives_data.c), by whom (collectives_sides.c, collectives_mpi.c), against which limit
 * (collectives_limit.c), and how it is printed (collectives_table.c). collectives_data.c and collectives_mpi.c need neither Yoke's communicators
 * nor MPICH: bench/openmpi_collectives.c compiles them against another MPI, so that both are measured and checked alike.
 */
#ifndef CLI_BENCH_COLLECTIVES_H
#define CLI_BENCH_COLLECTIVES_H

#include <stdio.h>
#include <yoke/comm.h>

/* ---- collectives_data.c: the collectives, their data, the check of a result, the statistics of times ---- */
enum bench_kind {
    BENCH_ALL_REDUCE,
    BENCH_REDUCE_SCATTER,
    BENCH_ALL_GATHER,
    BENCH_BROADCAST,
    BENCH_REDUCE,
    BENCH_ALL_TO_ALL,
    BENCH_GATHER,
    BENCH_SCATTER,
    BENCH_SENDRECV, /* to the right neighbour in a ring, from the left one */
    BENCH_BARRIER,
    BENCH_N_KINDS
};
struct bench_facts {
    const char *name;
    bool reduces, has_root, has_slices, can_be_in_place;
};
extern const struct bench_facts bench_facts[BENCH_N_KINDS];
/** The kind called `name`, or BENCH_N_KINDS. */
enum bench_kind bench_kind_of(const char *name);

/** One call, as this rank makes it. */
struct bench_case {
    enum bench_kind kind;
    yoke_dtype dtype;
    yoke_reduction reduction;
    int root, rank, size;
    bool in_place, native; /* native: 16-bit sums are rounded at each hop */
    size_t count;          /* as passed to the call */
    size_t bytes;          /* of the larger of a rank's buffers */
};
/** Set count and bytes: `bytes` rounded to whole elements, up to one per slice where there are slices; 0 for a barrier. */
void bench_case_size(struct bench_case *c, uint64_t bytes);
/** busbw = algbw times this, as nccl-tests define it. */
double bench_bus_factor(const struct bench_case *c);
/** Bytes of the ranks' buffers that any implementation reads (inputs, once) and writes (outputs, once), divided by the ranks. */
double bench_touched_bytes(const struct bench_case *c);

/** Bytes that any implementation sends or receives over the link of that host which has the most to carry one way; hosts count from 0. */
double bench_crossing_bytes(const struct bench_case *c, const int host_of[]);

/** Where a call's data lies, given its two buffers of c->bytes; in place all lies in `recv`. */
struct bench_places {
    char *send, *recv;   /* arguments of the call; NULL where they are not looked at */
    char *input, *result;
    size_t n_input, n_result; /* elements; 0: this rank has none */
};
struct bench_places bench_places(const struct bench_case *c, char *send, char *recv);

/** EXACT: small whole numbers, the same result in every order. ROUNDING: fractions, compared with a float64 result. */
enum bench_data { BENCH_EXACT, BENCH_ROUNDING };
bool bench_has_rounding(const struct bench_case *c);

enum { BENCH_GUARD = 64 }; /* bytes behind a buffer that must stay as they were */
/** Fill host images of both buffers (c->bytes + BENCH_GUARD each): this rank's input, and a mark everywhere else. */
void bench_fill(const struct bench_case *c, enum bench_data data, char *send, char *recv);
/** Input that stays what it is however often it is reduced in place: zeros, ones for a product. */
void bench_fill_neutral(const struct bench_case *c, char *send, char *recv);

struct bench_verdict {
    uint64_t n_wrong; /* elements that are not exact, or further from float64 than their bound; a touched guard is one */
    double max_ulp;   /* largest distance from the float64 result, in units of the type's last place there */
};
/** Add to *verdict what is found in the image of `recv` after the call. */
void bench_verify(const struct bench_case *c, enum bench_data data, const char *recv, struct bench_verdict *verdict);

struct bench_speed {
    int n; /* 0: not measured */
    double median, p99, least; /* seconds */
};
/** Sorts `times`. The 99th percentile is the smallest time that 99 % of the samples do not exceed. */
struct bench_speed bench_summary(double *times, int n);

/** A turn of a side: calls that only bring the caches to where its own calls leave them, then those of one sample. */
struct bench_turns {
    int n_warming, n_calls, n_samples;
};
/**
 * How often a call is repeated, given that it takes `seconds`: a sample takes at least 2 ms, turns take `budget` together; up to 5
 * calls and 25 ms of a turn are not timed.
 */
void bench_plan(double seconds, double budget, int most_samples, struct bench_turns *plan_out);
/** The first call after a pause may take far longer than the next: how many calls to plan by, or 0: the first one must do. */
int bench_probe(double seconds, double budget);

/* ---- collectives_mpi.c: the same call of the MPI that the program is linked with ---- */
bool bench_mpi_offers(const struct bench_case *c);
/** As MPI is called: its broadcast knows in place only. */
struct bench_case bench_mpi_case(const struct bench_case *c);
/** Blocks inside MPI; returns MPI's code. */
int bench_mpi_call(const struct bench_case *c, char *send, char *recv, MPI_Comm comm);
/** MPI's reduce_scatter in place leaves the slice at the beginning: move it to where bench_verify looks. */
void bench_mpi_settle(const struct bench_case *c, char *recv);

/* ---- collectives_sides.c: a communicator of Yoke with buffers ---- */
struct bench_yoke {
    yoke_comm *comm;
    yoke_device *device; /* NULL: host memory */
    yoke_stream *stream;
    bool shared;
    char *send, *recv; /* of the device */
};
/** Collective. `bytes`: of each buffer, without the guard. */
yoke_status bench_yoke_open(struct bench_yoke *side, const char *spec, const struct yoke_comm_config *config, bool shared, size_t bytes);
yoke_status bench_yoke_close(struct bench_yoke *side);
yoke_status bench_yoke_call(const struct bench_yoke *side, const struct bench_case *c);
/** Both buffers from host images, and `recv` back into one. */
yoke_status bench_yoke_put(const struct bench_yoke *side, const struct bench_case *c, const char *send, const char *recv);
yoke_status bench_yoke_get(const struct bench_yoke *side, const struct bench_case *c, char *recv);

/* ---- collectives_limit.c ---- */
enum { BENCH_LIMIT_LEAST = 64 << 10 }; /* bytes below which latency decides, and no limit is given */
/**
 * Bytes per second that a host's link carries each way at once, when all hosts exchange messages with their neighbours in a ring: the
 * faster of one rank of each host doing so, and as many as the smallest host has. Collective over MPI.
 */
yoke_status bench_links(MPI_Comm comm, yoke_comm *control, const int host_of[], double *rate_out);

/* ---- collectives_table.c ---- */
struct bench_row {
    struct bench_case c;
    struct bench_verdict verdict;
    struct bench_speed yoke, mpi, beside;
    double beside_elements; /* elements per call beside, divided by the row's */
    double limit;           /* seconds; 0: none */
    struct yoke_comm_plan plan; /* of the table that shows plans; algorithm "": there is none */
};
struct bench_table {
    const char *format; /* md, csv, json */
    const char *beside; /* what stands beside, or NULL */
    bool mpi, plans, begun;
    FILE *to;
    void *rows;         /* json_t */
};
void bench_table_begin(struct bench_table *table);
/** One line. A row with wrong elements gets no speed. */
void bench_table_row(struct bench_table *table, const struct bench_row *row);
void bench_table_end(struct bench_table *table, int ranks, bool print);

#endif
