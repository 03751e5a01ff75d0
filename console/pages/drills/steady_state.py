"""Shows a drill's steady state at three moments, and its disturbance: what, where, and how far it could reach."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from console.words.drills import STRIKES, DrillMark
from fabric.core.values.taxonomy import FailureType
from fabric.core.values.units import JSON
from fabric.core.values.words import dollars, duration
from simulator.drills.selectors.drill_views import DrillView
from simulator.faults.catalogue import FaultRefused
from simulator.scenarios.baseline.bounds import LONGEST_S
from simulator.scenarios.spec.scenario import Scenario
from simulator.scenarios.spec.toml import parse_scenario
from simulator.texts.problems import Unreadable

PHASES = ("before", "during", "after")
DISTURBED = "not checked during the fault"
"""Reason why a scenario's disturbed run need not meet the steady state."""
SEAMS: Mapping[FailureType, tuple[str, str]] = {
    FailureType.TOOL_LOOP: ("model calls of the first worker with a tool that only reads", "its first turn"),
    FailureType.DEADLOCK: ("model calls of the planner", "its first plan"),
    FailureType.COST_OVERRUN: ("model calls of the aggregator", "its first answer"),
    FailureType.PROVIDER: ("model calls of the finalizer", "its first call"),
    FailureType.SCHEMA_GROUNDING: ("model calls of the finalizer", "its first answer"),
    FailureType.PLAN_MALFORMED: ("model calls of the planner", "its first plan"),
    FailureType.NO_PROGRESS: ("model calls of the first worker with a tool that only reads", "its first turn"),
    FailureType.UNSAFE_OUTPUT: ("model calls of the finalizer", "its first answer"),
}
"""Place at which the failure of a cell strikes, and its start; total over ``FailureType``."""


class Fact(NamedTuple):
    """A line about the disturbance."""

    name: str
    said: str


@dataclass(frozen=True, slots=True)
class Probe:
    """One probe."""

    said: str
    why_not: str


@dataclass(frozen=True, slots=True)
class Phase:
    """The steady state at one moment."""

    name: str
    mark: DrillMark
    answer: str
    probes: tuple[Probe, ...]

    @property
    def held_probes(self) -> str:
        """Return the probes within tolerance, on one line."""
        return ", ".join(one.said for one in self.probes if not one.why_not)

    @property
    def broken_probes(self) -> tuple[Probe, ...]:
        """Return the probes outside tolerance."""
        return tuple(one for one in self.probes if one.why_not)


def list_phases(seen: DrillView) -> list[Phase]:
    """Return the phases before, during and after; empty if the drill recorded none."""
    steady = seen.body.get("steady")
    if not isinstance(steady, dict):
        return []
    scenario = _stored_scenario(seen)
    free = {} if scenario is not None and scenario.expect else {"during": DISTURBED} if seen.scenario else {}
    held = {**free, **steady.get("not_judged", {})}
    return [_phase(name, steady.get(name), held=str(held.get(name, ""))) for name in PHASES]


def _phase(name: str, told: JSON, *, held: str) -> Phase:
    """Return one phase. ``held``: reason why a missed probe does not count; empty if it counts."""
    word = name.capitalize()
    if not told:
        return Phase(name, DrillMark(word, "neutral", "never", "plain"), "not asked", ())
    probes = tuple(Probe(_probe_words(one), str(one.get("why_not") or "")) for one in told)
    met = sum(not one.why_not for one in probes)
    whole = met == len(probes)
    answer = f"{met} of {len(probes)} within tolerance"
    if whole:
        return Phase(name, DrillMark(word, "ok", "check", "plain"), answer, probes)
    mark = DrillMark(word, "warn" if held else "danger", "alert", "plain")
    return Phase(name, mark, f"{answer}; not compared with it: {held}" if held else answer, probes)


