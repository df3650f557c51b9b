"""End to end: the command a user types, on this machine, with good and bad input.

Law by law: exit codes and texts, goldens of the papers, examples in every verb's help, a trial around a real Redis that
leaves the host as it was, also after kill -9. Only the standard library and the release build are used.
"""
import json
import os
import random
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

from analyses import Analyze, Ensemble  # found here by unittest
from typed import GIUSTO, ROOT, ROOT_USER, run


def scheduling_state():
    """What enforcement may change on this host, as text to compare."""
    state = {}
    cpuset = Path("/sys/fs/cgroup/cpuset")
    for folder in [cpuset, *sorted(p for p in cpuset.glob("**/") if p != cpuset)] if cpuset.exists() else []:
        for name in ("cpuset.cpus", "cpuset.sched_load_balance", "cpuset.cpu_exclusive", "cpuset.mems"):
            if (folder / name).exists():
                state[str(folder / name)] = (folder / name).read_text()
    unified = Path("/sys/fs/cgroup")
    if (unified / "cgroup.controllers").exists():
        for file in sorted(unified.glob("**/cgroup.subtree_control")):
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


class SiteFiles(unittest.TestCase):
    def test_every_malformed_site_is_refused_with_its_place(self):
        corpus = sorted((ROOT / "site/tests/malformed").glob("*.yaml"))
        self.assertGreaterEqual(len(corpus), 50)
        for file in corpus:
            for verb in ("check", "plan"):
                out, err = run(verb, file, code=2)
                self.assertEqual(out, "", file)
                self.assertRegex(err, re.escape(file.name) + r":\d+:\d+: ", file)

    def test_a_site_that_does_not_fit_has_a_witness(self):
        _, err = run("plan", "sites/too-much.yaml", code=1)
        self.assertIn("fit", err)

    def test_a_missing_file_says_so(self):
        _, err = run("plan", "nowhere.yaml", code=2)
        self.assertIn("nowhere.yaml", err)

    def test_the_walk_is_planned_and_explained(self):
        with tempfile.TemporaryDirectory() as folder:
            plan = Path(folder) / "plan.json"
            out, _ = run("plan", "sites/walk.yaml", "--out", plan)
            self.assertIn("cache on core 1", out)
            out, _ = run("explain", "cache", "--plan", plan)
            self.assertIn("hyperperiod", out)
            _, err = run("explain", "cash", "--plan", plan, code=2)
            self.assertIn("cache", err)
            broken = Path(folder) / "broken.json"
            broken.write_text(plan.read_text().replace('"giusto_plan": 3', '"giusto_plan": 99'))
            _, err = run("explain", "cache", "--plan", broken, code=2)
            self.assertIn("99", err)

    def test_supplies_share_a_core_and_who_insists_gets_the_reason(self):
        out, _ = run("plan", "sites/supply.yaml")
        self.assertRegex(out, r"gamma on core 1: 2 ms every 10 ms \(20 % as promised\)")
        out, _ = run("simulate", "sites/supply.yaml", "--for", "1s")
        self.assertIn("no tasks whose response times could be predicted", out)
        for verb in (["plan"], ["simulate"], ["run", "--dry-run"], ["explain", "alpha", "--site"]):
            _, err = run(*verb, "sites/supply.yaml", "--backend", "quota", code=2)
            self.assertIn("a cap, never a guarantee", err)

    def test_numbers_for_people_have_a_unit_of_their_own_and_are_never_rounded_to_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            site = Path(folder) / "site.yaml"
            site.write_text("giusto: 1\nhosts: {h: {cores: 0-1, keep-free: 10%}}\nservices:\n"
                            "  long: {start: a, tasks: [{wcet: 100.000001ms, period: 1.000003s}, {wcet: 200ms, period: 1.4s}], promise: as-if-alone}\n"
                            "  tiny: {start: a, tasks: [{wcet: 1us, period: 40ms}], promise: as-if-alone, margin: 0%}\n"
                            "  batch: {start: a, promise: leftovers, at-least: 90.5%}\n")
            plan = Path(folder) / "plan.json"
            out, _ = run("plan", site, "--out", plan)
            self.assertRegex(out, r"long on core 0: \d+(\.\d{1,3})? ms every \d+(\.\d{1,3})? ms ")
            self.assertIn("(0.0025 % + 0 points", out)
            self.assertIn("batch on core 1, 0:", out)
            self.assertIn("at least 90.5 % promised with at least 2 busy processes", out)
            out, _ = run("explain", "tiny", "--plan", plan)
            self.assertRegex(out, r"utilization +0.0025 %")
            self.assertIn("predicted p99", out)

    def test_the_same_seed_gives_the_same_bytes(self):
        with tempfile.TemporaryDirectory() as folder:
            files = []
            for name, seed in (("a", 7), ("b", 7), ("c", 8)):
                jobs = Path(folder) / f"{name}.csv"
                run("simulate", "sites/walk.yaml", "--for", "1s", "--seed", seed, "--jobs", jobs, "--trace", f"{folder}/{name}.json")
                files.append((jobs.read_bytes(), Path(f"{folder}/{name}.json").read_bytes()))
            self.assertEqual(files[0], files[1])
            self.assertGreater(len(files[0][0].splitlines()), 5000)
            json.loads(files[0][1])


    def test_schedulers_are_compared_over_seeds_in_parallel_with_the_same_bytes(self):
        with tempfile.TemporaryDirectory() as folder:
            command = ["simulate", "sites/walk.yaml", "--for", "2s", "--seed", "7", "--seeds", "5", "--compare",
                       "periodic_strict,polling,credit,fair", "--json"]
            first, again = run(*command)[0], run(*command)[0]
            self.assertEqual(first, again)
            rows = {row["scheduler"]: row["prediction"] for row in json.loads(first)}
            self.assertEqual(list(rows), ["constant_bandwidth", "periodic_strict", "polling", "credit", "fair"])
            self.assertEqual(rows["constant_bandwidth"]["max_ns"], 300_000)
            self.assertGreater(rows["polling"]["p50_ns"], 10 * rows["constant_bandwidth"]["p50_ns"])
            run("simulate", "sites/walk.yaml", "--for", "80ms", "--gantt", f"{folder}/g.svg")
            self.assertIn("<rect", Path(f"{folder}/g.svg").read_text())
            _, err = run("simulate", "sites/walk.yaml", "--for", "100s", "--gantt", f"{folder}/g.svg", code=2)
            self.assertIn("shorter", err)
            _, err = run("simulate", "sites/walk.yaml", "--compare", "nonsense", code=2)
            self.assertIn("credit or fair", err)


