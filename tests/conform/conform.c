/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the conformance sweep of one device, or the gradient check, and prints TAP:
 *   conform SPEC [chosen] [OP or FAMILY]...     chosen: only the variants that the device chooses
 *   conform gradients
 * YOKE_SEED selects other inputs. YOKE_SOAK=1 runs the full sweep. If a device is missing, the test is
 * skipped, but the two backends that every machine has must be there.
 */
#include "conform/trial.h"
#include "core/backend.h"
#include "tests/conform/coverage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tap {
    int n;
    const yoke_device *device;
    struct coverage coverage;
    uint64_t asked; /* bit (1 << op): ops that the sweep was asked to test */
    bool seen[YOKE_N_OPS];
    uint32_t offered[YOKE_N_OPS]; /* types in which some variant of the op passed */
};

static void report(struct tap *tap, bool ok, const char *text)
{
    printf("%sok %d - %s\n", ok ? "" : "not ", ++tap->n, text);
    fflush(stdout);
}

static void on_line(void *context, const struct conform_line *line)
{
    struct tap *tap = context;
    char text[1024], skip[1100];
    conform_text(line, text, sizeof text);
    for (char *p = text; *p; p++)
        if (*p == '#') *p = ' '; /* TAP gives # a meaning of its own */
    for (int op = 0; op < YOKE_N_OPS; op++) {
        if (strcmp(yokei_op_names[op], line->op)) continue;
        tap->seen[op] = true;
        if (line->verdict == CONFORM_PASS) tap->offered[op] |= 1u << line->dtype;
    }
    if (tap->device) coverage_note(&tap->coverage, tap->device, line);
    if (line->verdict == CONFORM_LEFT_OUT) return;
    if (line->verdict != CONFORM_SKIP) {
        report(tap, line->verdict == CONFORM_PASS, text);
        return;
    }
    snprintf(skip, sizeof skip, "%s %s %s # SKIP %s", line->op, yoke_dtype_name(line->dtype), line->variant,
             line->reason);
    report(tap, true, skip);
}

/* Whatever single variants decline, the device as a whole must offer every op in every storage type. */
static void report_offer(struct tap *tap)
{
    static const yoke_dtype dtypes[] = { YOKE_F32, YOKE_F16, YOKE_BF16 };
    for (int op = 0; op < YOKE_N_OPS; op++) {
        if (!tap->seen[op]) continue;
        for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
            if (op == YOKE_OP_adamw && dtypes[i] != YOKE_F32) continue; /* AdamW's weights are f32 */
            if (tap->offered[op] & 1u << dtypes[i]) continue;
            char text[128];
            snprintf(text, sizeof text, "%s is offered in %s and passes", yokei_op_names[op],
                     yoke_dtype_name(dtypes[i]));
            report(tap, false, text);
        }
    }
    report(tap, true, "looked for every op in f32, f16 and bf16");
}

static void on_gap(void *context, const char *text) { report(context, false, text); }

/* Check that no op, type or variant of the device was left out. */
static void report_gaps(struct tap *tap, bool full)
{
    if (coverage_gaps(&tap->coverage, tap->device, tap->asked, full, on_gap, tap) == 0)
        report(tap, true, "every op has a line in each type and variant of the device");
}

static int finish(const struct tap *tap, yoke_status status)
{
    if (status)
        printf("not ok %d - the sweep ran to its end: %s: %s\n", tap->n + 1, yoke_status_name(status),
               yoke_last_error());
    printf("1..%d\n", tap->n + (status ? 1 : 0));
    return status ? 1 : 0;
}

int main(int argc, char **argv)
{
    static struct tap tap;
    struct conform_options options = CONFORM_OPTIONS_INIT;
    struct conform_summary summary = { .n_fail = 0 };
    const char *seed = getenv("YOKE_SEED"), *soak = getenv("YOKE_SOAK");
    if (argc < 2) {
        fprintf(stderr, "usage: conform SPEC [chosen] [OP or FAMILY]... | conform gradients\n");
        return 2;
    }
    options.seed = seed ? strtoull(seed, NULL, 10) : 1;
    options.full = soak && strcmp(soak, "0");
    printf("# seed %llu%s\n", (unsigned long long)options.seed, options.full ? ", the long sweep" : "");
    if (!strcmp(argv[1], "gradients")) {
        const yoke_status status = conform_gradients(&options, on_line, &tap, &summary);
        return finish(&tap, status) || summary.n_fail;
    }
    yoke_device *device;
    yoke_status status = yoke_device_open(argv[1], NULL, &device);
    if (status == YOKE_ENODEV && strcmp(argv[1], "host") && strcmp(argv[1], "reference")) {
        printf("ok 1 - conformance of %s # SKIP %s\n1..1\n", argv[1], yoke_last_error());
        return 0;
    }
    if (status) return finish(&tap, status);
    int n_fail = 0;
    if (argc > 2 && !strcmp(argv[2], "chosen")) {
        options.variant = "(chosen)";
        argv++, argc--;
    }
    tap.device = device;
    for (int op = 0; op < YOKE_N_OPS; op++)
        for (int i = 2; i < argc || i == 2; i++) {
            options.op = argv[i];
            if (conform_selected(&options, (enum yoke_op_id)op)) tap.asked |= UINT64_C(1) << op;
        }
    for (int i = 2; !status && (i < argc || i == 2); i++) { /* all ops if the command line names none */
        options.op = argv[i];
        status = conform_run(device, &options, on_line, &tap, &summary);
        n_fail += summary.n_fail;
    }
    if (!status) report_offer(&tap);
    if (!status && !options.variant) report_gaps(&tap, options.full);
    const int code = finish(&tap, status);
    yoke_device_close(device);
    return code || n_fail;
}
