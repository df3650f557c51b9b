"""One question, or one that :func:`giusto.analyze.each` collects."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, List, Optional, Tuple, Type, TypeVar, cast

from .._answer import Answer
from .._giusto import Question, answer
from ._progress import Bar, Progress

A = TypeVar("A", bound=Answer)

collected: ContextVar[Optional[List[Tuple[Any, Type[Answer]]]]] = ContextVar("collected", default=None)
"""Where questions go instead of being answered."""


def ask(question: Question, of: Type[A], progress: Progress = False) -> A:
    """The answer, now; where questions are collected, nothing."""
    waiting = collected.get()
    if waiting is None:
        with Bar(progress, question.parts) as bar:
            return of._read(answer(question, bar.call))
    waiting.append((question, of))
    return cast(A, None)
