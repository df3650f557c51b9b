"""Starting a server: what is refused and how; the start script; real clients, unchanged, through a leader's death."""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request
from pathlib import Path

import wire
from ensemble import LIB, OURS, ROOM, Ensemble, die_with_parent, free_ports

SCRIPT = ROOM / "bin" / "giusto-zookeeper"
QUIETLY = ["-Dzookeeper.loglevel=ERROR", f"-Dlogback.configurationFile={ROOM / 'harness' / 'logback-stock.xml'}"]
CLIENTS = f"{ROOM / 'clients' / 'target'}/*:{ROOM / 'clients' / 'target' / 'lib'}/*"
QUIET = {**os.environ, "JVMFLAGS": "-Xmx64m"}


class Refused(unittest.TestCase):
    def start(self, *lines):
        with tempfile.TemporaryDirectory() as d:
            ports = free_ports(3)
            config = Path(d) / "zoo.cfg"
            (Path(d) / "myid").write_text("1")
            servers = [f"server.{i}=127.0.0.1:{ports[1]}:{ports[2]}" for i in (1, 2, 3)]
            config.write_text("\n".join([f"dataDir={d}", f"clientPort={ports[0]}", "tickTime=1000", "initLimit=5", "syncLimit=2",
                                         "admin.enableServer=false", *servers, *lines]))
            done = subprocess.run([SCRIPT, "start-foreground", config], env=QUIET, capture_output=True, text=True, timeout=60)
            return done.returncode, done.stderr

    def test_an_unknown_key(self):
        code, text = self.start("giusto.epoch=strict")
        self.assertEqual(2, code)
        self.assertIn("unknown property giusto.epoch; did you mean giusto.epochs?", text)

    def test_memory_without_acceptance(self):
        code, text = self.start("giusto.epochs=memory")
        self.assertEqual(2, code)
        self.assertIn("giusto.epochs.accept = acknowledged-writes-may-be-lost", text)

    def test_an_interval_that_would_hide_the_wait(self):
        code, text = self.start("fastleader.minNotificationInterval=50")
        self.assertEqual(2, code)
        self.assertIn("comes to 200 ms when it is doubled", text)

    def test_the_script_itself(self):
        for arguments, text in ((["go"], "start-foreground, start, stop"), (["start", "/nonexistent"], "cannot be read")):
            done = subprocess.run([SCRIPT, *arguments], env=QUIET, capture_output=True, text=True, timeout=60)
            self.assertEqual(2, done.returncode)
            self.assertIn(text, done.stderr)

    def test_sizes_of_the_heap_are_ours_or_those_of_jvmflags(self):
        """-Xms above -Xmx would end java at once."""
        with tempfile.TemporaryDirectory() as d:
            config = Path(d) / "zoo.cfg"
            config.write_text(f"dataDir={d}\nno.such=key\n")
            for flags, limit in (("", 1000), ("-Xmx64m", 64), ("-XX:MaxHeapSize=64m", 64), ("-Dx=y -Xmx2g", 2048)):
                told = {**os.environ, "JVMFLAGS": f"{flags} -Xlog:gc+init"}
                done = subprocess.run([SCRIPT, "start-foreground", config], env=told, capture_output=True, text=True, timeout=60)
                self.assertRegex(done.stdout, f"Heap Max Capacity: {limit}M|Heap Max Capacity: {limit // 1024}G")

    def test_a_zookeeper_it_was_not_tested_with(self):
        """Another release on the class path: what it is, and what to do, before anything is opened."""
        with tempfile.TemporaryDirectory() as d:
            other = Path(d) / "org" / "apache" / "zookeeper" / "Version.java"
            other.parent.mkdir(parents=True)
            other.write_text('package org.apache.zookeeper; '
                             'public class Version { public static String getVersion() { return "3.9.99"; } }')
            subprocess.run(["javac", "-d", d, other], check=True)
            jar = next(LIB.glob("giusto-zookeeper-*.jar"))
            (Path(d) / "myid").write_text("1")
            config = Path(d) / "zoo.cfg"

            def start(*lines):
                config.write_text("\n".join([f"dataDir={d}", "clientPort=1", "tickTime=1000", "initLimit=5", "syncLimit=2",
                                             "giusto.features=fcle", *(f"server.{i}=127.0.0.1:2:3" for i in (1, 2, 3)), *lines]))
                command = ["java", "-Xmx64m", *QUIETLY, "-cp", f"{d}:{jar}:{LIB / 'lib'}/*", OURS, config]
                return subprocess.run(command, capture_output=True, text=True, timeout=60)
            refused = start()
            self.assertEqual(2, refused.returncode)
            self.assertIn("ZooKeeper 3.9.99", refused.stderr)
            self.assertIn("or start stock ZooKeeper", refused.stderr)
            # Named, it goes on: to a port that it may not have.
            self.assertNotIn("is unknown", start("giusto.zookeeper=3.9.99").stderr)
            self.assertEqual(2, start("giusto.zookeeper=3.9.98").returncode)


