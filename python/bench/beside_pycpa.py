"""Bounds of message paths beside compositional performance analysis in Python, in one process, on the same random chains.

beside_pycpa.py [CHAINS]

The other side is pycpa's analysis as tests/compositional.py has it (by busy windows, and over the windows of all stages); pycpa
itself is timed as well where it is installed. Ours must not be above either. Gate: 50 times as fast, the median. Exit: 0 held,
1 not.
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


def ours(arrival, stages):
    words = []
    for budget, cycle, least, most in stages:
        service = f"{most}ns" if least == most else f"{least}ns*50%,{most}ns"
        words.append(f"periodic:{budget}ns/{cycle}ns:{service}" if cycle else f"core:{service}")
    period, jitter, distance = arrival
    return giusto.analyze.path(words, period=period, jitter=jitter or None, distance=distance or None).every


def timed(call, *given):
    start = time.perf_counter()
    result = call(*given)
    return result, time.perf_counter() - start


def main(count):
    pycpa = find_spec("pycpa") is not None
    rng, ratios, real, above = random.Random(5), [], [], 0
    for _ in range(count):
        case = curves_agree.draw_chain(rng)
        mine, my_time = timed(ours, *case)
        (found, times), their_time = timed(compositional.local, *case, compositional.by_windows)
        if math.prod(map(len, found)) > 5000:
            continue
        whole, more = timed(compositional.chain, case[0], found)
        above += mine.within_ns > min(sum(times), whole)
        ratios.append((their_time + more) / my_time)
        if pycpa:
            real.append(timed(curves_agree.pycpa_of_chain, *case, "busy_window", True)[1] / my_time)
    ratio = statistics.median(ratios)
    print(f"{len(ratios)} chains: {above} above; beside the analysis alone, in Python, {ratio:.1f} times as fast (median)")
    if not real:
        print("pycpa is not installed; its speed was not compared")
        return 1 if above else 77
    ratio = statistics.median(real)
    print(f"beside pycpa {ratio:,.0f} times as fast (median; gate: >= {GATE})")
    return int(ratio < GATE or above > 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 200))
