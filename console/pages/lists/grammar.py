"""Reads the parameters of a list's address by one grammar for every list.

A list is shown with a period, filter chips, pages and exports, as every such page needs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, Protocol, TypeVar
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from console.templatetags.figures import moment
from fabric.selectors.database_time import TookTooLong
from fabric.selectors.errors import Refused

DAY_US = 86_400 * 1_000_000
CHARS_MAX = 200
F = TypeVar("F")
Words = Sequence[tuple[str, str]]
PERIODS: Mapping[str, tuple[str, int | None]] = {
    "1d": ("the last day", 1),
    "7d": ("the last 7 days", 7),
    "30d": ("the last 30 days", 30),
    "90d": ("the last 90 days", 90),
    "365d": ("the last year", 365),
    "all": ("all time", None),
}
"""Words of a period, and its days; None: unlimited."""


@dataclass(frozen=True, slots=True)
class ListField:
    """A parameter that narrows a list."""

    name: str
    """Name in the address, and of the filter's field."""
    word: str
    """Label in the form and on the chip."""
    offered: Words = ()
    """Values to pick, each with its words. Without them the page offers names, or a text field."""
    hint: str = ""
    place: Literal["", "search", "more"] = ""
    """Place in the form: among the others, before them, or behind "More"."""


PERIOD = ListField("within", "within", tuple((name, words) for name, (words, _) in PERIODS.items()))


@dataclass(frozen=True, slots=True)
class ShownField:
    """A field as the form shows it."""

    field: ListField
    value: str
    offered: Words


@dataclass(frozen=True, slots=True)
class FilterChip:
    """An active filter, and the address without it."""

    name: str
    value: str
    without: str


@dataclass(frozen=True, slots=True)
class Grammar(Generic[F]):
    """Parameters of a list's address."""

    route: str
    makes: Callable[..., F]
    fields: tuple[ListField, ...]
    usual: str
    """Default choice."""
    choice: ListField = PERIOD
    """The parameter that every list has: a period, or a tab."""

    def read(self, given: Mapping[str, str]) -> ListRequest[F]:
        """Parse an address or a form. The first unknown word becomes its problem."""
        values, problem = {}, None
        for field in (self.choice, *self.fields):
            value = str(given.get(field.name, "")).strip()[:CHARS_MAX]
            words = [word for word, _ in field.offered]
            if value and words and value not in words:
                message = f"{value[:40]!r} is not offered for {field.name!r}; offered are: {', '.join(words)[:900]}"
                problem = problem or Refused(message, code="invalid", field=field.name)
            elif value:
                values[field.name] = value
        return ListRequest(self, values.pop(self.choice.name, self.usual), values, problem)


@dataclass(frozen=True, slots=True)
class ListRequest(Generic[F]):
    """The parameters that an address or a form gave."""

    grammar: Grammar[F]
    choice: str
    values: Mapping[str, str]
    problem: Refused | None = None

    def read_filter(self) -> F:
        """Return the filter. Raises Refused invalid for a word that is not offered."""
        if self.problem is not None:
            raise self.problem
        return self.grammar.makes(**self.values, **self._read_since())

    def _read_since(self) -> Mapping[str, int]:
        if not self.has_period:
            return {}
        days = PERIODS[self.choice][1]
        return {"since": 0 if days is None else time.time_ns() // 1_000 - days * DAY_US}

    @property
    def has_period(self) -> bool:
        """Return True if the choice is a period."""
        return self.grammar.choice is PERIOD

    @property
    def more_holds(self) -> bool:
        """Return True if a field behind "More" is set."""
        return any(one.place == "more" and one.name in self.values for one in self.grammar.fields)

    @property
    def period(self) -> str:
        """Return the choice in words."""
        return dict(self.grammar.choice.offered).get(self.choice, self.choice)

    @property
    def base(self) -> str:
        """Return the address of the list alone."""
        return reverse(self.grammar.route)

    @property
    def chosen_parameters(self) -> list[tuple[str, str]]:
        """Return the parameters, without the default choice."""
        usual = self.choice == self.grammar.usual
        held = [] if usual else [(self.grammar.choice.name, self.choice)]
        return [*held, *self.values.items()]

    def address(self, route: str = "", **more: str) -> str:
        """Return the address of the list, or of another route with the list's parameters, with more parameters."""
        query = urlencode([*self.chosen_parameters, *((name, value) for name, value in more.items() if value)])
        base = reverse(route) if route else self.base
        return f"{base}?{query}" if query else base

    def choice_address(self, choice: str) -> str:
        """Return the address with another choice."""
        return replace(self, choice=choice).address()

    @property
    def first(self) -> str:
        """Return the address of its first page."""
        return self.address()

    @property
    def clear(self) -> str:
        """Return the address without filters."""
        return replace(self, values={}).address()

    @property
    def chips(self) -> list[FilterChip]:
        """Return the active filters as chips, without the tab."""
        return [
            FilterChip(
                one.field.word,
                dict(one.offered).get(one.value, one.value),
                self.with_value(one.field.name, "").address(),
            )
            for one in self.form({})
            if one.value
        ]

    def form(self, names: Mapping[str, Sequence[str]]) -> list[ShownField]:
        """Return the fields of the form. ``names``: values offered for a field, by its name."""
        return [
            ShownField(
                one, self.values.get(one.name, ""), one.offered or [(name, name) for name in names.get(one.name, ())]
            )
            for one in self.grammar.fields
        ]

    def with_value(self, name: str, value: str) -> ListRequest[F]:
        """Return a copy with another value of one field; an empty value removes the field."""
        kept = {one: kept for one, kept in self.values.items() if one != name}
        return replace(self, values={**kept, name: value} if value else kept)


ROWS = 50


class Page(Protocol):
    """A page of a list."""

    @property
    def next(self) -> str:
        """Return the cursor of the next page; empty: this is the last."""


P = TypeVar("P", bound=Page)


def list_page(
    request: HttpRequest,
    grammar: Grammar[F],
    template: str,
    *,
    page_of: Callable[[ListRequest[F], str], P],
    beside: Callable[[ListRequest[F], P, str], Mapping[str, Any]],
    shown: Mapping[str, Any],
    names: Mapping[str, Sequence[str]] | None = None,
) -> HttpResponse:
    """Return the page of a list. 422: an unknown word or cursor. 503: the database took too long.

    ``page_of`` reads the rows after a cursor; ``beside`` returns the context for them. ``names``: choices of the form
    that the grammar does not know.
    """
    asked, after, now = grammar.read(request.GET), request.GET.get("after", ""), time.time_ns() // 1_000
    known = {
        **shown,
        "asked": asked,
        "fields": asked.form(names or {}),
        "after": after,
        "refresh": asked.address(after=after),
        "now_ms": now // 1_000,
        "as_of": f"{moment(now):%H:%M:%S} UTC, reload",
    }
    try:
        page = page_of(asked, after)
        more = asked.address(after=page.next) if page.next else ""
        return render(request, template, known | {"more": more} | dict(beside(asked, page, after)))
    except TookTooLong as refusal:
        return render(request, template, known | {"slow": str(refusal)}, status=503)
    except Refused as refusal:
        if refusal.code != "invalid":
            raise
        return render(request, template, known | {"problem": refusal.message}, status=422)
