"""Frozen values at a fraction of their usual cost: ``value`` declares them, ``replace`` copies them.

A frozen dataclass sets every field through ``object.__setattr__``, which makes it three times as dear to create as a plain one; an event creates a
dozen. ``value`` is frozen where it counts, under the type checker, which refuses every assignment, and a plain slotted dataclass when it runs.

``evolve`` makes a few copies for every event, so this is the engine's innermost loop. The standard function builds keyword arguments and
calls ``__init__``; here nothing is derived or validated, and the fields are copied as they are. The two values with many fields (``Run`` and ``Step``)
have no slots, because one dictionary is copied faster than thirty slots.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")
_new = object.__new__
_put = object.__setattr__


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(*, kw_only: bool = False) -> Callable[[type[T]], type[T]]:
    """Declares a frozen value with slots: hashable, compared by its fields."""

    def declare(cls: type[T]) -> type[T]:
        made = dataclass(slots=True, kw_only=kw_only, unsafe_hash=True)(cls)
        _VALUES.add(made)
        return made

    return declare


_VALUES: set[type[Any]] = set()


def is_frozen(cls: type[Any]) -> bool:
    """Whether a class was declared with ``value``, or as a frozen dataclass."""
    return cls in _VALUES or bool(cls.__dataclass_params__.frozen)


def replace(given: T, **changes: Any) -> T:
    """A copy of ``given`` with ``changes``. Only for dataclasses without ``__post_init__``. TypeError for a field it has not."""
    made = _new(given.__class__)
    if hasattr(given, "__dict__"):
        made.__dict__.update(given.__dict__)
        made.__dict__.update(changes)
        if len(made.__dict__) != len(given.__dict__):
            raise _no_field(given, changes)
        return made
    if not changes.keys() <= given.__dataclass_fields__.keys():  # type: ignore[attr-defined]
        raise _no_field(given, changes)
    for name in given.__slots__:  # type: ignore[attr-defined]
        _put(made, name, changes[name] if name in changes else getattr(given, name))
    return made


def _no_field(given: Any, changes: dict[str, Any]) -> TypeError:
    name = min(changes.keys() - given.__dataclass_fields__.keys())
    return TypeError(f"{given.__class__.__name__} has no field {name!r}")
