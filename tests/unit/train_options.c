/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a resumed run and a replay do with each option of yoke train. A table has a row for every option. It
 * says whether the option is stored and fixed, stored and may change, or free, and why. Each row is tried
 * with a checkpoint and a plan that a run of this test has written.
 */
#include "tests/unit/tiny_run.h"

#include <sys/stat.h>

#include "cli/cli.h"
#include "cli/train/plan_source.h"
#include "core/base/base.h"
#include "tests/unit/config_write.h"
#include "train/checkpoint/checkpoint.h"

enum class {
    FIXED,   /* stored: a resumed run refuses another value than the plan's */
    DATA,    /* fixed by the hash of the tokens: a resumed run refuses other data */
    BESIDE,  /* refused beside --resume, because the checkpoint has what the option names */
    CHANGES, /* stored, but a resumed run may change it */
    FREE,    /* not stored: it changes no number of the training */
};

static const struct row {
    const char *option;
    enum class class;
    const char *same, *other; /* the plan's value as the user writes it (FIXED), and another value */
    /* FIXED: the plan's value in the error text. CHANGES: text of plan.json afterwards */
    const char *shown;
    int ranks;        /* CHANGES: the number of ranks that resume; 0: one */
    const char *with; /* another option that this one needs; NULL: none */
    const char *why;
} rows[] = {
    { "model", FIXED, "TINY", "nano", "n_head 2 (not 4)", .why = "the weights have its shape" },
    { "precision", FIXED, "bf16", "f32", "bf16", .why = "it rounds the activations" },
    { "batch", FIXED, "4", "8", "4", .why = "a step sums so many gradients" },
    { "sequence", FIXED, "16", "8", "16", .why = "it cuts the text into samples" },
    { "seed", FIXED, "3", "4", "3", .why = "it draws the order of the samples" },
    { "validation-share", FIXED, "0.3", "0.05", "0.3", .why = "the run must not train on held-out text" },
    { "budget-seconds", FIXED, NULL, "50", "0", .why = "the learning rate follows it" },
    { "learning-rate", FIXED, "2e-3", "1e-3", "0.002", .why = "the step is proportional to it" },
    { "min-learning-rate", FIXED, "5e-4", "1e-4", "0.0005", .why = "the learning rate falls to it" },
    { "warmup", FIXED, "2", "20", "2", .why = "the learning rate rises over it" },
    { "weight-decay", FIXED, "0.2", "0.1", "0.2", .why = "part of AdamW" },
    { "beta1", FIXED, "0.8", "0.9", "0.8", .why = "part of AdamW" },
    { "beta2", FIXED, "0.9", "0.95", "0.9", .why = "part of AdamW" },
    { "clip", FIXED, "0.5", "1", "0.5", .why = "it scales the gradient" },
    { "dropout", FIXED, "0.125", "0", "0.125", .why = "it sets activations to 0" },
    { "loss-scale", FIXED, "1", "2", "1", .why = "16-bit gradients round differently" },
    { "bucket-bytes", FIXED, "64K", "25M", "65536", .why = "sums of gradients are cut into buckets" },
    { "text", DATA, .why = "the tokens of the run; its hash is stored" },
    { "tokens", DATA, .why = "the tokens of the run; its hash is stored" },
    { "tokenizer", DATA, .why = "it makes the tokens, whose hash is stored" },
    { "init", BESIDE, .other = "weights", .shown = "--init", .why = "the checkpoint has the weights" },
    { "plan", BESIDE, .other = "plan.json", .shown = "--plan", .why = "the checkpoint has a plan" },
    { "steps", CHANGES, .other = "9", .shown = "\"steps\": 9", .why = "a run may be made longer" },
    { "shares", CHANGES, .other = "3:1", .shown = "\"samples\": 3", .ranks = 2, .why = "other ranks" },
    { "micro-batch", CHANGES, .other = "2", .shown = "\"micro_batch\": 2", .why = "other memory" },
    { "skip-samples", CHANGES, .other = "90-99,7", .shown = "\"skip_samples\": \"7,90-99\"",
      .why = "a run may learn of bad samples" },
    { "dp", CHANGES, .other = "2", .shown = "\"data\": 2", .ranks = 4, .with = "--pp=2",
      .why = "other ranks" },
    { "pp", CHANGES, .other = "2", .shown = "\"pipeline\": 2", .ranks = 2, .why = "other ranks" },
    { "tp", CHANGES, .other = "2", .shown = "\"tensor\": 2", .ranks = 2, .why = "other ranks" },
    { "schedule", CHANGES, .other = "gpipe", .shown = "\"schedule\": \"gpipe\"", .why = "other ranks" },
    { "schedule-file", CHANGES, .other = "SCHEDULE", .shown = "F0,B0", .why = "other ranks" },
    { "chunks", CHANGES, .other = "2", .shown = "\"chunks\": 2", .ranks = 2, .with = "--pp=2",
      .why = "other ranks" },
    { "layers", CHANGES, .other = "2", .shown = "\"layers\": \"2\"", .why = "other ranks" },
    { "recompute", CHANGES, .other = "full", .shown = "\"recompute\": \"full\"", .why = "other memory" },
    { "tensor-shares", CHANGES, .other = "2", .shown = "\"tensor_shares\": \"2\"", .why = "other ranks" },
    { "sequence-parallel", CHANGES, .other = "yes", .shown = "\"sequence_parallel\": 1", .why = "memory" },
    { "zero", CHANGES, .other = "1", .shown = "\"zero\": 1", .why = "it gives the same bits" },
    { "zero-shares", CHANGES, .other = "2", .shown = "\"zero_shares\": \"2\"",
      .why = "it gives the same bits" },
    { "balance", CHANGES, .other = "equal", .shown = "\"balance\": \"equal\"", .why = "other ranks" },
    { "placement", CHANGES, .other = "rank", .shown = "\"placement\": \"rank\"", .why = "other ranks" },
    { "device", FREE, .other = "reference", .why = "the plan stores each rank's device; a run may move" },
    { "emulate", FREE, .other = "cuda:9.0", .why = "it names a device" },
    { "overlap", FREE, .other = "off", .why = "the bits are the same" },
    { "memory-limit", FREE, .other = "1G", .why = "it only refuses a run" },
    { "validation-tokens", FREE, .other = "64", .why = "it only evaluates, on held-out text" },
    { "evaluate-every", FREE, .other = "2", .why = "it only evaluates" },
    { "audit", FREE, .other = "2", .why = "it only compares the ranks" },
    { "black-box", FREE, .other = "off", .why = "it only records" },
    { "save", FREE, .other = "elsewhere", .why = "a place for files" },
    { "save-every", FREE, .other = "2", .why = "it only says when to save" },
    { "save-every-seconds", FREE, .other = "5s", .why = "it only says when to save" },
    { "keep", FREE, .other = "1", .why = "old checkpoints are not read" },
    { "resume", FREE, .why = "it names the checkpoint" },
    { "export", FREE, .other = "elsewhere", .why = "a place for files" },
    { "run-dir", FREE, .other = "elsewhere", .why = "a place for files" },
    { "dump-grads", FREE, .other = "elsewhere", .why = "it only writes" },
    { "peak", FREE, .other = "off", .why = "it only measures" },
    { "trace", FREE, .other = "trace.json", .why = "it only measures" },
    { "trace-steps", FREE, .other = "1", .why = "it only measures" },
    { "tensorboard", FREE, .other = "elsewhere", .why = "a place for files" },
    { "tensorboard-histograms", FREE, .other = "2", .why = "it only counts gradients" },
    { "metrics-file", FREE, .other = "elsewhere", .why = "a place for files" },
    { "sample", FREE, .other = "0", .why = "text after the last step" },
    { "prompt", FREE, .other = "A", .why = "text after the last step" },
    { "temperature", FREE, .other = "1", .why = "text after the last step" },
    { "top-k", FREE, .other = "3", .why = "text after the last step" },
    { "config", FREE, .why = "its keys are options, which have rows of their own" },
    { "help", FREE, .other = "no", .why = "nothing is run" },
    { "help-all", FREE, .other = "no", .why = "nothing is run" },
    { "quiet", FREE, .other = "yes", .why = "output" },
    { "verbose", FREE, .other = "yes", .why = "output" },
    { "json", FREE, .other = "yes", .why = "output" },
};

