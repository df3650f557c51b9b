"""Files of other tools, and statistics on what they hold."""

import json

import numpy
import pytest
from conftest import ROOT, run

import giusto
from giusto import readers, verify

CARTS = """<system os_scheduler="EDF" min_period="5" max_period="5">
  <component name="C1" scheduler="RM" min_period="4" max_period="4">
    <task name="a" p="10" d="10" e="1"/>
    <task name="b" p="20" d="20" e="2"/>
  </component>
  <component name="C2" scheduler="EDF" min_period="5" max_period="5">
    <task name="c" p="15" d="12" e="2"/>
  </component>
</system>
"""
SIMSO = """<?xml version="1.0"?>
<simulation cycles_per_ms="1000000" duration="40000000">
  <sched className="simso.schedulers.RM" overhead="0"/>
  <processors><processor name="CPU 1" id="1"/></processors>
  <tasks>
    <task name="control" period="4" activationDate="0" deadline="4" WCET="1.5" task_type="Periodic"/>
    <task name="radio" period="10" activationDate="0.25" deadline="9" WCET="2" task_type="Periodic"/>
  </tasks>
</simulation>
"""


def test_carts_is_read_and_written_as_the_command_line_does(cli, tmp_path):
    path = tmp_path / "system.xml"
    path.write_text(CARTS)
    tree = readers.carts(path)
    assert [inner.name for inner in tree.components] == ["C1", "C2"] and tree.components[0].tasks[1].wcet == 2_000_000
    found = tree.interfaces(quantum="100us")
    told = cli("analyze", "interface", "--carts", path, "--quantum", "100us", "--json")
    assert {each["component"]: each["bandwidth"] for each in told} == {name: str(each.bandwidth) for name, each in found.items()}
    out = tmp_path / "out.xml"
    code, _, _ = run("analyze", "interface", "--carts", path, "--quantum", "100us", "--carts-out", out)
    assert code == 0 and readers.write_carts(path, found) == out.read_text()
    path.write_text(CARTS.replace('scheduler="RM"', 'scheduler="LLF"'))
    with pytest.raises(giusto.SiteError) as caught:
        readers.carts(path)
    assert caught.value.line == 2


def test_simso_is_read_played_and_written(tmp_path):
    path, again = tmp_path / "simso.xml", tmp_path / "again.xml"
    path.write_text(SIMSO)
    found = readers.simso(path)
    assert found.tasks["radio"] == giusto.Task(2_000_000, 10_000_000, 9_000_000, 250_000)
    assert (found.scheduler, found.processors, found.duration_ns) == ("simso.schedulers.RM", 1, 40_000_000)
    jobs = found.system().simulate(found.duration_ns)
    assert len(jobs.of(task=0)) == 10 and (jobs.of(task=0)["finish_ns"] - jobs.of(task=0)["release_ns"] == 1_500_000).all()
    readers.write_simso(found, again)
    assert readers.simso(again) == found
    for bad, line in [(SIMSO.replace("</tasks>", ""), 9), (SIMSO.replace('period="4" ', ""), 6)]:
        path.write_text(bad)
        with pytest.raises(giusto.InputError) as caught:
            readers.simso(path)
        assert caught.value.line == line


@pytest.mark.parametrize(
    "old, new",
    [
        ('WCET="1.5"', 'WCET="soon"'),
        ('WCET="1.5"', 'WCET="1/0"'),
        ('WCET="1.5"', 'WCET="-1.5"'),
        ('WCET="1.5"', 'WCET="1.50000001"'),
        ('task_type="Periodic"', 'task_type="APeriodic"'),
        ('cycles_per_ms="1000000"', 'cycles_per_ms="0"'),
        ("<simulation ", '<simulation etm="acet" '),
    ],
)
def test_what_is_wrong_in_a_file_of_simso_has_its_line(tmp_path, old, new):
    path = tmp_path / "simso.xml"
    path.write_text(SIMSO.replace(old, new))
    with pytest.raises(giusto.InputError) as caught:
        readers.simso(path)
    assert caught.value.line in (2, 6) and str(caught.value).startswith(f"{path}:{caught.value.line}: ")


