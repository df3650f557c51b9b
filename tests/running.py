"""What tests of a running giusto share: start it with a site, ask it, wait for what it tells, end it."""
import json
import os
import re
import signal
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

from patient import Patient

ROOT = Path(__file__).resolve().parent.parent
GIUSTO = ROOT / "target" / "release" / "giusto"
CORE = 1
BUSY = "[sh, -c, 'while :; do :; done']"
METRICS = "127.0.0.1:9473"


def service(name, budget, period, start=BUSY):
    return f"  {name}: {{start: {start}, promise: {{supply: {budget}ms/{period}ms}}}}\n"


def used(pid):
    """Processor time of a process so far, in seconds."""
    fields = Path(f"/proc/{pid}/schedstat").read_text().split()
    return int(fields[0]) / 1e9


def redis_process(client):
    """The process of the Redis that a socket is connected to."""
    client.sendall(b"*2\r\n$4\r\nINFO\r\n$6\r\nserver\r\n")
    told = b""
    while not (found := re.search(rb"process_id:(\d+)\r\n", told)) or not told.endswith(b"\r\n\r\n"):
        told += client.recv(65536)
    return int(found[1])


class Running(Patient):
    environment = {}
    flags = ()

    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.out = self.folder / "out"
        self.site = self.folder / "site.yaml"
        self.giusto = None
        self.addCleanup(self.stop)

    def write(self, *services, more=""):
        self.site.write_text(f"giusto: 1\nhosts:\n  test: {{cores: {CORE}}}\nservices:\n" + "".join(services) + more)

    def start(self, *services, backend="manager", more=""):
        self.write(*services, more=more)
        self.begin(backend)
        self.until(lambda: self.status()["state"] in ("enforcing", "degraded"), "enforcing")

    def begin(self, backend=None):
        words = [str(GIUSTO), "run", str(self.site), "--out", str(self.out)]
        words += ["--backend", backend] if backend else []  # a plan has its own
        words += ["--metrics", METRICS, *self.flags]
        with open(self.folder / "log", "w") as log:
            self.giusto = subprocess.Popen(words, cwd=ROOT, env={**os.environ, **self.environment}, stdout=log, stderr=log)

    def stop(self):
        if self.giusto and self.giusto.poll() is None:
            self.giusto.send_signal(signal.SIGCONT)
            self.giusto.send_signal(signal.SIGINT)
            self.assertEqual(self.giusto.wait(30), 0, self.log())
        subprocess.run([str(GIUSTO), "restore"], capture_output=True, check=True)

    def log(self):
        return (self.folder / "log").read_text()

    def ask(self, *words):
        return subprocess.run([str(GIUSTO), *words], cwd=ROOT, capture_output=True, text=True)

    def status(self):
        done = self.ask("status", "--json")
        return json.loads(done.stdout) if done.returncode == 0 else {"state": done.stderr}

    def metrics(self):
        """Each value by its name and labels."""
        text = urllib.request.urlopen(f"http://{METRICS}/metrics", timeout=10).read().decode()
        return {key: float(value) for key, value in re.findall(r"^(giusto_[^ ]+) (\S+)$", text, re.M)}

    def metric(self, name):
        """The first value of that name, or of that name with these labels; `None`: there is none."""
        return next((value for key, value in self.metrics().items() if name in (key, key.split("{")[0])), None)

    def until(self, holds, what, seconds=30):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.giusto.poll() is not None:
                self.fail(self.log())
            if holds():
                return
            time.sleep(0.05)
        self.fail(f"not {what} within {seconds} s: {self.status()}\n{self.log()}")
