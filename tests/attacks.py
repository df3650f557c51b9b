"""Attacks on `giusto run --only network`, by root in a container and from outside, in network namespaces that this test makes:
no interface above or below the attacker waits longer for the host than its bound says, and afterwards everything is as it was.
Needs root.

    tests/attacks.py [ATTACK ...]    half of a sample, the other half the next day, or those attacks by each attacker;
                                     GIUSTO_SOAK=1: all of them, three times

Guest 0 (high, above the attacker) pings guest 2 (high, below it): a round trip passes the host for each of them twice. Judged is
how much longer the 95th percentile takes beside the attack than just before and after it: that may not be more than twice both
bounds.
And what an attacker of the high class gets through the host is no more than its bucket lets through.
"""
import ctypes
import json
import os
import random
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

from packets import GIUSTO, LOOK, cannot, run
from patient import Patient, of_today

NAME = f"giusto-test-{os.getpid()}-attacks"
HOST, AWAY = f"{NAME}-host", f"{NAME}-away"
HIGH_ABOVE, ATTACKER, HIGH_BELOW, LOW, REMOTE = range(5)
SOAK = bool(os.environ.get("GIUSTO_SOAK"))
WINDOW, EVERY = (1.5 if SOAK else 0.8), 0.004
HOST_CORE, OTHER_CORE = 0, 1
SITE = """
giusto: 1
hosts:
  test:
    cores: 1
    network: {cores: 0, capacity: 65k/s, uplinks: [{name: v4, rate: 2k/s, burst: 32}]}
services:
  above: {start: sleep 1000, promise: leftovers, network: [{vif: v0, class: high, rate: 1k/s, burst: 32, p99: 4ms}]}
  attacker: {start: sleep 1000, promise: leftovers, network: [{vif: v1, CLASS}]}
  below: {start: sleep 1000, promise: leftovers, network: [{vif: v2, class: high, rate: 1k/s, burst: 32, p99: 12ms}]}
  low: {start: sleep 1000, promise: leftovers, network: [{vif: v3, class: low}]}
"""
RATE, BURST = 2000, 32
CLASSES = {"high": f"class: high, rate: {RATE}/s, burst: {BURST}, p99: 8ms", "low": "class: low", "outside": "class: low"}


# What an attacker does, in its namespace: `python3 attacks.py --attack NAME SECONDS AWAY`.

LIBC = ctypes.CDLL(None, use_errno=True)


class Message(ctypes.Structure):  # struct mmsghdr
    _fields_ = [("name", ctypes.c_void_p), ("namelen", ctypes.c_uint32), ("iov", ctypes.c_void_p), ("iovlen", ctypes.c_size_t),
                ("control", ctypes.c_void_p), ("controllen", ctypes.c_size_t), ("flags", ctypes.c_int), ("sent", ctypes.c_uint)]


class Piece(ctypes.Structure):  # struct iovec
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


def card(guest):
    return bytes([2, 0, 0, 0, 0x78, 10 + guest])


def address(guest):
    return bytes([10, 78, 0, 10 + guest])


def datagram(to, card_to=None, port=7001, size=1):
    """A UDP packet with its Ethernet and IP headers."""
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 28 + size, 0, 0, 64, 17, 0, address(ATTACKER), to)
    total = sum(struct.unpack(">10H", ip))
    total = (total & 0xFFFF) + (total >> 16)
    ip = ip[:10] + struct.pack(">H", ~total & 0xFFFF) + ip[12:]
    frame = (card_to or card(to[3] - 10)) + card(ATTACKER) + b"\x08\x00"
    return frame + ip + struct.pack(">4H", 7000, port, 8 + size, 0) + b"x" * size


class Flood:
    """Sends frames as fast as it can until it is told to stop."""

    def __init__(self, opened, frames, vary=()):
        self.opened, self.vary, self.sent, self.stop = opened, vary, 0, False
        self.buffers = [ctypes.create_string_buffer(frame, len(frame)) for frame in frames]
        self.pieces = (Piece * len(frames))(*[Piece(ctypes.addressof(one), len(one)) for one in self.buffers])
        size = ctypes.sizeof(Piece)
        at = ctypes.addressof(self.pieces)
        self.messages = (Message * len(frames))(*[Message(None, 0, at + size * n, 1, None, 0, 0, 0) for n in range(len(frames))])

    def send(self, end):
        while not self.stop and time.monotonic() < end:
            for place, length in self.vary:
                for one in self.buffers:
                    one[place:place + length] = random.randbytes(length)
            done = LIBC.sendmmsg(self.opened.fileno(), self.messages, len(self.messages), socket.MSG_DONTWAIT)
            self.sent += max(done, 0)
            if done <= 0:
                time.sleep(0.0002)  # its interface is full, gone or down
        return self.sent


