"""What a selector or service says when it does not do what it was asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Code = Literal["not_found", "invalid", "conflict", "unavailable", "too_large", "forbidden"]


@dataclass(frozen=True, slots=True)
class Placed:
    """One thing that is wrong with a text, and where it stands."""

    path: str
    """Dotted path of the field; empty: it is about the whole, or about text that has no fields."""
    line: int | None
    column: int | None
    """Both from 1; None: the place is not known."""
    sentence: str
    origin: str = ""
    """Name of the file; empty: there is none."""

    def __str__(self) -> str:
        """``file, line 12, column 5, agents.1.model: ...``."""
        place = "" if self.line is None else f"line {self.line}, column {self.column}"
        where = ", ".join(part for part in (self.origin, place, self.path) if part)
        return f"{where}: {self.sentence}" if where else self.sentence


class Refused(Exception):
    """The request was not carried out and changed nothing. Show ``message``; the caller can mend what it names."""

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
        """One sentence: what is wrong, where, what to do."""
        self.code = code
        self.field = field
        """The form field or path that it is about; empty when it is about no single one."""
        self.problems = problems or (message,)
        """Everything that is wrong, a sentence each, where there is more than one thing."""
        self.placed = placed
        """The same with their places, where a text was read; more of them where ``problems`` tells only the first."""
