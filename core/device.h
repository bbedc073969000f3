/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of core ask about a device. */
#ifndef CORE_DEVICE_H
#define CORE_DEVICE_H

#include "core/backend.h"

/**
 * Whether the backend may be called to release an object of this device. In a process that was forked from
 * the one that opened the device, only backends that compute on the calling thread may. All that they have is
 * memory, of which this process has a copy. A driver's objects are the parent's.
 */
bool yokei_may_release(const yoke_device *device);

#endif
