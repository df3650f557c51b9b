"""Services that end while a plan is enforced: started again in their place under each backend, or waited for; users, limits, logs; what
is essential. Needs root and a second core; what the machine lacks is skipped and told.
"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from folders import folders
from patient import Patient

ROOT = Path(__file__).resolve().parent.parent
GIUSTO = ROOT / "target" / "release" / "giusto"
CORE = 1
SPIN = "[sh, -c, 'while :; do :; done']"


def read(path):
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def left():
    return [str(path) for path in folders("/sys/fs/cgroup", "giusto.*")]


class Services(Patient):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.environment = {**os.environ, "GIUSTO_STATE": str(self.folder / "state")}
        self.giusto, self.before = None, left()
        self.addCleanup(self.stop)

    def write(self, services, more=""):
        (self.folder / "site.yaml").write_text(f"giusto: 1\nhosts: {{test: {{cores: {CORE}}}}}\nservices:\n{services}{more}")

    def start(self, services, *words, more="", lacking=False):
        self.write(services, more)
        with open(self.folder / "log", "w") as log:
            command = [GIUSTO, "run", self.folder / "site.yaml", "--out", self.folder / "out", *words]
            self.giusto = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        self.until(lambda: self.giusto.poll() is not None or self.status()["state"] in ("enforcing", "degraded"), "it enforces")
        if self.giusto.poll() == 3 and lacking:
            self.skipTest(self.said().strip().splitlines()[-1])
        self.assertIsNone(self.giusto.poll(), self.said())

    def stop(self, code=0):
        if self.giusto and self.giusto.poll() is None:
            self.giusto.send_signal(signal.SIGINT)
            self.assertEqual(self.giusto.wait(30), code, self.said())
        subprocess.run([GIUSTO, "restore"], env=self.environment, capture_output=True)
        self.assertEqual(left(), self.before)

    def said(self):
        return read(self.folder / "log")

    def ask(self, *words):
        return subprocess.run([GIUSTO, *words], env=self.environment, capture_output=True, text=True, timeout=30)

    def status(self):
        done = self.ask("status", "--json")
        return json.loads(done.stdout) if done.returncode == 0 else {"state": "none", "services": []}

    def service(self, name):
        return next((one for one in self.status()["services"] if one["name"] == name), {})

    def until(self, holds, what, seconds=20):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if found := holds():
                return found
            time.sleep(0.02)
        self.fail(f"not within {seconds} s: {what}\n{self.said()}\n{json.dumps(self.status())}")

    def members(self, name):
        tops = folders("/sys/fs/cgroup", f"giusto.{name}.service")
        pids = {int(pid) for top in tops for folder in folders(top) for pid in read(folder / "cgroup.procs").split()}
        return sorted(pid for pid in pids if read(f"/proc/{pid}/stat").rsplit(")", 1)[-1].split()[:1] not in ([], ["Z"]))

    def kill_first(self, name, code="signal 9"):
        """kill -9 of the first process; returns those of the restarted service."""
        before = self.members(name)
        restarts = self.service(name)["restarts"]
        os.kill(before[0], signal.SIGKILL)
        self.until(lambda: self.service(name).get("restarts") == restarts + 1, "a restart in status")
        self.assertIn(code, self.service(name)["last_end"])
        found = self.until(lambda: self.members(name), "its processes")
        self.assertFalse(set(found) & set(before), "the rest was ended before")
        return found

    def test_the_low_one_dies_and_the_high_one_goes_on(self):
        site = (ROOT / "sites" / "critical.yaml").read_text()
        self.start(site[site.index("  memcached:"):])
        high = self.members("memcached")
        for _ in range(3):
            self.kill_first("batch")
            self.assertEqual(self.members("memcached"), high)
        self.until(lambda: self.status()["state"] == "enforcing", "all is well again")

    def restarted_in_its_place(self, backend, policy, **lacking):
        fork = "[sh, -c, '(setsid sh -c \"while :; do :; done\" &); while :; do :; done']"
        kind = "" if backend == "manager" else ", server: constant_bandwidth"
        start = SPIN if backend == "deadline" else fork  # a reservation is for one thread that does the work
        two = "leftovers" if backend == "rt-group" else "{supply: 5ms/50ms}" + kind  # one real-time group a core
        self.start(f"  one: {{start: {start}, promise: {{supply: 10ms/50ms}}{kind}}}\n  two: {{start: {SPIN}, promise: {two}}}\n",
                   "--backend", backend, **lacking)
        other = self.members("two")
        for turn in range(3):
            pids = self.kill_first("one")
            self.until(lambda: all(os.sched_getaffinity(pid) == {CORE} for pid in self.members("one")), "its core", 5)
            self.until(lambda: policy in [os.sched_getscheduler(pid) & ~os.SCHED_RESET_ON_FORK for pid in self.members("one")], "its server")
        self.assertEqual(self.members("two"), other)
        self.until(lambda: self.status()["state"] == "enforcing", "all is well again")
        # What is asked for is what it gets, from the kernel's account.
        used, begun = sum(int(read(f"/proc/{pid}/schedstat").split()[0]) for pid in self.members("one")), time.monotonic()
        time.sleep(1)
        used = sum(int(read(f"/proc/{pid}/schedstat").split()[0]) for pid in self.members("one")) - used
        self.assertLess(used / 1e9 / (time.monotonic() - begun), 0.45, pids)

    def test_restarted_in_its_place_under_the_manager(self):
        self.restarted_in_its_place("manager", os.SCHED_RR)

    def test_restarted_in_its_place_under_deadline(self):
        self.restarted_in_its_place("deadline", 6, lacking=True)

    def test_restarted_in_its_place_in_a_real_time_group(self):
        self.restarted_in_its_place("rt-group", os.SCHED_FIFO, lacking=True)

    def test_leftovers_are_restarted_under_their_quota(self):
        self.start(f"  one: {{start: {SPIN}, promise: {{supply: 1ms/10ms}}}}\n  capped: {{start: {SPIN}, promise: leftovers, at-most: 20%}}\n")
        pid, = self.kill_first("capped")
        self.assertEqual(os.sched_getaffinity(pid), {CORE})
        used = int(read(f"/proc/{pid}/schedstat").split()[0])
        time.sleep(2)
        self.assertLess((int(read(f"/proc/{pid}/schedstat").split()[0]) - used) / 2e9, 0.25)

    def test_what_restart_says_and_backing_off(self):
        quick = "[sh, -c, 'exit {0}']"
        self.start(f"  one: {{start: {SPIN}, promise: {{supply: 1ms/10ms}}}}\n"
                   f"  done: {{start: {quick.format(0)}, promise: leftovers}}\n"
                   f"  never: {{start: {quick.format(7)}, promise: leftovers, restart: never}}\n"
                   f"  always: {{start: {quick.format(0)}, promise: {{supply: 1ms/20ms}}, restart: always}}\n")
        self.until(lambda: self.service("always").get("restarts", 0) >= 3, "restarts")
        self.assertEqual((self.service("done")["restarts"], self.service("done")["state"]), (0, "ended"))
        self.assertEqual((self.service("never")["restarts"], self.service("never")["state"]), (0, "ended"))
        warnings = "; ".join(self.status()["warnings"])
        self.assertIn("'never': ended with exit code 7", warnings)
        self.assertNotIn("'done'", warnings)
        delays = [line.rsplit(" ", 1)[1] for line in self.said().splitlines() if "'always'" in line and "started again in" in line]
        self.assertEqual(delays[:3], ["100ms", "200ms", "400ms"])
        # Another say is heard by reload, without a restart of what runs.
        spin = self.members("one")
        self.write(f"  one: {{start: {SPIN}, promise: {{supply: 1ms/10ms}}, restart: never}}\n")
        self.assertEqual(self.ask("reload").returncode, 0, self.said())
        self.assertEqual(self.members("one"), spin)
        os.kill(spin[0], signal.SIGKILL)
        self.until(lambda: self.service("one")["state"] == "ended", "its end")

    def test_what_runs_after_an_end_runs_in_the_cgroup_of_the_service_when_nothing_of_that_is_left_and_before_its_restart(self):
        for backend in ("manager", "deadline"):
            with self.subTest(backend):
                told = self.folder / f"told-{backend}"
                tell = (f"[sh, -c, 'cat /proc/self/cgroup > {told}.new; pgrep -fx \"sleep 4321\" | wc -l >> {told}.new; "
                        f"sleep 1; mv {told}.new {told}']")
                start = f"[sh, -c, '[ -e {told} ] && echo after; (setsid sleep 4321 &); exec sleep 4321']"
                self.folder.chmod(0o777)
                self.start(f"  one: {{start: {start}, promise: {{supply: 5ms/50ms}}, user: nobody, after-end: {tell}}}\n",
                        "--backend", backend,
                           lacking=backend == "deadline")
                self.kill_first("one")
                cgroup, count = told.read_text().rsplit("\n", 2)[:2]
                self.assertIn("giusto.one.service", cgroup)
                self.assertEqual(count.strip(), "0", "processes of the service were left")
                self.assertEqual(read(self.folder / "out/logs/one.log").split(), ["after"])
                self.assertIn("its 'after-end' is done", self.said())
                # Giusto's own end is none.
                told.unlink()
                self.stop()
                self.assertFalse(told.exists())
                (self.folder / "out/logs/one.log").unlink()

    def test_an_end_takes_as_long_as_its_service_may(self):
        # At giusto's own end, and at a reload that takes it away; without 'end-within' it is killed after two seconds.
        ended = self.folder / "ended"
        slow = f"[sh, -c, 'trap \"sleep 3; echo it >> {ended}; exit\" TERM; while :; do sleep 0.05; done']"
        rest = f"  two: {{start: {SPIN}, promise: leftovers}}\n"
        for within, count in (("", 0), (", end-within: 10s", 2)):
            one = f"  one: {{start: {slow}, promise: {{supply: 5ms/50ms}}{within}}}\n"
            self.start(one + rest)
            self.write(rest)
            self.assertEqual(self.ask("reload").returncode, 0, self.said())
            self.write(one + rest)
            self.assertEqual(self.ask("reload").returncode, 0, self.said())
            self.until(lambda: self.members("one"), "it is there again")
            time.sleep(0.5)  # its trap is set
            self.stop()
            self.assertEqual(len(read(ended).split()), count)

    def test_the_end_of_an_essential_one_ends_all(self):
        self.start(f"  one: {{start: {SPIN}, promise: {{supply: 1ms/10ms}}, essential: yes}}\n  two: {{start: {SPIN}, promise: leftovers}}\n")
        os.kill(self.members("one")[0], signal.SIGKILL)
        self.assertEqual(self.giusto.wait(20), 4)
        self.assertIn("it is essential", self.said())

    def test_users_limits_environment_and_folders(self):
        tell = self.folder / "tell.sh"
        tell.write_text("echo $(id -u) $(id -g) $(pwd) $MOOD $(ulimit -n) $HOME; sleep 1000\n")
        tell.chmod(0o755)
        self.folder.chmod(0o755)
        self.start(f"  one: {{start: [sh, {tell}], promise: {{supply: 1ms/10ms}}, user: nobody, group: '12345', directory: /usr/lib, "
                   "limits: {nofile: 99, tasks: 7, memory: 64M}, environment: {MOOD: calm}}\n")
        log = self.folder / "out/logs/one.log"
        self.until(lambda: read(log).endswith("\n"), "what it says")
        self.assertEqual(read(log).split(), ["65534", "12345", "/usr/lib", "calm", "99", "/nonexistent"])
        found = {path.name: path.read_text().strip() for top in folders("/sys/fs/cgroup", "giusto.one.service")
                 for path in top.iterdir() if path.name in ("pids.max", "memory.limit_in_bytes", "memory.max")}
        self.assertEqual(found["pids.max"], "7")
        self.assertIn(str(64 << 20), (found.get("memory.limit_in_bytes"), found.get("memory.max")))
        # Another limit needs another process.
        before = self.members("one")
        self.write("  one: {start: [sleep, '1000'], promise: {supply: 1ms/10ms}, limits: {tasks: 9}}\n")
        self.assertEqual(self.ask("reload").returncode, 0, self.said())
        self.assertFalse(set(before) & set(self.members("one")))
        self.write("  one: {start: [sleep, '1000'], promise: {supply: 1ms/10ms}, user: no-such-user}\n")
        done = self.ask("reload")
        self.assertEqual(done.returncode, 4, done.stdout)
        self.assertIn("there is no user 'no-such-user'", done.stderr)

    def test_logs_are_rotated_and_added_to(self):
        line = "x" * 99
        self.start(f"  one: {{start: {SPIN}, promise: {{supply: 1ms/10ms}}}}\n"
                   f"  loud: {{start: [sh, -c, 'while :; do yes {line} | head -c 3000000; sleep 0.2; done'], promise: leftovers}}\n")
        logs = self.folder / "out/logs"
        self.until((logs / "loud.log.2").exists, "two old logs", 60)
        self.assertLess(sum(path.stat().st_size for path in logs.glob("loud.log*")), 100 << 20)

    def test_a_stopped_one_that_died_is_started_again_when_its_mode_lets_it_go_on(self):
        self.start(f"  one: {{start: {SPIN}, promise: {{supply: 1ms/10ms}}}}\n  batch: {{start: {SPIN}, promise: leftovers}}\n",
                   more="modes:\n  normal: {}\n  quiet: {batch: stopped}\nmode-changes: {spacing: 100ms}\n")
        self.assertEqual(self.ask("mode", "quiet", "--wait").returncode, 0, self.said())
        os.kill(self.members("batch")[0], signal.SIGKILL)
        self.until(lambda: self.service("batch")["state"] == "restarting", "its end in status")
        time.sleep(0.5)
        self.assertEqual(self.members("batch"), [])
        self.assertEqual(self.ask("mode", "normal", "--wait").returncode, 0, self.said())
        self.until(lambda: self.service("batch")["restarts"] == 1 and self.members("batch"), "its restart")

    def test_a_plan_without_the_modes_lets_go_on_what_one_had_stopped(self):
        one = f"  one: {{start: {SPIN}, promise: {{supply: 1ms/10ms}}}}\n  batch: {{start: {SPIN}, promise: leftovers}}\n"
        self.start(one, more="modes:\n  normal: {}\n  quiet: {batch: stopped}\nmode-changes: {spacing: 100ms}\n")
        self.assertEqual(self.ask("mode", "quiet", "--wait").returncode, 0, self.said())
        pid, = self.members("batch")
        def used():
            return int(read(f"/proc/{pid}/schedstat").split()[0])
        stands = used()
        time.sleep(0.3)
        self.assertLess(used() - stands, 5e6)
        self.write(one)
        self.assertEqual(self.ask("reload").returncode, 0, self.said())
        self.until(lambda: used() > stands + 1e8, "it goes on")
        self.assertEqual(self.members("batch"), [pid])

    def test_a_capped_leftover_that_is_removed_leaves_no_group_and_may_come_again(self):
        one = f"  one: {{start: {SPIN}, promise: {{supply: 1ms/10ms}}}}\n"
        capped = f"  capped: {{start: {SPIN}, promise: leftovers, at-most: 20%}}\n"
        self.start(one + capped)
        for services, there in ((one, False), (one + capped, True), (one, False)):
            self.write(services)
            self.assertEqual(self.ask("reload").returncode, 0, self.said())
            self.assertEqual(any("giusto.capped" in path for path in left()), there, left())

    def test_a_member_that_fails_at_the_start_does_not_end_the_run_and_its_modes_come_with_it(self):
        (self.folder / "key").write_bytes(os.urandom(32))
        (self.folder / "key").chmod(0o600)
        go = self.folder / "go"
        start = f"[sh, -c, '[ -e {go} ] || exit 7; exec sleep 1000']"
        self.start(f"  a: {{start: {start}, agent: {{key: {self.folder}/key}}, promise: supply, "
                   "modes: {low: {supply: 2ms/10ms}, high: {supply: 4ms/10ms}}}\n"
                   f"  batch: {{start: {SPIN}, promise: leftovers}}\n", "--backend", "manager",
                   more=f"modes:\n  normal: {{a: low}}\n  emergency: {{a: high}}\nmode-changes: {{listen: [\"unix:{self.folder}/modes\"]}}\n")
        self.until(lambda: self.service("a").get("state") == "restarting", "it fails")
        go.touch()
        self.until(lambda: self.service("a").get("state") in ("idle", "running"), "it runs")
        self.until(lambda: self.ask("mode", "--json").returncode == 0, "its modes")

    def test_trials_still_take_an_end_as_an_error(self):
        self.write(f"  one: {{start: [sh, -c, 'sleep 1; exit 3'], tasks: [{{wcet: 1ms, period: 20ms}}], promise: as-if-alone, "
                   f"load: {{redis: '127.0.0.1:1', fields: 1, value: 1}}}}\n  two: {{start: {SPIN}, promise: leftovers}}\n")
        words = [GIUSTO, "run", self.folder / "site.yaml", "--trial", "--out", self.folder / "out"]
        done = subprocess.run(words, env=self.environment, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("'one': ended with exit code 3", done.stderr)


if __name__ == "__main__":
    if os.geteuid() != 0 or not Path(f"/sys/devices/system/cpu/cpu{CORE}").exists():
        print("needs root and a second core", file=sys.stderr)
        sys.exit(77)
    unittest.main(verbosity=2)
