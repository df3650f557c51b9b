"""Kafka brokers of 3.9 in ZooKeeper mode on an ensemble of this harness, and the programs that load them.

A broker's class path and flags are those of docs/coordination.md: Kafka as it is, with our client's socket or without.
"""
import json
import os
import queue
import subprocess
import threading
import time

import wire
from ensemble import ROOM, die_with_parent, free_ports

LIB = ROOM / "kafka" / "target"
CLIENT = ROOM / "client" / "target"
KAFKA = f"{LIB}/*:{LIB / 'lib'}/*"
LOG4J = f"-Dlog4j.configuration=file:{ROOM / 'harness' / 'log4j-kafka.properties'}"
SOCKET = "-Dzookeeper.clientCnxnSocket=org.apache.zookeeper.RtClientCnxnSocketNIO"
# Small enough for many on one machine; the same in every arm.
HEAP = ["-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
CONNECTED = "Session establishment complete on server"


def built():
    """Whether the server, the client's socket, Kafka and its load are there."""
    return any((ROOM / "server" / "target").glob("giusto-zookeeper-*.jar")) and any(CLIENT.glob("giusto-zookeeper-client-*.jar")) \
        and any(LIB.glob("*.jar")) and any((LIB / "lib").glob("kafka_*.jar"))


class Ended(RuntimeError):
    """A broker's process is gone, and we have not killed it."""


class Broker:
    def __init__(self, cluster, number):
        self.cluster, self.number = cluster, number
        self.dir = cluster.dir / f"b{number}"
        self.dir.mkdir(parents=True)
        self.log = self.dir / "log"
        self.port = free_ports(1)[0]
        self.process = None

    def start(self):
        at = f"PLAINTEXT://127.0.0.1:{self.port}"
        lines = {"broker.id": self.number, "listeners": at, "advertised.listeners": at, "log.dirs": self.dir / "data",
                 "zookeeper.connect": self.cluster.zookeeper(), "zookeeper.session.timeout.ms": self.cluster.session_ms,
                 "zookeeper.connection.timeout.ms": 60_000, "offsets.topic.replication.factor": 1, "auto.create.topics.enable": "false",
                 # Leaders stay where a death has put them; no buffer of 128 MB for compaction.
                 "auto.leader.rebalance.enable": "false", "log.cleaner.enable": "false", "num.io.threads": 4, "num.network.threads": 2}
        (self.dir / "server.properties").write_text("".join(f"{k}={v}\n" for k, v in lines.items()))
        flags, path = ([SOCKET], f"{CLIENT}/*:{KAFKA}") if self.cluster.socket else ([], KAFKA)
        offset = self.size()
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(["java", *HEAP, LOG4J, *flags, "-cp", path, "kafka.Kafka", self.dir / "server.properties"],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=die_with_parent)
        return offset

    def size(self):
        return self.log.stat().st_size if self.log.exists() else 0

    def since(self, offset):
        with open(self.log, "rb") as f:
            f.seek(offset)
            return f.read().decode(errors="replace")

    def says(self, text, offset, timeout):
        """Waits for a line after an offset; whether it came."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            if text in self.since(offset):
                return True
            if self.process is None or self.process.poll() is not None:
                raise Ended(f"a broker ended; see {self.log}")
            time.sleep(0.02)
        return False

    def kill(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None


class Cluster:
    """Brokers under one node of an ensemble, with our client's socket or without. Use it with 'with'."""

    def __init__(self, ensemble, name, brokers=1, socket=True, session_ms=18_000):
        self.ensemble, self.name, self.socket, self.session_ms = ensemble, name, socket, session_ms
        self.dir = ensemble.dir / name
        self.brokers = [Broker(self, n) for n in range(brokers)]
        self.loads = []

    def zookeeper(self):
        return ",".join(f"127.0.0.1:{p}" for p in self.ensemble.ports()) + f"/{self.name}"

    def bootstrap(self):
        return ",".join(f"127.0.0.1:{b.port}" for b in self.brokers)

    def __enter__(self):
        for broker in self.brokers:
            self.start(broker)
        return self

    def start(self, broker):
        """Starts one and waits until it serves. A broker whose session is short and ends while java is starting gives up: it is started again."""
        for _ in range(3):
            try:
                if broker.says("started (KafkaServer)", broker.start(), 120):
                    return
            except Ended:
                pass
            broker.kill()
        raise RuntimeError(f"a broker did not come up; see {broker.log}")

    def __exit__(self, *_):
        for load in self.loads:
            load.kill()
        for broker in self.brokers:
            broker.kill()

    def pids(self):
        return [p.pid for p in [b.process for b in self.brokers] + [load.process for load in self.loads] if p]

    def load(self, *words):
        load = Load(self, *words)
        self.loads.append(load)
        return load

    def _node(self, path):
        session = wire.Session(self.ensemble.leader().client)
        try:
            return json.loads(session.get(f"/{self.name}{path}")[0])
        finally:
            session.close()

    def controller(self):
        return self.brokers[self._node("/controller")["brokerid"]]

    def leader(self, topic):
        """Who leads the only partition, and how many replicas are in sync."""
        state = self._node(f"/brokers/topics/{topic}/partitions/0/state")
        return self.brokers[state["leader"]], len(state["isr"])


class Load:
    """The program giusto.coordination.kafka.Load; every line it says, as words."""

    def __init__(self, cluster, kind, *words):
        self.errors = cluster.dir / f"load-{kind}"
        with open(self.errors, "ab") as errors:
            self.process = subprocess.Popen(["java", *HEAP, LOG4J, "-cp", KAFKA,
                                             "giusto.coordination.kafka.Load", kind, cluster.bootstrap(), *words],
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, bufsize=1,
                                            preexec_fn=die_with_parent)
        self.said = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.said.put(line.split())
        self.said.put(None)

    def ask(self, line):
        self.process.stdin.write(line + "\n")

    def answer(self, timeout=120):
        try:
            words = self.said.get(timeout=timeout)
        except queue.Empty:
            words = None
        if words is None:
            raise RuntimeError(f"the load says nothing; see {self.errors}")
        return words

    def kill(self):
        self.process.kill()
        self.process.wait()
