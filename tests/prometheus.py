"""What packaging/ has for Prometheus and Grafana works: rules and alerts by promtool's own tests, and a real Prometheus that
scrapes a giusto, of which each query of the dashboard is asked. Needs root and two cores; Debian's package is unpacked below
target/, no service is installed.
"""
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from running import METRICS, ROOT, Running

STORE = Path(os.environ.get("XDG_CACHE_HOME", ROOT / "target")) / "giusto-prometheus"
RULES = ROOT / "packaging/prometheus"
PING = b"*1\r\n$4\r\nPING\r\n"


def fetch():
    """Why it cannot be had; `None`: it is there."""
    if (STORE / "usr/bin/promtool").exists():
        return None
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        words = ["apt-get", "download", "-o", "APT::Sandbox::User=root", "prometheus"]
        got = subprocess.run(words, cwd=folder, capture_output=True, text=True)
        if got.returncode:
            return f"Debian's package prometheus cannot be fetched: {got.stderr.strip()}"
        subprocess.run(["dpkg", "-x", *Path(folder).glob("*.deb"), f"{folder}/root"], check=True)
        STORE.parent.mkdir(exist_ok=True)
        shutil.move(f"{folder}/root", STORE)
    return None


def promtool(*words, **more):
    return subprocess.run([STORE / "usr/bin/promtool", *words], capture_output=True, text=True, **more)


class Prometheus(Running):
    def test_rules_are_sound_and_alerts_come_when_they_should(self):
        for words in (["check", "rules", "giusto.rules.yml"], ["test", "rules", "giusto.test.yml"]):
            done = promtool(*words, cwd=RULES)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        # Each alert is expected somewhere.
        alerts = set(re.findall(r"alert: (\w+)", (RULES / "giusto.rules.yml").read_text()))
        tested = set(re.findall(r'alertname(?:: |=")(\w+)', (RULES / "giusto.test.yml").read_text()))
        self.assertEqual(alerts, tested)

    def test_a_real_one_scrapes_giusto_and_answers_what_the_dashboard_asks(self):
        self.start("  cache: {start: [redis-server, --port, '7475', --save, ''], promise: {p90: 60ms}, "
                   "arrivals: {poisson: 20/s}, execution: 1ms}\n")
        client = self.enterContext(socket.socket())
        self.until(lambda: client.connect_ex(("127.0.0.1", 7475)) == 0, "listening")
        config = self.folder / "prometheus.yml"
        config.write_text(f"global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [{RULES}/giusto.rules.yml]\n"
                          f"scrape_configs: [{{job_name: giusto, static_configs: [{{targets: ['{METRICS}']}}]}}]\n")
        words = [STORE / "usr/bin/prometheus", f"--config.file={config}", f"--storage.tsdb.path={self.folder}/data",
                 "--web.listen-address=127.0.0.1:9474", "--web.console.templates=/nonexistent",
                 "--web.console.libraries=/nonexistent"]
        with open(self.folder / "prometheus.log", "w") as log:
            prometheus = subprocess.Popen(words, stdout=log, stderr=log, cwd=self.folder)
        self.addCleanup(lambda: (prometheus.terminate(), prometheus.wait()))

        def asked(query):
            client.sendall(PING)
            client.recv(100)
            try:
                at = "http://127.0.0.1:9474/api/v1/query?query=" + urllib.parse.quote(query)
                return json.load(urllib.request.urlopen(at, timeout=5))["data"]["result"]
            except urllib.error.HTTPError as error:
                if error.code != 503: # it is not ready yet
                    self.fail(f"{query}: {error.read().decode()}")
                return []
            except OSError:
                return []
        self.until(lambda: asked("giusto:burn:5m"), f"recorded: {(self.folder / 'prometheus.log').read_text()}", 60)
        self.assertEqual(float(asked("giusto:burn:5m")[0]["value"][1]), 0)
        self.assertEqual(float(asked("giusto_promise_within_seconds")[0]["value"][1]), 0.06)
        self.assertEqual(asked('ALERTS{alertname=~"GiustoPromise.*"}'), []) # others are the machine's to decide
        # All that it scrapes is as Prometheus wants it.
        text = urllib.request.urlopen(f"http://{METRICS}/metrics").read().decode()
        told = set(re.findall(r"^# TYPE (\S+) ", text, re.M))
        self.assertIn("giusto_response_seconds", told)
        dashboard = json.loads((ROOT / "packaging/grafana/giusto.json").read_text())
        documented = set(re.findall(r"`(giusto_[a-z_]+)[`{]", (ROOT / "formats/control.md").read_text()))
        places = [tuple(panel["gridPos"][key] for key in "xywh") for panel in dashboard["panels"]]
        self.assertTrue(all(x + w <= 24 for x, _, w, _ in places) and len(set(places)) == len(places))
        for panel in dashboard["panels"]:
            for target in panel["targets"]:
                query = target["expr"].replace("$service", ".*").replace("$instance", ".*").replace("$__rate_interval", "1m")
                found = asked(query)
                for name in re.findall(r"giusto_[a-z_]+", query):
                    self.assertIn(re.sub("_(bucket|count|sum)$", "", name), documented, panel["title"])
                # Only this site has no interfaces, and nothing drifts or is missed.
                self.assertTrue(found or "interface" in query, f"{panel['title']}: {query}")


if __name__ == "__main__":
    if os.geteuid() != 0 or os.cpu_count() < 2:
        print("SKIPPED: needs root and two cores")
        sys.exit(77)
    if why := fetch():
        print(f"SKIPPED: {why}")
        sys.exit(77)
    unittest.main(verbosity=2)
