"""Lists every mechanism with its MAST classes and its defaults. It is data of the program, alike in all workspaces.

MAST (Cemri et al., "Why Do Multi-Agent LLM Systems Fail?", 2025) sorts failures of multi-agent systems into three
classes. Each mechanism's module says which it answers. For a run, each protection has its configuration field by field,
beside the defaults and their sources.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel

from fabric.core.mechanisms import ORDER
from fabric.core.schema.limits import Unit, find_unit
from fabric.core.spec.policies.breakers import UNNAMED, Breaker
from fabric.core.spec.policies.budgets import Budget
from fabric.core.spec.policies.flow_policy import FlowPolicy, policy_limit
from fabric.core.spec.policies.limits import DEADLINES
from fabric.core.spec.policies.loop_limits import find_names
from fabric.core.state.run import Run
from fabric.core.values.taxonomy import FailureClass
from fabric.core.values.words import words
from fabric.selectors.runs.margins.table import MARGINS, settings_group


def default_breakers(breakers: Sequence[Breaker]) -> str:
    """Return the breakers of a fabric that names none, in words."""
    said = []
    for one in breakers:
        (signal,) = one.signals
        names = ", ".join(words(name) for name in signal.names)
        said.append(
            f"on: in front of each {one.scope}, opens at {signal.threshold:g} in a row ({names}), probes after {one.cooldown_s:g} s"
        )
    return "; ".join(said)


OTHERWISE: Mapping[str, str] = {
    "budget": "required, without a default",
    "deadline": "each tier has its own",
    "policy": "on: results are screened before a change; else what a fabric forbids",
    "validation_gate": "on: schemas, and credentials in the outcome; else what a fabric asks",
    "stall_watchdog": "half of the stage's time, 30 min at most",
    "circuit_breaker": default_breakers(UNNAMED),
}
"""The words for a mechanism whose defaults are no single values."""


@dataclass(frozen=True, slots=True)
class Protection:
    """One row of the table."""

    place: int
    """In the guard order, from 1."""
    name: str
    title: str
    stops: str
    classes: tuple[FailureClass, ...]
    defaults: tuple[tuple[str, str], ...]
    """Titles of the settings that have a default, each with it; without those that are off."""
    source: str
    otherwise: str = ""
    """The words where no setting has a default."""

    def answers(self, which: FailureClass) -> bool:
        """Return True where it answers failures of that class."""
        return which in self.classes


@dataclass(frozen=True, slots=True)
class Measure:
    """A protection that is no mechanism: a limit, a judge or a figure. It has a row in the page's second table."""

    name: str
    title: str
    does: str
    classes: tuple[FailureClass, ...]
    default: str
    source: str

    def answers(self, which: FailureClass) -> bool:
        """Return True where it answers failures of that class."""
        return which in self.classes


def measures() -> tuple[Measure, ...]:
    """Return the measures that S0 names in addition to the mechanisms, with their defaults."""
    specification, verification = FailureClass.SPECIFICATION, FailureClass.VERIFICATION
    replans, most = policy_limit("limits.replans_per_stage"), _STANDARD.limits.replans_per_stage
    return (
        Measure(
            "replan_budget",
            replans.title,
            f"{replans.description.rstrip('.').lower()}; at the limit {replans.stops}",
            (specification, verification),
            f"on: {most} replans a stage, at most {most} without a deviation",
            "docs/specification/stages.md",
        ),
        Measure(
            "plan_critic",
            "Plan critic",
            "has an agent judge a plan before it is handed out",
            (specification,),
            "off: a fabric names it (topology.plan_critic)",
            "docs/specification/gates.md",
        ),
        Measure(
            "outcome_oracle",
            "Outcome oracle",
            "asks the finished outcome; what does not keep its conditions is no success",
            (specification, verification),
            "off: a fabric gives its checks (gates.oracle)",
            "docs/specification/gates.md",
        ),
        Measure(
            "cost_per_success",
            "Cost per success",
            "says what a success cost: all that was spent, divided by the runs that succeeded",
            (verification,),
            "on: on each fabric's page, by its oracle, else by its gates",
            "docs/specification/protections.md",
        ),
    )


