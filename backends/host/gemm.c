/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix products by packed panels, and the bias gradient, on the host backend. include/yoke/ops/gemm.h has
 * the maths, types and bounds.
 *
 * The result is cut into blocks, and each block is computed by one thread. The thread goes through K in
 * chunks. It packs the block's rows of A into strips, which stay in the L2 cache. Then it packs each panel of
 * B and multiplies it by all strips, tile by tile. The epilogue is applied to a tile while its sums are in
 * the L1 cache. Between chunks of K, the sums are kept in C if C is f32, else in scratch. The multiplied
 * words are f32, to which 16-bit types are widened. If the CPU multiplies pairs of bf16 (tile_bf16.h), they
 * are such pairs.
 *
 * The sum of each element runs over K in chunks, whose length depends on K alone. Each chunk starts from zero
 * and runs in the order of K. So neither the blocks nor the threads change a bit.
 */
#include "backends/host/gemm_tile.h"
#include "backends/host/kernels.h"

/* The strips of A in a block fill half of an L2 cache of 1 MiB. */
enum { BLOCK_STRIPS = 264 / STRIP_M, BLOCK_M = BLOCK_STRIPS * STRIP_M, BLOCK_N = 32 * PANEL_N };
enum { TILE_FLOATS = STRIP_M * VL };

struct gemm {
    const struct yoke_gemm_args *a;
    bool pairs, direct;               /* pairs: words are pairs of bf16; direct: A's rows are read in place */
    int64_t words, chunk_k, n_chunks; /* all along K: number of words, words of a chunk, number of chunks */
    int64_t block_m, block_n, m_blocks, n_blocks;
    int64_t strip_stride;
    /* scratch: sums [block_m][block_n] if C cannot hold them, strips, a tile, a panel */
    int64_t sums_floats, strips_floats, thread_floats;
    float *scratch;
};

/* One block, and its current chunk of K. */
struct block {
    const struct gemm *g;
    const struct yoke_gemm_args *a;
    int64_t batch, m0, n0, m, n;
    int64_t direct_m; /* number of rows of A that are not packed */
    int64_t k0, k;    /* in words */
    bool first, last;
    float *strips, *panel, *tile, *sums; /* sums NULL: the sums are in C */
    const char *next;                    /* source of the next panel: its rows, and the bytes of a row */
    int64_t next_rows, next_bytes, next_ld;
};

INLINE void pack_a(const yoke_dtype t, const bool pairs, const struct block *b)
{
    const struct yoke_gemm_args *a = b->a;
    const int64_t n = elements(pairs, a->K, b->k0, b->k), k0 = pairs ? 2 * b->k0 : b->k0;
    const void *base = at(t, a->a, b->batch * a->stride_a);
    if (a->trans_a)
        pack_columns(t, pairs, at(t, base, k0 * a->lda + b->m0), a->lda, b->m, n, b->strips,
                     b->g->strip_stride);
    else
        pack_rows(t, pairs, at(t, base, (b->m0 + b->direct_m) * a->lda + k0), a->lda, b->m - b->direct_m, n,
                  b->strips, b->g->strip_stride);
}

INLINE void pack_b(const yoke_dtype t, const bool pairs, const struct block *b, int64_t j, int64_t n,
                   int64_t width)
{
    const struct yoke_gemm_args *a = b->a;
    const int64_t n_elements = elements(pairs, a->K, b->k0, b->k), k0 = pairs ? 2 * b->k0 : b->k0;
    const void *base = at(t, a->b, b->batch * a->stride_b);
    if (a->trans_b)
        pack_panel_transposed(t, pairs, at(t, base, (b->n0 + j) * a->ldb + k0), a->ldb, n, width, n_elements,
                              b->panel);
    else
        pack_panel(t, pairs, at(t, base, k0 * a->ldb + b->n0 + j), a->ldb, n, width, n_elements, b->panel);
}

