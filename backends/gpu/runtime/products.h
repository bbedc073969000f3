/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Products by a vendor's library of matrix products, such as cuBLASLt: the table of the products that a
 * device has met, and the algorithm that each of them has. The vendor's folder describes a product to its
 * library, chooses an algorithm, and issues the product.
 *
 * A product has one algorithm, which is chosen at the first call and kept. The library ranks its algorithms,
 * and the vendor's folder takes the first one that keeps Yoke's contract. A tuning file or a plan may name
 * another one by its text.
 */
#ifndef BACKENDS_GPU_RUNTIME_PRODUCTS_H
#define BACKENDS_GPU_RUNTIME_PRODUCTS_H

#include "backends/gpu/driver.h"

/* The most bytes of a detail behind a variant's name, and the alignment from which on addresses are alike. */
enum { YOKEI_PRODUCT_DETAIL = 128, YOKEI_PRODUCT_ALIGNED = 16 };

/**
 * The key of an algorithm. All fields are 64 bits wide, so keys can be compared as bytes. The alignments are
 * those of the addresses, at most YOKEI_PRODUCT_ALIGNED bytes.
 */
struct yokei_product_key {
    int64_t dtype, out_dtype, trans_a, trans_b, M, N, K, batch;
    int64_t lda, stride_a, ldb, stride_b, ldc, stride_c;
    int64_t with_bias, align_a, align_b, align_c, align_bias;
    int64_t variant; /* the rank of the algorithm among those that are usable, from 0 */
    char detail[YOKEI_PRODUCT_DETAIL];
};

struct yokei_product_entry {
    struct yokei_product_key key;
    uint64_t last_use; /* 0: the entry is empty */
    uint64_t serial;   /* another number for each entry that is made */
    char reason[320];  /* why the library does not multiply this; "": it does */
    char algorithm[YOKEI_ALGORITHM_BYTES];
    size_t workspace_bytes;
    void *made; /* what the vendor's folder has made for the product */
};

/** The vendor's half. The table's lock is held in all calls, and the context is current. */
struct yokei_product_calls {
    /* The library that has this variant, such as "cuBLASLt", and its version. */
    const char *(*library)(const yoke_device *device, int64_t variant);
    const char *(*version)(const yoke_device *device, int64_t variant);
    /* Why the library may not multiply f32. "": it may. */
    const char *(*f32_reason)(const yoke_device *device);
    /* The most scratch memory that an algorithm may need. */
    uint64_t (*most_workspace)(const yoke_device *device);
    /* Describe a product to the library. On failure, write the reason to e->reason. */
    bool (*describe)(const yoke_device *device, struct yokei_product_entry *e);
    /* Give back what describe has made. Called for each entry that is not empty. */
    void (*clear)(const yoke_device *device, struct yokei_product_entry *e);
    /*
     * Take the algorithm of this text for a product, and fill in e->algorithm and e->workspace_bytes. If Yoke
     * does not use it, `why` says why.
     */
    bool (*adopt)(const yoke_device *device, struct yokei_product_entry *e, const char *algorithm,
                  uint64_t workspace, char *why, size_t bytes);
    /* Take the algorithm of rank e->key.variant among the usable ones, or write the reason to e->reason. */
    void (*take_ranked)(const yoke_device *device, struct yokei_product_entry *e, uint64_t workspace);
    bool (*is_algorithm)(const char *text);
    yoke_status (*issue)(yoke_stream *stream, const struct yoke_gemm_args *args,
                         const struct yokei_product_entry *e, void *workspace);
};

struct yokei_products; /* the table */
struct yokei_products *yokei_products_create(const struct yokei_product_calls *calls);
/** Give back the table of a device, which may have none. */
void yokei_products_destroy(yoke_device *device);

/** The slots of struct yokei_gpu_products. */
yoke_status yokei_products_find(const yoke_device *device, const struct yoke_gemm_args *args, int variant,
                                const char *detail, struct yokei_gpu_product *product_out);
yoke_status yokei_products_run(yoke_stream *stream, const struct yoke_gemm_args *args, int variant,
                               const char *detail, const struct yokei_gpu_product *product, void *workspace);
void yokei_products_algorithm(const yoke_device *device, char *text, size_t bytes);
/** The slots products_used and product_set of struct yoke_device_extras. */
void yokei_rt_products_used(const yoke_device *device, yokei_product_function *each, void *context);
yoke_status yokei_rt_product_set(yoke_device *device, const char *product, const char *algorithm);

#endif
