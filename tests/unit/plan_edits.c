/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Edits of a plan.json that a run wrote. Each key is removed, gets a wrong type, a value out of range, or a
 * meaningless text. If the key affects the run's numbers, the file must be refused with the file's name, the
 * key, and what to do. The edits are generated from the file, so a new key is tested as soon as a run writes
 * it.
 */
#include "tests/unit/tiny_run.h"

#include <jansson.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "core/base/base.h"
#include "train/plan/run_plan.h"

/*
 * Keys with measured or predicted values, the limit of memory, and left_out. The plan of a run without them
 * has none of them.
 */
static const char *const informative[] = {
    "predicted_seconds", "measured_seconds", "predicted_step_seconds", "measured_step_seconds", "memory",
    "memory_limit",      "left_out"
};
static int n_tried;

static bool is_informative(const char *path)
{
    if (strncmp(path, "memory[", 7) == 0) return true;
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; i < YOKE_COUNT(informative); i++)
        if (strcmp(dot ? dot + 1 : path, informative[i]) == 0) return true;
    return false;
}

static yoke_status read_edited(json_t *root)
{
    struct yokei_plan plan;
    assert_int_equal(json_dump_file(root, in_folder("edited.json"), JSON_INDENT(2) | JSON_REAL_PRECISION(17)),
                     0);
    const yoke_status status = yokei_plan_read(in_folder("edited.json"), &plan);
    if (!status) yokei_plan_free(&plan);
    return status;
}

/* Refused: with the file, the key, and advice. */
static void refused(json_t *root, const char *path, const char *edit)
{
    const char *key = strrchr(path, '.') ? strrchr(path, '.') + 1 : path;
    const yoke_status status = read_edited(root);
    n_tried++;
    if (status != YOKE_ECONFIG || !strstr(yoke_last_error(), "edited.json") || !strstr(yoke_last_error(), key)
        || !strstr(yoke_last_error(), "mend it"))
        fail_msg("%s, %s: %s: %s", path, edit, yoke_status_name(status),
                 status ? yoke_last_error() : "accepted");
}

/* Put `value` (its reference is taken) in place of object[key], try, and put the old one back. */
static void try_value(json_t *root, json_t *object, const char *key, const char *path, json_t *value,
                      const char *edit)
{
    json_t *old = json_incref(json_object_get(object, key));
    json_object_set_new(object, key, value);
    refused(root, path, edit);
    json_object_set_new(object, key, old);
}

/* Values of the right type that no run has. Numbers below -1 and beyond 10^18 are outside of every range. */
static void try_range(json_t *root, json_t *object, const char *key, const char *path)
{
    const json_t *value = json_object_get(object, key);
    char *longer;
    if (json_is_integer(value)) {
        try_value(root, object, key, path, json_integer(-2), "-2");
        try_value(root, object, key, path, json_integer(2000000000000000000), "2e18");
        try_value(root, object, key, path, json_real(0.5), "a fraction");
    } else if (json_is_real(value)) {
        try_value(root, object, key, path, json_real(-2.5), "-2.5");
        try_value(root, object, key, path, json_real(1e300), "1e300");
    } else if (json_is_string(value)) {
        longer = malloc(5001);
        memset(longer, 'x', 5000);
        longer[5000] = 0;
        try_value(root, object, key, path, json_string("%s"), "a text that means nothing");
        try_value(root, object, key, path, json_string("%n%n%n%n"), "a dangerous one");
        try_value(root, object, key, path, json_string(longer), "a long text");
        free(longer);
    }
}

static void try_all(json_t *root, json_t *object, const char *inside)
{
    char **keys = calloc(json_object_size(object), sizeof *keys), unknown[300];
    size_t n = 0;
    const char *name;
    json_t *item;
    json_object_foreach(object, name, item) keys[n++] = strdup(name);
    snprintf(unknown, sizeof unknown, "%s%sno_such_key", inside, *inside ? "." : "");
    json_object_set_new(object, "no_such_key", json_integer(1));
    refused(root, unknown, "an unknown key");
    json_object_del(object, "no_such_key");
    for (size_t i = 0; i < n; i++) {
        char path[300];
        snprintf(path, sizeof path, "%s%s%s", inside, *inside ? "." : "", keys[i]);
        json_t *value = json_incref(json_object_get(object, keys[i]));
        json_object_del(object, keys[i]);
        if (!is_informative(path))
            refused(root, path, "removed");
        else if (read_edited(root))
            fail_msg("%s is informative, but cannot be left out: %s", path, yoke_last_error());
        json_object_set_new(object, keys[i], value);
        json_t *const wrong[] = { json_null(), json_is_boolean(value) ? json_integer(1) : json_true(),
                                  json_is_array(value) ? json_object() : json_array(),
                                  json_is_string(value) ? json_real(1.5) : json_string("1") };
        for (size_t w = 0; w < YOKE_COUNT(wrong); w++)
            try_value(root, object, keys[i], path, wrong[w], "of a wrong type");
        if (json_is_object(value))
            try_all(root, value, path);
        else if (!json_is_array(value))
            try_range(root, object, keys[i], path);
        for (size_t e = 0; e < json_array_size(value); e++) {
            snprintf(path, sizeof path, "%s%s%s[%zu]", inside, *inside ? "." : "", keys[i], e);
            try_all(root, json_array_get(value, e), path);
        }
        free(keys[i]);
    }
    free(keys);
}

