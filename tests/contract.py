"""The plan is the contract: a plan that was reviewed is enforced as it is, shown by 'giusto diff' before, and refused where it
does not fit this machine any more. Needs root and two cores."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from formats import valid

ROOT = Path(__file__).resolve().parent.parent
GIUSTO = ROOT / "target" / "release" / "giusto"
SPIN = "[sh, -c, 'while :; do :; done']"


def site(**services):
    lines = [f"  {name}: {{start: {SPIN}, promise: {promise}}}\n" for name, promise in services.items()]
    return "giusto: 1\nhosts: {edge: {cores: 1}}\nservices:\n" + "".join(lines)


FIRST = site(one="{supply: 3ms/10ms}", two="{supply: 2ms/10ms}", rest="leftovers")
SECOND = site(one="{supply: 1ms/10ms}", two="{supply: 2ms/10ms}", three="{supply: 1ms/10ms}", rest="leftovers")


class Contract(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.environment = {**os.environ, "GIUSTO_STATE": str(self.folder / "state")}
        self.site, self.plan = self.folder / "site.yaml", self.folder / "plan.json"
        self.site.write_text(FIRST)
        self.giusto("plan", self.site, "--out", self.plan)
        self.daemon = None
        self.addCleanup(self.end)

    def giusto(self, *words, code=0):
        done = subprocess.run([GIUSTO, *map(str, words)], env=self.environment, capture_output=True, text=True, timeout=60,
                              stdin=subprocess.DEVNULL, cwd=self.folder)
        self.assertEqual(done.returncode, code, f"{words}\n{done.stdout}{done.stderr}{self.said()}")
        return done.stdout + done.stderr

    def said(self):
        log = self.folder / "log"
        return log.read_text() if log.exists() else ""

    def run_it(self, what):
        with (self.folder / "log").open("w") as log:
            self.daemon = subprocess.Popen([GIUSTO, "run", what, "--out", self.folder / "out"], env=self.environment, stdout=log,
                                           stderr=log, stdin=subprocess.DEVNULL, cwd=self.folder, start_new_session=True,
                                           # Giusto leaves SIGHUP ignored where it is, as under nohup.
                                           preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL))
        self.until(lambda: self.status().get("state") == "enforcing", "enforcing")

    def status(self):
        done = subprocess.run([GIUSTO, "status", "--json"], env=self.environment, capture_output=True, text=True)
        return json.loads(done.stdout) if done.returncode == 0 else {}

    def servers(self):
        return {one["name"]: (one["budget_ns"], one["period_ns"]) for one in self.status()["services"] if one["budget_ns"]}

    def until(self, holds, what):
        end = time.monotonic() + 30
        while not holds():
            if self.daemon.poll() is not None or time.monotonic() > end:
                self.fail(f"not within 30 s: {what}\n{self.said()}")
            time.sleep(0.05)

    def end(self):
        if self.daemon and self.daemon.poll() is None:
            self.daemon.send_signal(signal.SIGTERM)
            self.assertEqual(self.daemon.wait(30), 0, self.said())

    def diff(self, plan, code=0):
        found = json.loads(self.giusto("diff", plan, "--json", code=code))
        valid("diff", found)
        return found

    @staticmethod
    def planned(plan):
        document = json.loads(Path(plan).read_text())
        return {one["name"]: (one["server"]["budget_ns"], one["server"]["period_ns"]) for one in document["services"]}

    def forged(self, change):
        """The plan, changed by hand."""
        document = json.loads(self.plan.read_text())
        change(document)
        forged = self.folder / "forged.json"
        forged.write_text(json.dumps(document))
        return forged

    def test_what_was_reviewed_is_what_is_enforced_also_after_its_site_has_changed(self):
        found = self.diff(self.plan)
        self.assertEqual((found["host"], found["site"], found["refused"], found["running"]), ("edge", "as-planned", [], None))
        steps = sorted((step["do"], step["service"]) for step in found["steps"])
        self.assertEqual(steps, [("add", "one"), ("add", "rest"), ("add", "two")])
        self.assertEqual(self.giusto("run", self.plan, "--dry-run"), self.giusto("run", self.site, "--dry-run"))
        self.site.write_text(SECOND)
        self.run_it(self.plan)
        self.assertEqual(self.servers(), self.planned(self.plan))
        self.assertFalse((self.folder / "out/plan.json").exists(), "the plan that was reviewed is the only one")
        found = self.diff(self.plan)
        self.assertEqual((found["steps"], found["site"], found["running"]["pid"]), ([], "changed", self.daemon.pid))
        self.assertIn("it has changed since", self.giusto("diff", self.plan))

    def test_a_reload_does_what_diff_said_and_nothing_else(self):
        self.run_it(self.plan)
        self.site.write_text(SECOND)
        second = self.folder / "second.json"
        self.giusto("plan", self.site, "--out", second)
        told = self.diff(second)
        self.assertEqual(sorted(told["unchanged"]), ["rest", "two"])
        shown = self.giusto("diff", second)
        self.assertRegex(shown, r"one +core 1, \S+, \S+ ms every 10 ms +core 1, \S+, \S+ ms every 10 ms\n")
        done = json.loads(self.giusto("reload", second, "--json"))
        self.assertEqual(done["steps"], told["steps"])
        self.assertEqual(self.servers(), self.planned(second))
        # Back by SIGHUP, which reads the plan in force again: another one is in its place.
        second.write_text(self.plan.read_text())
        self.daemon.send_signal(signal.SIGHUP)
        self.until(lambda: self.servers() == self.planned(self.plan), "the first plan again")
        # From a plan back to a site, and to the plan.
        self.giusto("reload", self.site)
        self.assertIn("three", self.servers())
        self.giusto("reload", self.plan)
        self.assertEqual(self.servers(), self.planned(self.plan))

    def test_a_plan_that_does_not_fit_here_is_refused_with_what_differs(self):
        def tick(plan):
            plan["basis"]["machines"][0]["tick_ns"] += 1_000_000
        def release(plan):
            plan["basis"]["giusto"] = "0.0.1"
        def core(plan):  # as it is planned for a machine that has this core, too
            other, larger = self.folder / "larger.yaml", self.folder / "larger.json"
            other.write_text(FIRST.replace("cores: 1", "cores: [1, 999]"))
            self.giusto("plan", other, "--out", larger)
            plan.update(json.loads(larger.read_text()))
        def silent(plan):
            del plan["basis"]
        def budget(plan):
            plan["services"][0]["server"]["budget_ns"] -= 1_000_000
        expected = [(tick, "the kernel's tick was"), (release, "made by giusto 0.0.1"),
                    (core, "core 999 of the plan is not online"),
                    (silent, "does not say what it was made from"), (budget, "a promise does not hold")]
        for change, words in expected:
            said = self.giusto("run", self.forged(change), code=1)
            self.assertIn(words, said)
            self.assertIn("plan anew with 'giusto plan ", said)
            self.assertIn(words, self.giusto("diff", self.forged(change), code=1))
        self.run_it(self.plan)
        before = self.servers()
        for change, words in expected:
            self.assertIn(words, self.giusto("reload", self.forged(change), code=1))
        self.assertEqual((self.servers(), self.status()["state"]), (before, "enforcing"))

    def test_what_belongs_to_planning_is_refused_with_a_plan(self):
        for option in (["--trial"], ["--backend", "manager"]):
            self.assertIn(f"{option[0]} needs a site file", self.giusto("run", self.plan, *option, code=2))
        broken = self.folder / "broken.json"
        broken.write_text(self.plan.read_text()[:-20])
        self.assertIn("broken.json", self.giusto("run", broken, code=2))

    def test_services_are_planned_anew_only_from_the_site_that_was_reviewed(self):
        self.site.write_text(site(one="as-if-alone, tasks: [{wcet: 1ms, period: 20ms}], adapt: {up-to: 50%}"))
        self.giusto("plan", self.site, "--out", self.plan)
        self.run_it(self.plan)
        self.assertNotIn("not planned anew while it runs", self.said())
        self.end()
        self.site.write_text(self.site.read_text() + "# changed\n")
        self.run_it(self.plan)
        self.assertIn("one: not planned anew while it runs", self.said())
        self.assertIn("it has changed since", self.said())

    def test_one_host_of_a_plan_of_several(self):
        self.site.write_text(FIRST.replace("{edge: {cores: 1}}", "{edge: {cores: 1}, far: {cores: 0-1}}"))
        self.giusto("plan", self.site, "--host", "edge", "--out", self.plan)
        self.assertIn("say with --host NAME", self.giusto("diff", self.plan, code=2))
        document = json.loads(self.plan.read_text())
        here = {one["name"] for one in document["services"] + document["leftovers"] if one["on"] == "edge"}
        found = json.loads(self.giusto("diff", self.plan, "--host", "edge", "--json"))
        self.assertEqual({step["service"] for step in found["steps"]}, here)
        self.assertIn("has no host 'moon'; it has edge, far", self.giusto("diff", self.plan, "--host", "moon", code=2))


if __name__ == "__main__":
    if os.geteuid() != 0 or os.cpu_count() < 2:
        print("SKIPPED: needs root and two cores")
        sys.exit(77)
    unittest.main(verbosity=2)
