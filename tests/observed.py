"""What is observed of services that are no servers of requests: jobs of a control loop, what a server gets in each period,
histograms and spans that services report themselves; and what is not. Needs root and two cores.
"""
import http.server
import json
import os
import signal
import sys
import threading
import time
import unittest
import urllib.error
import urllib.request

from running import BUSY, GIUSTO, Running

LOOP = GIUSTO.with_name("giusto-loop")
SCRAPED, SPANS, ECHO = 7481, 7482, 7483
RANDOM = "promise: {p80: 60ms}, arrivals: {poisson: 20/s}, execution: 1ms"
SITE = (
    f"  loop: {{start: [{LOOP}, fifo, 'pid=1ms/10ms'], promise: every-deadline, tasks: [{{wcet: 1ms, period: 10ms}}]}}\n",
    f"  busy: {{start: {BUSY}, promise: {{supply: 1ms/10ms}}}}\n",
    f"  scraped: {{start: [sleep, '1000'], {RANDOM}, observe: {{reported: {{scrape: 'http://127.0.0.1:{SCRAPED}/metrics', "
    "histogram: work_seconds}}}\n",
    f"  traced: {{start: [sleep, '1000'], {RANDOM}, observe: {{reported: {{otlp: '127.0.0.1:{SPANS}'}}}}}}\n",
    f"  served: {{start: [/usr/bin/python3, -m, http.server, '{ECHO}', --bind, 127.0.0.1], promise: leftovers}}\n",
    "  quiet: {start: [sleep, '1000'], promise: leftovers}\n",
)


class Exporter(http.server.BaseHTTPRequestHandler):
    """Shows a histogram of 50 of the promised 60 ms and what is beyond; broken: none."""
    within = beyond = 0
    broken = False

    def do_GET(self):
        self.send_response(500 if self.broken else 200)
        self.end_headers()
        everything = self.within + self.beyond
        self.wfile.write(f'# TYPE work_seconds histogram\nwork_seconds_bucket{{le="0.05"}} {self.within}\n'
                         f'work_seconds_bucket{{le="1"}} {everything}\nwork_seconds_bucket{{le="+Inf"}} {everything}\n'
                         f'work_seconds_sum {everything * 0.04}\nwork_seconds_count {everything}\n'.encode())

    def log_message(self, *_):
        pass


def post(body, kind="application/json"):
    request = urllib.request.Request(f"http://127.0.0.1:{SPANS}/v1/traces", body, {"Content-Type": kind})
    return urllib.request.urlopen(request, timeout=5).read()


def spans(*lengths_ns):
    told = [{"name": "work", "kind": 5, "startTimeUnixNano": "1700000000000000000",
             "endTimeUnixNano": str(1700000000000000000 + ns)}
            for ns in lengths_ns]
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": told}]}]}).encode()


