/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Branches, loops, barriers, shuffles, votes, atomics and vectors of memory, and what the executor counts.
 */
#include "tests/unit/ptx_world.h"

#include <stdlib.h>

#define REGISTERS                                                                                        \
    ".shared .align 16 .b8 s[1024];\n.local .align 16 .b8 d[64];\n.reg .pred %p<8>;\n.reg .b16 %h<8>;\n" \
    ".reg .b32 %r<16>;\n.reg .f32 %f<8>;\n.reg .b64 %rd<16>;\n"

struct outcome {
    struct ptx_world w;
    uint32_t out[1024];
};

/*
 * Run a body, which has the address of an input of 1024 words (word i is i) in parameter `in`, and that of
 * an output of 1024 words, all 0, in `out`.
 */
static void run_body(struct outcome *o, const char *body, uint32_t blocks, uint32_t threads, uint64_t seed)
{
    char whole[8192];
    uint32_t content[1024], zeros[1024] = { 0 };
    for (uint32_t i = 0; i < 1024; i++) content[i] = i;
    ptx_world_open(&o->w, 1 << 14);
    o->w.seed = seed;
    snprintf(whole, sizeof whole, "%s%s", REGISTERS, body);
    char *text = ptx_world_text(".param .u64 in, .param .u64 out", whole);
    struct ptx_module *module = ptx_world_parse(&o->w, text);
    const uint64_t in = ptx_world_new(&o->w, sizeof content, content);
    const uint64_t out = ptx_world_new(&o->w, sizeof zeros, zeros);
    ptx_world_run(&o->w, ptx_module_kernel(module, "k"), (const uint32_t[]){ blocks, 1, 1 },
                  (const uint32_t[]){ threads, 1, 1 }, ARGUMENTS(ARGUMENT_Q(in), ARGUMENT_Q(out)));
    assert_good(&o->w);
    memcpy(o->out, ptx_world_at(&o->w, out), sizeof o->out);
    ptx_module_destroy(module);
    free(text);
    ptx_world_close(&o->w);
}

/* Store %r0 into word %r1 of the output. */
#define STORE \
    "ld.param.u64 %rd1, [out];\nmul.wide.u32 %rd2, %r1, 4;\nadd.s64 %rd1, %rd1, %rd2;\nst.global.u32 [%rd1], %r0;\nret;\n"
enum { STORE_LENGTH = 5 };

