/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each instruction that computes in a lane alone, with edge cases, against results in C. A text is run by
 * one warp: lane l reads word (or double word) l of each of three inputs, and writes word l of the output.
 */
#include "tests/unit/ptx_world.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

enum { LANES = 32 };

/* The values of the lanes: all pairs of edge cases come up over the rounds. */
static const uint32_t words[] = { 0,          1,          2,          31,         32,
                                  33,         255,        256,        0x7fff,     0x8000,
                                  0xffff,     0x10000,    0x7fffffff, 0x80000000, 0x80000001,
                                  0xffffffff, 0xfffffffe, 0x12345678, 0xdeadbeef, 16 };
static const uint32_t floats[] = { 0x00000000, 0x80000000, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000,
                                   0x7fc00000, 0xffc12345, 0x7f800001, 0x00000001, 0x80000001, 0x007fffff,
                                   0x00800000, 0x7f7fffff, 0xff7fffff, 0x3f000000, 0xbf000000, 0x3fc00000,
                                   0x40200000, 0x33800000, 0x4f000000, 0xcf000000, 0x5f000000, 0x477fefff,
                                   0x477ff000, 0x38800000, 0x33000000, 0x33000001, 0x3f808000, 0x3f818000,
                                   0x4b800001, 0x40490fdb };
static const uint64_t longs[] = { 0,
                                  1,
                                  2,
                                  63,
                                  64,
                                  0x7fffffff,
                                  0x80000000,
                                  0xffffffff,
                                  0x100000000,
                                  0x7fffffffffffffff,
                                  0x8000000000000000,
                                  0x8000000000000001,
                                  0xffffffffffffffff,
                                  0xfffffffffffffffe,
                                  0x123456789abcdef0,
                                  0xdeadbeefcafebabe };

static uint64_t pick(char kind, unsigned index)
{
    if (kind == 'f') return floats[index % (sizeof floats / sizeof *floats)];
    if (kind == 'q') return longs[index % (sizeof longs / sizeof *longs)];
    const uint32_t w = words[index % (sizeof words / sizeof *words)];
    return kind == 'h' ? w & 0xffff : w;
}

/*
 * One instruction with a register destination and up to three register sources. `kinds` has the kind of the
 * destination and of the sources: h, w, f or q.
 */
struct op {
    const char *text, *kinds;
    uint64_t (*compute)(uint64_t a, uint64_t b, uint64_t c);
};

static const char *declare(char kind)
{
    return kind == 'q' ? "rd" : kind == 'h' ? "rs" : kind == 'f' ? "f" : "r";
}
static const char *stored(char kind)
{
    return kind == 'q' ? "u64" : kind == 'h' ? "u16" : kind == 'f' ? "f32" : "u32";
}

static char *text_of(const struct op *op)
{
    char body[2048];
    int n = snprintf(
        body, sizeof body,
        ".reg .b16 %%rs<8>;\n.reg .b32 %%r<8>;\n.reg .f32 %%f<8>;\n.reg .b64 %%rd<16>;\n.reg .pred %%p<4>;\n"
        "ld.param.u64 %%rd8, [in];\nld.param.u64 %%rd9, [out];\ncvta.to.global.u64 %%rd8, %%rd8;\n"
        "mov.u32 %%r7, %%tid.x;\nmul.wide.u32 %%rd10, %%r7, 8;\nadd.s64 %%rd8, %%rd8, %%rd10;\n"
        "add.s64 %%rd9, %%rd9, %%rd10;\n");
    for (int i = 1; op->kinds[i]; i++)
        n += snprintf(body + n, sizeof body - (size_t)n, "ld.global.%s %%%s%d, [%%rd8+%d];\n",
                      stored(op->kinds[i]), declare(op->kinds[i]), i, 256 * (i - 1));
    if (op->kinds[0] != 'q') n += snprintf(body + n, sizeof body - (size_t)n, "st.global.u64 [%%rd9], 0;\n");
    n += snprintf(body + n, sizeof body - (size_t)n, "%s %%%s0", op->text, declare(op->kinds[0]));
    for (int i = 1; op->kinds[i]; i++)
        n += snprintf(body + n, sizeof body - (size_t)n, ", %%%s%d", declare(op->kinds[i]), i);
    snprintf(body + n, sizeof body - (size_t)n, ";\nst.global.%s [%%rd9], %%%s0;\nret;", stored(op->kinds[0]),
             declare(op->kinds[0]));
    return ptx_world_text(".param .u64 in, .param .u64 out", body);
}

