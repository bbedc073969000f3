/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A bell wakes a thread that looks from time to time whether work of a device has ended. A backend whose
 * driver tells about ends rings it, so the thread need not sleep until its next look. Nobody may rely on it,
 * because other backends never ring.
 */
#ifndef CORE_BASE_BELL_H
#define CORE_BASE_BELL_H

#include <stdbool.h>
#include <stdint.h>

/** From now on a thread of the process sleeps at the bell. */
void yokei_bell_hang(void);
/** Whether a thread of the process sleeps at the bell from time to time. */
bool yokei_bell_hangs(void);
/** The bell will be rung when some work of a device has ended. */
void yokei_bell_expect(void);
/** The expected work has ended: wake the thread that sleeps at the bell. Any thread may call this. */
void yokei_bell_ring(void);
/** Wake the thread for another reason. */
void yokei_bell_wake(void);
/** Whether the bell will be rung for some work. */
bool yokei_bell_is_expected(void);
/** How often the bell rang. Ask before the last look, and pass the number to yokei_bell_sleep. */
uint32_t yokei_bell_rung(void);
/** Sleep for `ns`, or until the bell rings. Returns at once if it rang since yokei_bell_rung. */
void yokei_bell_sleep(uint32_t rung, uint64_t ns);

#endif
