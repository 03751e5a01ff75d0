"""Reads the place of a run in its trace from the columns of its row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fabric.core.values.tracing import Trace, find_trace
from fabric.models import Run

TRACE_COLUMNS = ("trace_id", "parent_run_id", "parent_command", "trace_context")


def build_trace(run_id: str, row: Mapping[str, Any]) -> Trace:
    """Return the place of a run by its ``TRACE_COLUMNS``."""
    return find_trace(
        row["trace_id"],
        run_id,
        parent_run_id=row["parent_run_id"],
        parent_command=row["parent_command"],
        context=row["trace_context"],
    )


def read_trace(run_id: str) -> Trace | None:
    """Return the place of a run; None without such a run. One statement."""
    found = Run.objects.filter(id=run_id).values(*TRACE_COLUMNS).first()
    return build_trace(run_id, found) if found is not None else None
