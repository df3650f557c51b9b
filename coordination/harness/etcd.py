"""Ensembles of real etcd servers on loopback, stock as Debian packages it; with wires between them where these are to be cut.

Nothing outlives the program that started it: every server has a parent-death signal.
"""
import asyncio
import base64
import json
import os
import re
import shutil
import signal
import subprocess
import time
import urllib.request
from pathlib import Path

from ensemble import ROOM, Lifecycle, die_with_parent, free_ports
from wires import Wires

GIUSTO = Path(os.environ.get("GIUSTO", ROOM.parent / "target" / "release" / "giusto"))
# What Debian's package starts when nothing is written in /etc/default/etcd.
STOCK = {}
FROM = re.compile(rb"^X-Server-From: *([0-9a-f]+)\r?$", re.M | re.I)


def site(directory, engine, servers, recovery, measured):
    """The file of a site with an ensemble."""
    hosts = [f"edge-{n + 1}" for n in range(servers)]
    file = Path(directory) / f"{engine}.yaml"
    file.write_text("giusto: 1\nhosts:\n" + "".join(f"  {h}: {{cores: 0}}\n" for h in hosts)
                    + "services: {batch: {start: sleep 1, promise: leftovers}}\n"
                    + f"coordination:\n  engine: {engine}\n  servers: ["
                    + ", ".join(f"{h}:2379" for h in hosts) + f"]\n  promise: {{recovery: {recovery}}}\n  measured: {{"
                    + ", ".join(f"{k}: {v}" for k, v in measured.items()) + "}\n")
    return file


def planned(directory, servers=3, recovery="60s", **measured):
    """(environment, plan) of an ensemble as `giusto export etcd` and `giusto plan` have it, from what was measured here."""
    file = site(directory, "etcd", servers, recovery, measured)
    texts = json.loads(subprocess.run([GIUSTO, "export", "etcd", file, "--json"], check=True, capture_output=True).stdout)
    plan = json.loads(subprocess.run([GIUSTO, "plan", file, "--json"], check=True, capture_output=True).stdout)
    lines = (line for line in texts[0]["environment"].splitlines() if not line.startswith("#"))
    return dict(line.split("=", 1) for line in lines), plan["coordination"]


def ask(port, path, body, timeout=2.0):
    """The answer of etcd's gateway for JSON; an OSError where there is none."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v3/{path}", json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        return json.load(answer)


def text(word):
    return base64.b64encode(word.encode()).decode()


def put(port, key, value, timeout=2.0):
    return ask(port, "kv/put", {"key": text(key), "value": text(value)}, timeout)


def everything(port, prefix):
    """All keys that begin so, and their values, as a quorum has them."""
    end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
    rows = ask(port, "kv/range", {"key": text(prefix), "range_end": text(end)}, 10).get("kvs", [])
    return {base64.b64decode(row["key"]).decode(): base64.b64decode(row.get("value", "")).decode() for row in rows}


class PeerWires(Wires):
    """Wires to etcd servers. Peers know each other by one address each, so that who sends is read from its first request."""

    def listen_for(self, port, number, there):
        async def serve(reader, writer):
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
                writer.close()
                return
            sender = FROM.search(head)
            await self._serve(Ahead(head, reader), writer, sender and sender[1].decode(), number, there, "peer")
        asyncio.run_coroutine_threadsafe(asyncio.start_server(serve, "127.0.0.1", port), self.loop).result(5)

    async def _whole(self, source, target, _port):
        while source in self.cut or target in self.cut:
            await asyncio.sleep(0.002)


class Ahead:
    """A reader some of which was read already."""

    def __init__(self, head, reader):
        self.head, self.reader = head, reader

    async def read(self, most):
        head, self.head = self.head, b""
        return head or await self.reader.read(most)


class Server:
    def __init__(self, ensemble, number):
        self.ensemble, self.number = ensemble, number
        self.dir = ensemble.dir / f"s{number}"
        self.log = self.dir / "log"
        self.client, self.peer, seen = free_ports(3)
        # Where peers reach it; a wire may stand between.
        self.seen = seen if ensemble.wires else self.peer
        self.process = None

    def start(self, state="new"):
        self.dir.mkdir(exist_ok=True)
        peer = f"http://127.0.0.1:{self.seen}"
        here = {
            "ETCD_NAME": f"s{self.number}", "ETCD_DATA_DIR": self.dir / "data",
            "ETCD_LISTEN_PEER_URLS": f"http://127.0.0.1:{self.peer}",
            "ETCD_INITIAL_ADVERTISE_PEER_URLS": peer, "ETCD_LISTEN_CLIENT_URLS": f"http://127.0.0.1:{self.client}",
            "ETCD_ADVERTISE_CLIENT_URLS": f"http://127.0.0.1:{self.client}", "ETCD_INITIAL_CLUSTER_STATE": state,
            "ETCD_INITIAL_CLUSTER": ",".join(f"s{s.number}=http://127.0.0.1:{s.seen}" for s in self.ensemble.servers),
        }
        own = {key: value for key, value in os.environ.items() if not key.startswith("ETCD_")}
        with open(self.log, "ab") as log:
            environment = {**own, **self.ensemble.environment, **{k: str(v) for k, v in here.items()}}
            self.process = subprocess.Popen(["etcd"], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            preexec_fn=die_with_parent, env=environment)

    def kill(self, how=signal.SIGKILL):
        if self.process:
            self.process.send_signal(how)
            if how == signal.SIGKILL:
                self.process.wait()
                self.process = None

    def status(self):
        try:
            return ask(self.client, "maintenance/status", {}, 0.5)
        except OSError:
            return {}

    def id(self):
        """As etcd writes it: hexadecimal."""
        return f"{int(self.status()['header']['member_id']):x}"


class Etcd(Lifecycle):
    """servers of etcd with the same environment. Use it with 'with'."""

    def __init__(self, directory, environment, servers=3, wires=False):
        self.dir, self.environment = Path(directory), environment
        shutil.rmtree(self.dir, ignore_errors=True)
        self.dir.mkdir(parents=True)
        self.wires = PeerWires() if wires else None
        self.servers = []
        for number in range(1, servers + 1):
            self.servers.append(Server(self, number))
        for s in self.servers if wires else ():
            self.wires.listen_for(s.seen, s.number, s.peer)

    def wait_whole(self, timeout=60):
        """Until all servers have the same leader and what it has written; the leader."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            self.all_run()
            all_of = [s.status() for s in self.servers]
            leaders = {one.get("leader", "0") for one in all_of}
            ids = [one.get("header", {}).get("member_id") for one in all_of]
            level = len({one.get("raftIndex") for one in all_of}) == 1
            if len(leaders) == 1 and level and leaders <= set(ids):
                return self.servers[ids.index(leaders.pop())]
            time.sleep(0.05)
        raise RuntimeError(f"the ensemble did not come up; see {self.dir}")

    def isolate(self, server):
        self.wires.cut = {server.number, server.id()}

    def heal(self):
        self.wires.cut = set()
