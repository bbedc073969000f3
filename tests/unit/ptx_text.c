/* SPDX-License-Identifier: Apache-2.0 */
/* What the parser of PTX refuses, with the line, and what it tells about a kernel. */
#include "tests/unit/ptx_world.h"

#include <stdlib.h>

#define HEAD ".version 9.0\n.target sm_80\n.address_size 64\n"
#define KERNEL HEAD ".visible .entry k(.param .u64 p)\n{\n"
#define BODY KERNEL ".reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .pred %p<2>; .reg .b16 %h<2>; .reg .f32 %f<4>;\n"
enum { BODY_LINE = 7 };

struct refused {
    const char *text;
    int line;
    const char *words;
};

static void check_refused(const struct refused *r)
{
    struct kernel_fault fault;
    struct ptx_module *module = (struct ptx_module *)&fault;
    /* a copy of exactly these bytes, so that a read behind them is noticed */
    const size_t bytes = strlen(r->text);
    char *copy = malloc(bytes + 1);
    assert_non_null(copy);
    memcpy(copy, r->text, bytes);
    const enum kernel_error error = ptx_parse(copy, bytes, &module, &fault);
    if (error != KERNEL_SYNTAX || module) fail_msg("'%s' is not refused", r->text);
    if (!strstr(fault.text, r->words))
        fail_msg("the message '%s' does not contain '%s'", fault.text, r->words);
    if (fault.line != r->line) fail_msg("line %d instead of %d: %s", fault.line, r->line, fault.text);
    char line[32];
    snprintf(line, sizeof line, "PTX line %d", r->line);
    assert_non_null(strstr(fault.text, line));
    free(copy);
}

