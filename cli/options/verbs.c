/* SPDX-License-Identifier: Apache-2.0 */
/* The table of verbs, and what the help and the manual pages say of all verbs. */
#include "cli/cli.h"

#define ROW(name_, bit_, function, ...) { .name = name_, .bit = bit_, __VA_ARGS__ },
const struct cli_verb cli_verb_table[] = { CLI_VERBS(ROW){ .name = NULL } };

const struct cli_exit_code cli_exit_codes[] = {
    { 0, "success" },
    { 1, "an error in Yoke itself" },
    { 2, "the command line is wrong" },
    { 10, "a configuration, a plan or a schedule is wrong" },
    { 11, "a data file or a checkpoint is missing or damaged" },
    { 12, "the device is not there, cannot do this, or its driver failed" },
    { 13, "memory or disk space is too small, or a file cannot be written" },
    { 14, "the ranks called different collectives" },
    { 15, "a rank made no progress in time" },
    { 16, "a rank died" },
    { 17, "a result is numerically wrong" },
    { 18, "a device or a run is slower than it may be, or two runs part" },
    { 75, "the run was asked to stop, and saved a checkpoint" },
    { 0, NULL },
};

const char cli_about_options[] =
    "Each option, except --help and the options marked \"Only on the command line\", can also be given "
    "in a YAML file that --config names, and as a variable. The key in the file is the option's name. "
    "The variable's name is YOKE_ and the option's name in capitals, with _ instead of -. An option on "
    "the command line wins over a variable, and a variable wins over the file.";

const struct cli_verb *cli_verb_of(cli_verbs bit)
{
    for (const struct cli_verb *v = cli_verb_table; v->name; v++)
        if (v->bit == bit) return v;
    return NULL;
}
