/* SPDX-License-Identifier: Apache-2.0 */
/* The names and the texts of errors. */
#include "emulate/cuda/cuda.h"

static const struct error_text {
    int value;
    const char *name, *text;
} errors[] = {
#define ROW(name, value, text) { value, #name, text },
    EMULATE_ERRORS(ROW)
#undef ROW
};

static const struct error_text *find(CUresult error)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].value == error) return &errors[i];
    return NULL;
}

const char *cuda_error_name(enum emulate_error error)
{
    const struct error_text *found = find((CUresult)error);
    return found ? found->name : NULL;
}

CUresult cuGetErrorName(CUresult error, const char **name_out)
{
    if (!name_out) return CUDA_ERROR_INVALID_VALUE;
    const struct error_text *found = find(error);
    *name_out = found ? found->name : NULL;
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char **text_out)
{
    if (!text_out) return CUDA_ERROR_INVALID_VALUE;
    const struct error_text *found = find(error);
    *text_out = found ? found->text : NULL;
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
