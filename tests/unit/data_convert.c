/* SPDX-License-Identifier: Apache-2.0 */
/* Weights that are converted to another type: rounded once, and refused if a finite number does not fit. */
#include "tests/unit/data_test.h"
#include "tests/unit/config_write.h"
#include "tests/unit/safetensors_save.h"

#include <math.h>
#include <sys/stat.h>

#include "core/base/base.h"
#include "train/exchange/convert.h"

enum { MOST = 64 };
static const struct yoke_gpt2_config tiny = { sizeof tiny, 1, 2, 16, 16, 256, 1e-5, 0.02, 0, 0, 0 };

/* Write a folder with a model. Every tensor begins with the same values. */
static void put_model(const char *dir, yoke_dtype dtype, const void *values)
{
    struct yokei_tensor t[MOST];
    struct yokei_weight want[MOST];
    char path[600];
    const bool is_new = mkdir(dir, 0777) == 0;
    for (int i = 0; i < (int)yokei_kind_gpt2.n_weights(&tiny); i++) {
        assert_ok(yokei_model_tensor(yokei_model_as(&yokei_kind_gpt2, &tiny), i, &want[i]));
        t[i] = (struct yokei_tensor){
            .name = want[i].name, .dtype = dtype, .n_dims = want[i].n_dims, .data = values
        };
        memcpy(t[i].shape, want[i].shape, sizeof want[i].shape);
    }
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    assert_ok(save_safetensors(path, t, (size_t)yokei_kind_gpt2.n_weights(&tiny), NULL, 0));
    snprintf(path, sizeof path, "%s/config.json", dir);
    if (is_new) assert_ok(config_write(path, yokei_model_as(&yokei_kind_gpt2, &tiny)));
}

static void too_large_for_f16(void **state)
{
    char dir[300];
    static float values[256 * 64];
    (void)state;
    values[5] = 70000;
    snprintf(dir, sizeof dir, "%s", in_folder("large"));
    put_model(dir, YOKE_F32, values);
    assert_fails(YOKE_EDATA, "element 5 of tensor wte.weight is 70000, more than f16 can hold: f32 can",
                 yokei_model_convert(dir, in_folder("f16"), YOKE_F16, true));
    assert_int_not_equal(access(in_folder("f16"), F_OK), 0);
    assert_int_not_equal(access(in_folder("f16.tmp"), F_OK), 0);
    assert_ok(yokei_model_convert(dir, in_folder("bf16"), YOKE_BF16, true));
}

/* f64 is rounded once. Through f32 most of these numbers would be rounded to a tie first. */
static void f64_is_rounded_once(void **state)
{
    static const struct {
        double from;
        uint16_t f16, bf16;
        float f32;
    } cases[] = {
        { 1, 0x3c00, 0x3f80, 1 },
        { 1 + 0x1p-11 + 0x1p-40, 0x3c01, 0x3f80, 1 + 0x1p-11f },
        { 1 + 0x1p-8 + 0x1p-40, 0x3c04, 0x3f81, 1 + 0x1p-8f },
        { 1 + 3 * 0x1p-11 - 0x1p-40, 0x3c01, 0x3f80, 1 + 3 * 0x1p-11f },
        { -(1 + 3 * 0x1p-8 - 0x1p-40), 0xbc0c, 0xbf81, -(1 + 3 * 0x1p-8f) },
        { 0x1p-25 + 0x1p-60, 0x0001, 0x3300, 0x1p-25f }, /* the least subnormal number of f16 */
        { 0x1p-134 + 0x1p-170, 0, 0x0001, 0x1p-134f },   /* and of bf16 */
        { 0x1p-150 + 0x1p-190, 0, 0, 0x1p-149f },        /* and of f32 */
        { 0x1p-1074, 0, 0, 0 },
        { 65520 - 0x1p-20, 0x7bff, 0x4780, 65520 }, /* the greatest number of f16 */
        { INFINITY, 0x7c00, 0x7f80, INFINITY },
        { -INFINITY, 0xfc00, 0xff80, -INFINITY },
        { NAN, 0x7e00, 0x7fc0, NAN },
        { -0.0, 0x8000, 0x8000, -0.0f },
    };
    static const yoke_dtype types[] = { YOKE_F16, YOKE_BF16, YOKE_F32 };
    static const double refused[3] = { 65520, 0x1.ffp127, 0x1.ffffffp127 };
    static const char *const names[3] = { "once-f16", "once-bf16", "once-f32" };
    static double values[256 * 64];
    char dir[300], out[400];
    (void)state;
    snprintf(dir, sizeof dir, "%s", in_folder("f64"));
    for (int k = 0; k < 3; k++) {
        struct yokei_safetensors *file;
        uint16_t narrow[YOKE_COUNT(cases)];
        float wide[YOKE_COUNT(cases)];
        for (size_t i = 0; i < YOKE_COUNT(cases); i++) values[i] = cases[i].from;
        put_model(dir, YOKE_F64, values);
        snprintf(out, sizeof out, "%s", in_folder(names[k]));
        assert_ok(yokei_model_convert(dir, out, types[k], true));
        assert_ok(yokei_safetensors_open(out, 0, &file));
        const struct yokei_tensor *t = yokei_safetensors_find(file, "wte.weight");
        assert_ok(yokei_tensor_copy(t, YOKE_COUNT(cases), types[k], k == 2 ? (void *)wide : narrow));
        for (size_t i = 0; i < YOKE_COUNT(cases); i++)
            if (k == 2)
                assert_memory_equal(&wide[i], &cases[i].f32, sizeof *wide);
            else
                assert_int_equal(narrow[i], k == 0 ? cases[i].f16 : cases[i].bf16);
        yokei_safetensors_close(file);
        /* The least finite number that rounds to infinity is refused, and so is a very great one. */
        for (int j = 0; j < 2; j++) {
            values[3] = j ? -1e300 : refused[k];
            put_model(dir, YOKE_F64, values);
            snprintf(out, sizeof out, "element 3 of tensor wte.weight is %g, more than", values[3]);
            assert_fails(YOKE_EDATA, out, yokei_model_convert(dir, in_folder("never"), types[k], true));
            assert_int_not_equal(access(in_folder("never"), F_OK), 0);
        }
        assert_true(k < 2 || strstr(yoke_last_error(), "correct the file"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(too_large_for_f16),
        cmocka_unit_test(f64_is_rounded_once),
    };
    return cmocka_run_group_tests_name("data_convert", tests, make_test_folder, remove_test_folder);
}
