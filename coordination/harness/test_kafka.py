"""Kafka, unchanged, on three of our servers: with the client's socket it comes back when its leader dies; without, it waits."""
import tempfile
import time
import unittest
from pathlib import Path

from brokers import CONNECTED, Cluster
from ensemble import Ensemble

TRIES = "Opening socket connection to server"


class Kafka(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.ensemble = self.enterContext(Ensemble(Path(self.scratch.name) / "e", ["giusto"] * 3))
        self.clusters = [self.enterContext(Cluster(self.ensemble, name, socket=name == "ours")) for name in ("ours", "stock")]

    def through(self, stream, after):
        """A message that was sent after an instant has come, and all before it, in order."""
        while True:
            number, sent, _ = (int(w) for w in stream.answer())
            self.assertEqual(self.expected, number)
            self.expected += 1
            if sent > 1e6 * after:
                return

    def test_a_broker_comes_back_and_messages_flow(self):
        ours, stock = (cluster.brokers[0] for cluster in self.clusters)
        topics = self.clusters[0].load("topics")
        topics.ask("t 0")
        self.assertEqual("t", topics.answer()[0])
        self.assertEqual((ours, 1), self.clusters[0].leader("t"))
        self.assertIs(ours, self.clusters[0].controller())
        stream = self.clusters[0].load("stream", "t", "50")
        self.expected = 0
        self.through(stream, time.time())

        offsets = {broker: broker.size() for broker in (ours, stock)}
        leader = self.ensemble.wait_leader()
        leader.kill()
        for broker, offset in offsets.items():
            self.assertTrue(broker.says(CONNECTED, offset, 60), broker.log)
            self.assertNotIn("Session expired.", broker.since(offset))
        self.through(stream, time.time())
        topics.ask("t2 0")
        self.assertEqual("t2", topics.answer()[0])

        # No server accepts connections: how often does each client try?
        self.ensemble.wait_leader().kill()
        offsets = {broker: broker.size() for broker in (ours, stock)}
        time.sleep(3)
        tries = {broker: broker.since(offset).count(TRIES) for broker, offset in offsets.items()}
        print(f"Kafka without an ensemble, 3 s: {tries[stock]} tries with the stock socket, {tries[ours]} with ours")
        self.assertGreater(tries[ours], 4 * max(1, tries[stock]))


if __name__ == "__main__":
    unittest.main()
