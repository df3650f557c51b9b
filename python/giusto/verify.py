"""Was the promise kept? Distributions of response times, how far they are apart, and what a plan proves.

Response times are whole ns, in order of arrival, -1 for a job that never ended: a list, an array, or :class:`giusto.Jobs`. An
array of 64-bit integers is taken in one piece.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence, Union

from . import _giusto
from ._answer import Answer
from ._errors import DoesNotFit, InputError, unreadable
from ._jobs import Jobs
from ._plan import Plan
from ._words import some

if TYPE_CHECKING:
    import numpy

__all__ = ["Claim", "Judgement", "check", "claims", "compare", "kept", "kolmogorov_smirnov", "wasserstein"]

PathLike = Union[str, "os.PathLike[str]"]
Times = Union[Jobs, Sequence[int], "numpy.ndarray[Any, Any]"]


def _times(of: Times) -> Any:
    if not isinstance(of, Jobs):
        return of
    import numpy

    array = of.array
    return numpy.where(array["finish_ns"] >= 0, array["finish_ns"] - array["release_ns"], -1)


def wasserstein(first: Times, second: Times) -> float:
    """The area between both distribution functions in ns [LiH21, § 3.4]; infinite if the shares of jobs that never ended differ.
    O(n log n).

    >>> wasserstein([1000, 2000], [1000, 3000])
    500.0
    """
    return _giusto.wasserstein(_times(first), _times(second))


def kolmogorov_smirnov(first: Times, second: Times) -> float:
    """The greatest distance between both distribution functions, from 0 to 1. O(n log n).

    >>> kolmogorov_smirnov([1000, 2000], [1000, 3000])
    0.5
    """
    return _giusto.kolmogorov_smirnov(_times(first), _times(second))


def compare(first: Times, second: Times, *, seed: int = 1) -> Dict[str, Any]:
    """Two runs beside each other, as ``giusto verify`` has them: percentiles with 95 % intervals and their distance (blocks of
    neighbouring requests drawn anew, with this ``seed``).

    >>> sorted(compare([1000] * 50, [1000] * 50))[:2]
    ['a', 'b']
    """
    found: Dict[str, Any] = json.loads(_giusto.compare_two(_times(first), _times(second), seed))
    return found


def kept(promise: Any, *runs: Times) -> Dict[str, Any]:
    """Whether percentiles were kept, of runs pooled: ``verdict`` is ``"kept"``, ``"missed"`` or ``"cannot-tell"``.

    ``promise``: ``"p90=30ms"`` or ``(90, "30ms")``, or a list of such.

    >>> kept("p90=30ms", [10_000_000 + nth * 7919 % 1000 for nth in range(3000)])["verdict"]
    'kept'
    """
    found: Dict[str, Any] = json.loads(_giusto.kept(some(promise), [_times(run) for run in runs]))
    return found


def check(plan: Plan) -> Dict[str, List[Any]]:
    """Proves the certificates of a plan by other means than the planner's, as ``giusto check --certificate`` does.

    Raises :class:`giusto.DoesNotFit` for the first that does not hold.
    """
    if not isinstance(plan, Plan):
        raise InputError(f"{plan!r:.60} is no plan; expected a giusto.Plan, such as giusto.plan(site) or Plan.read(path)")
    text, broken = _giusto.check_plan(plan._data)
    if broken is not None:
        raise DoesNotFit(broken)
    found: Dict[str, List[Any]] = json.loads(text)
    return found


class Judgement(Answer):
    """What was found in one case: ``finding`` is ``"holds"``, ``"fails"`` or ``"cannot-tell"``, for the ``estimate`` of ``of``
    with its interval over so many ``sets``."""

    case: str
    of: str
    sets: int
    estimate: Dict[str, Any]
    interval: str
    finding: str


class Claim(Answer):
    """A claim of a study, and what was found of it; ``differs``: why it is known to be otherwise than in its ``source``. True
    where it holds in all cases."""

    says: str
    source: str
    differs: Optional[str]
    judgements: List[Judgement]

    def __bool__(self) -> bool:
        return all(judgement.finding == "holds" for judgement in self.judgements)


def claims(study: PathLike, tables: Union[PathLike, Mapping[str, str]]) -> List[Claim]:
    """The claims of a study (``studies/NAME/study.toml``; studies/README.md has its form), judged as ``giusto study run`` does.

    ``tables``: the folder that it wrote (``out/NAME``), or the text of each table by its name: comma-separated values.
    """
    if not isinstance(tables, Mapping):
        tables = {path.stem: path.read_text(encoding="utf-8") for path in Path(tables).glob("*.csv")}
    try:
        text = Path(study).read_text(encoding="utf-8")
    except OSError as error:
        raise unreadable(os.fspath(study), error) from None
    found = _giusto.judge_claims(text, dict(tables))
    return [Claim(claim) for claim in json.loads(found)]