static void test_branches(void **state)
{
    (void)state;
    struct outcome o;
    /* 7 + STORE: each side of the branch runs once, and the rest once for all lanes */
    run_body(
        &o,
        "mov.u32 %r1, %tid.x;\nsetp.lt.u32 %p1, %r1, 10;\n@%p1 bra $low;\nmov.u32 %r0, 100;\nbra $join;\n"
        "$low:\nmov.u32 %r0, 200;\n$join:\nadd.s32 %r0, %r0, %r1;\n" STORE,
        1, 32, 1);
    for (uint32_t i = 0; i < 32; i++) assert_int_equal(o.out[i], (i < 10 ? 200 : 100) + i);
    assert_int_equal(o.w.counts.warp_instructions, 7 + STORE_LENGTH);
    /*
     * 3 before, 2 * 22 and 10 in the branches (the branch itself is executed by those that take it), 1
     * behind
     */
    assert_int_equal(o.w.counts.instructions, 2 * 32 + 10 + 2 * 22 + 10 + 32 + 32 * STORE_LENGTH);

    /* nested */
    run_body(
        &o,
        "mov.u32 %r1, %tid.x;\nmov.u32 %r0, 0;\nsetp.lt.u32 %p1, %r1, 16;\n@!%p1 bra $join;\n"
        "setp.lt.u32 %p2, %r1, 8;\n@!%p2 bra $inner;\nsetp.lt.u32 %p3, %r1, 4;\n@!%p3 bra $third;\nadd.s32 %r0, %r0, 1;\n"
        "$third:\nadd.s32 %r0, %r0, 10;\n$inner:\nadd.s32 %r0, %r0, 100;\n$join:\nadd.s32 %r0, %r0, 1000;\n" STORE,
        1, 32, 1);
    for (uint32_t i = 0; i < 32; i++)
        assert_int_equal(o.out[i], 1000 + (i < 16 ? 100 : 0) + (i < 8 ? 10 : 0) + (i < 4 ? 1 : 0));
    assert_int_equal(o.w.counts.warp_instructions, 12 + STORE_LENGTH);

    /* a loop with another number of rounds in each lane, and a part of a warp */
    run_body(
        &o,
        "mov.u32 %r1, %tid.x;\nmov.u32 %r0, 0;\nmov.u32 %r2, 0;\n$loop:\nsetp.ge.u32 %p1, %r2, %r1;\n@%p1 bra $done;\n"
        "add.s32 %r0, %r0, %r2;\nadd.s32 %r2, %r2, 1;\nbra.uni $loop;\n$done:\n" STORE,
        1, 27, 1);
    for (uint32_t i = 0; i < 27; i++) assert_int_equal(o.out[i], i * (i - 1) / 2);
    assert_int_equal(o.out[27], 0);
    assert_int_equal(o.w.counts.warp_instructions, 3 + 26 * 5 + 2 + STORE_LENGTH);

    /* lanes that return early, and lanes that leave a loop from its middle */
    run_body(
        &o,
        "mov.u32 %r1, %tid.x;\nmov.u32 %r0, 0;\nsetp.eq.u32 %p1, %r1, 5;\n@%p1 ret;\nand.b32 %r3, %r1, 3;\n$loop:\n"
        "add.s32 %r0, %r0, 1;\nsetp.gt.u32 %p2, %r0, %r3;\n@%p2 bra $out;\nsetp.lt.u32 %p3, %r0, 3;\n@%p3 bra $loop;\n"
        "add.s32 %r0, %r0, 50;\n$out:\n" STORE,
        1, 32, 1);
    for (uint32_t i = 0; i < 32; i++) assert_int_equal(o.out[i], i == 5 ? 0 : i % 4 == 3 ? 53 : i % 4 + 1);
}

static void test_barriers(void **state)
{
    (void)state;
    struct outcome o;
    /* the sum of the block by a tree; each barrier lies in a loop */
    run_body(
        &o,
        "mov.u32 %r1, %tid.x;\nmov.u32 %r2, s;\nmad.lo.s32 %r2, %r1, 4, %r2;\nst.shared.u32 [%r2], %r1;\nmov.u32 %r3, 64;\n"
        "$loop:\nbar.sync 0;\nsetp.ge.u32 %p1, %r1, %r3;\n@%p1 bra $next;\nmad.lo.s32 %r4, %r3, 4, %r2;\n"
        "ld.shared.u32 %r5, [%r4];\nld.shared.u32 %r6, [%r2];\nadd.s32 %r6, %r6, %r5;\nst.shared.u32 [%r2], %r6;\n"
        "$next:\nshr.u32 %r3, %r3, 1;\nsetp.ne.u32 %p2, %r3, 0;\n@%p2 bra $loop;\nbar.sync 0;\nld.shared.u32 %r0, [s];\n" STORE,
        1, 128, 1);
    for (uint32_t i = 0; i < 128; i++) assert_int_equal(o.out[i], 127 * 128 / 2);
    assert_int_equal(o.w.counts.barriers, 8);
    /* bar.warp.sync orders the lanes of a warp, of which a part is enough */
    run_body(
        &o,
        "mov.u32 %r1, %tid.x;\nmov.u32 %r2, s;\nmad.lo.s32 %r2, %r1, 4, %r2;\nmov.u32 %r0, 0;\nsetp.gt.u32 %p1, %r1, 15;\n"
        "@%p1 bra $skip;\nst.shared.u32 [%r2], %r1;\nbar.warp.sync 0xffff;\nxor.b32 %r3, %r1, 15;\nshl.b32 %r3, %r3, 2;\n"
        "ld.shared.u32 %r0, [%r3];\n$skip:\n" STORE,
        1, 32, 1);
    for (uint32_t i = 0; i < 32; i++) assert_int_equal(o.out[i], i < 16 ? i ^ 15 : 0);
}

