/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each fault that the PTX executor finds is planted once, and must be named with its line, block and
 * thread.
 */
#include "tests/unit/ptx_world.h"

#include <stdlib.h>

#define REGISTERS                                                                                           \
    ".shared .align 16 .b8 s[256];\n.local .align 16 .b8 d[64];\n.reg .pred %p<8>;\n.reg .b16 %h<8>;\n"     \
    ".reg .b32 %r<16>;\n.reg .f32 %f<8>;\n.reg .b64 %rd<16>;\nld.param.u64 %rd1, [in];\n"                   \
    "ld.param.u64 %rd2, [out];\nmov.u32 %r1, %tid.x;\nmov.u32 %r2, %ctaid.x;\nmul.wide.u32 %rd3, %r1, 4;\n" \
    "add.s64 %rd1, %rd1, %rd3;\nadd.s64 %rd2, %rd2, %rd3;\nmov.u64 %rd4, s;\nadd.s64 %rd5, %rd4, %rd3;\n"   \
    "mov.u64 %rd6, d;\n"
/* The line of the text where what follows REGISTERS begins. */
enum { FIRST_LINE = 23 };

struct planted {
    const char *body; /* behind REGISTERS */
    uint32_t blocks, threads;
    enum kernel_error error; /* KERNEL_OK: the body is good */
    int line;                /* of the fault, from 0 at the begin of the body */
    int block, thread;       /* -1: not checked */
    const char *words;
};

/* `in` has 64 defined words, and `out` has 64 undefined ones. */
static void run_with(struct ptx_world *w, const struct planted *p)
{
    char body[8192];
    snprintf(body, sizeof body, "%s%s", REGISTERS, p->body);
    char *text = ptx_world_text(".param .u64 in, .param .u64 out", body);
    struct ptx_module *module = ptx_world_parse(w, text);
    uint32_t content[64];
    for (uint32_t i = 0; i < 64; i++) content[i] = i;
    const uint64_t in = ptx_world_new(w, sizeof content, content),
                   out = ptx_world_new(w, sizeof content, NULL);
    ptx_world_run(w, ptx_module_kernel(module, "k"), (const uint32_t[]){ p->blocks, 1, 1 },
                  (const uint32_t[]){ p->threads, 1, 1 }, ARGUMENTS(ARGUMENT_Q(in), ARGUMENT_Q(out)));
    ptx_module_destroy(module);
    free(text);
}

static void check(const struct planted *p)
{
    /* the order of the blocks and the instruction set must not decide what is found */
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct ptx_world w;
        ptx_world_open(&w, 1 << 14);
        w.seed = seed;
        run_with(&w, p);
        if (w.fault.error != p->error)
            fail_msg("'%s' with seed %llu gives %s instead of %s: %s", p->body, (unsigned long long)seed,
                     kernel_error_name(w.fault.error), kernel_error_name(p->error), w.fault.text);
        if (p->error) {
            if (!strstr(w.fault.text, p->words) || strncmp(w.fault.text, "k: ", 3))
                fail_msg("the message '%s' does not contain '%s'", w.fault.text, p->words);
            if (p->line >= 0 && w.fault.line != FIRST_LINE + p->line)
                fail_msg("line %d instead of %d: %s", w.fault.line, FIRST_LINE + p->line, w.fault.text);
            if (p->block >= 0) assert_int_equal(w.fault.block[0], p->block);
            if (p->thread >= 0 && w.fault.thread[0] != (uint32_t)p->thread)
                fail_msg("thread %u instead of %d: %s", w.fault.thread[0], p->thread, w.fault.text);
            assert_string_equal(w.fault.kernel, "k");
        }
        ptx_world_close(&w);
    }
}

static void check_all(const struct planted *planted, size_t n)
{
    for (size_t i = 0; i < n; i++) check(&planted[i]);
}
#define CHECK_ALL(planted) check_all(planted, sizeof(planted) / sizeof *(planted))

