"""What the campaign calls broken, void and played: with servers and workers that are none."""
import contextlib
import io
import itertools
import random
import shutil
import sys
import tempfile
import types
import unittest
from collections import Counter
from pathlib import Path
from unittest import mock

import campaign
import strikes
import wire


class Main(unittest.TestCase):
    """A campaign of 10 runs whose blocks are what a test says: (exit code, what was printed, whether the evidence is kept)."""

    def play(self, block):
        base = tempfile.mkdtemp(prefix="giusto-test-campaign-")
        self.addCleanup(shutil.rmtree, base, True)
        words = ["campaign.py", "--runs", "10", "--jobs", "2"]
        with mock.patch.object(campaign, "block", block), mock.patch.object(campaign, "BLOCK", 5), mock.patch.object(sys, "argv", words), \
                mock.patch.object(tempfile, "mkdtemp", lambda prefix: base), contextlib.redirect_stdout(io.StringIO()) as told, \
                self.assertRaises(SystemExit) as end:
            campaign.main()
        return end.exception.code, told.getvalue(), Path(base).exists()

    @staticmethod
    def done(number, what="kill", bad=(), **counts):
        return number, "three", what, Counter(counts), list(bad), Counter(), Counter(), 0.0, "there"

    def test_all_is_well(self):
        code, told, kept = self.play(lambda options, numbers, out: [out.put(self.done(n, writes=3)) for n in numbers])
        self.assertEqual((0, False), (code, kept))
        self.assertIn("10 of 10 runs", told)

    def test_a_law_broken(self):
        code, told, kept = self.play(lambda options, numbers, out: [out.put(self.done(n, bad=["gone"] * (n == 7))) for n in numbers])
        self.assertEqual((1, True), (code, kept))
        self.assertIn("VIOLATED, see there\n    gone\n", told)

    def test_void_runs(self):
        code, _, kept = self.play(lambda options, numbers, out: [out.put(self.done(n, "void: slow", void=1) if n == 7 else self.done(n)) for n in numbers])
        self.assertEqual((1, True), (code, kept))

    def test_a_worker_that_ends_early(self):
        def block(options, numbers, out):
            out.put(self.done(numbers[0]))
            if numbers[0] == 5:
                raise ValueError("on purpose")
            for n in numbers[1:]:
                out.put(self.done(n))
        with mock.patch("traceback.print_exc"):
            code, told, kept = self.play(block)
        self.assertEqual((1, True), (code, kept))
        self.assertIn("6 of 10 runs", told)

    def test_a_worker_that_fails_when_all_was_played(self):
        def block(options, numbers, out):
            for n in numbers:
                out.put(self.done(n))
            if numbers[0] == 5:
                raise ValueError("on purpose")
        with mock.patch("traceback.print_exc"):
            code, _, kept = self.play(block)
        self.assertEqual((1, True), (code, kept))


class Block(unittest.TestCase):
    """Runs on an ensemble that is none."""

    def play(self, enter=lambda self: self, run=None):
        class Ensemble:
            dir = Path(tempfile.mkdtemp(prefix="giusto-test-campaign-"))

            def __init__(self, *_):
                self.servers = []

            __enter__, __exit__ = enter, lambda *_: None

        base, out = Path(tempfile.mkdtemp(prefix="giusto-test-campaign-")), []
        for directory in (base, Ensemble.dir):
            self.addCleanup(shutil.rmtree, directory, True)
        options = types.SimpleNamespace(kind="three", base=base, patch=None, arm="giusto", seed=1, directed="full-log")
        fake = mock.MagicMock()
        fake.__enter__.return_value = fake
        fake.run = run
        with mock.patch.dict(campaign.KINDS, three=Ensemble), mock.patch.object(campaign, "WRITTEN_S", 0), \
                mock.patch.object(campaign, "build"), mock.patch.object(campaign, "Campaign", lambda e: fake):
            campaign.block(options, [1, 2], types.SimpleNamespace(put=out.append))
        return out, Ensemble.dir.exists()

    def test_an_ensemble_that_never_came_up_is_void(self):
        def enter(ensemble):
            raise RuntimeError("the ensemble did not come up")
        out, _ = self.play(enter)
        self.assertEqual([(1, 1, []), (2, 1, [])], [(n, counts["void"], bad) for n, _, _, counts, bad, *_ in out])

    def test_any_exception_of_a_run_is_a_violation_and_the_next_is_played(self):
        def run(number, *_):
            if number == 1:
                raise KeyError("on purpose")
            return [], [], "kill"
        out, _ = self.play(run=run)
        self.assertEqual([1, 2], [o[0] for o in out])
        self.assertIn("KeyError: 'on purpose'", out[0][4])
        self.assertEqual((0, []), (out[0][3]["void"], out[1][4]))

    def test_evidence_is_kept_where_a_law_is_broken(self):
        _, kept = self.play(run=lambda *_: ([], ["gone"], "kill"))
        self.assertTrue(kept)


