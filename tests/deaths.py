"""Hosts are left as they were found, also after a crash: `giusto run` with the backend manager is killed, stalled, reloaded
and has its services taken away, and policies, affinities, cgroups and cpusets are compared with what was before.

`giusto restore` is not called unless a test is about that. GIUSTO_SOAK=1: 200 random deaths; GIUSTO_SEED=N: those of seed N.
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
import unittest
from pathlib import Path

from folders import folders
from patient import Patient, of_today
from typed import GIUSTO, ROOT, trial

TREE = Path("/sys/fs/cgroup")
HOME = TREE / "freezer" / "deaths-test"  # where an adopted service lives
MEMORY = TREE / "memory" / "deaths-test"
CORE1 = Path("/sys/devices/system/cpu/cpu1/online")
SEED = int(os.environ.get("GIUSTO_SEED") or random.randrange(10**6))
DEATHS = 200 if os.environ.get("GIUSTO_SOAK") else 4
LIBC = ctypes.CDLL(None, use_errno=True)
GET_ATTR, PDEATHSIG = 315, 1
SPIN = ["sh", "-c", "while :; do :; done"]


def mortal():
    """Dies with the test, whatever ends that."""
    LIBC.prctl(PDEATHSIG, signal.SIGKILL)


def hears_hangups():
    """Giusto leaves SIGHUP ignored where it is, as under nohup; here it is to reload."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def attributes(tid):
    """Policy, flags, nice and priority, as sched_getattr(2) tells."""
    raw = ctypes.create_string_buffer(56)
    return raw.raw[4:24] if LIBC.syscall(GET_ATTR, tid, raw, 56, 0) == 0 else None


def read(path):
    try:
        return path.read_text()
    except OSError:
        return None


def host(pids):
    """What enforcement may change, as text to compare."""
    state = {}
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").glob("*"):
            tid = int(task.name)
            with contextlib.suppress(ProcessLookupError):
                state[f"thread {tid}"] = (attributes(tid), sorted(os.sched_getaffinity(tid)), read(task / "cgroup"))
    for controller in ("freezer", "cpu", "cpuset", "unified"):
        for folder in folders(TREE / controller):
            names = ("freezer.state", "cpu.rt_runtime_us", "cpu.cfs_quota_us", "cpuset.cpus", "cpuset.mems", "cpuset.sched_load_balance",
                     "cpuset.cpu_exclusive", "cgroup.subtree_control", "cgroup.freeze")
            state[str(folder)] = {name: read(folder / name) for name in names}
    return state


def name_of(pid):
    return (read(Path(f"/proc/{pid}/comm")) or "").strip()


def alive(pid):
    stat = read(Path(f"/proc/{pid}/stat"))
    return stat is not None and stat.rsplit(")", 1)[1].split()[0] != "Z"


def watchdogs():
    return [one.parent.name for one in Path("/proc").glob("[0-9]*/comm") if (read(one) or "").strip() == "giusto-watchdog"]


class Daemon:
    """A `giusto run` of `site`, with a state folder of its own."""

    def __init__(self, folder, site, preexec=lambda: None):
        self.log, self.site = folder / "log", folder / "site.yaml"
        self.environment = {**os.environ, "GIUSTO_STATE": str(folder / "state")}
        self.site.write_text(site)
        command = [GIUSTO, "run", self.site, "--backend", "manager", "--out", folder / "out"]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=self.environment,
                                            preexec_fn=lambda: (mortal(), hears_hangups(), preexec()))

    def giusto(self, *args, code=0):
        done = subprocess.run([GIUSTO, *args], env=self.environment, capture_output=True, text=True, timeout=30)
        assert done.returncode == code, f"{args}: exit {done.returncode}, expected {code}\n{done.stdout}{done.stderr}{self.said()}"
        return done.stdout + done.stderr

    def status(self):
        return json.loads(self.giusto("status", "--json"))

    def service(self, name):
        return next((service for service in self.status()["services"] if service["name"] == name), None)

    def said(self):
        return self.log.read_text()

    def ready(self):
        until = time.monotonic() + 20
        while time.monotonic() < until and self.process.poll() is None:
            done = subprocess.run([GIUSTO, "status", "--json"], env=self.environment, capture_output=True, text=True)
            if done.returncode == 0 and json.loads(done.stdout)["state"] in ("enforcing", "degraded"):
                self.watchdog = next(pid for pid in self.children() if name_of(pid) == "giusto-watchdog")
                return self
            time.sleep(0.05)
        raise AssertionError(f"it does not enforce: {self.said()}")

    def children(self):
        pid = self.process.pid
        return [int(child) for task in Path(f"/proc/{pid}/task").glob("*") for child in (read(task / "children") or "").split()]

    def end(self, code=0):
        self.process.terminate()
        ended = self.process.wait(timeout=20)
        assert ended == code, f"exit {ended}, expected {code}: {self.said()}"