static void test_global(void **state)
{
    (void)state;
    static const struct planted planted[] = {
        { "ld.global.u32 %r3, [%rd1];\nst.global.u32 [%rd2], %r3;\n", 1, 64, KERNEL_OK, 0, 0, 0, "" },
        { "ld.global.u32 %r3, [%rd1+4];\n", 1, 64, KERNEL_OUT_OF_BOUNDS, 0, 0, 63,
          "thread (63,0,0) of block (0,0,0) reads 4 bytes at 0x700000000200 outside all allocations; PTX line 23" },
        { "\n\nst.global.u32 [%rd2+-4], %r1;\n", 1, 64, KERNEL_OUT_OF_BOUNDS, 2, 0, 0, "writes 4 bytes at" },
        { "mov.u64 %rd7, 0;\nld.global.u32 %r3, [%rd7];\n", 1, 1, KERNEL_OUT_OF_BOUNDS, 1, 0, 0,
          "at 0x0 outside" },
        { "ld.global.v4.u32 {%r3, %r4, %r5, %r6}, [%rd1+248];\n", 1, 1, KERNEL_OUT_OF_BOUNDS, 0, 0, 0,
          "reads 16 bytes" },
        { "ld.global.v2.u32 {%r3, %r4}, [%rd1+4];\n", 1, 1, KERNEL_MISALIGNED, 0, 0, 0,
          "at an address that is no multiple of the size" },
        { "ld.global.u16 %h3, [%rd1+1];\n", 1, 32, KERNEL_MISALIGNED, 0, 0, 0, "reads 2 bytes" },
        { "setp.eq.u32 %p1, %r1, 9;\n@%p1 add.s64 %rd1, %rd1, 2;\nld.global.u32 %r3, [%rd1];\n", 1, 32,
          KERNEL_MISALIGNED, 2, 0, 9, "reads 4 bytes" },
        { "ld.global.u32 %r3, [%rd2];\n", 1, 32, KERNEL_UNINITIALISED, 0, 0, 0, "reads 4 bytes at" },
        { "setp.ne.u32 %p1, %r1, 5;\n@%p1 st.global.u32 [%rd2], %r1;\nld.global.u32 %r3, [%rd2];\n", 1, 32,
          KERNEL_UNINITIALISED, 2, 0, 5, "that were never written" },
        { "atom.global.add.u32 %r3, [%rd2], 1;\n", 1, 32, KERNEL_UNINITIALISED, 0, 0, 0, "changes 4 bytes" },
        { "ld.u32 %r3, [%rd2];\n", 1, 32, KERNEL_UNINITIALISED, 0, 0, 0, "that were never written" },
        { "st.global.u8 [%rd2], %r1;\nld.global.u16 %h1, [%rd2];\n", 1, 1, KERNEL_UNINITIALISED, 1, 0, 0,
          "reads 2 bytes" },
    };
    CHECK_ALL(planted);
}

static void test_shared_and_local(void **state)
{
    (void)state;
    static const struct planted planted[] = {
        { "st.shared.u32 [%rd5], %r1;\nbar.sync 0;\nxor.b32 %r3, %r1, 1;\nmul.lo.s32 %r3, %r3, 4;\n"
          "ld.shared.u32 %r4, [%r3];\n",
          1, 64, KERNEL_OK, 0, 0, 0, "" },
        { "st.shared.u32 [%rd5+4], %r1;\n", 1, 64, KERNEL_OUT_OF_BOUNDS, 0, 0, 63,
          "writes 4 bytes at 256 of shared memory outside the memory of the block" },
        { "ld.shared.u32 %r3, [%rd5];\n", 1, 64, KERNEL_UNINITIALISED, 0, 0, 0, "at 0 of shared memory" },
        { "st.shared.u32 [%rd4+2], %r1;\n", 1, 1, KERNEL_MISALIGNED, 0, 0, 0, "at 2 of shared memory" },
        /* a block begins with undefined shared memory, whatever the block before has written */
        { "setp.eq.u32 %p1, %r2, 0;\n@%p1 st.shared.u32 [%rd5], %r1;\nld.shared.u32 %r3, [%rd5];\n", 2, 32,
          KERNEL_UNINITIALISED, 2, 1, 0, "never written" },
        { "st.local.u32 [%rd6], %r1;\nld.local.u32 %r3, [d];\n", 2, 40, KERNEL_OK, 0, 0, 0, "" },
        { "ld.local.u32 %r3, [%rd6+8];\n", 1, 40, KERNEL_UNINITIALISED, 0, 0, 0, "at 8 of local memory" },
        { "st.local.v4.u32 [%rd6+64], {%r1, %r1, %r1, %r1};\n", 1, 40, KERNEL_OUT_OF_BOUNDS, 0, 0, 0,
          "writes 16 bytes at 64 of local memory outside the memory of the thread" },
        { "st.local.u64 [%rd6+4], %rd1;\n", 1, 40, KERNEL_MISALIGNED, 0, 0, 0, "local memory" },
        { "setp.ne.u32 %p1, %r1, 3;\n@%p1 st.local.u32 [%rd6], %r1;\nld.local.u32 %r3, [%rd6];\n", 1, 40,
          KERNEL_UNINITIALISED, 2, 0, 3, "local memory" },
        /* by generic addresses */
        { "cvta.shared.u64 %rd7, %rd5;\nst.u32 [%rd7], %r1;\nld.shared.u32 %r3, [%rd5];\ncvta.local.u64 %rd8, %rd6;\n"
          "st.u32 [%rd8], %r1;\nld.u32 %r4, [%rd8];\ncvta.to.local.u64 %rd8, %rd8;\nld.local.u32 %r4, [%rd8];\n",
          1, 33, KERNEL_OK, 0, 0, 0, "" },
        { "cvta.shared.u64 %rd7, %rd5;\nld.u32 %r1, [%rd7];\n", 1, 33, KERNEL_UNINITIALISED, 1, 0, 0,
          "at 0 of shared memory" },
    };
    CHECK_ALL(planted);
}

