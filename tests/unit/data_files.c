/* SPDX-License-Identifier: Apache-2.0 */
/* Hugging Face's config.json and names, plan.json, and metrics. */
#include "tests/unit/data_test.h"
#include "tests/unit/config_write.h"
#include "tests/unit/plan_text.h"
#include "tests/unit/safetensors_save.h"

#include <jansson.h>
#include <math.h>

#include "train/models/model_files.h"
#include "train/run/metrics.h"
#include "train/run/step_parts.h"
#include "train/plan/run_plan.h"

static const struct yoke_gpt2_config tiny = { sizeof tiny, 2, 2, 8, 16, 32, 1e-5, 0.02 };

/* config.json of the 124M model, as it is on Hugging Face's hub. */
static const char hub[] =
    "{\"activation_function\": \"gelu_new\", \"architectures\": [\"GPT2LMHeadModel\"], \"attn_pdrop\": 0.1, \"bos_token_id\": 50256,"
    "\"embd_pdrop\": 0.1, \"eos_token_id\": 50256, \"initializer_range\": 0.02, \"layer_norm_epsilon\": 1e-05, \"model_type\": \"gpt2\","
    "\"n_ctx\": 1024, \"n_embd\": 768, \"n_head\": 12, \"n_inner\": null, \"n_layer\": 12, \"n_positions\": 1024, \"resid_pdrop\": 0.1,"
    "\"summary_activation\": null, \"task_specific_params\": {\"text-generation\": {\"do_sample\": true}}, \"vocab_size\": 50257}";

static void hugging_face_config_is_read(void **state)
{
    (void)state;
    struct yoke_gpt2_config config, again;
    put_text("config.json", hub);
    assert_ok(yokei_kind_gpt2.read(test_folder, &config));
    assert_true(config.attn_pdrop == 0.1 && config.resid_pdrop == 0.1 && config.embd_pdrop == 0.1);
    assert_int_equal(config.n_layer, 12);
    assert_int_equal(config.n_head, 12);
    assert_int_equal(config.n_embd, 768);
    assert_int_equal(config.n_positions, 1024);
    assert_int_equal(config.vocab_size, 50257);
    assert_true(config.layer_norm_epsilon == 1e-5 && config.initializer_range == 0.02);
    config.layer_norm_epsilon = 1.0 / 3e4; /* written so that it reads back as the same bits */
    assert_ok(config_write(in_folder("mine.json"), yokei_model_as(&yokei_kind_gpt2, &config)));
    assert_ok(yokei_kind_gpt2.read(in_folder("mine.json"), &again));
    assert_memory_equal(&config, &again, sizeof config);
    config.n_head = 7;
    assert_fails(YOKE_ECONFIG, "multiple of n_head",
                 config_write(in_folder("mine.json"), yokei_model_as(&yokei_kind_gpt2, &config)));
}

/* All tensors of `config` with given values; `prefix` in front of the names. Returns how many; free the data.
 */
static size_t make_tensors(const struct yoke_gpt2_config *config, const char *prefix,
                           struct yokei_tensor *tensors, char (*names)[96])
{
    size_t n = (size_t)yokei_kind_gpt2.n_weights(config);
    for (size_t i = 0; i < n; i++) {
        struct yokei_weight want;
        assert_ok(yokei_model_tensor(yokei_model_as(&yokei_kind_gpt2, config), (int64_t)i, &want));
        snprintf(names[i], sizeof names[i], "%s%s", prefix, want.name);
        tensors[i] = (struct yokei_tensor){ .name = names[i], .dtype = YOKE_F32, .n_dims = want.n_dims };
        memcpy(tensors[i].shape, want.shape, sizeof want.shape);
        tensors[i].data = calloc((size_t)want.shape[0] * (size_t)(want.n_dims == 2 ? want.shape[1] : 1),
                                 sizeof(float));
    }
    return n;
}