/* ---- shuffles and votes ---- */

static uint32_t source_lane(const char *mode, uint32_t lane, uint32_t by, uint32_t width, bool *inside_out)
{
    const uint32_t begin = lane / width * width, end = begin + width;
    uint32_t from = lane;
    if (!strcmp(mode, "up")) from = lane - by;
    if (!strcmp(mode, "down")) from = lane + by;
    if (!strcmp(mode, "bfly")) from = lane ^ by;
    if (!strcmp(mode, "idx")) from = begin + by % width;
    *inside_out = from < end && (!strcmp(mode, "up") ? lane >= begin + by : true);
    return *inside_out ? from : lane;
}

static void test_shuffles(void **state)
{
    (void)state;
    static const char *const modes[] = { "up", "down", "bfly", "idx" };
    for (int m = 0; m < 4; m++)
        for (uint32_t width = 4; width <= 32; width *= 2)
            for (uint32_t by = 0; by < 32; by += 3) {
                char body[2048];
                struct outcome o;
                const uint32_t c = (32 - width) << 8 | (m == 0 ? 0 : 31);
                snprintf(
                    body, sizeof body,
                    "mov.u32 %%r1, %%tid.x;\nadd.s32 %%r2, %%r1, 500;\nshfl.sync.%s.b32 %%r0|%%p1, %%r2, %u, %u, "
                    "-1;\nselp.u32 %%r3, 1000, 0, %%p1;\nadd.s32 %%r0, %%r0, %%r3;\n%s",
                    modes[m], by, c, STORE);
                run_body(&o, body, 1, 32, 1);
                for (uint32_t i = 0; i < 32; i++) {
                    bool inside;
                    const uint32_t from = source_lane(modes[m], i, by, width, &inside);
                    if (o.out[i] != 500 + from + (inside ? 1000 : 0))
                        fail_msg("shfl.%s by %u in %u lanes: lane %u gets %u", modes[m], by, width, i,
                                 o.out[i]);
                }
            }
    /* two halves with masks of their own at one instruction */
    struct outcome o;
    run_body(&o,
             "mov.u32 %r1, %tid.x;\nsetp.lt.u32 %p1, %r1, 16;\nselp.b32 %r2, 0xffff, 0xffff0000, %p1;\n"
             "shfl.sync.bfly.b32 %r0, %r1, 3, 31, %r2;\n" STORE,
             1, 32, 1);
    for (uint32_t i = 0; i < 32; i++) assert_int_equal(o.out[i], i ^ 3);
    /* lanes that come to a shuffle one after another */
    run_body(
        &o,
        "mov.u32 %r1, %tid.x;\nmov.u32 %r2, %r1;\nsetp.lt.u32 %p1, %r1, 9;\n@%p1 bra $go;\nadd.s32 %r2, %r2, 100;\n$go:\n"
        "shfl.sync.idx.b32 %r0, %r2, 20, 31, -1;\n" STORE,
        1, 32, 1);
    for (uint32_t i = 0; i < 32; i++) assert_int_equal(o.out[i], 120);
}

