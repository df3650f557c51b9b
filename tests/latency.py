"""'giusto measure latency' sees what cyclictest sees, sees who is in the way, leaves nothing behind, and a plan can rest on it.

Needs root. On the last core, of which it asks for nothing but to be told the truth: whatever else runs there disturbs both tools.
"""
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from formats import valid

ROOT = Path(__file__).resolve().parent.parent
GIUSTO = ROOT / "target" / "release" / "giusto"
CORE = max(os.sched_getaffinity(0))
ROUNDS, SECONDS = 5, 1.5
# Both tools count in whole us, one rounds down and the other up; the rest is chance.
RESOLUTION_US = 2


def giusto(*args, codes=(0, 6), prefix=()):
    done = subprocess.run([*prefix, str(GIUSTO), *map(str, args)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode in codes, f"{args}: exit {done.returncode}, expected {codes}: {done.stderr[-2000:]}"
    return done


def measured(*args):
    found = json.loads(giusto("measure", "latency", "--core", CORE, *args, "--json").stdout)
    valid("latency", found)
    return found


def percentile(histogram, part):
    """By nearest rank, of {us: count}."""
    rank = part * sum(histogram.values())
    seen = 0
    for us, count in sorted(histogram.items()):
        seen += count
        if seen >= rank - 1e-9:
            return us
    raise AssertionError("an empty histogram")


def own():
    run = measured("--period", "1ms", "--for", f"{SECONDS}s")["runs"][0]
    histogram = {us: count for us, count in run["histogram"]}
    assert sum(histogram.values()) == run["activations"]
    for part, name in ((0.5, "p50_ns"), (0.99, "p99_ns"), (0.999, "p99_9_ns"), (0.9999, "p99_99_ns")):
        told = run["latency"][name]
        assert told in (1000 * (percentile(histogram, part) + 1), run["latency"]["max_ns"]), f"{name}: {told}"
    assert max(histogram) == run["latency"]["max_ns"] // 1000
    return histogram


def cyclictest(folder):
    """Without its hold on idle states, which Giusto does not have either."""
    file = Path(folder) / "cyclictest.json"
    subprocess.run(["cyclictest", "-q", "-m", "-p99", "-t1", f"-a{CORE}", "-i1000", f"-l{int(SECONDS * 1000)}", "-h100000",
                    "--laptop", f"--json={file}"], check=True, capture_output=True)
    thread = json.loads(file.read_text())["thread"]["0"]
    return {int(us): count for us, count in thread["histogram"].items()}


def loop(folder):
    """The shortest loop that there is (wakes.c)."""
    program = Path(folder) / "wakes"
    subprocess.run(["gcc", "-O2", "-o", program, ROOT / "tests/wakes.c"], check=True)
    lines = subprocess.run([program, str(CORE), str(int(SECONDS * 1000))], check=True, capture_output=True, text=True).stdout
    return {int(us): int(count) for us, count in map(str.split, lines.splitlines())}


def agrees(folder):
    """In turns, so that what the machine does to one it does to the others. Two may differ by what each differs from itself by:
    three standard errors of the difference of means over the rounds. On hosts whose processors sleep deep, cyclictest's process
    wakes some us before the shortest loop does, why is not known: there Giusto has to agree with the loop, and nearly with
    cyclictest."""
    tools = {"giusto": own, "cyclictest": lambda: cyclictest(folder), "loop": lambda: loop(folder)}
    found = [{tool: measure() for tool, measure in tools.items()} for _ in range(ROUNDS)]
    for part, name in ((0.5, "median"), (0.99, "p99")):
        each = {tool: [percentile(one[tool], part) for one in found] for tool in tools}
        means = {tool: statistics.mean(values) for tool, values in each.items()}

        def near(tool):
            error = (sum(statistics.variance(each[one]) for one in ("giusto", tool)) / ROUNDS) ** 0.5
            return abs(means["giusto"] - means[tool]) <= RESOLUTION_US + 3 * error
        print(f"{name}: " + ", ".join(f"{tool} {means[tool]:.1f} us {each[tool]}" for tool in tools))
        nearly = abs(means["giusto"] - means["cyclictest"]) <= means["cyclictest"] / 5
        assert near("cyclictest") or near("loop") and nearly, f"{name}: giusto is apart from cyclictest, or from the loop"


HOG = f"""
import os, time
os.sched_setaffinity(0, [{CORE}])
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(99))
while True:
    end = time.monotonic() + 0.003
    while time.monotonic() < end:
        pass
    time.sleep(0.017)
"""


def interference_is_seen():
    """Who has the same priority is in the way for 3 ms of every 20: of 20 activations two are more than 1 ms late, and they
    wait as ready threads."""
    hog = subprocess.Popen([sys.executable, "-c", HOG])
    try:
        time.sleep(0.3)
        run = measured("--period", "1ms", "--for", "2s")["runs"][0]
    finally:
        hog.kill()
        hog.wait()
    late = sum(count for us, count in run["histogram"] if us >= 1000) / run["activations"]
    worst, ready, waited = (run[name]["max_ns"] / 1e6 for name in ("latency", "until_ready", "until_run"))
    print(f"a hog of 3 ms: {100 * late:.1f} % more than 1 ms late, worst {worst:.3f} ms, of which ready {waited:.3f} ms; until ready {ready:.3f} ms")
    assert worst >= 2.7 and waited >= 2.7, "3 ms are not seen"
    assert 0.05 <= late <= 0.2, f"{late} of all are late"
    assert run["passed"] > run["activations"] * 0.05, "those that passed are left out"


def alive(parent):
    """Processes with this parent that are no zombies."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, ppid = stat.read_text().rsplit(") ", 1)[1].split()[:2]
        except OSError:
            continue
        if int(ppid) == parent and state != "Z":
            found.append(int(stat.parent.name))
    return found


def leaves_nothing():
    """Its load ends with it, however it ends; interrupted, it tells what it saw."""
    one = subprocess.Popen([GIUSTO, "measure", "latency", "--core", str(CORE), "--period", "1ms", "--period", "2ms", "--for", "600s",
                            "--json"], stdout=subprocess.PIPE, text=True)
    time.sleep(1.5)
    one.send_signal(signal.SIGINT)
    found = json.loads(one.communicate(timeout=20)[0])
    assert len(found["runs"]) == 1 and found["runs"][0]["activations"] > 100, "what was seen is lost"
    assert one.returncode == 6 and "interrupted" in found["void"], "a plan would rest on it"
    one = subprocess.Popen([GIUSTO, "measure", "latency", "--core", str(CORE), "--period", "1ms", "--for", "1s", "--stress", "--json"],
                           stdout=subprocess.DEVNULL)
    time.sleep(1.5)
    load = alive(one.pid)
    one.kill()
    one.wait()
    end = time.monotonic() + 5
    while any(Path(f"/proc/{pid}").exists() for pid in load) and time.monotonic() < end:
        time.sleep(0.05)
    left = [pid for pid in load if Path(f"/proc/{pid}").exists()]
    print(f"killed under stress: {len(load)} processes of load, {len(left)} left")
    assert len(load) == 4 and not left, f"{left} of {load} are left"


def guests():
    """Both at once, in one file; a guest that fails is said to."""
    command = f"echo booting; {GIUSTO} measure latency --core {CORE} --period 2ms --for 500ms --json; echo halted"
    found = measured("--period", "1ms", "--for", "500ms", "--guest", command)
    guest = found["guest"]
    assert guest["command"] == command and guest["latency"]["runs"][0]["period_ns"] == 2_000_000
    for bad, words in (("exit 3", "exit status: 3"), ("echo nothing", "no JSON"), ("echo '{\"giusto\": 1}'", "expected what")):
        done = giusto("measure", "latency", "--core", CORE, "--period", "1ms", "--for", "50ms", "--guest", bad, codes=(4,))
        assert words in done.stderr and bad in done.stderr, done.stderr
        assert "1 ms?" in done.stdout, "the host's own part is lost"


def under_the_manager(folder):
    """What the manager makes late, by a real one; a plan rests on it, and the checker asks for no less."""
    found = measured("--period", "1ms", "--for", "2s", "--manager")
    for run in found.get("manager", []):
        loss, usual, late = (run["behind"][name] for name in ("loss_ns", "usual_ns", "late_ns"))
        print(f"under the manager: {loss} ns lost, p99 {usual} and at most {late} ns late")
        assert (run["core"], run["period_ns"], run["budget_ns"]) == (CORE, 5_000_000, 1_000_000)
        assert run["periods"] >= 390 and loss < 1_000_000 and usual <= late, run
        assert 0 < run["cost_ns"] < 1_000_000, run
    assert found.get("manager") or found["void"], found
    file, plan = Path(folder) / "manager.json", Path(folder) / "plan.json"
    golden = json.loads((ROOT / "formats/goldens/latency.json").read_text())
    run = dict(core=0, load="quiet", budget_ns=10**6, period_ns=5 * 10**6, periods=2000, steal_ns=0,
               behind=dict(loss_ns=12_000, usual_ns=35_000, late_ns=80_000))
    file.write_text(json.dumps(golden | {"manager": [run]}))
    told = giusto("plan", "sites/flight.yaml", "--latency", file, "--out", plan, codes=(0,)).stdout
    assert "on top of 35 us, which the manager was late in 2000 periods; it lost 12 us of a budget" in told, told
    giusto("check", "sites/flight.yaml", "--certificate", plan, codes=(0,))
    for key, value in (("loss_ns", 50_000), ("late_ns", 50_000)):
        forged = json.loads(plan.read_text())
        forged["hosts"][0]["latency"]["manager"][key] = value
        (Path(folder) / "forged.json").write_text(json.dumps(forged))
        giusto("check", "sites/flight.yaml", "--certificate", Path(folder) / "forged.json", codes=(1,))


def at_a_millisecond(folder):
    """A server with a period of 1 ms, where the manager was measured to be cheap enough: kept, and not exceeded."""
    golden = json.loads((ROOT / "formats/goldens/latency.json").read_text())
    run = dict(core=0, load="quiet", budget_ns=10**6, period_ns=5 * 10**6, periods=2000, steal_ns=0, cost_ns=45_000,
               behind=dict(loss_ns=12_000, usual_ns=35_000, late_ns=80_000))
    measured, site, out = Path(folder) / "fast.json", Path(folder) / "fast.yaml", Path(folder) / "fast"
    measured.write_text(json.dumps(golden | {"manager": [run]}))
    probe = [str(GIUSTO), "measure", "supply", "--json", "--for", "3s", "--window", "1ms", "--ask", "300us/1ms"]
    busy = '[sh, -c, "while :; do :; done"]'
    site.write_text(f"giusto: 1\nhosts: {{here: {{cores: {CORE}}}}}\nservices:\n"
                    f"  fast: {{start: {json.dumps(probe)}, promise: {{supply: 300us/1ms}}}}\n"
                    f"  slow: {{start: {busy}, promise: {{supply: 20ms/100ms}}}}\n  rest: {{start: {busy}, promise: leftovers}}\n")
    refused = giusto("plan", site, codes=(3,)).stderr
    assert "not manager: it keeps periods from 5 ms to 4 s" in refused, refused
    said = giusto("plan", site, "--latency", measured, "--out", Path(folder) / "fast-plan.json", codes=(0,))
    told = json.loads((Path(folder) / "fast-plan.json").read_text())["hosts"][0]["admission"][0]
    assert told["upkeep"] == "909/20000", (told, said.stdout)  # 45 us in 1 ms and in 100 ms
    running = subprocess.Popen([GIUSTO, "run", site, "--latency", measured, "--out", out, "--backend", "manager"], cwd=ROOT,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    report, end = None, time.monotonic() + 30
    while report is None and running.poll() is None and time.monotonic() < end:
        time.sleep(0.1)
        try:
            report = json.loads((out / "logs/fast.log").read_text())
        except (OSError, ValueError):
            pass
    running.send_signal(signal.SIGINT)
    said = running.communicate(timeout=30)[1]
    assert report and running.returncode == 0, (running.returncode, said)
    share = report["supply_ns"] / report["elapsed_ns"]
    print(f"300 us every 1 ms: {share:.1%}, in the worst of {report['windows']} periods {report['per_window']['min_ns'] / 1000:.0f} us")
    assert 0.2 < share < 0.31, report


def without_privilege(folder):
    """Says what is missing, and how to get it."""
    os.chmod(folder, 0o755)
    program = Path(folder) / "giusto"
    program.write_bytes(GIUSTO.read_bytes())
    program.chmod(0o755)
    done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", program, "measure", "latency", "--for", "50ms",
                           "--period", "1ms"], capture_output=True, text=True)
    assert done.returncode == 3 and "CAP_SYS_NICE" in done.stderr and "setcap" in done.stderr, done


def planned(folder):
    """From a file to a plan, its explanation and its proof; what it refuses it refuses because of it."""
    file, plan = ROOT / "formats/goldens/latency.json", Path(folder) / "plan.json"
    told = giusto("plan", "sites/flight.yaml", "--latency", file, "--out", plan, codes=(0,)).stdout
    host = json.loads(plan.read_text())["hosts"][0]["latency"]
    assert host["latency_ns"] == 180_000 and "180 us of the host" in told, told
    assert "180 us" in giusto("explain", "control", "--plan", plan, codes=(0,)).stdout
    giusto("check", "--certificate", plan, codes=(0,))
    forged = json.loads(plan.read_text())
    forged["hosts"][0]["latency"]["latency_ns"] = 10_000
    plan.write_text(json.dumps(forged))
    assert "the worst of its cores" in giusto("check", "--certificate", plan, codes=(1,)).stderr
    slow = json.loads(file.read_text())
    for run in slow["runs"]:
        run["latency"]["max_ns"] = 29_000_000
    late = Path(folder) / "late.json"
    late.write_text(json.dumps(slow))
    told = giusto("plan", "sites/flight.yaml", "--latency", late, codes=(1,)).stderr
    assert "29 ms of the host's latency" in told and "without it would fit" in told, told
    slow["void"] = "a hypervisor took 1 s"
    late.write_text(json.dumps(slow))
    assert "a hypervisor took 1 s" in giusto("plan", "sites/flight.yaml", "--latency", late, codes=(6,)).stderr
    told = giusto("run", "sites/flight.yaml", "--dry-run", "--latency", file, codes=(0,)).stdout
    assert "180 us of the host" in told, told


def often(times, law, *args):
    """Chance alone breaks a limit of three standard errors of five rounds now and then."""
    for left in reversed(range(times)):
        try:
            return law(*args)
        except AssertionError as why:
            print(f"once more: {why}" if left else why)
            if not left:
                raise


def main():
    if os.geteuid() != 0:
        print("needs root: real-time priorities")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        planned(folder)
        under_the_manager(folder)
        at_a_millisecond(folder)
        without_privilege(folder)
        guests()
        leaves_nothing()
        interference_is_seen()
        often(3, agrees, folder)
    print("latency: all passed")


if __name__ == "__main__":
    main()
