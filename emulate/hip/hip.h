/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the stand-in libamdhip64 share. The core is emulate/gpu. */
#ifndef EMULATE_HIP_HIP_H
#define EMULATE_HIP_HIP_H

#include "emulate/gpu/calls.h"
#include "emulate/hip/api.h"

/* ---- vendor.c ---- */
/* Its own failures of YOKE_EMULATE_FAIL, in this order. The others are those of libraries. */
enum hip_failure { FAIL_NO_KFD = FAIL_VENDOR, FAIL_NO_PERMISSION };
struct hip_settings {
    const struct hip_model *model;
    int major, minor; /* of the version of HIP */
    int kfd;          /* see yoke_emulate_kfd */
};
extern struct hip_settings hip_settings;
/**
 * The state of /dev/kfd on the machine that the stand-in shows: 0: it opens; 1: it is not there; 2: this user
 * may not open it.
 */
int yoke_emulate_kfd(void);

/* ---- models.c ---- */
struct hip_model {
    const char *name;      /* "gfx942" */
    const char *full_name; /* with the features of the processor */
    uint32_t target;       /* 0x942 */
    int compute_units, lanes;
    int threads_per_unit, shared_bytes, registers; /* of a compute unit; a block gets all of its LDS */
    int l2_bytes, bus_bits, clock_khz, memory_clock_khz;
};
/* NULL: there is no such model. */
const struct hip_model *hip_model(const char *name);

/* ---- device.c ---- */
/* The context of the calling thread's device. */
enum emulate_error hip_current(struct context **context_out);

/* ---- errors.c ---- */
/* HIP's number of an error. The error becomes the thread's last one. */
hipError_t hip_result(enum emulate_error error);
const char *hip_error_name(enum emulate_error error);

/* ---- executor.c ---- */
/* The bytes of a program; 0: it is none. The file also has emulate_executor. */
size_t hip_program_bytes(const void *image);

#endif
