"""What a silent loss costs, and what a false alarm does: the leader is stopped, so that nothing is closed and nothing arrives, until
another serves; then for a while after which it goes on.

    python3 coordination/harness/silence.py [--ticks 2000x5,200x5,...] [--losses 3] [--arm giusto]

For each tick x syncLimit: the time from the stop to the first acknowledged write, and the longest time without a write around a pause of
the leader of half, and of one and a half times, that long, with whether another leader was elected.
"""
import argparse
import os
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

import wire
from ensemble import Ensemble

CONFIG = {"initLimit": 50, "giusto.features": "fcle,fqce,unanimous,snapshot"}


def until_write(servers, deadline_s):
    """Seconds until one of the servers acknowledges a write in a new session."""
    start = time.monotonic()
    while time.monotonic() < start + deadline_s:
        for s in servers:
            try:
                session = wire.Session(s.client, timeout=2)
                session.set("/written", b"x")
                session.drop()
                return time.monotonic() - start
            except wire.Refused:
                time.sleep(0.005)
    raise RuntimeError(f"no write for {deadline_s} s")


def loss(ensemble, limit):
    leader = ensemble.wait_whole()
    time.sleep(2)
    leader.kill(signal.SIGSTOP)
    seconds = until_write([s for s in ensemble.servers if s is not leader], 60 + 3 * limit)
    leader.kill(signal.SIGCONT)
    return seconds


def pause(ensemble, limit, factor):
    """The longest time without a write, and whether the leader is another one afterwards."""
    leader = ensemble.wait_whole()
    others = [s for s in ensemble.servers if s is not leader]
    time.sleep(2)
    leader.kill(signal.SIGSTOP)
    start = last = time.monotonic()
    longest, resumed = 0.0, False
    while time.monotonic() < start + factor * limit + 3:
        if not resumed and time.monotonic() > start + factor * limit:
            leader.kill(signal.SIGCONT)
            resumed = True
        try:
            session = wire.Session(others[0].client, timeout=min(0.2, limit))
            session.set("/written", b"x")
            session.drop()
            longest, last = max(longest, time.monotonic() - last), time.monotonic()
        except wire.Refused:
            pass
        time.sleep(0.01)
    if not resumed:
        leader.kill(signal.SIGCONT)
    return longest, ensemble.wait_whole() is not leader


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ticks", default="2000x5,200x5,100x4,50x4")
    parser.add_argument("--losses", type=int, default=3)
    parser.add_argument("--arm", default="giusto")
    args = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.0f}; all in ms, the largest in brackets\n{'tick x limit':>12} {'noticed after':>13} {'first write':>14} "
          f"{'a pause of half':>22} {'of one and a half':>22}")
    for text in args.ticks.split(","):
        tick, limit = map(int, text.split("x"))
        config = {**CONFIG, "tickTime": tick, "syncLimit": limit, "minSessionTimeout": 2 * tick, "maxSessionTimeout": 10000}
        seconds = tick * limit / 1000
        with tempfile.TemporaryDirectory() as directory, Ensemble(Path(directory), [args.arm] * 3, config) as ensemble:
            session = wire.Session(ensemble.wait_whole().client, timeout=30)
            session.create("/written", b"0")
            session.drop()
            losses = [1000 * loss(ensemble, seconds) for _ in range(args.losses)]
            cells = []
            for factor in (0.5, 1.5):
                longest, moved = pause(ensemble, seconds, factor)
                cells.append(f"{1000 * longest:.0f}, {'another leader' if moved else 'the same'}")
        print(f"{text:>12} {1000 * seconds:>13.0f} {f'{statistics.median(losses):.0f} ({max(losses):.0f})':>14} {cells[0]:>22} {cells[1]:>22}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
