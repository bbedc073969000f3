/* SPDX-License-Identifier: Apache-2.0 */
/* The driver of the stand-ins of rocBLAS and hipBLASLt. */
#include <pthread.h>
#include <string.h>

#include "emulate/hip/blas.h"

enum { PROCESSOR = 396, PROPERTIES = 4096 }; /* where hipDeviceProp_t of HIP 5 names the processor */

static struct product_driver driver;
static int (*get_device)(int *device_out);
static int (*get_properties)(void *properties_out, int device);
static bool is_there;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The driver is loaded already, if there is one. */
static void find(void)
{
    static const char library[] = "libamdhip64-emulated.so.6";
    void *const device = product_symbol(library, "hipGetDevice");
    void *const properties = product_symbol(library, "hipGetDeviceProperties");
    memcpy(&get_device, &device, sizeof device);
    memcpy(&get_properties, &properties, sizeof properties);
    is_there = product_driver_find(library, &driver) && device && properties;
}

const struct product_driver *blas_driver(void)
{
    pthread_once(&once, find);
    return is_there ? &driver : NULL;
}

bool blas_flushes(void)
{
    char properties[PROPERTIES] = "";
    int device;
    if (!blas_driver() || get_device(&device) || get_properties(properties, device)) return false;
    return !strncmp(properties + PROCESSOR, "gfx90a", 6);
}