class SeveralHosts(unittest.TestCase):
    SITE = "sites/two-hosts.yaml"

    @staticmethod
    def places(plan):
        return {service["name"]: service["on"] for service in plan["services"] + plan["leftovers"]}

    def test_every_machine_plans_the_same_places_and_does_its_own_part(self):
        plans = [json.loads(run("plan", self.SITE, *host, "--json")[0]) for host in ([], ["--host", "edge-1"], ["--host", "edge-2"])]
        places = self.places(plans[0])
        self.assertEqual(places, {"cache": "edge-1", "alpha": "edge-1", "beta": "edge-2", "gamma": "edge-2", "batch": "edge-1"})
        for plan, here in zip(plans, (None, "edge-1", "edge-2")):
            self.assertEqual(self.places(plan), places)
            self.assertEqual([host["name"] for host in plan["hosts"] if host["assumed"] is None], [here] if here else [])
        for name in ("edge-1", "edge-2"):
            done = json.loads(run("run", self.SITE, "--host", name, "--dry-run", "--json")[0])
            here = {service for service, on in places.items() if on == name}
            self.assertEqual(set(self.places(done["plan"])), here)
            started = {match for step in done["steps"] for match in re.findall(r"^start (\w+):", step)}
            self.assertEqual(started, here)

    def test_what_people_are_told_is_grouped_and_says_why(self):
        out, _ = run("plan", self.SITE, "--host", "edge-1")
        self.assertRegex(out, r"(?s)^edge-1:\n  cache on core 0.*\nedge-2 \(not this machine\):\n  beta on core 0.*\n"
                              r"not this machine: assumed a stock kernel: tick 4 ms")
        out, _ = run("explain", "beta", "--site", self.SITE, "--host", "edge-1")
        self.assertRegex(out, r"host +edge-2 +the first host with room; not edge-1: it is promised 5 ms")
        self.assertIn("edge-2 is not this machine; assumed a stock kernel", out)
        out, _ = run("check", self.SITE)
        self.assertRegex(out, r"alpha +any host(?s:.*)gamma +edge-2")
        out, _ = run("simulate", self.SITE, "--for", "1s")
        self.assertRegex(out, r"edge-1 \(not this machine\):\ncache (?s:.*)\nedge-2 \(not this machine\):\nbeta ")
        out, _ = run("simulate", self.SITE, "--for", "1s", "--host", "edge-1")
        self.assertNotIn("beta", out)
        rows = json.loads(run("simulate", self.SITE, "--for", "1s", "--json")[0])
        self.assertEqual([(row["service"], row["on"]) for row in rows],
                         [("cache", "edge-1"), ("alpha", "edge-1"), ("beta", "edge-2"), ("gamma", "edge-2")])

    def test_a_machine_that_is_none_of_the_hosts_or_has_nothing_to_do_is_told_so(self):
        for verb in (["plan"], ["simulate"], ["run", "--dry-run"], ["explain", "beta", "--site"]):
            _, err = run(*verb, self.SITE, "--host", "edge-9", code=2)
            self.assertIn("no host 'edge-9'; it has edge-1, edge-2", err)
        _, err = run("run", self.SITE, "--dry-run", code=2)
        self.assertRegex(err, r"hostname is '.*', and the site's hosts are edge-1, edge-2: say with --host NAME")
        with tempfile.TemporaryDirectory() as folder:
            site = Path(folder) / "site.yaml"
            site.write_text("giusto: 1\nhosts: {edge-1: {cores: 0}, edge-2: {cores: 7000}}\nservices: {a: {start: b, promise: leftovers, at-least: 1%}}\n")
            _, err = run("run", site, "--host", "edge-2", "--dry-run", code=3)
            self.assertIn("host 'edge-2' names core 7000", err)
            site.write_text(site.read_text().replace("7000", "1"))
            for more in (["--dry-run"], ["--trial", "--out", folder], ["--out", folder]):
                _, err = run("run", site, "--host", "edge-2", *more, code=2)
                self.assertIn("host edge-2 has no services", err)

    @unittest.skipUnless(ROOT_USER, "only root can have another hostname")
    def test_the_hostname_says_which_host_a_machine_is(self):
        for hostname, name in (("edge-2", "beta"), ("edge-1.example.org", "alpha")):
            done = subprocess.run(["unshare", "--uts", "sh", "-c", f"hostname {hostname} && exec {GIUSTO} run {self.SITE} --dry-run"],
                                  cwd=ROOT, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f"start {name}:", done.stdout)


