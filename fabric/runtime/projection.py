"""What the tables beside the journal show of a run: its row's columns, its escalations. Pure functions of state and facts."""

from __future__ import annotations

from collections.abc import Sequence

from fabric.core import events as ev
from fabric.core.flow import RunState
from fabric.core.mechanisms import budget, state_of
from fabric.core.run import Run, visible_state
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
        recovered=run.recovered,
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
    return ""


def escalations(emitted: Sequence[Emitted]) -> tuple[EscalationChange, ...]:
    """The escalation rows that these facts open or close."""
    changes = []
    for one in emitted:
        fact = one.event.fact
        if isinstance(fact, ev.EscalationOpened):
            changes.append(_opened(one, fact))
        elif isinstance(fact, ev.EscalationDecided):
            changes.append(_closed(one, fact.escalation_id, fact.verb, fact.actor, system=fact.system))
        elif isinstance(fact, ev.EscalationWithdrawn):
            changes.append(_closed(one, fact.escalation_id, "withdrawn", fact.reason, system=True))
    return tuple(changes)


def _opened(one: Emitted, fact: ev.EscalationOpened) -> EscalationChange:
    return EscalationChange(
        escalation_id=fact.escalation_id,
        step_id=fact.step_id or fact.scope,
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
    )


def _closed(one: Emitted, escalation_id: str, verb: str, actor: str, *, system: bool) -> EscalationChange:
    return EscalationChange(
        escalation_id=escalation_id,
        step_id="",
        item="",
        reason="",
        failure_type="",
        stage="",
        required_role="",
        verbs=(),
        digest="",
        due_at=0,
        opened_at=0,
        content=b"",
        decided_at=one.event.at,
        verb=verb,
        decided_by=actor,
        by_system=system,
    )
