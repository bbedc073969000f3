/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host: matrix products by f32 panels, and the bias gradient. Maths, types and bounds: include/yoke/ops/gemm.h
 *
 * The result is cut into chunks of at most CHUNK_M x CHUNK_N, one thread each. A thread goes through K in pieces of
 * CHUNK_K: it widens B's piece into panels of TILE_N vectors (they stay in the L2 cache), then A's piece in blocks of
 * BLOCK_M rows, multiplies them tile by tile and adds to f32 sums, which the epilogue reads at the end. Each element's
 * sum runs over K in one order, whatever the chunks are.
 */
#include "backends/host/kernels.h"
#include "backends/host/tile.h"

#define PROTOTYPES(op) YOKE_OP_FUNCTIONS(host, op)
YOKE_GEMM_OPS(PROTOTYPES)
#define ENTRY(op) YOKE_OP_ENTRY(host, op)
const struct yoke_gemm_ops HOST_NAME(host_gemm_ops) = { YOKE_GEMM_OPS(ENTRY) };

enum { PANEL_N = TILE_N * VL, CHUNK_M = 256, CHUNK_N = 288, CHUNK_K = 256, BLOCK_M = 64, LEAST_CHUNK_M = 32, LEAST_CHUNK_N = 96 };

struct gemm {
    const struct yoke_gemm_args *a;
    int64_t chunk_m, chunk_n, m_chunks, n_chunks;
    float *scratch; /* per thread: sums [CHUNK_M][CHUNK_N], B's panels [CHUNK_K][CHUNK_N], A's block */
};
enum {
    SUMS_FLOATS = CHUNK_M * CHUNK_N,
    B_FLOATS = CHUNK_K * CHUNK_N,
    A_FLOATS = BLOCK_M * CHUNK_K,
    THREAD_FLOATS = SUMS_FLOATS + B_FLOATS + A_FLOATS
};

/* One chunk: where it lies, and its sums. */
struct chunk {
    int64_t batch, m0, n0, m, n, n_vectors;
    float *sums, *b, *block;
};

/* B[k0 : k0 + k, n0 : n0 + n] into panels [PANEL_N columns][k rows], zero past the last column. */
INLINE void pack_b(const yoke_dtype t, const struct yoke_gemm_args *a, const struct chunk *c, int64_t k0, int64_t k)
{
    const void *b = at(t, a->b, c->batch * a->stride_b);
    for (int64_t j = 0; j < c->n; j += PANEL_N) {
        const int64_t n = YOKE_MIN(c->n - j, PANEL_N), padded = host_round_up(n, VL), j0 = c->n0 + j;
        float *panel = c->b + j * CHUNK_K; /* [k][PANEL_N] */
        if (!a->trans_b) {
            widen_rows(t, at(t, b, k0 * a->ldb + j0), a->ldb, k, n, panel, PANEL_N, padded);
            continue;
        }
        if (padded > n)
            for (int64_t p = 0; p < k; p++) vstore(YOKE_F32, panel, p * PANEL_N + padded - VL, (vf){ 0 });
        widen_transposed(t, at(t, b, j0 * a->ldb + k0), a->ldb, n, k, panel, PANEL_N);
    }
}

/* BLOCK_M rows of A by CHUNK_K: row-major, or column-major where A is transposed. Rows past the last are zero. */
INLINE void pack_a(const yoke_dtype t, const struct yoke_gemm_args *a, const struct chunk *c, int64_t i0, int64_t m, int64_t k0, int64_t k)
{
    const void *base = at(t, a->a, c->batch * a->stride_a);
    const int64_t row = c->m0 + i0, padded = host_round_up(m, TILE_M);
    if (a->trans_a) {
        widen_rows(t, at(t, base, k0 * a->lda + row), a->lda, k, m, c->block, BLOCK_M, host_round_up(m, VL));
        return;
    }
    widen_rows(t, at(t, base, row * a->lda + k0), a->lda, m, k, c->block, CHUNK_K, k);
    for (int64_t i = m; i < padded; i++) memset(c->block + i * CHUNK_K, 0, (size_t)k * sizeof(float));
}

static void multiply_panels(const struct yoke_gemm_args *a, const struct chunk *c, int64_t i0, int64_t m, int64_t k, bool first)
{
    const int64_t padded = host_round_up(m, TILE_M), ldc = CHUNK_N;
    for (int64_t j = 0; j < c->n_vectors; j += TILE_N) {
        const int64_t n = YOKE_MIN(c->n_vectors - j, TILE_N);
        const float *panel = c->b + j * VL * CHUNK_K;
        float *sums = c->sums + i0 * ldc + j * VL;
        if (a->trans_a && first)
            product(TILE_ZERO, padded, n, k, c->block, 1, BLOCK_M, panel, PANEL_N, sums, ldc, NULL);
        else if (a->trans_a)
            product(TILE_ADD, padded, n, k, c->block, 1, BLOCK_M, panel, PANEL_N, sums, ldc, NULL);
        else if (first)
            product(TILE_ZERO, padded, n, k, c->block, CHUNK_K, 1, panel, PANEL_N, sums, ldc, NULL);
        else
            product(TILE_ADD, padded, n, k, c->block, CHUNK_K, 1, panel, PANEL_N, sums, ldc, NULL);
    }
}

