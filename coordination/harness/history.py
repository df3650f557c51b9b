"""What clients saw, and whether ZooKeeper could have shown it.

Operations on single nodes: writes (set with an expected version, or without) and reads. ZooKeeper promises that writes are
linearizable and that each client's operations happen in its order, with reads that may be old but never go back. Every answer
carries the node's version and, for a successful write, its mzxid, which makes the check exact and cheap: the writes of a node
are ordered by version, so there is nothing to search for.

Laws, for each node:
 1. two successful writes never have the same version, and versions follow zxids;
 2. a write that was answered before another was sent has the smaller version (linearizable in real time);
 3. a read shows a value of a write whose version it shows (acknowledged, or of unknown outcome), never one of a write that
    failed, and a version's value is one value;
 4. no acknowledged write is missing: versions that nobody read or wrote may only belong to writes of unknown outcome;
 5. within a session the versions a client sees never go back, not even below its own writes;
 6. a read never shows a version before the write that made it was sent;
 7. nor is a version that somebody read missing at the end.
And of all nodes together:
 8. a session never sees less than it saw: a read shows every write up to the last zxid that its session saw, on whatever node;
 9. servers that are told to catch up show the same (agree());
10. an epoch is established once (epochs_once()).
"""
from collections import defaultdict
from dataclasses import dataclass


@dataclass
class Op:
    """One operation: times are of one clock; end is None where no answer came (its outcome is unknown)."""
    client: str
    kind: str            # "write" or "read"
    node: str
    value: str           # written or read
    start: float
    end: float = None
    version: int = None  # of the node after it
    zxid: int = None     # mzxid after it
    failed: bool = False  # answered with an error that means nothing happened


def check(ops, final=None):
    """Violations as texts; none where the history is fine. final: node -> (version, value) read after everything, if known."""
    bad = []
    for node in sorted({op.node for op in ops}):
        bad += _node(node, [op for op in ops if op.node == node], (final or {}).get(node))
    return bad + _sessions(ops)


def agree(ends):
    """ends: server -> node -> what it shows at the end, all servers having caught up."""
    first, *others = sorted(ends)
    return [f"{node}: server {first} shows {ends[first][node]}, server {s} {ends[s][node]}"
            for s in others for node in sorted(ends[s]) if ends[s][node] != ends[first][node]]


def epochs_once(established):
    """established: (epoch, server), one for each time a leader had a quorum in an epoch."""
    leaders = defaultdict(list)
    for epoch, server in established:
        leaders[epoch].append(server)
    return [f"epoch {epoch} was established {len(who)} times, by servers {', '.join(map(str, who))}"
            for epoch, who in sorted(leaders.items()) if len(who) > 1]


def _sessions(ops):
    """Law 8. An answer's zxid is that of the write it shows."""
    bad = []
    shown = [o for o in ops if o.end is not None and not o.failed and o.zxid is not None]
    writes = {node: sorted({(o.zxid, o.version) for o in shown if o.node == node}) for node in {o.node for o in shown}}
    sessions = defaultdict(list)
    for o in shown:
        sessions[o.client].append(o)
    for client, own in sessions.items():
        seen = 0
        for o in sorted(own, key=lambda o: o.start):
            missed = [v for z, v in writes[o.node] if o.zxid < z <= seen]
            if o.kind == "read" and missed:
                bad.append(f"{o.node}: {client} saw zxid {seen:#x}, then version {o.version}, when version {missed[-1]} was part of it")
            seen = max(seen, o.zxid)
    return bad


def _node(node, ops, final):
    bad = []
    done = sorted((o for o in ops if o.kind == "write" and o.end is not None and not o.failed), key=lambda o: o.version)
    unknown = {o.value: o for o in ops if o.kind == "write" and o.end is None}
    failed = {o.value for o in ops if o.failed}
    reads = [o for o in ops if o.kind == "read" and o.end is not None and not o.failed]
    values = {}
    for o in done:
        if o.version in values and values[o.version] != o.value:
            bad.append(f"{node}: version {o.version} was given to two writes, {values[o.version]} and {o.value}")
        values[o.version] = o.value
    for a, b in zip(done, done[1:]):
        if a.version < b.version and a.zxid >= b.zxid:
            bad.append(f"{node}: version {b.version} has zxid {b.zxid:#x}, version {a.version} before it {a.zxid:#x}")
    # The earliest answer among later versions must not lie before the start of an earlier one.
    earliest = None
    for o in reversed(done):
        if earliest is not None and earliest.end < o.start:
            bad.append(f"{node}: {o.value} (version {o.version}) was sent after {earliest.value} (version {earliest.version}) was acknowledged")
        if earliest is None or o.end < earliest.end:
            earliest = o
    acknowledged = {o.value: o for o in done}
    for o in reads + ([Op("final", "read", node, final[1], float("inf"), float("inf"), final[0])] if final else []):
        if o.version in values and values[o.version] != o.value:
            bad.append(f"{node}: version {o.version} is {values[o.version]} and {o.value}")
        elif o.version > 0:
            values[o.version] = o.value
            writer = acknowledged.get(o.value) or unknown.get(o.value)
            if o.value in failed or writer is None:
                bad.append(f"{node}: {o.client} read {o.value}, which {'failed' if o.value in failed else 'nobody wrote'}")
            elif writer.version not in (None, o.version):
                bad.append(f"{node}: {o.client} read {o.value} as version {o.version}, it was acknowledged as {writer.version}")
            elif writer.start > o.end:
                bad.append(f"{node}: {o.client} read {o.value} before it was sent")
    for o in reads if final else ():
        if o.version > final[0]:
            bad.append(f"{node}: version {o.version} ({o.value}) was read and is lost: at the end it is version {final[0]}")
            break
    if final and done and done[-1].version > final[0]:
        bad.append(f"{node}: version {done[-1].version} ({done[-1].value}) was acknowledged and is lost: at the end it is version {final[0]}")
    if final:
        # Every version up to the last is a write; those nobody saw must be covered by writes of unknown outcome.
        hidden = final[0] - len([v for v in values if 0 < v <= final[0]])
        free = sum(value not in values.values() for value in unknown)
        if hidden > free:
            bad.append(f"{node}: {hidden} versions are of writes nobody sent, {free} at most could be")
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
