"""Control loops on real cores: real threads, planned for every deadline, beside a program that takes every cycle it can get.
Each thread notes its own late jobs (giusto-loop), and none may be late. Needs root and the cores of the site.

  tests/loop.py                                8 s of sites/ros2.yaml or, the next day, of sites/aligned.yaml, as in 'make test'
  tests/loop.py sites/avionics.yaml 600        ten minutes of another
"""
import json
import os
import re
import sys
import time
import unittest
from pathlib import Path

from patient import of_today
from running import GIUSTO, ROOT, Running

SITES, SECONDS = of_today([ROOT / "sites" / name for name in ("ros2.yaml", "aligned.yaml")]), 8
LATE = re.compile(r"^late (\S+) at ([\d.]+): (\S+) (\S+), due in (.*)$", re.M)
DONE = re.compile(r"^(\S+): (\d+) jobs, (\d+) late, longest response (.*), due in (.*)$", re.M)
UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


def ticks(cores):
    """Of these cores together since boot: idle, and stolen by a hypervisor, in seconds."""
    fields = [line.split() for line in Path("/proc/stat").read_text().splitlines()]
    mine = [one for one in fields if one[0] in {f"cpu{core}" for core in cores}]
    return [sum(int(one[column]) for one in mine) / os.sysconf("SC_CLK_TCK") for column in (4, 8)]


class Loop(Running):
    def test_no_deadline_is_missed(self):
        for site in SITES:
            with self.subTest(site.name):
                self.no_deadline_is_missed(site)

    def no_deadline_is_missed(self, site):
        self.site, self.out = site, self.folder / site.stem
        plan = json.loads(self.ask("plan", str(site), "--json").stdout)
        services = {one["name"]: one for one in plan["services"] if one.get("tasks")}
        cores = {one["core"] for one in services.values()}
        self.begin("manager")
        self.until(lambda: self.status()["state"] == "enforcing", "enforcing")
        time.sleep(2)  # until all have released their first jobs
        begun, (idle, stolen) = time.monotonic(), ticks(cores)
        taken = []
        while time.monotonic() < begun + SECONDS:
            time.sleep(0.1)
            self.assertIsNone(self.giusto.poll(), self.log())
            taken.append((time.monotonic(), ticks(cores)[1]))
        self.assertEqual(self.status()["state"], "enforcing", self.log())
        ended = time.monotonic()
        idle, stolen = (after - before for after, before in zip(ticks(cores), (idle, stolen)))
        self.stop()
        print("\n".join(line for line in self.log().splitlines() if "late" in line or "held" in line)[:2000])
        late, jobs = [], 0
        for name, service in services.items():
            said = (self.out / "logs" / f"{name}.log").read_text()
            for task, at, response, unit, deadline in LATE.findall(said):
                at, released = float(at), float(at) - float(response) * UNITS[unit]
                if released >= begun and at <= ended:
                    # What waits is served for a while yet, as servers have hardly more than their tasks ask for.
                    near = [total for when, total in taken if released - 3 <= when <= at + 0.2]
                    lost = max(near, default=0) - min(near, default=0)
                    late.append((lost, f"{name}: {task}, {response} {unit} of {deadline}, {lost:.2f} s stolen meanwhile"))
            done = {task: (int(count), longest, deadline) for task, count, _, longest, deadline in DONE.findall(said)}
            for task in service["tasks"]:
                count, longest, deadline = done[task["name"]]
                # Released since a second after the start; of the last one it need not be done.
                if stolen == 0 or SECONDS >= 600:
                    self.assertGreaterEqual(count, int((ended - begun) / task["period_ns"] * 1e9) - 1, f"{name}: {task['name']}")
                print(f"{name}: {task['name']}: {count} jobs, longest response {longest} of {deadline}")
                jobs += count
        print(f"{site.name}: {jobs} jobs in {ended - begun:.0f} s, {len(late)} late; "
              f"cores {sorted(cores)} idle for {idle:.1f} s, {stolen:.1f} s stolen by a hypervisor")
        self.assertLess(idle, 0.05 * SECONDS * len(cores), "nothing took what was left")
        # What a hypervisor takes of a core is the machine's; in ten minutes all have to be in time.
        self.assertEqual([said for lost, said in late if lost == 0 or SECONDS >= 600], [])


if __name__ == "__main__":
    if len(sys.argv) > 1:
        SITES = [Path(sys.argv.pop(1)).resolve()]
    if len(sys.argv) > 1:
        SECONDS = float(sys.argv.pop(1))
    missing = [path for path in (GIUSTO, GIUSTO.with_name("giusto-loop")) if not path.exists()]
    if missing:
        sys.exit(f"{missing[0]} is missing: cargo build --release -p giusto-cli -p giusto-studies --bins")
    if os.geteuid() != 0 or os.cpu_count() < 2:
        print("SKIPPED: needs root and two cores")
        sys.exit(77)
    unittest.main(verbosity=2)
