"""Shows the budgets that runs share: what is left of each, who draws, and when it fills again."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from console.site.access.actors import find_actor
from console.words.headlines import Headline
from fabric.core.budgets.grants import FABRIC, SESSION, SESSION_TOKENS, WORKSPACE
from fabric.core.budgets.key_caps import KEY_DAY, KEY_MONTH
from fabric.selectors.models.shared_budgets import (
    RetryBudgetView,
    SharedBudgetView,
    list_retry_budgets,
    list_shared_budgets,
)

KINDS: Mapping[str, tuple[str, str]] = {
    FABRIC: ("Fabric, an hour", "its policy's budget.fabric_hour_usd_micros; spending leaves it after an hour"),
    SESSION: ("Session, money", "does not fill again; an operator raises the cap"),
    SESSION_TOKENS: ("Session, tokens", "does not fill again; an operator raises the cap"),
    WORKSPACE: ("Workspace", "does not fill again; an operator raises the cap"),
    KEY_DAY: ("Key, a day", "begins anew each day, UTC"),
    KEY_MONTH: ("Key, a month", "begins anew each month, UTC"),
}
"""Title of each kind of budget, and how it fills again."""
NEAR_PERCENT = 70


@dataclass(frozen=True, slots=True)
class BudgetLine:
    """A budget of money or tokens, as a row."""

    view: SharedBudgetView

    @property
    def kind(self) -> str:
        """Return its kind in words."""
        return KINDS[self.view.kind][0]

    @property
    def fills(self) -> str:
        """Return how it fills again."""
        return KINDS[self.view.kind][1]

    @property
    def tone(self) -> str:
        """Return the tone: red if it grants nothing, amber near that."""
        return "danger" if self.view.empty else "warn" if self.view.share >= NEAR_PERCENT else "ok"

    @property
    def refusals(self) -> str:
        """Return the address of runs in which a budget refused a call."""
        return _find_runs(self.view.fabric, "budget")


@dataclass(frozen=True, slots=True)
class RetryLine:
    """A retry budget, as a row."""

    view: RetryBudgetView

    @property
    def tone(self) -> str:
        """Return the tone: red if it is empty, amber below a third."""
        return "danger" if self.view.empty else "warn" if self.view.share <= 100 - NEAR_PERCENT else "ok"

    @property
    def refusals(self) -> str:
        """Return the address of runs in which a retry budget refused a retry."""
        return _find_runs("" if self.view.provider else self.view.fabrics[0], "retry_budget")


def _find_runs(fabric: str, fired: str) -> str:
    line = " ".join(filter(None, (fabric and f"fabric:{fabric}", f"fired:{fired}")))
    return f"{reverse('runs')}?{urlencode({'q': line})}"


def headline(money: list[BudgetLine], retries: list[RetryLine], more: int) -> Headline:
    """Return the page's headline."""
    count = len(money) + len(retries) + more
    if not count:
        return Headline("Runs share no budget", "Each run has its own cap and its own retries.", "neutral")
    lede = f"{count:,} budget{'s' if count != 1 else ''} that runs share."
    used, empty = sum(one.view.empty for one in money), sum(one.view.empty for one in retries)
    parts = [
        *([f"{used:,} budget{'s refuse' if used != 1 else ' refuses'} calls"] if used else []),
        *([f"{empty:,} retry budget{'s are' if empty != 1 else ' is'} empty"] if empty else []),
    ]
    if parts:
        return Headline(", ".join(parts), lede, "danger")
    near = [*(one.tone for one in money), *(one.tone for one in retries)].count("warn")
    if near:
        return Headline(f"{near:,} {'are' if near != 1 else 'is'} near the end", lede, "warn")
    return Headline("All have room", lede, "ok")


@require_safe
def budgets(request: HttpRequest) -> HttpResponse:
    """List the shared budgets, those that refuse first."""
    actor, now = find_actor(request.user), time.time_ns() // 1_000
    found, more = list_shared_budgets(actor, now=now)
    money, retries = [BudgetLine(one) for one in found], [RetryLine(one) for one in list_retry_budgets(actor)]
    shown = {
        "money": money,
        "retries": retries,
        "more": more,
        "narrow": actor.narrow,
        "headline": headline(money, retries, more),
        "now_ms": now // 1_000,
    }
    return render(request, "models/budgets.html", shown)
