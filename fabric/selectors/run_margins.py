"""Margins to trip: how far a run is from each protection's limit, from its refolded state and its fabric's policy. One table, total over the mechanisms.

Money is micro-dollars, time is seconds, instants are microseconds since the epoch. A margin says what happens at its limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from pydantic import BaseModel

from fabric.core.flow import Stage
from fabric.core.loop_names import LOOP_NAMES
from fabric.core.mechanisms import (
    cost_velocity,
    loop_detector,
    retry_budget,
    run_caps,
    state_of,
)
from fabric.core.mechanisms import hop_limit as hops
from fabric.core.policy import FlowPolicy
from fabric.core.run import Run
from fabric.core.spec import FabricSpec
from fabric.core.words import words
from fabric.selectors import budget_margins, watch_margins
from fabric.selectors.margin import US, Margin
from fabric.selectors.story_trips import DEADLOCKS, SHARED_BUDGETS, SPEND_RATE, Fired

Measure = Callable[[Run, FabricSpec, int], Iterator[Margin]]
"""``(run, spec, now)``; now is the instant of the run's last event."""


class Row(NamedTuple):
    """One protection: what it measures, its part of the policy, or why there is nothing to count."""

    title: str
    measure: Measure | None
    policy: Callable[[FlowPolicy], BaseModel] | None = None
    fields: tuple[str, ...] | None = None
    """Which fields of that part are its own; None: all."""
    nothing: str = ""
    """Why it has no margin."""


def margins_of(run: Run, spec: FabricSpec, now: int, fired: Mapping[str, Fired] | None = None) -> list[Margin]:
    """All margins of a run: first what tripped, then the nearest to its limit. ``fired``: the trips of its story, by margin."""
    fired = fired or {}
    found = [
        replace(margin, row=name, fired=fired.get(margin.name))
        for name, row in MARGINS.items()
        if row.measure
        for margin in row.measure(run, spec, now)
    ]
    found += [made(name, fired[name]) for name, made in ONCE_TRIPPED.items() if name in fired]
    return sorted(found, key=by_nearness)


def by_nearness(margin: Margin) -> tuple[bool, float, str]:
    """Sorts margins: what tripped, then the nearest to its limit."""
    return (margin.fired is None, -margin.share, margin.name)


def _cycle(name: str, fired: Fired) -> Margin:
    seen = fired.record.evidence
    return Margin(
        name=name,
        observed=seen.observed or 0,
        limit=seen.limit or 1,
        unit="count",
        at_limit="the call is not executed, where the results are the same",
        trips_at_limit=True,
        row="loop_detector",
        fired=fired,
    )


def _shared(name: str, fired: Fired) -> Margin:
    """A budget that runs share, as it stood when it refused a call: spent, and held by workers."""
    seen = fired.record.evidence
    needed = seen.details.get("worst_case")
    used = (seen.observed or 0) - (needed if isinstance(needed, int) else 0)
    return Margin(
        name=name,
        observed=used,
        limit=seen.limit or 0,
        unit="usd_micros",
        at_limit="a call that may need more is refused, in every run that shares it",
        where="when it was asked",
        row="budget",
        fired=fired,
    )


def _passed_round(name: str, fired: Fired) -> Margin:
    return replace(
        _cycle(name, fired), at_limit="the brief is not passed on; the decision table decides", row="deadlock_monitor"
    )


def _too_fast(name: str, fired: Fired) -> Margin:
    """A spend rate as it was when it was too fast."""
    seen = fired.record.evidence
    return Margin(
        name=name,
        observed=seen.observed or 0,
        limit=seen.limit or 0,
        unit="tokens" if seen.unit == "tokens" else "usd_micros_a_minute" if seen.window == "60 s" else "usd_micros",
        at_limit="the next model call is refused; the decision table decides",
        where=words(seen.scope.partition(":")[2] or seen.scope),
        row="cost_velocity",
        fired=fired,
    )


