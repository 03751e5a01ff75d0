"""What the start form says about a fabric: its tiers with the deadlines they mean, and the ceilings of a run. A revision never changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from pydantic import ValidationError

from console.templatetags.figures import span, thousands, usd
from fabric.core.spec import FabricSpec
from fabric.core.taxonomy import Tier
from fabric.selectors.fabrics import FabricView, revision_spec
from fabric.selectors.workspace_policies import spec_under

US = 1_000_000

TIERS: Mapping[Tier, tuple[str, str]] = {
    Tier.INTERACTIVE: ("Low-latency interactive", "somebody waits for the answer: short deadlines, gives up early"),
    Tier.BATCH: ("Long-running batch", "nobody waits: long deadlines, tries harder before it gives up"),
    Tier.HIGH_STAKES: ("High-stakes regulated", "being wrong is worse than being late: asks a person sooner"),
}
"""Each tier's name and what it is for."""

PRIORITIES: Mapping[str, str] = {
    "critical": "Critical: before everything else",
    "high": "High",
    "normal": "Normal",
    "low": "Low: when nothing else waits",
}
"""What each priority means while workers are busy."""


@dataclass(frozen=True, slots=True)
class TierLine:
    """A tier of one fabric, in words."""

    tier: Tier
    title: str
    purpose: str
    default: bool
    call: str
    stage: str
    run: str
    person: str


@dataclass(frozen=True, slots=True)
class Offer:
    """A fabric as the form offers it."""

    fabric: FabricView
    needs_model: bool
    tiers: tuple[TierLine, ...]
    ceilings: tuple[tuple[str, str], ...]
    """What is bounded, and by how much."""


def needs_model(fabric: FabricView) -> bool:
    """Returns True where a published fabric asks an endpoint."""
    spec = _spec(fabric.revision_id)
    return spec is None or any(model.provider != "scripted" for model in spec.models)


def offer_of(fabric: FabricView, workspace_id: str, policy_number: int) -> Offer:
    """The form's words about a published fabric under its workspace's policy.

    A fabric that this version cannot read has no tiers and no ceilings.
    """
    spec = _spec(fabric.revision_id)
    if spec is None:
        return Offer(fabric, True, (), ())
    lines = tuple(_line(spec, tier, default=tier == fabric.tier) for tier in fabric.tiers)
    under = {tier: spec_under(fabric.revision_id, workspace_id, policy_number, tier) for tier in fabric.tiers}
    return Offer(fabric, needs_model(fabric), lines, (*_money(under), *_ceilings(under[fabric.tier])))


def _money(under: Mapping[Tier, FabricSpec]) -> Iterator[tuple[str, str]]:
    """The most that a run may spend, of each tier where that is not the same."""
    caps = {tier: spec.policy.budget.run_usd_micros for tier, spec in under.items()}
    if len(set(caps.values())) == 1:
        yield "money", f"{usd(min(caps.values()))} a run"
        return
    for tier, cap in caps.items():
        yield "money", f"{usd(cap)} a run of tier {TIERS[tier][0].lower()}"


@lru_cache(maxsize=256)
def _spec(revision_id: str) -> FabricSpec | None:
    try:
        return revision_spec(revision_id)
    except ValidationError:
        return None


def _line(spec: FabricSpec, tier: Tier, *, default: bool) -> TierLine:
    deadlines = spec.policy.deadlines_of(tier)
    title, purpose = TIERS[tier]
    seconds = (deadlines.call_s, deadlines.stage_s, deadlines.run_s, spec.policy.due_s(tier))
    call, stage, run, person = (_span(one) for one in seconds)
    return TierLine(tier, title, purpose, default, call, stage, run, person)


def _span(seconds: float) -> str:
    if seconds < 10 and seconds != int(seconds):
        return f"{seconds:g} s"
    return span(round(seconds * US)) if seconds >= 10 else f"{seconds:g} s"


def _ceilings(spec: FabricSpec) -> tuple[tuple[str, str], ...]:
    budget, limits = spec.policy.budget, spec.policy.limits
    found: list[tuple[str, str]] = []
    if budget.run_tokens is not None:
        found.append(("tokens", f"{thousands(budget.run_tokens)} a run"))
    for tokens, each in ((budget.stage_tokens, "a stage"), (budget.agent_tokens, "an agent")):
        if tokens is not None:
            found.append(("tokens", f"{thousands(tokens)} {each}"))
    for whose, caps in (("agent", budget.agents), ("stage", budget.stages)):
        for name, own in caps.items():
            if own.tokens is not None:
                found.append(("tokens", f"{thousands(own.tokens)} {whose} {name}"))
    found += [
        ("model turns", f"{limits.turns} a step"),
        *(
            ("model turns", f"{own.limits.turns} a step in stage {stage}")
            for stage, own in spec.policy.stages.items()
            if own.limits.turns is not None
        ),
        ("replans", f"{limits.replans_per_stage} a stage"),
        ("agents at once", str(limits.sub_agents_alive)),
    ]
    return tuple(found)
