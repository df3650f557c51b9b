"""The checker finds what it must: histories that cannot be, one for each law, and thousands that can."""
import random
import unittest

from history import End, Op, Stay, agree, check, epochs_once, lifetimes


def op(client, kind, value, start, end, version, zxid=None, seen=None, node="/a"):
    """Where nothing else is said, a version's zxid is its number and a server was no further than what it showed."""
    zxid = version if zxid is None else zxid
    return Op(client, kind, node, value, start, end, version, zxid, seen=zxid if seen is None else seen)


def write(client, value, start, end, version, zxid=None, seen=None):
    return op(client, "write", value, start, end, version, zxid, seen)


def read(client, value, start, end, version, zxid=None, seen=None):
    return op(client, "read", value, start, end, version, zxid, seen)


def sync(client, start, end, seen, server=1):
    return Op(client, "sync", "/a", "", start, end, seen=seen, server=server)


def lost(client, value, start):
    """A write that no server answered."""
    return Op(client, "write", "/a", value, start)


def end(version, value, *log, zxid=None):
    return End(version, version if zxid is None else zxid, value, frozenset(log))


# Of epochs 0 and 1.
LEADERS = {(0, 7), (1, 8)}


class MustFail(unittest.TestCase):
    def bad(self, text, ops, final=None):
        found = check(ops, {"/a": final} if final else None)
        self.assertTrue(any(text in line for line in found), found)

    def only(self, text, ops, final=None):
        """No other law sees it."""
        found = check(ops, {"/a": final} if final else None, LEADERS)
        self.assertTrue(found and all(text in line for line in found), found)

    def test_one_version_for_two_writes(self):
        self.bad("given to two writes", [write("p", "x", 0, 1, 1), write("q", "y", 0, 1, 1)])

    def test_versions_against_zxids(self):
        self.bad("has zxid", [write("p", "x", 0, 9, 1, 7), write("q", "y", 0, 9, 2, 6)])

    def test_a_later_write_before_an_earlier_one(self):
        self.bad("was sent after", [write("p", "x", 5, 6, 1), write("q", "y", 0, 1, 2)])

    def test_a_later_write_before_an_earlier_one_with_one_between(self):
        self.bad("was sent after", [write("p", "x", 5, 6, 1), write("r", "z", 0, 9, 2), write("q", "y", 0, 1, 3)])

    def test_an_acknowledged_write_lost(self):
        self.bad("is lost", [write("p", "x", 0, 1, 1), write("p", "y", 2, 3, 2)], end(1, "x", "x"))

    def test_an_acknowledged_write_replaced(self):
        self.bad("version 1 is x and z", [write("p", "x", 0, 1, 1), lost("q", "z", 0)], end(1, "z", "z"))

    def test_a_failed_write_seen(self):
        self.bad("which failed", [Op("p", "write", "/a", "x", 0, 1, failed=True), read("q", "x", 2, 3, 1)])

    def test_a_value_that_no_client_wrote(self):
        self.bad("no client wrote", [read("q", "x", 2, 3, 1)])

    def test_one_version_two_values(self):
        self.bad("version 1 is", [lost("p", "x", 0), lost("p", "y", 0), read("q", "x", 2, 3, 1), read("r", "y", 2, 3, 1)])

    def test_reads_that_go_back(self):
        self.bad("saw version 2, then 1", [write("p", "x", 0, 1, 1), write("p", "y", 2, 3, 2), read("q", "y", 4, 5, 2), read("q", "x", 6, 7, 1)])

    def test_a_client_that_does_not_see_its_own_write(self):
        self.bad("saw version 1, then 0", [write("p", "x", 0, 1, 1), read("p", "", 2, 3, 0)])

    def test_a_read_from_the_future(self):
        self.bad("before it was sent", [read("q", "x", 0, 1, 1), write("p", "x", 2, 3, 1)])

    def test_a_write_that_was_sent_after_a_later_one_was_read(self):
        self.only("was sent after z (version 2) was read", [lost("q", "z", 0), read("r", "z", 1, 2, 2), write("p", "x", 3, 4, 1)])

    def test_a_write_lost_whose_place_another_takes(self):
        """x was answered and lost; y, of which nothing is known, became version 1."""
        ops = [write("p", "x", 0, 1, 1), lost("q", "y", 2), write("r", "z", 5, 6, 2)]
        self.assertEqual([], check(ops[1:], {"/a": end(2, "z", "y", "z")}))
        self.only("not in the log is what was acknowledged: version 1 (x)", ops, end(2, "z", "y", "z"))

    def test_a_read_lost_whose_place_another_takes(self):
        ops = [lost("p", "x", 0), read("p", "x", 1, 2, 1), lost("q", "y", 2), write("r", "z", 5, 6, 2)]
        self.only("not in the log is what was read: version 1 (x)", ops, end(2, "z", "y", "z"))

    def test_a_write_that_is_counted_and_not_there(self):
        self.only("with 2 writes in its log", [write("p", "x", 0, 1, 1), write("p", "y", 2, 3, 3)], end(3, "y", "x", "y"))

    def test_a_write_in_the_log_that_failed_or_was_never_sent(self):
        failed = Op("p", "write", "/a", "f", 0, 1, failed=True)
        self.only("in the log is f, which failed", [failed, write("p", "x", 2, 3, 2)], end(2, "x", "f", "x"))
        self.only("in the log is n, which no client sent", [write("p", "x", 2, 3, 2)], end(2, "x", "n", "x"))

    def test_a_version_that_was_read_lost(self):
        self.bad("was read and is lost", [lost("p", "x", 0), read("q", "x", 1, 2, 1)], end(0, ""))

    def test_a_read_with_another_zxid_than_its_write(self):
        self.only("version 1 has zxid 0x1, q was shown 0x2", [write("p", "x", 0, 1, 1, 1), read("q", "x", 2, 3, 1, 2)])

    def test_two_reads_of_a_lost_write_with_two_zxids(self):
        self.only("version 1 has zxid", [lost("p", "x", 0), read("q", "x", 2, 3, 1, 1), read("r", "x", 2, 3, 1, 2)])

    def test_a_final_zxid_that_is_not_the_writes(self):
        self.only("final was shown 0x2", [write("p", "x", 0, 1, 1)], end(1, "x", "x", zxid=2))

    def test_reads_whose_versions_are_against_zxids(self):
        self.only("has zxid", [lost("p", "x", 0), lost("p", "y", 0), read("q", "x", 2, 3, 1, 9), read("r", "y", 2, 3, 2, 8)])

    def test_a_session_that_was_told_a_zxid_and_sees_less(self):
        """What it read on /b is old (5), but its server was at 100; then it reads /a as it was before an acknowledged write at 90."""
        writes = [op("p", "write", "o", 0, 1, 1, 40), op("p", "write", "x", 2, 3, 2, 90), op("p", "write", "b", 4, 5, 1, 95, node="/b")]
        b, a = op("q", "read", "", 6, 7, 0, 5, 100, "/b"), op("q", "read", "o", 8, 9, 1, 40, 100)
        self.only("q saw zxid 0x64, then version 1", [*writes[:2], b, a])
        self.assertEqual([], check([*writes[:2], b, op("q", "read", "x", 8, 9, 2, 90, 100)]))

    def test_a_session_whose_server_goes_back(self):
        self.only("q was at zxid 0x9, then at 0x8", [write("p", "x", 0, 1, 1), read("q", "x", 2, 3, 1, 1, 9), read("q", "x", 4, 5, 1, 1, 8)])

    def test_a_sync_that_does_not_catch_up(self):
        first = [write("p", "x", 0, 1, 1), write("p", "y", 2, 3, 2)]
        self.only("a sync of q came to zxid 0x1", [*first, sync("q", 4, 5, 1)])
        self.assertEqual([], check([*first, sync("q", 4, 5, 2)], None, LEADERS))
        self.assertEqual([], check([*first, sync("q", 2, 5, 1)], None, LEADERS))
        # What a session was shown counts as what was acknowledged.
        self.only("a sync of q came to zxid 0x2", [*first, read("r", "y", 3, 4, 2, 2, 3), sync("q", 5, 6, 2)])

    def test_a_sync_by_a_leader_that_is_none_any_more(self):
        new = 1 << 32
        self.assertEqual([], check([write("p", "x", 0, 1, 1), write("p", "y", 2, 3, 2, new + 1), sync("q", 4, 5, 1)], None, LEADERS))
        self.only("a sync of q", [write("p", "x", 0, 1, 1), write("p", "y", 2, 3, 2, new + 1), sync("q", 4, 5, new)])

    def test_a_sync_of_a_leaders_own_client(self):
        """A follower that led the epoch before is no leader."""
        ops = [write("p", "x", 0, 1, 1), write("p", "y", 2, 3, 2)]
        self.assertEqual([], check([*ops, sync("q", 4, 5, 1, 7)], None, LEADERS))
        self.assertEqual([], check([*ops, sync("q", 4, 5, 1, None)], None, LEADERS))
        self.only("a sync of q", [*ops, sync("q", 4, 5, 1, 8)])

    def test_nodes_that_outlive_their_session_or_not_even_that(self):
        self.assertEqual([], lifetimes([Stay("a", "s", True, "lives"), Stay("b", "t", True, "closed"), Stay("c", "u", True, "expired"),
                                        Stay("d", "v", False, "lives"), Stay("e", "w", False)], {"a", "e"}))
        self.assertEqual(["a is gone, its session lives"], lifetimes([Stay("a", "s", True, "lives")], set()))
        self.assertEqual(["a is there, its session was closed"], lifetimes([Stay("a", "s", True, "closed")], {"a"}))
        self.assertEqual(["a is there, its session was expired"], lifetimes([Stay("a", "s", False, "expired")], {"a"}))
        self.assertEqual(["a is there, which no session made"], lifetimes([], {"a"}))

    def test_a_session_that_sees_less_on_another_node(self):
        first = [op("p", "write", "x", 0, 1, 1, 5, node="/b"), op("p", "write", "y", 2, 3, 1, 6)]
        then = op("q", "read", "y", 4, 5, 1, 6)
        self.assertEqual([], check([*first, then, op("q", "read", "x", 6, 7, 1, 5, 6, "/b")]))
        self.assertEqual([], check([*first, op("q", "read", "", 6, 7, 0, 1, node="/b")]))
        self.only("q saw zxid 0x6, then version 0", [*first, then, op("q", "read", "", 6, 7, 0, 1, 6, "/b")])

    def test_a_session_that_saw_a_zxid_and_then_an_older_one_elsewhere(self):
        writes = [op("p", "write", value, start, start + 1, 1, zxid, node=node)
                  for node, value, start, zxid in (("/c", "z", 0, 2), ("/b", "x", 2, 5), ("/a", "y", 4, 6))]
        seen = [op("q", "read", "y", 10, 11, 1, 6), op("q", "read", "z", 12, 13, 1, 2, 6, "/c")]
        self.assertEqual([], check([*writes, *seen, op("q", "read", "x", 14, 15, 1, 5, 6, "/b")]))
        self.only("q saw zxid 0x6, then version 0", [*writes, *seen, op("q", "read", "", 14, 15, 0, 1, 6, "/b")])

    def test_a_session_that_does_not_see_the_write_it_saw_last(self):
        self.bad("q saw zxid 0x2, then version 1", [write("p", "x", 0, 1, 1), write("p", "y", 2, 3, 2),
                                                    read("q", "y", 4, 5, 2), read("q", "x", 6, 7, 1, 1, 2)])

    def test_a_write_acknowledged_as_another_version(self):
        self.bad("it was acknowledged as 2", [write("p", "x", 0, 1, 2), read("q", "x", 2, 3, 1)])

    def test_servers_that_differ(self):
        self.assertEqual([], agree({1: {"/a": end(1, "x", "x")}, 2: {"/a": end(1, "x", "x")}}))
        self.assertEqual(1, len(agree({1: {"/a": end(1, "x", "x")}, 2: {"/a": end(1, "y", "x")}})))
        self.assertIn("one alone has w, x", agree({1: {"/a": end(2, "z", "x", "z")}, 2: {"/a": end(2, "z", "w", "z")}})[0])

    def test_an_epoch_with_two_leaders(self):
        self.assertEqual([], epochs_once([(1, 1), (2, 3), (3, 3)]))
        self.assertEqual(["epoch 2 was established 2 times, by servers 3, 1"], epochs_once([(1, 1), (2, 3), (2, 1)]))
        self.assertEqual(1, len(epochs_once([(2, 3), (2, 3)])))


