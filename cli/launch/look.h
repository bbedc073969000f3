/* SPDX-License-Identifier: Apache-2.0 */
/**
 * --devices auto: which devices the ranks of a job get. On each host the hidden verb `yoke look` measures the
 * devices and chooses (auto.h). It is a program of its own, because libraries read their numbers of threads
 * when they are loaded. yoke run starts it, on this host or on all hosts of the job, and reads its choice.
 */
#ifndef CLI_LAUNCH_LOOK_H
#define CLI_LAUNCH_LOOK_H

#include "cli/cli.h"
#include "cli/launch/auto.h"

struct cli_job;

/* ---- verb_words.c ---- */
/**
 * The verb with which the command line begins. *words_out is the number of words in its name. YOKE_EINVAL if
 * there is none, or if the verb works as one process.
 */
yoke_status cli_verb_of_words(const struct cli_context *context, const struct cli_verb **verb_out,
                              int *words_out);
/** The options of the verb, if it is train, else train's defaults. The caller frees them. */
yoke_status cli_look_options(const struct cli_context *context, const struct cli_verb *verb,
                             struct cli_options **out);

/* ---- look_hosts.c ---- */
/**
 * Let every host of the job choose its devices. Writes the devices of all ranks to job->devices, those that
 * no rank has to job->left_out, and the hosts of --hosts with their numbers of ranks to job->hosts.
 * The function prints a line for each device, and writes the lines to `lines` too. `launcher` is mpiexec, or
 * "" for this host alone. n_ranks is the value of -n; 0: as many as the hosts take. *n_out is the number of
 * ranks. Errors: YOKE_ENODEV (a host has no device that can do the work), YOKE_EINVAL (fewer devices than
 * ranks), YOKE_ENOMEM, and the verb's own errors.
 */
yoke_status cli_look_at_hosts(const struct cli_context *context, const char *launcher, int n_ranks,
                              struct cli_job *job, char *lines, size_t bytes, int *n_out);

/**
 * The device of --device auto: the fastest of those that auto takes on this host, or the device of the plan.
 * The context's words are the verb train and its options. Prints a line for each device. Errors: as above.
 */
yoke_status cli_look_for_one(const struct cli_context *context, char *spec, size_t bytes);

/* ---- look_plan.c ---- */
/**
 * The devices of the plan that the verb repeats (--plan) or goes on from (--resume), in the order of the
 * job's ranks, and their number. "" and 0 if the verb does neither, and, for a checkpoint's plan, if this
 * host does not have its devices or -n asks for another number of ranks (n_ranks; 0: any). Errors: those of
 * the file.
 */
yoke_status cli_look_planned(const struct cli_context *context, const struct cli_verb *verb, int n_ranks,
                             char *devices, size_t bytes, int *n_out);

#endif
