"""What a power loss leaves, and that the other faults reach a process: small programs on a failing machine, and histories of files
against what ext4 keeps of them."""
import errno
import random
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from machine import Machine, build

PRELUDE = """
import os, sys, time, socket
os.chdir(sys.argv[1]); d = sys.argv[1] + "/"
def write(name, data, sync=os.fsync, flags=0):
    fd = os.open(d + name, os.O_WRONLY | os.O_CREAT | flags)
    os.write(fd, data)
    if sync: sync(fd)
    os.close(fd)
def append(name, data, sync=None): write(name, data, sync, os.O_APPEND)
def replace(name, data):
    write(name + ".tmp", data, os.fsync, os.O_TRUNC); os.rename(d + name + ".tmp", d + name)
def sync_directory():
    fd = os.open(sys.argv[1], os.O_RDONLY); os.fsync(fd); os.close(fd)
"""


class MachineTest(unittest.TestCase):
    def setUp(self):
        self.base = Path(tempfile.mkdtemp(prefix="giusto-machine-"))
        self.machine = Machine(self.base / "m", self.base / "disk", build(self.base))

    def tearDown(self):
        shutil.rmtree(self.base)

    def run_(self, program, **more):
        done = subprocess.run([sys.executable, "-c", PRELUDE + program, str(self.machine.disk)], capture_output=True, text=True,
                              env=self.machine.environment(**more))
        self.assertEqual("", done.stderr)
        return done.stdout

    def left(self, rng=None):
        self.machine.lose_power(rng)
        return {f.name: f.read_bytes() for f in self.machine.disk.iterdir()}

    def test_what_was_forced_stays_and_nothing_else(self):
        self.run_('write("a", b"one"); append("a", b"two"); write("b", b"x", None)')
        self.assertEqual({"a": b"one"}, self.left())

    def test_a_rename_is_lost_unless_something_was_forced_after_it(self):
        self.run_('replace("e", b"1"); sync_directory()')
        self.assertEqual({"e": b"1"}, self.left())
        self.run_('replace("e", b"2")')
        self.assertEqual({"e": b"1", "e.tmp": b"2"}, self.left())
        self.run_('replace("e", b"3"); write("log", b"x")')
        self.assertEqual({"e": b"3", "log": b"x"}, self.left())

    def test_what_takes_the_place_of_a_file_is_written_with_its_name(self):
        self.run_('replace("e", b"1"); sync_directory()')
        self.run_('write("new", b"2", None); os.rename(d + "new", d + "e"); sync_directory()')
        self.assertEqual({"e": b"2"}, self.left())

    def test_fdatasync_of_a_file_that_was_there_keeps_no_rename(self):
        self.run_('write("e", b"0"); write("log", b"...")')
        self.run_('replace("e", b"1"); append("log", b"t", os.fdatasync)')
        left = self.left()
        self.assertEqual((b"0", b"...t"), (left["e"], left["log"]))
        self.run_('replace("e", b"2"); write("log2", b"t", os.fdatasync)')
        self.assertEqual(b"2", self.left()["e"])

    def test_removed_and_shortened_files_return(self):
        self.run_('write("a", b"12345"); write("b", b"b"); sync_directory()')
        self.run_('os.unlink(d + "b"); fd = os.open(d + "a", os.O_WRONLY); os.ftruncate(fd, 2)')
        self.assertEqual({"a": b"12345", "b": b"b"}, self.left())
        self.run_('os.unlink(d + "b"); fd = os.open(d + "a", os.O_WRONLY); os.ftruncate(fd, 2); sync_directory()')
        self.assertEqual({"a": b"12"}, self.left())

    def test_what_was_shortened_and_written_again_is_there_in_time(self):
        self.run_('write("a", b"12345"); sync_directory(); write("a", b"1", None, os.O_TRUNC); sync_directory()')
        self.assertEqual({"a": b""}, self.left())
        self.run_('write("a", b"12", None, os.O_TRUNC); sync_directory(); os.utime(d + "a", (0, 0))')
        self.assertEqual({"a": b"12"}, self.left())

    def test_a_process_that_dies_loses_nothing(self):
        self.run_('write("a", b"one", None); os._exit(0)')
        self.run_('append("a", b"two", None); append("a", b"!", os.fsync)')
        self.assertEqual({"a": b"onetwo!"}, self.left())

    def test_full_and_broken_disks(self):
        self.run_('write("old", b"x")')
        self.machine.set("write_errno", errno.ENOSPC)
        self.machine.set("create_errno", errno.ENOSPC)
        self.machine.set("sync_errno", errno.EIO)
        codes = self.run_("""
for what in (lambda: append("old", b"y"), lambda: os.open(d + "new", os.O_WRONLY | os.O_CREAT), sync_directory):
    try: what()
    except OSError as e: print(e.errno, end=" ")""")
        self.assertEqual([errno.ENOSPC, errno.ENOSPC, errno.EIO], [int(c) for c in codes.split()])
        self.machine.mend()
        self.run_('append("old", b"y", os.fsync)')
        self.assertEqual({"old": b"xy"}, self.left())

    def test_room_for_a_name_and_not_for_what_it_holds(self):
        self.machine.set("write_errno", errno.ENOSPC)
        self.run_("""
fd = os.open(d + "new", os.O_WRONLY | os.O_CREAT)
try: os.write(fd, b"x")
except OSError as e: assert e.errno == 28
os.fsync(fd)""")
        self.machine.mend()
        self.assertEqual({"new": b""}, self.left())

    def test_pages_that_could_not_be_forced_are_not_written_again(self):
        """As fsync(2) of Linux tells it: reported once, and taken for written."""
        self.run_('write("log", b"a" * 8000)')
        self.machine.set("sync_errno", errno.EIO)
        self.run_("""
try: append("log", b"b" * 8000, os.fsync)
except OSError as e: assert e.errno == 5""")
        self.machine.mend()
        # It is there for who reads it, also in another process, and an fsync says that all is well.
        self.assertEqual("16000\n", self.run_('append("log", b"", os.fsync); print(len(open(d + "log").read()))'))
        self.run_('append("log", b"c" * 8000, os.fsync)')
        # Page 2 and 3 hold bytes of b; the last of them was written again, with what came after b.
        self.assertEqual({"log": b"a" * 8000 + bytes(12288 - 8000) + b"b" * (16000 - 12288) + b"c" * 8000}, self.left())

    def test_nor_does_the_kernel_write_them_by_itself(self):
        self.run_('write("log", b"a" * 4096)')
        self.machine.set("sync_errno", errno.EIO)
        self.run_("""
try: append("log", b"b" * 4096, os.fsync)
except OSError as e: os.utime(d + "log", (0, 0))""")
        self.machine.mend()
        self.assertEqual({"log": b"a" * 4096}, self.left())

    def test_who_is_cut_and_written_anew_is_forced(self):
        self.run_('write("e", b"1" * 5000)')
        self.machine.set("sync_errno", errno.EIO)
        self.run_("""
try: write("e", b"2" * 5000)
except OSError: pass""")
        self.machine.mend()
        self.run_('write("e", b"2" * 5000, os.fsync, os.O_TRUNC)')
        self.assertEqual({"e": b"2" * 5000}, self.left())

    def test_clock_and_slow_disk(self):
        self.machine.set("clock_ns", 3600 * 10**9)
        self.machine.set("slow_us", 200_000)
        start = time.time()
        ahead, took = map(float, self.run_(
            't = time.monotonic(); write("a", b"x"); print(time.time(), time.monotonic() - t)').split())
        self.assertTrue(3600 <= ahead - start < 3700 and took >= 0.2, (ahead - start, took))

    def test_a_connection_is_led_elsewhere(self):
        import socket
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            self.run_('socket.create_connection(("127.0.0.1", 9), 1)', wires=[(9, port)])

    def test_any_history(self):
        """Whatever is done to files: what was forced is there, and names are those of some moment since the last fsync."""
        for seed in range(60):
            r = random.Random(seed)
            program, moments, forced = [], [{}], {}
            now, certain = {}, 0
            for n in range(r.randint(1, 25)):
                what, name = r.choice(["put", "sync", "move", "drop", "directory"]), r.choice("abc")
                if what == "put":
                    program.append(f'append({name!r}, b"{n},")')
                    now = {**now, name: now.get(name) or f"f{n}"}
                elif what == "sync" and name in now:
                    program.append(f'append({name!r}, b"{n},", os.fsync)')
                    forced[now[name]] = n
                elif what == "move" and name in now:
                    other = r.choice("abc".replace(name, ""))
                    program.append(f"os.rename(d + {name!r}, d + {other!r})")
                    now = {k: v for k, v in now.items() if k != name} | {other: now[name]}
                elif what == "drop" and name in now:
                    program.append(f"os.unlink(d + {name!r})")
                    now = {k: v for k, v in now.items() if k != name}
                elif what == "directory":
                    program.append("sync_directory()")
                else:
                    continue
                moments.append(now)
                if what in ("sync", "directory"):
                    certain = len(moments) - 1
            self.run_("\n".join(program))
            files = self.left(r)
            self.assertTrue(any(set(files) == set(m) for m in moments[certain:]), (seed, program, files))
            for m in (m for m in moments[certain:certain + 1] if m == moments[-1]):
                for name, file in m.items():
                    if file in forced:
                        self.assertIn(f"{forced[file]},".encode(), files[name], (seed, program))
            for f in self.machine.disk.iterdir():
                f.unlink()
            self.machine._fresh()


if __name__ == "__main__":
    unittest.main()
