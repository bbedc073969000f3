# SPDX-License-Identifier: Apache-2.0
# For the tests of yoke report: run it, and read its pages back. Prints TAP.
import base64, hashlib, os, random, re, shutil, subprocess, sys, tempfile
import xml.etree.ElementTree as tree


class Suite:
    """A series of checks, in a folder of its own. The folder stays if a check fails."""

    def __init__(self, yoke):
        self.yoke, self.n, self.bad = os.path.abspath(yoke), 0, 0
        self.seed = int(os.environ.get("YOKE_SEED", "0")) or random.randrange(1 << 30)
        self.draw = random.Random(self.seed)
        print("# seed", self.seed)
        self.work = tempfile.mkdtemp(prefix="yoke-report.")
        os.chdir(self.work)

    def ok(self, passed, name, detail=""):
        self.n += 1
        self.bad += not passed
        print(("ok" if passed else "not ok"), self.n, "-", name, flush=True)
        if not passed:
            print("#   " + str(detail)[:2000].replace("\n", "\n#   "), flush=True)

    def call(self, *words):
        got = subprocess.run([self.yoke, *words], stdin=subprocess.DEVNULL, capture_output=True)
        return got.returncode, got.stdout.decode(errors="replace"), got.stderr.decode(errors="replace")

    def report(self, *words):
        return self.call("report", *words)

    def page(self, *words, code=0):
        """The page as a tree, and its text. It must be well-formed, and refer to nothing outside."""
        got, text, error = self.report(*words)
        name = " ".join(w[:40] for w in words[:8]).replace("\n", " ")
        try:
            root = parse(text)
        except tree.ParseError as e:
            self.ok(False, name + ": the page is well-formed", (e, got, error, text[:500]))
            return None, text
        self.ok(got == code and not outside(root), "%s: exit %d, nothing outside" % (name, code), (got, outside(root), error))
        return root, text

    def end(self):
        print("1..%d" % self.n)
        os.chdir("/")
        if not self.bad:
            shutil.rmtree(self.work)
        sys.exit(self.bad > 0)


def parse(text):
    return tree.fromstring(text.replace("<!DOCTYPE html>\n", ""))


def outside(root):
    """What on a page refers to something outside, or may run. The policy of the page has the hash of its own script."""
    found = re.findall(r"@import|url\(", "".join(root.find("head").find("style").itertext()))
    policy = next((m.get("content") for m in root.iter("meta") if m.get("http-equiv") == "Content-Security-Policy"), "")
    found += [] if policy.startswith("default-src 'none';") else ["no policy"]
    for e in root.iter():
        found += [e.tag] if e.tag in ("link", "img", "iframe", "object", "use", "a", "base") else []
        if e.tag == "script":
            own = "'sha256-%s'" % base64.b64encode(hashlib.sha256((e.text or "").encode()).digest()).decode()
            found += [] if own in policy and not e.attrib else ["a script that the policy forbids"]
        found += ["%s=%s" % a for a in e.attrib.items()
                  if a[0][:2] == "on" or a[0] in ("src", "href") or ":/" in a[1] or ("url(" in a[1] and "url(#" not in a[1])]
    return found


def cell(c):
    """A number is the value of its <data>. A cell with several is the list of them."""
    found = [float(d.get("value")) for d in c.iter("data")]
    return "".join(c.itertext()) if not found else found[0] if len(found) == 1 else found


def tables(root):
    """Each table as a list of rows."""
    return [[[cell(c) for c in r] for r in t.iter("tr")] for t in root.iter("table")]


def table(root, first, *others):
    """The first table, with its heads, whose first column has this head, and which has the other heads too."""
    return next(t for t in tables(root) if t[0][0] == first and all(h in t[0] for h in others))


def charts(root):
    """Title, description and drawing of each chart."""
    return [("".join(s.find("title").itertext()), "".join(s.find("desc").itertext()), s)
            for s in root.iter("svg") if s.get("role") == "img"]


def close(a, b, relative=1e-12):
    return a == b or (isinstance(a, float) and abs(a - b) <= relative * max(abs(a), abs(b)))
