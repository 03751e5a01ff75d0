"""Lists sources that an answer may cite: the request, the attached documents, tools' answers, calculations.

A citation names an attached document and, where it names a place, one that the document has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fabric.core.texts.places import Place, PlaceMap, cited_place, drop_marks
from fabric.core.values.frozen import value
from fabric.core.values.units import JSON

DEPTH_MAX = 100


@value()
class Calculation:
    """A journaled call of the calculator: its expression and its result, as text."""

    expression: str
    result: str


@value()
class CitedPlace:
    """A cited document: its text with marks, and the place; None: all of it."""

    name: str
    text: str
    place: Place | None = None

    def missing(self) -> bool:
        """Return True if the document has no such place."""
        return self.place is not None and PlaceMap(self.text).span(self.place) is None


@value(kw_only=True)
class Sources:
    """Sources of one run, as far as its current epoch got."""

    request: str = ""
    documents: tuple[tuple[str, str], ...] = ()
    """Name and text of each attached document."""
    results: tuple[JSON, ...] = ()
    """Tools' answers without the calculator's, and the outputs of child runs, whose tools' answers are behind them."""
    calculations: tuple[Calculation, ...] = ()
    """Calculations in the order of the calls."""

    def texts(self) -> tuple[str, ...]:
        """Return all texts in the sources, without calculations."""
        told = tuple("\n".join(_texts(result, 0)) for result in self.results)
        return (self.request, *(drop_marks(text) for _, text in self.documents), *told)

    def find_cited(self, citation: str) -> CitedPlace | None:
        """Return the document that a citation names, with the place; None when no document has that name."""
        found = cited_place(citation, [name for name, _ in self.documents])
        if found is None:
            return None
        name, place = found
        return CitedPlace(name, next(text for known, text in self.documents if known == name), place)


def _texts(given: JSON, depth: int) -> Iterator[str]:
    """Yield the texts of a result, keys too, since an answer may name a table's keys."""
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


def problem(citation: str, names: Sequence[str], sources: Sources | None) -> str:
    """Return the problem of a citation, in a sentence; "" if there is none. Without ``sources`` places are not
    checked, since the texts were not read.
    """
    if cited_place(citation, names) is None:
        return f"citations: no document is named {citation!r}"
    own = None if sources is None else sources.find_cited(citation)
    if own is not None and own.missing():
        return f"citations: {own.name!r} has no {own.place}"
    return ""
