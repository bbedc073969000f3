# SPDX-License-Identifier: Apache-2.0
"""The operands of the vectors: pools of four streams each. Operand n of a form is stream n of its type's pool.

64 sets are random, of several sizes; 32 are special values in changing company. The first 32 sets are half of each,
so that they are enough for the second form of an instruction.
"""
import random
import struct

SEED = 35
RANDOM, SPECIAL = 64, 32
SETS = RANDOM + SPECIAL

F32 = [0x00000000, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00001, 0xFF812345, 0x00000001, 0x807FFFFF, 0x00800000, 0x7F7FFFFF,
       0x3F800000, 0xBF800000, 0x3F000000, 0x4B800001, 0xCF000000, 0x33800000]
F16 = [0x0000, 0x8000, 0x7C00, 0xFC00, 0x7E01, 0xFD23, 0x0001, 0x83FF, 0x0400, 0x7BFF, 0x3C00, 0xBC00, 0x3800, 0x6401, 0xF800, 0x1000]
F64 = [0, 1 << 63, 0x7FF << 52, 0xFFF << 52, 0x7FF8000000000001, 0xFFF0000012345678, 1, 0x800FFFFFFFFFFFFF, 1 << 52, 0x7FEFFFFFFFFFFFFF,
       0x3FF << 52, 0xBFF << 52, 0x3FE << 52, 0x4330000000000001, 0xC1E0000000000000, 0x3E70000000000000]
U32 = [0, 1, 0xFFFFFFFF, 0x7FFFFFFF, 0x80000000, 31, 32, 63, 64, 0x00FFFFFF, 0xFF800000, 0x007FFFFF, 0xFFFF0000, 0x0000FFFF, 0x80000001, 24]
U64 = [0, 1, (1 << 64) - 1, (1 << 63) - 1, 1 << 63, 31, 32, 63, 64, 0xFFFFFFFF, 1 << 32, 0x7FFFFFFF80000000, 0xFFFFFFFF80000000, 0x80000000,
       0x8000000000000001, 0x100000000FFFFFFF]

random_ = random.Random(SEED)


def bits(n):
    return random_.getrandbits(n)


def float_bits(i, exponent, mantissa):
    """Any bits, numbers about one, any exponent, small integers."""
    kind, bias = i % 4, (1 << (exponent - 1)) - 1
    sign = bits(1) << (exponent + mantissa)
    if kind == 0:
        return bits(1 + exponent + mantissa)
    if kind == 1:
        return sign | (bias - 4 + bits(3)) << mantissa | bits(mantissa)
    if kind == 2:
        return sign | (1 + bits(16) % (2 * bias)) << mantissa | bits(mantissa)
    return sign | (bias + bits(2)) << mantissa | bits(2) << (mantissa - 2)


def integer_bits(i, width):
    kind = i % 4
    if kind == 1:
        return bits(6)
    if kind == 2:
        return (bits(4) - 8) & ((1 << width) - 1)
    return bits(width)


def specials(values):
    """Streams of the special sets: the second operand differs each time that the first one returns."""
    n = len(values)
    result = []
    for j in range(SPECIAL):
        first = values[j % n]
        second = values[(j + 1) % n] if j < n else values[(5 * j) % n]
        result.append((first, second, values[(3 * j + 2 + j // n) % n], values[(7 * j + 1) % n]))
    return result


def pool(make, values):
    streams = [[], [], [], []]
    for i in range(RANDOM):
        for s in streams:
            s.append(make(i))
    for row in specials(values):
        for s, v in zip(streams, row):
            s.append(v)
    return streams


def near(streams, width, mantissa):
    """Some second operands that almost cancel the first one, and third ones that almost cancel the product."""
    for i in range(5, RANDOM, 8):
        streams[1][i] = (streams[0][i] ^ 1 << (width - 1)) + bits(2) & ((1 << width) - 1)
    if width != 32:
        return streams
    for i in range(6, RANDOM, 8):
        a, b = (struct.unpack("<f", struct.pack("<I", streams[n][i]))[0] for n in (0, 1))
        try:
            c = struct.unpack("<I", struct.pack("<f", -a * b))[0]
        except OverflowError:
            continue
        for s in (2, 3):
            streams[s][i] = c
    return streams


def pairs(streams, width):
    """Two elements in one operand: the other one is that of another set."""
    return [[v | s[(i * 5 + 3) % SETS] << width for i, v in enumerate(s)] for s in streams]


def shuffled(n):
    order = list(range(n))
    random_.shuffle(order)
    return order


f32 = near(pool(lambda i: float_bits(i, 8, 23), F32), 32, 23)
f16 = near(pool(lambda i: float_bits(i, 5, 10), F16), 16, 10)
rows = shuffled(64) + shuffled(64)[:32]
POOLS = {
    "f32": f32,
    "f16": pairs(f16, 16),
    "f64": pool(lambda i: float_bits(i, 11, 52), F64),
    "u32": pool(lambda i: integer_bits(i, 32), U32),
    "u64": pool(lambda i: integer_bits(i, 64), U64),
    "f32x2": pairs(f32, 32),
    "bit": [[bits(1) for _ in range(SETS)] for _ in range(2)],
    # addresses of lanes, 32 bytes apart; no two lanes of a step have the same
    "lds": [[32 * r for r in rows]],
    "global": [[0x100000000 + 512 + 32 * r for r in rows]],
    # of ds_bpermute: four times a lane that is on in each step, and some bits that do not count
    "lane": [[4 * bits(5) + bits(2) + 256 * bits(4) for _ in range(SETS)]],
    # masks of lanes of which half are empty
    "some": [[bits(64) & -bits(1) & ((1 << 64) - 1) for _ in range(SETS)]],
    "some32": [[bits(32) & -bits(1) & 0xFFFFFFFF for _ in range(SETS)]],
}
SHORT = 32
order = list(range(16)) + list(range(RANDOM, RANDOM + 16)) + list(range(16, RANDOM)) + list(range(RANDOM + 16, SETS))
for name_ in ("f32", "f16", "f64", "u32", "u64", "f32x2"):
    POOLS[name_] = [[s[i] for i in order] for s in POOLS[name_]]
POOLS["f16x2"] = POOLS["f16"]
