"""What a selector or service says when it does not do what it was asked."""

from __future__ import annotations

from typing import Literal

Code = Literal["not_found", "invalid", "conflict", "unavailable", "too_large", "forbidden"]


class Refused(Exception):
    """The request was not carried out and changed nothing. Show ``message``; the caller can mend what it names."""

    def __init__(self, message: str, *, code: Code, field: str = "", problems: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        """One sentence: what is wrong, where, what to do."""
        self.code = code
        self.field = field
        """The form field or path that it is about; empty when it is about no single one."""
        self.problems = problems or (message,)
        """Everything that is wrong, a sentence each, where there is more than one thing."""
