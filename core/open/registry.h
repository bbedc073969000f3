/* SPDX-License-Identifier: Apache-2.0 */
/* The backends that this library was built with. */
#ifndef CORE_OPEN_REGISTRY_H
#define CORE_OPEN_REGISTRY_H

#include "core/backend.h"

/** The backends, in the order in which they are listed. NULL past the last one. */
const struct yoke_backend *yokei_backend_at(int index);

/** The backend called `name` ("opencl"), or NULL. */
const struct yoke_backend *yokei_backend_named(const char *name);

#endif
