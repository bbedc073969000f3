/* SPDX-License-Identifier: Apache-2.0 */
/* The judge of a post-mortem: facts in, a cause out. Each case changes the facts of a run without a fault. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka.h needs the four above */
#include <cmocka.h>

#include "core/base/base.h"
#include "train/blackbox/box.h"
#include "train/postmortem/postmortem.h"

static struct yokei_replayed same(const char *device, const char *precision)
{
    struct yokei_replayed r = { .ran = true,
                                .is_exact = true,
                                .from = 100,
                                .n_compared = 20,
                                .off_step = -1,
                                .failed_step = -1,
                                .last_loss = 2,
                                .n_layers = 6 };
    yokei_text(r.device, sizeof r.device, "%s", device);
    yokei_text(r.precision, sizeof r.precision, "%s", precision);
    return r;
}

static struct yokei_replayed off(int64_t step, bool in_loss, const char *layer)
{
    struct yokei_replayed r = same("host", "f32");
    r.off_step = step;
    r.is_loss_off = in_loss;
    r.loss_then = in_loss ? 3 : 2, r.loss_now = 2, r.norm_then = 9, r.norm_now = 1;
    r.n_layers_off = 1;
    yokei_text(r.layer, sizeof r.layer, "%s", layer);
    return r;
}

/* A loss that left its path in step 112 and did not come back; everything is repeated as it was. */
static struct yokei_postmortem_facts facts(void)
{
    struct yokei_postmortem_facts f = { .has_box = true,
                                        .n_ranks = 1,
                                        .precision = "f32",
                                        .odd = YOKEI_ODD_LOSS,
                                        .odd_step = 112,
                                        .odd_value = 5,
                                        .odd_median = 2,
                                        .odd_limit = 2.2,
                                        .odd_rank = -1,
                                        .rate_step = -1,
                                        .loss_scale = 1,
                                        .tokens_step = -1,
                                        .are_tokens_checked = true,
                                        .are_samples_checked = true,
                                        .n_samples = 16,
                                        .n_others = 16,
                                        .others_median = 2,
                                        .others_limit = 5.5,
                                        .start_step = 100,
                                        .worst_update = 0.01 };
    f.own = same("host", "f32");
    f.other = same("opencl:0", "f32");
    f.slower = same("host", "f32");
    f.slower.last_loss = 5;
    return f;
}

static struct yokei_verdict judge(const struct yokei_postmortem_facts *f)
{
    struct yokei_verdict v;
    yokei_postmortem_judge(f, &v);
    assert_true(v.prevention[0] != 0);
    return v;
}

static void is(const struct yokei_postmortem_facts *f, enum yokei_culprit cause, int64_t step,
               const char *layer)
{
    const struct yokei_verdict v = judge(f);
    assert_string_equal(yokei_culprit_names[v.cause], yokei_culprit_names[cause]);
    assert_int_equal(v.step, step);
    assert_string_equal(v.layer, layer);
    if (cause != YOKEI_CULPRIT_UNKNOWN && cause != YOKEI_CULPRIT_NONE) assert_true(v.n_evidence > 0);
}

static void test_no_fault(void **state)
{
    (void)state;
    struct yokei_postmortem_facts f = facts();
    is(&f, YOKEI_CULPRIT_UNKNOWN, 112, ""); /* it diverged, and every replay does, too */
    f.has_recovered = true;
    is(&f, YOKEI_CULPRIT_NONE, -1, "");
    f.odd = YOKEI_ODD_NONE;
    f.has_recovered = false;
    is(&f, YOKEI_CULPRIT_NONE, -1, "");
    assert_true(judge(&f).n_ruled_out >= 5);
    f.has_box = false;
    is(&f, YOKEI_CULPRIT_UNKNOWN, -1, "");
}

static void test_rate(void **state)
{
    (void)state;
    struct yokei_postmortem_facts f = facts();
    f.slower.last_loss = 2;
    is(&f, YOKEI_CULPRIT_RATE, 112, "");
    f.slower.failed_step = 112; /* a lower rate does not help */
    is(&f, YOKEI_CULPRIT_UNKNOWN, 112, "");
    /* it did not end, and its layers changed wildly */
    f.has_recovered = true;
    f.slower.failed_step = -1;
    f.own.last_loss = 3;
    is(&f, YOKEI_CULPRIT_NONE, -1, "");
    f.worst_update = 0.8;
    is(&f, YOKEI_CULPRIT_RATE, 112, "");
    f.slower.last_loss = 2.9;
    is(&f, YOKEI_CULPRIT_NONE, -1, "");
    f.rate_step = 111;
    f.rate_then = 1, f.rate_planned = 1e-3;
    is(&f, YOKEI_CULPRIT_RATE, 111, "");
}

