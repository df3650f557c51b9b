"""What a user types, and what came of it."""
import os
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
