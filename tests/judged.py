"""End to end: promises judged after the fact: recordings, studies, percentiles."""
import json
import os
import random
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from typed import GIUSTO, ROOT, ROOT_USER, run, trial


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
            self.assertIn("at least 1000 are needed", out)
            self.assertIn("</span> cannot tell</strong>", page)

    def test_percentiles_of_a_plan_are_judged_beside_its_prediction(self):
        with tempfile.TemporaryDirectory() as folder:
            plan, records, page = (Path(folder) / name for name in ("plan.json", "jobs.csv", "report.html"))
            run("plan", "sites/percentiles.yaml", "--out", plan)
            run("simulate", "sites/percentiles.yaml", "--for", "3000s", "--jobs", records)
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

    def test_nothing_that_is_read_is_written_over(self):
        with tempfile.TemporaryDirectory() as folder:
            site, page = Path(folder) / "site.yaml", Path(folder) / "page.html"
            before = (ROOT / "sites/walk.yaml").read_bytes()
            site.write_bytes(before)
            drawn = [["simulate", site, "--for", "20ms", flag, site] for flag in ("--html", "--gantt", "--jobs", "--trace")]
            measured = [["measure", "response", site, "cache", "--out", site],
                        ["measure", "execution", site, "cache", "--samples", site]]
            for words in drawn + measured:
                _, err = run(*words, code=2)
                self.assertIn("is read by the same command", err)
                self.assertEqual(site.read_bytes(), before, words)
            for words in (["simulate", site, "--for", "20ms", "--html", page, "--gantt", page],
                          ["measure", "supply", "--for", "20ms", "--out", page, "--windows", page]):
                _, err = run(*words, code=2)
                self.assertIn("is written by the same command", err)
                self.assertFalse(page.exists())


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
            played = json.loads(run("simulate", "sites/percentiles.yaml", "--for", "3000s", "--jobs", jobs, "--json")[0])
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
    def test_enforced_and_measured_it_is_kept_or_undecided(self):
        with tempfile.TemporaryDirectory() as folder:
            site, text = Path(folder) / "site.yaml", (ROOT / "sites/percentiles.yaml").read_text()
            measured = text.replace("poisson: 200/s", "poisson: {fit: 14%}").replace("{mean: 700us, wcet: 1.5ms}", "measured")
            self.assertIn("arrivals: {poisson: {fit: 14%}}", measured)
            self.assertIn("execution: measured", measured)
            site.write_text(measured)
            for _ in range(3):  # missed if other load had the machine
                done = trial("run", site, "--trial", "--at-most", "10s", "--out", folder)
                if done.returncode != 5:
                    break
            self.assertIn(done.returncode, (0, 5, 6), done.stdout + done.stderr)
            self.assertEqual(json.loads(Path(folder, "profiles", "search.json").read_text())["service"], "search")
