/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The clock and the temperature of an AMD GPU, for yoke info. They come from files of the kernel's driver,
 * whose form Linux keeps (Documentation/hwmon/sysfs-interface.rst: freq1_input in hertz, temp1_input in
 * thousandths of a degree Celsius). The struct in which ROCm's library rocm_smi returns clocks changed
 * between versions, and no function says which one a library has.
 */
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/hip/hip.h"

/* The number in a file; false if there is none. */
static bool read_number(const char *folder, const char *name, long long *number_out)
{
    char path[1200], text[64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    if (!file) return false;
    const bool is_read = fgets(text, sizeof text, file) != NULL;
    fclose(file);
    char *end = text;
    if (is_read) *number_out = strtoll(text, &end, 10);
    return is_read && end != text && (*end == '\n' || !*end);
}

/* The folder hwmon/hwmonN of a device. There is one at most. */
static bool find_monitor(const char *root, const char *pci, char *folder, size_t bytes)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s/hwmon", root, pci);
    DIR *list = opendir(path);
    const struct dirent *entry = NULL;
    while (list && (entry = readdir(list)) && strncmp(entry->d_name, "hwmon", 5)) continue;
    if (entry) snprintf(folder, bytes, "%s/%s", path, entry->d_name);
    if (list) closedir(list);
    return entry != NULL;
}

void yokei_hip_sensors_at(const char *root, const char *pci, char *text, size_t bytes)
{
    char folder[1000], name[32];
    long long hertz = 0, degrees = 0;
    text[0] = '\0';
    yokei_text(name, sizeof name, "%s", pci);
    for (char *p = name; *p; p++) *p = (char)tolower((unsigned char)*p);
    if (!find_monitor(root, name, folder, sizeof folder)) return;
    const bool has_clock = read_number(folder, "freq1_input", &hertz) && hertz > 0;
    const bool has_degrees = read_number(folder, "temp1_input", &degrees);
    if (has_clock && has_degrees)
        yokei_text(text, bytes, "now at %lld MHz, %lld C", hertz / 1000000, degrees / 1000);
    else if (has_clock)
        yokei_text(text, bytes, "now at %lld MHz", hertz / 1000000);
    else if (has_degrees)
        yokei_text(text, bytes, "now at %lld C", degrees / 1000);
}

void yokei_hip_sensors(const yoke_device *device, char *text, size_t bytes)
{
    const struct hip_device *dev = hip_device(device);
    char pci[32] = "";
    text[0] = '\0';
    if (dev->hip->emulated || !dev->hip->hipDeviceGetPCIBusId) return;
    if (!dev->hip->hipDeviceGetPCIBusId(pci, sizeof pci, dev->id))
        yokei_hip_sensors_at("/sys/bus/pci/devices", pci, text, bytes);
}
