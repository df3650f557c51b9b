"""ZooKeeper's own tests on our server: a process for each class of classes.txt, as upstream's build does it.

    python3 coordination/upstream/run.py [--sample | CLASS...] [--stock | --broken] [--times 1] [--java FLAG]

Many of these tests count on time. So one that fails is played once more when all others have ended, and has failed if it fails then.
Exit 1 where a test fails that exceptions.txt does not name, or one passes that it says always fails. --stock: the same tests on stock's classes,
for comparison. --broken: on a server that loses votes; that must fail.
"""
import argparse
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

ROOM = Path(__file__).resolve().parent
BUILT = ROOM / "target"
LIB = BUILT / "lib"
TESTS = LIB / "zookeeper-3.9.5-tests.jar"
# Longer than the longest class needs on a busy machine.
LIMIT_S = 900
PROCESSES = 2
# What RtQuorumPeerMain sets before stock's classes are there; tests that make a peer do not pass through it. Of the features, those
# are left out that only make a start longer.
FLAGS = ["-Xmx512m", "-Dgiusto.features=fcle,fqce,unanimous,snapshot", "-Dzookeeper.fastleader.minNotificationInterval=60",
         "-Dzookeeper.leaderConnectDelayDuringRetryMs=2", "-Dzookeeper.leader.maxTimeToWaitForEpoch=300"]
# As upstream's build does.
STOCK_FLAGS = ["-Xmx512m"]
COMMON = ["-Dzookeeper.DigestAuthenticationProvider.superDigest=super:D/InIHSb7yEEbrWz8b9l71RjZJU=",
          f"-Dlogback.configurationFile={ROOM.parent / 'harness' / 'logback-stock.xml'}", f"-Dtest.junit.threads={PROCESSES}"]
_libc = ctypes.CDLL(None)


def lines(name):
    text = (ROOM / name).read_text().splitlines()
    return [line.split(None, 1) for line in text if line and not line.startswith("#")]


def rewrite():
    """The tests aimed at our server; the class with a bug."""
    jar, broken = BUILT / "rewritten-tests.jar", BUILT / "broken"
    subprocess.run(["java", "-cp", f"{BUILT / 'classes'}:{LIB}/*", "giusto.coordination.upstream.Rewrite", TESTS, jar, broken], check=True)
    return jar, broken


class Played:
    """What became of one class: (test, passed or failed, seconds, why) in the order they ended."""

    def __init__(self, name, number, tests, args, jar, broken):
        self.name, short = name, name.rpartition(".")[2]
        self.dir = BUILT / "played" / f"{short}-{number}"
        shutil.rmtree(self.dir, ignore_errors=True)
        self.dir.mkdir(parents=True)
        self.tests, self.peers, start = [], "", time.monotonic()
        path = [*([broken] if args.broken else []), BUILT / "classes", TESTS if args.stock else jar,
                *(j for j in sorted(LIB.glob("*.jar")) if j != TESTS)]
        slot = SLOTS.get()
        try:
            with open(self.dir / "log", "wb") as log:
                code = subprocess.run(
                    ["timeout", "-k", "5", str(LIMIT_S), "java", *(STOCK_FLAGS if args.stock else FLAGS), *COMMON, *args.java,
                     f"-Dzookeeper.junit.threadid={slot}", f"-Dbuild.test.dir={self.dir}", "-cp", ":".join(map(str, path)),
                     "giusto.coordination.upstream.One", name, *tests],
                    cwd=self.dir, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                    preexec_fn=lambda: _libc.prctl(1, signal.SIGKILL)).returncode
        finally:
            SLOTS.put(slot)
        for line in (self.dir / "log").read_text(errors="replace").splitlines():
            word, _, rest = line.partition(" ")
            if word in ("@passed", "@failed"):
                test, ms, *why = rest.split(" ", 2)
                self.tests.append((f"{short}.{test}", word[1:], int(ms) / 1000, why[0] if why else ""))
            elif word == "@peers":
                self.peers = line[1:]
        self.seconds = time.monotonic() - start
        if code or not self.peers or not self.tests:
            self.tests.append((f"{short}.", "failed", self.seconds, f"the process ended with {code}, see {self.dir}/log"))

    def failed(self):
        return [test for test in self.tests if test[1] == "failed"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("classes", nargs="*", metavar="CLASS")
    parser.add_argument("--sample", action="store_true")
    arms = parser.add_mutually_exclusive_group()
    arms.add_argument("--stock", action="store_true")
    arms.add_argument("--broken", action="store_true")
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--java", action="append", default=[], metavar="FLAG")
    args = parser.parse_args()
    jar, broken = rewrite()
    names = [name for name, *mark in lines("classes.txt")
             if (name.rpartition(".")[2] in args.classes if args.classes else mark or not args.sample)]
    excepted = {} if args.stock else dict(lines("exceptions.txt"))
    start, wrong, count, again = time.monotonic(), 0, 0, []

    def play(work, print_failed):
        played = Played(*work, args, jar, broken)
        print(f"{played.name.rpartition('.')[2]:<42} {len(played.tests) - len(played.failed()):>3} of {len(played.tests):>3} passed"
              f" {played.seconds:6.0f} s  {played.peers}", flush=True)
        for test, _, seconds, why in played.failed() if print_failed else []:
            print(f"    {test} failed after {seconds:.0f} s: {why[:150]}", flush=True)
        return played

    with ThreadPoolExecutor(PROCESSES) as pool:
        first = list(pool.map(lambda work: play(work, True), [(name, i, []) for name in names for i in range(args.times)]))
    for played in first:
        count += len(played.tests)
        failed = {test for test, *_ in played.failed()}
        if failed - set(excepted) and not args.broken:
            print("again, alone:")
            tests = [test.rpartition(".")[2] for test in failed]
            # Of a process that did not come to its end, no test is known: the whole class then.
            second = {test for test, *_ in play((played.name, "again", tests if all(tests) else []), True).failed()}
            again += sorted(failed - second)
            failed &= second
        wrong += len(failed - set(excepted))
        for test in sorted(failed & set(excepted)):
            print(f"    {test} fails: {excepted[test]}")
        for test in sorted({test for test, *_ in played.tests} & set(excepted) - failed):
            if not excepted[test].startswith("sometimes"):
                wrong += 1
                print(f"    {test} passes, and is in exceptions.txt")
    print(f"upstream: {count} tests of {len(names)} classes, {wrong} not as expected, {len(again)} passed only alone"
          f"{''.join(' ' + test for test in again)}; {time.monotonic() - start:.0f} s")
    return 1 if wrong else 0


SLOTS = SimpleQueue()
for free in range(1, PROCESSES + 1):
    SLOTS.put(free)
if __name__ == "__main__":
    sys.exit(main())
