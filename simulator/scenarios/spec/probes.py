"""Lists the probes of a steady state by name, and the tolerances that they are checked against.

Grammar and meaning of a tolerance are chaostoolkit's:

1. A scalar: equal to it.
2. A list of two: from one to the other, both included. A list of more (or of one): in it.
3. ``{"type": "range", "range": [low, high]}``, ``{"type": "regex", "pattern": ...}``, ``{"type": "jsonpath", "path":
   ..., "expect": ..., "count": ...}``, each with a ``target`` within the value.
4. ``{"type": "probe", ...}``: another probe decides about the value.
5. If a probe returns an object with a ``status``, whole numbers and lists are compared with that.

Three rules are stricter, because the mistakes would pass unseen there: true is not 1, a text does not lie between
numbers, and a pattern is re2's (no look-around, no back-references), so that none runs for ever.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
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

from fabric.core.values.units import JSON
from simulator.texts.json_paths import find_values, parse_path, same
from simulator.texts.problems import Path, Problem, list_problems, nearest, shorten_value


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """Results of one run of a scenario. One field for each probe."""

    state: str
    chain: str
    causes: str
    cost_usd_micros: int
    duration_s: float
    model_calls: int
    tool_calls: int
    reviews: int
    replans: int
    answer: str
    citations: list[str]
    violations: int
    struck: int


PROBES: Mapping[str, str] = {
    "state": "the state that the run is in at the end",
    "chain": "the decisions about failures in their order, and that state: retry > surface > failed",
    "causes": "the causes of these failures in their order: server_error > server_error; empty: there is none",
    "cost_usd_micros": "the cost of the run, micro-dollars",
    "duration_s": "how long it took, seconds",
    "model_calls": "calls of models that went out, retries as well",
    "tool_calls": "calls of tools that went out, retries as well",
    "reviews": "reviews that people were asked for",
    "replans": "plans that were made after the first",
    "answer": "the text of the answer; empty: there is none",
    "citations": "the documents that it cites",
    "violations": "promises of the engine that were broken",
    "struck": "how often the disturbances struck",
}
"""Description of every probe, by name. The names are the fields of ``Observed``, by test."""


@dataclass(frozen=True, slots=True)
class CheckedProbe:
    """A probe's output and its tolerance. ``why_not``: empty within it."""

    probe: str
    output: JSON
    why_not: str

    @property
    def met(self) -> bool:
        """Return True if it is within tolerance."""
        return not self.why_not


def probe_output(observed: Observed, probe: str) -> JSON:
    """Return the output of a probe. Raises KeyError for an unknown one."""
    if probe not in PROBES:
        raise KeyError(probe)
    return getattr(observed, probe)


def check_probe(observed: Observed, probe: str, tolerance: Tolerance) -> CheckedProbe:
    """Check a probe's output against its tolerance."""
    output = probe_output(observed, probe)

    def ask(other: str, arguments: Mapping[str, JSON], value: JSON) -> bool:
        """Return True if another probe has an equal output."""
        return other in PROBES and probe_output(observed, other) == value

    return CheckedProbe(probe, output, tolerance.why_not(output, ask))


Scalar = bool | int | float | str
PATTERN_CHARS = 512
TYPES = ("probe", "regex", "jsonpath", "range")

Asked = Callable[[str, Mapping[str, JSON], JSON], bool]
"""Asks another probe to accept a value: its name, its arguments, the value."""


class Malformed(ValueError):
    """A tolerance that does not parse. ``problems``: the reasons, each with its path."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(map(str, problems)))


class Tolerance(BaseModel):
    """Tolerated values. ``within`` checks a value; ``why_not`` returns the reason of a refusal, empty if accepted."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    def accepts(self, value: JSON, ask: Asked | None = None) -> bool:
        """Return True if a value is tolerated."""
        return not self.why_not(value, ask)

    def why_not(self, value: JSON, ask: Asked | None = None) -> str:
        """Return the reason of a refusal, one sentence; empty if the value is tolerated."""
        raise NotImplementedError

    def write_value(self) -> JSON:
        """Return the tolerance as it is written."""
        return self.model_dump(mode="json", exclude_unset=True)


