"""A wave: judges the calls of one answer one by one, and refuses or issues them. A mutation finds its earlier
execution under its key (docs/specification/agent-step.md).

People review each call as soon as it waits for no other, several at once, and a call goes out with its own answer. An
irreversible call waits for all calls that are out, and goes out alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from fabric.core import events as ev
from fabric.core.calls import dependencies, screening
from fabric.core.calls import issue as calls
from fabric.core.calls.proposed import Proposed, list_last_calls
from fabric.core.calls.tool_answers import call_error
from fabric.core.conversations import memory
from fabric.core.conversations import tools as conversation_tools
from fabric.core.decision import guard
from fabric.core.decision.work import Work
from fabric.core.mechanisms import loop_detector
from fabric.core.reviews import asking_before
from fabric.core.sagas import mutations
from fabric.core.state.failure import Failure
from fabric.core.state.run import Step
from fabric.core.values.fingerprint import masked_fingerprint
from fabric.core.values.frozen import replace
from fabric.core.values.saga import DOUBTFUL, MUTATES, Effect, Mutation, Status
from fabric.core.values.taxonomy import Cause, Trip

NAME = "agent_loop"
FREE = frozenset({Cause.TURN_LIMIT, Cause.DEPENDENCY_FAILED})
"""Why a call is refused that costs the step no correction. It is no slip of the agent's, or one that was paid for."""


def run(work: Work, step: Step) -> Failure | None:
    """Refuse the faulty open calls of the last answer. Judge the rest one by one, issue those that pass, and return the
    failure of those that tripped.

    Each call is issued before the next is judged: a third equal call is the third even within one answer.
    """
    if step.final:
        _refuse_unbegun(work, step)
        return None
    allowed = work.policy_in(step.stage).limits.calls_per_turn
    judged = [check_call(work, step, one, n, allowed) for n, one in enumerate(list_last_calls(work, step))]
    tripped: list[Trip] = []
    returned: list[Trip] = []
    for index in _decidable(work, step, judged, allowed):
        one = judged[index]
        if one.problem:
            refuse(work, step.id, one, one.cause, NAME, one.problem, correction=one.cause not in FREE)
        else:
            wave = tuple((each.tool, each.args_hash) for each in judged if not each.problem)
            withheld, answered = _one(work, step.id, one, index, wave)
            tripped += withheld
            returned += answered
    # A repeated failure comes last, as in ``reactions``.
    trips = (*guard.in_order(tripped), *returned)
    return Failure(trips, step.stage, step.id, blocked=bool(tripped)) if trips else None


def _decidable(work: Work, step: Step, checked: list[Proposed], allowed: int) -> list[int]:
    """Return the calls to decide now, by their place in the answer. Updates ``checked`` with the findings on free
    calls and on conflicting ones.
    """
    records, out = step.history[-1].calls, dependencies.calls_out(work.run, step)
    still: list[int] = []
    for index, (waited, record) in enumerate(zip(checked, records, strict=True)):
        if record.state != "open" or record.call_id in out or not step.is_free(record):
            continue
        one = dependencies.settle_references(work, work.run.steps[step.id], waited)
        if one is None:
            continue
        if one.bound and not waited.bound:
            one = check_call(work, step, one, index, allowed)
        checked[index] = one
        still.append(index)
    sure = {checked[index].call_id for index in still}
    conflicts = screening.find_conflicts(work, work.run.steps[step.id], checked, sure)
    for index, one in enumerate(checked):
        if one.call_id in conflicts:
            checked[index] = replace(one, problem=conflicts[one.call_id], cause=Cause.WRITE_CONFLICT)
            still.append(index)
    return _now(work, step, checked, sorted(set(still)))


def _now(work: Work, step: Step, checked: list[Proposed], still: list[int]) -> list[int]:
    """Return the free calls to decide now: all except irreversible ones that need no review (any more).

    Of those the first is returned once no other call of the step is out or left to decide.
    """
    irreversible = (
        index for index in still if not checked[index].problem and _effect(work, checked[index]) is Effect.IRREVERSIBLE
    )
    last = [index for index in irreversible if asking_before.review_reason(work, step, checked[index], index) is None]
    now = [index for index in still if index not in last]
    return now or ([] if dependencies.list_sent_calls(work.run, step) else last[:1])


def _refuse_unbegun(work: Work, step: Step) -> None:
    """Refuse the calls that had not begun when the agent was stopped."""
    out = dependencies.calls_out(work.run, step)
    for one in list_last_calls(work, step):
        if one.call_id not in out and _open(step, one.call_id):
            refuse(work, step.id, one, Cause.LOOP_DETECTED, NAME, "the agent was stopped", correction=False)


def _open(step: Step, call_id: str) -> bool:
    return any(record.call_id == call_id and record.state == "open" for record in step.history[-1].calls)


def _effect(work: Work, one: Proposed) -> Effect:
    return Effect(work.compiled_fabric.spec.tool(one.tool).effect)


WaveTrips = tuple[Sequence[Trip], Sequence[Trip]]
"""Trips that blocked a call, and trips from the answer that it had at once."""


