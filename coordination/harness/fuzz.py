"""Strangers at the ports: an ensemble serves while its election and quorum ports are told what no server says (fuzz/).

    python3 coordination/harness/fuzz.py [--inputs 100000] [--seed 1] [--arm giusto|stock]

What holds: writes whose body cannot be read are refused and stop nothing; no server and none of its threads ends, the leader stays, all
(one is an observer) stay with it, a write every 100 ms is acknowledged, memory, threads and files are bounded and come back; then the leader is killed while votes are
forged, and when the forger stops another leads soon, with every acknowledged write. Exit 1 where that is not so.
"""
import argparse
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import bodies
import wire
from ensemble import ARMS, ROOM, Ensemble, die_with_parent

# Their log would be as long as what they are told.
FLAGS = ["-Dzookeeper.loglevel=OFF"]
CONFIG = {"tickTime": 1000, "initLimit": 10, "syncLimit": 5, "giusto.features": "fcle,fqce,unanimous,snapshot"}
# The heap is 1000 MB at most.
HEAP_LEFT_MB, RSS_MB, THREADS_LEFT, FILES_LEFT, GAP_S, RECOVERY_S = 50, 1500, 25, 25, 30, 60
NO_NODE = -101
ALIVE = ("WorkerReceiver", "WorkerSender", "ListenerHandler", "QuorumPeer[", "CommitProcessor:", "SyncThread:")


class Writer(threading.Thread):
    """A write every 100 ms, ten to each server in turn; what was acknowledged, and the longest time without."""

    def __init__(self, ensemble):
        super().__init__(daemon=True)
        self.ensemble, self.acknowledged, self.count, self.stopped, self.epochs = ensemble, 0, 0, False, set()
        self.last, self.longest = time.monotonic(), 0.0

    def gap(self):
        return max(self.longest, time.monotonic() - self.last)

    def run(self):
        session, n, port = None, 0, 0
        while not self.stopped:
            try:
                if session is None:
                    ports = self.ensemble.ports()
                    port = (port + 1) % len(ports)
                    session = wire.Session(ports[port])
                zxid = session.set("/written", str(n + 1).encode())
                n += 1
                self.acknowledged = n
                self.count += 1
                self.epochs.add(zxid >> 32)
                self.longest, self.last = self.gap(), time.monotonic()
                if self.count % 10 == 0:
                    session = session.drop()
                time.sleep(0.1)
            except wire.Refused:
                # It may have been written all the same.
                n += 1
                session = session and session.drop()
                time.sleep(0.02)


class Seen:
    """Memory, threads and files of a server's process."""

    def __init__(self, server):
        self.pid = server.process.pid
        status = Path(f"/proc/{self.pid}/status").read_text()
        self.rss = int(re.search(r"VmRSS:\s+(\d+)", status)[1]) // 1024
        self.threads = int(re.search(r"Threads:\s+(\d+)", status)[1])
        self.files = len(list(Path(f"/proc/{self.pid}/fd").iterdir()))

    def jcmd(self, *command):
        return subprocess.run(["jcmd", str(self.pid), *command], capture_output=True, text=True, timeout=60).stdout

    def heap(self):
        """MB that are in use when all garbage is collected."""
        self.jcmd("GC.run")
        return sum(int(k) for k in re.findall(r"total \d+K, used (\d+)K", self.jcmd("GC.heap_info"))) // 1024

    def names(self):
        return re.findall(r'^"(.*?)" #', self.jcmd("Thread.print"), re.M)


def looks(ensemble):
    """How often each server has looked for a leader; a busy one is asked again."""
    counts, end = {}, time.monotonic() + 60
    while len(counts) < len(ensemble.servers) and time.monotonic() < end:
        for s in ensemble.servers:
            counts.setdefault(s.number, s.metrics().get("looking_count"))
        counts = {number: count for number, count in counts.items() if count}
    return counts


