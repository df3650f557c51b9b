"""The page of a running giusto (`run --web`), of a plan (`plan --html`) and of a simulation (`simulate --html`), in a browser.

A Redis under load is watched: the promise, the distribution, the cores, a recorded timeline and a plan for other loads are
asked of the page as a reader would, by mouse and by keyboard, from 320 to 1920 px, light and dark, and on paper. axe-core
finds nothing to say, and nothing is asked of another place. Needs root and two cores; pictures stay in target/web."""
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path

import report
from causes import Client
from running import GIUSTO, ROOT, Running

WEB = "127.0.0.1:9474"
PORT = 7479
OUT = ROOT / "target" / "web"
FINDINGS = "axe.run().then(r => r.violations.map(v => `${v.id}: ${v.nodes.map(n => n.html).join(' ')}`))"
LANES = "document.getElementById('lanes-words').textContent"
SITE = f"""  cache:
    start: redis-server --port {PORT} --bind 127.0.0.1 --save '' --appendonly no
    arrivals: {{poisson: 200/s}}
    execution: {{mean: 0.5ms, wcet: 2ms}}
    promise: {{p90: 30ms, p99: 60ms}}
"""
BATCH = "  batch: {start: [sh, -c, 'while :; do :; done'], promise: leftovers}\n"


def axe():
    """The source of axe-core, of the version in tests/axe."""
    folder = ROOT / "target" / "axe"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(ROOT / "tests" / "axe" / name, folder)
    if not (folder / "node_modules").exists():
        subprocess.run(["npm", "ci", "--silent", "--ignore-scripts"], cwd=folder, check=True)
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text()


