# SPDX-License-Identifier: Apache-2.0
"""What vector instructions compute: one result per lane, or a bit per lane."""
import re

import floats
import forms
import hand
import pcode
from form import (TEXTS, Expected, Form, Operand, Skip, bits_of, mask_register, pool_of, read_operand, selected, source_of, type_of,
                  width_of)
from operands import POOLS, SETS
from pcode import Value

SECOND = re.compile(r"v_(div_scale|mad_[ui]64)|v_(add|sub|subrev|addc|subb|subbrev)_co|v_(add|sub|subrev)_co_ci")
CARRY_IN = re.compile(r"v_(addc|subb|subbrev)_co|v_(add|sub|subrev)_co_ci|v_cndmask")
EXACT_NAN = re.compile(r"v_(min|max|med|cndmask|mov|div_fixup|pack|accvgpr|perm|bfi|and|or|xor|not|read|write|swap)|v_pk_(min|max|mov)")
# On GFX9 these keep the upper half of the register; the others of 16 bits write zeros there (LLVM,
# GCNSubtarget::zeroesHigh16BitsOfDest). GFX11 keeps it always.
KEEPS_HIGH = re.compile(r"v_(mad_mix|fma_mix|fma_f16|mad_f16|mad_[ui]16|div_fixup_f16|interp)")
APPROXIMATE = re.compile(r"v_(rcp|rsq|sqrt|exp|log|sin|cos)_")


class Shape:
    """The operands of a vector instruction: its destination, the masks beside it, and its sources."""

    def __init__(self, form, text, e):
        name, operands = form.name, list(form.operands)
        self.gfx9 = form.arch != "gfx1100"
        self.is_compare = name.startswith("v_cmp")
        self.packed = name.startswith("v_pk_")
        self.sdwa = form.mnemonic.endswith("_sdwa")
        self.dest = self.mask_out = self.carry_in = None
        if self.is_compare and name.startswith("v_cmpx") and not self.gfx9:
            self.mask_out = 126
            if operands[0].startswith("exec"):
                operands.pop(0)
        elif self.is_compare:
            self.mask_out = mask_register(operands.pop(0))
        else:
            self.dest = forms.REGISTER.match(operands.pop(0))
            if SECOND.match(name):
                second = operands.pop(0)
                self.mask_out = None if second == "null" else mask_register(second)
        if CARRY_IN.match(name):
            self.carry_in = mask_register(operands.pop())
        if name.startswith("v_div_fmas"):
            self.carry_in = 106
        self.kind = "u64" if self.is_compare else type_of(text, "D0") or "u32"
        self.width = 64 if width_of(self.kind) == 64 else 32
        if self.dest and self.dest.group(1) == "s":
            raise Skip("a result for all lanes")
        self.sources = self.read_sources(name, operands, text, e)
        self.op_sel = bits_of(form.mods, "op_sel", 4, 0) + [0] * 4
        self.op_sel_hi = bits_of(form.mods, "op_sel_hi", 4, int(self.packed)) + [int(self.packed)] * 4
        self.neg_lo, self.neg_hi = bits_of(form.mods, "neg_lo", 3, 0), bits_of(form.mods, "neg_hi", 3, 0)

    def read_sources(self, name, operands, text, e):
        """(name in AMD's text, operand, type) of each."""
        names = ["S0", "S1", "S2"]
        if re.match(r"v_(fmaak|madak)", name):
            names = ["S0", "S1", "SIMM32"]
        if re.match(r"v_(fmamk|madmk)", name):
            names = ["S0", "SIMM32", "S1"]
        sources = []
        for i, o in enumerate(operands):
            kind = type_of(text, names[i]) or "u32"
            if name == "v_cndmask_b32":
                kind = "f32"  # any bits, but the signs can be changed
            # one register in two places has one value
            first = [s[1] for s in sources if s[1].core == forms.parse(o)[1]]
            op = Operand(o, first[0].kind if first else kind, first[0].stream if first else i)
            sources.append((names[i], op, kind))
            read_operand(e, op)
        return sources

    def read_old(self, form, by_hand, e):
        """The pool of the destination's old contents, or None where the instruction does not keep any."""
        adds = re.search(r"fmac|v_mac|dot2c", form.name)
        if self.is_compare or not (adds or width_of(self.kind) == 16 or self.sdwa or by_hand in hand.READS_OLD):
            return None
        kind = self.kind if adds and pool_of(self.kind) in ("f32", "f16x2") else "u%d" % self.width
        e.read("v%s:%s.3" % (self.dest.group(2) or self.dest.group(3), pool_of(kind)))
        return pool_of(kind)


