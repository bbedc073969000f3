# SPDX-License-Identifier: Apache-2.0
"""Evaluates AMD's pseudocode of instructions, as the ISA documents have it.

A value is a kind (u, i, f or b), a width and bits. What the evaluator does not know is an error that names it,
so an instruction that it evaluates was understood as a whole.
"""
import re
from fractions import Fraction

import floats


class Value:
    def __init__(self, kind, width, bits):
        self.kind, self.width, self.bits = kind, width, bits & ((1 << width) - 1)

    def number(self):
        if self.kind == "i" and self.bits >> (self.width - 1) & 1:
            return self.bits - (1 << self.width)
        return self.bits

    def true(self):
        return self.bits != 0

    def __repr__(self):
        return "%s%d:%x" % (self.kind, self.width, self.bits)


class Unknown(Exception):
    pass


class Break(Exception):
    pass


class Return(Exception):
    pass


TOKEN = re.compile(r"""
    (?P<cast>\d+'[UIFB](?![0-9.]))
  | (?P<sized>\d+'-?(?:0x[0-9a-fA-F]+|\d+\.\d+|\d+)[UIFB]?)
  | (?P<number>0x[0-9a-fA-F]+(?:ULL|LL|U)?|\d+\.\d+F?|\d+(?:ULL|LL|U)?)
  | (?P<type>\.[uifb]\d+|\.bf16|\.[a-z]\d+)
  | (?P<name>[A-Za-z_][A-Za-z_0-9]*(?:\.[A-Z_]+)?)
  | (?P<op><<|>>|<=|>=|==|!=|<>|&&|\|\||\*\*|\+=|-=|\+:|[-+*/%!~&|^<>=?:;,(){}\[\]])
""", re.X)
WORDS = {"if", "then", "elsif", "else", "endif", "for", "in", "do", "endfor", "break", "declare", "return", "lambda"}


def tokens(text):
    text = re.sub(r"//[^\n]*", "", text)
    result, at = [], 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        m = TOKEN.match(text, at)
        if not m:
            raise Unknown("a character %r" % text[at:at + 20])
        kind = m.lastgroup
        if kind == "name" and m.group() in WORDS and (m.group() != "in" or (len(result) > 1 and result[-2][1] == "for")):
            kind = "word"
        result.append((kind, m.group()))
        at = m.end()
    return result + [("end", "")]


LEVELS = [["||"], ["&&"], ["|"], ["^"], ["&"], ["==", "!=", "<>"], ["<", ">", "<=", ">="], ["<<", ">>"], ["+", "-"],
          ["*", "/", "%"], ["**"]]


