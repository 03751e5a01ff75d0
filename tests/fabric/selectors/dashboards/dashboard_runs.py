"""A small known set of runs, made row by row, for dashboards."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fabric.core.values.fingerprint import encode
from fabric.core.values.units import US
from fabric.models import Fabric, Review, Revision, Run, RunLabel
from fabric.runtime.ports.batch_parts import names_text

NOW = int(datetime(2026, 11, 25, 12, 30, tzinfo=UTC).timestamp()) * US
HOUR = 3_600 * US
DAY = 24 * HOUR


def make_fabric(actor: Any, name: str, revisions: int = 1) -> list[Revision]:
    """Return the revisions of a new fabric."""
    fabric = Fabric.objects.create(workspace_id=actor.workspace_id, name=name, title=name)
    return [
        Revision.objects.create(
            workspace_id=actor.workspace_id, fabric=fabric, number=number, digest=f"{name}{number}", spec="{}"
        )
        for number in range(1, revisions + 1)
    ]


def make_run(revision: Revision, *, ago: int = HOUR, took_s: float | None = None, **fields: Any) -> Run:
    """Return a new run. ``took_s``: it ended after so long, completed unless ``state`` says otherwise."""
    at = NOW - ago
    labels = fields.pop("labels", {})
    spent = {kind: fields.pop(kind, {}) for kind in ("agent", "model")}
    made = {
        "state": "queued" if took_s is None else "completed",
        "ended_at": None if took_s is None else at + round(took_s * US),
        "fired": names_text(fields.pop("fired", ())),
        "spent_on": encode(spent).decode() if any(spent.values()) else "",
    }
    run = Run.objects.create(
        workspace_id=revision.workspace_id, fabric_id=revision.fabric_id, revision=revision, trace_id="t", seed=1,
        tier="batch", created_at=at, deadline_at=at + DAY, head_hash=b"", **made | fields,
    )  # fmt: skip
    for key, value in labels.items():
        RunLabel.objects.create(run=run, workspace_id=revision.workspace_id, key=key, value=value)
    return run


def make_review(run: Run, *, decided: int | None = None, due: int = 0, **fields: Any) -> Review:
    """Return a new review of a run. ``decided`` and ``due``: microseconds after NOW."""
    at = None if decided is None else NOW + decided
    usual = {"verb": "" if at is None else "approve", "decided_by": "" if at is None else "ana", "item": "output"}
    return Review.objects.create(
        id=f"{run.id[:20]}{Review.objects.count()}", workspace_id=run.workspace_id, run=run, verbs="approve,reject",
        step_id=f"s{Review.objects.count()}", digest="d", opened_at=run.created_at, due_at=NOW + due, content=b"{}", decided_at=at,
        **usual | fields,
    )  # fmt: skip
