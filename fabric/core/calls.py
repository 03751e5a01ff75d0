"""Issuing calls: each one reserved, keyed and given its deadline in the fact that commits before it goes out.

A command follows from its ``CallIssued`` fact and the run alone, so that a retry, or a process that takes the run over, sends the very same call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fabric.core import call_time, children, guard, handing_out, mutations, prompt
from fabric.core import events as ev
from fabric.core.charging import Charge, charge, charge_tool
from fabric.core.commands import AbortCall, Call, CallModel, CallTool, Message
from fabric.core.cost import worst_input_tokens
from fabric.core.flow import Stage
from fabric.core.frozen import replace
from fabric.core.inputs import CallFailed, ModelReplied
from fabric.core.mechanisms import budget, loop_detector, saga, state_of
from fabric.core.mechanisms.contract import Proposal
from fabric.core.run import Pending, Run, Step
from fabric.core.saga import MUTATES, by_command
from fabric.core.spec import FabricSpec
from fabric.core.typed_output import contract
from fabric.core.verdict import Trip
from fabric.core.work import US, Work

JSON = Any


def timeout_s(work: Work, stage: Stage, tool: str = "") -> float:
    """Seconds that one attempt of a call may take: the tier's value in its stage, or the tool's own where it is shorter."""
    tier = work.policy_in(stage).deadlines_of(work.run.tier).call_s
    own = work.compiled.spec.tool(tool).timeout_s if tool else None
    return tier if own is None else min(tier, own)


def deadline_at(work: Work, stage: Stage, timeout: float) -> int:
    """The instant an attempt issued now is over: its own timeout, its stage or its run, whichever is first."""
    return min(work.ctx.now + int(timeout * US), work.run.stages[stage].deadline_at, work.run.deadline_at)


def model_of(work: Work, step: Step) -> str:
    """The model that answers a step: its agent's own, or the one that was put in its place."""
    return step.model or work.compiled.spec.agent(step.agent).model


def reasoning_left_out(work: Work, step: Step, model: str) -> int:
    """Counts the answers of the step whose reasoning is not sent to ``model``: only the model that gave it understands it."""
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
    """What the guard is asked before a model call. ``instead``: the model that would answer in place of the step's; ``cheaper``: because of what that costs."""
    agent = work.compiled.spec.agent(step.agent)
    model = instead or model_of(work, step)
    tokens_in = worst_input_tokens(prompt.prompt_bytes(work, step, opened))
    price, most = work.compiled.prices.get(model), agent.max_output_tokens
    worst = None if price is None else price.worst_cost(tokens_in, most)
    dearest = budget.dearest(state_of(work.run.guards, budget), model, work.ctx.shares, work.ctx.now)
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
        keys=_keys(work, model) if work.compiled.key_caps else (),
    )


def _keys(work: Work, model: str) -> tuple[str, ...]:
    """The budgets of the key that a model's call goes out with, for the day and the month of this decision."""
    caps = work.compiled.key_caps.get(model, ())
    return tuple(scope for cap in caps for scope in cap.scopes(work.ctx.now))


def ask_model(work: Work, step: Step, *, turn: int, attempt: int = 1) -> list[Trip]:
    """Issues the step's model call, or gives back why not."""
    opened = handing_out.opening(work.run, work.compiled.spec, step)
    proposal = model_proposal(work, step, opened, turn=turn, attempt=attempt)
    trips = guard.judge(proposal, work.view, work.compiled.spec.policy)
    if trips:
        return trips
    command_id = f"{step.id}.t{turn}"
    attempt_s = call_time.attempt_s(work.run.pending.get(command_id), proposal.timeout_s)
    state = state_of(work.run.guards, saga, step.id)
    agent = work.compiled.spec.agent(step.agent)
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
        prompt=prompt.digest_of(step, opened),
        reserved_usd_micros=proposal.worst_usd_micros or 0,
        reserved_tokens=proposal.worst_tokens,
        max_output_tokens=agent.max_output_tokens,
        final=step.final,
        grants=work.ctx.shares.take(proposal.worst_usd_micros or 0, proposal.worst_tokens, proposal.keys),
    )
    _issue(work, issued, opened)
    return []