/* alpha A B + beta C, plus the sums of earlier chunks. The last chunk adds the bias and computes GELU. */
INLINE void finish(const yoke_dtype t, const struct block *b, int64_t i, int64_t rows, int64_t j, int64_t n,
                   int64_t width)
{
    const struct yoke_gemm_args *a = b->a;
    const bool bias = b->last && a->epilogue != YOKE_EPILOGUE_NONE,
               with_gelu = b->last && a->epilogue == YOKE_EPILOGUE_BIAS_GELU;
    const bool reads_c = b->first && a->beta != 0;
    for (int64_t r = 0; r < rows; r++) {
        void *c = at_mut(t, a->c, b->batch * a->stride_c + (b->m0 + i + r) * a->ldc + b->n0 + j);
        void *aux = with_gelu && a->aux
                        ? at_mut(t, a->aux, b->batch * a->stride_aux + (b->m0 + i + r) * a->ldaux + b->n0 + j)
                        : NULL;
        float *sums = b->sums ? b->sums + (i + r) * b->g->block_n + j : c;
        const float *tile = b->tile + r * width;
        VECTOR_LOOP(p, left, 0, n, {
            vf v = vload(YOKE_F32, tile, p) * a->alpha;
            if (reads_c) v = vfma(vset(a->beta), vload_n(t, c, p, left), v);
            if (!b->first) v += vload_n(YOKE_F32, sums, p, left);
            if (!b->last) {
                vstore_n(YOKE_F32, sums, p, left, v);
                continue;
            }
            if (bias) v += vload_n(YOKE_F32, a->bias, b->n0 + j + p, left);
            if (with_gelu) {
                v = vround(t, v);
                if (aux) vstore_n(t, aux, p, left, v);
                v = gelu(v);
            }
            vstore_n(t, c, p, left, v);
        });
    }
}

/* As finish, if the sums are C itself, or are only added to C. */
INLINE void finish_plain(const yoke_dtype t, const struct block *b, int64_t i, int64_t rows, int64_t j,
                         int64_t n, int64_t width)
{
    const struct yoke_gemm_args *a = b->a;
    char *c = at_mut(t, a->c, b->batch * a->stride_c + (b->m0 + i) * a->ldc + b->n0 + j);
    const size_t ldc = (size_t)a->ldc * type_bytes(t);
    const float *tile = b->tile, factor = b->first ? a->beta : 1;
    if (factor == 0)
        for (int64_t r = 0; r < rows; r++, tile += width, c += ldc)
            VECTOR_LOOP(p, left, 0, n, vstore_n(t, c, p, left, vload(YOKE_F32, tile, p)););
    else
        for (int64_t r = 0; r < rows; r++, tile += width, c += ldc)
            VECTOR_LOOP(p, left, 0, n,
                        vstore_n(t, c, p, left,
                                 vfma(vset(factor), vload_n(t, c, p, left), vload(YOKE_F32, tile, p))););
}

/* Whether C is the product, or the product plus the old C, and no sums are kept in scratch. */
INLINE bool is_plain(const struct block *b)
{
    return b->a->alpha == 1 && !b->sums && !(b->last && b->a->epilogue != YOKE_EPILOGUE_NONE);
}

INLINE void finish_tile(const yoke_dtype t, const struct block *b, int64_t i, int64_t rows, int64_t j,
                        int64_t n, int64_t width)
{
    if (is_plain(b))
        finish_plain(t, b, i, rows, j, n, width);
    else
        finish(t, b, i, rows, j, n, width);
}

/* Prefetch C's cache lines while the tile is multiplied. */
INLINE void fetch_tile(const struct block *b, int64_t i, int64_t rows, int64_t j, int64_t n)
{
    const struct yoke_gemm_args *a = b->a;
    const int64_t bytes = (int64_t)yoke_dtype_bytes(a->out_dtype), line = 64;
    for (int64_t r = 0; r < rows; r++) {
        const char *c = (const char *)a->c
                        + (b->batch * a->stride_c + (b->m0 + i + r) * a->ldc + b->n0 + j) * bytes;
        for (int64_t p = 0; p < n * bytes; p += line) __builtin_prefetch(c + p, 1);
    }
}

/* Find the source of the next panel, from column j on. */
INLINE void see_next(const yoke_dtype t, const bool pairs, struct block *b, int64_t j)
{
    const struct yoke_gemm_args *a = b->a;
    const int64_t n_elements = elements(pairs, a->K, b->k0, b->k), k0 = pairs ? 2 * b->k0 : b->k0,
                  n = YOKE_MIN(PANEL_N, b->n - j), first = b->n0 + j;
    const int64_t bytes = (int64_t)type_bytes(t);
    b->next_rows = n <= 0 ? 0 : a->trans_b ? n : n_elements;
    b->next_bytes = (a->trans_b ? n_elements : n) * bytes;
    b->next_ld = a->ldb * bytes;
    if (n > 0)
        b->next = at(t, a->b,
                     b->batch * a->stride_b + (a->trans_b ? first * a->ldb + k0 : k0 * a->ldb + first));
}

/*
 * Prefetch rows [from, to) of the next panel's source into the L2 cache. Each tile of this panel prefetches
 * some of the rows.
 */
