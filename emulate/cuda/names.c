/* SPDX-License-Identifier: Apache-2.0 */
/* The functions by name. */
#include <string.h>

#include "emulate/cuda/cuda.h"

static const struct call {
    const char *name;
    int version;
    void (*function)(void);
} calls[] = {
#define ROW(name, version, symbol) { #name, version, (void (*)(void))symbol },
    EMULATE_CALLS(ROW)
#undef ROW
};

CUresult cuGetProcAddress_v2(const char *symbol, void **function_out, int cuda_version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status_out)
{
    int newest;
    cuDriverGetVersion(&newest);
    if (!symbol || !function_out || flags > 2 || cuda_version > newest) return CUDA_ERROR_INVALID_VALUE;
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    *function_out = NULL;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        if (strcmp(calls[i].name, symbol) != 0) continue;
        if (calls[i].version <= cuda_version) {
            status = CU_GET_PROC_ADDRESS_SUCCESS;
            memcpy(function_out, &calls[i].function, sizeof *function_out);
        } else if (status != CU_GET_PROC_ADDRESS_SUCCESS) {
            status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
        }
    }
    if (status_out) *status_out = status;
    return CUDA_SUCCESS;
}
