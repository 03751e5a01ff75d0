"""A wave: the calls of one answer, judged one by one, refused or issued; what changes the world meets what was done under its key (semantics.md 6).

People are asked about each call as soon as it waits for no other, about several at once, and a call leaves with its own answer. What is irreversible waits for
all that is out, and leaves one at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fabric.core import (
    asking_before,
    calls,
    conversation_tools,
    dependencies,
    guard,
    mutations,
    run_memory,
    screening,
    write_conflicts,
)
from fabric.core import events as ev
from fabric.core.call_errors import call_error
from fabric.core.failure import Failure
from fabric.core.fingerprint import masked_fingerprint
from fabric.core.frozen import replace
from fabric.core.mechanisms import loop_detector
from fabric.core.proposed import Proposed, of_last_answer
from fabric.core.run import Step
from fabric.core.saga import DOUBTFUL, MUTATES, Effect, Mutation, Status
from fabric.core.taxonomy import Cause
from fabric.core.verdict import Trip
from fabric.core.work import Work

JSON = Any
NAME = "agent_loop"
FREE = frozenset({Cause.TURN_LIMIT, Cause.DEPENDENCY_FAILED})
"""Why a call is refused that costs the step no correction: it is no slip of the agent's, or one that was paid for."""


def run(work: Work, step: Step) -> Failure | None:
    """Refuses what is wrong among the open calls of the last answer, asks the guard about the rest one by one, issues what passes; gives back what tripped.

    Each call is issued before the next is judged: a third equal call is the third even within one answer.
    """
    if step.final:
        _stopped(work, step)
        return None
    allowed = work.policy_in(step.stage).limits.calls_per_turn
    judged = [looked_at(work, step, one, n, allowed) for n, one in enumerate(of_last_answer(work, step))]
    tripped: list[Trip] = []
    returned: list[Trip] = []
    for index in _decidable(work, step, judged, allowed):
        one = judged[index]
        if one.problem:
            refuse(work, step.id, one, one.cause, NAME, one.problem, correction=one.cause not in FREE)
        elif not _kept(work, step.id, one):
            wave = tuple((each.tool, each.args_hash) for each in judged if not each.problem)
            withheld, answered = _one(work, step.id, one, index, wave)
            tripped += withheld
            returned += answered
    # A failure that came back stands last, as in ``reactions``.
    trips = (*guard.in_order(tripped), *returned)
    return Failure(trips, step.stage, step.id, blocked=bool(tripped)) if trips else None


def _decidable(work: Work, step: Step, checked: list[Proposed], allowed: int) -> list[int]:
    """Which calls are decided about now, by their place in the answer. What is found of those that wait for nothing, and of those that conflict with
    another, stands in ``checked`` afterwards.
    """
    records, out = step.history[-1].calls, dependencies.out(work.run, step)
    still: list[int] = []
    for index, (waited, record) in enumerate(zip(checked, records, strict=True)):
        if record.state != "open" or record.call_id in out or not step.is_free(record):
            continue
        one = dependencies.settled(work, work.run.steps[step.id], waited)
        if one is None or _on_its_way(step, one):
            continue
        if one.bound and not waited.bound:
            one = looked_at(work, step, one, index, allowed)
        checked[index] = one
        still.append(index)
    sure = {checked[index].call_id for index in still}
    conflicts = write_conflicts.found(work, work.run.steps[step.id], checked, sure)
    for index, one in enumerate(checked):
        if one.call_id in conflicts:
            checked[index] = replace(one, problem=conflicts[one.call_id], cause=Cause.WRITE_CONFLICT)
            still.append(index)
    return _now(work, step, checked, sorted(set(still)))


