"""Projections of a run in the tables beside the journal: its row's columns, its reviews. Pure functions of state and
facts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fabric.core import events as ev
from fabric.core.decision.work import EmittedFact
from fabric.core.ladders.waits import waits_for_provider
from fabric.core.mechanisms import budget, find_state
from fabric.core.people.eligibility import ALONE, ReviewAsked, list_reviewers
from fabric.core.state.living import visible_state
from fabric.core.state.run import Run
from fabric.core.values.fingerprint import encode
from fabric.core.values.flow import PROVIDER_AWAY, RunState
from fabric.core.values.frozen import replace
from fabric.core.values.words import instant_exact
from fabric.runtime.ports.batch_parts import ReviewChange, RunColumns, names_text


def columns(run: Run) -> RunColumns:
    """Return the run's row as of now."""
    ledger, trouble = find_state(run.guards, budget), run.trouble
    return RunColumns(
        state=visible_state(run),
        stage=run.stage if run.started_at else "",
        epoch=run.epoch,
        cost_usd_micros=ledger.spent_usd_micros,
        tokens=ledger.spent_tokens,
        reason=run.reason[:500] if run.terminal else _waits_for(run),
        recovered=run.recovered and run.state is RunState.COMPLETED,
        truncated=run.truncated,
        cause=trouble.cause.value if trouble.cause is not None else "",
        failure=trouble.failure.value if trouble.failure is not None else "",
        fired=names_text(trouble.fired) if trouble.fired else "",
        breakers=names_text(trouble.breakers) if trouble.breakers else "",
        unconfirmed_usd_micros=ledger.unconfirmed_usd_micros,
        spent_on=spent_text(ledger),
        started_at=run.started_at or None,
        ended_at=run.ended_at or None,
        deadline_at=run.deadline_at,
    )


def spent_text(ledger: budget.State) -> str:
    """Return the cost by agent and model for the column ``spent_on``; "" before the first call."""
    return encode({"agent": ledger.by_agent, "model": ledger.by_model}).decode() if ledger.by_agent else ""


def _waits_for(run: Run) -> str:
    if run.state is RunState.QUARANTINED:  # The quarantine comes before all other waits.
        return next((q.fact.reason[:500] for q in run.reviews.values() if q.fact.item == "quarantine"), "")
    held = run.control.paused
    if held is not None:
        return (f"paused by {held.actor}" + (f": {held.reason}" if held.reason else ""))[:500]
    for review in run.reviews.values():
        return review.fact.reason[:500]
    away = waits_for_provider(run)
    if away is None:
        return ""
    until = instant_exact(run.timers[away.issued.command_id])
    return f"{PROVIDER_AWAY}{until}{f': {away.said}' if away.said else ''}"[:500]


def review_changes(emitted: Sequence[EmittedFact]) -> tuple[ReviewChange, ...]:
    """Return the review rows that these facts open, change or close."""
    changes = []
    for one in emitted:
        change = _CHANGES.get(one.event.fact.kind)
        if change is not None:
            changes.append(change(one, one.event.fact))
    return tuple(changes)


def _find_subject(fact: ev.ReviewOpened) -> str:
    """Return the subject that may have at most one open review: a call, a step, or another one by scope."""
    return fact.scope if fact.item == "pre_action" else fact.step_id or fact.scope


def _project_opening(one: EmittedFact, fact: ev.ReviewOpened) -> ReviewChange:
    # The run does not wait for a follow-up, so it counts as closed.
    closed: dict[str, Any] = {"decided_at": one.event.at, "by_system": True} if fact.item == "follow_up" else {}
    return _change(
        fact.review_id,
        step_id=_find_subject(fact),
        item=fact.item,
        reason=fact.reason,
        failure_type=fact.failure_type or "",
        stage=fact.stage,
        required_role=fact.required_role,
        verbs=fact.verbs,
        digest=fact.digest,
        due_at=fact.due_at,
        opened_at=one.event.at,
        content=one.content or b"{}",
        approvals=fact.approvals,
        asked=list_reviewers(ReviewAsked(required_role=fact.required_role, reviewers=fact.reviewers)),
        onward_to=fact.onward_to,
        barred=fact.barred,
        remind_at=fact.remind_at,
        onward_at=fact.onward_at,
        score=fact.score,
        tau=fact.tau,
        **closed,
    )


def _project_approval(one: EmittedFact, fact: ev.ReviewApproved) -> ReviewChange:
    return _change(fact.review_id, agreed=fact.agreed)


def _project_edit(one: EmittedFact, fact: ev.ReviewEdited) -> ReviewChange:
    said = {"agreed": fact.agreed, "proposed_by": fact.proposed_by}
    return _change(fact.review_id, digest=fact.digest, content=one.content or b"{}", **said)


def _project_reminder(one: EmittedFact, fact: ev.ReviewReminded) -> ReviewChange:
    return _change(fact.review_id, reminded=True, onward=fact.step == "onward")


def _project_decision(one: EmittedFact, fact: ev.ReviewDecided) -> ReviewChange:
    closed = _project_close(one, fact.review_id, fact.verb, fact.actor, system=fact.system)
    return replace(closed, alone=ALONE in fact.roles)


def _withdrawn(one: EmittedFact, fact: ev.ReviewWithdrawn) -> ReviewChange:
    return _project_close(one, fact.review_id, "withdrawn", fact.reason, system=True)


def _project_close(one: EmittedFact, review_id: str, verb: str, actor: str, *, system: bool) -> ReviewChange:
    return _change(review_id, decided_at=one.event.at, verb=verb, decided_by=actor, by_system=system)


def _change(review_id: str, **said: Any) -> ReviewChange:
    return ReviewChange(**{"review_id": review_id, **_NOTHING, **said})


_NOTHING: Mapping[str, Any] = {
    **dict.fromkeys(("step_id", "item", "reason", "failure_type", "stage", "required_role", "digest"), ""),
    "verbs": (),
    "due_at": 0,
    "opened_at": 0,
    "content": b"",
}
_CHANGES: Mapping[str, Callable[[EmittedFact, Any], ReviewChange]] = {
    "review_opened": _project_opening,
    "review_approved": _project_approval,
    "review_edited": _project_edit,
    "review_reminded": _project_reminder,
    "review_decided": _project_decision,
    "review_withdrawn": _withdrawn,
}
