"""The hub's source: the database, read through the selectors and rendered with the templates of the page itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256

from django.db import connection
from django.template.loader import render_to_string

from console.live.connections import keep_connection
from console.live.frames import LiveBatch, LiveHead, LiveRow, Panel
from console.live.reader import RunKey
from console.live.stories import stories
from console.pages.runs.event_line import EventLine
from console.pages.runs.panels import part, read_margin_facts
from fabric.core.people.actor import Actor
from fabric.core.people.roles import Role
from fabric.models import Run
from fabric.selectors.reviews.lookup import list_open_reviews
from fabric.selectors.reviews.review_view import ReviewView
from fabric.selectors.runs.events.windows import EventRow, events_after
from fabric.selectors.runs.lookup import RunView, run_get
from fabric.selectors.runs.margins.margin import Margin

READER = "live"
"""Reader for all viewers, each of whom was admitted by name."""


def find_reader(key: RunKey) -> Actor:
    """Reads a run for its watchers, with or without its contents."""
    if key.reads:
        return Actor(READER, key.workspace_id, kind="system")
    return Actor(READER, key.workspace_id, roles=frozenset({Role.VIEWER}))


class DatabaseSource:
    """``hub.Reach`` over this process's database."""

    def __init__(self) -> None:
        self._data_version: int | None = None

    def read(self, key: RunKey, after: int, limit: int, shown: LiveHead | None = None) -> LiveBatch:
        """See ``watch.Source``."""
        actor = find_reader(key)
        try:
            events = events_after(actor, key.run_id, after=after, limit=limit)
            # Read after the events, so that the head is never behind the rows that a page has.
            return LiveBatch(tuple(row(key.run_id, event) for event in events), head(actor, key.run_id, shown))
        finally:
            keep_connection()

    def may_have_changed(self) -> bool:
        """On SQLite one pragma; on PostgreSQL, which has nothing as cheap, always. Called on one thread only."""
        if connection.vendor != "sqlite":
            return True
        # The connection stays open between looks: the number counts what other connections have committed since.
        try:
            with connection.cursor() as cursor:
                cursor.execute("PRAGMA data_version")
                before, self._data_version = self._data_version, cursor.fetchone()[0]
        finally:
            keep_connection()
        return before != self._data_version

    def reach(self, keys: Iterable[RunKey]) -> Mapping[RunKey, int]:
        """See ``hub.Reach``."""
        wanted = list(keys)
        try:
            rows = Run.objects.filter(id__in={key.run_id for key in wanted}).values_list(
                "id", "workspace_id", "last_seq"
            )
            seqs = {(workspace, run): seq for run, workspace, seq in rows}
        finally:
            keep_connection()
        return {key: seqs[key.workspace_id, key.run_id] for key in wanted if (key.workspace_id, key.run_id) in seqs}


def row(run_id: str, event: EventRow) -> LiveRow:
    """Return an event as the page shows it. Readers of equal rights get equal rows."""
    return LiveRow(event.seq, render_to_string("runs/events/row.html", {"run_id": run_id, "event": EventLine(event)}))


def head(actor: Actor, run_id: str, shown: LiveHead | None = None) -> LiveHead:
    """Return the panels of the page's head, those of ``shown`` while nothing changed. Refused not_found."""
    run = run_get(actor, run_id)
    reviews = list_open_reviews(actor, run_id)
    mark = " ".join((run.state, run.stage, str(run.epoch), *(review.id for review in reviews)))
    if shown is not None and shown.mark == mark and not run.terminal:
        return LiveHead(run.last_seq, run.terminal, shown.panels, shown.drawn, mark, shown.again)
    beside = read_margin_facts(run)
    made = panels(actor, run, reviews, beside)
    return LiveHead(run.last_seq, run.terminal, made, run.last_seq, mark, again=beside is not None)


def panels(
    actor: Actor,
    run: RunView,
    reviews: list[ReviewView],
    beside: Margin | None = None,
    *,
    at_most: int | None = None,
) -> tuple[Panel, ...]:
    """The panels of a run's page, in their fixed order. What depends on who looks is only announced, and fetched by
    each page itself.

    ``beside``: ``panels.read_margin_facts``. ``at_most``: events to be folded for them now; of a longer journal they
    say that they come in a moment.
    """
    asked = ",".join(review.id for review in reviews)
    with stories.read_story(actor, run, at_most=at_most) as story:
        return (
            _panel("head", part("head", actor, run, story, beside)),
            _panel("ask", render_to_string("runs/panels/ask.html", {"run": run, "asked": asked})),
            _panel("talk", part("talk", actor, run, story)),
            _panel("outcome", part("outcome", actor, run, story)),
            _panel("timeline", part("timeline", actor, run, story)),
        )


def _panel(name: str, html: str) -> Panel:
    return Panel(name, sha256(html.encode()).hexdigest()[:12], html)
