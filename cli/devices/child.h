/* SPDX-License-Identifier: Apache-2.0 */
/** Work in a child process: two vendors' compilers in one process can abort it, and a driver may hang. */
#ifndef CLI_DEVICES_CHILD_H
#define CLI_DEVICES_CHILD_H

#include <yoke/base.h>

/** Fills `result` (zero at the start) from `argument`. */
typedef void (*cli_work)(const void *argument, void *result);

/**
 * Run `work` in a child and bring its result back. false when the child crashed or took longer than `limit_s`; `reason`
 * then says which. What the child's libraries print goes nowhere.
 */
bool cli_in_child(cli_work work, const void *argument, void *result, size_t bytes, double limit_s, char *reason, size_t reason_bytes);

#endif