def _one(work: Work, step_id: str, one: Proposed, index: int, wave: tuple[tuple[str, str], ...]) -> WaveTrips:
    """Judge one call and carry out the verdict; return its trips."""
    step = work.run.steps[step_id]
    turn = step.turns
    requested = step.requested_of(calls.build_command_id(step, turn, index))
    key = calls.key_of_tool(work, step, one.fact()) if requested is None else requested.key
    before = mutations.find_mutation(work, key) if _effect(work, one) in MUTATES else None
    in_doubt = before is not None and before.status in DOUBTFUL
    asking = in_doubt and before is not None and _reconcilable(work, step, one, before)
    if in_doubt and step.approved and requested is None and _effect(work, one) is Effect.IRREVERSIBLE:
        problem = f"it is unknown whether {one.tool} was executed before, and it is never sent again"
        refuse(work, step_id, one, Cause.OUTCOME_UNKNOWN, mutations.NAME, problem, correction=False)
        return (), ()
    if told := screening.first_word(work, step, one, index):
        refuse(work, step_id, one, Cause.INJECTED_INSTRUCTION, screening.NAME, told, correction=False)
        return (), ()
    # The reviewer sees the server's information on the call.
    doubtful = in_doubt and not asking and not step.approved and requested is None
    attempt = 1 if requested is None else requested.attempt + 1
    proposal = calls.tool_proposal(work, step, one.fact(), wave, turn, attempt, in_doubt=doubtful, args=one.args)
    if _stands(before):
        proposal = replace(proposal, worst_usd_micros=0)  # It is not made again.
    # A further attempt was judged with the other calls of its answer when it first went out.
    judged_before = loop_detector.NAME if proposal.attempt > 1 else ""
    trips = guard.judge(proposal, work.view, work.compiled_fabric.spec.policy, without=judged_before)
    trips += conversation_tools.judge_handover(work, step, one) + screening.judge_changing_call(work, step, one, index)
    if trips:
        first = trips[0]
        refuse(work, step_id, one, first.cause, first.mechanism, first.advice or first.message, correction=False)
        return trips, ()
    if _answer_from_earlier(work, step, one, turn, before):
        return (), ()
    if asking and before is not None:
        mutations.ask(work, before, calls.build_command_id(step, turn, index), step_id)
    elif (because := asking_before.review_reason(work, step, one, index)) is not None:
        asking_before.ask(work, step, one, index, because)
    else:
        calls.run_tool(work, step, one.fact(), index, turn, key)
        failure = memory.answer_call(work, calls.build_command_id(step, turn, index))
        return (), failure.trips if failure else ()
    return (), ()


def _reconcilable(work: Work, step: Step, one: Proposed, before: Mutation) -> bool:
    """Return True if a reconcile tool is called for a call in doubt; False once a person has decided."""
    return not step.approved and mutations.reconcilable(work.compiled_fabric.spec.tool(one.tool), before)


def _stands(before: Mutation | None) -> bool:
    """Return True if the result of an earlier activation stands for a call under its key."""
    return before is not None and bool(before.result_ref) and before.status is Status.EXECUTED


def _answer_from_earlier(work: Work, step: Step, one: Proposed, turn: int, before: Mutation | None) -> bool:
    """Answer a call with the result of an earlier activation of the step under its key. Return True if there is one."""
    if before is None or not _stands(before):
        return False
    _repeat(work, step, one, turn, before.result_ref)
    return True


# -- what is wrong with a call -----------------------------------------------------------------------------------------


def check_call(work: Work, step: Step, one: Proposed, index: int, allowed: int) -> Proposed:
    """Return the call with its structural problem, found before anything is executed."""
    if one.problem:
        return one
    if index >= allowed:
        return replace(one, problem=f"only {allowed} calls of one answer are executed", cause=Cause.TURN_LIMIT)
    spec = work.compiled_fabric.spec
    offered = spec.tools_of(spec.agent(step.agent))
    if one.tool not in offered:
        names = ", ".join(offered) or "none"
        return replace(one, problem=f"there is no tool {one.tool!r}; offered are: {names}")
    if not isinstance(one.args, dict):
        return replace(one, problem="the arguments are not a JSON object", cause=Cause.SCHEMA_INVALID)
    if not one.bound and dependencies.refers(one):
        return one  # They are checked once they are known.
    problems = misfits(work, one)
    return replace(one, problem="; ".join(problems[:5]), cause=Cause.SCHEMA_INVALID) if problems else one


def misfits(work: Work, one: Proposed) -> Sequence[str]:
    """Return the problems of a call's arguments by its tool's schema."""
    validate = work.compiled_fabric.validators.get(one.tool)
    return validate(one.args) if validate else []


def _repeat(work: Work, step: Step, one: Proposed, turn: int, result_ref: str) -> None:
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
        )
    )


def refuse(
    work: Work, step_id: str, one: Proposed, cause: Cause, mechanism: str, problem: str, *, correction: bool
) -> None:
    """Journal that a proposed call is not executed, with the reason for its model."""
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
