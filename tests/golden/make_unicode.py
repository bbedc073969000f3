#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The characters that Hugging Face's `tokenizers` knows beyond Unicode 14, and how it cuts text with them.

Patterns of tokenizers are cut by PCRE2 in Yoke, whose oldest supported version (10.40) knows Unicode 14. The package
tokenizers has the tables of a newer version in it. This script asks it for the class of every character, and writes:

train/text/bpe_unicode_table.h      the characters that are new or of another class since Unicode 14, as a C table; and
                                    those that the normalizer NFC changes
tests/golden/unicode_expected.json  texts with such characters, and the lengths in bytes of the pieces into which
                                    patterns cut them; a tokenizer whose tokens show where it cuts, and its tokens

The committed files were made with tokenizers 0.23.3, whose classes are those of Unicode 16. Its step `Digits` knows the
numbers of Unicode 17. Run the script again for a newer version of tokenizers. It takes some minutes, and needs a Python
whose unicodedata has Unicode 14 (3.11), because the table begins where Unicode 14 ends.

usage: make_unicode.py
"""
import json
import os
import unicodedata

import tokenizers
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

HERE = os.path.dirname(os.path.abspath(__file__))
CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co Cn".split()
ALL = [code for code in range(0x110000) if not 0xd800 <= code < 0xe000]
WHOLE = "".join(map(chr, ALL))
SPACES = {*range(9, 14), 0x20, 0x85, 0xa0, 0x1680, *range(0x2000, 0x200b), 0x2028, 0x2029, 0x202f, 0x205f, 0x3000}

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
PATTERNS = [
    GPT2, LLAMA3, O200K, r"\p{L}+", r"\P{L}+", r"\p{^L}+", r"\P{^N}+", r"[^\p{L}]+", r"[\P{L}]+", r"[^\P{L}]+", r"[\P{L}\P{N}a]+", r"[^\P{L}a]+", r"[^\P{N}\P{Nd}]+",
    r"\p{N}+", r"\p{Mn}+", r"\P{Mn}+", r"[^\p{Mn}\s]+", r"[\p{Mn}a]+", r"[\P{Mn}]+", r"\p{M}+", r"\p{Lu}+|\p{Ll}+|\p{Lm}+", r"\p{Cn}+", r"\P{Cn}+", r"[\p{C}a]+", r"[^\p{C}]+",
    r"\d+", r"\D+", r"[\Da]+", r"[^\D]+", r"\S+", r"[^\S]+", r"(?<=\p{L})[^\p{L}]", r"(?<!\P{N})a", r"\p{L}(?!\p{N})", r"\p{S}+|\p{P}+",
    "(?i:\u019b|\u0264)+", "(?i)\ua7dc", "(?i:\u1c8a)+|(?i:\U00010d50)", "(?i:[\u0250-\u0270])+", "(?i:[^\u019b\\s])+", "(?i:[\ua7da1])+", "(?i:s(?-i:\u019b)\u0264)",
    "(?i:[\\p{L}'])+", "(?i:[^\\p{L}])+", "\U00031350+", "[\U00031300-\U000313ff]+", "[\ua7dc-\ua7dd\U0002ebf0]+",
]
VERSIONS = {
    "15": [0x31350, 0x323af, 0x11f04, 0x11f50, 0x1e4d0, 0x1e030, 0xcf3, 0xece, 0x1e4f0, 0x1d2c0, 0x1fa75, 0x10efd],
    "15.1": [0x2ebf0, 0x2ee5d, 0x2ffc, 0x31ef],
    "16": [0xa7dc, 0xa7cb, 0xa7da, 0x1c89, 0x1c8a, 0x10d40, 0x10d50, 0x10d70, 0x105c0, 0x116d0, 0x1ccf0, 0x1e5d0, 0x897, 0x1171e, 0x16d40, 0x113b8, 0x1fae9],
    "17, unassigned and private": [0x11de0, 0xa7ce, 0x323b0, 0x378, 0xe0080, 0xe000, 0xf0000, 0x10fffd, 0xfffe],
}
CASE = "\u019b\ua7dc \u0264\ua7cb \ua7da\ua7db \u1c89\u1c8a \U00010d50\U00010d70 s\u019b\u0264 S\u019b\ua7cb s\ua7dc\u0264 1\ua7db\n"


def members(pattern):
    """The characters that a pattern of one character matches."""
    inside, found = set(range(len(ALL))), pre_tokenizers.Split(Regex(pattern), "removed", False).pre_tokenize_str(WHOLE)
    for _, (begin, end) in found:
        inside -= set(range(begin, end))
    return {ALL[i] for i in inside}


def ranges(codes, key=lambda code: None):
    found = []
    for code in sorted(codes):
        if found and found[-1][1] == code - 1 and found[-1][2] == key(code):
            found[-1][1] = code
        else:
            found.append([code, code, key(code)])
    return found


def lines(items):
    text, made = "   ", []
    for item in items:
        if len(text) + len(item) > 105:
            made.append(text)
            text = "   "
        text += " " + item + ","
    return "\n".join(made + [text])


def touched_by_nfc(marks):
    """Characters that NFC replaces, moves, or joins with the one before them. All others it leaves alone in any text of such.

    The library's NFC is that of an old Unicode. What Unicode 14 says is added, and so are newer marks: a newer library may move
    them, or join them with the character before.
    """
    nfc, nfd = normalizers.NFC().normalize_str, normalizers.NFD().normalize_str
    touched = set(marks)
    for code in ALL:
        char = chr(code)
        parts = nfd(char)
        touched.update(map(ord, parts[1:]), map(ord, unicodedata.normalize("NFD", char)[1:]))
        # moved before a mark of a lower class (U+0334 has class 1), or behind one of a higher class (U+0301 has 230)
        moved = parts == char and (nfd("a" + char + "\u0334") != "a" + char + "\u0334" or nfd("a\u0301" + char) != "a\u0301" + char)
        if moved or nfc(char) != char or unicodedata.normalize("NFC", char) != char or unicodedata.combining(char):
            touched.add(code)
    return touched


def c_table(category):
    new = {code for code in ALL if category[code] != unicodedata.category(chr(code))}
    cased = [code for code in new if category[code] in ("Lu", "Ll", "Lt")]
    pairs = sorted((code, other) for code in cased for other in members("(?i:" + chr(code) + ")") if other != code)
    digits = pre_tokenizers.Digits()
    more = [code for code in ALL if category[code][0] != "N" and len(digits.pre_tokenize_str("a" + chr(code))) == 2]
    literal = lambda code: '"' + "".join(f"\\x{byte:02x}" for byte in chr(code).encode()) + '"'
    more = " ".join(f'{literal(a)} "-" {literal(b)}' for a, b, _ in ranges(more))
    return f"""/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Made by tests/golden/make_unicode.py with tokenizers {tokenizers.__version__}: what this package knows beyond
 * Unicode {unicodedata.unidata_version}.
 */