def example(*verb):
    """What the help of a verb shows first, without the program's name."""
    text = run(*verb, "--help")[0]
    return re.search(r"Example.*:\n\s+giusto (.*(?:\n {2,}(?!giusto )\S.*)*)", text).group(1)


class Help(unittest.TestCase):
    def test_every_verb_shows_an_example(self):
        for verb in self.verbs():
            out, _ = run(*verb, "--help")
            self.assertRegex(out, r"Example.*:\n\s+giusto ", verb)

    @staticmethod
    def verbs():
        return [["check"], ["plan"], ["explain"], ["simulate"], ["run"], ["status"], ["reload"], ["mode"], ["agent"], ["restore"],
                ["measure", "execution"], ["measure", "response"], ["measure", "supply"], ["measure", "latency"],
                ["measure", "packets"], ["measure", "import"], ["verify"], ["study", "list"], ["study", "run"], ["analyze", "share"],
                ["analyze", "plane"], ["analyze", "interface"], ["analyze", "admission"], ["analyze", "criticality"], ["analyze", "response"],
                ["analyze", "slo"], ["analyze", "map"], ["analyze", "bucket"], ["analyze", "trace"]]

    def test_every_example_works(self):
        """In the order in which a newcomer would type them: measuring needs the service."""
        examples = {" ".join(verb): example(*verb) for verb in self.verbs()}
        service = subprocess.Popen(shlex.split("redis-server --port 7001 --bind 127.0.0.1 --save ''"), stdout=subprocess.DEVNULL)
        try:
            for verb in ("check", "plan", "explain", "simulate", "analyze share", "analyze plane", "analyze interface",
                         "analyze admission", "analyze criticality", "analyze response", "analyze slo", "analyze map", "analyze bucket", "measure execution",
                         "measure supply", "measure packets"):
                run(*shlex.split(examples[verb]))
            for verb in ("measure response", "measure latency"):
                done = subprocess.run([str(GIUSTO), *shlex.split(examples[verb])], cwd=ROOT, capture_output=True, text=True)
                self.assertIn(done.returncode, (0, 6), done.stderr)  # 6: this machine stalled the load generator, or was taken away
        finally:
            service.terminate()
            service.wait()


