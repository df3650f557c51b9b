"""Hostile agents: forged tasks, agents that die at every step, floods by strangers and by a member. What holds: an agent touches only what it has
started itself; what it has started goes on whichever process dies, is found again, and is never there twice; members are let in
however many strangers there are; and the thread that changes modes spends nothing on the network. Prints a matrix. Needs root;
the floods need the backend `manager`.

GIUSTO_TARGET: another folder with the programs, to see old ones fail. GIUSTO_SOAK: the long campaign.
"""
import contextlib
import hashlib
import hmac
import json
import os
import pwd
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import modes  # noqa: E402
from modes import Forger, House, SEED, SOAK, until  # noqa: E402
from patient import Patient

modes.TARGET = Path(os.environ.get("GIUSTO_TARGET", modes.TARGET))
AGENT = modes.TARGET / "giusto-agent"
NOBODY = pwd.getpwnam("nobody")
MATRIX = Counter()


def held(fault, phase):
    MATRIX[fault, phase] += 1


# How late a process above all enforcing threads wakes up on a core, at most: what of it is the machine's own, as a
# hypervisor's that takes it. It gives its priority back before it ends: the end of an interpreter takes milliseconds.
WITNESS = """
import os, signal, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(os.sched_get_priority_max(os.SCHED_FIFO)))
latest, ends = 0, []
signal.signal(signal.SIGTERM, lambda *_: ends.append(1))
print("begins", flush=True)
last = time.monotonic_ns()
while not ends:
    time.sleep(0.0005)
    last, due = time.monotonic_ns(), last + 500_000
    latest = max(latest, last - due)
os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
print(latest)
"""


def tearDownModule():
    if not MATRIX:
        return
    phases = sorted({phase for _, phase in MATRIX})
    width = max(len(fault) for fault, _ in MATRIX)
    print(f"\nfault x phase, how often it held, seed {SEED}\n{'':{width}}  " + "  ".join(phases), file=sys.stderr)
    for fault in sorted({fault for fault, _ in MATRIX}):
        row = "  ".join(f"{MATRIX[fault, phase] or '-':>{len(phase)}}" for phase in phases)
        print(f"{fault:{width}}  {row}", file=sys.stderr)


