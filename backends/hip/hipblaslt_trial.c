/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Whether an algorithm of hipBLASLt keeps Yoke's contract. AMD's documents do not say which algorithms split
 * a sum along K and add the parts by atomics, in an order that changes from run to run. They also promise
 * nothing about f32 inputs. So small products are tried before an algorithm is used:
 *
 *  - sums of integers that are exact in f32 in any order, and whose partial sums have more digits than 16-bit
 *    types have. They show sums in 16 bits, a wrong alpha or beta, and wrong results of any kind.
 *  - products of f32 numbers with all 24 digits, which show inputs that are cut. C is NaN before, and beta 0.
 *  - a sum of numbers of very different sizes, many times. Its bits depend on the order of the sum.
 *
 * All of them have the types, the transposes and K of the product. M and N have the same remainders, so an
 * algorithm that needs multiples of some number still runs. A trial that passes is no proof, because atomics
 * may have come in the same order each time. For that reason hipBLASLt is not the default beside rocBLAS.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backends/hip/products.h"

enum { MOST_SIDE = 64, PART = 32, MOST_DEPTH = 32768, REPEATS = 8 };
#define WIDE 0x1.555557p0f /* all of its 24 digits count */

struct trial {
    const struct hip_device *dev;
    struct yokei_product_key key;
    struct hip_lt_product product;
    size_t workspace_bytes;
    float *a, *b, *c; /* op(A) M x K, op(B) K x N, C M x N, by rows */
    void *raw;        /* a matrix in its own type */
    void *got[2];     /* results */
    void *memory, *device_b, *device_c, *workspace;
    hipStream_t stream;
    hipEvent_t end;
};

static size_t bytes_of(int64_t rows, int64_t columns, int64_t dtype)
{
    return (size_t)(rows * columns) * yoke_dtype_bytes((yoke_dtype)dtype);
}

static size_t rounded_up(size_t bytes) { return (bytes + 255) / 256 * 256; }
static size_t result_bytes(const struct trial *t) { return bytes_of(t->key.M, t->key.N, t->key.out_dtype); }

/* The side of a small product, which leaves the same remainder by the powers of two up to PART. */
static int64_t side(int64_t n) { return n <= MOST_SIDE ? n : PART + n % PART; }

static void make_key(struct yokei_product_key *out, const struct yokei_product_key *k)
{
    memset(out, 0, sizeof *out);
    out->dtype = k->dtype, out->out_dtype = k->out_dtype, out->trans_a = k->trans_a,
    out->trans_b = k->trans_b;
    out->M = side(k->M), out->N = side(k->N);
    out->K = k->K <= MOST_DEPTH ? k->K : MOST_DEPTH / 2 + k->K % (MOST_DEPTH / 2);
    out->batch = 1;
    out->lda = out->trans_a ? out->M : out->K;
    out->ldb = out->trans_b ? out->K : out->N;
    out->ldc = out->N;
}

/* ---- making and releasing ---- */

static bool make(struct trial *t, const hipblasLtMatmulAlgo_t *algorithm)
{
    const struct hip_library *hip = t->dev->hip;
    const struct yokei_product_key *k = &t->key;
    const size_t a = bytes_of(k->M, k->K, k->dtype), b = bytes_of(k->K, k->N, k->dtype), c = result_bytes(t);
    t->a = malloc(sizeof(float) * (size_t)(k->M * k->K));
    t->b = malloc(sizeof(float) * (size_t)(k->K * k->N));
    t->c = malloc(sizeof(float) * (size_t)(k->M * k->N));
    t->raw = malloc(YOKE_MAX(YOKE_MAX(a, b), c));
    for (int i = 0; i < 2; i++) t->got[i] = malloc(c);
    if (!t->a || !t->b || !t->c || !t->raw || !t->got[0] || !t->got[1]
        || hip->hipMalloc(&t->memory, rounded_up(a) + rounded_up(b) + rounded_up(c) + t->workspace_bytes)
        || hip->hipStreamCreateWithFlags(&t->stream, hipStreamNonBlocking)
        || hip->hipEventCreateWithFlags(&t->end, hipEventDisableTiming | hipEventBlockingSync
                                                     | hipEventReleaseToSystem)
        || yokei_hip_lt_describe(t->dev->lt, k, &t->product))
        return false;
    t->device_b = (char *)t->memory + rounded_up(a);
    t->device_c = (char *)t->device_b + rounded_up(b);
    t->workspace = t->workspace_bytes ? (char *)t->device_c + rounded_up(c) : NULL;
    t->product.algo = *algorithm;
    return true;
}