static yoke_device *host;
static struct cli_options *options;
static char checkpoint[700], plan_file[700], tiny_model[700], schedule_file[700];

static const char *value_of(const char *text)
{
    return !strcmp(text, "TINY") ? tiny_model : !strcmp(text, "SCHEDULE") ? schedule_file : text;
}

/* Resolve `words`, which end with NULL, as options of yoke train. */
static struct cli_context resolve(const char *const *words, int ranks)
{
    char *argv[64] = { "yoke train" }, **rest = NULL;
    int argc = 1, n_rest;
    for (; *words; words++) argv[argc++] = (char *)(uintptr_t)*words;
    cli_options_free(options);
    options = NULL;
    assert_ok(cli_options_resolve(CLI_TRAIN, argc, argv, &options, &n_rest, &rest));
    free(rest);
    return (struct cli_context){ .options = options, .size = ranks > 0 ? ranks : 1 };
}

static const struct row *row_of(const char *option)
{
    for (size_t i = 0; i < YOKE_COUNT(rows); i++)
        if (!strcmp(rows[i].option, option)) return &rows[i];
    return NULL;
}

static yoke_status resumed(const char *option, const char *value, int ranks, struct yokei_training *t)
{
    static char folder[700], given[800];
    const char *words[] = { given, option && row_of(option) ? row_of(option)->with : NULL, NULL };
    snprintf(given, sizeof given, "--%s=%s", option ? option : "keep", option ? value_of(value) : "3");
    const struct cli_context context = resolve(words, ranks);
    *t = tiny_training(host, 0);
    return cli_plan_from_checkpoint(&context, checkpoint, folder, sizeof folder, t);
}

