"""What `giusto run` itself takes: all threads and the watchdog, for ten servers at 10 ms on one core; as each thread's schedstat and as its
status tell it, in turns asleep and at work. Needs root and two cores.

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
# Share of a core that giusto may take for them: asleep; and each with a job of about 0.1 ms every 10 ms.
LIMITS = {"asleep": 0.01, "at work": None}
PROGRAMS = {"asleep": "[sleep, infinity]", "at work": None}


def threads(pid):
    """Processor time of each thread, in ns, by its name."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        name = (task / "comm").read_text().strip()
        found[name] = found.get(name, 0) + int((task / "schedstat").read_text().split()[0])
    return found


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
            before = {**threads(giusto.pid), **threads(watchdog)}
            time.sleep(seconds)
            took = time.monotonic() - begin
            after = {**threads(giusto.pid), **threads(watchdog)}
            shares = {name: (after[name] - before.get(name, 0)) / took / 1e9 for name in after}
            return shares, (stolen() - lost) / took / 2, look()
        finally:
            giusto.send_signal(signal.SIGINT)
            giusto.wait(30)


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
        for name, limit in LIMITS.items():
            shares, lost, status = turn(PROGRAMS[name], seconds)
            whole = sum(shares.values())
            told = status.get("cpu_recent")
            rows = ", ".join(f"{thread} {share:.2%}" for thread, share in sorted(shares.items(), key=lambda row: -row[1]) if share > 0.0001)
            print(f"{name}: {whole:.2%} of a core ({rows}); status tells {'nothing' if told is None else format(told, '.2%')}; stolen {lost:.1%}", flush=True)
            missed |= limit is not None and whole > limit
    return int(missed)


if __name__ == "__main__":
    if os.geteuid() != 0 or os.cpu_count() < 2:
        print("SKIPPED: needs root and two cores")
        sys.exit(77)
    sys.exit(main())