def vector(form):
    body, by_hand, text = source_of(form)
    e = Expected()
    shape = Shape(form, text, e)
    old_pool = shape.read_old(form, by_hand, e)
    if shape.carry_in is not None:
        e.read("m%d:bit.0" % shape.carry_in)
    if form.mod("mul") or form.mod("div"):
        raise Skip("an output modifier")
    results, carries = [], []
    for i in range(SETS):
        values = {name: modified(form, shape, op.raw(i), op, kind, n) for n, (name, op, kind) in enumerate(shape.sources)}
        old = POOLS[old_pool][3][i] if old_pool else 0
        carry = POOLS["bit"][0][i] if shape.carry_in is not None else 0
        if by_hand:
            got = by_hand(hand.Context(form, values, old, carry, shape.op_sel, shape.op_sel_hi))
            d, c = got if isinstance(got, tuple) else (got, 0)
        else:
            d, c = evaluated(form, shape, body, text, values, old, carry, i % form.lanes)
        if form.mod("clamp"):
            d = clamped(d, shape.kind)
        if form.name in hand.UNSAID:
            e.compared[i] = int(not hand.UNSAID[form.name]([v.bits for v in values.values()], old, carry))
        results.append(finished(form, shape, d, old))
        carries.append(c)
    write_results(form, shape, e, results, carries)
    return e, bool(by_hand)


def evaluated(form, shape, body, text, values, old, carry, lane):
    """Result and carry by AMD's text."""
    is_whole = width_of(shape.kind) > 16 and not shape.kind.endswith("x2") and not shape.is_compare
    machine = pcode.Machine({**values, "D0": Value(shape.kind[0] if is_whole else "b", shape.width, old),
                             "VCC": Value("u", 64, carry), "EXEC": Value("u", 64, 1), "laneId": Value("u", 32, 0)})
    if "ThreadMask" in text:
        machine.v["laneId"] = Value("u", 32, lane)
    machine.run(body)
    d = machine.v["D0"].bits
    if form.name.startswith("v_cmpx") and not shape.gfx9:
        d = machine.v["EXEC"].bits & 1
    return d, (machine.v["D1"].bits if "D1" in machine.v else machine.v["VCC"].bits) & 1


def write_results(form, shape, e, results, carries):
    name = form.name
    if APPROXIMATE.match(name):
        e.marks.append("ulp=1")
    if re.match(r"v_(pk_(add|mul|fma)_f16|fma_mix(lo|hi)_f16)", name):
        e.marks.append("nan=f16x2")
    elif re.match(r"v_pk_(add|mul|fma)_f32", name):
        e.marks.append("nan=f32x2")
    elif shape.kind[0] == "f" and not shape.is_compare and not EXACT_NAN.match(name):
        e.marks.append("nan=" + shape.kind)
    if shape.is_compare:
        e.write("m%d" % shape.mask_out, 1, [r & 1 for r in results])
        if name.startswith("v_cmpx") and shape.gfx9:
            e.write("m126", 1, [r & 1 for r in results])
        return
    e.write("%s%s" % (shape.dest.group(1), shape.dest.group(2) or shape.dest.group(3)), shape.width, results)
    if shape.mask_out is not None and name == "v_mad_i64_i32":
        e.outputs.append("m%d:any" % shape.mask_out)  # AMD's text has 65 bits, and does not say which carry it means
    elif shape.mask_out is not None:
        e.write("m%d" % shape.mask_out, 1, carries)