class Parser:
    def __init__(self, text):
        self.t, self.at = tokens(text), 0

    def see(self, word):
        return self.t[self.at][1] == word and self.t[self.at][0] in ("op", "word")

    def accept(self, word):
        if self.see(word):
            self.at += 1
            return True
        return False

    def expect(self, word):
        if not self.accept(word):
            raise Unknown("'%s' where '%s' is expected" % (self.t[self.at][1], word))

    def take(self, kind):
        got = self.t[self.at]
        if got[0] != kind:
            raise Unknown("'%s' where a %s is expected" % (got[1], kind))
        self.at += 1
        return got[1]

    def body(self, *ends):
        result = []
        while True:
            while self.accept(";"):
                pass
            if self.t[self.at][0] == "end" or any(self.see(e) for e in ends):
                return result
            result.append(self.statement())

    def statement(self):
        if self.accept("if"):
            arms, other = [], []
            condition = self.expression()
            self.expect("then")
            arms.append((condition, self.body("elsif", "else", "endif")))
            while self.accept("elsif"):
                condition = self.expression()
                self.expect("then")
                arms.append((condition, self.body("elsif", "else", "endif")))
            if self.accept("else"):
                other = self.body("endif")
            self.expect("endif")
            return ("if", arms, other)
        if self.accept("for"):
            name = self.take("name")
            self.expect("in")
            first = self.level(0)
            self.expect(":")
            last = self.expression()
            self.expect("do")
            body = self.body("endfor")
            self.expect("endfor")
            return ("for", name, first, last, body)
        if self.accept("break"):
            return ("break",)
        if self.accept("return"):
            return ("return", self.expression())
        if self.accept("declare"):
            name = self.take("name")
            self.expect(":")
            width, kind = self.take("cast").split("'")
            count = None
            if self.accept("["):
                count = self.expression()
                self.expect("]")
            return ("declare", name, kind.lower(), int(width), count)
        target = self.postfix()
        if self.accept("="):
            if self.accept("lambda"):
                return self.function(target)
            targets, value = [target], self.expression()
            while self.accept("="):
                targets.append(value)
                value = self.expression()
            return ("set", targets, value)
        for op in ("+=", "-="):
            if self.accept(op):
                return ("set", [target], ("binary", op[0], target, self.expression()))
        raise Unknown("a statement at '%s'" % self.t[self.at][1])

    def function(self, target):
        self.expect("(")
        names = []
        while not self.accept(")"):
            names.append(self.take("name"))
            self.accept(",")
        self.expect("(")
        words = any(self.see(w) for w in ("declare", "if", "for", "return"))
        body = self.body(")") if words else [("return", self.expression())]
        self.expect(")")
        return ("lambda", target[1], names, body)

    def expression(self):
        condition = self.level(0)
        if self.accept("?"):
            yes = self.expression()
            self.expect(":")
            return ("choose", condition, yes, self.expression())
        return condition

    def level(self, n):
        if n == len(LEVELS):
            return self.unary()
        left = self.level(n + 1)
        while any(self.see(op) for op in LEVELS[n]):
            op = self.t[self.at][1]
            self.at += 1
            left = ("binary", op, left, self.level(n + 1))
        return left

    def unary(self):
        for op in "!~-+":
            if self.accept(op):
                return ("unary", op, self.unary())
        return self.postfix()

    def postfix(self):
        node = self.primary()
        while True:
            if self.t[self.at][0] == "type":
                node = ("as", node, self.take("type")[1:])
            elif self.accept("["):
                first = self.expression()
                if self.accept(":"):
                    node = ("range", node, first, self.expression())
                elif self.accept("+:"):
                    node = ("from", node, first, self.expression())
                else:
                    node = ("index", node, first)
                self.expect("]")
            else:
                return node

    def primary(self):
        kind, word = self.t[self.at]
        if self.accept("("):
            inside = self.expression()
            self.expect(")")
            return inside
        if self.accept("{"):
            parts = [self.expression()]
            while self.accept(","):
                parts.append(self.expression())
            self.expect("}")
            return ("join", parts)
        self.at += 1
        if kind == "cast":
            self.expect("(")
            inside = self.expression()
            self.expect(")")
            width, to = word.split("'")
            return ("cast", to.lower(), int(width), inside)
        if kind == "sized":
            width, text = word.split("'")
            return ("literal", literal(text, int(width)))
        if kind == "number":
            return ("literal", literal(word, None))
        if kind == "name":
            if self.accept("("):
                arguments = []
                while not self.accept(")"):
                    arguments.append(self.expression())
                    self.accept(",")
                return ("call", word, arguments)
            return ("name", word)
        raise Unknown("'%s' in an expression" % word)


def literal(text, width):
    if "." in text:
        width = width or (32 if text.endswith("F") else 64)
        return Value("f", width, floats.encode(Fraction(text.rstrip("F")), width))
    m = re.match(r"(-?(?:0x[0-9a-fA-F]+|\d+))(ULL|LL|U|I|B|F)?$", text)
    number, suffix = int(m.group(1), 0), m.group(2) or ""
    if not width:
        width = 64 if "LL" in suffix or number >> 32 else 32
    return Value("u" if suffix.startswith("U") else "i", width, number)


def flag(condition):
    return Value("u", 1, int(bool(condition)))


