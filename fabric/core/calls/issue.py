"""Issues calls: each one gets its reservation, key and deadline in the fact that commits before it goes out.

A command follows from its ``CallIssued`` fact and the run alone, so that a retry, or a process that takes the run
over, sends an identical call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fabric.core import events as ev
from fabric.core.budgets.charges import Charge, charge, charge_tool
from fabric.core.calls import call_time
from fabric.core.child_runs import children
from fabric.core.decision import guard, prompt
from fabric.core.decision.work import Work
from fabric.core.events.commands import AbortCall, Call, CallModel, CallTool, Message
from fabric.core.events.inputs import CallFailed, ModelReplied
from fabric.core.mechanisms import budget, find_state, loop_detector, saga
from fabric.core.mechanisms.contract import Proposal
from fabric.core.sagas import mutations
from fabric.core.spec.fabric import FabricSpec
from fabric.core.state.judges import contract
from fabric.core.state.run import Pending, Run, Step
from fabric.core.values.cost import worst_input_tokens
from fabric.core.values.flow import Stage
from fabric.core.values.frozen import replace
from fabric.core.values.saga import MUTATES, find_by_command
from fabric.core.values.taxonomy import Trip
from fabric.core.values.units import JSON, US


def timeout_s(work: Work, stage: Stage, tool: str = "") -> float:
    """Return the seconds that one attempt may take. The tier's value in its stage counts, or the tool's own
    if shorter.
    """
    tier = work.policy_in(stage).deadlines_of(work.run.tier).call_s
    own = work.compiled_fabric.spec.tool(tool).timeout_s if tool else None
    return tier if own is None else min(tier, own)


def deadline_at(work: Work, stage: Stage, timeout: float) -> int:
    """Return the end of an attempt issued now: its own timeout, its stage's or its run's, whichever is first."""
    return min(work.ctx.now + int(timeout * US), work.run.stages[stage].deadline_at, work.run.deadline_at)


def find_model(work: Work, step: Step) -> str:
    """Return the model that answers a step: its agent's own, or the one that replaced it."""
    return step.model or work.compiled_fabric.spec.agent(step.agent).model


def reasoning_left_out(work: Work, step: Step, model: str) -> int:
    """Count the answers of the step whose reasoning is not sent to ``model``, since only its author understands it."""
    values = (work.ctx.contents.values.get(turn.answer_ref, {}) for turn in step.history)
    return sum(one.get("from", model) != model and _has_own(one) for one in values)


def _has_own(answer: Mapping[str, Any]) -> bool:
    return "own" in answer or any("own" in call for call in answer.get("calls", ()))


def model_proposal(
    work: Work,
    step: Step,
    opened: tuple[Message, ...],
    *,
    turn: int,
    attempt: int,
    instead: str = "",
    cheaper: bool = False,
) -> Proposal:
    """Return the proposal that the guard judges before a model call. ``instead``: a fallback for the step's model;
    ``cheaper``: True if cost is the reason for it.
    """
    agent = work.compiled_fabric.spec.agent(step.agent)
    model = instead or find_model(work, step)
    tokens_in = worst_input_tokens(prompt.prompt_bytes(work, agent, step, opened))
    price, most = work.compiled_fabric.prices.get(model), agent.max_output_tokens
    worst = None if price is None else price.worst_cost(tokens_in, most)
    dearest = budget.dearest(find_state(work.run.guards, budget), model, work.ctx.shares, work.ctx.now)
    return Proposal(
        kind="model",
        stage=step.stage,
        step_id=step.id,
        agent=step.agent,
        target=model,
        turn=turn,
        attempt=attempt,
        final=step.final,
        cheaper=cheaper,
        worst_usd_micros=None if worst is None else max(worst, dearest.usd_micros),
        worst_tokens=max(tokens_in + most, dearest.tokens),
        computed_usd_micros=worst,
        computed_tokens=tokens_in + most,
        timeout_s=timeout_s(work, step.stage),
        keys=_keys(work, model) if work.compiled_fabric.key_caps else (),
    )


def _keys(work: Work, model: str) -> tuple[str, ...]:
    """Return the budgets of the API key of a model's call, for the day and the month of this decision."""
    caps = work.compiled_fabric.key_caps.get(model, ())
    return tuple(scope for cap in caps for scope in cap.scopes(work.ctx.now))


