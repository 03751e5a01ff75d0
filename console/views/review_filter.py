"""The parameters of the review queue, and their words."""

from __future__ import annotations

from collections.abc import Mapping

from console.templatetags.marks import FAILURES, ITEMS, TIERS, spoken
from console.views.list_grammar import Field, Grammar
from fabric.core.flow import Stage
from fabric.selectors.review_queue import QueueFilter, Tab

TABS: Mapping[Tab, str] = {
    Tab.MINE: "Mine",
    Tab.UNCLAIMED: "Unclaimed",
    Tab.OPEN: "Open",
    Tab.SECOND: "Waiting for a second person",
    Tab.TICKETS: "Tickets",
    Tab.DECIDED: "Decided",
}
"""Words of the tabs, in their order; total by test."""
QUEUE = Grammar(
    route="reviews",
    makes=QueueFilter,
    usual=Tab.OPEN.value,
    choice=Field("tab", "tab", tuple((tab.value, word) for tab, word in TABS.items())),
    fields=(
        Field("text", "text", hint="words of the question or its run", place="search"),
        Field("fabric", "fabric"),
        Field("item", "kind", tuple(ITEMS.items())),
        Field("tier", "tier", tuple(TIERS.items()), place="more"),
        Field("stage", "stage", tuple((stage.value, spoken(stage)) for stage in Stage), place="more"),
        Field("failure", "failure", tuple(FAILURES.items()), place="more"),
        Field("role", "asks", hint="a role or a name", place="more"),
    ),
)
