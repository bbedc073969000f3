# SPDX-License-Identifier: Apache-2.0
"""The forms in which kernels use instructions.

A form is the text of an instruction whose registers have fixed numbers. The destination is v24 or s24, the sources
begin at v8, v12, v16 or s8, s12, s16. One register in two places stays one register. Of constants and offsets of
one kind the most frequent stands for all.

    forms.py NAME=FOLDER...      NAME: the architecture and the compiler, such as gfx90a-clang19

reads all code objects of the folders with llvm-objdump and writes forms.txt beside this file: for each form its
count under each name. A file may have other bytes around its code object, as those of yoke compile do.
"""
import collections
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
OBJDUMP = os.environ.get("LLVM_OBJDUMP", "llvm-objdump-19")
REGISTER = re.compile(r"^([vsa])(?:(\d+)|\[(\d+):(\d+)\])$")
SPECIAL = {"vcc", "vcc_lo", "vcc_hi", "exec", "exec_lo", "exec_hi", "m0", "null", "scc", "off", "src_shared_base", "src_private_base",
           "flat_scratch", "flat_scratch_lo", "flat_scratch_hi", "vccz", "execz", "lds_direct"}
INLINE = {"0.5", "-0.5", "1.0", "-1.0", "2.0", "-2.0", "4.0", "-4.0", "0.15915494", "0.15915494309189532"}
STORES = re.compile(r"(global|flat|scratch|buffer)_(store|atomic)|ds_(write|store)")
WITHOUT = re.compile(r"s_(waitcnt|nop|endpgm|barrier|code_end|clause|delay_alu|inst_prefetch|set_inst_prefetch|sendmsg|sleep|setprio|waitcnt_\w+|icache|dcache)")


def split(text):
    """The operands of an instruction and its modifiers."""
    parts, depth, part = [], 0, ""
    for c in text:
        depth += (c in "[(") - (c in "])")
        if c == "," and not depth:
            parts.append(part.strip())
            part = ""
        else:
            part += c
    parts.append(part.strip())
    last, _, mods = parts[-1].partition(" ")
    if re.match(r"[a-z_0-9]+:", last):
        last, mods = "", parts[-1]
    parts[-1] = last
    return [p for p in parts if p], mods.split()


def parse(operand):
    """(what stands in front, the core, what stands behind) of -|sext(v1)| and its like."""
    m = re.match(r"^(-?\|?(?:neg\(|abs\(|sext\()?)(.*?)(\|?\)?)$", operand)
    front, core, behind = m.groups()
    if re.match(r"^\d", core) and front == "-":
        front, core = "", "-" + core
    return front, core, behind


def name_of(kind, base, count):
    return "%s%d" % (kind, base) if count == 1 else "%s[%d:%d]" % (kind, base, base + count - 1)


def constant(core):
    """The kind of a constant."""
    if core in INLINE:
        return "<float>"
    n = int(core, 0)
    return "<int>" if -16 <= n <= 64 else "<literal>"


class Form:
    """One instruction made canonical: `key` has the kinds of constants, `text` the constants."""

    def __init__(self, half, slot_step=0):
        self.mnemonic, _, rest = half.partition(" ")
        self.operands, self.mods = split(rest.strip())
        self.step = slot_step
        self.key, self.text = [], []
        self.sources = {}

    def canonical(self):
        is_store = STORES.match(self.mnemonic)
        n_dests = 0 if is_store else 1
        if re.match(r"v_(div_scale|mad_[ui]64|(add|sub|subrev|addc|subb|subbrev)_co|(add|sub|subrev)_co_ci)", self.mnemonic):
            n_dests = 2
        if re.match(r"s_(cmp|bitcmp|cbranch|branch|setpc|set_gpr)|v_cmpx.*_e32", self.mnemonic):
            n_dests = 1 if self.operands and self.operands[0].startswith("exec") else 0
        if self.mnemonic.startswith("s_cmpk"):
            n_dests = 0
        for i, operand in enumerate(self.operands):
            key, text = self.operand(operand, i < n_dests, i - n_dests)
            self.key.append(key)
            self.text.append(text)
        mods_key = [re.sub(r"^(offset\d?):.*", r"\1:<n>", m) for m in self.mods]
        join = lambda parts, mods: " ".join([self.mnemonic, ", ".join(parts)] + mods).strip()
        return join(self.key, mods_key), join(self.text, self.mods)

    def operand(self, operand, is_dest, slot):
        front, core, behind = parse(operand)
        m = REGISTER.match(core)
        if m:
            kind = m.group(1)
            count = 1 if m.group(2) else int(m.group(4)) - int(m.group(3)) + 1
            if is_dest:
                base = (12 if kind == "a" else 24) + self.step
            else:
                if core not in self.sources:
                    # the halves of a dual instruction may not read two different SGPRs
                    self.sources[core] = (4 * slot if kind == "a" else 8 + 4 * slot) + (self.step if kind != "s" else 0)
                base = self.sources[core]
            text = front + name_of(kind, base, count) + behind
            return text, text
        if core in SPECIAL:
            return operand, operand
        if re.match(r"^-?(0x[0-9a-f]+|\d+(\.\d+)?)$", core):
            if re.match(r"s_(cbranch|branch)", self.mnemonic):
                return "<label>", "5"
            return front + constant(core) + behind, operand
        return operand, operand


def canonical(line):
    """(key, text) of a line of llvm-objdump, or None for what computes nothing."""
    line = re.sub(r"\s*//.*", "", line).strip()
    line = re.sub(r"\s*<[^>]*>\s*$", "", line)
    if not line or WITHOUT.match(line):
        return None
    halves = [h.strip() for h in line.split("::")]
    got = [Form(h, i).canonical() for i, h in enumerate(halves)]
    return " :: ".join(k for k, _ in got), " :: ".join(t for _, t in got)


def lines_of(path):
    with open(path, "rb") as file, tempfile.NamedTemporaryFile() as elf:
        data = file.read()
        elf.write(data[data.index(b"\x7fELF"):])
        elf.flush()
        ran = subprocess.run([OBJDUMP, "-d", "--no-show-raw-insn", elf.name], stdout=subprocess.PIPE, text=True, check=True)
    for line in ran.stdout.splitlines():
        if line.startswith("\t"):
            yield line


def main():
    counts, texts = collections.defaultdict(collections.Counter), collections.defaultdict(collections.Counter)
    names = []
    for argument in sys.argv[1:]:
        name, folder = argument.split("=", 1)
        names.append(name)
        for file in sorted(os.listdir(folder)):
            for line in lines_of(os.path.join(folder, file)):
                got = canonical(line)
                if got:
                    counts[got[0]][name] += 1
                    texts[got[0]][got[1]] += 1
    with open(os.path.join(HERE, "forms.txt"), "w") as out:
        out.write("# The forms of instructions in all kernels of Yoke, and how often each occurs. Made by forms.py.\n")
        for key in sorted(counts):
            text = min(texts[key], key=lambda t: (-texts[key][t], t))
            out.write("%s ; %s\n" % (text, " ".join("%s=%d" % (n, counts[key][n]) for n in names if counts[key][n])))
    print("%d forms, %d instructions" % (len(counts), sum(sum(c.values()) for c in counts.values())))


if __name__ == "__main__":
    main()
