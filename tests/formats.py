"""Every file that crosses a language or a release, and what --json prints, keeps to its schema in formats/."""
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import jsonschema

from double import SITE, double

ROOT = Path(__file__).resolve().parent.parent
GIUSTO = ROOT / "target" / "release" / "giusto"
SCHEMAS = {path.name.split(".")[0]: json.loads(path.read_text()) for path in (ROOT / "formats").glob("*.schema.json")}
STORE = {schema["$id"]: schema for schema in SCHEMAS.values()}


def spans_of_two_services():
    """Messages of OTLP, one a request that goes through both, each 25 ms after the one before."""
    def resource(service, **span):
        attribute = {"key": "service.name", "value": {"stringValue": service}}
        return {"resource": {"attributes": [attribute]}, "scopeSpans": [{"spans": [span]}]}

    for nth in range(1, 31):
        at = nth * 25_000_000
        ends = [{"startTimeUnixNano": str(at + start), "endTimeUnixNano": str(at + end), "traceId": f"{nth:032x}"}
                for start, end in ((0, 1_000_000), (2_000_000, 5_000_000))]
        yield {"resourceSpans": [resource("web", spanId="a", name="GET /", kind=2, **ends[0]),
                                 resource("job", spanId="b", parentSpanId="a", name="work", kind=5, **ends[1])]}


def valid(name, document):
    """Raises what is wrong."""
    schema = SCHEMAS[name]
    jsonschema.Draft202012Validator.check_schema(schema)
    resolver = jsonschema.RefResolver(schema["$id"], schema, store=STORE)
    jsonschema.Draft202012Validator(schema, resolver=resolver).validate(document)


