# SPDX-License-Identifier: Apache-2.0
"""What scalar instructions compute, what lanes exchange, and what goes to memory and comes from there."""
import re

import forms
import hand
import pcode
from form import Expected, Operand, Skip, mask_register, pool_of, read_operand, source_of, type_of, width_of
from operands import POOLS, SETS
from pcode import Value

def cross(form):
    e, name = Expected(), form.name
    steps = [range(k, min(k + form.lanes, SETS)) for k in range(0, SETS, form.lanes)]
    operands = form.operands
    if name in ("v_readlane_b32", "v_readfirstlane_b32"):
        source = Operand(operands[1], "u32", 0)
        read_operand(e, source)
        lane = 0
        if name == "v_readlane_b32":
            select = Operand(operands[2], "u32", 1)
            if select.register:
                select.fixed = 77
            read_operand(e, select)
            lane = (select.fixed if select.fixed is not None else 0) % form.lanes
        if max(lane, 0) >= len(steps[-1]):
            lane = None
        if lane is None:
            raise Skip("a lane that is off")
        e.marks.append("once")
        e.write("s%d" % mask_register(operands[0]), 32, [source.raw(step[0] + lane) for step in steps])
    elif name == "v_writelane_b32":
        source, select = Operand(operands[1], "u32", 0), Operand(operands[2], "u32", 1)
        if select.register:
            select.fixed = 75
        read_operand(e, source)
        read_operand(e, select)
        e.read("v24:u32.3")
        values = []
        for step in steps:
            for i in step:
                lane = i - step[0]
                values.append(source.fixed if lane == select.fixed % form.lanes else POOLS["u32"][3][i])
        e.marks.append("whole")
        e.write("v24", 32, values)
    elif name == "ds_bpermute_b32":
        data = Operand(operands[2], "u32", 1)
        e.read("v8:lane.0")
        read_operand(e, data)
        offset = int(form.mod("offset", "0"))
        values = []
        for step in steps:
            for i in step:
                lane = (POOLS["lane"][0][i] + offset) // 4 % form.lanes
                values.append(data.raw(step[0] + lane))
        e.marks.append("whole")
        e.write("v24", 32, values)
    elif name in ("v_movrels_b32", "v_movreld_b32"):
        # M0, which is 3, moves the source or the destination
        source = Operand(operands[1], "u32", 0)
        e.read("s125=00000003")
        if name == "v_movrels_b32":
            e.read("v%d:u32.0" % (source.register[1] + 3))
        else:
            read_operand(e, source)
        e.write("v24" if name == "v_movrels_b32" else "v27", 32, [source.raw(i) for i in range(SETS)])
    else:
        raise Skip("lanes that exchange values")
    return e, True


# ---- scalar instructions ----

def scalar(form):
    body, by_hand, text = source_of(form)
    e, name = Expected(), form.name
    operands = list(form.operands)
    if name == "s_branch":
        e.read("scc:bit.0")
        e.write("next", 32, [4 + 5 * 4] * SETS)
        return e, True
    if name.startswith("s_cbranch"):
        where = {"scc0": ("scc", 0), "scc1": ("scc", 1), "vccz": ("s106", 0), "vccnz": ("s106", 1), "execz": ("s126", 0),
                 "execnz": ("s126", 1)}[name.split("_")[2]]
        pool = "bit" if where[0] == "scc" else "some" if form.lanes == 64 else "some32"
        e.read("%s:%s.0" % (where[0], pool))
        e.write("next", 32, [(4 + 5 * 4) if bool(POOLS[pool][0][i]) == bool(where[1]) else 4 for i in range(SETS)])
        return e, True
    no_dest = re.match(r"s_(cmp|bitcmp|cmpk)", name)
    dest = None if no_dest else operands.pop(0)
    sopk = re.match(r"s_(movk|cmovk|cmpk|addk|mulk)", name)
    sources = []
    names = ["S0", "S1", "S2"]
    if sopk:
        names = {"s_cmpk": ["S0", "IMM"]}.get(name[:6], ["IMM"])
    for i, o in enumerate(operands):
        kind = type_of(text, names[i]) or "u32" if names[i] != "IMM" else "u16"
        same = [n for n, other in enumerate(operands[:i]) if other == o]
        op = Operand(o, kind, same[0] if same else i)
        if op.register:
            op.fixed = None
            e.read("s%d:%s.%d" % (mask_register(o), pool_of(kind), op.stream))
        elif op.fixed is None:
            raise Skip("the operand %s" % o)
        sources.append((names[i], op, kind))
    uses_exec = "EXEC" in text
    d_kind = type_of(text, "D0")
    width = 64 if d_kind and width_of(d_kind) == 64 else 32
    mask_width = 64 if form.lanes == 64 else 32
    if uses_exec:
        e.read("s126:u%d.2" % mask_width)
    reads_d = sopk and re.search("addk|mulk|cmovk", name) or re.search("cmov|bitset", name)
    target = mask_register(dest) if dest and dest != "m0" else None
    if dest == "m0":
        target = 124 if form.arch != "gfx1100" else 125
    if reads_d:
        e.read("s%d:u%d.3" % (target, width))
    e.read("scc:bit.1")
    results, sccs, execs = [], [], []
    for i in range(SETS):
        v = {"SCC": Value("u", 1, POOLS["bit"][1][i]), "D0": Value("b", width, POOLS["u%d" % width][3][i] if reads_d else 0)}
        if uses_exec:
            v["EXEC"] = Value("u", mask_width, POOLS["u%d" % mask_width][2][i])
        for s_name, op, kind in sources:
            value = Value("b", 32 if width_of(kind) < 64 else 64, op.raw(i))
            if s_name == "IMM":
                for other in ("SIMM16", "S0", "S1"):
                    v.setdefault(other, value)
            else:
                v[s_name] = value
        if sopk and name.startswith("s_cmpk"):
            v["S1"] = v["SIMM16"]
        machine = pcode.Machine(v)
        if by_hand:
            by_hand(machine)
        else:
            machine.run(body)
        results.append(machine.v["D0"].bits)
        sccs.append(machine.v["SCC"].bits)
        execs.append(machine.v["EXEC"].bits if uses_exec else 0)
    if dest:
        e.write("s%d" % target, width, results)
    e.write("scc", 1, sccs)
    if uses_exec:
        e.write("s126", mask_width, execs)
    return e, bool(by_hand)


