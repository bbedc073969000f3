/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Words in the features of a device (struct yoke_device_info): for emulated devices (YOKE_EMULATE), which
 * compute right numbers, but whose times say nothing about a GPU, and for the place of a device in its host.
 */
#ifndef CORE_BASE_EMULATED_H
#define CORE_BASE_EMULATED_H

#include <stdbool.h>
#include <string.h>

/**
 * Whether a device with these `features` (struct yoke_device_info) is emulated. Its times must not be used.
 */
static inline bool yokei_is_emulated(const char *features) { return strstr(features, " emulated") != NULL; }

/**
 * The format of the feature that yoke_discover reports for a device on the PCI bus, from domain, bus, device
 * and function, such as " pci=0000:17:00.0". All backends write it alike, so that one device of two backends
 * is known.
 */
#define YOKEI_PCI_FEATURE " pci=%04x:%02x:%02x.%x"

#endif