class Supply(unittest.TestCase):
    """The probe's numbers agree with each other, with its files and with the clock; nothing is said of the machine's speed."""

    def measure(self, *args, **more):
        return json.loads(run("measure", "supply", "--json", *args, **more)[0])

    def test_report_gaps_and_windows_are_one_and_the_same_recording(self):
        with tempfile.TemporaryDirectory() as folder:
            gaps, windows = Path(folder) / "gaps.csv", Path(folder) / "windows.csv"
            begin = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            report = self.measure("--for", "300ms", "--ask", "3ms/10ms", "--at", "123.000007s", "--out", gaps, "--windows", windows)
            end = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            start, elapsed = report["start_ns"], report["elapsed_ns"]
            self.assertTrue(begin < start and start + elapsed < end and elapsed >= 300 * 10**6)
            lost = [tuple(map(int, line.split(","))) for line in gaps.read_text().splitlines()[1:]]
            self.assertEqual(len(lost), report["gaps"])
            self.assertEqual(elapsed - sum(b - a for a, b in lost), report["supply_ns"])
            self.assertEqual(max(b - a for a, b in lost), report["longest_gap_ns"])
            rows = [tuple(map(int, line.split(","))) for line in windows.read_text().splitlines()[1:]]
            self.assertEqual(len(rows), report["windows"])
            self.assertTrue(29 <= len(rows) and all(at % 10**7 == 7000 for at, _ in rows))
            for at, supply in rows:
                self.assertEqual(10**7 - supply, sum(max(0, min(b, at + 10**7) - max(a, at)) for a, b in lost))
            self.assertEqual(report["per_window"]["min_ns"], min(supply for _, supply in rows))
            self.assertEqual(report["asked"]["overrun_ns"], max(0, max(supply for _, supply in rows) - 3 * 10**6))

    def test_a_probe_that_is_stopped_from_outside_had_no_processor_meanwhile(self):
        with tempfile.TemporaryDirectory() as folder:
            gaps = Path(folder) / "gaps.csv"
            probe = subprocess.Popen([str(GIUSTO), "measure", "supply", "--for", "2s", "--json", "--out", str(gaps)], stdout=subprocess.PIPE)
            time.sleep(0.4)
            for _ in range(3):
                time.sleep(0.1)
                probe.send_signal(signal.SIGSTOP)
                time.sleep(0.1)
                probe.send_signal(signal.SIGCONT)
            report = json.loads(probe.communicate(timeout=60)[0])
            self.assertGreaterEqual(report["longest_gap_ns"], 95 * 10**6)
            self.assertLessEqual(report["supply_ns"], report["elapsed_ns"] - 3 * 95 * 10**6)
            self.assertLessEqual(report["cpu_ns"], report["elapsed_ns"] - 3 * 95 * 10**6)
            self.assertEqual(report["bound"][0]["supply_ns"], 0)

    def test_interrupted_it_tells_what_it_has_seen(self):
        probe = subprocess.Popen([str(GIUSTO), "measure", "supply", "--for", "600s", "--json"], stdout=subprocess.PIPE)
        time.sleep(0.5)
        probe.send_signal(signal.SIGINT)
        report = json.loads(probe.communicate(timeout=60)[0])
        self.assertEqual(probe.returncode, 0)
        self.assertTrue(0 < report["elapsed_ns"] < 60 * 10**9 and report["windows"] > 0)

    def test_for_people_and_what_is_refused(self):
        out, _ = run("measure", "supply", "--for", "100ms", "--ask", "3ms/10ms")
        for word in ("of a core", "longest gap", "windows of 10 ms", "asked: 3 ms every 10 ms", "shortfall"):
            self.assertIn(word, out)
        for args, word in ((["--ask", "3ms"], "3ms/10ms"), (["--ask", "12ms/10ms"], "within the period"),
                           (["--ask", "3ms/10ms", "--window", "7ms"], "as long"), (["--for", "5ms"], "two windows"),
                           (["--window", "1us"], "10 us"), (["--core", "4000"], "expected one of")):
            _, err = run("measure", "supply", *args, code=2)
            self.assertIn(word, err)


