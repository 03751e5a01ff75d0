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
    "-cost": OrderWords("ended runs, the dearest first", "Dearest", "Dearer runs", "Cheaper runs"),
    "cost": OrderWords("ended runs, the cheapest first", "Cheapest", "Cheaper runs", "Dearer runs"),
    "-tokens": OrderWords("ended runs, the most tokens first", "Most tokens", "More tokens", "Fewer tokens"),
    "tokens": OrderWords("ended runs, the fewest tokens first", "Fewest tokens", "Fewer tokens", "More tokens"),
    "-took": OrderWords("ended runs, the longest first", "Longest", "Longer runs", "Shorter runs"),
    "took": OrderWords("ended runs, the shortest first", "Shortest", "Shorter runs", "Longer runs"),
}
"""The words of each order."""


@dataclass(frozen=True, slots=True)
class SortLink:
    """A word of a heading that orders the list; pressed again, it turns the order around."""

    word: str
    href: str
    """Empty: the query cannot have this order."""
    says: str
    icon: str = ""
    """Way of the present order; empty: the list has another one."""


@dataclass(frozen=True, slots=True)
class Headings:
    """The headings that order the list: of the instants and durations, of the cost, and of the tokens."""

    instant: SortLink
    """Shown instant: the start, or the end in the order by it."""
    took: SortLink
    other: SortLink
    """The other instant."""
    cost: SortLink
    tokens: SortLink
    instants_way: str
    """As ``aria-sort`` has it; empty: the list is ordered by another column."""
    cost_way: str
    tokens_way: str


def build_headings(order: Order, query: Query, address: Callable[[Order], str]) -> Headings:
    """Return the headings of a list in an order. ``address``: that of the list in another one."""
    words = list_order_words(query)

    def link(word: str, label: str) -> SortLink:
        here = word == order.word
        to = order.turned() if here else Order(word)
        icon = ("down" if order.falling else "up") if here else ""
        return SortLink(label, address(to) if word in words else "", WORDS[to.name].says, icon)

    instant, other = ("ended", "started") if order.word == "ended" else ("started", "ended")
    way = "descending" if order.falling else "ascending"
    return Headings(
        instant=link(instant, instant.capitalize()),
        took=link("took", "took"),
        other=link(other, {"started": "by start", "ended": "by end"}[other]),
        cost=link("cost", "Cost"),
        tokens=link("tokens", "Tokens"),
        instants_way="" if order.word in ("cost", "tokens") else way,
        cost_way=way if order.word == "cost" else "",
        tokens_way=way if order.word == "tokens" else "",
    )
