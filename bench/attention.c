/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Speed of causal attention on the host, forward and backward, beside Debian's PyTorch (/usr/bin/python3 with
 * torch, if installed). PyTorch computes scores, mask, softmax and values as products, and the backward pass
 * by autograd. Both sides use the same numbers and the same number of threads.
 *
 * All results are compared first. Some rows and keys are also compared with f64
 * (tests/conform/attention_sample.h). A side with wrong results prints no speed. Then both sides are timed in
 * turn, and medians are printed. PyTorch has no f16 products on CPUs, so its side computes these rows in f32.
 *
 * Usage: attention [-r ROUNDS] [WORD...]: only rows whose name contains a word
 */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/rival.h"
#include "tests/conform/attention_sample.h"
#include "core/base/base.h"
#include "core/base/times.h"

#define GOAL 1.5
enum { MOST_ROUNDS = 99, TURN_US = 30000 /* the other side's threads spin for a while before they sleep */ };

static const struct row {
    const char *name;
    yoke_dtype dtype;
    int64_t B, T, H, Hkv;
    /* only this side, because PyTorch's T x T matrices would take more memory than a small machine has */
    bool alone;
} rows[] = {
    { "bf16 64", YOKE_BF16, 8, 64, 4, 4, false },
    { "bf16 256", YOKE_BF16, 4, 256, 12, 12, false },
    { "bf16 1024", YOKE_BF16, 1, 1024, 12, 12, false },
    { "bf16 4096", YOKE_BF16, 1, 4096, 12, 12, false },
    { "bf16 8192", YOKE_BF16, 1, 8192, 12, 12, true },
    { "bf16 grouped 256", YOKE_BF16, 4, 256, 8, 2, false },
    { "bf16 grouped 1024", YOKE_BF16, 1, 1024, 8, 2, false },
    { "bf16 grouped 4096", YOKE_BF16, 1, 4096, 8, 2, false },
    { "bf16 grouped 8192", YOKE_BF16, 1, 8192, 8, 2, true },
    { "f32 64", YOKE_F32, 8, 64, 4, 4, false },
    { "f32 256", YOKE_F32, 4, 256, 12, 12, false },
    { "f32 1024", YOKE_F32, 1, 1024, 12, 12, false },
    { "f32 4096", YOKE_F32, 1, 4096, 12, 12, false },
    { "f32 8192", YOKE_F32, 1, 8192, 12, 12, true },
    { "f32 grouped 1024", YOKE_F32, 1, 1024, 8, 2, false },
    { "f16 256", YOKE_F16, 4, 256, 12, 12, false },
    { "f16 1024", YOKE_F16, 1, 1024, 12, 12, false },
    { "f16 4096", YOKE_F16, 1, 4096, 12, 12, false },
    { "f16 8192", YOKE_F16, 1, 8192, 12, 12, true },
};
enum { D = 64 };

/* The four outputs, in their order in the rival's file: [B, heads, T, D]. */
enum { Q, K, V, O, N_PARTS };
static const char *const result_names[] = { "dq", "dk", "dv", "o" };

struct side {
    const struct row *row;
    yoke_device *device;
    yoke_stream *stream;
    struct yoke_attention_forward_args forward;
    struct yoke_attention_backward_args backward;
    char *memory;
    size_t scratch, bytes; /* bytes of the operation's scratch memory; bytes of the arrays */
    double flops;          /* operations of both directions */
};

static int64_t columns(const struct row *r) { return (r->H + 2 * r->Hkv) * D; }
static int64_t heads_of(const struct row *r, int part) { return part == K || part == V ? r->Hkv : r->H; }
static int64_t first_column(const struct row *r, int part)
{
    return part == K ? r->H * D : part == V ? (r->H + r->Hkv) * D : 0;
}

/* ---- Yoke's side: q, k and v are parts of one matrix, as in training, and so are their gradients ---- */

static char *part(char *matrix, const struct row *r, int which)
{
    return matrix + (size_t)first_column(r, which) * yoke_dtype_bytes(r->dtype);
}

