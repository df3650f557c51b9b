#!/usr/bin/env python3
"""The Rust tests of all rooms, by their programs, so that those which need the machine run alone and the others beside something.

    tests/rooms.py                 all
    tests/rooms.py machine         those of rooms that enforce, or measure time
    tests/rooms.py computing       all others, and the examples in the documentation

Where this is root: compute's `real` and the daemon's `kinds` take the last core, one after the other. All are built at once:
features are the same whatever is run. What fails is run again as patient.py says.
"""
import contextlib
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from patient import Patience

ROOT = Path(__file__).resolve().parent.parent
MACHINE = {"agent", "cgroup", "compute", "daemon", "measure", "network"}
SHOW = ["ps", "-o", "pid=,stat=,cls=,nice=,wchan=,args=", "-p"]
CARGO = ["cargo", "test", "--release", "--workspace", "--locked", "--quiet"]


def programs():
    """(folder, program, its name) of each test program."""
    built = subprocess.run([*CARGO, "--no-run", "--message-format=json"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if built.returncode:
        sys.exit(built.returncode)
    for line in built.stdout.splitlines():
        artifact = json.loads(line)
        if artifact.get("executable") and artifact["profile"]["test"]:
            folder = Path(artifact["manifest_path"]).parent
            yield folder, artifact["executable"], f"{folder.name} {artifact['target']['name']}"


def run(folder, program):
    """The exit code of a test program; what of it failed is run again (patient.py). 77: too much was taken each time to tell."""
    only, patience = [], Patience()
    while True:
        done = subprocess.Popen([program, "--quiet", *only], cwd=folder, stdout=subprocess.PIPE, text=True)
        said = ""
        for line in done.stdout:
            print(line, end="", flush=True)
            said += line
        if done.wait() == 0:
            if patience.flaky:
                print(f"FLAKY {folder.name}: {'; '.join(failed)}", flush=True)
            return 0
        parts = re.findall(r"^[a-z]+: (.*) \.\.\. FAILED", said, re.M)  # of a harness of its own
        failed = parts or re.findall(r"^    (\S+)$", said.rsplit("\nfailures:\n", 1)[-1], re.M)
        why = patience.again()
        if not failed or not why:
            return 77 if patience.nothing_told() else done.returncode
        print(f"{why}; once more: {'; '.join(failed)}", flush=True)
        only = failed if parts else ["--exact", *failed]


def left_behind():
    """What is left of Giusto's cgroups, and in them: names, and processes with their states. Removed, so that what is tested next
    is not harmed."""
    for group in [*Path("/sys/fs/cgroup").glob("giusto.*"), *Path("/sys/fs/cgroup").glob("*/giusto.*")]:
        for folder, _, _ in os.walk(group, topdown=False):
            yield folder
            for _ in range(100):
                with contextlib.suppress(OSError):
                    for pid in Path(folder, "cgroup.procs").read_text().split():
                        yield subprocess.run([*SHOW, pid], stdout=subprocess.PIPE, text=True).stdout
                        with contextlib.suppress(OSError):
                            (group.parent / "cgroup.procs").write_text(pid)
                with contextlib.suppress(OSError):
                    os.rmdir(folder)
                    break
                time.sleep(0.05)


def main(which):
    failed, spoilt = [], []
    for folder, program, name in sorted(programs(), key=lambda one: one[2]):
        if which in ("machine", "computing") and (folder.name in MACHINE) != (which == "machine"):
            continue
        begin = time.monotonic()
        code = run(folder, program)
        left = dict.fromkeys(line.strip() for line in left_behind()) if which == "machine" else {}
        if left:
            print(f"{name} left on this host:", *left, sep="\n  ", flush=True)
            code = 1
        word = {0: "passed", 77: "SKIPPED, a hypervisor took too much,"}.get(code, "FAILED")
        print(f"{name}: {word} in {time.monotonic() - begin:.1f} s", flush=True)
        if code == 77:
            spoilt.append(name)
        elif code:
            failed.append(f"{name}: (cd {folder.relative_to(ROOT)} && {program})")
    if which != "machine" and subprocess.run([*CARGO, "--doc"], cwd=ROOT).returncode:
        failed.append("examples in the documentation: " + " ".join([*CARGO, "--doc"]))
    for one in failed:
        print(f"FAILED {one}")
    sys.exit(1 if failed else 77 if spoilt else 0)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "all")
