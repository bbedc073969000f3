/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yoke parity: compare every layout of a list with one host rank. A layout says how the model and the batch
 * are divided among ranks.
 */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <yoke/comm.h>

#include "cli/cli.h"
#include "cli/train/plan_model.h"
#include "cli/train/plan_source.h"
#include "core/base/base.h"
#include "train/parity/parity.h"
#include "train/trainer/trainer.h"
#include "cli/options/json_values.h"

enum { LONGEST_LIST = 1 << 20 };

static void show_parity_progress(void *context, int n_done, int n, const char *text)
{
    (void)context;
    cli_progress_now("%s", text);
    cli_progress_at(n_done, n);
}

/* Read the file's text, and check that its layouts are valid. */
static yoke_status read_list(const char *path, char **text_out)
{
    struct yokei_parity_list list = { 0, 0, NULL };
    void *data;
    size_t bytes;
    yoke_status status = yokei_file_read_as(path, YOKE_ECONFIG, LONGEST_LIST, &data,
                                            &bytes); /* a zero byte follows the data */
    if (status) return yoke_fail_context(status, "--layouts is neither quick nor all, and as a file");
    status = strlen(data) == bytes
                 ? YOKE_OK
                 : yoke_fail(YOKE_ECONFIG, "%s: byte %zu is 0: this is no text", path, strlen(data));
    if (!status) status = yokei_parity_parse(data, path, &list);
    yokei_parity_list_free(&list);
    if (status)
        free(data);
    else
        *text_out = data;
    return status;
}

static int64_t n_blocks(const struct yokei_parity_config *c)
{
    return yokei_model_n_layers(yokei_model_of(&c->model));
}

/* Rank 0 reads the file, and sends its text to the other ranks. */
static yoke_status choose_layouts(const struct cli_context *context, const struct yokei_parity_config *c,
                                  struct yokei_parity_list *list)
{
    const char *name = cli_text(context->options, "layouts");
    const struct yoke_trainer_config world = { .comm = c->comm, .control = c->control };
    const bool all = !strcmp(name, "all");
    char *text = NULL;
    if (all || !strcmp(name, "quick")) return yokei_parity_built_in(all, context->size, n_blocks(c), list);
    yoke_status status = context->rank == 0 ? read_list(name, &text) : YOKE_OK;
    if (context->size > 1) status = yokei_ranks_all_well(&world, status);
    int64_t length = text ? (int64_t)strlen(text) : 0;
    if (!status && context->size > 1)
        status = yoke_broadcast(&length, &length, 1, YOKE_I64, 0, c->control, NULL);
    if (!status && !text && !(text = calloc(1, (size_t)length + 1)))
        status = yoke_fail(YOKE_ENOMEM, "%s: no host memory for %lld bytes", name, (long long)length);
    if (!status && context->size > 1 && length)
        status = yoke_broadcast(text, text, (size_t)length, YOKE_U8, 0, c->control, NULL);
    if (!status) status = yokei_parity_parse(text, name, list);
    free(text);
    return status;
}

/* ---- results ---- */

struct summary {
    int held, failed, left_out, layouts;
    double gradient, loss;
};

static struct summary sum_up(const struct yokei_parity_list *list, const struct yokei_parity_result *r, int n)
{
    struct summary s = { 0 };
    char why[1024];
    s.layouts = list->n;
    for (int i = 0; i < n; i++) {
        const bool ran = r[i].state == YOKEI_PARITY_RAN,
                   good = yokei_parity_passed(&r[i], r, list, why, sizeof why);
        s.left_out += !ran;
        s.held += ran && good;
        s.failed += !good;
        if (!ran) continue;
        s.gradient = fmax(s.gradient, fmax(r[i].gradient.ratio, r[i].against_f32.ratio));
        s.loss = fmax(s.loss, r[i].loss.ratio);
    }
    return s;
}

static const char *bits_word(const struct yokei_parity_result *r)
{
    return r->apart.ratio > 0 ? "APART" : r->like < 0 ? "-" : r->same_bits ? "same" : "OTHER";
}

