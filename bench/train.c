/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Training speed.
 *
 * 1. The time of a step beside Debian's PyTorch (/usr/bin/python3 with torch, if installed), with the same
 * model, weights, tokens and number of threads. The first losses must agree, or no speed is printed. Then
 * each side makes a few steps in turn, and medians are printed. If LLMC_DIR names a folder with a built
 * train_gpt2 of llm.c, and the row has a goal for llm.c, llm.c is measured too. A whole run of llm.c stands
 * between steps of Yoke, because it cannot be stopped between two steps.
 *
 * 2. The time of each operation of a step, with the share of the device's limit that it reaches. The share is
 * the larger of (operations / matrix peak) and (bytes / copy rate), divided by the operation's time. Both
 * limits are measured in the same run. The part of the step's time that is in no operation is printed too.
 *
 * Usage: train [-cok] [-r ROUNDS] [-T LENGTH] [device [precision [batch [model]]]]
 *            defaults: host f32 8 micro, with the model's longest sequences
 *        train -R [-ok] [-r ROUNDS] [ROW...]
 *            the rows below, all or some, with their goals; -l lists them
 *   -o: only Yoke's side, nothing beside it. -k: operations by kind of layer. -c: compile the other side.
 * On a GPU, PyTorch uses this GPU too. TORCH_PYTHON names another Python, and top_srcdir another folder with
 * bench/train_torch.py.
 */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/rival.h"
#include "bench/train.h"
#include "core/backend.h"
#include "core/base/times.h"

enum { ROUNDS = 7, MOST_PROFILED = 9, IN_A_ROW = 2, MOST_OPS = 64, LLMC_MOST_ROUNDS = 9 };

struct row {
    const char *name, *device, *precision, *model;
    int64_t batch, T;
    double torch, llmc; /* goals: least speed relative to PyTorch and to llm.c; 0: no goal */
};
static const struct row rows[] = {
    { "gpt2-bf16", "host", "bf16", "124m", 4, 64, 2, 0 },
    { "gpt2-f32", "host", "f32", "124m", 4, 64, 1.9, 5 },
    { "micro-bf16", "host", "bf16", "micro", 8, 128, 2, 0 },
    { "micro-f32", "host", "f32", "micro", 8, 128, 0, 0 },
    { "micro64-bf16", "host", "bf16", "micro", 8, 64, 0, 0 },
    { "micro64-f32", "host", "f32", "micro", 8, 64, 0, 0 },
    { "opencl-bf16", "opencl:0", "bf16", "micro", 8, 64, 0, 0 },
};

struct options {
    bool alone, compiles;
    int rounds;
    const char *llmc; /* llm.c's folder; NULL: none */
};

/* ---- the other side: a Python process that makes one step for each line that it reads ---- */
static bool rival_step(struct rival *r, double *loss, double *seconds)
{
    char line[256];
    return ask_rival(r, "step", line, sizeof line) && sscanf(line, "%lf %lf", loss, seconds) == 2;
}

/* ---- Yoke's side ---- */
static yoke_status own_step(struct side *s, double *loss, double *seconds)
{
    struct yoke_step_result result;
    YOKE_TRY(yoke_trainer_backward(s->trainer, s->tokens, s->targets, 0, &result));
    YOKE_TRY(yoke_trainer_apply(s->trainer, 1e-3, &result));
    *loss = result.loss;
    *seconds = result.seconds;
    return YOKE_OK;
}

/*
 * One text, cut into sequences. The last target of a sequence is the first token of the next one, as in
 * llm.c.
 */
static yoke_status draw_text(struct side *s)
{
    const int64_t n = s->batch * s->T;
    s->text = malloc((size_t)(n + 1) * sizeof *s->text);
    if (!s->text) return yoke_fail(YOKE_ENOMEM, "no memory for %lld tokens", (long long)n);
    struct yokei_philox_key key = yokei_philox_named(1, "bench");
    for (int64_t i = 0; i <= n; i++)
        s->text[i] = (int32_t)(yokei_uniform(key, (uint64_t)i) * (double)s->config.vocab_size);
    s->tokens = s->text;
    s->targets = s->text + 1;
    return YOKE_OK;
}