static char *plan_text(struct yokei_training *t)
{
    char *text;
    assert_ok(yokei_json_text(&yokei_plan_schema, &t->plan, true, false, &text));
    yokei_plan_free(&t->plan);
    return text;
}

static void try_fixed(const struct row *row)
{
    struct yokei_training t;
    char words[2][800];
    for (int replays = 0; replays < 2; replays++) {
        for (int other = row->same ? 0 : 1; other < 2; other++) {
            yoke_status status;
            if (replays) {
                const char *given[] = { words[0], NULL };
                snprintf(words[0], sizeof words[0], "--%s=%s", row->option,
                         value_of(other ? row->other : row->same));
                const struct cli_context context = resolve(given, 1);
                t = tiny_training(host, 0);
                status = cli_plan_from_file(&context, plan_file, &t);
            } else
                status = resumed(row->option, other ? row->other : row->same, 1, &t);
            snprintf(words[1], sizeof words[1], "fixes %s: its value is ", row->option);
            if (!other && status) fail_msg("--%s %s: %s", row->option, row->same, yoke_last_error());
            if (other
                && (status != YOKE_ECONFIG || !strstr(yoke_last_error(), row->shown)
                    || !strstr(yoke_last_error(), words[1]) || !strstr(yoke_last_error(), row->other)))
                fail_msg("--%s %s: %s", row->option, row->other, status ? yoke_last_error() : "accepted");
            yokei_plan_free(&t.plan);
        }
    }
}

