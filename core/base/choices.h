/* SPDX-License-Identifier: Apache-2.0 */
/** The choices with which a device computes, as a text for records. core/choices.c implements it. */
#ifndef CORE_BASE_CHOICES_H
#define CORE_BASE_CHOICES_H

#include <yoke/base.h>

struct yoke_device;

/**
 * Write one line for the origin of the device's choices ("tuning shipped FILE"), and one line for each
 * operation that has variants and was called ("gemm VARIANT [ALGORITHM]"). The variant is that of the
 * operation's last call. A text that is too long ends after its last whole line.
 */
void yokei_choices_text(const struct yoke_device *device, char *out, size_t bytes);

#endif
