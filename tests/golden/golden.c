/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares one step of the smallest model of each kind of train/models/kinds.h with PyTorch's numbers
 * (make_golden.py): logits, loss, all gradients, the gradient norm and one AdamW step. It does so in f32,
 * bf16 and f16. The gates (tolerances) must also notice two wrong models of each kind. tests/golden/golden
 * [DEVICE...]     default: reference host opencl:0
 */
#include "tests/unit/test.h"

#include <math.h>
#include <stdlib.h>
#include "core/base/base.h"
#include "tests/golden/gates.h"
#include "train/files/safetensors.h"
#include "train/postmortem/formulas.h"
#include "train/run/loop.h"

enum { C = 64, T = 64, V = 256, B = 2 };
enum { GPT2 = 0 }; /* the first kind */
#define FAMILY(id, ...) #id,
static const char *const families[] = { YOKEI_MODEL_KINDS(FAMILY) };
enum { N_FAMILIES = YOKE_COUNT(families), MOST_WRONG = 2 };
static struct yokei_safetensors *expected, *wrong; /* golden files of the current family of models */
static struct yokei_safetensors *all_expected[N_FAMILIES], *all_wrong[N_FAMILIES];
static struct yokei_model_config configs[N_FAMILIES];

struct subject {
    const char *device;
    yoke_dtype precision;
    int family;
};

static struct yokei_model model_of(int family) { return yokei_model_of(&configs[family]); }

static const char *golden_path(int family, const char *name)
{
    static char path[1024];
    const char *top = getenv("top_srcdir");
    snprintf(path, sizeof path, "%s/tests/golden/%s_nano_%s.safetensors", top ? top : ".", families[family],
             name);
    return path;
}

/* A tensor of a golden file as f32; free() it. */
static float *tensor_of(const struct yokei_safetensors *file, size_t *n_out, const char *prefix,
                        const char *name)
{
    char full[160];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    const struct yokei_tensor *t = yokei_safetensors_find(file, full);
    if (!t) fail_msg("the golden file has no %s", full);
    size_t n = 1;
    for (int d = 0; d < t->n_dims; d++) n *= (size_t)t->shape[d];
    float *values = malloc(n * sizeof *values);
    assert_ok(yokei_tensor_copy(t, n, YOKE_F32, values));
    *n_out = n;
    return values;
}

static double scalar_of(const struct yokei_safetensors *file, const char *name)
{
    double value;
    assert_ok(yokei_tensor_copy(yokei_safetensors_find(file, name), 1, YOKE_F64, &value));
    return value;
}

/* The norm of the gradient of the bias of Q that belongs to this bias of K; 0 for any other tensor. */
static double norm_of_q(const struct yokei_safetensors *file, const char *prefix, const char *name)
{
    char other[160];
    size_t n;
    if (!yokei_gate_is_k_bias(name)) return 0;
    snprintf(other, sizeof other, "%s", name);
    strstr(other, "k_proj")[0] = 'q';
    float *values = tensor_of(file, &n, prefix, other);
    const double norm = gates_norm(values, n);
    free(values);
    return norm;
}

struct bench {
    yoke_device *device;
    yoke_model *model;
    yoke_trainer *trainer;
    int32_t tokens[B * T], targets[B * T];
    yoke_dtype precision;
};

/* Read the tokens or the targets of the golden file: int32 [B, T]. */
static void load_ids(const char *name, int32_t *ids)
{
    const struct yokei_tensor *tensor = yokei_safetensors_find(expected, name);
    assert_non_null(tensor);
    assert_true(tensor->n_dims == 2 && tensor->shape[0] == B && tensor->shape[1] == T);
    assert_ok(yokei_tensor_copy(tensor, B * T, YOKE_I32, ids));
}

/*
 * The formulas by which a post-mortem checks a step share no code with the layers. Transformers computes
 * angles of Mistral in f32.
 */