def protections() -> list[Protection]:
    """Return all of them, in guard order."""
    return [
        Protection(
            place,
            module.NAME,
            module.TITLE,
            module.STOPS,
            module.CLASSES,
            tuple(_defaults(module.NAME)),
            module.PAGE,
            OTHERWISE.get(module.NAME, "nothing to set"),
        )
        for place, module in enumerate(ORDER, 1)
    ]


_STANDARD = FlowPolicy(budget=Budget(run_usd_micros=1))
"""A policy that says nothing; the money cap has no default and is left out below."""


def _defaults(name: str) -> list[tuple[str, str]]:
    row = MARGINS[name]
    if not row.group or row.group == "deadlines":
        return []
    part: BaseModel = getattr(_STANDARD, row.group)
    fields = type(part).model_fields
    names = row.fields or tuple(fields)
    found = ((fields[key], getattr(part, key)) for key in names)
    return [
        (field.title or "", _spell_value(value) + (" s" if find_unit(field) is Unit.SECONDS else ""))
        for field, value in found
        if not field.is_required() and value not in (None, (), {}, "")
    ]


def _spell_value(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple | list | frozenset):
        return find_names(value) if isinstance(value, frozenset) else ", ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True, slots=True)
class Setting:
    """One field of a protection's configuration, in the field's own words."""

    name: str
    title: str
    unit: Unit | None
    """The unit of a number; None for a choice, a text or a list."""
    meaning: str
    value: Any
    default: Any
    stages: tuple[str, ...] = ()
    """The stages that have a value of their own, each with it."""
    by_tier: bool = False
    """True where the fabric leaves it out and ``value`` is the tier's default."""
    held: bool = False
    """True: the workspace's policy set the value."""

    @property
    def own(self) -> bool:
        """Return True where this fabric says something else than the default."""
        return bool(self.value != self.default)


def list_settings(name: str, policy: FlowPolicy, run: Run) -> list[Setting]:
    """Return the configuration of a row of ``MARGINS``, field by field."""
    row, part = MARGINS[name], settings_group(name, policy, run.tier)
    if part is None:
        return []
    fields = type(part).model_fields
    if row.group == "deadlines":
        standard: Mapping[str, Any] = DEADLINES[run.tier].model_dump()
    else:
        # A field without a default is required: its own value stands, and is the fabric's.
        standard = {key: None if field.is_required() else field.get_default() for key, field in fields.items()}
    made = [
        Setting(
            name=key,
            title=fields[key].title or "",
            unit=find_unit(fields[key]),
            meaning=fields[key].description or "",
            value=getattr(part, key),
            default=standard[key],
            stages=_list_stage_values(row.group, key, policy, run),
        )
        for key in row.fields or tuple(fields)
    ]
    return [_read_tier_value(one, policy, run) if name == "escalation" and one.name == "due_s" else one for one in made]


def settings_under(name: str, policy: FlowPolicy, published: FlowPolicy, run: Run) -> list[Setting]:
    """Return the configuration with a mark at each value that the workspace set. ``published``: the fabric's own
    policy.
    """
    own = {one.name: one.value for one in list_settings(name, published, run)}
    return [replace(one, held=one.value != own[one.name]) for one in list_settings(name, policy, run)]


def _list_stage_values(group: str, key: str, policy: FlowPolicy, run: Run) -> tuple[str, ...]:
    """Return ``validate 3`` for each stage that has a value of its own. ``group``: the part of the policy."""
    found = []
    for stage, own in policy.stages.items():
        part = own.deadlines.get(run.tier) if group == "deadlines" else own.groups.get(group)
        value = None if part is None else part.given_fields.get(key)
        if value is not None:
            said = find_names(value) if isinstance(value, frozenset) else f"{value:g}"
            found.append(f"{words(stage)} {said}")
    return tuple(found)


def _read_tier_value(due: Setting, policy: FlowPolicy, run: Run) -> Setting:
    """Return the time to answer as it is in force."""
    if due.value is not None:
        return due
    seconds = policy.due_s(run.tier)
    return replace(due, value=seconds, default=seconds, by_tier=True)
