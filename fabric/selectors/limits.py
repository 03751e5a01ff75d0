"""Every budget and limit of a fabric with its unit and its source, read from ``FlowPolicy`` itself so that the two cannot drift apart.

Labels and units are the table ``LIMITS``, total over the policy's fields by test. What a limit means and where its default comes from are the
policy's own descriptions and docstrings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from fabric.core.agent_budgets import AgentBudget, StageBudget
from fabric.core.breaker.policy import Breaker, Signal
from fabric.core.flow import Stage
from fabric.core.loop_names import names_of, sort_detectors
from fabric.core.policy import DEADLINES, HUMAN_DUE_S, Deadlines, FlowPolicy
from fabric.core.retry_policy import Edge, NodeLayers
from fabric.core.spec import FabricSpec
from fabric.core.stage_policy import StagePolicy
from fabric.core.taxonomy import Tier
from fabric.core.words import dollars


class Unit(StrEnum):
    """What a limit is counted in."""

    USD = "USD"
    SECONDS = "s"
    TOKENS = "tokens"
    HANDOFFS = "handoffs"
    LEVELS = "levels"
    TURNS = "turns"
    CALLS = "calls"
    AGENTS = "agents"
    EVENTS = "events"
    BYTES = "bytes"
    BRIEFS = "briefs"
    BRANCHES = "branches"
    REPLANS = "replans"
    CORRECTIONS = "corrections"
    CLAIMS = "claims"
    REPEATS = "repeats"
    VISITS = "visits"
    MOVES = "moves"
    CHARACTERS = "characters"
    HANDS = "agents in a cycle"
    RETRY_TOKENS = "retry tokens"
    TIMES = "times"
    SHARE = "of the time"
    SCORE = "score"
    MODE = "mode"
    SENTENCES = "sentences"


LIMITS: Mapping[str, tuple[str, Unit]] = {
    "budget.run_usd_micros": ("Run cap", Unit.USD),
    "budget.call_usd_micros": ("Call cap", Unit.USD),
    "budget.stage_usd_micros": ("Cap of each stage", Unit.USD),
    "budget.agent_usd_micros": ("Agent cap", Unit.USD),
    "budget.fabric_hour_usd_micros": ("Fabric cap, an hour", Unit.USD),
    "budget.session_usd_micros": ("Session cap", Unit.USD),
    "budget.session_tokens": ("Session tokens", Unit.TOKENS),
    "budget.run_tokens": ("Run tokens", Unit.TOKENS),
    "budget.stage_tokens": ("Stage tokens", Unit.TOKENS),
    "budget.agent_tokens": ("Agent tokens", Unit.TOKENS),
    "budget.agents": ("Caps of single agents", Unit.SENTENCES),
    "budget.stages": ("Caps of single stages", Unit.SENTENCES),
    "cost_velocity.usd_micros_per_minute": ("A run in a minute", Unit.USD),
    "cost_velocity.agent_usd_micros_per_minute": ("An agent in a minute", Unit.USD),
    "cost_velocity.stage_usd_micros_per_minute": ("A stage in a minute", Unit.USD),
    "cost_velocity.tokens_per_minute": ("Tokens of a run in a minute", Unit.TOKENS),
    "cost_velocity.times_usual": ("The usual rate, at most", Unit.TIMES),
    "cost_velocity.calls": ("Calls before what is usual counts", Unit.CALLS),
    "cost_velocity.factor": ("Even pace of the fabric's hour, at most", Unit.TIMES),
    "cost_velocity.within_s": ("The rest of the hour's money lasts", Unit.SECONDS),
    "deadlines.call_s": ("Call timeout", Unit.SECONDS),
    "deadlines.stage_s": ("Stage deadline", Unit.SECONDS),
    "deadlines.run_s": ("Run deadline", Unit.SECONDS),
    "limits.hops": ("Hops", Unit.HANDOFFS),
    "limits.recursion": ("Recursion", Unit.LEVELS),
    "limits.turns": ("Turns a step", Unit.TURNS),
    "limits.calls_per_turn": ("Calls a turn", Unit.CALLS),
    "limits.sub_agents_alive": ("Sub-agents at once", Unit.AGENTS),
    "limits.sub_agents_spawned": ("Sub-agents a run", Unit.AGENTS),
    "limits.plan_branches": ("Plan branches", Unit.BRIEFS),
    "limits.fan_out_inline_max": ("Briefs without child runs", Unit.BRIEFS),
    "limits.replans_per_stage": ("Replans a stage", Unit.REPLANS),
    "limits.run_events": ("Events a run", Unit.EVENTS),
    "limits.run_payload_bytes": ("Payload a run", Unit.BYTES),
    "limits.content_bytes": ("One answer or result", Unit.BYTES),
    "limits.pending_calls": ("Calls pending at once", Unit.CALLS),
    "limits.claims_without_progress": ("Claims without progress", Unit.CLAIMS),
    "limits.corrections_per_step": ("Corrections a step", Unit.CORRECTIONS),
    "limits.max_node_visits": ("Visits a stage", Unit.VISITS),
    "limits.max_visits": ("Visits of single stages", Unit.VISITS),
    "limits.visits_preset": ("Visits as a document counts", Unit.MODE),
    "loop_detector.preset": ("Detectors of a document", Unit.MODE),
    "loop_detector.detectors": ("Detectors", Unit.MODE),
    "loop_detector.identical_threshold": ("Identical calls", Unit.CALLS),
    "loop_detector.identical_window": ("Identical calls, window", Unit.CALLS),
    "loop_detector.period_repeats": ("Periods", Unit.REPEATS),
    "loop_detector.period_window": ("Periods, window", Unit.TURNS),
    "loop_detector.consecutive_threshold": ("Calls in a row", Unit.CALLS),
    "loop_detector.answer_threshold": ("Equal answers", Unit.REPEATS),
    "loop_detector.stale_threshold": ("Calls without anything new", Unit.CALLS),
    "loop_detector.long_threshold": ("Identical calls in the long run", Unit.CALLS),
    "loop_detector.long_window": ("Identical calls in the long run, window", Unit.CALLS),
    "loop_detector.failing_threshold": ("Turns of failures", Unit.TURNS),
    "loop_detector.said_threshold": ("Equal words before calls", Unit.REPEATS),
    "loop_detector.said_window": ("Equal words before calls, window", Unit.TURNS),
    "loop_detector.ag2_threshold": ("Calls in a row, preset ag2", Unit.CALLS),
    "deadlock_monitor.similarity": ("Near-identical briefs", Unit.SCORE),
    "deadlock_monitor.brief_chars": ("Brief compared from", Unit.CHARACTERS),
    "deadlock_monitor.window_moves": ("Moves looked back at", Unit.MOVES),
    "deadlock_monitor.cycle_max": ("Longest cycle of handoffs", Unit.HANDS),
    "progress.agent_turns": ("Turns without progress", Unit.TURNS),
    "progress.supervisor_turns": ("Turns of a planner without progress", Unit.TURNS),
    "failure_signature.limit": ("Same failure", Unit.TIMES),
    "failure_signature.restart_limit": ("Same failure at restart edges", Unit.TIMES),
    "goal_gates.nodes": ("Goal nodes", Unit.MODE),
    "goal_gates.retry": ("After an unmet goal", Unit.MODE),
    "stall_watchdog.after_s": ("Silence", Unit.SECONDS),
    "retry.base_s": ("First backoff", Unit.SECONDS),
    "retry.factor": ("Backoff growth", Unit.TIMES),
    "retry.cap_s": ("Longest wait", Unit.SECONDS),
    "retry.bucket": ("Retry budget", Unit.RETRY_TOKENS),
    "retry.earn": ("Earned a first attempt", Unit.RETRY_TOKENS),
    "retry.shared": ("Shared retry budget", Unit.MODE),
    "retry.stage_retries": ("Retries a stage", Unit.TIMES),
    "retry.deviation": ("Why retries are not shared", Unit.MODE),
    "retry_layers.preset": ("Retry layers", Unit.MODE),
    "retry_layers.max_retries": ("Node retries", Unit.TIMES),
    "retry_layers.edges": ("Edges out of failed nodes", Unit.MODE),
    "retry_layers.retry_target": ("Retry target", Unit.MODE),
    "retry_layers.fallback_retry_target": ("Retry target after that", Unit.MODE),
    "retry_layers.stages": ("Layers of single stages", Unit.MODE),
    "retry_layers.workers": ("Retries of single workers", Unit.MODE),
    "retry_layers.deviation": ("Why nodes are retried in high-stakes", Unit.MODE),
    "breakers": ("Circuit breakers", Unit.SENTENCES),
    "breakers_deviation": ("Why no breaker stands in front of a provider", Unit.MODE),
    "humans.due_s": ("Review due", Unit.SECONDS),
    "humans.reminder_at": ("Reminder", Unit.SHARE),
    "humans.onward_at": ("Passed on", Unit.SHARE),
    "humans.failure_rounds": ("Approved retries", Unit.TIMES),
    "humans.four_eyes": ("Two people agree", Unit.SENTENCES),
    "humans.onward_to": ("Passed on to", Unit.SENTENCES),
    "fan_in.mode": ("Fan-in", Unit.MODE),
    "fan_in.k": ("Fan-in quorum", Unit.BRANCHES),
    "saga.unwind_on_cancel": ("Undo on cancel", Unit.MODE),
    "saga.compensation_attempts": ("Attempts to undo", Unit.TIMES),
    "saga.reconcile_attempts": ("Questions what happened", Unit.TIMES),
    "saga.retry_base_s": ("First wait to undo", Unit.SECONDS),
    "saga.retry_factor": ("Wait growth to undo", Unit.TIMES),
    "saga.retry_cap_s": ("Longest wait to undo", Unit.SECONDS),
    "tau": ("Tau, confidence", Unit.SCORE),
    "stages": ("Values of single stages", Unit.SENTENCES),
}
"""Label and unit of every field of ``FlowPolicy``, by its path."""

GROUPS: Mapping[str, str] = {
    "budget": "Money and tokens",
    "cost_velocity": "Spend rate",
    "deadlines": "Deadlines",
    "limits": "Counts",
    "loop_detector": "Loop detector",
    "deadlock_monitor": "Deadlocks among agents",
    "progress": "Progress",
    "failure_signature": "Failures that come back",
    "goal_gates": "Goals",
    "stall_watchdog": "Stalls",
    "retry": "Retries",
    "retry_layers": "Retry layers",
    "breakers": "Circuit breakers",
    "breakers_deviation": "Circuit breakers",
    "humans": "People",
    "fan_in": "Fan-in",
    "saga": "Undoing",
    "tau": "Confidence",
    "stages": "Single stages",
}
"""Headings of the policy's parts; total by test."""

