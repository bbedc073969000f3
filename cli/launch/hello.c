/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yoke hello (hidden): the ranks start, enter a barrier and exit. It tests the launcher, and the agents that
 * start the ranks.
 */
#include "cli/cli.h"
#include "core/base/base.h"

#include <unistd.h>

yoke_status cli_hello(const struct cli_context *context)
{
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    printf("rank %d of %d on %s, device %s\n", context->rank, context->size, host,
           context->device ? context->device : "not set");
    return YOKE_OK;
}