static void names_match_hugging_face(void **state)
{
    (void)state;
    struct yokei_weight t;
    assert_int_equal(yokei_kind_gpt2.n_weights(&tiny), 28);
    static const struct {
        int index;
        const char *name;
        int n_dims;
        int64_t shape[2];
    } some[] = {
        { 0, "wte.weight", 2, { 32, 8 } },
        { 1, "wpe.weight", 2, { 16, 8 } },
        { 2, "h.0.ln_1.weight", 1, { 8, 0 } },
        { 4, "h.0.attn.c_attn.weight", 2, { 8, 24 } },
        { 5, "h.0.attn.c_attn.bias", 1, { 24, 0 } },
        { 22, "h.1.mlp.c_fc.weight", 2, { 8, 32 } },
        { 24, "h.1.mlp.c_proj.weight", 2, { 32, 8 } },
        { 26, "ln_f.weight", 1, { 8, 0 } },
        { 27, "ln_f.bias", 1, { 8, 0 } },
    };
    for (size_t i = 0; i < YOKE_COUNT(some); i++) {
        assert_ok(yokei_model_tensor(yokei_model_as(&yokei_kind_gpt2, &tiny), some[i].index, &t));
        assert_string_equal(t.name, some[i].name);
        assert_int_equal(t.n_dims, some[i].n_dims);
        assert_memory_equal(t.shape, some[i].shape, sizeof t.shape);
        assert_int_equal(t.is_matrix, some[i].n_dims == 2);
    }
    assert_fails(YOKE_EINVAL, "there are 28",
                 yokei_model_tensor(yokei_model_as(&yokei_kind_gpt2, &tiny), 28, &t));
    /* The 124M model has 124,439,808 parameters. */
    struct yoke_gpt2_config large = YOKE_GPT2_CONFIG_INIT;
    int64_t sum = 0;
    for (int64_t i = 0; i < yokei_kind_gpt2.n_weights(&large); i++) {
        assert_ok(yokei_model_tensor(yokei_model_as(&yokei_kind_gpt2, &large), i, &t));
        sum += t.shape[0] * (t.n_dims == 2 ? t.shape[1] : 1);
    }
    assert_int_equal(sum, 124439808);
}

static void weights_are_found_under_either_name(void **state)
{
    (void)state;
    struct yokei_tensor tensors[40] = { { 0 } };
    char names[40][96];
    const struct yokei_tensor *found[28];
    struct yokei_safetensors *file;
    const uint8_t mask[16] = { 0 };
    for (int prefixed = 0; prefixed < 2; prefixed++) {
        size_t n = make_tensors(&tiny, prefixed ? "transformer." : "", tensors, names);
        float *wte = (float *)(uintptr_t)tensors[0].data;
        wte[3] = 7;
        tensors[n] = tensors[0];
        tensors[n].name = "lm_head.weight"; /* it is tied, so it has the same values */
        tensors[n + 1] = (struct yokei_tensor){ .name = prefixed ? "transformer.h.1.attn.bias"
                                                                 : "h.1.attn.bias",
                                                .dtype = YOKE_U8,
                                                .n_dims = 4,
                                                .shape = { 1, 1, 4, 4 },
                                                .data = mask };
        assert_ok(save_safetensors(in_folder("w.safetensors"), tensors, n + 2, NULL, 0));
        assert_ok(yokei_safetensors_open(in_folder("w.safetensors"), 0, &file));
        assert_ok(yokei_model_find(file, yokei_model_as(&yokei_kind_gpt2, &tiny), found));
        assert_true(((const float *)found[0]->data)[3] == 7);
        assert_string_equal(found[27]->name, prefixed ? "transformer.ln_f.bias" : "ln_f.bias");
        struct yoke_gpt2_config shorter = tiny, longer = tiny, deeper = tiny, wider = tiny;
        shorter.n_positions = 4; /* the first rows of wpe */
        assert_ok(yokei_model_find(file, yokei_model_as(&yokei_kind_gpt2, &shorter), found));
        longer.n_positions = 17;
        memset(found, 0, sizeof found);
        assert_fails(YOKE_EDATA, "has shape [16, 8]; the model's configuration needs [17, 8]",
                     yokei_model_find(file, yokei_model_as(&yokei_kind_gpt2, &longer), found));
        deeper.n_layer = 3;
        const struct yokei_tensor *more[40] = { NULL };
        assert_fails(YOKE_EDATA, "\"h.2.ln_1.weight\" is missing",
                     yokei_model_find(file, yokei_model_as(&yokei_kind_gpt2, &deeper), more));
        assert_non_null(strstr(yoke_last_error(), "\"h.2.mlp.c_proj.bias\" is missing")); /* all at once */
        assert_null(more[0]);
        deeper.n_layer = 1;
        assert_fails(YOKE_EDATA, "does not belong to a GPT-2 of 1 layers",
                     yokei_model_find(file, yokei_model_as(&yokei_kind_gpt2, &deeper), found));
        wider.vocab_size = 33;
        assert_fails(YOKE_EDATA, "wte.weight",
                     yokei_model_find(file, yokei_model_as(&yokei_kind_gpt2, &wider), found));
        assert_null(found[0]);
        yokei_safetensors_close(file);
        float other[32 * 8] = { 0 };
        tensors[n].data = other; /* no longer tied */
        assert_ok(save_safetensors(in_folder("w.safetensors"), tensors, n + 2, NULL, 0));
        assert_ok(yokei_safetensors_open(in_folder("w.safetensors"), 0, &file));
        assert_fails(YOKE_EDATA, "one matrix for both",
                     yokei_model_find(file, yokei_model_as(&yokei_kind_gpt2, &tiny), found));
        yokei_safetensors_close(file);
        for (size_t i = 0; i < n; i++) free((void *)(uintptr_t)tensors[i].data);
    }
}

