"""Scenarios that aim at one law each: the traces by which the model (coordination/model) shows what an epoch that is forgotten does, and
what a disk that fails for a moment does. They are for three voters; a correct server passes them, whatever the moment of the power loss.
"""
import errno
import time


def _until(c, what, timeout=8.0, every=0.001):
    """Whether it comes to be in time; a scenario that cannot go on is over."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        c.watch.look()
        if what():
            return True
        time.sleep(every)
    return False


def _established(c, among, after):
    """The server of some that has a quorum since there were so many epochs, or None."""
    number = next((n for _, n in c.watch.established[after:] if n in {s.number for s in among}), None)
    return next((s for s in among if s.number == number), None)


def _only(c, a, b):
    """The third is cut off; these two reach each other."""
    c.e.heal()
    c.e.isolate(next(s for s in c.e.servers if s not in (a, b)))


def _lead(c, among, timeout=8.0):
    """Waits for a new epoch of two servers: its leader and the other one, or None."""
    after = len(c.watch.established)
    if not _until(c, lambda: _established(c, among, after), timeout):
        return None
    leader = _established(c, among, after)
    return leader, next(s for s in among if s is not leader)


def _revive(c, s):
    if s not in c.alive():
        c.start(s)


def forgotten_promise(c):
    """{L, F} promise an epoch; F loses its power; {F, X} establish another while L, cut off, has logged the first of its own.
    F may be one that has just started, and has reserved nothing."""
    leader = c.target("leader")
    x, f = c.rng.sample([s for s in c.e.servers if s is not leader], 2)
    c.e.isolate(x)
    c.e.part(leader, f)
    if c.rng.random() < 0.4:
        f.kill()
        c.start(f)
    _until(c, lambda: all(c.watch.phase(s) == "looking" for s in c.e.servers))
    after = len(c.watch.established)
    # Reservations, where there are any, are still on their way to the disk.
    for s in (leader, f):
        c.e.machines[s].set("slow_us", c.rng.choice([0, 30_000, 300_000]))
    _only(c, leader, f)
    if _until(c, lambda: _established(c, (leader, f), after)):
        first = _established(c, (leader, f), after)
        second = f if first is leader else leader
        # What it proposes now is in its own log alone.
        c.e.wires.cut.add((first.number, second.number))
        time.sleep(c.rng.random() * 0.2)
        c.strike("power", second, least=True)
        c.e.machines[second].mend()
        _only(c, second, x)
        _revive(c, second)
        _lead(c, (second, x))
        time.sleep(0.3)
    for machine in c.e.machines.values():
        machine.mend()
    c.e.heal()


def forgotten_entry(c):
    """t is in L's log alone. {X, Y} enter an epoch, which Y forgets; {L, Y} enter the next, and a client reads t; Y forgets that too;
    {X, Y} elect, and the elected leader must have t."""
    left = c.target("leader")
    c.e.mute(left)
    time.sleep(0.1 + c.rng.random() * 0.2)
    c.e.isolate(left)
    pair = [s for s in c.e.servers if s is not left]
    made = _lead(c, pair)
    if made:
        x, y = made
        time.sleep(c.rng.choice([0, 0, 0.02, 0.1]))
        c.strike("power", y, least=True)
        _only(c, left, y)
        _revive(c, y)
        if _lead(c, (left, y)):
            time.sleep(c.rng.choice([0, 0.1, 0.4]))
            c.strike("power", y, least=True)
            _only(c, x, y)
            _revive(c, y)
            _lead(c, (x, y))
            time.sleep(0.3)
    c.e.heal()


def _unforced(c, fail):
    """F comes back, and its disk fails for a moment while it takes over what it missed. {L, F} acknowledge; L is lost, F loses its
    power: what they acknowledged must be in F's log."""
    leader = c.target("leader")
    f, other = c.rng.sample([s for s in c.e.servers if s is not leader], 2)
    c.strike("kill", f)
    # What is missed takes some pages.
    time.sleep(1 + c.rng.random())
    fail(c.e.machines[f])
    told = len(f.text())
    c.start(f)
    _until(c, lambda: "IOException" in f.text()[told:] or f not in c.alive(), 15, 0.02)
    time.sleep(c.rng.choice([0, 0.2]))
    c.e.machines[f].mend()

    def follows():
        # It may end by itself as late as now.
        _revive(c, f)
        return f.mode() == "follower"

    if _until(c, follows, 20, 0.02) and leader in c.alive():
        c.e.isolate(other)
        # Until then what L sent would reach it as soon as it can be reached.
        _until(c, lambda: c.watch.phase(other) == "looking")
        begin = time.monotonic()
        _until(c, lambda: any(o.kind == "write" and o.version and o.start > begin for client in c.clients for o in client.ops[-9:]), every=0.02)
        time.sleep(0.3 + c.rng.random() * 0.5)
        c.strike("kill", leader)
        c.strike("power", f, least=True)
        c.e.heal()
        _revive(c, f)
        _lead(c, (f, other))
        time.sleep(0.3)
    c.e.heal()


def full_log(c):
    """There is room for the name of its new log, and none for what is in it."""
    _unforced(c, lambda machine: machine.set("write_errno", errno.ENOSPC))


def dropped_log(c):
    """Its log cannot be forced, and the kernel drops what was to be written."""
    _unforced(c, lambda machine: machine.set("sync_errno", errno.EIO))


SCENARIOS = {"forgotten-promise": forgotten_promise, "forgotten-entry": forgotten_entry, "full-log": full_log, "dropped-log": dropped_log}


def choose(rng, kind):
    """Every tenth run of three voters is of a scenario."""
    return rng.choice(list(SCENARIOS)) if kind in ("three", "tls", "overlap") and rng.random() < 0.1 else None
