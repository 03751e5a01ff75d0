"""Shows the health of the installation: its workers, its queue, and the checks of ``manage.py doctor``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from console.installation.doctor.checks import CHECKS, Asks, Finding, Level, examine
from console.site.access.actors import find_actor
from console.words.headlines import Headline
from fabric.selectors.database_time import store_now
from fabric.selectors.overview.tiles import workers

LOOKS: Mapping[Level | None, tuple[str, str, str]] = {
    None: ("OK", "ok", "okc"),
    Level.NOTE: ("Note", "info", "info"),
    Level.UNKNOWN: ("Unknown", "warn", "unknown"),
    Level.WRONG: ("Wrong", "danger", "alert"),
}
"""Word, tone and icon of a check by its worst finding; total over ``Level``. The gravest is last."""
LEFT_OUT = "database"
"""The check that reads the whole database file; ``manage.py doctor`` makes it."""


@dataclass(frozen=True, slots=True)
class CheckRow:
    """One check with its findings."""

    name: str
    what: str
    """Sentence that is true where nothing is found."""
    findings: tuple[Finding, ...]

    @property
    def level(self) -> Level | None:
        """Return the worst level of the findings; None without one."""
        return max((one.level for one in self.findings), key=list(LOOKS).index, default=None)

    @property
    def look(self) -> tuple[str, str, str]:
        """Return word, tone and icon."""
        return LOOKS[self.level]


def list_checks() -> list[CheckRow]:
    """Make each check that asks no model endpoint. The gravest come first."""
    names = [name for name, one in CHECKS.items() if one.asks is not Asks.NETWORK and name != LEFT_OUT]
    rows = [CheckRow(name, CHECKS[name].what, tuple(examine(name))) for name in names]
    return sorted(rows, key=lambda row: -list(LOOKS).index(row.level))


def write_headline(rows: Sequence[CheckRow]) -> Headline:
    """Return the page's headline. A check that could not be made is no success."""
    lede = f"{len(rows)} checks were made just now. Each names its remedy."
    for level, words in ((Level.WRONG, "wrong"), (Level.UNKNOWN, "unknown")):
        count = sum(row.level is level for row in rows)
        if count:
            are = "thing is" if count == 1 else "things are"
            return Headline(f"{count} {are} {words}", lede, LOOKS[level][1])
    return Headline("Nothing is wrong", lede, "ok")


@never_cache
@require_safe
def health(request: HttpRequest) -> HttpResponse:
    """Show the page to staff of the installation."""
    rows = list_checks()
    shown: dict[str, Any] = {
        "rows": rows,
        "headline": write_headline(rows),
        "found": workers(find_actor(request.user), store_now()),
    }
    return render(request, "installation/health.html", shown)