def _probe_words(probe: Mapping[str, JSON]) -> str:
    """Return a probe in words: its own text, or its name and output."""
    if probe.get("said"):
        return str(probe["said"])
    name, output = str(probe.get("probe", "")), probe.get("output")
    match name, output:
        case "cost_usd_micros", int():
            return f"cost {dollars(output)}"
        case "duration_s", int() | float():
            return f"took {duration(output)}"
        case "state", str():
            return f"run {output}"
    shown = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
    return f"{name.replace('_', ' ')} {shown}"[:120]


# -- what was disturbed ------------------------------------------------------------------------------------------------


def list_disturbance_facts(seen: DrillView) -> list[Fact]:
    """Return the fault, its seam, its reach, and the conditions that end the drill early."""
    faults = _scenario(seen) if seen.scenario else _cell(seen)
    return [*faults, Fact("blast radius", _radius(seen)), Fact("aborts if", _aborts(seen)), *_put_back(seen)]


def _cell(seen: DrillView) -> list[Fact]:
    assert seen.failure is not None
    where, start = SEAMS[seen.failure]
    return [Fact("fault", f"{STRIKES[seen.failure]}, from {start} on"), Fact("injected at", where)]


def _scenario(seen: DrillView) -> list[Fact]:
    struck = seen.body.get("struck")
    counts: Mapping[str, int] = struck if isinstance(struck, dict) else {}
    try:
        scenario = parse_scenario(seen.source, origin=seen.scenario)
        disturbed = scenario.disturbances(seen.parameters)
    except (Unreadable, FaultRefused):
        return [
            Fact("fault", f"{name.replace('_', ' ')}, hit {count} time{'s' if count != 1 else ''}")
            for name, count in counts.items()
        ]
    facts = [Fact("fault", _fault(one.fault.name, one.fault.says, counts)) for one in disturbed]
    return [*facts, Fact("injected at", ", ".join(dict.fromkeys(f"{one.fault.port} calls" for one in disturbed)))]


def _fault(name: str, says: str, counts: Mapping[str, int]) -> str:
    struck = f", hit {counts[name]} time{'s' if counts[name] != 1 else ''}" if name in counts else ""
    return f"{says}{struck}"


def _radius(seen: DrillView) -> str:
    if seen.mode == "virtual":
        return "1 run, virtual clock, no call leaves, $0.00"
    return "1 run on this installation's workers, marked as a drill's, outside its budgets"


def _aborts(seen: DrillView) -> str:
    conditions = [f"{dollars(seen.cap_usd_micros)} spent by its meter"] if seen.cap_usd_micros else []
    conditions += [f"{duration(seen.cap_s)} pass"] if seen.cap_s else []
    conditions += _own_conditions(seen)
    if seen.mode == "virtual":
        conditions += ["an invariant fails", f"{LONGEST_S:,.0f} s of simulated time pass"]
    return ", or ".join(conditions) or "a person stops it"


def _own_conditions(seen: DrillView) -> Sequence[str]:
    """Return the abort conditions that the scenario sets."""
    scenario = _stored_scenario(seen)
    if scenario is None:
        return ()
    given = scenario.abort
    cost = [f"{dollars(given.cost_usd_micros)} spent"] if given.cost_usd_micros else []
    return [*cost, *([f"{duration(given.virtual_s)} of its run pass"] if given.virtual_s else [])]


def _stored_scenario(seen: DrillView) -> Scenario | None:
    try:
        return parse_scenario(seen.source, origin=seen.scenario) if seen.scenario else None
    except Unreadable:
        return None


def _put_back(seen: DrillView) -> list[Fact]:
    rollback = seen.body.get("rollback")
    if isinstance(rollback, dict):
        parts = str(rollback.get("said") or "everything")
        return [Fact("rollback", parts if rollback.get("done") else f"not everything: {parts}")]
    steady = seen.body.get("steady")
    after = steady.get("after") if isinstance(steady, dict) else None
    return [Fact("rollback", "done before the check run")] if after else []
