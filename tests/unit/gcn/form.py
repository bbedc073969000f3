# SPDX-License-Identifier: Apache-2.0
"""A form of an instruction, AMD's text of it, its operands, and what it reads and writes."""
import collections
import re

import floats
import forms
import hand
import pcode
from operands import POOLS, SETS
from tinygrad.runtime.autogen.amd.cdna.str_pcode import PCODE as CDNA
from tinygrad.runtime.autogen.amd.rdna3.str_pcode import PCODE as RDNA3

ARCHS = ("gfx90a", "gfx942", "gfx1100")
LANES = {"gfx90a": 64, "gfx942": 64, "gfx1100": 32}
MEMORY = re.compile(r"(global|flat|scratch|buffer|ds|s)_(load|store|read|write|buffer_load|atomic)")
# What has no result of its own, changes the program counter, or needs more than one instruction or memory that
# the single step does not have.
NOT_HERE = re.compile(r"s_(getpc|setpc|swappc|call|set_gpr_idx|setreg|getreg|sendmsg|trap|code_end)|buffer_|scratch_|v_nop"
                      r"|ds_nop|s_gl|global_(wb|inv)|v_mfma|v_wmma|s_icache")


class Skip(Exception):
    """The form has no vector, and why."""


# ---- AMD's text ----

def table(source):
    result = {}
    for op, text in source.items():
        name = re.sub(r"_(E32|E64)$", "", op.name).lower()
        result.setdefault(name, text)
    return result


TEXTS = {"gfx90a": table(CDNA), "gfx942": table(CDNA), "gfx1100": table(RDNA3)}
PARSED = {}


def parsed(text):
    if text not in PARSED:
        PARSED[text] = pcode.compiled(text)
    return PARSED[text]


def type_of(text, name):
    """The type in which a text uses an operand, such as f32; pairs are f16x2 and f32x2."""
    if re.search(name + r"\[63 : 32\]\.f32", text):
        return "f32x2"
    m = re.search(name + r"\[31 : 16\]\.([fiub]16)", text)
    if m:
        return m.group(1) + "x2"
    m = re.search(r"\b" + name + r"\.([uifb]\d+)", text)
    if m:
        return m.group(1)
    return "u32" if re.search(r"\b" + name + r"\b", text) else None


def width_of(kind):
    if kind.endswith("x2"):
        return 2 * int(kind[1:3])
    n = int(kind[1:])
    return 64 if n > 32 else 32 if n > 16 else n


# ---- operands ----

NAMED = {"vcc": 106, "vcc_lo": 106, "vcc_hi": 107, "exec": 126, "exec_lo": 126, "exec_hi": 127, "flat_scratch_lo": 102, "flat_scratch_hi": 103, "flat_scratch": 102}


class Operand:
    """A source of a form: where its bits come from, and what is done with them."""

    def __init__(self, text, kind, stream):
        self.text, self.kind, self.stream = text, kind, stream
        self.front, self.core, self.behind = forms.parse(text)
        self.registers = 2 if width_of(kind) == 64 else 1
        self.fixed = None
        m = forms.REGISTER.match(self.core)
        self.register = (m.group(1), int(m.group(2) or m.group(3))) if m else None
        if self.core in NAMED:
            self.register = ("s", NAMED[self.core])
        if self.register and self.register[0] == "s":
            self.fixed = POOLS[pool_of(kind)][stream][7 + stream]
        if not self.register and self.core not in forms.SPECIAL:
            self.fixed = constant_bits(self.core, kind)

    def raw(self, i):
        if self.fixed is not None:
            return self.fixed
        return POOLS[pool_of(self.kind)][self.stream][i]


def pool_of(kind):
    if kind in ("f32", "f64", "f16", "u64", "f16x2", "f32x2"):
        return kind
    n = width_of(kind)
    return "u64" if n == 64 else "u32"


