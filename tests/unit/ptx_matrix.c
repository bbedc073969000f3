/* SPDX-License-Identifier: Apache-2.0 */
/* Of the PTX executor: the matrix instructions ldmatrix and mma, and cp.async, which does not wait. */
#include "tests/unit/ptx_world.h"

#include <math.h>
#include <stdlib.h>

#define PARAMETERS ".param .u64 in, .param .u64 out"
/*
 * %rd1: in, plus 16 bytes per lane; %rd2: out, plus 16 bytes per lane; %r1: the thread; %r2: its place of 16
 * bytes in shared memory.
 */
#define BEGIN                                                                                              \
    ".shared .align 16 .b8 s[1024];\n.reg .pred %p<4>;\n.reg .b32 %r<32>;\n.reg .f32 %f<16>;\n"            \
    ".reg .b64 %rd<8>;\nld.param.u64 %rd1, [in];\nld.param.u64 %rd2, [out];\nmov.u32 %r1, %tid.x;\n"       \
    "mul.wide.u32 %rd3, %r1, 16;\nadd.s64 %rd1, %rd1, %rd3;\nadd.s64 %rd2, %rd2, %rd3;\nmov.u32 %r2, s;\n" \
    "shl.b32 %r3, %r1, 4;\nadd.s32 %r2, %r2, %r3;\n"
enum { FIRST_LINE = 20, LANES = 32 };
#define STAGE \
    "ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd1];\nst.shared.v4.u32 [%r2], {%r10, %r11, %r12, %r13};\nbar.sync 0;\n"
#define LEAVE "st.global.v4.u32 [%rd2], {%r10, %r11, %r12, %r13};\nret;\n"
#define COPY "cp.async.cg.shared.global [%r2], [%rd1], 16;\n"

/* Run a body with `threads` threads. in has `n` bytes, and out gets 16 bytes per thread. */
static const uint32_t *run(struct ptx_world *w, const char *body, const void *in, size_t n, uint32_t threads)
{
    char whole[8192];
    snprintf(whole, sizeof whole, "%s%s", BEGIN, body);
    char *text = ptx_world_text(PARAMETERS, whole);
    struct ptx_module *module = ptx_world_parse(w, text);
    const uint64_t from = ptx_world_new(w, n, in), to = ptx_world_new(w, (size_t)threads * 16, NULL);
    ptx_world_run(w, ptx_module_kernel(module, "k"), (const uint32_t[]){ 1, 1, 1 },
                  (const uint32_t[]){ threads, 1, 1 }, ARGUMENTS(ARGUMENT_Q(from), ARGUMENT_Q(to)));
    ptx_module_destroy(module);
    free(text);
    return ptx_world_at(w, to);
}

/* ---- ldmatrix ---- */

/* Element (row, column) of matrix m of the 32 rows of 16 bytes is 1000 m + 10 row + column. */
static void test_load(void **state)
{
    (void)state;
    uint16_t in[LANES][8];
    for (int i = 0; i < LANES; i++)
        for (int j = 0; j < 8; j++) in[i][j] = (uint16_t)(1000 * (i / 8) + 10 * (i % 8) + j);
    static const struct {
        const char *text;
        int n;
        bool turned;
    } cases[] = {
        { "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%r2];\n", 4, false },
        { "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r10, %r11, %r12, %r13}, [%r2];\n", 4, true },
        { "ldmatrix.sync.aligned.m8n8.x2.shared::cta.b16 {%r10, %r11}, [%r2];\n", 2, false },
        { "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%r10}, [%r2];\n", 1, true },
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct ptx_world w;
        char body[2048];
        ptx_world_open(&w, 1 << 14);
        snprintf(body, sizeof body, "%s%s%s", STAGE, cases[c].text, LEAVE);
        const uint32_t *out = run(&w, body, in, sizeof in, LANES);
        assert_good(&w);
        for (int l = 0; l < LANES; l++)
            for (int i = 0; i < cases[c].n; i++) {
                const int g = l / 4, t = l % 4 * 2;
                const int low = cases[c].turned ? 10 * t + g : 10 * g + t,
                          high = cases[c].turned ? 10 * (t + 1) + g : 10 * g + t + 1;
                assert_int_equal(out[l * 4 + i],
                                 (uint32_t)(1000 * i + high) << 16 | (uint32_t)(1000 * i + low));
            }
        ptx_world_close(&w);
    }
}

