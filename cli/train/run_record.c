/* SPDX-License-Identifier: Apache-2.0 */
/* run.json: the options with which a run was started, and the machines on which it ran. */
#include "cli/train/run_record.h"

#include <jansson.h>
#include <limits.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>
#include <yoke/comm.h>

#include "cli/train/commit.h"
#include "cli/devices/info.h"
#include "cli/options/json_values.h"
#include "cli/train/plan_fixed.h"
#include "core/base/base.h"
#include "core/base/emulated.h"
#include "train/files/json.h"
#include "train/trainer/trainer.h"

extern char **environ;

/* What each rank tells about itself. The structs are sent as bytes. */
struct place {
    char host[64], spec[32], name[128], driver[160], features[256], cpu[128], system[160], kernel[160];
    int32_t cores, hardware_threads, host_processors, emulated;
};

/* ---- one rank ---- */

static void find_place(const struct yokei_training *t, struct place *out)
{
    const struct yoke_device_info *d = yoke_device_info(t->device);
    struct yokei_topology topology;
    struct utsname u;
    *out = (struct place){ .emulated = yokei_is_emulated(d->features) };
    yokei_text(out->spec, sizeof out->spec, "%s", d->spec);
    yokei_text(out->name, sizeof out->name, "%s", d->name);
    yokei_text(out->driver, sizeof out->driver, "%s", d->driver);
    yokei_text(out->features, sizeof out->features, "%s", d->features);
    out->host_processors = (int32_t)sysconf(_SC_NPROCESSORS_ONLN); /* whatever the rank may use of them */
    cli_system_name(out->system, sizeof out->system);
    if (!uname(&u)) {
        yokei_text(out->host, sizeof out->host, "%.63s", u.nodename);
        yokei_text(out->kernel, sizeof out->kernel, "%.60s %.60s %.30s", u.sysname, u.release, u.machine);
    }
    if (yokei_topology(&topology)) return;
    yokei_text(out->cpu, sizeof out->cpu, "%s", topology.cpu);
    out->cores = topology.n_cores;
    out->hardware_threads = topology.n_processing_units;
}

static json_t *place_json(int rank, const struct place *p)
{
    return json_pack("{s:i, s:o, s:o, s:o, s:o, s:o, s:b, s:o, s:i, s:i, s:i, s:o, s:o}", "rank", rank,
                     "host", cli_json_text(p->host), "device", cli_json_text(p->spec), "name",
                     cli_json_text(p->name), "driver", cli_json_text(p->driver), "features",
                     cli_json_text(p->features), "emulated", (int)p->emulated, "cpu", cli_json_text(p->cpu),
                     "cores", (int)p->cores, "hardware_threads", (int)p->hardware_threads, "host_processors",
                     (int)p->host_processors, "system", cli_json_text(p->system), "kernel",
                     cli_json_text(p->kernel));
}

/* ---- what was asked for ---- */

static bool is_in(const char *name, const char *const *list)
{
    while (*list && strcmp(name, *list) != 0) list++;
    return *list != NULL;
}

static bool is_fixed(const char *name)
{
    const struct cli_fixed_option *f = cli_fixed_options;
    while (f->name && strcmp(f->name, name) != 0) f++;
    return f->name != NULL;
}

/* A path that holds from every folder. The file of a trace is not there yet. */
static json_t *whole_path(const char *path)
{
    char whole[PATH_MAX], folder[PATH_MAX], text[2 * PATH_MAX + 2];
    if (realpath(path, whole)) return cli_json_text(whole);
    if (*path == '/' || !getcwd(folder, sizeof folder)) return cli_json_text(path);
    yokei_text(text, sizeof text, "%s/%s", folder, path);
    return cli_json_text(text);
}

static bool is_path(const char *name)
{
    static const char *const paths[] = { "text",   "tokens", "tokenizer", "init",
                                         "resume", "plan",   "trace",     NULL };
    return is_in(name, paths);
}

static json_t *value_of(const struct cli_options *options, const char *name)
{
    return is_path(name) ? whole_path(cli_text(options, name)) : cli_json_text(cli_text(options, name));
}

/* All options that the user has set, on the command line, in a file, or by a variable. */
static json_t *options_json(const struct cli_options *options)
{
    json_t *all = json_object();
    for (const struct cli_option *o = cli_option_table; o->name; o++)
        if ((o->verbs & CLI_TRAIN) && !o->no_key && cli_is_set(options, o->name))
            json_object_set_new(all, o->name, value_of(options, o->name));
    return all;
}

/*
 * The options that the run needs again beside its plan. The plan has the options that it fixes. The others
 * that are left out write files, or say from where the run went on.
 */