static void show_results(const struct yokei_parity_list *list, const struct yokei_parity_result *r, int n)
{
    const struct summary s = sum_up(list, r, n);
    char why[1024];
    int width = 6;
    for (int i = 0; i < list->n; i++) width = YOKE_MAX(width, (int)strlen(list->item[i].text));
    printf(
        "Ratios to the gates: at most 1 passes. \"same\": the bits of an earlier line that differs in nothing but schedule, recomputation or ZeRO.\n\n");
    printf("%-*s  prec  ranks  gradients   f32's  losses  bits   worst tensor\n", width, "layout");
    for (int i = 0; i < n; i++) {
        if (r[i].state == YOKEI_PARITY_LEFT_OUT) continue;
        const struct yokei_parity_worst *g = r[i].gradient.ratio >= r[i].against_f32.ratio
                                                 ? &r[i].gradient
                                                 : &r[i].against_f32;
        const int last = r[i].from + yokei_parity_n_ranks(&list->item[r[i].layout]) - 1;
        char ranks[32], f32[32] = "-";
        yokei_text(ranks, sizeof ranks, last > r[i].from ? "%d-%d" : "%d", r[i].from, last);
        if (r[i].precision != YOKE_F32) yokei_text(f32, sizeof f32, "%.3f", r[i].against_f32.ratio);
        printf("%-*s  %-4s  %-5s  %9.3f  %6s  %6.3f  %-5s  %s, step %d, rank %d\n", width,
               list->item[r[i].layout].text, yoke_dtype_name(r[i].precision), ranks, r[i].gradient.ratio, f32,
               r[i].loss.ratio, bits_word(&r[i]), g->ratio > 0 ? g->where : "none", g->step, g->rank);
    }
    for (int i = 0; i < n; i++)
        if (r[i].state == YOKEI_PARITY_LEFT_OUT)
            printf("left out: %s in %s: %s\n", list->item[r[i].layout].text, yoke_dtype_name(r[i].precision),
                   r[i].why);
    for (int i = 0; i < n; i++)
        if (!yokei_parity_passed(&r[i], r, list, why, sizeof why)) printf("FAILED: %s\n", why);
    printf(
        "\n%d layouts, %d runs: %d held, %d failed, %d left out; worst ratio of gradients %.3f, of losses %.3f\n",
        s.layouts, n, s.held, s.failed, s.left_out, s.gradient, s.loss);
}

static json_t *worst_json(const struct yokei_parity_worst *w)
{
    return json_pack("{s:o,s:i,s:i,s:s}", "ratio", isfinite(w->ratio) ? json_real(w->ratio) : json_null(),
                     "step", w->step, "rank", w->rank, "at", w->where);
}

static yoke_status results_json(const struct yokei_parity_config *c, const struct yokei_parity_list *list,
                                const struct yokei_parity_result *r, int n)
{
    const struct summary s = sum_up(list, r, n);
    json_t *root = json_pack("{s:i,s:s,s:I,s:I,s:I,s:I,s:I,s:i,s:i,s:i,s:i,s:o}", "schema", 1, "version",
                             yoke_version(), "blocks", (json_int_t)n_blocks(c), "batch", (json_int_t)c->batch,
                             "sequence", (json_int_t)c->sequence, "steps", (json_int_t)c->steps, "seed",
                             (json_int_t)c->seed, "layouts", s.layouts, "held", s.held, "failed", s.failed,
                             "left_out", s.left_out, "runs", json_array());
    for (int i = 0; i < n; i++) {
        char why[1024] = "";
        const bool ran = r[i].state == YOKEI_PARITY_RAN,
                   good = yokei_parity_passed(&r[i], r, list, why, sizeof why);
        json_t *o = json_pack("{s:s,s:s,s:s,s:o}", "layout", list->item[r[i].layout].text, "precision",
                              yoke_dtype_name(r[i].precision), "verdict",
                              !ran   ? "left out"
                              : good ? "held"
                                     : "failed",
                              "why", cli_json_text(ran ? why : r[i].why));
        if (o && ran) {
            json_object_set_new(o, "first_rank", json_integer(r[i].from));
            json_object_set_new(o, "ranks", json_integer(yokei_parity_n_ranks(&list->item[r[i].layout])));
            json_object_set_new(o, "gradients", worst_json(&r[i].gradient));
            json_object_set_new(o, "gradients_against_fp32",
                                r[i].precision == YOKE_F32 ? json_null() : worst_json(&r[i].against_f32));
            json_object_set_new(o, "losses", worst_json(&r[i].loss));
            json_object_set_new(o, "ranks_alike", json_boolean(!(r[i].apart.ratio > 0)));
            json_object_set_new(o, "same_bits", r[i].like < 0 ? json_null() : json_boolean(r[i].same_bits));
            json_object_set_new(o, "seconds", json_real(r[i].seconds));
        }
        if (o) json_array_append_new(json_object_get(root, "runs"), o);
    }
    return cli_json_print(root, "yoke parity");
}

