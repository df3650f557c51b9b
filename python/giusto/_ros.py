"""Tables of ROS 2: what CARET and tracetools write as comma-separated values (``to_csv`` of their tables)."""

from __future__ import annotations

import csv
import os
import re
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, NamedTuple, Tuple, Union

from . import _giusto
from ._errors import InputError, unreadable
from ._jobs import Jobs

if TYPE_CHECKING:
    import numpy

PathLike = Union[str, "os.PathLike[str]"]

_DURATION = re.compile(r"(\d+) days? (\d+):(\d\d):(\d\d)(?:\.(\d{1,9}))?")
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?")


class Caret(NamedTuple):
    """Messages over a path, or calls of a callback: ``jobs`` from the first column to the last, and when each was at each of
    the ``columns``, in ns (-1: not at all)."""

    jobs: Jobs
    columns: List[str]
    at_ns: "numpy.ndarray[Any, Any]"


class _Row(NamedTuple):
    file: str
    line: int
    cells: Dict[str, str]

    def bad(self, column: str, expected: str) -> InputError:
        why = f"{column!r} is {self.cells[column]!r}; expected {expected}"
        return InputError(f"{self.file}:{self.line}: {why}", file=self.file, line=self.line)


def _rows(path: PathLike) -> Iterator[_Row]:
    file = os.fspath(path)
    try:
        source = open(file, newline="", encoding="utf-8")  # noqa: SIM115
    except OSError as error:
        raise unreadable(file, error) from None
    with source:
        reader = csv.reader(source)
        columns = next(reader, [])
        for cells in reader:
            if len(cells) != len(columns):
                why = f"{len(cells)} fields; expected {len(columns)}, one for each column"
                raise InputError(f"{file}:{reader.line_num}: {why}", file=file, line=reader.line_num)
            yield _Row(file, reader.line_num, dict(zip(columns, cells)))


def caret(path: PathLike) -> Caret:
    """The table of a path or a callback of CARET, whose columns ``.../..._timestamp`` are in ns: a message a row. One that was
    lost on its way has no time at the last column and never ended."""
    import numpy

    table: List[List[int]] = []
    columns: List[str] = []
    for row in _rows(path):
        columns = columns or [name for name in row.cells if re.search(r"_timestamp(/\d+)?$", name)]
        table.append([_stamp(row, name, nth == 0) for nth, name in enumerate(columns)])
    if len(columns) < 2:
        file = os.fspath(path)
        raise InputError(f"{file}:1: expected two columns '..._timestamp' or more, and a row", file=file, line=1)
    at = numpy.array(table, dtype=numpy.int64)
    return Caret(Jobs(_giusto.job_records(at[:, 0].copy(), at[:, -1].copy())), columns, at)


def _stamp(row: _Row, column: str, is_first: bool) -> int:
    text = row.cells[column]
    if text in ("", "<NA>", "nan") and not is_first:
        return -1
    # A column with gaps is one of floating point to pandas.
    match = re.fullmatch(r"(\d+)(?:\.0)?", text)
    if match is None:
        raise row.bad(column, "a whole number of ns")
    return int(match[1])


def tracetools(path: PathLike) -> Dict[int, Jobs]:
    """The calls of each callback in the table ``callback_instances`` of tracetools_analysis: each from its start to its end."""
    calls: Dict[int, Tuple[List[int], List[int]]] = {}
    row = None
    for row in _rows(path):
        for column in ("callback_object", "timestamp", "duration"):
            if column not in row.cells:
                raise InputError(f"{row.file}:1: there is no column {column!r}", file=row.file, line=1)
        if not row.cells["callback_object"].isdigit():
            raise row.bad("callback_object", "a number")
        start, end = calls.setdefault(int(row.cells["callback_object"]), ([], []))
        begin = _time(row, "timestamp", _DATE)
        start.append(begin)
        end.append(begin + _time(row, "duration", _DURATION))
    if row is None:
        file = os.fspath(path)
        raise InputError(f"{file}:1: there is no call; expected the table callback_instances, with a row", file=file, line=1)
    return {callback: Jobs(_giusto.job_records(start, end)) for callback, (start, end) in calls.items()}


def _time(row: _Row, column: str, form: "re.Pattern[str]") -> int:
    """As pandas writes it, or in ns."""
    text = row.cells[column]
    match = form.fullmatch(text)
    if text.isdigit():
        return int(text)
    if match is None:
        raise row.bad(column, "a time as pandas writes it, or ns")
    *whole, part = match.groups()
    if form is _DURATION:
        days, hours, minutes, seconds = map(int, whole)
    else:
        from datetime import date

        year, month, day, hours, minutes, seconds = map(int, whole)
        try:
            days = (date(year, month, day) - date(1970, 1, 1)).days
        except ValueError:
            raise row.bad(column, "a date that there is") from None
    ns = int((part or "").ljust(9, "0"))
    return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1_000_000_000 + ns