def output(*args, codes=(0,), program=GIUSTO, cwd=ROOT, prefix=(), **environment):
    done = subprocess.run([*prefix, str(program), *map(str, args)], cwd=cwd, capture_output=True, text=True,
                          env={**os.environ, **environment})
    if done.returncode not in codes:
        sys.exit(f"{args}: exit {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)


def job_files(folder):
    """Runs as 'giusto measure response' records them, with response times that differ."""
    for seed in range(4):
        draw = random.Random(seed)
        lines = [f"0,{n},{n * 1000000},{n * 1000000},{n * 1000000 + draw.randint(150000, 250000)}" for n in range(2000)]
        file = Path(folder) / f"{seed}.csv"
        file.write_text("\n".join(["task,job,due_ns,release_ns,finish_ns", *lines, ""]))
        yield file


def measured(folder):
    """What 'measure' prints of a real Redis; judged not at all, so a machine that stalls (6) is no matter."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    site = Path(folder) / "site.yaml"
    site.write_text((ROOT / "sites/walk.yaml").read_text().replace("7001", str(port)))
    service = subprocess.Popen(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", ""], cwd=folder,
                               stdout=subprocess.DEVNULL)
    try:
        for _ in range(100):
            time.sleep(0.05)
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
        yield "measure", output("measure", "execution", site, "cache", "--requests", 200, "--profiles", Path(folder) / "profiles", "--json")
        yield "profile", json.loads((Path(folder) / "profiles/cache.json").read_text())
        yield "measure", output("measure", "response", site, "cache", "--for", "1s", "--json", codes=(0, 6))
    finally:
        service.terminate()
        service.wait()


def without_privilege(folder):
    """A trial that may only plan and predict."""
    os.chmod(folder, 0o777)
    for file in (GIUSTO, ROOT / "sites/walk.yaml"):
        shutil.copy(file, folder)
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    return output("run", "walk.yaml", "--trial", "--json", "--out", "out", codes=(3,), program="./giusto", cwd=folder, prefix=nobody)


def operated():
    """What a giusto that runs tells: one that enforces nothing."""
    with double() as giusto:
        yield "status", json.loads(giusto.giusto("status", "--json").stdout)
        yield "status", giusto.ask('{"giusto":1,"do":"status"}')["status"]
        giusto.site.write_text(SITE.replace("20ms", "5ms").replace("index", "inbox"))
        yield "reload", json.loads(giusto.giusto("reload", "--json").stdout)


def compositional(folder):
    """Interfaces of every kind, and servers that are admitted and refused."""
    tasks = ["--task", "2ms/7ms", "--task", "1ms/8ms", "--task", "1ms/10ms"]
    harmonic = ["--task", "1ms/4ms", "--task", "2ms/8ms"]
    for scheduler in ("rm", "dm", "edf"):
        for more in ([], ["--supply", "edp"], ["--period", "3ms", "--sensitivity"], ["--overhead", "10us", "--latency", "50us"]):
            yield "interface", output("analyze", "interface", "--scheduler", scheduler, *tasks, *more, "--json")
        yield "interface", output("analyze", "interface", "--scheduler", scheduler, *harmonic, "--supply", "aligned", "--json")
    for more in (["--vcpus", 2], ["--vcpus", 1, "--period", "2ms"], ["--period", "2ms", "--latency", "10us"]):
        yield "interface", output("analyze", "interface", "--scheduler", "global-edf", *tasks, *more, "--json")
    under_edf = ("analyze", "interface", "--scheduler", "edf", *tasks)
    yield "interface", output(*under_edf, "--supply", "edp", "--period", "3ms", "--deadline", "2500us", "--json")
    for given in ("2ms/3ms", "2ms/3ms@2500us", "70%+1ms", "0ms-2ms,3ms-5ms/6ms"):
        yield "interface", output(*under_edf, "--given", given, "--sensitivity", "--json")
    yield "interface", output(*under_edf, "--given", "1ms/3ms", "--json", codes=(1,))
    system = Path(folder) / "system.xml"
    system.write_text('<system os_scheduler="EDF" period="4"><component name="a" scheduler="RM" period="3">'
                      '<task name="t" p="7" d="7" e="2"/></component></system>')
    yield "interface", output("analyze", "interface", "--carts", system, "--json")
    one, other = ["--server", "deferrable:2ms/4ms"], ["--server", "deferrable:3ms/7ms"]
    for scheduler in ("edf", "fixed-priority"):
        for more in ([], ["--sensitivity"], ["--aligned", "--server", "polling:1ms/40ms"]):
            yield "admission", output("analyze", "admission", "--scheduler", scheduler, *one, *more, "--json")
    # Windows that are too short (spec: the two counterexamples), and a sum that is too much.
    yield "admission", output("analyze", "admission", "--scheduler", "fixed-priority", *one, *other, "--json", codes=(1,))
    edf = ["--server", "deferrable:4ms/12ms", "--server", "deferrable:2ms/5ms"]
    yield "admission", output("analyze", "admission", "--scheduler", "edf", *edf, "--json", codes=(1,))
    yield "admission", output("analyze", "admission", "--scheduler", "edf", *one, "--capacity", "40%", "--json", codes=(1,))
    # On several cores: shared, by each test and by none; each on one, or one on none.
    several = ("analyze", "admission", "--cores", "2", "--json")
    three = [word for share in ("2ms/5ms", "3ms/8ms", "4ms/12ms") for word in ("--server", f"polling:{share}")]
    heavy = [word for share in ("2ms/10ms", "2ms/10ms", "10ms/11ms") for word in ("--server", f"periodic_strict:{share}")]
    for scheduler in ("edf", "fixed-priority"):
        yield "admission", output(*several, "--scheduler", scheduler, *one)
        yield "admission", output(*several, "--scheduler", scheduler, *three)
        yield "admission", output(*several, "--scheduler", scheduler, *heavy, codes=(1,))
        yield "admission", output(*several, "--scheduler", scheduler, *heavy, "--fit", "best")
        yield "admission", output(*several, "--scheduler", scheduler, *heavy, *heavy, "--fit", "worst", codes=(1,))
        yield "admission", output(*several, "--scheduler", scheduler, *one, *one, "--server", "sporadic:1ms/9ms", codes=(1,))


def criticality(folder):
    """VMs on a core by both tests, by none of them for each reason, on several cores; a site with criticality."""
    def judged(vms, *more, code=0):
        return "criticality", output("analyze", "criticality", *(word for vm in vms for word in ("--vm", vm)), *more, "--json", codes=(code,))
    yield judged(["hi:5ms:25ms/100ms", "lo:25ms/100ms"])
    yield judged(["hi:10ms:50ms/100ms", "lo:75ms/100ms"])
    yield judged(["hi:5ms/100ms"], "--capacity", "93%")
    for vms in (["lo:100ms/100ms", "hi:1ms/100ms"], ["lo:60ms/100ms", "hi:50ms/100ms"], ["hi:10ms:100ms/100ms", "lo:5ms/100ms"],
                ["hi:10ms:80ms/100ms", "lo:75ms/100ms"], ["hi:1ns:3ns/7ns", "hi:1ns:3ns/11ns", "lo:40ns/100ns"]):
        yield judged(vms, code=1)
    yield judged(["hi:5ms:25ms/100ms", "lo:50ms/100ms", "lo:50ms/100ms"], "--cores", 4)
    yield judged(["lo:60ms/100ms"] * 3, "--cores", 2, code=1)
    plan = Path(folder) / "critical.json"
    yield "plan", output("plan", "sites/critical.yaml", "--out", plan, "--json")
    yield "plan", json.loads(plan.read_text())
    yield "check", output("check", "sites/critical.yaml", "--json")
    yield "certificate", output("check", "--certificate", plan, "--json")
    for name in ("memcached", "batch"):
        yield "explain", output("explain", name, "--site", "sites/critical.yaml", "--json")


def buckets(folder):
    """Token buckets, also split into shares that are no finite decimal numbers, and of a trace."""
    messages = ["--rate", "10k/s", "--percentile", "p99", "--percentile", "p99.9"]
    yield "bucket", output("analyze", "bucket", *messages, "--tokens", "11k/s", "--depth", "26.5", "--split", 7, "--json")
    yield "bucket", output("analyze", "bucket", *messages, "--batch", 3, "--access", "p90", "--json")
    trace = Path(folder) / "trace.csv"
    trace.write_text("arrival_ns\n" + "".join(f"{n * n % 7 + 1_000_003 * n}\n" for n in range(50)))
    for more in ([], ["--tokens", "1100.5/s", "--access", "p90"]):
        yield "trace", output("analyze", "trace", trace, *more, "--json")


def paths():
    """Percentiles and times of a path with stages of each kind, and every message; that of the golden."""
    stages = ["--stage", "4ms/10ms:5ms", "--stage", "bound:300us", "--stage", "bucket:60/s*4",
              "--stage", "periodic:2ms/5ms:3ms*75%,8ms", "--stage", "company:2ms/4ms:1ms", "--stage", "core:5ms"]
    measured = ["--stage", "measured:3ms*99%,8ms"]
    yield "path", output("analyze", "path", "--rate", "30/s", *stages, *measured, "--json")
    asked = ["--percentile", "90", "--at", "1s", "--also", "6=9/s:1ms", "--json"]
    yield "path", output("analyze", "path", "--rate", "30/s", *stages, *asked)
    yield "path", output("analyze", "path", "--rate", "30/s", "--burst", 3, *stages, "--json")
    golden = json.loads((ROOT / "formats/goldens/path.json").read_text())
    yield "path", golden
    curve = ["--period", "20ms", "--jitter", "5ms", "--distance", "1ms"]
    found = output("analyze", "path", *curve, *stages[:4], *stages[-2:], "--json")
    if found != golden:
        sys.exit(f"not the golden's: {found}, expected {golden}")


def certificates(folder):
    """Plans that keep their promises, and one that lost a fifth of a budget."""
    for site in ("walk", "supply", "flight", "two-hosts", "ensemble", "silence", "etcd", "messages", "packets"):
        plan = Path(folder) / f"{site}.json"
        subprocess.run([GIUSTO, "plan", f"sites/{site}.yaml", "--out", plan], cwd=ROOT, check=True, capture_output=True)
        yield "certificate", output("check", "--certificate", plan, "--json")
        of_site = output("check", f"sites/{site}.yaml", "--certificate", plan, "--json")
        assert of_site["holds"] and of_site["site"], of_site
        yield "certificate", of_site
        broken = json.loads(plan.read_text())
        if site == "ensemble":
            broken["coordination"]["times"]["message_ns"] *= 2
        elif site == "silence":
            broken["coordination"]["silence"]["step_down_ns"] += 1
        elif site == "etcd":
            broken["coordination"]["rounds"] -= 1
        elif site == "messages":
            broken["topics"][0]["predicted"][0]["within_ns"] //= 2
        elif site == "packets":
            broken["network"][0]["vifs"][0]["bound_ns"] -= 1
        else:
            broken["services"][0]["server"]["budget_ns"] = broken["services"][0]["server"]["budget_ns"] * 4 // 5
        plan.write_text(json.dumps(broken))
        yield "certificate", output("check", "--certificate", plan, "--json", codes=(1,))


def topics():
    """Buckets, and what brokers read."""
    yield "plan", output("plan", "sites/messages.yaml", "--json")
    yield "check", output("check", "sites/messages.yaml", "--json")
    yield "explain", output("explain", "alarms", "--site", "sites/messages.yaml", "--json")
    yield "export-nsq", output("export", "nsq", "sites/messages.yaml", "--json")


def packets():
    """Cores and priorities of interfaces."""
    yield "plan", output("plan", "sites/packets.yaml", "--json")
    yield "check", output("check", "sites/packets.yaml", "--json")
    for name in ("vnet3", "vnet5", "network"):
        yield "explain", output("explain", name, "--site", "sites/packets.yaml", "--json")


def modes(folder):
    """Local and global modes, and a plan of them proven."""
    plan = folder / "modes.json"
    yield "plan", output("plan", "sites/modes.yaml", "--out", plan, "--json")
    yield "plan", json.loads(plan.read_text())
    yield "check", output("check", "sites/modes.yaml", "--json")
    yield "certificate", output("check", "--certificate", plan, "--json")
    for name in ("flight", "batch", "modes"):
        yield "explain", output("explain", name, "--site", "sites/modes.yaml", "--json")


def waiting():
    """Packets that wait for their core."""
    flows = ["--flow", "5k/s*16+5k/s*16", "--flow", "2k/s*8"]
    for more in ([], ["--poll", 32, "--latency", "40us"]):
        yield "analyze-packets", output("analyze", "packets", "--capacity", "64k/s", *flows, *more, "--json")


def ensembles():
    """Longest recoveries, those of the golden too, and what servers read."""
    yield "plan", output("plan", "sites/ensemble.yaml", "--json")
    yield "check", output("check", "sites/ensemble.yaml", "--json")
    yield "export", output("export", "zookeeper", "sites/ensemble.yaml", "--json")
    yield "plan", output("plan", "sites/silence.yaml", "--json")
    yield "check", output("check", "sites/silence.yaml", "--json")
    yield "plan", output("plan", "sites/etcd.yaml", "--json")
    yield "check", output("check", "sites/etcd.yaml", "--json")
    yield "export-etcd", output("export", "etcd", "sites/etcd.yaml", "--json")
    for one in json.loads((ROOT / "formats/goldens/recovery.json").read_text()):
        yield "recovery", one
        flags = [word for key, ns in one["times"].items() for word in (f"--{key[:-3]}", f"{ns}ns")]
        more = ["--servers", one["servers"], "--epochs", one["epochs"], "--wait", f"{one['wait_ns']}ns"]
        found = output("analyze", "recovery", *flags, *more, "--json")
        if found != one:
            sys.exit(f"not the golden's: {found}, expected {one}")


def documents(folder):
    """(schema, document) for every format."""
    plan = Path(folder) / "plan.json"
    subprocess.run([GIUSTO, "plan", "sites/walk.yaml", "--out", plan], cwd=ROOT, check=True, capture_output=True)
    yield "plan", json.loads(plan.read_text())
    yield "plan", output("plan", "sites/walk.yaml", "--json")
    yield "diff", output("diff", plan, "--json")
    yield "plan", output("plan", "sites/supply.yaml", "--json")
    yield "plan", output("plan", "sites/two-hosts.yaml", "--json")
    yield "plan", output("plan", "sites/flight.yaml", "--json")
    yield "refusal", output("plan", "sites/too-much.yaml", "--json", codes=(1,))
    insisting = output("plan", "sites/supply.yaml", "--backend", "quota", "--json", codes=(2,))
    assert insisting["service"] and insisting["cause"] is None, insisting
    yield "refusal", insisting
    yield "plan", output("plan", "sites/percentiles.yaml", "--json")
    for golden in ("plan", "plan-supply", "plan-hosts", "plan-percentiles"):
        yield "plan", json.loads((ROOT / f"formats/goldens/{golden}.json").read_text())
    tasks = ["--task", "40ms/250ms+150ms", "--task", "200ms/500ms+100ms"]
    yield "share", output("analyze", "share", *tasks, "--json")
    yield "share", json.loads((ROOT / "formats/goldens/share.json").read_text())
    for more in ([], ["--period", "200ms", "--from", "60%", "--plot", f"{folder}/plane.svg"]):
        yield "plane", output("analyze", "plane", "--scheduler", "edf", *tasks, *more, "--json")
    yield "plane", output("analyze", "plane", "--scheduler", "dm", *tasks, "--json")
    yield from compositional(folder)
    yield from certificates(folder)
    yield from buckets(folder)
    yield from paths()
    yield from criticality(folder)
    yield from ensembles()
    yield from topics()
    yield from packets()
    yield from waiting()
    yield from modes(Path(folder))
    random = ["--rate", "0.004/ms", "--service", "40ms:75%", "--service", "280ms"]
    for more in ([], ["--slots", "7", "--at", "1s", "--percentile", "99"], ["--server", "periodic", "--batch", "2"]):
        yield "response", output("analyze", "response", *random, "--budget", "180ms", "--period", "200ms", *more, "--json")
    anew = [*random, "--server", "constant_bandwidth", "--at", "1s"]
    yield "response", output("analyze", "response", *anew, "--budget", "160ms", "--period", "200ms", "--json")
    yield "response", output("analyze", "response", *anew, "--budget", "160s", "--period", "200s", "--json")
    near = ["--rate", "999/s", "--service", "1ms", "--budget", "999500001ns", "--period", "1s", "--at", "1s",
            "--percentile", "99"]
    yield "response", output("analyze", "response", *near, "--json", "--for", "10s")
    yield "slo", output("analyze", "slo", *random, "--objective", "p90=600ms", "--period", "100ms", "--json")
    drawn = ["--csv", f"{folder}/map.csv", "--plot", f"{folder}/map.svg"]
    yield "map", output("analyze", "map", *random, "--steps", "3", "--bandwidth", "30%..100%", *drawn, "--json")
    sites = ("path", "path-topic", "path-packets", "path-fork", "path-shared", "path-group", "path-link", "path-despite")
    for site in ("walk", "supply", "percentiles", *sites):
        yield "simulate", output("simulate", f"sites/{site}.yaml", "--for", "1s", "--json")
    spans = Path(folder) / "spans.json"
    spans.write_text("\n".join(map(json.dumps, spans_of_two_services())))
    yield "import", output("measure", "import", spans, "--as-site", f"{folder}/spans.yaml", "--json")
    yield "check", output("check", f"{folder}/spans.yaml", "--json")
    assured = Path(folder) / "assured.yaml"
    promise = "    promise: {p99: 120ms}\n"
    assured.write_text((ROOT / "sites/path.yaml").read_text().replace(promise, promise + "    assurance: simulated\n"))
    for verb in ("check", "plan"):
        yield verb, output(verb, assured, "--json")
    yield "simulate", output("simulate", assured, "--for", "1s", "--json")
    for site in sites:
        yield "check", output("check", f"sites/{site}.yaml", "--json")
        yield "plan", output("plan", f"sites/{site}.yaml", "--json")
    yield "check", output("check", "sites/walk.yaml", "--json")
    yield "check", output("check", "sites/adopted.yaml", "--json")
    yield "check", output("check", "sites/supply.yaml", "--json")
    yield "check", output("check", "sites/two-hosts.yaml", "--json")
    yield "check", output("check", "sites/percentiles.yaml", "--json")
    yield "simulate", output("simulate", "sites/two-hosts.yaml", "--host", "edge-1", "--for", "1s", "--json")
    yield "explain", output("explain", "beta", "--site", "sites/two-hosts.yaml", "--json")
    yield "run", output("run", "sites/two-hosts.yaml", "--host", "edge-1", "--dry-run", "--json")
    for name in ("cache", "batch"):
        yield "explain", output("explain", name, "--plan", plan, "--json")
    yield "explain", output("explain", "alpha", "--site", "sites/supply.yaml", "--json")
    spinning = subprocess.Popen(["sh", "-c", "while :; do sleep 0.01; done"])
    try:
        yield "init", output("init", "--adopt", spinning.pid, "--for", "3s", "--out", f"{folder}/init.yaml", "--json")
    finally:
        spinning.kill()
        spinning.wait()
    yield "doctor", output("doctor", "--json", codes=(0, 3))
    for late in (None, {"service": "cache", "from_ns": 1, "to_ns": 2}):
        yield "record", {"file": "x", "from_ns": 1, "until_ns": 2, "late": late, "runs": 0, "jobs": 0, "late_jobs": 0, "lost": 0}
    for name in ("status", "reload"):
        yield name, json.loads((ROOT / f"formats/goldens/{name}.json").read_text())
    changed = json.loads((ROOT / "formats/goldens/status.json").read_text())["modes"]
    yield from (("mode", document) for document in (changed, *changed["changes"], None))
    yield from operated()
    # A journal of its own: another giusto on this host is left alone.
    yield "restore", output("restore", "--json", GIUSTO_STATE=f"{folder}/state")
    yield from measured(folder)
    yield "supply", output("measure", "supply", "--for", "200ms", "--json")
    yield "latency", json.loads((ROOT / "formats/goldens/latency.json").read_text())
    yield "plan", output("plan", "sites/flight.yaml", "--latency", "formats/goldens/latency.json", "--json")
    if os.geteuid() == 0:
        yield "latency", output("measure", "latency", "--for", "100ms", "--stress", "--json", codes=(0, 6))
    if os.geteuid() == 0 and len(os.sched_getaffinity(0)) > 1:
        yield "packets", output("measure", "packets", "--for", "200ms", "--json")
    yield "supply", output("measure", "supply", "--for", "200ms", "--ask", "3ms/10ms", "--json")
    yield "supply", json.loads((ROOT / "formats/goldens/supply.json").read_text())
    whole, measured_file, *baseline = job_files(folder)
    yield "verify", output("verify", whole, measured_file, "--json")
    beside = output("verify", whole, measured_file, "--plan", plan, "--service", "cache", "--json")
    assert [one["p"] for one in beside["predicted"]] == [50, 99, 99.9] and beside["unfinished"] == [0, 0], beside
    yield "verify", beside
    more = [word for file in baseline for word in ("--baseline", file)]
    comparison = output("verify", whole, measured_file, *more, "--json", codes=(0, 5, 6))
    yield "verify", comparison
    yield "verify", output("verify", whole, measured_file, "--promise", "p90=1ms", "--json", codes=(0, 5, 6))
    yield "study", output("study", "list", "--json")
    yield "study", output("study", "run", "csa-arinc", "--quick", "--out", folder, "--json", codes=(0, 6))
    yield from recordings(folder)
    yield "run", output("run", "sites/walk.yaml", "--dry-run", "--json")
    yield "run", without_privilege(folder)
    # A real trial takes a core for half a minute: its shape is made here, around a real comparison.
    demand = {"mean_ns": 54_600, "declared_ns": None, "utilization": 0.33, "greatest_ns": 14_100_000, "budget_ns": 19_000_000,
              "period_ns": 40_000_000, "verdict": "fits"}
    yield "run", [{"service": "cache", "demand": demand, "comparison": comparison, "voided": ["cycle 1, giusto: 20 ms stolen by the hypervisor"]}]


def recordings(folder):
    """One of each kind that can be imported."""
    file = Path(folder) / "recording"
    switch = "sched_switch: prev_comm={} prev_pid={} prev_prio=120 prev_state={} ==> next_comm={} next_pid={} next_prio=120"
    lines = [f"x-1 [000] 1.{n}: {what}" for n, what in enumerate([
        switch.format("it", 5, "S", "idle", 0), "sched_wakeup: comm=it pid=5 prio=120 target_cpu=000", switch.format("idle", 0, "R", "it", 5),
        switch.format("it", 5, "S", "idle", 0), "sched_wakeup: comm=it pid=5 prio=120 target_cpu=000"])]
    file.write_text("\n".join(lines) + "\n")
    document = output("measure", "import", file, "--thread", "it", "--json")
    assert (document["jobs"], [cut["wakeups"] for cut in document["cut_off"]]) == (1, [0, 1]), document
    yield "import", document
    file.write_text("#idx perf run period start end rel_st slack c_duration c_period wu_lat\n0 9 20 105 1000 1105 0 80 20 100 5\n")
    yield "import", output("measure", "import", file, "--json")
    file.write_text("#idx perf run period start end rel_st slack c_duration c_period wu_lat\n")
    yield "import", output("measure", "import", file, "--json", codes=(6,))
    file.write_text("\n".join(lines[:2]) + "\n")
    document = output("measure", "import", file, "--thread", "it", "--json", codes=(6,))
    assert document["jobs"] == 0 and document["response_ns"] is document["execution_ns"] is None, document
    yield "import", document
    file.write_text('{"tasks": {"a": {"run": 1, "timer": {"ref": "x", "period": 9}}}}')
    yield "import", output("measure", "import", file, "--json")


def main():
    seen = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, document in documents(folder):
            valid(name, document)
            seen.setdefault(name, []).append(document)
    if seen.keys() != SCHEMAS.keys():
        sys.exit(f"no document was checked against {', '.join(SCHEMAS.keys() - seen.keys())}")
    # A schema that accepts anything proves nothing: without a key, and with one that is unknown, it must refuse.
    passed = sum(map(len, seen.values()))
    for name, all_seen in seen.items():
        for document in all_seen:
            one = document[0] if isinstance(document, list) else document
            if not isinstance(one, dict):
                continue
            broken = [{key: value for key, value in one.items() if key != next(iter(one))}]
            if name not in ("verify", "run") or "plan" in one:  # statistics may get more fields
                broken.append(dict(one, surprise=1))
            for wrong in broken:
                try:
                    valid(name, [wrong] if isinstance(document, list) else wrong)
                except jsonschema.ValidationError:
                    passed += 1
                else:
                    sys.exit(f"{name}.schema.json accepts {json.dumps(wrong)[:200]}")
    print(f"{passed} passed, 0 failed")


if __name__ == "__main__":
    main()
