"""Bounds of message paths beside real-time calculus on sampled curves with NumPy, in one process, on the same random chains.

beside_rtc.py [CHAINS]

The other side is what tools of modular performance analysis do (Thiele, Chakraborty and Naedele 2000; Wandeler 2006): the arrival
curve goes through one greedy processing component after the other; each delays by the greatest horizontal distance between demand
and service, and passes on arrival ⊘ service. Curves are 1,000 samples long to either side of a busy window, rounded to the safe
side. Ours must not be above. Chains as in beside_pycpa.py. Gate: 50 times as fast, the median of blocks. Exit: 0 held, 1 not.
"""

import random
import statistics
import sys

import numpy
from beside_pycpa import BLOCK, GATE, chains, question, timed, together

SAMPLES = 1000


def served(budget, cycle, wcet, at):
    """Messages that a slot of ``budget`` in every ``cycle`` is sure to finish in windows of these lengths."""
    whole, rest = at // cycle, at % cycle
    return (whole * budget + numpy.maximum(0, rest - (cycle - budget))) // wcet


def arrivals(arrival, at):
    """The most that come in windows of these lengths, ends included."""
    period, jitter, distance = arrival
    most = (at + jitter) // period + 1
    return numpy.minimum(most, at // distance + 1) if distance else most


def within(arrival, stages, step):
    """The sum of the delays; ``None``: a busy window is longer than the samples."""
    at = step * numpy.arange(SAMPLES * (len(stages) + 1), dtype=numpy.int64)
    coming, total = arrivals(arrival, at + step), 0
    for budget, cycle, _, most in stages:
        service = served(budget or 1, cycle or 1, most, at[:SAMPLES])
        if coming[SAMPLES - 1] > service[-1]:
            return None
        ends = numpy.searchsorted(service, coming[:SAMPLES], side="left")
        total += step * int((ends - numpy.arange(SAMPLES)).max())
        ahead = numpy.lib.stride_tricks.sliding_window_view(coming, SAMPLES)[1:]
        coming = (ahead - service).max(axis=1)
    return total


def alone(arrival, stages, scale):
    """With samples as dense as a busy window allows; ``scale`` is how far the search for that begins."""
    step = max(1, scale // SAMPLES)
    while (found := within(arrival, stages, step)) is None:
        step *= 2
    return found


def main(count):
    rng, ratios, above, looser = random.Random(7), [], 0, []
    for _ in range(count // BLOCK):
        block = [case for case, _ in chains(rng, BLOCK)]
        mine, took = timed(together, [question(*case) for case in block])
        scales = [2 * max(period, jitter, *(cycle or 1 for _, cycle, _, _ in stages)) for (period, jitter, _), stages in block]
        theirs, their_time = timed(lambda: [alone(*case, scale) for case, scale in zip(block, scales)])  # noqa: B023
        for answer, bound in zip(mine, theirs):
            above += answer.every.within_ns > bound
            looser.append(bound / answer.every.within_ns - 1)
        ratios.append(their_time / took)
    ratio, spread = statistics.median(ratios), f"{min(ratios):,.0f} to {max(ratios):,.0f}"
    more = f"which is looser by {100 * statistics.median(looser):.0f} % (median)"
    print(f"{len(looser)} chains: {above} above real-time calculus, {more}")
    print(f"beside real-time calculus {ratio:,.0f} times as fast (median of blocks of {BLOCK}, {spread}; gate: >= {GATE})")
    return int(ratio < GATE or above > 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 200))
