/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in cuBLASLt: handles and descriptions. The opaque structs are plain structs here. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulate/cuda/cublaslt.h"

enum { CAPABILITY_MAJOR = 75, CAPABILITY_MINOR = 76, VERSION = 130100 };
#define HANDLE_MAGIC 0x6c74686e646c6531ull

static struct lt_driver driver;
static bool driver_is_there;
static pthread_once_t driver_once = PTHREAD_ONCE_INIT;

/* The driver is loaded already, if there is one. */
static void find_driver(void)
{
    static const char library[] = "libcuda-emulated.so.1";
    const struct {
        const char *name;
        void *slot;
    } symbols[] = { { "cuCtxGetDevice", &driver.cuCtxGetDevice },
                    { "cuDeviceGetAttribute", &driver.cuDeviceGetAttribute },
                    { "yoke_emulate_bias", &driver.bias } };
    driver_is_there = product_driver_find(library, &driver.product);
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols && driver_is_there; i++) {
        void *address = product_symbol(library, symbols[i].name);
        driver_is_there = address != NULL;
        memcpy(symbols[i].slot, &address, sizeof address);
    }
}

const struct lt_driver *lt_driver(void)
{
    pthread_once(&driver_once, find_driver);
    return driver_is_there ? &driver : NULL;
}

bool lt_handle_is(const struct cublasLtContext *handle) { return handle && handle->magic == HANDLE_MAGIC; }

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle_out)
{
    int device, major, minor;
    const struct lt_driver *d = lt_driver();
    if (!handle_out) return CUBLAS_STATUS_INVALID_VALUE;
    if (!d || d->product.fails("cublaslt-create") || d->cuCtxGetDevice(&device)
        || d->cuDeviceGetAttribute(&major, CAPABILITY_MAJOR, device)
        || d->cuDeviceGetAttribute(&minor, CAPABILITY_MINOR, device))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    struct cublasLtContext *handle = calloc(1, sizeof *handle);
    if (!handle) return CUBLAS_STATUS_ALLOC_FAILED;
    *handle = (struct cublasLtContext){ HANDLE_MAGIC, 10 * major + minor };
    *handle_out = handle;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    if (!lt_handle_is(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
    handle->magic = 0;
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion(void) { return VERSION; }

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "the library was not initialized";
    case CUBLAS_STATUS_ALLOC_FAILED: return "the resource allocation failed";
    case CUBLAS_STATUS_INVALID_VALUE: return "an unsupported value or parameter was passed to the function";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "the function failed to launch on the GPU";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "the functionality requested is not supported";
    default: return "unknown status";
    }
}

/* ---- attributes: each has one size ---- */

#define SET(member)                                                               \
    (product_set(&(member), sizeof(member), value, bytes) ? CUBLAS_STATUS_SUCCESS \
                                                          : CUBLAS_STATUS_INVALID_VALUE)

static cublasStatus_t give(void *object, void *out)
{
    return product_give(object, out) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

static cublasStatus_t drop(void *object)
{
    free(object);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    struct lt_desc *desc = out ? calloc(1, sizeof *desc) : NULL;
    if (!out) return CUBLAS_STATUS_INVALID_VALUE;
    if (desc)
        *desc = (struct lt_desc){
            .compute = compute, .scale = scale, .epilogue = CUBLASLT_EPILOGUE_DEFAULT, .bias_type = -1
        };
    return give(desc, out);
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) { return drop(desc); }

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute, const void *value,
                                              size_t bytes)
{
    if (!desc) return CUBLAS_STATUS_INVALID_VALUE;
    switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return SET(desc->trans_a);
    case CUBLASLT_MATMUL_DESC_TRANSB: return SET(desc->trans_b);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return SET(desc->epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return SET(desc->bias);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: return SET(desc->bias_type);
    default: return CUBLAS_STATUS_INVALID_VALUE;
    }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t ld)
{
    struct product_layout *layout = out ? calloc(1, sizeof *layout) : NULL;
    if (!out) return CUBLAS_STATUS_INVALID_VALUE;
    if (layout) *layout = (struct product_layout){ type, rows, columns, ld, 1, 0 };
    return give(layout, out);
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) { return drop(layout); }

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void *value,
                                                size_t bytes)
{
    if (!layout) return CUBLAS_STATUS_INVALID_VALUE;
    switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT: return SET(layout->batch);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET: return SET(layout->stride);
    default: return CUBLAS_STATUS_INVALID_VALUE;
    }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out)
{
    struct lt_preference *p = out ? calloc(1, sizeof *p) : NULL;
    if (!out) return CUBLAS_STATUS_INVALID_VALUE;
    /* NVIDIA's defaults: no workspace, everything allowed, addresses aligned to 256 bytes */
    if (p) *p = (struct lt_preference){ 0, UINT64_MAX, 7, { 256, 256, 256, 256 } };
    return give(p, out);
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) { return drop(p); }

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *value, size_t bytes)
{
    if (!p) return CUBLAS_STATUS_INVALID_VALUE;
    if (attribute >= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES
        && attribute <= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES)
        return SET(p->alignment[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES]);
    switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: return SET(p->workspace);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: return SET(p->schemes);
    case CUBLASLT_MATMUL_PREF_IMPL_MASK: return SET(p->implementations);
    default: return CUBLAS_STATUS_INVALID_VALUE;
    }
}

cudaDataType_t lt_bias_type(const struct lt_desc *desc, cudaDataType_t d)
{
    return desc->bias_type < 0 ? d : (cudaDataType_t)desc->bias_type;
}
