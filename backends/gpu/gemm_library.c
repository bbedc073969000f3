/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Matrix products by a vendor's library. The library multiplies, and adds the bias if the result is f32,
 * unless it has no such products (rocBLAS). It
 * also adds the bias of a 16-bit result if it offers to add an f32 bias before the only rounding. All other
 * epilogues are Yoke's own kernel, because the library would round the bias to 16 bits, or would compute GELU
 * by another formula. Such a product is left in f32, so that C is rounded once.
 */
#include "backends/gpu/bodies.h"
#include "backends/gpu/gemm.h"

/* The most bytes of products in f32 that wait in scratch memory for the epilogue. */
#define PART_BYTES ((int64_t)64 << 20)
/* Rows of a piece are a multiple of this number, so that the addresses of pieces stay aligned. */
#define ROWS 128
/* The library's workspace begins at a multiple of this number of bytes. */
#define WORKSPACE_ALIGNMENT 256

/*
 * `direct`: the library adds the bias also if the result has 16 bits. `adds`: it adds to a product of the
 * last summands. A result of 16 bits is then rounded by Yoke's epilogue, once.
 */
static struct yokei_gpu_division divide_product(const yoke_device *device, const struct yoke_gemm_args *args,
                                                bool direct, bool adds)
{
    struct yokei_gpu_division d = { .rows = args->M };
    const bool wide = args->out_dtype == YOKE_F32;
    d.no_bias = yokei_gpu(device)->products->adds_no_bias;
    d.adds = adds && !wide;
    d.finish = d.adds || args->epilogue == YOKE_EPILOGUE_BIAS_GELU
               || (args->epilogue == YOKE_EPILOGUE_BIAS && (!wide || d.no_bias) && !direct);
    d.in_scratch = d.finish && !wide;
    if (d.in_scratch) {
        d.ld = yokei_gpu_round_up(args->N, 4); /* so that the epilogue can read four floats at once */
        const int64_t row_bytes = d.ld * args->batch * (int64_t)sizeof(float);
        d.rows = YOKE_MIN(args->M, YOKE_MAX(1, PART_BYTES / row_bytes / ROWS) * ROWS);
        d.part_bytes = (size_t)((d.rows * row_bytes + WORKSPACE_ALIGNMENT - 1) / WORKSPACE_ALIGNMENT
                                * WORKSPACE_ALIGNMENT);
    }
    return d;
}

static const void *element_at(const void *base, int64_t elements, yoke_dtype dtype)
{
    return base ? (const char *)base + elements * (int64_t)yoke_dtype_bytes(dtype) : NULL;
}

/* ---- tails ---- */

/* From this number of operations on, a better algorithm gains more than one more product costs. */
#define LEAST_OPERATIONS ((int64_t)1 << 29)

/*
 * The elements behind the last whole 16 bytes of a row of `n` elements, whose rows begin at multiples of 16
 * bytes. 0: there are none, or the rows begin elsewhere.
 */
static int64_t rest_of_row(int64_t n, int64_t ld, int64_t stride, yoke_dtype dtype)
{
    const int64_t whole = 16 / (int64_t)yoke_dtype_bytes(dtype);
    return ld % whole || stride % whole ? 0 : n % whole;
}

/*
 * Divide a product of 16-bit types whose rows end in the middle of 16 bytes, such as the logits of 50257
 * words. The algorithms of cuBLASLt for such a product reach a ninth of an H100's speed. One more product
 * takes the last columns of C, or the last summands, and `rest` has whole rows of 16 bytes. If C has 16 bits
 * and the summands are divided, both products are added in f32 in scratch memory, so that C is rounded once.
 */
