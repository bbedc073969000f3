/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of backends, one line per backend. A backend that is not linked is NULL here. The backend `null`
 * is linked in a test only.
 */
#include "core/open/registry.h"

#include <string.h>

extern const struct yoke_backend yokei_backend_reference, yokei_backend_host, yokei_backend_opencl,
    yokei_backend_cuda, yokei_backend_hip, yokei_backend_null;
#pragma weak yokei_backend_reference
#pragma weak yokei_backend_host
#pragma weak yokei_backend_opencl
#pragma weak yokei_backend_cuda
#pragma weak yokei_backend_hip
#pragma weak yokei_backend_null

/* clang-format off */
static const struct yoke_backend *const backends[] = {
    &yokei_backend_host,
    &yokei_backend_opencl,
    &yokei_backend_cuda,
    &yokei_backend_hip,
    &yokei_backend_reference,
    &yokei_backend_null,
};
/* clang-format on */

const struct yoke_backend *yokei_backend_at(int index)
{
    int found = 0;
    for (size_t i = 0; i < sizeof backends / sizeof backends[0]; i++)
        if (backends[i] && found++ == index) return backends[i];
    return NULL;
}

const struct yoke_backend *yokei_backend_named(const char *name)
{
    const struct yoke_backend *b;
    for (int i = 0; (b = yokei_backend_at(i)); i++)
        if (!strcmp(b->name, name)) return b;
    return NULL;
}