static void a_plan_reads_back_as_the_same_bits(void **state)
{
    (void)state;
    struct yokei_plan plan = YOKEI_PLAN_INIT, again;
    struct yokei_plan_rank ranks[] = { { "host", 2.0 / 3, 5, 2, 1 }, { "opencl:0", 1.0 / 3, 3, 3, 1 } };
    plan.model.gpt2 = tiny;
    plan.seed = 0xfedcba9876543210u; /* beyond what doubles and signed integers hold */
    plan.batch = 8;
    plan.sequence = 16;
    plan.ranks = ranks;
    plan.n_ranks = 2;
    strcpy(plan.data_hash, "0123456789abcdef");
    strcpy(plan.comm_costs, "sync_us=1,shared_gbps=2");
    strcpy(plan.comm_shares, "measured:16:8");
    assert_ok(yokei_plan_write(in_folder("plan.json"), &plan));
    assert_ok(yokei_plan_read(in_folder("plan.json"), &again));
    assert_true(again.seed == plan.seed && again.learning_rate == plan.learning_rate);
    assert_string_equal(again.comm_costs, plan.comm_costs);
    assert_string_equal(again.comm_shares, plan.comm_shares);
    assert_int_equal(again.n_ranks, 2);
    assert_memory_equal(again.ranks, ranks, sizeof ranks);
    char *first = NULL, *second = NULL;
    assert_ok(plan_text(&plan, &first));
    assert_ok(plan_text(&again, &second));
    assert_string_equal(first, second);
    yokei_plan_free(&again);
    assert_null(again.ranks);
    free(first), free(second);
    plan.batch = 9;
    assert_fails(YOKE_ECONFIG, "add up to 8, but batch is 9",
                 yokei_plan_write(in_folder("plan.json"), &plan));
}

static struct yokei_metrics_row row_of(int64_t step, struct yokei_metrics_rank *rank)
{
    struct yokei_metrics_row row = { .step = step,
                                     .tokens = 64 * step,
                                     .seconds = 0.25 * (double)step,
                                     .loss = 2.5,
                                     .validation_loss = NAN,
                                     .audit = NAN,
                                     .audit_seconds = NAN,
                                     .learning_rate = 1e-3,
                                     .gradient_norm = 0.5,
                                     .loss_scale = 1,
                                     .tokens_per_second = 256,
                                     .ranks = rank,
                                     .n_ranks = 1 };
    return row;
}

static int64_t n_lines(const char *path, int64_t *last_step_out)
{
    FILE *file = fopen(path, "r");
    char line[2000];
    int64_t n = 0;
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        json_t *row = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
        assert_non_null(row);
        *last_step_out = json_integer_value(json_object_get(row, "step"));
        assert_true(json_is_null(json_object_get(row, "validation_loss")));
        assert_int_equal(json_object_size(row), 16);
        assert_int_equal(strncmp(line, "{\"step\": ", 9), 0);
        json_decref(row);
        n++;
    }
    fclose(file);
    return n;
}

