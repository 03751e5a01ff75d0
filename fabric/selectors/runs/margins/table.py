"""Measures the distance of a run from each protection's limit, by its state and its fabric's policy.

One table, total over the mechanisms, whose modules name their settings. Budgets have margins to the run's own, and to
those of the nearest stage and agent. Money is micro-dollars, time is seconds, instants are microseconds since the
epoch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import ModuleType
from typing import NamedTuple

from pydantic import BaseModel

from fabric.core.budgets.grants import FABRIC, PROVIDER_BUCKET, WORKSPACE
from fabric.core.budgets.key_caps import KEY_DAY, KEY_MONTH
from fabric.core.mechanisms import ORDER, budget, cost_velocity, find_state, loop_detector, retry_budget, run_caps
from fabric.core.mechanisms import hop_limit as hops
from fabric.core.schema.limits import Unit
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.budgets import AGENT, FIELDS, RUN, STAGE, Budget, CapUnit, fabrics_cap
from fabric.core.spec.policies.flow_policy import FlowPolicy, policy_limit
from fabric.core.spec.policies.loop_limits import LOOP_NAMES
from fabric.core.state.run import Run
from fabric.core.values.flow import Stage
from fabric.core.values.taxonomy import Tier
from fabric.core.values.units import US
from fabric.core.values.words import words
from fabric.core.workspace_policy.policy import KeyCapGiven
from fabric.selectors.runs.margins import watches as watch_margins
from fabric.selectors.runs.margins.margin import Margin, read_margin
from fabric.selectors.runs.story.trips import DEADLOCKS, LOOPS, SHARED_BUDGETS, SPEND_RATE, Fired


def measure_budgets(run: Run, spec: FabricSpec, now: int) -> Iterator[Margin]:
    """Yield the margins to a run's budgets (``table.Measure``)."""
    ledger, caps = find_state(run.guards, budget), spec.policy.budget
    for unit in UNITS:
        most = budget.cap_in_force(caps, ledger, RUN, unit)
        if most is not None:
            yield read_margin(f"budget.{FIELDS[RUN, unit]}", budget.used_amount(ledger, RUN, unit), most)
    for unit in UNITS:
        for kind, spent_by in _spent_by(ledger, unit):
            yield from _fullest(caps, ledger, kind, spent_by, unit)


UNITS: tuple[CapUnit, ...] = ("usd_micros", "tokens")
PROVIDER = "provider"
"""Kind of the retry budget that all calls to an endpoint share."""


def _spent_by(ledger: budget.State, unit: CapUnit) -> tuple[tuple[str, Mapping[str, int]], ...]:
    if unit == "tokens":
        return (STAGE, ledger.tokens_by_stage), (AGENT, ledger.tokens_by_agent)
    return (STAGE, ledger.by_stage), (AGENT, ledger.by_agent)


def _fullest(
    caps: Budget, ledger: budget.State, kind: str, spent_by: Mapping[str, int], unit: CapUnit
) -> Iterator[Margin]:
    """Yield the margin of the stage or agent that is nearest to its cap. One cap may have been raised, and the others
    not.
    """
    of_all = fabrics_cap(caps, kind, unit)
    named = dict.fromkeys(caps.agents if kind == AGENT else (), 0)
    found = [
        (most, spent, one)
        for one, spent in {**named, **spent_by}.items()
        if (most := budget.cap_in_force(caps, ledger, f"{kind}:{one}", unit)) is not None
    ]
    if found or of_all is not None:
        limit, spent, where = max(
            found, key=lambda one: (one[1] / max(1, one[0]), one[2]), default=(of_all or 0, 0, "")
        )
        yield read_margin(f"budget.{FIELDS[kind, unit]}", spent, limit, where=words(where))


Measure = Callable[[Run, FabricSpec, int], Iterator[Margin]]
"""``(run, spec, now)``; now is the instant of the run's last event."""


class ProtectionRow(NamedTuple):
    """One protection of a run's page: how near the run is to it, and the policy's fields that set it."""

    measure: Measure | None
    """None where there is nothing to count; then ``nothing`` says why."""
    group: str = ""
    """The policy's group that sets it; empty where it has nothing to set."""
    fields: tuple[str, ...] = ()
    """The fields of that group that set it; empty where all of them do."""
    nothing: str = ""
    title: str = ""
    stops: str = ""
    """The failures that it stops, as the object of a sentence."""