static void formulas_agree_with_pytorch(void **state)
{
    (void)state;
    for (int family = 0; family < N_FAMILIES; family++) {
        int32_t tokens[B * T], targets[B * T];
        double sum = 0, largest[16] = { 0 };
        struct yokei_safetensors *weights;
        struct yokei_formulas *f;
        expected = all_expected[family];
        load_ids("tokens", tokens);
        load_ids("targets", targets);
        assert_ok(yokei_formulas_create(model_of(family), &f));
        assert_true(yokei_formulas_n_outputs(f) <= 16);
        assert_ok(yokei_safetensors_open(golden_path(family, "weights"), 0, &weights));
        for (size_t i = 0; i < yokei_safetensors_count(weights); i++) {
            const struct yokei_tensor *tensor = yokei_safetensors_at(weights, i);
            int64_t n;
            double *to = yokei_formulas_weight(f, tensor->name, &n);
            assert_non_null(to);
            assert_ok(yokei_tensor_copy(tensor, (size_t)n, YOKE_F64, to));
        }
        assert_null(yokei_formulas_weight(f, "no.such.weight", &(int64_t){ 0 }));
        for (int i = 0; i < B; i++)
            assert_ok(yokei_formulas_loss(f, tokens + i * T, targets + i * T, T, &sum, largest));
        const double loss = scalar_of(expected, "loss");
        if (!(fabs(sum / (B * T) - loss) < 1e-7 * loss))
            fail_msg("%s: the loss is %.12g by the formulas, and %.12g by PyTorch", families[family],
                     sum / (B * T), loss);
        yokei_safetensors_close(weights);
        yokei_formulas_free(f);
    }
}

/* Whether the device is there. On a machine without OpenCL the test says so and goes on. */
static bool set_up(struct bench *b, const struct subject *s)
{
    struct yoke_trainer_config c = YOKE_TRAINER_CONFIG_INIT;
    memset(b, 0, sizeof *b);
    expected = all_expected[s->family];
    wrong = all_wrong[s->family];
    if (yoke_device_open(s->device, NULL, &b->device)) {
        printf("# %s\n", yoke_last_error());
        return false;
    }
    b->precision = c.precision = s->precision;
    c.batch = B;
    c.sequence = T;
    c.clip = 1;
    c.weight_decay = 0.1;
    assert_ok(yokei_model_create(model_of(s->family), &b->model));
    assert_ok(yoke_trainer_create(b->model, b->device, &c, &b->trainer));
    assert_ok(yokei_weights_load(b->trainer, model_of(s->family), golden_path(s->family, "weights")));
    load_ids("tokens", b->tokens);
    load_ids("targets", b->targets);
    return true;
}

static void tear_down(struct bench *b)
{
    assert_ok(yoke_trainer_destroy(b->trainer));
    assert_ok(yoke_model_destroy(b->model));
    assert_ok(yoke_device_close(b->device));
}

static void check_logits(struct bench *b)
{
    static const int positions[] = { 0, 1, 31, 63 };
    size_t n;
    float *all = tensor_of(expected, &n, "", "logits"), got[V];
    assert_int_equal(n, B * T * V);
    for (int s = 0; s < B; s++)
        for (size_t i = 0; i < YOKE_COUNT(positions); i++) {
            const float *row = all + ((size_t)s * T + (size_t)positions[i]) * V;
            assert_ok(yoke_trainer_logits(b->trainer, b->tokens + s * T, positions[i], got));
            double off = gates_distance(got, row, V) / gates_norm(row, V);
            if (!(off <= gates_tolerance(b->precision, true)))
                fail_msg("logits of sequence %d, position %d: off by %.2e", s, positions[i], off);
        }
    free(all);
}