static void test_votes(void **state)
{
    (void)state;
    struct outcome o;
    run_body(
        &o,
        "mov.u32 %r1, %tid.x;\nand.b32 %r2, %r1, 1;\nsetp.eq.u32 %p1, %r2, 1;\nvote.sync.ballot.b32 %r0, %p1, -1;\n" STORE,
        1, 64, 1);
    for (uint32_t i = 0; i < 64; i++) assert_int_equal(o.out[i], 0xaaaaaaaa);
    run_body(
        &o,
        "mov.u32 %r1, %tid.x;\nsetp.lt.u32 %p1, %r1, 40;\nvote.sync.all.pred %p2, %p1, -1;\nvote.sync.any.pred %p3, %p1, -1;\n"
        "vote.sync.uni.pred %p4, %p1, -1;\nvote.sync.all.pred %p5, !%p1, -1;\nselp.u32 %r0, 1, 0, %p2;\n@%p3 add.s32 %r0, %r0, 2;\n"
        "@%p4 add.s32 %r0, %r0, 4;\n@%p5 add.s32 %r0, %r0, 8;\n" STORE,
        1, 96, 1);
    for (uint32_t i = 0; i < 96; i++) assert_int_equal(o.out[i], i < 32 ? 1 + 2 + 4 : i < 64 ? 2 : 4 + 8);
    run_body(
        &o,
        "mov.u32 %r1, %tid.x;\nsetp.lt.u32 %p1, %r1, 5;\n@%p1 bra $low;\nactivemask.b32 %r0;\nbra $join;\n$low:\n"
        "activemask.b32 %r0;\n$join:\n" STORE,
        1, 32, 1);
    for (uint32_t i = 0; i < 32; i++) assert_int_equal(o.out[i], i < 5 ? 0x1f : 0xffffffe0);
}

/* ---- memory ---- */

static void test_atomics(void **state)
{
    (void)state;
    /* 64 threads of 2 blocks; thread t of the grid has operand t, and the word begins as 0 */
    static const struct {
        const char *text;
        uint32_t value;
    } atomics[] = { { "add.u32", 127 * 64 }, { "add.s32", 127 * 64 }, { "min.u32", 0 },
                    { "max.u32", 127 },      { "min.s32", 0 },        { "max.s32", 127 },
                    { "and.b32", 0 },        { "or.b32", 127 },       { "xor.b32", 0 } };
    for (size_t i = 0; i < sizeof atomics / sizeof *atomics; i++)
        for (uint64_t seed = 0; seed < 2; seed++) {
            char body[2048];
            struct outcome o;
            snprintf(
                body, sizeof body,
                "mov.u32 %%r1, %%tid.x;\nmov.u32 %%r2, %%ctaid.x;\nmad.lo.s32 %%r2, %%r2, 64, %%r1;\n"
                "ld.param.u64 %%rd1, [out];\nred.global.add.u32 [%%rd1], 0;\nred.global.%s [%%rd1+%d], %%r2;\n"
                "atom.global.%s %%r3, [%%rd1+%d], %%r2;\nret;",
                atomics[i].text, 4, atomics[i].text, 8);
            run_body(&o, body, 2, 64, seed);
            assert_int_equal(o.out[1], atomics[i].value);
            assert_int_equal(o.out[2], atomics[i].value);
        }
    struct outcome o;
    /* exch, cas and f32; 64 bits; old values come back */
    run_body(
        &o,
        "mov.u32 %r1, %tid.x;\nld.param.u64 %rd1, [out];\natom.global.exch.b32 %r2, [%rd1], %r1;\n"
        "atom.global.cas.b32 %r3, [%rd1+4], %r1, 7;\nmov.f32 %f1, 0f3FC00000;\natom.global.add.f32 %f2, [%rd1+8], %f1;\n"
        "cvt.u64.u32 %rd3, %r1;\nshl.b64 %rd3, %rd3, 33;\natom.global.add.u64 %rd4, [%rd1+16], %rd3;\n"
        "atom.global.max.s64 %rd5, [%rd1+24], -9;\natom.global.exch.b64 _, [%rd1+32], %rd3;\nred.global.add.f32 [%rd1+40], %f1;\n"
        "setp.ne.u32 %p1, %r1, 31;\n@%p1 ret;\nst.global.u32 [%rd1+48], %r2;\nst.global.u32 [%rd1+52], %r3;\n",
        1, 32, 1);
    assert_int_equal(o.out[0], 31);
    assert_int_equal(o.out[1], 7); /* lane 0 meets 0 and swaps; lane 7 puts 7 in place of 7 */
    assert_int_equal(o.out[2], ptx_float_bits(48.0f));
    assert_int_equal(o.out[4], 0);
    assert_int_equal(o.out[5], 2 * 496);
    assert_int_equal(o.out[6], 0);
    assert_int_equal(o.out[9], 62);
    assert_int_equal(o.out[10], ptx_float_bits(48.0f));
    assert_int_equal(o.out[12], 30);
    assert_int_equal(o.out[13], 7);
    run_body(
        &o,
        "mov.u32 %r1, %tid.x;\nst.shared.u32 [s], 3;\n@%p7 trap;\nbar.sync 0;\natom.shared.cas.b32 %r2, [s], 3, 9;\n"
        "bar.sync 0;\nld.shared.u32 %r0, [s];\n" STORE,
        1, 1, 1);
    assert_int_equal(o.out[0], 9);
}

