"""Curves are what their definitions say, on a fine grid."""

import random
from fractions import Fraction

import numpy
import pytest

import giusto
from giusto import curves


def some_curve(rng):
    at, value, points = 0, rng.randint(0, 3), []
    for _ in range(rng.randint(1, 4)):
        slope, length = rng.randint(0, 3), rng.randint(1, 4)
        points.append((at, value, slope))
        value += slope * length + rng.choice([0, 0, rng.randint(0, 2)])
        at += length
    return curves.Curve(points)


def ends(curve, at):
    """The value, and that just before a jump."""
    return [curve(at)] + ([curve._before(at)] if at > 0 else [])


@pytest.mark.parametrize("seed", range(40))
def test_operations(seed):
    rng = random.Random(seed)
    a, b = some_curve(rng), some_curve(rng)
    low, high, both, series = a.min(b), a.max(b), a + b, a @ b
    for half in range(25):
        t = Fraction(half, 2)
        assert (low(t), high(t), both(t)) == (min(a(t), b(t)), max(a(t), b(t)), a(t) + b(t))
        grid = [Fraction(s, 4) for s in range(2 * half + 1)]
        assert series(t) == min(min([x + b(t - s) for x in ends(a, s)] + [a(s) + x for x in ends(b, t - s)]) for s in grid)
    if a.rate <= b.rate:
        grid = [Fraction(s, 4) for s in range(160)]
        left = a / b
        for half in range(16):
            t = Fraction(half, 2)
            assert left(t) == max(a(t + s) - min(ends(b, s)) for s in grid)
        assert a.backlog(b) == max(0, *(a(s) - b(s) for s in grid), *(a._before(s) - b._before(s) for s in grid[1:]))
    else:
        for call in (lambda: a / b, lambda: a.backlog(b), lambda: a.delay(b)):
            with pytest.raises(giusto.DoesNotFit):
                call()
    if a.rate < b.rate:
        worst = max(b.inverse(a(Fraction(s, 12))) - Fraction(s, 12) for s in range(400))
        assert worst <= a.delay(b) <= worst + Fraction(1, 3)


@pytest.mark.parametrize("seed", range(20))
def test_supply_and_demand_say_of_a_resource_what_the_analysis_says(seed):
    rng = random.Random(seed)
    tasks = [f"{rng.randint(1, 4)}ms/{rng.choice([8, 10, 12, 16])}ms" for _ in range(rng.randint(1, 3))]
    budget, period = rng.randint(1, 4), rng.randint(4, 6)
    demand, supply = curves.dbf(tasks, "480ms"), curves.sbf(f"{budget}ms", f"{period}ms", "480ms")
    enough = all(demand(piece.start) <= supply(piece.start) for piece in demand.pieces)
    verdict = giusto.analyze.given(tasks, "edf", f"{budget}ms/{period}ms")
    assert bool(verdict) == enough
    if not enough:
        point = verdict.shortfall.point
        assert (demand(point.at_ns), supply(point.at_ns)) == (point.demand_ns, point.supply_ns)
    for at in verdict.certificate.points if verdict else []:
        assert supply(at.at_ns) >= at.supply_ns


def test_arrays_of_windows():
    supply = curves.sbf("2ms", "5ms", "100ms")
    at = numpy.arange(0, 100_000_000, 333_333)
    assert numpy.allclose(supply(at), [float(supply(int(t))) for t in at])


def test_demand_is_exact_up_to_its_end_and_above_it_from_then_on():
    tasks = ["2ms/7ms@5ms", "1ms/8ms"]
    for make in (curves.dbf, curves.rbf):
        short, long = make(tasks, "25ms"), make(tasks, "200ms")
        for at in range(0, 25_000_001, 250_000):
            assert short(at) == long(at), at
        for at in range(25_000_001, 200_000_000, 250_000):
            assert short(at) >= long(at), at
        with pytest.raises(giusto.InputError):
            make(tasks, -1)


def test_times_rates_and_tasks_are_read_as_everywhere():
    assert curves.line("2M/s").rate == Fraction(2, 1000) and curves.line("1/3/s").rate == Fraction(1, 3 * 10**9)
    assert curves.dbf(["1min/4min@3min+1min"], "1d")("1h") > 0
    for bad in (lambda: curves.line("lots"), lambda: curves.service("1/s", "soon"), lambda: curves.dbf(["1ms/4"], "1s")):
        with pytest.raises(giusto.InputError):
            bad()
