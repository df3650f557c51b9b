"""The faults of the campaign. Each strikes a server and, when it is asked for the next time, is over; what was killed is started by the
campaign. What comes to nothing yields False."""
import errno
import signal


def kill(c, s):
    s.kill()
    yield


def stop(c, s):
    s.kill(signal.SIGSTOP)
    yield
    s.kill(signal.SIGCONT)


def _cut(c, pairs):
    c.e.wires.cut |= pairs
    yield
    c.e.wires.cut -= pairs


def cut_off(c, s):
    yield from _cut(c, {p for o in c.e.servers if o is not s for p in ((s.number, o.number), (o.number, s.number))})


def mute(c, s):
    yield from _cut(c, {(s.number, o.number) for o in c.e.servers if o is not s})


def deaf(c, s):
    yield from _cut(c, {(o.number, s.number) for o in c.e.servers if o is not s})


def one_way(c, s):
    pair = (s.number, c.rng.choice([o for o in c.e.servers if o is not s]).number)
    yield from _cut(c, {c.rng.choice([pair, pair[::-1]])})


def _set(c, s, control, value):
    c.e.machines[s].set(control, value)
    yield
    c.e.machines[s].set(control, 0)


def slow_disk(c, s):
    yield from _set(c, s, "slow_us", c.rng.choice([20_000, 100_000, 400_000]))


def _spared(c, s):
    """The stock server among ours: its log may have a gap after its disk failed, with which it starts no more (docs/decisions/0020)."""
    return s.arm == "stock" and any(o.arm != "stock" for o in c.e.servers)


def sync_fails(c, s):
    if _spared(c, s):
        yield False
        return
    yield from _set(c, s, "sync_errno", errno.EIO)


def disk_full(c, s):
    """No room for what files hold; for a new file's name there may be."""
    if _spared(c, s):
        yield False
        return
    c.e.machines[s].set("create_errno", c.rng.choice([0, errno.ENOSPC]))
    yield from _set(c, s, "write_errno", errno.ENOSPC)
    c.e.machines[s].set("create_errno", 0)


def power(c, s, least=False):
    c.e.lose_power([s], None if least else c.rng)
    yield


def power_all(c, s):
    c.e.lose_power(c.e.servers, c.rng)
    yield


def clock(c, s):
    yield from _set(c, s, "clock_ns", int(c.rng.choice([-1, 1]) * 10 ** c.rng.uniform(8, 12.5)))


def reconfig(c, s):
    yield c.e.remove(s)
    c.e.add()


FAULTS = {f.__name__.replace("_", "-"): f for f in (kill, stop, cut_off, mute, deaf, one_way, slow_disk, sync_fails, disk_full, power,
                                                    power_all, clock, reconfig)}
# Those after which an ensemble recovers, when they hit the leader.
OPENERS = ("kill", "kill", "stop", "cut-off", "mute", "deaf", "sync-fails", "disk-full", "power", "power", "power-all")
