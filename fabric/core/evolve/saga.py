"""Mutations, reconciliation, unwinding: everything in ``Run.saga``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fabric.core import events as ev
from fabric.core.events.envelope import Event
from fabric.core.evolve.parts import Evolve
from fabric.core.state.run import Run
from fabric.core.state.trouble import add_undoing
from fabric.core.values.flow import RunState
from fabric.core.values.frozen import replace
from fabric.core.values.saga import DOUBTFUL, EMPTY, STANDING, Errand, Mutation, Saga, Status, Unwinding, find_by_key


def _fold_intent(run: Run, event: Event, fact: ev.MutationIntended) -> Run:
    before = find_by_key(run.saga, fact.key)
    mutation = Mutation(
        key=fact.key,
        command_id=fact.command_id,
        attempt=fact.attempt,
        step_id=fact.step_id,
        call_id=fact.call_id,
        tool=fact.tool,
        effect=fact.effect,
        compensation=fact.compensation,
        carry_over=fact.carry_over,
        epoch=run.epoch,
        args_ref=fact.args_ref,
        deadline_at=fact.deadline_at,
        result_ref=before.result_ref if before is not None else "",
        doubted=before is not None and before.status in DOUBTFUL,
    )
    others = tuple(one for one in run.saga.mutations if one.key != fact.key)
    return replace(run, saga=replace(run.saga, mutations=(*others, mutation)))


def _change_mutation(run: Run, key: str, **changes: Any) -> Saga:
    mutations = tuple(replace(one, **changes) if one.key == key else one for one in run.saga.mutations)
    return replace(run.saga, mutations=mutations)


def _fold_settlement(run: Run, event: Event, fact: ev.MutationSettled) -> Run:
    changes: dict[str, Any] = {"status": fact.status, "cause": fact.cause or "", "reason": fact.reason}
    if fact.result_ref or event.content_ref:
        changes["result_ref"] = fact.result_ref or event.content_ref
    return replace(run, saga=_without_needless(_change_mutation(run, fact.key, **changes), fact.key))


def _without_needless(saga: Saga, key: str) -> Saga:
    """Take a mutation that was not executed after all off the undo list. A compensation that is out is still
    awaited.
    """
    unwinding, mutation = saga.unwinding, find_by_key(saga, key)
    if unwinding is None or mutation is None or mutation.status in STANDING:
        return saga
    current = unwinding.current
    if current is not None and current.key == key:
        if current.out:
            return saga
        current = None
    left = tuple(one for one in unwinding.left if one != key)
    return replace(saga, unwinding=replace(unwinding, current=current, left=left))


# -- reconciliation ----------------------------------------------------------------------------------------------------


def _reconciliation_issued(run: Run, event: Event, fact: ev.ReconciliationIssued) -> Run:
    before = next((one for one in run.saga.checks if one.command_id == fact.command_id), None)
    errand = Errand(
        command_id=fact.command_id,
        attempt=fact.attempt,
        key=fact.of_key,
        tool=fact.tool,
        own_key=fact.key,
        deadline_at=fact.deadline_at,
        args_ref=event.content_ref or fact.args_ref,
        failures=before.failures if before is not None else 0,
        command=fact.of_command,
        step_id=fact.step_id,
    )
    others = tuple(one for one in run.saga.checks if one.command_id != fact.command_id)
    return replace(run, saga=replace(run.saga, checks=(*others, errand)))


def _reconciliation_failed(run: Run, event: Event, fact: ev.ReconciliationFailed) -> Run:
    def fail_errand(one: Errand) -> Errand:
        return replace(one, out=False, not_before=fact.not_before, failures=one.failures + (not fact.interrupted))

    checks = tuple(fail_errand(one) if one.command_id == fact.command_id else one for one in run.saga.checks)
    return replace(run, saga=replace(run.saga, checks=checks))


def _reconciliation_ended(run: Run, event: Event, fact: ev.ReconciliationEnded) -> Run:
    checks = tuple(one for one in run.saga.checks if one.command_id != fact.command_id)
    saga = _change_mutation(run, fact.of_key, asked=True) if fact.found == "unknown" else run.saga
    return replace(run, saga=replace(saga, checks=checks))


# -- unwinding ---------------------------------------------------------------------------------------------------------


def _unwinding_started(run: Run, event: Event, fact: ev.UnwindingStarted) -> Run:
    unwinding = Unwinding(
        purpose=fact.purpose, left=fact.order, stage=fact.stage, reason=fact.reason, told_ref=event.content_ref
    )
    unwound = replace(run.saga, unwinding=unwinding)
    return replace(run, state=RunState.UNWINDING, saga=unwound, trouble=add_undoing(run.trouble))


def _current(run: Run, current: Errand | None, left: tuple[str, ...] | None = None, saga: Saga | None = None) -> Run:
    saga = saga or run.saga
    assert saga.unwinding is not None
    unwinding = replace(saga.unwinding, current=current, left=saga.unwinding.left if left is None else left)
    return replace(run, saga=replace(saga, unwinding=unwinding))


def _errand(run: Run) -> Errand:
    assert run.saga.unwinding is not None
    assert run.saga.unwinding.current is not None
    return run.saga.unwinding.current


def _compensation_issued(run: Run, event: Event, fact: ev.CompensationIssued) -> Run:
    assert run.saga.unwinding is not None
    before = run.saga.unwinding.current
    errand = Errand(
        command_id=fact.command_id,
        attempt=fact.attempt,
        key=fact.of_key,
        tool=fact.tool,
        own_key=fact.key,
        deadline_at=fact.deadline_at,
        args_ref=event.content_ref or fact.args_ref,
        failures=before.failures if before is not None else 0,
    )
    begun = run.saga.compensations + (before is None)
    return _current(run, errand, saga=replace(run.saga, compensations=begun))


def _compensation_failed(run: Run, event: Event, fact: ev.CompensationFailed) -> Run:
    errand = _errand(run)
    return _end_attempt(run, replace(errand, out=False, failures=errand.failures + 1, not_before=fact.not_before))


def _compensation_interrupted(run: Run, event: Event, fact: ev.CompensationInterrupted) -> Run:
    return _end_attempt(run, replace(_errand(run), out=False, not_before=event.at))


def _end_attempt(run: Run, current: Errand) -> Run:
    """End an attempt that undid nothing: another one follows, unless nothing has to be undone."""
    after = _current(run, current)
    return replace(after, saga=_without_needless(after.saga, current.key))


def _compensation_stuck(run: Run, event: Event, fact: ev.CompensationStuck) -> Run:
    return _current(run, replace(_errand(run), stuck=True))


def _compensation_resumed(run: Run, event: Event, fact: ev.CompensationResumed) -> Run:
    return _current(run, replace(_errand(run), stuck=False, failures=0, not_before=event.at))


def _go_on(run: Run, key: str, status: Status) -> Run:
    """Move on to the next mutation."""
    if run.saga.unwinding is None:
        return replace(run, saga=_change_mutation(run, key, status=status))
    left = tuple(one for one in run.saga.unwinding.left if one != key)
    return _current(run, None, left, _change_mutation(run, key, status=status))


def _compensation_answered(run: Run, event: Event, fact: ev.CompensationAnswered) -> Run:
    return _go_on(run, fact.of_key, Status.UNDONE)


def _by_hand(run: Run, event: Event, fact: ev.CompensationByHand) -> Run:
    return _go_on(run, fact.of_key, Status.BY_HAND)


def _fold_skip(run: Run, event: Event, fact: ev.CompensationSkipped) -> Run:
    return _go_on(run, fact.of_key, Status.SKIPPED)


def _fold_abandonment(run: Run, event: Event, fact: ev.CompensationAbandoned) -> Run:
    return _go_on(run, fact.of_key, Status.ABANDONED)


def _unwinding_finished(run: Run, event: Event, fact: ev.UnwindingFinished) -> Run:
    state = run.state if run.ending is not None else RunState.RUNNING
    return replace(run, state=state, saga=replace(run.saga, unwinding=None))


def _fold_omission(run: Run, event: Event, fact: ev.UnwindingOmitted) -> Run:
    mutations = tuple(
        replace(one, status=Status.ABANDONED) if one.status in STANDING else one for one in run.saga.mutations
    )
    return replace(run, saga=replace(run.saga, mutations=mutations))


def approve_call(run: Run, command_id: str) -> Saga:
    """Return the saga after a person approved an irreversible call."""
    return replace(run.saga, approved=(*run.saga.approved, command_id))


def begin_epoch(saga: Saga) -> Saga:
    """Return the saga that the next epoch begins with: every mutation is remembered, nothing is under way."""
    return saga if saga is EMPTY else replace(saga, checks=(), unwinding=None, approved=())


TABLE: Mapping[str, Evolve] = {
    "mutation_intended": _fold_intent,
    "mutation_settled": _fold_settlement,
    "reconciliation_issued": _reconciliation_issued,
    "reconciliation_failed": _reconciliation_failed,
    "reconciliation_ended": _reconciliation_ended,
    "unwinding_started": _unwinding_started,
    "compensation_issued": _compensation_issued,
    "compensation_answered": _compensation_answered,
    "compensation_failed": _compensation_failed,
    "compensation_interrupted": _compensation_interrupted,
    "compensation_stuck": _compensation_stuck,
    "compensation_resumed": _compensation_resumed,
    "compensation_by_hand": _by_hand,
    "compensation_skipped": _fold_skip,
    "compensation_abandoned": _fold_abandonment,
    "unwinding_finished": _unwinding_finished,
    "unwinding_omitted": _fold_omission,
}
"""One function a kind."""
