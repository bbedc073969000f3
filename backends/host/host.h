/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The host backend: the CPU.
 *
 * Each family is one text, written once over the vectors of vec.h and compiled once per instruction set (generic, avx2,
 * avx512, avx512bf16; see local.mk). isa.c gathers the tables of one instruction set, dispatch.c chooses among them at run time,
 * and gemm has one variant more, oneDNN (onednn.c). Ops run at once on the calling thread's OpenMP team.
 */
#ifndef BACKENDS_HOST_HOST_H
#define BACKENDS_HOST_HOST_H

#include "core/backend.h"
#include "core/base/base.h"

/** The families of one instruction set. */
struct host_isa {
    const char *name;
    bool avx512, bf16; /* the latter: has products of bf16, does not widen it */
    const struct yoke_gemm_ops *gemm;
    const struct yoke_norm_ops *norm;
    const struct yoke_act_ops *act;
    const struct yoke_attention_ops *attention;
    const struct yoke_embed_ops *embed;
    const struct yoke_loss_ops *loss;
    const struct yoke_optim_ops *optim;
    const struct yoke_cast_ops *cast;
    const struct yoke_elementwise_ops *elementwise;
    const struct yoke_rope_ops *rope;
    /* y = gelu(x) of rows with a leading dimension, for gemm's epilogue; x may be y. */
    void (*gelu_rows)(yoke_stream *stream, yoke_dtype dtype, int64_t rows, int64_t columns, const void *x, int64_t ldx, void *y,
                      int64_t ldy);
};

enum { HOST_MAX_ISAS = 4 };

struct host_onednn;

struct host_device {
    int n_threads;
    int n_isas; /* that this CPU can run, the best first */
    const struct host_isa *isas[HOST_MAX_ISAS];
    struct host_onednn *onednn; /* NULL where the library is absent */
};

static inline const struct host_device *host_device(const yoke_device *device) { return device->impl; }

/* ---- dispatch.c: the op tables of the backend, and the names of variants ---- */
extern const struct yoke_gemm_ops host_gemm_ops;
extern const struct yoke_norm_ops host_norm_ops;
extern const struct yoke_act_ops host_act_ops;
extern const struct yoke_attention_ops host_attention_ops;
extern const struct yoke_embed_ops host_embed_ops;
extern const struct yoke_loss_ops host_loss_ops;
extern const struct yoke_optim_ops host_optim_ops;
extern const struct yoke_cast_ops host_cast_ops;
extern const struct yoke_elementwise_ops host_elementwise_ops;
extern const struct yoke_rope_ops host_rope_ops;
const char *host_variant(const yoke_device *device, enum yoke_op_id op, int index);
/** The built-in rule of gemm: own panels of the instruction set `best`, or (false) oneDNN, which multiplies by AMX where `amx` says so. */
bool yokei_host_own_is_faster(const struct host_isa *best, bool amx, const struct yoke_gemm_args *args);

/* ---- cpu.c ---- */
/** The instruction sets of host_isa tables that this CPU runs, the best first; returns their number (at least 1). */
int host_find_isas(const struct host_isa *isas_out[HOST_MAX_ISAS]);

/* ---- stream.c ---- */
extern const struct yoke_stream_ops host_stream_ops;

/* ---- onednn.c ---- */
/** Load oneDNN; NULL when there is none, with the reason. */
struct host_onednn *host_onednn_open(char *reason, size_t reason_bytes);
void host_onednn_close(struct host_onednn *onednn);
/** "2.6.3", and whether matrix products of this type are offered on this CPU. */
const char *host_onednn_version(const struct host_onednn *onednn);
bool host_onednn_has(const struct host_onednn *onednn, yoke_dtype dtype);
/** Whether oneDNN multiplies by AMX here: the CPU has it, the system saves its registers, and DNNL_MAX_CPU_ISA allows it. */
bool host_onednn_amx(const struct host_onednn *onednn);
/** Whether oneDNN has optimised code for this product (its plain reference code does not count). */
bool host_onednn_offers(const yoke_device *device, const struct yoke_gemm_args *args);
yoke_status host_onednn_gemm_can(const yoke_device *device, const struct yoke_gemm_args *args, struct yoke_cost *cost);
yoke_status host_onednn_gemm_run(yoke_stream *stream, const struct yoke_gemm_args *args);
/** oneDNN's products held now, at most so many, and evicted so far; for the tests. */
enum { YOKEI_HOST_PRODUCTS = 256 };
void yokei_host_products(const yoke_device *device, int *held_out, int *evicted_out);

/* ---- parallel.c ---- */
/**
 * Call run(context, from, to) for pieces that together are [0, n), each on a thread of the team. Pieces begin at
 * multiples of `grain`, and small n stays on the calling thread. What is computed for an index may not depend on the
 * piece that it lies in: then results do not depend on the number of threads.
 */
typedef void host_range(const void *context, int64_t from, int64_t to);
void host_for(yoke_stream *stream, int64_t n, int64_t grain, host_range *run, const void *context);
/** Call run(context, unit, thread) for each unit of unequal work, thread in [0, n_threads), the first units first. */
typedef void host_unit(const void *context, int64_t unit, int thread);
void host_for_units(yoke_stream *stream, int64_t n_units, host_unit *run, const void *context);
/** The same for short units of equal work: each thread takes units that follow each other, the same ones every time, so it finds in its cache what it wrote. */
void host_for_equal_units(yoke_stream *stream, int64_t n_units, host_unit *run, const void *context);
static inline int host_n_threads(const yoke_device *device) { return host_device(device)->n_threads; }

/** Rows per piece, so that a piece is worth a thread's start. */
static inline int64_t host_row_grain(int64_t columns) { return YOKE_MAX(1, 4096 / YOKE_MAX(1, columns)); }

/* ---- answers of `can` ---- */
/** YOKE_EUNSUPPORTED unless `dtype` is one that the host's kernels load and store. */
yoke_status host_check_type(enum yoke_op_id op, const char *field, yoke_dtype dtype);
static inline yoke_status host_cost(struct yoke_cost *cost, size_t scratch_bytes, double flops, double bytes)
{
    if (cost) {
        cost->scratch_bytes = scratch_bytes;
        cost->flops = flops;
        cost->bytes = bytes;
    }
    return YOKE_OK;
}
static inline int64_t host_ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static inline int64_t host_round_up(int64_t a, int64_t b) { return host_ceil_div(a, b) * b; }

#endif
