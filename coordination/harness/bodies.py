"""Bodies of clients' requests that end too soon, or lack what stock's readers take to be there: texts and vectors of length -1."""
import struct

# create, delete, setData, setACL, check, multi, create2, reconfig, createContainer, deleteContainer, createTTL
WRITES = (1, 2, 5, 7, 13, 14, 15, 16, 19, 20, 21)
CREATES = {1: 0, 15: 0, 19: 4, 21: 5}
MULTI = 14
SHORT = (b"", b"\0\0", b"\0\0\0\2/x", b"\x7f\xff\xff\xff")
NOTHING = struct.pack(">i", -1)
END = struct.pack(">i?i", -1, True, -1)


def text(value):
    return NOTHING if value is None else struct.pack(">i", len(value)) + value.encode()


def acl(scheme, identity):
    return struct.pack(">ii", 1, 31) + text(scheme) + text(identity)


# No vector, two of negative length, one that is longer than what follows; entries without a scheme, without an identity.
ACLS = (NOTHING, struct.pack(">i", -2), struct.pack(">i", -2 ** 31), struct.pack(">i", 2 ** 31 - 1), acl(None, "anyone"), acl("world", None),
        acl("auth", None), acl("digest", None))


def lacking():
    """(type, body) of writes that have all their bytes, but no path, no ACL or no operation that may be there."""
    for kind, flags in CREATES.items():
        end = struct.pack(">i", flags) + (struct.pack(">q", 1000) if kind == 21 else b"")
        yield kind, text(None) + NOTHING + acl("world", "anyone") + end
        yield from ((kind, text("/lacking") + NOTHING + a + end) for a in ACLS)
    yield from ((7, text("/serves") + a + NOTHING) for a in ACLS)
    yield from ((kind, text(None) + NOTHING) for kind in (2, 7, 13))
    yield 5, text(None) + NOTHING + NOTHING
    yield 20, NOTHING
    yield 16, NOTHING * 3 + struct.pack(">q", -1)


def inside(kind, body):
    """The same as an operation of a multi."""
    return struct.pack(">i?i", kind, False, -1) + body + END


def refused():
    """(type, body) of writes that a server must refuse."""
    yield from ((kind, body) for kind in WRITES for body in SHORT)
    for kind, body in lacking():
        yield kind, body
        yield MULTI, inside(kind, body)
    # A multi in a multi, with an operation in it and without.
    yield MULTI, inside(MULTI, END)
    yield MULTI, inside(MULTI, inside(2, text("/serves") + NOTHING))


def odd():
    """(type, body) of requests that write nothing, which a server may answer as it likes."""
    # exists, getData, getACL, getChildren, sync, getChildren2, checkWatches, removeWatches, getEphemerals, getAllChildrenNumber, addWatch
    yield from ((kind, NOTHING + b"\0" * 4) for kind in (3, 4, 6, 8, 9, 12, 17, 18, 103, 104, 106))
    # multiRead; auth and sasl; setWatches and setWatches2
    yield 22, inside(4, NOTHING + b"\0")
    yield from ((100, b"\0" * 4 + text(scheme) + NOTHING) for scheme in (None, "digest", "ip", "x509", "sasl", "none"))
    yield from ((102, body) for body in (NOTHING, b"\0" * 4, b""))
    yield from ((kind, b"\0" * 8 + vector * 5) for kind in (101, 105) for vector in (NOTHING, ACLS[1], ACLS[3], struct.pack(">ii", 1, -1)))
    # createSession, error, notification, and none at all
    yield from ((kind, body) for kind in (-10, -1, 0, 999) for body in (b"", NOTHING))
