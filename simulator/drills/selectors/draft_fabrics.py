"""Finds the fabrics of drilled drafts. Their verdicts count for a published cell of the same digest."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from fabric.core.people.roles import DRAFT_OF
from fabric.core.values.units import US
from fabric.models import Fabric
from simulator.drills.runs.names import split_draft_name


def convert_instant(at: datetime) -> int:
    """Return an instant in microseconds since the epoch, as drills have them."""
    return int(at.timestamp() * US)


def list_draft_fabrics(workspace_id: str, fabric: str = "") -> Mapping[str, str]:
    """Return ids of the fabrics of drilled drafts, each with its published fabric's name.

    ``fabric``: only the drafts of this fabric; empty for all of the workspace.
    """
    rows = Fabric.objects.filter(workspace__drills_of_id=workspace_id)
    found = rows.filter(name__startswith=f"{fabric}{DRAFT_OF}") if fabric else rows.filter(name__contains=DRAFT_OF)
    named = {each: split_draft_name(name) for each, name in found.values_list("id", "name")}
    return {each: name for each, (name, author) in named.items() if author}