/* ---- mma ---- */

static uint32_t bits_of(float x, bool is_f16)
{
    if (!is_f16) return ptx_float_bits(x) >> 16;
    /* small integers */
    if (x == 0) return 0;
    int e;
    const float m = frexpf(fabsf(x), &e);
    return (x < 0 ? 0x8000u : 0) | (uint32_t)(e + 14) << 10 | (uint32_t)((m * 2 - 1) * 1024);
}

/* The element of a small matrix, exact in both types. */
static float element(int which, int row, int column)
{
    return (float)((which * 5 + row * 7 + column * 3) % 13 - 6);
}

static void check_multiply(bool is_f16)
{
    struct ptx_world w;
    /* four words of A, two of B and four floats of C for each lane */
    static uint32_t in[LANES][10];
    for (int l = 0; l < LANES; l++) {
        const int g = l / 4, t = l % 4 * 2;
        for (int i = 0; i < 4; i++) {
            const int row = g + i % 2 * 8, column = t + i / 2 * 8;
            in[l][i] = bits_of(element(0, row, column + 1), is_f16) << 16
                       | bits_of(element(0, row, column), is_f16);
            in[l][6 + i] = ptx_float_bits(element(2, g + i / 2 * 8, t + i % 2) / 4);
        }
        for (int i = 0; i < 2; i++)
            in[l][4 + i] = bits_of(element(1, t + 8 * i + 1, g), is_f16) << 16
                           | bits_of(element(1, t + 8 * i, g), is_f16);
    }
    char body[4096], *at = body;
    at += sprintf(at,
                  "ld.param.u64 %%rd1, [in];\nmul.wide.u32 %%rd3, %%r1, 40;\nadd.s64 %%rd1, %%rd1, %%rd3;\n");
    for (int i = 0; i < 6; i++) at += sprintf(at, "ld.global.u32 %%r%d, [%%rd1+%d];\n", 20 + i, 4 * i);
    for (int i = 0; i < 4; i++) at += sprintf(at, "ld.global.f32 %%f%d, [%%rd1+%d];\n", i, 24 + 4 * i);
    sprintf(at,
            "mma.sync.aligned.m16n8k16.row.col.f32.%s.%s.f32 {%%f4, %%f5, %%f6, %%f7}, {%%r20, %%r21, %%r22, "
            "%%r23}, {%%r24, %%r25}, {%%f0, %%f1, %%f2, %%f3};\n"
            "st.global.v4.f32 [%%rd2], {%%f4, %%f5, %%f6, %%f7};\nret;\n",
            is_f16 ? "f16" : "bf16", is_f16 ? "f16" : "bf16");
    ptx_world_open(&w, 1 << 14);
    const uint32_t *out = run(&w, body, in, sizeof in, LANES);
    assert_good(&w);
    for (int l = 0; l < LANES; l++)
        for (int i = 0; i < 4; i++) {
            const int row = l / 4 + i / 2 * 8, column = l % 4 * 2 + i % 2;
            float sum = element(2, row, column) / 4;
            for (int k = 0; k < 16; k++) sum += element(0, row, k) * element(1, k, column);
            if (ptx_float_of(out[l * 4 + i]) != sum)
                fail_msg("lane %d, sum %d: %g instead of %g", l, i, (double)ptx_float_of(out[l * 4 + i]),
                         (double)sum);
        }
    ptx_world_close(&w);
}

static void test_multiply(void **state)
{
    (void)state;
    check_multiply(true);
    check_multiply(false);
}

/* ---- faults ---- */

