/* SPDX-License-Identifier: Apache-2.0 */
/* The results of a verb, to stdout or into a file. */
#include <stdlib.h>

#include "cli/cli.h"
#include "core/base/base.h"

yoke_status cli_write_results(const char *path, yoke_status (*put)(void *context, FILE *to), void *context)
{
    char *text = NULL, error[4096];
    size_t bytes = 0;
    if (!path) return put(context, stdout);
    FILE *to = open_memstream(&text, &bytes);
    if (!to) return yoke_fail(YOKE_ENOMEM, "%s: no memory for the results", path);
    const yoke_status status = put(context, to);
    yokei_text(error, sizeof error, "%s", status ? yoke_last_error() : "");
    yoke_status written = YOKE_OK;
    if (fclose(to))
        written = yoke_fail(YOKE_ENOMEM, "%s: no memory for the results", path);
    else if (!status || bytes)
        written = yokei_file_write(path, text, bytes);
    free(text);
    return status ? yoke_fail(status, "%s", error) : written;
}
