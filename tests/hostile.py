"""Hostile services beside one with a promise: forks without end, escapes, stops, changes of themselves, crashes, out of memory; in each
phase of their life. What is measured from outside: the other one keeps its promise and its process, the hostile one its budget,
status is true, and nothing is left. Prints a matrix fault x phase. Needs root and a second core.

  hostile.py [CASES]         that many, two at a time, drawn by GIUSTO_SEED (printed); by default each fault once
  GIUSTO_SOAK=1 hostile.py   1,000
"""
import contextlib
import ctypes
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from folders import folders

ROOT = Path(__file__).resolve().parent.parent
GIUSTO = ROOT / "target" / "release" / "giusto"
CORE = 1
PHASES = ("start", "run", "reload", "mode", "stop")
# What happens; those marked end the service's first process.
ENDS = ("exit-0", "exit-7", "crash", "killed", "memory")
FAULTS = ("forks", "double-fork", "session", "other-user", "stops-itself", "stops-its-group", "policy", "affinity", "cgroup", "name",
          "environment", "ignores-term", *ENDS)
TASKS = 24
LOOK = 1.5  # seconds in which a fault is watched
BUDGET = {"hostile": 0.2, "guard": 0.3}
PERIOD = 0.01
QUOTA = 0.1
TICK = 0.01  # of the clock of stolen time


# --- the hostile side: this file is its program, too

def spin():
    while True:
        pass


def spinning_child():
    pid = os.fork()
    if pid == 0:
        spin()
    return pid


def be(fault):
    """Does it; returns where the service goes on."""
    match fault:
        case "forks":  # each child does the same, up to the limit, and as soon as one has ended again
            while True:
                with contextlib.suppress(OSError):
                    if os.fork() == 0 and random.random() < 0.3:
                        os._exit(0)
                with contextlib.suppress(OSError):
                    os.waitpid(-1, os.WNOHANG)
        case "double-fork":
            for _ in range(3):
                if os.fork() == 0:
                    spinning_child()
                    os._exit(0)
                os.wait()
        case "session":
            for _ in range(3):
                if os.fork() == 0:
                    os.setsid()
                    spin()
        case "other-user":
            if os.fork() == 0:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
                os.execv("/bin/sh", ["sh", "-c", "while :; do :; done"])
        case "stops-itself":
            os.kill(os.getpid(), signal.SIGSTOP)
        case "stops-its-group":
            spinning_child()
            os.kill(0, signal.SIGSTOP)
        case "policy":
            for policy, priority in ((os.SCHED_FIFO, 99), (os.SCHED_RR, 99), (os.SCHED_FIFO, 1), (os.SCHED_BATCH, 0), (os.SCHED_IDLE, 0)):
                with contextlib.suppress(OSError):
                    os.sched_setscheduler(0, policy, os.sched_param(priority))
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, 0, -20)
        case "affinity":
            spinning_child()
            for _ in range(20):
                os.sched_setaffinity(0, range(os.cpu_count()))
                end = time.monotonic() + 0.05
                while time.monotonic() < end:
                    pass
        case "cgroup":
            for _ in range(3):
                if os.fork() == 0:
                    for tree in Path("/sys/fs/cgroup"), *Path("/sys/fs/cgroup").iterdir():
                        with contextlib.suppress(OSError):
                            (tree / "cgroup.procs").write_text("0")
                    spinning_child()
                    spin()
        case "name":
            ctypes.CDLL(None).prctl(15, b"giusto-core1", 0, 0, 0)
        case "environment":
            os.execve(sys.executable, [sys.executable, "-c", "while True: pass"], {"GIUSTO_TASK": "guard/control", "GIUSTO_STATE": "/tmp"})
        case "ignores-term":
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGTSTP):
                signal.signal(number, signal.SIG_IGN)
            spinning_child()
        case "exit-0":
            os._exit(0)
        case "exit-7":
            os._exit(7)
        case "crash":
            ctypes.string_at(0)
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "memory":
            everything = []
            while True:
                everything.append(bytearray(os.urandom(1) * (1 << 20)))


