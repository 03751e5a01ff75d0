"""Reads labels of runs: as a column of a list, and the runs that have one. A child run has its root's."""

from __future__ import annotations

from typing import Any

from django.db.models import Aggregate, Exists, OuterRef, QuerySet, Subquery, TextField, Value
from django.db.models.functions import Coalesce, Concat

from fabric.models import RunLabel


class _JoinedLines(Aggregate):
    """Texts of a group, a line each."""

    function = "GROUP_CONCAT"
    template = "%(function)s(%(expressions)s, CHAR(10))"
    output_field = TextField()

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        template = "%(function)s(%(expressions)s, CHR(10))"
        return self.as_sql(compiler, connection, function="STRING_AGG", template=template, **context)


def find_labels() -> Coalesce:
    """Return the column with a run's labels, as ``core.values.labels.read_labels`` reads it."""
    owner = Coalesce(OuterRef("root_run_id"), OuterRef("id"))
    rows = RunLabel.objects.filter(run_id=owner).order_by().values("run_id")
    joined = rows.annotate(held=_JoinedLines(Concat("key", Value("="), "value", output_field=TextField())))
    return Coalesce(Subquery(joined.values("held")), Value(""), output_field=TextField())


def match_labelled(key: str, value: str | None) -> Exists:
    """Return the condition that a run has a label, or that its root has it. ``value`` None: a label with the key."""
    rows = RunLabel.objects.filter(run_id=Coalesce(OuterRef("root_run_id"), OuterRef("id")), key=key)
    return Exists(rows if value is None else rows.filter(value=value))


def find_labelled(workspace_id: str, key: str, value: str | None) -> QuerySet[RunLabel, Any]:
    """Return the ids of runs with a label; ``value`` None: with its key."""
    rows = RunLabel.objects.filter(workspace_id=workspace_id, key=key)
    return (rows if value is None else rows.filter(value=value)).values("run_id")