def _now(work: Work, step: Step, checked: list[Proposed], still: list[int]) -> list[int]:
    """Returns, of the calls that wait for nothing, those that are decided about now: all but the irreversible ones that nobody has to be asked about (any more).

    Of those it is the first, once nothing of the step is with the world and nothing else is left to be decided.
    """
    irreversible = (
        index for index in still if not checked[index].problem and _effect(work, checked[index]) is Effect.IRREVERSIBLE
    )
    last = [index for index in irreversible if asking_before.why(work, step, checked[index], index) is None]
    now = [index for index in still if index not in last]
    return now or ([] if dependencies.sent(work.run, step) else last[:1])


def _stopped(work: Work, step: Step) -> None:
    """The agent was stopped while calls of its answer had not begun: they never do."""
    out = dependencies.out(work.run, step)
    for one in of_last_answer(work, step):
        if one.call_id not in out and _open(step, one.call_id):
            refuse(work, step.id, one, Cause.LOOP_DETECTED, NAME, "the agent was stopped", correction=False)


def _open(step: Step, call_id: str) -> bool:
    return any(record.call_id == call_id and record.state == "open" for record in step.history[-1].calls)


def _effect(work: Work, one: Proposed) -> Effect:
    return Effect(work.compiled.spec.tool(one.tool).effect)


Tripped = tuple[Sequence[Trip], Sequence[Trip]]
"""What withheld a call, and what the answer that it had at once stops."""


def _one(work: Work, step_id: str, one: Proposed, index: int, wave: tuple[tuple[str, str], ...]) -> Tripped:
    """Judges one call and does what follows; gives back what tripped."""
    step = work.run.steps[step_id]
    turn = step.turns
    requested = step.requested_of(calls.command_id_of(step, turn, index))
    key = calls.key_of_tool(work, step, one.fact()) if requested is None else requested.key
    before = mutations.known(work, key) if _effect(work, one) in MUTATES else None
    in_doubt = before is not None and before.status in DOUBTFUL
    asking = in_doubt and before is not None and _reconcilable(work, step, one, before)
    if in_doubt and step.approved and requested is None and _effect(work, one) is Effect.IRREVERSIBLE:
        problem = f"nobody knows whether {one.tool} was executed before, and it is never sent again"
        refuse(work, step_id, one, Cause.OUTCOME_UNKNOWN, mutations.NAME, problem, correction=False)
        return (), ()
    if told := screening.first_word(work, step, one, index):
        refuse(work, step_id, one, Cause.INJECTED_INSTRUCTION, screening.NAME, told, correction=False)
        return (), ()
    # The person who answers sees what the server said of the call that it asks about.
    doubtful = in_doubt and not asking and not step.approved and requested is None
    attempt = 1 if requested is None else requested.attempt + 1
    proposal = calls.tool_proposal(work, step, one.fact(), wave, turn, attempt, in_doubt=doubtful, args=one.args)
    if _stands(before):
        proposal = replace(proposal, worst_usd_micros=0)  # It is not made again.
    # The engine judged a further attempt with the other calls of its answer when it first went out.
    judged_before = loop_detector.NAME if proposal.attempt > 1 else ""
    trips = guard.judge(proposal, work.view, work.compiled.spec.policy, without=judged_before)
    trips += conversation_tools.judged(work, step, one) + screening.judged(work, step, one, index)
    if trips:
        first = trips[0]
        refuse(work, step_id, one, first.cause, first.mechanism, first.advice or first.message, correction=False)
        return trips, ()
    if _known(work, step, one, turn, before):
        return (), ()
    if asking and before is not None:
        mutations.ask(work, before, calls.command_id_of(step, turn, index), step_id)
    elif (because := asking_before.why(work, step, one, index)) is not None:
        asking_before.ask(work, step, one, index, because)
    else:
        calls.run_tool(work, step, one.fact(), index, turn, key)
        failure = run_memory.answered(work, calls.command_id_of(step, turn, index))
        return (), failure.trips if failure else ()
    return (), ()


