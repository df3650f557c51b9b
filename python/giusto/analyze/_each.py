"""One calculator, many questions, on all processors."""

from __future__ import annotations

import itertools
import json
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Type, Union, cast

from .._answer import Answer
from .._errors import Error, InputError
from .._giusto import answers
from ._ask import collected
from ._progress import Bar, Progress

if TYPE_CHECKING:
    import numpy
    import pandas


class Sweep(Sequence[Optional[Answer]]):
    """The answers to many questions, in the order of their combinations; ``None`` where there is none.

    ``axes`` are the names and values that were combined, ``shape`` how many there are of each (all of one length: zipped).
    ``errors`` has the exception of each combination without an answer, by its place.
    """

    def __init__(
        self, axes: Mapping[str, List[Any]], zipped: bool, found: List[Optional[Answer]], errors: Dict[int, Error]
    ) -> None:
        self.axes = dict(axes)
        self.errors = errors
        self._zipped = zipped
        self._found = found

    @property
    def shape(self) -> Tuple[int, ...]:
        """As an array of NumPy has it."""
        return (len(self._found),) if self._zipped else tuple(len(values) for values in self.axes.values())

    def __len__(self) -> int:
        return len(self._found)

    def __getitem__(self, place: Any) -> Any:
        return self._found[place]

    def __iter__(self) -> Iterator[Optional[Answer]]:
        return iter(self._found)

    def points(self) -> Iterator[Dict[str, Any]]:
        """The combinations, in the order of the answers."""
        combined = zip(*self.axes.values()) if self._zipped else itertools.product(*self.axes.values())
        return (dict(zip(self.axes, values)) for values in combined)

    def values(self, of: Union[str, Callable[[Any], Any]]) -> List[Any]:
        """An attribute of each answer, by its name or by a function of the answer; ``None`` where there is no answer."""

        def look(answer: Any) -> Any:
            return getattr(answer, of) if isinstance(of, str) else of(answer)

        return [None if answer is None else look(answer) for answer in self._found]

    def array(self, of: Union[str, Callable[[Any], Any]]) -> "numpy.ndarray[Any, Any]":
        """The same as an array of the sweep's shape: floating point, NaN where there is no answer."""
        import numpy

        numbers = [float("nan") if value is None else float(value) for value in self.values(of)]
        found: "numpy.ndarray[Any, Any]" = numpy.array(numbers).reshape(self.shape)
        return found

    def to_pandas(self, *of: str) -> "pandas.DataFrame":
        """A table: the combinations, and these attributes of their answers (all numbers when none is named)."""
        import pandas

        table: Dict[str, List[Any]] = {name: [point[name] for point in self.points()] for name in self.axes}
        names = list(of)
        first = next((answer for answer in self._found if answer is not None), None)
        if not names and first is not None:
            numbers = (int, float, Fraction)
            names = [name for name in type(first).__annotations__ if isinstance(getattr(first, name), numbers)]
        for name in names:
            key = name if name not in table else f"answer_{name}"
            table[key] = [float(value) if isinstance(value, Fraction) else value for value in self.values(name)]
        return pandas.DataFrame(table)

    def __repr__(self) -> str:
        return f"Sweep({' x '.join(map(str, self.shape))} of {', '.join(self.axes)}; {len(self.errors)} without an answer)"


def _values(name: str, values: Any) -> List[Any]:
    if isinstance(values, str) or not hasattr(values, "__iter__"):
        raise InputError(f"{values!r} is one value; expected several for {name!r}, as a list, and one that is fixed by its name")
    return values.tolist() if hasattr(values, "tolist") else list(values)


def each(
    calculator: Callable[..., Any],
    over: Mapping[str, Any],
    *,
    zipped: bool = False,
    threads: int = 0,
    progress: Progress = False,
    strict: bool = False,
    **fixed: Any,
) -> Sweep:
    """Asks ``calculator`` for all combinations of the values ``over`` names of its arguments, in parallel without the GIL.

    ``zipped``: the first values together, the second together, and so on, instead of all combinations. ``threads``: 0 for all
    processors. ``progress``: ``True`` for a bar (of tqdm, if it is there), or a function of how many are done and how many there
    are. What makes no sense raises at once; what has no answer is ``None`` in the result, and its exception in ``errors``; with
    ``strict`` the first such exception is raised.

    >>> import giusto.analyze as analyze
    >>> found = each(analyze.interface, {"period": ["3ms", "4ms"], "scheduler": ["rm", "edf"]}, tasks=["2ms/7ms", "1ms/8ms"])
    >>> found.shape, found.values("budget_ns")
    ((2, 2), [1700000, 1500000, 2700000, 2400000])
    """
    axes = {name: _values(name, values) for name, values in over.items()}
    if zipped and len({len(values) for values in axes.values()}) > 1:
        raise InputError("values that are zipped must be as many of each name")
    combined = zip(*axes.values()) if zipped else itertools.product(*axes.values())
    waiting: List[Tuple[Any, Type[Answer]]] = []
    token = collected.set(waiting)
    try:
        for values in combined:
            asked = len(waiting)
            calculator(**fixed, **dict(zip(axes, values)))
            if len(waiting) != asked + 1:
                raise InputError("expected a calculator of giusto.analyze, which asks one question")
    finally:
        collected.reset(token)
    with Bar(progress, len(waiting)) as bar:
        texts = answers([question for question, _ in waiting], threads, bar.call)
    found: List[Optional[Answer]] = []
    errors: Dict[int, Error] = {}
    for place, (text, (_, of)) in enumerate(zip(texts, waiting)):
        if isinstance(text, Error):
            if strict:
                raise text
            errors[place] = text
            found.append(None)
        else:
            found.append(of(json.loads(cast(str, text))))
    return Sweep(axes, zipped, found, errors)
