"""What a user types, and what came of it."""
import os
import re
import subprocess
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


def example(*verb):
    """What the help of a verb shows first, without the program's name."""
    text = run(*verb, "--help")[0]
    return re.search(r"Example.*:\n\s+giusto (.*(?:\n {2,}(?!giusto )\S.*)*)", text).group(1)