INLINE void fetch_next(const struct block *b, int64_t from, int64_t to)
{
    enum { LINE = 64, TO_L2 = 2 };
    for (int64_t r = from; r < to; r++) {
        const char *row = b->next + r * b->next_ld;
        for (int64_t p = 0; p < b->next_bytes; p += LINE) __builtin_prefetch(row + p, 0, TO_L2);
        __builtin_prefetch(row + b->next_bytes - 1, 0, TO_L2);
    }
}

/* Compute the sums of one tile, with A's rows from i on in place, or from a strip of either format. */
INLINE void sum_tile(const bool pairs, const int n_vectors, const enum ending end, const struct block *b,
                     int64_t i, void *out, const int64_t ldo)
{
    enum { WORD = sizeof(float) };
    const struct yoke_gemm_args *a = b->a;
    if (i < b->direct_m) {
        const int64_t bytes = pairs ? sizeof(uint16_t) : sizeof(float), lda = a->lda * bytes;
        const char *row = (const char *)a->a + b->batch * a->stride_a * bytes + (b->m0 + i) * lda
                          + b->k0 * WORD;
        tile_words(pairs, n_vectors, end, b->k, row, lda, WORD, b->panel, out, ldo);
        return;
    }
    const char *strip = (const char *)(b->strips + (i - b->direct_m) / STRIP_M * b->g->strip_stride);
    if (a->trans_a)
        tile_words(pairs, n_vectors, end, b->k, strip + i % STRIP_M * WORD, WORD, STRIP_M * WORD, b->panel,
                   out, ldo);
    else
        tile_words(pairs, n_vectors, end, b->k, strip + i % STRIP_M * STRIP_LD * WORD, STRIP_LD * WORD, WORD,
                   b->panel, out, ldo);
}

/* Store a whole tile from the registers to C. Returns false if the tile must go through the L1 cache. */
INLINE bool sum_to_c(const bool pairs, const struct block *b, int64_t i, int64_t j)
{
    const struct yoke_gemm_args *a = b->a;
    const float factor = b->first ? a->beta : 1;
    char *c = (char *)a->c
              + (b->batch * a->stride_c + (b->m0 + i) * a->ldc + b->n0 + j)
                    * (int64_t)yoke_dtype_bytes(a->out_dtype);
    if (a->out_dtype == YOKE_F32 && factor == 0)
        sum_tile(pairs, TILE_N, END_F32, b, i, c, a->ldc);
    else if (a->out_dtype == YOKE_F32 && factor == 1)
        sum_tile(pairs, TILE_N, END_ADD, b, i, c, a->ldc);
    else if (pairs && a->out_dtype == YOKE_BF16 && factor == 0)
        sum_tile(pairs, TILE_N, END_BF16, b, i, c, a->ldc);
    else
        return false;
    return true;
}

INLINE void multiply_tiles(const bool pairs, const int n_vectors, const struct block *b, int64_t j, int64_t n)
{
    const int64_t width = n_vectors * VL, step = tile_rows(n_vectors);
    const bool whole = n == PANEL_N && is_plain(b);
    for (int64_t i = 0; i < b->m; i += step) {
        const int64_t rows = YOKE_MIN(step, b->m - i);
        if (!b->first || b->a->beta != 0) fetch_tile(b, i, rows, j, n);
        fetch_next(b, b->next_rows * i / b->m, b->next_rows * (i + rows) / b->m);
        if (n_vectors == TILE_N && whole && rows == step && sum_to_c(pairs, b, i, j)) continue;
        sum_tile(pairs, n_vectors, END_F32, b, i, b->tile, width);
        HOST_BY_TYPE(b->a->out_dtype, finish_tile, b, i, rows, j, n, width);
    }
}

/* Multiply a panel by all strips. */
INLINE void multiply_panel(const bool pairs, const struct block *b, int64_t j, int64_t n, int64_t n_vectors)
{
    switch (n_vectors) {
    case 1: multiply_tiles(pairs, 1, b, j, n); break;
    case 2: multiply_tiles(pairs, 2, b, j, n); break;
    default: multiply_tiles(pairs, 3, b, j, n); break;
    }
}

static __attribute__((noinline)) void panel_of_f32(const struct block *b, int64_t j, int64_t n,
                                                   int64_t n_vectors)
{
    multiply_panel(false, b, j, n, n_vectors);
}
#ifdef HOST_BF16
static __attribute__((noinline)) void panel_of_pairs(const struct block *b, int64_t j, int64_t n,
                                                     int64_t n_vectors)
{
    multiply_panel(true, b, j, n, n_vectors);
}
#endif

/* The number of vectors in the next panel: three, but if four are left, two and two. */
static int64_t panel_vectors(int64_t left)
{
    const int64_t n = host_ceil_div(left, VL);
    return n == 4 ? 2 : YOKE_MIN(n, TILE_N);
}

