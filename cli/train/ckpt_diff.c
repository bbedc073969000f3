/* SPDX-License-Identifier: Apache-2.0 */
/* yoke ckpt diff: compare two checkpoints, or find the first step at which two runs' checkpoints differ. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/train/plan_source.h"
#include "core/base/base.h"
#include "train/checkpoint/checkpoint.h"
#include "cli/options/json_values.h"

struct comparison {
    char a[4096], b[4096]; /* paths of the two checkpoints that are compared */
    int64_t step;          /* step of checkpoint a */
    int64_t first;         /* first step at which the manifests differ; -1: none */
    char metadata[4096];   /* how the manifests differ at that step */
    json_t *tensors;       /* array of the tensors that differ */
    int n_same, n_different, n_problems;
};

static bool same_tensors(const struct yokei_manifest *a, const struct yokei_manifest *b)
{
    if (a->n_tensors != b->n_tensors) return false;
    for (int64_t i = 0; i < a->n_tensors; i++) {
        int64_t j = 0;
        while (j < b->n_tensors && strcmp(a->tensors[i].name, b->tensors[j].name)) j++;
        if (j == b->n_tensors || strcmp(a->tensors[i].xxh3, b->tensors[j].xxh3)) return false;
    }
    return true;
}

/* Compare one pair of checkpoints. *part_out: they differ in tensors or manifests. */
static yoke_status compare_pair(struct comparison *c, const char *a, const char *b, bool *part_out)
{
    struct yokei_manifest x, y;
    char text[sizeof c->metadata];
    YOKE_TRY(yokei_manifest_read(a, &x));
    yoke_status status = yokei_manifest_read(b, &y);
    if (status) {
        yokei_manifest_free(&x);
        return status;
    }
    const bool differs = yokei_manifest_differs(&x, &y, text, sizeof text);
    if (differs && c->first < 0) {
        c->first = x.step;
        memcpy(c->metadata, text, sizeof text);
    }
    *part_out = differs || !same_tensors(&x, &y);
    c->step = x.step;
    yokei_text(c->a, sizeof c->a, "%s", a);
    yokei_text(c->b, sizeof c->b, "%s", b);
    yokei_manifest_free(&x);
    yokei_manifest_free(&y);
    return YOKE_OK;
}

/*
 * Compare the steps that both folders have, in ascending order, up to the first step at which they differ.
 * Behind that step only manifests are compared.
 */
static yoke_status find_parting(struct comparison *c, const char *a, const char *b)
{
    struct yokei_checkpoint_entry *x = NULL, *y = NULL;
    size_t n = 0, m = 0;
    bool parted = false, any = false;
    yoke_status status = yokei_checkpoint_list(a, &x, &n);
    if (!status) status = yokei_checkpoint_list(b, &y, &m);
    struct comparison found = *c;
    for (size_t i = 0; i < n && !status; i++)
        for (size_t j = 0; j < m && !status; j++) {
            char p[4200], q[4200];
            bool part = false;
            if (x[i].step != y[j].step || x[i].state != YOKEI_CHECKPOINT_COMPLETE
                || y[j].state != YOKEI_CHECKPOINT_COMPLETE)
                continue;
            yokei_text(p, sizeof p, "%s/%s", a, x[i].name);
            yokei_text(q, sizeof q, "%s/%s", b, y[j].name);
            status = compare_pair(c, p, q, &part);
            any = true;
            if (!parted) found = *c;
            parted = parted || part;
        }
    free(x);
    free(y);
    YOKE_TRY(status);
    if (!any) return yoke_fail(YOKE_EDATA, "%s and %s have no step in common", a, b);
    found.first = c->first;
    memcpy(found.metadata, c->metadata, sizeof found.metadata);
    *c = found;
    return YOKE_OK;
}

static bool is_folder_of_checkpoints(const char *path)
{
    char manifest[4200];
    yokei_text(manifest, sizeof manifest, "%s/" YOKEI_MANIFEST_NAME, path);
    FILE *f = fopen(manifest, "r");
    if (f) fclose(f);
    return !f && yokei_is_folder(path);
}

static void note_tensor(void *context, const struct yokei_tensor_difference *d)
{
    struct comparison *c = context;
    if (d->problem)
        c->n_problems++;
    else if (d->n_different)
        c->n_different++;
    else
        c->n_same++;
    if (!d->problem && !d->n_different) return;
    json_array_append_new(c->tensors,
                          json_pack("{s:s, s:I, s:o, s:o, s:I, s:o}", "name", d->name, "different",
                                    (json_int_t)d->n_different, "largest", cli_json_real(d->largest),
                                    "relative", cli_json_real(d->relative), "at", (json_int_t)d->at,
                                    "problem", d->problem ? cli_json_text(d->problem) : json_null()));
}

