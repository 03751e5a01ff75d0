"""Answers for scripted agents without a model: summaries of a text, verdicts and votes.

Verdicts and votes go by the choices of the request and the proposals' words.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from fabric.core.texts.places import drop_marks
from fabric.core.values.units import JSON
from fabric.runtime.ports.calls import ModelRequest

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
"""Words that do not show the subject of a sentence."""


def sentences(text: str) -> list[str]:
    """Return a document's sentences in order, without markup, headings and table rows; without sentences its first
    lines.
    """
    plain = [
        " ".join(_markup.sub("", piece).split())
        for piece in _break.split(drop_marks(text))
        if not piece.lstrip().startswith(("#", "|", "```"))
    ]
    low, high = SENTENCE_CHARS
    found = [piece for piece in plain if low <= len(piece) <= high and piece[-1] in '.!?:”")']
    return found or [line for line in map(_line, drop_marks(text).splitlines()) if line][:3]


def _line(line: str) -> str:
    """Return a line as words: a table's row without its rules, a heading without its marks; empty for a rule."""
    cells = [cell.strip() for cell in _markup.sub("", line).strip("| \t").split("|")]
    return cut(", ".join(cell for cell in cells if cell.strip("-: =")), SENTENCE_CHARS[1])


def quotes(text: str, question: str) -> list[str]:
    """Return the sentences that share most with the question, rare words first, in reading order."""
    found = list(dict.fromkeys(sentences(text)))
    wanted = dict.fromkeys(list_terms(question))
    held = [set(list_terms(sentence)) for sentence in found]
    common = Counter(term for terms in held for term in terms)
    numbers = _asks_for_figures.search(question) is not None

    def score(index: int) -> tuple[float, int]:
        shared = sum(1 / common[term] for term in wanted if term in held[index])
        figure = 0.5 if numbers and any(char.isdigit() for char in found[index]) else 0.0
        return (-shared - figure, index)

    best = sorted(range(len(found)), key=score)[:QUOTES]
    return [f"“{found[index]}”" for index in sorted(best)]


def list_terms(text: str) -> list[str]:
    """Return the words that show the subject of a text, in one case, without a plural's s."""
    words = (word.casefold() for word in _word.findall(text))
    return [
        word[:-1] if len(word) > 3 and word.endswith("s") else word
        for word in words
        if word not in _plain and len(word) > 1
    ]


def shared_words(question: str, text: str) -> list[str]:
    """Return the question's words that the text uses too, as the question writes them."""
    held = set(list_terms(text))
    return list(dict.fromkeys(word for word in _word.findall(question) if held.intersection(list_terms(word))))


def first_line(text: str, limit: int) -> str:
    """Return a text's first line, cut to the limit."""
    return cut(text.strip().partition("\n")[0].strip(), limit)


def cut(text: str, limit: int) -> str:
    """Return the text, or its beginning and dots."""
    return text if len(text) <= limit else text[: limit - 3].rstrip() + "..."


def fit_lines(lines: Sequence[str], room: int) -> list[str]:
    """Return as many lines as fit, at least one."""
    kept, used = [cut(lines[0], room)], len(lines[0])
    for line in lines[1:]:
        used += len(line) + 2
        if used > room:
            break
        kept.append(line)
    return kept


_cited = re.compile(r"\[([^\[\]\n]{1,200})\]$")


def cites(text: str) -> list[str]:
    """Return the documents cited at the ends of paragraphs. Other brackets are the documents' own text."""
    return list(dict.fromkeys(name for paragraph in text.split("\n\n") for name in _cited.findall(paragraph.strip())))


def list_words(names: Sequence[str]) -> str:
    """Return items as a list in words: ``one, two and three``."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


_choices = re.compile(r"^The winner is one of: (.+)\.$", re.MULTILINE)
_said = re.compile(r"\A([a-z][a-z0-9_-]*) said:\n(.*)\Z", re.DOTALL)


def choices_in(request: ModelRequest) -> list[str]:
    """Return the choices of a verdict, by the request."""
    found = [match.group(1) for message in request.messages if (match := _choices.search(message.text))]
    return found[-1].split(", ") if found else []


def verdict(request: ModelRequest, question: str, options: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return a verdict for ``winner``, else for the best proposal; of equals the first.

    The best has a citation in its last proposal, and most words of the question.
    """
    choices = choices_in(request) or ["nobody"]
    said = (match for message in request.messages if (match := _said.match(message.text)))
    last = {match.group(1): match.group(2) for match in said}

    def weight(name: str) -> tuple[bool, int]:
        proposal = last.get(name, "")
        return bool(cites(proposal)), len(_words(question, proposal))

    named = str(options.get("winner", ""))
    winner = named if named in choices else max(choices, key=weight)
    words = _words(question, last.get(winner, ""))
    why = f"{winner} speaks of {list_words(words[:4])}" if words else f"{winner} shows what it rests on"
    others = [name for name in choices if name != winner]
    against = f", and {list_words(others)} of less of what was asked" if others and words else ""
    opening = first_line(last.get(winner, ""), 200)
    text = f"{why}{against}." + (f" It holds: {opening}" if opening else "")
    return {"winner": winner, "text": text, "citations": cites(last.get(winner, ""))}


def _words(question: str, text: str) -> Sequence[str]:
    return shared_words(question, text)
