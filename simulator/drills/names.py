"""What the runs of drills are called in the tables, and how a run's drill is read from that."""

from __future__ import annotations

from typing import Literal, get_args

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
