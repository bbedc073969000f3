/* SPDX-License-Identifier: Apache-2.0 */
/* Chosen variants of a device's ops: those of its tuning file, and those that a test forces. */
#ifndef CORE_TUNE_H
#define CORE_TUNE_H

#include "core/backend.h"

/** Read the tuning file of a device (NULL: none is used). A file of another device or version is an error, YOKE_ECONFIG. */
yoke_status yokei_tuning_create(yoke_device *device, const char *file);
void yokei_tuning_destroy(yoke_device *device);

#endif