def settle(before):
    """Until connections whose other end is gone have run into their limits: initLimit ticks, or longer on a busy machine."""
    end = time.monotonic() + 60
    while time.monotonic() < end and any(Seen(s).threads > old.threads + THREADS_LEFT for s, (old, _) in before.items()
                                         if s.process.poll() is None):
        time.sleep(1)
    time.sleep(2)


def compiled():
    out = ROOM.parent / "target" / "coordination" / "fuzz"
    out.mkdir(parents=True, exist_ok=True)
    subprocess.run(["javac", "-Xlint:all", "-Werror", "-d", out, *(ROOM / "harness" / "fuzz").glob("*.java")], check=True)
    return out


class Watched(Ensemble):
    """Its last server is an observer."""

    def members(self, server):
        lines = super().members(server)
        lines[f"server.{len(self.servers)}"] += ":observer"
        return lines if server is not self.servers[-1] else {"peerType": "observer", **lines}


class BlackHole:
    """An address where connections are never answered: its queue is full, and the kernel drops what comes."""

    def __enter__(self):
        self.sockets = [socket.socket()]
        self.sockets[0].bind(("127.0.0.1", 0))
        self.sockets[0].listen(0)
        self.address = "127.0.0.1:%d" % self.sockets[0].getsockname()[1]
        try:
            for _ in range(16):
                self.sockets.append(socket.create_connection(self.sockets[0].getsockname(), 0.5))
        except TimeoutError:
            return self
        raise RuntimeError("this kernel accepts connections beyond a full backlog")

    def __exit__(self, *_):
        for s in self.sockets:
            s.close()


def fuzz(classes, ensemble, leader, seed, inputs, black_hole):
    config = "\n".join(f"server.{s.number}=127.0.0.1:{s.quorum}:{s.election}:{'observer' if s is ensemble.servers[-1] else 'participant'}"
                       for s in ensemble.servers) + "\nversion=0"
    ports = ",".join(str(s.election) for s in ensemble.servers)
    return subprocess.Popen(["nice", "-n", "10", "java", "-Xmx256m", "-cp", classes, "Fuzz", str(seed), str(inputs), ports,
                             str(leader.quorum), black_hole.address, config], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, preexec_fn=die_with_parent)


def unreadable(ensemble, law):
    """Each body that cannot be read or lacks something (bodies.py), at each server; then a write that can be read."""
    for s in ensemble.servers:
        before = "anything"
        for kind, body, must in [(*r, True) for r in bodies.refused()] + [(*o, False) for o in bodies.odd()]:
            try:
                session = wire.Session(s.client, timeout=30)
            except wire.Refused as e:
                law(False, f"server {s.number} takes no session after {before}: {e}")
                return
            before = f"{kind} {body}"
            try:
                _, error, _ = session.call(kind, body)
                # A multi tells the error of each of its operations.
                law(not must or error != 0 or kind == bodies.MULTI, f"server {s.number} has done {before}")
            except wire.Refused:
                # Some it answers by closing the connection.
                pass
            session.drop()
        if not serves(s, law, "some that could not be read"):
            return
        law(wire.Session(s.client, timeout=30).call(4, bodies.text("/lacking") + b"\0")[1] == NO_NODE, "a node was made of what could not be read")