static void check_gradients(struct bench *b, double *worst_out)
{
    *worst_out = 0;
    for (int p = 0; p < yoke_trainer_n_parameters(b->trainer); p++) {
        const char *name = yoke_trainer_parameter(b->trainer, p)->name;
        size_t n;
        float *e = tensor_of(expected, &n, "grad.", name), *got = malloc(n * sizeof *got);
        assert_ok(yoke_trainer_get(b->trainer, YOKE_TENSOR_GRADIENT, p, got));
        double ratio = gates_gradient(name, got, e, n, norm_of_q(expected, "grad.", name), b->precision,
                                      gates_tolerance(b->precision, true));
        if (!(ratio <= 1)) fail_msg("gradient of %s: %.2f of its gate", name, ratio);
        *worst_out = fmax(*worst_out, ratio);
        free(e), free(got);
    }
}

/* The factor by which clipping to the norm 1 multiplies gradients. */
static double clipping(double norm) { return fmin(1.0, 1 / (norm + 1e-6)); }

/*
 * The step uses PyTorch's own gradient, because Adam's first step is the sign of the gradient, whatever its
 * size. The trainer clips by the norm of its own gradient. In 16-bit types this norm differs a little from
 * PyTorch's, which changes the step of gradients near Adam's epsilon. So the gradient is corrected by the
 * quotient of both factors.
 */
static void check_step(struct bench *b, struct yoke_step_result *result)
{
    const double factor = result->loss_scale * clipping(scalar_of(expected, "gradient_norm"))
                          / clipping(result->gradient_norm);
    size_t n;
    for (int p = 0; p < yoke_trainer_n_parameters(b->trainer); p++) {
        float *g = tensor_of(expected, &n, "grad.", yoke_trainer_parameter(b->trainer, p)->name);
        for (size_t i = 0; i < n; i++) g[i] = (float)(g[i] * factor);
        assert_ok(yoke_trainer_set(b->trainer, YOKE_TENSOR_GRADIENT, p, g));
        free(g);
    }
    assert_ok(yoke_trainer_apply(b->trainer, 1e-3, result));
    for (int p = 0; p < yoke_trainer_n_parameters(b->trainer); p++) {
        const char *name = yoke_trainer_parameter(b->trainer, p)->name;
        float *e = tensor_of(expected, &n, "step.", name), *got = malloc(n * sizeof *got);
        assert_ok(yoke_trainer_get(b->trainer, YOKE_TENSOR_WEIGHT, p, got));
        for (size_t i = 0; i < n; i++)
            if (!(fabs((double)got[i] - (double)e[i]) <= 3e-7 * (1 + fabs((double)e[i]))))
                fail_msg("%s[%zu] after the step: %.9g, expected %.9g", name, i, (double)got[i],
                         (double)e[i]);
        free(e), free(got);
    }
}

static void agrees_with_pytorch(void **state)
{
    struct bench b;
    struct yoke_step_result result;
    double worst;
    if (!set_up(&b, *state)) skip();
    assert_ok(yoke_trainer_backward(b.trainer, b.tokens, b.targets, 0, &result));
    double loss = scalar_of(expected, "loss"), norm = scalar_of(expected, "gradient_norm");
    double loss_gate = b.precision == YOKE_F32 ? 2e-6 : 2e-3;
    if (!(fabs(result.loss - loss) <= loss_gate * loss))
        fail_msg("loss %.9g, expected %.9g", result.loss, loss);
    if (!(fabs(result.gradient_norm - norm) <= gates_tolerance(b.precision, true) * norm))
        fail_msg("gradient norm %.9g, expected %.9g", result.gradient_norm, norm);
    check_gradients(&b, &worst);
    printf("# %s, %s %s: loss off by %.1e, gradients at most %.2f of their gates\n",
           families[((const struct subject *)*state)->family], ((const struct subject *)*state)->device,
           yoke_dtype_name(b.precision), fabs(result.loss - loss) / loss, worst);
    check_step(&b, &result);
    const struct subject *s = *state;
    assert_ok(yokei_weights_load(b.trainer, model_of(s->family), golden_path(s->family, "weights")));
    check_logits(&b);
    tear_down(&b);
}

/*
 * The planted errors, which make_golden.py explains, such as a missing 1/sqrt(d) ("unscaled") in GPT-2. The
 * losses would pass; the gradients must not.
 */
