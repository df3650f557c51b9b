"""The operator's side end to end, without privilege: status, reload, metrics, logs and systemd's protocol of a giusto that
enforces nothing (daemon/examples/double.rs), asked as people, Prometheus, systemd and bad clients ask it."""
import fcntl
import json
import os
import pty
import random
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path

from double import GIUSTO, SITE, Double, double


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Status(unittest.TestCase):
    def test_people_get_a_table_that_fits_and_programs_json(self):
        with double() as giusto:
            out = giusto.giusto("status").stdout
            self.assertRegex(out, r"^edge-1: enforcing, since \d+ s, process \d+, which takes [0-9.]+ % of a core itself\n")
            self.assertRegex(out, r"\ncache +throttled +0 +█+▌?░* 25.0 of 25.0 % +-1 us +3 +25 ms / 100 ms +as-if-alone\n")
            self.assertLessEqual(max(map(len, out.splitlines())), 100)
            status = giusto.status()
            self.assertEqual([service["name"] for service in status["services"]], ["cache", "index"])
            self.assertEqual(status["pid"], giusto.process.pid)

    def test_where_none_runs_it_says_how_to_start_one(self):
        with tempfile.TemporaryDirectory() as folder:
            for verb in ("status", "reload"):
                done = subprocess.run([GIUSTO, verb], env={**os.environ, "GIUSTO_STATE": folder}, capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stdout), (3, ""))
                self.assertIn("giusto run SITE", done.stderr)

    def test_one_may_not_ask_and_is_told_what_to_do(self):
        if os.geteuid() != 0:
            self.skipTest("without root all processes have the same user")
        with double() as giusto:
            control = str(giusto.folder / "state" / "control")
            code = f"import socket; s = socket.socket(socket.AF_UNIX); s.connect({control!r})"
            done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", sys.executable, "-c", code],
                                  capture_output=True, text=True)
            self.assertIn("Permission", done.stderr)

    def test_a_dead_one_is_replaced_and_a_living_one_is_not(self):
        with double() as giusto:
            second = subprocess.run([str(giusto.process.args[0]), giusto.site], env=giusto.environment, capture_output=True, text=True)
            self.assertNotEqual(second.returncode, 0)
            self.assertIn(str(giusto.process.pid), second.stderr)
            giusto.status()
            giusto.process.kill()
            giusto.process.wait()
            self.assertIn("no process listens", giusto.giusto("status", code=3).stderr)
            again = Double(giusto.folder)
            try:
                self.assertEqual(again.ready().status()["pid"], again.process.pid)
            finally:
                self.assertEqual(again.end(), 0)
            self.assertFalse((giusto.folder / "state" / "control").exists())

    def test_a_client_can_stop_it(self):
        with double() as giusto:
            self.assertEqual(giusto.ask('{"giusto":1,"do":"stop"}'), {"giusto": 1, "stopping": True})
            self.assertEqual(giusto.process.wait(timeout=10), 0)
            self.assertIn("asks", giusto.said())
            self.assertIn(f"user {os.geteuid()}", giusto.said())


class Reload(unittest.TestCase):
    def test_the_difference_is_applied_decreases_first(self):
        with double() as giusto:
            self.assertIn("nothing had to be changed", giusto.giusto("reload").stdout)
            more = SITE.replace("20ms", "15ms").replace("10ms", "70ms")
            giusto.site.write_text(more)
            out = giusto.giusto("reload").stdout
            self.assertEqual([line.split()[0] for line in out.splitlines()], ["move", "move"], out)
            self.assertEqual({s["name"]: s["core"] for s in giusto.status()["services"]}, {"cache": 1, "index": 0})
            plan = json.loads((giusto.folder / "site.plan.json").read_text())
            self.assertEqual(plan["services"][1]["server"]["budget_ns"], 75_000_000)

    def test_what_is_bad_or_does_not_fit_or_fails_leaves_the_old_plan_in_force(self):
        with double(DOUBLE_FAILS="index") as giusto:
            before = giusto.status()["services"]
            for text, code, why in (("giusto: 1\nhosts: {}\n", 2, "site.yaml:2:"), (SITE.replace("20ms", "99ms"), 1, "fit"),
                                    (SITE.replace("edge-1", "edge-2"), 2, "runs host edge-1, and the new plan is for edge-2"),
                                    (SITE.replace("20ms", "30ms").replace("10ms", "5ms"), 4, "the old plan is in force")):
                giusto.site.write_text(text)
                self.assertIn(why, giusto.giusto("reload", code=code).stderr)
                self.assertEqual(giusto.status()["services"], before)
            self.assertEqual(giusto.status()["state"], "enforcing")

    def test_another_site_and_what_is_none(self):
        with double() as giusto:
            (giusto.folder / "other.yaml").write_text(SITE.replace("index", "inbox"))
            giusto.giusto("reload", "nowhere.yaml", code=2)
            steps = json.loads(giusto.giusto("reload", "other.yaml", "--json").stdout)["steps"]
            self.assertEqual([(step["do"], step["service"]) for step in steps], [("remove", "index"), ("add", "inbox")])
            self.assertIn("nothing had to be changed", giusto.giusto("reload").stdout)  # other.yaml from now on

    def test_sighup_reloads_a_daemon_and_stops_one_whose_terminal_closes(self):
        with double() as giusto:
            giusto.site.write_text(SITE.replace("20ms", "30ms"))
            giusto.process.send_signal(signal.SIGHUP)
            giusto.wait(lambda: "reloaded: 1 steps" in giusto.said(), "reload")
            giusto.site.write_text("nonsense")
            giusto.process.send_signal(signal.SIGHUP)
            giusto.wait(lambda: "not reloaded, the old plan stays in force" in giusto.said(), "refusal")
            self.assertEqual(giusto.status()["state"], "enforcing")
            state, site = giusto.environment["GIUSTO_STATE"] + "-2", giusto.folder / "tty.yaml"
            site.write_text(SITE)
            pid, terminal = pty.fork()
            if pid == 0:
                os.execve(giusto.process.args[0], ["double", str(site)], {**os.environ, "GIUSTO_STATE": state})
            giusto.wait(lambda: Path(state, "control").exists(), "second one")
            os.close(terminal)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)