static void run_op(const struct op *op)
{
    struct ptx_world w;
    ptx_world_open(&w, 1 << 14);
    char *text = text_of(op);
    struct ptx_module *module = ptx_world_parse(&w, text);
    uint64_t in[3][LANES] = { { 0 } }, zeros[LANES] = { 0 };
    const uint64_t in_at = ptx_world_new(&w, sizeof in, in);
    const uint64_t out_at = ptx_world_new(&w, sizeof zeros, zeros);
    for (unsigned round = 0; round < 64; round++) {
        /* strides without a common divisor meet all pairs of the first two operands */
        for (unsigned l = 0; l < LANES; l++)
            for (unsigned i = 0; i < 3 && op->kinds[1] && op->kinds[1 + i]; i++)
                in[i][l] = pick(op->kinds[1 + i], i == 0 ? l : i == 1 ? l + round : 3 * l + 7 * round);
        memcpy(ptx_world_at(&w, in_at), in, sizeof in);
        /* whole warps, and a warp of which some lanes do not exist, use different code */
        const uint32_t threads = round % 2 ? LANES : 13;
        ptx_world_run(&w, ptx_module_kernel(module, "k"), (const uint32_t[]){ 1, 1, 1 },
                      (const uint32_t[]){ threads, 1, 1 }, ARGUMENTS(ARGUMENT_Q(in_at), ARGUMENT_Q(out_at)));
        assert_good(&w);
        const uint64_t *out = ptx_world_at(&w, out_at);
        for (unsigned l = 0; l < threads; l++) {
            const uint64_t wanted = op->compute(in[0][l], in[1][l], in[2][l]);
            if (out[l] != wanted)
                fail_msg("%s of 0x%llx, 0x%llx, 0x%llx is 0x%llx instead of 0x%llx", op->text,
                         (unsigned long long)in[0][l], (unsigned long long)in[1][l],
                         (unsigned long long)in[2][l], (unsigned long long)out[l],
                         (unsigned long long)wanted);
        }
    }
    ptx_module_destroy(module);
    free(text);
    ptx_world_close(&w);
}

#define F(x) ptx_float_of((uint32_t)(x))
static uint64_t bits(float x) { return x != x ? 0x7fffffff : ptx_float_bits(x); }
/* ---- results in C, written another way than the executor's ---- */

static uint64_t min_f(float a, float b)
{
    if (a != a || b != b) return a != a ? bits(b) : bits(a);
    if (a == 0 && b == 0) return signbit(a) || signbit(b) ? 0x80000000 : 0;
    return bits(a < b ? a : b);
}
static uint64_t max_f(float a, float b)
{
    if (a != a || b != b) return a != a ? bits(b) : bits(a);
    if (a == 0 && b == 0) return signbit(a) && signbit(b) ? 0x80000000 : 0;
    return bits(a > b ? a : b);
}

static uint64_t field(uint64_t a, int width, uint64_t position, uint64_t length, bool is_signed)
{
    uint64_t d = 0;
    position &= 255, length &= 255;
    const uint64_t last = position + length > (uint64_t)width ? (uint64_t)width - 1 : position + length - 1;
    const uint64_t sign = is_signed && length ? a >> last & 1 : 0;
    for (uint64_t i = 0; i < (uint64_t)width; i++)
        d |= (i < length && position + i < (uint64_t)width ? a >> (position + i) & 1 : sign) << i;
    return d;
}

static uint64_t half_to_float(uint64_t h)
{
    const int exponent = (int)(h >> 10 & 31), fraction = (int)(h & 1023);
    const double sign = h & 0x8000 ? -1 : 1;
    if (exponent == 31) return fraction ? 0x7fffffff : bits((float)(sign * INFINITY));
    const double value = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return bits((float)(sign * value));
}

/* The nearest f16 by search, ties to the even one. */
static uint64_t float_to_half(float x)
{
    if (x != x) return 0x7fff;
    const uint64_t sign = signbit(x) ? 0x8000 : 0;
    const double v = fabs((double)x);
    if (v >= 65520) return sign | 0x7c00;
    uint64_t best = 0;
    double best_error = v;
    for (uint64_t h = 1; h < 0x7c00; h++) {
        const double error = fabs((double)F(half_to_float(h)) - v);
        if (error < best_error || (error == best_error && h % 2 == 0)) best = h, best_error = error;
    }
    return sign | best;
}

static uint64_t float_to_bf16(uint64_t u)
{
    if (F(u) != F(u)) return 0x7fff;
    const uint64_t down = u >> 16, rest = u & 0xffff;
    return rest > 0x8000 || (rest == 0x8000 && down & 1) ? down + 1 : down;
}