INLINE void epilogue(const yoke_dtype t, const struct yoke_gemm_args *a, const struct chunk *k)
{
    const bool bias = a->epilogue != YOKE_EPILOGUE_NONE, with_gelu = a->epilogue == YOKE_EPILOGUE_BIAS_GELU;
    for (int64_t i = 0; i < k->m; i++) {
        void *c = at_mut(t, a->c, k->batch * a->stride_c + (k->m0 + i) * a->ldc + k->n0);
        void *aux = a->aux ? at_mut(t, a->aux, k->batch * a->stride_aux + (k->m0 + i) * a->ldaux + k->n0) : NULL;
        VECTOR_LOOP(j, left, 0, k->n, {
            vf v = vload(YOKE_F32, k->sums, i * CHUNK_N + j) * a->alpha;
            if (a->beta != 0) v = vfma(vset(a->beta), vload_n(t, c, j, left), v);
            if (bias) v += vload_n(YOKE_F32, a->bias, k->n0 + j, left);
            if (with_gelu) {
                v = vround(t, v);
                if (aux) vstore_n(t, aux, j, left, v);
                v = gelu(v);
            }
            vstore_n(t, c, j, left, v);
        });
    }
}

static void gemm_unit(const void *context, int64_t unit, int thread)
{
    const struct gemm *g = context;
    const struct yoke_gemm_args *a = g->a;
    struct chunk c = { .batch = unit / (g->m_chunks * g->n_chunks), .sums = g->scratch + (int64_t)thread * THREAD_FLOATS };
    c.m0 = unit / g->n_chunks % g->m_chunks * g->chunk_m, c.n0 = unit % g->n_chunks * g->chunk_n;
    c.m = YOKE_MIN(g->chunk_m, a->M - c.m0), c.n = YOKE_MIN(g->chunk_n, a->N - c.n0);
    c.n_vectors = host_ceil_div(c.n, VL);
    c.b = c.sums + SUMS_FLOATS, c.block = c.b + B_FLOATS;
    if (!a->K) memset(c.sums, 0, (size_t)(c.m * CHUNK_N) * sizeof *c.sums);
    for (int64_t k0 = 0; k0 < a->K; k0 += CHUNK_K) {
        const int64_t k = YOKE_MIN(a->K - k0, CHUNK_K);
        HOST_BY_TYPE(a->dtype, pack_b, a, &c, k0, k);
        for (int64_t i = 0; i < c.m; i += BLOCK_M) {
            const int64_t m = YOKE_MIN(c.m - i, BLOCK_M);
            HOST_BY_TYPE(a->dtype, pack_a, a, &c, i, m, k0, k);
            multiply_panels(a, &c, i, m, k, k0 == 0);
        }
    }
    HOST_BY_TYPE(a->out_dtype, epilogue, a, &c);
}

/* Chunks as large as pay, but enough of them for all threads. */
static void choose_chunks(struct gemm *g, int n_threads)
{
    const struct yoke_gemm_args *a = g->a;
    g->chunk_m = CHUNK_M, g->chunk_n = CHUNK_N;
    for (;;) {
        g->m_chunks = host_ceil_div(a->M, g->chunk_m), g->n_chunks = host_ceil_div(a->N, g->chunk_n);
        if (n_threads == 1 || a->batch * g->m_chunks * g->n_chunks >= 3 * (int64_t)n_threads) return;
        if (g->chunk_n > LEAST_CHUNK_N)
            g->chunk_n = LEAST_CHUNK_N;
        else if (g->chunk_m > LEAST_CHUNK_M)
            g->chunk_m /= 2;
        else
            return;
    }
}

static yoke_status host_gemm_can(const yoke_device *device, const struct yoke_gemm_args *a, struct yoke_cost *cost)
{
    YOKE_TRY(host_check_type(YOKE_OP_gemm, "dtype", a->dtype));
    YOKE_TRY(host_check_type(YOKE_OP_gemm, "out_dtype", a->out_dtype));
    const double M = (double)a->M, N = (double)a->N, K = (double)a->K, batch = (double)a->batch;
    const double in_bytes = (double)yoke_dtype_bytes(a->dtype), out_bytes = (double)yoke_dtype_bytes(a->out_dtype);
    return host_cost(cost, (size_t)host_n_threads(device) * THREAD_FLOATS * sizeof(float), 2 * batch * M * N * K,
                     batch * ((M * K + K * N) * in_bytes + M * N * out_bytes * (a->beta != 0 ? 2 : 1)));
}

