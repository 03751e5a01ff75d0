"""People of a virtual world: who is a member with which roles, who says what to a question, and what they write in place of what they are shown."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from fabric.core.roles import Role, written
from fabric.core.showing import NOBODY_LETS_IT
from fabric.core.taxonomy import Tier
from fabric.runtime.batch_parts import EscalationChange

JSON = Any
ALL = written(list(Role))
REQUESTER = "caller"
"""Who starts the runs."""
REVIEWERS = ("reviewer", "second", "third")
"""Who answers; as many as are needed where two agree to what a third one wrote."""
MEMBERS = (*REVIEWERS, REQUESTER, "operator")
FORM: JSON = {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]}
"""The questions that servers ask people."""
AWAY_S = 60.0
"""How long somebody whose roles were taken away is without them."""


def eyes(tree: JSON, rng: Random) -> None:
    """In some fabrics two people have to agree, in some of the tiers."""
    if rng.random() < 0.3:
        tree["policy"]["humans"]["four_eyes"] = rng.sample(list(Tier), rng.choice((1, 2, 3)))


def other_than(change: EscalationChange) -> str:
    """Somebody who may agree to what is asked about now."""
    return next(name for name in REVIEWERS if name not in (*change.agreed, change.proposed_by))


def by_rule(change: EscalationChange) -> bool:
    """Whether a person is asked about a call because its tool's rule says so."""
    return change.item == "pre_action" and "rule" in json.loads(change.content)


def goes_on_unheard(change: EscalationChange) -> bool:
    """Whether silence takes the run to its ladder's next rung."""
    return bool(json.loads(change.content).get("expiry") == NOBODY_LETS_IT)


def instead_of(change: EscalationChange, number: int) -> str:
    """The tool that somebody has called in place of the one that they are shown, now and then; one that there is not as well; empty: that one."""
    shown = json.loads(change.content)
    # What memories are called with is nothing that is written here.
    takes = [name for name in shown.get("takes_tools", ()) if not name.startswith("memory_")]
    if not takes or number % 3:
        return ""
    return "teleport" if number % 7 == 0 else str(takes[number % len(takes)])


def fills_in(change: EscalationChange) -> bool:
    """Returns True where a person is asked to fill in a form: it is edited, and never approved as it stands."""
    return "asks" in json.loads(change.content) and not change.agreed and not change.proposed_by


def written_over(change: EscalationChange, actor: str) -> JSON:
    """What somebody writes in place of what they are shown."""
    shown = json.loads(change.content)
    if "asks" in shown:
        return {"sure": actor != "second"}
    if change.item == "pre_action":
        return {**shown["payload"], "by": actor}
    initial = shown["edit_initial"]
    for name in ("text", "instructions", "goal"):
        if isinstance(initial, dict) and isinstance(initial.get(name), str):
            return {**initial, name: f"{initial[name]} As {actor} has it."}
    return initial
