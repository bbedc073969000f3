/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the stand-in CUDA driver share. The core is emulate/gpu. */
#ifndef EMULATE_CUDA_CUDA_H
#define EMULATE_CUDA_CUDA_H

#include "emulate/cuda/api.h"
#include "emulate/gpu/calls.h"

/* ---- vendor.c ---- */
enum cuda_failure { FAIL_BUSY = FAIL_VENDOR };
struct cuda_settings {
    int capability; /* 90 for 9.0 */
    int newest_ptx; /* 87 for PTX 8.7; 0: any */
    int bias;       /* enum emulate_bias */
};
extern struct cuda_settings cuda_settings;

/* ---- models.c ---- */
struct device_model {
    int capability;
    int multiprocessors;
    int shared_per_multiprocessor, shared_most; /* bytes; shared_most is the most that a block can ask for */
    int threads_per_multiprocessor, blocks_per_multiprocessor;
    int l2_bytes, bus_bits, clock_khz, memory_clock_khz;
};
/* The model of a capability; an unknown one gets the newest that is not newer. */
const struct device_model *cuda_model(int capability);

/* ---- current.c ---- */
/* The context of the calling thread. */
enum emulate_error cuda_current(struct context **context_out);
/* Print how often the context is on this thread's stack. Returns the number. */
int cuda_report_stack(const struct context *context);

/* ---- errors.c ---- */
const char *cuda_error_name(enum emulate_error error); /* NULL: unknown */

/* ---- module.c ---- */
/* Whether ptxas would compile the kernel for the device. */
enum emulate_error cuda_check_kernel(const struct kernel_info *info, char *text, size_t text_bytes);
/* The most dynamic shared memory that a launch of the function may ask for. */
int cuda_dynamic_most(const struct function *function);
/* Whether a launch may ask for so many bytes of dynamic shared memory. */
enum emulate_error cuda_check_shared(const struct function *function, uint32_t dynamic_bytes);

#endif