class Equal(Tolerance):
    """A scalar."""

    value: Scalar

    def why_not(self, value: JSON, ask: Asked | None = None) -> str:
        """Return a sentence unless the value equals the scalar; true and 1 differ."""
        said = _status(value) if isinstance(self.value, int) and not isinstance(self.value, bool) else value
        return "" if same(said, self.value) else f"{shorten_value(said)} is not {shorten_value(self.value)}"

    def write_value(self) -> JSON:
        """Return the scalar itself."""
        return self.value


class Within(Tolerance):
    """A list of two: bounds."""

    low: Scalar
    high: Scalar

    def why_not(self, value: JSON, ask: Asked | None = None) -> str:
        """Return a sentence if the value is outside of the bounds, or not comparable."""
        said = _status(value)
        if not _alike(said, self.low) or not _alike(said, self.high):
            return f"{shorten_value(said)} cannot lie between {shorten_value(self.low)} and {shorten_value(self.high)}"
        fits = self.low <= said <= self.high
        return (
            ""
            if fits
            else f"{shorten_value(said)} does not lie between {shorten_value(self.low)} and {shorten_value(self.high)}"
        )

    def write_value(self) -> JSON:
        """Return the list."""
        return [self.low, self.high]


class OneOf(Tolerance):
    """A list of any other length: a set."""

    values: tuple[Scalar, ...]

    def why_not(self, value: JSON, ask: Asked | None = None) -> str:
        """Return a sentence if the value is none of the set."""
        said = _status(value)
        return (
            ""
            if any(same(said, one) for one in self.values)
            else f"{shorten_value(said)} is none of {', '.join(map(shorten_value, self.values))}"
        )

    def write_value(self) -> JSON:
        """Return the list."""
        return list(self.values)


class Range(Tolerance):
    """A range of two numbers, both included. Text that is a number counts as one."""

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
        """Return a sentence if the value is outside of the range, or no number."""
        said, (low, high) = _select_target(value, self.target), self.range
        try:
            if isinstance(said, bool):
                raise TypeError
            number = Decimal(str(said) if isinstance(said, float) else said)
            if number.is_nan():
                raise InvalidOperation
        except (InvalidOperation, TypeError, ValueError):
            return f"{shorten_value(said)} is no number, and one from {low} to {high} is wanted"
        fits = Decimal(str(low)) <= number <= Decimal(str(high))
        return "" if fits else f"{shorten_value(said)} does not lie between {low} and {high}"


class Regex(Tolerance):
    """A pattern that has to match within a text value."""

    type: Literal["regex"]
    pattern: StrictStr = Field(max_length=PATTERN_CHARS)
    target: StrictStr | None = None

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, value: str) -> str:
        _compile_pattern(value)
        return value

    def why_not(self, value: JSON, ask: Asked | None = None) -> str:
        """Return a sentence if the pattern does not match, or the value is no text."""
        said = _select_target(value, self.target)
        if not isinstance(said, str):
            return f"{shorten_value(said)} is no text, and one that matches {self.pattern!r} is wanted"
        return (
            ""
            if _compile_pattern(self.pattern).search(said)
            else f"{shorten_value(said)} does not match {self.pattern!r}"
        )


class JsonPath(Tolerance):
    """A path that finds something: anything, a number of values, or the expected value. JSON in a text is parsed
    first.
    """

    type: Literal["jsonpath"]
    path: StrictStr
    expect: Any = None
    count: StrictInt | None = Field(None, ge=0)
    target: StrictStr | None = None

    @field_validator("path")
    @classmethod
    def _parses(cls, value: str) -> str:
        parse_path(value)
        return value

    def why_not(self, value: JSON, ask: Asked | None = None) -> str:
        """Return a sentence about other findings."""
        said = _select_target(value, self.target)
        if isinstance(said, str):
            try:
                said = json.loads(said)
            except ValueError:
                pass  # A text that is no JSON has nothing in it that a path could lead to.
        try:
            got = find_values(parse_path(self.path), said)
        except ValueError as error:
            return str(error)
        if "expect" in self.model_fields_set:
            wanted = self.expect if isinstance(self.expect, list) else [self.expect]
            return "" if same(got, wanted) else f"{self.path} leads to {got!r}, and {wanted!r} is wanted"
        if self.count is not None:
            return "" if len(got) == self.count else f"{self.path} leads to {len(got)} values, {self.count} are wanted"
        return "" if got else f"{self.path} leads to nothing"


