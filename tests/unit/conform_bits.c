/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hashes of conform_run: another NaN changes none, another bit of a number or the sign of a zero changes
 * one, and a change of an input's bits changes the hash of the inputs.
 */
#include "conform/trial.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum change { NOTHING, OTHER_NAN, OTHER_BIT, OTHER_ZERO };

static const struct yoke_backend *sound;
static enum change change;
static int n_changed;

/* Add, and then change the first element that the test wants to change. */
static yoke_status add_and_change(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_add_args *a = call->args;
    YOKE_TRY(sound->ops[YOKE_OP_add]->run(stream, call));
    YOKE_TRY(yoke_stream_sync(stream));
    for (int64_t i = 0; i < a->n; i++) {
        uint32_t *bits = (uint32_t *)a->z + i;
        float value;
        memcpy(&value, bits, sizeof value);
        if (change == NOTHING || isnan(value) != (change == OTHER_NAN)
            || (value == 0) != (change == OTHER_ZERO))
            continue;
        *bits ^= change == OTHER_ZERO ? 0x80000000u : change == OTHER_NAN ? 0x00012345u : 1u;
        n_changed++;
        return YOKE_OK;
    }
    return YOKE_OK;
}

struct seen {
    int n;
    uint64_t inputs[64], results[64];
};

static void see(void *context, const struct conform_bits *bits)
{
    struct seen *seen = context;
    assert_true(seen->n < 64 && bits->case_number == seen->n + 1 && bits->words[0]);
    seen->inputs[seen->n] = bits->inputs;
    seen->results[seen->n++] = bits->results;
}

static struct seen hashes(enum change what, uint64_t seed)
{
    struct seen seen = { 0 };
    struct conform_summary summary = { .n_fail = -1 };
    struct conform_options options = CONFORM_OPTIONS_INIT;
    options.op = "add", options.dtype = "f32", options.variant = "generic";
    options.seed = seed;
    options.bits = see;
    yoke_device *device;
    assert_int_equal(yoke_device_open("host", NULL, &device), YOKE_OK);
    static struct yoke_op add;
    static struct yoke_backend backend;
    sound = device->backend;
    backend = *sound;
    add = *sound->ops[YOKE_OP_add];
    add.run = add_and_change;
    backend.ops[YOKE_OP_add] = &add;
    device->backend = &backend;
    change = what, n_changed = 0;
    assert_int_equal(conform_run(device, &options, NULL, &seen, &summary), YOKE_OK);
    assert_int_equal(summary.n_pass, 1);
    assert_int_equal(summary.n_cases, seen.n);
    device->backend = sound;
    assert_int_equal(yoke_device_close(device), YOKE_OK);
    return seen;
}

static int n_different(const uint64_t *a, const uint64_t *b, int n)
{
    int different = 0;
    for (int i = 0; i < n; i++) different += a[i] != b[i];
    return different;
}

static void hashes_are_of_bits_but_of_no_nan(void **state)
{
    (void)state;
    const struct seen plain = hashes(NOTHING, 1);
    assert_true(plain.n > 10);
    for (enum change what = OTHER_NAN; what <= OTHER_ZERO; what++) {
        const struct seen other = hashes(what, 1);
        assert_int_equal(other.n, plain.n);
        assert_true(n_changed > 0);
        assert_int_equal(n_different(plain.inputs, other.inputs, plain.n), 0);
        assert_int_equal(n_different(plain.results, other.results, plain.n),
                         what == OTHER_NAN ? 0 : n_changed);
    }
}

static void another_seed_has_other_inputs(void **state)
{
    (void)state;
    const struct seen one = hashes(NOTHING, 1), two = hashes(NOTHING, 2);
    /* a case with no element has the same hash with every seed */
    assert_true(n_different(one.inputs, two.inputs, one.n) > one.n / 2);
    assert_true(n_different(one.results, two.results, one.n) > one.n / 2);
}

int main(void)
{
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hashes_are_of_bits_but_of_no_nan),
        cmocka_unit_test(another_seed_has_other_inputs),
    };
    return cmocka_run_group_tests_name("conform_bits", tests, NULL, NULL);
}