static yoke_status host_gemm_run(yoke_stream *stream, const struct yoke_gemm_args *a)
{
    const int n_threads = host_n_threads(stream->device);
    struct gemm g = { .a = a };
    void *scratch;
    if (!a->M || !a->N) return YOKE_OK;
    YOKE_TRY(yokei_scratch(stream, YOKE_OP_gemm, (size_t)n_threads * THREAD_FLOATS * sizeof(float), &scratch));
    g.scratch = scratch;
    choose_chunks(&g, n_threads);
    host_for_units(stream, a->batch * g.m_chunks * g.n_chunks, gemm_unit, &g);
    return YOKE_OK;
}

/* ---- bias gradient: partial column sums of blocks of rows that depend on N only, then the blocks in order ---- */
enum { MAX_BLOCKS = 64, LEAST_BLOCK_ROWS = 32 };

static int64_t block_rows(int64_t N) { return YOKE_MAX(LEAST_BLOCK_ROWS, host_ceil_div(N, MAX_BLOCKS)); }

struct bias {
    const struct yoke_bias_backward_args *a;
    float *partial; /* [blocks][C] */
};

INLINE void bias_block(const yoke_dtype t, const struct bias *b, int64_t block)
{
    const struct yoke_bias_backward_args *a = b->a;
    const int64_t rows = block_rows(a->N), to = YOKE_MIN((block + 1) * rows, a->N), C = a->C, ld = a->ld;
    float *sum = b->partial + block * C;
    memset(sum, 0, (size_t)C * sizeof *sum);
    int64_t n = block * rows;
    for (; n + 4 <= to; n += 4) {
        const void *dy = at(t, a->dy, n * ld);
        VECTOR_LOOP(c, m, 0, C, {
            const vf pair = vload_n(t, dy, c, m) + vload_n(t, dy, ld + c, m);
            const vf other = vload_n(t, dy, 2 * ld + c, m) + vload_n(t, dy, 3 * ld + c, m);
            vstore_n(YOKE_F32, sum, c, m, vload_n(YOKE_F32, sum, c, m) + (pair + other));
        });
    }
    for (; n < to; n++)
        VECTOR_LOOP(c, m, 0, C, vstore_n(YOKE_F32, sum, c, m, vload_n(YOKE_F32, sum, c, m) + vload_n(t, a->dy, n * ld + c, m)););
}

static void bias_unit(const void *context, int64_t block, int thread)
{
    (void)thread;
    const struct bias *b = context;
    HOST_BY_TYPE(b->a->dtype, bias_block, b, block);
}

static void bias_add(const void *context, int64_t from, int64_t to)
{
    const struct bias *b = context;
    const int64_t n_blocks = host_ceil_div(b->a->N, block_rows(b->a->N));
    for (int64_t c = from; c < to; c += VL) {
        vf s = { 0 };
        for (int64_t i = 0; i < n_blocks; i++) s += vload_n(YOKE_F32, b->partial, i * b->a->C + c, to - c);
        vstore_n(YOKE_F32, b->a->dbias, c, to - c, s + vload_n(YOKE_F32, b->a->dbias, c, to - c));
    }
}

static size_t bias_scratch(const struct yoke_bias_backward_args *a)
{
    return (size_t)(host_ceil_div(a->N, block_rows(a->N)) * a->C) * sizeof(float);
}

static yoke_status host_bias_backward_can(const yoke_device *device, const struct yoke_bias_backward_args *a, struct yoke_cost *cost)
{
    (void)device;
    YOKE_TRY(host_check_type(YOKE_OP_bias_backward, "dtype", a->dtype));
    const double elements = (double)a->N * (double)a->C;
    return host_cost(cost, bias_scratch(a), elements, elements * (double)yoke_dtype_bytes(a->dtype));
}

static yoke_status host_bias_backward_run(yoke_stream *stream, const struct yoke_bias_backward_args *a)
{
    struct bias b = { .a = a };
    void *scratch;
    if (!a->N || !a->C) return YOKE_OK;
    YOKE_TRY(yokei_scratch(stream, YOKE_OP_bias_backward, bias_scratch(a), &scratch));
    b.partial = scratch;
    host_for_units(stream, host_ceil_div(a->N, block_rows(a->N)), bias_unit, &b);
    host_for(stream, a->C, ELEMENT_GRAIN / 16, bias_add, &b);
    return YOKE_OK;
}
