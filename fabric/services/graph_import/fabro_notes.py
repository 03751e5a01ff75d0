"""Notes on the parts of a file that was read: lost with their meaning, changed, or without a meaning here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple


class Note(NamedTuple):
    """Something of the file, and what became of it."""

    line: int
    what: str
    """``node verify, goal_gate``."""
    sentence: str

    def __str__(self) -> str:
        return f"line {self.line}, {self.what}: {self.sentence}"


@dataclass
class Notes:
    """All of them, as they come up."""

    taken: list[Note] = field(default_factory=list)
    lost: list[Note] = field(default_factory=list)
    """Without it the graph is another one."""
    left: list[Note] = field(default_factory=list)
    """Notes for the author, where the graph is the same."""
    idle: dict[str, int] = field(default_factory=dict)
    """Attributes that decide nothing about who is next: the first line of each."""

    def take(self, line: int, what: str, sentence: str) -> None:
        """It has a counterpart."""
        self.taken.append(Note(line, what, sentence))

    def lose(self, line: int, what: str, sentence: str) -> None:
        """It has none, and the graph without it is another one."""
        self.lost.append(Note(line, what, sentence))

    def leave(self, line: int, what: str, sentence: str) -> None:
        """It has none, and the graph is the same."""
        self.left.append(Note(line, what, sentence))

    def idles(self, name: str, line: int) -> None:
        """It says nothing about who is next."""
        self.idle.setdefault(name, line)

    def said(self) -> Iterator[str]:
        """The parts that the result lacks: a line each, and one line for all that decide nothing."""
        yield from (str(one) for one in sorted({*self.lost, *self.left}))
        if self.idle:
            names = ", ".join(f"{name} (line {line})" for name, line in sorted(self.idle.items()))
            yield f"{names}: these decide nothing here; agents, models and prompts are written in the fabric"
