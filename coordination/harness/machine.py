"""Machines that fail: each server of an ensemble has a disk, a clock and wires of its own (machine.c), and whatever was not forced to
the disk is gone when its power is.

What a power loss leaves follows ext4 and XFS: names and lengths of files change in the order in which they were changed, and are kept
up to some point, which is never before the last fsync of any file, nor before the fdatasync of a file that was new or shortened. What a
file holds is what was forced; parts of what came later may be there too, and all of it once the kernel has written it by itself. When
a forced write fails, Linux takes the pages for written: who reads finds them, until the power is lost, but no later fsync writes them.
"""
import mmap
import os
import shutil
import signal
import struct
import subprocess
import time
from pathlib import Path

from ensemble import ROOM
from wires import WiredEnsemble

# The kernel writes data back after 30 s if no process forces it; here it does so sooner.
WRITTEN_S = 1.5
CONTROLS = ("slow_us", "sync_errno", "write_errno", "create_errno", "clock_ns")
PAGE = 4096


def build(directory):
    library = Path(directory) / "machine.so"
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", library, ROOM / "harness" / "machine.c", "-ldl"], check=True)
    return library


class Machine:
    """The machine around one server, whose files are in disk."""

    def __init__(self, directory, disk, library):
        self.dir, self.disk, self.library = Path(directory), Path(disk), library
        self.dir.mkdir(parents=True)
        self.disk.mkdir(parents=True, exist_ok=True)
        with open(self.dir / "control", "w+b") as f:
            f.write(bytes(8 * len(CONTROLS)))
            f.flush()
            self.page = mmap.mmap(f.fileno(), 8 * len(CONTROLS))
        self._fresh()

    def set(self, control, value):
        struct.pack_into("q", self.page, 8 * CONTROLS.index(control), value)

    def get(self, control):
        return struct.unpack_from("q", self.page, 8 * CONTROLS.index(control))[0]

    def mend(self):
        for control in CONTROLS:
            self.set(control, 0)

    def environment(self, wires=()):
        return {"LD_PRELOAD": str(self.library), "GIUSTO_DISK": str(self.disk), "GIUSTO_MACHINE": str(self.dir),
                "GIUSTO_WIRES": ",".join(f"{a}:{b}" for a, b in wires)}

    def _fresh(self):
        """All that is there is on the disk."""
        for name in ("live", "durable", "dropped"):
            shutil.rmtree(self.dir / name, ignore_errors=True)
            (self.dir / name).mkdir()
        (self.dir / "journal").write_text("")
        self.names = {f.name: f.stat().st_ino for f in self.disk.iterdir()}

    def lose_power(self, rng=None):
        """The server's processes are dead. The disk is what it is when power returns: the least there can be, or by chance more."""
        lines = [line.split(" ", 2) for line in (self.dir / "journal").read_text().splitlines()]
        kept = committed(lines)
        if rng and rng.random() < 0.5:
            kept = rng.randint(kept, len(lines))
        names, flushed = replay(self.names, lines[:kept])
        paths = {f.stat().st_ino: f for d in (self.disk, self.dir / "live") for f in d.iterdir()}
        after = self.disk.with_name(self.disk.name + ".after")
        after.mkdir()
        for name, inode in names.items():
            durable = self.dir / "durable" / str(inode)
            if not durable.exists():
                os.link(paths[inode], after / name)
                continue
            data = durable.read_bytes()
            live = paths[inode].read_bytes()
            dropped = self.dir / "dropped" / str(inode)
            if dropped.exists():
                live = without(live, dropped.read_bytes(), data)
            written = paths[inode].stat().st_mtime < time.time() - WRITTEN_S
            if inode in flushed or written:
                data = live
            elif rng and rng.random() < 0.5:
                # Some of what was written later has come to the disk, up to a sector.
                first = next((i for i, (x, y) in enumerate(zip(live, data)) if x != y), min(len(live), len(data)))
                cut = rng.randint(first // 512, len(live) // 512 + 1) * 512
                data = live[:cut] + data[cut:]
            if not written:
                data = data[:shortened(lines[:kept], inode)]
            (after / name).write_bytes(data)
        # A directory of the same name, and as far as the server is concerned the same.
        for f in list(self.disk.iterdir()):
            f.unlink()
        for f in list(after.iterdir()):
            f.rename(self.disk / f.name)
        after.rmdir()
        self._fresh()


def without(live, dropped, durable):
    """What the disk can have of a file: pages that are as they were when they were dropped are not written any more."""
    data = bytearray(durable)
    for at in range(0, len(live), PAGE):
        page = live[at:at + PAGE]
        if page != dropped[at:at + PAGE]:
            data += bytes(max(0, at - len(data)))
            data[at:at + PAGE] = page
    return bytes(data[:len(live)])


def committed(lines):
    """How much of the journal is certain to be on the disk."""
    certain = 0
    for i, (kind, *rest) in enumerate(lines):
        fresh = any(line[0] in "ct" and line[1] == rest[0] for line in lines[certain:i])
        if kind == "s" or (kind == "d" and fresh):
            certain = i + 1
    return certain


def replay(names, lines):
    """Names after some of the journal, and the inodes that took the place of another: ext4 and XFS write those out with the rename."""
    names, flushed = dict(names), set()
    for kind, *rest in lines:
        if kind == "c":
            names[rest[1]] = int(rest[0])
        elif kind == "u":
            names.pop(rest[0], None)
        elif kind == "r" and rest[0] in names:
            if rest[1] in names:
                flushed.add(names[rest[0]])
            names[rest[1]] = names.pop(rest[0])
    return names, flushed


def shortened(lines, inode):
    """The length a file was cut to since it was last forced, or None."""
    length = None
    for kind, *rest in lines:
        if kind in "sd" and int(rest[0]) == inode:
            length = None
        elif kind == "t" and int(rest[0]) == inode:
            length = int(rest[1]) if length is None else min(length, int(rest[1]))
    return length


class MachineEnsemble(WiredEnsemble):
    """Servers on machines of their own, which all know the same addresses; who connects to a peer is led through a wire."""

    def __init__(self, directory, arms, library, **options):
        super().__init__(directory, arms, **options)
        self.machines = {s: Machine(self.dir / f"m{s.number}", s.dir / "data" / "version-2", library) for s in self.servers}

    def route(self, source, target):
        return target.quorum, target.election

    def environment_of(self, server):
        wires = [pair for (a, b), ports in self.routes.items() if a is server for pair in zip((b.quorum, b.election), ports)]
        return self.machines[server].environment(wires)

    def lose_power(self, servers, rng=None):
        """All of them at once."""
        for s in servers:
            s.kill(signal.SIGSTOP)
        for s in servers:
            s.kill()
        for s in servers:
            self.machines[s].lose_power(rng)