static void try_change(const struct row *row)
{
    struct yokei_training t;
    const char *usual = NULL;
    if (resumed(row->option, row->other, row->ranks, &t))
        fail_msg("--%s %s: %s", row->option, row->other, yoke_last_error());
    char *text = plan_text(&t), *without;
    assert_ok(resumed(NULL, NULL, row->ranks, &t));
    without = plan_text(&t);
    usual = strstr(without, row->shown);
    if (!strstr(text, row->shown) || usual)
        fail_msg("--%s %s: the plan shows %s %s", row->option, row->other, row->shown,
                 usual ? "without the option too" : "not at all");
    free(text);
    free(without);
}

static void try_free(const struct row *row)
{
    struct yokei_training t;
    if (!row->other) return;
    if (resumed(row->option, row->other, 1, &t))
        fail_msg("--%s %s: %s", row->option, row->other, yoke_last_error());
    char *text = plan_text(&t), *without;
    assert_ok(resumed(NULL, NULL, 1, &t));
    without = plan_text(&t);
    if (strcmp(text, without)) fail_msg("--%s changes the plan", row->option);
    free(text);
    free(without);
}

static void every_option_has_a_row(void **state)
{
    (void)state;
    for (const struct cli_option *o = cli_option_table; o->name; o++)
        if ((o->verbs & CLI_TRAIN) && !row_of(o->name))
            fail_msg("yoke train --%s has no row: is it stored and fixed, may it change, or is it free?",
                     o->name);
    for (size_t i = 0; i < YOKE_COUNT(rows); i++) {
        if (!cli_option_find(CLI_TRAIN, rows[i].option)) fail_msg("no option --%s", rows[i].option);
        assert_true(rows[i].why && *rows[i].why && row_of(rows[i].option) == &rows[i]);
    }
}

static void every_row_is_true(void **state)
{
    struct yokei_training t;
    (void)state;
    for (size_t i = 0; i < YOKE_COUNT(rows); i++) switch (rows[i].class) {
        case FIXED: try_fixed(&rows[i]); break;
        case CHANGES: try_change(&rows[i]); break;
        case FREE: try_free(&rows[i]); break;
        case DATA: break; /* see other_data_is_refused */
        case BESIDE:
            assert_fails(YOKE_ECONFIG, rows[i].shown, resumed(rows[i].option, rows[i].other, 1, &t));
            break;
        }
}

/* ---- the run whose checkpoint and plan are tried ---- */

static void start(struct yokei_training *t)
{
    const char *const words[] = { "--model",
                                  tiny_model,
                                  "--precision",
                                  "bf16",
                                  "--batch",
                                  "4",
                                  "--seed",
                                  "3",
                                  "--validation-share",
                                  "0.3",
                                  "--steps",
                                  "6",
                                  "--learning-rate",
                                  "2e-3",
                                  "--warmup",
                                  "2",
                                  "--min-learning-rate",
                                  "5e-4",
                                  "--beta1",
                                  "0.8",
                                  "--beta2",
                                  "0.9",
                                  "--clip",
                                  "0.5",
                                  "--dropout",
                                  "0.125",
                                  "--weight-decay",
                                  "0.2",
                                  "--bucket-bytes",
                                  "64K",
                                  NULL };
    const struct cli_context context = resolve(words, 1);
    *t = tiny_training(host, 0);
    yokei_plan_free(&t->plan);
    t->plan = (struct yokei_plan)YOKEI_PLAN_INIT;
    assert_ok(cli_plan_from_options(&context, t));
    cli_plan_choices(&context, &t->plan);
}

