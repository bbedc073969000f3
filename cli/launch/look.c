/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yoke look: choose the devices of --devices auto on this host, and print them for yoke run (look_hosts.c).
 * Each device trains a few layers of the job's model for a second, in a child process that loads only this
 * device's backend.
 */
#include "cli/launch/look.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <yoke/train.h>

#include "cli/devices/child.h"
#include "core/base/base.h"
#include "train/models/model_files.h"

enum { MOST_LAYERS = 2, MOST_BATCH = 4, MOST_SEQUENCE = 256, LEAST_STEPS = 2 };
static const double SECONDS = 0.8, MOST_SECONDS = 3, MEET_SECONDS = 60, LIMIT_SECONDS = 180;

/* The work with which devices are measured. */
struct work {
    struct yokei_model_config model; /* with few layers */
    yoke_dtype precision;
    int64_t batch, sequence;
};

/* One measurement, in a child process. `slot` and `n_slots` are the part of the cores. */
struct probe {
    const struct work *work;
    const char *spec;
    int slot, n_slots;
    atomic_int *ready; /* how many of the n_slots processes are about to measure; in shared memory */
};
struct measured {
    double speed;
    char why[400]; /* why there is no speed */
};

/* The objects of a probe. They end with the process. */
struct training {
    yoke_model *model;
    yoke_trainer *trainer;
    int32_t *inputs, *targets;
};

static yoke_status open_training(const struct probe *p, struct training *t)
{
    const struct work *w = p->work;
    struct yoke_device_config device_config = YOKE_DEVICE_CONFIG_INIT;
    struct yoke_trainer_config c = YOKE_TRAINER_CONFIG_INIT;
    yoke_device *device;
    char threads[16];
    if (yokei_bind(p->slot, p->n_slots, &device_config.n_threads)) device_config.n_threads = 0;
    yokei_text(threads, sizeof threads, "%d", YOKE_MAX(device_config.n_threads, 1));
    setenv("POCL_MAX_PTHREAD_COUNT", threads, 0); /* PoCL ignores the binding */
    YOKE_TRY(yoke_device_open(p->spec, &device_config, &device));
    YOKE_TRY(yokei_model_create(yokei_model_of(&w->model), &t->model));
    c.precision = w->precision;
    c.batch = c.micro_batch = w->batch;
    c.sequence = w->sequence;
    YOKE_TRY(yoke_trainer_create(t->model, device, &c, &t->trainer));
    const int64_t n = w->batch * w->sequence, V = yokei_model_vocabulary(yokei_model_of(&w->model));
    t->inputs = malloc((size_t)n * sizeof *t->inputs);
    t->targets = malloc((size_t)n * sizeof *t->targets);
    if (!t->inputs || !t->targets) return yoke_fail(YOKE_ENOMEM, "no host memory for a batch");
    for (int64_t i = 0; i < n; i++) {
        t->inputs[i] = (int32_t)(i * 7919 % V);
        t->targets[i] = (int32_t)((i + 1) * 7919 % V);
    }
    return YOKE_OK;
}

static yoke_status one_step(struct training *t)
{
    struct yoke_step_result result;
    YOKE_TRY(yoke_trainer_backward(t->trainer, t->inputs, t->targets, 0, &result));
    return yoke_trainer_apply(t->trainer, 0, &result);
}

/* Wait until the other processes have compiled their kernels too, so that all measure at the same time. */
static void meet(const struct probe *p)
{
    const uint64_t begun = yokei_now_ns();
    atomic_fetch_add(p->ready, 1);
    while (atomic_load(p->ready) < p->n_slots && yokei_seconds_since(begun) < MEET_SECONDS) usleep(1000);
}

static yoke_status measure(const struct probe *p, double *speed_out)
{
    struct training t = { 0 };
    int n = 0;
    double seconds = 0;
    YOKE_TRY(open_training(p, &t));
    YOKE_TRY(one_step(&t)); /* compiles kernels */
    meet(p);
    /* Other programs can only make a step slower. So the fastest step tells the most of the device. */
    const uint64_t begun = yokei_now_ns();
    while (seconds < (n < LEAST_STEPS ? MOST_SECONDS : SECONDS)) {
        const uint64_t step = yokei_now_ns();
        YOKE_TRY(one_step(&t));
        n++;
        *speed_out = fmax(*speed_out, (double)p->work->batch / yokei_seconds_since(step));
        seconds = yokei_seconds_since(begun);
    }
    return YOKE_OK;
}

static void measure_in_child(const void *argument, void *result)
{
    const struct probe *p = argument;
    struct measured *m = result;
    if (measure(p, &m->speed)) yokei_text(m->why, sizeof m->why, "%s", yoke_last_error());
}

static void run_probe(const struct probe *p, struct measured *m)
{
    char reason[200] = "";
    *m = (struct measured){ 0 };
    if (!cli_in_child(measure_in_child, p, m, sizeof *m, LIMIT_SECONDS, reason, sizeof reason))
        yokei_text(m->why, sizeof m->why, "its measurement %s", reason);
}

/* Memory that the measuring processes share. */
struct meeting {
    atomic_int ready;
    struct measured made[2];
};

