"""A run's calls, what its runs spend together, and the circuit breakers in front of them: which there are, what a refused call comes to, what the end of a call tells them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fabric.core import command_ids
from fabric.core.audit import Act, AuditEntry
from fabric.core.breaker.foretold import opened, refusing, reopened
from fabric.core.breaker.gates import gates_of
from fabric.core.breaker.passing import (
    Gate,
    Judged,
    Key,
    Looked,
    Met,
    Row,
    Settling,
    Step,
    passing,
    settled,
)
from fabric.core.breaker.policy import KIND, SignalName
from fabric.core.breaker.signals import CLEAN, NEUTRAL, SIGNAL_OF, US, open_answer, told_us
from fabric.core.breaker.table import decoded
from fabric.core.commands import CallModel, CallTool
from fabric.core.context import Compiled
from fabric.core.events import ReactionDecided, StageLeft
from fabric.core.failover import TARGETS, Target
from fabric.core.fallbacks import chain
from fabric.core.fingerprint import encode
from fabric.core.flow import Stage
from fabric.core.frozen import replace
from fabric.core.guard import judge
from fabric.core.inputs import CallFailed, Result
from fabric.core.judges import is_judge
from fabric.core.mechanisms import circuit_breaker, cost_velocity, state_of
from fabric.core.mechanisms.contract import Proposal, View
from fabric.core.pace import TooFast
from fabric.core.questions import SYSTEM
from fabric.core.run import Run
from fabric.core.run import Step as AgentStep
from fabric.core.saga import Outcome
from fabric.core.shared_pace import Counting, Shared, pacing, shared_by
from fabric.core.taxonomy import Cause
from fabric.core.work import Emitted
from fabric.runtime.grant_ports import Count, GuardRow, RunLine
from fabric.runtime.happenings import OpenBreakers

Command = CallModel | CallTool


@dataclass(frozen=True, slots=True)
class Past:
    """What a call was let past: its breakers, and what its runs spend together."""

    met: tuple[Met, ...] = ()
    paced: tuple[tuple[Shared, Row], ...] = ()


def gates_for(fabric_id: str, compiled: Compiled, run: Run, command: Command) -> tuple[Gate, ...]:
    """The breakers in front of a call, with what its step has counted. What undoes a run, or asks what became of a call, is stopped by none."""
    spec = compiled.spec
    if not spec.policy.breakers or command_ids.is_errand(command.command_id):
        return ()
    state = state_of(run.guards, circuit_breaker, command.step_id)
    approved = state_of(run.guards, cost_velocity).approved
    # What was spent too fast opened its breaker at the trip (``opened_by``), and does so once.
    streaks: dict[SignalName, int] = {
        name: n for name, n in circuit_breaker.streaks(state).items() if name != SignalName.COST_RATE
    }
    pending = run.pending.get(command.command_id)
    last_word = pending is not None and pending.issued.final
    return gates_of(spec.policy.breakers, fabric_id, spec, command, streaks, dear_passes=approved, last_word=last_word)


def opened_by(fabric_id: str, compiled: Compiled, before: Run, emitted: Iterable[Emitted]) -> tuple[Gate, ...]:
    """The breakers that a run's rate may have opened: each decision about it counts at once. ``before``: the run before those facts."""
    spec, found, costly = compiled.spec, [], Counter[str]()
    for one in emitted:
        fact = one.event.fact
        if not isinstance(fact, ReactionDecided) or not spec.policy.breakers:
            continue
        trip = next((each for each in (fact.cause, *fact.causes) if each.mechanism == cost_velocity.NAME), None)
        step = before.steps.get(fact.step_id)
        if trip is None or step is None or not step.agent:
            continue
        costly[step.id] += 1
        count = state_of(before.guards, circuit_breaker, step.id).costly + costly[step.id]
        model = str(trip.evidence.details.get("target") or spec.agent(step.agent).model)
        found += [
            replace(gate, why=trip.message)
            for gate in gates_of(
                spec.policy.breakers, fabric_id, spec, _asking(step, model), {SignalName.COST_RATE: count}
            )
            if any(SignalName.COST_RATE in signal.names for signal in gate.breaker.signals)
        ]
    return tuple(found)