static void set_arguments(struct side *s)
{
    const struct row *r = s->row;
    const size_t tokens = (size_t)(r->B * r->T), element = yoke_dtype_bytes(r->dtype),
                 wide = tokens * (size_t)columns(r) * element;
    const size_t narrow = tokens * (size_t)(r->H * D) * element;
    char *qkv = s->memory, *dqkv = qkv + wide, *o = dqkv + wide, *d_o = o + narrow, *lse = d_o + narrow;
    const int64_t ld = columns(r), ldo = r->H * D;
    s->forward = YOKE_ARGS(attention_forward, .dtype = r->dtype, .causal = true, .B = r->B, .T = r->T,
                           .H = r->H, .Hkv = r->Hkv, .D = D, .scale = 1 / sqrtf(D), .q = part(qkv, r, Q),
                           .ldq = ld, .k = part(qkv, r, K), .ldk = ld, .v = part(qkv, r, V), .ldv = ld,
                           .o = o, .ldo = ldo, .lse = lse);
    s->backward = YOKE_ARGS(attention_backward, .dtype = r->dtype, .causal = true, .B = r->B, .T = r->T,
                            .H = r->H, .Hkv = r->Hkv, .D = D, .scale = 1 / sqrtf(D), .q = part(qkv, r, Q),
                            .ldq = ld, .k = part(qkv, r, K), .ldk = ld, .v = part(qkv, r, V), .ldv = ld,
                            .o = o, .ldo = ldo, .d_o = d_o, .lddo = ldo, .lse = lse, .dq = part(dqkv, r, Q),
                            .lddq = ld, .dk = part(dqkv, r, K), .lddk = ld, .dv = part(dqkv, r, V),
                            .lddv = ld);
}

static yoke_status set_up(struct side *s)
{
    const struct row *r = s->row;
    const size_t tokens = (size_t)(r->B * r->T), element = yoke_dtype_bytes(r->dtype);
    struct yoke_cost one = { .size = sizeof one }, other = { .size = sizeof other };
    s->bytes = tokens * ((size_t)(2 * columns(r) + 2 * r->H * D) * element + (size_t)r->H * sizeof(float));
    YOKE_TRY(yoke_device_open("host", NULL, &s->device));
    YOKE_TRY(yoke_stream_create(s->device, &s->stream));
    YOKE_TRY(yoke_alloc(s->device, s->bytes, (void **)&s->memory));
    YOKE_TRY(yoke_fill(s->stream, s->memory, 0, s->bytes));
    set_arguments(s);
    YOKE_TRY(yoke_attention_forward_can(s->device, &s->forward, &one));
    YOKE_TRY(yoke_attention_backward_can(s->device, &s->backward, &other));
    s->scratch = YOKE_MAX(one.scratch_bytes, other.scratch_bytes);
    s->flops = one.flops + other.flops;
    return yoke_stream_reserve(s->stream, s->scratch);
}

static void tear_down(struct side *s)
{
    if (s->stream) yoke_stream_destroy(s->stream);
    if (s->device) yoke_free(s->device, s->memory);
    yoke_device_close(s->device);
}

static yoke_status one_pass(struct side *s, double seconds[2])
{
    const uint64_t begun = yokei_now_ns();
    YOKE_TRY(yoke_attention_forward(s->stream, &s->forward));
    YOKE_TRY(yoke_stream_sync(s->stream));
    const uint64_t middle = yokei_now_ns();
    YOKE_TRY(yoke_attention_backward(s->stream, &s->backward));
    YOKE_TRY(yoke_stream_sync(s->stream));
    seconds[0] = 1e-9 * (double)(middle - begun);
    seconds[1] = 1e-9 * (double)(yokei_now_ns() - begun);
    return YOKE_OK;
}

/* Mean times of the forward pass and of both passes. One pass that wakes the threads comes first. */
static yoke_status own_passes(struct side *s, int passes, double mean[2])
{
    double seconds[2];
    mean[0] = mean[1] = 0;
    for (int i = -1; i < passes; i++) {
        YOKE_TRY(one_pass(s, seconds));
        for (int w = 0; w < 2 && i >= 0; w++) mean[w] += seconds[w] / passes;
    }
    return YOKE_OK;
}

/* ---- inputs and results as f32 [B, heads, T, D], one part after the other ---- */

/* Address of element d = 0 of (b, h, t), in an input (q, k, v, dO) or, with `results`, in (dq, dk, dv, o). */
static char *element_at(const struct side *s, bool results, int which, int64_t b, int64_t h, int64_t t)
{
    const struct yoke_attention_backward_args *a = &s->backward;
    const void *inputs[] = { a->q, a->k, a->v, a->d_o }, *outputs[] = { a->dq, a->dk, a->dv, a->o };
    const int64_t ld = which == O ? a->ldo : a->ldq, at = (b * a->T + t) * ld + h * D;
    return (char *)(uintptr_t)(results ? outputs : inputs)[which] + (size_t)at * yoke_dtype_bytes(a->dtype);
}

static size_t floats_of(const struct row *r, int which)
{
    return (size_t)(r->B * heads_of(r, which) * r->T * D);
}

