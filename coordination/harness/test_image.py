"""An OCI image, unpacked and run: three containers of it, each read-only but for its data, elect a leader, and another when
that is killed.

    python3 coordination/harness/test_image.py LAYOUT
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import recovery
import wire
from ensemble import free_ports

OWNER = 65532


class Container:
    """One server, in the machine's network: only loopback is used."""

    def __init__(self, bundle, scratch, number, ports):
        self.name, self.dir, self.client = f"giusto-image-{os.getpid()}-{number}", scratch / f"c{number}", ports[number - 1][0]
        config, data = self.dir / "etc", self.dir / "data"
        for folder in (config, data):
            folder.mkdir(parents=True)
        lines = [f"server.{n}=127.0.0.1:{quorum}:{election}" for n, (_, quorum, election) in enumerate(ports, 1)]
        lines += ["tickTime=1000", "initLimit=10", "syncLimit=4", "dataDir=/var/lib/zookeeper", "admin.enableServer=false",
                  f"clientPort={self.client}", "clientPortAddress=127.0.0.1", "4lw.commands.whitelist=*"]
        (config / "zoo.cfg").write_text("\n".join(lines) + "\n")
        (data / "myid").write_text(f"{number}\n")
        for path in (data, data / "myid"):
            os.chown(path, OWNER, OWNER)
        spec = json.loads((bundle / "config.json").read_text())
        self.user, self.command = spec["process"]["user"], spec["process"]["args"]
        spec["process"].update(terminal=False, noNewPrivileges=True, capabilities={})
        spec["root"] = {"path": str(bundle / "rootfs"), "readonly": True}
        spec["linux"]["namespaces"] = [one for one in spec["linux"]["namespaces"] if one["type"] != "network"]
        spec["mounts"] = [one for one in spec["mounts"] if one["destination"] not in ("/etc/resolv.conf", "/sys")]
        spec["mounts"] += [{"destination": there, "type": "bind", "source": str(here), "options": ["bind", mode]}
                           for there, here, mode in (("/etc/giusto", config, "ro"), ("/var/lib/zookeeper", data, "rw"))]
        spec["mounts"].append({"destination": "/tmp", "type": "tmpfs", "source": "tmpfs",
                               "options": ["nosuid", "nodev", "mode=1777"]})
        (self.dir / "config.json").write_text(json.dumps(spec))
        self.process = None

    def start(self):
        with open(self.dir / "log", "ab") as log:
            words = ["runc", "run", "-b", self.dir, self.name]
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def kill(self):
        subprocess.run(["runc", "delete", "-f", self.name], capture_output=True)
        if self.process:
            self.process.wait()

    def mode(self):
        return next((line[6:] for line in wire.ask(self.client, "srvr").splitlines() if line.startswith("Mode: ")), "")


def main():
    layout = Path(sys.argv[1]).resolve()
    manifest = json.loads((layout / "index.json").read_text())["manifests"][0]
    reference = manifest["annotations"]["org.opencontainers.image.ref.name"]
    with tempfile.TemporaryDirectory(prefix="giusto-image-") as scratch:
        bundle = Path(scratch) / "bundle"
        subprocess.run(["umoci", "unpack", "--image", f"{layout}:{reference}", bundle], check=True, capture_output=True)
        ports = [free_ports(3) for _ in range(3)]
        servers = [Container(bundle, Path(scratch), number, ports) for number in (1, 2, 3)]
        assert servers[0].user["uid"] == OWNER and servers[0].command[-1] == "/etc/giusto/zoo.cfg", servers[0].command
        try:
            for server in servers:
                server.start()
            end = time.monotonic() + 120
            while not all(server.mode() for server in servers) and time.monotonic() < end:
                time.sleep(0.2)
            modes = [server.mode() for server in servers]
            assert sorted(modes) == ["follower", "follower", "leader"], (modes, (servers[0].dir / "log").read_text()[-2000:])
            session = wire.Session(ports[0][0], timeout=10)
            session.create("/recovery")
            session.close()
            leader = servers[modes.index("leader")]
            began = time.time()
            leader.kill()
            written = recovery.first_write([server.client for server in servers if server is not leader])
            assert written, "no write after the leader's container was killed"
            print(f"image: {layout.name}, three containers of user {OWNER}, read-only; "
                  f"a write {1000 * (written - began):.0f} ms after the leader's was killed")
        finally:
            for server in servers:
                server.kill()
            shutil.rmtree(bundle, ignore_errors=True)


if __name__ == "__main__":
    main()
