/* SPDX-License-Identifier: Apache-2.0 */
#include "train/models/companions.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"

yoke_status yokei_companions_write(const struct yokei_companions *c, struct yokei_model model,
                                   yoke_dtype dtype, const char *folder)
{
    const struct yokei_config_rest rest = {
        .source = c->config, .dtype = dtype, .bos = c->bos, .eos = c->eos
    };
    char path[4400], *text;
    yokei_text(path, sizeof path, "%s/config.json", folder);
    yoke_status status = yokei_model_config_text(model, &rest, &text);
    if (status) return yoke_fail_context(status, "%s", path);
    status = yokei_file_write(path, text, strlen(text));
    free(text);
    for (int i = 0; i < c->n_files && !status; i++) {
        yokei_text(path, sizeof path, "%s/%s", folder, c->file[i].name);
        status = yokei_file_write(path, c->file[i].data, c->file[i].bytes);
    }
    return status;
}

void yokei_companions_free(struct yokei_companions *c)
{
    free(c->config);
    for (int i = 0; i < c->n_files; i++) free(c->file[i].data);
    *c = (struct yokei_companions){ .config = NULL };
}
