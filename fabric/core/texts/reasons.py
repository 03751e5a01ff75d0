"""The patterns that no reason may contain. The advice for each cause stands in ``CLASSIFY``
(``values/taxonomy.py``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

NO_SENTENCES: Mapping[str, re.Pattern[str]] = {
    "the letter of a detector": re.compile(r"\bdetector [A-I]\b"),
    "the name of a mechanism in front": re.compile(
        r"^(loop detector|deadlock monitor|no progress|stalled|goal gate|post-gate|pre-gate)\b"
    ),
    "a count of one": re.compile(r"\b1 of 1\b"),
    "money of nothing": re.compile(r"\$0\.0+\b(?!\d)"),
    "a limit that is passed": re.compile(r"would pass the (limit|cap)"),
    "a word of the engine alone": re.compile(r"\b(rung|ladder|parked|inject into)\b"),
    "a token for a sentence": re.compile(r"^[a-z]+(_[a-z]+)+$"),
    "an end before its cause": re.compile(r"^child run \S+ ended as"),
}
"""Patterns that no reason may hold, by the fault of each."""


def why_no_sentence(reason: str) -> str:
    """Return the problem that makes a reason hard to understand; "" if there is none."""
    return next((why for why, pattern in NO_SENTENCES.items() if pattern.search(reason)), "")
