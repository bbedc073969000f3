/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the config.json of a model to a file: f32, without bos and eos. */
#ifndef TESTS_UNIT_CONFIG_WRITE_H
#define TESTS_UNIT_CONFIG_WRITE_H

#include <stdlib.h>
#include <string.h>
#include "core/base/base.h"
#include "train/models/model_files.h"

static inline yoke_status config_write(const char *path, struct yokei_model model)
{
    const struct yokei_config_rest rest = { .dtype = YOKE_F32, .bos = -2, .eos = -2 };
    char *text;
    YOKE_TRY(yokei_model_config_text(model, &rest, &text));
    const yoke_status status = yokei_file_write(path, text, strlen(text));
    free(text);
    return status;
}

#endif
