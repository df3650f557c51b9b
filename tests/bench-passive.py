#!/usr/bin/env python3
"""What watching requests and wake-ups costs, in the kernel's own account of its programs: for each request or job and each call
of them, and beside the same load without; and what recording them costs.

    tests/bench-passive.py [SECONDS]     needs root; redis-benchmark sends requests, 50 clients, one at a time each; two processes
                                         wake each other in turn
"""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STATS = Path("/proc/sys/kernel/bpf_stats_enabled")
PORT = "7474"
SECONDS = int(sys.argv[1]) if len(sys.argv) > 1 else 8


def programs(pid):
    """(calls, ns) of each BPF program that the process holds, by its tag."""
    found = {}
    for file in Path(f"/proc/{pid}/fdinfo").iterdir():
        try:
            told = dict(re.findall(r"^(\w+):\s+(\S+)$", file.read_text(), re.M))
        except OSError:
            continue
        if "run_cnt" in told:
            found[told["prog_tag"]] = int(told["run_cnt"]), int(told["run_time_ns"])
    return found


def load():
    words = ["taskset", "-c", "0", "redis-benchmark", "-p", PORT, "-t", "get", "-c", "50", "-n", "10000000", "--csv"]
    subprocess.run(["timeout", "-s", "INT", str(SECONDS), *words], stdout=subprocess.DEVNULL)


def answered():
    out = subprocess.check_output(["redis-cli", "-p", PORT, "info", "stats"], text=True)
    return int(re.search(r"total_commands_processed:(\d+)", out)[1])


def cpu(pid):
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


def once(redis):
    before, used = answered(), cpu(redis)
    load()
    requests = answered() - before
    return requests, (cpu(redis) - used) / requests


PAIR = """
import os
(a, b), (c, d) = os.pipe(), os.pipe()
if os.fork():
    os.close(a), os.close(d)
    while os.write(b, b"x") and os.read(c, 1): pass
os.close(b), os.close(c)
while os.read(a, 1) and os.write(d, b"x"): pass
"""


def status():
    return json.loads(subprocess.check_output([ROOT / "target/release/giusto", "status", "--json"]))


def wake_ups(watched):
    """A pair that wakes each other, which is watched; or else only what sleeps beside it."""
    pair = subprocess.Popen(["taskset", "-c", "1", sys.executable, "-c", PAIR])
    sleeper = subprocess.Popen(["sleep", "1000"])
    had = STATS.read_text()
    try:
        with tempfile.TemporaryDirectory() as folder:
            site = Path(folder) / "site.yaml"
            pid = pair.pid if watched else sleeper.pid
            site.write_text("giusto: 1\nhosts:\n  bench: {cores: 1}\nservices:\n"
                            f"  one: {{adopt: {{pid: {pid}}}, promise: leftovers, observe: wake-ups}}\n")
            giusto = subprocess.Popen([ROOT / "target/release/giusto", "run", site], stdout=subprocess.DEVNULL, cwd=folder)
            time.sleep(4)
            STATS.write_text("1")
            begin, jobs = programs(giusto.pid), status()["services"][0].get("responses", {"answered": 0})["answered"]
            time.sleep(SECONDS)
            end, told = programs(giusto.pid), status()["services"][0]
            STATS.write_text(had)
            giusto.send_signal(signal.SIGINT)
            giusto.wait()
    finally:
        STATS.write_text(had)
        for one in (pair, sleeper):
            one.kill()
            one.wait()
    calls, spent = (sum(end[one][nth] - begin[one][nth] for one in end) for nth in (0, 1))
    done = told.get("responses", {"answered": 0})["answered"] - jobs
    print(f"wake-ups, {'watched' if watched else 'of others'}: {calls / SECONDS:,.0f} calls a second, "
          f"{spent / calls:.0f} ns a call"
          + (f"; {done / SECONDS:,.0f} jobs a second, {spent / done:.0f} ns a job" if watched else ""))