def _reconcilable(work: Work, step: Step, one: Proposed, before: Mutation) -> bool:
    """Whether a tool is asked about a call in doubt; not where a person has decided about it."""
    return not step.approved and mutations.reconcilable(work.compiled.spec.tool(one.tool), before)


def _stands(before: Mutation | None) -> bool:
    """Returns True where the result of an earlier activation stands for a call of the same key."""
    return before is not None and bool(before.result_ref) and before.status is Status.EXECUTED


def _known(work: Work, step: Step, one: Proposed, turn: int, before: Mutation | None) -> bool:
    """Answers a call from what an earlier activation of the step executed under its key; True when it did."""
    if before is None or not _stands(before):
        return False
    _repeat(work, step, one, turn, before.result_ref)
    return True


# -- what is wrong with a call -----------------------------------------------------------------------------------------


def looked_at(work: Work, step: Step, one: Proposed, index: int, allowed: int) -> Proposed:
    """The call with its structural problem, found before anything is executed."""
    if one.problem:
        return one
    if index >= allowed:
        return replace(one, problem=f"only {allowed} calls of one answer are executed", cause=Cause.TURN_LIMIT)
    spec = work.compiled.spec
    offered = spec.tools_of(spec.agent(step.agent))
    if one.tool not in offered:
        names = ", ".join(offered) or "none"
        return replace(one, problem=f"there is no tool {one.tool!r}; offered are: {names}")
    if not isinstance(one.args, dict):
        return replace(one, problem="the arguments are not a JSON object", cause=Cause.SCHEMA_INVALID)
    if not one.bound and dependencies.refers(one):
        return one  # They are looked at once it is known what they are.
    problems = misfits(work, one)
    return replace(one, problem="; ".join(problems[:5]), cause=Cause.SCHEMA_INVALID) if problems else one


def misfits(work: Work, one: Proposed) -> Sequence[str]:
    """What of a call's arguments does not fit its tool."""
    validate = work.compiled.validators.get(one.tool)
    return validate(one.args) if validate else []


def _on_its_way(step: Step, one: Proposed) -> bool:
    """Whether the same call is out already, for an answer that broke off."""
    twin = dependencies.twin(step, one)
    return twin is not None and twin.state == "open"


def _kept(work: Work, step_id: str, one: Proposed) -> bool:
    """Answers a call from what it came to when it was made for an answer that broke off; True when it was."""
    step = work.run.steps[step_id]
    twin = dependencies.twin(step, one)
    if twin is None or twin.state != "done":
        return False
    _repeat(work, step, one, step.turns, twin.result_ref, begun=True)
    return True


def _repeat(work: Work, step: Step, one: Proposed, turn: int, result_ref: str, *, begun: bool = False) -> None:
    """The result that there is stands for this call too."""
    result = work.ctx.contents.read(result_ref)
    error = isinstance(result, dict) and "error" in result
    work.emit(
        ev.CallDeduplicated(
            step_id=step.id,
            call_id=one.call_id,
            tool=one.tool,
            args_hash=one.args_hash,
            turn=turn,
            result_ref=result_ref,
            result_bytes=work.ctx.contents.size((result_ref,)),
            masked_hash=masked_fingerprint({"error": result["error"]} if error else result, one.args),
            error=error,
            correction=error and begun and not dependencies.handled(work, step, one.call_id),
            begun=begun,
        )
    )


def refuse(
    work: Work, step_id: str, one: Proposed, cause: Cause, mechanism: str, problem: str, *, correction: bool
) -> None:
    """Journals that a proposed call is not executed; its model is told why."""
    work.emit(
        ev.CallRefused(
            step_id=step_id,
            call_id=one.call_id,
            tool=one.tool,
            args_hash=one.args_hash,
            cause=cause,
            mechanism=mechanism,
            problem=problem,
            correction=correction,
        ),
        call_error(
            one.name, one.tool, one.args, {"cause": cause, "mechanism": mechanism, "message": problem}, one.raw_args
        ),
    )