static yoke_status compare_checkpoints(struct comparison *c)
{
    struct yokei_checkpoint *a = NULL, *b = NULL;
    YOKE_TRY(yokei_checkpoint_open(c->a, 0, &a));
    yoke_status status = yokei_checkpoint_open(c->b, 0, &b);
    if (!status) status = yokei_checkpoint_compare(a, b, c, note_tensor);
    yokei_checkpoint_close(a);
    yokei_checkpoint_close(b);
    return status;
}

static void show_differences(const struct comparison *c)
{
    size_t i;
    json_t *t;
    printf("%s\n%s\n", c->a, c->b);
    if (c->first >= 0) printf("metadata differ, first at step %lld:\n%s\n", (long long)c->first, c->metadata);
    if (json_array_size(c->tensors))
        printf("%-40s %12s %12s %12s\n", "tensor", "different", "max abs", "max rel");
    json_array_foreach(c->tensors, i, t)
    {
        const char *problem = json_string_value(json_object_get(t, "problem"));
        const json_t *largest = json_object_get(t, "largest"), *relative = json_object_get(t, "relative");
        if (problem)
            printf("%-40s %s\n", json_string_value(json_object_get(t, "name")), problem);
        else
            printf("%-40s %12lld %12.4g %12.4g\n", json_string_value(json_object_get(t, "name")),
                   (long long)json_integer_value(json_object_get(t, "different")),
                   json_is_real(largest) ? json_real_value(largest) : INFINITY,
                   json_is_real(relative) ? json_real_value(relative) : INFINITY);
    }
    if (!json_array_size(c->tensors))
        printf("step %lld: all %d tensors are identical\n", (long long)c->step, c->n_same);
    else
        printf("step %lld: %d tensors differ, %d are identical\n", (long long)c->step,
               c->n_different + c->n_problems, c->n_same);
}

static yoke_status differences_json(const struct comparison *c)
{
    json_t *lines = json_array();
    char copy[sizeof c->metadata], *rest = copy;
    memcpy(copy, c->metadata, sizeof copy);
    for (char *line; (line = strsep(&rest, "\n"));)
        if (*line) json_array_append_new(lines, cli_json_text(line));
    json_t *root = json_pack("{s:i, s:o, s:o, s:I, s:b, s:o, s:o, s:O}", "schema", 1, "a",
                             cli_json_text(c->a), "b", cli_json_text(c->b), "step", (json_int_t)c->step,
                             "identical", json_array_size(c->tensors) == 0 && c->first < 0,
                             "first_step_of_different_metadata",
                             c->first >= 0 ? json_integer((json_int_t)c->first) : json_null(), "metadata",
                             lines, "tensors", c->tensors);
    return cli_json_print(root, "yoke ckpt diff");
}

yoke_status cli_ckpt_diff(const struct cli_context *context)
{
    struct comparison *c = calloc(1, sizeof *c);
    bool part;
    yoke_status status = c ? YOKE_OK : yoke_fail(YOKE_ENOMEM, "no host memory");
    if (!status && context->n_words != 2)
        status = yoke_fail(YOKE_EINVAL,
                           "yoke ckpt diff: give two checkpoints, or two folders of them, and nothing else");
    if (!status) {
        const char *a = context->words[0], *b = context->words[1];
        char p[4096], q[4096];
        c->first = -1;
        c->tensors = json_array();
        cli_progress_begin("ckpt diff");
        if (is_folder_of_checkpoints(a) && is_folder_of_checkpoints(b)) {
            status = find_parting(c, a, b);
        } else {
            status = yokei_checkpoint_locate(a, p, sizeof p);
            if (!status) status = yokei_checkpoint_locate(b, q, sizeof q);
            if (!status) status = compare_pair(c, p, q, &part);
        }
        if (!status) status = compare_checkpoints(c);
        cli_progress_end();
        if (!status && cli_flag(context->options, "json"))
            status = differences_json(c);
        else if (!status)
            show_differences(c);
        if (!status && c->n_problems)
            status = yoke_fail(YOKE_EDATA,
                               "%d tensors cannot be compared: the checkpoints are of different models",
                               c->n_problems);
        json_decref(c->tensors);
    }
    free(c);
    return status;
}
