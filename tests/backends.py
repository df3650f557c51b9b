"""The backends rt-group and quota under `giusto run`: services have their budget and no more, and the host is as before at
the end, after SIGTERM as after kill -9. Needs root, a core 1, and the kernel's groups; what the machine lacks is skipped
and told.
"""
import os
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

from folders import folders
from running import CORE, GIUSTO, Running, used

# A process and a child in a session of its own, which share the budget.
FORK = "[sh, -c, '(setsid sh -c \"while :; do :; done\" &); while :; do :; done']"
SPIN = ["sh", "-c", "while :; do :; done"]
RT = f"  one: {{start: {FORK}, promise: {{supply: 10ms/50ms}}}}\n"
CAPPED = f"  capped: {{start: {FORK}, promise: leftovers, at-most: 30%}}\n"

SCHED_DEADLINE = 6


def comm(pid):
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def alive(pid):
    """Whether there is such a process, and it has not only to be waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def groups():
    return [str(path) for path in folders("/sys/fs/cgroup", "giusto.*")]


def members(name):
    """Processes of a service that giusto started."""
    tops = folders("/sys/fs/cgroup", f"giusto.{name}.service")
    return sorted({int(pid) for top in tops for pid in (top / "cgroup.procs").read_text().split()})


def policy(pid):
    return os.sched_getscheduler(pid) & ~os.SCHED_RESET_ON_FORK


def stands(pid):
    """Where a process is and how it is scheduled."""
    return (os.sched_getscheduler(pid), sorted(os.sched_getaffinity(pid)), Path(f"/proc/{pid}/cgroup").read_text())


class Backends(Running):
    def setUp(self):
        super().setUp()
        lacks = subprocess.run([GIUSTO, "doctor"], capture_output=True, text=True).stdout.splitlines()
        for backend in ("backend rt-group", "backend quota"):
            line = next(line for line in lacks if line.startswith(backend))
            if "lacks" in line:
                self.skipTest(line)
        self.before = groups()
        self.plan = self.folder / "plan.json"
        # Two processes that giusto did not start, and only adopts.
        self.others = [subprocess.Popen(SPIN, start_new_session=True) for _ in range(2)]
        self.addCleanup(lambda: [(other.kill(), other.wait()) for other in self.others])
        self.stood = [stands(other.pid) for other in self.others]

    def adopted(self, name, place, promise):
        return f"  {name}: {{adopt: {{pid: {self.others[place].pid}}}, promise: {promise}}}\n"

    def shares(self, **pids):
        """The share of a core that each has had over 2 s."""
        def now():
            return {name: sum(used(pid) for pid in own) for name, own in pids.items()}
        first, begun = now(), time.monotonic()
        time.sleep(2)
        second, lasted = now(), time.monotonic() - begun
        return {name: (second[name] - first[name]) / lasted for name in pids}

    def is_enforced(self, one, count):
        """20 % in a real-time group, at most 30 and 10 % under a cap; bounds that a busy machine does not move."""
        self.until(lambda: [policy(pid) for pid in one()] == [os.SCHED_FIFO] * count, "real-time", 5)
        one, capped, low = one(), members("capped"), self.others[0].pid
        self.assertEqual(len(capped), 2)
        had = self.shares(one=one, capped=capped, low=[low])
        self.assertTrue(0.1 < had["one"] < 0.3, had)
        self.assertTrue(0.05 < had["capped"] < 0.4, had)
        self.assertTrue(0.01 < had["low"] < 0.2, had)
        for pid in (*one, *capped, low):
            self.assertEqual(os.sched_getaffinity(pid), {CORE})
        return members("one") + capped

    def is_as_before(self, started):
        self.assertEqual(groups(), self.before)
        self.assertEqual([stands(other.pid) for other in self.others], self.stood)
        self.assertEqual([pid for pid in started if alive(pid)], [])

    def test_budgets_and_caps_are_kept_and_the_host_is_as_before_after_sigterm(self):
        self.start(RT, CAPPED, self.adopted("low", 0, "leftovers, at-most: 10%"), backend="rt-group")
        # A dry run prints these very steps.
        told = self.ask("run", str(self.site), "--backend", "rt-group", "--dry-run").stdout
        for step in ("write 50000 to its cpu.rt_period_us and 10000 to its cpu.rt_runtime_us", "SCHED_FIFO 1",
                     "cap the processes of capped at 30 % of a core, by the backend quota"):
            self.assertIn(step, told)
        started = self.is_enforced(lambda: members("one"), 2)
        status = {one["name"]: one for one in self.status()["services"]}
        self.assertEqual((status["one"]["backend"], status["one"]["kind"]), ("rt-group", "constant_bandwidth"))
        self.giusto.send_signal(signal.SIGTERM)
        self.assertEqual(self.giusto.wait(30), 0, self.log())
        self.is_as_before(started)

    def test_killed_with_its_watchdog_restore_leaves_the_host_as_before(self):
        adopted = self.others[1].pid
        self.start(self.adopted("one", 1, "{supply: 10ms/50ms}"), CAPPED, self.adopted("low", 0, "leftovers, at-most: 10%"),
                   backend="rt-group")
        started = self.is_enforced(lambda: [adopted], 1)
        tasks = Path(f"/proc/{self.giusto.pid}/task").glob("*")
        children = [int(pid) for task in tasks for pid in (task / "children").read_text().split()]
        watchdog, = [pid for pid in children if comm(pid) == "giusto-watchdog"]
        os.kill(watchdog, signal.SIGKILL)
        self.giusto.kill()
        self.giusto.wait()
        self.assertEqual(policy(adopted), os.SCHED_FIFO, "no process is left that could have restored it")
        done = self.ask("restore")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.is_as_before(started)

    def test_a_budget_is_resized_while_it_runs_and_a_cap_is_no_reservation(self):
        self.start(RT, backend="rt-group")
        one = members("one")
        self.write(RT.replace("10ms/50ms", "25ms/50ms"))
        done = self.ask("reload")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(0.4 < self.shares(one=one)["one"] < 0.6)
        self.assertEqual(members("one"), one, "the same processes")
        done = self.ask("run", str(self.site), "--backend", "quota", "--dry-run")
        self.assertEqual(done.returncode, 2)
        self.assertIn("it is a cap, never a guarantee", done.stderr)

    def test_a_group_is_left_for_another_core_another_backend_and_for_good(self):
        other, adopted = min(os.sched_getaffinity(0)), self.others[1].pid
        one = self.adopted("one", 1, "{supply: 10ms/50ms}")
        self.start(one, CAPPED, backend="rt-group")
        self.until(lambda: policy(adopted) == os.SCHED_FIFO, "real-time", 5)
        for services, backend, core, wanted in (
            ([one, CAPPED], "rt-group", other, os.SCHED_FIFO),
            ([one, CAPPED], "manager", other, None),
            ([one, CAPPED], "rt-group", CORE, os.SCHED_FIFO),
            ([CAPPED], "rt-group", CORE, os.SCHED_OTHER),
            ([one, CAPPED], "rt-group", CORE, os.SCHED_FIFO),
        ):
            with self.subTest(backend=backend, core=core, services=len(services)):
                self.write(*services)
                self.site.write_text(self.site.read_text().replace(f"cores: {CORE}", f"cores: {core}"))
                plan = ("plan", str(self.site), "--backend", backend, "--out", str(self.plan))
                for words in (plan, ("reload", str(self.plan))):
                    done = self.ask(*words)
                    self.assertEqual(done.returncode, 0, done.stderr)
                if wanted is not None:
                    self.until(lambda: policy(adopted) == wanted, f"policy {wanted}", 5)
                if len(services) == 2:
                    self.assertEqual(os.sched_getaffinity(adopted), {core})
                    self.assertTrue(0.05 < self.shares(one=[adopted])["one"] < 0.4)
        started = members("capped")
        self.giusto.send_signal(signal.SIGTERM)
        self.assertEqual(self.giusto.wait(30), 0, self.log())
        self.is_as_before(started)


class Isolated(Running):
    def test_a_reload_to_another_backend_is_refused_before_anything_changes(self):
        other = subprocess.Popen(SPIN, start_new_session=True)
        self.addCleanup(lambda: (other.kill(), other.wait()))
        stood, plan = stands(other.pid), self.folder / "plan.json"
        one = f"  one: {{adopt: {{pid: {other.pid}}}, promise: {{supply: 10ms/50ms}}}}\n"
        for first, then, why in (
            ("deadline", "manager", f"core {CORE} was isolated for backend 'deadline' when giusto started"),
            ("manager", "deadline", f"core {CORE} was not isolated when giusto started"),
        ):
            with self.subTest(first=first, then=then):
                self.start(one, backend=first)
                def reserved():
                    return policy(other.pid) == SCHED_DEADLINE
                self.until(lambda: reserved() == (first == "deadline"), "in force", 10)
                done = self.ask("plan", str(self.site), "--backend", then, "--out", str(plan))
                self.assertEqual(done.returncode, 0, done.stderr)
                done = self.ask("reload", str(plan))
                self.assertEqual(done.returncode, 4, done.stderr)
                self.assertIn(f"one cannot have its server from backend '{then}': {why}; stop giusto", done.stderr)
                self.assertIn("the old plan is in force", done.stderr)
                self.assertNotIn("release the server", self.log())
                self.assertEqual(reserved(), first == "deadline")
                self.giusto.send_signal(signal.SIGTERM)
                self.assertEqual(self.giusto.wait(30), 0, self.log())
                self.assertEqual(stands(other.pid), stood)


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("needs root")
        sys.exit(77)
    unittest.main(verbosity=2)
