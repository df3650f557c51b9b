"""What a leader's death costs an application: Kafka 3.9 in ZooKeeper mode.

    python3 coordination/harness/kafka.py reconnect|topic [--kills 20] [--out DIR]
    python3 coordination/harness/kafka.py e2e [--tick 300] [--kills 10] [--arms ...] [--failures kafka,both,zookeeper] [--out DIR]

Arms: stock ZooKeeper and Giusto's, each with the client's stock socket and with ours (-socket). kill -9 each time.

reconnect: until the broker has its session again. The two arms of an ensemble see the same kill, each with a broker of its own.
topic: the same, and a topic is asked for when the leader is dying, and another ('quiet') before that; until it is acknowledged.
e2e: the longest that a message of every 100 ms was under way, of those around the kill. Two brokers, a topic of two replicas, session
time-out 2 ticks; the broker dies that leads the topic and controls, or the ensemble's leader, or both. Arms in turns, an ensemble each.

Writes DIR/kafka.json: samples, and what the machine was doing. A sample is void as in recovery.py (disturbed()), and with it all
samples of that kill.
"""
import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import brokers
import wire
from brokers import CONNECTED, Cluster
from ensemble import Ensemble
from recovery import Machine, disturbed, events

ARMS = ["stock", "stock-socket", "giusto", "giusto-socket"]
TOPIC = "mytopic"
PERIOD_MS = 100
# What a broker says when its session has ended, and when it has lost its connection.
EXPIRED = "Session expired."
LOST = "Attempting reconnect except it is a SessionExpiredException"


def kill_leader(ensemble):
    """SIGKILL; when it was sent. Its process is waited for by the caller, for what happens meanwhile is measured."""
    leader = ensemble.leader()
    killed = time.time()
    leader.process.kill()
    return leader, killed


def revive(ensemble, leader):
    leader.kill()
    leader.start()
    ensemble.wait_whole()


class Watch:
    """What others had of the processors while a kill was measured."""

    def __init__(self, pids):
        self.before = Machine(pids)

    def end(self):
        after = Machine(self.before.pids)
        others, stolen = after.since(self.before)
        return {"load": self.before.load, "others_s": others, "stolen_s": stolen, "void": disturbed(others, after.at - self.before.at)}


def reconnected(cluster, offset, killed):
    """ms from the kill until the broker has its session again, and from when it lost its connection."""
    broker = cluster.brokers[0]
    if not broker.says(CONNECTED, offset, 60):
        raise RuntimeError(f"no session again within 60 s; see {broker.log}")
    log = list(events(_At(broker.log), offset))
    back = max(t for t, line in log if CONNECTED in line)
    lost = min((t for t, line in log if LOST in line), default=killed)
    return {"ms": 1000 * (back - killed), "lost_ms": 1000 * (back - lost)}


class _At:
    def __init__(self, log):
        self.log = log


class Pair:
    """An ensemble and a cluster of one broker for each kind of client."""

    def __init__(self, stack, directory, kind, arms, topics):
        self.ensemble = stack.enter_context(Ensemble(directory / kind, [kind] * 3))
        self.clusters = {arm: stack.enter_context(Cluster(self.ensemble, arm, socket=arm.endswith("-socket")))
                         for arm in arms if arm.split("-")[0] == kind}
        self.topics = {arm: cluster.load("topics") for arm, cluster in self.clusters.items()} if topics else {}
        self.asked = 0

    def pids(self):
        return [s.process.pid for s in self.ensemble.servers if s.process] + [p for c in self.clusters.values() for p in c.pids()]

    def ask(self):
        """Asks for a topic in every cluster."""
        self.asked += 1
        for load in self.topics.values():
            load.ask(f"topic{self.asked} 0")

    def answers(self):
        """ms from the question to the answer, by arm."""
        words = {arm: load.answer() for arm, load in self.topics.items()}
        return {arm: (int(w[2]) - int(w[1])) / 1000 for arm, w in words.items()}

    def kill(self, pids):
        """Samples of all arms."""
        self.ensemble.wait_whole()
        samples = {arm: {} for arm in self.clusters}
        if self.topics:
            self.ask()
            for arm, ms in self.answers().items():
                samples[arm]["quiet_ms"] = ms
            time.sleep(0.5)
        offsets = {arm: c.brokers[0].size() for arm, c in self.clusters.items()}
        watch = Watch(pids())
        leader, killed = kill_leader(self.ensemble)
        if self.topics:
            self.ask()
            for arm, ms in self.answers().items():
                samples[arm]["topic_ms"] = ms
        for arm, cluster in self.clusters.items():
            samples[arm].update(reconnected(cluster, offsets[arm], killed))
        machine = watch.end()
        revive(self.ensemble, leader)
        return {arm: {**sample, **machine} for arm, sample in samples.items()}