def ask_model(work: Work, step: Step, *, turn: int, attempt: int = 1) -> list[Trip]:
    """Issue the step's model call, or return the trips against it."""
    opened = children.open_messages(work.run, work.compiled_fabric.spec, step)
    proposal = model_proposal(work, step, opened, turn=turn, attempt=attempt)
    trips = guard.judge(proposal, work.view, work.compiled_fabric.spec.policy)
    if trips:
        return trips
    command_id = f"{step.id}.t{turn}"
    attempt_s = call_time.attempt_s(work.run.pending.get(command_id), proposal.timeout_s)
    state = find_state(work.run.guards, saga, step.id)
    agent = work.compiled_fabric.spec.agent(step.agent)
    issued = ev.CallIssued(
        command_id=command_id,
        attempt=attempt,
        call="model",
        step_id=step.id,
        agent=step.agent,
        target=proposal.target,
        turn=turn,
        deadline_at=deadline_at(work, step.stage, attempt_s),
        key=saga.key(state, work.run.id, step.id, proposal.target, str(turn)),
        prompt=prompt.build_digest(step, opened),
        reserved_usd_micros=proposal.worst_usd_micros or 0,
        reserved_tokens=proposal.worst_tokens,
        max_output_tokens=agent.max_output_tokens,
        final=step.final,
        grants=work.ctx.shares.take(proposal.worst_usd_micros or 0, proposal.worst_tokens, proposal.keys),
    )
    _issue(work, issued, opened)
    return []


def build_charge(work: Work, issued: ev.CallIssued, given: ModelReplied | CallFailed) -> Charge:
    """Return the charge of an attempt without a usable result, and of a model's answer."""
    if issued.call == "tool":
        assert isinstance(given, CallFailed)
        return charge_tool(issued.reserved_usd_micros, given)
    reserved = Charge(issued.reserved_usd_micros, issued.reserved_tokens)
    return charge(work.compiled_fabric.prices.get(issued.target), reserved, given)


def tool_proposal(
    work: Work,
    step: Step,
    call: ev.ProposedCall,
    wave: tuple[tuple[str, str], ...],
    turn: int,
    attempt: int = 1,
    *,
    in_doubt: bool = False,
    args: JSON = None,
    args_ref: str = "",
) -> Proposal:
    """Return the proposal that the guard judges before a tool call. ``in_doubt``: it may have been executed under
    its key already. ``args``: None if they were judged before. ``args_ref``: reference of the arguments; "": that
    of a call of the step's present turn.
    """
    tool = work.compiled_fabric.spec.tool(call.tool)
    return Proposal(
        kind="tool",
        stage=step.stage,
        step_id=step.id,
        agent=step.agent,
        target=call.tool,
        turn=turn,
        attempt=attempt,
        call_id=call.call_id,
        args_hash=call.args_hash,
        args=args,
        args_ref=args_ref or _args_ref(step, call.call_id),
        wave=wave,
        effect=tool.effect,
        compensated=tool.compensation is not None,
        approval=tool.approval,
        in_doubt=in_doubt,
        polling=tool.polling,
        worst_usd_micros=tool.price_usd_micros,
        computed_usd_micros=tool.price_usd_micros,
        timeout_s=timeout_s(work, step.stage, call.tool),
    )


def _args_ref(step: Step, call_id: str) -> str:
    """Return the reference of a call's arguments. They are in a person's edit, in the streaming call's own content, or
    in the step's last answer.
    """
    coming = next((one for one in step.begun if one.record.call_id == call_id), None)
    if coming is not None:
        return coming.record.args_ref or coming.ref
    if not step.history:
        return step.note_ref  # The engine calls the tool, and no model does.
    last = step.history[-1]
    edited = next((record.args_ref for record in last.calls if record.call_id == call_id), "")
    return edited or last.answer_ref


def build_command_id(step: Step, turn: int, index: int) -> str:
    """Return the identity of a tool call: the step, the turn, and which call of its answer."""
    return f"{step.id}.t{turn}.c{index + step.first_call}"


def key_of_tool(work: Work, step: Step, call: ev.ProposedCall) -> str:
    """Return the idempotency key of a call of the step's last answer."""
    tool = work.compiled_fabric.spec.tool(call.tool)
    if tool.effect in MUTATES:
        return mutations.key(work, step, tool, call.call_id, call.args_hash)
    state = find_state(work.run.guards, saga, step.id)
    return saga.key(state, work.run.id, step.id, call.tool, call.args_hash)


def run_tool(work: Work, step: Step, call: ev.ProposedCall, index: int, turn: int, key: str) -> None:
    """Issue a tool call that passed the guard, again too after its server asked a person."""
    command_id = build_command_id(step, turn, index)
    before = step.requested_of(command_id)
    price = work.compiled_fabric.spec.tool(call.tool).price_usd_micros
    issued = ev.CallIssued(
        command_id=command_id,
        attempt=1 if before is None else before.attempt + 1,
        call="tool",
        step_id=step.id,
        agent=step.agent,
        target=call.tool,
        turn=turn,
        deadline_at=deadline_at(work, step.stage, timeout_s(work, step.stage, call.tool)),
        key=key,
        call_id=call.call_id,
        args_hash=call.args_hash,
        args_ref=_args_ref(step, call.call_id),
        reserved_usd_micros=price,
        grants=work.ctx.shares.take(price),
    )
    _issue(work, issued)


