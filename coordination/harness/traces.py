"""What real servers say to each other about epochs, and what is on their disks when they say it: traces for the model.

    python3 coordination/harness/traces.py --out DIR [--arms strict,giusto,overlap] [--kills 4] [--seed 1] [--slow]

Three servers reach each other's quorum ports through taps that read ZooKeeper's packets, note an event and the sender's epoch files,
and only then pass them on. Servers are killed (the leader, a follower, the leader while the next one is being made) and started again.
Writes DIR/MODE-SEED.trace; the form is in giusto.coordination.model.Traces. --slow: forced writes take 20 ms longer.
"""
import argparse
import asyncio
import random
import struct
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from ensemble import ROOM, Ensemble, free_ports

MODES = {"strict": "strict", "giusto": "reserve", "overlap": "overlap"}
# Nothing that makes a start longer: servers start often here.
CONFIG = {"giusto.features": "fcle,fqce,unanimous,snapshot", "tickTime": 500, "initLimit": 10, "syncLimit": 6}
FOLLOWERINFO, LEADERINFO, ACKEPOCH, NEWLEADER, UPTODATE, ACK, SNAP = 11, 17, 18, 10, 12, 3, 15
SIGNATURE = b"\0\0\0\x0aBenWasHere"


class Packets:
    """ZooKeeper's QuorumPackets in a stream: (type, zxid), snapshots left out."""

    def __init__(self):
        self.rest, self.snapshot = b"", False

    def feed(self, data):
        self.rest += data
        while True:
            if self.snapshot:
                end = self.rest.find(SIGNATURE)
                if end < 0:
                    return
                self.rest, self.snapshot = self.rest[end + len(SIGNATURE):], False
            packet = self._one()
            if packet is None:
                return
            self.snapshot = packet[0] == SNAP
            yield packet

    def _one(self):
        if len(self.rest) < 20:
            return None
        kind, zxid, length = struct.unpack_from(">iqi", self.rest)
        end = 16 + max(0, length) + 4
        if len(self.rest) < end:
            return None
        assert struct.unpack_from(">i", self.rest, end - 4)[0] <= 0, "a packet with ids"
        self.rest = self.rest[end:]
        return kind, zxid


class Taps(Ensemble):
    """An ensemble whose followers reach leaders through taps."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.lines, self.lock, self.lives, self.ports_of = [], threading.Lock(), {s: 0 for s in self.servers}, {}
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        for a in self.servers:
            for b in self.servers:
                if a is not b:
                    self.ports_of[a, b] = free_ports(1)[0]
                    serve = asyncio.start_server(lambda r, w, ends=(a, b): self._tap(r, w, *ends), "127.0.0.1", self.ports_of[a, b])
                    asyncio.run_coroutine_threadsafe(serve, self.loop).result(5)

    def route(self, source, target):
        return self.ports_of[source, target], target.election

    def lose(self, server):
        with self.lock:
            self.lines.append(f"lost {server.number}")
            self.lives[server] += 1
        server.kill()

    async def _tap(self, reader, writer, follower, leader):
        try:
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", leader.quorum)
        except OSError:
            writer.close()
            return
        link = {"lives": (self.lives[follower], self.lives[leader]), "epoch": None, "entered": False}
        await asyncio.gather(self._pump(reader, there_writer, follower, leader, link, True),
                             self._pump(there_reader, writer, follower, leader, link, False))

    async def _pump(self, reader, writer, follower, leader, link, up):
        packets = Packets()
        try:
            while data := await reader.read(65536):
                for kind, zxid in packets.feed(data):
                    self._note(kind, zxid >> 32, follower, leader, link, up)
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    def _note(self, kind, epoch, a, b, link, up):
        def disk(server, name):
            try:
                return int((server.dir / "data" / "version-2" / name).read_text())
            except FileNotFoundError:
                return 0

        line = None
        if up and kind == FOLLOWERINFO:
            line = f"follows {a.number} {b.number} {epoch}"
        elif not up and kind == LEADERINFO:
            link["epoch"] = epoch
            line = f"info {b.number} {a.number} {epoch} {disk(b, 'acceptedEpoch')}"
        elif up and kind == ACKEPOCH:
            line = f"promised {a.number} {b.number} {link['epoch']} {disk(a, 'acceptedEpoch')}"
        elif not up and kind == NEWLEADER:
            line = f"new {b.number} {a.number} {epoch} {disk(b, 'currentEpoch')}"
        elif up and kind == ACK and not link["entered"]:
            link["entered"] = True
            line = f"entered {a.number} {b.number} {epoch} {disk(a, 'currentEpoch')}"
        elif not up and kind == UPTODATE:
            line = f"serves {b.number} {a.number} {link['epoch']} {disk(b, 'currentEpoch')}"
        with self.lock:
            # What the dead said last is on its way still.
            if line and link["lives"] == (self.lives[a], self.lives[b]):
                self.lines.append(line)


def play(ensemble, rng, kills):
    for kill in range(kills):
        leader = ensemble.wait_whole()
        others = [s for s in ensemble.servers if s is not leader]
        how = ["leader", "follower", "both"][kill % 3]
        victims = {"leader": [leader], "follower": [rng.choice(others)], "both": [leader, rng.choice(others)]}[how]
        for victim in victims:
            ensemble.lose(victim)
            # The second dies somewhere in the election or the recovery that the first one's death began.
            time.sleep(rng.random() * 0.15)
        for victim in rng.sample(victims, len(victims)):
            victim.start()
    ensemble.wait_whole()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--arms", default="strict,giusto,overlap")
    parser.add_argument("--kills", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--slow", action="store_true")
    a = parser.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    for arm in a.arms.split(","):
        with tempfile.TemporaryDirectory(prefix="giusto-zk-") as scratch:
            environment = {}
            if a.slow:
                library, flag = Path(scratch) / "slowdisk.so", Path(scratch) / "slow"
                subprocess.run(["gcc", "-shared", "-fPIC", "-O2", "-o", library, ROOM / "harness" / "slowdisk.c", "-ldl"], check=True)
                flag.touch()
                environment = {"LD_PRELOAD": str(library), "GIUSTO_SLOW_FLAG": str(flag), "GIUSTO_SLOW_US": "20000"}
            with Taps(Path(scratch) / arm, [arm] * 3, CONFIG, environment=environment) as ensemble:
                play(ensemble, random.Random(a.seed), a.kills)
                with ensemble.lock:
                    lines = list(ensemble.lines)
        file = a.out / f"{MODES[arm]}-{a.seed}.trace"
        file.write_text("\n".join(lines) + "\n")
        print(f"{file}: {len(lines)} events, {sum(line.startswith('lost') for line in lines)} kills")


if __name__ == "__main__":
    main()
