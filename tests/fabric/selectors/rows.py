"""Rows as a workspace that has been busy would have them: what selectors read, without the runs having run."""

from __future__ import annotations

from fabric.core.people.actor import Actor
from fabric.models import Fabric, Incarnation, Review, Run

NOW = 1_800_000_000_000_000
MINUTE = 60_000_000


def run_row(
    actor: Actor, fabric: str, state: str, *, asked: float = 1, ended: float | None = None, **more: object
) -> Run:
    """A run that was asked for and ended so many minutes before ``NOW``."""
    found = Fabric.objects.get(workspace_id=actor.workspace_id, name=fabric)
    created_at = NOW - int(asked * MINUTE)
    known: dict[str, object] = {
        "fabric_id": found.id,
        "revision_id": found.published_id,
        "title": f"A {state} run",
        "tier": "interactive",
        "trace_id": "0" * 32,
        "seed": 1,
        "state": state,
        "created_at": created_at,
        "created_by": "owner",
        "deadline_at": created_at + 60 * MINUTE,
        "head_hash": bytes(32),
        "ended_at": None if ended is None else NOW - int(ended * MINUTE),
    }
    return Run.objects.create(workspace_id=actor.workspace_id, **(known | more))


def review_row(actor: Actor, run: Run, due: float, name: str = "esc", **more: object) -> Review:
    """A review that is due so many minutes after ``NOW``."""
    known: dict[str, object] = {"item": "post_stage", "reason": "the critic doubts it", "verbs": "approve,reject"}
    known |= {"digest": "d", "opened_at": NOW - 30 * MINUTE, "due_at": NOW + int(due * MINUTE), "content": b"{}"}
    return Review.objects.create(id=name, workspace_id=actor.workspace_id, run=run, **(known | more))


def worker_row(name: str = "w-1", *, lease: float = 0.1, retired: float | None = None) -> Incarnation:
    """A worker whose lease ends, and which was retired, so many minutes after ``NOW``."""
    return Incarnation.objects.create(
        name=name,
        lease_until=NOW + int(lease * MINUTE),
        started_at=NOW - 60 * MINUTE,
        retired_at=None if retired is None else NOW + int(retired * MINUTE),
        host="here",
        pid=7,
    )