def told_breakers(
    fabric_id: str, compiled: Compiled, before: Run, after: Run, emitted: Sequence[Emitted]
) -> Iterator[OpenBreakers]:
    """Yields what breakers count of these events beside the ends of calls."""
    telling = any(isinstance(one.event.fact, ReactionDecided | StageLeft) for one in emitted)
    if telling and compiled.spec.policy.breakers:
        gates = opened_by(fabric_id, compiled, before, emitted)
        judged = judged_by(fabric_id, compiled, before, after, emitted)
        if gates or judged:
            yield OpenBreakers(gates, judged)


def judged_by(
    fabric_id: str, compiled: Compiled, before: Run, after: Run, emitted: Iterable[Emitted]
) -> tuple[Judged, ...]:
    """Returns what gates found about invariants, for each breaker that counts it. The decision tells of a failed check, the end of a stage of a passed one."""
    counts = [one for one in compiled.spec.policy.breakers if any(SignalName.INVARIANT in s.names for s in one.signals)]
    found: dict[tuple[Key, bool], Judged] = {}
    for one in emitted if counts else ():
        fact = one.event.fact
        if not isinstance(fact, ReactionDecided | StageLeft) or fact.gate is None:
            continue
        result = next((check.result for check in fact.gate.checks if check.name == "invariants"), "")
        violated = isinstance(fact, ReactionDecided)
        if result != ("failed" if violated else "passed"):
            continue
        for step in _judged_steps({**before.steps, **after.steps}, before.epoch, fact):
            asking = _asking(step, step.model or compiled.spec.agent(step.agent).model)
            for gate in gates_of(counts, fabric_id, compiled.spec, asking, {}):
                found.setdefault((gate.key, violated), Judged(gate, violated))
    return tuple(found.values())


AUTHORS = (Stage.PLAN, Stage.FAN_IN, Stage.FINALIZE)
"""Stages whose output is one agent's. A fan-out's only says which branches there are, and what is validated was made before."""


def _judged_steps(steps: Mapping[str, AgentStep], epoch: int, fact: ReactionDecided | StageLeft) -> Iterator[AgentStep]:
    """The step of the agent whose output a gate judged; none where the engine made it."""
    stage = fact.stage if isinstance(fact, StageLeft) else steps[fact.step_id].stage if fact.step_id in steps else ""
    for step in steps.values() if stage in AUTHORS else ():
        mine = step.stage == stage and command_ids.epoch_of(step.id) == epoch
        named = isinstance(fact, StageLeft) or step.id == fact.step_id
        if mine and named and step.agent and step.status != "failed" and not is_judge(step):
            yield step


def _asking(step: AgentStep, model: str) -> CallModel:
    """A model call of a step, as far as breakers look at one."""
    return CallModel(
        command_id=step.id,
        attempt=1,
        step_id=step.id,
        agent=step.agent,
        model=model,
        messages=(),
        tools=(),
        output="",
        max_output_tokens=0,
        idempotency_key="",
        deadline_at=0,
    )


def taken(gates: tuple[Gate, ...], shared: tuple[Shared, ...]) -> Generator[Step, Any, Past | Looked | TooFast]:
    """Takes a call past what its runs spend together, and then past its breakers: whoever refuses it first."""
    paced = yield from pacing(shared)
    if isinstance(paced, TooFast):
        return paced
    met = yield from passing(gates)
    return met if isinstance(met, Looked) else Past(met, paced)


def shared_for(fabric_id: str, compiled: Compiled, command: Command) -> tuple[Shared, ...]:
    """What a call's run spends together with others."""
    if not isinstance(command, CallModel):
        return ()
    return shared_by(compiled.spec.policy, fabric_id)


