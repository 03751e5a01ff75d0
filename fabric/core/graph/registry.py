"""Conditions and targets of an installation's own: registered under a name each, read back by that name (semantics.md 5; S4 "Custom Targets / Conditions").

A registry is a value that whoever folds hands in, so that a run keeps the one that its revision was compiled with. What is registered is pure: it decides from
the turn alone, and gives the same answer each time. One that is registered no more, that raises or that answers with something else leaves it unknown who
speaks next, and that is told as what it is (``Unanswered``): it counts neither as false nor as an end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from fabric.core.frozen import value
from fabric.core.graph.state import Turn

JSON = Any
Holds = Callable[[Turn], bool]
"""Whether a condition holds for a turn."""


@value()
class Next:
    """A target's answer: who speaks next, or, with no speaker, why the conversation ends."""

    speaker: str | None
    close_reason: str = ""


Resolves = Callable[[Turn], Next]
"""Where a target leads from a turn."""


class Unanswered(Exception):
    """What an installation registered gave no answer, in one sentence."""


ERROR_CHARS = 300
"""Of what a registered function said when it raised."""
T = TypeVar("T")
Makes = Callable[[Mapping[str, JSON]], T]
"""Makes a condition or target of its arguments. ValueError with one sentence where they are wrong."""
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")


class Register(Generic[T]):
    """Makers by name. It never changes: ``having`` makes another one."""

    def __init__(self, what: str, made: Mapping[str, Makes[T]] | None = None) -> None:
        self._what = what
        self._made: dict[str, Makes[T]] = dict(made or {})

    @property
    def names(self) -> tuple[str, ...]:
        """What is registered, by name."""
        return tuple(sorted(self._made))

    def joined(self, other: Register[T]) -> Register[T]:
        """The same with all of another one. ValueError where a name is in both."""
        joined = self
        for name, makes in other._made.items():
            joined = joined.having(name, makes)
        return joined

    def having(self, name: str, makes: Makes[T]) -> Register[T]:
        """The same with one more. ValueError where the name is taken, or no name."""
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name; use lower-case letters, digits, - and _, a letter first")
        if name in self._made:
            raise ValueError(f"a {self._what} is registered as {name!r} already; give this one another name")
        return Register(self._what, {**self._made, name: makes})

    def make(self, name: str, args: Mapping[str, JSON]) -> T:
        """What is registered under a name, with its arguments. ValueError with one sentence where there is none, or they are wrong."""
        if name not in self._made:
            there = ", ".join(sorted(self._made)) or "none"
            raise ValueError(f"no {self._what} is registered as {name!r}; there are: {there}")
        return self._made[name](args)


@value()
class Registry:
    """What an installation registered beside the built-in conditions and targets."""

    conditions: Register[Holds] = Register("condition")
    targets: Register[Resolves] = Register("target")

    def joined(self, other: Registry) -> Registry:
        """The same with all of another one. ValueError where a name is in both."""
        return Registry(self.conditions.joined(other.conditions), self.targets.joined(other.targets))


def condition_of(registry: Registry, name: str, args: Mapping[str, JSON], turn: Turn) -> bool:
    """Whether a registered condition holds for a turn. Unanswered."""
    found = _asked("condition", registry.conditions, name, args, turn)
    if not isinstance(found, bool):
        raise Unanswered(
            f"the installation's condition {name!r} answered {type(found).__name__}, neither true nor false"
        )
    return found


def target_of(registry: Registry, name: str, args: Mapping[str, JSON], turn: Turn) -> Next:
    """Where a registered target leads from a turn. Unanswered."""
    found = _asked("target", registry.targets, name, args, turn)
    if not isinstance(found, Next):
        raise Unanswered(f"the installation's target {name!r} answered {type(found).__name__}, and no Next")
    return found


def _asked(what: str, register: Register[Any], name: str, args: Mapping[str, JSON], turn: Turn) -> Any:
    try:
        return register.make(name, args)(turn)
    except Exception as error:  # Of an installation's own: it may fail in any way.
        said = " ".join(f"{error.args[0] if error.args else type(error).__name__}".split())[:ERROR_CHARS]
        raise Unanswered(f"the installation's {what} {name!r} gave no answer: {said}") from error


BUILT_IN = Registry()
"""Nothing of an installation's own."""
