/* SPDX-License-Identifier: Apache-2.0 */
/** Compile every device program with a vendor's run-time compiler; no device is needed. Shared by nvrtc and hiprtc. */
#ifndef TESTS_UNIT_RTC_H
#define TESTS_UNIT_RTC_H

#include "backends/gpu/launch.h"

/** A processor to compile for: the option that names it, and the lanes that shuffle there. */
struct rtc_target {
    const char *name, *option;
    int warp;
};

/** A run-time compiler. NVRTC and hipRTC have the same functions but for their prefix. */
struct rtc_compiler {
    const char *name, *prefix;
    const char *const *libraries; /* NULL-terminated, tried in order */
    enum yokei_gpu_language language;
    const struct rtc_target *targets; /* ends at a NULL name */
    const char *const *options;       /* NULL-terminated */
    int sample; /* without YOKE_SOAK=1 a target gets every sample-th program; prime to the counts of types and variants */
};

/** The test program: prints TAP, returns the exit code. */
int rtc_main(const struct rtc_compiler *compiler);

#endif