static yoke_status set_up(struct side *s, const struct row *row)
{
    struct yoke_trainer_config c = YOKE_TRAINER_CONFIG_INIT;
    YOKE_TRY(yoke_gpt2_preset(row->model, &s->config));
    YOKE_TRY(yoke_dtype_parse(row->precision, &c.precision));
    s->batch = row->batch;
    s->T = row->T ? row->T : s->config.n_positions;
    s->config.n_positions = YOKE_MAX(s->config.n_positions, s->T);
    c.batch = s->batch;
    c.sequence = s->T;
    c.seed = 1;
    c.clip = 1;
    c.weight_decay = 0.1;
    YOKE_TRY(yoke_device_open(row->device, NULL, &s->device));
    YOKE_TRY(yoke_model_gpt2(&s->config, &s->model));
    YOKE_TRY(yoke_trainer_create(s->model, s->device, &c, &s->trainer));
    return draw_text(s);
}

static void tear_down(struct side *s)
{
    yoke_trainer_destroy(s->trainer);
    yoke_model_destroy(s->model);
    yoke_device_close(s->device);
    free(s->text);
}

/* Write the files that PyTorch's side reads: the weights, and each sequence with the token behind it. */
static yoke_status write_inputs(struct side *s, const char *weights, const char *tokens)
{
    YOKE_TRY(yokei_weights_dump(s->trainer, YOKE_TENSOR_WEIGHT, weights));
    int32_t *all = malloc((size_t)(s->batch * (s->T + 1)) * sizeof *all);
    if (!all) return yoke_fail(YOKE_ENOMEM, "no memory for the tokens");
    for (int64_t b = 0; b < s->batch; b++)
        memcpy(all + b * (s->T + 1), s->text + b * s->T, (size_t)(s->T + 1) * sizeof *all);
    yoke_status status = yokei_file_write(tokens, all, (size_t)(s->batch * (s->T + 1)) * sizeof *all);
    free(all);
    return status;
}

static const char *variable_or(const char *name, const char *otherwise)
{
    const char *value = getenv(name);
    return value && *value ? value : otherwise;
}

/* The device of PyTorch that is Yoke's GPU, as PyTorch calls it. PyTorch for AMD's GPUs says "cuda" too. */
static void name_torch_device(const yoke_device *device, char *name, size_t bytes)
{
    const struct yoke_device_info *info = yoke_device_info(device);
    const bool gpu = !strcmp(info->backend, "cuda") || !strcmp(info->backend, "hip");
    snprintf(name, bytes, gpu ? "cuda:%d" : "cpu", info->index);
}

static yoke_status start_torch(struct side *s, const char *precision, bool compiles, struct rival *r,
                               bool *started_out)
{
    char weights[64], tokens[64], numbers[5][16], device[16], script[4096];
    snprintf(script, sizeof script, "%s/bench/train_torch.py", variable_or("top_srcdir", SOURCES));
    name_torch_device(s->device, device, sizeof device);
    snprintf(weights, sizeof weights, "/tmp/yoke-bench-%d.safetensors", (int)getpid());
    snprintf(tokens, sizeof tokens, "/tmp/yoke-bench-%d.tokens", (int)getpid());
    const int64_t values[5] = { s->config.n_layer, s->config.n_head, s->batch, s->T, omp_get_max_threads() };
    for (int i = 0; i < 5; i++) snprintf(numbers[i], sizeof numbers[i], "%lld", (long long)values[i]);
    YOKE_TRY(write_inputs(s, weights, tokens));
    char *argv[] = { (char *)(uintptr_t)variable_or("TORCH_PYTHON", "/usr/bin/python3"),
                     script,
                     weights,
                     tokens,
                     numbers[0],
                     numbers[1],
                     numbers[2],
                     numbers[3],
                     (char *)(uintptr_t)precision,
                     numbers[4],
                     device,
                     compiles ? "compile" : "eager",
                     NULL };
    *started_out = start_rival(r, argv);
    unlink(weights);
    unlink(tokens);
    return YOKE_OK;
}

