"""`giusto record`: a real Redis and a control loop beside a busy service, recorded live and around late jobs, and the traces read
by a reader of the trace event format that knows nothing of giusto's writer; where there is one, by Perfetto's own trace
processor too. Needs root and two cores.

    TRACE_PROCESSOR=/path/to/trace_processor_shell tests/recorded.py
"""
import csv
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest
from collections import defaultdict
from pathlib import Path

import jsonschema

from causes import Client, request
from running import BUSY, CORE, GIUSTO, ROOT, Running, redis_process, used

LOOP = GIUSTO.with_name("giusto-loop")
PORT = 7485
REDIS = f"[redis-server, --port, '{PORT}', --bind, 127.0.0.1, --save, '']"
CACHE = f"  cache: {{start: {REDIS}, promise: {{p99: 60ms}}, arrivals: {{poisson: 50/s}}, execution: 1.5ms}}\n"
LOOPED = f"  loop: {{start: [{LOOP}, fifo, 'pid=1ms/10ms'], promise: every-deadline, tasks: [{{wcet: 1ms, period: 10ms}}]}}\n"
OTHER = f"  busy: {{start: {BUSY}, promise: {{supply: 1ms/10ms}}}}\n"
SCHEMA = json.loads((ROOT / "formats/record.schema.json").read_text())


class Trace:
    """A trace in the trace event format, as its specification reads: times in us, rows by process and thread."""

    def __init__(self, file):
        self.file, whole = file, json.loads(Path(file).read_text())
        self.metadata, self.events = whole["metadata"], whole["traceEvents"]
        self.processes, self.rows = {}, {}
        self.slices, self.counters, self.instants, self.flows = (defaultdict(list) for _ in range(4))
        for event in self.events:
            row = event["pid"], event["tid"]
            match event["ph"]:
                case "M" if event["name"] == "process_name":
                    self.processes[event["pid"]] = event["args"]["name"]
                case "M" if event["name"] == "thread_name":
                    self.rows[row] = event["args"]["name"]
                case "M":
                    assert event["name"].endswith("_sort_index"), event
                case "X":
                    self.slices[row].append((event["ts"], event["ts"] + event["dur"], event["name"], event.get("args", {})))
                case "i":
                    self.instants[row].append((event["ts"], event["name"]))
                case "C":
                    for unit, value in event["args"].items():
                        self.counters[event["pid"], event["name"], unit].append((event["ts"], value))
                case "s" | "t" | "f":
                    self.flows[event["id"]].append((event["ph"], row, event["ts"]))
                case other:
                    raise AssertionError(f"phase {other}: {event}")
        for one in (*self.slices.values(), *self.counters.values()):
            one.sort(key=lambda item: item[0])

    def row(self, process, name):
        """The slices of a row by its names."""
        return [one for row, known in sorted(self.rows.items()) if known == name and self.processes[row[0]] == process
                for one in self.slices[row]]

    def at(self, row, time):
        """The slice of a row at a time; one that begins then goes before one that ends."""
        return next((one for one in reversed(self.slices[row]) if one[0] <= time <= one[1]), None)

    def jobs(self, process, name):
        """All rows of its requests or jobs."""
        return [one for row, known in self.rows.items() if self.processes[row[0]] == process and known.startswith(name)
                for one in self.slices[row]]