static bool cut_tail(const struct yoke_gemm_args *args, struct yoke_gemm_args *rest,
                     struct yoke_gemm_args *tail)
{
    const struct yoke_gemm_args *a = args;
    if (a->dtype == YOKE_F32 || a->epilogue != YOKE_EPILOGUE_NONE
        || (double)a->M * (double)a->N * (double)a->K * (double)a->batch * 2 < (double)LEAST_OPERATIONS)
        return false;
    const int64_t n = rest_of_row(a->N, a->ldc, a->stride_c, a->out_dtype);
    int64_t k = 0;
    if (!a->trans_a) k = rest_of_row(a->K, a->lda, a->stride_a, a->dtype);
    if (!k && a->trans_b) k = rest_of_row(a->K, a->ldb, a->stride_b, a->dtype);
    *rest = *tail = *a;
    if (n && a->N > n) {
        rest->N = a->N - n, tail->N = n;
        tail->b = element_at(a->b, a->trans_b ? rest->N * a->ldb : rest->N, a->dtype);
        tail->c = (void *)(uintptr_t)element_at(a->c, rest->N, a->out_dtype);
        return true;
    }
    if (!k || a->K == k) return false;
    rest->K = a->K - k, tail->K = k;
    tail->a = element_at(a->a, a->trans_a ? rest->K * a->lda : rest->K, a->dtype);
    tail->b = element_at(a->b, a->trans_b ? rest->K : rest->K * a->ldb, a->dtype);
    if (a->out_dtype == YOKE_F32) rest->beta = 1;
    return true;
}

/* ---- pieces ---- */

/** What the library computes of the rows [m, m + rows). */
static struct yoke_gemm_args rows_of_product(const struct yoke_gemm_args *args,
                                             const struct yokei_gpu_division *d, int64_t m, void *part)
{
    struct yoke_gemm_args p = *args;
    p.M = YOKE_MIN(d->rows, args->M - m);
    p.a = element_at(args->a, args->trans_a ? m : m * args->lda, args->dtype);
    p.c = (void *)(uintptr_t)element_at(args->c, m * args->ldc, args->out_dtype);
    p.aux = NULL;
    p.epilogue = args->epilogue != YOKE_EPILOGUE_NONE && !d->in_scratch && !d->no_bias ? YOKE_EPILOGUE_BIAS
                                                                                       : YOKE_EPILOGUE_NONE;
    if (!d->in_scratch) return p;
    p.out_dtype = YOKE_F32;
    p.beta = d->adds ? 1 : 0;
    p.c = part;
    p.ldc = d->ld;
    p.stride_c = p.M * d->ld;
    return p;
}

/* Find the first piece and the last one. */
static yoke_status plan_pieces(const yoke_device *device, const struct yoke_gemm_args *args, int variant,
                               const char *detail, struct yokei_gpu_library_plan *plan)
{
    const struct yokei_gpu_products *products = yokei_gpu(device)->products;
    const struct yokei_gpu_division *d = &plan->division;
    const int64_t last = (args->M - 1) / d->rows * d->rows;
    struct yoke_gemm_args piece = rows_of_product(args, d, 0, NULL);
    YOKE_TRY(products->find(device, &piece, variant, detail, &plan->first));
    plan->last = plan->first;
    if (last && args->M - last != d->rows) {
        piece = rows_of_product(args, d, last, NULL);
        YOKE_TRY(products->find(device, &piece, variant, detail, &plan->last));
    }
    plan->scratch_bytes = d->part_bytes + YOKE_MAX(plan->first.workspace_bytes, plan->last.workspace_bytes);
    return YOKE_OK;
}

/* Whether the library adds the bias of a 16-bit result as Yoke rounds it. Then the product is one piece. */
static bool adds_bias(const yoke_device *device, const struct yoke_gemm_args *args, int variant,
                      const char *detail, struct yokei_gpu_library_plan *plan)
{
    struct yokei_error saved;
    if (args->epilogue != YOKE_EPILOGUE_BIAS || args->out_dtype == YOKE_F32
        || yokei_gpu(device)->products->adds_no_bias)
        return false;
    yokei_error_save(&saved);
    plan->division = divide_product(device, args, true, false);
    const bool adds = !plan_pieces(device, args, variant, detail, plan);
    yokei_error_restore(&saved);
    return adds;
}

