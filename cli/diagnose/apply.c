/* SPDX-License-Identifier: Apache-2.0 */
/* --apply: the changes of the causes as a file of options for yoke train -c. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/diagnose/diagnose.h"
#include "core/base/base.h"

/* The number of steps between saves that the run was asked for. 0: it saved by time, or it is unknown. */
static long long save_every(const struct diagnose_run *run)
{
    const char *text = report_record_text(&run->record, "options", "save-every");
    return text ? strtoll(text, NULL, 10) : 0;
}

/* Write the lines of one cause. False: no option makes this change. */
static bool put(const struct diagnose_run *run, const struct yokei_cause *c, FILE *to)
{
    switch (c->change) {
    case YOKEI_CHANGE_MICRO_BATCH: fprintf(to, "micro-batch: %.0f\n", c->value); return true;
    case YOKEI_CHANGE_BUCKET_BYTES: fprintf(to, "bucket-bytes: %.0f\n", c->value); return true;
    case YOKEI_CHANGE_OVERLAP:
        fputs("overlap: \"on\"\n", to);
        if (c->value > 0) fprintf(to, "bucket-bytes: %.0f\n", c->value);
        return true;
    case YOKEI_CHANGE_SHARES: fprintf(to, "shares: \"%s\"\n", c->list); return true;
    case YOKEI_CHANGE_LAYERS: fprintf(to, "layers: \"%s\"\n", c->list); return true;
    case YOKEI_CHANGE_TENSOR_SHARES: fprintf(to, "tensor-shares: \"%s\"\n", c->list); return true;
    case YOKEI_CHANGE_SAVE_EVERY:
        if (save_every(run) < 1) return false;
        fprintf(to, "save-every: %.0f\n", fmin((double)save_every(run) * c->value, 1e9));
        return true;
    default: return false;
    }
}

static yoke_status write_changes(void *context, FILE *to)
{
    const struct diagnose_run *run = context;
    int n = 0;
    bool taken[YOKEI_CHANGE_THREADS + 1] = { false };
    fputs(
        "# From yoke diagnose. Give this file to yoke train -c, with the options of the run that it does not "
        "name.\n",
        to);
    for (int i = 0; i < run->found.n; i++) {
        const struct yokei_cause *c = &run->found.cause[i];
        const bool bucket = c->change == YOKEI_CHANGE_BUCKET_BYTES
                            || (c->change == YOKEI_CHANGE_OVERLAP && c->value > 0);
        fprintf(to, "# %s, %.4g ms of a step\n", yokei_diagnose_cause_names[c->kind], 1e3 * c->seconds);
        if ((bucket && taken[YOKEI_CHANGE_BUCKET_BYTES]) || taken[c->change]) {
            fputs("# its change is the same option as above\n", to);
        } else if (put(run, c, to)) {
            n++;
            taken[c->change] = true;
            taken[YOKEI_CHANGE_BUCKET_BYTES] = taken[YOKEI_CHANGE_BUCKET_BYTES] || bucket;
            taken[YOKEI_CHANGE_NONE] = false;
        } else {
            fprintf(to, "# no option of yoke train makes this change: %s\n", c->remedy);
        }
    }
    return n ? YOKE_OK
             : yoke_fail(YOKE_EUNSUPPORTED, "no cause has a change that an option of yoke train makes%s",
                         run->found.n ? "; the lines \"change\" say what to do"
                                      : ", because there is no cause");
}

yoke_status diagnose_apply(const struct diagnose_run *run, const char *path)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);
    if (!to) return yoke_fail(YOKE_ENOMEM, "yoke diagnose: no memory for %s", path);
    struct diagnose_run copy = *run;
    yoke_status status = write_changes(&copy, to);
    if (fclose(to) && !status) status = yoke_fail(YOKE_ENOMEM, "yoke diagnose: no memory for %s", path);
    if (status)
        status = yoke_fail(status, "%s; %s was not written", yoke_last_error(), path);
    else
        status = yokei_file_write(path, text, bytes);
    free(text);
    return status;
}
