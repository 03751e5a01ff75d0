"""Quotes: each quoted passage stands in its source, whitespace, letter case and typography aside."""

from __future__ import annotations

import re
import unicodedata

from fabric.core.frozen import value
from fabric.core.grounding.sources import Cited, Sources
from fabric.core.places import Map, without_marks

WORDS_MIN = 3
"""What is shorter is a term or irony, no passage."""
SHOWN_CHARS = 80
PASSAGE_MAX = 2_000
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


def normalised(text: str) -> str:
    """A text as passages are compared: NFKC, one kind of quote and dash, no emphasis, single blanks, no letter case."""
    plain = unicodedata.normalize("NFKC", text).translate(_PLAIN)
    return " ".join(plain.replace("*", "").replace("`", "").split()).casefold()


def passages(text: str) -> list[tuple[str, str]]:
    """Each quoted passage of three words or more, with the name of the document cited right behind it in its sentence, or an empty one."""
    found = []
    for match in _QUOTED.finditer(text):
        passage = next(group for group in match.groups() if group is not None)
        if len(passage.split()) >= WORDS_MIN:
            cited = _CITED.match(text, match.end())
            found.append((passage.strip(), cited[1] if cited else ""))
    return found


def parts(passage: str) -> list[str]:
    """What has to stand in the source, in this order: the passage without what was left out, and without the quoting author's own words in brackets."""
    pieces = [piece for given in _OMITTED.split(passage) for piece in _INSERTED.split(given)]
    return [piece for given in pieces if (piece := normalised(given).strip(_EDGES))]


def stands_in(passage: str, source: str) -> bool:
    """Whether all parts of a passage stand in a normalised text, one behind the other."""
    at = 0
    for part in parts(passage):
        found = source.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return True


@value()
class Looked:
    """A quoted passage, and whether it stands where it was looked for."""

    shown: str
    """The passage, cut where it is long."""
    within: str
    """The document cited behind it; empty: every source."""
    found: bool

    def problem(self) -> str:
        """As a sentence; empty where it was found."""
        where = f"does not stand in {self.within!r}" if self.within else "stands in no source"
        return "" if self.found else f'text: "{self.shown}" {where}'


def looked(text: str, sources: Sources) -> list[Looked]:
    """Each quoted passage, looked for in the document that is cited behind it; in every source, where none is."""
    found = passages(text)
    if not found:
        return []
    everything = [normalised(one) for one in sources.texts()]
    told = []
    for passage, name in found:
        own = sources.cited(name) if name else None
        shown = passage if len(passage) <= SHOWN_CHARS else f"{passage[:SHOWN_CHARS]}..."
        there = any(stands_in(passage, one) for one in everything) if own is None else stands_at(passage, own)
        told.append(Looked(shown, "" if own is None else name, there))
    return told


def stands_at(passage: str, own: Cited) -> bool:
    """Returns True where a passage stands in the cited place. It may begin on the page before or end on the page behind, but not stand there alone."""
    span = None if own.place is None else Map(own.text).span(own.place)
    if span is None:
        return own.place is None and stands_in(passage, normalised(without_marks(own.text)))
    start, end = span
    before, here, behind = (
        normalised(without_marks(part))
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
    """A sentence for each quoted passage that does not stand in its source."""
    return [one.problem() for one in looked(text, sources) if not one.found]
