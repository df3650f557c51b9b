"""Leaves the machine as it was before a cluster ran on it, also where the test was killed.

What is changed is written down before (`record`). A process of its own waits for the end of the test, however it ends, and undoes
what is then still written down; if that was killed as well, the next test does so first.
"""
import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# What kubelet, containerd and the network's plugins change outside of the folder: settings of the kernel, and what they leave.
SETTINGS = ("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys",
            "kernel/keys/root_maxbytes", "net/ipv4/ip_forward")
LEFT = ("/run/netns", "/run/containerd", "/run/containerd/s", "/run/containerd/runc", "/var/lib/cni", "/var/lib/cni/results",
        "/var/lib/kubelet", "/var/log/containers", "/var/log/pods")
BOOT = Path("/proc/sys/kernel/random/boot_id")
# Cgroups of pods, in each hierarchy.
TOPS = ("kubepods", "k8s.io")
# The folder of the agent's giusto run, which outlives all others.
GIUSTO = "run/giusto-kubernetes"


def mounts() -> set[str]:
    return {line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()}


def started(pid: int) -> str | None:
    """When a process started: with its number that is this process and no other. `None`: there is none, or it has ended."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if words[0] in "ZX" else words[19]


class Guard:
    """What a cluster in `folder` changes, written down in `path`. `root` is the root of the machine's files."""

    def __init__(self, path: Path, folder: Path, root: Path = Path("/")) -> None:
        self.path = path
        self.recover(path)
        settings = {name: root / "proc/sys" / name for name in SETTINGS}
        left = {name: root / name.lstrip("/") for name in LEFT}
        self.record: dict[str, Any] = {
            "boot": BOOT.read_text(), "folder": str(folder), "root": str(root), "processes": {}, "mounts": sorted(mounts()),
            "settings": {str(own): own.read_text() for own in settings.values() if own.exists()},
            "left": {str(own): sorted(os.listdir(own)) if own.is_dir() else None for own in left.values()},
            "cgroups": [str(one) for one in tops(root)], "giusto": (root / GIUSTO).is_dir(),
        }
        self.write()
        command = [sys.executable, __file__, str(path)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)

    def write(self) -> None:
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(self.record))
        new.rename(self.path)

    def runs(self, name: str, pid: int) -> None:
        """A process of the cluster runs; the last one of this name has ended."""
        self.record["processes"][name] = [pid, started(pid)]
        self.write()

    def end(self) -> None:
        """Undoes all of it."""
        self.recover(self.path)
        self.process.communicate()

    @staticmethod
    def recover(path: Path) -> None:
        """Undoes what is still written down, one at a time: a guard may be at it when the next test begins."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                record = json.loads(path.read_text())
            except FileNotFoundError:
                return
            if record["boot"] == BOOT.read_text():  # else all of it has gone, and what there is now is another's
                undo(record)
            shutil.rmtree(record["folder"], ignore_errors=True)
            path.unlink(missing_ok=True)


def tops(root: Path) -> list[Path]:
    """The cgroups of all pods that there are."""
    return [top for name in TOPS for top in (*root.glob(f"sys/fs/cgroup/{name}"), *root.glob(f"sys/fs/cgroup/*/{name}"))]


def undo(record: dict[str, Any]) -> None:
    """Ends what runs, and puts back what was changed. Where that is done already, it does nothing."""
    for pid, start in record["processes"].values():
        if start is not None and started(pid) == start:
            end(pid)
    end_shims(record["folder"])
    own = [top for top in tops(Path(record["root"])) if str(top) not in record["cgroups"]]
    end_containers(own)  # the agent, too, which would start giusto run again
    if not record["giusto"]:
        end_giusto(Path(record["root"]) / GIUSTO)
    for mount in sorted(mounts() - set(record["mounts"]), key=len, reverse=True):
        if mount.startswith((record["folder"], "/run/netns", "/run/containerd", "/var/lib/kubelet")):
            subprocess.run(["umount", "--lazy", mount], check=False, capture_output=True)
    for top in own:
        for folder, _, _ in os.walk(top, topdown=False):
            try:
                os.rmdir(folder)
            except OSError:
                pass
    for name, value in record["settings"].items():
        Path(name).write_text(value)
    for name, before in record["left"].items():
        if before is None:
            shutil.rmtree(name, ignore_errors=True)
        elif os.path.isdir(name):
            for entry in set(os.listdir(name)) - set(before):
                path = Path(name) / entry
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)


def end(pid: int, by: signal.Signals = signal.SIGKILL) -> None:
    """Ends a process, which may just have ended."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, by)


def commands() -> Iterator[tuple[int, list[bytes]]]:
    """All processes, with the words of their command lines."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            yield int(process.name), (process / "cmdline").read_bytes().split(b"\0")


def end_shims(folder: str) -> None:
    """Shims outlive containerd; those of this cluster name its socket."""
    socket = f"{folder}/containerd.sock".encode()
    for pid, words in commands():
        if b"containerd-shim" in words[0] and any(socket in word for word in words):
            end(pid)


def end_giusto(folder: Path) -> None:
    """The giusto run of an agent in `folder`, which leaves the machine as it was itself."""
    for pid, words in commands():
        if words[1:3] == [b"run", bytes(folder / "next.json")]:
            start, last = started(pid), time.monotonic() + 30
            end(pid, signal.SIGTERM)
            while start is not None and started(pid) == start and time.monotonic() < last:
                time.sleep(0.1)
    shutil.rmtree(folder, ignore_errors=True)


def end_containers(tops: list[Path]) -> None:
    """What still runs in the cgroups of pods."""
    for top in tops:
        for procs in top.rglob("cgroup.procs"):
            with contextlib.suppress(OSError):
                for pid in procs.read_text().split():
                    end(int(pid))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.stdin.buffer.read()  # until the test has ended
    Guard.recover(Path(sys.argv[1]))
