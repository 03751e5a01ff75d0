"""Reads fabrics and their published revisions, and the usual spending of their runs.

The spending is that of the busiest minute, as the fabric's workers learned it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from django.db.models import Q, QuerySet
from pydantic import ValidationError

from fabric.core.people.actor import Actor
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.budgets import amount_words, cap_words
from fabric.core.texts.nearest import list_nearest
from fabric.core.texts.text import clean_text
from fabric.core.values.taxonomy import Tier
from fabric.models import Fabric, Guard, Revision
from fabric.program.name import program
from fabric.runtime.spending.usual_rates import KIND, RUNS_NEEDED, learned_runs, list_rates
from fabric.selectors.errors import Refused
from fabric.selectors.reach import match_visible

FIRST_FABRIC = "first-look"
"""Sample with which a newcomer starts: README.md and the first steps name it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricView:
    """A published fabric for people who pick one."""

    id: str
    name: str
    title: str
    description: str
    example: str
    """A request that shows the fabric's purpose; empty when the author gave none."""
    tier: Tier
    """Default tier of a run."""
    tiers: tuple[Tier, ...]
    """Permitted tiers of a run."""
    revision_id: str
    """Row id of the published revision, which new runs pin."""
    topology: str
    """Kind of the topology: ``supervisor``."""
    agents: int
    number: int
    digest: str
    published_at: datetime
    published_by: str


def fabrics_list(actor: Actor) -> list[FabricView]:
    """Return the workspace's published fabrics by name."""
    return [_view(fabric) for fabric in _query_published(actor).order_by("name")]


def fabrics_page(actor: Actor, *, after: str = "", limit: int, only: Q | None = None) -> tuple[list[FabricView], bool]:
    """Return a page of the workspace's published fabrics by name, and True if there are more.

    ``after``: name of the last one of the page before. ``only``: a further condition on a fabric's row.
    """
    rows = _query_published(actor).filter(only or Q(), name__gt=clean_text(after)[0])
    found = list(rows.order_by("name")[: limit + 1])
    return [_view(fabric) for fabric in found[:limit]], len(found) > limit


def pick_first(fabrics: Sequence[FabricView]) -> FabricView | None:
    """Return the fabric with which a newcomer starts: the sample, else the first by name."""
    return next((one for one in fabrics if one.name == FIRST_FABRIC), fabrics[0] if fabrics else None)


def fabric_get(actor: Actor, name: str) -> FabricView:
    """Return one published fabric by name. Raises Refused not_found with the existing names."""
    found = _query_published(actor).filter(name=clean_text(name)[0]).first()
    if found is not None:
        return _view(found)
    names = list(_query_published(actor).values_list("name", flat=True))
    known = (
        f"there are: {list_nearest(name[:80], names, f'{program()} fabric list')}"
        if names
        else f"none is published yet; publish one with {program()} fabric publish FILE"
    )
    raise Refused(f"no fabric is named {name[:80]!r}; {known}", code="not_found", field="fabric")


@lru_cache(maxsize=256)
def revision_spec(revision_id: str) -> FabricSpec:
    """Return the spec of a revision by row id, for the engine. The caller has checked the right to see the run. A
    revision never changes.
    """
    stored = Revision.objects.filter(id=revision_id).values_list("spec", flat=True).first()
    if stored is None:
        raise Refused(f"there is no revision {revision_id[:80]!r}", code="not_found", field="revision")
    return FabricSpec.model_validate_json(stored)


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionPage:
    """One published version of a fabric, in full."""

    fabric: FabricView
    """The fabric in its published version, which may be another one."""
    number: int
    digest: str
    published_at: datetime
    published_by: str
    spec: FabricSpec
    source: str
    """Text of its last publication; empty: there is none."""
    message: str
    """Reason that the author gave; empty for none."""

    @property
    def current(self) -> bool:
        """Return True if new runs pin this revision."""
        return self.number == self.fabric.number


def revision_get(actor: Actor, name: str, number: int | None = None) -> RevisionPage:
    """Return one version of a published fabric; without a number the one that new runs pin.

    Raises Refused not_found, and conflict for a version whose spec this version of the engine cannot read any more.
    """
    fabric = fabric_get(actor, name)
    asked = fabric.number if number is None else number
    rows = Revision.objects.filter(match_visible(actor, Revision), fabric_id=fabric.id)
    revision = rows.filter(number=asked).first() if asked < 2**31 else None
    if revision is None:
        newest = rows.order_by("-number").values_list("number", flat=True).first()
        raise Refused(
            f"fabric {name[:80]!r} has no version r{str(asked)[:12]}; the newest is r{newest}",
            code="not_found",
            field="number",
        )
    try:
        spec = FabricSpec.model_validate_json(revision.spec)
    except ValidationError:
        raise Refused(
            f"version r{asked} of fabric {name[:80]!r} was published by another version of Fabric Flow and cannot be shown; publish it again",
            code="conflict",
            field="number",
        ) from None
    return RevisionPage(
        fabric=fabric,
        number=revision.number,
        digest=revision.digest,
        published_at=revision.published_at,
        published_by=revision.published_by,
        spec=spec,
        source=revision.source,
        message=revision.message,
    )


