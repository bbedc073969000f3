# SPDX-License-Identifier: Apache-2.0
"""What some instructions compute where AMD's pseudocode is missing, ambiguous or cannot be taken at its word.

Each function says where its meaning is from. It gets a Context and returns the bits of the result, or the bits and
the carry.
"""
import decimal
from fractions import Fraction

import floats
from pcode import Value

decimal.getcontext().prec = 80
LN2 = decimal.Decimal(2).ln()


class Context:
    def __init__(self, form, values, old, carry, op_sel, op_sel_hi):
        self.form, self.values, self.old, self.carry = form, values, old, carry
        self.op_sel, self.op_sel_hi = op_sel, op_sel_hi

    def s(self, n):
        return self.values["S%d" % n].bits


def signed(bits, width):
    return Value("i", width, bits).number()


def memory(at, size):
    """The bytes of the memory before a step; gcn_opcodes.c fills it so."""
    return sum(((a * 167 + (a >> 8) * 59 + 13) & 255) << 8 * i for i, a in enumerate(range(at, at + size)))


# AMD's text multiplies by a power that may overflow. The operation rounds once (LLVM, llvm.amdgcn.ldexp).
def ldexp(width):
    return lambda c: floats.scale(c.s(0), signed(c.s(1), 16 if width == 16 else 32), width)


# AMD's text adds 0.5 and would round that sum. The name says: to the nearest whole number, of two the even one.
def rndne(width):
    return lambda c: floats.whole(c.s(0), width, "rndne")


def is_subnormal(bits, width):
    kind, _, value = floats.decode(bits, width)
    return kind == floats.NUMBER and value != 0 and not floats.fields(bits, width)[1]


def flushed(bits, width):
    return bits & 1 << (width - 1) if is_subnormal(bits, width) else bits


# v_mac_f32 is not in AMD's text of CDNA. It multiplies and adds with two roundings and flushes subnormal numbers
# whatever the mode is (LLVM: FMAD_FTZ).
def mac(c):
    product = flushed(floats.multiply(flushed(c.s(0), 32), flushed(c.s(1), 32), 32), 32)
    return flushed(floats.add(product, flushed(c.old, 32), 32), 32)


def madmk(c):
    product = flushed(floats.multiply(flushed(c.s(0), 32), flushed(c.values["SIMM32"].bits, 32), 32), 32)
    return flushed(floats.add(product, flushed(c.s(1), 32), 32), 32)


# Copies. AMD's text has the names without _b32.
def copy(c):
    return c.s(0)


def pk_mov(c):
    return (c.s(0) >> 32 * c.op_sel[0] & 0xFFFFFFFF) | (c.s(1) >> 32 * c.op_sel[1] & 0xFFFFFFFF) << 32


# AMD's text compares with "DENORM" of f64 where the quotient of two f32 is meant, and does not say that the result
# is S0 where no branch gives one. This is the text with both mended.
def div_scale(c):
    s0, s1, s2 = c.s(0), c.s(1), c.s(2)
    (_, _, v1), (_, _, v2) = floats.decode(s1, 32), floats.decode(s2, 32)
    if None in (v1, v2):
        return s0, 0
    e1, e2 = floats.fields(s1, 32)[1], floats.fields(s2, 32)[1]
    if v1 == 0 or v2 == 0:
        return floats.quiet_nan(32), 0
    if e2 - e1 >= 96:
        return (floats.scale(s0, 64, 32) if s0 == s1 else s0), 1
    if is_subnormal(s1, 32):
        return floats.scale(s0, 64, 32), 0
    tiny_inverse, tiny_quotient = is_subnormal(floats.divide(0x3F800000, s1, 32), 32), is_subnormal(floats.divide(s2, s1, 32), 32)
    if tiny_inverse and tiny_quotient:  # AMD's text has 64, which would make an infinity of the denominator
        return (floats.scale(s0, -64, 32) if s0 == s1 else s0), 1
    if tiny_inverse:
        return floats.scale(s0, -64, 32), 0
    if tiny_quotient:
        return (floats.scale(s0, 64, 32) if s0 == s2 else s0), 1
    if e2 <= 23:
        return floats.scale(s0, 64, 32), 0
    return s0, 0


# AMD's text multiplies by 2 ** 32, but v_div_scale_f32 has scaled by 2 ** 64 or by 2 ** -64. A quotient whose estimate
# is large was made small, and the other way round. What is subnormal is rounded once, since LLVM's division relies on it.
def div_fmas(c):
    fused = floats.fma(c.s(0), c.s(1), c.s(2), 32)
    if not c.carry:
        return fused
    power = 64 if floats.fields(c.s(2), 32)[1] > 127 else -64
    parts = [floats.decode(c.s(i), 32) for i in range(3)]
    if any(kind != floats.NUMBER for kind, _, _ in parts):
        return floats.scale(fused, power, 32)
    exact = parts[0][2] * parts[1][2] + parts[2][2]
    return floats.encode(exact * Fraction(2) ** power, 32) if exact else fused


def mix(c):
    values = []
    for n in range(3):
        front = c.form.operands[1 + n]
        bits = c.s(n)
        if c.op_sel_hi[n]:
            bits = floats.convert(bits >> 16 * c.op_sel[n] & 0xFFFF, 16, 32)
        if "|" in front:
            bits &= 0x7FFFFFFF
        if front.startswith("-"):
            bits ^= 0x80000000
        values.append(bits)
    return floats.fma(*values, 32)


def mix_low(c):
    result = mix(c)
    half = floats.quiet_nan(16) if floats.is_nan(result, 32) else floats.convert(result, 32, 16)
    return (c.old & 0xFFFF0000) | half


def mix_high(c):
    return (c.old & 0xFFFF) | (mix_low(c) & 0xFFFF) << 16


