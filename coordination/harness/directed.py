"""Scenarios that aim at one law each: the traces by which the model (coordination/model) shows what an epoch that is forgotten does.
They are for three voters; a correct server passes them, whatever the moment of the power loss.
"""
import time


def _until(c, what, timeout=8.0):
    """Whether it comes to be in time; a scenario that cannot go on is over."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        c.watch.look()
        if what():
            return True
        time.sleep(0.001)
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
    {X, Y} elect, and whoever leads must have t."""
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


SCENARIOS = {"forgotten-promise": forgotten_promise, "forgotten-entry": forgotten_entry}


def choose(rng, kind):
    """Every tenth run of three voters is of a scenario."""
    return rng.choice(list(SCENARIOS)) if kind in ("three", "tls", "overlap") and rng.random() < 0.1 else None