static void test_races(void **state)
{
    (void)state;
    static const struct planted planted[] = {
        /* another warp */
        { "st.shared.u32 [%rd5], %r1;\nxor.b32 %r3, %r1, 32;\nmul.wide.u32 %rd7, %r3, 4;\nadd.s64 %rd7, %rd7, %rd4;\n"
          "@%p7 bar.sync 0;\nld.shared.u32 %r4, [%rd7];\n",
          1, 64, KERNEL_UNINITIALISED, 5, 0, -1, "shared memory" },
        { "setp.eq.u32 %p1, %r1, 0;\n@%p1 st.shared.u32 [%rd4], %r1;\nbar.sync 0;\nld.shared.u32 %r3, [%rd4];\n"
          "setp.eq.u32 %p1, %r1, 40;\n@%p1 st.shared.u32 [%rd4], %r1;\n",
          1, 64, KERNEL_SHARED_RACE, -1, 0, -1, "of shared memory that" },
        { "setp.eq.u32 %p1, %r1, 0;\n@%p1 st.shared.u32 [%rd4], %r1;\nsetp.eq.u32 %p1, %r1, 32;\n"
          "@%p1 st.shared.u32 [%rd4], %r1;\n",
          1, 64, KERNEL_SHARED_RACE, 3, 0, 32,
          "writes 4 bytes at 0 of shared memory that thread (0,0,0) wrote, with no barrier between them" },
        /* lanes of one warp */
        { "setp.eq.u32 %p1, %r1, 3;\n@%p1 st.shared.u32 [%rd4], %r1;\nld.shared.u32 %r3, [%rd4];\n", 1, 32,
          KERNEL_SHARED_RACE, 2, 0, 0,
          "that thread (3,0,0) wrote, with no barrier and no __syncwarp() between them" },
        { "setp.eq.u32 %p1, %r1, 0;\n@%p1 st.shared.u32 [%rd4], %r1;\nld.shared.u32 %r3, [%rd4];\n", 1, 32,
          KERNEL_SHARED_RACE, 2, 0, 1, "that thread (0,0,0) wrote" },
        { "setp.eq.u32 %p1, %r1, 3;\n@%p1 st.shared.u32 [%rd4], %r1;\nbar.warp.sync -1;\nld.shared.u32 %r3, [%rd4];\n",
          1, 32, KERNEL_OK, 0, 0, 0, "" },
        { "setp.eq.u32 %p1, %r1, 3;\n@%p1 st.shared.u32 [%rd4], %r1;\nshfl.sync.idx.b32 %r4, %r1, 0, 31, -1;\n"
          "ld.shared.u32 %r3, [%rd4];\n",
          1, 32, KERNEL_SHARED_RACE, 3, 0, 0, "no __syncwarp()" },
        /* bar.warp.sync does not order two warps */
        { "setp.eq.u32 %p1, %r1, 3;\n@%p1 st.shared.u32 [%rd4], %r1;\nbar.warp.sync -1;\nsetp.eq.u32 %p1, %r1, 40;\n"
          "@%p1 st.shared.u32 [%rd4], %r1;\n",
          1, 64, KERNEL_SHARED_RACE, 4, 0, 40, "that thread (3,0,0) wrote" },
        /* a read before a write */
        { "st.shared.u32 [%rd5], %r1;\nbar.sync 0;\nld.shared.u32 %r3, [%rd4];\nst.shared.u32 [%rd5], %r3;\n",
          1, 32, KERNEL_SHARED_RACE, 3, 0, 0, "that other threads read" },
        /* neighbouring halves of a word are different bytes */
        { "mul.wide.u32 %rd7, %r1, 2;\nadd.s64 %rd7, %rd7, %rd4;\ncvt.u16.u32 %h1, %r1;\nst.shared.u16 [%rd7], %h1;\n"
          "ld.shared.u16 %h2, [%rd7];\n",
          1, 64, KERNEL_OK, 0, 0, 0, "" },
        { "st.shared.u32 [%rd5], 0;\nbar.sync 0;\natom.shared.add.u32 %r3, [%rd4], 1;\nred.shared.max.u32 [%rd4], %r1;\n"
          "bar.sync 0;\nld.shared.u32 %r4, [%rd4];\n",
          1, 64, KERNEL_OK, 0, 0, 0, "" },
        { "st.shared.u32 [%rd5], 0;\nbar.sync 0;\nred.shared.add.u32 [%rd4], 1;\nld.shared.u32 %r4, [%rd4];\n",
          1, 64, KERNEL_SHARED_RACE, 3, 0, -1, "that a thread changed by an atomic" },
    };
    CHECK_ALL(planted);
}