static const struct {
    const char *body;
    enum kernel_error error; /* KERNEL_OK: the body is good */
    int line;                /* from 0 at the begin of the body */
    const char *words;
} planted[] = {
    { COPY "cp.async.commit_group;\ncp.async.wait_group 0;\nbar.sync 0;\nxor.b32 %r2, %r2, 512;\n"
           "ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%r2];\n" LEAVE,
      KERNEL_OK, 0, "" },
    { COPY "cp.async.wait_all;\nld.shared.u32 %r10, [%r2];\n", KERNEL_OK, 0, "" },
    /* the second group may be pending, and the first one is there */
    { COPY
      "cp.async.commit_group;\ncp.async.commit_group;\ncp.async.wait_group 1;\nld.shared.u32 %r10, [%r2];\n",
      KERNEL_OK, 0, "" },
    /* two lanes write the same place */
    { COPY "cp.async.commit_group;\ncp.async.ca.shared.global.L2::128B [s+1008], [%rd1], 8, 0;\n"
           "cp.async.commit_group;\ncp.async.wait_group 1;\nld.shared.u32 %r10, [%r2];\n",
      KERNEL_SHARED_RACE, 2, "writes 8 bytes at 1008" },
    { COPY "cp.async.commit_group;\ncp.async.wait_group 1;\nbar.sync 0;\nld.shared.u32 %r10, [%r2];\n",
      KERNEL_UNINITIALISED, 4, "of shared memory that were never written" },
    { COPY "cp.async.commit_group;\nbar.sync 0;\nld.shared.u32 %r10, [%r2];\n", KERNEL_UNINITIALISED, 3,
      "that were never written" },
    { "st.shared.u32 [%r2], %r1;\n" COPY "ld.shared.u32 %r10, [%r2];\n", KERNEL_UNINITIALISED, 2,
      "that were never written" },
    { COPY "cp.async.wait_all;\nxor.b32 %r2, %r2, 512;\nld.shared.u32 %r10, [%r2];\n", KERNEL_UNINITIALISED,
      -1, "that were never written" },
    { COPY "cp.async.wait_all;\nxor.b32 %r2, %r2, 16;\nld.shared.u32 %r10, [%r2];\n", KERNEL_SHARED_RACE, 3,
      "reads 4 bytes" },
    { "st.shared.u32 [%r2], %r1;\nbar.sync 0;\nxor.b32 %r3, %r2, 16;\nld.shared.u32 %r10, [%r3];\n" COPY,
      KERNEL_SHARED_RACE, 4, "writes 16 bytes" },
    { "cp.async.cg.shared.global [%r2], [%rd1+1024], 16;\n", KERNEL_OUT_OF_BOUNDS, 0, "reads 16 bytes" },
    { "cp.async.cg.shared.global [%r2], [%rd1+1024], 16, 0;\n", KERNEL_OK, 0, "" },
    { "cp.async.cg.shared.global [%r2+1024], [%rd1], 16;\n", KERNEL_OUT_OF_BOUNDS, 0, "writes 16 bytes" },
    { "cp.async.cg.shared.global [%r2+8], [%rd1], 16;\n", KERNEL_MISALIGNED, 0, "no multiple" },
    { "cp.async.cg.shared.global [%r2], [%rd1+8], 16;\n", KERNEL_MISALIGNED, 0, "no multiple" },
    { "cp.async.cg.shared.global [%r2], [%rd1], 16, 6;\n", KERNEL_LIMIT, 0, "copies 6 of 16 bytes" },
    { "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r10}, [%r2];\n", KERNEL_UNINITIALISED, 0, "16 bytes" },
    { STAGE "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r10}, [%r2+8];\n", KERNEL_MISALIGNED, 3, "16 bytes" },
    { STAGE "setp.eq.u32 %p1, %r1, 5;\n@%p1 ret;\nldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r10}, [%r2];\n",
      KERNEL_DIVERGENCE, 5, "lane 5 does not take part" },
    { "setp.eq.u32 %p1, %r1, 7;\n@%p1 bra $end;\nmma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0, %f1, "
      "%f2, %f3}, {%r1, %r1, %r1, %r1}, {%r1, %r1}, {%f0, %f1, %f2, %f3};\n$end:\nret;\n",
      KERNEL_DIVERGENCE, 2, "lane 7 does not take part" },
};

