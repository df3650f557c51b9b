"""ZooKeeper's client protocol, as little of it as a measurement needs: one session, one write, nothing that waits by itself."""
import socket
import struct


class Refused(Exception):
    """The server closed the connection, refused it, or answered with an error."""


def _string(text):
    data = text.encode() if isinstance(text, str) else text
    return struct.pack(">i", len(data)) + data


class Session:
    """A session on one server. Every call raises Refused where the server does not answer in time."""

    def __init__(self, port, timeout=2.0, session_ms=4000):
        self.xid = 0
        try:
            self.socket = socket.create_connection(("127.0.0.1", port), timeout)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._send(struct.pack(">iqiq", 0, 0, session_ms, 0) + _string(b"\0" * 16) + b"\0")
            answer = self._receive()
        except OSError as e:
            raise Refused(str(e)) from e
        self.id = struct.unpack(">q", answer[8:16])[0]
        if self.id == 0:
            raise Refused("no session")

    def _send(self, data):
        self.socket.sendall(struct.pack(">i", len(data)) + data)

    def _exactly(self, n):
        data = b""
        while len(data) < n:
            part = self.socket.recv(n - len(data))
            if not part:
                raise Refused("closed")
            data += part
        return data

    def _receive(self):
        return self._exactly(struct.unpack(">i", self._exactly(4))[0])

    def call(self, kind, body):
        """Sends a request, returns (zxid, error, rest of the answer)."""
        self.xid += 1
        try:
            self._send(struct.pack(">ii", self.xid, kind) + body)
            while True:
                answer = self._receive()
                xid, zxid, error = struct.unpack(">iqi", answer[:16])
                if xid == self.xid:
                    return zxid, error, answer[16:]
        except OSError as e:
            raise Refused(str(e)) from e

    def create(self, path, data=b"", flags=0):
        """flags 1: it goes with this session."""
        acl = struct.pack(">ii", 1, 31) + _string("world") + _string("anyone")
        return self.call(1, _string(path) + _string(data) + acl + struct.pack(">i", flags))

    def set(self, path, data):
        zxid, error, _ = self.call(5, _string(path) + _string(data) + struct.pack(">i", -1))
        if error:
            raise Refused(f"error {error}")
        return zxid

    def get(self, path):
        """(data, version, mzxid)"""
        zxid, error, rest = self.call(4, _string(path) + b"\0")
        if error:
            raise Refused(f"error {error}")
        end = 4 + max(0, struct.unpack_from(">i", rest)[0])
        _, mzxid, _, _, version = struct.unpack_from(">qqqqi", rest, end)
        return rest[4:end], version, mzxid

    def children(self, path):
        """(their names, version of the node)"""
        _, error, rest = self.call(12, _string(path) + b"\0")
        if error:
            raise Refused(f"error {error}")
        names, at = [], 4
        for _ in range(struct.unpack_from(">i", rest)[0]):
            length = struct.unpack_from(">i", rest, at)[0]
            names.append(rest[at + 4:at + 4 + length].decode())
            at += 4 + length
        return names, struct.unpack_from(">qqqqi", rest, at)[4]

    def sync(self, path):
        """Returns when the server has what was committed before."""
        _, error, _ = self.call(9, _string(path))
        if error:
            raise Refused(f"error {error}")

    def close(self):
        try:
            self.call(-11, b"")
        except Refused:
            pass
        self.socket.close()

    def drop(self):
        self.socket.close()


def ask(port, word, timeout=1.0):
    """The answer to a four letter word, '' if no server answers."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout) as s:
            s.sendall(word.encode())
            parts = []
            while True:
                part = s.recv(65536)
                if not part:
                    return b"".join(parts).decode(errors="replace")
                parts.append(part)
    except OSError:
        return ""
