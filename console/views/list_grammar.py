"""The parameters of a list's address: one grammar for every list, and its reader."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Literal, TypeVar
from urllib.parse import urlencode

from django.urls import reverse

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
    "all": ("all there is", None),
}
"""Words of a period, and its days; None: it has no beginning."""


@dataclass(frozen=True, slots=True)
class Field:
    """A parameter that narrows a list."""

    name: str
    """In the address, and of the filter's field."""
    word: str
    """As the form and the chip call it."""
    offered: Words = ()
    """Values to pick, each with its words. Without them the page offers names, or people type."""
    hint: str = ""
    place: Literal["", "search", "more"] = ""
    """In the form: among the others, before them, or behind "More"."""


PERIOD = Field("within", "within", tuple((name, words) for name, (words, _) in PERIODS.items()))


@dataclass(frozen=True, slots=True)
class Shown:
    """A field as the form shows it."""

    field: Field
    value: str
    offered: Words


@dataclass(frozen=True, slots=True)
class Chip:
    """A filter that holds, and the address without it."""

    name: str
    value: str
    without: str


@dataclass(frozen=True, slots=True)
class Grammar(Generic[F]):
    """The parameters that a list takes."""

    route: str
    makes: Callable[..., F]
    fields: tuple[Field, ...]
    usual: str
    """The choice of an address that names none."""
    choice: Field = PERIOD
    """The parameter that every list has: a period, or a tab."""

    def read(self, given: Mapping[str, str]) -> Asked[F]:
        """Reads an address or a form. The first unknown word becomes its problem."""
        values, problem = {}, None
        for field in (self.choice, *self.fields):
            value = str(given.get(field.name, "")).strip()[:CHARS_MAX]
            words = [word for word, _ in field.offered]
            if value and words and value not in words:
                message = f"{value[:40]!r} is not offered for {field.name!r}; offered are: {', '.join(words)[:900]}"
                problem = problem or Refused(message, code="invalid", field=field.name)
            elif value:
                values[field.name] = value
        return Asked(self, values.pop(self.choice.name, self.usual), values, problem)


@dataclass(frozen=True, slots=True)
class Asked(Generic[F]):
    """The parameters that an address or a form gave."""

    grammar: Grammar[F]
    choice: str
    values: Mapping[str, str]
    problem: Refused | None = None

    def wanted(self) -> F:
        """The filter. Refused invalid for a word that is not offered."""
        if self.problem is not None:
            raise self.problem
        return self.grammar.makes(**self.values, **self._since())

    def _since(self) -> Mapping[str, int]:
        if not self.has_period:
            return {}
        days = PERIODS[self.choice][1]
        return {"since": 0 if days is None else time.time_ns() // 1_000 - days * DAY_US}

    @property
    def has_period(self) -> bool:
        """Returns True where the choice is a period."""
        return self.grammar.choice is PERIOD

    @property
    def more_holds(self) -> bool:
        """Returns True where a field behind "More" narrows the list."""
        return any(one.place == "more" and one.name in self.values for one in self.grammar.fields)

    @property
    def period(self) -> str:
        """The choice in words."""
        return dict(self.grammar.choice.offered).get(self.choice, self.choice)

    @property
    def base(self) -> str:
        """The address of the list alone."""
        return reverse(self.grammar.route)

    @property
    def narrowed(self) -> list[tuple[str, str]]:
        """The parameters, without a choice that is the usual one."""
        usual = self.choice == self.grammar.usual
        held = [] if usual else [(self.grammar.choice.name, self.choice)]
        return [*held, *self.values.items()]

    def address(self, route: str = "", **more: str) -> str:
        """The list, or another route that takes the same parameters, with some more."""
        query = urlencode([*self.narrowed, *((name, value) for name, value in more.items() if value)])
        base = reverse(route) if route else self.base
        return f"{base}?{query}" if query else base

    def chosen(self, choice: str) -> str:
        """The address with another choice."""
        return replace(self, choice=choice).address()

    @property
    def first(self) -> str:
        """The address of its first page."""
        return self.address()

    @property
    def clear(self) -> str:
        """The address without filters."""
        return replace(self, values={}).address()

    @property
    def chips(self) -> list[Chip]:
        """The filters that hold, beside the choice."""
        return [
            Chip(
                one.field.word,
                dict(one.offered).get(one.value, one.value),
                self.with_value(one.field.name, "").address(),
            )
            for one in self.form({})
            if one.value
        ]

    def form(self, names: Mapping[str, Sequence[str]]) -> list[Shown]:
        """The fields of the form. ``names``: what the page offers of a field, by the field's name."""
        return [
            Shown(one, self.values.get(one.name, ""), one.offered or [(name, name) for name in names.get(one.name, ())])
            for one in self.grammar.fields
        ]

    def with_value(self, name: str, value: str) -> Asked[F]:
        """The same with another value of one field; empty: without it."""
        kept = {one: kept for one, kept in self.values.items() if one != name}
        return replace(self, values={**kept, name: value} if value else kept)
