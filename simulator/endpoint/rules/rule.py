"""Makes a rule: for each protocol a function of the request's body that yields the faults in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from simulator.endpoint.scenario import Name, Refusal, Rule

JSON = Any
Body = Mapping[str, JSON]
Check = Callable[[Body], Iterator[Refusal]]


def rule(**checks: Check) -> Rule:
    """A rule of those protocols that have a check; in the others nothing is wrong."""

    def found(protocol: Name, body: Body) -> Refusal | None:
        check = checks.get(protocol)
        return None if check is None else next(check(body), None)

    return found


def kind_of(value: JSON) -> str:
    """A value's type as OpenAI's messages name it."""
    names = {"NoneType": "null", "str": "a string", "dict": "an object", "list": "an array", "bool": "a boolean"}
    return names.get(type(value).__name__, "a number")