static void destroy(struct trial *t)
{
    const struct hip_library *hip = t->dev->hip;
    yokei_hip_lt_clear(t->dev->lt, &t->product);
    if (t->end) hip->hipEventDestroy(t->end);
    if (t->stream) hip->hipStreamDestroy(t->stream);
    if (t->memory) hip->hipFree(t->memory);
    free(t->a);
    free(t->b);
    free(t->c);
    free(t->raw);
    for (int i = 0; i < 2; i++) free(t->got[i]);
    free(t);
}

/* ---- the numbers ---- */

static void fill_exact(struct trial *t)
{
    const struct yokei_product_key *k = &t->key;
    for (int64_t kk = 0; kk < k->K; kk++) {
        const bool ends = kk == 0 || kk == k->K - 1;
        for (int64_t m = 0; m < k->M; m++)
            t->a[m * k->K + kk] = ends ? (kk ? -2048 : 2048) : (float)((m * 7 + kk * 5 + m % 3) % 7 - 3);
        for (int64_t n = 0; n < k->N; n++)
            t->b[kk * k->N + n] = ends ? 1 : (float)((kk * 3 + n * 11) % 5 - 2);
    }
    for (int64_t i = 0; i < k->M * k->N; i++) t->c[i] = (float)(i % 4);
}

/* Each row of A has one number. Beside it stands a power of two in B, or the reverse. */
static void fill_wide(struct trial *t)
{
    const struct yokei_product_key *k = &t->key;
    memset(t->a, 0, sizeof(float) * (size_t)(k->M * k->K));
    for (int64_t m = 0; m < k->M; m++) {
        const int64_t at = (m * 37) % k->K;
        t->a[m * k->K + at] = at % 2 ? -4 : WIDE;
    }
    for (int64_t i = 0; i < k->K * k->N; i++) t->b[i] = (i / k->N) % 2 ? WIDE : 0.5f;
    for (int64_t i = 0; i < k->M * k->N; i++) t->c[i] = NAN;
}

/* A number of either sign between 2^-6 and 2^6. */
static float any_number(uint64_t i)
{
    uint64_t x = (i + 1) * 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    x ^= x >> 31;
    const float digits = 1 + (float)(x & 0xffff) / 0x10000;
    return ldexpf(x & 1ull << 63 ? -digits : digits, (int)(x >> 40 & 0xff) % 12 - 6);
}

static void fill_any(struct trial *t)
{
    const struct yokei_product_key *k = &t->key;
    for (int64_t i = 0; i < k->M * k->K; i++) t->a[i] = any_number((uint64_t)i);
    for (int64_t i = 0; i < k->K * k->N; i++) t->b[i] = any_number((uint64_t)i << 32);
    for (int64_t i = 0; i < k->M * k->N; i++) t->c[i] = NAN;
}

/* ---- the runs ---- */

/* Copy a matrix to the device, in its own type, and transposed if the product wants it. */
static bool upload(const struct trial *t, void *to, const float *matrix, int64_t rows, int64_t columns,
                   bool transposed, int64_t dtype)
{
    const size_t one = yoke_dtype_bytes((yoke_dtype)dtype), n = (size_t)(rows * columns);
    for (int64_t i = 0; i < rows && transposed; i++)
        for (int64_t j = 0; j < columns; j++)
            yoke_convert(YOKE_F32, matrix + i * columns + j, (yoke_dtype)dtype,
                         (char *)t->raw + (size_t)(j * rows + i) * one, 1);
    if (!transposed) yoke_convert(YOKE_F32, matrix, (yoke_dtype)dtype, t->raw, n);
    /* the event is also that of the copy, so the bytes may change afterwards */
    return !t->dev->hip->hipMemcpyAsync(to, t->raw, n * one, hipMemcpyHostToDevice, t->stream)
           && !t->dev->hip->hipEventRecord(t->end, t->stream) && !t->dev->hip->hipEventSynchronize(t->end);
}

