/* SPDX-License-Identifier: Apache-2.0 */
/* yoke postmortem: from the run's files to the facts, the verdict and the report. */
#include "cli/postmortem/postmortem.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/base.h"

/* A file that the run names. The run may have been started in another folder. */
static void place_file(const struct cli_postmortem *p, const char *name, char *path, size_t bytes)
{
    const char *folder = report_record_text(&p->record, NULL, "folder");
    yokei_text(path, bytes, "%s", name);
    if (access(path, F_OK) && name[0] != '/' && folder) yokei_text(path, bytes, "%s/%s", folder, name);
}

/* A file that an option of the run names. */
static const char *find_file(const struct cli_postmortem *p, const char *option, char *path, size_t bytes)
{
    const char *name = report_record_text(&p->record, "options", option);
    if (!name) return NULL;
    place_file(p, name, path, bytes);
    return path;
}

/* ---- variables of the run ---- */

/* The tuning files of the run, as "a.tune:b.tune". A file that is gone is noted, and left out. */
static void take_tuning(struct cli_postmortem *p, const char *list)
{
    char all[8192] = "", name[1024], path[4200];
    for (const char *at = list; *at; at += *at == ':') {
        const size_t n = strcspn(at, ":"), used = strlen(all);
        yokei_text(name, sizeof name, "%.*s", (int)YOKE_MIN(n, sizeof name), at);
        at += n;
        if (!n) continue;
        place_file(p, name, path, sizeof path);
        if (access(path, R_OK))
            yokei_text(p->lost_tuning, sizeof p->lost_tuning, "%s", name);
        else
            yokei_text(all + used, sizeof all - used, "%s%s", used ? ":" : "", path);
    }
    if (all[0]) setenv("YOKE_TUNE_FILE", all, 1);
}

/*
 * Replays get those variables of the run on which bits depend and which its plan does not have. Only a
 * YOKE_TUNE_FILE that is set now stays, to try other kernels.
 */
static void take_variables(struct cli_postmortem *p)
{
    static const char *const names[] = { "YOKE_CHUNK_BYTES", "YOKE_REPRODUCIBLE", "YOKE_ISLAND",
                                         "YOKE_ISLAND_OF",   "YOKE_NO_SHARED",    "YOKE_OPENCL_ADDRESS",
                                         "YOKE_ROCBLAS",     "YOKE_HIPBLASLT" };
    const char *value = report_record_text(&p->record, "environment", "YOKE_TUNE_FILE");
    if (value && !strcmp(value, "off"))
        setenv("YOKE_TUNE_FILE", value, 0);
    else if (value && !getenv("YOKE_TUNE_FILE"))
        take_tuning(p, value);
    for (size_t i = 0; i < YOKE_COUNT(names); i++) {
        value = report_record_text(&p->record, "environment", names[i]);
        if (value)
            setenv(names[i], value, 1);
        else if (p->record.root)
            unsetenv(names[i]);
    }
}

/* ---- what the run was given ---- */

struct paths {
    char data[4200], tokenizer[4200], init[4200], save[4200], resume[4200];
};

/* The folder of the checkpoints: that of --save, or the one that holds the checkpoint of --resume. */
static const char *find_checkpoints(struct cli_postmortem *p, struct paths *paths)
{
    const char *save = find_file(p, "save", paths->save, sizeof paths->save),
               *resume = find_file(p, "resume", paths->resume, sizeof paths->resume);
    if (save && !access(save, F_OK)) return save;
    char *slash = resume ? strrchr(paths->resume, '/') : NULL;
    if (slash && !strncmp(slash, "/step-", 6)) *slash = 0;
    return resume ? resume : save;
}

/*
 * A device of another kind than the host, and the host for another device. It is not opened here, because a
 * process of its own cannot use OpenCL if its parent has opened it.
 */
static const char *find_other(const char *asked, const char *device)
{
    if (!strcmp(asked, "none")) return NULL;
    if (strcmp(asked, "auto") != 0) return asked;
    return strcmp(device, "host") != 0 ? "host" : "opencl:0";
}

