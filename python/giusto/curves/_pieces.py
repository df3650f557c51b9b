"""Pieces of curves, and the lowest of them: exact, on fractions."""

from __future__ import annotations

from fractions import Fraction
from typing import Iterable, List, NamedTuple, Optional, Sequence, Tuple


class Piece(NamedTuple):
    """On [start, end) the value rises from ``value`` by ``slope``; ``end`` of ``None``: for ever. At ``start`` itself the value
    is that of the piece (curves are continuous from the right)."""

    start: Fraction
    end: Optional[Fraction]
    value: Fraction
    slope: Fraction

    def at(self, t: Fraction) -> Fraction:
        """The value at ``t``, continued beyond the ends."""
        return self.value + self.slope * (t - self.start)

    def moved(self, t: Fraction, value: Fraction) -> Piece:
        """So much later and higher."""
        return Piece(self.start + t, None if self.end is None else self.end + t, self.value + value, self.slope)


def cut(pieces: Sequence[Piece]) -> List[Tuple[Fraction, Optional[Fraction]]]:
    """The stretches between all ends of the pieces."""
    order = sorted({piece.start for piece in pieces} | {piece.end for piece in pieces if piece.end is not None})
    return list(zip(order, [*order[1:], None]))


def lowest(pieces: Sequence[Piece], sign: int = 1) -> List[Piece]:
    """The least of all pieces at each time that one covers (with ``sign`` -1 the greatest). O(n² log n)."""
    found: List[Piece] = []
    for start, end in cut(pieces):
        here = [piece for piece in pieces if piece.start <= start and (piece.end is None or start < piece.end)]
        found.extend(_within(here, start, end, sign))
    return joined(found)


def _within(lines: Sequence[Piece], start: Fraction, end: Optional[Fraction], sign: int) -> List[Piece]:
    """The least of lines that all cover [start, end)."""
    found: List[Piece] = []
    at = start
    while lines and (end is None or at < end):
        best = min(lines, key=lambda line: (sign * line.at(at), sign * line.slope))
        crossings = [
            at + (line.at(at) - best.at(at)) / (best.slope - line.slope)
            for line in lines
            if sign * line.slope < sign * best.slope
        ]
        until = min(crossings, default=None)
        if until is None or (end is not None and until >= end):
            until = end
        found.append(Piece(at, until, best.at(at), best.slope))
        if until is None:
            break
        at = until
    return found


def joined(pieces: Iterable[Piece]) -> List[Piece]:
    """Pieces that continue the one before them become one with it."""
    found: List[Piece] = []
    for piece in pieces:
        before = found[-1] if found else None
        if (
            before is not None
            and before.end == piece.start
            and before.slope == piece.slope
            and before.at(piece.start) == piece.value
        ):
            found[-1] = before._replace(end=piece.end)
        else:
            found.append(piece)
    return found


def convolved(a: Piece, b: Piece) -> List[Piece]:
    """inf over s of a(s) + b(t - s): first along the flatter one, then along the steeper one."""
    first, second = (a, b) if a.slope <= b.slope else (b, a)
    start, value = a.start + b.start, a.value + b.value
    if first.end is None:
        return [Piece(start, None, value, first.slope)]
    turn = start + (first.end - first.start)
    end = None if second.end is None else turn + (second.end - second.start)
    return [Piece(start, turn, value, first.slope), Piece(turn, end, value + first.slope * (turn - start), second.slope)]
