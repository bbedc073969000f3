/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What differs between the versions of HIP. The layout of hipDeviceProp_t changed in HIP 6, so Yoke reads
 * only one member of it, the name of the architecture. All numbers come from hipDeviceGetAttribute.
 */
#include <string.h>

#include "backends/hip/hip.h"

/*
 * hipDeviceAttribute_t of the headers 5.2, 6.4 and 7.0. Members that HIP 6 has removed left gaps, so these
 * numbers are the same. hipMemoryType got a new first member in HIP 6.
 */
static const struct hip_version versions[] = {
    { 5, 56, 29, 30, 31, 74, 87, 63, 16, 0, 1 },
    { 6, 56, 29, 30, 31, 74, 87, 63, 16, 1, 2 },
    { 7, 56, 29, 30, 31, 74, 87, 63, 16, 1, 2 },
};

const struct hip_version *yokei_hip_version(int major)
{
    for (size_t i = 0; i < YOKE_COUNT(versions); i++)
        if (versions[i].major == major) return &versions[i];
    return NULL;
}

/* Where gcnArchName stands in hipDeviceProp_t, and more bytes than the whole struct has. */
enum { AT_5 = 396, AT_6 = 1160, MOST_BYTES = 4096 };

static bool name_at(const char *properties, size_t bytes, size_t at, char arch[HIP_ARCH])
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789:+-";
    if (bytes < at + HIP_ARCH || strncmp(properties + at, "gfx", 3) != 0) return false;
    const size_t n = strspn(properties + at, allowed);
    if (n < 6 || n >= HIP_ARCH || properties[at + n]) return false;
    memcpy(arch, properties + at, n + 1);
    return true;
}

bool yokei_hip_arch_in(const char *properties, size_t bytes, bool layout_6_first, char arch[HIP_ARCH])
{
    return name_at(properties, bytes, layout_6_first ? AT_6 : AT_5, arch)
           || name_at(properties, bytes, layout_6_first ? AT_5 : AT_6, arch);
}

bool yokei_hip_arch(const struct hip_library *hip, int device, char arch[HIP_ARCH])
{
    char properties[MOST_BYTES + HIP_ARCH];
    memset(properties, 0, sizeof properties);
    if (hip->hipGetDevicePropertiesR0600 && !hip->hipGetDevicePropertiesR0600(properties, device)
        && yokei_hip_arch_in(properties, sizeof properties, true, arch))
        return true;
    memset(properties, 0, sizeof properties);
    return hip->hipGetDeviceProperties && !hip->hipGetDeviceProperties(properties, device)
           && yokei_hip_arch_in(properties, sizeof properties, false, arch);
}