ONCE_TRIPPED: Mapping[str, Callable[[str, Fired], Margin]] = {
    **dict.fromkeys(
        [LOOP_NAMES[one].name for one in ("repeated_cycle", "near_identical_calls", "same_answer")], _cycle
    ),
    **dict.fromkeys(SHARED_BUDGETS.values(), _shared),
    **dict.fromkeys(DEADLOCKS.values(), _passed_round),
    SPEND_RATE: _too_fast,
}
"""Margins that are there only once they have tripped: before, there is no cycle to be counted, and what runs share is not a run's to know."""


def spend_rate(run: Run, policy: FlowPolicy, rate: int) -> Margin | None:
    """Returns how near the spend rate (micro-dollars a minute) is to the one that is too fast. None: there is nothing to compare it with.

    That is what the fabric allows in a minute, else ten times what it usually spends in its busiest one (semantics.md 4 "cost velocity").
    """
    state = state_of(run.guards, cost_velocity)
    found = cost_velocity.paces(cost_velocity.config(policy), state, run.at) if policy.cost_velocity.factor else ()
    pace = next((one for one in found if (one.scope, one.unit) == ("run", "usd_micros")), None)
    if pace is None or state.approved:
        return None
    compared = (
        "what its fabric allows"
        if pace.against == "configured"
        else f"{policy.cost_velocity.times_usual:g} times what is usual"
    )
    return Margin(
        name=SPEND_RATE,
        observed=rate,
        limit=pace.limit,
        unit="usd_micros_a_minute",
        at_limit=f"the minute cost {compared}; the next model call is refused",
        row="cost_velocity",
    )


# -- the measures --------------------------------------------------------------------------------------------------------


def _deadline(run: Run, spec: FabricSpec, now: int) -> Iterator[Margin]:
    policy = spec.policy
    if not run.started_at or not run.deadline_at:
        return
    whole = (run.deadline_at - run.started_at) / US
    left = (run.deadline_at - now) / US if run.suspended is None else run.suspended.run_remaining_us / US
    stops = "nothing is sent any more and the run ends"
    if run.suspended is not None:
        stops = "suspended: the clock stands still while the run waits for a person"
    yield Margin(name="run deadline", observed=max(0, whole - left), limit=whole, unit="seconds", at_limit=stops)
    here = run.stages.get(run.stage)
    if here is None or here.left or run.terminal:
        return
    limit = policy.of_stage(run.stage).deadlines_of(run.tier).stage_s
    stops = "the stage fails as a cost overrun; its ladder decides"
    remaining = (here.deadline_at - now) / US
    asked_at = _asked_at(run, policy)
    if run.suspended is not None:
        remaining = run.suspended.stage_remaining_us / US
        stops = "suspended: the clock stands still while the run waits for a person"
    elif asked_at is not None:
        remaining = (here.deadline_at - min(now, asked_at)) / US
        stops = "not judged while a person is asked about the stage"
    yield Margin(
        name="stage deadline",
        observed=max(0, limit - remaining),
        limit=limit,
        unit="seconds",
        at_limit=stops,
        where=words(run.stage),
    )


def _asked_at(run: Run, policy: FlowPolicy) -> int | None:
    """When a person was asked about the run's stage as a whole; None: nobody is. Meanwhile the engine lets no stage fail on its deadline."""
    asked = [one.fact.due_at for one in run.questions.values() if not one.fact.step_id and one.fact.stage == run.stage]
    return min(asked) - int(policy.due_s(run.tier) * US) if asked else None