def charge_of(work: Work, issued: ev.CallIssued, given: ModelReplied | CallFailed) -> Charge:
    """The charge of an attempt that came back without a result that can be used, and of a model's answer."""
    if issued.call == "tool":
        assert isinstance(given, CallFailed)
        return charge_tool(issued.reserved_usd_micros, given)
    reserved = Charge(issued.reserved_usd_micros, issued.reserved_tokens)
    return charge(work.compiled.prices.get(issued.target), reserved, given)


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
    """What the guard is asked before a tool call. ``in_doubt``: it may have been executed under its key already. ``args``: None where they were
    judged before. ``args_ref``: where they stand; empty: where those of a call of the step's present turn do.
    """
    tool = work.compiled.spec.tool(call.tool)
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
    """Where a call's arguments stand: in the step's last answer, by themselves where that is still coming in, or in what a person wrote instead."""
    coming = next((one for one in step.begun if not one.broken and one.record.call_id == call_id), None)
    if coming is not None:
        return coming.record.args_ref or coming.ref
    if not step.history:
        return step.note_ref  # The engine asks, and not a model.
    last = step.history[-1]
    edited = next((record.args_ref for record in last.calls if record.call_id == call_id), "")
    return edited or last.answer_ref


def command_id_of(step: Step, turn: int, index: int) -> str:
    """The identity of a tool call: the step, the turn, and which call of its answer."""
    return f"{step.id}.t{turn}.c{index + step.first_call}"


def key_of_tool(work: Work, step: Step, call: ev.ProposedCall) -> str:
    """The idempotency key of a call of the step's last answer."""
    tool = work.compiled.spec.tool(call.tool)
    if tool.effect in MUTATES:
        return mutations.key(work, step, tool, call.call_id, call.args_hash)
    state = state_of(work.run.guards, saga, step.id)
    return saga.key(state, work.run.id, step.id, call.tool, call.args_hash)


def run_tool(work: Work, step: Step, call: ev.ProposedCall, index: int, turn: int, key: str) -> None:
    """Issues a tool call that the guard has let pass, and issues it again after its server asked a person."""
    command_id = command_id_of(step, turn, index)
    before = step.requested_of(command_id)
    price = work.compiled.spec.tool(call.tool).price_usd_micros
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


def again(work: Work, pending: Pending) -> list[Trip]:
    """The next attempt of a call, under the same key, or why it may not start."""
    issued = pending.issued
    step = work.run.steps[issued.step_id]
    if issued.call == "model":
        return ask_model(work, step, turn=issued.turn, attempt=issued.attempt + 1) if pending.failed else []
    call = ev.ProposedCall(call_id=issued.call_id, tool=issued.target, args_hash=issued.args_hash)
    in_doubt = mutations.in_doubt(by_command(work.run.saga, issued.command_id))
    proposal = tool_proposal(
        work, step, call, (), issued.turn, issued.attempt + 1, in_doubt=in_doubt, args_ref=issued.args_ref
    )
    if trips := guard.judge(proposal, work.view, work.compiled.spec.policy, without=loop_detector.NAME):
        return trips
    deadline = deadline_at(work, step.stage, call_time.attempt_s(pending, proposal.timeout_s))
    grants = work.ctx.shares.take(issued.reserved_usd_micros)
    _issue(work, replace(issued, attempt=issued.attempt + 1, deadline_at=deadline, grants=grants))
    return []


def _issue(work: Work, issued: ev.CallIssued, opened: tuple[Message, ...] = ()) -> None:
    if issued.call == "tool":
        mutations.intend(work, issued)
    work.emit(issued)
    if issued.call == "tool" and work.compiled.spec.in_journal(issued.target):
        return  # Nobody is asked: ``run_memory`` answers it in this decision.
    work.commands.append(command_for(work.run, work.compiled.spec, issued, opened))


def command_for(run: Run, spec: FabricSpec, issued: ev.CallIssued, opened: tuple[Message, ...] = ()) -> Call:
    """The command that an intent stands for. ``opened``: the opening of a model's prompt, where the caller has it."""
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
        messages=prompt.messages(run, step, opened or handing_out.opening(run, spec, step)),
        tools=() if issued.final else spec.tools_of(agent),
        output=prompt.output_of(step),
        max_output_tokens=issued.max_output_tokens,
        idempotency_key=issued.key,
        deadline_at=issued.deadline_at,
        typed=contract(run, spec, step),
    )


def let_go(work: Work, pending: Pending, reason: str) -> None:
    """Aborts a call: charged at its worst case when it is out, for nothing when it only waited for its retry."""
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
    """Withdraws the questions about calls that have not begun, of one step or of the whole run."""
    for key, question in list(work.run.questions.items()):
        if question.fact.item == "pre_action" and step_id in (None, question.fact.step_id):
            work.emit(ev.EscalationWithdrawn(escalation_id=key, reason=reason))


def let_go_all(work: Work, reason: str, step_id: str | None = None) -> None:
    """Aborts the pending calls of one step or of the whole run, withdraws the questions about calls, and tells the children to stop."""
    withdraw_asked(work, reason, step_id)
    for pending in list(work.run.pending.values()):
        if step_id is None or pending.issued.step_id == step_id:
            let_go(work, pending, reason)
    mutations.dropped(work, reason, step_id)
    if work.run.family.alive:
        children.let_go(work, reason, step_id)
