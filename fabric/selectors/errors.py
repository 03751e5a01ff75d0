"""Errors of selectors and services that refuse a request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Code = Literal["not_found", "invalid", "conflict", "unavailable", "too_large", "forbidden"]


@dataclass(frozen=True, slots=True)
class Placed:
    """One error in a text, with its place."""

    path: str
    """Dotted path of the field; empty: the whole, or a text without fields."""
    line: int | None
    column: int | None
    """Line and column, from 1; None: the place is not known."""
    sentence: str
    origin: str = ""
    """Name of the file; empty: there is none."""

    def __str__(self) -> str:
        """Return ``file, line 12, column 5, agents.1.model: ...``."""
        place = "" if self.line is None else f"line {self.line}, column {self.column}"
        where = ", ".join(part for part in (self.origin, place, self.path) if part)
        return f"{where}: {self.sentence}" if where else self.sentence


class Refused(Exception):
    """The request was not carried out and changed nothing. Show ``message``; the caller can correct what it names."""

    def __init__(
        self,
        message: str,
        *,
        code: Code,
        field: str = "",
        problems: tuple[str, ...] = (),
        placed: tuple[Placed, ...] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        """One sentence: the fault, its place, and the remedy."""
        self.code = code
        self.field = field
        """Form field or path of the fault; empty where it is not about one."""
        self.problems = problems or (message,)
        """All faults, a sentence each."""
        self.placed = placed
        """The problems with their places, where a text was read; more than ``problems`` where that has only the
        first.
        """
