"""A run is started as a child; a child of this run waits, is quarantined, has ended."""

from __future__ import annotations

from fabric.core import events as ev
from fabric.core.child_runs import children
from fabric.core.decision.work import Work
from fabric.core.events.child_inputs import ChildEnded, ChildRequested, ChildStuck, ChildWaits
from fabric.core.events.children import ChildSpawned
from fabric.core.handlers import start
from fabric.core.reactions import react as reactions
from fabric.core.reviews import reviews
from fabric.core.sagas import handing_up
from fabric.core.state.failure import Failure
from fabric.core.state.family import Child
from fabric.core.state.run import Step
from fabric.core.values.flow import ANSWERED, RunState
from fabric.core.values.taxonomy import Cause, Details, Evidence, Trip


def start_child(work: Work, given: ChildRequested) -> None:
    """Take the pinned facts of the run, and its place in the family."""
    if not start.begin_run(work, given, depth=given.depth):
        return
    fact = ev.LineagePinned(
        parent_run_id=given.parent_run_id,
        root_run_id=given.root_run_id,
        parent_command=given.command_id,
        purpose=given.purpose,
        cap_usd_micros=given.cap_usd_micros,
        cap_tokens=given.cap_tokens,
        briefs=given.briefs,
        topology=given.topology,
        agents_alive=given.agents_alive,
        agents_spawned=given.agents_spawned,
    )
    work.emit(fact, {"output": given.plan} if given.plan is not None else None)


KEPT = ("delegated", "failed", "parked")
"""States of steps that still take their child's result; a stopped child reports its work up to then."""


def _child(work: Work, given: ChildWaits | ChildStuck | ChildEnded) -> Child | None:
    child = work.run.family.alive.get(given.command_id)
    if child is None or child.fact.child_id != given.child_id:
        work.emit(ev.InputIgnored(input_kind=given.kind, reason="no awaited child has that id"))
        return None
    return child


def child_waits(work: Work, given: ChildWaits) -> None:
    """Handle a waiting child: its review counts as one of its parent. Clocks stop while nothing else is live, and
    run again after it.
    """
    child = _child(work, given)
    if child is None or child.let_go or child.waiting == given.waiting:
        return
    work.emit(ev.ChildWaiting(command_id=given.command_id, child_id=given.child_id, waiting=given.waiting))
    if not given.waiting:
        _clocks_run(work)


def open_child_review(work: Work, given: ChildStuck) -> None:
    """Open a review about a quarantined child in its parent too, for as long as the quarantine lasts."""
    child = _child(work, given)
    if child is None:
        return
    if not given.stuck:
        if child.quarantined is not None:
            work.emit(ev.ChildFreed(command_id=given.command_id, child_id=given.child_id))
            children.withdraw(work, given.command_id, "the child run continues")
            _clocks_run(work)
        return
    if child.let_go:
        work.emit(ev.InputIgnored(input_kind=given.kind, reason="it was told to stop, and ends by that"))
        return
    children.withdraw(work, given.command_id, "the child run was quarantined once more")
    fact = ev.ChildQuarantined(
        command_id=given.command_id,
        child_id=given.child_id,
        reason=given.reason,
        review_id=given.review_id,
        digest=given.digest,
    )
    work.emit(fact)
    reviews.open_item(
        work,
        item="child",
        scope=given.command_id,
        step_id=child.fact.step_id,
        reason=f"child run {given.child_id} is quarantined: {given.reason}",
        shown={
            "child": given.child_id,
            "problems": [given.reason],
            "approve": "the child run continues from its journal with a fresh count of claims",
            "reject": "the child run is aborted, and the decision table says what that means for its branch",
            "expiry": "rejected by the system",
        },
        bound=given.digest,
    )


def _clocks_run(work: Work) -> None:
    if work.run.suspended is not None and work.run.ending is None:
        reviews.resume_clocks(work)


def _count_unused_agents(spawned: ChildSpawned, given: ChildEnded) -> int:
    """Return the number of agents that a child was granted and did not start; a slice's briefs count as started."""
    if given.agents_spawned is None:
        return 0
    briefs = len(spawned.briefs) if spawned.purpose == "slice" else 0
    return max(0, spawned.agents_spawned - max(given.agents_spawned, briefs))


def end_child(work: Work, given: ChildEnded) -> None:
    """Settle a child's cost, and take its result if its step waits for it. React to its failure like a branch's."""
    child = _child(work, given)
    if child is None:
        return
    spawned, step = child.fact, work.run.steps.get(child.fact.step_id)
    if step is not None and (step.status not in KEPT or work.run.stages[step.stage].left):
        step = None
    brings_nothing = given.content is None and given.state not in ANSWERED
    fact = ev.ChildAnswered(
        command_id=given.command_id,
        step_id=spawned.step_id,
        child_id=given.child_id,
        state=given.state,
        reason=given.reason,
        cost_usd_micros=spawned.reserved_usd_micros if given.cost_usd_micros is None else given.cost_usd_micros,
        tokens=spawned.reserved_tokens if given.tokens is None else given.tokens,
        missing=spawned.briefs if brings_nothing else given.missing,
        cause=given.cause,
        late=step is None,
        agents_back=_count_unused_agents(spawned, given),
        released=given.released,
        changed_world=given.changed_world,
    )
    work.emit(fact, None if step is None else given.content)
    handing_up.take_over(work, spawned, given.mutations)
    children.withdraw(work, given.command_id, "the child run has ended")
    _clocks_run(work)
    if step is None or step.status != "delegated" or given.state in ANSWERED or work.run.ending is not None:
        return
    _fail_step(work, step, child, given)


def _fail_step(work: Work, step: Step, child: Child, given: ChildEnded) -> None:
    """Fail the child's step. If a person cancelled the child, it is a branch without a result; the decision table
    decides about other failures.
    """
    message = f"{given.reason} (run {given.child_id} of {step.agent} ended as {given.state})"
    if given.state is RunState.CANCELLED:
        work.emit(ev.StepFailed(step_id=step.id, cause=Cause.USER_CANCEL, message=message))
        return
    details: Details
    details = {"child": given.child_id, "state": str(given.state), "briefs": len(child.fact.briefs)}
    evidence = Evidence(scope=f"child:{given.child_id}", details=details)
    trip = Trip("child", given.cause or Cause.UNKNOWN, evidence, message)
    reactions.react(work, Failure((trip,), step.stage, step.id))
