"""`giusto run --only network` in network namespaces that this test makes: packets get threads with the plan's priorities, a reload changes
them, status and metrics tell, and whatever ends it leaves the links as they were. Needs root.
"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from patient import Patient

ROOT = Path(__file__).resolve().parent.parent
GIUSTO = ROOT / "target" / "release" / "giusto"
NAME = f"giusto-test-{os.getpid()}-e2e"
HOST = f"{NAME}-host"
SITE = """
giusto: 1
hosts:
  test:
    cores: 1
    network:
      cores: 0
      capacity: 65k/s
services:
  flight:
    start: sleep 1000
    promise: leftovers
    network: [{vif: v0, class: high, rate: %s, burst: 64, p99: 5ms}]
  batch:
    start: sleep 1000
    promise: leftovers
    network: [{vif: v1, class: low}]
"""
LOOK = """cd /sys/class/net; for d in v* eth*; do [ -e $d ] || continue; echo $d $(cat $d/threaded); ethtool -k $d;
tc qdisc show dev $d; tc filter show dev $d ingress; tc filter show dev $d egress; done"""
SEND = """import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    for i in range(2000): s.sendto(b'x', ('10.77.0.11', 7000))"""

# For two seconds, past the queues and filters of its own end.
BYPASS = """import socket, time
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as s:
    s.setsockopt(263, 20, 1) # SOL_PACKET, PACKET_QDISC_BYPASS
    s.bind(('eth0', 0x800))
    end = time.monotonic() + 2
    while time.monotonic() < end:
        try: s.send(b'\\xff' * 12 + b'\\x08\\x00' + b'x' * 60)
        except OSError: pass # its ring is full"""


def run(*words, **options):
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True, **options).stdout


def within(namespace, *words):
    return run("ip", "netns", "exec", namespace, *words)


def cannot():
    if os.geteuid() != 0:
        return "root is missing: run it as root"
    made = subprocess.run(["ip", "netns", "add", f"{NAME}-try"], capture_output=True, text=True)
    subprocess.run(["ip", "netns", "del", f"{NAME}-try"], capture_output=True)
    return made.returncode and f"network namespaces cannot be made here: {made.stderr.strip()}"


def threads():
    """Those that poll an interface of this test: name, class, priority."""
    lines = run("sh", "-c", "ps -eo cls=,rtprio=,comm= | grep -E 'napi/(v[01]|eth0)-' || true").splitlines()
    return sorted(" ".join([line.split()[2].rsplit("-", 1)[0], *line.split()[:2]]) for line in lines)


