"""How far a run is from its budgets: money and tokens of the run, and of the stage and the agent that are nearest to theirs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fabric.core.budget_caps import AGENT, RUN, STAGE, CapUnit, fabrics_cap
from fabric.core.mechanisms import budget, state_of
from fabric.core.policy import Budget
from fabric.core.run import Run
from fabric.core.spec import FabricSpec
from fabric.core.words import words
from fabric.selectors.margin import Margin

REFUSED = "a call that may need more is refused"


def measured(run: Run, spec: FabricSpec, now: int) -> Iterator[Margin]:
    """See ``run_margins.Measure``."""
    ledger, caps = state_of(run.guards, budget), spec.policy.budget
    for unit, name in _CAPPED:
        most = budget.cap_in_force(caps, ledger, RUN, unit)
        if most is not None:
            spent = budget.used(ledger, RUN, unit)
            yield Margin(name=name, observed=spent, limit=most, unit=unit, at_limit=REFUSED)
    for unit, name in _CAPPED:
        for kind, spent_by in _spent_by(ledger, unit):
            yield from _fullest(caps, ledger, kind, spent_by, unit, f"{name}, {kind}")


_CAPPED: tuple[tuple[CapUnit, str], ...] = (("usd_micros", "money"), ("tokens", "tokens"))


def _spent_by(ledger: budget.State, unit: CapUnit) -> tuple[tuple[str, Mapping[str, int]], ...]:
    if unit == "tokens":
        return (STAGE, ledger.tokens_by_stage), (AGENT, ledger.tokens_by_agent)
    return (STAGE, ledger.by_stage), (AGENT, ledger.by_agent)


def _fullest(
    caps: Budget, ledger: budget.State, kind: str, spent_by: Mapping[str, int], unit: CapUnit, name: str
) -> Iterator[Margin]:
    """The stage or agent that is nearest to its cap, by what it has spent of it: one may have been raised, and the others not."""
    of_all = fabrics_cap(caps, kind, unit)
    named = dict.fromkeys(caps.agents if kind == AGENT else (), 0)
    found = [
        (most, spent, one)
        for one, spent in {**named, **spent_by}.items()
        if (most := budget.cap_in_force(caps, ledger, f"{kind}:{one}", unit)) is not None
    ]
    if found or of_all is not None:
        limit, spent, where = max(
            found, key=lambda one: (one[1] / max(1, one[0]), one[2]), default=(of_all or 0, 0, "")
        )
        yield Margin(name=name, observed=spent, limit=limit, unit=unit, at_limit=REFUSED, where=words(where))
