"""Tolerances: what a probe of the steady state may say. The grammar and its meaning are chaostoolkit's.

A scalar: equal to it. A list of two: from one to the other, both included; a list of more (or of one): in it. ``{"type": "range", "range": [low, high]}``, ``{"type": "regex",
"pattern": ...}``, ``{"type": "jsonpath", "path": ..., "expect": ..., "count": ...}``, each with a ``target`` within the value; ``{"type": "probe", ...}``: another probe is asked,
with the value. Where a probe says an object with a ``status``, whole numbers and lists are held against that.

Stricter in three places, each a mistake that would pass unseen there: true is not 1, a text does not lie between numbers, a pattern is re2's (no look-around, no
back-references), so that none runs for ever.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from math import isfinite
from typing import Any, Literal

import re2
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictInt,
    StrictStr,
    ValidationError,
    field_validator,
)

from simulator.scenarios import jsonpath
from simulator.scenarios.problems import Path, Problem, nearest, problems_of, shown

JSON = Any
Scalar = bool | int | float | str
PATTERN_CHARS = 512
TYPES = ("probe", "regex", "jsonpath", "range")

Asked = Callable[[str, Mapping[str, JSON], JSON], bool]
"""Asks another probe whether a value will do: its name, its arguments, the value."""


class Malformed(ValueError):
    """A tolerance that does not parse. ``problems``: why, each with its path."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(map(str, problems)))


class Tolerance(BaseModel):
    """What a value may be. ``within`` says whether it is, ``why_not`` why it is not; empty: it is."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    def within(self, value: JSON, ask: Asked | None = None) -> bool:
        """Whether a value will do."""
        return not self.why_not(value, ask)

    def why_not(self, value: JSON, ask: Asked | None = None) -> str:
        """One sentence on why a value will not do; empty: it will."""
        raise NotImplementedError

    def written(self) -> JSON:
        """The tolerance as it is written."""
        return self.model_dump(mode="json", exclude_unset=True)


class Equal(Tolerance):
    """A scalar."""

    value: Scalar

    def why_not(self, value: JSON, ask: Asked | None = None) -> str:
        """Other than the scalar; true and 1 are not the same."""
        said = _status(value) if isinstance(self.value, int) and not isinstance(self.value, bool) else value
        return "" if jsonpath.same(said, self.value) else f"{shown(said)} is not {shown(self.value)}"

    def written(self) -> JSON:
        """The scalar itself."""
        return self.value


class Within(Tolerance):
    """A list of two: bounds."""

    low: Scalar
    high: Scalar

    def why_not(self, value: JSON, ask: Asked | None = None) -> str:
        """Outside of the bounds, or nothing that could lie between them."""
        said = _status(value)
        if not _alike(said, self.low) or not _alike(said, self.high):
            return f"{shown(said)} cannot lie between {shown(self.low)} and {shown(self.high)}"
        fits = self.low <= said <= self.high
        return "" if fits else f"{shown(said)} does not lie between {shown(self.low)} and {shown(self.high)}"

    def written(self) -> JSON:
        """The list."""
        return [self.low, self.high]


class OneOf(Tolerance):
    """A list of any other length: a set."""

    values: tuple[Scalar, ...]

    def why_not(self, value: JSON, ask: Asked | None = None) -> str:
        """None of the set."""
        said = _status(value)
        return (
            ""
            if any(jsonpath.same(said, one) for one in self.values)
            else f"{shown(said)} is none of {', '.join(map(shown, self.values))}"
        )

    def written(self) -> JSON:
        """The list."""
        return list(self.values)


class Range(Tolerance):
    """Two numbers, both included. Text that is a number counts as one."""

    type: Literal["range"]
    range: tuple[int | float, int | float]
    target: StrictStr | None = None

    @field_validator("range", mode="before")
    @classmethod
    def _two_numbers(cls, value: JSON) -> JSON:
        if not isinstance(value, list | tuple) or len(value) != 2 or not all(map(_is_number, value)):
            raise ValueError("a range is a list of two numbers, such as [4, 8.5]")
        if why := _no_bounds(*value):
            raise ValueError(why)
        return tuple(value)

    def why_not(self, value: JSON, ask: Asked | None = None) -> str:
        """Outside of it, or no number."""
        said, (low, high) = _targeted(value, self.target), self.range
        try:
            if isinstance(said, bool):
                raise TypeError
            number = Decimal(str(said) if isinstance(said, float) else said)
            if number.is_nan():
                raise InvalidOperation
        except (InvalidOperation, TypeError, ValueError):
            return f"{shown(said)} is no number, and one from {low} to {high} is wanted"
        fits = Decimal(str(low)) <= number <= Decimal(str(high))
        return "" if fits else f"{shown(said)} does not lie between {low} and {high}"


class Regex(Tolerance):
    """A pattern that is found in the value, which is text."""

    type: Literal["regex"]
    pattern: StrictStr = Field(max_length=PATTERN_CHARS)
    target: StrictStr | None = None

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, value: str) -> str:
        _compiled(value)
        return value

    def why_not(self, value: JSON, ask: Asked | None = None) -> str:
        """Not found, or no text to look in."""
        said = _targeted(value, self.target)
        if not isinstance(said, str):
            return f"{shown(said)} is no text, and one that matches {self.pattern!r} is wanted"
        return "" if _compiled(self.pattern).search(said) else f"{shown(said)} does not match {self.pattern!r}"


class JsonPath(Tolerance):
    """A path that leads somewhere: to anything, to so many, to exactly what is expected. Text that is JSON is read first."""

    type: Literal["jsonpath"]
    path: StrictStr
    expect: Any = None
    count: StrictInt | None = Field(None, ge=0)
    target: StrictStr | None = None

    @field_validator("path")
    @classmethod
    def _parses(cls, value: str) -> str:
        jsonpath.parse(value)
        return value

    def why_not(self, value: JSON, ask: Asked | None = None) -> str:
        """What was found instead."""
        said = _targeted(value, self.target)
        if isinstance(said, str):
            try:
                said = json.loads(said)
            except ValueError:
                pass  # A text that is no JSON has nothing in it that a path could lead to.
        got = jsonpath.found(jsonpath.parse(self.path), said)
        if "expect" in self.model_fields_set:
            wanted = self.expect if isinstance(self.expect, list) else [self.expect]
            return "" if jsonpath.same(got, wanted) else f"{self.path} leads to {got!r}, and {wanted!r} is wanted"
        if self.count is not None:
            return "" if len(got) == self.count else f"{self.path} leads to {len(got)} values, {self.count} are wanted"
        return "" if got else f"{self.path} leads to nothing"


class Provider(BaseModel):
    """Who is asked: a probe of ours by name, with arguments."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    type: Literal["fabric-flow"]
    probe: StrictStr
    arguments: dict[str, Any] = Field(default_factory=dict)


