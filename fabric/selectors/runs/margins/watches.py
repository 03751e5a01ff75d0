"""Margins of the protections that watch a whole run: failures that come back, silence, progress, visits, retries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fabric.core.mechanisms import (
    circuit_breaker,
    failure_signature,
    find_state,
    hop_limit,
    progress,
    retry_budget,
    stall_watchdog,
)
from fabric.core.rules.signatures import effective_limit
from fabric.core.schema.limits import Unit
from fabric.core.spec.endpoints import endpoint_name
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.breakers import Breaker, BreakerScope, SignalName
from fabric.core.spec.policies.flow_policy import FlowPolicy
from fabric.core.state.run import Run, Step
from fabric.core.values.flow import Stage
from fabric.core.values.units import US
from fabric.core.values.words import duration, words
from fabric.selectors.runs.margins.margin import Margin, read_margin


def measure_repetition(run: Run, spec: FabricSpec, now: int) -> Iterator[Margin]:
    """Yield the margin of the failure that came most often."""
    counts = find_state(run.guards, failure_signature).counts
    where, most = max(counts.items(), key=lambda item: (item[1], item[0]), default=("", 0))
    yield read_margin(
        "failure_signature.limit",
        most,
        effective_limit(spec.policy.failure_signature.limit),
        where=words(where.partition("|")[0].partition(".")[0]),
        threshold=True,
    )


def silence(run: Run, spec: FabricSpec, now: int) -> Iterator[Margin]:
    """Yield the margin of the run's silence, where silence would be a stall."""
    window = stall_watchdog.window_s(spec.policy.of_stage(run.stage), run.tier)
    if stall_watchdog.due_at(run, window) is not None:
        silent = max(0, now - run.at) / US
        yield read_margin("stall_watchdog.after_s", silent, window, where=words(run.stage), threshold=True)


def measure_no_progress(run: Run, spec: FabricSpec, now: int) -> Iterator[Margin]:
    """Yield the margin of the step whose last turns were alike most often. The limit is the least that it has not
    passed.
    """
    state = find_state(run.guards, progress)
    worst = (0, spec.policy.of_stage(run.stage).progress.agent_turns, "")
    for step in run.steps.values():
        config = spec.policy.of_stage(step.stage).progress
        few = config.supervisor_turns if step.stage is Stage.PLAN else config.agent_turns
        same = _alike(state.around, state.turns.get(step.id, ()))
        # An agent that goes on past one limit is not stopped by it: its turns fall under a wider one.
        limit = next(one for one in (*progress.limits(few).values(), same) if same <= one)
        if same / limit > worst[0] / worst[1]:
            worst = (same, limit, step.agent)
    yield read_margin("progress.agent_turns", worst[0], worst[1], where=worst[2], threshold=True)


def _alike(around: int, turns: tuple[progress.AnswerTurn, ...]) -> int:
    """Return how many turns at the end are equal, with no result brought since. Only the fabric judges which tools
    change the world or poll.
    """
    if not turns or not turns[-1].calls or turns[-1].around != around:
        return 0
    last = (turns[-1].around, {call.came_to for call in turns[-1].calls})
    many = 0
    for turn in reversed(turns):
        if (turn.around, {call.came_to for call in turn.calls}) != last:
            break
        many += 1
    return many


def visits(run: Run, policy: FlowPolicy, now: int) -> Iterator[Margin]:
    """Yield the margin of the stage that is nearest to its limit of visits."""
    limits = {stage: hop_limit.visits_allowed(policy.limits, stage) for stage in Stage}
    yield from _nearest("limits.max_node_visits", find_state(run.guards, hop_limit).visits, limits)


def stage_retries(run: Run, policy: FlowPolicy) -> Iterator[Margin]:
    """Yield the margin of the stage that is nearest to its limit of retries."""
    limits = {stage: policy.of_stage(stage).retry.stage_retries for stage in Stage}
    made = find_state(run.guards, retry_budget).retries
    yield from _nearest("retry.stage_retries", made, limits)


def _nearest(path: str, made: Mapping[str, int], limits: Mapping[Stage, int | None]) -> Iterator[Margin]:
    near = [(made.get(stage, 0), limit, stage) for stage, limit in limits.items() if limit is not None]
    if near:
        most, limit, stage = max(near, key=lambda one: (one[0] / max(one[1], 1), one[2]))
        yield read_margin(path, most, limit, where=words(stage))


STREAKS: Mapping[SignalName, str] = {
    SignalName.IDENTICAL_CALL: "Identical calls, breaker",
    SignalName.SCHEMA_INVALID: "Answers off schema, breaker",
    SignalName.COST_RATE: "Spend rate trips, breaker",
}
"""The names of a breaker's counts within one step, as margins; total over ``PER_STEP``, by test."""


def streaks(run: Run, spec: FabricSpec, now: int) -> Iterator[Margin]:
    """Yield how near the run's steps are to opening a circuit breaker, each by the breaker that opens first. Answers of
    endpoints are counted by all workers, not here.
    """
    for name, called in STREAKS.items():
        opens = [
            (signal.threshold, breaker)
            for breaker in spec.policy.breakers
            for signal in breaker.signals
            if name in signal.names
        ]
        if not opens:
            continue
        opens.sort(key=lambda one: one[0])
        found = [(0, "", opens[0])]
        for step in run.steps.values():
            state = find_state(run.guards, circuit_breaker, step.id)
            met = next((one for one in opens if _meets(step, one[1], spec, state)), None)
            if met is not None:
                found.append((circuit_breaker.streaks(state)[name], step.agent, met))
        most, where, (threshold, breaker) = max(found, key=lambda one: (one[0] / one[2][0], one[1]))
        yield Margin(
            key=called,
            name=called,
            observed=most,
            limit=threshold,
            unit=Unit.TIMES,
            at_limit=f"the {breaker.scope}'s breaker opens for {duration(breaker.cooldown_s)}: its next call is refused",
            where=where if most else "",
            trips_at_limit=True,
        )


def _meets(step: Step, breaker: Breaker, spec: FabricSpec, state: circuit_breaker.State) -> bool:
    """Return True where a step's next call meets a breaker. For tools that is the tool it called last, since streaks
    repeat a call.
    """
    if not breaker.only:
        return True
    match breaker.scope:
        case BreakerScope.PROVIDER:
            return breaker.stands_before(endpoint_name(spec.model(step.model or spec.agent(step.agent).model)))
        case BreakerScope.TOOL:
            return breaker.stands_before(state.last.partition(" ")[0])
        case BreakerScope.AGENT:
            return breaker.stands_before(step.agent)
        case BreakerScope.STAGE:
            return breaker.stands_before(step.stage)
        case BreakerScope.FABRIC:
            return True