class Observed(Running):
    def of(self, name):
        return next(one for one in self.status()["services"] if one["name"] == name)

    def responses(self, name):
        return self.of(name).get("responses") or {"answered": 0, "promised": []}

    def minute(self, name):
        """How the promise stands over the last minute."""
        promised = self.responses(name)["promised"]
        return promised[0]["past"][0]["verdict"] if promised else None

    def noted(self, text):
        return any(text in note for note in self.status()["notes"])

    def test_each_service_is_observed_as_it_can_be_and_says_so(self):
        exporter = http.server.ThreadingHTTPServer(("127.0.0.1", SCRAPED), Exporter)
        threading.Thread(target=exporter.serve_forever, daemon=True).start()
        self.addCleanup(lambda: (exporter.shutdown(), exporter.server_close()))
        self.start(*SITE)
        self.until(lambda: self.of("served")["observed"]["by"] == "requests", "seen to listen")
        by = {one["name"]: one["observed"]["by"] for one in self.status()["services"]}
        self.assertEqual(by, {"loop": "wake-ups", "busy": "supply", "scraped": "reported", "traced": "reported",
                              "served": "requests", "quiet": "none"})
        self.assertIn(f"127.0.0.1:{ECHO}", self.of("served")["observed"]["why"])
        shown = self.ask("status").stdout
        self.assertRegex(shown, "quiet +none +nothing was promised of its response times")
        silent = "it has reported nothing yet"
        self.until(lambda: self.noted(f"scraped: {silent}") and self.noted(f"traced: {silent}"), "told")
        self.wakes()
        self.supplied()
        self.scraped()
        self.sent()
        self.assertEqual(self.status()["state"], "enforcing", self.log())
        print(self.ask("status").stdout)

    def wakes(self):
        self.until(lambda: self.responses("loop")["answered"] > 200, "jobs are seen")
        def late():
            return self.responses("loop")["promised"][0]["late"]
        one, before = self.responses("loop")["past"][0], late()
        self.assertLess(before, 0.1 * one["requests"], "but for what disturbs the machine, all are in time")
        rate = one["requests"] / one["seconds"]
        self.assertTrue(40 < rate < 130, f"{rate} jobs a second of a period of 10 ms, in seconds of which the first is not whole")
        self.assertTrue(900_000 < one["p50_ns"] < 3_000_000, one)
        loop = self.processes("loop")
        self.signal(loop, signal.SIGSTOP)
        time.sleep(0.2)
        self.signal(loop, signal.SIGCONT)
        # One was due every 10 ms, and in the time that it took to catch up.
        self.until(lambda: late() >= before + 18 and self.minute("loop") == "missed", "the stall is felt")
        told = self.responses("loop")
        longest = told["past"][0]["max_ns"] / 1e6
        print(f"a loop of 10 ms, stopped for 200 ms: {late() - before} late, the longest {longest:.1f} ms")
        self.assertGreater(told["past"][0]["max_ns"], 195e6)
        self.assertEqual(told["promised"][0]["percentile"], 100)

    def processes(self, name):
        return [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and f"giusto.{name}.service" in self.cgroups(pid)]

    @staticmethod
    def cgroups(pid):
        try:
            with open(f"/proc/{pid}/cgroup") as file:
                return file.read()
        except OSError:
            return ""

    def signal(self, pids, number):
        self.assertTrue(pids)
        for pid in pids:
            os.kill(pid, number)

    def supplied(self):
        supply = self.of("busy")["supply"]
        self.assertGreater(supply["periods"], 100)
        self.assertGreater(supply["full"], 0.8 * supply["periods"], f"it takes all it can get: {supply}")
        loop = self.of("loop")["supply"]
        self.assertLess(loop["full"], 0.5 * loop["periods"] + 30, f"it wants less than its budget: {loop}")

    def scraped(self):
        for more, late, verdict in ((200, 0, "kept"), (0, 200, "missed")):
            Exporter.within += more
            Exporter.beyond += late
            self.until(lambda: self.minute("scraped") == verdict, verdict)
        told = self.responses("scraped")
        self.assertEqual((told["answered"], told["promised"][0]["late"]), (400, 200))
        self.assertFalse(self.noted("scraped:"))
        Exporter.broken = True
        refused = f"scraped: cannot scrape http://127.0.0.1:{SCRAPED}/metrics: it answers 'HTTP/1.0 500"
        self.until(lambda: self.noted(refused), "told")
        Exporter.broken, Exporter.within, Exporter.beyond = False, 50, 0
        self.until(lambda: self.responses("scraped")["answered"] == 450, "it began anew and counts on")

    def sent(self):
        self.assertEqual(post(spans(*[4_000_000] * 300)), b"{}")
        self.until(lambda: self.minute("traced") == "kept", "kept")
        post(spans(*[80_000_000] * 300))
        self.until(lambda: self.minute("traced") == "missed", "missed")
        past = self.responses("traced")["past"][0]
        self.assertTrue(4_000_000 < past["p50_ns"] < 4_040_000 and 80_000_000 < past["p99_ns"] < 80_700_000, past)
        for body, kind, code, told in ((b"\x0a\x00", "application/grpc", 415, "http/protobuf"),
                                       (b"[", "application/json", 400, "no message of OTLP")):
            with self.assertRaises(urllib.error.HTTPError) as refused:
                post(body, kind)
            refused.exception.close()
            self.assertEqual(refused.exception.code, code)
            self.until(lambda: self.noted(told), told)
        self.assertEqual(self.metric('giusto_response_seconds_count{service="traced"}'), 600)
        self.assertEqual(post(spans(4_000_000)), b"{}")
        self.until(lambda: not self.noted("traced:") and self.responses("traced")["answered"] == 601, "well again")


if __name__ == "__main__":
    if os.geteuid() != 0 or os.cpu_count() < 2:
        print("SKIPPED: needs root and two cores")
        sys.exit(77)
    if not LOOP.exists():
        sys.exit(f"{LOOP} is missing: cargo build --release -p giusto-studies --bins")
    unittest.main(verbosity=2)