def exact_fraction(d):
    n, m = d.as_integer_ratio()
    return Fraction(n, m)


def exp2(c):
    kind, sign, value = floats.decode(c.s(0), 32)
    if kind == floats.NAN:
        return floats.quiet_nan(32)
    if kind == floats.INF or abs(value) > 300:
        return 0 if sign else floats.infinity(32)
    return floats.encode(exact_fraction((decimal.Decimal(value.numerator) / decimal.Decimal(value.denominator) * LN2).exp()), 32)


def log2(c):
    kind, sign, value = floats.decode(c.s(0), 32)
    if kind == floats.NAN or (sign and value != 0):
        return floats.quiet_nan(32)
    if value == 0:
        return floats.infinity(32, 1)
    if kind == floats.INF:
        return c.s(0)
    return floats.encode(exact_fraction((decimal.Decimal(value.numerator) / decimal.Decimal(value.denominator)).ln() / LN2), 32)


def rsq(c):
    kind, sign, value = floats.decode(c.s(0), 32)
    if value == 0:
        return floats.infinity(32, sign)
    if kind == floats.NAN or sign:
        return floats.quiet_nan(32)
    if kind == floats.INF:
        return 0
    exact = floats.exact_root(value)
    return floats.encode(1 / (exact if exact is not None else floats.root(value)), 32)


FUNCTIONS = {
    "v_ldexp_f32": ldexp(32), "v_ldexp_f64": ldexp(64), "v_ldexp_f16": ldexp(16),
    "v_rndne_f32": rndne(32), "v_rndne_f64": rndne(64), "v_rndne_f16": rndne(16),
    "v_mac_f32": mac, "v_madmk_f32": madmk, "v_accvgpr_read_b32": copy, "v_accvgpr_write_b32": copy, "v_accvgpr_mov_b32": copy, "v_pk_mov_b32": pk_mov,
    "v_div_scale_f32": div_scale, "v_div_fmas_f32": div_fmas, "v_fma_mix_f32": mix, "v_fma_mixlo_f16": mix_low, "v_fma_mixhi_f16": mix_high,
    "v_exp_f32": exp2, "v_log_f32": log2, "v_rsq_f32": rsq,
}
# The types of their operands, as a text that type_of reads.
TYPES = {
    "v_mac_f32": "D0.f32 S0.f32 S1.f32", "v_madmk_f32": "D0.f32 S0.f32 S1.f32 SIMM32.f32", "v_accvgpr_read_b32": "D0.b32 S0.b32", "v_accvgpr_write_b32": "D0.b32 S0.b32",
    "v_accvgpr_mov_b32": "D0.b32 S0.b32", "v_pk_mov_b32": "D0.u64 S0.u64 S1.u64", "v_fma_mix_f32": "D0.f32 S0.b32 S1.b32 S2.b32",
    "v_fma_mixlo_f16": "D0.b32 S0.b32 S1.b32 S2.b32", "v_fma_mixhi_f16": "D0.b32 S0.b32 S1.b32 S2.b32",
    "v_div_scale_f32": "D0.f32 S0.f32 S1.f32 S2.f32", "v_div_fmas_f32": "D0.f32 S0.f32 S1.f32 S2.f32",
}
READS_OLD = (mac, mix_low, mix_high)


def is_odd(bits, width):
    return floats.decode(bits, width)[0] != floats.NUMBER


def is_rounding_decisive(a, b):
    """Whether a quotient is subnormal only before or only after its rounding."""
    (_, _, x), (_, _, y) = floats.decode(a, 32), floats.decode(b, 32)
    return x != 0 and y != 0 and (abs(x / y) < Fraction(1, 1 << 126)) != is_subnormal(floats.divide(a, b, 32), 32)


# Sets of operands for which no source says the result: they are not compared. name: function of the bits of the
# sources, the old destination and the carry.
UNSAID = {
    # special values go to v_div_fixup_f32 in any case; AMD's text does not say whether a quotient is rounded first
    "v_div_scale_f32": lambda s, old, carry: any(is_odd(b, 32) for b in s) or is_rounding_decisive(s[2], s[1])
    or is_rounding_decisive(0x3F800000, s[1]),
    "v_mac_f32": lambda s, old, carry: any(is_subnormal(b, 32) for b in s + [old]),
    "v_madmk_f32": lambda s, old, carry: any(is_subnormal(b, 32) for b in s),
    # LLVM: these instructions do not handle subnormal numbers
    "v_rcp_f32": lambda s, old, carry: is_subnormal(s[0], 32) or is_subnormal(floats.divide(0x3F800000, s[0], 32), 32),
    "v_rcp_iflag_f32": lambda s, old, carry: is_subnormal(s[0], 32) or is_subnormal(floats.divide(0x3F800000, s[0], 32), 32),
    "v_sqrt_f32": lambda s, old, carry: is_subnormal(s[0], 32),
    "v_rsq_f32": lambda s, old, carry: is_subnormal(s[0], 32),
    "v_log_f32": lambda s, old, carry: is_subnormal(s[0], 32),
    "v_exp_f32": lambda s, old, carry: floats.compare(s[0], 0xC2FC0000, 32) == -1,
}

# Parts of AMD's text that are replaced: instruction, what stands there, what is meant.
MENDED = {
    # The estimate of a quotient that overflows is a NaN, since it began with infinity minus infinity. A division gives
    # an infinity then, and the emulator of tinygrad mends the text in the same way.
    "v_div_fixup_f32": ("D0.f32 = sign_out ? -abs(S0.f32) : abs(S0.f32)",
                        "D0.f32 = isNAN(S0.f32) ? (sign_out ? -INF.f32 : +INF.f32) : (sign_out ? -abs(S0.f32) : abs(S0.f32))"),
}