def raw(bypass=False):
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    if bypass:
        opened.setsockopt(263, 20, 1)  # SOL_PACKET, PACKET_QDISC_BYPASS
    opened.bind(("eth0", 0x800))
    return opened


def udp(to, segment=None, payload=b"x", count=64):
    opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    if segment:
        opened.setsockopt(socket.SOL_UDP if hasattr(socket, "SOL_UDP") else 17, 103, segment)  # UDP_SEGMENT
    opened.connect((socket.inet_ntoa(to), 7001))
    return Flood(opened, [payload] * count)


def while_flooding(end, step, bypass=False):
    """Does `step` again and again beside a flood of raw packets to the low guest."""
    flood = Flood(raw(bypass), [datagram(address(LOW))] * 64)
    beside = threading.Thread(target=flood.send, args=(end,))
    beside.start()
    while time.monotonic() < end:
        step()
        time.sleep(0.02)
    beside.join()
    return flood.sent


def ip(*words):
    return subprocess.run(["ip", *words], capture_output=True).returncode == 0


def renamed(end):
    def step():
        for old, new in (("eth0", "e9"), ("e9", "eth0")):
            ip("link", "set", old, "down"), ip("link", "set", old, "name", new), ip("link", "set", new, "up")
    return while_flooding(end, step, bypass=True)


def cleared(end):
    return while_flooding(end, lambda: [subprocess.run(["tc", "qdisc", "del", "dev", "eth0", what], capture_output=True)
                                        for what in ("clsact", "root")])


def moved(end, away):
    """Its interface goes to another namespace, floods from there, and comes back."""
    ip("link", "set", "eth0", "netns", away)
    there = ["ip", "netns", "exec", away]
    subprocess.run([*there, "ip", "link", "set", "eth0", "up"], check=True)
    flood = f"attacks.Flood(attacks.raw(), [attacks.datagram(attacks.address({LOW}))] * 64)"
    code = f"import attacks, time; print({flood}.send(time.monotonic() + {end - time.monotonic()}))"
    done = subprocess.run([*there, sys.executable, "-c", code], cwd=Path(__file__).parent, capture_output=True, text=True)
    subprocess.run([*there, "ip", "link", "set", "eth0", "netns", str(os.getpid())], check=True)
    subprocess.run(["ip", "addr", "add", f"{socket.inet_ntoa(address(ATTACKER))}/24", "dev", "eth0"], check=True)
    subprocess.run(["ip", "link", "set", "eth0", "up"], check=True)
    return int(done.stdout or 0)


def af_xdp(end):
    """The transmission ring of an AF_XDP socket, which no queueing discipline sees."""
    import mmap
    count, chunk = 1024, 2048
    area = mmap.mmap(-1, count * chunk)
    frame = datagram(address(LOW))
    for n in range(count):
        area[n * chunk:n * chunk + len(frame)] = frame
    try:
        opened = socket.socket(44, socket.SOCK_RAW, 0)
    except OSError:
        return None  # this kernel has none
    base = ctypes.addressof(ctypes.c_char.from_buffer(area))
    opened.setsockopt(283, 4, struct.pack("QQIIII", base, count * chunk, chunk, 0, 0, 0))  # XDP_UMEM_REG
    for ring in (5, 6, 3):  # fill, completion, transmission
        opened.setsockopt(283, ring, struct.pack("I", count))
    places = struct.unpack("16Q", opened.getsockopt(283, 1, 128))
    tx = mmap.mmap(opened.fileno(), places[6] + 16 * count, offset=0x80000000)
    done = mmap.mmap(opened.fileno(), places[14] + 8 * count, offset=0x180000000)
    address_of = struct.pack("HHIII", 44, 2, socket.if_nametoindex("eth0"), 0, 0)  # XDP_COPY
    if LIBC.bind(opened.fileno(), address_of, len(address_of)):
        return None
    for n in range(count):
        struct.pack_into("QII", tx, places[6] + 16 * n, n * chunk, len(frame), 0)
    sent = 0
    while time.monotonic() < end:
        finished = struct.unpack_from("I", done, places[12])[0]
        struct.pack_into("I", done, places[13], finished)
        sent = finished
        struct.pack_into("I", tx, places[4], (finished + count) & 0xFFFFFFFF)
        LIBC.sendto(opened.fileno(), None, 0, socket.MSG_DONTWAIT, None, 0)
    return sent


