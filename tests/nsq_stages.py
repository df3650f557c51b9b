"""Stages of a path on both sides of a topic, for tests and trials: they speak NSQ's protocol (V2) to a broker.

    tests/nsq_stages.py publish NAME LISTEN TIME BROKER TOPIC    takes TIME of its processor for each line that comes to LISTEN,
                                                                 and publishes it
    tests/nsq_stages.py consume NAME BROKER TOPIC TIME NEXT      takes TIME for each message of channel NAME, and passes on to
                                                                 NEXT, as a line, those that are none of OTHERS
    tests/nsq_stages.py others BROKER TOPIC RATE [CORE]          publishes at random, so many a second
    tests/nsq_stages.py flood TO RATE CORE                       sends so many packets a second, in bursts of a twentieth

BROKER, LISTEN and NEXT are HOST:PORT, TIME is in ms. Lines get when they came and left, as `giusto measure path` reads it.
"""
import os
import random
import socket
import struct
import sys
import threading
import time

OTHERS = b"others"
RESPONSE, ERROR, MESSAGE = 0, 1, 2


def address(text):
    host, port = text.rsplit(":", 1)
    return host, int(port)


def burn(ms):
    end = time.thread_time_ns() + float(ms) * 1e6
    while time.thread_time_ns() < end:
        pass


class Broker:
    """A connection; `frames` answers heartbeats."""

    def __init__(self, where):
        end = time.monotonic() + 30
        while True:
            try:
                self.socket = socket.create_connection(address(where))
                break
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.reader = self.socket.makefile("rb")
        self.lock = threading.Lock()
        self.send(b"  V2")

    def send(self, data):
        with self.lock:
            self.socket.sendall(data)

    def publish(self, topic, body):
        self.send(b"PUB %s\n" % topic.encode() + struct.pack(">I", len(body)) + body)

    def frames(self):
        while head := self.reader.read(8):
            size, kind = struct.unpack(">II", head)
            data = self.reader.read(size - 4)
            if kind == RESPONSE and data == b"_heartbeat_":
                self.send(b"NOP\n")
            elif kind == ERROR:
                sys.exit(f"the broker says: {data.decode()}")
            else:
                yield kind, data


def drain(broker):
    """Reads what a publisher is answered."""
    thread = threading.Thread(target=lambda: [None for _ in broker.frames()], daemon=True)
    thread.start()


def publish(name, listen, ms, where, topic):
    listener = socket.create_server(address(listen))
    broker = Broker(where)
    drain(broker)
    while True:
        client, _ = listener.accept()
        with client.makefile("rb") as lines:
            for line in lines:
                came = time.monotonic_ns()
                burn(ms)
                broker.publish(topic, line.rstrip(b"\n") + b" %s:%d-%d" % (name.encode(), came, time.monotonic_ns()))


def connect(where, found):
    """Appends a connection to `found` as soon as there is one."""
    while not found:
        try:
            found.append(socket.create_connection(address(where)))
        except OSError:
            time.sleep(0.05)


def consume(name, where, topic, ms, following):
    broker, found = Broker(where), []
    # At once: a measurement waits for it, and the first message may take long to come here.
    connecting = threading.Thread(target=connect, args=(following, found), daemon=True)
    connecting.start()
    broker.send(b"SUB %s %s\n" % (topic.encode(), name.encode()))
    broker.send(b"RDY 100\n")
    for kind, data in broker.frames():
        if kind != MESSAGE:
            continue
        came, body = time.monotonic_ns(), data[26:]
        burn(ms)
        broker.send(b"FIN %s\n" % data[10:26])
        if body == OTHERS:
            continue
        connecting.join()
        found[0].sendall(body + b" %s:%d-%d\n" % (name.encode(), came, time.monotonic_ns()))


def others(where, topic, rate, core=None):
    if core is not None:
        os.sched_setaffinity(0, {int(core)})
    broker, draw = Broker(where), random.Random(7)
    drain(broker)
    due = time.monotonic()
    while True:
        due += draw.expovariate(float(rate))
        time.sleep(max(0.0, due - time.monotonic()))
        broker.publish(topic, OTHERS)


def flood(to, rate, core):
    os.sched_setaffinity(0, {int(core)})
    out, due = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), time.monotonic()
    while True:
        due += 0.05
        for _ in range(int(rate) // 20):
            out.sendto(bytes(1000), address(to))
        time.sleep(max(0.0, due - time.monotonic()))


if __name__ == "__main__":
    roles = {"publish": publish, "consume": consume, "others": others, "flood": flood}
    if len(sys.argv) < 2 or sys.argv[1] not in roles:
        sys.exit(__doc__)
    try:
        roles[sys.argv[1]](*sys.argv[2:])
    except KeyboardInterrupt:
        pass
