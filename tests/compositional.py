"""Compositional performance analysis of a chain, written here from the literature, to be compared with.

Each stage is analysed alone, by its busy windows (Lehoczky 1990; Richter 2005, equations 2.3 to 2.5): busy(k) is the longest
that k messages take from the beginning of a busy window on. What leaves is passed on as the least distances of messages, by
response time jitter (Richter 2005, equation 4.6) or, closer, by busy windows (Schliecker et al. 2008, theorems 1 to 3), and never
below the least service time apart. A chain takes the sum of its worst response times at most (Richter 2005, definition 7.3), and
no more than its messages may be in the busy windows of all stages together (Schliecker et al. 2009, lemmas 1 and 2).
"""
from functools import lru_cache


def source(period, jitter, distance):
    """The least distance of n messages, in ns."""
    return lambda n: max((n - 1) * distance, (n - 1) * period - jitter, 0)


def busy(stage, messages):
    """Of a slot B in a cycle P (TDMA): the first slot is just missed. Of a core that has no other: the work alone."""
    budget, period, _, most = stage
    work = messages * most
    return work if not period else work + -(-work // budget) * (period - budget)


def windows(stage, distance):
    """busy(1), busy(2), ... as long as the next message comes before the last is done."""
    found = [busy(stage, 1)]
    while distance(len(found) + 1) < found[-1]:
        found.append(busy(stage, len(found) + 1))
    return found


def worst(found, distance):
    return max(busy - distance(k) for k, busy in enumerate(found, 1))


def by_jitter(stage, found, distance):
    jitter, apart = worst(found, distance) - stage[2], stage[2]
    return lru_cache(None)(lambda n: max(distance(n) - jitter, (n - 1) * apart))


def by_windows(stage, found, distance):
    apart = stage[2]
    return lru_cache(None)(lambda n: max(
        (n - 1) * apart, min(distance(n + k - 1) - busy for k, busy in enumerate(found, 1)) + apart))


def local(arrival, stages, passed_on):
    """Windows of each stage, and its worst response time."""
    distance, all_windows, times = source(*arrival), [], []
    for stage in stages:
        found = windows(stage, distance)
        all_windows.append(found)
        times.append(worst(found, distance))
        distance = passed_on(stage, found, distance)
    return all_windows, times


def by_lines(arrival, stages):
    """Worst response times where each line of the arrival curve, (n - 1) · time - jitter, is passed on by itself."""
    period, jitter, distance = arrival
    lines, times = [(period, jitter)] + ([(distance, 0)] if distance else []), []
    for stage in stages:
        now = lines

        def least(n, lines=now):
            return max(0, *((n - 1) * time - late for time, late in lines))
        found = windows(stage, least)
        times.append(worst(found, least))
        grown = [max(busy - k * time for k, busy in enumerate(found)) for time, _ in lines]
        lines = [(time, late + min(more, times[-1]) - stage[2]) for (time, late), more in zip(lines, grown)] + [(stage[2], 0)]
    return times


def chain(arrival, all_windows):
    """The longest way of a message through all windows, of which each stage passes on one message to the next."""
    together = all_windows[0]
    for found in all_windows[1:]:
        both = [0] * (len(together) + len(found) - 1)
        for k, one in enumerate(together):
            for more, other in enumerate(found):
                both[k + more] = max(both[k + more], one + other)
        together = both
    return worst(together, source(*arrival))