def serve(fault, go):
    """The program of the hostile service: works until `go` is there, then does it; once."""
    mark = os.open(go.parent / "mark", os.O_RDONLY)  # what is left of it is known by this, whatever it calls itself
    os.set_inheritable(mark, True)
    while not go.exists():
        pass
    with contextlib.suppress(FileNotFoundError):
        go.unlink()
        (go.parent / "done").touch()
        be(fault)
    spin()


# --- the other side

def read(path):
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def holders(mark):
    """Processes that have the mark open."""
    found = []
    for one in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if any(os.readlink(fd) == str(mark) for fd in (one / "fd").iterdir()):
                found.append(int(one.name))
    return found


def cgroups():
    return [str(path) for path in folders("/sys/fs/cgroup", "giusto.*")]


def stolen():
    return int(Path("/proc/stat").read_text().splitlines()[1 + CORE].split()[8]) / 100


def group(name):
    return next((path for path in folders("/sys/fs/cgroup", f"giusto.{name}.service") if (path / "cgroup.procs").exists()), None)


def had(name):
    """Processor time of a service in seconds, from its cgroup's own account; what has moved elsewhere is not in it."""
    at = Path("/sys/fs/cgroup/unified") if Path("/sys/fs/cgroup/unified").is_dir() else Path("/sys/fs/cgroup")
    rows = dict(line.split() for line in read(at / f"giusto.{name}.service" / "cpu.stat").splitlines())
    return int(rows.get("usage_usec", 0)) / 1e6


def burnt(mark):
    """Processor time of all that have the mark open, in seconds, in whatever cgroup: for a service whose processes do not end."""
    return sum(int(read(f"/proc/{pid}/schedstat").split()[0] or 0) for pid in holders(mark)) / 1e9


class Hostile:
    """One service, and what it does."""

    def __init__(self, run, name, fault):
        self.run, self.name, self.fault, self.folder = run, name, fault, run.folder / name
        self.go, self.mark = self.folder / "go", self.folder / "mark"
        self.folder.mkdir()
        self.mark.touch()
        self.wrong, self.used = [], 0

    def expect(self, holds, what):
        if not holds:
            self.wrong.append(what)

    def site(self, budget):
        script = f"[{sys.executable}, {Path(__file__).resolve()}, --be, {self.fault}, {self.go}]"
        promise = "promise: leftovers, at-most: 20%" if self.run.phase == "mode" else f"promise: {{supply: {budget}}}"
        return f"  {self.name}: {{start: {script}, limits: {{tasks: {TASKS}, memory: 96M}}, {promise}, restart: always}}\n"

    def service(self):
        return self.run.service(self.name)

    def had(self):
        """Also outside its cgroup; but a quota binds what is in its cgroup; what has left it is brought back once a second."""
        return burnt(self.mark) if self.fault == "cgroup" and self.run.phase != "mode" else had(self.name)

    def judge(self, passed, lost):
        """The budget, and one period more of the manager, or of the quota, in all that it had."""
        share = self.had() - self.used
        most = BUDGET["hostile"] * passed + lost + (QUOTA if self.run.phase == "mode" else PERIOD) + TICK
        # And at once; what the hypervisor took may be on a server's account.
        one = self.service()
        overrun, limit = (one.get("overrun_max_ns") or 0) / 1e9, PERIOD + lost + TICK
        self.expect(overrun < limit, f"a budget was exceeded by {overrun:.4f} s")
        self.expect(share < most, f"it had {share:.3f} of {BUDGET['hostile'] * passed:.3f} s; status: {one}")

    def told(self):
        """What status says of it is true."""
        one = self.service()
        match self.fault:
            case "double-fork" | "session":
                self.until(lambda: self.service().get("threads", 0) >= 4, "status counts its children", 5)
            case "cgroup":
                self.until(lambda: self.service().get("escaped", 0) >= 3, "status says that it had left its cgroup", 5)
                # With their children, which had been born outside.
                self.until(lambda: set(holders(self.mark)) <= self.inside(), "all are brought back", 5)
            case fault if fault in ENDS:
                self.until(lambda: self.service().get("restarts", 0) >= 1, "status counts its restart", 5)
                words = {"exit-0": "exit code 0", "exit-7": "exit code 7", "crash": "signal 11", "killed": "signal 9",
                         "memory": "memory"}[fault]
                self.expect(words in self.service().get("last_end", ""), f"last_end: {self.service().get('last_end')}")
            case _:
                self.expect(one.get("restarts") == 0, f"{one.get('restarts')} restarts")

    def inside(self):
        """In all of its groups."""
        tops = [path for path in folders("/sys/fs/cgroup", f"giusto.{self.name}.service") if (path / "cgroup.procs").exists()]
        members = [{int(pid) for folder in folders(top) for pid in read(folder / "cgroup.procs").split()} for top in tops]
        return set.intersection(*members) if members else set()

    def until(self, holds, what, seconds=20):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if found := holds():
                return found
            time.sleep(0.02)
        self.expect(False, f"not within {seconds} s: {what}")
        return None