def list_margins(
    run: Run,
    spec: FabricSpec,
    now: int,
    fired: Mapping[str, Fired] | None = None,
    buckets: Mapping[str, float] | None = None,
) -> list[Margin]:
    """Return all margins of a run, first those that tripped, then the nearest to their limit. ``fired``: the trips of
    its story, by margin. ``buckets``: the retry tokens left in the budgets that runs share, by scope.
    """
    fired, levels = fired or {}, buckets or {}
    found = [
        replace(margin, row=name, fired=fired.get(margin.key))
        for name, row in MARGINS.items()
        if row.measure
        for margin in row.measure(run, spec, now)
    ]
    found = [_find_lowest(one, spec, levels) if one.key == RETRIES else one for one in found]
    found += [made(name, fired[name]) for name, made in ONCE_TRIPPED.items() if name in fired]
    return sorted(found, key=rank_by_nearness)


RETRIES = "retry.bucket"


def _find_lowest(own: Margin, spec: FabricSpec, buckets: Mapping[str, float]) -> Margin:
    """Return the margin of the retry budget with the least left: the run's own, or one that runs share."""
    sizes = {FABRIC: spec.policy.retry.bucket, PROVIDER: PROVIDER_BUCKET}
    found = [own]
    for scope, left in buckets.items():
        kind, _, name = scope.partition(":")
        size = sizes.get(kind, 0)
        if size:
            where = "all runs of the fabric" if kind == FABRIC else f"all calls to {name}"
            stops = "no call that fails is retried"
            found.append(replace(own, observed=size - left, limit=size, where=where, at_limit=stops))
    return max(found, key=lambda one: one.share)


def rank_by_nearness(margin: Margin) -> tuple[bool, float, str]:
    """Return a margin's rank: tripped ones first, then the nearest to its limit."""
    return (margin.fired is None, -margin.share, margin.name)


def _cycle(name: str, fired: Fired) -> Margin:
    seen = fired.record.evidence
    return Margin(
        key=name,
        name=name[:1].upper() + name[1:],
        observed=seen.observed or 0,
        limit=seen.limit or 1,
        unit=Unit.TIMES,
        at_limit=policy_limit("loop_detector.period_repeats").stops,
        trips_at_limit=True,
        row="loop_detector",
        fired=fired,
    )


def _measure_shared(key: str, fired: Fired) -> Margin:
    """Return a budget that runs share, as it stood when it refused a call: spent, and reserved by workers."""
    seen = fired.record.evidence
    needed = seen.details.get("worst_case")
    used = (seen.observed or 0) - (needed if isinstance(needed, int) else 0)
    fields = KeyCapGiven.model_fields
    outside = {
        WORKSPACE: "Money of the workspace",
        KEY_DAY: fields["day_usd_micros"].title or "",
        KEY_MONTH: fields["month_usd_micros"].title or "",
    }
    declared = None if key in outside else policy_limit(key)
    return Margin(
        key=key,
        name=outside[key] if declared is None else declared.title,
        observed=used,
        limit=seen.limit or 0,
        unit=Unit.USD if declared is None else declared.unit,
        at_limit="a call that may need more is refused, in every run that shares it",
        where="when it was asked",
        row="budget",
        fired=fired,
    )


def _measure_cycle(name: str, fired: Fired) -> Margin:
    return replace(
        _cycle(name, fired), at_limit="the brief is not passed on; the decision table decides", row="deadlock_monitor"
    )


def _too_fast(key: str, fired: Fired) -> Margin:
    """Return a spend rate as it was when it was too fast."""
    seen = fired.record.evidence
    money = Unit.USD_A_MINUTE if seen.window == "60 s" else Unit.USD
    found = read_margin(
        key, seen.observed or 0, seen.limit or 0, where=words(seen.scope.partition(":")[2] or seen.scope)
    )
    return replace(found, unit=Unit.TOKENS if seen.unit == "tokens" else money, row="cost_velocity", fired=fired)


ONCE_TRIPPED: Mapping[str, Callable[[str, Fired], Margin]] = {
    **{one.name: _cycle for one in LOOP_NAMES.values() if one.name not in LOOPS},
    **dict.fromkeys(SHARED_BUDGETS.values(), _measure_shared),
    **dict.fromkeys(DEADLOCKS.values(), _measure_cycle),
    SPEND_RATE: _too_fast,
}
"""Margins that show only once they have tripped. Before, there is no cycle to count, and a run does not know what runs
share.
"""


