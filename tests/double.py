"""A giusto that enforces nothing (daemon/examples/double.rs), for tests of the operator's side without privilege."""
import contextlib
import json
import os
import socket
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GIUSTO = ROOT / "target" / "release" / "giusto"
DOUBLE = ROOT / "target" / "release" / "examples" / "double"
SITE = """giusto: 1
hosts: {edge-1: {cores: 0-1}}
services:
  cache: {start: sleep 1, tasks: [{wcet: 20ms, period: 100ms}], promise: as-if-alone}
  index: {start: sleep 1, tasks: [{wcet: 10ms, period: 100ms}], promise: as-if-alone}
"""


class Double:
    """One that runs, and what asks it."""

    def __init__(self, folder, arguments=(), environment=None):
        self.folder = Path(folder)
        self.site = self.folder / "site.yaml"
        if not self.site.exists():
            self.site.write_text(SITE)
        self.environment = {**os.environ, "GIUSTO_STATE": str(self.folder / "state"), **(environment or {})}
        self.log = open(self.folder / "log", "w+")
        # A session of its own: without a terminal SIGHUP means to reload.
        self.process = subprocess.Popen([DOUBLE, self.site, *arguments], env=self.environment, stderr=self.log, start_new_session=True)

    def giusto(self, *args, code=0):
        done = subprocess.run([GIUSTO, *map(str, args)], env=self.environment, capture_output=True, text=True, timeout=30,
                              stdin=subprocess.DEVNULL, cwd=self.folder)
        if done.returncode != code:
            raise AssertionError(f"{args}: exit {done.returncode}, expected {code}\n{done.stdout}\n{done.stderr}")
        return done

    def status(self):
        return json.loads(self.giusto("status", "--json").stdout)

    def connect(self):
        control = socket.socket(socket.AF_UNIX)
        control.settimeout(20)
        try:
            control.connect(str(self.folder / "state" / "control"))
        except OSError:
            control.close()
            raise
        return control

    def ask(self, line):
        """One line of the answer to a line."""
        with self.connect() as control, control.makefile() as answer:
            with contextlib.suppress(BrokenPipeError):  # it may have hung up with an answer
                control.sendall(line.encode() + b"\n")
            return json.loads(answer.readline())

    def wait(self, condition, what):
        for _ in range(500):
            if condition():
                return
            time.sleep(0.02)
        raise AssertionError(f"no {what} within 10 s\n{self.said()}")

    def ready(self):
        def enforces():
            try:
                return self.ask('{"do":"status"}')["status"]["state"] == "enforcing"
            except OSError:  # not there yet, or what a dead one left
                return False
        self.wait(enforces, "double that enforces")
        return self

    def said(self):
        return Path(self.log.name).read_text()

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
        self.log.close()
        return self.process.wait(timeout=20)


@contextlib.contextmanager
def double(*arguments, **environment):
    with tempfile.TemporaryDirectory() as folder:
        running = Double(folder, arguments, environment)
        try:
            yield running.ready()
        finally:
            running.end()
