# SPDX-License-Identifier: Apache-2.0
"""Exact arithmetic of IEEE 754 on bits: 16, 32 and 64 bits, to nearest even, subnormal numbers kept.

A number is decoded to a fraction, so each result is rounded once, from its exact value.
"""
from fractions import Fraction
from math import isqrt

EXPONENT = {16: 5, 32: 8, 64: 11}
MANTISSA = {16: 10, 32: 23, 64: 52}
NAN, INF, NUMBER = "nan", "inf", "number"


def bias(width):
    return (1 << (EXPONENT[width] - 1)) - 1


def fields(bits, width):
    """Sign, exponent field, mantissa field."""
    m, e = MANTISSA[width], EXPONENT[width]
    return bits >> (m + e) & 1, bits >> m & ((1 << e) - 1), bits & ((1 << m) - 1)


def decode(bits, width):
    """(class, sign, value): the value of a number is a fraction."""
    sign, exponent, mantissa = fields(bits, width)
    if exponent == (1 << EXPONENT[width]) - 1:
        return (NAN if mantissa else INF), sign, None
    least = 1 - bias(width) - MANTISSA[width]
    if exponent:
        mantissa |= 1 << MANTISSA[width]
    scale = least + max(exponent - 1, 0)
    value = Fraction(mantissa) * (Fraction(2) ** scale)
    return NUMBER, sign, -value if sign else value


def infinity(width, sign=0):
    return ((1 << EXPONENT[width]) - 1) << MANTISSA[width] | sign << (width - 1)


def quiet_nan(width):
    return infinity(width) | 1 << (MANTISSA[width] - 1)


def zero(width, sign=0):
    return sign << (width - 1)


def largest(width, sign=0):
    return infinity(width, sign) - 1


def is_nan(bits, width):
    return decode(bits, width)[0] == NAN


def is_signaling(bits, width):
    return is_nan(bits, width) and not bits >> (MANTISSA[width] - 1) & 1


def floor_log2(value):
    """The largest n with 2^n <= value, of a positive fraction."""
    n = value.numerator.bit_length() - value.denominator.bit_length()
    return n if Fraction(2) ** n <= value else n - 1


def encode(value, width, sign_of_zero=0, to_zero=False):
    """Round a fraction to the nearest number, of two the even one; or towards zero."""
    sign = 1 if value < 0 else 0
    if value == 0:
        return zero(width, sign_of_zero)
    value = abs(value)
    exponent = max(floor_log2(value), 1 - bias(width))
    unit = Fraction(2) ** (exponent - MANTISSA[width])
    n, rest = divmod(value, unit)
    n = int(n)
    if not to_zero and (rest * 2 > unit or (rest * 2 == unit and n & 1)):
        n += 1
    if n >> (MANTISSA[width] + 1):
        n, exponent = n >> 1, exponent + 1
    if exponent > bias(width):
        return largest(width, sign) if to_zero else infinity(width, sign)
    biased = exponent + bias(width) if n >> MANTISSA[width] else 0
    return sign << (width - 1) | biased << MANTISSA[width] | (n & ((1 << MANTISSA[width]) - 1))


def add(a, b, width):
    (ca, sa, va), (cb, sb, vb) = decode(a, width), decode(b, width)
    if NAN in (ca, cb) or (ca == cb == INF and sa != sb):
        return quiet_nan(width)
    if INF in (ca, cb):
        return infinity(width, sa if ca == INF else sb)
    return encode(va + vb, width, sa & sb)


def multiply(a, b, width):
    (ca, sa, va), (cb, sb, vb) = decode(a, width), decode(b, width)
    if NAN in (ca, cb) or (INF in (ca, cb) and 0 in (va, vb)):
        return quiet_nan(width)
    if INF in (ca, cb):
        return infinity(width, sa ^ sb)
    return encode(va * vb, width, sa ^ sb)


def divide(a, b, width):
    (ca, sa, va), (cb, sb, vb) = decode(a, width), decode(b, width)
    if NAN in (ca, cb) or ca == cb == INF or va == vb == 0:
        return quiet_nan(width)
    if ca == INF or vb == 0:
        return infinity(width, sa ^ sb)
    if cb == INF:
        return zero(width, sa ^ sb)
    return encode(va / vb, width, sa ^ sb)


def fma(a, b, c, width):
    (ca, sa, va), (cb, sb, vb), (cc, sc, vc) = (decode(x, width) for x in (a, b, c))
    if NAN in (ca, cb, cc) or (INF in (ca, cb) and 0 in (va, vb)):
        return quiet_nan(width)
    if INF in (ca, cb):
        return quiet_nan(width) if cc == INF and sc != sa ^ sb else infinity(width, sa ^ sb)
    if cc == INF:
        return c
    return encode(va * vb + vc, width, (sa ^ sb) & sc)


def root(value):
    """The square root of a fraction with so many bits that rounding it rounds the exact one."""
    shift = 2 * (1200 + max(value.denominator.bit_length(), 1))
    return Fraction(2 * isqrt((value.numerator << shift) // value.denominator) + 1, 2 << (shift // 2))


def exact_root(value):
    n, d = isqrt(value.numerator), isqrt(value.denominator)
    return Fraction(n, d) if n * n == value.numerator and d * d == value.denominator else None


def square_root(a, width):
    kind, sign, value = decode(a, width)
    if kind == NAN or (sign and value != 0):
        return quiet_nan(width)
    if kind == INF or value == 0:
        return a
    exact = exact_root(value)
    return encode(exact if exact is not None else root(value), width)


def scale(a, n, width):
    """a times 2^n, rounded once."""
    kind, sign, value = decode(a, width)
    if kind == NAN:
        return quiet_nan(width)
    return a if kind == INF else encode(value * Fraction(2) ** max(min(n, 5000), -5000), width, sign)


def convert(a, width, to):
    """To another width. A NaN keeps the upper bits of its payload, and whether it is quiet."""
    kind, sign, value = decode(a, width)
    if width == to:
        return a
    if kind == NAN:
        payload = a & ((1 << MANTISSA[width]) - 1)
        shift = MANTISSA[to] - MANTISSA[width]
        payload = payload << shift if shift > 0 else payload >> -shift
        return infinity(to, sign) | payload or infinity(to, sign) | 1
    return infinity(to, sign) if kind == INF else encode(value, to, sign)


def whole(a, width, how):
    """floor, ceil, trunc or rndne."""
    kind, sign, value = decode(a, width)
    if kind == NAN:
        return quiet_nan(width)
    if kind == INF:
        return a
    down = value.numerator // value.denominator
    rest = value - down
    if how == "floor":
        n = down
    elif how == "ceil":
        n = down + (rest > 0)
    elif how == "trunc":
        n = down + (value < 0 and rest > 0)
    else:
        n = down + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and down & 1))
    return encode(Fraction(n), width, sign)


def to_integer(a, width, bits, signed):
    """Towards zero; what does not fit becomes the nearest integer that does, a NaN 0."""
    kind, sign, value = decode(a, width)
    least, most = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    if kind == NAN:
        return 0
    n = (least if sign else most) if kind == INF else int(value)
    return max(least, min(most, n)) & ((1 << bits) - 1)


def compare(a, b, width):
    """-1, 0, 1, or None for unordered."""
    (ca, sa, va), (cb, sb, vb) = decode(a, width), decode(b, width)
    if NAN in (ca, cb):
        return None
    big = Fraction(2) ** 20000
    x = (-big if sa else big) if ca == INF else va
    y = (-big if sb else big) if cb == INF else vb
    return (x > y) - (x < y)
