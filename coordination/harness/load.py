"""Clients that write and read, what they record, and how a run of theirs ends.

A write sets a node and makes another below it with the written value as its name, both or neither: the node's log.
"""
import logging
import random
import struct
import threading
import time
from collections import Counter
from dataclasses import replace

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, KazooException, NodeExistsError, OperationTimeoutError, SessionExpiredError
from kazoo.handlers.threading import KazooTimeoutError

import wire
from history import End, Op, Stay, check

CLIENTS = 4
# How the names of nodes begin that go with their sessions; they are below the first node of a run.
STAY = "stay."
logging.getLogger("kazoo").setLevel(logging.CRITICAL)


class Client(threading.Thread):
    """One client in a loop: a write, a read or a sync of one of two nodes, recorded. A session that ends begins another client."""

    def __init__(self, name, hosts, session_s=6, answer_s=4, pause_s=0.01):
        super().__init__(daemon=True)
        self.name_, self.random, self.answer_s, self.pause_s = name, random.Random(), answer_s, pause_s
        self.zk = KazooClient(hosts, timeout=session_s, connection_retry={"max_delay": 0.1, "delay": 0.02, "max_tries": -1}, randomize_hosts=True)
        self.zk.start(30)
        self.ports = [int(host.split(":")[1]) for host in hosts.split(",")]
        self.ops, self.stays, self.nodes, self.count, self.stopped, self.busy = [], [], [], 0, False, False

    def session(self):
        """Kazoo's own word for it: what it shows in public is nothing while it is not connected."""
        return f"{self.name_}/{self.zk._session_id or 0:x}"

    def run(self):
        here = lived = None
        while not self.stopped:
            self.busy = True
            nodes = self.nodes
            if nodes:
                if (here, lived) != (nodes, self.session()):
                    here, lived = nodes, self.session()
                    self.stay(nodes[0])
                if self.random.random() < 0.02:
                    self.visit(nodes[0])
                self.one(self.random.choice(nodes))
            self.busy = False
            time.sleep(self.random.random() * self.pause_s if nodes else 0.01)

    def server(self):
        """The port of the server it is connected to, None where it is not."""
        try:
            return self.zk._connection._socket.getpeername()[1]
        except (OSError, AttributeError):
            return None

    def write(self, node, value):
        transaction = self.zk.transaction()
        transaction.set_data(node, value.encode())
        transaction.create(f"{node}/{value}")
        results = transaction.commit_async().get(timeout=self.answer_s)
        for error in (r for r in results if isinstance(r, Exception)):
            raise error
        return results[0]

    def one(self, node):
        self.count += 1
        chance = self.random.random()
        kind = "write" if chance < 0.5 else "sync" if chance < 0.58 else "read"
        session, server = self.session(), self.server()
        op = Op(session, kind, node, f"{self.name_}.{self.count}" if kind == "write" else "", time.monotonic())
        self.ops.append(op)
        try:
            if kind == "write":
                stat = self.write(node, op.value)
            elif kind == "read":
                data, stat = self.zk.get_async(node).get(timeout=self.answer_s)
                op.value = data.decode()
            else:
                self.zk.sync_async(node).get(timeout=self.answer_s)
            # Of the last answer, which is this one: there is one request at a time.
            op.seen = self.zk.last_zxid
            if kind != "sync":
                op.version, op.zxid = stat.version, stat.mzxid
            op.end = time.monotonic()
            op.server = server if server == self.server() else None
        except (ConnectionLoss, SessionExpiredError, OperationTimeoutError, KazooTimeoutError):
            pass  # its outcome is unknown
        except KazooException:
            op.failed, op.end = True, time.monotonic()
        # A session that was lost is another client from then on, which what the last one saw does not bind; what was between is one
        # by itself.
        if self.session() != session:
            op.client = f"{session}, {self.count}"

    def _new_stay(self, session=""):
        self.count += 1
        self.stays.append(Stay(f"{STAY}{self.name_}.{self.count}", session))
        return self.stays[-1]

    def stay(self, node):
        """A node that goes with this session."""
        session = self.session()
        stay = self._new_stay(session)
        try:
            self.zk.create_async(f"{node}/{stay.name}", ephemeral=True).get(timeout=self.answer_s)
            stay.made = True
        except (KazooException, KazooTimeoutError):
            pass
        if self.session() != session:
            stay.session, stay.made = "", False

    def visit(self, node):
        """A session of its own, which is closed, or left to expire."""
        stay, leaves = self._new_stay(), self.random.random() < 0.3
        try:
            session = wire.Session(self.random.choice(self.ports), self.answer_s, 400 if leaves else 3000)
            try:
                session.create(f"{node}/{stay.name}", flags=1)
                stay.over = "expired"
                if not leaves and session.call(-11, b"")[1] == 0:
                    stay.over = "closed"
            finally:
                session.drop()
        except (wire.Refused, struct.error):
            stay.over = "expired"

    def lives(self):
        """Whether its session is one that still answers; the session."""
        session = self.session()
        try:
            self.zk.exists_async("/").get(timeout=self.answer_s)
            return session == self.session(), session
        except (KazooException, KazooTimeoutError):
            return False, session


