/* SPDX-License-Identifier: Apache-2.0 */
/* What both kinds of comparison need to read and to write. */
#include "cli/compare/compare.h"
#include "core/base/base.h"

yoke_status compare_put_json(json_t *root, FILE *to)
{
    if (!root) return yoke_fail(YOKE_ENOMEM, "yoke compare: no memory for the results");
    const int failed = json_dumpf(root, to, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    fputc('\n', to);
    json_decref(root);
    return failed ? yoke_fail(YOKE_EIO, "yoke compare: the results cannot be written") : YOKE_OK;
}

yoke_status compare_as_data(yoke_status status)
{
    char text[1024];
    if (status != YOKE_ECONFIG) return status;
    yokei_text(text, sizeof text, "%s", yoke_last_error());
    return yoke_fail(YOKE_EDATA, "%s", text);
}