/* The result is the same on all ranks, because each rank has all results. */
static yoke_status verdict(const struct yokei_parity_list *list, const struct yokei_parity_result *r, int n)
{
    const struct summary s = sum_up(list, r, n);
    char why[1024];
    for (int i = 0; i < n; i++)
        if (!yokei_parity_passed(&r[i], r, list, why, sizeof why))
            return yoke_fail(YOKE_ENUMERIC, "parity: %d of %d runs failed; the first: %s", s.failed,
                             s.held + s.failed, why);
    if (!s.held)
        return yoke_fail(YOKE_ECONFIG, "parity: none of %d runs fits; the first was left out because: %s", n,
                         n ? r[0].why : "");
    return YOKE_OK;
}

static yoke_status set_up_parity(const struct cli_context *context, struct yokei_parity_config *c)
{
    const struct cli_options *o = context->options;
    struct yoke_comm_config gradients = YOKE_COMM_CONFIG_INIT, control = YOKE_COMM_CONFIG_INIT;
    yoke_dtype precision;
    YOKE_TRY(cli_plan_model(cli_text(o, "model"), &c->model));
    yokei_model_set_layers(&c->model, cli_int(o, "blocks"));
    c->batch = cli_int(o, "batch");
    c->sequence = cli_int(o, "sequence");
    c->steps = cli_int(o, "steps");
    c->seed = (uint64_t)cli_int(o, "seed");
    for (int i = 0; i < cli_list_count(o, "precision"); i++) {
        char name[16];
        YOKE_TRY(yoke_dtype_parse(cli_list_item(o, "precision", i, name, sizeof name), &precision));
        c->precisions[precision] = true;
    }
    YOKE_TRY(yoke_device_open(context->device ? context->device : cli_text(o, "device"), NULL, &c->device));
    if (context->size == 1) return YOKE_OK;
    gradients.name = "layouts";
    control.name = "control";
    YOKE_TRY(yoke_comm_create(MPI_COMM_WORLD, c->device, &gradients, &c->comm));
    YOKE_TRY(yoke_comm_error(c->comm)); /* a rank may have failed in the last steps of the creation */
    return yoke_comm_create(MPI_COMM_WORLD, NULL, &control, &c->control);
}

static yoke_status parity(const struct cli_context *context, struct yokei_parity_config *c)
{
    struct yokei_parity_list list = { 0, 0, NULL };
    struct yokei_parity_result *results = NULL;
    int n = 0;
    YOKE_TRY(set_up_parity(context, c));
    YOKE_TRY(choose_layouts(context, c, &list));
    c->progress = show_parity_progress;
    cli_progress_begin("parity on %d rank%s", context->size, context->size > 1 ? "s" : "");
    yoke_status status = yokei_parity_run(c, &list, &results, &n);
    cli_progress_end();
    if (!status && context->rank == 0 && cli_flag(context->options, "json"))
        status = results_json(c, &list, results, n);
    else if (!status && context->rank == 0)
        show_results(&list, results, n);
    if (!status) status = verdict(&list, results, n);
    free(results);
    yokei_parity_list_free(&list);
    return status;
}

yoke_status cli_parity(const struct cli_context *context)
{
    struct yokei_parity_config c = { 0 };
    yoke_status status = parity(context, &c);
    /*
     * After an error the other ranks may be gone. So nothing that waits for them is called. The process ends
     * anyway.
     */
    if (!status && c.control) status = yoke_comm_destroy(c.control);
    if (!status && c.comm) status = yoke_comm_destroy(c.comm);
    return status ? status : yoke_device_close(c.device);
}
