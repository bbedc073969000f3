/* SPDX-License-Identifier: Apache-2.0 */
/* The model that --model names. */
#include "cli/train/plan_model.h"

#include <string.h>
#include <sys/stat.h>

static bool is_file(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0;
}

bool cli_is_model_file(const char *model) { return strchr(model, '/') || is_file(model); }

yoke_status cli_plan_model(const char *name, struct yokei_model_config *out)
{
    return cli_is_model_file(name) ? yokei_model_read(name, out) : yokei_model_named(name, out);
}
