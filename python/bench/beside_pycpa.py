"""Bounds of message paths beside compositional performance analysis in Python, in one process, on the same random chains.

beside_pycpa.py [CHAINS]

The other side is pycpa's analysis as tests/compositional.py has it (by busy windows, and over the windows of all stages), whose
bounds ours must not be above; pycpa itself is timed where it is installed. Chains are asked for in blocks, both sides in turns:
pycpa one after the other, ours with one call of giusto.analyze.each on one thread, and one by one. Gate: 50 times as fast as
pycpa either way, the median of blocks. Exit: 0 held, 1 not, 77 pycpa is not there.
"""

import math
import random
import statistics
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import giusto

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
import compositional
import curves_agree

GATE = 50
BLOCK = 20


def question(arrival, stages):
    """A chain as giusto.analyze.path is asked for it."""
    words = []
    for budget, cycle, least, most in stages:
        service = f"{most}ns" if least == most else f"{least}ns*50%,{most}ns"
        words.append(f"periodic:{budget}ns/{cycle}ns:{service}" if cycle else f"core:{service}")
    period, jitter, distance = arrival
    return {"stages": words, "period": period, "jitter": jitter or None, "distance": distance or None}


def together(asked):
    over = {name: [each[name] for each in asked] for name in asked[0]}
    return giusto.analyze.each(giusto.analyze.path, over, zipped=True, threads=1, strict=True)


def one_by_one(asked):
    return [giusto.analyze.path(**each) for each in asked]


def timed(call, *given):
    start = time.perf_counter()
    result = call(*given)
    return result, time.perf_counter() - start


def chains(rng, count):
    """So many of which the other side is done in time, each with its least bound."""
    found = []
    while len(found) < count:
        case = curves_agree.draw_chain(rng)
        times, sums = compositional.local(*case, compositional.by_windows)
        if math.prod(map(len, times)) <= 5000:
            found.append((case, min(sum(sums), compositional.chain(case[0], times))))
    return found


def main(count):
    rng, ratios, alone, above = random.Random(5), [], [], 0
    pycpa = find_spec("pycpa") is not None
    for _ in range(count // BLOCK):
        block = chains(rng, BLOCK)
        asked = [question(*case) for case, _ in block]
        mine, took = timed(together, asked)
        above += sum(answer.every.within_ns > least for answer, (_, least) in zip(mine, block))
        if pycpa:
            theirs = sum(timed(curves_agree.pycpa_of_chain, *case, "busy_window", True)[1] for case, _ in block)
            ratios.append(theirs / took)
            alone.append(theirs / timed(one_by_one, asked)[1])
    print(f"{count // BLOCK * BLOCK} chains: {above} above")
    if not pycpa:
        print("pycpa is not installed; its speed was not compared")
        return 1 if above else 77
    ratio, spread = statistics.median(ratios), f"{min(ratios):,.0f} to {max(ratios):,.0f}"
    single = statistics.median(alone)
    one = f"asked one by one {single:,.0f}, {min(alone):,.0f} to {max(alone):,.0f}"
    print(f"beside pycpa {ratio:,.0f} times as fast (median of blocks of {BLOCK}, {spread}; {one}; gate: >= {GATE})")
    return int(min(ratio, single) < GATE or above > 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 200))
