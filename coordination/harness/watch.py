"""Where each server is, from its log: the phase of a recovery, its role, and the epochs it led."""
import re
import time

PHASES = ("steady", "looking", "connecting", "syncing", "just after", "starting")
# What counts as "just after", in s.
AFTER = 0.5
_PHASE = re.compile(r"- (?:LOOKING$|(FOLLOWING|LEADING|OBSERVING)$|Peer state changed: (\w+) - (\w+))")
_QUORUM = re.compile(r"Have quorum of supporters, .* last processed zxid: 0x([0-9a-f]+)")


class Watch:
    """Reads what was appended to the logs whenever it is asked."""

    def __init__(self, ensemble):
        self.e = ensemble
        self.read = {s: 0 for s in ensemble.servers}
        self.at = {s: ("starting", "", 0.0) for s in ensemble.servers}
        self.established = []  # (epoch, server): a leader had a quorum

    def started(self, server):
        self.at[server] = ("starting", "", 0.0)

    def look(self):
        for s in self.e.servers:
            with open(s.log, "rb") as f:
                f.seek(self.read[s])
                data = f.read()
            data = data[:data.rfind(b"\n") + 1]
            self.read[s] += len(data)
            for line in data.decode(errors="replace").splitlines():
                self._line(s, line)

    def _line(self, s, line):
        if m := _QUORUM.search(line):
            self.established.append((int(m[1], 16) >> 32, s.number))
        if not (m := _PHASE.search(line)):
            return
        phase, role = "looking", ""
        if m[1]:
            phase, role = "connecting", m[1].lower()
        elif m[2]:
            role = m[2]
            phase = {"discovery": "connecting", "synchronization": "syncing", "broadcast": "just after"}.get(m[3], "connecting")
        self.at[s] = (phase, role, time.monotonic())

    def phase(self, s):
        phase, _, since = self.at[s]
        return "steady" if phase == "just after" and time.monotonic() - since > AFTER else phase

    def leads(self, s):
        return self.at[s][1] == "leading"
