"""Makes the archive of linked classes that bin/giusto-zookeeper starts with: what a server has that led after a recovery.

    python3 coordination/harness/archive.py

Three servers, of which the leader is killed; the next one dumps its classes (jcmd, of the JDK). To be made again with another java or
another jar: java ignores an archive that does not fit.
"""
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import wire
from ensemble import ARCHIVE, Ensemble


def lead_anew(ensemble):
    """Kills the leader; the new one, after it has served a write."""
    ensemble.leader().kill()
    left = [s for s in ensemble.servers if s.process]
    end = time.monotonic() + 60
    while not (all(s.mode() for s in left) and ensemble.leader()):
        if time.monotonic() > end:
            sys.exit(f"no server leads; see {ensemble.dir}")
        time.sleep(0.1)
    session = wire.Session(left[0].client)
    session.set("/archive", b"x")
    session.close()
    return ensemble.leader()


def main():
    ARCHIVE.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="giusto-zk-") as scratch:
        with Ensemble(Path(scratch) / "archive", ["giusto"] * 3, flags=["-XX:+RecordDynamicDumpInfo"]) as ensemble:
            session = wire.Session(ensemble.ports()[0])
            session.create("/archive")
            session.close()
            leader = lead_anew(ensemble)
            done = subprocess.run(["jcmd", str(leader.process.pid), "VM.cds", "dynamic_dump", str(ARCHIVE)], capture_output=True, text=True)
    if not ARCHIVE.exists():
        sys.exit(f"no archive was made: {done.stdout}{done.stderr}")
    print(f"{ARCHIVE}: {ARCHIVE.stat().st_size >> 20} MB")


if __name__ == "__main__":
    main()