static const struct refused refused[] = {
    { "", 1, "does not begin with .version" },
    { "\x7f"
      "ELF\x02",
      1, "character 0x7f is not PTX" },
    { "int main(void)\n", 1, "so it is no PTX" },
    { ".version 9.0\n.target gpu\n", 2, "'gpu' is no target such as sm_80" },
    { ".version 9.0\n.target sm_80\n.address_size 32\n", 4, "only addresses of 64 bits" },
    { HEAD ".func f()\n{\n}\n", 4, ".func is not supported" },
    { HEAD ".global .u32 g = 5;\n", 4,
      "variables in global memory are not supported: give the kernel a parameter" },
    { HEAD ".const .align 4 .b8 c[4] = {1, 2, 3, 4};\n", 4, "variables in const memory" },
    { HEAD ".surprise\n", 4, "'.surprise' is not supported here" },
    { KERNEL, 6, "the text ends inside a kernel" },
    { KERNEL "ret", 6, "the text ends inside instruction 'ret'" },
    { BODY "frobnicate.b32 %r1, %r2;\n}\n", BODY_LINE, "k: instruction 'frobnicate.b32' is not known" },
    { BODY "\nadd.ftz.f32 %f1, %f2, %f3;\n}\n", BODY_LINE + 1, "instruction 'add.ftz.f32' is not known" },
    { BODY "add.rz.f32 %f1, %f2, %f3;\n}\n", BODY_LINE, "'add.rz.f32' is not known" },
    { BODY "ex2.approx.f32 %f1, %f2;\n}\n", BODY_LINE, "'ex2.approx.f32' is not known" },
    { BODY "ld.global.b128 %r1, [%rd1];\n}\n", BODY_LINE, "unknown modifier '.b128'" },
    { BODY "ld.global.fast.u32 %r1, [%rd1];\n}\n", BODY_LINE,
      "instruction 'ld.global.fast.u32' has the unknown modifier '.fast'" },
    { BODY "ld.const.u32 %r1, [%rd1];\n}\n", BODY_LINE, "unknown modifier '.const'" },
    { BODY "st.param.u32 [p], %r1;\n}\n", BODY_LINE, "unknown modifier '.param'" },
    { BODY "setp.lt.b32 %p1, %r1, %r2;\n}\n", BODY_LINE, "unknown modifier '.lt'" },
    { BODY "setp.ltu.s32 %p1, %r1, %r2;\n}\n", BODY_LINE, "unknown modifier '.ltu'" },
    { BODY "setp.lt.f64 %p1, %rd1, %rd2;\n}\n", BODY_LINE, "unknown modifier '.f64'" },
    { BODY "cvt.s32.f32 %r1, %f1;\n}\n", BODY_LINE, "instruction 'cvt.s32.f32' is not known" },
    { BODY "cvt.rn.s32.s64 %r1, %rd1;\n}\n", BODY_LINE, "'cvt.rn.s32.s64' is not known" },
    { BODY "cvt.rz.f16.f32 %h1, %f1;\n}\n", BODY_LINE, "'cvt.rz.f16.f32' is not known" },
    { BODY "atom.global.and.u32 %r1, [%rd1], %r2;\n}\n", BODY_LINE, "'atom.global.and.u32' is not known" },
    { BODY "red.global.cas.b32 [%rd1], %r1, %r2;\n}\n", BODY_LINE, "'red.global.cas.b32' is not known" },
    { BODY "shfl.bfly.b32 %r1, %r2, 1, 31;\n}\n", BODY_LINE, "'shfl.bfly.b32' is not known" },
    { BODY "vote.sync.most.pred %p1, %p1, -1;\n}\n", BODY_LINE, "is not known" },
    { BODY "bar.red.popc.u32 %r1, 0, %p1;\n}\n", BODY_LINE, "'bar.red.popc.u32' is not known" },
    { BODY "fence.proxy.async;\n}\n", BODY_LINE, "unknown modifier '.proxy'" },
    { BODY "bra.maybe $x;\n}\n", BODY_LINE, "unknown modifier '.maybe'" },
    { BODY "add.s32 %r1, %r2;\n}\n", BODY_LINE, "instruction 'add.s32' has 2 operands, not 3" },
    { BODY "add.s32 %r1, %r2, %r3, %r1;\n}\n", BODY_LINE, "has 4 operands, not 3" },
    { BODY "add.s32 %r1, %r2, %rd3;\n}\n", BODY_LINE,
      "operand '%rd3' has 64 bits, but the instruction takes 32 bits" },
    { BODY "add.s32 %p1, %r2, %r3;\n}\n", BODY_LINE, "operand '%p1' has a predicate" },
    { BODY "add.s32 %r1, %r2, %r4;\n}\n", BODY_LINE, "'%r4' is not declared" },
    { BODY "add.s32 %r1, %r2, 0xfg;\n}\n", BODY_LINE, "'0xfg' is not declared, or is no operand here" },
    { BODY "add.f32 %f1, %f2, 1;\n}\n", BODY_LINE, "'1' is an integer, but the instruction takes a float" },
    { BODY "add.s32 5, %r2, %r1;\n}\n", BODY_LINE, "'5' is not declared" },
    { BODY "mov.u32 %r1, %clock;\n}\n", BODY_LINE, "'%clock' is not declared" },
    { BODY "add.s32 %r1, [%rd1], %r2;\n}\n", BODY_LINE, "operand 2 of 'add.s32' has the wrong form" },
    { BODY "ld.global.u32 %r1, [%r2];\n}\n", BODY_LINE, "needs 64 bits" },
    { BODY "ld.global.u64 %r1, [%rd2];\n}\n", BODY_LINE, "register '%r1' is too narrow for 'ld.global.u64'" },
    { BODY "ld.global.v2.u32 %r1, [%rd2];\n}\n", BODY_LINE, "have the wrong form" },
    { BODY "ld.global.v4.u64 {%rd1, %rd1, %rd1, %rd1}, [%rd2];\n}\n", BODY_LINE, "is not known" },
    { BODY "ld.param.u64 %rd1, [p+4];\n}\n", BODY_LINE, "offset 4 is not inside parameter 'p'" },
    { BODY "ld.param.u64 %rd1, [q];\n}\n", BODY_LINE, "have the wrong form" },
    { BODY ".shared .u32 v;\nld.local.u32 %r1, [v];\n}\n", BODY_LINE + 1, "'v' is not in the memory that" },
    { BODY "bra $nowhere;\n}\n", BODY_LINE, "there is no label '$nowhere'" },
    { BODY "$a:\nret;\n$a:\n}\n", BODY_LINE + 2, "'$a' is declared twice" },
    { BODY ".reg .b32 %r<9>;\n}\n", BODY_LINE, "'%r' is declared twice" },
    { BODY ".reg .b31 %x<9>;\n}\n", BODY_LINE, "'.b31' is no type of a register" },
    { BODY ".reg .b32 %x<99999999>;\n}\n", BODY_LINE, "registers are too many" },
    { BODY ".shared .b8 huge[9999999999];\n}\n", BODY_LINE, "is too large" },
    { BODY "{ .reg .b32 %inner; }\nmov.u32 %inner, 1;\n}\n", BODY_LINE + 1, "'%inner' is not declared" },
    { BODY "/* no end", BODY_LINE, "the text ends inside a kernel" },
    { BODY "@%r1 ret;\n}\n", BODY_LINE, "operand '%r1' has 32 bits, but the instruction takes a predicate" },
    { BODY ".loc 1 2 3, odd 5\n}\n", BODY_LINE, ".loc has the unknown attribute 'odd'" },
    { BODY ".tex x;\n}\n", BODY_LINE, "'.tex' is not supported here" },
    { HEAD ".file 1 \"no end\n", 4, "a string has no closing quote" },
};