def serves(server, law, after):
    try:
        wire.Session(server.client, timeout=30).set("/serves", b"")
        return True
    except wire.Refused as e:
        law(False, f"server {server.number} takes no write after {after}: {e}")
        return False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--arm", choices=sorted(ARMS), default="giusto")
    args = parser.parse_args()
    classes, wrong = compiled(), []

    def law(holds, text):
        if not holds:
            wrong.append(text)
            print("VIOLATED: " + text, flush=True)

    with tempfile.TemporaryDirectory() as directory, Watched(directory, [args.arm] * 4, CONFIG, FLAGS) as ensemble, \
            BlackHole() as black_hole:
        leader = ensemble.leader()
        session = wire.Session(leader.client, timeout=30)
        session.create("/written", b"0")
        session.create("/serves", b"")
        session.close()
        unreadable(ensemble, law)
        writer = Writer(ensemble)
        writer.start()
        time.sleep(2)
        before = {s: (Seen(s), Seen(s).heap()) for s in ensemble.servers}
        looked = looks(ensemble)
        start, most = time.monotonic(), {"rss": 0, "threads": 0, "files": 0}
        process = fuzz(classes, ensemble, leader, args.seed, args.inputs, black_hole)
        while process.poll() is None and not wrong:
            time.sleep(0.5)
            for s in ensemble.servers:
                law(s.process.poll() is None, f"server {s.number} ended")
                if not wrong:
                    most = {key: max(value, getattr(Seen(s), key)) for key, value in most.items()}
        process.terminate()
        said, errors = process.communicate()
        seconds = time.monotonic() - start
        settle(before)
        writes, gap = writer.count, writer.gap()
        print("".join(f"    {line}\n" for line in said.splitlines()) + errors[:2000], end="")
        law(len(writer.epochs) == 1, f"the leader changed: epochs {sorted(writer.epochs)}")
        law(looks(ensemble) == looked, f"a server has looked for a leader: {looked} -> {looks(ensemble)}")
        law(gap < GAP_S, f"no write for {gap:.1f} s")
        law(most["rss"] < RSS_MB, f"{most['rss']} MB of memory")
        law(all([serves(s, law, "all that") for s in ensemble.servers]), "a server does not serve")
        for s in ensemble.servers:
            if wrong and s.process.poll() is not None:
                continue
            old, heap = before[s]
            new, names = Seen(s), Seen(s).names()
            for name in (*ALIVE, *(["LearnerCnxAcceptorHandler"] if s is leader else [])):
                law(any(n.startswith(name) for n in names), f"server {s.number} has lost its thread {name}")
            now = new.heap()
            law(now <= heap + HEAP_LEFT_MB, f"server {s.number} keeps {now} MB, {heap} before")
            law(new.threads <= old.threads + THREADS_LEFT, f"server {s.number} keeps {new.threads} threads, {old.threads} before: {names}")
            law(new.files <= old.files + FILES_LEFT, f"server {s.number} keeps {new.files} files, {old.files} before")
            print(f"    server {s.number}: heap {heap} -> {now} MB, {old.threads} -> {new.threads} threads, {old.files} -> {new.files} files")
        recovery = forged(classes, ensemble, leader, writer, args.seed, law, black_hole)
        writer.stopped = True
        count = sum(int(line.split()[0]) for line in said.splitlines() if not re.search("closed by|identities|unread", line))
        print(f"fuzz: {args.arm}: {count} inputs read by the servers in {seconds:.0f} s, seed {args.seed}; {writes} writes acknowledged, longest time "
              f"without {gap:.2f} s; at most {most['rss']} MB, {most['threads']} threads, {most['files']} files; a leader {recovery:.1f} s "
              f"after forged votes ended; {len(wrong)} violated")
    return 1 if wrong else 0


def forged(classes, ensemble, leader, writer, seed, law, black_hole):
    """The leader dies while votes are forged. Seconds from the end of that to the next write."""
    process = fuzz(classes, ensemble, leader, seed + 1, 10 ** 9, black_hole)
    time.sleep(1)
    leader.kill()
    time.sleep(4)
    process.terminate()
    process.communicate()
    known, start = writer.acknowledged, time.monotonic()
    while writer.acknowledged == known and time.monotonic() < start + RECOVERY_S:
        time.sleep(0.02)
    seconds = time.monotonic() - start
    law(writer.acknowledged > known, f"no write within {RECOVERY_S} s after the forger stopped")
    try:
        value = int(wire.Session(ensemble.wait_leader(RECOVERY_S).client, timeout=30).get("/written")[0])
        law(value >= known, f"write {known} was acknowledged, and {value} is there")
    except (RuntimeError, wire.Refused) as e:
        law(False, f"no server can be queried: {e}")
    return seconds


if __name__ == "__main__":
    sys.exit(main())