def stat(pid):
    """State, parent and start time of a process; None: it has gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
        return fields[0], int(fields[1]), int(fields[19])
    except OSError:
        return None


def every():
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


class Host:
    """The manager's side of formats/modes.md, as small as it can be, and a real agent that is connected to it."""

    FILE = """giusto-agent: 1
service: a
manager: unix:{folder}/modes
key: {folder}/key
state: {folder}/state
priority: none
tasks:
  one: {{start: [sh, -c, 'exec {folder}/spin one']}}
  two: {{start: [{folder}/fork, two]}}
modes: {{low: [one], high: [one, two]}}
"""

    def __init__(self, contained):
        self.folder = Path(tempfile.mkdtemp(prefix="giusto-hostile-"))
        self.key = os.urandom(32)
        (self.folder / "key").write_bytes(self.key)
        os.chmod(self.folder / "key", 0o600)
        os.mkdir(self.folder / "state", 0o700)
        (self.folder / "file.yaml").write_text(self.FILE.format(folder=self.folder))
        os.mkfifo(self.folder / "never")
        for name, text in (("spin", f"read line <{self.folder}/never"),  # waits without a process more
                           # Its first process ends; what is left is in sessions of its own.
                           ("fork", f"(setsid {self.folder}/spin two &) & exit 0")):
            (self.folder / name).write_text(f"#!/bin/sh\n{text}\n")
            (self.folder / name).chmod(0o755)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.folder / "modes"))
        self.listener.listen(8)
        self.listener.settimeout(20)
        self.words = [str(AGENT), str(self.folder / "file.yaml")]
        if contained:
            self.words = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *self.words]
        self.change, self.session, self.guard = 0, None, None

    def start(self):
        with open(self.folder / "log", "a") as log:
            self.guard = subprocess.Popen(self.words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        return self

    def mac(self, key, *parts):
        return hmac.new(key, b"".join(parts), hashlib.sha256).digest()

    def frame(self):
        head = self.session.recv(2, socket.MSG_WAITALL)
        return self.session.recv(struct.unpack(">H", head)[0], socket.MSG_WAITALL) if len(head) == 2 else None

    def accept(self):
        self.session, _ = self.listener.accept()
        self.session.settimeout(10)
        hi = self.frame()
        if hi is None:
            return self.accept()
        key, nonce = hashlib.sha256(self.key).digest(), os.urandom(16)
        transcript = bytes([len(hi) - 18]) + hi[18:] + hi[2:18] + nonce
        body = b"\x11\x01" + nonce + self.mac(key, b"giusto modes 1 manager", transcript)
        self.session.sendall(struct.pack(">H", len(body)) + body)
        if self.frame() is None:
            return self.accept()
        self.sends, self.sent = self.mac(key, b"giusto modes 1 key of manager", transcript), 0
        return self

    def command(self, local):
        """Tells the agent to switch; the change's number."""
        self.change += 1
        body = struct.pack(">BQH", 1, self.change, local)
        body += self.mac(self.sends, struct.pack(">Q", self.sent), body)
        self.sent += 1
        self.session.sendall(struct.pack(">H", len(body)) + body)
        return self.change

    def heard(self):
        """The next message: Hello, Done or Failed, and the change; None: the session has ended."""
        try:
            body = self.frame()
        except ConnectionResetError:
            return None
        if body is None:
            return None
        if body[0] == 1:
            return "hello", struct.unpack(">Q", body[3:11])[0]
        return {2: "done", 3: "failed"}[body[0]], struct.unpack(">Q", body[1:9])[0]

    def switch(self, local):
        change = self.command(local)
        while (heard := self.heard()) and heard != ("done", change):
            if heard[0] == "failed":
                raise AssertionError(f"the agent could not switch:\n{(self.folder / 'log').read_text()[-1500:]}")
        if heard is None:
            self.again(change)

    def again(self, change):
        """The agent has died, and is back: it finishes what it was told before it says Hello."""
        self.accept()
        heard = self.heard()
        if heard and heard[0] == "hello" and heard[1] < change:  # it died before it had written the command down
            self.change -= 1
            return self.switch(self.wanted)
        return heard

    def agent(self):
        """The process that works as the agent."""
        for pid in every():
            try:
                words = Path(f"/proc/{pid}/cmdline").read_bytes()
                if Path(f"/proc/{pid}/comm").read_text() == "giusto-agent\n" and str(self.folder).encode() in words:
                    return pid
            except OSError:
                continue
        return None

    def tasks(self):
        """The processes of each task by what they execute: pid and start time."""
        found = {"one": {}, "two": {}}
        for pid in every():
            try:
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            for name in found:
                if words[1:3] == [f"{self.folder}/spin".encode(), name.encode()] and (seen := stat(pid)) and seen[0] not in "ZX":
                    found[name][pid] = seen[2]
        return found

    def stands(self, pid):
        if (seen := stat(pid)) and seen[0] in "Tt":
            return True
        try:
            path = next(line[3:] for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines() if line.startswith("0::"))
            roots = [root for root in ("/sys/fs/cgroup/unified", "/sys/fs/cgroup") if os.path.exists(f"{root}/cgroup.procs")]
            return "frozen 1" in Path(roots[0] + path, "cgroup.events").read_text()
        except (OSError, StopIteration):
            return False

    def is_in(self, local):
        """Whether exactly the tasks of a local mode run, each once."""
        tasks = self.tasks()
        if any(len(processes) > 1 for processes in tasks.values()):
            raise AssertionError(f"a task is there twice: {tasks}\n{(self.folder / 'log').read_text()[-1500:]}")
        runs = {name: bool(all_) and not any(map(self.stands, all_)) for name, all_ in tasks.items()}
        return runs == {"one": local < 2, "two": local == 1}

    def settle(self, local):
        until(lambda: self.is_in(local), what=f"mode {local}: {self.tasks()}; {(self.folder / 'log').read_text()[-800:]}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.guard and self.guard.poll() is None:
            # unshare heeds no SIGTERM; its container ends with it.
            self.guard.send_signal(signal.SIGKILL if self.words[0] == "unshare" else signal.SIGTERM)
            self.guard.wait(30)
        for pid in [pid for processes in self.tasks().values() for pid in processes]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.listener.close()
        shutil.rmtree(self.folder)


def as_nobody(words, environment=None):
    return subprocess.Popen(words, env=environment, user=NOBODY.pw_uid, group=NOBODY.pw_gid, extra_groups=[], start_new_session=True,
                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def forgeries(host):
    """Processes of a stranger that say they are the agent's task `two`, each in its way."""
    mark = {**os.environ, "GIUSTO_TASK": "a/two"}
    return {
        "environment": as_nobody(["sleep", "600"], mark),
        "name": as_nobody(["sh", "-c", "printf giusto-task >/proc/self/comm; while :; do sleep 1; done"]),
        "command line": as_nobody(["sh", "-c", "while :; do sleep 1; done", f"{host.folder}/fork", "two"], mark),
        # A worker of nobody with a master of root: the signal to its group would reach the master.
        "worker of root": subprocess.Popen(
            ["sh", "-c", "GIUSTO_TASK=a/two setpriv --reuid 65534 --clear-groups sleep 600 & wait"], start_new_session=True),
    }


class Forged(Patient):
    def test_who_says_that_it_is_a_task_is_none_and_the_task_is_started(self):
        for phase in ("before start", "in a mode", "after its death"):
            with Host(contained=False) as host:
                strangers = forgeries(host) if phase == "before start" else {}
                host.start().accept()
                host.heard()
                host.switch(0)
                host.settle(0)
                strangers = strangers or forgeries(host)
                time.sleep(0.1)
                if phase == "after its death":
                    os.kill(host.agent(), signal.SIGKILL)
                    host.again(0)
                try:
                    for local in (1, 0, 1, 2):
                        host.wanted = local
                        host.switch(local)
                        host.settle(local)
                        for kind, stranger in strangers.items():
                            self.assertNotIn(stat(stranger.pid)[0], "TZ", f"{kind} was touched {phase}")
                    for kind in strangers:
                        held(f"forged {kind}", phase)
                finally:
                    for stranger in strangers.values():
                        os.killpg(stranger.pid, signal.SIGKILL)
                        stranger.wait()

    def test_a_state_that_strangers_could_write_is_refused(self):
        for what in ("open folder", "stranger's folder", "stranger's file", "link"):
            with Host(contained=False) as host:
                state = host.folder / "state"
                if what == "open folder":
                    state.chmod(0o777)
                elif what == "stranger's folder":
                    os.chown(state, NOBODY.pw_uid, NOBODY.pw_gid)
                elif what == "stranger's file":
                    (state / "a").write_text("")
                    os.chown(state / "a", NOBODY.pw_uid, NOBODY.pw_gid)
                else:
                    (state / "a").symlink_to(host.folder / "elsewhere")
                host.start()
                self.assertEqual(host.guard.wait(10), 4 if what == "link" else 2, what)
                held(f"forged state: {what}", "before start")

    def test_a_record_whose_process_id_is_another_process_by_now_is_no_task(self):
        with Host(contained=False) as host:
            victim = subprocess.Popen(["sleep", "600"], start_new_session=True)
            here = f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {os.readlink('/proc/self/ns/pid')}"
            record = {"task": "one", "here": here, "cgroup": None, "pid": victim.pid, "started": stat(victim.pid)[2] - 1}
            (host.folder / "state" / "a.tasks").write_text(json.dumps(record).ljust(1024))
            os.chmod(host.folder / "state" / "a.tasks", 0o600)
            host.start().accept()
            host.heard()
            try:
                for local in (0, 2, 0):
                    host.switch(local)
                    host.settle(local)
                    self.assertEqual(stat(victim.pid)[0], "S")
                held("process id used again", "before start")
            finally:
                victim.kill()
                victim.wait()


class Dead(Patient):
    def killed(self, contained, kill, phase, draw):
        """One agent that is killed in a switch by `kill`, once the command is on its way."""
        with Host(contained) as host:
            host.start().accept()
            host.heard()
            for local in draw.choice(((1, 0), (1, 2), (0,), (2,), (0, 2), (1,))):
                host.wanted = local
                host.switch(local)
                host.settle(local)
            before = host.tasks()
            host.wanted = draw.choice([other for other in (0, 1, 2) if other != local])
            ends = kill(host)
            change, heard = host.change + 1, None
            with contextlib.suppress(BrokenPipeError):  # it may be dead already
                host.command(host.wanted)
                while (heard := host.heard()) and heard != ("done", change):
                    self.assertNotEqual(heard[0], "failed")
            ends()
            if heard is None:
                host.again(change)
            host.settle(host.wanted)
            after = host.tasks()
            for name in before:
                for pid, started in before[name].items():
                    self.assertEqual(after[name].get(pid), started, f"task {name} did not go on; seed {SEED}, {phase}")
            # An orderly end ends all that was started, also by the agents before.
            if not contained:
                host.guard.send_signal(signal.SIGTERM)
                self.assertEqual(host.guard.wait(20), 0)
                until(lambda: not any(host.tasks().values()), what="the end of all tasks")

    def test_an_agent_that_dies_at_any_step_is_back_and_its_tasks_have_gone_on(self):
        if not shutil.which("strace"):
            self.skipTest("strace is missing: apt-get install strace")
        draw = random.Random(SEED)
        for turn in range(400 if SOAK else 12):
            contained, step = turn % 2 == 1, draw.randrange(1, 220)

            def kill(host):
                trace = subprocess.Popen(["strace", "-qq", "-e", "trace=none", "-e", f"inject=all:signal=KILL:when={step}", "-p", str(host.agent())],
                                         stderr=subprocess.DEVNULL)
                pid = host.agent()
                until(lambda: "TracerPid:\t0" not in Path(f"/proc/{pid}/status").read_text(), what="strace")
                def ends():
                    trace.kill()
                    trace.wait()
                return ends

            self.killed(contained, kill, f"step {step}", draw)
            held(f"killed at a step, {'container' if contained else 'machine'}", "in a switch")

    def test_an_agent_that_is_killed_at_any_instant_also_with_its_guard_finds_its_tasks(self):
        draw = random.Random(SEED + 1)
        for turn in range(200 if SOAK else 5):
            contained = turn % 2 == 1

            def kill(host):
                pid = host.agent()
                timer = threading.Timer(draw.uniform(0, 0.004), lambda: os.kill(pid, signal.SIGKILL))
                timer.start()
                return timer.join

            self.killed(contained, kill, "at an instant", draw)
            held(f"killed, {'container' if contained else 'machine'}", "in a switch")
        with Host(contained=False) as host:
            host.start().accept()
            host.heard()
            for local in (1, 0):
                host.switch(local)
                host.settle(local)
            before = host.tasks()
            self.assertTrue(all(before.values()))
            host.guard.kill()
            host.guard.wait()
            self.assertIsNone(host.heard())
            time.sleep(0.2)
            self.assertEqual(host.tasks(), before, "they go on, and stand still, without any agent")
            host.start().again(0)
            for local in (0, 1, 2):
                host.wanted = local
                host.switch(local)
                host.settle(local)
                self.assertEqual(host.tasks(), before)
            held("killed with its guard", "in a mode")


def thread_ns(pid, name):
    """Processor time of a thread."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        if (task / "comm").read_text().strip() == name:
            return int((task / "schedstat").read_text().split()[0])
    raise AssertionError(f"giusto has no thread {name}")


FLOOD = r"""
import os, socket, sys, time
os.setgroups([]); os.setuid(int(sys.argv[4]))
kind, path, until = sys.argv[1], sys.argv[2], time.monotonic() + float(sys.argv[3])
held, count = [], 0
while time.monotonic() < until:
    one = socket.socket(socket.AF_UNIX)
    one.settimeout(0.5)
    try:
        one.connect(path)
        count += 1
        if kind == "garbage":
            one.sendall(os.urandom(400))
        elif kind == "slow":
            one.sendall(b"\x00")
        elif kind == "half":  # a correct name, from a sender without its key
            one.sendall(b"\x00\x13\x10\x01" + os.urandom(16) + b"a")
    except OSError:
        pass
    held = (held + [one])[-400:]
    if kind == "slow":
        for other in held[-60:]:
            try:
                other.send(b"\x13")
            except OSError:
                pass
    time.sleep(0.0005)
print(count)
"""


class Floods(Patient):
    SECONDS = 60 if SOAK else 4

    def test_members_are_let_in_and_no_deadline_is_missed_under_any_flood(self):
        with House() as house:
            house.folder.chmod(0o711)  # strangers reach the socket, as in /run/giusto
            quiet = self.measured(house, lambda path, seconds: [])
            print(f"quiet: {quiet}", file=sys.stderr)
            for kind in ("silent", "slow", "garbage", "half"):
                crowd = lambda path, seconds: [
                    subprocess.Popen([sys.executable, "-c", FLOOD, kind, path, str(seconds), str(NOBODY.pw_uid)], stdout=subprocess.PIPE, text=True)
                    for _ in range(2)]
                self.judge(f"strangers, {kind}", house, crowd, quiet)
            self.judge("member, valid frames", house, self.member(house), quiet)

    def member(self, house):
        """A member of its own that says the same valid thing as fast as it can: the agent b's key is its."""
        os.kill(house.agent("b"), signal.SIGSTOP)  # or it would throw this one out
        key = (house.folder / "b.key").read_bytes()

        def crowd(path, seconds):
            def flood():
                end, said = time.monotonic() + seconds, 0
                while time.monotonic() < end:
                    try:
                        forger = Forger(path, b"b", key)
                        forger.socket.settimeout(0.5)
                        if forger.shake():
                            while time.monotonic() < end:
                                forger.say(struct.pack(">BQ", 3, 2**40))
                                forger.bytes, said = b"", said + 1
                    except OSError:
                        time.sleep(0.02)
                return said
            thread = threading.Thread(target=flood)
            thread.start()
            return [thread]
        return crowd

    def judge(self, name, house, crowd, quiet):
        # A flood that makes a thread late does so in every window; what the machine does between two wake-ups of the
        # witness, only now and then.
        for _ in range(3):
            loud = self.measured(house, crowd)
            print(f"{name}: {loud}", file=sys.stderr)
            if loud["lateness_us"] < 1000 + loud["machine_us"]:
                break
        # What it spends on messages of members, and on changes, and nothing on the network: 2 s without this.
        self.assertLess(loud["modes_ms_per_s"], quiet["modes_ms_per_s"] + 10, name)
        self.assertLess(loud["log_lines"], 30, name)
        self.assertLess(loud["lateness_us"], 1000 + loud["machine_us"], f"{name}: an enforcing thread was late")
        self.assertGreaterEqual(loud["back"], loud["killed"], f"{name}: a member was kept out")
        held(name, "while enforced")

    def measured(self, house, crowd):
        pid, log = house.giusto.pid, house.folder / "log"
        lines, begun, spent = log.read_text().count("\n"), time.monotonic(), thread_ns(pid, "giusto-modes")
        core = str(self.cores(house)[0]["core"])
        witness = subprocess.Popen([sys.executable, "-c", WITNESS, core], stdout=subprocess.PIPE, text=True)
        self.assertEqual(witness.stdout.readline(), "begins\n")
        time.sleep(2.2)  # status tells the latest of a whole second, up to a second ago, which the witness must have seen
        begun = time.monotonic()
        flooding = crowd(str(house.folder / "modes"), self.SECONDS)
        killed = back = late = 0
        took = []
        while time.monotonic() < begun + self.SECONDS - 1:
            worker = house.agent("a")
            os.kill(worker, signal.SIGKILL)
            killed, since = killed + 1, time.monotonic()
            until(lambda: house.agent("a") not in (None, worker), what="the guard's next agent")
            until(lambda: self.sound(house, "a"), patience=10, what="a member's connection")
            took.append(time.monotonic() - since)
            back += 1
            # The site has one core.
            late = max(late, self.cores(house)[0]["lateness_max_ns"] or 0)
        passed = time.monotonic() - begun
        spent = (thread_ns(pid, "giusto-modes") - spent) / 1e6 / passed
        witness.terminate()
        machine = int(witness.communicate()[0])
        came = 0
        for one in flooding:
            if isinstance(one, threading.Thread):
                one.join()
            else:
                came += int(one.communicate()[0] or 0)
        return {"connections": came, "modes_ms_per_s": round(spent, 2), "log_lines": log.read_text().count("\n") - lines, "killed": killed, "back": back,
                "slowest_return_s": round(max(took), 2), "lateness_us": late // 1000, "machine_us": machine // 1000}

    def cores(self, house):
        return json.loads(house.ask("status", "--json")[1])["cores"]

    def sound(self, house, name):
        modes_ = house.modes()
        return modes_ and next(one for one in modes_["members"] if one["service"] == name)["connected"]


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("cannot tell: root is missing: run it as root", file=sys.stderr)
        sys.exit(77)
    if lacks := modes.cannot():
        print(f"the floods are left out: {lacks}", file=sys.stderr)
        del Floods
    unittest.main(verbosity=2)
