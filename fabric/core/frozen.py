"""``replace`` for frozen values: what ``dataclasses.replace`` does, at a fraction of its cost.

``evolve`` makes a few such copies for every event, so this is the engine's innermost loop. The standard function builds keyword arguments and
calls ``__init__``; here nothing is derived or validated, and the fields are copied as they are. The two values with many fields (``Run`` and ``Step``)
have no slots, because one dictionary is copied faster than thirty slots.
"""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T")
_new = object.__new__
_put = object.__setattr__


def replace(value: T, **changes: Any) -> T:
    """A copy of ``value`` with ``changes``. Only for dataclasses without ``__post_init__``. TypeError for a field it has not."""
    made = _new(value.__class__)
    if hasattr(value, "__dict__"):
        made.__dict__.update(value.__dict__)
        made.__dict__.update(changes)
        if len(made.__dict__) != len(value.__dict__):
            raise _no_field(value, changes)
        return made
    if not changes.keys() <= value.__dataclass_fields__.keys():  # type: ignore[attr-defined]
        raise _no_field(value, changes)
    for name in value.__slots__:  # type: ignore[attr-defined]
        _put(made, name, changes[name] if name in changes else getattr(value, name))
    return made


def _no_field(value: Any, changes: dict[str, Any]) -> TypeError:
    name = min(changes.keys() - value.__dataclass_fields__.keys())
    return TypeError(f"{value.__class__.__name__} has no field {name!r}")
