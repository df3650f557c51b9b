"""Clients that write and read, what they record, and how a run of theirs ends."""
import logging
import random
import threading
import time
from collections import Counter
from dataclasses import replace

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, KazooException, OperationTimeoutError, SessionExpiredError
from kazoo.handlers.threading import KazooTimeoutError

from history import Op, check

CLIENTS = 4
logging.getLogger("kazoo").setLevel(logging.CRITICAL)


class Client(threading.Thread):
    """One client in a loop: a write or a read of one of two nodes, recorded. A session that ends begins another client."""

    def __init__(self, name, hosts, session_s=6, answer_s=4, pause_s=0.01):
        super().__init__(daemon=True)
        self.name_, self.random, self.answer_s, self.pause_s = name, random.Random(), answer_s, pause_s
        self.zk = KazooClient(hosts, timeout=session_s, connection_retry={"max_delay": 0.1, "delay": 0.02, "max_tries": -1}, randomize_hosts=True)
        self.zk.start(30)
        self.ops, self.nodes, self.count, self.stopped = [], [], 0, False

    def session(self):
        return f"{self.name_}/{self.zk.client_id[0] if self.zk.client_id else 0:x}"

    def run(self):
        while not self.stopped:
            nodes = self.nodes
            if not nodes:
                time.sleep(0.01)
                continue
            self.one(self.random.choice(nodes))
            time.sleep(self.random.random() * self.pause_s)

    def one(self, node):
        self.count += 1
        write = self.random.random() < 0.5
        session = self.session()
        op = Op(session, "write" if write else "read", node, f"{self.name_}.{self.count}" if write else "", time.monotonic())
        self.ops.append(op)
        try:
            if write:
                stat = self.zk.set_async(node, op.value.encode()).get(timeout=self.answer_s)
            else:
                data, stat = self.zk.get_async(node).get(timeout=self.answer_s)
                op.value = data.decode()
            op.version, op.zxid = stat.version, stat.mzxid
            op.end = time.monotonic()
        except (ConnectionLoss, SessionExpiredError, OperationTimeoutError, KazooTimeoutError):
            pass  # its outcome is unknown
        except KazooException:
            op.failed, op.end = True, time.monotonic()
        # A session that was lost is another client from then on, which what the last one saw does not bind; what was between is one
        # by itself.
        if self.session() != session:
            op.client = f"{session}, {self.count}"


def recorded(clients, nodes, offsets):
    """As it is now: an answer that comes while the ends are read must not make them look older than it."""
    return [replace(op) for c, n in zip(clients, offsets) for op in c.ops[n:] if op.node in nodes]


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
                break
            except (KazooException, KazooTimeoutError):
                time.sleep(0.2)
        final[node] = (stat.version, data.decode())
    return ops, check(ops, final)


def quiesce(clients):
    for c in clients:
        c.nodes = []
    time.sleep(0.05)
    end = time.monotonic() + 6
    while time.monotonic() < end and any(c.ops and c.ops[-1].end is None for c in clients):
        time.sleep(0.05)


def make_nodes(zk, run):
    nodes = [f"/r{run}a", f"/r{run}b"]
    for node in nodes:
        for _ in range(100):
            try:
                if not zk.exists(node):
                    zk.create(node, b"")
                break
            except (KazooException, KazooTimeoutError):
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
                   unknown=sum(o.kind == "write" and o.end is None for o in ops), failed=sum(o.failed for o in ops))