class Clients(unittest.TestCase):
    def test_what_is_not_understood_is_answered_with_what_was_expected(self):
        with double() as giusto:
            for line in ('{"do":"dance"}', '{"do":"status","now":1}', "nonsense", '{"giusto":7,"do":"status"}', '{"do":"reload","site":"a"}'):
                error = giusto.ask(line)["error"]
                self.assertEqual(error["exit"], 2)
                self.assertIn('expected {"giusto":1,"do":"status"}', error["reason"])

    def test_random_bytes_and_idlers_never_stall_or_kill_it(self):
        draw = random.Random(7)
        with double() as giusto:
            idlers = [giusto.connect() for _ in range(14)]
            for _ in range(500):
                with giusto.connect() as control:
                    try:
                        control.sendall(draw.randbytes(draw.randrange(2000)) + draw.choice([b"", b"\n"]))
                    except BrokenPipeError:
                        pass
            start = time.monotonic()
            giusto.wait(lambda: "status" in giusto.ask('{"do":"status"}'), "answer")
            self.assertLess(time.monotonic() - start, 10)
            for idler in idlers:
                with idler, idler.makefile() as told:
                    self.assertIn("no whole request", told.readline())
            self.assertIsNone(giusto.process.poll())


class Metrics(unittest.TestCase):
    def test_prometheus_can_read_them(self):
        port = free_port()
        with double(f"127.0.0.1:{port}") as giusto:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
                self.assertTrue(answer.headers["Content-Type"].startswith("application/openmetrics-text"))
                text = answer.read().decode()
            self.assertTrue(text.endswith("# EOF\n"))
            self.assertIn('giusto_service_supply_seconds_total{service="cache",vcpu="",core="0"} 1.5\n', text)
            for line in text.splitlines():
                self.assertRegex(line, r'^(# (HELP|TYPE|UNIT) [a-z_]+ .+|# EOF|[a-z_]+\{([a-z]+="[^"]*",?)*\} -?[0-9.e-]+)$')
            self.assertEqual(giusto.ask('{"do":"metrics"}')["metrics"], text)
            for path, method, status in (("/", "GET", 404), ("/metrics", "POST", 405)):
                with self.assertRaises(urllib.error.HTTPError) as refused:
                    urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method))
                self.assertEqual(refused.exception.code, status)
                refused.exception.close()
            self.assertNotIn("every host that reaches it", giusto.said())

    def test_an_address_that_is_reachable_from_outside_is_said_and_one_that_is_taken_too(self):
        with double(f"0.0.0.0:{free_port()}") as giusto:
            self.assertIn("every host that reaches it", giusto.said())
        with socket.socket() as taken, self.assertRaises(AssertionError) as refused:
            taken.bind(("127.0.0.1", 0))
            with double(f"127.0.0.1:{taken.getsockname()[1]}"):
                pass
        self.assertIn("for --metrics", str(refused.exception))


