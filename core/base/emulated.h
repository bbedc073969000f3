/* SPDX-License-Identifier: Apache-2.0 */
/** Emulated devices (YOKE_EMULATE). They compute right numbers, but their times say nothing about a GPU. */
#ifndef CORE_BASE_EMULATED_H
#define CORE_BASE_EMULATED_H

#include <stdbool.h>
#include <string.h>

/**
 * Whether a device with these `features` (struct yoke_device_info) is emulated. Its times must not be used.
 */
static inline bool yokei_is_emulated(const char *features) { return strstr(features, " emulated") != NULL; }

#endif