def counting(past: Past, compiled: Compiled, run: Run, command: Command) -> tuple[Counting, ...]:
    """Where the cost of a call that goes out is counted."""
    pending = run.pending.get(command.command_id)
    worst = 0 if pending is None else pending.issued.reserved_usd_micros
    price = compiled.prices.get(command.model) if isinstance(command, CallModel) else None
    return tuple(Counting(one, row, price, worst) for one, row in past.paced)


def refused(found: Looked | TooFast, compiled: Compiled, run: Run, command: Command) -> CallFailed:
    """The failure of a call that was not sent, with the mechanism's word for it."""
    return (
        _too_fast(found, compiled, run, command) if isinstance(found, TooFast) else _open(found, compiled, run, command)
    )


def overdue(command: Command) -> CallFailed:
    """The failure of a call whose deadline passed before it could be sent."""
    return CallFailed(
        command_id=command.command_id,
        attempt=command.attempt,
        cause=Cause.TIMEOUT,
        message="its deadline passed before it could be sent",
        outcome=Outcome.REJECTED,
    )


def _too_fast(found: TooFast, compiled: Compiled, run: Run, command: Command) -> CallFailed:
    step = run.steps[command.step_id]
    target = command.model if isinstance(command, CallModel) else ""
    proposal = Proposal(
        kind="send", stage=step.stage, step_id=step.id, agent=command.agent, target=target, too_fast=found
    )
    trip = judge(proposal, View(found.asked_at, run, compiled.spec), compiled.spec.policy)[0]
    return CallFailed(
        command_id=command.command_id,
        attempt=command.attempt,
        cause=trip.cause,
        message=trip.message,
        outcome=Outcome.REJECTED,
        trip=trip,
    )


def _open(looked: Looked, compiled: Compiled, run: Run, command: Command) -> CallFailed:
    step = run.steps[command.step_id]
    proposal = Proposal(kind="send", stage=step.stage, step_id=step.id, agent=command.agent, looked=looked)
    trip = judge(proposal, View(looked.asked_at, run, compiled.spec), compiled.spec.policy)[0]
    left = circuit_breaker.wait_us(looked)
    answer = open_answer(
        looked.standing,
        left_us=left,
        agent=command.agent,
        fallback=_fallback_there(looked, compiled, command),
    )
    return CallFailed(
        command_id=command.command_id,
        attempt=command.attempt,
        cause=trip.cause,
        message=trip.message,
        breaker_wait_s=None if left is None else left / US,
        raw=encode(answer).decode(),
        outcome=Outcome.REJECTED,
        trip=trip,
    )


def _fallback_there(looked: Looked, compiled: Compiled, command: Command) -> bool:
    """Whether there is the fallback that the breaker names; whether it is used is the decision table's."""
    spec = compiled.spec
    match looked.breaker.on_open:
        case "model":
            return isinstance(command, CallModel) and bool(spec.model(command.model).fallbacks)
        case "static_answer":
            return spec.safe_fallback is not None
    return False


def told(
    met: tuple[Met, ...], fabric_id: str, compiled: Compiled, run: Run, command: Command, failed: CallFailed
) -> Generator[Step, Any, CallFailed]:
    """The failure, with what breakers say of it: how long one is open again that the call probed in vain, and before which other models one is open."""
    failed = yield from _left_open(met, failed)
    shut = []
    for model, gates in _stand_ins(fabric_id, compiled, run, command, failed):
        if (yield from refusing(gates, met, SIGNAL_OF[failed.cause])):
            shut.append(model)
    return replace(failed, shut=tuple(shut)) if shut else failed


