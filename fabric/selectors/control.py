"""Whether a run is to be held: what people asked for, which its owner may not have taken yet."""

from __future__ import annotations

from fabric.core.actor import Actor
from fabric.models import Inbox

PAUSE, RESUME = "pause:", "resume:"
"""Input ids of pauses and resumptions, each with its number in the run's life: two that come at once are one."""


def holds(actor: Actor, run_id: str) -> tuple[int, int]:
    """How often the run was asked to pause, and to go on. The two are asked for in turn: more pauses than resumptions, and it is to be held."""
    rows = Inbox.objects.filter(workspace_id=actor.workspace_id, run_id=run_id)
    pauses = rows.filter(input_id__startswith=PAUSE).count()
    return pauses, rows.filter(input_id__startswith=RESUME).count()


def was_sent(actor: Actor, run_id: str, input_id: str) -> bool:
    """Whether a run was sent this input, be it long ago."""
    return Inbox.objects.filter(workspace_id=actor.workspace_id, run_id=run_id, input_id=input_id).exists()


def to_be_held(actor: Actor, run_id: str) -> bool:
    """Whether the last of them asked to hold it."""
    pauses, resumptions = holds(actor, run_id)
    return pauses > resumptions
