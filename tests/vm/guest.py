"""A virtual machine for tests: Debian's cloud kernel, and tests/vm/init.c as its only program, in QEMU with a QMP socket."""
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
STORE = ROOT / "target" / "guest"
BOOT = "console=ttyS0 panic=-1 quiet mitigations=off no_timer_check"
KVM, TCG = "kvm", "tcg,thread=multi"
SKIPPED = 77


class CannotRun(Exception):
    """This machine cannot run the guest; why."""


def fetch():
    """QEMU, the kernel and the initramfs, made or fetched where they are missing; returns the last two."""
    kernel = fetch_kernel()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "root"
        (root / "dev").mkdir(parents=True)
        subprocess.run(["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-static", "-pthread", "-o", root / "init",
                        ROOT / "tests/vm/init.c"], check=True)
        return kernel, archive(root, STORE / "vm-initramfs")


def fetch_kernel():
    """QEMU and the kernel, whose modules are then below STORE; returns the kernel."""
    code = subprocess.run([ROOT / "tests/guest-kernel.sh"]).returncode
    if code == SKIPPED:
        raise CannotRun("what is above cannot be fetched here")
    if code != 0:
        raise RuntimeError(f"tests/guest-kernel.sh: exit {code}")
    return next((STORE / "boot").glob("vmlinuz-*"))


def archive(root, initramfs):
    """Packs a folder into an initramfs."""
    names = b"".join(bytes(path.relative_to(root)) + b"\n" for path in sorted(root.rglob("*")))
    packed = subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], input=b".\n" + names, cwd=root, stdout=subprocess.PIPE, check=True)
    initramfs.write_bytes(packed.stdout)
    return initramfs


def boot(kind=None, images=None):
    """A guest that works, of a class like Guest: under KVM where that really boots one, else in software. What does is remembered
    until the machine boots again: a /dev/kvm may be there, and its guests stand still."""
    kind, images = kind or Guest, images or fetch()
    known, this = STORE / "accel", Path("/proc/sys/kernel/random/boot_id").read_text()
    if known.exists() and known.read_text().startswith(this):
        return kind(*images, accel=known.read_text()[len(this):])
    if os.access("/dev/kvm", os.R_OK | os.W_OK):
        try:
            vm = kind(*images, accel=KVM, patience=8)
            known.write_text(this + KVM)
            return vm
        except CannotRun as why:
            print(f"no KVM here: {why}", flush=True)
    known.write_text(this + TCG)
    return kind(*images, accel=TCG)


class Guest:
    """One that runs, until it is closed. `qmp`: its socket; `pid`: QEMU's process. `more`: words for QEMU; {folder}: the guest's."""

    def __init__(self, kernel, initramfs, accel, vcpus=2, patience=60, more=()):
        self.folder = Path(tempfile.mkdtemp())
        self.qmp = self.folder / "qmp"
        cpu = {KVM: "qemu64", TCG: "max"}[accel]  # -cpu host aborts QEMU where KVM lacks some registers
        with open(self.folder / "errors", "w") as errors:
            self.process = subprocess.Popen(
                ["qemu-system-x86_64", "-name", "guest,debug-threads=on", "-nodefaults", "-no-user-config", "-display", "none",
                 "-no-reboot", "-M", "q35", "-m", "256", "-cpu", cpu, "-smp", str(vcpus), "-accel", accel, "-kernel", kernel,
                 "-initrd", initramfs, "-append", BOOT, "-serial", f"file:{self.folder}/console", "-serial",
                 f"file:{self.folder}/work", "-qmp", f"unix:{self.qmp},server=on,wait=off",
                 *[word.format(folder=self.folder) for word in more]],
                stdin=subprocess.DEVNULL, stderr=errors)
        self.pid = self.process.pid
        until = time.monotonic() + patience
        while len(self.work()) < 2:
            if self.process.poll() is not None or time.monotonic() > until:
                told = (self.folder / "errors").read_text() + self.console()
                self.close()
                raise CannotRun(f"the guest does not boot with -accel {accel}: {told[-500:]}")
            time.sleep(0.1)

    def close(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder)

    def console(self):
        path = self.folder / "console"
        return path.read_text(errors="replace") if path.exists() else ""

    def work(self):
        """What the guest has written so far: (its clock in ns, units of work of each CPU)."""
        path = self.folder / "work"
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        rows = [[int(word) for word in line.split()] for line in lines if line.endswith("\n")]
        return [(row[0], row[1:]) for row in rows]

    def vcpus(self):
        """Threads of the vCPUs by their names, in the order of their numbers: what QMP is checked against."""
        found = {}
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            name = re.fullmatch(r"CPU (\d+)/(TCG|KVM)", (task / "comm").read_text().strip())
            if name:
                found[int(name[1])] = int(task.name)
        return [found[number] for number in sorted(found)]


def cpu_time(tid):
    """Processor time of a thread, as the host counts it, in ns."""
    return int(Path(f"/proc/{tid}/schedstat").read_text().split()[0])


class Monitor:
    """A client of a QMP socket, for as long as it is open."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(10)
        self.socket.connect(str(path))
        self.lines = self.socket.makefile("r")
        json.loads(self.lines.readline())["QMP"]
        self.ask("qmp_capabilities")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.lines.close()
        self.socket.close()

    def ask(self, command, **arguments):
        self.socket.sendall(json.dumps({"execute": command, "arguments": arguments}).encode())
        while True:
            answer = json.loads(self.lines.readline())
            if "event" not in answer:
                return answer["return"]

    def response_times(self, seconds):
        """How long 'query-status' takes, ascending, in seconds; asked every 20 ms."""
        times, until = [], time.monotonic() + seconds
        while time.monotonic() < until:
            start = time.monotonic()
            self.ask("query-status")
            times.append(time.monotonic() - start)
            time.sleep(0.02)
        return sorted(times)