def as_float(v, width):
    if v.kind == "f":
        return floats.convert(v.bits, v.width, width)
    return floats.encode(Fraction(v.number()), width)


def unary_op(op, v):
    if op == "!":
        return flag(not v.true())
    if op == "~":
        return Value(v.kind, v.width, ~v.bits)
    if op == "-":
        return Value("f", v.width, v.bits ^ 1 << (v.width - 1)) if v.kind == "f" else Value(v.kind, v.width, -v.bits)
    return v


def float_op(op, a, b):
    # A literal does not widen an operation.
    width = max(a.width if a.kind == "f" else 0, b.width if b.kind == "f" else 0)
    x, y = as_float(a, width), as_float(b, width)
    if op == "+":
        return Value("f", width, floats.add(x, y, width))
    if op == "-":
        return Value("f", width, floats.add(x, y ^ 1 << (width - 1), width))
    if op == "*":
        return Value("f", width, floats.multiply(x, y, width))
    if op == "/":
        return Value("f", width, floats.divide(x, y, width))
    order = floats.compare(x, y, width)
    return flag({"==": order == 0, "!=": order != 0, "<>": order in (-1, 1), "<": order == -1, ">": order == 1,
                 "<=": order in (-1, 0), ">=": order in (1, 0)}[op])


def binary_op(op, a, b):
    if op == "&&":
        return flag(a.true() and b.true())
    if op == "||":
        return flag(a.true() or b.true())
    if "f" in (a.kind, b.kind):
        if op == "**":
            n = b.number()
            return Value("f", a.width, floats.scale(floats.encode(Fraction(1), a.width), n, a.width))
        return float_op(op, a, b)
    if op == "<<":
        return Value(a.kind, a.width, a.bits << b.bits if b.bits < 4096 else 0)
    if op == ">>":
        return Value(a.kind, a.width, a.number() >> min(b.bits, 4096))
    width, kind = max(a.width, b.width), "i" if a.kind == b.kind == "i" else "u"
    x, y = Value(kind, width, a.number()).number(), Value(kind, width, b.number()).number()
    if op in ("+", "-", "*", "&", "|", "^"):
        return Value(kind, width, {"+": x + y, "-": x - y, "*": x * y, "&": x & y, "|": x | y, "^": x ^ y}[op])
    return flag({"==": x == y, "!=": x != y, "<>": x != y, "<": x < y, ">": x > y, "<=": x <= y, ">=": x >= y}[op])


def quiet(v):
    return Value("f", v.width, v.bits | 1 << (floats.MANTISSA[v.width] - 1)) if floats.is_nan(v.bits, v.width) else v


def exponent(v):
    return Value("i", 32, floats.fields(v.bits, v.width)[1])


def conversion(name):
    """f32_to_u32 and its like, or None."""
    m = re.match(r"([fiu])(\d+)_to_([fiu])(\d+)$", name)
    if not m:
        return None
    a, n, b, to = m.group(1), int(m.group(2)), m.group(3), int(m.group(4))

    def run(v):
        if a == "f" and b == "f":
            return quiet(Value("f", to, floats.convert(v.bits, n, to)))
        if a == "f":
            return Value(b, to, floats.to_integer(v.bits, n, to, b == "i"))
        return Value("f", to, floats.encode(Fraction(Value(a, n, v.number()).number()), to))
    return run


def extremum(name):
    """v_min_i32, v_max3_u32 and their like, or None."""
    m = re.match(r"v_(min|max)3?_([iu])(\d+)$", name)
    if not m:
        return None
    choose = min if m.group(1) == "min" else max
    return lambda *vs: Value(m.group(2), int(m.group(3)),
                             choose(Value(m.group(2), int(m.group(3)), v.bits).number() for v in vs))


