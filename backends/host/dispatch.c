/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The choice among the variants of an op. Every op runs by the best instruction set of this CPU, unless a
 * tuning file or yoke_variant_force says otherwise. The variants of gemm are oneDNN, then the instruction
 * sets.
 */
#include "backends/host/host.h"

/*
 * The index of the first instruction set among the variants of gemm. oneDNN comes before it, if it is there.
 */
static int gemm_first_isa(const struct host_device *d) { return d->onednn ? 1 : 0; }

/*
 * The built-in rule. The speeds were measured beside oneDNN 2.6 (bench/host_gemm,
 * bench/results/gemm-host-shapes.txt).
 *
 * Own panels are those of gemm.c. On an AMD CPU (Zen 5), own panels of bf16 by AVX512-BF16 are faster or
 * slower from one run to the next, and as fast in a training step. On an Intel CPU with AMX (Sapphire
 * Rapids), own panels of bf16 reach 0.09 to 0.21 of oneDNN's speed, because own panels do not multiply by
 * AMX. So oneDNN multiplies bf16 there. CPUs that have neither widen bf16, and oneDNN is faster.
 *
 * In f32, oneDNN multiplies plain matrices without packing them, and own panels of AVX-512 do not reach its
 * speed. But oneDNN slows down if rows of B or C are a multiple of a page apart, if a transposed B has short
 * rows, and if K or M is long. Below AVX-512, oneDNN is asked first.
 */
bool yokei_host_own_is_faster(const struct host_isa *best, bool amx, const struct yoke_gemm_args *a)
{
    enum { PAGE = 1024, SHORT_K = 512, LONG = 16384 };
    if (a->dtype == YOKE_BF16) return best->bf16 && !amx;
    if (a->dtype != YOKE_F32) return best->avx512;
    const bool far_rows = a->ldc % PAGE == 0 || (!a->trans_b && a->ldb % PAGE == 0),
               short_rows = a->trans_b && a->K < SHORT_K;
    return best->avx512 && (far_rows || short_rows || a->K > LONG || a->M > LONG);
}

static const struct yoke_op *chosen_gemm(const yoke_device *device, const struct yokei_call *call)
{
    const struct host_device *d = host_device(device);
    const struct yoke_gemm_args *args = call->args;
    const int first = gemm_first_isa(d);
    const bool library = d->onednn && !yokei_host_own_is_faster(d->isas[0], host_onednn_amx(d->onednn), args)
                         && host_onednn_offers(device, args);
    int variant = yokei_variant(device, call, library ? 0 : first);
    if (variant < first && !library && !yokei_variant_is_forced(device, YOKE_OP_gemm)
        && !host_onednn_offers(device, args))
        variant = first; /* a tuning file chose the library for products like this one */
    return variant < first ? &host_onednn_gemm : d->isas[variant - first]->ops[YOKE_OP_gemm];
}

/* The op of the chosen variant. */
static const struct yoke_op *chosen(const yoke_device *device, const struct yokei_call *call)
{
    if (call->op == YOKE_OP_gemm) return chosen_gemm(device, call);
    return host_device(device)->isas[yokei_variant(device, call, 0)]->ops[call->op];
}

static yoke_status chosen_can(const yoke_device *device, const struct yokei_call *call,
                              size_t *scratch_bytes_out)
{
    const struct yoke_op *op = chosen(device, call);
    return op->can ? op->can(device, call, scratch_bytes_out) : YOKE_OK;
}

/* The limits of `can` hold for each call, because a kernel has room for that much only. */
static yoke_status chosen_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_op *op = chosen(stream->device, call);
    size_t scratch_bytes = 0;
    if (op->can) YOKE_TRY(op->can(stream->device, call, &scratch_bytes));
    return op->run(stream, call);
}
const struct yoke_op host_any_op = { .can = chosen_can, .run = chosen_run };

const char *host_variant(const yoke_device *device, enum yoke_op_id op, int index)
{
    const struct host_device *d = host_device(device);
    if (op == YOKE_OP_gemm && d->onednn && index-- == 0) return "onednn";
    return index < d->n_isas ? d->isas[index]->name : NULL;
}
