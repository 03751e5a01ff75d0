"""Names of the runs of drills in the tables, and the way back from a name to its drill."""

from __future__ import annotations

from typing import Literal, get_args

from fabric.core.people.roles import DRAFT_OF

Part = Literal["before", "during", "after"]
"""The undisturbed run, the disturbed one, and the one after all effects were reverted."""
PARTS: tuple[Part, ...] = get_args(Part)
PART_WORDS: dict[str, str] = {"before": "undisturbed", "during": "disturbed", "after": "afterwards"}
"""Word of each part."""
QUEUE = "virtual clock"
"""Queue of runs in simulated time. No run can be started for it, because it is no valid name of a queue."""


def start_key(drill_id: str, part: str) -> str:
    """Return the start key of a drill's run. ``part``: a ``Part``, or the mark of a further run."""
    return f"{drill_id}:{part}"


def drill_of_key(key: str) -> tuple[str, str]:
    """Return ``(drill id, part)`` of a start key in a workspace of drills; both empty if it names none."""
    drill_id, _, part = key.partition(":")
    return (drill_id, part) if drill_id and part else ("", "")


# -- drafts ------------------------------------------------------------------------------------------------------------


def draft_name(fabric: str, author: str) -> str:
    """Return the name of the fabric whose revisions are an author's drilled drafts. No published fabric has such a
    name.
    """
    return f"{fabric}{DRAFT_OF}{author})"


def split_draft_name(name: str) -> tuple[str, str]:
    """Return ``(fabric, author)`` of a fabric's name in the workspace of drills; author empty for a published
    fabric.
    """
    fabric, of, author = name.partition(DRAFT_OF)
    return (fabric, author[:-1]) if of and author.endswith(")") else (name, "")
