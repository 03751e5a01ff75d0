"""Reads a run's family: its parent and the runs that it spawned.

A family goes on without a person if a run in it does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fabric.core.events import LineagePinned, RunForked
from fabric.core.events.child_inputs import ChildRequested
from fabric.core.events.envelope import from_row
from fabric.core.events.inputs import INBOX, ForkRequested
from fabric.core.people.actor import Actor
from fabric.core.state.living import is_live
from fabric.core.values.flow import TERMINAL, RunState
from fabric.models import Event, Inbox, Run
from fabric.selectors.contents import line_for, may_read, title_for
from fabric.selectors.database_time import store_now
from fabric.selectors.reach import match_visible
from fabric.selectors.runs.lookup import RunView, Waiting
from fabric.selectors.runs.replay import REFOLDED, refold_run

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
    """Amount that its parent reserved for it; None for a root."""


def find_team(run: RunView) -> str:
    """Return the worker whose team the run is of, by its first input. Empty: it runs the fabric's own topology."""
    inbox = Inbox.objects.filter(run_id=run.id, workspace_id=run.workspace_id).order_by("created_at")
    body = inbox.values_list("body", flat=True).first()
    if not body:
        return _find_pinned(run)
    given = INBOX.validate_json(bytes(body))
    return given.topology if isinstance(given, ChildRequested | ForkRequested) else ""


def _find_pinned(run: RunView) -> str:
    """Return that worker for a run whose inputs were erased, by its journal's headers."""
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


def build_children(actor: Actor, run_id: str, *, limit: int = CHILDREN_SHOWN) -> Children:
    """The runs that a run spawned; none for an id of another workspace."""
    rows = Run.objects.filter(match_visible(actor, Run), parent_run_id=run_id)
    found = [
        _relative(actor, row)
        for row in rows.order_by("created_at", "parent_command", "id").values_list(*_COLUMNS)[:limit]
    ]
    return Children(rows.count() if len(found) == limit else len(found), tuple(found))


def list_descendants(actor: Actor, run_id: str) -> list[str]:
    """The ids of the runs below a run, at every level; none for an id of another workspace."""
    found: list[str] = []
    level = [run_id]
    for _ in range(LEVELS_MAX):
        rows = Run.objects.filter(match_visible(actor, Run), parent_run_id__in=level)
        level = list(rows.values_list("id", flat=True))
        if not level:
            break
        found += level
    return found


def list_ancestors(actor: Actor, parent_run_id: str | None) -> tuple[Relative, ...]:
    """From the root down to that run: whose a child is."""
    found: list[Relative] = []
    while parent_run_id is not None and len(found) < LEVELS_MAX:
        rows = Run.objects.filter(match_visible(actor, Run), id=parent_run_id)
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


def family_at_work(actor: Actor, run_id: str) -> bool:
    """Returns True where anything of a run and the runs below it goes on without a person.

    A run whose clock does not stop for reviews stays *running* while its children wait for answers; its journal says
    whether it does anything beside that.
    """
    ids = [run_id, *list_descendants(actor, run_id)]
    rows = list(Run.objects.filter(match_visible(actor, Run), id__in=ids).values("parent_run_id", "state", *REFOLDED))
    if any(row["state"] == RunState.QUEUED for row in rows):
        return True
    open_yet = [row for row in rows if row["state"] in (RunState.RUNNING, RunState.WAITING)]
    parents = {row["parent_run_id"] for row in rows if row["state"] not in TERMINAL}
    running = [row for row in open_yet if row["state"] == RunState.RUNNING]
    if any(row["id"] not in parents for row in running) or _has_news([row["id"] for row in open_yet]):
        return True
    return any(is_live(refold_run(row).run) for row in running)


def _has_news(ids: list[str]) -> bool:
    """Returns True where one of the runs has an input that it has not taken."""
    return Inbox.objects.filter(run_id__in=ids, consumed_seq__isnull=True, visible_at__lte=store_now()).exists()
