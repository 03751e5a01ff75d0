"""The hub's source: the database, read through the selectors and rendered with the templates of the page itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256

from django.db import close_old_connections, connection
from django.template.loader import render_to_string

from console.live.frames import Batch, Head, Panel, Row
from console.live.watch import RunKey
from console.views.run_page import EventLine, RunPage, cap_of
from fabric.core.actor import Actor
from fabric.models import Run
from fabric.selectors.escalations import EscalationView, escalations_open
from fabric.selectors.runs import EventView, RunView, run_events, run_get, run_outcome

READER = "live"
"""Who reads on behalf of all who watch; each of them was let in by name."""


class DatabaseSource:
    """``hub.Reach`` over this process's database."""

    def __init__(self) -> None:
        self._data_version: int | None = None

    def read(self, key: RunKey, after: int, limit: int) -> Batch:
        """See ``watch.Source``."""
        actor = Actor(READER, key.workspace_id, kind="system")
        try:
            events = run_events(actor, key.run_id, after=after, limit=limit)
            # Read after the events, so that the head is never behind the rows that a page has.
            return Batch(tuple(row(key.run_id, event) for event in events), head(actor, key.run_id))
        finally:
            close_old_connections()

    def may_have_changed(self) -> bool:
        """On SQLite one pragma; on PostgreSQL, which has nothing as cheap, always. Called on one thread only."""
        if connection.vendor != "sqlite":
            return True
        # The connection stays open between looks: the number counts what other connections have committed since.
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA data_version")
            before, self._data_version = self._data_version, cursor.fetchone()[0]
        return before != self._data_version

    def reach(self, keys: Iterable[RunKey]) -> Mapping[RunKey, int]:
        """See ``hub.Reach``."""
        wanted = {key.run_id: key for key in keys}
        rows = Run.objects.filter(id__in=list(wanted)).values_list("id", "workspace_id", "last_seq")
        found = {wanted[run]: seq for run, workspace, seq in rows if wanted[run].workspace_id == workspace}
        if connection.vendor != "sqlite":
            close_old_connections()
        return found


def row(run_id: str, event: EventView) -> Row:
    """An event as the page shows it: the same for everybody."""
    return Row(event.seq, render_to_string("runs/event_row.html", {"run_id": run_id, "event": EventLine(event)}))


def head(actor: Actor, run_id: str) -> Head:
    """Where a run stands, as the page's panels. Refused not_found."""
    run = run_get(actor, run_id)
    return Head(run.last_seq, run.terminal, panels(actor, run, escalations_open(actor, run_id)))


def panels(actor: Actor, run: RunView, questions: list[EscalationView]) -> tuple[Panel, ...]:
    """The panels of a run's page, in their fixed order. What depends on who looks is only announced, and fetched by each page itself."""
    outcome = run_outcome(actor, run.id) if run.terminal else None
    page = RunPage(run, cap_of(run.revision_id), outcome)
    asked = ",".join(question.id for question in questions)
    return (
        _panel("head", {"page": page}),
        _panel("ask", {"page": page, "asked": asked}),
        _panel("outcome", {"page": page}),
    )


def _panel(name: str, context: Mapping[str, object]) -> Panel:
    html = render_to_string(f"runs/panel_{name}.html", dict(context))
    return Panel(name, sha256(html.encode()).hexdigest()[:12], html)
