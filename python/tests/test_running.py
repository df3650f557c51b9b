"""Python stays responsive: Ctrl-C, the GIL, the time of an import."""

import os
import signal
import statistics
import subprocess
import sys
import threading
import time

import pytest

import giusto

LONG = """
import giusto, sys
system = giusto.System()
system.run(["1ms/3ms", "1ms/4ms"], "edf")
print("now", flush=True)
try:
    {call}
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.exit(7)
"""
CALLS = [
    'system.simulate("100000000s")',
    'giusto.analyze.map("40/s", ["4ms", "7ms"], steps=400)',
    'giusto.analyze.each(giusto.analyze.response, {"budget": [f"{5_000_000 + n}ns" for n in range(40_000)]}, rate="200/s", '
    'service="2ms", period="10ms")',
]


@pytest.mark.parametrize("call", CALLS)
def test_an_interrupt_ends_long_work(call):
    started = subprocess.Popen([sys.executable, "-c", LONG.format(call=call)], stdout=subprocess.PIPE, text=True)
    assert started.stdout.readline() == "now\n"
    time.sleep(0.3)
    assert started.poll() is None, started.communicate()
    started.send_signal(signal.SIGINT)
    out, _ = started.communicate(timeout=60)
    assert (started.returncode, out) == (7, "interrupted\n")


FORKS = """
import giusto, os, sys, threading, warnings
warnings.simplefilter("error")  # of a fork beside threads, from Python 3.12 on
def ask():
    return giusto.analyze.given(["2ms/7ms", "1ms/8ms"], "edf", "2ms/3ms").certificate
together = [threading.Thread(target=ask) for _ in range(4)]
before = ask()
for each in together:
    each.start()
for each in together:
    each.join()
child = os.fork()
if not child:
    same = ask() == before
    grandchild = os.fork()
    if not grandchild:
        os._exit(0 if same and ask() == before else 1)
    os._exit(os.waitstatus_to_exitcode(os.waitpid(grandchild, 0)[1]))
assert ask() == before
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
# A fork that Python does not know of takes no thread along either.
UNKNOWN = """
import ctypes, giusto, os, sys
def ask():
    return giusto.analyze.given(["2ms/7ms", "1ms/8ms"], "edf", "2ms/3ms").certificate
before = ask()
child = ctypes.PyDLL(None).fork()
if not child:
    os._exit(0 if ask() == before else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.parametrize("code", [FORKS, UNKNOWN])
def test_a_process_that_forks_has_answers_too(code):
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0


def test_after_an_interrupt_it_answers_as_before():
    again = "print(giusto.analyze.recovery(5).servers)"
    code = LONG.replace("    sys.exit(7)", f"    {again}\n    sys.exit(7)")
    started = subprocess.Popen([sys.executable, "-c", code.format(call=CALLS[1])], stdout=subprocess.PIPE, text=True)
    assert started.stdout.readline() == "now\n"
    time.sleep(0.3)
    started.send_signal(signal.SIGINT)
    out, _ = started.communicate(timeout=60)
    assert (started.returncode, out) == (7, "interrupted\n5\n")


def test_others_run_while_it_simulates():
    system = giusto.System()
    system.run(["1ms/3ms", "1ms/4ms"], "edf")
    over, steps = threading.Event(), []

    def simulate():
        system.simulate("2000s")
        over.set()

    thread = threading.Thread(target=simulate)
    thread.start()
    while not over.is_set():
        steps.append(1)
        time.sleep(0.0005)
    thread.join()
    assert len(steps) > 20


def seconds(*words):
    start = time.perf_counter()
    subprocess.run([sys.executable, *words], check=True, env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""})
    return time.perf_counter() - start


def test_an_import_costs_no_more_than_half_as_much_again_as_some_of_the_standard_library():
    # In turns, as the machine is not always as fast; both once before, so that their bytecode is there.
    ours, theirs = "import giusto", "import http.client, json, typing, fractions, contextvars, xml.dom.minidom, urllib.request"
    seconds("-c", ours), seconds("-c", theirs)
    pairs = [(seconds("-c", ours) - (base := seconds("-c", "pass")), seconds("-c", theirs) - base) for _ in range(7)]
    ratio = statistics.median(a / b for a, b in pairs if b > 0)
    assert ratio < 1.5, pairs


def test_what_is_not_asked_for_is_not_imported():
    code = "import sys; before = set(sys.modules); import giusto; print(len(set(sys.modules) - before))"
    count = int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    assert count <= 60  # typing, fractions and json with what they need are most of them
    unwanted = ("numpy", "matplotlib", "pandas", "polars", "tqdm", "csv", "xml")
    code = f"import sys, giusto; print([m for m in {unwanted} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