class Refusals(unittest.TestCase):
    """Exit codes 1, 2, 3 and 4 with texts that say what to do."""

    def site(self, folder, text):
        path = Path(folder) / "site.yaml"
        path.write_text("giusto: 1\n" + text)
        return path

    def test_nobody_listens_to_the_output(self):
        for arguments in (["check", "sites/walk.yaml"], ["plan", "sites/walk.yaml", "--json"], ["analyze", "share", "--task", "1ms/5ms", "--json"]):
            with open("/dev/full", "w") as full:
                done = subprocess.run([str(GIUSTO), *arguments], cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True)
            self.assertEqual(done.returncode, 4, arguments)
            self.assertIn("standard output", done.stderr)
            closed, other = os.pipe()
            os.close(closed)
            done = subprocess.run([str(GIUSTO), *arguments], cwd=ROOT, stdout=other, stderr=subprocess.PIPE, text=True)
            os.close(other)
            self.assertEqual((done.returncode, done.stderr), (0, ""), arguments)
        with open("/dev/full", "w") as full:
            done = subprocess.run([str(GIUSTO), "check", "nowhere.yaml"], cwd=ROOT, stderr=full, stdout=subprocess.PIPE, text=True)
        self.assertEqual((done.returncode, done.stdout), (2, ""), "nobody can be told, and the exit code stands")

    def test_files_that_cannot_be_read_or_written(self):
        _, err = run("simulate", "sites/walk.yaml", "--for", "1s", "--jobs", "/dev/full", code=4)
        self.assertIn("No space", err)
        with tempfile.TemporaryDirectory() as folder:
            os.mkfifo(f"{folder}/pipe")
            for path in (f"{folder}/pipe", folder, "/dev/tty", "/dev/zero"):
                _, err = run("check", path, code=2)
                self.assertIn(path, err)

    def test_a_machine_without_the_cores_or_the_service(self):
        with tempfile.TemporaryDirectory() as folder:
            many = self.site(folder, "hosts: {h: {cores: 8000-8191}}\nservices: {a: {start: sleep 1, promise: leftovers}}\n")
            for verb in ("check", "plan"):
                out, err = run(verb, many)
                self.assertIn("no core 8000-8191", err)
            _, err = run("run", many, "--dry-run", code=3)
            self.assertIn("names cores 8000-8191", err)
            site = self.site(folder, "hosts: {h: {cores: 7000-7001}}\nservices:\n  a: {start: sleep 1, tasks: [{wcet: 1ms, period: 10ms}], promise: as-if-alone}\n")
            _, err = run("plan", site)
            self.assertIn("7000, 7001", err)
            for more in ([], ["--dry-run"]):
                _, err = run("run", site, "--out", folder, *more, code=3)
                self.assertIn("7000", err)
        for verb in ("execution", "response"):
            _, err = run("measure", verb, "sites/walk.yaml", "cache", code=3)
            self.assertIn("127.0.0.1:7001", err)

    def test_nothing_to_try_or_to_simulate(self):
        with tempfile.TemporaryDirectory() as folder:
            site = self.site(folder, "hosts: {h: {cores: 1}}\nservices:\n  a: {start: sleep 1, promise: leftovers}\n")
            for verb in (["run", "--trial", "--out", folder], ["simulate"]):
                _, err = run(verb[0], site, *verb[1:], code=2)
                self.assertIn("as-if-alone", err)
            silent = self.site(folder, "hosts: {h: {cores: 0}}\nservices:\n  a: {start: sleep 1, tasks: [{wcet: 1ms, period: 10ms}], promise: as-if-alone}\n")
            _, err = run("run", silent, "--trial", "--out", f"{folder}/none", code=2)
            self.assertIn("load:", err)
            self.assertFalse(Path(folder, "none").exists(), "refused before anything is done")
        for arguments in (["simulate", "sites/walk.yaml"], ["run", "sites/walk.yaml", "--trial"], ["measure", "response", "sites/walk.yaml", "cache"]):
            _, err = run(*arguments, "--for", "0s", code=2)
            self.assertIn("more than nothing", err)
        _, err = run("simulate", "sites/walk.yaml", "--for", "10ns", code=2)
        self.assertIn("10 ns", err)

    def test_without_privilege_nothing_is_restored_and_a_trial_still_prints_json(self):
        """As on a host whose journal is root's."""
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o777)
            for file in (GIUSTO, ROOT / "sites/walk.yaml"):
                shutil.copy(file, folder)
            nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if ROOT_USER else []
            for arguments in (["restore"], ["run", "walk.yaml", "--trial", "--json", "--out", "out"]):
                state = {**os.environ, "GIUSTO_STATE": "/run/giusto"}
                done = subprocess.run([*nobody, "./giusto", *arguments], cwd=folder, env=state, capture_output=True, text=True)
                self.assertEqual(done.returncode, 3, done.stderr)
                self.assertIn("root", done.stderr)
            self.assertGreater(json.loads(done.stdout)["plan"]["services"][0]["prediction"]["jobs"], 0)

    def test_a_margin_that_is_meant_in_percent(self):
        _, err = run("analyze", "share", "--task", "1ms/5ms", "--margin", "5", code=2)
        self.assertIn("5%", err)

    def test_json_wherever_there_is_text(self):
        for arguments in (["check", "sites/walk.yaml"], ["explain", "cache", "--site", "sites/walk.yaml"], ["explain", "batch", "--site", "sites/walk.yaml"],
                          ["run", "sites/walk.yaml", "--dry-run"]):
            json.loads(run(*arguments, "--json")[0])


