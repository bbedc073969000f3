/* SPDX-License-Identifier: Apache-2.0 */
/** The table of the products that a vendor's library multiplies: see products.h. */
#include <stdlib.h>
#include <string.h>

#include "backends/gpu/runtime/products.h"
#include "backends/gpu/runtime/runtime.h"

enum { MOST_ENTRIES = 256 };

/* An algorithm that a caller has chosen for a single product, such as that of a plan. */
struct preset {
    struct preset *next;
    char product[YOKEI_PRODUCT_BYTES], algorithm[YOKEI_ALGORITHM_BYTES];
};

struct yokei_products {
    const struct yokei_product_calls *calls;
    pthread_mutex_t lock; /* protects all below, and what the entries have made */
    struct preset *presets;
    uint64_t clock;
    uint64_t hashes[MOST_ENTRIES]; /* of the entries' keys, close together for a fast search */
    struct yokei_product_entry entries[MOST_ENTRIES];
    char last[YOKEI_ALGORITHM_BYTES]; /* of the last call that succeeded; "": none has */
    /* Whether the library adds the bias of a 16-bit result, by the type of the result. */
    enum { BIAS_UNKNOWN, BIAS_ADDED, BIAS_REFUSED } bias[2];
    char bias_reason[2][320];
};

static struct yokei_products *products_of(const yoke_device *device) { return yokei_rt(device)->products; }

struct yokei_products *yokei_products_create(const struct yokei_product_calls *calls)
{
    struct yokei_products *products = calloc(1, sizeof *products);
    if (!products) return NULL;
    products->calls = calls;
    pthread_mutex_init(&products->lock, NULL);
    return products;
}

static void clear_entry(const yoke_device *device, struct yokei_product_entry *e)
{
    if (e->last_use) products_of(device)->calls->clear(device, e);
    memset(e, 0, sizeof *e);
}

void yokei_products_destroy(yoke_device *device)
{
    struct yokei_products *products = products_of(device);
    if (!products) return;
    for (int i = 0; i < MOST_ENTRIES; i++) clear_entry(device, &products->entries[i]);
    while (products->presets) {
        struct preset *preset = products->presets;
        products->presets = preset->next;
        free(preset);
    }
    pthread_mutex_destroy(&products->lock);
    free(products);
    yokei_rt(device)->products = NULL;
}

/* ---- choosing the algorithm ---- */

/* The product as text: types, transposes, sizes, strides, bias and alignments. */
static void product_text(const struct yokei_product_key *k, char text[YOKEI_PRODUCT_BYTES])
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
static bool take_preset(const yoke_device *device, struct yokei_product_entry *e, uint64_t workspace)
{
    const struct yokei_products *p = products_of(device);
    const struct preset *preset = p->presets;
    char product[YOKEI_PRODUCT_BYTES], why[96] = "";
    if (!preset) return false;
    product_text(&e->key, product);
    while (preset && strcmp(preset->product, product) != 0) preset = preset->next;
    if (!preset) return false;
    if (p->calls->adopt(device, e, preset->algorithm, workspace, why, sizeof why)) return true;
    yoke_log(
        YOKE_LOG_INFO,
        "%s %s does not run the product %s by the chosen algorithm %s: %s. Another one runs, so sums may "
        "have other bits",
        p->calls->library(device, e->key.variant), p->calls->version(device, e->key.variant), product,
        preset->algorithm, why);
    return false;
}

static void make_product(const yoke_device *device, struct yokei_product_entry *e, uint64_t workspace)
{
    const struct yokei_product_calls *calls = products_of(device)->calls;
    char why[96] = "";
    if (!calls->describe(device, e)) return;
    if (take_preset(device, e, workspace)) return; /* also if a tuning file names another algorithm */
    if (!e->key.detail[0])
        calls->take_ranked(device, e, workspace);
    else if (!calls->is_algorithm(e->key.detail)
             || !calls->adopt(device, e, e->key.detail, workspace, why, sizeof why))
        yokei_text(e->reason, sizeof e->reason, "the algorithm %.100s is not usable: %s", e->key.detail,
                   *why ? why : "its fields cannot be read");
}