static void test_vectors(void **state)
{
    (void)state;
    struct outcome o;
    run_body(
        &o,
        "mov.u32 %r1, %tid.x;\nld.param.u64 %rd1, [in];\nmul.wide.u32 %rd2, %r1, 16;\nadd.s64 %rd1, %rd1, %rd2;\n"
        "ld.global.nc.v4.u32 {%r2, %r3, %r4, %r5}, [%rd1];\nmov.u64 %rd3, d;\nst.local.v4.u32 [%rd3], {%r5, %r4, %r3, %r2};\n"
        "ld.local.v2.u32 {%r6, %r7}, [%rd3+8];\nmov.u64 %rd4, s;\nadd.s64 %rd4, %rd4, %rd2;\n"
        "st.shared.v2.u32 [%rd4], {%r6, %r7};\nst.shared.v2.u32 [%rd4+8], {%r2, 5};\nld.shared.v4.u32 {%r8, %r9, %r10, %r11}, [%rd4];\n"
        "ld.shared.u64 %rd5, [%rd4];\nld.param.u64 %rd6, [out];\nadd.s64 %rd6, %rd6, %rd2;\nadd.s32 %r11, %r11, %r1;\n"
        "st.global.v4.u32 [%rd6], {%r8, %r9, %r10, %r11};\nshr.u64 %rd5, %rd5, 32;\ncvt.u32.u64 %r12, %rd5;\nsetp.ne.u32 %p1, %r12, %r9;\n@%p1 trap;\n",
        1, 41, 1);
    for (uint32_t i = 0; i < 41; i++) {
        assert_int_equal(o.out[4 * i], 4 * i + 1);
        assert_int_equal(o.out[4 * i + 1], 4 * i);
        assert_int_equal(o.out[4 * i + 2], 4 * i);
        assert_int_equal(o.out[4 * i + 3], 5 + i);
    }
    assert_int_equal(o.out[164], 0);
    /* signs and zeros of narrow loads; halves and bytes in local memory */
    run_body(
        &o,
        "mov.u32 %r1, %tid.x;\nmov.u32 %r2, -3;\nst.local.u16 [d+2], %r2;\nst.local.u8 [d+1], %r2;\nst.local.u8 [d], 1;\n"
        "ld.local.s16 %r3, [d+2];\nld.local.u16 %h1, [d+2];\ncvt.u32.u16 %r4, %h1;\nld.local.s8 %rd3, [d+1];\ncvt.u32.u64 %r5, %rd3;\n"
        "ld.local.u32 %r6, [d];\nadd.s32 %r0, %r3, %r4;\nadd.s32 %r0, %r0, %r5;\nadd.s32 %r0, %r0, %r6;\n" STORE,
        1, 32, 1);
    for (uint32_t i = 0; i < 32; i++) assert_int_equal(o.out[i], 0u - 3 + 0xfffd + (0u - 3) + 0xfffdfd01u);
}