static void test_block_races(void **state)
{
    (void)state;
    static const struct planted planted[] = {
        { "st.global.u32 [%rd2], %r1;\n", 2, 32, KERNEL_GLOBAL_RACE, 0, -1, 0, "wrote in the same launch" },
        { "ld.global.u32 %r3, [%rd1];\nsetp.eq.u32 %p1, %r2, 1;\n@%p1 st.global.u32 [%rd1], %r1;\n", 2, 32,
          KERNEL_GLOBAL_RACE, -1, -1, 0, "in the same launch" },
        { "mul.wide.u32 %rd7, %r2, 128;\nadd.s64 %rd2, %rd2, %rd7;\nst.global.u32 [%rd2], %r1;\n"
          "ld.global.u32 %r3, [%rd2];\nld.global.u32 %r3, [%rd1];\n",
          2, 32, KERNEL_OK, 0, 0, 0, "" },
        { "red.global.add.u32 [%rd1], 1;\natom.global.max.s32 %r3, [%rd1], 7;\n", 9, 32, KERNEL_OK, 0, 0, 0,
          "" },
        { "red.global.add.u32 [%rd1], 1;\nld.global.u32 %r3, [%rd1];\n", 2, 32, KERNEL_GLOBAL_RACE, -1, -1, 0,
          "in the same launch" },
        /* a block may read and write what only its own atomics have changed */
        { "mul.wide.u32 %rd7, %r2, 128;\nadd.s64 %rd1, %rd1, %rd7;\nred.global.add.u32 [%rd1], 1;\n"
          "ld.global.u32 %r3, [%rd1];\nred.global.add.u32 [%rd1], 1;\nst.global.u32 [%rd1], %r3;\n",
          2, 32, KERNEL_OK, 0, 0, 0, "" },
        { "setp.eq.u32 %p1, %r2, 1;\n@%p1 st.global.u32 [%rd1], 5;\nred.global.add.u32 [%rd1], 1;\n", 2, 32,
          KERNEL_GLOBAL_RACE, -1, -1, 0, "in the same launch" },
        { "red.global.add.u32 [%rd1], 1;\nsetp.eq.u32 %p1, %r2, 1;\n@%p1 st.global.u32 [%rd1], 5;\n", 2, 32,
          KERNEL_GLOBAL_RACE, -1, -1, 0, "in the same launch" },
        /* two blocks write neighbouring halves of a word */
        { "cvt.u16.u32 %h1, %r2;\nmul.wide.u32 %rd7, %r2, 2;\nadd.s64 %rd2, %rd2, %rd7;\nst.global.u16 [%rd2], %h1;\n",
          2, 1, KERNEL_OK, 0, 0, 0, "" },
    };
    CHECK_ALL(planted);
}

