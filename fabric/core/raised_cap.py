"""A person gives one run more money: an approval of a cost overrun names the new cap (semantics.md 4 "Human waits").

The cap is the run's, in micro-dollars, for all that it spends from its start on. Caps of stages and agents and budgets that runs share stay what
they are. A child run has no cap of its own to raise: its money is reserved from its parent's.
"""

from __future__ import annotations

from fabric.core import events as ev
from fabric.core.inputs import DecisionMade
from fabric.core.mechanisms import budget, state_of
from fabric.core.taxonomy import FailureType
from fabric.core.work import Work

MOST_USD_MICROS = 10**15


def takes_cap(work: Work, item: str, failure_type: FailureType | None) -> bool:
    """Whether an approval of that question may name a new cap."""
    return item == "failure" and failure_type is FailureType.COST_OVERRUN and work.run.family.lineage is None


def problem(work: Work, fact: ev.EscalationOpened, given: DecisionMade) -> str:
    """Why the cap that an answer names cannot be given; empty: it can, or none is named."""
    cap = given.cap_usd_micros
    if cap is None:
        return ""
    if given.verb != "approve" or fact.item != "failure" or fact.failure_type is not FailureType.COST_OVERRUN:
        return "a new cap goes with the approval of a cost overrun, and this is another question or answer"
    if work.run.family.lineage is not None:
        return "a child run spends its parent's money: it has no cap of its own to raise"
    before = _cap(work)
    if cap <= before:
        return f"the new cap of {_dollars(cap)} is not above the present one of {_dollars(before)}"
    session = work.compiled.spec.policy.budget.session_usd_micros
    most = MOST_USD_MICROS if session is None else session
    if cap > most:
        whose = "any run may spend" if session is None else "its session may spend"
        return f"the new cap of {_dollars(cap)} is above the {_dollars(most)} that {whose}"
    return ""


def raise_to(work: Work, fact: ev.EscalationOpened, given: DecisionMade) -> None:
    """Journals the new cap, where the answer names one; every call from now on is judged by it."""
    if given.cap_usd_micros is not None:
        work.emit(
            ev.CapRaised(
                cap_usd_micros=given.cap_usd_micros,
                before_usd_micros=_cap(work),
                actor=given.actor,
                escalation_id=fact.escalation_id,
            )
        )


def _cap(work: Work) -> int:
    return budget.cap(work.compiled.spec.policy.budget, state_of(work.run.guards, budget))


def _dollars(usd_micros: int) -> str:
    return f"${usd_micros / 1_000_000:,.6f}"
