"""Curves: supply and demand of tasks, arrival and service of messages, with the operations of network calculus.

A :class:`Curve` gives for each length of a window (in ns) how much comes or is served in it. It is a line in pieces, exact
(:class:`fractions.Fraction`), and continues for ever with its last piece. ``+``, ``-``, ``min``, ``max``, ``a @ b`` (min-plus
convolution, ⊗), ``a / b`` (deconvolution, ⊘), :meth:`Curve.delay` and :meth:`Curve.backlog`:

>>> alpha, beta = bucket("1000/s", 4), service("2000/s", "3ms")
>>> alpha.delay(beta), alpha.backlog(beta)
(Fraction(5000000, 1), Fraction(7, 1))
>>> (alpha / beta)(0)
Fraction(7, 1)

:func:`sbf`, :func:`dbf` and :func:`rbf` are those of compositional analysis, in ns of work.
"""

from __future__ import annotations

from ._curve import Curve, bucket, constant, line, periodic, service
from ._tasks import dbf, linear, rbf, sbf

__all__ = ["Curve", "bucket", "constant", "dbf", "line", "linear", "periodic", "rbf", "sbf", "service"]
