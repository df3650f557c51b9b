"""End to end: the command a user types, on this machine, with good and bad input.

Law by law: exit codes and texts, goldens of the papers, examples in every verb's help, a trial around a real Redis that
leaves the host as it was, also after kill -9. Only the standard library and the release build are used.
"""
import hashlib
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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# Found here by unittest.
from analyses import Analyze, Ensemble
from judged import Import, Percentiles, Study, Verify
from this_host import ThisHost
from typed import GIUSTO, ROOT, ROOT_USER, example, run


class SiteFiles(unittest.TestCase):
    def test_every_malformed_site_is_refused_with_its_place(self):
        """One text of each transcript of site/tests/malformed (malformed.rs says how they are written), as a file."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "bad.yaml"
            for transcript in sorted((ROOT / "site/tests/malformed").glob("*.txt")):
                cases = re.findall(r"^=== (\S+)\n((?:.*\n)*?)>>> refused\n\S+?(:\d+:\d+: )", transcript.read_text(), re.MULTILINE)
                self.assertTrue(cases, transcript)
                for name, text, place in cases[:8]:
                    file.write_text(text)
                    for verb in ("check", "plan"):
                        out, err = run(verb, file, code=2)
                        self.assertEqual(out, "", name)
                        self.assertIn(f"bad.yaml{place}", err, name)

    def test_a_site_that_does_not_fit_has_a_witness(self):
        out, err = run("plan", "sites/too-much.yaml", "--json", code=1)
        refusal = json.loads(out)
        place = "sites/too-much.yaml:{line}:{column}: ".format(**refusal["place"])
        self.assertIn(f"giusto: {place}{refusal['text']}", err)
        lines = (ROOT / "sites/too-much.yaml").read_text().splitlines()
        for change in refusal["nearest"]:
            key = change["key"][-1]
            # Where the key is not written, the place is of what it belongs to.
            if any(key in line for line in lines):
                self.assertIn(key, lines[change["place"]["line"] - 1])

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
            # A period of ten ticks is the kernel's; the manager's is its own choice. Both serve 30 % and 5 points of margin.
            out, _ = run("explain", "cache", "--site", "sites/walk.yaml", "--backend", "deadline")
            self.assertNotIn("under manager", out)
            out, _ = run("explain", "cache", "--site", "sites/walk.yaml")
            if "backend          deadline" in out:
                self.assertRegex(out, r"(?m)^  under manager +3.5 ms \(35 %\) +every 10 ms$")
            self.assertRegex(out, r"(?m)^  under quota +- +backend quota cannot serve it: it is a cap, never a guarantee$")
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


class VeryMany(unittest.TestCase):
    def test_reasons_of_a_plan_of_very_many_services_are_told_by_planning_again(self):
        with tempfile.TemporaryDirectory() as folder:
            site, plan = Path(folder) / "site.yaml", Path(folder) / "plan.json"
            hosts = "".join(f"  h{nth}: {{cores: 0-7}}\n" for nth in range(60))
            services = "".join(f"  s{nth}: {{start: [sleep], promise: {{supply: 1ms/{40 + nth % 3}ms}}}}\n" for nth in range(5000))
            rest = "  rest: {start: [sleep], promise: leftovers}\n"
            text = f"giusto: 1\nhosts:\n{hosts}services:\n{services}{rest}"
            site.write_text(text)
            run("plan", site, "--out", plan)
            told = json.loads(plan.read_text())
            self.assertFalse([one for one in told["services"] + told["leftovers"] if one["reasons"]])
            run("check", site, "--certificate", plan)
            for name in ("s4999", "rest"):
                out, err = run("explain", name, "--plan", plan)
                self.assertIn("is planned again", err)
                self.assertIn("where it is now", out)
            out, _ = run("explain", "s4999", "--plan", plan, "--json")
            own = json.loads(out)
            self.assertEqual(own | {"reasons": []}, next(one for one in told["services"] if one["name"] == "s4999"))
            site.write_text(text + "# another\n")
            _, err = run("explain", "s7", "--plan", plan, code=2)
            self.assertIn("is not what it was made from any more; 'giusto explain s7 --site SITE' plans and tells them", err)
            other = text.replace("1ms/41ms", "1ms/40ms")
            site.write_text(other)
            digest = hashlib.sha256(other.encode()).hexdigest()
            plan.write_text(re.sub(r'"sha256": "[0-9a-f]+"', f'"sha256": "{digest}"', plan.read_text()))
            _, err = run("explain", "s1", "--plan", plan, code=2)
            self.assertIn("what is planned of it here and now is not the same", err)


class Help(unittest.TestCase):
    def test_every_verb_shows_an_example(self):
        for verb in self.verbs():
            out, _ = run(*verb, "--help")
            self.assertRegex(out, r"Example.*:\n\s+giusto ", verb)

    @staticmethod
    def verbs():
        return [["demo"], ["doctor"], ["init"], ["check"], ["plan"], ["place"], ["diff"], ["explain"], ["simulate"], ["run"],
                ["status"], ["record"], ["reload"], ["mode"], ["agent"], ["restore"],
                ["measure", "execution"], ["measure", "response"], ["measure", "supply"], ["measure", "latency"],
                ["measure", "packets"], ["measure", "import"], ["verify"], ["study", "list"], ["study", "run"],
                ["export", "systemd"], ["export", "docker"], ["export", "podman"], ["export", "libvirt"], ["export", "kubevirt"],
                ["export", "kubernetes"], ["export", "xen"],
                ["analyze", "share"],
                ["analyze", "plane"], ["analyze", "interface"], ["analyze", "admission"], ["analyze", "criticality"], ["analyze", "response"],
                ["analyze", "slo"], ["analyze", "map"], ["analyze", "bucket"], ["analyze", "packets"], ["analyze", "trace"]]

    def test_every_example_works(self):
        """In the order in which a newcomer would type them: measuring needs the service."""
        examples = {" ".join(verb): example(*verb) for verb in self.verbs()}
        service = subprocess.Popen(shlex.split("redis-server --port 7001 --bind 127.0.0.1 --save ''"), stdout=subprocess.DEVNULL)
        try:
            works = ("demo", "check", "plan", "diff", "explain", "simulate", "analyze share", "analyze plane",
                     "analyze interface", "analyze admission", "analyze criticality", "analyze response", "analyze slo",
                     "analyze map", "analyze bucket", "analyze packets", "export systemd", "export docker", "export podman",
                     "export libvirt", "export kubevirt", "export kubernetes")
            measures = ("measure execution", "measure response"), ("measure supply", "measure packets", "measure latency")
            while subprocess.run(["redis-cli", "-p", "7001", "ping"], capture_output=True).returncode:
                self.assertIsNone(service.poll(), "redis-server has ended")
                time.sleep(0.05)
            def lane(verbs):
                typed = {verb: [str(GIUSTO), *shlex.split(examples[verb])] for verb in verbs}
                return {verb: subprocess.run(words, cwd=ROOT, capture_output=True, text=True) for verb, words in typed.items()}
            with ThreadPoolExecutor() as pool:  # nothing is said of what is measured
                said = {verb: done for verbs in pool.map(lane, (works, *measures)) for verb, done in verbs.items()}
            for verb, done in said.items():
                # 6: this machine stalled the load generator, or was taken away
                codes = (0, 6) if verb in ("measure response", "measure latency") else (0,)
                self.assertIn(done.returncode, codes, f"{verb}: {done.stderr}")
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
            if not report["dropped_gaps"]:  # else what has elapsed begins with the oldest gap that was kept
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

    def test_the_output_has_no_reader(self):
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
        self.assertEqual((done.returncode, done.stdout), (2, ""), "the error cannot be printed, and the exit code stands")

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
        for arguments in (["simulate", "sites/walk.yaml", "--for"], ["run", "sites/walk.yaml", "--trial", "--at-most"],
                          ["measure", "response", "sites/walk.yaml", "cache", "--for"]):
            _, err = run(*arguments, "0s", code=2)
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


if __name__ == "__main__":
    os.chdir(ROOT)
    result = unittest.main(verbosity=2, exit=False).result
    failed = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - failed} passed, {failed} failed")
    sys.exit(1 if failed or not result.testsRun else 0)
