"""Ensembles of real servers on loopback, each a JVM of its own: stock ZooKeeper, Giusto's, or any mix.

Nothing outlives the program that started it: every JVM has a parent-death signal.
"""
import ctypes
import functools
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import wire

ROOM = Path(__file__).resolve().parent.parent
# Where the jar is, as for bin/giusto-zookeeper: another build of it, with another ZooKeeper.
LIB = Path(os.environ.get("GIUSTO_ZOOKEEPER_LIB", ROOM / "server" / "target"))
STOCK = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
OURS = "org.apache.zookeeper.server.quorum.RtQuorumPeerMain"
# As bin/giusto-zookeeper starts java.
OUR_SCRIPT = [f"@{ROOM / 'conf' / 'java.args'}", f"@{ROOM / 'conf' / 'heap.args'}",
              f"-Dlogback.configurationFile={ROOM / 'conf' / 'logback.xml'}"]
# As zkServer.sh and zkEnv.sh of 3.9.6 do; lines of its log are spared class and line number, which stock pays for.
STOCK_SCRIPT = ["-Xmx1000m", "-XX:+HeapDumpOnOutOfMemoryError", "-XX:OnOutOfMemoryError=kill -9 %p", "-Dcom.sun.management.jmxremote",
                "-Dcom.sun.management.jmxremote.local.only=false", f"-Dlogback.configurationFile={ROOM / 'harness' / 'logback-stock.xml'}"]
# What each arm of an experiment starts: the main class, lines of zoo.cfg, and how.
ARMS = {
    "stock": (STOCK, {}, STOCK_SCRIPT),
    # Stock's classes started our way: what flags alone do.
    "lean": (STOCK, {}, OUR_SCRIPT),
    # [LiH21]'s RTZK-L: faster election and channel, epochs as stock writes them, w = 20 ms.
    "rtzk-l": (OURS, {"giusto.features": "fcle,fqce", "giusto.epochs": "strict", "giusto.wait": "20ms"}, STOCK_SCRIPT),
    "giusto": (OURS, {}, OUR_SCRIPT),
    "strict": (OURS, {"giusto.epochs": "strict"}, OUR_SCRIPT),
    "overlap": (OURS, {"giusto.epochs": "overlap"}, OUR_SCRIPT),
}
_libc = ctypes.CDLL(None)


@functools.lru_cache(maxsize=None)
def archive():
    """The flag with which a server finds its classes linked, as bin/giusto-zookeeper passes it."""
    done = subprocess.run([ROOM / "bin" / "giusto-zookeeper", "archive"], capture_output=True, text=True, timeout=120)
    return [f"-XX:SharedArchiveFile={done.stdout.strip()}"] if done.returncode == 0 else []


def die_with_parent():
    _libc.prctl(1, signal.SIGKILL)
    os.setpgid(0, 0)


_given = set()


def free_ports(count):
    """Ports below the range the kernel hands out by itself, bound once to see that they are free; none is given twice."""
    ports = []
    while len(ports) < count:
        # Nor by another process of this kind.
        port = random.randrange(15000, 31992, 8) + os.getpid() % 8
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in _given:
            _given.add(port)
            ports.append(port)
    return ports


