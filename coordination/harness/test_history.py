"""The checker finds what it must: histories that cannot be, one for each law, and thousands that can."""
import random
import unittest

from history import Op, agree, check, epochs_once


def write(client, value, start, end, version, zxid=None):
    return Op(client, "write", "/a", value, start, end, version, zxid if zxid is not None else version)


def read(client, value, start, end, version):
    return Op(client, "read", "/a", value, start, end, version)


class MustFail(unittest.TestCase):
    def bad(self, text, ops, final=None):
        found = check(ops, {"/a": final} if final else None)
        self.assertTrue(any(text in line for line in found), found)

    def test_one_version_for_two_writes(self):
        self.bad("given to two writes", [write("p", "x", 0, 1, 1), write("q", "y", 0, 1, 1)])

    def test_versions_against_zxids(self):
        self.bad("has zxid", [write("p", "x", 0, 9, 1, 7), write("q", "y", 0, 9, 2, 6)])

    def test_a_later_write_before_an_earlier_one(self):
        self.bad("was sent after", [write("p", "x", 5, 6, 1), write("q", "y", 0, 1, 2)])

    def test_a_later_write_before_an_earlier_one_with_one_between(self):
        self.bad("was sent after", [write("p", "x", 5, 6, 1), write("r", "z", 0, 9, 2), write("q", "y", 0, 1, 3)])

    def test_an_acknowledged_write_lost(self):
        self.bad("is lost", [write("p", "x", 0, 1, 1), write("p", "y", 2, 3, 2)], (1, "x"))

    def test_an_acknowledged_write_replaced(self):
        self.bad("version 1 is x and z", [write("p", "x", 0, 1, 1), Op("q", "write", "/a", "z", 0)], (1, "z"))

    def test_a_failed_write_seen(self):
        self.bad("which failed", [Op("p", "write", "/a", "x", 0, 1, failed=True), read("q", "x", 2, 3, 1)])

    def test_a_value_nobody_wrote(self):
        self.bad("nobody wrote", [read("q", "x", 2, 3, 1)])

    def test_one_version_two_values(self):
        self.bad("version 1 is", [Op("p", "write", "/a", "x", 0), Op("p", "write", "/a", "y", 0), read("q", "x", 2, 3, 1),
                                  read("r", "y", 2, 3, 1)])

    def test_reads_that_go_back(self):
        self.bad("saw version 2, then 1", [write("p", "x", 0, 1, 1), write("p", "y", 2, 3, 2), read("q", "y", 4, 5, 2), read("q", "x", 6, 7, 1)])

    def test_a_client_that_does_not_see_its_own_write(self):
        self.bad("saw version 1, then 0", [write("p", "x", 0, 1, 1), read("p", "", 2, 3, 0)])

    def test_a_read_from_the_future(self):
        self.bad("before it was sent", [read("q", "x", 0, 1, 1), write("p", "x", 2, 3, 1)])

    def test_a_hidden_write(self):
        self.bad("nobody sent", [write("p", "x", 0, 1, 1), write("p", "y", 2, 3, 3)], (3, "y"))


    def test_a_version_that_was_read_lost(self):
        self.bad("was read and is lost", [Op("p", "write", "/a", "x", 0), read("q", "x", 1, 2, 1)], (0, ""))

    def test_a_session_that_sees_less_on_another_node(self):
        def seen(client, kind, node, value, start, version, zxid):
            return Op(client, kind, node, value, start, start + 1, version, zxid)
        first = [seen("p", "write", "/b", "x", 0, 1, 5), seen("p", "write", "/a", "y", 2, 1, 6)]
        then = seen("q", "read", "/a", "y", 4, 1, 6)
        self.assertEqual([], check([*first, then, seen("q", "read", "/b", "x", 6, 1, 5)]))
        self.assertEqual([], check([*first, seen("q", "read", "/b", "", 6, 0, 1)]))
        self.bad("q saw zxid 0x6, then version 0", [*first, then, seen("q", "read", "/b", "", 6, 0, 1)])

    def test_a_session_that_saw_a_zxid_and_then_an_older_one_elsewhere(self):
        def read(node, value, start, version, zxid):
            return Op("q", "read", node, value, start, start + 1, version, zxid)
        writes = [Op("p", "write", node, value, start, start + 1, 1, zxid)
                  for node, value, start, zxid in (("/c", "z", 0, 2), ("/b", "x", 2, 5), ("/a", "y", 4, 6))]
        seen = [read("/a", "y", 10, 1, 6), read("/c", "z", 12, 1, 2)]
        self.assertEqual([], check([*writes, *seen, read("/b", "x", 14, 1, 5)]))
        self.bad("q saw zxid 0x6, then version 0", [*writes, *seen, read("/b", "", 14, 0, 1)])

    def test_a_session_that_does_not_see_the_write_it_saw_last(self):
        self.bad("q saw zxid 0x2, then version 1", [write("p", "x", 0, 1, 1), write("p", "y", 2, 3, 2),
                                                    Op("q", "read", "/a", "y", 4, 5, 2, 2), Op("q", "read", "/a", "x", 6, 7, 1, 1)])

    def test_a_write_acknowledged_as_another_version(self):
        self.bad("it was acknowledged as 2", [write("p", "x", 0, 1, 2), read("q", "x", 2, 3, 1)])

    def test_servers_that_differ(self):
        self.assertEqual([], agree({1: {"/a": (1, 5, "x")}, 2: {"/a": (1, 5, "x")}}))
        self.assertEqual(1, len(agree({1: {"/a": (1, 5, "x")}, 2: {"/a": (1, 5, "y")}})))

    def test_an_epoch_with_two_leaders(self):
        self.assertEqual([], epochs_once([(1, 1), (2, 3), (3, 3)]))
        self.assertEqual(["epoch 2 was established 2 times, by servers 3, 1"], epochs_once([(1, 1), (2, 3), (2, 1)]))
        self.assertEqual(1, len(epochs_once([(2, 3), (2, 3)])))


