"""Saying briefly what a text says, in its own sentences: how the scripted agents answer without a model."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from fabric.core.places import without_marks

QUOTES = 2
"""Sentences quoted of one text."""
SENTENCE_CHARS = (25, 320)
"""The shortest and longest sentence that is quoted."""

_break = re.compile(r"(?<=[.!?])\s+(?=[\"'“(]?[A-Z0-9])|\n(?=\s*(?:[-*|#>]|\d+[.)]\s))|\n\s*\n")
_markup = re.compile(r"^\s*(?:#{1,6}|[-*>]|\d+[.)])\s+|\*{1,3}|`")
_word = re.compile(r"\w+")
_asks_for_figures = re.compile(r"\d|\b(numbers?|figures?|how (much|many)|costs?|per ?cent)\b", re.IGNORECASE)
_plain = frozenset(
    re.findall(
        r"\w+",
        "a about all an and are as at be by can do each for from has have how in into is it its more not of on one or our that the their "
        "them these they this to many much happen happens was were what when which who will with you your",
    )
)
"""Words that say nothing of what a sentence is about."""


def sentences(text: str) -> list[str]:
    """A document's sentences in order, without markup, headings and table rows; its first lines when it has no sentence."""
    plain = [
        " ".join(_markup.sub("", piece).split())
        for piece in _break.split(without_marks(text))
        if not piece.lstrip().startswith(("#", "|", "```"))
    ]
    low, high = SENTENCE_CHARS
    found = [piece for piece in plain if low <= len(piece) <= high and piece[-1] in '.!?:”")']
    return found or [line for line in map(_line, without_marks(text).splitlines()) if line][:3]


def _line(line: str) -> str:
    """A line as words: a table's row without its rules, a heading without its marks; empty for a rule."""
    cells = [cell.strip() for cell in _markup.sub("", line).strip("| \t").split("|")]
    return cut(", ".join(cell for cell in cells if cell.strip("-: =")), SENTENCE_CHARS[1])


def quotes(text: str, question: str) -> list[str]:
    """The sentences that share most with the question, rare words first, in reading order."""
    found = list(dict.fromkeys(sentences(text)))
    wanted = dict.fromkeys(terms_of(question))
    held = [set(terms_of(sentence)) for sentence in found]
    common = Counter(term for terms in held for term in terms)
    numbers = _asks_for_figures.search(question) is not None

    def score(index: int) -> tuple[float, int]:
        shared = sum(1 / common[term] for term in wanted if term in held[index])
        figure = 0.5 if numbers and any(char.isdigit() for char in found[index]) else 0.0
        return (-shared - figure, index)

    best = sorted(range(len(found)), key=score)[:QUOTES]
    return [f"“{found[index]}”" for index in sorted(best)]


def terms_of(text: str) -> list[str]:
    """The words that say what a text is about, in one case, a plural's s taken off."""
    words = (word.casefold() for word in _word.findall(text))
    return [
        word[:-1] if len(word) > 3 and word.endswith("s") else word
        for word in words
        if word not in _plain and len(word) > 1
    ]


def shared_words(question: str, text: str) -> list[str]:
    """The question's words that the text uses too, as the question writes them."""
    held = set(terms_of(text))
    return list(dict.fromkeys(word for word in _word.findall(question) if held.intersection(terms_of(word))))


def first_line(text: str, limit: int) -> str:
    """A text's first line, cut to the limit."""
    return cut(text.strip().partition("\n")[0].strip(), limit)


def cut(text: str, limit: int) -> str:
    """The text, or its beginning and dots."""
    return text if len(text) <= limit else text[: limit - 3].rstrip() + "..."


def fitting(lines: Sequence[str], room: int) -> list[str]:
    """As many lines as fit, at least one."""
    kept, used = [cut(lines[0], room)], len(lines[0])
    for line in lines[1:]:
        used += len(line) + 2
        if used > room:
            break
        kept.append(line)
    return kept


_cited = re.compile(r"\[([^\[\]\n]{1,200})\]$")


def cites(text: str) -> list[str]:
    """The documents that paragraphs rest on: named at their ends. What else stands in brackets is the documents' own text."""
    return list(dict.fromkeys(name for paragraph in text.split("\n\n") for name in _cited.findall(paragraph.strip())))


def listing(names: Sequence[str]) -> str:
    """One, two and three."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