def spend_rate(run: Run, policy: FlowPolicy, rate: int) -> Margin | None:
    """Return how near the spend rate is to the one that is too fast. None: it is compared with nothing.

    The limit is the fabric's own, else ten times what it usually spends in its busiest minute
    (docs/specification/budgets.md). ``rate``: micro-dollars a minute.
    """
    state = find_state(run.guards, cost_velocity)
    found = cost_velocity.paces(cost_velocity.config(policy), state, run.at) if policy.cost_velocity.factor else ()
    pace = next((one for one in found if (one.scope, one.unit) == ("run", "usd_micros")), None)
    if pace is None or state.approved:
        return None
    compared = (
        "the rate that its fabric allows"
        if pace.against == "configured"
        else f"{policy.cost_velocity.times_usual:g} times what is usual"
    )
    margin = read_margin(
        SPEND_RATE, rate, pace.limit, stops=f"the minute cost {compared}; the next model call is refused"
    )
    return replace(margin, row="cost_velocity")


# -- the measures ----------------------------------------------------------------------------------------------------


def _deadline(run: Run, spec: FabricSpec, now: int) -> Iterator[Margin]:
    policy = spec.policy
    if not run.started_at or not run.deadline_at:
        return
    whole = (run.deadline_at - run.started_at) / US
    left = (run.deadline_at - now) / US if run.suspended is None else run.suspended.run_remaining_us / US
    stops = "" if run.suspended is None else "suspended: the clock stands still while the run waits for a person"
    yield read_margin("deadlines.run_s", max(0, whole - left), whole, stops=stops)
    here = run.stages.get(run.stage)
    if here is None or here.left or run.terminal:
        return
    limit = policy.of_stage(run.stage).deadlines_of(run.tier).stage_s
    remaining = (here.deadline_at - now) / US
    asked_at = _find_review_time(run, policy)
    if run.suspended is not None:
        remaining = run.suspended.stage_remaining_us / US
        stops = "suspended: the clock stands still while the run waits for a person"
    elif asked_at is not None:
        remaining = (here.deadline_at - min(now, asked_at)) / US
        stops = "not judged while a person is asked about the stage"
    yield read_margin("deadlines.stage_s", max(0, limit - remaining), limit, where=words(run.stage), stops=stops)


def _find_review_time(run: Run, policy: FlowPolicy) -> int | None:
    """Return when a person was asked about the run's stage as a whole; None where no such review is open. Meanwhile
    the engine lets no stage fail on its deadline.
    """
    asked = [one.fact.due_at for one in run.reviews.values() if not one.fact.step_id and one.fact.stage == run.stage]
    return min(asked) - int(policy.due_s(run.tier) * US) if asked else None


def _counts(run: Run, spec: FabricSpec, now: int) -> Iterator[Margin]:
    policy = spec.policy
    state, limits = find_state(run.guards, hops), policy.limits
    alive_cap, spawned_cap = hops.caps(limits, run)
    steps = ((step, policy.of_stage(step.stage).limits.turns) for step in run.steps.values())
    longest, most = max(steps, key=lambda one: one[0].turns / one[1], default=(None, limits.turns))
    yield read_margin("limits.hops", state.hops, policy.of_stage(Stage.FAN_OUT).limits.hops)
    yield read_margin("limits.sub_agents_spawned", state.spawned, spawned_cap)
    yield read_margin("limits.sub_agents_alive", hops.count_working(run), alive_cap)
    yield read_margin("limits.recursion", run.depth - 1, limits.recursion - 1)
    turns = longest.turns if longest else 0
    yield read_margin("limits.turns", turns, most, where=longest.agent if longest and turns else "")
    yield from watch_margins.visits(run, policy, now)


def _caps(run: Run, spec: FabricSpec, now: int) -> Iterator[Margin]:
    limits = spec.policy.limits
    yield read_margin("limits.run_events", run.seq, run_caps.events_for_work(limits))
    yield read_margin("limits.run_payload_bytes", run.content_bytes, limits.run_payload_bytes)
    yield read_margin("limits.pending_calls", len(run.pending), limits.pending_calls)


def _retries(run: Run, spec: FabricSpec, now: int) -> Iterator[Margin]:
    policy = spec.policy
    left = retry_budget.balance(policy.retry, find_state(run.guards, retry_budget)) / retry_budget.UNITS
    yield read_margin("retry.bucket", policy.retry.bucket - left, policy.retry.bucket)
    yield from watch_margins.stage_retries(run, policy)