/* The plan.json that a run of t writes, and how it is read. */
static json_t *plan_of(struct yokei_training *t)
{
    struct yokei_training_result result;
    char path[700];
    t->run_dir = in_folder("run");
    mkdir(t->run_dir, 0777);
    snprintf(path, sizeof path, "%s", t->run_dir);
    t->run_dir = path;
    assert_ok(yokei_training_run(t, &result));
    free(result.sample);
    yokei_plan_free(&t->plan);
    snprintf(path + strlen(path), sizeof path - strlen(path), "/plan.json");
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(root);
    assert_ok(read_edited(root)); /* so the edits below are refused only because of the edit */
    return root;
}

static void each_key(void **state)
{
    static const struct yoke_llama_config llama = { sizeof llama, 16, 32,   1,   2,    1,    8,
                                                    256,          16, 1e-6, 1e4, 0.02, true, 0 };
    yoke_device *device;
    (void)state;
    assert_ok(yoke_device_open("reference", NULL, &device));
    for (int kind = 0; kind < 2; kind++) {
        struct yokei_training t = tiny_training(device, 3);
        if (kind == 1) {
            memset(&t.plan.model.gpt2, 0, sizeof t.plan.model.gpt2);
            t.plan.model.llama = llama;
            t.plan.steps = 0;
            t.plan.budget_seconds = 0.1; /* so that there is progress */
        }
        json_t *root = plan_of(&t);
        assert_non_null(json_object_get(root, kind ? "llama" : "model"));
        if (kind == 1) assert_true(json_array_size(json_object_get(root, "progress")) > 0);
        while (json_array_size(json_object_get(root, "progress")) > 2)
            json_array_remove(json_object_get(root, "progress"), 1);
        try_all(root, root, "");
        json_decref(root);
    }
    print_message("# %d edits\n", n_tried);
    assert_true(n_tried > 900);
    assert_ok(yoke_device_close(device));
}

/* Values that are in range one by one, but not together. */
static void together(void **state)
{
    static const struct {
        const char *key, *value, *words;
    } edits[] = {
        { "data_hash", "\"\"", "data_hash is \"\"; 16 hexadecimal digits" },
        { "data_hash", "\"0123456789ABCDEF\"", "16 hexadecimal digits" },
        { "data_hash", "\"0123456789abcde\"", "16 hexadecimal digits" },
        { "all_reduce", "\"rnig\"", "all_reduce is \"rnig\"; it must be one of \"auto\", \"ring\"" },
        { "all_reduce", "\"dissemination\"", "it must be one of" },
        { "steps", "0", "steps and budget_seconds are both 0" },
        { "layers", "\"1,2\"", "layers \"1,2\": give 1 whole numbers" },
        { "tensor_shares", "\"1:1\"", "tensor_shares \"1:1\"" },
        { "zero_shares", "\"3:1\"", "zero_shares \"3:1\"" },
        { "stage_tensor", "\"2,1\"", "stage_tensor" },
        { "recompute", "\"full,none\"", "one for each of 1 stages" },
        { "recompute", "\"most\"", "none of none, attention, full" },
        { "skip_samples", "\"9-3\"", "9-3 is no range" },
        { "skip_samples", "\"3-9,\"", "give numbers of samples" },
        { "skip_samples", "\"1-3,3-5\"", "as in \"1-5\"" },
        { "schedule", "\"2f2b\"", "schedule is \"2f2b\"" },
        { "schedule_text", "\"F0\\nB0 nothing\"", "schedule_text" },
        { "comm_costs", "\"sync_us=1\"", "the plan has one rank" },
        { "data", "2", "data is 2 replicas" },
        { "progress", "[{\"step\": 2, \"permille\": 5}, {\"step\": 2, \"permille\": 6}]",
          "progress[1] is step 2" },
        { "progress", "[{\"step\": 2, \"permille\": 5}, {\"step\": 3, \"permille\": 4}]",
          "permille may not fall" },
        { "ranks", "[]", "ranks is 0 entries long" },
        { "version", "2", "version is 2" },
    };
    yoke_device *device;
    (void)state;
    assert_ok(yoke_device_open("reference", NULL, &device));
    struct yokei_training t = tiny_training(device, 3);
    json_t *root = plan_of(&t);
    for (size_t i = 0; i < YOKE_COUNT(edits); i++) {
        json_t *old = json_incref(json_object_get(root, edits[i].key));
        json_object_set_new(root, edits[i].key, json_loads(edits[i].value, JSON_DECODE_ANY, NULL));
        refused(root, edits[i].key, edits[i].value);
        if (!strstr(yoke_last_error(), edits[i].words))
            fail_msg("%s %s: \"%s\" is not in \"%s\"", edits[i].key, edits[i].value, edits[i].words,
                     yoke_last_error());
        json_object_set_new(root, edits[i].key, old);
    }
    json_object_set_new(root, "data_hash", json_string(YOKEI_ANY_DATA)); /* said on purpose */
    assert_ok(read_edited(root));
    json_decref(root);
    assert_ok(yoke_device_close(device));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(each_key), cmocka_unit_test(together) };
    return cmocka_run_group_tests_name("plan_edits", tests, make_folder, remove_test_folder);
}
