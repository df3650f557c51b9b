"""End to end: what giusto does to this machine, and that it is left as it was, also after kill -9."""
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from folders import folders
from typed import GIUSTO, ROOT, ROOT_USER, example, run, trial


def scheduling_state():
    """What enforcement may change on this host, as text to compare."""
    state = {}
    cpuset = Path("/sys/fs/cgroup/cpuset")
    for folder in folders(cpuset):
        for name in ("cpuset.cpus", "cpuset.sched_load_balance", "cpuset.cpu_exclusive", "cpuset.mems"):
            if (folder / name).exists():
                state[str(folder / name)] = (folder / name).read_text()
    unified = Path("/sys/fs/cgroup")
    if (unified / "cgroup.controllers").exists():
        for file in (folder / "cgroup.subtree_control" for folder in folders(unified)):
            if file.exists():
                state[str(file)] = file.read_text()
    return state


def can_reserve_most_of_each_core():
    """The kernel's deadline bandwidth is free again: a 60 % reservation per core passes, one after the other."""
    for _ in range(2):
        done = subprocess.run(["chrt", "-R", "-d", "--sched-runtime", "60000000", "--sched-deadline", "100000000",
                               "--sched-period", "100000000", "0", "true"], capture_output=True, text=True)
        if done.returncode != 0:
            return done.stderr
        time.sleep(0.15)
    return ""


