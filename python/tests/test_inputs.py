"""What people type who know other tools: wrong kinds of values are refused in words, right ones of NumPy are taken."""

import numpy
import pytest

import giusto
from giusto import analyze, curves

TASKS = ["2ms/7ms", "1ms/8ms"]
AT_RANDOM = {"rate": "40/s", "service": "5ms", "budget": "1ms", "period": "2ms"}


def site(wcet):
    tasks = [giusto.Task(wcet, 10_000_000, offset=0)]
    return giusto.Site(
        hosts={"edge-1": {"cores": numpy.arange(2)}},
        services={"control": {"start": "control", "promise": "as-if-alone", "tasks": tasks}},
    )


SITE = site("1ms")


def system(cores=1, **more):
    made = giusto.System(cores=cores)
    made.run(TASKS, "edf", **more)
    return made


REFUSED = {
    "one text for several tasks": (lambda: analyze.interface("2ms/7ms", "rm"), "as a list"),
    "no tasks": (lambda: analyze.interface(None, "rm"), "as a list"),
    "negative times": (lambda: analyze.interface([("1ms", -5)], "rm"), "-5"),
    "not a number": (lambda: analyze.interface([(10**6, float("nan"))], "rm"), "nan"),
    "floating point": (lambda: analyze.interface([(2e6, 7e6)], "rm"), "whole number of ns"),
    "a truth value": (lambda: analyze.recovery(True), "whole number"),
    "a negative count": (lambda: analyze.recovery(-1), "-1"),
    "a text for a count": (lambda: analyze.recovery("5"), "'5'"),
    "too many": (lambda: analyze.packets(["5k/s*16"], "64k/s", poll=2**40), "4,294,967,295"),
    "steps below 0": (lambda: analyze.map("40/s", "5ms", steps=-3), "-3"),
    "one text for stages": (lambda: analyze.path("2ms/4ms:1ms", rate="50/s"), "as a list"),
    "one text for flows": (lambda: analyze.packets("5k/s*16", "64k/s"), "as a list"),
    "one text to combine": (lambda: analyze.each(analyze.interface, {"period": "3ms"}, tasks=TASKS, scheduler="rm"), "'period'"),
    "one number to combine": (lambda: analyze.each(analyze.interface, {"period": 3}, tasks=TASKS, scheduler="rm"), "'period'"),
    "threads below 0": (
        lambda: analyze.each(analyze.interface, {"period": ["3ms"]}, threads=-1, tasks=TASKS, scheduler="rm"),
        "-1",
    ),
    "times with fractions": (lambda: analyze.trace(numpy.array([0.0, 1e6])), "whole numbers"),
    "cores below 0": (lambda: giusto.System(cores=-1), "-1"),
    "a text for cores": (lambda: giusto.System(cores="2"), "'2'"),
    "nothing to run": (lambda: giusto.System().run([], "edf"), "no task"),
    "one text to run": (lambda: giusto.System().run("2ms/7ms", "edf"), "as a list"),
    "a seed below 0": (lambda: system().simulate("1s", seed=-1), "-1"),
    "seconds": (lambda: system().simulate(1.5), "1.5"),
    "a class for a scheduler": (lambda: system().simulate("1s", scheduler=giusto.policy.Scheduler), "Scheduler()"),
    "a part for percent": (lambda: system(execution=0.5), "percent"),
    "more than all percent": (lambda: system(execution=500), "100"),
    "a priority below 0": (lambda: giusto.System().server("deferrable", "1ms", "2ms", priority=-1), "-1"),
    "a text for a percentile": (lambda: system().simulate("1s").percentile("p99"), "'p99'"),
    "a curve of no numbers": (lambda: curves.Curve([(0, float("nan"), 1)]), "nan"),
    "a curve without end": (lambda: curves.Curve([(0, float("inf"), 1)]), "inf"),
    "a curve of pairs": (lambda: curves.Curve([(0, 1)]), "slope"),
    "a curve and a number": (lambda: curves.line(1) @ 5, "constant"),
    "a curve by a number": (lambda: curves.line(1) / 0, "constant"),
    "a curve and nothing": (lambda: curves.line(1) + None, "None"),
    "a curve and a text": (lambda: curves.line(1).delay("4ms"), "'4ms'"),
    "a period of nothing": (lambda: curves.periodic(0), "period"),
    "a path for a site": (lambda: giusto.plan("sites/walk.yaml"), "from_yaml"),
    "keys for a site": (lambda: giusto.simulate({"hosts": {}}), "from_dict"),
    "a system for a plan": (lambda: giusto.simulate(giusto.System()), "Site"),
    "a site for a plan": (lambda: giusto.verify.check(SITE), "giusto.plan"),
    "no scheduler to compare with": (lambda: giusto.simulate(giusto.plan(SITE, machine="typical"), "1s", compare="cfs"), "'cfs'"),
    "a server below 0": (lambda: giusto.policy.Pool().ready(-1), "-1"),
    "nothing to draw": (lambda: giusto.plot.cdf([]), "to draw: no job"),
    "part of a ns": (lambda: giusto.plan(site(1_500_000.9)), "whole number of ns"),
    "copies below 0": (lambda: analyze.interface([("1ms", "9ms", None, None, -1)], "rm"), "-1"),
    "no tasks to run": (lambda: giusto.System().run(None), "no task"),
    **{
        f"no file for {reader}": (lambda reader=reader: getattr(giusto.readers, reader)("nope.xml"), "nope.xml")
        for reader in ("carts", "simso", "smff", "caret", "tracetools", "rtapp_log", "rtapp_tasks")
    },
    "no study": (lambda: giusto.verify.claims("nope.toml", {}), "nope.toml"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused_in_words(what):
    call, said = REFUSED[what]
    with pytest.raises(giusto.InputError) as caught:
        call()
    assert said in str(caught.value), caught.value


def test_values_of_numpy_are_as_good_as_pythons():
    rows = numpy.array([[2_000_000, 7_000_000], [1_000_000, 8_000_000]])
    assert analyze.interface(rows, "rm") == analyze.interface(TASKS, "rm")
    assert analyze.recovery(numpy.int64(5)) == analyze.recovery(5)
    periods = numpy.array([3_000_000, 4_000_000])
    assert analyze.interface(iter(TASKS), "rm") == analyze.interface(TASKS, "rm")
    several = analyze.each(analyze.interface, {"period": periods}, tasks=TASKS, scheduler="rm")
    assert several.values("budget_ns") == [analyze.interface(TASKS, "rm", period=int(each)).budget_ns for each in periods]
    times, parts = numpy.array([5_000_000, 10_000_000]), numpy.array([50, 99.9])
    arrays = analyze.response(**AT_RANDOM, at=times, percentile=parts, slots=20)
    for kind in (list, tuple):
        assert arrays == analyze.response(**AT_RANDOM, at=kind(times.tolist()), percentile=kind(parts.tolist()), slots=20)
    assert analyze.interface((each for each in TASKS), "rm") == analyze.interface(TASKS, "rm")


def test_a_verdict_is_shown():
    assert repr(analyze.given(TASKS, "rm", "2ms/3ms")) == "Given(holds=True)"
    assert repr(analyze.given(TASKS, "rm", "1ms/3ms")) == "Given(holds=False)"
    assert "True" in analyze.admission(["deferrable:2ms/5ms"], "edf")._repr_html_()


def test_a_site_takes_tasks_and_arrays():
    text = """giusto: 1
hosts:
  edge-1: {cores: 0-1}
services:
  control:
    start: control
    promise: as-if-alone
    tasks: [{wcet: 1ms, period: 10ms, offset: 0ms}]
"""
    written = giusto.plan(giusto.Site.from_text(text), machine="typical")
    assert SITE.hosts == {"edge-1": [0, 1]}
    assert giusto.plan(SITE, machine="typical").services == written.services
    one = giusto.simulate(written, "1s", compare="credit")
    assert one.rows == giusto.simulate(written, "1s", compare=["credit"]).rows
