/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The peak speed of a device, measured with a large matrix product. The work of a step is divided by this
 * peak.
 */
#ifndef TRAIN_RUN_DEVICE_PEAK_H
#define TRAIN_RUN_DEVICE_PEAK_H

#include <yoke/yoke.h>

/**
 * Operations per second of a large square matrix product (M = N = K) of `dtype` on the device. Each size is
 * run once to warm up, then again for 0.1 s, and the fastest product counts. Sizes start at 256 and double
 * until one product takes 10 ms or its matrices take an eighth of the free memory. Blocks. Errors:
 * YOKE_EUNSUPPORTED, YOKE_ENOMEM, and the errors of the device.
 */
yoke_status yokei_peak_measure(yoke_device *device, yoke_dtype dtype, double *flops_per_second_out);

#endif
