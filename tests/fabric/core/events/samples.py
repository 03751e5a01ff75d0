"""One sample of every kind of fact, with something other than the default in every field."""

from __future__ import annotations

import types
import typing
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Literal, get_args, get_origin, get_type_hints

from fabric.core import events as ev

FACTS: tuple[type[Any], ...] = get_args(ev.Fact)
DETAILS = {"text": "é\n", "whole": 3, "part": 0.5, "list": ["a", "b"]}


def sample(kind: type[Any]) -> Any:
    """A fact of that kind, every field filled."""
    hints = get_type_hints(kind)
    given = {f.name: DETAILS if f.name == "details" else _value(hints[f.name], f.name) for f in fields(kind)}
    return kind(**given)


def _value(hint: Any, name: str) -> Any:
    origin, args = get_origin(hint), get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _value(next(one for one in args if one is not type(None)), name)
    if origin is Literal:
        return args[-1]
    if origin is tuple:
        return (_value(args[0], name), _value(args[0], name))
    if isinstance(hint, type) and is_dataclass(hint):
        return sample(hint)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return list(hint)[-1]
    return {bool: True, int: 7, float: 2.5, str: f"a {name}"}[hint]
