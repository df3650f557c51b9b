"""A giusto whose main thread stalls is ended by its watchdog, and the host restored: while it starts, enforces, reloads and stops. Under `deadline`,
without managers, whose silence is seen anyway. Each takes the watchdog's 20 seconds: one of the four, another every day;
all with GIUSTO_SOAK=1. Needs root and two cores.
"""
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

from folders import folders
from patient import of_today
from running import Running, service

# It never listens, so that a start waits for it for ten seconds.
DEAF = "  deaf: {start: [sleep, '1000'], promise: {supply: 5ms/100ms}, load: {memcached: '127.0.0.1:1', value: 100, rate: 10/s}}\n"
# It does not end when it is asked to, so that a stop waits for it for two seconds.
STUBBORN = service("hog", 30, 100, "[sh, -c, 'trap \"\" TERM; while :; do :; done']")


class Stalls(Running):
    def stalled(self):
        """Stopped now, it is ended, its services with it, and nothing of it is left."""
        services = subprocess.run(["pgrep", "-P", str(self.giusto.pid)], capture_output=True, text=True).stdout.split()
        self.giusto.send_signal(signal.SIGSTOP)
        begun = time.monotonic()
        self.assertEqual(self.giusto.wait(60), -signal.SIGKILL, self.log())
        print(f"ended after {time.monotonic() - begun:.0f} s")
        self.assertIn("stalled", self.log())
        end = time.monotonic() + 20
        while time.monotonic() < end and ("undid" not in self.log() or any(map(self.exists, services))):
            time.sleep(0.05)
        self.assertIn("undid", self.log())
        self.assertEqual([pid for pid in services if self.exists(pid)], [])
        self.assertEqual([str(path) for path in folders("/sys/fs/cgroup", "giusto.*")], [])
        self.assertIn("nothing to restore", self.ask("restore").stdout)

    @staticmethod
    def exists(pid):
        return Path(f"/proc/{pid}/exe").exists()

    def starts(self, name):
        """Its process is there."""
        groups = folders("/sys/fs/cgroup", f"giusto.{name}.service")
        return any((group / "cgroup.procs").exists() and (group / "cgroup.procs").read_text() for group in groups)

    def test_while_it_starts(self):
        self.write(DEAF)
        self.begin("deadline")
        self.until(lambda: self.starts("deaf"), "its service is waited for")
        self.assertEqual(self.status()["state"], "starting")
        self.stalled()

    def test_while_it_enforces(self):
        self.start(service("hog", 30, 100), backend="deadline")
        self.stalled()

    def test_while_it_reloads(self):
        self.start(service("hog", 30, 100), backend="deadline")
        self.write(DEAF)
        reload = threading.Thread(target=lambda: self.ask("reload"))
        reload.start()
        self.addCleanup(reload.join)
        self.until(lambda: self.starts("deaf"), "the new service is waited for")
        self.stalled()

    def test_while_it_stops(self):
        self.start(STUBBORN, backend="deadline")
        self.giusto.send_signal(signal.SIGINT)
        self.until(lambda: self.status()["state"] == "stopping", "it stops", 5)
        self.stalled()


def load_tests(_, tests, __):
    found = [test for suite in tests for test in suite]
    return unittest.TestSuite(of_today(found, 4))


if __name__ == "__main__":
    if os.geteuid() != 0 or os.cpu_count() < 2:
        print("SKIPPED: needs root and two cores")
        sys.exit(77)
    unittest.main(verbosity=2)