class Deaths(Patient):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        HOME.mkdir()
        self.addCleanup(HOME.rmdir)
        self.workers = []
        self.addCleanup(self.end_workers)
        self.one = self.worker(lambda: os.nice(5))
        self.two = self.worker(lambda: (HOME / "cgroup.procs").write_text(str(os.getpid())))
        self.also_two = self.worker(lambda: ((HOME / "cgroup.procs").write_text(str(os.getpid())), os.sched_setaffinity(0, {1})))
        self.batch = self.worker(lambda: os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0)))
        self.daemon = None
        self.addCleanup(self.end_daemon)  # first of all
        time.sleep(0.05)
        self.before = self.now()

    def worker(self, preexec, command=SPIN):
        self.workers.append(subprocess.Popen(command, preexec_fn=lambda: (mortal(), preexec()), start_new_session=True))
        return self.workers[-1].pid

    def end_workers(self):
        for worker in self.workers:
            worker.kill()
            worker.wait(timeout=5)
        time.sleep(0.05)  # the kernel takes them out of their cgroups

    def end_daemon(self):
        if self.daemon:
            self.daemon.process.kill()
            self.daemon.process.wait()
            environment = self.daemon.environment
            subprocess.run([GIUSTO, "restore"], env=environment, capture_output=True, timeout=30)

    def now(self):
        return host([worker.pid for worker in self.workers])

    def site(self, more="", one="3ms/10ms"):
        return (f"giusto: 1\nhosts: {{edge-1: {{cores: 1}}}}\nservices:\n  one: {{adopt: {{pid: {self.one}}}, promise: {{supply: {one}}}, cap: hard}}\n"
                f"  two: {{adopt: {{cgroup: freezer/{HOME.name}}}, promise: {{supply: 2ms/10ms}}}}\n"
                f"  batch: {{adopt: {{pid: {self.batch}}}, promise: leftovers}}\n{more}")

    def start(self, site=None, preexec=lambda: None):
        self.daemon = Daemon(self.folder, site or self.site(), preexec)
        return self.daemon

    def wait(self, ready, seconds, what):
        begun = time.monotonic()
        until = begun + seconds
        while not ready():
            if time.monotonic() > until:
                self.fail(f"{what} not within {seconds} s\n{self.daemon.said()}")
            time.sleep(0.02)
        if (took := time.monotonic() - begun) > 3:
            print(f"SLOW: {what} after {took:.1f} s", flush=True)

    def different(self):
        """What is not as it was before: each with what it was and what it is."""
        now = self.now()
        return {key: (self.before.get(key), now.get(key)) for key in self.before | now if self.before.get(key) != now.get(key)}

    def as_before(self, what="as it was", seconds=5):
        until = time.monotonic() + seconds
        while (different := self.different()) and time.monotonic() < until:
            time.sleep(0.05)
        self.assertEqual(different, {}, f"{what}\n{self.daemon.said()}")

    def is_enforced(self):
        self.assertNotEqual(self.now(), self.before, self.daemon.said())

    def test_killed_at_random_instants(self):
        draw, changed = random.Random(SEED), 0
        for death in range(DEATHS):
            delay = draw.choice([draw.uniform(0, 0.15), draw.uniform(0, 0.6), draw.uniform(0.3, 2)])
            daemon = self.start()
            if death == DEATHS - 1 and not changed:
                daemon.ready()  # a slow machine had nothing to undo before
            time.sleep(delay)
            daemon.process.kill()
            daemon.process.wait()
            self.as_before(f"seed {SEED}, death {death} after {delay * 1000:.1f} ms")
            # It may be about to restore what does not show, such as a record of a change that was not made yet.
            self.wait(lambda: not watchdogs(), 5, "the end of the watchdog")
            changed += " changes" in daemon.said()
            self.assertIn("nothing to restore", daemon.giusto("restore"))
        print(f"  seed {SEED}, {DEATHS} deaths, {changed} with changes to undo", flush=True)
        self.assertGreater(changed, 0)

    def test_a_stalled_daemon_is_killed_and_its_host_restored(self):
        daemon = self.start().ready()
        self.is_enforced()
        daemon.process.send_signal(signal.SIGSTOP)
        self.wait(lambda: daemon.process.poll() is not None, 5, "the end of what stalled")
        self.assertEqual(daemon.process.returncode, -signal.SIGKILL)
        self.as_before()
        self.assertIn("has stalled", daemon.said())

    def test_restore_beside_the_watchdog_is_no_error(self):
        """As systemd's ExecStopPost does it."""
        for _ in range(3):
            daemon = self.start().ready()
            daemon.process.kill()
            daemon.process.wait()
            daemon.giusto("restore")
            self.as_before()

    def test_killed_together_with_its_watchdog_the_next_one_restores(self):
        for restore in (True, False):
            daemon = self.start().ready()
            os.kill(daemon.watchdog, signal.SIGKILL)
            daemon.process.kill()
            daemon.process.wait()
            time.sleep(1)
            self.is_enforced()  # no process was left to restore it
            if restore:
                daemon.giusto("restore")
            else:
                self.start().ready().end()
            self.as_before()

    def test_out_of_memory(self):
        try:
            MEMORY.mkdir()
            self.addCleanup(lambda: self.patiently(MEMORY.rmdir))
            (MEMORY / "memory.limit_in_bytes").write_text(str(96 << 20))
        except OSError as why:
            self.skipTest(f"no memory cgroup (v1) to run out of: {why}")
        enter = lambda: (MEMORY / "cgroup.procs").write_text(str(os.getpid()))
        chosen = lambda: (enter(), Path("/proc/self/oom_score_adj").write_text("1000"))
        daemon = self.start(preexec=chosen).ready()
        self.is_enforced()
        grow = "import time\nall = []\nwhile True:\n  all.append(b'x' * (1 << 20)); time.sleep(0.005)"
        hog = subprocess.Popen([sys.executable, "-c", grow], preexec_fn=lambda: (mortal(), enter()))
        try:
            self.wait(lambda: daemon.process.poll() is not None, 10, "an OOM kill")
        finally:
            hog.kill()
            hog.wait()
        self.assertEqual(daemon.process.returncode, -signal.SIGKILL)
        self.as_before()

    def patiently(self, do):
        for _ in range(100):
            with contextlib.suppress(OSError):
                return do()
            time.sleep(0.05)
        return do()

    def test_a_lost_watchdog_is_told(self):
        daemon = self.start().ready()
        self.assertEqual(daemon.status()["warnings"], [])
        os.kill(daemon.watchdog, signal.SIGKILL)
        self.wait(lambda: any("watchdog has died" in warning for warning in daemon.status()["warnings"]), 5, "a warning")
        self.assertEqual(daemon.status()["state"], "degraded")
        self.assertFalse(any(name_of(pid) == "giusto-watchdog" and alive(pid) for pid in daemon.children()))
        self.assertEqual(daemon.said().count("watchdog has died"), 1)
        daemon.end()
        self.as_before()

    def test_services_that_fork_exec_and_change_themselves(self):
        restless = ("import os, sys, time\nend = time.time() + 0.05\nfor _ in range(3):\n  if os.fork() == 0:\n    while time.time() < end: pass\n"
                    "    os._exit(0)\nfor _ in range(3): os.wait()\nos.sched_setaffinity(0, {0})\n"
                    "os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))\nos.execv(sys.executable, [sys.executable, *sys.argv])")
        script = self.folder / "restless.py"
        script.write_text(restless)
        more = f"  restless: {{start: [{sys.executable}, {script}], promise: {{supply: 2ms/10ms}}}}\n"
        daemon = self.start(self.site(more)).ready()
        time.sleep(3)
        self.assertIsNotNone(self.daemon.service("restless"))
        self.assertIsNone(daemon.process.poll())
        daemon.end()
        self.as_before()
        daemon = self.start(self.site(more)).ready()
        time.sleep(0.5)
        daemon.process.kill()
        daemon.process.wait()
        self.as_before()
        self.wait(lambda: not running(str(script)), 5, "the end of what was started")

    def test_a_child_of_an_adopted_service_gets_what_its_parent_had(self):
        told = self.folder / "child"
        fork = (f"import os, time\ntime.sleep(2)\nchild = os.fork()\nif child: open({str(told)!r}, 'w').write(str(child))\nwhile True: pass")
        self.one = self.worker(mortal, [sys.executable, "-c", fork])
        time.sleep(0.2)
        self.before = self.now()
        daemon = self.start().ready()
        self.wait(lambda: read(told), 10, "a child")
        child = int(read(told))
        try:
            time.sleep(0.2)
            self.assertEqual(os.sched_getaffinity(child), {1})
            daemon.process.kill()
            daemon.process.wait()
            self.as_before()
            parent, born = host([self.one]), host([child])
            self.assertEqual(parent[f"thread {self.one}"], born[f"thread {child}"])
        finally:
            os.kill(child, signal.SIGKILL)

    def test_a_service_killed_while_frozen_is_told_and_the_others_go_on(self):
        daemon = self.start(self.site(one="1ms/20ms")).ready()
        group = TREE / "freezer" / (read(Path(f"/proc/{self.one}/cgroup")).split("freezer:")[1].split("\n")[0].lstrip("/"))
        self.wait(lambda: read(group / "freezer.state") == "FROZEN\n", 5, "a frozen service")
        os.kill(self.one, signal.SIGKILL)
        self.wait(lambda: daemon.service("one")["state"] == "ended", 5, "its end in status")
        status = daemon.status()
        self.assertEqual(status["state"], "degraded")
        self.assertTrue(any("cannot come back" in warning for warning in status["warnings"]), status["warnings"])
        self.assertNotIn(daemon.service("two")["state"], ("ended", "awaited"))
        daemon.end()
        self.workers[0].wait(timeout=5)
        self.before.pop(f"thread {self.one}")
        self.as_before()

    def test_a_started_service_that_ends_is_started_again_under_its_server(self):
        more = "  short: {start: [sh, -c, 'sleep 0.3; echo enough; exit 7'], promise: {supply: 1ms/10ms}}\n"
        daemon = self.start(self.site(more)).ready()
        self.wait(lambda: daemon.service("short")["restarts"] >= 2, 10, "two restarts")
        self.assertRegex(daemon.said(), "'short' ended with exit code 7.*enough")
        self.assertEqual(daemon.service("short")["last_end"], "ended with exit code 7")
        self.assertEqual(daemon.service("one")["state"] in ("ended", "awaited"), False)
        daemon.end()
        self.as_before()

    def test_the_end_of_an_essential_service_ends_run_with_its_error(self):
        more = "  short: {start: [sh, -c, 'sleep 1.5; echo enough; exit 0'], promise: {supply: 1ms/10ms}, essential: yes}\n"
        daemon = self.start(self.site(more)).ready()
        self.assertEqual(daemon.process.wait(timeout=10), 4, daemon.said())
        self.assertRegex(daemon.said(), "'short': ended with exit code 0.*enough.*essential")
        self.as_before()

    def test_an_adopted_cgroup_that_went_is_found_again(self):
        daemon = self.start().ready()
        for worker in self.workers[1:3]:
            worker.kill()
            worker.wait()
            self.before.pop(f"thread {worker.pid}")
        self.wait(lambda: daemon.service("two")["state"] == "awaited", 5, "its absence in status")
        self.assertNotIn(daemon.service("one")["state"], ("ended", "awaited"))
        again = self.worker(lambda: (HOME / "cgroup.procs").write_text(str(os.getpid())))
        self.wait(lambda: os.sched_getscheduler(again) == os.SCHED_RR, 30, "its server")
        self.wait(lambda: daemon.service("two")["state"] not in ("ended", "awaited"), 5, "its return in status")
        daemon.end()
        self.before = self.now()
        self.assertEqual(os.sched_getscheduler(again), os.SCHED_OTHER)

    def test_reload(self):
        daemon = self.start().ready()
        spin = json.dumps(SPIN)
        for supply in ("5ms/10ms", "1ms/10ms"):
            daemon.site.write_text(self.site(one=supply))
            daemon.giusto("reload")
            self.assertEqual(daemon.service("one")["budget_ns"], int(supply[0]) * 10**6)
        daemon.site.write_text(self.site(f"  new: {{start: {spin}, promise: {{supply: 1ms/10ms}}}}\n"))
        daemon.process.send_signal(signal.SIGHUP)
        self.wait(lambda: daemon.service("new"), 10, "a new service")
        self.assertEqual(daemon.service("one")["budget_ns"], 3 * 10**6)
        daemon.site.write_text(self.site(f"  new: {{start: {spin}, promise: leftovers}}\n"))
        daemon.giusto("reload")
        self.assertEqual((daemon.service("new")["promise"], daemon.service("new")["budget_ns"]), ("leftovers", None))
        for bad, code in (("giusto: 1\nhosts: {}\n", 2), (self.site(one="99ms/100ms"), 1)):
            daemon.site.write_text(bad)
            daemon.giusto("reload", code=code)
            self.assertEqual(daemon.service("one")["budget_ns"], 3 * 10**6)
        daemon.site.write_text(self.site())
        daemon.giusto("reload")
        self.assertIsNone(daemon.service("new"))
        # A machine that stands still for a moment makes a stop late, and that is told.
        self.assertEqual([one for one in daemon.status()["warnings"] if "was not stopped in time" not in one], [])
        daemon.end()
        self.as_before()

    def test_a_short_trial(self):
        self.daemon = None
        done = trial("run", "sites/first.yaml", "--trial", "--backend", "manager", "--at-most", "6s", "--out",
                self.folder / "out",
                     env={**os.environ, "GIUSTO_STATE": str(self.folder / "state")}, timeout=90, preexec_fn=mortal)
        said = done.stdout + done.stderr
        self.assertIn(done.returncode, (0, 5, 6), said)
        self.assertIn("shared, Giusto", done.stdout, said)
        self.assertEqual(self.different(), {}, said)

    def test_a_core_that_is_switched_off(self):
        if not os.access(CORE1, os.W_OK):
            self.skipTest(f"{CORE1} is not there to be written")
        if any((TREE / "cpuset").glob("*/")):
            self.skipTest("cpusets of others would lose the core for good (cgroup v1)")
        os.kill(self.also_two, signal.SIGKILL)  # the kernel itself would forget that it was bound to this core
        self.workers[2].wait()
        self.before = self.now()
        daemon = self.start().ready()
        self.addCleanup(CORE1.write_text, "1")
        try:
            CORE1.write_text("0")
        except OSError as why:
            self.skipTest(f"this machine does not switch core 1 off: {why}")
        time.sleep(1.5)
        CORE1.write_text("1")
        time.sleep(1.5)
        if daemon.process.poll() is None:
            daemon.process.terminate()
        self.assertIn(daemon.process.wait(timeout=20), (0, 4, -signal.SIGKILL), daemon.said())
        self.as_before()


if "deaths.py" not in of_today(["deaths.py", "doctor.py"]):  # one of the two has a trial, the other one the next day
    Deaths.test_a_short_trial = None


def running(text):
    found = [folder for folder in Path("/proc").glob("[0-9]*") if text in (read(folder / "cmdline") or "") and alive(folder.name)]
    return [int(folder.name) for folder in found if int(folder.name) != os.getpid()]


if __name__ == "__main__":
    lacks = None
    if os.geteuid() != 0:
        lacks = "these tests change how the machine schedules and need root"
    elif os.cpu_count() < 2 or not (TREE / "freezer").is_dir():
        lacks = "these tests need a second core and the freezer of cgroup v1"
    if lacks:
        print(f"SKIPPED: {lacks}")
        sys.exit(77)
    result = unittest.main(verbosity=2, exit=False).result
    failed = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - failed - len(result.skipped)} passed, {failed} failed, {len(result.skipped)} skipped")
    sys.exit(1 if failed or not result.testsRun else 77 if result.skipped else 0)