PER_TIER: Mapping[str, str] = {
    "deadlines": "tier default, semantics.md 4",
    "humans.due_s": "tier default, semantics.md 4",
}
"""What has another default for each tier, and where those come from."""

ASKED = "no default: publication asks for it"
OWN = "Fabric Flow's own"
_UNITS = re.compile(r",? \b(?:in )?(?:micro-dollars|seconds)\b")
"""A description names the unit that its field is kept in; the page shows the value with its unit."""
_SOURCE = re.compile(r"\s*\b(S\d): (.+?)\.?\s*$", re.DOTALL)
_IN_DOC = re.compile(r"\((S\d) \"([^\"]+)\"\)|\((semantics\.md \d+)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One budget or limit as it is in force. Money is micro-dollars, times are seconds; None: there is no such limit."""

    path: str
    label: str
    unit: Unit
    value: Any
    default: Any
    required: bool
    tier: Tier | None
    """The tier for which it holds; None: for all."""
    meaning: str
    origin: str
    """Where the default comes from."""

    @property
    def own(self) -> bool:
        """Whether the fabric says something else than the default."""
        return self.required or bool(self.value != self.default)


@dataclass(frozen=True, slots=True)
class LimitGroup:
    """One part of the policy."""

    title: str
    limits: tuple[Limit, ...]

    @property
    def own(self) -> int:
        """How many of them the fabric set itself."""
        return sum(limit.own for limit in self.limits)


def limits_of(spec: FabricSpec) -> list[LimitGroup]:
    """Every budget and limit of a fabric, in the policy's order; what differs by tier once for each tier that a run may pick."""
    return [
        LimitGroup(GROUPS[name], tuple(_limits(spec, name, field))) for name, field in FlowPolicy.model_fields.items()
    ]


def _limits(spec: FabricSpec, name: str, field: FieldInfo) -> Iterator[Limit]:
    policy = spec.policy
    if name == "deadlines":
        for tier in spec.tiers.allowed:
            yield from _part(name, policy.deadlines_of(tier), DEADLINES[tier], tier)
    elif name == "retry_layers":
        for limit in _part(name, policy.retry_layers, field.get_default(), None):
            yield replace(limit, value=_layers_said(limit.value), default=_layers_said(limit.default))
    elif isinstance(part := getattr(policy, name), BaseModel):
        standard = None if field.is_required() else field.get_default()
        for limit in _part(name, part, standard, None):
            yield from _due(spec, limit) if limit.path == "humans.due_s" else (_in_words(limit),)
    elif name == "stages":
        told = tuple(line for stage, own in policy.stages.items() for line in stage_said(stage, own))
        yield _limit(name, told, (), False, None, *explained(field, FlowPolicy))
    elif name == "breakers":
        said, unnamed = (tuple(breaker_said(one) for one in those) for those in (policy.breakers, field.get_default()))
        yield _limit(name, said, unnamed, False, None, *explained(field, FlowPolicy))
    else:
        yield _limit(name, part, field.get_default(), False, None, *explained(field, FlowPolicy))


def _in_words(limit: Limit) -> Limit:
    """Caps of single agents and stages in a few words each, and detectors by their names; any other limit as it is."""
    if limit.path == "loop_detector.detectors":
        return replace(limit, value=tuple(sort_detectors(limit.value)), default=tuple(sort_detectors(limit.default)))
    if limit.path not in ("budget.agents", "budget.stages"):
        return limit
    return replace(limit, value=tuple(caps_said(name, own) for name, own in limit.value.items()), default=())


def stage_said(stage: Stage, own: StagePolicy) -> Iterator[str]:
    """What a stage has otherwise than the fabric, a few words each."""
    if own.tau is not None:
        yield f"{stage}: {LIMITS['tau'][0]} {own.tau:g}"
    for tier, one in own.deadlines.items():
        yield from (f"{stage}: {LIMITS[f'deadlines.{key}'][0]} {value:g} s, {tier}" for key, value in one.given.items())
    for group, part in own.groups.items():
        for key, value in part.given.items():
            label, unit = LIMITS[f"{group}.{key}"]
            said = names_of(value) if isinstance(value, frozenset) else f"{value:g}"
            yield f"{stage}: {label} {said}" + (f" {unit}" if unit is Unit.SECONDS else "")
    for failure, row in own.decision_table.items():
        yield from (f"{stage}: cell of {failure}, {tier}" for tier in row)


def caps_said(name: str, own: AgentBudget | StageBudget) -> str:
    """The caps of one agent or stage, in a few words."""
    money = [] if own.usd_micros is None else [dollars(own.usd_micros)]
    return f"{name}: {', '.join(money + ([] if own.tokens is None else [f'{own.tokens:,} tokens']))}"


def breaker_said(breaker: Breaker) -> str:
    """A circuit breaker in a few words: in front of what, opened by what, for how long."""
    signals = " or ".join(_signal_said(one) for one in breaker.signals)
    fallback = {"none": "", "model": ", then another model", "static_answer": ", then the static answer"}[
        breaker.on_open
    ]
    trips = f", {breaker.max_trips} trips" if breaker.max_trips else ""
    before = " ".join((breaker.scope, ", ".join(breaker.only))).strip()
    return f"{before}: {signals}, {breaker.cooldown_s:g} s{trips}{fallback}"


def _layers_said(given: Any) -> Any:
    """What a field of the retry layers says, edges and stages in a few words each."""
    if isinstance(given, tuple):
        return tuple(_edge_said(edge) for edge in given)
    if isinstance(given, dict):
        return tuple(f"{stage}: {_node_said(node)}" for stage, node in given.items())
    return given


def _edge_said(edge: Edge) -> str:
    return f"{edge.failure_class or 'any failure'} to {edge.to}"


def _node_said(node: NodeLayers) -> str:
    retries = node.retry_policy or ("" if node.max_retries is None else f"{node.max_retries} retries")
    targets = (("retry target", node.retry_target), ("then", node.fallback_retry_target))
    said = [retries, "partial success allowed" if node.allow_partial else ""]
    said += [_edge_said(edge) for edge in node.edges]
    said += [f"{what} {to}" for what, to in targets if to]
    return "; ".join(part for part in said if part) or "as the fabric says"


def _signal_said(signal: Signal) -> str:
    names = "/".join(signal.names).replace("_", " ")
    if signal.mode == "rate":
        return (
            f"{names} over {100 * signal.threshold:g} % of at least {signal.min_calls} calls in {signal.window_s:g} s"
        )
    how = {"consecutive": "in a row", "window": f"in {signal.window_s:g} s", "cumulative": "in all"}[signal.mode]
    return f"{signal.threshold:g} {names} {how}"


def _part(name: str, part: BaseModel, standard: BaseModel | None, tier: Tier | None) -> Iterator[Limit]:
    for key, field in type(part).model_fields.items():
        path = f"{name}.{key}"
        # A part that must be given still has defaults for most of its fields; only what has none is asked for.
        required = field.is_required() and standard is None
        default = getattr(standard, key) if standard is not None else None if required else field.get_default()
        meaning, origin = explained(field, type(part))
        yield _limit(path, getattr(part, key), default, required, tier, meaning, PER_TIER.get(name, origin))


def _due(spec: FabricSpec, limit: Limit) -> Iterator[Limit]:
    for tier in spec.tiers.allowed:
        meaning = (limit.meaning, PER_TIER[limit.path])
        yield _limit(limit.path, spec.policy.due_s(tier), HUMAN_DUE_S[tier], False, tier, *meaning)


def _limit(path: str, value: Any, default: Any, required: bool, tier: Tier | None, meaning: str, origin: str) -> Limit:
    label, unit = LIMITS[path]
    return Limit(
        path=path,
        label=label,
        unit=unit,
        value=value,
        default=default,
        required=required,
        tier=tier,
        meaning=meaning,
        origin=ASKED if required else origin,
    )


def explained(field: FieldInfo, owner: type[BaseModel]) -> tuple[str, str]:
    """What a field of a spec means, and where its default comes from: its description, else the docstring of the part it belongs to."""
    doc = " ".join((owner.__doc__ or "").split())
    named = _IN_DOC.search(doc)
    from_doc = (f"{named[1]}: {named[2]}" if named[1] else named[3]) if named else OWN
    text = _UNITS.sub("", field.description or _IN_DOC.sub("", doc).replace(" .", ".").replace("``", "").strip())
    source = _SOURCE.search(text)
    if source is None:
        return text, from_doc
    return text[: source.start()].strip(), f"{source[1]}: {source[2]}"


def policy_paths() -> Iterator[str]:
    """The path of every field of ``FlowPolicy``: what ``LIMITS`` has to name."""
    for name, field in FlowPolicy.model_fields.items():
        part = Deadlines if name == "deadlines" else field.annotation
        if isinstance(part, type) and issubclass(part, BaseModel):
            yield from (f"{name}.{key}" for key in part.model_fields)
        else:
            yield name
