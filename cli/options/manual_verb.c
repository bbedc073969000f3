/* SPDX-License-Identifier: Apache-2.0 */
/* yoke manual: print a page as the build wrote it. */
#include "cli/cli.h"

yoke_status cli_manual(const struct cli_context *context)
{
    const char *name = cli_text(context->options, "name");
    return cli_manual_page(name) ? YOKE_OK : yoke_fail(YOKE_EINVAL, "there is no verb called %s", name);
}