static struct {
    int family;
    char name[32];
} kinds[N_FAMILIES * MOST_WRONG];
static size_t n_kinds;

/* List the wrong models of the families' files: each has a NAME.loss. False: some family has not two. */
static bool list_wrong_models(void)
{
    for (int f = 0; f < N_FAMILIES; f++) {
        const size_t before = n_kinds;
        for (size_t i = 0; i < yokei_safetensors_count(all_wrong[f]); i++) {
            const char *name = yokei_safetensors_at(all_wrong[f], i)->name, *dot = strchr(name, '.');
            if (!dot || strcmp(dot, ".loss") != 0 || n_kinds == YOKE_COUNT(kinds)) continue;
            kinds[n_kinds].family = f;
            snprintf(kinds[n_kinds++].name, sizeof kinds[0].name, "%.*s", (int)(dot - name), name);
        }
        if (n_kinds - before != MOST_WRONG) return false;
    }
    return true;
}

static void wrong_models_are_noticed(void **state)
{
    (void)state;
    for (size_t k = 0; k < n_kinds; k++) {
        double worst = 0;
        char prefix[32];
        expected = all_expected[kinds[k].family];
        wrong = all_wrong[kinds[k].family];
        snprintf(prefix, sizeof prefix, "%s.grad.", kinds[k].name);
        for (size_t i = 0; i < yokei_safetensors_count(wrong); i++) {
            const char *name = yokei_safetensors_at(wrong, i)->name;
            if (strncmp(name, prefix, strlen(prefix)) != 0) continue;
            size_t n, m;
            float *e = tensor_of(expected, &n, "grad.", name + strlen(prefix)),
                  *w = tensor_of(wrong, &m, "", name);
            assert_int_equal(n, m);
            worst = fmax(worst,
                         gates_gradient(name, w, e, n, norm_of_q(expected, "grad.", name + strlen(prefix)),
                                        YOKE_F32, gates_tolerance(YOKE_F32, true)));
            free(e), free(w);
        }
        printf("# %s: %.0f times f32's gate\n", kinds[k].name, worst);
        assert_true(worst > 10);
    }
}

/*
 * The distance of this run's gradients from those of `file`, in units of the gate, for the worst tensor that
 * the file has.
 */
static double worst_gradient(struct bench *b, const struct yokei_safetensors *file, const char *prefix)
{
    double worst = 0;
    for (int p = 0; p < yoke_trainer_n_parameters(b->trainer); p++) {
        const char *name = yoke_trainer_parameter(b->trainer, p)->name;
        char full[160];
        snprintf(full, sizeof full, "%s%s", prefix, name);
        if (!yokei_safetensors_find(file, full)) continue;
        size_t n;
        float *e = tensor_of(file, &n, prefix, name), *got = malloc(n * sizeof *got);
        assert_ok(yoke_trainer_get(b->trainer, YOKE_TENSOR_GRADIENT, p, got));
        worst = fmax(worst, gates_gradient(name, got, e, n, norm_of_q(file, prefix, name), b->precision,
                                           gates_tolerance(b->precision, true)));
        free(e), free(got);
    }
    return worst;
}

/*
 * Yoke's own step must be far from the wrong models. So such an error would be noticed if either side made it
 * by mistake.
 */
static void yoke_computes_no_wrong_model(void **state)
{
    (void)state;
    for (size_t k = 0; k < n_kinds; k++) {
        const struct subject host = { "host", YOKE_F32, kinds[k].family };
        struct bench b;
        struct yoke_step_result result;
        char prefix[32];
        snprintf(prefix, sizeof prefix, "%s.grad.", kinds[k].name);
        assert_true(set_up(&b, &host));
        assert_ok(yoke_trainer_backward(b.trainer, b.tokens, b.targets, 0, &result));
        const double right = worst_gradient(&b, expected, "grad."), other = worst_gradient(&b, wrong, prefix);
        printf("# %s in f32's gates: PyTorch %.2f, %s %.0f\n", families[kinds[k].family], right,
               kinds[k].name, other);
        assert_true(right <= 1 && other > 10);
        tear_down(&b);
    }
}