/* ---- the table ---- */

static int64_t alignment(const void *address)
{
    const uintptr_t a = (uintptr_t)address | YOKEI_PRODUCT_ALIGNED; /* NULL is aligned */
    return (int64_t)(a & (~a + 1));
}

static void key_of_product(const struct yoke_gemm_args *a, int variant, const char *detail,
                           struct yokei_product_key *k)
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
    k->align_bias = bias ? alignment(a->bias) : YOKEI_PRODUCT_ALIGNED;
    k->variant = variant;
    yokei_text(k->detail, sizeof k->detail, "%s", detail);
}

static bool is_aligned(const struct yokei_product_key *k)
{
    return (k->align_a & k->align_b & k->align_c & k->align_bias) == YOKEI_PRODUCT_ALIGNED;
}

static struct yokei_product_entry *oldest_of(struct yokei_products *p)
{
    struct yokei_product_entry *oldest = &p->entries[0];
    for (int i = 1; i < MOST_ENTRIES; i++)
        if (p->entries[i].last_use < oldest->last_use) oldest = &p->entries[i];
    return oldest;
}

/* The entry of a key, or NULL. The lock is held. */
static struct yokei_product_entry *known_product(struct yokei_products *p,
                                                 const struct yokei_product_key *key)
{
    const uint64_t hash = yokei_hash(key, sizeof *key, 0);
    for (int i = 0; i < MOST_ENTRIES; i++) {
        struct yokei_product_entry *e = &p->entries[i];
        if (p->hashes[i] != hash || !e->last_use || memcmp(&e->key, key, sizeof *key) != 0) continue;
        e->last_use = ++p->clock;
        return e;
    }
    return NULL;
}

/* The entry of a key, which is made if it is not there. The lock is held, and the context is current. */
static struct yokei_product_entry *find_product(const yoke_device *device,
                                                const struct yokei_product_key *key)
{
    struct yokei_products *p = products_of(device);
    struct yokei_product_entry *known = known_product(p, key);
    if (known) return known;
    /*
     * The scratch memory was reserved for aligned addresses. An algorithm for other addresses gets no more
     * than that.
     */
    uint64_t workspace = p->calls->most_workspace(device);
    if (!is_aligned(key)) {
        struct yokei_product_key aligned = *key;
        aligned.align_a = aligned.align_b = aligned.align_c = aligned.align_bias = YOKEI_PRODUCT_ALIGNED;
        const struct yokei_product_entry *e = find_product(device, &aligned);
        workspace = e->reason[0] ? 0 : e->workspace_bytes;
    }
    struct yokei_product_entry *oldest = oldest_of(p);
    clear_entry(device, oldest);
    p->hashes[oldest - p->entries] = yokei_hash(key, sizeof *key, 0);
    oldest->key = *key;
    oldest->last_use = oldest->serial = ++p->clock;
    make_product(device, oldest, workspace);
    return oldest;
}

static yoke_status refuse_product(const yoke_device *device, int64_t variant, const char *reason)
{
    const struct yokei_product_calls *calls = products_of(device)->calls;
    return yoke_fail(YOKE_EUNSUPPORTED, "gemm by %s %s: %s", calls->library(device, variant),
                     calls->version(device, variant), reason);
}

/*
 * Whether the library adds the bias of a 16-bit result at all. A product that has the simplest shape decides,
 * so most products need no entry to find out. The lock is held, and the context is current.
 */
