/* SPDX-License-Identifier: Apache-2.0 */
/**
 * An algorithm of cuBLASLt as fields. The library gives algorithms as opaque bytes, which are valid for one
 * version of the library. The fields can be written into a tuning file, read by a person, and turned into the
 * same algorithm again.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/cuda.h"

/* The fields in the order of their text: the member, the attribute, and its C type in the library. */
#define FIELDS(F)                                                 \
    F(tile, CUBLASLT_ALGO_CONFIG_TILE_ID, uint32_t)               \
    F(stages, CUBLASLT_ALGO_CONFIG_STAGES_ID, uint32_t)           \
    F(splitk, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, int32_t)           \
    F(reduction, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, uint32_t) \
    F(swizzle, CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, uint32_t)      \
    F(custom, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, uint32_t)       \
    F(inner, CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, uint16_t)       \
    F(cluster, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, uint16_t)

void yokei_cuda_algorithm_text(const struct cuda_algorithm *f, char *text, size_t bytes)
{
    yokei_text(text, bytes, "algo=%u", f->algo);
#define WRITE(name, attribute, type) \
    yokei_text(text + strlen(text), bytes - strlen(text), "," #name "=%u", f->name);
    FIELDS(WRITE)
#undef WRITE
}

/* Read "name=number" at *at, and move *at behind it. */
static bool parse_field(const char **at, const char *name, uint32_t most, uint32_t *out)
{
    const size_t n = strlen(name);
    if (strncmp(*at, name, n) != 0 || (*at)[n] != '=' || !isdigit((unsigned char)(*at)[n + 1])) return false;
    char *end;
    const unsigned long long value = strtoull(*at + n + 1, &end, 10);
    *at = end;
    *out = (uint32_t)value;
    return value <= most;
}

bool yokei_cuda_algorithm_parse(const char *text, struct cuda_algorithm *f)
{
    if (!parse_field(&text, "algo", INT32_MAX, &f->algo)) return false;
#define READ(name, attribute, type)                                                                         \
    if (*text++ != ',' || !parse_field(&text, #name, sizeof(type) == 2 ? UINT16_MAX : INT32_MAX, &f->name)) \
        return false;
    FIELDS(READ)
#undef READ
    return !*text;
}

/* Versions before 11.8 have neither inner shapes nor clusters. There these fields are 0. */
static bool may_lack(cublasLtMatmulAlgoConfigAttributes_t attribute)
{
    return attribute == CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID
           || attribute == CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID;
}

cublasStatus_t yokei_cuda_algorithm_read(const struct cuda_cublaslt *lt, const cublasLtMatmulAlgo_t *algo,
                                         struct cuda_algorithm *f)
{
    size_t written;
    int32_t id = 0;
    cublasStatus_t status = lt->cublasLtMatmulAlgoConfigGetAttribute(algo, CUBLASLT_ALGO_CONFIG_ID, &id,
                                                                     sizeof id, &written);
    memset(f, 0, sizeof *f);
    f->algo = (uint32_t)id;
#define READ(name, attribute, type)                                                                         \
    if (!status) {                                                                                          \
        type value = 0;                                                                                     \
        status = lt->cublasLtMatmulAlgoConfigGetAttribute(algo, attribute, &value, sizeof value, &written); \
        if (status && may_lack(attribute)) status = CUBLAS_STATUS_SUCCESS, value = 0;                       \
        f->name = (uint32_t)value;                                                                          \
    }
    FIELDS(READ)
#undef READ
    return status;
}

cublasStatus_t yokei_cuda_algorithm_make(const struct cuda_cublaslt *lt, cublasLtHandle_t handle,
                                         const struct cuda_algorithm *f, cudaDataType_t in,
                                         cudaDataType_t out, cublasLtMatmulAlgo_t *algo)
{
    cublasStatus_t status = lt->cublasLtMatmulAlgoInit(handle, CUBLAS_COMPUTE_32F, CUDA_R_32F, in, in, out,
                                                       out, (int)f->algo, algo);
#define SET(name, attribute, type)                                                                \
    if (!status) {                                                                                \
        const type value = (type)f->name;                                                         \
        status = lt->cublasLtMatmulAlgoConfigSetAttribute(algo, attribute, &value, sizeof value); \
        if (status && may_lack(attribute) && !value) status = CUBLAS_STATUS_SUCCESS;              \
    }
    FIELDS(SET)
#undef SET
    return status;
}

uint64_t yokei_cuda_algorithm_flags(yoke_dtype dtype)
{
    const uint64_t f32 = CUBLASLT_NUMERICAL_IMPL_FLAGS_FMA | CUBLASLT_NUMERICAL_IMPL_FLAGS_ACCUMULATOR_32F
                         | CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_32F;
    switch (dtype) {
    case YOKE_F16: return f32 | CUBLASLT_NUMERICAL_IMPL_FLAGS_HMMA | CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_16F;
    /*
     * The algorithms of cuBLASLt for Hopper's wgmma instructions say INPUT_16F also where they multiply bf16
     * (cuBLASLt 13.1 on an H100). Without this flag only algorithms of a quarter of the speed are left.
     */
    case YOKE_BF16:
        return f32 | CUBLASLT_NUMERICAL_IMPL_FLAGS_HMMA | CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_16BF
               | CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_16F;
    default: return f32;
    }
}

const char *yokei_cuda_algorithm_refused(const struct cuda_cublaslt *lt, const cublasLtMatmulAlgo_t *algo,
                                         const struct cuda_algorithm *f, yoke_dtype dtype)
{
    uint64_t flags = 0;
    int32_t emulates = 0;
    size_t written;
    if (!lt->cublasLtMatmulAlgoCapGetAttribute(algo, CUBLASLT_ALGO_CAP_NUMERICAL_IMPL_FLAGS, &flags,
                                               sizeof flags, &written)
        && flags & ~yokei_cuda_algorithm_flags(dtype))
        return "it does not compute with the inputs and the f32 sums that Yoke states";
    /* versions before 13.1 do not know this attribute, and have no such algorithms */
    if (dtype == YOKE_F32
        && !lt->cublasLtMatmulAlgoCapGetAttribute(algo, YOKEI_CUBLASLT_ALGO_CAP_EMULATION, &emulates,
                                                  sizeof emulates, &written)
        && emulates)
        return "it may replace f32 by shorter types";
    if (f->splitk > 1 ? f->reduction != CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
                      : f->reduction & ~(uint32_t)CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)
        return "it adds the parts of a sum along K in the result's type, or in an order that changes";
    return NULL;
}