class MayBe(unittest.TestCase):
    def test_old_reads_and_unknown_writes_are_fine(self):
        ops = [write("p", "x", 0, 1, 1), Op("q", "write", "/a", "u", 2), write("p", "y", 4, 5, 3), read("r", "x", 6, 7, 1)]
        self.assertEqual([], check(ops, {"/a": (3, "y")}))
        self.assertEqual([], check(ops[:1] + ops[1:2], {"/a": (2, "u")}))

    def histories(self, count):
        """Histories of a register that is right, with delays, old reads and lost answers."""
        for seed in range(count):
            r = random.Random(seed)
            log, ops, seen, now = [(0, "")], [], {}, {c: 0.0 for c in "pqrs"}
            clock = 0.0
            for n in range(40):
                c = min(now, key=now.get)
                start = max(now[c], clock)
                at = clock = start + r.random()
                now[c] = at + r.random()
                if r.random() < 0.5:
                    value = f"{c}{n}"
                    happens, lost = r.random() < 0.9, r.random() < 0.2
                    if happens:
                        log.append((len(log), value))
                    if lost or not happens:
                        ops.append(Op(c, "write", "/a", value, start))
                    else:
                        ops.append(Op(c, "write", "/a", value, start, now[c], len(log) - 1, len(log)))
                        seen[c] = len(log) - 1
                else:
                    version = r.randint(seen.get(c, 0), len(log) - 1)
                    seen[c] = version
                    ops.append(Op(c, "read", "/a", log[version][1], start, now[c], version))
            yield r, ops, log[-1]

    def test_whatever_a_right_register_shows(self):
        for _, ops, final in self.histories(2000):
            self.assertEqual([], check(ops, {"/a": final}))

    def test_and_nearly_whatever_a_wrong_one_shows_is_found(self):
        found = tried = 0
        for r, ops, final in self.histories(2000):
            acknowledged = [o for o in ops if o.kind == "write" and o.end]
            if not acknowledged:
                continue
            # The last acknowledged write is lost with all that came after it.
            lost = max(acknowledged, key=lambda o: o.version)
            tried += 1
            found += bool(check(ops, {"/a": (lost.version - 1, "?")}))
        print(f"history: {found} of {tried} lost writes found")
        self.assertEqual(tried, found)


if __name__ == "__main__":
    unittest.main()