class Provider(BaseModel):
    """The probe that is called: ours by name, with arguments."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    type: Literal["fabric-flow"]
    probe: StrictStr
    arguments: dict[str, Any] = Field(default_factory=dict)


class OtherProbe(Tolerance):
    """Another probe, which gets the value as an argument and accepts or refuses it."""

    type: Literal["probe"]
    name: StrictStr
    provider: Provider

    def why_not(self, value: JSON, ask: Asked | None = None) -> str:
        """Return a sentence if the probe refuses, or cannot be called here."""
        if ask is None:
            return f"probe {self.name!r} cannot run here, so the value is not known to be right"
        said = ask(self.provider.probe, self.provider.arguments, value)
        return "" if said else f"probe {self.name!r} says no to {shorten_value(value)}"


_OBJECTS: Mapping[str, type[Tolerance]] = {
    "probe": OtherProbe,
    "regex": Regex,
    "jsonpath": JsonPath,
    "range": Range,
}


def read_tolerance(written: JSON, at: Path = ()) -> Tolerance:
    """Parse a tolerance. Raises Malformed with a problem for each mistake."""
    model, value = _read_model(written, at)
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise Malformed(
            list(dict.fromkeys(_plain(problem, at) for problem in list_problems(error, model, at)))
        ) from None


def _read_model(written: JSON, at: Path) -> tuple[type[Tolerance], JSON]:
    if isinstance(written, dict):
        kind = written.get("type")
        if not isinstance(kind, str) or kind not in _OBJECTS:
            said = (
                "the tolerance has no type" if kind is None else f"there is no tolerance of type {shorten_value(kind)}"
            )
            raise Malformed([Problem((*at, "type"), f"{said}; {nearest(str(kind), TYPES)}")])
        return _OBJECTS[kind], written
    if isinstance(written, list | tuple):
        return _read_pair(list(written), at)
    if isinstance(written, float):
        raise Malformed(
            [Problem(at, f"{written} is no whole number; for a fraction write a table with type range and its bounds")]
        )
    if _is_scalar(written):
        return Equal, {"value": written}
    raise Malformed(
        [Problem(at, f"{shorten_value(written)} is no tolerance; write a value, a list or a table with a type")]
    )


def _read_pair(values: list[JSON], at: Path) -> tuple[type[Tolerance], JSON]:
    if not values:
        raise Malformed([Problem(at, "the list is empty, so that nothing is within it; name what may be")])
    wrong = [
        Problem((*at, place), f"{shorten_value(one)} is no text, number, true or false")
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
    """Return why nothing lies between two values; empty if something may."""
    if not _alike(low, high):
        return f"{shorten_value(low)} and {shorten_value(high)} are no bounds, which a list of two is; write two numbers or two texts, or a list of more"
    return (
        f"{shorten_value(low)} is more than {shorten_value(high)}, so that nothing lies between; write the lower first"
        if low > high
        else ""
    )


def _plain(problem: Problem, at: Path) -> Problem:
    """Return the problem without path parts that stand for one of our alternatives."""
    own = problem.path[len(at) :]
    return Problem((*at, *own[: 2 if own[:1] == ("provider",) else 1]), problem.sentence)


def _compile_pattern(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        told = error.args[0].decode() if error.args and isinstance(error.args[0], bytes) else str(error)
        raise ValueError(f"the pattern {pattern!r} cannot be read: {told}") from None


def _status(value: JSON) -> JSON:
    return value["status"] if isinstance(value, dict) and "status" in value else value


def _select_target(value: JSON, target: str | None) -> JSON:
    return value.get(target, value) if target and isinstance(value, dict) else value


def _alike(value: JSON, bound: JSON) -> bool:
    """Return True if two values can be compared: numbers with numbers, text with text."""
    numbers = isinstance(value, int | float) and isinstance(bound, int | float)
    flags = isinstance(value, bool), isinstance(bound, bool)
    return flags == (False, False) and (numbers or (isinstance(value, str) and isinstance(bound, str)))
