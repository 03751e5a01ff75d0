"""Review rules: who is asked, how long they have, who is asked next, and where two have to agree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from console.editor.draft import Editing
from console.forms.controls.fields import Missing, at
from console.forms.drafts.fields import standing
from console.templatetags.marks import FAILURES, TIERS
from fabric.core.spec.policies.people import HUMAN_DUE_S, UNDO_S
from fabric.core.values.taxonomy import FailureType, Tier
from fabric.core.values.units import JSON, US


@dataclass(frozen=True, slots=True)
class Asking:
    """A cell that puts something to a person."""

    failure: str
    tier: str
    key: str
    """Name of the cell in an address."""
    role: str


def build(editing: Editing) -> dict[str, Any]:
    """The fields, the times of each tier, and the cells that ask."""
    words = {str(tier): word for tier, word in TIERS.items()}
    return {
        "who": [
            editing.field("reviewers"),
            editing.field("policy.humans.onward_to"),
            editing.field("policy.humans.time_role"),
        ],
        "agree": editing.field("policy.humans.four_eyes", **words),
        "times": editing.fields("policy.humans", "due_s", "reminder_at", "onward_at", "failure_rounds"),
        "tiers": [(TIERS[tier], int(HUMAN_DUE_S[tier] * US), int(UNDO_S[tier] * US)) for tier in Tier],
        "asking": list(asking(editing.tree)),
    }


def asking(tree: JSON) -> Iterator[Asking]:
    """Yield every rung of the table in force that asks a person, in the table's order."""
    for failure in FailureType:
        for tier in Tier:
            path = f"decision_table.{failure}.{tier}"
            found = at(tree, path)
            ladder = standing(tree, path) if isinstance(found, Missing) else found
            rungs = ladder.get("rungs") if isinstance(ladder, dict) else None
            for rung in rungs if isinstance(rungs, list) else []:
                if isinstance(rung, dict) and rung.get("reaction") == "escalate":
                    yield Asking(FAILURES[failure], TIERS[tier], f"{failure}.{tier}", str(rung.get("role", "reviewer")))
