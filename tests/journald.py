"""Late requests and missed periods in systemd's journal, with their fields: a giusto whose standard error is a journal of its
own, in a mount namespace. Needs root, two cores and systemd-journald.
"""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest
from pathlib import Path

from causes import Client
from running import BUSY, GIUSTO, METRICS, ROOT, Running, redis_process

JOURNALD = Path("/usr/lib/systemd/systemd-journald")
JOURNAL = Path("/run/systemd/journal")
PORT = 7488
SITE = (
    f"  cache: {{start: [redis-server, --port, '{PORT}', --bind, 127.0.0.1, --save, ''], promise: {{p99: 60ms}}, "
    "arrivals: {poisson: 50/s}, execution: 1.5ms}\n",
    f"  busy: {{start: {BUSY}, promise: {{supply: 1ms/10ms}}}}\n",
)


class Journal(Running):
    def setUp(self):
        super().setUp()
        (JOURNAL).mkdir(parents=True, exist_ok=True)
        Path("/run/log/journal").mkdir(parents=True, exist_ok=True)
        self.journald = subprocess.Popen([JOURNALD], stderr=subprocess.DEVNULL)
        self.addCleanup(lambda: (self.journald.terminate(), self.journald.wait()))
        end = time.monotonic() + 20
        while not (JOURNAL / "socket").exists() or not (JOURNAL / "stdout").exists():
            self.assertLess(time.monotonic(), end, "there is no journal")
            time.sleep(0.05)

    def begin(self, backend):
        """As systemd does it (sd-journal's stream: identifier, unit, priority, prefixes of levels, three ways to forward)."""
        stream = self.enterContext(socket.socket(socket.AF_UNIX))
        stream.connect(str(JOURNAL / "stdout"))
        stream.sendall(b"giusto\n\n6\n1\n0\n0\n0\n")
        here = os.fstat(stream.fileno())
        words = [str(GIUSTO), "run", str(self.site), "--out", str(self.out), "--backend", backend, "--metrics", METRICS]
        environment = {**os.environ, "JOURNAL_STREAM": f"{here.st_dev}:{here.st_ino}"}
        self.giusto = subprocess.Popen(words, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=stream)

    def log(self):
        return subprocess.run(["journalctl", "--no-pager", "-q"], capture_output=True, text=True).stdout

    def events(self, *matches):
        out = subprocess.run(["journalctl", "--no-pager", "-q", "-o", "json", *matches], capture_output=True, text=True).stdout
        return [json.loads(line) for line in out.splitlines()]

    def test_late_requests_and_missed_periods_are_found_by_their_fields(self):
        self.start(*SITE)
        sock = self.enterContext(socket.socket())
        self.until(lambda: sock.connect_ex(("127.0.0.1", PORT)) == 0, "listening")
        redis = redis_process(sock)
        client = Client(sock, 4_000)
        self.addCleanup(lambda: setattr(client, "ends", True))
        reserved = self.events("GIUSTO_SERVICE=cache")
        self.assertTrue(any("under the manager of core" in event["MESSAGE"] for event in reserved), self.log())
        self.until(lambda: (self.status()["services"][0].get("responses") or {"answered": 0})["answered"] > 20, "observed")
        os.kill(redis, signal.SIGSTOP)
        time.sleep(0.2)
        os.kill(redis, signal.SIGCONT)
        self.until(lambda: [one for one in self.events("GIUSTO_SERVICE=cache") if "GIUSTO_LATE" in one], "in the journal")
        late = next(one for one in self.events("GIUSTO_SERVICE=cache") if "GIUSTO_LATE" in one)
        self.assertEqual((late["SYSLOG_IDENTIFIER"], late["PRIORITY"], late["_PID"]), ("giusto", "6", str(self.giusto.pid)))
        self.assertEqual((late["GIUSTO_PROCESS"], late["GIUSTO_WITHIN_NS"]), (str(redis), "60000000"))
        self.assertGreater(int(late["GIUSTO_TOOK_NS"]), 60_000_000)
        self.assertGreater(int(late["GIUSTO_LATE"]), 0)
        self.assertRegex(late["MESSAGE"], r"^cache: \d+ requests? took longer than 60 ?ms, the longest [\d.]+ ?m?s, ")
        # A second without its manager.
        self.giusto.send_signal(signal.SIGSTOP)
        time.sleep(1)
        self.giusto.send_signal(signal.SIGCONT)
        self.until(lambda: [one for one in self.events("GIUSTO_SERVICE=busy") if "GIUSTO_MISSED" in one], "in the journal")
        missed = next(one for one in self.events("GIUSTO_SERVICE=busy") if "GIUSTO_MISSED" in one)
        self.assertEqual(missed["PRIORITY"], "4")
        self.assertTrue(0 < int(missed["GIUSTO_MISSED"]) <= 120, missed)
        print("\n" + "\n".join(one["MESSAGE"] for one in (late, missed)))


if __name__ == "__main__":
    if os.geteuid() != 0 or os.cpu_count() < 2 or not JOURNALD.exists() or not shutil.which("journalctl"):
        print("SKIPPED: needs root, two cores and systemd-journald")
        sys.exit(77)
    if "JOURNALD_HERE" not in os.environ:
        # What is in /run of this namespace is the test's own: journal, control socket, undo.
        words = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /run && exec "$@"', "sh", sys.executable, *sys.argv]
        sys.exit(subprocess.run(words, env={**os.environ, "JOURNALD_HERE": "1"}).returncode)
    unittest.main(verbosity=2)
