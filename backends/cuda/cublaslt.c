/* SPDX-License-Identifier: Apache-2.0 */
/**
 * cuBLASLt, NVIDIA's library of matrix products: where it is looked for, the handle of a device, and the
 * reasons why Yoke's own kernels multiply instead.
 */
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/cuda.h"

static struct cuda_cublaslt cublaslt;
static bool cublaslt_open, cublaslt_tried;
static char cublaslt_reason[YOKE_REASON_BYTES];
static pthread_mutex_t cublaslt_lock = PTHREAD_MUTEX_INITIALIZER;

static const struct yokei_library_file names[] = { { "libcublasLt.so.13", 13 },
                                                   { "libcublasLt.so.12", 12 },
                                                   { "libcublasLt.so.11", 11 } };

/** Open one library file. If it lacks a symbol, it is not taken. */
static bool open_cublaslt_file(const char *folder, const char *name, char *why, size_t bytes)
{
/* clang-format off */
#define SYMBOL(result, name, parameters) { #name, &cublaslt.name },
    /* clang-format on */
    static const struct yokei_symbol symbols[] = { YOKEI_CUBLASLT_FUNCTIONS(SYMBOL) };
#undef SYMBOL
    if (!yokei_folders_open_file(folder, name, cublaslt.path, symbols, YOKE_COUNT(symbols), why, bytes))
        return false;
    /* 13.1.0 is 130100; but version 11 says 11402 for 11.4.2 */
    const size_t v = cublaslt.cublasLtGetVersion(), unit = v < 100000 ? 1000 : 10000;
    yokei_text(cublaslt.version_text, sizeof cublaslt.version_text, "%zu.%zu.%zu", v / unit, v % unit / 100,
               v % 100);
    return true;
}

/* The stand-in's cuBLASLt lies beside the stand-in driver. NVIDIA's library cannot work with that driver. */
static bool open_emulated(const struct cuda_library *cu, char *why, size_t bytes)
{
    char folder[1024];
    yokei_text(folder, sizeof folder, "%s", cu->path);
    char *slash = strrchr(folder, '/');
    if (!slash) {
        yokei_text(why, bytes, "the stand-in driver has no folder");
        return false;
    }
    *slash = '\0';
    return open_cublaslt_file(folder, "libcublasLt-emulated.so.13", why, bytes);
}

const struct cuda_cublaslt *yokei_cuda_cublaslt(const struct cuda_library *cu, char *reason, size_t bytes)
{
    char why[YOKE_REASON_BYTES] = "";
    pthread_mutex_lock(&cublaslt_lock);
    if (!cublaslt_tried) {
        cublaslt_open = cu->emulated ? open_emulated(cu, why, sizeof why)
                                     : yokei_folders_open_newest(yokei_cuda_folders, names, YOKE_COUNT(names),
                                                                 cu->version / 1000, open_cublaslt_file, why,
                                                                 sizeof why);
        cublaslt_tried = true;
        if (!cublaslt_open)
            yokei_text(cublaslt_reason, sizeof cublaslt_reason, "no cuBLASLt (%s)%s", why,
                       cu->emulated ? "" : "; set CUDA_HOME to a CUDA toolkit with cuBLAS");
    }
    if (!cublaslt_open) yokei_text(reason, bytes, "%s", cublaslt_reason);
    pthread_mutex_unlock(&cublaslt_lock);
    return cublaslt_open ? &cublaslt : NULL;
}

/*
 * Variables by which a user lets the library shorten the inputs of f32 products. Yoke's f32 is f32, so its
 * own kernels run then.
 */
static void look_for_short_f32(char *reason, size_t bytes)
{
    static const struct {
        const char *name, *what;
    } variables[] = { { "NVIDIA_TF32_OVERRIDE", "TF32" },
                      { "CUBLAS_EMULATE_SINGLE_PRECISION", "three bf16 numbers" } };
    reason[0] = '\0';
    for (size_t i = 0; i < YOKE_COUNT(variables) && !reason[0]; i++) {
        const char *value = getenv(variables[i].name);
        if (value && strcmp(value, "0") != 0)
            yokei_text(reason, bytes,
                       "%s='%.20s' may let cuBLASLt replace f32 by %s; unset it, or set it to 0",
                       variables[i].name, value, variables[i].what);
    }
}

void yokei_cuda_cublaslt_attach(yoke_device *device)
{
    struct cuda_device *dev = cuda_device(device);
    dev->lt = yokei_cuda_cublaslt(dev->cu, dev->lt_reason, sizeof dev->lt_reason);
    if (!dev->lt) return;
    look_for_short_f32(dev->f32_reason, sizeof dev->f32_reason);
    const cublasStatus_t status = dev->lt->cublasLtCreate(&dev->lt_handle);
    dev->trials = status ? NULL : yokei_cuda_trials_create();
    dev->rt.products = dev->trials ? yokei_products_create(&yokei_cuda_product_calls) : NULL;
    if (dev->rt.products) {
        dev->rt.gpu.products = &yokei_cuda_products;
        return;
    }
    if (status)
        yokei_text(dev->lt_reason, sizeof dev->lt_reason,
                   "cuBLASLt %s (%s) does not start: cublasLtCreate failed: %s (%d)", dev->lt->version_text,
                   dev->lt->path, dev->lt->cublasLtGetStatusString(status), status);
    else
        yokei_text(dev->lt_reason, sizeof dev->lt_reason, "no host memory for cuBLASLt");
    if (!status) dev->lt->cublasLtDestroy(dev->lt_handle);
    free(dev->trials);
    dev->trials = NULL;
    dev->lt = NULL;
}

void yokei_cuda_cublaslt_detach(yoke_device *device, bool entered)
{
    struct cuda_device *dev = cuda_device(device);
    if (!dev->lt) return;
    yokei_products_destroy(device);
    free(dev->trials);
    if (entered) dev->lt->cublasLtDestroy(dev->lt_handle);
    dev->lt = NULL;
}

void yokei_cuda_cublaslt_text(const yoke_device *device, char *text, size_t bytes)
{
    const struct cuda_device *dev = cuda_device(device);
    if (!dev->lt)
        yokei_text(text, bytes, "matrix products by Yoke's kernels: %s", dev->lt_reason);
    else
        yokei_text(text, bytes, "matrix products by cuBLASLt %s (%s)%s%s", dev->lt->version_text,
                   dev->lt->path, dev->f32_reason[0] ? "; those of f32 by Yoke's kernels: " : "",
                   dev->f32_reason);
}
