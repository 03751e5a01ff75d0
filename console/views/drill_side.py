"""What stands beside a drill's chains: its steady state at three moments, and what was disturbed, where, and how far it could reach."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from console.views.drill_words import STRIKES, Mark
from fabric.core.taxonomy import FailureType
from fabric.core.words import dollars, duration
from simulator.drills.baseline import LONGEST_S
from simulator.drills.selectors import DrillView
from simulator.scenarios.catalogue import Refused
from simulator.scenarios.problems import Unreadable
from simulator.scenarios.reading import read
from simulator.scenarios.scenario import Scenario

JSON = Any
PHASES = ("before", "during", "after")
DISTURBED = "it is disturbed then"
"""Why the steady state of a scenario does not have to hold during its disturbed run."""
SEAMS: Mapping[FailureType, tuple[str, str]] = {
    FailureType.TOOL_LOOP: ("model port, the first worker with a tool that only reads", "its first turn"),
    FailureType.DEADLOCK: ("model port, the planner", "its first plan"),
    FailureType.COST_OVERRUN: ("model port, the aggregator", "its first answer"),
    FailureType.PROVIDER: ("model port, the finalizer", "its first call"),
    FailureType.SCHEMA_GROUNDING: ("model port, the finalizer", "its first answer"),
    FailureType.PLAN_MALFORMED: ("model port, the planner", "its first plan"),
    FailureType.NO_PROGRESS: ("model port, the first worker with a tool that only reads", "its first turn"),
    FailureType.UNSAFE_OUTPUT: ("model port, the finalizer", "its first answer"),
}
"""Where the failure of a cell strikes, and from what on; total over ``FailureType``."""


class Fact(NamedTuple):
    """A line of what was disturbed."""

    name: str
    said: str


@dataclass(frozen=True, slots=True)
class Probe:
    """One thing that was asked."""

    said: str
    why_not: str


@dataclass(frozen=True, slots=True)
class Phase:
    """The steady state at one moment."""

    name: str
    mark: Mark
    answer: str
    probes: tuple[Probe, ...]

    @property
    def held(self) -> str:
        """What was within, on one line."""
        return ", ".join(one.said for one in self.probes if not one.why_not)

    @property
    def broken(self) -> tuple[Probe, ...]:
        """What was not."""
        return tuple(one for one in self.probes if one.why_not)


def steady_of(seen: DrillView) -> list[Phase]:
    """Before, during and after; empty where the drill tells none of them."""
    steady = seen.body.get("steady")
    if not isinstance(steady, dict):
        return []
    free = {"during": DISTURBED} if seen.scenario else {}
    held = {**free, **steady.get("not_judged", {})}
    return [_phase(name, steady.get(name), held=str(held.get(name, ""))) for name in PHASES]


def _phase(name: str, told: JSON, *, held: str) -> Phase:
    """``held``: why what was not met is not held against the cell; empty: it is."""
    word = name.capitalize()
    if not told:
        return Phase(name, Mark(word, "neutral", "never", "plain"), "not asked", ())
    probes = tuple(Probe(_said(one), str(one.get("why_not") or "")) for one in told)
    met = sum(not one.why_not for one in probes)
    whole = met == len(probes)
    answer = f"{met} of {len(probes)} within tolerance"
    if whole:
        return Phase(name, Mark(word, "ok", "check", "plain"), answer, probes)
    mark = Mark(word, "warn" if held else "danger", "alert", "plain")
    return Phase(name, mark, f"{answer}; not held against it: {held}" if held else answer, probes)


def _said(probe: Mapping[str, JSON]) -> str:
    """A probe in words: its own, or its name with what it put out."""
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


def disturbance_of(seen: DrillView) -> list[Fact]:
    """The fault, its seam, how far it reaches, and what ends the drill early."""
    faults = _scenario(seen) if seen.scenario else _cell(seen)
    return [*faults, Fact("blast radius", _radius(seen)), Fact("aborts if", _aborts(seen)), *_put_back(seen)]


def _cell(seen: DrillView) -> list[Fact]:
    assert seen.failure is not None
    where, start = SEAMS[seen.failure]
    return [Fact("fault", f"{STRIKES[seen.failure]}, from {start} on"), Fact("seam", where)]


def _scenario(seen: DrillView) -> list[Fact]:
    struck = seen.body.get("struck")
    counts: Mapping[str, int] = struck if isinstance(struck, dict) else {}
    try:
        scenario = read(seen.source, origin=seen.scenario)
        disturbed = scenario.disturbances(seen.parameters)
    except (Unreadable, Refused):
        return [Fact("fault", f"{name.replace('_', ' ')}, struck {count} times") for name, count in counts.items()]
    facts = [Fact("fault", _fault(one.fault.name, one.fault.says, counts)) for one in disturbed]
    return [*facts, Fact("seam", ", ".join(dict.fromkeys(f"{one.fault.port} port" for one in disturbed)))]


def _fault(name: str, says: str, counts: Mapping[str, int]) -> str:
    struck = f", struck {counts[name]} time{'s' if counts[name] != 1 else ''}" if name in counts else ""
    return f"{says}{struck}"


def _radius(seen: DrillView) -> str:
    if seen.mode == "virtual":
        return "1 run, virtual clock, no call leaves, $0.00"
    return "1 run on this installation's workers, marked as a drill's, in none of its budgets"


def _aborts(seen: DrillView) -> str:
    conditions = [f"{dollars(seen.cap_usd_micros)} spent by its meter"] if seen.cap_usd_micros else []
    conditions += [f"{duration(seen.cap_s)} pass"] if seen.cap_s else []
    conditions += _own_conditions(seen)
    if seen.mode == "virtual":
        conditions += ["a promise of the engine is broken", f"{LONGEST_S:,.0f} s of virtual time pass"]
    return ", or ".join(conditions) or "somebody stops it"


def _own_conditions(seen: DrillView) -> Sequence[str]:
    """What a scenario says itself."""
    scenario = _read(seen)
    if scenario is None:
        return ()
    given = scenario.abort
    cost = [f"{dollars(given.cost_usd_micros)} spent"] if given.cost_usd_micros else []
    return [*cost, *([f"{duration(given.virtual_s)} of its run pass"] if given.virtual_s else [])]


def _read(seen: DrillView) -> Scenario | None:
    try:
        return read(seen.source, origin=seen.scenario) if seen.scenario else None
    except Unreadable:
        return None


def _put_back(seen: DrillView) -> list[Fact]:
    rollback = seen.body.get("rollback")
    if isinstance(rollback, dict):
        parts = str(rollback.get("said") or "everything")
        return [Fact("put back", parts if rollback.get("done") else f"not everything: {parts}")]
    steady = seen.body.get("steady")
    after = steady.get("after") if isinstance(steady, dict) else None
    return [Fact("put back", "everything, before the run afterwards began")] if after else []