static void test_data(void **state)
{
    (void)state;
    struct yokei_postmortem_facts f = facts();
    f.n_bad_samples = 3;
    f.first_bad_sample = (struct yokei_sample_loss){ .sample = 900, .step = 111, .byte = 4096, .loss = 8 };
    is(&f, YOKEI_CULPRIT_DATA, 111, "");
    f.own.ran = false; /* the samples speak without a replay */
    is(&f, YOKEI_CULPRIT_DATA, 111, "");
    f = facts();
    f.tokens_step = 110;
    is(&f, YOKEI_CULPRIT_DATA, 110, "");
}

static void test_precision(void **state)
{
    (void)state;
    struct yokei_postmortem_facts f = facts();
    yokei_text(f.precision, sizeof f.precision, "f16");
    yokei_text(f.odd_layer, sizeof f.odd_layer, "h.1.mlp");
    f.odd = YOKEI_ODD_OVERFLOW;
    f.f32 = same("host", "f32");
    is(&f, YOKEI_CULPRIT_PRECISION, 112, "h.1.mlp");
    f.f32.failed_step = 112; /* in f32 it fails, too */
    is(&f, YOKEI_CULPRIT_UNKNOWN, 112, "");
    /* gradients that vanish without a loss scale */
    f.odd = YOKEI_ODD_NONE;
    f.f32 = off(101, false, "head");
    f.f32.norm_then = 0.5, f.f32.norm_now = 1;
    is(&f, YOKEI_CULPRIT_PRECISION, 101, "head");
    f.loss_scale = 65536;
    is(&f, YOKEI_CULPRIT_NONE, -1, "");
    /* another scale than the replay's */
    f.own = off(105, false, "head");
    f.own.scale_then = 1, f.own.scale_now = 65536;
    is(&f, YOKEI_CULPRIT_PRECISION, 105, "");
}

static void test_bit(void **state)
{
    (void)state;
    struct yokei_postmortem_facts f = facts();
    f.own = off(108, true, "h.0.attn");
    is(&f, YOKEI_CULPRIT_BIT, 108, "h.0.attn");
    assert_non_null(strstr(judge(&f).evidence[2], "bit for bit"));
    f.own = off(108, false, "h.0.attn");
    is(&f, YOKEI_CULPRIT_BIT, 108, "h.0.attn");
    /* at once behind the start, and an older start is right until then: the same */
    f.own = off(101, true, "h.0.attn");
    f.elsewhere = same("host", "f32");
    is(&f, YOKEI_CULPRIT_BIT, 101, "h.0.attn");
}

static void test_layer(void **state)
{
    (void)state;
    struct yokei_postmortem_facts f = facts();
    f.own = off(101, true, "h.0.attn");
    is(&f, YOKEI_CULPRIT_LAYER, 101, "h.0.attn");
    f.elsewhere = off(51, true, "h.0.attn");
    f.elsewhere.from = 50;
    is(&f, YOKEI_CULPRIT_LAYER, 101, "h.0.attn");
}

/* In a job every rank has records, and some numbers are a rank's own. */
static void test_ranks(void **state)
{
    (void)state;
    char devices[2][32] = { "host", "opencl:0" };
    struct yokei_postmortem_facts f = facts();
    f.n_ranks = 2;
    f.devices = devices;
    f.own = off(105, true, "h.0.attn");
    f.own.n_ranks = 2;
    f.own.ranks_off = (struct yokei_ranks_off){ .n = 1, .rank = { 1 }, .what = "the weights" };
    yokei_text(f.weight, sizeof f.weight, "h.0.mlp.c_fc.weight");
    yokei_text(f.weight_layer, sizeof f.weight_layer, "h.0.mlp");
    is(&f, YOKEI_CULPRIT_BIT, 105, "h.0.mlp");
    struct yokei_verdict v = judge(&f);
    assert_true(v.n_ranks == 1 && v.rank[0] == 1);
    assert_string_equal(v.parameter, "h.0.mlp.c_fc.weight");
    /* in every step */
    f.own.off_step = 101;
    is(&f, YOKEI_CULPRIT_DEVICE, 101, "h.0.attn");
    f.own.ranks_off.is_first_stage = true; /* the other stages may be wrong, too */
    is(&f, YOKEI_CULPRIT_LAYER, 101, "h.0.attn");
    assert_int_equal(judge(&f).n_ranks, 0);
    /* the layout repeats itself, and one rank of the host differs */
    f.own = same("host", "f32");
    f.own.n_ranks = 2;
    f.alone = off(101, true, "h.1.mlp");
    f.alone.ranks_off = (struct yokei_ranks_off){ .n = 1, .rank = { 1 }, .what = "an output" };
    is(&f, YOKEI_CULPRIT_DEVICE, 101, "h.1.mlp");
    v = judge(&f);
    assert_true(v.n_ranks == 1 && v.rank[0] == 1);
}

