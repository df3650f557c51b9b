#!/usr/bin/python3
"""What a hundred interfaces cost `giusto run --only network`: until they are in force, while nothing happens, during 1,000 link
changes, and until all is as it was. Beside it ten. Half of them are in the high class, or all. Needs root and two cores.

    bench-packets.py [SECONDS]     (default: 10 s of nothing)

Exit: 1 where a target is missed (a hundred are ready within 1 s; 1 % of a core).
"""
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GIUSTO = Path(os.environ.get("GIUSTO", ROOT / "target" / "release" / "giusto"))
NAME = f"giusto-test-{os.getpid()}-bench"
READY, IDLE = 1.0, 0.01


def ip(lines, *options):
    """Several commands in one process."""
    subprocess.run(["ip", *options, "-batch", "-"], input="\n".join(lines) + "\n", text=True, check=True, capture_output=True)


class Guests:
    def __init__(self, count):
        self.all = [f"{NAME}-host"] + [f"{NAME}-g{guest}" for guest in range(count)]

    def __enter__(self):
        ip([f"netns add {name}" for name in self.all])
        ip(["link add br0 type bridge", "link set br0 up", "link set lo up"], "-n", self.all[0])
        pairs = [f"link add v{nth} type veth peer name eth0 netns {name}" for nth, name in enumerate(self.all[1:])]
        ip([*pairs, *(f"link set v{nth} master br0 up" for nth in range(len(pairs)))], "-n", self.all[0])
        for name in self.all[1:]:
            ip(["link set eth0 up"], "-n", name)
        time.sleep(2)  # until their addresses are found to be their own
        return self.all[0]

    def __exit__(self, *_):
        ip([f"netns del {name}" for name in self.all], "-force")


def site(count, high):
    classes = ["class: high, rate: 50/s, burst: 4" if nth < high else "class: low" for nth in range(count)]
    vifs = ", ".join(f"{{vif: v{nth}, {what}}}" for nth, what in enumerate(classes))
    return ("giusto: 1\nhosts:\n  test: {cores: 1, network: {cores: 0, capacity: 65k/s}}\n"
            f"services:\n  guests: {{start: [sleep, '9'], promise: leftovers, network: [{vifs}]}}\n")


def used(pid):
    """Processor time of the process and of those that it has started, in s."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    tasks = [task for one in [pid, *children] for task in Path(f"/proc/{one}/task").iterdir()]
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def measured(count, high, seconds):
    """Seconds until ready, of processor time for each second of nothing and for 1,000 link changes, and until all is undone."""
    with Guests(count) as host, tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "site.yaml").write_text(site(count, high))
        told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        told.bind(f"{folder}/told")
        told.settimeout(60)
        words = ["ip", "netns", "exec", host, GIUSTO, "run", f"{folder}/site.yaml", "--host", "test", "--only", "network"]
        environment = {**os.environ, "GIUSTO_STATE": f"/run/{NAME}", "NOTIFY_SOCKET": f"{folder}/told"}
        begin = time.monotonic()
        with open(f"{folder}/log", "w") as log:
            giusto = subprocess.Popen([*map(str, words), "--out", folder], env=environment, stdout=log, stderr=log)
        try:
            while b"READY=1" not in told.recv(4096):
                pass
            ready = time.monotonic() - begin
            time.sleep(3)
            before = used(giusto.pid)
            time.sleep(seconds)
            idle = (used(giusto.pid) - before) / seconds
            before = used(giusto.pid)
            for turn in range(50):
                ip([f"link set v{(20 * turn + nth) % count} txqueuelen {100 + turn}" for nth in range(20)], "-n", host)
                time.sleep(0.04)
            time.sleep(1)
            storm = used(giusto.pid) - before - 3 * idle
            begin = time.monotonic()
            giusto.send_signal(signal.SIGTERM)
            if giusto.wait(timeout=60) != 0:
                sys.exit(Path(f"{folder}/log").read_text())
            return ready, idle, storm, time.monotonic() - begin
        except TimeoutError:
            sys.exit(Path(f"{folder}/log").read_text())
        finally:
            giusto.kill()
            giusto.wait()
            subprocess.run(["rm", "-rf", f"/run/{NAME}"], check=False)


def main():
    if os.geteuid() != 0:
        print("bench-packets: SKIPPED: root is missing")
        sys.exit(77)
    seconds, missed = int(sys.argv[1]) if len(sys.argv) > 1 else 10, []
    for count, high in ((10, 5), (100, 40), (100, 100)):
        ready, idle, storm, undone = measured(count, high, seconds)
        print(f"{count} interfaces, {high} in the high class: ready after {ready:.2f} s, {idle * 100:.2f} % of a core, "
              f"{storm * 1000:.0f} ms for 1,000 link changes, undone after {undone:.2f} s", flush=True)
        missed += [f"{count} ({high} high)"] if ready > READY or idle > IDLE else []
    if missed:
        print(f"more than {READY} s or {IDLE * 100} %: {', '.join(missed)}")
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
