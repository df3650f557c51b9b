"""'giusto measure import' on real recordings of a program that keeps its own log, by the tracing file system and by perf.

The program sleeps until the next millisecond or so, works, and writes down when it woke, when it was done and how much processor time
it had meanwhile; another takes the same processor from it. Each turn must be within exactly one job that was imported, whose
processor time must hold what the program had. Then the same with buffers that overflow: what is still called a job must be one.
The recorder is an instance of its own, so no other tracing is touched. Exit: 0 held, 1 not, 77 this machine cannot record."""
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GIUSTO = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "giusto"
TURNS = 300
SLEEPS = 100_000  # ns; a timer that is due at once may fire before the thread is off the processor
NAME = "turn [0] = 1"
PROGRAM = f"""
import os, sys, time
os.sched_setaffinity(0, {{0}})
open("/proc/self/comm", "w").write({NAME!r})
print(os.getpid(), flush=True)
sys.stdin.readline()
turns, due = [], time.monotonic_ns()
for turn in range({TURNS}):
    due += 1_000_000 * (1 + turn % 4)
    early = due - time.monotonic_ns()
    time.sleep(max(0, early) / 1e9)
    woke, ran = time.monotonic_ns(), time.thread_time_ns()
    while time.thread_time_ns() - ran < 200_000 * (turn % 7):
        pass
    turns.append((woke, time.monotonic_ns(), time.thread_time_ns() - ran, early))
time.sleep(0.01)
for turn in turns:
    print(*turn)
"""


def turns(between):
    """Runs the program beside a hog on its processor; `between` is entered with its number before its first turn."""
    hog = subprocess.Popen([sys.executable, "-c", "import os\nos.sched_setaffinity(0, {0})\nwhile True: pass"])
    try:
        program = subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        tid = int(program.stdout.readline())
        time.sleep(0.05)
        with between(tid):
            seen, _ = program.communicate("\n")
        return tid, [tuple(map(int, line.split())) for line in seen.splitlines()]
    finally:
        hog.kill()
        hog.wait()


@contextmanager
def instance(kilobytes):
    """A recorder of the tracing file system."""
    own = None
    tracing = Path("/sys/kernel/tracing")
    if not (tracing / "instances").exists():
        own = Path(tempfile.mkdtemp())
        if subprocess.run(["mount", "-t", "tracefs", "tracefs", own], capture_output=True).returncode:
            own.rmdir()
            print("this machine cannot record: no tracing file system (CONFIG_TRACING), or this is not root")
            sys.exit(77)
        tracing = own
    recorder = tracing / "instances" / f"giusto-import-{os.getpid()}"
    try:
        recorder.mkdir()
    except OSError as why:
        print(f"this machine cannot record: {why}")
        sys.exit(77)
    try:
        (recorder / "trace_clock").write_text("mono")
        (recorder / "buffer_size_kb").write_text(str(kilobytes))
        for event in ("sched_switch", "sched_wakeup", "sched_wakeup_new"):
            (recorder / "events/sched" / event / "enable").write_text("1")
        yield recorder
    finally:
        (recorder / "tracing_on").write_text("0")
        recorder.rmdir()
        if own:
            subprocess.run(["umount", own], check=True)
            own.rmdir()


def by_tracefs(folder, kilobytes, file="trace"):
    with instance(kilobytes) as recorder:
        @contextmanager
        def recording(_):
            yield
            (recorder / "tracing_on").write_text("0")

        tid, log = turns(recording)
        trace = Path(folder) / f"{file}.txt"
        source = os.open(recorder / file, os.O_RDONLY | os.O_NONBLOCK)
        with trace.open("wb") as out:
            while True:
                try:
                    some = os.read(source, 1 << 20)
                except BlockingIOError:
                    break
                if not some:
                    break
                out.write(some)
        os.close(source)
    return tid, log, trace


def by_perf(folder):
    data, trace = Path(folder) / "perf.data", Path(folder) / "perf.txt"
    events = "sched:sched_switch,sched:sched_wakeup,sched:sched_wakeup_new"

    @contextmanager
    def recording(_):
        control, answer = (Path(folder) / name for name in ("control", "answer"))
        for pipe in (control, answer):
            os.mkfifo(pipe)
        # Both ways open, so that nothing waits for a perf that has ended.
        to_perf, from_perf = (os.fdopen(os.open(pipe, os.O_RDWR), mode, buffering) for pipe, mode, buffering in
                              ((control, "w", 1), (answer, "r", -1)))
        words = ["perf", "record", "-q", "-k", "CLOCK_MONOTONIC", "-e", events, "-a", "-m", "4M", "-o", data]
        words += ["-D", "-1", f"--control=fifo:{control},{answer}"]
        perf = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with to_perf, from_perf:
            print("enable", file=to_perf)
            assert select.select([from_perf], [], [], 30)[0], f"perf does not record; exit code {perf.poll()}"
            yield
            perf.send_signal(2)
            perf.wait()

    tid, log = turns(recording)
    with trace.open("w") as out:
        subprocess.run(["perf", "script", "--ns", "--show-lost-events", "-i", data], stdout=out, stderr=subprocess.DEVNULL, check=True)
    return tid, log, trace