/* Draw all inputs and round them to the row's type. Write the rounded values to `file`, unless it is NULL. */
static yoke_status draw(struct side *s, const char *file)
{
    const struct row *r = s->row;
    size_t n = 0, all = 0;
    for (int p = 0; p < N_PARTS; p++) all += floats_of(r, p);
    float *values = malloc(all * sizeof *values);
    if (!values) return yoke_fail(YOKE_ENOMEM, "no memory for %zu numbers", all);
    const struct yokei_philox_key key = yokei_philox_named(1, "attention");
    for (int p = 0; p < N_PARTS; p++)
        for (int64_t b = 0; b < r->B; b++)
            for (int64_t h = 0; h < heads_of(r, p); h++)
                for (int64_t t = 0; t < r->T; t++, n += D) {
                    /* variance 1 */
                    for (size_t d = 0; d < D; d++)
                        values[n + d] = (float)(3.4641 * (yokei_uniform(key, n + d) - 0.5));
                    yoke_convert(YOKE_F32, values + n, r->dtype, element_at(s, false, p, b, h, t), D);
                    yoke_convert(r->dtype, element_at(s, false, p, b, h, t), YOKE_F32, values + n, D);
                }
    yoke_status status = file ? yokei_file_write(file, values, all * sizeof *values) : YOKE_OK;
    free(values);
    return status;
}

/* Relative differences of o, dq, dk and dv from the rival's results, in the rival's order. */
static yoke_status compare_results(const struct side *s, FILE *file)
{
    static const int order[] = { O, Q, K, V };
    const struct row *r = s->row;
    const double gate = r->dtype == YOKE_F32 ? 5e-6 : r->dtype == YOKE_F16 ? 2e-3 : 2e-2;
    for (int i = 0; i < N_PARTS; i++) {
        double error = 0, size = 0;
        for (int64_t b = 0; b < r->B; b++)
            for (int64_t h = 0; h < heads_of(r, order[i]); h++)
                for (int64_t t = 0; t < r->T; t++) {
                    float theirs[D], mine[D];
                    if (fread(theirs, sizeof(float), D, file) != D)
                        return yoke_fail(YOKE_EBACKEND, "PyTorch's results are too short");
                    yoke_convert(r->dtype, element_at(s, true, order[i], b, h, t), YOKE_F32, mine, D);
                    for (int d = 0; d < D; d++) {
                        error += ((double)theirs[d] - (double)mine[d])
                                 * ((double)theirs[d] - (double)mine[d]);
                        size += (double)theirs[d] * (double)theirs[d];
                    }
                }
        if (!(sqrt(error) <= gate * sqrt(size)))
            return yoke_fail(YOKE_ENUMERIC,
                             "%s: %s differs from PyTorch's by %.2g of its norm, where %.2g is allowed",
                             r->name, result_names[order[i]], sqrt(error / size), gate);
    }
    return YOKE_OK;
}

/* Compare some rows and keys of Yoke's results with f64. */
static yoke_status check_sample(const struct side *s)
{
    const struct row *r = s->row;
    double worst = 0;
    for (int64_t i = 0; i < 8; i++) {
        const int64_t t = i * (r->T - 1) / 7, b = i % r->B;
        worst = fmax(worst, attention_sample_row(&s->backward, b, i % r->H, t));
        worst = fmax(worst, attention_sample_key(&s->backward, b, i % r->Hkv, t));
    }
    if (!(worst <= 1))
        return yoke_fail(YOKE_ENUMERIC, "%s: a sampled result is wrong by %.3g times its bound", r->name,
                         worst);
    return YOKE_OK;
}

/* ---- both sides in turn ---- */

static yoke_status start(struct rival *r, const struct side *s, const char *inputs, const char *outputs,
                         bool *started)
{
    char numbers[6][16], answer[64];
    const int64_t values[] = { s->row->B, s->row->T, s->row->H, s->row->Hkv, D, omp_get_max_threads() };
    for (int i = 0; i < 6; i++) snprintf(numbers[i], sizeof numbers[i], "%lld", (long long)values[i]);
    char *argv[] = { "/usr/bin/python3",
                     SOURCES "/bench/attention_torch.py",
                     (char *)(uintptr_t)inputs,
                     (char *)(uintptr_t)outputs,
                     numbers[0],
                     numbers[1],
                     numbers[2],
                     numbers[3],
                     numbers[4],
                     s->row->dtype == YOKE_BF16 ? "bf16" : "f32",
                     numbers[5],
                     NULL };
    *started = start_rival(r, argv);
    if (!*started) return YOKE_OK;
    if (!ask_rival(r, "check", answer, sizeof answer) || strcmp(answer, "written\n") != 0)
        return yoke_fail(YOKE_EBACKEND, "PyTorch's process ended");
    FILE *file = fopen(outputs, "rb");
    if (!file) return yoke_fail(YOKE_EIO, "cannot read %s", outputs);
    yoke_status status = compare_results(s, file);
    fclose(file);
    return status;
}

