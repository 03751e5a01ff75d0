"""Defines a scenario: disturbances, work, expectations, steady state before and after, and abort conditions.

It is written in TOML (``toml.py``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationInfo, field_validator

from fabric.core.values.taxonomy import FailureType, Tier
from fabric.core.values.units import JSON
from fabric.runtime.ports.batch_parts import find_origin
from simulator.faults.catalogue import FaultRefused, build_parameters, fault_named, find_near_fault
from simulator.faults.fault import Fault, Parameters
from simulator.scenarios.spec.probes import (
    PROBES,
    CheckedProbe,
    Malformed,
    Observed,
    Tolerance,
    check_probe,
    read_tolerance,
)
from simulator.scenarios.spec.recorded import Recorded
from simulator.texts.problems import Path, Problem, nearest, shorten_value

Scalar = bool | int | float | str
REQUEST = "What does the report say?"
_REFERENCE = re.compile(r"\$\{([^{}]*)\}")
_SLUG = re.compile(r"[a-z][a-z0-9-]*")
_WORD = re.compile(r"[a-z][a-z0-9_]*")

Line = Annotated[str, Field(min_length=1, max_length=200)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, arbitrary_types_allowed=True)


class Attached(_Part):
    """A document of the workload."""

    name: Line
    text: str
    origin: str = ""
    """File from which the document of a captured run was read, as the run keeps it; empty for a text."""

    @field_validator("origin")
    @classmethod
    def _as_kept(cls, value: str) -> str:
        try:
            find_origin(value)
        except (ValueError, TypeError, KeyError):
            raise ValueError("is no origin as a captured scenario has it; leave it out") from None
        return value


class Workload(_Part):
    """Input of the run."""

    request: Annotated[str, Field(min_length=1)] = REQUEST
    documents: Annotated[tuple[Attached, ...], Field(strict=False)] = ()


class WrittenDisturbance(_Part):
    """A disturbance as it is written: a fault, and parameters that may refer to the scenario's."""

    fault: str
    values: dict[str, Any]


class SteadyProbe(_Part):
    """A probe by name, and its tolerance."""

    probe: str
    tolerance: Tolerance


class SteadyState(_Part):
    """The state without faults: before the disturbance, and after it."""

    title: Line = "The run ends well"
    probes: Annotated[tuple[SteadyProbe, ...], Field(strict=False)] = ()

    def check(self, observed: Observed) -> tuple[CheckedProbe, ...]:
        """Check every probe against its tolerance."""
        return check_probes(observed, self.probes)


def check_probes(observed: Observed, probes: Iterable[SteadyProbe]) -> tuple[CheckedProbe, ...]:
    """Check each probe against its tolerance."""
    return tuple(check_probe(observed, one.probe, one.tolerance) for one in probes)


class Abort(_Part):
    """Conditions that stop a drill at any time: cost or duration."""

    cost_usd_micros: Annotated[int, Field(gt=0)] | None = None
    virtual_s: Annotated[FiniteFloat, Field(gt=0)] | None = None

    def explain_abort(self, cost_usd_micros: int, virtual_s: float) -> str:
        """Return why a drill of this cost and duration is to be stopped, one sentence. Empty: it may go on."""
        if self.cost_usd_micros is not None and cost_usd_micros >= self.cost_usd_micros:
            return f"it has cost {cost_usd_micros} micro-dollars, and stops at {self.cost_usd_micros}"
        if self.virtual_s is not None and virtual_s >= self.virtual_s:
            return f"it has taken {virtual_s:g} s, and stops at {self.virtual_s:g} s"
        return ""