def _stand_ins(
    fabric_id: str, compiled: Compiled, run: Run, command: Command, failed: CallFailed
) -> Iterator[tuple[str, tuple[Gate, ...]]]:
    """The models that may be asked instead, each with the breakers that its call would meet."""
    if not isinstance(command, CallModel) or TARGETS[failed.cause] is Target.NOWHERE:
        return
    step, models = run.steps.get(command.step_id), {one.name: one.fallbacks for one in compiled.spec.models}
    for name in chain(models, command.model if step is None else step.stands_for or command.model):
        if gates := gates_for(fabric_id, compiled, run, replace(command, model=name)):
            yield name, gates


def _left_open(met: tuple[Met, ...], result: CallFailed) -> Generator[Step, Any, CallFailed]:
    """The failure, with how long breakers in front of the call are open after it: as a probe that failed, or as the one too many."""
    end, told = SIGNAL_OF[result.cause], told_us(result.retry_after_s)
    found = [looked for one in met if one.probe and (looked := reopened(one, end, told)) is not None]
    found += yield from opened(met, end, told)
    waits = [circuit_breaker.wait_us(looked) for looked in found]
    if not waits or None in waits:
        return result
    return replace(result, breaker_wait_s=max(wait for wait in waits if wait is not None) / US)


def ended(met: tuple[Met, ...], result: Result | None, run: Run | None) -> Settling:
    """What the end of a call says to the breakers that let it pass. ``run``: after it took the result in. None: nobody was asked, or it is not ours."""
    if result is None or run is None:
        return settled(met, NEUTRAL, frozenset())
    if isinstance(result, CallFailed):
        said = SIGNAL_OF[result.cause]
        return settled(met, None if said == CLEAN else said, frozenset(), told_us(result.retry_after_s))
    state = state_of(run.guards, circuit_breaker, command_ids.step_of(result.command_id))
    return settled(met, None, circuit_breaker.just_seen(state))


def holder_of(run_id: str, command_id: str, attempt: int) -> str:
    """Who holds a probe's permit: the attempt."""
    return f"{run_id}/{command_id}#{attempt}"


def move_of(step: Step, holder: str, entry_id: str) -> RunLine | None:
    """The line of the audit stream that says how a run moves a circuit breaker; None: the row is no breaker's. ``holder``: whose call moves it.

    It says the states before and after, what was counted, and whether a probe moved it. ``entry_id``: its own.
    """
    if step.key.kind.partition(":")[0] != KIND or step.row is None:
        return None
    before, after = decoded(step.row.state), decoded(step.state)
    run_id, _, call = holder.partition("/")
    body: dict[str, Any] = {"run": run_id, "breaker": step.key.kind, "generation": step.row.generation + 1}
    body |= {"was": before.state.value, "is": after.state.value, "trips": after.trips, "probe": step.held}
    opened = after if after.failures else before
    more = {
        "call": call.removesuffix("#0"),
        "counted": opened.counted,
        "limit": opened.threshold,
        "reason": after.reason,
    }
    body |= {name: said for name, said in more.items() if said}
    entry = AuditEntry(
        entry_id=entry_id, actor=SYSTEM, act=Act.BREAKER_MOVED, subject=step.key.scope, body=encode(body)
    )
    return RunLine(run_id, entry)


def probing(met: Iterable[Met], result: Result) -> Result:
    """The result of a call, marked with the circuit breaker whose probe the call was."""
    scope = next((one.gate.key.scope for one in met if one.probe), "")
    return replace(result, probed=scope) if scope else result


def counted(step: Step) -> Count:
    """A tally as the rows take it."""
    seen, tally = row_of(step), step.tally
    assert tally is not None
    return Count(
        scope=seen.scope,
        kind=seen.kind,
        generation=seen.generation,
        signal=tally.key,
        n=tally.n,
        reset=tally.reset,
        windowed=tally.windowed,
        until=tally.until,
    )


def row_of(step: Step) -> GuardRow:
    """The row that a step was given by the look before."""
    assert isinstance(step.row, GuardRow)
    return step.row
