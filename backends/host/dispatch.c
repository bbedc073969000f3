/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The op tables of the host backend. Every op runs by the best instruction set of this CPU, unless a tuning
 * file or yoke_variant_force says otherwise. The variants of gemm are oneDNN, then the instruction sets.
 */
#include "backends/host/host.h"

/* The size by which tuning files choose a variant. That of gemm is in backend.h. */
#define SIZE_bias_backward(a) ((double)(a)->N * (double)(a)->C)
#define SIZE_layernorm_forward(a) ((double)(a)->N * (double)(a)->C)
#define SIZE_layernorm_backward(a) ((double)(a)->N * (double)(a)->C)
#define SIZE_rmsnorm_forward(a) ((double)(a)->N * (double)(a)->C)
#define SIZE_rmsnorm_backward(a) ((double)(a)->N * (double)(a)->C)
#define SIZE_gelu_erf_forward(a) ((double)(a)->n)
#define SIZE_gelu_erf_backward(a) ((double)(a)->n)
#define SIZE_swiglu_forward(a) ((double)(a)->N * (double)(a)->F)
#define SIZE_swiglu_backward(a) ((double)(a)->N * (double)(a)->F)
#define SIZE_rope(a) ((double)(a)->N * (double)(a)->H * (double)(a)->D)
#define SIZE_gelu_forward(a) ((double)(a)->n)
#define SIZE_gelu_backward(a) ((double)(a)->n)
#define SIZE_attention_forward(a) ((double)(a)->B * (double)(a)->T * (double)(a)->H * (double)(a)->D)
#define SIZE_attention_backward(a) ((double)(a)->B * (double)(a)->T * (double)(a)->H * (double)(a)->D)
#define SIZE_embed_forward(a) ((double)(a)->N * (double)(a)->C)
#define SIZE_embed_backward(a) ((double)(a)->N * (double)(a)->C)
#define SIZE_xent_forward(a) ((double)(a)->N * (double)(a)->V)
#define SIZE_xent_backward(a) ((double)(a)->N * (double)(a)->V)
#define SIZE_xent_join(a) ((double)(a)->P * (double)(a)->N)
#define SIZE_adamw(a) ((double)(a)->n)
#define SIZE_grad_norm(a) ((double)(a)->n)
#define SIZE_cast(a) ((double)(a)->n)
#define SIZE_add(a) ((double)(a)->n)
#define SIZE_scale(a) ((double)(a)->n)
#define SIZE_dropout(a) ((double)(a)->N * (double)(a)->C)

#define NO_EDGE(a) 0
#define SEQUENCE(a) ((double)(a)->T)

/*
 * An op whose variants are the instruction sets only. `type` is the field of the arguments that has its type.
 */
#define DISPATCH(family, op, type, edge)                                                                    \
    static yoke_status host_##op##_can(const yoke_device *device, const struct yoke_##op##_args *args,      \
                                       size_t *scratch_bytes_out)                                           \
    {                                                                                                       \
        const int variant = yokei_variant_at(device, YOKE_OP_##op, args->type, SIZE_##op(args), edge(args), \
                                             0);                                                            \
        return host_device(device)->isas[variant]->family->op.can(device, args, scratch_bytes_out);         \
    }                                                                                                       \
    static yoke_status host_##op##_run(yoke_stream *stream, const struct yoke_##op##_args *args)            \
    {                                                                                                       \
        const int variant = yokei_variant_at(stream->device, YOKE_OP_##op, args->type, SIZE_##op(args),     \
                                             edge(args), 0);                                                \
        const struct host_isa *isa = host_device(stream->device)->isas[variant];                            \
        YOKE_TRY(isa->family->op.can(stream->device, args, NULL));                                          \
        return isa->family->op.run(stream, args);                                                           \
    }

#define DISPATCH_norm(op) DISPATCH(norm, op, dtype, NO_EDGE)
#define DISPATCH_act(op) DISPATCH(act, op, dtype, NO_EDGE)
#define DISPATCH_attention(op) DISPATCH(attention, op, dtype, SEQUENCE)
#define DISPATCH_embed(op) DISPATCH(embed, op, dtype, NO_EDGE)
#define DISPATCH_loss(op) DISPATCH(loss, op, dtype, NO_EDGE)
#define DISPATCH_optim(op) DISPATCH(optim, op, dtype, NO_EDGE)
#define DISPATCH_cast(op) DISPATCH(cast, op, from, NO_EDGE)
#define DISPATCH_elementwise(op) DISPATCH(elementwise, op, dtype, NO_EDGE)
#define DISPATCH_rope(op) DISPATCH(rope, op, dtype, NO_EDGE)
/* gemm itself has oneDNN among its variants, so its functions are below. */
#define DISPATCH_gemm(op) DISPATCH_GEMM_##op
#define DISPATCH_GEMM_gemm
#define DISPATCH_GEMM_bias_backward DISPATCH(gemm, bias_backward, dtype, NO_EDGE)
#define FAMILY(family, OPS, with) OPS(DISPATCH_##family)
YOKE_FAMILIES(FAMILY, )

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

/* The instruction set for a product. NULL: oneDNN. */
static const struct host_isa *gemm_choice(const yoke_device *device, const struct yoke_gemm_args *args)
{
    const struct host_device *d = host_device(device);
    const int first = gemm_first_isa(d);
    const bool library = d->onednn && !yokei_host_own_is_faster(d->isas[0], host_onednn_amx(d->onednn), args)
                         && host_onednn_offers(device, args);
    int variant = yokei_variant_at(device, YOKE_OP_gemm, args->dtype, YOKEI_GEMM_SIZE(args),
                                   YOKEI_GEMM_EDGE(args), library ? 0 : first);
    if (variant < first && !library && !yokei_variant_is_forced(device, YOKE_OP_gemm)
        && !host_onednn_offers(device, args))
        variant = first; /* a tuning file chose the library for products like this one */
    return variant < first ? NULL : d->isas[variant - first];
}

static yoke_status host_gemm_can(const yoke_device *device, const struct yoke_gemm_args *args,
                                 size_t *scratch_bytes_out)
{
    const struct host_isa *isa = gemm_choice(device, args);
    return isa ? isa->gemm->gemm.can(device, args, scratch_bytes_out)
               : host_onednn_gemm_can(device, args, scratch_bytes_out);
}

static yoke_status host_gemm_run(yoke_stream *stream, const struct yoke_gemm_args *args)
{
    const struct host_isa *isa = gemm_choice(stream->device, args);
    if (!isa) return host_onednn_gemm_run(stream, args);
    YOKE_TRY(isa->gemm->gemm.can(stream->device, args, NULL));
    return isa->gemm->gemm.run(stream, args);
}

const char *host_variant(const yoke_device *device, enum yoke_op_id op, int index)
{
    const struct host_device *d = host_device(device);
    if (op == YOKE_OP_gemm && d->onednn && index-- == 0) return "onednn";
    return index < d->n_isas ? d->isas[index]->name : NULL;
}

#define ENTRY(op) YOKE_OP_ENTRY(host, op)
#define TABLE(family, OPS, with) const struct yoke_##family##_ops host_##family##_ops = { OPS(ENTRY) };
YOKE_FAMILIES(TABLE, )
