/* SPDX-License-Identifier: Apache-2.0 */
/** The speed of a device on the product that suits it: what the work of a step is held against. */
#ifndef TRAIN_RUN_PEAK_H
#define TRAIN_RUN_PEAK_H

#include <yoke/yoke.h>

/**
 * Operations per second of a large square matrix product (M = N = K) of `dtype` on the device: the best of those that run in 0.1 s of each
 * size, after one that warms up. Sizes are doubled, from 256 on, until one product takes 10 ms or its matrices an eighth of the free memory.
 * Blocks. YOKE_EUNSUPPORTED, YOKE_ENOMEM, and what the device says.
 */
yoke_status yokei_peak_measure(yoke_device *device, yoke_dtype dtype, double *flops_per_second_out);

#endif
