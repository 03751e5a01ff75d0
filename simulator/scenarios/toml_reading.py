"""The one reader of TOML. The library's own takes memory by the square of a key's parts, and its stack by the depth: both are counted before it is asked."""

from __future__ import annotations

import re
import tomllib
from typing import Any

JSON = Any
BYTES_MAX = 256 * 1024
PARTS_MAX = 8
"""Parts of one key, or of a table's name."""
DEPTH_MAX = 8
"""Lists and tables within each other, in one value."""
MARKS_MAX = 20_000
"""Dots, equals signs, commas and opening brackets outside texts: about one for each value and each part of a key."""
WORD_CHARS_MAX = 200
"""Characters of a number, a date or a name without quotes."""
TEXT = (
    r'"""(?:[^"\\]|\\.|"(?!""))*+"{3,5}|\'\'\'(?:[^\']|\'(?!\'\'))*+\'{3,5}'
    r'|"(?!"")(?:[^"\\\n]|\\.)*+"|\'(?!\'\')[^\'\n]*+\''
)
"""Pattern of a text in quotes, where the dot is any character."""
_TOKEN = re.compile(rf"{TEXT}|#[^\n]*+|[ \t\r]++|[\[\]{{}}.,=\n]|[^\s\[\]{{}}.,=#\"\']++", re.DOTALL)
_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


class NoToml(ValueError):
    """A text that is no TOML, or more of it than is read. ``sentence`` says why; ``place``: its line, and its column where one is known."""

    def __init__(self, sentence: str, place: str) -> None:
        super().__init__(f"{place}: {sentence}")
        self.sentence, self.place = sentence, place


def toml_read(text: str) -> dict[str, JSON]:
    """The tree of a TOML text. Raises NoToml, also for what is longer, deeper or more than is read."""
    if len(text.encode("utf-8", "surrogatepass")) > BYTES_MAX:
        raise NoToml(f"is longer than {BYTES_MAX} bytes; make it shorter", "")
    _count(text)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _PLACE.search(str(error))
        last = text.count("\n") + 1
        place = f"line {found[1]}, column {found[2]}" if found and found[1] else f"line {last}"
        said = _PLACE.sub("", str(error))
        raise NoToml(f"this is no TOML: {said[:1].lower()}{said[1:]}", place) from None


def _count(text: str) -> None:
    """Raises NoToml for a text that says more than is read. What is no token ends the count: the library stops there too."""
    parts, depth, marks, at = 1, 0, 0, 0
    while found := _TOKEN.match(text, at):
        token = found[0]
        if token in ("[", "{", ".", "=", ","):
            marks += 1
        if token == ".":  # noqa: S105 - a token of the language
            parts += 1
        elif token in ("[", "{"):
            parts, depth = 1, depth + 1
        elif token in ("]", "}"):
            parts, depth = 1, max(depth - 1, 0)
        elif token in ("=", ",", "\n"):
            parts = 1
        wrong = _too_much(parts, depth, marks, token)
        if wrong:
            raise NoToml(wrong, f"line {text.count(chr(10), 0, at) + 1}")
        at = found.end()


def _too_much(parts: int, depth: int, marks: int, token: str) -> str:
    """What of it is more than is read, as a sentence; empty: nothing is."""
    if parts > PARTS_MAX:
        return f"this key has more than {PARTS_MAX} parts; make it shorter"
    if depth > DEPTH_MAX:
        return f"this value is nested more than {DEPTH_MAX} deep; make it flatter"
    if marks > MARKS_MAX:
        return f"the text has more than {MARKS_MAX} keys and values; make it shorter"
    if len(token) > WORD_CHARS_MAX and token[0] not in "\"'# \t\r":
        return f"this number or name has more than {WORD_CHARS_MAX} characters; make it shorter"
    return ""
