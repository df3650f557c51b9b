"""How long `import giusto` takes beside a Python that imports nothing, in turns, bytecode there.

import_time.py [ROUNDS]     (default 20)

Gate: at most 50 ms more, the median. Exit: 0 held, 1 not.
"""

import os
import statistics
import subprocess
import sys
import time

GATE = 50


def ms(code):
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""})
    return 1000 * (time.perf_counter() - start)


def main(rounds):
    ms("import giusto")
    more = [ms("import giusto") - ms("pass") for _ in range(rounds)]
    median, load = statistics.median(more), os.getloadavg()[0]
    spread = f"{min(more):.1f} to {max(more):.1f}"
    print(f"import giusto: {median:.1f} ms (median of {rounds}, {spread}; gate: <= {GATE}; load {load:.1f})")
    return int(median > GATE)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20))