def pairs(a, directory, topics):
    """reconnect and topic: kills of both ensembles in turns."""
    samples = []
    with ExitStack() as stack:
        both = [Pair(stack, directory, kind, a.arms, topics) for kind in dict.fromkeys(arm.split("-")[0] for arm in a.arms)]

        def pids():
            return [pid for pair in both for pid in pair.pids()]

        for pair in both * 2 if topics else []:
            pair.ask()
            pair.answers()
        for k in range(a.kills):
            for pair in both[k % len(both):] + both[:k % len(both)]:
                # Any phase of heartbeats.
                time.sleep(1.0 + 0.5 * random.random())
                for arm, sample in pair.kill(pids).items():
                    samples.append({"arm": arm, "kill": k, **sample})
                    say(samples[-1], "topic_ms" if topics else "ms")
    return samples


class Stream:
    """An ensemble, two brokers and a stream of messages between them."""

    def __init__(self, stack, directory, arm, tick):
        self.arm = arm
        self.ensemble = stack.enter_context(Ensemble(directory / arm, [arm.split("-")[0]] * 3, {"tickTime": tick, "initLimit": 20, "syncLimit": 10}))
        self.cluster = stack.enter_context(Cluster(self.ensemble, "kafka", 2, arm.endswith("-socket"), 2 * tick))
        first = self.cluster.controller().number
        topics = self.cluster.load("topics")
        topics.ask(f"{TOPIC} {first},{1 - first}")
        topics.answer()
        self.load = self.cluster.load("stream", TOPIC, str(PERIOD_MS))
        self.heard, self.seen = [], 0
        self.settle()

    def pids(self):
        return [s.process.pid for s in self.ensemble.servers if s.process] + self.cluster.pids()

    def hear(self):
        """The next message: when it was sent, and how long it took; numbers must follow each other."""
        number, sent, received = (int(w) for w in self.load.answer())
        if number != self.seen:
            raise RuntimeError(f"{self.arm}: message {self.seen} was expected and {number} came: lost, doubled or out of order")
        self.seen += 1
        return sent / 1e6, (received - sent) / 1000

    def steady(self, after, timeout=90):
        """Messages until ten that were sent after an instant took less than two periods; the longest time of those sent from half a second before."""
        worst, calm, end = 0.0, 0, time.monotonic() + timeout
        while calm < 10:
            sent, ms = self.hear()
            if sent > after - 0.5:
                worst = max(worst, ms)
            calm = calm + 1 if sent > after and ms < 2 * PERIOD_MS else 0
            if time.monotonic() > end:
                raise RuntimeError(f"{self.arm}: messages do not flow; see {self.cluster.dir}")
        return worst

    def settle(self, timeout=90):
        """Until both replicas are in sync and one broker leads and controls; that broker."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            self.ensemble.wait_whole()
            self.steady(time.time())
            try:
                leader, in_sync = self.cluster.leader(TOPIC)
                controller = self.cluster.controller()
            except (wire.Refused, ValueError):
                continue
            if in_sync == 2 and controller is leader:
                return leader
            if in_sync == 2:
                # Control goes to the other one, which leads.
                controller.kill()
                self.steady(time.time())
                self.cluster.start(controller)
        raise RuntimeError(f"{self.arm}: replicas do not come in sync; see {self.cluster.dir}")

    def fail(self, failure, pids):
        leader = self.settle()
        offsets = {b: b.size() for b in self.cluster.brokers if b is not leader or failure == "zookeeper"}
        watch = Watch(pids())
        killed, server = time.time(), None
        if failure != "kafka":
            server, killed = kill_leader(self.ensemble)
        if failure != "zookeeper":
            leader.process.kill()
        worst = self.steady(killed)
        # A broker that is alive and whose session ended all the same.
        expired = sum(EXPIRED in b.since(offset) for b, offset in offsets.items())
        sample = {"ms": worst, "expired": expired, **watch.end()}
        if server:
            revive(self.ensemble, server)
        if failure != "zookeeper":
            leader.kill()
            self.cluster.start(leader)
        return sample


def streams(a, directory):
    """e2e: every failure of every arm in turns."""
    samples = []
    with ExitStack() as stack:
        every = [Stream(stack, directory, arm, a.tick) for arm in a.arms]

        def pids():
            return [pid for one in every for pid in one.pids()]

        for k in range(a.kills):
            for failure in a.failures:
                for one in every[k % len(every):] + every[:k % len(every)]:
                    # Any phase of heartbeats; and clients have asked who is there.
                    time.sleep(1.5 + random.random())
                    samples.append({"arm": one.arm, "failure": failure, "tick": a.tick, "kill": k, **one.fail(failure, pids)})
                    say(samples[-1], "ms")
    return samples


def say(sample, what):
    print(f"{sample['kill'] + 1} {sample['arm']} {sample.get('failure', '')}: {sample[what]:.0f} ms{' void' if sample['void'] else ''}", file=sys.stderr)


def table(samples, columns):
    print(f"{'ms':<24}{'n':>4}{'void':>5}{'min':>7}{'p50':>7}{'max':>7}")
    for column in columns:
        keys = dict.fromkeys((s.get("failure", column.removesuffix("_ms")), s["arm"]) for s in samples)
        for key in keys:
            mine = [s for s in samples if (s.get("failure", column.removesuffix("_ms")), s["arm"]) == key]
            good = [s[column] for s in mine if not s["void"]]
            numbers = "".join(f"{f(good):>7.0f}" for f in (min, statistics.median, max)) if good else ""
            print(f"{' '.join(key):<24}{len(good):>4}{len(mine) - len(good):>5}{numbers}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["reconnect", "topic", "e2e"])
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--arms", type=lambda text: text.split(","), default=ARMS)
    parser.add_argument("--tick", type=int, default=300)
    parser.add_argument("--failures", type=lambda text: text.split(","), default=["kafka", "both", "zookeeper"])
    parser.add_argument("--out", type=Path, default=Path("target/kafka"))
    parser.add_argument("--keep", action="store_true", help="keep data and logs, and say where")
    a = parser.parse_args()
    if not brokers.built():
        sys.exit("Kafka is not built: mvn -B -q -f coordination/pom.xml -pl server,client,kafka -DskipTests package")
    a.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="giusto-kafka-") as scratch:
        base = Path(tempfile.mkdtemp(prefix="giusto-kafka-kept-")) if a.keep else Path(scratch)
        if a.keep:
            print(f"data and logs: {base}")
        samples = streams(a, base) if a.what == "e2e" else pairs(a, base, a.what == "topic")
    table(samples, {"reconnect": ["ms", "lost_ms"], "topic": ["quiet_ms", "topic_ms"], "e2e": ["ms"]}[a.what])
    loads, others = [s["load"] for s in samples], [1000 * s["others_s"] for s in samples]
    print(f"machine: {os.cpu_count()} cores, load {statistics.median(loads):.1f} (at most {max(loads):.1f}); of a kill's processor time "
          f"others had {statistics.median(others):.0f} ms (at most {max(others):.0f})")
    (a.out / "kafka.json").write_text(json.dumps({"samples": samples}, indent=1))


if __name__ == "__main__":
    main()
