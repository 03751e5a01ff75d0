"""Tools that read and search the documents of a run. Both depend on the documents and the arguments alone."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fabric.core.texts.places import PlaceMap, cited_place
from fabric.core.values.units import JSON
from fabric.runtime.ports.journal import Document
from fabric.tools.answers.outcome import ToolError

READ_CHARS = 20_000
"""Default and largest number of characters that are read."""
PASSAGE_CHARS = 700
RESULTS_MAX = 20
K1, B = 1.5, 0.75
"""Okapi BM25's usual constants: saturation of repetitions, and weight of a passage's length."""

READ_PARAMETERS: Mapping[str, JSON] = {
    "type": "object",
    "properties": {
        "name": {
            "type": "string",
            "minLength": 1,
            "maxLength": 300,
            "description": "Name of the document, as the prompt lists it.",
        },
        "start": {
            "type": "integer",
            "minimum": 0,
            "description": "Position of the first character to read, from 0; default 0.",
        },
        "length": {
            "type": "integer",
            "minimum": 1,
            "maximum": READ_CHARS,
            "description": "Number of characters to read; default 20000.",
        },
        "place": {
            "type": "string",
            "maxLength": 150,
            "description": "Page, sheet or row to begin at, such as page 3, sheet Budget, or sheet Budget, row 12. start then counts from there.",
        },
    },
    "required": ["name"],
    "additionalProperties": False,
}
READ_DESCRIPTION = (
    "Reads an attached document by its name, up to 20,000 characters at a time from `start` or from a page, sheet or row. "
    "Cite the text in the form that the result gives in `cite`."
)

SEARCH_PARAMETERS: Mapping[str, JSON] = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "minLength": 1, "maxLength": 500, "description": "Words to search for."},
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": RESULTS_MAX,
            "description": "Largest number of passages to return; default 5.",
        },
    },
    "required": ["query"],
    "additionalProperties": False,
}
SEARCH_DESCRIPTION = "Searches the attached documents and returns the passages that match the words best. Each has the name of its document, and in `cite` the form in which to cite it."

_word = re.compile(r"\w+")
_paragraph = re.compile(r"\n[ \t]*\n")
_sentence_end = re.compile(r"[.!?](?=\s)|\n")


@dataclass(frozen=True, slots=True)
class DocumentPassage:
    """A part of a document, at most ``PASSAGE_CHARS`` long. ``start`` is a character of the document."""

    name: str
    start: int
    text: str


def read_document(
    documents: Sequence[Document], name: str, start: int = 0, length: int = READ_CHARS, place: str = ""
) -> dict[str, JSON]:
    """Return ``{"name", "text", "start", "total", "more"}``: part of a document, with ``cite`` and ``header`` where
    it has places.

    Raises ToolError for an unknown name or place.
    """
    found = next((document for document in documents if document.name == name), None)
    if found is None:
        alike = [document for document in documents if document.name.casefold() == name.casefold()]
        if len(alike) != 1:
            raise ToolError(f"no document is named {name[:100]!r}; {_list_names(documents)}")
        found = alike[0]
    of = PlaceMap(found.text)
    if place:
        start = _place_start(found.name, of, place) + start
    if start > len(found.text):
        raise ToolError(f"{found.name} has {len(found.text)} characters; start is {start}")
    text = found.text[start : start + min(length, READ_CHARS)]
    end = start + len(text)
    excerpt = {
        "name": found.name,
        "text": text,
        "start": start,
        "total": len(found.text),
        "more": end < len(found.text),
    }
    return excerpt | _where(found.name, of, start)


def search_documents(documents: Sequence[Document], query: str, limit: int = 5) -> dict[str, JSON]:
    """Return ``{"query", "results": [{"name", "start", "text", "score"}]}``, the best first; equal scores in reading
    order.

    A result of a document with places also has ``cite``, its citation, and one from the middle of a table ``header``,
    its first row.
    """
    wanted = list(dict.fromkeys(_terms(query)))
    if not wanted:
        raise ToolError(f"{query[:100]!r} has no word to look for")
    if not documents:
        raise ToolError(_list_names(documents))
    passages = [passage for document in documents for passage in list_passages(document)]
    ranked = sorted(_score_passages(passages, wanted), key=lambda pair: (-pair[0], pair[1]))[:limit]
    found = [(passages[n], score) for score, n in ranked]
    named = {one.name for one, _ in found}
    maps = {document.name: PlaceMap(document.text) for document in documents if document.name in named}
    results = [
        {"name": one.name, "start": one.start, "text": one.text, "score": score}
        | _where(one.name, maps[one.name], one.start)
        for one, score in found
    ]
    return {"query": query, "results": results}


def _place_start(name: str, of: PlaceMap, place: str) -> int:
    """Return the first character of a place of a document. Raises ToolError for an unknown one."""
    named = cited_place(f"{name}, {place}", (name,))
    span = None if named is None or named[1] is None else of.span(named[1])
    if span is None:
        kinds = (
            ("page", f"page 1 to page {of.pages}", of.pages),
            ("sheet", f"sheet {', sheet '.join(of.sheets)}", len(of.sheets)),
        )
        there = next(
            (words for _, words, count in kinds if count), f"row 1 to row {of.rows}" if of.rows else "no places"
        )
        raise ToolError(f"{name} has no {place[:100]!r}; it has {there}")
    return span[0]


def _where(name: str, of: PlaceMap, start: int) -> dict[str, JSON]:
    """Return the citation of the place at a character, and the header of its table. A text without places gives
    nothing.
    """
    place, header = of.find_place(start), of.header(start)
    return ({"cite": f"{name}, {place}"} if place else {}) | ({"header": header} if header else {})


def list_passages(document: Document) -> Iterator[DocumentPassage]:
    """Yield the document's paragraphs in order, long ones cut at sentence ends."""
    position = 0
    bounds = [found.span() for found in _paragraph.finditer(document.text)]
    for end, following in [*bounds, (len(document.text), len(document.text))]:
        yield from _cut(document, position, end)
        position = following


