/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yoke tune. A wrong variant must be refused however fast it is, and the fastest of the right ones must be
 * chosen. The test also checks classes of shapes and the lines that are printed.
 */
#include "tests/unit/test.h"

#include "cli/tune/tune.h"
#include "core/base/base.h"
#include "core/tune.h"
#include <math.h>
#include <stdlib.h>
#include <time.h>

/* ---- a planted backend, which is the reference with three ways to run gelu_forward ---- */

static const struct yoke_backend *sound;
enum { PATIENT, PROMPT, WRONG, N_PLANTED };

static const char *planted_variant(const yoke_device *device, enum yoke_op_id op, int index)
{
    static const char *const names[N_PLANTED] = { "patient", "prompt", "wrong" };
    (void)device;
    return op == YOKE_OP_gelu_forward && index >= 0 && index < N_PLANTED ? names[index] : NULL;
}

static yoke_status planted_gelu(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_gelu_forward_args *a = call->args;
    const struct yoke_op *const sound_gelu = sound->ops[YOKE_OP_gelu_forward];
    const int variant = yokei_variant(stream->device, call, PATIENT);
    if (variant == WRONG) { /* it is right except for the last element, and takes no time */
        struct yoke_gelu_forward_args most = *a;
        most.n = a->n > 64 ? 64 : a->n - 1;
        struct yokei_call call_of_most = *call;
        call_of_most.args = &most;
        return a->n ? sound_gelu->run(stream, &call_of_most) : YOKE_OK;
    }
    /* Slower by a sleep, because a busy machine makes both variants slower. */
    const struct timespec pause = { 0, 5000000 };
    if (variant == PATIENT) nanosleep(&pause, NULL);
    return sound_gelu->run(stream, call);
}

static void a_wrong_variant_is_refused(void **state)
{
    (void)state;
    static struct tune_matrix m;
    static const struct conform_size sizes[] = { { "small", { 3000 } }, { "larger", { 20000 } } };
    struct yoke_device_config config = YOKE_DEVICE_CONFIG_INIT;
    yoke_device *device;
    yoke_stream *stream;
    config.tune_file = "off";
    assert_ok(yoke_device_open("reference", &config, &device));
    sound = device->backend;
    struct yoke_backend planted = *sound;
    struct yoke_device_ops device_ops = *sound->device;
    const struct yoke_op gelu = { .run = planted_gelu };
    device_ops.variant = planted_variant;
    planted.device = &device_ops;
    planted.ops[YOKE_OP_gelu_forward] = &gelu;
    device->backend = &planted;
    assert_ok(yoke_stream_create(device, &stream));
    /* A busy machine may hide the sleep now and then. The wrong variant is refused each time. */
    for (int trial = 0; trial < 20; trial++) {
        assert_ok(tune_measure(device, stream, YOKE_OP_gelu_forward, YOKE_F32, sizes, 2, 0.1,
                               &(struct tune_share){ 0, 2, 2 }, &m));
        tune_choose(&m);
        assert_true(m.chosen[0] != WRONG && m.chosen[1] != WRONG);
        if (m.chosen[0] == PROMPT && m.chosen[1] == PROMPT) break;
    }
    for (int s = 0; s < 2; s++) {
        assert_int_equal(m.point[s].by_rule, PATIENT);
        assert_int_equal(m.cell[s][PATIENT].verdict, TUNE_DEFAULT);
        assert_int_equal(m.cell[s][WRONG].verdict, TUNE_REFUSED);
        assert_true(m.cell[s][WRONG].why[0] && m.cell[s][WRONG].ratio == 0);
        const struct tune_row *prompt = &m.cell[s][PROMPT];
        if (prompt->verdict != TUNE_CHOSEN)
            fail_msg("the faster variant is '%s' at size %d: %.3g s, %.3g times, at best %.3g",
                     tune_verdict_name(prompt->verdict), s, prompt->seconds, prompt->ratio, prompt->best);
        assert_true(m.cell[s][PROMPT].ratio > 2);
        assert_int_equal(m.chosen[s], PROMPT);
    }
    assert_false(yokei_variant_is_forced(device, YOKE_OP_gelu_forward));
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    assert_int_equal(tune_write(&m, to), 1);
    fclose(to);
    assert_non_null(strstr(text, "\ngelu_forward f32 0 prompt\n"));
    assert_non_null(strstr(text, "wrong refused"));
    assert_null(strstr(text, " wrong\n"));
    free(text);
    assert_ok(yoke_stream_destroy(stream));
    device->backend = sound;
    assert_ok(yoke_device_close(device));
}

/* ---- choosing ---- */

/* Times of two variants at each size, "a" being the default. */
struct measured {
    double size, edge, ratio_b;
};