def _counts(run: Run, spec: FabricSpec, now: int) -> Iterator[Margin]:
    policy = spec.policy
    state, limits = state_of(run.guards, hops), policy.limits
    alive_cap, spawned_cap = hops.caps(limits, run)
    steps = ((step, policy.of_stage(step.stage).limits.turns) for step in run.steps.values())
    longest, most = max(steps, key=lambda one: one[0].turns / one[1], default=(None, limits.turns))
    steered = "the agent is told to answer with what it has"
    for name, observed, limit, at_limit, where in (
        ("hops", state.hops, policy.of_stage(Stage.FAN_OUT).limits.hops, "the next handoff is refused", ""),
        ("sub-agents spawned", state.spawned, spawned_cap, "no further branch is started", ""),
        ("sub-agents alive", hops.working(run), alive_cap, "no further branch is started", ""),
        ("nesting", run.depth - 1, limits.recursion - 1, "no child run is started", ""),
        (
            "turns",
            longest.turns if longest else 0,
            most,
            steered,
            longest.agent if longest and longest.turns else "",
        ),
    ):
        yield Margin(name=name, observed=observed, limit=limit, unit="count", at_limit=at_limit, where=where)
    yield from watch_margins.visits(run, policy, now)


def _caps(run: Run, spec: FabricSpec, now: int) -> Iterator[Margin]:
    limits, stops = spec.policy.limits, "no further call is issued, and the rest is kept for the run's end"
    for name, observed, limit, at_limit in (
        ("events", run.seq, run_caps.events_for_work(limits), stops),
        ("payload bytes", run.content_bytes, limits.run_payload_bytes, "no further call is issued"),
        ("calls pending", len(run.pending), limits.pending_calls, "no further call is issued until one comes back"),
    ):
        yield Margin(name=name, observed=observed, limit=limit, unit="count", at_limit=at_limit)


def _retries(run: Run, spec: FabricSpec, now: int) -> Iterator[Margin]:
    policy = spec.policy
    left = retry_budget.balance(policy.retry, state_of(run.guards, retry_budget)) / retry_budget.UNITS
    yield Margin(
        name="retry tokens",
        observed=policy.retry.bucket - left,
        limit=policy.retry.bucket,
        unit="retry_tokens",
        at_limit="each stage may retry once more, on credit",
    )
    yield from watch_margins.stage_retries(run, policy)


def _loops(run: Run, spec: FabricSpec, now: int) -> Iterator[Margin]:
    config = spec.policy.of_stage(run.stage).loop_detector
    same, streak = (0, config, ""), (0, config, "")
    for step in run.steps.values():
        config = spec.policy.of_stage(step.stage).loop_detector
        calls = state_of(run.guards, loop_detector, step.id).calls
        if not calls:
            continue
        # The proposed call is one of the window: what was executed so far may fill all of it but one.
        recent = Counter(seen.call for seen in calls[-(config.identical_window - 1) :])
        most = max(recent.values(), default=0)
        if most / config.identical_threshold > same[0] / same[1].identical_threshold:
            same = most, config, step.agent
        row = 0
        for seen in reversed(calls):
            if seen.call != calls[-1].call:
                break
            row += 1
        if row / config.consecutive_threshold > streak[0] / streak[1].consecutive_threshold:
            streak = row, config, step.agent
    yield Margin(
        name=LOOP_NAMES["identical_calls"].name,
        observed=same[0],
        limit=same[1].identical_threshold,
        unit="count",
        at_limit=f"within {same[1].identical_window} calls the call is not executed, where the results are the same",
        where=same[2],
        trips_at_limit=True,
    )
    yield Margin(
        name=LOOP_NAMES["same_call_in_a_row"].name,
        observed=streak[0],
        limit=streak[1].consecutive_threshold,
        unit="count",
        at_limit="the call is not executed, whatever its results",
        where=streak[2],
        trips_at_limit=True,
    )


def _replans(run: Run, spec: FabricSpec, now: int) -> Iterator[Margin]:
    stage, most = max(run.replans.items(), key=lambda item: (item[1], item[0]), default=(run.stage, 0))
    yield Margin(
        name="replans",
        observed=most,
        limit=spec.policy.limits.replans_per_stage,
        unit="count",
        at_limit="no further plan is made; the decision table decides",
        where=words(stage) if most else "",
    )