/* Measure n devices (1 or 2) at the same time, each on its part of the cores. */
static bool measure_all(const struct work *work, const char *const *specs, int n, double *speeds_out,
                        char *why, size_t bytes)
{
    struct meeting *m = mmap(NULL, sizeof *m, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (m == MAP_FAILED) {
        yokei_text(why, bytes, "no memory for a measurement");
        return false;
    }
    pid_t pid = 0;
    struct probe probes[2];
    for (int i = 0; i < n; i++) probes[i] = (struct probe){ work, specs[i], i, n, &m->ready };
    if (n > 1) {
        fflush(NULL);
        pid = fork();
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            run_probe(&probes[1], &m->made[1]);
            _exit(0);
        }
    }
    if (pid < 0)
        yokei_text(m->made[0].why, sizeof m->made[0].why, "no child process: %s", strerror(errno));
    else
        run_probe(&probes[0], &m->made[0]);
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR) {}
    bool good = true;
    for (int i = 0; i < n; i++) {
        speeds_out[i] = m->made[i].speed;
        if (m->made[i].speed > 0 || !good) continue;
        yokei_text(why, bytes, "%s", m->made[i].why);
        good = false;
    }
    munmap(m, sizeof *m);
    return good;
}

static bool measure_alone(void *context, const char *spec, double *speed_out, char *why, size_t bytes)
{
    cli_progress_now("measuring %s (kernels are compiled on the first start)", spec);
    return measure_all(context, &spec, 1, speed_out, why, bytes);
}

static bool measure_together(void *context, const char *const specs[2], double speeds_out[2], char *why,
                             size_t bytes)
{
    cli_progress_now("measuring %s and %s together", specs[0], specs[1]);
    return measure_all(context, specs, 2, speeds_out, why, bytes);
}

/* ---- the job ---- */

/* Why the job cannot give a slow device less work; NULL: it can. */
static const char *not_divided(const struct cli_verb *verb, const struct cli_options *o)
{
    if (!verb) return "a program of your own gets no shares by speed";
    if (verb->bit != CLI_TRAIN) return "only yoke train divides its work by speed";
    if (strcmp(cli_text(o, "balance"), "auto")) return "--balance equal gives all ranks equal work";
    if (strcmp(cli_text(o, "shares"), "auto")) return "--shares names the shares";
    if (cli_int(o, "pp") > 1) return "--pp gives it a whole stage";
    if (strcmp(cli_text(o, "tp"), "1")) return "--tp makes the others wait for it in every layer";
    return NULL;
}

static yoke_status work_of(const struct cli_options *o, struct work *out)
{
    const char *model = cli_text(o, "model"), *precision = cli_text(o, "precision");
    if (yokei_model_named(model, &out->model)) YOKE_TRY(yokei_model_read(model, &out->model));
    const int64_t layers = yokei_model_n_layers(yokei_model_of(&out->model));
    const int64_t longest = yokei_model_longest(yokei_model_of(&out->model), NULL);
    yokei_model_set_layers(&out->model, YOKE_MIN(layers, MOST_LAYERS));
    out->precision = !strcmp(precision, "bf16") ? YOKE_BF16 : !strcmp(precision, "f16") ? YOKE_F16 : YOKE_F32;
    out->sequence = cli_int(o, "sequence") ? cli_int(o, "sequence") : longest;
    out->sequence = YOKE_MIN(YOKE_MIN(out->sequence, longest), MOST_SEQUENCE);
    out->batch = YOKE_MIN(cli_int(o, "batch"), MOST_BATCH);
    return YOKE_OK;
}

/* Print a text as one field of a line. */
static void put_field(const char *text)
{
    putchar('\t');
    for (const char *c = text; *c; c++) putchar(*c == '\t' || *c == '\n' ? ' ' : *c);
}

static yoke_status look(const struct cli_context *context, struct cli_auto_device *devices, int *n_out)
{
    struct yoke_backend_report *reports = calloc(CLI_AUTO_REPORTS, sizeof *reports);
    const struct cli_verb *verb = NULL;
    struct cli_options *o = NULL;
    struct work work = { .batch = 0 };
    int n_reports = 0, n_words;
    yoke_status status = reports ? YOKE_OK : yoke_fail(YOKE_ENOMEM, "no memory for the list of devices");
    if (!status && !strchr(context->words[0], '/')) status = cli_verb_of_words(context, &verb, &n_words);
    if (!status) status = cli_look_options(context, verb, &o);
    if (!status) status = work_of(o, &work);
    cli_progress_begin("choosing the devices");
    if (!status) status = yoke_discover(reports, CLI_AUTO_REPORTS, &n_reports);
    if (!status) {
        const struct cli_auto_job job = { not_divided(verb, o), cli_int(o, "batch") };
        const struct cli_auto_measure measure = { &work, measure_alone, measure_together };
        *n_out = cli_auto_choose(reports, n_reports, &job, &measure, devices);
        if (!cli_auto_count(devices, *n_out)) status = cli_auto_nothing(reports, n_reports, devices, *n_out);
    }
    cli_progress_end();
    cli_options_free(o);
    free(reports);
    return status;
}

yoke_status cli_look(const struct cli_context *context)
{
    struct cli_auto_device *devices = calloc(CLI_AUTO_DEVICES, sizeof *devices);
    int n = 0;
    if (!context->n_words)
        return yoke_fail(YOKE_EINVAL, "yoke look is started by yoke run and is of no use by itself");
    const yoke_status status = devices ? look(context, devices, &n)
                                       : yoke_fail(YOKE_ENOMEM, "no memory for the list of devices");
    if (status) {
        printf("error\t%d", (int)status);
        put_field(yoke_last_error());
        putchar('\n');
    }
    for (int i = 0; i < n && !status; i++) {
        printf("device\t%s\t%d\t%.9g", devices[i].info.spec, devices[i].is_taken, devices[i].speed);
        put_field(devices[i].why);
        putchar('\n');
    }
    free(devices);
    return YOKE_OK; /* yoke run reports the error */
}