static void matrix(struct tune_matrix *m, enum yoke_op_id op, const struct measured *points, int n)
{
    static const struct conform_size sizes[CONFORM_MAX_SIZES] = { { "0", { 1 } }, { "1", { 1 } },
                                                                  { "2", { 1 } }, { "3", { 1 } },
                                                                  { "4", { 1 } }, { "5", { 1 } },
                                                                  { "6", { 1 } }, { "7", { 1 } } };
    *m = (struct tune_matrix){ .op = op,
                               .dtype = YOKE_F32,
                               .n_sizes = n,
                               .n_variants = 2,
                               .sizes = sizes,
                               .variants = { "generic", "default" } };
    for (int s = 0; s < n; s++) {
        m->point[s] = (struct tune_point){ true, points[s].size, points[s].edge, 0, 1 };
        m->cell[s][0] = (struct tune_row){
            .op = op, .variant = "a", .verdict = TUNE_DEFAULT, .seconds = 1, .ratio = 1, .best = 1
        };
        m->cell[s][1] = (struct tune_row){ .op = op,
                                           .variant = "b",
                                           .verdict = TUNE_KEPT_OUT,
                                           .seconds = 1 / points[s].ratio_b,
                                           .ratio = points[s].ratio_b,
                                           .best = points[s].ratio_b };
    }
}

static void margins(void **state)
{
    (void)state;
    static struct tune_matrix m;
    const struct {
        double ratios[2];
        bool wins;
    } cases[] = {
        { { 1.2, 1.2 }, true },  { { 1.04, 1.04 }, false }, { { 1.5, 0.96 }, false },
        { { 1.2, 0.98 }, true }, { { 1.0, 1.05 }, false },
    };
    for (size_t i = 0; i < YOKE_COUNT(cases); i++) { /* two shapes of one class */
        const struct measured points[] = { { 1000, 8, cases[i].ratios[0] }, { 1000, 8, cases[i].ratios[1] } };
        matrix(&m, YOKE_OP_gemm, points, 2);
        tune_choose(&m);
        assert_int_equal(m.chosen[0], cases[i].wins ? 1 : YOKEI_BY_RULE);
        assert_int_equal(m.chosen[1], m.chosen[0]);
    }
    const struct measured points[] = { { 1000, 8,
                                         1.2 } }; /* fast in the median, but not where nothing else ran */
    matrix(&m, YOKE_OP_gemm, points, 1);
    m.cell[0][1].best = 1.01;
    tune_choose(&m);
    assert_int_equal(m.chosen[0], YOKEI_BY_RULE);
    /* For an op that sums over rows, all numbers of rows belong to one class. */
    const struct measured rows[] = { { 2048, 0, 2 }, { 1e6, 0, 0.9 } },
                          elements[] = { { 4096, 0, 2 }, { 1e6, 0, 0.9 } };
    matrix(&m, YOKE_OP_layernorm_forward, rows, 2);
    tune_choose(&m);
    assert_int_equal(m.chosen[0], YOKEI_BY_RULE);
    matrix(&m, YOKE_OP_gelu_forward, elements, 2);
    tune_choose(&m);
    assert_int_equal(m.chosen[0], 1);
    assert_int_equal(m.chosen[1], YOKEI_BY_RULE);
}

/*
 * A line names the algorithm of a library if all sizes of the class ran by it. Two classes with different
 * algorithms have a line each, although the variant is the same.
 */
static void algorithms_of_a_library(void **state)
{
    (void)state;
    static struct tune_matrix m;
    static const struct measured points[] = { { 1e3, 8, 2 }, { 1e3, 8, 2 }, { 1e5, 8, 2 }, { 1e7, 8, 2 } };
    static const char *const algorithms[] = { "algo=1", "algo=1", "algo=2", "algo=3" };
    char *text = NULL;
    size_t bytes;
    for (int differs = 0; differs < 2; differs++) {
        matrix(&m, YOKE_OP_gemm, points, 4);
        m.variants[1] = "library";
        for (int s = 0; s < 4; s++)
            yokei_text(m.cell[s][1].algorithm, YOKEI_DETAIL_BYTES, "%s", algorithms[s]);
        if (differs) yokei_text(m.cell[1][1].algorithm, YOKEI_DETAIL_BYTES, "algo=9");
        tune_choose(&m);
        FILE *to = open_memstream(&text, &bytes);
        assert_int_equal(tune_write(&m, to), 3);
        fclose(to);
        assert_non_null(strstr(text, differs ? "\ngemm f32 0 library\n" : "\ngemm f32 0 library:algo=1\n"));
        assert_non_null(strstr(text, " library:algo=2\ngemm f32 1e+06 library:algo=3\n"));
        assert_non_null(strstr(text, differs ? "\n#   library:algo=9\n" : "\n#   library:algo=1\n"));
        free(text);
    }
}

/*
 * Whatever variant wins at each point, the file that is written and read again must give the chosen variant
 * for every measured point.
 */