static uint64_t permute(uint64_t a, uint64_t b, uint64_t c)
{
    unsigned char bytes[8];
    uint64_t d = 0;
    for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)(i < 4 ? a >> 8 * i : b >> 8 * (i - 4));
    for (int i = 0; i < 4; i++) {
        const unsigned pick_ = c >> 4 * i & 15, byte = bytes[pick_ & 7];
        d |= (uint64_t)(pick_ > 7 ? (byte > 127 ? 255 : 0) : byte) << 8 * i;
    }
    return d;
}

/* A float as an integer of a type between two bounds, after it was rounded. */
static uint64_t clamp(double x, double low, double high, uint64_t lowest, uint64_t highest)
{
    if (x != x) return 0;
    return x <= low ? lowest : x >= high ? highest : (uint64_t)(int64_t)x;
}

static uint64_t to_float_rz(int64_t x)
{
    float f = (float)x;
    if (x > 0 && (double)f > (double)x) f = nextafterf(f, 0);
    if (x < 0 && (double)f < (double)x) f = nextafterf(f, 0);
    return bits(f);
}

#define W(x) ((uint32_t)(x))
#define S(x) ((int32_t)(uint32_t)(x))
#define L(x) ((int64_t)(x))
#define H(x) ((int16_t)(uint16_t)(x))
#define WIDE(a, b) ((__int128)(a) * (__int128)(b))
/* clang-format off */
#define OPS(X) \
    X(add_f, "add.rn.f32", "fff", bits(F(a) + F(b))) X(add_f2, "add.f32", "fff", bits(F(a) + F(b))) \
    X(sub_f, "sub.rn.f32", "fff", bits(F(a) - F(b))) X(mul_f, "mul.rn.f32", "fff", bits(F(a) * F(b))) \
    X(div_f, "div.rn.f32", "fff", bits(F(a) / F(b))) X(fma_f, "fma.rn.f32", "ffff", bits(fmaf(F(a), F(b), F(c)))) \
    X(rcp_f, "rcp.rn.f32", "ff", bits(1 / F(a))) X(sqrt_f, "sqrt.rn.f32", "ff", bits(sqrtf(F(a)))) \
    X(min_f_, "min.f32", "fff", min_f(F(a), F(b))) X(max_f_, "max.f32", "fff", max_f(F(a), F(b))) \
    X(min_n, "min.NaN.f32", "fff", F(a) != F(a) || F(b) != F(b) ? 0x7fffffff : min_f(F(a), F(b))) \
    X(max_n, "max.NaN.f32", "fff", F(a) != F(a) || F(b) != F(b) ? 0x7fffffff : max_f(F(a), F(b))) \
    X(abs_f, "abs.f32", "ff", a & 0x7fffffff) X(neg_f, "neg.f32", "ff", a ^ 0x80000000) \
    X(copysign_, "copysign.f32", "fff", (b & 0x7fffffff) | (a & 0x80000000)) \
    X(add_s, "add.s32", "www", W(a + b)) X(sub_u, "sub.u32", "www", W(a - b)) X(mul_s, "mul.lo.s32", "www", W(a * b)) \
    X(mulhi_s, "mul.hi.s32", "www", W(L(S(a)) * S(b) >> 32)) X(mulhi_u, "mul.hi.u32", "www", W(a * b >> 32)) \
    X(mad_s, "mad.lo.s32", "wwww", W(a * b + c)) X(madhi_u, "mad.hi.u32", "wwww", W((a * b >> 32) + c)) \
    X(madhi_s, "mad.hi.s32", "wwww", W((L(S(a)) * S(b) >> 32) + L(c))) \
    X(wide_s, "mul.wide.s32", "qww", (uint64_t)(L(S(a)) * S(b))) X(wide_u, "mul.wide.u32", "qww", a * b) \
    X(madwide_s, "mad.wide.s32", "qwwq", (uint64_t)(L(S(a)) * S(b)) + c) X(madwide_u, "mad.wide.u32", "qwwq", a * b + c) \
    X(min_s, "min.s32", "www", W(S(a) < S(b) ? a : b)) X(max_s, "max.s32", "www", W(S(a) > S(b) ? a : b)) \
    X(min_u, "min.u32", "www", a < b ? a : b) X(max_u, "max.u32", "www", a > b ? a : b) \
    X(abs_s, "abs.s32", "ww", W(S(a) < 0 ? 0 - a : a)) X(neg_s, "neg.s32", "ww", W(0 - a)) \
    X(and_, "and.b32", "www", a & b) X(or_, "or.b32", "www", a | b) X(xor_, "xor.b32", "www", a ^ b) X(not_, "not.b32", "ww", W(~a)) \
    X(shl_, "shl.b32", "www", b > 31 ? 0 : W(a << b)) X(shr_u, "shr.u32", "www", b > 31 ? 0 : a >> b) \
    X(shr_s, "shr.s32", "www", W(S(a) >> (b > 31 ? 31 : b))) \
    X(shflw, "shf.l.wrap.b32", "wwww", W((b << 32 | a) << c % 32 >> 32)) \
    X(shflc, "shf.l.clamp.b32", "wwww", c > 31 ? a : W((b << 32 | a) << c >> 32)) \
    X(shfrw, "shf.r.wrap.b32", "wwww", W((b << 32 | a) >> c % 32)) X(shfrc, "shf.r.clamp.b32", "wwww", c > 31 ? b : W((b << 32 | a) >> c)) \
    X(mov_, "mov.b32", "ww", a) X(mov_f, "mov.f32", "ff", a) \
    X(bfe_u, "bfe.u32", "wwww", field(a, 32, b, c, false)) X(bfe_s, "bfe.s32", "wwww", field(a, 32, b, c, true)) \
    X(prmt_, "prmt.b32", "wwww", permute(a, b, c)) X(popc_, "popc.b32", "ww", (uint64_t)__builtin_popcountll(a)) \
    X(clz_, "clz.b32", "ww", a ? (uint64_t)__builtin_clzll(a) - 32 : 32) \
    X(add_l, "add.s64", "qqq", a + b) X(sub_l, "sub.s64", "qqq", a - b) X(mul_l, "mul.lo.s64", "qqq", a * b) \
    X(mulhi_ul, "mul.hi.u64", "qqq", (uint64_t)((unsigned __int128)a * b >> 64)) X(mulhi_l, "mul.hi.s64", "qqq", (uint64_t)(WIDE(L(a), L(b)) >> 64)) \
    X(mad_l, "mad.lo.s64", "qqqq", a * b + c) \
    X(min_l, "min.s64", "qqq", L(a) < L(b) ? a : b) X(max_l, "max.s64", "qqq", L(a) > L(b) ? a : b) \
    X(min_ul, "min.u64", "qqq", a < b ? a : b) X(max_ul, "max.u64", "qqq", a > b ? a : b) \
    X(abs_l, "abs.s64", "qq", L(a) < 0 ? 0 - a : a) X(neg_l, "neg.s64", "qq", 0 - a) \
    X(and_l, "and.b64", "qqq", a & b) X(or_l, "or.b64", "qqq", a | b) X(xor_l, "xor.b64", "qqq", a ^ b) X(not_l, "not.b64", "qq", ~a) \
    X(shl_l, "shl.b64", "qqw", b > 63 ? 0 : a << b) X(shr_ul, "shr.u64", "qqw", b > 63 ? 0 : a >> b) \
    X(shr_l, "shr.s64", "qqw", (uint64_t)(L(a) >> (b > 63 ? 63 : b))) X(mov_l, "mov.u64", "qq", a) \
    X(bfe_ul, "bfe.u64", "qqww", field(a, 64, b, c, false)) X(bfe_l, "bfe.s64", "qqww", field(a, 64, b, c, true)) \
    X(popc_l, "popc.b64", "wq", (uint64_t)__builtin_popcountll(a)) X(clz_l, "clz.b64", "wq", a ? (uint64_t)__builtin_clzll(a) : 64) \
    X(add_h, "add.s16", "hhh", (a + b) & 0xffff) X(sub_h, "sub.s16", "hhh", (a - b) & 0xffff) X(mul_h, "mul.lo.u16", "hhh", (a * b) & 0xffff) \
    X(wide_h, "mul.wide.u16", "whh", a * b) X(wide_sh, "mul.wide.s16", "whh", W(H(a) * H(b))) \
    X(min_h, "min.s16", "hhh", H(a) < H(b) ? a : b) X(max_uh, "max.u16", "hhh", a > b ? a : b) X(neg_h, "neg.s16", "hh", (0 - a) & 0xffff) \
    X(and_h, "and.b16", "hhh", a & b) X(or_h, "or.b16", "hhh", a | b) X(xor_h, "xor.b16", "hhh", a ^ b) X(not_h, "not.b16", "hh", ~a & 0xffff) \
    X(shl_h, "shl.b16", "hhw", b > 15 ? 0 : a << b & 0xffff) X(shr_h, "shr.u16", "hhw", b > 15 ? 0 : a >> b) \
    X(shr_sh, "shr.s16", "hhw", (uint64_t)(H(a) >> (b > 15 ? 15 : b)) & 0xffff) \
    X(f_h, "cvt.f32.f16", "fh", half_to_float(a)) X(h_f, "cvt.rn.f16.f32", "hf", float_to_half(F(a))) \
    X(f_b, "cvt.f32.bf16", "fh", a << 16) X(b_f, "cvt.rn.bf16.f32", "hf", float_to_bf16(a)) \
    X(h2_f, "cvt.rn.f16x2.f32", "wff", float_to_half(F(a)) << 16 | float_to_half(F(b))) \
    X(b2_f, "cvt.rn.bf16x2.f32", "wff", float_to_bf16(a) << 16 | float_to_bf16(b)) \
    X(l_s, "cvt.s64.s32", "qw", (uint64_t)L(S(a))) X(l_u, "cvt.u64.u32", "qw", a) X(u_l, "cvt.u32.u64", "wq", W(a)) \
    X(h_u, "cvt.u16.u32", "hw", a & 0xffff) X(u_h, "cvt.u32.u16", "wh", a) X(s_h, "cvt.s32.s16", "wh", W(H(a))) \
    X(l_sh, "cvt.s64.s16", "qh", (uint64_t)L(H(a))) X(s8, "cvt.s32.s8", "ww", W((int8_t)a)) X(u8, "cvt.u16.u8", "hh", a & 255) \
    X(sat_s8, "cvt.sat.s8.s32", "ww", W(S(a) > 127 ? 127 : S(a) < -128 ? -128 : S(a))) \
    X(sat_u8, "cvt.sat.u8.s32", "ww", W(S(a) > 255 ? 255 : S(a) < 0 ? 0 : S(a))) \
    X(sat_u32, "cvt.sat.u32.s64", "wq", L(a) > 0xffffffff ? 0xffffffff : L(a) < 0 ? 0 : a) \
    X(sat_s32, "cvt.sat.s32.s64", "wq", W(L(a) > 0x7fffffff ? 0x7fffffff : L(a) < -0x80000000L ? -0x80000000L : L(a))) \
    X(f_s, "cvt.rn.f32.s32", "fw", bits((float)S(a))) X(f_u, "cvt.rn.f32.u32", "fw", bits((float)a)) \
    X(f_l, "cvt.rn.f32.s64", "fq", bits((float)L(a))) X(f_ul, "cvt.rn.f32.u64", "fq", bits((float)a)) \
    X(f_s_rz, "cvt.rz.f32.s32", "fw", to_float_rz(S(a))) X(f_s16, "cvt.rn.f32.s16", "fh", bits((float)H(a))) \
    X(s_f, "cvt.rzi.s32.f32", "wf", W(clamp(trunc((double)F(a)), -0x1p31, 0x7fffffff, 0x80000000, 0x7fffffff))) \
    X(s_f_n, "cvt.rni.s32.f32", "wf", W(clamp(rint((double)F(a)), -0x1p31, 0x7fffffff, 0x80000000, 0x7fffffff))) \
    X(s_f_m, "cvt.rmi.s32.f32", "wf", W(clamp(floor((double)F(a)), -0x1p31, 0x7fffffff, 0x80000000, 0x7fffffff))) \
    X(s_f_p, "cvt.rpi.s32.f32", "wf", W(clamp(ceil((double)F(a)), -0x1p31, 0x7fffffff, 0x80000000, 0x7fffffff))) \
    X(u_f, "cvt.rzi.u32.f32", "wf", W(clamp(trunc((double)F(a)), 0, 0xffffffffu, 0, 0xffffffff))) \
    X(l_f, "cvt.rzi.s64.f32", "qf", F(a) != F(a) ? 1ull << 63 : clamp(trunc((double)F(a)), -0x1p63, 0x1p63, 1ull << 63, ~0ull >> 1)) \
    X(h_f_s, "cvt.rzi.s16.f32", "hf", clamp(trunc((double)F(a)), -32768, 32767, 0x8000, 0x7fff) & 0xffff) \
    X(f_rni, "cvt.rni.f32.f32", "ff", bits(rintf(F(a)))) X(f_rmi, "cvt.rmi.f32.f32", "ff", bits(floorf(F(a)))) \
    X(f_sat, "cvt.sat.f32.f32", "ff", F(a) > 0 ? F(a) < 1 ? a : 0x3f800000 : 0)