class Scenario(_Part):
    """A valid scenario: every name in it is known, every parameter typed."""

    name: Line
    title: Line
    description: Annotated[str, Field(min_length=1)]
    failure: Annotated[FailureType | None, Field(strict=False)] = None
    """Row of the decision table that it enters; None: it promises no decision, and the run ends as if undisturbed."""
    tiers: Annotated[tuple[Annotated[Tier, Field(strict=False)], ...], Field(strict=False, min_length=1)] = tuple(Tier)
    seed: int = 1
    tags: Annotated[tuple[Line, ...], Field(strict=False)] = ()
    contributions: dict[str, Literal["high", "medium", "low", "none"]] = Field(default_factory=dict)
    """Qualities of the system that it contributes to, and how much (chaostoolkit's word)."""
    workload: Workload = Workload()
    parameters: dict[str, Scalar] = Field(default_factory=dict)
    recorded: Annotated[tuple[Recorded, ...], Field(strict=False)] = ()
    """Parts of a captured run that are replayed. Its disturbances strike what they leave out."""
    disturbance: Annotated[tuple[WrittenDisturbance, ...], Field(strict=False)]
    expect: Annotated[tuple[SteadyProbe, ...], Field(strict=False)] = ()
    """Probes of the disturbed run. A failed one deviates. Empty: only its decisions are judged."""
    steady_state: SteadyState = SteadyState()
    abort: Abort = Abort()

    @field_validator("name")
    @classmethod
    def _slug(cls, value: str) -> str:
        if not _SLUG.fullmatch(value):
            raise ValueError(f"{value!r} is no name; use lower-case letters, digits and -, a letter first")
        return value

    @field_validator("disturbance")
    @classmethod
    def _not_idle(cls, value: tuple[WrittenDisturbance, ...], info: ValidationInfo) -> tuple[WrittenDisturbance, ...]:
        if not value and not info.data.get("recorded"):
            raise ValueError("is empty; give at least one")
        return value

    @field_validator("tiers")
    @classmethod
    def _each_once(cls, value: tuple[Tier, ...]) -> tuple[Tier, ...]:
        if len(set(value)) < len(value):
            raise ValueError("a tier is named twice; name each once")
        return value

    def check_disturbed(self, observed: Observed) -> tuple[CheckedProbe, ...]:
        """Check a disturbed run: against what is expected of it, else against the steady state, which is no promise."""
        return check_probes(observed, self.expect or self.steady_state.probes)

    def disturbances(self, overrides: Mapping[str, Scalar] | None = None) -> tuple[Disturbance, ...]:
        """Return the faults with typed parameters; the caller's replace the scenario's own.

        Raises Refused for unknown parameters or another type.
        """
        values = {**self.parameters, **_type_values(self.parameters, overrides or {})}
        return tuple(resolve_disturbance(one, values, ("disturbance", n)) for n, one in enumerate(self.disturbance))

    def only_virtual(self) -> list[Problem]:
        """Return a problem for each fault that cannot be live; empty if the scenario can be played live."""
        found: list[Problem] = []
        if self.recorded:
            found.append(Problem(("recorded",), "a recorded run is replayed in simulated time only"))
        for number, one in enumerate(self.disturbance):
            try:
                fault_named(one.fault, ("disturbance", number), live=True)
            except FaultRefused as error:
                found += error.problems
        return found


@dataclass(frozen=True, slots=True)
class Disturbance:
    """One fault, ready to be injected."""

    fault: Fault
    parameters: Parameters


# -- parts that depend on each other -----------------------------------------------------------------------------------


def steady_probe(tree: JSON, at: Path) -> SteadyProbe:
    """Return a written probe and its tolerance. Raises Refused with a problem for each mistake."""
    known = list(SteadyProbe.model_fields)
    problems = [Problem((*at, key), f"there is no such key; {nearest(key, known)}") for key in tree if key not in known]
    name, tolerance = tree.get("probe"), None
    if name is None:
        problems.append(Problem((*at, "probe"), "is missing; give it a value"))
    elif name not in PROBES:
        problems.append(
            Problem((*at, "probe"), f"there is no probe {shorten_value(name)}; {nearest(str(name), PROBES)}")
        )
    if "tolerance" not in tree:
        problems.append(Problem((*at, "tolerance"), "is missing; give it a value"))
    else:
        try:
            tolerance = read_tolerance(tree["tolerance"], (*at, "tolerance"))
        except Malformed as error:
            problems += error.problems
    if problems or tolerance is None:
        raise FaultRefused(problems)
    return SteadyProbe(probe=name, tolerance=tolerance)


def list_written(probes: Iterable[SteadyProbe]) -> list[JSON]:
    """Return probes as a file has them."""
    return [{"probe": one.probe, "tolerance": one.tolerance.write_value()} for one in probes]


def references(given: WrittenDisturbance) -> list[str]:
    """Return the names of the parameters that a disturbance refers to."""
    return [name for value in given.values.values() for name in _references(value)]


