/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_BENCH_TRIAD_H
#define CLI_BENCH_TRIAD_H

#include <stddef.h>

/**
 * a = b + 3 c with non-temporal stores. The call reads and writes `bytes` bytes of `memory` in all. The
 * stored values have no use.
 */
void bench_triad(float *memory, double bytes);

#endif
