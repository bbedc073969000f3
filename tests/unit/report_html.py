# SPDX-License-Identifier: Apache-2.0
# For the tests of yoke report: run it, and read its pages back. A page must be well-formed and name nothing outside.
import re, subprocess
import xml.etree.ElementTree as tree


def run(yoke, *words):
    got = subprocess.run([yoke, *words], stdin=subprocess.DEVNULL, capture_output=True)
    return got.returncode, got.stdout.decode(), got.stderr.decode()


def parse(text):
    return tree.fromstring(text.replace("<!DOCTYPE html>\n", ""))


def outside(root):
    """What on a page refers to something outside, or could run."""
    found = re.findall(r"@import|url\(", "".join(root.find("head").find("style").itertext()))
    for e in root.iter():
        found += [e.tag] if e.tag in ("script", "link", "img", "iframe", "object", "use", "a", "base") else []
        found += ["%s=%s" % a for a in e.attrib.items() if a[0][:2] == "on" or a[0] in ("src", "href") or ":/" in a[1]]
    return found


def cell(c):
    """A number is the value of its <data>. A cell with several is the list of them."""
    found = [float(d.get("value")) for d in c.iter("data")]
    return "".join(c.itertext()) if not found else found[0] if len(found) == 1 else found


def tables(root):
    """Each table as a list of rows."""
    return [[[cell(c) for c in r] for r in t.iter("tr")] for t in root.iter("table")]


def table(root, first, second=None):
    return next(t for t in tables(root) if t[0][0] == first and (second is None or second in t[0]))


def charts(root):
    """Title, description and drawing of each chart."""
    return [("".join(s.find("title").itertext()), "".join(s.find("desc").itertext()), s)
            for s in root.iter("svg") if s.get("role") == "img"]


def close(a, b, relative=1e-12):
    return a == b or abs(a - b) <= relative * max(abs(a), abs(b))
