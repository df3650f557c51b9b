"""Reads a session of the protocol of modes, as lines of hexadecimal bytes, and checks each frame: formats/modes.md, with Python's HMAC."""
import hashlib
import hmac
import struct
import sys

KEY, NAME, AGENT, MANAGER = bytes([7] * 32), b"vm-a", bytes([0x11] * 16), bytes([0x22] * 16)
TRANSCRIPT = bytes([len(NAME)]) + NAME + AGENT + MANAGER


def mac(key, *parts):
    return hmac.new(key, b"".join(parts), hashlib.sha256).digest()


def frame(body):
    return struct.pack(">H", len(body)) + body


def sealed(who, number, body):
    key = mac(KEY, b"giusto modes 1 key of ", who, TRANSCRIPT)
    return frame(body + mac(key, struct.pack(">Q", number), body))


name = "notfall-é".encode()
expected = [
    (b"agent", frame(b"\x10\x01" + AGENT + NAME)),
    (b"manager", frame(b"\x11\x01" + MANAGER + mac(KEY, b"giusto modes 1 manager", TRANSCRIPT))),
    (b"agent", frame(b"\x12\x01" + mac(KEY, b"giusto modes 1 agent", TRANSCRIPT))),
]
says = {
    b"agent": [
        struct.pack(">BHQQ", 1, 2, 5, 0x0123456789ABCDEF),
        struct.pack(">BHQQ", 1, 0xFFFF, 5, 1),
        struct.pack(">BQHQQ", 2, 6, 3, 1000, 2000),
        struct.pack(">BQ", 3, 7),
        struct.pack(">BIB", 4, 9, len(name)) + name,
    ],
    b"manager": [struct.pack(">BQH", 1, 6, 3), struct.pack(">BIB", 2, 9, 3)],
}
for who, bodies in says.items():
    expected += [(who, sealed(who, number, body)) for number, body in enumerate(bodies)]

lines = sys.stdin.read().splitlines()
for line, (who, frame_bytes) in zip(lines, expected, strict=True):
    if line != f"{who.decode()} {frame_bytes.hex()}":
        sys.exit(f"expected {who.decode()} {frame_bytes.hex()}\n     got {line}")
print(f"{len(lines)} frames")
