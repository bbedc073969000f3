/* SPDX-License-Identifier: Apache-2.0 */
/* yoke sample: a model in a folder continues a text. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <yoke/comm.h>

#include "cli/cli.h"
#include "core/base/base.h"
#include "train/exchange/model_folder.h"
#include "train/plan/run_plan.h"
#include "train/run/sample.h"
#include "cli/options/json_values.h"

/* The state of the verb. It is the same on all ranks, except `prints`. */
struct sampler {
    const struct cli_context *context;
    struct yokei_model_folder folder;
    struct yokei_sampling how;
    struct yokei_ids prompt;
    const char *text; /* the prompt */
    yoke_device *device;
    yoke_comm *comm, *control;
    yoke_model *model;
    yoke_trainer *trainer;
    int *widths; /* [pp] ranks of each stage */
    int32_t *drawn;
    int64_t n;
    double seconds;
    bool prints; /* whether this rank prints the text as it comes */
    struct cli_printer printer;
};

static yoke_status write_bytes(struct sampler *s, const void *bytes, size_t n, bool last)
{
    cli_put_text(&s->printer, bytes, n, last);
    return fflush(stdout) || ferror(stdout) ? yoke_fail(YOKE_EIO, "stdout: cannot write the text") : YOKE_OK;
}

static yoke_status show_token(void *context, int32_t token)
{
    struct sampler *s = context;
    size_t n = 0;
    const unsigned char *bytes = yokei_sample_bytes(s->folder.bpe, token, &n);
    return s->prints && bytes ? write_bytes(s, bytes, n, false) : YOKE_OK;
}

/*
 * The context is only as long as the text becomes, because every token costs a pass over the whole context.
 */
static yoke_status create_trainer(struct sampler *s)
{
    const struct cli_options *o = s->context->options;
    struct yoke_trainer_config c = YOKE_TRAINER_CONFIG_INIT;
    YOKE_TRY(yoke_dtype_parse(cli_text(o, "precision"), &c.precision));
    c.batch = c.micro_batch = 1;
    c.sequence = YOKE_MIN((int64_t)s->prompt.n + s->how.n, s->folder.n_positions);
    c.seed = s->how.seed;
    c.data = 1;
    c.pipeline = (int)cli_int(o, "pp");
    c.stage_tensor = s->widths;
    c.memory_limit = cli_bytes(o, "memory-limit");
    c.comm = s->comm;
    c.control = s->control;
    YOKE_TRY(yokei_model_folder_model(&s->folder, &s->model));
    YOKE_TRY(yoke_trainer_create(s->model, s->device, &c, &s->trainer));
    return yokei_model_folder_load(&s->folder, s->trainer);
}

/* Read --tp: a number for all stages, or a number for each stage. */
static yoke_status read_widths(struct sampler *s)
{
    const char *text = cli_text(s->context->options, "tp");
    const int n_stages = (int)cli_int(s->context->options, "pp"), n = strpbrk(text, ",:") ? n_stages : 1;
    int64_t *list, wanted = 0;
    YOKE_TRY(yokei_plan_numbers("--tp", text, n, &list));
    s->widths = calloc((size_t)n_stages, sizeof *s->widths);
    for (int i = 0; i < n_stages && s->widths; i++) {
        s->widths[i] = (int)YOKE_MIN(list[n > 1 ? i : 0], 100000);
        wanted += s->widths[i];
    }
    free(list);
    if (!s->widths) return yoke_fail(YOKE_ENOMEM, "sample: no host memory for %d stages", n_stages);
    if (wanted == s->context->size) return YOKE_OK;
    return yoke_fail(
        YOKE_ECONFIG,
        "sample: there are %d ranks, but --pp %d with --tp %s takes %lld: give as many ranks (yoke run -n %lld) as share the model",
        s->context->size, n_stages, text, (long long)wanted, (long long)wanted);
}

static yoke_status open_sampler(struct sampler *s)
{
    const struct cli_context *context = s->context;
    struct yoke_comm_config activations = YOKE_COMM_CONFIG_INIT, control = YOKE_COMM_CONFIG_INIT;
    YOKE_TRY(read_widths(s));
    YOKE_TRY(yoke_device_open(context->device ? context->device : cli_text(context->options, "device"), NULL,
                              &s->device));
    if (context->size == 1) return YOKE_OK;
    activations.name = "activations";
    control.name = "control";
    YOKE_TRY(yoke_comm_create(MPI_COMM_WORLD, s->device, &activations, &s->comm));
    YOKE_TRY(yoke_comm_error(s->comm)); /* a rank may have failed in the last steps of the creation */
    return yoke_comm_create(MPI_COMM_WORLD, NULL, &control, &s->control);
}