static yoke_status compare_losses(double own, double rival, double gate, const char *name)
{
    if (fabs(own - rival) <= gate * own) return YOKE_OK;
    return yoke_fail(YOKE_ENUMERIC, "the first losses differ: %.9g here, %.9g in %s", own, rival, name);
}

static void print_ratio(const struct side *s, const char *name, double *own, int n_own, double *other,
                        int n_other, double goal)
{
    const double tokens = (double)(s->batch * s->T), mine = yokei_median(own, n_own),
                 theirs = yokei_median(other, n_other), ratio = theirs / mine;
    printf("  %-8s %9.1f ms %9.0f tokens/s   yoke %8.1f ms %9.0f tokens/s   ratio %.2f", name, theirs * 1e3,
           tokens / theirs, mine * 1e3, tokens / mine, ratio);
    if (goal > 0) printf("   goal %.2g: %s", goal, ratio >= goal ? "met" : "missed");
    printf("\n");
}

/*
 * Make a few steps of each side in turn. The first step of each turn is not counted. It finds the caches full
 * of the other side's data, and the other side's threads still spin. No step of a training run begins like
 * this.
 */
static yoke_status beside_torch(struct side *s, const struct row *row, const struct options *o,
                                struct rival *r, double first)
{
    double own[BENCH_MOST_ROUNDS * IN_A_ROW], other[BENCH_MOST_ROUNDS * IN_A_ROW], loss, seconds;
    const int n = o->rounds * IN_A_ROW;
    if (!rival_step(r, &loss, &seconds)) return yoke_fail(YOKE_EBACKEND, "PyTorch's process ended");
    YOKE_TRY(compare_losses(first, loss, !strcmp(row->precision, "f32") ? 1e-5 : 1e-2, "PyTorch"));
    for (int i = 0; i < n; i += IN_A_ROW) {
        for (int k = -1; k < IN_A_ROW; k++) YOKE_TRY(own_step(s, &loss, k < 0 ? &seconds : &own[i + k]));
        for (int k = -1; k < IN_A_ROW; k++)
            if (!rival_step(r, &loss, k < 0 ? &seconds : &other[i + k]))
                return yoke_fail(YOKE_EBACKEND, "PyTorch's process ended");
    }
    print_ratio(s, "pytorch", own, n, other, n, row->torch);
    return YOKE_OK;
}

/* Make a run of llm.c between steps of Yoke. */
static yoke_status beside_llmc(struct side *s, const struct row *row, const struct options *o,
                               const struct llmc *llmc, double first)
{
    double own[2 * LLMC_MOST_ROUNDS], other[LLMC_MOST_ROUNDS], loss;
    const int rounds = YOKE_MIN(o->rounds, LLMC_MOST_ROUNDS);
    for (int i = 0; i < rounds; i++) YOKE_TRY(own_step(s, &loss, &own[i]));
    YOKE_TRY(bench_llmc_run(llmc, o->llmc, rounds, &loss, other));
    YOKE_TRY(compare_losses(first, loss, 1e-5, "llm.c"));
    for (int i = 0; i < rounds; i++) YOKE_TRY(own_step(s, &loss, &own[rounds + i]));
    print_ratio(s, "llm.c", own, 2 * rounds, other, rounds, row->llmc);
    return YOKE_OK;
}