static bool upload_operands(const struct trial *t)
{
    const struct yokei_product_key *k = &t->key;
    return upload(t, t->memory, t->a, k->M, k->K, k->trans_a, k->dtype)
           && upload(t, t->device_b, t->b, k->K, k->N, k->trans_b, k->dtype);
}

/* Multiply, and fetch the result. False if a call fails. */
static bool multiply(const struct trial *t, float alpha, float beta, void *got)
{
    const struct hip_library *hip = t->dev->hip;
    const struct hip_hipblaslt *lt = t->dev->lt;
    const struct hip_lt_product *p = &t->product;
    return upload(t, t->device_c, t->c, t->key.M, t->key.N, false, t->key.out_dtype)
           && !lt->hipblasLtMatmul(t->dev->lt_handle, p->desc, &alpha, t->device_b, p->first, t->memory,
                                   p->second, &beta, t->device_c, p->result, t->device_c, p->result, &p->algo,
                                   t->workspace, t->workspace_bytes, t->stream)
           && !hip->hipMemcpyAsync(got, t->device_c, result_bytes(t), hipMemcpyDeviceToHost, t->stream)
           && !hip->hipEventRecord(t->end, t->stream) && !hip->hipEventSynchronize(t->end);
}

/* Multiply numbers whose result is exact, and compare. */
static const char *try_exact(const struct trial *t, float alpha, float beta, const char *reason)
{
    const struct yokei_product_key *k = &t->key;
    if (!upload_operands(t) || !multiply(t, alpha, beta, t->got[0])) return "fails in a small product";
    for (int64_t m = 0; m < k->M; m++)
        for (int64_t n = 0; n < k->N; n++) {
            double sum = 0; /* exact */
            for (int64_t kk = 0; kk < k->K; kk++) sum += (double)t->a[m * k->K + kk] * t->b[kk * k->N + n];
            t->c[m * k->N + n] = alpha * (float)sum + (beta != 0 ? beta * t->c[m * k->N + n] : 0);
        }
    yoke_convert(YOKE_F32, t->c, (yoke_dtype)k->out_dtype, t->raw, (size_t)(k->M * k->N));
    return memcmp(t->raw, t->got[0], result_bytes(t)) != 0 ? reason : NULL;
}

static const char *try_order(const struct trial *t)
{
    if (!upload_operands(t) || !multiply(t, 1, 0, t->got[0])) return "fails in a small product";
    for (int i = 0; i < REPEATS; i++) {
        if (!multiply(t, 1, 0, t->got[1])) return "fails in a small product";
        if (memcmp(t->got[0], t->got[1], result_bytes(t)) != 0)
            return "adds in an order that changes from run to run";
    }
    return NULL;
}

const char *yokei_hip_lt_refused(const struct hip_device *dev, const struct yokei_product_key *key,
                                 const hipblasLtMatmulAlgo_t *algorithm, size_t workspace_bytes)
{
    struct trial *t = calloc(1, sizeof *t);
    if (!t) return "cannot be tried, because the host has no memory";
    t->dev = dev;
    t->workspace_bytes = workspace_bytes;
    make_key(&t->key, key);
    const char *refused = NULL;
    if (!make(t, algorithm)) {
        refused = "cannot be tried in a small product";
    } else {
        fill_exact(t);
        refused = try_exact(t, 2, 1, "gives wrong sums, or does not add in f32");
        if (!refused && key->dtype == YOKE_F32) {
            fill_wide(t);
            refused = try_exact(t, 1, 0, "cuts f32 inputs, or reads C although beta is 0");
        }
        fill_any(t);
        if (!refused) refused = try_order(t);
    }
    if (refused) dev->hip->hipGetLastError(); /* a call may have failed, and the thread shall not find that */
    destroy(t);
    return refused;
}