/* What the library computes of the tail of rows [m, m + rows), before it adds the rest. */
static struct yoke_gemm_args rows_of_tail(const struct yoke_gemm_args *tail,
                                          const struct yokei_gpu_division *d, int64_t m, void *part)
{
    struct yokei_gpu_division first = *d;
    first.adds = false;
    return rows_of_product(tail, &first, m, part);
}

/* The library's first algorithm multiplies the tail. `variant` and `detail` are chosen for the rest. */
static yoke_status plan_with_tail(const yoke_device *device, const struct yoke_gemm_args *rest,
                                  const struct yoke_gemm_args *tail, int variant, const char *detail,
                                  struct yokei_gpu_library_plan *plan)
{
    struct yokei_gpu_library_plan of_tail = { 0 };
    plan->division = divide_product(device, rest, false, rest->N == tail->N);
    of_tail.division = plan->division;
    of_tail.division.adds = false;
    YOKE_TRY(plan_pieces(device, tail, 0, "", &of_tail));
    YOKE_TRY(plan_pieces(device, rest, variant, detail, plan));
    plan->first_tail = of_tail.first;
    plan->last_tail = of_tail.last;
    plan->scratch_bytes = YOKE_MAX(plan->scratch_bytes, of_tail.scratch_bytes);
    return YOKE_OK;
}

/* Whether the product has a tail, and the library has algorithms for both products. */
static bool divides_rows(const yoke_device *device, const struct yoke_gemm_args *args, int variant,
                         const char *detail, struct yokei_gpu_library_plan *plan)
{
    struct yoke_gemm_args rest, tail;
    struct yokei_error saved;
    if (!cut_tail(args, &rest, &tail)) return false;
    yokei_error_save(&saved);
    const bool divides = !plan_with_tail(device, &rest, &tail, variant, detail, plan);
    yokei_error_restore(&saved);
    return divides;
}

yoke_status yokei_gpu_library_plan(const yoke_device *device, const struct yoke_gemm_args *args, int variant,
                                   const char *detail, struct yokei_gpu_library_plan *plan_out)
{
    plan_out->has_tail = divides_rows(device, args, variant, detail, plan_out);
    if (plan_out->has_tail) return YOKE_OK;
    if (adds_bias(device, args, variant, detail, plan_out)) return YOKE_OK;
    plan_out->division = divide_product(device, args, false, false);
    return plan_pieces(device, args, variant, detail, plan_out);
}

yoke_status yokei_gpu_library_scratch(const yoke_device *device, const struct yoke_gemm_args *args,
                                      int variant, const char *detail, size_t *scratch_bytes_out)
{
    struct yokei_gpu_library_plan other = { .scratch_bytes = 0 },
                                  plan = { .division = divide_product(device, args, false, false) };
    /* a product with a tail has no epilogue, so at most one of the two applies */
    if (!divides_rows(device, args, variant, detail, &other)
        && !adds_bias(device, args, variant, detail, &other))
        other.scratch_bytes = 0;
    YOKE_TRY(plan_pieces(device, args, variant, detail, &plan));
    /* Addresses that are less aligned may need the other way, so there is room for both. */
    *scratch_bytes_out = YOKE_MAX(plan.scratch_bytes, other.scratch_bytes);
    return YOKE_OK;
}

struct yokei_gpu_program yokei_gpu_finish_program(yoke_dtype dtype, yoke_dtype out_dtype)
{
    return (struct yokei_gpu_program){ .family = "gemm",
                                       .dtype = dtype,
                                       .out_dtype = out_dtype,
                                       .L = 32,
                                       .W = 1,
                                       .G = 8,
                                       .defines = { { "YK_FINISH", 1 } } };
}

/*
 * How many work-items of a group lie along a row. Each has four columns. Fewer lanes waste less of a group
 * where N is no multiple of what the lanes have. But neighbours shall read whole sectors of memory.
 */
#define LEAST_LANES 16
static int64_t lanes_of_rows(int64_t N, int64_t threads)
{
    const int64_t fours = (N + 3) / 4;
    int64_t lanes = threads;
    while (lanes > LEAST_LANES && yokei_gpu_round_up(fours, lanes) > fours + fours / 8) lanes /= 2;
    return lanes;
}