class Run:
    """One giusto, one service with a promise, and the hostile ones, which do what they do in the same phase."""

    def __init__(self, faults, phase):
        self.faults, self.phase = faults, phase
        self.wrong, self.void = [], False

    def expect(self, holds, what):
        if not holds:
            self.wrong.append(what)

    def site(self, budget="2ms/10ms"):
        names = ", ".join(f"{one.name}: stopped" for one in self.hostile)
        modes = f"modes:\n  normal: {{}}\n  quiet: {{{names}}}\nmode-changes: {{spacing: 100ms}}\n"
        modes = modes if self.phase == "mode" else ""
        self.path.write_text(
            f"giusto: 1\nhosts:\n  test: {{cores: {CORE}}}\nservices:\n"
            "  guard: {start: [sh, -c, 'while :; do :; done'], promise: {supply: 3ms/10ms}}\n"
            + "".join(one.site(budget) for one in self.hostile)
            + f"  batch: {{start: [sh, -c, 'while :; do :; done'], promise: leftovers}}\n{modes}")

    def ask(self, *words, code=0):
        done = subprocess.run([GIUSTO, *words], env=self.environment, capture_output=True, text=True, timeout=30)
        self.expect(done.returncode == code, f"{' '.join(words)}: exit {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def status(self):
        done = subprocess.run([GIUSTO, "status", "--json"], env=self.environment, capture_output=True, text=True, timeout=30)
        return json.loads(done.stdout) if done.returncode == 0 else {"state": "none", "services": []}

    def service(self, name):
        return next((one for one in self.status()["services"] if one["name"] == name), {})

    until = Hostile.until

    def run(self):
        with tempfile.TemporaryDirectory() as folder:
            self.folder = Path(folder)
            self.path, self.log = self.folder / "site.yaml", self.folder / "log"
            self.hostile = [Hostile(self, f"hostile-{place}", fault) for place, fault in enumerate(self.faults, 1)]
            self.environment = {**os.environ, "GIUSTO_STATE": str(self.folder / "state")}
            before = cgroups()
            self.site()
            if self.phase == "start":
                self.all_go()
            with open(self.log, "w") as log:
                words = [GIUSTO, "run", self.path, "--backend", "manager", "--out", self.folder / "out"]
                self.giusto = subprocess.Popen(words, env=self.environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
            try:
                self.until(lambda: self.giusto.poll() is not None or self.status()["state"] in ("enforcing", "degraded"), "it enforces", 30)
                self.expect(self.giusto.poll() is None, f"giusto has ended: {read(self.log)[-1500:]}")
                if self.giusto.poll() is None:
                    self.play()
            finally:
                self.stop()
            self.expect(cgroups() == before, f"left: {set(cgroups()) - set(before)}")
            for one in self.hostile:
                left = holders(one.mark)
                one.expect(not left, f"processes left: {left}")
                for pid in left:
                    os.kill(pid, signal.SIGKILL)
            if self.wrong or any(one.wrong for one in self.hostile):
                print(f"--- log of giusto\n{read(self.log)[-3000:]}---", flush=True)
        return self

    def all_go(self):
        for one in self.hostile:
            one.go.touch()

    def play(self):
        guard = (group("guard") / "cgroup.procs").read_text()
        if self.phase != "start":
            time.sleep(0.3)
            self.all_go()
        # From then on all of their time is in their accounts: before, a program that starts has not marked itself.
        for one in self.hostile:
            one.until((one.folder / "done").exists, "the fault begins")
        if self.phase == "stop":
            time.sleep(random.uniform(0, 0.2))
            return
        begun, lost, kept = time.monotonic(), stolen(), had("guard")
        for one in self.hostile:
            one.used = one.had()
        if self.phase == "reload":
            self.site("1500us/10ms")
            self.ask("reload")
        if self.phase == "mode":
            self.ask("mode", "quiet", "--wait")
            time.sleep(0.2)
            still = [one.had() for one in self.hostile]
            time.sleep(LOOK / 2)
            for one, then in zip(self.hostile, still):
                one.expect(one.had() - then < 0.02, f"stopped by the mode, and had {one.had() - then:.3f} s")
            time.sleep(0.1)
            self.ask("mode", "normal", "--wait")
        time.sleep(LOOK)
        passed, lost, supply = time.monotonic() - begun, stolen() - lost, had("guard") - kept
        self.void = lost > 0.02 * passed
        if not self.void:
            # The promise of the other one, but for what the hypervisor took.
            floor = BUDGET["guard"] * passed * 0.97 - lost - PERIOD
            self.expect(supply > floor, f"the guard had {supply:.3f} of {BUDGET['guard'] * passed:.3f} s")
            for one in self.hostile:
                one.judge(passed, lost)
        self.expect((group("guard") / "cgroup.procs").read_text() == guard, "the guard is another process")
        self.expect(self.giusto.poll() is None, f"giusto has ended: {read(self.log)[-1500:]}")
        for one in self.hostile:
            one.told()
        guard = self.service("guard")
        self.expect(guard.get("restarts") == 0 and guard.get("state") != "ended", f"status of the guard: {guard}")

    def stop(self):
        if self.giusto.poll() is None:
            self.giusto.send_signal(signal.SIGINT)
        try:
            code = self.giusto.wait(30)
            self.expect(code == 0, f"giusto ends with {code}: {read(self.log)[-800:]}")
        except subprocess.TimeoutExpired:
            self.expect(False, "giusto does not end")
            self.giusto.kill()
            self.giusto.wait()
        subprocess.run([GIUSTO, "restore"], env=self.environment, capture_output=True, timeout=60)


def cases(count, draw):
    """Each fault once, in another phase each time; then at random. Those of one phase two at a time."""
    rng = random.Random(draw)
    chosen = [(fault, PHASES[(place + draw) % len(PHASES)]) for place, fault in enumerate(FAULTS)][:count]
    chosen += [(rng.choice(FAULTS), rng.choice(PHASES)) for _ in range(count - len(FAULTS))]
    return [(tuple(pair), phase) for phase in PHASES for pair in batched([fault for fault, at in chosen if at == phase], 2)]


def batched(all_, size):
    return [all_[at:at + size] for at in range(0, len(all_), size)]


def main():
    seed = int(os.environ.get("GIUSTO_SEED") or random.randrange(10**6))
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000 if os.environ.get("GIUSTO_SOAK") else len(FAULTS)
    only = [((fault,), phase) for fault in FAULTS for phase in PHASES if os.environ.get("ONLY") in (f"{fault}/{phase}", fault)]
    done, void, failed = Counter(), 0, 0
    runs = only or cases(count, seed)
    random.Random(seed).shuffle(runs)
    for faults, phase in runs:
        run = Run(faults, phase).run()
        void += len(faults) * run.void
        for one in run.hostile:
            done[one.fault, phase] += 1
            wrong = one.wrong + run.wrong
            failed += bool(wrong)
            if wrong:
                print(f"FAILED {one.fault} while {phase}, beside {', '.join(faults)}: {'; '.join(wrong)}", flush=True)
    print(f"hostile services, seed {seed}: fault x phase, cases")
    print(f"{'':16}" + "".join(f"{phase:>8}" for phase in PHASES))
    for fault in FAULTS:
        print(f"{fault:16}" + "".join(f"{done[fault, phase] or '.':>8}" for phase in PHASES))
    print(f"hostile: {sum(done.values())} cases in {len(runs)} runs, {failed} failed, "
          f"{void} without figures (the hypervisor took the core)")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--be"]:
        serve(sys.argv[2], Path(sys.argv[3]))
    if os.geteuid() != 0 or not Path(f"/sys/devices/system/cpu/cpu{CORE}").exists():
        print("needs root and a second core", file=sys.stderr)
        sys.exit(77)
    main()
