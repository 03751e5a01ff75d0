"""What a text claims that no source bears out, in its sentence, with the passage of the attached documents that is nearest to it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher

from fabric.core.taxonomy import Cause
from fabric.models import Attachment
from fabric.selectors.escalations import EscalationView

CLAIMS_MAX = 2
"""So many of them are shown; all problems are listed beside."""
AROUND = 160
"""Characters of the sentence on either side."""
TEXT_MAX = 200_000
"""Characters of one document that are looked through."""
PASSAGES_MAX = 2_000
NEAR_ENOUGH = 0.3
"""Least likeness of a passage that is shown, 0 to 1."""
_NUMBER = re.compile(r"text: (\S.*?) is in no source")
_QUOTE = re.compile(r'text: "(.+)" stands in no source')
_ENDS = re.compile(r"(?<=[.!?])\s+|\n+")


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim: its sentence in three parts, and the nearest passage."""

    head: str
    mark: str
    tail: str
    document: str = ""
    source: str = ""
    """Empty: nothing in the documents is near."""


def claims_of(item: EscalationView) -> list[Claim]:
    """The claims that grounding refused, where that is why a question is asked. ``item``: as the actor was shown it."""
    shown = item.content.get("payload")
    text = shown.get("text") if isinstance(shown, dict) else None
    if item.content.get("cause") != Cause.GROUNDING or not isinstance(text, str):
        return []
    found: list[Claim] = []
    for problem in item.content.get("problems", ()):
        match = _QUOTE.search(str(problem)) or _NUMBER.search(str(problem))
        at = text.find(match[1]) if match else -1
        if match and at >= 0 and len(found) < CLAIMS_MAX:
            found.append(_claim(item.run_id, text, at, len(match[1])))
    return found


def _claim(run_id: str, text: str, at: int, length: int) -> Claim:
    begins = max((m.end() for m in _ENDS.finditer(text, max(0, at - AROUND), at)), default=max(0, at - AROUND))
    ends = _ENDS.search(text, at + length, at + length + AROUND)
    end = ends.start() if ends else min(len(text), at + length + AROUND)
    document, source = _nearest(run_id, text[begins:end])
    return Claim(text[begins:at], text[at : at + length], text[at + length : end], document, source)


def _nearest(run_id: str, sentence: str) -> tuple[str, str]:
    likeness = SequenceMatcher(autojunk=False)
    likeness.set_seq2(sentence.lower())
    best = (NEAR_ENOUGH, "", "")
    for name, passage in _passages(run_id):
        likeness.set_seq1(passage.lower())
        if likeness.real_quick_ratio() > best[0] and likeness.quick_ratio() > best[0]:
            best = max(best, (likeness.ratio(), name, passage))
    return best[1], best[2]


def _passages(run_id: str) -> Iterator[tuple[str, str]]:
    left = PASSAGES_MAX
    for name, text in Attachment.objects.filter(run_id=run_id).order_by("position").values_list("name", "text"):
        for passage in _ENDS.split(text[:TEXT_MAX]):
            if passage.strip() and left > 0:
                left -= 1
                yield name, passage.strip()[: 2 * AROUND]
