/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instructions whose lanes read other lanes: DPP, swizzles and permutations. No kernel of Yoke has DPP, so
 * the vectors of gcn_opcodes.c lack it. The bytes are those of llvm-mc for the text.
 */
#include "tests/unit/test.h"

#include "emulate/hip/gcn_step.h"

enum { KEEPS = -1, ZERO = -2 }; /* in place of a lane: the register stays, or gets 0 */

/* The lane that lane l reads, before EXEC is looked at. */
typedef int reads(int l);
static int reversed_quad(int l) { return l ^ 3; }
static int next_or_zero(int l) { return l % 16 < 15 ? l + 1 : ZERO; }
static int next(int l) { return l % 16 < 15 ? l + 1 : KEEPS; }
static int third_before(int l) { return l % 16 >= 3 ? l - 3 : KEEPS; }
static int rotated(int l) { return l / 16 * 16 + (l + 12) % 16; }
static int mirror(int l) { return l ^ 15; }
static int half_mirror(int l) { return l ^ 7; }
static int last_of_row(int l) { return l / 16 % 2 ? l / 16 * 16 - 1 : KEEPS; }
static int last_of_half(int l) { return l >= 32 ? 31 : KEEPS; }
static int before(int l) { return l ? l - 1 : KEEPS; }
static int rolled(int l) { return (l + 1) % 64; }
static int fifth(int l) { return l / 16 * 16 + 5; }
static int swapped_16(int l) { return l ^ 16; }
static int second_of_eight(int l) { return l / 8 * 8 + 2; }
static int before_in_row(int l) { return l % 16 ? l - 1 : KEEPS; }
static int even_bank(int l) { return l / 4 % 2 ? KEEPS : before_in_row(l); }
static int second_next_or_zero(int l) { return l % 16 < 14 ? l + 2 : ZERO; }
static int ninth_xor(int l) { return l ^ 9; }
static int reversed_eight(int l) { return l ^ 7; }

/* clang-format off */
static const struct {
    const char *text;
    enum gcn_arch arch;
    unsigned char bytes[12];
    reads *from;
    int added; /* how often v3 is added */
    bool from_inactive;
} cases[] = {
    { "v_mov_b32_dpp v2, v1 quad_perm:[3,2,1,0]", GCN_GFX90A, { 0xfa, 2, 4, 0x7e, 1, 0x1b, 0, 0xff }, reversed_quad, 0, false },
    { "v_mov_b32_dpp v2, v1 row_shl:1 bound_ctrl:1", GCN_GFX90A, { 0xfa, 2, 4, 0x7e, 1, 1, 9, 0xff }, next_or_zero, 0, false },
    { "v_mov_b32_dpp v2, v1 row_shl:1", GCN_GFX90A, { 0xfa, 2, 4, 0x7e, 1, 1, 1, 0xff }, next, 0, false },
    { "v_mov_b32_dpp v2, v1 row_shr:3", GCN_GFX90A, { 0xfa, 2, 4, 0x7e, 1, 0x13, 1, 0xff }, third_before, 0, false },
    { "v_mov_b32_dpp v2, v1 row_ror:4", GCN_GFX90A, { 0xfa, 2, 4, 0x7e, 1, 0x24, 1, 0xff }, rotated, 0, false },
    { "v_mov_b32_dpp v2, v1 row_mirror", GCN_GFX90A, { 0xfa, 2, 4, 0x7e, 1, 0x40, 1, 0xff }, mirror, 0, false },
    { "v_mov_b32_dpp v2, v1 row_half_mirror", GCN_GFX90A, { 0xfa, 2, 4, 0x7e, 1, 0x41, 1, 0xff }, half_mirror, 0, false },
    { "v_mov_b32_dpp v2, v1 row_bcast:15 row_mask:0xa", GCN_GFX90A, { 0xfa, 2, 4, 0x7e, 1, 0x42, 1, 0xaf }, last_of_row, 0, false },
    { "v_mov_b32_dpp v2, v1 row_bcast:31 row_mask:0xc", GCN_GFX90A, { 0xfa, 2, 4, 0x7e, 1, 0x43, 1, 0xcf }, last_of_half, 0, false },
    { "v_mov_b32_dpp v2, v1 wave_shr:1", GCN_GFX90A, { 0xfa, 2, 4, 0x7e, 1, 0x38, 1, 0xff }, before, 0, false },
    { "v_mov_b32_dpp v2, v1 wave_rol:1", GCN_GFX90A, { 0xfa, 2, 4, 0x7e, 1, 0x34, 1, 0xff }, rolled, 0, false },
    { "v_mov_b32_dpp v2, v1 row_newbcast:5", GCN_GFX942, { 0xfa, 2, 4, 0x7e, 1, 0x55, 1, 0xff }, fifth, 0, false },
    { "v_add_u32_dpp v2, v1, v3 row_shr:1 bank_mask:0x5", GCN_GFX90A, { 0xfa, 6, 4, 0x68, 1, 0x11, 1, 0xf5 }, even_bank, 1, false },
    { "ds_swizzle_b32 v2, v1 QUAD_PERM,3,2,1,0", GCN_GFX90A, { 0x1b, 0x80, 0x7a, 0xd8, 1, 0, 0, 2 }, reversed_quad, 0, false },
    { "ds_swizzle_b32 v2, v1 SWAP,16", GCN_GFX90A, { 0x1f, 0x40, 0x7a, 0xd8, 1, 0, 0, 2 }, swapped_16, 0, false },
    { "ds_swizzle_b32 v2, v1 BROADCAST,8,2", GCN_GFX90A, { 0x58, 0, 0x7a, 0xd8, 1, 0, 0, 2 }, second_of_eight, 0, false },
    { "ds_bpermute_b32 v2, v4, v1", GCN_GFX90A, { 0, 0, 0x7e, 0xd8, 4, 1, 0, 2 }, ninth_xor, 0, false },
    { "ds_permute_b32 v2, v4, v1", GCN_GFX90A, { 0, 0, 0x7c, 0xd8, 4, 1, 0, 2 }, ninth_xor, 0, false },
    { "v_mov_b32_dpp v2, v1 dpp8:[7,6,5,4,3,2,1,0]", GCN_GFX1100, { 0xe9, 2, 4, 0x7e, 1, 0x77, 0x39, 5 }, reversed_eight, 0, false },
    { "v_mov_b32_dpp v2, v1 row_share:5", GCN_GFX1100, { 0xfa, 2, 4, 0x7e, 1, 0x55, 1, 0xff }, fifth, 0, false },
    { "v_mov_b32_dpp v2, v1 row_xmask:9", GCN_GFX1100, { 0xfa, 2, 4, 0x7e, 1, 0x69, 1, 0xff }, ninth_xor, 0, false },
    { "v_mov_b32_dpp v2, v1 row_shr:1 fi:1", GCN_GFX1100, { 0xfa, 2, 4, 0x7e, 1, 0x11, 5, 0xff }, before_in_row, 0, true },
    { "v_add_nc_u32_e64_dpp v2, v1, v3 row_shr:1", GCN_GFX1100, { 2, 0, 0x25, 0xd5, 0xfa, 6, 2, 0, 1, 0x11, 1, 0xff }, before_in_row, 1, false },
    { "v_add3_u32_e64_dpp v2, v1, v3, v3 row_shl:2 bound_ctrl:1", GCN_GFX1100, { 2, 0, 0x55, 0xd6, 0xfa, 6, 0xe, 4, 1, 2, 9, 0xff }, second_next_or_zero, 2, false },
};
/* clang-format on */