/*
 * A missing 1/sqrt(d), planted in Yoke. If the queries are sqrt(d) = 4 times as large, the forward pass is
 * exactly that of a model that does not scale. Its loss must be the wrong model's. The gates must refuse its
 * gradients, in 16 bits as well.
 */
static void a_planted_missing_scale_is_noticed(void **state)
{
    static const yoke_dtype precisions[] = { YOKE_F32, YOKE_BF16, YOKE_F16 };
    (void)state;
    for (size_t k = 0; k < YOKE_COUNT(precisions); k++) {
        const struct subject host = { "host", precisions[k], GPT2 };
        struct bench b;
        struct yoke_step_result result;
        assert_true(set_up(&b, &host));
        for (int p = 0; p < yoke_trainer_n_parameters(b.trainer); p++) {
            const struct yoke_parameter *parameter = yoke_trainer_parameter(b.trainer, p);
            if (!strstr(parameter->name, "attn.c_attn.")) continue;
            size_t n = (size_t)(parameter->shape[0] * (parameter->n_dims == 2 ? parameter->shape[1] : 1));
            float *w = malloc(n * sizeof *w);
            assert_ok(yoke_trainer_get(b.trainer, YOKE_TENSOR_WEIGHT, p, w));
            for (size_t i = 0; i < n; i++)
                if (i % (3 * C) < C) w[i] *= 4; /* sqrt(C / H); columns [0, C) are the queries' */
            assert_ok(yoke_trainer_set(b.trainer, YOKE_TENSOR_WEIGHT, p, w));
            free(w);
        }
        assert_ok(yoke_trainer_backward(b.trainer, b.tokens, b.targets, 0, &result));
        double loss = scalar_of(wrong, "unscaled.loss"), gate = precisions[k] == YOKE_F32 ? 2e-6 : 2e-3;
        assert_true(fabs(result.loss - loss) <= gate * loss);
        double ratio = worst_gradient(&b, expected, "grad.");
        printf("# without 1/sqrt(d), %s: %.1f gates; the loss differs by %.1e only\n",
               yoke_dtype_name(precisions[k]), ratio, fabs(loss - scalar_of(expected, "loss")) / loss);
        assert_true(ratio > 10);
        tear_down(&b);
    }
}

/* Three AdamW steps of one tensor on a device: w, m, v and the bf16 copy, one after the other. */
static void adamw_on(yoke_device *device, const float *weights, const float *gradient, size_t n,
                     unsigned char *out)
{
    const size_t bytes[5] = { n * 4, n * 4, n * 4, n * 2, n * 4 };
    void *at[5];
    yoke_stream *stream;
    assert_ok(yoke_stream_create(device, &stream));
    for (int i = 0; i < 5; i++) {
        assert_ok(yoke_alloc(device, bytes[i], &at[i]));
        assert_ok(yoke_fill(stream, at[i], 0, bytes[i]));
    }
    assert_ok(yoke_copy_to_device(stream, at[0], weights, bytes[0]));
    assert_ok(yoke_copy_to_device(stream, at[4], gradient, bytes[4]));
    for (int64_t step = 1; step <= 3; step++)
        assert_ok(
            yoke_adamw(stream, &YOKE_ARGS(adamw, .dtype = YOKE_F32, .copy_dtype = YOKE_BF16, .n = (int64_t)n,
                                          .w = at[0], .m = at[1], .v = at[2], .grad = at[4], .copy = at[3],
                                          .lr = 1e-3f, .beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-8f,
                                          .weight_decay = 0.1f, .grad_scale = 0.44286978f, .step = step)));
    for (int i = 0; i < 4; out += bytes[i], i++) assert_ok(yoke_copy_to_host(stream, out, at[i], bytes[i]));
    assert_ok(yoke_stream_sync(stream));
    for (int i = 0; i < 5; i++) assert_ok(yoke_free(device, at[i]));
    assert_ok(yoke_stream_destroy(stream));
}

