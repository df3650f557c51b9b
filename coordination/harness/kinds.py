"""The ensembles of the fault campaign, by kind: what each has beside three voters on machines that fail (machine.py)."""
import subprocess
import time

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from ensemble import ROOM
from machine import MachineEnsemble

# Nothing that makes a start longer: servers start often here. A small log is soon read, and soon copied to the disk.
CONFIG = {"giusto.features": "fcle,fqce,unanimous,snapshot", "tickTime": 200, "initLimit": 30, "syncLimit": 6, "maxSessionTimeout": 10000,
          "preAllocSize": 64}
# The log is read while servers run: it must not be written later, as ours is.
LOG = f"-Dlogback.configurationFile={ROOM / 'harness' / 'logback-stock.xml'}"


class Static(MachineEnsemble):
    """Three voters, and nothing else."""

    reconfigurable = False

    def __init__(self, directory, library, arms, more=None):
        super().__init__(directory, arms, library, config={**CONFIG, **(more or {})}, flags=[LOG])


class WithObserver(Static):
    """A fourth server that observes."""

    def __init__(self, directory, library, arms):
        super().__init__(directory, library, [*arms, arms[0]])

    def members(self, server):
        lines = super().members(server)
        lines[f"server.{self.servers[-1].number}"] += ":observer"
        return lines if server is not self.servers[-1] else {"peerType": "observer", **lines}


class Dynamic(Static):
    """Its members change: one server is removed, and added again."""

    reconfigurable = True

    def __init__(self, directory, library, arms):
        super().__init__(directory, library, arms, {"reconfigEnabled": "true", "standaloneEnabled": "false", "skipACL": "yes"})
        self.removed = None

    def members(self, server):
        return {f"server.{s.number}": self.member(s) for s in self.servers}

    @staticmethod
    def member(s):
        return f"127.0.0.1:{s.quorum}:{s.election}:participant;127.0.0.1:{s.client}"

    def configure(self, server):
        """Only once: afterwards the configuration is the server's own. One that was removed and ended needs to be told again."""
        kept = list(server.dir.glob("zoo.cfg.dynamic.*"))
        # A change that was proposed and not yet decided is in "next".
        own = sorted((f for f in kept if f.suffix != ".next"), key=lambda f: int(f.suffix[1:], 16))
        if not own or f"server.{server.number}=" not in own[-1].read_text():
            for f in kept:
                f.unlink()
            server.write_config()
            # The port is the dynamic configuration's.
            file = server.dir / "zoo.cfg"
            file.write_text("".join(line for line in file.read_text().splitlines(True) if not line.startswith("clientPort")))

    def _reconfig(self, **change):
        """Asks for a change once; the configuration afterwards, "" if no server answers."""
        zk = KazooClient(",".join(f"127.0.0.1:{p}" for p in self.ports()), timeout=2)
        try:
            zk.start(2)
            zk.reconfig_async(change.get("joining"), change.get("leaving"), None, -1).get(timeout=2)
        except (KazooException, KazooTimeoutError):
            pass
        try:
            return zk.get_async("/zookeeper/config").get(timeout=1)[0].decode()
        except (KazooException, KazooTimeoutError):
            return ""
        finally:
            zk.stop()
            zk.close()

    def remove(self, server):
        """One at a time: of two, those that are told their first members again would be an ensemble of their own. Whether it is known to
        be no member any more."""
        if self.removed is not None:
            return False
        self.removed = server
        told = self._reconfig(leaving=str(server.number))
        return told != "" and f"server.{server.number}=" not in told

    def add(self):
        """Until the removed server is a member again, or two seconds have passed; whether it is."""
        if self.removed is None:
            return True
        line = f"server.{self.removed.number}={self.member(self.removed)}"
        end = time.monotonic() + 2
        while line not in self._reconfig(joining=line):
            if time.monotonic() > end:
                return False
            time.sleep(0.1)
        self.removed = None
        return True


class Tls(Static):
    """Servers talk to each other through TLS, with a certificate made here."""

    def __init__(self, directory, library, arms):
        super().__init__(directory, library, arms)
        key, trust, certificate = (self.dir / name for name in ("key.p12", "trust.p12", "certificate.pem"))

        def keytool(store, *words):
            subprocess.run(["keytool", *words, "-alias", "quorum", "-storetype", "PKCS12", "-storepass", "quorum", "-keystore", store],
                           check=True, capture_output=True)

        keytool(key, "-genkeypair", "-keyalg", "EC", "-dname", "CN=localhost", "-ext", "SAN=ip:127.0.0.1,dns:localhost", "-validity", "7")
        keytool(key, "-exportcert", "-rfc", "-file", certificate)
        keytool(trust, "-importcert", "-noprompt", "-file", certificate)
        self.config.update({"sslQuorum": "true", "ssl.quorum.keyStore.location": key, "ssl.quorum.keyStore.password": "quorum",
                            "ssl.quorum.trustStore.location": trust, "ssl.quorum.trustStore.password": "quorum"})


class Mixed(Static):
    """As in a rolling upgrade: one stock server beside two of ours."""

    def __init__(self, directory, library, arms):
        super().__init__(directory, library, [*arms[:2], "stock"])


class Overlap(Static):
    """giusto.epochs = overlap."""

    def __init__(self, directory, library, arms):
        super().__init__(directory, library, ["overlap" if arm == "giusto" else arm for arm in arms])


class Five(Static):
    """Five voters."""

    def __init__(self, directory, library, arms):
        super().__init__(directory, library, [*arms, *arms[:2]])


KINDS = {"three": Static, "observer": WithObserver, "dynamic": Dynamic, "tls": Tls, "mixed": Mixed, "overlap": Overlap, "five": Five}