static yoke_status take_turns(struct side *s, struct rival *r, bool has_rival, int rounds)
{
    double own[2][MOST_ROUNDS], other[2][MOST_ROUNDS], ratio[2][MOST_ROUNDS], grown = 0;
    char question[32], answer[128];
    const int passes = (int)(1 + 4e9 / s->flops);
    snprintf(question, sizeof question, "step %d", passes);
    for (int i = 0; i < rounds; i++) {
        double mean[2], theirs[2];
        usleep(TURN_US);
        YOKE_TRY(own_passes(s, passes, mean));
        for (int w = 0; w < 2; w++) own[w][i] = mean[w];
        if (!has_rival) continue;
        usleep(TURN_US);
        if (!ask_rival(r, question, answer, sizeof answer)
            || sscanf(answer, "%lf %lf %lf", &theirs[0], &theirs[1], &grown) != 3)
            return yoke_fail(YOKE_EBACKEND, "PyTorch's process ended");
        for (int w = 0; w < 2; w++) other[w][i] = theirs[w], ratio[w][i] = theirs[w] / mean[w];
    }
    const double mine[2] = { yokei_median(own[0], rounds), yokei_median(own[1], rounds) },
                 mib = 1.0 / (1 << 20);
    const struct row *row = s->row;
    const double square = (double)(row->B * row->H) * (double)row->T * (double)row->T
                          * (double)yoke_dtype_bytes(row->dtype);
    printf("%-18s %8.2f %8.2f %8.0f %9.2f %8.0f", row->name, mine[0] * 1e3, mine[1] * 1e3,
           s->flops / mine[1] * 1e-9, (double)s->scratch * mib, square * mib);
    if (has_rival)
        printf(" %9.2f %8.2f %9.0f %8.2f %6.2f  %s\n", yokei_median(other[0], rounds) * 1e3,
               yokei_median(other[1], rounds) * 1e3, grown * mib, yokei_median(ratio[0], rounds),
               yokei_median(ratio[1], rounds), yokei_median(ratio[1], rounds) >= GOAL ? "met" : "MISSED");
    else
        printf(row->alone ? "\n" : "  (no /usr/bin/python3 with torch: apt-get install python3-torch)\n");
    return YOKE_OK;
}

static yoke_status run_row(const struct row *row, int rounds)
{
    struct side s = { .row = row };
    struct rival r = { 0 };
    char inputs[64], outputs[64];
    double seconds[2];
    bool has_rival = false;
    snprintf(inputs, sizeof inputs, "/tmp/yoke-attention-%d.in", (int)getpid());
    snprintf(outputs, sizeof outputs, "/tmp/yoke-attention-%d.out", (int)getpid());
    yoke_status status = set_up(&s);
    if (!status) status = draw(&s, row->alone ? NULL : inputs);
    if (!status) status = one_pass(&s, seconds);
    if (!status) status = check_sample(&s);
    if (!status && !row->alone) status = start(&r, &s, inputs, outputs, &has_rival);
    unlink(inputs);
    unlink(outputs);
    if (!status) status = take_turns(&s, &r, has_rival, rounds);
    stop_rival(&r);
    tear_down(&s);
    return status;
}

static bool wanted(const char *name, int n, char **words)
{
    for (int i = 0; i < n; i++)
        if (strstr(name, words[i])) return true;
    return n == 0;
}

int main(int argc, char **argv)
{
    int rounds = 7, begin = 1, n_failed = 0;
    if (argc > 2 && !strcmp(argv[1], "-r")) rounds = atoi(argv[2]), begin = 3;
    if (rounds < 1 || rounds > MOST_ROUNDS) {
        fprintf(stderr, "bench/attention: -r %s: 1 to %d rounds\n", argv[2], MOST_ROUNDS);
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf(
        "%d threads, causal, D %d, goal %.1f; B 8, 4, 1 at T 64, 256, more; H 12 (64: 4; grouped: 8, 2 K/V heads)\n%-18s %8s %8s %8s %9s %8s %9s %8s %9s %8s %6s\n",
        omp_get_max_threads(), D, GOAL, "", "forward", "both ms", "GFLOP/s", "scratch", "TxT MiB", "PyTorch",
        "both ms", "grew MiB", "forward", "both");
    for (size_t i = 0; i < YOKE_COUNT(rows); i++) {
        if (!wanted(rows[i].name, argc - begin, argv + begin)) continue;
        if (!run_row(&rows[i], rounds)) continue;
        fprintf(stderr, "bench/attention: %s: %s\n", rows[i].name, yoke_last_error());
        n_failed++;
    }
    return n_failed ? 1 : 0;
}