static yoke_status sample_json(const struct sampler *s)
{
    json_t *prompt = json_string(s->text); /* NULL if the prompt is not UTF-8 */
    json_t *root = json_pack("{s:i,s:o,s:i,s:b,s:f,s:o}", "schema", 1, "prompt",
                             prompt ? prompt : json_null(), "prompt_tokens", (int)s->prompt.n, "ended",
                             s->n < s->how.n, "seconds", s->seconds, "tokens", json_array());
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    if (!root || !to) return yoke_fail(YOKE_ENOMEM, "sample: no host memory for the results");
    for (int64_t i = 0; i < s->n; i++) {
        size_t n = 0;
        const unsigned char *bytes = yokei_sample_bytes(s->folder.bpe, s->drawn[i], &n);
        if (bytes) fwrite(bytes, 1, n, to);
        json_array_append_new(json_object_get(root, "tokens"), json_integer(s->drawn[i]));
    }
    fclose(to);
    json_t *value = json_stringn(text, size); /* the text may hold any bytes; JSON holds only UTF-8 */
    json_object_set_new(root, "text", value ? value : json_null());
    free(text);
    return cli_json_print(root, "yoke sample");
}

static yoke_status draw_sample(struct sampler *s)
{
    const struct cli_options *o = s->context->options;
    const bool first = s->context->rank == 0;
    if (!cli_text(o, "init"))
        return yoke_fail(YOKE_EINVAL, "sample: give the model's folder with --init DIR");
    s->text = cli_text(o, "prompt") && *cli_text(o, "prompt") ? cli_text(o, "prompt") : "\n";
    s->prints = first && !cli_flag(o, "json");
    cli_progress_begin("sample from %s", cli_text(o, "init"));
    cli_progress_now("loading the model");
    YOKE_TRY(yokei_model_folder_open(cli_text(o, "init"), cli_text(o, "tokenizer"), &s->folder));
    YOKE_TRY(yokei_sample_encode(s->folder.bpe, s->text, strlen(s->text), YOKEI_BPE_TEMPLATE, &s->prompt));
    s->how = (struct yokei_sampling){ .n = cli_int(o, "max-tokens"),
                                      .temperature = cli_real(o, "temperature"),
                                      .top_k = cli_int(o, "top-k"),
                                      .seed = (uint64_t)cli_int(o, "seed"),
                                      .n_stop = s->folder.n_stop,
                                      .bpe = s->folder.bpe,
                                      .context = s,
                                      .report = show_token };
    memcpy(s->how.stop, s->folder.stop, sizeof s->how.stop);
    s->drawn = malloc((size_t)s->how.n * sizeof *s->drawn);
    if (!s->drawn)
        return yoke_fail(YOKE_ENOMEM, "sample: no host memory for %lld tokens", (long long)s->how.n);
    YOKE_TRY(open_sampler(s));
    YOKE_TRY(create_trainer(s));
    if (s->prints)
        cli_progress_end(); /* the text appears as it is made */
    else
        cli_progress_now("making the text");
    if (s->prints) YOKE_TRY(write_bytes(s, s->text, strlen(s->text), false));
    const uint64_t begun = yokei_now_ns();
    const yoke_status status = yokei_sample_draw(s->trainer, &s->how, &s->prompt, s->drawn, &s->n);
    s->seconds = (double)(yokei_now_ns() - begun) * 1e-9;
    if (s->prints) YOKE_TRY(write_bytes(s, "\n", 1, true));
    YOKE_TRY(status);
    cli_progress_end();
    if (first && !s->prints) YOKE_TRY(sample_json(s));
    if (first)
        cli_note("%lld tokens%s in %.2f s (%.1f tokens/s, %zu tokens of prompt)", (long long)s->n,
                 s->n < s->how.n ? " to the end of the text" : "", s->seconds,
                 s->seconds > 0 ? (double)s->n / s->seconds : 0.0, s->prompt.n);
    return YOKE_OK;
}

yoke_status cli_sample(const struct cli_context *context)
{
    struct sampler s = { .context = context };
    const yoke_status status = draw_sample(&s);
    /*
     * After a fault the other ranks may be gone. So nothing that waits for them is called. The process ends
     * anyway.
     */
    yoke_status end = status;
    if (!end) end = yoke_trainer_destroy(s.trainer);
    if (!end) end = yoke_model_destroy(s.model);
    if (!end && s.control) end = yoke_comm_destroy(s.control);
    if (!end && s.comm) end = yoke_comm_destroy(s.comm);
    if (!end) end = yoke_device_close(s.device);
    yokei_model_folder_close(&s.folder);
    free(s.prompt.id);
    free(s.drawn);
    free(s.widths);
    return end;
}
