"""Reads TOML for the simulator, with limits, and finds the line of a value by its path.

The library's reader takes memory by the square of a key's parts, and stack by the depth. Both are counted before it is
called. It knows no lines.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_left
from collections import Counter

from fabric.core.values.units import JSON
from simulator.texts.problems import Path

BYTES_MAX = 256 * 1024
PARTS_MAX = 8
"""Largest number of parts of a key, or of a table's name."""
DEPTH_MAX = 8
"""Largest depth of nested lists and tables in one value."""
MARKS_MAX = 20_000
"""Number of dots, equals signs, commas and opening brackets outside texts. It is about one for each value or part of a
key.
"""
WORD_CHARS_MAX = 200
"""Largest length of a number, a date or a name without quotes, in characters."""
TEXT = (
    r'"""(?:[^"\\]|\\.|"(?!""))*+"{3,5}|\'\'\'(?:[^\']|\'(?!\'\'))*+\'{3,5}'
    r'|"(?!"")(?:[^"\\\n]|\\.)*+"|\'(?!\'\')[^\'\n]*+\''
)
"""Pattern of a text in quotes, where the dot is any character."""
_TOKEN = re.compile(rf"{TEXT}|#[^\n]*+|[ \t\r]++|[\[\]{{}}.,=\n]|[^\s\[\]{{}}.,=#\"\']++", re.DOTALL)
_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


class NoToml(ValueError):
    """A text that is no TOML, or too much of it. ``sentence``: the reason. ``place``: its line, and its column if
    known.
    """

    def __init__(self, sentence: str, place: str) -> None:
        super().__init__(f"{place}: {sentence}")
        self.sentence, self.place = sentence, place


def toml_read(text: str) -> dict[str, JSON]:
    """Return the tree of a TOML text. Raises NoToml, also for too long, too deep or too large texts."""
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
    """Raise NoToml for a text over the limits. The count ends at an invalid token, where the library stops too."""
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
    """Return the exceeded limit as a sentence; empty for none."""
    if parts > PARTS_MAX:
        return f"this key has more than {PARTS_MAX} parts; make it shorter"
    if depth > DEPTH_MAX:
        return f"this value is nested more than {DEPTH_MAX} deep; make it flatter"
    if marks > MARKS_MAX:
        return f"the text has more than {MARKS_MAX} keys and values; make it shorter"
    if len(token) > WORD_CHARS_MAX and token[0] not in "\"'# \t\r":
        return f"this number or name has more than {WORD_CHARS_MAX} characters; make it shorter"
    return ""


_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_KEY = re.compile(r"""[ \t]*(?:([A-Za-z0-9_-]+)|"((?:[^"\\\n]|\\.)*)"|'([^'\n]*)')[ \t]*(\.?)""")
_STRING = re.compile(TEXT, re.DOTALL)
_PLAIN = re.compile(r"[^,\]}#\n]*")


class Lines:
    """Positions of the values of a TOML text that ``toml_read`` accepts."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at: dict[Path, int] = {(): 0}
        self._tables: Counter[Path] = Counter()
        self._ends = [found.start() for found in re.finditer("\n", text)]
        self._read()

    def line(self, path: Path) -> int:
        """Return the line, from 1, on which the value at a path begins; for a missing value, its parent's."""
        while path not in self._at:
            path = path[:-1]
        return bisect_left(self._ends, self._at[path]) + 1

    def _read(self) -> None:
        table: Path = ()
        at = self._blank(0)
        while at < len(self._text):
            if self._text.startswith("[", at):
                at, table = self._header(at)
            else:
                at = self._pair(at, table)
            at = self._blank(at)

    def _blank(self, at: int) -> int:
        found = _BLANK.match(self._text, at)
        return found.end() if found else at

    def _header(self, at: int) -> tuple[int, Path]:
        many = self._text.startswith("[[", at)
        end, keys = self._keys(at + 1 + many)
        table = self._place_keys(keys[:-1]) + keys[-1:]
        if many:
            self._at.setdefault(table, at)
            self._tables[table] += 1
            table = (*table, self._tables[table] - 1)
        self._note(table, at)
        return self._text.index("]", end) + 1 + many, table

    def _place_keys(self, keys: Path) -> Path:
        """Return the path of a header's keys: an array of tables means its last table."""
        path: Path = ()
        for key in keys:
            path = (*path, key)
            if self._tables[path]:
                path = (*path, self._tables[path] - 1)
        return path

    def _note(self, path: Path, at: int) -> None:
        for length in range(1, len(path) + 1):
            self._at.setdefault(path[:length], at)

    def _keys(self, at: int) -> tuple[int, Path]:
        keys: list[str] = []
        while found := _KEY.match(self._text, at):
            bare, quoted, raw, dot = found.groups()
            keys.append(bare or (raw if quoted is None else toml_read(f'key = "{quoted}"')["key"]))
            at = found.end()
            if not dot:
                break
        return at, tuple(keys)

    def _pair(self, at: int, table: Path) -> int:
        end, keys = self._keys(at)
        path = (*table, *keys)
        self._note(path, at)
        return self._value(self._blank(self._text.index("=", end) + 1), path)

    def _value(self, at: int, path: Path) -> int:
        """Record the positions inside a value; return its end."""
        if self._text.startswith(("[", "{"), at):
            return self._inside(at, path, named=self._text[at] == "{")
        found = _STRING.match(self._text, at) or _PLAIN.match(self._text, at)
        return found.end() if found else at + 1

    def _inside(self, at: int, path: Path, *, named: bool) -> int:
        at, count = self._blank(at + 1), 0
        while at < len(self._text) and self._text[at] not in "]}":
            if named:
                at = self._pair(at, path)
            else:
                self._note((*path, count), at)
                at, count = self._value(at, (*path, count)), count + 1
            at = self._blank(at)
            if self._text.startswith(",", at):
                at = self._blank(at + 1)
        return at + 1
