# SPDX-License-Identifier: Apache-2.0
"""What tests/hostile/files stands on: TAP, runs of the command, and good files of every kind. sys.argv[1] is the command."""
import concurrent.futures
import json
import os
import random
import resource
import select
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time

yoke = os.path.abspath(sys.argv[1])
soak = bool(os.environ.get("YOKE_SOAK"))
seed = int(os.environ.get("YOKE_TEST_SEED", "20260522"))
golden = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden")
workers = max(2, min(4, os.cpu_count() or 2))
PATIENCE = 400 # seconds until a run counts as hung: the machine may be busy
if os.environ.get("TEST_SANITIZE"):
    PATIENCE *= 4

work = os.path.realpath(tempfile.mkdtemp(prefix="yoke-hostile."))
os.chmod(work, 0o755) # another user looks into it
environment = dict(os.environ, OMP_NUM_THREADS="1", POCL_MAX_PTHREAD_COUNT="1", OPENBLAS_NUM_THREADS="1", OMP_WAIT_POLICY="passive", YOKE_TUNE_FILE="off",
                   XDG_CONFIG_HOME=work + "/config", HOME=work, LC_ALL="C.UTF-8")
for name in ("YOKE_SOAK", "YOKE_TEST_SEED", "YOKE_TEST_ONLY"):
    environment.pop(name, None) # they are for this script

# ---- TAP ----

n_tests, n_bad = 0, 0 # look at them as harness.n_tests


def result(name, problems):
    global n_tests, n_bad
    n_tests += 1
    n_bad += bool(problems)
    print(("not ok" if problems else "ok"), n_tests, "-", name)
    for line in problems[:20]:
        print("#  ", line.replace("\n", "\n#     "))
    sys.stdout.flush()


def skip(name, why):
    global n_tests
    n_tests += 1
    print("ok", n_tests, "-", name, "# SKIP", why)


# ---- runs ----

class Run:
    pass


def run(argv, prefix=(), env=None, stdout=None, limits=(), cwd=None, patience=None):
    """One run of the command: code (negative: a signal's), out and err; code is None where it hangs."""
    r = Run()
    r.argv = argv

    def limit():
        for what, value in limits:
            resource.setrlimit(what, (value, value))
    patience = patience or PATIENCE
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        # In a session of its own, so that nothing of it is left when it hangs.
        p = subprocess.Popen(list(prefix) + [yoke] + argv, stdin=subprocess.DEVNULL, stdout=stdout or out, stderr=err, env=dict(environment, **(env or {})),
                             preexec_fn=limit if limits else None, start_new_session=True, cwd=cwd or work)
        # It is not waited for before its group is killed: until then the group's number is its own.
        end = os.pidfd_open(p.pid)
        select.select([end], [], [], patience)
        os.close(end)
        ended = os.waitid(os.P_PID, p.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None or ended.si_code != os.CLD_EXITED:
            os.killpg(p.pid, signal.SIGKILL)
        r.code = p.wait()
        if ended is None:
            r.code = None
        for stream, name in ((out, "out"), (err, "err")):
            stream.seek(0)
            setattr(r, name, stream.read())
    r.text = r.err.decode("utf-8", "replace")
    return r


def crash_of(r):
    """What no run may do, or None."""
    if r.code is None:
        return "hangs"
    if r.code < 0 or r.code >= 126:
        return "is ended by a signal, or cannot run (%d)" % r.code
    for word in ("Sanitizer", "runtime error:", "Assertion"):
        if word in r.text:
            return "a report: " + r.text[-1500:]
    return None


def problem_of(r, codes, name=None):
    """None where the run ended with one of the codes and one error that names the path."""
    crash = crash_of(r)
    command = "yoke " + " ".join(r.argv)
    if crash:
        return "%s: %s" % (command, crash)
    if r.code not in codes:
        return "%s: code %d instead of %s: %s" % (command, r.code, " or ".join(map(str, codes)), r.text[-600:])
    if r.code and (r.text.count("yoke: error:") != 1 or (name and name not in r.text)):
        return "%s: one error that names '%s' is wanted: %s" % (command, name, r.text[-600:])
    return None


def must(argv, **more):
    r = run(argv, **more)
    if r.code != 0:
        print("Bail out! yoke %s: code %s: %s" % (" ".join(argv), r.code, r.text[-2000:]))
        sys.exit(1)
    return r


# ---- good files of every kind ----

def path(name):
    return os.path.join(work, name)


def put(name, data):
    full = path(name)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    with open(full, "wb") as f:
        f.write(data.encode() if isinstance(data, str) else data)
    return full


TRAIN = ["train", "--text", "book.txt", "--batch", "2", "--sequence", "16", "--steps", "2", "--sample", "0", "--peak", "off", "--balance", "equal"]


def make_good_files():
    put("book.txt", "".join("In the beginning was the word, and the word was number %d.\n" % i for i in range(200)))
    put("other.txt", "Another text, which no plan was made for. " * 100)
    put("options.yaml", "# options\nstages: 4\nmicrobatches: 6\nschedule show:\n  width: 80\n")
    put("ids.txt", "1 2 3 4 5 6 7 8\n")
    put("costs.csv", "# F, B, W, HOP\n1,2,1,0.1\n1,2,1,0.1\n1,2,1,0.1\n1,2,1,0\n")
    put("layouts.txt", "dp=1\ndp=1 recompute=full\n")
    shutil.copy(os.path.join(golden, "tokenizer_gpt2.json"), path("tokenizer.json"))
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        jobs = [pool.submit(must, argv) for argv in (
            TRAIN + ["--model", "nano", "--save", "ck", "--save-every", "1", "--export", "gpt", "--run-dir", "rd", "--seed", "1"],
            ["schedule", "show", "--stages", "2", "--microbatches", "4", "--format", "csv", "--output", "schedule.csv"],
            ["schedule", "show", "--stages", "2", "--microbatches", "4", "--format", "csv", "--tied", "--output", "planned.csv"],
            ["run", "-n", "2", "--run-dir", "records", "--"] + TRAIN + ["--model", "nano", "--save", "ck2"],
            ["tune", "--device", "host", "--op", "add", "--dtype", "f32", "--size", "tiny", "--budget-seconds", "0.01", "--threads", "1", "--output", "host.tune"],
            ["tokenize", "--tokenizer", "tokenizer.json", "--text", "other.txt", "-o", "tokens.bin"])]
        for job in jobs:
            job.result()
    shutil.copy(path("rd/plan.json"), path("plan.json"))
    must(["ckpt", "convert", "ck2", "sharded"])
    for record in os.listdir(path("records")):
        os.chmod(path("records/" + record), 0o644) # records are their owner's alone
    # A model whose vocabulary is the tokenizer's.
    n_ids = 1 + max(json.loads(must(["tokenize", "--tokenizer", "tokenizer.json", "--text", "other.txt", "--json"]).out)["vocabulary"], 1)
    config = json.load(open(path("gpt/config.json")))
    config["vocab_size"] = n_ids
    put("spoken.json", json.dumps(config))
    must(TRAIN + ["--model", path("spoken.json"), "--tokenizer", "tokenizer.json", "--export", "spoken", "--run-dir", "rd2"])
    put("spoken/generation_config.json", '{"eos_token_id": 1}')
