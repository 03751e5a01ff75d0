"""What the tables beside the journal show of a run: its row's columns, its escalations. Pure functions of state and facts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fabric.core import events as ev
from fabric.core.eligibility import ALONE, Asked, wanted
from fabric.core.flow import PROVIDER_AWAY, RunState
from fabric.core.frozen import replace
from fabric.core.living import visible_state
from fabric.core.mechanisms import budget, state_of
from fabric.core.run import Run
from fabric.core.waits import waits_for_provider
from fabric.core.words import instant_exact
from fabric.core.work import Emitted
from fabric.runtime.batch_parts import EscalationChange, RunColumns


def columns(run: Run) -> RunColumns:
    """The run row as it should read now."""
    ledger = state_of(run.guards, budget)
    return RunColumns(
        state=visible_state(run),
        stage=run.stage if run.started_at else "",
        epoch=run.epoch,
        cost_usd_micros=ledger.spent_usd_micros,
        tokens=ledger.spent_tokens,
        reason=run.reason[:500] if run.terminal else _waits_for(run),
        recovered=run.recovered and run.state is RunState.COMPLETED,
        truncated=run.truncated,
        started_at=run.started_at or None,
        ended_at=run.ended_at or None,
        deadline_at=run.deadline_at,
    )


def _waits_for(run: Run) -> str:
    if run.state is RunState.QUARANTINED:  # Whatever else it waits for can wait for this.
        return next((q.fact.reason[:500] for q in run.questions.values() if q.fact.item == "quarantine"), "")
    held = run.control.paused
    if held is not None:
        return (f"paused by {held.actor}" + (f": {held.reason}" if held.reason else ""))[:500]
    for question in run.questions.values():
        return question.fact.reason[:500]
    away = waits_for_provider(run)
    if away is None:
        return ""
    until = instant_exact(run.timers[away.issued.command_id])
    return f"{PROVIDER_AWAY}{until}{f': {away.said}' if away.said else ''}"[:500]


def escalations(emitted: Sequence[Emitted]) -> tuple[EscalationChange, ...]:
    """The escalation rows that these facts open, change or close."""
    changes = []
    for one in emitted:
        change = _CHANGES.get(one.event.fact.kind)
        if change is not None:
            changes.append(change(one, one.event.fact))
    return tuple(changes)


def _about(fact: ev.EscalationOpened) -> str:
    """What at most one question that is open may be about: a call, a step, or whatever else its scope names."""
    return fact.scope if fact.item == "pre_action" else fact.step_id or fact.scope


def _opened(one: Emitted, fact: ev.EscalationOpened) -> EscalationChange:
    # Nobody waits for a ticket: it is closed as far as the run is concerned.
    closed: dict[str, Any] = {"decided_at": one.event.at, "by_system": True} if fact.item == "ticket" else {}
    return _change(
        fact.escalation_id,
        step_id=_about(fact),
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
        asked=wanted(Asked(required_role=fact.required_role, reviewers=fact.reviewers)),
        onward_to=fact.onward_to,
        barred=fact.barred,
        remind_at=fact.remind_at,
        onward_at=fact.onward_at,
        score=fact.score,
        tau=fact.tau,
        **closed,
    )


def _approved(one: Emitted, fact: ev.EscalationApproved) -> EscalationChange:
    return _change(fact.escalation_id, agreed=fact.agreed)


def _edited(one: Emitted, fact: ev.EscalationEdited) -> EscalationChange:
    said = {"agreed": fact.agreed, "proposed_by": fact.proposed_by}
    return _change(fact.escalation_id, digest=fact.digest, content=one.content or b"{}", **said)


def _reminded(one: Emitted, fact: ev.EscalationReminded) -> EscalationChange:
    return _change(fact.escalation_id, reminded=True, onward=fact.step == "onward")


def _decided(one: Emitted, fact: ev.EscalationDecided) -> EscalationChange:
    closed = _closed(one, fact.escalation_id, fact.verb, fact.actor, system=fact.system)
    return replace(closed, alone=ALONE in fact.roles)


def _withdrawn(one: Emitted, fact: ev.EscalationWithdrawn) -> EscalationChange:
    return _closed(one, fact.escalation_id, "withdrawn", fact.reason, system=True)


def _closed(one: Emitted, escalation_id: str, verb: str, actor: str, *, system: bool) -> EscalationChange:
    return _change(escalation_id, decided_at=one.event.at, verb=verb, decided_by=actor, by_system=system)


def _change(escalation_id: str, **said: Any) -> EscalationChange:
    return EscalationChange(**{"escalation_id": escalation_id, **_NOTHING, **said})


_NOTHING: Mapping[str, Any] = {
    **dict.fromkeys(("step_id", "item", "reason", "failure_type", "stage", "required_role", "digest"), ""),
    "verbs": (),
    "due_at": 0,
    "opened_at": 0,
    "content": b"",
}
_CHANGES: Mapping[str, Callable[[Emitted, Any], EscalationChange]] = {
    "escalation_opened": _opened,
    "escalation_approved": _approved,
    "escalation_edited": _edited,
    "escalation_reminded": _reminded,
    "escalation_decided": _decided,
    "escalation_withdrawn": _withdrawn,
}
