"""Mode changes of a virtual machine: `giusto run` gives a QEMU guest its share of the machine's last core, and Giusto's agent inside
switches tasks that never sleep, over an emulated network. What runs is seen from outside: tasks write to a serial line. Needs root
and the backend `manager`; exit code 77 where they, QEMU, or a kernel cannot be had. A run takes less than a minute.
"""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "vm"))
import guest
import inside
from guest import CannotRun, ROOT, cpu_time
from inside import until
from patient import Patient

TARGET = ROOT / "target" / "release"
CORE = max(os.sched_getaffinity(0))
LACKS = 3
# Budgets of the vCPU and their period, in ns.
PERIOD, BUDGETS = 10_000_000, {"low": 2_000_000, "high": 4_000_000}
SITE = """
giusto: 1
hosts: {{h: {{cores: {core}}}}}
services:
  guest:
    adopt: {{qmp: {qmp}}}
    agent: {{key: {folder}/key, cost: 5ms, asks: [emergency]}}
    promise: supply
    modes: {{low: {{supply: 2ms/10ms}}, high: {{supply: 4ms/10ms}}}}
modes:
  normal: {{guest: low}}
  emergency: {{guest: high}}
mode-changes: {{timeout: 10s, spacing: 100ms, requests: queue, listen: "tcp:127.0.0.1:{port}"}}
"""