def test_a_scheduler_of_simso_without_a_like_here_is_refused():
    for scheduler, processors in [("simso.schedulers.FP", 1), ("simso.schedulers.EDF_mono", 2)]:
        with pytest.raises(giusto.InputError):
            readers.SimSo({"a": giusto.Task(1000, 2000)}, scheduler, processors, 1000).system()


def test_a_trace_of_the_scheduler_and_tasks_of_rt_app(tmp_path):
    trace = tmp_path / "trace.txt"
    idle, work = "{0}_comm=swapper/0 {0}_pid=0 {0}_prio=120", "{0}_comm=work {0}_pid=77 {0}_prio=120"
    events = [
        (0, "sched_wakeup: comm=work pid=77 prio=120 target_cpu=000"),
        (0.0001, f"sched_switch: {idle.format('prev')} prev_state=R ==> {work.format('next')}"),
        (0.0021, f"sched_switch: {work.format('prev')} prev_state=S ==> {idle.format('next')}"),
    ]
    times = [(1 + nth * 0.01 + later, event) for nth in range(5) for later, event in events]
    trace.write_text("".join(f"  <idle>-0  [000] d..3  {at:.6f}: {event}\n" for at, event in times))
    jobs, execution = readers.sched(trace, "work")
    assert len(jobs) >= 4 and set(execution) == {2_000_000} and set(jobs.response_ns) == {2_100_000}
    with pytest.raises(giusto.InputError):
        readers.sched(trace, "nothing")
    config = tmp_path / "app.json"
    config.write_text('{"tasks": {"control": {"run": 2000, "timer": {"ref": "t", "period": 10000}}}}')
    assert readers.rtapp_tasks(config)["control"][:2] == (2_000_000, 10_000_000)


def test_distances_are_those_of_numpy():
    rng = numpy.random.default_rng(1)
    a, b = rng.integers(1000, 100_000, 500), rng.integers(2000, 90_000, 500)
    assert verify.wasserstein(a, b) == pytest.approx(numpy.abs(numpy.sort(a) - numpy.sort(b)).mean())
    assert verify.wasserstein(a, list(map(int, a))) == 0 == verify.kolmogorov_smirnov(a, a)
    at = numpy.concatenate([a, b])
    most = max(abs((a <= t).mean() - (b <= t).mean()) for t in at)
    assert verify.kolmogorov_smirnov(a[::1], b) == pytest.approx(most)
    assert verify.wasserstein(a[::2], a[::2].copy()) == 0
    assert verify.wasserstein([1000, -1], [1000, 2000]) == float("inf")
    for bad in (["soon"], [-2], numpy.array([1, -5])):
        with pytest.raises(giusto.InputError):
            verify.wasserstein(bad, [1])


def test_claims_of_a_study_are_judged_as_the_command_line_does(tmp_path):
    code, out, err = run("study", "run", "mdds1-select", "--quick", "--json", "--out", tmp_path)
    assert out, (code, err)
    study = ROOT / "studies/mdds1-select/study.toml"
    found = verify.claims(study, tmp_path / "mdds1-select")
    assert [claim.to_dict() for claim in found] == json.loads(out)["claims"]
    assert {claim.says for claim in found if not claim} == {claim.says for claim in found if claim.differs}
    table = "set,bandwidth,period_ms\n0,0.7,4\n"
    with pytest.raises(giusto.InputError, match="least"):
        verify.claims(study, {"least": table})


def test_a_plan_is_checked():
    site = giusto.Site(hosts={"edge-1": {"cores": 0}}, services={"a": {"start": "a", "promise": {"supply": "3ms/10ms"}}})
    plan = giusto.plan(site, machine="typical")
    assert len(verify.check(plan)["services"]) == 1
    kept = verify.kept([(90, "30ms"), "p50=20ms"], [10_000_000 + nth * 7919 % 1000 for nth in range(3000)])
    assert kept["verdict"] == "kept" and len(kept["points"]) == 2
