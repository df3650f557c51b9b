"""What a user types, and what came of it."""
import os
import re
import subprocess
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GIUSTO = ROOT / "target" / "release" / "giusto"
ROOT_USER = os.geteuid() == 0


def run(*args, code=0, cwd=ROOT, env=None, timeout=180, prefix=()):
    """Runs giusto; asserts the exit code; returns (stdout, stderr)."""
    done = subprocess.run([*prefix, str(GIUSTO), *map(str, args)], cwd=cwd, env={**os.environ, **(env or {})},
                          capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL)
    if done.returncode != code:
        raise AssertionError(f"{args}: exit {done.returncode}, expected {code}\n{done.stdout}\n{done.stderr}")
    return done.stdout, done.stderr


# What giusto says of a machine on which no trial can be made now: requests cost another time each second, or more than the core
# has beside what else was promised.
UNSTEADY = re.compile(r"cannot tell what a request of '\S+' costs: .*")
REFUSED = re.compile(r"from what was measured: \S+:\d+:\d+: service '\S+' does not fit: .*")


def no_trial(said):
    """The reason why this machine was too disturbed for a trial, if it was."""
    found = UNSTEADY.search(said) or REFUSED.search(said)
    return found and found[0]


def trial(*arguments, timeout=300, **more):
    """A trial that came to an answer: tried anew while the machine is too disturbed, three times."""
    for _ in range(3):
        done = subprocess.run([str(GIUSTO), *map(str, arguments)], cwd=ROOT, capture_output=True, text=True, timeout=timeout,
                              stdin=subprocess.DEVNULL, **more)
        reason = no_trial(done.stderr)
        if not reason:
            return done
        print(f"no trial, once more: {reason}", flush=True)
        time.sleep(5)
    raise unittest.SkipTest(f"this machine is too disturbed for a trial: {reason}")


def example(*verb):
    """What the help of a verb shows first, without the program's name."""
    text = run(*verb, "--help")[0]
    return re.search(r"Example.*:\n\s+giusto (.*(?:\n {2,}(?!giusto )\S.*)*)", text).group(1)
