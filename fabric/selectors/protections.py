"""Every mechanism with the MAST classes it answers, what it stops and what it is set to by itself: data of the program, the same for every workspace.

MAST (Cemri et al., "Why Do Multi-Agent LLM Systems Fail?", 2025) sorts failures of multi-agent systems into three classes. Which mechanism answers which
is ``taxonomy.MECHANISM_CLASSES``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from fabric.core.breaker.policy import UNNAMED, Breaker
from fabric.core.loop_names import names_of
from fabric.core.mechanisms import ORDER
from fabric.core.policy import Budget, FlowPolicy
from fabric.core.taxonomy import MECHANISM_CLASSES, FailureClass
from fabric.core.words import words
from fabric.selectors.run_margins import MARGINS

STOPS: Mapping[str, str] = {
    "policy": "actions that nobody allowed: scope, persona, guardrails on arguments, changes after a result that gives orders",
    "budget": "calls whose worst case no longer fits under a cap",
    "cost_velocity": "spending above what the fabric allows or usually spends in a minute, and plans that cannot be finished within a cap",
    "deadline": "attempts after, or too shortly before, a deadline",
    "hop_limit": "endless handoffs, nesting, turns, visits and sub-agents",
    "run_caps": "journals, payloads and calls without end",
    "retry_budget": "storms of retries",
    "circuit_breaker": "calls to what fails again and again",
    "loop_detector": "an agent that repeats its calls",
    "deadlock_monitor": "agents that pass the same thing round and round",
    "progress": "turns that all come to the same",
    "saga": "changes of the world without a way back, and changes made twice",
    "validation_gate": "payloads that are malformed, denied, untrue or without a source",
    "goal_gate": "a run that ends before its goals are met",
    "failure_signature": "one failure that comes back, whatever succeeded in between",
    "stall_watchdog": "a run in which nothing happens any more",
    "escalation": "answers that their critic trusts too little",
}
"""What each mechanism stops; total over the mechanisms, by test."""
SOURCES: Mapping[str, str] = {
    "policy": "semantics.md 1, 7 and 9",
    "run_caps": "design.md 2.3",
    "progress": "semantics.md 2",
    "validation_gate": "semantics.md 1",
    "escalation": "semantics.md 1",
}
"""Where its rule stands, where that is not section 4."""
SECTION = "semantics.md 4"


def default_breakers(breakers: Sequence[Breaker]) -> str:
    """The breakers that a fabric has which names none, in words."""
    said = []
    for one in breakers:
        (signal,) = one.signals
        names = ", ".join(words(name) for name in signal.names)
        said.append(
            f"on: in front of each {one.scope}, opens at {signal.threshold:g} in a row ({names}), probes after {one.cooldown_s:g} s"
        )
    return "; ".join(said)


OTHERWISE: Mapping[str, str] = {
    "budget": "no default: publication asks for a cap",
    "deadline": "each tier has its own",
    "policy": "on: results are screened before a change; else what a fabric forbids",
    "validation_gate": "on: schemas, and credentials in the outcome; else what a fabric asks",
    "stall_watchdog": "half of the stage's time, 30 min at most",
    "circuit_breaker": default_breakers(UNNAMED),
}
"""What is said of a mechanism whose defaults are no single values."""


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
    """Settings that have a default, and it; without those that are off."""
    source: str
    otherwise: str = ""
    """What is said where nothing has a default of its own."""

    def answers(self, which: FailureClass) -> bool:
        """Whether it answers failures of that class."""
        return which in self.classes


@dataclass(frozen=True, slots=True)
class Measure:
    """A protection that is no mechanism: a limit, a judge or a figure, in one row of the page's second table."""

    name: str
    title: str
    does: str
    classes: tuple[FailureClass, ...]
    default: str
    source: str

    def answers(self, which: FailureClass) -> bool:
        """Whether it answers failures of that class."""
        return which in self.classes


def measures() -> tuple[Measure, ...]:
    """Those that S0 names beside the mechanisms, with what a fabric has by itself."""
    specification, verification = FailureClass.SPECIFICATION, FailureClass.VERIFICATION
    replans = _STANDARD.limits.replans_per_stage
    return (
        Measure(
            "replan_budget",
            "Replan budget",
            "lets a stage be planned anew so often; then the decision table decides",
            (specification, verification),
            f"on: {replans} replans a stage, at most {replans} without a deviation",
            "semantics.md 1 and 3",
        ),
        Measure(
            "plan_critic",
            "Plan critic",
            "has an agent judge a plan before it is handed out",
            (specification,),
            "off: a fabric names it (topology.plan_critic)",
            "semantics.md 9",
        ),
        Measure(
            "outcome_oracle",
            "Outcome oracle",
            "asks the finished outcome; what does not keep its conditions is no success",
            (specification, verification),
            "off: a fabric gives its checks (gates.oracle)",
            "semantics.md 9",
        ),
        Measure(
            "cost_per_success",
            "Cost per success",
            "says what a success cost: all that was spent, divided by the runs that succeeded",
            (verification,),
            "on: on each fabric's page, by its oracle, else by its gates",
            "semantics.md 7",
        ),
    )


def protections() -> list[Protection]:
    """All of them, in guard order."""
    return [
        Protection(
            place,
            module.NAME,
            MARGINS[module.NAME].title,
            STOPS[module.NAME],
            MECHANISM_CLASSES[module.NAME],
            tuple(_defaults(module.NAME)),
            SOURCES.get(module.NAME, SECTION),
            OTHERWISE.get(module.NAME, "nothing to set"),
        )
        for place, module in enumerate(ORDER, 1)
    ]


_STANDARD = FlowPolicy(budget=Budget(run_usd_micros=1))
"""A policy that says nothing; the money cap has no default and is left out below."""


def _defaults(name: str) -> list[tuple[str, str]]:
    row = MARGINS[name]
    if row.policy is None:
        return []
    part: BaseModel = row.policy(_STANDARD)
    fields = type(part).model_fields
    names = row.fields or tuple(fields)
    found = ((key, getattr(part, key)) for key in names if fields[key].get_default() is not PydanticUndefined)
    return [(key, _said(value)) for key, value in found if value not in (None, (), {}, "")]


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple | list | frozenset):
        return names_of(value) if isinstance(value, frozenset) else ", ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else str(value)
