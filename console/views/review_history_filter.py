"""What of the history is asked for, as it stands in an address: a period, which the field ``decided`` names, and what narrows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast
from urllib.parse import urlencode

from console.templatetags.marks import FAILURES, ITEMS, TIERS
from console.views.review_filter import Chip
from fabric.selectors.decision_history import DAY_US, VERBS, WHO, HistoryFilter, Who

PERIODS: Mapping[str, tuple[str, int | None]] = {
    "1d": ("the last day", 1),
    "7d": ("the last 7 days", 7),
    "30d": ("the last 30 days", 30),
    "90d": ("the last 90 days", 90),
    "365d": ("the last year", 365),
    "all": ("all there is", None),
}
"""Words of a period, and its days; None: it has no beginning."""
PERIOD = "30d"
"""The one of an address that names none."""
FIELDS = ("fabric", "tier", "item", "verb", "failure", "by", "who")
"""The other fields of the address; each is one of ``HistoryFilter``."""
VERB_WORDS: Mapping[str, str] = {
    "approve": "approved",
    "edit": "edited",
    "reject": "rejected",
    "respond": "sent back",
    "decline": "declined",
    "withdrawn": "withdrawn",
}
"""Total over ``VERBS``, by test."""
WHO_WORDS: Mapping[str, str] = {"people": "people", "system": "the system: nobody answered in time"}
OFFERED: Mapping[str, tuple[tuple[str, str], ...]] = {
    "decided": tuple((name, words) for name, (words, _) in PERIODS.items()),
    "tier": tuple(TIERS.items()),
    "item": tuple((name, words) for name, words in ITEMS.items() if name != "ticket"),
    "verb": tuple((verb, VERB_WORDS[verb]) for verb in VERBS),
    "failure": tuple(FAILURES.items()),
    "who": tuple(WHO_WORDS.items()),
}
"""What can be picked, with its words."""
NAMES: Mapping[str, str] = {"item": "kind", "verb": "decided", "who": "decided by"}
"""Fields that are called otherwise than what they are named in the address."""
CHARS_MAX = 200


def period_of(given: Mapping[str, str]) -> str:
    """The period that an address names; any other word is the usual one."""
    named = str(given.get("decided", ""))
    return named if named in PERIODS else PERIOD


def filter_of(given: Mapping[str, str], *, now: int) -> HistoryFilter:
    """What an address or a form asks for. ``now``: microseconds since the epoch. A choice that is none narrows nothing."""
    days = PERIODS[period_of(given)][1]
    said = {name: str(given.get(name, "")).strip()[:CHARS_MAX] for name in FIELDS}
    for name in ("tier", "item", "verb", "failure"):
        said[name] = said[name] if said[name] in dict(OFFERED[name]) else ""
    who = cast("Who", said.pop("who"))
    whole = HistoryFilter(since=0 if days is None else now - days * DAY_US, who=who if who in WHO else "")
    return _with(whole, **said)


def address(base: str, period: str, wanted: HistoryFilter, **more: str) -> str:
    """The address of the history with that period and filter."""
    asked = {"decided": "" if period == PERIOD else period, **{name: getattr(wanted, name) for name in FIELDS}, **more}
    query = urlencode({name: value for name, value in asked.items() if value})
    return f"{base}?{query}" if query else base


def chips(base: str, period: str, wanted: HistoryFilter) -> list[Chip]:
    """The filters that hold, beside the period."""
    found = []
    for name in FIELDS:
        value = getattr(wanted, name)
        if value:
            without = address(base, period, _with(wanted, **{name: ""}))
            found.append(Chip(NAMES.get(name, name), dict(OFFERED.get(name, ())).get(value, value), without))
    return found


def _with(wanted: HistoryFilter, **said: Any) -> HistoryFilter:
    return replace(wanted, **said)