def imported(trace, thread, folder):
    out, profile = Path(folder) / "jobs.csv", Path(folder) / "profile.csv"
    for file in (out, profile):
        file.unlink(missing_ok=True)
    done = subprocess.run([GIUSTO, "measure", "import", trace, "--thread", str(thread), "--out", out, "--profile", profile, "--json"],
                          capture_output=True, text=True)
    report = json.loads(done.stdout)
    assert done.returncode == (0 if report["jobs"] else 6), done.stderr
    if not report["jobs"]:
        assert "no job in it is complete" in done.stderr and not out.exists() and not profile.exists(), done.stderr
        return report, []
    jobs = [tuple(map(int, line.split(",")[3:])) for line in out.read_text().splitlines()[1:]]
    ran = [int(line.split(",")[0]) for line in profile.read_text().splitlines()[1:]]
    assert report["jobs"] == len(jobs) == len(ran)
    wakeups = trace.read_text(errors="replace").count(f" pid={report['tid']} prio=")
    assert report["wakeups"] == wakeups, (report["wakeups"], wakeups)
    return report, [(release, finish, execution) for (release, finish), execution in zip(jobs, ran)]


def compare(log, jobs, grain, whole):
    """Every turn in one job (or at most one), whose time on a processor holds the turn's; every job in the log's time holds a turn."""
    held = set()
    for woke, done, ran, _ in log:
        around = [n for n, (release, finish, _) in enumerate(jobs) if release <= woke + grain and done <= finish + grain]
        assert len(around) == 1 or not whole and not around, (woke, done, around)
        for n in around:
            release, finish, execution = jobs[n]
            # A turn that is preempted has more ends to be cut off.
            assert ran <= execution + 4 * grain and execution <= finish - release + grain, (jobs[n], ran)
            held.add(n)
    within = {n for n, (release, finish, _) in enumerate(jobs) if release > log[0][1] and finish < log[-1][1]}
    assert within <= held, f"jobs without a turn: {[jobs[n] for n in sorted(within - held)][:5]}"
    return len(held)


def begun(log):
    """How many jobs the turns are: one that is due before the last one is done does not sleep, and goes on with its job."""
    return sum(early > 0 for *_, early in log)


def main():
    with tempfile.TemporaryDirectory() as folder:
        tid, log, trace = by_tracefs(folder, 4096)
        report, jobs = imported(trace, NAME, folder)
        assert report["tid"] == tid and report["losses"] == 0, report
        # The file system prints whole us, and cuts off the rest. Some machines hide what certain threads do, and jobs beside
        # those are cut off.
        held = compare(log, jobs, 1000, not report["cut_off"])
        assert held + len(report["cut_off"]) > 0.95 * begun(log), (held, report, log)
        preempted = sum(finish - release > execution + 100_000 for release, finish, execution in jobs)
        assert preempted, "the hog never took the processor: the test proves less than it says"
        print(f"tracing file system: {TURNS} turns in {held} jobs of {len(jobs)}, {preempted} of them off the processor for a while")
        for file in ("trace", "trace_pipe"):
            kilobytes = 16
            for attempt in range(12):  # where the other processor's events of that time are gone, no job is certain
                tid, log, trace = by_tracefs(folder, kilobytes, file)
                report, jobs = imported(trace, tid, folder)
                held = compare(log, jobs, 1000, False)
                assert held < TURNS, held
                assert file == "trace" or report["losses"], report
                # One that spans missing events would go on from one turn to another, between which the program slept.
                for release, finish, _ in jobs:
                    begun_here = [woke for woke, _, _, early in log if early > SLEEPS and release < woke < finish]
                    assert len(begun_here) <= 1, (release, finish, log)
                # A loss cuts nothing off where the thread slept before it, for all that the trace tells.
                if held and (file == "trace" or report["cut_off"]):
                    break
                if not held:  # what else runs here fills such a buffer at once
                    kilobytes = min(2 * kilobytes, 128)
            assert held, report
            assert file == "trace" or report["cut_off"], report
            print(f"{file} of a buffer that overflows: {held} turns in jobs, all of them real; {len(report['cut_off'])} cut off, {report['losses']} losses")
        if not shutil.which("perf"):
            print("perf: not here (apt-get install linux-perf)")
            return 0
        tid, log, trace = by_perf(folder)
        report, jobs = imported(trace, tid, folder)
        # It does not see every thread of every machine: what that leaves out is cut off, and no more.
        held = compare(log, jobs, 0, report["losses"] == 0 and not report["cut_off"])
        assert held + len(report["cut_off"]) > 0.95 * begun(log) or report["losses"], (held, report, log)
        print(f"perf: {len(log)} turns in {held} jobs of {len(jobs)}, to the nanosecond; {len(report['cut_off'])} cut off, {report['losses']} losses")
        listed = subprocess.run([GIUSTO, "measure", "import", trace], capture_output=True, text=True)
        assert listed.returncode == 2 and "--thread" in listed.stderr and "python3" in listed.stderr, listed.stderr
    return 0


if __name__ == "__main__":
    sys.exit(main())
