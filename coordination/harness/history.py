"""What clients saw, and whether ZooKeeper could have shown it.

Operations on single nodes: writes, reads and syncs. ZooKeeper promises that writes are linearizable and that each client's operations
happen in its order, with reads that may be old but never go back. Every answer carries the node's version and the mzxid of the write
it shows, and in its header the zxid up to which its server was, which makes the check exact and cheap: the writes of a node are
ordered by version, so there is nothing to search for. A write also leaves its value in the node's log (load.py), so that at the end it
is known of each whether it happened.

Laws, for each node:
 1. two successful writes never have the same version, and versions follow zxids;
 2. a write that was answered or read before another was sent has the smaller version (linearizable in real time);
 3. a read shows a value of a write whose version it shows (acknowledged, or of unknown outcome), never one of a write that
    failed, and a version's value is one value, with one zxid;
 4. at the end the log has each write that was acknowledged or read, none that failed or was never sent, and as many as its
    version says: who takes the place of a lost write does not hide it;
 5. within a session the versions a client sees never go back, not even below its own writes;
 6. a read never shows a version before the write that made it was sent;
 7. nor is a version that a client read missing at the end.
And of all nodes together:
 8. a session never sees less than it saw: the zxids of its answers do not go back, and a read shows every write up to the last zxid
    that its session was told, on whatever node;
 9. a sync brings a follower or an observer up to all that any answer showed before the sync was sent. A leader that has lost its quorum
    and does not know it yet still answers (stock asks no quorum), so this holds of zxids up to the epoch in which the sync was
    answered; and a leader's own clients wait for nothing, while a follower may have shown what the leader still has to apply;
10. servers that are told to catch up show the same (agree());
11. a node of a session that was closed or has expired is gone at the end, one of a session that lives is there (lifetimes());
12. an epoch is established once (epochs_once()).
"""
from collections import defaultdict
from dataclasses import dataclass


@dataclass
class Op:
    """One operation: times are of one clock; end is None where no answer came (its outcome is unknown)."""
    client: str
    kind: str            # "write", "read" or "sync"
    node: str
    value: str           # written or read
    start: float
    end: float = None
    version: int = None  # of the node after it
    zxid: int = None     # mzxid after it
    failed: bool = False  # answered with an error that means nothing happened
    seen: int = None     # up to which zxid its server was when it answered
    server: int = None   # which answered, where that is known


@dataclass(frozen=True)
class End:
    """A node after everything; its log has the value of each write that happened, in any order."""
    version: int
    zxid: int
    value: str
    log: frozenset
    stays: frozenset = frozenset()  # the names of nodes below it that go with their sessions

    def differs(self, other):
        only = sorted((self.log ^ other.log) | (self.stays ^ other.stays))
        return f"{self.version, self.value} and {other.version, other.value}" + (f", one alone has {', '.join(only[:9])}" if only else "")


@dataclass
class Stay:
    """A node that goes with its session."""
    name: str
    session: str = ""
    made: bool = False  # the server said so
    over: str = ""      # "closed" or "expired" as the server said; "lives" if it answered after the end was read; "": unknown


def check(ops, final=None, leaders=None):
    """Violations as texts; none where the history is fine. final: node -> End, read after everything, if known. leaders: (epoch, server)
    of all epochs; if this is None, syncs are not judged."""
    bad = []
    for node in sorted({op.node for op in ops}):
        bad += _node(node, [op for op in ops if op.node == node], (final or {}).get(node))
    answered = [o for o in ops if o.end is not None and not o.failed]
    return bad + _sessions(answered) + (_syncs(answered, leaders) if leaders is not None else [])


def agree(ends):
    """ends: server -> node -> End, all servers having caught up."""
    first, *others = sorted(ends)
    return [f"{node}: servers {first} and {s} show {ends[first][node].differs(ends[s][node])}"
            for s in others for node in sorted(ends[s]) if ends[s][node] != ends[first][node]]


def lifetimes(stays, there):
    """there: the names of such nodes at the end, when sessions had time to expire."""
    bad = [f"{name} is there, which no session made" for name in sorted(there - {s.name for s in stays})]
    for s in stays:
        if s.over in ("closed", "expired") and s.name in there:
            bad.append(f"{s.name} is there, its session was {s.over}")
        if s.over == "lives" and s.made and s.name not in there:
            bad.append(f"{s.name} is gone, its session lives")
    return bad


def epochs_once(established):
    """established: (epoch, server), one for each time a leader had a quorum in an epoch."""
    leaders = defaultdict(list)
    for epoch, server in established:
        leaders[epoch].append(server)
    return [f"epoch {epoch} was established {len(who)} times, by servers {', '.join(map(str, who))}"
            for epoch, who in sorted(leaders.items()) if len(who) > 1]


