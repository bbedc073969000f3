/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Matrix products by cuBLASLt. A product has one algorithm, which is chosen at the first call and kept. The
 * library's heuristic ranks its algorithms, and Yoke takes the first one that keeps Yoke's contract. A tuning
 * file or a plan may name another one by its fields. The algorithm is always made from its fields alone.
 *
 * cuBLASLt stores matrices by columns. A matrix of Yoke, stored by rows, is its transpose there. So the
 * library computes C^T = op(B)^T op(A)^T: its first operand is Yoke's B, and its second is Yoke's A.
 */
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/cuda.h"
#include "core/base/base.h"

enum { MOST_ENTRIES = 256, MOST_ALGORITHMS = 32, MOST_DETAIL = 128, ALIGNED = 16, MOST_TRIALS = 32 };

/*
 * The key of an algorithm. All fields are 64 bits wide, so keys can be compared as bytes. The alignments are
 * those of the addresses, at most ALIGNED bytes.
 */
struct key {
    int64_t dtype, out_dtype, trans_a, trans_b, M, N, K, batch;
    int64_t lda, stride_a, ldb, stride_b, ldc, stride_c;
    int64_t with_bias, align_a, align_b, align_c, align_bias;
    int64_t variant; /* the rank of the algorithm among those that are usable, from 0 */
    char detail[MOST_DETAIL];
};

struct entry {
    struct key key;
    uint64_t last_use; /* 0: the entry is empty */
    uint64_t serial;   /* another number for each entry that is made */
    char reason[320];  /* why the library does not multiply this; "": it does */
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t first, second, result; /* the library's A and B, and its C and D */
    cublasLtMatmulAlgo_t algo;
    struct cuda_algorithm fields;
    size_t workspace_bytes;
};

/* A trial of the epilogue of an algorithm (bias.c). */
struct bias_trial {
    int64_t dtype, trans_a, trans_b;
    struct cuda_algorithm fields;
    const char *refused; /* NULL: the algorithm adds the bias as Yoke needs it */
};

struct cuda_products {
    pthread_mutex_t lock;        /* protects all below, and the descriptions of the entries */
    struct cuda_preset *presets; /* the algorithms that a caller has chosen */
    uint64_t clock;
    uint64_t hashes[MOST_ENTRIES]; /* of the entries' keys, close together for a fast search */
    struct entry entries[MOST_ENTRIES];
    struct cuda_algorithm last; /* of the last call that succeeded */
    bool has_last;
    struct bias_trial trials[MOST_TRIALS]; /* the newest ones */
    int64_t n_trials;                      /* all that were made */
    /* Whether the library adds the bias of a 16-bit result, by the type of the result. */
    enum { BIAS_UNKNOWN, BIAS_ADDED, BIAS_REFUSED } bias[2];
    char bias_reason[2][320];
};

struct cuda_products *yokei_cuda_products_create(void)
{
    struct cuda_products *products = calloc(1, sizeof *products);
    if (products) pthread_mutex_init(&products->lock, NULL);
    return products;
}

static void clear_product(const struct cuda_cublaslt *lt, struct entry *e)
{
    if (e->desc) lt->cublasLtMatmulDescDestroy(e->desc);
    if (e->first) lt->cublasLtMatrixLayoutDestroy(e->first);
    if (e->second) lt->cublasLtMatrixLayoutDestroy(e->second);
    if (e->result) lt->cublasLtMatrixLayoutDestroy(e->result);
    memset(e, 0, sizeof *e);
}

void yokei_cuda_products_destroy(const struct cuda_cublaslt *lt, struct cuda_products *products)
{
    if (!products) return;
    for (int i = 0; i < MOST_ENTRIES; i++) clear_product(lt, &products->entries[i]);
    yokei_cuda_presets_free(products->presets);
    pthread_mutex_destroy(&products->lock);
    free(products);
}

#define LT_TRY(x)                      \
    do {                               \
        const cublasStatus_t s_ = (x); \
        if (s_) return s_;             \
    } while (0)

/* ---- describing a product ---- */