/* Both rivals begin with the weights of Yoke's first step. */
static yoke_status compare(struct side *s, const struct row *row, const struct options *o)
{
    struct rival r = { 0 };
    struct llmc llmc = { "" };
    bool has_torch = false;
    double first, seconds;
    const bool has_llmc = row->llmc > 0 && o->llmc;
    yoke_status status = start_torch(s, row->precision, o->compiles, &r, &has_torch);
    if (!status && has_llmc) status = bench_llmc_write(s, &llmc);
    if (!status) status = own_step(s, &first, &seconds); /* compiles the kernels; its loss is compared */
    if (!status && has_torch)
        status = beside_torch(s, row, o, &r, first);
    else if (!status)
        printf("  (no %s with torch: apt-get install python3-torch, or set TORCH_PYTHON)\n",
               variable_or("TORCH_PYTHON", "/usr/bin/python3"));
    stop_rival(&r);
    if (!status && has_llmc)
        status = beside_llmc(s, row, o, &llmc, first);
    else if (!status && row->llmc > 0)
        printf("  (no llm.c: build its train_gpt2 and name the folder in LLMC_DIR)\n");
    bench_llmc_remove(&llmc);
    return status;
}

/* ---- the ops of a step ---- */
struct op {
    char name[48];
    int count;
    double seconds[MOST_PROFILED], flops, bytes; /* seconds: [profiled step]; flops and bytes: of one step */
};
static struct op ops[MOST_OPS];
static int n_ops, at; /* the present profiled step */
static bool by_layer;

static void count_op(void *context, const char *layer, const char *call, const char *op,
                     const struct yoke_cost *cost, double seconds)
{
    char name[48];
    const char *dot = strrchr(layer, '.');
    (void)context;
    if (by_layer)
        snprintf(name, sizeof name, "%s %s %s", call, op, dot ? dot + 1 : layer);
    else
        snprintf(name, sizeof name, "%s %s", call, op);
    int i = 0;
    while (i < n_ops && strcmp(ops[i].name, name) != 0) i++;
    if (i == n_ops && n_ops < MOST_OPS) snprintf(ops[n_ops++].name, sizeof ops[0].name, "%s", name);
    if (i == MOST_OPS) return;
    ops[i].seconds[at] += seconds;
    if (at > 0) return;
    ops[i].count++;
    ops[i].flops += cost->flops;
    ops[i].bytes += cost->bytes;
}

static int by_time(const void *a, const void *b)
{
    double x = ((const struct op *)a)->seconds[0], y = ((const struct op *)b)->seconds[0];
    return x > y ? -1 : x < y;
}

/* Time steps operation by operation, and steps as a whole, in turn. Both results are medians. */
static yoke_status time_ops(struct side *s, int n, double *step_out, double *elsewhere_out)
{
    double own[MOST_PROFILED], elsewhere[MOST_PROFILED], loss, seconds;
    /* brings this side's data back into the caches, which earlier measurements have filled */
    YOKE_TRY(own_step(s, &loss, &seconds));
    for (at = 0; at < n; at++) {
        YOKE_TRY(own_step(s, &loss, &own[at]));
        yoke_trainer_profile(s->trainer, count_op, NULL);
        YOKE_TRY(own_step(s, &loss, &elsewhere[at]));
        yoke_trainer_profile(s->trainer, NULL, NULL);
        for (int i = 0; i < n_ops; i++) elsewhere[at] -= ops[i].seconds[at];
    }
    for (int i = 0; i < n_ops; i++) ops[i].seconds[0] = yokei_median(ops[i].seconds, n);
    *step_out = yokei_median(own, n);
    *elsewhere_out = yokei_median(elsewhere, n);
    return YOKE_OK;
}

static yoke_status profile(struct side *s, yoke_dtype dtype, int rounds)
{
    double peak, copy, step, elsewhere, total = 0;
    n_ops = 0;
    memset(ops, 0, sizeof ops);
    YOKE_TRY(yoke_gemm_peak(s->device, dtype, &peak, NULL));
    YOKE_TRY(yokei_copy_rate(s->device, &copy));
    YOKE_TRY(time_ops(s, YOKE_MIN(rounds, MOST_PROFILED), &step, &elsewhere));
    for (int i = 0; i < n_ops; i++) total += ops[i].seconds[0];
    qsort(ops, (size_t)n_ops, sizeof *ops, by_time);
    printf("  a step %.1f ms; op by op %.1f ms in ops, %.2f ms elsewhere (limits: %.1f GFLOP/s, %.1f GB/s)\n",
           step * 1e3, total * 1e3, elsewhere * 1e3, peak * 1e-9, copy * 1e-9);
    printf("  %-30s %5s %9s %6s %9s %8s %7s\n", "call op", "count", "ms", "share", "GFLOP/s", "GB/s",
           "%limit");
    for (int i = 0; i < n_ops; i++) {
        const struct op *r = &ops[i];
        const double seconds = r->seconds[0], limit = fmax(r->flops / peak, r->bytes / copy);
        printf("  %-30s %5d %9.3f %5.1f%% %9.1f %8.1f %6.0f%%\n", r->name, r->count, seconds * 1e3,
               100 * seconds / total, r->flops / seconds * 1e-9, r->bytes / seconds * 1e-9,
               100 * limit / seconds);
    }
    return YOKE_OK;
}