/* clang-format on */
#define X_FUNCTION(name, text, kinds, expression)                      \
    static uint64_t compute_##name(uint64_t a, uint64_t b, uint64_t c) \
    {                                                                  \
        (void)a, (void)b, (void)c;                                     \
        return (uint64_t)(expression);                                 \
    }
OPS(X_FUNCTION)

static void test_ops(void **state)
{
    (void)state;
#define X_ENTRY(name, text, kinds, expression) { text, kinds, compute_##name },
    static const struct op ops[] = { OPS(X_ENTRY) };
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) run_op(&ops[i]);
    print_message("# %zu instructions\n", sizeof ops / sizeof *ops);
}

/* ---- instructions with constants, predicates or several destinations ---- */

/*
 * Run statements in which %r1 and %r2 (as floats %f1 and %f2) are the lane's inputs, and %r0 is the
 * result.
 */
struct body {
    const char *kinds, *text;
    uint64_t (*compute)(uint64_t a, uint64_t b, uint64_t c);
};

static void run_body(const struct body *b)
{
    struct ptx_world w;
    char whole[4096];
    ptx_world_open(&w, 1 << 14);
    snprintf(
        whole, sizeof whole,
        ".reg .b32 %%r<8>;\n.reg .f32 %%f<8>;\n.reg .b64 %%rd<16>;\n"
        "ld.param.u64 %%rd8, [in];\nld.param.u64 %%rd9, [out];\nmov.u32 %%r7, %%tid.x;\n"
        "mul.wide.u32 %%rd10, %%r7, 8;\nadd.s64 %%rd8, %%rd8, %%rd10;\nadd.s64 %%rd9, %%rd9, %%rd10;\n"
        "ld.global.u32 %%r1, [%%rd8];\nld.global.u32 %%r2, [%%rd8+256];\nld.global.f32 %%f1, [%%rd8];\n"
        "ld.global.f32 %%f2, [%%rd8+256];\n{ .reg .pred %%p<8>; .reg .b64 %%q<4>; .reg .b16 %%h<8>;\n%s\n}\n"
        "st.global.u32 [%%rd9], %%r0;\nret;",
        b->text);
    char *text = ptx_world_text(".param .u64 in, .param .u64 out", whole);
    struct ptx_module *module = ptx_world_parse(&w, text);
    uint64_t in[2][LANES] = { { 0 } }, out[LANES] = { 0 };
    const uint64_t in_at = ptx_world_new(&w, sizeof in, in), out_at = ptx_world_new(&w, sizeof out, out);
    for (unsigned round = 0; round < 32; round++) {
        for (unsigned l = 0; l < LANES; l++) {
            in[0][l] = pick(b->kinds[0], l);
            in[1][l] = pick(b->kinds[1], l + round);
        }
        memcpy(ptx_world_at(&w, in_at), in, sizeof in);
        ptx_world_run(&w, ptx_module_kernel(module, "k"), (const uint32_t[]){ 1, 1, 1 },
                      (const uint32_t[]){ LANES, 1, 1 }, ARGUMENTS(ARGUMENT_Q(in_at), ARGUMENT_Q(out_at)));
        assert_good(&w);
        memcpy(out, ptx_world_at(&w, out_at), sizeof out);
        for (unsigned l = 0; l < LANES; l++) {
            const uint64_t wanted = b->compute(in[0][l], in[1][l], 0);
            if (out[l] != wanted)
                fail_msg("'%s' of 0x%llx, 0x%llx is 0x%llx instead of 0x%llx", b->text,
                         (unsigned long long)in[0][l], (unsigned long long)in[1][l],
                         (unsigned long long)out[l], (unsigned long long)wanted);
        }
    }
    ptx_module_destroy(module);
    free(text);
    ptx_world_close(&w);
}

