"""Describes scenarios in words: origin, entered row, probe tolerances, and parameters as form fields."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from django.urls import reverse

from console.templatetags.marks import FAILURES
from console.words.drills import DrillMark, cell_mark
from fabric.core.values.taxonomy import Tier
from fabric.core.values.units import JSON
from fabric.core.values.words import words
from simulator.drills.library.requests import drill_fresh
from simulator.drills.library.selectors import Origin, ScenarioView
from simulator.drills.models.tables import VIRTUAL
from simulator.drills.selectors.drill_views import DrillView, State
from simulator.faults.fault import PORTS, Port
from simulator.scenarios.spec.probes import Equal, OneOf, Range, Regex, Tolerance, Within
from simulator.scenarios.spec.scenario import Scalar, Scenario, references
from simulator.scenarios.spec.words import INFRASTRUCTURE, find_field, used_by
from simulator.texts.problems import Problem

ORIGINS: Mapping[Origin, tuple[str, str]] = {
    "shipped": ("Built in", "comes with the product"),
    "ours": ("Yours", "written or imported in this workspace"),
    "captured": ("Captured", "made of the failures of a run"),
}
"""Word and meaning of each origin; total over ``Origin``, by test."""
PORT_WORDS: Mapping[Port, str] = {
    "model": "model calls",
    "answer": "answers of models",
    "tool": "tools",
    "service": "services",
    "store": "database",
    "broker": "broker",
    "worker": "workers",
    "clock": "clocks",
    "person": "people",
}
"""Words of each port. Total over the ports, by test."""
UNITS: Mapping[str, str] = {"_s": "s", "_per_s": "/s", "_usd_micros": "micro-dollars", "tokens": "tokens"}
"""Units by the end of a parameter's name."""


def enters_words(scenario: Scenario | None) -> str:
    """Return its failure type in words, or that its faults are those of the infrastructure."""
    if scenario is None:
        return ""
    return FAILURES[scenario.failure] if scenario.failure else INFRASTRUCTURE


def address(name: str, fabric: str = "") -> str:
    """Return the address of a scenario's page."""
    return reverse("scenario", args=[name]) + (f"?{urlencode({'fabric': fabric})}" if fabric else "")


def port_choices() -> list[tuple[str, str]]:
    """Return the ports as choices of a filter."""
    return [(port, PORT_WORDS[port]) for port in PORTS]


def tolerance_words(tolerance: Tolerance) -> tuple[str, str]:
    """Return the tolerance of a probe in words, and its source text where words are incomplete."""
    match tolerance:
        case Equal(value=value):
            return f"is {value if isinstance(value, str) else json.dumps(value)}", ""
        case Within(low=low, high=high):
            return f"lies from {low} to {high}", ""
        case OneOf(values=values):
            return f"is one of {', '.join(map(str, values))}", ""
        case Range():
            return "lies in", json.dumps(tolerance.write_value(), ensure_ascii=False)
        case Regex():
            return "matches", json.dumps(tolerance.write_value(), ensure_ascii=False)
    return "is compared with", json.dumps(tolerance.write_value(), ensure_ascii=False)


# -- verdicts ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TierCell:
    """Results of a scenario in a tier of a fabric, by drills of one mode."""

    tier: Tier
    mode: str
    mark: DrillMark | None
    """Badge of the result; None if the scenario is not for this tier."""
    drill: DrillView | None
    """The last drill, or the current one."""

    @property
    def open(self) -> bool:
        """Return True if a drill waits or runs."""
        return self.drill is not None and not self.drill.ended


def tier_cells(
    view: ScenarioView,
    revision_id: str,
    shown: Mapping[tuple[str, Tier], DrillView],
    waiting: Mapping[tuple[str, Tier], DrillView],
    mode: str = VIRTUAL,
) -> list[TierCell]:
    """Return a cell for each tier."""
    found = []
    for tier in Tier:
        last, now = shown.get((view.name, tier)), waiting.get((view.name, tier))
        found.append(TierCell(tier, mode, _mark(view, tier, revision_id, last, now), now or last))
    return found


