"""Sites, plans and simulations are those of the command line; what is refused says where and why."""

import json
import pickle

import numpy
import pytest
from conftest import ROOT, run

import giusto

THERE = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "sites").glob("*.yaml") if "\ngiusto: 1" in path.read_text())

assert len(THERE) > 15

TIGHT = """giusto: 1
hosts:
  edge-1: {cores: 0}
services:
  control:
    start: control
    promise: {supply: 9ms/10ms}
  other:
    start: other
    promise: {supply: 4ms/10ms}
"""


@pytest.mark.parametrize("name", THERE)
def test_a_plan_is_that_of_the_command_line_to_the_byte(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    code, out, err = run("plan", name, "--json")
    if code:
        with pytest.raises(giusto.Error) as caught:
            giusto.plan(giusto.Site.from_yaml(name))
        assert str(caught.value).splitlines()[0] in err
        return
    plan = giusto.plan(giusto.Site.from_yaml(name))
    assert plan.to_json() == out
    assert [f"note: {note}" for note in plan.notes] == [line for line in err.splitlines() if line.startswith("note: ")]


@pytest.mark.parametrize("name", THERE)
def test_a_simulation_is_that_of_the_command_line(name, monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    jobs = tmp_path / "jobs.csv"
    words = ["simulate", name, "--for", "2s", "--seed", 7, "--seeds", 2, "--compare", "credit", "--json"]
    code, out, _ = run(*words, "--jobs", jobs)
    if code:
        code, out, _ = run(*words)
        if code:
            with pytest.raises(giusto.Error):
                giusto.simulate(giusto.Site.from_yaml(name), "2s")
            return
        jobs = None
    found = giusto.simulate(giusto.Site.from_yaml(name), "2s", seed=7, seeds=2, compare=["credit"])
    assert json.loads(found.to_json()) == json.loads(out)
    if jobs is not None:
        rows = [line.split(",") for line in jobs.read_text().splitlines()[1:]]
        array = found.jobs.array
        assert len(rows) == len(array) > 0
        for column, field in enumerate(["task", "job", "due_ns", "release_ns", "finish_ns"]):
            told = numpy.array([int(row[column] or -1) for row in rows])
            assert (array[field] == told).all(), field


def test_a_site_of_keywords_is_the_site_of_its_text():
    text = giusto.Site.from_text(TIGHT.replace("9ms", "5ms"))
    words = giusto.Site(
        hosts={"edge-1": {"cores": 0}},
        services={
            "control": {"start": "control", "promise": {"supply": "5ms/10ms"}},
            "other": {"start": "other", "promise": {"supply": "4ms/10ms"}},
        },
    )
    assert giusto.plan(text, machine="typical").services == giusto.plan(words, machine="typical").services
    assert giusto.Site.from_dict(
        json.loads(
            json.dumps(
                {
                    "hosts": {"edge-1": {"cores": 0}},
                    "services": {"other": {"start": ["other", "-x"], "promise": "leftovers", "at-least": "10%"}},
                }
            )
        )
    ).services == ["other"]


def test_a_refusal_has_a_witness_and_what_would_fit_with_its_place():
    with pytest.raises(giusto.Refusal) as caught:
        giusto.plan(giusto.Site.from_text(TIGHT, "tight.yaml"), machine="typical")
    refusal = caught.value
    assert refusal.service in ("control", "other") and refusal.cause
    assert refusal.nearest and refusal.nearest[0]["change"] and refusal.nearest[0]["place"]["line"] == refusal.line
    assert refusal.file == "tight.yaml" and str(refusal).startswith(f"tight.yaml:{refusal.line}:{refusal.column}: ")


def test_an_error_in_a_site_has_line_and_column():
    with pytest.raises(giusto.SiteError) as caught:
        giusto.Site.from_text(TIGHT.replace("cores: 0", "kores: 0"), "bad.yaml")
    error = caught.value
    assert (error.file, error.line) == ("bad.yaml", 3) and error.column and "kores" in str(error)
    assert isinstance(error, (giusto.InputError, ValueError))
    with pytest.raises(giusto.SiteError) as caught:
        giusto.Site(hosts={"edge-1": {"cores": 0}}, services={"a": {"start": "a", "promis": "leftovers"}})
    assert caught.value.line and "promis" in caught.value.args[0]


@pytest.mark.parametrize(
    "call",
    [
        lambda: giusto.analyze.interface(["2ms/7ms"], "lottery"),
        lambda: giusto.analyze.interface(["2ms"], "rm"),
        lambda: giusto.analyze.interface(["2/7"], "rm"),
        lambda: giusto.analyze.interface([(0, 5)], "rm"),
        lambda: giusto.analyze.interface(["2ms/7ms"], "rm", period=0),
        lambda: giusto.analyze.interface(["2ms/7ms"], "rm", period=1.5),
        lambda: giusto.analyze.interface(["2ms/7ms"], "rm", period=True),
        lambda: giusto.analyze.response("40/s", "5ms", budget="5ms", period="0ms"),
        lambda: giusto.analyze.path([], rate="50/s"),
        lambda: giusto.analyze.path(["core:1ms"], rate="50/s", jitter="1ms"),
        lambda: giusto.analyze.path(["core:1ms"], rate="50/s", distance="1ms"),
        lambda: giusto.analyze.path(["core:1ms"], period="50ms", also=["1=20/s:1ms"]),
        lambda: giusto.analyze.bucket("50/s", tokens="60/s", depth=3, access="p99"),
        lambda: giusto.analyze.admission(["deferrable:1ms/5ms"], "edf", cores=0),
        lambda: giusto.analyze.admission(["deferrable:1ms/5ms"], "edf", cores=1025),
        lambda: giusto.analyze.admission(["deferrable:1ms/5ms"], "edf", fit="first"),
        lambda: giusto.analyze.admission(["deferrable:1ms/5ms"], "edf", cores=2, sensitivity=True),
        lambda: giusto.analyze.criticality(["lo:1ms/5ms"], cores=0),
        lambda: giusto.analyze.interface(["2ms/7ms"], "rm", supply="edp", deadline="2ms"),
        lambda: giusto.analyze.interface(["2ms/7ms"], "rm", supply="edp", period="3ms", deadline="2ms", overhead="1us"),
        lambda: giusto.analyze.recovery(256),
        lambda: giusto.analyze.trace([0, -1, 5]),
        lambda: giusto.analyze.response("40/s", measured_ns=[5_000_000, -1], budget="5ms", period="10ms"),
        lambda: giusto.System().run(["1ms/3ms"], execution=[1000, -1]),
        lambda: giusto.analyze.each(lambda period: None, {"period": ["1ms"]}),
        lambda: giusto.plan(giusto.Site.from_text(TIGHT), machine="that"),
        lambda: giusto.analyze.recovery(1),
        lambda: giusto.System("rm"),
        lambda: giusto.System("lottery"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(call):
    with pytest.raises(giusto.InputError) as caught:
        call()
    assert len(str(caught.value)) > 15


def test_what_cannot_fit_has_a_witness():
    with pytest.raises(giusto.DoesNotFit) as caught:
        giusto.analyze.interface(["5ms/10ms@5ms", "5ms/11ms@6ms"], "rm")
    witness = caught.value.witness
    assert witness["point"]["demand_ns"] > witness["point"]["supply_ns"]


def test_answers_can_be_kept():
    found = giusto.analyze.interface(["2ms/7ms"], "rm")
    again = pickle.loads(pickle.dumps(found))
    assert again == found and again.bandwidth == found.bandwidth and "bandwidth" in dir(again)
    with pytest.raises(AttributeError):
        found.bandwith
    assert "budget_ns" in found._repr_html_() and "Interface(" in repr(found)
