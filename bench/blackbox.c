/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the black box of a training costs: bench/blackbox [ROUNDS [MODEL [PRECISION [DEVICE [EVERY]]]]]
 * (default: 9 micro fp32 host 100). TEXT: the text (default: a license of Debian). STEPS: steps of a run
 * (200). A round is a run without the box and a run with it, in turn, in one process. The processor time of
 * the steps behind the first one counts, because other processes change the elapsed time. The ratio is the
 * median over the rounds of with / without. A second row has the time in which a step writes its record. The
 * losses of all runs must have the same bits. Goal: 1.01.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/base.h"
#include "core/base/times.h"
#include "train/blackbox/box.h"
#include "train/run/loop.h"

enum { MOST = 101 };

struct watch {
    struct timespec first, last;
    int64_t first_step, last_step;
    double loss;
};

static double seconds_of(struct timespec t) { return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec; }

static void look(void *context, const struct yokei_training_progress *p)
{
    struct watch *w = context;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &w->last);
    w->last_step = p->step;
    w->loss = p->loss;
    if (w->first_step) return;
    w->first = w->last;
    w->first_step = p->step;
}

static int fail(void)
{
    fprintf(stderr, "bench/blackbox: %s\n", yoke_last_error());
    return 1;
}

/* One run. Processor seconds of a step, and the last loss. */
static yoke_status run(yoke_device *device, const char *model, const char *precision, const char *folder,
                       int64_t steps, int64_t every, double *seconds_out, double *loss_out)
{
    const char *text = getenv("TEXT");
    struct watch w = { .first_step = 0 };
    struct yokei_training_result result = { 0 };
    struct yokei_training t = { .plan = YOKEI_PLAN_INIT };
    YOKE_TRY(yokei_model_named(model, &t.plan.model));
    yokei_text(t.plan.precision, sizeof t.plan.precision, "%s", precision);
    t.plan.seed = 1;
    t.plan.batch = 8;
    t.plan.sequence = 64;
    t.plan.steps = steps;
    t.plan.bucket_bytes = 25 << 20;
    t.tokens = text ? text : "/usr/share/common-licenses/GPL-3";
    t.validation_tokens = 64;
    t.device = device;
    t.run_dir = folder;
    t.black_box_every = every;
    t.context = &w;
    t.progress = look;
    const yoke_status status = yokei_training_run(&t, &result);
    yokei_plan_free(&t.plan);
    free(result.sample);
    *seconds_out = (seconds_of(w.last) - seconds_of(w.first)) / (double)(w.last_step - w.first_step);
    *loss_out = w.loss;
    return status;
}

/* Microseconds of one step in the ring and the rule alone, with 26 layers and the tokens of the runs. */
static yoke_status time_ring(const char *folder, double *microseconds_out)
{
    enum { LAYERS = 26, LAP = 20000 };
    static const struct yokei_box_layer layers[LAYERS];
    static const struct yokei_box_tensor tensors[1];
    static const struct yokei_box_values values[LAYERS];
    static const int32_t tokens[2 * 8 * 64];
    struct yokei_box_head head = {
        .n_ranks = 1, .n_layers = LAYERS, .n_tensors = 1, .n_model_layers = LAYERS, .sequence = 64
    };
    struct yokei_spike_series losses = { .n = 0 }, norms = { .n = 0 };
    struct yokei_box_writer *writer = NULL;
    struct timespec begin, end;
    YOKE_TRY(yokei_box_create(folder, &head, layers, tensors, false, &writer));
    for (int lap = 0; lap < 2; lap++) { /* the second lap counts: all places have been written before */
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
        for (int i = 1; i <= LAP; i++) {
            const struct yokei_box_record record = { .step = i,
                                                     .tokens_hash = yokei_hash(tokens, sizeof tokens, 0) };
            struct yokei_spike spike;
            yokei_box_begin(writer, i);
            yokei_spike_loss(&yokei_spike_rule, &losses, 3 + 1e-3 * (i * 7919 % 1000), &spike);
            yokei_spike_norm(&yokei_spike_rule, &norms, 1 + 1e-3 * (i * 7907 % 1000), &spike);
            yokei_box_append(writer, &record, values);
        }
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    }
    *microseconds_out = 1e6 * (seconds_of(end) - seconds_of(begin)) / LAP;
    const int64_t last = yokei_box_last_step(writer);
    yokei_box_close(writer, YOKEI_BOX_DONE, YOKE_OK, NULL);
    return last == LAP ? YOKE_OK : yoke_fail(YOKE_EINTERNAL, "the ring ends at step %lld", (long long)last);
}

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : 9;
    const char *model = argc > 2 ? argv[2] : "micro", *precision = argc > 3 ? argv[3] : "fp32",
               *spec = argc > 4 ? argv[4] : "host", *said = getenv("STEPS");
    const int64_t every = argc > 5 ? atoll(argv[5]) : 100, steps = said ? atoll(said) : 200;
    char folder[] = "/tmp/yoke-blackbox-XXXXXX", command[128];
    double ratio[MOST], without[MOST], with[MOST], loss[2], first = NAN, microseconds = 0;
    yoke_device *device = NULL;
    if (rounds < 1 || rounds > MOST || steps < 3 || every < 1) {
        fprintf(stderr, "usage: bench/blackbox [ROUNDS [MODEL [PRECISION [DEVICE [EVERY]]]]]\n");
        return 2;
    }
    if (!mkdtemp(folder) || yoke_device_open(spec, NULL, &device)) return fail();
    int failed = 0;
    for (int i = 0; i < rounds && !failed; i++) {
        for (int turn = 0; turn < 2 && !failed; turn++) {
            const int side = (i + turn) % 2;
            if (run(device, model, precision, folder, steps, side ? every : 0, side ? &with[i] : &without[i],
                    &loss[side]))
                failed = fail();
        }
        if (i == 0) first = loss[0];
        if (!failed && (memcmp(&loss[0], &first, sizeof first) || memcmp(&loss[1], &first, sizeof first))) {
            fprintf(stderr, "bench/blackbox: loss %.17g with the box, %.17g without it, %.17g before\n",
                    loss[1], loss[0], first);
            failed = 1;
        }
        if (!failed) ratio[i] = with[i] / without[i];
    }
    if (!failed && time_ring(folder, &microseconds)) failed = fail();
    if (!failed) {
        printf("| what | without | with | ratio | goal |\n|---|---:|---:|---:|---:|\n");
        printf("| %s, %s, %s, --black-box %lld, %lld steps, %d rounds | %.3f ms | %.3f ms | %.4f | 1.01 |\n",
               model, precision, spec, (long long)every, (long long)steps, rounds,
               1e3 * yokei_median(without, rounds), 1e3 * yokei_median(with, rounds),
               yokei_median(ratio, rounds));
        printf("| a record of 26 layers, and the rule | | %.4f ms | | |\n", 1e-3 * microseconds);
    }
    yoke_device_close(device);
    yokei_text(command, sizeof command, "rm -rf %s", folder);
    return system(command) || failed;
}
