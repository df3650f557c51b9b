"""The first five minutes: 'make run', again and again, on a quiet machine and on disturbed ones.

  tests/first.py        one run on the machine as it is, and one each with half and twice the true execution time declared
  tests/first.py N [M]  N runs, and M with each disturbance (M = N by default; 'make soak': 20)

Each ends with 0 and with a verdict in words. Of the quiet ones all but one in twenty say 'kept'.
"""
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERDICTS = {"kept": "promise kept", "missed": "promise missed", "cannot tell": "cannot tell"}
# Of a machine so slow that what was measured asks for more than a core; never of a quiet one.
REFUSED = re.compile(r"from what was measured: service 'cache' does not fit: it needs \S+ % of one core")
UNSTEADY = re.compile(r"cannot tell what a request of 'cache' costs: .*")
LIMIT = 130
THRASH = """
import array, random
data = array.array('q', bytes(64 << 20))
while True:
    at = random.randrange(len(data) - (1 << 20))
    data[at:at + (1 << 20)] = data[at:at + (1 << 20)]
"""


class Disturbed:
    """What disturbs, on both cores, while it is entered."""

    def __init__(self, kind):
        self.kind, self.over, self.children, self.thread = kind, threading.Event(), [], None

    def __enter__(self):
        if self.kind == "bursts":
            self.thread = threading.Thread(target=self.bursts)
            self.thread.start()
        if self.kind == "caches":
            self.children = [self.child(core, THRASH) for core in sorted(os.sched_getaffinity(0))]

    def __exit__(self, *_):
        self.over.set()
        if self.thread:
            self.thread.join()
        for child in self.children:
            child.kill()
            child.wait()

    @staticmethod
    def child(core, program):
        return subprocess.Popen(["taskset", "-c", str(core), sys.executable, "-c", program])

    def bursts(self):
        """Both cores for 30 % of the time, in bursts of 10 to 250 ms."""
        draw = random.Random(1)
        while not self.over.is_set():
            burst = draw.uniform(0.01, 0.25)
            spin = f"import time\nend = time.monotonic() + {burst}\nwhile time.monotonic() < end: pass\n"
            children = [self.child(core, spin) for core in sorted(os.sched_getaffinity(0))]
            for child in children:
                child.wait()
            self.over.wait(burst * 7 / 3)


def once(kind):
    begin = time.monotonic()
    with Disturbed(kind):
        done = subprocess.run(["make", "-s", "run"], cwd=ROOT, capture_output=True, text=True, timeout=LIMIT + 60, stdin=subprocess.DEVNULL)
    took = time.monotonic() - begin
    # What requests cost cannot be told either, where that changes all the time: no plan then, and no trial.
    unsteady = UNSTEADY.search(done.stderr) if kind != "quiet" else None
    verdicts = [name for name, words in VERDICTS.items() if words in done.stdout or unsteady and name == "cannot tell"]
    refused = REFUSED.search(done.stderr)
    if refused and kind != "quiet":
        verdicts.append("refused")
    reasons = [line for line in done.stdout.splitlines() if "from a whole core" in line or "cannot tell" in line]
    reasons += [found[0] for found in (refused, unsteady) if found]
    print(f"{kind:<7} {took:4.0f} s  exit {done.returncode}  {'/'.join(verdicts) or 'no verdict'}: {reasons[-1] if reasons else '-'}", flush=True)
    assert done.returncode == 0 and verdicts, done.stdout + done.stderr
    assert took < LIMIT, f"{took:.0f} s"
    if kind == "quiet":
        assert re.search(r"a request takes \S+ us of processor time", done.stdout + done.stderr), done.stderr
    return verdicts[0]


def declared(times):
    """A site whose wcet is so many times the truth: told before the first slice, with the number."""
    profile = json.loads((ROOT / "out/profiles/cache.json").read_text())
    mean, period = profile["mean_ns"], profile["tasks"][0]["period_ns"]
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder) / "site.yaml"
        text = (ROOT / "sites/first.yaml").read_text().replace("wcet: measured, period: {fit: 30%}", f"wcet: {round(mean * times)}ns, period: {period}ns")
        site.write_text(text.replace("margin: 15%", "margin: 5%"))
        done = subprocess.run([ROOT / "target/release/giusto", "run", site, "--trial", "--at-most", "8s", "--out", folder], cwd=ROOT, capture_output=True,
                              text=True, timeout=LIMIT, stdin=subprocess.DEVNULL)
    told = next((line for line in done.stderr.splitlines() if "were declared" in line), "")
    print(f"{times} x the truth of {mean / 1000:.1f} us: exit {done.returncode}; {told}", flush=True)
    found = re.search(r"a request takes (\S+) us of processor time here, (\S+) (us|ns) were declared", told)
    assert found, done.stderr
    assert 0.6 < float(found[1]) / (mean / 1000) < 1.7, "another number than a minute ago"
    if times < 1:
        assert "overloaded" in told and "planned anew" in done.stderr and done.returncode in (1, 5, 6), done.stderr
    cycles = [line for line in done.stderr.splitlines() if "cycles of slices" in line]
    assert not cycles or done.stderr.index(told) < done.stderr.index(cycles[0])
    return "generous" in told or float(found[1]) / (mean / 1000) > 1.3


def main():
    numbers = [int(word) for word in sys.argv[1:]] or [1, 0]
    runs, disturbed = numbers[0], numbers[-1]
    for kind, times in (("quiet", runs), ("bursts", disturbed), ("caches", disturbed)):
        found = [once(kind) for _ in range(times)]
        counts = ", ".join(f"{found.count(name)} {name}" for name in (*VERDICTS, "refused") if name in found)
        print(f"{kind}: {counts} of {times}", flush=True)
        if kind == "quiet" and runs >= 20:
            assert found.count("kept") >= runs * 19 // 20, found
        if kind == "quiet":
            declared(0.5)
            # The busiest stretch decides what is generous: one that was disturbed may not be.
            if not declared(2) and not declared(2):
                assert declared(2), "not generous in three runs"


if __name__ == "__main__":
    main()