def busy(pid):
    """Processor time of all threads of a process, in s."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid):
    """In MB."""
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) / 1000


def recorded():
    """The pair on a share of a core, while it is recorded and while not."""
    pair = subprocess.Popen(["taskset", "-c", "1", sys.executable, "-c", PAIR])
    had, giusto = STATS.read_text(), ROOT / "target/release/giusto"
    try:
        with tempfile.TemporaryDirectory() as folder:
            site = Path(folder) / "site.yaml"
            site.write_text("giusto: 1\nhosts:\n  bench: {cores: 1}\nservices:\n"
                            f"  one: {{adopt: {{pid: {pair.pid}}}, promise: {{supply: 6ms/10ms}}, observe: wake-ups}}\n")
            running = subprocess.Popen([giusto, "run", site, "--backend", "manager"], stdout=subprocess.DEVNULL, cwd=folder)
            time.sleep(4)
            STATS.write_text("1")
            before = programs(running.pid)
            time.sleep(SECONDS)
            without, small = programs(running.pid), memory(running.pid)
            record = subprocess.Popen([giusto, "record", "--for", f"{SECONDS + 2}s", "--out", "trace.json", "--json"], cwd=folder,
                                      stdout=subprocess.PIPE)
            time.sleep(1)
            begin, used = programs(running.pid), busy(running.pid)
            time.sleep(SECONDS)
            end, used, large = programs(running.pid), busy(running.pid) - used, memory(running.pid)
            told = json.loads(record.communicate()[0])
            STATS.write_text(had)
            running.send_signal(signal.SIGINT)
            running.wait()
    finally:
        STATS.write_text(had)
        pair.kill()
        pair.wait()

    def cost(first, last, which):
        calls, spent = (sum(last[one][nth] - first[one][nth] for one in which) for nth in (0, 1))
        return calls, spent
    own = begin.keys() & end.keys() - without.keys()
    calls, spent = cost(begin, end, own)
    (calls_before, spent_before), (calls_now, spent_now) = (cost(*two, before.keys())
                                                            for two in ((before, without), (begin, end)))
    print(f"recorded: {calls / SECONDS:,.0f} switches and wake-ups a second, {spent / calls:.0f} ns each; "
          f"the programs that watch: {spent_before / calls_before:.0f} ns a call before, {spent_now / calls_now:.0f} ns now; "
          f"{used / SECONDS * 100:.1f} % of a core in giusto, all threads; {large - small:.0f} MB more memory; "
          f"{told['jobs']} jobs drawn, {told['lost']} lost")


def main():
    requests()
    recorded()
    for watched in (True, False):
        wake_ups(watched)


def requests():
    with tempfile.TemporaryDirectory() as folder:
        redis = ["taskset", "-c", "1", "redis-server", "--port", PORT, "--save", ""]
        with subprocess.Popen(redis, stdout=subprocess.DEVNULL) as service:
            time.sleep(0.5)
            site = Path(folder) / "site.yaml"
            site.write_text("giusto: 1\nhosts:\n  bench: {cores: 1}\nservices:\n"
                            f"  cache: {{adopt: {{pid: {service.pid}}}, promise: leftovers}}\n")
            had = STATS.read_text()
            try:
                without = [once(service.pid)]
                giusto = subprocess.Popen([ROOT / "target/release/giusto", "run", site], stdout=subprocess.DEVNULL, cwd=folder)
                time.sleep(4)
                beside = [once(service.pid)]
                STATS.write_text("1")
                begin = programs(giusto.pid)
                asked, _ = once(service.pid)
                end = programs(giusto.pid)
                STATS.write_text(had)
                beside.append(once(service.pid))
                out = subprocess.check_output([ROOT / "target/release/giusto", "status"], text=True)
                giusto.send_signal(signal.SIGINT)
                giusto.wait()
                without.append(once(service.pid))
            finally:
                STATS.write_text(had)
                service.terminate()
    calls = sum(end[one][0] - begin[one][0] for one in end)
    spent = sum(end[one][1] - begin[one][1] for one in end)
    print(out)
    one = spent / asked
    print(f"{asked / SECONDS:,.0f} requests a second; the programs: {calls / asked:.2f} calls a request, "
          f"{spent / calls:.0f} ns a call, {one:.0f} ns a request, {spent / SECONDS / 1e7:.2f} % of a core; "
          f"at 50,000 requests a second {one * 50_000 / 1e7:.2f} %")
    rates = [sum(n for n, _ in runs) / SECONDS / len(runs) for runs in (without, beside)]
    costs = [sum(c for _, c in runs) / len(runs) / 1000 for runs in (without, beside)]
    print(f"without: {rates[0]:,.0f} requests a second, {costs[0]:.2f} us of the service's processor time each; "
          f"watched: {rates[1]:,.0f}, {costs[1]:.2f} us ({rates[1] / rates[0]:.3f} and {costs[1] / costs[0]:.3f} x)")


if __name__ == "__main__":
    main()