INLINE void multiply_chunk(const yoke_dtype t, const bool pairs, struct block *b)
{
    pack_a(t, pairs, b);
    for (int64_t j = 0; j < b->n;) {
        const int64_t n_vectors = panel_vectors(b->n - j), n = YOKE_MIN(n_vectors * VL, b->n - j);
        pack_b(t, pairs, b, j, n, n_vectors * VL);
        see_next(t, pairs, b, j + n);
#ifdef HOST_BF16
        if (pairs)
            panel_of_pairs(b, j, n, n_vectors);
        else
#endif
            panel_of_f32(b, j, n, n_vectors);
        j += n;
    }
}

static void chunk_f32(struct block *b) { multiply_chunk(YOKE_F32, false, b); }
static void chunk_f16(struct block *b) { multiply_chunk(YOKE_F16, false, b); }
#ifdef HOST_BF16
enum { BF16_PAIRS = true };
#else
enum { BF16_PAIRS = false };
#endif
static void chunk_bf16(struct block *b) { multiply_chunk(YOKE_BF16, BF16_PAIRS, b); }

static void gemm_unit(const void *context, int64_t unit, int thread)
{
    const struct gemm *g = context;
    const struct yoke_gemm_args *a = g->a;
    float *scratch = g->scratch + thread * g->thread_floats;
    struct block b = {
        .g = g, .a = a, .batch = unit / (g->m_blocks * g->n_blocks), .sums = g->sums_floats ? scratch : NULL
    };
    b.strips = scratch + g->sums_floats, b.tile = b.strips + g->strips_floats, b.panel = b.tile + TILE_FLOATS;
    b.m0 = unit / g->n_blocks % g->m_blocks * g->block_m, b.n0 = unit % g->n_blocks * g->block_n;
    b.m = YOKE_MIN(g->block_m, a->M - b.m0), b.n = YOKE_MIN(g->block_n, a->N - b.n0);
    b.direct_m = g->direct ? b.m - b.m % STRIP_M : 0;
    for (int64_t i = 0; i < g->n_chunks; i++) {
        b.k0 = i * g->chunk_k, b.k = YOKE_MIN(g->chunk_k, g->words - b.k0);
        b.first = i == 0, b.last = i == g->n_chunks - 1;
        switch (a->dtype) {
        case YOKE_F16: chunk_f16(&b); break;
        case YOKE_BF16: chunk_bf16(&b); break;
        default: chunk_f32(&b); break;
        }
    }
}

/*
 * The cost of a cut, per word of K, on the busiest thread. It counts the multiplications (a row of A by a
 * vector of B) and the packing.
 */
static int64_t cut_cost(const struct gemm *g, int64_t block_m, int64_t block_n, int n_threads)
{
    enum { PACKING = 4 }; /* packing a vector takes as long as this number of multiplications */
    const int64_t units = g->a->batch * host_ceil_div(g->a->M, block_m) * host_ceil_div(g->a->N, block_n);
    const int64_t vectors = host_ceil_div(block_n, VL), rows = host_round_up(block_m, TILE_M);
    return host_ceil_div(units, n_threads)
           * (rows * vectors + PACKING * (vectors + (g->direct ? 0 : rows / VL)));
}

/* Of the blocks that fit the caches and give each thread at least one, choose the cheapest. */
static void choose_blocks(struct gemm *g, int n_threads)
{
    const struct yoke_gemm_args *a = g->a;
    const int64_t m_least = host_ceil_div(a->M, BLOCK_M), n_least = host_ceil_div(a->N, BLOCK_N);
    int64_t best = INT64_MAX;
    for (int64_t extra = 0; extra < n_threads; extra++)
        for (int rounds = 1; rounds <= 3; rounds++) {
            const int64_t m_blocks = m_least + extra,
                          n_blocks = YOKE_MAX(n_least, host_ceil_div(rounds * (int64_t)n_threads,
                                                                     a->batch * m_blocks));
            const int64_t block_m = YOKE_MIN(host_round_up(host_ceil_div(a->M, m_blocks), TILE_M), BLOCK_M);
            const int64_t block_n = host_round_up(host_ceil_div(a->N, n_blocks), VL);
            const int64_t cost = cut_cost(g, block_m, block_n, n_threads);
            if (cost < best) best = cost, g->block_m = block_m, g->block_n = block_n;
        }
    g->m_blocks = host_ceil_div(a->M, g->block_m), g->n_blocks = host_ceil_div(a->N, g->block_n);
}