static void test_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) check_refused(&refused[i]);
}

/* No piece of a good text makes the parser read beyond its end, or fail to return. */
static void test_cut(void **state)
{
    (void)state;
    static const char text[] = BODY
        "ld.param.u64 %rd1, [p];\n{ cvt.u32.u64 %r1, %rd1; }\n@!%p1 bra $x;\n"
        "st.global.v2.u32 [%rd1+8], {%r1, 0x5};\n$x: ret;\n}\n.file 1 \"a/b.yk\"\n";
    for (size_t n = 0; n <= sizeof text - 1; n++) {
        struct kernel_fault fault;
        struct ptx_module *module;
        char *copy = malloc(n + 1);
        assert_non_null(copy);
        memcpy(copy, text, n);
        const enum kernel_error error = ptx_parse(copy, n, &module, &fault);
        assert_true((error == KERNEL_OK) == (module != NULL));
        if (n == sizeof text - 1) assert_int_equal(error, KERNEL_OK);
        ptx_module_destroy(module);
        free(copy);
    }
}

static void test_info(void **state)
{
    (void)state;
    static const char text[] = HEAD
        ".pragma \"nounroll\";\n.visible .entry first(\n.param .u64 .ptr .global .align 4 a,\n.param .f32 b,\n"
        ".param .u64 c,\n.param .align 8 .b8 d[20]\n)\n.maxntid 128, 2, 1\n.minnctapersm 2\n{\n"
        ".local .align 16 .b8 depot[40];\n.shared .align 4 .b8 one[10];\n.shared .f32 two[2][3];\n.reg .f32 %f<7>;\n"
        ".reg .b64 %SP, %SPL;\nmov.f32 %f1, 0fBf800000; ret;\n}\n"
        ".entry second()\n.reqntid 32\n{\nret;\n}\n\t.section\t.debug_str\n\t{\n$L:\n.b8 95,90\n.b8 0\n\t}\n";
    struct ptx_world w = { 0 };
    struct ptx_module *module = ptx_world_parse(&w, text);
    const struct ptx_kernel *first = ptx_module_kernel_at(module, 0),
                            *second = ptx_module_kernel_at(module, 1);
    assert_null(ptx_module_kernel_at(module, 2));
    assert_null(ptx_module_kernel_at(module, -1));
    assert_null(ptx_module_kernel(module, "third"));
    assert_ptr_equal(ptx_module_kernel(module, "second"), second);
    const struct kernel_info info = ptx_kernel_info(first);
    assert_string_equal(info.name, "first");
    assert_int_equal(info.n_parameters, 4);
    assert_int_equal(info.parameter_bytes, 8 + 4 + 4 + 8 + 20);
    assert_int_equal(info.shared_bytes, 12 + 24);
    assert_int_equal(info.local_bytes, 40);
    assert_int_equal(info.n_registers, 7 + 2);
    assert_int_equal(info.max_threads, 256);
    assert_int_equal(info.target, 80);
    static const uint32_t wanted[][2] = { { 0, 8 }, { 8, 4 }, { 16, 8 }, { 24, 20 } };
    uint32_t offset, bytes;
    for (int i = 0; i < 4; i++) {
        assert_true(ptx_kernel_parameter(first, i, &offset, &bytes));
        assert_int_equal(offset, wanted[i][0]);
        assert_int_equal(bytes, wanted[i][1]);
    }
    assert_false(ptx_kernel_parameter(first, 4, &offset, &bytes));
    assert_int_equal(ptx_kernel_info(second).n_parameters, 0);

    ptx_world_open(&w, 4096);
    ptx_world_run(&w, second, (const uint32_t[]){ 1, 1, 1 }, (const uint32_t[]){ 16, 1, 1 }, NULL, 0);
    assert_fault(&w, KERNEL_LIMIT, "second: a block has 16 threads in x, but .reqntid says 32");
    const struct kernel_launch launch = {
        .kernel = first, .grid = { 1, 1, 1 }, .block = { 512, 1, 1 }, .memory = &w.memory, .limits = &w.limits
    };
    assert_int_equal(ptx_run(&launch, &w.fault), KERNEL_LIMIT);
    assert_fault(&w, KERNEL_LIMIT, "first: a block has 512 threads, but the kernel is compiled for 256");
    ptx_module_destroy(module);
    ptx_world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_refused), cmocka_unit_test(test_cut),
                                        cmocka_unit_test(test_info) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
