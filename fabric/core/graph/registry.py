"""Registers an installation's conditions and targets by name (docs/specification/topologies.md; S4 "Custom Targets /
Conditions").

A registry is a value that the caller of ``fold`` passes in, so that a run keeps the one that its revision was
compiled with. Registered functions are pure: each decides from the turn alone, and repeats its answer for an equal
turn. If one is no longer registered, raises, or returns another type, the next speaker is unknown. That is reported
as ``RegisteredUnanswered``; it counts neither as false nor as an end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from fabric.core.graph.state import Turn
from fabric.core.values.frozen import value
from fabric.core.values.units import JSON

Holds = Callable[[Turn], bool]
"""Returns True if a condition is true for a turn."""


@value()
class Next:
    """A target's answer: the next speaker or, without one, the reason for the end."""

    speaker: str | None
    close_reason: str = ""


Resolves = Callable[[Turn], Next]
"""Returns the next speaker of a target after a turn."""


class RegisteredUnanswered(Exception):
    """Raised when a function of the installation gave no answer; says why in one sentence."""


ERROR_CHARS = 300
"""Most characters of a registered function's error message."""
T = TypeVar("T")
Makes = Callable[[Mapping[str, JSON]], T]
"""Makes a condition or target of its arguments. Raises ValueError with one sentence where they are wrong."""
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")


class Register(Generic[T]):
    """Functions that make conditions or targets, by name. It never changes: ``add`` returns a new register."""

    def __init__(self, what: str, made: Mapping[str, Makes[T]] | None = None) -> None:
        self._what = what
        self._made: dict[str, Makes[T]] = dict(made or {})

    @property
    def names(self) -> tuple[str, ...]:
        """Return the registered names."""
        return tuple(sorted(self._made))

    def join(self, other: Register[T]) -> Register[T]:
        """Return a register with the entries of both. Raises ValueError if a name is in both."""
        joined = self
        for name, makes in other._made.items():
            joined = joined.add(name, makes)
        return joined

    def add(self, name: str, makes: Makes[T]) -> Register[T]:
        """Return a register with one more entry. Raises ValueError if the name is taken, or malformed."""
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name; use lower-case letters, digits, - and _, a letter first")
        if name in self._made:
            raise ValueError(f"a {self._what} is registered as {name!r} already; give this one another name")
        return Register(self._what, {**self._made, name: makes})

    def make(self, name: str, args: Mapping[str, JSON]) -> T:
        """Return the function registered under a name, with its arguments. Raises ValueError with one sentence if
        there is none, or they are wrong.
        """
        if name not in self._made:
            there = ", ".join(sorted(self._made)) or "none"
            raise ValueError(f"no {self._what} is registered as {name!r}; there are: {there}")
        return self._made[name](args)


@value()
class Registry:
    """Conditions and targets of an installation besides the built-in ones."""

    conditions: Register[Holds] = Register("condition")
    targets: Register[Resolves] = Register("target")

    def join(self, other: Registry) -> Registry:
        """Return a registry with the entries of both. Raises ValueError if a name is in both."""
        return Registry(self.conditions.join(other.conditions), self.targets.join(other.targets))


def evaluate_condition(registry: Registry, name: str, args: Mapping[str, JSON], turn: Turn) -> bool:
    """Return True if a registered condition is true for a turn. Raises Unanswered."""
    found = _ask_registered("condition", registry.conditions, name, args, turn)
    if not isinstance(found, bool):
        raise RegisteredUnanswered(
            f"the installation's condition {name!r} answered {type(found).__name__}, neither true nor false"
        )
    return found


def build_target(registry: Registry, name: str, args: Mapping[str, JSON], turn: Turn) -> Next:
    """Return the next speaker by a registered target. Raises Unanswered."""
    found = _ask_registered("target", registry.targets, name, args, turn)
    if not isinstance(found, Next):
        raise RegisteredUnanswered(f"the installation's target {name!r} answered {type(found).__name__}, and no Next")
    return found


def _ask_registered(what: str, register: Register[Any], name: str, args: Mapping[str, JSON], turn: Turn) -> Any:
    try:
        return register.make(name, args)(turn)
    except Exception as error:  # An installation's function may raise anything.
        said = " ".join(f"{error.args[0] if error.args else type(error).__name__}".split())[:ERROR_CHARS]
        raise RegisteredUnanswered(f"the installation's {what} {name!r} gave no answer: {said}") from error


BUILT_IN = Registry()
"""Registry without functions of an installation."""
