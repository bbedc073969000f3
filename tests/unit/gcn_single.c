/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single instructions on operands that the vectors of gcn_opcodes.c lack: the first lane of EXEC where lane 0
 * is not in it, and zeros of both signs beside each other. The bytes are those of llvm-mc for the text.
 */
#include "tests/unit/test.h"

#include "emulate/hip/gcn_step.h"

static const enum gcn_arch archs[] = { GCN_GFX90A, GCN_GFX942, GCN_GFX1100 };

static void step_of(enum gcn_arch arch, const char *text, const unsigned char bytes[8], struct gcn_step *step)
{
    struct kernel_fault fault;
    if (gcn_step(arch, bytes, 8, step, &fault)) fail_msg("%s of architecture %d: %s", text, arch, fault.text);
}

/* ---- lanes that are numbers ---- */

static void set_exec(struct gcn_step *step, enum gcn_arch arch, uint64_t exec)
{
    step->s[126] = (uint32_t)exec;
    step->s[127] = arch == GCN_GFX1100 ? 0 : (uint32_t)(exec >> 32);
}

/* v_readfirstlane_b32 s24, v1 */
static void first_lane(void **state)
{
    static const unsigned char bytes[8] = { 1, 5, 0x30, 0x7e };
    static const struct {
        uint64_t exec;
        uint32_t lane;
    } rows[] = { { 1, 0 },           { 2, 1 },          { 0xfffffff0, 4 },
                 { 0x80000000, 31 }, { 0x80000100, 8 }, { 0, 0 } /* no lane: lane 0 */,
                 { ~0ull, 0 },       { 1ull << 63, 63 } };
    static struct gcn_step step;
    (void)state;
    for (size_t a = 0; a < sizeof archs / sizeof *archs; a++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            if (archs[a] == GCN_GFX1100 && rows[i].exec == 1ull << 63) continue; /* it has 32 lanes */
            memset(&step, 0, sizeof step);
            set_exec(&step, archs[a], rows[i].exec);
            for (uint32_t l = 0; l < 64; l++) step.v[1][l] = 1000 + l;
            step_of(archs[a], "v_readfirstlane_b32", bytes, &step);
            assert_int_equal(step.s[24], 1000 + rows[i].lane);
        }
}

/* v_readlane_b32 s24, v1, 17 and v_writelane_b32 v2, s25, 17 do not look at EXEC. */
static void one_lane(void **state)
{
    static const unsigned char read_9[8] = { 0x18, 0, 0x89, 0xd2, 1, 0x23, 1, 0 },
                               write_9[8] = { 2, 0, 0x8a, 0xd2, 0x19, 0x22, 1, 0 },
                               read_11[8] = { 0x18, 0, 0x60, 0xd7, 1, 0x23, 1, 0 },
                               write_11[8] = { 2, 0, 0x61, 0xd7, 0x19, 0x22, 1, 0 };
    static struct gcn_step step;
    (void)state;
    for (size_t a = 0; a < sizeof archs / sizeof *archs; a++) {
        const bool is_11 = archs[a] == GCN_GFX1100;
        memset(&step, 0, sizeof step);
        set_exec(&step, archs[a], 2);
        step.s[25] = 4711;
        for (uint32_t l = 0; l < 64; l++) step.v[1][l] = 1000 + l;
        step_of(archs[a], "v_readlane_b32", is_11 ? read_11 : read_9, &step);
        assert_int_equal(step.s[24], 1017);
        step_of(archs[a], "v_writelane_b32", is_11 ? write_11 : write_9, &step);
        for (uint32_t l = 0; l < 64; l++) assert_int_equal(step.v[2][l], l == 17 ? 4711 : 0);
    }
}

/* ---- -0 is less than +0 ---- */

/* The result of v2 = op(v1, v3) for all pairs of zeros. `negative` is -0, in both halves for packed types. */
static void check_zeros(enum gcn_arch arch, const char *text, const unsigned char bytes[8], bool is_max,
                        uint32_t negative)
{
    static struct gcn_step step;
    memset(&step, 0, sizeof step);
    set_exec(&step, arch, 15);
    for (uint32_t l = 0; l < 4; l++) {
        step.v[1][l] = l & 1 ? negative : 0;
        step.v[3][l] = l & 2 ? negative : 0;
    }
    step_of(arch, text, bytes, &step);
    for (uint32_t l = 0; l < 4; l++) {
        const uint32_t wanted = (is_max ? l == 3 : l != 0) ? negative : 0;
        if (step.v[2][l] != wanted)
            fail_msg("%s of architecture %d: pair %u gives 0x%08x instead of 0x%08x", text, arch, l,
                     step.v[2][l], wanted);
    }
}

static void zeros(void **state)
{
    static const struct {
        const char *text;
        bool is_max;
        uint32_t negative;
        unsigned char of_9[8], of_11[8];
    } rows[] = {
        { "v_min_f32", false, 0x80000000, { 1, 7, 4, 0x14 }, { 1, 7, 4, 0x1e } },
        { "v_max_f32", true, 0x80000000, { 1, 7, 4, 0x16 }, { 1, 7, 4, 0x20 } },
        { "v_min_f16", false, 0x8000, { 1, 7, 4, 0x5c }, { 1, 7, 4, 0x74 } },
        { "v_max_f16", true, 0x8000, { 1, 7, 4, 0x5a }, { 1, 7, 4, 0x72 } },
        { "v_pk_min_f16",
          false,
          0x80008000,
          { 2, 0x40, 0x91, 0xd3, 1, 7, 2, 0x18 },
          { 2, 0x40, 0x11, 0xcc, 1, 7, 2, 0x18 } },
        { "v_pk_max_f16",
          true,
          0x80008000,
          { 2, 0x40, 0x92, 0xd3, 1, 7, 2, 0x18 },
          { 2, 0x40, 0x12, 0xcc, 1, 7, 2, 0x18 } },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t a = 0; a < sizeof archs / sizeof *archs; a++)
            check_zeros(archs[a], rows[i].text, archs[a] == GCN_GFX1100 ? rows[i].of_11 : rows[i].of_9,
                        rows[i].is_max, rows[i].negative);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(first_lane), cmocka_unit_test(one_lane),
                                        cmocka_unit_test(zeros) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
