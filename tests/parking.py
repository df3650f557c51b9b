"""`unused: park`: the core that a plan leaves is offline while `giusto run` enforces it, and online again however it ends, with the
threads and cpusets that were bound to it. Needs root, a core 1 that goes offline, and the backend manager. Core 1 is away for seconds.
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

from patient import Patient

ROOT = Path(__file__).resolve().parent.parent
GIUSTO = ROOT / "target" / "release" / "giusto"
ONLINE = Path("/sys/devices/system/cpu/cpu1/online")
CPUSETS = Path("/sys/fs/cgroup/cpuset")  # cgroup v1, which forgets a core that has gone
OUTER = CPUSETS / f"parking-test-{os.getpid()}"
INNER = OUTER / "inner"
SITE = """giusto: 1
hosts: {{edge-1: {{cores: 0-1, unused: {unused}}}}}
services:
  one: {{start: sleep 1000, promise: {{supply: 2ms/10ms}}}}
  batch: {{start: sleep 1000, promise: leftovers, at-least: 10%}}
{more}"""


def read(path):
    try:
        return path.read_text().strip()
    except OSError:
        return None


def cannot():
    if os.geteuid() != 0:
        return "root is missing: run it as root"
    if not os.access(ONLINE, os.W_OK) or read(ONLINE) != "1":
        return f"{ONLINE} is not there to be written, or core 1 is offline already"
    return None


class Parking(Patient):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.environment = {**os.environ, "GIUSTO_STATE": str(self.folder / "state")}
        self.site, self.log = self.folder / "site.yaml", self.folder / "log"
        self.workers, self.daemon = [], None
        self.addCleanup(self.last_resort)
        self.addCleanup(self.end_workers)
        self.bound = self.worker(lambda: os.sched_setaffinity(0, {1}))
        self.free = self.worker(lambda: None)
        if (CPUSETS / "cpuset.cpus").exists():
            for folder, cores in ((OUTER, "0-1"), (INNER, "1")):
                folder.mkdir()
                (folder / "cpuset.mems").write_text("0")
                (folder / "cpuset.cpus").write_text(cores)
            self.held = self.worker(lambda: (OUTER / "cgroup.procs").write_text(str(os.getpid())))
        time.sleep(0.05)
        self.before = self.now()

    def worker(self, preexec):
        self.workers.append(subprocess.Popen(["sleep", "1000"], preexec_fn=preexec, start_new_session=True))
        return self.workers[-1].pid

    def end_workers(self):
        for worker in self.workers:
            worker.kill()
            worker.wait(timeout=5)
        time.sleep(0.05)  # the kernel takes them out of their cpusets
        for folder in (INNER, OUTER):
            if folder.exists():
                folder.rmdir()

    def last_resort(self):
        """Whatever a test did: the core is there for the next one."""
        if self.daemon:
            self.daemon.kill()
            self.daemon.wait()
        subprocess.run([GIUSTO, "restore"], env=self.environment, capture_output=True, timeout=30)
        if read(ONLINE) != "1":
            ONLINE.write_text("1")

    def now(self):
        """All that the kernel could forget with the core."""
        masks = {str(worker.pid): sorted(os.sched_getaffinity(worker.pid)) for worker in self.workers if worker.poll() is None}
        cpusets = {str(folder): (read(folder / "cpuset.cpus"), read(folder / "cgroup.procs")) for folder in (OUTER, INNER)}
        interrupts = {str(path): read(path) for path in Path("/proc/irq").glob("*/smp_affinity_list")}
        return {"core 1": read(ONLINE), **masks, **cpusets, **interrupts}

    def as_before(self, seconds=5):
        until = time.monotonic() + seconds
        while (now := self.now()) != self.before and time.monotonic() < until:
            time.sleep(0.05)
        different = {key: (self.before.get(key), now.get(key)) for key in self.before | now if self.before.get(key) != now.get(key)}
        self.assertEqual(different, {}, read(self.log))

    def giusto(self, *words, code=0):
        done = subprocess.run([GIUSTO, *map(str, words)], env=self.environment, capture_output=True, text=True, timeout=60)
        said = done.stdout + done.stderr
        self.assertEqual(done.returncode, code, f"{words}: {said}\n{read(self.log)}")
        return said

    def write(self, unused="park", more=""):
        self.site.write_text(SITE.format(unused=unused, more=more))
        return self.site

    def run_words(self):
        return ["run", self.site, "--backend", "manager", "--out", self.folder / "out"]

    def start(self):
        with self.log.open("w") as log:
            self.daemon = subprocess.Popen([GIUSTO, *self.run_words()], stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=self.environment)
        until = time.monotonic() + 30
        while time.monotonic() < until and self.daemon.poll() is None:
            done = subprocess.run([GIUSTO, "status", "--json"], env=self.environment, capture_output=True, text=True)
            if done.returncode == 0 and json.loads(done.stdout)["state"] in ("enforcing", "degraded"):
                return json.loads(done.stdout)
            time.sleep(0.05)
        self.fail(f"it does not enforce: {read(self.log)}")

    def watchdog(self):
        children = (read(task / "children") or "" for task in Path(f"/proc/{self.daemon.pid}/task").glob("*"))
        pids = [int(pid) for line in children for pid in line.split()]
        return next(pid for pid in pids if read(Path(f"/proc/{pid}/comm")) == "giusto-watchdog")

    def notes(self):
        return json.loads(self.giusto("status", "--json"))["notes"]

    def test_offline_while_it_runs_and_online_after_an_orderly_end(self):
        self.write()
        self.assertIn("core 1: parked, nothing runs there\n", self.giusto("plan", self.site))
        self.assertIn("would park core 1: write 0 to", self.giusto("run", self.site, "--dry-run", "--backend", "manager"))
        self.assertEqual(read(ONLINE), "1", "a dry run does nothing")
        status = self.start()
        self.assertEqual(read(ONLINE), "0", read(self.log))
        self.assertIn("core 1 is parked", status["notes"])
        self.assertNotIn("no core", self.giusto("plan", self.site), "a plan counts it as present")
        self.assertIn("unused: park", self.giusto("explain", "parked", "--plan", self.folder / "out/plan.json"))
        self.assertIn("runs on this host already", self.giusto(*self.run_words(), code=4))
        self.daemon.send_signal(signal.SIGINT)
        self.assertEqual(self.daemon.wait(timeout=20), 0, read(self.log))
        self.assertEqual(read(ONLINE), "1")
        self.as_before()

    def test_online_after_its_death_by_the_watchdog(self):
        self.write()
        self.start()
        self.assertEqual(read(ONLINE), "0")
        self.daemon.kill()
        self.daemon.wait()
        self.as_before(seconds=15)

    def test_online_after_restore_and_a_new_start_when_the_watchdog_has_died_too(self):
        self.write()
        for again in ("restore", "run"):
            self.start()
            self.assertEqual(read(ONLINE), "0")
            watchdog = self.watchdog()
            os.kill(watchdog, signal.SIGKILL)
            self.daemon.kill()
            self.daemon.wait()
            self.assertEqual(read(ONLINE), "0", "no process is left that could have brought it back")
            if again == "restore":
                self.assertIn("the host is as it was", self.giusto("restore"))
                self.as_before()
        self.start()  # restores first, and parks it again
        self.assertEqual(read(ONLINE), "0")
        self.daemon.send_signal(signal.SIGTERM)
        self.assertEqual(self.daemon.wait(timeout=20), 0, read(self.log))
        self.as_before()

    def test_reloads_bring_it_back_before_it_is_used_and_park_it_after(self):
        self.write()
        self.start()
        self.write(more=f"  two: {{adopt: {{pid: {self.free}}}, promise: {{supply: 8ms/10ms}}}}\n")
        steps = json.loads(self.giusto("reload", "--json"))["steps"]
        self.assertEqual((steps[0], steps[-1]["do"]), ({"do": "online", "cores": [1]}, "add"), steps)
        self.assertEqual(read(ONLINE), "1")
        self.assertNotIn("core 1 is parked", self.notes())
        used = {service["name"]: service["core"] for service in json.loads(self.giusto("status", "--json"))["services"]}
        self.assertEqual(sorted((used["one"], used["two"])), [0, 1], "both are in use")
        self.assertEqual(os.sched_getaffinity(self.bound), {1}, "what was bound to it is again")
        # One that is taken in while the core is away gets it back, too.
        self.write(more=f"  two: {{adopt: {{pid: {self.free}}}, promise: {{supply: 1ms/10ms}}}}\n")
        steps = json.loads(self.giusto("reload", "--json"))["steps"]
        self.assertEqual(steps[-1], {"do": "park", "cores": [1]}, steps)
        self.assertEqual(read(ONLINE), "0")
        self.write()
        self.giusto("reload")
        self.write(more=f"  two: {{adopt: {{pid: {self.free}}}, promise: {{supply: 1ms/10ms}}}}\n")
        self.giusto("reload")
        self.assertIn("core 1 is parked", self.notes())
        self.write(unused="leave")
        self.assertEqual(json.loads(self.giusto("reload", "--json"))["steps"][0]["do"], "online")
        self.assertEqual(read(ONLINE), "1")
        self.daemon.send_signal(signal.SIGINT)
        self.assertEqual(self.daemon.wait(timeout=20), 0, read(self.log))
        self.as_before()

    def test_taken_in_while_it_is_away_and_a_death_then(self):
        self.write()
        self.start()
        self.write(more=f"  two: {{adopt: {{pid: {self.free}}}, promise: {{supply: 1ms/10ms}}}}\n")
        self.giusto("reload")
        self.daemon.kill()
        self.daemon.wait()
        self.as_before(seconds=15)

    def test_a_cpuset_whose_members_have_no_other_core_is_refused(self):
        if not OUTER.exists():
            self.skipTest("only cgroup v1 moves members out of a cpuset for good")
        (INNER / "cgroup.procs").write_text(str(self.held))
        self.before = self.now()
        self.write()
        said = self.giusto(*self.run_words(), code=3)
        self.assertIn(f"core 1 is held by cpuset {INNER}", said)
        self.as_before()


if __name__ == "__main__":
    why = cannot()
    if why:
        print(f"parking: SKIPPED: {why}")
        sys.exit(77)
    result = unittest.main(verbosity=2, exit=False).result
    failed = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - failed - len(result.skipped)} passed, {failed} failed, {len(result.skipped)} skipped; core 1 online: {read(ONLINE)}")
    sys.exit(1 if failed or not result.testsRun else 0)
