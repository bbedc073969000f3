/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The libraries say when a call takes long, for a reason that its caller may not know, such as the
 * compilation of a program at its first use. A program that shows progress sets callbacks.
 */
#ifndef CORE_BASE_BUSY_H
#define CORE_BASE_BUSY_H

#include <yoke/base.h>

/**
 * `begin` is called with a text when long work begins, such as "compiling gemm for opencl:0". `at` is called
 * with the share of the work that is done, from 0 to 1, and possibly often. `end` is called when the work
 * ends. The callbacks are called on the thread that does the work. Several works may be in progress at once.
 */
struct yokei_busy {
    void (*begin)(const char *text);
    void (*at)(double share);
    void (*end)(void);
};
/** Set the callbacks of the process, which live as long as the process. NULL: none. */
void yokei_busy_set(const struct yokei_busy *callbacks);

void yokei_busy_begin(const char *format, ...) YOKE_PRINTF(1, 2);
/** `done` of `total` is done, in any unit. */
void yokei_busy_at(double done, double total);
void yokei_busy_end(void);

/** Seconds that this process has spent compiling programs for devices, and more of them. */
double yokei_compiled_seconds(void);
void yokei_compiled_add(double seconds);

#endif
