"""People of a virtual world: members and roles, answers to reviews, and edits."""

from __future__ import annotations

import json
from random import Random

from fabric.core.people.roles import Role, write_roles
from fabric.core.reviews.consequences import POLL_EXPIRY
from fabric.core.values.taxonomy import Tier
from fabric.core.values.units import JSON
from fabric.runtime.ports.batch_parts import ReviewChange

ALL = write_roles(list(Role))
REQUESTER = "caller"
"""Starter of the runs."""
REVIEWERS = ("reviewer", "second", "third")
"""Reviewers; enough for two who agree to the edit of a third."""
MEMBERS = (*REVIEWERS, REQUESTER, "operator")
FORM: JSON = {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]}
"""The questions that servers ask people."""
AWAY_S = 60.0
"""Seconds for which a person is without the roles that were taken away."""


def eyes(tree: JSON, rng: Random) -> None:
    """Require two people in some tiers of some fabrics."""
    if rng.random() < 0.3:
        tree["policy"]["humans"]["four_eyes"] = rng.sample(list(Tier), rng.choice((1, 2, 3)))


def other_reviewer(change: ReviewChange) -> str:
    """Return a person who may agree to the present content."""
    return next(name for name in REVIEWERS if name not in (*change.agreed, change.proposed_by))


def is_by_rule(change: ReviewChange) -> bool:
    """Return True if the review exists because a tool's rule demands it."""
    return change.item == "pre_action" and "rule" in json.loads(change.content)


def goes_on_unheard(change: ReviewChange) -> bool:
    """Return True if silence takes the run to its ladder's next rung."""
    return bool(json.loads(change.content).get("expiry") == POLL_EXPIRY)


def replacing_tool(change: ReviewChange, number: int) -> str:
    """Return the tool that a person sometimes calls in place of the reviewed one; empty for the reviewed one.

    Sometimes it is a tool that does not exist.
    """
    shown = json.loads(change.content)
    # People write no arguments of memories here.
    takes = [name for name in shown.get("takes_tools", ()) if not name.startswith("memory_")]
    if not takes or number % 3:
        return ""
    return "teleport" if number % 7 == 0 else str(takes[number % len(takes)])


def fills_in(change: ReviewChange) -> bool:
    """Return True if the review asks to fill in a form, which is edited and never approved unchanged."""
    return "asks" in json.loads(change.content) and not change.agreed and not change.proposed_by


def written_over(change: ReviewChange, actor: str) -> JSON:
    """Return the value that a person writes in place of the reviewed one."""
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
