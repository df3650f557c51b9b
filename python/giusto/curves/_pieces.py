"""Pieces of curves, and the lowest of them: exact, on fractions."""

from __future__ import annotations

from fractions import Fraction
from typing import Iterable, Iterator, List, NamedTuple, Optional, Sequence, cast


class Piece(NamedTuple):
    """On [start, end) the value rises from ``value`` by ``slope``; ``end`` of ``None``: for ever. At ``start`` itself the value
    is that of the piece (curves are continuous from the right)."""

    start: Fraction
    end: Optional[Fraction]
    value: Fraction
    slope: Fraction

    def at(self, t: Fraction) -> Fraction:
        """The value at ``t``, continued beyond the ends."""
        if self.slope == 0 or t == self.start:
            return self.value
        return self.value + self.slope * (t - self.start)

    def moved(self, t: Fraction, value: Fraction) -> Piece:
        """So much later and higher."""
        return Piece(self.start + t, None if self.end is None else self.end + t, self.value + value, self.slope)


def lowest(pieces: Sequence[Piece], sign: int = 1) -> List[Piece]:
    """The least of all pieces at each time that one covers (with ``sign`` -1 the greatest): of both halves, then of these.
    O(n log n) for n pieces whose least is of few, as where most are far above it."""
    rounds = [[_plain(piece, sign)] for piece in pieces]
    while len(rounds) > 1:
        pairs = zip(rounds[::2], [*rounds[1::2], []])
        rounds = [joined(_lower(a, b)) if b else a for a, b in pairs]
    return [_exact(piece, sign) for piece in rounds[0]] if rounds else []


def _whole(number: Fraction) -> Fraction:
    # As an integer of Python's where it is one, which is ten times as fast; typed as what it stands for.
    return cast(Fraction, number.numerator) if number.denominator == 1 else number


def _plain(piece: Piece, sign: int) -> Piece:
    end = None if piece.end is None else _whole(piece.end)
    return Piece(_whole(piece.start), end, _whole(sign * piece.value), _whole(sign * piece.slope))


def _exact(piece: Piece, sign: int) -> Piece:
    end = None if piece.end is None else Fraction(piece.end)
    return Piece(Fraction(piece.start), end, sign * Fraction(piece.value), sign * Fraction(piece.slope))


def _lower(a: Sequence[Piece], b: Sequence[Piece]) -> Iterator[Piece]:
    """The lower of two, each of pieces in order that do not overlap; where one alone is, that."""
    nth, other = 0, 0
    at = min(a[0].start, b[0].start)
    while nth < len(a) or other < len(b):
        one = a[nth] if nth < len(a) else None
        two = b[other] if other < len(b) else None
        # Up to the next begin or end of either.
        ends = [each.start if at < each.start else each.end for each in (one, two) if each is not None]
        end = min((each for each in ends if each is not None), default=None)
        first = one if one is not None and one.start <= at else None
        second = two if two is not None and two.start <= at else None
        if first is not None and second is not None:
            yield from _below(first, second, at, end)
        else:
            alone = first or second
            if alone is not None:
                yield Piece(at, end, alone.at(at), alone.slope)
        if end is None:
            return
        at = end
        nth += one is not None and one.end == at
        other += two is not None and two.end == at


def _below(a: Piece, b: Piece, start: Fraction, end: Optional[Fraction]) -> List[Piece]:
    """The lower of two lines on [start, end)."""
    p, q = a.at(start), b.at(start)
    if (q, b.slope) < (p, a.slope):
        a, b, p, q = b, a, q, p
    if b.slope < a.slope:
        turn = _whole(start + Fraction(q - p) / (a.slope - b.slope))
        if end is None or turn < end:
            return [Piece(start, turn, p, a.slope), Piece(turn, end, _whole(b.at(turn)), b.slope)]
    return [Piece(start, end, p, a.slope)]


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
