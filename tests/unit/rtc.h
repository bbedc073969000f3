/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Compiles every device program with a vendor's run-time compiler. It needs no device. The tests of nvrtc and
 * hiprtc share this code.
 */
#ifndef TESTS_UNIT_RTC_H
#define TESTS_UNIT_RTC_H

#include "backends/gpu/families.h"

/** A processor to compile for: the compiler option that names it, and the number of lanes of a shuffle. */
struct rtc_target {
    const char *name, *option;
    int warp;
};

/** A run-time compiler. NVRTC and hipRTC have the same functions, except for the prefix of their names. */
struct rtc_compiler {
    const char *name, *prefix;
    const char *const *libraries; /* ends with NULL; tried in order */
    enum yokei_gpu_language language;
    const struct rtc_target *targets; /* ends with a NULL name */
    const char *const *options;       /* ends with NULL */
    /*
     * Without YOKE_SOAK=1 each target compiles every sample-th program. `sample` has no common divisor with
     * the numbers of types and variants.
     */
    int sample;
    /*
     * Whether what the compiler says of a program that it has compiled is good. If not, this function prints
     * why, as lines that begin with "# ". NULL: all is good.
     */
    bool (*judge)(const struct rtc_target *target, const struct yokei_gpu_program *program, const char *log);
};

/** The whole test program. It prints TAP and returns the exit code. */
int rtc_main(const struct rtc_compiler *compiler);

#endif
