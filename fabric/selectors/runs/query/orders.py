"""The orders of the list of runs. Each is an index's own, so that no page sorts all runs there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from django.db.models import Q, QuerySet

from fabric.core.values.flow import TERMINAL
from fabric.models import Run
from fabric.models.runs.run import BAD_STATES
from fabric.selectors.errors import Refused
from fabric.selectors.list_file import build_cursor_condition
from fabric.selectors.runs.query.grammar import Query

COLUMNS: Mapping[str, str] = {
    "started": "created_at",
    "ended": "ended_at",
    "cost": "final_cost_usd_micros",
    "took": "took_us",
    "tokens": "final_tokens",
}
"""Column of each order, by its word in an address. All but the first have a value for ended runs alone."""


@dataclass(frozen=True, slots=True)
class Order:
    """An order by one column; runs of one value stand by their ids."""

    word: str = "started"
    falling: bool = True
    """True: the largest value first."""

    @property
    def column(self) -> str:
        """Column that it orders by."""
        return COLUMNS[self.word]

    @property
    def name(self) -> str:
        """The order as an address has it."""
        return f"{'-' if self.falling else ''}{self.word}"

    @property
    def of_ended(self) -> bool:
        """True: it leaves out runs that have not ended."""
        return self.word != "started"

    def turned(self) -> Order:
        """Return the order with its other end first."""
        return Order(self.word, not self.falling)

    def sort(self, rows: QuerySet[Run, Any]) -> QuerySet[Run, Any]:
        """The rows in this order. ``match_index`` leaves out those without a value."""
        return rows.order_by(f"-{self.column}", "id") if self.falling else rows.order_by(self.column, "-id")

    def match_beyond(self, cursor: str, side: Literal["before", "after"]) -> Q:
        """Return the condition on runs with smaller (``before``) or larger values than a cursor's. Refused invalid for
        a cursor that is none.
        """
        if side == "before":
            return build_cursor_condition(cursor, f"-{self.column}", field=side)
        return build_cursor_condition(cursor, self.column, ids="lt", field=side)


NEWEST = Order()


def list_order_words(query: Query) -> tuple[str, ...]:
    """Return the words of the orders that a query can have: of live runs alone only the one by start."""
    return tuple(COLUMNS) if _may_have_ended(query) else ("started",)


def read_order(name: str, query: Query) -> Order:
    """The order of an address; the newest first for none. Refused invalid for none of the orders, or one of ended runs
    for a query of live runs.
    """
    order = Order(name.removeprefix("-"), name.startswith("-")) if name else NEWEST
    if order.word not in COLUMNS:
        known = ", ".join(f"{word} or -{word}" for word in COLUMNS)
        raise Refused(f"{name[:60]!r} is no order of runs; write {known}", code="invalid", field="sort")
    if order.word not in list_order_words(query):
        message = f"the order by {order.word} lists ended runs alone, and the query has live ones; write started"
        raise Refused(message, code="invalid", field="sort")
    return order


def match_index(order: Order, query: Query) -> Q:
    """Return the condition on runs with a value in an order. A run that ended badly has one; to state it would keep
    SQLite from the index of such runs.
    """
    states = _find_states(query)
    if not order.of_ended or (order.word == "ended" and states is not None and states <= set(BAD_STATES)):
        return Q()
    return Q(**{f"{order.column}__isnull": False})


def keep_order(name: str, query: Query) -> Order:
    """The order of an address where it serves a query; else the newest first."""
    try:
        return read_order(name, query)
    except Refused:
        return NEWEST


def _may_have_ended(query: Query) -> bool:
    """Return True if an ended run can match."""
    states = _find_states(query)
    waits = any(term.field == "waits" and not term.negated for term in query.terms)
    return not waits and (states is None or not TERMINAL.isdisjoint(states))


def _find_states(query: Query) -> frozenset[str] | None:
    """Return the states that a query names; None: it names none."""
    for term in query.terms:
        if term.field == "state" and not term.negated and isinstance(term.value, tuple):
            return frozenset(term.value)
    return None
