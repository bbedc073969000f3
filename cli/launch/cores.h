/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The cores of each rank of a host, by the places of the ranks' GPUs (core/base/binding.h). On each host the
 * agent of the host's first rank looks for the places, divides the cores among the ranks of the host, and
 * writes the result into the run directory, as the file cores-ID. The agents of the other ranks read it
 * there. The file stays with the records of the run.
 */
#ifndef CLI_LAUNCH_CORES_H
#define CLI_LAUNCH_CORES_H

#include "cli/launch/agent.h"

/**
 * Bind this process, which is about to become the agent's rank, to its share of the cores. `devices` are the
 * job's devices (YOKE_DEVICES), which the ranks have in turn, or NULL. Returns the number of cores in the
 * share, or of those to which the launcher has bound this rank by itself; 0: the kernel refused.
 * *is_near_out: the share was chosen by the places of GPUs.
 */
int cli_cores_bind(const struct cli_agent *agent, const char *devices, bool *is_near_out);

/** The device of a rank in a list of devices that the ranks have in turn. */
void cli_device_of_rank(const char *devices, int rank, char *spec, size_t bytes);

#endif