# ---- memory ----

def memory(form):
    e, name = Expected(), form.name
    operands = list(form.operands)
    local = name.startswith("ds_")
    where = "lds" if local else "global"
    if name.startswith("s_load"):
        return scalar_load(form)
    m = re.match(r"(ds|global|flat)_(load|read|store|write)(2st64|2|_2addr_stride64|_2addr)?_(\w+)", name)
    if not m or "atomic" in name:
        raise Skip("memory")
    loads, twice, what = m.group(2) in ("load", "read"), m.group(3), m.group(4)
    sizes = {"b8": 1, "u8": 1, "i8": 1, "b16": 2, "u16": 2, "i16": 2, "b32": 4, "b64": 8, "b96": 12, "b128": 16, "ubyte": 1, "sbyte": 1,
             "byte": 1, "ushort": 2, "sshort": 2, "short": 2, "dword": 4, "dwordx2": 8, "dwordx3": 12, "dwordx4": 16}
    part = re.match(r"(d16_hi_|d16_)?(b8|u8|i8|b16|u16|i16|b32|b64|b96|b128|[us]?byte|[us]?short|dword(?:x\d)?)(_d16_hi|_d16)?$", what)
    if not part:
        raise Skip("memory")
    half = (part.group(1) or part.group(3) or "").strip("_")
    size, signed = sizes[part.group(2)], part.group(2)[0] in "is" and part.group(2) != "short"
    scale = size * (64 if twice and "64" in twice else 1)
    offsets = [int(form.mod("offset0", "0")) * scale, int(form.mod("offset1", "0")) * scale] if twice else [int(form.mod("offset", "0"), 0)]
    if loads:
        dest = operands.pop(0)
    address = operands.pop(0)
    base = 0
    if local:
        e.read("v8:lds.0")
        addresses = POOLS["lds"][0]
    elif forms.REGISTER.match(address).group(2):  # 32 bits, and a base in SGPRs
        base_at = mask_register(operands[-1])
        base = 512
        e.read("s%d=%016x" % (base_at, 0x100000000 + base))
        e.read("v8:lds.0")
        addresses = POOLS["lds"][0]
    else:
        e.read("v8:global.0")
        addresses = [a - 0x100000000 for a in POOLS["global"][0]]
    words = []
    if loads:
        values = []
        for i in range(SETS):
            value, at = 0, 0
            for offset in offsets:
                value |= hand.memory(addresses[i] + base + offset, size) << at
                at += 8 * size
            if size < 4:
                if signed and value >> (8 * size - 1):
                    value |= ~((1 << 8 * size) - 1)
                value &= 0xFFFF if half else 0xFFFFFFFF
            values.append(value)
        total = max(size, 4) * len(offsets)
        m = forms.REGISTER.match(dest)
        first = int(m.group(2) or m.group(3))
        if half:
            e.read("%s%d:u32.3" % (m.group(1), first))
            olds = POOLS["u32"][3]
            values = [(o & 0xFFFF) | v << 16 if half == "d16_hi" else (o & 0xFFFF0000) | v for o, v in zip(olds, values)]
        for w in range(total // 4):
            e.write("%s%d" % (m.group(1), first + w), 32, [v >> 32 * w & 0xFFFFFFFF for v in values])
        return e, True
    data = [o for o in operands if re.match(r"[va]", o)]
    for n, o in enumerate(data):
        m = forms.REGISTER.match(o)
        first = int(m.group(2) or m.group(3))
        for w in range(max(size // 4, 1)):
            e.read("%s%d:u32.%d" % (m.group(1), first + w, (n + w) % 4))
            words.append((n + w) % 4)
    per = max(size // 4, 1)
    for n, offset in enumerate(offsets):
        values = []
        for i in range(SETS):
            value = sum(POOLS["u32"][words[n * per + w]][i] << 32 * w for w in range(per))
            value = value >> 16 if half == "d16_hi" else value
            values.append(value & ((1 << 8 * size) - 1))
        e.outputs.append("%s:%d" % (where, 8 * size))
        e.rows += [(16, [a + base + offset for a in addresses]), (8 * size, values)]
    return e, True


def scalar_load(form):
    e = Expected()
    if form.operands[1] not in ("s[8:9]", "s[12:13]"):
        raise Skip("a load with the base %s" % form.operands[1])
    m = forms.REGISTER.match(form.operands[0])
    first = int(m.group(2) or m.group(3))
    count = 1 if m.group(2) else int(m.group(4)) - first + 1
    base_at = mask_register(form.operands[1])
    if not re.match(r"^(0x[0-9a-f]+|\d+|null)$", form.operands[2]):
        raise Skip("a load with the offset %s" % form.operands[2])
    offset = 0 if form.operands[2] == "null" else int(form.operands[2], 0)
    offset += int(form.mod("offset", "0"), 0)
    e.read("s%d:global.0" % base_at)
    for w in range(count):
        e.write("s%d" % (first + w), 32, [hand.memory(a - 0x100000000 + offset + 4 * w, 4) for a in POOLS["global"][0]])
    return e, True
