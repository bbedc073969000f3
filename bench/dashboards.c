/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processor time that the files for TensorBoard and Prometheus cost: bench/dashboards [FOLDER]. It writes
 * rows of made-up runs with the functions of yoke train. A step costs its row. Once a second at most, parts
 * of the ranks, a flush and the metrics file come in addition.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/base.h"
#include "train/run/dashboards.h"
#include "train/trainer/memory.h"

enum { MOST_RANKS = 64, N_ROWS = 100000, N_SECONDS = 500, N_VALUES = 1 << 22 };

static double processor_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void need(yoke_status status)
{
    if (!status) return;
    fprintf(stderr, "bench/dashboards: %s\n", yoke_last_error());
    exit(1);
}

static struct yokei_metrics_row make_row(int64_t step, struct yokei_metrics_rank *ranks, int n)
{
    for (int r = 0; r < n; r++) {
        ranks[r].busy_seconds = 0.07 + 0.001 * r;
        ranks[r].exposed_communication_seconds = 0.01 + 1e-5 * r;
        ranks[r].bubble = 0.1;
        ranks[r].data_seconds = 1e-4;
    }
    return (struct yokei_metrics_row){ .step = step,
                                       .tokens = 8192 * step,
                                       .seconds = 0.1 * (double)step,
                                       .loss = 3 + 1.0 / (double)step,
                                       .validation_loss = NAN,
                                       .learning_rate = 1e-3,
                                       .gradient_norm = 1.5,
                                       .loss_scale = 1,
                                       .tokens_per_second = 81920.5,
                                       .mfu = 0.41,
                                       .ranks = ranks,
                                       .n_ranks = n };
}

/* The seconds of one row, or of one row with everything that is due once a second. */
static double measure(struct yokei_run_state *s, int64_t *step, int n_rows, bool all_is_due)
{
    const double begun = processor_seconds();
    for (int i = 0; i < n_rows; i++) {
        const struct yokei_metrics_row row = make_row(++*step, s->ranks, s->n_ranks);
        if (all_is_due) s->dashboards->parts_ns = s->dashboards->flushed_ns = s->dashboards->published_ns = 1;
        yokei_run_show_row(s, &row);
    }
    return (processor_seconds() - begun) / n_rows;
}

/* Whether the run's last metrics are in the file. */
static void check_file(const char *path, int64_t step)
{
    void *text;
    size_t bytes;
    char line[64];
    need(yokei_file_read(path, 1 << 24, &text, &bytes));
    snprintf(line, sizeof line, "\nyoke_train_step{run=\"run\"} %lld\n", (long long)step);
    if (!strstr(text, line))
        need(yoke_fail(YOKE_EINTERNAL, "%s does not have step %lld", path, (long long)step));
    free(text);
}

static void measure_ranks(const char *folder, int n)
{
    static struct yokei_metrics_rank ranks[MOST_RANKS];
    static struct yokei_plan_rank plan_ranks[MOST_RANKS];
    static struct yokei_memory_rank memory[MOST_RANKS];
    static int placed[MOST_RANKS];
    static struct yoke_trainer trainer;
    struct yokei_training t = { .plan = YOKEI_PLAN_INIT, .run_dir = "run" };
    struct yokei_run_state s = {
        .t = &t, .ranks = ranks, .n_ranks = n, .placed = placed, .trainer = &trainer
    };
    const struct yokei_training_result result = { .validation_loss = NAN };
    char events[4096], metrics[4096];
    int64_t step = 0;
    snprintf(events, sizeof events, "%s/%d", folder, n);
    snprintf(metrics, sizeof metrics, "%s/%d.prom", folder, n);
    t.tensorboard = events;
    t.metrics_file = metrics;
    t.plan.pipeline = 2;
    t.plan.ranks = plan_ranks;
    t.plan.n_ranks = n;
    trainer.memory = memory;
    for (int r = 0; r < n; r++) {
        placed[r] = r;
        snprintf(ranks[r].device, sizeof ranks[r].device, "cuda:%d", r);
    }
    need(yokei_run_begin_dashboards(&s));
    measure(&s, &step, 1000, false);
    const double row = measure(&s, &step, N_ROWS, false), both = measure(&s, &step, N_SECONDS, true),
                 more = fmax(both - row, 0);
    yokei_run_end_dashboards(&s, &result, YOKE_OK);
    check_file(metrics, step);
    printf("| %d | %.2f | %.0f | %.1f |\n", n, 1e6 * row, 1e6 * more, 1e3 * row / (0.001 - more));
}

static void measure_histogram(void)
{
    static int64_t count[YOKEI_HISTOGRAM_BUCKETS];
    struct yokei_histogram h = { INFINITY, -INFINITY, 0, 0, count };
    float *values = malloc(N_VALUES * sizeof *values);
    if (!values) need(yoke_fail(YOKE_ENOMEM, "no memory for values"));
    for (int i = 0; i < N_VALUES; i++) values[i] = ldexpf((float)(i % 1021 - 510), -(i % 37));
    const double begun = processor_seconds();
    yokei_histogram_add(&h, values, N_VALUES);
    printf("\nA histogram counts a million values in %.2f ms.\n",
           1e9 * (processor_seconds() - begun) / (double)N_VALUES);
    free(values);
}

int main(int argc, char **argv)
{
    char folder[4096] = "/tmp/yoke-dashboards.XXXXXX";
    if (argc > 1)
        snprintf(folder, sizeof folder, "%s", argv[1]);
    else if (!mkdtemp(folder))
        return 1;
    printf(
        "| ranks | us per step | us once a second | least step for 0.1 %% in ms |\n| --- | --- | --- | --- |\n");
    for (int n = 1; n <= MOST_RANKS; n *= 8) measure_ranks(folder, n);
    measure_histogram();
    if (argc < 2) printf("The files are in %s.\n", folder);
    return 0;
}