/* The replay is as recorded, and the formulas are not. */
static void test_formulas(void **state)
{
    (void)state;
    struct yokei_postmortem_facts f = facts();
    f.has_recovered = true;
    f.formulas = (struct yokei_formula_check){ .ran = true, .step = 101, .loss_then = 2, .loss_now = 2 };
    is(&f, YOKEI_CULPRIT_NONE, -1, "");
    f.formulas.is_loss_off = true;
    yokei_text(f.formulas.layer, sizeof f.formulas.layer, "h.0.attn");
    f.formulas.reference = same("reference", "f32");
    is(&f, YOKEI_CULPRIT_LAYER, 101, "h.0.attn");
    f.formulas.reference = off(101, true, "h.0.attn"); /* with other operations it is another number */
    is(&f, YOKEI_CULPRIT_DEVICE, 101, "h.0.attn");
}

static void test_device(void **state)
{
    (void)state;
    struct yokei_postmortem_facts f = facts();
    f.own = off(101, true, "h.0.attn");
    f.n_ranks = f.n_rank_losses = 3;
    f.rank_loss[0] = (struct yokei_rank_loss){ 0, "host", 100, 100, false };
    f.rank_loss[1] = (struct yokei_rank_loss){ 1, "opencl:0", 120, 100, true };
    f.rank_loss[2] = (struct yokei_rank_loss){ 2, "opencl:0", 121, 100, true };
    is(&f, YOKEI_CULPRIT_DEVICE, 101, "h.0.attn");
    f.rank_loss[2].is_off = false; /* the same device is right on another rank */
    is(&f, YOKEI_CULPRIT_LAYER, 101, "h.0.attn");
    f.rank_loss[0].is_off = f.rank_loss[2].is_off = true; /* all are wrong */
    is(&f, YOKEI_CULPRIT_LAYER, 101, "h.0.attn");
    /* the record is repeated on its device only */
    f = facts();
    f.other.off_step = 101;
    is(&f, YOKEI_CULPRIT_DEVICE, 101, "");
    f.other.off_step = 104; /* rounding has grown */
    is(&f, YOKEI_CULPRIT_UNKNOWN, 112, "");
}

static void test_resume(void **state)
{
    (void)state;
    struct yokei_postmortem_facts f = facts();
    f.own = off(101, true, "h.0.attn");
    f.is_resume = f.is_stale_tried = true;
    f.stale_step = 50;
    f.recorded_loss = 3, f.resumed_loss = 2, f.stale_loss = 3.0001;
    is(&f, YOKEI_CULPRIT_RESUME, 101, "");
    f.stale_loss = 2.5; /* not these weights */
    is(&f, YOKEI_CULPRIT_LAYER, 101, "h.0.attn");
    f.elsewhere = same("host", "f32"); /* but the steps before the resume are right */
    is(&f, YOKEI_CULPRIT_RESUME, 101, "");
    f.is_resume = false;
    is(&f, YOKEI_CULPRIT_BIT, 101, "h.0.attn");
}

/* A device of the same name with another processor, driver or tuning need not give the same bits. */
static void test_same_bits(void **state)
{
    (void)state;
    static struct yokei_box_head a, b = { .pid = 7, .seed = 3 };
    char *const texts[] = { b.precision, b.device, b.device_name, b.driver, b.features, b.choices };
    assert_true(yokei_box_computes_alike(&a, &b));
    for (size_t i = 0; i < YOKE_COUNT(texts); i++) {
        texts[i][0] = 'x';
        assert_false(yokei_box_computes_alike(&a, &b));
        texts[i][0] = 0;
    }
}

static void test_missing(void **state)
{
    (void)state;
    struct yokei_postmortem_facts f = facts();
    for (int i = 0; i < 2 * YOKEI_POSTMORTEM_MISSING; i++) yokei_postmortem_miss(&f, "file %d", i);
    assert_int_equal(f.n_missing, YOKEI_POSTMORTEM_MISSING);
    assert_string_equal(f.missing[3], "file 3");
    f.own.ran = f.are_samples_checked = false;
    is(&f, YOKEI_CULPRIT_UNKNOWN, 112, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_fault),  cmocka_unit_test(test_rate),     cmocka_unit_test(test_data),
        cmocka_unit_test(test_precision), cmocka_unit_test(test_bit),      cmocka_unit_test(test_layer),
        cmocka_unit_test(test_ranks),     cmocka_unit_test(test_formulas), cmocka_unit_test(test_device),
        cmocka_unit_test(test_resume),    cmocka_unit_test(test_missing),  cmocka_unit_test(test_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
