"""What of the audit stream is asked for, as it stands in an address: a period, which the field ``within`` names, and what narrows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from console.views.review_filter import Chip
from fabric.core.acts import ACTS, About, Outcome
from fabric.core.audit import Act
from fabric.selectors.audit_list import AuditFilter

DAY_US = 86_400 * 1_000_000
PERIODS: Mapping[str, tuple[str, int | None]] = {
    "1d": ("the last day", 1),
    "7d": ("the last 7 days", 7),
    "30d": ("the last 30 days", 30),
    "365d": ("the last year", 365),
    "all": ("all there is", None),
}
"""Words of a period, and its days; None: it has no beginning."""
PERIOD = "all"
"""The one of an address that names none."""
FIELDS = ("actor", "act", "about", "subject", "outcome", "address")
"""The other fields of the address; each is one of ``AuditFilter``."""
OUTCOMES: Mapping[Outcome, tuple[str, str]] = {
    Outcome.DONE: ("done", "neutral"),
    Outcome.REFUSED: ("refused", "warn"),
    Outcome.FAILED: ("failed", "danger"),
}
"""Word and tone of each outcome; total by test."""
CAME_BY: Mapping[str, str] = {
    "session": "signed in",
    "token": "by a token",
    "cli": "at the command line",
    "system": "by itself",
    "nobody": "not signed in",
    "": "not noted",
}
"""What the actor came in by."""
OFFERED: Mapping[str, tuple[tuple[str, str], ...]] = {
    "within": tuple((name, words) for name, (words, _) in PERIODS.items()),
    "act": tuple(sorted(((act.value, ACTS[act].sentence) for act in Act), key=lambda one: one[1])),
    "about": tuple((about.value, about.value) for about in About),
    "outcome": tuple((outcome.value, OUTCOMES[outcome][0]) for outcome in Outcome),
}
"""What can be picked, with its words."""
NAMES: Mapping[str, str] = {"actor": "by", "subject": "object", "about": "kind of object"}
CHARS_MAX = 200


def period_of(given: Mapping[str, str]) -> str:
    """The period that an address names; any other word is the usual one."""
    named = str(given.get("within", ""))
    return named if named in PERIODS else PERIOD


def filter_of(given: Mapping[str, str], *, now: int) -> AuditFilter:
    """What an address or a form asks for. ``now``: microseconds since the epoch. A choice that is none narrows nothing."""
    said = {name: str(given.get(name, "")).strip()[:CHARS_MAX] for name in FIELDS}
    for name in ("act", "about", "outcome"):
        said[name] = said[name] if said[name] in dict(OFFERED[name]) else ""
    days = PERIODS[period_of(given)][1]
    return _with(AuditFilter(since=0 if days is None else now - days * DAY_US), **said)


def address(base: str, period: str, wanted: AuditFilter, **more: str) -> str:
    """The address of the list with that period and filter."""
    asked = {"within": "" if period == PERIOD else period, **{name: getattr(wanted, name) for name in FIELDS}, **more}
    query = urlencode({name: value for name, value in asked.items() if value})
    return f"{base}?{query}" if query else base


def chips(base: str, period: str, wanted: AuditFilter) -> list[Chip]:
    """The filters that hold, beside the period."""
    found = []
    for name in FIELDS:
        value = getattr(wanted, name)
        if value:
            without = address(base, period, _with(wanted, **{name: ""}))
            found.append(Chip(NAMES.get(name, name), dict(OFFERED.get(name, ())).get(value, value), without))
    return found


def _with(wanted: AuditFilter, **said: Any) -> AuditFilter:
    return replace(wanted, **said)
