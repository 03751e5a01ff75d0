"""The verdict about a scenario that was played: each decision against the fabric's own table, what was struck, and the steady state afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fabric.core.context import Compiled
from fabric.core.derivation import Derived, Rules, derived_all
from fabric.core.envelope import Event
from fabric.core.taxonomy import Tier
from simulator.drills.cells import Verdict
from simulator.scenarios.probes import Checked, Observed
from simulator.scenarios.scenario import Scenario

AROUND = frozenset({"store", "broker", "process", "clock"})
"""Ports at which a run asks nothing."""


@dataclass(frozen=True, slots=True)
class Line:
    """A decision: what the table says of the failure that it was about, and what was decided."""

    seq: int
    expected: str
    observed: str

    @property
    def same(self) -> bool:
        """Whether they are the same."""
        return self.expected == self.observed


def judged(
    scenario: Scenario,
    *,
    struck: Mapping[str, int],
    lines: Sequence[Line],
    during: Observed,
    usual: str,
    after: Sequence[Checked],
    handed: tuple[Verdict, str] | None = None,
) -> tuple[Verdict, str]:
    """What a scenario that was played to its end has shown, and what the verdict rests on where it is no pass. ``usual``: the state in which the undisturbed run ended. ``handed``: whether a circle of handovers
    ended as the fabric's limits promise; then those say which row it enters.
    """
    if not any(struck.values()):
        return "unknown", "nothing was struck: the run made no such call"
    failure = scenario.failure if handed is None else None
    if failure is not None and not lines:
        return "unknown", "the failure was met by nobody: no decision was made"
    if wrong := [line for line in lines if not line.same]:
        return "deviated", f"event {wrong[0].seq}: {wrong[0].observed}, where the table has {wrong[0].expected}"
    if handed is not None and handed[0] != "pass":
        return handed
    if scenario.failure is None and not lines and during.state != usual:
        return "deviated", f"it promises a run that ends as ever, {usual}, and it ended {during.state}"
    if lines and not _may_decide(scenario):
        observed = during.chain
        return "deviated", f"what strikes around a run promises no decision, and one was made: {observed}"
    if failure is not None and not lines[0].observed.startswith(f"{failure}: "):
        return "deviated", f"it names the row {failure}, and the first decision was {lines[0].observed}"
    if why := not_held(after):
        return "deviated", f"the steady state does not hold afterwards: {why}"
    return "pass", ""


def _may_decide(scenario: Scenario) -> bool:
    """Whether it strikes what a run asks; what befalls its workers, database, broker and clocks is no failure of its own."""
    return any(one.fault.port not in AROUND for one in scenario.disturbances())


def not_held(checked: Sequence[Checked]) -> str:
    """What of a steady state does not hold; empty: nothing."""
    return "; ".join(f"{one.probe}: {one.why_not}" for one in checked if not one.met)


def lines_of(events: Sequence[Event], tier: Tier, compiled: Compiled) -> tuple[Line, ...]:
    """Each decision that a journal holds, derived from it and the fabric's table alone."""
    found = derived_all(list(events), tier, lambda topology, version, policy: Rules.of(compiled, topology))
    return tuple(_line(one) for one in found)


def _line(one: Derived) -> Line:
    seen = f"{one.fact.failure_type or 'direct'}: {one.fact.reaction}"
    if one.verdict == "equal":
        return Line(one.seq, seen, seen)
    derived = ", ".join(f"{each.field} {each.derived}" for each in one.differences) or "another table"
    return Line(one.seq, derived, seen)
