"""Finds the circuit breakers and shared spending rates of a run's calls. Builds refusals, and reports the end of calls
to them. Pure. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fabric.core.audit.lines import Act, AuditEntry
from fabric.core.breaker.foretold import foretell_refusal, open_breakers, reopen_breaker
from fabric.core.breaker.gates import list_gates
from fabric.core.breaker.passing import (
    BreakerKey,
    BreakerRefusal,
    BreakerRow,
    Gate,
    GateFinding,
    PassedBreaker,
    RowStep,
    Settling,
    pass_breakers,
    settle_breakers,
)
from fabric.core.breaker.signals import CLEAN, NEUTRAL, find_signal, open_answer, told_us
from fabric.core.breaker.table import decode_standing
from fabric.core.budgets.spend_rate import Counting, SharedSpend, TooFast, list_shared, pace_call
from fabric.core.decision.guard import judge
from fabric.core.decision.work import EmittedFact
from fabric.core.events import ReactionDecided, StageLeft
from fabric.core.events.commands import CallModel, CallTool
from fabric.core.events.inputs import CallFailed, Result
from fabric.core.mechanisms import circuit_breaker, cost_velocity, find_state
from fabric.core.mechanisms.contract import Proposal, View
from fabric.core.people.eligibility import SYSTEM
from fabric.core.spec.policies.breakers import KIND, SignalName
from fabric.core.spec.policies.fallbacks import chain
from fabric.core.state.context import CompiledFabric
from fabric.core.state.judges import is_judge
from fabric.core.state.run import Run
from fabric.core.state.run import Step as AgentStep
from fabric.core.values import command_ids
from fabric.core.values.fingerprint import encode
from fabric.core.values.flow import Stage
from fabric.core.values.frozen import replace
from fabric.core.values.saga import Outcome
from fabric.core.values.taxonomy import CLASSIFY, Cause
from fabric.core.values.units import US
from fabric.runtime.happenings import OpenBreakers
from fabric.runtime.ports.spending import GuardRow, RunLine, SignalCount

Command = CallModel | CallTool


@dataclass(frozen=True, slots=True)
class PassedGuards:
    """The breakers and the shared spending rates that a call passed."""

    met: tuple[PassedBreaker, ...] = ()
    paced: tuple[tuple[SharedSpend, BreakerRow], ...] = ()


def gates_for(fabric_id: str, compiled: CompiledFabric, run: Run, command: Command) -> tuple[Gate, ...]:
    """Return the breakers in front of a call, with the counts of its step. Compensations and reconciliations have
    none.
    """
    spec = compiled.spec
    if not spec.policy.breakers or command_ids.is_errand(command.command_id):
        return ()
    state = find_state(run.guards, circuit_breaker, command.step_id)
    approved = find_state(run.guards, cost_velocity).approved
    # An overspent rate opened its breaker at the trip (``opened_by``), once.
    streaks: dict[SignalName, int] = {
        name: n for name, n in circuit_breaker.streaks(state).items() if name != SignalName.COST_RATE
    }
    pending = run.pending.get(command.command_id)
    last_word = pending is not None and pending.issued.final
    return list_gates(
        spec.policy.breakers, fabric_id, spec, command, streaks, dear_passes=approved, last_word=last_word
    )


CHANGING = (ReactionDecided, StageLeft)
"""Facts by which a breaker may change."""


def opened_by(
    fabric_id: str, compiled: CompiledFabric, before: Run, emitted: Iterable[EmittedFact]
) -> tuple[Gate, ...]:
    """Return the breakers that a run's rate may have opened: each decision about it counts at once. ``before``: the
    run before those facts.
    """
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
        count = find_state(before.guards, circuit_breaker, step.id).costly + costly[step.id]
        model = str(trip.evidence.details.get("target") or spec.agent(step.agent).model)
        found += [
            replace(gate, why=trip.message)
            for gate in list_gates(
                spec.policy.breakers, fabric_id, spec, _build_call(step, model), {SignalName.COST_RATE: count}
            )
            if any(SignalName.COST_RATE in signal.names for signal in gate.breaker.signals)
        ]
    return tuple(found)


def breaker_changes(
    fabric_id: str, compiled: CompiledFabric, before: Run, after: Run, emitted: Sequence[EmittedFact]
) -> Iterator[OpenBreakers]:
    """Yield the changes of breakers by these events other than the ends of calls."""
    telling = [one for one in emitted if isinstance(one.event.fact, CHANGING)]
    if telling and compiled.spec.policy.breakers:
        gates = opened_by(fabric_id, compiled, before, telling)
        judged = judged_by(fabric_id, compiled, before, after, telling)
        if gates or judged:
            yield OpenBreakers(gates, judged)


def judged_by(
    fabric_id: str, compiled: CompiledFabric, before: Run, after: Run, emitted: Iterable[EmittedFact]
) -> tuple[GateFinding, ...]:
    """Return the gates' findings about invariants, for each breaker that counts them. A decision reports a failed
    check, the end of a stage a passed one.
    """
    counts = [one for one in compiled.spec.policy.breakers if any(SignalName.INVARIANT in s.names for s in one.signals)]
    found: dict[tuple[BreakerKey, bool], GateFinding] = {}
    for one in emitted if counts else ():
        fact = one.event.fact
        if not isinstance(fact, ReactionDecided | StageLeft) or fact.gate is None:
            continue
        result = next((check.result for check in fact.gate.checks if check.name == "invariants"), "")
        violated = isinstance(fact, ReactionDecided)
        if result != ("failed" if violated else "passed"):
            continue
        for step in _judged_steps({**before.steps, **after.steps}, before.epoch, fact):
            asking = _build_call(step, step.model or compiled.spec.agent(step.agent).model)
            for gate in list_gates(counts, fabric_id, compiled.spec, asking, {}):
                found.setdefault((gate.key, violated), GateFinding(gate, violated))
    return tuple(found.values())


AUTHORS = (Stage.PLAN, Stage.FAN_IN, Stage.FINALIZE)
"""Stages whose output is one agent's. A fan-out's only lists its branches, and the validate stage's was made before."""