def _corrections(run: Run, spec: FabricSpec, now: int) -> Iterator[Margin]:
    limits = {stage: spec.policy.of_stage(stage).limits.corrections_per_step for stage in Stage}
    worst = max(run.steps.values(), key=lambda step: step.corrections / limits[step.stage], default=None)
    yield Margin(
        name="corrections",
        observed=worst.corrections if worst else 0,
        limit=limits[worst.stage if worst else run.stage],
        unit="count",
        at_limit="the step fails on its schema; the decision table decides",
        where=worst.agent if worst and worst.corrections else "",
    )


def _rounds(run: Run, spec: FabricSpec, now: int) -> Iterator[Margin]:
    if run.rounds:
        where, most = max(run.rounds.items(), key=lambda item: (item[1], item[0]))
        yield Margin(
            name="escalated failures",
            observed=most,
            limit=spec.policy.humans.failure_rounds,
            unit="count",
            at_limit="the next failure aborts the run",
            where=words(where.partition(".")[0]),
        )


def _limits(policy: FlowPolicy) -> BaseModel:
    return policy.limits


MARGINS: Mapping[str, Row] = {
    "policy": Row("Policy", None, nothing="asked before every action; it allows or denies, there is nothing to count"),
    "budget": Row("Budget gate", budget_margins.measured, lambda policy: policy.budget),
    "cost_velocity": Row(
        "Cost velocity",
        None,
        lambda policy: policy.cost_velocity,
        nothing="a rate is of the moment: it is shown while money is being spent, and where it tripped",
    ),
    "deadline": Row("Deadlines", _deadline),
    "hop_limit": Row(
        "Hop, turn and sub-agent limits",
        _counts,
        _limits,
        (
            *("hops", "recursion", "turns", "calls_per_turn", "plan_branches"),
            *("max_node_visits", "max_visits", "visits_preset"),
            *("sub_agents_alive", "sub_agents_spawned", "fan_out_inline_max"),
        ),
    ),
    "run_caps": Row(
        "Event, payload and call caps",
        _caps,
        _limits,
        ("run_events", "run_payload_bytes", "content_bytes", "pending_calls"),
    ),
    "retry_budget": Row("Retry budget", _retries, lambda policy: policy.retry),
    "circuit_breaker": Row("Circuit breaker", watch_margins.streaks),
    "loop_detector": Row("Loop detector", _loops, lambda policy: policy.loop_detector),
    "deadlock_monitor": Row(
        "Deadlock monitor",
        None,
        lambda policy: policy.deadlock_monitor,
        nothing="judges what agents pass on to each other; each repetition is its own trip",
    ),
    "progress": Row("Progress", watch_margins.without_progress, lambda policy: policy.progress),
    "saga": Row("Idempotency and saga", None, nothing="refuses what could not be undone; there is nothing to count"),
    "validation_gate": Row(
        "Validation gates", None, nothing="judges each payload alone; the gates are on the timeline"
    ),
    "goal_gate": Row(
        "Goal gates", None, lambda policy: policy.goal_gates, nothing="judged once, before the run may exit"
    ),
    "failure_signature": Row("Failure signature", watch_margins.repeated, lambda policy: policy.failure_signature),
    "stall_watchdog": Row("Stall watchdog", watch_margins.silence, lambda policy: policy.stall_watchdog),
    "quarantine": Row(
        "Quarantine",
        None,
        _limits,
        ("claims_without_progress",),
        nothing="counted by the workers that claim a run, not in its journal",
    ),
    "escalation": Row("Escalation", _rounds, lambda policy: policy.humans),
    "ladder": Row("Replans", _replans, _limits, ("replans_per_stage",)),
    "agent_loop": Row("Corrections", _corrections, _limits, ("corrections_per_step",)),
}
"""A row for every mechanism, for the two counters that the engine keeps itself (replans and corrections), and for quarantine. Total by test."""