class Changes(Patient):
    """One guest and one `giusto run` for all; each test begins in the mode normal."""

    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="giusto-modes-vm-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        (cls.folder / "key").write_bytes(os.urandom(32))
        (cls.folder / "key").chmod(0o600)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        cls.vm = guest.boot(inside.Modal, inside.pack(cls.folder, port))
        cls.addClassCleanup(cls.vm.close)
        cls.site, cls.environment = cls.folder / "site.yaml", {**os.environ, "GIUSTO_STATE": str(cls.folder / "state")}
        cls.site.write_text(SITE.format(core=CORE, qmp=cls.vm.qmp, folder=cls.folder, port=port))
        if lacks := cls.lacks():
            raise unittest.SkipTest(lacks)
        cls.before = [os.sched_getaffinity(tid) for tid in cls.vm.vcpus()]
        with open(cls.folder / "log", "w") as log:
            cls.giusto = subprocess.Popen([TARGET / "giusto", "run", cls.site, "--out", cls.folder / "out"], env=cls.environment,
                                          stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        cls.addClassCleanup(cls.end)

    @classmethod
    def lacks(cls):
        """Why this machine cannot enforce; nothing if it can."""
        code, out, err = cls.ask("run", cls.site, "--dry-run")
        if code not in (0, LACKS):
            raise AssertionError(f"giusto run --dry-run: exit {code}: {out}{err}")
        return err if code == LACKS else "; ".join(line for line in out.splitlines() if line.startswith("would refuse"))

    @classmethod
    def ask(cls, *words):
        """Exit code, what was printed, what was wrong."""
        done = subprocess.run([TARGET / "giusto", *words], env=cls.environment, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout, done.stderr

    @classmethod
    def end(cls):
        cls.giusto.send_signal(signal.SIGTERM)
        code = cls.giusto.wait(30)
        cls.ask("restore")
        after = [os.sched_getaffinity(tid) for tid in cls.vm.vcpus()]
        if (code, after) != (0, cls.before):
            raise AssertionError(f"exit {code}, vCPU threads on {after}, before on {cls.before}: {(cls.folder / 'log').read_text()[-2000:]}")

    def setUp(self):
        self.connected()
        self.change("normal")
        self.runs("low")

    def run(self, result=None):
        wrong = lambda: len(result.failures) + len(result.errors)
        before = wrong()
        super().run(result)
        if wrong() > before:
            print((self.folder / "log").read_text()[-2000:], self.vm.console()[-2000:], self.vm.work()[-20:], sep="\n", file=sys.stderr)

    def modes(self):
        code, out, _ = self.ask("mode", "--json")
        return json.loads(out) if code == 0 else None

    def connected(self):
        """With an agent that runs what its reservation is for."""
        def look():
            if self.giusto.poll() is not None:
                raise AssertionError(f"giusto ended: {(self.folder / 'log').read_text()[-2000:]}")
            modes = self.modes()
            return modes and not modes["changing_to"] and all(member["connected"] and member["sound"] for member in modes["members"]) and modes
        return until(look, what="the agent")

    def sessions(self):
        """How often the agent has connected."""
        return self.vm.console().count("connected to tcp:")

    def change(self, mode, *words):
        """A change that has to be done, or needs none."""
        code, out, err = self.ask("mode", mode, *words, "--wait", "--json")
        self.assertEqual(code, 0, err)
        return json.loads(out)

    def runs(self, local):
        """The vCPU has the server of the local mode, and exactly its tasks write, from soon on: what a task wrote before it was
        stopped may still be on the line. They never sleep, so the vCPU has its budget and no more."""
        served = lambda: [one["budget_ns"] for one in json.loads(self.ask("status", "--json")[1])["services"] if one["vcpu"] == 0]
        until(lambda: served() == [BUDGETS[local]], what=f"the server of {local}")
        tasks, [tid], found = {"low": {"one"}, "high": {"one", "two"}}[local], self.vm.vcpus(), []
        for _ in range(5):  # a busy host may keep one look from its share
            start, at, had = len(self.vm.work()), time.monotonic(), cpu_time(tid)
            until(lambda: all(self.vm.work()[start:].count(task) > 2 for task in tasks), what=f"the tasks of {local}")
            share = (cpu_time(tid) - had) / (time.monotonic() - at) / 1e9 * PERIOD / BUDGETS[local]
            found.append((set(self.vm.work()[start:-1]), share))
            if found[-1][0] == tasks and 0.7 < share < 1.3:
                return
        self.fail(f"{local}: who wrote, and what part of its budget it had: {found}")

    def test_tasks_and_the_server_of_the_vcpu_follow_the_mode(self):
        took = {}
        self.assertNotIn("priority", self.vm.console(), "the agent has its own")
        for policy in ("boost", "greedy"):
            for turn in range(6):
                mode, local = ("emergency", "high") if turn % 2 == 0 else ("normal", "low")
                change = self.change(mode, "--policy", policy)
                self.assertEqual((change["to"], change["outcome"]), (mode, "done"))
                [step] = change["steps"]
                self.assertTrue(step["round_ns"] >= step["signal_ns"] > 0, step)
                # The guest's clock is its own.
                self.assertEqual((step["service"], step["send_ns"], step["receive_ns"]), ("guest", None, None))
                took.setdefault(policy, []).append(step["round_ns"] / 1e6)
                self.assertEqual(self.modes()["locals"], [local])
                self.runs(local)
        for policy, rounds in took.items():
            print(f"{policy}: command to answer {min(rounds):.1f} to {max(rounds):.1f} ms", file=sys.stderr)

    def test_an_agent_that_is_killed_before_a_change_is_back_for_it(self):
        for mode, local in (("emergency", "high"), ("normal", "low")):
            sessions = self.sessions()
            self.vm.hit("KILL")
            until(lambda: self.sessions() > sessions, what="a new agent")
            self.connected()
            self.assertEqual(self.change(mode)["outcome"], "done")
            self.runs(local)

    def test_an_agent_that_is_killed_in_a_change_leaves_it_to_the_next(self):
        for mode, local in (("emergency", "high"), ("normal", "low")):
            sessions = self.sessions()
            self.vm.hit("STOP")  # so that the change has to wait for it
            asked = subprocess.Popen([TARGET / "giusto", "mode", mode, "--wait", "--json"], env=self.environment, stdout=subprocess.PIPE, text=True)
            self.addCleanup(asked.wait)
            until(lambda: self.modes()["changing_to"] == mode, what="a change under way")
            self.vm.hit("KILL")
            out, _ = asked.communicate(timeout=30)
            self.assertEqual((asked.returncode, json.loads(out)["outcome"]), (0, "done"))
            self.assertEqual((self.connected()["locals"], self.sessions()), ([local], sessions + 1))
            self.runs(local)

    def test_one_inside_may_ask_for_what_its_key_allows(self):
        for mode, word, local in (("emergency", "done", "high"), ("normal", "refused", "high")):
            start = len(self.vm.work())
            self.vm.tell(f"echo answer $(giusto-agent /agent.yaml {mode}) >/dev/ttyS1")
            until(lambda: f"answer {word}" in self.vm.work()[start:], what=word)
            self.assertEqual(self.modes()["locals"], [local])
            self.runs(local)


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("cannot tell: root is missing: run it as root", file=sys.stderr)
        sys.exit(guest.SKIPPED)
    try:
        guest.fetch_kernel()
    except CannotRun as why:
        print(f"cannot tell: {why}", file=sys.stderr)
        sys.exit(guest.SKIPPED)
    main = unittest.main(exit=False, verbosity=2)
    sys.exit(1 if not main.result.wasSuccessful() else guest.SKIPPED if main.result.skipped else 0)