def processes_with(text):
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            state = (folder / "stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if text in line and int(folder.name) != os.getpid() and state != "Z":
            found.append((int(folder.name), line))
    return found


def policies(pid):
    """Scheduling policies of a process's threads, in words."""
    names = {0: "other", 1: "fifo", 5: "idle", 6: "deadline"}
    found = []
    for thread in Path(f"/proc/{pid}/task").glob("*"):
        fields = (thread / "stat").read_text().rsplit(")", 1)[1].split()
        found.append(names.get(int(fields[38]), fields[38]))
    return found


class ThisHost(unittest.TestCase):
    def setUp(self):
        if not ROOT_USER:
            self.fail("these tests change how the machine schedules and need root")
        self.before = scheduling_state()

    def tearDown(self):
        self.assertEqual(scheduling_state(), self.before)
        self.assertEqual(can_reserve_most_of_each_core(), "")
        self.assertEqual(processes_with("redis-server 127.0.0.1:7001"), [])

    def test_the_trial_of_the_help_prints_the_table_is_verified_and_leaves_the_host_as_it_was(self):
        tried = trial(*shlex.split(example("run")))
        self.assertIn(tried.returncode, (0, 5, 6), tried.stdout + tried.stderr)
        self.assertIn("report: out/trials/", tried.stdout)
        for row in ("a whole core", "shared, no plan", "shared, Giusto", "noise floor"):
            if row not in tried.stdout:  # where a hypervisor took every slice of it, the trial must say so and must not judge
                self.assertIn("stolen by the hypervisor", tried.stdout)
                self.assertEqual(tried.returncode, 6)
        for used in re.findall(r"which used (\d+) %", tried.stdout):
            self.assertGreaterEqual(int(used), 10, "workers that never rest, on what the site promises them")
        report = (ROOT / "out/trials/latest/report.html").read_text()
        self.assertIn("<svg", report)
        self.assertNotIn("http://", report.replace("http://www.w3.org/2000/svg", ""))
        for verb, codes in ((["verify"], (0, 5, 6)), (["analyze", "trace"], (0,))):
            done = subprocess.run([str(GIUSTO), *shlex.split(example(*verb))], cwd=ROOT, capture_output=True, text=True)
            named = re.findall(r"(out/trials/latest/jobs/\S+\.csv)", example(*verb))
            lost = [name for name in named if not (ROOT / name).exists()]
            if lost:  # a hypervisor took that slice: no recording of it
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(lost[0], done.stderr)
            else:
                self.assertIn(done.returncode, codes, done.stderr)

    def test_after_kill_9_restore_undoes_everything(self):
        for delay in (0.3, 3.5):
            with tempfile.TemporaryDirectory() as folder:
                giusto = subprocess.Popen([str(GIUSTO), "run", "sites/first.yaml", "--trial", "--at-most", "20s", "--out",
                        folder],
                                          cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                time.sleep(delay)
                giusto.kill()
                giusto.communicate()
                run("restore")
                self.assertEqual(scheduling_state(), self.before, delay)
                self.assertEqual(processes_with("redis-server 127.0.0.1:7001"), [], delay)
        out, _ = run("restore")
        self.assertIn("nothing", out)

    def test_run_enforces_until_interrupted(self):
        with tempfile.TemporaryDirectory() as folder:
            giusto = subprocess.Popen([str(GIUSTO), "run", "sites/walk.yaml", "--out", folder], cwd=ROOT, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True)
            for _ in range(100):
                time.sleep(0.1)
                servers = processes_with("redis-server 127.0.0.1:7001")
                if servers and "deadline" in policies(servers[0][0]):
                    break
            else:
                giusto.kill()
                self.fail(f"no thread got its reservation\n{giusto.communicate()}")
            for _ in range(50):
                time.sleep(0.1)
                status = json.loads(run("status", "--json")[0])
                if status["state"] == "enforcing" and status["services"][0]["supplied_ns"]:
                    break
            self.assertEqual((status["pid"], status["services"][0]["name"]), (giusto.pid, "cache"))
            self.assertIn("cache", run("status")[0])
            self.assertIn("nothing had to be changed", run("reload")[0])
            _, err = run("run", "sites/walk.yaml", "--out", folder, code=4)
            self.assertIn(str(giusto.pid), err)  # two at once are refused
            giusto.send_signal(signal.SIGTERM)
            _, err = giusto.communicate(timeout=30)
            self.assertEqual(giusto.returncode, 0, err)

    def test_budgets_for_deadlines_are_supplied_to_services_that_never_rest(self):
        with tempfile.TemporaryDirectory() as folder:
            giusto = subprocess.Popen([str(GIUSTO), "run", "sites/flight.yaml", "--out", folder], cwd=ROOT, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True)
            try:
                shares = {}
                for _ in range(600):  # a machine that is itself virtual is stopped now and then
                    time.sleep(0.1)
                    done = subprocess.run([str(GIUSTO), "status", "--json"], capture_output=True, text=True)
                    if done.returncode == 0:
                        hard = [s for s in json.loads(done.stdout)["services"] if s["budget_ns"] and s["supplied_recent"]]
                        shares = {s["name"]: s["supplied_recent"] * s["period_ns"] / s["budget_ns"] for s in hard}
                        if len(shares) == 2 and all(0.95 < share < 1.05 for share in shares.values()):
                            break
                else:
                    self.fail(f"supplied in the last second, as a part of what is planned: {shares}")
            finally:
                giusto.send_signal(signal.SIGTERM)
                _, err = giusto.communicate(timeout=30)
            self.assertEqual(giusto.returncode, 0, err)

    def test_one_of_several_hosts_enforces_its_part_and_stays_that_host(self):
        """Leftovers only, as nothing has to be reserved for this."""
        hog = '[sh, -c, "while :; do sleep 0.1; done"]'
        text = ("giusto: 1\nhosts: {edge-1: {cores: 0}, edge-2: {cores: 1}}\nservices:\n"
                f"  here: {{start: {hog}, promise: leftovers, on: edge-2}}\n  there: {{start: {hog}, promise: leftovers, on: edge-1}}\n")
        with tempfile.TemporaryDirectory() as folder:
            site = Path(folder) / "site.yaml"
            site.write_text(text)
            giusto = subprocess.Popen([str(GIUSTO), "run", str(site), "--host", "edge-2", "--out", folder], cwd=ROOT,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            try:
                for _ in range(100):
                    time.sleep(0.1)
                    done = subprocess.run([str(GIUSTO), "status", "--json"], capture_output=True, text=True)
                    if done.returncode == 0 and json.loads(done.stdout)["state"] == "enforcing":
                        break
                status = json.loads(done.stdout)
                self.assertEqual((status["host"], [s["name"] for s in status["services"]]), ("edge-2", ["here"]))
                plan = json.loads((Path(folder) / "plan.json").read_text())
                self.assertEqual([host["name"] for host in plan["hosts"]], ["edge-2"])
                for new, code, told in ((text.replace("edge-2: {", "edge-3: {").replace("on: edge-2", "on: edge-3"), 2, "no host 'edge-2'; it has edge-1, edge-3"),
                                        (text.replace("on: edge-1", "on: edge-2"), 0, "add there"),
                                        (text.replace("on: edge-2", "on: edge-1"), 0, "remove here\nremove there")):
                    site.write_text(new)
                    out, err = run("reload", code=code)
                    self.assertIn(told, out + err)
                self.assertEqual(json.loads(run("status", "--json")[0])["services"], [])
            finally:
                giusto.send_signal(signal.SIGTERM)
                _, err = giusto.communicate(timeout=30)
            self.assertEqual(giusto.returncode, 0, err)

    def test_without_privilege_it_plans_predicts_and_says_what_is_missing(self):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o777)
            binary = Path(folder) / "giusto"
            shutil.copy(GIUSTO, binary)
            shutil.copy(ROOT / "sites/walk.yaml", folder)
            done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", str(binary), "run", "walk.yaml",
                                   "--trial", "--out", "out"], cwd=folder, capture_output=True, text=True)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn("predicted", done.stdout)
            self.assertIn("CAP_SYS_NICE", done.stderr)

    def test_without_redis_it_says_what_to_install(self):
        with tempfile.TemporaryDirectory() as folder:
            _, err = run("run", "sites/walk.yaml", "--trial", "--out", folder, code=3, env={"PATH": folder})
            self.assertIn("redis-server", err)

    def test_dry_run_changes_nothing(self):
        out, _ = run("run", "sites/walk.yaml", "--dry-run")
        self.assertIn("sched_setattr", out)