class Server:
    def __init__(self, ensemble, number, arm):
        self.ensemble, self.number, self.arm = ensemble, number, arm
        self.dir = ensemble.dir / f"s{number}"
        self.log = self.dir / "log"
        self.client, self.quorum, self.election = free_ports(3)
        # Where peers reach it; a proxy may stand between.
        self.seen_quorum, self.seen_election = self.quorum, self.election
        self.process = None

    def write_config(self):
        (self.dir / "data").mkdir(parents=True, exist_ok=True)
        (self.dir / "data" / "myid").write_text(str(self.number))
        lines = {"tickTime": 1000, "initLimit": 10, "syncLimit": 4, "dataDir": self.dir / "data", "clientPort": self.client,
                 "clientPortAddress": "127.0.0.1", "admin.enableServer": "false", "maxClientCnxns": 0,
                 "4lw.commands.whitelist": "*", **self.ensemble.config, **ARMS[self.arm][1]}
        lines.update(self.ensemble.members(self))
        (self.dir / "zoo.cfg").write_text("".join(f"{k}={v}\n" for k, v in lines.items()))

    def command(self):
        jar = next(LIB.glob("giusto-zookeeper-*.jar"))
        main, _, script = ARMS[self.arm]
        linked = archive() if script is OUR_SCRIPT else []
        path = f"{self.ensemble.before}{jar}:{LIB / 'lib'}/*"
        return ["java", *script, *linked, *self.ensemble.flags, "-cp", path, main, str(self.dir / "zoo.cfg")]

    def start(self, arm=None):
        self.arm = arm or self.arm
        self.ensemble.configure(self)
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            preexec_fn=die_with_parent, env={**os.environ, **self.ensemble.environment_of(self)})

    def kill(self, how=signal.SIGKILL):
        if self.process:
            self.process.send_signal(how)
            if how in (signal.SIGKILL, signal.SIGTERM):
                self.process.wait()
                self.process = None

    def mode(self):
        for line in wire.ask(self.client, "srvr").splitlines():
            if line.startswith("Mode: "):
                return line[6:]
        return ""

    def metrics(self):
        rows = (line.split("\t") for line in wire.ask(self.client, "mntr").splitlines())
        return {row[0][3:]: row[1] for row in rows if len(row) == 2}

    def text(self):
        return self.log.read_text(errors="replace")


class Lifecycle:
    """Servers that start and end together, 'with' them: self.servers, and self.wait_whole(), which returns once they serve."""

    def __enter__(self):
        for s in self.servers:
            s.start()
        self.wait_whole()
        return self

    def __exit__(self, *_):
        for s in self.servers:
            s.kill(signal.SIGCONT)
            s.kill()

    def all_run(self):
        for s in self.servers:
            if s.process is None or s.process.poll() is not None:
                raise RuntimeError(f"server {s.number} ended; see {s.log}")


class Ensemble(Lifecycle):
    """size servers of one arm, or of a list of arms. Use it with 'with'."""

    def __init__(self, directory, arms, config=None, flags=(), environment=None):
        self.dir = Path(directory)
        shutil.rmtree(self.dir, ignore_errors=True)
        self.dir.mkdir(parents=True)
        self.config, self.flags, self.environment = config or {}, list(flags), environment or {}
        # What stands before our jar on the class path.
        self.before = ""
        self.servers = []
        for number, arm in enumerate(arms, 1):
            self.servers.append(Server(self, number, arm))

    def route(self, source, target):
        """The ports at which one server reaches another."""
        return target.quorum, target.election

    def members(self, server):
        """The lines of zoo.cfg that name the servers, as one of them has them."""
        ports = {s: (s.quorum, s.election) if s is server else self.route(server, s) for s in self.servers}
        return {f"server.{s.number}": f"127.0.0.1:{quorum}:{election}" for s, (quorum, election) in ports.items()}

    def configure(self, server):
        server.write_config()

    def environment_of(self, server):
        return self.environment

    def wait_whole(self, timeout=180):
        """Until every server serves; the leader."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            self.all_run()
            modes = [s.mode() for s in self.servers]
            if all(modes) and modes.count("leader") == 1:
                return self.servers[modes.index("leader")]
            time.sleep(0.1)
        raise RuntimeError(f"the ensemble did not come up: {modes}; see {self.dir}")

    def wait_leader(self, timeout=180):
        """The leader, as soon as there is one."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            leader = self.leader()
            if leader:
                return leader
            time.sleep(0.05)
        raise RuntimeError(f"no server leads; see {self.dir}")

    def leader(self):
        for s in self.servers:
            if s.process and s.mode() == "leader":
                return s
        return None

    def ports(self):
        return [s.client for s in self.servers]