FUNCTIONS = {
    "fma": lambda a, b, c: Value("f", a.width, floats.fma(a.bits, b.bits, c.bits, a.width)),
    "abs": lambda a: Value("f", a.width, a.bits & ~(1 << (a.width - 1))) if a.kind == "f" else Value(a.kind, a.width, abs(a.number())),
    "floor": lambda a: Value("f", a.width, floats.whole(a.bits, a.width, "floor")),
    "trunc": lambda a: Value("f", a.width, floats.whole(a.bits, a.width, "trunc")),
    "sqrt": lambda a: Value("f", a.width, floats.square_root(a.bits, a.width)),
    "ldexp": lambda a, n: Value("f", a.width, floats.scale(a.bits, n.number(), a.width)),
    "sign": lambda a: flag(a.bits >> (a.width - 1)),
    "exponent": exponent,
    "isNAN": lambda a: flag(floats.is_nan(a.bits, a.width)),
    "isSignalNAN": lambda a: flag(floats.is_signaling(a.bits, a.width)),
    "isQuietNAN": lambda a: flag(floats.is_nan(a.bits, a.width) and not floats.is_signaling(a.bits, a.width)),
    "cvtToQuietNAN": quiet,
    "signext": lambda a: Value("i", 64, Value("i", a.width, a.bits).number()),
    "signext_from_bit": lambda a, n: Value("i", a.width, Value("i", n.bits, a.bits).number() if n.bits else 0),
}


