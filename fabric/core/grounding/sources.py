"""What an answer may rest on: the request, the attached documents, what tools answered, what was calculated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fabric.core.frozen import value
from fabric.core.places import Map, Place, cited, without_marks

JSON = Any
DEPTH_MAX = 100


@value()
class Calculation:
    """A journaled call of the calculator: what it was asked and what it answered, as text."""

    expression: str
    result: str


@value()
class Cited:
    """A document as it is cited: its text with marks, and the place; None: all of it."""

    name: str
    text: str
    place: Place | None = None

    def missing(self) -> bool:
        """Returns True where the document has no such place."""
        return self.place is not None and Map(self.text).span(self.place) is None


@value(kw_only=True)
class Sources:
    """All of one run, as far as its current epoch got."""

    request: str = ""
    documents: tuple[tuple[str, str], ...] = ()
    """Name and text of each attached document."""
    results: tuple[JSON, ...] = ()
    """What tools answered, the calculator apart; and what child runs handed up, whose tools answered them."""
    calculations: tuple[Calculation, ...] = ()
    """In the order of the calls."""

    def texts(self) -> tuple[str, ...]:
        """Everything in it that reads as text, calculations apart."""
        told = tuple("\n".join(_texts(result, 0)) for result in self.results)
        return (self.request, *(without_marks(text) for _, text in self.documents), *told)

    def cited(self, citation: str) -> Cited | None:
        """The document that a citation names, with the place; None when no document has that name."""
        found = cited(citation, [name for name, _ in self.documents])
        if found is None:
            return None
        name, place = found
        return Cited(name, next(text for known, text in self.documents if known == name), place)


def _texts(given: JSON, depth: int) -> Iterator[str]:
    """What stands in a result, text by text: keys as well, for a table's may be what is spoken of."""
    if isinstance(given, str):
        yield given
    elif isinstance(given, bool) or given is None or depth > DEPTH_MAX:
        return
    elif isinstance(given, int | float):
        yield str(given)
    elif isinstance(given, dict):
        for key, item in given.items():
            yield str(key)
            yield from _texts(item, depth + 1)
    elif isinstance(given, list | tuple):
        for item in given:
            yield from _texts(item, depth + 1)
