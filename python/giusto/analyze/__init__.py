"""One function a calculator: what ``giusto analyze`` has, with the same numbers to the bit.

Each takes times as whole ns or as texts (``"2ms"``), shares of a core as :class:`fractions.Fraction` or texts (``"5%"``), and
returns an object whose attributes have the names of the command line's JSON. What cannot fit raises
:class:`giusto.DoesNotFit` with its witness, what makes no sense :class:`giusto.InputError`.

>>> import giusto
>>> giusto.analyze.interface(["2ms/7ms", "1ms/8ms", "1ms/10ms"], "rm", quantum="1ms").bandwidth
Fraction(2, 3)

:func:`each` asks one calculator for many combinations of arguments at once, in parallel.
"""

from ._compositional import (
    Admission,
    Certificate,
    Given,
    Interface,
    Limit,
    Piece,
    Plane,
    Point,
    Server,
    Shortfall,
    Vcpus,
    admission,
    given,
    interface,
    plane,
    vcpus,
)
from ._criticality import Criticality, Interval, Utilizations, Vm, criticality
from ._each import Sweep, each
from ._messages import (
    Bucket,
    Hop,
    OnPath,
    Packets,
    Part,
    Path,
    Processed,
    Recorded,
    Recovery,
    Wait,
    bucket,
    packets,
    path,
    recovery,
    trace,
)
from ._random import At, Choice, Map, Quantile, Response, Sampled, Slo, map, response, slo
from ._share import CurvePoint, Hold, InPractice, Shared, share

__all__ = [
    "Admission",
    "At",
    "Bucket",
    "Certificate",
    "Choice",
    "Criticality",
    "CurvePoint",
    "Given",
    "Hold",
    "Hop",
    "InPractice",
    "Interface",
    "Interval",
    "Limit",
    "Map",
    "OnPath",
    "Packets",
    "Part",
    "Path",
    "Piece",
    "Plane",
    "Point",
    "Processed",
    "Quantile",
    "Recorded",
    "Recovery",
    "Response",
    "Sampled",
    "Server",
    "Shared",
    "Shortfall",
    "Slo",
    "Sweep",
    "Utilizations",
    "Vcpus",
    "Vm",
    "Wait",
    "admission",
    "bucket",
    "criticality",
    "each",
    "given",
    "interface",
    "map",
    "packets",
    "path",
    "plane",
    "recovery",
    "response",
    "share",
    "slo",
    "trace",
    "vcpus",
]