static void test_faults(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof planted / sizeof *planted; i++) {
        struct ptx_world w;
        uint32_t in[256] = { 0 };
        ptx_world_open(&w, 1 << 14);
        run(&w, planted[i].body, in, sizeof in, 64);
        if (w.fault.error != planted[i].error || !strstr(w.fault.text, planted[i].words))
            fail_msg("'%s' gives %s instead of %s with '%s': %s", planted[i].body,
                     kernel_error_name(w.fault.error), kernel_error_name(planted[i].error), planted[i].words,
                     w.fault.text);
        if (planted[i].error && planted[i].line >= 0 && w.fault.line != FIRST_LINE + planted[i].line)
            fail_msg("line %d instead of %d: %s", w.fault.line, FIRST_LINE + planted[i].line, w.fault.text);
        ptx_world_close(&w);
    }
}

/* Zeros where a lane reads nothing, and the bytes of the others. */
static void test_copy(void **state)
{
    (void)state;
    struct ptx_world w;
    uint32_t in[LANES][4];
    for (uint32_t i = 0; i < 4 * LANES; i++) in[i / 4][i % 4] = i + 1;
    ptx_world_open(&w, 1 << 14);
    const uint32_t *out = run(&w,
                              "and.b32 %r4, %r1, 1;\nshl.b32 %r4, %r4, 4;\n"
                              "cp.async.cg.shared.global [%r2], [%rd1], 16, %r4;\ncp.async.commit_group;\n"
                              "cp.async.wait_group 0;\nbar.sync 0;\n"
                              "ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%r2];\n" LEAVE,
                              in, sizeof in, LANES);
    assert_good(&w);
    for (uint32_t i = 0; i < 4 * LANES; i++) assert_int_equal(out[i], i / 4 % 2 ? i + 1 : 0);
    ptx_world_close(&w);
}

static void test_texts(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "cp.async.cg.shared.global [%r2], [%rd1], 8;",
        "cp.async.ca.shared.global [%r2], [%rd1], 12;",
        "cp.async.ca.global.shared [%r2], [%rd1], 16;",
        "cp.async.wait_group %r1;",
        "cp.async.bulk.commit_group;",
        "ldmatrix.sync.aligned.m8n8.x3.shared.b16 {%r10, %r11, %r12}, [%r2];",
        "ldmatrix.sync.aligned.m8n8.x4.shared.b8 {%r10, %r11, %r12, %r13}, [%r2];",
        "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r10, %r11, %r12, %r13}, [%r2];",
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r1, %r1}, {%r1}, {%f0, %f1, %f2, %f3};",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32 {%f0, %f1, %f2, %f3}, {%r1, %r1, %r1, %r1}, {%r1, %r1}, "
        "{%f0, %f1, %f2, %f3};",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct ptx_world w = { 0 };
        struct ptx_module *module = NULL;
        char whole[4096];
        snprintf(whole, sizeof whole, "%s%s\nret;\n", BEGIN, wrong[i]);
        char *text = ptx_world_text(PARAMETERS, whole);
        ptx_parse(text, strlen(text), &module, &w.fault);
        if (!w.fault.error || w.fault.line != FIRST_LINE)
            fail_msg("'%s' is taken, or line %d is named: %s", wrong[i], w.fault.line, w.fault.text);
        ptx_module_destroy(module);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_load), cmocka_unit_test(test_multiply),
                                        cmocka_unit_test(test_faults), cmocka_unit_test(test_copy),
                                        cmocka_unit_test(test_texts) };
    return cmocka_run_group_tests_name("ptx_matrix", tests, NULL, NULL);
}
