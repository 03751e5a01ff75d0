"""Reads the usual spending of a fabric's runs in their busiest minute, as its workers learned it."""

from __future__ import annotations

from dataclasses import dataclass

from fabric.core.actor import Actor
from fabric.core.budget_caps import amount_words, cap_words
from fabric.core.spec import FabricSpec
from fabric.models import Guard
from fabric.runtime.usual_rates import KIND, RUNS_NEEDED, learned_runs, rates_of
from fabric.selectors.fabrics import fabric_get


@dataclass(frozen=True, slots=True)
class Usual:
    """One scope's busiest minute in words."""

    whose: str
    usual: str
    too_fast: str
    """The most that a minute may cost, and by what that is known."""
    runs: int


@dataclass(frozen=True, slots=True)
class UsualRates:
    """All that is known of a fabric."""

    rates: tuple[Usual, ...]
    runs: int
    """Completed runs that were looked at."""
    needed: int = RUNS_NEEDED


def usual_rates(actor: Actor, name: str, spec: FabricSpec) -> UsualRates:
    """A fabric's usual rates. Refused: not_found. ``spec``: the revision whose policy says how much more is too fast."""
    state = Guard.objects.filter(scope=fabric_get(actor, name).id, kind=KIND).values_list("state", flat=True).first()
    rates = tuple(
        Usual(
            cap_words(one.scope),
            amount_words(one.usd_micros, "usd_micros"),
            _too_fast(spec, one.scope, one.usd_micros),
            one.runs,
        )
        for one in rates_of(state or "")
    )
    return UsualRates(rates, learned_runs(state or ""))


def _too_fast(spec: FabricSpec, scope: str, usual: int) -> str:
    rule = spec.policy.cost_velocity
    if not rule.factor:
        return "not judged"
    field = {"agent": rule.agent_usd_micros_per_minute, "stage": rule.stage_usd_micros_per_minute}
    configured = field.get(scope.partition(":")[0], rule.usd_micros_per_minute)
    if configured is not None:
        return f"{amount_words(configured, 'usd_micros')}, as the fabric says"
    if not rule.times_usual:
        return "not judged"
    return f"{amount_words(round(rule.times_usual * usual), 'usd_micros')}, {rule.times_usual:g} times that"