/* ---- counts, and the order of the blocks ---- */

static void test_counts(void **state)
{
    (void)state;
    struct outcome o;
    run_body(
        &o,
        "mov.u32 %r1, %tid.x;\nld.param.u64 %rd1, [in];\nld.param.u64 %rd2, [out];\nmul.wide.u32 %rd3, %r1, 4;\n"
        "add.s64 %rd4, %rd1, %rd3;\nld.global.u32 %r2, [%rd4];\n" /* a row: 4 sectors a warp */
        "shl.b64 %rd5, %rd3, 3;\nadd.s64 %rd5, %rd5, %rd1;\nld.global.u32 %r3, [%rd5];\n" /* each a sector */
        "ld.global.u32 %r4, [%rd1];\n"                                                    /* all the same */
        "mov.u64 %rd6, s;\nadd.s64 %rd7, %rd6, %rd3;\nst.shared.u32 [%rd7], %r2;\nbar.sync 0;\n"
        "and.b64 %rd8, %rd3, 0x7c;\nshl.b64 %rd8, %rd8, 1;\nand.b64 %rd8, %rd8, 0xf8;\nadd.s64 %rd8, %rd8, %rd6;\n"
        "ld.shared.u32 %r5, [%rd8];\n" /* two words in every other bank */
        "ld.shared.u32 %r6, [s+4];\nadd.s64 %rd9, %rd2, %rd3;\nst.global.u32 [%rd9], %r5;\nret;",
        1, 64, 1);
    const struct kernel_counts *c = &o.w.counts;
    assert_int_equal(c->warp_instructions, 2 * 23);
    assert_int_equal(c->instructions, 64 * 23);
    assert_int_equal(c->bytes_loaded, 3 * 64 * 4);
    assert_int_equal(c->bytes_stored, 64 * 4);
    assert_int_equal(c->sectors_loaded, 2 * (4 + 32 + 1));
    assert_int_equal(c->sectors_stored, 2 * 4);
    assert_int_equal(c->shared_accesses, 2 * 3);
    assert_int_equal(c->bank_conflicts, 2 * 1);
    assert_int_equal(c->barriers, 1);
}

static void test_order(void **state)
{
    (void)state;
    struct outcome o;
    uint32_t first[64];
    int different = 0, jumps = 0;
    /* each block takes the next number */
    static const char body[] = "ld.param.u64 %rd1, [out];\nmov.u32 %r1, %ctaid.x;\nadd.s32 %r1, %r1, 1;\n"
                               "atom.global.add.u32 %r0, [%rd1], 1;\n" STORE;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        bool seen[64] = { false };
        run_body(&o, body, 60, 1, seed);
        for (int i = 0; i < 60; i++) {
            assert_in_range(o.out[1 + i], 0, 59);
            assert_false(seen[o.out[1 + i]]);
            seen[o.out[1 + i]] = true;
        }
        if (seed == 1) memcpy(first, o.out, sizeof first);
        different += memcmp(first, o.out, sizeof first) != 0;
        for (int i = 1; i < 60; i++) jumps += o.out[1 + i] != (o.out[i] + 1) % 60;
    }
    assert_true(different >= 3);
    assert_true(jumps > 60); /* the order is no rotation */
    run_body(&o, body, 60, 1, 1);
    assert_memory_equal(first, o.out, sizeof first);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_branches), cmocka_unit_test(test_barriers),
                                        cmocka_unit_test(test_shuffles), cmocka_unit_test(test_votes),
                                        cmocka_unit_test(test_atomics),  cmocka_unit_test(test_vectors),
                                        cmocka_unit_test(test_counts),   cmocka_unit_test(test_order) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
