/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The errors of the stand-in drivers' core. A vendor's entry points return them in that vendor's numbers. The
 * numbers here are CUDA's, and most of HIP's are the same.
 */
#ifndef EMULATE_GPU_ERRORS_H
#define EMULATE_GPU_ERRORS_H

/* Name and number. */
#define EMULATE_CODES(X)                   \
    X(INVALID_VALUE, 1)                    \
    X(OUT_OF_MEMORY, 2)                    \
    X(NOT_INITIALIZED, 3)                  \
    X(DEVICE_UNAVAILABLE, 46)              \
    X(NO_DEVICE, 100)                      \
    X(INVALID_DEVICE, 101)                 \
    X(INVALID_IMAGE, 200)                  \
    X(INVALID_CONTEXT, 201)                \
    X(NO_BINARY_FOR_GPU, 209)              \
    X(ECC_UNCORRECTABLE, 214)              \
    X(INVALID_PTX, 218)                    \
    X(UNSUPPORTED_PTX_VERSION, 222)        \
    X(INVALID_HANDLE, 400)                 \
    X(NOT_FOUND, 500)                      \
    X(NOT_READY, 600)                      \
    X(ILLEGAL_ADDRESS, 700)                \
    X(LAUNCH_OUT_OF_RESOURCES, 701)        \
    X(LAUNCH_TIMEOUT, 702)                 \
    X(CONTEXT_IS_DESTROYED, 709)           \
    X(HOST_MEMORY_ALREADY_REGISTERED, 712) \
    X(HOST_MEMORY_NOT_REGISTERED, 713)     \
    X(MISALIGNED_ADDRESS, 716)             \
    X(LAUNCH_FAILED, 719)                  \
    X(NOT_PERMITTED, 800)                  \
    X(NOT_SUPPORTED, 801)                  \
    X(UNKNOWN, 999)

enum emulate_error {
    EMULATE_OK,
#define EMULATE_CODE(name, number) EMULATE_##name = number,
    EMULATE_CODES(EMULATE_CODE)
#undef EMULATE_CODE
};

#endif