def _mark(
    view: ScenarioView, tier: Tier, revision_id: str, last: DrillView | None, now: DrillView | None
) -> DrillMark | None:
    if now is not None:
        return cell_mark(State(now.status))
    if view.scenario is None or tier not in view.scenario.tiers:
        return None
    if last is None:
        return cell_mark(State.NEVER)
    return cell_mark(State(last.verdict) if drill_fresh(last, revision_id, view.source) else State.STALE)


# -- parameters --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ParameterField:
    """A parameter of a scenario as a form field. ``kind``: ``bool``, ``int``, ``float``, ``choice`` or ``text``."""

    name: str
    kind: str
    value: str
    """Text in the field."""
    default: str
    hint: str
    unit: str
    choices: tuple[str, ...]
    least: str
    most: str
    errors: tuple[str, ...]

    @property
    def field(self) -> str:
        """Return its name in the form."""
        return f"p-{self.name}"

    @property
    def changed(self) -> bool:
        """Return True if the value differs from the scenario's own."""
        return self.value != self.default


def parameter_fields(
    scenario: Scenario, given: Mapping[str, str], errors: Mapping[str, list[str]] | None = None
) -> list[ParameterField]:
    """Return the parameters with the sent values and their errors."""
    return [
        _field(scenario, name, default, given.get(name), tuple((errors or {}).get(name, ())))
        for name, default in scenario.parameters.items()
    ]


def _field(
    scenario: Scenario, name: str, default: Scalar, given: str | None, errors: tuple[str, ...]
) -> ParameterField:
    _, schema = find_field(scenario, name)
    choices = tuple(map(str, schema.get("enum", ())))
    kind = "choice" if choices else KINDS.get(type(default), "text")
    if kind == "bool":
        choices = ("true", "false")
    own = read_text(default)
    least, most = _bound(schema, "inimum", kind), _bound(schema, "aximum", kind)
    return ParameterField(
        name=name,
        kind=kind,
        value=own if given is None else given,
        default=own,
        hint=_hint(scenario, name, least, most, schema),
        unit=next((unit for end, unit in UNITS.items() if name.endswith(end)), ""),
        choices=choices,
        least=least,
        most=most,
        errors=errors,
    )


KINDS: Mapping[type, str] = {bool: "bool", int: "int", float: "float", str: "text"}


def read_text(value: Scalar) -> str:
    """Return a value as the field and ``--set`` write it."""
    return json.dumps(value) if isinstance(value, bool) else str(value)


def _bound(schema: Mapping[str, JSON], name: str, kind: str) -> str:
    """Return an inclusive bound, as a number field takes it."""
    found = schema.get(f"m{name}")
    return (
        ""
        if found is None or kind not in ("int", "float")
        else f"{found:g}"
        if isinstance(found, float)
        else str(found)
    )


def _hint(scenario: Scenario, name: str, least: str, most: str, schema: Mapping[str, JSON]) -> str:
    of = f"of {' and '.join(words(one) for one in used_by(scenario, name))}"
    more = [f"over {schema['exclusiveMinimum']:g}"] if "exclusiveMinimum" in schema else []
    if least and most:
        more.append(f"{least} to {most}")
    elif least or most:
        more.append(f"at least {least}" if least else f"at most {most}")
    return ", ".join([of, *more])


def problems_by_field(scenario: Scenario, problems: tuple[Problem, ...]) -> tuple[dict[str, list[str]], list[str]]:
    """Return the problems by their parameter, and those without a parameter."""
    fields: dict[str, list[str]] = {}
    rest: list[str] = []
    for one in problems:
        names = _about(scenario, one)
        for name in names:
            fields.setdefault(name, []).append(one.sentence)
        if not names:
            rest.append(str(one))
    return fields, rest


def _about(scenario: Scenario, problem: Problem) -> list[str]:
    path = problem.path
    if path[:1] == ("parameters",) and len(path) > 1 and path[1] in scenario.parameters:
        return [str(path[1])]
    if path[:1] == ("disturbance",) and len(path) > 1 and isinstance(path[1], int):
        given = scenario.disturbance[path[1]]
        whole = given if len(path) == 2 else given.model_copy(update={"values": {"": given.values.get(str(path[2]))}})
        return list(dict.fromkeys(references(whole)))
    return []
