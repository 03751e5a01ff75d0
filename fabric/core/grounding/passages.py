"""Chooses passages of a document for a critic whose prompt is too small for the whole. Quoted passages come first, then
those nearest to the claims.

Deterministic: equal text, answer and limit give equal passages, so that a verdict can be compared with its material.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from fabric.core.grounding import quotes
from fabric.core.texts.places import cited_place, drop_marks
from fabric.core.values.frozen import value

PASSAGE_CHARS = 400
"""Most characters of one passage, if there is a blank within them."""
GAP = "\n[...]\n"
"""Mark between two passages, and where the text goes on."""
WORD_CHARS = 3
"""Fewest characters of a word that counts for a passage's subject; numbers count too."""

_WORD = re.compile(r"\w+")
_END = re.compile(r"(?<=[.!?])\s+|\n\s*\n\s*")
Span = tuple[int, int]


@value()
class ChosenPassages:
    """Passages chosen of one document: ``spans`` of its text in order, and the quoted passages that did not fit."""

    spans: tuple[Span, ...]
    without: tuple[str, ...] = ()


def choose_passages(text: str, answer: str, quoted: Sequence[str], limit: int) -> ChosenPassages:
    """Return at most ``limit`` characters of ``text``, as ``passages_text`` writes them. Passages with the words of
    ``quoted`` come first, then the nearest to ``answer``, then the beginning.
    """
    if len(text) <= limit:
        return ChosenPassages(((0, len(text)),))
    spans = list(_passages(text))
    held = _quoted_in(text, spans, quoted)
    taken: set[int] = set()
    room, without = limit - len(GAP), []
    for passage, where in zip(quoted, held, strict=True):
        fits = _take(spans, where, taken, room)
        if fits is None:
            without.append(passage)
        else:
            room = fits
    claimed = _words(answer)
    near = sorted(range(len(spans)), key=lambda n: (-len(claimed & _words(text[slice(*spans[n])])), n))
    for n in near:
        fits = _take(spans, (n,), taken, room)
        room = room if fits is None else fits
    return ChosenPassages(_join(spans, sorted(taken)), tuple(without))


def passages_text(text: str, spans: Sequence[Span]) -> str:
    """Return the chosen passages for a prompt, with a mark at each omission."""
    if not spans:
        return GAP.strip("\n") if text else ""
    before, after = spans[0][0] > 0, spans[-1][1] < len(text)
    told = GAP.join(text[start:end] for start, end in spans)
    return f"{GAP.lstrip() if before else ''}{told}{GAP.rstrip() if after else ''}"


def places(answer: str, documents: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the quoted passages of an answer by the document to search. That is the document cited behind it, or the
    first that contains it.
    """
    found: dict[str, list[str]] = {name: [] for name, _ in documents}
    plain = {name: quotes.normalise_quote(drop_marks(text)) for name, text in documents}
    for passage, citation in quotes.passages(answer):
        own = cited_place(citation, plain)
        names = list(plain) if own is None else [own[0]]
        at = next((name for name in names if quotes.stands_in(passage, plain[name])), None)
        if at is not None:
            found[at].append(passage)
    return found


def _take(spans: Sequence[Span], which: Sequence[int], taken: set[int], room: int) -> int | None:
    """Take these passages; return the room left then, or None if it is too small for all of them."""
    fresh = [n for n in which if n not in taken]
    left = room - sum(spans[n][1] - spans[n][0] + len(GAP) for n in fresh)
    if left < 0:
        return None
    taken.update(fresh)
    return left


def _passages(text: str) -> Iterator[Span]:
    """Yield the text in passages: sentences of one paragraph, as long as they fit. A sentence that is too long is cut
    at a blank.
    """
    start = 0
    ends = [*((m.start(), m.end()) for m in _END.finditer(text)), (len(text), len(text))]
    last: Span | None = None
    for end, following in ends:
        if last is not None and end - start > PASSAGE_CHARS:
            yield start, last[0]
            start, last = last[1], None
        while end - start > PASSAGE_CHARS:
            cut = text.rfind(" ", start + 1, start + PASSAGE_CHARS)
            cut = cut if cut > start else start + PASSAGE_CHARS
            yield start, cut
            start = cut + (text[cut] == " ")
        last = (end, following)
        if "\n" in text[end:following] and end > start:
            yield start, end
            start, last = following, None
    if start < len(text):
        yield start, len(text)


def _quoted_in(text: str, spans: Sequence[Span], quoted: Sequence[str]) -> list[tuple[int, ...]]:
    """Return, for each quoted passage, the passages of the text that contain it; none where it spans a cut."""
    if not quoted:
        return []
    starts, plain, at = [], [], 0
    for start, end in spans:
        one = quotes.normalise_quote(drop_marks(text[start:end]))
        starts.append(at)
        plain.append(one)
        at += len(one) + 1
    whole = " ".join(plain)
    found = []
    for passage in quoted:
        which: set[int] = set()
        begin = 0
        for part in quotes.parts(passage):
            place = whole.find(part, begin)
            if place < 0:
                break
            begin = place + len(part)
            which.update(range(bisect_right(starts, place) - 1, bisect_right(starts, begin - 1)))
        found.append(tuple(sorted(which)))
    return found


def _words(text: str) -> set[str]:
    return {word for word in _WORD.findall(text.casefold()) if len(word) >= WORD_CHARS or word.isdigit()}


def _join(spans: Sequence[Span], which: Sequence[int]) -> tuple[Span, ...]:
    """Join passages whose gap is no longer than a mark."""
    found: list[Span] = []
    for n in which:
        start, end = spans[n]
        if found and start - found[-1][1] <= len(GAP):
            found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
    return tuple(found)