/* %rd7 is `out`, and %rd8 the word of the thread's lane in `out`. */
#define COMMON                                                                       \
    "mul.wide.u32 %rd7, %r1, 4;\nsub.s64 %rd7, %rd2, %rd7;\nand.b32 %r3, %r1, 31;\n" \
    "mul.wide.u32 %rd8, %r3, 4;\nadd.s64 %rd8, %rd7, %rd8;\n"
enum { COMMON_LINES = 5 };

static void test_thread_races(void **state)
{
    (void)state;
    static const struct planted planted[] = {
        /* two warps write the same words */
        { COMMON "st.global.u32 [%rd8], %r1;\n", 1, 64, KERNEL_GLOBAL_RACE, COMMON_LINES, 0, -1,
          "of the same block wrote, with no barrier between them" },
        { COMMON "st.global.u32 [%rd8], %r1;\nbar.sync 0;\nld.global.u32 %r4, [%rd8];\n", 1, 64,
          KERNEL_GLOBAL_RACE, COMMON_LINES, 0, -1, "of the same block wrote" },
        /* one warp writes, and both read behind a barrier, in two blocks with words of their own */
        { COMMON "mul.wide.u32 %rd9, %r2, 128;\nadd.s64 %rd8, %rd8, %rd9;\nsetp.lt.u32 %p1, %r1, 32;\n"
                 "@%p1 st.global.u32 [%rd8], %r1;\nbar.sync 0;\nld.global.u32 %r4, [%rd8];\n",
          2, 64, KERNEL_OK, 0, 0, 0, "" },
        /* without the barrier the second warp reads what the first writes */
        { COMMON "st.global.u32 [%rd2], 0;\nbar.sync 0;\nsetp.lt.u32 %p1, %r1, 32;\n"
                 "@%p1 st.global.u32 [%rd8], %r1;\n@!%p1 ld.global.u32 %r4, [%rd8];\n",
          1, 64, KERNEL_GLOBAL_RACE, -1, 0, -1, "of the same block" },
        /* a thread reads what another one overwrites */
        { COMMON "st.global.u32 [%rd2], 0;\nbar.sync 0;\nld.global.u32 %r4, [%rd8];\n"
                 "setp.ge.u32 %p1, %r1, 32;\n@%p1 st.global.u32 [%rd8], %r1;\n",
          1, 64, KERNEL_GLOBAL_RACE, -1, 0, -1, "of the same block" },
        /* lanes of one warp */
        { COMMON "st.global.u32 [%rd7], %r1;\n", 1, 32, KERNEL_GLOBAL_RACE, COMMON_LINES, 0, 1,
          "that thread (0,0,0) of the same block wrote, with no barrier and no __syncwarp() between them" },
        { COMMON "setp.eq.u32 %p1, %r1, 3;\n@%p1 st.global.u32 [%rd7], %r1;\nbar.warp.sync -1;\n"
                 "ld.global.u32 %r4, [%rd7];\n",
          1, 32, KERNEL_OK, 0, 0, 0, "" },
        { COMMON "setp.eq.u32 %p1, %r1, 3;\n@%p1 st.global.u32 [%rd7], %r1;\nld.global.u32 %r4, [%rd7];\n", 1,
          32, KERNEL_GLOBAL_RACE, COMMON_LINES + 2, 0, 0, "that thread (3,0,0) of the same block wrote" },
        /* vectors: the lanes write 8 bytes each, and the second warp begins in the last ones of the first */
        { COMMON "mul.wide.u32 %rd8, %r1, 8;\nadd.s64 %rd8, %rd7, %rd8;\nsetp.ge.u32 %p1, %r1, 32;\n"
                 "@%p1 sub.s64 %rd8, %rd8, 8;\nst.global.v2.u32 [%rd8], {%r1, %r1};\n",
          1, 33, KERNEL_GLOBAL_RACE, COMMON_LINES + 4, 0, 32,
          "that thread (31,0,0) of the same block wrote" },
        /* neighbouring halves of a word, and what only atomics change */
        { COMMON "mul.wide.u32 %rd8, %r1, 2;\nadd.s64 %rd8, %rd7, %rd8;\ncvt.u16.u32 %h1, %r1;\n"
                 "st.global.u16 [%rd8], %h1;\nld.global.u16 %h2, [%rd8];\n",
          1, 64, KERNEL_OK, 0, 0, 0, "" },
        { "red.global.add.u32 [%rd1], 1;\nred.global.add.u32 [%rd1], 1;\n", 1, 64, KERNEL_OK, 0, 0, 0, "" },
    };
    CHECK_ALL(planted);
}