static int set_up(void **state)
{
    struct yoke_gpt2_config config = tiny;
    struct yokei_training t;
    struct yokei_training_result result;
    static char saves[700], run_dir[700];
    if (make_folder(state)) return -1;
    config.n_layer = 2;
    config.vocab_size = 2048; /* for the tokenizers below */
    snprintf(tiny_model, sizeof tiny_model, "%s", in_folder("config.json"));
    snprintf(schedule_file, sizeof schedule_file, "%s", in_folder("mine.csv"));
    snprintf(saves, sizeof saves, "%s", in_folder("saves"));
    snprintf(run_dir, sizeof run_dir, "%s", in_folder("run"));
    snprintf(plan_file, sizeof plan_file, "%s", in_folder("run/plan.json"));
    snprintf(checkpoint, sizeof checkpoint, "%s", in_folder("saves/step-0000003"));
    assert_ok(config_write(tiny_model, yokei_model_as(&yokei_kind_gpt2, &config)));
    assert_ok(yokei_file_write(schedule_file, "F0,B0\n", 6));
    assert_ok(yoke_device_open("host", NULL, &host));
    assert_int_equal(mkdir(run_dir, 0777), 0);
    start(&t);
    t.save = saves;
    t.save_every = 3;
    t.run_dir = run_dir;
    assert_ok(yokei_training_run(&t, &result));
    yokei_plan_free(&t.plan);
    return 0;
}

static int tear_down(void **state)
{
    cli_options_free(options);
    yoke_device_close(host);
    return remove_test_folder(state);
}

/* A run that stops and goes on without the option has the losses of the run that did not stop. */
static void the_share_stays(void **state)
{
    struct yokei_training_result whole, rest, other;
    struct yokei_training t;
    (void)state;
    start(&t);
    assert_ok(yokei_training_run(&t, &whole));
    yokei_plan_free(&t.plan);
    assert_ok(resumed(NULL, NULL, 1, &t));
    assert_ok(yokei_training_run(&t, &rest));
    yokei_plan_free(&t.plan);
    assert_true(rest.steps == 6 && rest.loss == whole.loss && rest.validation_loss == whole.validation_loss);
    start(&t);
    t.plan.validation_share = 0.05;
    assert_ok(yokei_training_run(&t, &other));
    yokei_plan_free(&t.plan);
    assert_true(other.loss != whole.loss); /* the comparison can fail */
}

static yoke_status resume_with(const char *tokens, bool are_llmc, const char *tokenizer)
{
    struct yokei_training t;
    struct yokei_training_result result;
    assert_ok(resumed(NULL, NULL, 1, &t));
    t.tokens = tokens;
    t.tokens_are_llmc = are_llmc;
    t.tokenizer = tokenizer;
    const yoke_status status = yokei_training_run(&t, &result);
    yokei_plan_free(&t.plan);
    return status;
}

/* Another text, the same bytes as a token file, and the tokens of a tokenizer. */
static void other_data_is_refused(void **state)
{
    static const char *const tokenizers[] = { "gpt2", "llama3" };
    char other[700], tokens[700], tokenizer[700];
    const char *top = getenv("top_srcdir");
    int32_t *ids;
    void *text;
    size_t n;
    (void)state;
    assert_ok(resume_with(text_path, false, NULL));
    assert_ok(yokei_file_read(text_path, 1 << 20, &text, &n));
    ids = calloc(n, sizeof *ids);
    for (size_t i = 0; i < n; i++) ids[i] = ((const unsigned char *)text)[i];
    snprintf(tokens, sizeof tokens, "%s", in_folder("tokens.bin"));
    assert_ok(yokei_tokens_write(tokens, ids, n, 256));
    ((char *)text)[n / 2] ^= 1;
    snprintf(other, sizeof other, "%s", in_folder("other"));
    assert_ok(yokei_file_write(other, text, n));
    free(ids);
    free(text);
    assert_fails(YOKE_ECONFIG, "was made for other data", resume_with(other, false, NULL));
    assert_fails(YOKE_ECONFIG, "was made for other data", resume_with(tokens, true, NULL));
    for (size_t i = 0; i < YOKE_COUNT(tokenizers); i++) {
        snprintf(tokenizer, sizeof tokenizer, "%s/tests/golden/tokenizer_%s.json", top ? top : ".",
                 tokenizers[i]);
        assert_fails(YOKE_ECONFIG, "was made for other data", resume_with(text_path, false, tokenizer));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_option_has_a_row),
        cmocka_unit_test(every_row_is_true),
        cmocka_unit_test(the_share_stays),
        cmocka_unit_test(other_data_is_refused),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
