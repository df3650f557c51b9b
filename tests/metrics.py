"""Every metric that formats/control.md documents moves when what it tells of does, and back; and there is no other. Needs root and two cores; the
metrics of interfaces need network namespaces.
"""
import http.server
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest
import urllib.request
from pathlib import Path

import packets
from running import BUSY, CORE, METRICS, ROOT, Running, redis_process, service

COLLECTOR = 4398
MOVES = {}  # who shows that a metric moves


def moves(*names):
    """The test shows that these metrics move. It has to have looked at each ([`Moving.saw`])."""
    def decorate(test):
        MOVES.update({name: test.__name__ for name in names})
        def run(self):
            self.seen = set()
            test(self)
            self.assertEqual(set(names) - self.seen, set(), "not looked at")
        run.__name__, run.__doc__ = test.__name__, test.__doc__
        return run
    return decorate


class Refuses(http.server.BaseHTTPRequestHandler):
    """A collector that wants none of it."""
    status = 400

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(self.status)
        self.end_headers()

    def log_message(self, *_):
        pass


class Moving(Running):
    def value(self, name, **labels):
        """Of a metric, without what a counter or a unit adds to its name; of the first series with these labels."""
        self.seen.add(name)
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        for key, value in self.metrics().items():
            series, _, rest = key.partition("{")
            if re.fullmatch(name + "(_seconds)?(_total|_count)?", series) and all(one in rest for one in wanted):
                return value
        return None

    def becomes(self, holds, name, seconds=30, **labels):
        def now():
            value = self.value(name, **labels)
            return value is not None and holds(value)
        self.until(now, f"{name} as it should be; it is {self.value(name, **labels)}", seconds)

    def rises(self, name, least=0.0, seconds=30, **labels):
        """From what it is now, by more than that."""
        before = self.value(name, **labels) or 0
        return lambda: self.becomes(lambda value: value > before + least, name, seconds, **labels)

    @moves("giusto_service_supply", "giusto_service_full", "giusto_service_throttled", "giusto_service_replenishments",
           "giusto_service_left", "giusto_service_overrun_max", "giusto_service_budget", "giusto_service_period",
           "giusto_service_misses", "giusto_service_threads", "giusto_cpu_recent",
           "giusto_core_manager_lateness_max", "giusto_core_manager_wakeups_per_second", "giusto_core_manager_cpu")
    def test_a_service_that_works_and_rests_and_its_manager(self):
        quiet = "[sh, -c, 'while :; do if [ -e %s ]; then :; else sleep 0.02; fi; done']" % (self.folder / "busy")
        self.start(service("moves", 3, 10, quiet))
        late = "giusto_core_manager_lateness_max"
        self.becomes(lambda value: value < 0.2, late)
        self.becomes(lambda value: value > 0.001, "giusto_service_left")
        asleep = self.value("giusto_core_manager_wakeups_per_second")
        grow = [self.rises(f"giusto_service_{short}", least)
                for short, least in (("supply", 0.3), ("full", 50), ("throttled", 50), ("replenishments", 50))]
        grow.append(self.rises("giusto_core_manager_cpu"))
        (self.folder / "busy").touch()
        for grown in grow:
            grown()
        self.becomes(lambda value: value <= 0, "giusto_service_left")
        self.becomes(lambda value: value > 0, "giusto_service_overrun_max")
        self.becomes(lambda value: value > 0, "giusto_cpu_recent")
        # It needs two decisions a period to be enforced, and none while it rests: the shell's sleeps aside.
        self.becomes(lambda value: value > asleep / 2, "giusto_core_manager_wakeups_per_second")
        for budget, period in ((2, 20), (3, 10)):
            self.write(service("moves", budget, period, quiet))
            self.assertEqual(self.ask("reload").returncode, 0, self.log())
            self.becomes(lambda value: value == budget / 1000, "giusto_service_budget")
            self.becomes(lambda value: value == period / 1000, "giusto_service_period")
        # A second without its manager: late, told, and forgotten a second after it is over.
        missed = self.rises("giusto_service_misses", 30)
        self.giusto.send_signal(signal.SIGSTOP)
        time.sleep(1)
        self.giusto.send_signal(signal.SIGCONT)
        self.becomes(lambda value: value > 0.7, late, 5)
        self.becomes(lambda value: value < 0.2, late)
        missed()
        (self.folder / "busy").unlink()
        self.becomes(lambda value: value > 0.001, "giusto_service_left")
        # With a child, and without.
        children = "[sh, -c, 'while :; do if [ -e %s ]; then sleep 1; else read x </dev/null; fi; done']" % (self.folder / "busy")
        self.write(service("moves", 3, 10, quiet), service("other", 1, 10, children))
        self.assertEqual(self.ask("reload").returncode, 0, self.log())
        self.becomes(lambda value: value == 1, "giusto_service_threads", service="other")
        (self.folder / "busy").touch()
        self.becomes(lambda value: value == 2, "giusto_service_threads", service="other")
        (self.folder / "busy").unlink()
        self.becomes(lambda value: value == 1, "giusto_service_threads", service="other")

    @moves("giusto_core_guarded", "giusto_build_info", "giusto_start_time")
    def test_a_manager_that_is_away(self):
        begun = time.time()
        self.start(service("hog", 3, 10))
        self.becomes(lambda value: value == 1, "giusto_build_info")
        self.becomes(lambda value: begun - 1 < value < time.time() + 1, "giusto_start_time")
        guarded = self.rises("giusto_core_guarded")
        self.giusto.send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        self.giusto.send_signal(signal.SIGCONT)
        guarded()

    @moves("giusto_service_late_stops", "giusto_warnings", "giusto_state")
    def test_one_that_was_adopted_and_leaves_is_not_stopped_in_time(self):
        hog = subprocess.Popen(["sh", "-c", "while :; do :; done"])
        self.addCleanup(lambda: (hog.kill(), hog.wait()))
        self.start(f"  hog: {{adopt: {{pid: {hog.pid}}}, promise: {{supply: 3ms/10ms}}}}\n")
        self.becomes(lambda value: value == 0, "giusto_warnings")
        self.becomes(lambda value: value == 1, "giusto_state", state="enforcing")
        freezer = next(at for at in map(Path, ("/sys/fs/cgroup/freezer", "/sys/fs/cgroup")) if (at / "cgroup.procs").exists())

        def late():
            # It may be brought back in less than what counts as late.
            (freezer / "cgroup.procs").write_text(str(hog.pid))
            return self.value("giusto_service_late_stops") > 0
        self.until(late, "stopped late")
        self.becomes(lambda value: value > 0, "giusto_warnings")
        self.becomes(lambda value: value == 1, "giusto_state", state="degraded")
        self.becomes(lambda value: value == 0, "giusto_warnings")
        self.becomes(lambda value: value == 1, "giusto_state", state="enforcing")

    @moves("giusto_service_restarts", "giusto_service_up", "giusto_service_escaped")
    def test_a_service_that_ends_and_one_that_leaves_its_cgroup(self):
        self.start(service("one", 1, 10), "  never: {start: [sleep, '1000'], promise: leftovers, restart: never}\n")
        self.becomes(lambda value: value == 1, "giusto_service_up", service="never")
        restarts, escaped = self.rises("giusto_service_restarts", service="one"), self.rises("giusto_service_escaped", service="one")
        one, = self.members("one")
        os.kill(one, signal.SIGKILL)
        restarts()
        self.becomes(lambda value: value == 1, "giusto_service_up", service="one")
        os.kill(self.members("never")[0], signal.SIGKILL)
        self.becomes(lambda value: value == 0, "giusto_service_up", service="never")
        one, = self.members("one")
        (self.tree() / "cgroup.procs").write_text(str(one))
        escaped()
        self.until(lambda: self.members("one") == [one], "it is back")

    @staticmethod
    def tree():
        return next(at for at in map(Path, ("/sys/fs/cgroup/unified", "/sys/fs/cgroup")) if (at / "cgroup.procs").exists())

    def members(self, name):
        group = self.tree() / f"giusto.{name}.service"
        return [int(pid) for file in group.rglob("cgroup.procs") for pid in file.read_text().split()]

    # One run for both, which wait for seconds: a collector is sent something every ten.
    @moves("giusto_service_demand_planned", "giusto_service_demand", "giusto_service_drifted", "giusto_otlp_dropped")
    def test_a_service_that_asks_for_more_than_planned_and_a_collector_of_opentelemetry_that_refuses(self):
        collector = http.server.ThreadingHTTPServer(("127.0.0.1", COLLECTOR), Refuses)
        threading.Thread(target=collector.serve_forever, daemon=True).start()
        self.addCleanup(lambda: (collector.shutdown(), collector.server_close()))
        self.flags = ("--otlp", f"http://127.0.0.1:{COLLECTOR}")
        quiet = "[sh, -c, 'while :; do if [ -e %s ]; then :; else sleep 0.02; fi; done']" % (self.folder / "busy")
        site = "  cache: {start: %s, tasks: [{wcet: %dms, period: 50ms}], promise: as-if-alone}\n"
        self.start(site % (quiet, 10))
        self.becomes(lambda value: value == 0, "giusto_service_drifted")
        self.becomes(lambda value: abs(value - 0.2) < 0.01, "giusto_service_demand_planned")
        (self.folder / "busy").touch()
        self.becomes(lambda value: value > 0.2, "giusto_service_demand")
        self.becomes(lambda value: value == 1, "giusto_service_drifted")
        (self.folder / "busy").unlink()
        self.becomes(lambda value: value >= 1, "giusto_otlp_dropped")
        Refuses.status = 200
        self.until(lambda: self.status()["otlp"]["sent"] > 0, "taken")
        dropped = self.value("giusto_otlp_dropped")
        self.becomes(lambda value: value < 0.15, "giusto_service_demand")
        self.becomes(lambda value: value == 0, "giusto_service_drifted", 60)
        for wcet in (20, 10):
            self.write(site % (quiet, wcet))
            self.assertEqual(self.ask("reload").returncode, 0, self.log())
            self.becomes(lambda value: abs(value - wcet / 50) < 0.01, "giusto_service_demand_planned")
        self.assertEqual(self.value("giusto_otlp_dropped"), dropped)

    @moves("giusto_core_hi")
    def test_a_service_of_high_criticality_that_needs_more_than_usual(self):
        told = "[sh, -c, 'while :; do if [ -e %s ]; then :; else sleep 0.05; fi; done']" % (self.folder / "busy")
        high = f"  high: {{start: {told}, criticality: high, promise: {{supply: 10ms/100ms, worst: 50ms}}}}\n"
        self.start(high, f"  low: {{start: {BUSY}, criticality: low, promise: {{supply: 20ms/50ms}}}}\n")
        (self.folder / "busy").touch()
        self.rises("giusto_core_hi", 0.5)()
        (self.folder / "busy").unlink()
        # It counts, so it stands still.
        def still():
            before = self.value("giusto_core_hi")
            time.sleep(1.5)
            return self.value("giusto_core_hi") == before
        self.until(still, "it is no longer in HI")

    @moves("giusto_mode_info", "giusto_mode_change", "giusto_agents_missing", "giusto_service_boosted")
    def test_modes_and_their_agents(self):
        key, agent = self.folder / "a.key", self.folder / "a.yaml"
        key.write_bytes(os.urandom(32))
        key.chmod(0o600)
        agent.write_text(f"giusto-agent: 1\nservice: a\nmanager: unix:{self.folder}/modes\nkey: {key}\nstate: {self.folder}/a.state\npriority: none\n"
                         "tasks:\n  one: {start: [sleep, '1000']}\nmodes: {low: [], high: [one]}\n")
        self.start(f"  a: {{start: {BUSY}, agent: {{key: {key}, cost: 2ms}}, promise: supply, "
                   "modes: {low: {supply: 2ms/10ms}, high: {supply: 4ms/10ms}}}\n"
                   f"  batch: {{start: {BUSY}, promise: leftovers}}\n",
                   more="modes:\n  normal: {a: low}\n  emergency: {a: high, batch: stopped}\n"
                        f"mode-changes: {{timeout: 500ms, spacing: 50ms, listen: [\"unix:{self.folder}/modes\"]}}\n")
        self.becomes(lambda value: value == 1, "giusto_agents_missing")
        words = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", ROOT / "target/release/giusto-agent", agent]
        works = subprocess.Popen(list(map(str, words)), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(lambda: (works.kill(), works.wait()))
        self.becomes(lambda value: value == 0, "giusto_agents_missing")
        self.becomes(lambda value: value == 1, "giusto_mode_info", mode="normal")
        boosted, took = self.value("giusto_service_boosted", service="a"), set()
        for _ in range(10):
            for mode in ("emergency", "normal"):
                time.sleep(0.06)
                done = self.ask("mode", mode, "--policy", "boost", "--wait")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.becomes(lambda value: value == 1, "giusto_mode_info", mode=mode)
                took.add(self.value("giusto_mode_change"))
            if self.value("giusto_service_boosted", service="a") > boosted:
                break
        self.assertGreater(len(took - {None}), 1)
        self.becomes(lambda value: value > boosted, "giusto_service_boosted", service="a")
        works.kill()
        works.wait()
        self.becomes(lambda value: value == 1, "giusto_agents_missing")

    @moves("giusto_response", "giusto_response_unseen", "giusto_promise_within", "giusto_promise_allowed",
           "giusto_promise_late", "giusto_promise_left", "giusto_promise_late_by", "giusto_promise_now", "giusto_promise_burn")
    def test_requests_and_what_was_promised_of_them(self):
        redis = ("  cache: {start: [redis-server, --port, '7473', --save, ''], promise: {%s}, "
                 "arrivals: {poisson: 20/s}, execution: 1ms}\n")
        self.start(redis % "p80: 60ms")
        ping = b"*1\r\n$4\r\nPING\r\n"
        client = self.enterContext(socket.socket())
        self.until(lambda: client.connect_ex(("127.0.0.1", 7473)) == 0, "listening")
        def answers(left):
            while left > 0:
                left -= client.recv(7).count(b"\n")
        def ask(times=1):
            client.sendall(ping * times)
            answers(times)
        def answered(more):
            def enough():
                ask()
                return (self.value("giusto_response") or 0) > more
            self.until(enough, "its requests are seen")
        answered(20)
        late, burn = self.value("giusto_promise_late"), self.value("giusto_promise_burn", window="1m")
        self.assertEqual((late, burn, self.value("giusto_promise_left")), (0, 0, 1))
        self.becomes(lambda value: 0 < value < 0.06, "giusto_promise_now", window="1m")
        # Stopped for a while, it answers late; more of them in time, and the percentile is what it was.
        redis_pid = redis_process(client)
        os.kill(redis_pid, signal.SIGSTOP)
        client.sendall(ping * 300)
        time.sleep(0.5)
        os.kill(redis_pid, signal.SIGCONT)
        answers(300)
        self.becomes(lambda value: value >= 300, "giusto_promise_late")
        # tests/causes.py has the causes; here a hypervisor may have taken time as well.
        self.becomes(lambda value: value >= 300, "giusto_promise_late_by")
        self.becomes(lambda value: value > 0.4, "giusto_promise_now", window="1m")
        self.becomes(lambda value: value > 1, "giusto_promise_burn", window="1m")
        self.becomes(lambda value: value < 0, "giusto_promise_left")
        for _ in range(300):
            ask(10)
        self.becomes(lambda value: value < 0.06, "giusto_promise_now", window="1m")
        self.becomes(lambda value: value < 1, "giusto_promise_burn", window="1m")
        self.becomes(lambda value: value > 0, "giusto_promise_left")
        # What is not understood is told.
        self.assertEqual(self.value("giusto_response_unseen"), 0)
        with socket.create_connection(("127.0.0.1", 7473)) as other:
            other.sendall(ping + b"*1\r\n$9999999999\r\n")
            self.becomes(lambda value: value > 0, "giusto_response_unseen")
        self.write(redis % "p90: 100ms")
        self.assertEqual(self.ask("reload").returncode, 0, self.log())
        self.becomes(lambda value: value == 0.1, "giusto_promise_within", percentile="90")
        self.becomes(lambda value: value == 0.1, "giusto_promise_allowed", percentile="90")

    def test_every_documented_metric_is_shown_to_move_and_there_is_no_other(self):
        code = (ROOT / "daemon/src/metrics.rs").read_text()
        told = set(re.findall(r'"(giusto_[a-z_]+)"', code))
        page = (ROOT / "formats/control.md").read_text().split("## Metrics")[1]
        documented = {re.sub("(_seconds)?(_total)?$", "", name) for name in re.findall(r"`(giusto_[a-z_]+)[`{]", page)}
        self.assertEqual(documented, told, "formats/control.md and daemon/src/metrics.rs")
        self.assertEqual(set(MOVES), documented, "tests/metrics.py")


class Interfaces(packets.Packets):
    test_killed_it_is_restored = test_refusals = test_from_start_to_end = test_what_would_be_done_is_told_and_not_done = None

    @moves("giusto_interface_passed", "giusto_interface_dropped", "giusto_interface_packets_per_second", "giusto_interface_priority",
           "giusto_interface_moved", "giusto_interface_bypassed", "giusto_interface_demoted")
    def test_packets_of_an_interface(self):
        self.site.write_text(packets.SITE % "5k/s")
        daemon = self.start("--metrics", METRICS)
        passed, dropped = self.value("giusto_interface_passed"), self.value("giusto_interface_dropped")
        self.assertIsNone(self.value("giusto_interface_moved"))
        def send(seconds):
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                packets.within(f"{packets.NAME}-g0", sys.executable, "-c", packets.SEND)
        send(2)
        self.until(daemon, lambda _: self.value("giusto_interface_moved") == 1)
        self.until(daemon, lambda _: self.value("giusto_interface_passed") > passed and self.value("giusto_interface_dropped") > dropped)
        def rate():
            return self.value("giusto_interface_packets_per_second")
        def busy(_):
            send(1.2)
            return rate() > 100
        self.until(daemon, busy)
        self.until(daemon, lambda _: rate() < 50)
        # A raw socket bypasses the bucket; its threads have the lowest priority until that ends.
        self.assertEqual((self.value("giusto_interface_bypassed"), self.value("giusto_interface_demoted")), (0, 0))
        flood = subprocess.Popen(["ip", "netns", "exec", f"{packets.NAME}-g0", sys.executable, "-c", packets.BYPASS])
        self.until(daemon, lambda _: self.value("giusto_interface_demoted") == 1)
        self.assertGreater(self.value("giusto_interface_bypassed"), 5000)
        flood.wait()
        self.until(daemon, lambda _: self.value("giusto_interface_demoted") == 0)
        # The class decides its priority; down and up again, it has other threads, of which nothing is known yet.
        high = self.value("giusto_interface_priority")
        self.assertGreater(high, 0)
        for swap, holds in ((True, lambda now: now == 0), (False, lambda now: now == high)):
            site = packets.SITE % "5k/s"
            if swap:
                site = site.replace("class: high, rate: 5k/s, burst: 64, p99: 5ms", "class: low").replace("vif: v1, class: low", "vif: v1, class: high, rate: 5k/s, burst: 64, p99: 5ms")
            self.site.write_text(site)
            self.giusto(packets.GIUSTO, "reload")
            self.until(daemon, lambda _: holds(self.value("giusto_interface_priority")))
        packets.within(packets.HOST, "ip", "link", "set", "v0", "down")
        self.until(daemon, lambda _: self.value("giusto_interface_moved") is None)
        packets.within(packets.HOST, "ip", "link", "set", "v0", "up")
        self.until(daemon, lambda status: status["state"] == "enforcing")
        send(2)
        self.until(daemon, lambda _: self.value("giusto_interface_moved") == 1)
        daemon.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.wait(timeout=20), 0, self.log.read_text())

    def value(self, name):
        """Of v0."""
        self.seen.add(name)
        text = packets.within(packets.HOST, sys.executable, "-c",
                              f"import urllib.request as u; print(u.urlopen('http://{METRICS}/metrics').read().decode())")
        found = re.search(rf'^{name}(?:_total)?{{interface="v0"[^}}]*}} (\S+)$', text, re.M)
        return float(found[1]) if found else None


if __name__ == "__main__":
    if os.geteuid() != 0 or os.cpu_count() < 2:
        print("SKIPPED: needs root and two cores")
        sys.exit(77)
    if why := packets.cannot():
        print(f"interfaces SKIPPED: {why}")
        Interfaces.test_packets_of_an_interface = None
    code = unittest.main(verbosity=2, exit=False).result.wasSuccessful()
    sys.exit(1 if not code else 77 if why else 0)
