/* SPDX-License-Identifier: Apache-2.0 */
/* yoke ckpt: show, check and convert checkpoints. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/train/plan_source.h"
#include "core/base/base.h"
#include "train/checkpoint/checkpoint.h"
#include "train/exchange/convert.h"
#include "cli/options/json_values.h"

static const char *const STATES[] = { "complete", "incomplete", "leftover" };

static yoke_status need_words(const struct cli_context *context, const char *verb, const char *what, int n)
{
    if (context->n_words == n) return YOKE_OK;
    return yoke_fail(YOKE_EINVAL, "yoke ckpt %s: give %s, and nothing else", verb, what);
}

static yoke_status print_root(json_t *root) { return cli_json_print(root, "yoke ckpt"); }

static json_t *list_as_json(const char *dir, const struct yokei_checkpoint_entry *list, size_t n)
{
    json_t *entries = json_array();
    const char *newest = NULL;
    for (size_t i = 0; i < n; i++) {
        const struct yokei_checkpoint_entry *e = &list[i];
        const bool complete = e->state == YOKEI_CHECKPOINT_COMPLETE;
        if (complete) newest = e->name;
        json_array_append_new(entries,
                              json_pack("{s:s, s:I, s:s, s:o, s:o, s:o, s:o}", "name", e->name, "step",
                                        (json_int_t)e->step, "state", STATES[e->state], "tokens",
                                        complete ? json_integer((json_int_t)e->tokens) : json_null(), "bytes",
                                        complete ? json_integer((json_int_t)e->bytes) : json_null(),
                                        "seconds", complete ? json_real(e->seconds) : json_null(), "why",
                                        complete ? json_null() : cli_json_text(e->why)));
    }
    return json_pack("{s:i, s:o, s:o, s:o}", "schema", 1, "folder", cli_json_text(dir), "newest",
                     newest ? json_string(newest) : json_null(), "checkpoints", entries);
}

yoke_status cli_ckpt_ls(const struct cli_context *context)
{
    struct yokei_checkpoint_entry *list = NULL;
    size_t n = 0;
    YOKE_TRY(need_words(context, "ls", "one folder of checkpoints", 1));
    const char *dir = context->words[0];
    if (!yokei_is_folder(dir)) return yoke_fail(YOKE_EDATA, "%s: there is no such folder", dir);
    YOKE_TRY(yokei_checkpoint_list(dir, &list, &n));
    yoke_status status = YOKE_OK;
    if (cli_flag(context->options, "json")) {
        status = print_root(list_as_json(dir, list, n));
        free(list);
        return status;
    }
    for (size_t i = 0; i < n; i++) {
        const struct yokei_checkpoint_entry *e = &list[i];
        if (e->state == YOKEI_CHECKPOINT_COMPLETE)
            printf("%-16s  step %-9lld  %12lld tokens  %10.1f MiB  complete\n", e->name, (long long)e->step,
                   (long long)e->tokens, (double)e->bytes / 1048576.0);
        else
            printf("%-16s  %s: %s\n", e->name, STATES[e->state], e->why);
    }
    if (!n) printf("%s: no checkpoints\n", dir);
    free(list);
    return YOKE_OK;
}

static void show_manifest(const char *folder, const struct yokei_manifest *m)
{
    const struct yokei_plan *p = &m->plan;
    char model[256];
    int64_t bytes = 0;
    yokei_model_describe(yokei_plan_model(p), model, sizeof model);
    for (int64_t i = 0; i < m->n_files; i++) bytes += m->files[i].bytes;
    printf("checkpoint       %s (format %lld, by yoke %s)\n", folder, (long long)m->version, m->yoke);
    printf("step             %lld of %lld (%lld optimizer steps, %.1f s)\n", (long long)m->step,
           (long long)p->steps, (long long)m->optimizer_step, m->seconds);
    printf(
        "data             %lld tokens seen, next sample %lld, order %s, seed %llu, hash %s, validation share %g\n",
        (long long)m->tokens, (long long)m->data_next_sample, m->data_order, (unsigned long long)m->seed,
        p->data_hash, p->validation_share);
    printf("loss scale       %g (%lld good steps)\n", m->loss_scale, (long long)m->good_steps);
    printf("model            %s\n", model);
    yoke_dtype precision = YOKE_F32;
    yoke_dtype_parse(p->precision, &precision);
    printf("plan             %s, batch %lld, sequence %lld, learning rate %g\n", yoke_dtype_name(precision),
           (long long)p->batch, (long long)p->sequence, p->learning_rate);
    for (int64_t r = 0; r < p->n_ranks; r++)
        printf("rank %-2lld %-9s %lld of %lld sequences a step\n", (long long)r, p->ranks[r].device,
               (long long)p->ranks[r].samples, (long long)p->batch);
    printf("files            %lld, %.1f MiB, %lld tensors\n", (long long)m->n_files,
           (double)bytes / 1048576.0, (long long)m->n_tensors);
    for (int64_t i = 0; i < m->n_files; i++)
        printf("  %-40s %12lld bytes\n", m->files[i].name, (long long)m->files[i].bytes);
}

yoke_status cli_ckpt_show(const struct cli_context *context)
{
    char folder[4096], path[4200];
    struct yokei_manifest m;
    void *text;
    size_t bytes;
    YOKE_TRY(need_words(context, "show", "one checkpoint, or a folder of them", 1));
    YOKE_TRY(yokei_checkpoint_locate(context->words[0], folder, sizeof folder));
    YOKE_TRY(yokei_manifest_read(folder, &m));
    yoke_status status = YOKE_OK;
    if (cli_flag(context->options, "json")) {
        yokei_text(path, sizeof path, "%s/" YOKEI_MANIFEST_NAME, folder);
        status = yokei_file_read_as(path, YOKE_EDATA, (size_t)1 << 30, &text, &bytes);
        if (!status) fwrite(text, 1, bytes, stdout), free(text);
    } else {
        show_manifest(folder, &m);
    }
    yokei_manifest_free(&m);
    return status;
}

yoke_status cli_ckpt_verify(const struct cli_context *context)
{
    char folder[4096];
    struct yokei_checkpoint *c = NULL;
    int64_t bytes = 0;
    YOKE_TRY(need_words(context, "verify", "one checkpoint, or a folder of them", 1));
    YOKE_TRY(yokei_checkpoint_locate(context->words[0], folder, sizeof folder));
    cli_progress_begin("ckpt verify");
    yoke_status status = yokei_checkpoint_open(folder, 0, &c);
    cli_progress_end();
    if (status) return status;
    for (int64_t i = 0; i < c->manifest.n_files; i++) bytes += c->manifest.files[i].bytes;
    if (cli_flag(context->options, "json"))
        status = print_root(json_pack("{s:i, s:o, s:I, s:I, s:I}", "schema", 1, "checkpoint",
                                      cli_json_text(folder), "step", (json_int_t)c->manifest.step, "tensors",
                                      (json_int_t)c->manifest.n_tensors, "bytes", (json_int_t)bytes));
    else
        printf("%s: step %lld, %lld tensors, %lld bytes: every checksum is right\n", folder,
               (long long)c->manifest.step, (long long)c->manifest.n_tensors, (long long)bytes);
    yokei_checkpoint_close(c);
    return status;
}

yoke_status cli_ckpt_convert(const struct cli_context *context)
{
    yoke_dtype dtype;
    YOKE_TRY(need_words(context, "convert", "a checkpoint and the folder to make", 2));
    YOKE_TRY(yoke_dtype_parse(cli_text(context->options, "dtype"), &dtype));
    cli_progress_begin("ckpt convert");
    const yoke_status status = yokei_model_convert(context->words[0], context->words[1], dtype,
                                                   cli_flag(context->options, "single-file"));
    cli_progress_end();
    if (status) return status;
    cli_note("%s: written as %s", context->words[1], yoke_dtype_name(dtype));
    return YOKE_OK;
}
