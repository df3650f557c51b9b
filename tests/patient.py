"""Tests of a machine that a hypervisor may take time from. What fails meanwhile is tried again, twice at most; what fails without
that is tried once more, and told as FLAKY if it passes then: a fault of the test or of what it tests, to be found. What fails
each time that a hypervisor took more than 5 % is skipped: on such a machine nothing can be told, and none of its promises is
claimed.

    tests/patient.py             prints the time since boot, and what a hypervisor took of it
    tests/patient.py "BEFORE"    whether it took any since that was printed: exit 0; more than 5 %: exit 77; else 1
"""
import os
import sys
import time
import unittest
from pathlib import Path

TRIES = 3
SPOILT = 0.01  # s: the least that the kernel tells. A few holes of 2 ms each break what is promised to be done in 1 ms

TOO_MUCH = 0.05  # of the time of all processors


def of_today(things, parts=2):
    """Every so many, others every day, of what takes long and is much alike; all of them in the soak. As tests/today.sh."""
    day = int(os.environ.get("GIUSTO_DAY") or time.time() // 86_400)
    return [one for nth, one in enumerate(things) if os.environ.get("GIUSTO_SOAK") or (nth + day) % parts == 0]


def stolen():
    """What a hypervisor took since boot, in seconds of one processor."""
    return int(Path("/proc/stat").read_text().split("\n", 1)[0].split()[8]) / os.sysconf("SC_CLK_TCK")


class Patience:
    """How often one thing is tried."""

    def __init__(self):
        self.losses, self.flaky = [], False
        self.begin()

    def begin(self):
        self.begun, self.before = time.monotonic(), stolen()

    def again(self):
        """After a failure: why it is tried again, if it is."""
        lost, passed = stolen() - self.before, time.monotonic() - self.begun
        self.losses.append(lost / passed / os.cpu_count())
        quiet = lost < SPOILT
        if len(self.losses) == TRIES or quiet and self.flaky:
            return None
        self.flaky |= quiet
        self.begin()
        return "nothing was taken from this machine" if quiet else f"a hypervisor took {lost:.2f} s of {passed:.0f} s"

    def nothing_told(self):
        """After the last failure: whether too much was taken each time."""
        return min(self.losses) > TOO_MUCH


class Recorded(unittest.TestResult):
    """Notes what a test tells its result, to be told to another one, or dropped."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def replay(self, result):
        for name, arguments in self.calls:
            getattr(result, name)(*arguments)


def noted(name):
    def note(self, *arguments):
        self.calls.append((name, arguments))
        getattr(unittest.TestResult, name)(self, *arguments)
    return note


for each in ("addSuccess", "addFailure", "addError", "addSkip", "addSubTest", "addExpectedFailure", "addUnexpectedSuccess"):
    setattr(Recorded, each, noted(each))


class Patient(unittest.TestCase):
    def run(self, result=None):
        if result is None:
            return super().run(result)
        result.startTest(self)
        patience = Patience()
        while True:
            tried = Recorded()
            super().run(tried)
            if tried.wasSuccessful() or not (why := patience.again()):
                break
            print(f"{self.id()}: failed, and {why}; once more:", flush=True)
            for _, text in tried.failures + tried.errors:
                print("\n".join(text.strip().splitlines()[-5:]))
        if not tried.wasSuccessful() and patience.nothing_told():
            shown = ", ".join(f"{loss:.0%}" for loss in patience.losses)
            why = f"it failed, and a hypervisor took {shown} of this machine: cannot tell; run it on a quieter one"
            result.addSkip(self, why)
        else:
            if tried.wasSuccessful() and patience.flaky:
                print(f"FLAKY {self.id()}", flush=True)
            tried.replay(result)
        result.stopTest(self)
        return result


if __name__ == "__main__":
    now = time.monotonic(), stolen()
    if len(sys.argv) > 1:
        passed, lost = (after - float(before) for after, before in zip(now, sys.argv[1].split()))
        print(f"a hypervisor took {lost:.1f} s of {passed:.0f} s")
        sys.exit(1 if lost < SPOILT else 77 if lost > TOO_MUCH * passed * os.cpu_count() else 0)
    print(*now)
