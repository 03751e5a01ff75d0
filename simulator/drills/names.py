"""What the runs of drills are called in the tables, and how a run's drill is read from that."""

from __future__ import annotations

from typing import Literal, get_args

from fabric.core.reach import DRAFT_OF

Part = Literal["before", "during", "after"]
"""The undisturbed run, the disturbed one, and the one after everything was put back."""
PARTS: tuple[Part, ...] = get_args(Part)
SAID: dict[str, str] = {"before": "undisturbed", "during": "disturbed", "after": "afterwards"}
"""A part in a word."""
QUEUE = "virtual clock"
"""The queue that runs in virtual time name. No run can be started for it: its name is none that a queue may have."""


def start_key(drill_id: str, part: str) -> str:
    """By what the run of a drill is found again. ``part``: a ``Part``, or what tells a further run of the same drill from them."""
    return f"{drill_id}:{part}"


def drill_of_key(key: str) -> tuple[str, str]:
    """``(drill id, part)`` that the start key of a run in a workspace of drills names; both empty: it names none."""
    drill_id, _, part = key.partition(":")
    return (drill_id, part) if drill_id and part else ("", "")


# -- drafts ------------------------------------------------------------------------------------------------------------


def draft_name(fabric: str, author: str) -> str:
    """What the fabric is called, in the workspace of drills, whose revisions are the drafts that somebody had drilled. No published fabric has such a name."""
    return f"{fabric}{DRAFT_OF}{author})"


def drafted(name: str) -> tuple[str, str]:
    """``(fabric, author)`` of such a name; the author empty: it is a published fabric's own."""
    fabric, of, author = name.partition(DRAFT_OF)
    return (fabric, author[:-1]) if of and author.endswith(")") else (name, "")
