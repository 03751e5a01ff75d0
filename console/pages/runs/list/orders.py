"""The orders of the list of runs as links of its headings, and their words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fabric.selectors.runs.query.grammar import Query
from fabric.selectors.runs.query.orders import Order, list_order_words


@dataclass(frozen=True, slots=True)
class OrderWords:
    """Words of a page for an order."""

    says: str
    first: str
    """The link to its first page."""
    up: str
    down: str


WORDS: Mapping[str, OrderWords] = {
    "-started": OrderWords("the newest first", "Newest", "Newer runs", "Older runs"),
    "started": OrderWords("the oldest first", "Oldest", "Older runs", "Newer runs"),
    "-ended": OrderWords("the last to end first", "Last to end", "Ended later", "Ended earlier"),
    "ended": OrderWords("the first to end first", "First to end", "Ended earlier", "Ended later"),
}
"""The words of each order."""


@dataclass(frozen=True, slots=True)
class Heading:
    """The heading of the column of instants, with links to other orders."""

    word: str
    way: str
    """As ``aria-sort`` has it."""
    icon: str
    turn: str
    turn_says: str
    other: str
    """Words of the other order; empty: there is none."""
    other_href: str
    other_says: str


def build_heading(order: Order, query: Query, address: Callable[[Order], str]) -> Heading:
    """Return the heading of a list in an order. ``address``: that of the list in another one."""
    turned = order.turned()
    other = next((Order(word) for word in list_order_words(query) if word != order.word), None)
    return Heading(
        word=order.word.capitalize(),
        way="descending" if order.falling else "ascending",
        icon="down" if order.falling else "up",
        turn=address(turned),
        turn_says=WORDS[turned.name].says,
        other={"started": "by start", "ended": "by end"}[other.word] if other else "",
        other_href=address(other) if other else "",
        other_says=WORDS[other.name].says if other else "",
    )