def parameter_problems(parameters: Mapping[str, JSON], disturbances: tuple[WrittenDisturbance, ...]) -> list[Problem]:
    """Return the mistakes in the overridable parameters: names, types, and unused ones."""
    used = {name for one in disturbances for name in references(one)}
    found = []
    for name, value in parameters.items():
        at = ("parameters", name)
        if not _WORD.fullmatch(name):
            found.append(Problem(at, f"{name!r} is no name; use lower-case letters, digits and _, a letter first"))
        elif not isinstance(value, bool | int | float | str):
            found.append(Problem(at, f"{shorten_value(value)} is no text, number, true or false"))
        elif disturbances and name not in used:
            found.append(Problem(at, "no disturbance uses it; take it out, or write ${" + name + "} where it belongs"))
    return found


def _references(value: JSON) -> list[str]:
    return _REFERENCE.findall(value) if isinstance(value, str) else []


def resolve_disturbance(given: WrittenDisturbance, values: Mapping[str, Scalar], at: Path) -> Disturbance:
    """Return a disturbance with its references resolved. Raises FaultRefused with a problem for each mistake.

    The parameters of an unknown fault are checked as far as the fault with the nearest name has them: so no mistake
    waits until another one is gone.
    """
    problems: list[Problem] = []
    checked = set(given.values)  # Keys whose values can be judged.
    try:
        fault = fault_named(given.fault, at)
    except FaultRefused as error:
        problems += error.problems
        fault = find_near_fault(given.fault)
        checked &= set(fault.parameters.model_fields if fault.parameters else ())
    unknown = {key: [name for name in _references(value) if name not in values] for key, value in given.values.items()}
    for key, names in unknown.items():
        problems += [Problem((*at, key), f"there is no parameter {name!r}; {nearest(name, values)}") for name in names]
    filled = {key: _fill_references(value, values) for key, value in given.values.items() if not unknown[key]}
    if problems:
        filled = {key: value for key, value in filled.items() if key in checked}
    try:
        parameters = build_parameters(fault, filled, at)
    except FaultRefused as error:
        told = {problem.path for problem in problems}
        more = [
            one for one in error.problems if one.path not in told and (not problems or _names_key(one, at, checked))
        ]
        raise FaultRefused([*problems, *more]) from None
    if problems:
        raise FaultRefused(problems)
    return Disturbance(fault, parameters)


def _names_key(problem: Problem, at: Path, keys: set[str]) -> bool:
    """Return True if a problem is about one of the keys of the table at a path."""
    return problem.path[len(at) : len(at) + 1] in {(key,) for key in keys}


def _fill_references(value: JSON, values: Mapping[str, Scalar]) -> JSON:
    """Resolve references: one alone keeps the parameter's type; inside a text it becomes part of it."""
    if not isinstance(value, str):
        return value
    alone = _REFERENCE.fullmatch(value)
    return values[alone[1]] if alone else _REFERENCE.sub(lambda found: str(values[found[1]]), value)


# -- overriding --------------------------------------------------------------------------------------------------------

KINDS: Mapping[type, str] = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


def _type_values(defaults: Mapping[str, Scalar], overrides: Mapping[str, Scalar]) -> dict[str, Scalar]:
    problems, found = [], {}
    for name, given in overrides.items():
        if name not in defaults:
            problems.append(Problem(("parameters", name), f"there is no such parameter; {nearest(name, defaults)}"))
            continue
        wanted = type(defaults[name])
        value = float(given) if wanted is float and type(given) is int else given
        if type(value) is not wanted:
            said = f"{shorten_value(value)} is not {KINDS[wanted]}, as its default {shorten_value(defaults[name])} is"
            problems.append(Problem(("parameters", name), said))
        found[name] = value
    if problems:
        raise FaultRefused(problems)
    return found


def parse_overrides(scenario: Scenario, words: list[str]) -> dict[str, Scalar]:
    """Parse overrides of a command line, ``times=4``, each as its default's type. Raises Refused."""
    found: dict[str, Scalar] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals:
            raise FaultRefused([Problem(("parameters",), f"{word!r} is no parameter; write name=value")])
        found[name] = _from_text(text, scenario.parameters.get(name))
    _type_values(scenario.parameters, found)
    return found


def _from_text(text: str, default: Scalar | None) -> Scalar:
    """Convert a text to the type of a default; return the text itself if it cannot, which is then refused."""
    try:
        match default:
            case bool():
                return {"true": True, "false": False}.get(text, text)
            case int():
                return int(text)
            case float():
                return float(text)
    except ValueError:
        pass  # It is reported with the expected type.
    return text