class Strikes(unittest.TestCase):
    def test_the_disk_of_the_stock_server_fails_only_where_all_are_stock(self):
        for fault, (arms, struck) in itertools.product((strikes.sync_fails, strikes.disk_full),
                                                       ((["giusto", "giusto", "stock"], False), (["giusto"] * 3, True), (["stock"] * 3, True))):
            servers = [mock.Mock(arm=arm) for arm in arms]
            machines = {s: mock.Mock() for s in servers}
            striking = fault(mock.Mock(e=mock.Mock(servers=servers, machines=machines)), servers[2])
            self.assertEqual(next(striking) is not False, struck, arms)
            self.assertEqual(machines[servers[2]].set.called, struck, arms)


class Mended(unittest.TestCase):
    """Servers that were mended."""

    def campaign(self, *servers):
        c = campaign.Campaign.__new__(campaign.Campaign)
        c.e, c.watch, c.rng, c.cells, c.events, c.clients = mock.Mock(servers=list(servers)), mock.Mock(), random.Random(1), Counter(), Counter(), []
        return c

    def server(self, number, *modes, text=""):
        s = mock.Mock(number=number, client=1)
        s.process.poll.return_value = None
        s.text.return_value = text
        told = list(modes)
        s.mode = lambda: told.pop(0) if len(told) > 1 else told[0]
        return s

    def mend(self, *servers):
        c = self.campaign(*servers)
        with mock.patch.object(campaign, "SILENT_S", 0.1), mock.patch.object(campaign.time, "sleep", lambda s, sleep=campaign.time.sleep: sleep(s / 10)):
            return c.mend(), c.events

    def test_all_serve(self):
        self.assertEqual(([], Counter()), self.mend(self.server(1, "leader"), self.server(2, "", "follower")))

    def test_a_server_that_hangs(self):
        bad, _ = self.mend(self.server(1, "leader"), self.server(2, ""))
        self.assertEqual(["server 2 runs, and has not served for 0.1 s"], bad)

    def test_a_server_that_its_promise_keeps_out(self):
        s = self.server(2, *[""] * 60, "follower", text="Leaders epoch, 3 is less than accepted epoch, 4")
        bad, events = self.mend(self.server(1, "leader"), s)
        self.assertEqual(([], True), (bad, events["kept out by its promise, killed"] > 0))

    def test_servers_that_say_that_they_serve_and_do_not(self):
        c = self.campaign(self.server(1, "leader"))
        with mock.patch.object(campaign, "REFUSED_S", 0.1), mock.patch.object(wire, "Session", side_effect=wire.Refused("timed out")):
            self.assertEqual(["all say that they serve, and for 0.1 s one cannot be read: timed out"], c.judge([], ["/a"], []))

    def test_a_change_of_members_counts_when_it_happened(self):
        c = self.campaign()
        for told in (False, True):
            c.e.remove.return_value = told
            c.watch.phase.return_value = "looking"
            c.strike("reconfig", self.server(1, "leader"))
        self.assertEqual((Counter({("reconfig", "looking"): 1}), Counter({"reconfig refused": 1})), (c.cells, c.events))


if __name__ == "__main__":
    unittest.main()