def constant_bits(core, kind):
    """The bits of a constant for an operand of this type."""
    width = width_of(kind)
    scalar = {"f32x2": 32, "f16x2": 16}.get(kind, width)
    if core in forms.INLINE:
        n = {"0.15915494": {16: 0x3118, 32: 0x3E22F983, 64: 0x3FC45F306DC9C882}}.get(core[:10])
        scalar = 32 if kind in ("u16", "i16", "b16") else scalar
        bits = n[scalar] if n else floats.encode(pcode.Fraction(core), scalar)
    else:
        bits = int(core, 0)
        if kind == "f64" and not -16 <= bits <= 64:
            bits <<= 32
    return bits & ((1 << width) - 1)


# ---- modifiers ----

def bits_of(mods, name, count, default):
    for m in mods:
        if m.startswith(name + ":["):
            return [int(x) for x in m[len(name) + 2:-1].split(",")] + [default] * 0
    return [default] * count


def selected(bits, how, extend):
    """SDWA: a byte or a half of 32 bits."""
    if how == "DWORD":
        return bits
    unit, n = how.split("_")
    width = 8 if unit == "BYTE" else 16
    part = bits >> width * int(n) & ((1 << width) - 1)
    if extend and part >> (width - 1):
        part |= ~((1 << width) - 1) & 0xFFFFFFFF
    return part


class Form:
    def __init__(self, text, arch, code):
        self.text, self.arch, self.code = text, arch, code
        first = text.split(" :: ")[0]
        self.mnemonic, _, rest = first.partition(" ")
        self.operands, self.mods = forms.split(rest)
        self.name = re.sub(r"_(e32|e64|sdwa|dpp|e64_dpp)$", "", self.mnemonic)
        if "dpp" in self.mnemonic:
            raise Skip("DPP")
        self.lanes = LANES[arch]

    def mod(self, name, default=None):
        for m in self.mods:
            if m == name:
                return True
            if m.startswith(name + ":"):
                return m[len(name) + 1:]
        return default


class Expected:
    """What a form reads and writes: text for the file."""

    def __init__(self):
        self.inputs, self.outputs, self.rows, self.marks = [], [], [], []
        self.compared = [1] * SETS

    def read(self, item):
        if item not in self.inputs:
            self.inputs.append(item)

    def write(self, place, bits, values):
        self.outputs.append("%s:%d" % (place, bits))
        self.rows.append((bits, values))

    def finish(self, sets):
        """The lines of the first sets."""
        lines = []
        for bits, values in self.rows:
            lines.append(line_of(bits, values if "once" in self.marks else values[:sets]))
        marks = list(self.marks)
        if self.compared[:sets] != [1] * min(sets, SETS):
            marks.append("only=" + line_of(1, self.compared[:sets]))
        return Finished(tuple(self.inputs), tuple(self.outputs), tuple(lines), tuple(marks))


Finished = collections.namedtuple("Finished", "inputs outputs lines marks")


def line_of(bits, values):
    if bits == 1:
        return "%0*x" % (len(values) // 4, sum(v << i for i, v in enumerate(values)))
    return "".join("%0*x" % (bits // 4, v) for v in values)


def place(operand):
    return "%s%d" % operand.register


def read_operand(e, o):
    if o.fixed is not None and o.register:
        e.read("%s=%0*x" % (place(o), 8 * o.registers, o.fixed))
    elif o.register:
        e.read("%s:%s.%d" % (place(o), pool_of(o.kind), o.stream))


def mask_register(text):
    """The number of the first SGPR of a mask of lanes."""
    m = forms.REGISTER.match(text)
    return int(m.group(2) or m.group(3)) if m else NAMED[text]


def source_of(form):
    """(body of the text or None, function of hand.py or None, text)."""
    name = form.name
    text = TEXTS[form.arch].get(name)
    by_hand = hand.FUNCTIONS.get(name)
    if by_hand:
        return None, by_hand, hand.TYPES.get(name) or text
    if not text:
        raise Skip("AMD's text does not have it")
    if name in hand.MENDED:
        was, meant = hand.MENDED[name]
        assert was in text
        text = text.replace(was, meant)
    return parsed(text), None, text