def _judged_steps(steps: Mapping[str, AgentStep], epoch: int, fact: ReactionDecided | StageLeft) -> Iterator[AgentStep]:
    """Yield the step of the agent whose output a gate judged; none where the engine made it."""
    stage = fact.stage if isinstance(fact, StageLeft) else steps[fact.step_id].stage if fact.step_id in steps else ""
    for step in steps.values() if stage in AUTHORS else ():
        mine = step.stage == stage and command_ids.read_epoch(step.id) == epoch
        named = isinstance(fact, StageLeft) or step.id == fact.step_id
        if mine and named and step.agent and step.status != "failed" and not is_judge(step):
            yield step


def _build_call(step: AgentStep, model: str) -> CallModel:
    """Return a model call of a step, with the fields that breakers look at."""
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


def pass_guards(
    gates: tuple[Gate, ...], shared: tuple[SharedSpend, ...]
) -> Generator[RowStep, Any, PassedGuards | BreakerRefusal | TooFast]:
    """Pass a call through the shared spending rates, and then through its breakers. Returns what it passed, or the
    first refusal.
    """
    paced = yield from pace_call(shared)
    if isinstance(paced, TooFast):
        return paced
    met = yield from pass_breakers(gates)
    return met if isinstance(met, BreakerRefusal) else PassedGuards(met, paced)


def shared_for(fabric_id: str, compiled: CompiledFabric, command: Command) -> tuple[SharedSpend, ...]:
    """Return the shared spending rates that a call counts towards."""
    if not isinstance(command, CallModel):
        return ()
    return list_shared(compiled.spec.policy, fabric_id)


def counting_rows(past: PassedGuards, compiled: CompiledFabric, run: Run, command: Command) -> tuple[Counting, ...]:
    """Return the rows in which the cost of an outgoing call is counted."""
    pending = run.pending.get(command.command_id)
    worst = 0 if pending is None else pending.issued.reserved_usd_micros
    price = compiled.prices.get(command.model) if isinstance(command, CallModel) else None
    return tuple(Counting(one, row, price, worst) for one, row in past.paced)


def refusal_failure(
    found: BreakerRefusal | TooFast, compiled: CompiledFabric, run: Run, command: Command
) -> CallFailed:
    """Return the failure of a call that was not sent, with the mechanism's message."""
    return (
        _too_fast(found, compiled, run, command) if isinstance(found, TooFast) else _open(found, compiled, run, command)
    )


def overdue(command: Command) -> CallFailed:
    """Return the failure of a call whose deadline passed before it could be sent."""
    return CallFailed(
        command_id=command.command_id,
        attempt=command.attempt,
        cause=Cause.TIMEOUT,
        message="its deadline passed before it could be sent",
        outcome=Outcome.REJECTED,
        never_sent=True,
    )


def _too_fast(found: TooFast, compiled: CompiledFabric, run: Run, command: Command) -> CallFailed:
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


def _open(looked: BreakerRefusal, compiled: CompiledFabric, run: Run, command: Command) -> CallFailed:
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


def _fallback_there(looked: BreakerRefusal, compiled: CompiledFabric, command: Command) -> bool:
    """Return True if the fallback that the breaker names exists; the decision table decides about its use."""
    spec = compiled.spec
    match looked.breaker.on_open:
        case "model":
            return isinstance(command, CallModel) and bool(spec.model(command.model).fallbacks)
        case "static_answer":
            return spec.safe_fallback is not None
    return False