@lru_cache(maxsize=1024)
def run_cap(revision_id: str) -> int:
    """Return the largest spending of a run of this revision, micro-dollars; 0 for an unknown revision. A revision
    never changes.
    """
    return int(_stored_spec(revision_id).get("policy", {}).get("budget", {}).get("run_usd_micros") or 0)


@lru_cache(maxsize=1024)
def is_scripted(revision_id: str) -> bool:
    """Return True if all agents are scripted: it runs without a model and without a key. A revision never changes."""
    models = _stored_spec(revision_id).get("models", [])
    return bool(models) and all(model.get("provider") == "scripted" for model in models)


def _stored_spec(revision_id: str) -> dict[str, Any]:
    """Return a spec as it was stored. A count must not fail over a spec that a later version would no longer accept."""
    stored = Revision.objects.filter(id=revision_id).values_list("spec", flat=True).first()
    found: dict[str, Any] = json.loads(stored) if stored else {}
    return found


def _query_published(actor: Actor) -> QuerySet[Fabric]:
    rows = Fabric.objects.filter(match_visible(actor, Fabric), published__isnull=False)
    return rows.select_related("published").defer("published__source")


def _view(fabric: Fabric) -> FabricView:
    revision = fabric.published
    assert revision is not None
    # Read as it was stored: a list must not fail over a spec that a later version would no longer accept.
    spec: dict[str, Any] = json.loads(revision.spec)
    tiers = spec.get("tiers", {})
    return FabricView(
        id=fabric.id,
        name=fabric.name,
        title=spec.get("title", fabric.title),
        description=spec.get("description", ""),
        example=spec.get("example", ""),
        tier=Tier(tiers.get("default", Tier.INTERACTIVE)),
        tiers=tuple(Tier(tier) for tier in tiers.get("allowed", list(Tier))),
        revision_id=revision.id,
        topology=str(spec.get("topology", {}).get("kind", "")),
        agents=len(spec.get("agents", [])),
        number=revision.number,
        digest=revision.digest,
        published_at=revision.published_at,
        published_by=revision.published_by,
    )


REVISIONS_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionView:
    """One published version."""

    id: str
    number: int
    digest: str
    published_at: datetime
    published_by: str
    message: str
    """Reason that the author gave; empty for none."""
    current: bool
    """True if new runs pin it."""


def fabric_revisions(actor: Actor, name: str) -> tuple[FabricView, list[RevisionView]]:
    """Return a published fabric and its revisions, the newest first; at most 200. Raises Refused not_found."""
    view = fabric_get(actor, name)
    rows = Revision.objects.filter(match_visible(actor, Revision), fabric_id=view.id).order_by("-number")
    columns = ("id", "number", "digest", "published_at", "published_by", "message")
    found = rows.values(*columns)[:REVISIONS_MAX]
    return view, [RevisionView(**row, current=row["id"] == view.revision_id) for row in found]


@dataclass(frozen=True, slots=True)
class UsualMinute:
    """One scope's busiest minute in words."""

    whose: str
    usual: str
    too_fast: str
    """The largest normal cost of a minute, with its basis."""
    runs: int


@dataclass(frozen=True, slots=True)
class UsualRates:
    """Usual rates of a fabric."""

    rates: tuple[UsualMinute, ...]
    runs: int
    """Completed runs that were read."""
    needed: int = RUNS_NEEDED


def usual_rates(actor: Actor, name: str, spec: FabricSpec) -> UsualRates:
    """Return a fabric's usual rates. Raises Refused not_found. ``spec``: revision whose policy sets the excess that
    is too fast.
    """
    state = Guard.objects.filter(scope=fabric_get(actor, name).id, kind=KIND).values_list("state", flat=True).first()
    rates = tuple(
        UsualMinute(
            cap_words(one.scope),
            amount_words(one.usd_micros, "usd_micros"),
            _too_fast(spec, one.scope, one.usd_micros),
            one.runs,
        )
        for one in list_rates(state or "")
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