static const char *no_bias(const yoke_device *device, const struct yoke_gemm_args *a)
{
    struct yokei_products *p = products_of(device);
    const int type = a->out_dtype == YOKE_BF16;
    if (a->epilogue != YOKE_EPILOGUE_BIAS || a->out_dtype == YOKE_F32) return NULL;
    if (p->bias[type] == BIAS_UNKNOWN) {
        struct yokei_product_key key;
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
        const struct yokei_product_entry *e = find_product(device, &key);
        p->bias[type] = e->reason[0] ? BIAS_REFUSED : BIAS_ADDED;
        yokei_text(p->bias_reason[type], sizeof p->bias_reason[type], "%s", e->reason);
        yoke_log(YOKE_LOG_INFO, "%s %s %s %s results%s%s", p->calls->library(device, 0),
                 p->calls->version(device, 0),
                 e->reason[0] ? "leaves to Yoke's kernel the bias of" : "adds the bias of",
                 yoke_dtype_name(a->out_dtype), e->reason[0] ? ": " : "", e->reason);
    }
    return p->bias[type] == BIAS_REFUSED ? p->bias_reason[type] : NULL;
}

static yoke_status check_product(const yoke_device *device, const struct yoke_gemm_args *a, int variant)
{
    const char *f32_reason = products_of(device)->calls->f32_reason(device);
    if (a->dtype != YOKE_F32 && a->dtype != YOKE_F16 && a->dtype != YOKE_BF16)
        return refuse_product(device, variant, "it has no products of this type");
    if (a->dtype == YOKE_F32 && f32_reason[0]) return refuse_product(device, variant, f32_reason);
    if (a->batch > INT32_MAX)
        return refuse_product(device, variant, "it multiplies at most 2^31 - 1 matrices at a time");
    return YOKE_OK;
}

/* ---- the interface ---- */

yoke_status yokei_products_find(const yoke_device *device, const struct yoke_gemm_args *args, int variant,
                                const char *detail, struct yokei_gpu_product *product_out)
{
    struct yokei_products *p = products_of(device);
    struct yokei_product_key key;
    YOKE_TRY(check_product(device, args, variant));
    key_of_product(args, variant, detail, &key);
    const char *reason = NULL;
    pthread_mutex_lock(&p->lock);
    const struct yokei_product_entry *e = known_product(p, &key);
    if (!e) {
        const yoke_status entered = yokei_rt_enter(device);
        if (entered) {
            pthread_mutex_unlock(&p->lock);
            return entered;
        }
        reason = no_bias(device, args);
        if (!reason) e = find_product(device, &key);
        yokei_rt_leave(device);
    }
    if (e && e->reason[0]) reason = e->reason;
    const yoke_status status = reason ? refuse_product(device, variant, reason) : YOKE_OK;
    if (!status) {
        *product_out = (struct yokei_gpu_product){ e->workspace_bytes, (int)(e - p->entries), e->serial };
        memcpy(p->last, e->algorithm, sizeof p->last);
    }
    pthread_mutex_unlock(&p->lock);
    return status;
}

/* Issue a product. The lock is held, and the context is current. */
static yoke_status issue_product(yoke_stream *stream, const struct yoke_gemm_args *args,
                                 const struct yokei_product_entry *e, void *workspace)
{
    struct yokei_products *p = products_of(stream->device);
    if (e->reason[0]) return refuse_product(stream->device, e->key.variant, e->reason);
    YOKE_TRY(yokei_rt_command(stream));
    YOKE_TRY(p->calls->issue(stream, args, e, workspace));
    memcpy(p->last, e->algorithm, sizeof p->last);
    return YOKE_OK;
}

struct product_call {
    struct yoke_gemm_args args;
    int variant;
    char detail[YOKEI_PRODUCT_DETAIL];
    struct yokei_gpu_product product;
    void *workspace;
};

/* The entry that was found before. It is found anew if others have taken its place. The lock is held. */
static struct yokei_product_entry *entry_of_call(const yoke_device *device, const struct product_call *call)
{
    struct yokei_product_entry *e = &products_of(device)->entries[call->product.index];
    struct yokei_product_key key;
    if (e->serial == call->product.serial) return e;
    key_of_product(&call->args, call->variant, call->detail, &key);
    return find_product(device, &key);
}

