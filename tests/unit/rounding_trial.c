/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device that rounds divisions and roots wrongly. Here the text of its kernel is changed, so that both are
 * two units of the last place off. A trial must notice this, and from then on AdamW has the bits of the host,
 * also for zeros, small numbers, infinities and NaN.
 *
 *   rounding_trial SPEC     opencl:0, or cuda:0 on the stand-in driver
 */
#include "tests/unit/test.h"

#include <math.h>
#include <stdlib.h>

#include "backends/gpu/driver.h"
#include "core/backend.h"
#include "core/base/base.h"
#include "train/trainer/trainer.h"

enum { N = 16384, STEPS = 3 };

static const char *spec;
static yoke_device *device, *host;
static const struct yokei_gpu_driver *driver;
static int n_changed;

/* Replace `find`, which must occur once in `text`. The caller frees the result. */
static char *replaced(const char *text, const char *find, const char *by)
{
    const char *at = strstr(text, find);
    assert_true(at && !strstr(at + 1, find));
    char *out = malloc(strlen(text) + strlen(by) + 1);
    assert_non_null(out);
    sprintf(out, "%.*s%s%s", (int)(at - text), text, by, at + strlen(find));
    return out;
}

static yoke_status build(yoke_device *d, const struct yokei_gpu_source *source, void **program_out)
{
    struct yokei_gpu_source wrong = *source;
    if (strcmp(source->name, "optim") != 0) return driver->build(d, source, program_out);
    char *half = replaced(source->text, "{ return a / b; }", "{ return a / b * 1.00000024f; }"),
         *both = replaced(half, "{ return yk_sqrt(x); }", "{ return yk_sqrt(x) * 0.99999982f; }");
    wrong.text = both;
    n_changed++;
    const yoke_status status = driver->build(d, &wrong, program_out);
    free(half), free(both);
    return status;
}

static int open_devices(void **state)
{
    static struct yokei_gpu_driver wrapped;
    (void)state;
    const yoke_status status = yoke_device_open(spec, NULL, &device);
    if (status == YOKE_ENODEV) {
        print_message("%s\n", yoke_last_error());
        device = NULL;
        return 0;
    }
    assert_ok(status);
    assert_ok(yoke_device_open("host", NULL, &host));
    driver = yokei_gpu(device)->driver;
    wrapped = *driver;
    wrapped.build = build;
    yokei_gpu(device)->driver = &wrapped;
    device->cache_dir[0] = '\0'; /* so that no wrong program stays in the cache */
    return 0;
}

static int close_devices(void **state)
{
    (void)state;
    if (!device) return 0;
    return yoke_device_close(device) || yoke_device_close(host);
}

/* Weights, first moments, second moments, gradients: random ones of all sizes, and hard ones. */
static void fill(float *values)
{
    static const float hard[] = {
        0,        -0.0f, 1, 0x1p-126f, 0x1p-100f, -0x1.8p-63f, 0x1p-60f, 0x1.fffffep-61f, 0x1.fffffep+60f,
        INFINITY, NAN
    };
    uint64_t random = 1;
    for (int i = 0; i < 4 * N; i++) {
        random = yokei_hash(&random, sizeof random, 1);
        const int which = i / N;
        float x = ldexpf((float)(0x800000 + (random & 0x7fffff)), -23 - (int)(random >> 32) % 40);
        if (which != 2 && random >> 63) x = -x;
        if (i % 8 == 7) x = hard[(random >> 40) % YOKE_COUNT(hard)];
        values[i] = which == 2 ? fabsf(x) : x;
    }
}

static void step(yoke_device *d, float *values)
{
    yoke_stream *stream;
    char *there;
    assert_ok(yoke_stream_create(d, &stream));
    assert_ok(yoke_alloc(d, 4 * N * sizeof(float), (void **)&there));
    assert_ok(yoke_copy_to_device(stream, there, values, 4 * N * sizeof(float)));
    for (int s = 1; s <= STEPS; s++)
        assert_ok(yoke_adamw(stream,
                             &YOKE_ARGS(adamw, .dtype = YOKE_F32, .copy_dtype = YOKE_F32, .n = N, .w = there,
                                        .m = there + N * sizeof(float), .v = there + 2 * N * sizeof(float),
                                        .grad = there + 3 * N * sizeof(float), .lr = 1e-3f, .beta1 = 0.9f,
                                        .beta2 = 0.999f, .eps = 1e-8f, .weight_decay = 0.1f,
                                        .grad_scale = 0.25f, .step = s)));
    assert_ok(yoke_copy_to_host(stream, values, there, 4 * N * sizeof(float)));
    assert_ok(yoke_stream_sync(stream));
    assert_ok(yoke_free(d, there));
    assert_ok(yoke_stream_destroy(stream));
}

/* The number of weights whose bits differ from the host's. All NaN are alike. */
static int n_different(void)
{
    float *ours = malloc(4 * N * sizeof *ours), *theirs = malloc(4 * N * sizeof *theirs);
    int n = 0;
    assert_true(ours && theirs);
    fill(ours);
    fill(theirs);
    step(device, ours);
    step(host, theirs);
    for (int i = 0; i < 3 * N; i++)
        n += memcmp(&ours[i], &theirs[i], sizeof ours[i]) != 0 && !(isnan(ours[i]) && isnan(theirs[i]));
    free(ours), free(theirs);
    return n;
}

static void corrects(void **state)
{
    double ours, theirs;
    char name[64];
    (void)state;
    if (!device) skip();
    assert_ok(yokei_rounding_try(host, YOKE_F32, &theirs));
    assert_false(host->corrects);
    for (int v = 0; v < 4; v++) {
        const char *variant = yoke_variant_name(device, "adamw", v);
        if (!variant) break;
        snprintf(name, sizeof name, "%s", variant);
        assert_ok(yoke_variant_force(device, "adamw", name));
        yokei_correct_rounding(device, false);
        assert_true(n_different() > N / 16);
        assert_ok(yokei_rounding_try(device, YOKE_F32, &ours));
        assert_true(device->corrects && ours == theirs);
        const int n = n_different();
        if (n) fail_msg("%s: %d of %d numbers differ from the host's", name, n, 3 * N);
    }
    assert_true(n_changed >= 2);
}

int main(int argc, char **argv)
{
    spec = argc > 1 ? argv[1] : "opencl:0";
    const struct CMUnitTest tests[] = { cmocka_unit_test(corrects) };
    return cmocka_run_group_tests_name("rounding_trial", tests, open_devices, close_devices);
}
