#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Golden files of the byte-level tokenizer, made by Hugging Face's `tokenizers` (Python package tokenizers, 0.23).

Trains two small tokenizers on licences that Debian installs, one as GPT-2's and one as Llama 3's, and writes next to this file:

tokenizer_gpt2.json     byte-level BPE with GPT-2's pattern, merges as lists, an added token with each flag
tokenizer_llama3.json   Llama 3's pattern and template, ignore_merges, merges as texts, special tokens behind the vocabulary
tokenizer_expected.json the tokens of texts that are hard to cut, by each tokenizer and by other pre-tokenizers;
                        and which characters are \\p{L}, \\p{N}, \\s, characters of a word, and those that NFC changes,
                        as lengths of runs

usage: make_tokenizer.py [DIR]        without DIR: beside this script
"""
import json
import os
import sys
import unicodedata

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TEXTS = ["/usr/share/common-licenses/GPL-3", "/usr/share/common-licenses/Apache-2.0"]


def texts():
    """What is encoded. Every character below U+0800 is in one of them, so every single byte that is valid."""
    long_word = "".join("abcdefghijklmnopqrstuvwxyz"[(i * i // 7 + i) % 26] for i in range(1200))
    return [
        "", " ", "  ", "a", " a", "a ", "Hello, world!", "This program is free software: you can redistribute it and/or modify it",
        "I'm you're we've he'll she'd it's don't I'M YOU'RE WE'VE HE'LL SHE'D IT'S DON'T it'\u017f 'x '", "''s'tt", "O'Reilly's l'\u00e9t\u00e9",
        "a  b   c    d     e", "   three before", "after three   ", "tab\tand\t\ttabs", "\ttab first", "line\nline\n\nline\n\n\nend\n", "\n", "\n\n", " \n \n ",
        "dos\r\nlines\r\n\r\nend\r\n", "\r\r\n", "old\rmac", "form\ffeed\vtab", "trailing \t \n  mixed\n   \n\tx",
        "0", "12", "123", "1234", "1234567890", "3.14159", "1,000,000", "a1b22c333", "\u0661\u0662\u0663\u0664", "\u216b \u00bd \u00b2\u00b3 x\u2074",
        "snake_case camelCase kebab-case SCREAMING_SNAKE", "f(x) = a*b + c/d; // ok", "{}[]()<>!@#$%^&*-=+|\\;:'\",.?/~`", "!!!???...", "https://example.org/a?b=c#d",
        "\u4f60\u597d\uff0c\u4e16\u754c\u3002", "\u3053\u3093\u306b\u3061\u306f \u30ab\u30bf\u30ab\u30ca", "\ud55c\uad6d\uc5b4 \uc785\ub2c8\ub2e4", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35",
        "\u0928\u092e\u0938\u094d\u0924\u0947", "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645", "\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd \u05e2\u05d5\u05dc\u05dd",
        "abc\u200f\u05d0\u05d1\u05d2\u200e def", "\U0001f600 \U0001f44d\U0001f3fd \U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f1e9\U0001f1ea \u2764\ufe0f",
        "e\u0301 \u00e9 n\u0303 a\u0308\u0304 Z\u0351\u036b\u0343\u036a\u0302\u036b", "\u0130\u0131 \u017f\u212a \u01c5 \ufb01\ufb02", "\u00a0\u2003\u202f\u3000x\u2028y\u2029z\u0085w\u180ev\ufeffu",
        "\u200b\u200c\u200d\u2060", "\u0000\u0001\u001f\u007f", "\U0010ffff\U000e0001\ufffd\ufffe", "\u01c4\u1f88\u2160\U0001d400\U0001d7ce",
        "<|endoftext|>", "a<|endoftext|>b", " <|endoftext|> ", "<|endoftext|><|endoftext|>", "<|endoftext|", "<|endof<|endoftext|>text|>", "<|endoftextt|>",
        "<|begin_of_text|>Hi<|end_of_text|>", "<|start_header_id|>user<|end_header_id|>\n\nHi there<|eot_id|>",
        "WORD WORDS aWORD WORD. _WORD WORD\u0301 \u00e9WORD WORD", "x  LEFT  y LEFT", "x  RIGHT  y RIGHT ", "x \u3000 BOTH \t y BOTH", "LEFT  RIGHT  BOTH  LEFT",
        "LON LONG LONGER LONGEST LONGES", "  <|endoftext|>  indented", long_word, long_word[:700].upper() + " " + long_word[:700], "a" * 2000, " " * 1500 + "x",
        "\n" * 300, "=" * 333, "\U0001f600" * 100, "ab" * 500,
        "".join(map(chr, range(0x80))), "".join(map(chr, range(0x80, 0x800))),
    ]


def small_texts():
    """For the other pre-tokenizers."""
    return ["", "a", "Hello  World, 123 4567!", " a1 b22\n\n c333 ", "x\u00b2y\u00b3 \u0661\u0662", "no digits here", "42", "--a--b--", "- -", "\u00e9t\u00e9 \U0001f600 1", "a<|endoftext|>b 1"]


def train(vocab_size, split, special, add):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = split
    t.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    t.train_from_iterator([open(p, encoding="utf-8").read() for p in TEXTS], trainer)
    t.add_tokens(add)
    return t


def gpt2():
    t = train(700, pre_tokenizers.ByteLevel(add_prefix_space=False), ["<|endoftext|>"],
              [AddedToken("WORD", single_word=True, normalized=False), AddedToken("LEFT", lstrip=True, normalized=False), AddedToken("RIGHT", rstrip=True, normalized=True),
               AddedToken("BOTH", lstrip=True, rstrip=True, normalized=False), AddedToken("LON", normalized=False), AddedToken("LONGEST", normalized=False),
               AddedToken("LONG", normalized=True), AddedToken("LONGER", normalized=True)])
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    return json.loads(t.to_str())


def llama3():
    split = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated", False), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t = train(800, split, [], [])
    t.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"])
    begin = t.token_to_id("<|begin_of_text|>")
    t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=True), processors.TemplateProcessing(
        single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|>:1 $B:1", special_tokens=[("<|begin_of_text|>", begin)])])
    made = json.loads(t.to_str())
    # As Llama 3 has it: some words are in the vocabulary that no merge leads to.
    made["model"]["ignore_merges"] = True
    for word in ["\u0120redistribute", "modifying", "1234", "\u010a\u010a"]:
        if word not in made["model"]["vocab"]:
            spare = next(w for w, i in sorted(made["model"]["vocab"].items(), key=lambda x: -x[1])
                         if len(w) > 3 and not any(w in m for m in made["model"]["merges"]))
            made["model"]["merges"] = [m for m in made["model"]["merges"] if "".join(m) != spare]
            made["model"]["vocab"][word] = made["model"]["vocab"].pop(spare)
    made["model"]["merges"] = [" ".join(m) for m in made["model"]["merges"]]
    return made


def others():
    """Pre-tokenizers that neither of the two has, as they stand in a file; all with the first vocabulary."""
    def split(pattern, behavior, invert=False):
        return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}
    plain = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    made = {"prefix": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
            "digits, each": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, dict(plain, use_regex=True)]},
            "digits, runs, prefix": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": False}, dict(plain, use_regex=True, add_prefix_space=True)]},
            "behind the bytes": {"type": "Sequence", "pretokenizers": [dict(plain, use_regex=True), {"type": "Digits", "individual_digits": True}, split({"String": "\u0120"}, "MergedWithNext")]}}
    for behavior in ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]:
        for invert in (False, True):
            made[f"{behavior} {invert}"] = {"type": "Sequence", "pretokenizers": [split({"Regex": r"-|\d"}, behavior, invert), plain]}
    made["plain text"] = {"type": "Sequence", "pretokenizers": [split({"String": "--"}, "Isolated"), plain]}
    return made


def matches(pattern):
    split = pre_tokenizers.Split(Regex(pattern), "removed", False)
    return lambda char: not split.pre_tokenize_str(char)


def is_word():
    """Characters beside which a token with single_word is not found."""
    t = Tokenizer(models.BPE())
    t.add_tokens([AddedToken("X", single_word=True, normalized=False)])
    return lambda char: not t.encode(char + "X").ids


def changed_by_nfc():
    """Characters that NFC replaces, orders, or joins with the one before them; Hangul's vowels and finals, too."""
    joined = {part for code in range(0x110000) for part in unicodedata.decomposition(chr(code)).split()[1:] if not unicodedata.decomposition(chr(code)).startswith("<")}
    joined = {int(part, 16) for part in joined} | set(range(0x1161, 0x1176)) | set(range(0x11a8, 0x11c3))
    return lambda char: ord(char) in joined or unicodedata.combining(char) or unicodedata.normalize("NFC", char) != char


