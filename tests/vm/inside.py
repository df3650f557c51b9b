"""A virtual machine for tests with Giusto's agent inside: two tasks that never sleep, and a shell that does as it is told."""
import os
import shutil
import socket
import subprocess
import time

import guest
from guest import Guest, ROOT

# In this order into the kernel: the network of a guest.
MODULES = ["drivers/virtio/virtio_ring", "drivers/virtio/virtio", "drivers/virtio/virtio_pci_legacy_dev",
           "drivers/virtio/virtio_pci_modern_dev", "drivers/virtio/virtio_pci", "net/core/failover", "drivers/net/net_failover",
           "drivers/net/virtio_net"]
AGENT = """giusto-agent: 1
service: guest
manager: tcp:10.0.2.2:{port}
key: /key
tasks:
  one: {{start: [/task, one]}}
  two: {{start: [/task, two]}}
modes: {{low: [one], high: [one, two]}}
"""
TASK = """#!/bin/sh
while :; do
	echo $1
	i=0
	while [ $i -lt 500 ]; do i=$((i + 1)); done
done
"""
# The agent's words go to the console, those of tasks to the second line; the third takes commands.
INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
for module in {modules}; do insmod /modules/$module.ko || echo "no $module"; done
ip address add 10.0.2.15/24 dev eth0 && ip link set eth0 up
stty -F /dev/ttyS2 -echo
giusto-agent /agent.yaml >/dev/ttyS1 &
printf 'booted\\nready\\n' >/dev/ttyS1
while read -r line; do eval "$line"; done </dev/ttyS2
poweroff -f
"""


def until(condition, patience=30.0, what="it"):
    end = time.monotonic() + patience
    while not (found := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not come in {patience} s")
        time.sleep(0.02)
    return found


class Modal(Guest):
    """A guest with an agent."""

    def __init__(self, *images, **how):
        super().__init__(*images, vcpus=1, more=["-serial", "unix:{folder}/commands,server=on,wait=off", "-netdev", "user,id=net",
                                                 "-device", "virtio-net-pci,netdev=net,romfile="], **how)
        self.commands = socket.socket(socket.AF_UNIX)
        self.commands.connect(f"{self.folder}/commands")

    def work(self):
        """The lines that tasks have written."""
        path = self.folder / "work"
        return path.read_text(errors="replace").splitlines() if path.exists() else []

    def tell(self, command):
        """Has the guest's shell do something."""
        self.commands.sendall(command.encode() + b"\n")

    def hit(self, signal):
        """Sends a signal to the agent itself, not to its guard; back once that has happened."""
        before = len(self.work())
        self.tell('for p in /proc/[0-9]*; do read -r name 2>/dev/null <$p/comm && [ $name = giusto-agent ] && '
                  f'kill -{signal} ${{p#/proc/}} && echo hit >/dev/ttyS1; done')
        until(lambda: "hit" in self.work()[before:], what=f"SIG{signal}")

    def close(self):
        if hasattr(self, "commands"):
            self.commands.close()
        super().close()


def pack(folder, port):
    """The guest's initramfs, with the key that is in `folder`."""
    kernel = guest.fetch_kernel()
    agent = subprocess.run([ROOT / "scripts/agent-static.sh"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    root = folder / "root"
    for name in ("bin", "proc", "sys", "dev", "run", "modules"):
        (root / name).mkdir(parents=True)
    for source, to in ((agent, "bin/giusto-agent"), ("/bin/busybox", "bin/busybox"), (folder / "key", "key")):
        shutil.copy(source, root / to)
    for module in MODULES:
        shutil.copy(next((guest.STORE / "lib/modules").glob(f"*/kernel/{module}.ko")), root / "modules")
    names = " ".join(os.path.basename(module) for module in MODULES)
    for name, text in (("init", INIT.format(modules=names)), ("task", TASK), ("agent.yaml", AGENT.format(port=port))):
        (root / name).write_text(text)
        (root / name).chmod(0o755)
    return kernel, guest.archive(root, folder / "initramfs")