static json_t *repeat_json(const struct cli_options *options)
{
    static const char *const others[] = {
        "plan",   "resume",      "run-dir",     "save",    "save-every", "keep",   "export",
        "trace",  "dump-grads",  "trace-steps", "json",    "verbose",    "device", "sample",
        "prompt", "temperature", "top-k",       "emulate", "config",     "quiet",  "save-every-seconds",
        NULL
    };
    json_t *words = json_array();
    char name[64];
    for (const struct cli_option *o = cli_option_table; o->name; o++) {
        if (!(o->verbs & CLI_TRAIN) || o->no_key || !cli_is_set(options, o->name) || is_fixed(o->name)
            || is_in(o->name, others))
            continue;
        if (o->type == CLI_FLAG && !cli_flag(options, o->name)) continue; /* each flag is off by default */
        yokei_text(name, sizeof name, "--%s", o->name);
        json_array_append_new(words, json_string(name));
        if (o->type != CLI_FLAG) json_array_append_new(words, value_of(options, o->name));
    }
    return words;
}

/* The variables that the libraries read, without those that yoke run sets, and those of tests. */
static json_t *environment_json(void)
{
    static const char *const of_run[] = {
        "YOKE_RUN_DIR",      "YOKE_EXPECT_SIZE", "YOKE_SUPERVISOR", "YOKE_LEFT_OUT", "YOKE_TERMINAL",
        "YOKE_TERMINAL_OUT", "YOKE_SOAK",        "YOKE_TEST_ONLY",  "YOKE_SEED",     NULL
    };
    json_t *out = json_object();
    char name[64];
    for (const struct cli_option *o = cli_option_table; o->name; o++) {
        cli_variable_name(o->name, name, sizeof name);
        const char *value = getenv(name);
        if ((o->verbs == CLI_LIBRARY || !strcmp(o->name, "emulate")) && value && *value
            && !is_in(name, of_run))
            json_object_set_new(out, name, cli_json_text(value));
    }
    static const char *const prefixes[] = { "OMP_",  "POCL_", "DNNL_", "ONEDNN_", "MPICH_",
                                            "CUDA_", "HIP_",  "HSA_",  NULL };
    for (char **e = environ; *e; e++)
        for (const char *const *p = prefixes; *p; p++) {
            const size_t length = strcspn(*e, "=");
            if (strncmp(*e, *p, strlen(*p)) != 0 || length >= sizeof name || !(*e)[length]) continue;
            yokei_text(name, sizeof name, "%.*s", (int)length, *e);
            json_object_set_new(out, name, cli_json_text(*e + length + 1));
        }
    return out;
}

/* The version of MPI on one line. */
static json_t *mpi_json(void)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    MPI_Get_library_version(text, &length);
    text[strcspn(text, "\n")] = '\0';
    for (char *c = text; *c; c++)
        if (*c == '\t') *c = ' ';
    return cli_json_text(text);
}

static yoke_status write_record(const struct cli_context *context, const struct yokei_training *t,
                                const struct place *places, int n)
{
    char path[4200], folder[PATH_MAX], started[32], *text;
    const time_t now = time(NULL);
    struct tm utc;
    strftime(started, sizeof started, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    json_t *ranks = json_array();
    for (int r = 0; r < n; r++) json_array_append_new(ranks, place_json(r, &places[r]));
    json_t *root = json_pack("{s:i, s:s, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "schema", 1, "version",
                             yoke_version(), "commit", *CLI_COMMIT ? json_string(CLI_COMMIT) : json_null(),
                             "started", started, "folder",
                             cli_json_text(getcwd(folder, sizeof folder) ? folder : NULL), "options",
                             options_json(context->options), "repeat", repeat_json(context->options),
                             "environment", environment_json(), "mpi", mpi_json(), "ranks", ranks);
    if (!root) return yoke_fail(YOKE_ENOMEM, "train: no host memory for run.json");
    yokei_text(path, sizeof path, "%s/run.json", t->run_dir);
    yoke_status status = yokei_json_dump(root, &text);
    json_decref(root);
    YOKE_TRY(status);
    status = yokei_file_write(path, text, strlen(text));
    free(text);
    return status;
}

yoke_status cli_run_record(const struct cli_context *context, const struct yokei_training *t)
{
    const struct yoke_trainer_config ranks = { .comm = t->comm, .control = t->control };
    const size_t n = (size_t)context->size;
    struct place mine, *all = calloc(n, sizeof *all);
    yoke_status status = all ? YOKE_OK
                             : yoke_fail(YOKE_ENOMEM, "train: no host memory for %d ranks", context->size);
    if (t->control) status = yokei_ranks_all_well(&ranks, status);
    if (!status) {
        find_place(t, &mine);
        if (t->control)
            status = yoke_gather(&mine, all, sizeof mine, YOKE_U8, 0, t->control, NULL);
        else
            all[0] = mine;
    }
    if (!status) {
        status = context->rank == 0 ? write_record(context, t, all, context->size) : YOKE_OK;
        status = yokei_ranks_all_well(&ranks, status);
    }
    free(all);
    return status;
}