static yoke_status run_row(const struct row *row, const struct options *o)
{
    struct side s = { 0 };
    yoke_dtype dtype = YOKE_F32;
    yoke_status status = yoke_dtype_parse(row->precision, &dtype);
    if (!status) status = set_up(&s, row);
    if (!status)
        printf("%s: %s, %s, %s, %lld sequences of %lld tokens, %d threads\n", row->name, row->model,
               yoke_device_info(s.device)->spec, row->precision, (long long)s.batch, (long long)s.T,
               omp_get_max_threads());
    if (!status && !o->alone) status = compare(&s, row, o);
    if (!status) status = profile(&s, dtype, o->rounds);
    if (status) fprintf(stderr, "bench/train: %s: %s\n", row->name, yoke_last_error());
    tear_down(&s);
    return status;
}

static yoke_status run_rows(char *const *names, const struct options *o)
{
    yoke_status worst = YOKE_OK;
    for (size_t i = 0; i < YOKE_COUNT(rows); i++) {
        bool wanted = !*names;
        for (char *const *n = names; *n; n++) wanted = wanted || !strcmp(*n, rows[i].name);
        const yoke_status status = wanted ? run_row(&rows[i], o) : YOKE_OK;
        if (status) worst = status;
    }
    for (char *const *n = names; *n; n++) {
        bool known = false;
        for (size_t i = 0; i < YOKE_COUNT(rows); i++) known = known || !strcmp(*n, rows[i].name);
        if (!known)
            fprintf(stderr, "bench/train: no row is called %s: -l lists them\n", *n), worst = YOKE_EINVAL;
    }
    return worst;
}

int main(int argc, char **argv)
{
    static char llmc[4096];
    struct options o = { .rounds = ROUNDS };
    struct row own = { "step", "host", "f32", "micro", 8, 0, 0, 0 };
    bool by_row = false;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int c; (c = getopt(argc, argv, "ckolRr:T:")) != -1;) {
        if (c == 'o')
            o.alone = true;
        else if (c == 'c')
            o.compiles = true;
        else if (c == 'k')
            by_layer = true;
        else if (c == 'R')
            by_row = true;
        else if (c == 'r')
            o.rounds = YOKE_MAX(1, YOKE_MIN(atoi(optarg), BENCH_MOST_ROUNDS));
        else if (c == 'T')
            own.T = atoll(optarg);
        else if (c == 'l') {
            for (size_t i = 0; i < YOKE_COUNT(rows); i++) puts(rows[i].name);
            return 0;
        } else
            return yoke_status_exit_code(YOKE_EINVAL);
    }
    if (getenv("LLMC_DIR") && !(o.llmc = realpath(getenv("LLMC_DIR"), llmc)))
        return fprintf(stderr, "bench/train: LLMC_DIR is no folder: %s\n", getenv("LLMC_DIR")),
               yoke_status_exit_code(YOKE_EINVAL);
    argv += optind, argc -= optind;
    if (by_row) return yoke_status_exit_code(run_rows(argv, &o));
    if (argc > 0) own.device = argv[0];
    if (argc > 1) own.precision = argv[1];
    if (argc > 2) own.batch = atoll(argv[2]);
    if (argc > 3) own.model = argv[3];
    return yoke_status_exit_code(run_row(&own, &o));
}
