/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Work in a child process. Two vendors' compilers in one process can abort the process, and a driver may
 * hang.
 */
#ifndef CLI_DEVICES_CHILD_H
#define CLI_DEVICES_CHILD_H

#include <yoke/base.h>

/** Fills `result` (zero at the start) from `argument`. */
typedef void (*cli_work)(const void *argument, void *result);

/**
 * Run `work` in a child process and copy its result back. False: the child crashed or took longer than
 * `limit_s` seconds, and `reason` says which. What the child's libraries print is dropped.
 */
bool cli_in_child(cli_work work, const void *argument, void *result, size_t bytes, double limit_s,
                  char *reason, size_t reason_bytes);

#endif