class Packets(Patient):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.addCleanup(lambda: [subprocess.run(["ip", "netns", "del", name], capture_output=True) for name in self.namespaces])
        self.namespaces = [HOST, f"{NAME}-g0", f"{NAME}-g1"]
        for name in self.namespaces:
            run("ip", "netns", "add", name)
        within(HOST, "ip", "link", "add", "br0", "type", "bridge")
        within(HOST, "ip", "link", "set", "br0", "up")
        within(HOST, "ip", "link", "set", "lo", "up")
        for guest in range(2):
            inside = f"{NAME}-g{guest}"
            within(HOST, "ip", "link", "add", f"v{guest}", "type", "veth", "peer", "name", "eth0", "netns", inside)
            within(HOST, "ip", "link", "set", f"v{guest}", "master", "br0", "up")
            within(inside, "ip", "addr", "add", f"10.77.0.{10 + guest}/24", "dev", "eth0")
            within(inside, "ip", "link", "set", "eth0", "up")
        self.site = self.folder / "site.yaml"
        self.environment = {**os.environ, "GIUSTO_STATE": str(self.folder / "state")}
        self.before = self.look()

    def look(self):
        return [within(name, "sh", "-c", LOOK) for name in self.namespaces] + threads()

    def words(self, *more):
        return ["ip", "netns", "exec", HOST, GIUSTO, "run", self.site, "--host", "test", "--only", "network", "--out", self.folder / "out", *more]

    def giusto(self, *words, code=0):
        done = subprocess.run([str(word) for word in words], env=self.environment, capture_output=True, text=True, timeout=30)
        said = done.stdout + done.stderr
        self.assertEqual(done.returncode, code, said)
        return said

    def start(self, *more, state="enforcing"):
        self.log = self.folder / "log"
        with self.log.open("w") as log:
            daemon = subprocess.Popen([str(word) for word in self.words(*more)], stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=self.environment)
        self.addCleanup(lambda: (daemon.kill(), daemon.wait()))
        self.until(daemon, lambda status: status["state"] == state)
        return daemon

    def until(self, daemon, wanted):
        until, status = time.monotonic() + 20, None
        while time.monotonic() < until and daemon.poll() is None:
            done = subprocess.run([GIUSTO, "status", "--json"], env=self.environment, capture_output=True, text=True)
            status = json.loads(done.stdout) if done.returncode == 0 else None
            if status and wanted(status):
                return status
            time.sleep(0.05)
        self.fail(f"not within 20 s: {status} {self.log.read_text()}")

    def test_from_start_to_end(self):
        self.site.write_text(SITE % "5k/s")
        port = 19000 + os.getpid() % 1000
        daemon = self.start("--metrics", f"127.0.0.1:{port}")
        links = {link["name"]: link for link in self.until(daemon, lambda status: len(status["network"]) == 2)["network"]}
        self.assertEqual((links["v0"]["class"], links["v0"]["limit"], links["v1"]["class"]), ("high", "drop-sent", "low"))
        high = links["v0"]["priority"]
        self.assertEqual(threads(), sorted([f"napi/v0 FF {high}", f"napi/eth0 FF {high}", "napi/v1 TS -", "napi/eth0 TS -"]))
        within(f"{NAME}-g0", sys.executable, "-c", SEND)
        status = self.until(daemon, lambda status: all(link["proof"] == "moved" for link in status["network"]))
        v0 = next(link for link in status["network"] if link["name"] == "v0")
        self.assertTrue(v0["passed"] >= 64 and v0["dropped"] > 0, v0)
        metrics = within(HOST, sys.executable, "-c", f"import urllib.request as u; print(u.urlopen('http://127.0.0.1:{port}/metrics').read().decode())")
        self.assertIn('giusto_interface_passed_total{interface="v0",service="flight",class="high"', metrics)
        self.assertIn('giusto_interface_moved{interface="v1"', metrics)
        self.assertIn("v0", self.giusto(GIUSTO, "status"))
        # A raw socket bypasses the bucket, and its interface alone suffers.
        within(f"{NAME}-g0", sys.executable, "-c", BYPASS)
        # The status is a second old at most, and by then it may have its class again.
        classes = set()

        def demoted(status):
            classes.update(line for line in threads() if line.startswith("napi/v0"))
            return any(link["demoted"] for link in status["network"])

        status = self.until(daemon, demoted)
        self.assertEqual(status["state"], "degraded")
        self.assertIn("v0 overloads the host", " ".join(status["warnings"]))
        self.assertIn("demoted", self.giusto(GIUSTO, "status"))
        self.assertIn("napi/v0 IDL 0", classes)
        self.until(daemon, lambda status: status["state"] == "enforcing")
        # Another rate: one step, the same threads; then nothing at all to do.
        self.site.write_text(SITE % "6k/s")
        self.assertIn("give packets of v0, v1 their threads", self.giusto(GIUSTO, "reload"))
        self.assertIn("nothing had to be changed", self.giusto(GIUSTO, "reload"))
        within(HOST, "ip", "link", "set", "v0", "down")
        status = self.until(daemon, lambda status: status["state"] == "degraded")
        self.assertIn("ip link set v0 up", status["warnings"][0])
        within(HOST, "ip", "link", "set", "v0", "up")
        self.until(daemon, lambda status: status["state"] == "enforcing")
        daemon.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.wait(timeout=20), 0, self.log.read_text())
        self.assertEqual(self.look(), self.before)

    def test_what_is_absent_at_the_start_is_waited_for_and_a_renamed_interface_is_given_back(self):
        self.site.write_text((SITE % "5k/s").replace("vif: v1", "vif: v9"))
        daemon = self.start(state="degraded")
        self.assertEqual([name.split()[0] for name in threads()], ["napi/eth0", "napi/v0"])
        self.assertIn("interface v9 is not there", " ".join(self.until(daemon, lambda status: status["warnings"])["warnings"]))
        rename = lambda old, new: [within(HOST, "ip", "link", "set", old, *words) for words in (["down"], ["name", new, "up"])]
        rename("v1", "v9")
        self.until(daemon, lambda status: status["state"] == "enforcing")
        rename("v0", "v5")
        daemon.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.wait(timeout=20), 0, self.log.read_text())
        rename("v9", "v1")
        rename("v5", "v0")
        self.assertEqual(self.look(), self.before)

    def test_killed_it_is_restored(self):
        uplink = "capacity: 65k/s\n      uplinks: [{name: v1, rate: 5k/s, burst: 32}]"
        site = (SITE % "5k/s").replace("capacity: 65k/s", uplink)
        self.site.write_text(site.replace("    network: [{vif: v1, class: low}]\n", ""))
        daemon = self.start()
        self.assertNotEqual(self.look(), self.before)
        self.assertIn("xdp", within(HOST, "ip", "-d", "link", "show", "v1"))
        daemon.kill()
        daemon.wait()
        until = time.monotonic() + 10
        while self.look() != self.before and time.monotonic() < until:
            time.sleep(0.05)
        self.assertEqual(self.look(), self.before)
        self.assertIn("nothing to restore", self.giusto(GIUSTO, "restore"))

    def test_what_would_be_done_is_told_and_not_done(self):
        self.site.write_text(SITE % "5k/s")
        said = self.giusto(*self.words("--dry-run"))
        for text in ("clsact", "giusto_from", "giusto_sent", "giusto_arrived", "SCHED_IDLE",
                     "ethtool -K v0 gro on tso off", "/sys/class/net/v1/threaded", "SCHED_FIFO"):
            self.assertIn(f"{text}", said)
        self.assertNotIn("would start", said)
        self.assertEqual(self.look(), self.before)

    def test_refusals(self):
        self.site.write_text("giusto: 1\nhosts: {test: {cores: 1}}\nservices: {batch: {start: sleep 9, promise: leftovers}}\n")
        self.assertIn("says nothing about packets", self.giusto(*self.words(), code=2))
        self.site.write_text(SITE % "5k/s")
        self.folder.chmod(0o777)
        nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
        self.environment["GIUSTO_STATE"] = str(self.folder / "theirs")
        words = [*self.words(), "--out", self.folder / "their-out"]
        words.remove("--out"), words.remove(self.folder / "out")
        self.assertIn("run it as root", self.giusto(*words[:4], *nobody, *words[4:], code=3))


if __name__ == "__main__":
    why = cannot()
    if why:
        print(f"packets: SKIPPED: {why}")
        sys.exit(77)
    unittest.main(verbosity=2)
