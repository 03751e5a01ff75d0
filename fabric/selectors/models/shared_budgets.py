"""Reads what runs share: money and tokens of budgets, retry tokens of fabrics and providers, with who draws now.

An actor who sees some fabrics alone gets the retry budgets of those. A provider's retry budget is shared by all fabrics
that use that provider. Amounts are micro-dollars or tokens; instants are microseconds since the epoch, UTC.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from django.db.models import Min, Sum
from pydantic import ValidationError

from fabric.core.budgets.grants import FABRIC, SESSION, SESSION_TOKENS, WORKSPACE
from fabric.core.budgets.key_caps import DAY_US, KEY_DAY, KEY_MONTH, ahead, current_periods
from fabric.core.mechanisms.retry_budget import buckets
from fabric.core.people.actor import Actor
from fabric.models import BudgetWindow, Fabric, GrantReservation, RetryBucket, Run, SharedGrant
from fabric.runtime.spending.rules import LEAVES_US, TOKEN
from fabric.selectors.budgets import BudgetStanding, list_budgets
from fabric.selectors.fabrics.lookup import revision_spec
from fabric.selectors.reach import match_visible

ROWS_MAX = 200
"""Budgets of money and tokens that are listed, the fullest; further ones are counted."""
DRAWERS_SHOWN = 5
DRAWERS_READ = 1_000
"""Runs with a reservation that are looked at, over all budgets."""


@dataclass(frozen=True, slots=True)
class Drawer:
    """A run that has an amount reserved."""

    run_id: str
    fabric: str
    amount: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedBudgetView:
    """A budget of money or tokens that runs share."""

    standing: BudgetStanding
    kind: str
    fabric: str = ""
    """Name of its fabric; empty where it has none."""
    name: str = ""
    """The session's key, or the endpoint of the keys."""
    refills_at: int | None = None
    """When an amount comes back; None: it does not by itself, or nothing was spent."""
    refills: int = 0
    """The amount that comes back then."""
    drawers: tuple[Drawer, ...] = ()
    """Runs with the largest reservations."""
    drawing: int = 0
    """Runs with a reservation."""

    @property
    def used(self) -> int:
        """Return what is spent and granted to workers."""
        return self.standing.spent + self.standing.granted

    @property
    def share(self) -> int:
        """Return the used part of the cap in percent, at most 100."""
        return min(100, 100 * self.used // self.standing.cap) if self.standing.cap else 100

    @property
    def empty(self) -> bool:
        """Return True if nothing more can be granted."""
        return not self.standing.grantable

    @property
    def over(self) -> int:
        """Return the amount above the cap."""
        return max(0, self.used - self.standing.cap)


@dataclass(slots=True, kw_only=True)
class RetryBudgetView:
    """A retry budget that runs share, in retry tokens."""

    scope: str
    provider: str = ""
    """Name of the endpoint; empty: it is a fabric's."""
    fabrics: list[str] = field(default_factory=list)
    """Names of the fabrics that draw."""
    level: float
    size: int
    earns: float = 0.0
    """The most that a call's first attempt brings back."""

    @property
    def name(self) -> str:
        """Return the name of its provider or fabric."""
        return self.provider or self.fabrics[0]

    @property
    def share(self) -> int:
        """Return the level in percent of the size, 0 to 100."""
        return max(0, min(100, round(100 * self.level / self.size))) if self.size else 0

    @property
    def empty(self) -> bool:
        """Return True if no whole token is left: a retry is refused, but for one on credit."""
        return self.level < 1

    @property
    def shown_level(self) -> str:
        """Return the level with at most one digit after the point."""
        return f"{round(self.level, 1):g}"


def list_shared_budgets(actor: Actor, *, now: int | None = None) -> tuple[list[SharedBudgetView], int]:
    """Return the budgets of money and tokens, the fullest first, and how many more there are."""
    at = time.time_ns() // 1_000 if now is None else now
    periods = current_periods(at)
    found = [
        one
        for one in list_budgets(actor, now=at)
        if not one.scope.startswith((f"{KEY_DAY}:", f"{KEY_MONTH}:")) or one.scope.endswith(periods)
    ]
    found.sort(key=lambda one: (one.grantable > 0, -(one.spent + one.granted) / max(1, one.cap), one.scope))
    listed = found[:ROWS_MAX]
    scopes = [one.scope for one in listed]
    refills, drawn = _refills(scopes, at), _drawers(actor, scopes)
    names = dict(Fabric.objects.filter(match_visible(actor, Fabric)).values_list("id", "name"))
    views = [_view(one, names, refills, drawn.get(one.scope, ()), at) for one in listed]
    return views, len(found) - len(listed)


def _view(
    standing: BudgetStanding,
    names: Mapping[str, str],
    refills: Mapping[str, tuple[int, int]],
    drawers: Sequence[Drawer],
    now: int,
) -> SharedBudgetView:
    kind, _, rest = standing.scope.partition(":")
    first, _, more = rest.partition(":")
    fabric = names.get(first, "") if kind in (FABRIC, SESSION, SESSION_TOKENS) else ""
    refills_at, amount = refills.get(standing.scope, (None, 0))
    if kind in (KEY_DAY, KEY_MONTH):
        next_month = ahead(now)[1]
        refills_at, amount = (now - now % DAY_US + DAY_US if kind == KEY_DAY else _midnight(next_month)), standing.cap
        more = more.rpartition(":")[0]
    return SharedBudgetView(
        standing=standing,
        kind=kind,
        fabric=fabric,
        name="" if kind in (FABRIC, WORKSPACE) else more,
        refills_at=refills_at,
        refills=amount,
        drawers=tuple(drawers[:DRAWERS_SHOWN]),
        drawing=len(drawers),
    )


def _midnight(instant: int) -> int:
    return instant - instant % DAY_US


def _refills(scopes: Sequence[str], now: int) -> dict[str, tuple[int, int]]:
    """Return ``(when, how much)`` of the oldest spending of each hourly budget: it leaves the hour then."""
    windows = BudgetWindow.objects.filter(scope__in=scopes, window_at__gt=now - LEAVES_US, spent__gt=0)
    oldest = dict(windows.values_list("scope").annotate(first=Min("window_at")))
    amounts = {(one.scope, one.window_at): one.spent for one in windows.filter(window_at__in=set(oldest.values()))}
    return {scope: (first + LEAVES_US, amounts.get((scope, first), 0)) for scope, first in oldest.items()}


def _drawers(actor: Actor, scopes: Sequence[str]) -> dict[str, list[Drawer]]:
    """Return the visible runs with open reservations by scope, the largest first."""
    grants = SharedGrant.objects.filter(scope__in=scopes, closed_at__isnull=True)
    reserved = GrantReservation.objects.filter(grant__in=grants, settled__isnull=True)
    sums = reserved.values_list("grant__scope", "run_id").annotate(amount=Sum("amount")).order_by("-amount", "run_id")
    rows = list(sums[:DRAWERS_READ])
    runs = Run.objects.filter(match_visible(actor, Run), id__in={run_id for _, run_id, _ in rows})
    fabrics = dict(runs.values_list("id", "fabric__name"))
    found: dict[str, list[Drawer]] = defaultdict(list)
    for scope, run_id, amount in rows:
        if run_id in fabrics:
            found[scope].append(Drawer(run_id, fabrics[run_id], amount))
    return found


def list_retry_budgets(actor: Actor) -> list[RetryBudgetView]:
    """Return the retry budgets of the published fabrics that the actor sees, the emptiest first."""
    found: dict[str, RetryBudgetView] = {}
    fabrics = Fabric.objects.filter(match_visible(actor, Fabric), published__isnull=False).order_by("name")
    for fabric_id, name, revision_id in fabrics.values_list("id", "name", "published_id"):
        try:
            spec = revision_spec(revision_id)
        except ValidationError:  # A version that cannot be read any more: no run of it can begin.
            continue
        retry = spec.policy.retry
        if not retry.shared:
            continue
        sizes = {scope: size for model in spec.models for scope, size in buckets(retry, fabric_id, spec, model.name)}
        for scope, size in (sizes or dict(buckets(retry, fabric_id, spec, ""))).items():
            kind, _, rest = scope.partition(":")
            provider = "" if kind == FABRIC else rest
            one = found.setdefault(scope, RetryBudgetView(scope=scope, provider=provider, level=size, size=size))
            one.fabrics.append(name)
            one.earns = max(one.earns, retry.earn)
    for scope, level in RetryBucket.objects.filter(scope__in=found).values_list("scope", "level"):
        found[scope].level = min(found[scope].size, level / TOKEN)
    return sorted(
        found.values(), key=lambda one: (not one.empty, one.level / max(1, one.size), bool(one.provider), one.name)
    )
