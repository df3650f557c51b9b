"""How far a long question is, told to the caller."""

from __future__ import annotations

from typing import Any, Callable, Optional, Union

Progress = Union[bool, Callable[[int, int], None]]
"""``True`` for a bar (of tqdm, if it is there), or a function of how many are done and how many there are."""


class Bar:
    """Tells it; ``call`` is what the native part calls with how many are done, ``None`` where it is not asked for."""

    def __init__(self, progress: Progress, total: int) -> None:
        self.call: Optional[Callable[[int], None]] = None
        self._bar: Any = None
        if callable(progress):
            self.call = lambda done: progress(done, total)
        elif progress:
            try:
                from tqdm.auto import tqdm
            except ImportError:
                return
            self._bar = tqdm(total=total)
            self.call = self._tell

    def _tell(self, done: int) -> None:
        self._bar.update(done - self._bar.n)

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()
