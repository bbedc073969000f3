/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Matrix products by AMD's two libraries. products.c has the variants of both, and sends each product to one
 * of them. rocblas.c and hipblaslt.c call the libraries, which product_file.c opens.
 */
#ifndef BACKENDS_HIP_PRODUCTS_H
#define BACKENDS_HIP_PRODUCTS_H

#include "backends/gpu/runtime/products.h"
#include "backends/hip/hip.h"

/* ---- product_file.c ---- */
/** One of the libraries, and whether it opens. The caller's fields are the first ones. */
struct hip_product_file {
    const char *name, *variable;            /* "rocBLAS", "YOKE_ROCBLAS" */
    const char *package;                    /* of ROCm, which has it */
    const char *emulated;                   /* the file of the stand-in */
    const struct yokei_library_file *files; /* in order */
    int n_files;
    yokei_open_file *open;
    bool tried, is_open;
    char reason[YOKE_REASON_BYTES];
};
/** Open a library once per process. The variable names its file, or turns it off. False: see `reason`. */
bool yokei_hip_product_file_open(struct hip_product_file *file, const struct hip_library *hip, char *reason,
                                 size_t bytes);

/* ---- rocblas.c, hipblaslt.c ---- */
/**
 * Make a library's handle of an opened device. The device is current. False, with the reason in
 * dev->blas_reason or dev->lt_reason: this library multiplies nothing.
 */
bool yokei_hip_rocblas_attach(yoke_device *device);
bool yokei_hip_hipblaslt_attach(yoke_device *device);
/** Release the handle. The device is current, unless it is lost (`entered` false). */
void yokei_hip_rocblas_detach(yoke_device *device, bool entered);
void yokei_hip_hipblaslt_detach(yoke_device *device, bool entered);
/** The products of each library. key.variant is the rank among the variants of the library. */
extern const struct yokei_product_calls yokei_hip_rocblas_calls, yokei_hip_hipblaslt_calls;

/** The oldest version of hipBLASLt that has algorithms for an architecture. 0: none has. */
int yokei_hip_lt_oldest_version(const char *arch);

/* ---- hipblaslt_describe.c ---- */
/** Describe a product to hipBLASLt. */
struct hip_lt_product {
    hipblasLtMatmulDesc_t desc;
    hipblasLtMatrixLayout_t first, second, result; /* the library's A and B, and its C and D */
    hipblasLtMatmulAlgo_t algo;
};
hipblasStatus_t yokei_hip_lt_describe(const struct hip_hipblaslt *lt, const struct yokei_product_key *key,
                                      struct hip_lt_product *out);
void yokei_hip_lt_clear(const struct hip_hipblaslt *lt, const struct hip_lt_product *product);

/* ---- hipblaslt_trial.c ---- */
/**
 * Try an algorithm of hipBLASLt by small products like this one, with all of its sums' terms. The library
 * does not say which of its algorithms add in an order that changes from run to run, and has no way to forbid
 * them. NULL, or the reason why Yoke does not use the algorithm. The device is current.
 */
const char *yokei_hip_lt_refused(const struct hip_device *dev, const struct yokei_product_key *key,
                                 const hipblasLtMatmulAlgo_t *algorithm, size_t workspace_bytes);

#endif