#define NANS (F(a) != F(a) || F(b) != F(b))
#define SETP(cmp, type, x, y) "setp." cmp "." type " %p1, " x ", " y "; selp.b32 %r0, 1, 0, %p1;"
/* clang-format off */
#define BODIES(X) \
    X(eq_f, "ff", SETP("eq", "f32", "%f1", "%f2"), F(a) == F(b)) \
    X(ne_f, "ff", SETP("ne", "f32", "%f1", "%f2"), !NANS && F(a) != F(b)) \
    X(lt_f, "ff", SETP("lt", "f32", "%f1", "%f2"), F(a) < F(b)) X(le_f, "ff", SETP("le", "f32", "%f1", "%f2"), F(a) <= F(b)) \
    X(gt_f, "ff", SETP("gt", "f32", "%f1", "%f2"), F(a) > F(b)) X(ge_f, "ff", SETP("ge", "f32", "%f1", "%f2"), F(a) >= F(b)) \
    X(equ_f, "ff", SETP("equ", "f32", "%f1", "%f2"), NANS || F(a) == F(b)) X(neu_f, "ff", SETP("neu", "f32", "%f1", "%f2"), NANS || F(a) != F(b)) \
    X(ltu_f, "ff", SETP("ltu", "f32", "%f1", "%f2"), NANS || F(a) < F(b)) X(leu_f, "ff", SETP("leu", "f32", "%f1", "%f2"), NANS || F(a) <= F(b)) \
    X(gtu_f, "ff", SETP("gtu", "f32", "%f1", "%f2"), NANS || F(a) > F(b)) X(geu_f, "ff", SETP("geu", "f32", "%f1", "%f2"), NANS || F(a) >= F(b)) \
    X(num_f, "ff", SETP("num", "f32", "%f1", "%f2"), !NANS) X(nan_f, "ff", SETP("nan", "f32", "%f1", "%f2"), NANS) \
    X(lt_s, "ww", SETP("lt", "s32", "%r1", "%r2"), S(a) < S(b)) X(ge_s, "ww", SETP("ge", "s32", "%r1", "%r2"), S(a) >= S(b)) \
    X(lo_u, "ww", SETP("lo", "u32", "%r1", "%r2"), a < b) X(hs_u, "ww", SETP("hs", "u32", "%r1", "%r2"), a >= b) \
    X(le_u, "ww", SETP("le", "u32", "%r1", "%r2"), a <= b) X(gt_u, "ww", SETP("gt", "u32", "%r1", "-1"), a > 0xffffffff) \
    X(eq_b, "ww", SETP("eq", "b32", "%r1", "%r2"), a == b) X(ne_s, "ww", SETP("ne", "s32", "%r1", "-2147483648"), a != 0x80000000) \
    X(lt_h, "ww", "cvt.u16.u32 %h1, %r1; cvt.u16.u32 %h2, %r2; " SETP("lt", "s16", "%h1", "%h2"), H(a) < H(b)) \
    X(gt_h, "ww", "cvt.u16.u32 %h1, %r1; cvt.u16.u32 %h2, %r2; " SETP("gt", "u16", "%h1", "%h2"), (a & 0xffff) > (b & 0xffff)) \
    X(lt_l, "ww", "cvt.s64.s32 %q1, %r1; cvt.s64.s32 %q2, %r2; " SETP("lt", "s64", "%q1", "%q2"), S(a) < S(b)) \
    X(lt_ul, "ww", "cvt.s64.s32 %q1, %r1; cvt.s64.s32 %q2, %r2; " SETP("lt", "u64", "%q1", "%q2"), (uint64_t)L(S(a)) < (uint64_t)L(S(b))) \
    X(with_and, "ww", "setp.lt.s32 %p3, %r1, 33; setp.gt.and.u32 %p1|%p2, %r1, %r2, %p3; selp.b32 %r0, 1, 0, %p1; @%p2 add.s32 %r0, %r0, 2;", \
      (S(a) < 33 && a > b) + 2 * (S(a) < 33 && a <= b)) \
    X(with_or, "ww", "setp.lt.s32 %p3, %r1, 33; setp.gt.or.u32 %p1, %r1, %r2, !%p3; selp.b32 %r0, 1, 0, %p1;", S(a) >= 33 || a > b) \
    X(with_xor, "ww", "setp.lt.s32 %p3, %r1, 33; setp.gt.xor.u32 %p1, %r1, %r2, %p3; selp.b32 %r0, 1, 0, %p1;", (S(a) < 33) != (a > b)) \
    X(predicates, "ww", "setp.lt.u32 %p1, %r1, %r2; setp.eq.u32 %p2, %r1, 2; and.pred %p3, %p1, %p2; or.pred %p4, %p1, %p2; xor.pred %p5, %p1, %p2; " \
      "not.pred %p6, %p1; mov.pred %p7, -1; @!%p7 trap; selp.u32 %r0, 1, 0, %p3; @%p4 or.b32 %r0, %r0, 2; @%p5 or.b32 %r0, %r0, 4; @%p6 or.b32 %r0, %r0, 8;", \
      (a < b && a == 2) | (a < b || a == 2) << 1 | ((a < b) != (a == 2)) << 2 | (a >= b) << 3) \
    X(select_l, "ww", "setp.lt.u32 %p1, %r1, %r2; cvt.u64.u32 %q1, %r1; cvt.u64.u32 %q2, %r2; selp.b64 %q1, %q1, %q2, %p1; cvt.u32.u64 %r0, %q1;", a < b ? a : b) \
    X(select_f, "ff", "setp.lt.f32 %p1, %f1, %f2; selp.f32 %f3, %f1, 0fBF800000, %p1; mov.b32 %r0, %f3;", F(a) < F(b) ? a : 0xbf800000) \
    X(select_h, "ww", "setp.lt.u32 %p1, %r1, %r2; cvt.u16.u32 %h1, %r1; selp.b16 %h1, %h1, 7, %p1; cvt.u32.u16 %r0, %h1;", a < b ? a & 0xffff : 7) \
    X(insert, "ww", "bfi.b32 %r0, %r1, 0x55555555, %r2, 5;", (b & 255) > 31 ? 0x55555555 : W((0x55555555 & ~(31ull << (b & 255))) | (a & 31) << (b & 255))) \
    X(insert_l, "ww", "cvt.u64.u32 %q1, %r1; bfi.b64 %q1, %q1, -1, %r2, 8; cvt.u32.u64 %r0, %q1;", (b & 255) > 63 ? 0xffffffff : W(~(255ull << (b & 255)) | (a & 255) << (b & 255))) \
    X(table, "ww", "lop3.b32 %r0, %r1, %r2, 0x0f0f3c3c, 0xe8;", W((a & b) | (a & 0x0f0f3c3c) | (b & 0x0f0f3c3c))) \
    X(table_2, "ww", "lop3.b32 %r0, %r1, %r2, 0, 0x3c;", a ^ b) \
    X(reverse, "ww", "brev.b32 %r3, %r1; brev.b32 %r0, %r3; and.b32 %r3, %r3, 1; shr.u32 %r4, %r1, 31; xor.b32 %r3, %r3, %r4; or.b32 %r0, %r0, %r3;", a) \
    X(pack, "ww", "mov.b64 %q1, {%r1, %r2}; mov.b64 {%r3, %r4}, %q1; shr.u64 %q1, %q1, 32; cvt.u32.u64 %r0, %q1; sub.s32 %r0, %r0, %r4; add.s32 %r0, %r0, %r3;", a) \
    X(pack_h, "ww", "mov.b32 {%h1, %h2}, %r1; mov.b32 %r0, {%h2, %h1};", W(a << 16 | a >> 16)) \
    X(div_s, "ww", "or.b32 %r2, %r2, 1; div.s32 %r0, %r1, %r2; rem.s32 %r3, %r1, %r2; mad.lo.s32 %r4, %r0, %r2, %r3; sub.s32 %r4, %r4, %r1; or.b32 %r0, %r0, %r4;", \
      S(b | 1) == -1 ? W(0 - a) : W(S(a) / S(b | 1))) \
    X(div_u, "ww", "or.b32 %r2, %r2, 1; div.u32 %r0, %r1, %r2; rem.u32 %r3, %r1, %r2; mad.lo.s32 %r4, %r0, %r2, %r3; sub.s32 %r4, %r4, %r1; or.b32 %r0, %r0, %r4;", a / (b | 1)) \
    X(div_l, "ww", "mov.b64 %q1, {%r2, %r1}; mov.u64 %q2, -1; div.s64 %q3, %q1, %q2; rem.s64 %q2, %q1, %q2; shr.u64 %q3, %q3, 32; add.s64 %q3, %q3, %q2; cvt.u32.u64 %r0, %q3;", \
      W((0 - (a << 32 | b)) >> 32)) \
    X(rem_ul, "ww", "mov.b64 %q1, {%r2, %r1}; rem.u64 %q3, %q1, 10; div.u64 %q1, %q1, 10; cvt.u32.u64 %r0, %q3; cvt.u32.u64 %r3, %q1; xor.b32 %r0, %r0, %r3;", \
      W((a << 32 | b) % 10) ^ W((a << 32 | b) / 10)) \
    X(param_lanes, "ww", "mov.u32 %r0, %laneid; mov.u32 %r3, %lanemask_lt; popc.b32 %r3, %r3; sub.s32 %r0, %r0, %r3; mov.u32 %r3, %ntid.x; sub.s32 %r3, %r3, WARP_SZ; or.b32 %r0, %r0, %r3;", 0)
/* clang-format on */
#define X_BODY_FUNCTION(name, kinds, text, expression)                      \
    static uint64_t compute_body_##name(uint64_t a, uint64_t b, uint64_t c) \
    {                                                                       \
        (void)a, (void)b, (void)c;                                          \
        return (uint64_t)(expression);                                      \
    }
BODIES(X_BODY_FUNCTION)

static void test_bodies(void **state)
{
    (void)state;
#define X_BODY(name, kinds, text, expression) { kinds, text, compute_body_##name },
    static const struct body bodies[] = { BODIES(X_BODY) };
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) run_body(&bodies[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_ops), cmocka_unit_test(test_bodies) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