class DropInEnsemble(Ensemble):
    """With a dynamic configuration, which also holds the clients' ports; metrics for Prometheus; the admin server."""

    def __init__(self, directory):
        super().__init__(directory, ["giusto"] * 3)
        self.http = {s: free_ports(2) for s in self.servers}

    def configure(self, server):
        super().configure(server)
        prometheus, admin = self.http[server]
        members = server.dir / "members"
        members.write_text("".join(f"server.{s.number}=127.0.0.1:{s.quorum}:{s.election}:participant;127.0.0.1:{s.client}\n"
                                   for s in self.servers))
        config = server.dir / "zoo.cfg"
        kept = [line for line in config.read_text().splitlines() if not line.startswith(("server.", "clientPort", "admin."))]
        config.write_text("\n".join([*kept, f"dynamicConfigFile={members}", "reconfigEnabled=true", "standaloneEnabled=false",
                                     "metricsProvider.className="
                                     "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider",
                                     "metricsProvider.httpHost=127.0.0.1", f"metricsProvider.httpPort={prometheus}",
                                     "admin.enableServer=true", "admin.serverAddress=127.0.0.1",
                                     f"admin.serverPort={admin}"]) + "\n")


class DropIn(unittest.TestCase):
    """What the stock distribution has beside the server is there."""

    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.ensemble = DropInEnsemble(Path(cls.scratch.name) / "e")
        cls.ensemble.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.ensemble.__exit__()
        cls.scratch.cleanup()

    def admin(self, server, command, data=None):
        request = urllib.request.Request(f"http://127.0.0.1:{self.ensemble.http[server][1]}/commands/{command}", data,
                                         {"Authorization": "digest root:root", "Content-Type": "application/octet-stream"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.read()

    def test_metrics_for_prometheus(self):
        for server in self.ensemble.servers:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ensemble.http[server][0]}/metrics", timeout=30) as answer:
                text = answer.read().decode()
            for name in ("giusto_recovery_bound_us", "znode_count", "jvm_threads_current"):
                self.assertRegex(text, rf"(?m)^{name} [0-9]")

    def test_the_admin_server_takes_and_restores_snapshots(self):
        one = self.ensemble.servers[0]
        self.assertIsNone(json.loads(self.admin(one, "ruok"))["error"])
        session = wire.Session(one.client)
        session.create("/kept", b"before")
        session.sync("/kept")
        snapshot = self.admin(one, "snapshot?streaming=true")
        self.assertIn(b"before", snapshot)
        session.set("/kept", b"after")
        session.drop()
        for server in self.ensemble.servers:
            self.assertIsNone(json.loads(self.admin(server, "restore", snapshot))["error"])
        for server in self.ensemble.servers:
            session = wire.Session(server.client)
            self.assertEqual(b"before", session.get("/kept")[0])
            session.drop()

    def test_status_finds_the_port(self):
        for server in self.ensemble.servers:
            status = subprocess.run([SCRIPT, "status", server.dir / "zoo.cfg"], env=QUIET, capture_output=True, text=True,
                                    timeout=60)
            self.assertEqual(0, status.returncode, status.stderr)
            self.assertEqual(f"Mode: {server.mode()}\n", status.stdout)

    def test_no_other_number_in_the_log(self):
        """A rehearsal's servers have numbers, too."""
        for server in self.ensemble.servers:
            text = server.text()
            self.assertIn("recoveries rehearsed", text)
            self.assertEqual(set(), set(re.findall(r" \[myid:(\d+)\] ", text)) - {str(server.number)})


class Package(unittest.TestCase):
    """The Debian package, unpacked: its unit is sound and hardened, its script starts a server that tells systemd when it
    votes."""

    @classmethod
    def setUpClass(cls):
        if not shutil.which("dpkg-deb"):
            raise unittest.SkipTest("dpkg-deb is missing")
        cls.scratch = tempfile.TemporaryDirectory()
        built = subprocess.run([ROOM.parent / "packaging" / "zookeeper.sh"], capture_output=True, text=True, timeout=300,
                               check=True)
        cls.deb = ROOM.parent / built.stdout.strip()
        cls.tree = Path(cls.scratch.name) / "tree"
        subprocess.run(["dpkg-deb", "-x", cls.deb, cls.tree], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def test_what_is_in_it(self):
        said = subprocess.run(["dpkg-deb", "-I", self.deb], capture_output=True, text=True, check=True).stdout
        self.assertIn("Package: giusto-zookeeper", said)
        self.assertTrue((self.tree / "usr/bin/giusto-zookeeper").is_file())
        self.assertTrue(list((self.tree / "usr/share/giusto-zookeeper/lib/lib").glob("zookeeper-3.9.*.jar")))

    def test_the_unit(self):
        if not shutil.which("systemd-analyze"):
            self.skipTest("systemd-analyze is missing")
        unit = self.tree / "lib/systemd/system/giusto-zookeeper.service"
        here = Path(self.scratch.name) / unit.name
        # Verified where it is not installed: the program by its full path here.
        here.write_text(unit.read_text().replace("/usr/bin/giusto-zookeeper", f"{self.tree}/usr/bin/giusto-zookeeper"))
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", here], capture_output=True, text=True, timeout=60)
        self.assertEqual("", "".join(line for line in done.stderr.splitlines(True) if unit.name in line))
        graded = subprocess.run(["systemd-analyze", "security", "--offline=yes", "--no-pager", here], capture_output=True,
                                text=True, timeout=60)
        level = re.search(r"exposure level for \S+: ([\d.]+)", graded.stdout)
        self.assertLessEqual(float(level[1]), 2.0, graded.stdout)

    def test_it_starts_and_says_so(self):
        if not shutil.which("systemd-notify"):
            self.skipTest("systemd-notify is missing")
        data, cache = (Path(self.scratch.name) / name for name in ("data", "cache"))
        data.mkdir()
        cache.mkdir()
        (data / "myid").write_text("1")
        ports = free_ports(7)
        servers = [f"server.{i + 1}=127.0.0.1:{ports[1 + 2 * i]}:{ports[2 + 2 * i]}" for i in range(3)]
        config = data / "zoo.cfg"
        config.write_text("\n".join([f"dataDir={data}", f"clientPort={ports[0]}", "clientPortAddress=127.0.0.1",
                                     "tickTime=1000", "initLimit=5", "syncLimit=2", "admin.enableServer=false", *servers]) + "\n")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
            told.bind(str(data / "notify"))
            told.settimeout(300)
            server = subprocess.Popen([self.tree / "usr/bin/giusto-zookeeper", "start-foreground", config],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=die_with_parent,
                                      env={**QUIET, "NOTIFY_SOCKET": str(data / "notify"), "GIUSTO_ZOOKEEPER_CACHE": str(cache)})
            try:
                self.assertIn(b"READY=1", told.recv(4096))
                self.assertEqual(1, len(list(cache.glob("classes-*.jsa"))))
                # One of three votes, and does not serve.
                with socket.create_connection(("127.0.0.1", ports[2]), 5):
                    pass
            finally:
                server.terminate()
                server.communicate(timeout=30)
        self.assertEqual(143, server.returncode)


class Memory(unittest.TestCase):
    def test_when_none_is_left_the_server_ends(self):
        """With one of its threads gone it may do anything; 3 is java's exit code for it."""
        full = """class Full { public static void main(String[] args) throws InterruptedException {
            Thread one = new Thread(() -> { for (Object all = null; ; all = new Object[] {all, new byte[1 << 20]}); });
            one.start(); one.join(); } }"""
        with tempfile.TemporaryDirectory() as d:
            (Path(d) / "Full.java").write_text(full)
            done = subprocess.run(["java", f"@{ROOM / 'conf' / 'java.args'}", "-Xmx64m", Path(d) / "Full.java"], capture_output=True, timeout=60)
            self.assertEqual(3, done.returncode)


class Clients(unittest.TestCase):
    """One ensemble: its first server is started and stopped by the script, its leader dies under Curator."""

    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.ensemble = Ensemble(Path(cls.scratch.name) / "e", ["giusto", "giusto", "stock"])
        cls.ensemble.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.ensemble.__exit__()
        cls.scratch.cleanup()

    def script(self, verb, server):
        return subprocess.run([SCRIPT, verb, server.dir / "zoo.cfg"], env=QUIET, capture_output=True, text=True, timeout=60)

    def test_metrics_say_what_is_used_and_the_bound(self):
        metrics = self.ensemble.servers[0].metrics()
        for name in ("giusto_wait_us", "giusto_jitter_us", "giusto_delay_us", "giusto_recovery_bound_us", "giusto_first_write_bound_us"):
            self.assertGreater(int(metrics[name]), 0, name)
        self.assertGreater(int(metrics["giusto_wait_us"]), int(metrics["giusto_jitter_us"]) + int(metrics["giusto_delay_us"])
                           if int(metrics["giusto_wait_us"]) < 200_000 else 0)
        self.assertNotIn("giusto_wait_us", self.ensemble.servers[2].metrics())

    def test_start_status_stop(self):
        server = self.ensemble.servers[0]
        server.kill(signal.SIGTERM)
        started = self.script("start", server)
        try:
            self.assertEqual(0, started.returncode, started.stderr)
            end = time.monotonic() + 60
            while not server.mode() and time.monotonic() < end:
                time.sleep(0.1)
            status = self.script("status", server)
            self.assertEqual((0, True), (status.returncode, status.stdout.startswith("Mode: ")), status.stderr)
            self.assertEqual(2, self.script("start", server).returncode)
        finally:
            stopped = self.script("stop", server)
        self.assertEqual("stopped\n", stopped.stdout)
        self.assertEqual(4, self.script("status", server).returncode)
        server.start()
        self.ensemble.wait_whole()

    def curator(self, *flags):
        hosts = ",".join(f"127.0.0.1:{p}" for p in self.ensemble.ports())
        program = subprocess.Popen(["java", "-Xmx64m", *flags, *QUIETLY, "-cp", f"{ROOM / 'client' / 'target'}/*:{CLIENTS}",
                                    "giusto.coordination.clients.Curator", hosts, f"/curator{len(flags)}"],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            while program.stdout.readline() not in ("counting\n", ""):
                pass
            leader = self.ensemble.wait_leader()
            leader.kill()
            time.sleep(1)
            leader.start()
            self.ensemble.wait_whole()
            out, errors = program.communicate("end\n", timeout=60)
        finally:
            program.kill()
        self.assertEqual(0, program.returncode, out + errors)
        print(out.strip())

    def test_curator(self):
        self.curator()

    def test_curator_with_our_socket(self):
        self.curator("-Dzookeeper.clientCnxnSocket=org.apache.zookeeper.RtClientCnxnSocketNIO")

    def test_zkcli(self):
        def cli(*words):
            return subprocess.run(["java", "-Xmx64m", *QUIETLY, "-cp", CLIENTS, "org.apache.zookeeper.ZooKeeperMain", "-server", f"127.0.0.1:{self.ensemble.ports()[0]}", *words],
                                  capture_output=True, text=True, timeout=60)
        self.assertEqual(0, cli("create", "/cli", "hello").returncode)
        self.assertIn("hello", cli("get", "/cli").stdout)

    def test_a_version_that_stock_speaks(self):
        self.assertTrue(wire.ask(self.ensemble.ports()[0], "srvr").startswith("Zookeeper version: 3.9.6"))


class Orphans(unittest.TestCase):
    def test_no_server_outlives_its_harness(self):
        """A harness that is killed in the middle leaves no JVM behind."""
        with tempfile.TemporaryDirectory() as d:
            code = f"import time; from ensemble import Ensemble; e = Ensemble('{d}/e', ['giusto'] * 3); [s.start() for s in e.servers]; " \
                   "print(*[s.process.pid for s in e.servers], flush=True); time.sleep(60)"
            program = subprocess.Popen([sys.executable, "-c", code], cwd=ROOM / "harness", stdout=subprocess.PIPE, text=True)
            pids = [int(p) for p in program.stdout.readline().split()]
            self.assertEqual(3, len(pids))
            program.kill()
            program.wait()
            program.stdout.close()
            end = time.monotonic() + 10
            while time.monotonic() < end and any(Path(f"/proc/{p}").exists() for p in pids):
                time.sleep(0.05)
            self.assertEqual([], [p for p in pids if Path(f"/proc/{p}/cmdline").exists() and Path(f"/proc/{p}/cmdline").read_bytes()])


if __name__ == "__main__":
    unittest.main()
