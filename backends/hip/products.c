/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Matrix products by AMD's two libraries: which of them are there, the variants of gemm that they make, and
 * which library a product belongs to. backends/gpu/runtime/products.h keeps the table of products.
 *
 * The variant rocblas comes first, and runs if nothing else is chosen. rocBLAS documents how atomics are
 * forbidden, so its products have the same bits in every run. hipBLASLt documents nothing of the kind. So its
 * variants run where a tuning file or a plan names them, or where there is no rocBLAS. Each of its algorithms
 * is tried before (hipblaslt_trial.c).
 */
#include <string.h>

#include "backends/hip/products.h"

/* ---- which library ---- */

static bool is_rocblas(const yoke_device *device, int64_t variant)
{
    return hip_device(device)->blas && variant == 0;
}

static const char *library(const yoke_device *device, int64_t variant)
{
    return is_rocblas(device, variant) ? "rocBLAS" : "hipBLASLt";
}

static const char *version(const yoke_device *device, int64_t variant)
{
    const struct hip_device *dev = hip_device(device);
    return is_rocblas(device, variant) ? dev->blas->version : dev->lt_version;
}

/* What hipBLASLt makes for a product also says that the product belongs to it. */
static const struct yokei_product_calls *calls_of(const struct yokei_product_entry *e)
{
    return e->made ? &yokei_hip_hipblaslt_calls : &yokei_hip_rocblas_calls;
}

/* ---- products ---- */

static const char *f32_reason(const yoke_device *device)
{
    (void)device;
    return "";
}

/* The workspace in AMD's own examples. Only hipBLASLt asks for one. */
static uint64_t most_workspace(const yoke_device *device) { return hip_device(device)->lt ? 32ull << 20 : 0; }

static void clear(const yoke_device *device, struct yokei_product_entry *e)
{
    calls_of(e)->clear(device, e);
    e->made = NULL;
}

static bool describe_by(const yoke_device *device, struct yokei_product_entry *e, bool rocblas)
{
    return (rocblas ? &yokei_hip_rocblas_calls : &yokei_hip_hipblaslt_calls)->describe(device, e);
}

static bool describe(const yoke_device *device, struct yokei_product_entry *e)
{
    return describe_by(device, e, is_rocblas(device, e->key.variant));
}

/* Let a product belong to a library. False, with the reason: the library does not multiply it. */
static bool move(const yoke_device *device, struct yokei_product_entry *e, bool rocblas, char *why,
                 size_t bytes)
{
    const struct hip_device *dev = hip_device(device);
    clear(device, e);
    e->reason[0] = '\0';
    const bool is_there = rocblas ? dev->blas != NULL : dev->lt != NULL;
    const bool moved = is_there && describe_by(device, e, rocblas);
    if (!moved)
        yokei_text(why, bytes, "%s", is_there ? e->reason : rocblas ? dev->blas_reason : dev->lt_reason);
    return moved;
}

/* A plan may name an algorithm of the other library. Behind the name of a variant stands one of its own. */
static bool adopt(const yoke_device *device, struct yokei_product_entry *e, const char *algorithm,
                  uint64_t workspace, char *why, size_t bytes)
{
    const bool rocblas = yokei_hip_rocblas_calls.is_algorithm(algorithm), before = !e->made;
    char unused[8];
    if (rocblas != before && !strcmp(e->key.detail, algorithm)) {
        yokei_text(why, bytes, "it is an algorithm of %s", rocblas ? "rocBLAS" : "hipBLASLt");
        return false;
    }
    if ((rocblas == before || move(device, e, rocblas, why, bytes))
        && calls_of(e)->adopt(device, e, algorithm, workspace, why, bytes))
        return true;
    if (rocblas != before) move(device, e, before, unused, sizeof unused);
    return false;
}

static void take_ranked(const yoke_device *device, struct yokei_product_entry *e, uint64_t workspace)
{
    calls_of(e)->take_ranked(device, e, workspace);
}

static bool is_algorithm(const char *text)
{
    return yokei_hip_rocblas_calls.is_algorithm(text) || yokei_hip_hipblaslt_calls.is_algorithm(text);
}

static yoke_status issue(yoke_stream *stream, const struct yoke_gemm_args *args,
                         const struct yokei_product_entry *e, void *workspace)
{
    return calls_of(e)->issue(stream, args, e, workspace);
}

static const struct yokei_product_calls product_calls = {
    .library = library,
    .version = version,
    .f32_reason = f32_reason,
    .most_workspace = most_workspace,
    .describe = describe,
    .clear = clear,
    .adopt = adopt,
    .take_ranked = take_ranked,
    .is_algorithm = is_algorithm,
    .issue = issue,
};

/* The variants of both libraries, and of one of them. */
static const char *const names[] = { "rocblas", "hipblaslt", "hipblaslt-2", "hipblaslt-3", NULL };
static const char *const rocblas_names[] = { "rocblas", NULL };
#define TABLE(list)                                                                                    \
    {                                                                                                  \
        .names = (list), .adds_no_bias = true, .find = yokei_products_find, .run = yokei_products_run, \
        .detail = is_algorithm, .algorithm = yokei_products_algorithm,                                 \
    }
static const struct yokei_gpu_products both = TABLE(names), rocblas_alone = TABLE(rocblas_names),
                                       hipblaslt_alone = TABLE(names + 1);

/* ---- the device ---- */

void yokei_hip_products_attach(yoke_device *device)
{
    struct hip_device *dev = hip_device(device);
    const bool rocblas = yokei_hip_rocblas_attach(device), hipblaslt = yokei_hip_hipblaslt_attach(device);
    if (!rocblas && !hipblaslt) return;
    dev->rt.products = yokei_products_create(&product_calls);
    if (!dev->rt.products) {
        yokei_hip_products_detach(device, true);
        yokei_text(dev->blas_reason, sizeof dev->blas_reason, "no host memory for a table of products");
        return;
    }
    dev->rt.gpu.products = rocblas && hipblaslt ? &both : rocblas ? &rocblas_alone : &hipblaslt_alone;
    dev->rt.gpu.flushes_f16 = !strncmp(dev->arch, "gfx90a", 6);
}

void yokei_hip_products_detach(yoke_device *device, bool entered)
{
    yokei_products_destroy(device);
    yokei_hip_rocblas_detach(device, entered);
    yokei_hip_hipblaslt_detach(device, entered);
}

void yokei_hip_products_text(const yoke_device *device, char *text, size_t bytes)
{
    const struct hip_device *dev = hip_device(device);
    char blas[1200], lt[1200];
    if (dev->blas)
        yokei_text(blas, sizeof blas, "matrix products by rocBLAS %s (%s)", dev->blas->version,
                   dev->blas->path);
    else
        yokei_text(blas, sizeof blas, "matrix products by Yoke's kernels: %s", dev->blas_reason);
    if (dev->lt)
        yokei_text(lt, sizeof lt, "%s hipBLASLt %s (%s)",
                   dev->blas ? "or, where it is tuned, by" : "matrix products by", dev->lt_version,
                   dev->lt->path);
    else
        yokei_text(lt, sizeof lt, "%s", dev->lt_reason);
    if (dev->lt && !dev->blas)
        yokei_text(text, bytes, "%s; %s", lt, dev->blas_reason);
    else
        yokei_text(text, bytes, "%s; %s", blas, lt);
}