class ThisHost(unittest.TestCase):
    def setUp(self):
        if not ROOT_USER:
            self.fail("these tests change how the machine schedules and need root")
        self.before = scheduling_state()

    def tearDown(self):
        self.assertEqual(scheduling_state(), self.before)
        self.assertEqual(can_reserve_most_of_each_core(), "")
        self.assertEqual(processes_with("redis-server 127.0.0.1:7001"), [])

    def trial(self, folder):
        return subprocess.Popen([str(GIUSTO), "run", "sites/walk.yaml", "--trial", "--rounds", "3", "--for", "1s", "--out", folder],
                                cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def test_the_trial_of_the_help_prints_the_table_is_verified_and_leaves_the_host_as_it_was(self):
        trial = subprocess.run([str(GIUSTO), *shlex.split(example("run"))], cwd=ROOT, capture_output=True, text=True, timeout=300)
        self.assertIn(trial.returncode, (0, 5, 6), trial.stderr)
        self.assertIn("predicted", trial.stdout)
        for row, kind in (("a whole core", "whole"), ("shared, no plan", "no-plan"), ("shared, Giusto", "giusto"), ("noise floor", "whole")):
            if row not in trial.stdout:  # where a hypervisor took every run of it, the trial must say so and must not judge
                self.assertRegex(trial.stdout, rf"voided: round \d+, {kind}, ")
                self.assertEqual(trial.returncode, 6)
        report = (ROOT / "out/report.html").read_text()
        self.assertIn("<svg", report)
        self.assertNotIn("http://", report.replace("http://www.w3.org/2000/svg", ""))
        for verb, codes in ((["verify"], (0, 5, 6)), (["analyze", "trace"], (0,))):
            done = subprocess.run([str(GIUSTO), *shlex.split(example(*verb))], cwd=ROOT, capture_output=True, text=True)
            lost = [name for name in re.findall(r"out/jobs/cache-(\S+)-(\d)\.csv", example(*verb)) if
                    re.search(rf"voided: round {name[1]}, {name[0]}, ", trial.stdout)]
            if lost and done.returncode == 2:  # a hypervisor took that run: no recording of it, or one that cannot be used
                self.assertIn("cache-{}-{}.csv".format(*lost[0]), done.stderr)
            else:
                self.assertIn(done.returncode, codes, done.stderr)

    def test_after_kill_9_restore_undoes_everything(self):
        for delay in (0.3, 1.5, 3.5, 6.0):
            with tempfile.TemporaryDirectory() as folder:
                trial = self.trial(folder)
                time.sleep(delay)
                trial.kill()
                trial.communicate()
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


def jobs(folder, name, seed, extra_us=0, number=5000):
    """Job records of a service that takes 100 us and an exponential part, and so much more."""
    draw, at, lines = random.Random(seed), 0, ["task,job,due_ns,release_ns,finish_ns"]
    for job in range(number):
        at += 1_000_000
        lines.append(f"0,{job},{at},{at},{at + 100_000 + int(draw.expovariate(1 / 50_000)) + 1000 * extra_us}")
    file = Path(folder) / f"{name}.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


class Verify(unittest.TestCase):
    """Three runs of a reference and one to judge: what each verdict says, where, and the exit code."""

    def judged(self, folder, extra_us, number, code):
        runs = [jobs(folder, f"reference{seed}", seed, 0, number) for seed in range(3)]
        measured = jobs(folder, "measured", 7, extra_us, number)
        page = Path(folder) / "report.html"
        out, _ = run("verify", runs[0], measured, "--baseline", runs[1], "--baseline", runs[2], "--html", page, code=code)
        text = page.read_text()
        for told in ("Promised, predicted, measured", "How it was obtained", "What the words mean", "measured.csv, ", os.uname().release):
            self.assertIn(told, text)
        return out, text

    def test_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            out, page = self.judged(folder, 0, 5000, 0)
            self.assertRegex(out, r"measured .* ✓ promise kept")
            self.assertIn("</span> promise kept</strong>", page)

    def test_missed(self):
        with tempfile.TemporaryDirectory() as folder:
            out, page = self.judged(folder, 40, 5000, 5)
            self.assertRegex(out, r"measured .* ✗ promise missed")
            self.assertIn("</span> promise missed</strong>", page)
            # Every response is 40 us longer, and so is W1, but for chance.
            distance = float(re.search(r"\n([\d.]+) us from the reference", out).group(1))
            self.assertAlmostEqual(distance, 40, delta=5)

    def test_not_told_apart_from_noise(self):
        with tempfile.TemporaryDirectory() as folder:
            out, page = self.judged(folder, 0, 500, 6)
            self.assertRegex(out, r"\? cannot tell")
            self.assertIn("at least 1000 a run are needed", out)
            self.assertIn("</span> cannot tell</strong>", page)

    def test_percentiles_of_a_plan_are_judged_beside_its_prediction(self):
        with tempfile.TemporaryDirectory() as folder:
            plan, records, page = (Path(folder) / name for name in ("plan.json", "jobs.csv", "report.html"))
            run("plan", "sites/percentiles.yaml", "--out", plan)
            run("simulate", "sites/percentiles.yaml", "--for", "300s", "--jobs", records)
            out, _ = run("verify", records, "--plan", plan, "--html", page)
            self.assertRegex(out, r"p90 +20\.0 ms +[\d.]+ ms +[\d.]+ ms .* ✓ promise kept")
            for told in ("≤ 20.0 ms", "≤ 40.0 ms", "p99", "What the plan was proven to keep"):
                self.assertIn(told, page.read_text())
            _, err = run("verify", records, "--plan", plan, "--service", "nobody", code=2)
            self.assertIn("no service 'nobody'; it has", err)
            alone = Path(folder) / "alone.json"
            run("plan", "sites/walk.yaml", "--out", alone)
            _, err = run("verify", records, "--plan", alone, code=2)
            self.assertIn("promised no percentile", err)
            _, err = run("verify", records, records, "--plan", alone, "--service", "batch", code=2)
            self.assertIn("leftovers", err)
            stopped = Path(folder) / "stopped.csv"
            head, *lines = records.read_text().splitlines()[:2001]
            stopped.write_text("\n".join([head, *lines[:-3], *(line[:line.rindex(",") + 1] for line in lines[-3:])]) + "\n")
            out, _ = run("verify", records, stopped, "--plan", alone, "--service", "cache", "--html", page)
            self.assertRegex(out, r"(?m)^predicted +[\d.]+ [um]s")
            self.assertIn("measured: 3 of 2000 never finished", out)
            self.assertIn("Of the measured run, 3 of 2000 never finished", page.read_text())
            run("verify", records, stopped, "--html", os.fsdecode(os.fsencode(folder) + b"/p\xff.html"))
            for own in (records, stopped, alone):
                before = own.read_bytes()
                _, err = run("verify", records, stopped, "--plan", alone, "--service", "cache", "--html", own, code=2)
                self.assertIn(f"--html {own} is read by the same command", err)
                self.assertEqual(own.read_bytes(), before)
            _, err = run("plan", alone, "--out", alone, code=2)
            self.assertIn("is read by", err)


class Study(unittest.TestCase):
    """Published experiments: their own tests judge claims; here is what the command does with the findings."""

    def test_listed_played_told_and_shown(self):
        out, _ = run("study", "list")
        for folder in sorted(path.parent.name for path in (ROOT / "studies").glob("*/study.toml")):
            self.assertRegex(out, rf"(?m)^{folder} ")
        with tempfile.TemporaryDirectory() as folder:
            out, _ = run("study", "run", "mdds1-select", "--quick", "--html", "--out", folder)
            self.assertIn("0 FAIL", out)
            page = (Path(folder) / "mdds1-select/report.html").read_text()
            self.assertIn("all claims hold", page)
            self.assertTrue((Path(folder) / "mdds1-select/least.csv").exists())
            # Few sets cannot tell everything.
            out, _ = run("study", "run", "csa-arinc", "--quick", "--out", folder, code=6)
            self.assertRegex(out, r"[1-9]\d* cannot be told")
            self.assertEqual(len({line.index("]") for line in out.splitlines() if line.startswith("  ") and line.endswith(" sets")}), 1, out)
            file = Path(folder) / "file"
            file.write_text("")
            _, err = run("study", "run", "csa-period", "--out", file, code=4)
            self.assertIn(f"cannot write {file}/csa-period", err)

    def test_a_claim_that_fails_is_5_and_no_studies_is_3(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(ROOT / "studies/csa-period", f"{folder}/studies/csa-period")
            claims = Path(folder) / "studies/csa-period/study.toml"
            text = claims.read_text()
            swapped = text.replace('rule = "zero"', "rule = { at-least = 1.0 }", 1)
            self.assertNotEqual(text, swapped)
            claims.write_text(swapped)
            done = subprocess.run([str(GIUSTO), "study", "run", "csa-period", "--quick"], cwd=folder, capture_output=True, text=True)
            self.assertEqual(done.returncode, 5, done.stdout + done.stderr)
            self.assertRegex(done.stdout, r"[1-9]\d* FAIL\n")
            done = subprocess.run([str(GIUSTO), "study", "list"], cwd=f"{folder}/studies", capture_output=True, text=True)
            self.assertEqual(done.returncode, 3)
            self.assertIn("come with Giusto's source", done.stderr)


class Import(unittest.TestCase):
    """Recordings made on purpose; real ones are in tests/import.py."""

    def test_a_configuration_becomes_a_site_that_is_planned(self):
        with tempfile.TemporaryDirectory() as folder:
            config, site = Path(folder) / "rt-app.json", Path(folder) / "site.yaml"
            config.write_text('\ufeff// two\n{"tasks": {/* two */ "it\'s": {"instance": 2, "run": 2000, "timer": {"ref": "unique", "period": 20000}}, '
                              '"b": {"run": 1000, "timer": {"ref": "b", "period": 10000}}}}')
            site.write_text(run("measure", "import", config)[0])
            self.assertIn("every deadline", run("plan", site)[0])
            described = json.loads(run("check", site, "--json")[0])
            self.assertIn("it_s", json.dumps(described))
            config.write_text(config.read_text().replace("run", "lock"))
            _, err = run("measure", "import", config, code=2)
            self.assertIn("'lock' is not what a periodic task does", err)
            for flag, value in (("--out", site), ("--profile", site), ("--thread", "b")):
                _, err = run("measure", "import", config, flag, value, code=2)
                self.assertIn(f"{flag} does not go with a configuration", err)

    def test_without_a_job_nothing_is_told_or_written(self):
        with tempfile.TemporaryDirectory() as folder:
            trace, out, profile = (Path(folder) / name for name in ("trace.txt", "jobs.csv", "profile.csv"))
            switch = "x-1 [000] 1.{}: sched_switch: prev_comm={} prev_pid={} prev_prio=120 prev_state={} ==> next_comm={} next_pid={} next_prio=120"
            trace.write_text(switch.format(1, "it", 5, "S", "idle", 0) + "\nx-1 [000] 1.2: sched_wakeup: comm=it pid=5 prio=120 target_cpu=000\n")
            told, err = run("measure", "import", trace, "--thread", "it", "--out", out, "--profile", profile, code=6)
            self.assertIn("no job in it is complete", err)
            self.assertIn("not ended with it", told)
            self.assertNotIn("p99", told)
            self.assertFalse(out.exists() or profile.exists())
            for clash in ((trace, profile), (out, trace), (out, Path(folder) / "." / "x" / ".." / "jobs.csv")):
                Path(folder, "x").mkdir(exist_ok=True)
                _, err = run("measure", "import", trace, "--thread", "it", "--out", clash[0], "--profile", clash[1], code=2)
                self.assertIn("by the same command", err)

    def test_errors_name_file_and_line(self):
        with tempfile.TemporaryDirectory() as folder:
            trace = Path(folder) / "trace.txt"
            trace.write_text("# tracer: nop\n x-1 [000] 1.5: sched_wakeup: comm=x pid=\n\n")
            _, err = run("measure", "import", trace, "--thread", "x", code=2)
            self.assertIn("trace.txt:2: ", err)
            trace.write_text("nothing\n")
            _, err = run("measure", "import", trace, code=2)
            self.assertIn("perf script", err)


class Percentiles(unittest.TestCase):
    """A promise of percentiles, from the site to the verdict; its trial is judged, but a disturbed machine is no failure."""

    def test_planned_proven_and_played(self):
        with tempfile.TemporaryDirectory() as folder:
            plan = f"{folder}/plan.json"
            out, _ = run("plan", "sites/percentiles.yaml", "--out", plan)
            self.assertRegex(out, r"for p90 ≤ 20 ms, p99 ≤ 40 ms .* backend manager, predicted p90 .*, p99 ")
            run("check", "--certificate", plan)
            jobs = f"{folder}/jobs.csv"
            played = json.loads(run("simulate", "sites/percentiles.yaml", "--for", "300s", "--jobs", jobs, "--json")[0])
            self.assertEqual(played[0]["promised"]["verdict"], "kept")
            run("verify", "--promise", "p90=20ms", "--promise", "p99=40ms", jobs)
            out, _ = run("verify", "--promise", "p99=2ms", jobs, code=5)
            self.assertIn("2.00 ms was promised", out)
            run("verify", "--promise", "p99.999=100s", jobs, code=6)
            # A prediction that is too good is no proof.
            text = json.loads(Path(plan).read_text())
            text["services"][0]["certificate"]["percentiles"]["predicted"][1]["at_ns"] //= 2
            Path(plan).write_text(json.dumps(text))
            _, err = run("check", "--certificate", plan, code=1)
            self.assertIn("requests within", err)

    def test_what_a_whole_core_misses_is_refused_with_by_how_much_and_what_fits(self):
        with tempfile.TemporaryDirectory() as folder:
            site = Path(folder) / "site.yaml"
            text = (ROOT / "sites/percentiles.yaml").read_text().replace("at-least: 10%", "")
            site.write_text(text.replace("{p90: 20ms, p99: 40ms}", "{p99: 2.5ms}"))
            _, err = run("plan", site, code=1)
            self.assertIn("p99 ≤ 2.5 ms is out of reach: even a whole core serves only", err)
            longer = re.search(r"it fits with p99 ≤ (\S+ \S+)", err)[1].replace(" ", "")
            site.write_text(text.replace("{p90: 20ms, p99: 40ms}", f"{{p99: {longer}}}"))
            run("plan", site)

    @unittest.skipUnless(ROOT_USER, "enforcing needs root")
    def test_enforced_and_measured_it_is_kept_or_nobody_can_tell(self):
        with tempfile.TemporaryDirectory() as folder:
            command = [str(GIUSTO), "run", "sites/percentiles.yaml", "--trial", "--rounds", "1", "--for", "3s", "--out", folder]
            for _ in range(3):  # missed where somebody else had the machine
                done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=180, stdin=subprocess.DEVNULL)
                if done.returncode != 5:
                    break
            self.assertIn(done.returncode, (0, 5, 6), done.stderr)
            self.assertEqual(len(list(Path(folder, "jobs").glob("search-profile.csv"))), 1)


def policies(pid):
    """Scheduling policies of a process's threads, in words."""
    names = {0: "other", 1: "fifo", 5: "idle", 6: "deadline"}
    found = []
    for thread in Path(f"/proc/{pid}/task").glob("*"):
        fields = (thread / "stat").read_text().rsplit(")", 1)[1].split()
        found.append(names.get(int(fields[38]), fields[38]))
    return found


if __name__ == "__main__":
    os.chdir(ROOT)
    result = unittest.main(verbosity=2, exit=False).result
    failed = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - failed} passed, {failed} failed")
    sys.exit(1 if failed or not result.testsRun else 0)
