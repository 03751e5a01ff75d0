"""Defines the actions of run jobs in one table: right, reason, states, and the service that acts on one run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right
from fabric.core.values.flow import ANSWERED, TERMINAL, RunState
from fabric.models import JobAction, RunJob, RunJobItem
from fabric.runtime.ports.journal import JournalStore, Nudge
from fabric.selectors.runs.lookup import count_holds, run_get
from fabric.services.errors import Refused
from fabric.services.runs.control import run_cancel, run_pause, run_resume, run_terminate
from fabric.services.runs.forks import run_fork

GOES_ON = frozenset({RunState.QUEUED, RunState.RUNNING, RunState.WAITING})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPorts:
    """The ports and the clock that acting on a run needs. ``now`` returns microseconds since the epoch."""

    store: JournalStore
    nudge: Nudge
    now: Callable[[], int]


@dataclass(frozen=True, slots=True)
class JobTry:
    """The action of a job on one of its runs. ``actor``: with its present roles at the run's fabric."""

    ports: RunPorts
    actor: Actor
    job: RunJob
    item: RunJobItem

    @property
    def run_id(self) -> str:
        """The run's id."""
        return str(self.item.run_id)


@dataclass(frozen=True, slots=True)
class ActionRule:
    """A row of the table."""

    right: Right
    reason: Literal["optional", "needed", "none"]
    states: frozenset[RunState]
    """States of a run that allow the action."""
    act: Callable[[JobTry], None]
    """Acts on one run, once however often it is called. Raises Refused as the service of the single action."""


def _cancel(one: JobTry) -> None:
    run_cancel(store=one.ports.store, nudge=one.ports.nudge, actor=one.actor, run_id=one.run_id, reason=one.job.reason)


def _terminate(one: JobTry) -> None:
    run_terminate(
        store=one.ports.store, nudge=one.ports.nudge, actor=one.actor, run_id=one.run_id, reason=one.job.reason
    )


def _pause(one: JobTry) -> None:
    if _begin_hold(one):
        run_pause(
            store=one.ports.store, nudge=one.ports.nudge, actor=one.actor, run_id=one.run_id, reason=one.job.reason
        )


def _resume(one: JobTry) -> None:
    if not _begin_hold(one):
        return
    if not run_resume(store=one.ports.store, nudge=one.ports.nudge, actor=one.actor, run_id=one.run_id):
        message = f"run {one.run_id} is not paused, so it cannot be resumed"
        raise Refused(message, code="conflict", field="run")


def _retry(one: JobTry) -> None:
    run = run_get(one.actor, one.run_id)
    if run.state not in ACTIONS[JobAction.RETRY].states:
        message = f"run {run.id} is {run.state}; only a run that ended without an answer is tried again"
        raise Refused(message, code="conflict", field="run")
    run_fork(
        store=one.ports.store,
        nudge=one.ports.nudge,
        actor=one.actor,
        run_id=run.id,
        seq=run.last_seq,
        start_key=f"job:{one.job.id}:{run.id}",
        now=one.ports.now,
    )


def _begin_hold(one: JobTry) -> bool:
    """Return True if the run is to be paused or resumed; False: an earlier try reached it.

    A worker that dies between the action and its record leaves the item untried. A person may have resumed the run
    since, so a second pause would be wrong.
    """
    holds = sum(count_holds(one.actor, one.run_id))
    if one.item.holds_before is not None:
        return holds == one.item.holds_before
    RunJobItem.objects.filter(job_id=one.job.id, run_id=one.run_id).update(holds_before=holds)
    return True


ACTIONS: Mapping[JobAction, ActionRule] = {
    JobAction.CANCEL: ActionRule(
        Right.CONTROL,
        "optional",
        GOES_ON | {RunState.PAUSED, RunState.UNWINDING, RunState.QUARANTINED},
        _cancel,
    ),
    JobAction.PAUSE: ActionRule(Right.CONTROL, "optional", GOES_ON, _pause),
    JobAction.RESUME: ActionRule(Right.CONTROL, "none", frozenset({RunState.PAUSED}), _resume),
    JobAction.RETRY: ActionRule(Right.RUN, "none", TERMINAL - ANSWERED, _retry),
    JobAction.TERMINATE: ActionRule(
        Right.CONTROL,
        "needed",
        GOES_ON | {RunState.PAUSED, RunState.CANCELLING, RunState.UNWINDING, RunState.QUARANTINED},
        _terminate,
    ),
}
"""Every action; total by test."""
