/* SPDX-License-Identifier: Apache-2.0 */
/* The backends that this library was built with. */
#ifndef CORE_REGISTRY_H
#define CORE_REGISTRY_H

#include "core/backend.h"

/** The backends, in the order in which they are listed. NULL past the last one. */
const struct yoke_backend *yokei_backend_at(int index);

/** The backend called `name` ("opencl"), or NULL. */
const struct yoke_backend *yokei_backend_named(const char *name);

/**
 * Whether the backend may be called to release an object of this device. In a process that was forked from
 * the one that opened the device, only backends that compute on the calling thread may. All that they have is
 * memory, of which this process has a copy. A driver's objects are the parent's.
 */
bool yokei_may_release(const yoke_device *device);

#endif