def _cut(document: Document, start: int, end: int) -> Iterator[DocumentPassage]:
    text = document.text
    while start < end:
        while start < end and text[start].isspace():
            start += 1
        stop = min(end, start + PASSAGE_CHARS)
        if stop < end:
            ends = [found.end() for found in _sentence_end.finditer(text, start, stop)]
            # A paragraph without a sentence end is cut at a blank; without a blank, where it must be.
            stop = ends[-1] if ends else (text.rfind(" ", start + 1, stop) if " " in text[start + 1 : stop] else stop)
        if piece := text[start:stop].rstrip():
            yield DocumentPassage(document.name, start, piece)
        start = stop


def _score_passages(passages: Sequence[DocumentPassage], wanted: Sequence[str]) -> Iterator[tuple[float, int]]:
    counts = [Counter(_terms(passage.text)) for passage in passages]
    lengths = [count.total() for count in counts]
    average = (sum(lengths) / len(lengths) if lengths else 0) or 1
    holding = {term: sum(term in count for count in counts) for term in wanted}
    for n, count in enumerate(counts):
        score = 0.0
        for term in wanted:
            if times := count[term]:
                rarity = math.log(1 + (len(passages) - holding[term] + 0.5) / (holding[term] + 0.5))
                score += rarity * times * (K1 + 1) / (times + K1 * (1 - B + B * lengths[n] / average))
        if score > 0:
            yield round(score, 3), n


def _terms(text: str) -> list[str]:
    """Return words in one case without a plural's s: enough for "results" to find "result"."""
    words = (word.casefold() for word in _word.findall(text))
    return [word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word for word in words]


def _list_names(documents: Sequence[Document]) -> str:
    names = ", ".join(document.name for document in documents)
    return f"attached are: {names}" if names else "no document is attached to this run"