class Web(Running):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(OUT, ignore_errors=True)
        OUT.mkdir(parents=True)
        report.OUT, cls.axe = OUT, axe()
        cls.browser = report.Chromium()
        cls.addClassCleanup(cls.browser.close)

    def begin(self, backend):
        words = [str(GIUSTO), "run", str(self.site), "--out", str(self.out), "--backend", backend, "--web", WEB]
        with open(self.folder / "log", "w") as log:
            self.giusto = subprocess.Popen(words, cwd=ROOT, stdout=log, stderr=log)

    def get(self, path, **headers):
        request = urllib.request.Request(f"http://{WEB}{path}", headers=headers)
        return urllib.request.urlopen(request, timeout=10).read().decode()

    def shows(self, expression, what, seconds=20):
        """Waits until the page shows something, and returns it."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if value := self.browser.value(expression):
                return value
            time.sleep(0.1)
        self.fail(f"the page does not show {what} within {seconds} s: {self.browser.value('document.body.innerText')}")

    def answers(self, what, paths):
        """Each is answered in sentences; prints how long that takes."""
        took = []
        for path in paths:
            begin = time.monotonic()
            answer = json.loads(self.get(path))
            took.append(time.monotonic() - begin)
            self.assertTrue(answer["says"], answer)
        print(f"{what}: {1000 * sorted(took)[len(took) // 2]:.0f} ms (median of {len(took)})")

    def press(self, key):
        code = {"Enter": 13, "Tab": 9, "ArrowRight": 39}.get(key, 0)
        text = {"text": "\r"} if key == "Enter" else {"text": key} if len(key) == 1 else {}
        self.browser.ask("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, windowsVirtualKeyCode=code, **text)
        self.browser.ask("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=code)

    def check_look(self, page, name, ready):
        """At each width, light and dark: nothing too wide, faint, small, or without words; axe-core has nothing to say."""
        for wide in (320, 768, 1280, 1920):
            for scheme in ("light", "dark") if wide in (320, 1280) else ("light",):
                where = f"{name}, {wide} px, {scheme}"
                self.browser.open(page, wide, scheme)
                self.shows(ready, where)
                look = self.browser.value(report.LOOK)
                self.assertLessEqual(look["wide"], look["window"], where)
                for fault in ("faint", "small", "crossing", "mute", "cut"):
                    self.assertEqual(look[fault], [], f"{where}: {fault}")
                self.browser.value(self.axe)
                wrong = self.browser.value(FINDINGS)
                self.assertEqual(wrong, [], where)
                picture = self.browser.picture(wide, look["tall"])
                (OUT / f"{name}-{wide}-{scheme}.png").write_bytes(picture)
        self.assertTrue(self.browser.paper().startswith(b"%PDF"))

    def load(self):
        for _ in range(100):
            try:
                client = socket.create_connection(("127.0.0.1", PORT), timeout=1)
                break
            except OSError:
                time.sleep(0.1)
        client.settimeout(None)
        self.addCleanup(client.close)
        self.client = Client(client, 1000)
        self.client.rate = 150

    def test_a_host_live(self):
        self.start(SITE, BATCH)
        self.load()
        # Whether they are kept is the machine's; that each is judged, and that the sentence on top says the same, is the page's.
        judged = "document.querySelectorAll('#promises tbody td:is(.kept, .missed, .cannot-tell)')"
        ready = f"{judged}.length > 1 && !document.getElementById('distribution').hidden"
        self.browser.open(f"http://{WEB}/", 1280, "light")
        self.shows(ready, "promises that are judged, and their distribution", 40)
        both = "document.getElementById('verdict').textContent + '|' + " f"[...{judged}].map(cell => cell.className)"
        sentence, verdicts = self.browser.value(both).split("|")
        kept, missed = verdicts.split(",").count("kept"), verdicts.split(",").count("missed")
        says = f"{missed} of 2 promises" if missed else f"{'All' if kept == 2 else f'{kept} of'} 2 promises are kept now"
        self.assertIn(says, sentence, verdicts)

        # The timeline, by the keyboard.
        self.browser.value("document.getElementById('record').focus()")
        self.press("Enter")
        words = self.shows(f"(w => w.includes('cache ran') && w.includes('batch ran') && w)({LANES})", "a timeline")
        told = self.status()
        told = {one["name"]: one for one in told["services"]}
        for name in ("cache", "batch"):
            ran = float(words.split(f"{name} ran ")[1].split(" %")[0]) / 100
            self.assertAlmostEqual(ran, told[name]["supplied_recent"], delta=0.1, msg=words)
        before = self.browser.value("document.getElementById('span').textContent")
        self.browser.value("document.getElementById('lanes').focus()")
        for key in ("+", "+", "ArrowRight"):
            self.press(key)
        self.assertNotEqual(self.browser.value("document.getElementById('span').textContent"), before)
        tall = self.browser.value("document.documentElement.scrollHeight")
        (OUT / "timeline.png").write_bytes(self.browser.picture(1280, tall))
        self.browser.value("document.getElementById('record').click()")
        ended = time.monotonic() + 10
        threads = Path(f"/proc/{self.giusto.pid}/task")
        recording = lambda: any(one.read_text() == "giusto-timeline\n" for one in threads.glob("*/comm"))
        while recording() and time.monotonic() < ended:
            time.sleep(0.2)
        self.assertFalse(recording(), "recording ends when no page looks")

        # Other loads.
        says = "document.getElementById('what-says').textContent"
        move = ("(l => { l.value = %d; l.dispatchEvent(new Event('input', {bubbles: true})); })"
                "(document.getElementById('%s'))")
        self.browser.value(move % (150, "what-load"))
        half_more = "document.getElementById('what-load-says').textContent === '1.50 times'"
        self.shows(f"{says}.includes('cache would have') && {half_more}", "another plan")
        self.browser.value(move % (400, "what-load"))
        self.shows(f"{says}.includes('It does not fit')", "what does not fit")
        self.answers("a plan for another load", [f"/what-if?service=cache&load={times}" for times in (0.5, 0.7, 1.1, 1.3, 1.5)])
        for wrong in ("service=nix&load=2", "service=cache&load=abc", "service=cache&load=-1"):
            self.assertIn("Expected 'service', one of: cache", json.loads(self.get(f"/what-if?{wrong}"))["says"][0], wrong)

        # Another budget.
        self.browser.value(move % (100, "budget-part"))
        said = "document.getElementById('budget-says').textContent"
        self.shows(f"{said}.includes('100 % of a core') && {said}.includes('and 60.0 ms was promised')", "another budget")
        now = json.loads(self.get("/budget"))["services"][0]
        budgets = [part * now["budget_ns"] / 1e6 for part in (0.25, 0.5, 0.75, 1.25, 1.5)]
        self.answers("another budget", [f"/budget?service=cache&ms={ms}" for ms in budgets])

        # What happens is told.
        self.write(SITE, BATCH, "  new: {start: [sleep, '1000'], promise: {supply: 5ms/100ms}}\n")
        self.assertEqual(self.ask("reload").returncode, 0)
        self.shows("document.getElementById('events').textContent.includes('new is in the plan now')", "the reload")
        # Each request goes to this host, and the page has said nothing.
        events = [(event.get("method"), event) for event in self.browser.events]
        asked = {event["params"]["request"]["url"] for what, event in events if what == "Network.requestWillBeSent"}
        self.assertEqual({url for url in asked if not url.startswith((f"http://{WEB}/", "data:"))}, set())
        said = [event for what, event in events if what in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown")]
        self.assertEqual(said, [])

        self.check_look(f"http://{WEB}/", "live", ready)
        with self.assertRaises(urllib.error.HTTPError) as refused:
            self.get("/", Host="evil.example")
        self.assertEqual(refused.exception.code, 421)
        refused.exception.close()
        # A giusto that is gone is told.
        self.client.ends = True
        self.stop()
        self.shows("document.getElementById('connection').textContent.includes('No connection')", "that giusto is gone")

    def test_a_plan_that_nothing_enforces(self):
        for site, words in (("percentiles", "p99 ≤ 40.0 ms"), ("two-hosts", "of edge-2")):
            page = OUT / f"{site}.html"
            done = self.ask("plan", f"sites/{site}.yaml", "--html", str(page))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.check_look(page, site, "document.getElementById('host').textContent.startsWith('Plan for')")
            self.assertIn(words, self.browser.value("document.body.innerText"))

    def test_a_simulation(self):
        kept = "All 10 promises that can be judged are kept"
        for site, seconds, says, lane in (("engine-control", 2, kept, "engine: t1 ran"),
                                          ("percentiles", 1000, "1 of 2 promises is kept", "search ran"),
                                          ("percentiles", 2, "0 of 2 promises are kept", "search ran"),
                                          ("path", 60, "The only promise that can be judged is kept", "camera: message ran")):
            page = OUT / f"simulated-{site}.html"
            done = self.ask("simulate", f"sites/{site}.yaml", "--for", f"{seconds}s", "--html", str(page))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.check_look(page, f"simulated-{site}-{seconds}", "document.getElementById('lanes-words').textContent !== ''")
            self.assertIn(says, self.browser.value("document.getElementById('verdict').textContent"))
            self.assertIn(lane, self.browser.value(LANES))
        whole = self.browser.value("document.getElementById('span').textContent")
        self.browser.value("document.getElementById('zoom-in').click()")
        self.assertNotEqual(whole, self.browser.value("document.getElementById('span').textContent"), "it zooms")

    def test_addresses_that_are_refused(self):
        self.write(SITE)
        for words, says in ((["0.0.0.0:9474"], "--web-token FILE"),
                            (["0.0.0.0:9474", "--web-token", "/nonexistent"], "openssl rand"),
                            (["9474"], "expected an address as 127.0.0.1:9500")):
            done = self.ask("run", str(self.site), "--web", *words)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(says, done.stderr)
            self.assertNotIn("on core", done.stdout, "it is refused before anything is planned")


if __name__ == "__main__":
    if os.geteuid() != 0 or os.cpu_count() < 2:
        print("SKIPPED: needs root and two cores")
        sys.exit(77)
    unittest.main(verbosity=2)