def ranges(holds):
    """Characters for which it holds: for how many it does not, for how many it does, for how many it does not, ..., from U+0000 on."""
    found, last = [], -1
    for code in range(0x110000):
        if 0xd800 <= code < 0xe000 or not holds(chr(code)):
            continue
        if found and code == last + 1:
            found[-1] += 1
        else:
            found += [code - last - 1, 1]
        last = code
    return found


def encode(file, text_list):
    t = Tokenizer.from_str(json.dumps(file))
    return [t.encode(text, add_special_tokens=False).ids for text in text_list], [t.encode(text).ids for text in text_list[:8]]


def write(folder, name, value):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="ascii") as out:
        json.dump(value, out, separators=(",", ":"))
        out.write("\n")
    print(path, os.path.getsize(path), "bytes")


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    files = {"gpt2": gpt2(), "llama3": llama3()}
    for name, file in files.items():
        write(folder, f"tokenizer_{name}.json", file)
    cases = []
    for name, file in files.items():
        ids, template = encode(file, texts())
        cases.append({"name": name, "pre_tokenizer": None, "ids": ids, "template": template})
    for name, pre in others().items():
        ids, _ = encode(dict(files["gpt2"], pre_tokenizer=pre), small_texts())
        cases.append({"name": name, "pre_tokenizer": pre, "ids": ids})
    write(folder, "tokenizer_expected.json", {
        "made_by": f"tokenizers {tokenizers.__version__}, Unicode {unicodedata.unidata_version}", "texts": texts(), "small_texts": small_texts(), "cases": cases,
        "classes": dict({p: ranges(matches(p)) for p in (r"\p{L}", r"\p{N}", r"\d", r"\s")}, word=ranges(is_word()), **{"nfc changes": ranges(changed_by_nfc())})})


if __name__ == "__main__":
    main()