def recorded(clients, nodes, offsets):
    """As it is now: an answer that comes while the ends are read must not make them look older than it."""
    return [replace(op) for c, n in zip(clients, offsets) for op in c.ops[n:] if op.node in nodes]


def lingering(clients, offsets):
    """Nodes that go with sessions, from when the clients began a run. To be called when the ends were read."""
    stays = []
    for c, n in zip(clients, offsets):
        answers, session = c.lives()
        for s in c.stays[n:]:
            over = s.over or ("" if not s.session or s.session.endswith("/0") else "expired" if s.session != session else "lives" if answers else "")
            stays.append(replace(s, over=over))
    return stays


def look(names, version, zxid, value):
    """What a node is, its children among it."""
    return End(version, zxid, value, frozenset(n for n in names if not n.startswith(STAY)), frozenset(n for n in names if n.startswith(STAY)))


def judge(clients, zk, nodes, offsets):
    """Ends a run: what clients recorded on these nodes, against the ends of the nodes."""
    time.sleep(0.2)
    ops = recorded(clients, nodes, offsets)
    final = {}
    for node in nodes:
        for _ in range(100):
            try:
                zk.sync(node)
                data, stat = zk.get(node)
                names = zk.get_children(node)
                break
            except (KazooException, KazooTimeoutError):
                time.sleep(0.2)
        final[node] = look(names, stat.version, stat.mzxid, data.decode())
    return ops, check(ops, final)


def quiesce(clients):
    for c in clients:
        c.nodes = []
    time.sleep(0.05)
    end = time.monotonic() + 10
    while time.monotonic() < end and any(c.busy for c in clients):
        time.sleep(0.02)


def make_nodes(zk, run, timeout=40):
    """Raises KazooTimeoutError or a KazooException where an ensemble that serves takes no write for so long."""
    nodes, end = [f"/r{run}a", f"/r{run}b"], time.monotonic() + timeout
    for node in nodes:
        while True:
            try:
                zk.create_async(node, b"").get(timeout=4)
                break
            except NodeExistsError:
                break
            except (KazooException, KazooTimeoutError):
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)
    return nodes


def start_clients(hosts, **options):
    clients = [Client("pqrstuvw"[i], hosts, **options) for i in range(CLIENTS)]
    for c in clients:
        c.start()
    return clients


def count(ops):
    """What a run came to, by kind."""
    answered = [o for o in ops if o.end is not None and not o.failed]
    return Counter(writes=sum(o.kind == "write" for o in answered), reads=sum(o.kind == "read" for o in answered),
                   syncs=sum(o.kind == "sync" for o in answered),
                   unknown=sum(o.kind == "write" and o.end is None for o in ops), failed=sum(o.failed for o in ops))