static void test_waiting(void **state)
{
    (void)state;
    static const struct planted planted[] = {
        { "setp.eq.u32 %p1, %r1, 7;\n@%p1 bra $end;\nbar.sync 0;\n$end:\nret;\n", 1, 64, KERNEL_DIVERGENCE, 2,
          0, 0, "waits at a barrier of its block, but thread (7,0,0) has ended" },
        { "setp.lt.u32 %p1, %r1, 32;\n@%p1 bra $end;\nbar.sync 0;\n$end:\nret;\n", 1, 64, KERNEL_DIVERGENCE,
          2, 0, 32, "waits at a barrier of its block, but thread (0,0,0) has ended" },
        { "setp.lt.u32 %p1, %r1, 32;\n@%p1 bra $one;\nbar.sync 0;\nbra $end;\n$one:\nbar.sync 0;\n$end:\nret;\n",
          1, 64, KERNEL_DIVERGENCE, -1, 0, -1, "waits at another bar.sync 0 in PTX line" },
        { "setp.lt.u32 %p1, %r1, 8;\n@%p1 bra $one;\nbar.sync 1;\n$one:\nbar.sync 0;\nret;\n", 1, 32,
          KERNEL_DIVERGENCE, -1, 0, -1, "waits at a barrier of its block in PTX line" },
        { "setp.lt.u32 %p1, %r1, 8;\n@!%p1 shfl.sync.bfly.b32 %r3, %r1, 1, 31, -1;\nbar.sync 0;\nret;\n", 1,
          32, KERNEL_DIVERGENCE, 1, 0, 8,
          "waits at a shuffle, but thread (0,0,0) waits at a barrier of its block in PTX line 25" },
        { "shfl.sync.bfly.b32 %r3, %r1, 1, 31, 0xfffe;\nret;\n", 1, 32, KERNEL_DIVERGENCE, 0, 0, 0,
          "is not in the mask 0x0000fffe of its own instruction" },
        { "setp.eq.u32 %p1, %r1, 7;\n@%p1 exit;\nshfl.sync.bfly.b32 %r3, %r1, 1, 31, -1;\nret;\n", 1, 32,
          KERNEL_DIVERGENCE, 2, 0, 6, "reads lane 7 by a shuffle, which has ended" },
        { "setp.lt.u32 %p1, %r1, 16;\nmov.u32 %r3, 0;\n@%p1 shfl.sync.down.b32 %r3, %r1, 16, 31, 0xffff;\nret;\n",
          1, 32, KERNEL_DIVERGENCE, 2, 0, 0, "reads lane 16 by a shuffle, which is not in the mask" },
        /* the lanes of a mask that have ended are not waited for */
        { "setp.gt.u32 %p1, %r1, 15;\n@%p1 exit;\nshfl.sync.bfly.b32 %r3, %r1, 1, 31, -1;\nret;\n", 1, 32,
          KERNEL_OK, 0, 0, 0, "" },
        { "bar.sync 16;\n", 1, 32, KERNEL_LIMIT, 0, 0, 0, "there are only 0 to 15" },
        { "bar.sync 1, 33;\n", 1, 64, KERNEL_DIVERGENCE, 0, 0, 0, "must be a multiple of 32" },
        /* half of the block at a barrier of its own */
        { "setp.lt.u32 %p1, %r1, 32;\n@%p1 bar.sync 1, 32;\nbar.sync 0;\nret;\n", 1, 64, KERNEL_OK, 0, 0, 0,
          "" },
        /* producers and consumers may come by different instructions */
        { "setp.lt.u32 %p1, %r1, 32;\n@%p1 bra $one;\nbar.sync 2, 64;\nbra $end;\n$one:\nbar.sync 2, 64;\n$end:\nret;\n",
          1, 64, KERNEL_OK, 0, 0, 0, "" },
    };
    CHECK_ALL(planted);
}