static void metrics_go_on_where_a_run_was_cut(void **state)
{
    (void)state;
    struct yokei_metrics_rank rank = { "host", 1, 256, 0.2, 0.05 };
    struct yokei_metrics *metrics;
    int64_t last = 0;
    const char *path = in_folder("metrics.jsonl");
    assert_ok(yokei_metrics_open(path, -1, &metrics));
    for (int64_t step = 1; step <= 5; step++) {
        struct yokei_metrics_row row = row_of(step, &rank);
        assert_ok(yokei_metrics_write(metrics, &row));
        assert_int_equal(n_lines(path, &last), step); /* there at once, not at close */
    }
    assert_ok(yokei_metrics_close(metrics));
    FILE *file = fopen(path, "a"); /* the crash cut the sixth row */
    fputs("{\"step\": 6, \"tok", file);
    fclose(file);
    assert_ok(yokei_metrics_open(path, 3, &metrics));
    struct yokei_metrics_row row = row_of(4, &rank);
    assert_ok(yokei_metrics_write(metrics, &row));
    assert_ok(yokei_metrics_close(metrics));
    assert_int_equal(n_lines(path, &last), 4);
    assert_int_equal(last, 4);
    put_text("other.jsonl", "hello\n");
    assert_fails(YOKE_EDATA, "byte offset 0 is no row of metrics",
                 yokei_metrics_open(in_folder("other.jsonl"), 3, &metrics));
    assert_fails(YOKE_EIO, "cannot be opened",
                 yokei_metrics_open(in_folder("no/metrics.jsonl"), -1, &metrics));
}

/* The ranks of a row, as they were written. */
static yoke_status look_at_ranks(void *context, const struct yokei_metrics_row *row)
{
    int *n = context;
    assert_int_equal(row->n_ranks, 2);
    assert_string_equal(row->ranks[1].device, "opencl:0");
    assert_true(row->ranks[0].busy_seconds == 0.19 && row->ranks[0].data_seconds == 0.01);
    assert_true(row->ranks[0].checkpoint_seconds == 0.125 && isnan(row->ranks[1].mfu));
    assert_true(row->ranks[0].processor_seconds == 0.21 && row->ranks[0].queued_seconds == 0.03);
    assert_true(row->ranks[0].preemptions == 7 && row->ranks[0].major_faults == 2);
    assert_true(row->ranks[0].compile_seconds == 0.25 && isnan(row->ranks[1].queued_seconds));
    assert_true(row->step == *n + 1 && isnan(row->validation_loss));
    ++*n;
    return *n == 3 ? yoke_fail(YOKE_EINVAL, "enough") : YOKE_OK;
}

static void the_ranks_of_a_row_are_read(void **state)
{
    (void)state;
    struct yokei_metrics_rank ranks[2] = {
        { "host", 1, 256, 0.2, 0.05, 0.5, 0.1, 0.02, 0.19, 0.01, 0.125, 0.21, 0.03, 7, 2, 0.25 },
        { "opencl:0", 1, 256, 0.2, 0.05, NAN, 0.1, 0.02, 0.19, 0, 0, 0.01, NAN, 0, 0, 0 }
    };
    struct yokei_metrics *metrics;
    const char *path = in_folder("ranks.jsonl");
    bool cut;
    int n = 0;
    assert_ok(yokei_metrics_open(path, -1, &metrics));
    for (int64_t step = 1; step <= 2; step++) {
        struct yokei_metrics_row row = row_of(step, ranks);
        row.n_ranks = 2;
        assert_ok(yokei_metrics_write(metrics, &row));
    }
    assert_ok(yokei_metrics_each(path, look_at_ranks, &n, &cut));
    assert_true(n == 2 && !cut);
    struct yokei_metrics_row row = row_of(3, ranks);
    row.n_ranks = 2;
    assert_ok(yokei_metrics_write(metrics, &row));
    n = 0;
    assert_fails(YOKE_EINVAL, "enough", yokei_metrics_each(path, look_at_ranks, &n, &cut));
    assert_ok(yokei_metrics_close(metrics));
}

/* Divide a second of the second of two ranks, and check that the parts sum to it. */
static void divide(const struct yokei_metrics_rank ranks[2], bool has_pipeline, double *parts)
{
    struct yokei_metrics_row row = { .ranks = (struct yokei_metrics_rank *)ranks, .n_ranks = 2 };
    double sum = 0;
    assert_true(yokei_step_divide(1, &row, 1, has_pipeline, parts));
    for (int p = 0; p < YOKEI_N_STEP_PARTS; p++) {
        assert_true(parts[p] >= 0);
        sum += parts[p];
    }
    assert_true(fabs(sum - 1) < 1e-12);
    double all[2][YOKEI_N_STEP_PARTS], first[YOKEI_N_STEP_PARTS];
    assert_true(yokei_step_divide(1, &row, 0, has_pipeline, first));
    assert_true(yokei_step_divide_row(1, &row, has_pipeline, all));
    assert_memory_equal(all[0], first, sizeof first);
    assert_memory_equal(all[1], parts, sizeof all[1]);
    assert_false(yokei_step_divide_row(0, &row, has_pipeline, all));
    assert_false(yokei_step_divide(NAN, &row, 1, has_pipeline, parts + YOKEI_N_STEP_PARTS));
    assert_false(yokei_step_divide(-1, &row, 1, has_pipeline, parts + YOKEI_N_STEP_PARTS));
    assert_false(yokei_step_divide(1, &row, 2, has_pipeline, parts + YOKEI_N_STEP_PARTS));
}

