/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options that a plan fixes. Beside --plan or --resume such an option may only repeat the plan's value.
 * So one configuration file can serve the first start of a run and each later one.
 */
#include "cli/train/plan_fixed.h"

#include <stddef.h>
#include <string.h>

#include "cli/train/plan_model.h"
#include "core/base/base.h"

/* How an option's value is compared with the plan. */
enum kind {
    WHOLE, /* int64_t */
    FLAG,  /* int64_t, 0 or 1 */
    REAL,  /* double */
    WORD,  /* a text */
    TEXT,  /* a text; auto and none are the same as an empty text */
    MODEL,
    PRECISION,
    DROPOUT,
    LOSS_SCALE,
    TENSOR,
    SKIPS, /* ranges of samples */
    /* the plan holds the result of a choice, not the option's own value; so the option is refused */
    NEVER,
};
#define AT(member) offsetof(struct yokei_plan, member)

const struct cli_fixed_option cli_fixed_options[] = {
    { "model", MODEL, 0, CLI_FIXED_ALWAYS },
    { "precision", PRECISION, 0, CLI_FIXED_ALWAYS },
    { "batch", WHOLE, AT(batch), CLI_FIXED_ALWAYS },
    { "sequence", WHOLE, AT(sequence), CLI_FIXED_ALWAYS },
    { "seed", WHOLE, AT(seed), CLI_FIXED_ALWAYS },
    { "validation-share", REAL, AT(validation_share), CLI_FIXED_ALWAYS },
    { "budget-seconds", REAL, AT(budget_seconds), CLI_FIXED_ALWAYS },
    { "learning-rate", REAL, AT(learning_rate), CLI_FIXED_ALWAYS },
    { "min-learning-rate", REAL, AT(min_learning_rate), CLI_FIXED_ALWAYS },
    { "warmup", WHOLE, AT(warmup), CLI_FIXED_ALWAYS },
    { "weight-decay", REAL, AT(weight_decay), CLI_FIXED_ALWAYS },
    { "beta1", REAL, AT(beta1), CLI_FIXED_ALWAYS },
    { "beta2", REAL, AT(beta2), CLI_FIXED_ALWAYS },
    { "clip", REAL, AT(clip), CLI_FIXED_ALWAYS },
    { "dropout", DROPOUT, 0, CLI_FIXED_ALWAYS },
    { "loss-scale", LOSS_SCALE, 0, CLI_FIXED_ALWAYS },
    { "bucket-bytes", WHOLE, AT(bucket_bytes), CLI_FIXED_ALWAYS },
    { "skip-samples", SKIPS, AT(skip_samples), CLI_FIXED_IN_REPLAY }, /* --resume may add to them */
    { "steps", WHOLE, AT(steps), CLI_FIXED_IN_REPLAY },
    { "shares", NEVER, 0, CLI_FIXED_IN_REPLAY },
    { "micro-batch", NEVER, 0, CLI_FIXED_IN_REPLAY },
    { "dp", WHOLE, AT(data), CLI_FIXED_IN_REPLAY },
    { "pp", WHOLE, AT(pipeline), CLI_FIXED_IN_REPLAY },
    { "tp", TENSOR, 0, CLI_FIXED_IN_REPLAY },
    { "schedule", TEXT, AT(schedule), CLI_FIXED_IN_REPLAY },
    { "schedule-file", NEVER, 0, CLI_FIXED_IN_REPLAY },
    { "chunks", WHOLE, AT(chunks), CLI_FIXED_IN_REPLAY },
    { "layers", TEXT, AT(layers), CLI_FIXED_IN_REPLAY },
    { "recompute", TEXT, AT(recompute), CLI_FIXED_IN_REPLAY },
    { "tensor-shares", TEXT, AT(tensor_shares), CLI_FIXED_IN_REPLAY },
    { "sequence-parallel", FLAG, AT(sequence_parallel), CLI_FIXED_IN_REPLAY },
    { "zero", WHOLE, AT(zero), CLI_FIXED_IN_REPLAY },
    { "zero-shares", TEXT, AT(zero_shares), CLI_FIXED_IN_REPLAY },
    { "balance", WORD, AT(balance), CLI_FIXED_IN_REPLAY },
    { "placement", WORD, AT(placement), CLI_FIXED_IN_REPLAY },
    { NULL },
};

/* A value of the plan as text, and whether the option says the same. */
struct comparison {
    bool same;
    char planned[256];
};

static void compare_numbers(struct comparison *c, int64_t option, int64_t planned)
{
    c->same = option == planned;
    yokei_text(c->planned, sizeof c->planned, "%lld", (long long)planned);
}

static void compare_reals(struct comparison *c, double option, double planned)
{
    c->same = option == planned;
    yokei_text(c->planned, sizeof c->planned, "%.15g", planned);
}

static void compare_texts(struct comparison *c, const char *option, const char *planned, const char *empty)
{
    const bool is_empty = strcmp(option, "auto") == 0 || strcmp(option, "none") == 0;
    c->same = strcmp(is_empty ? "" : option, planned) == 0;
    yokei_text(c->planned, sizeof c->planned, "%s", *planned ? planned : empty);
}

