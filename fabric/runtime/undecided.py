"""What an owned run has still to decide about, in order. It waits while something is wanted of what runs share."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from fabric.core.grants import Given, Need, Refusal, Shares, TokenWant, Want
from fabric.core.inputs import Input

Todo = tuple[Input, str]
"""An input, and the inbox row that it came with; empty: none."""


class Undecided:
    """Inputs, what the first of them wants, and what has been answered about that."""

    def __init__(self) -> None:
        self.shares = Shares()
        """What the run may spend besides its own: handed to each decision."""
        self._todo: deque[Todo] = deque()
        self._wants: set[Want | TokenWant] = set()

    def __len__(self) -> int:
        return len(self._todo)

    @property
    def waits(self) -> bool:
        """Whether nothing can be decided before an answer."""
        return bool(self._wants)

    def add(self, todo: Sequence[Todo]) -> None:
        """They come behind what is there."""
        self._todo.extend(todo)

    @property
    def first(self) -> Input:
        """What is decided about next."""
        return self._todo[0][0]

    def take(self) -> str:
        """The first was decided about, or is left to the next owner; the row that it came with. What was answered holds for it alone."""
        self.shares.answers = {}
        return self._todo.popleft()[1]

    def wait_for(self, need: Need) -> None:
        """The first cannot be decided about without these."""
        self._wants = set(need.wants)

    def give_up(self) -> None:
        """Nothing is waited for any more; an answer that still comes is passed over."""
        self._wants = set()

    def told(self, want: Want | TokenWant, answer: Refusal | Given) -> bool:
        """An answer. True: with it the first can be decided about once more."""
        if want not in self._wants:
            return False
        self._wants.discard(want)
        if isinstance(want, TokenWant) or isinstance(answer, Refusal):  # Money that is there is seen in the book.
            self.shares.answers[want] = answer
        return not self._wants
