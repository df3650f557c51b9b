"""From spans to a kept promise: a chain of real processes (HTTP, a queue in Redis, a worker) that trace themselves as the
collector of OpenTelemetry writes it. Their spans become a site, the site a plan, the plan is enforced, and spans of the time
since judge it: the commands of docs/paths.md. Needs root, two cores and redis-server.

  tests/spans.py [SECONDS]    of messages, before and after; 20 by default
"""
import json
import os
import http.server
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest
import urllib.request

from formats import valid
from running import GIUSTO, ROOT, Running

SECONDS = 10
RATE = 40
SERVICES = '''
import http.server, json, os, secrets, socket, sys, time
role, redis, last, spans = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
out = open(spans, "a", buffering=1)

def work(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass

def told(trace, span, parent, name, kind, start):
    one = {"traceId": trace, "spanId": span, "parentSpanId": parent, "name": name, "kind": kind,
           "startTimeUnixNano": str(start), "endTimeUnixNano": str(time.time_ns())}
    attributes = [{"key": "service.name", "value": {"stringValue": role}},
                  {"key": "process.pid", "value": {"intValue": str(os.getpid())}}]
    out.write(json.dumps({"resourceSpans": [{"resource": {"attributes": attributes}, "scopeSpans": [{"spans": [one]}]}]}) + "\\n")

class Redis:
    def __init__(self):
        self.socket = socket.create_connection(("127.0.0.1", redis))
        self.lines = self.socket.makefile("rb")

    def ask(self, *words):
        self.socket.sendall(b"*%d\\r\\n" % len(words) + b"".join(b"$%d\\r\\n%s\\r\\n" % (len(w), w) for w in words))
        return self.answer()

    def answer(self):
        line = self.lines.readline()
        if line[:1] == b"*":
            return [self.answer() for _ in range(int(line[1:]))]
        return self.lines.read(int(line[1:]) + 2)[:-2] if line[:1] == b"$" else line[1:-2]

class Web(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        start = time.time_ns()
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if role == "web":
            trace, span, sent = secrets.token_hex(16), secrets.token_hex(8), secrets.token_hex(8)
            work(0.0005)
            at = time.time_ns()
            queue.ask(b"LPUSH", b"orders", ("%s %s" % (trace, sent)).encode())
            told(trace, sent, span, "orders send", 4, at)
            told(trace, span, "", "order", 2, start)
        else:
            trace, parent = body.decode().split()
            work(0.0005)
            told(trace, secrets.token_hex(8), parent, "bill", 2, start)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *words):
        pass

if role == "worker":
    import http.client
    queue, web = Redis(), http.client.HTTPConnection("127.0.0.1", last)
    while True:
        _, message = queue.ask(b"BRPOP", b"orders", b"0")
        start = time.time_ns()
        trace, parent = message.decode().split()
        span, asks = secrets.token_hex(8), secrets.token_hex(8)
        work(0.002)
        at = time.time_ns()
        web.request("POST", "/", body="%s %s" % (trace, asks))
        web.getresponse().read()
        told(trace, asks, span, "POST", 3, at)
        told(trace, span, parent, "orders process", "SPAN_KIND_CONSUMER", start)
else:
    queue = Redis() if role == "web" else None
    http.server.HTTPServer(("127.0.0.1", int(sys.argv[5])), Web).serve_forever()
'''


