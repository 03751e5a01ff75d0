"""Margins of what watches a run as a whole: failures that come back, silence, progress, visits, retries of stages. Measures as ``run_margins.Measure``; now is the instant of the last event."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fabric.core.breaker.policy import Breaker, BreakerScope, SignalName
from fabric.core.endpoints import endpoint_name
from fabric.core.flow import Stage
from fabric.core.mechanisms import (
    circuit_breaker,
    failure_signature,
    hop_limit,
    progress,
    retry_budget,
    stall_watchdog,
    state_of,
)
from fabric.core.policy import FlowPolicy
from fabric.core.run import Run, Step
from fabric.core.signatures import effective_limit
from fabric.core.spec import FabricSpec
from fabric.core.words import duration, words
from fabric.selectors.margin import US, Margin


def repeated(run: Run, spec: FabricSpec, now: int) -> Iterator[Margin]:
    """The failure that came most often."""
    counts = state_of(run.guards, failure_signature).counts
    where, most = max(counts.items(), key=lambda item: (item[1], item[0]), default=("", 0))
    yield Margin(
        name="same failure",
        observed=most,
        limit=effective_limit(spec.policy.failure_signature.limit),
        unit="count",
        at_limit="the run is aborted; in high-stakes a person is asked",
        where=words(where.partition("|")[0].partition(".")[0]),
        trips_at_limit=True,
    )


def silence(run: Run, spec: FabricSpec, now: int) -> Iterator[Margin]:
    """How long nothing has happened, where that would be a stall."""
    window = stall_watchdog.window_s(spec.policy.of_stage(run.stage), run.tier)
    if stall_watchdog.due_at(run, window) is not None:
        yield Margin(
            name="silence",
            observed=max(0, now - run.at) / US,
            limit=window,
            unit="seconds",
            at_limit="what is awaited is given up; the decision table decides",
            where=words(run.stage),
            trips_at_limit=True,
        )


def without_progress(run: Run, spec: FabricSpec, now: int) -> Iterator[Margin]:
    """The step whose last turns came to the same most often in a row, as a share of what its agent may: the least limit that it has not passed."""
    state = state_of(run.guards, progress)
    worst = (0, spec.policy.of_stage(run.stage).progress.agent_turns, "")
    for step in run.steps.values():
        config = spec.policy.of_stage(step.stage).progress
        few = config.supervisor_turns if step.stage is Stage.PLAN else config.agent_turns
        same = _alike(state.around, state.turns.get(step.id, ()))
        # Who was asked again past one limit is not stopped by it: what the turns ask has a wider one.
        limit = next(one for one in (*progress.limits(few).values(), same) if same <= one)
        if same / limit > worst[0] / worst[1]:
            worst = (same, limit, step.agent)
    yield Margin(
        name="turns without progress",
        observed=worst[0],
        limit=worst[1],
        unit="count",
        at_limit="no further request is sent; the decision table decides",
        where=worst[2],
        trips_at_limit=True,
    )


def _alike(around: str, turns: tuple[progress.Turn, ...]) -> int:
    """How many turns at the end are equal, where nothing was brought since. What changes the world or polls is told apart only where it is judged, by the fabric."""
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
    """The stage that is nearest to as many visits as it may have, where any has a limit."""
    limits = {stage: hop_limit.visits_allowed(policy.limits, stage) for stage in Stage}
    yield from _nearest("visits", state_of(run.guards, hop_limit).visits, limits, "the stage is not entered again")


def stage_retries(run: Run, policy: FlowPolicy) -> Iterator[Margin]:
    """The stage that is nearest to as many retries as it may make, where any has a limit."""
    limits = {stage: policy.of_stage(stage).retry.stage_retries for stage in Stage}
    made = state_of(run.guards, retry_budget).retries
    yield from _nearest("retries of a stage", made, limits, "no further retry in this stage")


def _nearest(name: str, made: Mapping[str, int], limits: Mapping[Stage, int | None], at_limit: str) -> Iterator[Margin]:
    near = [(made.get(stage, 0), limit, stage) for stage, limit in limits.items() if limit is not None]
    if near:
        most, limit, stage = max(near, key=lambda one: (one[0] / max(one[1], 1), one[2]))
        yield Margin(name=name, observed=most, limit=limit, unit="count", at_limit=at_limit, where=words(stage))


STREAKS: Mapping[SignalName, str] = {
    SignalName.IDENTICAL_CALL: "identical calls, breaker",
    SignalName.SCHEMA_INVALID: "answers off schema, breaker",
    SignalName.COST_RATE: "spend rate trips, breaker",
}
"""What a breaker counts within one step, as its margin is called; total over ``breaker.policy.PER_STEP``, by test."""


def streaks(run: Run, spec: FabricSpec, now: int) -> Iterator[Margin]:
    """How near the run's steps are to opening a circuit breaker, each by the one in front of it that opens first; what endpoints answer is no run's to know."""
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
            state = state_of(run.guards, circuit_breaker, step.id)
            met = next((one for one in opens if _meets(step, one[1], spec, state)), None)
            if met is not None:
                found.append((circuit_breaker.streaks(state)[name], step.agent, met))
        most, where, (threshold, breaker) = max(found, key=lambda one: (one[0] / one[2][0], one[1]))
        yield Margin(
            name=called,
            observed=most,
            limit=threshold,
            unit="count",
            at_limit=f"the {breaker.scope}'s breaker opens for {duration(breaker.cooldown_s)}: its next call is refused",
            where=where if most else "",
            trips_at_limit=True,
        )


def _meets(step: Step, breaker: Breaker, spec: FabricSpec, state: circuit_breaker.State) -> bool:
    """Whether a step's next call meets a breaker. Of tools it is the one that was called last: what repeats is its call."""
    if not breaker.only:
        return True
    match breaker.scope:
        case BreakerScope.PROVIDER:
            return breaker.before(endpoint_name(spec.model(step.model or spec.agent(step.agent).model)))
        case BreakerScope.TOOL:
            return breaker.before(state.last.partition(" ")[0])
        case BreakerScope.AGENT:
            return breaker.before(step.agent)
        case BreakerScope.STAGE:
            return breaker.before(step.stage)
        case BreakerScope.FABRIC:
            return True
