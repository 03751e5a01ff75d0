"""Separates a model's answer from the thinking that leaked into it.

Servers without a reasoning parser leave a model's thinking in the content, between its marks.
Where the chat template wrote the opening mark into the prompt, only the closing mark stands there.
(vLLM, "Reasoning Outputs"; llama.cpp, ``--reasoning-format``)
"""

from __future__ import annotations

import re
from bisect import bisect_right

MARKS: tuple[tuple[str, str], ...] = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|channel|>analysis<|message|>", "<|channel|>final<|message|>"),
)
"""The marks with which models open and close their thinking."""
_OPENING = tuple(opens for opens, _ in MARKS)

_code = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|\"(?:[^\"\\\n]|\\.)*\"", re.DOTALL)
"""Code and quoted text, in which a mark is a word like any other."""


def split_thinking(text: str) -> tuple[str, str]:
    """The answer and the thinking in a model's text; the answer is empty where all of it is thinking, the thinking where none is."""
    thinking: list[str] = []
    rest = text
    while (found := _leading(rest) or _closing(rest)) is not None:
        thought, rest = found
        thinking.append(thought.strip())
    return (rest.strip(), "\n".join(thinking)) if thinking else (text, "")


def _leading(text: str) -> tuple[str, str] | None:
    """Thinking that opens the text, and what follows it."""
    start = text.lstrip()
    if not start.startswith(_OPENING):
        return None
    for opens, closes in MARKS:
        if start.startswith(opens):
            thought, _, rest = start[len(opens) :].partition(closes)
            return thought, rest
    return None


def _closing(text: str) -> tuple[str, str] | None:
    """Thinking that only a closing mark ends, and what follows it. A mark inside a line of prose is a word and ends nothing."""
    quoted: list[tuple[int, int]] | None = None
    for _, closes in MARKS:
        at = text.find(closes)
        while at >= 0:
            quoted = _quoted(text) if quoted is None else quoted
            end = at + len(closes)
            if not _inside(quoted, at) and _stands_apart(text, at, end):
                return text[:at], text[end:]
            at = text.find(closes, end)
    return None


def _quoted(text: str) -> list[tuple[int, int]]:
    return [match.span() for match in _code.finditer(text)]


def _inside(spans: list[tuple[int, int]], at: int) -> bool:
    index = bisect_right(spans, (at, len(spans) + at + 1)) - 1
    return index >= 0 and spans[index][0] <= at < spans[index][1]


def _stands_apart(text: str, start: int, end: int) -> bool:
    """Returns True where a mark ends its line or its text, begins a line, or stands between a sentence or an object and what follows."""
    before, after = text[:start].rstrip(" \t"), text[end:].lstrip(" \t")
    return not after or after[0] in "\r\n{[" or not before or before[-1] in "\r\n}"