class Machine:
    """The variables of one evaluation. Sources and old destinations come in, destinations are read from it."""

    def __init__(self, variables):
        self.v, self.functions = dict(variables), {}

    def run(self, body):
        for s in body:
            getattr(self, "do_" + s[0])(*s[1:])

    def do_if(self, arms, other):
        for condition, body in arms:
            if self.value(condition).true():
                return self.run(body)
        return self.run(other)

    def do_for(self, name, first, last, body):
        first, last = self.value(first), self.value(last)
        try:
            for i in range(first.number(), last.number() + 1):
                self.v[name] = Value(first.kind, first.width, i)
                self.run(body)
        except Break:
            pass

    def do_break(self):
        raise Break

    def do_return(self, expression):
        raise Return(self.value(expression))

    def do_declare(self, name, kind, width, count):
        if name == "S" and "S0" in self.v:
            self.v[name] = [self.v.get("S%d" % i, Value("b", 32, 0)) for i in range(3)]
        elif count is not None:
            self.v[name] = [Value(kind, width, 0) for _ in range(self.value(count).bits)]
        else:
            self.v[name] = Value(kind, width, 0)

    def do_lambda(self, name, names, body):
        self.functions[name] = (names, body)

    def do_set(self, targets, expression):
        value = self.value(expression)
        for target in reversed(targets):
            self.store(target, value)

    # ---- targets ----

    def store(self, target, value):
        if target[0] == "name":
            old = self.v.get(target[1])
            fixed = target[1] in ("D0", "VCC", "EXEC", "SCC") and old
            self.v[target[1]] = Value(old.kind, old.width, value.number()) if fixed else value
        elif target[0] == "join":
            at = 0
            for part in reversed(target[1]):
                width = int(part[2][1:])
                self.store(part, Value("b", width, value.bits >> at))
                at += width
        elif target[0] == "as":
            kind, width = target[2][0], int(re.sub(r"\D", "", target[2]))
            value = Value(kind, width, value.bits if value.kind == "f" else value.number())
            if target[1][0] == "name" and not isinstance(self.v.get(target[1][1]), Value):
                self.v[target[1][1]] = value
            elif target[1][0] == "name":
                old = self.v[target[1][1]]
                self.v[target[1][1]] = Value(old.kind, old.width, value.bits) if old.width >= width else value
            else:
                self.store(target[1], value)
        elif target[0] in ("range", "from", "index"):
            self.store_part(target, value)
        else:
            raise Unknown("a target %r" % (target,))

    def store_part(self, target, value):
        place, first = target[1], self.value(target[2])
        while place[0] == "as":
            place = place[1]
        if place[0] != "name":
            raise Unknown("a target %r" % (place,))
        old = self.v.get(place[1], Value("b", 64, 0))
        if isinstance(old, list):
            old[first.bits] = value
            return
        last = self.value(target[3]) if len(target) > 3 else first
        if target[0] == "from":
            low, width = first.bits, last.bits
        else:
            low, width = min(first.bits, last.bits), abs(first.bits - last.bits) + 1
        bits = value.bits
        if target[0] == "range" and first.bits < last.bits:
            bits = int(format(bits & ((1 << width) - 1), "0%db" % width)[::-1], 2)
        mask = ((1 << width) - 1) << low
        self.v[place[1]] = Value(old.kind, old.width, (old.bits & ~mask) | (bits << low & mask))

    # ---- expressions ----

    def value(self, node):
        return getattr(self, "get_" + node[0])(*node[1:])

    def get_literal(self, value):
        return value

    def get_name(self, name):
        constants = {"INF": floats.infinity(64), "NAN": floats.quiet_nan(64)}
        if name in self.v:
            return self.v[name]
        if name in ("UNDERFLOW_F32", "OVERFLOW_F32"):
            return Value("f", 32, 0 if name[0] == "U" else floats.infinity(32))
        if name in constants:
            return Value("f", 64, constants[name])
        if name == "WAVE_MODE.IEEE":
            return flag(1)
        raise Unknown("the name %s" % name)

    def get_as(self, node, kind):
        width = int(re.sub(r"\D", "", kind))
        if kind.startswith("bf"):
            raise Unknown("the type %s" % kind)
        v = self.value(node)
        if node[0] == "name" and node[1] in ("INF", "NAN") and node[1] not in self.v:
            return Value("f", width, floats.convert(v.bits, 64, width))
        return Value(kind[0], width, v.bits)

    def get_index(self, node, index):
        base, i = self.value(node), self.value(index)
        if isinstance(base, list):
            return base[i.bits]
        return Value("u", 1, base.bits >> i.bits if i.bits < base.width else 0)

    def get_range(self, node, first, last):
        base, a, b = self.value(node), self.value(first).bits, self.value(last).bits
        width = abs(a - b) + 1
        bits = base.bits >> min(a, b) & ((1 << width) - 1)
        if a < b:
            bits = int(format(bits, "0%db" % width)[::-1], 2)
        return Value("u", width, bits)

    def get_from(self, node, first, width):
        base, a, n = self.value(node), self.value(first).bits, self.value(width).bits
        return Value("u", n, base.bits >> a)

    def get_join(self, parts):
        bits, width = 0, 0
        for part in parts:
            v = self.value(part)
            bits, width = bits << v.width | v.bits, width + v.width
        return Value("b", width, bits)

    def get_cast(self, kind, width, node):
        v = self.value(node)
        if kind == "f" and v.kind == "f":
            return Value("f", width, floats.convert(v.bits, v.width, width))
        return Value(kind, width, v.bits if kind == "f" else v.number())

    def get_choose(self, condition, yes, no):
        return self.value(yes if self.value(condition).true() else no)

    def get_unary(self, op, node):
        return unary_op(op, self.value(node))

    def get_binary(self, op, a, b):
        return binary_op(op, self.value(a), self.value(b))

    def get_call(self, name, arguments):
        values = [self.value(a) for a in arguments]
        if name in self.functions:
            names, body = self.functions[name]
            inner = Machine({**self.v, **dict(zip(names, values))})
            inner.functions = self.functions
            try:
                inner.run(body)
            except Return as result:
                return result.args[0]
            raise Unknown("a function without a result")
        known = FUNCTIONS.get(name) or conversion(name) or extremum(name)
        if not known:
            raise Unknown("the function %s" % name)
        return known(*values)


def compiled(text):
    parser = Parser(text)
    body = parser.body()
    if parser.t[parser.at][0] != "end":
        raise Unknown("'%s' behind the end" % parser.t[parser.at][1])
    return body
