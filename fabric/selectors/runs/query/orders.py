"""The orders of the list of runs. Each is an index's own, so that no page sorts all runs there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from django.db.models import F, Q, QuerySet

from fabric.core.values.flow import RunState
from fabric.models import Run
from fabric.models.runs.run import BAD_STATES, IndexCondition
from fabric.selectors.errors import Refused
from fabric.selectors.list_file import build_cursor_condition
from fabric.selectors.runs.query.grammar import FIELDS, Query

COLUMNS: Mapping[str, str] = {"started": "created_at", "ended": "ended_at"}
"""Column of each order, by its word in an address."""
COMPLETED = frozenset({RunState.COMPLETED.value})
HAS_COMPLETED = Q(IndexCondition(F("state"), template="%(expressions)s = 'completed'"))
"""Completed runs, as a query must state it to use the partial index."""
ELSEWHERE = tuple(
    name for name, field in FIELDS.items() if field.indexed and name not in ("state", "ended", "recovered")
)
"""Fields whose own index a planner takes first; it would sort all that they find."""


@dataclass(frozen=True, slots=True)
class Order:
    """An order by one instant; runs of one instant stand by their ids."""

    word: str = "started"
    falling: bool = True
    """True: the latest first."""

    @property
    def column(self) -> str:
        """Column of the instant."""
        return COLUMNS[self.word]

    @property
    def name(self) -> str:
        """The order as an address has it."""
        return f"{'-' if self.falling else ''}{self.word}"

    def turned(self) -> Order:
        """Return the order with its other end first."""
        return Order(self.word, not self.falling)

    def sort(self, rows: QuerySet[Run, Any]) -> QuerySet[Run, Any]:
        """The rows in this order. A run without the instant is left out."""
        if self.word == "ended":
            rows = rows.filter(ended_at__isnull=False)
        return rows.order_by(f"-{self.column}", "id") if self.falling else rows.order_by(self.column, "-id")

    def match_beyond(self, cursor: str, side: Literal["before", "after"]) -> Q:
        """Return the condition on runs before or after a cursor in time. Refused invalid for a cursor that is none."""
        if side == "before":
            return build_cursor_condition(cursor, f"-{self.column}", field=side)
        return build_cursor_condition(cursor, self.column, ids="lt", field=side)


NEWEST = Order()


def list_order_words(query: Query) -> tuple[str, ...]:
    """Return the words of the orders that an index answers. An end is in the indexes of two groups of states."""
    return tuple(COLUMNS) if _states(query) is not None else ("started",)


def read_order(name: str, query: Query) -> Order:
    """The order of an address; the newest first for none. Refused invalid for one that no index answers."""
    order = Order(name.removeprefix("-"), name.startswith("-")) if name else NEWEST
    if order.word not in COLUMNS:
        known = ", ".join(f"{word} or -{word}" for word in COLUMNS)
        raise Refused(f"{name[:60]!r} is no order of runs; write {known}", code="invalid", field="sort")
    if order.word not in list_order_words(query):
        states = f"state:completed or some of state:{','.join(BAD_STATES)}"
        message = f"runs are ordered by their end only with {states}, and without {', '.join(ELSEWHERE)}"
        raise Refused(message, code="invalid", field="sort")
    return order


def keep_order(name: str, query: Query) -> Order:
    """The order of an address where it serves a query; else the newest first."""
    try:
        return read_order(name, query)
    except Refused:
        return NEWEST


def match_index(order: Order, query: Query) -> Q:
    """Return the condition that names the order's index, for a query that it answers."""
    return HAS_COMPLETED if order.word == "ended" and _states(query) == COMPLETED else Q()


def _states(query: Query) -> frozenset[str] | None:
    """Return the states that a query asks for, if one index has their ends. None: a planner would sort."""
    if any(term.field in ELSEWHERE and not term.negated for term in query.terms):
        return None
    for term in query.terms:
        if term.field == "state" and not term.negated and isinstance(term.value, tuple):
            chosen = frozenset(term.value)
            return chosen if chosen <= set(BAD_STATES) or chosen == COMPLETED else None
    return None