static void written_and_read(void **state)
{
    (void)state;
    static struct tune_matrix m;
    struct yoke_device_config config = YOKE_DEVICE_CONFIG_INIT;
    yoke_device *device;
    config.tune_file = "off";
    assert_ok(yoke_device_open("host", &config, &device));
    const int generic = yokei_variant_named(device, YOKE_OP_gemm, "generic");
    if (generic < 0) fail_msg("this host has no variant 'generic' of gemm");
    int n_lines = 0;
    for (unsigned pattern = 0; pattern < 256; pattern++) {
        struct measured points[8];
        char head[1024], *text = NULL;
        size_t bytes;
        for (int i = 0; i < 8; i++) /* two edges below the last, of three sizes each */
            points[i] = (struct measured){ (double[]){ 1e3, 1e5, 1e7, 1e4, 1e6, 1e8, 1e6, 1e9 }[i],
                                           (double[]){ 1, 1, 1, 64, 64, 64, 256, 256 }[i],
                                           pattern >> i & 1 ? 2 : 0.5 };
        matrix(&m, YOKE_OP_gemm, points, 8);
        m.variants[1] = "generic";
        tune_choose(&m);
        assert_ok(yokei_tuning_head(device, NULL, head, sizeof head));
        FILE *to = open_memstream(&text, &bytes);
        fputs(head, to);
        n_lines += tune_write(&m, to);
        fclose(to);
        struct yokei_tuning *t = device->tuning;
        free(t->choices);
        t->choices = NULL, t->n = 0;
        assert_ok(yokei_tuning_parse(device, t, "written", text, true));
        free(text);
        for (int i = 0; i < 8; i++) {
            const int wanted = pattern >> i & 1 ? generic : 77;
            const struct yokei_call call = {
                .op = YOKE_OP_gemm, .dtype = YOKE_F32, .size = points[i].size, .edge = points[i].edge
            };
            if (yokei_variant(device, &call, 77) != wanted)
                fail_msg("pattern %u: size %g edge %g is not answered as it was chosen", pattern,
                         points[i].size, points[i].edge);
        }
    }
    assert_true(n_lines > 0);
    assert_ok(yoke_device_close(device));
}

/* ---- measuring ---- */

static yoke_status wait_for(void *context, int n)
{
    const struct timespec pause = { 0, *(long *)context };
    for (int i = 0; i < n; i++) nanosleep(&pause, NULL);
    return YOKE_OK;
}

static void in_turn(void **state)
{
    (void)state;
    static double times[2][KERNELS_MOST_ROUNDS];
    long pauses[2] = { 400000, 1600000 };
    struct kernels_side sides[2] = { { .run = wait_for, .context = &pauses[0], .times = times[0] },
                                     { .run = wait_for, .context = &pauses[1], .times = times[1] } };
    int rounds = 0;
    assert_ok(kernels_measure(sides, 2, 0.001, &rounds));
    assert_int_equal(rounds, KERNELS_LEAST_ROUNDS);
    assert_true(sides[0].median >= 400e-6 && sides[1].median >= 1600e-6);
    assert_true(sides[0].n_calls >= sides[1].n_calls && sides[1].n_calls == 1);
    const double x[] = { 4, 2, 8, 6 }, y[] = { 2, 2, 2, 1 };
    assert_true(kernels_ratio(x, y, 4) == 3 && kernels_least_ratio(x, y, 4) == 2);
}

/* Every op must have shapes that its row's setup accepts, and the host must offer them in f32. */
static void every_op_has_sizes(void **state)
{
    (void)state;
    yoke_device *device;
    yoke_stream *stream;
    assert_ok(yoke_device_open("host", NULL, &device));
    assert_ok(yoke_stream_create(device, &stream));
    for (int op = 0; op < YOKE_N_OPS; op++) {
        const struct conform_sizes *sizes = conform_sizes_of((enum yoke_op_id)op);
        struct conform_problem *problem;
        struct conform_line line;
        struct yoke_cost cost;
        int64_t checked[CONFORM_MAX_DIMS];
        assert_int_equal(strncmp(sizes->list[0].name, "tiny", 4), 0);
        assert_ok(conform_problem_open(device, stream, (enum yoke_op_id)op, YOKE_F32, sizes->list[0].dim,
                                       &problem));
        assert_ok(conform_problem_ready(problem, &cost));
        assert_true(cost.bytes > 0);
        assert_ok(conform_problem_run(problem));
        assert_ok(yoke_stream_sync(stream));
        conform_problem_close(problem);
        assert_ok(conform_problem_check(device, stream, (enum yoke_op_id)op, YOKE_F32, sizes->list[0].dim,
                                        &line, checked));
        if (line.verdict != CONFORM_PASS) fail_msg("%s: %s", yokei_op_names[op], line.reason);
        assert_memory_equal(checked, sizes->list[0].dim, sizeof checked);
    }
    /* A long shape is compared with the reference at fewer rows. */
    struct conform_line line;
    int64_t checked[CONFORM_MAX_DIMS];
    assert_ok(conform_problem_check(device, stream, YOKE_OP_add, YOKE_F32,
                                    (const int64_t[CONFORM_MAX_DIMS]){ 50000000 }, &line, checked));
    assert_true(line.verdict == CONFORM_PASS && checked[0] < 5000000 && checked[0] >= 100000);
    assert_ok(yoke_stream_destroy(stream));
    assert_ok(yoke_device_close(device));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wrong_variant_is_refused),
        cmocka_unit_test(margins),
        cmocka_unit_test(algorithms_of_a_library),
        cmocka_unit_test(written_and_read),
        cmocka_unit_test(in_turn),
        cmocka_unit_test(every_op_has_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
