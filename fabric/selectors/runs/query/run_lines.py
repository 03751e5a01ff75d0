"""Writes the runs that a query finds as a file: a table for spreadsheets, or lines of JSON."""

from __future__ import annotations

from fabric.core.people.actor import Actor
from fabric.core.texts.notifications import rfc3339
from fabric.core.values.units import JSON, US
from fabric.runtime.ports.batch_parts import list_names
from fabric.selectors.database_time import TookTooLong
from fabric.selectors.list_file import ListLines
from fabric.selectors.runs.query.filters import Ids
from fabric.selectors.runs.query.grammar import Query
from fabric.selectors.runs.query.list_pages import PAGE_MAX, RunRow, runs_page
from fabric.selectors.runs.query.orders import NEWEST, Order

RUNS_MAX = 100_000
"""Largest number of runs in one file."""


class RunLines(ListLines):
    """Runs of a query in an order, with title and reason for who may read contents. A file that lacks runs says so in
    its last line.
    """

    name = "runs"
    called = "runs"
    columns = (
        *("id", "fabric", "revision", "tier", "state", "stage", "title", "reason", "cause", "failure", "fired"),
        *(
            "breakers",
            "recovered",
            "truncated",
            "replans",
            "children",
            "cost_usd_micros",
            "tokens",
            "labels",
            "session_key",
        ),
        *("created_by", "created_at", "ended_at", "took_s"),
    )

    def __init__(self, actor: Actor, query: Query, fabrics: Ids, order: Order = NEWEST, *, form: str) -> None:
        super().__init__(form)
        self._actor, self._query, self._fabrics, self._order = actor, query, fabrics, order
        self._cursor = ""
        self.cut = ""
        """Why runs are missing at the end, in one sentence; empty: none are."""

    def rows(self) -> tuple[list[dict[str, JSON]], bool]:
        """Return the next rows. Raises TookTooLong for the first ones alone: later the file ends."""
        side = "before" if self._order.falling else "after"
        cursor = {side: self._cursor} if self._cursor else {}
        limit = min(PAGE_MAX, RUNS_MAX - self.count)
        try:
            page = runs_page(self._actor, self._query, self._fabrics, order=self._order, limit=limit, **cursor)
        except TookTooLong as refusal:
            if not self._cursor:
                raise
            self.cut = f"{refusal}, so only {self.count:,} runs are here; narrow the query down and export again"
            return [], False
        more = page.older if self._order.falling else page.newer
        if more and self.count + len(page.rows) >= RUNS_MAX:
            self.cut = (
                f"a file has at most {RUNS_MAX:,} runs, and the query finds more; narrow it down, such as by started:"
            )
            more = False
        self._cursor = page.last if page.rows else ""
        return [run_json(row) for row in page.rows], more

    def end(self) -> dict[str, JSON]:
        """Return the line that says which runs are missing; empty if none are."""
        return {"cut": self.cut} if self.cut else {}


def run_json(row: RunRow) -> dict[str, JSON]:
    """Return a run of a list as a program reads it from a file."""
    same: tuple[str, ...] = (
        "id",
        "tier",
        "state",
        "stage",
        "title",
        "reason",
        "cause",
        "failure",
        "recovered",
        "truncated",
        "children",
    )
    same += ("cost_usd_micros", "tokens", "session_key", "created_by")
    return {
        **{name: getattr(row, name) for name in same},
        "fabric": row.fabric_name,
        "revision": row.revision_number,
        "fired": list(list_names(row.fired)),
        "breakers": list(list_names(row.breakers)),
        "replans": row.epoch,
        "labels": dict(row.labels),
        "created_at": rfc3339(row.created_at),
        "ended_at": None if row.ended_at is None else rfc3339(row.ended_at),
        "took_s": None if row.took_us is None else round(row.took_us / US, 3),
    }
