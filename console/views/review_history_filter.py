"""The parameters of the history of decisions, and their words."""

from __future__ import annotations

from collections.abc import Mapping

from console.templatetags.marks import FAILURES, ITEMS, TIERS
from console.views.list_grammar import Field, Grammar
from fabric.selectors.decision_history import VERBS, HistoryFilter

VERB_WORDS: Mapping[str, str] = {
    "approve": "approved",
    "edit": "edited",
    "reject": "rejected",
    "respond": "sent back",
    "decline": "declined",
    "withdrawn": "withdrawn",
}
"""Total over ``VERBS``, by test."""
HISTORY = Grammar(
    route="reviews-history",
    makes=HistoryFilter,
    usual="30d",
    fields=(
        Field("fabric", "fabric"),
        Field("item", "kind", tuple((name, words) for name, words in ITEMS.items() if name != "ticket")),
        Field("verb", "answer", tuple((verb, VERB_WORDS[verb]) for verb in VERBS)),
        Field("tier", "tier", tuple(TIERS.items()), place="more"),
        Field("failure", "failure", tuple(FAILURES.items()), place="more"),
        Field(
            "who", "decided by", (("people", "people"), ("system", "the system: nobody answered in time")), place="more"
        ),
        Field("by", "person", hint="a user's name", place="more"),
    ),
)