static void check(size_t i, uint64_t exec)
{
    static struct gcn_step step;
    struct kernel_fault fault;
    const int lanes = cases[i].arch == GCN_GFX1100 ? 32 : 64;
    /* ds_swizzle, ds_permute and dpp8 give 0 for lanes outside EXEC; others keep the register */
    const bool is_move = !strncmp(cases[i].text, "ds_", 3) || strstr(cases[i].text, "dpp8");
    const bool is_bounded = strstr(cases[i].text, "bound_ctrl:1") != NULL;
    memset(&step, 0, sizeof step);
    step.s[126] = (uint32_t)exec;
    step.s[127] = lanes == 64 ? (uint32_t)(exec >> 32) : 0;
    for (uint32_t l = 0; l < 64; l++) {
        step.v[1][l] = 1000 + l;
        step.v[2][l] = 77;
        step.v[3][l] = 5 * l;
        step.v[4][l] = 4 * (l ^ 9);
    }
    if (gcn_step(cases[i].arch, cases[i].bytes, sizeof cases[i].bytes, &step, &fault))
        fail_msg("%s: %s", cases[i].text, fault.text);
    for (int l = 0; l < lanes; l++) {
        int from = cases[i].from(l);
        if (from >= 0 && !(exec >> from & 1) && !cases[i].from_inactive)
            from = is_move || is_bounded ? ZERO : KEEPS;
        uint32_t wanted = (from == ZERO ? 0 : 1000 + (uint32_t)from) + (uint32_t)(cases[i].added * 5 * l);
        if (from == KEEPS || !(exec >> l & 1)) wanted = 77;
        if (step.v[2][l] != wanted)
            fail_msg("%s, EXEC 0x%llx: lane %d has %u instead of %u", cases[i].text, (unsigned long long)exec,
                     l, step.v[2][l], wanted);
    }
}

static void test_lanes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check(i, ~(uint64_t)0);
        check(i, 0xfedcba9876543217);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_lanes) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