class Recorded(Running):
    def record(self, *words, codes=(0,)):
        done = self.ask("record", *map(str, words), "--json")
        self.assertIn(done.returncode, codes, done.stderr)
        told = [json.loads(line) for line in done.stdout.splitlines()]
        for one in told:
            jsonschema.Draft202012Validator(SCHEMA).validate(one)
        return told if done.returncode == 0 else done

    def served(self, *services):
        """Giusto with the cache, the loop and these services, and a client, once requests and jobs are observed."""
        self.start(CACHE, LOOPED, *services)
        sock = self.enterContext(socket.socket())
        self.until(lambda: sock.connect_ex(("127.0.0.1", PORT)) == 0, "listening")
        self.redis = redis_process(sock)
        client = Client(sock, 4_000)
        self.addCleanup(lambda: setattr(client, "ends", True))
        self.until(lambda: min(self.answered("cache"), self.answered("loop")) > 20, "observed")

    def answered(self, name):
        own = next(one for one in self.status()["services"] if one["name"] == name)
        return (own.get("responses") or {"answered": 0})["answered"]

    def test_a_recording_shows_cores_requests_and_budgets_as_they_were(self):
        self.served(OTHER)
        file, before, answered = self.folder / "trace.json", used(self.redis), self.answered("cache")
        begun = time.monotonic()
        told, = self.record("--for", "2s", "--out", file)
        took, cpu = time.monotonic() - begun, used(self.redis) - before
        time.sleep(1.2)
        answered = self.answered("cache") - answered
        self.assertEqual(told["until_ns"] - told["from_ns"], 2_000_000_000)
        self.assertTrue(told["from_ns"] >= begun * 1e9 and told["until_ns"] <= (begun + took) * 1e9, told)
        self.assertEqual((told["lost"], told["file"]), (0, str(file)))
        trace = Trace(file)
        self.cores(trace, cpu)
        self.requests(trace, told, answered)
        self.budgets(trace)
        self.perfetto(trace)

    def cores(self, trace, cpu):
        cores = [name for row, name in trace.rows.items() if trace.processes[row[0]] == "cores of test"]
        self.assertEqual(cores, [f"core {CORE}"])
        core = trace.row("cores of test", f"core {CORE}")
        for one, after in zip(core, core[1:]):
            self.assertLessEqual(one[1], after[0] + 0.002, "one thread at a time")
        spent = defaultdict(float)
        for begin, end, name, args in core:
            spent[name] += end - begin
            if args["thread"] == self.redis:
                self.assertEqual((name, args["name"], args["process"]), ("cache", "redis-server", self.redis))
        self.assertTrue({"cache", "loop", "busy"} <= set(spent), spent)
        self.assertTrue(any(name.startswith("giusto-core") for name in spent), spent)
        self.assertAlmostEqual(spent["busy"] / 2e6, 0.1, delta=0.1)
        # What the kernel says that it used, a little before and after included; the trace contains interrupts and theft, too.
        self.assertTrue(0.6 * cpu * 1e6 < spent["cache"] < 1.15 * cpu * 1e6 + 2000, f"{spent['cache']} of {cpu * 1e6} us")
        redis = trace.row("cache", f"redis-server {self.redis}")
        ran = sum(end - begin for begin, end, name, _ in redis if name == "runs")
        self.assertAlmostEqual(ran, sum(e - b for b, e, name, args in core if args["thread"] == self.redis), delta=1)
        self.assertTrue(any(name == "waits" for _, _, name, _ in redis))

    def requests(self, trace, told, answered):
        requests, jobs = trace.jobs("cache", "requests"), trace.jobs("loop", "jobs")
        self.assertTrue(0.4 * answered < len(requests) <= answered, f"{len(requests)} of {answered} about then")
        self.assertTrue(100 < len(jobs) < 230, f"{len(jobs)} of a period of 10 ms in 2 s")
        self.assertEqual(len(requests) + len(jobs), told["jobs"])
        rows = [row for row in trace.rows if trace.processes[row[0]] in ("cache", "loop") and row[1] < 1_000]
        for row in rows:
            for one, after in zip(trace.slices[row], trace.slices[row][1:]):
                self.assertLessEqual(one[1], after[0] + 0.002, "requests of one row do not overlap")
        served = 0
        for flow in trace.flows.values():
            self.assertEqual([phase for phase, _, _ in flow], ["s", *["t"] * (len(flow) - 2), "f"])
            (_, row, at), *places = flow
            job = trace.at(row, at)
            self.assertIn(trace.processes[row[0]], ("cache", "loop"))
            self.assertAlmostEqual(job[0], at, delta=0.002)
            ran = [one for one in trace.row("cores of test", f"core {CORE}") if one[3]["thread"] == job[3]["thread"]]
            ran = [one for one in ran if one[1] > job[0] + 0.002 and one[0] < job[1] - 0.002]
            self.assertLessEqual(abs(len(places) - len(ran)), 1, f"everywhere where it was served: {flow}, {ran}")
            for _, row, at in places:
                core = trace.at(row, at)
                self.assertEqual((trace.processes[row[0]], core[3]["thread"]), ("cores of test", job[3]["thread"]))
                self.assertTrue(job[0] - 0.002 <= at <= job[1] + 0.002)
            served += 1
        self.assertGreater(served, 0.95 * told["jobs"], "each has been served somewhere")
        for begin, end, _, args in requests:
            self.assertEqual((args["thread"], args["promised_us"]), (self.redis, 60_000))
            self.assertLessEqual(end - begin, args["took_us"] + 0.002)

    def budgets(self, trace):
        own = {name: values for (process, name, unit), values in trace.counters.items()
               if trace.processes[process] == "busy" and unit == "us"}
        (name, values), = own.items()
        self.assertEqual(name, "budget left")
        given = sum(after - value > 500 for (_, value), (_, after) in zip(values, values[1:]))
        self.assertTrue(100 <= given <= 205, f"{given} budgets of 1 ms every 10 ms in 2 s: {values[:20]}")
        self.assertTrue(all(value <= 1_600 for _, value in values), "no more than a budget")
        self.assertNotIn("giusto-budget-of-busy", trace.metadata)

    def perfetto(self, trace):
        """The same of Perfetto's own trace processor, where there is one."""
        shell = os.environ.get("TRACE_PROCESSOR") or shutil.which("trace_processor_shell")
        if not shell:
            print("\nSKIPPED: to open it by Perfetto's trace processor; neither TRACE_PROCESSOR nor PATH has one, and "
                  "PyPI's package perfetto fetches its binary from a place of its own")
            return

        def ask(query):
            file = self.folder / "query.sql"
            file.write_text(query)
            out = subprocess.run([shell, "-q", str(file), str(trace.file)], capture_output=True, text=True)
            self.assertEqual(out.returncode, 0, out.stderr)
            return list(csv.reader(io.StringIO(out.stdout)))[1:]
        wrong = ask("select name, value from stats where value > 0 and severity in ('error', 'data_loss');")
        self.assertEqual(wrong, [])
        (slices,), = ask("select count(*) from slice;")
        expected = sum(map(len, trace.slices.values())) + sum(map(len, trace.instants.values()))
        self.assertEqual(int(slices), expected)
        names = {name for name, in ask("select name from process where pid > 0;")}
        self.assertEqual(names, set(trace.processes.values()))
        known = "'request', 'late request', 'job', 'late job', 'cache', 'loop'"
        (arrows, bad), = ask(f"select count(*), sum(i.name not in ({known})) from flow f join slice i on f.slice_out = i.id;")
        self.assertEqual((int(arrows), int(bad)), (sum(len(flow) - 1 for flow in trace.flows.values()), 0))
        (counts,), = ask("select count(*) from counter;")
        self.assertEqual(int(counts), sum(map(len, trace.counters.values())))
        late, = ask("select count(*), sum(s.dur) from slice s join thread_track t on s.track_id = t.id join thread using (utid) "
                    f"where thread.name = 'core {CORE}' and s.name = 'cache';")
        spent = sum(end - begin for begin, end, name, _ in trace.row("cores of test", f"core {CORE}") if name == "cache")
        self.assertAlmostEqual(int(late[1]) / 1e3, spent, delta=len(trace.events) * 0.001)
        print(f"\nPerfetto's trace processor: {slices} slices, {arrows} arrows, {counts} values of counters, no error")

    def test_what_was_around_late_jobs_is_kept(self):
        self.served()
        folder = self.folder / "late"
        words = [str(GIUSTO), "record", "--late", "cache", "--around", "300ms", "--count", "2", "--out", str(folder), "--json"]
        waits = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(waits.kill)
        self.until(lambda: "asks:" in self.log(), "recording")
        time.sleep(1.5)
        busy = self.record("--for", "10ms", codes=(4,))
        self.assertIn("another client records", busy.stderr)
        for _ in range(2):
            os.kill(self.redis, signal.SIGSTOP)
            time.sleep(0.2)
            os.kill(self.redis, signal.SIGCONT)
            time.sleep(2)
        out, wrong = waits.communicate(timeout=30)
        self.assertEqual(waits.returncode, 0, wrong)
        told = [json.loads(line) for line in out.splitlines()]
        self.assertEqual(sorted(str(file) for file in folder.iterdir()), sorted(one["file"] for one in told))
        self.assertEqual(len(told), 2, "and it has ended")
        for one in told:
            self.assertRegex(Path(one["file"]).name, r"^cache-\d{8}T\d{6}\.\d{3}Z\.json$")
            late = one["late"]
            self.assertEqual(late["service"], "cache")
            self.assertGreater(late["to_ns"] - late["from_ns"], 60_000_000)
            self.assertEqual((one["from_ns"], one["until_ns"]), (late["from_ns"] - 300_000_000, late["to_ns"] + 300_000_000))
            trace = Trace(one["file"])
            self.assertEqual(trace.metadata["giusto-from-ns"], one["from_ns"])
            shown = [(begin, args) for begin, _, name, args in trace.jobs("cache", "requests") if name == "late request"]
            self.assertEqual(len(shown), one["late_jobs"])
            self.assertTrue(any(abs(begin * 1e3 + one["from_ns"] - late["from_ns"]) < 10 for begin, _ in shown), (late, shown))
            self.assertGreater(max(args["took_us"] for _, args in shown), 100_000)
            # It had no core while it was stopped.
            runs = [(b, e) for b, e, name, _ in trace.row("cache", f"redis-server {self.redis}") if name == "runs"]
            gaps = [after[0] - one[1] for one, after in zip(runs, runs[1:])]
            self.assertGreater(max(gaps), 150_000)
            self.perfetto(trace)
        self.refused()

    def refused(self):
        for words, code, says in (
            (["--late", "nothing"], 2, "expected one of cache, loop"),
            (["--for", "2min"], 2, "between 1 ms and 60 s"),
            (["--for", "1s", "--out", str(self.folder / "site.yaml" / "x")], 4, "cannot write"),
        ):
            done = self.record(*words, codes=(code,))
            self.assertIn(says, done.stderr)
        who = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", str(GIUSTO), "record", "--for", "1s"]
        done = subprocess.run(who, capture_output=True, text=True, cwd="/")
        self.assertEqual((done.returncode, "the right to use" in done.stderr), (3, True), done.stderr)

    def test_a_client_that_leaves_ends_the_recording_and_no_promise_is_no_late_job(self):
        self.start(OTHER)
        done = self.record("--late", codes=(2,))
        self.assertIn("no service here has jobs", done.stderr)
        self.assertIn("'busy' is none that", self.record("--late", "busy", codes=(2,)).stderr)
        waits = subprocess.Popen([str(GIUSTO), "record", "--for", "60s", "--out", str(self.folder / "x")], stderr=subprocess.PIPE)
        self.until(lambda: self.log().count("asks:") == 3, "recording")
        def is_busy():
            told = self.record("--for", "10ms", "--out", self.folder / "y", codes=(0, 4))
            return not isinstance(told, list) and "another client records" in told.stderr
        self.until(is_busy, "recording")
        waits.kill()
        waits.wait()
        waits.stderr.close()
        self.until(lambda: not is_busy(), "free again")


if __name__ == "__main__":
    if os.geteuid() != 0 or os.cpu_count() < 2:
        print("SKIPPED: needs root and two cores")
        sys.exit(77)
    if not LOOP.exists():
        sys.exit(f"{LOOP} is missing: cargo build --release -p giusto-studies --bins")
    unittest.main(verbosity=2)