def failure_with_breakers(
    met: tuple[PassedBreaker, ...],
    fabric_id: str,
    compiled: CompiledFabric,
    run: Run,
    command: Command,
    failed: CallFailed,
) -> Generator[RowStep, Any, CallFailed]:
    """Return the failure with the breakers' facts. They are the wait for a breaker that opened after the call's probe,
    and the fallbacks behind open breakers.
    """
    failed = yield from _describe_open(met, failed)
    shut = []
    for model, gates in _fallbacks(fabric_id, compiled, run, command, failed):
        if (yield from foretell_refusal(gates, met, find_signal(failed))):
            shut.append(model)
    return replace(failed, shut=tuple(shut)) if shut else failed


def _fallbacks(
    fabric_id: str, compiled: CompiledFabric, run: Run, command: Command, failed: CallFailed
) -> Iterator[tuple[str, tuple[Gate, ...]]]:
    """Yield the possible fallbacks, each with the breakers that its call would meet."""
    if not isinstance(command, CallModel) or not CLASSIFY[failed.cause].failover:
        return
    step, models = run.steps.get(command.step_id), {one.name: one.fallbacks for one in compiled.spec.models}
    for name in chain(models, command.model if step is None else step.stands_for or command.model):
        if gates := gates_for(fabric_id, compiled, run, replace(command, model=name)):
            yield name, gates


def _describe_open(met: tuple[PassedBreaker, ...], result: CallFailed) -> Generator[RowStep, Any, CallFailed]:
    """Return the failure with the time for which breakers stay open after it. It was a failed probe, or it reached a
    threshold.
    """
    end, told = find_signal(result), told_us(result.retry_after_s)
    found = [looked for one in met if one.probe and (looked := reopen_breaker(one, end, told)) is not None]
    found += yield from open_breakers(met, end, told)
    waits = [circuit_breaker.wait_us(looked) for looked in found]
    if not waits or None in waits:
        return result
    return replace(result, breaker_wait_s=max(wait for wait in waits if wait is not None) / US)


def report_end(met: tuple[PassedBreaker, ...], result: Result | None, run: Run | None) -> Settling:
    """Report the end of a call to the breakers that it passed. ``run``: the run after it took the result in. None:
    the call was not sent, or the run is not ours.
    """
    if result is None or run is None:
        return settle_breakers(met, NEUTRAL, frozenset())
    if isinstance(result, CallFailed):
        said = find_signal(result)
        return settle_breakers(met, None if said == CLEAN else said, frozenset(), told_us(result.retry_after_s))
    state = find_state(run.guards, circuit_breaker, command_ids.read_step(result.command_id))
    return settle_breakers(met, None, circuit_breaker.just_seen(state))


def build_holder(run_id: str, command_id: str, attempt: int) -> str:
    """Return the holder of a probe's permit: the attempt."""
    return f"{run_id}/{command_id}#{attempt}"


def find_move(step: RowStep, holder: str, entry_id: str) -> RunLine | None:
    """Return the audit stream's line about a run's change of a circuit breaker. None: the row is no breaker's.
    ``holder``: the run's call that moves it. The line has the states before and after, the counts, and whether a probe
    moved it. ``entry_id``: the line's own id.
    """
    if step.key.kind.partition(":")[0] != KIND or step.row is None:
        return None
    before, after = decode_standing(step.row.state), decode_standing(step.state)
    run_id, _, call = holder.partition("/")
    body: dict[str, Any] = {"run": run_id, "breaker": step.key.kind, "generation": step.row.generation + 1}
    body |= {"was": before.state.value, "is": after.state.value, "trips": after.trips, "probe": step.held}
    opened = after if after.failures else before
    more = {
        "call": call.removesuffix("#0"),
        "counted": opened.signal_words,
        "limit": opened.threshold,
        "reason": after.reason,
    }
    body |= {name: said for name, said in more.items() if said}
    entry = AuditEntry(
        entry_id=entry_id, actor=SYSTEM, act=Act.BREAKER_MOVED, subject=step.key.scope, body=encode(body)
    )
    return RunLine(run_id, entry)


def mark_probe(met: Iterable[PassedBreaker], result: Result) -> Result:
    """Return the result of a call, marked with the circuit breaker whose probe the call was."""
    scope = next((one.gate.key.scope for one in met if one.probe), "")
    return replace(result, probed=scope) if scope else result


def build_count(step: RowStep) -> SignalCount:
    """Return a tally in the form of the rows."""
    seen, tally = build_row(step), step.tally
    assert tally is not None
    return SignalCount(
        scope=seen.scope,
        kind=seen.kind,
        generation=seen.generation,
        signal=tally.key,
        n=tally.n,
        reset=tally.reset,
        windowed=tally.windowed,
        until=tally.until,
    )


def build_row(step: RowStep) -> GuardRow:
    """Return the row that the step's look returned."""
    assert isinstance(step.row, GuardRow)
    return step.row
