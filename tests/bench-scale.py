#!/usr/bin/python3
"""Planning many services on many hosts: time, memory, size of the plan, and cores beside a bound.

  tests/bench-scale.py [SERVICES HOSTS [KIND]]   (default: the sizes below)

KIND: supply, or deadline (one to three tasks, EDF). The bound on cores is what is reserved by what a core can reserve: no
placement uses fewer. Then one service of 10,000 grows, and the site is planned again with the plan in force: how long that takes,
and how many move. Last, 100 changes of sites that stand in memory (planner/examples/replan.rs). Exit: 1 where a target is missed
(10,000 services on 1,000 hosts: 5 s of processor time, 1 GB, 20 MB, 3 % more cores; ten times as many: 60 s; a change in memory:
50 ms of processor time, and no other service moves).
"""
import json
import math
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GIUSTO = ROOT / "target/release/giusto"
# The largest last: what this program had in memory counts for those that it starts later.
SIZES = [(1000, 100, "supply"), (100, 10, "deadline"), (1000, 100, "deadline"), (10000, 1000, "supply"),
         (10000, 1000, "deadline"), (100000, 10000, "supply")]
TARGET = {"seconds": 5, "MB of memory": 1000, "MB of plan": 20, "more cores": 0.03}
LARGEST = {"seconds": 60, "more cores": 0.03}


def promise(draw, kind):
    if kind == "supply":
        period = draw.choice([10, 20, 40, 50])
        return f"promise: {{supply: {max(1, int(period * draw.uniform(0.05, 0.3)))}ms/{period}ms}}"
    tasks = []
    for number in range(draw.randint(1, 3)):
        period = draw.choice([10, 20, 40, 50, 100, 200])
        tasks.append(f"{{name: t{number}, wcet: {int(period * 1000 * draw.uniform(0.01, 0.06))}us, period: {period}ms}}")
    return f"promise: every-deadline, scheduler: edf, tasks: [{', '.join(tasks)}]"


def site(services, hosts, kind):
    draw = random.Random(7)
    lines = ["giusto: 1", "hosts:", *(f"  h{number}: {{cores: 0-3, keep-free: 5%}}" for number in range(hosts)), "services:"]
    lines += [f"  s{number}: {{start: [sleep, '1'], {promise(draw, kind)}}}" for number in range(services)]
    return "\n".join(lines) + "\n"


def measured(services, hosts, kind):
    with tempfile.TemporaryDirectory() as folder:
        file, plan = Path(folder) / "site.yaml", Path(folder) / "plan.json"
        file.write_text(site(services, hosts, kind))
        with open(plan, "w") as out:
            started = subprocess.Popen([GIUSTO, "plan", file, "--json"], stdout=out, stderr=subprocess.PIPE)
            error = started.stderr.read().decode()
            _, status, used = os.wait4(started.pid, 0)
        if status != 0:
            sys.exit(f"{services} services on {hosts} hosts: {error[:500]}")
        text = plan.read_text()
    cores = [core for host in json.loads(text)["hosts"] for core in host["admission"]]
    bound = math.ceil(sum(share(core["reserved"]) for core in cores) / max(share(core["most"]) for core in cores))
    return {"seconds": used.ru_utime + used.ru_stime, "MB of memory": used.ru_maxrss / 1024, "MB of plan": len(text) / 1e6,
            "more cores": len(cores) / bound - 1, "cores": len(cores)}


def again():
    """One of 10,000 supplies on 1,000 hosts grows."""
    with tempfile.TemporaryDirectory() as folder:
        file, plan, after = (Path(folder) / name for name in ("site.yaml", "plan.json", "after.json"))
        lines = site(10000, 1000, "supply").split("\n")
        file.write_text("\n".join(lines))
        subprocess.run([GIUSTO, "plan", file, "--out", plan], check=True, stdout=subprocess.DEVNULL)
        nth = next(nth for nth, line in enumerate(lines) if line.startswith("  s5000:"))
        lines[nth] = "  s5000: {start: [sleep, '1'], promise: {supply: 15ms/50ms}}"
        file.write_text("\n".join(lines))
        begin = os.times()
        for words in (["--current", plan], []):
            subprocess.run([GIUSTO, "plan", file, *words, "--out", after], check=True, capture_output=True)
            end = os.times()
            seconds = end.children_user + end.children_system - begin.children_user - begin.children_system
            begin = end
            there = places(after)
            moved = sum(there[name] != place for name, place in places(plan).items())
            how = "with" if words else "without"
            print(f"one of 10000 grows, planned {how} the plan in force: {seconds:.2f} s, {moved} move", flush=True)
            if words and moved > 1:
                return [f"{moved} moves"]
    return []


def standing():
    """100 changes each of 10,000 supplies and 10,000 services with deadlines on 1,000 hosts, in memory."""
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for kind in ("supply", "deadline"):
            files.append(Path(folder) / f"{kind}.yaml")
            files[-1].write_text(site(10000, 1000, kind))
        example = ["cargo", "run", "--release", "--locked", "--quiet", "-p", "giusto-planner", "--example", "replan", "--"]
        return [] if subprocess.run([*example, *files], cwd=ROOT).returncode == 0 else ["changes in memory"]


def places(plan):
    return {(one["name"], one["vcpu"]): (one["on"], one["core"]) for one in json.loads(plan.read_text())["services"]}


def share(text):
    """A share of a core as plans write it: 'a/b' or a whole number."""
    top, _, bottom = str(text).partition("/")
    return int(top) / int(bottom or 1)


def main():
    words = sys.argv[1:]
    sizes = [(int(words[0]), int(words[1]), (words + ["supply"])[2])] if len(words) > 1 else SIZES
    missed = again() + standing() if not words else []
    for services, hosts, kind in sizes:
        found = measured(services, hosts, kind)
        print(f"{services} x {kind} on {hosts} hosts: {found['seconds']:.2f} s, {found['MB of memory']:.0f} MB, "
              f"plan {found['MB of plan']:.1f} MB, "
              f"{found['cores']} cores, {100 * found['more cores']:.1f} % more than the bound", flush=True)
        target = LARGEST if services > 10000 else TARGET
        missed += [f"{name} of {services} x {kind}" for name, most in target.items() if found[name] > most]
    if missed:
        sys.exit(f"targets missed: {', '.join(missed)}")


if __name__ == "__main__":
    main()
