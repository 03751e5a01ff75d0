"""Every budget and limit of a fabric as it is in force, in the words of its own field
(``fabric.core.schema.limits``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from fabric.core.schema.limits import Unit, default_source, find_limit, find_unit
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.breakers import Breaker, Signal
from fabric.core.spec.policies.budgets import AgentBudget, StageBudget
from fabric.core.spec.policies.flow_policy import FlowPolicy, policy_field
from fabric.core.spec.policies.limits import DEADLINES
from fabric.core.spec.policies.loop_limits import find_names, sort_detectors
from fabric.core.spec.policies.people import HUMAN_DUE_S
from fabric.core.spec.policies.retries import Edge, NodeLayers
from fabric.core.spec.policies.stages import StagePolicy
from fabric.core.values.flow import Stage
from fabric.core.values.taxonomy import Tier
from fabric.core.values.words import dollars

ASKED = "required, without a default"
DUE = "humans.due_s"
"""The limit outside the deadlines that has another default in each tier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitInForce:
    """One budget, limit or setting of a fabric. Money is micro-dollars, times are seconds."""

    path: str
    title: str
    unit: Unit | None
    """The unit of a number; None for a choice, a text or sentences."""
    value: Any
    """None where the fabric has no such limit."""
    default: Any
    required: bool
    tier: Tier | None
    """The tier for which it holds; None: for all."""
    meaning: str
    stops: str
    """The effect at the limit; empty for a choice, a text or sentences."""
    origin: str
    """The source of the default."""

    @property
    def own(self) -> bool:
        """Return True where the fabric says something else than the default."""
        return self.required or bool(self.value != self.default)


@dataclass(frozen=True, slots=True)
class LimitGroup:
    """One part of the policy."""

    title: str
    limits: tuple[LimitInForce, ...]

    @property
    def own(self) -> int:
        """Return how many limits the fabric set itself."""
        return sum(limit.own for limit in self.limits)


def list_limits(spec: FabricSpec) -> list[LimitGroup]:
    """Return every budget and limit of a fabric, in the policy's order. A limit that differs by tier comes
    once a tier.
    """
    return [
        LimitGroup(field.title or "", tuple(_limits(spec, name, field)))
        for name, field in FlowPolicy.model_fields.items()
    ]


def _limits(spec: FabricSpec, name: str, field: FieldInfo) -> Iterator[LimitInForce]:
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
            yield from _due_limits(spec) if limit.path == DUE else (_shorten_limit(limit),)
    elif name == "stages":
        told = tuple(line for stage, own in policy.stages.items() for line in stage_said(stage, own))
        yield _limit(name, told, (), False, None)
    elif name == "breakers":
        said, unnamed = (tuple(breaker_said(one) for one in those) for those in (policy.breakers, field.get_default()))
        yield _limit(name, said, unnamed, False, None)
    else:
        yield _limit(name, part, field.get_default(), False, None)


def _shorten_limit(limit: LimitInForce) -> LimitInForce:
    """Return caps of agents and stages in a few words each, and detectors by their names. Any other limit stays as it
    is.
    """
    if limit.path == "loop_detector.detectors":
        return replace(limit, value=tuple(sort_detectors(limit.value)), default=tuple(sort_detectors(limit.default)))
    if limit.path not in ("budget.agents", "budget.stages"):
        return limit
    return replace(limit, value=tuple(caps_said(name, own) for name, own in limit.value.items()), default=())


def stage_said(stage: Stage, own: StagePolicy) -> Iterator[str]:
    """Yield the values that a stage has otherwise than the fabric, a few words each."""
    if own.tau is not None:
        yield f"{stage}: {policy_field('tau').title} {own.tau:g}"
    for tier, one in own.deadlines.items():
        yield from (
            f"{stage}: {policy_field(f'deadlines.{key}').title} {value:g} s, {tier}"
            for key, value in one.given_fields.items()
        )
    for group, part in own.groups.items():
        for key, value in part.given_fields.items():
            field = policy_field(f"{group}.{key}")
            said = find_names(value) if isinstance(value, frozenset) else f"{value:g}"
            yield f"{stage}: {field.title} {said}" + (" s" if find_unit(field) is Unit.SECONDS else "")
    for failure, row in own.decision_table.items():
        yield from (f"{stage}: cell of {failure}, {tier}" for tier in row)


def caps_said(name: str, own: AgentBudget | StageBudget) -> str:
    """Return the caps of one agent or stage in a few words."""
    money = [] if own.usd_micros is None else [dollars(own.usd_micros)]
    return f"{name}: {', '.join(money + ([] if own.tokens is None else [f'{own.tokens:,} tokens']))}"


def breaker_said(breaker: Breaker) -> str:
    """Return a circuit breaker in a few words: its scope, its signals, its cooldown."""
    signals = " or ".join(_signal_said(one) for one in breaker.signals)
    fallback = {"none": "", "model": ", then another model", "static_answer": ", then the static answer"}[
        breaker.on_open
    ]
    trips = f", {breaker.max_trips} trips" if breaker.max_trips else ""
    before = " ".join((breaker.scope, ", ".join(breaker.only))).strip()
    return f"{before}: {signals}, {breaker.cooldown_s:g} s{trips}{fallback}"


def _layers_said(given: Any) -> Any:
    """Return a field of the retry layers in words, edges and stages in a few each."""
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
        calls = f"{signal.min_calls} call{'s' if signal.min_calls != 1 else ''}"
        return f"{names} over {100 * signal.threshold:g} % of at least {calls} in {signal.window_s:g} s"
    how = {"consecutive": "in a row", "window": f"in {signal.window_s:g} s", "cumulative": "in all"}[signal.mode]
    return f"{signal.threshold:g} {names} {how}"


def _part(name: str, part: BaseModel, standard: BaseModel | None, tier: Tier | None) -> Iterator[LimitInForce]:
    for key, field in type(part).model_fields.items():
        # A part that must be given still has defaults for most of its fields; only what has none is asked for.
        required = field.is_required() and standard is None
        default = getattr(standard, key) if standard is not None else None if required else _default(field)
        yield _limit(f"{name}.{key}", getattr(part, key), default, required, tier)


def _default(field: FieldInfo) -> Any:
    return field.get_default(call_default_factory=True)


def _due_limits(spec: FabricSpec) -> Iterator[LimitInForce]:
    for tier in spec.tiers.allowed:
        yield _limit(DUE, spec.policy.due_s(tier), HUMAN_DUE_S[tier], False, tier)


def _limit(path: str, value: Any, default: Any, required: bool, tier: Tier | None) -> LimitInForce:
    field = policy_field(path)
    declared = find_limit(field)
    return LimitInForce(
        path=path,
        title=field.title or "",
        unit=find_unit(field),
        value=value,
        default=default,
        required=required,
        tier=tier,
        meaning=field.description or "",
        stops="" if declared is None else declared.stops,
        origin=ASKED if required else default_source(field),
    )