class OtherProbe(Tolerance):
    """Another probe, which gets the value as an argument and says whether it will do."""

    type: Literal["probe"]
    name: StrictStr
    provider: Provider

    def why_not(self, value: JSON, ask: Asked | None = None) -> str:
        """It says no, or there is nobody to ask."""
        if ask is None:
            return f"nobody can ask probe {self.name!r} here, so the value is not known to be right"
        said = ask(self.provider.probe, self.provider.arguments, value)
        return "" if said else f"probe {self.name!r} says no to {shown(value)}"


_OBJECTS: Mapping[str, type[Tolerance]] = {
    "probe": OtherProbe,
    "regex": Regex,
    "jsonpath": JsonPath,
    "range": Range,
}


def tolerance_of(written: JSON, at: Path = ()) -> Tolerance:
    """The tolerance that is written so. Raises Malformed with a problem for each thing that is wrong."""
    model, value = _model_of(written, at)
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise Malformed(list(dict.fromkeys(_plain(problem, at) for problem in problems_of(error, model, at)))) from None


def _model_of(written: JSON, at: Path) -> tuple[type[Tolerance], JSON]:
    if isinstance(written, dict):
        kind = written.get("type")
        if not isinstance(kind, str) or kind not in _OBJECTS:
            said = "the tolerance has no type" if kind is None else f"there is no tolerance of type {shown(kind)}"
            raise Malformed([Problem((*at, "type"), f"{said}; {nearest(str(kind), TYPES)}")])
        return _OBJECTS[kind], written
    if isinstance(written, list | tuple):
        return _listed(list(written), at)
    if isinstance(written, float):
        raise Malformed(
            [Problem(at, f"{written} is no whole number; for a fraction write a table with type range and its bounds")]
        )
    if _is_scalar(written):
        return Equal, {"value": written}
    raise Malformed([Problem(at, f"{shown(written)} is no tolerance; write a value, a list or a table with a type")])


def _listed(values: list[JSON], at: Path) -> tuple[type[Tolerance], JSON]:
    if not values:
        raise Malformed([Problem(at, "the list is empty, so that nothing is within it; name what may be")])
    wrong = [
        Problem((*at, place), f"{shown(one)} is no text, number, true or false")
        for place, one in enumerate(values)
        if not _is_scalar(one)
    ]
    if wrong:
        raise Malformed(wrong)
    if len(values) != 2:
        return OneOf, {"values": tuple(values)}
    if why := _no_bounds(*values):
        raise Malformed([Problem(at, why)])
    return Within, {"low": values[0], "high": values[1]}


def _is_number(value: JSON) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _is_scalar(value: JSON) -> bool:
    return isinstance(value, bool | str) or _is_number(value)


def _no_bounds(low: JSON, high: JSON) -> str:
    """Why nothing lies between two values; empty: something may."""
    if not _alike(low, high):
        return f"{shown(low)} and {shown(high)} are no bounds, which a list of two is; write two numbers or two texts, or a list of more"
    return (
        f"{shown(low)} is more than {shown(high)}, so that nothing lies between; write the lower first"
        if low > high
        else ""
    )


def _plain(problem: Problem, at: Path) -> Problem:
    """Without the parts of a path that stand for an alternative of ours."""
    own = problem.path[len(at) :]
    return Problem((*at, *own[: 2 if own[:1] == ("provider",) else 1]), problem.sentence)


def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        told = error.args[0].decode() if error.args and isinstance(error.args[0], bytes) else str(error)
        raise ValueError(f"the pattern {pattern!r} cannot be read: {told}") from None


def _status(value: JSON) -> JSON:
    return value["status"] if isinstance(value, dict) and "status" in value else value


def _targeted(value: JSON, target: str | None) -> JSON:
    return value.get(target, value) if target and isinstance(value, dict) else value


def _alike(value: JSON, bound: JSON) -> bool:
    """Whether two values can be compared: numbers with numbers, text with text."""
    numbers = isinstance(value, int | float) and isinstance(bound, int | float)
    flags = isinstance(value, bool), isinstance(bound, bool)
    return flags == (False, False) and (numbers or (isinstance(value, str) and isinstance(bound, str)))
