"""Jobs of a simulation: an array of records, without a copy."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Optional, Union

from ._errors import InputError
from ._giusto import JobRecords, SliceRecords

if TYPE_CHECKING:
    import numpy
    import pandas
    import polars


class _Records:
    """Records in memory that NumPy reads in place."""

    _data: Union[JobRecords, SliceRecords]

    @property
    def array(self) -> "numpy.ndarray[Any, Any]":
        """All of them as a structured array of NumPy, read only, in place: no copy is made."""
        import numpy

        found: "numpy.ndarray[Any, Any]" = numpy.asarray(self._data)
        return found

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> "numpy.ndarray[Any, Any]":
        import numpy

        array = self.array
        if dtype is not None and numpy.dtype(dtype) != array.dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, key: Any) -> Any:
        return self.array[key]

    def to_pandas(self) -> "pandas.DataFrame":
        """A table of pandas."""
        import pandas

        return pandas.DataFrame(self.array)

    def to_polars(self) -> "polars.DataFrame":
        """A table of Polars (1.3 or newer)."""
        import polars

        return polars.DataFrame(self)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Arrow's PyCapsule interface: what reads Arrow (pyarrow, Polars, DuckDB, pandas) takes the records as a table.

        NumPy reads records in place; a column of Arrow is in one piece, so it is copied once, a batch at a time."""
        return self._data.__arrow_c_stream__(requested_schema)


class Slices(_Records):
    """A schedule: ``server`` ran a ``job`` of ``task`` from ``from_ns`` to ``to_ns``; task -1: it has no tasks and is always
    ready. A job has one slice more than it was preempted, in the order of their begins where there is one core."""

    def __init__(self, data: SliceRecords) -> None:
        self._data = data

    def __repr__(self) -> str:
        return f"<{len(self)} slices>"


class Jobs(_Records):
    """Jobs: ``server``, ``task`` (copies counted one by one), ``job`` (from 0 for each task), ``due_ns`` (when it should have
    come, which is not its deadline), ``release_ns`` (when it came) and ``finish_ns`` (-1: it never ended), in the order of their
    ends. ``slices`` is the schedule, where it was asked for."""

    def __init__(self, data: JobRecords, slices: Optional[Slices] = None) -> None:
        self._data = data
        self.slices = slices

    @property
    def response_ns(self) -> "numpy.ndarray[Any, Any]":
        """Response times of those that ended, in ns."""
        array = self.array
        ended = array["finish_ns"] >= 0
        return array["finish_ns"][ended] - array["release_ns"][ended]  # type: ignore[no-any-return]

    def of(self, *, task: Optional[int] = None, server: Optional[int] = None) -> "numpy.ndarray[Any, Any]":
        """The records of one task or server."""
        array = self.array
        if server is not None:
            array = array[array["server"] == server]
        if task is not None:
            array = array[array["task"] == task]
        return array

    def percentile(self, p: float) -> int:
        """The percentile ``p`` (in percent, from 0 to 100) of response times in ns, by nearest rank: exact."""
        import numpy

        if isinstance(p, str) or not 0 <= p <= 100:
            raise InputError(f"expected a percentile as a number from 0 to 100, such as 99.9, not {p!r}")
        times = self.response_ns
        if not len(times):
            raise InputError("no job has ended; simulate longer")
        # As it is written: 1.1 is eleven tenths, not the nearest number of floating point.
        rank = max(1, math.ceil(len(times) * Fraction(str(p)) / 100))
        return int(numpy.partition(times, rank - 1)[rank - 1])

    def __repr__(self) -> str:
        return f"<{len(self)} jobs>"