def bpf(command, attributes):
    """bpf(2); below 0: refused."""
    number = {"x86_64": 321, "aarch64": 280}[os.uname().machine]
    return LIBC.syscall(number, command, attributes, len(attributes))


def xdp_tx(end):
    """A program at its own end sends back whatever arrives there; the kernel runs it on its own frames, as fast as it can."""
    code = struct.pack("BBhi", 0xB7, 0, 0, 3) + struct.pack("BBhi", 0x95, 0, 0, 0)  # return XDP_TX
    number, frame = socket.if_nametoindex("eth0"), datagram(address(LOW))
    context = struct.pack("6I", 0, len(frame), 0, number, 0, 0)  # struct xdp_md
    kept = [ctypes.create_string_buffer(one, len(one)) for one in (code, b"GPL\0", frame, context)]
    code, licence, frame, context = map(ctypes.addressof, kept)
    program = bpf(5, struct.pack("IIQQ", 6, 2, code, licence))  # BPF_PROG_LOAD
    if program < 0 or bpf(28, struct.pack("4I", program, number, 37, 0)) < 0:  # BPF_LINK_CREATE: it goes with this process
        return None
    count, sent = 4096, 0
    words = (program, 0, len(kept[2]), 0, frame, 0, count, 0, len(kept[3]), 0, context, 0, 2, 0, 0)
    while time.monotonic() < end:
        if bpf(10, struct.pack("4I2Q4I2Q3I", *words)) < 0:  # BPF_PROG_TEST_RUN with frames that are really sent
            return None
        sent += count
    return sent


ALL_CARDS = b"\xff" * 6
ASKED = struct.pack(">HHBBH6s4s6s4s", 1, 0x800, 6, 4, 1, card(ATTACKER), address(ATTACKER), bytes(6), address(200))
ARP = ALL_CARDS + card(ATTACKER) + b"\x08\x06" + ASKED
MULTICAST = datagram(bytes([224, 0, 0, 251]), bytes([1, 0, 0x5E, 0, 0, 251]))
ATTACKS = {
    "udp to the low": lambda end, _: udp(address(LOW)).send(end),
    "udp to one above": lambda end, _: udp(address(HIGH_ABOVE)).send(end),
    "udp to one below": lambda end, _: udp(address(HIGH_BELOW)).send(end),
    "raw": lambda end, _: Flood(raw(), [datagram(address(LOW))] * 64).send(end),
    "qdisc bypass": lambda end, _: Flood(raw(True), [datagram(address(LOW))] * 64).send(end),
    "bypass to one above": lambda end, _: Flood(raw(True), [datagram(address(HIGH_ABOVE))] * 64).send(end),
    "AF_XDP": lambda end, _: af_xdp(end),
    "XDP_TX": lambda end, _: xdp_tx(end),
    "clsact deleted": lambda end, _: cleared(end),
    "renamed": lambda end, _: renamed(end),
    "moved": moved,
    "ARP storm": lambda end, _: Flood(raw(True), [ARP] * 64).send(end),
    "multicast storm": lambda end, _: Flood(raw(), [MULTICAST] * 64).send(end),
    "GSO bursts": lambda end, _: udp(address(LOW), 1000, b"x" * 60_000).send(end),
    "many flows": lambda end, _: Flood(raw(True), [datagram(address(LOW))] * 64, vary=((8, 4), (26, 4), (34, 2))).send(end),
    "many small": lambda end, _: udp(address(LOW), 1, b"x" * 60).send(end),
}
# What passes the bucket at its own end by, and is dropped at the host's.
BYPASS = ("qdisc bypass", "AF_XDP", "XDP_TX")
OF_CONTAINERS = ("clsact deleted", "renamed", "moved", "AF_XDP", "XDP_TX")
SAMPLE = {"high": ("qdisc bypass", "XDP_TX", "udp to one above", "clsact deleted", "moved", "many flows"),
          "low": ("qdisc bypass", "renamed", "ARP storm", "GSO bursts"),
          "outside": ("raw", "udp to one below", "many flows")}


