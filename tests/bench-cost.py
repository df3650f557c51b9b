"""What `giusto run` itself takes: all threads and the watchdog, for ten servers at 10 ms on one core; as each thread's schedstat and as its
status tell it, in turns asleep and at work. Beside the manager's thread stands what a thread takes that does nothing but wake up as often: less
than that no manager outside the kernel can take. Needs root and two cores.

    bench-cost.py [SECONDS]     (default 10 a turn)
"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GIUSTO = Path(os.environ.get("GIUSTO", ROOT / "target" / "release" / "giusto"))
SERVERS = 10
# What they do, the latter a job of about 0.1 ms every 10 ms; and the share of a core that giusto may take for them.
TURNS = (("asleep", 0.01), ("at work", None))
PROGRAMS = {"asleep": "[sleep, infinity]"}


def threads(pid):
    """Processor time of each thread, in ns, by its name."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        name = (task / "comm").read_text().strip()
        found[name] = found.get(name, 0) + int((task / "schedstat").read_text().split()[0])
    return found


def wakeups(pid):
    """How often the manager's threads have slept."""
    tasks = [task for task in Path(f"/proc/{pid}/task").iterdir() if (task / "comm").read_text().startswith("giusto-core")]
    lines = [line for task in tasks for line in (task / "status").read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))


WAKING = """
import ctypes, os, sys, time
os.sched_setaffinity(0, [int(sys.argv[1])])
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(90))
libc, after = ctypes.CDLL(None), (ctypes.c_long * 2)(0, int(1e9 / float(sys.argv[2])))
end, begun, woken = time.monotonic() + 3, time.process_time(), 0
while time.monotonic() < end:
    libc.nanosleep(after, None)
    woken += 1
print((time.process_time() - begun) / woken)
"""


def stolen():
    return sum(int(line.split()[8]) for line in Path("/proc/stat").read_text().splitlines() if line.startswith("cpu ")) / 100


def turn(program, seconds):
    with tempfile.TemporaryDirectory() as folder:
        services = "".join(f"  s{nth}: {{start: {program}, promise: {{supply: 500us/10ms}}}}\n" for nth in range(SERVERS))
        site = Path(folder) / "site.yaml"
        site.write_text("giusto: 1\nhosts:\n  test: {cores: 1}\nservices:\n" + services)
        words = [str(GIUSTO), "run", str(site), "--out", folder, "--backend", "manager"]
        with open(Path(folder) / "log", "w") as log:
            giusto = subprocess.Popen(words, cwd=ROOT, stdout=log, stderr=log)
        try:
            end = time.monotonic() + 30
            while not (status := look()) or status["state"] != "enforcing":
                if giusto.poll() is not None or time.monotonic() > end:
                    sys.exit((Path(folder) / "log").read_text())
                time.sleep(0.1)
            watchdog = next(int(pid) for pid in Path(f"/proc/{giusto.pid}/task/{giusto.pid}/children").read_text().split()
                            if Path(f"/proc/{pid}/comm").read_text() == "giusto-watchdog\n")
            time.sleep(1.5)
            begin, lost = time.monotonic(), stolen()
            before, woken = {**threads(giusto.pid), **threads(watchdog)}, wakeups(giusto.pid)
            time.sleep(seconds)
            took = time.monotonic() - begin
            after = {**threads(giusto.pid), **threads(watchdog)}
            shares = {name: (after[name] - before.get(name, 0)) / took / 1e9 for name in after}
            return shares, (wakeups(giusto.pid) - woken) / took, (stolen() - lost) / took / 2, look()
        finally:
            giusto.send_signal(signal.SIGINT)
            giusto.wait(30)


def bare(rate):
    """Part of a core that waking up `rate` times a second takes."""
    core = max(os.sched_getaffinity(0))
    done = subprocess.run([sys.executable, "-c", WAKING, str(core), str(rate)], capture_output=True, text=True, check=True)
    return float(done.stdout) * rate


def look():
    done = subprocess.run([str(GIUSTO), "status", "--json"], capture_output=True, text=True)
    return json.loads(done.stdout) if done.returncode == 0 else None


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 10
    with tempfile.TemporaryDirectory() as folder:
        job = Path(folder) / "job.py"
        job.write_text("import time\nn = time.monotonic()\nwhile True:\n    n += 0.01\n    time.sleep(max(0, n - time.monotonic()))\n"
                       "    end = time.monotonic() + 0.0001\n    while time.monotonic() < end:\n        pass\n")
        PROGRAMS["at work"] = f"[python3, {job}]"
        missed = False
        for name, limit in TURNS:
            shares, woken, lost, status = turn(PROGRAMS[name], seconds)
            whole = sum(shares.values())
            told = status.get("cpu_recent")
            rows = ", ".join(f"{thread} {share:.2%}" for thread, share in sorted(shares.items(), key=lambda row: -row[1]) if share > 0.0001)
            told = "nothing" if told is None else format(told, ".2%")
            print(f"{name}: {whole:.2%} of a core ({rows}); status tells {told}; stolen {lost:.1%}", flush=True)
            if woken > 100:
                print(f"  its manager wakes {woken:.0f} times a second; a thread that does only that takes {bare(woken):.2%}", flush=True)
            missed |= limit is not None and whole > limit
    return int(missed)


if __name__ == "__main__":
    if os.geteuid() != 0 or os.cpu_count() < 2:
        print("SKIPPED: needs root and two cores")
        sys.exit(77)
    sys.exit(main())
