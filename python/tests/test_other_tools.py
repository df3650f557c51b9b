"""Files of SMFF, CARET and tracetools."""

import numpy
import pandas
import pytest

import giusto
from giusto import readers

SMFF = """<?xml version="1.0"?>
<SystemModel>
  <Platform>
    <Resource resID="0" shortName="CPU"><Scheduler name="SPPScheduler"/></Resource>
    <CommResource resID="0" shortName="bus"><Scheduler name="SPPScheduler"/></CommResource>
  </Platform>
  <Applications>
    <Application appID="0" appV="0">
      <Task ID="0" shortName="read"><SchedulingParameter name="SchedulingPriority" priority="2"/>
        <Profile bcet="20" wcet="40" active="true">
          <ActivationPattern name="PJActivation" activationPeriod="760" activationJitter="1"/></Profile></Task>
      <Task ID="1" shortName="act"><SchedulingParameter name="SchedulingPriority" priority="1"/>
        <Profile bcet="10" wcet="10" active="true"><ActivationPattern name="EventActivation"/></Profile></Task>
      <TaskLink ID="0" src="0" trgt="1" shortName="send"><SchedulingParameter name="SchedulingPriority" priority="3"/>
        <Profile bcet="5" wcet="7" active="true"><ActivationPattern name="EventActivation"/></Profile></TaskLink>
      <Mapping><mapTask tid="0" rid="0"/><mapTask tid="1" rid="0"/><mapLink lid="0" crid="0"/></Mapping>
      <Constraints><Constraint StartTaskId="0" EndTaskId="1" Constraint="729.5"/></Constraints>
    </Application>
  </Applications>
</SystemModel>
"""


def refused(read, path, text):
    path.write_text(text)
    with pytest.raises(giusto.InputError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}:{caught.value.line}: ")
    return caught.value.line, str(caught.value)


def test_a_system_of_smff(tmp_path):
    path = tmp_path / "system.xml"
    path.write_text(SMFF)
    found = readers.smff(path)
    assert found.resources == {"CPU": "SPPScheduler", "bus": "SPPScheduler"}
    assert found.tasks["read"] == readers.SmffTask("read", "CPU", 2, 20_000, 40_000, 760_000, 1000, ())
    assert found.tasks["send"].after == ("read",) and found.tasks["act"].after == ("send",)
    assert found.constraints == [("read", "act", 729_500)] and found.sources("act") == ["read"]
    assert found.on("CPU") == [giusto.Task(10_000, 760_000), giusto.Task(40_000, 760_000)]
    assert giusto.analyze.interface(found.on("CPU"), "rm").bandwidth < 1
    for old, new, line, word in [
        ('wcet="40"', 'wcet="many"', 10, "wcet"),
        ('activationPeriod="760"', 'activationPeriod="-1"', 11, "activationPeriod"),
        ('crid="0"', 'crid="4"', 16, "crid"),
        ('trgt="1"', 'trgt="9"', 14, "trgt"),
        ('<mapTask tid="1" rid="0"/>', "", 12, "resource"),
        ('name="EventActivation"', 'name="Sometimes"', 13, "Sometimes"),
        ("SystemModel", "Model", 2, "SystemModel"),
    ]:
        told, text = refused(readers.smff, path, SMFF.replace(old, new))
        assert (told, word in text) == (line, True), text


def test_a_path_of_caret(tmp_path):
    path = tmp_path / "path.csv"
    columns = [
        f"/{place}_timestamp/0" for place in ("a/callback_0/callback_start", "t/rclcpp_publish", "b/callback_0/callback_start")
    ]
    table = pandas.DataFrame([[1_000, 1_500, 2_000], [11_000, 11_500, None]], columns=columns)
    table.to_csv(path)
    found = readers.caret(path)
    assert found.columns == columns and found.at_ns.tolist() == [[1_000, 1_500, 2_000], [11_000, 11_500, -1]]
    assert list(found.jobs.response_ns) == [1_000] and list(found.jobs.array["finish_ns"]) == [2_000, -1]
    text = path.read_text()
    assert refused(readers.caret, path, text.replace("11500", "soon"))[0] == 3
    assert refused(readers.caret, path, text.replace("1,11000", "1,"))[0] == 3
    assert refused(readers.caret, path, text + "2,1\n")[0] == 4
    assert refused(readers.caret, path, "a,b\n1,2\n")[0] == 1


def test_callbacks_of_tracetools(tmp_path):
    path = tmp_path / "callbacks.csv"
    table = pandas.DataFrame(
        {
            "callback_object": [94, 95, 94],
            "timestamp": [numpy.datetime64(ns, "ns") for ns in (1_642_759_200_123_456_789, 5, 10**18)],
            "duration": [numpy.timedelta64(ns, "ns") for ns in (123_456, 10**9, 90 * 10**12)],
            "intra_process": [False, True, False],
        }
    )
    table.to_csv(path)
    found = readers.tracetools(path)
    assert list(found[94].response_ns) == [123_456, 90 * 10**12] and list(found[95].response_ns) == [10**9]
    assert list(found[94].array["release_ns"]) == [1_642_759_200_123_456_789, 10**18]
    text = path.read_text()
    assert refused(readers.tracetools, path, text.replace("0 days 00:00:01", "a while"))[0] == 3
    assert refused(readers.tracetools, path, text.replace("2022-01-21", "2022-02-31"))[0] == 2
    assert refused(readers.tracetools, path, text.replace("duration", "took"))[0] == 1
    table.assign(timestamp=[1, 2, 3], duration=[4, 5, 6]).to_csv(path)
    assert list(readers.tracetools(path)[94].response_ns) == [4, 6]
