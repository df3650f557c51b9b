"""What all tests share."""

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GIUSTO = Path(os.environ.get("GIUSTO", Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release/giusto"))


def run(*words):
    """The command line's answer and exit code."""
    done = subprocess.run([GIUSTO, *map(str, words)], capture_output=True, text=True, cwd=ROOT, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def cli():
    """A function of words that returns what the command line prints as JSON."""
    if not GIUSTO.exists():
        pytest.fail(f"{GIUSTO} is missing: cargo build --release --workspace")

    def ask(*words):
        code, out, err = run(*words)
        assert out, (words, code, err)
        return json.loads(out)

    return ask
