"""What a cluster changes is put back where its test is killed, and where its guard is killed as well."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Callable
from pathlib import Path

import guard

# Stands for a test: it changes a setting, leaves a file, starts a process, and says which processes there are.
TEST = """
import subprocess, sys, time
from pathlib import Path
import guard
root = Path(sys.argv[1])
own = guard.Guard(root / "host.json", root / "cluster", root)
part = subprocess.Popen(["sleep", "1000"], start_new_session=True)
own.runs("part", part.pid)
(root / "proc/sys/vm/overcommit_memory").write_text("1\\n")
(root / "run/containerd/new").write_text("")
if sys.argv[2] == "ends":
    own.end()
    part.wait()
print(part.pid, own.process.pid, flush=True)
if sys.argv[2] != "ends":
    time.sleep(1000)
"""


def wait(done: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not done():
        if time.monotonic() > end:
            raise TimeoutError("not within a minute")
        time.sleep(0.01)


class Guarded(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        for part in ("proc/sys/vm", "run/containerd", "cluster"):
            (self.root / part).mkdir(parents=True)
        self.setting = self.root / "proc/sys/vm/overcommit_memory"
        self.setting.write_text("0\n")
        (self.root / "run/containerd/old").write_text("")

    def begin(self, how: str) -> tuple[subprocess.Popen[str], int, int]:
        here = str(Path(__file__).parent)
        test = subprocess.Popen([sys.executable, "-c", TEST, str(self.root), how], stdout=subprocess.PIPE, text=True,
                                env={**os.environ, "PYTHONPATH": here})
        assert test.stdout is not None
        part, own = map(int, test.stdout.readline().split())
        test.stdout.close()
        return test, part, own

    def as_before(self, part: int) -> None:
        self.assertEqual(self.setting.read_text(), "0\n")
        self.assertEqual(os.listdir(self.root / "run/containerd"), ["old"])
        self.assertFalse((self.root / "cluster").exists())
        self.assertIsNone(guard.started(part))

    def test_a_test_that_ends(self) -> None:
        test, part, own = self.begin("ends")
        self.assertEqual(test.wait(), 0)
        self.as_before(part)
        self.assertIsNone(guard.started(own))

    def test_a_test_that_is_killed(self) -> None:
        test, part, _ = self.begin("is killed")
        self.assertEqual(self.setting.read_text(), "1\n")
        test.kill()
        test.wait()
        wait(lambda: not (self.root / "host.json").exists())
        self.as_before(part)

    def test_a_test_that_is_killed_with_its_guard(self) -> None:
        test, part, own = self.begin("is killed")
        os.kill(own, signal.SIGKILL)
        test.kill()
        test.wait()
        self.assertEqual(self.setting.read_text(), "1\n")
        self.assertEqual(json.loads((self.root / "host.json").read_text())["settings"], {str(self.setting): "0\n"})
        guard.Guard.recover(self.root / "host.json")
        self.as_before(part)


if __name__ == "__main__":
    unittest.main()
