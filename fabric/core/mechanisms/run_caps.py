"""Caps on the size of one run: events in its journal, bytes of payload, calls pending at once.

Stops: a run whose journal, database rows and memory grow without end, before the call that would pass a cap is
issued. All are limits: N pass, the N+1st trips. The last tenth of the events is reserved for the end of a stopped
run: answers of calls that are out, the reaction, unwinding, the end. Does not stop: one content that is too large,
which is refused on arrival (``handlers/results.py``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fabric.core.mechanisms.contract import Proposal, ProposalKind, Scope, View
from fabric.core.spec.policies.limits import Limits as Config
from fabric.core.values.frozen import value
from fabric.core.values.saga import MUTATES
from fabric.core.values.taxonomy import PASS, Cause, Evidence, FailureClass, Trip, Verdict

if TYPE_CHECKING:
    from fabric.core.events.envelope import Event
    from fabric.core.spec.policies.flow_policy import FlowPolicy

NAME = "run_caps"
TITLE = "Event, payload and call caps"
STOPS = "journals, payloads and calls without end"
PAGE = "docs/specification/protections.md"
CLASSES = (FailureClass.VERIFICATION,)
SETTINGS: tuple[str, ...] = (
    "limits.run_events",
    "limits.run_payload_bytes",
    "limits.content_bytes",
    "limits.pending_calls",
)
UNCOUNTED = ""
SCOPE = Scope.RUN
APPLIES_TO: frozenset[ProposalKind] = frozenset({"model", "tool", "retry", "spawn"})
OBSERVES: frozenset[str] = frozenset()


@value()
class State:
    """The run itself counts its events, bytes and pending calls."""


def config(policy: FlowPolicy) -> Config:
    """Return this mechanism's part of the policy."""
    return policy.limits


def observe(state: State, event: Event) -> State:
    """Return the state unchanged."""
    return state


def events_for_work(limits: Config) -> int:
    """Return the most events that a journal may have when a call is issued. The last tenth of the cap stays free."""
    return limits.run_events * 9 // 10


def check(config: Config, state: State, proposal: Proposal, view: View) -> Verdict:
    """Refuse a call that would pass a cap."""
    for cause, limit, observed, unit in _counts(config, proposal, view):
        if observed > limit:
            message = f"the run may have at most {limit:,} {unit}, and this would be {observed:,}"
            details: dict[str, Any] = {"target": proposal.target}
            return Trip(NAME, cause, Evidence(limit, observed, unit, "run", details=details), message)
    return PASS


def _counts(config: Config, proposal: Proposal, view: View) -> list[tuple[Cause, int, int, str]]:
    run = view.run
    events = 2 if proposal.effect in MUTATES else 1  # Its compensation is journaled before it.
    found = [
        (Cause.EVENT_CAP, events_for_work(config), run.seq + events, "events"),
        (Cause.PAYLOAD_CAP, config.run_payload_bytes, run.content_bytes + 1, "payload bytes"),
    ]
    if proposal.kind in ("model", "tool") and proposal.attempt == 1:
        found.append((Cause.PENDING_CAP, config.pending_calls, len(run.pending) + 1, "calls pending"))
    return found