def modified(form, shape, bits, op, kind, n):
    """The value that the operation sees."""
    op_sel, op_sel_hi = shape.op_sel, shape.op_sel_hi
    if shape.sdwa and n < 2:
        how = form.mod("src%d_sel" % n, "DWORD")
        bits = selected(bits, how, "sext(" in op.front)
    mix = re.match(r"v_(fma|mad)_mix", form.name)
    if shape.packed and kind.endswith("x2"):
        half = int(kind[1:3])
        parts = [bits & ((1 << half) - 1), bits >> half & ((1 << half) - 1)]
        if kind == "f32x2" and bits and not op.register and (op_sel[n] or op_sel_hi[n]):
            raise Skip("the upper half of a constant")
        low, high = parts[op_sel[n]], parts[op_sel_hi[n]]
        if kind[0] == "f":
            low ^= (shape.neg_lo[n] if n < len(shape.neg_lo) else 0) << (half - 1)
            high ^= (shape.neg_hi[n] if n < len(shape.neg_hi) else 0) << (half - 1)
        return Value("b", 2 * half, high << half | low)
    width = width_of(kind)
    if width == 16 and op_sel[n] and not shape.packed:
        bits >>= 16
    if not mix and kind[0] == "f":
        bits &= (1 << width) - 1
        if "|" in op.front or "abs(" in op.front:
            bits &= ~(1 << (width - 1))
        if op.front.startswith("-") or "neg(" in op.front:
            bits ^= 1 << (width - 1)
    return Value("b", max(width, 32) if not (width == 16 and kind[0] == "f") else 16, bits)


def clamped(d, kind):
    if kind not in ("f32", "f16"):
        raise Skip("clamp of %s" % kind)
    width = width_of(kind)
    one = floats.encode(pcode.Fraction(1), width)
    if floats.is_nan(d, width) or d >> (width - 1):
        return 0
    return min(d, one)


def finished(form, shape, d, old):
    """The register as a whole."""
    if shape.sdwa and not form.name.startswith("v_cmp"):
        how, unused = form.mod("dst_sel", "DWORD"), form.mod("dst_unused", "UNUSED_PAD")
        if how == "DWORD":
            return d & 0xFFFFFFFF
        unit, n = how.split("_")
        size = 8 if unit == "BYTE" else 16
        at, mask = size * int(n), (1 << size) - 1
        part = (d & mask) << at
        if unused == "UNUSED_PRESERVE":
            return (old & ~(mask << at) & 0xFFFFFFFF) | part
        if unused == "UNUSED_SEXT":
            raise Skip("UNUSED_SEXT")
        return part
    if width_of(shape.kind) == 16:
        if shape.op_sel[3] and not shape.sdwa:
            return (old & 0xFFFF) | (d & 0xFFFF) << 16
        keep = not shape.gfx9 or KEEPS_HIGH.match(form.name)
        return (d & 0xFFFF) | (old & 0xFFFF0000 if keep else 0)
    return d


# ---- two instructions in one ----

def dual(form):
    """The halves read before either writes; their registers differ, so each is an instruction of its own."""
    whole, hands = Expected(), False
    for half in form.text.split(" :: "):
        mnemonic, _, rest = half.partition(" ")
        plain = Form(mnemonic.replace("v_dual_", "v_") + " " + rest, form.arch, form.code)
        if plain.name == "v_cndmask_b32" and len(plain.operands) == 3:
            plain.operands.append("vcc_lo")
        if plain.name not in TEXTS[form.arch] and plain.name not in hand.FUNCTIONS:
            raise Skip("the half %s" % plain.name)
        e, by_hand = vector(plain)
        for item in e.inputs:
            whole.read(item)
        whole.outputs += e.outputs
        whole.rows += e.rows
        whole.compared = [a & b for a, b in zip(whole.compared, e.compared)]
        whole.marks += [m for m in e.marks if m not in whole.marks]
        hands |= by_hand
    return whole, hands