def attack(name, seconds, away):
    os.sched_setaffinity(0, {OTHER_CORE})
    print(json.dumps(ATTACKS[name](time.monotonic() + float(seconds), away)))


# The one that is attacked: `python3 attacks.py --ping SECONDS` in its namespace.

def ping(seconds):
    """Round trips in us to the guest below, at most one on its way; None: lost."""
    os.sched_setaffinity(0, {OTHER_CORE})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
    opened = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    opened.settimeout(0.25)
    to, own, times = socket.inet_ntoa(address(HIGH_BELOW)), os.getpid() & 0xFFFF, []
    end = time.monotonic() + float(seconds)
    number = 0
    while time.monotonic() < end:
        number = (number + 1) & 0xFFFF
        sum_of = 0x0800 + own + number
        sum_of = (sum_of & 0xFFFF) + (sum_of >> 16)
        begin = time.monotonic()
        opened.sendto(struct.pack(">BBHHH", 8, 0, ~sum_of & 0xFFFF, own, number), (to, 0))
        took = None
        while took is None and time.monotonic() - begin < 0.25:
            try:
                answer = opened.recv(200)
            except OSError:
                break
            if answer[20] == 0 and struct.unpack(">HH", answer[24:28]) == (own, number):
                took = (time.monotonic() - begin) * 1e6
        times.append(took)
        time.sleep(max(0, begin + EVERY - time.monotonic()))
    print(json.dumps(times))