def _loops(run: Run, spec: FabricSpec, now: int) -> Iterator[Margin]:
    config = spec.policy.of_stage(run.stage).loop_detector
    same, streak = (0, config, ""), (0, config, "")
    for step in run.steps.values():
        config = spec.policy.of_stage(step.stage).loop_detector
        calls = find_state(run.guards, loop_detector, step.id).calls
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
    within = f"within {same[1].identical_window} calls "
    yield read_margin(
        "loop_detector.identical_threshold",
        same[0],
        same[1].identical_threshold,
        stops=within + policy_limit("loop_detector.identical_threshold").stops,
        where=same[2],
        threshold=True,
    )
    most = streak[1].consecutive_threshold
    yield read_margin("loop_detector.consecutive_threshold", streak[0], most, where=streak[2], threshold=True)


def _replans(run: Run, spec: FabricSpec, now: int) -> Iterator[Margin]:
    stage, most = max(run.replans.items(), key=lambda item: (item[1], item[0]), default=(run.stage, 0))
    limit = spec.policy.limits.replans_per_stage
    yield read_margin("limits.replans_per_stage", most, limit, where=words(stage) if most else "")


def _corrections(run: Run, spec: FabricSpec, now: int) -> Iterator[Margin]:
    limits = {stage: spec.policy.of_stage(stage).limits.corrections_per_step for stage in Stage}
    worst = max(run.steps.values(), key=lambda step: step.corrections / limits[step.stage], default=None)
    yield read_margin(
        "limits.corrections_per_step",
        worst.corrections if worst else 0,
        limits[worst.stage if worst else run.stage],
        where=worst.agent if worst and worst.corrections else "",
    )


def _rounds(run: Run, spec: FabricSpec, now: int) -> Iterator[Margin]:
    if run.rounds:
        where, most = max(run.rounds.items(), key=lambda item: (item[1], item[0]))
        rounds = spec.policy.humans.failure_rounds
        yield read_margin("humans.failure_rounds", most, rounds, where=words(where.partition(".")[0]))


MEASURES: Mapping[str, Measure] = {
    "budget": measure_budgets,
    "deadline": _deadline,
    "hop_limit": _counts,
    "run_caps": _caps,
    "retry_budget": _retries,
    "circuit_breaker": watch_margins.streaks,
    "loop_detector": _loops,
    "progress": watch_margins.measure_no_progress,
    "failure_signature": watch_margins.measure_repetition,
    "stall_watchdog": watch_margins.silence,
    "escalation": _rounds,
}
"""Counts of a run beside a mechanism's limits. A mechanism without a row says in its module why: ``UNCOUNTED``."""


def _row_of(mechanism: ModuleType) -> ProtectionRow:
    groups = [one.partition(".") for one in mechanism.SETTINGS]
    return ProtectionRow(
        MEASURES.get(mechanism.NAME),
        groups[0][0] if groups else "",
        tuple(field for _, _, field in groups if field),
        mechanism.UNCOUNTED,
        mechanism.TITLE,
        mechanism.STOPS,
    )


MARGINS: Mapping[str, ProtectionRow] = {
    **{module.NAME: _row_of(module) for module in ORDER},
    "quarantine": ProtectionRow(
        None,
        "limits",
        ("claims_without_progress",),
        nothing="counted by the workers that claim a run, not in its journal",
        title="Quarantine",
        stops="a run that takes its worker down again and again",
    ),
    "ladder": ProtectionRow(
        _replans, "limits", ("replans_per_stage",), title="New plans", stops="a stage that is planned again and again"
    ),
    "agent_loop": ProtectionRow(
        _corrections,
        "limits",
        ("corrections_per_step",),
        title="Corrections",
        stops="an agent whose answers stay unusable",
    ),
}
"""A row for every mechanism, for quarantine, and for the two counters that the engine keeps itself: replans and
corrections.
"""


def settings_group(name: str, policy: FlowPolicy, tier: Tier) -> BaseModel | None:
    """Return the part of a policy that sets a row of ``MARGINS``; None where the row has nothing to set."""
    group = MARGINS[name].group
    if not group:
        return None
    found: BaseModel = policy.deadlines_of(tier) if group == "deadlines" else getattr(policy, group)
    return found