static void show_busy(void *context, const char *text)
{
    (void)context;
    cli_progress_now("%s", text);
}

static void configure(const struct cli_options *o, struct cli_postmortem *p, struct paths *paths)
{
    struct yokei_postmortem_config *c = &p->config;
    const char *tokens = find_file(p, "tokens", paths->data, sizeof paths->data);
    *c = (struct yokei_postmortem_config){
        .run = p->run, .is_llmc = tokens != NULL, .busy = show_busy, .run_job = cli_postmortem_run_job
    };
    c->data = cli_text(o, "data") ? cli_text(o, "data")
              : tokens            ? tokens
                                  : find_file(p, "text", paths->data, sizeof paths->data);
    c->tokenizer = find_file(p, "tokenizer", paths->tokenizer, sizeof paths->tokenizer);
    c->init = find_file(p, "init", paths->init, sizeof paths->init);
    c->checkpoints = cli_text(o, "checkpoints") ? cli_text(o, "checkpoints") : find_checkpoints(p, paths);
    c->folder = report_record_text(&p->record, NULL, "folder");
    c->device = cli_text(o, "replay-device");
    const char *device = c->device ? c->device : report_record_of_rank(&p->record, 0, "device");
    c->other = find_other(cli_text(o, "other-device"), device ? device : "host");
    c->is_other_optional = !strcmp(cli_text(o, "other-device"), "auto");
    c->seconds = cli_real(o, "replay-seconds");
    c->most_steps = cli_int(o, "most-steps");
}

struct printed {
    const struct cli_postmortem *p;
    const char *format;
};

static yoke_status print(void *context, FILE *to)
{
    const struct printed *printed = context;
    if (!strcmp(printed->format, "json")) return cli_postmortem_json(printed->p, to);
    cli_postmortem_text(printed->p, !strcmp(printed->format, "markdown"), to);
    return YOKE_OK;
}

static yoke_status report(const struct cli_options *o, const struct cli_postmortem *p)
{
    const struct printed printed = { p, cli_text(o, "format") };
    YOKE_TRY(cli_write_results(cli_text(o, "output"), print, (void *)(uintptr_t)&printed));
    for (int way = 0; way < CLI_N_WAYS; way++)
        if (cli_text(o, cli_way_names[way]))
            YOKE_TRY(cli_postmortem_go_on(p, cli_text(o, cli_way_names[way]), (enum cli_way)way));
    if (!p->facts.n_missing) return YOKE_OK;
    return yoke_fail(YOKE_EDATA, "%s: %d facts of the run are missing, so the report is not complete: %s",
                     p->run, p->facts.n_missing, p->facts.missing[0]);
}

yoke_status cli_postmortem(const struct cli_context *context)
{
    const struct cli_options *o = context->options;
    struct cli_postmortem p = { .run = context->words[0] };
    struct paths paths;
    if (context->n_words != 1)
        return yoke_fail(
            YOKE_EINVAL,
            "yoke postmortem: which run? Give its folder: yoke postmortem runs/train-20240131-120000");
    YOKE_TRY(cli_check_output(cli_text(o, "output"), &p.run, 1));
    for (int way = 0; way < CLI_N_WAYS; way++)
        YOKE_TRY(cli_check_output(cli_text(o, cli_way_names[way]), &p.run, 1));
    report_record_read(p.run, &p.record);
    take_variables(&p);
    configure(o, &p, &paths);
    cli_progress_begin("%s", "");
    yoke_status status = yokei_postmortem_gather(&p.config, &p.facts);
    cli_progress_end();
    if (!status) {
        if (!p.record.root) yokei_postmortem_miss(&p.facts, "the record of the start: %s", p.record.problem);
        if (p.lost_tuning[0])
            yokei_postmortem_miss(&p.facts, "the tuning file of the run: there is no %.200s", p.lost_tuning);
        yokei_postmortem_judge(&p.facts, &p.verdict);
        status = report(o, &p);
    }
    yokei_postmortem_free(&p.facts);
    report_record_free(&p.record);
    return status;
}