/* Compare two models by the fields of `schema`, but not the dropout, which has an option of its own. */
static void compare_fields(struct comparison *c, const struct yokei_json_schema *schema, const void *option,
                           const void *planned)
{
    for (const struct yokei_json_field *f = schema->fields; f->key && c->same; f++) {
        const char *a = (const char *)option + f->offset, *b = (const char *)planned + f->offset;
        if (strstr(f->key, "pdrop") || strstr(f->key, "dropout")) continue;
        double x = 0, y = 0;
        if (f->type == YOKEI_JSON_I64)
            x = (double)*(const int64_t *)(const void *)a, y = (double)*(const int64_t *)(const void *)b;
        else if (f->type == YOKEI_JSON_F64)
            x = *(const double *)(const void *)a, y = *(const double *)(const void *)b;
        else if (f->type == YOKEI_JSON_BOOL)
            x = *(const bool *)(const void *)a, y = *(const bool *)(const void *)b;
        c->same = x == y;
        yokei_text(c->planned, sizeof c->planned, "a model with %s %.15g (not %.15g)", f->key, y, x);
    }
}

static yoke_status compare_models(struct comparison *c, const char *name, const struct yokei_plan *plan)
{
    struct yokei_model_config config;
    YOKE_TRY(cli_plan_model(name, &config));
    const struct yokei_model given = yokei_model_of(&config), planned = yokei_plan_model(plan);
    c->same = given.row == planned.row;
    yokei_text(c->planned, sizeof c->planned, "a %s", planned.row->name);
    if (c->same) compare_fields(c, &planned.row->kind->schema, given.config, planned.config);
    return YOKE_OK;
}

/* A model may have several dropouts, which the option sets alike. */
static void compare_dropout(struct comparison *c, double option, const struct yokei_plan *plan)
{
    const struct yokei_model model = yokei_plan_model(plan);
    const char *where;
    double first = 0, p;
    bool alike = true;
    char list[sizeof c->planned] = "";
    for (int i = 0; yokei_model_dropout(model, i, &p, &where); i++) {
        if (i == 0) first = p;
        alike = alike && p == first;
        yokei_text(list + strlen(list), sizeof list - strlen(list), "%s%g in %s", i ? ", " : "", p, where);
    }
    compare_reals(c, option, first);
    if (alike) return;
    c->same = false;
    yokei_text(c->planned, sizeof c->planned, "%s", list);
}

static void compare_loss_scales(struct comparison *c, double option, const struct yokei_plan *plan)
{
    const double usual = strcmp(plan->precision, "fp16") == 0 ? 65536 : 1;
    compare_reals(c, option, plan->loss_scale > 0 ? plan->loss_scale : usual);
}

static void compare_widths(struct comparison *c, const char *option, const struct yokei_plan *plan)
{
    char one[32];
    yokei_text(one, sizeof one, "%lld", (long long)plan->tensor);
    compare_texts(c, option, plan->stage_tensor[0] ? plan->stage_tensor : one, "");
}

static yoke_status compare_skips(struct comparison *c, const char *option, const struct yokei_plan *plan)
{
    struct yokei_skips skips;
    char text[YOKEI_SKIPS_BYTES];
    YOKE_TRY(yokei_skips_parse("--skip-samples", option, &skips));
    yokei_skips_text(&skips, text);
    compare_texts(c, text, plan->skip_samples, "none");
    return YOKE_OK;
}

static yoke_status compare_option(const struct cli_options *o, const struct cli_fixed_option *fixed,
                                  const struct yokei_plan *plan, struct comparison *c)
{
    const char *name = fixed->name, *text = cli_text(o, name);
    const void *at = (const char *)plan + fixed->offset;
    switch ((enum kind)fixed->kind) {
    case WHOLE: compare_numbers(c, cli_int(o, name), *(const int64_t *)at); break;
    case FLAG: compare_numbers(c, cli_flag(o, name), *(const int64_t *)at); break;
    case WORD:
        c->same = !strcmp(text, at);
        yokei_text(c->planned, sizeof c->planned, "%s", (const char *)at);
        break;
    case REAL: compare_reals(c, cli_real(o, name), *(const double *)at); break;
    case TEXT: compare_texts(c, text, at, strcmp(name, "recompute") ? "auto" : "none"); break;
    case MODEL: return compare_models(c, text, plan);
    case PRECISION:
        compare_texts(c, text,
                      !strcmp(plan->precision, "fp32")   ? "f32"
                      : !strcmp(plan->precision, "fp16") ? "f16"
                                                         : plan->precision,
                      "");
        break;
    case DROPOUT: compare_dropout(c, cli_real(o, name), plan); break;
    case LOSS_SCALE: compare_loss_scales(c, cli_real(o, name), plan); break;
    case TENSOR: compare_widths(c, text, plan); break;
    case SKIPS: return compare_skips(c, text, plan);
    case NEVER: c->same = false; break;
    }
    return YOKE_OK;
}

static yoke_status refuse_option(const struct cli_options *o, const struct cli_fixed_option *fixed,
                                 const struct comparison *c, const char *path)
{
    const char *name = fixed->name;
    if (fixed->kind == NEVER)
        return yoke_fail(YOKE_ECONFIG, "the plan of %s fixes %s: leave the option out (%s)", path, name,
                         cli_origin(o, name));
    return yoke_fail(YOKE_ECONFIG,
                     "the plan of %s fixes %s: its value is %s, and %s gives %s; leave the option out", path,
                     name, c->planned, cli_origin(o, name), cli_text(o, name));
}

yoke_status cli_plan_refuse_others(const struct cli_options *options, const struct yokei_plan *plan,
                                   const char *path, bool replays)
{
    for (const struct cli_fixed_option *f = cli_fixed_options; f->name; f++) {
        struct comparison c = { .same = true };
        if (f->when == CLI_FIXED_IN_REPLAY && !replays) continue;
        if (!cli_is_set(options, f->name) || !strcmp(cli_origin(options, f->name), "default")) continue;
        YOKE_TRY(compare_option(options, f, plan, &c));
        if (!c.same) return refuse_option(options, f, &c, path);
    }
    return YOKE_OK;
}
