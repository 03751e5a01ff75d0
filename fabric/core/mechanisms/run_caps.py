"""What one run may grow to: events in its journal, bytes of payload, calls pending at once.

Stops: a run whose journal, database rows and memory grow without end, before the call that would go past a cap is issued. All are limits: N pass, the
N+1st trips. Of the events the last tenth is kept for what a run that may not go on still has to write: answers of calls that are out, the reaction,
unwinding, the end. Does not stop: one content that is too large, which is refused as it comes (``handlers/results.py``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fabric.core.frozen import value
from fabric.core.mechanisms.contract import Proposal, ProposalKind, Scope, View
from fabric.core.policy import Limits as Config
from fabric.core.saga import MUTATES
from fabric.core.taxonomy import Cause
from fabric.core.verdict import PASS, Evidence, Trip, Verdict

if TYPE_CHECKING:
    from fabric.core.envelope import Event
    from fabric.core.policy import FlowPolicy

NAME = "run_caps"
SCOPE = Scope.RUN
APPLIES_TO: frozenset[ProposalKind] = frozenset({"model", "tool", "retry", "spawn"})
OBSERVES: frozenset[str] = frozenset()


@value()
class State:
    """The run itself counts its events, bytes and pending calls."""


def config(policy: FlowPolicy) -> Config:
    """Cuts this mechanism's part out of the policy."""
    return policy.limits


def observe(state: State, event: Event) -> State:
    """Observes nothing."""
    return state


def events_for_work(limits: Config) -> int:
    """How many events a journal may have when a call is issued: all but the last tenth."""
    return limits.run_events * 9 // 10


def check(config: Config, state: State, proposal: Proposal, view: View) -> Verdict:
    """Refuses what would go past a cap."""
    for cause, limit, observed, unit in _counts(config, proposal, view):
        if observed > limit:
            message = f"the run may have at most {limit:,} {unit}, and this would be {observed:,}"
            details: dict[str, Any] = {"target": proposal.target}
            return Trip(NAME, cause, Evidence(limit, observed, unit, "run", details=details), message)
    return PASS


def _counts(config: Config, proposal: Proposal, view: View) -> list[tuple[Cause, int, int, str]]:
    run = view.run
    events = 2 if proposal.effect in MUTATES else 1  # Its way back is journaled before it.
    found = [
        (Cause.EVENT_CAP, events_for_work(config), run.seq + events, "events"),
        (Cause.PAYLOAD_CAP, config.run_payload_bytes, run.content_bytes + 1, "payload bytes"),
    ]
    if proposal.kind in ("model", "tool") and proposal.attempt == 1:
        found.append((Cause.PENDING_CAP, config.pending_calls, len(run.pending) + 1, "calls pending"))
    return found