class MayBe(unittest.TestCase):
    def test_old_reads_and_unknown_writes_are_fine(self):
        ops = [write("p", "x", 0, 1, 1), lost("q", "u", 2), write("p", "y", 4, 5, 3), read("r", "x", 6, 7, 1)]
        self.assertEqual([], check(ops, {"/a": end(3, "y", "x", "u", "y")}))
        self.assertEqual([], check(ops[:2], {"/a": end(2, "u", "x", "u")}))

    def histories(self, count):
        """Histories of two registers that are right, with delays, old reads, syncs and lost answers. What happened is a list of (node,
        value); the first n of it are the state at zxid n."""
        for seed in range(count):
            r = random.Random(seed)
            happened, ops, seen, now = [("/a", ""), ("/b", "")], [], {}, {c: 0.0 for c in "pqrs"}
            clock = 0.0

            def state(node, n):
                at = [i for i, (other, _) in enumerate(happened[:n]) if other == node]
                return len(at) - 1, at[-1] + 1, happened[at[-1]][1]

            for n in range(60):
                c, node, what = min(now, key=now.get), r.choice(["/a", "/b"]), r.random()
                start = max(now[c], clock)
                clock = start + r.random()
                now[c] = clock + r.random()
                if what < 0.5:
                    value = f"{c}{n}"
                    happens, unknown = r.random() < 0.9, r.random() < 0.2
                    if happens:
                        happened.append((node, value))
                    if unknown or not happens:
                        ops.append(Op(c, "write", node, value, start))
                        continue
                    seen[c] = len(happened)
                else:
                    seen[c] = len(happened) if what < 0.6 else r.randint(seen.get(c, 2), len(happened))
                version, zxid, value = state(node, seen[c])
                kind = "write" if what < 0.5 else "sync" if what < 0.6 else "read"
                ops.append(Op(c, kind, node, value, start, now[c], version, zxid, seen=seen[c], server=1))
            final = {}
            for node in ("/a", "/b"):
                version, zxid, value = state(node, len(happened))
                final[node] = End(version, zxid, value, frozenset(v for other, v in happened if other == node and v))
            yield r, ops, final

    def test_whatever_right_registers_show(self):
        for _, ops, final in self.histories(2000):
            self.assertEqual([], check(ops, final, LEADERS))

    def test_and_every_acknowledged_write_that_is_lost_is_found(self):
        """One is not in the end; a write of unknown outcome that had not happened has taken its place, where there is one."""
        found = replaced = tried = 0
        for r, ops, final in self.histories(2000):
            node = r.choice(["/a", "/b"])
            acknowledged = [o for o in ops if o.kind == "write" and o.end and o.node == node]
            if not acknowledged:
                continue
            gone, end = r.choice(acknowledged), final[node]
            unknown = [o.value for o in ops if o.node == node and o.kind == "write" and o.end is None and o.value not in end.log]
            log = end.log - {gone.value} | set(unknown[:1])
            tried, replaced = tried + 1, replaced + bool(unknown)
            # No client read.
            ops = [o for o in ops if o.kind != "read"]
            found += bool(check(ops, {**final, node: End(len(log), end.zxid, end.value if end.value != gone.value else "?", frozenset(log))}))
        print(f"history: {found} of {tried} lost writes found, of {replaced} another had taken the place")
        self.assertEqual(tried, found)


if __name__ == "__main__":
    unittest.main()