static void the_parts_of_a_step_sum_to_it(void **state)
{
    (void)state;
    double p[2 * YOKEI_N_STEP_PARTS];
    struct yokei_metrics_rank ranks[2] = { { .exposed_communication_seconds = 0.125 },
                                           { .busy_seconds = 0.25,
                                             .bubble = 0.25,
                                             .exposed_communication_seconds = 0.375,
                                             .data_seconds = 0.0625,
                                             .checkpoint_seconds = 0.125 } };
    divide(ranks, false, p);
    assert_true(p[YOKEI_STEP_COMPUTE] == 0.25 && p[YOKEI_STEP_EXPOSED] == 0.125 && p[YOKEI_STEP_BUBBLE] == 0);
    assert_true(p[YOKEI_STEP_WAIT] == 0.25 && p[YOKEI_STEP_DATA] == 0.0625);
    assert_true(p[YOKEI_STEP_CHECKPOINT] == 0.125 && p[YOKEI_STEP_OTHER] == 0.1875);
    divide(ranks, true, p); /* 0.25 / (1 - 0.25) - 0.25 s were idle between the passes */
    assert_true(fabs(p[YOKEI_STEP_BUBBLE] - 0.25 / 3) < 1e-12);
    assert_true(fabs(p[YOKEI_STEP_WAIT] - 0.5 / 3) < 1e-12);
    ranks[1].busy_seconds = 5; /* more than the step has */
    divide(ranks, false, p);
    assert_true(p[YOKEI_STEP_COMPUTE] == 1 && p[YOKEI_STEP_WAIT] == 0 && p[YOKEI_STEP_OTHER] == 0);
    ranks[1] = (struct yokei_metrics_rank){ .busy_seconds = -3,
                                            .bubble = NAN,
                                            .exposed_communication_seconds = INFINITY,
                                            .data_seconds = NAN,
                                            .checkpoint_seconds = -1e300 };
    divide(ranks, true, p);
    assert_true(p[YOKEI_STEP_EXPOSED] == 0 && p[YOKEI_STEP_OTHER] == 1);
    divide((const struct yokei_metrics_rank[2]){ ranks[1], ranks[0] }, true, p);
    assert_true(p[YOKEI_STEP_EXPOSED] == 0.125 && p[YOKEI_STEP_WAIT] == 0); /* the other rank's is unknown */
    ranks[1].busy_seconds = 0.5, ranks[1].bubble = 1; /* no time is longer than busy by this bubble */
    divide(ranks, true, p);
    assert_true(p[YOKEI_STEP_COMPUTE] == 0.5 && p[YOKEI_STEP_BUBBLE] == 0);
}

static void a_full_disk_is_reported_with_the_step(void **state)
{
    (void)state;
    if (access("/dev/full", W_OK)) skip();
    struct yokei_metrics_rank rank = { "host", 1, 256, 0.2, 0.05 };
    struct yokei_metrics *metrics;
    assert_ok(yokei_metrics_open("/dev/full", -1, &metrics));
    struct yokei_metrics_row row = row_of(7, &rank);
    assert_fails(YOKE_EIO, "/dev/full: the row of step 7 cannot be written: No space left",
                 yokei_metrics_write(metrics, &row));
    assert_ok(yokei_metrics_close(metrics));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hugging_face_config_is_read),
        cmocka_unit_test(names_match_hugging_face),
        cmocka_unit_test(weights_are_found_under_either_name),
        cmocka_unit_test(a_plan_reads_back_as_the_same_bits),
        cmocka_unit_test(metrics_go_on_where_a_run_was_cut),
        cmocka_unit_test(the_ranks_of_a_row_are_read),
        cmocka_unit_test(the_parts_of_a_step_sum_to_it),
        cmocka_unit_test(a_full_disk_is_reported_with_the_step),
    };
    return cmocka_run_group_tests_name("data_files", tests, make_test_folder, remove_test_folder);
}