/* The rows of a work-item, as in gemm.yk. */
#define FINISH_ROWS 4

/* The epilogue of the rows from m on. `sums` is the product of the library. */
static yoke_status finish_rows(yoke_stream *stream, const struct yoke_gemm_args *args,
                               const struct yokei_gpu_division *d, const struct yoke_gemm_args *piece,
                               int64_t m)
{
    const struct yokei_gpu_program program = yokei_gpu_finish_program(args->dtype, args->out_dtype);
    const int64_t threads = program.L * program.G, lanes = lanes_of_rows(args->N, threads),
                  across = (args->N + 4 * lanes - 1) / (4 * lanes), rows = threads / lanes * FINISH_ROWS;
    int32_t flags = yokei_gpu_gemm_flags(args);
    /* the library has already done this much */
    if (!d->in_scratch) flags &= ~(YOKEI_GEMM_HAS_BETA | (d->no_bias ? 0 : YOKEI_GEMM_HAS_BIAS));
    for (int64_t batch = 0, n_batch; batch < args->batch; batch += n_batch) {
        n_batch = YOKE_MIN(args->batch - batch, 32768);
        struct yoke_gemm_args at = *args; /* where the rows of these products begin */
        at.c = (void *)(uintptr_t)element_at(args->c, batch * args->stride_c + m * args->ldc,
                                             args->out_dtype);
        at.aux = (void *)(uintptr_t)element_at(args->aux, batch * args->stride_aux + m * args->ldaux,
                                               args->out_dtype);
        const void *sums = element_at(piece->c, batch * piece->stride_c, YOKE_F32);
        const bool wide = yokei_gpu_gemm_in_fours(sums, piece->ldc, piece->stride_c, args->batch, YOKE_F32);
        YOKE_TRY(yokei_gpu_launch(
            stream, &program, "gemm_finish", (piece->M + rows - 1) / rows * across, 1, n_batch,
            YOKEI_GPU_ARGS(ARG_P(sums), ARG_L(piece->ldc), ARG_L(piece->stride_c), ARG_P(at.c),
                           ARG_L(args->ldc), ARG_L(args->stride_c), ARG_P(args->bias), ARG_P(at.aux),
                           ARG_L(args->ldaux), ARG_L(args->stride_aux), ARG_L(piece->M), ARG_L(args->N),
                           ARG_I((int32_t)across), ARG_I((int32_t)lanes), ARG_F(args->beta),
                           ARG_I(flags | (wide ? yokei_gpu_gemm_wide(&at) : 0)))));
    }
    return YOKE_OK;
}

yoke_status yokei_gpu_library_run(yoke_stream *stream, const struct yoke_gemm_args *args, int variant,
                                  const char *detail, const struct yokei_gpu_library_plan *plan)
{
    const struct yokei_gpu_division *d = &plan->division;
    const struct yokei_gpu_products *products = yokei_gpu(stream->device)->products;
    struct yoke_gemm_args rest = *args, tail;
    void *scratch;
    YOKE_TRY(yokei_scratch(stream, YOKE_OP_gemm, plan->scratch_bytes, &scratch));
    const bool has_tail = plan->has_tail && cut_tail(args, &rest, &tail);
    void *workspace = plan->scratch_bytes > d->part_bytes ? (char *)scratch + d->part_bytes : NULL;
    for (int64_t m = 0; m < args->M; m += d->rows) {
        const bool is_last = m + d->rows >= args->M;
        if (has_tail) {
            const struct yoke_gemm_args piece = rows_of_tail(&tail, d, m, scratch);
            YOKE_TRY(products->run(stream, &piece, 0, "", is_last ? &plan->last_tail : &plan->first_tail,
                                   workspace));
        }
        const struct yoke_gemm_args piece = rows_of_product(&rest, d, m, scratch);
        YOKE_TRY(
            products->run(stream, &piece, variant, detail, is_last ? &plan->last : &plan->first, workspace));
        if (d->finish) YOKE_TRY(finish_rows(stream, args, d, &piece, m));
    }
    return YOKE_OK;
}
