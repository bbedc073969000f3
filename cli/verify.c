/* SPDX-License-Identifier: Apache-2.0 */
/* yoke verify: every op of a device against the reference; central differences for the reference itself. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <math.h>

#include "cli/cli.h"
#include "conform/conform.h"

struct printer {
    bool json;
    json_t *lines;
    char device[64];
    int n;
};

static json_t *number(double x) { return isfinite(x) ? json_real(x) : json_null(); }

static void one(void *context, const struct conform_line *line)
{
    struct printer *p = context;
    char text[1024];
    if (p->json) {
        json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:o, s:o, s:I, s:s, s:s, s:o, s:o, s:o, s:s}", "op", line->op, "dtype",
                              yoke_dtype_name(line->dtype), "variant", line->variant, "device", line->device, "verdict",
                              conform_verdict_name(line->verdict), "cases", line->n_cases, "not_offered", line->n_not_offered, "ratio",
                              number(line->ratio), "ulp", number(line->ulp), "seed", (json_int_t)line->seed, "worst_case", line->worst_case,
                              "worst_output", line->worst_output, "got", number(line->got), "wanted", number(line->wanted), "bound",
                              number(line->bound), "reason", line->reason);
        if (o) json_array_append_new(p->lines, o);
    } else {
        conform_text(line, text, sizeof text);
        cli_progress("%s", ""); /* clears the line of progress */
        puts(text);
        fflush(stdout);
    }
    cli_progress("verify %s: %d lines, last %s %s", p->device, ++p->n, line->op, yoke_dtype_name(line->dtype));
}

static yoke_status hold(const struct cli_context *context, struct printer *printer, struct conform_summary *summary)
{
    const char *spec = cli_text(context->options, "device");
    struct conform_options options = CONFORM_OPTIONS_INIT;
    options.op = cli_text(context->options, "op");
    options.dtype = cli_text(context->options, "dtype");
    options.variant = cli_text(context->options, "variant");
    options.seed = (uint64_t)cli_int(context->options, "seed");
    options.full = cli_flag(context->options, "full");
    if (!strncmp(spec, "reference", 9)) return conform_gradients(&options, one, printer, summary);
    yoke_device *device;
    YOKE_TRY(yoke_device_open(spec, NULL, &device));
    yoke_status status = conform_run(device, &options, one, printer, summary);
    yoke_device_close(device);
    return status;
}

yoke_status cli_verify(const struct cli_context *context)
{
    struct printer printer = { .json = cli_flag(context->options, "json"), .lines = json_array() };
    struct conform_summary s = { .size = sizeof s };
    snprintf(printer.device, sizeof printer.device, "%s", cli_text(context->options, "device"));
    yoke_status status = hold(context, &printer, &s);
    cli_progress("%s", "");
    if (status) {
        json_decref(printer.lines);
        return status;
    }
    if (printer.json) {
        json_t *root = json_pack("{s:i, s:s, s:s, s:o, s:i, s:i, s:i, s:i}", "schema", 1, "version", yoke_version(), "device", printer.device,
                                 "lines", printer.lines, "pass", s.n_pass, "fail", s.n_fail, "skip", s.n_skip, "cases", s.n_cases);
        json_dumpf(root, stdout, JSON_INDENT(2));
        putchar('\n');
        json_decref(root);
    } else {
        printf("%d passed, %d failed, %d skipped, %d cases\n", s.n_pass, s.n_fail, s.n_skip, s.n_cases);
        json_decref(printer.lines);
    }
    if (s.n_fail)
        return yoke_fail(YOKE_ENUMERIC, "%s: %d of %d lines lie outside their bounds; the lines that say FAIL name the case and the seed",
                         printer.device, s.n_fail, s.n_fail + s.n_pass);
    if (!s.n_pass) return yoke_fail(YOKE_EUNSUPPORTED, "%s: nothing was verified: the device offers none of what was asked for", printer.device);
    return YOKE_OK;
}
