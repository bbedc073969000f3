/* SPDX-License-Identifier: Apache-2.0 */
/* Hashes of the inputs and of the results of a case, so that two devices can be compared bit by bit. */
#include "conform/trial.h"

#include <stdlib.h>
#include <string.h>

/*
 * Replace NaN by one NaN of the type. Which NaN an instruction returns differs between processors, and no
 * formula depends on it.
 */
static void make_canonical(yoke_dtype dtype, void *element)
{
    if (dtype == YOKE_I32 || !isnan(yokei_load(dtype, element, 0))) return;
    static const uint16_t f16 = 0x7e00, bf16 = 0x7fc0;
    static const uint32_t f32 = 0x7fc00000;
    static const uint64_t f64 = 0x7ff8000000000000;
    switch (dtype) {
    case YOKE_F16: memcpy(element, &f16, sizeof f16); return;
    case YOKE_BF16: memcpy(element, &bf16, sizeof bf16); return;
    case YOKE_F32: memcpy(element, &f32, sizeof f32); return;
    default: memcpy(element, &f64, sizeof f64); return;
    }
}

/* Add the elements of a tensor to a hash. The padding between rows is left out. */
static yoke_status add_elements(const struct tensor *x, const unsigned char *elements, uint64_t *hash)
{
    const size_t bytes = yoke_dtype_bytes(x->dtype);
    unsigned char *packed = malloc((size_t)x->extent * bytes + 1);
    if (!packed)
        return yoke_fail(YOKE_ENOMEM, "conformance: no memory for %zu bytes", (size_t)x->extent * bytes);
    size_t used = 0;
    for (int64_t i = 0; i < x->extent; i++) {
        if (!tensor_has(x, i)) continue;
        memcpy(packed + used, elements + (size_t)i * bytes, bytes);
        make_canonical(x->dtype, packed + used);
        used += bytes;
    }
    *hash = yokei_hash(packed, used, *hash);
    free(packed);
    return YOKE_OK;
}

/* Add all tensors that are inputs (`results` false), or all that are results. */
static yoke_status hash_tensors(const struct trial *t, bool results, uint64_t *hash_out)
{
    *hash_out = 0;
    for (int id = 0; id < CONFORM_MAX_TENSORS; id++) {
        const struct tensor *x = &t->tensor[id], *at = x->alias < 0 ? x : &t->tensor[x->alias];
        if (!x->present || x->role == (results ? IN : OUT)) continue;
        *hash_out = yokei_hash(x->name, strlen(x->name), *hash_out);
        YOKE_TRY(add_elements(x, (results ? at->after : x->before) + at->lead_bytes, hash_out));
    }
    return YOKE_OK;
}

yoke_status trial_bits(struct trial *t, uint64_t *inputs_out, uint64_t *results_out)
{
    yoke_status status;
    YOKE_TRY_GOTO(trial_begin(t), release_tensors);
    YOKE_TRY_GOTO(hash_tensors(t, false, inputs_out), release_tensors);
    YOKE_TRY_GOTO(trial_run_device(t), release_tensors);
    YOKE_TRY_GOTO(hash_tensors(t, true, results_out), release_tensors);
release_tensors:
    trial_release(t);
    return status;
}