def issue_again(work: Work, pending: Pending) -> list[Trip]:
    """Issue the next attempt of a call under its key, or return the trips that forbid it."""
    issued = pending.issued
    step = work.run.steps[issued.step_id]
    if issued.call == "model":
        return ask_model(work, step, turn=issued.turn, attempt=issued.attempt + 1) if pending.failed else []
    call = ev.ProposedCall(call_id=issued.call_id, tool=issued.target, args_hash=issued.args_hash)
    in_doubt = mutations.in_doubt(find_by_command(work.run.saga, issued.command_id))
    proposal = tool_proposal(
        work, step, call, (), issued.turn, issued.attempt + 1, in_doubt=in_doubt, args_ref=issued.args_ref
    )
    if trips := guard.judge(proposal, work.view, work.compiled_fabric.spec.policy, without=loop_detector.NAME):
        return trips
    deadline = deadline_at(work, step.stage, call_time.attempt_s(pending, proposal.timeout_s))
    grants = work.ctx.shares.take(issued.reserved_usd_micros)
    _issue(work, replace(issued, attempt=issued.attempt + 1, deadline_at=deadline, grants=grants))
    return []


def _issue(work: Work, issued: ev.CallIssued, opened: tuple[Message, ...] = ()) -> None:
    if issued.call == "tool":
        mutations.intend(work, issued)
    work.emit(issued)
    if issued.call == "tool" and work.compiled_fabric.spec.in_journal(issued.target):
        return  # It goes nowhere: ``run_memory`` answers it in this decision.
    work.commands.append(command_for(work.run, work.compiled_fabric.spec, issued, opened))


def command_for(run: Run, spec: FabricSpec, issued: ev.CallIssued, opened: tuple[Message, ...] = ()) -> Call:
    """Return the command that an intent stands for. ``opened``: the opening of a model's prompt, where the caller
    has it.
    """
    if issued.call == "tool":
        step = run.steps.get(issued.step_id)
        requested = None if step is None else step.requested_of(issued.command_id)
        return CallTool(
            command_id=issued.command_id,
            attempt=issued.attempt,
            step_id=issued.step_id,
            agent=issued.agent,
            tool=issued.target,
            args_ref=issued.args_ref,
            call_id=issued.call_id,
            idempotency_key=issued.key,
            deadline_at=issued.deadline_at,
            answers=() if requested is None else requested.answers,
        )
    step, agent = run.steps[issued.step_id], spec.agent(issued.agent)
    return CallModel(
        command_id=issued.command_id,
        attempt=issued.attempt,
        step_id=issued.step_id,
        agent=issued.agent,
        model=issued.target,
        messages=prompt.messages(run, step, opened or children.open_messages(run, spec, step)),
        tools=() if issued.final else spec.tools_of(agent),
        output=prompt.find_output(step),
        max_output_tokens=issued.max_output_tokens,
        idempotency_key=issued.key,
        deadline_at=issued.deadline_at,
        typed=contract(run, spec, step),
    )


def let_go(work: Work, pending: Pending, reason: str) -> None:
    """Abort a call. One that is out is charged at its worst case; one that waited for its retry is free."""
    issued = pending.issued
    charged = (0, 0) if pending.failed else (issued.reserved_usd_micros, issued.reserved_tokens)
    work.emit(
        ev.CallAborted(
            command_id=issued.command_id,
            attempt=issued.attempt,
            reason=reason,
            charged_usd_micros=charged[0],
            charged_tokens=charged[1],
        )
    )
    if not pending.failed:
        work.commands.append(AbortCall(command_id=issued.command_id, attempt=issued.attempt))
    mutations.let_go(work, issued.command_id, reason)


def withdraw_asked(work: Work, reason: str, step_id: str | None = None) -> None:
    """Withdraw the reviews of calls that have not begun, of one step or of the whole run."""
    for key, review in list(work.run.reviews.items()):
        if review.fact.item == "pre_action" and step_id in (None, review.fact.step_id):
            work.emit(ev.ReviewWithdrawn(review_id=key, reason=reason))


def let_go_all(work: Work, reason: str, step_id: str | None = None) -> None:
    """Abort the pending calls of one step or the whole run. Withdraw the reviews of calls, and stop the children."""
    withdraw_asked(work, reason, step_id)
    for pending in list(work.run.pending.values()):
        if step_id is None or pending.issued.step_id == step_id:
            let_go(work, pending, reason)
    mutations.drop_checks(work, reason, step_id)
    if work.run.family.alive:
        children.let_go(work, reason, step_id)
