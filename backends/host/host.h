/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The host backend: the CPU.
 *
 * Each family of ops is one source file. It is written once with the vectors of vec.h, and compiled once per
 * instruction set (generic, avx2, avx512, avx512bf16; see local.mk). isa.c collects the ops of one
 * instruction set, and dispatch.c chooses among the instruction sets at run time. gemm has one more variant,
 * oneDNN (onednn.c). Ops run at once, on the OpenMP team of the calling thread.
 */
#ifndef BACKENDS_HOST_HOST_H
#define BACKENDS_HOST_HOST_H

#include "core/backend.h"
#include "core/base/base.h"

/** The ops of one instruction set. */
struct host_isa {
    const char *name;
    bool avx512, bf16; /* bf16: it multiplies bf16 directly and does not widen bf16 to f32 */
    const struct yoke_op *ops[YOKE_N_OPS];
    /* y = gelu(x) for rows with a leading dimension; gemm's epilogue uses it. x and y may be the same. */
    void (*gelu_rows)(yoke_stream *stream, yoke_dtype dtype, int64_t rows, int64_t columns, const void *x,
                      int64_t ldx, void *y, int64_t ldy);
};

enum { HOST_MAX_ISAS = 4 };

struct host_onednn;

struct host_device {
    int n_threads;
    int n_isas; /* number of instruction sets that this CPU can run; the best is first */
    const struct host_isa *isas[HOST_MAX_ISAS];
    struct host_onednn *onednn; /* NULL if the library is absent */
};

static inline const struct host_device *host_device(const yoke_device *device) { return device->impl; }

/* ---- dispatch.c: the choice of the variant, and the names of variants ---- */
/** The entry of every op of the backend. It runs the op of the chosen instruction set, or oneDNN. */
extern const struct yoke_op host_any_op;
const char *host_variant(const yoke_device *device, enum yoke_op_id op, int index);
/**
 * The built-in rule of gemm. True: use Yoke's own panels with the instruction set `best`. False: use oneDNN,
 * which multiplies by AMX if `amx` is true.
 */
bool yokei_host_own_is_faster(const struct host_isa *best, bool amx, const struct yoke_gemm_args *args);

/* ---- cpu.c ---- */
/**
 * Find the instruction sets that this CPU runs and that have tables. The best is first. Returns their number,
 * at least 1.
 */
int host_find_isas(const struct host_isa *isas_out[HOST_MAX_ISAS]);

/* ---- forks.c ---- */
/** YOKE_ENODEV if this process was forked while the team of OpenMP could not be released. */
yoke_status host_check_team(void);

/* ---- crowd.c ---- */
/** The facts that decide whether threads that spin take cores from other threads. */
struct yokei_host_load {
    int n_threads;           /* of the device's team */
    long n_units, n_allowed; /* processing units of the machine, and those that this process may use */
    long n_others;           /* other threads of the machine that are runnable; the least of some samples */
    uint64_t ran_ns, waited_ns; /* time for which the calling thread ran, and waited for a core, so far */
};
void yokei_host_read_load(int n_threads, struct yokei_host_load *load_out);
bool yokei_host_is_crowded(const struct yokei_host_load *load);
/**
 * Log one line, once in the process, if the team's threads may spin on cores that others need and no variable
 * says how long they may spin.
 */
void host_warn_of_spinning(int n_threads);

/* ---- stream.c ---- */
extern const struct yoke_stream_ops host_stream_ops;

/* ---- onednn.c ---- */
/** Load oneDNN. Returns NULL if it is absent, with the reason. */
struct host_onednn *host_onednn_open(char *reason, size_t reason_bytes);
void host_onednn_close(struct host_onednn *onednn);
/**
 * The version of oneDNN, such as "2.6.3"; and whether oneDNN offers matrix products of this type on this CPU.
 */
const char *host_onednn_version(const struct host_onednn *onednn);
bool host_onednn_has(const struct host_onednn *onednn, yoke_dtype dtype);
/**
 * Whether oneDNN multiplies by AMX here. The CPU must have AMX, the system must save its registers, and
 * DNNL_MAX_CPU_ISA must allow it.
 */
bool host_onednn_amx(const struct host_onednn *onednn);
/** Whether oneDNN has optimised code for this product. Its plain reference code does not count. */
bool host_onednn_offers(const yoke_device *device, const struct yoke_gemm_args *args);
/** gemm by oneDNN. */
extern const struct yoke_op host_onednn_gemm;
/**
 * For the tests: the number of oneDNN products that are kept now (at most YOKEI_HOST_PRODUCTS), and the
 * number evicted so far.
 */
enum { YOKEI_HOST_PRODUCTS = 256 };
void yokei_host_products(const yoke_device *device, int *held_out, int *evicted_out);

/* ---- parallel.c ---- */
/**
 * Call run(context, from, to) for pieces that together are [0, n), each on a thread of the team. Pieces begin
 * at multiples of `grain`. If n is small, all of it stays on the calling thread. The value computed for an
 * index must not depend on the piece that contains the index. So results do not depend on the number of
 * threads.
 */
typedef void host_range(const void *context, int64_t from, int64_t to);
void host_for(yoke_stream *stream, int64_t n, int64_t grain, host_range *run, const void *context);
/**
 * Call run(context, unit, thread) for each unit. The units may have unequal work. thread is in [0,
 * n_threads), and the first units are started first.
 */
typedef void host_unit(const void *context, int64_t unit, int thread);
void host_for_units(yoke_stream *stream, int64_t n_units, host_unit *run, const void *context);
/**
 * As host_for_units, but for short units of equal work. Each thread takes consecutive units, the same ones in
 * every call, so it finds in its cache the data that it wrote before.
 */
void host_for_equal_units(yoke_stream *stream, int64_t n_units, host_unit *run, const void *context);
static inline int host_n_threads(const yoke_device *device) { return host_device(device)->n_threads; }

/** Rows per piece, such that a piece is worth the start of a thread. */
static inline int64_t host_row_grain(int64_t columns) { return YOKE_MAX(1, 4096 / YOKE_MAX(1, columns)); }

static inline int64_t host_ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static inline int64_t host_round_up(int64_t a, int64_t b) { return host_ceil_div(a, b) * b; }

#endif