static cudaDataType_t type_of(int64_t dtype)
{
    return dtype == YOKE_F16 ? CUDA_R_16F : dtype == YOKE_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

/* A matrix that Yoke stores as rows by columns. With a stride of 0 all products of the batch share it. */
static cublasStatus_t describe_matrix(const struct cuda_cublaslt *lt, cublasLtMatrixLayout_t *layout,
                                      int64_t dtype, int64_t rows, int64_t columns, int64_t ld, int64_t batch,
                                      int64_t stride)
{
    const int32_t count = (int32_t)batch;
    LT_TRY(lt->cublasLtMatrixLayoutCreate(layout, type_of(dtype), (uint64_t)columns, (uint64_t)rows, ld));
    if (batch == 1) return CUBLAS_STATUS_SUCCESS;
    LT_TRY(lt->cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                                sizeof count));
    return lt->cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                                                sizeof stride);
}

static cublasStatus_t describe_product(const struct cuda_cublaslt *lt, struct entry *e)
{
    const struct key *k = &e->key;
    const int32_t first = k->trans_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                  second = k->trans_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    LT_TRY(lt->cublasLtMatmulDescCreate(&e->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    LT_TRY(lt->cublasLtMatmulDescSetAttribute(e->desc, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first));
    LT_TRY(lt->cublasLtMatmulDescSetAttribute(e->desc, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second));
    if (k->with_bias) {
        const uint32_t epilogue = CUBLASLT_EPILOGUE_BIAS;
        /* before the call, the library reads the alignment of this address and nothing else */
        const void *bias = (const void *)(uintptr_t)k->align_bias;
        LT_TRY(lt->cublasLtMatmulDescSetAttribute(e->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                                  sizeof epilogue));
        LT_TRY(lt->cublasLtMatmulDescSetAttribute(e->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                                  sizeof bias));
        if (k->out_dtype != YOKE_F32) {
            const int32_t type = CUDA_R_32F; /* else it has the type of the result */
            LT_TRY(lt->cublasLtMatmulDescSetAttribute(e->desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type,
                                                      sizeof type));
        }
    }
    LT_TRY(describe_matrix(lt, &e->first, k->dtype, k->trans_b ? k->N : k->K, k->trans_b ? k->K : k->N,
                           k->ldb, k->batch, k->stride_b));
    LT_TRY(describe_matrix(lt, &e->second, k->dtype, k->trans_a ? k->K : k->M, k->trans_a ? k->M : k->K,
                           k->lda, k->batch, k->stride_a));
    return describe_matrix(lt, &e->result, k->out_dtype, k->M, k->N, k->ldc, k->batch, k->stride_c);
}

/* ---- choosing the algorithm ---- */

static cublasStatus_t set_preference(const struct cuda_cublaslt *lt, const struct key *k, uint64_t workspace,
                                     cublasLtMatmulPreference_t p)
{
    const uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    const uint64_t flags = yokei_cuda_algorithm_flags((yoke_dtype)k->dtype);
    const int64_t aligned[4] = { k->align_b, k->align_a, k->align_c, k->align_c };
    LT_TRY(lt->cublasLtMatmulPreferenceSetAttribute(p, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                                    sizeof workspace));
    LT_TRY(lt->cublasLtMatmulPreferenceSetAttribute(p, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes,
                                                    sizeof schemes));
    LT_TRY(lt->cublasLtMatmulPreferenceSetAttribute(p, CUBLASLT_MATMUL_PREF_IMPL_MASK, &flags, sizeof flags));
    for (int i = 0; i < 4; i++) {
        const uint32_t bytes = (uint32_t)aligned[i];
        LT_TRY(lt->cublasLtMatmulPreferenceSetAttribute(
            p, (cublasLtMatmulPreferenceAttributes_t)(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + i), &bytes,
            sizeof bytes));
    }
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t ask_heuristic(const struct cuda_device *dev, const struct entry *e, uint64_t workspace,
                                    cublasLtMatmulHeuristicResult_t results[MOST_ALGORITHMS], int *n_out)
{
    const struct cuda_cublaslt *lt = dev->lt;
    cublasLtMatmulPreference_t p;
    LT_TRY(lt->cublasLtMatmulPreferenceCreate(&p));
    cublasStatus_t status = set_preference(lt, &e->key, workspace, p);
    if (!status)
        status = lt->cublasLtMatmulAlgoGetHeuristic(dev->lt_handle, e->desc, e->first, e->second, e->result,
                                                    e->result, p, MOST_ALGORITHMS, results, n_out);
    lt->cublasLtMatmulPreferenceDestroy(p);
    return status;
}

/* Whether the library may add the bias of a 16-bit result by this algorithm. NULL, or the reason why not. */
static const char *bias_refused(const struct cuda_device *dev, const struct key *k,
                                const struct cuda_algorithm *fields)
{
    struct cuda_products *p = dev->products;
    if (!k->with_bias || k->out_dtype == YOKE_F32) return NULL;
    for (int64_t i = 0; i < YOKE_MIN(p->n_trials, MOST_TRIALS); i++) {
        const struct bias_trial *old = &p->trials[i];
        if (old->dtype == k->dtype && old->trans_a == k->trans_a && old->trans_b == k->trans_b
            && !memcmp(&old->fields, fields, sizeof *fields))
            return old->refused;
    }
    struct bias_trial *trial = &p->trials[p->n_trials++ % MOST_TRIALS];
    *trial = (struct bias_trial){
        .dtype = k->dtype, .trans_a = k->trans_a, .trans_b = k->trans_b, .fields = *fields
    };
    trial->refused = yokei_cuda_bias_refused(dev, (yoke_dtype)k->dtype, k->trans_a, k->trans_b, fields);
    return trial->refused;
}

/*
 * Make the algorithm of these fields, and let the library check it for this product. Fills in e->algo, fields
 * and workspace_bytes. Otherwise `why` says why Yoke does not use it.
 */
static bool adopt(const struct cuda_device *dev, struct entry *e, const struct cuda_algorithm *fields,
                  uint64_t workspace, char *why, size_t bytes)
{
    cublasLtMatmulHeuristicResult_t checked;
    const struct cuda_cublaslt *lt = dev->lt;
    memset(&checked, 0, sizeof checked);
    cublasStatus_t status = yokei_cuda_algorithm_make(lt, dev->lt_handle, fields, type_of(e->key.dtype),
                                                      type_of(e->key.out_dtype), &e->algo);
    const char *refused = status
                              ? NULL
                              : yokei_cuda_algorithm_refused(lt, &e->algo, fields, (yoke_dtype)e->key.dtype);
    if (!status && !refused)
        status = lt->cublasLtMatmulAlgoCheck(dev->lt_handle, e->desc, e->first, e->second, e->result,
                                             e->result, &e->algo, &checked);
    if (!status && !refused && checked.workspaceSize > workspace)
        refused = "it needs too much scratch memory";
    if (!status && !refused) refused = bias_refused(dev, &e->key, fields);
    if (status) refused = lt->cublasLtGetStatusString(status);
    if (refused) {
        yokei_text(why, bytes, "%s", refused);
        return false;
    }
    e->fields = *fields;
    e->workspace_bytes = checked.workspaceSize;
    return true;
}

/* Take the algorithm with the wanted rank among the usable ones of the heuristic. */
static void take_ranked(const struct cuda_device *dev, struct entry *e, uint64_t workspace)
{
    cublasLtMatmulHeuristicResult_t results[MOST_ALGORITHMS];
    struct cuda_algorithm fields;
    char why[96] = "its heuristic names no algorithm";
    int n = 0, rank = 0;
    const cublasStatus_t status = ask_heuristic(dev, e, workspace, results, &n);
    if (status) {
        yokei_text(e->reason, sizeof e->reason, "%s (%d)", dev->lt->cublasLtGetStatusString(status), status);
        return;
    }
    for (int i = 0; i < n; i++) {
        if (results[i].state || yokei_cuda_algorithm_read(dev->lt, &results[i].algo, &fields)
            || !adopt(dev, e, &fields, workspace, why, sizeof why))
            continue;
        if (rank++ == e->key.variant) return;
    }
    if (rank)
        yokei_text(e->reason, sizeof e->reason, "it has only %d algorithm%s for this product", rank,
                   rank == 1 ? "" : "s");
    else
        yokei_text(e->reason, sizeof e->reason, "none of its %d algorithms is usable: %s", n, why);
}

/* The product as text: types, transposes, sizes, strides, bias and alignments. */
static void product_text(const struct key *k, char text[YOKEI_PRODUCT_BYTES])
{
    yokei_text(text, YOKEI_PRODUCT_BYTES,
               "%s,%s,%c%c,M=%lld,N=%lld,K=%lld,batch=%lld,a=%lld:%lld,b=%lld:%lld,c=%lld:%lld,bias=%lld,"
               "align=%lld:%lld:%lld:%lld",
               yoke_dtype_name((yoke_dtype)k->dtype), yoke_dtype_name((yoke_dtype)k->out_dtype),
               k->trans_a ? 't' : 'n', k->trans_b ? 't' : 'n', (long long)k->M, (long long)k->N,
               (long long)k->K, (long long)k->batch, (long long)k->lda, (long long)k->stride_a,
               (long long)k->ldb, (long long)k->stride_b, (long long)k->ldc, (long long)k->stride_c,
               (long long)k->with_bias, (long long)k->align_a, (long long)k->align_b, (long long)k->align_c,
               (long long)k->align_bias);
}

/* Take the algorithm that a caller has chosen for this product. False if there is no usable one. */
static bool take_preset(const struct cuda_device *dev, struct entry *e, uint64_t workspace)
{
    char product[YOKEI_PRODUCT_BYTES], wanted[YOKEI_ALGORITHM_BYTES], why[96] = "";
    if (!dev->products->presets) return false;
    product_text(&e->key, product);
    const struct cuda_algorithm *fields = yokei_cuda_preset_of(dev->products->presets, product);
    if (!fields) return false;
    if (adopt(dev, e, fields, workspace, why, sizeof why)) return true;
    yokei_cuda_algorithm_text(fields, wanted, sizeof wanted);
    yoke_log(
        YOKE_LOG_INFO,
        "cuBLASLt %s does not run the product %s by the chosen algorithm %s: %s. Another one runs, so sums may "
        "have other bits",
        dev->lt->version_text, product, wanted, why);
    return false;
}

static void make_product(const struct cuda_device *dev, struct entry *e, uint64_t workspace)
{
    struct cuda_algorithm fields;
    char why[96] = "";
    const cublasStatus_t status = describe_product(dev->lt, e);
    if (status)
        yokei_text(e->reason, sizeof e->reason, "%s (%d)", dev->lt->cublasLtGetStatusString(status), status);
    else if (take_preset(dev, e, workspace))
        return; /* a plan names the algorithm, also if a tuning file names another one */
    else if (!e->key.detail[0])
        take_ranked(dev, e, workspace);
    else if (!yokei_cuda_algorithm_parse(e->key.detail, &fields)
             || !adopt(dev, e, &fields, workspace, why, sizeof why))
        yokei_text(e->reason, sizeof e->reason, "the algorithm %.100s is not usable: %s", e->key.detail,
                   *why ? why : "its fields cannot be read");
}

/* ---- the table ---- */

static int64_t alignment(const void *address)
{
    const uintptr_t a = (uintptr_t)address | ALIGNED; /* NULL is aligned */
    return (int64_t)(a & (~a + 1));
}

static void key_of_product(const struct yoke_gemm_args *a, int variant, const char *detail, struct key *k)
{
    const bool many = a->batch > 1, bias = a->epilogue == YOKE_EPILOGUE_BIAS;
    memset(k, 0, sizeof *k);
    k->dtype = a->dtype, k->out_dtype = a->out_dtype;
    k->trans_a = a->trans_a, k->trans_b = a->trans_b;
    k->M = a->M, k->N = a->N, k->K = a->K, k->batch = a->batch;
    k->lda = a->lda, k->ldb = a->ldb, k->ldc = a->ldc;
    k->stride_a = many ? a->stride_a : 0, k->stride_b = many ? a->stride_b : 0;
    k->stride_c = many ? a->stride_c : 0;
    k->with_bias = bias;
    k->align_a = alignment(a->a), k->align_b = alignment(a->b), k->align_c = alignment(a->c);
    k->align_bias = bias ? alignment(a->bias) : ALIGNED;
    k->variant = variant;
    yokei_text(k->detail, sizeof k->detail, "%s", detail);
}

static bool is_aligned(const struct key *k)
{
    return (k->align_a & k->align_b & k->align_c & k->align_bias) == ALIGNED;
}

/* NVIDIA's advice for the most workspace: 32 MiB from Hopper on, and 4 MiB before. */
static uint64_t most_workspace(const struct cuda_device *dev) { return (dev->cc >= 90 ? 32ull : 4ull) << 20; }

static struct entry *oldest_of(struct cuda_products *p)
{
    struct entry *oldest = &p->entries[0];
    for (int i = 1; i < MOST_ENTRIES; i++)
        if (p->entries[i].last_use < oldest->last_use) oldest = &p->entries[i];
    return oldest;
}

/* The entry of a key, or NULL. The lock is held. */
static struct entry *known_product(struct cuda_products *p, const struct key *key)
{
    const uint64_t hash = yokei_hash(key, sizeof *key, 0);
    for (int i = 0; i < MOST_ENTRIES; i++) {
        struct entry *e = &p->entries[i];
        if (p->hashes[i] != hash || !e->last_use || memcmp(&e->key, key, sizeof *key) != 0) continue;
        e->last_use = ++p->clock;
        return e;
    }
    return NULL;
}

/* The entry of a key, which is made if it is not there. The lock is held, and the context is current. */
static struct entry *find_product(const struct cuda_device *dev, const struct key *key)
{
    struct cuda_products *p = dev->products;
    struct entry *known = known_product(p, key);
    if (known) return known;
    /*
     * The scratch memory was reserved for aligned addresses. An algorithm for other addresses gets no more
     * than that.
     */
    uint64_t workspace = most_workspace(dev);
    if (!is_aligned(key)) {
        struct key aligned = *key;
        aligned.align_a = aligned.align_b = aligned.align_c = aligned.align_bias = ALIGNED;
        const struct entry *e = find_product(dev, &aligned);
        workspace = e->reason[0] ? 0 : e->workspace_bytes;
    }
    struct entry *oldest = oldest_of(p);
    clear_product(dev->lt, oldest);
    p->hashes[oldest - p->entries] = yokei_hash(key, sizeof *key, 0);
    oldest->key = *key;
    oldest->last_use = oldest->serial = ++p->clock;
    make_product(dev, oldest, workspace);
    return oldest;
}

static yoke_status refuse_product(const struct cuda_device *dev, const char *reason)
{
    return yoke_fail(YOKE_EUNSUPPORTED, "gemm by cuBLASLt %s: %s", dev->lt->version_text, reason);
}

/*
 * Whether the library adds the bias of a 16-bit result at all. A product that has the simplest shape decides,
 * so most products need no entry to find out. The lock is held, and the context is current.
 */
static const char *no_bias(const struct cuda_device *dev, const struct yoke_gemm_args *a)
{
    struct cuda_products *p = dev->products;
    const int type = a->out_dtype == YOKE_BF16;
    if (a->epilogue != YOKE_EPILOGUE_BIAS || a->out_dtype == YOKE_F32) return NULL;
    if (p->bias[type] == BIAS_UNKNOWN) {
        struct key key;
        key_of_product(&(struct yoke_gemm_args){ .dtype = a->dtype,
                                                 .out_dtype = a->out_dtype,
                                                 .M = 64,
                                                 .N = 64,
                                                 .K = 64,
                                                 .batch = 1,
                                                 .lda = 64,
                                                 .ldb = 64,
                                                 .ldc = 64,
                                                 .epilogue = YOKE_EPILOGUE_BIAS },
                       0, "", &key);
        const struct entry *e = find_product(dev, &key);
        p->bias[type] = e->reason[0] ? BIAS_REFUSED : BIAS_ADDED;
        yokei_text(p->bias_reason[type], sizeof p->bias_reason[type], "%s", e->reason);
        yoke_log(YOKE_LOG_INFO, "cuBLASLt %s %s %s results%s%s", dev->lt->version_text,
                 e->reason[0] ? "leaves to Yoke's kernel the bias of" : "adds the bias of",
                 yoke_dtype_name(a->out_dtype), e->reason[0] ? ": " : "", e->reason);
    }
    return p->bias[type] == BIAS_REFUSED ? p->bias_reason[type] : NULL;
}

static yoke_status check_product(const struct cuda_device *dev, const struct yoke_gemm_args *a)
{
    if (a->dtype != YOKE_F32 && a->dtype != YOKE_F16 && a->dtype != YOKE_BF16)
        return refuse_product(dev, "it has no products of this type");
    if (a->dtype == YOKE_F32 && dev->f32_reason[0]) return refuse_product(dev, dev->f32_reason);
    if (a->batch > INT32_MAX) return refuse_product(dev, "it multiplies at most 2^31 - 1 matrices at a time");
    return YOKE_OK;
}

/* ---- the interface ---- */

static yoke_status find_by_args(const yoke_device *device, const struct yoke_gemm_args *args, int variant,
                                const char *detail, struct yokei_gpu_product *product_out)
{
    struct cuda_device *dev = cuda_device(device);
    struct cuda_products *p = dev->products;
    struct key key;
    YOKE_TRY(check_product(dev, args));
    key_of_product(args, variant, detail, &key);
    const char *reason = NULL;
    pthread_mutex_lock(&p->lock);
    const struct entry *e = known_product(p, &key);
    if (!e) {
        const yoke_status entered = yokei_rt_enter(device);
        if (entered) {
            pthread_mutex_unlock(&p->lock);
            return entered;
        }
        reason = no_bias(dev, args);
        if (!reason) e = find_product(dev, &key);
        yokei_rt_leave(device);
    }
    if (e && e->reason[0]) reason = e->reason;
    const yoke_status status = reason ? refuse_product(dev, reason) : YOKE_OK;
    if (!status) {
        *product_out = (struct yokei_gpu_product){ e->workspace_bytes, (int)(e - p->entries), e->serial };
        p->last = e->fields, p->has_last = true;
    }
    pthread_mutex_unlock(&p->lock);
    return status;
}

/* Issue a product. The lock is held, and the context is current. */
static yoke_status issue_product(yoke_stream *stream, const struct yoke_gemm_args *a, struct entry *e,
                                 void *workspace)
{
    struct cuda_device *dev = cuda_device(stream->device);
    const struct cuda_cublaslt *lt = dev->lt;
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    if (e->reason[0]) return refuse_product(dev, e->reason);
    YOKE_TRY(yokei_rt_command(stream));
    if (e->key.with_bias)
        status = lt->cublasLtMatmulDescSetAttribute(e->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &a->bias,
                                                    sizeof a->bias);
    if (!status)
        status = lt->cublasLtMatmul(dev->lt_handle, e->desc, &a->alpha, a->b, e->first, a->a, e->second,
                                    &a->beta, a->c, e->result, a->c, e->result, &e->algo, workspace,
                                    e->workspace_bytes, yokei_rt_stream(stream)->queue);
    if (status)
        return yoke_fail(YOKE_EBACKEND,
                         "%s: gemm by cuBLASLt %s: cublasLtMatmul of M %lld N %lld K %lld failed: %s (%d)",
                         stream->device->info.spec, lt->version_text, (long long)a->M, (long long)a->N,
                         (long long)a->K, lt->cublasLtGetStatusString(status), status);
    dev->products->last = e->fields;
    dev->products->has_last = true;
    return YOKE_OK;
}

struct product_call {
    struct yoke_gemm_args args;
    int variant;
    char detail[MOST_DETAIL];
    struct yokei_gpu_product product;
    void *workspace;
};

/* The entry that was found before. It is found anew if others have taken its place. The lock is held. */
static struct entry *entry_of_call(const struct cuda_device *dev, const struct product_call *call)
{
    struct entry *e = &dev->products->entries[call->product.index];
    struct key key;
    if (e->serial == call->product.serial) return e;
    key_of_product(&call->args, call->variant, call->detail, &key);
    return find_product(dev, &key);
}

static yoke_status submit_product(yoke_stream *stream, const void *data)
{
    const struct product_call *call = data;
    struct cuda_device *dev = cuda_device(stream->device);
    YOKE_TRY(yokei_rt_enter(stream->device));
    pthread_mutex_lock(&dev->products->lock);
    const yoke_status status = issue_product(stream, &call->args, entry_of_call(dev, call), call->workspace);
    pthread_mutex_unlock(&dev->products->lock);
    yokei_rt_leave(stream->device);
    return status;
}

static yoke_status run_product(yoke_stream *stream, const struct yoke_gemm_args *args, int variant,
                               const char *detail, const struct yokei_gpu_product *product, void *workspace)
{
    struct product_call call = {
        .args = *args, .variant = variant, .product = *product, .workspace = workspace
    };
    bool queued = false;
    if (stream->is_dry) return YOKE_OK; /* the library loads its own programs at its first call */
    yokei_text(call.detail, sizeof call.detail, "%s", detail);
    if (yokei_is_held(stream)) YOKE_TRY(yokei_hold_call(stream, submit_product, &call, sizeof call, &queued));
    return queued ? YOKE_OK : submit_product(stream, &call);
}

static bool detail_is_right(const char *detail)
{
    struct cuda_algorithm fields;
    return strlen(detail) < MOST_DETAIL && yokei_cuda_algorithm_parse(detail, &fields);
}

static void last_algorithm(const yoke_device *device, char *text, size_t bytes)
{
    struct cuda_products *p = cuda_device(device)->products;
    pthread_mutex_lock(&p->lock);
    text[0] = '\0';
    if (p->has_last) yokei_cuda_algorithm_text(&p->last, text, bytes);
    pthread_mutex_unlock(&p->lock);
}

/* Whether another entry has the same product, and was used later. */
static bool is_outdated(const struct cuda_products *p, const struct entry *e, const char *product)
{
    char text[YOKEI_PRODUCT_BYTES];
    for (int i = 0; i < MOST_ENTRIES; i++) {
        if (p->entries[i].last_use <= e->last_use || p->entries[i].reason[0]) continue;
        product_text(&p->entries[i].key, text);
        if (!strcmp(text, product)) return true;
    }
    return false;
}

void yokei_cuda_products_used(const yoke_device *device, yokei_product_function *each, void *context)
{
    struct cuda_products *p = cuda_device(device)->products;
    char product[YOKEI_PRODUCT_BYTES], algorithm[YOKEI_ALGORITHM_BYTES];
    if (!p) return;
    pthread_mutex_lock(&p->lock);
    for (int i = 0; i < MOST_ENTRIES; i++) {
        const struct entry *e = &p->entries[i];
        if (e->last_use) product_text(&e->key, product);
        if (!e->last_use || e->reason[0] || is_outdated(p, e, product)) continue;
        yokei_cuda_algorithm_text(&e->fields, algorithm, sizeof algorithm);
        each(context, product, algorithm);
    }
    pthread_mutex_unlock(&p->lock);
}

yoke_status yokei_cuda_product_set(yoke_device *device, const char *product, const char *algorithm)
{
    struct cuda_products *p = cuda_device(device)->products;
    if (!p) return YOKE_OK;
    pthread_mutex_lock(&p->lock);
    const yoke_status status = yokei_cuda_preset_add(device, &p->presets, product, algorithm);
    for (int i = 0; i < MOST_ENTRIES; i++) { /* a plan for memory may have asked for the product before */
        char text[YOKEI_PRODUCT_BYTES] = "";
        if (p->entries[i].last_use) product_text(&p->entries[i].key, text);
        if (!strcmp(text, product)) clear_product(cuda_device(device)->lt, &p->entries[i]);
    }
    pthread_mutex_unlock(&p->lock);
    return status;
}

static const char *const names[] = { "cublaslt", "cublaslt-2", "cublaslt-3", NULL };
const struct yokei_gpu_products yokei_cuda_products = {
    .names = names,
    .find = find_by_args,
    .run = run_product,
    .detail = detail_is_right,
    .algorithm = last_algorithm,
};
