"""A run's family: the runs it spawned, and whose it is itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fabric.core.actor import Actor
from fabric.core.child_inputs import ChildRequested
from fabric.core.envelope import from_row
from fabric.core.events import LineagePinned, RunForked
from fabric.core.flow import RunState
from fabric.core.inputs import INBOX, ForkRequested
from fabric.models import Event, Inbox, Run
from fabric.selectors.contents import line_for, may_read, title_for
from fabric.selectors.reach import seen_by
from fabric.selectors.runs import RunView
from fabric.selectors.waits_for import Waiting

CHILDREN_SHOWN = 64
"""As many as one fan-out can have; of more, the list of runs shows the rest."""
LEVELS_MAX = 64
"""Far above any recursion limit: a walk upwards ends here whatever the rows say."""


@dataclass(frozen=True, slots=True)
class Relative(Waiting):
    """A run of the family as lists of it show it. Money is micro-dollars."""

    id: str
    title: str
    state: RunState
    reason: str
    recovered: bool
    stage: str
    cost_usd_micros: int
    cap_usd_micros: int | None
    """What its parent reserved for it; None for a root."""


def team_of(run: RunView) -> str:
    """The worker whose team a run is of, by what it was begun with, its first input; empty: it runs the fabric's own topology."""
    inbox = Inbox.objects.filter(run_id=run.id, workspace_id=run.workspace_id).order_by("created_at")
    body = inbox.values_list("body", flat=True).first()
    if not body:
        return _pinned(run)
    given = INBOX.validate_json(bytes(body))
    return given.topology if isinstance(given, ChildRequested | ForkRequested) else ""


def _pinned(run: RunView) -> str:
    """The same of a run whose inputs were erased: its journal's headers never are."""
    rows = Event.objects.filter(run_id=run.id, workspace_id=run.workspace_id, kind__in=("lineage_pinned", "run_forked"))
    for seq, kind, version, header in rows.order_by("seq").values_list("seq", "kind", "version", "header")[:1]:
        fact = from_row(seq, kind, version, bytes(header)).fact
        if isinstance(fact, LineagePinned | RunForked):
            return fact.topology
    return ""


@dataclass(frozen=True, slots=True)
class Children:
    """The children of a run, in the order of their commands. ``count``: all of them, ``shown`` or not."""

    count: int
    shown: tuple[Relative, ...]


_COLUMNS = ("id", "title", "state", "reason", "fabric__name", "recovered", "stage", "cost_usd_micros", "cap_usd_micros")


def children_of(actor: Actor, run_id: str, *, limit: int = CHILDREN_SHOWN) -> Children:
    """The runs that a run spawned; none for an id of another workspace."""
    rows = Run.objects.filter(seen_by(actor, Run), parent_run_id=run_id)
    found = [
        _relative(actor, row)
        for row in rows.order_by("created_at", "parent_command", "id").values_list(*_COLUMNS)[:limit]
    ]
    return Children(rows.count() if len(found) == limit else len(found), tuple(found))


def descendants_of(actor: Actor, run_id: str) -> list[str]:
    """The ids of the runs below a run, at every level; none for an id of another workspace."""
    found: list[str] = []
    level = [run_id]
    for _ in range(LEVELS_MAX):
        rows = Run.objects.filter(seen_by(actor, Run), parent_run_id__in=level)
        level = list(rows.values_list("id", flat=True))
        if not level:
            break
        found += level
    return found


def ancestors_of(actor: Actor, parent_run_id: str | None) -> tuple[Relative, ...]:
    """From the root down to that run: whose a child is."""
    found: list[Relative] = []
    while parent_run_id is not None and len(found) < LEVELS_MAX:
        rows = Run.objects.filter(seen_by(actor, Run), id=parent_run_id)
        row = rows.values_list(*_COLUMNS, "parent_run_id").first()
        if row is None:
            break
        found.append(_relative(actor, row[:-1]))
        parent_run_id = row[-1]
    return tuple(reversed(found))


def _relative(actor: Actor, row: tuple[Any, ...]) -> Relative:
    run_id, title, state, reason, fabric, *rest = row
    reads = may_read(actor, fabric)
    told = title_for(title, reads=reads), RunState(state), line_for(reason, reads=reads)
    return Relative(run_id, *told, *rest)