def free():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Spans(Running):
    def begun(self, *words, on=None):
        bind = (lambda: os.sched_setaffinity(0, on)) if on else None
        one = subprocess.Popen(words, stdout=subprocess.DEVNULL, preexec_fn=bind)
        self.addCleanup(lambda: (one.kill(), one.wait()))
        return one

    def order(self, seconds):
        """Orders at random, each by a thread, so that none waits for another."""
        chance = random.Random(33)
        end = time.monotonic() + seconds
        due, threads = time.monotonic(), []
        while due < end:
            time.sleep(max(0, due - time.monotonic()))
            one = threading.Thread(target=self.one)
            one.start()
            threads.append(one)
            due += chance.expovariate(RATE)
        for one in threads:
            one.join(30)
        time.sleep(1)

    def one(self):
        with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{self.web}/", data=b"x"), timeout=30) as answer:
            answer.read()

    def taken(self, name):
        """The spans so far, in one file; they begin anew."""
        file = self.folder / name
        text = ""
        for own in self.traces:
            text += own.read_text()
            os.truncate(own, 0)
        file.write_text(text)
        return file

    def told(self):
        """How the path stands."""
        path, = self.status()["paths"]
        self.assertEqual(path["name"], "order")
        return path

    def send(self, collector):
        """All spans of the files, as a collector passes them on."""
        for file in self.traces:
            for line in file.read_text().splitlines():
                head = {"Content-Type": "application/json"}
                url = f"http://127.0.0.1:{collector}/v1/traces"
                with urllib.request.urlopen(urllib.request.Request(url, data=line.encode(), headers=head), timeout=10) as answer:
                    self.assertEqual(json.loads(answer.read()), {})

    def test_spans_become_a_site_whose_promise_is_kept(self):
        redis, last, self.web = free(), free(), free()
        code = self.folder / "services.py"
        code.write_text(SERVICES)
        self.begun("redis-server", "--port", str(redis), "--save", "", "--bind", "127.0.0.1")
        time.sleep(1)
        self.stages = {}
        self.traces = [self.folder / f"{role}.spans" for role in ("bill", "web", "worker")]
        for role, port, file in zip(("bill", "web", "worker"), (last, self.web, 0), self.traces):
            self.stages[role] = self.begun(sys.executable, str(code), role, str(redis), str(last), str(file), str(port))
            time.sleep(0.5)
        self.order(SECONDS)
        before = self.taken("before.json")
        site = self.folder / "shop.yaml"
        self.ask("measure", "import", str(before), "--as-site", str(site), "--promise", "p99=150ms")
        found = json.loads(self.ask("measure", "import", str(before), "--json").stdout)["chains"][0]
        self.assertEqual([one["service"] for one in found["services"]], ["web", "worker", "bill"])
        self.assertEqual(found["path"], "order")
        self.assertAlmostEqual(found["rate_per_s"] / RATE, 1, delta=0.25)
        self.assertTrue(0.7 < found["gaps_variation"] < 1.3, found)
        worker = found["services"][1]["own_ns"]
        self.assertTrue(2_000_000 <= worker[0] < 6_000_000, worker)
        # Giusto hears the same spans as they come, and tells how the path stands.
        collector = free()
        promise = "promise: {p99: 150ms}"
        observed = f"{promise}\n    observe: {{otlp: 127.0.0.1:{collector}}}"
        site.write_text(site.read_text().replace(promise, observed))
        plan = self.folder / "plan.json"
        told = self.ask("plan", str(site), "--out", str(plan))
        self.assertEqual(told.returncode, 0, told.stdout + told.stderr + site.read_text())
        cores = {one["core"] for one in json.loads(plan.read_text())["services"]}
        for _ in range(2 * len(cores)):
            self.begun("sh", "-c", "while :; do :; done", on=cores)
        self.site = plan
        passed_on = Collector()
        self.addCleanup(passed_on.end)
        self.flags = ["--otlp", f"http://127.0.0.1:{passed_on.server_port}", "--log", "json"]
        self.begin()
        self.until(lambda: self.status()["state"] in ("enforcing", "degraded"), "enforcing")
        time.sleep(1)
        self.taken("meanwhile.json")
        self.order(SECONDS)
        self.assertEqual(self.told()["responses"]["answered"], 0)
        self.send(collector)
        after, jobs = self.taken("after.json"), self.folder / "jobs.csv"
        self.ask("measure", "import", str(after), "--out", str(jobs))
        done = self.ask("verify", str(jobs), "--plan", str(plan), "--service", "order", "--json")
        kept = json.loads(done.stdout)
        measured = kept["points"][0]["measured"]["value_ns"]
        print(f"from {len(before.read_text().splitlines())} spans to a promise: p99 {measured / 1e6:.1f} ms of 150 ms in "
              f"{kept['jobs']} messages")
        self.assertIn(done.returncode, (0, 6), done.stdout + done.stderr)
        self.assertLessEqual(measured, 150_000_000)
        self.until(lambda: self.told()["responses"]["answered"] == kept["jobs"], "all messages told")
        told = self.told()
        self.assertEqual((told["through"], told["problem"]), (["web", "worker", "bill"], None))
        point, = told["responses"]["promised"]
        self.assertEqual((point["percentile"], point["within_ns"]), (99, 150_000_000))
        now = point["past"][0]["now_ns"]
        self.assertLess(abs(now / measured - 1), 0.02, (now, measured))
        labels = '{service="order",percentile="99"}'
        self.assertEqual(self.metric("giusto_promise_within_seconds" + labels), 0.15)
        self.assertEqual(self.metric('giusto_response_seconds_count{service="order"}'), kept["jobs"])
        valid("status", self.status())
        table = self.ask("status").stdout
        self.assertIn("of web, worker, bill, ten seconds after they began", table)
        # A stage that stands still is what late messages are told by.
        worker = self.stages["worker"].pid
        stop = threading.Timer(2, lambda: (os.kill(worker, signal.SIGSTOP), time.sleep(1.5), os.kill(worker, signal.SIGCONT)))
        stop.start()
        self.order(6)
        stop.join()
        self.send(collector)
        self.until(lambda: self.told()["responses"]["promised"][0]["late"] > 10, "late messages told")
        late = self.told()["responses"]["promised"][0]["late_by"]
        print(f"the worker stood still for 1.5 s: late by {late}")
        self.assertEqual(max(late, key=late.get), "at worker")
        self.assertIn("late: most of all at worker", self.ask("status").stdout)
        # Each is told beyond this host, in its own trace.
        self.until(lambda: len(passed_on.spans) >= sum(late.values()), "late messages passed on")
        traces = {span["traceId"] for file in self.traces for span in spans_of(file)}
        for span in passed_on.spans:
            told = {one["key"]: one["value"] for one in span["attributes"]}
            self.assertEqual((span["name"], told["giusto.path"]["stringValue"]), ("late message", "order"))
            self.assertIn(span["traceId"], traces)
            self.assertGreater(int(span["endTimeUnixNano"]) - int(span["startTimeUnixNano"]), 150_000_000)
        told = [one for span in passed_on.spans for one in span["attributes"]]
        at = [one["value"]["stringValue"] for one in told if one["key"] == "giusto.cause"]
        self.assertEqual(max(at, key=at.count), "at worker")
        said = next(json.loads(line) for line in self.log().splitlines() if '"path order: ' in line)
        print(f"passed on: {len(at)} late messages; {said['message']}")
        self.assertEqual((said["path"], said["within_ns"]), ("order", 150_000_000))
        self.assertIn(said["trace"], traces)


def spans_of(file):
    for line in file.read_text().splitlines():
        yield from (span for one in json.loads(line)["resourceSpans"] for scope in one["scopeSpans"] for span in scope["spans"])


class Collector(http.server.ThreadingHTTPServer):
    """Keeps the spans that are sent to it."""

    def __init__(self):
        self.spans = []
        super().__init__(("127.0.0.1", 0), Taker)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def end(self):
        self.shutdown()
        self.server_close()


class Taker(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        for one in message.get("resourceSpans", []):
            self.server.spans += [span for scope in one["scopeSpans"] for span in scope["spans"]]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    if len(sys.argv) > 1:
        SECONDS = int(sys.argv.pop(1))
    if os.geteuid() != 0 or os.cpu_count() < 2 or not shutil.which("redis-server"):
        print("SKIPPED: needs root, two cores and redis-server")
        sys.exit(77)
    unittest.main(verbosity=2)
