"""How long `import giusto` takes beside a Python that imports nothing, in turns, bytecode there.

import_time.py [ROUNDS]     (default 30)

Gate: at most 50 ms more by the clock, least beside least; where others keep the processors busy, by processor time. Median,
spread and load are told beside it. Exit: 0 held, 1 not.
"""

import os
import statistics
import subprocess
import sys
import time

GATE = 50


def ms(code):
    """By the clock, and of processors."""
    start = time.perf_counter()
    # Bytecode is written, so that all but the first find it.
    started = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""})
    _, status, used = os.wait4(started.pid, 0)
    took = time.perf_counter() - start
    started.returncode = os.waitstatus_to_exitcode(status)
    if started.returncode:
        sys.exit(f"python -c {code!r} ended with {started.returncode}")
    return 1000 * took, 1000 * (used.ru_utime + used.ru_stime)


def main(rounds):
    ms("import giusto")
    pairs = [(ms("import giusto"), ms("pass")) for _ in range(rounds)]
    least = min(ours[0] for ours, _ in pairs) - min(bare[0] for _, bare in pairs)
    more = [ours[0] - bare[0] for ours, bare in pairs]
    computed = statistics.median(ours[1] - bare[1] for ours, bare in pairs)
    load, busy = os.getloadavg()[0], os.getloadavg()[0] > (os.cpu_count() or 1) / 2
    spread = f"by the clock {least:.1f} least beside least, median of {rounds} {statistics.median(more):.1f}"
    spread += f", {min(more):.1f} to {max(more):.1f}; load {load:.1f}"
    judged, what = (computed, "of processor time, as the machine is busy") if busy else (least, "by the clock")
    print(
        f"import giusto: {judged:.1f} ms more than bare Python, {what} (gate: <= {GATE}; processor time {computed:.1f}; {spread})"
    )
    return int(judged > GATE)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 30))