def p95(times):
    """A lost one counts as one that never came."""
    times = sorted(float("inf") if one is None else one for one in times)
    return times[min(len(times) - 1, len(times) * 95 // 100)]


def role(namespace, *words):
    words = ["ip", "netns", "exec", namespace, sys.executable, __file__, *map(str, words)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def answer(process):
    out, err = process.communicate(timeout=60)
    if process.returncode:
        raise RuntimeError(err)
    return json.loads(out)


class Attacks(Patient):
    wanted = None

    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.namespaces = [HOST, AWAY, *(f"{NAME}-g{guest}" for guest in range(5))]
        self.addCleanup(lambda: [subprocess.run(["ip", "netns", "del", name], capture_output=True) for name in self.namespaces])
        within = lambda name, *words: run("ip", "netns", "exec", name, *words)
        self.within = within
        for name in self.namespaces:
            run("ip", "netns", "add", name)
            within(name, "sh", "-c", "for f in /proc/sys/net/ipv6/conf/*/disable_ipv6; do echo 1 >$f; done")
        for words in ("link add br0 type bridge", "link set br0 up", "link set lo up"):
            within(HOST, "ip", *words.split())
        for guest in range(5):
            inside = f"{NAME}-g{guest}"
            within(HOST, *f"ip link add v{guest} type veth peer name eth0 netns {inside}".split())
            within(HOST, *f"ip link set v{guest} master br0 up".split())
            within(inside, *f"ip link set eth0 address {card(guest).hex(':')}".split())
            within(inside, *f"ip addr add {socket.inet_ntoa(address(guest))}/24 dev eth0".split())
            within(inside, *"ip link set eth0 up".split())
            for other in range(5):
                known = [socket.inet_ntoa(address(other)), "lladdr", card(other).hex(":"), "dev", "eth0", "nud", "permanent"]
                within(inside, "ip", "neigh", "replace", *known)
        self.environment = {**os.environ, "GIUSTO_STATE": str(self.folder / "state")}
        self.before = self.look()

    def look(self):
        return [self.within(name, "sh", "-c", LOOK) for name in self.namespaces]

    def status(self):
        done = subprocess.run([GIUSTO, "status", "--json"], env=self.environment, capture_output=True, text=True)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def start(self, attacker):
        site, self.log = self.folder / "site.yaml", self.folder / "log"
        site.write_text(SITE.replace("CLASS", CLASSES[attacker]))
        plan = json.loads(run(GIUSTO, "plan", site, "--host", "test", "--json"))
        bounds = {vif["name"]: vif["bound_ns"] for vif in plan["network"][0]["vifs"]}
        words = ["ip", "netns", "exec", HOST, GIUSTO, "run", site, "--host", "test", "--only", "network"]
        words = [str(word) for word in [*words, "--out", self.folder / "out"]]
        with self.log.open("w") as log:
            daemon = subprocess.Popen(words, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=self.environment)
        self.addCleanup(lambda: (daemon.kill(), daemon.wait()))
        self.until(lambda: (self.status() or {}).get("state") == "enforcing")
        return daemon, 2 * (bounds["v0"] + bounds["v2"]) / 1000

    def until(self, wanted, seconds=20):
        end = time.monotonic() + seconds
        while not wanted():
            self.assertLess(time.monotonic(), end, f"not within {seconds} s: {self.status()} {self.log.read_text()}")
            time.sleep(0.05)

    def handed_on(self):
        """Packets that the host has handed to others than the attacker."""
        files = [f"/sys/class/net/v{guest}/statistics/tx_packets" for guest in range(5) if guest != ATTACKER]
        return sum(map(int, self.within(HOST, "cat", *files).split()))

    def one(self, attacker, name, allowed):
        """How much later beside the attack, in us."""
        pings = lambda: answer(role(f"{NAME}-g{HIGH_ABOVE}", "--ping", WINDOW))
        quiet = pings()
        guest = REMOTE if attacker == "outside" else ATTACKER
        bypassed = lambda: next(link for link in self.status()["network"] if link["name"] == f"v{ATTACKER}")["bypassed"]
        dropped = bypassed()
        before, begin = self.handed_on(), time.monotonic()
        attacking = role(f"{NAME}-g{guest}", "--attack", name, WINDOW + 0.6, AWAY)
        time.sleep(0.3)
        beside = pings()
        sent = answer(attacking)
        handed_on, length = self.handed_on() - before, time.monotonic() - begin
        quiet = [*quiet, *pings()]
        later = p95(beside) - p95(quiet)
        lost = sum(one is None for one in beside)
        rate = "not possible here" if sent is None else f"{sent / (WINDOW + 0.6) / 1000:.0f}k/s"
        print(f"  {attacker:8} {name:20} {rate:>9}: p95 {p95(beside) / 1000:7.2f} ms beside {p95(quiet) / 1000:.2f}, "
              f"{lost} of {len(beside)} lost, at most {allowed / 1000:.1f} more may; {handed_on} handed on", flush=True)
        if attacker == "high":
            # Each to all four others at most, and the pings; some are neither.
            most = 4 * (BURST + RATE * (length + 0.1)) + 2 * len(beside) + 200
            self.assertLessEqual(handed_on, most, f"{name}: more was handed on than the attacker's bucket lets through")
            if sent and name in BYPASS:
                self.until(lambda: bypassed() - dropped > 100)
        return later

    def suite(self, attacker):
        daemon, allowed = self.start(attacker)
        names = self.wanted or (list(ATTACKS) if SOAK else of_today(SAMPLE[attacker]))
        for name in names:
            if attacker == "outside" and name in OF_CONTAINERS:
                continue
            # Each time by itself, and the middle one counts: this machine may stand still in any of them.
            rounds = [self.one(attacker, name, allowed)]
            if SOAK or rounds[0] > allowed:
                rounds += [self.one(attacker, name, allowed) for _ in range(2)]
            self.assertLessEqual(statistics.median(rounds), allowed, f"{name} by {attacker}: {rounds}")
            self.assertIsNone(daemon.poll(), self.log.read_text())
        self.until(lambda: not any("is not there" in text or "is down" in text for text in self.status()["warnings"]))
        daemon.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.wait(timeout=30), 0, self.log.read_text())
        self.assertEqual(self.look(), self.before)

    def test_by_one_of_the_high_class(self):
        self.suite("high")

    def test_by_one_of_the_low_class(self):
        self.suite("low")

    def test_from_outside(self):
        self.suite("outside")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--attack"]:
        sys.exit(attack(*sys.argv[2:]))
    if sys.argv[1:2] == ["--ping"]:
        sys.exit(ping(sys.argv[2]))
    why = cannot()
    if why:
        print(f"attacks: SKIPPED: {why}")
        sys.exit(77)
    Attacks.wanted = [name for name in sys.argv[1:] if name in ATTACKS] or None
    unittest.main(argv=sys.argv[:1], verbosity=1)