static void plan(struct gemm *g, const struct yoke_gemm_args *a, int n_threads)
{
    *g = (struct gemm){ .a = a, .pairs = BF16_PAIRS && a->dtype == YOKE_BF16 };
    /*
     * Rows that are a multiple of a page apart share few sets of the caches, so they are packed. An odd K
     * ends with half a pair, so its rows are packed too.
     */
    g->direct = !a->trans_a && (a->dtype == YOKE_F32 || (g->pairs && a->K % 2 == 0))
                && a->lda * (int64_t)yoke_dtype_bytes(a->dtype) % 4096 != 0;
    g->words = g->pairs ? (a->K + 1) / 2 : a->K;
    g->n_chunks = YOKE_MAX(1, host_ceil_div(g->words, CHUNK_K));
    g->chunk_k = host_round_up(host_ceil_div(g->words, g->n_chunks), VL);
    choose_blocks(g, n_threads);
    g->sums_floats = g->n_chunks > 1 && a->out_dtype != YOKE_F32 ? host_round_up(g->block_m * g->block_n, VL)
                                                                 : 0;
    g->strip_stride = strip_stride(a->trans_a, g->chunk_k);
    g->strips_floats = g->strip_stride * (g->direct ? 1 : host_ceil_div(g->block_m, STRIP_M));
    g->thread_floats = g->sums_floats + g->strips_floats + TILE_FLOATS + g->chunk_k * PANEL_N;
}

static yoke_status host_gemm_can(const yoke_device *device, const struct yokei_call *call,
                                 size_t *scratch_bytes_out)
{
    const struct yoke_gemm_args *a = call->args;
    struct gemm g = { .thread_floats = 0 };
    if (a->M && a->N) plan(&g, a, host_n_threads(device));
    *scratch_bytes_out = (size_t)host_n_threads(device) * (size_t)g.thread_floats * sizeof(float);
    return YOKE_OK;
}

static yoke_status host_gemm_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_gemm_args *a = call->args;
    const int n_threads = host_n_threads(stream->device);
    struct gemm g;
    void *scratch;
    if (!a->M || !a->N) return YOKE_OK;
    plan(&g, a, n_threads);
    YOKE_TRY(yokei_scratch(stream, YOKE_OP_gemm, (size_t)n_threads * (size_t)g.thread_floats * sizeof(float),
                           &scratch));
    g.scratch = scratch;
    host_for_units(stream, a->batch * g.m_blocks * g.n_blocks, gemm_unit, &g);
    return YOKE_OK;
}
const struct yoke_op HOST_NAME(host_gemm) = { .can = host_gemm_can, .run = host_gemm_run };

/*
 * ---- bias gradient ----
 * Partial column sums of blocks of rows, which depend on N only. Then the sums of the blocks are added in
 * order.
 */
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
            /* short rows of 16 bits are too little for the CPU's own prefetch to see four streams */
            for (int i = 4; i < 8; i++) __builtin_prefetch(at(t, dy, i * ld + c));
            const vf pair = vload_n(t, dy, c, m) + vload_n(t, dy, ld + c, m);
            const vf other = vload_n(t, dy, 2 * ld + c, m) + vload_n(t, dy, 3 * ld + c, m);
            vstore_n(YOKE_F32, sum, c, m, vload_n(YOKE_F32, sum, c, m) + (pair + other));
        });
    }
    for (; n < to; n++)
        VECTOR_LOOP(c, m, 0, C,
                    vstore_n(YOKE_F32, sum, c, m,
                             vload_n(YOKE_F32, sum, c, m) + vload_n(t, a->dy, n * ld + c, m)););
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

static yoke_status host_bias_backward_can(const yoke_device *device, const struct yokei_call *call,
                                          size_t *scratch_bytes_out)
{
    const struct yoke_bias_backward_args *a = call->args;
    (void)device;
    *scratch_bytes_out = bias_scratch(a);
    return YOKE_OK;
}

static yoke_status host_bias_backward_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_bias_backward_args *a = call->args;
    struct bias b = { .a = a };
    void *scratch;
    if (!a->N || !a->C) return YOKE_OK;
    YOKE_TRY(yokei_scratch(stream, YOKE_OP_bias_backward, bias_scratch(a), &scratch));
    b.partial = scratch;
    host_for_units(stream, host_ceil_div(a->N, block_rows(a->N)), bias_unit, &b);
    host_for(stream, a->C, ELEMENT_GRAIN / 16, bias_add, &b);
    return YOKE_OK;
}
const struct yoke_op HOST_NAME(host_bias_backward) = { .can = host_bias_backward_can,
                                                       .run = host_bias_backward_run };