#ifndef TRAIN_TEXT_BPE_UNICODE_TABLE_H
#define TRAIN_TEXT_BPE_UNICODE_TABLE_H

#include <stdint.h>

/* clang-format off */
/* Characters that are new or of another general category. */
static const struct {{
    uint32_t first, last;
    char category[3];
}} NEWER[] = {{
{lines([f'{{ 0x{a:x}, 0x{b:x}, "{key}" }}' for a, b, key in ranges(new, lambda code: category[code])])}
}};
/* A new letter, and a letter that differs from it only in case. */
static const uint32_t CASES[][2] = {{
{lines([f"{{ 0x{a:x}, 0x{b:x} }}" for a, b in pairs])}
}};
/* Characters that the normalizer NFC replaces, moves, or joins with the character before them. */
static const uint32_t NFC_TOUCHES[][2] = {{
{lines([f"{{ 0x{a:x}, 0x{b:x} }}" for a, b, _ in ranges(touched_by_nfc(code for code in new if category[code][0] == "M"))])}
}};
/* The characters that the step "Digits" takes. It has other tables than patterns have. */
#define DIGITS_PATTERN \\
    "[\\\\p{{N}}" {more} "]"
/* clang-format on */

#endif
"""


def text_of(codes):
    return "".join(f"'{c}s {c}1{c}2 !{c}\u0301\n{c}'Sa{c}a" for c in map(chr, codes))


def cut(pre_tokenizer, text):
    return [len(piece.encode()) for piece, _ in pre_tokenizer.pre_tokenize_str(text)]


def tokenizer(texts):
    """Merges lead across the borders of words, so the tokens show where a pre-tokenizer cuts."""
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(texts * 3, trainers.BpeTrainer(vocab_size=800, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated", False), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    return t


def write_expected():
    texts = {name: text_of(codes) for name, codes in VERSIONS.items()}
    texts["case"] = CASE
    t = tokenizer(list(texts.values()))
    digits = pre_tokenizers.Digits(individual_digits=True)
    with open(os.path.join(HERE, "unicode_expected.json"), "w", encoding="ascii") as out:
        json.dump({
            "made_by": f"tokenizers {tokenizers.__version__}", "texts": texts,
            "patterns": [{"pattern": pattern, "pieces": {name: cut(pre_tokenizers.Split(Regex(pattern), "isolated", False), text) for name, text in texts.items()}}
                         for pattern in PATTERNS],
            "digits": {name: cut(digits, text) for name, text in texts.items()},
            "tokenizer": json.loads(t.to_str()), "ids": {name: t.encode(text).ids for name, text in texts.items()},
        }, out, separators=(",", ":"))
        out.write("\n")


def main():
    if unicodedata.unidata_version != "14.0.0":
        raise SystemExit(f"this Python's unicodedata is Unicode {unicodedata.unidata_version}; 14.0.0 is needed")
    if members(r"\s") != SPACES:
        raise SystemExit(r"\s has other characters than Yoke's: see is_space in train/text/bpe_split.c")
    category = {}
    for name in CATEGORIES:
        category.update(dict.fromkeys(members(r"\p{%s}" % name), name))
    table = c_table(category)
    with open(os.path.join(HERE, "../../train/text/bpe_unicode_table.h"), "w", encoding="ascii") as out:
        out.write(table)
    write_expected()


if __name__ == "__main__":
    main()
