/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration with which a run goes on after a post-mortem. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/postmortem/postmortem.h"
#include "core/base/base.h"
#include "train/checkpoint/checkpoint.h"
#include "train/plan/run_plan.h"

const char *const cli_way_names[CLI_N_WAYS] = { "rollback", "lower-rate", "skip-samples" };

/* A value in YAML's double quotes. */
static void put(FILE *to, const char *key, const char *value)
{
    fprintf(to, "%s: \"", key);
    for (; *value; value++) {
        if (*value == '"' || *value == '\\') fputc('\\', to);
        fputc(*value, to);
    }
    fputs("\"\n", to);
}

/*
 * The options of the run. A resumed run takes its plan from the checkpoint, so it needs only the data. Files
 * of the old run are not written again.
 */
static void put_options(FILE *to, const struct cli_postmortem *p, bool anew)
{
    static const char *const data[] = { "text", "tokens", "tokenizer" }, *const left_out[] = {
        "resume", "init",   "save",   "run-dir",    "learning-rate", "min-learning-rate", "plan",
        "trace",  "export", "device", "dump-grads", "tensorboard",   "metrics-file",      "skip-samples"
    };
    const char *name;
    json_t *value;
    json_object_foreach(json_object_get(p->record.root, "options"), name, value)
    {
        bool wanted = anew && cli_option_find(CLI_TRAIN, name) && json_is_string(value);
        for (size_t i = 0; i < YOKE_COUNT(left_out); i++) wanted = wanted && strcmp(name, left_out[i]) != 0;
        for (size_t i = 0; i < YOKE_COUNT(data); i++)
            wanted = wanted || (json_is_string(value) && !strcmp(name, data[i]));
        if (wanted) put(to, name, json_string_value(value));
    }
}

/* The samples that the run skipped, and with CLI_WAY_SKIP the bad ones too. */
static yoke_status put_skips(FILE *to, const struct cli_postmortem *p, enum cli_way way)
{
    struct yokei_skips skips;
    char text[YOKEI_SKIPS_BYTES];
    YOKE_TRY(yokei_skips_parse("the black box", p->facts.skip_samples, &skips));
    const int64_t n = way == CLI_WAY_SKIP ? p->facts.n_bad_samples : 0;
    for (int64_t i = 0; i < YOKE_MIN(n, (int64_t)YOKEI_POSTMORTEM_BAD); i++)
        YOKE_TRY(yokei_skips_add("the bad samples", &skips, p->facts.bad_sample[i], p->facts.bad_sample[i]));
    if (!skips.n) return YOKE_OK;
    yokei_skips_text(&skips, text);
    put(to, "skip-samples", text);
    return YOKE_OK;
}

static yoke_status put_rate(FILE *to, const struct cli_postmortem *p)
{
    struct yokei_plan plan;
    char path[4200];
    yokei_text(path, sizeof path, "%s/plan.json", p->run);
    YOKE_TRY(yokei_plan_read(path, &plan));
    fprintf(to, "learning-rate: %.9g\nmin-learning-rate: %.9g\n", plan.learning_rate / 10,
            plan.min_learning_rate / 10);
    yokei_plan_free(&plan);
    return YOKE_OK;
}

/* The newest checkpoint before the first wrong step. False: there is none. */
static bool find_checkpoint(const struct cli_postmortem *p, enum cli_way way, char *path, size_t bytes)
{
    struct yokei_checkpoint_entry *list = NULL;
    size_t n = 0;
    const int64_t odd = p->verdict.step >= 0 ? p->verdict.step : p->facts.odd_step,
                  wrong = way == CLI_WAY_SKIP ? YOKE_MIN(odd, p->facts.first_bad_sample.step) : odd;
    bool found = false;
    if (!p->config.checkpoints || yokei_checkpoint_list(p->config.checkpoints, &list, &n)) return false;
    for (size_t i = 0; i < n; i++) {
        if (list[i].state != YOKEI_CHECKPOINT_COMPLETE || list[i].step >= wrong) continue;
        yokei_checkpoint_path(p->config.checkpoints, list[i].step, path, bytes);
        found = true;
    }
    free(list);
    return found;
}

yoke_status cli_postmortem_go_on(const struct cli_postmortem *p, const char *path, enum cli_way way)
{
    char checkpoint[4200], *text = NULL, save[4300];
    size_t bytes = 0;
    const bool lower_rate = way == CLI_WAY_LOWER_RATE;
    if (way == CLI_WAY_SKIP && !p->facts.n_bad_samples)
        return yoke_fail(YOKE_EDATA, "%s: no bad sample was found, so there is none to skip", path);
    const bool has_checkpoint = find_checkpoint(p, way, checkpoint, sizeof checkpoint);
    if (!p->record.root) return yoke_fail(YOKE_EDATA, "%s: %s", path, p->record.problem);
    if (!has_checkpoint && !lower_rate)
        return yoke_fail(YOKE_EDATA, "%s: there is no checkpoint before the first wrong step to go back to",
                         path);
    FILE *to = open_memstream(&text, &bytes);
    if (!to) return yoke_fail(YOKE_ENOMEM, "%s: no host memory", path);
    fprintf(to, "# After the post-mortem of %s: yoke train -c %s\n", p->run, path);
    put_options(to, p, lower_rate);
    if (has_checkpoint) put(to, lower_rate ? "init" : "resume", checkpoint);
    yoke_status status = lower_rate ? put_rate(to, p) : YOKE_OK;
    if (!status) status = put_skips(to, p, way);
    if (p->config.checkpoints) {
        yokei_text(save, sizeof save, "%s-%s", p->config.checkpoints,
                   lower_rate            ? "lower"
                   : way == CLI_WAY_SKIP ? "skip"
                                         : "again");
        put(to, "save", save); /* the old folder has checkpoints of later steps */
    }
    if (fclose(to) && !status) status = yoke_fail(YOKE_ENOMEM, "%s: no host memory", path);
    if (!status) status = yokei_file_write(path, text, strlen(text));
    free(text);
    return status;
}