static void test_others(void **state)
{
    (void)state;
    static const struct planted planted[] = {
        { "mov.u32 %r3, 9;\nsub.s32 %r4, %r1, 5;\ndiv.s32 %r3, %r3, %r4;\n", 1, 32, KERNEL_ARITHMETIC, 2, 0,
          5, "thread (5,0,0) of block (0,0,0) divides an integer by zero; PTX line 25" },
        { "cvt.u64.u32 %rd7, %r1;\nrem.u64 %rd7, %rd1, %rd7;\n", 1, 32, KERNEL_ARITHMETIC, 1, 0, 0,
          "divides" },
        { "setp.eq.u32 %p1, %r1, 0;\nmov.u32 %r3, 5;\n@!%p1 div.u32 %r3, %r3, %r1;\n", 1, 32, KERNEL_OK, 0, 0,
          0, "" },
        { "setp.eq.u32 %p1, %r1, 4;\n@%p1 trap;\n", 3, 32, KERNEL_TRAP, 1, -1, 4, "executes trap" },
        /* the line of a source file, and of the function that is inlined there */
        { ".loc 1 45 7\nld.global.u32 %r3, [%rd2];\n", 1, 1, KERNEL_UNINITIALISED, 1, 0, 0,
          "; test.yk:45, PTX line 24" },
        { ".loc 1 45 7\n.loc 2 8 1, function_name $f, inlined_at 1 45 7\n"
          ".loc 2 9 1, function_name $g, inlined_at 2 8 1\nld.global.u32 %r3, [%rd2];\n",
          1, 1, KERNEL_UNINITIALISED, 3, 0, 0, "; test.yk:45, PTX line 26" },
    };
    CHECK_ALL(planted);
}

static void run_loads(struct ptx_world *w, uint64_t in)
{
    char *text = ptx_world_text(".param .u64 in, .param .u64 out",
                                REGISTERS "ld.global.u32 %r3, [%rd1];\nret;");
    struct ptx_module *module = ptx_world_parse(w, text);
    ptx_world_run(w, ptx_module_kernel(module, "k"), (const uint32_t[]){ 1, 1, 1 },
                  (const uint32_t[]){ 32, 1, 1 }, ARGUMENTS(ARGUMENT_Q(in), ARGUMENT_Q(in)));
    ptx_module_destroy(module);
    free(text);
}

static void test_forbidden(void **state)
{
    (void)state;
    struct ptx_world w;
    ptx_world_open(&w, 1 << 14);
    const uint64_t in = ptx_world_new(&w, 128, NULL);
    memset(w.memory.state + (in - w.memory.base), BYTE_DEFINED, 128);
    w.memory.state[in - w.memory.base + 13] = BYTE_FORBIDDEN;
    run_loads(&w, in);
    assert_fault(&w, KERNEL_OUT_OF_BOUNDS, "thread (3,0,0) of block (0,0,0) reads 4 bytes at");
    assert_fault(&w, KERNEL_OUT_OF_BOUNDS, "that may not be touched");
    assert_true(w.fault.address == in + 12);
    ptx_world_close(&w);
}

/* An allocation may end where the memory ends, and a row of lanes may go beyond. */
static void test_last_bytes(void **state)
{
    (void)state;
    struct ptx_world w;
    ptx_world_open(&w, 1 << 14);
    memset(w.memory.state + w.memory.bytes - 64, BYTE_DEFINED, 64);
    run_loads(&w, w.memory.base + w.memory.bytes - 64);
    assert_fault(&w, KERNEL_OUT_OF_BOUNDS,
                 "thread (16,0,0) of block (0,0,0) reads 4 bytes at 0x700000004000 outside");
    run_loads(&w, w.memory.base - 64);
    assert_fault(&w, KERNEL_OUT_OF_BOUNDS,
                 "thread (0,0,0) of block (0,0,0) reads 4 bytes at 0x6fffffffffc0 outside");
    run_loads(&w, ~(uint64_t)63);
    assert_fault(&w, KERNEL_OUT_OF_BOUNDS, "reads 4 bytes at 0xffffffffffffffc0 outside");
    memset(w.memory.state + w.memory.bytes - 128, BYTE_DEFINED, 64);
    run_loads(&w, w.memory.base + w.memory.bytes - 128);
    assert_good(&w);
    ptx_world_close(&w);
}

static const char *name_of(void *context, uint64_t address) { return address > 16 ? context : NULL; }

