/* SPDX-License-Identifier: Apache-2.0 */
/* The names and the texts of HIP's errors, and the last error of each thread. */
#include "emulate/hip/hip.h"

static const struct text {
    hipError_t value;
    const char *name, *text;
} texts[] = {
#define ROW(name, value, text) { value, #name, text },
    EMULATE_HIP_ERRORS(ROW)
#undef ROW
};

static __thread hipError_t last;

static const struct text *text_of(hipError_t error)
{
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].value == error) return &texts[i];
    return NULL;
}

/* Most errors have the same number. HIP has no error for misaligned addresses, and none for a call that a
 * function of the program makes in a stream. */
static hipError_t number_of(enum emulate_error error)
{
    switch (error) {
    case EMULATE_MISALIGNED_ADDRESS: return hipErrorIllegalAddress;
    case EMULATE_NOT_PERMITTED: return hipErrorIllegalState;
    default: return text_of((hipError_t)error) ? (hipError_t)error : hipErrorUnknown;
    }
}

/* From version 6 on, a call that succeeds leaves the last error as it is. */
hipError_t hip_result(enum emulate_error error)
{
    const hipError_t result = number_of(error);
    if (result || hip_settings.major < 6) last = result;
    return result;
}

hipError_t hipGetLastError(void)
{
    const hipError_t result = last;
    last = hipSuccess;
    return result;
}

hipError_t hipPeekAtLastError(void) { return last; }

const char *hip_error_name(enum emulate_error error) { return hipGetErrorName(number_of(error)); }

const char *hipGetErrorName(hipError_t error)
{
    const struct text *found = text_of(error);
    return found ? found->name : "hipErrorUnknown";
}

const char *hipGetErrorString(hipError_t error)
{
    const struct text *found = text_of(error);
    return found ? found->text : "unknown error";
}
