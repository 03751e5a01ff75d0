"""What of the queue is asked for, as it stands in the address: the tab, and the filters that narrow it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from console.templatetags.marks import FAILURES, ITEMS, TIERS, spoken
from fabric.core.flow import Stage
from fabric.selectors.review_queue import QueueFilter, Tab

TEXT_CHARS_MAX = 200
FIELDS = ("fabric", "tier", "item", "stage", "failure", "role", "text")
"""Filters of the address; each is a field of ``QueueFilter``."""
OFFERED: Mapping[str, tuple[tuple[str, str], ...]] = {
    "tier": tuple(TIERS.items()),
    "item": tuple(ITEMS.items()),
    "stage": tuple((stage, spoken(stage)) for stage in Stage),
    "failure": tuple(FAILURES.items()),
}
"""What can be picked, with its words."""
TABS: Mapping[Tab, str] = {
    Tab.MINE: "Mine",
    Tab.UNCLAIMED: "Unclaimed",
    Tab.OPEN: "Open",
    Tab.SECOND: "Waiting for a second person",
    Tab.TICKETS: "Tickets",
    Tab.DECIDED: "Decided",
}
"""Words of the tabs, in their order; total by test."""
FIRST = Tab.OPEN
"""The tab of an address that names none."""


@dataclass(frozen=True, slots=True)
class Chip:
    """A filter that holds, and the address without it."""

    name: str
    value: str
    without: str


def filter_of(given: Mapping[str, str]) -> QueueFilter:
    """What an address or a form asks for."""
    return QueueFilter(**{name: str(given.get(name, "")).strip()[:TEXT_CHARS_MAX] for name in FIELDS})


def tab_of(given: Mapping[str, str]) -> Tab:
    """The tab that an address names; any other word is the first one."""
    named = given.get("tab", "")
    return Tab(named) if named in set(Tab) else FIRST


def address(base: str, tab: Tab, wanted: QueueFilter, **more: str) -> str:
    """The address of a tab with its filters."""
    asked = {"tab": "" if tab is FIRST else tab.value, **{name: getattr(wanted, name) for name in FIELDS}, **more}
    query = urlencode({name: value for name, value in asked.items() if value})
    return f"{base}?{query}" if query else base


def chips(base: str, tab: Tab, wanted: QueueFilter) -> list[Chip]:
    """The filters that hold."""
    found = []
    for name in FIELDS:
        value = getattr(wanted, name)
        if value:
            others = QueueFilter(**{one: "" if one == name else getattr(wanted, one) for one in FIELDS})
            words = dict(OFFERED.get(name, ())).get(value, value)
            found.append(Chip("kind" if name == "item" else name, words, address(base, tab, others)))
    return found
