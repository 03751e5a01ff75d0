"""Reviews that were decided, written straight into their table: history is long, and no test waits for it to happen."""

from __future__ import annotations

from itertools import count

from fabric.core.values.units import US
from fabric.models import Review, Run

AT = 1_790_000_000 * US
"""When the first of them was decided, where a test says nothing else."""
_number = count(1)


def decided(run_id: str, verb: str = "approve", by: str = "ana", *, took_s: float = 60, **more: object) -> Review:
    """One of them, not saved. By the system: ``by_system=True``."""
    at = int(more.pop("decided_at", AT))  # type: ignore[call-overload]
    number = next(_number)
    row = {
        "id": f"{number:016x}",
        "step_id": f"validate.{number}",
        "item": "post_stage",
        "reason": "the critic's score 0.6 is below tau 0.7",
        "failure_type": "grounding",
        "stage": "validate",
        "required_role": "reviewer",
        "verbs": "approve,reject",
        "digest": "d",
        "content": b'{"mechanism": "escalation"}',
        "opened_at": at - round(took_s * US),
        "due_at": at + 3_600 * US,
    }
    workspace = Run.objects.filter(id=run_id).values_list("workspace_id", flat=True)[0]
    same = {"workspace_id": workspace, "run_id": run_id, "decided_at": at, "verb": verb, "decided_by": by}
    return Review(**{**row, **same, **more})


def many(*rows: Review) -> None:
    """Saves them."""
    Review.objects.bulk_create(rows, batch_size=2_000)