def _sessions(answered):
    """Law 8."""
    bad = []
    shown = [o for o in answered if o.kind != "sync"]
    writes = {node: sorted({(o.zxid, o.version) for o in shown if o.node == node}) for node in {o.node for o in shown}}
    sessions = defaultdict(list)
    for o in answered:
        sessions[o.client].append(o)
    for client, own in sessions.items():
        seen = 0
        for o in sorted(own, key=lambda o: o.start):
            missed = [v for z, v in writes[o.node] if o.zxid < z <= seen] if o.kind == "read" else []
            if missed:
                bad.append(f"{o.node}: {client} saw zxid {seen:#x}, then version {o.version}, when version {missed[-1]} was part of it")
            if o.seen < seen:
                bad.append(f"{o.node}: {client} was at zxid {seen:#x}, then at {o.seen:#x}")
            seen = max(seen, o.seen)
    return bad


def _syncs(answered, leaders):
    """Law 9."""
    bad = []
    for sync in (o for o in answered if o.kind == "sync" and o.server and (o.seen >> 32, o.server) not in leaders):
        before = max((o.seen for o in answered if o.end < sync.start and o.seen >> 32 <= sync.seen >> 32), default=0)
        if before > sync.seen:
            bad.append(f"{sync.node}: a sync of {sync.client} came to zxid {sync.seen:#x}, when {before:#x} had been shown before it was sent")
    return bad


def _node(node, ops, final):
    bad = []
    done = sorted((o for o in ops if o.kind == "write" and o.end is not None and not o.failed), key=lambda o: o.version)
    unknown = {o.value: o for o in ops if o.kind == "write" and o.end is None}
    failed = {o.value for o in ops if o.failed}
    reads = [o for o in ops if o.kind == "read" and o.end is not None and not o.failed]
    at_end = [Op("final", "read", node, final.value, float("inf"), float("inf"), final.version, final.zxid)] if final else []
    values, zxids = {}, {}
    for o in done:
        if o.version in values and values[o.version] != o.value:
            bad.append(f"{node}: version {o.version} was given to two writes, {values[o.version]} and {o.value}")
        values[o.version] = o.value
    for o in done + reads + at_end:
        if zxids.setdefault(o.version, o.zxid) != o.zxid:
            bad.append(f"{node}: version {o.version} has zxid {zxids[o.version]:#x}, {o.client} was shown {o.zxid:#x}")
    ordered = sorted(zxids.items())
    for (a, x), (b, y) in zip(ordered, ordered[1:]):
        if x >= y:
            bad.append(f"{node}: version {b} has zxid {y:#x}, version {a} before it {x:#x}")
    # The earliest answer that shows a later version must not lie before the start of an earlier write.
    earliest = None
    for o in sorted(done + reads, key=lambda o: (o.version, o.kind == "write"), reverse=True):
        if earliest is not None and o.kind == "write" and earliest.end < o.start:
            how = "acknowledged" if earliest.kind == "write" else "read"
            bad.append(f"{node}: {o.value} (version {o.version}) was sent after {earliest.value} (version {earliest.version}) was {how}")
        if earliest is None or o.end < earliest.end:
            earliest = o
    acknowledged = {o.value: o for o in done}
    for o in reads + at_end:
        if o.version in values and values[o.version] != o.value:
            bad.append(f"{node}: version {o.version} is {values[o.version]} and {o.value}")
        elif o.version > 0:
            values[o.version] = o.value
            writer = acknowledged.get(o.value) or unknown.get(o.value)
            if o.value in failed or writer is None:
                bad.append(f"{node}: {o.client} read {o.value}, which {'failed' if o.value in failed else 'no client wrote'}")
            elif writer.version not in (None, o.version):
                bad.append(f"{node}: {o.client} read {o.value} as version {o.version}, it was acknowledged as {writer.version}")
            elif writer.start > o.end:
                bad.append(f"{node}: {o.client} read {o.value} before it was sent")
    if final:
        bad += _end(node, final, done, reads, unknown, failed)
    sessions = defaultdict(list)
    for o in reads + done:
        sessions[o.client].append(o)
    for client, own in sessions.items():
        last = None
        for o in sorted(own, key=lambda o: o.start):
            if last is not None and last.end <= o.start and o.version < last.version:
                bad.append(f"{node}: {client} saw version {last.version}, then {o.version}")
            last = o if last is None or o.version >= last.version else last
    return bad


def _end(node, final, done, reads, unknown, failed):
    """Laws 4 and 7."""
    bad = []
    for shown, how in ((reads, "read"), (done, "acknowledged")):
        newest = max(shown, key=lambda o: o.version, default=None)
        if newest and newest.version > final.version:
            bad.append(f"{node}: version {newest.version} ({newest.value}) was {how} and is lost: at the end it is version {final.version}")
        lost = sorted({o.version: o.value for o in shown if o.version > 0 and o.value not in final.log}.items())
        if lost:
            bad.append(f"{node}: not in the log is what was {how}: {', '.join(f'version {v} ({value})' for v, value in lost[:9])}")
    for value in sorted(final.log - {o.value for o in done} - set(unknown)):
        bad.append(f"{node}: in the log is {value}, which {'failed' if value in failed else 'no client sent'}")
    if len(final.log) != final.version:
        bad.append(f"{node}: at the end it is version {final.version}, with {len(final.log)} writes in its log")
    return bad