/* Data-parallel ranks hold copies of the same weights. From the same gradient they must make the same step.
 */
static void host_and_opencl_step_alike(void **state)
{
    yoke_device *host, *other;
    (void)state;
    expected = all_expected[GPT2];
    if (yoke_device_open("opencl:0", NULL, &other)) {
        printf("# %s\n", yoke_last_error());
        skip();
    }
    assert_ok(yoke_device_open("host", NULL, &host));
    for (size_t i = 0; i < yokei_safetensors_count(expected); i++) {
        const char *name = yokei_safetensors_at(expected, i)->name;
        if (strncmp(name, "grad.", 5) != 0) continue;
        size_t n;
        float *g = tensor_of(expected, &n, "", name), *w = tensor_of(expected, &n, "step.", name + 5);
        unsigned char *one = malloc(n * 14), *two = malloc(n * 14);
        adamw_on(host, w, g, n, one);
        adamw_on(other, w, g, n, two);
        if (memcmp(one, two, n * 14) != 0)
            fail_msg("%s: host and opencl:0 differ after three steps", name + 5);
        free(g), free(w), free(one), free(two);
    }
    assert_ok(yoke_device_close(host));
    assert_ok(yoke_device_close(other));
}

int main(int argc, char **argv)
{
    enum { MOST_DEVICES = 16 };
    static const char *all[] = { "reference", "host", "opencl:0" };
    static const yoke_dtype precisions[] = { YOKE_F32, YOKE_BF16, YOKE_F16 };
    enum { N = N_FAMILIES * MOST_DEVICES * YOKE_COUNT(precisions) };
    const char *const *const devices = argc > 1 ? (const char *const *)argv + 1 : all;
    const size_t n_devices = argc > 1 ? YOKE_MIN((size_t)argc - 1, MOST_DEVICES) : YOKE_COUNT(all);
    static struct subject subjects[N];
    static char names[N][64];
    static struct CMUnitTest tests[N + 5];
    size_t n = 0;
    for (int f = 0; f < N_FAMILIES; f++)
        if (yokei_model_named(yokei_model_rows[f].kind->presets[0].name, &configs[f])
            || yokei_safetensors_open(golden_path(f, "expected"), 0, &all_expected[f])
            || yokei_safetensors_open(golden_path(f, "wrong"), 0, &all_wrong[f])) {
            printf("1..1\nnot ok 1 - %s\n", yoke_last_error());
            return 1;
        }
    if (!list_wrong_models()) {
        printf("1..1\nnot ok 1 - each family has two wrong models\n");
        return 1;
    }
    expected = all_expected[GPT2];
    for (int f = 0; f < N_FAMILIES; f++)
        for (size_t d = 0; d < n_devices; d++)
            for (size_t p = 0; p < YOKE_COUNT(precisions); p++) {
                if (f != GPT2 && !strcmp(devices[d], "reference") && p > 0)
                    continue; /* the reference device takes seconds */
                subjects[n] = (struct subject){ devices[d], precisions[p], f };
                snprintf(names[n], sizeof names[n], "PyTorch's step of %s on %s in %s", families[f],
                         devices[d], yoke_dtype_name(precisions[p]));
                tests[n] = (struct CMUnitTest){ names[n], agrees_with_pytorch, NULL, NULL, &subjects[n] };
                n++;
            }
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(wrong_models_are_noticed);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(yoke_computes_no_wrong_model);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(a_planted_missing_scale_is_noticed);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(host_and_opencl_step_alike);
    if (argc == 1) tests[n++] = (struct CMUnitTest)cmocka_unit_test(formulas_agree_with_pytorch);
    int failed = cmocka_run_group_tests_name("golden", tests, NULL, NULL);
    for (int f = 0; f < N_FAMILIES; f++) {
        yokei_safetensors_close(all_expected[f]);
        yokei_safetensors_close(all_wrong[f]);
    }
    return failed;
}
