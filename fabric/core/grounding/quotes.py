"""Quotes: each quoted passage must be in its source; whitespace, letter case and typography do not count."""

from __future__ import annotations

import re
import unicodedata

from fabric.core.grounding.sources import CitedPlace, Sources
from fabric.core.texts.places import PlaceMap, drop_marks
from fabric.core.values.frozen import value

WORDS_MIN = 3
"""Fewest words of a passage; shorter quotes are a term or irony."""
SHOWN_CHARS = 80
NEAR_CHARS = 3_000
"""Characters before and behind a cited place that a passage may reach into."""

_QUOTED = re.compile(
    r'"([^"\n]{1,2000})"|“([^“”]{1,2000})”|„([^„“”]{1,2000})[“”]|«\s?([^«»]{1,2000})\s?»|(?m:^[ \t]*>[ \t]?(.{1,2000})$)'
)
_CITED = re.compile(r"[^\[\]\n.!?]{0,80}?[.!?]?\s?\[([^\[\]\n]{1,200})\]")
_OMITTED = re.compile(r"\s*(?:\[(?:\.\.\.|…)\]|\((?:\.\.\.|…)\)|\.\.\.|…)\s*")
_INSERTED = re.compile(r"\[[^\[\]]{0,100}\]")
_PLAIN = str.maketrans(
    {"’": "'", "‘": "'", "“": '"', "”": '"', "„": '"', "–": "-", "—": "-", "−": "-", "‑": "-", "\u00ad": ""}
)
_EDGES = " \t\n.,;:!?\"'-*_`"


def normalise_quote(text: str) -> str:
    """Return a text in the form for comparing passages. It is NFKC in one case, with one kind of quote, dash and blank,
    and no emphasis.
    """
    plain = unicodedata.normalize("NFKC", text).translate(_PLAIN)
    return " ".join(plain.replace("*", "").replace("`", "").split()).casefold()


def passages(text: str) -> list[tuple[str, str]]:
    """Return each quoted passage of three words or more, with the document cited right behind it, or ""."""
    found = []
    for match in _QUOTED.finditer(text):
        passage = next(group for group in match.groups() if group is not None)
        if len(passage.split()) >= WORDS_MIN:
            cited = _CITED.match(text, match.end())
            found.append((passage.strip(), cited[1] if cited else ""))
    return found


def parts(passage: str) -> list[str]:
    """Return the parts of a passage that the source must have, in order. Omissions and words in brackets are
    left out.
    """
    pieces = [piece for given in _OMITTED.split(passage) for piece in _INSERTED.split(given)]
    return [piece for given in pieces if (piece := normalise_quote(given).strip(_EDGES))]


def stands_in(passage: str, source: str) -> bool:
    """Return True if a normalised text has all parts of a passage, one after another."""
    at = 0
    for part in parts(passage):
        found = source.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return True


@value()
class QuoteFinding:
    """A quoted passage, and the result of its search."""

    shown: str
    """The passage, cut where it is long."""
    within: str
    """The document cited behind it; "": every source."""
    found: bool

    def problem(self) -> str:
        """Return the problem as a sentence; "" if the passage was found."""
        where = f"does not stand in {self.within!r}" if self.within else "stands in no source"
        return "" if self.found else f'text: "{self.shown}" {where}'


def check_quotes(text: str, sources: Sources) -> list[QuoteFinding]:
    """Search each quoted passage in the document that is cited behind it; without a citation in every source."""
    found = passages(text)
    if not found:
        return []
    everything = [normalise_quote(one) for one in sources.texts()]
    told = []
    for passage, name in found:
        own = sources.find_cited(name) if name else None
        shown = passage if len(passage) <= SHOWN_CHARS else f"{passage[:SHOWN_CHARS]}..."
        there = any(stands_in(passage, one) for one in everything) if own is None else stands_at(passage, own)
        told.append(QuoteFinding(shown, "" if own is None else name, there))
    return told


def stands_at(passage: str, own: CitedPlace) -> bool:
    """Return True if a passage is in the cited place. It may begin on the page before or end on the page behind, but
    not be there alone.
    """
    span = None if own.place is None else PlaceMap(own.text).span(own.place)
    if span is None:
        return own.place is None and stands_in(passage, normalise_quote(drop_marks(own.text)))
    start, end = span
    before, here, behind = (
        normalise_quote(drop_marks(part))
        for part in (
            own.text[max(0, start - NEAR_CHARS) : start],
            own.text[start:end],
            own.text[end : end + NEAR_CHARS],
        )
    )
    if stands_in(passage, here):
        return True
    elsewhere = stands_in(passage, before) or stands_in(passage, behind)
    return not elsewhere and stands_in(passage, f"{before} {here} {behind}")


def problems(text: str, sources: Sources) -> list[str]:
    """Return a sentence for each quoted passage that is not in its source."""
    return [one.problem() for one in check_quotes(text, sources) if not one.found]