static yoke_status submit_product(yoke_stream *stream, const void *data)
{
    const struct product_call *call = data;
    struct yokei_products *p = products_of(stream->device);
    YOKE_TRY(yokei_rt_enter(stream->device));
    pthread_mutex_lock(&p->lock);
    const yoke_status status = issue_product(stream, &call->args, entry_of_call(stream->device, call),
                                             call->workspace);
    pthread_mutex_unlock(&p->lock);
    yokei_rt_leave(stream->device);
    return status;
}

yoke_status yokei_products_run(yoke_stream *stream, const struct yoke_gemm_args *args, int variant,
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

void yokei_products_algorithm(const yoke_device *device, char *text, size_t bytes)
{
    struct yokei_products *p = products_of(device);
    pthread_mutex_lock(&p->lock);
    yokei_text(text, bytes, "%s", p->last);
    pthread_mutex_unlock(&p->lock);
}

/* Whether another entry has the same product, and was used later. */
static bool is_outdated(const struct yokei_products *p, const struct yokei_product_entry *e,
                        const char *product)
{
    char text[YOKEI_PRODUCT_BYTES];
    for (int i = 0; i < MOST_ENTRIES; i++) {
        if (p->entries[i].last_use <= e->last_use || p->entries[i].reason[0]) continue;
        product_text(&p->entries[i].key, text);
        if (!strcmp(text, product)) return true;
    }
    return false;
}

void yokei_rt_products_used(const yoke_device *device, yokei_product_function *each, void *context)
{
    struct yokei_products *p = products_of(device);
    char product[YOKEI_PRODUCT_BYTES];
    if (!p) return;
    pthread_mutex_lock(&p->lock);
    for (int i = 0; i < MOST_ENTRIES; i++) {
        const struct yokei_product_entry *e = &p->entries[i];
        if (e->last_use) product_text(&e->key, product);
        if (!e->last_use || e->reason[0] || is_outdated(p, e, product)) continue;
        each(context, product, e->algorithm);
    }
    pthread_mutex_unlock(&p->lock);
}

/* Put an algorithm in front of the list of those that a caller has chosen. */
static yoke_status add_preset(const yoke_device *device, const char *product, const char *algorithm)
{
    struct yokei_products *p = products_of(device);
    if (strlen(product) >= YOKEI_PRODUCT_BYTES || strlen(algorithm) >= YOKEI_ALGORITHM_BYTES
        || !p->calls->is_algorithm(algorithm))
        return yoke_fail(YOKE_ECONFIG, "%s: '%.100s' is no algorithm of %s", device->info.spec, algorithm,
                         p->calls->library(device, 0));
    struct preset *preset = calloc(1, sizeof *preset);
    if (!preset) return yokei_gpu_no_host_memory(device, "an algorithm");
    yokei_text(preset->product, sizeof preset->product, "%s", product);
    yokei_text(preset->algorithm, sizeof preset->algorithm, "%s", algorithm);
    preset->next = p->presets;
    p->presets = preset;
    return YOKE_OK;
}

yoke_status yokei_rt_product_set(yoke_device *device, const char *product, const char *algorithm)
{
    struct yokei_products *p = products_of(device);
    if (!p) return YOKE_OK;
    pthread_mutex_lock(&p->lock);
    const yoke_status status = add_preset(device, product, algorithm);
    for (int i = 0; i < MOST_ENTRIES; i++) { /* a plan for memory may have asked for the product before */
        char text[YOKEI_PRODUCT_BYTES] = "";
        if (p->entries[i].last_use) product_text(&p->entries[i].key, text);
        if (!strcmp(text, product)) clear_entry(device, &p->entries[i]);
    }
    pthread_mutex_unlock(&p->lock);
    return status;
}
