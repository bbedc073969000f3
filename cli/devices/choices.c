/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which tuning file applies to a device, which library multiplies matrices, and the device's clock and
 * temperature, for yoke info. The device must be opened to find out, so a child process does it.
 */
#include <string.h>

#include "cli/devices/child.h"
#include "cli/devices/info.h"
#include "core/base/base.h"
#include "core/backend.h"
#include "core/tune.h"

#define LIMIT_SECONDS 20.0

static void source_text(const struct yokei_tuning_source *s, char *out, size_t bytes)
{
    static const char *const whose[] = { [YOKEI_TUNING_GIVEN] = "the file given by YOKE_TUNE_FILE,",
                                         [YOKEI_TUNING_USER] = "your file",
                                         [YOKEI_TUNING_SHIPPED] = "the shipped file" };
    if (s->kind == YOKEI_TUNING_RULES) {
        yokei_text(out, bytes, "built-in rules");
        return;
    }
    yokei_text(out, bytes, "%s %s: %d line%s", whose[s->kind], s->file, s->n_choices,
               s->n_choices == 1 ? "" : "s");
    const size_t used = strlen(out);
    if (s->n_skipped)
        yokei_text(out + used, bytes - used,
                   ", %d more name variants that this device lacks; yoke tune measures anew", s->n_skipped);
    else if (s->other_variants)
        yokei_text(
            out + used, bytes - used,
            "; this device has variants that it does not know of, or lacks some: yoke tune measures anew");
}

static void read_choices(const void *argument, void *result)
{
    static const char *const kinds[] = { [YOKEI_TUNING_RULES] = "rules",
                                         [YOKEI_TUNING_GIVEN] = "given",
                                         [YOKEI_TUNING_USER] = "user",
                                         [YOKEI_TUNING_SHIPPED] = "shipped" };
    struct cli_choices *out = result;
    yoke_device *device;
    if (yoke_device_open(argument, NULL, &device)) {
        yokei_text(out->error, sizeof out->error, "%s", yoke_last_error());
        yokei_text(out->text, sizeof out->text, "no rule: it cannot be opened: %s", out->error);
        return;
    }
    const struct yokei_tuning_source *s = yokei_tuning_source(device);
    source_text(s, out->text, sizeof out->text);
    yokei_text(out->kind, sizeof out->kind, "%s", kinds[s->kind]);
    yokei_text(out->file, sizeof out->file, "%s", s->file);
    yokei_text(out->made, sizeof out->made, "%s", s->made);
    out->n_choices = s->n_choices;
    out->n_skipped = s->n_skipped;
    out->other_variants = s->other_variants;
    const struct yoke_device_extras *extras = device->backend->device->extras;
    if (extras && extras->products) extras->products(device, out->products, sizeof out->products);
    if (extras && extras->sensors) extras->sensors(device, out->sensors, sizeof out->sensors);
}

void cli_choices_of(const char *spec, struct cli_choices *out)
{
    char reason[200] = "";
    memset(out, 0, sizeof *out);
    if (cli_in_child(read_choices, spec, out, sizeof *out, LIMIT_SECONDS, reason, sizeof reason)) return;
    yokei_text(out->error, sizeof out->error, "opening it %s", reason);
    yokei_text(out->text, sizeof out->text, "no rule: %s", out->error);
}
