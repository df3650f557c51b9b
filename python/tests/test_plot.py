"""Figures show what they are given."""

import numpy
import pytest
from matplotlib import pyplot

import giusto
from giusto import analyze, curves, plot


@pytest.fixture(autouse=True)
def closed():
    yield
    pyplot.close("all")


def drawn(ax, path):
    ax.figure.savefig(path)
    assert path.stat().st_size > 3000
    return ax


def test_a_schedule(tmp_path):
    system = giusto.System()
    system.run(["2ms/7ms+0ms", "1ms/8ms+0ms"], "edf")
    run = system.simulate("56ms", slices=True)
    ax = drawn(plot.gantt(run, names=["control", "vision"], deadlines=["7ms", "8ms"]), tmp_path / "gantt.png")
    assert [label.get_text() for label in ax.get_yticklabels()] == ["control", "vision"]
    bars = sum(path.get_extents().width for bars in ax.collections for path in bars.get_paths())
    assert bars == pytest.approx(8 * 2 + 7 * 1)  # all processor time, in ms
    apart = giusto.System()
    for task in ("1ms/7ms+0ms", "1ms/8ms+0ms", "1ms/9ms+0ms"):
        apart.run([task])
    ax = plot.gantt(apart.simulate("40ms", slices=True), names=["a", "b"], deadlines=["6ms"])
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b", "server 2, task 0"]
    down = [line.get_xdata() for line in ax.lines if line.get_marker() == "v"]
    assert [list(times) for times in down] == [[6, 13, 20, 27, 34]]
    with pytest.raises(giusto.InputError):
        plot.gantt(system.simulate("56ms"))


def test_distributions(tmp_path):
    system = giusto.System()
    system.run(["1ms/4ms"], "fifo", releases="poisson")
    run = system.simulate("20s")
    response = analyze.response("0.004/ms", "100ms", budget="120ms", period="200ms", at=["100ms", "300ms"], slots=40)
    for tail in (False, True):
        drawn(plot.cdf({"played": run, "solved": response, "times": [1000, 2000]}, tail=tail), tmp_path / "cdf.png")
    line = plot.cdf(run, interval=False).lines[0]
    assert line.get_xdata()[-1] == pytest.approx(run.percentile(100) / 1e6) and line.get_ydata()[-1] == 1


def test_a_map_tells_how_far_it_is():
    seen = []
    analyze.map("40/s", "5ms", steps=4, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (16, 16) and seen == sorted(seen)


def test_maps_and_sweeps(tmp_path):
    drawn(plot.heatmap(analyze.map("40/s", "5ms", steps=4)), tmp_path / "map.png")
    found = analyze.each(
        analyze.interface, {"latency": [0, "1ms"], "period": ["2ms", "3ms", "4ms"]}, tasks=["2ms/9ms"], scheduler="rm"
    )
    ax = drawn(plot.sweep(found, "bandwidth"), tmp_path / "sweep.png")
    assert ax.get_xlabel() == "period (ms)" and ax.collections[0].get_array().shape in ((2, 3), (6,))
    same = plot.heatmap(found).collections[0].get_array()
    assert (same == ax.collections[0].get_array()).all()  # an interface heat map under its name
    assert (plot.heatmap(found, "budget_ns").collections[0].get_array() != same).any()
    one = analyze.each(analyze.recovery, {"servers": [3, 5, 7]})
    assert list(plot.sweep(one, lambda answer: answer.bound.total_ns).lines[0].get_xdata()) == [3, 5, 7]


def test_theory(tmp_path):
    found = analyze.plane(["2ms/7ms", "1ms/8ms"], "rm", period="3ms")
    server = found.server
    assert found.delay_ns(server.bandwidth) >= server.delay_ns
    drawn(plot.plane(found), tmp_path / "plane.png")
    drawn(plot.supply_and_demand(["2ms/7ms", "1ms/8ms"], "2ms", "3ms"), tmp_path / "supply.png")
    ax = curves.service("1000/s", "2ms").plot("10ms")
    assert ax.lines[0].get_ydata()[-1] == pytest.approx(8)


def test_timelines(tmp_path):
    system = giusto.System()
    system.run(["1ms/4ms"], "fifo", releases="poisson")
    run = system.simulate("2s")
    ax = drawn(plot.timeline(run, deadline="6ms"), tmp_path / "timeline.png")
    dots, across = ax.lines
    ended = run.array["finish_ns"] >= 0
    assert list(dots.get_ydata()) == pytest.approx(list(run.response_ns / 1e6)) and across.get_ydata()[0] == 6
    assert len(dots.get_xdata()) == ended.sum() and ax.get_xlim()[1] <= 2000
    part = plot.timeline(run, start="1s", end="1200ms").lines[0].get_xdata()
    assert len(part) and 1000 <= part.min() and part.max() <= 1200
    # Of many jobs the longest of each stretch: together the longest of all.
    many = system.simulate("100s")
    ax = drawn(plot.timeline({"alone": many}), tmp_path / "many.png")
    median, longest = (numpy.asarray(line.get_ydata()) for line in ax.lines)
    assert longest.max() * 1e6 == pytest.approx(many.percentile(100)) and (median <= longest).all() and len(median) == 200
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["alone median", "alone longest"]