class Systemd(unittest.TestCase):
    def heard(self, address):
        manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(manager.close)
        manager.bind(address)
        manager.settimeout(10)
        where = "@" + address[1:] if address.startswith("\0") else address
        words = lambda: dict(line.split("=", 1) for line in manager.recv(4096).decode().splitlines())
        with double(NOTIFY_SOCKET=where, WATCHDOG_USEC="200000") as giusto:
            giusto.site.write_text(SITE.replace("20ms", "30ms"))
            told = [words()]
            while sum("WATCHDOG" in word for word in told) < 15:
                told.append(words())
                if len(told) == 5:
                    giusto.giusto("reload")
            giusto.process.terminate()
            while "STOPPING" not in told[-1]:
                told.append(words())
        order = [next(iter(word)) for word in told if "WATCHDOG" not in word]
        self.assertEqual([word for word in order if word != "STATUS"], ["READY", "RELOADING", "READY", "STOPPING"])
        self.assertIn("enforcing, 2 services", [word.get("STATUS") for word in told])
        self.assertTrue(all(int(word["MONOTONIC_USEC"]) > 0 for word in told if "RELOADING" in word))

    def test_it_is_told_at_a_path_and_at_an_abstract_name(self):
        with tempfile.TemporaryDirectory() as folder:
            self.heard(f"{folder}/notify")
        self.heard(f"\0giusto-test-{os.getpid()}")


class Logs(unittest.TestCase):
    def test_events_are_json_with_fields_where_asked_for(self):
        with double("", "json") as giusto:
            giusto.site.write_text(SITE.replace("20ms", "30ms"))
            giusto.giusto("reload")
            giusto.wait(lambda: "reloaded" in giusto.said(), "event")
            events = [json.loads(line) for line in giusto.said().splitlines()]
            self.assertTrue(any(event.get("service") == "cache" and event["message"].startswith("increase cache") for event in events), events)
            self.assertTrue(all(event["level"] == "INFO" and event["timestamp"] for event in events))

    def test_the_journal_gets_priorities(self):
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "log"
            log.touch()
            found = log.stat()
            giusto = Double(folder, ["0.0.0.0:" + str(free_port())], {"JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino}"}).ready()
            giusto.end()
            self.assertRegex(giusto.said(), r"^<4>giusto: metrics at 0\.0\.0\.0")


class Watch(unittest.TestCase):
    ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"

    def terminal(self, giusto, columns, rows, end):
        """What is written to a terminal until `end` has ended it; asserts that the terminal is as it was."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        before = termios.tcgetattr(slave)
        watch = subprocess.Popen([GIUSTO, "status", "--watch"], stdin=slave, stdout=slave, stderr=slave,
                                 env={**giusto.environment, "TERM": "xterm"}, start_new_session=True)
        shown, until = b"", time.monotonic() + 20
        while watch.poll() is None and time.monotonic() < until:
            if select.select([master], [], [], 0.1)[0]:
                shown += os.read(master, 65536)
            if shown.count(b"q: quit"[:columns]) >= 2 and end:
                self.assertNotEqual(termios.tcgetattr(slave), before)
                end(watch, master)
                end = None
        self.assertEqual(watch.wait(timeout=10), 0, shown)
        while select.select([master], [], [], 0.1)[0]:
            shown += os.read(master, 65536)
        self.assertEqual(termios.tcgetattr(slave), before)
        os.close(master)
        os.close(slave)
        self.assertIn(self.ENTER, shown)
        self.assertTrue(shown.endswith(b"\x1b[?7h\x1b[?25h" + self.LEAVE), shown[-100:])
        return shown.decode()

    def test_a_terminal_is_redrawn_and_given_back_at_q_ctrl_c_and_signals(self):
        with double() as giusto:
            for end in (lambda watch, master: os.write(master, b"q"), lambda watch, master: os.write(master, b"\x03"),
                        lambda watch, master: watch.send_signal(signal.SIGTERM), lambda watch, master: watch.send_signal(signal.SIGHUP)):
                self.assertIn("cache", self.terminal(giusto, 100, 24, end))

    def test_a_narrow_terminal_is_not_overrun(self):
        with double() as giusto:
            shown = self.terminal(giusto, 20, 6, lambda watch, master: os.write(master, b"q"))
            plain = re.sub(r"\x1b\[[?0-9]*[A-Za-z]", "", shown)
            self.assertLessEqual(max(map(len, re.split(r"\r\n|q: quit", plain))), 20)

    def test_a_pipe_gets_a_block_a_second(self):
        with double() as giusto:
            watch = subprocess.Popen([GIUSTO, "status", "--watch"], stdout=subprocess.PIPE, text=True, env=giusto.environment)
            heads = [watch.stdout.readline() for _ in range(20)]
            watch.stdout.close()
            self.assertEqual(watch.wait(timeout=10), 0)  # the reader has closed the pipe
            self.assertEqual(sum(line.startswith("edge-1: enforcing") for line in heads), 2, heads)
            self.assertNotIn("\x1b", "".join(heads))


if __name__ == "__main__":
    result = unittest.main(verbosity=2, exit=False).result
    failed = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - failed} passed, {failed} failed")
    sys.exit(1 if failed or not result.testsRun else 0)
