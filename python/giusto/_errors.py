"""What is raised. Every exception says in its text what was expected; the rest are attributes."""

from __future__ import annotations

import json
from typing import Any, Dict, Optional


class Error(Exception):
    """All exceptions of Giusto.

    ``file``, ``line`` and ``column`` (both from 1) say where in a site it is, where that is known; else they are ``None``.
    """

    def __init__(
        self, text: str, *, file: Optional[str] = None, line: Optional[int] = None, column: Optional[int] = None
    ) -> None:
        super().__init__(text)
        self.file = file
        self.line = line
        self.column = column


class InputError(Error, ValueError):
    """What was given makes no sense (exit code 2 of the command line)."""


class SiteError(InputError):
    """A site makes no sense, at ``line`` and ``column`` of ``file``."""


class DoesNotFit(Error):
    """What was asked for cannot fit (exit code 1).

    ``witness`` holds the numbers that show it, as the command line's JSON has them; ``None`` where the text says all.
    """

    def __init__(
        self,
        text: str,
        *,
        witness: Optional[str] = None,
        file: Optional[str] = None,
        line: Optional[int] = None,
        column: Optional[int] = None,
    ) -> None:
        super().__init__(text, file=file, line=line, column=column)
        self.witness: Optional[Dict[str, Any]] = None if witness is None else json.loads(witness)


class Refusal(DoesNotFit):
    """The planner refuses a site: which service, why, and what would fit (``formats/refusal.schema.json``)."""

    @property
    def service(self) -> Optional[str]:
        """The service that does not fit, where it is one."""
        return (self.witness or {}).get("service")

    @property
    def cause(self) -> Optional[str]:
        """What it lacks, in words."""
        return (self.witness or {}).get("cause")

    @property
    def nearest(self) -> "list[dict[str, Any]]":
        """Changes of the site with which it fits, each by itself: ``change`` in words, ``key``, and ``place`` in the file."""
        found: "list[dict[str, Any]]" = (self.witness or {}).get("nearest", [])
        return found


def unreadable(file: str, error: OSError) -> InputError:
    """A file that cannot be read, as the rest of Giusto says it."""
    return InputError(f"{file}: {error.strerror or error}", file=file)


class LacksError(Error):
    """The machine lacks something that the site needs (exit code 3)."""


class FailedError(Error, RuntimeError):
    """A calculation broke off (exit code 4)."""