static void test_limits(void **state)
{
    (void)state;
    struct ptx_world w;
    ptx_world_open(&w, 1 << 14);
    char *text = ptx_world_text("",
                                ".extern .shared .align 16 .b8 t[];\n.reg .b64 %rd<4>;\n.reg .b32 %r<4>;\n"
                                "mov.u64 %rd1, t;\nst.shared.u32 [%rd1+60], 1;\nld.shared.u32 %r1, [t+60];\n"
                                "mov.u64 %rd2, 4096;\nld.global.u32 %r2, [%rd2];\nret;");
    char *at = strstr(text, ".extern ");
    memset(at, ' ', 8); /* inside a kernel .shared alone is dynamic, too */
    struct ptx_module *module = ptx_world_parse(&w, text);
    const struct ptx_kernel *k = ptx_module_kernel(module, "k");
    const uint32_t one[] = { 1, 1, 1 };
    ptx_world_run(&w, k, one, one, NULL, 0);
    assert_fault(&w, KERNEL_OUT_OF_BOUNDS, "writes 4 bytes at 60 of shared memory");
    w.dynamic_shared_bytes = 64;
    w.memory.name = name_of;
    w.memory.context = "layer 3, dx";
    ptx_world_run(&w, k, one, one, NULL, 0);
    assert_fault(&w, KERNEL_OUT_OF_BOUNDS, "reads 4 bytes at 0x1000 (layer 3, dx) outside all allocations");
    w.dynamic_shared_bytes = 49153;
    ptx_world_run(&w, k, one, one, NULL, 0);
    assert_fault(&w, KERNEL_LIMIT, "k: a block needs 49153 bytes of shared memory; 49152 are possible");
    w.dynamic_shared_bytes = 0;
    ptx_world_run(&w, k, one, (const uint32_t[]){ 1025, 1, 1 }, NULL, 0);
    assert_fault(&w, KERNEL_LIMIT, "1025 threads in x");
    ptx_world_run(&w, k, one, (const uint32_t[]){ 512, 3, 1 }, NULL, 0);
    assert_fault(&w, KERNEL_LIMIT, "a block has 1536 threads; 1024 are possible");
    ptx_world_run(&w, k, (const uint32_t[]){ 1, 65536, 1 }, one, NULL, 0);
    assert_fault(&w, KERNEL_LIMIT, "the grid has 65536 blocks in y");
    ptx_world_run(&w, k, (const uint32_t[]){ 1, 0, 1 }, one, NULL, 0);
    assert_fault(&w, KERNEL_LIMIT, "the grid has 0 blocks in y");
    w.limits.target = 75;
    ptx_world_run(&w, k, one, one, NULL, 0);
    assert_fault(&w, KERNEL_TARGET, "the module is for sm_80, and the device is sm_75");
    ptx_module_destroy(module);
    free(text);
    ptx_world_close(&w);
}

static void test_endless(void **state)
{
    (void)state;
    struct ptx_world w;
    ptx_world_open(&w, 1 << 14);
    char *text = ptx_world_text("", ".reg .b32 %r<4>;\n$again:\nadd.s32 %r1, %r1, 1;\nbra $again;");
    struct ptx_module *module = ptx_world_parse(&w, text);
    w.most_instructions = 10000;
    ptx_world_run(&w, ptx_module_kernel(module, "k"), (const uint32_t[]){ 1, 1, 1 },
                  (const uint32_t[]){ 64, 1, 1 }, NULL, 0);
    assert_fault(&w, KERNEL_TIMEOUT, "is still running when the block has executed 10000 instructions");
    volatile bool stop = true;
    const struct kernel_launch launch = { .kernel = ptx_module_kernel(module, "k"),
                                          .grid = { 1, 1, 1 },
                                          .block = { 1, 1, 1 },
                                          .memory = &w.memory,
                                          .limits = &w.limits,
                                          .stop = &stop };
    assert_int_equal(ptx_run(&launch, &w.fault), KERNEL_TIMEOUT);
    assert_fault(&w, KERNEL_TIMEOUT, "was stopped by the caller");
    ptx_module_destroy(module);
    free(text);
    ptx_world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_global),       cmocka_unit_test(test_shared_and_local),
        cmocka_unit_test(test_races),        cmocka_unit_test(test_block_races),
        cmocka_unit_test(test_thread_races), cmocka_unit_test(test_waiting),
        cmocka_unit_test(test_others),       cmocka_unit_test(test_forbidden),
        cmocka_unit_test(test_last_bytes),   cmocka_unit_test(test_limits),
        cmocka_unit_test(test_endless)
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
