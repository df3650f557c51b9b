"""A server that starts again comes back to the leader that the others still follow."""
import tempfile
import time
import unittest
from pathlib import Path

from kinds import Dynamic
from machine import build
from wires import WiredEnsemble

# A lost leader is noticed after 3 s; a machine that takes a core away for a second makes no new epoch.
CONFIG = {"tickTime": 200, "initLimit": 30, "syncLimit": 15}
# It looks for a leader meanwhile, and would have written long ago what it writes then.
ALONE_S = 1.0


class Rejoins(unittest.TestCase):
    def test_it_is_killed_while_it_looks_for_a_leader_alone(self):
        with tempfile.TemporaryDirectory() as d, WiredEnsemble(Path(d) / "e", ["giusto"] * 3, config=CONFIG) as e:
            leader = e.leader()
            promised = (leader.dir / "data" / "version-2" / "acceptedEpoch").read_text()
            lost = next(s for s in e.servers if s is not leader)
            e.isolate(lost)
            end = time.monotonic() + 30
            while lost.mode() and time.monotonic() < end:
                time.sleep(0.01)
            time.sleep(ALONE_S)
            lost.kill()
            e.heal()
            lost.start()
            self.assertIs(leader, e.wait_whole(60))
            for s in e.servers:
                self.assertEqual(promised, (s.dir / "data" / "version-2" / "acceptedEpoch").read_text(), f"server {s.number}")

    def test_a_reconfiguration_has_named_the_leader(self):
        """Where the leader is removed as a member, the configuration names another server, which was not elected."""
        with tempfile.TemporaryDirectory() as d, Dynamic(Path(d) / "e", build(d), ["giusto"] * 3) as e:
            removed = e.wait_whole()
            e.remove(removed)
            end = time.monotonic() + 60
            while not e.add() and time.monotonic() < end:
                pass
            named = e.wait_whole()
            self.assertIsNot(removed, named)
            lost = next(s for s in e.servers if s not in (removed, named))
            lost.kill()
            lost.start()
            self.assertIs(named, e.wait_whole(60))


if __name__ == "__main__":
    unittest.main()
